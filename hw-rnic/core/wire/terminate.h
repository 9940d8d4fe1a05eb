/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The Terminate message (RFC 5040 sections 4.8, 5.4 and 7): the code of each
 * error condition, the message to send for it, and a tolerant reading of
 * those that peers send.
 */
#ifndef RNIC_WIRE_TERMINATE_H
#define RNIC_WIRE_TERMINATE_H

#include "ddp.h"
#include "rdmap.h"
#include "wire-error.h"

/* ULPDU lengths: no headers; M, D and R set, with an untagged DDP header. */
#define RNIC_TERM_SIZE_MIN 22
#define RNIC_TERM_SIZE_MAX 70

#define RNIC_TERM_LAYER_RDMAP 0
#define RNIC_TERM_LAYER_DDP   1
#define RNIC_TERM_LAYER_LLP   2 /* MPA */

/* How a condition is reported. */
struct rnic_term_cause {
    uint8_t layer;
    uint8_t etype;
    uint8_t code;
    bool ddp_hdr;   /* M and D set if the offender is known */
    bool rdmap_hdr; /* R set too if it is a Read Request */
    const char *name;
};

/* The row of @err, which must be an error condition (above _MORE). */
const struct rnic_term_cause *rnic_term_cause(enum rnic_wire_err err);

/*
 * Encodes the ULPDU of the Terminate that reports @err into @buf and returns
 * its length.
 *
 * @offender: the first @avail octets of the ULPDU that caused the error,
 * whose length is @ulpdu_len; 46 octets are enough. NULL, 0, 0 if the error
 * belongs to no inbound message or its octets cannot be trusted (bad CRC).
 * Headers that are called for and not available are left out. For a Read
 * Request that was partly answered the caller passes a header with sink TO
 * and source TO advanced and the size reduced by the octets already sent.
 *
 * Returns 0 if the offender is itself a Terminate: that is never answered
 * (RFC 5040 section 7.1), only reported locally.
 */
size_t rnic_term_encode(enum rnic_wire_err err, const uint8_t *offender,
                        size_t avail, uint16_t ulpdu_len,
                        uint8_t buf[RNIC_TERM_SIZE_MAX]);

/* The Terminate control word. */
struct rnic_term_ctrl {
    uint8_t layer;
    uint8_t etype;
    uint8_t code;
    bool seg_len_valid; /* M */
    bool ddp_hdr;       /* D */
    bool rdmap_hdr;     /* R */
};

struct rnic_term {
    /*
     * siw on little-endian hosts sends the control word in its compiler's
     * bit order: layer and type exchanged, M, D, R at the other end of their
     * octet. Both readings are given, for traces; @swapped says which one is
     * believed. A word without M, D and R that names a defined code in the
     * RFC's order is read in that order.
     */
    struct rnic_term_ctrl rfc;
    struct rnic_term_ctrl siw;
    bool swapped;

    /* By the believed reading, and only as far as the octets reach. */
    bool has_seg_len;
    uint16_t seg_len; /* as sent; peers disagree on its meaning */
    bool has_ddp;
    struct rnic_ddp_hdr ddp; /* header of the terminated segment */
    bool has_read_request;
    struct rnic_rdmap_read_request read_request;
};

/* The believed reading of the control word. */
static inline const struct rnic_term_ctrl *
rnic_term_ctrl(const struct rnic_term *term)
{
    return term->swapped ? &term->siw : &term->rfc;
}

/*
 * Decodes the Terminate whose ULPDU starts at @ulpdu, @len octets of it.
 * Takes any layer, type and code, and headers that are announced but not
 * there. False only if the control word is incomplete (len <
 * RNIC_TERM_SIZE_MIN). That the DDP header says QN 2, MSN 1, MO 0 is checked
 * by rnic_rdmap_seg_decode().
 */
bool rnic_term_decode(const uint8_t *ulpdu, size_t len, struct rnic_term *term);

/*
 * The name of a Terminate code for traces and errors. Never NULL. In the MPA
 * layer the error type is ignored: adapters send other types than 0.
 */
const char *rnic_term_str(uint8_t layer, uint8_t etype, uint8_t code);

#endif
