/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The background scan: it finds what nobody rang for, reads indices and
 * nothing else, and costs nothing when it is off or has nothing to look at
 */
#include "early.h"

#include <string.h>

static const struct early_case quiet_scan = { "", false, false, true };
static const struct early_case quiet_no_scan = { "", false, false, false };

static void begin_connected(struct early *e, const struct early_case *c)
{
    early_begin(e, c, 0);
    early_establish(e);
    early_expect_event(e, RNIC_CM_OK);
}

static struct th_guest *scanning_guest(unsigned ms)
{
    struct th_options options;

    th_options_init(&options);
    options.config.sq_scan_ms = ms;
    return th_guest_started(&options);
}

static void test_finds_a_send_without_doorbell(void)
{
    struct early e;

    begin_connected(&e, &quiet_scan);
    th_run_for(20);
    early_post(&e, 0, 3);
    early_expect_sends(&e, 0, 3);
    early_expect_no_more(&e);
    g_assert_cmpuint(th_stat(e.guest, RNIC_STAT_scan_finds), ==, 1);
    g_assert_cmpuint(th_stat(e.guest, RNIC_STAT_kicks), ==, 0);
    early_end(&e);
}

static void test_without_it_a_doorbell_is_needed(void)
{
    struct early e;

    begin_connected(&e, &quiet_no_scan);
    th_run_for(20);
    early_post(&e, 0, 3);
    early_expect_silence(&e);
    th_ring(e.guest, 0, e.qp->qpn);
    early_expect_sends(&e, 0, 3);
    g_assert_cmpuint(th_stat(e.guest, RNIC_STAT_scan_finds), ==, 0);
    early_end(&e);
}

static void test_flushes_late_posts_of_a_failed_qp(void)
{
    struct rnic_sge none = { 0 };
    struct rnic_cqe cqe;
    struct rnic_qp_dbrec *dbrec;
    struct early e;

    early_begin(&e, &quiet_scan, 0);
    g_assert_cmpuint(th_qp_modify(e.qp, RNIC_QPS_ERROR), ==, RNIC_ADMIN_OK);
    early_post(&e, 0, 2);
    early_expect_flushed(&e, 0, 2);
    /* A receive, without the doorbell that is due in ERROR */
    th_post_recv(e.qp, 77, &none, 0);
    dbrec = th_ptr(e.guest, e.qp->dbrec);
    g_assert_cmpuint(GUINT32_FROM_LE(dbrec->rq_pi), ==, 1);
    th_cq_wait(e.qp->attr.recv_cq, &cqe);
    g_assert_cmpuint(cqe.status, ==, RNIC_WC_WR_FLUSH_ERR);
    dbrec->rq_pi = GUINT32_TO_LE(2);
    th_cq_wait(e.qp->attr.recv_cq, &cqe);
    g_assert_cmpuint(cqe.status, ==, RNIC_WC_WR_FLUSH_ERR);
    early_end(&e);
}

static void test_reads_no_wqe(void)
{
    struct early e;

    early_begin(&e, &quiet_scan, 0);
    early_post(&e, 0, 4);
    /* It would be an error to look at the ring */
    th_make_hole(e.guest, e.qp->sq & ~(uint64_t)(TH_PAGE - 1), TH_PAGE);
    th_wait(th_stat(e.guest, RNIC_STAT_scan_finds) == 1);
    th_run_for(30);
    g_assert_cmpuint(th_stat(e.guest, RNIC_STAT_scan_finds), ==, 1);
    g_assert_cmpuint(th_stat(e.guest, RNIC_STAT_guest_errors), ==, 0);
    th_fill_holes(e.guest);
    early_establish(&e);
    early_expect_event(&e, RNIC_CM_OK);
    early_expect_sends(&e, 0, 4);
    early_end(&e);
}

static void test_looks_at_every_qp_in_bounded_turns(void)
{
    enum { QPS = 500 };
    struct th_guest *guest = scanning_guest(2);
    struct th_qp_attr attr;
    struct th_qp *qps[QPS];
    struct th_wr wr;
    struct rnic_cqe cqe;
    unsigned i;

    th_qp_attr_init(&attr);
    attr.sq_depth = attr.rq_depth = 4;
    attr.send_cq = attr.recv_cq = th_cq_new(guest, 1024);
    early_wr(&wr, 0, 1);
    for (i = 0; i < QPS; i++) {
        qps[i] = th_qp_new(guest, &attr);
        g_assert_cmpuint(th_qp_modify(qps[i], RNIC_QPS_ERROR), ==,
                         RNIC_ADMIN_OK);
    }
    for (i = 0; i < QPS; i++) {
        th_post_send_quiet(qps[i], &wr, 1);
    }
    /* One run of the engine does not look at all of them */
    rnic_device_run(guest->dev);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_scan_finds), <=, 128);
    th_wait(th_stat(guest, RNIC_STAT_scan_finds) == QPS);
    for (i = 0; i < QPS; i++) {
        th_cq_wait(attr.send_cq, &cqe);
        g_assert_cmpuint(cqe.status, ==, RNIC_WC_WR_FLUSH_ERR);
    }
    th_run_for(20);
    g_assert_false(th_cq_poll(attr.send_cq, &cqe));
    th_guest_free(guest);
}

/* A QP that is made behind the back of a pass which finds no other */
static void test_finds_a_qp_that_is_made_during_a_pass(void)
{
    struct th_guest *guest = scanning_guest(1);
    struct rnic_device *dev = guest->dev;
    struct th_qp_attr attr;
    struct th_wr send = { .opcode = RNIC_WR_SEND };
    struct th_qp *qp;

    th_qp_attr_init(&attr);
    attr.flags = RNIC_QP_ERROR_PRE_RTS;
    attr.send_cq = attr.recv_cq = th_cq_new(guest, 64);
    th_qp_free(th_qp_new(guest, &attr));
    /* In the middle of a pass that has not met any */
    while (!dev->scan_timer.deadline_ns || !dev->scan_next ||
           dev->scan_next == RNIC_MAX_QP || dev->scan_found) {
        if (!dev->scan_timer.deadline_ns) {
            th_qp_free(th_qp_new(guest, &attr));
        }
        rnic_device_run(dev);
    }
    guest->next_qpn = 0;
    qp = th_qp_new(guest, &attr);
    g_assert_cmpuint(qp->qpn, <, dev->scan_next);
    th_post_send_quiet(qp, &send, 1);
    th_event_wait(guest, RNIC_EV_QP_FATAL, qp->qpn, NULL);
    th_guest_free(guest);
}

static void test_does_nothing_while_quiesced(void)
{
    struct early e;

    begin_connected(&e, &quiet_scan);
    th_run_for(20);
    rnic_device_quiesce(e.guest->dev);
    early_post(&e, 0, 2);
    th_run_for(50);
    g_assert_cmpuint(th_stat(e.guest, RNIC_STAT_scan_finds), ==, 0);
    rnic_device_resume(e.guest->dev);
    early_expect_sends(&e, 0, 2);
    early_end(&e);
}

/* Wake-ups of an idle device within 100 ms */
static uint64_t idle_wakeups(struct th_guest *guest)
{
    uint64_t before;

    th_run_for(50);
    before = th_stat(guest, RNIC_STAT_wakeups);
    th_run_for(100);
    return th_stat(guest, RNIC_STAT_wakeups) - before;
}

static void test_no_idle_wakeups_when_off(void)
{
    struct early e;

    begin_connected(&e, &quiet_no_scan);
    early_post(&e, 0, 1);
    g_assert_cmpuint(idle_wakeups(e.guest), ==, 0);
    early_end(&e);
}

static void test_rests_without_qps(void)
{
    struct th_guest *guest = scanning_guest(5);
    struct th_qp *qp;

    g_assert_cmpuint(idle_wakeups(guest), ==, 0);
    qp = th_qp_new(guest, NULL);
    g_assert_cmpuint(idle_wakeups(guest), >=, 5);
    th_qp_free(qp);
    g_assert_cmpuint(idle_wakeups(guest), ==, 0);
    qp = th_qp_new(guest, NULL);
    g_assert_cmpuint(idle_wakeups(guest), >=, 5);
    th_reset(guest);
    g_assert_cmpuint(idle_wakeups(guest), ==, 0);
    th_guest_free(guest);
}

static void test_bad_period_is_refused(void)
{
    struct rnic_host_ops ops = { 0 };
    struct rnic_config config;
    GError *error = NULL;

    rnic_config_init(&config);
    g_assert_cmpuint(config.sq_scan_ms, ==, 0);
    config.mac[0] = 2;
    config.sq_scan_ms = 60001;
    g_assert_null(rnic_device_new(&config, &ops, NULL, &error));
    g_assert_nonnull(error);
    g_assert_nonnull(strstr(error->message, "sq-scan-ms"));
    g_error_free(error);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define TEST(name) g_test_add_func("/sq-scan/" #name, test_##name)
    TEST(finds_a_send_without_doorbell);
    TEST(without_it_a_doorbell_is_needed);
    TEST(flushes_late_posts_of_a_failed_qp);
    TEST(reads_no_wqe);
    TEST(looks_at_every_qp_in_bounded_turns);
    TEST(finds_a_qp_that_is_made_during_a_pass);
    TEST(does_nothing_while_quiesced);
    TEST(no_idle_wakeups_when_off);
    TEST(rests_without_qps);
    TEST(bad_period_is_refused);
#undef TEST
    return g_test_run();
}
