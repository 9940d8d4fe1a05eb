#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's packet filter decides about RDMA connections."""

import json
import re
import sys
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import PairCase  # noqa: E402

PORT = 7174
PARAMETER = '/sys/module/rnic/parameters/netfilter'


class Filtered(PairCase):
    """a is the server and b the client of rping; nft loads the rules."""

    def setUp(self):
        super().setUp()
        self.allow(r'^rnic \S+: (outgoing|incoming) connection from ')
        self.addCleanup(self.no_rules)

    def no_rules(self):
        for vm in (self.a, self.b):
            vm.run(f'nft flush ruleset; echo 1 >{PARAMETER}', 60, True)

    def addrs(self):
        """Of the server, by IP version."""
        return (('ip', self.pair.addr(self.a)),
                ('ip6', self.pair.addr6(self.a)))

    def rules(self, vm, text, into=''):
        vm.run(f'{into} nft -f -', 60, True, text.encode())

    def rule(self, vm, hook, rule, into=''):
        """One rule in one chain; each of a test has its own table. With
        `counter` in it, counted() tells how many packets it has seen."""
        self.rules(vm, f'''
            table inet {hook}
            delete table inet {hook}
            table inet {hook} {{
                chain c {{
                    type filter hook {hook} priority 0;
                    {rule}
                }}
            }}''', into)

    def counted(self, vm, hook, into=''):
        text = vm.run(f'{into} nft -j list table inet {hook}', 60, True).output
        return [e['counter']['packets']
                for item in json.loads(text)['nftables']
                for e in item.get('rule', {}).get('expr', [])
                if 'counter' in e]

    def serve(self, addr, vm=None):
        return self.listen(vm or self.a, f'rping -s -P -a {addr} -v',
                           f'{addr}:{PORT}')

    def connect(self, addr, vm=None, into=''):
        return (vm or self.b).run(f'{into} rping -c -a {addr} -C 1 -v', 60)

    def assert_connects(self, addr, vm=None, into=''):
        result = self.connect(addr, vm, into)
        self.assertEqual(result.rc, 0, result.output)
        self.assertIn('ping data: rdma-ping-0', result.output)

    def assert_refused(self, addr, seen, vm=None, into=''):
        result = self.connect(addr, vm, into)
        self.assertNotEqual(result.rc, 0)
        self.assertIn(seen, result.output)

    def only(self, vm, hook, match):
        """Let through to the port what matches and is a good SYN of a new
        connection, drop the rest; counters of both."""
        self.rule(vm, hook, f"""
            {match} tcp dport {PORT} tcp flags & (fin|syn|rst|ack) == syn
                tcp option maxseg size > 500 ct state new counter accept
            tcp dport {PORT} counter drop""")

    @staticmethod
    def sockets(vm):
        """How many the kernel has: all, TCP's in use, TCP's allocated."""
        return [int(n) for n in re.findall(
            r'(?:sockets: used|TCP: inuse|alloc) (\d+)',
            vm.run('cat /proc/net/sockstat', 60, True).output)]

    def wait_sockets(self, vm, most, timeout=60):
        """Wait until it has no more than that; those of others may go, too."""
        end = time.monotonic() + timeout
        now = self.sockets(vm)
        while any(n > m for n, m in zip(now, most)):
            self.assertLess(time.monotonic(), end, f'{now}, and not {most}')
            time.sleep(0.2)
            now = self.sockets(vm)

    def netdev(self, vm):
        return vm.run('cd /sys/bus/pci/drivers/rnic/*/net && echo *', 60,
                      True).output.strip()

    def own(self, family):
        """The client's address."""
        return (self.pair.addr if family == 'ip' else self.pair.addr6)(self.b)

    def refused(self, vm, which):
        """How many connections the driver says were refused."""
        text = vm.run('rdma statistic show link rnic0/1', 60, True).output
        return int(re.search(rf'filter_refused_{which} (\d+)', text)[1])

    def last_message(self, vm):
        return [k for k in self.kernel_log(vm) if 'connection from' in k][-1]


REJECT = 'counter reject with tcp reset'
DROP = 'counter drop'
# What the client sees of each
SEEN = {REJECT: 'RDMA_CM_EVENT_REJECTED, error -111',
        DROP: 'RDMA_CM_EVENT_CONNECT_ERROR, error -1'}


class Basics:
    """What must hold on each kernel."""

    def test_outgoing_connection_is_refused(self):
        for family, addr in self.addrs():
            self.serve(addr)
            for verdict, seen in SEEN.items():
                with self.subTest(family=family, verdict=verdict):
                    before = self.refused(self.b, 'out')
                    self.rule(self.b, 'output', f'{family} daddr {addr} '
                              f'tcp dport {PORT} {verdict}')
                    self.assert_refused(addr, seen)
                    self.assertEqual(self.counted(self.b, 'output'), [1])
                    self.assertEqual(self.refused(self.b, 'out'), before + 1)
                    self.assertRegex(
                        self.last_message(self.b),
                        rf'outgoing connection from {self.own(family)} port '
                        rf'\d+ to {addr} port {PORT}: refused by the packet '
                        'filter')
            self.no_rules()
            self.assert_connects(addr)

    def test_incoming_connection_is_refused(self):
        for family, addr in self.addrs():
            server = self.serve(addr)
            for verdict in SEEN:
                with self.subTest(family=family, verdict=verdict):
                    before = self.refused(self.a, 'in')
                    self.rule(self.a, 'input',
                              f'{family} saddr {self.own(family)} '
                              f'tcp dport {PORT} {verdict}')
                    self.assert_refused(addr, SEEN[REJECT])
                    self.assertEqual(self.counted(self.a, 'input'), [1])
                    self.assertEqual(self.refused(self.a, 'in'), before + 1)
                    self.assertRegex(
                        self.last_message(self.a),
                        rf'incoming connection from {self.own(family)} port '
                        rf'\d+ to {addr} port {PORT}: refused by the packet '
                        'filter')
                    self.assertEqual(server.output, '')
            self.no_rules()
            self.assert_connects(addr)

    def test_rules_see_a_syn_with_its_interface_and_state(self):
        """Only what is named is let through, in every hook"""
        for family, addr in self.addrs():
            with self.subTest(family=family):
                self.serve(addr)
                for hook in ('output', 'postrouting'):
                    self.only(self.b, hook, f'oifname {self.netdev(self.b)} '
                              f'{family} saddr {self.own(family)} '
                              f'{family} daddr {addr}')
                for hook in ('prerouting', 'input'):
                    self.only(self.a, hook, f'iifname {self.netdev(self.a)} '
                              f'{family} saddr {self.own(family)} '
                              f'{family} daddr {addr}')
                self.assert_connects(addr)
                for vm, hook in ((self.b, 'output'), (self.b, 'postrouting'),
                                 (self.a, 'prerouting'), (self.a, 'input')):
                    self.assertEqual(self.counted(vm, hook), [1, 0], hook)
                self.no_rules()


# Binds queue 0, prints the ports of the first packet, lets it through
QUEUE = '''
import socket, struct
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
s.bind((0, 0))
def send(kind, queue, attr, value):
    attrs = struct.pack('=HH', 4 + len(value), attr) + value
    attrs += bytes(-len(attrs) % 4)
    body = struct.pack('=BBH', 0, 0, socket.htons(queue)) + attrs
    s.send(struct.pack('=IHHII', 16 + len(body), 3 << 8 | kind, 1, 0, 0) + body)
send(2, 0, 1, struct.pack('=BBH', 1, 0, 0))
send(2, 0, 2, struct.pack('!IB', 0xffff, 2))
print('bound', flush=True)
attrs = s.recv(65536)[20:]
while attrs:
    length, kind = struct.unpack_from('=HH', attrs)
    if kind == 1:
        packet = attrs[4:8]
    if kind == 10:
        print('ports', *struct.unpack_from('!HH', attrs, 4 + 20), flush=True)
    attrs = attrs[length + -length % 4:]
send(1, 0, 2, struct.pack('!I', 1) + packet)
print('let through', flush=True)
'''


class Firewall(Basics, Filtered):
    """Linux 6.12, with all that rules can do."""

    def test_parameter_turns_the_question_off(self):
        addr = self.pair.addr(self.a)
        self.serve(addr)
        for vm, hook in ((self.a, 'input'), (self.b, 'output')):
            self.rule(vm, hook, f'tcp dport {PORT} {DROP}')
            vm.run(f'echo 0 >{PARAMETER}', 60, True)
        self.assert_connects(addr)
        for vm, hook in ((self.a, 'input'), (self.b, 'output')):
            self.assertEqual(self.counted(vm, hook), [0])
            vm.run(f'echo 1 >{PARAMETER}', 60, True)
        self.assert_refused(addr, SEEN[DROP])

    def test_rule_on_the_user(self):
        addr = self.pair.addr(self.a)
        self.serve(addr)
        used = self.sockets(self.b)
        self.rule(self.b, 'output', f'tcp dport {PORT} meta skuid 0 {DROP}')
        self.assert_refused(addr, SEEN[DROP])
        self.rule(self.b, 'output', f'tcp dport {PORT} meta skuid != 0 {DROP}')
        self.assert_connects(addr)
        # What carried the user is gone again
        self.wait_sockets(self.b, used)

    def test_connection_to_itself_uses_lo(self):
        for family, addr in self.addrs():
            with self.subTest(family=family):
                self.serve(addr)
                match = f'{family} saddr {addr} {family} daddr {addr}'
                self.only(self.a, 'output', f'oifname lo {match}')
                self.only(self.a, 'input', f'iifname lo {match}')
                self.assert_connects(addr, self.a)
                for hook in ('output', 'input'):
                    self.assertEqual(self.counted(self.a, hook), [1, 0])
                self.no_rules()

    def test_connection_tracking_keeps_no_entry(self):
        addr = self.pair.addr(self.a)
        self.serve(addr)
        tracked = f'grep -w dport={PORT} /proc/net/nf_conntrack'
        for vm, hook in ((self.b, 'output'), (self.a, 'input')):
            self.rule(vm, hook, f'tcp dport {PORT} ct state new counter')
        # One of TCP stays, and the RDMA connection does not disturb it
        server = self.spawn(self.a, f'busybox nc -l -p {PORT}', None)
        self.a.run(f'until ss -Hltn "sport = :{PORT}" | grep -q LISTEN; '
                   'do sleep 0.2; done', 60, True)
        client = self.spawn(self.b, f'busybox nc {addr} {PORT}', None)
        client.write(b'before\n')
        server.wait_output('before')
        self.assert_connects(addr)
        client.write(b'after\n')
        server.wait_output('after')
        for vm, hook in ((self.b, 'output'), (self.a, 'input')):
            # Both were new connections
            self.assertEqual(self.counted(vm, hook), [2])
            found = vm.run(tracked).output.splitlines()
            self.assertEqual(len(found), 1, found)
            self.assertIn('ESTABLISHED', found[0])

    def test_translation_is_refused(self):
        addr = self.pair.addr(self.a)
        self.serve(addr)
        self.rules(self.a, f'''
            table ip nat {{
                chain c {{
                    type nat hook prerouting priority 0;
                    tcp dport {PORT} redirect to :{PORT + 1}
                }}
            }}''')
        self.assert_refused(addr, SEEN[REJECT])
        self.assertIn('would translate', self.last_message(self.a))
        self.no_rules()
        self.assert_connects(addr)

    def test_queued_packet_is_refused_and_harmless_later(self):
        addr = self.pair.addr(self.a)
        self.serve(addr)
        self.rule(self.b, 'output', f'tcp dport {PORT} counter queue')
        self.b.push(QUEUE.encode(), '/tmp/queue.py')
        queue = self.spawn(self.b, 'python3 /tmp/queue.py')
        queue.wait_output('bound')
        self.rule(self.a, 'prerouting', f'tcp dport {PORT} counter')
        self.assert_refused(addr, SEEN[DROP])
        self.assertIn('keeps its SYN', self.last_message(self.b))
        queue.wait_output(rf'ports \d+ {PORT}\nlet through')
        queue.wait(60, True)
        self.assertEqual(self.counted(self.b, 'output'), [1])
        # It is not sent
        self.assertEqual(self.counted(self.a, 'prerouting'), [0])

    def test_routing_decides_who_comes_in(self):
        addr, dev = self.pair.addr(self.a), self.netdev(self.a)
        self.serve(addr)
        self.addCleanup(self.a.run, f'ip route del {self.own("ip")} dev lo; '
                        f'sysctl -w net.ipv4.conf.{dev}.rp_filter=0', 60)
        self.a.run(f'sysctl -w net.ipv4.conf.{dev}.rp_filter=1 && '
                   f'ip route add {self.own("ip")} dev lo', 60, True)
        self.assert_refused(addr, SEEN[REJECT])
        self.assertIn('routing tables', self.last_message(self.a))

    def test_rules_are_those_of_the_name_space(self):
        addr, dev = self.pair.addr(self.a), self.netdev(self.b)
        into = 'ip netns exec x'
        self.serve(addr)
        self.addCleanup(self.pair.configure, self.b)
        self.addCleanup(self.b.run, f'ip -n x link set {dev} netns 1; '
                        'ip netns del x', 60, True)
        self.b.run(f'ip netns add x && ip link set {dev} netns x && '
                   f'ip -n x link set lo up && ip -n x link set {dev} up && '
                   f'ip -n x addr add {self.own("ip")}/24 dev {dev}', 60, True)
        self.rule(self.b, 'output', f'tcp dport {PORT} {DROP}')
        self.assert_connects(addr, into=into)
        self.assertEqual(self.counted(self.b, 'output'), [0])
        self.rule(self.b, 'output', f'tcp dport {PORT} {REJECT}', into)
        self.assert_refused(addr, SEEN[REJECT], into=into)
        self.assertEqual(self.counted(self.b, 'output', into), [1])


if __name__ == '__main__':
    unittest.main(verbosity=2)
