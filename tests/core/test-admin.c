/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The admin queue: its rings, completions and trace
 */
#include "harness.h"

static void test_rings_of_two_work_for_many_laps(void)
{
    struct th_guest *guest = th_guest_new(NULL);
    struct rnic_asqe nop = { .opcode = RNIC_CMD_NOP };
    unsigned i;

    th_enable(guest, 2);
    for (i = 0; i < 100; i++) {
        uint16_t cookies[2] = { th_admin_submit(guest, &nop),
                                th_admin_submit(guest, &nop) };
        struct rnic_acqe resp;

        th_wait(th_admin_done(guest, cookies[1], &resp));
        g_assert_true(th_admin_done(guest, cookies[0], &resp));
    }
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_admin_commands), ==, 200);
    th_guest_free(guest);
}

static void test_full_ring_completes_each_command_once(void)
{
    struct th_guest *guest = th_guest_new(NULL);
    struct rnic_asqe nop = { .opcode = RNIC_CMD_NOP };
    uint16_t cookies[1024];
    struct rnic_acqe resp;
    unsigned irqs, i;

    th_enable(guest, 1024);
    irqs = guest->irqs[0];
    for (i = 0; i < 1024; i++) {
        nop.opcode = i % 3 ? RNIC_CMD_NOP : 200;
        cookies[i] = th_admin_submit(guest, &nop);
    }
    th_wait(th_stat(guest, RNIC_STAT_admin_commands) == 1024);
    for (i = 0; i < 1024; i++) {
        g_assert_true(th_admin_done(guest, cookies[i], &resp));
        g_assert_cmpuint(GUINT16_FROM_LE(resp.status), ==,
                         i % 3 ? RNIC_ADMIN_OK : RNIC_ADMIN_BAD_OPCODE);
        g_assert_false(th_admin_done(guest, cookies[i], &resp));
    }
    /* Not one interrupt a command */
    g_assert_cmpuint(guest->irqs[0] - irqs, >, 0);
    g_assert_cmpuint(guest->irqs[0] - irqs, <=, 32);
    th_guest_free(guest);
}

static void test_trace_tells_command_and_outcome(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    const char *text = guest->trace_text[RNIC_TRACE_admin];

    th_admin_id(guest, RNIC_CMD_DESTROY_CQ, 1);
    g_assert_cmpstr(text, ==,
                    "DESTROY_CQ CQ 1: no such object, or not of this context");
    th_cq_new(guest, 16);
    g_assert_cmpstr(text, ==,
                    "CREATE_CQ CQ 1, EQ 1, context 0, depth 16: done");
    th_admin_id(guest, 99, 1);
    g_assert_cmpstr(text, ==, "opcode 99: there is no such command");
    th_guest_free(guest);
}

static void test_engine_on_its_own_thread(void)
{
    struct th_guest *guest = th_guest_new(NULL);
    unsigned i;

    th_engine_start(guest);
    th_start(guest);
    for (i = 0; i < 200; i++) {
        struct th_cq *cq = th_cq_new(guest, 16);

        th_cq_free(cq);
    }
    th_engine_stop(guest);
    th_guest_free(guest);
}

/* A delay that is changed holds from then on, for what waits as well */
static void test_changed_delay_counts(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_NOP };
    struct rnic_acqe resp;
    uint16_t cookie;

    rnic_device_fault_admin_delay(guest->dev, 3600 * 1000);
    cookie = th_admin_submit(guest, &cmd);
    th_run_for(20);
    g_assert_false(th_admin_done(guest, cookie, &resp));
    rnic_device_fault_admin_delay(guest->dev, 1);
    th_wait(th_admin_done(guest, cookie, &resp));

    rnic_device_fault_admin_delay(guest->dev, 100);
    cookie = th_admin_submit(guest, &cmd);
    th_step(0);
    rnic_device_fault_admin_delay(guest->dev, RNIC_FAULT_NEVER);
    th_run_for(300);
    g_assert_false(th_admin_done(guest, cookie, &resp));
    rnic_device_fault_admin_delay(guest->dev, 0);
    th_wait(th_admin_done(guest, cookie, &resp));
    th_guest_free(guest);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add_func("/admin/" #name, test_##name)
    ADD(rings_of_two_work_for_many_laps);
    ADD(full_ring_completes_each_command_once);
    ADD(trace_tells_command_and_outcome);
    ADD(engine_on_its_own_thread);
    ADD(changed_delay_counts);
    return g_test_run();
}
