/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sending: which message comes next
 *
 * A connection has one queue of messages. Work requests of the SQ and
 * responses to the peer's Reads and atomics enter it in turn; a work request
 * that must wait (for a fence, or for ORD) waits outside, so that responses
 * pass it.
 */
#include "tx.h"

#include <string.h>
#include <sys/epoll.h>

/* Octets that one QP sends before the next one has its turn */
#define TURN_OCTETS (1024 * 1024)

/* Messages that are kept to be used again; none where a checker of memory is to
 * see the use of one that is gone */
#ifdef __SANITIZE_ADDRESS__
#define SPARE_MAX 0
#else
#define SPARE_MAX 256
#endif

static void msg_append(struct rnic_tx *tx, struct rnic_tx_msg *msg)
{
    msg->next = NULL;
    *tx->tail = msg;
    tx->tail = &msg->next;
}

static struct rnic_tx_msg *msg_new(struct rnic_qp *qp, enum rnic_tx_kind kind)
{
    struct rnic_qp_scratch *s = qp->dev->qp_scratch;
    struct rnic_tx_msg *msg = s->spare;

    if (msg) {
        s->spare = msg->next;
        s->num_spare--;
    } else {
        msg = g_new(struct rnic_tx_msg, 1);
    }
    /* The work request behind it is filled in by who needs it */
    memset(msg, 0, offsetof(struct rnic_tx_msg, wr));
    msg->kind = kind;
    return msg;
}

static void msg_free(struct rnic_qp *qp, struct rnic_tx_msg *msg)
{
    struct rnic_qp_scratch *s = qp->dev->qp_scratch;

    if (s->num_spare + 1 <= SPARE_MAX) {
        msg->next = s->spare;
        s->spare = msg;
        s->num_spare++;
    } else {
        g_free(msg);
    }
}

static void staged_free(struct rnic_qp *qp)
{
    if (qp->tx->staged) {
        msg_free(qp, g_steal_pointer(&qp->tx->staged));
    }
}

static void msgs_drop(struct rnic_qp *qp)
{
    struct rnic_tx *tx = qp->tx;

    while (tx->head) {
        struct rnic_tx_msg *msg = tx->head;

        tx->head = msg->next;
        msg_free(qp, msg);
    }
    tx->tail = &tx->head;
    staged_free(qp);
    tx->kept_msg = NULL;
}

void rnic_tx_init(struct rnic_qp *qp)
{
    struct rnic_tx *tx = g_new0(struct rnic_tx, 1);

    tx->tail = &tx->head;
    tx->send_msn = 1;
    tx->read_msn = 1;
    tx->atomic_msn = 1;
    tx->atomic_id = 1;
    /* One more than ORD and IRD: a Read as ready-to-receive message is
     * outside of them (RFC 6581 section 9.2) */
    tx->read_size = qp->ord + 1;
    tx->reads = g_new0(struct rnic_read, tx->read_size);
    tx->inbound_size = qp->ird;
    if (qp->params.await_rtr && !tx->inbound_size) {
        tx->inbound_size = 1;
    }
    tx->inbound = g_new0(struct rnic_inbound_read, MAX(tx->inbound_size, 1));
    tx->gated = !qp->params.initiator &&
                (qp->params.await_rtr || qp->params.hold_first ||
                 qp->dev->config.mpa_gate_strict);
    /* Nothing that a user should hear of: it is over soon */
    tx->gate_noted = qp->params.hold_first;
    qp->tx = tx;
    if (!qp->dev->qp_scratch) {
        qp->dev->qp_scratch = g_malloc(sizeof(struct rnic_qp_scratch));
        qp->dev->qp_scratch->spare = NULL;
        qp->dev->qp_scratch->num_spare = 0;
    }
}

void rnic_tx_scratch_free(struct rnic_device *dev)
{
    struct rnic_qp_scratch *s = g_steal_pointer(&dev->qp_scratch);

    while (s && s->spare) {
        struct rnic_tx_msg *msg = s->spare;

        s->spare = msg->next;
        g_free(msg);
    }
    g_free(s);
}

void rnic_tx_free(struct rnic_qp *qp)
{
    if (qp->tx) {
        msgs_drop(qp);
        g_free(qp->tx->kept);
        g_free(qp->tx->reads);
        g_free(qp->tx->inbound);
        g_clear_pointer(&qp->tx, g_free);
    }
}

/* ---- Reads and atomics of ours ---- */

static struct rnic_read *read_push(struct rnic_tx *tx, struct rnic_sq_rec *rec)
{
    struct rnic_read *read =
        &tx->reads[(tx->read_head + tx->read_count++) % tx->read_size];

    *read = (struct rnic_read){ .rec = rec };
    return read;
}

static bool read_room(struct rnic_qp *qp)
{
    return qp->tx->read_count - qp->tx->rtr_read < qp->ord;
}

struct rnic_read *rnic_tx_oldest_read(struct rnic_qp *qp)
{
    struct rnic_tx *tx = qp->tx;

    if (!tx->read_count || !tx->reads[tx->read_head].sent) {
        return NULL;
    }
    return &tx->reads[tx->read_head];
}

struct rnic_read *rnic_tx_oldest_of(struct rnic_qp *qp, bool atomic)
{
    struct rnic_tx *tx = qp->tx;
    unsigned i;

    for (i = 0; i < tx->read_count; i++) {
        struct rnic_read *read =
            &tx->reads[(tx->read_head + i) % tx->read_size];

        if (read->sent && read->atomic == atomic) {
            return read;
        }
    }
    return NULL;
}

bool rnic_tx_used_rfc7306(struct rnic_qp *qp)
{
    return qp->tx->imm_sent || rnic_tx_oldest_of(qp, true);
}

void rnic_tx_read_done(struct rnic_qp *qp)
{
    struct rnic_tx *tx = qp->tx;
    struct rnic_read *read = &tx->reads[tx->read_head];
    struct rnic_sq_rec *rec = read->rec;

    tx->read_head = (tx->read_head + 1) % tx->read_size;
    tx->read_count--;
    if (!rec) {
        tx->rtr_read = false;
        return;
    }
    rec->byte_len += read->placed;
    if (--rec->reads_left) {
        return;
    }
    if (rec->opcode == RNIC_WR_READ_INV) {
        enum rnic_mr_error error =
            rnic_mr_invalidate(qp->dev, qp->pdn, rec->inv_stag, false);

        if (error != RNIC_MR_OK) {
            rnic_guest_error(qp->dev,
                             "qpn %u: READ_INV (wr_id 0x%" PRIx64
                             ") cannot invalidate STag 0x%08x",
                             qp->qpn, rec->wr_id, rec->inv_stag);
            rec->status = RNIC_WC_MW_BIND_ERR;
            rnic_fault_local(qp, 0);
            return;
        }
    }
    rec->done = true;
    rnic_sq_complete(qp);
}

/* ---- Reads and atomics of the peer ---- */

bool rnic_tx_queue_response(struct rnic_qp *qp,
                            const struct rnic_inbound_read *in)
{
    struct rnic_tx *tx = qp->tx;

    if (tx->inbound_count + tx->inbound_active >= tx->inbound_size) {
        return false;
    }
    tx->inbound[(tx->inbound_head + tx->inbound_count++) % tx->inbound_size] =
        *in;
    rnic_qp_make_ready(qp);
    return true;
}

/* What was asked for before the request is answered first */
static bool response_fail(struct rnic_qp *qp,
                          const struct rnic_inbound_read *in,
                          enum rnic_wire_err err)
{
    if (!qp->tx->head) {
        rnic_fault_wire(qp, err, in->ulpdu, sizeof(in->ulpdu),
                        in->atomic ? RNIC_RDMAP_ATOMIC_REQUEST_SIZE
                                   : RNIC_RDMAP_READ_REQUEST_SIZE);
    }
    return false;
}

static void response_append(struct rnic_tx *tx, struct rnic_tx_msg *msg)
{
    tx->inbound_head = (tx->inbound_head + 1) % tx->inbound_size;
    tx->inbound_count--;
    tx->inbound_active++;
    msg_append(tx, msg);
}

static bool next_atomic(struct rnic_qp *qp, const struct rnic_inbound_read *in)
{
    struct rnic_tx *tx = qp->tx;
    enum rnic_wire_err err;
    struct rnic_tx_msg *msg;
    uint64_t old;

    /* The data of an earlier Read is taken when it is sent, and shall not show
     * what this changes */
    if (tx->inbound_active != tx->atomics_active) {
        return false;
    }
    err = rnic_atomic_execute(qp, &in->ar, &old);
    if (err != RNIC_WIRE_OK) {
        return response_fail(qp, in, err);
    }
    msg = msg_new(qp, RNIC_TX_ATOMIC_RESPONSE);
    msg->msn = tx->atomic_msn++;
    msg->atomic_response = (struct rnic_rdmap_atomic_response){
        .id = in->ar.id,
        .value = old,
    };
    tx->atomics_active++;
    response_append(tx, msg);
    return true;
}

static bool next_response(struct rnic_qp *qp)
{
    struct rnic_tx *tx = qp->tx;
    struct rnic_inbound_read *in;
    struct rnic_tx_msg *msg;
    enum rnic_mr_error error;

    if (!tx->inbound_count) {
        return false;
    }
    in = &tx->inbound[tx->inbound_head];
    if (in->atomic) {
        return next_atomic(qp, in);
    }
    /* A Read of no octets is answered whatever its STag and TO are
     * (RFC 5040 section 5.2.1), which this check knows. */
    error =
        rnic_mr_check(qp->dev, qp->pdn, in->rr.source_stag, in->rr.source_to,
                      in->rr.size, RNIC_ACCESS_REMOTE_READ, false);
    if (error != RNIC_MR_OK) {
        return response_fail(qp, in, rnic_fault_of_read(error));
    }
    msg = msg_new(qp, RNIC_TX_READ_RESPONSE);
    msg->inbound = *in;
    msg->length = in->rr.size;
    response_append(tx, msg);
    return true;
}

/* ---- Work requests ---- */

/* The fetched WQE cannot be executed. Those before it go out first. */
static bool staged_fail(struct rnic_qp *qp, enum rnic_wc_status status)
{
    struct rnic_tx *tx = qp->tx;

    tx->staged->wr.error = status;
    if (!tx->head) {
        tx->staged->rec->status = status;
        rnic_fault_local(qp, 0);
    }
    return false;
}

static bool sges_valid(struct rnic_qp *qp, const struct rnic_send_wr *wr,
                       uint32_t access)
{
    unsigned i;

    for (i = 0; i < wr->num_sge; i++) {
        enum rnic_mr_error error =
            rnic_mr_check(qp->dev, qp->pdn, wr->sge[i].stag, wr->sge[i].to,
                          wr->sge[i].length, access, rnic_qp_kernel(qp));

        if (error != RNIC_MR_OK) {
            rnic_guest_error(
                qp->dev,
                "qpn %u: SQ entry %u (wr_id 0x%" PRIx64
                "), SGE %u: %s (STag 0x%08x TO 0x%" PRIx64 " length %u)",
                qp->qpn, wr->index, wr->wr_id, i, rnic_mr_error_str(error),
                wr->sge[i].stag, wr->sge[i].to, wr->sge[i].length);
            return false;
        }
    }
    return true;
}

/* Read Requests for the sinks, one each, as far as ORD allows */
static bool staged_read(struct rnic_qp *qp)
{
    struct rnic_tx *tx = qp->tx;
    struct rnic_send_wr *wr = &tx->staged->wr;
    struct rnic_sq_rec *rec = tx->staged->rec;
    struct rnic_wr_sge sink = { 0 };
    struct rnic_tx_msg *msg;
    uint64_t before = 0;
    unsigned i, pieces = 0;

    if (!read_room(qp)) {
        return false;
    }
    if (!tx->staged_sge && !rec->reads_left) {
        if (!sges_valid(qp, wr, RNIC_ACCESS_LOCAL_WRITE)) {
            return staged_fail(qp, RNIC_WC_LOC_PROT_ERR);
        }
        for (i = 0; i < wr->num_sge; i++) {
            pieces += wr->sge[i].length != 0;
        }
        /* A Read of no octets is one request, too */
        rec->reads_left = MAX(pieces, 1);
    }
    while (tx->staged_sge < wr->num_sge && !wr->sge[tx->staged_sge].length) {
        tx->staged_sge++;
    }
    if (tx->staged_sge < wr->num_sge) {
        sink = wr->sge[tx->staged_sge];
        for (i = 0; i < tx->staged_sge; i++) {
            before += wr->sge[i].length;
        }
    } else if (wr->num_sge) {
        /* All are empty */
        sink.stag = wr->sge[0].stag;
        sink.to = wr->sge[0].to;
    }

    msg = msg_new(qp, RNIC_TX_READ_REQUEST);
    msg->rec = rec;
    msg->msn = tx->read_msn++;
    msg->read = read_push(tx, rec);
    msg->read->sink_stag = sink.stag;
    msg->read->sink_to = sink.to;
    msg->read->length = sink.length;
    msg->rr = (struct rnic_rdmap_read_request){
        .sink_stag = sink.stag,
        .sink_to = sink.to,
        .size = sink.length,
        .source_stag = wr->remote_stag,
        .source_to = wr->remote_to + before,
    };
    msg_append(tx, msg);

    do {
        tx->staged_sge++;
    } while (tx->staged_sge < wr->num_sge && !wr->sge[tx->staged_sge].length);
    if (tx->staged_sge >= wr->num_sge) {
        staged_free(qp);
    }
    return true;
}

static bool staged_atomic(struct rnic_qp *qp)
{
    struct rnic_tx *tx = qp->tx;
    struct rnic_send_wr *wr = &tx->staged->wr;
    struct rnic_sq_rec *rec = tx->staged->rec;
    struct rnic_tx_msg *msg;

    if (!read_room(qp)) {
        return false;
    }
    if (!sges_valid(qp, wr, RNIC_ACCESS_LOCAL_WRITE)) {
        return staged_fail(qp, RNIC_WC_LOC_PROT_ERR);
    }
    rec->reads_left = 1;
    msg = msg_new(qp, RNIC_TX_ATOMIC_REQUEST);
    msg->rec = rec;
    msg->msn = tx->read_msn++;
    msg->read = read_push(tx, rec);
    msg->read->atomic = true;
    msg->read->id = tx->atomic_id++;
    msg->read->sink_stag = wr->sge[0].stag;
    msg->read->sink_to = wr->sge[0].to;
    msg->read->length = wr->sge[0].length;
    msg->atomic_request = (struct rnic_rdmap_atomic_request){
        .op = wr->opcode == RNIC_WR_FETCH_ADD ? RNIC_RDMAP_FETCH_ADD
                                              : RNIC_RDMAP_CMP_SWAP,
        .id = msg->read->id,
        .stag = wr->remote_stag,
        .to = wr->remote_to,
        .data = wr->data,
        .mask = wr->mask,
        .compare = wr->compare,
        .compare_mask = wr->compare_mask,
    };
    msg_append(tx, msg);
    staged_free(qp);
    return true;
}

/* The Immediate Data message behind a Write, of the same work request */
static void append_imm(struct rnic_qp *qp, const struct rnic_tx_msg *write)
{
    struct rnic_tx_msg *msg = msg_new(qp, RNIC_TX_IMM);

    memcpy(&msg->wr, &write->wr, offsetof(struct rnic_send_wr, sge));
    msg->rec = write->rec;
    msg->msn = qp->tx->send_msn++;
    msg_append(qp->tx, msg);
}

/* LOCAL_INV and REG_MR send nothing */
static bool staged_local(struct rnic_qp *qp)
{
    struct rnic_tx *tx = qp->tx;
    struct rnic_send_wr *wr = &tx->staged->wr;
    enum rnic_mr_error error;

    /* Messages before it may still have to be read from the region */
    if (tx->head) {
        return false;
    }
    if (wr->opcode == RNIC_WR_LOCAL_INV) {
        error = rnic_mr_invalidate(qp->dev, qp->pdn, wr->inv_stag, false);
    } else {
        error = rnic_mr_fast_reg(qp->dev, qp->pdn, &wr->reg);
    }
    if (error != RNIC_MR_OK) {
        rnic_guest_error(
            qp->dev,
            "qpn %u: SQ entry %u (wr_id 0x%" PRIx64 "): %s refused: %s",
            qp->qpn, wr->index, wr->wr_id, rnic_wr_opcode_str(wr->opcode),
            rnic_mr_error_str(error));
        return staged_fail(qp, RNIC_WC_MW_BIND_ERR);
    }
    rnic_qp_stat(qp, RNIC_STAT_tx_wqes, 1);
    tx->staged->rec->done = true;
    staged_free(qp);
    rnic_sq_complete(qp);
    return !qp->fault;
}

static bool next_send(struct rnic_qp *qp)
{
    struct rnic_tx *tx = qp->tx;
    struct rnic_tx_msg *msg = tx->staged;

    if (!msg) {
        msg = msg_new(qp, RNIC_TX_SEND);
        if (rnic_sq_fetch(qp, &msg->wr, &msg->rec) != RNIC_WQ_TAKEN) {
            msg_free(qp, msg);
            return false;
        }
        tx->staged = msg;
        tx->staged_sge = 0;
    }
    if (msg->wr.error) {
        return staged_fail(qp, msg->wr.error);
    }
    /* Also waits for those Reads and atomics of this QP that are only queued */
    if ((msg->wr.flags & RNIC_WQE_FENCE) && !tx->staged_sge &&
        tx->read_count - tx->rtr_read) {
        return false;
    }
    switch (msg->wr.opcode) {
    case RNIC_WR_READ:
    case RNIC_WR_READ_INV:
        return staged_read(qp);
    case RNIC_WR_LOCAL_INV:
    case RNIC_WR_REG_MR:
        return staged_local(qp);
    case RNIC_WR_FETCH_ADD:
    case RNIC_WR_CMP_SWAP:
    case RNIC_WR_CMP_SWAP_MASKED:
        return staged_atomic(qp);
    case RNIC_WR_WRITE:
    case RNIC_WR_WRITE_IMM:
        msg->kind = RNIC_TX_WRITE;
        break;
    case RNIC_WR_IMM:
        msg->kind = RNIC_TX_IMM;
        break;
    default:
        msg->kind = RNIC_TX_SEND;
        break;
    }
    if (!(msg->wr.flags & RNIC_WQE_INLINE) && !sges_valid(qp, &msg->wr, 0)) {
        return staged_fail(qp, RNIC_WC_LOC_PROT_ERR);
    }
    if (msg->kind != RNIC_TX_WRITE) {
        msg->msn = tx->send_msn++;
    }
    msg->length = msg->wr.length;
    tx->staged = NULL;
    msg_append(tx, msg);
    if (msg->wr.opcode == RNIC_WR_WRITE_IMM) {
        append_imm(qp, msg);
    }
    return true;
}

/* Something could go out, but for the gate */
static bool would_send(struct rnic_qp *qp)
{
    if (qp->tx->inbound_count) {
        return true;
    }
    if (!rnic_sq_load_pi(qp)) {
        rnic_fault_local(qp, RNIC_EV_QP_FATAL);
        return false;
    }
    return qp->sq_pi != qp->sq->fetched;
}

bool rnic_tx_next_message(struct rnic_qp *qp)
{
    struct rnic_tx *tx = qp->tx;

    if (tx->gated) {
        if (!tx->gate_noted && would_send(qp)) {
            tx->gate_noted = true;
            rnic_qp_note_gated(qp);
        }
        return false;
    }
    if (tx->response_next && next_response(qp)) {
        tx->response_next = false;
        return true;
    }
    if (qp->fault) {
        return false;
    }
    if (next_send(qp)) {
        tx->response_next = true;
        return true;
    }
    if (qp->fault) {
        return false;
    }
    return next_response(qp);
}

void rnic_tx_message_done(struct rnic_qp *qp, struct rnic_tx_msg *msg)
{
    struct rnic_tx *tx = qp->tx;

    tx->head = msg->next;
    if (!tx->head) {
        tx->tail = &tx->head;
    }
    switch (msg->kind) {
    case RNIC_TX_SEND:
    case RNIC_TX_WRITE:
    case RNIC_TX_IMM:
        tx->imm_sent |= msg->kind == RNIC_TX_IMM;
        /* A WRITE_IMM is done with its second message */
        if (msg->rec && !(msg->kind == RNIC_TX_WRITE &&
                          msg->wr.opcode == RNIC_WR_WRITE_IMM)) {
            msg->rec->done = true;
            rnic_qp_stat(qp, RNIC_STAT_tx_wqes, 1);
        }
        break;
    case RNIC_TX_READ_REQUEST:
    case RNIC_TX_ATOMIC_REQUEST:
        msg->read->sent = true;
        if (msg->rec) {
            rnic_qp_stat(qp, RNIC_STAT_tx_wqes, 1);
        }
        break;
    case RNIC_TX_ATOMIC_RESPONSE:
        tx->atomics_active--;
        /* fall through */
    case RNIC_TX_READ_RESPONSE:
        tx->inbound_active--;
        break;
    }
    msg_free(qp, msg);
}

void rnic_tx_push_empty_write(struct rnic_qp *qp)
{
    struct rnic_tx_msg *msg = msg_new(qp, RNIC_TX_WRITE);

    memset(&msg->wr, 0, offsetof(struct rnic_send_wr, sge));
    /* Any STag does; some adapters dislike 0 even without payload */
    msg->wr.remote_stag = 1;
    msg_append(qp->tx, msg);
}

bool rnic_tx_started(struct rnic_qp *qp)
{
    return qp->tx->pos > 0;
}

void rnic_tx_push_rtr(struct rnic_qp *qp)
{
    struct rnic_tx *tx = qp->tx;
    struct rnic_tx_msg *msg;

    if (qp->params.send_rtr & RNIC_RTR_WRITE) {
        rnic_tx_push_empty_write(qp);
    } else if (qp->params.send_rtr & RNIC_RTR_READ) {
        msg = msg_new(qp, RNIC_TX_READ_REQUEST);
        msg->rr = (struct rnic_rdmap_read_request){ .source_stag = 1 };
        msg->msn = tx->read_msn++;
        msg->read = read_push(tx, NULL);
        tx->rtr_read = true;
        msg_append(tx, msg);
    }
}

bool rnic_tx_gated(struct rnic_qp *qp)
{
    return qp->tx->gated;
}

bool rnic_tx_open_gate(struct rnic_qp *qp)
{
    bool gated = qp->tx->gated;

    qp->tx->gated = false;
    return gated;
}

bool rnic_tx_wants_turn(struct rnic_qp *qp)
{
    return qp->tx->staged || qp->tx->inbound_count ||
           qp->sq->fetched != qp->sq_pi || qp->state == RNIC_QPS_CLOSING;
}

bool rnic_tx_idle(struct rnic_qp *qp)
{
    struct rnic_tx *tx = qp->tx;

    return !tx->head && !tx->staged && !tx->kept && !tx->read_count &&
           !tx->inbound_count && qp->sq->fetched == qp->closing_pi;
}

bool rnic_tx_mid_fpdu(struct rnic_qp *qp)
{
    return qp->tx && qp->tx->kept;
}

bool rnic_tx_turn(struct rnic_qp *qp)
{
    struct rnic_tx *tx = qp->tx;
    size_t spent = 0, octets;

    if (tx->blocked) {
        return false;
    }
    while (rnic_qp_running(qp)) {
        if (spent >= TURN_OCTETS) {
            return true;
        }
        if (tx->kept) {
            int done = rnic_tx_push_tail(qp);

            if (done < 0) {
                rnic_fault_lost(qp, -done);
                return false;
            }
            if (!done) {
                break;
            }
            spent = MAX(spent, RNIC_TX_COPY_OCTETS);
        }
        if (spent >= RNIC_TX_COPY_OCTETS && rnic_tx_copies(qp) &&
            !rnic_stream_writable(qp->stream)) {
            break;
        }
        switch (rnic_tx_batch(qp, &octets)) {
        case RNIC_TX_SENT:
            spent += octets;
            continue;
        case RNIC_TX_BLOCKED:
            break;
        case RNIC_TX_FAULT:
            return false;
        case RNIC_TX_IDLE:
            /* A WQE that waits does not need a doorbell, either */
            if (tx->gated || tx->staged || qp->state != RNIC_QPS_RTS ||
                qp->sq->fetched != qp->sq_pi) {
                return false;
            }
            if (rnic_sq_arm(qp)) {
                continue;
            }
            return false;
        }
        break;
    }
    if (!qp->fault) {
        tx->blocked = true;
        rnic_stream_want(qp->stream, EPOLLIN | EPOLLOUT);
    }
    return false;
}

void rnic_tx_writable(struct rnic_qp *qp)
{
    if (qp->tx->blocked) {
        qp->tx->blocked = false;
        rnic_stream_want(qp->stream, EPOLLIN);
        rnic_qp_make_ready(qp);
    }
}

int rnic_tx_push_tail(struct rnic_qp *qp)
{
    struct rnic_tx *tx = qp->tx;

    while (tx->kept_pos < tx->kept_len) {
        struct iovec iov = {
            .iov_base = tx->kept + tx->kept_pos,
            .iov_len = tx->kept_len - tx->kept_pos,
        };
        ssize_t n = rnic_stream_send(qp->stream, &iov, 1, tx->mss);

        if (n == -EAGAIN) {
            return 0;
        }
        if (n < 0) {
            return n;
        }
        tx->kept_pos += n;
    }
    g_clear_pointer(&tx->kept, g_free);
    tx->kept_len = tx->kept_pos = 0;
    if (tx->kept_msg) {
        struct rnic_tx_msg *msg = tx->kept_msg;
        bool last = tx->kept_last;

        tx->kept_msg = NULL;
        msg->sent += tx->kept_payload;
        msg->built = msg->sent;
        if (last) {
            rnic_tx_message_done(qp, msg);
            rnic_sq_complete(qp);
        }
    }
    return 1;
}

void rnic_tx_terminate(struct rnic_qp *qp, const uint8_t *ulpdu,
                       uint16_t ulpdu_len)
{
    uint8_t fpdu[2 * RNIC_TERM_SIZE_MAX];
    struct rnic_tx *tx = qp->tx;
    size_t len = rnic_tx_encode(qp, ulpdu, ulpdu_len, fpdu);
    size_t rest = tx->kept_len - tx->kept_pos;
    uint8_t *kept = g_malloc(rest + len);

    if (rest) {
        memcpy(kept, tx->kept + tx->kept_pos, rest);
    }
    memcpy(kept + rest, fpdu, len);
    g_free(tx->kept);
    msgs_drop(qp);
    tx->kept = kept;
    tx->kept_len = rest + len;
    tx->kept_pos = 0;
}
