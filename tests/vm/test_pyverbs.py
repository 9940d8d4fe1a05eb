#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""rdma-core's own tests in a guest, as far as an iWARP adapter can pass them.

Most of the others connect queue pairs by hand, which iWARP cannot do, or test
what the device does not have (UD, XRC, device memory). Those of atomics and
immediate data are in test_rfc7306.py.
"""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import PairCase, pyverbs  # noqa: E402

MUST_PASS = {
    'test_device.DeviceTest': '''
        test_dev_list test_get_pkey_index test_open_dev test_phys_port_cnt_ex
        test_query_device test_query_device_ex test_query_gid
        test_query_gid_ex test_query_gid_table test_query_gid_table_bad_flow
        test_query_pkey test_query_port test_query_port_bad_flow''',
    'test_pd.PDTest': '''
        test_alloc_pd test_dealloc_pd test_destroy_pd_twice
        test_multiple_pd_creation''',
    'test_qp.QPTest': '''
        test_create_rc_qp_no_attr test_create_rc_qp_with_attr''',
    'test_fork.ForkAPITest': 'test_is_fork_initialized',
    'test_cq.CQAPITest': '''
        test_create_cq test_create_cq_bad_flow
        test_create_cq_with_comp_channel''',
    'test_cqex.CQEXAPITest': 'test_create_cq_ex test_create_cq_ex_bad_flow',
    'test_mr.MRTest': 'test_reg_mr_bad_flags',
    'test_rdmacm.CMTestCase': '''
        test_rdmacm_async_read test_rdmacm_async_reject_traffic
        test_rdmacm_async_write test_rdmacm_sync_traffic''',
}


class Pyverbs(PairCase):
    """The allow-list; a test of it that is skipped has failed."""

    def test_allow_list_passes(self):
        pyverbs.check(self, self.a, MUST_PASS)


if __name__ == '__main__':
    unittest.main(verbosity=2)
