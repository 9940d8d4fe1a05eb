/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Event queues: the rule of one unconsumed entry a CQ, interrupts, overflow of
 * the asynchronous queue
 */
#include <string.h>
#include "harness.h"

/* A completion that fires, since the CQ is armed for it */
static void fire(struct th_cq *cq)
{
    struct rnic_device *dev = cq->guest->dev;
    struct rnic_cqe cqe = { 0 };

    th_cq_arm(cq, RNIC_CQ_ARM_ANY);
    g_assert_true(rnic_cq_post(dev, rnic_cq_find(dev, cq->cqn), &cqe));
}

static void post_event(struct th_guest *guest, enum rnic_event_type type,
                       uint32_t id, uint16_t pdata_len)
{
    struct rnic_aeqe event = {
        .type = GUINT16_TO_LE(type),
        .id = GUINT32_TO_LE(id),
        .pdata_len = GUINT16_TO_LE(pdata_len),
        .phase = 0xff,
    };

    th_fill(event.pdata, pdata_len, id);
    rnic_aeq_post(guest->dev, &event);
}

/* A guest without EQs; then an AEQ of this depth */
static struct th_guest *guest_without_eqs(void)
{
    struct th_guest *guest = th_guest_new(NULL);

    th_enable(guest, 8);
    th_uctx_new(guest, 0);
    return guest;
}

static struct rnic_eq_dbrec *ceq_dbrec(struct th_eq *eq)
{
    return th_ptr(eq->guest, eq->addr + eq->depth * sizeof(struct rnic_ceqe));
}

static void test_entries_are_owned_by_phase_over_many_laps(void)
{
    struct th_guest *guest = guest_without_eqs();
    struct rnic_aeqe event;
    uint32_t i;

    th_eq_new(guest, &guest->aeq, RNIC_AEQN, 0, 4);
    for (i = 0; i < 19; i++) {
        g_assert_false(th_aeq_poll(guest, &event));
        post_event(guest, RNIC_EV_SRQ_LIMIT, i, 0);
        g_assert_true(th_aeq_poll(guest, &event));
        g_assert_cmpuint(GUINT32_FROM_LE(event.id), ==, i);
    }
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_async_events), ==, 19);
    th_guest_free(guest);
}

static void test_one_unconsumed_entry_a_queue(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 64);
    struct rnic_ceqe *entries = th_ptr(guest, guest->ceq.addr);
    unsigned i;

    for (i = 0; i < 10; i++) {
        fire(cq);
    }
    th_run_for(5);
    g_assert_cmpuint(GUINT32_FROM_LE(entries[0].cqn), ==, cq->cqn);
    g_assert_cmpuint(entries[1].phase, ==, 0);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_cq_events), ==, 1);
    /* The others were held as one, which comes when the first is consumed */
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, cq->cqn);
    th_wait(th_ceq_poll(&guest->ceq) == cq->cqn);
    th_run_for(5);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, 0);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_cq_events), ==, 2);
    th_guest_free(guest);
}

static void test_queues_do_not_hold_each_other(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cqs[5];
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(cqs); i++) {
        cqs[i] = th_cq_new(guest, 8);
    }
    for (i = 0; i < G_N_ELEMENTS(cqs); i++) {
        fire(cqs[i]);
    }
    for (i = 0; i < G_N_ELEMENTS(cqs); i++) {
        g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, cqs[i]->cqn);
    }
    th_guest_free(guest);
}

static void test_event_queue_has_room_for_each_of_its_queues(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_CREATE_CQ };
    struct th_cq *first;
    struct th_eq eq;

    th_eq_new(guest, &eq, 2, 2, 2);
    first = th_cq_new_on(guest, 4, 2, 0);
    th_cq_new_on(guest, 4, 2, 0);
    cmd.create_cq.cqn = GUINT32_TO_LE(77);
    cmd.create_cq.eqn = GUINT32_TO_LE(2);
    cmd.create_cq.depth = GUINT32_TO_LE(2);
    cmd.create_cq.dbrec_offset = GUINT32_TO_LE(64);
    cmd.create_cq.buf.addr = GUINT64_TO_LE(th_alloc(guest, 128, 64));
    cmd.create_cq.buf.length = GUINT64_TO_LE(128);
    g_assert_cmpuint(th_admin(guest, &cmd, NULL), ==, RNIC_ADMIN_NO_RESOURCES);
    th_cq_free(first);
    g_assert_cmpuint(th_admin(guest, &cmd, NULL), ==, RNIC_ADMIN_OK);
    th_guest_free(guest);
}

/* Entries of queues that were destroyed still take up room */
static void test_event_waits_while_the_queue_is_full(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq[3];
    struct th_eq eq;
    unsigned i;

    th_eq_new(guest, &eq, 2, 2, 2);
    for (i = 0; i < 2; i++) {
        cq[i] = th_cq_new_on(guest, 4, 2, 0);
        fire(cq[i]);
        th_cq_free(cq[i]);
    }
    cq[2] = th_cq_new_on(guest, 4, 2, 0);
    fire(cq[2]);
    th_run_for(5);
    g_assert_cmpuint(th_ceq_poll(&eq), ==, cq[0]->cqn);
    th_run_for(5);
    g_assert_cmpuint(th_ceq_poll(&eq), ==, cq[1]->cqn);
    g_assert_cmpuint(th_ceq_poll(&eq), ==, cq[2]->cqn);
    g_assert_cmpuint(th_ceq_poll(&eq), ==, 0);
    th_guest_free(guest);
}

static void test_interrupt_only_for_the_entry_asked_for(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq[4];
    unsigned irqs = guest->irqs[1];
    unsigned i;

    for (i = 0; i < 4; i++) {
        cq[i] = th_cq_new(guest, 8);
    }
    /* arm is 0 at first: the first entry interrupts, later ones do not */
    fire(cq[0]);
    g_assert_cmpuint(guest->irqs[1], ==, irqs + 1);
    fire(cq[1]);
    fire(cq[2]);
    g_assert_cmpuint(guest->irqs[1], ==, irqs + 1);
    for (i = 0; i < 3; i++) {
        g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, cq[i]->cqn);
    }
    /* Drained, and not armed again */
    fire(cq[3]);
    g_assert_cmpuint(guest->irqs[1], ==, irqs + 1);
    g_assert_cmpuint(th_ceq_poll(&guest->ceq), ==, cq[3]->cqn);
    th_eq_arm(&guest->ceq);
    fire(cq[0]);
    fire(cq[1]);
    g_assert_cmpuint(guest->irqs[1], ==, irqs + 2);
    g_assert_cmpuint(guest->irqs[2] + guest->irqs[3], ==, 0);
    th_guest_free(guest);
}

static void test_false_consumer_index_overwrites_nothing(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct rnic_eq_dbrec *dbrec;
    struct th_cq *cq[3];
    struct th_eq eq;
    unsigned i;

    th_eq_new(guest, &eq, 2, 2, 4);
    dbrec = ceq_dbrec(&eq);
    for (i = 0; i < 3; i++) {
        cq[i] = th_cq_new_on(guest, 4, 2, 0);
    }
    fire(cq[0]);
    /* More than was written, and less than was consumed */
    dbrec->ci = GUINT32_TO_LE(2);
    fire(cq[1]);
    dbrec->ci = GUINT32_TO_LE(-5);
    fire(cq[2]);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_guest_errors), ==, 2);
    for (i = 0; i < 3; i++) {
        g_assert_cmpuint(th_ceq_poll(&eq), ==, cq[i]->cqn);
    }
    th_guest_free(guest);
}

static void test_events_that_find_no_room_come_later_in_order(void)
{
    struct th_guest *guest = guest_without_eqs();
    struct rnic_aeqe event;
    uint32_t i;

    th_eq_new(guest, &guest->aeq, RNIC_AEQN, 0, 2);
    for (i = 0; i < 100; i++) {
        post_event(guest, RNIC_EV_CLOSE, i, i);
    }
    for (i = 0; i < 100; i++) {
        th_wait(th_aeq_poll(guest, &event));
        g_assert_cmpuint(GUINT32_FROM_LE(event.id), ==, i);
        g_assert_cmpuint(GUINT16_FROM_LE(event.pdata_len), ==, i);
        th_check_filled(event.pdata, i, i);
        /* Nothing of an earlier lap is left behind it */
        g_assert_cmpuint(event.pdata[i], ==, 0);
    }
    th_run_for(5);
    g_assert_false(th_aeq_poll(guest, &event));
    th_guest_free(guest);
}

static void test_new_event_does_not_overtake_kept_ones(void)
{
    struct th_guest *guest = guest_without_eqs();
    struct rnic_aeqe event;
    uint32_t i;

    th_eq_new(guest, &guest->aeq, RNIC_AEQN, 0, 1);
    post_event(guest, RNIC_EV_CLOSE, 0, 0);
    post_event(guest, RNIC_EV_CLOSE, 1, 0);
    g_assert_true(th_aeq_poll(guest, &event));
    /* There is room, and one that waits for it */
    post_event(guest, RNIC_EV_CLOSE, 2, 0);
    for (i = 1; i < 3; i++) {
        th_wait(th_aeq_poll(guest, &event));
        g_assert_cmpuint(GUINT32_FROM_LE(event.id), ==, i);
    }
    th_guest_free(guest);
}

static void test_events_wait_for_the_queue_to_be_made(void)
{
    struct th_guest *guest = guest_without_eqs();
    struct rnic_aeqe event;

    post_event(guest, RNIC_EV_SRQ_LIMIT, 5, 0);
    post_event(guest, RNIC_EV_SRQ_LIMIT, 6, 0);
    th_eq_new(guest, &guest->aeq, RNIC_AEQN, 0, 8);
    g_assert_true(th_aeq_poll(guest, &event));
    g_assert_cmpuint(GUINT32_FROM_LE(event.id), ==, 5);
    g_assert_true(th_aeq_poll(guest, &event));
    g_assert_cmpuint(GUINT32_FROM_LE(event.id), ==, 6);
    th_guest_free(guest);
}

static void test_kept_events_of_what_went_are_dropped(void)
{
    struct th_guest *guest = guest_without_eqs();
    struct rnic_aeqe event;
    static const struct {
        enum rnic_event_type type;
        uint32_t id;
        bool stays;
    } events[] = {
        { RNIC_EV_CONNECT_REQUEST, 3, false },
        { RNIC_EV_CONNECT_REQUEST, 4, true },
        { RNIC_EV_LISTEN_ERROR, 3, false },
        { RNIC_EV_CLOSE, 3, true },
        { RNIC_EV_CLOSE, 4, false },
        { RNIC_EV_QP_LAST_WQE, 4, false },
        { RNIC_EV_CQ_ERR, 3, true },
        { RNIC_EV_CQ_ERR, 4, true },
        { RNIC_EV_SRQ_LIMIT, 4, true },
        { RNIC_EV_ADDR_CONFLICT, 0, true },
    };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(events); i++) {
        post_event(guest, events[i].type, events[i].id, 0);
    }
    rnic_aeq_forget(guest->dev, false, 3);
    rnic_aeq_forget(guest->dev, true, 4);
    th_eq_new(guest, &guest->aeq, RNIC_AEQN, 0, 16);
    for (i = 0; i < G_N_ELEMENTS(events); i++) {
        if (events[i].stays) {
            g_assert_true(th_aeq_poll(guest, &event));
            g_assert_cmpuint(GUINT16_FROM_LE(event.type), ==, events[i].type);
            g_assert_cmpuint(GUINT32_FROM_LE(event.id), ==, events[i].id);
        }
    }
    g_assert_false(th_aeq_poll(guest, &event));
    th_guest_free(guest);
}

static void test_destroyed_queue_takes_its_kept_events_along(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_srq *srq = th_srq_new(guest, 8, 0);
    struct rnic_aeqe event;

    g_assert_cmpuint(th_admin_id(guest, RNIC_CMD_DESTROY_EQ, RNIC_AEQN), ==,
                     RNIC_ADMIN_OK);
    post_event(guest, RNIC_EV_SRQ_LIMIT, srq->srqn, 0);
    post_event(guest, RNIC_EV_SRQ_ERR, srq->srqn, 0);
    post_event(guest, RNIC_EV_SRQ_ERR, srq->srqn + 1, 0);
    th_srq_free(srq);
    th_eq_new(guest, &guest->aeq, RNIC_AEQN, 0, 8);
    g_assert_true(th_aeq_poll(guest, &event));
    g_assert_cmpuint(GUINT32_FROM_LE(event.id), ==, srq->srqn + 1);
    g_assert_false(th_aeq_poll(guest, &event));
    th_guest_free(guest);
}

static void test_reset_drops_kept_events(void)
{
    struct th_guest *guest = guest_without_eqs();
    struct rnic_aeqe event;

    post_event(guest, RNIC_EV_SRQ_LIMIT, 5, 0);
    th_reset(guest);
    th_start(guest);
    g_assert_false(th_aeq_poll(guest, &event));
    th_guest_free(guest);
}

static void test_undrained_events_are_bounded(void)
{
    struct th_guest *guest = guest_without_eqs();
    uint32_t i;

    for (i = 0; i < 262144; i++) {
        post_event(guest, RNIC_EV_SRQ_LIMIT, i, 0);
    }
    g_assert_cmphex(th_reg(guest, RNIC_REG_STATUS), ==, RNIC_STATUS_READY);
    post_event(guest, RNIC_EV_SRQ_LIMIT, i, 0);
    g_assert_cmphex(th_reg(guest, RNIC_REG_STATUS), ==, RNIC_STATUS_FATAL);
    g_assert_cmpuint(th_reg(guest, RNIC_REG_ERROR), ==,
                     RNIC_DEV_ERR_AEQ_OVERFLOW);
    th_guest_free(guest);
}

static void test_event_queue_that_vanishes_is_fatal(void)
{
    unsigned which;

    for (which = 0; which < 4; which++) {
        struct th_guest *guest = th_guest_started(NULL);
        struct th_cq *cq = th_cq_new(guest, 8);
        struct th_eq *eq = which & 1 ? &guest->ceq : &guest->aeq;
        size_t entries = eq->depth * (which & 1 ? sizeof(struct rnic_ceqe)
                                                : sizeof(struct rnic_aeqe));

        /* Its entries, or its doorbell record */
        th_make_hole(guest, eq->addr + (which & 2 ? entries : 0), 64);
        if (which & 1) {
            fire(cq);
        } else {
            post_event(guest, RNIC_EV_SRQ_LIMIT, 1, 0);
        }
        g_assert_cmphex(th_reg(guest, RNIC_REG_STATUS), ==, RNIC_STATUS_FATAL);
        g_assert_cmpuint(th_reg(guest, RNIC_REG_ERROR), ==,
                         RNIC_DEV_ERR_EQ_DMA);
        th_fill_holes(guest);
        th_reset(guest);
        th_start(guest);
        th_guest_free(guest);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add_func("/eq/" #name, test_##name)
    ADD(entries_are_owned_by_phase_over_many_laps);
    ADD(one_unconsumed_entry_a_queue);
    ADD(queues_do_not_hold_each_other);
    ADD(event_queue_has_room_for_each_of_its_queues);
    ADD(event_waits_while_the_queue_is_full);
    ADD(interrupt_only_for_the_entry_asked_for);
    ADD(false_consumer_index_overwrites_nothing);
    ADD(events_that_find_no_room_come_later_in_order);
    ADD(new_event_does_not_overtake_kept_ones);
    ADD(events_wait_for_the_queue_to_be_made);
    ADD(kept_events_of_what_went_are_dropped);
    ADD(destroyed_queue_takes_its_kept_events_along);
    ADD(reset_drops_kept_events);
    ADD(undrained_events_are_bounded);
    ADD(event_queue_that_vanishes_is_fatal);
    return g_test_run();
}
