#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""NVMe over RDMA between two guests: queue pairs of the kernel, fast
registration, local and remote invalidation."""

import hashlib
import random
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import PairCase, full  # noqa: E402

NQN = 'nqn.2024-01.org.example:disk'
SIZE = 64           # MiB

TARGET = f'''
set -e
modprobe nvmet-rdma
modprobe null_blk nr_devices=0
mkdir /sys/kernel/config/nullb/nullb0
cd /sys/kernel/config/nullb/nullb0
echo 1 >memory_backed
echo {SIZE} >size
echo 1 >power
cd /sys/kernel/config/nvmet
mkdir subsystems/{NQN}
echo 1 >subsystems/{NQN}/attr_allow_any_host
mkdir subsystems/{NQN}/namespaces/1
echo -n /dev/nullb0 >subsystems/{NQN}/namespaces/1/device_path
echo 1 >subsystems/{NQN}/namespaces/1/enable
mkdir ports/1
cd ports/1
echo -n rdma >addr_trtype
echo -n ipv4 >addr_adrfam
echo -n ADDR >addr_traddr
echo -n 4420 >addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/{NQN} subsystems/{NQN}
'''

TARGET_END = f'''
cd /sys/kernel/config/nvmet
rm -f ports/1/subsystems/{NQN}
rmdir ports/1 subsystems/{NQN}/namespaces/1 subsystems/{NQN}
rmdir /sys/kernel/config/nullb/nullb0
modprobe -r nvmet-rdma
modprobe -r null_blk
'''


class Nvme(PairCase):
    """a is the target, b the host."""

    def setUp(self):
        super().setUp()
        self.allow(r'^nvme nvme\d+: ', r'^nvmet: ', r'^nvmet_rdma: ',
                   r'^(block |)nvme\d+n\d+: ', r'^null_blk: ')
        self.addCleanup(self.a.run, TARGET_END, 60)
        self.addCleanup(self.disconnect)
        self.a.run(TARGET.replace('ADDR', self.pair.addr(self.a)), 60, True)
        self.b.run('modprobe nvme-rdma', 60, True)

    def connect(self, options=''):
        self.b.run(f'echo -n "transport=rdma,traddr={self.pair.addr(self.a)},'
                   f'trsvcid=4420,nqn={NQN}{options}" >/dev/nvme-fabrics; '
                   'until [ -b /dev/nvme0n1 ]; do sleep 0.1; done', 60, True)

    def disconnect(self):
        self.b.run('for c in /sys/class/nvme/nvme*; do [ -e $c ] && '
                   'echo 1 >$c/delete_controller; done; '
                   # The next one is to have the same name
                   'while ls -d /sys/class/nvme/nvme* /dev/nvme0n1; do '
                   'sleep 0.1; done >/dev/null 2>&1', 120)

    def write_and_read(self, block, mebi=16):
        octets = mebi << 20
        data = random.Random(block).randbytes(octets)
        self.b.push(data, '/tmp/data')
        self.b.run(f'dd if=/tmp/data of=/dev/nvme0n1 bs={block} oflag=direct '
                   'conv=notrunc; rm /tmp/data', 180, True)
        digest = self.b.run(f'dd if=/dev/nvme0n1 bs={block} iflag=direct '
                            f'count={octets // block} | sha256sum', 180,
                            True).output
        self.assertIn(hashlib.sha256(data).hexdigest(), digest)
        # what the target has is the same; its page cache knows nothing of it
        there = self.a.run('dd if=/dev/nullb0 bs=1M iflag=direct | '
                           f'head -c {octets} | sha256sum', 60, True).output
        self.assertIn(hashlib.sha256(data).hexdigest(), there)

    def test_data_comes_back(self):
        self.connect()
        for block in (1 << 20, 65536):
            self.write_and_read(block)
        self.write_and_read(4096, mebi=2)
        self.assertRegex(self.b.run('rdma resource show').output,
                         r'qp [2-9]\d* ')
        for vm in (self.a, self.b):
            self.assertEqual(vm.stats()['term_sent'], 0)

    def test_without_write_inline(self):
        """Data up to 16 KiB goes inline otherwise; then by registration"""
        self.connect(',queue_size=16')
        self.write_and_read(16384, mebi=4)

    def test_connect_and_disconnect_again(self):
        for _ in range(10 if full() else 3):
            self.connect()
            self.write_and_read(1 << 20, mebi=1)
            self.disconnect()

    def test_target_that_goes_and_comes_back(self):
        """The host connects again by itself, and the data is there"""
        self.connect(',reconnect_delay=1,ctrl_loss_tmo=60,keep_alive_tmo=5')
        self.write_and_read(1 << 20, mebi=1)
        self.a.run('ip link set $RNIC_NETDEV down', 30, True)
        self.b.run('until grep -q connecting /sys/class/nvme/nvme0/state; do '
                   'sleep 0.2; done', 60, True)
        self.a.run('ip link set $RNIC_NETDEV up; ip addr replace '
                   f'{self.pair.addr6(self.a)}/64 dev $RNIC_NETDEV nodad', 30,
                   True)
        self.b.run('until grep -q live /sys/class/nvme/nvme0/state; do '
                   'sleep 0.2; done', 90, True)
        self.write_and_read(1 << 20, mebi=1)

    def test_driver_of_the_host_unloaded_under_io(self):
        self.allow(r'^(I/O error|Buffer I/O error|blk_update_request)',
                   r'nvme0n1', r'^nvme')
        self.connect()
        io = self.spawn(self.b, 'dd if=/dev/zero of=/dev/nvme0n1 bs=1M '
                        'count=60 oflag=direct; dd if=/dev/nvme0n1 '
                        'of=/dev/null bs=64k iflag=direct; echo end')
        self.pair.wait_flow()
        self.b.run('rmmod rnic', 120, True)
        io.wait(120)
        self.pair.reload(self.b)
        self.assert_works()

    def test_driver_of_the_target_unloaded_under_io(self):
        self.allow(r'^(I/O error|Buffer I/O error|blk_update_request)',
                   r'nvme0n1', r'^nvme')
        self.connect(',reconnect_delay=1,ctrl_loss_tmo=3,keep_alive_tmo=5')
        io = self.spawn(self.b, 'dd if=/dev/zero of=/dev/nvme0n1 bs=1M '
                        'count=60 oflag=direct; echo end')
        self.pair.wait_flow()
        self.a.run('rmmod rnic', 120, True)
        self.disconnect()
        io.wait(120)
        self.pair.reload(self.a)
        self.assert_works()


if __name__ == '__main__':
    unittest.main(verbosity=2)
