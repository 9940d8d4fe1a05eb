# SPDX-License-Identifier: GPL-2.0-or-later
"""The loadable device, as scripts/lib/device.sh builds it."""

import functools
import os
import subprocess
from typing import NamedTuple

from .errors import VmError
from .image import TOP
from .kept import hold

_SCRIPT = '''
set -euo pipefail
. "$1/scripts/lib/device.sh"
device_build
printf '%s\\n' "$RNIC_QEMU" "$RNIC_DEVICE_SO" "$RNIC_PRELOAD_SO"
'''


class Device(NamedTuple):
    """QEMU's binary, and the file for each way of loading the device."""
    qemu: str
    plugin: str
    preload: str

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def prepare():
        """Build what is missing or out of date; progress goes to stderr."""
        done = subprocess.run(['bash', '-c', _SCRIPT, 'device', str(TOP)],
                              stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise VmError('building the device failed, see above')
        device = Device(*done.stdout.splitlines())
        hold(os.path.dirname(device.plugin))
        return device

    def load(self, way='plugin'):
        """The `load` argument of Vm for one of 'plugin' and 'preload'."""
        return way, getattr(self, way)
