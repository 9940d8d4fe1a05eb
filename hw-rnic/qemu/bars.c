/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * BAR0, registers, and BAR2, doorbell pages
 *
 * Accesses of every size and alignment reach the core, which defines them all.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "rnic-pci.h"
#include "trace.h"

/* vCPU thread, from 10.2 on without the BQL */
static uint64_t regs_read(void *opaque, hwaddr addr, unsigned size)
{
    RnicState *s = opaque;
    uint64_t val = rnic_device_reg_read(s->core, addr, size);

    trace_rnic_reg_read(s->name, addr, size, val);
    return val;
}

/* vCPU thread, from 10.2 on without the BQL */
static void regs_write(void *opaque, hwaddr addr, uint64_t val, unsigned size)
{
    RnicState *s = opaque;

    trace_rnic_reg_write(s->name, addr, size, val);
    rnic_device_reg_write(s->core, addr, val, size);
}

static const MemoryRegionOps regs_ops = {
    .read = regs_read,
    .write = regs_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
    .impl = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
};

/* vCPU thread, from 10.2 on without the BQL */
static uint64_t doorbells_read(void *opaque, hwaddr addr, unsigned size)
{
    RnicState *s = opaque;

    trace_rnic_db_read(s->name, addr, size);
    return 0;
}

/*
 * vCPU thread, from 10.2 on without the BQL. Under KVM too: writes that do not
 * come from a vCPU, or that are to a page without ioeventfd, come here.
 */
static void doorbells_write(void *opaque, hwaddr addr, uint64_t val,
                            unsigned size)
{
    RnicState *s = opaque;

    trace_rnic_db_write(s->name, addr, size, val);
    rnic_device_doorbell(s->core, addr, size);
}

static const MemoryRegionOps doorbells_ops = {
    .read = doorbells_read,
    .write = doorbells_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
    .impl = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
};

static void remove_ioeventfds(RnicState *s, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        memory_region_del_eventfd(&s->doorbells,
                                  i * RNIC_DB_PAGE_SIZE + RNIC_DB_KICK, 4,
                                  false, 0, &s->pages[i].notifier);
    }
}

static bool init_ioeventfds(RnicState *s, Error **errp)
{
    s->pages = g_new0(RnicDoorbellPage, RNIC_IOEVENTFDS);
    for (unsigned i = 0; i < RNIC_IOEVENTFDS; i++) {
        int ret = event_notifier_init(&s->pages[i].notifier, 0);

        if (ret < 0) {
            error_setg_errno(errp, -ret, "no eventfd for doorbell page %u", i);
            while (i-- > 0) {
                event_notifier_cleanup(&s->pages[i].notifier);
            }
            g_clear_pointer(&s->pages, g_free);
            return false;
        }
        s->pages[i].s = s;
    }

    memory_region_transaction_begin();
    for (unsigned i = 0; i < RNIC_IOEVENTFDS; i++) {
        memory_region_add_eventfd(&s->doorbells,
                                  i * RNIC_DB_PAGE_SIZE + RNIC_DB_KICK, 4,
                                  false, 0, &s->pages[i].notifier);
    }
    memory_region_transaction_commit();
    return true;
}

bool rnic_bars_init(RnicState *s, Error **errp)
{
    PCIDevice *pdev = PCI_DEVICE(s);

    memory_region_init_io(&s->regs, OBJECT(s), &regs_ops, s, "rnic-regs",
                          RNIC_BAR_REGS_SIZE);
    memory_region_init_io(&s->doorbells, OBJECT(s), &doorbells_ops, s,
                          "rnic-doorbells", RNIC_BAR_DB_SIZE);
    rnic_memory_region_lockless(&s->regs);
    rnic_memory_region_lockless(&s->doorbells);

    /* Without KVM an ioeventfd would only be a detour to the same call */
    if (s->ioeventfd && rnic_ioeventfd_possible() &&
        !init_ioeventfds(s, errp)) {
        return false;
    }

    pci_register_bar(pdev, RNIC_BAR_REGS, PCI_BASE_ADDRESS_SPACE_MEMORY,
                     &s->regs);
    pci_register_bar(pdev, RNIC_BAR_DB,
                     PCI_BASE_ADDRESS_SPACE_MEMORY |
                         PCI_BASE_ADDRESS_MEM_TYPE_64,
                     &s->doorbells);
    return true;
}

/* The engine has stopped watching the notifiers */
void rnic_bars_fini(RnicState *s)
{
    if (!s->pages) {
        return;
    }
    memory_region_transaction_begin();
    remove_ioeventfds(s, RNIC_IOEVENTFDS);
    memory_region_transaction_commit();
    for (unsigned i = 0; i < RNIC_IOEVENTFDS; i++) {
        event_notifier_cleanup(&s->pages[i].notifier);
    }
    g_clear_pointer(&s->pages, g_free);
}
