/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The MPA startup frames of a connection on its stream
 *
 * CRC (RFC 5044 section 7.1: used if either frame has C=1):
 *            crc=on   off   auto, in a loopback fabric   auto, elsewhere
 *   Request  C=1      0     0                            1
 *   Reply    C=1      that of the Request                1
 * So two rnics inside one host do without CRC by default (TCP never leaves
 * the host's memory), everything that leaves it has CRC, and a peer that asks
 * for CRC gets it.
 */
#include "cm-private.h"

#include <errno.h>
#include "wire/fpdu.h"
#include "wire/crc32c.h"
#include "wire/terminate.h"

static bool want_crc(const struct rnic_cm_conn *conn)
{
    switch (conn->dev->config.crc) {
    case RNIC_CRC_ON:
        return true;
    case RNIC_CRC_OFF:
        return false;
    case RNIC_CRC_AUTO:
        break;
    }
    return !conn->in_fabric;
}

void rnic_conn_mpa_config(struct rnic_cm_conn *conn, uint16_t ird, uint16_t ord)
{
    const struct rnic_config *config = &conn->dev->config;
    uint8_t rtr = (config->rtr & RNIC_RTR_WRITE ? RNIC_MPA_RTR_WRITE : 0) |
                  (config->rtr & RNIC_RTR_READ ? RNIC_MPA_RTR_READ : 0);

    conn->setup->mpa = (struct rnic_mpa_config){
        .crc = want_crc(conn),
        .rtr = rtr,
        .ird = ird,
        .ird_max = RNIC_MAX_IRD,
        .ord = ord,
        .rev = config->mpa_rev,
        /* RFC 6581 section 9.2: peer-to-peer needs the enhanced block */
        .p2p = config->p2p && rtr && config->mpa_rev >= RNIC_MPA_REV_RFC6581,
    };
}

static void trace_frame(struct rnic_cm_conn *conn, const char *verb,
                        const struct rnic_mpa_frame *f)
{
    char local[RNIC_SOCKADDR_STR], remote[RNIC_SOCKADDR_STR];

    rnic_trace(conn->dev, mpa,
               "%s %s %s: %s%s Rev %u%s%s%s IRD %u ORD %u "
               "P2P %d RTR %x, private data %u",
               rnic_sockaddr_str(&conn->local, local), verb,
               rnic_sockaddr_str(&conn->remote, remote),
               f->enhanced ? "enhanced " : "", f->reply ? "Reply" : "Request",
               f->rev, f->crc ? " CRC" : "", f->markers ? " markers" : "",
               f->reject ? " reject" : "", f->ird, f->ord, f->p2p, f->rtr,
               f->ulp_len);
}

enum rnic_frame_result rnic_conn_read_frame(struct rnic_cm_conn *conn,
                                            struct rnic_mpa_frame *frame,
                                            int *err)
{
    struct rnic_conn_setup *setup = conn->setup;
    enum rnic_mpa_status status;
    size_t octets;
    ssize_t n;

    *err = 0;
    for (;;) {
        status = rnic_mpa_frame_decode(setup->in, setup->in_len,
                                       conn->initiator, frame, &octets);
        if (status != RNIC_MPA_MORE) {
            break;
        }
        /* Never beyond the frame: what follows is the QP's */
        n = rnic_stream_recv_startup(conn->stream, setup->in + setup->in_len,
                                     octets);
        if (n == -EAGAIN) {
            return RNIC_FRAME_MORE;
        }
        if (n <= 0) {
            *err = n ? -n : ECONNRESET;
            rnic_stream_capture_startup(conn->stream, setup->in, setup->in_len);
            return RNIC_FRAME_CLOSED;
        }
        setup->in_len += n;
    }
    rnic_stream_capture_startup(conn->stream, setup->in, setup->in_len);
    if (status != RNIC_MPA_OK) {
        char remote[RNIC_SOCKADDR_STR];

        rnic_trace(conn->dev, mpa, "%s sent no usable %s: %s",
                   rnic_sockaddr_str(&conn->remote, remote),
                   conn->initiator ? "Reply" : "Request",
                   rnic_mpa_status_str(status));
        return RNIC_FRAME_BAD;
    }
    trace_frame(conn, "got from", frame);
    return RNIC_FRAME_DONE;
}

static int send_whole(struct rnic_cm_conn *conn, uint8_t *buf, size_t len)
{
    struct iovec iov = { .iov_base = buf, .iov_len = len };

    while (iov.iov_len) {
        ssize_t n = rnic_stream_send(conn->stream, &iov, 1, false);

        if (n <= 0) {
            /* The send buffer was empty: TCP takes none for lack of memory */
            return !n || n == -EAGAIN ? -ENOBUFS : n;
        }
        iov.iov_base = (uint8_t *)iov.iov_base + n;
        iov.iov_len -= n;
    }
    return 0;
}

int rnic_conn_send_frame(struct rnic_cm_conn *conn,
                         const struct rnic_mpa_frame *frame)
{
    uint8_t buf[RNIC_MPA_FRAME_MAX];
    size_t len = rnic_mpa_frame_encode(frame, buf, sizeof(buf));

    if (!len) {
        return -EMSGSIZE;
    }
    trace_frame(conn, "sends to", frame);
    return send_whole(conn, buf, len);
}

void rnic_conn_send_terminate(struct rnic_cm_conn *conn,
                              enum rnic_mpa_status status, bool use_crc)
{
    enum rnic_wire_err err = rnic_mpa_status_err(status);
    uint8_t
        buf[RNIC_FPDU_LENGTH_SIZE + RNIC_TERM_SIZE_MAX + RNIC_FPDU_TRAILER_MAX];
    size_t ulpdu =
        rnic_term_encode(err, NULL, 0, 0, buf + RNIC_FPDU_LENGTH_SIZE);
    size_t len = RNIC_FPDU_LENGTH_SIZE + ulpdu;
    uint32_t crc;

    rnic_fpdu_length_encode(ulpdu, buf);
    crc = rnic_crc32c_update(rnic_crc32c_init(), buf, len);
    len += rnic_fpdu_trailer_encode(ulpdu, use_crc, crc, buf + len);
    rnic_trace(conn->dev, term, "setup failed, Terminate sent: %s",
               rnic_mpa_status_str(status));
    rnic_stat_inc(conn->dev, RNIC_STAT_term_sent);
    /* Best effort: the connection ends either way */
    send_whole(conn, buf, len);
}
