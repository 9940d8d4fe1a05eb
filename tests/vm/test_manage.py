#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What an administrator sees: rdma, counters, the net device."""

import re
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import PairCase  # noqa: E402


class Shown(PairCase):
    """What is shown of device, objects and counters."""

    def out(self, command, vm=None):
        return (vm or self.a).run(command, 60, True).output

    def test_rdma_link_and_dev(self):
        self.assertRegex(self.out('rdma link'), r'^link rnic0/1 state ACTIVE '
                         r'physical_state LINK_UP netdev \w+')
        text = self.out('rdma dev show rnic0')
        self.assertRegex(text, r'node_type rnic')
        self.assertRegex(text, r'node_guid [0-9a-f:]*[1-9a-f]')

    def test_devinfo(self):
        text = self.out('ibv_devinfo -v')
        for pattern in (r'hca_id:\s+rnic0', r'transport:\s+iWARP',
                        r'state:\s+PORT_ACTIVE', r'link_layer:\s+Ethernet',
                        r'max_qp:\s+[1-9]', r'max_mr:\s+[1-9]'):
            self.assertRegex(text, pattern)

    def test_gid_is_the_mac(self):
        gid = self.out('cat /sys/class/infiniband/rnic0/ports/1/gids/0')
        mac = self.out('cat /sys/class/infiniband/rnic0/device/net/*/address')
        self.assertEqual(gid.replace(':', '').strip(),
                         mac.replace(':', '').strip() + '0' * 20)

    def test_machine_with_other_mac_has_another_guid(self):
        guids = {self.out('cat /sys/class/infiniband/rnic0/node_guid', vm)
                 for vm in (self.a, self.b)}
        self.assertEqual(len(guids), 2)

    def test_resources_while_traffic_runs(self):
        t = self.traffic()
        pid = self.out('pidof rping').strip()
        qp = self.out('rdma resource show qp')
        self.assertRegex(qp, rf'link rnic0/1 lqpn \d+ .*type RC state RTS '
                         rf'.*pid {pid} comm rping')
        cm_id = self.out('rdma resource show cm_id')
        self.assertRegex(cm_id, rf'state LISTEN ps TCP pid {pid} comm rping '
                         r'src-addr 10.0.0.1:7174')
        self.assertRegex(cm_id, r'lqpn \d+ qp-type RC state CONNECT ps TCP '
                         rf'pid {pid} comm rping '
                         r'src-addr 10.0.0.1:7174 dst-addr 10.0.0.2:\d+')
        self.assertRegex(self.out('rdma resource show cq'),
                         rf'cqn \d+ cqe [1-9]\d* users [1-9]\d* .*pid {pid} ')
        mrs = re.findall(rf'mrlen (\d+) .*pid {pid} ',
                         self.out('rdma resource show mr'))
        self.assertIn('64', mrs)
        self.assertRegex(self.out('rdma resource show pd'),
                         rf'pdn \d+ .*users [1-9]\d* .*pid {pid} ')
        t.client.kill()
        t.wait()

    def test_statistic_counts_what_the_device_counts(self):
        def counters():
            text = self.out('rdma statistic show link rnic0/1')
            return {name: int(value) for name, value in
                    re.findall(r'(\w+) (\d+)', text)}
        before = counters()
        self.rping(self.a, self.b, count=20)
        after = counters()
        self.assertGreaterEqual(after['accepts'] - before['accepts'], 1)
        for name in ('tx_fpdus', 'rx_fpdus', 'tx_octets', 'rx_octets',
                     'rx_messages', 'cqes', 'interrupts'):
            self.assertGreater(after[name], before[name] + 20, name)
        self.assertEqual(after['rx_crc_errors'], 0)
        device = self.a.stats()
        # and these are the driver's own
        self.assertEqual(set(after) - set(device),
                         {'filter_refused_in', 'filter_refused_out'})
        for name in ('tx_fpdus', 'rx_fpdus', 'tx_octets', 'cqes'):
            self.assertEqual(device[name], after[name], name)

    def test_interrupts_show_in_the_kernel(self):
        def count():
            return sum(int(x) for line in
                       self.out('grep rnic /proc/interrupts').splitlines()
                       for x in re.findall(r'\s(\d+)(?=\s)', line))
        before = count()
        self.rping(self.a, self.b, count=20)
        self.assertGreater(count(), before)

    def test_net_device(self):
        text = self.out('ip -d link show dev $RNIC_NETDEV')
        self.assertRegex(text, 'NOARP')
        self.assertRegex(text, 'link/ether')
        self.assertNotEqual(
            self.a.run('ip link set dev $RNIC_NETDEV address '
                       '52:54:00:11:22:33').rc, 0)


if __name__ == '__main__':
    unittest.main(verbosity=2)
