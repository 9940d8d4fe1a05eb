/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Receiving: from the ordered octet stream to FPDUs
 *
 * FPDUs may begin and end anywhere in what one read returns. With CRC on an
 * FPDU is gathered whole and verified before anything of it is acted on.
 * With CRC off its payload is placed as it comes, and the rest of a large one
 * is read by the host straight into the guest's pages.
 *
 * Octets are read into memory of the engine; a QP keeps only the part of an
 * FPDU that cannot be used yet, so an idle one holds next to nothing.
 */
#include "rx.h"
#include "tx.h"

#include <string.h>

/* Octets that one QP reads before others have their turn */
#define TURN_OCTETS       (1024 * 1024)
/* CRC off: how far to read ahead. Octets read ahead are copied. */
#define AHEAD_OCTETS      (32 * 1024)
/* The same behind a large segment: the next header, hardly more */
#define AHEAD_BULK_OCTETS 256
/* Payload that is worth being read straight into place */
#define DIRECT_MIN        2048
/* A segment that announces more of its size */
#define BULK_MIN          8192

void rnic_rx_init(struct rnic_qp *qp)
{
    struct rnic_rx *rx = g_new0(struct rnic_rx, 1);

    rx->send_msn = 1;
    rx->read_msn = 1;
    rx->atomic_msn = 1;
    qp->rx = rx;
}

void rnic_rx_free(struct rnic_qp *qp)
{
    if (qp->rx) {
        g_free(qp->rx->whole);
        g_clear_pointer(&qp->rx, g_free);
    }
}

static void next_fpdu(struct rnic_rx *rx)
{
    rx->phase = RNIC_RX_HEADER;
    rx->head_len = 0;
}

/* The header of a segment is decoded and its FPDU can be trusted */
static bool segment_begin(struct rnic_qp *qp, const uint8_t *ulpdu,
                          size_t avail)
{
    struct rnic_rx *rx = qp->rx;

    if (!rx->opened) {
        rx->opened = true;
        rnic_qp_open_gate(qp);
    }
    rx->bulk = rx->seg.payload_len >= BULK_MIN;
    return rnic_rx_begin(qp, ulpdu, avail);
}

bool rnic_rx_opened(struct rnic_qp *qp)
{
    return qp->rx->opened;
}

/* Keeps the header for a Terminate about this segment */
static void head_keep(struct rnic_rx *rx, const uint8_t *fpdu, size_t len)
{
    rx->head_len = MIN(len, sizeof(rx->head));
    memcpy(rx->head, fpdu, rx->head_len);
}

/* CRC on: a complete FPDU */
static bool feed_whole(struct rnic_qp *qp, const uint8_t *fpdu, size_t len)
{
    struct rnic_rx *rx = qp->rx;
    const uint8_t *ulpdu = fpdu + RNIC_FPDU_LENGTH_SIZE;
    enum rnic_wire_err err = rnic_fpdu_check(fpdu, len);

    if (err != RNIC_WIRE_OK) {
        /* Not even its header may be told to the peer */
        rnic_qp_stat(qp, RNIC_STAT_rx_crc_errors, 1);
        rnic_fault_wire(qp, err, NULL, 0, 0);
        return false;
    }
    head_keep(rx, fpdu, RNIC_FPDU_LENGTH_SIZE + (size_t)rx->ulpdu_len);
    err = rnic_rdmap_seg_decode(ulpdu, rx->ulpdu_len, rx->ulpdu_len,
                                qp->dev->config.rfc7306, &rx->seg);
    if (err != RNIC_WIRE_OK) {
        rnic_rx_fault(qp, err);
        return false;
    }
    if (!segment_begin(qp, ulpdu, rx->ulpdu_len) ||
        !rnic_rx_place(qp, ulpdu + rx->seg.hdr_len, rx->seg.payload_len) ||
        !rnic_rx_finish(qp)) {
        return false;
    }
    next_fpdu(rx);
    return true;
}

/* CRC off: octets at @p up to the end of the header; *@used of them */
static bool feed_header(struct rnic_qp *qp, const uint8_t *p, size_t n,
                        size_t *used)
{
    struct rnic_rx *rx = qp->rx;
    size_t had = rx->head_len, avail, header;
    enum rnic_wire_err err;

    avail = MIN(n, sizeof(rx->head) - had);
    memcpy(rx->head + had, p, avail);
    rx->head_len += avail;
    *used = avail;
    err = rnic_fpdu_length_decode(rx->head, rx->head_len, &rx->ulpdu_len);
    if (err == RNIC_WIRE_OK) {
        err = rnic_rdmap_seg_decode(rx->head + RNIC_FPDU_LENGTH_SIZE,
                                    rx->head_len - RNIC_FPDU_LENGTH_SIZE,
                                    rx->ulpdu_len, qp->dev->config.rfc7306,
                                    &rx->seg);
    }
    if (err == RNIC_WIRE_MORE) {
        return true;
    }
    if (err != RNIC_WIRE_OK) {
        rnic_rx_fault(qp, err);
        return false;
    }
    header = RNIC_FPDU_LENGTH_SIZE + rx->seg.hdr_len;
    /* The decoder asked for more as long as the header was not complete */
    *used = header - had;
    rx->head_len = header;
    if (!segment_begin(qp, rx->head + RNIC_FPDU_LENGTH_SIZE, rx->seg.hdr_len)) {
        return false;
    }
    rx->trailer = rnic_fpdu_pad(rx->ulpdu_len) + RNIC_FPDU_CRC_SIZE;
    rx->phase = rx->seg.payload_len ? RNIC_RX_PAYLOAD : RNIC_RX_TRAILER;
    return true;
}

/* CRC on: octets at @p of an FPDU that is not complete there, or is */
static bool feed_gather(struct rnic_qp *qp, const uint8_t *p, size_t n,
                        size_t *used)
{
    struct rnic_rx *rx = qp->rx;
    enum rnic_wire_err err;
    size_t had = rx->head_len, need;

    if (rx->phase == RNIC_RX_WHOLE) {
        *used = MIN(n, rx->whole_need - rx->whole_len);
        memcpy(rx->whole + rx->whole_len, p, *used);
        rx->whole_len += *used;
        if (rx->whole_len < rx->whole_need) {
            return true;
        }
        rx->phase = RNIC_RX_HEADER;
        if (!feed_whole(qp, rx->whole, rx->whole_need)) {
            return false;
        }
        g_clear_pointer(&rx->whole, g_free);
        return true;
    }

    /* ULPDU_Length, which may come an octet at a time */
    *used = MIN(n, RNIC_FPDU_LENGTH_SIZE - had);
    memcpy(rx->head + had, p, *used);
    rx->head_len += *used;
    err = rnic_fpdu_length_decode(rx->head, rx->head_len, &rx->ulpdu_len);
    if (err == RNIC_WIRE_MORE) {
        return true;
    }
    if (err != RNIC_WIRE_OK) {
        rnic_fault_wire(qp, err, NULL, 0, 0);
        return false;
    }
    need = rnic_fpdu_len(rx->ulpdu_len);
    if (!had && n >= need) {
        *used = need;
        return feed_whole(qp, p, need);
    }
    rx->whole = g_malloc(need);
    rx->whole_need = need;
    rx->whole_len = rx->head_len;
    memcpy(rx->whole, rx->head, rx->head_len);
    rx->phase = RNIC_RX_WHOLE;
    return true;
}

/* Processes @n octets of the stream at @p */
static bool feed(struct rnic_qp *qp, const uint8_t *p, size_t n)
{
    struct rnic_rx *rx = qp->rx;
    size_t used = 0;

    while (n) {
        if (qp->params.crc) {
            if (!feed_gather(qp, p, n, &used)) {
                return false;
            }
        } else if (rx->phase == RNIC_RX_HEADER) {
            if (!feed_header(qp, p, n, &used)) {
                return false;
            }
        } else if (rx->phase == RNIC_RX_PAYLOAD) {
            used = MIN(n, rx->seg.payload_len - rx->placed);
            if (!rnic_rx_place(qp, p, used)) {
                return false;
            }
            if (rx->placed == rx->seg.payload_len) {
                rx->phase = RNIC_RX_TRAILER;
            }
        } else {
            used = MIN(n, rx->trailer);
            rx->trailer -= used;
            if (!rx->trailer) {
                if (!rnic_rx_finish(qp)) {
                    return false;
                }
                next_fpdu(rx);
            }
        }
        p += used;
        n -= used;
    }
    return true;
}

/* ---- Reading ---- */

/* The stream ended in order */
static void end_of_stream(struct rnic_qp *qp)
{
    struct rnic_rx *rx = qp->rx;
    struct rnic_tx *tx = qp->tx;
    bool between = rx->phase == RNIC_RX_HEADER && !rx->head_len &&
                   !rx->recv_taken && !rx->write_open;
    bool nothing_due = !tx->read_count && !tx->kept && !tx->head;

    if (between && nothing_due) {
        rnic_fault_closed(qp);
    } else {
        rnic_fault_lost(qp, 0);
    }
}

/* Reads once. Octets; 0: nothing is there now; -1: fault recorded */
static ssize_t read_once(struct rnic_qp *qp, bool *drained)
{
    uint8_t *buf = qp->dev->qp_scratch->rx;
    size_t buf_len = sizeof(qp->dev->qp_scratch->rx);
    struct iovec iov[G_N_ELEMENTS(((struct rnic_mapping *)0)->iov) + 1];
    struct rnic_rx *rx = qp->rx;
    struct rnic_mapping map = { .count = 0 };
    size_t direct = 0, want = 0;
    uint64_t done = 0;
    unsigned i, count = 0;
    ssize_t n;

    if (rx->phase == RNIC_RX_WHOLE) {
        iov[count++] = (struct iovec){ rx->whole + rx->whole_len,
                                       rx->whole_need - rx->whole_len };
        direct = iov[0].iov_len;
    } else if (rx->phase == RNIC_RX_PAYLOAD) {
        size_t left = rx->seg.payload_len - rx->placed;

        if (left >= DIRECT_MIN) {
            if (!rnic_rx_map(qp, left, &map, &done)) {
                return -1;
            }
            for (i = 0; i < map.count; i++) {
                iov[count++] = map.iov[i];
            }
            direct = done;
            if (done < left) {
                buf_len = 0;
            }
        }
    }
    if (!qp->params.crc && buf_len) {
        buf_len = rx->bulk ? AHEAD_BULK_OCTETS : AHEAD_OCTETS;
    }
    if (buf_len) {
        iov[count++] = (struct iovec){ buf, buf_len };
    }
    want = direct + buf_len;

    n = rnic_stream_recv(qp->stream, iov, count);
    if (done) {
        rnic_mapping_release(qp->dev, &map, MIN(MAX(n, 0), done));
    }
    if (n == -EAGAIN) {
        return 0;
    }
    if (n == 0) {
        end_of_stream(qp);
        return -1;
    }
    if (n < 0) {
        rnic_fault_lost(qp, -n);
        return -1;
    }
    *drained = n < want;
    if (done) {
        direct = MIN(n, done);
        rx->placed += direct;
        rx->direct += direct;
        rnic_qp_stat(qp, RNIC_STAT_rx_direct, direct);
        if (rx->placed == rx->seg.payload_len) {
            rx->phase = RNIC_RX_TRAILER;
        }
    } else if (direct) {
        direct = MIN(n, direct);
        rx->whole_len += direct;
        if (rx->whole_len == rx->whole_need) {
            rx->phase = RNIC_RX_HEADER;
            if (!feed_whole(qp, rx->whole, rx->whole_need)) {
                return -1;
            }
            g_clear_pointer(&rx->whole, g_free);
        }
    }
    if (n > direct && !feed(qp, buf, n - direct)) {
        return -1;
    }
    return n;
}

void rnic_rx_turn(struct rnic_qp *qp)
{
    size_t octets = 0;
    bool drained = false;

    while (octets < TURN_OCTETS && !drained && rnic_qp_running(qp)) {
        ssize_t n = read_once(qp, &drained);

        if (n <= 0) {
            break;
        }
        octets += n;
    }
}
