/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Refuses to run where QEMU's structures differ from the headers' ones
 *
 * The loader has compared the stamp, but that covers neither the options of
 * configure nor the sources, and both can move a member.
 */
#include "qemu/osdep.h"
#include "../qcompat.h"
#include "hw/pci/pci_bus.h"
#include "hw/core/cpu.h"
#include "hw/boards.h"

/* 9.0 removed object_type_get_instance_size(); there the stamp must do */
#if !RNIC_QEMU_AT_LEAST(9, 0)
static const struct {
    const char *type;
    size_t size;
} layouts[] = {
    { TYPE_DEVICE, sizeof(DeviceState) },
    { TYPE_PCI_DEVICE, sizeof(PCIDevice) },
    { TYPE_PCI_BUS, sizeof(PCIBus) },
    { TYPE_MEMORY_REGION, sizeof(MemoryRegion) },
    { TYPE_IOTHREAD, sizeof(IOThread) },
    { TYPE_MACHINE, sizeof(MachineState) },
    { TYPE_CPU, sizeof(CPUState) },
};

/*
 * Runs when all types are known and no device exists yet. The monitor is not
 * there either, so error_report() cannot be used.
 */
static void rnic_check_layouts(void)
{
    bool same = true;

    for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
        size_t here = object_type_get_instance_size(layouts[i].type);

        if (here != layouts[i].size) {
            fprintf(stderr,
                    "rnic: '%s' has %zu bytes in this QEMU, but %zu "
                    "in the headers that the device was built with\n",
                    layouts[i].type, here, layouts[i].size);
            same = false;
        }
    }
    if (!same) {
        fprintf(stderr,
                "rnic: the headers were configured in another way "
                "than this QEMU. Remove the prepared tree (the folder 'qemu' "
                "in rnic's cache) and run scripts/vm, which prepares it "
                "anew.\n");
        _exit(1);
    }
}

/* QEMU calls this kind right after the QOM types */
module_init(rnic_check_layouts, MODULE_INIT_MIGRATION)
#endif
