/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What messages cost in doorbells, wake-ups of the engine, completion events
 * and interrupts: exact numbers, of the device, of QPs and of CQs
 */
#include "pair.h"

#include <string.h>

#define COUNT 200
#define EACH  10
#define SIZE  64

/* ---- Reading the counters ---- */

struct counters {
    uint64_t of[RNIC_STAT_COUNT];
};

/* Of the device: read at once, so reading costs nothing */
static struct counters device_counters(struct th_guest *guest)
{
    struct counters c;
    unsigned i;

    for (i = 0; i < RNIC_STAT_COUNT; i++) {
        c.of[i] = th_stat(guest, i);
    }
    return c;
}

/* As a driver reads them */
static struct counters qp_counters(struct th_qp *qp)
{
    uint64_t addr = th_alloc(qp->guest, sizeof(struct counters), 8);
    struct rnic_asqe cmd = {
        .opcode = RNIC_CMD_QUERY_STATS,
        .query_stats = { .addr = GUINT64_TO_LE(addr),
                         .count = GUINT32_TO_LE(RNIC_STAT_COUNT),
                         .qpn = GUINT32_TO_LE(qp->qpn) },
    };
    struct counters c;
    unsigned i;

    g_assert_cmpuint(th_admin(qp->guest, &cmd, NULL), ==, RNIC_ADMIN_OK);
    memcpy(&c, th_ptr(qp->guest, addr), sizeof(c));
    for (i = 0; i < RNIC_STAT_COUNT; i++) {
        c.of[i] = GUINT64_FROM_LE(c.of[i]);
    }
    return c;
}

static struct rnic_cq_counters cq_counters(struct th_cq *cq)
{
    struct rnic_asqe cmd = {
        .opcode = RNIC_CMD_QUERY_CQ,
        .id.id = GUINT32_TO_LE(cq->cqn),
    };
    struct rnic_acqe resp;

    g_assert_cmpuint(th_admin(cq->guest, &cmd, &resp), ==, RNIC_ADMIN_OK);
    return (struct rnic_cq_counters){
        .cqes = GUINT64_FROM_LE(resp.query_cq.cqes),
        .cq_events = GUINT64_FROM_LE(resp.query_cq.cq_events),
        .interrupts = GUINT64_FROM_LE(resp.query_cq.interrupts),
    };
}

static struct counters minus(struct counters a, struct counters b)
{
    unsigned i;

    for (i = 0; i < RNIC_STAT_COUNT; i++) {
        a.of[i] -= b.of[i];
    }
    return a;
}

/* What some work cost each side */
struct cost {
    struct counters device, qp;
    struct rnic_cq_counters send_cq, recv_cq;
    unsigned rings;
};

static void read_all(struct pair *pair, struct cost cost[2])
{
    unsigned i;

    /* The devices first: commands are work, too */
    for (i = 0; i < 2; i++) {
        cost[i].device = device_counters(pair->guest[i]);
        cost[i].rings = pair->guest[i]->rings;
    }
    for (i = 0; i < 2; i++) {
        cost[i].qp = qp_counters(pair->qp[i]);
        cost[i].send_cq = cq_counters(pair->qp[i]->attr.send_cq);
        cost[i].recv_cq = cq_counters(pair->qp[i]->attr.recv_cq);
    }
}

/* Messages from side 0 to side 1, and what they cost */
static void measure(struct pair *pair, void (*work)(struct pair *),
                    struct cost cost[2])
{
    struct cost before[2];
    unsigned i;

    pair_start(pair, RNIC_CRC_AUTO);
    th_run_for(20);
    read_all(pair, before);
    /* Reading is over before the work begins */
    for (i = 0; i < 2; i++) {
        before[i].device = device_counters(pair->guest[i]);
    }
    work(pair);
    th_run_for(20);
    read_all(pair, cost);
    for (i = 0; i < 2; i++) {
        cost[i].device = minus(cost[i].device, before[i].device);
        cost[i].qp = minus(cost[i].qp, before[i].qp);
        cost[i].rings -= before[i].rings;
        g_assert_cmpuint(before[i].send_cq.cqes + before[i].recv_cq.cqes, ==,
                         0);
        /* Everything of a QP is also the device's */
        g_assert_cmpuint(cost[i].qp.of[RNIC_STAT_doorbells], ==,
                         cost[i].device.of[RNIC_STAT_doorbells]);
        g_assert_cmpuint(cost[i].qp.of[RNIC_STAT_doorbells], ==, cost[i].rings);
        g_assert_cmpuint(cost[i].device.of[RNIC_STAT_kicks], ==, cost[i].rings);
        g_assert_cmpuint(cost[i].qp.of[RNIC_STAT_wakeups], >, 0);
        g_assert_cmpuint(cost[i].qp.of[RNIC_STAT_wakeups], <=,
                         cost[i].device.of[RNIC_STAT_wakeups]);
        g_assert_cmpuint(cost[i].qp.of[RNIC_STAT_cqes], ==,
                         cost[i].send_cq.cqes + cost[i].recv_cq.cqes);
        g_assert_cmpuint(cost[i].qp.of[RNIC_STAT_cq_events], ==,
                         cost[i].send_cq.cq_events + cost[i].recv_cq.cq_events);
        g_assert_cmpuint(cost[i].qp.of[RNIC_STAT_cq_events], ==,
                         cost[i].device.of[RNIC_STAT_cq_events]);
        g_assert_cmpuint(cost[i].qp.of[RNIC_STAT_interrupts], ==,
                         cost[i].send_cq.interrupts +
                             cost[i].recv_cq.interrupts);
        g_assert_cmpuint(cost[i].qp.of[RNIC_STAT_interrupts], ==,
                         cost[i].device.of[RNIC_STAT_interrupts]);
    }
}

static void expect_events(const struct cost *cost, uint64_t cqes,
                          uint64_t events)
{
    g_assert_cmpuint(cost->qp.of[RNIC_STAT_cqes], ==, cqes);
    g_assert_cmpuint(cost->qp.of[RNIC_STAT_cq_events], ==, events);
    /* The guest armed its EQ after each */
    g_assert_cmpuint(cost->qp.of[RNIC_STAT_interrupts], ==, events);
}

/* ---- Messages ---- */

static void send_one(struct pair *pair, unsigned i, unsigned flags)
{
    struct th_wr wr = {
        .opcode = RNIC_WR_SEND,
        .flags = flags,
        .wr_id = i,
        .sge = { pair_sge(pair, 0, 0, SIZE) },
        .num_sge = 1,
    };

    pair_post_recv(pair, 1, i, 0, SIZE);
    th_post_send(pair->qp[0], &wr, 1);
}

static void take_event(struct th_cq *cq)
{
    struct th_eq *ceq = &cq->guest->ceq;

    th_wait(th_ceq_poll(ceq) == cq->cqn);
    th_eq_arm(ceq);
}

static void polled(struct pair *pair)
{
    unsigned i;

    for (i = 0; i < COUNT; i++) {
        send_one(pair, i, RNIC_WQE_SIGNALED);
        pair_wait_send(pair, 0, i, RNIC_WC_SUCCESS, NULL);
        pair_wait_recv(pair, 1, i, RNIC_WC_SUCCESS, NULL);
    }
}

static void test_polling_costs_no_event(void)
{
    struct cost cost[2];
    struct pair pair;
    unsigned i;

    measure(&pair, polled, cost);
    expect_events(&cost[0], COUNT, 0);
    expect_events(&cost[1], COUNT, 0);
    /* The receiver rings for nothing, the sender at most for each message */
    g_assert_cmpuint(cost[0].rings, >, 0);
    g_assert_cmpuint(cost[0].rings, <=, COUNT);
    g_assert_cmpuint(cost[1].rings, ==, 0);
    /* The engines had nothing else to wake up for */
    for (i = 0; i < 2; i++) {
        g_assert_cmpuint(cost[i].qp.of[RNIC_STAT_wakeups], ==,
                         cost[i].device.of[RNIC_STAT_wakeups]);
    }
    pair_free(&pair);
}

static void event_driven(struct pair *pair)
{
    struct th_cq *send_cq = pair->qp[0]->attr.send_cq;
    struct th_cq *recv_cq = pair->qp[1]->attr.recv_cq;
    unsigned i;

    for (i = 0; i < COUNT; i++) {
        g_assert_false(th_cq_arm(send_cq, RNIC_CQ_ARM_ANY));
        g_assert_false(th_cq_arm(recv_cq, RNIC_CQ_ARM_ANY));
        send_one(pair, i, RNIC_WQE_SIGNALED);
        take_event(send_cq);
        take_event(recv_cq);
        pair_wait_send(pair, 0, i, RNIC_WC_SUCCESS, NULL);
        pair_wait_recv(pair, 1, i, RNIC_WC_SUCCESS, NULL);
    }
}

static void test_each_armed_completion_is_one_event(void)
{
    struct cost cost[2];
    struct pair pair;

    measure(&pair, event_driven, cost);
    expect_events(&cost[0], COUNT, COUNT);
    expect_events(&cost[1], COUNT, COUNT);
    pair_free(&pair);
}

static void solicited_only(struct pair *pair)
{
    struct th_cq *recv_cq = pair->qp[1]->attr.recv_cq;
    unsigned i, k;

    th_cq_arm(recv_cq, RNIC_CQ_ARM_SOLICITED);
    for (i = 0; i < COUNT; i += EACH) {
        for (k = 0; k < EACH; k++) {
            send_one(pair, i + k,
                     RNIC_WQE_SIGNALED |
                         (k == EACH - 1 ? RNIC_WQE_SOLICITED : 0));
            pair_wait_send(pair, 0, i + k, RNIC_WC_SUCCESS, NULL);
            pair_wait_recv(pair, 1, i + k, RNIC_WC_SUCCESS, NULL);
            if (k < EACH - 1) {
                g_assert_cmpuint(th_ceq_poll(&recv_cq->guest->ceq), ==, 0);
            }
        }
        take_event(recv_cq);
        g_assert_false(th_cq_arm(recv_cq, RNIC_CQ_ARM_SOLICITED));
    }
}

static void test_only_solicited_messages_are_events(void)
{
    struct cost cost[2];
    struct pair pair;

    measure(&pair, solicited_only, cost);
    expect_events(&cost[0], COUNT, 0);
    expect_events(&cost[1], COUNT, COUNT / EACH);
    pair_free(&pair);
}

static void unsignalled(struct pair *pair)
{
    unsigned i;

    for (i = 1; i <= COUNT; i++) {
        send_one(pair, i, i % EACH ? 0 : RNIC_WQE_SIGNALED);
        pair_wait_recv(pair, 1, i, RNIC_WC_SUCCESS, NULL);
        if (i % EACH == 0) {
            pair_wait_send(pair, 0, i, RNIC_WC_SUCCESS, NULL);
        }
    }
}

static void test_unsignalled_sends_do_not_complete(void)
{
    struct cost cost[2];
    struct pair pair;

    measure(&pair, unsignalled, cost);
    expect_events(&cost[0], COUNT / EACH, 0);
    expect_events(&cost[1], COUNT, 0);
    pair_free(&pair);
}

/* Of moderation: an event after EACH completions, or this many microseconds */
#define PERIOD_US 60000

static uint64_t moderated_ms; /* how long it took */

static void moderated(struct pair *pair)
{
    struct th_cq *cq = pair->qp[1]->attr.recv_cq;
    struct rnic_cmd_modify_cq modify = { GUINT32_TO_LE(cq->cqn),
                                         GUINT16_TO_LE(EACH),
                                         GUINT16_TO_LE(PERIOD_US) };
    uint64_t start = th_now_ms();
    unsigned taken = 0, sent = 0;
    struct rnic_cqe cqe;

    /* Not by a command, which would be counted with the messages */
    g_assert_cmpuint(rnic_cq_modify(pair->guest[1]->dev, &modify), ==,
                     RNIC_ADMIN_OK);
    th_cq_arm(cq, RNIC_CQ_ARM_ANY);
    while (taken < COUNT) {
        /* One after the other, and nobody looks before there is an event */
        if (sent < COUNT) {
            send_one(pair, sent, RNIC_WQE_SIGNALED);
            pair_wait_send(pair, 0, sent++, RNIC_WC_SUCCESS, NULL);
            th_step(0);
        }
        if (th_ceq_poll(&cq->guest->ceq) != cq->cqn) {
            th_step(sent < COUNT ? 0 : 20);
            continue;
        }
        th_eq_arm(&cq->guest->ceq);
        do {
            while (th_cq_poll(cq, &cqe)) {
                taken++;
            }
        } while (th_cq_arm(cq, RNIC_CQ_ARM_ANY));
    }
    moderated_ms = th_now_ms() - start;
}

static void test_moderation_makes_one_event_of_many(void)
{
    struct cost cost[2];
    struct pair pair;

    measure(&pair, moderated, cost);
    g_assert_cmpuint(cost[1].qp.of[RNIC_STAT_cqes], ==, COUNT);
    g_assert_cmpuint(cost[1].qp.of[RNIC_STAT_cq_events], >, 0);
    /* On a slow machine the period ends now and then */
    g_assert_cmpuint(cost[1].qp.of[RNIC_STAT_cq_events], <=,
                     COUNT / EACH + moderated_ms * 1000 / PERIOD_US + 1);
    pair_free(&pair);
}

static void writes(struct pair *pair)
{
    unsigned i;

    /* Whoever waits there waits on */
    th_cq_arm(pair->qp[1]->attr.recv_cq, RNIC_CQ_ARM_ANY);
    th_cq_arm(pair->qp[1]->attr.send_cq, RNIC_CQ_ARM_ANY);
    pair_post_recv(pair, 1, 0, 0, SIZE);
    th_fill(pair->buf[0].ptr, SIZE * COUNT, 7);
    for (i = 0; i < COUNT; i++) {
        pair_post(pair, 0, RNIC_WR_WRITE, i, i * SIZE, SIZE, 0);
        pair_wait_send(pair, 0, i, RNIC_WC_SUCCESS, NULL);
    }
    th_wait(!memcmp(pair->buf[0].ptr, pair->buf[1].ptr, SIZE * COUNT));
}

static void test_write_costs_its_target_nothing(void)
{
    struct cost cost[2];
    struct pair pair;

    measure(&pair, writes, cost);
    expect_events(&cost[0], COUNT, 0);
    expect_events(&cost[1], 0, 0);
    g_assert_cmpuint(cost[1].rings, ==, 0);
    g_assert_cmpuint(cost[1].device.of[RNIC_STAT_cqes], ==, 0);
    g_assert_cmpuint(cost[1].device.of[RNIC_STAT_async_events], ==, 0);
    pair_no_completions(&pair, 1);
    pair_free(&pair);
}

/* ---- Which QP it was ---- */

static void test_two_queue_pairs_of_one_queue_are_counted_apart(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 64);
    struct th_qp_attr attr;
    struct th_qp *qp[4];
    struct counters c;
    unsigned i, k;

    th_qp_attr_init(&attr);
    attr.flags = RNIC_QP_KERNEL;
    attr.send_cq = attr.recv_cq = cq;
    for (i = 0; i < 4; i++) {
        qp[i] = th_qp_new(guest, &attr);
    }
    th_connect_pair(qp[0], "10.0.0.1", qp[2], "10.0.0.1", NULL);
    th_connect_pair(qp[1], "10.0.0.1", qp[3], "10.0.0.1", NULL);
    for (i = 0; i < 2; i++) {
        for (k = 0; k < 3 + i; k++) {
            struct th_wr wr = {
                .opcode = RNIC_WR_SEND,
                .flags = RNIC_WQE_SIGNALED,
            };
            struct rnic_sge none = { 0 };
            struct rnic_cqe cqe;

            th_post_recv(qp[2 + i], 0, &none, 0);
            th_cq_arm(cq, RNIC_CQ_ARM_ANY);
            th_post_send(qp[i], &wr, 1);
            /* The event of the first of two completions */
            take_event(cq);
            th_cq_wait(cq, &cqe);
            th_cq_wait(cq, &cqe);
        }
    }
    for (i = 0; i < 4; i++) {
        c = qp_counters(qp[i]);
        g_assert_cmpuint(c.of[RNIC_STAT_cqes], ==, 3 + i % 2);
        g_assert_cmpuint(c.of[RNIC_STAT_doorbells], ==, i < 2 ? 3 + i : 0);
        g_assert_cmpuint(c.of[RNIC_STAT_kicks], ==, 0);
    }
    g_assert_cmpuint(cq_counters(cq).cqes, ==, 14);
    g_assert_cmpuint(cq_counters(cq).cq_events, ==, 7);
    for (i = k = 0; i < 4; i++) {
        k += qp_counters(qp[i]).of[RNIC_STAT_cq_events];
    }
    g_assert_cmpuint(k, ==, 7);
    th_guest_free(guest);
}

/* The host's own way to them */
static void see_qp(void *opaque, uint32_t qpn, const uint64_t *counters)
{
    struct th_qp *qp = opaque;

    g_assert_cmpuint(qpn, ==, qp->qpn);
    g_assert_cmpuint(counters[RNIC_STAT_cqes], ==, COUNT);
    qp->sq_pi = 0;
}

static void see_cq(void *opaque, uint32_t cqn,
                   const struct rnic_cq_counters *counters)
{
    uint64_t *sum = opaque;

    *sum += counters->cqes;
}

static void test_host_sees_every_queue(void)
{
    struct cost cost[2];
    struct pair pair;
    uint64_t sum = 0;

    measure(&pair, polled, cost);
    rnic_device_qp_stats(pair.guest[0]->dev, see_qp, pair.qp[0]);
    g_assert_cmpuint(pair.qp[0]->sq_pi, ==, 0);
    rnic_device_cq_stats(pair.guest[1]->dev, see_cq, &sum);
    g_assert_cmpuint(sum, ==, COUNT);
    pair_free(&pair);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add_func("/notification/" #name, test_##name)
    ADD(polling_costs_no_event);
    ADD(each_armed_completion_is_one_event);
    ADD(only_solicited_messages_are_events);
    ADD(unsignalled_sends_do_not_complete);
    ADD(moderation_makes_one_event_of_many);
    ADD(write_costs_its_target_nothing);
    ADD(two_queue_pairs_of_one_queue_are_counted_apart);
    ADD(host_sees_every_queue);
    return g_test_run();
}
