/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "mpa-steps.h"

#include <string.h>
#include <sys/socket.h>

#define SEND_LEN 8

void mpa_listen(struct iw_peer *peer, const struct mpa_setup *setup)
{
    static const struct mpa_setup usual = { .crc = RNIC_CRC_AUTO };
    struct th_options th;

    setup = setup ? setup : &usual;
    th_options_init(&th);
    th.config.crc = setup->crc;
    th.config.p2p = !setup->no_p2p;
    th.config.mpa_rev = setup->rev ? setup->rev : 2;
    th.config.mpa_timeout_ms = setup->timeout_ms ? setup->timeout_ms : 10000;
    iw_listen(peer, &th);
}

void mpa_connect(struct iw_peer *peer)
{
    peer->fd = raw_connect(peer->guest, IW_PEER, IW_DEVICE, peer->port);
}

void mpa_request(struct iw_peer *peer, uint8_t flags, uint8_t rev,
                 const void *pd, uint16_t pd_len, struct rnic_aeqe *event)
{
    raw_send_frame(peer->fd, false, flags, rev, pd, pd_len);
    th_event_wait(peer->guest, RNIC_EV_CONNECT_REQUEST, peer->listener, event);
    g_assert_cmpuint(GUINT16_FROM_LE(event->status), ==, RNIC_CM_OK);
}

void mpa_accept(struct iw_peer *peer, const struct rnic_aeqe *event,
                const struct th_connect *params, struct raw_frame *reply)
{
    g_assert_cmpuint(
        th_accept(peer->qp, GUINT32_FROM_LE(event->conn_id), params), ==,
        RNIC_ADMIN_OK);
    raw_recv_frame(peer->fd, true, reply);
    peer->crc = reply->flags & RAW_C;
}

void mpa_established(struct iw_peer *peer, struct rnic_aeqe *event)
{
    th_event_wait(peer->guest, RNIC_EV_ESTABLISHED, peer->qp->qpn, event);
    g_assert_cmpuint(GUINT16_FROM_LE(event->status), ==, RNIC_CM_OK);
    g_assert_cmpuint(th_qp_state(peer->qp), ==, RNIC_QPS_RTS);
}

int mpa_initiate(struct iw_peer *peer, const struct th_connect *params,
                 struct raw_frame *request)
{
    struct rnic_sockaddr local = th_sockaddr(IW_DEVICE, 0), remote;
    uint16_t port = 0;
    int listener = raw_listen(peer->guest, IW_PEER, &port);

    remote = th_sockaddr(IW_PEER, port);
    g_assert_cmpuint(th_connect(peer->qp, &local, &remote, params), ==,
                     RNIC_ADMIN_OK);
    peer->fd = raw_accept(listener);
    raw_recv_frame(peer->fd, false, request);
    peer->crc = request->flags & RAW_C;
    return listener;
}

void mpa_reply(struct iw_peer *peer, uint8_t flags, uint8_t rev, uint16_t ird,
               uint16_t ord)
{
    uint8_t block[4];

    peer->crc |= !!(flags & RAW_C);
    raw_block(block, ird, ord);
    raw_send_frame(peer->fd, true, flags, rev, block, flags & RAW_S ? 4 : 0);
}

void mpa_reply_event(struct iw_peer *peer, enum rnic_cm_status status,
                     struct rnic_aeqe *event)
{
    th_event_wait(peer->guest, RNIC_EV_CONNECT_REPLY, peer->qp->qpn, event);
    g_assert_cmpuint(GUINT16_FROM_LE(event->status), ==, status);
    g_assert_cmpuint(th_qp_state(peer->qp), ==,
                     status == RNIC_CM_OK ? RNIC_QPS_RTS : RNIC_QPS_ERROR);
}

void mpa_post_send(struct iw_peer *peer)
{
    struct th_wr wr = {
        .opcode = RNIC_WR_SEND,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = 0x5e4d,
        .sge = { th_sge(peer->stag, PEER_IOVA, SEND_LEN) },
        .num_sge = 1,
    };

    th_post_send(peer->qp, &wr, 1);
}

void mpa_recv_send(struct iw_peer *peer, uint32_t msn)
{
    uint8_t ulpdu[18 + SEND_LEN], expected[18 + SEND_LEN];

    iw_untagged(expected, IW_UNTAGGED, IW_SEND, 0, 0, msn, 0, peer->buf.ptr,
                SEND_LEN);
    g_assert_cmpuint(iw_recv(peer, ulpdu), ==, sizeof(ulpdu));
    g_assert_cmpmem(ulpdu, sizeof(ulpdu), expected, sizeof(expected));
    iw_wait_send(peer, 0x5e4d, RNIC_WC_SUCCESS);
}

void mpa_crc_is_checked(struct iw_peer *peer)
{
    uint8_t ulpdu[64], fpdu[64];
    size_t len = iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, 1, 0, "x", 1);

    g_assert_true(peer->crc);
    len = iw_fpdu(peer, fpdu, ulpdu, len);
    fpdu[len - 2] ^= 4;
    raw_send(peer->fd, fpdu, len);
    iw_expect_refused(peer, 2, 0, 0x02, NULL);
}

bool mpa_next_is(struct iw_peer *peer, uint8_t rdmap)
{
    uint8_t octets[4];

    th_wait(recvfrom(peer->fd, octets, 4, MSG_PEEK, NULL, NULL) == 4);
    return octets[3] == rdmap;
}

void mpa_silence(struct iw_peer *peer)
{
    raw_silent(peer->fd, 30);
    g_assert_cmpuint(th_events(peer->guest), ==, 0);
}
