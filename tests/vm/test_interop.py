#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The rnic beside siw, the kernel's software iWARP: in one VM the one, in
another the other."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import SiwCase  # noqa: E402


class Programs(SiwCase):
    """With either as server, both as they come."""

    def test_rping(self):
        for server, client in self.roles():
            with self.subTest(server=server.name):
                self.rping(server, client)


if __name__ == '__main__':
    unittest.main(verbosity=2)
