#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether each case of docs/wire.md has a test: wire-cases.py PROGRAM..."""

import re
import subprocess
import sys

CASES = {'S': [*range(1, 24), *range(30, 51)], 'F': range(1, 21),
         'M': range(1, 11), 'D': range(1, 31), 'R': range(1, 37),
         # A13 is one of two devices: test-rfc7306
         'A': [*range(1, 13), 14]}


def main(programs):
    found = set()
    for program in programs:
        names = subprocess.run([program, '-l'], stdout=subprocess.PIPE,
                               text=True, check=True).stdout
        for case in re.findall(r'^/wire/([^/]+)/', names, re.M):
            found.update(c for c in case.split('-') if c[0] in CASES)
    wanted = {f'{family}{number:02}' for family, numbers in CASES.items()
              for number in numbers}
    print('without a test:', ' '.join(sorted(wanted - found)) or 'none')
    print('unknown:', ' '.join(sorted(found - wanted)) or 'none')
    return found != wanted


sys.exit(main(sys.argv[1:]))
