# SPDX-License-Identifier: GPL-2.0-or-later
"""A VM with an rnic and a VM with siw, on one network of this host."""

import functools
import itertools
import os
import shutil
import subprocess
import unittest
from pathlib import Path
from typing import NamedTuple

from .case import PairCase
from .errors import VmError
from .image import TOP
from .pair import ADDR, ADDR6, Pair
from .vm import Vm

_SCRIPT = '''
set -euo pipefail
. "$1/scripts/lib/siw.sh"
kernel_prepare "$2"
siw_prepare
echo "$RNIC_SIW_DIR"
'''

# What the kernel says of siw itself
SAID_BY_SIW = (r'^siw: loading out-of-tree module taints kernel',
               r'^siw: module verification failed: ',
               r'^SoftiWARP (at|de)tached',
               # the port mapper's daemon does not run
               r'^iwpm_register_pid: ')

# Names of RTR messages, and how siw's parameter has them
RTR = {'write': 0x80, 'read': 0x40, 'both': 0xc0}


class Siw(NamedTuple):
    """The kernel module, for one guest kernel."""
    plain: Path         # as the distribution's source has it
    parameters: Path    # with its constants as parameters
    version: str        # of the source package

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def prepare(kernel='6.12'):
        """Build what is missing; None if there is no source to be had."""
        done = subprocess.run(['bash', '-c', _SCRIPT, 'siw', str(TOP), kernel],
                              stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise VmError('building siw failed, see above')
        if not done.stdout.strip():
            return None
        folder = Path(done.stdout.strip())
        version = (folder / 'version').read_text(encoding='ascii').strip()
        return Siw(folder / 'siw.ko', folder / 'siw-parameters.ko', version)


class Namespace:
    """A network namespace of this process, with a tap device for a VM, and
    with the addresses that the rnic's guest has."""

    _count = itertools.count()

    def __init__(self):
        self.name = f'rnic-{os.getpid()}-{next(self._count)}'
        self.wrapper = ['ip', 'netns', 'exec', self.name]
        self._ip('netns', 'add', self.name)
        try:
            for line in ('link set lo up', 'tuntap add tap0 mode tap',
                         f'addr add {ADDR["a"]}/24 dev tap0',
                         f'addr add {ADDR6["a"]}/64 dev tap0 nodad',
                         'link set tap0 up'):
                self._ip('-n', self.name, *line.split())
        except VmError:
            self.close()
            raise

    @staticmethod
    def _ip(*arguments):
        done = subprocess.run(['ip', *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            raise VmError(f'ip {" ".join(arguments)}: {done.stdout.strip()}')

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def why_not():
        """Why there can be no namespace here; None if there can."""
        if not shutil.which('ip'):
            return 'ip (of iproute2) is not installed'
        if os.geteuid():
            return 'needs root, for a network namespace with a tap device'
        try:
            Namespace().close()
        except VmError as e:
            return f'no network namespace with a tap device here: {e}'
        return None

    def run(self, *command, timeout=60):
        """Run a command of the host in it."""
        return subprocess.run([*self.wrapper, *command], timeout=timeout,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)

    def close(self):
        subprocess.run(['ip', 'netns', 'del', self.name],
                       stderr=subprocess.DEVNULL, check=False)


class SiwPair(Pair):
    """VM a with an rnic, VM b with siw on virtio-net.

    The rnic's guest and the host have the same address, 10.0.0.1; siw's guest
    is 10.0.0.2 behind the host's tap device.
    """

    # Of the module with parameters, as in the source
    DEFAULTS = {'mpa_version': 2, 'mpa_crc_required': 0, 'peer_to_peer': 0,
                'rtr_type': RTR['both'], 'try_gso': 0, 'mpa_crc_strict': 0}

    def __init__(self, kernel='6.12', cpus=1):
        # pylint: disable=super-init-not-called
        self.failed = False
        self.properties = {}
        self.fabric = {'fabric': 'direct'}
        self.siw = Siw.prepare(kernel)
        self.space = Namespace()
        self.module = self.parameters = None
        try:
            self.a = self.rnic_vm('a', kernel, cpus,
                                  wrapper=self.space.wrapper)
            self.b = Vm('b', kernel=kernel, driver=False, cpus=cpus,
                        memory='768M', wrapper=self.space.wrapper,
                        qemu_args=['-netdev', 'tap,id=net0,ifname=tap0,'
                                   'script=no,downscript=no', '-device',
                                   'virtio-net-pci,netdev=net0'])
            self.start()
            self.b.run('modprobe -a virtio_net libcrc32c && '
                       f'ip addr add {ADDR["b"]}/24 dev eth0 && '
                       f'ip addr add {ADDR6["b"]}/64 dev eth0 nodad && '
                       'ip link set eth0 up', 60, True)
            self.b.push(self.siw.plain, '/tmp/siw.ko')
            self.b.push(self.siw.parameters, '/tmp/siw-parameters.ko')
            self.load('siw')
        except BaseException:
            self.close(failed=True)
            raise

    def close(self, failed=False):
        for vm in (getattr(self, 'a', None), getattr(self, 'b', None)):
            if vm and failed and vm.alive:
                self._save_kernel_log(vm)
            if vm:
                vm.close(failed)
        self.space.close()

    def load(self, module):
        """Let siw's guest have the module `siw` or `siw-parameters`."""
        if module == self.module:
            return
        if self.module:
            self.b.run('rdma link delete siw0; rmmod siw', 60, True)
        self.b.run(f'insmod /tmp/{module}.ko && '
                   'rdma link add siw0 type siw netdev eth0 && '
                   'until rdma link | grep -q ACTIVE; do sleep 0.1; done',
                   60, True)
        self.module = module
        self.parameters = dict(self.DEFAULTS)

    def set_siw(self, **parameters):
        """The module with these parameters, others as in the source; without
        any, the module of the unchanged source is as good."""
        wanted = {**self.DEFAULTS, **parameters}
        if wanted == self.parameters:
            return
        self.load('siw-parameters')
        words = [f'echo {value} >{name}' for name, value in wanted.items()
                 if value != self.parameters[name]]
        if words:
            self.b.run('cd /sys/module/siw/parameters && ' +
                       ' && '.join(words), 60, True)
        self.parameters = wanted


class SiwCase(PairCase):
    """Each test gets the shared pair of an rnic and a siw. For roles, they
    are self.rnic and self.siw."""

    pair_class = SiwPair

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        why = Namespace.why_not()
        if not why and not Siw.prepare(cls.kernel):
            why = f'no source of siw for Linux {cls.kernel} to be had'
        if why:
            raise unittest.SkipTest(why)

    def setUp(self):
        super().setUp()
        self.rnic, self.siw = self.a, self.b
        self.allow(*SAID_BY_SIW)

    def devices(self):
        """Both as they come."""
        self.settle()

    def settle(self, siw=(), **rnic):
        """Which properties and which parameters the test wants."""
        self.pair.ensure(self.a, **rnic)
        self.pair.set_siw(**dict(siw))

    def roles(self):
        """(server, client) with either as server."""
        return (self.a, self.b), (self.b, self.a)
