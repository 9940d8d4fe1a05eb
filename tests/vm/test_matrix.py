#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Devices with different properties talk with each other.

The device is replaced in its hotplug slot for each row. With RNIC_FULL every
pair of values of two properties, at one side or at both, comes up in some row;
otherwise every value does, at either side.
"""

import itertools
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import PairCase, full  # noqa: E402

# The first value of each is the default
VALUES = {
    'crc': ('auto', 'on', 'off'),
    'mpa_rev': (2, 1),
    'p2p': ('on', 'off'),
    'rtr': ('both', 'write', 'read'),
    'mpa_gate': ('strict', 'off'),
    'fpdu_max': (0, 128, 1448),
}
# What differs from the defaults, at a and at b
ROWS = (
    ({'crc': 'on'}, {'p2p': 'off'}),
    ({'mpa_rev': 1, 'p2p': 'off'}, {'crc': 'on', 'fpdu_max': 128}),
    ({'rtr': 'write', 'crc': 'off'}, {'rtr': 'write', 'crc': 'off'}),
    ({'p2p': 'off', 'mpa_gate': 'off', 'fpdu_max': 128},
     {'mpa_rev': 1, 'mpa_gate': 'off'}),
    ({'rtr': 'read', 'fpdu_max': 1448}, {'fpdu_max': 1448}),
    ({}, {'rtr': 'read', 'crc': 'off'}),
)
SMOKE = ['send-recv', 'bidirectional', 'inline', 'zero-length', 'write',
         'read', 'private-data', 'reject', 'disconnect-delivers']


def factors():
    """One factor for each property of each side."""
    return [((side, name), values) for side in 'ab'
            for name, values in VALUES.items()]


def pairwise():
    """Rows such that each pair of values of two factors is in one of them.

    Greedy: each row starts with a pair that is missing, and takes for every
    other factor the value that adds most pairs.
    """
    all_factors = factors()
    missing = {((f, x), (g, y))
               for (f, xs), (g, ys) in itertools.combinations(all_factors, 2)
               for x in xs for y in ys}
    rows = []
    while missing:
        row = dict(min(missing, key=repr))
        for factor, values in all_factors:
            if factor not in row:
                row[factor] = max(values, key=lambda v, f=factor, r=row: sum(
                    (((f, v), other) in missing or (other, (f, v)) in missing)
                    for other in r.items()))
        order = [f for f, _ in all_factors]
        missing -= {((f, row[f]), (g, row[g]))
                    for f, g in itertools.combinations(order, 2)}
        rows.append(row)
    return rows


class Matrix(PairCase):
    """rping both ways and a part of rnic-verbs for each row."""

    def devices(self):
        pass

    def one(self, a, b):
        self.pair.ensure(self.a, **a)
        self.pair.ensure(self.b, **b)
        before = [vm.stats() for vm in (self.a, self.b)]
        self.rping(self.a, self.b, count=3, size=5000)
        self.rping(self.b, self.a, count=3, size=5000)
        self.verbs(self.a, self.b, SMOKE)
        for vm, old in zip((self.a, self.b), before):
            new = vm.stats()
            self.assertEqual(new['rx_crc_errors'], 0)
            self.assertEqual(new['rx_no_receive'], old['rx_no_receive'])

    def test_every_value_at_either_side(self):
        for a, b in ROWS:
            with self.subTest(a=a, b=b):
                self.one(a, b)

    @unittest.skipUnless(full(), 'only with RNIC_FULL')
    def test_every_pair_of_values(self):
        for row in pairwise():
            a, b = ({name: value for (s, name), value in row.items()
                     if s == side and value != VALUES[name][0]}
                    for side in 'ab')
            if {a.get('rtr'), b.get('rtr')} == {'read', 'write'}:
                del b['rtr']    # nothing in common: see below
            with self.subTest(a=a, b=b):
                self.one(a, b)

    def test_no_common_ready_to_receive_message_is_a_clear_error(self):
        self.pair.ensure(self.a, rtr='write')
        self.pair.ensure(self.b, rtr='read')
        addr = self.pair.addr(self.a)
        self.listen(self.a, f'rping -s -a {addr}', f'{addr}:7174')
        talk = self.b.run(f'rping -c -a {addr} -C 1', 60)
        self.assertIn('RDMA_CM_EVENT_CONNECT_ERROR', talk.output)

    def test_peer_without_peer_to_peer_mode_needs_nothing_in_common(self):
        self.pair.ensure(self.a, rtr='write')
        self.pair.ensure(self.b, rtr='read', p2p='off')
        self.rping(self.a, self.b, count=3)


if __name__ == '__main__':
    unittest.main(verbosity=2)
