/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Policy error, the device's part (RNIC_QP_ERROR_PRE_RTS): a producer index
 * that moves before RTS fails the connection, and each WQE is flushed once.
 * That posting is refused in the first place is the consumer's side.
 */
#include "early.h"
#include "raw-peer.h"

#include <string.h>

/* QP_FATAL once, the error in words, nothing sent; the SQ is flushed */
static void expect_failed(struct early *e)
{
    g_assert_cmpuint(th_qp_state(e->qp), ==, RNIC_QPS_ERROR);
    th_event_wait(e->guest, RNIC_EV_QP_FATAL, e->qp->qpn, NULL);
    early_expect_flushed(e, 0, EARLY_COUNT);
    g_assert_cmpuint(th_stat(e->guest, RNIC_STAT_early_sends), ==, 1);
    g_assert_cmpuint(e->guest->trace_count[RNIC_TRACE_guest_error], ==, 1);
    g_assert_nonnull(strstr(e->guest->trace_text[RNIC_TRACE_guest_error],
                            "before the connection was established"));
    early_expect_no_more(e);
    g_assert_cmpuint(e->guest->trace_count[RNIC_TRACE_wqe], ==, 0);
    g_assert_cmpuint(th_stat(e->guest, RNIC_STAT_tx_fpdus), ==, 0);
    g_assert_cmpuint(th_events(e->guest), ==, 0);
    /* As in any QP in ERROR */
    early_post(e, EARLY_COUNT, 1);
    th_ring(e->guest, 0, e->qp->qpn);
    early_expect_flushed(e, EARLY_COUNT, 1);
    early_expect_no_more(e);
}

static void expect_wire_ended(struct early *e)
{
    size_t dropped;

    raw_closed(e->peer.fd, &dropped);
    g_assert_cmpuint(dropped, ==, 0);
}

static void test_early_index_fails_the_connection(gconstpointer data)
{
    struct early e;

    early_begin(&e, data, RNIC_QP_ERROR_PRE_RTS);
    early_post(&e, 0, EARLY_COUNT);
    if (e.c->ring || e.c->scan) {
        /* Seen at once */
        th_wait(th_qp_state(e.qp) == RNIC_QPS_ERROR);
    } else {
        early_expect_silence(&e);
        g_assert_cmpuint(th_qp_state(e.qp), ==, RNIC_QPS_IDLE);
        early_establish(&e);
    }
    if (!e.c->responder) {
        early_expect_event(&e, RNIC_CM_EARLY_SEND);
        expect_wire_ended(&e);
    } else if (e.c->ring || e.c->scan) {
        /* There is no connection yet; it can be rejected, not accepted */
        g_assert_cmpuint(th_accept(e.qp, e.conn_id, NULL), ==,
                         RNIC_ADMIN_BAD_STATE);
        g_assert_cmpuint(th_reject(e.guest, e.conn_id, NULL), ==,
                         RNIC_ADMIN_OK);
    } else {
        early_expect_event(&e, RNIC_CM_EARLY_SEND);
        th_event_wait(e.guest, RNIC_EV_CLOSE, e.qp->qpn, NULL);
        expect_wire_ended(&e);
    }
    expect_failed(&e);
    early_end(&e);
}

/* WQEs that are written and not published do not count */
static void test_posting_after_rts_works(gconstpointer data)
{
    struct early e;
    struct th_wr wr[EARLY_COUNT];
    struct rnic_qp_dbrec *dbrec;

    early_begin(&e, data, RNIC_QP_ERROR_PRE_RTS);
    early_wr(wr, 0, EARLY_COUNT);
    th_write_send(e.qp, wr, EARLY_COUNT);
    if (e.c->ring) {
        th_ring(e.guest, 0, e.qp->qpn);
    }
    early_expect_silence(&e);
    early_establish(&e);
    early_expect_event(&e, RNIC_CM_OK);
    if (e.c->responder) {
        early_open_gate(&e);
    }
    early_expect_silence(&e);
    dbrec = th_ptr(e.guest, e.qp->dbrec);
    __atomic_store_n(&dbrec->sq_pi, GUINT32_TO_LE(EARLY_COUNT),
                     __ATOMIC_SEQ_CST);
    if (!e.c->scan) {
        th_ring(e.guest, 0, e.qp->qpn);
    }
    early_expect_sends(&e, 0, EARLY_COUNT);
    early_expect_no_more(&e);
    g_assert_cmpuint(th_stat(e.guest, RNIC_STAT_early_sends), ==, 0);
    g_assert_cmpuint(th_stat(e.guest, RNIC_STAT_guest_errors), ==, 0);
    early_end(&e);
}

/* Receives may be posted any time before */
static void test_early_receives_are_fine(void)
{
    struct rnic_sge none = { 0 };
    struct early e;
    unsigned i;

    early_begin(&e, &early_cases[7], RNIC_QP_ERROR_PRE_RTS);
    for (i = 0; i < 10; i++) {
        th_post_recv(e.qp, i, &none, 0);
    }
    th_ring(e.guest, 0, e.qp->qpn);
    th_run_for(30);
    early_establish(&e);
    early_expect_event(&e, RNIC_CM_OK);
    g_assert_cmpuint(th_stat(e.guest, RNIC_STAT_guest_errors), ==, 0);
    early_end(&e);
}

/* An index out of range is not followed */
static void test_wild_early_index_flushes_nothing(void)
{
    struct rnic_qp_dbrec *dbrec;
    struct rnic_cqe cqe;
    struct early e;

    early_begin(&e, &early_cases[0], RNIC_QP_ERROR_PRE_RTS);
    dbrec = th_ptr(e.guest, e.qp->dbrec);
    dbrec->sq_pi = GUINT32_TO_LE(0x80000000);
    th_ring(e.guest, 0, e.qp->qpn);
    early_expect_event(&e, RNIC_CM_EARLY_SEND);
    th_event_wait(e.guest, RNIC_EV_QP_FATAL, e.qp->qpn, NULL);
    th_run_for(20);
    g_assert_false(th_cq_poll(e.qp->attr.send_cq, &cqe));
    early_end(&e);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    early_add("/policy-error/early_index_fails_the_connection",
              test_early_index_fails_the_connection);
    early_add("/policy-error/posting_after_rts_works",
              test_posting_after_rts_works);
    g_test_add_func("/policy-error/early_receives_are_fine",
                    test_early_receives_are_fine);
    g_test_add_func("/policy-error/wild_early_index_flushes_nothing",
                    test_wild_early_index_flushes_nothing);
    return g_test_run();
}
