/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Atomic operations of a peer (RFC 7306 section 5)
 *
 * RFC 7306 section 5.3 promises atomicity among the atomics of one RNIC, which
 * one engine gives by itself. They are made by atomic instructions of the host
 * all the same, because the guest's processors may use theirs on the same
 * octets.
 */
#include "qp-private.h"

#define ALIGNMENT sizeof(uint64_t)

/* A set bit of the mask is the top of a field: no carry goes beyond it */
static uint64_t masked_add(uint64_t a, uint64_t b, uint64_t tops)
{
    return ((a & ~tops) + (b & ~tops)) ^ ((a ^ b) & tops);
}

static bool matches(const struct rnic_rdmap_atomic_request *ar, uint64_t old)
{
    return !((old ^ ar->compare) & ar->compare_mask);
}

uint64_t rnic_atomic_apply(const struct rnic_rdmap_atomic_request *ar,
                           uint64_t old)
{
    if (ar->op == RNIC_RDMAP_FETCH_ADD) {
        return masked_add(old, ar->data, ar->mask);
    }
    return matches(ar, old) ? (old & ~ar->mask) | (ar->data & ar->mask) : old;
}

static uint64_t exchange(_Atomic uint64_t *word,
                         const struct rnic_rdmap_atomic_request *ar)
{
    uint64_t old = atomic_load(word), new;

    do {
        new = GUINT64_TO_LE(rnic_atomic_apply(ar, GUINT64_FROM_LE(old)));
        /* Also where nothing changes: so it is the number of one moment, and
         * orders what is around it */
    } while (!atomic_compare_exchange_weak(word, &old, new));
    return GUINT64_FROM_LE(old);
}

static enum rnic_wire_err refuse(struct rnic_qp *qp,
                                 const struct rnic_rdmap_atomic_request *ar,
                                 enum rnic_wire_err err, const char *why)
{
    rnic_trace(qp->dev, atomic,
               "qpn %u %s id 0x%08x STag 0x%08x TO 0x%" PRIx64 " refused: %s",
               qp->qpn, ar->op == RNIC_RDMAP_FETCH_ADD ? "FetchAdd" : "CmpSwap",
               ar->id, ar->stag, ar->to, why);
    return err;
}

enum rnic_wire_err
rnic_atomic_execute(struct rnic_qp *qp,
                    const struct rnic_rdmap_atomic_request *ar, uint64_t *old)
{
    enum rnic_wire_err err = RNIC_WIRE_OK;
    struct rnic_mapping map;
    enum rnic_mr_error error;
    uint64_t done;

    rnic_mapping_init(&map, RNIC_DMA_BOTH);
    error = rnic_mr_map(qp->dev, qp->pdn, ar->stag, ar->to, ALIGNMENT,
                        RNIC_ACCESS_REMOTE_ATOMIC, false, &map, &done);
    if (error != RNIC_MR_OK) {
        /* RFC 7306 names no codes for these: those of a Read Request */
        err =
            refuse(qp, ar, rnic_fault_of_read(error), rnic_mr_error_str(error));
    } else if (ar->to % ALIGNMENT) {
        /* RFC 7306 sections 5.2.1 and 8.2 */
        err = refuse(qp, ar, RNIC_WIRE_OP_STREAM, "the TO is not 8-aligned");
    } else if ((uintptr_t)map.iov[0].iov_base % ALIGNMENT ||
               map.iov[0].iov_len < ALIGNMENT) {
        /* A region may start anywhere in memory, whatever its first TO is */
        err = refuse(qp, ar, RNIC_WIRE_OP_STREAM,
                     "the memory behind the TO is not 8-aligned");
    } else {
        *old = exchange(map.iov[0].iov_base, ar);
        rnic_trace(qp->dev, atomic,
                   "qpn %u %s id 0x%08x STag 0x%08x TO 0x%" PRIx64
                   ": 0x%" PRIx64 " became 0x%" PRIx64,
                   qp->qpn,
                   ar->op == RNIC_RDMAP_FETCH_ADD ? "FetchAdd" : "CmpSwap",
                   ar->id, ar->stag, ar->to, *old, rnic_atomic_apply(ar, *old));
    }
    rnic_mapping_release(qp->dev, &map, err == RNIC_WIRE_OK ? ALIGNMENT : 0);
    return err;
}
