/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The core's trace events as QEMU's
 */
#include "qemu/osdep.h"
#include "qemu/log.h"
#include "rnic-pci.h"
#include "trace.h"

/* lower and upper case name of each; the switches below name a missing one */
#define CORE_EVENTS(X)                                                         \
    X(guest_error, GUEST_ERROR)                                                \
    X(device, DEVICE)                                                          \
    X(admin, ADMIN)                                                            \
    X(doorbell, DOORBELL)                                                      \
    X(wqe, WQE)                                                                \
    X(fpdu_tx, FPDU_TX)                                                        \
    X(fpdu_rx, FPDU_RX)                                                        \
    X(place, PLACE)                                                            \
    X(atomic, ATOMIC)                                                          \
    X(cqe, CQE)                                                                \
    X(event, EVENT)                                                            \
    X(irq, IRQ)                                                                \
    X(qp_state, QP_STATE)                                                      \
    X(qp_gated, QP_GATED)                                                      \
    X(cm, CM)                                                                  \
    X(mpa, MPA)                                                                \
    X(term, TERM)                                                              \
    X(no_receive, NO_RECEIVE)                                                  \
    X(addr, ADDR)                                                              \
    X(mr, MR)                                                                  \
    X(net_tx, NET_TX)                                                          \
    X(net_rx, NET_RX)

bool rnic_core_trace_enabled(void *opaque, enum rnic_trace_event event)
{
    if (event == RNIC_TRACE_guest_error &&
        qemu_loglevel_mask(LOG_GUEST_ERROR)) {
        return true;
    }
    switch (event) {
#define EVENT_ENABLED(lower, upper)                                            \
    case RNIC_TRACE_##lower:                                                   \
        return trace_event_get_state_backends(TRACE_RNIC_##upper);
        CORE_EVENTS(EVENT_ENABLED)
#undef EVENT_ENABLED
    case RNIC_TRACE_COUNT:
        break;
    }
    return false;
}

void rnic_core_trace(void *opaque, enum rnic_trace_event event,
                     const char *text)
{
    RnicState *s = opaque;

    if (event == RNIC_TRACE_guest_error) {
        qemu_log_mask(LOG_GUEST_ERROR, "%s: %s\n", s->name, text);
    }
    switch (event) {
#define EVENT_EMIT(lower, upper)                                               \
    case RNIC_TRACE_##lower:                                                   \
        trace_rnic_##lower(s->name, text);                                     \
        break;
        CORE_EVENTS(EVENT_EMIT)
#undef EVENT_EMIT
    case RNIC_TRACE_COUNT:
        break;
    }
}
