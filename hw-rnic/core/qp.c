/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queue pairs: commands, states, turns
 *
 *   IDLE --connected--> RTS --MODIFY_QP--> CLOSING --sent, or time--> ERROR
 *                        |  --Terminate--> TERMINATE --sent, or time--> ERROR
 *                        '--lost, closed, MODIFY_QP--> ERROR
 *   IDLE --setup failed, MODIFY_QP--> ERROR
 *
 * ERROR is final; entering it flushes what is posted, and so does each
 * doorbell after it.
 */
#include "cm.h"
#include "qp-private.h"

#include <string.h>
#include <sys/epoll.h>

/* How long CLOSING may take to finish what was posted before it */
#define CLOSING_US   (5 * 1000 * 1000)
/* How long a Terminate may wait for TCP to take it */
#define TERMINATE_US (1000 * 1000)
/* QPs that have their turn before the loop looks at other things */
#define READY_BATCH  64

static const char *state_str(enum rnic_qp_state state)
{
    static const char *const names[] = {
        "RESET", "IDLE", "RTS", "CLOSING", "TERMINATE", "ERROR",
    };

    return names[state];
}

struct rnic_qp *rnic_qp_find(struct rnic_device *dev, uint32_t qpn)
{
    return qpn < RNIC_MAX_QP ? dev->qps[qpn] : NULL;
}

/* ---- Status in guest memory ---- */

void rnic_qp_status_gone(struct rnic_qp *qp)
{
    if (!qp->status_gone) {
        qp->status_gone = true;
        rnic_guest_error(
            qp->dev, "qpn %u: the status at 0x%" PRIx64 " is not RAM any more",
            qp->qpn, qp->status_addr);
    }
    rnic_fault_local(qp, RNIC_EV_QP_FATAL);
}

static void status_store(struct rnic_qp *qp, size_t field, uint32_t value)
{
    if (!rnic_dma_store32(qp->dev, qp->status_addr + field, value)) {
        rnic_qp_status_gone(qp);
    }
}

/* Before the event that announces it. What is posted after a consumer saw
 * the state is announced by a doorbell; the fence pairs with the consumer's,
 * so that what it posted before is seen when the indices are read next. */
static void state_set(struct rnic_qp *qp, enum rnic_qp_state state)
{
    rnic_trace(qp->dev, qp_state, "qpn %u %s -> %s", qp->qpn,
               state_str(qp->state), state_str(state));
    qp->state = state;
    status_store(qp, offsetof(struct rnic_qp_status, state), state);
    rnic_dma_fence(qp->dev);
}

/* ---- Turns ---- */

void rnic_qp_make_ready(struct rnic_qp *qp)
{
    if (!qp->ready) {
        qp->ready = true;
        g_queue_push_tail_link(&qp->dev->tx_ready, &qp->ready_link);
    }
}

static void not_ready(struct rnic_qp *qp)
{
    if (qp->ready) {
        qp->ready = false;
        g_queue_unlink(&qp->dev->tx_ready, &qp->ready_link);
    }
}

static void event_post(struct rnic_qp *qp, enum rnic_event_type type,
                       uint32_t term)
{
    struct rnic_aeqe event = {
        .type = GUINT16_TO_LE(type),
        .id = GUINT32_TO_LE(qp->qpn),
        .term = GUINT32_TO_LE(term),
    };

    rnic_aeq_post(qp->dev, &event);
}

/* The last thing before ERROR is announced */
static void flush(struct rnic_qp *qp)
{
    rnic_wq_flush(qp);
    if (qp->drain_event) {
        qp->drain_event = false;
        event_post(qp, RNIC_EV_SQ_DRAINED, 0);
    }
    if (qp->srq) {
        event_post(qp, RNIC_EV_QP_LAST_WQE, 0);
    }
    if (qp->fault && qp->fault->event) {
        event_post(qp, qp->fault->event, qp->term);
    }
}

/* IDLE -> ERROR if something was posted that may not be there yet. True: then
 * the end of the connection is to be told. */
static bool fail_early_send(struct rnic_qp *qp)
{
    uint32_t pi = qp->sq_pi;

    if (!(qp->flags & RNIC_QP_ERROR_PRE_RTS) || !rnic_sq_moved(qp, &pi)) {
        return false;
    }
    rnic_stat_inc(qp->dev, RNIC_STAT_early_sends);
    rnic_guest_error(qp->dev,
                     "qpn %u: its SQ producer index moved to %u before "
                     "the connection was established, which this QP forbids: "
                     "the connection fails, and nothing is sent",
                     qp->qpn, pi);
    rnic_fault_local(qp, RNIC_EV_QP_FATAL);
    state_set(qp, RNIC_QPS_ERROR);
    flush(qp);
    return true;
}

/* Any state with a stream -> ERROR */
static void end(struct rnic_qp *qp, bool graceful, bool by_peer,
                enum rnic_cm_status why)
{
    struct rnic_stream *stream = g_steal_pointer(&qp->stream);

    rnic_timer_cancel(&qp->end_timer);
    /* A FIN within an FPDU would look like a protocol error */
    rnic_stream_close(stream, graceful && !rnic_tx_mid_fpdu(qp));
    state_set(qp, RNIC_QPS_ERROR);
    flush(qp);
    rnic_cm_closed(qp->dev, qp, by_peer, why);
    rnic_tx_free(qp);
    rnic_rx_free(qp);
    not_ready(qp);
}

static enum rnic_cm_status fault_why(const struct rnic_fault *fault)
{
    switch (fault->kind) {
    case RNIC_FAULT_WIRE:
        return RNIC_CM_PROTOCOL;
    case RNIC_FAULT_LOCAL:
        return RNIC_CM_LOCAL_ERROR;
    case RNIC_FAULT_TERMINATED:
        return RNIC_CM_RESET;
    case RNIC_FAULT_LOST:
        return fault->lost ? rnic_cm_status_of_errno(fault->lost)
                           : RNIC_CM_RESET;
    case RNIC_FAULT_ASKED:
    case RNIC_FAULT_CLOSED:
        break;
    }
    return RNIC_CM_OK;
}

/* TCP takes what is kept, or not; in TERMINATE */
static void terminate_go_on(struct rnic_qp *qp)
{
    int done = rnic_tx_push_tail(qp);

    if (done) {
        end(qp, done > 0, false, fault_why(qp->fault));
    }
}

/* CLOSING or TERMINATE took too long */
static void end_timeout(struct rnic_timer *timer)
{
    struct rnic_qp *qp =
        (struct rnic_qp *)((char *)timer - offsetof(struct rnic_qp, end_timer));

    if (qp->state == RNIC_QPS_TERMINATE) {
        /* It may be the engine that was held up, and TCP takes it by now */
        terminate_go_on(qp);
        if (!qp->stream) {
            return;
        }
    }
    rnic_trace(qp->dev, qp_state, "qpn %u: %s took too long", qp->qpn,
               state_str(qp->state));
    end(qp, true, false, qp->fault ? fault_why(qp->fault) : RNIC_CM_OK);
}

/* Sends the Terminate of the fault, at the end of a begun FPDU */
static void terminate(struct rnic_qp *qp)
{
    const struct rnic_fault *fault = qp->fault;
    uint8_t ulpdu[RNIC_TERM_SIZE_MAX];
    size_t len;

    len = rnic_term_encode(
        fault->err, fault->offender_len ? fault->offender : NULL,
        fault->offender_len, fault->offender_len ? fault->ulpdu_len : 0, ulpdu);
    /* A Terminate is not answered; and before the peer's first FPDU nothing
     * may be sent, but what the peer's own FPDU caused */
    if (!len || (rnic_tx_gated(qp) && fault->kind != RNIC_FAULT_WIRE)) {
        end(qp, true, false, fault_why(fault));
        return;
    }
    qp->term = fault->term;
    rnic_qp_stat(qp, RNIC_STAT_term_sent, 1);
    rnic_trace(
        qp->dev, term, "qpn %u sends a Terminate: %s (%u/%u/%02x)", qp->qpn,
        rnic_term_str(fault->term >> 16 & 0xff, fault->term >> 8 & 0xff,
                      fault->term & 0xff),
        fault->term >> 16 & 0xff, fault->term >> 8 & 0xff, fault->term & 0xff);
    rnic_tx_terminate(qp, ulpdu, len);
    state_set(qp, RNIC_QPS_TERMINATE);
    switch (rnic_tx_push_tail(qp)) {
    case 0:
        rnic_timer_arm(qp->dev, &qp->end_timer, TERMINATE_US, end_timeout);
        rnic_stream_want(qp->stream, EPOLLOUT);
        break;
    case 1:
        end(qp, true, false, fault_why(fault));
        break;
    default:
        end(qp, false, false, fault_why(fault));
        break;
    }
}

void rnic_qp_settle(struct rnic_qp *qp)
{
    const struct rnic_fault *fault = qp->fault;

    if (!fault ||
        (qp->state != RNIC_QPS_RTS && qp->state != RNIC_QPS_CLOSING)) {
        return;
    }
    switch (fault->kind) {
    case RNIC_FAULT_WIRE:
    case RNIC_FAULT_LOCAL:
    case RNIC_FAULT_ASKED:
        terminate(qp);
        break;
    case RNIC_FAULT_TERMINATED:
        qp->term = fault->term;
        end(qp, true, true, fault_why(fault));
        break;
    case RNIC_FAULT_LOST:
        end(qp, false, true, fault_why(fault));
        break;
    case RNIC_FAULT_CLOSED:
        end(qp, true, true, fault_why(fault));
        break;
    }
}

/* The engine has something to do for it: once for each wake-up */
static void note_awake(struct rnic_qp *qp)
{
    uint64_t wakeup = rnic_device_stat(qp->dev, RNIC_STAT_wakeups);

    if (qp->wakeup != wakeup) {
        qp->wakeup = wakeup;
        qp->stats[RNIC_STAT_wakeups]++;
    }
}

static void stream_ready(struct rnic_stream *stream, uint32_t events)
{
    struct rnic_qp *qp = stream->owner;

    note_awake(qp);
    if (qp->state == RNIC_QPS_TERMINATE) {
        terminate_go_on(qp);
        return;
    }
    if (events & ~EPOLLOUT) {
        rnic_rx_turn(qp);
    }
    if (rnic_qp_running(qp)) {
        if (events & EPOLLOUT) {
            rnic_tx_writable(qp);
        }
        /* Responses, or work requests that waited for a Read, or the end of
         * CLOSING may be due */
        if (rnic_tx_wants_turn(qp)) {
            rnic_qp_make_ready(qp);
        }
    }
    rnic_qp_settle(qp);
}

/* One QP's turn; true: wants another */
static bool turn(struct rnic_qp *qp)
{
    bool more = false;

    if (qp->state == RNIC_QPS_ERROR) {
        rnic_wq_flush(qp);
        return false;
    }
    if (!qp->stream || qp->state == RNIC_QPS_TERMINATE) {
        return false;
    }
    if (rnic_qp_running(qp)) {
        more = rnic_tx_turn(qp);
    }
    if (qp->fault) {
        rnic_qp_settle(qp);
        return false;
    }
    if (qp->state == RNIC_QPS_CLOSING && rnic_tx_idle(qp)) {
        end(qp, true, false, RNIC_CM_OK);
        return false;
    }
    return more;
}

bool rnic_qp_run_ready(struct rnic_device *dev)
{
    unsigned n = MIN(dev->tx_ready.length, READY_BATCH);

    while (n--) {
        GList *link = g_queue_pop_head_link(&dev->tx_ready);
        struct rnic_qp *qp;

        /* A turn may have made others unready */
        if (!link) {
            break;
        }
        qp = link->data;
        qp->ready = false;
        if (turn(qp)) {
            rnic_qp_make_ready(qp);
        }
    }
    return dev->tx_ready.length;
}

void rnic_qp_kick(struct rnic_device *dev, uint32_t qpn, struct rnic_uctx *uctx)
{
    struct rnic_qp *qp = rnic_qp_find(dev, qpn);

    if (!qp || qp->uctx != uctx) {
        rnic_guest_error(dev, "context %u rang for QP %u, which %s", uctx->id,
                         qpn, qp ? "is not its own" : "does not exist");
        return;
    }
    note_awake(qp);
    if (qp->state == RNIC_QPS_RTS || qp->state == RNIC_QPS_ERROR) {
        rnic_qp_make_ready(qp);
    } else if (qp->state == RNIC_QPS_IDLE && fail_early_send(qp)) {
        rnic_cm_closed(dev, qp, false, RNIC_CM_EARLY_SEND);
    }
}

/* ---- The gate of RFC 5044 section 7.1.2 ---- */

void rnic_qp_note_gated(struct rnic_qp *qp)
{
    rnic_qp_stat(qp, RNIC_STAT_gated, 1);
    rnic_trace(qp->dev, qp_gated,
               "qpn %u has something to send, and waits "
               "for the peer's first FPDU: a responder may not send before "
               "it (RFC 5044 section 7.1.2)",
               qp->qpn);
}

void rnic_qp_open_gate(struct rnic_qp *qp)
{
    if (rnic_tx_open_gate(qp)) {
        status_store(qp, offsetof(struct rnic_qp_status, gated), 0);
        rnic_qp_make_ready(qp);
    }
    rnic_cm_first_fpdu(qp->dev, qp);
}

/* ---- From the connection manager ---- */

void rnic_qp_connected(struct rnic_qp *qp, struct rnic_stream *stream,
                       const struct rnic_qp_params *params)
{
    unsigned recs = MIN(MAX(qp->sq_depth, 1), RNIC_SQ_RECS);

    if (qp->state != RNIC_QPS_IDLE) {
        rnic_stream_close(stream, false);
        return;
    }
    /* Before the state is published: what a consumer posts because it sees
     * RTS is not early */
    if (fail_early_send(qp)) {
        rnic_stream_close(stream, true);
        rnic_cm_closed(qp->dev, qp, false, RNIC_CM_EARLY_SEND);
        return;
    }
    qp->params = *params;
    qp->ird = params->ird;
    qp->ord = params->ord;
    qp->stream = stream;
    stream->owner = qp;
    stream->ready = stream_ready;
    qp->sq = g_malloc0(sizeof(*qp->sq) + recs * sizeof(qp->sq->recs[0]));
    qp->sq->rec_size = recs;
    rnic_tx_init(qp);
    rnic_rx_init(qp);

    status_store(qp, offsetof(struct rnic_qp_status, gated), rnic_tx_gated(qp));
    state_set(qp, RNIC_QPS_RTS);
    /* Sending starts at the next turn, so that the event that announces the
     * connection comes before anything that this causes */
    rnic_tx_push_rtr(qp);
    rnic_stream_want(stream, EPOLLIN);
    rnic_qp_make_ready(qp);
}

bool rnic_qp_nudge(struct rnic_qp *qp)
{
    bool speaks = rnic_rx_opened(qp);

    if (qp->state != RNIC_QPS_RTS) {
        return false;
    }
    if (rnic_tx_started(qp)) {
        rnic_trace(qp->dev, cm, "QP %u: the peer %s, an empty Write", qp->qpn,
                   speaks ? "has begun to speak" : "is silent");
        rnic_tx_push_empty_write(qp);
        rnic_qp_make_ready(qp);
    }
    return !speaks;
}

void rnic_qp_fail(struct rnic_qp *qp)
{
    if (qp->stream) {
        end(qp, true, false, RNIC_CM_ADDR_GONE);
    } else if (qp->state == RNIC_QPS_IDLE) {
        state_set(qp, RNIC_QPS_ERROR);
        flush(qp);
    }
}

/* ---- Commands ---- */

static bool depth_valid(uint32_t depth)
{
    return depth <= RNIC_MAX_QP_WR && !(depth & (depth - 1));
}

static bool stride_valid(uint32_t depth, uint32_t stride)
{
    return !depth ||
           (stride >= RNIC_WQE_STRIDE_MIN && stride <= RNIC_WQE_STRIDE_MAX &&
            !(stride & (stride - 1)));
}

static bool range_valid(const struct rnic_buf *buf, uint32_t offset,
                        uint64_t length)
{
    return !(offset & 63) && length <= buf->length &&
           offset <= buf->length - length;
}

static bool apart(uint64_t a, uint64_t a_len, uint64_t b, uint64_t b_len)
{
    return !a_len || !b_len || a + a_len <= b || b + b_len <= a;
}

/* Fields that need no object; those of @qp are filled in */
static enum rnic_admin_status
create_fields(struct rnic_qp *qp, const struct rnic_cmd_create_qp *cmd)
{
    struct rnic_device *dev = qp->dev;
    struct rnic_qp_status status = {
        .state = GUINT32_TO_LE(RNIC_QPS_IDLE),
    };
    uint64_t sq_len, rq_len, contig;
    enum rnic_admin_status ret;

    qp->qpn = GUINT32_FROM_LE(cmd->qpn);
    qp->pdn = GUINT32_FROM_LE(cmd->pdn);
    qp->flags = GUINT32_FROM_LE(cmd->flags);
    qp->sq_stride = GUINT16_FROM_LE(cmd->sq_stride);
    qp->rq_stride = GUINT16_FROM_LE(cmd->rq_stride);
    qp->sq_depth = GUINT32_FROM_LE(cmd->sq_depth);
    qp->rq_depth = GUINT32_FROM_LE(cmd->rq_depth);
    qp->sq_offset = GUINT32_FROM_LE(cmd->sq_offset);
    qp->rq_offset = GUINT32_FROM_LE(cmd->rq_offset);
    qp->dbrec_offset = GUINT32_FROM_LE(cmd->dbrec_offset);
    qp->status_addr = GUINT64_FROM_LE(cmd->status_addr);
    qp->state = RNIC_QPS_IDLE;

    if (!qp->qpn || qp->qpn >= RNIC_MAX_QP || !qp->pdn ||
        qp->pdn >= RNIC_MAX_PD ||
        (qp->flags &
         ~(RNIC_QP_KERNEL | RNIC_QP_SIG_ALL | RNIC_QP_ERROR_PRE_RTS)) ||
        ((qp->flags & RNIC_QP_KERNEL) && cmd->uctx) ||
        !depth_valid(qp->sq_depth) || !depth_valid(qp->rq_depth) ||
        !stride_valid(qp->sq_depth, qp->sq_stride) ||
        !stride_valid(qp->rq_depth, qp->rq_stride) ||
        (cmd->srqn && qp->rq_depth) || (qp->status_addr & 15)) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    ret = rnic_buf_init(dev, &qp->buf, &cmd->buf, RNIC_MAX_RING_SIZE);
    if (ret != RNIC_ADMIN_OK) {
        return ret;
    }
    sq_len = (uint64_t)qp->sq_depth * qp->sq_stride;
    rq_len = (uint64_t)qp->rq_depth * qp->rq_stride;
    if (!range_valid(&qp->buf, qp->sq_offset, sq_len) ||
        !range_valid(&qp->buf, qp->rq_offset, rq_len) ||
        !range_valid(&qp->buf, qp->dbrec_offset,
                     sizeof(struct rnic_qp_dbrec)) ||
        !apart(qp->sq_offset, sq_len, qp->rq_offset, rq_len) ||
        !apart(qp->sq_offset, sq_len, qp->dbrec_offset,
               sizeof(struct rnic_qp_dbrec)) ||
        !apart(qp->rq_offset, rq_len, qp->dbrec_offset,
               sizeof(struct rnic_qp_dbrec))) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    qp->dbrec_addr = rnic_buf_addr(&qp->buf, qp->dbrec_offset, &contig);
    if (qp->dbrec_addr & 63) {
        return RNIC_ADMIN_BAD_ADDRESS;
    }
    if (!rnic_dma_write(dev, qp->status_addr, &status, sizeof(status))) {
        return RNIC_ADMIN_BAD_ADDRESS;
    }
    return RNIC_ADMIN_OK;
}

enum rnic_admin_status rnic_qp_create(struct rnic_device *dev,
                                      const struct rnic_cmd_create_qp *cmd)
{
    uint32_t srqn = GUINT32_FROM_LE(cmd->srqn);
    enum rnic_admin_status ret;
    struct rnic_qp *qp;

    if (rnic_qp_find(dev, GUINT32_FROM_LE(cmd->qpn))) {
        return RNIC_ADMIN_IN_USE;
    }
    qp = g_new0(struct rnic_qp, 1);
    qp->dev = dev;
    qp->uctx = rnic_uctx_find(dev, GUINT32_FROM_LE(cmd->uctx));
    qp->send_cq = rnic_cq_find(dev, GUINT32_FROM_LE(cmd->send_cqn));
    qp->recv_cq = rnic_cq_find(dev, GUINT32_FROM_LE(cmd->recv_cqn));
    qp->srq = srqn ? rnic_srq_find(dev, srqn) : NULL;
    /* All of one context: a process reaches only what is its own */
    if (!qp->uctx || !qp->send_cq || qp->send_cq->uctx != qp->uctx ||
        !qp->recv_cq || qp->recv_cq->uctx != qp->uctx ||
        (srqn && (!qp->srq || qp->srq->uctx != qp->uctx))) {
        g_free(qp);
        return RNIC_ADMIN_BAD_ID;
    }
    ret = create_fields(qp, cmd);
    if (ret != RNIC_ADMIN_OK) {
        rnic_buf_clear(&qp->buf);
        g_free(qp);
        return ret;
    }
    qp->uctx->refs++;
    qp->send_cq->refs++;
    qp->recv_cq->refs++;
    if (qp->srq) {
        qp->srq->refs++;
    }
    qp->ready_link.data = qp;
    dev->qps[qp->qpn] = qp;
    rnic_scan_start(dev);
    rnic_trace(dev, qp_state, "qpn %u RESET -> IDLE", qp->qpn);
    return RNIC_ADMIN_OK;
}

static enum rnic_admin_status modify_closing(struct rnic_qp *qp)
{
    if (qp->state != RNIC_QPS_RTS) {
        return RNIC_ADMIN_BAD_STATE;
    }
    if (!rnic_sq_load_pi(qp)) {
        rnic_fault_local(qp, RNIC_EV_QP_FATAL);
        rnic_qp_settle(qp);
        return RNIC_ADMIN_OK;
    }
    /* What is posted until now is executed, if that does not take for ever */
    qp->closing_pi = qp->sq_pi;
    qp->drain_event = qp->sq_pi != qp->sq_ci;
    state_set(qp, RNIC_QPS_CLOSING);
    rnic_timer_arm(qp->dev, &qp->end_timer, CLOSING_US, end_timeout);
    rnic_qp_make_ready(qp);
    return RNIC_ADMIN_OK;
}

static enum rnic_admin_status modify_error(struct rnic_qp *qp)
{
    if (qp->state == RNIC_QPS_IDLE) {
        state_set(qp, RNIC_QPS_ERROR);
        flush(qp);
        if (qp->conn) {
            rnic_cm_abort(qp->dev, qp, false);
        }
    } else if (qp->stream) {
        end(qp, true, false, RNIC_CM_OK);
    }
    return RNIC_ADMIN_OK;
}

enum rnic_admin_status rnic_qp_modify(struct rnic_device *dev,
                                      const struct rnic_cmd_modify_qp *cmd)
{
    struct rnic_qp *qp = rnic_qp_find(dev, GUINT32_FROM_LE(cmd->qpn));

    if (!qp) {
        return RNIC_ADMIN_BAD_ID;
    }
    switch (GUINT32_FROM_LE(cmd->state)) {
    case RNIC_QPS_CLOSING:
        return modify_closing(qp);
    case RNIC_QPS_TERMINATE:
        if (qp->state != RNIC_QPS_RTS && qp->state != RNIC_QPS_CLOSING) {
            return RNIC_ADMIN_BAD_STATE;
        }
        rnic_fault_asked(qp);
        rnic_qp_settle(qp);
        return RNIC_ADMIN_OK;
    case RNIC_QPS_ERROR:
        return modify_error(qp);
    default:
        return RNIC_ADMIN_BAD_PARAM;
    }
}

enum rnic_admin_status rnic_qp_query(struct rnic_device *dev, uint32_t qpn,
                                     struct rnic_resp_query_qp *resp)
{
    const struct rnic_qp *qp = rnic_qp_find(dev, qpn);

    if (!qp) {
        return RNIC_ADMIN_BAD_ID;
    }
    *resp = (struct rnic_resp_query_qp){
        .state = GUINT32_TO_LE(qp->state),
        .sq_pi = GUINT32_TO_LE(qp->sq_pi),
        .sq_ci = GUINT32_TO_LE(qp->sq_ci),
        .rq_pi = GUINT32_TO_LE(qp->rq_pi),
        .rq_ci = GUINT32_TO_LE(qp->rq_ci),
        .ird = GUINT16_TO_LE(qp->ird),
        .ord = GUINT16_TO_LE(qp->ord),
        .term = GUINT32_TO_LE(qp->term),
    };
    return RNIC_ADMIN_OK;
}

/* @graceful: if no FPDU is cut by it */
static void qp_free(struct rnic_qp *qp, bool graceful)
{
    rnic_timer_cancel(&qp->end_timer);
    not_ready(qp);
    if (qp->stream) {
        rnic_stream_close(qp->stream, graceful && !rnic_tx_mid_fpdu(qp));
    }
    rnic_tx_free(qp);
    rnic_rx_free(qp);
    g_free(qp->sq);
    g_free(qp->fault);
    rnic_buf_clear(&qp->buf);
    qp->dev->qps[qp->qpn] = NULL;
    g_free(qp);
}

enum rnic_admin_status rnic_qp_destroy(struct rnic_device *dev, uint32_t qpn)
{
    struct rnic_qp *qp = rnic_qp_find(dev, qpn);

    if (!qp) {
        return RNIC_ADMIN_BAD_ID;
    }
    if (qp->conn) {
        rnic_cm_abort(dev, qp, true);
    }
    qp->uctx->refs--;
    qp->send_cq->refs--;
    qp->recv_cq->refs--;
    if (qp->srq) {
        qp->srq->refs--;
    }
    rnic_trace(dev, qp_state, "qpn %u %s -> RESET", qpn, state_str(qp->state));
    qp_free(qp, true);
    rnic_aeq_forget(dev, true, qpn);
    return RNIC_ADMIN_OK;
}

void rnic_qp_reset_all(struct rnic_device *dev)
{
    unsigned i;

    /* The objects that they refer to go as well: their counts do not matter */
    for (i = 0; i < RNIC_MAX_QP; i++) {
        if (dev->qps[i]) {
            qp_free(dev->qps[i], false);
        }
    }
    rnic_tx_scratch_free(dev);
}
