/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What Request and Reply agree on (RFC 5044 section 7.1, RFC 6581 sections 9
 * and 10): pure functions of the frames and the local configuration.
 */
#ifndef RNIC_WIRE_MPA_NEGOTIATE_H
#define RNIC_WIRE_MPA_NEGOTIATE_H

#include "mpa.h"

struct rnic_mpa_config {
    /*
     * C in the frame that this end sends. CRC is used if either end sets
     * it, so a peer's C=1 is honoured whatever stands here.
     */
    bool crc;
    /* RTR forms this end can send or take, RNIC_MPA_RTR_*. */
    uint8_t rtr;
    /* Inbound reads that this end wants to serve, and the device's limit. */
    uint16_t ird;
    uint16_t ird_max;
    /* Outbound reads that this end wants to have outstanding. */
    uint16_t ord;

    /* Initiator only. */
    uint8_t rev; /* 1: plain; 2: enhanced */
    bool p2p;    /* ask for the peer-to-peer model; rev 2 */
};

struct rnic_mpa_params {
    uint8_t rev;
    bool enhanced;
    bool crc;        /* generate and check, both directions */
    bool tx_markers; /* the peer wants markers in what it gets */
    uint16_t ird;    /* most inbound reads outstanding */
    uint16_t ord;    /* most outbound reads outstanding */
    /*
     * 0: no peer-to-peer model. Initiator: the one RTR form that must be
     * the first FPDU it sends; a Read RTR does not count against ORD.
     * Responder: the forms of which one is due as the first FPDU.
     */
    uint8_t rtr;
    /* As the peer sent them, for the ULP; 0 in a plain frame. */
    uint16_t peer_ird;
    uint16_t peer_ord;
};

/*
 * Builds the initiator's Request from @cfg: plain Rev 1, or Rev 2 with the
 * enhanced block. The caller adds ulp_data. RNIC_MPA_NO_LOCAL: peer-to-peer
 * asked for without Rev 2 or without an RTR form, or a revision not known.
 */
enum rnic_mpa_status rnic_mpa_request(const struct rnic_mpa_config *cfg,
                                      struct rnic_mpa_frame *request);

/*
 * Responder, accepting: computes the Reply to the decoded @request and what
 * the connection then works with. IRD is raised to the initiator's ORD
 * within ird_max, ORD lowered to its IRD. The caller adds ulp_data to
 * *@reply. RNIC_MPA_OK, or RNIC_MPA_NO_LOCAL: peer-to-peer asked for and
 * @cfg has no RTR form; reject then.
 */
enum rnic_mpa_status rnic_mpa_accept(const struct rnic_mpa_frame *request,
                                     const struct rnic_mpa_config *cfg,
                                     struct rnic_mpa_frame *reply,
                                     struct rnic_mpa_params *params);

/*
 * Responder, rejecting: the Reply with R=1, carrying the enhanced block if
 * the Request did. The caller adds ulp_data.
 */
void rnic_mpa_reject(const struct rnic_mpa_frame *request,
                     const struct rnic_mpa_config *cfg,
                     struct rnic_mpa_frame *reply);

/*
 * Initiator: evaluates the decoded @reply to its own @request.
 * *@params is filled as far as known in every case: the peer's raw IRD and
 * ORD also on reject.
 *
 * RNIC_MPA_OK; RNIC_MPA_REJECTED; RNIC_MPA_BAD_REPLY: not of the kind that
 * was asked for (close, there is no half-enhanced state); RNIC_MPA_NO_IRD,
 * RNIC_MPA_NO_RTR: send the Terminate of rnic_mpa_status_err() as the first
 * FPDU, with the CRC setting in *@params, and close.
 */
enum rnic_mpa_status rnic_mpa_conclude(const struct rnic_mpa_frame *request,
                                       const struct rnic_mpa_frame *reply,
                                       const struct rnic_mpa_config *cfg,
                                       struct rnic_mpa_params *params);

#endif
