# SPDX-License-Identifier: GPL-2.0-or-later
"""A timeline of one RDMA Write and one Send from the devices' traces."""

import re
import textwrap
from typing import NamedTuple

LINE = re.compile(r'^(?:\d+@)?(\d+\.\d+):rnic_(\w+) [^:]*: (.*)')
# Kinds of event that belong to a message's way
KINDS = {'doorbell': 'doorbell', 'wqe': 'work request', 'fpdu_tx': 'FPDU sent',
         'fpdu_rx': 'FPDU received', 'place': 'placement',
         'cqe': 'completion', 'event': 'event', 'irq': 'interrupt'}
# Words that the kind says already, and how short messages are told
REPLACE = (('interrupt on vector', 'vector'),
           (', 0 of them read straight into place', ', copied into place'))
LONGEST = 0.5       # seconds


class Event(NamedTuple):
    time: float
    vm: str
    kind: str
    text: str


def read(logs):
    """The events of all VMs, in order; `logs` maps a VM's name to its log."""
    events = []
    for vm, path in logs.items():
        with open(path, encoding='utf-8', errors='replace') as f:
            for line in f:
                m = LINE.match(line)
                if m and m[2] in KINDS:
                    events.append(Event(float(m[1]), vm, m[2], m[3].strip()))
    events.sort(key=lambda e: e.time)
    return events


def _from_sq(event):
    return event.kind == 'wqe' and ' SQ ' in event.text


def way_of(events, opcode):
    """The events of the first message of that kind, or None.

    It begins with the doorbell before its work request, and ends before the
    next work request of either VM, when its completion was seen.
    """
    for i, first in enumerate(events):
        if not (_from_sq(first) and f' {opcode} ' in first.text):
            continue
        wr_id = re.search(r'wr_id (0x[0-9a-f]+)', first.text)[1]
        qpn = re.match(r'qpn (\d+)', first.text)[1]
        way, done = [], False
        for before in reversed(events[:i]):
            if before.vm == first.vm and before.kind == 'doorbell':
                if first.time - before.time < LONGEST:
                    way.append(before)
                break
        for event in events[i:]:
            if event is not first and _from_sq(event) or \
                    event.time - first.time > LONGEST:
                break
            way.append(event)
            done = done or (event.vm == first.vm and event.kind == 'cqe'
                            and f'QP {qpn},' in event.text
                            and wr_id in event.text)
        if done:
            return way
    return None


def show(logs):
    """Print both; True if both were found."""
    events = read(logs)
    found = True
    for opcode, title in (('WRITE', 'One RDMA Write'), ('SEND', 'One Send')):
        way = way_of(events, opcode)
        if not way:
            print(f'{title}: the traces hold no complete one')
            found = False
            continue
        print(f'{title}, from the traces of both devices:')
        print('        us  VM')
        for event in way:
            text = event.text
            for old, new in REPLACE:
                text = text.replace(old, new)
            lines = textwrap.wrap(text, 78)
            print(f'{(event.time - way[0].time) * 1e6:10.0f}   {event.vm}  '
                  f'{KINDS[event.kind]:14} {lines[0]}')
            for line in lines[1:]:
                print(f'{"":32}{line}')
        print()
    return found
