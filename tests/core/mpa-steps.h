/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Steps of the MPA startup that its tests share: a device in either role, and
 * a raw peer in the other
 */
#ifndef TESTS_CORE_MPA_STEPS_H
#define TESTS_CORE_MPA_STEPS_H

#include "iwarp-peer.h"
#include "raw-peer.h"

struct mpa_setup {
    enum rnic_crc_policy crc;
    bool no_p2p;
    unsigned rev;        /* 0: 2 */
    unsigned timeout_ms; /* 0: long */
};

/* iw_listen() with these properties; NULL: CRC auto, peer-to-peer mode */
void mpa_listen(struct iw_peer *peer, const struct mpa_setup *setup);

/* ---- The device as responder ---- */

/* TCP only */
void mpa_connect(struct iw_peer *peer);
/* Sends a Request, and takes the event */
void mpa_request(struct iw_peer *peer, uint8_t flags, uint8_t rev,
                 const void *pd, uint16_t pd_len, struct rnic_aeqe *event);
/* ACCEPT; takes the Reply, and its C for the connection's */
void mpa_accept(struct iw_peer *peer, const struct rnic_aeqe *event,
                const struct th_connect *params, struct raw_frame *reply);
void mpa_established(struct iw_peer *peer, struct rnic_aeqe *event);

/* ---- The device as initiator ---- */

/* CONNECT, and takes the Request; the peer's listener, to be closed */
int mpa_initiate(struct iw_peer *peer, const struct th_connect *params,
                 struct raw_frame *request);
/* Sends a Reply; @ird and @ord: words of the block, if @flags has S */
void mpa_reply(struct iw_peer *peer, uint8_t flags, uint8_t rev, uint16_t ird,
               uint16_t ord);
/* Takes CONNECT_REPLY; the QP is in RTS or ERROR as @status says */
void mpa_reply_event(struct iw_peer *peer, enum rnic_cm_status status,
                     struct rnic_aeqe *event);

/* ---- Both ---- */

/* Posts a signalled Send of 8 octets of the buffer */
void mpa_post_send(struct iw_peer *peer);
/* It arrives with this MSN, and completes */
void mpa_recv_send(struct iw_peer *peer, uint32_t msn);
/* A Send with a bad CRC, and nothing of the kind is let through: ends with
 * iw_expect_refused() */
void mpa_crc_is_checked(struct iw_peer *peer);
/* Waits for an FPDU and leaves it there: whether it has this control octet */
bool mpa_next_is(struct iw_peer *peer, uint8_t rdmap);
/* Nothing comes from the device, and no event */
void mpa_silence(struct iw_peer *peer);

#endif
