/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RDMA Write, RDMA Read, fences, invalidation
 */
#include "verbs-test.h"

#define ALL_ACCESS                                                             \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* Tells the other half that something is placed, or waits for that */
static void send_mark(struct test *t, struct conn *c, uint64_t wr_id)
{
    post_send(t, c, wr_id, IBV_SEND_SIGNALED, NULL, 0);
    wait_ok(t, c->send_cq, wr_id, IBV_WC_SEND);
}

static void test_write(struct test *t)
{
    static const uint32_t sizes[] = {
        1, 2, 7, 512, 1461, 4096, 65537, 300000, 1 << 20,
    };
    enum { COUNT = sizeof(sizes) / sizeof(*sizes), LEN = (1 << 20) + 8192 };
    struct conn_opt opt = { .send_sge = 3 };
    struct conn *c = conn_prepare(t, &opt);
    struct buf *b = buf_new(t, LEN, ALL_ACCESS);
    struct remote remote;
    unsigned i;

    for (i = 0; i < COUNT; i++) {
        post_recv(t, c, i, NULL, 0);
    }
    conn_complete(t, c);
    ctl_put_buf(t, b);
    remote = ctl_get_buf(t);
    for (i = 0; i < COUNT; i++) {
        uint32_t offset = 1 + i * 37, piece[3], at = 0;

        if (t->client) {
            struct ibv_sge sge[3];
            unsigned k;

            fill(b->addr, sizes[i], i);
            split(sizes[i], 3, piece);
            for (k = 0; k < 3; k++) {
                sge[k] = sge_of(b, at, piece[k]);
                at += piece[k];
            }
            ctl_sync(t);
            post_rdma(t, c, IBV_WR_RDMA_WRITE, 100 + i, IBV_SEND_SIGNALED, sge,
                      3, remote.addr + offset, remote.rkey);
            post_send(t, c, 200 + i, IBV_SEND_SIGNALED, NULL, 0);
            wait_ok(t, c->send_cq, 100 + i, IBV_WC_RDMA_WRITE);
            wait_ok(t, c->send_cq, 200 + i, IBV_WC_SEND);
        } else {
            memset(b->addr, 0xee, LEN);
            ctl_sync(t);
            /* The first completion is the Send's: a Write makes none here */
            wait_ok(t, c->recv_cq, i, IBV_WC_RECV);
            CHECK(t,
                  all_octets(b->addr, offset, 0xee) &&
                      all_octets(b->addr + offset + sizes[i],
                                 LEN - offset - sizes[i], 0xee),
                  "octets around a Write of %u octets changed", sizes[i]);
            CHECK(t, differs(b->addr + offset, sizes[i], i) < 0,
                  "a Write of %u octets is wrong", sizes[i]);
        }
    }
}

/* Single octets at the ends of pages, which is where translations end, too */
static void test_page_ends(struct test *t)
{
    enum { PAGE = 4096, PAGES = 128 };
    struct conn *c = conn_prepare(t, NULL);
    struct buf *b = buf_new(t, PAGES * PAGE, ALL_ACCESS);
    uint8_t *expected = malloc(b->len);
    struct remote remote;
    unsigned i;

    post_recv(t, c, 1, NULL, 0);
    conn_complete(t, c);
    fill(t->client ? b->addr : expected, b->len, 3);
    ctl_put_buf(t, b);
    remote = ctl_get_buf(t);
    for (i = 0; t->client && i < PAGES; i++) {
        size_t offset = i * PAGE + PAGE - 1;
        struct ibv_sge sge = sge_of(b, offset, 1);

        post_rdma(t, c, IBV_WR_RDMA_WRITE, i, IBV_SEND_SIGNALED, &sge, 1,
                  remote.addr + offset, remote.rkey);
        wait_ok(t, c->send_cq, i, IBV_WC_RDMA_WRITE);
    }
    if (t->client) {
        send_mark(t, c, PAGES);
    } else {
        wait_ok(t, c->recv_cq, 1, IBV_WC_RECV);
    }
    for (i = 0; !t->client && i < PAGES; i++) {
        uint8_t *page = b->addr + i * PAGE;

        CHECK(t,
              all_octets(page, PAGE - 1, 0) &&
                  page[PAGE - 1] == expected[i * PAGE + PAGE - 1],
              "page %u is wrong", i);
    }
    free(expected);
}

static uint32_t read_sges(struct test *t)
{
    struct ibv_device_attr attr;
    int err = ibv_query_device(t->verbs, &attr);

    CHECK(t, !err, "ibv_query_device: %s", strerror(err));
    CHECK(t, attr.max_sge_rd >= 1, "max_sge_rd %d", attr.max_sge_rd);
    return attr.max_sge_rd < 3 ? attr.max_sge_rd : 3;
}

static void test_read(struct test *t)
{
    static const uint32_t sizes[] = {
        1, 3, 64, 1459, 4096, 65535, 1 << 20,
    };
    enum { COUNT = sizeof(sizes) / sizeof(*sizes), LEN = (1 << 20) + 8192 };
    struct conn_opt opt = { .send_sge = 3 };
    struct conn *c = conn_open(t, &opt);
    /* A sink needs no remote right */
    struct buf *b = buf_new(
        t, LEN, t->client ? IBV_ACCESS_LOCAL_WRITE : IBV_ACCESS_REMOTE_READ);
    uint32_t pieces = read_sges(t);
    struct remote remote;
    unsigned i;

    if (!t->client) {
        fill(b->addr, LEN, 5);
    }
    ctl_put_buf(t, b);
    remote = ctl_get_buf(t);
    for (i = 0; t->client && i < COUNT; i++) {
        uint32_t piece[3], at = 16, k, offset = i * 256;
        struct ibv_sge sge[3];
        struct ibv_wc wc;
        uint8_t *whole = malloc(sizes[i] + offset);

        memset(b->addr, 0xee, LEN);
        split(sizes[i], pieces, piece);
        for (k = 0; k < pieces; k++) {
            sge[k] = sge_of(b, at, piece[k]);
            at += piece[k] + 16;
        }
        post_rdma(t, c, IBV_WR_RDMA_READ, i, IBV_SEND_SIGNALED, sge, pieces,
                  remote.addr + offset, remote.rkey);
        wc = wait_ok(t, c->send_cq, i, IBV_WC_RDMA_READ);
        CHECK(t, wc.byte_len == sizes[i], "byte_len %u of a Read of %u octets",
              wc.byte_len, sizes[i]);
        /* The pattern starts at the region's start */
        fill(whole, sizes[i] + offset, 5);
        for (k = 0, at = 0; k < pieces; at += piece[k++]) {
            uint8_t *sink = (uint8_t *)(uintptr_t)sge[k].addr;

            CHECK(t,
                  all_octets(sink - 16, 16, 0xee) &&
                      all_octets(sink + piece[k], 16, 0xee),
                  "octets around a Read of %u octets changed", sizes[i]);
            CHECK(t, !memcmp(sink, whole + offset + at, piece[k]),
                  "a Read of %u octets is wrong", sizes[i]);
        }
        free(whole);
    }
}

/* More Reads at once than the connection may have outstanding */
static void test_reads_queued(struct test *t)
{
    enum { COUNT = 60, SIZE = 2000 };
    struct conn *c = conn_open(t, NULL);
    struct buf *b = buf_new(t, COUNT * SIZE, ALL_ACCESS);
    struct remote remote;
    unsigned i;

    if (!t->client) {
        for (i = 0; i < COUNT; i++) {
            fill(b->addr + i * SIZE, SIZE, i);
        }
    }
    ctl_put_buf(t, b);
    remote = ctl_get_buf(t);
    if (t->client) {
        for (i = 0; i < COUNT; i++) {
            struct ibv_sge sge = sge_of(b, i * SIZE, SIZE);

            post_rdma(t, c, IBV_WR_RDMA_READ, i, IBV_SEND_SIGNALED, &sge, 1,
                      remote.addr + i * SIZE, remote.rkey);
        }
        for (i = 0; i < COUNT; i++) {
            wait_ok(t, c->send_cq, i, IBV_WC_RDMA_READ);
            CHECK(t, differs(b->addr + i * SIZE, SIZE, i) < 0,
                  "Read %u is wrong", i);
        }
    }
}

/*
 * A Send, then a Write, both fenced behind a Read of what they send: without
 * the fence they would send what was in the buffer before.
 */
static void test_fence(struct test *t)
{
    enum { SIZE = 50000, ROUNDS = 8 };
    struct conn *c = conn_prepare(t, NULL);
    struct buf *b = buf_new(t, 3 * SIZE, ALL_ACCESS);
    struct remote remote;
    unsigned i;

    for (i = 0; i < ROUNDS; i++) {
        post_recv_buf(t, c, i, b, SIZE, SIZE);
    }
    post_recv(t, c, 99, NULL, 0);
    conn_complete(t, c);
    ctl_put_buf(t, b);
    remote = ctl_get_buf(t);
    if (t->client) {
        struct ibv_sge sge = sge_of(b, 0, SIZE);

        for (i = 0; i < ROUNDS; i++) {
            memset(b->addr, 0xaa, SIZE);
            ctl_sync(t);
            post_rdma(t, c, IBV_WR_RDMA_READ, 1, IBV_SEND_SIGNALED, &sge, 1,
                      remote.addr, remote.rkey);
            post_rdma(t, c, IBV_WR_RDMA_WRITE, 2,
                      IBV_SEND_SIGNALED | IBV_SEND_FENCE, &sge, 1,
                      remote.addr + 2 * SIZE, remote.rkey);
            post_send(t, c, 3, IBV_SEND_SIGNALED | IBV_SEND_FENCE, &sge, 1);
            wait_ok(t, c->send_cq, 1, IBV_WC_RDMA_READ);
            wait_ok(t, c->send_cq, 2, IBV_WC_RDMA_WRITE);
            wait_ok(t, c->send_cq, 3, IBV_WC_SEND);
            ctl_sync(t);
        }
        send_mark(t, c, 4);
    } else {
        for (i = 0; i < ROUNDS; i++) {
            fill(b->addr, SIZE, i);
            ctl_sync(t);
            wait_ok(t, c->recv_cq, i, IBV_WC_RECV);
            CHECK(t, differs(b->addr + SIZE, SIZE, i) < 0,
                  "a fenced Send overtook the Read");
            CHECK(t, differs(b->addr + 2 * SIZE, SIZE, i) < 0,
                  "a fenced Write overtook the Read");
            ctl_sync(t);
        }
        wait_ok(t, c->recv_cq, 99, IBV_WC_RECV);
    }
}

static void test_send_invalidate(struct test *t)
{
    struct conn *c = conn_prepare(t, NULL);
    struct buf *b = buf_new(t, 4096, ALL_ACCESS);
    struct buf *out = buf_new(t, 4096, IBV_ACCESS_LOCAL_WRITE);
    struct remote remote;
    unsigned i;

    for (i = 0; i < 3; i++) {
        post_recv_buf(t, c, i, out, i * 64, 64);
    }
    conn_complete(t, c);
    ctl_put_buf(t, b);
    remote = ctl_get_buf(t);
    if (t->client) {
        struct ibv_sge sge = sge_of(out, 0, 64);
        struct ibv_send_wr wr = {
            .wr_id = 2,
            .sg_list = &sge,
            .num_sge = 1,
            .opcode = IBV_WR_SEND_WITH_INV,
            .send_flags = IBV_SEND_SIGNALED,
            .invalidate_rkey = remote.rkey,
        };

        fill(out->addr, 64, 9);
        post_rdma(t, c, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED, &sge, 1,
                  remote.addr + 128, remote.rkey);
        wait_ok(t, c->send_cq, 1, IBV_WC_RDMA_WRITE);
        CHECK(t, !try_send(c, &wr), "Send with Invalidate was not taken");
        wait_ok(t, c->send_cq, 2, IBV_WC_SEND);
        ctl_sync(t);
        /* Nothing may get at the region any more */
        fill(out->addr, 64, 10);
        post_rdma(t, c, IBV_WR_RDMA_WRITE, 3, 0, &sge, 1, remote.addr + 128,
                  remote.rkey);
        conn_expect_event(t, c, RDMA_CM_EVENT_DISCONNECTED);
        ctl_sync(t);
    } else {
        struct ibv_wc wc = wait_ok(t, c->recv_cq, 0, IBV_WC_RECV);

        CHECK(t, wc.wc_flags & IBV_WC_WITH_INV, "IBV_WC_WITH_INV is missing");
        CHECK(t, wc.invalidated_rkey == b->mr->rkey,
              "invalidated_rkey 0x%x instead of 0x%x", wc.invalidated_rkey,
              b->mr->rkey);
        CHECK(t, wc.byte_len == 64 && differs(out->addr, 64, 9) < 0,
              "the Send's data is wrong");
        CHECK(t, differs(b->addr + 128, 64, 9) < 0, "the Write is wrong");
        ctl_sync(t);
        conn_expect_event(t, c, RDMA_CM_EVENT_DISCONNECTED);
        ctl_sync(t);
        CHECK(t, differs(b->addr + 128, 64, 9) < 0,
              "a Write got at an invalidated region");
    }
}

/* A region of many pages, touched all over */
static void test_big_region(struct test *t)
{
    enum { PROBES = 48, SIZE = 8200 };
    size_t len = (size_t)t->big_mb << 20;
    struct conn *c = conn_prepare(t, NULL);
    struct buf *b = buf_new(t, t->client ? PROBES * SIZE : len, ALL_ACCESS);
    struct remote remote;
    unsigned i;

    post_recv(t, c, 1, NULL, 0);
    conn_complete(t, c);
    ctl_put_buf(t, b);
    remote = ctl_get_buf(t);
    if (t->client) {
        for (i = 0; i < PROBES; i++) {
            /* The last one ends with the region */
            uint64_t offset = (remote.len - SIZE) / (PROBES - 1) * i;
            struct ibv_sge sge = sge_of(b, i * SIZE, SIZE);

            offset = i == PROBES - 1 ? remote.len - SIZE : offset;
            fill(b->addr + i * SIZE, SIZE, i);
            post_rdma(t, c, IBV_WR_RDMA_WRITE, i, IBV_SEND_SIGNALED, &sge, 1,
                      remote.addr + offset, remote.rkey);
            wait_ok(t, c->send_cq, i, IBV_WC_RDMA_WRITE);
            memset(b->addr + i * SIZE, 0, SIZE);
            post_rdma(t, c, IBV_WR_RDMA_READ, i, IBV_SEND_SIGNALED, &sge, 1,
                      remote.addr + offset, remote.rkey);
            wait_ok(t, c->send_cq, i, IBV_WC_RDMA_READ);
            CHECK(t, differs(b->addr + i * SIZE, SIZE, i) < 0,
                  "what was written at %llu reads differently",
                  (unsigned long long)offset);
        }
        send_mark(t, c, 1);
    } else {
        wait_ok(t, c->recv_cq, 1, IBV_WC_RECV);
        for (i = 0; i < PROBES; i++) {
            uint64_t offset = (len - SIZE) / (PROBES - 1) * i;

            offset = i == PROBES - 1 ? len - SIZE : offset;
            CHECK(t, differs(b->addr + offset, SIZE, i) < 0,
                  "the Write at %llu is wrong", (unsigned long long)offset);
        }
    }
}

const struct test_case tagged_tests[] = {
    { "write", test_write },
    { "page-ends", test_page_ends },
    { "read", test_read },
    { "reads-queued", test_reads_queued },
    { "fence", test_fence },
    { "send-invalidate", test_send_invalidate },
    { "big-region", test_big_region },
    {},
};
