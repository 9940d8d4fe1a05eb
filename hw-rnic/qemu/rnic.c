/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rnic device: an iWARP RDMA NIC as a PCI function
 *
 * It fits a conventional PCI bus and PCI Express. The NIC itself is in
 * ../core; docs/device.md describes what the guest sees.
 */
#include "qemu/osdep.h"
#include <sys/resource.h>
#include "qapi/error.h"
#include "qemu/module.h"
#include "rnic-pci.h"
#include "hw/pci/pci_bus.h"
#include "migration/vmstate.h"

/* Offset of the PCI Express capability */
#define RNIC_EXPRESS_CAP 0xa0

/* Engine thread */
static void raise_irq(void *opaque, unsigned vector)
{
    rnic_irq_raise(opaque, vector);
}

static const struct rnic_host_ops host_ops = {
    .dma_map = rnic_dma_map,
    .dma_unmap = rnic_dma_unmap,
    .fence = rnic_fence,
    .raise_irq = raise_irq,
    .trace_enabled = rnic_core_trace_enabled,
    .trace = rnic_core_trace,
};

/* Each connection and listener is a descriptor of this process */
static void raise_open_files_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool init_core(RnicState *s, Error **errp)
{
    g_autoptr(GError) error = NULL;

    if (!rnic_properties_apply(s, errp)) {
        return false;
    }
    s->core = rnic_device_new(&s->config, &host_ops, s, &error);
    if (!s->core) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    rnic_fence_init(s);
    rnic_device_fault_admin_delay(s->core, s->fault_admin_delay);
    return true;
}

static bool init_express(PCIDevice *pdev, Error **errp)
{
    if (!pci_bus_is_express(pci_get_bus(pdev))) {
        return true;
    }
    if (pcie_endpoint_cap_init(pdev, RNIC_EXPRESS_CAP) < 0) {
        error_setg(errp, "no room for the PCI Express capability");
        return false;
    }
    pcie_cap_flr_init(pdev);
    return true;
}

static void rnic_realize(PCIDevice *pdev, Error **errp)
{
    RnicState *s = RNIC(pdev);
    DeviceState *dev = DEVICE(pdev);

    s->name = dev->id
                  ? g_strdup(dev->id)
                  : g_strdup(object_get_canonical_path_component(OBJECT(dev)));
    raise_open_files_limit();

    /* What fails before the engine starts leaves the core to finalize */
    if (!init_core(s, errp) || !init_express(pdev, errp) ||
        !rnic_irq_init(s, errp)) {
        return;
    }
    if (!rnic_bars_init(s, errp)) {
        goto undo_irq;
    }
    if (!rnic_engine_start(s, errp)) {
        goto undo_bars;
    }
    rnic_counters_init(s);
    return;

undo_bars:
    rnic_bars_fini(s);
undo_irq:
    rnic_irq_fini(s);
}

/* The BARs are no longer mapped, but a vCPU may still be in an MMIO handler,
 * so the core stays until finalize, which follows an RCU grace period. */
static void rnic_exit(PCIDevice *pdev)
{
    RnicState *s = RNIC(pdev);

    rnic_engine_stop(s);
    rnic_bars_fini(s);
    rnic_irq_fini(s);
    if (pci_is_express(pdev) && pci_bus_is_express(pci_get_bus(pdev))) {
        pcie_cap_exit(pdev);
    }
}

/* System reset, reset of the bus, and FLR */
static void rnic_reset(DeviceState *dev)
{
    RnicState *s = RNIC(dev);

    rnic_engine_reset(s);
    rnic_irq_reset(s);
}

static void rnic_config_write(PCIDevice *pdev, uint32_t addr, uint32_t val,
                              int len)
{
    pci_default_write_config(pdev, addr, val, len);
    if (pci_bus_is_express(pci_get_bus(pdev))) {
        pcie_cap_flr_write_config(pdev, addr, val, len);
    }
}

static void rnic_instance_init(Object *obj)
{
    /* Gives the device a configuration space of PCI Express size */
    PCI_DEVICE(obj)->cap_present |= QEMU_PCI_CAP_EXPRESS;
}

static void rnic_instance_finalize(Object *obj)
{
    RnicState *s = RNIC(obj);

    g_clear_pointer(&s->core, rnic_device_free);
    g_free(s->name);
}

static const VMStateDescription vmstate_rnic = {
    .name = TYPE_RNIC,
    .unmigratable = 1,
};

static void rnic_class_init(ObjectClass *oc, RNIC_CLASS_DATA *data)
{
    DeviceClass *dc = DEVICE_CLASS(oc);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(oc);

    pc->realize = rnic_realize;
    pc->exit = rnic_exit;
    pc->config_write = rnic_config_write;
    pc->vendor_id = RNIC_PCI_VENDOR_ID;
    pc->device_id = RNIC_PCI_DEVICE_ID;
    pc->revision = RNIC_PCI_REVISION;
    pc->class_id = PCI_CLASS_NETWORK_OTHER;
    dc->desc = "iWARP RDMA NIC over TCP of the host";
    dc->vmsd = &vmstate_rnic;
    set_bit(DEVICE_CATEGORY_NETWORK, dc->categories);
    device_class_set_legacy_reset(dc, rnic_reset);
    rnic_properties_class_init(dc);
}

static const TypeInfo rnic_info = {
    .name = TYPE_RNIC,
    .parent = TYPE_PCI_DEVICE,
    .instance_size = sizeof(RnicState),
    .instance_init = rnic_instance_init,
    .instance_finalize = rnic_instance_finalize,
    .class_init = rnic_class_init,
    .interfaces = (RNIC_INTERFACES[]){ { INTERFACE_CONVENTIONAL_PCI_DEVICE },
                                       { INTERFACE_PCIE_DEVICE },
                                       {} },
};

static void rnic_register_types(void)
{
    type_register_static(&rnic_info);
}

type_init(rnic_register_types)
