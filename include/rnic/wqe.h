/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * rnic hardware interface: work queues
 *
 * A QP has one buffer in guest memory that holds its SQ, its RQ and its
 * doorbell record at offsets given to CREATE_QP. Rings hold 2^n entries of a
 * fixed stride; producer and consumer indices are free-running 32-bit counts
 * of entries, taken modulo the depth.
 */
#ifndef RNIC_WQE_H
#define RNIC_WQE_H

#include <linux/types.h>

#define RNIC_WQE_STRIDE_MIN     64
#define RNIC_WQE_STRIDE_MAX     512     /* 64, 128, 256 or 512 */

/* STag of all DMA addresses, only for QPs made with RNIC_QP_KERNEL */
#define RNIC_STAG_LOCAL_DMA     0

struct rnic_sge {
    __le64 addr;                /* TO within the region (iova based) */
    __le32 length;
    __le32 lkey;                /* STag */
};
_Static_assert(sizeof(struct rnic_sge) == 16, "rnic_sge");

enum rnic_wr_opcode {
    RNIC_WR_SEND = 0,
    RNIC_WR_SEND_INV = 1,       /* inv_stag: the peer's STag */
    RNIC_WR_WRITE = 2,
    RNIC_WR_READ = 3,
    RNIC_WR_READ_INV = 4,       /* inv_stag: the local sink STag */
    RNIC_WR_LOCAL_INV = 5,      /* inv_stag: the local STag */
    RNIC_WR_REG_MR = 6,         /* struct rnic_reg_wqe */
    /* With RNIC_CAP_RFC7306 */
    RNIC_WR_IMM = 7,            /* Immediate Data alone: no data */
    RNIC_WR_WRITE_IMM = 8,      /* WRITE, then Immediate Data */
    RNIC_WR_FETCH_ADD = 9,      /* struct rnic_atomic_wqe */
    RNIC_WR_CMP_SWAP = 10,
    RNIC_WR_CMP_SWAP_MASKED = 11,
    RNIC_WR_RECV = 128,         /* only in CQEs */
};

/* rnic_sq_wqe.flags */
#define RNIC_WQE_SIGNALED       (1u << 0)
#define RNIC_WQE_SOLICITED      (1u << 1)   /* SEND, SEND_INV, IMM, WRITE_IMM */
#define RNIC_WQE_FENCE          (1u << 2)   /* wait for all earlier Reads and
                                             * atomics */
#define RNIC_WQE_INLINE         (1u << 3)   /* SEND*, WRITE*: data at sge[] */

/* An SQ entry; num_sge entries of sge, or inline_len octets, follow at 32 */
struct rnic_sq_wqe {
    __u8 opcode;                /* enum rnic_wr_opcode */
    __u8 flags;
    __u8 num_sge;               /* 0 with RNIC_WQE_INLINE */
    __u8 rsvd;
    union {
        __le32 inv_stag;
        __be32 imm_data;        /* IMM, WRITE_IMM: octets as they travel */
    };
    __le64 wr_id;               /* returned in the CQE, else uninterpreted */
    __le32 inline_len;
    __le32 remote_stag;         /* WRITE*, READ, READ_INV */
    __le64 remote_to;
    struct rnic_sge sge[];
};
_Static_assert(sizeof(struct rnic_sq_wqe) == 32, "rnic_sq_wqe");

/*
 * RNIC_WR_REG_MR: gives an allocated region (ALLOC_MR) new pages, range, rights
 * and key octet. The region must be invalid (fresh, or invalidated before).
 */
struct rnic_reg_wqe {
    __u8 opcode;
    __u8 flags;
    __u8 rsvd[2];
    __le32 stag;                /* index of the region with the new key octet */
    __le64 wr_id;
    __le32 access;              /* RNIC_ACCESS_* */
    __le32 num_pages;
    __le64 iova;                /* TO of the first octet */
    __le64 length;
    __le64 pages;               /* DMA address of num_pages __le64 page
                                 * addresses, contiguous, 8-aligned */
    __le32 page_shift;          /* 12..21 */
    __u8 rsvd2[12];
};
_Static_assert(sizeof(struct rnic_reg_wqe) == 64, "rnic_reg_wqe");

/*
 * FETCH_ADD, CMP_SWAP, CMP_SWAP_MASKED on the 8 octets at remote_to, which must
 * be 8-aligned. They count as a little-endian number; what it was before goes to
 * the sink. FETCH_ADD adds data; each bit of add_mask ends a field of the sum,
 * whose carry is lost (0: one field). CMP_SWAP replaces the number by data if
 * it is compare; CMP_SWAP_MASKED looks at the bits of compare_mask only, and
 * replaces those of swap_mask. All but CMP_SWAP_MASKED fit into 64 octets.
 */
struct rnic_atomic_wqe {
    __u8 opcode;
    __u8 flags;                 /* not RNIC_WQE_INLINE */
    __u8 num_sge;               /* 1 */
    __u8 rsvd;
    __le32 rsvd2;
    __le64 wr_id;
    __le32 rsvd3;
    __le32 remote_stag;
    __le64 remote_to;
    struct rnic_sge sink;       /* of 8 octets */
    __le64 data;
    union {
        __le64 compare;
        __le64 add_mask;
    };
    __le64 swap_mask;
    __le64 compare_mask;
};
_Static_assert(sizeof(struct rnic_atomic_wqe) == 80, "rnic_atomic_wqe");

/* An RQ or SRQ entry; num_sge entries of sge follow at 16 */
struct rnic_rq_wqe {
    __u8 num_sge;
    __u8 rsvd[7];
    __le64 wr_id;
    struct rnic_sge sge[];
};
_Static_assert(sizeof(struct rnic_rq_wqe) == 16, "rnic_rq_wqe");

/* How many SGEs and inline octets fit into a stride */
#define RNIC_SQ_STRIDE_SGES(stride) \
    (((stride) - sizeof(struct rnic_sq_wqe)) / sizeof(struct rnic_sge))
#define RNIC_SQ_STRIDE_INLINE(stride) ((stride) - sizeof(struct rnic_sq_wqe))
#define RNIC_RQ_STRIDE_SGES(stride) \
    (((stride) - sizeof(struct rnic_rq_wqe)) / sizeof(struct rnic_sge))

/*
 * Doorbell record of a QP, 64-octet aligned in the QP's buffer. Written by the
 * consumer, only read by the device. The device reads rq_pi when it needs a
 * receive, so posting receives rings nothing, except in RNIC_QPS_ERROR.
 * An SRQ has one too, with rq_pi only.
 *
 * sq_held is not for the device, which never reads it: it is how a consumer
 * and its driver hold sends back until the connection is established, without
 * the device's help. The consumer posts so, one poster at a time:
 *
 *   write the WQEs, new index n
 *   if state is RNIC_QPS_IDLE:
 *       sq_held = n (release); full barrier
 *       if state still is RNIC_QPS_IDLE: done
 *   sq_pi = n (release); full barrier; ring by the rule of rnic_qp_status,
 *   with the index that this consumer itself last wrote to sq_pi as old
 *
 * The driver, when it learns that the QP left RNIC_QPS_IDLE, and before it
 * tells anybody:
 *
 *   full barrier; h = sq_held, read once
 *   while 0 < h - sq_pi <= depth: compare and exchange sq_pi with h
 *   full barrier; ring, if h is not 0
 *
 * The device publishes the state, then a full barrier, then the event that
 * the driver learns it from. So either the driver finds the index in sq_held,
 * or the consumer sees the new state and publishes it itself; if both do, the
 * consumer's is not lower, and the driver's exchange cannot move it back.
 */
struct rnic_qp_dbrec {
    __le32 sq_pi;
    __le32 rq_pi;
    __le32 sq_held;
    __u8 rsvd[52];
};
_Static_assert(sizeof(struct rnic_qp_dbrec) == 64, "rnic_qp_dbrec");

enum rnic_qp_state {
    RNIC_QPS_RESET = 0,         /* no QP */
    RNIC_QPS_IDLE = 1,          /* verbs INIT and RTR; receives may be posted */
    RNIC_QPS_RTS = 2,           /* connected */
    RNIC_QPS_CLOSING = 3,       /* verbs SQD: graceful close under way */
    RNIC_QPS_TERMINATE = 4,     /* verbs SQE: Terminate under way */
    RNIC_QPS_ERROR = 5,         /* everything posted is flushed; final */
};

/*
 * What the device publishes of a QP: 16 octets, 16-aligned, anywhere in guest
 * memory (CREATE_QP). Only the device writes it; consumers map it read-only.
 *
 * After publishing sq_pi = new (it was old), full barrier, the consumer rings
 * only if (new - sq_event - 1) < (new - old) in 32-bit unsigned arithmetic, or
 * if state is not RNIC_QPS_RTS. After publishing rq_pi it rings only if state
 * is RNIC_QPS_ERROR. The device publishes state before the event that
 * announces it; after it wrote sq_event it reads sq_pi once more.
 */
struct rnic_qp_status {
    __le32 state;               /* enum rnic_qp_state */
    __le32 sq_event;
    __le32 gated;               /* 1: the responder's transmission waits for
                                 * the peer's first FPDU (RFC 5044 7.1.2) */
    __le32 rsvd;
};
_Static_assert(sizeof(struct rnic_qp_status) == 16, "rnic_qp_status");

/* Access rights of a region */
#define RNIC_ACCESS_LOCAL_WRITE     (1u << 0)
#define RNIC_ACCESS_REMOTE_READ     (1u << 1)
#define RNIC_ACCESS_REMOTE_WRITE    (1u << 2)
#define RNIC_ACCESS_ALL             7u          /* that need no capability */
#define RNIC_ACCESS_REMOTE_ATOMIC   (1u << 3)   /* with RNIC_CAP_RFC7306 */

#endif
