/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The background scan (property sq-scan-ms): an engine that looks at producer
 * indices on its own, as hardware may. What it finds moved counts as rung for.
 *
 * It reads doorbell records and no WQE. A pass over all QPs is cut into turns
 * of a bounded number; passes end when no QP is left.
 */
#include "qp.h"

/* QPs that are looked at, and QPNs that are passed over, in one turn */
#define TURN_QPS  64
#define TURN_QPNS 4096

/* Whether the word differs from *@seen; not RAM counts as moved, once */
static bool moved(struct rnic_qp *qp, size_t field, uint32_t *seen)
{
    uint32_t pi = *seen + 1;

    if (rnic_dma_load32(qp->dev, qp->dbrec_addr + field, &pi) && pi == *seen) {
        return false;
    }
    *seen = pi;
    return true;
}

static void scan(struct rnic_device *dev, struct rnic_qp *qp)
{
    bool sq =
        !qp->sq_broken &&
        moved(qp, offsetof(struct rnic_qp_dbrec, sq_pi), &qp->scan_sq_pi) &&
        qp->scan_sq_pi != qp->sq_pi;
    /* Receives are looked for when they are needed, but for flushing */
    bool rq =
        qp->state == RNIC_QPS_ERROR && !qp->srq && !qp->rq_broken &&
        moved(qp, offsetof(struct rnic_qp_dbrec, rq_pi), &qp->scan_rq_pi) &&
        qp->scan_rq_pi != qp->rq_pi;

    if (sq || rq) {
        rnic_stat_inc(dev, RNIC_STAT_scan_finds);
        rnic_trace(dev, doorbell,
                   "the scan finds %s producer index of QP %u "
                   "at %u",
                   sq ? "the SQ" : "the RQ", qp->qpn,
                   sq ? qp->scan_sq_pi : qp->scan_rq_pi);
        rnic_qp_kick(dev, qp->qpn, qp->uctx);
    }
}

static void scan_due(struct rnic_timer *timer)
{
    struct rnic_device *dev = rnic_owner(timer, struct rnic_device, scan_timer);
    uint32_t end = MIN(dev->scan_next + TURN_QPNS, RNIC_MAX_QP);
    unsigned count = 0;

    for (; dev->scan_next < end && count < TURN_QPS; dev->scan_next++) {
        struct rnic_qp *qp = dev->qps[dev->scan_next];

        if (qp) {
            scan(dev, qp);
            count++;
        }
    }
    dev->scan_found |= count > 0;
    if (dev->scan_next < RNIC_MAX_QP) {
        rnic_timer_arm(dev, timer, 0, scan_due);
    } else if (dev->scan_found) {
        rnic_scan_stop(dev);
        rnic_scan_start(dev);
    }
}

void rnic_scan_start(struct rnic_device *dev)
{
    /* A pass that is under way may be past it: there is to be another one */
    dev->scan_found = true;
    if (dev->config.sq_scan_ms && !dev->scan_timer.deadline_ns) {
        dev->scan_next = 0;
        dev->scan_found = false;
        rnic_timer_arm(dev, &dev->scan_timer,
                       dev->config.sq_scan_ms * UINT64_C(1000), scan_due);
    }
}

void rnic_scan_stop(struct rnic_device *dev)
{
    rnic_timer_cancel(&dev->scan_timer);
}
