/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queue pairs
 */
#ifndef RNIC_QP_H
#define RNIC_QP_H

#include "device.h"
#include "net/stream.h"

/* What the MPA startup agreed on */
struct rnic_qp_params {
    bool initiator;
    bool crc;          /* both directions */
    bool tx_markers;   /* the peer asked for markers */
    unsigned send_rtr; /* initiator: RNIC_RTR_* to send first, or 0 */
    bool await_rtr;    /* responder: peer-to-peer mode was agreed */
    bool hold_first;   /* responder: gated, also if the gate is off */
    uint16_t ird, ord;
};

/* How the connection manager binds to a QP; private to cm.c */
struct rnic_cm_conn;

struct rnic_qp {
    struct rnic_device *dev;
    uint32_t qpn;
    uint32_t pdn;
    uint32_t flags; /* RNIC_QP_* */
    enum rnic_qp_state state;
    struct rnic_uctx *uctx;
    struct rnic_cq *send_cq, *recv_cq;
    struct rnic_srq *srq; /* or NULL */
    struct rnic_buf buf;
    uint64_t status_addr;
    uint32_t dbrec_offset;
    uint32_t sq_offset, sq_stride, sq_depth;
    uint32_t rq_offset, rq_stride, rq_depth;
    uint32_t sq_pi, sq_ci; /* pi: as last read and checked */
    uint32_t rq_pi, rq_ci;
    uint32_t term; /* as rnic_aeqe.term */
    uint64_t stats[RNIC_STAT_QP_LAST + 1];
    uint64_t wakeup; /* the engine's last wake-up that it had a part in */

    struct rnic_cm_conn *conn;  /* cm.c's, NULL: none */
    struct rnic_stream *stream; /* from RTS on */
    struct rnic_qp_params params;
    uint16_t ird, ord;

    /* Private to the QP's own files, see qp-private.h */
    uint64_t dbrec_addr;       /* DMA address of struct rnic_qp_dbrec */
    uint32_t closing_pi;       /* CLOSING: where the SQ ends */
    bool drain_event;          /* SQ_DRAINED is due when CLOSING ends */
    bool sq_broken, rq_broken; /* bad producer index or not RAM: given up */
    bool status_gone;          /* it was not RAM, and that was told */
    uint32_t scan_sq_pi, scan_rq_pi; /* as the background scan last saw them */
    struct rnic_fault *fault;        /* why the connection ends, or NULL */
    struct rnic_timer end_timer;
    struct rnic_sq *sq; /* from RTS on */
    struct rnic_tx *tx; /* private to tx.c */
    struct rnic_rx *rx; /* private to rx.c */
    GList ready_link;   /* in dev->tx_ready while ready */
    bool ready;
};

/* ---- Commands ---- */
enum rnic_admin_status rnic_qp_create(struct rnic_device *dev,
                                      const struct rnic_cmd_create_qp *cmd);
enum rnic_admin_status rnic_qp_modify(struct rnic_device *dev,
                                      const struct rnic_cmd_modify_qp *cmd);
enum rnic_admin_status rnic_qp_query(struct rnic_device *dev, uint32_t qpn,
                                     struct rnic_resp_query_qp *resp);
/* Its connection is aborted silently; no event of it is written after this */
enum rnic_admin_status rnic_qp_destroy(struct rnic_device *dev, uint32_t qpn);
/* NULL: no such QP */
struct rnic_qp *rnic_qp_find(struct rnic_device *dev, uint32_t qpn);
/* Frees all QPs without completions and events (reset, free) */
void rnic_qp_reset_all(struct rnic_device *dev);

/* ---- From the connection manager ---- */
/*
 * IDLE -> RTS: takes over @stream. Publishes the state, sends the RTR if one
 * is due, starts sending what was posted before. Called before the event that
 * announces it.
 */
void rnic_qp_connected(struct rnic_qp *qp, struct rnic_stream *stream,
                       const struct rnic_qp_params *params);
/* Responder: the first valid FPDU came in (RFC 5044 section 7.1.2) */
void rnic_qp_open_gate(struct rnic_qp *qp);
/* Sends an empty Write to a peer that was sent something. False: it was the last
 * one, since the peer has said something, or the QP has left RTS. */
bool rnic_qp_nudge(struct rnic_qp *qp);
/* Setup failed, or the local address went: to ERROR, flush */
void rnic_qp_fail(struct rnic_qp *qp);

/* ---- From doorbells and the loop ---- */
/* The context rang for this QP; @uctx is the ringing one, checked here */
void rnic_qp_kick(struct rnic_device *dev, uint32_t qpn,
                  struct rnic_uctx *uctx);
/* Gives the QPs in dev->tx_ready their turns; true if some still have work */
bool rnic_qp_run_ready(struct rnic_device *dev);

/* Counts for the device and the QP; only the engine counts what QPs have */
static inline void rnic_qp_stat(struct rnic_qp *qp, enum rnic_stat stat,
                                uint64_t n)
{
    qp->stats[stat] += n;
    rnic_stat_own(qp->dev, stat, n);
}

#endif
