/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * MPA startup frames: Request and Reply (RFC 5044 section 7.1.1) with the
 * enhanced block of RFC 6581. What the two frames agree on is computed in
 * mpa-negotiate.h.
 */
#ifndef RNIC_WIRE_MPA_H
#define RNIC_WIRE_MPA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire-error.h"

#define RNIC_MPA_HDR_SIZE      20
/* Octets of Private Data, the enhanced block included. */
#define RNIC_MPA_PD_MAX        512
#define RNIC_MPA_ENHANCED_SIZE 4
#define RNIC_MPA_FRAME_MAX     (RNIC_MPA_HDR_SIZE + RNIC_MPA_PD_MAX)

#define RNIC_MPA_REV_RFC5044 1
#define RNIC_MPA_REV_RFC6581 2

/* IRD or ORD with this value: not negotiated here (RFC 6581 section 9.1). */
#define RNIC_MPA_IRD_ORD_NONE 0x3fff

/* Ready-to-receive forms, RFC 6581 section 9.2, as a mask. */
#define RNIC_MPA_RTR_SEND  1 /* flag B: zero-length Send */
#define RNIC_MPA_RTR_WRITE 2 /* flag C: zero-length RDMA Write */
#define RNIC_MPA_RTR_READ  4 /* flag D: zero-length RDMA Read */
#define RNIC_MPA_RTR_ALL   7

struct rnic_mpa_frame {
    bool reply; /* false: Request */
    uint8_t rev;
    bool markers;  /* M: sender wants markers sent to it */
    bool crc;      /* C */
    bool reject;   /* R */
    bool enhanced; /* S, with rev >= 2: the block is present */

    /* The enhanced block; all zero in a plain frame. */
    bool p2p;     /* A: peer-to-peer model */
    uint8_t rtr;  /* B, C, D as RNIC_MPA_RTR_* */
    uint16_t ird; /* 14 bits */
    uint16_t ord; /* 14 bits */

    /*
     * Private Data of the ULP: what follows the block. Decoded: points into
     * the caller's buffer. NULL if empty.
     */
    const uint8_t *ulp_data;
    uint16_t ulp_len;
};

enum rnic_mpa_status {
    RNIC_MPA_OK = 0,
    RNIC_MPA_MORE, /* more octets are needed */
    /* Malformed or foreign: close TCP, answer nothing. */
    RNIC_MPA_BAD_KEY,       /* not the key that this role expects */
    RNIC_MPA_BAD_REV,       /* neither 1 nor 2 */
    RNIC_MPA_BAD_PD_LENGTH, /* above 512, or no room for the block */
    RNIC_MPA_BAD_REPLY,     /* well formed, but no answer to the Request */
    /* The Reply has R=1: leave MPA, close TCP. */
    RNIC_MPA_REJECTED,
    /* Set-up failed: send the Terminate, close TCP. */
    RNIC_MPA_NO_IRD,   /* the peer's ORD exceeds what can be served */
    RNIC_MPA_NO_RTR,   /* no RTR form in common */
    RNIC_MPA_NO_LOCAL, /* the local configuration is unusable */
};

/*
 * Decodes the startup frame at @buf, of which @len octets have arrived;
 * @reply says which of the two this role expects. Errors are found at the
 * first octet that proves them, so a peer that speaks something else is not
 * waited for.
 *
 * RNIC_MPA_OK: *@f is filled and *@octets is the frame's length; what
 * follows it are FPDUs. RNIC_MPA_MORE: *@octets more are needed at least;
 * asking for exactly that many never reads beyond the frame. Otherwise one
 * of RNIC_MPA_BAD_KEY, BAD_REV, BAD_PD_LENGTH.
 *
 * Reserved flags are ignored; S counts only with Rev 2 (RFC 6581 section 6);
 * B, C and D only with A (section 9.2).
 */
enum rnic_mpa_status rnic_mpa_frame_decode(const uint8_t *buf, size_t len,
                                           bool reply, struct rnic_mpa_frame *f,
                                           size_t *octets);

/*
 * Encodes @f into @buf of @size octets. Returns the frame's length, or 0 if
 * it does not fit, or if the Private Data exceeds RNIC_MPA_PD_MAX (less
 * RNIC_MPA_ENHANCED_SIZE in an enhanced frame).
 */
size_t rnic_mpa_frame_encode(const struct rnic_mpa_frame *f, uint8_t *buf,
                             size_t size);

/*
 * The condition that a failed set-up reports, for rnic_term_encode(). Only
 * RNIC_MPA_NO_* have one that may be sent (RFC 6581 section 8); an invalid
 * frame is RNIC_WIRE_MPA_FRAME, for the local report alone. RNIC_WIRE_OK for
 * statuses that are no error.
 */
enum rnic_wire_err rnic_mpa_status_err(enum rnic_mpa_status status);

/* A word for traces. Never NULL. */
const char *rnic_mpa_status_str(enum rnic_mpa_status status);

#endif
