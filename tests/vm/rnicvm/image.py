# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest boots from, as scripts/guest-image prepares it."""

import functools
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from .errors import VmError
from .kept import hold

TOP = Path(__file__).resolve().parents[3]


def cache_dir():
    path = os.environ.get('RNIC_CACHE') or os.path.join(
        os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache'),
        'rnic')
    return Path(path)


class Image(NamedTuple):
    """A kernel that QEMU can start, and its initial RAM disk."""
    vmlinux: str
    initrd: str
    release: str
    kernel_dir: str
    rootfs: str

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def prepare(kernel='6.12', kernel_build=None, bare=False):
        """Build what is missing or out of date; progress goes to stderr.

        A bare image is without rnic.ko, provider and test programs.
        """
        command = [str(TOP / 'scripts' / 'guest-image')]
        if bare:
            command.append('--bare')
        if kernel_build:
            command += ['--kernel-build', str(kernel_build)]
        else:
            command += ['--kernel', kernel]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True,
                              check=False)
        if done.returncode:
            raise VmError('scripts/guest-image failed, see above')
        values = dict(line.split('=', 1) for line in done.stdout.splitlines())
        # For as long as this process may start VMs
        for folder in (os.path.dirname(values['RNIC_INITRD']),
                       values['RNIC_KERNEL_DIR'], values['RNIC_ROOTFS']):
            hold(folder)
        return Image(values['RNIC_VMLINUX'], values['RNIC_INITRD'],
                     values['RNIC_KERNEL_RELEASE'], values['RNIC_KERNEL_DIR'],
                     values['RNIC_ROOTFS'])
