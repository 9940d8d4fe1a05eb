#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's packet filter decides about RDMA connections."""

import json
import re
import sys
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


class Firewall(Basics, Filtered):
    """Linux 6.12."""


if __name__ == '__main__':
    unittest.main(verbosity=2)
