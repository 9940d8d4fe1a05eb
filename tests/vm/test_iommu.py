#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Behind a virtual IOMMU: traffic, and DMA to what is not, or no longer,
mapped. `tests/vm/run --iommu KIND` runs all other tests behind one, too."""

import re
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import Device, OwnVmCase, Vm  # noqa: E402

ADDR = '10.0.0.1'
# The statuses of <rdma/ib_verbs.h>
SUCCESS, LOC_PROT_ERR, FLUSHED, REM_OP_ERR = 0, 4, 5, 11
# The tests' own module, of which the kernel says that it taints
OWN = r'^rnic_unmap: '
# What the guest's kernel says of an access that was not translated
REFUSED = (r'^DMAR: ', r'^dmar_fault: ', r'^virtio_iommu \S+: ')


class Iommu:
    """What holds for each kind, in a guest that unmaps strictly: when the
    unmapping function has returned, no device reaches the memory."""

    kind = None
    kernel = '6.12'

    @classmethod
    def new_vms(cls):
        built = Device.prepare()
        cls.vm = Vm(f'{cls.kind}-{cls.kernel}', kernel=cls.kernel,
                    qemu=built.qemu, load=built.load(), iommu=cls.kind,
                    device=f'rnic,id=rnic0,fabric-id={cls.fabric()}',
                    addr=f'{ADDR}/24', append=['iommu.strict=1'])
        return [cls.vm]

    def setUp(self):
        super().setUp()
        self.allow(OWN, *REFUSED)
        self.log_start = self.vm.trace_size()

    def traced(self):
        return self.vm.traced(self.log_start)

    def test_addresses_are_translated(self):
        group = self.vm.run('readlink -f /sys/bus/pci/drivers/rnic/0000:*/'
                            'iommu_group', 30, True).output.strip()
        self.assertEqual(self.vm.run(f'cat {group}/type', 30,
                                     True).output.strip(), 'DMA')

    def test_verbs_and_ip(self):
        result = self.vm.run(
            f'rnic-verbs self {ADDR} send-recv write page-ends read '
            'send-invalidate cq-event srq threads && '
            f'ping -c 2 -i 0.2 -W 5 {ADDR}', 120)
        self.assertEqual(result.rc, 0, result.output)
        self.assertNotIn('rnic_dma_refused', self.traced())

    def unmapped(self, what):
        """The statuses of the two requests, and what the device traced."""
        self.vm.run(f'modprobe rnic_unmap addr={ADDR} what={what}', 120, True)
        text = self.vm.run('cat /sys/module/rnic_unmap/parameters/result; '
                           'rmmod rnic_unmap', 30, True).output
        match = re.fullmatch(r'first=(\d+) second=(\d+) healthy=(-?\d+)\s*',
                             text)
        self.assertTrue(match, text)
        first, second, healthy = map(int, match.groups())
        self.assertEqual(healthy, 0, 'the other connection suffered')
        return first, second, self.traced()

    def assert_told(self, trace, text):
        """The trace has the address, and the queue pair with the cause."""
        self.assertRegex(trace, r'rnic_dma_refused .*0x[0-9a-f]+ ')
        self.assertRegex(trace, rf'rnic_guest_error .*qpn \d+.*not RAM{text}')

    def test_nothing_is_refused_while_all_is_mapped(self):
        *_, trace = self.unmapped('none')
        self.assertNotIn('rnic_dma_refused', trace)

    def test_write_to_an_unmapped_region(self):
        first, second, trace = self.unmapped('write')
        # A Write may be complete before the peer refuses it
        self.assertIn(first, (SUCCESS, REM_OP_ERR, FLUSHED))
        self.assertIn(second, (FLUSHED, REM_OP_ERR))
        self.assert_told(trace, ' while a message was placed')

    def test_write_to_a_region_that_was_never_mapped(self):
        _, second, trace = self.unmapped('never')
        self.assertIn(second, (FLUSHED, REM_OP_ERR))
        self.assert_told(trace, ' while a message was placed')
        self.assertRegex(trace, r'rnic_dma_refused .*0x1234500000 write 1')

    def test_read_of_an_unmapped_region(self):
        first, _, trace = self.unmapped('read')
        # The Terminate of a local failure does not say which request it hit
        self.assertIn(first, (FLUSHED, REM_OP_ERR))
        self.assert_told(trace, ' while a Read was answered')

    def test_region_unmapped_under_writes(self):
        first, _, trace = self.unmapped('busy')
        self.assertIn(first, (FLUSHED, REM_OP_ERR))
        self.assert_told(trace, ' while a message was placed')

    def test_send_from_an_unmapped_buffer(self):
        first, _, trace = self.unmapped('send')
        self.assertEqual(first, LOC_PROT_ERR)
        self.assert_told(trace, ' while it was sent')

    def test_read_into_an_unmapped_buffer(self):
        first, _, trace = self.unmapped('sink')
        self.assertEqual(first, LOC_PROT_ERR)
        self.assert_told(trace, ' while a message was placed')

    def test_receive_into_an_unmapped_buffer(self):
        first, second, trace = self.unmapped('recv')
        self.assertIn(first, (SUCCESS, REM_OP_ERR, FLUSHED))
        self.assertEqual(second, LOC_PROT_ERR)
        self.assert_told(trace, ' while a message was placed')


class Intel(Iommu, OwnVmCase):
    """intel-iommu"""

    kind = 'intel'


class Virtio(Iommu, OwnVmCase):
    """virtio-iommu"""

    kind = 'virtio'


if __name__ == '__main__':
    unittest.main(verbosity=2)
