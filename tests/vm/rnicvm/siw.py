# SPDX-License-Identifier: GPL-2.0-or-later
"""A VM with an rnic and a VM with siw, on one network of this host."""

import functools
import json
import os
import shutil
import subprocess
import unittest
from pathlib import Path
from typing import NamedTuple

from .case import PairCase
from .errors import VmError
from .image import TOP
from .kept import hold
from .netns import Namespace
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

# Names of ready-to-receive messages, and how siw's parameter has them
RTR = {'both': 0xc0, 'write': 0x80, 'read': 0x40}

# The longest segments that siw makes FPDUs for
BIG_MTU = 65521


def private_data_of(client, length):
    """What tests/vm/programs/rnic-pdata.c sends."""
    return bytes((i + 1 if client else 255 - i) & 255 for i in range(length))


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
        hold(folder)
        version = (folder / 'version').read_text(encoding='ascii').strip()
        return Siw(folder / 'siw.ko', folder / 'siw-parameters.ko', version)


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
        self.kernel, self.cpus = kernel, cpus
        self.space = Namespace('tuntap add tap0 mode tap',
                               f'addr add {ADDR["a"]}/24 dev tap0',
                               f'addr add {ADDR6["a"]}/64 dev tap0 nodad',
                               'link set tap0 up')
        try:
            self.a = self.rnic_vm('a', kernel, cpus,
                                  wrapper=self.space.wrapper)
            self.b = self.siw_vm()
            self.start()
            self.set_up_siw()
        except BaseException:
            self.close(failed=True)
            raise

    def siw_vm(self):
        return Vm('b', kernel=self.kernel, driver=False, cpus=self.cpus,
                  memory='768M', wrapper=self.space.wrapper,
                  qemu_args=['-netdev', 'tap,id=net0,ifname=tap0,script=no,'
                             'downscript=no', '-device',
                             f'virtio-net-pci,netdev=net0,host_mtu={BIG_MTU}'])

    def set_up_siw(self):
        self.b.run('modprobe -a virtio_net libcrc32c && '
                   f'ip addr add {ADDR["b"]}/24 dev eth0 && '
                   f'ip addr add {ADDR6["b"]}/64 dev eth0 nodad && '
                   'ip link set eth0 mtu 1500 && ip link set eth0 up && '
                   # The first ARP may take rdma_cm longer than programs wait
                   f'until ping -c 1 -W 1 {ADDR["a"]}; do sleep 0.1; done',
                   60, True)
        self.b.push(self.siw.plain, '/tmp/siw.ko')
        self.b.push(self.siw.parameters, '/tmp/siw-parameters.ko')
        self.module = self.parameters = None
        self.load('siw')

    def replace(self, vm):
        """Another VM in the place of one that ended."""
        vm.close()
        if vm is self.a:
            self.a = self.rnic_vm('a', self.kernel, self.cpus,
                                  wrapper=self.space.wrapper)
            self.a.start().wait_ready()
        else:
            self.b = self.siw_vm()
            self.b.start().wait_ready()
            self.set_up_siw()

    def set_mtu(self, mtu):
        """Of the network."""
        self.b.run(f'ip link set eth0 mtu {mtu}', 30, True)
        self.space.ip(f'link set tap0 mtu {mtu}')

    def close(self, failed=False):
        for vm in (getattr(self, 'a', None), getattr(self, 'b', None)):
            if vm and failed and not vm.evidence:
                vm.collect('its pair is given up')
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
    """Each test gets the shared pair of an rnic and a siw, self.rnic and
    self.siw. The rnic captures all that it sends and receives, and each
    capture is judged by tshark."""

    pair_class = SiwPair
    # The device stops there; tshark needs a second for each
    pcap_max = 4 << 20

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        why = Namespace.why_not()
        if not why and not Siw.prepare(cls.kernel):
            why = f'no source of siw for Linux {cls.kernel} to be had'
        if not why and not shutil.which('tshark'):
            why = 'tshark is not installed'
        if why:
            raise unittest.SkipTest(why)

    def setUp(self):
        super().setUp()
        self.allow(*SAID_BY_SIW)
        # Before check_guests(), with what the test made
        self.addCleanup(self.judge)

    def run(self, result=None):
        """Notes the verdict, too: a table of a run that failed is none."""
        def count():
            return (len(result.failures) + len(result.errors),
                    len(result.skipped))

        before = count() if result else None
        super().run(result)
        if result:
            bad, skipped = (b - a for a, b in zip(before, count()))
            self.note('verdict', self.id(), '', 'failed' if bad else
                      'skipped' if skipped else 'passed')
        return result

    @property
    def rnic(self):
        return self.pair.a

    @property
    def siw(self):
        return self.pair.b

    def devices(self):
        """Both as they come."""
        self.settle()

    def settle(self, siw=(), **rnic):
        """Which properties and which parameters the test wants."""
        wanted = {'pcap': '{run}/rnic.pcap', 'pcap_max': self.pcap_max, **rnic}
        if self.pair.properties[self.rnic] != wanted:
            self.judge()
        self.pair.ensure(self.rnic, **wanted)
        self.pair.set_siw(**dict(siw))

    def roles(self):
        """(server, client) with either as server."""
        return (self.rnic, self.siw), (self.siw, self.rnic)

    def what(self, vm):
        return 'rnic' if vm is self.rnic else 'siw'

    def verbs_beside_siw(self, server, client, tests):
        # siw does not take IPv4 at [::]
        self.verbs(server, client, tests, options='-s',
                   bind=self.pair.addr(server))

    def note(self, table, row, column, text='works'):
        """A result for the document."""
        path = os.environ.get('RNIC_INTEROP_RESULTS')
        if path:
            with open(path, 'a', encoding='utf-8') as f:
                f.write(json.dumps([table, row, column, text]) + '\n')

    # -- the capture ------------------------------------------------------

    @property
    def capture(self):
        return f'{self.rnic.run_dir}/rnic.pcap'

    def tshark(self, *arguments):
        # What would take short Sends for its own, and what goes by a port
        # that a client may come to have
        off = [word for name in ('rpcordma', 'smb_direct', 'ecatf')
               for word in ('--disable-protocol', name)]
        done = subprocess.run(['tshark', '-r', self.capture, *off, *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=180, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def tshark_fields(self, field, which):
        """All values of a field in the frames that match."""
        text = self.tshark('-Y', which, '-T', 'fields', '-e', field)
        return [x for line in text.splitlines() for x in line.split(',') if x]

    def judge(self):
        """No frame in the capture is malformed, and no CRC is wrong."""
        path = self.capture
        if not os.path.exists(path) or os.path.getsize(path) == \
                getattr(self.pair, 'judged', None):
            return
        self.pair.judged = os.path.getsize(path)
        whole = self.tshark('-V')
        for sign in ('[Malformed Packet', '(Bad CRC32'):
            at = whole.find(sign)
            self.assertEqual(at, -1, whole[max(at - 3000, 0):at + 80])
