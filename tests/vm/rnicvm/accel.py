# SPDX-License-Identifier: GPL-2.0-or-later
"""Which accelerator and CPU model QEMU is given.

That /dev/kvm can be opened proves little: under some nested hypervisors a
guest kernel hangs in it for ever. So KVM is used only after a real kernel
booted with it within a limit, and the answer is remembered for this machine.
"""

import functools
import hashlib
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

from .image import cache_dir

PROOF_LIMIT = 20
# Emulated, erms makes the guest's kernel copy a byte at a time.
TCG = ['-accel', 'tcg,thread=multi', '-cpu', 'max,erms=off']
KVM = ['-accel', 'kvm', '-cpu', 'host']


def _host_key(qemu):
    version = subprocess.run([qemu, '--version'], stdout=subprocess.PIPE,
                             text=True, check=False).stdout
    with open('/proc/cpuinfo', encoding='ascii', errors='replace') as f:
        model = re.search(r'model name.*', f.read())
    text = f'{version} {platform.release()} {model and model.group(0)}'
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@functools.lru_cache(maxsize=None)
def kvm_works(image, qemu='qemu-system-x86_64'):
    """Whether that image's kernel boots under KVM here."""
    if not os.access('/dev/kvm', os.R_OK | os.W_OK):
        return False
    answer = cache_dir() / f'kvm-{_host_key(qemu)}'
    try:
        return answer.read_text(encoding='ascii').strip() == 'works'
    except OSError:
        pass
    print(f'trying KVM with a short boot, at most {PROOF_LIMIT} s',
          file=sys.stderr)
    try:
        done = subprocess.run(
            [qemu, *KVM, '-machine', 'q35', '-m', '768M', '-nodefaults',
             '-no-user-config', '-display', 'none', '-no-reboot',
             '-kernel', image.vmlinux, '-initrd', image.initrd,
             '-append', 'console=ttyS0 quiet panic=-1 vm.proof=1',
             '-serial', 'stdio'],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=PROOF_LIMIT, check=False)
        works = b'vm: the kernel runs' in done.stdout
    except subprocess.TimeoutExpired:
        works = False
    partial = Path(f'{answer}.{os.getpid()}')
    partial.write_text('works\n' if works else 'fails\n', encoding='ascii')
    partial.replace(answer)
    return works


def accel_arguments(image, qemu='qemu-system-x86_64'):
    """QEMU's -accel and -cpu; RNIC_ACCEL=kvm or tcg settles it by hand."""
    choice = os.environ.get('RNIC_ACCEL', 'auto')
    if choice == 'kvm' or (choice == 'auto' and kvm_works(image, qemu)):
        return KVM
    return TCG


def kernel_arguments(accel):
    """Kernel parameters that suit the accelerator."""
    arguments = ['mitigations=off']
    if accel is TCG:
        # On a loaded host the guest measures its TSC wrongly (seen: its clock
        # ran 40 % off); QEMU's TSC under TCG counts as the host's does.
        with open('/proc/cpuinfo', encoding='ascii', errors='replace') as f:
            mhz = re.search(r'cpu MHz\s*:\s*([\d.]+)', f.read())
        if mhz:
            arguments.append(f'tsc_early_khz={int(float(mhz.group(1)) * 1000)}')
    return arguments
