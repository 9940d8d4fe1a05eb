#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The older kernel: whatever a driver may do differently there."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import PairCase, full  # noqa: E402
from rnicvm.perftest import bandwidth  # noqa: E402
from test_addresses import AddressLife  # noqa: E402
import test_firewall  # noqa: E402


class OldKernel(PairCase):
    """Linux 6.1 in both guests."""

    kernel = '6.1'

    def test_rping_both_ways(self):
        self.assertTrue(self.a.run('uname -r').output.startswith('6.1.'))
        self.rping(self.a, self.b)
        self.rping(self.b, self.a)
        self.rping(self.a, self.b, self.pair.addr6(self.a), count=2)

    def test_perftest(self):
        bandwidth(self.a, self.b, self.pair.addr(self.a), 'write', 65536, 50)

    def test_verbs(self):
        self.verbs(self.a, self.b, () if full() else (
            'send-recv', 'solicited', 'cq-event', 'write', 'read',
            'send-invalidate', 'private-data', 'reject', 'flush', 'abort',
            'access', 'srq', 'threads', 'fork'))

    def test_unload_under_traffic_and_reload(self):
        t = self.traffic()
        self.a.run('rmmod rnic', 60, True)
        server, client = t.wait()
        self.assertIn('device removal', server.output)
        self.assertIn('DISCONNECT EVENT', client.output)
        self.pair.reload(self.a)
        self.assert_works()

    def test_unplug_under_traffic_and_plug(self):
        t = self.traffic()
        self.pair.unplug(self.b)
        t.wait()
        self.pair.plug(self.b)
        self.assert_works()

    def test_function_reset_under_traffic(self):
        t = self.traffic()
        self.a.run('echo 1 >/sys/class/infiniband/rnic0/device/reset', 90, True)
        for result in t.wait():
            self.assertRegex(result.output, 'device removal|DISCONNECT EVENT')
        self.pair.configure(self.a)
        self.assert_works()

    def test_resources_and_counters(self):
        t = self.traffic()
        for kind, counter in (('qp', 'rx_messages'), ('cq', 'cq_events')):
            self.assertRegex(
                self.a.run(f'rdma -dd resource show {kind}').output,
                rf'{counter} [1-9]')
        self.assertRegex(self.a.run('rdma resource show qp').output,
                         r'type RC state RTS')
        self.assertRegex(self.a.run('rdma statistic show').output,
                         r'rx_messages [1-9]')
        t.client.kill()
        t.wait()


class OldAddresses(AddressLife, PairCase):
    """The life of addresses, with Linux 6.1 in both guests."""

    kernel = '6.1'


class OldFirewall(test_firewall.Basics, test_firewall.Filtered):
    """The guest's packet filter on Linux 6.1."""

    kernel = '6.1'


if __name__ == '__main__':
    unittest.main(verbosity=2)
