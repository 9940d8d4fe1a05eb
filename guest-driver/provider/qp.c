/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Queue pairs
 */
#include "rnic.h"

#include <sys/mman.h>

DECLARE_DRV_CMD(rnic_create_qp_cmd, IB_USER_VERBS_CMD_CREATE_QP,
                rnic_create_qp_req, rnic_create_qp_resp);

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Where the rings lie in the buffer; the RQ follows the SQ */
struct layout {
    uint32_t sq_depth, sq_stride;
    uint32_t rq_depth, rq_stride;
    size_t rq_offset;
    size_t dbrec_offset;
};

static bool layout_qp(const struct rnic_context *ctx,
                      const struct ibv_qp_init_attr_ex *attr,
                      struct layout *lay)
{
    const struct ibv_qp_cap *cap = &attr->cap;
    uint32_t octets;

    memset(lay, 0, sizeof(*lay));
    if (cap->max_send_wr > ctx->max_qp_wr ||
        cap->max_recv_wr > ctx->max_qp_wr || cap->max_send_sge > ctx->max_sge ||
        cap->max_recv_sge > ctx->max_sge ||
        cap->max_inline_data > ctx->max_inline) {
        return false;
    }
    octets = max_u32(cap->max_send_sge * sizeof(struct rnic_sge),
                     cap->max_inline_data);
    lay->sq_stride = rnic_wq_stride(sizeof(struct rnic_sq_wqe), octets);
    lay->rq_stride =
        rnic_wq_stride(sizeof(struct rnic_rq_wqe),
                       cap->max_recv_sge * sizeof(struct rnic_sge));
    if (!lay->sq_stride || !lay->rq_stride) {
        return false;
    }
    if (cap->max_send_wr) {
        lay->sq_depth = rnic_pow2(cap->max_send_wr);
    }
    if (cap->max_recv_wr && !attr->srq) {
        lay->rq_depth = rnic_pow2(cap->max_recv_wr);
    }
    lay->rq_offset = (size_t)lay->sq_depth * lay->sq_stride;
    lay->dbrec_offset = lay->rq_offset + (size_t)lay->rq_depth * lay->rq_stride;
    return true;
}

/* What the rings hold is at least what was asked for */
static void report_cap(const struct rnic_qp *qp, struct ibv_qp_cap *cap)
{
    cap->max_send_wr = qp->sq.depth;
    cap->max_recv_wr = qp->rq.depth;
    cap->max_send_sge = qp->sq.max_sge;
    cap->max_recv_sge = qp->rq.max_sge;
    cap->max_inline_data = qp->max_inline;
}

static int map_status(struct rnic_context *ctx, struct rnic_qp *qp,
                      const struct rnic_create_qp_resp *resp)
{
    void *page;

    if (resp->status_in_page > ctx->page_size - sizeof(*qp->status)) {
        return EPROTO;
    }
    page = mmap(NULL, ctx->page_size, PROT_READ, MAP_SHARED,
                ctx->vctx.context.cmd_fd, resp->status_offset);
    if (page == MAP_FAILED) {
        return errno;
    }
    qp->status_page = page;
    qp->status =
        (struct rnic_qp_status *)((uint8_t *)page + resp->status_in_page);
    return 0;
}

/* The kernel's part of creation; on success the QP is in the table */
static int create_cmd(struct rnic_context *ctx, struct rnic_qp *qp,
                      struct ibv_qp_init_attr_ex *attr,
                      const struct layout *lay)
{
    struct rnic_create_qp_cmd_resp resp = {};
    struct rnic_create_qp_cmd cmd = {};
    int err;

    cmd.drv_payload.buf = (uintptr_t)qp->buf.addr;
    cmd.drv_payload.buf_len = qp->buf.length;
    cmd.drv_payload.sq_depth = lay->sq_depth;
    cmd.drv_payload.sq_stride = lay->sq_stride;
    cmd.drv_payload.sq_offset = 0;
    cmd.drv_payload.rq_depth = lay->rq_depth;
    cmd.drv_payload.rq_stride = lay->rq_stride;
    cmd.drv_payload.rq_offset = lay->rq_offset;
    cmd.drv_payload.dbrec_offset = lay->dbrec_offset;

    pthread_mutex_lock(&ctx->qp_mutex);
    err = ibv_cmd_create_qp_ex(&ctx->vctx.context, &qp->vqp, attr, &cmd.ibv_cmd,
                               sizeof(cmd), &resp.ibv_resp, sizeof(resp));
    if (err) {
        goto out;
    }
    qp->qpn = resp.drv_payload.qpn;
    err =
        qp->qpn < ctx->max_qp ? map_status(ctx, qp, &resp.drv_payload) : EPROTO;
    if (err) {
        ibv_cmd_destroy_qp(&qp->vqp.qp);
        goto out;
    }
    atomic_store(&ctx->qp_table[qp->qpn], qp);
out:
    pthread_mutex_unlock(&ctx->qp_mutex);
    return err;
}

static void lock_cqs(struct rnic_cq *a, struct rnic_cq *b)
{
    pthread_mutex_lock(a < b ? &a->lock : &b->lock);
    if (a != b) {
        pthread_mutex_lock(a < b ? &b->lock : &a->lock);
    }
}

static void unlock_cqs(struct rnic_cq *a, struct rnic_cq *b)
{
    pthread_mutex_unlock(&a->lock);
    if (a != b) {
        pthread_mutex_unlock(&b->lock);
    }
}

#define QP_COMP_MASK (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)

struct ibv_qp *rnic_create_qp_ex(struct ibv_context *context,
                                 struct ibv_qp_init_attr_ex *attr)
{
    struct rnic_context *ctx = to_rctx(context);
    struct rnic_cq *send_cq = to_rcq(attr->send_cq);
    struct rnic_cq *recv_cq = to_rcq(attr->recv_cq);
    struct rnic_qp *qp;
    struct layout lay;
    uint8_t *rings;
    int err;

    if (attr->qp_type != IBV_QPT_RC || attr->comp_mask & ~QP_COMP_MASK ||
        !(attr->comp_mask & IBV_QP_INIT_ATTR_PD)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (!layout_qp(ctx, attr, &lay)) {
        errno = EINVAL;
        return NULL;
    }
    qp = calloc(1, sizeof(*qp));
    if (!qp) {
        errno = ENOMEM;
        return NULL;
    }
    err = 0;
    if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
        !rnic_qp_ex_init(ctx, qp, attr->send_ops_flags)) {
        err = EOPNOTSUPP;
    }
    if (!err) {
        err = rnic_buf_alloc(ctx, &qp->buf,
                             lay.dbrec_offset + sizeof(struct rnic_qp_dbrec));
    }
    if (err) {
        goto err_free;
    }
    rings = qp->buf.addr;
    qp->dbrec = (struct rnic_qp_dbrec *)(rings + lay.dbrec_offset);
    rnic_wq_init(&qp->sq, rings, lay.sq_depth, lay.sq_stride,
                 min_u32(RNIC_SQ_STRIDE_SGES(lay.sq_stride), ctx->max_sge));
    rnic_wq_init(&qp->rq, rings + lay.rq_offset, lay.rq_depth, lay.rq_stride,
                 min_u32(RNIC_RQ_STRIDE_SGES(lay.rq_stride), ctx->max_sge));
    qp->max_inline =
        min_u32(RNIC_SQ_STRIDE_INLINE(lay.sq_stride), ctx->max_inline);
    qp->signal_all = attr->sq_sig_all;
    if (attr->srq) {
        qp->srq = to_rsrq(attr->srq);
    }

    err = create_cmd(ctx, qp, attr, &lay);
    if (err) {
        goto err_buf;
    }
    if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
        /* libibverbs cleared it */
        qp->vqp.comp_mask |= VERBS_QP_EX;
    }
    report_cap(qp, &attr->cap);
    lock_cqs(send_cq, recv_cq);
    list_add_tail(&send_cq->send_qps, &qp->send_link);
    list_add_tail(&recv_cq->recv_qps, &qp->recv_link);
    unlock_cqs(send_cq, recv_cq);
    return &qp->vqp.qp;

err_buf:
    rnic_wq_destroy(&qp->sq);
    rnic_wq_destroy(&qp->rq);
    rnic_buf_free(&qp->buf);
err_free:
    free(qp);
    errno = err;
    return NULL;
}

struct ibv_qp *rnic_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex attr_ex = {};
    struct ibv_qp *qp;

    /* It begins with the same members; where attr ends with padding, the other
     * has comp_mask */
    memcpy(&attr_ex, attr, sizeof(*attr));
    attr_ex.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr_ex.pd = pd;
    qp = rnic_create_qp_ex(pd->context, &attr_ex);
    if (qp) {
        attr->cap = attr_ex.cap;
    }
    return qp;
}

int rnic_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask)
{
    struct ibv_modify_qp cmd = {};
    int err;

    err = ibv_cmd_modify_qp(ibqp, attr, attr_mask, &cmd, sizeof(cmd));
    if (!err && attr_mask & IBV_QP_STATE) {
        to_rqp(ibqp)->reset = attr->qp_state == IBV_QPS_RESET;
    }
    return err;
}

int rnic_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask,
                  struct ibv_qp_init_attr *init_attr)
{
    struct rnic_qp *qp = to_rqp(ibqp);
    struct ibv_query_qp cmd = {};
    int err;

    err = ibv_cmd_query_qp(ibqp, attr, attr_mask, init_attr, &cmd, sizeof(cmd));
    if (!err) {
        report_cap(qp, &init_attr->cap);
        attr->cap = init_attr->cap;
    }
    return err;
}

int rnic_destroy_qp(struct ibv_qp *ibqp)
{
    struct rnic_context *ctx = to_rctx(ibqp->context);
    struct rnic_cq *send_cq = to_rcq(ibqp->send_cq);
    struct rnic_cq *recv_cq = to_rcq(ibqp->recv_cq);
    struct rnic_qp *qp = to_rqp(ibqp);
    int err;

    if (qp->srq) {
        /* A receive that a half-arrived message took from the SRQ must come
         * back as a completion, or its entry of the ring would be lost */
        struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

        rnic_modify_qp(ibqp, &attr, IBV_QP_STATE);
    }
    pthread_mutex_lock(&ctx->qp_mutex);
    err = ibv_cmd_destroy_qp(ibqp);
    if (err) {
        pthread_mutex_unlock(&ctx->qp_mutex);
        return err;
    }
    lock_cqs(send_cq, recv_cq);
    rnic_cq_clean(recv_cq, qp->qpn);
    if (send_cq != recv_cq) {
        rnic_cq_clean(send_cq, qp->qpn);
    }
    list_del(&qp->send_link);
    list_del(&qp->recv_link);
    atomic_store(&ctx->qp_table[qp->qpn], NULL);
    unlock_cqs(send_cq, recv_cq);
    pthread_mutex_unlock(&ctx->qp_mutex);

    munmap(qp->status_page, ctx->page_size);
    rnic_wq_destroy(&qp->sq);
    rnic_wq_destroy(&qp->rq);
    rnic_buf_free(&qp->buf);
    free(qp);
    return 0;
}
