# SPDX-License-Identifier: GPL-2.0-or-later
"""What a QEMU process holds of the host, to find what it does not give back."""

import os
import re
from pathlib import Path
from typing import NamedTuple


class Usage(NamedTuple):
    """Open descriptors, threads, and KiB of its main thread's heap."""
    descriptors: int
    threads: int
    memory: int

    @classmethod
    def of(cls, vm):
        proc = Path(f'/proc/{vm.process.pid}')
        return cls(len(os.listdir(proc / 'fd')), _threads(proc), _memory(proc))

    def __str__(self):
        return (f'{self.descriptors} descriptors, {self.threads} threads, '
                f'{self.memory} KiB of heap')


def _threads(proc):
    """Without those of QEMU's own pool, which come and go."""
    count = 0
    for task in (proc / 'task').iterdir():
        try:
            count += (task / 'comm').read_text().strip() != 'worker'
        except FileNotFoundError:
            pass
    return count


def _memory(proc):
    """The heap of QEMU's main thread, where devices are made and ended.

    The vCPU threads' heaps grow and shrink by tens of MiB with what the guest
    does; what the engine's thread takes is counted in tests/core.
    """
    counted = False
    for line in (proc / 'smaps').read_text(errors='replace').splitlines():
        if re.match(r'[0-9a-f]+-', line):
            counted = line.endswith(' [heap]')
        elif counted and (m := re.match(r'Rss:\s+(\d+) kB', line)):
            return int(m[1])
    return 0
