#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""fabric=direct: the guests' addresses are the host's, here those of network
namespaces that these tests make."""

import subprocess
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import Device, Namespace, OwnVmCase, Vm, full  # noqa: E402
from rnicvm.perftest import bandwidth  # noqa: E402
from rnicvm.second import Second  # noqa: E402
from rnicvm.service import SERVICE  # noqa: E402

NET, NET6 = '192.0.2', '2001:db8:'


class DirectCase(OwnVmCase):
    """VMs in namespaces of the host, and what they are asked to do."""

    @classmethod
    def setUpClass(cls):
        why = Namespace.why_not()
        if why:
            raise unittest.SkipTest(why)
        cls.spaces = []
        cls.make_spaces()
        super().setUpClass()

    @classmethod
    def make_spaces(cls):
        """The namespaces for the VMs, which outlive them."""
        raise NotImplementedError

    @classmethod
    def namespace(cls, *lines):
        space = Namespace(*lines)
        cls.addClassCleanup(space.close)
        cls.spaces.append(space)
        return space

    @classmethod
    def new_vm(cls, name, space, number):
        built = Device.prepare()
        return Vm(f'{name}-{cls.kernel}', kernel=cls.kernel, qemu=built.qemu,
                  load=built.load(),
                  device=['pcie-root-port,id=port0,chassis=1',
                          'pcie-root-port,id=port1,chassis=2,mem-reserve=16M',
                          'rnic,id=rnic0,bus=port0,fabric=direct'],
                  addr=[f'{NET}.{number}/24', f'{NET6}:{number}/64'],
                  wrapper=space.wrapper)

    def talk(self, server, client, addr):
        """A validated rping."""
        ear = self.listen(server, f'rping -s -a {addr} -v -V -C 3',
                          f'{addr}:7174')
        result = client.run(f'rping -c -a {addr} -v -V -C 3', 60)
        self.assertEqual(result.output.count('ping data'), 3, result.output)
        ear.wait(60)


class OneMachine(DirectCase):
    """A machine with two devices, whose addresses one namespace has."""

    @classmethod
    def make_spaces(cls):
        cls.namespace(*(line for number in (1, 2, 9) for line in (
            f'addr add {NET}.{number}/32 dev lo',
            f'addr add {NET6}:{number}/128 dev lo nodad')))

    @classmethod
    def new_vms(cls):
        cls.vm = cls.new_vm('direct', cls.spaces[0], 1)
        return [cls.vm]

    @classmethod
    def started(cls):
        cls.second = Second(cls.vm, [f'{NET}.2/24', f'{NET6}:2/64'],
                            fabric='direct')

    def test_two_devices_talk(self):
        self.talk(self.second, self.vm, f'{NET}.2')
        self.talk(self.vm, self.second, f'{NET}.1')

    def test_two_devices_talk_over_ipv6(self):
        self.talk(self.second, self.vm, f'{NET6}:2')

    def test_device_talks_to_itself(self):
        self.talk(self.vm, self.vm, f'{NET}.1')

    def refused(self, bind, addr, why):
        start = self.vm.trace_size()
        service = self.spaces[0].start(sys.executable, '-c', SERVICE, bind,
                                       stdin=subprocess.PIPE, text=True)
        self.addCleanup(service.kill)
        with service:
            port = int(service.stdout.readline())
            result = self.vm.run(f'rping -c -a {addr} -p {port} -C 1', 60)
            self.assertIn('RDMA_CM_EVENT_REJECTED, error -111', result.output)
            service.stdin.close()
            self.assertEqual(service.stdout.read(), 'nothing\n')
        self.wait_traced(self.vm, start,
                         f'rnic_cm .*no connection to the host.*: .*{why}')

    def test_service_of_the_host_is_out_of_reach(self):
        self.refused('0.0.0.0', f'{NET}.9', 'the host serves every address')
        self.refused('::', f'{NET6}:9', 'the host serves every address')
        self.refused('0.0.0.0', f'{NET}.2', 'the host serves every address')

    def test_service_at_an_address_without_a_device_is_out_of_reach(self):
        self.refused(f'{NET}.9', f'{NET}.9', 'which no rnic has claimed')

    def test_address_that_the_host_does_not_have_is_told(self):
        self.vm.run(f'ip addr add {NET}.77/24 dev $RNIC_NETDEV', 30, True)
        ear = self.spawn(self.vm, 'rnic-listen 0.0.0.0 7199')
        ear.wait_output('listening')
        self.wait_kernel(self.vm, rf'^rnic \S+: cannot listen on {NET}\.77 '
                         'port 7199')
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
    def make_spaces(cls):
        one, two = (cls.namespace() for _ in 'ab')
        one.ip(f'link add v0 type veth peer name v0 netns {two.name}')
        for number, space in enumerate((one, two), 1):
            space.ip(f'addr add {NET}.{number}/24 dev v0')
            space.ip(f'addr add {NET6}:{number}/64 dev v0 nodad')
            space.ip('link set v0 up')

    @classmethod
    def new_vms(cls):
        cls.a, cls.b = vms = [cls.new_vm(f'direct-{number}', space, number)
                              for number, space in enumerate(cls.spaces, 1)]
        return vms

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
        ear = self.listen(self.a, f'rping -s -P -a {NET}.1 -V',
                          f'{NET}.1:7174')
        talk = self.spawn(self.b, f'rping -c -a {NET}.1 -V')
        self.b.run('until rdma resource show cm_id | grep -q CONNECT; do '
                   'sleep 0.1; done', 60, True)
        self.a.run(f'ip addr del {NET}.1/24 dev $RNIC_NETDEV', 30, True)
        self.assertIn('DISCONNECT EVENT', talk.wait().output)
        self.a.run(f'ip addr add {NET}.1/24 dev $RNIC_NETDEV', 30, True)
        self.a.wait_addr('direct', f'{NET}.1')
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
