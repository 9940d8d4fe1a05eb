/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note OR BSD-2-Clause */
/*
 * Kernel/user interface of the rnic driver
 *
 * mmap offsets come from the kernel: doorbell page (write), doorbell bitmap
 * (read, write), QP status page (read only).
 *
 * A QP's status tells RNIC_QPS_RESET when its device is gone or has failed: the
 * kernel replaces the page by one of zeros, or zeroes the state. Nobody then
 * completes what was posted, so the provider does, with flush errors.
 */
#ifndef RNIC_ABI_USER_H
#define RNIC_ABI_USER_H

#include <linux/types.h>

/*
 * Fields are only added, at the end of a structure: a shorter one from an
 * older side is valid, and what it lacks counts as 0. The version changes when
 * that is not enough.
 */
#define RNIC_ABI_VERSION 1

/* What becomes of sends that are posted before RTS */
enum rnic_sq_policy {
    RNIC_SQ_FENCE = 0,              /* published; the device lets them wait */
    RNIC_SQ_ERROR = 1,              /* posting them is an error: ENOTCONN */
    RNIC_SQ_HELD = 2,               /* held back from the device by way of
                                     * rnic_qp_dbrec.sq_held */
};

struct rnic_alloc_ucontext_resp {
    __aligned_u64 db_offset;        /* of the doorbell page */
    __aligned_u64 dbmap_offset;     /* of struct rnic_dbmap */
    __aligned_u64 caps;             /* RNIC_CAP_* */
    __u32 uctx;
    __u32 max_qp;                   /* QPNs are below */
    __u32 max_inline;
    __u32 max_sge;
    __u32 sq_policy;                /* enum rnic_sq_policy, of this context */
    __u32 rsvd;
};

struct rnic_alloc_pd_resp {
    __u32 pdn;
    __u32 rsvd;
};

/* One buffer: entries at 0, doorbell record at dbrec_offset */
struct rnic_create_cq_req {
    __aligned_u64 buf;
    __aligned_u64 buf_len;
    __u32 depth;                    /* 2^n, at least the cqe asked for */
    __u32 dbrec_offset;
};

struct rnic_create_cq_resp {
    __u32 cqn;
    __u32 rsvd;
};

struct rnic_create_srq_req {
    __aligned_u64 buf;
    __aligned_u64 buf_len;
    __u32 depth;
    __u32 stride;
    __u32 dbrec_offset;
    __u32 rsvd;
};

struct rnic_create_srq_resp {
    __u32 srqn;
    __u32 rsvd;
};

struct rnic_create_qp_req {
    __aligned_u64 buf;
    __aligned_u64 buf_len;
    __u32 sq_depth;
    __u32 sq_stride;
    __u32 sq_offset;
    __u32 rq_depth;                 /* 0 with an SRQ */
    __u32 rq_stride;
    __u32 rq_offset;
    __u32 dbrec_offset;
    __u32 rsvd;
};

struct rnic_create_qp_resp {
    __aligned_u64 status_offset;    /* mmap offset of a page */
    __u32 qpn;
    __u32 status_in_page;           /* of struct rnic_qp_status */
};

#endif
