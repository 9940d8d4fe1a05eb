# SPDX-License-Identifier: GPL-2.0-or-later
"""A client of QEMU's machine protocol, on a connected socket."""

import json
import threading
import time

from .errors import VmDied, VmError


class Qmp:
    """Commands may come from any thread; events are kept until asked for."""

    def __init__(self, sock, name):
        self.name = name
        self.events = []
        self.connected = False
        self._sock = sock
        self._changed = threading.Condition()
        self._command_lock = threading.Lock()
        self._reply = None
        self._number = 0
        self._greeting = False
        self._gone = False
        self._thread = threading.Thread(target=self._read, daemon=True,
                                        name=f'qmp {name}')
        self._thread.start()

    def connect(self, timeout):
        self._wait(lambda: self._greeting, timeout, 'the QMP greeting')
        self.command('qmp_capabilities', timeout=timeout)
        self.connected = True

    def command(self, name, arguments=None, timeout=60):
        """Run a command and return what it returns."""
        request = {'execute': name}
        if arguments:
            request['arguments'] = arguments
        if not self._command_lock.acquire(timeout=timeout):
            raise VmError(f'{self.name}: {name}: another command is not '
                          f'answered after {timeout} s')
        try:
            # The reply to a command that nobody waits for any more may come
            self._number += 1
            self._reply = None
            request['id'] = self._number
            try:
                self._sock.sendall(json.dumps(request).encode() + b'\n')
            except OSError as e:
                raise VmDied(f'{self.name}: QMP: {e}') from None
            self._wait(lambda: self._reply is not None, timeout,
                       f'the reply to {name}')
            reply = self._reply
        finally:
            self._command_lock.release()
        if 'error' in reply:
            raise VmError(f'{self.name}: {name}: {reply["error"]["desc"]}')
        return reply['return']

    def wait_event(self, name, timeout=60):
        """Wait for an event, take it out of `events` and return it."""
        def match():
            return next((e for e in self.events if e['event'] == name), None)

        self._wait(match, timeout, f'the event {name}')
        with self._changed:
            event = match()
            self.events.remove(event)
            return event

    def close(self):
        try:
            self._sock.shutdown(2)
        except OSError:
            pass
        self._thread.join(5)
        self._sock.close()

    def _wait(self, condition, timeout, what):
        end = time.monotonic() + timeout
        with self._changed:
            while not condition():
                if self._gone:
                    raise VmDied(f'{self.name}: QEMU ended, while waiting '
                                 f'for {what}')
                left = end - time.monotonic()
                if left <= 0:
                    raise VmError(f'{self.name}: no sign in {timeout} s of '
                                  f'{what}')
                self._changed.wait(left)

    def _read(self):
        try:
            for line in self._sock.makefile('rb'):
                message = json.loads(line)
                with self._changed:
                    if 'QMP' in message:
                        self._greeting = True
                    elif 'event' in message:
                        self.events.append(message)
                    elif message.get('id') == self._number:
                        self._reply = message
                    self._changed.notify_all()
        except (OSError, ValueError):
            pass
        with self._changed:
            self._gone = True
            self._changed.notify_all()
