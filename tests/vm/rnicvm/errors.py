# SPDX-License-Identifier: GPL-2.0-or-later
"""What can go wrong with a VM."""

import unittest


class VmError(Exception):
    """Anything about a VM that did not go as asked."""


class VmDied(VmError):
    """QEMU ended, or the guest's agent went away."""


class CommandFailed(VmError):
    """A command that had to succeed did not; `result` is what came back."""

    def __init__(self, text, result):
        super().__init__(text)
        self.result = result


class Unsupported(VmError, unittest.SkipTest):
    """What was asked for cannot be had with this kernel: a test is skipped."""
