/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * rnic hardware interface: the admin queue
 *
 * The driver writes commands into the ASQ and its producer index to
 * RNIC_REG_ASQ_DB. The device writes one completion a command into the ACQ, in
 * any order, and signals vector 0. Both rings have the same depth; the driver
 * has at most that many commands outstanding. Phase rule as a CQ.
 *
 * A command that fails changes nothing. Reserved fields are 0.
 */
#ifndef RNIC_ADMIN_H
#define RNIC_ADMIN_H

#include <linux/types.h>
#include "event.h"

enum rnic_admin_opcode {
    RNIC_CMD_NOP = 0,
    RNIC_CMD_CREATE_UCTX = 1,
    RNIC_CMD_DESTROY_UCTX = 2,
    RNIC_CMD_CREATE_EQ = 3,
    RNIC_CMD_DESTROY_EQ = 4,
    RNIC_CMD_CREATE_CQ = 5,
    RNIC_CMD_DESTROY_CQ = 6,
    RNIC_CMD_CREATE_SRQ = 7,
    RNIC_CMD_MODIFY_SRQ = 8,
    RNIC_CMD_QUERY_SRQ = 9,
    RNIC_CMD_DESTROY_SRQ = 10,
    RNIC_CMD_CREATE_QP = 11,
    RNIC_CMD_MODIFY_QP = 12,
    RNIC_CMD_QUERY_QP = 13,
    RNIC_CMD_DESTROY_QP = 14,
    RNIC_CMD_REG_MR = 15,
    RNIC_CMD_ALLOC_MR = 16,     /* for RNIC_WR_REG_MR */
    RNIC_CMD_DEREG_MR = 17,
    RNIC_CMD_ADDR_ADD = 18,
    RNIC_CMD_ADDR_DEL = 19,
    RNIC_CMD_SET_LINK = 20,
    RNIC_CMD_LISTEN = 21,
    RNIC_CMD_UNLISTEN = 22,
    RNIC_CMD_CONNECT = 23,
    RNIC_CMD_ACCEPT = 24,
    RNIC_CMD_REJECT = 25,
    RNIC_CMD_QUERY_STATS = 26,
    RNIC_CMD_MODIFY_CQ = 27,
    RNIC_CMD_CREATE_NETQ = 28,  /* with RNIC_CAP_NET */
    RNIC_CMD_DESTROY_NETQ = 29,
    RNIC_CMD_QUERY_CQ = 30,     /* from interface 1.2 on */
};

enum rnic_admin_status {
    RNIC_ADMIN_OK = 0,
    RNIC_ADMIN_BAD_OPCODE = 1,
    RNIC_ADMIN_BAD_PARAM = 2,   /* a field is out of its range; so is an id
                                 * that the driver chooses, or a PDN */
    RNIC_ADMIN_BAD_ID = 3,      /* an id of an existing object: there is no
                                 * such object, or not of this context */
    RNIC_ADMIN_IN_USE = 4,      /* the id is taken, or others refer to it */
    RNIC_ADMIN_NO_RESOURCES = 5,
    RNIC_ADMIN_BAD_ADDRESS = 6, /* not RAM, or not aligned */
    RNIC_ADMIN_BAD_STATE = 7,
    RNIC_ADMIN_ADDR_IN_USE = 8,
    RNIC_ADMIN_ADDR_NOT_AVAIL = 9, /* not an address of this device */
    RNIC_ADMIN_REFUSED = 10,    /* by the host's policy */
    RNIC_ADMIN_CONN_GONE = 11,  /* the peer closed before ACCEPT or REJECT */
};

/*
 * A buffer in guest memory. levels 0: [addr, addr + length) contiguous. levels
 * n = 1..3: addr is a 4 KiB table of 512 __le64 entries; those of the last
 * level are addresses of pages of 2^page_shift octets, those above are tables.
 * All tables but the last of a level are full. first_offset: where the buffer
 * starts in its first page. The device reads tables once, within the command.
 */
struct rnic_buf_desc {
    __le64 addr;
    __le64 length;              /* octets of the buffer */
    __u8 levels;
    __u8 page_shift;            /* 12..30; 0 if levels is 0 */
    __u8 rsvd[2];
    __le32 first_offset;        /* < 2^page_shift; 0 if levels is 0 */
};
_Static_assert(sizeof(struct rnic_buf_desc) == 24, "rnic_buf_desc");

/* CREATE_UCTX, DESTROY_UCTX. Context 0 is the kernel's. */
struct rnic_cmd_uctx {
    __le32 uctx;
    __le32 rsvd;
    __le64 dbmap;               /* CREATE: DMA address of the page that starts
                                 * with struct rnic_dbmap, 4 KiB aligned, 0ed */
};

struct rnic_cmd_create_eq {
    __le32 eqn;
    __le32 vector;
    __le32 depth;               /* 2^n entries */
    __le32 dbrec_offset;        /* in buf, 64-aligned; entries start at 0 */
    struct rnic_buf_desc buf;
};

struct rnic_cmd_create_cq {
    __le32 cqn;
    __le32 eqn;                 /* not RNIC_AEQN */
    __le32 uctx;
    __le32 depth;               /* 2^n entries */
    __le32 dbrec_offset;
    __le32 rsvd;
    struct rnic_buf_desc buf;
};

/* Event moderation: hold an event until count CQEs or period microseconds */
struct rnic_cmd_modify_cq {
    __le32 cqn;
    __le16 count;               /* 0, 1: off */
    __le16 period_us;
};

/* DESTROY_EQ, QUERY_CQ, DESTROY_CQ, DESTROY_SRQ, QUERY_SRQ, QUERY_QP,
 * DESTROY_QP, UNLISTEN */
struct rnic_cmd_id {
    __le32 id;
};

/* Counters of stats.h, those of RNIC_CQ_STATS */
struct rnic_resp_query_cq {
    __le64 cqes;
    __le64 cq_events;
    __le64 interrupts;
};

struct rnic_cmd_create_srq {
    __le32 srqn;
    __le32 pdn;
    __le32 uctx;
    __le32 depth;
    __le32 stride;
    __le32 dbrec_offset;        /* entries start at 0 */
    __le32 limit;               /* SRQ_LIMIT when fewer are left; 0: off */
    __le32 rsvd;
    struct rnic_buf_desc buf;
};

struct rnic_cmd_modify_srq {
    __le32 srqn;
    __le32 limit;
};

struct rnic_resp_query_srq {
    __le32 limit;
    __le32 posted;
};

/* rnic_cmd_create_qp.flags */
#define RNIC_QP_KERNEL          (1u << 0)   /* may use RNIC_STAG_LOCAL_DMA,
                                             * REG_MR; context 0 only */
#define RNIC_QP_SIG_ALL         (1u << 1)   /* every WQE is signalled */
#define RNIC_QP_ERROR_PRE_RTS   (1u << 2)   /* sq_pi that moves before RTS is an
                                             * error: the QP and its connection
                                             * fail. Else what is posted waits.
                                             * Needs RNIC_CAP_ERROR_PRE_RTS */

struct rnic_cmd_create_qp {
    __le32 qpn;
    __le32 pdn;
    __le32 uctx;
    __le32 send_cqn;
    __le32 recv_cqn;
    __le32 srqn;                /* 0: none; then rq_depth is 0 */
    __le32 flags;
    __le16 sq_stride;
    __le16 rq_stride;
    __le32 sq_depth;            /* 2^n, or 0 */
    __le32 rq_depth;            /* 2^n, or 0 */
    __le32 sq_offset;           /* in buf, 64-aligned */
    __le32 rq_offset;
    __le32 dbrec_offset;
    __le32 rsvd;
    struct rnic_buf_desc buf;
    __le64 status_addr;         /* struct rnic_qp_status */
};

/* What MODIFY_QP may ask for; RTS is reached by CONNECT and ACCEPT only */
struct rnic_cmd_modify_qp {
    __le32 qpn;
    __le32 state;               /* RNIC_QPS_CLOSING, TERMINATE or ERROR */
};

struct rnic_resp_query_qp {
    __le32 state;
    __le32 sq_pi;               /* as the device last read them */
    __le32 sq_ci;
    __le32 rq_pi;
    __le32 rq_ci;
    __le16 ird;
    __le16 ord;
    __le32 term;                /* as rnic_aeqe.term */
};

/* rnic_cmd_reg_mr.flags */
#define RNIC_MR_ALL_DMA         (1u << 0)   /* all of DMA space, TO = address;
                                             * buf, iova, length are 0 */

struct rnic_cmd_reg_mr {
    __le32 pdn;
    __le32 access;              /* RNIC_ACCESS_* */
    __le32 flags;
    __u8 key;                   /* low octet of the STag */
    __u8 rsvd[3];
    __le64 iova;                /* TO of the first octet */
    struct rnic_buf_desc buf;
};

struct rnic_cmd_alloc_mr {
    __le32 pdn;
    __le32 max_pages;
    __u8 key;
    __u8 rsvd[3];
};

/* REG_MR, ALLOC_MR; DEREG_MR takes it too (its key octet is not compared) */
struct rnic_stag {
    __le32 stag;
};

/* ADDR_ADD, ADDR_DEL: port 0 */
struct rnic_cmd_addr {
    struct rnic_sockaddr addr;
    __u8 prefix_len;
    __u8 rsvd[7];
};

struct rnic_cmd_set_link {
    __le32 up;                  /* 0: ends all listeners' sockets and
                                 * connections; listeners stay and wait */
};

/* rnic_cmd_listen.flags */
#define RNIC_LISTEN_V6ONLY      (1u << 0)

struct rnic_cmd_listen {
    __le32 id;                  /* chosen by the driver */
    __le32 backlog;
    __le32 flags;
    __le32 rsvd;
    struct rnic_sockaddr local; /* address 0: every address of the device */
};

struct rnic_resp_listen {
    __be16 port;                /* chosen by the host if 0 was asked for */
};

struct rnic_cmd_connect {
    __le32 qpn;
    __le16 ird;
    __le16 ord;
    struct rnic_sockaddr local; /* port 0: any */
    struct rnic_sockaddr remote;
    __le16 pdata_len;
    __le16 rsvd[3];
    __le64 pdata;               /* DMA address, read within the command */
};

struct rnic_cmd_accept {        /* and REJECT: qpn, ird, ord are 0 */
    __le32 conn_id;
    __le32 qpn;
    __le16 ird;
    __le16 ord;
    __le16 pdata_len;
    __le16 rsvd;
    __le64 pdata;
};

/* DESTROY_NETQ has no parameters */
struct rnic_cmd_create_netq {
    __le32 vector;
    __le32 tx_depth;            /* 2^n each, up to RNIC_NETQ_MAX_DEPTH */
    __le32 rx_depth;
    __le32 tx_offset;           /* in buf, 64-aligned */
    __le32 rx_offset;
    __le32 cq_offset;
    __le32 dbrec_offset;        /* behind the rings */
    __le32 rsvd;
    struct rnic_buf_desc buf;
    __le64 status_addr;         /* struct rnic_netq_status */
};

/* Writes the counters of stats.h as __le64, in order; count: how many fit */
struct rnic_cmd_query_stats {
    __le64 addr;
    __le32 count;
    __le32 qpn;                 /* 0: of the device */
};

struct rnic_resp_query_stats {
    __le32 count;               /* written */
};

struct rnic_asqe {
    __u8 opcode;                /* enum rnic_admin_opcode */
    __u8 rsvd;
    __le16 cookie;              /* returned in the completion */
    __le32 rsvd2;
    union {
        struct rnic_cmd_uctx uctx;
        struct rnic_cmd_create_eq create_eq;
        struct rnic_cmd_create_cq create_cq;
        struct rnic_cmd_modify_cq modify_cq;
        struct rnic_cmd_id id;
        struct rnic_cmd_create_srq create_srq;
        struct rnic_cmd_modify_srq modify_srq;
        struct rnic_cmd_create_qp create_qp;
        struct rnic_cmd_modify_qp modify_qp;
        struct rnic_cmd_reg_mr reg_mr;
        struct rnic_cmd_alloc_mr alloc_mr;
        struct rnic_stag dereg_mr;
        struct rnic_cmd_addr addr;
        struct rnic_cmd_set_link set_link;
        struct rnic_cmd_listen listen;
        struct rnic_cmd_connect connect;
        struct rnic_cmd_accept accept;
        struct rnic_cmd_query_stats query_stats;
        struct rnic_cmd_create_netq create_netq;
        __u8 raw[120];
    };
};
_Static_assert(sizeof(struct rnic_asqe) == 128, "rnic_asqe");

struct rnic_acqe {
    __le16 cookie;
    __le16 status;              /* enum rnic_admin_status */
    __le32 rsvd;
    union {
        struct rnic_stag mr;
        struct rnic_resp_query_cq query_cq;
        struct rnic_resp_query_srq query_srq;
        struct rnic_resp_query_qp query_qp;
        struct rnic_resp_listen listen;
        struct rnic_resp_query_stats query_stats;
        __u8 raw[48];
    };
    __u8 rsvd2[7];
    __u8 phase;                 /* bit 0 */
};
_Static_assert(sizeof(struct rnic_acqe) == 64, "rnic_acqe");

#endif
