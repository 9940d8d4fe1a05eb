# SPDX-License-Identifier: GPL-2.0-or-later
"""The base of tests that run between two VMs."""

import os
import re
import signal
import time
import unittest

from .errors import VmError
from .pair import GREETING, PLUGGED, Pair, Traffic
from .perftest import wait_listen


def full():
    """Whether the slow repetitions are wanted too."""
    return bool(os.environ.get('RNIC_FULL'))


# The kernel prints these with a level of their own choice
_ALARMS = re.compile(r'\b(BUG|WARNING|Oops|Call Trace|UBSAN|KASAN|'
                     r'refcount_t|lockdep|possible .* detected|hung task|'
                     r'blocked for more than|general protection)\b')


class PairCase(unittest.TestCase):
    """Each test gets the shared pair, with default devices, and must leave it
    without RDMA objects and with a clean kernel log."""

    kernel = '6.12'
    pair_class = Pair

    def setUp(self):
        self.pair = self.pair_class.shared(self.kernel)
        self.a, self.b = self.pair.a, self.pair.b
        self.allowed = []
        self._spawned = []
        self.devices()
        for marked in [vm.mark(self.id()) for vm in (self.a, self.b)]:
            marked.wait(60, check=True)
        # The last to run: what the test itself registers comes before it
        self.addCleanup(self.check_guests)
        self.addCleanup(self._end_commands)

    def devices(self):
        """Which devices the test wants; others in a subclass."""
        self.pair.ensure(self.a)
        self.pair.ensure(self.b)

    def run(self, result=None):
        bad = len(result.failures) + len(result.errors) if result else 0
        super().run(result)
        if result and len(result.failures) + len(result.errors) > bad and \
                getattr(self, 'pair', None):
            self.pair.failed = True
        return result

    def allow(self, *patterns):
        """Kernel messages that this test causes."""
        self.allowed += patterns

    def kernel_log(self, vm):
        """Texts of the kernel since the test began."""
        return [k.text for k in vm.kmsg(self.id())]

    def wait_kernel(self, vm, pattern, timeout=60):
        """Wait until the kernel says that, and expect it."""
        self.allow(pattern)
        end = time.monotonic() + timeout
        while not any(re.search(pattern, k) for k in self.kernel_log(vm)):
            if time.monotonic() > end:
                self.fail(f'{vm.name}: the kernel did not say {pattern!r} in '
                          f'{timeout} s')
            time.sleep(0.1)

    def check_guests(self):
        for vm in (self.a, self.b):
            if not vm.alive:
                self.fail(f'{vm.name} is not running\n{vm.diagnosis()}')
        # Both at a time, and in few commands: each costs a tenth of a second
        idle = [self.pair.start_wait_idle(vm) for vm in (self.a, self.b)]
        for vm, waiting in zip((self.a, self.b), idle):
            result = waiting.wait(60)
            self.assertEqual(result.rc, 0, f'RDMA objects are left in '
                             f'{vm.name}:\n{result.output}')
        for vm in (self.a, self.b):
            log = vm.kmsg(self.id())
            bad = [k.text for k in vm.kmsg_problems(
                (GREETING, PLUGGED, *self.allowed), log)]
            bad += [k.text for k in log if _ALARMS.search(k.text)
                    and k.text not in bad
                    and not any(re.search(p, k.text) for p in vm.excused)]
            self.assertEqual(bad, [], f'kernel log of {vm.name}')

    # -- programs ---------------------------------------------------------

    def spawn(self, vm, command, stdin=b''):
        """A command that is killed at the end of the test."""
        started = vm.spawn(command, stdin)
        self._spawned.append(started)
        return started

    def _end_commands(self):
        for command in self._spawned:
            if command.running:
                try:
                    command.kill(signal.SIGKILL)
                    command.wait(20)
                except VmError:
                    pass    # check_guests() judges the VM

    def listen(self, vm, command, where):
        """Start a server and wait until it listens at `where`."""
        server = self.spawn(vm, command)
        wait_listen(vm, where)
        return server

    def rping(self, server, client, addr=None, count=10, size=64, port=7174,
              bind=None):
        """rping both ends with validation, the server bound to `bind` or
        `addr`."""
        addr = addr or self.pair.addr(server)
        bind = bind or addr
        common = f'-p {port} -v -V -C {count} -S {size}'
        ear = self.listen(server, f'rping -s -a {bind} {common}',
                          f'{bind.split("%")[0]}:{port}')
        talk = client.run(f'rping -c -a {addr} {common}', 120)
        heard = ear.wait(60)
        for text in (talk.output, heard.output):
            self.assertNotIn('mismatch', text)
        # its end sees the connection go, and says so with a status
        pings = re.findall(r'^ping data: (.*)', talk.output, re.M)
        self.assertEqual(len(pings), count, f'{talk}\n{heard}')
        self.assertEqual(
            len(re.findall(r'^server ping data: ', heard.output, re.M)), count)
        for i, data in enumerate(pings):
            self.assertTrue(data.startswith(f'rdma-ping-{i}: '), data[:40])

    def traffic(self, server=None, client=None, size=64, count=0):
        """Validated rping that goes on until something happens to it."""
        server, client = server or self.a, client or self.b
        addr = self.pair.addr(server)
        end = f'-C {count}' if count else ''
        ear = self.listen(server, f'rping -s -a {addr} -V -S {size} {end}',
                          f'{addr}:7174')
        talk = self.spawn(client, f'rping -c -a {addr} -V -S {size} {end}')
        self.pair.wait_flow(server, client)
        return Traffic(ear, talk)

    def bulk(self, server=None, client=None):
        """ib_write_bw that goes on until something happens to it."""
        server, client = server or self.a, client or self.b
        command = 'ib_write_bw -R -F -s 65536 --run_infinitely -D 1'
        ear = self.listen(server, command, '0.0.0.0:18515')
        talk = self.spawn(client, f'{command} {self.pair.addr(server)}')
        self.pair.wait_stat(server, 'rx_octets',
                            self.pair.stats(server)['rx_octets'] + 10 ** 6)
        return Traffic(ear, talk)

    def verbs(self, server, client, tests=(), addr=None, options='',
              timeout=180, bind=''):
        """rnic-verbs between two VMs, or `self` if they are one; the server
        listens at `bind`, or everywhere."""
        names = ' '.join(tests)
        addr = addr or self.pair.addr(server)
        self.allow(r'^rnic \S+ rnic\d+: CQ \d+ overflowed')
        if server is client:
            talk = client.run(f'rnic-verbs {options} self {addr} {names}',
                              timeout)
        else:
            ear = self.spawn(server, f'rnic-verbs {options} server {bind}')
            ear.wait_output('listening')
            talk = client.run(f'rnic-verbs {options} client {addr} {names}',
                              timeout)
            heard = ear.wait(60)
            self.assertEqual(heard.rc, 0, f'{talk}\n{heard}')
        self.assertEqual(talk.rc, 0, talk.output)
        passed = re.findall(r'^ok (\S+)', talk.output, re.M)
        expected = list(tests) or \
            client.run('rnic-verbs list', 30, True).output.split()
        self.assertEqual(passed, expected)
        return passed

    def assert_works(self):
        """A short proof that both ways work."""
        self.rping(self.a, self.b, count=3)
        self.rping(self.b, self.a, count=3)
