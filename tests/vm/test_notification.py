#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What 1000 messages cost in interrupts, doorbells, wake-ups and events.

Run with --write, it also writes what it measured into docs/notification.md.
"""

import json
import sys
import time
import unittest
from pathlib import Path
from typing import NamedTuple

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import PairCase  # noqa: E402

PAGE = Path(__file__).resolve().parents[2] / 'docs' / 'notification.md'
BEGIN, END = '<!-- measured -->\n', '<!-- end -->\n'

# As in programs/rnic-notify.c
COUNT = 1000
SOLICIT_EVERY = 10
SIGNAL_EVERY = 100
HOLD_COUNT, HOLD_PERIOD = 16, 0.06

MODES = {
    'event': 'each completion armed for and waited for, at both ends',
    'moderated': f'the target waits; an event for {HOLD_COUNT} completions, '
                 f'or after {HOLD_PERIOD * 1000:.0f} ms',
    'solicited': f'the target waits for solicited messages only, which each '
                 f'{SOLICIT_EVERY}th is',
    'polled': 'both ends poll',
    'unsignalled': f'both ends poll, each {SIGNAL_EVERY}th Send is signalled',
    'write': f'RDMA Writes, each {SIGNAL_EVERY}th signalled; the target has '
             'its CQ armed',
}

# Column of the table, counter of the device
COLUMNS = (('interrupts', 'interrupts'), ('doorbell exits', 'kicks'),
           ('engine wake-ups', 'wakeups'), ('CQ events', 'cq_events'),
           ('completions', 'cqes'))


class End(NamedTuple):
    """What the messages cost one end: the device, the QP, and its CQs."""
    device: dict
    qp: dict
    cq: dict
    events: int     # that the program waited for


def minus(a, b):
    return {name: value - b[name] for name, value in a.items()}


def total(queues):
    """The sum of the counters of several queues."""
    return {name: sum(q[name] for q in queues.values())
            for name in next(iter(queues.values()))}


class Notification(PairCase):
    """rnic-notify: b sends, a is the target."""

    written = False     # --write

    def read(self, vm):
        return [vm.qmp('qom-get', path='/machine/peripheral/rnic0',
                       property=name)
                for name in ('stats', 'qp-stats', 'cq-stats')]

    def attempt(self, mode):
        """(target, sender, seconds), or None if something else was sent."""
        addr = self.pair.addr(self.a)
        programs = []
        for vm, role in ((self.a, 'server'), (self.b, 'client')):
            programs.append(self.spawn(
                vm, f'rnic-notify {role} {addr} {mode} {COUNT}', None))
            if role == 'server':
                programs[0].wait_output('listening')
        qpns = [p.wait_output(r'ready, qpn (\d+)')[1] for p in programs]
        before = [self.read(vm) for vm in (self.a, self.b)]
        start = time.monotonic()
        for p in programs:
            p.write(b'go\n')
        done = [p.wait_output(r'done, (\d+) events, (\d+) completions', 180)
                for p in programs]
        seconds = time.monotonic() - start
        after = [self.read(vm) for vm in (self.a, self.b)]
        ends = []
        for vm, qpn, text, old, new in zip((self.a, self.b), qpns, done,
                                           before, after):
            # The program's are the only ones
            self.assertEqual(list(new[1]), [qpn])
            ends.append(End(minus(new[0], old[0]),
                            minus(new[1][qpn], old[1][qpn]),
                            minus(total(new[2]), total(old[2])), int(text[1])))
            self.guest_says_the_same(vm, new[1][qpn], list(new[2].values()))
        for p in programs:
            p.write(b'end\n')
        for p in programs:
            p.wait(60, check=True)
        # The kernel may have sent an IP packet meanwhile
        if any(value for end in ends for name, value in end.device.items()
               if name.startswith('net_')):
            return None
        return *ends, seconds

    def guest_says_the_same(self, vm, qp, cqs):
        """The kernel's resource tracking shows what the host shows."""
        def shown(kind):
            text = vm.run(f'rdma -jdd resource show {kind}', 60, True).output
            return [{key.removeprefix('drv_'): value
                     for key, value in one.items()}
                    for one in json.loads(text)
                    if one.get('comm') == 'rnic-notify']

        objects = shown('qp')
        self.assertEqual(len(objects), 1)
        for name in ('tx_wqes', 'rx_messages', 'doorbells', 'cqes',
                     'cq_events', 'interrupts', 'wakeups'):
            self.assertEqual(objects[0].get(name), qp[name], objects[0])
        # The kernel has numbers of its own for CQs
        objects = shown('cq')
        self.assertEqual(sorted([one.get(name) for name in cqs[0]]
                                for one in objects),
                         sorted([list(cq.values()) for cq in cqs]), objects)

    def measure(self, mode):
        for _ in range(5):
            result = self.attempt(mode)
            if result:
                return result
        self.fail('IP packets were sent each time')

    def judge(self, mode, target, sender, seconds):
        """The bounds that each way promises."""
        for end in (target, sender):
            # The QP, its CQs and the device tell the same
            for name in ('cqes', 'cq_events', 'interrupts'):
                self.assertEqual(end.qp[name], end.cq[name], name)
                self.assertEqual(end.qp[name], end.device[name], name)
            self.assertEqual(end.qp['doorbells'], end.device['doorbells'])
            self.assertLessEqual(end.qp['doorbells'], end.device['kicks'])
            self.assertLessEqual(end.qp['wakeups'], end.device['wakeups'])
            self.assertLessEqual(end.qp['interrupts'], end.qp['cq_events'])
            self.assertEqual(end.qp['cq_events'] > 0, end.events > 0)
        # A posting rings once, or not at all
        self.assertLessEqual(sender.device['kicks'], COUNT)

        def events(end):
            return end.qp['cq_events']

        if mode == 'event':
            self.assertEqual(events(sender), COUNT)
            self.assertGreater(events(target), 0)
            self.assertLessEqual(events(target), COUNT)
        else:
            self.assertEqual(events(sender), 0)
            self.assertEqual(sender.qp['interrupts'], 0)
        if mode == 'moderated':
            self.assertGreater(events(target), 0)
            self.assertLessEqual(events(target), COUNT / HOLD_COUNT + 1 +
                                 seconds / HOLD_PERIOD)
        if mode == 'solicited':
            self.assertEqual(events(target), COUNT // SOLICIT_EVERY)
        if mode in ('polled', 'unsignalled', 'write'):
            self.assertEqual(events(target), 0)
            self.assertEqual(target.qp['interrupts'], 0)
        if mode in ('polled', 'unsignalled'):
            self.assertEqual(target.device['kicks'], 0)
        self.assertEqual(sender.qp['cqes'], COUNT // SIGNAL_EVERY if mode in
                         ('unsignalled', 'write') else COUNT)
        if mode == 'write':
            # Nobody there is told, and no completion is written
            for name in ('cqes', 'cq_events', 'interrupts', 'kicks',
                         'async_events', 'doorbells'):
                self.assertEqual(target.device[name], 0, name)
        else:
            self.assertEqual(target.qp['cqes'], COUNT)

    def test_costs(self):
        rows = []
        for mode, text in MODES.items():
            with self.subTest(mode=mode):
                # Also after a part that failed
                self._end_commands()
                target, sender, seconds = self.measure(mode)
                self.judge(mode, target, sender, seconds)
                for what, end in (('sender', sender), ('target', target)):
                    cells = [str(end.device[c]) for _, c in COLUMNS]
                    way = f'`{mode}`: {text}' if what == 'sender' else ''
                    rows.append(f'| {way} | {what} | {" | ".join(cells)} |\n')
                    print(f'{mode} {what}: {cells}', file=sys.stderr)
        if self.written:
            self.assertEqual(len(rows), 2 * len(MODES))
            write_page(rows)


def write_page(rows):
    head = ['| way | end | ' + ' | '.join(name for name, _ in COLUMNS) + ' |\n',
            '|---|---' + '|--:' * len(COLUMNS) + '|\n']
    text = PAGE.read_text(encoding='utf-8')
    start = text.index(BEGIN) + len(BEGIN)
    PAGE.write_text(text[:start] + '\n' + ''.join(head + rows) + '\n' +
                    text[text.index(END):], encoding='utf-8')


if __name__ == '__main__':
    if '--write' in sys.argv:
        sys.argv.remove('--write')
        Notification.written = True
    unittest.main(verbosity=2)
