/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The limits that docs/limits.md states, reached. With RNIC_FULL=1 in the
 * environment all of it; otherwise the slow ones stop at a quarter.
 */
#include "cm-steps.h"
#include "pair.h"
#include "usage.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define A "10.0.0.1"
#define B "10.0.0.2"

static bool full;

static unsigned scaled(unsigned count)
{
    return full ? count : count / 4;
}

/* Submits @count commands, as many at a time as the ring holds, and checks
 * that all succeed; @done (may be NULL) gets each completion */
static void many(struct th_guest *guest, unsigned count,
                 void (*make)(unsigned i, struct rnic_asqe *cmd, void *data),
                 void (*done)(unsigned i, const struct rnic_acqe *resp,
                              void *data),
                 void *data)
{
    uint16_t cookies[1024];
    unsigned i = 0, n, batch;

    while (i < count) {
        batch = MIN(count - i, guest->admin_depth);
        for (n = 0; n < batch; n++) {
            struct rnic_asqe cmd = { 0 };

            make(i + n, &cmd, data);
            cookies[n] = th_admin_submit(guest, &cmd);
        }
        for (n = 0; n < batch; n++) {
            struct rnic_acqe resp;

            th_wait(th_admin_done(guest, cookies[n], &resp));
            g_assert_cmpuint(GUINT16_FROM_LE(resp.status), ==, RNIC_ADMIN_OK);
            if (done) {
                done(i + n, &resp, data);
            }
        }
        i += batch;
    }
}

static struct th_guest *guest_with_memory(size_t size)
{
    struct th_options options;

    th_options_init(&options);
    options.mem_size = size;
    return th_guest_started(&options);
}

/* The smallest QP that is of use, on shared CQs */
static struct th_qp *small_qp(struct th_guest *guest, struct th_cq *cq)
{
    struct th_qp_attr attr;

    th_qp_attr_init(&attr);
    attr.sq_depth = attr.rq_depth = 2;
    attr.sq_stride = attr.rq_stride = 64;
    attr.send_cq = attr.recv_cq = cq;
    return th_qp_new(guest, &attr);
}

static void write_one(struct th_qp *qp, uint32_t stag, uint32_t remote,
                      uint64_t offset)
{
    struct th_wr wr = {
        .opcode = RNIC_WR_WRITE,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = qp->qpn,
        .sge = { th_sge(stag, offset, 8) },
        .num_sge = 1,
        .remote_stag = remote,
        .remote_to = offset,
    };
    struct rnic_cqe cqe;

    th_post_send(qp, &wr, 1);
    th_cq_wait(qp->attr.send_cq, &cqe);
    g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, qp->qpn);
    g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
}

/* ---- Queue pairs ---- */

static void test_ten_thousand_qps(void)
{
    const unsigned count = 10000;
    struct th_guest *guest = guest_with_memory(64 << 20);
    struct th_cq *cq = th_cq_new(guest, 256);
    g_autofree struct th_qp **qps = g_new(struct th_qp *, count);
    struct th_buf buf = th_buf_new(guest, TH_PAGE, 0, 0);
    uint32_t stag = th_reg_mr(guest, &buf, 0, RNIC_ACCESS_ALL);
    struct usage before = usage_now(), now;
    uint64_t start = th_now_ms();
    unsigned i;

    for (i = 0; i < count; i++) {
        qps[i] = small_qp(guest, cq);
    }
    now = usage_now();
    g_test_message("%u QPs created in %" PRIu64 " ms, %zu octets each", count,
                   th_now_ms() - start, (now.heap - before.heap) / count);
    g_assert_cmpuint(now.files, ==, before.files);
    /* The first and the last one work, beside all others */
    th_connect_pair(qps[0], A, qps[count - 1], A, NULL);
    th_fill(buf.ptr, 8, 1);
    write_one(qps[0], stag, stag, 0);
    write_one(qps[count - 1], stag, stag, 0);
    for (i = 0; i < count; i++) {
        th_qp_free(qps[i]);
    }
    g_assert_cmpuint(th_admin_id(guest, RNIC_CMD_DESTROY_CQ, cq->cqn), ==,
                     RNIC_ADMIN_OK);
    th_guest_free(guest);
}

static void test_four_thousand_connected(void)
{
    const unsigned count = scaled(4000);
    struct th_qp **qps[2];
    struct usage before, now;
    struct rnic_aeqe event;
    struct th_guest *guest[2];
    struct th_buf buf[2];
    uint32_t listener, stag[2];
    struct th_cq *cq[2];
    struct rlimit limit, small;
    uint64_t start, wakeups;
    unsigned i, n;
    uint16_t port;

    getrlimit(RLIMIT_NOFILE, &limit);
    small = limit;
    small.rlim_cur = MIN(256, limit.rlim_max);
    setrlimit(RLIMIT_NOFILE, &small);
    if (limit.rlim_max < 2 * count + 200) {
        g_test_skip("the hard limit on open files is too low");
        setrlimit(RLIMIT_NOFILE, &limit);
        return;
    }
    for (n = 0; n < 2; n++) {
        guest[n] = guest_with_memory(64 << 20);
        cq[n] = th_cq_new(guest[n], 256);
        buf[n] = th_buf_new(guest[n], 16 * TH_PAGE, 0, 0);
        stag[n] = th_reg_mr(guest[n], &buf[n], 0, RNIC_ACCESS_ALL);
        qps[n] = g_new(struct th_qp *, count);
        g_assert_cmpuint(th_addr_add(guest[n], n ? B : A), ==, RNIC_ADMIN_OK);
        for (i = 0; i < count; i++) {
            qps[n][i] = small_qp(guest[n], cq[n]);
        }
    }
    listener = th_listen(guest[1], B, 0, 64, &port);
    before = usage_now();
    start = th_now_ms();
    for (i = 0; i < count; i++) {
        cm_connect_ok(qps[0][i], A, B, port);
        event = cm_arrives(guest[1], listener);
        g_assert_cmpuint(
            th_accept(qps[1][i], GUINT32_FROM_LE(event.conn_id), NULL), ==,
            RNIC_ADMIN_OK);
        th_event_wait(guest[0], RNIC_EV_CONNECT_REPLY, qps[0][i]->qpn, &event);
        g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
        th_event_wait(guest[1], RNIC_EV_ESTABLISHED, qps[1][i]->qpn, &event);
        g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
    }
    now = usage_now();
    g_test_message("%u connected in %" PRIu64 " ms, %zu octets a connected QP",
                   count, th_now_ms() - start,
                   (now.heap - before.heap) / (2 * count));
    /* One file each, and the soft limit was not in the way */
    g_assert_cmpuint(now.files, ==, before.files + 2 * count);
    g_assert_cmpuint((now.heap - before.heap) / (2 * count), <, 65536);
    /* Each one carries data, both ways */
    for (i = 0; i < count; i++) {
        th_fill(buf[0].ptr, 8, i);
        write_one(qps[0][i], stag[0], stag[1], 0);
        th_wait(memcmp(buf[0].ptr, buf[1].ptr, 8) == 0);
        th_fill(buf[1].ptr + 16, 8, i);
        write_one(qps[1][i], stag[1], stag[0], 16);
        th_wait(memcmp(buf[0].ptr + 16, buf[1].ptr + 16, 8) == 0);
    }
    /* Idle connections cost nothing */
    th_run_for(20);
    wakeups = th_stat(guest[0], RNIC_STAT_wakeups);
    th_run_for(200);
    g_assert_cmpuint(th_stat(guest[0], RNIC_STAT_wakeups), ==, wakeups);
    /* All at once */
    th_reset(guest[0]);
    for (i = 0; i < count; i++) {
        th_event_wait(guest[1], RNIC_EV_CLOSE, qps[1][i]->qpn, NULL);
    }
    for (n = 0; n < 2; n++) {
        g_free(qps[n]);
        th_guest_free(guest[n]);
    }
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* More connections than the host allows files for: said in words, harmless for
 * those that are, and over when some are closed */
static void test_no_file_for_a_connection(void)
{
    struct rlimit limit = { 120, 120 };
    struct th_guest *guest;
    struct rnic_aeqe event;
    struct th_buf buf;
    struct th_qp *qps[2][100];
    struct th_cq *cq;
    uint32_t listener, stag;
    unsigned i, connected = 0;
    uint16_t port;

    if (!g_test_subprocess()) {
        /* The hard limit cannot be raised again */
        g_test_trap_subprocess(NULL, 0, 0);
        g_test_trap_assert_passed();
        return;
    }
    g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    guest = cm_guest_at(A, NULL);
    cq = th_cq_new(guest, 256);
    buf = th_buf_new(guest, TH_PAGE, 0, 0);
    stag = th_reg_mr(guest, &buf, 0, RNIC_ACCESS_ALL);
    listener = th_listen(guest, A, 0, 64, &port);
    for (i = 0; i < 100; i++) {
        qps[0][i] = small_qp(guest, cq);
        qps[1][i] = small_qp(guest, cq);
    }
    for (i = 0; i < 100; i++) {
        bool replied = false, asked = false;

        cm_connect_ok(qps[0][i], A, A, port);
        th_wait(
            (replied = th_event_take(guest, RNIC_EV_CONNECT_REPLY,
                                     qps[0][i]->qpn, &event)) ||
            (asked = th_event_take(guest, RNIC_EV_CONNECT_REQUEST, listener,
                                   &event)) ||
            strstr(guest->trace_text[RNIC_TRACE_cm], "limit on open files"));
        if (!asked) {
            /* Its own socket, or the one at the other end */
            g_assert_true(!replied ||
                          GUINT16_FROM_LE(event.status) == RNIC_CM_LOCAL_ERROR);
            break;
        }
        g_assert_cmpuint(
            th_accept(qps[1][i], GUINT32_FROM_LE(event.conn_id), NULL), ==,
            RNIC_ADMIN_OK);
        th_event_wait(guest, RNIC_EV_CONNECT_REPLY, qps[0][i]->qpn, &event);
        g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
        th_event_wait(guest, RNIC_EV_ESTABLISHED, qps[1][i]->qpn, NULL);
        connected++;
    }
    g_assert_cmpuint(connected, >, 10);
    g_assert_cmpuint(connected, <, 60);
    /* With no file at all CONNECT's own socket is missing */
    guest->look_for = "limit on open files of this process is reached";
    cm_connect_ok(qps[0][90], A, A, port);
    th_event_wait(guest, RNIC_EV_CONNECT_REPLY, qps[0][90]->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_LOCAL_ERROR);
    g_assert_cmpuint(guest->found, >, 0);
    for (i = 0; i < connected; i++) {
        write_one(qps[0][i], stag, stag, 0);
    }
    /* Some go, so others may come */
    for (i = 0; i < 10; i++) {
        th_qp_free(qps[0][i]);
        th_qp_free(qps[1][i]);
    }
    th_qp_free(qps[0][connected]);
    th_run_for(1500);
    while (th_event_take(guest, RNIC_EV_CONNECT_REQUEST, listener, &event)) {
        th_reject(guest, GUINT32_FROM_LE(event.conn_id), NULL);
    }
    cm_connect_ok(qps[0][91], A, A, port);
    event = cm_arrives(guest, listener);
    g_assert_cmpuint(
        th_accept(qps[1][91], GUINT32_FROM_LE(event.conn_id), NULL), ==,
        RNIC_ADMIN_OK);
    th_event_wait(guest, RNIC_EV_ESTABLISHED, qps[1][91]->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
    th_guest_free(guest);
}

/* ---- Regions ---- */

struct regions {
    struct th_buf buf;
    uint32_t *stags;
};

static void reg_command(unsigned i, struct rnic_asqe *cmd, void *data)
{
    struct regions *regions = data;

    cmd->opcode = RNIC_CMD_REG_MR;
    cmd->reg_mr.pdn = GUINT32_TO_LE(TH_PD);
    cmd->reg_mr.access = GUINT32_TO_LE(RNIC_ACCESS_ALL);
    cmd->reg_mr.key = i;
    cmd->reg_mr.buf = regions->buf.desc;
}

static void reg_done(unsigned i, const struct rnic_acqe *resp, void *data)
{
    ((struct regions *)data)->stags[i] = GUINT32_FROM_LE(resp->mr.stag);
}

static void dereg_command(unsigned i, struct rnic_asqe *cmd, void *data)
{
    cmd->opcode = RNIC_CMD_DEREG_MR;
    cmd->dereg_mr.stag = GUINT32_TO_LE(((struct regions *)data)->stags[i]);
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(uint32_t));
}

static void test_hundred_thousand_regions(void)
{
    const unsigned count = 100000;
    struct th_guest *guest = th_guest_started(NULL);
    struct regions regions = { .stags = g_new(uint32_t, count) };
    struct usage before;
    uint64_t start;
    unsigned i;

    regions.buf = th_buf_new(guest, 3 * TH_PAGE, 1, 0);
    before = usage_now();
    start = th_now_ms();
    many(guest, count, reg_command, reg_done, &regions);
    g_test_message("%u regions in %" PRIu64 " ms, %zu octets each", count,
                   th_now_ms() - start,
                   (usage_now().heap - before.heap) / count);
    /* Each has a name of its own */
    qsort(regions.stags, count, sizeof(uint32_t), compare);
    for (i = 1; i < count; i++) {
        g_assert_cmphex(regions.stags[i], !=, regions.stags[i - 1]);
    }
    many(guest, count, dereg_command, NULL, &regions);
    usage_check(&before, 4096, 64);
    g_free(regions.stags);
    th_guest_free(guest);
}

static void test_one_gibibyte_64_times(void)
{
    struct th_guest *guest = guest_with_memory((1ull << 30) + (64 << 20));
    struct th_buf scattered, buf;
    struct regions regions = { .stags = g_new(uint32_t, 64) };
    uint64_t pages = guest->dev->buf_pages, *list, *root, first, start, worst;
    struct th_qp *qp[2];
    unsigned i, n;

    /* All its 4 KiB pages, the last one first; memory that is never touched */
    first = th_alloc(guest, 1ull << 30, TH_PAGE);
    scattered = (struct th_buf){ .len = 1ull << 30 };
    scattered.desc.addr = GUINT64_TO_LE(th_alloc(guest, TH_PAGE, TH_PAGE));
    scattered.desc.length = GUINT64_TO_LE(1ull << 30);
    scattered.desc.levels = 2;
    scattered.desc.page_shift = 12;
    root = th_ptr(guest, GUINT64_FROM_LE(scattered.desc.addr));
    for (i = 0; i < 512; i++) {
        uint64_t table = th_alloc(guest, TH_PAGE, TH_PAGE);

        root[i] = GUINT64_TO_LE(table);
        list = th_ptr(guest, table);
        for (n = 0; n < 512; n++) {
            list[n] = GUINT64_TO_LE(first +
                                    (uint64_t)(262143 - i * 512 - n) * TH_PAGE);
        }
    }
    regions.buf = scattered;
    worst = 0;
    for (i = 0; i < 64; i++) {
        start = rnic_now_ns();
        regions.stags[i] =
            th_reg_mr(guest, &regions.buf, (uint64_t)i << 32, RNIC_ACCESS_ALL);
        worst = MAX(worst, rnic_now_ns() - start);
    }
    g_test_message("1 GiB of 4 KiB pages: at most %" PRIu64 " us a time",
                   worst / 1000);
    g_assert_cmpuint(guest->dev->buf_pages, ==, pages + 64 * 262144);

    /* All are the same memory: written through the first, read by the last */
    buf = th_buf_new(guest, TH_PAGE, 0, 0);
    qp[0] = th_qp_new(guest, NULL);
    qp[1] = th_qp_new(guest, NULL);
    th_connect_pair(qp[0], A, qp[1], A, NULL);
    for (i = 0; i < 64; i += 21) {
        struct th_wr wr = {
            .opcode = RNIC_WR_WRITE,
            .flags = RNIC_WQE_SIGNALED,
            .num_sge = 1,
            .remote_stag = regions.stags[i],
            .remote_to = ((uint64_t)i << 32) + (1u << 30) - 8,
        };
        struct rnic_cqe cqe;
        uint32_t stag = th_reg_mr(guest, &buf, 0, RNIC_ACCESS_ALL);

        th_fill(buf.ptr, 8, i);
        wr.sge[0] = th_sge(stag, 0, 8);
        th_post_send(qp[0], &wr, 1);
        th_cq_wait(qp[0]->attr.send_cq, &cqe);
        g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
        wr.opcode = RNIC_WR_READ;
        wr.remote_stag = regions.stags[63 - i];
        wr.remote_to = ((uint64_t)(63 - i) << 32) + (1u << 30) - 8;
        wr.sge[0] = th_sge(stag, 64, 8);
        th_post_send(qp[0], &wr, 1);
        th_cq_wait(qp[0]->attr.send_cq, &cqe);
        g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
        g_assert_cmpmem(buf.ptr, 8, buf.ptr + 64, 8);
        th_check_filled(th_ptr(guest, first + TH_PAGE - 8), 8, i);
    }
    many(guest, 64, dereg_command, NULL, &regions);
    g_assert_cmpuint(guest->dev->buf_pages, <, pages + 16);
    g_free(regions.stags);
    th_guest_free(guest);
}

/* ---- Depths and messages ---- */

static void test_queues_of_32_k(void)
{
    struct th_guest *guest = guest_with_memory(512 << 20);
    struct th_cq *send_cq = th_cq_new(guest, 65536);
    struct th_cq *recv_cq = th_cq_new(guest, 65536);
    struct th_buf buf = th_buf_new(guest, 16 * TH_PAGE, 0, 0);
    uint32_t stag = th_reg_mr(guest, &buf, 0, RNIC_ACCESS_ALL);
    struct th_qp_attr attr;
    struct th_qp *qp[2];
    struct rnic_cqe cqe;
    struct th_wr *wrs;
    uint32_t i;

    th_qp_attr_init(&attr);
    attr.sq_depth = attr.rq_depth = 32768;
    attr.sq_stride = attr.rq_stride = 64;
    attr.send_cq = send_cq;
    attr.recv_cq = recv_cq;
    qp[0] = th_qp_new(guest, &attr);
    qp[1] = th_qp_new(guest, &attr);
    /* The largest CQ, of the largest ring there is room for */
    th_cq_free(th_cq_new(guest, 4194304));
    th_connect_pair(qp[0], A, qp[1], A, NULL);
    wrs = g_new0(struct th_wr, 32768);
    for (i = 0; i < 32768; i++) {
        struct rnic_sge sge = th_sge(stag, 8192 + i % 4096, 4);

        th_post_recv(qp[1], i, &sge, 1);
        wrs[i].opcode = RNIC_WR_SEND;
        wrs[i].flags = RNIC_WQE_SIGNALED;
        wrs[i].wr_id = i;
        wrs[i].inline_data = &wrs[i].wr_id;
        wrs[i].inline_len = 4;
    }
    /* A full queue, at one doorbell */
    th_post_send(qp[0], wrs, 32768);
    for (i = 0; i < 32768; i++) {
        th_cq_wait(send_cq, &cqe);
        g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, i);
        g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
        th_cq_wait(recv_cq, &cqe);
        g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, i);
        g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
    }
    g_free(wrs);
    th_guest_free(guest);
}

/* The Write of that size is in test-bulk.c */
static void test_send_and_read_of_two_gibibytes(void)
{
    struct pair_options options;
    struct th_wr wr = {
        .flags = RNIC_WQE_SIGNALED,
        .num_sge = 1,
    };
    uint64_t memory[2];
    uint32_t stag[2];
    struct rnic_sge sge;
    struct rnic_cqe cqe;
    struct pair p;
    unsigned i;

    if (!full) {
        g_test_skip("4 GiB: only with RNIC_FULL=1");
        return;
    }
    pair_options_init(&options, RNIC_CRC_OFF);
    pair_new(&p, &options);
    pair_connect(&p, NULL);
    for (i = 0; i < 2; i++) {
        stag[i] = pair_huge_mr(&p, i, &memory[i]);
    }
    th_fill(th_ptr(p.guest[0], memory[0]), 2 << 20, 1);
    wr.opcode = RNIC_WR_SEND;
    wr.wr_id = 1;
    wr.sge[0] = th_sge(stag[0], 0, 1u << 31);
    sge = th_sge(stag[1], 0, 1u << 31);
    th_post_recv(p.qp[1], 5, &sge, 1);
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_recv(&p, 1, 5, RNIC_WC_SUCCESS, &cqe);
    g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, 1u << 31);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    th_check_filled(th_ptr(p.guest[1], memory[1]), 2 << 20, 1);

    th_fill(th_ptr(p.guest[1], memory[1]), 2 << 20, 2);
    wr.opcode = RNIC_WR_READ;
    wr.wr_id = 2;
    wr.remote_stag = stag[1];
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_send(&p, 0, 2, RNIC_WC_SUCCESS, &cqe);
    g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, 1u << 31);
    th_check_filled(th_ptr(p.guest[0], memory[0]), 2 << 20, 2);
    pair_free(&p);
}

/* Pieces of all sizes, none a multiple of another */
static void scatter(struct pair *p, unsigned side, struct rnic_sge *sge,
                    unsigned first, uint32_t *total)
{
    uint32_t at = 0;

    for (unsigned i = 0; i < RNIC_MAX_SGE; i++) {
        uint32_t len = 1 + (first + i) % RNIC_MAX_SGE * 997;

        sge[i] = pair_sge(p, side, at, len);
        at += len;
    }
    *total = at;
}

static void test_16_sges(void)
{
    static const enum rnic_wr_opcode opcodes[] = { RNIC_WR_SEND, RNIC_WR_WRITE,
                                                   RNIC_WR_READ };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(opcodes); i++) {
        unsigned from = opcodes[i] == RNIC_WR_READ;
        struct th_wr wr = {
            .opcode = opcodes[i],
            .flags = RNIC_WQE_SIGNALED,
            .wr_id = 1,
            .num_sge = RNIC_MAX_SGE,
            .remote_to = PAIR_IOVA,
        };
        struct rnic_sge recv[RNIC_MAX_SGE];
        uint32_t total, recv_total;
        struct rnic_cqe cqe;
        struct pair p;

        pair_start(&p, RNIC_CRC_OFF);
        scatter(&p, 0, wr.sge, 0, &total);
        scatter(&p, 1, recv, 5, &recv_total);
        g_assert_cmpuint(total, ==, recv_total);
        wr.remote_stag = p.stag[1];
        th_post_recv(p.qp[1], 5, recv, RNIC_MAX_SGE);
        th_fill(p.buf[from].ptr, total, i);
        th_post_send(p.qp[0], &wr, 1);
        pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, &cqe);
        if (opcodes[i] == RNIC_WR_SEND) {
            pair_wait_recv(&p, 1, 5, RNIC_WC_SUCCESS, &cqe);
            g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, total);
        } else if (opcodes[i] == RNIC_WR_READ) {
            g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, total);
        }
        th_wait(memcmp(p.buf[0].ptr, p.buf[1].ptr, total) == 0);
        th_check_filled(p.buf[!from].ptr, total, i);
        pair_free(&p);
    }
}

/* ---- Again and again ---- */

/* One of everything, then all of it goes */
static void round_of_objects(struct th_guest *guest)
{
    const struct th_guest before = *guest;
    unsigned objects = guest->objects->len;
    struct rnic_asqe alloc = { .opcode = RNIC_CMD_ALLOC_MR };
    struct rnic_acqe resp;
    struct th_qp_attr attr;
    struct th_buf buf;
    struct th_srq *srq;
    struct th_qp *qp;
    struct th_eq eq;
    uint32_t stag, listener;
    unsigned views = guest->views->len;

    memset(th_ptr(guest, TH_BASE + before.mem_used), 0, 256 << 10);
    th_uctx_new(guest, 9);
    th_eq_new(guest, &eq, 7, 1, 16);
    srq = th_srq_new(guest, 16, 4);
    th_qp_attr_init(&attr);
    attr.srq = srq;
    attr.send_cq = th_cq_new_on(guest, 16, 7, 0);
    attr.recv_cq = th_cq_new_on(guest, 16, 1, 0);
    attr.sq_depth = 4;
    qp = th_qp_new(guest, &attr);
    buf = th_buf_new(guest, TH_PAGE, 0, 0);
    stag = th_reg_mr(guest, &buf, 0, RNIC_ACCESS_ALL);
    alloc.alloc_mr.pdn = GUINT32_TO_LE(TH_PD);
    alloc.alloc_mr.max_pages = GUINT32_TO_LE(1024);
    g_assert_cmpuint(th_admin(guest, &alloc, &resp), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(th_addr_add(guest, "10.0.0.77"), ==, RNIC_ADMIN_OK);
    listener = th_listen(guest, "10.0.0.77", 7077, 8, NULL);

    g_assert_cmpuint(th_admin_id(guest, RNIC_CMD_UNLISTEN, listener), ==,
                     RNIC_ADMIN_OK);
    g_assert_cmpuint(th_addr_del(guest, "10.0.0.77"), ==, RNIC_ADMIN_OK);
    th_dereg_mr(guest, stag);
    th_dereg_mr(guest, GUINT32_FROM_LE(resp.mr.stag));
    th_qp_free(qp);
    th_cq_free(attr.send_cq);
    th_cq_free(attr.recv_cq);
    th_srq_free(srq);
    g_assert_cmpuint(th_admin_id(guest, RNIC_CMD_DESTROY_EQ, 7), ==,
                     RNIC_ADMIN_OK);
    g_assert_cmpuint(th_admin_id(guest, RNIC_CMD_DESTROY_UCTX, 9), ==,
                     RNIC_ADMIN_OK);
    /* The guest's memory and numbers, too, are to be used again */
    g_assert_cmpuint(guest->views->len, ==, views);
    g_ptr_array_set_size(guest->objects, objects);
    guest->mem_used = before.mem_used;
    guest->next_qpn = before.next_qpn;
    guest->next_cqn = before.next_cqn;
    guest->next_srqn = before.next_srqn;
    guest->next_listen = before.next_listen;
}

static void test_objects_come_and_go(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    uint64_t pages = guest->dev->buf_pages;
    struct usage before;
    unsigned i;

    for (i = 0; i < 100; i++) {
        round_of_objects(guest);
    }
    before = usage_now();
    for (i = 0; i < scaled(10000); i++) {
        round_of_objects(guest);
    }
    usage_check(&before, 4096, 64);
    g_assert_cmpuint(guest->dev->buf_pages, ==, pages);
    g_assert_cmpuint(guest->dev->uctx[0]->refs, ==, 0);
    th_guest_free(guest);
}

/* Devices with connections, reset or just freed */
static void test_devices_come_and_go(void)
{
    struct usage before;
    unsigned i;

    for (i = 0; i < 5 + scaled(500); i++) {
        struct pair_options options;
        struct pair p;

        if (i == 5) {
            before = usage_now();
        }
        pair_options_init(&options, i % 2 ? RNIC_CRC_ON : RNIC_CRC_OFF);
        options.buf_len = 65536;
        pair_new(&p, &options);
        pair_connect(&p, NULL);
        pair_post_recv(&p, 1, 1, 0, 65536);
        pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 65536, 0);
        if (i % 3 == 0) {
            pair_wait_recv(&p, 1, 1, RNIC_WC_SUCCESS, NULL);
        }
        if (i % 3 == 1) {
            th_reset(p.guest[0]);
        }
        pair_free(&p);
    }
    usage_check(&before, 8192, 64);
}

/* ---- Connections that follow each other ---- */

static void test_thousand_connections_on_one_port(void)
{
    const uint16_t port = 7471;
    struct th_guest *guest[2] = { cm_guest_at(A, NULL), cm_guest_at(B, NULL) };
    uint32_t listener = th_listen(guest[1], B, port, 64, NULL);
    struct usage before;
    unsigned i, n, closer;
    struct rnic_aeqe event;
    struct th_cq *cq[2];
    uint64_t start = th_now_ms();

    for (n = 0; n < 2; n++) {
        cq[n] = th_cq_new(guest[n], 256);
    }
    for (i = 0; i < 1000; i++) {
        struct th_qp *qp[2] = { small_qp(guest[0], cq[0]),
                                small_qp(guest[1], cq[1]) };

        if (i == 50) {
            before = usage_now();
        }
        cm_connect_ok(qp[0], A, B, port);
        event = cm_arrives(guest[1], listener);
        g_assert_cmpuint(th_accept(qp[1], GUINT32_FROM_LE(event.conn_id), NULL),
                         ==, RNIC_ADMIN_OK);
        th_event_wait(guest[0], RNIC_EV_CONNECT_REPLY, qp[0]->qpn, &event);
        g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
        th_event_wait(guest[1], RNIC_EV_ESTABLISHED, qp[1]->qpn, &event);
        g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
        /* Either end closes first, with FIN or with RST */
        closer = i % 2;
        if (i % 4 < 2) {
            g_assert_cmpuint(th_qp_modify(qp[closer], RNIC_QPS_CLOSING), ==,
                             RNIC_ADMIN_OK);
            th_event_wait(guest[0], RNIC_EV_CLOSE, qp[0]->qpn, NULL);
            th_event_wait(guest[1], RNIC_EV_CLOSE, qp[1]->qpn, NULL);
        } else {
            th_qp_free(qp[closer]);
            th_event_wait(guest[!closer], RNIC_EV_CLOSE, qp[!closer]->qpn,
                          NULL);
        }
        for (n = 0; n < 2; n++) {
            if (i % 4 < 2 || n != closer) {
                th_qp_free(qp[n]);
            }
            guest[n]->next_qpn = 0;
            g_ptr_array_set_size(guest[n]->objects, 1);
            while (
                th_event_take(guest[n], RNIC_EV_DISCONNECT, TH_ANY_ID, NULL)) {
            }
        }
        /* The port is bound again while old connections of it linger */
        if (i % 100 == 99) {
            g_assert_cmpuint(th_admin_id(guest[1], RNIC_CMD_UNLISTEN, listener),
                             ==, RNIC_ADMIN_OK);
            listener = th_listen(guest[1], B, port, 64, NULL);
        }
    }
    g_test_message("1000 connections, one after the other: %" PRIu64 " ms",
                   th_now_ms() - start);
    th_run_for(50);
    usage_check(&before, 65536, 64);
    th_guest_free(guest[0]);
    th_guest_free(guest[1]);
}

int main(int argc, char **argv)
{
    const char *wish = getenv("RNIC_FULL");

    full = wish && !strcmp(wish, "1");
    g_test_init(&argc, &argv, NULL);
#define ADD(name, test) g_test_add_func("/limits/" name, test)
    ADD("qps", test_ten_thousand_qps);
    ADD("connected", test_four_thousand_connected);
    ADD("files", test_no_file_for_a_connection);
    ADD("regions", test_hundred_thousand_regions);
    ADD("gibibyte-64-times", test_one_gibibyte_64_times);
    ADD("depth", test_queues_of_32_k);
    ADD("message", test_send_and_read_of_two_gibibytes);
    ADD("sges", test_16_sges);
    ADD("objects-come-and-go", test_objects_come_and_go);
    ADD("devices-come-and-go", test_devices_come_and_go);
    ADD("one-port", test_thousand_connections_on_one_port);
    return g_test_run();
}
