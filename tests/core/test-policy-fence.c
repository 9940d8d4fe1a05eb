/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Policy fence: sends that are posted before RTS are published and stay
 * untouched; then they leave in order and once
 */
#include "early.h"
#include "raw-peer.h"

static void test_waits_for_rts_then_leaves_once(gconstpointer data)
{
    struct early e;

    early_begin(&e, data, 0);
    early_post(&e, 0, EARLY_COUNT);
    early_expect_silence(&e);
    early_establish(&e);
    early_expect_event(&e, RNIC_CM_OK);
    if (e.c->responder) {
        early_expect_silence(&e);
        g_assert_cmpuint(th_stat(e.guest, RNIC_STAT_gated), ==, 1);
        early_open_gate(&e);
    }
    early_expect_sends(&e, 0, EARLY_COUNT);
    early_expect_no_more(&e);
    g_assert_cmpuint(th_stat(e.guest, RNIC_STAT_guest_errors), ==, 0);
    early_end(&e);
}

/* Also what is written where no WQE is published yet: the index alone counts */
static void test_unpublished_wqes_never_leave(gconstpointer data)
{
    struct early e;
    struct th_wr wr[EARLY_COUNT];

    early_begin(&e, data, 0);
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
    early_expect_no_more(&e);
    early_end(&e);
}

static void test_failed_setup_flushes_once(gconstpointer data)
{
    struct early e;

    early_begin(&e, data, 0);
    early_post(&e, 0, EARLY_COUNT);
    early_expect_silence(&e);
    g_assert_cmpuint(th_qp_modify(e.qp, RNIC_QPS_ERROR), ==, RNIC_ADMIN_OK);
    early_expect_flushed(&e, 0, EARLY_COUNT);
    early_expect_no_more(&e);
    if (!e.c->responder) {
        early_expect_event(&e, RNIC_CM_LOCAL_ERROR);
        raw_closed(e.peer.fd, NULL);
    }
    g_assert_cmpuint(th_stat(e.guest, RNIC_STAT_tx_fpdus), ==, 0);
    early_end(&e);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    early_add("/policy-fence/waits_for_rts_then_leaves_once",
              test_waits_for_rts_then_leaves_once);
    early_add("/policy-fence/unpublished_wqes_never_leave",
              test_unpublished_wqes_never_leave);
    early_add("/policy-fence/failed_setup_flushes_once",
              test_failed_setup_flushes_once);
    return g_test_run();
}
