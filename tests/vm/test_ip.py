#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""IP on the RDMA addresses: ping, TCP and UDP between VMs of one fabric."""

import hashlib
import json
import re
import signal
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import Device, OwnVmCase, Vm  # noqa: E402
from rnicvm.perftest import bandwidth, wait_listen  # noqa: E402

# By tcpdump
TAPPED = r'^(device|rnic [\da-f:.]+) \S+ (entered|left) promiscuous mode'

# From a raw socket, so that the kernel does not choose the source
SPOOF = '''
import socket, sys
source, destination = map(socket.inet_aton, sys.argv[1:3])
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
payload = b'\\x08\\x00\\xf7\\xff' + bytes(4)
header = bytes([0x45, 0, 0, 20 + len(payload), 0, 1, 0, 0, 64, 1, 0, 0])
for i in range(int(sys.argv[3])):
    s.sendto(header + source + destination + payload, (sys.argv[2], 0))
'''

# The datagrams that come to a port
EAR = '''
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", int(sys.argv[1])))
s.settimeout(20)
print("ready", flush=True)
for i in range(int(sys.argv[2])):
    print(s.recv(100).decode(), flush=True)
'''


def new_vms(names, kernel, fabric, first=1):
    built = Device.prepare()
    return [Vm(name, kernel=kernel, qemu=built.qemu, load=built.load(),
               device=f'rnic,id=rnic0,fabric-id={fabric}',
               addr=[f'10.0.0.{i}/24', f'fd00::{i}/64'])
            for i, name in enumerate(names, first)]


class Guests(OwnVmCase):
    """Two VMs for all tests of a class."""

    @classmethod
    def new_vms(cls):
        cls.a, cls.b = vms = new_vms('ab', cls.kernel, cls.fabric())
        return vms

    def setUp(self):
        super().setUp()
        self.allow(TAPPED)

    def ping(self, vm, to, options='-c 3 -i 0.2', loss=0):
        # With all answers it takes no longer, and without any it has -w
        result = vm.run(f'ping {options} -W 30 {to}', 120)
        self.assertRegex(result.output, rf'\b{loss}% packet loss', result)
        return result.output

    def wait_answer(self, vm, to, there=True):
        """Wait until somebody answers there, or nobody does: what changes that
        may reach the device behind the command that changed it."""
        vm.run(f'while ping -c 1 -W 1 {to} >/dev/null; do sleep 0.1; done'
               if not there else
               f'until ping -c 1 -W 1 {to} >/dev/null; do :; done', 120, True)

    def wait_moving(self, vm, packets=50):
        """Wait until the device has sent a number of packets more."""
        vm.wait_stat('net_tx_packets', vm.stats()['net_tx_packets'] + packets)

    def server(self, vm, command, port):
        """Start a TCP server and wait until it listens. Its input stays open:
        the end of it would be the end of the connection for nc."""
        started = self.spawn(vm, command, None)
        vm.run(f'until ss -Hltn "sport = :{port}" | grep -q LISTEN; '
               'do sleep 0.2; done', 60, True)
        return started

    def iperf3(self, server, client, to, options='-n 16M'):
        """Octets received; what is on its way at the end does not count."""
        ear = self.server(server, 'iperf3 -s -1', 5201)
        result = client.run(f'iperf3 -c {to} -J {options}', 180, True)
        ear.wait(60)
        end = json.loads(result.output)['end']
        return end.get('sum_received', end.get('sum'))['bytes']

    def mtu(self, mtu):
        for vm in self.vms:
            vm.run(f'ip link set $RNIC_NETDEV mtu {mtu}', check=True)

    def set_up(self, vm, number):
        """Give the net device its addresses again, and wait for them."""
        vm.run(f'ip link set $RNIC_NETDEV up; '
               f'ip addr replace 10.0.0.{number}/24 dev $RNIC_NETDEV && '
               f'ip addr replace fd00::{number}/64 dev $RNIC_NETDEV nodad',
               60, True)
        for addr in (f'10.0.0.{number}', f'fd00::{number}'):
            vm.wait_addr(self.fabric(), addr)


class Basics:
    """What must hold on each kernel."""

    def test_ping_over_ipv4_and_ipv6(self):
        self.ping(self.a, '10.0.0.2')
        self.ping(self.b, '10.0.0.1')
        self.ping(self.a, 'fd00::2')
        self.ping(self.b, 'fd00::1')

    def test_iperf3_both_ways(self):
        for to in ('10.0.0.2', 'fd00::2'):
            for options in ('-n 16M', '-n 16M -R'):
                self.assertGreater(self.iperf3(self.b, self.a, to, options),
                                   1000000)

    def test_file_arrives_unchanged(self):
        for source, sink, to in ((self.a, self.b, '10.0.0.2'),
                                 (self.b, self.a, 'fd00::1')):
            source.run('dd if=/dev/urandom of=/tmp/file bs=1M count=16',
                       check=True)
            ear = self.server(sink, 'busybox nc -l -p 7777 >/tmp/copy', 7777)
            source.run(f'busybox nc {to} 7777 </tmp/file', 120, True)
            ear.wait(60, check=True)
            self.assertEqual(sink.run('sha256sum </tmp/copy').output,
                             source.run('sha256sum </tmp/file').output)

    def test_checksums_are_on_the_wire(self):
        """What the receiver captures has a checksum that is right."""
        capture = self.spawn(
            self.b, 'tcpdump -Z root -i $RNIC_NETDEV -c 9 -vv -n -U '
            'dst host 10.0.0.2 and port 7777')
        capture.wait_output('listening on')
        ear = self.server(self.b, 'busybox nc -l -p 7777', 7777)
        talk = self.spawn(self.a, 'busybox nc 10.0.0.2 7777', None)
        # One after the other, since what GRO puts together has the first one's
        for i in range(1, 9):
            talk.write(b'x' * i * 111 + b'\n')
            ear.wait_output(rf'x{{{i * 111}}}\n')
        talk.close_input()
        output = capture.wait(60).output
        arrived = [line for line in output.splitlines()
                   if re.search(r'> 10\.0\.0\.2\.7777: ', line)]
        self.assertEqual(len(arrived), 9, output)
        for line in arrived:
            self.assertRegex(line, r'cksum 0x[\da-f]+ \(correct\)')

    def test_mtu_from_smallest_to_largest(self):
        # Under 1280 IPv6 would go, and its addresses with it
        for mtu in (1280, 9000, 65520):
            self.mtu(mtu)
            self.ping(self.a, '10.0.0.2', f'-c 2 -i 0.2 -M do -s {mtu - 28}')
            self.ping(self.a, 'fd00::2', f'-c 2 -i 0.2 -M do -s {mtu - 48}')
            self.assertGreater(self.iperf3(self.b, self.a, '10.0.0.2'),
                               1000000)
        for mtu in (67, 65521):
            self.assertNotEqual(
                self.a.run(f'ip link set $RNIC_NETDEV mtu {mtu}').rc, 0)
        self.mtu(1500)

    def test_mtu_changes_under_traffic(self):
        ear = self.server(self.b, 'iperf3 -s -1', 5201)
        talk = self.spawn(self.a, 'iperf3 -c 10.0.0.2 -t 600')
        for mtu in (9000, 1400, 65520, 1280, 1500):
            self.mtu(mtu)
            self.wait_moving(self.a)
        talk.kill(signal.SIGINT)
        self.assertIn('receiver', talk.wait(60).output)
        ear.wait(60)

    def test_packet_that_waits_for_a_change_of_the_mtu(self):
        """It is sent when that is over, not with the next packet"""
        def delay(ms):
            self.a.qmp('qom-set', path='/machine/peripheral/rnic0',
                       property='fault-admin-delay', value=ms)

        self.addCleanup(self.mtu, 1500)
        self.addCleanup(delay, 0)
        # So that the ping is in the midst of it
        delay(1000)
        out = self.a.run('ip link set $RNIC_NETDEV mtu 1400 & change=$!; '
                         'sleep 0.5; ping -c 1 -W 20 10.0.0.2 & '
                         'wait $change; until tc -s qdisc show dev '
                         '$RNIC_NETDEV | grep -q "backlog 0b 0p"; do '
                         'sleep 0.1; done; wait', 60).output
        self.assertRegex(out, r'\b0% packet loss')

    def test_false_source_is_not_sent(self):
        spoofed = self.a.stats()['net_tx_spoofed']
        # What is left of other tests counts for nothing
        self.b.run('nft -f -', 60, True, b'''
            table ip seen {
                chain c {
                    type filter hook prerouting priority 0;
                    icmp type echo-request counter
                }
            }''')
        self.addCleanup(self.b.run, 'nft delete table ip seen')
        self.a.push(SPOOF.encode(), '/tmp/spoof.py')
        # One that is nobody's, the receiver's, one with its own low 16 bits
        for source in ('10.0.0.77', '10.0.0.2', '10.9.0.1'):
            self.a.run(f'python3 /tmp/spoof.py {source} 10.0.0.2 5', 60, True)
        # With its own the same program is heard. Packets do not overtake others.
        self.a.run('python3 /tmp/spoof.py 10.0.0.1 10.0.0.2 5', 60, True)
        self.b.run('until nft list table ip seen | grep -qE "packets [5-9]|'
                   'packets .[0-9]"; do sleep 0.1; done', 60, True)
        self.assertIn('packets 5 ',
                      self.b.run('nft list table ip seen', 60, True).output)
        self.assertEqual(self.a.stats()['net_tx_spoofed'], spoofed + 15)

    def test_batch_that_ends_with_a_dropped_packet(self):
        """What was sent before it does not wait for the next packet"""
        ear = self.b.spawn(f'python3 -c \'{EAR}\' 7999 2')
        ear.wait_output('ready')
        self.a.run('modprobe rnic_batch dev=$RNIC_NETDEV from=10.0.0.1 '
                   'to=10.0.0.2 port=7999 && rmmod rnic_batch', 60, True)
        self.assertEqual(ear.wait(60).output.splitlines()[1:],
                         ['one of two'] * 2)

    def test_driver_unloads_and_loads_under_traffic(self):
        ear = self.server(self.b, 'iperf3 -s -1', 5201)
        talk = self.spawn(self.a, 'iperf3 -c 10.0.0.2 -t 600')
        self.wait_moving(self.a)
        self.a.run('modprobe -r rnic', 60, True)
        for command in (talk, ear):
            command.kill(signal.SIGKILL)
            command.wait()
        self.a.run('modprobe rnic && until [ -e /sys/class/net/$RNIC_NETDEV ]; '
                   'do sleep 0.1; done', 60, True)
        self.set_up(self.a, 1)
        self.ping(self.a, '10.0.0.2')
        self.ping(self.a, 'fd00::2')


class Ip(Basics, Guests):
    """That, and what does not depend on the kernel's version."""

    def test_ping_of_a_link_local_address(self):
        address = re.search(r'inet6 (fe80::\S+)/', self.b.run(
            'ip -6 addr show dev $RNIC_NETDEV', check=True).output)[1]
        self.ping(self.a, f'{address}%$RNIC_NETDEV')

    def test_datagrams_of_every_size_are_fragmented_and_put_together(self):
        for size in (0, 1, 1471, 1472, 1473, 20000, 65507):
            self.ping(self.a, '10.0.0.2', f'-c 2 -i 0.2 -s {size}')
        for size in (0, 1452, 1453, 30000):
            self.ping(self.a, 'fd00::2', f'-c 2 -i 0.2 -s {size}')

    def test_ping_of_oneself(self):
        self.ping(self.a, '10.0.0.1')

    def test_nobody_answers_at_an_address_that_nobody_has(self):
        before = self.a.stats()['net_tx_unreachable']
        output = self.ping(self.a, '10.0.0.99', '-i 0.2 -w 2', 100)
        sent = int(re.search(r'(\d+) packets transmitted', output)[1])
        self.a.wait_stat('net_tx_unreachable', before + sent)

    def test_many_streams_at_once(self):
        self.assertGreater(
            self.iperf3(self.b, self.a, '10.0.0.2', '-n 32M -P 8'), 1000000)

    def test_udp(self):
        # It promises nothing, and a busy receiver loses some
        self.assertGreater(
            self.iperf3(self.b, self.a, '10.0.0.2', '-u -b 5M -n 1M'), 100000)

    def test_dialogue_over_tcp(self):
        ear = self.server(self.b, 'busybox nc -l -p 2222 -e /bin/sh', 2222)
        talk = self.spawn(self.a, 'busybox nc 10.0.0.2 2222', None)
        talk.write(b'hostname\n')
        talk.wait_output('^b\n')
        talk.write(b'echo $((6 * 7)); exit\n')
        talk.wait_output('42')
        talk.close_input()
        talk.wait()
        ear.wait(30)

    def test_qperf_tcp_and_udp(self):
        ear = self.server(self.b, 'qperf', 19765)
        result = self.a.run('qperf -t 1 10.0.0.2 tcp_bw tcp_lat udp_lat', 60,
                            True)
        for word in ('tcp_bw', 'tcp_lat', 'udp_lat'):
            self.assertIn(word, result.output)
        ear.kill()
        ear.wait()

    def test_rdma_and_tcp_at_once(self):
        self.server(self.b, 'iperf3 -s -1', 5201)
        tcp = self.spawn(self.a, 'iperf3 -c 10.0.0.2 -t 600')
        self.wait_moving(self.a)
        bandwidth(self.b, self.a, '10.0.0.2', 'write', 65536, 200)
        self.wait_moving(self.a)
        self.assertTrue(tcp.running, tcp.output)

    def test_same_port_for_rdma_and_tcp(self):
        self.server(self.b, 'busybox nc -l -p 7174 >/tmp/copy', 7174)
        ear = self.spawn(self.b, 'rping -s -a 10.0.0.2 -C 3')
        wait_listen(self.b, '10.0.0.2:7174')
        talk = self.a.run('rping -c -a 10.0.0.2 -v -C 3', 60)
        self.assertEqual(talk.output.count('ping data'), 3, talk.output)
        ear.wait(60)
        self.a.run('echo by TCP | busybox nc 10.0.0.2 7174', 60, True)
        self.b.run('until grep -q "by TCP" /tmp/copy; do sleep 0.2; done', 60,
                   True)

    def test_packet_too_large_for_the_peer_is_dropped_not_cut(self):
        self.a.run('ip link set $RNIC_NETDEV mtu 9000', check=True)
        self.ping(self.a, '10.0.0.2', '-i 0.2 -w 2 -M do -s 5000', 100)
        self.ping(self.a, '10.0.0.2', '-c 2 -i 0.2 -s 1000')
        self.mtu(1500)

    def test_link_down_and_up_again(self):
        self.b.run('ip link set $RNIC_NETDEV down', check=True)
        self.wait_answer(self.a, '10.0.0.2', False)
        self.ping(self.a, '10.0.0.2', '-i 0.2 -w 2', 100)
        # IPv6 addresses go with the link
        self.set_up(self.b, 2)
        self.wait_answer(self.a, '10.0.0.2')
        self.ping(self.a, '10.0.0.2')
        self.ping(self.a, 'fd00::2')

    def test_second_address_and_its_removal(self):
        self.b.run('ip addr add 10.0.7.2/16 dev $RNIC_NETDEV', check=True)
        self.a.run('ip route add 10.0.7.0/24 dev $RNIC_NETDEV', check=True)
        self.wait_answer(self.a, '10.0.7.2')
        self.ping(self.a, '10.0.7.2')
        self.b.run('ip addr del 10.0.7.2/16 dev $RNIC_NETDEV', check=True)
        self.wait_answer(self.a, '10.0.7.2', False)
        self.ping(self.a, '10.0.7.2', '-i 0.2 -w 2', 100)
        self.a.run('ip route del 10.0.7.0/24 dev $RNIC_NETDEV', check=True)

    def test_stopped_vm_holds_nobody_up_and_comes_back(self):
        self.b.qmp('stop')
        try:
            self.ping(self.a, '10.0.0.2', '-c 20 -i 0.05 -w 3', 100)
            self.ping(self.a, '10.0.0.1')
        finally:
            self.b.qmp('cont')
        self.ping(self.a, '10.0.0.2')


class OldKernel(Basics, Guests):
    """The basics on the older kernel."""

    kernel = '6.1'


class Fabrics(Guests):
    """Two fabrics side by side."""

    @classmethod
    def new_vms(cls):
        cls.a, cls.b, cls.c = vms = [
            *new_vms('ab', cls.kernel, cls.fabric()),
            # The same address as b's, and one more
            *new_vms('c', cls.kernel, cls.fabric(1), 2)]
        return vms

    def test_fabrics_do_not_reach_each_other(self):
        self.c.run('ip addr add 10.0.0.3/24 dev $RNIC_NETDEV', check=True)
        self.c.wait_addr(self.fabric(1), '10.0.0.3')
        self.ping(self.a, '10.0.0.2')
        self.ping(self.a, '10.0.0.3', '-i 0.2 -w 2', 100)
        self.ping(self.c, '10.0.0.1', '-i 0.2 -w 2', 100)
        self.assertEqual(self.c.stats()['net_rx_packets'], 0)
        self.assertGreaterEqual(self.b.stats()['net_rx_packets'], 3)


class Direct(OwnVmCase):
    """Without a loopback fabric the net device is for addresses only."""

    @classmethod
    def new_vms(cls):
        built = Device.prepare()
        return [Vm('direct', kernel=cls.kernel, qemu=built.qemu,
                   load=built.load(), device='rnic,id=rnic0,fabric=direct')]

    def test_packets_are_dropped_and_the_device_is_not_asked(self):
        vm = self.vms[0]
        vm.run('ip addr add 192.0.2.1/24 dev $RNIC_NETDEV', check=True)
        result = vm.run('ping -i 0.2 -w 2 192.0.2.7', 60)
        self.assertIn(' 100% packet loss', result.output)
        self.assertEqual(vm.stats()['admin_errors'], 0)
        self.assertEqual(vm.stats()['kicks'], 0)
        vm.run('ip link set $RNIC_NETDEV mtu 9000', check=True)


if __name__ == '__main__':
    unittest.main(verbosity=2)
