/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DDP segment headers (RFC 5041 section 4), with the RDMAP control octet in
 * the RsvdULP field of both forms (RFC 5040 section 4.1). The layout only:
 * what a header may say is checked by rnic_rdmap_seg_decode().
 */
#ifndef RNIC_WIRE_DDP_H
#define RNIC_WIRE_DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RNIC_DDP_TAGGED_SIZE   14
#define RNIC_DDP_UNTAGGED_SIZE 18
#define RNIC_DDP_HDR_MAX       RNIC_DDP_UNTAGGED_SIZE

#define RNIC_DDP_VERSION 1

/* Untagged queues. */
#define RNIC_DDP_QN_SEND            0
#define RNIC_DDP_QN_READ_REQUEST    1
#define RNIC_DDP_QN_TERMINATE       2
#define RNIC_DDP_QN_ATOMIC_RESPONSE 3

struct rnic_ddp_hdr {
    bool tagged;    /* T */
    bool last;      /* L */
    uint8_t dv;     /* DDP version, 2 bits */
    uint8_t rv;     /* RDMAP version, 2 bits */
    uint8_t opcode; /* RDMAP opcode, 4 bits */
    uint32_t stag;  /* tagged: the buffer; untagged: Invalidate */
    uint64_t to;    /* tagged: octets */
    uint32_t qn;    /* untagged */
    uint32_t msn;   /* untagged */
    uint32_t mo;    /* untagged: octets */
};

/* Octets of a DDP header. */
static inline size_t rnic_ddp_hdr_size(bool tagged)
{
    return tagged ? RNIC_DDP_TAGGED_SIZE : RNIC_DDP_UNTAGGED_SIZE;
}

/*
 * Decodes the header at @buf, @len octets of which are there. Returns its
 * length, 14 or 18 by its own T bit, or 0 if it is not complete; *@hdr is
 * unspecified then. Reserved bits are ignored. Fields of the other form are
 * zero.
 */
size_t rnic_ddp_hdr_decode(const uint8_t *buf, size_t len,
                           struct rnic_ddp_hdr *hdr);

/* Encodes @hdr into @buf (RNIC_DDP_HDR_MAX octets). Returns its length. */
size_t rnic_ddp_hdr_encode(const struct rnic_ddp_hdr *hdr, uint8_t *buf);

#endif
