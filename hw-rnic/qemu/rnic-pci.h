/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rnic as a PCI function of QEMU: its state and its parts
 *
 * Threads. The big lock (BQL) is held in realize, exit, reset, property and
 * VM state functions and in main loop handlers. MMIO handlers run on vCPU
 * threads and need no lock. The engine is the thread of an IOThread; it never
 * takes the BQL, because a thread that holds it may be waiting for the engine.
 * Behind a virtual IOMMU the engine is whoever runs the main loop, with the BQL
 * held all the time, see engine.c.
 */
#ifndef HW_RNIC_PCI_H
#define HW_RNIC_PCI_H

#include "qcompat.h"
#include "hw/qdev-properties.h"
#include "net/net.h"
#include "qemu/event_notifier.h"
#include "qom/object.h"
#include "rnic/regs.h"
#include "../core/rnic.h"

#define TYPE_RNIC "rnic"
OBJECT_DECLARE_SIMPLE_TYPE(RnicState, RNIC)

/*
 * Under KVM a context's doorbell page has an ioeventfd if its number is below
 * this; the others, and every write that does not come from a vCPU, are MMIO.
 */
#define RNIC_IOEVENTFDS 64

typedef struct RnicVector {
    EventNotifier notifier; /* set by the engine */
    RnicState *s;
    int virq; /* route of KVM's irqchip, -1: none */
} RnicVector;

typedef struct RnicDoorbellPage {
    EventNotifier notifier; /* set by KVM */
    RnicState *s;
} RnicDoorbellPage;

struct RnicState {
    PCIDevice parent_obj;

    MemoryRegion regs;
    MemoryRegion doorbells;
    char *name; /* in trace events */

    rnic_device *core; /* from realize to finalize */
    IOThread *engine;  /* iothread, or own; NULL: the main loop */
    AioContext *ctx;
    bool own_engine;
    bool in_main_loop; /* behind a virtual IOMMU; then there is no engine */
    Notifier machine_done;
    VMChangeStateEntry *vm_state;
    bool quiesced;     /* the VM is stopped; BQL */
    bool global_fence; /* the guest's own barriers are not executed */

    RnicVector *vectors;     /* config.vectors of them */
    RnicDoorbellPage *pages; /* RNIC_IOEVENTFDS, NULL without KVM */

    /* properties that are not in config as they are given */
    struct rnic_config config;
    MACAddr mac;
    IOThread *iothread;
    bool ioeventfd;
    uint32_t fault_admin_delay; /* ms */
    char *fabric;
    char *fabric_peers;
    char *crc;
    char *rtr;
    char *mpa_gate;
    char *map;
    char *allow;
    char *deny;
    char *pcap;
};

/* properties.c */
void rnic_properties_class_init(DeviceClass *dc);
/* Checks the properties and completes s->config from them; BQL */
bool rnic_properties_apply(RnicState *s, Error **errp);

/* counters.c: adds the read-only properties 'stats', 'qp-stats' and 'cq-stats';
 * needs s->core and s->ctx */
void rnic_counters_init(RnicState *s);

/* bars.c; BQL */
bool rnic_bars_init(RnicState *s, Error **errp);
void rnic_bars_fini(RnicState *s);

/* irq.c; BQL */
bool rnic_irq_init(RnicState *s, Error **errp);
void rnic_irq_fini(RnicState *s);
/* Forgets interrupts that were raised and not yet delivered */
void rnic_irq_reset(RnicState *s);
/* Engine thread */
void rnic_irq_raise(RnicState *s, unsigned vector);

/* dma.c: engine thread */
void *rnic_dma_map(void *opaque, uint64_t addr, uint64_t *len,
                   enum rnic_dma_dir dir);
void rnic_dma_unmap(void *opaque, void *ptr, uint64_t len,
                    enum rnic_dma_dir dir, uint64_t used);

/* fence.c. BQL; the accelerator and the machine exist */
void rnic_fence_init(RnicState *s);
/* The engine; see rnic_host_ops */
void rnic_fence(void *opaque);

/* engine.c; BQL. All return after the engine has done it. */
bool rnic_engine_start(RnicState *s, Error **errp);
void rnic_engine_stop(RnicState *s);
void rnic_engine_reset(RnicState *s);
/* Runs @fn on the engine's thread, or in its stead */
void rnic_engine_call(RnicState *s, QEMUBHFunc *fn, void *opaque);

/* core-trace.c: any thread */
bool rnic_core_trace_enabled(void *opaque, enum rnic_trace_event event);
void rnic_core_trace(void *opaque, enum rnic_trace_event event,
                     const char *text);

#endif
