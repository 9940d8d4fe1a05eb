# SPDX-License-Identifier: GPL-2.0-or-later
"""Fabric ids, so that runs side by side do not see each other's addresses."""

import fcntl

from .errors import VmError
from .image import cache_dir

# 0 is for whoever names none
# From 40 on: the in-process tests
_IDS = range(1, 40)
_held = []


def claim_fabric_id():
    """A fabric-id that no other process of this user has; kept until exit."""
    folder = cache_dir() / 'lock'
    folder.mkdir(parents=True, exist_ok=True)
    for number in _IDS:
        # pylint: disable=consider-using-with
        lock = open(folder / f'fabric-{number}', 'w', encoding='ascii')
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        _held.append(lock)
        return number
    raise VmError('all fabric ids are in use')
