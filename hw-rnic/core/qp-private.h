/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the QP's files share: qp.c (states, commands), wq.c (work requests and
 * their completions), tx.c and tx-fpdu.c (sending), rx.c and rx-place.c
 * (receiving), qp-error.c (what ends a connection)
 *
 * Nothing below qp.c ends a connection itself: it records a fault, unwinds,
 * and the entry point calls rnic_qp_settle(). So no object goes away under a
 * function that works on it.
 */
#ifndef RNIC_QP_PRIVATE_H
#define RNIC_QP_PRIVATE_H

#include "mr.h"
#include "qp.h"
#include "wire/rdmap.h"
#include "wire/terminate.h"

/* ---- Work requests (wq.c): private copies, already checked ---- */

struct rnic_wr_sge {
    uint64_t to;
    uint32_t length;
    uint32_t stag;
};

struct rnic_send_wr {
    uint64_t wr_id;
    uint32_t index; /* of the WQE, free-running */
    uint8_t opcode; /* enum rnic_wr_opcode */
    uint8_t flags;  /* RNIC_WQE_* */
    uint8_t num_sge;
    uint8_t error; /* enum rnic_wc_status: malformed */
    uint32_t inv_stag;
    uint8_t imm[4];
    uint32_t remote_stag;
    uint64_t remote_to;
    uint64_t length; /* octets of the message */
    /* Atomics: as in the Atomic Request */
    uint64_t data, mask, compare, compare_mask;
    union {
        struct rnic_wr_sge sge[RNIC_MAX_SGE];
        uint8_t inline_data[RNIC_MAX_INLINE];
        struct rnic_reg_wqe reg;
    };
};

struct rnic_recv_wr {
    uint64_t wr_id;
    uint32_t index;
    uint8_t num_sge;
    uint8_t error;   /* enum rnic_wc_status: malformed */
    uint64_t length; /* octets that fit */
    struct rnic_wr_sge sge[RNIC_MAX_SGE];
};

/* A WQE between its fetch and its completion */
struct rnic_sq_rec {
    uint64_t wr_id;
    uint32_t index;
    uint32_t byte_len; /* Read, atomic: octets placed */
    uint32_t inv_stag;
    uint32_t vendor_err;
    uint16_t reads_left; /* Read or Atomic Requests without their response */
    uint8_t opcode;
    uint8_t status; /* enum rnic_wc_status; error: completes so */
    bool signalled;
    bool done;
};

/* How many WQEs a QP works on at a time */
#define RNIC_SQ_RECS 256

/* The state of a QP's queues that only lives while it is connected */
struct rnic_sq {
    uint32_t fetched; /* next WQE to fetch, free-running */
    uint32_t event;   /* sq_event as published */
    unsigned rec_head, rec_count, rec_size;
    struct rnic_sq_rec recs[];
};

enum rnic_wq_result {
    RNIC_WQ_EMPTY,
    RNIC_WQ_TAKEN,
    RNIC_WQ_FAULT, /* recorded */
};

/*
 * Reads sq_pi and checks it against sq_ci (and what was fetched). False: it
 * is more than the depth ahead, moved back, or cannot be read; sq_broken is
 * set.
 */
bool rnic_sq_load_pi(struct rnic_qp *qp);
/* Whether sq_pi, which is read into *@pi and not taken over, differs from what
 * was last taken over, or cannot be read */
bool rnic_sq_moved(struct rnic_qp *qp, uint32_t *pi);
/* Publishes that the device wants a doorbell for the next WQE; true: more was
 * posted meanwhile */
bool rnic_sq_arm(struct rnic_qp *qp);
/* Takes the next WQE into @wr, a record of it into *@rec */
enum rnic_wq_result rnic_sq_fetch(struct rnic_qp *qp, struct rnic_send_wr *wr,
                                  struct rnic_sq_rec **rec);
/* Writes the completions that are due, in order */
void rnic_sq_complete(struct rnic_qp *qp);
/* Takes the next receive, from the SRQ if there is one */
enum rnic_wq_result rnic_rq_take(struct rnic_qp *qp, struct rnic_recv_wr *wr);
/* Completes a receive; @cqe: status, byte_len, flags, inv_stag or imm_data,
 * vendor_err */
void rnic_rq_complete(struct rnic_qp *qp, const struct rnic_recv_wr *wr,
                      struct rnic_cqe *cqe);
/* ERROR: every WQE that is posted and not completed, each once */
void rnic_wq_flush(struct rnic_qp *qp);

/* Octets [@offset, @offset + @len) of a list of SGEs, as rnic_mr_map() */
enum rnic_mr_error rnic_sges_map(struct rnic_qp *qp,
                                 const struct rnic_wr_sge *sge,
                                 unsigned num_sge, uint64_t offset,
                                 uint64_t len, uint32_t access,
                                 struct rnic_mapping *map, uint64_t *done);
const char *rnic_wr_opcode_str(uint8_t opcode);

static inline bool rnic_wr_is_atomic(uint8_t opcode)
{
    return opcode == RNIC_WR_FETCH_ADD || opcode == RNIC_WR_CMP_SWAP ||
           opcode == RNIC_WR_CMP_SWAP_MASKED;
}

/* The status cannot be written: told once, and the end of the connection */
void rnic_qp_status_gone(struct rnic_qp *qp);

/* ---- Sending (tx.c) ---- */

/* A Read or Atomic Request of ours whose response is due; both share QN 1, its
 * MSNs, and the ORD (RFC 7306 section 5.2) */
struct rnic_read {
    struct rnic_sq_rec *rec; /* NULL: the ready-to-receive Read */
    bool atomic;
    uint32_t id; /* atomic: of the request */
    uint32_t sink_stag;
    uint64_t sink_to;
    uint32_t length;
    uint32_t placed; /* octets of the response so far */
    bool sent;       /* the request was given to TCP */
};

void rnic_tx_init(struct rnic_qp *qp);
void rnic_tx_free(struct rnic_qp *qp);
/* When no QP is left */
void rnic_tx_scratch_free(struct rnic_device *dev);
/* After rnic_qp_connected(): the ready-to-receive message */
void rnic_tx_push_rtr(struct rnic_qp *qp);
/* Behind everything that is under way */
void rnic_tx_push_empty_write(struct rnic_qp *qp);
/* Some octet of the stream of FPDUs has been sent */
bool rnic_tx_started(struct rnic_qp *qp);
/* One turn; true: wants another one */
bool rnic_tx_turn(struct rnic_qp *qp);
/* TCP takes octets again */
void rnic_tx_writable(struct rnic_qp *qp);
/* RFC 5044 section 7.1.2: nothing may be sent yet */
bool rnic_tx_gated(struct rnic_qp *qp);
/* True: it was shut */
bool rnic_tx_open_gate(struct rnic_qp *qp);
/* What was received may have made something sendable */
bool rnic_tx_wants_turn(struct rnic_qp *qp);
/* Nothing is begun, queued, or outstanding */
bool rnic_tx_idle(struct rnic_qp *qp);
/* An FPDU is partly sent */
bool rnic_tx_mid_fpdu(struct rnic_qp *qp);
/* Drops all messages, keeps the rest of a begun FPDU, puts the FPDU of
 * @ulpdu behind it */
void rnic_tx_terminate(struct rnic_qp *qp, const uint8_t *ulpdu,
                       uint16_t ulpdu_len);
/* Sends kept octets; 1: all gone, 0: TCP is full, -errno: connection lost */
int rnic_tx_push_tail(struct rnic_qp *qp);
/* The oldest Read or atomic whose request was sent and not answered, or NULL */
struct rnic_read *rnic_tx_oldest_read(struct rnic_qp *qp);
/* The same of one kind */
struct rnic_read *rnic_tx_oldest_of(struct rnic_qp *qp, bool atomic);
/* Immediate Data was sent, or an atomic waits for its response */
bool rnic_tx_used_rfc7306(struct rnic_qp *qp);
/* The response of the oldest one was placed */
void rnic_tx_read_done(struct rnic_qp *qp);

/* A peer's Read or Atomic Request that waits to be answered */
struct rnic_inbound_read {
    bool atomic;
    union {
        struct rnic_rdmap_read_request rr;
        struct rnic_rdmap_atomic_request ar;
    };
    /* As it came, for a Terminate: of an Atomic Request the DDP header, and
     * the same number of octets */
    uint8_t ulpdu[RNIC_RDMAP_READ_REQUEST_SIZE];
};
/* False: the IRD is used up */
bool rnic_tx_queue_response(struct rnic_qp *qp,
                            const struct rnic_inbound_read *in);

/* ---- Atomics (atomic.c) ---- */

/* What the operation makes of @old; the AOpCode is one of the two */
uint64_t rnic_atomic_apply(const struct rnic_rdmap_atomic_request *ar,
                           uint64_t old);
/* Executes the peer's request; *@old: the number before. Otherwise why not,
 * and nothing was changed. */
enum rnic_wire_err
rnic_atomic_execute(struct rnic_qp *qp,
                    const struct rnic_rdmap_atomic_request *ar, uint64_t *old);

/* ---- Receiving (rx.c) ---- */

void rnic_rx_init(struct rnic_qp *qp);
void rnic_rx_free(struct rnic_qp *qp);
/* A first FPDU came, and was valid */
bool rnic_rx_opened(struct rnic_qp *qp);
/* Reads and processes what is there, a bounded amount */
void rnic_rx_turn(struct rnic_qp *qp);
/* The receive that a message is being placed into, if any, completes: with
 * the status of the fault, or flushed */
void rnic_rx_flush(struct rnic_qp *qp);

/* ---- States (qp.c) ---- */

/* There is work to send: a turn at rnic_qp_run_ready() */
void rnic_qp_make_ready(struct rnic_qp *qp);
/* Acts upon a recorded fault */
void rnic_qp_settle(struct rnic_qp *qp);
/* Something would be sent now, but for the gate */
void rnic_qp_note_gated(struct rnic_qp *qp);

static inline bool rnic_qp_running(const struct rnic_qp *qp)
{
    return !qp->fault &&
           (qp->state == RNIC_QPS_RTS || qp->state == RNIC_QPS_CLOSING);
}

static inline bool rnic_qp_kernel(const struct rnic_qp *qp)
{
    return qp->flags & RNIC_QP_KERNEL;
}

/* ---- What ends a connection (qp-error.c) ---- */

enum rnic_fault_kind {
    RNIC_FAULT_WIRE,       /* what the peer sent broke a rule, or could
                                 * not be placed or served */
    RNIC_FAULT_LOCAL,      /* a queue, work request or CQ of this QP */
    RNIC_FAULT_ASKED,      /* MODIFY_QP to TERMINATE */
    RNIC_FAULT_TERMINATED, /* the peer sent a Terminate */
    RNIC_FAULT_LOST,       /* TCP ended within a message, or was reset */
    RNIC_FAULT_CLOSED,     /* the peer closed between messages */
};

struct rnic_fault {
    enum rnic_fault_kind kind;
    enum rnic_wire_err err; /* WIRE, LOCAL, ASKED: what is reported */
    uint16_t event;         /* enum rnic_event_type, 0: none */
    uint32_t term;          /* as rnic_aeqe.term */
    int lost;               /* LOST: errno of the host's TCP, 0: none */
    /* WIRE: the offending ULPDU, for the Terminate */
    uint8_t offender[RNIC_RDMAP_READ_REQUEST_SIZE];
    uint16_t offender_len;
    uint16_t ulpdu_len;
};

/* All of these: the first one wins, later ones change nothing */
void rnic_fault_wire(struct rnic_qp *qp, enum rnic_wire_err err,
                     const uint8_t *offender, size_t avail, uint16_t ulpdu_len);
/* @event: 0 if a completion tells the consumer */
void rnic_fault_local(struct rnic_qp *qp, uint16_t event);
void rnic_fault_asked(struct rnic_qp *qp);
void rnic_fault_terminated(struct rnic_qp *qp, const struct rnic_term *term);
void rnic_fault_closed(struct rnic_qp *qp);
/* @err: errno of the host's TCP, 0: it ended in order */
void rnic_fault_lost(struct rnic_qp *qp, int err);

/* The wire condition of a failed check of a region named by the peer: in a
 * tagged segment, or in a Read Request */
enum rnic_wire_err rnic_fault_of_tagged(enum rnic_mr_error error);
enum rnic_wire_err rnic_fault_of_read(enum rnic_mr_error error);
enum rnic_wire_err rnic_fault_of_invalidate(enum rnic_mr_error error);

/* In words, for guest_error. Never NULL */
const char *rnic_mr_error_str(enum rnic_mr_error error);
/* The status of a receive that the fault hit while it was being filled */
enum rnic_wc_status rnic_fault_recv_status(const struct rnic_fault *fault);
/* term without its flags */
static inline uint32_t rnic_fault_vendor_err(const struct rnic_fault *fault)
{
    return fault->term & ~(RNIC_TERM_VALID | RNIC_TERM_REMOTE);
}

#endif
