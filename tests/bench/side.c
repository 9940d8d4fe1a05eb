/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One process of core-bench: its devices, their engines, its connections
 */
#include "bench.h"

#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define PORT 7471

/* By CRC off and on, then by client and server */
static const char *const addresses[2][2] = {
    { "10.0.201.1", "10.0.201.2" },
    { "10.0.202.1", "10.0.202.2" },
};

/* ---- The device's host: as cheap as QEMU's can be ---- */

static void *host_dma_map(void *opaque, uint64_t addr, uint64_t *len,
                          enum rnic_dma_dir dir)
{
    struct th_guest *guest = opaque;
    uint64_t offset = addr - TH_BASE;

    if (offset >= guest->options.mem_size) {
        return NULL;
    }
    *len = MIN(*len, guest->options.mem_size - offset);
    return guest->mem + offset;
}

static void host_dma_unmap(void *opaque, void *ptr, uint64_t len,
                           enum rnic_dma_dir dir, uint64_t used)
{
}

/* Of the guests of this process */
static struct bench_side *this_side;

static void host_raise_irq(void *opaque, unsigned vector)
{
    unsigned i;

    for (i = 0; i < 2 && vector == 1; i++) {
        if (this_side->guest[i] == opaque) {
            eventfd_write(this_side->irq_fd[i], 1);
        }
    }
}

static bool host_trace_enabled(void *opaque, enum rnic_trace_event event)
{
    return event == RNIC_TRACE_guest_error || event == RNIC_TRACE_term;
}

static void host_trace(void *opaque, enum rnic_trace_event event,
                       const char *text)
{
    fprintf(stderr, "core-bench: %s\n", text);
}

static const struct rnic_host_ops host_ops = {
    .dma_map = host_dma_map,
    .dma_unmap = host_dma_unmap,
    .raise_irq = host_raise_irq,
    .trace_enabled = host_trace_enabled,
    .trace = host_trace,
};

void bench_side_init(struct bench_side *side, bool client)
{
    unsigned i;

    side->client = client;
    this_side = side;
    for (i = 0; i < 2; i++) {
        struct th_options options;

        th_options_init(&options);
        options.config.crc = i ? RNIC_CRC_ON : RNIC_CRC_OFF;
        options.config.mac[4] = client ? 1 : 2;
        options.mem_size = 1536ull << 20;
        options.ops = &host_ops;
        side->irq_fd[i] = eventfd(0, EFD_CLOEXEC);
        side->guest[i] = th_guest_started(&options);
        g_assert_cmpuint(th_addr_add(side->guest[i], addresses[i][!client]), ==,
                         RNIC_ADMIN_OK);
        if (!client) {
            th_listen(side->guest[i], addresses[i][1], PORT, 64, NULL);
        }
    }
}

void bench_side_free(struct bench_side *side)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        th_guest_free(side->guest[i]);
        close(side->irq_fd[i]);
    }
}

/* ---- Guest memory of a job ---- */

/* Gives back what was allocated after @mark, zeroed */
static void mem_reset(struct th_guest *guest, size_t mark)
{
    memset(guest->mem + mark, 0, guest->mem_used - mark);
    guest->mem_used = mark;
}

/* ---- Engines ---- */

static void *engine_thread(void *opaque)
{
    struct bench_end *end = opaque;
    struct pollfd fds[2] = {
        { rnic_device_fd(end->guest->dev), POLLIN, 0 },
        { end->stop_fd, POLLIN, 0 },
    };

    while (!fds[1].revents) {
        if (poll(fds, 2, -1) > 0 && fds[0].revents) {
            rnic_device_run(end->guest->dev);
        }
    }
    return NULL;
}

static void engine_start(struct bench_end *end)
{
    int error;

    end->stop_fd = eventfd(0, EFD_CLOEXEC);
    error = pthread_create(&end->engine, NULL, engine_thread, end);
    g_assert_cmpint(error, ==, 0);
}

static void engine_stop(struct bench_end *end)
{
    struct timespec cpu;
    clockid_t clock;

    g_assert_cmpint(pthread_getcpuclockid(end->engine, &clock), ==, 0);
    clock_gettime(clock, &cpu);
    end->engine_cpu = cpu.tv_sec + cpu.tv_nsec / 1e9;
    eventfd_write(end->stop_fd, 1);
    pthread_join(end->engine, NULL);
    close(end->stop_fd);
}

static bool own_thread(const struct bench_end *end)
{
    return end->wait == WAIT_EVENT || end->wait == WAIT_POLL;
}

/* ---- Connections ---- */

/* As many Reads as the device allows, which is what perftest asks for */
static const struct th_connect params = {
    .ird = RNIC_MAX_IRD,
    .ord = RNIC_MAX_ORD,
};

/* The client's and the server's half of one connection */
static void connect_qp(struct bench_side *side, unsigned crc, struct th_qp *qp)
{
    struct th_guest *guest = qp->guest;
    struct rnic_sockaddr local, remote;
    struct rnic_aeqe event;

    if (side->client) {
        local = th_sockaddr(addresses[crc][0], 0);
        remote = th_sockaddr(addresses[crc][1], PORT);
        g_assert_cmpuint(th_connect(qp, &local, &remote, &params), ==,
                         RNIC_ADMIN_OK);
        th_event_wait(guest, RNIC_EV_CONNECT_REPLY, qp->qpn, &event);
    } else {
        th_event_wait(guest, RNIC_EV_CONNECT_REQUEST, TH_ANY_ID, &event);
        g_assert_cmpuint(th_accept(qp, GUINT32_FROM_LE(event.conn_id), &params),
                         ==, RNIC_ADMIN_OK);
        th_event_wait(guest, RNIC_EV_ESTABLISHED, qp->qpn, &event);
    }
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
}

void bench_end_init(struct bench_end *end, struct bench_side *side,
                    const struct bench_job *job, unsigned sq_depth,
                    unsigned rq_depth, unsigned stride, unsigned buf_len)
{
    struct th_qp_attr attr;

    memset(end, 0, sizeof(*end));
    end->side = side;
    end->guest = side->guest[job->crc];
    end->irq_fd = side->irq_fd[job->crc];
    end->wait = job->wait;
    end->mem_mark = end->guest->mem_used;

    end->send_cq = th_cq_new(end->guest, sq_depth);
    end->recv_cq = th_cq_new(end->guest, rq_depth);
    th_qp_attr_init(&attr);
    attr.sq_depth = sq_depth;
    attr.rq_depth = rq_depth;
    attr.sq_stride = stride;
    attr.rq_stride = 64;
    attr.send_cq = end->send_cq;
    attr.recv_cq = end->recv_cq;
    end->qp = th_qp_new(end->guest, &attr);
    end->buf = th_buf_new(end->guest, buf_len, job->scattered ? 2 : 0, 0);
    th_fill(end->buf.ptr, buf_len, 1);
    end->buf.ptr[0] = 0;
    end->stag = th_reg_mr(end->guest, &end->buf, BENCH_TO, RNIC_ACCESS_ALL);
    connect_qp(side, job->crc, end->qp);
    bench_tell(side, &end->stag, sizeof(end->stag));
    bench_hear(side, &end->peer_stag, sizeof(end->peer_stag));
    end->guest->options.kicks = !own_thread(end);
    if (own_thread(end)) {
        th_eq_arm(&end->guest->ceq);
        engine_start(end);
    }
}

void bench_end_free(struct bench_end *end)
{
    struct rnic_aeqe event;
    char done = 0;

    if (own_thread(end)) {
        engine_stop(end);
    }
    end->guest->options.kicks = false;
    /* Both are past their last message before either closes */
    bench_tell(end->side, &done, 1);
    bench_hear(end->side, &done, 1);
    th_qp_free(end->qp);
    th_cq_free(end->send_cq);
    th_cq_free(end->recv_cq);
    th_dereg_mr(end->guest, end->stag);
    while (th_event_take(end->guest, RNIC_EV_CLOSE, TH_ANY_ID, &event) ||
           th_event_take(end->guest, RNIC_EV_DISCONNECT, TH_ANY_ID, &event)) {
    }
    while (th_ceq_poll(&end->guest->ceq)) {
    }
    mem_reset(end->guest, end->mem_mark);
}

/* ---- Waiting for completions ---- */

/* As a driver's interrupt handler: takes the events, asks for the next one */
static void take_events(struct bench_end *end)
{
    struct th_eq *ceq = &end->guest->ceq;

    do {
        while (th_ceq_poll(ceq)) {
        }
        th_eq_arm(ceq);
    } while (th_ceq_poll(ceq));
}

static void wait_step(struct bench_end *end, struct th_cq *cq)
{
    struct pollfd fd = { rnic_device_fd(end->guest->dev), POLLIN, 0 };
    eventfd_t count;

    switch (end->wait) {
    case WAIT_EVENT:
        if (!th_cq_arm(cq, RNIC_CQ_ARM_ANY)) {
            eventfd_read(end->irq_fd, &count);
            take_events(end);
        }
        break;
    case WAIT_POLL:
        sched_yield();
        break;
    case WAIT_ONE_SLEEP:
        poll(&fd, 1, -1);
        rnic_device_run(end->guest->dev);
        break;
    case WAIT_ONE_SPIN:
        rnic_device_run(end->guest->dev);
        break;
    }
}

void bench_end_wait(struct bench_end *end, struct th_cq *cq,
                    struct rnic_cqe *cqe)
{
    while (!th_cq_poll(cq, cqe)) {
        wait_step(end, cq);
    }
    g_assert_cmpuint(cqe->status, ==, RNIC_WC_SUCCESS);
}

/* ---- Idle connections ---- */

/* Memory that this process allocated; the guests' is not part of it */
static double heap_octets(void)
{
    struct mallinfo2 info = mallinfo2();

    return (double)info.uordblks + info.hblkhd;
}

void bench_idle(struct bench_side *side, const struct bench_job *job,
                struct bench_result *result)
{
    struct bench_end end = {
        .side = side,
        .guest = side->guest[0],
        .wait = WAIT_EVENT,
    };
    g_autofree struct th_qp **qps = g_new(struct th_qp *, job->qps);
    struct {
        double octets, wakeups;
    } own, peer;
    struct rnic_aeqe event;
    struct th_qp_attr attr;
    double before;
    unsigned i;

    end.mem_mark = end.guest->mem_used;
    th_qp_attr_init(&attr);
    attr.send_cq = attr.recv_cq = end.send_cq = th_cq_new(end.guest, 64);
    before = heap_octets();
    for (i = 0; i < job->qps; i++) {
        qps[i] = th_qp_new(end.guest, &attr);
        connect_qp(side, 0, qps[i]);
    }
    own.octets = (heap_octets() - before) / job->qps;

    engine_start(&end);
    bench_tell(side, &i, sizeof(i));
    bench_hear(side, &i, sizeof(i));
    /* The last connection's ready-to-receive message arrives */
    g_usleep(100000);
    own.wakeups = th_stat(end.guest, RNIC_STAT_wakeups);
    g_usleep(job->seconds * 1e6);
    own.wakeups = th_stat(end.guest, RNIC_STAT_wakeups) - own.wakeups;
    engine_stop(&end);
    bench_tell(side, &own, sizeof(own));
    bench_hear(side, &peer, sizeof(peer));

    for (i = 0; i < job->qps; i++) {
        th_qp_free(qps[i]);
    }
    th_cq_free(end.send_cq);
    while (th_event_take(end.guest, RNIC_EV_CLOSE, TH_ANY_ID, &event) ||
           th_event_take(end.guest, RNIC_EV_DISCONNECT, TH_ANY_ID, &event)) {
    }
    mem_reset(end.guest, end.mem_mark);
    if (result) {
        result->seconds = job->seconds;
        result->qp_octets = MAX(own.octets, peer.octets);
        result->wakeups = own.wakeups + peer.wakeups;
    }
}

/* ---- Registration ---- */

void bench_register(struct bench_side *side, const struct bench_job *job,
                    struct bench_result *result)
{
    struct th_guest *guest = side->guest[0];
    size_t mark = guest->mem_used, pages = job->size / TH_PAGE, i;
    uint64_t tables, data, root;
    struct th_buf buf = { .len = job->size };
    uint32_t stag;
    double start;

    /* Pages in an order that no two follow each other; never touched */
    data = th_alloc(guest, job->size, TH_PAGE);
    guest->mem_used = mark;
    root = th_alloc(guest, TH_PAGE, TH_PAGE);
    g_assert_cmpuint(pages % 512, ==, 0);
    g_assert_cmpuint(pages / 512, <=, 512);
    tables = th_alloc(guest, pages / 512 * TH_PAGE, TH_PAGE);
    for (i = 0; i < pages / 512; i++) {
        ((uint64_t *)th_ptr(guest, root))[i] =
            GUINT64_TO_LE(tables + i * TH_PAGE);
    }
    for (i = 0; i < pages; i++) {
        ((uint64_t *)th_ptr(guest, tables))[i] =
            GUINT64_TO_LE(data + (pages - 1 - i) * TH_PAGE);
    }
    buf.desc.addr = GUINT64_TO_LE(root);
    buf.desc.length = GUINT64_TO_LE(job->size);
    buf.desc.levels = 2;
    buf.desc.page_shift = 12;
    start = bench_now();
    stag = th_reg_mr(guest, &buf, BENCH_TO, RNIC_ACCESS_ALL);
    result->register_us = (bench_now() - start) * 1e6;
    th_dereg_mr(guest, stag);
    mem_reset(guest, mark);
}
