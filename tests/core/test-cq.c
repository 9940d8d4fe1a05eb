/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completion queues: entries, arming, moderation, overflow
 */
#include "harness.h"

/* A completion as the data path makes them */
static bool post(struct th_cq *cq, uint64_t wr_id, unsigned status,
                 unsigned flags)
{
    struct rnic_device *dev = cq->guest->dev;
    struct rnic_cqe cqe = {
        .wr_id = GUINT64_TO_LE(wr_id),
        .status = status,
        .flags = flags,
        /* The queue sets the phase: what is here must not matter */
        .phase = 0xff,
    };

    return rnic_cq_post(dev, rnic_cq_find(dev, cq->cqn), &cqe);
}

static void expect(struct th_cq *cq, uint64_t wr_id)
{
    struct rnic_cqe cqe;

    g_assert_true(th_cq_poll(cq, &cqe));
    g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, wr_id);
}

static void expect_none(struct th_cq *cq)
{
    struct rnic_cqe cqe;

    g_assert_false(th_cq_poll(cq, &cqe));
}

static void modify(struct th_cq *cq, unsigned count, unsigned period_us)
{
    struct rnic_asqe cmd = {
        .opcode = RNIC_CMD_MODIFY_CQ,
        .modify_cq = { GUINT32_TO_LE(cq->cqn), GUINT16_TO_LE(count),
                       GUINT16_TO_LE(period_us) },
    };

    g_assert_cmpuint(th_admin(cq->guest, &cmd, NULL), ==, RNIC_ADMIN_OK);
}

static void test_entries_are_owned_by_phase_over_many_laps(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 4);
    uint64_t i, k;

    for (i = 0; i < 22; i += 1 + i % 4) {
        for (k = 0; k < 1 + i % 4; k++) {
            g_assert_true(post(cq, i + k, 0, 0));
        }
        for (k = 0; k < 1 + i % 4; k++) {
            expect(cq, i + k);
        }
        expect_none(cq);
    }
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_cqes), ==, cq->ci);
    th_guest_free(guest);
}

static void test_indices_wrap(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 4);
    struct rnic_cq *queue = rnic_cq_find(guest->dev, cq->cqn);
    struct rnic_cq_dbrec *dbrec = th_ptr(guest, cq->dbrec);
    uint64_t i;

    /* As after 2^32 - 4 entries: the last lap left phase 1 behind */
    queue->pi = queue->ci = cq->ci = 0xfffffffc;
    dbrec->ci = GUINT32_TO_LE(cq->ci);
    for (i = 0; i < 4; i++) {
        struct rnic_cqe *entry = (struct rnic_cqe *)th_ptr(guest, cq->addr) + i;

        entry->phase = 1;
    }
    for (i = 0; i < 12; i++) {
        expect_none(cq);
        g_assert_true(post(cq, i, 0, 0));
        expect(cq, i);
    }
    g_assert_cmpuint(cq->ci, ==, 8);
    th_guest_free(guest);
}

static void test_unarmed_queue_makes_no_event(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 8);
    unsigned irqs = guest->irqs[1];

    post(cq, 1, RNIC_WC_SUCCESS, RNIC_CQE_SOLICITED);
    post(cq, 2, RNIC_WC_GENERAL_ERR, 0);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, 0);
    g_assert_cmpuint(guest->irqs[1], ==, irqs);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_cq_events), ==, 0);
    th_guest_free(guest);
}

static void test_armed_for_any_fires_once(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 8);
    unsigned irqs = guest->irqs[1];

    g_assert_false(th_cq_arm(cq, RNIC_CQ_ARM_ANY));
    post(cq, 1, 0, 0);
    post(cq, 2, 0, 0);
    post(cq, 3, 0, RNIC_CQE_SOLICITED);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, cq->cqn);
    th_run_for(5);
    post(cq, 4, 0, 0);
    th_run_for(5);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, 0);
    g_assert_cmpuint(guest->irqs[1], ==, irqs + 1);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_cq_events), ==, 1);
    th_guest_free(guest);
}

static void test_armed_for_solicited_waits_for_it(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 8);

    th_cq_arm(cq, RNIC_CQ_ARM_SOLICITED);
    post(cq, 1, 0, 0);
    post(cq, 2, 0, RNIC_CQE_WITH_INV);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, 0);
    post(cq, 3, 0, RNIC_CQE_SOLICITED);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, cq->cqn);
    th_guest_free(guest);
}

static void test_armed_for_solicited_fires_for_an_error(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 8);

    th_cq_arm(cq, RNIC_CQ_ARM_SOLICITED);
    post(cq, 1, RNIC_WC_WR_FLUSH_ERR, 0);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, cq->cqn);
    th_guest_free(guest);
}

static void test_solicited_can_be_upgraded_to_any(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 8);

    th_cq_arm(cq, RNIC_CQ_ARM_SOLICITED);
    post(cq, 1, 0, 0);
    expect(cq, 1);
    th_cq_arm(cq, RNIC_CQ_ARM_ANY);
    post(cq, 2, 0, 0);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, cq->cqn);
    th_guest_free(guest);
}

static void test_entry_written_before_arming_is_found_by_the_last_poll(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 8);

    post(cq, 1, 0, 0);
    g_assert_true(th_cq_arm(cq, RNIC_CQ_ARM_ANY));
    th_run_for(5);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, 0);
    th_guest_free(guest);
}

static void test_each_arming_fires_again(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 4);
    unsigned i;

    for (i = 0; i < 1000; i++) {
        g_assert_false(th_cq_arm(cq, RNIC_CQ_ARM_ANY));
        post(cq, i, 0, 0);
        g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, cq->cqn);
        th_eq_arm(&guest->ceq);
        expect(cq, i);
    }
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, 0);
    th_guest_free(guest);
}

static void test_full_queue_overflows_once(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 4);
    struct rnic_aeqe event;
    unsigned i;

    for (i = 0; i < 4; i++) {
        g_assert_true(post(cq, i, 0, 0));
    }
    g_assert_false(post(cq, 4, 0, 0));
    g_assert_false(post(cq, 5, 0, 0));
    th_event_wait(guest, RNIC_EV_CQ_ERR, cq->cqn, &event);
    g_assert_cmpuint(th_events(guest), ==, 0);
    /* What was written stays, and no room makes it work again */
    for (i = 0; i < 4; i++) {
        expect(cq, i);
    }
    expect_none(cq);
    g_assert_false(post(cq, 6, 0, 0));
    th_guest_free(guest);
}

static void test_consumer_index_out_of_range_fails_the_queue(void)
{
    static const uint32_t indices[] = { 5, 0xffffffff, 0x80000000 };
    struct th_guest *guest = th_guest_started(NULL);
    size_t i, k;

    for (i = 0; i < G_N_ELEMENTS(indices); i++) {
        struct th_cq *cq = th_cq_new(guest, 4);
        struct rnic_cq_dbrec *dbrec = th_ptr(guest, cq->dbrec);

        for (k = 0; k < 4; k++) {
            g_assert_true(post(cq, k, 0, 0));
        }
        dbrec->ci = GUINT32_TO_LE(indices[i]);
        g_assert_false(post(cq, 4, 0, 0));
        th_event_wait(guest, RNIC_EV_CQ_ERR, cq->cqn, NULL);
    }
    th_guest_free(guest);
}

static void test_ring_that_vanishes_fails_the_queue(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *ring = th_cq_new(guest, 4);
    struct th_cq *dbrec = th_cq_new(guest, 4);

    th_make_hole(guest, ring->addr, 64);
    th_make_hole(guest, dbrec->dbrec, 64);
    g_assert_false(post(ring, 1, 0, 0));
    g_assert_false(post(dbrec, 1, 0, 0));
    th_event_wait(guest, RNIC_EV_CQ_ERR, ring->cqn, NULL);
    th_event_wait(guest, RNIC_EV_CQ_ERR, dbrec->cqn, NULL);
    g_assert_cmpuint(th_events(guest), ==, 0);
    th_guest_free(guest);
}

static void test_moderation_holds_until_the_count(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 16);
    unsigned i;

    modify(cq, 4, 60000);
    th_cq_arm(cq, RNIC_CQ_ARM_ANY);
    for (i = 0; i < 3; i++) {
        post(cq, i, 0, 0);
    }
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, 0);
    post(cq, 3, 0, 0);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, cq->cqn);
    /* The timer went with it */
    th_run_for(100);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, 0);
    th_guest_free(guest);
}

static void test_moderation_holds_no_longer_than_the_period(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 16);
    uint64_t start;

    modify(cq, 1000, 30000);
    th_cq_arm(cq, RNIC_CQ_ARM_ANY);
    start = th_now_ms();
    post(cq, 1, 0, 0);
    th_wait(th_ceq_poll(&guest->ceq) == cq->cqn);
    g_assert_cmpuint(th_now_ms() - start, >=, 29);
    th_guest_free(guest);
}

static void test_moderation_forgets_what_was_polled_before_arming_again(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 16);

    modify(cq, 1000, 20000);
    th_cq_arm(cq, RNIC_CQ_ARM_ANY);
    post(cq, 1, 0, 0);
    expect(cq, 1);
    g_assert_false(th_cq_arm(cq, RNIC_CQ_ARM_ANY));
    th_run_for(60);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, 0);
    /* The next completion is held for the new arming */
    post(cq, 2, 0, 0);
    th_wait(th_ceq_poll(&guest->ceq) == cq->cqn);
    th_guest_free(guest);
}

static void test_moderation_counts_from_each_arming(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 16);

    modify(cq, 3, 60000);
    th_cq_arm(cq, RNIC_CQ_ARM_ANY);
    post(cq, 1, 0, 0);
    post(cq, 2, 0, 0);
    expect(cq, 1);
    expect(cq, 2);
    th_cq_arm(cq, RNIC_CQ_ARM_ANY);
    post(cq, 3, 0, 0);
    post(cq, 4, 0, 0);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, 0);
    post(cq, 5, 0, 0);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, cq->cqn);
    th_guest_free(guest);
}

static void test_turning_moderation_off_releases_the_event(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 16);

    modify(cq, 1000, 60000);
    th_cq_arm(cq, RNIC_CQ_ARM_ANY);
    post(cq, 1, 0, 0);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, 0);
    modify(cq, 0, 0);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, cq->cqn);
    th_guest_free(guest);
}

static void test_half_a_moderation_is_none(void)
{
    static const uint16_t settings[][2] = { { 0, 1000 },
                                            { 1, 1000 },
                                            { 8, 0 } };
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 16);
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(settings); i++) {
        modify(cq, settings[i][0], settings[i][1]);
        th_cq_arm(cq, RNIC_CQ_ARM_ANY);
        post(cq, i, 0, 0);
        g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, cq->cqn);
        expect(cq, i);
    }
    th_guest_free(guest);
}

static void test_destroy_with_a_held_event_is_clean(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 16);

    modify(cq, 1000, 5000);
    th_cq_arm(cq, RNIC_CQ_ARM_ANY);
    post(cq, 1, 0, 0);
    th_cq_free(cq);
    th_run_for(20);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, 0);
    th_guest_free(guest);
}

static void test_entries_lie_right_in_a_scattered_buffer(void)
{
    const uint32_t depth = 512;
    struct th_guest *guest = th_guest_started(NULL);
    /* Entries start and end within pages that do not follow each other */
    struct th_buf buf = th_buf_new(guest, depth * 32 + 64, 2, 1024 + 64);
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_CREATE_CQ };
    struct rnic_cqe *entries = (struct rnic_cqe *)buf.ptr;
    struct rnic_cq *cq;
    uint64_t i;

    cmd.create_cq.cqn = GUINT32_TO_LE(99);
    cmd.create_cq.eqn = GUINT32_TO_LE(1);
    cmd.create_cq.depth = GUINT32_TO_LE(depth);
    cmd.create_cq.dbrec_offset = GUINT32_TO_LE(depth * 32);
    cmd.create_cq.buf = buf.desc;
    g_assert_cmpuint(th_admin(guest, &cmd, NULL), ==, RNIC_ADMIN_OK);
    cq = rnic_cq_find(guest->dev, 99);
    for (i = 0; i < depth; i++) {
        struct rnic_cqe cqe = { .wr_id = GUINT64_TO_LE(i) };

        g_assert_true(rnic_cq_post(guest->dev, cq, &cqe));
    }
    for (i = 0; i < depth; i++) {
        g_assert_cmpuint(GUINT64_FROM_LE(entries[i].wr_id), ==, i);
        g_assert_cmpuint(entries[i].phase, ==, 1);
    }
    th_guest_free(guest);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add_func("/cq/" #name, test_##name)
    ADD(entries_are_owned_by_phase_over_many_laps);
    ADD(indices_wrap);
    ADD(unarmed_queue_makes_no_event);
    ADD(armed_for_any_fires_once);
    ADD(armed_for_solicited_waits_for_it);
    ADD(armed_for_solicited_fires_for_an_error);
    ADD(solicited_can_be_upgraded_to_any);
    ADD(entry_written_before_arming_is_found_by_the_last_poll);
    ADD(each_arming_fires_again);
    ADD(full_queue_overflows_once);
    ADD(consumer_index_out_of_range_fails_the_queue);
    ADD(ring_that_vanishes_fails_the_queue);
    ADD(moderation_holds_until_the_count);
    ADD(moderation_holds_no_longer_than_the_period);
    ADD(moderation_forgets_what_was_polled_before_arming_again);
    ADD(moderation_counts_from_each_arming);
    ADD(turning_moderation_off_releases_the_event);
    ADD(half_a_moderation_is_none);
    ADD(destroy_with_a_held_event_is_clean);
    ADD(entries_lie_right_in_a_scattered_buffer);
    return g_test_run();
}
