#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""fabric=direct: the guests' addresses are the host's, here those of network
namespaces that these tests make."""

import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import Device, Vm, full, start_all  # noqa: E402
from rnicvm.pair import GREETING, PLUGGED, trace_arguments  # noqa: E402
from rnicvm.perftest import bandwidth, wait_listen  # noqa: E402
from rnicvm.second import Second  # noqa: E402
from rnicvm.siw import Namespace  # noqa: E402

NET, NET6 = '192.0.2', '2001:db8:'
# Listens at an address, and tells whether anybody came when its input ends
SERVICE = '''
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s = socket.socket(family)
s.bind((sys.argv[1], 0))
s.listen(5)
print(s.getsockname()[1], flush=True)
sys.stdin.read()
s.setblocking(False)
try:
    print('somebody', s.accept())
except BlockingIOError:
    print('nothing')
'''


def ip(*words):
    subprocess.run(['ip', *words], check=True)


class DirectCase(unittest.TestCase):
    """VMs in namespaces of the host, and what they are asked to do."""

    kernel = '6.12'
    vms = ()

    @classmethod
    def setUpClass(cls):
        why = Namespace.why_not()
        if why:
            raise unittest.SkipTest(why)

    @classmethod
    def namespace(cls, name):
        name = f'rnic-{name}-{os.getpid()}'
        ip('netns', 'add', name)
        cls.addClassCleanup(ip, 'netns', 'del', name)
        ip('-n', name, 'link', 'set', 'lo', 'up')
        return name

    @classmethod
    def new_vm(cls, name, netns, number):
        built = Device.prepare()
        vm = Vm(f'{name}-{cls.kernel}', kernel=cls.kernel, qemu=built.qemu,
                load=built.load(),
                device=['pcie-root-port,id=port0,chassis=1',
                        'pcie-root-port,id=port1,chassis=2,mem-reserve=16M',
                        'rnic,id=rnic0,bus=port0,fabric=direct'],
                addr=[f'{NET}.{number}/24', f'{NET6}:{number}/64'],
                wrapper=['ip', 'netns', 'exec', netns],
                qemu_args=trace_arguments())
        cls.addClassCleanup(vm.close)
        return vm

    def setUp(self):
        self.allowed = [GREETING, PLUGGED]
        for vm in self.vms:
            vm.mark(self.id()).wait()

    def tearDown(self):
        for vm in self.vms:
            bad = vm.kmsg_problems(self.allowed, vm.kmsg(self.id()))
            self.assertEqual([k.text for k in bad], [], vm.name)

    def talk(self, server, client, addr):
        """A validated rping."""
        ear = server.spawn(f'rping -s -a {addr} -v -V -C 3')
        wait_listen(server, f'{addr}:7174')
        result = client.run(f'rping -c -a {addr} -v -V -C 3', 60)
        self.assertEqual(result.output.count('ping data'), 3, result.output)
        ear.wait(60)


class OneMachine(DirectCase):
    """A machine with two devices, whose addresses one namespace has."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netns = cls.namespace('one')
        for number in (1, 2, 9):
            ip('-n', cls.netns, 'addr', 'add', f'{NET}.{number}/32', 'dev',
               'lo')
            ip('-n', cls.netns, 'addr', 'add', f'{NET6}:{number}/128', 'dev',
               'lo', 'nodad')
        cls.vm = cls.new_vm('direct', cls.netns, 1)
        cls.vms = [cls.vm]
        start_all(cls.vms)
        cls.second = Second(cls.vm, [f'{NET}.2/24', f'{NET6}:2/64'],
                            fabric='direct')

    def log(self):
        with open(f'{self.vm.run_dir}/trace.log', encoding='utf-8') as f:
            return f.read()

    def test_two_devices_talk(self):
        self.talk(self.second, self.vm, f'{NET}.2')
        self.talk(self.vm, self.second, f'{NET}.1')

    def test_two_devices_talk_over_ipv6(self):
        self.talk(self.second, self.vm, f'{NET6}:2')

    def test_device_talks_to_itself(self):
        self.talk(self.vm, self.vm, f'{NET}.1')

    def refused(self, bind, addr, why):
        start = len(self.log())
        service = subprocess.Popen(
            ['ip', 'netns', 'exec', self.netns, sys.executable, '-c', SERVICE,
             bind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with service:
            port = int(service.stdout.readline())
            result = self.vm.run(f'rping -c -a {addr} -p {port} -C 1', 60)
            self.assertIn('RDMA_CM_EVENT_REJECTED, error -111', result.output)
            service.stdin.close()
            self.assertEqual(service.stdout.read(), 'nothing\n')
        self.assertRegex(self.log()[start:],
                         f'rnic_cm .*no connection to the host.*: .*{why}')

    def test_service_of_the_host_is_out_of_reach(self):
        self.refused('0.0.0.0', f'{NET}.9', 'the host serves every address')
        self.refused('::', f'{NET6}:9', 'the host serves every address')
        self.refused('0.0.0.0', f'{NET}.2', 'the host serves every address')

    def test_service_at_an_address_without_a_device_is_out_of_reach(self):
        self.refused(f'{NET}.9', f'{NET}.9', 'which no rnic has claimed')

    def test_address_that_the_host_does_not_have_is_told(self):
        self.vm.run(f'ip addr add {NET}.77/24 dev $RNIC_NETDEV', 30, True)
        self.allowed.append(rf'^rnic \S+: cannot listen on {NET}\.77 port 7199')
        ear = self.vm.spawn('rnic-listen 0.0.0.0 7199')
        ear.wait_output('listening')
        end = time.monotonic() + 60
        while not any('cannot listen on' in k.text for k in
                      self.vm.kmsg(self.id())):
            self.assertLess(time.monotonic(), end, 'it was not told')
            time.sleep(0.1)
        # All other addresses work
        self.second.run(f'rping -c -a {NET}.1 -p 7199 -C 1', 60)
        ear.wait_output(f'request to {NET}.1 from {NET}.2')
        ear.kill(9)
        ear.wait()
        self.vm.run(f'ip addr del {NET}.77/24 dev $RNIC_NETDEV', 30, True)


@unittest.skipUnless(full(), 'only with RNIC_FULL')
class OneOldMachine(OneMachine):
    """The same with the older kernel."""

    kernel = '6.1'


@unittest.skipUnless(full(), 'only with RNIC_FULL')
class TwoMachines(DirectCase):
    """A machine in each of two namespaces, with a cable between."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        spaces = [cls.namespace(name) for name in 'ab']
        ip('-n', spaces[0], 'link', 'add', 'v0', 'type', 'veth', 'peer', 'name',
           'v0', 'netns', spaces[1])
        for number, space in enumerate(spaces, 1):
            ip('-n', space, 'addr', 'add', f'{NET}.{number}/24', 'dev', 'v0')
            ip('-n', space, 'addr', 'add', f'{NET6}:{number}/64', 'dev', 'v0',
               'nodad')
            ip('-n', space, 'link', 'set', 'v0', 'up')
        cls.vms = [cls.new_vm(f'direct-{number}', space, number)
                   for number, space in enumerate(spaces, 1)]
        start_all(cls.vms)
        cls.a, cls.b = cls.vms

    def test_both_ways_and_both_families(self):
        for server, client, addr in ((self.a, self.b, f'{NET}.1'),
                                     (self.b, self.a, f'{NET}.2'),
                                     (self.a, self.b, f'{NET6}:1'),
                                     (self.b, self.a, f'{NET6}:2')):
            with self.subTest(addr=addr):
                self.talk(server, client, addr)

    def test_bulk_data(self):
        bandwidth(self.a, self.b, f'{NET}.1', 'write', 65536, 50)

    def test_address_that_goes_ends_its_connections(self):
        ear = self.a.spawn(f'rping -s -P -a {NET}.1 -V')
        wait_listen(self.a, f'{NET}.1:7174')
        talk = self.b.spawn(f'rping -c -a {NET}.1 -V')
        self.b.run('until rdma resource show cm_id | grep -q CONNECT; do '
                   'sleep 0.1; done', 60, True)
        self.a.run(f'ip addr del {NET}.1/24 dev $RNIC_NETDEV', 30, True)
        self.assertIn('DISCONNECT EVENT', talk.wait().output)
        self.a.run(f'ip addr add {NET}.1/24 dev $RNIC_NETDEV', 30, True)
        again = self.b.run(f'rping -c -a {NET}.1 -v -V -C 2', 60)
        self.assertEqual(again.output.count('ping data'), 2, again.output)
        ear.kill(9)
        ear.wait()


@unittest.skipUnless(full(), 'only with RNIC_FULL')
class TwoOldMachines(TwoMachines):
    """The same with the older kernel."""

    kernel = '6.1'


if __name__ == '__main__':
    unittest.main(verbosity=2)
