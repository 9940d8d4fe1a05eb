# SPDX-License-Identifier: GPL-2.0-or-later
"""Fabric ids, so that runs side by side do not see each other's addresses."""

import ipaddress
import os
import socket
import time

from .errors import VmError

# 0 is for whoever names none, 40 to 94 are the in-process tests'
_IDS = range(1, 40)
_held = {}


def _claims(pid='self'):
    """What devices of this user claim in the network namespace of a process:
    pairs of a fabric id and an address of the host, as
    hw-rnic/core/net/claim.c writes them."""
    prefix = f'@rnic/{os.getuid()}/'
    with open(f'/proc/{pid}/net/unix', encoding='ascii',
              errors='replace') as f:
        names = [line.split()[-1] for line in f]
    return {tuple(name[len(prefix):].split('/')) for name in names
            if name.startswith(prefix)}


def _in_use():
    """Ids whose addresses devices claim."""
    return {fabric for fabric, _ in _claims()}


def host_address(number, address):
    """Where a guest's address is on the host (docs/using.md)."""
    guest = ipaddress.ip_address(address)
    low = int(guest) & 0xffff
    net = 64 + 2 * number + (guest.version == 6)
    return f'127.{net}.{low >> 8}.{low & 255}'


def wait_claim(pid, fabric, address, there, timeout=60):
    """Wait until a device of the fabric, a number or 'direct', has the guest's
    address, or none."""
    wanted = str(fabric), address if fabric == 'direct' else \
        host_address(fabric, address)
    end = time.monotonic() + timeout
    while (wanted in _claims(pid)) != there:
        if time.monotonic() > end:
            raise VmError(f'fabric {fabric}: {address} is '
                          f'{"not " if there else ""}claimed after '
                          f'{timeout} s')
        time.sleep(0.02)


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
