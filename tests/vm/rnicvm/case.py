# SPDX-License-Identifier: GPL-2.0-or-later
"""The bases of tests in VMs: of their own, or in a pair that all share."""

import os
import re
import signal
import time
import unittest

from .errors import VmError
from .fabric import claim_fabric_id, release_fabric_id
from .pair import Pair, Traffic
from .perftest import ATTEMPTS, wait_listen
from .vm import boot, start_all


def full():
    """Whether the slow repetitions are wanted too."""
    return bool(os.environ.get('RNIC_FULL'))


# The kernel prints these with a level of their own choice
_ALARMS = re.compile(r'\b(BUG|WARNING|Oops|Call Trace|UBSAN|KASAN|'
                     r'refcount_t|lockdep|possible .* detected|hung task|'
                     r'blocked for more than|general protection)\b')


class GuestCase(unittest.TestCase):
    """Tests in guests that several of them share, self.vms. Each must leave
    them without RDMA objects and with a clean kernel log."""

    kernel = '6.12'
    vms = ()

    def setUp(self):
        self.allowed = []
        self._spawned = []
        for marked in [vm.mark(self.id()) for vm in self.vms]:
            marked.wait(60, check=True)
        # The last to run: what the test itself registers comes before it
        self.addCleanup(self.check_guests)
        self.addCleanup(self._end_commands)

    def run(self, result=None):
        bad = len(result.failures) + len(result.errors) if result else 0
        super().run(result)
        if result and len(result.failures) + len(result.errors) > bad:
            self.spoilt()
        return result

    def spoilt(self):
        """The test failed: what it leaves is not for the next one."""

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

    def wait_traced(self, vm, start, pattern, timeout=60):
        """Wait until the device has traced that since a vm.trace_size()."""
        end = time.monotonic() + timeout
        while not (found := re.search(pattern, vm.traced(start))):
            if time.monotonic() > end:
                self.fail(f'{vm.name}: no {pattern!r} in {timeout} s in\n'
                          f'{vm.traced(start)[-3000:]}')
            time.sleep(0.05)
        return found

    def check_guests(self):
        for vm in self.vms:
            if not vm.alive:
                self.fail(f'{vm.name} is not running\n{vm.diagnosis()}')
        # All at a time, and in few commands: each costs a tenth of a second
        idle = [vm.start_wait_idle() for vm in self.vms]
        for vm, waiting in zip(self.vms, idle):
            result = waiting.wait(120)
            self.assertEqual(result.rc, 0, f'RDMA objects are left in '
                             f'{vm.name}:\n{result.output}')
        for vm in self.vms:
            log = vm.kmsg(self.id())
            bad = [k.text for k in vm.kmsg_problems(self.allowed, log)]
            bad += [k.text for k in log if _ALARMS.search(k.text)
                    and k.text not in bad
                    and not any(re.search(p, k.text) for p in vm.excused)]
            self.assertEqual(bad, [], f'kernel log of {vm.name}')

    def another_fabric(self):
        """A fabric id until the end of the test."""
        number = claim_fabric_id()
        self.addCleanup(release_fabric_id, number)
        return number

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
                    command.wait(60)
                except VmError:
                    pass    # check_guests() judges the VM

    def listen(self, vm, command, where):
        """Start a server and wait until it listens at `where`."""
        server = self.spawn(vm, command)
        wait_listen(vm, where)
        return server


class OwnVmCase(GuestCase):
    """Each class has VMs of its own, and new ones after a failure."""

    _spoilt = False
    _boots_failed = 0
    _fabrics = ()

    @classmethod
    def new_vms(cls):
        """The VMs, not started yet. A subclass keeps those that it wants to
        name."""
        raise NotImplementedError

    @classmethod
    def fabric(cls, index=0):
        """The id of a fabric that only this class has."""
        while len(cls._fabrics) <= index:
            number = claim_fabric_id()
            # Behind the end of the VMs: that is registered later
            cls.addClassCleanup(release_fabric_id, number)
            cls._fabrics = (*cls._fabrics, number)
        return cls._fabrics[index]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls._fabrics = ()
        cls._spoilt = False
        cls.vms = ()
        vms = cls.new_vms()
        cls.addClassCleanup(cls._close)
        boot(lambda: cls._start(vms), cls._restart)

    @classmethod
    def _restart(cls):
        cls._close()
        cls._start(cls.new_vms())

    @classmethod
    def _start(cls, vms):
        cls.vms = vms
        try:
            start_all(vms)
            cls.started()
        except BaseException as e:
            cls._spoilt = True
            cls._boots_failed += 1
            for vm in vms:
                vm.collect(repr(e))
            raise
        cls._spoilt = False
        cls._boots_failed = 0

    @classmethod
    def started(cls):
        """What is to be done once in new VMs."""

    @classmethod
    def _close(cls):
        for vm in cls.vms:
            vm.close(cls._spoilt)

    def setUp(self):
        cls = type(self)
        if cls._boots_failed > 1:
            raise VmError('VMs did not start twice, see above')
        if cls._spoilt or not all(vm.alive for vm in cls.vms):
            cls._restart()
        super().setUp()

    def spoilt(self):
        type(self)._spoilt = True


class PairCase(GuestCase):
    """Each test gets the shared pair, with default devices."""

    pair_class = Pair

    def setUp(self):
        self.pair = self.pair_class.shared(self.kernel)
        self.a, self.b = self.pair.a, self.pair.b
        self.devices()
        super().setUp()

    @property
    def vms(self):
        return self.a, self.b

    def devices(self):
        """Which devices the test wants; others in a subclass."""
        self.pair.ensure(self.a)
        self.pair.ensure(self.b)

    def spoilt(self):
        if getattr(self, 'pair', None):
            self.pair.failed = True

    # -- programs ---------------------------------------------------------

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
        # What the device counts that is there, beside siw too
        counted, way = (server, 'rx_octets') if self.has_rnic(server) else \
            (client, 'tx_octets')
        for _ in range(ATTEMPTS):
            wanted = counted.stats()[way] + 10 ** 6
            ear = self.listen(server, command, '0.0.0.0:18515')
            talk = self.spawn(client, f'{command} {self.pair.addr(server)}')
            end = time.monotonic() + 120
            while talk.running and counted.stats()[way] < wanted:
                if time.monotonic() > end:
                    self.fail(f'no data in 120 s:\n{ear.output}'
                              f'\n{talk.output}')
                time.sleep(0.05)
            if talk.running:
                return Traffic(ear, talk)
            # Between its two connections the server listens anew. A client
            # that is refused then may crash.
            client.excused.append(r'^traps: ib_write_bw\[')
            ear.kill(signal.SIGKILL)
            ear.wait()
        self.fail(f'ib_write_bw was refused {ATTEMPTS} times:\n{talk.output}')

    def has_rnic(self, vm):
        """Whether a VM of the pair has an rnic."""
        return vm in self.pair.properties

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
            heard = ear.wait(120)
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
