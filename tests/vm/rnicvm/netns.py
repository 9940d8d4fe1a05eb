# SPDX-License-Identifier: GPL-2.0-or-later
"""Network namespaces of the host, for VMs and for what talks with them."""

import functools
import glob
import os
import re
import secrets
import shutil
import subprocess

from .errors import VmError


def _ip(*arguments):
    done = subprocess.run(['ip', *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60,
                          check=False)
    if done.returncode:
        raise VmError(f'ip {" ".join(arguments)}: {done.stdout.strip()}')


def _remove_stale():
    """What processes left that were killed."""
    for path in glob.glob('/run/netns/rnic-*'):
        match = re.fullmatch(r'rnic-(\d+)-[0-9a-f]{6}', os.path.basename(path))
        if match and not os.path.exists(f'/proc/{match[1]}'):
            subprocess.run(['ip', 'netns', 'del', match[0]],
                           stderr=subprocess.DEVNULL, timeout=60, check=False)


class Namespace:
    """A network namespace of this process, with lo up. `lines` are further
    commands of ip in it."""

    def __init__(self, *lines):
        _remove_stale()
        self.name = f'rnic-{os.getpid()}-{secrets.token_hex(3)}'
        self.wrapper = ['ip', 'netns', 'exec', self.name]
        _ip('netns', 'add', self.name)
        try:
            for line in ('link set lo up', *lines):
                self.ip(line)
        except VmError:
            self.close()
            raise

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def why_not():
        """Why there can be no namespace here; None if there can."""
        if not shutil.which('ip'):
            return 'ip (of iproute2) is not installed'
        if os.geteuid():
            return 'needs root, for a network namespace with a tap device'
        try:
            probe = Namespace('tuntap add tap0 mode tap')
            try:
                entered = probe.run('true')
            finally:
                probe.close()
            if entered.returncode:
                raise VmError(entered.stdout)
        except VmError as e:
            return f'no network namespace with a tap device here: {e}'
        return None

    def ip(self, line):
        """A command of ip in it."""
        _ip('-n', self.name, *line.split())

    def run(self, *command, timeout=60):
        """Run a command of the host in it."""
        return subprocess.run([*self.wrapper, *command], timeout=timeout,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)

    def start(self, *command, **popen):
        """Start a command of the host in it; a Popen."""
        # pylint: disable=consider-using-with
        return subprocess.Popen([*self.wrapper, *command],
                                stdout=subprocess.PIPE, **popen)

    def close(self):
        subprocess.run(['ip', 'netns', 'del', self.name],
                       stderr=subprocess.DEVNULL, timeout=60, check=False)
