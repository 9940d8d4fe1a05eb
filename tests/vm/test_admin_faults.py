#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A device that answers the driver's commands late or never, or forgot all."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import PairCase  # noqa: E402

NEVER = 2 ** 32 - 1
PARAMETER = '/sys/module/rnic/parameters/cmd_timeout_ms'


class Faults(PairCase):
    """The device of VM a has the fault; b must not be harmed."""

    def setUp(self):
        super().setUp()
        self.addCleanup(self.delay, 0)

    def delay(self, ms):
        self.a.qmp('qom-set', path='/machine/peripheral/rnic0',
                   property='fault-admin-delay', value=ms)

    def limit(self, ms):
        self.a.run(f'echo {ms} >{PARAMETER}', 30, True)

    def recover(self):
        """The device answers again; the driver starts anew."""
        self.delay(0)
        self.a.run('rmmod rnic', 60, True)
        self.pair.reload(self.a)
        self.assert_works()

    def test_late_answers_only_cost_time(self):
        self.delay(100)
        self.rping(self.a, self.b, count=2)
        self.delay(0)
        self.assert_works()

    def test_command_without_answer_fails_and_ends_the_device(self):
        t = self.traffic()
        watch = self.spawn(self.a, 'ibv_asyncwatch')
        watch.wait_output('async event FD')
        self.limit(500)
        self.delay(NEVER)
        result = self.a.run('rping -c -a 10.0.0.2 -C 1', 60)
        self.assertNotEqual(result.rc, 0)
        self.wait_kernel(self.a, r'^rnic \S+: command \d+ got no answer in '
                         '500 ms')
        self.allow(r'^rnic \S+: the device stopped',
                   r'^rnic \S+: the device is gone')
        # Connections end, for their users at both ends
        self.assertIn('DISCONNECT EVENT', t.client.wait().output)
        t.server.wait_output('DISCONNECT EVENT')
        # Programs are told by an event, too
        watch.wait_output('(?i)fatal|catastrophic')
        t.server.kill(9)
        t.server.wait()
        watch.kill(9)
        watch.wait()
        self.recover()

    def test_answer_after_the_limit_changes_nothing(self):
        self.limit(200)
        self.delay(1500)
        self.assertNotEqual(
            self.a.run('rping -c -a 10.0.0.2 -C 1', 60).rc, 0)
        self.wait_kernel(self.a, r'^rnic \S+: command \d+ got no answer in '
                         '200 ms')
        # No command works any more, and nothing hangs: also after the time
        # at which the answer would have come
        self.assertNotEqual(self.a.run('for i in 1 2 3; do ibv_devinfo -v '
                                       '>/dev/null; sleep 1; done; '
                                       'rping -c -a 10.0.0.2 -C 1', 60).rc, 0)
        self.recover()

    def test_unload_while_no_command_is_answered(self):
        t = self.traffic()
        self.limit(500)
        self.delay(NEVER)
        self.allow(r'^rnic \S+: command \d+ got no answer in 500 ms',
                   r'^rnic \S+: cannot ')
        self.a.run('rmmod rnic', 90, True)
        self.assertIn('DISCONNECT EVENT', t.client.wait().output)
        t.server.wait()
        self.delay(0)
        self.pair.reload(self.a)
        self.assert_works()

    def test_reset_by_somebody_else_ends_the_device(self):
        """As a machine does that wakes up; no command finds it out"""
        t = self.traffic()
        self.a.run('modprobe rnic_reset && rmmod rnic_reset', 60, True)
        self.wait_kernel(self.a, r'^rnic \S+: the device was reset')
        self.assertIn('DISCONNECT EVENT', t.client.wait().output)
        t.server.wait_output('DISCONNECT EVENT')
        t.server.kill(9)
        t.server.wait()
        self.recover()

    def test_probe_without_an_answer_fails_in_time(self):
        self.a.run('rmmod rnic', 60, True)
        self.delay(NEVER)
        self.allow(r'^rnic \S+: command \d+ got no answer in 300 ms',
                   r'^rnic \S+: cannot create',
                   r'^rnic.*probe (with driver rnic )?.*failed with error')
        self.a.run('modprobe rnic cmd_timeout_ms=300', 60)
        self.assertEqual(self.a.run('rdma link', 30, True).output, '')
        self.a.run('rmmod rnic', 60, True)
        self.delay(0)
        self.pair.reload(self.a)
        self.assert_works()

    def test_killed_process_ends_although_nothing_is_answered(self):
        t = self.traffic()
        self.limit(500)
        self.delay(NEVER)
        self.allow(r'^rnic \S+: command \d+ got no answer in 500 ms',
                   r'^rnic \S+: cannot ')
        t.server.kill(9)
        self.assertEqual(t.server.wait().rc, 128 + 9)
        self.a.run('while pidof rping; do sleep 0.1; done', 60, True)
        self.assertIn('DISCONNECT EVENT', t.client.wait().output)
        self.recover()

    def test_unplug_while_no_command_is_answered(self):
        t = self.traffic()
        self.limit(2000)
        self.delay(NEVER)
        self.allow(r'^rnic \S+: command \d+ got no answer in 2000 ms',
                   r'^rnic \S+: cannot ')
        self.pair.unplug(self.a)
        self.assertIn('DISCONNECT EVENT', t.client.wait().output)
        t.server.wait()
        self.pair.plug(self.a)
        self.assert_works()


if __name__ == '__main__':
    unittest.main(verbosity=2)
