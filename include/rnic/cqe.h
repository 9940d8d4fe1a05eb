/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * rnic hardware interface: completion queues
 *
 * A CQ is a ring of 2^n CQEs in guest memory, followed anywhere in the same
 * buffer by its doorbell record. The consumer owns an entry when the phase bit
 * of its last word is 1 in the first lap, 0 in the second, and so on (that is,
 * phase != ((index / depth) & 1) for a free-running index). The ring is zeroed
 * before CREATE_CQ.
 */
#ifndef RNIC_CQE_H
#define RNIC_CQE_H

#include <linux/types.h>

enum rnic_wc_status {
    RNIC_WC_SUCCESS = 0,
    RNIC_WC_LOC_LEN_ERR = 1,    /* message longer than the receive */
    RNIC_WC_LOC_QP_OP_ERR = 2,  /* malformed WQE, message too long */
    RNIC_WC_LOC_PROT_ERR = 3,   /* STag, bounds, rights, PD of a local SGE */
    RNIC_WC_WR_FLUSH_ERR = 4,
    RNIC_WC_MW_BIND_ERR = 5,    /* REG_MR or LOCAL_INV refused */
    RNIC_WC_REM_INV_REQ_ERR = 6,
    RNIC_WC_REM_ACCESS_ERR = 7, /* the peer's Terminate: protection */
    RNIC_WC_REM_OP_ERR = 8,     /* the peer's Terminate: anything else */
    RNIC_WC_GENERAL_ERR = 9,
};

/* rnic_cqe.flags */
#define RNIC_CQE_WITH_INV       (1u << 0)   /* inv_stag was invalidated */
#define RNIC_CQE_SOLICITED      (1u << 1)
#define RNIC_CQE_WITH_IMM       (1u << 2)   /* Immediate Data: imm_data */

struct rnic_cqe {
    __le64 wr_id;
    __le32 qpn;
    __le32 byte_len;            /* octets received; Read: octets read; with
                                 * RNIC_CQE_WITH_IMM: of the RDMA Write that
                                 * came right before, 0 if none did */
    __u8 opcode;                /* enum rnic_wr_opcode */
    __u8 status;                /* enum rnic_wc_status */
    __u8 flags;
    __u8 rsvd;
    union {
        __le32 inv_stag;
        __be32 imm_data;        /* the first 4 of the 8 octets */
    };
    __le32 vendor_err;          /* layer << 16 | type << 8 | code of the
                                 * Terminate that explains status, else 0 */
    __le16 wqe_index;           /* index of the WQE modulo 65536: all WQEs of
                                 * the SQ up to it may be reused */
    __u8 rsvd2;
    __u8 phase;                 /* bit 0 */
};
_Static_assert(sizeof(struct rnic_cqe) == 32, "rnic_cqe");

/*
 * Doorbell record of a CQ, 64-octet aligned in the CQ's buffer. Written by the
 * consumer, only read by the device.
 *
 * To arm: write ci, then arm with a sequence number that differs from the last
 * one, full barrier, then poll once more. The device reads arm after it wrote a
 * CQE (full barrier between); it makes one event for each arm value that it
 * has not fired yet and whose kind matches.
 */
struct rnic_cq_dbrec {
    __le32 ci;                  /* free-running consumer index */
    __le32 arm;                 /* sequence << 2 | RNIC_CQ_ARM_* */
    __u8 rsvd[56];
};
_Static_assert(sizeof(struct rnic_cq_dbrec) == 64, "rnic_cq_dbrec");

#define RNIC_CQ_ARM_NONE        0u
#define RNIC_CQ_ARM_ANY         1u
#define RNIC_CQ_ARM_SOLICITED   2u  /* also fires for a CQE with an error */
#define RNIC_CQ_ARM_MASK        3u

#endif
