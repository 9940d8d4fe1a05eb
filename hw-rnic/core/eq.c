/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Event queues: the asynchronous one (EQ 0), and those of completion events
 */
#include <string.h>
#include "device.h"
#include "qp.h"

#define AEQ_RETRY_US 1000
#define CEQ_RETRY_US 100
/* More than all objects together can have due with a driver that reads */
#define AEQ_KEPT_MAX 262144

/* Events that wait for room in the AEQ, oldest first */
struct rnic_aeq {
    GQueue kept; /* struct kept_event */
    struct rnic_timer timer;
};

struct kept_event {
    GList link;
    size_t size;      /* octets of the event that follow */
    uint8_t octets[]; /* struct rnic_aeqe, cut behind its data */
};

void rnic_irq(struct rnic_device *dev, unsigned vector)
{
    rnic_stat_inc(dev, RNIC_STAT_interrupts);
    rnic_trace(dev, irq, "interrupt on vector %u", vector);
    dev->ops->raise_irq(dev->opaque, vector);
}

static uint32_t entry_size(const struct rnic_eq *eq)
{
    return eq->eqn == RNIC_AEQN ? sizeof(struct rnic_aeqe)
                                : sizeof(struct rnic_ceqe);
}

/* ---- Commands ---- */

enum rnic_admin_status rnic_eq_create(struct rnic_device *dev,
                                      const struct rnic_cmd_create_eq *cmd)
{
    uint32_t eqn = GUINT32_FROM_LE(cmd->eqn);
    uint32_t vector = GUINT32_FROM_LE(cmd->vector);
    uint32_t depth = GUINT32_FROM_LE(cmd->depth);
    uint32_t dbrec_offset = GUINT32_FROM_LE(cmd->dbrec_offset);
    enum rnic_admin_status status;
    struct rnic_eq *eq;

    if (eqn >= RNIC_MAX_EQ) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    if (dev->eqs[eqn]) {
        return RNIC_ADMIN_IN_USE;
    }
    if (vector >= dev->config.vectors || depth > RNIC_MAX_EQ_DEPTH || !depth ||
        depth & (depth - 1)) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    eq = g_new0(struct rnic_eq, 1);
    eq->eqn = eqn;
    eq->vector = vector;
    eq->depth = depth;
    eq->dbrec_offset = dbrec_offset;
    status = rnic_buf_init_ring(dev, &eq->buf, &cmd->buf,
                                (uint64_t)depth * entry_size(eq), dbrec_offset);
    if (status != RNIC_ADMIN_OK) {
        g_free(eq);
        return status;
    }
    dev->eqs[eqn] = eq;
    return RNIC_ADMIN_OK;
}

static void eq_free(struct rnic_device *dev, struct rnic_eq *eq)
{
    dev->eqs[eq->eqn] = NULL;
    rnic_buf_clear(&eq->buf);
    g_free(eq);
}

enum rnic_admin_status rnic_eq_destroy(struct rnic_device *dev, uint32_t eqn)
{
    struct rnic_eq *eq = eqn < RNIC_MAX_EQ ? dev->eqs[eqn] : NULL;

    if (!eq) {
        return RNIC_ADMIN_BAD_ID;
    }
    if (eq->refs) {
        return RNIC_ADMIN_IN_USE;
    }
    eq_free(dev, eq);
    return RNIC_ADMIN_OK;
}

/* ---- Writing entries ---- */

/* How many entries the driver has not consumed; false: fatal, not RAM */
static bool eq_fill(struct rnic_device *dev, struct rnic_eq *eq, uint32_t *fill)
{
    uint32_t ci;

    if (!rnic_buf_load32(dev, &eq->buf,
                         eq->dbrec_offset + offsetof(struct rnic_eq_dbrec, ci),
                         &ci)) {
        rnic_device_fatal(dev, RNIC_DEV_ERR_EQ_DMA);
        return false;
    }
    if (eq->pi - ci <= eq->depth) {
        eq->ci = ci;
        eq->ci_bad = false;
    } else if (!eq->ci_bad || eq->told_ci != ci) {
        /* Once, not with each look at it */
        eq->ci_bad = true;
        eq->told_ci = ci;
        rnic_guest_error(dev,
                         "EQ %u: consumer index %u, but entries %u to %u "
                         "are unconsumed",
                         eq->eqn, ci, eq->ci, eq->pi);
    }
    *fill = eq->pi - eq->ci;
    return true;
}

/* Writes at pi, sets the phase, interrupts if the driver asked for it: true */
static bool eq_write(struct rnic_device *dev, struct rnic_eq *eq,
                     uint8_t *entry)
{
    uint32_t size = entry_size(eq);
    uint32_t index = eq->pi;
    uint32_t arm;

    /* Phase rule: 1 in the first lap, 0 in the second */
    entry[size - 1] = !((index / eq->depth) & 1);
    if (!rnic_buf_publish(dev, &eq->buf,
                          (uint64_t)(index & (eq->depth - 1)) * size, entry,
                          size)) {
        rnic_device_fatal(dev, RNIC_DEV_ERR_EQ_DMA);
        return false;
    }
    eq->pi++;
    /* Pairs with the driver's barrier between arm and its last look */
    rnic_dma_fence(dev);
    if (!rnic_buf_load32(dev, &eq->buf,
                         eq->dbrec_offset + offsetof(struct rnic_eq_dbrec, arm),
                         &arm)) {
        rnic_device_fatal(dev, RNIC_DEV_ERR_EQ_DMA);
        return false;
    }
    if (arm != index) {
        return false;
    }
    rnic_irq(dev, eq->vector);
    return true;
}

static bool is_fatal(struct rnic_device *dev)
{
    return rnic_reg_get(dev, RNIC_REG_STATUS) & RNIC_STATUS_FATAL;
}

/* ---- Completion events ---- */

static void ceq_hold_expired(struct rnic_timer *timer)
{
    struct rnic_cq *cq = rnic_owner(timer, struct rnic_cq, hold_timer);

    rnic_ceq_post(cq->dev, cq);
}

void rnic_ceq_post(struct rnic_device *dev, struct rnic_cq *cq)
{
    struct rnic_ceqe ceqe = { .cqn = GUINT32_TO_LE(cq->cqn) };
    struct rnic_qp *qp = rnic_qp_find(dev, cq->event_qpn);
    struct rnic_eq *eq = cq->eq;
    uint32_t fill;
    bool irq;

    if (is_fatal(dev) || cq->hold_timer.deadline_ns ||
        !eq_fill(dev, eq, &fill)) {
        return;
    }
    if (fill == eq->depth ||
        (cq->ceqe_written && cq->ceq_index - eq->ci < fill)) {
        rnic_timer_arm(dev, &cq->hold_timer, CEQ_RETRY_US, ceq_hold_expired);
        return;
    }
    cq->ceqe_written = true;
    cq->ceq_index = eq->pi;
    cq->counters.cq_events++;
    rnic_stat_inc(dev, RNIC_STAT_cq_events);
    rnic_trace(dev, event, "EQ %u entry %u: CQ %u has completions", eq->eqn,
               eq->pi, cq->cqn);
    irq = eq_write(dev, eq, (uint8_t *)&ceqe);
    cq->counters.interrupts += irq;
    if (qp) {
        /* Counted for the device where they are made */
        qp->stats[RNIC_STAT_cq_events]++;
        qp->stats[RNIC_STAT_interrupts] += irq;
    }
}

/* ---- Asynchronous events ---- */

static const char *event_name(unsigned type)
{
    switch (type) {
    case RNIC_EV_CONNECT_REQUEST:
        return "CONNECT_REQUEST";
    case RNIC_EV_CONNECT_REPLY:
        return "CONNECT_REPLY";
    case RNIC_EV_ESTABLISHED:
        return "ESTABLISHED";
    case RNIC_EV_DISCONNECT:
        return "DISCONNECT";
    case RNIC_EV_CLOSE:
        return "CLOSE";
    case RNIC_EV_LISTEN_ERROR:
        return "LISTEN_ERROR";
    case RNIC_EV_QP_FATAL:
        return "QP_FATAL";
    case RNIC_EV_QP_REQ_ERR:
        return "QP_REQ_ERR";
    case RNIC_EV_QP_ACCESS_ERR:
        return "QP_ACCESS_ERR";
    case RNIC_EV_SQ_DRAINED:
        return "SQ_DRAINED";
    case RNIC_EV_QP_LAST_WQE:
        return "QP_LAST_WQE";
    case RNIC_EV_CQ_ERR:
        return "CQ_ERR";
    case RNIC_EV_SRQ_LIMIT:
        return "SRQ_LIMIT";
    case RNIC_EV_SRQ_ERR:
        return "SRQ_ERR";
    case RNIC_EV_ADDR_CONFLICT:
        return "ADDR_CONFLICT";
    }
    return "event";
}

static bool event_is_of(const struct rnic_aeqe *event, bool is_qp)
{
    switch (GUINT16_FROM_LE(event->type)) {
    case RNIC_EV_CONNECT_REQUEST:
    case RNIC_EV_LISTEN_ERROR:
        return !is_qp;
    case RNIC_EV_CONNECT_REPLY:
    case RNIC_EV_ESTABLISHED:
    case RNIC_EV_DISCONNECT:
    case RNIC_EV_CLOSE:
    case RNIC_EV_QP_FATAL:
    case RNIC_EV_QP_REQ_ERR:
    case RNIC_EV_QP_ACCESS_ERR:
    case RNIC_EV_SQ_DRAINED:
    case RNIC_EV_QP_LAST_WQE:
        return is_qp;
    }
    return false;
}

/* True if it was written; false: no AEQ, no room, or fatal */
static bool aeq_write(struct rnic_device *dev, const void *octets, size_t size)
{
    struct rnic_eq *eq = dev->eqs[RNIC_AEQN];
    struct rnic_aeqe event = { 0 };
    uint32_t fill;

    if (!eq) {
        return false;
    }
    if (eq->pi - eq->ci == eq->depth &&
        (!eq_fill(dev, eq, &fill) || fill == eq->depth)) {
        return false;
    }
    memcpy(&event, octets, size);
    rnic_stat_inc(dev, RNIC_STAT_async_events);
    rnic_trace(dev, event, "EQ 0 entry %u: %s, id %u, status %u", eq->pi,
               event_name(GUINT16_FROM_LE(event.type)),
               GUINT32_FROM_LE(event.id), GUINT16_FROM_LE(event.status));
    eq_write(dev, eq, (uint8_t *)&event);
    return true;
}

static void drop_kept(struct rnic_aeq *aeq, struct kept_event *kept)
{
    g_queue_unlink(&aeq->kept, &kept->link);
    g_free(kept);
}

static void aeq_retry_expired(struct rnic_timer *timer)
{
    rnic_aeq_retry(timer->dev);
}

void rnic_aeq_retry(struct rnic_device *dev)
{
    struct rnic_aeq *aeq = dev->aeq;
    struct kept_event *kept;

    while ((kept = g_queue_peek_head(&aeq->kept)) && !is_fatal(dev) &&
           aeq_write(dev, kept->octets, kept->size)) {
        drop_kept(aeq, kept);
    }
    /* Without an AEQ there is nothing to wait for but CREATE_EQ */
    if (kept && !is_fatal(dev) && dev->eqs[RNIC_AEQN] &&
        !aeq->timer.deadline_ns) {
        rnic_timer_arm(dev, &aeq->timer, AEQ_RETRY_US, aeq_retry_expired);
    }
}

void rnic_aeq_post(struct rnic_device *dev, const struct rnic_aeqe *event)
{
    size_t pdata_len = MIN(GUINT16_FROM_LE(event->pdata_len), RNIC_PDATA_MAX);
    size_t size = offsetof(struct rnic_aeqe, pdata) + pdata_len;
    struct rnic_aeq *aeq = dev->aeq;
    struct kept_event *kept;

    if (is_fatal(dev)) {
        return;
    }
    if (g_queue_is_empty(&aeq->kept) && aeq_write(dev, event, size)) {
        return;
    }
    if (is_fatal(dev)) {
        return;
    }
    if (aeq->kept.length >= AEQ_KEPT_MAX) {
        rnic_device_fatal(dev, RNIC_DEV_ERR_AEQ_OVERFLOW);
        return;
    }
    kept = g_malloc(sizeof(*kept) + size);
    kept->link = (GList){ .data = kept };
    kept->size = size;
    memcpy(kept->octets, event, size);
    g_queue_push_tail_link(&aeq->kept, &kept->link);
    rnic_aeq_retry(dev);
}

static void forget(struct rnic_device *dev, uint32_t id,
                   bool (*matches)(const struct rnic_aeqe *, unsigned),
                   unsigned what)
{
    struct rnic_aeq *aeq = dev->aeq;
    GList *link = aeq->kept.head;

    while (link) {
        struct kept_event *kept = link->data;
        struct rnic_aeqe event;

        link = link->next;
        memcpy(&event, kept->octets, offsetof(struct rnic_aeqe, pdata));
        if (GUINT32_FROM_LE(event.id) == id && matches(&event, what)) {
            drop_kept(aeq, kept);
        }
    }
}

static bool matches_owner(const struct rnic_aeqe *event, unsigned is_qp)
{
    return event_is_of(event, is_qp);
}

static bool matches_type(const struct rnic_aeqe *event, unsigned type)
{
    return GUINT16_FROM_LE(event->type) == type;
}

void rnic_aeq_forget(struct rnic_device *dev, bool is_qp, uint32_t id)
{
    forget(dev, id, matches_owner, is_qp);
}

void rnic_aeq_forget_type(struct rnic_device *dev, enum rnic_event_type type,
                          uint32_t id)
{
    forget(dev, id, matches_type, type);
}

/* ---- Life ---- */

void rnic_eq_init(struct rnic_device *dev)
{
    dev->aeq = g_new0(struct rnic_aeq, 1);
    g_queue_init(&dev->aeq->kept);
}

void rnic_eq_fini(struct rnic_device *dev)
{
    rnic_eq_reset_all(dev);
    g_free(dev->aeq);
    dev->aeq = NULL;
}

void rnic_aeq_forget_all(struct rnic_device *dev)
{
    struct kept_event *kept;

    rnic_timer_cancel(&dev->aeq->timer);
    while ((kept = g_queue_peek_head(&dev->aeq->kept))) {
        drop_kept(dev->aeq, kept);
    }
}

void rnic_eq_reset_all(struct rnic_device *dev)
{
    unsigned i;

    rnic_aeq_forget_all(dev);
    for (i = 0; i < RNIC_MAX_EQ; i++) {
        if (dev->eqs[i]) {
            eq_free(dev, dev->eqs[i]);
        }
    }
}
