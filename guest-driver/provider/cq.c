/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Completion queues
 */
#include "rnic.h"

DECLARE_DRV_CMD(rnic_create_cq_cmd, IB_USER_VERBS_EX_CMD_CREATE_CQ,
                rnic_create_cq_req, rnic_create_cq_resp);

#define CQ_WC_FLAGS  (IBV_WC_STANDARD_FLAGS)
#define CQ_COMP_MASK (IBV_CQ_INIT_ATTR_MASK_FLAGS)
#define CQ_FLAGS     (IBV_CREATE_CQ_ATTR_SINGLE_THREADED)

static struct rnic_cq *create_cq(struct ibv_context *context,
                                 const struct ibv_cq_init_attr_ex *attr)
{
    struct rnic_context *ctx = to_rctx(context);
    struct rnic_create_cq_cmd_resp resp = {};
    struct rnic_create_cq_cmd cmd = {};
    struct rnic_cq *cq;
    size_t size;
    int err;

    if (attr->cqe < 1 || attr->cqe > ctx->max_cqe) {
        errno = EINVAL;
        return NULL;
    }
    cq = calloc(1, sizeof(*cq));
    if (!cq) {
        errno = ENOMEM;
        return NULL;
    }
    /* At least two entries, so that the doorbell record is 64-aligned */
    cq->depth = rnic_pow2(attr->cqe < 2 ? 2 : attr->cqe);
    cq->shift = __builtin_ctz(cq->depth);
    size = (size_t)cq->depth * sizeof(struct rnic_cqe);
    err = rnic_buf_alloc(ctx, &cq->buf, size + sizeof(struct rnic_cq_dbrec));
    if (err) {
        goto err_free;
    }
    cq->ring = cq->buf.addr;
    cq->dbrec = (struct rnic_cq_dbrec *)((uint8_t *)cq->buf.addr + size);
    pthread_mutex_init(&cq->lock, NULL);
    list_head_init(&cq->send_qps);
    list_head_init(&cq->recv_qps);

    cmd.drv_payload.buf = (uintptr_t)cq->buf.addr;
    cmd.drv_payload.buf_len = cq->buf.length;
    cmd.drv_payload.depth = cq->depth;
    cmd.drv_payload.dbrec_offset = size;
    err = ibv_cmd_create_cq_ex(context, attr, &cq->vcq, &cmd.ibv_cmd,
                               sizeof(cmd), &resp.ibv_resp, sizeof(resp), 0);
    if (err) {
        goto err_buf;
    }
    cq->cqn = resp.drv_payload.cqn;
    cq->vcq.cq.cqe = cq->depth;
    return cq;

err_buf:
    pthread_mutex_destroy(&cq->lock);
    rnic_buf_free(&cq->buf);
err_free:
    free(cq);
    errno = err;
    return NULL;
}

struct ibv_cq *rnic_create_cq(struct ibv_context *context, int cqe,
                              struct ibv_comp_channel *channel, int comp_vector)
{
    struct ibv_cq_init_attr_ex attr = {
        .cqe = cqe, /* a negative one is too large */
        .channel = channel,
        .comp_vector = comp_vector,
    };
    struct rnic_cq *cq = create_cq(context, &attr);

    return cq ? &cq->vcq.cq : NULL;
}

struct ibv_cq_ex *rnic_create_cq_ex(struct ibv_context *context,
                                    struct ibv_cq_init_attr_ex *attr)
{
    struct rnic_cq *cq;

    if (attr->wc_flags & ~(uint64_t)CQ_WC_FLAGS ||
        attr->comp_mask & ~CQ_COMP_MASK ||
        (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
         attr->flags & ~CQ_FLAGS)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    cq = create_cq(context, attr);
    if (!cq) {
        return NULL;
    }
    rnic_cq_ex_init(&cq->vcq.cq_ex);
    return &cq->vcq.cq_ex;
}

int rnic_destroy_cq(struct ibv_cq *ibcq)
{
    struct rnic_cq *cq = to_rcq(ibcq);
    int err = ibv_cmd_destroy_cq(ibcq);

    if (err) {
        return err;
    }
    pthread_mutex_destroy(&cq->lock);
    rnic_buf_free(&cq->buf);
    free(cq);
    return 0;
}

int rnic_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr)
{
    struct ibv_modify_cq cmd = {};

    return ibv_cmd_modify_cq(ibcq, attr, &cmd, sizeof(cmd));
}

static struct rnic_cqe *cqe_at(struct rnic_cq *cq, uint32_t index)
{
    return &cq->ring[index & (cq->depth - 1)];
}

/* NULL: still the device's */
static struct rnic_cqe *owned_cqe(struct rnic_cq *cq, uint32_t index)
{
    struct rnic_cqe *cqe = cqe_at(cq, index);
    uint8_t phase = atomic_load_explicit((_Atomic(__u8) *)&cqe->phase,
                                         memory_order_acquire);

    return (phase & 1) != ((index >> cq->shift) & 1) ? cqe : NULL;
}

/* Gives the WQEs that a CQE stands for back to their producer */
static void release_wqes(struct rnic_qp *qp, const struct rnic_cqe *cqe)
{
    if (cqe->opcode != RNIC_WR_RECV) {
        rnic_sq_completed(&qp->sq, le16toh(cqe->wqe_index));
    } else {
        rnic_rq_completed(qp->srq ? &qp->srq->wq : &qp->rq);
    }
}

/*
 * Whether the device is gone or dead: then nobody completes what is posted. The
 * page of a QP's status reads as zeros when its device was taken away, and the
 * driver zeroes the state when the device failed; a live QP is never in RESET.
 */
static bool is_gone(const struct rnic_qp *qp)
{
    return rnic_load(&qp->status->state) == RNIC_QPS_RESET;
}

/* What was published of a ring, which its producer may be posting to */
static uint32_t published(const __le32 *word)
{
    return le32toh(atomic_load_explicit((const _Atomic(__le32) *)word,
                                        memory_order_acquire));
}

static uint32_t published_sends(struct rnic_qp *qp)
{
    uint32_t pi = published(&qp->dbrec->sq_pi);
    uint32_t held;

    if (to_rctx(qp->vqp.qp.context)->sq_policy == RNIC_SQ_HELD) {
        /* Those before RTS; sq_pi has overtaken it since then */
        held = published(&qp->dbrec->sq_held);
        if ((int32_t)(held - pi) > 0) {
            pi = held;
        }
    }
    return pi;
}

static bool flush_send(struct rnic_qp *qp, struct rnic_cqe *cqe)
{
    uint32_t ci = atomic_load_explicit(&qp->sq.ci, memory_order_relaxed);
    const struct rnic_sq_wqe *wqe;

    if (ci == published_sends(qp)) {
        return false;
    }
    wqe = (const struct rnic_sq_wqe *)rnic_wq_entry(&qp->sq, ci);
    *cqe = (struct rnic_cqe){
        .wr_id = wqe->wr_id,
        .qpn = htole32(qp->qpn),
        .opcode = wqe->opcode,
        .status = RNIC_WC_WR_FLUSH_ERR,
        .wqe_index = htole16(ci),
    };
    rnic_sq_completed(&qp->sq, ci);
    return true;
}

static bool flush_receive(struct rnic_qp *qp, struct rnic_cqe *cqe)
{
    uint32_t ci = atomic_load_explicit(&qp->rq.ci, memory_order_relaxed);
    const struct rnic_rq_wqe *wqe;

    if (qp->srq || ci == published(&qp->dbrec->rq_pi)) {
        return false;
    }
    wqe = (const struct rnic_rq_wqe *)rnic_wq_entry(&qp->rq, ci);
    *cqe = (struct rnic_cqe){
        .wr_id = wqe->wr_id,
        .qpn = htole32(qp->qpn),
        .opcode = RNIC_WR_RECV,
        .status = RNIC_WC_WR_FLUSH_ERR,
    };
    rnic_rq_completed(&qp->rq);
    return true;
}

/* What a device that is gone would have flushed. Without it a consumer that
 * polls for the end of its work would poll for ever. */
static bool flush_next(struct rnic_cq *cq, struct rnic_cqe *cqe)
{
    struct rnic_qp *qp;

    /* One stands for all: they are of one device */
    qp = list_top(&cq->send_qps, struct rnic_qp, send_link);
    if (!qp) {
        qp = list_top(&cq->recv_qps, struct rnic_qp, recv_link);
    }
    if (!qp || !is_gone(qp)) {
        return false;
    }
    /* Until the kernel has stopped it the device may go on: what it completes
     * from now on is flushed here */
    cq->gone = true;
    list_for_each(&cq->send_qps, qp, send_link)
    {
        if (flush_send(qp, cqe)) {
            return true;
        }
    }
    list_for_each(&cq->recv_qps, qp, recv_link)
    {
        if (flush_receive(qp, cqe)) {
            return true;
        }
    }
    return false;
}

bool rnic_cq_next(struct rnic_cq *cq, struct rnic_cqe *cqe)
{
    struct rnic_context *ctx = to_rctx(cq->vcq.cq.context);
    struct rnic_cqe *next;
    struct rnic_qp *qp;
    uint32_t qpn;

    while (!cq->gone && (next = owned_cqe(cq, cq->ci))) {
        *cqe = *next;
        cq->ci++;
        qpn = le32toh(cqe->qpn);
        qp = qpn < ctx->max_qp ? atomic_load(&ctx->qp_table[qpn]) : NULL;
        /* rnic_destroy_qp() leaves no CQE of a QP that is gone; were there
         * one, nobody could make sense of it */
        if (qp) {
            release_wqes(qp, cqe);
            return true;
        }
    }
    return flush_next(cq, cqe);
}

void rnic_cq_publish(struct rnic_cq *cq)
{
    rnic_store(&cq->dbrec->ci, cq->ci);
}

void rnic_cq_clean(struct rnic_cq *cq, uint32_t qpn)
{
    struct rnic_context *ctx = to_rctx(cq->vcq.cq.context);
    struct rnic_qp *qp = atomic_load(&ctx->qp_table[qpn]);
    uint32_t index = cq->ci, removed = 0;
    struct rnic_cqe *cqe, *to;
    uint8_t phase;

    while (index - cq->ci < cq->depth && owned_cqe(cq, index)) {
        index++;
    }
    /* From the newest to the oldest; those that stay move towards the newest,
     * into entries that keep their own phase */
    while (index-- != cq->ci) {
        cqe = cqe_at(cq, index);
        if (le32toh(cqe->qpn) == qpn) {
            if (cqe->opcode == RNIC_WR_RECV) {
                release_wqes(qp, cqe);
            }
            removed++;
        } else if (removed) {
            to = cqe_at(cq, index + removed);
            phase = to->phase;
            *to = *cqe;
            to->phase = phase;
        }
    }
    if (removed) {
        cq->ci += removed;
        rnic_cq_publish(cq);
    }
}

enum ibv_wc_status rnic_cqe_status(const struct rnic_cqe *cqe)
{
    static const uint8_t status[] = {
        [RNIC_WC_SUCCESS] = IBV_WC_SUCCESS,
        [RNIC_WC_LOC_LEN_ERR] = IBV_WC_LOC_LEN_ERR,
        [RNIC_WC_LOC_QP_OP_ERR] = IBV_WC_LOC_QP_OP_ERR,
        [RNIC_WC_LOC_PROT_ERR] = IBV_WC_LOC_PROT_ERR,
        [RNIC_WC_WR_FLUSH_ERR] = IBV_WC_WR_FLUSH_ERR,
        [RNIC_WC_MW_BIND_ERR] = IBV_WC_MW_BIND_ERR,
        [RNIC_WC_REM_INV_REQ_ERR] = IBV_WC_REM_INV_REQ_ERR,
        [RNIC_WC_REM_ACCESS_ERR] = IBV_WC_REM_ACCESS_ERR,
        [RNIC_WC_REM_OP_ERR] = IBV_WC_REM_OP_ERR,
        [RNIC_WC_GENERAL_ERR] = IBV_WC_GENERAL_ERR,
    };

    return cqe->status < sizeof(status)
               ? (enum ibv_wc_status)status[cqe->status]
               : IBV_WC_GENERAL_ERR;
}

enum ibv_wc_opcode rnic_cqe_opcode(const struct rnic_cqe *cqe)
{
    switch (cqe->opcode) {
    case RNIC_WR_RECV:
        /* The wire does not tell whether it came with a Write; what expects
         * this opcode is more than what expects the other */
        return cqe->flags & RNIC_CQE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM
                                              : IBV_WC_RECV;
    case RNIC_WR_FETCH_ADD:
        return IBV_WC_FETCH_ADD;
    case RNIC_WR_CMP_SWAP:
        return IBV_WC_COMP_SWAP;
    case RNIC_WR_WRITE:
    case RNIC_WR_WRITE_IMM:
        return IBV_WC_RDMA_WRITE;
    case RNIC_WR_READ:
    case RNIC_WR_READ_INV:
        return IBV_WC_RDMA_READ;
    case RNIC_WR_LOCAL_INV:
        return IBV_WC_LOCAL_INV;
    default:
        return IBV_WC_SEND;
    }
}

int rnic_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc)
{
    struct rnic_cq *cq = to_rcq(ibcq);
    struct rnic_cqe cqe;
    int n = 0;

    pthread_mutex_lock(&cq->lock);
    for (; n < num_entries && rnic_cq_next(cq, &cqe); n++, wc++) {
        memset(wc, 0, sizeof(*wc));
        wc->wr_id = le64toh(cqe.wr_id);
        wc->status = rnic_cqe_status(&cqe);
        wc->opcode = rnic_cqe_opcode(&cqe);
        wc->vendor_err = le32toh(cqe.vendor_err);
        wc->byte_len = le32toh(cqe.byte_len);
        wc->qp_num = le32toh(cqe.qpn);
        if (cqe.flags & RNIC_CQE_WITH_INV) {
            wc->wc_flags = IBV_WC_WITH_INV;
            wc->invalidated_rkey = le32toh(cqe.inv_stag);
        }
        if (cqe.flags & RNIC_CQE_WITH_IMM) {
            wc->wc_flags = IBV_WC_WITH_IMM;
            wc->imm_data = cqe.imm_data;
        }
    }
    if (n) {
        rnic_cq_publish(cq);
    }
    pthread_mutex_unlock(&cq->lock);
    return n;
}

int rnic_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
    struct rnic_cq *cq = to_rcq(ibcq);
    uint32_t kind = solicited_only ? RNIC_CQ_ARM_SOLICITED : RNIC_CQ_ARM_ANY;

    pthread_mutex_lock(&cq->lock);
    /* A request for any completion that has not fired is not narrowed */
    if (atomic_load(&cq->armed) == RNIC_CQ_ARM_ANY) {
        kind = RNIC_CQ_ARM_ANY;
    }
    atomic_store(&cq->armed, kind);
    rnic_cq_publish(cq);
    rnic_store(&cq->dbrec->arm, ++cq->arm_sequence << 2 | kind);
    /* The consumer polls once more after this; the device looks at arm after
     * it wrote a CQE, so one of the two sees the other */
    atomic_thread_fence(memory_order_seq_cst);
    pthread_mutex_unlock(&cq->lock);
    return 0;
}

void rnic_cq_wake(struct rnic_cq *cq)
{
    /* The kernel raises an event; without a channel nobody sleeps, and of a
     * device that was taken out the channel is at its end */
    ibv_cmd_req_notify_cq(&cq->vcq.cq, 0);
}

void rnic_cq_event(struct ibv_cq *ibcq)
{
    atomic_store(&to_rcq(ibcq)->armed, RNIC_CQ_ARM_NONE);
}
