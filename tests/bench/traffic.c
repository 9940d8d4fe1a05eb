/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Work requests back to back, and ping-pong, between two devices
 */
#include "bench.h"

#include <string.h>
#include <sys/eventfd.h>

/* Octets that a stream of work requests has under way, and how many of them */
#define WINDOW_OCTETS (16u << 20)
#define WINDOW_MAX    2048
#define WINDOW_MIN    8

#define PING 64

/* A Send whose first octet is this is the last one of a job */
#define LAST 1

static unsigned window(const struct bench_job *job)
{
    unsigned most = job->opcode == RNIC_WR_READ ? 128 : WINDOW_MAX;

    return CLAMP(WINDOW_OCTETS / job->size, WINDOW_MIN, most);
}

static bool is_inline(unsigned size)
{
    return size <= RNIC_SQ_STRIDE_INLINE(128);
}

static unsigned stride(const struct bench_job *job)
{
    return is_inline(job->size) ? 128 : 64;
}

static void wr_init(struct bench_end *end, const struct bench_job *job,
                    struct th_wr *wr)
{
    memset(wr, 0, sizeof(*wr));
    wr->opcode = job->opcode;
    if (is_inline(job->size)) {
        wr->inline_data = end->buf.ptr;
        wr->inline_len = job->size;
    } else {
        wr->sge[0] = th_sge(end->stag, BENCH_TO, job->size);
        wr->num_sge = 1;
    }
    wr->remote_stag = end->peer_stag;
    wr->remote_to = BENCH_TO;
}

static void post_recvs(struct bench_end *end, unsigned size, unsigned count)
{
    struct rnic_sge sge = th_sge(end->stag, BENCH_TO, size);

    while (count--) {
        th_post_recv(end->qp, 0, &sge, 1);
    }
}

/* ---- Streams ---- */

/* The peer's receives that are posted, less what was sent */
static void take_credits(struct bench_end *end, unsigned *credits,
                         unsigned need)
{
    eventfd_t more;

    while (*credits < need) {
        eventfd_read(end->side->credits, &more);
        *credits += more;
    }
}

static void stream_client(struct bench_end *end, const struct bench_job *job,
                          struct bench_result *result)
{
    unsigned batch = window(job) / 4, under_way = 0, i;
    unsigned credits = window(job);
    g_autofree struct th_wr *wrs = g_new(struct th_wr, batch);
    uint64_t batches = 0;
    struct rnic_cqe cqe;
    double start;
    char done;

    for (i = 0; i < batch; i++) {
        wr_init(end, job, &wrs[i]);
    }
    wrs[batch - 1].flags |= RNIC_WQE_SIGNALED;
    start = bench_now();
    do {
        if (job->opcode == RNIC_WR_SEND) {
            take_credits(end, &credits, batch);
            credits -= batch;
        }
        th_post_send(end->qp, wrs, batch);
        batches++;
        if (++under_way == 4) {
            bench_end_wait(end, end->send_cq, &cqe);
            under_way--;
        }
    } while (bench_now() - start < job->seconds);
    for (; under_way; under_way--) {
        bench_end_wait(end, end->send_cq, &cqe);
    }
    /* Behind everything else */
    if (job->opcode == RNIC_WR_SEND) {
        take_credits(end, &credits, 1);
    }
    end->buf.ptr[0] = LAST;
    wrs[0].opcode = RNIC_WR_SEND;
    wrs[0].flags |= RNIC_WQE_SIGNALED;
    th_post_send(end->qp, wrs, 1);
    bench_end_wait(end, end->send_cq, &cqe);
    bench_hear(end->side, &done, 1);
    result->seconds = bench_now() - start;
    result->messages = (double)batches * batch;
    result->octets = result->messages * job->size;
}

static void stream_server(struct bench_end *end, const struct bench_job *job)
{
    unsigned due = 0, batch = window(job) / 4;
    struct rnic_cqe cqe;
    char done = 0;

    do {
        bench_end_wait(end, end->recv_cq, &cqe);
        if (end->buf.ptr[0] == LAST) {
            break;
        }
        post_recvs(end, job->size, 1);
        if (++due == batch) {
            eventfd_write(end->side->credits, due);
            due = 0;
        }
    } while (true);
    bench_tell(end->side, &done, 1);
}

static unsigned next_power(unsigned n)
{
    unsigned power = 1;

    while (power < n) {
        power *= 2;
    }
    return power;
}

void bench_stream(struct bench_side *side, const struct bench_job *job,
                  struct bench_result *result)
{
    unsigned depth = next_power(window(job) + 1);
    struct bench_end end;
    eventfd_t rest;

    bench_end_init(&end, side, job, depth, depth, stride(job), job->size);
    if (!side->client) {
        post_recvs(&end, job->size,
                   job->opcode == RNIC_WR_SEND ? window(job) : 1);
        bench_tell(side, "", 1);
        stream_server(&end, job);
        bench_end_free(&end);
        bench_tell(side, &end.engine_cpu, sizeof(end.engine_cpu));
        return;
    }
    bench_hear(side, &(char){ 0 }, 1);
    stream_client(&end, job, result);
    /* Credits of the last messages */
    eventfd_write(side->credits, 1);
    eventfd_read(side->credits, &rest);
    bench_end_free(&end);
    result->client_cpu = end.engine_cpu;
    bench_hear(side, &result->server_cpu, sizeof(result->server_cpu));
}

/* ---- Ping-pong ---- */

static void ping(struct bench_end *end, const struct bench_job *job,
                 uint64_t count)
{
    struct rnic_cqe cqe;
    struct th_wr wr;

    wr_init(end, job, &wr);
    if (count % 16 == 0) {
        wr.flags |= RNIC_WQE_SIGNALED;
        th_cq_poll(end->send_cq, &cqe);
    }
    th_post_send(end->qp, &wr, 1);
}

static void pong(struct bench_end *end, const struct bench_job *job)
{
    struct rnic_cqe cqe;

    bench_end_wait(end, end->recv_cq, &cqe);
    post_recvs(end, job->size, 1);
}

void bench_pingpong(struct bench_side *side, const struct bench_job *job,
                    struct bench_result *result)
{
    g_autoptr(GArray) taken = g_array_new(false, false, sizeof(double));
    struct bench_job send = *job;
    struct bench_end end;
    uint64_t count = 0;
    double start, before, after;
    bool last;

    send.opcode = RNIC_WR_SEND;
    bench_end_init(&end, side, &send, PING, PING, stride(&send), job->size);
    post_recvs(&end, job->size, PING / 2);
    bench_tell(side, "", 1);
    bench_hear(side, &(char){ 0 }, 1);
    if (!side->client) {
        /* What came is what goes back: its first octet, too */
        do {
            pong(&end, &send);
            last = end.buf.ptr[0] == LAST;
            ping(&end, &send, count++);
        } while (!last);
        bench_end_free(&end);
        return;
    }
    start = before = bench_now();
    do {
        end.buf.ptr[0] = before - start < job->seconds ? 0 : LAST;
        last = end.buf.ptr[0] == LAST;
        ping(&end, &send, count++);
        pong(&end, &send);
        after = bench_now();
        before = after - before;
        g_array_append_val(taken, before);
        before = after;
    } while (!last);
    bench_end_free(&end);
    result->seconds = after - start;
    result->messages = count * 2;
    result->round_trip_us =
        bench_median((double *)(void *)taken->data, taken->len) * 1e6;
}
