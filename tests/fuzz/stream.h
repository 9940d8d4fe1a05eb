/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A connected QP and a peer that says anything to it: what the parts of
 * fuzz-stream share
 */
#ifndef TESTS_FUZZ_STREAM_H
#define TESTS_FUZZ_STREAM_H

#include "fuzz.h"
#include "qp.h"
#include "wire/rdmap.h"

#define QUEUE_DEPTH 16
#define MAX_WRS     100 /* of each kind: fits the CQs */
#define SLOT        512 /* octets of a local buffer, the last unused */
#define SLOTS       (2 * QUEUE_DEPTH)
#define OTHER_PD    9
#define MAX_PARTS   64 /* of what is sent in slices */

/* Tags of what may be written */
enum {
    TAG_ALWAYS,
    TAG_REGION,    /* + region */
    TAG_SLOT = 16, /* + slot */
};

enum region {
    READ_WRITE, /* all rights, contiguous */
    SCATTERED,  /* remote write; ends where TOs end */
    READ_ONLY,
    LOCAL,   /* the slots */
    FOREIGN, /* all rights in another PD */
    SMALL,   /* remote write */
    REGIONS
};

struct region_plan {
    size_t len;
    unsigned levels;
    uint32_t first_offset;
    uint64_t iova;
    uint32_t access, pdn;
};

extern const struct region_plan stream_plan[REGIONS];

struct wr {
    bool posted, completed;
    int slot; /* -1: none */
    uint32_t len;
};

struct peer {
    struct fuzz_guest *guest;
    struct th_qp *qp;
    struct th_srq *srq;
    struct th_buf buf[REGIONS];
    uint32_t stag[REGIONS];
    bool valid[REGIONS];
    bool slot_used[SLOTS];
    uint8_t edge[SLOTS]; /* the last octet of each */
    struct wr recv[MAX_WRS], send[MAX_WRS];
    unsigned num_recv, num_send, open_recv, open_send;

    int fd; /* -1: closed */
    struct rnic_qp_params params;
    bool deaf;    /* does not read */
    bool uncut;   /* slices are not looked at */
    bool was_cut; /* they were, and nothing that depends on the time */
    bool was_deaf;
    GByteArray *outcome; /* receives, then regions, then the Terminate */
    unsigned slice;      /* octets of one write */
    uint32_t send_msn, read_msn, atomic_msn;
    GByteArray *heard;
};

/* ---- The device's guest: stream-guest.c ---- */

void stream_make_regions(struct peer *peer);
/* The device may write its rings */
void stream_allow_rings(struct peer *peer);
void stream_post_recv(struct peer *peer, uint32_t len);
void stream_post_send(struct peer *peer, struct fuzz_input *in);
/* The STag of a region, or one like it */
uint32_t stream_any_stag(struct peer *peer, struct fuzz_input *in);
void stream_dereg(struct peer *peer, unsigned region);
/* Judges a completion, and takes it */
void stream_complete(struct peer *peer, const struct rnic_cqe *cqe, bool recv);

/* ---- What came of it: stream-heard.c ---- */

void stream_hear(struct peer *peer);
/* Runs the device until it rests, and judges its completions */
void stream_run(struct peer *peer);
void stream_check_heard(struct peer *peer);
void stream_check_untouched(struct peer *peer);

/* ---- What the peer says: stream-peer.c ---- */

void stream_say_raw(struct peer *peer, struct fuzz_input *in);
void stream_say_tagged(struct peer *peer, struct fuzz_input *in,
                       enum rnic_rdmap_opcode opcode);
void stream_say_send(struct peer *peer, struct fuzz_input *in);
void stream_say_read_request(struct peer *peer, struct fuzz_input *in);
void stream_say_terminate(struct peer *peer, struct fuzz_input *in);
void stream_say_rfc7306(struct peer *peer, struct fuzz_input *in);
void stream_leave(struct peer *peer, bool write_side_only);

#endif
