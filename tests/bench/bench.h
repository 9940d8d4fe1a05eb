/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * core-bench: two processes, a device in each, over the loopback fabric; and
 * beside them plain TCP between the same two processes
 *
 * The parent process is the client: it decides what is measured, and each job
 * has a half in each process. Job and results go over a socket pair.
 */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include <pthread.h>
#include <sched.h>
#include "harness.h"

/* How a program waits for what it needs next */
enum bench_wait {
    /* The engine has a thread of its own, as an IOThread of QEMU, which sleeps
     * when nothing is due */
    WAIT_EVENT, /* the application sleeps, too: CQ armed */
    WAIT_POLL,  /* the application polls the CQ, and yields
                                 * the processor between */
    /* One thread is application and engine: what the core itself costs */
    WAIT_ONE_SLEEP, /* sleeps in poll() when nothing is due */
    WAIT_ONE_SPIN,  /* never sleeps */
};

/* Which processors the two processes use */
enum bench_place {
    PLACE_ANY,
    PLACE_APART,    /* one each */
    PLACE_TOGETHER, /* one */
};

enum bench_kind {
    JOB_QUIT,
    JOB_TCP_STREAM,
    JOB_TCP_PINGPONG,
    JOB_STREAM,
    JOB_PINGPONG,
    JOB_IDLE,
    JOB_REGISTER, /* the client alone */
};

struct bench_job {
    enum bench_kind kind;
    enum rnic_wr_opcode opcode; /* JOB_STREAM: SEND, WRITE or READ */
    unsigned size;              /* octets of a message or a write() */
    bool crc;
    bool scattered;       /* buffers of scattered 4 KiB pages */
    enum bench_wait wait; /* TCP: WAIT_ONE_SPIN, or else it sleeps */
    enum bench_place place;
    unsigned qps; /* JOB_IDLE */
    double seconds;
};

struct bench_result {
    double seconds;
    double messages, octets;
    double round_trip_us;          /* the median */
    double client_cpu, server_cpu; /* seconds of the engine; of TCP's thread */
    double wakeups;                /* of both engines */
    double qp_octets;              /* JOB_IDLE: for each QP, the larger end */
    double register_us;
};

/* One process */
struct bench_side {
    bool client;
    int control;               /* to the other process */
    int credits;               /* eventfd: receives posted again, from server
                                 * to client */
    struct th_guest *guest[2]; /* with CRC off, with CRC on */
    int irq_fd[2];
    cpu_set_t cpus; /* that may be used */
};

double bench_now(void);
double bench_median(double *values, unsigned count);
/* Whole messages over the control socket */
void bench_tell(struct bench_side *side, const void *data, size_t len);
void bench_hear(struct bench_side *side, void *data, size_t len);

/* side.c: devices, engines, connections */

void bench_side_init(struct bench_side *side, bool client);
void bench_side_free(struct bench_side *side);

/* This process' end of a connection */
struct bench_end {
    struct bench_side *side;
    struct th_guest *guest;
    enum bench_wait wait;
    struct th_qp *qp;
    struct th_cq *send_cq, *recv_cq;
    struct th_buf buf;
    uint32_t stag, peer_stag;
    int irq_fd;
    size_t mem_mark;

    pthread_t engine;
    int stop_fd;
    double engine_cpu; /* seconds, after bench_end_free() */
};

#define BENCH_TO 0x100000ull /* of the first octet of a buffer */

/* Connects one QP and starts the engine as the job says */
void bench_end_init(struct bench_end *end, struct bench_side *side,
                    const struct bench_job *job, unsigned sq_depth,
                    unsigned rq_depth, unsigned stride, unsigned buf_len);
void bench_end_free(struct bench_end *end);
/* The next completion, waited for as the job says */
void bench_end_wait(struct bench_end *end, struct th_cq *cq,
                    struct rnic_cqe *cqe);

void bench_idle(struct bench_side *side, const struct bench_job *job,
                struct bench_result *result);
void bench_register(struct bench_side *side, const struct bench_job *job,
                    struct bench_result *result);

/* traffic.c and tcp.c: both halves of a job; the client's fills in @result */

void bench_stream(struct bench_side *side, const struct bench_job *job,
                  struct bench_result *result);
void bench_pingpong(struct bench_side *side, const struct bench_job *job,
                    struct bench_result *result);
void bench_tcp(struct bench_side *side, const struct bench_job *job,
               struct bench_result *result);

#endif
