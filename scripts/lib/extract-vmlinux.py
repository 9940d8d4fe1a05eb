#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Unpack the ELF kernel from an x86 bzImage.

QEMU starts an uncompressed kernel with a PVH note directly, which spares the
guest from unpacking itself: seconds under emulation. The payload's place is in
the setup header (Documentation/arch/x86/boot.rst: setup_sects, payload_offset,
payload_length).
"""

import lzma
import struct
import subprocess
import sys


def payload(image):
    if image[0x202:0x206] != b'HdrS':
        sys.exit('not a bzImage: no setup header')
    setup_sects = image[0x1f1] or 4
    offset, length = struct.unpack_from('<II', image, 0x248)
    start = (setup_sects + 1) * 512 + offset
    return image[start:start + length]


def unpack(data):
    if data.startswith(b'\x7fELF'):
        return data
    if data.startswith(b'\xfd7zXZ\0'):
        # LZMADecompressor stops at the stream's end: the kernel's build
        # appends the unpacked size to the stream
        return lzma.LZMADecompressor().decompress(data)
    for magic, command in ((b'\x28\xb5\x2f\xfd', 'zstd'),
                           (b'\x1f\x8b', 'gzip'),
                           (b'\x02\x21\x4c\x18', 'lz4')):
        if data.startswith(magic):
            # the appended size makes the tool complain after all is written
            return subprocess.run([command, '-dc'], input=data,
                                  stdout=subprocess.PIPE, check=False).stdout
    sys.exit(f'unknown compression: {data[:6].hex()}')


def main():
    if len(sys.argv) != 3:
        sys.exit('usage: extract-vmlinux.py BZIMAGE OUTPUT')
    with open(sys.argv[1], 'rb') as f:
        kernel = unpack(payload(f.read()))
    if not kernel.startswith(b'\x7fELF'):
        sys.exit('the payload is no ELF file')
    with open(sys.argv[2], 'wb') as f:
        f.write(kernel)


if __name__ == '__main__':
    main()
