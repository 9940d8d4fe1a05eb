/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state of one replayed connection (test-replay.c), and the memory of the
 * device's application in it (replay-memory.c)
 */
#ifndef TESTS_CORE_REPLAY_H
#define TESTS_CORE_REPLAY_H

#include "iwarp-peer.h"
#include "siw-capture.h"

/* What is between two receives, and must stay as it is */
#define REPLAY_GAP     64
#define REPLAY_UNUSED  0xee
/* The STag that the error cases use in vain */
#define REPLAY_NO_STAG 0xdead0100u

/* What goes wrong in a capture, at the responder */
enum replay_fault {
    REPLAY_NO_FAULT,
    REPLAY_NO_REGION,
    REPLAY_NO_RIGHT,
    REPLAY_BOUNDS,
    REPLAY_NO_RECEIVE,
    REPLAY_INVALIDATE,
};

struct replay_case {
    const char *name;
    unsigned connections;
    enum replay_fault fault;
    uint32_t siw;    /* the Terminate of siw's responder; 0: none */
    uint32_t device; /* of the device in its place */
};

/* Memory of the device's application that siw's FPDUs name */
struct replay_region {
    uint32_t stag;
    uint64_t start, end; /* TOs */
    bool fast;           /* registered by work requests: it is invalidated */
    bool valid;
    bool writable; /* by the peer */
    struct th_buf buf;
    uint8_t *pages, *shadow; /* of all its pages: what is, what should be */
    size_t len;
};

struct replay {
    const struct replay_case *row;
    const struct cap_connection *c;
    enum cap_side device, siw;
    struct iw_peer peer; /* in siw's place */
    struct th_buf rx, tx;
    GArray *regions; /* struct replay_region */

    /* siw's messages, and what the device's application has of them */
    GPtrArray *receives; /* its Sends */
    GArray *rx_at;       /* uint32_t: where each is received */
    unsigned received;
    const struct cap_message *fault; /* the one that ends the connection */
    const struct cap_message *rtr;   /* the one that the device itself sends */
    size_t sent;                     /* octets of siw's stream */
    unsigned prepared, done;         /* FPDUs of them */

    /* The device's messages: of the SQ, and Read Responses */
    GPtrArray *expect[2];
    unsigned seen[2];
    uint32_t progress[2]; /* octets of the next one */
    unsigned posted, posted_fpdus, completed;
    uint32_t tx_at;
    bool dead; /* by a Terminate */
};

/* Who does what in the connection */
void replay_plan(struct replay *r);
/* Buffers and regions, with the STags of the capture; a fresh guest's first */
void replay_make_memory(struct replay *r);
/* Receives that just hold what siw sends, and one more */
void replay_post_receives(struct replay *r);
/* Posts a work request; takes completions, in order and without error */
void replay_post(struct replay *r, struct th_wr *wr);
void replay_reap(struct replay *r);
/* Before the first octet of an FPDU of siw: what the application did by then */
void replay_prepare_fpdu(struct replay *r, const struct cap_fpdu *fpdu);
/* After its last octet: what the device will do */
void replay_account_fpdu(struct replay *r, const struct cap_fpdu *fpdu);
/* The device has done all that it was told to so far; asserts it */
void replay_settle(struct replay *r);
/* Every octet of the regions and around them is as it should be */
bool replay_memory_is_right(struct replay *r);

#endif
