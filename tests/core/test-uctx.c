/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Contexts: doorbell pages and doorbell bitmaps
 */
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include "harness.h"

static void set_bits(struct th_guest *guest, uint32_t uctx, uint32_t qpn)
{
    struct rnic_dbmap *dbmap = th_ptr(guest, guest->dbmap[uctx]);

    dbmap->word[qpn >> 6] |= GUINT64_TO_LE(1ull << (qpn & 63));
    dbmap->summary[qpn >> 12] |= GUINT64_TO_LE(1ull << (qpn >> 6 & 63));
}

static void kick(struct th_guest *guest, uint32_t uctx)
{
    rnic_device_doorbell(guest->dev, (uint64_t)uctx * RNIC_DB_PAGE_SIZE, 4);
}

static bool is_clear(struct th_guest *guest, uint32_t uctx)
{
    static const uint8_t zero[RNIC_DBMAP_SIZE];

    return memcmp(th_ptr(guest, guest->dbmap[uctx]), zero, sizeof(zero)) == 0;
}

static uint64_t doorbells(struct th_guest *guest)
{
    return th_stat(guest, RNIC_STAT_doorbells);
}

static void test_every_number_can_be_rung_for(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    uint32_t qpn;

    for (qpn = 0; qpn < RNIC_MAX_QP; qpn += qpn < 70 ? 1 : 61) {
        uint64_t before = doorbells(guest);
        g_autofree char *text =
            g_strdup_printf("context 0 rings for QP %u", qpn);

        th_ring(guest, 0, qpn);
        th_wait(doorbells(guest) == before + 1);
        g_assert_cmpstr(guest->trace_text[RNIC_TRACE_doorbell], ==, text);
        g_assert_true(is_clear(guest, 0));
    }
    th_guest_free(guest);
}

static void test_all_bits_are_taken_at_one_kick(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    uint32_t qpn;

    for (qpn = 0; qpn < RNIC_MAX_QP; qpn++) {
        set_bits(guest, 0, qpn);
    }
    kick(guest, 0);
    th_wait(doorbells(guest) == RNIC_MAX_QP);
    g_assert_true(is_clear(guest, 0));
    th_guest_free(guest);
}

static void test_bit_without_its_summary_is_not_seen(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct rnic_dbmap *dbmap = th_ptr(guest, guest->dbmap[0]);

    dbmap->word[3] = GUINT64_TO_LE(1);
    kick(guest, 0);
    th_run_for(5);
    g_assert_cmpuint(doorbells(guest), ==, 0);
    g_assert_cmphex(GUINT64_FROM_LE(dbmap->word[3]), ==, 1);
    dbmap->summary[0] = GUINT64_TO_LE(1ull << 3);
    kick(guest, 0);
    th_wait(doorbells(guest) == 1);
    th_guest_free(guest);
}

static void test_only_the_kicked_context_is_looked_at(void)
{
    struct th_guest *guest = th_guest_started(NULL);

    th_uctx_new(guest, 1);
    th_uctx_new(guest, 1023);
    set_bits(guest, 0, 5);
    set_bits(guest, 1, 6);
    set_bits(guest, 1023, 7);
    kick(guest, 1023);
    th_wait(doorbells(guest) == 1);
    th_run_for(5);
    g_assert_true(is_clear(guest, 1023));
    g_assert_false(is_clear(guest, 0));
    g_assert_false(is_clear(guest, 1));
    kick(guest, 0);
    kick(guest, 1);
    th_wait(doorbells(guest) == 3);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_kicks), ==, 3);
    th_guest_free(guest);
}

static void test_context_cannot_ring_for_a_stranger(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_qp *qp = th_qp_new(guest, NULL);

    th_uctx_new(guest, 1);
    th_ring(guest, 0, qp->qpn);
    th_wait(doorbells(guest) == 1);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_guest_errors), ==, 0);
    th_ring(guest, 1, qp->qpn);
    th_wait(doorbells(guest) == 2);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_guest_errors), ==, 1);
    th_guest_free(guest);
}

static void test_kick_of_a_missing_context_is_a_guest_error(void)
{
    struct th_guest *guest = th_guest_started(NULL);

    kick(guest, 2);
    th_wait(th_stat(guest, RNIC_STAT_guest_errors) == 1);
    g_assert_nonnull(
        strstr(guest->trace_text[RNIC_TRACE_guest_error], "no context 2"));
    th_guest_free(guest);
}

static void test_bitmap_that_vanishes_is_a_guest_error(void)
{
    struct th_guest *guest = th_guest_started(NULL);

    th_make_hole(guest, guest->dbmap[0] + 2048, 8);
    th_ring(guest, 0, 5);
    th_wait(th_stat(guest, RNIC_STAT_guest_errors) == 1);
    g_assert_cmpuint(doorbells(guest), ==, 0);
    /* Nothing was taken, so nothing is lost when it is back */
    th_fill_holes(guest);
    kick(guest, 0);
    th_wait(doorbells(guest) == 1);
    th_guest_free(guest);
}

static void test_writes_elsewhere_in_the_pages_are_ignored(void)
{
    static const struct {
        uint64_t offset;
        unsigned size;
    } writes[] = {
        { 0, 1 },
        { 0, 2 },
        { 0, 8 },
        { 1, 4 },
        { 4, 4 },
        { RNIC_DB_PAGE_SIZE - 4, 4 },
        { RNIC_BAR_DB_SIZE, 4 },
        { RNIC_BAR_DB_SIZE * 2ull, 4 },
        { UINT64_MAX - 3, 4 },
        { 1ull << 44, 4 },
    };
    struct th_guest *guest = th_guest_started(NULL);
    size_t i;

    set_bits(guest, 0, 5);
    for (i = 0; i < G_N_ELEMENTS(writes); i++) {
        rnic_device_doorbell(guest->dev, writes[i].offset, writes[i].size);
    }
    th_run_for(5);
    g_assert_cmpuint(doorbells(guest), ==, 0);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_kicks), ==, 0);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_guest_errors), ==,
                     G_N_ELEMENTS(writes));
    th_guest_free(guest);
}

static void test_kick_before_enable_is_dropped(void)
{
    struct th_guest *guest = th_guest_new(NULL);

    kick(guest, 0);
    th_run_for(5);
    th_start(guest);
    set_bits(guest, 0, 5);
    th_run_for(5);
    g_assert_cmpuint(doorbells(guest), ==, 0);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_guest_errors), ==, 0);
    th_guest_free(guest);
}

static bool is_readable(struct th_guest *guest)
{
    struct pollfd fd = { rnic_device_fd(guest->dev), POLLIN, 0 };

    return poll(&fd, 1, 0) == 1;
}

static void test_many_kicks_wake_the_engine_once(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    uint64_t wakeups, count;
    unsigned i;

    th_uctx_new(guest, 1);
    th_run_for(5);
    g_assert_false(is_readable(guest));
    wakeups = th_stat(guest, RNIC_STAT_wakeups);
    /* The engine does not read it: what was written until now */
    g_assert_cmpint(read(guest->dev->event_fd, &count, sizeof(count)), ==,
                    sizeof(count));
    for (i = 0; i < 100; i++) {
        th_ring(guest, 0, i);
        /* Other reasons to wake it, too */
        kick(guest, 1);
        th_reg_set(guest, RNIC_REG_ASQ_DB, guest->asq_pi);
    }
    /* One write of the eventfd for all of them */
    g_assert_cmpint(read(guest->dev->event_fd, &count, sizeof(count)), ==,
                    sizeof(count));
    g_assert_cmpuint(count, ==, 1);
    rnic_loop_poke(guest->dev);
    th_wait(doorbells(guest) == 100);
    th_run_for(5);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_wakeups), ==, wakeups + 1);
    g_assert_false(is_readable(guest));
    th_guest_free(guest);
}

static void test_kick_on_the_engine_is_served_at_once(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    uint64_t wakeups;

    th_run_for(5);
    guest->options.kicks = true;
    wakeups = th_stat(guest, RNIC_STAT_wakeups);
    th_ring(guest, 0, 5);
    g_assert_true(is_clear(guest, 0));
    g_assert_cmpuint(doorbells(guest), ==, 1);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_wakeups), ==, wakeups + 1);
    /* Nobody was woken for it */
    g_assert_false(is_readable(guest));

    /* Others still have to wake it */
    guest->options.kicks = false;
    th_ring(guest, 0, 6);
    g_assert_true(is_readable(guest));
    th_wait(doorbells(guest) == 2);
    th_guest_free(guest);
}

static void test_kick_on_the_engine_is_kept_while_quiesced(void)
{
    struct th_guest *guest = th_guest_started(NULL);

    guest->options.kicks = true;
    rnic_device_quiesce(guest->dev);
    th_ring(guest, 0, 5);
    g_assert_false(is_clear(guest, 0));
    g_assert_cmpuint(doorbells(guest), ==, 0);
    rnic_device_resume(guest->dev);
    th_wait(doorbells(guest) == 1);
    th_guest_free(guest);
}

static void test_doorbells_are_kept_while_quiesced(void)
{
    struct th_guest *guest = th_guest_started(NULL);

    rnic_device_quiesce(guest->dev);
    th_ring(guest, 0, 5);
    g_assert_false(rnic_device_run(guest->dev));
    g_assert_false(is_clear(guest, 0));
    g_assert_cmpuint(doorbells(guest), ==, 0);
    rnic_device_resume(guest->dev);
    th_wait(doorbells(guest) == 1);
    th_guest_free(guest);
}

static gpointer ringer(gpointer opaque)
{
    struct th_guest *guest = opaque;
    uint32_t i;

    for (i = 0; i < 20000; i++) {
        struct rnic_dbmap *dbmap = th_ptr(guest, guest->dbmap[0]);
        uint32_t qpn = i % 640 + 64;

        __atomic_fetch_or(&dbmap->word[qpn >> 6],
                          GUINT64_TO_LE(1ull << (qpn & 63)), __ATOMIC_SEQ_CST);
        __atomic_fetch_or(&dbmap->summary[0], GUINT64_TO_LE(1ull << (qpn >> 6)),
                          __ATOMIC_SEQ_CST);
        kick(guest, 0);
    }
    return NULL;
}

/* Whatever the interleaving, no bit stays set without somebody to look */
static void test_no_doorbell_is_lost_in_a_race(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    GThread *threads[3];
    size_t i;

    th_engine_start(guest);
    for (i = 0; i < G_N_ELEMENTS(threads); i++) {
        threads[i] = g_thread_new("ringer", ringer, guest);
    }
    for (i = 0; i < G_N_ELEMENTS(threads); i++) {
        g_thread_join(threads[i]);
    }
    th_wait(is_clear(guest, 0));
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_kicks), ==, 60000);
    th_engine_stop(guest);
    th_guest_free(guest);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add_func("/uctx/" #name, test_##name)
    ADD(every_number_can_be_rung_for);
    ADD(all_bits_are_taken_at_one_kick);
    ADD(bit_without_its_summary_is_not_seen);
    ADD(only_the_kicked_context_is_looked_at);
    ADD(context_cannot_ring_for_a_stranger);
    ADD(kick_of_a_missing_context_is_a_guest_error);
    ADD(bitmap_that_vanishes_is_a_guest_error);
    ADD(writes_elsewhere_in_the_pages_are_ignored);
    ADD(kick_before_enable_is_dropped);
    ADD(many_kicks_wake_the_engine_once);
    ADD(kick_on_the_engine_is_served_at_once);
    ADD(kick_on_the_engine_is_kept_while_quiesced);
    ADD(doorbells_are_kept_while_quiesced);
    ADD(no_doorbell_is_lost_in_a_race);
    return g_test_run();
}
