/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stores of the guest that are still in its processor's store buffer when the
 * device looks
 *
 * Both sides of a notification store, then look at what the other one stores.
 * The guest here has stored, and looked and found nothing, just before the
 * device made its store; nobody sees the guest's store before a fence. So the
 * device finds it only if it looks after a fence that follows its own store.
 */
#include <string.h>
#include "harness-netq.h"
#include "pair.h"

#define A "10.0.0.1"
#define B "10.0.0.2"

static struct {
    uint32_t *word; /* stored and not visible; NULL: nothing */
    uint32_t value;
    const uint32_t *looked; /* at this word, afterwards */
    uint32_t found;
} processor;

static void fence(struct th_guest *guest)
{
    if (processor.word && __atomic_load_n(processor.looked, __ATOMIC_SEQ_CST) !=
                              processor.found) {
        __atomic_store_n(processor.word, processor.value, __ATOMIC_SEQ_CST);
        processor.word = NULL;
    }
}

/* The guest stored @value, then looked at @looked. *@word is as before it. */
static void stored(void *word, uint32_t value, const void *looked)
{
    processor.word = word;
    processor.value = value;
    processor.looked = looked;
    processor.found = __atomic_load_n(processor.looked, __ATOMIC_SEQ_CST);
}

/* What was just stored to @word, where @before was, is not visible yet */
static void not_yet_visible(void *word, uint32_t before, const void *looked)
{
    uint32_t value = __atomic_load_n((uint32_t *)word, __ATOMIC_SEQ_CST);

    __atomic_store_n((uint32_t *)word, before, __ATOMIC_SEQ_CST);
    stored(word, value, looked);
}

static struct th_guest *guest_new(void)
{
    struct th_options options;

    th_options_init(&options);
    options.fence = fence;
    return th_guest_started(&options);
}

static void end(void)
{
    g_assert_null(processor.word);
}

/* The word of an entry that has its phase */
static const void *phase_word(struct th_guest *guest, uint64_t entries,
                              uint32_t index, size_t size)
{
    return th_ptr(guest, entries + (index + 1) * size - sizeof(uint32_t));
}

static void complete(struct th_cq *cq)
{
    struct rnic_cqe cqe = { .status = RNIC_WC_SUCCESS };

    g_assert_true(rnic_cq_post(cq->guest->dev,
                               rnic_cq_find(cq->guest->dev, cq->cqn), &cqe));
}

/* ---- Events ---- */

static void test_completion_queue_armed(void)
{
    struct th_guest *guest = guest_new();
    struct th_cq *cq = th_cq_new(guest, 8);
    struct rnic_cq_dbrec *dbrec = th_ptr(guest, cq->dbrec);

    stored(&dbrec->arm, GUINT32_TO_LE(1 << 2 | RNIC_CQ_ARM_ANY),
           phase_word(guest, cq->addr, 0, sizeof(struct rnic_cqe)));
    complete(cq);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, cq->cqn);
    end();
    th_guest_free(guest);
}

static void test_event_queue_armed(void)
{
    struct th_guest *guest = guest_new();
    struct th_cq *cq = th_cq_new(guest, 8);
    struct th_eq *ceq = &guest->ceq;
    struct rnic_eq_dbrec *dbrec = th_ptr(
        guest, ceq->addr + (uint64_t)ceq->depth * sizeof(struct rnic_ceqe));
    struct rnic_cqe cqe;
    unsigned irqs;

    th_cq_arm(cq, RNIC_CQ_ARM_ANY);
    complete(cq);
    g_assert_true(th_cq_poll(cq, &cqe));
    g_assert_cmpuint(th_ceq_poll(ceq), ==, cq->cqn);
    irqs = guest->irqs[1];

    th_cq_arm(cq, RNIC_CQ_ARM_ANY);
    stored(&dbrec->arm, GUINT32_TO_LE(ceq->ci),
           phase_word(guest, ceq->addr, ceq->ci, sizeof(struct rnic_ceqe)));
    complete(cq);
    g_assert_cmpuint(guest->irqs[1], ==, irqs + 1);
    end();
    th_guest_free(guest);
}

/* ---- Work ---- */

static void pair_fenced(struct pair *pair)
{
    pair_start(pair, RNIC_CRC_OFF);
    pair->guest[0]->options.fence = fence;
}

static void test_send_queue_index(void)
{
    struct pair p;
    struct th_wr wr = { .opcode = RNIC_WR_WRITE, .flags = RNIC_WQE_SIGNALED };
    struct rnic_qp_dbrec *dbrec;
    struct rnic_qp_status *status;

    pair_fenced(&p);
    dbrec = th_ptr(p.guest[0], p.qp[0]->dbrec);
    status = th_ptr(p.guest[0], p.qp[0]->status);
    wr.wr_id = 1;
    th_post_send(p.qp[0], &wr, 1);
    /* The device is awake, so nobody rings for this one */
    wr.wr_id = 2;
    th_post_send_quiet(p.qp[0], &wr, 1);
    not_yet_visible(&dbrec->sq_pi, GUINT32_TO_LE(1), &status->sq_event);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    pair_wait_send(&p, 0, 2, RNIC_WC_SUCCESS, NULL);
    end();
    pair_free(&p);
}

static void test_receive_queue_index_when_the_state_becomes_error(void)
{
    struct pair p;
    struct rnic_qp_dbrec *dbrec;
    struct rnic_qp_status *status;

    pair_fenced(&p);
    dbrec = th_ptr(p.guest[0], p.qp[0]->dbrec);
    status = th_ptr(p.guest[0], p.qp[0]->status);
    pair_post_recv(&p, 0, 1, 0, 64);
    not_yet_visible(&dbrec->rq_pi, 0, &status->state);
    g_assert_cmpuint(th_qp_modify(p.qp[0], RNIC_QPS_ERROR), ==, RNIC_ADMIN_OK);
    pair_wait_recv(&p, 0, 1, RNIC_WC_WR_FLUSH_ERR, NULL);
    end();
    pair_free(&p);
}

/* ---- The net queue ---- */

struct two {
    struct th_guest *guest[2];
    struct th_netq netq[2];
};

static struct two two_new(void)
{
    struct two two;
    unsigned i;

    for (i = 0; i < 2; i++) {
        two.guest[i] = guest_new();
        two.netq[i] = th_netq_new(two.guest[i], 64, 64);
        g_assert_cmpuint(th_addr_add(two.guest[i], i ? B : A), ==,
                         RNIC_ADMIN_OK);
        th_netq_fill(&two.netq[i], 2048);
    }
    return two;
}

static void two_free(struct two *two)
{
    end();
    th_guest_free(two->guest[0]);
    th_guest_free(two->guest[1]);
}

static void test_net_receive_armed(void)
{
    struct two two = two_new();
    struct th_netq *netq = &two.netq[1];
    unsigned irqs = two.guest[1]->irqs[2];

    stored(&th_netq_dbrec(netq)->rx_arm, GUINT32_TO_LE(0),
           phase_word(two.guest[1], netq->buf + netq->cq_offset, 0,
                      sizeof(struct rnic_net_cqe)));
    th_netq_send_packet(&two.netq[0], A, B, 100, 1);
    th_netq_expect(netq, A, B, 100, 1);
    th_wait(two.guest[1]->irqs[2] == irqs + 1);
    two_free(&two);
}

static void test_net_transmit_armed(void)
{
    struct two two = two_new();
    struct th_netq *netq = &two.netq[0];
    unsigned irqs = two.guest[0]->irqs[2];

    stored(&th_netq_dbrec(netq)->tx_arm, GUINT32_TO_LE(0),
           &th_netq_status(netq)->tx_ci);
    th_netq_send_packet(netq, A, B, 100, 1);
    th_wait(two.guest[0]->irqs[2] == irqs + 1);
    two_free(&two);
}

static void test_net_transmit_index(void)
{
    struct two two = two_new();
    struct th_netq *netq = &two.netq[0];
    uint64_t second = th_packet_new(two.guest[0], A, B, 100, 2);

    th_netq_send_packet(netq, A, B, 100, 1);
    th_netq_send_quiet(netq, second, 100);
    not_yet_visible(&th_netq_dbrec(netq)->tx_pi, GUINT32_TO_LE(1),
                    &th_netq_status(netq)->tx_event);
    th_netq_expect(&two.netq[1], A, B, 100, 1);
    th_netq_expect(&two.netq[1], A, B, 100, 2);
    two_free(&two);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/fence/completion-queue-armed",
                    test_completion_queue_armed);
    g_test_add_func("/fence/event-queue-armed", test_event_queue_armed);
    g_test_add_func("/fence/send-queue-index", test_send_queue_index);
    g_test_add_func("/fence/receive-queue-index-when-the-state-becomes-error",
                    test_receive_queue_index_when_the_state_becomes_error);
    g_test_add_func("/fence/net-receive-armed", test_net_receive_armed);
    g_test_add_func("/fence/net-transmit-armed", test_net_transmit_armed);
    g_test_add_func("/fence/net-transmit-index", test_net_transmit_index);
    return g_test_run();
}
