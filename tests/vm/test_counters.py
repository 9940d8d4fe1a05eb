#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What work costs in interrupts and doorbells, by the device's counters."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import PairCase  # noqa: E402
from rnicvm.perftest import bandwidth, latency  # noqa: E402

COUNT = 2000


class Cost(PairCase):
    """b is the client and a the server of perftest, which polls."""

    def measure(self, work):
        before = [vm.stats() for vm in (self.a, self.b)]
        work(self.a, self.b, self.pair.addr(self.a))
        after = [vm.stats() for vm in (self.a, self.b)]
        return [{k: n[k] - o[k] for k in n} for o, n in zip(before, after)]

    def only_management_interrupts(self, cost):
        # Those of commands and connection events, and of IP packets that the
        # kernel may have sent meanwhile
        self.assertLessEqual(
            cost['interrupts'], cost['admin_commands'] + cost['async_events'] +
            cost['net_tx_packets'] + cost['net_tx_dropped'] +
            cost['net_rx_packets'])
        self.assertEqual(cost['cq_events'], 0)

    def test_polling_costs_no_interrupt(self):
        for verb in ('send', 'read'):
            with self.subTest(verb=verb):
                server, client = self.measure(
                    lambda a, b, addr, v=verb:
                    bandwidth(a, b, addr, v, 1024, COUNT))
                self.assertGreaterEqual(client['tx_wqes'], COUNT)
                for cost in (server, client):
                    self.only_management_interrupts(cost)

    def test_write_wakes_nobody_at_its_target(self):
        server, client = self.measure(
            lambda a, b, addr: bandwidth(a, b, addr, 'write', 1024, COUNT))
        self.assertGreaterEqual(client['tx_wqes'], COUNT)
        self.assertGreaterEqual(server['rx_octets'], 1024 * COUNT)
        self.only_management_interrupts(server)
        # nor does it complete anything there
        self.assertLess(server['cqes'], COUNT // 4)

    def test_waiting_costs_at_most_one_event_a_completion(self):
        server, client = self.measure(
            lambda a, b, addr: latency(a, b, addr, 'send', 64, 200,
                                       options='-e'))
        for cost in (server, client):
            self.assertGreater(cost['cq_events'], 0)
            self.assertLessEqual(cost['cq_events'], cost['cqes'])

    def test_busy_queue_needs_no_doorbell(self):
        # A guest that hardly gets to run leaves the queue idle between its posts
        for _ in range(4):
            _, client = self.measure(
                lambda a, b, addr: bandwidth(a, b, addr, 'write', 65536, 1000))
            self.assertGreaterEqual(client['tx_wqes'], 1000)
            if client['kicks'] < client['tx_wqes'] // 2:
                return
        self.fail(f'{client["kicks"]} doorbells for {client["tx_wqes"]} WQEs')

    def test_data_is_not_copied_without_crc(self):
        server, client = self.measure(
            lambda a, b, addr: bandwidth(a, b, addr, 'write', 1 << 20, 50))
        octets = 50 << 20
        self.assertLess(client['tx_copied'], octets // 100)
        # What was read ahead together with a header is copied: of an FPDU of 64
        # KiB at most half, and on a busy machine not much less
        self.assertGreater(server['rx_direct'], octets // 4)


if __name__ == '__main__':
    unittest.main(verbosity=2)
