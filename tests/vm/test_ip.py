#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""IP on the RDMA addresses: ping, TCP and UDP between VMs of one fabric."""

import hashlib
import json
import re
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import Device, Image, Vm, claim_fabric_id, start_all  # noqa: E402
from rnicvm.perftest import wait_listen  # noqa: E402

GREETING = r'^rnic [\da-f:.]+: rnic\d+: iWARP adapter, '
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
    return [Vm(name, image=Image.prepare(kernel), qemu=built.qemu,
               load=built.load(),
               device=f'rnic,id=rnic0,fabric-id={fabric}',
               addr=[f'10.0.0.{i}/24', f'fd00::{i}/64'])
            for i, name in enumerate(names, first)]


class Guests(unittest.TestCase):
    """Two VMs for all tests of a class; each leaves a clean kernel log."""

    kernel = '6.12'
    vms = ()

    @classmethod
    def setUpClass(cls):
        cls.vms = new_vms('ab', cls.kernel, claim_fabric_id())
        cls.addClassCleanup(cls.close)
        start_all(cls.vms)
        cls.a, cls.b = cls.vms

    @classmethod
    def close(cls):
        for vm in cls.vms:
            vm.close()

    def setUp(self):
        self.allowed = [GREETING, TAPPED]

    def tearDown(self):
        for vm in self.vms:
            self.assertEqual(vm.kmsg_problems(self.allowed), [], vm.name)

    def stat(self, vm, name):
        return vm.qmp('qom-get', path='/machine/peripheral/rnic0',
                      property='stats')[name]

    def ping(self, vm, to, options='-c 3 -i 0.2', loss=0):
        result = vm.run(f'ping {options} -W 5 {to}', 60)
        self.assertRegex(result.output, rf'\b{loss}% packet loss', result)
        return result.output

    def server(self, vm, command, port):
        """Start a TCP server and wait until it listens. Its input stays open:
        the end of it would be the end of the connection for nc."""
        started = vm.spawn(command, stdin=None)
        vm.run(f'until ss -Hltn "sport = :{port}" | grep -q LISTEN; '
               'do sleep 0.2; done', 60, True)
        return started

    def iperf3(self, server, client, to, options='-t 2'):
        """Octets received."""
        ear = self.server(server, 'iperf3 -s -1', 5201)
        result = client.run(f'iperf3 -c {to} -J {options}', 120, True)
        ear.wait(60)
        end = json.loads(result.output)['end']
        return end.get('sum_received', end.get('sum'))['bytes']

    def mtu(self, mtu):
        for vm in self.vms:
            vm.run(f'ip link set $RNIC_NETDEV mtu {mtu}', check=True)


class Basics:
    """What must hold on each kernel."""

    def test_ping_over_ipv4_and_ipv6(self):
        self.ping(self.a, '10.0.0.2')
        self.ping(self.b, '10.0.0.1')
        self.ping(self.a, 'fd00::2')
        self.ping(self.b, 'fd00::1')

    def test_iperf3_both_ways(self):
        for to in ('10.0.0.2', 'fd00::2'):
            for options in ('-t 2', '-t 2 -R'):
                octets = self.iperf3(self.b, self.a, to, options)
                print(f'# iperf3 {to} {options}: '
                      f'{octets * 8 / 2e6:.0f} Mbit/s', file=sys.stderr)
                self.assertGreater(octets, 1000000)

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
        capture = self.b.spawn('tcpdump -Z root -i $RNIC_NETDEV -c 9 -vv -n -U '
                               'dst host 10.0.0.2 and port 7777')
        capture.wait_output('listening on')
        ear = self.server(self.b, 'busybox nc -l -p 7777 >/dev/null', 7777)
        # With pauses, since what GRO puts together has the first one's
        self.a.run('for i in 1 2 3 4 5 6 7 8; do head -c $((i * 111)) '
                   '/dev/urandom; sleep 0.1; done | busybox nc 10.0.0.2 7777',
                   60, True)
        ear.wait(60)
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
            octets = self.iperf3(self.b, self.a, '10.0.0.2')
            print(f'# iperf3, MTU {mtu}: {octets * 8 / 2e6:.0f} Mbit/s',
                  file=sys.stderr)
            self.assertGreater(octets, 1000000)
        for mtu in (67, 65521):
            self.assertNotEqual(
                self.a.run(f'ip link set $RNIC_NETDEV mtu {mtu}').rc, 0)
        self.mtu(1500)

    def test_mtu_changes_under_traffic(self):
        ear = self.server(self.b, 'iperf3 -s -1', 5201)
        talk = self.a.spawn('iperf3 -c 10.0.0.2 -t 6')
        for mtu in (9000, 1400, 65520, 1280, 1500):
            self.mtu(mtu)
        self.assertIn('receiver', talk.wait(60, True).output)
        ear.wait(60, True)

    def test_false_source_is_not_sent(self):
        spoofed = self.stat(self.a, 'net_tx_spoofed')
        arrived = self.stat(self.b, 'net_rx_packets')
        self.a.push(SPOOF.encode(), '/tmp/spoof.py')
        # One that is nobody's, the receiver's, one with its own low 16 bits
        for source in ('10.0.0.77', '10.0.0.2', '10.9.0.1'):
            self.a.run(f'python3 /tmp/spoof.py {source} 10.0.0.2 5', 60, True)
        self.assertEqual(self.stat(self.a, 'net_tx_spoofed'), spoofed + 15)
        self.assertEqual(self.stat(self.b, 'net_rx_packets'), arrived)
        # With its own the same program is heard
        self.a.run('python3 /tmp/spoof.py 10.0.0.1 10.0.0.2 5', 60, True)
        self.assertEqual(self.stat(self.b, 'net_rx_packets'), arrived + 5)

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
        talk = self.a.spawn('iperf3 -c 10.0.0.2 -t 30')
        talk.wait_output('connected to')
        self.a.run('sleep 1; modprobe -r rnic', 60, True)
        talk.kill(9)
        ear.kill(9)
        self.a.run('modprobe rnic && ip link set $RNIC_NETDEV up && '
                   'ip addr add 10.0.0.1/24 dev $RNIC_NETDEV && '
                   'ip addr add fd00::1/64 dev $RNIC_NETDEV nodad', 60, True)
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
        before = self.stat(self.a, 'net_tx_unreachable')
        self.ping(self.a, '10.0.0.99', '-c 2 -i 0.2 -w 2', 100)
        self.assertGreaterEqual(self.stat(self.a, 'net_tx_unreachable'),
                                before + 2)

    def test_many_streams_at_once(self):
        self.assertGreater(
            self.iperf3(self.b, self.a, '10.0.0.2', '-t 3 -P 8'), 1000000)

    def test_udp(self):
        self.assertGreater(
            self.iperf3(self.b, self.a, '10.0.0.2', '-u -b 5M -t 2'), 500000)

    def test_dialogue_over_tcp(self):
        ear = self.server(self.b, 'busybox nc -l -p 2222 -e /bin/sh', 2222)
        talk = self.a.spawn('busybox nc 10.0.0.2 2222', stdin=None)
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
        ear = self.server(self.b, 'iperf3 -s -1', 5201)
        rdma = self.b.spawn('ib_write_bw -R -F -s 65536 -D 4')
        wait_listen(self.b, '0.0.0.0:18515')
        write = self.a.spawn('ib_write_bw -R -F -s 65536 -D 4 10.0.0.2')
        tcp = self.a.run('iperf3 -c 10.0.0.2 -t 3', 60, True)
        self.assertIn('receiver', tcp.output)
        self.assertIn('65536', write.wait(120, True).output)
        rdma.wait(60, True)
        ear.wait(60, True)

    def test_same_port_for_rdma_and_tcp(self):
        self.server(self.b, 'busybox nc -l -p 7174 >/tmp/copy', 7174)
        ear = self.b.spawn('rping -s -a 10.0.0.2 -C 3')
        wait_listen(self.b, '10.0.0.2:7174')
        self.a.run('rping -c -a 10.0.0.2 -C 3', 60)
        ear.wait(60)
        self.a.run('echo by TCP | busybox nc 10.0.0.2 7174', 60, True)
        self.b.run('until grep -q "by TCP" /tmp/copy; do sleep 0.2; done', 60,
                   True)

    def test_packet_too_large_for_the_peer_is_dropped_not_cut(self):
        self.a.run('ip link set $RNIC_NETDEV mtu 9000', check=True)
        self.ping(self.a, '10.0.0.2', '-c 2 -i 0.2 -w 2 -M do -s 5000', 100)
        self.ping(self.a, '10.0.0.2', '-c 2 -i 0.2 -s 1000')
        self.mtu(1500)

    def test_link_down_and_up_again(self):
        self.b.run('ip link set $RNIC_NETDEV down', check=True)
        self.ping(self.a, '10.0.0.2', '-c 2 -i 0.2 -w 2', 100)
        # IPv6 addresses go with the link
        self.b.run('ip link set $RNIC_NETDEV up && '
                   'ip addr add fd00::2/64 dev $RNIC_NETDEV nodad', check=True)
        self.ping(self.a, '10.0.0.2')
        self.ping(self.a, 'fd00::2')

    def test_second_address_and_its_removal(self):
        self.b.run('ip addr add 10.0.7.2/16 dev $RNIC_NETDEV', check=True)
        self.a.run('ip route add 10.0.7.0/24 dev $RNIC_NETDEV', check=True)
        self.ping(self.a, '10.0.7.2')
        self.b.run('ip addr del 10.0.7.2/16 dev $RNIC_NETDEV', check=True)
        self.a.run('sleep 0.5')
        self.ping(self.a, '10.0.7.2', '-c 2 -i 0.2 -w 2', 100)
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
    def setUpClass(cls):
        cls.vms = [*new_vms('ab', cls.kernel, claim_fabric_id()),
                   # The same address as b's, and one more
                   *new_vms('c', cls.kernel, claim_fabric_id(), 2)]
        cls.addClassCleanup(cls.close)
        start_all(cls.vms)
        cls.a, cls.b, cls.c = cls.vms

    def test_fabrics_do_not_reach_each_other(self):
        self.c.run('ip addr add 10.0.0.3/24 dev $RNIC_NETDEV', check=True)
        self.ping(self.a, '10.0.0.2')
        self.ping(self.a, '10.0.0.3', '-c 2 -i 0.2 -w 2', 100)
        self.ping(self.c, '10.0.0.1', '-c 2 -i 0.2 -w 2', 100)
        self.assertEqual(self.stat(self.c, 'net_rx_packets'), 0)
        self.assertGreaterEqual(self.stat(self.b, 'net_rx_packets'), 3)


class Direct(Guests):
    """Without a loopback fabric the net device is for addresses only."""

    @classmethod
    def setUpClass(cls):
        built = Device.prepare()
        cls.vms = [Vm('direct', image=Image.prepare(cls.kernel),
                      qemu=built.qemu, load=built.load(),
                      device='rnic,id=rnic0,fabric=direct')]
        cls.addClassCleanup(cls.close)
        start_all(cls.vms)

    def test_packets_are_dropped_and_the_device_is_not_asked(self):
        vm = self.vms[0]
        vm.run('ip addr add 192.0.2.1/24 dev $RNIC_NETDEV', check=True)
        self.ping(vm, '192.0.2.7', '-c 2 -i 0.2 -w 2', 100)
        self.assertEqual(self.stat(vm, 'admin_errors'), 0)
        self.assertEqual(self.stat(vm, 'kicks'), 0)
        vm.run('ip link set $RNIC_NETDEV mtu 9000', check=True)


if __name__ == '__main__':
    unittest.main(verbosity=2)
