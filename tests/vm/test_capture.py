#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The device's capture of a real run, judged by tshark."""

import os
import shutil
import subprocess
import sys
import time
import unittest
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import PairCase  # noqa: E402

LEAST = 131072      # the smallest pcap-max
# Opcodes of RDMAP
WRITE, READ_REQUEST, READ_RESPONSE, SEND, SEND_INV, SEND_SE, TERMINATE = \
    0, 1, 2, 3, 4, 5, 7


@unittest.skipUnless(shutil.which('tshark'), 'tshark is not installed')
class Capture(PairCase):
    """Both devices write a capture and use CRCs."""

    def devices(self):
        for vm in (self.a, self.b):
            self.pair.ensure(vm, crc='on', pcap='{run}/rnic.pcap')

    def file(self, vm):
        return f'{vm.run_dir}/rnic.pcap'

    def tshark(self, vm, *arguments, check=True):
        # Without the first two, every Send would be taken for their protocol;
        # the last goes by a port that a client may come to have
        done = subprocess.run(
            ['tshark', '-r', self.file(vm), '--disable-protocol', 'rpcordma',
             '--disable-protocol', 'smb_direct', '--disable-protocol',
             'ecatf', *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=120, check=False)
        if check:
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn('cut short', done.stderr)
        return done.stdout

    def opcodes(self, vm):
        text = self.tshark(vm, '-Y', 'iwarp_ddp', '-T', 'fields', '-e',
                           'iwarp_rdma.opcode')
        return Counter(int(x, 16) for line in text.splitlines()
                       for x in line.split(',') if x)

    def judge(self, vm):
        self.assertEqual(self.tshark(vm, '-Y', '_ws.malformed'), '')
        whole = self.tshark(vm, '-V')
        self.assertNotIn('(Bad CRC32', whole)
        return whole.count('(Good CRC32')

    def test_all_operations_are_in_it_and_well_formed(self):
        self.rping(self.a, self.b)
        self.rping(self.b, self.a, self.pair.addr6(self.b))
        self.verbs(self.a, self.b,
                   ['send-recv', 'solicited', 'send-invalidate', 'write',
                    'read', 'private-data', 'reject', 'no-receive', 'access'])
        for vm in (self.a, self.b):
            with self.subTest(vm=vm.name):
                self.assertGreater(self.judge(vm), 60)
                seen = self.opcodes(vm)
                for opcode in (WRITE, READ_REQUEST, READ_RESPONSE, SEND,
                               SEND_INV, SEND_SE, TERMINATE):
                    self.assertGreater(seen[opcode], 0, opcode)
                # of ten rounds of rping, each with one of each
                self.assertGreaterEqual(seen[READ_REQUEST], 20)
                self.assertGreaterEqual(seen[READ_RESPONSE],
                                        seen[READ_REQUEST] - 5)
                addrs = self.tshark(vm, '-T', 'fields', '-e', 'ip.src',
                                    '-e', 'ipv6.src')
                for addr in ('10.0.0.1', '10.0.0.2', 'fd00::1', 'fd00::2'):
                    self.assertIn(addr, addrs.split())

    def test_both_ends_tell_the_same(self):
        """What one device sent, the other one received"""
        self.rping(self.a, self.b, port=7999, size=2000)
        end = time.monotonic() + 60
        # The last packet may be on its way into the file
        while (one := self.fpdus(self.a)) != (two := self.fpdus(self.b)) and \
                time.monotonic() < end:
            time.sleep(0.5)
        self.assertGreater(one.total(), 50)
        self.assertEqual(one, two)

    def fpdus(self, vm):
        """(source, opcode, length) of those of that port, with their count."""
        text = self.tshark(
            vm, '-Y', 'iwarp_ddp and tcp.port == 7999', '-T', 'fields', '-e',
            'ip.src', '-e', 'iwarp_rdma.opcode', '-e', 'iwarp_mpa.ulpdulength',
            check=False)
        found = Counter()
        for line in text.splitlines():
            # a packet may hold several FPDUs
            source, *columns = line.split('\t')
            found.update((source, *fpdu) for fpdu in
                         zip(*(c.split(',') for c in columns)))
        return found

    def test_readable_while_it_grows(self):
        t = self.traffic()
        sizes = []
        for _ in range(3):
            sizes.append(os.path.getsize(self.file(self.a)))
            # the last packet may be on its way into the file
            self.assertIn('10.0.0.2', self.tshark(
                self.a, '-c', '500', '-T', 'fields', '-e', 'ip.src',
                check=False))
            self.pair.wait_flow()
        self.assertEqual(sizes, sorted(set(sizes)))
        t.client.kill()
        t.wait()

    def test_size_limit_is_kept(self):
        self.pair.ensure(self.a, crc='on', pcap='{run}/small.pcap',
                         pcap_max=LEAST)
        self.addCleanup(self.pair.ensure, self.a, crc='on',
                        pcap='{run}/rnic.pcap')
        self.rping(self.a, self.b, size=65000)
        path = f'{self.a.run_dir}/small.pcap'
        size = os.path.getsize(path)
        self.assertLessEqual(size, LEAST)
        self.assertGreater(size, LEAST // 2)
        done = subprocess.run(['tshark', '-r', path], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn('cut short', done.stderr)


if __name__ == '__main__':
    unittest.main(verbosity=2)
