#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Atomics and immediate data between guests, with rfc7306=on."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import PairCase, pyverbs  # noqa: E402
from rnicvm.perftest import latency, message_rate  # noqa: E402

VERBS = ['atomics', 'atomic-sum', 'immediate', 'wr-api',
         'atomic-without-right', 'atomic-unaligned']

# Of rdma-core's tests those that post atomics and immediate data. They connect
# queue pairs by hand, which iWARP cannot; here rdma_cm does it for them.
PYVERBS = '''
addr = arguments.pop(0)
import pyverbs.cm_enums as ce
from pyverbs.cmid import CMID, AddrInfo, CMEvent, CMEventChannel, ConnParam
from tests import base

kept, waiting, ports = [], [], iter(range(20000, 30000))

def expect(channel, kind):
    event = CMEvent(channel)
    assert event.event_type == kind, event.event_str()
    event.ack_cm_event()

def connect(client, server):
    port = str(next(ports))
    passive, active = CMEventChannel(), CMEventChannel()
    listener = CMID(creator=passive, port_space=ce.RDMA_PS_TCP)
    listener.bind_addr(AddrInfo(src=addr, src_service=port,
                                port_space=ce.RDMA_PS_TCP,
                                flags=ce.RAI_PASSIVE))
    listener.listen(backlog=1)
    cmid = CMID(creator=active, port_space=ce.RDMA_PS_TCP)
    cmid.resolve_addr(AddrInfo(dst=addr, dst_service=port,
                               port_space=ce.RDMA_PS_TCP), 10000)
    expect(active, ce.RDMA_CM_EVENT_ADDR_RESOLVED)
    cmid.resolve_route(10000)
    expect(active, ce.RDMA_CM_EVENT_ROUTE_RESOLVED)
    cmid.connect(ConnParam(qp_num=client, resources=16, depth=16))
    event = CMEvent(passive)
    assert event.event_type == ce.RDMA_CM_EVENT_CONNECT_REQUEST
    child = CMID(creator=event, listen_id=listener)
    event.ack_cm_event()
    child.accept(ConnParam(qp_num=server, resources=16, depth=16))
    expect(active, ce.RDMA_CM_EVENT_ESTABLISHED)
    expect(passive, ce.RDMA_CM_EVENT_ESTABLISHED)
    kept.extend([passive, active, listener, cmid, child])

def to_rts(self):
    """Of one player; when both have come they are connected"""
    waiting.append(self)
    if len(waiting) == 2:
        for pair in zip(*(player.qps_num for player in waiting)):
            connect(*pair)
        waiting.clear()

base.RCResources.to_rts = to_rts
'''

PYVERBS_TESTS = {
    'test_atomic.AtomicTest': '''
        test_atomic_cmp_and_swap test_atomic_fetch_and_add
        test_atomic_invalid_mr_access test_atomic_non_aligned_addr
        test_atomic_invalid_lkey test_atomic_invalid_rkey''',
    'test_qpex.QpExTestCase': '''
        test_qp_ex_rc_send test_qp_ex_rc_rdma_write
        test_qp_ex_rc_rdma_write_imm test_qp_ex_rc_rdma_write_zero_length
        test_qp_ex_rc_rdma_read test_qp_ex_rc_rdma_read_zero_size
        test_qp_ex_rc_atomic_cmp_swp test_qp_ex_rc_atomic_fetch_add''',
}


class Both(PairCase):
    """Two devices that have it; what is tested with each kernel."""

    def devices(self):
        for vm in (self.a, self.b):
            self.pair.ensure(vm, rfc7306='on')

    def verbs_between_guests(self):
        self.verbs(self.a, self.b, VERBS)

    def kernel_consumer(self):
        """tests/vm/modules/rnic_atomic.c"""
        self.allow(r'^rnic_atomic: ')
        out = self.a.run(f'modprobe rnic_atomic addr={self.pair.addr(self.a)} '
                         '&& cat /sys/module/rnic_atomic/parameters/result; '
                         'rmmod rnic_atomic', 60).output
        self.assertEqual(out.strip(), 'ok')

    def ib_atomic_bw(self, kind):
        message_rate(self.a, self.b, self.pair.addr(self.a), 'atomic', 500,
                     options=f'-A {kind}')


class Rfc7306(Both):
    """What programs do with it."""

    def test_verbs_between_guests(self):
        self.verbs_between_guests()

    def test_kernel_consumer(self):
        self.kernel_consumer()

    def test_verbs_of_a_guest_with_itself(self):
        self.verbs(self.a, self.a, ['atomics', 'immediate', 'wr-api'])

    def test_device_tells_that_it_has_atomics(self):
        out = self.a.run('ibv_devinfo -v', 30, True).output
        self.assertIn('atomic_cap:\t\t\tATOMIC_HCA', out)

    def test_ib_atomic_bw_and_lat(self):
        addr = self.pair.addr(self.a)
        for kind in ('FETCH_AND_ADD', 'CMP_AND_SWAP'):
            with self.subTest(kind=kind):
                self.ib_atomic_bw(kind)
                latency(self.a, self.b, addr, 'atomic', 0, 200,
                        options=f'-A {kind}')

    def test_ib_write_bw_with_immediate(self):
        addr = self.pair.addr(self.a)
        for options in ('--write_with_imm',
                        '--write_with_imm --use_old_post_send'):
            with self.subTest(options=options):
                message_rate(self.a, self.b, addr, 'write', 300,
                             options=f'-s 4096 {options}')

    def test_ib_write_lat_with_immediate(self):
        latency(self.a, self.b, self.pair.addr(self.a), 'write', 64, 200,
                options='--write_with_imm')

    def test_pyverbs(self):
        pyverbs.check(self, self.a, PYVERBS_TESTS, PYVERBS,
                      self.pair.addr(self.a))


class PeerWithout(PairCase):
    """A14: the other device does not have it."""

    def devices(self):
        self.pair.ensure(self.a)
        self.pair.ensure(self.b, rfc7306='on')

    def test_atomic_fails_clearly(self):
        start = self.b.trace_size()
        self.verbs(self.a, self.b, ['atomic-unsupported'])
        self.wait_traced(self.b, start, 'the peer does not support RFC 7306')


class OldKernel(Both):
    """Linux 6.1 in both guests."""

    kernel = '6.1'

    def test_verbs_between_guests(self):
        self.verbs_between_guests()

    def test_kernel_consumer(self):
        self.kernel_consumer()

    def test_ib_atomic_bw(self):
        self.ib_atomic_bw('CMP_AND_SWAP')


if __name__ == '__main__':
    unittest.main(verbosity=2)
