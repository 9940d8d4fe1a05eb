# SPDX-License-Identifier: GPL-2.0-or-later
"""rdma-core's own tests in a guest."""

import re

# Runs named tests; a line for each: its verdict, its name, the reason. What is
# put in between may change how they connect.
_RUNNER = '''
import os, sys, unittest
sys.path[:0] = ['/root', '/root/tests']
os.chdir('/root')
arguments = sys.argv[1:]
sys.argv = ['run', '--dev', 'rnic0', '--gid', '0']
from args_parser import parser
parser.parse_args()
import tests

class Lines(unittest.TestResult):
    def say(self, verdict, test, why=''):
        why = str(why).strip().splitlines()
        print('VERDICT', verdict, test.id().split('.', 1)[1],
              why[-1] if why else '', flush=True)
    def addSuccess(self, test): self.say('ok', test)
    def addSkip(self, test, reason): self.say('skip', test, reason)
    def addFailure(self, test, err): self.say('fail', test, err[1])
    def addError(self, test, err): self.say('fail', test, err[1])

%s
loader = unittest.TestLoader()
loader.loadTestsFromNames(['tests.' + n for n in arguments]).run(Lines())
'''


def check(case, vm, wanted, connect='', arguments=''):
    """All of them pass; `wanted`: names of tests, in words, by test class.
    `connect`, a piece of Python, takes `arguments` off what has that name."""
    names = [f'{group}.{name}' for group, tests in wanted.items()
             for name in tests.split()]
    vm.push((_RUNNER % connect).encode(), '/tmp/run-pyverbs.py')
    result = vm.run(f'python3 /tmp/run-pyverbs.py {arguments} '
                    f'{" ".join(names)}', 600)
    found = re.findall(r'^VERDICT (\w+) (\S+) ?(.*)', result.output, re.M)
    case.assertTrue(found, result.output[-2000:])
    verdicts = {name: (verdict, why) for verdict, name, why in found}
    for name in names:
        with case.subTest(name=name):
            case.assertEqual(verdicts.get(name), ('ok', ''))
