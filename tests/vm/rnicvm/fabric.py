# SPDX-License-Identifier: GPL-2.0-or-later
"""Fabric ids, so that runs side by side do not see each other's addresses."""

import os
import socket

from .errors import VmError

# 0 is for whoever names none, 40 to 94 are the in-process tests'
_IDS = range(1, 40)
_held = {}


def _in_use():
    """Ids whose addresses devices of this user claim (hw-rnic/core/net)."""
    prefix = f'@rnic/{os.getuid()}/'
    with open('/proc/net/unix', encoding='ascii', errors='replace') as f:
        names = [line.split()[-1] for line in f]
    return {name[len(prefix):].split('/')[0] for name in names
            if name.startswith(prefix)}


def claim_fabric_id():
    """A fabric-id that no other process of this user has; kept until it is
    released, or exit.

    The claim is a socket's name in the abstract namespace, which is where the
    devices' own claims are: so it holds for all checkouts and cache folders,
    and network namespaces do not disturb each other.
    """
    used = _in_use()
    for number in _IDS:
        if str(number) in used:
            continue
        # pylint: disable=consider-using-with
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f'\0rnic-fabric/{os.getuid()}/{number}')
        except OSError:
            claim.close()
            continue
        _held[number] = claim
        return number
    raise VmError('all fabric ids are in use')


def release_fabric_id(number):
    """Nothing uses it any more. Also if it was released before."""
    claim = _held.pop(number, None)
    if claim:
        claim.close()
