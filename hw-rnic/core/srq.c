/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared receive queues
 */
#include <string.h>
#include "device.h"

struct rnic_srq *rnic_srq_find(struct rnic_device *dev, uint32_t srqn)
{
    return srqn < RNIC_MAX_SRQ ? dev->srqs[srqn] : NULL;
}

/* ---- Commands ---- */

enum rnic_admin_status rnic_srq_create(struct rnic_device *dev,
                                       const struct rnic_cmd_create_srq *cmd)
{
    uint32_t srqn = GUINT32_FROM_LE(cmd->srqn);
    uint32_t pdn = GUINT32_FROM_LE(cmd->pdn);
    uint32_t depth = GUINT32_FROM_LE(cmd->depth);
    uint32_t stride = GUINT32_FROM_LE(cmd->stride);
    uint32_t limit = GUINT32_FROM_LE(cmd->limit);
    uint32_t dbrec_offset = GUINT32_FROM_LE(cmd->dbrec_offset);
    enum rnic_admin_status status;
    struct rnic_uctx *uctx;
    struct rnic_srq *srq;

    if (srqn == 0 || srqn >= RNIC_MAX_SRQ) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    if (dev->srqs[srqn]) {
        return RNIC_ADMIN_IN_USE;
    }
    if (cmd->rsvd || pdn == 0 || pdn >= RNIC_MAX_PD || !depth ||
        depth > RNIC_MAX_QP_WR || depth & (depth - 1) ||
        stride < RNIC_WQE_STRIDE_MIN || stride > RNIC_WQE_STRIDE_MAX ||
        stride & (stride - 1) || limit > depth) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    uctx = rnic_uctx_find(dev, GUINT32_FROM_LE(cmd->uctx));
    if (!uctx) {
        return RNIC_ADMIN_BAD_ID;
    }
    srq = g_new0(struct rnic_srq, 1);
    status = rnic_buf_init_ring(dev, &srq->buf, &cmd->buf,
                                (uint64_t)depth * stride, dbrec_offset);
    if (status != RNIC_ADMIN_OK) {
        g_free(srq);
        return status;
    }
    srq->srqn = srqn;
    srq->pdn = pdn;
    srq->depth = depth;
    srq->stride = stride;
    srq->dbrec_offset = dbrec_offset;
    srq->limit = limit;
    srq->uctx = uctx;
    uctx->refs++;
    dev->srqs[srqn] = srq;
    return RNIC_ADMIN_OK;
}

enum rnic_admin_status rnic_srq_modify(struct rnic_device *dev,
                                       const struct rnic_cmd_modify_srq *cmd)
{
    struct rnic_srq *srq = rnic_srq_find(dev, GUINT32_FROM_LE(cmd->srqn));
    uint32_t limit = GUINT32_FROM_LE(cmd->limit);

    if (!srq) {
        return RNIC_ADMIN_BAD_ID;
    }
    if (limit > srq->depth) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    srq->limit = limit;
    return RNIC_ADMIN_OK;
}

static void srq_free(struct rnic_device *dev, struct rnic_srq *srq)
{
    rnic_aeq_forget_type(dev, RNIC_EV_SRQ_LIMIT, srq->srqn);
    rnic_aeq_forget_type(dev, RNIC_EV_SRQ_ERR, srq->srqn);
    srq->uctx->refs--;
    dev->srqs[srq->srqn] = NULL;
    rnic_buf_clear(&srq->buf);
    g_free(srq);
}

enum rnic_admin_status rnic_srq_destroy(struct rnic_device *dev, uint32_t srqn)
{
    struct rnic_srq *srq = rnic_srq_find(dev, srqn);

    if (!srq) {
        return RNIC_ADMIN_BAD_ID;
    }
    if (srq->refs) {
        return RNIC_ADMIN_IN_USE;
    }
    srq_free(dev, srq);
    return RNIC_ADMIN_OK;
}

void rnic_srq_reset_all(struct rnic_device *dev)
{
    unsigned i;

    for (i = 0; i < RNIC_MAX_SRQ; i++) {
        if (dev->srqs[i]) {
            srq_free(dev, dev->srqs[i]);
        }
    }
}

/* ---- Receives ---- */

static void post_event(struct rnic_device *dev, struct rnic_srq *srq,
                       enum rnic_event_type type)
{
    struct rnic_aeqe event = {
        .type = GUINT16_TO_LE(type),
        .id = GUINT32_TO_LE(srq->srqn),
    };

    rnic_aeq_post(dev, &event);
}

static bool srq_fail(struct rnic_device *dev, struct rnic_srq *srq,
                     const char *why)
{
    srq->failed = true;
    rnic_guest_error(dev, "SRQ %u failed: %s", srq->srqn, why);
    post_event(dev, srq, RNIC_EV_SRQ_ERR);
    return false;
}

/* Reads the producer index and checks it */
static bool refresh(struct rnic_device *dev, struct rnic_srq *srq)
{
    uint32_t pi;

    if (srq->failed) {
        return false;
    }
    if (!rnic_buf_load32(
            dev, &srq->buf,
            srq->dbrec_offset + offsetof(struct rnic_qp_dbrec, rq_pi), &pi)) {
        return srq_fail(dev, srq, "its doorbell record is not RAM");
    }
    if (pi - srq->ci > srq->depth) {
        return srq_fail(dev, srq,
                        "its producer index is more than its depth "
                        "ahead");
    }
    srq->pi = pi;
    return true;
}

enum rnic_admin_status rnic_srq_query(struct rnic_device *dev, uint32_t srqn,
                                      struct rnic_resp_query_srq *resp)
{
    struct rnic_srq *srq = rnic_srq_find(dev, srqn);

    if (!srq) {
        return RNIC_ADMIN_BAD_ID;
    }
    if (!refresh(dev, srq)) {
        return RNIC_ADMIN_BAD_STATE;
    }
    resp->limit = GUINT32_TO_LE(srq->limit);
    resp->posted = GUINT32_TO_LE(srq->pi - srq->ci);
    return RNIC_ADMIN_OK;
}

/* Fewer than the limit are left */
static void reach_limit(struct rnic_device *dev, struct rnic_srq *srq)
{
    srq->limit = 0;
    post_event(dev, srq, RNIC_EV_SRQ_LIMIT);
}

bool rnic_srq_take(struct rnic_device *dev, struct rnic_srq *srq, void *wqe,
                   uint32_t *index)
{
    if (srq->failed) {
        return false;
    }
    if (srq->pi == srq->ci && !refresh(dev, srq)) {
        return false;
    }
    if (srq->pi == srq->ci) {
        /* Else who armed it when all were taken would wait for ever */
        if (srq->limit) {
            reach_limit(dev, srq);
        }
        return false;
    }
    memset(wqe, 0, RNIC_WQE_STRIDE_MAX);
    if (!rnic_buf_read(dev, &srq->buf,
                       (uint64_t)(srq->ci & (srq->depth - 1)) * srq->stride,
                       wqe, srq->stride)) {
        return srq_fail(dev, srq, "its buffer is not RAM");
    }
    *index = srq->ci++;
    /* The index as last read may be old: look before saying that few are left.
     * What was taken stays good even if that look fails the SRQ. */
    if (srq->limit && srq->pi - srq->ci < srq->limit && refresh(dev, srq) &&
        srq->pi - srq->ci < srq->limit) {
        reach_limit(dev, srq);
    }
    return true;
}
