/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sends before the connection is established: one device, and a peer that
 * watches the wire
 *
 * A test posts between early_begin() and early_establish(), and sees with
 * early_expect_*() what left the device.
 */
#ifndef TESTS_CORE_EARLY_H
#define TESTS_CORE_EARLY_H

#include "iwarp-peer.h"

/* How many sends are posted early */
#define EARLY_COUNT 5

struct early_case {
    const char *name;
    bool responder; /* the device's role */
    bool ring;      /* a doorbell for what is posted early */
    bool scan;      /* the device scans */
};
/* All combinations of the three */
extern const struct early_case early_cases[8];
/* Adds @test for each case, as PREFIX/the case's name */
void early_add(const char *prefix, void (*test)(gconstpointer));

struct early {
    const struct early_case *c;
    struct th_guest *guest;
    struct th_qp *qp;
    struct iw_peer peer; /* peer.fd: the connection */
    int listener;        /* of the peer, initiator only */
    uint32_t conn_id;    /* responder only */
    unsigned receives;   /* that were consumed */
};

/* A QP with these RNIC_QP_*, and a connection that waits for its last step:
 * the peer's Reply, or the ACCEPT. No CRC, no peer-to-peer mode. */
void early_begin(struct early *e, const struct early_case *c, uint32_t flags);
/* That last step, without looking at what comes of it */
void early_establish(struct early *e);
/* Takes CONNECT_REPLY or ESTABLISHED */
void early_expect_event(struct early *e, enum rnic_cm_status status);
void early_end(struct early *e);

/* The WRs: Sends of four octets that say which one it is, signalled */
void early_wr(struct th_wr *wr, uint32_t first, unsigned count);
/* early_wr() posted, with or without a doorbell as the case says */
void early_post(struct early *e, uint32_t first, unsigned count);

/* Nothing leaves the device, and it has not fetched a
 * WQE of the SQ */
void early_expect_silence(struct early *e);
/* The responder's gate is shut; then the peer opens it with a first FPDU */
void early_open_gate(struct early *e);
/* Sends @first .. @first + @count - 1 arrive, in order, and complete */
void early_expect_sends(struct early *e, uint32_t first, unsigned count);
/* They complete as flushed, in order */
void early_expect_flushed(struct early *e, uint32_t first, unsigned count);
/* No completion and no FPDU is left */
void early_expect_no_more(struct early *e);

#endif
