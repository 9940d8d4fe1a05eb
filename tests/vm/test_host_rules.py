#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The host's rules hold for a VM's RDMA: QEMU in a network namespace of its
own, fabric=direct, and a guest that talks to itself."""

import re
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import Device, Namespace, OwnVmCase, Vm  # noqa: E402

ADDR = '10.0.0.1'
PORT = 7174
# The namespace ends with QEMU, which takes the place of this shell
IN_NAMESPACE = ['unshare', '-n', 'sh', '-c',
                f'ip link set lo up && ip addr add {ADDR}/32 dev lo && '
                'exec "$0" "$@"']


@unittest.skipUnless(shutil.which('nft'), 'nft is not installed')
class HostRules(OwnVmCase):
    """What the host's administrator sees and decides."""

    @classmethod
    def setUpClass(cls):
        why = Namespace.why_not()
        if why:
            raise unittest.SkipTest(why)
        probe = subprocess.run(
            ['unshare', '-n', 'nft', 'add table inet t; add chain inet t c; '
             'add rule inet t c reject'], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False)
        if probe.returncode:
            raise unittest.SkipTest(f'no nftables here: {probe.stdout}')
        super().setUpClass()

    @classmethod
    def new_vms(cls):
        built = Device.prepare()
        cls.vm = Vm('host-rules', qemu=built.qemu, load=built.load(),
                    device='rnic,id=rnic0,fabric=direct,peer-timeout-ms=3000',
                    addr=f'{ADDR}/24', wrapper=IN_NAMESPACE)
        return [cls.vm]

    def setUp(self):
        super().setUp()
        self.addCleanup(self.on_host, 'nft flush ruleset')

    def on_host(self, command):
        done = subprocess.run(
            ['nsenter', '-t', str(self.vm.process.pid), '-n', 'sh', '-c',
             command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def rule(self, hook, rule):
        self.on_host('nft add table inet t; nft add chain inet t c '
                     f'"{{ type filter hook {hook} priority 0; }}"; '
                     f'nft add rule inet t c {rule}')

    def serve(self):
        return self.listen(self.vm, f'rping -s -a {ADDR} -v', f'{ADDR}:{PORT}')

    def connections(self):
        """Lines of ss for connections to the guest's port, both ends."""
        return [line for line in
                self.on_host('ss -Htnp state established').splitlines()
                if f'{ADDR}:{PORT}' in line]

    def test_established_connection_is_listed_and_ended(self):
        """By ss with its process, and by a rule that drops its packets"""
        server = self.serve()
        start = self.vm.trace_size()
        client = self.spawn(self.vm, f'rping -c -a {ADDR} -v')
        client.wait_output('ping data: rdma-ping-1')
        listed = self.connections()
        self.assertEqual(len(listed), 2, listed)
        for line in listed:
            self.assertRegex(line, r'"qemu-system[^"]*",pid='
                             rf'{self.vm.process.pid},')
        self.rule('input', f'tcp sport {PORT} counter drop; '
                  f'nft add rule inet t c tcp dport {PORT} counter drop')
        for end in (client, server):
            end.wait_output('DISCONNECT EVENT', 120)
        stop = time.monotonic() + 60
        while self.connections() and time.monotonic() < stop:
            time.sleep(0.2)
        self.assertEqual(self.connections(), [])
        self.wait_traced(self.vm, start, r'QP \d+: closed[^\n]*: timed out')

    def test_rejecting_rule_refuses(self):
        self.serve()
        self.rule('output', f'tcp dport {PORT} counter reject with tcp reset')
        result = self.vm.run(f'rping -c -a {ADDR} -v -C 1', 60)
        self.assertIn('RDMA_CM_EVENT_REJECTED, error -111', result.output)
        self.assertTrue(re.search(r'packets [1-9]',
                                  self.on_host('nft list ruleset')))
        self.on_host('nft flush ruleset')
        result = self.vm.run(f'rping -c -a {ADDR} -v -C 1', 60, True)
        self.assertIn('ping data: rdma-ping-0', result.output)


if __name__ == '__main__':
    unittest.main(verbosity=2)
