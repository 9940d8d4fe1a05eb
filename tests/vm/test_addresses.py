#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The life of addresses: they come and go under listeners and connections, two
devices have the same one, several devices and fabrics are side by side, and
the host's own services stay out of reach."""

import os
import re
import socket
import subprocess
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import PairCase  # noqa: E402
from rnicvm.fabric import host_address  # noqa: E402
from rnicvm.second import Second  # noqa: E402
from rnicvm.service import SERVICE  # noqa: E402

# A client that sends what looks like the start of a connection
CLIENT = '''
import socket, sys
got = b''
try:
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 30)
    s.sendall(b'MPA ID Req Frame' + bytes((0x40, 2, 0, 4, 0, 0, 0, 0)))
    got = s.recv(100)
except ConnectionResetError:
    pass
print('got', len(got))
'''


def as_nobody(program, *arguments):
    # Not sys.executable, which may be in a folder of its owner's
    return subprocess.Popen(
        ['/usr/bin/python3', '-c', program, *map(str, arguments)], user=65534,
        group=65534, extra_groups=[], cwd='/', stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True)


class AddressLife:
    """What holds in guests of each kernel. For a subclass of PairCase."""

    def ip(self, vm, arguments, wait=True):
        """A command of `ip`; with `wait` until the device knows of it. What
        others want of an address cannot wait for that by itself."""
        start = vm.trace_size()
        vm.run(f'ip {arguments.replace("DEV", "$RNIC_NETDEV")}', 60, True)
        if not wait:
            return
        kind, verb, addr, *rest = arguments.split()
        if kind == 'addr':
            self.pair.wait_addr(vm, addr.split('/')[0], verb != 'del')
        else:
            self.wait_traced(vm, start, f'link {rest[-1]}\n')

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
                vm.run('until rdma link | grep -q "state DOWN"; do sleep 0.1; '
                       'done', 60, True)
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

    def test_many_addresses(self):
        add = '; '.join(f'ip addr add 10.0.{i}.9/24 dev $RNIC_NETDEV'
                        for i in range(40))
        self.a.run(add, 60, True)
        self.pair.wait_addr(self.a, '10.0.39.9')
        self.rping(self.a, self.a, '10.0.39.9', count=2)
        self.a.run(add.replace(' add ', ' del '), 60, True)

    def test_address_is_good_at_once(self):
        """Whoever added one may listen and connect in the same moment, also
        while the device is still to be told of those before"""
        for ms in (0, 20):
            self.a.qmp('qom-set', path='/machine/peripheral/rnic0',
                       property='fault-admin-delay', value=ms)
            self.addCleanup(self.a.qmp, 'qom-set',
                            path='/machine/peripheral/rnic0',
                            property='fault-admin-delay', value=0)
            for addr, to in (('10.0.8.1', '10.0.0.2'),
                             ('fd00::8001', 'fd00::2')):
                result = self.a.run(f'rnic-addr $RNIC_NETDEV {addr} {to} 10',
                                    120)
                self.assertEqual(result.output.strip(), 'all 10')

    def test_secondary_address_that_became_primary_is_gone_when_removed(self):
        """Another device can have it then"""
        both = ' && '.join(f'ip addr ACT 10.0.9.{i}/24 dev $RNIC_NETDEV'
                           for i in (1, 2))
        promote = '/proc/sys/net/ipv4/conf/all/promote_secondaries'
        self.addCleanup(self.a.run, f'echo 0 >{promote}')
        self.a.run(f'echo 1 >{promote} && {both.replace("ACT", "add")} && '
                   f'{both.replace("ACT", "del")}', 60, True)
        self.pair.wait_addr(self.a, '10.0.9.2', False)
        self.ip(self.b, 'addr add 10.0.9.2/24 dev DEV')
        self.addCleanup(self.ip, self.b, 'addr del 10.0.9.2/24 dev DEV')
        self.rping(self.b, self.b, '10.0.9.2', count=2)

    def test_address_with_two_prefix_lengths_stays_with_either(self):
        self.ip(self.a, 'addr add 10.0.9.1/24 dev DEV')
        self.ip(self.a, 'addr add 10.0.9.1/32 dev DEV')
        # It stays: nothing to wait for, but what rping waits for
        self.ip(self.a, 'addr del 10.0.9.1/24 dev DEV', wait=False)
        self.rping(self.a, self.a, '10.0.9.1', count=2)
        self.ip(self.a, 'addr del 10.0.9.1/32 dev DEV')

    def test_addresses_of_a_server_come_and_go(self):
        """The connections of an address that goes end, those of another one
        stay, and the listener is back with the address"""
        self.ip(self.b, 'addr add 10.0.6.2/24 dev DEV')
        self.addCleanup(self.ip, self.b, 'addr del 10.0.6.2/24 dev DEV')
        self.ip(self.a, 'addr add 10.0.6.1/24 dev DEV')
        self.listen(self.a, 'rping -s -P -a 0.0.0.0 -V', '0.0.0.0:7174')
        stays = self.spawn(self.b, 'rping -c -a 10.0.0.1 -V')
        goes = self.spawn(self.b, 'rping -c -a 10.0.6.1 -V')
        self.b.run('until [ $(rdma resource show cm_id | grep -c CONNECT) = 2 ]'
                   '; do sleep 0.1; done', 60, True)
        self.ip(self.a, 'addr del 10.0.6.1/24 dev DEV')
        self.assertIn('DISCONNECT EVENT', goes.wait().output)
        self.pair.wait_flow()
        self.assertTrue(stays.running)
        refused = self.b.run('rping -c -a 10.0.6.1 -C 1', 60)
        self.assertRegex(refused.output, 'RDMA_CM_EVENT_REJECTED, error -111')
        self.ip(self.a, 'addr add 10.0.6.1/24 dev DEV')
        talk = self.b.run('rping -c -a 10.0.6.1 -v -V -C 2', 60)
        self.assertEqual(talk.output.count('ping data'), 2, talk.output)
        self.assertTrue(stays.running)
        self.ip(self.a, 'addr del 10.0.6.1/24 dev DEV')

    def test_listener_at_an_address_is_back_with_it(self):
        self.ip(self.b, 'addr add 10.0.6.2/24 dev DEV')
        self.addCleanup(self.ip, self.b, 'addr del 10.0.6.2/24 dev DEV')
        self.ip(self.a, 'addr add 10.0.6.1/24 dev DEV')
        self.listen(self.a, 'rping -s -P -a 10.0.6.1 -V', '10.0.6.1:7174')
        for _ in range(2):
            talk = self.b.run('rping -c -a 10.0.6.1 -v -V -C 2', 60)
            self.assertEqual(talk.output.count('ping data'), 2, talk.output)
            self.ip(self.a, 'addr del 10.0.6.1/24 dev DEV')
            refused = self.b.run('rping -c -a 10.0.6.1 -C 1', 60)
            self.assertRegex(refused.output,
                             'RDMA_CM_EVENT_REJECTED, error -111')
            self.ip(self.a, 'addr add 10.0.6.1/24 dev DEV')
        self.ip(self.a, 'addr del 10.0.6.1/24 dev DEV')

    def requests(self, where, *addrs):
        """What rnic-listen at `where` sees of a client of b to each of them;
        the last one must come."""
        ear = self.listen(self.a, f'rnic-listen {where} 7175',
                          f'{where.split()[-1]}:7175')
        for addr in addrs:
            talk = self.b.run(f'rping -c -a {addr} -p 7175 -C 1', 60)
            self.assertIn('RDMA_CM_EVENT_REJECTED', talk.output)
        ear.wait_output(f'request to {addr} from')
        ear.kill(9)
        ear.wait()
        self.a.wait_idle()
        return re.findall(r'request to (\S+) from (\S+)', ear.output)

    def test_wildcard_listeners_report_the_family_that_came(self):
        v4, v6 = ('10.0.0.1', '10.0.0.2'), ('fd00::1', 'fd00::2')
        self.assertEqual(self.requests('0.0.0.0', v6[0], v4[0]), [v4])
        self.assertEqual(self.requests('::', v4[0], v6[0]), [v4, v6])
        self.assertEqual(self.requests('-6 ::', v4[0], v6[0]), [v6])

    def test_wildcards_of_both_families_share_a_port(self):
        one = self.listen(self.a, 'rnic-listen 0.0.0.0 7175', '0.0.0.0:7175')
        two = self.listen(self.a, 'rnic-listen -6 :: 7175', ':::7175')
        for addr, ear in (('10.0.0.1', one), ('fd00::1', two)):
            self.b.run(f'rping -c -a {addr} -p 7175 -C 1', 60)
            ear.wait_output(f'request to {addr} from')
        for ear in (one, two):
            self.assertEqual(ear.output.count('request'), 1)
        third = self.a.run('rnic-listen :: 7175', 60)
        self.assertRegex(third.output, 'Address already in use|'
                         'Cannot assign requested address')

    def test_device_talks_to_itself(self):
        self.rping(self.a, self.a, count=2)
        self.rping(self.a, self.a, self.pair.addr6(self.a), count=2)

    def test_loopback_as_a_remote_is_not_the_device(self):
        """As docs/using.md says: rdma_cm takes it for lo, which is no rnic"""
        self.listen(self.a, 'rping -s -P -a ::', ':::7174')
        for addr in ('127.0.0.1', '::1'):
            result = self.a.run(f'rping -c -a {addr} -C 1', 60)
            self.assertRegex(result.output, 'rdma_resolve_addr|ADDR_ERROR')

    def test_ipv6_link_local(self):
        text = self.a.run('ip -6 -o addr show dev $RNIC_NETDEV scope link', 30,
                          True).output
        addr = re.search(r'inet6 (fe80[^/]+)', text)[1]
        name = self.b.run('echo $RNIC_NETDEV', 30, True).output.strip()
        self.rping(self.a, self.b, addr=f'{addr}%{name}', count=3)

    # -- addresses that two have ------------------------------------------

    def test_duplicate_address_is_told_and_harmless(self):
        addr = self.pair.addr(self.a)
        t = self.traffic()
        start = self.b.trace_size()
        before = self.b.stats()['async_events']
        self.ip(self.b, f'addr add {addr}/32 dev DEV')
        self.wait_kernel(self.b, r'^rnic .*10\.0\.0\.1 is already in use in this '
                         'fabric')
        self.b.wait_stat('async_events', before + 1)
        self.wait_traced(self.b, start, r'rnic_addr .*10\.0\.0\.1 not added: '
                         'another device has it')
        self.pair.wait_flow()
        self.ip(self.b, f'addr del {addr}/32 dev DEV', wait=False)
        self.pair.wait_flow()
        t.client.kill()
        t.wait()
        self.assert_works()

    def test_duplicate_address_works_when_its_owner_gives_it_up(self):
        self.ip(self.a, 'addr add 10.0.4.4/24 dev DEV')
        self.ip(self.b, 'addr add 10.0.4.4/24 dev DEV')
        self.wait_kernel(self.b, r'^rnic .*10\.0\.4\.4 is already in use')
        # It is b's at once
        self.ip(self.a, 'addr del 10.0.4.4/24 dev DEV', wait=False)
        self.ip(self.a, 'addr add 10.0.4.1/24 dev DEV')
        self.wait_kernel(self.b, r'^rnic .*10\.0\.4\.4 is free now')
        # It was told once, however often it was tried
        self.assertEqual(sum('10.0.4.4 is already' in k
                             for k in self.kernel_log(self.b)), 1)
        self.rping(self.b, self.a, '10.0.4.4', count=2)
        self.ip(self.a, 'addr del 10.0.4.1/24 dev DEV')
        self.ip(self.b, 'addr del 10.0.4.4/24 dev DEV')

    def test_addresses_of_one_device_that_the_fabric_takes_for_one(self):
        for family, addr in (('', '10.7.0.1/24'), ('-6', 'fe80::1/64')):
            with self.subTest(addr=addr):
                host = addr.split('/')[0]
                nodad = 'nodad' if family else ''
                self.ip(self.a, f'addr add {addr} dev DEV {nodad}')
                self.wait_kernel(
                    self.a, f'^rnic .*in this fabric {re.escape(host)} is the '
                    'same as another address of this device')
                self.ip(self.a, f'addr del {addr} dev DEV', wait=False)
        self.assert_works()

    # -- several devices --------------------------------------------------

    def second(self, vm, *addrs, **properties):
        device = Second(vm, addrs, **properties)
        self.addCleanup(device.close)
        return device

    def test_two_devices_of_a_machine_and_another_machine(self):
        both = self.second(self.a, '10.0.0.11/24', 'fd00::11/64',
                           **self.pair.fabric)
        for server, client, addr in (
                (both, self.a, '10.0.0.11'), (self.a, both, '10.0.0.1'),
                (both, self.b, '10.0.0.11'), (self.b, both, '10.0.0.2'),
                (self.b, both, 'fd00::2'), (both, both, '10.0.0.11')):
            with self.subTest(server=server.name, client=client.name):
                self.rping(server, client, addr, count=2)
        self.assertGreater(both.stats()['rx_messages'], 10)

    def test_fabrics_with_the_same_addresses_do_not_meet(self):
        t = self.traffic()
        fabric = self.another_fabric()
        one = self.second(self.a, '10.0.0.1/24', fabric_id=fabric)
        two = self.second(self.b, '10.0.0.2/24', fabric_id=fabric)
        self.rping(one, two, '10.0.0.1', port=7180)
        self.rping(two, one, '10.0.0.2', port=7181)
        self.assertTrue(t.client.running)
        # A port that only the other fabric's 10.0.0.1 listens at
        ear = self.listen(one, 'rnic-listen 10.0.0.1 7182', '10.0.0.1:7182')
        refused = self.b.run('rping -c -a 10.0.0.1 -p 7182 -C 1', 60)
        self.assertIn('RDMA_CM_EVENT_REJECTED, error -111', refused.output)
        self.assertNotIn('request', ear.output)
        two.run('rping -c -a 10.0.0.1 -p 7182 -C 1', 60)
        ear.wait_output('request to 10.0.0.1 from 10.0.0.2')
        self.pair.wait_flow()
        t.client.kill()
        t.wait()

    # -- the host ---------------------------------------------------------

    def host_addr(self, vm):
        """Where the guest's address is on the host."""
        return host_address(self.pair.fabric['fabric-id'], self.pair.addr(vm))

    def refused(self, port, why):
        """That a has no connection to b's address at this port."""
        start = self.a.trace_size()
        result = self.a.run(f'rping -c -a {self.pair.addr(self.b)} -p {port} '
                            '-C 1', 60)
        self.assertIn('RDMA_CM_EVENT_REJECTED, error -111', result.output)
        self.wait_traced(self.a, start,
                         f'rnic_cm .*no connection to the host.*: .*{why}')

    def test_service_of_the_host_on_all_addresses_is_out_of_reach(self):
        for family, addr in ((socket.AF_INET, '0.0.0.0'),
                             (socket.AF_INET6, '::')):
            with self.subTest(addr=addr), socket.socket(family) as service:
                service.bind((addr, 0))
                service.listen(5)
                self.refused(service.getsockname()[1],
                             'the host serves every address')
                service.setblocking(False)
                with self.assertRaises(BlockingIOError):
                    service.accept()

    @unittest.skipIf(os.getuid(), 'only root can be another user')
    def test_service_of_another_user_is_out_of_reach(self):
        with as_nobody(SERVICE, self.host_addr(self.b)) as service:
            port = int(service.stdout.readline())
            self.refused(port, 'belongs to another user')
            service.stdin.close()
            # What it saw until it was told to look
            self.assertEqual(service.stdout.read(), 'nothing\n')

    @unittest.skipIf(os.getuid(), 'only root can be another user')
    def test_another_user_does_not_reach_a_listener(self):
        ear = self.listen(self.a, 'rnic-listen 10.0.0.1 7183', '10.0.0.1:7183')
        with as_nobody(CLIENT, self.host_addr(self.a), 7183) as client:
            self.assertEqual(client.stdout.read(), 'got 0\n')
        # One that may comes through, and is the first that the listener sees
        self.b.run('rping -c -a 10.0.0.1 -p 7183 -C 1', 60)
        ear.wait_output('request to 10.0.0.1 from 10.0.0.2')
        self.assertEqual(ear.output.count('request'), 1)


class Addresses(AddressLife, PairCase):
    """In guests of the newer kernel."""


if __name__ == '__main__':
    unittest.main(verbosity=2)
