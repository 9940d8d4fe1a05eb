/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Posting to a QP
 */
#include "rnic.h"

#define SEND_FLAGS                                                             \
    (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE)

static struct rnic_sq_wqe *sq_entry(struct rnic_qp *qp, uint32_t index)
{
    return (struct rnic_sq_wqe *)rnic_wq_entry(&qp->sq, index);
}

/* 0 or an errno value */
static int write_sges(struct rnic_qp *qp, struct rnic_sq_wqe *wqe,
                      const struct ibv_send_wr *wr)
{
    int i;

    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->sq.max_sge) {
        return EINVAL;
    }
    wqe->num_sge = wr->num_sge;
    for (i = 0; i < wr->num_sge; i++) {
        wqe->sge[i].addr = htole64(wr->sg_list[i].addr);
        wqe->sge[i].length = htole32(wr->sg_list[i].length);
        wqe->sge[i].lkey = htole32(wr->sg_list[i].lkey);
    }
    return 0;
}

static int write_inline(struct rnic_qp *qp, struct rnic_sq_wqe *wqe,
                        const struct ibv_send_wr *wr)
{
    uint8_t *data = (uint8_t *)wqe->sge;
    uint32_t length = 0;
    int i;

    if (wr->num_sge < 0) {
        return EINVAL;
    }
    /* The data is in the entry, so num_sge is not bounded by its size */
    for (i = 0; i < wr->num_sge; i++) {
        const struct ibv_sge *sge = &wr->sg_list[i];

        if (sge->length > qp->max_inline - length) {
            return EINVAL;
        }
        if (sge->length) {
            memcpy(data + length, (void *)(uintptr_t)sge->addr, sge->length);
        }
        length += sge->length;
    }
    wqe->inline_len = htole32(length);
    wqe->flags |= RNIC_WQE_INLINE;
    return 0;
}

static int write_send_wqe(struct rnic_qp *qp, struct rnic_sq_wqe *wqe,
                          const struct ibv_send_wr *wr)
{
    bool may_inline = true;

    if (wr->send_flags & ~(unsigned)SEND_FLAGS) {
        return EINVAL;
    }
    memset(wqe, 0, sizeof(*wqe));
    wqe->wr_id = htole64(wr->wr_id);
    if (wr->send_flags & IBV_SEND_SIGNALED || qp->signal_all) {
        wqe->flags |= RNIC_WQE_SIGNALED;
    }
    if (wr->send_flags & IBV_SEND_FENCE) {
        wqe->flags |= RNIC_WQE_FENCE;
    }
    switch (wr->opcode) {
    case IBV_WR_SEND_WITH_INV:
        wqe->inv_stag = htole32(wr->invalidate_rkey);
        /* fall through */
    case IBV_WR_SEND:
        wqe->opcode =
            wr->opcode == IBV_WR_SEND ? RNIC_WR_SEND : RNIC_WR_SEND_INV;
        if (wr->send_flags & IBV_SEND_SOLICITED) {
            wqe->flags |= RNIC_WQE_SOLICITED;
        }
        break;
    case IBV_WR_RDMA_READ:
        may_inline = false;
        /* fall through */
    case IBV_WR_RDMA_WRITE:
        wqe->opcode =
            wr->opcode == IBV_WR_RDMA_WRITE ? RNIC_WR_WRITE : RNIC_WR_READ;
        wqe->remote_stag = htole32(wr->wr.rdma.rkey);
        wqe->remote_to = htole64(wr->wr.rdma.remote_addr);
        break;
    case IBV_WR_LOCAL_INV:
        wqe->opcode = RNIC_WR_LOCAL_INV;
        wqe->inv_stag = htole32(wr->invalidate_rkey);
        return 0;
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return EOPNOTSUPP; /* not of iWARP's verbs */
    default:
        return EINVAL;
    }
    if (!(wr->send_flags & IBV_SEND_INLINE)) {
        return write_sges(qp, wqe, wr);
    }
    return may_inline ? write_inline(qp, wqe, wr) : EINVAL;
}

/* Whether a QP in this state accepts work requests: 0 or an errno value */
static int check_state(struct rnic_context *ctx, struct rnic_qp *qp, bool send)
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

int rnic_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
                   struct ibv_send_wr **bad_wr)
{
    struct rnic_context *ctx = to_rctx(ibqp->context);
    struct rnic_qp *qp = to_rqp(ibqp);
    uint32_t old, ci, event;
    int err;

    pthread_mutex_lock(&qp->sq.lock);
    old = qp->sq.pi;
    ci = atomic_load_explicit(&qp->sq.ci, memory_order_acquire);
    err = check_state(ctx, qp, true);
    for (; wr && !err; wr = wr->next) {
        err = qp->sq.pi - ci >= qp->sq.depth
                  ? ENOMEM
                  : write_send_wqe(qp, sq_entry(qp, qp->sq.pi), wr);
        if (err) {
            break;
        }
        qp->sq.pi++;
    }
    if (err) {
        *bad_wr = wr;
    }
    if (qp->sq.pi != old && !hold(ctx, qp)) {
        rnic_store(&qp->dbrec->sq_pi, qp->sq.pi);
        /* The device reads sq_pi once more after it wrote sq_event, so either
         * it sees this index or we see that it wants to be told */
        atomic_thread_fence(memory_order_seq_cst);
        event = rnic_load(&qp->status->sq_event);
        if (qp->sq.pi - event - 1 < qp->sq.pi - qp->sq_published ||
            rnic_load(&qp->status->state) != RNIC_QPS_RTS) {
            rnic_db_ring(ctx, qp->qpn);
        }
        qp->sq_published = qp->sq.pi;
    }
    pthread_mutex_unlock(&qp->sq.lock);
    return err;
}

int rnic_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
                   struct ibv_recv_wr **bad_wr)
{
    struct rnic_context *ctx = to_rctx(ibqp->context);
    struct rnic_qp *qp = to_rqp(ibqp);
    uint32_t posted;
    int err;

    err = qp->srq ? EINVAL : check_state(ctx, qp, false);
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
        if (rnic_load(&qp->status->state) == RNIC_QPS_ERROR) {
            rnic_db_ring(ctx, qp->qpn);
        }
    }
    pthread_mutex_unlock(&qp->rq.lock);
    return err;
}
