#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""IP under load, both ways at once, in guests with two processors: interrupts
of one and polling of the other meet, and no packet is left lying."""

import re
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import PairCase, full  # noqa: E402

ROUNDS, SECONDS = (20, 30) if full() else (1, 6)


# Without timestamps of the kernel: the first socket that wants them, and the end
# of the last, make it patch the code that receives packets, which TCG does not
# always survive with two processors
PING = 'ping -U'


class Load(PairCase):
    """Streams, and single packets that each wait for the one before."""

    def one_round(self):
        running = []
        for vm, to in ((self.a, self.b), (self.b, self.a)):
            addr = self.pair.addr(to)
            running.append(self.spawn(to, 'iperf3 -s -1'))
            to.run('until ss -Hltn "sport = :5201" | grep -q LISTEN; '
                   'do sleep 0.2; done', 60, True)
            running.append(self.spawn(vm, f'iperf3 -c {addr} -t {SECONDS}'))
            running.append(self.spawn(
                vm, f'{PING} -f -q -w {SECONDS} {addr}'))
        results = [command.wait(SECONDS + 120) for command in running]
        for result in results:
            self.assertEqual(result.rc, 0, result)
        return sum(int(n) for n in re.findall(
            r'(\d+) received', ' '.join(r.output for r in results)))

    def test_both_ways_at_once(self):
        answers = 0
        for _ in range(ROUNDS):
            answers += self.one_round()
            # It still works, and by itself: nothing else wakes it
            for vm, to in ((self.a, self.b), (self.b, self.a)):
                out = vm.run(f'{PING} -c 3 -i 0.2 -W 20 '
                             f'{self.pair.addr(to)}', 60).output
                self.assertRegex(out, r'\b0% packet loss')
        print(f'# {answers} answers beside four streams', file=sys.stderr)


if __name__ == '__main__':
    unittest.main(verbosity=2)
