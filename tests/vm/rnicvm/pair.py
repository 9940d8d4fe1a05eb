# SPDX-License-Identifier: GPL-2.0-or-later
"""Two VMs of one fabric, each with an rnic in a hotplug slot."""

import atexit
from typing import NamedTuple

from .agent import Command
from .device import Device
from .errors import VmError
from .fabric import claim_fabric_id, release_fabric_id
from .vm import Vm, boot, start_all

ADDR = {'a': '10.0.0.1', 'b': '10.0.0.2'}
ADDR6 = {'a': 'fd00::1', 'b': 'fd00::2'}

class Traffic(NamedTuple):
    """Programs that exchange data until something happens to them."""
    server: Command
    client: Command

    def wait(self, timeout=60):
        return self.server.wait(timeout), self.client.wait(timeout)


class Pair:
    """VMs a and b, 10.0.0.1 and 10.0.0.2, fd00::1 and fd00::2."""

    # Arguments of Vm
    options = {'memory': '768M'}

    _shared = {}
    _boots_failed = 0

    def __init__(self, kernel='6.12', cpus=2, way='plugin'):
        self.failed = False
        self.properties = {}
        # Those that each device has
        self.fabric = {'fabric-id': claim_fabric_id()}
        try:
            for name in ADDR:
                setattr(self, name, self.rnic_vm(name, kernel, cpus, way))
        except Exception:
            release_fabric_id(self.fabric['fabric-id'])
            raise
        self.start()

    def rnic_vm(self, name, kernel, cpus, way='plugin', wrapper=()):
        """A VM with an rnic."""
        built = Device.prepare()
        fabric = ''.join(f',{k}={v}' for k, v in self.fabric.items())
        vm = Vm(name, kernel=kernel, qemu=built.qemu, load=built.load(way),
                # The second slot is for tests that want two devices
                device=['pcie-root-port,id=port0,chassis=1',
                        'pcie-root-port,id=port1,chassis=2,mem-reserve=16M',
                        f'rnic,id=rnic0,bus=port0{fabric}'],
                addr=[f'{ADDR[name]}/24', f'{ADDR6[name]}/64'], cpus=cpus,
                wrapper=wrapper, **self.options)
        self.properties[vm] = {}
        return vm

    def start(self):
        try:
            start_all([self.a, self.b])
        except BaseException:
            Pair._boots_failed += 1
            self.close(failed=True)
            raise
        Pair._boots_failed = 0

    @classmethod
    def shared(cls, kernel='6.12'):
        """The pair that all tests use; a new one after a failure."""
        key = cls.__name__, kernel
        pair = cls._shared.get(key)
        if pair and (pair.failed or not pair.a.alive or not pair.b.alive):
            cls.drop(key)
            pair = None
        if not pair:
            if cls._boots_failed > 1:
                raise VmError('two VMs did not start twice, see above')
            # Two pairs at a time would be slow
            for other in list(cls._shared):
                cls.drop(other)
            pair = boot(lambda: cls(kernel))
            cls._shared[key] = pair
        return pair

    @classmethod
    def drop(cls, key):
        pair = cls._shared.pop(key, None)
        if pair:
            pair.close(pair.failed)

    def close(self, failed=False):
        for vm in (self.a, self.b):
            if failed and not vm.evidence:
                vm.collect('its pair is given up')
            vm.close(failed)
        if 'fabric-id' in self.fabric:
            release_fabric_id(self.fabric['fabric-id'])

    # -- the device -------------------------------------------------------

    def addr(self, vm):
        return ADDR[vm.name]

    def addr6(self, vm):
        return ADDR6[vm.name]

    def configure(self, vm):
        """Give a new net device its addresses; wait for the RDMA device."""
        vm.run('until set -- /sys/bus/pci/drivers/rnic/*/net/* && [ -e "$1" ]; '
               'do sleep 0.1; done; '
               'until rdma link | grep -q rnic; do sleep 0.1; done; '
               'dev=${1##*/}; ip link set $dev up; '
               f'ip addr add {self.addr(vm)}/24 dev $dev; '
               f'ip addr add {self.addr6(vm)}/64 dev $dev nodad; '
               'until rdma link | grep -q ACTIVE; do sleep 0.1; done',
               120, True)
        if 'fabric-id' in self.fabric:
            for addr in (self.addr(vm), self.addr6(vm)):
                self.wait_addr(vm, addr)

    def unplug(self, vm):
        """Returns when device and driver are gone."""
        vm.qmp('device_del', id='rnic0')
        while vm.qmp_event('DEVICE_DELETED')['data'].get('device') != 'rnic0':
            pass
        vm.run('while [ -e /sys/class/infiniband/* ]; do sleep 0.1; done '
               '2>/dev/null', 60, True)

    def plug(self, vm, **properties):
        """Plug in an rnic with these properties, and configure it."""
        self.properties[vm] = properties
        given = {key.replace('_', '-'): str(value)
                 .replace('{run}', vm.run_dir)
                 for key, value in properties.items()}
        vm.qmp('device_add', driver='rnic', id='rnic0', bus='port0',
               **self.fabric, **given)
        self.configure(vm)

    def ensure(self, vm, **properties):
        """Replace the rnic unless it has just these properties."""
        if self.properties[vm] != properties:
            self.unplug(vm)
            self.plug(vm, **properties)

    def reload(self, vm):
        """Load the driver that was unloaded."""
        vm.run('modprobe rnic', 60, True)
        self.configure(vm)

    def wait_addr(self, vm, addr, there=True):
        """Vm.wait_addr() in the fabric of the pair."""
        vm.wait_addr(self.fabric['fabric-id'], addr, there)

    def wait_flow(self, *vms):
        """Wait until each device has received a number of messages more."""
        for vm in vms or (self.a, self.b):
            vm.wait_stat('rx_messages', vm.stats()['rx_messages'] + 20)


@atexit.register
def _close_shared():
    for key in list(Pair._shared):
        Pair.drop(key)
