/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guest memory for the core: RAM that the device's own address space shows
 *
 * address_space_map() would hand out QEMU's bounce buffer for anything that is
 * not RAM, and access other devices at unmap, which may take the BQL; so the
 * translation is made here, and only RAM is mapped.
 */
#include "qemu/osdep.h"
#include "qemu/rcu.h"
#include "rnic-pci.h"
#include "hw/pci/pci.h"
#include "trace.h"

static bool is_write(enum rnic_dma_dir dir)
{
    return dir != RNIC_DMA_FROM_GUEST;
}

void *rnic_dma_map(void *opaque, uint64_t addr, uint64_t *len,
                   enum rnic_dma_dir dir)
{
    RnicState *s = opaque;
    /* A checked cast compares strings, and this is called for every page */
    PCIDevice *pdev = &s->parent_obj;
    MemTxAttrs attrs = {
        .requester_id = pci_requester_id(pdev),
        .memory = 1,
    };
    /*
     * Of the last octet of a mapping QEMU's virtio-iommu says where that of the
     * next one is, as it looks up the two octets from there on: so an access
     * that starts there is asked for with the octet before it.
     */
    hwaddr before = s->in_main_loop ? addr & 1 : 0;
    hwaddr xlat, mapped = *len + before;
    MemoryRegion *mr;

    RCU_READ_LOCK_GUARD();

    mr = address_space_translate(pci_get_address_space(pdev), addr - before,
                                 &xlat, &mapped, is_write(dir), attrs);
    if (mapped <= before ||
        !rnic_memory_access_is_direct(mr, is_write(dir), attrs)) {
        trace_rnic_dma_refused(s->name, addr, is_write(dir));
        return NULL;
    }
    /* Dropped by address_space_unmap() */
    memory_region_ref(mr);
    *len = mapped - before;
    /* Nothing, but in the generic fuzzer, which fills what is read */
    if (dir != RNIC_DMA_TO_GUEST) {
        fuzz_dma_read_cb(addr, *len, mr);
    }
    return (uint8_t *)memory_region_get_ram_ptr(mr) + xlat + before;
}

/* Ends with dirty tracking and, under TCG, invalidation of translated code */
void rnic_dma_unmap(void *opaque, void *ptr, uint64_t len,
                    enum rnic_dma_dir dir, uint64_t used)
{
    RnicState *s = opaque;

    address_space_unmap(pci_get_address_space(&s->parent_obj), ptr, len,
                        is_write(dir) && used > 0, used);
}
