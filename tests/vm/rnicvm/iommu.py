# SPDX-License-Identifier: GPL-2.0-or-later
"""A virtual IOMMU: QEMU's device, and what makes the guest use it.

Neither kind needs caching-mode or device-iotlb here. Those are for devices that
keep translations of their own, and the rnic asks at each access.
"""

import re

from .errors import Unsupported

# What the guest's kernel must have, QEMU's devices, kernel parameters
_KINDS = {
    # With remapped interrupts Linux panics if its timer ticks late on a busy
    # host: it is not to check
    'intel': ('INTEL_IOMMU', ['intel-iommu'],
              ['intel_iommu=on', 'no_timer_check']),
    # Its driver may be a module, and then no PCI device is probed before it
    'virtio': ('VIRTIO_IOMMU', ['virtio-iommu-pci'],
               ['vm.modules=virtio_iommu']),
}
KINDS = tuple(_KINDS)


def iommu_arguments(image, machine, kind):
    """QEMU's devices and the guest's kernel parameters, two lists."""
    if not kind:
        return [], []
    if kind not in _KINDS:
        raise ValueError(f'iommu: {kind!r} is not one of {", ".join(KINDS)}')
    option, devices, parameters = _KINDS[kind]
    if kind == 'intel' and not machine.startswith('q35'):
        raise Unsupported(f'intel-iommu is for q35, not for {machine}')
    with open(f'{image.kernel_dir}/config', encoding='utf-8') as f:
        if not re.search(rf'^CONFIG_{option}=[ym]', f.read(), re.M):
            raise Unsupported(f'Linux {image.release} was built without '
                              f'CONFIG_{option}')
    return devices, parameters
