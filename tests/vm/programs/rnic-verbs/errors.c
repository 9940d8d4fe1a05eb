/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Work requests that must fail, and how
 */
#include "verbs-test.h"

/* One way for the client to get at memory that it has no right to */
struct violation {
    const char *what;
    enum ibv_wr_opcode opcode;
    int access;           /* of the target region */
    uint32_t stag_change; /* xor */
    int64_t offset;       /* from the region's start */
    uint32_t len;
    bool other_pd;
    bool wraps; /* offset: from address 0 */
    bool gone;  /* deregistered before */
    /* siw as target does not notice, or worse */
    bool lost_on_siw;
};

#define REGION 8192

static const struct violation violations[] = {
    { "a Write without the right", IBV_WR_RDMA_WRITE,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, 0, 0, 64, false },
    { "a Read without the right", IBV_WR_RDMA_READ,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, 0, 64,
      .lost_on_siw = true },
    { "a Write with another key", IBV_WR_RDMA_WRITE,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 1, 0, 64, false },
    { "a Write to an unknown STag", IBV_WR_RDMA_WRITE,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0x5a5a5a00, 0, 64,
      false },
    { "a Write behind the end", IBV_WR_RDMA_WRITE,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, REGION, 1, false },
    { "a Write across the end", IBV_WR_RDMA_WRITE,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, REGION - 32, 64,
      false },
    { "a Write before the start", IBV_WR_RDMA_WRITE,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, -8, 8, false },
    { "a Read across the end", IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ, 0,
      REGION - 32, 64, false },
    { "a Write to another PD's region", IBV_WR_RDMA_WRITE,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, 0, 64, true },
    { "a Read of another PD's region", IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ,
      0, 0, 64, true },
    { "a Read with another key", IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ, 1, 0,
      64, false },
    { "a Read before the start", IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ, 0,
      -8, 8, false },
    { "a Write whose end wraps", IBV_WR_RDMA_WRITE,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, -32, 64,
      .wraps = true, .lost_on_siw = true },
    { "a Read whose end wraps", IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ, 0,
      -32, 64, .wraps = true, .lost_on_siw = true },
    { "a Write to a region that is gone", IBV_WR_RDMA_WRITE,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, 0, 64,
      .gone = true },
    { "a Read of a region that is gone", IBV_WR_RDMA_READ,
      IBV_ACCESS_REMOTE_READ, 0, 0, 64, .gone = true },
};

static bool is_siw(struct test *t)
{
    return !strncmp(ibv_get_device_name(t->verbs->device), "siw", 3);
}

static void violate(struct test *t, struct conn *c, struct buf *b,
                    const struct violation *v)
{
    struct remote remote = ctl_get_buf(t);
    struct ibv_sge sge = sge_of(b, 0, v->len);
    struct ibv_wc wc;

    memset(b->addr, 0x77, b->len);
    post_rdma(t, c, v->opcode, 1, IBV_SEND_SIGNALED, &sge, 1,
              (v->wraps ? 0 : remote.addr) + v->offset,
              remote.rkey ^ v->stag_change);
    wc = wait_wc(t, c->send_cq);
    if (v->opcode == IBV_WR_RDMA_READ) {
        CHECK(t,
              wc.status == IBV_WC_REM_ACCESS_ERR ||
                  (beside_siw && wc.status != IBV_WC_SUCCESS),
              "%s completed: %s", v->what, ibv_wc_status_str(wc.status));
        CHECK(t, all_octets(b->addr, b->len, 0x77), "%s brought data", v->what);
    } else {
        /* A Write completes when it is handed over, which may be before the
         * peer's Terminate comes */
        CHECK(t,
              wc.status == IBV_WC_SUCCESS ||
                  wc.status == IBV_WC_REM_ACCESS_ERR || beside_siw,
              "%s completed: %s", v->what, ibv_wc_status_str(wc.status));
    }
    conn_expect_event(t, c, RDMA_CM_EVENT_DISCONNECTED);
    if (is_siw(t)) {
        return;
    }
    post_send(t, c, 2, IBV_SEND_SIGNALED, NULL, 0);
    wc = wait_wc(t, c->send_cq);
    CHECK(t, wc.wr_id == 2 && wc.status == IBV_WC_WR_FLUSH_ERR,
          "a Send after %s: %s", v->what, ibv_wc_status_str(wc.status));
}

static void test_access(struct test *t)
{
    unsigned i;

    for (i = 0; i < sizeof(violations) / sizeof(*violations); i++) {
        const struct violation *v = &violations[i];
        struct conn *c = conn_prepare(t, NULL);

        if (beside_siw && v->lost_on_siw && is_siw(t) != t->client) {
            conn_complete(t, c);
            ctl_sync(t);
            conn_destroy_qp(c);
            continue;
        }
        if (t->client) {
            struct buf *b = buf_new(t, 64, IBV_ACCESS_LOCAL_WRITE);

            conn_complete(t, c);
            violate(t, c, b, v);
        } else {
            struct ibv_pd *own = t->pd, *other = NULL;
            struct remote remote;
            struct buf *b;
            struct ibv_wc wc;

            if (v->other_pd) {
                other = ibv_alloc_pd(t->verbs);
                CHECK(t, other, "ibv_alloc_pd: %s", strerror(errno));
                t->pd = other;
            }
            b = buf_new(t, REGION, v->access);
            t->pd = own;
            memset(b->addr, 0x33, REGION);
            post_recv(t, c, 1, NULL, 0);
            conn_complete(t, c);
            remote = (struct remote){
                .addr = (uintptr_t)b->addr,
                .len = b->len,
                .rkey = b->mr->rkey,
            };
            if (v->gone) {
                CHECK(t, !ibv_dereg_mr(b->mr), "ibv_dereg_mr");
                b->mr = NULL;
            }
            ctl_put(t, &remote, sizeof(remote));
            if (!is_siw(t)) {
                wait_async(t, IBV_EVENT_QP_ACCESS_ERR, c->qp);
            }
            conn_expect_event(t, c, RDMA_CM_EVENT_DISCONNECTED);
            /* siw that refused a Read flushes only when the QP goes */
            if (!is_siw(t) || v->opcode != IBV_WR_RDMA_READ) {
                wc = wait_wc(t, c->recv_cq);
                CHECK(t, wc.status == IBV_WC_WR_FLUSH_ERR,
                      "a receive after %s: %s", v->what,
                      ibv_wc_status_str(wc.status));
            }
            CHECK(t, all_octets(b->addr, REGION, 0x33), "%s changed memory",
                  v->what);
            if (other) {
                CHECK(t, !ibv_dereg_mr(b->mr) && !ibv_dealloc_pd(other),
                      "the other PD cannot be freed");
                b->mr = NULL;
            }
        }
        conn_destroy_qp(c);
    }
}

static void test_read_unknown(struct test *t)
{
    struct conn *c = conn_prepare(t, NULL);
    struct buf *b = buf_new(t, 64, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge = sge_of(b, 0, 64);
    struct ibv_wc wc;

    memset(b->addr, 0x77, b->len);
    conn_complete(t, c);
    ctl_sync(t);
    if (t->client) {
        post_rdma(t, c, IBV_WR_RDMA_READ, 1, IBV_SEND_SIGNALED, &sge, 1, 0x1000,
                  0x5a5a5a00);
        wc = wait_wc(t, c->send_cq);
        CHECK(t,
              wc.status == IBV_WC_REM_ACCESS_ERR ||
                  (beside_siw && wc.status != IBV_WC_SUCCESS),
              "a Read of an unknown STag: %s", ibv_wc_status_str(wc.status));
    }
    conn_expect_event(t, c, RDMA_CM_EVENT_DISCONNECTED);
    CHECK(t, all_octets(b->addr, b->len, 0x77), "memory changed");
}

static void test_local_protection(struct test *t)
{
    struct conn *c = conn_prepare(t, NULL);
    struct buf *b = buf_new(t, 4096, 0);
    struct ibv_sge sge = sge_of(b, 0, 64);
    struct ibv_wc wc;

    post_recv(t, c, 1, NULL, 0);
    conn_complete(t, c);
    ctl_sync(t);
    if (t->client) {
        sge.lkey ^= 1;
        post_send(t, c, 1, 0, &sge, 1);
        wc = wait_wc(t, c->send_cq);
        CHECK(t, wc.wr_id == 1 && wc.status == IBV_WC_LOC_PROT_ERR,
              "a Send from an STag with another key: %s",
              ibv_wc_status_str(wc.status));
    } else {
        wc = wait_wc(t, c->recv_cq);
        CHECK(t, wc.status == IBV_WC_WR_FLUSH_ERR, "the peer's receive: %s",
              ibv_wc_status_str(wc.status));
    }
    conn_expect_event(t, c, RDMA_CM_EVENT_DISCONNECTED);
}

/* Into a region that may not be written */
static void test_recv_protection(struct test *t)
{
    struct conn *c = conn_prepare(t, NULL);
    struct buf *b = buf_new(t, 4096, 0);
    struct ibv_wc wc;

    memset(b->addr, t->client, b->len);
    post_recv_buf(t, c, 1, b, 0, 64);
    conn_complete(t, c);
    ctl_sync(t);
    if (t->client) {
        post_send_buf(t, c, 1, IBV_SEND_SIGNALED, b, 0, 64);
    } else {
        wc = wait_wc(t, c->recv_cq);
        CHECK(t, wc.wr_id == 1 && wc.status == IBV_WC_LOC_PROT_ERR,
              "the receive: %s", ibv_wc_status_str(wc.status));
        CHECK(t, all_octets(b->addr, b->len, 0), "memory changed");
    }
    conn_expect_event(t, c, RDMA_CM_EVENT_DISCONNECTED);
}

static void test_recv_too_short(struct test *t)
{
    struct conn *c = conn_prepare(t, NULL);
    struct buf *b = buf_new(t, 4096, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_wc wc;

    memset(b->addr, t->client, b->len);
    post_recv_buf(t, c, 1, b, 0, 64);
    conn_complete(t, c);
    ctl_sync(t);
    if (t->client) {
        post_send_buf(t, c, 1, IBV_SEND_SIGNALED, b, 0, 65);
    } else {
        wc = wait_wc(t, c->recv_cq);
        CHECK(t, wc.wr_id == 1 && wc.status == IBV_WC_LOC_LEN_ERR,
              "the receive: %s", ibv_wc_status_str(wc.status));
        CHECK(t, all_octets(b->addr + 64, b->len - 64, 0),
              "octets behind the receive changed");
    }
    conn_expect_event(t, c, RDMA_CM_EVENT_DISCONNECTED);
}

/* iWARP has no RNR: a Send without a receive ends the connection */
static void test_no_receive(struct test *t)
{
    struct conn *c = conn_open(t, NULL);

    ctl_sync(t);
    if (t->client) {
        post_send(t, c, 1, IBV_SEND_SIGNALED, NULL, 0);
    } else {
        wait_async(t, IBV_EVENT_QP_REQ_ERR, c->qp);
    }
    conn_expect_event(t, c, RDMA_CM_EVENT_DISCONNECTED);
}

static void test_cq_overflow(struct test *t)
{
    enum { COUNT = 60 };
    struct conn_opt opt = {};
    struct conn *c = conn_prepare(t, NULL);
    unsigned i, n;
    struct ibv_wc wc;

    conn_complete(t, c);
    if (t->client) {
        opt.send_cq = cq_new(t, t->verbs, 16);
    }
    c = conn_prepare(t, &opt);
    for (i = 0; i < COUNT; i++) {
        post_recv(t, c, i, NULL, 0);
    }
    conn_complete(t, c);
    ctl_sync(t);
    if (t->client) {
        for (i = 0; i < COUNT; i++) {
            struct ibv_send_wr wr = {
                .wr_id = i,
                .opcode = IBV_WR_SEND,
                .send_flags = IBV_SEND_SIGNALED,
            };

            CHECK(t, !try_send(c, &wr), "ibv_post_send");
        }
        wait_async(t, IBV_EVENT_CQ_ERR, opt.send_cq->cq);
        /* What is in the CQ may still be polled, and is no rubbish */
        for (n = 0; ibv_poll_cq(opt.send_cq->cq, 1, &wc) == 1; n++) {
            CHECK(t, wc.wr_id == n && n < COUNT, "completion %u is wrong", n);
        }
        CHECK(t, n <= (unsigned)opt.send_cq->cq->cqe,
              "%u completions in a CQ of %d", n, opt.send_cq->cq->cqe);
    }
    conn_expect_event(t, c, RDMA_CM_EVENT_DISCONNECTED);
}

/* What posting refuses, and that it leaves the QP usable */
static void test_post_errors(struct test *t)
{
    enum { LIST = 200 };
    struct conn_opt opt = { .send_wr = 8, .recv_wr = 8 };
    struct ibv_send_wr send[LIST] = {}, *bad_send = NULL;
    struct ibv_recv_wr recv[LIST] = {}, *bad_recv = NULL;
    struct conn *c = conn_prepare(t, &opt);
    struct buf *b = buf_new(t, 4096, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge[64];
    unsigned i, room;
    int err;

    for (i = 0; i < 64; i++) {
        sge[i] = sge_of(b, 0, 1);
    }
    for (i = 0; i < LIST; i++) {
        recv[i].wr_id = i;
        recv[i].next = i + 1 < LIST ? &recv[i + 1] : NULL;
        send[i].wr_id = i;
        send[i].opcode = IBV_WR_SEND;
        send[i].send_flags = IBV_SEND_SIGNALED;
        send[i].next = i + 1 < LIST ? &send[i + 1] : NULL;
    }
    /* Those before the bad one are posted */
    room = c->cap.max_recv_wr;
    CHECK(t, room < LIST, "max_recv_wr %u", room);
    err = ibv_post_recv(c->qp, recv, &bad_recv);
    CHECK(t, err == ENOMEM && bad_recv == &recv[room],
          "posting too many receives: %s", strerror(err));
    conn_complete(t, c);
    ctl_sync(t);

    recv[0].next = NULL;
    recv[0].sg_list = sge;
    send[0].next = &send[1];
    send[1].next = NULL;
    send[1].sg_list = sge;
    send[1].num_sge = c->cap.max_send_sge + 1;
    CHECK(t, send[1].num_sge < 64, "max_send_sge %u", c->cap.max_send_sge);
    err = ibv_post_send(c->qp, send, &bad_send);
    CHECK(t, err == EINVAL && bad_send == &send[1],
          "a Send of too many SGEs: %s", strerror(err));
    wait_ok(t, c->send_cq, 0, IBV_WC_SEND);
    wait_ok(t, c->recv_cq, 0, IBV_WC_RECV);
    recv[0].num_sge = c->cap.max_recv_sge + 1;
    err = ibv_post_recv(c->qp, recv, &bad_recv);
    CHECK(t, err == EINVAL && bad_recv == &recv[0],
          "a receive of too many SGEs: %s", strerror(err));

    send[1].num_sge = 0;
    send[1].opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    CHECK(t,
          ibv_post_send(c->qp, &send[1], &bad_send) == EOPNOTSUPP &&
              bad_send == &send[1],
          "an atomic operation was taken");
    send[1].opcode = IBV_WR_SEND_WITH_IMM;
    CHECK(t, ibv_post_send(c->qp, &send[1], &bad_send) == EOPNOTSUPP,
          "immediate data was taken");
    send[1].opcode = 99;
    CHECK(t, ibv_post_send(c->qp, &send[1], &bad_send) == EINVAL,
          "an unknown opcode was taken");

    post_send(t, c, 7, IBV_SEND_SIGNALED, NULL, 0);
    wait_ok(t, c->send_cq, 7, IBV_WC_SEND);
    wait_ok(t, c->recv_cq, 1, IBV_WC_RECV);
}

/* A side that only sends has no RQ, one that only receives no SQ */
static void test_empty_queues(struct test *t)
{
    struct conn_opt opt = {
        .zero_recv_wr = t->client,
        .zero_send_wr = !t->client,
    };
    struct ibv_recv_wr recv = {}, *bad_recv;
    struct ibv_send_wr send = { .opcode = IBV_WR_SEND };
    struct conn *c = conn_prepare(t, &opt);

    if (t->client) {
        CHECK(t, ibv_post_recv(c->qp, &recv, &bad_recv) == ENOMEM,
              "a receive was taken without an RQ");
        conn_complete(t, c);
        ctl_sync(t);
        post_send(t, c, 1, IBV_SEND_SIGNALED, NULL, 0);
        wait_ok(t, c->send_cq, 1, IBV_WC_SEND);
    } else {
        CHECK(t, try_send(c, &send) == ENOMEM,
              "a Send was taken without an SQ");
        post_recv(t, c, 1, NULL, 0);
        conn_complete(t, c);
        ctl_sync(t);
        wait_ok(t, c->recv_cq, 1, IBV_WC_RECV);
    }
}

static void test_query(struct test *t)
{
    struct conn *c = conn_prepare(t, NULL);
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    int err;

    err = ibv_query_qp(c->qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init);
    CHECK(t, !err && attr.qp_state == IBV_QPS_INIT,
          "before the connection: %s, state %d", strerror(err), attr.qp_state);
    CHECK(t,
          init.cap.max_send_wr == c->cap.max_send_wr &&
              init.cap.max_recv_wr == c->cap.max_recv_wr,
          "capacities differ from those at creation");
    conn_complete(t, c);
    err = ibv_query_qp(c->qp, &attr, IBV_QP_STATE, &init);
    CHECK(t, !err && attr.qp_state == IBV_QPS_RTS, "connected: %s, state %d",
          strerror(err), attr.qp_state);
    ctl_sync(t);
    if (t->client) {
        conn_disconnect(t, c);
    } else {
        conn_expect_event(t, c, RDMA_CM_EVENT_DISCONNECTED);
    }
    attr.qp_state = IBV_QPS_ERR;
    err = ibv_modify_qp(c->qp, &attr, IBV_QP_STATE);
    CHECK(t, !err, "ibv_modify_qp to ERR: %s", strerror(err));
    err = ibv_query_qp(c->qp, &attr, IBV_QP_STATE, &init);
    CHECK(t, !err && attr.qp_state == IBV_QPS_ERR, "at the end: %s, state %d",
          strerror(err), attr.qp_state);
}

const struct test_case error_tests[] = {
    { "access", test_access },
    { "read-unknown", test_read_unknown },
    { "local-protection", test_local_protection },
    { "recv-protection", test_recv_protection },
    { "recv-too-short", test_recv_too_short },
    { "no-receive", test_no_receive },
    { "cq-overflow", test_cq_overflow },
    { "post-errors", test_post_errors },
    { "empty-queues", test_empty_queues },
    { "query", test_query },
    {},
};
