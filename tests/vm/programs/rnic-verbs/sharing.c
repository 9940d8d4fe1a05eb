/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Several QPs on one CQ or SRQ, several threads, and fork
 */
#include "verbs-test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static void srq_post(struct test *t, struct ibv_srq *srq, struct buf *b,
                     unsigned slot, uint32_t size)
{
    struct ibv_sge sge = sge_of(b, slot * size, size);
    struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 };
    struct ibv_recv_wr *bad;
    int err = ibv_post_srq_recv(srq, &wr, &bad);

    CHECK(t, !err, "ibv_post_srq_recv: %s", strerror(err));
}

/* Three connections draw from one SRQ, several times round its ring */
static void test_srq(struct test *t)
{
    enum { QPS = 3, SLOTS = 32, ROUNDS = 5, SIZE = 500, EACH = 9 };
    struct conn *c[QPS], *first = conn_open(t, NULL);
    struct ibv_srq_attr attr;
    struct conn_opt opt = {};
    struct buf *b = buf_new(t, SLOTS * SIZE, IBV_ACCESS_LOCAL_WRITE);
    unsigned i, k, round, from[QPS];
    int err;

    (void)first;
    if (!t->client) {
        opt.srq = srq_new(t, SLOTS, 1);
        opt.recv_cq = cq_new(t, t->verbs, 4 * SLOTS);
        for (i = 0; i < SLOTS; i++) {
            srq_post(t, opt.srq, b, i, SIZE);
        }
        err = ibv_query_srq(opt.srq, &attr);
        CHECK(t, !err && attr.max_wr >= SLOTS && attr.srq_limit == 0,
              "ibv_query_srq: %s, max_wr %u", strerror(err), attr.max_wr);
    }
    for (k = 0; k < QPS; k++) {
        c[k] = conn_open(t, &opt);
    }
    for (round = 0; round < ROUNDS; round++) {
        ctl_sync(t);
        if (t->client) {
            for (i = 0; i < EACH * QPS; i++) {
                fill(b->addr + i * SIZE, SIZE, round + i);
                post_send_buf(t, c[i % QPS], i, IBV_SEND_SIGNALED, b, i * SIZE,
                              SIZE);
            }
            for (i = 0; i < EACH * QPS; i++) {
                wait_ok(t, c[i % QPS]->send_cq, i, IBV_WC_SEND);
            }
            continue;
        }
        memset(from, 0, sizeof(from));
        for (i = 0; i < EACH * QPS; i++) {
            struct ibv_wc wc = wait_wc(t, opt.recv_cq);
            unsigned message;

            CHECK(t,
                  wc.status == IBV_WC_SUCCESS && wc.wr_id < SLOTS &&
                      wc.byte_len == SIZE,
                  "completion of slot %llu: %s", (unsigned long long)wc.wr_id,
                  ibv_wc_status_str(wc.status));
            for (k = 0; k < QPS && c[k]->qp->qp_num != wc.qp_num; k++) {
            }
            CHECK(t, k < QPS, "completion of an unknown QP");
            /* Of one QP messages come in order, whatever slots they take */
            message = from[k]++ * QPS + k;
            CHECK(t,
                  differs(b->addr + wc.wr_id * SIZE, SIZE, round + message) < 0,
                  "message %u of round %u is wrong", message, round);
            srq_post(t, opt.srq, b, wc.wr_id, SIZE);
        }
    }
    /* The limit event comes once, when fewer than the limit are left */
    if (!t->client) {
        attr.srq_limit = SLOTS - 2;
        err = ibv_modify_srq(opt.srq, &attr, IBV_SRQ_LIMIT);
        CHECK(t, !err, "ibv_modify_srq: %s", strerror(err));
    }
    ctl_sync(t);
    if (t->client) {
        for (i = 0; i < 3; i++) {
            post_send_buf(t, c[i], i, IBV_SEND_SIGNALED, b, 0, SIZE);
            wait_ok(t, c[i]->send_cq, i, IBV_WC_SEND);
        }
    } else {
        wait_async(t, IBV_EVENT_SRQ_LIMIT_REACHED, opt.srq);
    }
}

/* Many QPs on one CQ; half of them go while completions of theirs are in it */
static void test_many_qps(struct test *t)
{
    enum { QPS = 20 };
    struct conn *c[QPS], *first = conn_open(t, NULL);
    struct conn_opt opt = { .send_wr = 8, .recv_wr = 8 };
    uint32_t gone[QPS] = {};
    unsigned i, n, k;
    int64_t end;

    (void)first;
    opt.recv_cq = cq_new(t, t->verbs, 256);
    opt.send_cq = t->client ? opt.recv_cq : cq_new(t, t->verbs, 256);
    for (i = 0; i < QPS; i++) {
        c[i] = conn_prepare(t, &opt);
        for (n = 0; n < 4; n++) {
            post_recv(t, c[i], i, NULL, 0);
        }
        conn_complete(t, c[i]);
    }
    ctl_sync(t);
    for (i = 0; i < QPS; i++) {
        for (n = 0; n < 3; n++) {
            post_send(t, c[i], i, IBV_SEND_SIGNALED, NULL, 0);
        }
    }
    if (!t->client) {
        for (i = 0; i < 3 * QPS; i++) {
            struct ibv_wc wc = wait_wc(t, opt.recv_cq);

            CHECK(t,
                  wc.status == IBV_WC_SUCCESS && wc.wr_id < QPS &&
                      wc.qp_num == c[wc.wr_id]->qp->qp_num,
                  "a completion is wrong");
        }
        ctl_sync(t);
        ctl_sync(t);
        return;
    }
    /* All 6 completions of each are in the CQ by then, or still come */
    ctl_sync(t);
    sleep_ms(300);
    for (i = 0; i < QPS; i += 2) {
        gone[i] = c[i]->qp->qp_num;
        conn_destroy_qp(c[i]);
    }
    end = now_ms() + timeout_ms;
    for (n = 0; n < 6 * QPS / 2;) {
        struct ibv_wc wc;

        CHECK(t, now_ms() < end, "%u completions of those that stayed", n);
        if (ibv_poll_cq(opt.recv_cq->cq, 1, &wc) != 1) {
            sleep_ms(2);
            continue;
        }
        for (k = 0; k < QPS; k += 2) {
            CHECK(t, wc.qp_num != gone[k],
                  "a completion of a QP that was destroyed");
        }
        CHECK(t,
              wc.status == IBV_WC_SUCCESS && wc.wr_id % 2 == 1 &&
                  wc.qp_num == c[wc.wr_id]->qp->qp_num,
              "a completion is wrong");
        n++;
    }
    /* Those that stayed still work */
    for (i = 1; i < QPS; i += 2) {
        post_send(t, c[i], i, IBV_SEND_SIGNALED, NULL, 0);
    }
    for (i = 1; i < QPS; i += 2) {
        struct ibv_wc wc = wait_wc(t, opt.recv_cq);

        CHECK(t, wc.status == IBV_WC_SUCCESS && wc.wr_id % 2 == 1,
              "a completion is wrong");
    }
    ctl_sync(t);
}

/*
 * Threads: POSTERS threads share the first QP, each other QP has one; on each
 * side POLLERS threads poll the one CQ of all.
 */
enum {
    QPS = 3,
    POSTERS = 3,
    POLLERS = 2,
    EACH = 400,
    SIZE = 48,
    STREAMS = POSTERS + QPS - 1,
    TOTAL = STREAMS * EACH
};

struct shared {
    struct test *t;
    struct conn *c[QPS];
    struct cq *cq;
    struct buf *b;
    atomic_uint done;
    atomic_uchar seen[TOTAL];
    _Atomic(const char *) why;
};

struct poster {
    struct shared *shared;
    unsigned stream;
};

/* Each stream is what one thread sends; those below POSTERS share QP 0 */
static unsigned stream_qp(unsigned stream)
{
    return stream < POSTERS ? 0 : stream - POSTERS + 1;
}

static void *poster_thread(void *opaque)
{
    struct poster *poster = opaque;
    struct shared *s = poster->shared;
    struct conn *c = s->c[stream_qp(poster->stream)];
    unsigned i;
    int err;

    for (i = 0; i < EACH && !atomic_load(&s->why); i++) {
        unsigned message = poster->stream * EACH + i;
        struct ibv_sge sge = sge_of(s->b, message * SIZE, SIZE);
        struct ibv_send_wr wr = {
            .wr_id = message,
            .sg_list = &sge,
            .num_sge = 1,
            .opcode = IBV_WR_SEND,
            .send_flags = IBV_SEND_SIGNALED,
        };

        while ((err = try_send(c, &wr)) == ENOMEM && !atomic_load(&s->why)) {
            sched_yield();
        }
        if (err) {
            atomic_store(&s->why, "ibv_post_send failed");
        }
    }
    return NULL;
}

static void *poller_thread(void *opaque)
{
    struct shared *s = opaque;
    int64_t end = now_ms() + 2 * timeout_ms;
    struct ibv_wc wc[8];
    int n, i;

    while (atomic_load(&s->done) < TOTAL && !atomic_load(&s->why)) {
        n = ibv_poll_cq(s->cq->cq, 8, wc);
        for (i = 0; i < n; i++) {
            uint64_t message = wc[i].wr_id;

            if (wc[i].status != IBV_WC_SUCCESS) {
                atomic_store(&s->why, "a completion in error");
                break;
            }
            if (!s->t->client) {
                /* The message says which it is; the slot may be any */
                uint8_t *data = s->b->addr + message * SIZE;

                memcpy(&message, data, sizeof(message));
                if (message < TOTAL &&
                    differs(data + 8, SIZE - 8, message) >= 0) {
                    message = TOTAL;
                }
            }
            if (message >= TOTAL ||
                wc[i].qp_num != s->c[stream_qp(message / EACH)]->qp->qp_num) {
                atomic_store(&s->why, "a completion is wrong");
                break;
            }
            if (atomic_fetch_add(&s->seen[message], 1)) {
                atomic_store(&s->why, "a message completed twice");
            }
            atomic_fetch_add(&s->done, 1);
        }
        if (n < 0 || now_ms() > end) {
            atomic_store(&s->why, "completions are missing");
        }
        if (!n) {
            sched_yield();
        }
    }
    return NULL;
}

static void test_threads(struct test *t)
{
    static struct shared s;
    static struct poster posters[STREAMS];
    struct conn *first = conn_open(t, NULL);
    struct conn_opt opt = { .send_wr = 32, .recv_wr = POSTERS * EACH };
    pthread_t threads[POLLERS + STREAMS];
    unsigned i, k, slot = 0, count = 0;
    const char *why;

    (void)first;
    memset(&s, 0, sizeof(s));
    s.t = t;
    s.b = buf_new(t, TOTAL * SIZE, IBV_ACCESS_LOCAL_WRITE);
    s.cq = cq_new(t, t->verbs, 2 * TOTAL);
    opt.send_cq = opt.recv_cq = s.cq;
    for (k = 0; k < QPS; k++) {
        s.c[k] = conn_prepare(t, &opt);
        for (i = 0; !t->client && i < (k ? 1 : POSTERS) * EACH; i++) {
            post_recv_buf(t, s.c[k], slot, s.b, slot * SIZE, SIZE);
            slot++;
        }
        conn_complete(t, s.c[k]);
    }
    for (i = 0; t->client && i < TOTAL; i++) {
        uint64_t message = i;

        memcpy(s.b->addr + i * SIZE, &message, sizeof(message));
        fill(s.b->addr + i * SIZE + 8, SIZE - 8, i);
    }
    ctl_sync(t);
    for (i = 0; i < POLLERS; i++) {
        CHECK(t, !pthread_create(&threads[count++], NULL, poller_thread, &s),
              "pthread_create");
    }
    for (i = 0; t->client && i < STREAMS; i++) {
        posters[i].shared = &s;
        posters[i].stream = i;
        CHECK(t,
              !pthread_create(&threads[count++], NULL, poster_thread,
                              &posters[i]),
              "pthread_create");
    }
    for (i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    why = atomic_load(&s.why);
    CHECK(t, !why, "%s (%u of %u)", why, atomic_load(&s.done), TOTAL);
}

static void exchange(struct test *t, struct conn *c, struct buf *b,
                     uint32_t seed)
{
    if (t->client) {
        fill(b->addr, 4096, seed);
        ctl_sync(t);
        post_send_buf(t, c, seed, IBV_SEND_SIGNALED, b, 0, 4096);
        wait_ok(t, c->send_cq, seed, IBV_WC_SEND);
    } else {
        post_recv_buf(t, c, seed, b, 0, 4096);
        ctl_sync(t);
        wait_ok(t, c->recv_cq, seed, IBV_WC_RECV);
        CHECK(t, differs(b->addr, 4096, seed) < 0, "message %u is wrong", seed);
    }
}

/* A child that lives and writes to all that it has must not part the parent
 * from the pages that the device knows */
static void test_fork(struct test *t)
{
    struct conn *c = conn_open(t, NULL);
    struct buf *b = buf_new(t, 4096, IBV_ACCESS_LOCAL_WRITE);
    int to_child[2], to_parent[2], status;
    uint32_t i;
    char octet = 0;
    pid_t child;

    exchange(t, c, b, 1);
    CHECK(t, !pipe(to_child) && !pipe(to_parent), "pipe: %s", strerror(errno));
    child = fork();
    CHECK(t, child >= 0, "fork: %s", strerror(errno));
    if (!child) {
        close(to_child[1]);
        /* What the child may not see at all it does not touch: then this
         * write ends it, which is as good */
        signal(SIGSEGV, SIG_DFL);
        memset(b->addr, 0xcc, b->len);
        if (write(to_parent[1], &octet, 1) != 1 ||
            read(to_child[0], &octet, 1) < 0) {
            _exit(1);
        }
        _exit(0);
    }
    close(to_parent[1]);
    /* Returns when the child has written or is dead */
    if (read(to_parent[0], &octet, 1) < 0) {
        fail(t, "read: %s", strerror(errno));
    }
    for (i = 2; i < 40; i++) {
        exchange(t, c, b, i);
    }
    close(to_child[0]);
    close(to_child[1]);
    close(to_parent[0]);
    CHECK(t, waitpid(child, &status, 0) == child, "waitpid: %s",
          strerror(errno));
    CHECK(t, !status || (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV),
          "the child's status is 0x%x", status);
    exchange(t, c, b, 100);
}

const struct test_case sharing_tests[] = {
    { "srq", test_srq },
    { "many-qps", test_many_qps },
    { "threads", test_threads },
    { "fork", test_fork },
    {},
};
