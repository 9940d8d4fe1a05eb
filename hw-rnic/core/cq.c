/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completion queues: entries, arming, moderation
 */
#include "device.h"

struct rnic_cq *rnic_cq_find(struct rnic_device *dev, uint32_t cqn)
{
    return cqn < RNIC_MAX_CQ ? dev->cqs[cqn] : NULL;
}

/* ---- Commands ---- */

enum rnic_admin_status rnic_cq_create(struct rnic_device *dev,
                                      const struct rnic_cmd_create_cq *cmd)
{
    uint32_t cqn = GUINT32_FROM_LE(cmd->cqn);
    uint32_t eqn = GUINT32_FROM_LE(cmd->eqn);
    uint32_t depth = GUINT32_FROM_LE(cmd->depth);
    uint32_t dbrec_offset = GUINT32_FROM_LE(cmd->dbrec_offset);
    struct rnic_uctx *uctx;
    enum rnic_admin_status status;
    struct rnic_cq *cq;
    struct rnic_eq *eq;

    if (cqn == 0 || cqn >= RNIC_MAX_CQ) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    if (dev->cqs[cqn]) {
        return RNIC_ADMIN_IN_USE;
    }
    if (cmd->rsvd || eqn == RNIC_AEQN || depth > RNIC_MAX_CQE || !depth ||
        depth & (depth - 1)) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    uctx = rnic_uctx_find(dev, GUINT32_FROM_LE(cmd->uctx));
    eq = eqn < RNIC_MAX_EQ ? dev->eqs[eqn] : NULL;
    if (!uctx || !eq) {
        return RNIC_ADMIN_BAD_ID;
    }
    /* An EQ holds one entry of each of its CQs */
    if (eq->refs >= eq->depth) {
        return RNIC_ADMIN_NO_RESOURCES;
    }
    cq = g_new0(struct rnic_cq, 1);
    status = rnic_buf_init_ring(dev, &cq->buf, &cmd->buf,
                                (uint64_t)depth * sizeof(struct rnic_cqe),
                                dbrec_offset);
    if (status != RNIC_ADMIN_OK) {
        g_free(cq);
        return status;
    }
    cq->cqn = cqn;
    cq->depth = depth;
    cq->dbrec_offset = dbrec_offset;
    cq->eq = eq;
    cq->uctx = uctx;
    cq->dev = dev;
    eq->refs++;
    uctx->refs++;
    dev->cqs[cqn] = cq;
    return RNIC_ADMIN_OK;
}

static void cq_free(struct rnic_cq *cq)
{
    struct rnic_device *dev = cq->dev;

    rnic_timer_cancel(&cq->mod_timer);
    rnic_timer_cancel(&cq->hold_timer);
    rnic_aeq_forget_type(dev, RNIC_EV_CQ_ERR, cq->cqn);
    cq->eq->refs--;
    cq->uctx->refs--;
    dev->cqs[cq->cqn] = NULL;
    rnic_buf_clear(&cq->buf);
    g_free(cq);
}

enum rnic_admin_status rnic_cq_destroy(struct rnic_device *dev, uint32_t cqn)
{
    struct rnic_cq *cq = rnic_cq_find(dev, cqn);

    if (!cq) {
        return RNIC_ADMIN_BAD_ID;
    }
    if (cq->refs) {
        return RNIC_ADMIN_IN_USE;
    }
    cq_free(cq);
    return RNIC_ADMIN_OK;
}

enum rnic_admin_status rnic_cq_query(struct rnic_device *dev, uint32_t cqn,
                                     struct rnic_resp_query_cq *resp)
{
    const struct rnic_cq *cq = rnic_cq_find(dev, cqn);

    if (!cq) {
        return RNIC_ADMIN_BAD_ID;
    }
#define FILL(name) resp->name = GUINT64_TO_LE(cq->counters.name);
    RNIC_CQ_STATS(FILL)
#undef FILL
    return RNIC_ADMIN_OK;
}

void rnic_cq_reset_all(struct rnic_device *dev)
{
    unsigned i;

    for (i = 0; i < RNIC_MAX_CQ; i++) {
        if (dev->cqs[i]) {
            cq_free(dev->cqs[i]);
        }
    }
}

/* ---- Errors ---- */

static bool cq_fail(struct rnic_cq *cq, const char *why)
{
    struct rnic_aeqe event = {
        .type = GUINT16_TO_LE(RNIC_EV_CQ_ERR),
        .id = GUINT32_TO_LE(cq->cqn),
    };

    cq->overflowed = true;
    cq->mod_pending = 0;
    rnic_timer_cancel(&cq->mod_timer);
    rnic_timer_cancel(&cq->hold_timer);
    rnic_guest_error(cq->dev,
                     "CQ %u failed: %s (depth %u, producer index %u, "
                     "consumer index %u)",
                     cq->cqn, why, cq->depth, cq->pi, cq->ci);
    rnic_aeq_post(cq->dev, &event);
    return false;
}

/* ---- Events ---- */

static void fire(struct rnic_cq *cq, uint32_t arm)
{
    rnic_timer_cancel(&cq->mod_timer);
    cq->mod_pending = 0;
    cq->fired = arm;
    rnic_ceq_post(cq->dev, cq);
}

static bool load_dbrec(struct rnic_cq *cq, size_t field, uint32_t *value)
{
    return rnic_buf_load32(cq->dev, &cq->buf, cq->dbrec_offset + field, value);
}

static void moderation_expired(struct rnic_timer *timer)
{
    struct rnic_cq *cq = rnic_owner(timer, struct rnic_cq, mod_timer);
    uint32_t arm;

    if (!load_dbrec(cq, offsetof(struct rnic_cq_dbrec, arm), &arm)) {
        cq_fail(cq, "its doorbell record is not RAM");
        return;
    }
    /* Another word: the consumer armed again and polled after that, so it saw
     * the entries that were held back */
    if (arm == cq->mod_arm && arm != cq->fired) {
        fire(cq, arm);
    } else {
        cq->mod_pending = 0;
    }
}

static bool moderated(const struct rnic_cq *cq)
{
    return cq->mod_count > 1 && cq->mod_period_us;
}

/* A CQE that matches @arm was written */
static void notify(struct rnic_cq *cq, uint32_t arm)
{
    if (!moderated(cq)) {
        fire(cq, arm);
        return;
    }
    if (cq->mod_pending && cq->mod_arm != arm) {
        rnic_timer_cancel(&cq->mod_timer);
        cq->mod_pending = 0;
    }
    cq->mod_arm = arm;
    if (++cq->mod_pending >= cq->mod_count) {
        fire(cq, arm);
    } else if (cq->mod_pending == 1) {
        rnic_timer_arm(cq->dev, &cq->mod_timer, cq->mod_period_us,
                       moderation_expired);
    }
}

enum rnic_admin_status rnic_cq_modify(struct rnic_device *dev,
                                      const struct rnic_cmd_modify_cq *cmd)
{
    struct rnic_cq *cq = rnic_cq_find(dev, GUINT32_FROM_LE(cmd->cqn));

    if (!cq) {
        return RNIC_ADMIN_BAD_ID;
    }
    cq->mod_count = GUINT16_FROM_LE(cmd->count);
    cq->mod_period_us = GUINT16_FROM_LE(cmd->period_us);
    /* What the old setting held back is not lost */
    if (cq->mod_pending &&
        (!moderated(cq) || cq->mod_pending >= cq->mod_count)) {
        rnic_timer_cancel(&cq->mod_timer);
        moderation_expired(&cq->mod_timer);
    }
    return RNIC_ADMIN_OK;
}

/* ---- Entries ---- */

static bool has_room(struct rnic_cq *cq)
{
    uint32_t ci;

    if (cq->pi - cq->ci < cq->depth) {
        return true;
    }
    if (!load_dbrec(cq, offsetof(struct rnic_cq_dbrec, ci), &ci)) {
        return cq_fail(cq, "its doorbell record is not RAM");
    }
    if (cq->pi - ci > cq->depth) {
        return cq_fail(cq, "its consumer index is out of range");
    }
    cq->ci = ci;
    if (cq->pi - ci == cq->depth) {
        return cq_fail(cq, "it is full");
    }
    return true;
}

bool rnic_cq_post(struct rnic_device *dev, struct rnic_cq *cq,
                  const struct rnic_cqe *cqe)
{
    struct rnic_cqe entry = *cqe;
    uint32_t arm, kind;

    if (cq->overflowed || !has_room(cq)) {
        return false;
    }
    entry.phase = !((cq->pi / cq->depth) & 1);
    if (!rnic_buf_publish(dev, &cq->buf,
                          (uint64_t)(cq->pi & (cq->depth - 1)) * sizeof(entry),
                          &entry, sizeof(entry))) {
        return cq_fail(cq, "its buffer is not RAM");
    }
    cq->counters.cqes++;
    rnic_stat_own(dev, RNIC_STAT_cqes, 1);
    rnic_trace(dev, cqe,
               "CQ %u entry %u: QP %u, opcode %u, status %u, "
               "%u octets, WQE %u, wr_id 0x%" PRIx64,
               cq->cqn, cq->pi, GUINT32_FROM_LE(entry.qpn), entry.opcode,
               entry.status, GUINT32_FROM_LE(entry.byte_len),
               GUINT16_FROM_LE(entry.wqe_index),
               (uint64_t)GUINT64_FROM_LE(entry.wr_id));
    cq->pi++;

    /* Pairs with the consumer's barrier between arming and its last poll */
    rnic_dma_fence(dev);
    if (!load_dbrec(cq, offsetof(struct rnic_cq_dbrec, arm), &arm)) {
        return cq_fail(cq, "its doorbell record is not RAM");
    }
    kind = arm & RNIC_CQ_ARM_MASK;
    if (arm == cq->fired || kind == RNIC_CQ_ARM_NONE) {
        return true;
    }
    if (kind & RNIC_CQ_ARM_ANY || entry.flags & RNIC_CQE_SOLICITED ||
        entry.status != RNIC_WC_SUCCESS) {
        cq->event_qpn = GUINT32_FROM_LE(entry.qpn);
        notify(cq, arm);
    }
    return true;
}
