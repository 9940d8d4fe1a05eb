#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests whose barriers TCG leaves out, because they have one processor: no
notification may be lost. Each lost one would be the last."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import Device, OwnVmCase, Vm, full  # noqa: E402

# In one of three runs of so many packets the net device went deaf, before the
# device's fences reached the processors
PACKETS = 50000
FLOODS = 6


@unittest.skipUnless(full(), 'only with RNIC_FULL')
class OneProcessor(OwnVmCase):

    @classmethod
    def new_vms(cls):
        built = Device.prepare()
        return [Vm(name, qemu=built.qemu, load=built.load(),
                   device=f'rnic,id=rnic0,fabric-id={cls.fabric()}',
                   addr=f'10.0.0.{i}/24')
                for i, name in enumerate('ab', 1)]

    def test_packets_go_on(self):
        result = self.vms[0].run(
            f'for i in $(seq {FLOODS}); do '
            f'ping -q -f -l 3 -c {PACKETS} -W 1 10.0.0.2 >/tmp/ping$i & done; '
            'wait; ping -c 5 -i 0.2 -W 5 10.0.0.2', 1800)
        self.assertRegex(result.output, r'\b5 received', result)

    def test_completion_events_go_on(self):
        ear = self.listen(self.vms[1], 'rping -s -a 10.0.0.2 -V -C 20000 -S 64',
                          '10.0.0.2:7174')
        result = self.vms[0].run('rping -c -a 10.0.0.2 -v -V -C 20000 -S 64 | '
                                 'tail -n 1', 1800)
        self.assertIn('ping data: rdma-ping-19999: ', result.output)
        ear.wait(60)


if __name__ == '__main__':
    unittest.main(verbosity=2)
