# SPDX-License-Identifier: GPL-2.0-or-later
"""perftest's programs between two guests (or in one with itself)."""

import re
import signal
from typing import NamedTuple

from .errors import VmError

# On a loaded machine perftest's clock calibration fails now and then and it
# prints 0.00, or inf for a latency; such a run is repeated.
ATTEMPTS = 4


class Bandwidth(NamedTuple):
    """octets a second, messages a second"""
    octets: float
    messages: float


class Latency(NamedTuple):
    """microseconds: typical, average, smallest"""
    typical: float
    average: float
    smallest: float


def wait_listen(vm, where, timeout=60):
    """Wait until an rdma_cm listener is at `where`, as in '10.0.0.1:7174'.

    Programs whose output is no terminal say nothing in time.
    """
    vm.run('until rdma resource show cm_id | '
           f'grep -q "LISTEN.* {re.escape(where)} "; do sleep 0.2; done',
           timeout, check=True)


# What a client prints or ends with that met no listener
_REFUSED = r'RDMA_CM_EVENT_(REJECTED|UNREACHABLE|CONNECT_ERROR)'
_CRASHED = (128 + signal.SIGSEGV, 128 + signal.SIGABRT)


def _last_numbers(output):
    """The fields of perftest's result line."""
    rows = [line.split() for line in output.splitlines()
            if re.match(r'^\s*\d+\s+\d+\s+[\d.]+', line)]
    return [float(x) for x in rows[-1]] if rows else None


def _run(server, client, addr, program, options, timeout):
    """The numbers of one run; None if the client met no listener, or has no
    clock."""
    command = f'{program} -R -F {options}'
    ear = server.spawn(command)
    try:
        wait_listen(server, '0.0.0.0:18515', timeout)
        result = client.run(f'{command} {addr}', timeout)
        if result.rc and (re.search(_REFUSED, result.output) or
                          result.rc in _CRASHED):
            # Between its two connections the server closes its listener and
            # opens it again; a client that is faster is refused
            ear.kill()
            ear.wait(timeout)
            # and may crash when it tries once more, or cleans up. The trap
            # counts if it was anywhere else
            client.excused.append(
                rf'^traps: {program}\[.* in (librdmacm\.so|{program}\[)')
            return None
        served = ear.wait(timeout)
    except VmError:
        ear.kill(signal.SIGKILL)
        ear.wait(timeout)
        raise
    if result.rc or served.rc:
        raise VmError(f'{command}: client status {result.rc}, server status '
                      f'{served.rc}\n{result.output[-1500:]}\n'
                      f'{served.output[-1500:]}')
    numbers = _last_numbers(result.output)
    if not numbers and re.search(r'^\s*\d+\s+\d+\s+inf\b', result.output,
                                 re.M):
        return None
    if not numbers:
        raise VmError(f'{command}: no result line\n{result.output[-1500:]}')
    return numbers


def bandwidth(server, client, addr, verb, size, count, timeout=180,
              options=''):
    """ib_<verb>_bw with `count` messages of `size` octets."""
    for _ in range(ATTEMPTS):
        row = _run(server, client, addr, f'ib_{verb}_bw',
                   f'-s {size} -n {count} {options}', timeout)
        if row and row[3] > 0:
            return Bandwidth(row[3] * 2 ** 20, row[3] * 2 ** 20 / size)
    raise VmError(f'ib_{verb}_bw -s {size}: refused or 0.00 {ATTEMPTS} times')


def message_rate(server, client, addr, verb, count, timeout=180, options=''):
    """Messages a second of ib_<verb>_bw, whatever their size is."""
    for _ in range(ATTEMPTS):
        row = _run(server, client, addr, f'ib_{verb}_bw',
                   f'-n {count} {options}', timeout)
        if row and row[4] > 0:
            return row[4] * 1e6
    raise VmError(f'ib_{verb}_bw: refused or 0.00 {ATTEMPTS} times')


def latency(server, client, addr, verb, size, count, timeout=180, options=''):
    """ib_<verb>_lat with `count` messages of `size` octets; 0: its own."""
    own = f'-s {size}' if size else ''
    for _ in range(ATTEMPTS):
        row = _run(server, client, addr, f'ib_{verb}_lat',
                   f'{own} -n {count} {options}', timeout)
        if row and row[4] > 0:
            return Latency(row[4], row[5], row[2])
    raise VmError(f'ib_{verb}_lat -s {size}: refused or 0.00 {ATTEMPTS} times')
