#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The engine works on while somebody holds QEMU's big lock."""

import os
import re
import sys
import threading
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import PairCase, VmError  # noqa: E402


class Held:
    """The main loop of a VM stands still and keeps the big lock, for a while.

    The monitor is told to save memory to a FIFO, and the main loop waits in its
    open() until somebody reads there.
    """

    def __init__(self, vm):
        self.vm = vm
        self.fifo = f'{vm.run_dir}/fifo'
        self.error = None
        os.mkfifo(self.fifo)
        self.thread = threading.Thread(target=self._save, daemon=True)
        self.thread.start()

    def _save(self):
        try:
            self.vm.qmp('pmemsave', timeout=300, val=0, size=4096,
                        filename=self.fifo)
        except VmError as e:
            self.error = e

    @property
    def answered(self):
        return not self.thread.is_alive()

    def release(self):
        """Also after it was released, and if nobody came to the FIFO"""
        if not os.path.exists(self.fifo):
            return
        reader = os.open(self.fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.thread.join(60)
        os.close(reader)
        os.unlink(self.fifo)


class BigLock(PairCase):
    """b works on the memory of a, whose QEMU stands still."""

    def setUp(self):
        super().setUp()
        if self.a.iommu:
            self.skipTest('behind a virtual IOMMU the main loop is the engine')

    def rounds(self, count):
        """The client goes `count` times round; accesses to the port that the
        server's thread has made until the end of the last one."""
        self.done += count
        self.client.write(b'%d\n' % count)
        line = self.client.wait_output(rf'\b{self.done} rounds, (\d+) '
                                       r'accesses', 180)
        return int(line[1])

    def test_engine_works_while_the_big_lock_is_held(self):
        addr = self.pair.addr(self.a)
        self.done = 0
        server = self.spawn(self.a, f'rnic-hold server {addr}')
        server.wait_output('listening')
        self.client = self.spawn(self.b, f'rnic-hold client {addr}', None)
        self.client.wait_output('ready')
        server.wait_output('ready')
        # The thread runs, and each of its accesses takes the lock
        first, end = self.rounds(10), time.monotonic() + 120
        while self.rounds(1) == first:
            self.assertLess(time.monotonic(), end)
        # Let the server see the Sends so far, and arm its CQ again
        server.wait_output('event')

        held = Held(self.a)
        self.addCleanup(held.release)
        # Writes, Reads, and Sends with their completions: 100 times without an
        # access, which shows that the lock was held all that time. Until it is,
        # accesses go on; the thread may also just not run for a while. (The
        # server has receives for 4096.)
        after = self.rounds(10)
        for _ in range(25):
            now, after = after, self.rounds(100)
            if now == after:
                break
            time.sleep(0.2)
        self.assertEqual(now, after, 'nobody held the lock')
        self.assertFalse(held.answered, held.error)

        seen = len(re.findall('event', server.output))
        held.release()
        self.assertIsNone(held.error)
        end = time.monotonic() + 60
        while self.rounds(1) == after:
            self.assertLess(time.monotonic(), end, 'the lock is still held')
        # And the interrupt that the engine asked for has come
        while len(re.findall('event', server.output)) == seen:
            self.assertLess(time.monotonic(), end, 'the interrupt was lost')
            time.sleep(0.1)
        self.client.kill()
        self.client.wait()
        server.kill()
        server.wait()
        self.assert_works()


if __name__ == '__main__':
    unittest.main(verbosity=2)
