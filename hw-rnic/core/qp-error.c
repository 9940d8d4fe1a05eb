/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What ends a connection, and how it is told: the Terminate, the status of
 * the work request that it hit, and the asynchronous event
 *
 * wire/terminate.c gives each condition its Terminate code; the table here
 * gives each code, sent or received, its meaning for the consumers.
 */
#include "qp-private.h"

#include <string.h>

#define ANY 0xffff

struct meaning {
    uint8_t layer;
    uint16_t etype;
    uint16_t code;
    /* Of the peer's Terminate: the request that caused it */
    enum rnic_wc_status requester;
    /* Of an own one: the receive that the message was placed into */
    enum rnic_wc_status receiver;
    enum rnic_event_type event;
};

/* The first row that matches counts */
static const struct meaning meanings[] = {
    { RNIC_TERM_LAYER_RDMAP, 1, 0x09, RNIC_WC_REM_INV_REQ_ERR,
      RNIC_WC_REM_INV_REQ_ERR, RNIC_EV_QP_REQ_ERR },
    { RNIC_TERM_LAYER_RDMAP, 1, ANY, RNIC_WC_REM_ACCESS_ERR,
      RNIC_WC_WR_FLUSH_ERR, RNIC_EV_QP_ACCESS_ERR },
    { RNIC_TERM_LAYER_RDMAP, 2, 0x05, RNIC_WC_REM_OP_ERR, RNIC_WC_WR_FLUSH_ERR,
      RNIC_EV_QP_FATAL },
    { RNIC_TERM_LAYER_RDMAP, 2, 0x06, RNIC_WC_REM_INV_REQ_ERR,
      RNIC_WC_WR_FLUSH_ERR, RNIC_EV_QP_REQ_ERR },
    { RNIC_TERM_LAYER_RDMAP, 2, 0x09, RNIC_WC_REM_INV_REQ_ERR,
      RNIC_WC_REM_INV_REQ_ERR, RNIC_EV_QP_REQ_ERR },
    { RNIC_TERM_LAYER_RDMAP, 2, ANY, RNIC_WC_REM_OP_ERR, RNIC_WC_WR_FLUSH_ERR,
      RNIC_EV_QP_REQ_ERR },
    /* A local failure while a message was placed */
    { RNIC_TERM_LAYER_DDP, 0, ANY, RNIC_WC_REM_OP_ERR, RNIC_WC_LOC_PROT_ERR,
      RNIC_EV_QP_FATAL },
    { RNIC_TERM_LAYER_DDP, 1, 0x04, RNIC_WC_REM_OP_ERR, RNIC_WC_WR_FLUSH_ERR,
      RNIC_EV_QP_FATAL },
    { RNIC_TERM_LAYER_DDP, 1, ANY, RNIC_WC_REM_ACCESS_ERR, RNIC_WC_WR_FLUSH_ERR,
      RNIC_EV_QP_ACCESS_ERR },
    /* No buffer; message longer than the buffer */
    { RNIC_TERM_LAYER_DDP, 2, 0x02, RNIC_WC_REM_INV_REQ_ERR,
      RNIC_WC_WR_FLUSH_ERR, RNIC_EV_QP_REQ_ERR },
    { RNIC_TERM_LAYER_DDP, 2, 0x05, RNIC_WC_REM_INV_REQ_ERR,
      RNIC_WC_LOC_LEN_ERR, RNIC_EV_QP_REQ_ERR },
};

static const struct meaning other = {
    .requester = RNIC_WC_REM_OP_ERR,
    .receiver = RNIC_WC_WR_FLUSH_ERR,
    .event = RNIC_EV_QP_FATAL,
};

static const struct meaning *meaning_of(uint32_t term)
{
    uint8_t layer = term >> 16, etype = term >> 8, code = term;
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(meanings); i++) {
        const struct meaning *m = &meanings[i];

        if (m->layer == layer && (m->etype == ANY || m->etype == etype) &&
            (m->code == ANY || m->code == code)) {
            return m;
        }
    }
    return &other;
}

/* Layers and types are 4 bits wide on the wire */
static uint32_t term_word(uint8_t layer, uint8_t etype, uint8_t code)
{
    return (uint32_t)layer << 16 | (uint32_t)etype << 8 | code;
}

static struct rnic_fault *fault_new(struct rnic_qp *qp,
                                    enum rnic_fault_kind kind)
{
    if (qp->fault) {
        return NULL;
    }
    qp->fault = g_new0(struct rnic_fault, 1);
    qp->fault->kind = kind;
    return qp->fault;
}

static void term_sent_set(struct rnic_fault *fault, enum rnic_wire_err err)
{
    const struct rnic_term_cause *cause = rnic_term_cause(err);

    fault->err = err;
    fault->term =
        RNIC_TERM_VALID | term_word(cause->layer, cause->etype, cause->code);
}

void rnic_fault_wire(struct rnic_qp *qp, enum rnic_wire_err err,
                     const uint8_t *offender, size_t avail, uint16_t ulpdu_len)
{
    struct rnic_fault *fault = fault_new(qp, RNIC_FAULT_WIRE);

    if (!fault) {
        return;
    }
    term_sent_set(fault, err);
    fault->event = meaning_of(fault->term)->event;
    fault->offender_len = MIN(avail, sizeof(fault->offender));
    if (fault->offender_len) {
        memcpy(fault->offender, offender, fault->offender_len);
    }
    fault->ulpdu_len = ulpdu_len;
}

void rnic_fault_local(struct rnic_qp *qp, uint16_t event)
{
    struct rnic_fault *fault = fault_new(qp, RNIC_FAULT_LOCAL);

    if (fault) {
        term_sent_set(fault, RNIC_WIRE_RDMAP_LOCAL);
        fault->event = event;
    }
}

void rnic_fault_asked(struct rnic_qp *qp)
{
    struct rnic_fault *fault = fault_new(qp, RNIC_FAULT_ASKED);

    if (fault) {
        term_sent_set(fault, RNIC_WIRE_RDMAP_LOCAL);
    }
}

static bool unexpected_opcode(const struct rnic_term *term)
{
    const struct rnic_term_ctrl *ctrl = rnic_term_ctrl(term);

    return ctrl->layer == RNIC_TERM_LAYER_RDMAP && ctrl->etype == 2 &&
           ctrl->code == 0x06;
}

/* The request that a Terminate of the peer is about, or NULL */
static struct rnic_sq_rec *terminated_rec(struct rnic_qp *qp,
                                          const struct rnic_term *term)
{
    struct rnic_read *read = NULL;
    unsigned i;

    /*
     * Reads and atomics are served in order, so the one that failed is the
     * oldest of its kind. Its header says so, if the peer sent it; siw spoils
     * its MSN.
     */
    if (term->has_read_request || (term->has_ddp && !term->ddp.tagged &&
                                   term->ddp.qn == RNIC_DDP_QN_READ_REQUEST)) {
        read = rnic_tx_oldest_of(qp, !term->has_read_request &&
                                         term->ddp.opcode ==
                                             RNIC_RDMAP_ATOMIC_REQUEST);
        return read ? read->rec : NULL;
    }
    /* siw says of an opcode that it does not know only that */
    if (!term->has_ddp && unexpected_opcode(term)) {
        read = rnic_tx_oldest_of(qp, true);
        return read ? read->rec : NULL;
    }
    /* Otherwise the oldest that is not complete, if it is of that kind */
    for (i = 0; term->has_ddp && i < qp->sq->rec_count; i++) {
        struct rnic_sq_rec *rec =
            &qp->sq->recs[(qp->sq->rec_head + i) & (qp->sq->rec_size - 1)];
        bool tagged =
            rec->opcode == RNIC_WR_WRITE || rec->opcode == RNIC_WR_WRITE_IMM;
        bool untagged =
            rec->opcode == RNIC_WR_SEND || rec->opcode == RNIC_WR_SEND_INV ||
            rec->opcode == RNIC_WR_IMM || rec->opcode == RNIC_WR_WRITE_IMM;

        if (term->ddp.tagged ? tagged : untagged) {
            return rec;
        }
    }
    return NULL;
}

/* RFC 7306 section 1.1: there is no other way to learn it */
static void unsupported_trace(struct rnic_qp *qp, const struct rnic_term *term)
{
    bool named = term->has_ddp && term->ddp.opcode > RNIC_RDMAP_TERMINATE;

    if (unexpected_opcode(term) && rnic_tx_used_rfc7306(qp) &&
        (named || !term->has_ddp)) {
        rnic_trace(qp->dev, term,
                   "qpn %u: the peer does not support RFC 7306 (atomics and "
                   "immediate data); it ended the connection because of %s",
                   qp->qpn,
                   named ? rnic_rdmap_opcode_str(term->ddp.opcode)
                         : "an opcode that it does not name");
    }
}

void rnic_fault_terminated(struct rnic_qp *qp, const struct rnic_term *term)
{
    const struct rnic_term_ctrl *ctrl = rnic_term_ctrl(term);
    struct rnic_fault *fault = fault_new(qp, RNIC_FAULT_TERMINATED);
    struct rnic_sq_rec *rec;

    if (!fault) {
        return;
    }
    fault->term = RNIC_TERM_VALID | RNIC_TERM_REMOTE |
                  term_word(ctrl->layer, ctrl->etype, ctrl->code);
    fault->event = meaning_of(fault->term)->event;
    unsupported_trace(qp, term);
    rec = terminated_rec(qp, term);
    if (rec && rec->status == RNIC_WC_SUCCESS) {
        rec->status = meaning_of(fault->term)->requester;
        rec->vendor_err = rnic_fault_vendor_err(fault);
    }
}

void rnic_fault_closed(struct rnic_qp *qp)
{
    fault_new(qp, RNIC_FAULT_CLOSED);
}

void rnic_fault_lost(struct rnic_qp *qp, int err)
{
    struct rnic_fault *fault = fault_new(qp, RNIC_FAULT_LOST);

    if (fault) {
        fault->lost = err;
    }
}

enum rnic_wire_err rnic_fault_of_tagged(enum rnic_mr_error error)
{
    switch (error) {
    case RNIC_MR_BAD_STAG:
        return RNIC_WIRE_TAGGED_STAG;
    case RNIC_MR_BAD_PD:
        return RNIC_WIRE_TAGGED_STREAM;
    case RNIC_MR_WRAP:
        return RNIC_WIRE_TAGGED_WRAP;
    case RNIC_MR_BOUNDS:
        return RNIC_WIRE_TAGGED_BOUNDS;
    case RNIC_MR_ACCESS:
        /* RFC 5041 has no code for rights; RDMAP's says what it is */
        return RNIC_WIRE_PROT_ACCESS;
    default:
        return RNIC_WIRE_DDP_LOCAL;
    }
}

enum rnic_wire_err rnic_fault_of_read(enum rnic_mr_error error)
{
    switch (error) {
    case RNIC_MR_BAD_STAG:
        return RNIC_WIRE_PROT_STAG;
    case RNIC_MR_BAD_PD:
        return RNIC_WIRE_PROT_STREAM;
    case RNIC_MR_WRAP:
        return RNIC_WIRE_PROT_WRAP;
    case RNIC_MR_BOUNDS:
        return RNIC_WIRE_PROT_BOUNDS;
    case RNIC_MR_ACCESS:
        return RNIC_WIRE_PROT_ACCESS;
    default:
        return RNIC_WIRE_RDMAP_LOCAL;
    }
}

enum rnic_wire_err rnic_fault_of_invalidate(enum rnic_mr_error error)
{
    /* RFC 5040 has 'cannot be invalidated' under both of its error types:
     * a protection error for an STag that exists, else an operation error */
    return error == RNIC_MR_BAD_STAG ? RNIC_WIRE_OP_INVALIDATE
                                     : RNIC_WIRE_PROT_INVALIDATE;
}

enum rnic_wc_status rnic_fault_recv_status(const struct rnic_fault *fault)
{
    return fault && fault->kind == RNIC_FAULT_WIRE
               ? meaning_of(fault->term)->receiver
               : RNIC_WC_WR_FLUSH_ERR;
}

const char *rnic_mr_error_str(enum rnic_mr_error error)
{
    switch (error) {
    case RNIC_MR_OK:
        return "no error";
    case RNIC_MR_BAD_STAG:
        return "the STag is unknown or invalid";
    case RNIC_MR_BAD_PD:
        return "the region belongs to another protection domain";
    case RNIC_MR_WRAP:
        return "TO and length wrap";
    case RNIC_MR_BOUNDS:
        return "outside of the region";
    case RNIC_MR_ACCESS:
        return "the region does not grant this right";
    case RNIC_MR_DMA:
        return "not RAM";
    }
    return "unknown error";
}
