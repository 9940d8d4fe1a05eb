/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connection set-up, and what is posted before it and after its end
 */
#include "verbs-test.h"

#include <netinet/in.h>

static void test_private_data(struct test *t)
{
    struct conn *c = conn_prepare(t, NULL);
    uint8_t data[180];

    fill(data, sizeof(data), t->client);
    if (t->client) {
        conn_complete_pdata(t, c, data, sizeof(data));
    }
    CHECK(t, c->pdata_len == sizeof(data), "%zu octets of private data arrived",
          c->pdata_len);
    CHECK(t, differs(c->pdata, sizeof(data), !t->client) < 0,
          "the private data is wrong");
    if (!t->client) {
        conn_complete_pdata(t, c, data, sizeof(data));
    }
}

static void test_reject(struct test *t)
{
    static const char reason[] = "not today";
    struct conn *c;

    if (t->client) {
        c = conn_prepare(t, NULL);
        conn_request(t, c, "", 0);
        conn_expect_event(t, c, RDMA_CM_EVENT_REJECTED);
        CHECK(t,
              c->pdata_len == sizeof(reason) &&
                  !memcmp(c->pdata, reason, sizeof(reason)),
              "the reason did not arrive");
    } else {
        struct rdma_cm_id *id;
        struct conn none = {};

        id = next_request(t, &none);
        CHECK(t, !rdma_reject(id, reason, sizeof(reason)), "rdma_reject: %s",
              strerror(errno));
        rdma_destroy_id(id);
    }
}

/* Nobody listens on that port */
static void test_refused(struct test *t)
{
    struct rdma_conn_param param = {};
    struct sockaddr_storage saved = t->server_addr;
    struct conn *c;

    if (t->client) {
        /* The port is at the same place in both families */
        ((struct sockaddr_in *)&t->server_addr)->sin_port ^= htons(1);
        c = conn_prepare(t, NULL);
        t->server_addr = saved;
        CHECK(t, !rdma_connect(c->id, &param), "rdma_connect: %s",
              strerror(errno));
        conn_expect_event(t, c, RDMA_CM_EVENT_REJECTED);
    }
}

/* Receives posted before the connection exists take its first messages, and
 * the answer to a message may be sent at once */
static void test_early_receives(struct test *t)
{
    enum { COUNT = 40, SIZE = 256 };
    struct conn *c = conn_prepare(t, NULL);
    struct buf *b = buf_new(t, 2 * COUNT * SIZE, IBV_ACCESS_LOCAL_WRITE);
    unsigned i;

    for (i = 0; i < COUNT; i++) {
        post_recv_buf(t, c, i, b, i * SIZE, SIZE);
    }
    conn_complete(t, c);
    for (i = 0; i < COUNT; i++) {
        fill(b->addr + (COUNT + i) * SIZE, SIZE, i + 50 * t->client);
        post_send_buf(t, c, i, IBV_SEND_SIGNALED, b, (COUNT + i) * SIZE, SIZE);
    }
    for (i = 0; i < COUNT; i++) {
        wait_ok(t, c->recv_cq, i, IBV_WC_RECV);
        CHECK(t, differs(b->addr + i * SIZE, SIZE, i + 50 * !t->client) < 0,
              "message %u is wrong", i);
        wait_ok(t, c->send_cq, i, IBV_WC_SEND);
    }
}

/* Sends posted before the connection exists stay untouched until it does, and
 * then arrive once each, in order */
static void test_early_sends(struct test *t)
{
    enum { COUNT = 12, SIZE = 256 };
    struct conn *c = conn_prepare(t, NULL);
    struct buf *b = buf_new(t, 2 * COUNT * SIZE, IBV_ACCESS_LOCAL_WRITE);
    unsigned i;

    for (i = 0; i < COUNT; i++) {
        post_recv_buf(t, c, i, b, i * SIZE, SIZE);
    }
    for (i = 0; i < COUNT; i++) {
        post_send_buf(t, c, i, IBV_SEND_SIGNALED, b, (COUNT + i) * SIZE, SIZE);
    }
    expect_no_wc(t, c->send_cq, 300);
    /* What is sent is what is there when the connection is established */
    for (i = 0; i < COUNT; i++) {
        fill(b->addr + (COUNT + i) * SIZE, SIZE, i + 50 * t->client);
    }
    conn_complete(t, c);
    for (i = 0; i < COUNT; i++) {
        wait_ok(t, c->recv_cq, i, IBV_WC_RECV);
        CHECK(t, differs(b->addr + i * SIZE, SIZE, i + 50 * !t->client) < 0,
              "message %u is wrong", i);
        wait_ok(t, c->send_cq, i, IBV_WC_SEND);
    }
    expect_no_wc(t, c->send_cq, 200);
}

/* Takes completions until each request has had one, and no more come */
static void each_once(struct test *t, struct cq *cq, const char *what,
                      uint64_t first, unsigned count, unsigned *succeeded)
{
    uint8_t seen[256] = {};
    unsigned i;

    *succeeded = 0;
    for (i = 0; i < count; i++) {
        struct ibv_wc wc = wait_wc(t, cq);

        CHECK(t, wc.wr_id >= first && wc.wr_id < first + count,
              "completion of an unknown %s, wr_id %llu", what,
              (unsigned long long)wc.wr_id);
        CHECK(t, !seen[wc.wr_id - first]++, "%s %llu completed twice", what,
              (unsigned long long)wc.wr_id);
        CHECK(t, wc.wr_id == first + i, "%s %llu completed out of order", what,
              (unsigned long long)wc.wr_id);
        CHECK(t,
              wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_WR_FLUSH_ERR,
              "%s %llu: %s", what, (unsigned long long)wc.wr_id,
              ibv_wc_status_str(wc.status));
        CHECK(t, wc.status != IBV_WC_SUCCESS || *succeeded == i,
              "a %s succeeded behind a flushed one", what);
        *succeeded += wc.status == IBV_WC_SUCCESS;
    }
    expect_no_wc(t, cq, 300);
}

/* After a disconnect each request completes exactly once, successfully or
 * flushed; so do those that are posted later */
static void test_flush(struct test *t)
{
    enum { SENDS = 40, RECVS = 60, LATE = 5 };
    struct conn *c = conn_prepare(t, NULL);
    struct buf *b = buf_new(t, 65536, IBV_ACCESS_LOCAL_WRITE);
    unsigned i, sent, received, count;

    for (i = 0; i < RECVS; i++) {
        post_recv_buf(t, c, i, b, 0, 65536);
    }
    conn_complete(t, c);
    ctl_sync(t);
    if (t->client) {
        for (i = 0; i < SENDS; i++) {
            post_send_buf(t, c, i, IBV_SEND_SIGNALED, b, 0, 40000);
        }
        CHECK(t, !rdma_disconnect(c->id), "rdma_disconnect: %s",
              strerror(errno));
    }
    conn_expect_event(t, c, RDMA_CM_EVENT_DISCONNECTED);
    if (t->client) {
        each_once(t, c->send_cq, "Send", 0, SENDS, &sent);
    }
    each_once(t, c->recv_cq, "receive", 0, RECVS, &received);
    CHECK(t, received <= SENDS, "%u messages arrived", received);
    /* Unsignalled ones complete too when they are flushed */
    for (i = 0; i < LATE; i++) {
        post_recv_buf(t, c, 1000 + i, b, 0, 64);
        post_send_buf(t, c, 1000 + i, 0, b, 0, 64);
    }
    each_once(t, c->recv_cq, "late receive", 1000, LATE, &count);
    CHECK(t, !count, "a late receive succeeded");
    each_once(t, c->send_cq, "late Send", 1000, LATE, &count);
    CHECK(t, !count, "a late Send succeeded");
}

/* What was sent before a graceful disconnect arrives */
static void test_disconnect_delivers(struct test *t)
{
    enum { COUNT = 20, SIZE = 30000 };
    struct conn *c = conn_prepare(t, NULL);
    struct buf *b = buf_new(t, COUNT * SIZE, IBV_ACCESS_LOCAL_WRITE);
    unsigned i;

    for (i = 0; i < COUNT; i++) {
        post_recv_buf(t, c, i, b, i * SIZE, SIZE);
    }
    conn_complete(t, c);
    ctl_sync(t);
    if (t->client) {
        fill(b->addr, SIZE, 3);
        for (i = 0; i < COUNT; i++) {
            post_send_buf(t, c, i, IBV_SEND_SIGNALED, b, 0, SIZE);
        }
        for (i = 0; i < COUNT; i++) {
            wait_ok(t, c->send_cq, i, IBV_WC_SEND);
        }
        conn_disconnect(t, c);
    } else {
        for (i = 0; i < COUNT; i++) {
            wait_ok(t, c->recv_cq, i, IBV_WC_RECV);
            CHECK(t, differs(b->addr + i * SIZE, SIZE, 3) < 0,
                  "message %u is wrong", i);
        }
        conn_expect_event(t, c, RDMA_CM_EVENT_DISCONNECTED);
        /* Programs answer a disconnect with their own */
        CHECK(t, !rdma_disconnect(c->id), "the second rdma_disconnect: %s",
              strerror(errno));
    }
}

/* A QP whose peer vanishes without a word */
static void test_abort(struct test *t)
{
    struct conn *c = conn_prepare(t, NULL);
    unsigned i, count;

    for (i = 0; i < 10; i++) {
        post_recv(t, c, i, NULL, 0);
    }
    conn_complete(t, c);
    ctl_sync(t);
    if (t->client) {
        conn_destroy_qp(c);
    } else {
        conn_expect_event(t, c, RDMA_CM_EVENT_DISCONNECTED);
        each_once(t, c->recv_cq, "receive", 0, 10, &count);
    }
    ctl_sync(t);
}

const struct test_case setup_tests[] = {
    { "private-data", test_private_data },
    { "reject", test_reject },
    { "refused", test_refused },
    { "early-receives", test_early_receives },
    { "early-sends", test_early_sends },
    { "flush", test_flush },
    { "disconnect-delivers", test_disconnect_delivers },
    { "abort", test_abort },
    {},
};
