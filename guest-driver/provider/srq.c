/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Shared receive queues
 */
#include "rnic.h"

DECLARE_DRV_CMD(rnic_create_srq_cmd, IB_USER_VERBS_CMD_CREATE_SRQ,
                rnic_create_srq_req, rnic_create_srq_resp);

struct ibv_srq *rnic_create_srq(struct ibv_pd *pd,
                                struct ibv_srq_init_attr *attr)
{
    struct rnic_context *ctx = to_rctx(pd->context);
    struct rnic_create_srq_cmd_resp resp = {};
    struct rnic_create_srq_cmd cmd = {};
    uint32_t depth, stride, max_sge;
    struct rnic_srq *srq;
    size_t size;
    int err;

    if (attr->attr.max_wr < 1 || attr->attr.max_wr > ctx->max_srq_wr ||
        attr->attr.max_sge > ctx->max_sge) {
        errno = EINVAL;
        return NULL;
    }
    depth = rnic_pow2(attr->attr.max_wr);
    stride = rnic_wq_stride(sizeof(struct rnic_rq_wqe),
                            attr->attr.max_sge * sizeof(struct rnic_sge));
    if (!stride) {
        errno = EINVAL;
        return NULL;
    }
    max_sge = RNIC_RQ_STRIDE_SGES(stride);
    max_sge = max_sge > ctx->max_sge ? ctx->max_sge : max_sge;

    srq = calloc(1, sizeof(*srq));
    if (!srq) {
        errno = ENOMEM;
        return NULL;
    }
    size = (size_t)depth * stride;
    err = rnic_buf_alloc(ctx, &srq->buf, size + sizeof(struct rnic_qp_dbrec));
    if (err) {
        goto err_free;
    }
    srq->dbrec = (struct rnic_qp_dbrec *)((uint8_t *)srq->buf.addr + size);
    rnic_wq_init(&srq->wq, srq->buf.addr, depth, stride, max_sge);

    cmd.drv_payload.buf = (uintptr_t)srq->buf.addr;
    cmd.drv_payload.buf_len = srq->buf.length;
    cmd.drv_payload.depth = depth;
    cmd.drv_payload.stride = stride;
    cmd.drv_payload.dbrec_offset = size;
    err = ibv_cmd_create_srq(pd, &srq->ibsrq, attr, &cmd.ibv_cmd, sizeof(cmd),
                             &resp.ibv_resp, sizeof(resp));
    if (err) {
        goto err_buf;
    }
    attr->attr.max_wr = depth;
    attr->attr.max_sge = max_sge;
    return &srq->ibsrq;

err_buf:
    rnic_wq_destroy(&srq->wq);
    rnic_buf_free(&srq->buf);
err_free:
    free(srq);
    errno = err;
    return NULL;
}

int rnic_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr,
                    int attr_mask)
{
    struct ibv_modify_srq cmd = {};

    return ibv_cmd_modify_srq(ibsrq, attr, attr_mask, &cmd, sizeof(cmd));
}

int rnic_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
    struct rnic_srq *srq = to_rsrq(ibsrq);
    struct ibv_query_srq cmd = {};
    int err = ibv_cmd_query_srq(ibsrq, attr, &cmd, sizeof(cmd));

    if (!err) {
        attr->max_wr = srq->wq.depth;
        attr->max_sge = srq->wq.max_sge;
    }
    return err;
}

int rnic_destroy_srq(struct ibv_srq *ibsrq)
{
    struct rnic_srq *srq = to_rsrq(ibsrq);
    int err = ibv_cmd_destroy_srq(ibsrq);

    if (err) {
        return err;
    }
    rnic_wq_destroy(&srq->wq);
    rnic_buf_free(&srq->buf);
    free(srq);
    return 0;
}

int rnic_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
                       struct ibv_recv_wr **bad_wr)
{
    struct rnic_srq *srq = to_rsrq(ibsrq);
    uint32_t posted;
    int err;

    pthread_mutex_lock(&srq->wq.lock);
    err = rnic_wq_write_recv(&srq->wq, wr, bad_wr, &posted);
    if (posted) {
        rnic_store(&srq->dbrec->rq_pi, srq->wq.pi);
    }
    pthread_mutex_unlock(&srq->wq.lock);
    return err;
}
