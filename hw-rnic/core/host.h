/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the core asks of whatever hosts it (QEMU, or a test program)
 */
#ifndef RNIC_HOST_H
#define RNIC_HOST_H

#include <stdbool.h>
#include <stdint.h>

enum rnic_dma_dir {
    RNIC_DMA_FROM_GUEST, /* the device reads guest memory */
    RNIC_DMA_TO_GUEST,   /* the device writes guest memory */
    RNIC_DMA_BOTH,
};

/*
 * Trace events: X(name, what it shows). Each carries one line of text. Errors
 * of the guest are all 'guest_error', with the cause in words.
 */
#define RNIC_TRACE_EVENTS(X)                                                   \
    X(guest_error, "the guest did something wrong; nothing was harmed")        \
    X(device, "enable, reset, quiesce, fatal errors")                          \
    X(admin, "an admin command and its outcome")                               \
    X(doorbell, "a doorbell found set")                                        \
    X(wqe, "a work request fetched")                                           \
    X(fpdu_tx, "an FPDU given to TCP")                                         \
    X(fpdu_rx, "an FPDU received")                                             \
    X(place, "payload placed into guest memory")                               \
    X(atomic, "a peer's atomic executed")                                      \
    X(cqe, "a completion written")                                             \
    X(event, "an event queue entry written")                                   \
    X(irq, "an interrupt raised")                                              \
    X(qp_state, "a QP changed its state")                                      \
    X(qp_gated, "a responder's transmission waits for the first FPDU")         \
    X(cm, "connection management")                                             \
    X(mpa, "an MPA startup frame sent or received")                            \
    X(term, "a Terminate sent or received")                                    \
    X(no_receive, "a Send arrived and no receive was posted")                  \
    X(addr, "an address added, removed or refused")                            \
    X(mr, "a memory region registered, invalidated or removed")                \
    X(net_tx, "an IP packet sent or dropped")                                  \
    X(net_rx, "an IP packet received or dropped")

enum rnic_trace_event {
#define RNIC_TRACE_ENUM(name, description) RNIC_TRACE_##name,
    RNIC_TRACE_EVENTS(RNIC_TRACE_ENUM)
#undef RNIC_TRACE_ENUM
        RNIC_TRACE_COUNT
};

/*
 * All are called on the engine's thread, never block, and never take a lock
 * that a thread may hold while it waits for the engine.
 */
struct rnic_host_ops {
    /*
     * Maps guest memory at DMA address @addr. *@len: octets wanted; on return
     * octets mapped (at least 1, may be fewer than wanted, for example up to a
     * page that lies elsewhere). Returns NULL if @addr is not RAM for this
     * device. The mapping is never held across a return to the event loop.
     */
    void *(*dma_map)(void *opaque, uint64_t addr, uint64_t *len,
                     enum rnic_dma_dir dir);

    /* @ptr, @len, @dir as mapped; @used: octets really written */
    void (*dma_unmap)(void *opaque, void *ptr, uint64_t len,
                      enum rnic_dma_dir dir, uint64_t used);

    /*
     * Orders this thread's accesses to guest memory before and after it, as
     * the guest's processors see them, with theirs before and after a barrier
     * in the guest's code. NULL: they execute it as a barrier, so this
     * thread's own, atomic_thread_fence(memory_order_seq_cst), is enough.
     */
    void (*fence)(void *opaque);

    /* Signals MSI-X vector @vector; also called while it is masked */
    void (*raise_irq)(void *opaque, unsigned vector);

    /* May be called on any thread. Cheap: asked before a text is made */
    bool (*trace_enabled)(void *opaque, enum rnic_trace_event event);
    /* May be called on any thread */
    void (*trace)(void *opaque, enum rnic_trace_event event, const char *text);
};

#endif
