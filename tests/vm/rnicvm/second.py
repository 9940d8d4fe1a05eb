# SPDX-License-Identifier: GPL-2.0-or-later
"""A second rnic in a VM of a pair."""

import shlex

from .fabric import wait_claim

_NETNS = 'second'
# The net device that is not the first rnic's
_FIND = ('for d in /sys/bus/pci/drivers/rnic/0000:*/net/*; do '
         '[ ${d##*/} != $RNIC_NETDEV ] && [ -e $d ] && dev=${d##*/}; done')


class Second:
    """It sits in the second slot, and its net device in a network namespace of
    the guest, so that what runs there reaches the first one as any other.

    It stands for a VM where commands are run: run(), spawn().
    """

    def __init__(self, vm, addrs, **properties):
        self.vm = vm
        self.name = f'{vm.name}, second device'
        given = {key.replace('_', '-'): value
                 for key, value in properties.items()}
        fabric = given.get('fabric-id', given.get('fabric'))
        vm.qmp('device_add', driver='rnic', id='rnic1', bus='port1', **given)
        add = '; '.join(
            f'ip -n {_NETNS} addr add {addr} dev $dev'
            f'{" nodad" if ":" in addr else ""}' for addr in addrs)
        vm.run(f'dev=; until [ "$dev" ]; do sleep 0.1; {_FIND}; done; '
               'until [ $(rdma link | grep -c rnic) = 2 ]; do sleep 0.1; done; '
               f'set -e; ip netns add {_NETNS}; '
               f'ip link set $dev netns {_NETNS}; '
               f'ip -n {_NETNS} link set lo up; '
               f'ip -n {_NETNS} link set $dev up; {add}; '
               'until [ $(rdma link | grep -c ACTIVE) = 2 ]; do sleep 0.1; '
               'done', 120, True)
        for addr in addrs:
            wait_claim(vm.process.pid, fabric, addr.split('/')[0], True)
        vm.qmp('qom-get', path='/machine/peripheral/rnic1',
               property='qp-stats')

    @staticmethod
    def _inside(command):
        return f'nsenter --net=/run/netns/{_NETNS} sh -c {shlex.quote(command)}'

    def run(self, command, *args, **kwargs):
        return self.vm.run(self._inside(command), *args, **kwargs)

    def spawn(self, command, *args, **kwargs):
        return self.vm.spawn(self._inside(command), *args, **kwargs)

    def stats(self):
        """The device's own counters."""
        return self.vm.stats('rnic1')

    def close(self):
        """Unplug it; returns when driver and namespace are gone, too."""
        self.vm.qmp('device_del', id='rnic1')
        while self.vm.qmp_event('DEVICE_DELETED')['data'].get('device') != \
                'rnic1':
            pass
        self.vm.run('until [ $(rdma link | grep -c rnic) = 1 ]; do sleep 0.1; '
                    f'done; ip netns del {_NETNS}', 60, True)
