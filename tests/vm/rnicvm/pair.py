# SPDX-License-Identifier: GPL-2.0-or-later
"""Two VMs of one fabric, each with an rnic in a hotplug slot."""

import atexit
import sys
import time
from typing import NamedTuple

from .agent import Command
from .device import Device
from .errors import VmError
from .fabric import claim_fabric_id, release_fabric_id
from .vm import Vm, start_all

ADDR = {'a': '10.0.0.1', 'b': '10.0.0.2'}
ADDR6 = {'a': 'fd00::1', 'b': 'fd00::2'}

# What the driver says of a device that it found
GREETING = r'^rnic \S+: rnic\d+: iWARP adapter, '
# and what the kernel says of a device that was plugged in
PLUGGED = r'^rnic \S+: enabling device '

# Events of the device that are rare, and tell why a test failed
_TRACED = ('rnic_guest_error', 'rnic_no_receive', 'rnic_term', 'rnic_device',
           'rnic_addr', 'rnic_cm', 'rnic_engine')

def trace_arguments():
    """QEMU's arguments for a device log in the run folder."""
    arguments = ['-msg', 'timestamp=on', '-D', '{run}/trace.log']
    for event in _TRACED:
        arguments += ['-trace', event]
    return arguments


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
                qemu_args=trace_arguments(), wrapper=wrapper, **self.options)
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
            try:
                pair = cls(kernel)
            except VmError as e:
                # On a loaded machine QEMU's TCG now and then breaks a guest
                # with several CPUs that patches its own code as it boots
                if 'Kernel panic' not in str(e) or '[rnic]' in str(e):
                    raise
                print(f'once more: {e}', file=sys.stderr)
                pair = cls(kernel)
            cls._shared[key] = pair
        return pair

    @classmethod
    def drop(cls, key):
        pair = cls._shared.pop(key, None)
        if pair:
            pair.close(pair.failed)

    def close(self, failed=False):
        for vm in (self.a, self.b):
            if failed and vm.alive:
                self._save_kernel_log(vm)
            vm.close(failed)
        if 'fabric-id' in self.fabric:
            release_fabric_id(self.fabric['fabric-id'])

    @staticmethod
    def _save_kernel_log(vm):
        try:
            text = vm.run('dmesg', 20).output
            with open(f'{vm.run_dir}/dmesg', 'w', encoding='utf-8') as f:
                f.write(text)
        except VmError as e:
            print(f'{vm.name}: no kernel log: {e}', file=sys.stderr)

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
               60, True)

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

    def stats(self, vm):
        """The device's own counters."""
        return vm.qmp('qom-get', path='/machine/peripheral/rnic0',
                      property='stats')

    def wait_stat(self, vm, name, value, timeout=60):
        """Wait until a counter of the device is at least so large."""
        end = time.monotonic() + timeout
        while self.stats(vm)[name] < value:
            if time.monotonic() > end:
                raise VmError(f'{vm.name}: {name} is {self.stats(vm)[name]} '
                              f'and not {value} after {timeout} s')
            time.sleep(0.05)

    def wait_flow(self, *vms):
        """Wait until each device has received a number of messages more."""
        for vm in vms or (self.a, self.b):
            self.wait_stat(vm, 'rx_messages',
                           self.stats(vm)['rx_messages'] + 20)

    # -- what is left of a test -------------------------------------------

    @staticmethod
    def start_wait_idle(vm):
        """A command that ends when no RDMA objects are left but CQs of the
        kernel, or fails after a while and shows what is left."""
        return vm.spawn(
            'for i in $(seq 150); do { rdma resource show; '
            'rdma resource show cq; } | grep -qE '
            "' (pd|qp|cm_id|mr|ctx|srq) [1-9]| pid ' || exit 0; sleep 0.2; "
            'done; rdma resource show; rdma resource show cq; exit 1')

    def wait_idle(self, vm):
        result = self.start_wait_idle(vm).wait(60)
        if result.rc:
            raise VmError(f'{vm.name}: RDMA objects are left\n'
                          f'{result.output}')


@atexit.register
def _close_shared():
    for key in list(Pair._shared):
        Pair.drop(key)
