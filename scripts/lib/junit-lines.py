#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints the results of a JUnit file as lines: ok, not ok, skip."""

import sys
import xml.etree.ElementTree as ElementTree


def main(path):
    failed = 0
    for suite in ElementTree.parse(path).getroot().iter('testsuite'):
        for case in suite.findall('testcase'):
            name = f"{suite.get('name')} {case.get('name')}"
            if case.find('skipped') is not None:
                print(f'skip {name}: skipped by the test')
            elif (case.find('failure') is not None
                  or case.find('error') is not None):
                print(f'not ok {name}: see {path}')
                failed += 1
            else:
                print(f'ok {name}')
    return 1 if failed else 0


sys.exit(main(sys.argv[1]))
