#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What an administrator sees and does: rdma, ip, counters."""

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
        device = self.pair.stats(self.a)
        self.assertEqual(set(after) - set(device), set())
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


class Addresses(PairCase):
    """Addresses and link state of the net device decide."""

    def ip(self, vm, arguments):
        vm.run(f'ip {arguments.replace("DEV", "$RNIC_NETDEV")}', 60, True)

    def both_disconnect(self, t):
        for result in t.wait():
            self.assertIn('DISCONNECT EVENT', result.output)
            self.assertNotIn('mismatch', result.output)

    def test_link_down_ends_connections(self):
        for vm in (self.a, self.b):
            with self.subTest(down=vm.name):
                t = self.traffic()
                self.ip(vm, 'link set DEV down')
                self.both_disconnect(t)
                self.assertRegex(vm.run('rdma link').output, 'state DOWN')
                self.ip(vm, 'link set DEV up')
                self.ip(vm, 'addr replace '
                        f'{self.pair.addr6(vm)}/64 dev DEV nodad')
        self.assert_works()
        self.rping(self.a, self.b, self.pair.addr6(self.a), count=2)

    def test_address_removed_ends_connections(self):
        for vm in (self.a, self.b):
            with self.subTest(removed=vm.name):
                t = self.traffic()
                addr = f'{self.pair.addr(vm)}/24'
                self.ip(vm, f'addr del {addr} dev DEV')
                self.both_disconnect(t)
                self.ip(vm, f'addr add {addr} dev DEV')
        self.assert_works()

    def test_other_address_removed_leaves_connections(self):
        self.ip(self.a, 'addr add 10.0.1.1/24 dev DEV')
        t = self.traffic()
        self.ip(self.a, 'addr del 10.0.1.1/24 dev DEV')
        self.pair.wait_flow()
        t.client.kill()
        t.wait()

    def test_address_added_while_listening(self):
        """A wildcard listener answers at addresses that come later"""
        ear = self.listen(self.a, 'rping -s -P -a 0.0.0.0', '0.0.0.0:7174')
        for addr in ('10.0.2.1', '10.0.3.1'):
            self.ip(self.a, f'addr add {addr}/16 dev DEV')
            self.ip(self.b, 'addr add 10.0.2.2/15 dev DEV')
            talk = self.b.run(f'rping -c -a {addr} -v -V -C 2', 60)
            self.assertEqual(talk.output.count('ping data'), 2, talk.output)
            self.ip(self.a, f'addr del {addr}/16 dev DEV')
            gone = self.b.run(f'rping -c -a {addr} -C 2', 60)
            self.assertRegex(gone.output, 'RDMA_CM_EVENT_REJECTED|UNREACHABLE')
            self.ip(self.b, 'addr del 10.0.2.2/15 dev DEV')
        ear.kill(9)
        ear.wait()

    def test_listener_of_an_address_comes_back_with_it(self):
        addr = self.pair.addr(self.a)
        ear = self.listen(self.a, f'rping -s -P -a {addr}', f'{addr}:7174')
        self.ip(self.a, 'link set DEV down')
        self.ip(self.a, 'link set DEV up')
        self.ip(self.a, f'addr replace {self.pair.addr6(self.a)}/64 dev DEV '
                'nodad')
        talk = self.b.run(f'rping -c -a {addr} -v -V -C 2', 60)
        self.assertEqual(talk.output.count('ping data'), 2, talk.output)
        ear.kill(9)
        ear.wait()

    def test_duplicate_address_is_told_and_harmless(self):
        addr = self.pair.addr(self.a)
        self.allow(rf'^rnic \S+: .*{re.escape(addr)}')
        t = self.traffic()
        self.ip(self.b, f'addr add {addr}/32 dev DEV')
        self.wait_kernel(self.b, r'^rnic .*10\.0\.0\.1 is already in use')
        self.pair.wait_flow()
        self.ip(self.b, f'addr del {addr}/32 dev DEV')
        self.pair.wait_flow()
        t.client.kill()
        t.wait()
        self.assert_works()

    def test_duplicate_address_is_free_after_its_owner_left(self):
        self.ip(self.a, 'addr add 10.0.4.4/24 dev DEV')
        self.ip(self.a, 'addr del 10.0.4.4/24 dev DEV')
        self.ip(self.b, 'addr add 10.0.4.4/24 dev DEV')
        self.rping(self.b, self.b, '10.0.4.4', count=2)
        self.ip(self.b, 'addr del 10.0.4.4/24 dev DEV')

    def test_many_addresses(self):
        add = '; '.join(f'ip addr add 10.0.{i}.9/24 dev $RNIC_NETDEV'
                        for i in range(40))
        self.a.run(add, 60, True)
        self.rping(self.a, self.a, '10.0.39.9', count=2)
        self.a.run(add.replace(' add ', ' del '), 60, True)


if __name__ == '__main__':
    unittest.main(verbosity=2)
