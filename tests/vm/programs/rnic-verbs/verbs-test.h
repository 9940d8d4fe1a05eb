/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rnic-verbs: tests of the verbs between a client and a server
 *
 * Each test has two halves that run at the same time, joined by a control
 * connection over which they exchange small messages (and, at the end, their
 * verdicts). What a half makes through the functions below is freed when it
 * ends, however it ends.
 */
#ifndef VERBS_TEST_H
#define VERBS_TEST_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MAX_OBJECTS 64

struct cq {
    struct ibv_cq *cq;
    struct ibv_cq_ex *ex; /* the same for extended polling, or NULL */
    struct ibv_comp_channel *channel;
};

struct buf {
    uint8_t *addr;
    size_t len;
    struct ibv_mr *mr;
};

struct conn {
    struct rdma_cm_id *id;
    struct rdma_event_channel *events;
    struct ibv_qp *qp;
    struct cq *send_cq, *recv_cq;
    struct ibv_qp_cap cap;
    uint8_t pdata[256]; /* what the peer sent at set-up */
    size_t pdata_len;
};

/* What a connection is made of; 0 and NULL take defaults */
struct conn_opt {
    uint32_t send_wr, recv_wr, send_sge, recv_sge, inline_data;
    bool sig_all;
    struct cq *send_cq, *recv_cq;
    struct ibv_srq *srq;
    bool zero_send_wr, zero_recv_wr;
    uint64_t send_ops; /* IBV_QP_EX_*, for ibv_wr_*() */
    bool recv_cq_ex;   /* an extended CQ for receives */
};

struct remote {
    uint64_t addr;
    uint64_t len;
    uint32_t rkey;
    uint32_t qpn;
};

struct test {
    const char *name;
    bool client;
    unsigned big_mb;  /* size of the big region */
    uint32_t tag;     /* of the connections of this test */
    struct test *ctl; /* whose first connection is the control one */
    struct rdma_cm_id *listener;
    struct sockaddr_storage server_addr;

    jmp_buf fail;
    char why[256];      /* empty: no failure */
    bool peer_done;     /* the other half has told its verdict, */
    char peer_why[256]; /* this one */

    struct ibv_context *verbs; /* of the first connection */
    struct ibv_pd *pd;
    struct conn *conns[MAX_OBJECTS];
    struct buf *bufs[MAX_OBJECTS];
    struct cq *cqs[MAX_OBJECTS];
    struct ibv_srq *srqs[MAX_OBJECTS];
    unsigned conn_count, buf_count, cq_count, srq_count;
    struct buf *spare; /* for receives that need no room */
};

extern int timeout_ms; /* of any single wait */
/*
 * One end is siw: no SGE of length 0 (it crashes), no receive without an SGE
 * (it refuses them), and what failed may have any status
 */
extern bool beside_siw;

/* ---- Failing ---- */
void fail(struct test *t, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
#define CHECK(t, cond, ...)                                                    \
    do {                                                                       \
        if (!(cond))                                                           \
            fail(t, __VA_ARGS__);                                              \
    } while (0)

int64_t now_ms(void);
void sleep_ms(int ms);

/* ---- conn.c ---- */
/*
 * A connection in two steps: after the first it has a QP in INIT (the client
 * has resolved the address, the server has the peer's request); the second
 * connects or accepts, and waits until it is established.
 */
struct conn *conn_prepare(struct test *t, const struct conn_opt *opt);
void conn_complete(struct test *t, struct conn *c);
struct conn *conn_open(struct test *t, const struct conn_opt *opt);
/* As conn_complete(), with private data behind the test's own */
void conn_complete_pdata(struct test *t, struct conn *c, const void *data,
                         size_t len);
/* The client's first half of that */
void conn_request(struct test *t, struct conn *c, const void *data, size_t len);
void conn_disconnect(struct test *t, struct conn *c);
void conn_expect_event(struct test *t, struct conn *c,
                       enum rdma_cm_event_type type);
/* Early, for tests in which it matters */
void conn_destroy_qp(struct conn *c);
void test_listen(struct test *t, uint16_t port);
/* Waits for a connection request of this test; refuses those of others */
struct rdma_cm_id *next_request(struct test *t, struct conn *c);
void test_cleanup(struct test *t);

/* ---- objects.c ---- */
struct cq *cq_new(struct test *t, struct ibv_context *verbs, int cqe);
struct cq *cq_new_ex(struct test *t, struct ibv_context *verbs, int cqe);
struct ibv_srq *srq_new(struct test *t, uint32_t max_wr, uint32_t max_sge);
/* Page-aligned, zeroed, registered */
struct buf *buf_new(struct test *t, size_t len, int access);

void fill(void *p, size_t len, uint32_t seed);
/* Octets len that start at offset of the pattern; the index of the first
 * wrong one, or -1 */
ssize_t differs(const void *p, size_t len, uint32_t seed);
bool all_octets(const void *p, size_t len, uint8_t value);
/* Cuts len into n uneven pieces (some may be empty) */
void split(size_t len, unsigned n, uint32_t piece[]);

struct ibv_sge sge_of(const struct buf *b, size_t offset, uint32_t len);
void post_recv(struct test *t, struct conn *c, uint64_t wr_id,
               struct ibv_sge *sge, int n);
void post_recv_buf(struct test *t, struct conn *c, uint64_t wr_id,
                   struct buf *b, size_t offset, uint32_t len);
/* 0 or an errno value */
int try_send(struct conn *c, struct ibv_send_wr *wr);
void post_send(struct test *t, struct conn *c, uint64_t wr_id, int flags,
               struct ibv_sge *sge, int n);
void post_send_buf(struct test *t, struct conn *c, uint64_t wr_id, int flags,
                   struct buf *b, size_t offset, uint32_t len);
void post_rdma(struct test *t, struct conn *c, enum ibv_wr_opcode opcode,
               uint64_t wr_id, int flags, struct ibv_sge *sge, int n,
               uint64_t addr, uint32_t rkey);

/* ---- Completions (objects.c) ---- */
/* Waits by event, so each wait goes through arming */
struct ibv_wc wait_wc(struct test *t, struct cq *cq);
struct ibv_wc wait_wc_ms(struct test *t, struct cq *cq, int ms);
struct ibv_wc wait_ok(struct test *t, struct cq *cq, uint64_t wr_id,
                      enum ibv_wc_opcode opcode);
void expect_no_wc(struct test *t, struct cq *cq, int ms);
/* True if a completion event came within that time; it is acknowledged */
bool got_cq_event(struct test *t, struct cq *cq, int ms);
/* Waits for that asynchronous event, of that QP or CQ or SRQ; passes over
 * others */
void wait_async(struct test *t, enum ibv_event_type type, void *element);

/* ---- control.c ---- */
/* Both halves give and get in the same order */
void ctl_put(struct test *t, const void *data, size_t len);
void ctl_get(struct test *t, void *data, size_t len);
void ctl_sync(struct test *t);
void ctl_put_buf(struct test *t, const struct buf *b);
struct remote ctl_get_buf(struct test *t);

void ctl_open(struct test *ctl);
void ctl_close(struct test *ctl);
/* Of the runner */
void ctl_start(struct test *ctl, const char *name, uint32_t tag);
/* False: the client has no more */
bool ctl_next(struct test *ctl, char *name, size_t size, uint32_t *tag);
/* Exchanges verdicts: t->why and t->peer_why */
void ctl_verdict(struct test *t);

/* ---- The tests ---- */
struct test_case {
    const char *name;
    void (*run)(struct test *t);
};
extern const struct test_case message_tests[], tagged_tests[], setup_tests[],
    error_tests[], sharing_tests[];
/* Only when they are named: they need devices with properties of their own */
extern const struct test_case rfc7306_tests[];

#endif
