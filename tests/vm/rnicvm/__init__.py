# SPDX-License-Identifier: GPL-2.0-or-later
"""Virtual machines for tests and scripts: start them, run commands in them.

    from rnicvm import Device, Vm

    rnic = Device.prepare()
    with Vm(device='rnic', load=rnic.load(), qemu=rnic.qemu,
            addr='10.0.0.1/24') as vm:
        result = vm.run('ibv_devinfo')
        assert result.rc == 0, result.output
"""

from .agent import Command, Result
from .case import GuestCase, OwnVmCase, PairCase, full
from .device import Device
from .errors import CommandFailed, VmDied, VmError
from .fabric import claim_fabric_id
from .image import Image
from .netns import Namespace
from .pair import Pair
from .siw import RTR, Siw, SiwCase, SiwPair
from .usage import Usage
from .vm import Kmsg, Vm, start_all

__all__ = ['RTR', 'Command', 'CommandFailed', 'Device', 'GuestCase', 'Image',
           'Kmsg', 'Namespace', 'OwnVmCase', 'Pair', 'PairCase', 'Result',
           'Siw', 'SiwCase', 'SiwPair', 'Usage', 'Vm', 'VmDied', 'VmError',
           'claim_fabric_id', 'full', 'start_all']
