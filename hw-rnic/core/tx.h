/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sending, shared by tx.c (which message comes next) and tx-fpdu.c (FPDUs of
 * the queued messages, and giving them to TCP)
 */
#ifndef RNIC_TX_H
#define RNIC_TX_H

#include "qp-private.h"
#include "wire/fpdu.h"

enum rnic_tx_kind {
    RNIC_TX_SEND,
    RNIC_TX_WRITE,
    RNIC_TX_READ_REQUEST,
    RNIC_TX_READ_RESPONSE,
    RNIC_TX_IMM,
    RNIC_TX_ATOMIC_REQUEST,
    RNIC_TX_ATOMIC_RESPONSE,
};

/*
 * A message on its way out. They leave in the order of the queue, all
 * segments of one before the next. It is done when TCP accepted all.
 */
struct rnic_tx_msg {
    struct rnic_tx_msg *next;
    enum rnic_tx_kind kind;
    uint64_t length; /* payload octets */
    uint64_t sent;   /* octets in FPDUs that TCP accepted */
    uint64_t built;  /* and in those of the current batch */
    bool built_last;
    uint32_t msn;            /* untagged */
    struct rnic_sq_rec *rec; /* NULL: not from the SQ */
    struct rnic_read *read;  /* READ_REQUEST, ATOMIC_REQUEST */
    union {
        struct rnic_send_wr wr;            /* SEND, WRITE, IMM */
        struct rnic_rdmap_read_request rr; /* READ_REQUEST */
        struct rnic_inbound_read inbound;  /* READ_RESPONSE */
        struct rnic_rdmap_atomic_request atomic_request;
        struct rnic_rdmap_atomic_response atomic_response;
    };
};

#define RNIC_TX_BATCH_FPDUS  64
#define RNIC_TX_BATCH_OCTETS (256 * 1024)
/* The same where FPDUs are copied: one large one. What TCP does not take of a
 * batch is built again, but for the FPDU that it took a part of. */
#define RNIC_TX_COPY_OCTETS  (32 * 1024)
#define RNIC_TX_IOV          1024 /* what sendmsg() takes */

struct rnic_tx_fpdu {
    struct rnic_tx_msg *msg;
    uint32_t payload; /* octets of the message */
    uint32_t length;  /* octets on the wire, markers included */
    bool last;
    struct rnic_ddp_hdr ddp; /* for the trace */
    struct rnic_mapping map; /* of the payload; count 0: none */
};

struct rnic_tx {
    struct rnic_tx_msg *head, **tail;
    /* A WQE that was fetched and may not start yet */
    struct rnic_tx_msg *staged;
    unsigned staged_sge; /* Read: next sink */

    uint32_t send_msn, read_msn;
    uint32_t atomic_msn; /* of Atomic Responses */
    uint32_t atomic_id;  /* of the next Atomic Request */
    uint64_t pos;        /* octets given to TCP or kept (markers) */
    unsigned mulpdu;     /* octets */
    unsigned mss;        /* octets; 0: segments do not matter */
    bool blocked;        /* TCP is full: EPOLLOUT is awaited */
    bool gated;          /* RFC 5044 section 7.1.2 */
    bool gate_noted;
    bool response_next; /* whose turn it is */

    /* The rest of an FPDU that TCP took a part of, and maybe a Terminate */
    uint8_t *kept;
    size_t kept_len, kept_pos;
    struct rnic_tx_msg *kept_msg;
    uint32_t kept_payload;
    bool kept_last;

    /* Reads and atomics of ours: the oldest at reads[read_head] */
    struct rnic_read *reads;
    unsigned read_head, read_count, read_size;
    bool rtr_read; /* one of them is the RTR: not in ORD */

    /* Those of the peer; one being answered has left the ring and counts */
    struct rnic_inbound_read *inbound;
    unsigned inbound_head, inbound_count, inbound_size;
    unsigned inbound_active;
    unsigned atomics_active; /* of them */
    bool imm_sent;           /* Immediate Data, ever */
};

/* Memory of the engine, used within one call */
struct rnic_qp_scratch {
    struct rnic_tx_fpdu fpdus[RNIC_TX_BATCH_FPDUS];
    unsigned num_fpdus;
    size_t octets;
    struct iovec iov[RNIC_TX_IOV];
    unsigned num_iov;
    /* Headers, inline payload, trailers */
    uint8_t small[RNIC_TX_BATCH_FPDUS * 640];
    size_t small_len;
    /* FPDUs with checksum or markers; one more than the batch may begin */
    uint8_t copy[RNIC_TX_BATCH_OCTETS + 2 * RNIC_FPDU_MAX];
    size_t copy_len;
    uint8_t plain[RNIC_FPDU_MAX]; /* an FPDU before markers */
    uint8_t rx[256 * 1024];
    /* Messages to be used again */
    struct rnic_tx_msg *spare;
    unsigned num_spare;
};

/* tx.c: appends the next message to the queue, if one may start */
bool rnic_tx_next_message(struct rnic_qp *qp);
/* tx.c: TCP accepted all of the message at the head */
void rnic_tx_message_done(struct rnic_qp *qp, struct rnic_tx_msg *msg);

enum rnic_tx_result {
    RNIC_TX_IDLE,    /* nothing may be sent now */
    RNIC_TX_SENT,    /* *octets: what it cost of the turn */
    RNIC_TX_BLOCKED, /* TCP is full */
    RNIC_TX_FAULT,   /* recorded */
};
/* tx-fpdu.c: FPDUs of this QP are copied, for their checksum or markers */
bool rnic_tx_copies(struct rnic_qp *qp);
/* tx-fpdu.c: builds one batch and gives it to TCP */
enum rnic_tx_result rnic_tx_batch(struct rnic_qp *qp, size_t *octets);
/* tx-fpdu.c: one untagged FPDU of @ulpdu into @buf; returns its length */
size_t rnic_tx_encode(struct rnic_qp *qp, const uint8_t *ulpdu,
                      uint16_t ulpdu_len, uint8_t *buf);

#endif
