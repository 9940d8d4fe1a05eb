/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * rnic hardware interface: event queues
 *
 * EQ 0 is the asynchronous event queue (struct rnic_aeqe); the others carry
 * completion events (struct rnic_ceqe). Same phase rule as a CQ.
 */
#ifndef RNIC_EVENT_H
#define RNIC_EVENT_H

#include <linux/types.h>

#define RNIC_AEQN               0

/*
 * Doorbell record of an EQ, 64-octet aligned in the EQ's buffer. Written by
 * the driver, only read by the device. The device interrupts after writing the
 * entry with index arm; so after draining, the driver writes ci and arm = ci,
 * full barrier, and looks once more for an entry.
 */
struct rnic_eq_dbrec {
    __le32 ci;                  /* free-running consumer index */
    __le32 arm;
    __u8 rsvd[56];
};
_Static_assert(sizeof(struct rnic_eq_dbrec) == 64, "rnic_eq_dbrec");

/*
 * At most one unconsumed entry a CQ, so an EQ of as many entries as it has CQs
 * cannot overflow; CREATE_CQ enforces that. The driver writes ci behind an
 * entry before it calls the CQ's handler (which may arm again): while an entry
 * of a CQ is unconsumed the device holds its next event back, and looks again
 * every 100 microseconds.
 */
struct rnic_ceqe {
    __le32 cqn;
    __u8 rsvd[11];
    __u8 phase;                 /* bit 0 */
};
_Static_assert(sizeof(struct rnic_ceqe) == 16, "rnic_ceqe");

#define RNIC_AF_INET            4
#define RNIC_AF_INET6           6

struct rnic_sockaddr {
    __le16 family;              /* RNIC_AF_* */
    __be16 port;
    __le32 scope_id;            /* guest's, IPv6 link-local only */
    __u8 addr[16];              /* IPv4 in the first four octets */
};
_Static_assert(sizeof(struct rnic_sockaddr) == 24, "rnic_sockaddr");

enum rnic_event_type {
    /* Connection management; the rules are those of iw_cm */
    RNIC_EV_CONNECT_REQUEST = 1,/* id: listener; conn_id, ird, ord: the peer's */
    RNIC_EV_CONNECT_REPLY = 2,  /* id: QPN. Exactly one for each CONNECT that
                                 * succeeded */
    RNIC_EV_ESTABLISHED = 3,    /* id: QPN. Exactly one for each ACCEPT that
                                 * succeeded; with a status it failed */
    RNIC_EV_DISCONNECT = 4,     /* id: QPN. The peer closed */
    RNIC_EV_CLOSE = 5,          /* id: QPN. Last event of a connection: exactly
                                 * one after ESTABLISHED and after
                                 * CONNECT_REPLY with status 0 */
    RNIC_EV_LISTEN_ERROR = 6,   /* id: listener; status; an address of it
                                 * could not be bound */
    /* Asynchronous */
    RNIC_EV_QP_FATAL = 16,      /* id: QPN; term */
    RNIC_EV_QP_REQ_ERR = 17,
    RNIC_EV_QP_ACCESS_ERR = 18,
    RNIC_EV_SQ_DRAINED = 19,
    RNIC_EV_QP_LAST_WQE = 20,   /* id: QPN; a QP with an SRQ takes no more */
    RNIC_EV_CQ_ERR = 21,        /* id: CQN; overflow */
    RNIC_EV_SRQ_LIMIT = 22,     /* id: SRQN */
    RNIC_EV_SRQ_ERR = 23,       /* id: SRQN */
    RNIC_EV_ADDR_CONFLICT = 24, /* local: another device claimed it */
};

/* status of an event */
enum rnic_cm_status {
    RNIC_CM_OK = 0,
    RNIC_CM_REJECTED = 1,       /* the peer's ULP rejected; private data */
    RNIC_CM_REFUSED = 2,        /* nobody listens */
    RNIC_CM_TIMEDOUT = 3,
    RNIC_CM_RESET = 4,          /* the peer closed during setup */
    RNIC_CM_PROTOCOL = 5,       /* malformed or incompatible MPA frame */
    RNIC_CM_UNREACHABLE = 6,    /* no route, or refused by policy */
    RNIC_CM_ADDR_IN_USE = 7,
    RNIC_CM_LOCAL_ERROR = 8,    /* resources of the host */
    RNIC_CM_ADDR_GONE = 9,      /* local address removed or link down */
    RNIC_CM_EARLY_SEND = 10,    /* RNIC_QP_ERROR_PRE_RTS, and sends were
                                 * posted before RTS */
};

#define RNIC_PDATA_MAX          512

struct rnic_aeqe {
    __le16 type;                /* enum rnic_event_type */
    __le16 status;              /* enum rnic_cm_status */
    __le32 id;
    __le32 conn_id;
    __le16 ird;                 /* CONNECT_REQUEST: the peer's; else the
                                 * connection's own after negotiation */
    __le16 ord;
    __le32 term;                /* QP_*: 1 << 31 if there was a Terminate,
                                 * 1 << 30 if the peer sent it; layer << 16 |
                                 * type << 8 | code */
    __le16 pdata_len;
    __le16 rsvd;
    struct rnic_sockaddr local;
    struct rnic_sockaddr remote;
    __u8 rsvd2[56];
    __u8 pdata[RNIC_PDATA_MAX]; /* the ULP's: without the RFC 6581 block */
    __u8 rsvd3[383];
    __u8 phase;                 /* bit 0 */
};
_Static_assert(sizeof(struct rnic_aeqe) == 1024, "rnic_aeqe");

#define RNIC_TERM_VALID         (1u << 31)
#define RNIC_TERM_REMOTE        (1u << 30)

#endif
