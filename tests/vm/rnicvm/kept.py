# SPDX-License-Identifier: GPL-2.0-or-later
"""Folders of the cache: used, and dropped, as scripts/lib/keep.sh does it."""

import fcntl
import os
import shutil
import time
from pathlib import Path

# See KEEP_MINUTES there
KEEP_SECONDS = 3600


def hold(folder):
    """Use it, until the descriptor that is returned is closed or this process
    ends."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(fd, fcntl.LOCK_SH)
    os.utime(folder)
    return fd


def _drop(folder):
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        pass    # somebody uses it
    finally:
        os.close(fd)


def keep_newest(root, count):
    """Drop all folders in root but `count`, those that somebody uses and those
    that were used a short time ago."""
    used = []
    for folder in Path(root).iterdir():
        try:
            if folder.is_dir():
                used.append((folder.stat().st_mtime, folder))
        except OSError:
            pass    # somebody else drops it
    for when, folder in sorted(used, reverse=True)[count:]:
        if when < time.time() - KEEP_SECONDS:
            _drop(folder)
