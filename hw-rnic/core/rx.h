/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Receiving, shared by rx.c (the stream: octets to FPDUs) and rx-place.c
 * (segments: checks, placement, delivery)
 */
#ifndef RNIC_RX_H
#define RNIC_RX_H

#include "qp-private.h"
#include "wire/fpdu.h"

enum rnic_rx_phase {
    RNIC_RX_HEADER,  /* gathers the start of an FPDU */
    RNIC_RX_WHOLE,   /* CRC on: gathers the FPDU */
    RNIC_RX_PAYLOAD, /* CRC off: places payload as it comes */
    RNIC_RX_TRAILER, /* CRC off: skips pad and CRC field */
};

struct rnic_rx {
    enum rnic_rx_phase phase;
    /* HEADER: what came of it; later the header of the current segment */
    uint8_t head[RNIC_FPDU_LENGTH_SIZE + RNIC_RDMAP_HDR_MAX];
    size_t head_len;
    uint16_t ulpdu_len;
    /* WHOLE */
    uint8_t *whole;
    size_t whole_len, whole_need;

    /* The current segment */
    struct rnic_rdmap_seg seg;
    uint32_t placed;  /* payload octets of it that are in place */
    uint32_t direct;  /* of them read straight into place */
    uint32_t trailer; /* octets of pad and CRC still to come */
    bool bulk;        /* the last segment was large */

    bool opened; /* a first FPDU was valid */
    uint32_t send_msn, read_msn;
    uint32_t atomic_msn; /* of Atomic Responses */
    /* The Send that is being received */
    bool recv_taken;
    struct rnic_recv_wr recv;
    uint32_t recv_mo; /* octets of earlier segments */
    bool write_open;  /* a tagged message lacks its last segment */
    /* Octets of the last RDMA Write, until a message of QN 0 comes */
    uint32_t write_octets;
};

/*
 * rx-place.c. All return false if a fault was recorded.
 * begin: checks the segment whose header is rx->seg and whose ULPDU starts at
 * @ulpdu (@avail octets, RDMAP header included), before any of it is placed.
 */
bool rnic_rx_begin(struct rnic_qp *qp, const uint8_t *ulpdu, size_t avail);
/* Copies @len payload octets to where they belong, from rx->placed on */
bool rnic_rx_place(struct rnic_qp *qp, const uint8_t *payload, size_t len);
/* Maps the place of up to @len payload octets from rx->placed on; the
 * mapping may be shorter */
bool rnic_rx_map(struct rnic_qp *qp, size_t len, struct rnic_mapping *map,
                 uint64_t *done);
/* All payload is in place and the FPDU is complete */
bool rnic_rx_finish(struct rnic_qp *qp);
/* Records a fault with the header of the current segment */
void rnic_rx_fault(struct rnic_qp *qp, enum rnic_wire_err err);

#endif
