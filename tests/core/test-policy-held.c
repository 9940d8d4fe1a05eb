/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Policy held: early sends are kept from the device by way of sq_held, which
 * it never reads, and published by the driver before it tells that the
 * connection is established. The two halves of that protocol are here as
 * include/rnic/wqe.h states them.
 */
#include "early.h"
#include "pair.h"
#include "raw-peer.h"

static void spin(unsigned loops)
{
    while (loops--) {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
}

/* The consumer, one poster at a time. False: held. @window: loops between its
 * look at the state and what it does by it. */
static bool held_post_slowly(struct th_qp *qp, const struct th_wr *wr,
                             unsigned count, unsigned window)
{
    struct rnic_qp_dbrec *dbrec = th_ptr(qp->guest, qp->dbrec);
    uint32_t pi;

    th_write_send(qp, wr, count);
    pi = GUINT32_TO_LE(qp->sq_pi);
    if (th_qp_state(qp) == RNIC_QPS_IDLE) {
        spin(window);
        __atomic_store_n(&dbrec->sq_held, pi, __ATOMIC_RELEASE);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (th_qp_state(qp) == RNIC_QPS_IDLE) {
            return false;
        }
    }
    __atomic_store_n(&dbrec->sq_pi, pi, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return true;
}

static bool held_post(struct th_qp *qp, const struct th_wr *wr, unsigned count)
{
    return held_post_slowly(qp, wr, count, 0);
}

/* The driver, when it learns that the QP left IDLE. True: to be rung for. */
static bool held_release(struct th_qp *qp)
{
    struct rnic_qp_dbrec *dbrec = th_ptr(qp->guest, qp->dbrec);
    uint32_t held, pi;

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    held = GUINT32_FROM_LE(__atomic_load_n(&dbrec->sq_held, __ATOMIC_ACQUIRE));
    pi = __atomic_load_n(&dbrec->sq_pi, __ATOMIC_RELAXED);
    while (held - GUINT32_FROM_LE(pi) - 1 < qp->attr.sq_depth &&
           !__atomic_compare_exchange_n(&dbrec->sq_pi, &pi, GUINT32_TO_LE(held),
                                        false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return held != 0;
}

static void early_held_post(struct early *e, uint32_t first, unsigned count)
{
    g_autofree struct th_wr *wr = g_new(struct th_wr, count);

    early_wr(wr, first, count);
    if (held_post(e->qp, wr, count) || e->c->ring) {
        th_ring(e->guest, 0, e->qp->qpn);
    }
}

static void test_held_until_released_then_leaves_once(gconstpointer data)
{
    struct early e;

    early_begin(&e, data, RNIC_QP_ERROR_PRE_RTS);
    early_held_post(&e, 0, EARLY_COUNT);
    early_expect_silence(&e);
    early_establish(&e);
    early_expect_event(&e, RNIC_CM_OK);
    if (e.c->responder) {
        early_open_gate(&e);
    }
    /* The device does not look at it */
    early_expect_silence(&e);
    if (held_release(e.qp) && !e.c->scan) {
        th_ring(e.guest, 0, e.qp->qpn);
    }
    early_expect_sends(&e, 0, EARLY_COUNT);
    /* From now on the usual way, which a second release does not disturb */
    early_held_post(&e, EARLY_COUNT, EARLY_COUNT);
    g_assert_true(held_release(e.qp));
    early_expect_sends(&e, EARLY_COUNT, EARLY_COUNT);
    early_expect_no_more(&e);
    g_assert_cmpuint(th_stat(e.guest, RNIC_STAT_guest_errors), ==, 0);
    early_end(&e);
}

/* A consumer that sees RTS before the driver does publishes all itself */
static void test_post_that_sees_rts_publishes_what_is_held(gconstpointer data)
{
    struct early e;

    early_begin(&e, data, RNIC_QP_ERROR_PRE_RTS);
    early_held_post(&e, 0, EARLY_COUNT);
    early_expect_silence(&e);
    early_establish(&e);
    early_expect_event(&e, RNIC_CM_OK);
    if (e.c->responder) {
        early_open_gate(&e);
    }
    early_held_post(&e, EARLY_COUNT, 1);
    early_expect_sends(&e, 0, EARLY_COUNT + 1);
    g_assert_true(held_release(e.qp));
    th_ring(e.guest, 0, e.qp->qpn);
    early_expect_no_more(&e);
    g_assert_cmpuint(th_stat(e.guest, RNIC_STAT_guest_errors), ==, 0);
    early_end(&e);
}

static void test_failed_setup_flushes_what_was_held(gconstpointer data)
{
    struct early e;

    early_begin(&e, data, RNIC_QP_ERROR_PRE_RTS);
    early_held_post(&e, 0, EARLY_COUNT);
    early_expect_silence(&e);
    if (e.c->responder) {
        g_assert_cmpuint(th_qp_modify(e.qp, RNIC_QPS_ERROR), ==, RNIC_ADMIN_OK);
    } else {
        raw_abort(e.peer.fd);
        e.peer.fd = raw_socket(e.guest, "10.0.0.2", 0);
        early_expect_event(&e, RNIC_CM_RESET);
    }
    early_expect_no_more(&e);
    if (held_release(e.qp)) {
        th_ring(e.guest, 0, e.qp->qpn);
    }
    early_expect_flushed(&e, 0, EARLY_COUNT);
    early_expect_no_more(&e);
    g_assert_cmpuint(th_stat(e.guest, RNIC_STAT_guest_errors), ==, 0);
    early_end(&e);
}

/* Around the consumer's library: as with policy error */
static void test_early_index_fails_the_connection(void)
{
    struct early e;

    early_begin(&e, &early_cases[2], RNIC_QP_ERROR_PRE_RTS);
    early_held_post(&e, 0, 2);
    early_post(&e, 2, 3);
    early_establish(&e);
    early_expect_event(&e, RNIC_CM_EARLY_SEND);
    if (held_release(e.qp)) {
        th_ring(e.guest, 0, e.qp->qpn);
    }
    early_expect_flushed(&e, 0, 5);
    early_expect_no_more(&e);
    early_end(&e);
}

/* ---- A thread that posts all the while ---- */

#define RACE_POSTS 60

struct poster {
    struct th_qp *qp;
    _Atomic bool go;
    unsigned window; /* see held_post_slowly() */
    unsigned after;  /* how many to post when it has seen the new state */
    unsigned held, posted;
};

static void *poster_run(void *opaque)
{
    struct poster *poster = opaque;
    unsigned after = 0;

    while (!atomic_load(&poster->go)) {
    }
    while (poster->posted < RACE_POSTS) {
        struct th_wr wr;

        if (th_qp_state(poster->qp) != RNIC_QPS_IDLE &&
            after++ == poster->after) {
            break;
        }
        early_wr(&wr, poster->posted++, 1);
        if (held_post_slowly(poster->qp, &wr, 1, poster->window)) {
            th_ring(poster->qp->guest, 0, poster->qp->qpn);
        } else {
            poster->held++;
        }
    }
    return NULL;
}

/* The poster starts when the connection is about to be established, so that
 * the state changes and the release happens somewhere among its posts */
static void test_posts_race_with_the_release(void)
{
    const unsigned rounds = g_test_slow() ? 2000 : 100;
    unsigned round, mixed = 0;

    for (round = 0; round < rounds; round++) {
        struct early_case c = { "race", round & 1, false, round & 2 };
        struct poster poster = { 0 };
        struct rnic_aeqe event;
        GThread *thread;
        struct early e;
        unsigned i;

        early_begin(&e, &c, RNIC_QP_ERROR_PRE_RTS);
        poster.qp = e.qp;
        poster.window = 100 + round % 40 * 200;
        /* Without any after, the last of all may be the one in the window */
        poster.after = round & 4 ? 20 : 0;
        thread = g_thread_new("poster", poster_run, &poster);
        th_engine_start(e.guest);
        atomic_store(&poster.go, true);
        if (c.responder) {
            early_establish(&e);
        } else {
            raw_send_frame(e.peer.fd, true, 0, 1, NULL, 0);
        }
        th_event_wait(e.guest,
                      c.responder ? RNIC_EV_ESTABLISHED : RNIC_EV_CONNECT_REPLY,
                      e.qp->qpn, &event);
        g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
        if (held_release(e.qp)) {
            th_ring(e.guest, 0, e.qp->qpn);
        }
        g_thread_join(thread);
        mixed += poster.held > 0 && poster.held < poster.posted;
        if (c.responder) {
            early_open_gate(&e);
        }
        for (i = 0; i < poster.posted; i++) {
            early_expect_sends(&e, i, 1);
        }
        early_expect_no_more(&e);
        g_assert_cmpuint(th_stat(e.guest, RNIC_STAT_guest_errors), ==, 0);
        th_engine_stop(e.guest);
        early_end(&e);
    }
    g_test_message("%u of %u rounds had posts on both sides of RTS", mixed,
                   rounds);
    g_assert_cmpuint(mixed, >, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    early_add("/policy-held/held_until_released_then_leaves_once",
              test_held_until_released_then_leaves_once);
    early_add("/policy-held/post_that_sees_rts_publishes_what_is_held",
              test_post_that_sees_rts_publishes_what_is_held);
    early_add("/policy-held/failed_setup_flushes_what_was_held",
              test_failed_setup_flushes_what_was_held);
    g_test_add_func("/policy-held/early_index_fails_the_connection",
                    test_early_index_fails_the_connection);
    g_test_add_func("/policy-held/posts_race_with_the_release",
                    test_posts_race_with_the_release);
    return g_test_run();
}
