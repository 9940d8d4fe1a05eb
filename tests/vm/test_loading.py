#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The ways to get the device into QEMU, and where it may sit there."""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import Device, Vm, claim_fabric_id  # noqa: E402
from rnicvm.fabric import release_fabric_id  # noqa: E402
from rnicvm.vm import boot  # noqa: E402


def own_fabric(case):
    """A fabric id that the test gives back."""
    number = claim_fabric_id()
    case.addCleanup(release_fabric_id, number)
    return number


class Help(unittest.TestCase):
    """What QEMU prints without a VM."""

    def test_device_help_describes_each_property(self):
        # Preloaded: QEMU answers before it loads plugins
        built = Device.prepare()
        done = subprocess.run(
            [built.qemu, '-device', 'rnic,help'],
            env={**os.environ, 'LD_PRELOAD': built.preload},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        for name in ('crc', 'fabric', 'fabric-id', 'mpa-rev', 'pcap', 'mac',
                     'fault-admin-delay'):
            self.assertRegex(done.stdout, rf'\n  {name}=<\w+>\s+- \w+', name)


class Fences(unittest.TestCase):
    """TCG translates no barrier of a guest that has one processor, and none
    that is a locked instruction if one thread runs all processors. Then the
    device must have the processors execute them."""

    def fences(self, *arguments):
        built = Device.prepare()
        done = subprocess.run(
            [built.qemu, '-nodefaults', '-no-user-config', '-display', 'none',
             '-machine', 'q35', *arguments, '-plugin', built.plugin,
             '-device', f'rnic,fabric-id={own_fabric(self)}', '-trace',
             'rnic_fence', '-S', '-monitor', 'stdio'],
            input='quit\n', stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=120, check=False)
        found = re.findall(r'\brnic_fence .*: membarrier\(\) ([01])$',
                           done.stdout, re.M)
        self.assertEqual(len(found), 1, done.stdout)
        return found[0] == '1'

    def test_one_processor_needs_them(self):
        self.assertTrue(self.fences('-accel', 'tcg', '-smp', '1'))

    def test_one_thread_needs_them(self):
        self.assertTrue(self.fences('-accel', 'tcg,thread=single', '-smp', '2'))

    def test_processors_with_threads_of_their_own_do_not(self):
        self.assertFalse(self.fences('-accel', 'tcg,thread=multi', '-smp', '2'))


class Ways(unittest.TestCase):
    """A whole VM, each with another place for the device."""

    def check(self, way, device, machine='q35', **more):
        built = Device.prepare()
        fabric = own_fabric(self)
        with Vm(f'load-{way}', qemu=built.qemu, load=built.load(way),
                device=f'{device},fabric-id={fabric}', machine=machine,
                addr='10.0.0.1/24', **more) as vm:
            result = vm.run('rnic-verbs self 10.0.0.1 send-recv write read '
                            'cq-event', 120)
            self.assertEqual(result.rc, 0, result.output)
            self.assertEqual([k.text for k in vm.kmsg_problems()], [])
            self.assertEqual(vm.power_off(), 0)

    def test_preloaded_on_the_root_bus(self):
        boot(lambda: self.check('preload', 'rnic'))

    def test_plugin_on_a_machine_without_pci_express(self):
        boot(lambda: self.check('plugin', 'rnic,vectors=3', machine='pc',
                                cpus=2))


class TwoDevices(unittest.TestCase):
    """One machine with two of them talks from one to the other."""

    def test_two_devices_in_one_machine(self):
        built = Device.prepare()
        fabric = own_fabric(self)
        with Vm('two', qemu=built.qemu, load=built.load(),
                device=[f'rnic,id=x,fabric-id={fabric}',
                        f'rnic,id=y,fabric-id={fabric}'],
                addr='10.0.0.1/24') as vm:
            names = sorted(vm.run('ls /sys/bus/pci/drivers/rnic/0000:*/net | '
                                  'grep -v :', 30, True).output.split())
            self.assertEqual(len(names), 2)
            vm.run('for d in /sys/class/net/e*; do d=${d##*/}; '
                   '[ $d = $RNIC_NETDEV ] && continue; ip link set $d up; '
                   'ip addr add 10.0.5.1/24 dev $d; done', 30, True)
            vm.run('until [ $(rdma link | grep -c ACTIVE) = 2 ]; do sleep 0.1; '
                   'done', 60, True)
            macs = vm.run('cat /sys/class/net/e*/address', 30, True).output
            self.assertEqual(len(set(macs.split())), 2)
            result = vm.run(
                'rnic-verbs self 10.0.5.1 send-recv write read && '
                'rnic-verbs self 10.0.0.1 send-recv write read', 120)
            self.assertEqual(result.rc, 0, result.output)
            self.assertEqual([k.text for k in vm.kmsg_problems()], [])


if __name__ == '__main__':
    unittest.main(verbosity=2)
