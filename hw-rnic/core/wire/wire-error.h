/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What can be wrong with what a peer sent, as conditions of the protocols.
 * terminate.c holds the one table that gives each its Terminate code.
 */
#ifndef RNIC_WIRE_ERROR_H
#define RNIC_WIRE_ERROR_H

enum rnic_wire_err {
    RNIC_WIRE_OK = 0,
    RNIC_WIRE_MORE, /* not an error: more octets are needed */

    /* MPA: RFC 5044 section 8, RFC 6581 section 8 */
    RNIC_WIRE_MPA_CRC,    /* CRC32C mismatch */
    RNIC_WIRE_MPA_LENGTH, /* ULPDU shorter than the headers it needs */
    RNIC_WIRE_MPA_FRAME,  /* invalid Request or Reply frame */
    RNIC_WIRE_MPA_LOCAL,  /* local catastrophic error in set-up */
    RNIC_WIRE_MPA_IRD,    /* insufficient IRD resources */
    RNIC_WIRE_MPA_RTR,    /* no matching RTR option */

    /* DDP, local and tagged buffers: RFC 5041 section 7 */
    RNIC_WIRE_DDP_LOCAL,      /* local catastrophic error */
    RNIC_WIRE_TAGGED_STAG,    /* invalid STag */
    RNIC_WIRE_TAGGED_BOUNDS,  /* base or bounds violation */
    RNIC_WIRE_TAGGED_STREAM,  /* STag not associated with the stream */
    RNIC_WIRE_TAGGED_WRAP,    /* TO wraps 2^64 */
    RNIC_WIRE_TAGGED_VERSION, /* DV is not 1 */

    /* DDP, untagged buffers: RFC 5041 section 7 */
    RNIC_WIRE_UNTAGGED_QN,      /* invalid QN */
    RNIC_WIRE_UNTAGGED_BUFFER,  /* no buffer available */
    RNIC_WIRE_UNTAGGED_MSN,     /* MSN out of range */
    RNIC_WIRE_UNTAGGED_MO,      /* invalid MO */
    RNIC_WIRE_UNTAGGED_LENGTH,  /* message longer than the buffer */
    RNIC_WIRE_UNTAGGED_VERSION, /* DV is not 1 */

    /* RDMAP, local and remote protection: RFC 5040 section 4.8 */
    RNIC_WIRE_RDMAP_LOCAL,     /* local catastrophic error */
    RNIC_WIRE_PROT_STAG,       /* invalid STag */
    RNIC_WIRE_PROT_BOUNDS,     /* base or bounds violation */
    RNIC_WIRE_PROT_ACCESS,     /* access rights violation */
    RNIC_WIRE_PROT_STREAM,     /* STag not associated with the stream */
    RNIC_WIRE_PROT_WRAP,       /* TO wraps 2^64 */
    RNIC_WIRE_PROT_INVALIDATE, /* STag of another PD: cannot invalidate */
    RNIC_WIRE_PROT_OTHER,      /* unspecified */

    /* RDMAP, remote operation: RFC 5040 section 4.8 */
    RNIC_WIRE_OP_VERSION,    /* RV is not 1 */
    RNIC_WIRE_OP_OPCODE,     /* unexpected opcode */
    RNIC_WIRE_OP_STREAM,     /* catastrophic, localized to the stream */
    RNIC_WIRE_OP_GLOBAL,     /* catastrophic, global */
    RNIC_WIRE_OP_INVALIDATE, /* unknown STag: cannot invalidate */
    RNIC_WIRE_OP_OTHER,      /* unspecified */

    RNIC_WIRE_ERR_COUNT
};

#endif
