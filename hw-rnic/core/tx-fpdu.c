/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sending: from messages to FPDUs to TCP
 *
 * A batch of FPDUs becomes one gathering send. Without CRC and markers the
 * payload is taken by the host's TCP from the guest's pages; otherwise it is
 * copied and checksummed in one pass, so that what was checksummed is what
 * is sent. Of an FPDU that TCP took a part of, the rest is copied at once:
 * the guest may change or deregister its pages meanwhile.
 */
#include "tx.h"
#include "wire/byteorder.h"
#include "wire/crc32c.h"
#include "wire/marker.h"

#include <string.h>

/* An FPDU's octets before its payload, and behind */
#define FPDU_SMALL_MAX                                                         \
    (RNIC_FPDU_LENGTH_SIZE + RNIC_RDMAP_HDR_MAX + RNIC_MAX_INLINE +            \
     RNIC_FPDU_TRAILER_MAX)
G_STATIC_ASSERT(FPDU_SMALL_MAX <= 640);

/* Largest FPDU with markers: one in 512, and one before it */
#define FPDU_MARKED_MAX (RNIC_FPDU_MAX + RNIC_FPDU_MAX / 127 + 8)
G_STATIC_ASSERT(FPDU_MARKED_MAX <= 2 * RNIC_FPDU_MAX);

/* What a work request costs of a turn, octets, beside its own */
#define WQE_COST       64
/* Messages taken for one batch; some (LOCAL_INV, REG_MR) send nothing */
#define BATCH_MESSAGES 256

bool rnic_tx_copies(struct rnic_qp *qp)
{
    return qp->params.crc || qp->params.tx_markers;
}

/*
 * The current limit of a ULPDU. Between machines an FPDU fits a TCP segment,
 * and segments are filled with whole FPDUs: receivers must not depend on it
 * (RFC 5044 section 5.1), but some place better then, and siw mis-parses a
 * header that is cut.
 */
static void limits_update(struct rnic_qp *qp)
{
    const struct rnic_config *config = &qp->dev->config;
    struct rnic_tx *tx = qp->tx;

    if (config->fabric == RNIC_FABRIC_LOOPBACK) {
        tx->mss = 0;
        tx->mulpdu = RNIC_MULPDU_MAX;
    } else {
        tx->mss = rnic_stream_mss(qp->stream);
        tx->mulpdu = rnic_mulpdu(tx->mss, qp->params.tx_markers);
    }
    if (config->fpdu_max) {
        tx->mulpdu = config->fpdu_max;
    }
}

static void iov_add(struct rnic_qp_scratch *s, void *base, size_t len)
{
    struct iovec *last = s->num_iov ? &s->iov[s->num_iov - 1] : NULL;

    if (!len) {
        return;
    }
    if (last && (uint8_t *)last->iov_base + last->iov_len == base) {
        last->iov_len += len;
        return;
    }
    s->iov[s->num_iov++] = (struct iovec){ base, len };
}

/* Maps payload octets of a message, as rnic_mr_map() */
static enum rnic_mr_error msg_map(struct rnic_qp *qp, struct rnic_tx_msg *msg,
                                  uint64_t offset, uint64_t len,
                                  struct rnic_mapping *map, uint64_t *done)
{
    if (msg->kind == RNIC_TX_READ_RESPONSE) {
        return rnic_mr_map(qp->dev, qp->pdn, msg->inbound.rr.source_stag,
                           msg->inbound.rr.source_to + offset, len,
                           RNIC_ACCESS_REMOTE_READ, false, map, done);
    }
    return rnic_sges_map(qp, msg->wr.sge, msg->wr.num_sge, offset, len, 0, map,
                         done);
}

static bool msg_inline(const struct rnic_tx_msg *msg)
{
    return (msg->kind == RNIC_TX_SEND || msg->kind == RNIC_TX_WRITE) &&
           (msg->wr.flags & RNIC_WQE_INLINE);
}

/* Copies payload to @dst; with @crc, checksums it on the way */
static enum rnic_mr_error msg_copy(struct rnic_qp *qp, struct rnic_tx_msg *msg,
                                   uint64_t offset, uint64_t len, uint8_t *dst,
                                   uint32_t *crc)
{
    struct rnic_mapping map;
    enum rnic_mr_error error;
    uint64_t done;
    unsigned i;

    if (msg_inline(msg)) {
        memcpy(dst, msg->wr.inline_data + offset, len);
        if (crc) {
            *crc = rnic_crc32c_update(*crc, dst, len);
        }
        return RNIC_MR_OK;
    }
    while (len) {
        rnic_mapping_init(&map, RNIC_DMA_FROM_GUEST);
        error = msg_map(qp, msg, offset, len, &map, &done);
        for (i = 0; i < map.count; i++) {
            size_t n = map.iov[i].iov_len;

            if (crc) {
                *crc = rnic_crc32c_copy(*crc, dst, map.iov[i].iov_base, n);
            } else {
                memcpy(dst, map.iov[i].iov_base, n);
            }
            dst += n;
        }
        rnic_mapping_release(qp->dev, &map, 0);
        if (error != RNIC_MR_OK) {
            return error;
        }
        if (!done) {
            return RNIC_MR_DMA;
        }
        rnic_qp_stat(qp, RNIC_STAT_tx_copied, done);
        offset += done;
        len -= done;
    }
    return RNIC_MR_OK;
}

/* ---- Headers ---- */

static size_t header_size(const struct rnic_tx_msg *msg)
{
    switch (msg->kind) {
    case RNIC_TX_SEND:
        return RNIC_DDP_UNTAGGED_SIZE;
    case RNIC_TX_READ_REQUEST:
        return RNIC_RDMAP_READ_REQUEST_SIZE;
    case RNIC_TX_IMM:
        return RNIC_RDMAP_IMM_SIZE;
    case RNIC_TX_ATOMIC_REQUEST:
        return RNIC_RDMAP_ATOMIC_REQUEST_SIZE;
    case RNIC_TX_ATOMIC_RESPONSE:
        return RNIC_RDMAP_ATOMIC_RESPONSE_SIZE;
    default:
        return RNIC_DDP_TAGGED_SIZE;
    }
}

static size_t header_encode(const struct rnic_tx_msg *msg, bool last,
                            uint8_t *buf)
{
    const struct rnic_send_wr *wr = &msg->wr;
    uint8_t imm[RNIC_RDMAP_IMM_DATA_SIZE] = { 0 };
    bool solicited;

    switch (msg->kind) {
    case RNIC_TX_SEND:
        solicited = wr->flags & RNIC_WQE_SOLICITED;
        if (wr->opcode == RNIC_WR_SEND_INV) {
            return rnic_rdmap_untagged_encode(
                solicited ? RNIC_RDMAP_SEND_SE_INV : RNIC_RDMAP_SEND_INV, last,
                wr->inv_stag, msg->msn, msg->built, buf);
        }
        return rnic_rdmap_untagged_encode(solicited ? RNIC_RDMAP_SEND_SE
                                                    : RNIC_RDMAP_SEND,
                                          last, 0, msg->msn, msg->built, buf);
    case RNIC_TX_WRITE:
        return rnic_rdmap_tagged_encode(RNIC_RDMAP_WRITE, last, wr->remote_stag,
                                        wr->remote_to + msg->built, buf);
    case RNIC_TX_READ_REQUEST:
        return rnic_rdmap_read_request_encode(&msg->rr, msg->msn, buf);
    case RNIC_TX_IMM:
        /* Verbs have 4 of the 8 octets; the others are 0 */
        memcpy(imm, wr->imm, sizeof(wr->imm));
        return rnic_rdmap_imm_encode(imm, wr->flags & RNIC_WQE_SOLICITED,
                                     msg->msn, buf);
    case RNIC_TX_ATOMIC_REQUEST:
        return rnic_rdmap_atomic_request_encode(&msg->atomic_request, msg->msn,
                                                buf);
    case RNIC_TX_ATOMIC_RESPONSE:
        return rnic_rdmap_atomic_response_encode(&msg->atomic_response,
                                                 msg->msn, buf);
    case RNIC_TX_READ_RESPONSE:
        break;
    }
    return rnic_rdmap_tagged_encode(RNIC_RDMAP_READ_RESPONSE, last,
                                    msg->inbound.rr.sink_stag,
                                    msg->inbound.rr.sink_to + msg->built, buf);
}

/* ---- Building ---- */

/* An FPDU with @payload octets of @msg would be cut by the end of a segment,
 * though it could start on a fresh one */
static bool would_be_cut(struct rnic_qp *qp, const struct rnic_tx_msg *msg,
                         uint64_t payload)
{
    struct rnic_qp_scratch *s = qp->dev->qp_scratch;
    unsigned mss = qp->tx->mss;
    size_t used = mss ? s->octets % mss : 0;

    return used && used + rnic_fpdu_len(header_size(msg) + payload) > mss;
}

/* The region behind a message that has begun is not usable any more */
static void msg_fault(struct rnic_qp *qp, struct rnic_tx_msg *msg,
                      enum rnic_mr_error error)
{
    struct rnic_rdmap_read_request rr;
    uint8_t ulpdu[RNIC_RDMAP_READ_REQUEST_SIZE];

    if (msg->kind != RNIC_TX_READ_RESPONSE) {
        rnic_guest_error(
            qp->dev,
            "qpn %u: SQ entry %u (wr_id 0x%" PRIx64 "): %s while it was sent",
            qp->qpn, msg->wr.index, msg->wr.wr_id, rnic_mr_error_str(error));
        msg->rec->status = RNIC_WC_LOC_PROT_ERR;
        rnic_fault_local(qp, 0);
        return;
    }
    /* RFC 5040 section 4.8: what is left of the request */
    rr = msg->inbound.rr;
    rr.sink_to += msg->built;
    rr.source_to += msg->built;
    rr.size -= msg->built;
    if (error == RNIC_MR_DMA) {
        /* All other errors are the peer's */
        rnic_guest_error(qp->dev,
                         "qpn %u: %s while a Read was answered (STag 0x%08x "
                         "TO 0x%" PRIx64 ")",
                         qp->qpn, rnic_mr_error_str(error), rr.source_stag,
                         rr.source_to);
    }
    rnic_rdmap_read_request_encode(&rr, rnic_get_be32(msg->inbound.ulpdu + 10),
                                   ulpdu);
    rnic_fault_wire(qp, rnic_fault_of_read(error), ulpdu, sizeof(ulpdu),
                    sizeof(ulpdu));
}

/* In the guest's pages, between header and trailer in s->small */
static enum rnic_mr_error build_gather(struct rnic_qp *qp,
                                       struct rnic_tx_msg *msg,
                                       struct rnic_tx_fpdu *fpdu)
{
    struct rnic_qp_scratch *s = qp->dev->qp_scratch;
    uint8_t *head = s->small + s->small_len;
    uint16_t ulpdu_len = header_size(msg) + fpdu->payload;
    enum rnic_mr_error error;
    uint64_t done = 0;
    size_t len;
    unsigned i;

    len = rnic_fpdu_length_encode(ulpdu_len, head);
    len += header_encode(msg, fpdu->last, head + len);
    if (msg_inline(msg)) {
        memcpy(head + len, msg->wr.inline_data + msg->built, fpdu->payload);
        len += fpdu->payload;
    } else if (fpdu->payload) {
        error = msg_map(qp, msg, msg->built, fpdu->payload, &fpdu->map, &done);
        if (error != RNIC_MR_OK || done < fpdu->payload) {
            rnic_mapping_release(qp->dev, &fpdu->map, 0);
            rnic_mapping_init(&fpdu->map, RNIC_DMA_FROM_GUEST);
            if (error != RNIC_MR_OK) {
                return error;
            }
            /* In too many pieces to be gathered */
            error = msg_copy(qp, msg, msg->built, fpdu->payload,
                             s->copy + s->copy_len, NULL);
            if (error != RNIC_MR_OK) {
                return error;
            }
        }
    }
    rnic_ddp_hdr_decode(head + RNIC_FPDU_LENGTH_SIZE, RNIC_DDP_HDR_MAX,
                        &fpdu->ddp);
    iov_add(s, head, len);
    if (!msg_inline(msg) && fpdu->payload) {
        if (fpdu->map.count) {
            for (i = 0; i < fpdu->map.count; i++) {
                iov_add(s, fpdu->map.iov[i].iov_base, fpdu->map.iov[i].iov_len);
            }
        } else {
            iov_add(s, s->copy + s->copy_len, fpdu->payload);
            s->copy_len += fpdu->payload;
        }
    }
    head += len;
    len += rnic_fpdu_trailer_encode(ulpdu_len, false, 0, head);
    iov_add(s, head, s->small + s->small_len + len - head);
    s->small_len += len;
    fpdu->length = rnic_fpdu_len(ulpdu_len);
    return RNIC_MR_OK;
}

/* Whole in s->copy, with checksum, markers, or both */
static enum rnic_mr_error build_copy(struct rnic_qp *qp,
                                     struct rnic_tx_msg *msg,
                                     struct rnic_tx_fpdu *fpdu, uint64_t pos)
{
    struct rnic_qp_scratch *s = qp->dev->qp_scratch;
    bool markers = qp->params.tx_markers;
    bool use_crc = qp->params.crc && !markers;
    uint8_t *start = s->copy + s->copy_len;
    uint8_t *buf = markers ? s->plain : start;
    uint16_t ulpdu_len = header_size(msg) + fpdu->payload;
    enum rnic_mr_error error;
    uint32_t crc = 0;
    size_t len;

    len = rnic_fpdu_length_encode(ulpdu_len, buf);
    len += header_encode(msg, fpdu->last, buf + len);
    rnic_ddp_hdr_decode(buf + RNIC_FPDU_LENGTH_SIZE, RNIC_DDP_HDR_MAX,
                        &fpdu->ddp);
    if (use_crc) {
        crc = rnic_crc32c_update(rnic_crc32c_init(), buf, len);
    }
    error = msg_copy(qp, msg, msg->built, fpdu->payload, buf + len,
                     use_crc ? &crc : NULL);
    if (error != RNIC_MR_OK) {
        return error;
    }
    len += fpdu->payload;
    len += rnic_fpdu_trailer_encode(ulpdu_len, use_crc, crc, buf + len);
    if (markers) {
        len =
            rnic_marker_insert(pos, s->plain, ulpdu_len, qp->params.crc, start);
    }
    iov_add(s, start, len);
    s->copy_len += len;
    fpdu->length = len;
    return RNIC_MR_OK;
}

/* Adds the next FPDU of @msg to the batch; false: the batch ends here */
static bool build_fpdu(struct rnic_qp *qp, struct rnic_tx_msg *msg)
{
    struct rnic_qp_scratch *s = qp->dev->qp_scratch;
    struct rnic_tx_fpdu *fpdu = &s->fpdus[s->num_fpdus];
    uint64_t left = msg->length - msg->built;
    uint64_t room = qp->tx->mulpdu - header_size(msg);
    enum rnic_mr_error error;

    fpdu->msg = msg;
    fpdu->last = left <= room;
    /* Headers end on a multiple of 4, so segments but the last need no pad */
    fpdu->payload = fpdu->last ? left : room & ~3ull;
    if (would_be_cut(qp, msg, fpdu->payload)) {
        return false;
    }
    rnic_mapping_init(&fpdu->map, RNIC_DMA_FROM_GUEST);
    if (rnic_tx_copies(qp)) {
        error = build_copy(qp, msg, fpdu, qp->tx->pos + s->octets);
    } else {
        error = build_gather(qp, msg, fpdu);
    }
    if (error != RNIC_MR_OK) {
        /* What is in the batch is sent first */
        if (!s->num_fpdus) {
            msg_fault(qp, msg, error);
        }
        return false;
    }
    msg->built += fpdu->payload;
    msg->built_last = fpdu->last;
    s->octets += fpdu->length;
    s->num_fpdus++;
    return true;
}

/* Returns how many messages it took */
static unsigned build_batch(struct rnic_qp *qp)
{
    struct rnic_qp_scratch *s = qp->dev->qp_scratch;
    struct rnic_tx_msg *msg = qp->tx->head;
    size_t limit =
        rnic_tx_copies(qp) ? RNIC_TX_COPY_OCTETS : RNIC_TX_BATCH_OCTETS;
    unsigned taken = 0;

    s->num_fpdus = 0;
    s->octets = 0;
    s->num_iov = 0;
    s->small_len = 0;
    s->copy_len = 0;
    while (s->num_fpdus < RNIC_TX_BATCH_FPDUS && s->octets < limit &&
           s->num_iov < RNIC_TX_IOV - G_N_ELEMENTS(s->fpdus->map.iov) - 2) {
        if (msg && msg->built_last) {
            msg = msg->next;
            continue;
        }
        if (!msg) {
            /* Nothing of the queue is left to be built: its tail grows */
            struct rnic_tx_msg **end = qp->tx->tail;

            if (taken == BATCH_MESSAGES || !rnic_tx_next_message(qp)) {
                break;
            }
            taken++;
            /* LOCAL_INV and REG_MR send nothing; the end may have moved */
            msg = qp->tx->head ? *end : NULL;
            continue;
        }
        if (!build_fpdu(qp, msg)) {
            break;
        }
    }
    return taken;
}

/* ---- Giving it to TCP ---- */

static void fpdu_trace(struct rnic_qp *qp, const struct rnic_tx_fpdu *fpdu)
{
    const struct rnic_ddp_hdr *ddp = &fpdu->ddp;
    g_autofree char *wqe = NULL;

    if (!qp->dev->ops->trace_enabled(qp->dev->opaque, RNIC_TRACE_fpdu_tx)) {
        return;
    }
    if (fpdu->msg->rec) {
        wqe = g_strdup_printf(", SQ %u wr_id 0x%" PRIx64, fpdu->msg->rec->index,
                              fpdu->msg->rec->wr_id);
    }
    if (ddp->tagged) {
        rnic_trace(qp->dev, fpdu_tx,
                   "qpn %u %s STag 0x%08x TO 0x%" PRIx64 " payload %u%s%s",
                   qp->qpn, rnic_rdmap_opcode_str(ddp->opcode), ddp->stag,
                   ddp->to, fpdu->payload, ddp->last ? " last" : "",
                   wqe ? wqe : "");
    } else {
        rnic_trace(qp->dev, fpdu_tx,
                   "qpn %u %s QN %u MSN %u MO %u payload "
                   "%u%s%s",
                   qp->qpn, rnic_rdmap_opcode_str(ddp->opcode), ddp->qn,
                   ddp->msn, ddp->mo, fpdu->payload, ddp->last ? " last" : "",
                   wqe ? wqe : "");
    }
}

/* Keeps octets [@from, @from + @len) of the batch */
static void keep(struct rnic_qp *qp, size_t from, size_t len)
{
    struct rnic_qp_scratch *s = qp->dev->qp_scratch;
    struct rnic_tx *tx = qp->tx;
    size_t to = 0;
    unsigned i;

    tx->kept = g_malloc(len);
    tx->kept_len = len;
    tx->kept_pos = 0;
    for (i = 0; i < s->num_iov && to < len; i++) {
        const struct iovec *iov = &s->iov[i];
        size_t n;

        if (from >= iov->iov_len) {
            from -= iov->iov_len;
            continue;
        }
        n = MIN(iov->iov_len - from, len - to);
        memcpy(tx->kept + to, (uint8_t *)iov->iov_base + from, n);
        to += n;
        from = 0;
    }
}

/* TCP accepted @octets of the batch */
static void accept_octets(struct rnic_qp *qp, size_t octets)
{
    struct rnic_qp_scratch *s = qp->dev->qp_scratch;
    struct rnic_tx *tx = qp->tx;
    struct rnic_tx_msg *msg;
    size_t start = 0;
    unsigned i;

    for (i = 0; i < s->num_fpdus && octets > start; i++) {
        struct rnic_tx_fpdu *fpdu = &s->fpdus[i];
        size_t part = octets - start;

        msg = fpdu->msg;
        rnic_qp_stat(qp, RNIC_STAT_tx_fpdus, 1);
        rnic_qp_stat(qp, RNIC_STAT_tx_octets, fpdu->length);
        fpdu_trace(qp, fpdu);
        tx->pos += fpdu->length;
        if (part < fpdu->length) {
            keep(qp, octets, fpdu->length - part);
            tx->kept_msg = msg;
            tx->kept_payload = fpdu->payload;
            tx->kept_last = fpdu->last;
            break;
        }
        start += fpdu->length;
        msg->sent += fpdu->payload;
        if (fpdu->last) {
            rnic_tx_message_done(qp, msg);
        }
    }
    /* What was built and not accepted is built again, from the guest's pages
     * as they are then */
    for (msg = tx->head; msg; msg = msg->next) {
        msg->built = msg->sent;
        msg->built_last = false;
    }
}

enum rnic_tx_result rnic_tx_batch(struct rnic_qp *qp, size_t *octets)
{
    struct rnic_qp_scratch *s = qp->dev->qp_scratch;
    unsigned i, taken;
    ssize_t n;

    limits_update(qp);
    taken = build_batch(qp);
    *octets = taken * WQE_COST;
    if (!s->num_fpdus) {
        if (qp->fault) {
            return RNIC_TX_FAULT;
        }
        return taken ? RNIC_TX_SENT : RNIC_TX_IDLE;
    }
    n = rnic_stream_send(qp->stream, s->iov, s->num_iov, qp->tx->mss);
    accept_octets(qp, MAX(n, 0));
    for (i = 0; i < s->num_fpdus; i++) {
        if (s->fpdus[i].map.count) {
            rnic_mapping_release(qp->dev, &s->fpdus[i].map, 0);
        }
    }
    if (n < 0 && n != -EAGAIN) {
        rnic_fault_lost(qp, -n);
        return RNIC_TX_FAULT;
    }
    rnic_sq_complete(qp);
    if (qp->fault) {
        return RNIC_TX_FAULT;
    }
    *octets += MAX(n, 0);
    return n < (ssize_t)s->octets ? RNIC_TX_BLOCKED : RNIC_TX_SENT;
}

size_t rnic_tx_encode(struct rnic_qp *qp, const uint8_t *ulpdu,
                      uint16_t ulpdu_len, uint8_t *buf)
{
    uint8_t plain[RNIC_FPDU_LENGTH_SIZE + RNIC_RDMAP_HDR_MAX +
                  RNIC_FPDU_TRAILER_MAX];
    size_t len = rnic_fpdu_length_encode(ulpdu_len, plain);
    uint32_t crc;

    memcpy(plain + len, ulpdu, ulpdu_len);
    len += ulpdu_len;
    crc = rnic_crc32c_update(rnic_crc32c_init(), plain, len);
    len +=
        rnic_fpdu_trailer_encode(ulpdu_len, qp->params.crc, crc, plain + len);
    if (qp->params.tx_markers) {
        return rnic_marker_insert(qp->tx->pos, plain, ulpdu_len, qp->params.crc,
                                  buf);
    }
    memcpy(buf, plain, len);
    return len;
}
