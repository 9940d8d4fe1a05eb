/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Work queues: fetching and checking work requests, completing and flushing
 * them
 *
 * A WQE is copied from guest memory once; the copy is checked and used.
 */
#include "qp-private.h"

#include <string.h>

#define WQE_FLAGS                                                              \
    (RNIC_WQE_SIGNALED | RNIC_WQE_SOLICITED | RNIC_WQE_FENCE | RNIC_WQE_INLINE)

const char *rnic_wr_opcode_str(uint8_t opcode)
{
    static const char *const names[] = {
        [RNIC_WR_SEND] = "SEND",
        [RNIC_WR_SEND_INV] = "SEND_INV",
        [RNIC_WR_WRITE] = "WRITE",
        [RNIC_WR_READ] = "READ",
        [RNIC_WR_READ_INV] = "READ_INV",
        [RNIC_WR_LOCAL_INV] = "LOCAL_INV",
        [RNIC_WR_REG_MR] = "REG_MR",
        [RNIC_WR_IMM] = "IMM",
        [RNIC_WR_WRITE_IMM] = "WRITE_IMM",
        [RNIC_WR_FETCH_ADD] = "FETCH_ADD",
        [RNIC_WR_CMP_SWAP] = "CMP_SWAP",
        [RNIC_WR_CMP_SWAP_MASKED] = "CMP_SWAP_MASKED",
    };

    if (opcode == RNIC_WR_RECV) {
        return "RECV";
    }
    return opcode < G_N_ELEMENTS(names) ? names[opcode] : "unknown opcode";
}

/* ---- Producer indices ---- */

/* @ci: completed, @taken: fetched; ci <= taken <= pi <= ci + depth */
static bool pi_valid(uint32_t pi, uint32_t ci, uint32_t taken, uint32_t depth)
{
    uint32_t ahead = pi - ci;

    return ahead <= depth && ahead >= taken - ci;
}

bool rnic_sq_load_pi(struct rnic_qp *qp)
{
    uint32_t taken = qp->sq ? qp->sq->fetched : qp->sq_ci;
    uint32_t pi;

    if (qp->sq_broken) {
        return false;
    }
    if (!rnic_dma_load32(qp->dev,
                         qp->dbrec_addr + offsetof(struct rnic_qp_dbrec, sq_pi),
                         &pi)) {
        rnic_guest_error(qp->dev,
                         "qpn %u: the doorbell record at 0x%" PRIx64
                         " is not RAM any more",
                         qp->qpn, qp->dbrec_addr);
        qp->sq_broken = true;
        return false;
    }
    if (!pi_valid(pi, qp->sq_ci, taken, qp->sq_depth)) {
        rnic_guest_error(qp->dev,
                         "qpn %u: SQ producer index %u is out of "
                         "range: %u taken, %u completed, depth %u",
                         qp->qpn, pi, taken, qp->sq_ci, qp->sq_depth);
        qp->sq_broken = true;
        return false;
    }
    qp->sq_pi = pi;
    return true;
}

static bool rq_load_pi(struct rnic_qp *qp)
{
    uint32_t pi;

    if (qp->rq_broken) {
        return false;
    }
    if (!rnic_dma_load32(qp->dev,
                         qp->dbrec_addr + offsetof(struct rnic_qp_dbrec, rq_pi),
                         &pi)) {
        rnic_guest_error(qp->dev,
                         "qpn %u: the doorbell record at 0x%" PRIx64
                         " is not RAM any more",
                         qp->qpn, qp->dbrec_addr);
        qp->rq_broken = true;
        return false;
    }
    if (!pi_valid(pi, qp->rq_ci, qp->rq_ci, qp->rq_depth)) {
        rnic_guest_error(qp->dev,
                         "qpn %u: RQ producer index %u is out of "
                         "range: %u taken, depth %u",
                         qp->qpn, pi, qp->rq_ci, qp->rq_depth);
        qp->rq_broken = true;
        return false;
    }
    qp->rq_pi = pi;
    return true;
}

bool rnic_sq_moved(struct rnic_qp *qp, uint32_t *pi)
{
    return !rnic_dma_load32(
               qp->dev, qp->dbrec_addr + offsetof(struct rnic_qp_dbrec, sq_pi),
               pi) ||
           *pi != qp->sq_pi;
}

bool rnic_sq_arm(struct rnic_qp *qp)
{
    struct rnic_sq *sq = qp->sq;

    if (sq->event == qp->sq_pi) {
        return false;
    }
    sq->event = qp->sq_pi;
    if (!rnic_dma_store32(qp->dev,
                          qp->status_addr +
                              offsetof(struct rnic_qp_status, sq_event),
                          sq->event)) {
        rnic_qp_status_gone(qp);
        return false;
    }
    /* wqe.h: the index is read again after sq_event became visible */
    rnic_dma_fence(qp->dev);
    if (!rnic_sq_load_pi(qp)) {
        rnic_fault_local(qp, RNIC_EV_QP_FATAL);
        return false;
    }
    return qp->sq_pi != sq->fetched;
}

/* ---- Fetching ---- */

static uint64_t ring_offset(uint32_t base, uint32_t stride, uint32_t depth,
                            uint32_t index)
{
    return base + (uint64_t)(index & (depth - 1)) * stride;
}

static uint64_t sges_copy(struct rnic_wr_sge *to, const struct rnic_sge *from,
                          unsigned num)
{
    uint64_t length = 0;
    unsigned i;

    for (i = 0; i < num; i++) {
        to[i].to = GUINT64_FROM_LE(from[i].addr);
        to[i].length = GUINT32_FROM_LE(from[i].length);
        to[i].stag = GUINT32_FROM_LE(from[i].lkey);
        length += to[i].length;
    }
    return length;
}

/* The rest of an atomic; NULL, or what is wrong with it */
static const char *atomic_wr_parse(struct rnic_qp *qp,
                                   const struct rnic_atomic_wqe *wqe,
                                   struct rnic_send_wr *wr)
{
    if (wr->flags & RNIC_WQE_INLINE) {
        return "inline data in an atomic";
    }
    if (wr->opcode == RNIC_WR_CMP_SWAP_MASKED && qp->sq_stride < sizeof(*wqe)) {
        return "masks, for which the stride has no room";
    }
    if (wqe->num_sge != 1) {
        return "not one sink, as an atomic must";
    }
    wr->num_sge = 1;
    wr->length = sges_copy(wr->sge, &wqe->sink, 1);
    if (wr->length != sizeof(uint64_t)) {
        return "a sink that is not 8 octets long";
    }
    if (!qp->ord) {
        return "an atomic on a connection whose ORD is 0";
    }
    wr->data = GUINT64_FROM_LE(wqe->data);
    /* RFC 7306 section 5.2.1: what FetchAdd does not use */
    wr->compare = 0;
    wr->compare_mask = UINT64_MAX;
    switch (wr->opcode) {
    case RNIC_WR_FETCH_ADD:
        wr->mask = GUINT64_FROM_LE(wqe->add_mask);
        break;
    case RNIC_WR_CMP_SWAP:
        wr->compare = GUINT64_FROM_LE(wqe->compare);
        wr->mask = UINT64_MAX;
        break;
    default:
        wr->compare = GUINT64_FROM_LE(wqe->compare);
        wr->mask = GUINT64_FROM_LE(wqe->swap_mask);
        wr->compare_mask = GUINT64_FROM_LE(wqe->compare_mask);
        break;
    }
    return NULL;
}

/* Fills in @wr from the copied WQE at @raw; NULL, or what is wrong with it */
static const char *send_wr_parse(struct rnic_qp *qp, const void *raw,
                                 struct rnic_send_wr *wr)
{
    const struct rnic_sq_wqe *wqe = raw;

    wr->opcode = wqe->opcode;
    wr->flags = wqe->flags;
    wr->wr_id = GUINT64_FROM_LE(wqe->wr_id);
    wr->inv_stag = GUINT32_FROM_LE(wqe->inv_stag);
    wr->remote_stag = GUINT32_FROM_LE(wqe->remote_stag);
    wr->remote_to = GUINT64_FROM_LE(wqe->remote_to);
    wr->num_sge = 0;
    wr->length = 0;

    if (wr->flags & ~WQE_FLAGS) {
        return "an unknown flag";
    }
    if (wr->opcode >= RNIC_WR_IMM && wr->opcode <= RNIC_WR_CMP_SWAP_MASKED &&
        !qp->dev->config.rfc7306) {
        return "an operation of RFC 7306, which this device does not have "
               "(property rfc7306=off)";
    }
    switch (wr->opcode) {
    case RNIC_WR_IMM:
        memcpy(wr->imm, &wqe->imm_data, sizeof(wr->imm));
        if (wqe->num_sge || wr->flags & RNIC_WQE_INLINE) {
            return "data beside its immediate data; iWARP has no Send with "
                   "both";
        }
        return NULL;
    case RNIC_WR_FETCH_ADD:
    case RNIC_WR_CMP_SWAP:
    case RNIC_WR_CMP_SWAP_MASKED:
        return atomic_wr_parse(qp, raw, wr);
    case RNIC_WR_WRITE_IMM:
        memcpy(wr->imm, &wqe->imm_data, sizeof(wr->imm));
        /* fall through */
    case RNIC_WR_SEND:
    case RNIC_WR_SEND_INV:
    case RNIC_WR_WRITE:
        if (wr->flags & RNIC_WQE_INLINE) {
            wr->length = GUINT32_FROM_LE(wqe->inline_len);
            if (wqe->num_sge) {
                return "SGEs beside inline data";
            }
            if (wr->length > RNIC_MAX_INLINE ||
                wr->length > RNIC_SQ_STRIDE_INLINE(qp->sq_stride)) {
                return "more inline data than the stride holds";
            }
            memcpy(wr->inline_data, wqe->sge, wr->length);
            return NULL;
        }
        break;
    case RNIC_WR_READ:
    case RNIC_WR_READ_INV:
        if (wr->flags & RNIC_WQE_INLINE) {
            return "inline data in a Read";
        }
        if (!qp->ord) {
            return "a Read on a connection whose ORD is 0";
        }
        break;
    case RNIC_WR_LOCAL_INV:
        if (wr->flags & RNIC_WQE_INLINE) {
            return "inline data in a LOCAL_INV";
        }
        return NULL;
    case RNIC_WR_REG_MR:
        if (!rnic_qp_kernel(qp)) {
            return "REG_MR on a QP without RNIC_QP_KERNEL";
        }
        if (wr->flags & RNIC_WQE_INLINE) {
            return "inline data in a REG_MR";
        }
        memcpy(&wr->reg, raw, sizeof(wr->reg));
        return NULL;
    default:
        return "an unknown opcode";
    }

    if (wqe->num_sge > RNIC_MAX_SGE ||
        wqe->num_sge > RNIC_SQ_STRIDE_SGES(qp->sq_stride)) {
        return "more SGEs than the stride holds";
    }
    wr->num_sge = wqe->num_sge;
    wr->length = sges_copy(wr->sge, wqe->sge, wr->num_sge);
    if (wr->length > RNIC_MAX_MSG_SIZE) {
        return "a message longer than MAX_MSG_SIZE";
    }
    return NULL;
}

static void send_wr_trace(struct rnic_qp *qp, const struct rnic_send_wr *wr)
{
    g_autofree char *remote = NULL;

    if (!qp->dev->ops->trace_enabled(qp->dev->opaque, RNIC_TRACE_wqe)) {
        return;
    }
    if (wr->opcode == RNIC_WR_WRITE || wr->opcode == RNIC_WR_READ ||
        wr->opcode == RNIC_WR_READ_INV || wr->opcode == RNIC_WR_WRITE_IMM ||
        rnic_wr_is_atomic(wr->opcode)) {
        remote = g_strdup_printf(" remote STag 0x%08x TO 0x%" PRIx64,
                                 wr->remote_stag, wr->remote_to);
    }
    rnic_trace(qp->dev, wqe,
               "qpn %u SQ %u wr_id 0x%" PRIx64 " %s %" PRIu64
               " octets, %u SGEs%s%s%s%s%s",
               qp->qpn, wr->index, wr->wr_id, rnic_wr_opcode_str(wr->opcode),
               wr->length, wr->num_sge, remote ? remote : "",
               wr->flags & RNIC_WQE_SIGNALED ? " signalled" : "",
               wr->flags & RNIC_WQE_SOLICITED ? " solicited" : "",
               wr->flags & RNIC_WQE_FENCE ? " fence" : "",
               wr->flags & RNIC_WQE_INLINE ? " inline" : "");
}

enum rnic_wq_result rnic_sq_fetch(struct rnic_qp *qp, struct rnic_send_wr *wr,
                                  struct rnic_sq_rec **recp)
{
    union {
        uint8_t octets[RNIC_WQE_STRIDE_MAX];
        uint64_t align;
    } raw;
    struct rnic_sq *sq = qp->sq;
    struct rnic_sq_rec *rec;
    const char *wrong;

    if (sq->rec_count == sq->rec_size) {
        return RNIC_WQ_EMPTY;
    }
    if (qp->state == RNIC_QPS_CLOSING) {
        if (sq->fetched == qp->closing_pi) {
            return RNIC_WQ_EMPTY;
        }
    } else if (sq->fetched == qp->sq_pi) {
        if (!rnic_sq_load_pi(qp)) {
            rnic_fault_local(qp, RNIC_EV_QP_FATAL);
            return RNIC_WQ_FAULT;
        }
        if (sq->fetched == qp->sq_pi) {
            return RNIC_WQ_EMPTY;
        }
    }

    if (!rnic_buf_read(qp->dev, &qp->buf,
                       ring_offset(qp->sq_offset, qp->sq_stride, qp->sq_depth,
                                   sq->fetched),
                       &raw, qp->sq_stride)) {
        rnic_guest_error(qp->dev, "qpn %u: SQ entry %u is not RAM any more",
                         qp->qpn, sq->fetched);
        qp->sq_broken = true;
        rnic_fault_local(qp, RNIC_EV_QP_FATAL);
        return RNIC_WQ_FAULT;
    }
    wr->index = sq->fetched++;
    wrong = send_wr_parse(qp, &raw, wr);
    wr->error = wrong ? RNIC_WC_LOC_QP_OP_ERR : RNIC_WC_SUCCESS;
    send_wr_trace(qp, wr);
    if (wrong) {
        rnic_guest_error(qp->dev,
                         "qpn %u: SQ entry %u (%s, wr_id 0x%" PRIx64 ") has %s",
                         qp->qpn, wr->index, rnic_wr_opcode_str(wr->opcode),
                         wr->wr_id, wrong);
    }

    rec = &sq->recs[(sq->rec_head + sq->rec_count++) & (sq->rec_size - 1)];
    *rec = (struct rnic_sq_rec){
        .wr_id = wr->wr_id,
        .index = wr->index,
        .inv_stag = wr->inv_stag,
        .opcode = wr->opcode,
        .signalled =
            (wr->flags & RNIC_WQE_SIGNALED) || (qp->flags & RNIC_QP_SIG_ALL),
    };
    *recp = rec;
    return RNIC_WQ_TAKEN;
}

enum rnic_wq_result rnic_rq_take(struct rnic_qp *qp, struct rnic_recv_wr *wr)
{
    union {
        uint8_t octets[RNIC_WQE_STRIDE_MAX];
        struct rnic_rq_wqe wqe;
    } raw;
    uint32_t stride;

    if (qp->srq) {
        stride = qp->srq->stride;
        if (!rnic_srq_take(qp->dev, qp->srq, &raw, &wr->index)) {
            return RNIC_WQ_EMPTY;
        }
    } else {
        stride = qp->rq_stride;
        if (qp->rq_ci == qp->rq_pi) {
            if (!rq_load_pi(qp)) {
                rnic_fault_local(qp, RNIC_EV_QP_FATAL);
                return RNIC_WQ_FAULT;
            }
            if (qp->rq_ci == qp->rq_pi) {
                return RNIC_WQ_EMPTY;
            }
        }
        if (!rnic_buf_read(
                qp->dev, &qp->buf,
                ring_offset(qp->rq_offset, stride, qp->rq_depth, qp->rq_ci),
                &raw, stride)) {
            rnic_guest_error(qp->dev, "qpn %u: RQ entry %u is not RAM any more",
                             qp->qpn, qp->rq_ci);
            qp->rq_broken = true;
            rnic_fault_local(qp, RNIC_EV_QP_FATAL);
            return RNIC_WQ_FAULT;
        }
        wr->index = qp->rq_ci++;
    }

    wr->wr_id = GUINT64_FROM_LE(raw.wqe.wr_id);
    wr->error = RNIC_WC_SUCCESS;
    wr->num_sge = raw.wqe.num_sge;
    if (wr->num_sge > RNIC_MAX_SGE ||
        wr->num_sge > RNIC_RQ_STRIDE_SGES(stride)) {
        rnic_guest_error(qp->dev,
                         "qpn %u: RQ entry %u (wr_id 0x%" PRIx64
                         ") has more SGEs than the stride holds",
                         qp->qpn, wr->index, wr->wr_id);
        wr->num_sge = 0;
        wr->error = RNIC_WC_LOC_QP_OP_ERR;
    }
    /* A receive may be larger, a message may not */
    wr->length =
        MIN(sges_copy(wr->sge, raw.wqe.sge, wr->num_sge), RNIC_MAX_MSG_SIZE);
    rnic_trace(qp->dev, wqe,
               "qpn %u %s %u wr_id 0x%" PRIx64 " RECV %" PRIu64
               " octets, %u SGEs",
               qp->qpn, qp->srq ? "SRQ" : "RQ", wr->index, wr->wr_id,
               wr->length, wr->num_sge);
    return RNIC_WQ_TAKEN;
}

enum rnic_mr_error rnic_sges_map(struct rnic_qp *qp,
                                 const struct rnic_wr_sge *sge,
                                 unsigned num_sge, uint64_t offset,
                                 uint64_t len, uint32_t access,
                                 struct rnic_mapping *map, uint64_t *done)
{
    enum rnic_mr_error error;
    uint64_t n, part;
    unsigned i;

    *done = 0;
    for (i = 0; i < num_sge && *done < len; i++) {
        if (offset >= sge[i].length) {
            offset -= sge[i].length;
            continue;
        }
        n = MIN(sge[i].length - offset, len - *done);
        /* The range was checked with the whole SGE; this checks it again,
         * because the region may have gone since. No wrap: see there. */
        error = rnic_mr_map(qp->dev, qp->pdn, sge[i].stag, sge[i].to + offset,
                            n, access, rnic_qp_kernel(qp), map, &part);
        if (error != RNIC_MR_OK) {
            return error;
        }
        *done += part;
        if (part < n) {
            break;
        }
        offset = 0;
    }
    return RNIC_MR_OK;
}

/* ---- Completing ---- */

static void cqe_post(struct rnic_qp *qp, struct rnic_cq *cq,
                     struct rnic_cqe *cqe)
{
    cqe->qpn = GUINT32_TO_LE(qp->qpn);
    /* cq.c counts it for the device */
    qp->stats[RNIC_STAT_cqes]++;
    if (cqe->status == RNIC_WC_WR_FLUSH_ERR) {
        rnic_qp_stat(qp, RNIC_STAT_flushed, 1);
    }
    if (!rnic_cq_post(qp->dev, cq, cqe)) {
        rnic_fault_local(qp, RNIC_EV_QP_FATAL);
    }
}

static void sq_rec_post(struct rnic_qp *qp, const struct rnic_sq_rec *rec,
                        enum rnic_wc_status status)
{
    struct rnic_cqe cqe = {
        .wr_id = GUINT64_TO_LE(rec->wr_id),
        .opcode = rec->opcode,
        .status = status,
        .vendor_err = GUINT32_TO_LE(rec->vendor_err),
        .wqe_index = GUINT16_TO_LE((uint16_t)rec->index),
    };

    if (status == RNIC_WC_SUCCESS) {
        cqe.byte_len = GUINT32_TO_LE(rec->byte_len);
    }
    cqe_post(qp, qp->send_cq, &cqe);
}

void rnic_sq_complete(struct rnic_qp *qp)
{
    struct rnic_sq *sq = qp->sq;

    while (sq->rec_count && !qp->fault) {
        struct rnic_sq_rec *rec = &sq->recs[sq->rec_head];

        if (!rec->done || rec->status != RNIC_WC_SUCCESS) {
            break;
        }
        sq->rec_head = (sq->rec_head + 1) & (sq->rec_size - 1);
        sq->rec_count--;
        qp->sq_ci = rec->index + 1;
        if (rec->signalled) {
            sq_rec_post(qp, rec, RNIC_WC_SUCCESS);
        }
    }
}

void rnic_rq_complete(struct rnic_qp *qp, const struct rnic_recv_wr *wr,
                      struct rnic_cqe *cqe)
{
    cqe->wr_id = GUINT64_TO_LE(wr->wr_id);
    cqe->opcode = RNIC_WR_RECV;
    cqe->wqe_index = GUINT16_TO_LE((uint16_t)wr->index);
    cqe_post(qp, qp->recv_cq, cqe);
}

/* ---- Flushing ---- */

static void sq_flush(struct rnic_qp *qp)
{
    struct rnic_sq *sq = qp->sq;

    while (sq && sq->rec_count) {
        struct rnic_sq_rec *rec = &sq->recs[sq->rec_head];

        sq->rec_head = (sq->rec_head + 1) & (sq->rec_size - 1);
        sq->rec_count--;
        qp->sq_ci = rec->index + 1;
        sq_rec_post(qp, rec,
                    rec->status != RNIC_WC_SUCCESS ? rec->status
                                                   : RNIC_WC_WR_FLUSH_ERR);
    }

    /* A bad index keeps what was valid before it */
    rnic_sq_load_pi(qp);
    while (qp->sq_ci != qp->sq_pi) {
        struct rnic_sq_rec rec = { .index = qp->sq_ci };
        struct rnic_sq_wqe wqe;

        if (!rnic_buf_read(qp->dev, &qp->buf,
                           ring_offset(qp->sq_offset, qp->sq_stride,
                                       qp->sq_depth, qp->sq_ci),
                           &wqe, sizeof(wqe))) {
            if (!qp->sq_broken) {
                rnic_guest_error(qp->dev,
                                 "qpn %u: SQ entry %u is not RAM any "
                                 "more, the SQ is not flushed further",
                                 qp->qpn, qp->sq_ci);
            }
            qp->sq_broken = true;
            qp->sq_pi = qp->sq_ci;
            break;
        }
        rec.wr_id = GUINT64_FROM_LE(wqe.wr_id);
        rec.opcode = wqe.opcode;
        qp->sq_ci++;
        if (sq) {
            sq->fetched = qp->sq_ci;
        }
        sq_rec_post(qp, &rec, RNIC_WC_WR_FLUSH_ERR);
    }
}

static void rq_flush(struct rnic_qp *qp)
{
    rq_load_pi(qp);
    while (qp->rq_ci != qp->rq_pi) {
        struct rnic_cqe cqe = { .status = RNIC_WC_WR_FLUSH_ERR };
        struct rnic_recv_wr wr = { .index = qp->rq_ci };
        struct rnic_rq_wqe wqe;

        if (!rnic_buf_read(qp->dev, &qp->buf,
                           ring_offset(qp->rq_offset, qp->rq_stride,
                                       qp->rq_depth, qp->rq_ci),
                           &wqe, sizeof(wqe))) {
            if (!qp->rq_broken) {
                rnic_guest_error(qp->dev,
                                 "qpn %u: RQ entry %u is not RAM any "
                                 "more, the RQ is not flushed further",
                                 qp->qpn, qp->rq_ci);
            }
            qp->rq_broken = true;
            qp->rq_pi = qp->rq_ci;
            break;
        }
        wr.wr_id = GUINT64_FROM_LE(wqe.wr_id);
        qp->rq_ci++;
        rnic_rq_complete(qp, &wr, &cqe);
    }
}

void rnic_wq_flush(struct rnic_qp *qp)
{
    sq_flush(qp);
    if (qp->rx) {
        rnic_rx_flush(qp);
    }
    if (!qp->srq) {
        rq_flush(qp);
    }
}
