# SPDX-License-Identifier: GPL-2.0-or-later
"""What a VM leaves when a test has failed, to find the cause afterwards.

All of it is taken within a short time and as far as it can be had: a guest that
does not answer costs GUEST_LIMIT seconds, and nothing here raises.
"""

import json
import os
import traceback
from pathlib import Path

from .errors import VmError

GUEST_LIMIT = 20
MONITOR_LIMIT = 5
# A test with many failed parts would fill the disk and take long
TIMES = 3
# Octets of the trace that are kept, from its begin and from its end
TRACE_HEAD, TRACE_TAIL = 1 << 20, 8 << 20

# Its kernel log comes first: most often it tells the most
_GUEST = '''
show() { echo "=== $*"; "$@" 2>&1; echo; }
show dmesg
show cat /proc/interrupts
show ip -s link
show ip addr
show ip route show table all
show rdma link
show rdma resource show
for kind in qp cq cm_id mr pd srq; do show rdma -dd resource show $kind; done
show rdma statistic
show ss -anpt
show ps
for pid in $(pidof rping ib_write_bw ib_read_bw ib_send_bw rnic-verbs rmmod \\
             modprobe); do show cat /proc/$pid/stack; done
'''


def collect(vm, why):
    """Files in a folder `failed-N` of the VM's run folder."""
    if vm.evidence >= TIMES or vm.process is None or \
            not os.path.isdir(vm.run_dir):  # closed, without a failure
        return
    vm.evidence += 1
    folder = Path(vm.run_dir, f'failed-{vm.evidence}')
    try:
        folder.mkdir()
        (folder / 'why').write_text(f'{why}\n', encoding='utf-8')
        if not vm.alive:
            return
        _process(vm, folder)
        if _device(vm, folder):
            _guest(vm, folder)
    except Exception:   # pylint: disable=broad-exception-caught
        # The first error is the one that counts
        try:
            (folder / 'incomplete').write_text(traceback.format_exc(),
                                               encoding='utf-8')
        except OSError:
            traceback.print_exc()


def _process(vm, folder):
    """What QEMU's threads wait for, and its sockets (of its namespace)."""
    proc = Path(f'/proc/{vm.process.pid}')
    lines = []
    for task in sorted((proc / 'task').iterdir()):
        try:
            comm, wchan, stat = ((task / name).read_text(errors='replace')
                                 for name in ('comm', 'wchan', 'stat'))
        except OSError:
            continue    # it has ended
        # Its state, and its time in ticks
        state, *rest = stat.rpartition(')')[2].split()
        lines.append(f'{task.name} {comm.strip()}: {state} {wchan.strip()}, '
                     f'user {rest[10]} system {rest[11]}')
    (folder / 'threads').write_text('\n'.join(lines) + '\n', encoding='utf-8')
    inodes = set()
    for fd in (proc / 'fd').iterdir():
        try:
            inodes.add(os.readlink(fd).removeprefix('socket:[').rstrip(']'))
        except OSError:
            pass
    with open(folder / 'sockets', 'w', encoding='utf-8') as out:
        for name, column in (('tcp', 9), ('tcp6', 9), ('unix', 6)):
            head, *rows = (proc / 'net' / name).read_text(
                errors='replace').splitlines()
            print(name, head, sep='\n', file=out)
            for row in rows:
                words = row.split()
                if len(words) > column and words[column] in inodes:
                    print(row, file=out)


def _device(vm, folder):
    """The counters of each rnic. Whether the guest may be asked."""
    told = {}
    running = True
    try:
        status = vm.qmp('query-status', timeout=MONITOR_LIMIT)
        told['status'] = status
        running = status['running']
        for path in ('/machine/peripheral', '/machine/peripheral-anon'):
            for one in vm.qmp('qom-list', timeout=MONITOR_LIMIT, path=path):
                if one['type'] == 'child<rnic>':
                    name = f'{path}/{one["name"]}'
                    told[name] = {
                        what: vm.qmp('qom-get', timeout=MONITOR_LIMIT,
                                     path=name, property=what)
                        for what in ('stats', 'qp-stats', 'cq-stats')}
    except VmError as e:
        told['error'] = str(e)
    (folder / 'device.json').write_text(json.dumps(told, indent=1) + '\n',
                                        encoding='utf-8')
    return running


def _guest(vm, folder):
    command = vm.spawn(_GUEST)
    try:
        command.wait(GUEST_LIMIT)
        said = ''
    except VmError as e:
        said = f'=== incomplete: {e}\n'
    (folder / 'guest').write_text(command.output + said, encoding='utf-8')


def bound_trace(path):
    """Cut the middle out of a trace that is too long."""
    try:
        size = os.path.getsize(path)
        if size <= TRACE_HEAD + TRACE_TAIL:
            return
        with open(path, 'rb') as trace:
            head = trace.read(TRACE_HEAD)
            trace.seek(size - TRACE_TAIL)
            tail = trace.read()
        with open(path, 'wb') as trace:
            trace.write(head + b'\n... %d octets are left out ...\n' %
                        (size - len(head) - len(tail)) + tail)
    except OSError:
        pass
