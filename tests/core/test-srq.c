/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared receive queues: taking receives, limit, failure
 */
#include <string.h>
#include "harness.h"

/* Takes the next receive; its wr_id, 0: there is none */
static uint64_t take(struct th_srq *srq)
{
    struct rnic_device *dev = srq->guest->dev;
    uint8_t octets[RNIC_WQE_STRIDE_MAX];
    struct rnic_rq_wqe wqe;
    uint32_t index;

    memset(octets, 0xee, sizeof(octets));
    if (!rnic_srq_take(dev, rnic_srq_find(dev, srq->srqn), octets, &index)) {
        return 0;
    }
    memcpy(&wqe, octets, sizeof(wqe));
    g_assert_cmpuint(wqe.num_sge, ==, 2);
    /* Nothing behind the stride */
    g_assert_cmpuint(octets[srq->stride], ==, 0);
    g_assert_cmpuint(octets[sizeof(octets) - 1], ==, 0);
    return GUINT64_FROM_LE(wqe.wr_id);
}

static void post(struct th_srq *srq, uint64_t wr_id)
{
    struct rnic_sge sge[2] = { th_sge(1, 2, 3), th_sge(4, 5, 6) };

    th_srq_post(srq, wr_id, sge, 2);
}

static uint32_t posted(struct th_srq *srq)
{
    struct rnic_asqe cmd = {
        .opcode = RNIC_CMD_QUERY_SRQ,
        .id.id = GUINT32_TO_LE(srq->srqn),
    };
    struct rnic_acqe resp;

    g_assert_cmpuint(th_admin(srq->guest, &cmd, &resp), ==, RNIC_ADMIN_OK);
    return GUINT32_FROM_LE(resp.query_srq.posted);
}

static void set_limit(struct th_srq *srq, uint32_t limit)
{
    struct rnic_asqe cmd = {
        .opcode = RNIC_CMD_MODIFY_SRQ,
        .modify_srq = { GUINT32_TO_LE(srq->srqn), GUINT32_TO_LE(limit) },
    };

    g_assert_cmpuint(th_admin(srq->guest, &cmd, NULL), ==, RNIC_ADMIN_OK);
}

static void test_receives_are_taken_in_order_over_many_laps(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_srq *srq = th_srq_new(guest, 4, 0);
    uint64_t in = 1, out = 1;
    unsigned i, k;

    for (i = 0; i < 30; i++) {
        for (k = 0; k < 1 + i % 4; k++) {
            post(srq, in++);
        }
        g_assert_cmpuint(posted(srq), ==, 1 + i % 4);
        for (k = 0; k < 1 + i % 4; k++) {
            g_assert_cmpuint(take(srq), ==, out++);
        }
        g_assert_cmpuint(take(srq), ==, 0);
    }
    th_guest_free(guest);
}

static void test_limit_event_comes_once(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_srq *srq = th_srq_new(guest, 16, 3);
    uint64_t i;

    for (i = 1; i <= 10; i++) {
        post(srq, i);
    }
    for (i = 1; i <= 7; i++) {
        take(srq);
    }
    g_assert_cmpuint(th_events(guest), ==, 0);
    take(srq);
    th_event_wait(guest, RNIC_EV_SRQ_LIMIT, srq->srqn, NULL);
    take(srq);
    take(srq);
    g_assert_cmpuint(th_events(guest), ==, 0);
    /* Armed again by MODIFY_SRQ */
    post(srq, 11);
    post(srq, 12);
    set_limit(srq, 2);
    take(srq);
    th_event_wait(guest, RNIC_EV_SRQ_LIMIT, srq->srqn, NULL);
    th_guest_free(guest);
}

/* Armed when there is nothing to take any more: the first who wants one tells */
static void test_limit_of_an_empty_queue(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_srq *srq = th_srq_new(guest, 16, 0);

    g_assert_cmpuint(take(srq), ==, 0);
    g_assert_cmpuint(th_events(guest), ==, 0);
    set_limit(srq, 3);
    g_assert_cmpuint(th_events(guest), ==, 0);
    g_assert_cmpuint(take(srq), ==, 0);
    th_event_wait(guest, RNIC_EV_SRQ_LIMIT, srq->srqn, NULL);
    g_assert_cmpuint(take(srq), ==, 0);
    g_assert_cmpuint(th_events(guest), ==, 0);
    th_guest_free(guest);
}

static void test_limit_counts_what_was_posted_meanwhile(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_srq *srq = th_srq_new(guest, 16, 3);
    uint64_t i;

    for (i = 1; i <= 4; i++) {
        post(srq, i);
    }
    /* The device knows of four; by the time that few are left of these, there
     * are more */
    take(srq);
    for (i = 5; i <= 10; i++) {
        post(srq, i);
    }
    take(srq);
    take(srq);
    take(srq);
    g_assert_cmpuint(th_events(guest), ==, 0);
    th_guest_free(guest);
}

static void test_producer_too_far_ahead_fails_the_queue_once(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_srq *srq = th_srq_new(guest, 4, 0);
    struct rnic_qp_dbrec *dbrec = th_ptr(guest, srq->dbrec);

    post(srq, 1);
    dbrec->rq_pi = GUINT32_TO_LE(5);
    g_assert_cmpuint(take(srq), ==, 0);
    g_assert_cmpuint(take(srq), ==, 0);
    th_event_wait(guest, RNIC_EV_SRQ_ERR, srq->srqn, NULL);
    /* For good */
    dbrec->rq_pi = GUINT32_TO_LE(1);
    g_assert_cmpuint(take(srq), ==, 0);
    g_assert_cmpuint(th_events(guest), ==, 0);
    g_assert_cmpuint(th_admin_id(guest, RNIC_CMD_QUERY_SRQ, srq->srqn), ==,
                     RNIC_ADMIN_BAD_STATE);
    th_srq_free(srq);
    th_guest_free(guest);
}

static void test_producer_that_goes_back_fails_the_queue(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_srq *srq = th_srq_new(guest, 4, 0);
    struct rnic_qp_dbrec *dbrec = th_ptr(guest, srq->dbrec);

    post(srq, 1);
    g_assert_cmpuint(take(srq), ==, 1);
    dbrec->rq_pi = 0;
    g_assert_cmpuint(take(srq), ==, 0);
    th_event_wait(guest, RNIC_EV_SRQ_ERR, srq->srqn, NULL);
    th_guest_free(guest);
}

static void test_buffer_that_vanishes_fails_the_queue(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_srq *ring = th_srq_new(guest, 4, 0);
    struct th_srq *dbrec = th_srq_new(guest, 4, 0);

    post(ring, 1);
    post(dbrec, 1);
    th_make_hole(guest, ring->addr, 64);
    th_make_hole(guest, dbrec->dbrec, 64);
    g_assert_cmpuint(take(ring), ==, 0);
    g_assert_cmpuint(take(dbrec), ==, 0);
    th_event_wait(guest, RNIC_EV_SRQ_ERR, ring->srqn, NULL);
    th_event_wait(guest, RNIC_EV_SRQ_ERR, dbrec->srqn, NULL);
    th_guest_free(guest);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add_func("/srq/" #name, test_##name)
    ADD(receives_are_taken_in_order_over_many_laps);
    ADD(limit_event_comes_once);
    ADD(limit_of_an_empty_queue);
    ADD(limit_counts_what_was_posted_meanwhile);
    ADD(producer_too_far_ahead_fails_the_queue_once);
    ADD(producer_that_goes_back_fails_the_queue);
    ADD(buffer_that_vanishes_fails_the_queue);
    return g_test_run();
}
