/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stop, reset and removal of a device in the middle of a stream, 50 times each,
 * with a peer that goes on: nothing is left behind at either end
 */
#include "harness.h"
#include "usage.h"

#include <string.h>

#define CYCLES  50
#define WARM_UP 5
#define BURST   24
#define SIZE    (64 << 10)
/* Octets of heap that the harness keeps of a cycle's queues */
#define HARNESS 512

/* Device 0 is what things happen to, device 1 its peer */
struct world {
    struct th_guest *guest[2];
    struct th_buf buf[2];
    uint32_t stag[2];
    struct th_qp *qp[2];
};

static const char *const addresses[2] = { "10.0.0.1", "10.0.0.2" };

static void start_guest(struct world *w, unsigned i)
{
    struct th_options options;

    th_options_init(&options);
    options.mem_size = 64 << 20;
    w->guest[i] = th_guest_started(&options);
}

static void give_memory(struct world *w, unsigned i)
{
    w->buf[i] = th_buf_new(w->guest[i], SIZE, 0, 0);
    w->stag[i] = th_reg_mr(w->guest[i], &w->buf[i], 0, RNIC_ACCESS_ALL);
}

static struct th_wr write_wr(struct world *w, unsigned side)
{
    return (struct th_wr){
        .opcode = RNIC_WR_WRITE,
        .flags = RNIC_WQE_SIGNALED,
        .sge = { th_sge(w->stag[side], 0, SIZE) },
        .num_sge = 1,
        .remote_stag = w->stag[!side],
    };
}

/* Both ways, without waiting for the end */
static void begin_burst(struct world *w)
{
    unsigned side, i;

    for (side = 0; side < 2; side++) {
        for (i = 0; i < BURST; i++) {
            struct th_wr wr = write_wr(w, side);

            th_post_send(w->qp[side], &wr, 1);
        }
    }
    /* It is under way, and not over */
    th_wait(th_stat(w->guest[1], RNIC_STAT_rx_octets) > 0);
}

static void end_burst(struct world *w)
{
    struct rnic_cqe cqe;
    unsigned side, i;

    for (side = 0; side < 2; side++) {
        for (i = 0; i < BURST; i++) {
            th_cq_wait(w->qp[side]->attr.send_cq, &cqe);
            g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
        }
    }
}

static void connect_them(struct world *w)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        w->qp[i] = th_qp_new(w->guest[i], NULL);
    }
    th_connect_pair(w->qp[0], addresses[0], w->qp[1], addresses[1], NULL);
    begin_burst(w);
    end_burst(w);
}

/* The peer notices, everything that it posted completes, and it is well */
static void peer_sees_the_end(struct world *w)
{
    struct rnic_cqe cqe;
    unsigned i;

    th_event_wait(w->guest[1], RNIC_EV_CLOSE, w->qp[1]->qpn, NULL);
    g_assert_cmpuint(th_qp_state(w->qp[1]), ==, RNIC_QPS_ERROR);
    for (i = 0; i < BURST; i++) {
        th_cq_wait(w->qp[1]->attr.send_cq, &cqe);
    }
    while (th_events(w->guest[1])) {
        struct rnic_aeqe event;

        for (i = 0; i < 256; i++) {
            th_event_take(w->guest[1], i, TH_ANY_ID, &event);
        }
    }
    th_qp_free(w->qp[1]);
}

static void stop_and_go_on(struct world *w)
{
    uint64_t octets;

    connect_them(w);
    begin_burst(w);
    rnic_device_quiesce(w->guest[0]->dev);
    octets = th_stat(w->guest[0], RNIC_STAT_rx_octets);
    th_run_for(2);
    g_assert_cmpuint(th_stat(w->guest[0], RNIC_STAT_rx_octets), ==, octets);
    rnic_device_resume(w->guest[0]->dev);
    end_burst(w);
    th_qp_free(w->qp[0]);
    th_event_wait(w->guest[1], RNIC_EV_CLOSE, w->qp[1]->qpn, NULL);
    th_event_take(w->guest[1], RNIC_EV_DISCONNECT, w->qp[1]->qpn, NULL);
    th_qp_free(w->qp[1]);
}

static void reset(struct world *w)
{
    connect_them(w);
    begin_burst(w);
    th_reset(w->guest[0]);
    peer_sees_the_end(w);
    /* Its memory is what a new driver finds, too */
    th_start(w->guest[0]);
    give_memory(w, 0);
}

static void removal(struct world *w)
{
    connect_them(w);
    begin_burst(w);
    th_guest_free(w->guest[0]);
    peer_sees_the_end(w);
    start_guest(w, 0);
    give_memory(w, 0);
}

static void run(void (*cycle)(struct world *))
{
    struct usage before;
    struct world w;
    unsigned i;

    for (i = 0; i < 2; i++) {
        start_guest(&w, i);
        give_memory(&w, i);
    }
    for (i = 0; i < WARM_UP + CYCLES; i++) {
        if (i == WARM_UP) {
            before = usage_now();
        }
        cycle(&w);
    }
    usage_check(&before, CYCLES * HARNESS, 4 * CYCLES);
    connect_them(&w);
    th_guest_free(w.guest[0]);
    th_guest_free(w.guest[1]);
}

static void test_stop_and_go_on(void)
{
    run(stop_and_go_on);
}

static void test_reset(void)
{
    run(reset);
}

static void test_removal(void)
{
    run(removal);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add_func("/cycles/" #name, test_##name)
    ADD(stop_and_go_on);
    ADD(reset);
    ADD(removal);
    return g_test_run();
}
