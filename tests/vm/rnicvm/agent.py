# SPDX-License-Identifier: GPL-2.0-or-later
"""The host's end of the guest's command agent (tests/vm/guest/agent.c)."""

import re
import signal
import threading
import time
from typing import NamedTuple

from .errors import CommandFailed, VmDied, VmError


class Result(NamedTuple):
    """How a command ended: the shell's status, and what it printed."""
    rc: int
    output: str


class Command:
    """A command that runs, or ran, in the guest."""

    def __init__(self, agent, tag, text):
        self.text = text
        self.rc = None
        self._agent = agent
        self._tag = tag
        self._output = bytearray()
        self._on_output = None

    @property
    def running(self):
        return self.rc is None

    @property
    def output_bytes(self):
        with self._agent.changed:
            return bytes(self._output)

    @property
    def output(self):
        """What it has printed so far, both streams together."""
        return self.output_bytes.decode(errors='replace')

    def wait(self, timeout=60, check=False):
        """Wait for its end and return a Result.

        A command that is still running after `timeout` seconds is killed and
        VmError raised; with `check`, CommandFailed if its status is not 0.
        """
        try:
            self._agent.wait_for(lambda: self.rc is not None, timeout,
                                 f'the end of: {self.text}')
        except TimeoutError as e:
            self.kill(signal.SIGKILL)
            raise VmError(f'{e}\nits output: {self.output[-2000:]}') from None
        result = Result(self.rc, self.output)
        if check and result.rc:
            raise CommandFailed(f'{self._agent.name}: status {result.rc} from: '
                                f'{self.text}\n{result.output[-4000:]}', result)
        return result

    def wait_output(self, pattern, timeout=60):
        """Wait until its output matches a regular expression; the match."""
        match = None

        def found():
            nonlocal match
            match = re.search(pattern, self._output.decode(errors='replace'))
            return match or self.rc is not None

        try:
            self._agent.wait_for(found, timeout,
                                 f'{pattern!r} from: {self.text}')
        except TimeoutError as e:
            raise VmError(f'{e}\nits output: {self.output[-2000:]}') from None
        if not match:
            raise CommandFailed(
                f'{self._agent.name}: ended with status {self.rc} and without '
                f'{pattern!r}: {self.text}\n{self.output[-4000:]}',
                Result(self.rc, self.output))
        return match

    def write(self, data):
        """Bytes for its standard input."""
        for start in range(0, len(data), 65536):
            part = data[start:start + 65536]
            self._agent.send(b'in %d %d\n' % (self._tag, len(part)) + part)

    def close_input(self):
        self._agent.send(b'in %d 0\n' % self._tag)

    def kill(self, sig=signal.SIGTERM):
        """Signal it and all that it started."""
        if self.running:
            self._agent.send(b'kill %d %d\n' % (self._tag, sig))


class Agent:
    """Speaks with the agent over a connected socket."""

    def __init__(self, sock, name):
        self.name = name
        self.uptime = None
        self.changed = threading.Condition()
        self._sock = sock
        self._send_lock = threading.Lock()
        self._commands = {}
        self._tag = 0
        self._gone = None
        self._thread = threading.Thread(target=self._read, daemon=True,
                                        name=f'agent {name}')
        self._thread.start()

    def wait_for(self, condition, timeout, what):
        """Wait until condition(), called under the lock, is true."""
        end = time.monotonic() + timeout
        with self.changed:
            while not condition():
                if self._gone:
                    raise VmDied(f'{self.name}: {self._gone}, while waiting '
                                 f'for {what}')
                left = end - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f'{self.name}: no sign in {timeout} s '
                                       f'of {what}')
                self.changed.wait(left)

    def wait_ready(self, timeout):
        self.wait_for(lambda: self.uptime is not None, timeout,
                      'the guest\'s agent')

    def send(self, data):
        with self._send_lock:
            try:
                self._sock.sendall(data)
            except OSError as e:
                raise VmDied(f'{self.name}: {e}') from None

    def start(self, text, stdin=None, on_output=None):
        """Start a shell command and return at once.

        `stdin`: bytes; None leaves its input open for Command.write().
        `on_output` is called with each piece of output, on another thread.
        """
        with self.changed:
            self._tag += 1
            command = Command(self, self._tag, text)
            command._on_output = on_output
            self._commands[self._tag] = command
        data = text.encode()
        self.send(b'run %d %d\n' % (command._tag, len(data)) + data)
        if stdin is not None:
            command.write(stdin)
            command.close_input()
        return command

    def guest_was_reset(self):
        """The commands that ran are gone, and a new agent will come."""
        with self.changed:
            self.uptime = None
            for command in self._commands.values():
                command.rc = 128 + signal.SIGKILL
            self._commands.clear()
            self.changed.notify_all()

    def close(self):
        self._lost('the VM was stopped')
        try:
            self._sock.shutdown(2)
        except OSError:
            pass
        self._thread.join(5)
        self._sock.close()

    def _lost(self, why):
        with self.changed:
            self._gone = self._gone or why
            self.changed.notify_all()

    def _read(self):
        stream = self._sock.makefile('rb')
        try:
            while line := stream.readline():
                verb, *args = line.split()
                if verb == b'ready':
                    with self.changed:
                        self.uptime = float(args[0])
                        self.changed.notify_all()
                    continue
                tag, value = int(args[0]), int(args[1])
                data = stream.read(value) if verb == b'out' else b''
                with self.changed:
                    command = self._commands.get(tag)
                    if not command:
                        continue    # it ran when the guest was reset
                    if verb == b'out':
                        command._output += data
                    else:
                        command.rc = value
                        del self._commands[tag]
                    self.changed.notify_all()
                if data and command._on_output:
                    command._on_output(data)
            self._lost('the VM ended')
        except (OSError, ValueError, IndexError) as e:
            self._lost(f'the agent\'s connection failed: {e!r}')
