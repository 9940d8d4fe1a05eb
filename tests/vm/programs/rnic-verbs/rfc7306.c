/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Atomics and immediate data, for devices with rfc7306=on; by ibv_post_send() and
 * ibv_wr_*(), by ibv_poll_cq() and the extended one
 */
#include "verbs-test.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <unistd.h>

#define ACCESS                                                                 \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                        \
     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static uint64_t *word(struct buf *b, unsigned i)
{
    return (uint64_t *)b->addr + i;
}

static void post_atomic(struct test *t, struct conn *c,
                        enum ibv_wr_opcode opcode, uint64_t wr_id,
                        struct ibv_sge sge, uint64_t addr, uint32_t rkey,
                        uint64_t compare_add, uint64_t swap)
{
    struct ibv_send_wr wr = {
        .wr_id = wr_id,
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = opcode,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.atomic = {
            .remote_addr = addr,
            .compare_add = compare_add,
            .swap = swap,
            .rkey = rkey,
        },
    };
    int err = try_send(c, &wr);

    CHECK(t, !err, "an atomic was not taken: %s", strerror(err));
}

static void test_atomics(struct test *t)
{
    struct conn *c = conn_open(t, NULL);
    struct buf *b = buf_new(t, 4096, ACCESS);
    struct ibv_device_attr attr;
    struct remote remote;
    struct ibv_wc wc;
    unsigned i;

    CHECK(t, !ibv_query_device(t->verbs, &attr), "ibv_query_device");
    CHECK(t, attr.atomic_cap == IBV_ATOMIC_HCA, "atomic_cap %d",
          attr.atomic_cap);
    *word(b, 2) = 40;
    ctl_put_buf(t, b);
    remote = ctl_get_buf(t);
    ctl_sync(t);
    if (t->client) {
        static const struct {
            enum ibv_wr_opcode opcode;
            uint64_t compare_add, swap, old;
        } rows[] = {
            { IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0, 40 },
            { IBV_WR_ATOMIC_CMP_AND_SWP, 42, 0x123456789abcdef0, 42 },
            { IBV_WR_ATOMIC_CMP_AND_SWP, 42, 1, 0x123456789abcdef0 },
            { IBV_WR_ATOMIC_FETCH_AND_ADD, -1, 0, 0x123456789abcdef0 },
        };

        for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
            post_atomic(t, c, rows[i].opcode, i, sge_of(b, 512 + 8 * i, 8),
                        remote.addr + 16, remote.rkey, rows[i].compare_add,
                        rows[i].swap);
        }
        for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
            wc = wait_ok(t, c->send_cq, i,
                         rows[i].opcode == IBV_WR_ATOMIC_CMP_AND_SWP
                             ? IBV_WC_COMP_SWAP
                             : IBV_WC_FETCH_ADD);
            CHECK(t, wc.byte_len == 8, "byte_len %u of an atomic", wc.byte_len);
            CHECK(t, *word(b, 64 + i) == rows[i].old,
                  "atomic %u returned 0x%llx", i,
                  (unsigned long long)*word(b, 64 + i));
        }
    }
    ctl_sync(t);
    if (!t->client) {
        CHECK(t, *word(b, 2) == 0x123456789abcdeef, "the number became 0x%llx",
              (unsigned long long)*word(b, 2));
        CHECK(t, !*word(b, 1) && !*word(b, 3), "its neighbours changed");
    }
}

/* A13: two QPs of the client and two processors of the server on one number */

#define SUM_ROUNDS 300
#define SUM_DEPTH  8
#define CPU_ADD    (1ull << 32)

struct processor {
    uint64_t *word, added;
    bool stop;
};

static void *processor_run(void *arg)
{
    struct processor *cpu = arg;

    while (!__atomic_load_n(&cpu->stop, __ATOMIC_RELAXED)) {
        __atomic_fetch_add(cpu->word, CPU_ADD, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&cpu->added, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void add_all(struct test *t, struct conn *c[2], struct buf *b,
                    const struct remote *remote)
{
    unsigned posted[2] = { 0 }, done[2] = { 0 }, q;

    while (done[0] < SUM_ROUNDS || done[1] < SUM_ROUNDS) {
        for (q = 0; q < 2; q++) {
            while (posted[q] < SUM_ROUNDS && posted[q] - done[q] < SUM_DEPTH) {
                post_atomic(t, c[q], IBV_WR_ATOMIC_FETCH_AND_ADD, posted[q],
                            sge_of(b, 512 + 8 * q, 8), remote->addr,
                            remote->rkey, 1 + q, 0);
                posted[q]++;
            }
            if (done[q] < SUM_ROUNDS) {
                wait_ok(t, c[q]->send_cq, done[q]++, IBV_WC_FETCH_ADD);
            }
        }
    }
}

static void test_atomic_sum(struct test *t)
{
    struct conn *c[2] = { conn_open(t, NULL), conn_open(t, NULL) };
    struct buf *b = buf_new(t, 4096, ACCESS);
    struct processor cpu = { .word = word(b, 0) };
    struct remote remote;
    pthread_t thread;

    ctl_put_buf(t, b);
    remote = ctl_get_buf(t);
    if (!t->client) {
        CHECK(t, !pthread_create(&thread, NULL, processor_run, &cpu),
              "pthread_create");
        /* On a busy machine it may be late */
        while (!__atomic_load_n(&cpu.added, __ATOMIC_RELAXED)) {
            usleep(1000);
        }
    }
    ctl_sync(t);
    if (t->client) {
        add_all(t, c, b, &remote);
    }
    ctl_sync(t);
    if (!t->client) {
        __atomic_store_n(&cpu.stop, true, __ATOMIC_RELAXED);
        pthread_join(thread, NULL);
        CHECK(t, *word(b, 0) == SUM_ROUNDS * 3 + cpu.added * CPU_ADD,
              "the sum is 0x%llx; %llu of the processor",
              (unsigned long long)*word(b, 0), (unsigned long long)cpu.added);
    }
}

/* ---- Immediate data ---- */

static void check_imm(struct test *t, const struct ibv_wc *wc, uint32_t imm,
                      uint32_t length)
{
    CHECK(t, wc->wc_flags == IBV_WC_WITH_IMM, "wc_flags 0x%x", wc->wc_flags);
    CHECK(t, ntohl(wc->imm_data) == imm, "immediate data 0x%x",
          ntohl(wc->imm_data));
    CHECK(t, wc->byte_len == length, "byte_len %u instead of %u", wc->byte_len,
          length);
}

static void test_immediate(struct test *t)
{
    struct conn *c = conn_prepare(t, NULL);
    struct buf *b = buf_new(t, 100000, ACCESS);
    struct remote remote;
    struct ibv_wc wc;

    post_recv(t, c, 0, NULL, 0);
    post_recv(t, c, 1, NULL, 0);
    post_recv_buf(t, c, 2, b, 90000, 100);
    conn_complete(t, c);
    ctl_put_buf(t, b);
    remote = ctl_get_buf(t);
    if (t->client) {
        struct ibv_sge sge = sge_of(b, 0, 70000);
        struct ibv_send_wr wr = {
            .sg_list = &sge,
            .num_sge = 1,
            .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
            .send_flags = IBV_SEND_SIGNALED,
            .imm_data = htonl(0xdeadbeef),
            .wr.rdma = { .remote_addr = remote.addr + 100,
                         .rkey = remote.rkey },
        };

        fill(b->addr, 70000, 3);
        CHECK(t, !try_send(c, &wr), "Write with Immediate was not taken");
        wait_ok(t, c->send_cq, 0, IBV_WC_RDMA_WRITE);
        /* Immediate data alone; with data it is none of iWARP's */
        wr.wr_id = 1;
        wr.opcode = IBV_WR_SEND_WITH_IMM;
        wr.imm_data = htonl(7);
        CHECK(t, try_send(c, &wr) == EOPNOTSUPP,
              "a Send with data and immediate data was taken");
        wr.num_sge = 0;
        CHECK(t, !try_send(c, &wr), "Immediate Data was not taken");
        wait_ok(t, c->send_cq, 1, IBV_WC_SEND);
        post_send_buf(t, c, 2, IBV_SEND_SIGNALED, b, 0, 50);
        wait_ok(t, c->send_cq, 2, IBV_WC_SEND);
    } else {
        wc = wait_ok(t, c->recv_cq, 0, IBV_WC_RECV_RDMA_WITH_IMM);
        check_imm(t, &wc, 0xdeadbeef, 70000);
        CHECK(t, differs(b->addr + 100, 70000, 3) < 0, "the Write is wrong");
        wc = wait_ok(t, c->recv_cq, 1, IBV_WC_RECV_RDMA_WITH_IMM);
        check_imm(t, &wc, 7, 0);
        wc = wait_ok(t, c->recv_cq, 2, IBV_WC_RECV);
        CHECK(t, !wc.wc_flags && wc.byte_len == 50, "wc_flags 0x%x of a Send",
              wc.wc_flags);
    }
}

/* ---- ibv_wr_*() and extended polling ---- */

#define WR_OPS                                                                 \
    (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |                      \
     IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |          \
     IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |            \
     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

static void begin(struct ibv_qp_ex *qp, uint64_t wr_id)
{
    qp->wr_id = wr_id;
    qp->wr_flags = IBV_SEND_SIGNALED;
}

static void wr_client(struct test *t, struct conn *c, struct buf *b,
                      const struct remote *remote)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(c->qp);
    uint64_t at = (uintptr_t)b->addr;
    struct ibv_data_buf bufs[2] = { { b->addr, 3 }, { b->addr + 3, 4 } };
    int err;

    CHECK(t, qp, "ibv_qp_to_qp_ex");
    fill(b->addr, 4096, 5);
    ibv_wr_start(qp);
    begin(qp, 1);
    ibv_wr_rdma_write(qp, remote->rkey, remote->addr + 4096);
    ibv_wr_set_sge(qp, b->mr->lkey, at, 4096);
    begin(qp, 2);
    ibv_wr_atomic_fetch_add(qp, remote->rkey, remote->addr, 2);
    ibv_wr_set_sge(qp, b->mr->lkey, at + 8192, 8);
    begin(qp, 3);
    ibv_wr_atomic_cmp_swp(qp, remote->rkey, remote->addr, 42, 99);
    ibv_wr_set_sge(qp, b->mr->lkey, at + 8200, 8);
    begin(qp, 4);
    ibv_wr_rdma_read(qp, remote->rkey, remote->addr);
    ibv_wr_set_sge(qp, b->mr->lkey, at + 8208, 8);
    begin(qp, 5);
    qp->wr_flags |= IBV_SEND_FENCE | IBV_SEND_SOLICITED;
    ibv_wr_rdma_write_imm(qp, remote->rkey, remote->addr + 9000, htonl(5));
    ibv_wr_set_inline_data_list(qp, 2, bufs);
    begin(qp, 6);
    ibv_wr_send_imm(qp, htonl(6));
    ibv_wr_set_sge_list(qp, 0, NULL);
    begin(qp, 7);
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, b->addr, 20);
    err = ibv_wr_complete(qp);
    CHECK(t, !err, "ibv_wr_complete: %s", strerror(err));
    wait_ok(t, c->send_cq, 1, IBV_WC_RDMA_WRITE);
    wait_ok(t, c->send_cq, 2, IBV_WC_FETCH_ADD);
    wait_ok(t, c->send_cq, 3, IBV_WC_COMP_SWAP);
    wait_ok(t, c->send_cq, 4, IBV_WC_RDMA_READ);
    wait_ok(t, c->send_cq, 5, IBV_WC_RDMA_WRITE);
    wait_ok(t, c->send_cq, 6, IBV_WC_SEND);
    wait_ok(t, c->send_cq, 7, IBV_WC_SEND);
    CHECK(t,
          *word(b, 1024) == 40 && *word(b, 1025) == 42 && *word(b, 1026) == 99,
          "what the atomics and the Read returned");

    /* An error of one is an error of all, and nothing is posted */
    ibv_wr_start(qp);
    begin(qp, 8);
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, b->addr, 20);
    begin(qp, 9);
    ibv_wr_send_imm(qp, htonl(9));
    ibv_wr_set_sge(qp, b->mr->lkey, at, 10);
    CHECK(t, ibv_wr_complete(qp) == EOPNOTSUPP,
          "a Send with data and immediate data was taken");
    ibv_wr_start(qp);
    begin(qp, 10);
    ibv_wr_atomic_fetch_add(qp, remote->rkey, remote->addr, 2);
    ibv_wr_set_sge(qp, b->mr->lkey, at, 16);
    CHECK(t, ibv_wr_complete(qp) == EINVAL, "an atomic of 16 octets was taken");
    ibv_wr_start(qp);
    begin(qp, 11);
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, b->addr, 20);
    ibv_wr_abort(qp);
    post_send_buf(t, c, 12, IBV_SEND_SIGNALED, b, 0, 20);
    wait_ok(t, c->send_cq, 12, IBV_WC_SEND);
}

/* The next completion of an extended CQ; it ends the poll */
static void next_ex(struct test *t, struct ibv_cq_ex *cq, uint64_t wr_id,
                    enum ibv_wc_opcode opcode, uint32_t imm, uint32_t len)
{
    struct ibv_poll_cq_attr attr = {};
    int64_t end = now_ms() + timeout_ms;
    enum ibv_wc_opcode got;
    uint32_t got_imm, got_len;
    unsigned flags;
    int err;

    while ((err = ibv_start_poll(cq, &attr)) == ENOENT) {
        CHECK(t, now_ms() < end, "no completion %llu",
              (unsigned long long)wr_id);
        sleep_ms(1);
    }
    CHECK(t, !err, "ibv_start_poll: %s", strerror(err));
    got = ibv_wc_read_opcode(cq);
    flags = ibv_wc_read_wc_flags(cq);
    got_imm = ntohl(ibv_wc_read_imm_data(cq));
    got_len = ibv_wc_read_byte_len(cq);
    ibv_end_poll(cq);
    CHECK(t,
          !cq->status && cq->wr_id == wr_id && got == opcode && got_len == len,
          "status %d, wr_id %llu, opcode %d, byte_len %u", cq->status,
          (unsigned long long)cq->wr_id, got, got_len);
    CHECK(t, flags == (imm ? IBV_WC_WITH_IMM : 0) && (!imm || got_imm == imm),
          "wc_flags 0x%x, immediate data 0x%x", flags, got_imm);
}

static void test_wr_api(struct test *t)
{
    struct conn_opt opt = {
        .send_ops = WR_OPS,
        .recv_cq_ex = true,
        .inline_data = 64,
    };
    struct conn *c = conn_prepare(t, &opt);
    struct buf *b = buf_new(t, 16384, ACCESS);
    struct remote remote;
    struct ibv_cq_ex *cq;
    unsigned i;

    for (i = 0; i < 4; i++) {
        post_recv_buf(t, c, i, b, 12288 + 100 * i, 100);
    }
    conn_complete(t, c);
    if (!t->client) {
        *word(b, 0) = 40;
    }
    ctl_put_buf(t, b);
    remote = ctl_get_buf(t);
    ctl_sync(t);
    if (t->client) {
        wr_client(t, c, b, &remote);
    } else {
        cq = c->recv_cq->ex;
        next_ex(t, cq, 0, IBV_WC_RECV_RDMA_WITH_IMM, 5, 7);
        CHECK(t, differs(b->addr + 9000, 7, 5) < 0, "the inline Write");
        CHECK(t, differs(b->addr + 4096, 4096, 5) < 0, "the Write");
        next_ex(t, cq, 1, IBV_WC_RECV_RDMA_WITH_IMM, 6, 0);
        next_ex(t, cq, 2, IBV_WC_RECV, 0, 20);
        next_ex(t, cq, 3, IBV_WC_RECV, 0, 20);
        CHECK(t, *word(b, 0) == 99, "the number");
    }
}

/* ---- Errors ---- */

static void expect_end(struct test *t, struct conn *c)
{
    conn_expect_event(t, c, RDMA_CM_EVENT_DISCONNECTED);
}

/* A peer may not change what it has no right to, nor half of a number */
static void atomic_refused(struct test *t, int access, unsigned offset,
                           enum ibv_wc_status status)
{
    struct conn *c = conn_open(t, NULL);
    struct buf *b = buf_new(t, 4096, access | IBV_ACCESS_LOCAL_WRITE);
    struct remote remote;
    struct ibv_wc wc;

    *word(b, 0) = 5;
    ctl_put_buf(t, b);
    remote = ctl_get_buf(t);
    if (t->client) {
        post_atomic(t, c, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, sge_of(b, 512, 8),
                    remote.addr + offset, remote.rkey, 1, 0);
        wc = wait_wc(t, c->send_cq);
        CHECK(t, wc.status == status, "status %s",
              ibv_wc_status_str(wc.status));
    }
    expect_end(t, c);
    ctl_sync(t);
    CHECK(t, *word(b, 0) == 5, "the number changed");
}

static void test_atomic_without_right(struct test *t)
{
    atomic_refused(t, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, 0,
                   IBV_WC_REM_ACCESS_ERR);
}

static void test_atomic_unaligned(struct test *t)
{
    atomic_refused(t, IBV_ACCESS_REMOTE_ATOMIC, 4, IBV_WC_REM_OP_ERR);
}

/* The server's device does not have it (A14) */
static void test_atomic_unsupported(struct test *t)
{
    atomic_refused(t, IBV_ACCESS_REMOTE_WRITE, 0, IBV_WC_REM_INV_REQ_ERR);
}

const struct test_case rfc7306_tests[] = {
    { "atomics", test_atomics },
    { "atomic-sum", test_atomic_sum },
    { "immediate", test_immediate },
    { "wr-api", test_wr_api },
    { "atomic-without-right", test_atomic_without_right },
    { "atomic-unaligned", test_atomic_unaligned },
    { "atomic-unsupported", test_atomic_unsupported },
    {},
};
