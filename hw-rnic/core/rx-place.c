/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Receiving: checks, placement and delivery of segments
 *
 * Every check on a segment comes before its first octet is placed. The
 * region is checked again each time that placement resumes.
 */
#include "rx.h"

#include <string.h>

void rnic_rx_fault(struct rnic_qp *qp, enum rnic_wire_err err)
{
    struct rnic_rx *rx = qp->rx;
    size_t avail = rx->head_len > RNIC_FPDU_LENGTH_SIZE
                       ? rx->head_len - RNIC_FPDU_LENGTH_SIZE
                       : 0;

    rnic_fault_wire(qp, err, rx->head + RNIC_FPDU_LENGTH_SIZE,
                    MIN(avail, rx->ulpdu_len), rx->ulpdu_len);
}

static bool fail(struct rnic_qp *qp, enum rnic_wire_err err)
{
    rnic_rx_fault(qp, err);
    return false;
}

static void seg_trace(struct rnic_qp *qp)
{
    const struct rnic_rx *rx = qp->rx;
    const struct rnic_ddp_hdr *ddp = &rx->seg.ddp;

    if (ddp->tagged) {
        rnic_trace(qp->dev, fpdu_rx,
                   "qpn %u %s STag 0x%08x TO 0x%" PRIx64 " payload %u%s",
                   qp->qpn, rnic_rdmap_opcode_str(ddp->opcode), ddp->stag,
                   ddp->to, rx->seg.payload_len, ddp->last ? " last" : "");
    } else {
        rnic_trace(qp->dev, fpdu_rx,
                   "qpn %u %s QN %u MSN %u MO %u payload "
                   "%u%s",
                   qp->qpn, rnic_rdmap_opcode_str(ddp->opcode), ddp->qn,
                   ddp->msn, ddp->mo, rx->seg.payload_len,
                   ddp->last ? " last" : "");
    }
}

/* ---- Send ---- */

static bool no_receive(struct rnic_qp *qp)
{
    rnic_qp_stat(qp, RNIC_STAT_rx_no_receive, 1);
    rnic_trace(qp->dev, no_receive,
               "qpn %u: %s MSN %u arrived and no "
               "receive was posted%s. iWARP has no 'receiver not ready': "
               "this ends the connection with a Terminate. Post receives "
               "before the peer may send, and at least as many as it may "
               "have under way",
               qp->qpn, rnic_rdmap_opcode_str(qp->rx->seg.ddp.opcode),
               qp->rx->seg.ddp.msn, qp->srq ? " to the SRQ" : "");
    return fail(qp, RNIC_WIRE_UNTAGGED_BUFFER);
}

static bool recv_take(struct rnic_qp *qp)
{
    struct rnic_rx *rx = qp->rx;
    unsigned i;

    switch (rnic_rq_take(qp, &rx->recv)) {
    case RNIC_WQ_EMPTY:
        return no_receive(qp);
    case RNIC_WQ_FAULT:
        return false;
    case RNIC_WQ_TAKEN:
        break;
    }
    rx->recv_taken = true;
    rx->recv_mo = 0;
    if (rx->recv.error) {
        return fail(qp, RNIC_WIRE_DDP_LOCAL);
    }
    for (i = 0; i < rx->recv.num_sge; i++) {
        const struct rnic_wr_sge *sge = &rx->recv.sge[i];
        enum rnic_mr_error error =
            rnic_mr_check(qp->dev, qp->pdn, sge->stag, sge->to, sge->length,
                          RNIC_ACCESS_LOCAL_WRITE, rnic_qp_kernel(qp));

        if (error != RNIC_MR_OK) {
            rnic_guest_error(
                qp->dev,
                "qpn %u: receive %u (wr_id 0x%" PRIx64
                "), SGE %u: %s (STag 0x%08x TO 0x%" PRIx64 " length %u)",
                qp->qpn, rx->recv.index, rx->recv.wr_id, i,
                rnic_mr_error_str(error), sge->stag, sge->to, sge->length);
            rx->recv.error = RNIC_WC_LOC_PROT_ERR;
            return fail(qp, RNIC_WIRE_DDP_LOCAL);
        }
    }
    return true;
}

static bool send_begin(struct rnic_qp *qp)
{
    struct rnic_rx *rx = qp->rx;
    const struct rnic_ddp_hdr *ddp = &rx->seg.ddp;

    if (ddp->msn != rx->send_msn) {
        return fail(qp, RNIC_WIRE_UNTAGGED_MSN);
    }
    /* On an ordered stream segments must be contiguous; and one without
     * payload that is not the last would let a peer go on for ever */
    if (ddp->mo != (rx->recv_taken ? rx->recv_mo : 0) ||
        (!rx->seg.payload_len && !ddp->last)) {
        return fail(qp, RNIC_WIRE_UNTAGGED_MO);
    }
    if (!rx->recv_taken && !recv_take(qp)) {
        return false;
    }
    rx->write_octets = 0;
    if (rx->seg.payload_len > rx->recv.length - rx->recv_mo) {
        return fail(qp, RNIC_WIRE_UNTAGGED_LENGTH);
    }
    return true;
}

static bool send_finish(struct rnic_qp *qp)
{
    struct rnic_rx *rx = qp->rx;
    const struct rnic_ddp_hdr *ddp = &rx->seg.ddp;
    struct rnic_cqe cqe = { .status = RNIC_WC_SUCCESS };

    rx->recv_mo += rx->seg.payload_len;
    if (!ddp->last) {
        return true;
    }
    if (rnic_rdmap_invalidates(ddp->opcode)) {
        enum rnic_mr_error error =
            rnic_mr_invalidate(qp->dev, qp->pdn, ddp->stag, true);

        if (error != RNIC_MR_OK) {
            return fail(qp, rnic_fault_of_invalidate(error));
        }
        cqe.flags |= RNIC_CQE_WITH_INV;
        cqe.inv_stag = GUINT32_TO_LE(ddp->stag);
    }
    if (rnic_rdmap_solicits(ddp->opcode)) {
        cqe.flags |= RNIC_CQE_SOLICITED;
    }
    cqe.byte_len = GUINT32_TO_LE(rx->recv_mo);
    rx->recv_taken = false;
    rx->send_msn++;
    rnic_rq_complete(qp, &rx->recv, &cqe);
    return !qp->fault;
}

/* ---- Immediate Data: as a Send, but its data goes into the completion ---- */

static bool imm_begin(struct rnic_qp *qp)
{
    struct rnic_rx *rx = qp->rx;

    if (rx->seg.ddp.msn != rx->send_msn) {
        return fail(qp, RNIC_WIRE_UNTAGGED_MSN);
    }
    /* Within a Send that is not complete */
    if (rx->recv_taken) {
        return fail(qp, RNIC_WIRE_UNTAGGED_MO);
    }
    return recv_take(qp);
}

static bool imm_finish(struct rnic_qp *qp)
{
    struct rnic_rx *rx = qp->rx;
    uint8_t data[RNIC_RDMAP_IMM_DATA_SIZE];
    struct rnic_cqe cqe = { .flags = RNIC_CQE_WITH_IMM };

    if (!rnic_rdmap_imm_decode(rx->head + RNIC_FPDU_LENGTH_SIZE,
                               rx->head_len - RNIC_FPDU_LENGTH_SIZE, data)) {
        return fail(qp, RNIC_WIRE_OP_OTHER);
    }
    memcpy(&cqe.imm_data, data, sizeof(cqe.imm_data));
    if (rnic_rdmap_solicits(rx->seg.ddp.opcode)) {
        cqe.flags |= RNIC_CQE_SOLICITED;
    }
    /* The wire does not say whether it belongs to the Write before it */
    cqe.byte_len = GUINT32_TO_LE(rx->write_octets);
    rx->write_octets = 0;
    rx->recv_taken = false;
    rx->send_msn++;
    rnic_rq_complete(qp, &rx->recv, &cqe);
    return !qp->fault;
}

void rnic_rx_flush(struct rnic_qp *qp)
{
    struct rnic_rx *rx = qp->rx;
    struct rnic_cqe cqe = { 0 };

    if (!rx->recv_taken) {
        return;
    }
    rx->recv_taken = false;
    cqe.status = rx->recv.error;
    if (!cqe.status) {
        cqe.status = rnic_fault_recv_status(qp->fault);
    }
    if (cqe.status != RNIC_WC_WR_FLUSH_ERR && qp->fault) {
        cqe.vendor_err = GUINT32_TO_LE(rnic_fault_vendor_err(qp->fault));
    }
    rnic_rq_complete(qp, &rx->recv, &cqe);
}

/* ---- RDMA Write ---- */

static bool write_begin(struct rnic_qp *qp)
{
    const struct rnic_rdmap_seg *seg = &qp->rx->seg;
    enum rnic_mr_error error;

    /* Without payload STag and TO are not looked at (RFC 5041 section 5.2),
     * which this check knows */
    error = rnic_mr_check(qp->dev, qp->pdn, seg->ddp.stag, seg->ddp.to,
                          seg->payload_len, RNIC_ACCESS_REMOTE_WRITE, false);
    if (error != RNIC_MR_OK) {
        return fail(qp, rnic_fault_of_tagged(error));
    }
    return true;
}

/* ---- RDMA Read ---- */

static bool read_request_begin(struct rnic_qp *qp, const uint8_t *ulpdu,
                               size_t avail)
{
    struct rnic_rx *rx = qp->rx;
    struct rnic_inbound_read in = { .atomic = false };

    if (rx->seg.ddp.msn != rx->read_msn) {
        return fail(qp, RNIC_WIRE_UNTAGGED_MSN);
    }
    if (!rnic_rdmap_read_request_decode(ulpdu, avail, &in.rr)) {
        return fail(qp, RNIC_WIRE_MPA_LENGTH);
    }
    memcpy(in.ulpdu, ulpdu, sizeof(in.ulpdu));
    rx->read_msn++;
    /* More Reads than were agreed on: no buffer for this one */
    if (!rnic_tx_queue_response(qp, &in)) {
        return fail(qp, RNIC_WIRE_UNTAGGED_BUFFER);
    }
    return true;
}

static bool read_response_begin(struct rnic_qp *qp)
{
    struct rnic_rx *rx = qp->rx;
    const struct rnic_ddp_hdr *ddp = &rx->seg.ddp;
    struct rnic_read *read = rnic_tx_oldest_read(qp);
    enum rnic_mr_error error;
    uint32_t left;

    /* Responses come in the order of the requests, Reads and atomics */
    if (!read || read->atomic) {
        return fail(qp, RNIC_WIRE_OP_OPCODE);
    }
    if (!read->length) {
        /* STag and TO do not matter */
        if (rx->seg.payload_len || !ddp->last) {
            return fail(qp, RNIC_WIRE_TAGGED_BOUNDS);
        }
        return true;
    }
    left = read->length - read->placed;
    if (ddp->stag != read->sink_stag) {
        return fail(qp, RNIC_WIRE_TAGGED_STAG);
    }
    if (ddp->to != read->sink_to + read->placed || rx->seg.payload_len > left ||
        !rx->seg.payload_len || ddp->last != (rx->seg.payload_len == left)) {
        return fail(qp, RNIC_WIRE_TAGGED_BOUNDS);
    }
    error = rnic_mr_check(qp->dev, qp->pdn, read->sink_stag, ddp->to,
                          rx->seg.payload_len, RNIC_ACCESS_LOCAL_WRITE,
                          rnic_qp_kernel(qp));
    if (error != RNIC_MR_OK) {
        read->rec->status = RNIC_WC_LOC_PROT_ERR;
        return fail(qp, RNIC_WIRE_DDP_LOCAL);
    }
    return true;
}

/*
 * ---- Atomics: they have no payload, and are acted upon when the FPDU is
 * complete (RFC 7306 section 5: after delivery) ----
 */

static bool atomic_request_finish(struct rnic_qp *qp)
{
    struct rnic_rx *rx = qp->rx;
    const uint8_t *ulpdu = rx->head + RNIC_FPDU_LENGTH_SIZE;
    struct rnic_inbound_read in = { .atomic = true };

    if (rx->seg.ddp.msn != rx->read_msn) {
        return fail(qp, RNIC_WIRE_UNTAGGED_MSN);
    }
    if (!rnic_rdmap_atomic_request_decode(
            ulpdu, rx->head_len - RNIC_FPDU_LENGTH_SIZE, &in.ar)) {
        return fail(qp, RNIC_WIRE_MPA_LENGTH);
    }
    if (in.ar.op != RNIC_RDMAP_FETCH_ADD && in.ar.op != RNIC_RDMAP_CMP_SWAP) {
        return fail(qp, RNIC_WIRE_OP_OPCODE);
    }
    memcpy(in.ulpdu, ulpdu, sizeof(in.ulpdu));
    rx->read_msn++;
    /* RFC 7306 section 5.2: Reads and atomics together */
    if (!rnic_tx_queue_response(qp, &in)) {
        return fail(qp, RNIC_WIRE_UNTAGGED_BUFFER);
    }
    return true;
}

/* Puts the number into the sink, which may lie in two pages */
static enum rnic_mr_error
sink_write(struct rnic_qp *qp, const struct rnic_read *read, uint64_t value)
{
    const uint8_t *from = (const uint8_t *)&value;
    uint64_t at = 0, done;
    struct rnic_mapping map;
    enum rnic_mr_error error;
    unsigned i;

    value = GUINT64_TO_LE(value);
    while (at < sizeof(value)) {
        rnic_mapping_init(&map, RNIC_DMA_TO_GUEST);
        error =
            rnic_mr_map(qp->dev, qp->pdn, read->sink_stag, read->sink_to + at,
                        sizeof(value) - at, RNIC_ACCESS_LOCAL_WRITE,
                        rnic_qp_kernel(qp), &map, &done);
        if (error != RNIC_MR_OK) {
            rnic_mapping_release(qp->dev, &map, 0);
            return error;
        }
        for (i = 0; i < map.count; i++) {
            memcpy(map.iov[i].iov_base, from + at, map.iov[i].iov_len);
            at += map.iov[i].iov_len;
        }
        rnic_mapping_release(qp->dev, &map, done);
    }
    return RNIC_MR_OK;
}

static bool atomic_response_finish(struct rnic_qp *qp)
{
    struct rnic_rx *rx = qp->rx;
    struct rnic_read *read = rnic_tx_oldest_read(qp);
    struct rnic_rdmap_atomic_response ar;
    enum rnic_mr_error error;

    if (!read || !read->atomic) {
        return fail(qp, RNIC_WIRE_OP_OPCODE);
    }
    if (rx->seg.ddp.msn != rx->atomic_msn) {
        return fail(qp, RNIC_WIRE_UNTAGGED_MSN);
    }
    if (!rnic_rdmap_atomic_response_decode(rx->head + RNIC_FPDU_LENGTH_SIZE,
                                           rx->head_len - RNIC_FPDU_LENGTH_SIZE,
                                           &ar)) {
        return fail(qp, RNIC_WIRE_MPA_LENGTH);
    }
    if (ar.id != read->id) {
        return fail(qp, RNIC_WIRE_OP_OTHER);
    }
    error = sink_write(qp, read, ar.value);
    if (error != RNIC_MR_OK) {
        rnic_guest_error(qp->dev, "qpn %u: %s while an atomic was answered",
                         qp->qpn, rnic_mr_error_str(error));
        read->rec->status = RNIC_WC_LOC_PROT_ERR;
        return fail(qp, RNIC_WIRE_DDP_LOCAL);
    }
    read->placed = read->length;
    rx->atomic_msn++;
    rnic_tx_read_done(qp);
    return !qp->fault;
}

/* ---- Terminate ---- */

static bool terminate_begin(struct rnic_qp *qp, const uint8_t *ulpdu,
                            size_t avail)
{
    const struct rnic_term_ctrl *ctrl;
    struct rnic_term term;

    if (!rnic_term_decode(ulpdu, avail, &term)) {
        return fail(qp, RNIC_WIRE_MPA_LENGTH);
    }
    ctrl = rnic_term_ctrl(&term);
    rnic_qp_stat(qp, RNIC_STAT_term_received, 1);
    rnic_trace(qp->dev, term,
               "qpn %u: the peer sent a Terminate: %s (%u/%u/"
               "%02x)%s%s%s",
               qp->qpn, rnic_term_str(ctrl->layer, ctrl->etype, ctrl->code),
               ctrl->layer, ctrl->etype, ctrl->code,
               term.swapped ? ", control word in siw's order" : "",
               term.has_ddp ? ", about our " : "",
               term.has_ddp ? rnic_rdmap_opcode_str(term.ddp.opcode) : "");
    rnic_fault_terminated(qp, &term);
    return false;
}

/* ---- Segments ---- */

bool rnic_rx_begin(struct rnic_qp *qp, const uint8_t *ulpdu, size_t avail)
{
    struct rnic_rx *rx = qp->rx;

    rx->placed = 0;
    rx->direct = 0;
    rnic_qp_stat(qp, RNIC_STAT_rx_fpdus, 1);
    rnic_qp_stat(qp, RNIC_STAT_rx_octets, rnic_fpdu_len(rx->ulpdu_len));
    seg_trace(qp);
    switch (rx->seg.ddp.opcode) {
    case RNIC_RDMAP_WRITE:
        if (!write_begin(qp)) {
            return false;
        }
        break;
    case RNIC_RDMAP_READ_REQUEST:
        if (!read_request_begin(qp, ulpdu, avail)) {
            return false;
        }
        break;
    case RNIC_RDMAP_READ_RESPONSE:
        if (!read_response_begin(qp)) {
            return false;
        }
        break;
    case RNIC_RDMAP_TERMINATE:
        return terminate_begin(qp, ulpdu, avail);
    case RNIC_RDMAP_IMM:
    case RNIC_RDMAP_IMM_SE:
        return imm_begin(qp);
    case RNIC_RDMAP_ATOMIC_REQUEST:
    case RNIC_RDMAP_ATOMIC_RESPONSE:
        break;
    default:
        if (!send_begin(qp)) {
            return false;
        }
        break;
    }
    return true;
}

bool rnic_rx_map(struct rnic_qp *qp, size_t len, struct rnic_mapping *map,
                 uint64_t *done)
{
    struct rnic_rx *rx = qp->rx;
    const struct rnic_ddp_hdr *ddp = &rx->seg.ddp;
    enum rnic_mr_error error;

    rnic_mapping_init(map, RNIC_DMA_TO_GUEST);
    switch (ddp->opcode) {
    case RNIC_RDMAP_WRITE:
        error = rnic_mr_map(qp->dev, qp->pdn, ddp->stag, ddp->to + rx->placed,
                            len, RNIC_ACCESS_REMOTE_WRITE, false, map, done);
        if (error == RNIC_MR_OK && *done) {
            return true;
        }
        rnic_mapping_release(qp->dev, map, 0);
        if (error == RNIC_MR_OK) {
            error = RNIC_MR_DMA;
        }
        if (error == RNIC_MR_DMA) {
            /* All other errors are the peer's */
            rnic_guest_error(qp->dev,
                             "qpn %u: %s while a message was placed (STag "
                             "0x%08x TO 0x%" PRIx64 ")",
                             qp->qpn, rnic_mr_error_str(error), ddp->stag,
                             ddp->to + rx->placed);
        }
        rnic_rx_fault(qp, rnic_fault_of_tagged(error));
        return false;
    case RNIC_RDMAP_READ_RESPONSE:
        error =
            rnic_mr_map(qp->dev, qp->pdn, ddp->stag, ddp->to + rx->placed, len,
                        RNIC_ACCESS_LOCAL_WRITE, rnic_qp_kernel(qp), map, done);
        break;
    default:
        error = rnic_sges_map(qp, rx->recv.sge, rx->recv.num_sge,
                              rx->recv_mo + rx->placed, len,
                              RNIC_ACCESS_LOCAL_WRITE, map, done);
        break;
    }
    if (error == RNIC_MR_OK && *done) {
        return true;
    }
    rnic_mapping_release(qp->dev, map, 0);
    rnic_guest_error(
        qp->dev, "qpn %u: %s while a message was placed", qp->qpn,
        rnic_mr_error_str(error == RNIC_MR_OK ? RNIC_MR_DMA : error));
    if (ddp->opcode == RNIC_RDMAP_READ_RESPONSE) {
        rnic_tx_oldest_read(qp)->rec->status = RNIC_WC_LOC_PROT_ERR;
    } else {
        rx->recv.error = RNIC_WC_LOC_PROT_ERR;
    }
    rnic_rx_fault(qp, RNIC_WIRE_DDP_LOCAL);
    return false;
}

bool rnic_rx_place(struct rnic_qp *qp, const uint8_t *payload, size_t len)
{
    struct rnic_rx *rx = qp->rx;
    struct rnic_mapping map;
    uint64_t done;
    unsigned i;

    while (len) {
        if (!rnic_rx_map(qp, len, &map, &done)) {
            return false;
        }
        for (i = 0; i < map.count; i++) {
            memcpy(map.iov[i].iov_base, payload, map.iov[i].iov_len);
            payload += map.iov[i].iov_len;
        }
        rnic_mapping_release(qp->dev, &map, done);
        rnic_qp_stat(qp, RNIC_STAT_rx_copied, done);
        rx->placed += done;
        len -= done;
    }
    return true;
}

static void place_trace(struct rnic_qp *qp)
{
    const struct rnic_rx *rx = qp->rx;
    const struct rnic_ddp_hdr *ddp = &rx->seg.ddp;

    if (!rx->placed) {
        return;
    }
    if (ddp->tagged) {
        rnic_trace(qp->dev, place,
                   "qpn %u %s: %u octets at STag 0x%08x TO 0x%" PRIx64
                   ", %u of them read straight into place",
                   qp->qpn, rnic_rdmap_opcode_str(ddp->opcode), rx->placed,
                   ddp->stag, ddp->to, rx->direct);
    } else {
        rnic_trace(qp->dev, place,
                   "qpn %u %s: %u octets at offset %u of "
                   "receive %u wr_id 0x%" PRIx64 ", %u of them read straight "
                   "into place",
                   qp->qpn, rnic_rdmap_opcode_str(ddp->opcode), rx->placed,
                   rx->recv_mo, rx->recv.index, rx->recv.wr_id, rx->direct);
    }
}

bool rnic_rx_finish(struct rnic_qp *qp)
{
    struct rnic_rx *rx = qp->rx;
    const struct rnic_ddp_hdr *ddp = &rx->seg.ddp;
    struct rnic_read *read;

    place_trace(qp);
    if (ddp->last) {
        rnic_qp_stat(qp, RNIC_STAT_rx_messages, 1);
    }
    switch (ddp->opcode) {
    case RNIC_RDMAP_WRITE:
        if (!rx->write_open) {
            rx->write_octets = 0;
        }
        rx->write_octets += rx->seg.payload_len;
        rx->write_open = !ddp->last;
        return true;
    case RNIC_RDMAP_READ_REQUEST:
        return true;
    case RNIC_RDMAP_READ_RESPONSE:
        read = rnic_tx_oldest_read(qp);
        read->placed += rx->seg.payload_len;
        if (ddp->last) {
            rnic_tx_read_done(qp);
        }
        return !qp->fault;
    case RNIC_RDMAP_IMM:
    case RNIC_RDMAP_IMM_SE:
        return imm_finish(qp);
    case RNIC_RDMAP_ATOMIC_REQUEST:
        return atomic_request_finish(qp);
    case RNIC_RDMAP_ATOMIC_RESPONSE:
        return atomic_response_finish(qp);
    default:
        return send_finish(qp);
    }
}
