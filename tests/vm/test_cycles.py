#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Stop, reset, unplug, unload and crash under load, again and again: nothing
is left behind in QEMU, at neither end."""

import sys
import time
import unittest
from pathlib import Path
from statistics import median

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import Pair, PairCase, Usage, full  # noqa: E402

# How often; those that boot a guest take long
CYCLES = 50 if full() else 3
RESETS = 50 if full() else 2
CRASHES = 50 if full() else 1

# KiB that the heap may grow by in a cycle. Now and then QEMU doubles a table of
# its own by some MiB, and a new guest takes some cycles to settle: so it is the
# median, and of many.
GROWTH = 64
MANY = 20


def more(now, first):
    """Whether there are more descriptors or threads."""
    return any(a > b for a, b in zip(now[:2], first[:2]))


class CycleCase(PairCase):
    """One thing again and again while a stream of messages runs."""

    def repeat(self, count, once):
        """once(n) `count` times, of which the first is a warm-up."""
        usage, start = {self.a: [], self.b: []}, time.monotonic()
        for n in range(count):
            once(n)
            for vm, taken in usage.items():
                vm.wait_idle()
                taken.append(self.settled(vm, taken[0] if taken else None))
        print(f'{self.id()}: {count} times in '
              f'{time.monotonic() - start:.0f} s', file=sys.stderr)
        for vm, taken in usage.items():
            first, last = taken[0], taken[-1]
            print(f'    {vm.name}: {first}, and at the end {last}',
                  file=sys.stderr, flush=True)
            self.assertFalse(more(last, first), f'{vm.name}: {first}; {last}')
            if count >= MANY:
                growth = median(b.memory - a.memory
                                for a, b in zip(taken, taken[1:]))
                self.assertLessEqual(growth, GROWTH, f'{vm.name}: KiB a cycle')

    @staticmethod
    def settled(vm, first):
        """What QEMU holds, when that is no more than at first, or not so after a
        while: a thread may be about to end."""
        end = time.monotonic() + 30
        now = Usage.of(vm)
        while first and more(now, first) and time.monotonic() < end:
            time.sleep(0.2)
            now = Usage.of(vm)
        return now

    def stream(self, n):
        """Validated messages between a and b, each end in turn the server;
        the command in b, which outlives what happens to a."""
        if n % 2:
            t = self.traffic(self.a, self.b)
            return t, t.client
        t = self.traffic(self.b, self.a)
        return t, t.server

    def expect_disconnect(self, command):
        result = command.wait()
        self.assertIn('DISCONNECT EVENT', result.output)
        self.assertNotIn('mismatch', result.output)

    def boot_again(self, reset):
        """Resets a, and starts its kernel log for check_guests() again."""
        reset()
        self.a.mark(self.id()).wait(60, check=True)


class Cycles(CycleCase):
    """Of VMs whose guests know of it, or need not."""

    def test_stop_and_go_on(self):
        def once(n):
            t, _ = self.stream(n)
            for vm in (self.a, self.b):
                vm.qmp('stop')
                vm.qmp('cont')
                self.pair.wait_flow()
            self.assertTrue(t.client.running and t.server.running)
            t.client.kill()
            for result in t.wait():
                self.assertNotIn('mismatch', result.output)

        self.repeat(CYCLES, once)

    def test_machine_reset(self):
        def once(n):
            t, survivor = self.stream(n)
            self.boot_again(self.a.reset)
            self.expect_disconnect(survivor)
            t.wait()

        self.repeat(RESETS, once)
        self.assert_works()

    def test_unplug_and_plug(self):
        def once(n):
            t, survivor = self.stream(n)
            self.pair.unplug(self.a)
            self.expect_disconnect(survivor)
            for result in t.wait():
                self.assertNotIn('mismatch', result.output)
            self.pair.plug(self.a)

        self.repeat(CYCLES, once)
        self.assert_works()

    def test_function_reset(self):
        def once(n):
            t, survivor = self.stream(n)
            self.a.run('echo 1 >/sys/class/infiniband/rnic0/device/reset', 90,
                       True)
            self.expect_disconnect(survivor)
            for result in t.wait():
                self.assertNotIn('mismatch', result.output)
            self.pair.configure(self.a)

        self.repeat(CYCLES, once)
        self.assert_works()

    def test_unload_and_load(self):
        def once(n):
            t, survivor = self.stream(n)
            self.a.run('rmmod rnic', 90, True)
            self.expect_disconnect(survivor)
            for result in t.wait():
                self.assertNotIn('mismatch', result.output)
            self.pair.reload(self.a)

        self.repeat(CYCLES, once)
        self.assert_works()


class CrashPair(Pair):
    """With memory for another kernel, which gets the same RAM disk."""

    options = {'memory': '1200M',
               'append': ('crashkernel=448M', 'retain_initrd')}


class Crash(CycleCase):
    """The kernel of a crashes, and another one takes over, without the driver
    having stopped the device: the new driver finds it at work."""

    pair_class = CrashPair

    def setUp(self):
        super().setUp()
        if self.a.iommu:
            self.skipTest('what an IOMMU does with a crash kernel is its own '
                          'subject')

    def crash(self):
        self.a.push(f'{self.a.image.kernel_dir}/vmlinuz', '/root/vmlinuz')
        self.a.run('rnic-crash-kernel /root/vmlinuz', 120, True)
        before = self.a.stats()['rx_messages']
        self.a.spawn('echo c >/proc/sysrq-trigger')
        self.a.agent.guest_was_reset()
        self.a.wait_ready()
        self.a.run('test -e /proc/vmcore', 30, True)
        # Until the new driver reset it the device answered to the peer; the
        # old kernel's counters would be larger
        self.assertLess(self.a.stats()['rx_messages'], before)

    def test_crash_kernel_finds_the_device_at_work(self):
        def once(n):
            t, survivor = self.stream(n)
            self.crash()
            self.expect_disconnect(survivor)
            t.wait()
            self.assertEqual([k.text for k in self.a.kmsg_problems()], [])
            self.assert_works()
            self.boot_again(self.a.reset)

        self.repeat(CRASHES, once)
        self.assert_works()


if __name__ == '__main__':
    unittest.main(verbosity=2)
