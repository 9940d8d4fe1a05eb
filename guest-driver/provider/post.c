/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Posting to a QP
 */
#include "rnic.h"

#define SEND_FLAGS                                                             \
    (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE)

struct rnic_sq_wqe *rnic_sq_entry(struct rnic_qp *qp, uint32_t index)
{
    return (struct rnic_sq_wqe *)rnic_wq_entry(&qp->sq, index);
}

/* ---- The parts of an entry ---- */

int rnic_wqe_begin(struct rnic_qp *qp, struct rnic_sq_wqe *wqe,
                   enum ibv_wr_opcode opcode, uint64_t wr_id, unsigned flags)
{
    struct rnic_context *ctx = to_rctx(qp->vqp.qp.context);

    if (flags & ~(unsigned)SEND_FLAGS) {
        return EINVAL;
    }
    memset(wqe, 0, sizeof(*wqe));
    wqe->wr_id = htole64(wr_id);
    if (flags & IBV_SEND_SIGNALED || qp->signal_all) {
        wqe->flags |= RNIC_WQE_SIGNALED;
    }
    if (flags & IBV_SEND_FENCE) {
        wqe->flags |= RNIC_WQE_FENCE;
    }
    switch (opcode) {
    case IBV_WR_SEND:
        wqe->opcode = RNIC_WR_SEND;
        break;
    case IBV_WR_SEND_WITH_INV:
        wqe->opcode = RNIC_WR_SEND_INV;
        break;
    case IBV_WR_RDMA_WRITE:
        wqe->opcode = RNIC_WR_WRITE;
        return 0;
    case IBV_WR_RDMA_READ:
        wqe->opcode = RNIC_WR_READ;
        return 0;
    case IBV_WR_LOCAL_INV:
        wqe->opcode = RNIC_WR_LOCAL_INV;
        return 0;
    case IBV_WR_SEND_WITH_IMM:
        wqe->opcode = RNIC_WR_IMM;
        break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        wqe->opcode = RNIC_WR_WRITE_IMM;
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        wqe->opcode = RNIC_WR_CMP_SWAP;
        break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        wqe->opcode = RNIC_WR_FETCH_ADD;
        break;
    default:
        return EINVAL;
    }
    if (wqe->opcode >= RNIC_WR_IMM && !(ctx->caps & RNIC_CAP_RFC7306)) {
        return EOPNOTSUPP;
    }
    if (flags & IBV_SEND_SOLICITED && !rnic_wqe_is_atomic(wqe)) {
        wqe->flags |= RNIC_WQE_SOLICITED;
    }
    return 0;
}

void rnic_wqe_atomic(struct rnic_sq_wqe *wqe, uint64_t compare_add,
                     uint64_t swap)
{
    struct rnic_atomic_wqe *atomic = (struct rnic_atomic_wqe *)wqe;

    if (wqe->opcode == RNIC_WR_FETCH_ADD) {
        atomic->data = htole64(compare_add);
        atomic->add_mask = 0;
    } else {
        atomic->data = htole64(swap);
        atomic->compare = htole64(compare_add);
    }
}

/* iWARP has no Send with data and immediate data: RFC 7306 section 6 */
static bool nothing(const struct ibv_sge *sge, int num)
{
    while (num-- > 0) {
        if (sge++->length) {
            return false;
        }
    }
    return true;
}

int rnic_wqe_sges(struct rnic_qp *qp, struct rnic_sq_wqe *wqe,
                  const struct ibv_sge *sge, int num)
{
    int i;

    if (wqe->opcode == RNIC_WR_IMM) {
        return nothing(sge, num) ? 0 : EOPNOTSUPP;
    }
    if (rnic_wqe_is_atomic(wqe) && (num != 1 || sge->length != 8)) {
        return EINVAL;
    }
    if (num < 0 || (uint32_t)num > qp->sq.max_sge) {
        return EINVAL;
    }
    wqe->num_sge = num;
    for (i = 0; i < num; i++) {
        wqe->sge[i].addr = htole64(sge[i].addr);
        wqe->sge[i].length = htole32(sge[i].length);
        wqe->sge[i].lkey = htole32(sge[i].lkey);
    }
    return 0;
}

int rnic_wqe_inline(struct rnic_qp *qp, struct rnic_sq_wqe *wqe,
                    const void *from, size_t length)
{
    uint32_t had = le32toh(wqe->inline_len);

    switch (wqe->opcode) {
    case RNIC_WR_IMM:
        return length ? EOPNOTSUPP : 0;
    case RNIC_WR_SEND:
    case RNIC_WR_SEND_INV:
    case RNIC_WR_WRITE:
    case RNIC_WR_WRITE_IMM:
        break;
    default:
        return EINVAL;
    }
    if (length > qp->max_inline - had) {
        return EINVAL;
    }
    if (length) {
        memcpy((uint8_t *)wqe->sge + had, from, length);
    }
    wqe->inline_len = htole32(had + length);
    wqe->flags |= RNIC_WQE_INLINE;
    return 0;
}

/* ---- struct ibv_send_wr ---- */

static int write_inline(struct rnic_qp *qp, struct rnic_sq_wqe *wqe,
                        const struct ibv_send_wr *wr)
{
    int i, err;

    if (wr->num_sge < 0) {
        return EINVAL;
    }
    /* The data is in the entry, so num_sge is not bounded by its size */
    err = rnic_wqe_inline(qp, wqe, NULL, 0);
    for (i = 0; i < wr->num_sge && !err; i++) {
        err = rnic_wqe_inline(qp, wqe, (void *)(uintptr_t)wr->sg_list[i].addr,
                              wr->sg_list[i].length);
    }
    return err;
}

static int write_send_wqe(struct rnic_qp *qp, struct rnic_sq_wqe *wqe,
                          const struct ibv_send_wr *wr)
{
    int err = rnic_wqe_begin(qp, wqe, wr->opcode, wr->wr_id, wr->send_flags);

    if (err) {
        return err;
    }
    switch (wr->opcode) {
    case IBV_WR_SEND_WITH_INV:
        wqe->inv_stag = htole32(wr->invalidate_rkey);
        break;
    case IBV_WR_LOCAL_INV:
        wqe->inv_stag = htole32(wr->invalidate_rkey);
        return 0;
    case IBV_WR_SEND_WITH_IMM:
        wqe->imm_data = wr->imm_data;
        break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        wqe->imm_data = wr->imm_data;
        /* fall through */
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ:
        wqe->remote_stag = htole32(wr->wr.rdma.rkey);
        wqe->remote_to = htole64(wr->wr.rdma.remote_addr);
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        wqe->remote_stag = htole32(wr->wr.atomic.rkey);
        wqe->remote_to = htole64(wr->wr.atomic.remote_addr);
        rnic_wqe_atomic(wqe, wr->wr.atomic.compare_add, wr->wr.atomic.swap);
        break;
    default:
        break;
    }
    return wr->send_flags & IBV_SEND_INLINE
               ? write_inline(qp, wqe, wr)
               : rnic_wqe_sges(qp, wqe, wr->sg_list, wr->num_sge);
}

int rnic_qp_check_state(struct rnic_context *ctx, struct rnic_qp *qp, bool send)
{
    switch (rnic_load(&qp->status->state)) {
    case RNIC_QPS_RESET:
        return EINVAL;
    case RNIC_QPS_IDLE:
        if (qp->reset) {
            return EINVAL;
        }
        /* With another policy they wait for the connection */
        return send && ctx->sq_policy == RNIC_SQ_ERROR ? ENOTCONN : 0;
    default:
        return 0;
    }
}

/* The consumer's half of the protocol at struct rnic_qp_dbrec. False: the QP
 * is connected, or was, and the index goes to the device. */
static bool hold(struct rnic_context *ctx, struct rnic_qp *qp)
{
    if (ctx->sq_policy != RNIC_SQ_HELD ||
        rnic_load(&qp->status->state) != RNIC_QPS_IDLE) {
        return false;
    }
    rnic_store(&qp->dbrec->sq_held, qp->sq.pi);
    /* The kernel sees the index, or we see the new state */
    atomic_thread_fence(memory_order_seq_cst);
    return rnic_load(&qp->status->state) == RNIC_QPS_IDLE;
}

void rnic_sq_publish(struct rnic_context *ctx, struct rnic_qp *qp)
{
    uint32_t event, state;

    if (hold(ctx, qp)) {
        return;
    }
    rnic_store(&qp->dbrec->sq_pi, qp->sq.pi);
    /* The device reads sq_pi once more after it wrote sq_event, so either it
     * sees this index or we see that it wants to be told */
    atomic_thread_fence(memory_order_seq_cst);
    event = rnic_load(&qp->status->sq_event);
    state = rnic_load(&qp->status->state);
    if (qp->sq.pi - event - 1 < qp->sq.pi - qp->sq_published ||
        state != RNIC_QPS_RTS) {
        rnic_db_ring(ctx, qp->qpn);
    }
    if (state == RNIC_QPS_RESET) {
        rnic_cq_wake(to_rcq(qp->vqp.qp.send_cq));
    }
    qp->sq_published = qp->sq.pi;
}

int rnic_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
                   struct ibv_send_wr **bad_wr)
{
    struct rnic_context *ctx = to_rctx(ibqp->context);
    struct rnic_qp *qp = to_rqp(ibqp);
    uint32_t old, ci;
    int err;

    pthread_mutex_lock(&qp->sq.lock);
    old = qp->sq.pi;
    ci = atomic_load_explicit(&qp->sq.ci, memory_order_acquire);
    err = rnic_qp_check_state(ctx, qp, true);
    for (; wr && !err; wr = wr->next) {
        err = qp->sq.pi - ci >= qp->sq.depth
                  ? ENOMEM
                  : write_send_wqe(qp, rnic_sq_entry(qp, qp->sq.pi), wr);
        if (err) {
            break;
        }
        qp->sq.pi++;
    }
    if (err) {
        *bad_wr = wr;
    }
    if (qp->sq.pi != old) {
        rnic_sq_publish(ctx, qp);
    }
    pthread_mutex_unlock(&qp->sq.lock);
    return err;
}

int rnic_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
                   struct ibv_recv_wr **bad_wr)
{
    struct rnic_context *ctx = to_rctx(ibqp->context);
    struct rnic_qp *qp = to_rqp(ibqp);
    uint32_t posted, state;
    int err;

    err = qp->srq ? EINVAL : rnic_qp_check_state(ctx, qp, false);
    if (err) {
        *bad_wr = wr;
        return err;
    }
    pthread_mutex_lock(&qp->rq.lock);
    err = rnic_wq_write_recv(&qp->rq, wr, bad_wr, &posted);
    if (posted) {
        rnic_store(&qp->dbrec->rq_pi, qp->rq.pi);
        /* The device looks for receives when it needs one; only in ERROR
         * nothing would make it look */
        atomic_thread_fence(memory_order_seq_cst);
        state = rnic_load(&qp->status->state);
        if (state == RNIC_QPS_ERROR) {
            rnic_db_ring(ctx, qp->qpn);
        } else if (state == RNIC_QPS_RESET) {
            rnic_cq_wake(to_rcq(ibqp->recv_cq));
        }
    }
    pthread_mutex_unlock(&qp->rq.lock);
    return err;
}
