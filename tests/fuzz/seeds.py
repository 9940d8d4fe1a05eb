#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes the seeds of a fuzz target into a folder: seeds.py TARGET FOLDER

Each is a list of steps as the target reads them (see its source): enough for
a mutation to start behind what takes many right octets at once.
"""

import itertools
import os
import struct
import sys


def u8(*values):
    return bytes(v & 0xFF for v in values)


def u16(value):
    return struct.pack("<H", value)


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value & (1 << 64) - 1)


# ---- fuzz-stream.c ----

RUN, DEAF, LEAVE = u8(10), u8(16), u8(18, 0)


def recv(length):
    return u8(12) + u16(length)


def post(what, length=0, stag=None, flags=0):
    """0 SEND, 1 SEND_INV, 2 WRITE, 3 READ, 5 LOCAL_INV"""
    return u8(14, what + flags) + u16(length) + (u8(stag) if stag else b"")


def write(region, offset, length, last=True):
    return u8(1, 2 + (0 if last else 16), region) + u16(offset) + u16(length)


def to_end(step, region, offset, more=0):
    """1 Write, 3 Read Response (of the oldest Read), 8 Read Request"""
    if step == 8:
        return u8(step, 32, region) + u16(more & 0xFFFF) + u8(offset)
    return u8(step, 32, region) + u16(offset) + u8(more)


def response(offset, length, last=True):
    return (u8(3, 2 + (0 if last else 16), 0) + u16(offset) + u16(length))


def send(length, mo=0, last=True, kind=0, stag=0):
    out = u8(5, 2 + (0 if last else 16), kind) + u16(length) + u8(mo)
    return out + (u8(stag) if kind in (1, 3) else b"")


def read_request(region, size, offset=0):
    return u8(8, 0, region) + u16(size) + u8(offset)


def terminate(err):
    return u8(9, 1, err) + bytes(46)


def imm(solicited=0):
    return u8(22, 1, solicited) + bytes(8)


def fetch_add(word, data, region=None):
    where = 0 if region is None else 2
    return u8(22, 2, 16 + where) + \
        (b"" if region is None else u8(region)) + u8(7, word) + u64(data)


def cmp_swap(word, data, op=2):
    return u8(22, 2, 0, op, 7, word) + u64(data)


def atomic_response(value=5):
    return u8(22, 0, 0) + u64(value)


def stream_seeds():
    talk = [
        send(50) + send(20, last=False) + send(30, mo=20) + RUN,
        send(10, kind=1, stag=5) + send(10, kind=2) + RUN + write(5, 0, 1),
        write(0, 0, 3000) + write(1, 8990, 10) + write(0, 0, 0) + RUN,
        write(0, 100, 30000, last=False) + write(0, 30100, 9000) + RUN,
        read_request(2, 5000) + read_request(0, 40000) + RUN + RUN,
        read_request(0, 0) + read_request(4, 10) + RUN,
        post(3, 200) + post(3, 0) + RUN + response(0, 200) + response(0, 0) +
        RUN + post(3, 300) + RUN + response(0, 100, last=False) +
        response(100, 200) + RUN,
        post(0, 100) + post(1, 0) + post(2, 39000) + post(5, 0, 5) +
        post(0, 5, flags=0x40) + post(0, 5, flags=0x80) + RUN + RUN,
        terminate(10) + RUN,
        to_end(1, 5, 0) + to_end(1, 1, 8000) + to_end(8, 2, 7) +
        post(3, 77) + RUN + to_end(3, 0, 0) + RUN,
        to_end(1, 0, 9, 1) + RUN,
        send(10, kind=1, stag=2) + send(10, kind=3, stag=5) + RUN,
        send(10, kind=1, stag=3) + RUN,
        send(10, kind=1, stag=4) + RUN,
        post(0, 30000) + DEAF + RUN + u8(19, 0) + DEAF + RUN + u8(20, 13),
        post(2, 30000) + DEAF + post(2, 39999) * 12 + RUN + u8(19, 1) +
        u8(20, 13) + RUN + DEAF + RUN,
        write(0, 0, 60000)[:9] + u8(17, 0) + RUN,
        u8(21, 3) + u16(7) + send(60) + post(0, 600) + RUN + RUN,
        send(10) * 3 + u8(18, 1) + RUN + RUN,
        send(70) + LEAVE + RUN + recv(10) + post(0, 1),
    ]
    # RFC 7306
    seven = [
        fetch_add(0, 5) + cmp_swap(1, 9) + read_request(0, 16) +
        fetch_add(0, -1) + RUN,
        fetch_add(0, 5, 2) + RUN, fetch_add(9, 5, 4) + RUN,
        cmp_swap(0, 1, 1) + RUN, u8(22, 2, 20, 7) + u64(4) + u64(1) + RUN,
        imm() + write(0, 0, 100) + imm(1) + send(5) + imm() + RUN,
        send(5, last=False) + imm() + RUN,
        post(2, flags=0x20) + post(3, flags=0x20) + post(0, 0, flags=0x20) +
        post(1, 9, flags=0x20) + RUN + atomic_response() + atomic_response() +
        RUN,
        post(3, 8) + post(2, flags=0x20) + RUN + atomic_response() + RUN,
        post(2, flags=0x20) + RUN + terminate(27) + RUN, atomic_response(),
        fetch_add(0, 1) * 9 + RUN,
    ]
    for steps in seven:
        for second in (0x00, 0x02, 0x06):
            yield u8(0xE1, 1) + u8(second, 4, 4) + recv(400) * 4 + steps
            yield u8(0xE1, 1) + u8(second, 4, 4) + recv(400) * 4 + \
                u8(21, 7) + u16(0) + steps
    # Cut everywhere
    for size in (1, 2, 5, 16, 17, 18, 19, 33, 47, 100):
        for crc in (0, 2):
            yield u8(0xE1, 0) + u8(crc, 4, 4) + u8(21, size) + u16(0) + \
                send(30) + write(0, 0, 3000) + read_request(2, 9) + \
                send(20, last=False) + send(30, mo=20) + write(1, 8990, 10) + \
                send(10, kind=1, stag=5) + terminate(3) + RUN
    # gate off, markers, initiator, CRC, SRQ and kernel in some mixtures
    for i, steps in enumerate(talk):
        for first, second in itertools.product((0xE1, 0xE9, 0xF5),
                                               (0x00, 0x01, 0x02, 0x07)):
            yield u8(first, 0) + u8(second, 4, 4) + recv(400) * 2 + steps
    yield u8(0xE0, 0) + u8(0x20, 2, 2) + write(0, 0, 0) + post(0, 9) + RUN
    yield u8(0xE0, 0) + u8(0x21, 2, 2) + RUN + post(0, 9) + RUN
    yield u8(0xE0, 0) + u8(0x41, 2, 2) + RUN + response(0, 0) + RUN
    yield u8(0xE3, 0, 0) + u8(0x05, 2, 2) + post(0, 4000) + RUN + RUN


# ---- fuzz-mpa.c ----

def frame(which, reply=False, rev=1, bits=0, more=0):
    return u8(6, which, (1 if reply else 0) | (2 if rev == 2 else 0) | bits,
              more)


def mpa_seeds():
    run, listen = u8(0, 0), u8(2, 0, 0x14)
    peer_in, peer_out = u8(3, 0), u8(5, 0)
    accept = u8(12, 0, 0x05, 0)
    reject = u8(12, 0, 0x40, 0)
    connect, connect_self = u8(4, 1, 0x05), u8(4, 1, 0x15)
    rtr, leave, destroy = u8(10, 0), u8(11, 0), u8(15, 0)
    timeout = u8(18, 24)
    for config in (0x00, 0x81, 0x82, 0xB8, 0x98, 0xA9, 0x40, 0xBA):
        head = u8(config, 0) + listen
        for request in (frame(0), frame(0, bits=8), frame(0, bits=4),
                        frame(0, rev=2), frame(0, rev=2, more=0x0F),
                        frame(0, rev=2, more=0x0B), frame(0, more=0x40) +
                        u16(7), frame(0, bits=0x40) + u16(300)):
            got = head + peer_in + run + request + run
            yield got + accept + run + rtr + run + leave + run
            yield got + accept + run + u8(14, 0, 0) + run + timeout + run
            yield got + reject + run
        got = head + peer_in + run + frame(0, rev=2, more=0x0F) + run
        yield got + leave + run + accept
        yield got + accept + timeout + run
        yield got + accept + u8(17, 0) + run + u8(17, 1)
        yield got + accept + destroy + run
        yield got + listen + accept + run
        yield head + peer_in + run + timeout + run
        out = u8(config, 0) + connect + run + peer_out
        for reply in (frame(0, True), frame(0, True, bits=16),
                      frame(0, True, 2, more=0x07), frame(0, True, 2, more=0x0B),
                      frame(0, True, 2, more=0x01), frame(0, True, 2),
                      frame(0, True, 2, bits=16), frame(0, True, bits=0x48) +
                      u16(100)):
            yield out + reply + run + leave + run
            yield out + reply + run + u8(14, 1, 2) + run
        yield out + timeout + run
        yield out + u8(16, 0) + run + u8(16, 1)
        yield out + u8(15, 1) + run
        yield head + connect_self + run + accept + run + run + u8(14, 1, 0)
        yield head + connect_self + run + reject + run
    yield u8(0, 0) + listen + u8(19, 1, 4) + peer_in + run
    # Posted before RTS, with and without a doorbell, and looked for
    for more, bits in itertools.product(range(4), range(4)):
        head = u8(0x82, more) + listen + connect_self + u8(20, 1, bits) + \
            u8(18, 11) + run + accept + run
        yield head + u8(20, 1, bits) + u8(18, 11) + run + run


# ---- fuzz-wqe.c ----

def sge(which, length):
    return u8(which, length)


def wqe(side, index, opcode, flags=1, sges=(), regions=0, inline=20,
        wrong=u8(0)):
    """flags & 8: RNIC_WQE_INLINE; wrong: count, then offsets and values"""
    which = side | index << 1 | flags << 4
    if flags & 8:
        regions = 1         # says that a length follows
    bits = next(bits for bits in range(256) if bits % 7 == opcode and
                bits >> 3 & 3 == regions and bits >> 5 & 3 == regions)
    head = u8(0, which, bits)
    if opcode in (5, 6):    # LOCAL_INV, REG_MR
        return head + wrong
    head += u16(0)
    if flags & 8:
        return head + u16(inline) + wrong
    return head + u8(len(sges)) + b"".join(sges) + wrong


def seven(side, index, opcode, flags=1, word=0, sink=1, data=5):
    """RFC 7306, with bit 5 of the first octet: 7 IMM, 9 FETCH_ADD,
    10 CMP_SWAP, 11 CMP_SWAP_MASKED"""
    which = side | index << 1 | flags << 4
    bits = next(bits for bits in range(256) if bits % 12 == opcode and
                bits >> 5 & 3 == 0)
    if opcode == 7:
        return u8(0, which, bits, data, 0)
    return u8(0, which, bits, word) + sge(sink, 8) + u8(data, data, 0)


def rqe(side, index, sges, wrong=u8(0)):
    return u8(3, side | index << 1, len(sges)) + b"".join(sges) + wrong


def pub(side, count, rq=False, ring=True):
    return u8(5, side | (2 if rq else 0) | count << 2 | (64 if ring else 0))


def wqe_seeds():
    rest, take = u8(15), u8(10, 0) + u8(10, 1)
    for bits, link in itertools.product((0x04, 0x00, 0x0D, 0x16),
                                        (0x18, 0x19, 0x1A, 0x1D)):
        for srq in (0, 1):
            head = u8(bits, srq, 0x45, 0x86, link)
            receives = rqe(1, 0, [sge(1, 200)]) + rqe(1, 1, [sge(0, 9)]) + \
                rqe(1, 2, [sge(0, 99), sge(1, 80)]) + pub(1, 3, rq=True)
            yield head + receives + wqe(0, 0, 0, 1, [sge(0, 100)]) + \
                wqe(0, 1, 2, 1, [sge(2, 30)]) + wqe(0, 2, 0, 9) + \
                pub(0, 3) + rest + take + rest
            yield head + wqe(0, 0, 3, 1, [sge(1, 50), sge(0, 20)]) + \
                wqe(0, 1, 2, 5, [sge(0, 20)]) + pub(0, 2) + rest + take
            yield head + wqe(0, 0, 6) + wqe(0, 1, 5, 1, regions=3) + \
                wqe(0, 2, 6) + pub(0, 3) + rest + take
            yield head + wqe(0, 0, 4, 1, [sge(1, 20)], 1) + pub(0, 1) + rest
            yield head + receives + wqe(0, 0, 1, 1, [sge(0, 9)], 0) + \
                pub(0, 1) + rest + u8(12, 0x00) + rest
            yield head + receives + wqe(0, 0, 0, 1, [sge(0, 200)]) * 2 + \
                pub(0, 7) + rest + rest + u8(12, 4) + rest
            yield head + receives + u8(11, 0x60, 3) + u32(64) + u64(-1) + \
                wqe(0, 0, 0, 1, [sge(0, 9)]) + pub(0, 1) + rest
            yield head + take + u8(12, 2, 4) + u16(50) + receives + \
                wqe(0, 0, 0, 1, [sge(0, 9)]) + pub(0, 1) + rest + u8(13, 20) + \
                rest
            yield u8(bits | 32, srq, 0x45, 0x86, link) + receives + \
                seven(0, 0, 9) + seven(0, 1, 10, 5, 3) + seven(0, 2, 11) + \
                seven(0, 3, 7) + pub(0, 4) + rest + rest + take
            for count in (3, 17, 31, 255):
                yield head + rqe(1, 0, [sge(1, 20)], u8(1, 0, count)) + \
                    pub(1, 1, rq=True) + wqe(0, 0, 0, 9) + pub(0, 1) + rest
                yield head + receives + \
                    wqe(0, 0, 0, 1, [sge(0, 20)], wrong=u8(1, 2, count)) + \
                    pub(0, 1) + rest
            for length in (32, 33, 480, 481):
                yield head + receives + wqe(0, 0, 0, 9, inline=length) + \
                    pub(0, 1) + rest + rest
            yield head + pub(0, 7) + u8(5, 0xC0) + u32(0x7FFFFFFF) + rest


# ---- fuzz-admin.c ----

def command(opcode, ident=0, bits=0, more=b""):
    return u8(13, opcode, ident, bits) + more + u8(0, 1)


def desc(levels, at=64):
    return u8(levels) + (u16(at) if levels == 0 else b"")


def admin_seeds():
    every = b"".join([
        command(1, 1, 0), command(3, 2, 4, desc(0, 0x100)),
        command(5, 2, 4, desc(0, 0x200)), command(7, 1, 2, desc(0, 0x300)),
        command(8, 1, 1), command(9, 1), command(27, 0, 4, u16(9)),
        command(11, 3, 2, desc(0, 0x400)), command(12, 0, 2), command(13, 0),
        command(15, 2, 7, u16(4096) + desc(0, 0x500)), command(15, 2, 8),
        command(16, 2, 3), command(17, 0), command(17, 1), command(17, 2),
        command(18, 0, 64, u8(1)), command(19, 0, 0, u8(1)),
        command(20, 0, 0), command(20, 0, 1),
        command(26, 0, 60, u16(0x600)), command(26, 1, 60, u16(0x600)),
    ])
    ends = b"".join([command(14, n) for n in range(3)] +
                    [command(10, 0), command(6, 0), command(6, 1),
                     command(22, 0), command(4, 1), command(4, 0),
                     command(2, 0)])
    yield u8(0) + every + ends
    yield u8(4) + every + u8(1, 7) + every
    yield u8(0x10) + every
    yield u8(0x08) + u8(1, 0) + every
    posts = b"".join(u8(12, 0, which) for which in (0, 0x20, 1, 2)) * 3
    modify = b"".join(command(12, n, 2) for n in range(3))
    yield u8(0) + posts + modify + ends
    yield u8(0) + command(6, 0) + command(6, 1) + posts + modify + ends
    # Page lists of one to three levels
    for levels in (1, 2, 3):
        tables = b"".join(u8(3, 8 | n << 4 | (n - 1 if n else 3), 0)
                          for n in range(1, 4))
        pages = b"".join(u8(3, 0, n, 20 + n) for n in range(4))
        yield u8(0) + tables + pages + \
            command(15, 1, 0x27, u8(9 * levels + 12, 0) +
                    u8(levels | (levels - 1) << 2)) + \
            command(15, 1, 7, u16(9000) + u8(levels | (levels - 1) << 2)) + \
            command(5, 2, 4, u8(levels | (levels - 1) << 2))
    # Connections: to itself, to elsewhere, from elsewhere
    answer = u8(13, 24, 5, 0) + u16(9) + u8(0, 1)
    connect = u8(13, 23, 0, 1) + u8(0, 0) + u16(9) + u8(0, 1)
    away = u8(13, 23, 1, 1) + u8(0, 1) + u16(9) + u8(0, 1)
    yield u8(0) + connect + u8(11) + answer + u8(11) + ends
    yield u8(0) + away + u8(8, 1) + u8(11) + u8(7, 25) + ends
    yield u8(0) + u8(8, 2) + u8(11) + answer + u8(11) + command(20) + ends
    yield u8(0) + u8(8, 2) + u8(11) + u8(9, 1) + answer + u8(9, 0) + u8(11)
    yield u8(1) + connect + away + u8(11)
    # Memory that goes, and that changes
    for page in (0, 1, 2, 10, 11, 15, 27, 30):
        yield u8(0) + u8(4, page) + every
        yield u8(0) + u8(5, 0x80, 3) + u32(page * 4096) + every
        yield u8(0) + u8(5, 0x60, 2) + u32(page * 4096) + u64(-1) + every
    yield u8(0) + u8(0, 0, 4) + u8(0, 4, 4, 1) + u8(0, 6, 0x44, 9, 8)
    yield u8(0) + u8(6, 0, 255) + u8(2, 0, 200) + bytes(200) + u8(11)
    yield u8(0) + u8(10, 1, 4) + connect + u8(10, 2, 4) + away + u8(11)


# ---- fuzz-wire.c ----

def wire_seeds():
    request, reply = b"MPA ID Req Frame", b"MPA ID Rep Frame"
    for flags, rev, pd in itertools.product(
            (0x00, 0x40, 0x50, 0xD0, 0x70), (1, 2),
            (b"", b"\x80\x01\xc0\x01", b"\x3f\xff\x3f\xff" + bytes(100))):
        tail = u8(flags, rev) + struct.pack(">H", len(pd)) + pd
        yield u8(0, 0) + request + tail + u8(0x1F, 4, 4)
        yield u8(0, 1) + reply + tail + u8(0x3F, 4, 4)
    for opcode in range(12):
        for tagged in (0xC1, 0x41):
            ulpdu = u8(tagged, 0x40 | opcode) + bytes(68)
            for qn in range(4):
                ulpdu = ulpdu[:6] + struct.pack(">III", qn, 1, 0) + ulpdu[18:]
                for length in (14, 18, 22, 26, 30, 46, 70, 100):
                    yield u8(1, 1) + u16(length) + ulpdu + bytes(40)
                    yield u8(2) + ulpdu[:length]
    for pos, length in ((0, 100), (508, 1000), (512, 64768), (1000, 14)):
        yield u8(4) + u64(pos) + u16(length) + u8(1) + bytes(64)
        yield u8(3) + struct.pack(">H", length & 0x3FF) + bytes(1100)


# ---- QEMU's generic fuzzer: its operations, between separators ----

def qemu_seeds():
    def register(offset, value):
        # a write of 32 bits to the first region, the registers
        return u8(3, 2, 0, 0, 0) + struct.pack("<IQ", offset, value)

    def pattern(octets):
        return u8(7, 0, 0) + octets

    def entry(opcode, *words):
        body = u8(opcode, 0, 0, 0) + bytes(4)
        for word in words:
            body += struct.pack("<Q" if word >= 1 << 32 else "<I",
                                word & 0xFFFFFFFFFFFFFFFF)
        return body.ljust(128, b"\0")

    def buf(addr, length):
        return (addr, 0, length, 0, 0, 0)

    def address(last, port=0):
        # struct rnic_sockaddr: family, port, scope, address
        return struct.unpack("<IIIIII", struct.pack(
            "<H", 4) + struct.pack(">H", port) + bytes(4) +
            bytes([10, 0, 0, last]) + bytes(12))

    def run(entries):
        # Each read takes the next pattern, and a command is one read
        enable = [register(0x100, 0x100000), register(0x108, 0x110000),
                  register(0x110, 8), register(0x10, 1)]
        return b"FUZZ".join([pattern(entry) for entry in entries] + enable +
                            [register(0x114, 8), register(0x114, 16)])

    objects = [
        entry(1, 0, 0, 0x120000, 0),
        entry(3, 0, 0, 64, 4096, *buf(0x130000, 8192)),
        entry(3, 1, 1, 64, 4096, *buf(0x140000, 8192)),
        entry(5, 1, 1, 0, 64, 4096, 0, *buf(0x150000, 8192)),
        entry(11, 1, 1, 0, 1, 1, 0, 1, 64 | 64 << 16, 16, 16, 0, 4096, 8192,
              0, *buf(0x160000, 12288), 0x170000, 0),
        entry(15, 1, 7, 0, 1, 0x1000, 0, *buf(0x180000, 4096)),
        entry(18, *address(1), 24),
        entry(23, 1, 1 | 1 << 16, *address(1), *address(1, 7471)),
    ]
    yield run(objects)
    for opcode in range(31):
        yield run(objects[:4] + [entry(opcode, 1, 1, 0, 1)])
        yield run(objects[:5] + [entry(opcode, 1, 0, 1, 1)])
    for offset in range(0, 0x120, 4):
        yield register(offset, 1) + b"FUZZ" + register(offset, 0xFFFFFFFF)


SEEDS = {
    "admin": admin_seeds,
    "mpa": mpa_seeds,
    "qemu": qemu_seeds,
    "stream": stream_seeds,
    "wire": wire_seeds,
    "wqe": wqe_seeds,
}


def main():
    target, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    for i, seed in enumerate(SEEDS[target]()):
        with open(os.path.join(folder, f"seed-{i:04}"), "wb") as f:
            f.write(seed)


if __name__ == "__main__":
    main()
