#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Sends before the connection is established, by each policy, from a kernel
and from a user consumer, in both roles."""

import re
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import Device, OwnVmCase, Vm, VmError, full  # noqa: E402
from rnicvm.vm import TRACED  # noqa: E402

ADDR = '10.0.0.1'
ENOTCONN = 107
ECONNREFUSED = 111
EARLY, LATE = 5, 3
# The tests' own module, of which the kernel says that it taints
OWN = r'^rnic_early: '


class Consumer:
    """What runs the test: a kernel module or a user program."""

    def __init__(self, vm):
        self.vm = vm

    @staticmethod
    def parse(text):
        """{'client': {...}, 'server': {...}} of the result lines."""
        ends = {}
        for line in text.splitlines():
            if m := re.match(r'(client|server) (\S+=.*)', line):
                ends[m[1]] = {key: int(value) for key, value in
                              (word.split('=') for word in m[2].split())}
        if set(ends) != {'client', 'server'}:
            raise VmError(f'no result:\n{text}')
        return ends


class Kernel(Consumer):
    """tests/vm/modules/rnic_early.c"""

    refused = -ENOTCONN

    def run(self, early=EARLY, late=LATE, reject=False):
        self.vm.run(f'modprobe rnic_early addr={ADDR} early={early} '
                    f'late={late} reject={int(reject)}', 90, True)
        text = self.vm.run(
            'cat /sys/module/rnic_early/parameters/result; '
            'rmmod rnic_early', 30, True).output
        return self.parse(text)


class User(Consumer):
    """tests/vm/programs/rnic-early.c"""

    refused = ENOTCONN

    def run(self, early=EARLY, late=LATE, reject=False, options=''):
        if reject:
            options += ' -j'
        self.text = self.vm.run(f'rnic-early -e {early} -l {late} {options} '
                                f'{ADDR}', 90, True).output
        return self.parse(self.text)


class Policy:
    """What holds for each policy, and in a guest of each kernel. The device
    scans every 5 ms, so that what nobody rings for is seen, too."""

    policy = None
    # Of seen_before_rts(), for a QP that sends were posted to
    before_rts = set()
    kernel = '6.12'
    properties = ''

    @classmethod
    def new_vms(cls):
        built = Device.prepare()
        cls.vm = Vm(f'{cls.policy}-{cls.kernel}', kernel=cls.kernel,
                    qemu=built.qemu, load=built.load(),
                    device=f'rnic,id=rnic0,fabric-id={cls.fabric()},'
                           'sq-scan-ms=5,pcap={run}/capture.pcap'
                           + cls.properties,
                    addr=f'{ADDR}/24', params={'sq_policy': cls.policy},
                    cpus=2, trace=(*TRACED, 'rnic_wqe', 'rnic_fpdu_tx',
                                   'rnic_doorbell'))
        return [cls.vm]

    def setUp(self):
        super().setUp()
        self.allow(OWN)
        self.before = self.vm.stats()
        self.log_start = self.vm.trace_size()

    def since(self, name):
        return self.vm.stats()[name] - self.before[name]

    def seen_before_rts(self):
        """What the device did with each QP before it was in RTS: for each QP
        that reached it, a set of 'scan' (found its index moved), 'wqe'
        (fetched from its SQ), 'sent' (an FPDU)."""
        done, qps = {}, []
        for line in self.vm.traced(self.log_start).splitlines():
            if m := re.search(r'qp_state.*qpn (\d+) (\w+) -> (\w+)', line):
                if m[3] == 'IDLE':
                    done[m[1]] = set()
                elif m[3] == 'RTS':
                    qps.append(done.pop(m[1]))
            elif m := re.search(r'the scan finds the SQ.* QP (\d+) ', line):
                done.get(m[1], set()).add('scan')
            elif m := re.search(r'_wqe .*qpn (\d+) SQ ', line):
                done.get(m[1], set()).add('wqe')
            elif m := re.search(r'_fpdu_tx .*qpn (\d+) ', line):
                done.get(m[1], set()).add('sent')
        return qps

    def assert_all_arrived(self, ends, early, late=LATE):
        """Everything that was taken left once, in order."""
        for name, end in ends.items():
            peer = ends['server' if name == 'client' else 'client']
            with self.subTest(end=name, result=end):
                self.assertEqual(end['status'], 0)
                self.assertEqual(end['early'], early)
                self.assertEqual(end['posted'], early + late)
                self.assertEqual(end['sent'], end['posted'])
                self.assertEqual(end['received'], peer['posted'])
                self.assertEqual((end['flushed'], end['failed'],
                                  end['misordered']), (0, 0, 0))
        self.assertEqual(self.since('guest_errors'), 0)
        self.assertEqual(self.since('early_sends'), 0)

    def check_early_sends(self, consumer):
        """Both ends post early; the policy says what becomes of it. Without
        late ones nothing but the connection makes them leave."""
        for late in (0, LATE):
            ends = consumer(self.vm).run(late=late)
            for end in ends.values():
                self.assertEqual(end['ret'], 0)
            self.assert_all_arrived(ends, EARLY, late)
        self.assert_before_rts(4)

    def assert_before_rts(self, count):
        """What may be done with a QP before RTS, and nothing else. On a busy
        machine the scan may come too late for one of them, not for all."""
        seen = self.seen_before_rts()
        self.assertEqual(len(seen), count)
        self.assertEqual(set().union(*seen), self.before_rts, seen)

    def check_rejected(self, consumer):
        """The server rejects: what the client posted early is flushed."""
        ends = consumer(self.vm).run(reject=True)
        client = ends['client']
        self.assertEqual(abs(client['status']), ECONNREFUSED, client)
        self.assertEqual(client['flushed'], client['early'], client)
        self.assertEqual((client['sent'], client['failed'],
                          client['misordered']), (0, 0, 0), client)
        self.assertEqual(self.since('tx_fpdus'), 0)
        self.assertEqual(self.since('guest_errors'), 0)

    def check_late_sends(self, consumer):
        """Whoever keeps the rule does not notice the policy."""
        self.assert_all_arrived(consumer(self.vm).run(early=0), 0)

    def test_parameter_is_shown(self):
        text = self.vm.run('cat /sys/module/rnic/parameters/sq_policy').output
        self.assertEqual(text.strip(), self.policy)

    def test_kernel_early_sends(self):
        self.check_early_sends(Kernel)

    def test_user_early_sends(self):
        self.check_early_sends(User)

    def test_kernel_rejected(self):
        self.check_rejected(Kernel)

    def test_user_rejected(self):
        self.check_rejected(User)

    def test_kernel_late_sends(self):
        self.check_late_sends(Kernel)

    def test_user_late_sends(self):
        self.check_late_sends(User)

    def test_user_post_in_reset_is_refused(self):
        user = User(self.vm)
        self.assert_all_arrived(user.run(early=0, options='-z'), 0)
        self.assertIn('reset send=22 recv=22', user.text)

    def test_user_posts_race_with_the_connection(self):
        for _ in range(20 if full() else 5):
            ends = User(self.vm).run(early=0, options='-p 0 -r 200')
            client, server = ends['client'], ends['server']
            with self.subTest(client=client, server=server):
                # Some before, some after
                self.assertGreater(client['posted'], client['early'])
                if self.policy != 'error':
                    self.assertGreater(client['early'], 0)
                self.assertEqual(client['sent'], client['posted'])
                self.assertEqual(server['received'], client['posted'])
                self.assertEqual((client['failed'], client['misordered'],
                                  server['misordered']), (0, 0, 0))
        self.assertEqual(self.since('guest_errors'), 0)


class Fence(Policy, OwnVmCase):
    """They wait in the device."""

    policy = 'fence'
    before_rts = {'scan'}


class FencePlainMpa(Fence):
    """The same without peer-to-peer mode: the responder has a gate."""

    properties = ',p2p=off,mpa-rev=1'

    def test_gate_held_the_responder(self):
        self.check_early_sends(User)
        self.assertEqual(self.since('gated'), 2)


class Error(Policy, OwnVmCase):
    """They are refused."""

    policy = 'error'

    def check_early_sends(self, consumer):
        ends = consumer(self.vm).run()
        for end in ends.values():
            self.assertEqual(end['ret'], consumer.refused)
        self.assert_all_arrived(ends, 0)
        self.assert_before_rts(2)


class Held(Policy, OwnVmCase):
    """They wait in the driver, and even a scan finds nothing."""

    policy = 'held'


class HeldPlainMpa(Held):
    """The same without peer-to-peer mode."""

    properties = ',p2p=off,mpa-rev=1'


class OldFence(Fence):
    """The same on the older kernel."""

    kernel = '6.1'


class OldError(Error):
    """The same on the older kernel."""

    kernel = '6.1'


class OldHeld(Held):
    """The same on the older kernel."""

    kernel = '6.1'


class Parameter(unittest.TestCase):
    """The module parameter itself."""

    def test_unknown_policy_is_refused(self):
        with Vm('no-policy', driver=False) as vm:
            result = vm.run('modprobe rnic sq_policy=nonsense')
            self.assertNotEqual(result.rc, 0, result.output)
            self.assertIn('Invalid argument', result.output)


def load_tests(loader, tests, pattern):
    """The older kernel only with --full: it differs in nothing of this."""
    if full():
        return tests
    suite = unittest.TestSuite()
    for case in tests:
        for test in case:
            if not type(test).__name__.startswith('Old'):
                suite.addTest(test)
    return suite


if __name__ == '__main__':
    unittest.main(verbosity=2)
