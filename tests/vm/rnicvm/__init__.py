# SPDX-License-Identifier: GPL-2.0-or-later
"""Virtual machines for tests and scripts: start them, run commands in them.

    from rnicvm import Vm, start_all

    with Vm(device='rnic', load=('plugin', '/path/hw-rnic.so')) as vm:
        result = vm.run('ibv_devinfo')
        assert result.rc == 0, result.output
"""

from .agent import Command, Result
from .errors import CommandFailed, VmDied, VmError
from .image import Image
from .vm import Kmsg, Vm, start_all

__all__ = ['Command', 'CommandFailed', 'Image', 'Kmsg', 'Result', 'Vm',
           'VmDied', 'VmError', 'start_all']
