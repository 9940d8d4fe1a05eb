#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""RDMA programs between two guests, and in one with itself."""

import hashlib
import random
import re
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import PairCase, full  # noqa: E402
from rnicvm.perftest import bandwidth, latency  # noqa: E402

# perftest's sizes, and how many messages of each
COUNTS = {4096: 200, 65536: 50, 1048576: 10}


class Rping(PairCase):
    """rping, which uses Send, RDMA Read and RDMA Write."""

    def test_data_comes_back_with_either_side_as_server(self):
        self.rping(self.a, self.b)
        self.rping(self.b, self.a)

    def test_data_comes_back_in_all_sizes(self):
        # rping's least is the length of its own text
        for size in (32, 4096, 65535):
            with self.subTest(size=size):
                self.rping(self.a, self.b, size=size, count=4)

    def test_device_talks_to_itself(self):
        self.rping(self.a, self.a)

    def test_ipv6(self):
        self.rping(self.a, self.b, addr=self.pair.addr6(self.a))
        self.rping(self.b, self.b, addr=self.pair.addr6(self.b))

    def test_wildcard_listener_takes_ipv4_and_ipv6(self):
        for addr in (self.pair.addr(self.a), self.pair.addr6(self.a)):
            self.rping(self.a, self.b, addr, bind='::')

    def test_many_connections_to_one_server(self):
        addr = self.pair.addr(self.a)
        self.listen(self.a, f'rping -s -P -a {addr} -V', f'{addr}:7174')
        clients = [self.spawn(vm, f'rping -c -a {addr} -v -V -C 20')
                   for vm in (self.a, self.b) * 4]
        for client in clients:
            result = client.wait(120)
            self.assertEqual(result.output.count('\nping data') +
                             result.output.startswith('ping data'), 20,
                             result.output[-500:])

    @unittest.skipUnless(full(), 'only with RNIC_FULL')
    def test_ten_thousand_rounds(self):
        self.rping(self.a, self.b, count=10000, size=1000)


class Failures(PairCase):
    """Connections that cannot come about end with a clear error."""

    def client_fails(self, addr, port, timeout=60):
        result = self.b.run(f'rping -c -a {addr} -p {port} -C 1', timeout)
        self.assertNotEqual(result.rc, 0)
        return result.output

    def test_port_without_listener_is_refused(self):
        out = self.client_fails(self.pair.addr(self.a), 999)
        self.assertIn('RDMA_CM_EVENT_REJECTED, error -111', out)

    def test_address_without_owner_is_refused(self):
        out = self.client_fails('10.0.0.77', 7174)
        self.assertRegex(out, r'RDMA_CM_EVENT_\w+, error -\d+')

    def test_address_without_route_fails_to_resolve(self):
        out = self.client_fails('172.16.1.1', 7174)
        self.assertRegex(out, 'rdma_resolve_addr|ADDR_ERROR')

    def test_second_listener_on_a_port_is_refused(self):
        addr = self.pair.addr(self.a)
        self.listen(self.a, f'rping -s -a {addr}', f'{addr}:7174')
        result = self.a.run(f'rping -s -a {addr}', 30)
        self.assertNotEqual(result.rc, 0)
        self.assertIn('Address already in use', result.output)

    def test_listener_that_ended_frees_its_port(self):
        addr = self.pair.addr(self.a)
        for _ in range(3):
            ear = self.listen(self.a, f'rping -s -a {addr}', f'{addr}:7174')
            ear.kill(9)
            ear.wait()
            self.a.wait_idle()
        self.rping(self.a, self.b, count=2)


class Perftest(PairCase):
    """ib_*_bw and ib_*_lat over rdma_cm."""

    def check(self, server, client, sizes=tuple(COUNTS)):
        addr = self.pair.addr(server)
        for verb in ('write', 'read', 'send'):
            for size in sizes:
                count = COUNTS[size]
                with self.subTest(verb=verb, size=size):
                    before = server.stats()
                    bandwidth(server, client, addr, verb, size, count)
                    after = server.stats()
                    way = 'tx' if verb == 'read' else 'rx'
                    # in itself, what perftest says could be anything
                    self.assertGreaterEqual(
                        after[f'{way}_octets'] - before[f'{way}_octets'],
                        size * count)
            with self.subTest(verb=verb, what='latency'):
                result = latency(server, client, addr, verb, 64, 100)
                self.assertGreater(result.smallest, 0)

    def test_between_two_guests(self):
        self.check(self.a, self.b)

    def test_in_one_guest(self):
        self.check(self.b, self.b, list(COUNTS) if full() else [65536])

    def test_both_directions_at_a_time(self):
        for verb in ('write', 'send'):
            bandwidth(self.a, self.b, self.pair.addr(self.a), f'{verb}',
                      65536, 50, options='-b')

    def test_several_queue_pairs(self):
        bandwidth(self.a, self.b, self.pair.addr(self.a), 'write', 4096, 200,
                  options='-q 8')


class OtherPrograms(PairCase):
    """Programs of rdma-core and others."""

    def run_both(self, server, client, where, timeout=60):
        ear = self.listen(self.a, server, where)
        result = self.b.run(client, timeout)
        self.assertEqual(result.rc, 0, result.output)
        return ear, result.output

    def test_ucmatose(self):
        options = '-c 4 -C 10 -S 3000'
        ear, text = self.run_both(f'ucmatose {options}', 'ucmatose -s '
                                  f'{self.pair.addr(self.a)} {options}',
                                  '0.0.0.0:7471')
        self.assertIn('return status 0', text)
        self.assertIn('return status 0', ear.wait().output)

    def test_rcopy_makes_an_identical_file(self):
        data = random.Random(1).randbytes(3_000_001)
        self.b.push(data, '/tmp/from')
        addr = self.pair.addr(self.a)
        self.run_both('rcopy', f'rcopy /tmp/from {addr}:/tmp/to',
                      '0.0.0.0:7427')
        digest = self.a.run('sha256sum /tmp/to; rm /tmp/to', 60, True).output
        self.assertEqual(digest.split()[0], hashlib.sha256(data).hexdigest())
        self.b.run('rm /tmp/from')

    def test_rstream_with_verification(self):
        # Not -T a: it takes data that the peer's hang-up follows at once for
        # an error
        for options in ('', '-T b', '-T n'):
            with self.subTest(options=options):
                common = f'-S 4096 -C 200 -T v {options}'
                ear, _ = self.run_both(
                    f'rstream {common}',
                    f'rstream -s {self.pair.addr(self.a)} {common}',
                    '0.0.0.0:7471')
                self.assertEqual(ear.wait().rc, 0)

    def test_qperf(self):
        ear = self.spawn(self.a, 'qperf')
        self.a.run('until netstat -ltn | grep -q :19765; do sleep 0.1; done',
                   30, True)
        # In one guest, for its control connection is TCP. Its tests of RDMA
        # Write use immediate data, which iWARP does not have, and rc_bw sends
        # without asking whether a receive is posted, which ends an iWARP
        # connection whenever the receiver is slower.
        for test in ('rc_lat', 'rc_rdma_read_bw'):
            with self.subTest(test=test):
                result = self.a.run(
                    f'qperf -cm1 -t 1 {self.pair.addr(self.a)} {test}', 60)
                self.assertEqual(result.rc, 0, result.output)
                self.assertRegex(result.output, r'(bw|latency)\s+=')
        ear.kill()


class Verbs(PairCase):
    """This project's own program, which goes through the verbs one by one."""

    def test_all_between_two_guests(self):
        self.verbs(self.a, self.b)

    def test_all_in_one_guest(self):
        self.verbs(self.b, self.b)

    def test_ipv6(self):
        self.verbs(self.a, self.b, ['send-recv', 'write', 'read', 'reject'],
                   addr=self.pair.addr6(self.a))

    @unittest.skipUnless(full(), 'only with RNIC_FULL')
    def test_again_and_again(self):
        for _ in range(10):
            self.verbs(self.b, self.a, options='-m 256')


class KernelConsumer(PairCase):
    """tests/vm/modules/rnic_srq.c"""

    def test_srq_has_room_again_when_a_qp_is_destroyed(self):
        self.allow(r'^rnic_srq: ')
        out = self.a.run(f'modprobe rnic_srq addr={self.pair.addr(self.a)} && '
                         'cat /sys/module/rnic_srq/parameters/result; '
                         'rmmod rnic_srq', 60).output
        self.assertEqual(out.strip(), '8')


if __name__ == '__main__':
    unittest.main(verbosity=2)
