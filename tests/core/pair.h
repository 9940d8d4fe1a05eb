/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two connected QPs with a registered buffer each, for the tests of the data
 * path. Side 0 is the initiator.
 */
#ifndef TESTS_CORE_PAIR_H
#define TESTS_CORE_PAIR_H

#include "harness.h"

#define PAIR_IOVA 0x100000ull

/* A test in two: SUITE/crc-off/NAME and SUITE/crc-on/NAME. What @test is given
 * is for pair_crc(). */
void pair_add(const char *suite, const char *name, GTestDataFunc test);
enum rnic_crc_policy pair_crc(gconstpointer data);

struct pair_options {
    enum rnic_crc_policy crc;
    bool self;         /* both QPs on one device */
    bool contiguous;   /* the buffers: one range in DMA space */
    bool direct;       /* fabric=direct: this host has 10.0.0.1 and 10.0.0.2 */
    unsigned fpdu_max; /* 0: the default */
    unsigned peer_timeout_ms;
    bool no_p2p;
    bool no_gate;
    bool rfc7306; /* the regions have REMOTE_ATOMIC, too */
    size_t buf_len;
    struct th_qp_attr attr[2];
};

struct pair {
    struct pair_options options;
    struct th_guest *guest[2];
    struct th_qp *qp[2];
    struct th_buf buf[2];
    uint32_t stag[2]; /* of the buffer, all rights */
};

/* @crc on both sides, buffers of 4 MiB + 64 KiB in scattered pages, strides
 * for 16 SGEs, kernel QPs */
void pair_options_init(struct pair_options *options, enum rnic_crc_policy crc);
/* Makes all, and does not connect */
void pair_new(struct pair *pair, const struct pair_options *options);
/* NULL: IRD and ORD of 16 */
void pair_connect(struct pair *pair, const struct th_connect *params);
/* pair_options_init(), pair_new(), pair_connect() */
void pair_start(struct pair *pair, enum rnic_crc_policy crc);
void pair_free(struct pair *pair);

/* A region of 2 GiB of @side with all rights, whose pages are all the same 2 MiB
 * of memory, at *@memory */
uint32_t pair_huge_mr(struct pair *pair, unsigned side, uint64_t *memory);
/* An SGE in the buffer of @side, from @offset on */
struct rnic_sge pair_sge(struct pair *pair, unsigned side, uint64_t offset,
                         uint32_t len);
/* Posts one signalled WR; one with @len octets at the same offset of both
 * buffers, from the buffer of @side (Read: to it) */
void pair_post(struct pair *pair, unsigned side, enum rnic_wr_opcode opcode,
               uint64_t wr_id, uint64_t offset, uint32_t len, unsigned flags);
void pair_post_recv(struct pair *pair, unsigned side, uint64_t wr_id,
                    uint64_t offset, uint32_t len);
/* Waits for the next completion of the SQ or RQ, and checks wr_id and status */
void pair_wait_send(struct pair *pair, unsigned side, uint64_t wr_id,
                    enum rnic_wc_status status, struct rnic_cqe *cqe);
void pair_wait_recv(struct pair *pair, unsigned side, uint64_t wr_id,
                    enum rnic_wc_status status, struct rnic_cqe *cqe);
/* Asserts that no completion waits */
void pair_no_completions(struct pair *pair, unsigned side);
/* Lets only the engine of @side run until it has nothing to do */
void pair_run_only(struct pair *pair, unsigned side);
/* Waits until both QPs are in ERROR and their last event was taken */
void pair_wait_error(struct pair *pair);

#endif
