/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RDMAP messages (RFC 5040 section 4, RFC 7306): the checks on a ULPDU that
 * need no state, and the RDMAP headers behind the DDP header. Terminate has
 * its own file. Offsets are octets from the start of the ULPDU.
 */
#ifndef RNIC_WIRE_RDMAP_H
#define RNIC_WIRE_RDMAP_H

#include "ddp.h"
#include "wire-error.h"

#define RNIC_RDMAP_VERSION 1

enum rnic_rdmap_opcode {
    RNIC_RDMAP_WRITE = 0,
    RNIC_RDMAP_READ_REQUEST = 1,
    RNIC_RDMAP_READ_RESPONSE = 2,
    RNIC_RDMAP_SEND = 3,
    RNIC_RDMAP_SEND_INV = 4,
    RNIC_RDMAP_SEND_SE = 5,
    RNIC_RDMAP_SEND_SE_INV = 6,
    RNIC_RDMAP_TERMINATE = 7,
    /* RFC 7306 */
    RNIC_RDMAP_IMM = 8,
    RNIC_RDMAP_IMM_SE = 9,
    RNIC_RDMAP_ATOMIC_REQUEST = 10,
    RNIC_RDMAP_ATOMIC_RESPONSE = 11,
    RNIC_RDMAP_OPCODE_COUNT
};

/* ULPDU lengths of the messages of fixed size. */
#define RNIC_RDMAP_READ_REQUEST_SIZE    46
#define RNIC_RDMAP_IMM_SIZE             26
#define RNIC_RDMAP_ATOMIC_REQUEST_SIZE  70
#define RNIC_RDMAP_ATOMIC_RESPONSE_SIZE 30
/* Longest DDP and RDMAP headers together: Atomic Request or Terminate. */
#define RNIC_RDMAP_HDR_MAX              70

#define RNIC_RDMAP_IMM_DATA_SIZE 8

/* One DDP segment: its header, and where its payload lies. */
struct rnic_rdmap_seg {
    struct rnic_ddp_hdr ddp;
    uint16_t hdr_len;     /* octets of DDP and RDMAP header */
    uint16_t payload_len; /* octets behind them */
};

struct rnic_rdmap_read_request {
    uint32_t sink_stag; /* the requester's buffer */
    uint64_t sink_to;
    uint32_t size;        /* octets */
    uint32_t source_stag; /* the responder's buffer */
    uint64_t source_to;
};

enum rnic_rdmap_atomic_op {
    RNIC_RDMAP_FETCH_ADD = 0,
    RNIC_RDMAP_CMP_SWAP = 2,
};

struct rnic_rdmap_atomic_request {
    uint8_t op;  /* enum rnic_rdmap_atomic_op */
    uint32_t id; /* echoed in the response */
    uint32_t stag;
    uint64_t to;
    uint64_t data;         /* to add or to swap in */
    uint64_t mask;         /* of the add or swap data */
    uint64_t compare;      /* CmpSwap; else send 0 */
    uint64_t compare_mask; /* CmpSwap; else send all ones */
};

struct rnic_rdmap_atomic_response {
    uint32_t id;    /* of the request */
    uint64_t value; /* before the operation */
};

/*
 * Decodes and checks the headers of the ULPDU at @ulpdu, @avail octets of
 * which are there and which is @ulpdu_len octets long in all. @rfc7306:
 * opcodes 8 to 11 are supported. Checked in this order: room for any DDP
 * header, DV, RV, opcode, T against opcode, length against opcode, QN; then
 * of messages of one segment that MO is 0 and L set, and the Terminate's MSN.
 * Other MSNs and MOs, STags and bounds need state and are the caller's.
 *
 * RNIC_WIRE_OK: *@seg is set, and seg->hdr_len octets are available, so that
 * the decoder of this opcode's RDMAP header succeeds. RNIC_WIRE_MORE: call
 * again with more; RNIC_RDMAP_HDR_MAX octets or the whole ULPDU always
 * suffice. Otherwise what is wrong; give the same octets to
 * rnic_term_encode(), which also knows that a Terminate is not answered.
 */
enum rnic_wire_err rnic_rdmap_seg_decode(const uint8_t *ulpdu, size_t avail,
                                         uint16_t ulpdu_len, bool rfc7306,
                                         struct rnic_rdmap_seg *seg);

/*
 * Encode the DDP header of one segment with versions 1; @buf has room for
 * RNIC_DDP_HDR_MAX octets. The QN follows from the opcode. Return the
 * header's length. @inval_stag: 0 unless the opcode invalidates.
 */
size_t rnic_rdmap_tagged_encode(enum rnic_rdmap_opcode opcode, bool last,
                                uint32_t stag, uint64_t to, uint8_t *buf);
size_t rnic_rdmap_untagged_encode(enum rnic_rdmap_opcode opcode, bool last,
                                  uint32_t inval_stag, uint32_t msn,
                                  uint32_t mo, uint8_t *buf);

/*
 * The RDMAP header of each message of fixed size. Decoders take the whole
 * ULPDU, @len octets of it, and return false if it is too short. Encoders
 * write the whole ULPDU, DDP header with the given MSN included, and return
 * its length.
 */
bool rnic_rdmap_read_request_decode(const uint8_t *ulpdu, size_t len,
                                    struct rnic_rdmap_read_request *rr);
size_t
rnic_rdmap_read_request_encode(const struct rnic_rdmap_read_request *rr,
                               uint32_t msn,
                               uint8_t buf[RNIC_RDMAP_READ_REQUEST_SIZE]);

/*
 * The AOpCode is not checked here: one that is neither FetchAdd nor CmpSwap
 * is RNIC_WIRE_OP_OPCODE (RFC 7306 section 5.2.1).
 */
bool rnic_rdmap_atomic_request_decode(const uint8_t *ulpdu, size_t len,
                                      struct rnic_rdmap_atomic_request *ar);
size_t
rnic_rdmap_atomic_request_encode(const struct rnic_rdmap_atomic_request *ar,
                                 uint32_t msn,
                                 uint8_t buf[RNIC_RDMAP_ATOMIC_REQUEST_SIZE]);

bool rnic_rdmap_atomic_response_decode(const uint8_t *ulpdu, size_t len,
                                       struct rnic_rdmap_atomic_response *ar);
size_t
rnic_rdmap_atomic_response_encode(const struct rnic_rdmap_atomic_response *ar,
                                  uint32_t msn,
                                  uint8_t buf[RNIC_RDMAP_ATOMIC_RESPONSE_SIZE]);

/*
 * Immediate Data, 8 octets verbatim. 32-bit verbs immediates travel in the
 * first 4, the other 4 being zero.
 */
bool rnic_rdmap_imm_decode(const uint8_t *ulpdu, size_t len,
                           uint8_t data[RNIC_RDMAP_IMM_DATA_SIZE]);
size_t rnic_rdmap_imm_encode(const uint8_t data[RNIC_RDMAP_IMM_DATA_SIZE],
                             bool solicited, uint32_t msn,
                             uint8_t buf[RNIC_RDMAP_IMM_SIZE]);

/* The four Send opcodes. */
static inline bool rnic_rdmap_is_send(uint8_t opcode)
{
    return opcode >= RNIC_RDMAP_SEND && opcode <= RNIC_RDMAP_SEND_SE_INV;
}

/* The message asks for a solicited event at its receiver. */
static inline bool rnic_rdmap_solicits(uint8_t opcode)
{
    return opcode == RNIC_RDMAP_SEND_SE || opcode == RNIC_RDMAP_SEND_SE_INV ||
           opcode == RNIC_RDMAP_IMM_SE;
}

/* The Invalidate STag field is meaningful. */
static inline bool rnic_rdmap_invalidates(uint8_t opcode)
{
    return opcode == RNIC_RDMAP_SEND_INV || opcode == RNIC_RDMAP_SEND_SE_INV;
}

/* The message's name for traces. Never NULL. */
const char *rnic_rdmap_opcode_str(uint8_t opcode);

#endif
