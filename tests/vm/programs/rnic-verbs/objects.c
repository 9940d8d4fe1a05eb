/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CQs, SRQs, memory regions; posting, and waiting for what comes of it
 */
#include "verbs-test.h"

#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000ll + ts.tv_nsec / 1000000;
}

void sleep_ms(int ms)
{
    struct timespec ts = { ms / 1000, ms % 1000 * 1000000l };

    nanosleep(&ts, NULL);
}

struct cq *cq_new(struct test *t, struct ibv_context *verbs, int cqe)
{
    struct cq *cq = calloc(1, sizeof(*cq));

    CHECK(t, cq && t->cq_count < MAX_OBJECTS, "too many CQs");
    t->cqs[t->cq_count++] = cq;
    cq->channel = ibv_create_comp_channel(verbs);
    CHECK(t, cq->channel, "ibv_create_comp_channel: %s", strerror(errno));
    cq->cq = ibv_create_cq(verbs, cqe, NULL, cq->channel, 0);
    CHECK(t, cq->cq, "ibv_create_cq: %s", strerror(errno));
    CHECK(t, cq->cq->cqe >= cqe, "the CQ holds less than was asked for");
    return cq;
}

struct cq *cq_new_ex(struct test *t, struct ibv_context *verbs, int cqe)
{
    struct cq *cq = calloc(1, sizeof(*cq));
    struct ibv_cq_init_attr_ex attr = {
        .cqe = cqe,
        .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM,
    };

    CHECK(t, cq && t->cq_count < MAX_OBJECTS, "too many CQs");
    t->cqs[t->cq_count++] = cq;
    cq->ex = ibv_create_cq_ex(verbs, &attr);
    CHECK(t, cq->ex, "ibv_create_cq_ex: %s", strerror(errno));
    cq->cq = ibv_cq_ex_to_cq(cq->ex);
    return cq;
}

struct ibv_srq *srq_new(struct test *t, uint32_t max_wr, uint32_t max_sge)
{
    struct ibv_srq_init_attr attr = {
        .attr = { .max_wr = max_wr, .max_sge = max_sge },
    };
    struct ibv_srq *srq;

    CHECK(t, t->srq_count < MAX_OBJECTS, "too many SRQs");
    srq = ibv_create_srq(t->pd, &attr);
    CHECK(t, srq, "ibv_create_srq: %s", strerror(errno));
    t->srqs[t->srq_count++] = srq;
    CHECK(t, attr.attr.max_wr >= max_wr && attr.attr.max_sge >= max_sge,
          "the SRQ holds less than was asked for");
    return srq;
}

struct buf *buf_new(struct test *t, size_t len, int access)
{
    size_t page = sysconf(_SC_PAGESIZE);
    struct buf *b = calloc(1, sizeof(*b));

    CHECK(t, b && t->buf_count < MAX_OBJECTS, "too many buffers");
    t->bufs[t->buf_count++] = b;
    b->len = len;
    /* Whole pages, so that nothing else shares them after a fork */
    len = (len + page - 1) / page * page;
    b->addr = aligned_alloc(page, len);
    CHECK(t, b->addr, "no memory for %zu octets", len);
    memset(b->addr, 0, len);
    b->mr = ibv_reg_mr(t->pd, b->addr, b->len, access);
    CHECK(t, b->mr, "ibv_reg_mr of %zu octets: %s", b->len, strerror(errno));
    return b;
}

static uint8_t octet(size_t i, uint32_t seed)
{
    return i * 7 + (i >> 8) * 13 + (i >> 16) * 29 + seed * 31;
}

void fill(void *p, size_t len, uint32_t seed)
{
    uint8_t *octets = p;
    size_t i;

    for (i = 0; i < len; i++) {
        octets[i] = octet(i, seed);
    }
}

ssize_t differs(const void *p, size_t len, uint32_t seed)
{
    const uint8_t *octets = p;
    size_t i;

    for (i = 0; i < len; i++) {
        if (octets[i] != octet(i, seed)) {
            return i;
        }
    }
    return -1;
}

bool all_octets(const void *p, size_t len, uint8_t value)
{
    const uint8_t *octets = p;

    while (len && *octets == value) {
        octets++;
        len--;
    }
    return !len;
}

void split(size_t len, unsigned n, uint32_t piece[])
{
    unsigned i;

    for (i = 0; i + 1 < n; i++) {
        piece[i] = len / (n - i + 1);
        len -= piece[i];
    }
    piece[n - 1] = len;
}

struct ibv_sge sge_of(const struct buf *b, size_t offset, uint32_t len)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)b->addr + offset,
        .length = len,
        .lkey = b->mr->lkey,
    };

    return sge;
}

/* Returns how many are left */
static int leave_out_empty(struct ibv_sge *sge, int n)
{
    int i, left = 0;

    if (!beside_siw) {
        return n;
    }
    for (i = 0; i < n; i++) {
        if (sge[i].length) {
            sge[left++] = sge[i];
        }
    }
    return left;
}

void post_recv(struct test *t, struct conn *c, uint64_t wr_id,
               struct ibv_sge *sge, int n)
{
    struct ibv_recv_wr wr = {
        .wr_id = wr_id,
        .sg_list = sge,
        .num_sge = leave_out_empty(sge, n),
    };
    struct ibv_recv_wr *bad;
    struct ibv_sge spare;
    int err;

    if (beside_siw && !wr.num_sge) {
        t->spare = t->spare ? t->spare : buf_new(t, 1, IBV_ACCESS_LOCAL_WRITE);
        spare = sge_of(t->spare, 0, 1);
        wr.sg_list = &spare;
        wr.num_sge = 1;
    }
    err = ibv_post_recv(c->qp, &wr, &bad);
    CHECK(t, !err, "ibv_post_recv: %s", strerror(err));
}

void post_recv_buf(struct test *t, struct conn *c, uint64_t wr_id,
                   struct buf *b, size_t offset, uint32_t len)
{
    struct ibv_sge sge = sge_of(b, offset, len);

    post_recv(t, c, wr_id, &sge, 1);
}

int try_send(struct conn *c, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad = NULL;

    return ibv_post_send(c->qp, wr, &bad);
}

void post_send(struct test *t, struct conn *c, uint64_t wr_id, int flags,
               struct ibv_sge *sge, int n)
{
    post_rdma(t, c, IBV_WR_SEND, wr_id, flags, sge, n, 0, 0);
}

void post_send_buf(struct test *t, struct conn *c, uint64_t wr_id, int flags,
                   struct buf *b, size_t offset, uint32_t len)
{
    struct ibv_sge sge = sge_of(b, offset, len);

    post_send(t, c, wr_id, flags, &sge, 1);
}

void post_rdma(struct test *t, struct conn *c, enum ibv_wr_opcode opcode,
               uint64_t wr_id, int flags, struct ibv_sge *sge, int n,
               uint64_t addr, uint32_t rkey)
{
    struct ibv_send_wr wr = {
        .wr_id = wr_id,
        .sg_list = sge,
        .num_sge = leave_out_empty(sge, n),
        .opcode = opcode,
        .send_flags = flags,
        .wr.rdma = { .remote_addr = addr, .rkey = rkey },
    };
    int err = try_send(c, &wr);

    CHECK(t, !err, "ibv_post_send: %s", strerror(err));
}

bool got_cq_event(struct test *t, struct cq *cq, int ms)
{
    struct pollfd pfd = { .fd = cq->channel->fd, .events = POLLIN };
    struct ibv_cq *which;
    void *context;

    if (poll(&pfd, 1, ms) != 1) {
        return false;
    }
    CHECK(t, !ibv_get_cq_event(cq->channel, &which, &context),
          "ibv_get_cq_event: %s", strerror(errno));
    CHECK(t, which == cq->cq, "an event of another CQ");
    ibv_ack_cq_events(which, 1);
    return true;
}

/* False: none in time */
static bool poll_wc(struct test *t, struct cq *cq, int ms, struct ibv_wc *wc)
{
    int64_t end = now_ms() + ms;
    int n;

    for (;;) {
        n = ibv_poll_cq(cq->cq, 1, wc);
        if (!n) {
            CHECK(t, !ibv_req_notify_cq(cq->cq, 0), "ibv_req_notify_cq");
            n = ibv_poll_cq(cq->cq, 1, wc);
        }
        CHECK(t, n >= 0, "ibv_poll_cq failed");
        if (n) {
            return true;
        }
        if (now_ms() >= end || !got_cq_event(t, cq, end - now_ms())) {
            /* The event must not be what is missing */
            if (ibv_poll_cq(cq->cq, 1, wc) == 1) {
                fail(t, "a completion came without its event");
            }
            return false;
        }
    }
}

struct ibv_wc wait_wc_ms(struct test *t, struct cq *cq, int ms)
{
    struct ibv_wc wc;

    CHECK(t, poll_wc(t, cq, ms, &wc), "no completion");
    return wc;
}

struct ibv_wc wait_wc(struct test *t, struct cq *cq)
{
    return wait_wc_ms(t, cq, timeout_ms);
}

struct ibv_wc wait_ok(struct test *t, struct cq *cq, uint64_t wr_id,
                      enum ibv_wc_opcode opcode)
{
    struct ibv_wc wc = wait_wc(t, cq);

    CHECK(t, wc.status == IBV_WC_SUCCESS,
          "completion of %llu instead of %llu: %s (vendor_err 0x%x)",
          (unsigned long long)wc.wr_id, (unsigned long long)wr_id,
          ibv_wc_status_str(wc.status), wc.vendor_err);
    CHECK(t, wc.wr_id == wr_id, "completion of wr_id %llu instead of %llu",
          (unsigned long long)wc.wr_id, (unsigned long long)wr_id);
    CHECK(t, wc.opcode == opcode, "completion with opcode %d instead of %d",
          wc.opcode, opcode);
    return wc;
}

void expect_no_wc(struct test *t, struct cq *cq, int ms)
{
    struct ibv_wc wc;

    CHECK(t, !poll_wc(t, cq, ms, &wc),
          "unexpected completion: wr_id %llu opcode %d %s",
          (unsigned long long)wc.wr_id, wc.opcode,
          ibv_wc_status_str(wc.status));
}

void wait_async(struct test *t, enum ibv_event_type type, void *element)
{
    struct pollfd pfd = { .fd = t->verbs->async_fd, .events = POLLIN };
    int64_t end = now_ms() + timeout_ms;

    while (now_ms() < end && poll(&pfd, 1, end - now_ms()) == 1) {
        struct ibv_async_event event;
        bool match;

        CHECK(t, !ibv_get_async_event(t->verbs, &event),
              "ibv_get_async_event: %s", strerror(errno));
        /* element is a union of pointers */
        match = event.event_type == type && (void *)event.element.qp == element;
        ibv_ack_async_event(&event);
        if (match) {
            return;
        }
    }
    fail(t, "no asynchronous event '%s'", ibv_event_type_str(type));
}
