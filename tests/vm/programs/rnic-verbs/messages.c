/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sends and receives; completions and their events
 */
#include "verbs-test.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define GUARD 64

/* The receiver's half of one message, scattered over pieces that have guard
 * octets between them */
static void receive_scattered(struct test *t, struct conn *c, struct buf *b,
                              size_t size, unsigned pieces, uint32_t seed)
{
    uint32_t piece[8];
    struct ibv_sge sge[8];
    uint8_t *whole = malloc(size + 1);
    size_t offset = GUARD, done = 0;
    struct ibv_wc wc;
    ssize_t bad;
    unsigned i;

    memset(b->addr, 0xee, b->len);
    split(size, pieces, piece);
    for (i = 0; i < pieces; i++) {
        sge[i] = sge_of(b, offset, piece[i]);
        offset += piece[i] + GUARD;
    }
    post_recv(t, c, size + 7, sge, pieces);
    ctl_sync(t);
    wc = wait_ok(t, c->recv_cq, size + 7, IBV_WC_RECV);
    CHECK(t, wc.byte_len == size, "byte_len %u of a Send of %zu octets",
          wc.byte_len, size);
    CHECK(t, wc.qp_num == c->qp->qp_num, "completion names another QP");
    CHECK(t, !(wc.wc_flags & (IBV_WC_WITH_INV | IBV_WC_WITH_IMM)),
          "wc_flags 0x%x", wc.wc_flags);
    offset = 0;
    for (i = 0; i < pieces; i++) {
        CHECK(t, all_octets(b->addr + offset, GUARD, 0xee),
              "octets before piece %u of a Send of %zu octets changed", i,
              size);
        offset += GUARD;
        memcpy(whole + done, b->addr + offset, piece[i]);
        done += piece[i];
        offset += piece[i];
    }
    CHECK(t, all_octets(b->addr + offset, GUARD, 0xee),
          "octets behind a Send of %zu octets changed", size);
    bad = differs(whole, size, seed);
    free(whole);
    CHECK(t, bad < 0, "octet %zd of a Send of %zu octets is wrong", bad, size);
}

static void send_gathered(struct test *t, struct conn *c, struct buf *b,
                          size_t size, unsigned pieces, uint32_t seed)
{
    uint32_t piece[8];
    struct ibv_sge sge[8];
    size_t offset = 1, done = 0;
    uint8_t *whole = malloc(size + 1);
    unsigned i;

    fill(whole, size, seed);
    split(size, pieces, piece);
    for (i = 0; i < pieces; i++) {
        memcpy(b->addr + offset, whole + done, piece[i]);
        sge[i] = sge_of(b, offset, piece[i]);
        done += piece[i];
        offset += piece[i] + 3;
    }
    free(whole);
    ctl_sync(t);
    post_send(t, c, size + 9, IBV_SEND_SIGNALED, sge, pieces);
    wait_ok(t, c->send_cq, size + 9, IBV_WC_SEND);
}

static void test_send_recv(struct test *t)
{
    static const size_t sizes[] = {
        1, 2, 3, 5, 64, 1023, 1460, 4096, 8191, 65536, 100001, 1 << 20,
    };
    struct conn_opt opt = { .send_sge = 4, .recv_sge = 5 };
    struct conn *c = conn_open(t, &opt);
    struct buf *b = buf_new(t, (1 << 20) + 8 * GUARD, IBV_ACCESS_LOCAL_WRITE);
    unsigned i, way;

    for (way = 0; way < 2; way++) {
        for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
            if (t->client == !way) {
                send_gathered(t, c, b, sizes[i], 1 + i % 4, i + 100 * way);
            } else {
                receive_scattered(t, c, b, sizes[i], 1 + i % 5, i + 100 * way);
            }
        }
    }
}

/* Both ways at once, several times round the rings */
static void test_bidirectional(struct test *t)
{
    enum { ROUNDS = 10, DEPTH = 32, SIZE = 3000 };
    struct conn_opt opt = { .send_wr = DEPTH, .recv_wr = DEPTH };
    struct conn *c = conn_prepare(t, &opt);
    struct buf *in = buf_new(t, DEPTH * SIZE, IBV_ACCESS_LOCAL_WRITE);
    struct buf *out = buf_new(t, DEPTH * SIZE, 0);
    unsigned round, i;

    for (i = 0; i < DEPTH; i++) {
        post_recv_buf(t, c, i, in, i * SIZE, SIZE);
    }
    conn_complete(t, c);
    for (round = 0; round < ROUNDS; round++) {
        ctl_sync(t);
        for (i = 0; i < DEPTH; i++) {
            fill(out->addr + i * SIZE, SIZE, 2 * (round + i) + t->client);
            post_send_buf(t, c, i, IBV_SEND_SIGNALED, out, i * SIZE, SIZE);
        }
        for (i = 0; i < DEPTH; i++) {
            wait_ok(t, c->send_cq, i, IBV_WC_SEND);
        }
        for (i = 0; i < DEPTH; i++) {
            struct ibv_wc wc = wait_ok(t, c->recv_cq, i, IBV_WC_RECV);

            CHECK(t,
                  wc.byte_len == SIZE &&
                      differs(in->addr + i * SIZE, SIZE,
                              2 * (round + i) + !t->client) < 0,
                  "message %u of round %u is wrong", i, round);
            post_recv_buf(t, c, i, in, i * SIZE, SIZE);
        }
    }
}

static void test_inline(struct test *t)
{
    struct conn_opt opt = { .send_sge = 3, .inline_data = 200 };
    struct conn *c = conn_prepare(t, &opt);
    uint32_t limit = c->cap.max_inline_data;
    const uint32_t sizes[] = { 1, 31, 200, limit };
    uint8_t data[1024];
    struct buf *b =
        buf_new(t, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct remote remote;
    unsigned i;

    CHECK(t, limit >= 200 && limit < sizeof(data), "max_inline_data %u", limit);
    for (i = 0; i < 5; i++) {
        post_recv_buf(t, c, i, b, i * 512, 512);
    }
    conn_complete(t, c);
    ctl_put_buf(t, b);
    remote = ctl_get_buf(t);
    if (t->client) {
        struct ibv_sge sge[3];
        struct ibv_send_wr wr = {
            .sg_list = sge,
            .num_sge = 1,
            .opcode = IBV_WR_SEND,
            .send_flags = IBV_SEND_INLINE,
        };

        for (i = 0; i < 4; i++) {
            /* Neither registered nor kept until it is sent */
            uint32_t third = sizes[i] / 3;

            fill(data, sizes[i], i);
            sge[0] = (struct ibv_sge){ (uintptr_t)data, third, 0 };
            sge[1] = (struct ibv_sge){ (uintptr_t)data + third, third, 0 };
            sge[2] = (struct ibv_sge){ (uintptr_t)data + 2 * third,
                                       sizes[i] - 2 * third, 0 };
            post_send(t, c, i, IBV_SEND_INLINE | IBV_SEND_SIGNALED, sge, 3);
            memset(data, 0xdd, sizeof(data));
            wait_ok(t, c->send_cq, i, IBV_WC_SEND);
        }
        fill(data, 100, 77);
        sge[0] = (struct ibv_sge){ (uintptr_t)data, 100, 0 };
        post_rdma(t, c, IBV_WR_RDMA_WRITE, 50,
                  IBV_SEND_INLINE | IBV_SEND_SIGNALED, sge, 1,
                  remote.addr + 3001, remote.rkey);
        memset(data, 0xdd, sizeof(data));
        wait_ok(t, c->send_cq, 50, IBV_WC_RDMA_WRITE);
        sge[0].length = limit + 1;
        CHECK(t, try_send(c, &wr) == EINVAL,
              "inline data that is too long was taken");
        wr.opcode = IBV_WR_RDMA_READ;
        sge[0].length = 8;
        CHECK(t, try_send(c, &wr) == EINVAL, "an inline Read was taken");
        post_send(t, c, 60, IBV_SEND_SIGNALED, NULL, 0);
        wait_ok(t, c->send_cq, 60, IBV_WC_SEND);
    } else {
        for (i = 0; i < 4; i++) {
            struct ibv_wc wc = wait_ok(t, c->recv_cq, i, IBV_WC_RECV);

            CHECK(t, wc.byte_len == sizes[i], "byte_len %u instead of %u",
                  wc.byte_len, sizes[i]);
            CHECK(t, differs(b->addr + i * 512, sizes[i], i) < 0,
                  "inline data of %u octets is wrong", sizes[i]);
        }
        wait_ok(t, c->recv_cq, 4, IBV_WC_RECV);
        CHECK(t, differs(b->addr + 3001, 100, 77) < 0,
              "the data of an inline Write is wrong");
    }
}

static void test_zero_length(struct test *t)
{
    struct conn_opt opt = { .inline_data = 16 };
    struct conn *c = conn_prepare(t, &opt);
    struct buf *b = buf_new(t, 4096,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                IBV_ACCESS_REMOTE_READ);
    struct remote remote;
    struct ibv_sge none;
    struct ibv_wc wc;
    unsigned i;

    memset(b->addr, 0x11, b->len);
    none = sge_of(b, 0, 0);
    post_recv(t, c, 0, NULL, 0);
    for (i = 1; i < 5; i++) {
        post_recv_buf(t, c, i, b, 0, 64);
    }
    conn_complete(t, c);
    ctl_put_buf(t, b);
    remote = ctl_get_buf(t);
    if (t->client) {
        post_send(t, c, 0, IBV_SEND_SIGNALED, NULL, 0);
        post_send(t, c, 1, IBV_SEND_SIGNALED, &none, 1);
        post_send(t, c, 2, IBV_SEND_SIGNALED | IBV_SEND_INLINE, NULL, 0);
        post_send(t, c, 3, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED, NULL, 0);
        for (i = 0; i < 4; i++) {
            wait_ok(t, c->send_cq, i, IBV_WC_SEND);
        }
        post_rdma(t, c, IBV_WR_RDMA_WRITE, 10, IBV_SEND_SIGNALED, NULL, 0,
                  remote.addr, remote.rkey);
        post_rdma(t, c, IBV_WR_RDMA_WRITE, 11, IBV_SEND_SIGNALED, &none, 1,
                  remote.addr, remote.rkey);
        wait_ok(t, c->send_cq, 10, IBV_WC_RDMA_WRITE);
        wait_ok(t, c->send_cq, 11, IBV_WC_RDMA_WRITE);
        post_rdma(t, c, IBV_WR_RDMA_READ, 20, IBV_SEND_SIGNALED, &none, 1,
                  remote.addr, remote.rkey);
        wc = wait_ok(t, c->send_cq, 20, IBV_WC_RDMA_READ);
        CHECK(t, wc.byte_len == 0, "byte_len %u of an empty Read", wc.byte_len);
        post_rdma(t, c, IBV_WR_RDMA_READ, 21, IBV_SEND_SIGNALED, NULL, 0,
                  remote.addr, remote.rkey);
        wait_ok(t, c->send_cq, 21, IBV_WC_RDMA_READ);
        post_send(t, c, 30, IBV_SEND_SIGNALED, NULL, 0);
        wait_ok(t, c->send_cq, 30, IBV_WC_SEND);
    } else {
        for (i = 0; i < 5; i++) {
            wc = wait_ok(t, c->recv_cq, i, IBV_WC_RECV);
            CHECK(t, wc.byte_len == 0, "byte_len %u of an empty Send",
                  wc.byte_len);
        }
    }
    CHECK(t, all_octets(b->addr, b->len, 0x11),
          "an empty message changed memory");
}

static void test_unsignalled(struct test *t)
{
    enum { COUNT = 240, EVERY = 8, SIZE = 40 };
    struct conn_opt opt = { .send_wr = 16, .recv_wr = COUNT };
    struct conn *c = conn_prepare(t, &opt);
    struct buf *b = buf_new(t, COUNT * SIZE, IBV_ACCESS_LOCAL_WRITE);
    unsigned i, room;

    if (t->client) {
        conn_complete(t, c);
        room = c->cap.max_send_wr;
        ctl_sync(t);
        for (i = 0; i < COUNT; i++) {
            bool signal = i % EVERY == EVERY - 1;

            fill(b->addr + i * SIZE, SIZE, i);
            post_send_buf(t, c, i, signal ? IBV_SEND_SIGNALED : 0, b, i * SIZE,
                          SIZE);
            room--;
            if (signal && room < EVERY) {
                /* The oldest signalled one frees those before it too */
                struct ibv_wc wc = wait_wc(t, c->send_cq);

                CHECK(t,
                      wc.status == IBV_WC_SUCCESS &&
                          wc.wr_id % EVERY == EVERY - 1,
                      "completion of an unsignalled request");
                room += EVERY;
            }
        }
        while (room < c->cap.max_send_wr) {
            wait_wc(t, c->send_cq);
            room += EVERY;
        }
        expect_no_wc(t, c->send_cq, 200);
    } else {
        for (i = 0; i < COUNT; i++) {
            post_recv_buf(t, c, i, b, i * SIZE, SIZE);
        }
        conn_complete(t, c);
        ctl_sync(t);
        for (i = 0; i < COUNT; i++) {
            wait_ok(t, c->recv_cq, i, IBV_WC_RECV);
            CHECK(t, differs(b->addr + i * SIZE, SIZE, i) < 0,
                  "message %u is wrong", i);
        }
    }
}

static void test_signal_all(struct test *t)
{
    struct conn_opt opt = { .sig_all = true };
    struct conn *c = conn_prepare(t, &opt);
    unsigned i;

    for (i = 0; i < 4; i++) {
        post_recv(t, c, i, NULL, 0);
    }
    conn_complete(t, c);
    ctl_sync(t);
    for (i = 0; i < 4; i++) {
        post_send(t, c, i, 0, NULL, 0);
    }
    for (i = 0; i < 4; i++) {
        wait_ok(t, c->send_cq, i, IBV_WC_SEND);
        wait_ok(t, c->recv_cq, i, IBV_WC_RECV);
    }
}

static void arm(struct test *t, struct cq *cq, int solicited_only)
{
    CHECK(t, !ibv_req_notify_cq(cq->cq, solicited_only), "ibv_req_notify_cq");
}

static unsigned poll_all(struct test *t, struct cq *cq, unsigned want)
{
    int64_t end = now_ms() + timeout_ms;
    unsigned n = 0;

    while (n < want && now_ms() < end) {
        struct ibv_wc wc;
        int rc = ibv_poll_cq(cq->cq, 1, &wc);

        CHECK(t, rc >= 0, "ibv_poll_cq failed");
        CHECK(t, !rc || wc.status == IBV_WC_SUCCESS, "completion: %s",
              ibv_wc_status_str(wc.status));
        n += rc;
        if (!rc) {
            sleep_ms(2);
        }
    }
    return n;
}

static void test_solicited(struct test *t)
{
    struct conn *c = conn_prepare(t, NULL);
    unsigned i;

    for (i = 0; i < 8; i++) {
        post_recv(t, c, i, NULL, 0);
    }
    conn_complete(t, c);
    if (t->client) {
        ctl_sync(t);
        for (i = 0; i < 3; i++) {
            post_send(t, c, i, IBV_SEND_SIGNALED, NULL, 0);
            wait_ok(t, c->send_cq, i, IBV_WC_SEND);
        }
        ctl_sync(t);
        post_send(t, c, 3, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED, NULL, 0);
        wait_ok(t, c->send_cq, 3, IBV_WC_SEND);
        ctl_sync(t);
        conn_disconnect(t, c);
    } else {
        arm(t, c->recv_cq, 1);
        ctl_sync(t);
        CHECK(t, !got_cq_event(t, c->recv_cq, 700),
              "an event for a Send that was not solicited");
        CHECK(t, poll_all(t, c->recv_cq, 3) == 3, "3 Sends did not arrive");
        ctl_sync(t);
        CHECK(t, got_cq_event(t, c->recv_cq, timeout_ms),
              "no event for a solicited Send");
        CHECK(t, poll_all(t, c->recv_cq, 1) == 1, "the event came too early");
        arm(t, c->recv_cq, 1);
        ctl_sync(t);
        CHECK(t, got_cq_event(t, c->recv_cq, timeout_ms),
              "no event for a completion in error");
    }
}

static void test_cq_event(struct test *t)
{
    struct conn *c = conn_prepare(t, NULL);
    unsigned i;

    for (i = 0; i < 8; i++) {
        post_recv(t, c, i, NULL, 0);
    }
    conn_complete(t, c);
    if (t->client) {
        ctl_sync(t);
        for (i = 0; i < 5; i++) {
            post_send(t, c, i, IBV_SEND_SIGNALED, NULL, 0);
            wait_ok(t, c->send_cq, i, IBV_WC_SEND);
        }
    } else {
        arm(t, c->recv_cq, 0);
        ctl_sync(t);
        CHECK(t, got_cq_event(t, c->recv_cq, timeout_ms), "no event");
        CHECK(t, poll_all(t, c->recv_cq, 5) == 5, "5 Sends did not arrive");
        CHECK(t, !got_cq_event(t, c->recv_cq, 300),
              "a second event for one arming");
    }
    ctl_sync(t);
    /* Polling makes no events */
    if (t->client) {
        ctl_sync(t);
        post_send(t, c, 5, IBV_SEND_SIGNALED, NULL, 0);
        wait_ok(t, c->send_cq, 5, IBV_WC_SEND);
    } else {
        ctl_sync(t);
        CHECK(t, poll_all(t, c->recv_cq, 1) == 1, "no Send arrived");
        CHECK(t, !got_cq_event(t, c->recv_cq, 300),
              "an event of a CQ that is not armed");
    }
}

static void test_cq_ex(struct test *t)
{
    struct conn_opt opt = {};
    struct ibv_poll_cq_attr attr = {};
    struct ibv_cq_init_attr_ex init = {
        .cqe = 32,
        .wc_flags = IBV_WC_STANDARD_FLAGS,
    };
    struct conn *c = conn_prepare(t, NULL);
    struct cq *cq = calloc(1, sizeof(*cq));
    struct ibv_cq_ex *ex;
    int64_t end = now_ms() + timeout_ms;
    unsigned i, got = 0;
    int err;

    CHECK(t, cq, "no memory");
    t->cqs[t->cq_count++] = cq;
    ex = ibv_create_cq_ex(t->verbs, &init);
    CHECK(t, ex, "ibv_create_cq_ex: %s", strerror(errno));
    cq->cq = ibv_cq_ex_to_cq(ex);
    conn_complete(t, c);
    opt.recv_cq = cq;
    c = conn_prepare(t, &opt);
    for (i = 0; i < 10; i++) {
        post_recv(t, c, 100 + i, NULL, 0);
    }
    conn_complete(t, c);
    ctl_sync(t);
    for (i = 0; i < 10; i++) {
        post_send(t, c, i, IBV_SEND_SIGNALED, NULL, 0);
        wait_ok(t, c->send_cq, i, IBV_WC_SEND);
    }
    while (got < 10) {
        CHECK(t, now_ms() < end, "%u of 10 completions", got);
        err = ibv_start_poll(ex, &attr);
        if (err) {
            CHECK(t, err == ENOENT, "ibv_start_poll: %s", strerror(err));
            sleep_ms(2);
            continue;
        }
        do {
            CHECK(t,
                  ex->status == IBV_WC_SUCCESS && ex->wr_id == 100 + got &&
                      ibv_wc_read_opcode(ex) == IBV_WC_RECV &&
                      ibv_wc_read_qp_num(ex) == c->qp->qp_num &&
                      ibv_wc_read_byte_len(ex) == 0 &&
                      !(ibv_wc_read_wc_flags(ex) & IBV_WC_WITH_INV) &&
                      ibv_wc_read_vendor_err(ex) == 0,
                  "completion %u is wrong", got);
            got++;
        } while (!(err = ibv_next_poll(ex)));
        ibv_end_poll(ex);
        CHECK(t, err == ENOENT, "ibv_next_poll: %s", strerror(err));
    }
}

/*
 * Posting and polling in a thread whose system calls are all caught: there
 * must be none.
 */
enum { QUIET_ROUNDS = 40, QUIET_SIZE = 64 };

struct quiet {
    struct conn *c;
    struct ibv_sge in, out;
    const char *why;
};

static atomic_int caught; /* the number of a system call, or 0 */

static void on_system_call(int sig, siginfo_t *info, void *context)
{
    int none = 0;

    (void)sig;
    (void)context;
    atomic_compare_exchange_strong(&caught, &none,
                                   info->si_syscall ? info->si_syscall : -1);
}

static bool poll_quietly(struct cq *cq)
{
    struct ibv_wc wc;
    unsigned long spins;

    /* No clock: reading it may be a system call */
    for (spins = 0; spins < 1ul << 30 && !atomic_load(&caught); spins++) {
        int n = ibv_poll_cq(cq->cq, 1, &wc);

        if (n) {
            return n == 1 && wc.status == IBV_WC_SUCCESS;
        }
    }
    return false;
}

static void *quiet_thread(void *opaque)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {
        .len = sizeof(filter) / sizeof(*filter),
        .filter = filter,
    };
    struct quiet *q = opaque;
    struct ibv_recv_wr recv = { .sg_list = &q->in, .num_sge = 1 }, *bad_recv;
    struct ibv_send_wr send = {
        .sg_list = &q->out,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
    };
    unsigned i;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        q->why = "seccomp is not available";
        return NULL;
    }
    for (i = 0; i < QUIET_ROUNDS && !q->why; i++) {
        if (ibv_post_recv(q->c->qp, &recv, &bad_recv) ||
            try_send(q->c, &send)) {
            q->why = "posting failed";
        } else if (!poll_quietly(q->c->send_cq) ||
                   !poll_quietly(q->c->recv_cq)) {
            q->why = "no completion";
        }
        if (atomic_load(&caught)) {
            q->why = "a system call";
        }
    }
    return NULL;
}

static void test_no_system_calls(struct test *t)
{
    struct sigaction action = {
        .sa_sigaction = on_system_call,
        .sa_flags = SA_SIGINFO,
    };
    struct conn *c = conn_prepare(t, NULL);
    struct buf *b = buf_new(t, 2 * QUIET_SIZE, IBV_ACCESS_LOCAL_WRITE);
    struct quiet q = {
        .c = c,
        .in = sge_of(b, 0, QUIET_SIZE),
        .out = sge_of(b, QUIET_SIZE, QUIET_SIZE),
    };
    pthread_t thread;
    int number;

    /* One receive in advance: the peer may be a round ahead */
    post_recv(t, c, 0, &q.in, 1);
    conn_complete(t, c);
    ctl_sync(t);
    CHECK(t, !sigaction(SIGSYS, &action, NULL), "sigaction");
    atomic_store(&caught, 0);
    CHECK(t, !pthread_create(&thread, NULL, quiet_thread, &q),
          "pthread_create");
    pthread_join(thread, NULL);
    number = atomic_load(&caught);
    signal(SIGSYS, SIG_DFL);
    CHECK(t, !q.why, "%s (system call %d)", q.why, number);
}

const struct test_case message_tests[] = {
    { "send-recv", test_send_recv },
    { "bidirectional", test_bidirectional },
    { "inline", test_inline },
    { "zero-length", test_zero_length },
    { "unsignalled", test_unsignalled },
    { "signal-all", test_signal_all },
    { "solicited", test_solicited },
    { "cq-event", test_cq_event },
    { "cq-ex", test_cq_ex },
    { "no-system-calls", test_no_system_calls },
    {},
};
