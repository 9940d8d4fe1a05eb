/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The device: configuration, event loop, quiesce
 */
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "harness.h"

/* ---- Configuration ---- */

static void no_irq(void *opaque, unsigned vector)
{
}

static bool no_trace(void *opaque, enum rnic_trace_event event)
{
    return false;
}

static const struct rnic_host_ops no_host = {
    .raise_irq = no_irq,
    .trace_enabled = no_trace,
};

/* The error of this configuration names the property and the value */
static void expect_refused(const struct rnic_config *config,
                           const char *property, const char *value)
{
    g_autofree char *name = g_strdup_printf("'%s'", property);
    GError *error = NULL;

    g_assert_null(rnic_device_new(config, &no_host, NULL, &error));
    g_assert_nonnull(error);
    if (!strstr(error->message, name) || !strstr(error->message, value)) {
        g_error("property %s, value %s: \"%s\"", property, value,
                error->message);
    }
    g_error_free(error);
}

static void test_bad_properties_are_named(void)
{
    struct th_options options;
    struct rnic_config config;

    th_options_init(&options);
#define REFUSED(property, value, ...)                                          \
    do {                                                                       \
        config = options.config;                                               \
        __VA_ARGS__;                                                           \
        expect_refused(&config, property, value);                              \
    } while (0)
    REFUSED("mac", "00:00:00:00:00:00", memset(config.mac, 0, 6));
    REFUSED("mac", "53:54:00", config.mac[0] = 0x53);
    REFUSED("vectors", "1", config.vectors = 1);
    REFUSED("vectors", "65", config.vectors = 65);
    REFUSED("fabric-id", "95", config.fabric_id = 95);
    REFUSED("mpa-rev", "0", config.mpa_rev = 0);
    REFUSED("mpa-rev", "3", config.mpa_rev = 3);
    REFUSED("rtr", "4", config.rtr = 4);
    REFUSED("rtr", "0", config.rtr = 0);
    REFUSED("mpa-timeout-ms", "0", config.mpa_timeout_ms = 0);
    REFUSED("peer-timeout-ms", "86400001", config.peer_timeout_ms = 86400001);
    REFUSED("fpdu-max", "127", config.fpdu_max = 127);
    REFUSED("fpdu-max", "64769", config.fpdu_max = 64769);
    REFUSED("max-connections", "16384", config.max_connections = 16384);
    REFUSED("map", "nonsense", config.map = "nonsense");
    REFUSED("allow", "1.2.3.4/33", config.allow = "1.2.3.4/33");
    REFUSED("deny", "x", config.deny = "x");
    REFUSED("pcap", "/nonexistent/x", config.pcap = "/nonexistent/x");
    REFUSED("pcap-max", "1", config.pcap = "/nonexistent/x";
            config.pcap_max = 1);
#undef REFUSED
}

static void test_extreme_properties_are_accepted(void)
{
    struct th_options options;
    unsigned i;

    for (i = 0; i < 2; i++) {
        th_options_init(&options);
        options.config.vectors = i ? 64 : 2;
        options.config.fpdu_max = i ? 64768 : 128;
        options.config.mpa_rev = i ? 2 : 1;
        options.config.p2p = i;
        options.config.rtr = i ? RNIC_RTR_READ : 0;
        options.config.max_connections = i ? RNIC_MAX_QP - 1 : 1;
        th_guest_free(th_guest_started(&options));
    }
}

/* ---- Sources and timers ---- */

struct counter {
    struct rnic_source source;
    struct rnic_timer timer;
    struct counter *victim; /* removed, and freed, when this is ready */
    unsigned *ready;
};

static void count_ready(struct rnic_source *source, uint32_t events)
{
    struct counter *counter = rnic_owner(source, struct counter, source);

    ++*counter->ready;
    if (counter->victim) {
        rnic_source_remove(&counter->victim->source);
        g_free(counter->victim);
        counter->victim = NULL;
    }
}

/* Both are ready at once, and whichever is served first removes the other */
static void test_removed_source_is_not_called(void)
{
    struct th_guest *guest = th_guest_new(NULL);
    struct counter *a = g_new0(struct counter, 1);
    struct counter *b = g_new0(struct counter, 1);
    unsigned a_ready = 0, b_ready = 0;
    int fds[2][2];
    unsigned i;

    for (i = 0; i < 2; i++) {
        g_assert_cmpint(pipe(fds[i]), ==, 0);
        g_assert_cmpint(write(fds[i][1], "x", 1), ==, 1);
    }
    a->ready = &a_ready;
    b->ready = &b_ready;
    a->victim = b;
    b->victim = a;
    rnic_source_add(guest->dev, &a->source, fds[0][0], EPOLLIN, count_ready);
    rnic_source_add(guest->dev, &b->source, fds[1][0], EPOLLIN, count_ready);
    rnic_device_run(guest->dev);
    g_assert_cmpuint(a_ready + b_ready, ==, 1);
    if (a_ready) {
        rnic_source_remove(&a->source);
        g_free(a);
    } else {
        rnic_source_remove(&b->source);
        g_free(b);
    }
    th_guest_free(guest);
    for (i = 0; i < 2; i++) {
        close(fds[i][0]);
        close(fds[i][1]);
    }
}

static void test_source_that_wants_nothing_does_not_spin(void)
{
    struct th_guest *guest = th_guest_new(NULL);
    struct counter counter = { 0 };
    struct pollfd fd = { rnic_device_fd(guest->dev), POLLIN, 0 };
    unsigned ready = 0;
    int fds[2];

    g_assert_cmpint(pipe(fds), ==, 0);
    counter.ready = &ready;
    rnic_source_add(guest->dev, &counter.source, fds[0], 0, count_ready);
    g_assert_cmpint(write(fds[1], "x", 1), ==, 1);
    /* A hang-up is reported whether it is wanted or not */
    close(fds[1]);
    th_run_for(5);
    g_assert_cmpint(poll(&fd, 1, 0), ==, 0);
    g_assert_cmpuint(ready, ==, 0);
    rnic_source_set(&counter.source, EPOLLIN);
    th_run_for(1);
    g_assert_cmpuint(ready, >, 0);
    rnic_source_remove(&counter.source);
    close(fds[0]);
    th_guest_free(guest);
}

static GString *expired_order;

static void note_expired(struct rnic_timer *timer)
{
    struct counter *counter = rnic_owner(timer, struct counter, timer);

    g_string_append_c(expired_order, 'a' + *counter->ready);
    if (counter->victim) {
        rnic_timer_cancel(&counter->victim->timer);
    }
}

static void test_timers_expire_in_order_and_once(void)
{
    static const unsigned delays[] = { 30000, 10000, 20000, 0, 40000 };
    struct th_guest *guest = th_guest_new(NULL);
    struct counter counters[5] = { 0 };
    unsigned names[5];
    unsigned i;

    expired_order = g_string_new(NULL);
    for (i = 0; i < 5; i++) {
        names[i] = i;
        counters[i].ready = &names[i];
        rnic_timer_arm(guest->dev, &counters[i].timer, delays[i], note_expired);
    }
    /* c cancels a; e is put off and then cancelled */
    counters[2].victim = &counters[0];
    rnic_timer_arm(guest->dev, &counters[4].timer, 50000, note_expired);
    rnic_timer_cancel(&counters[4].timer);
    rnic_timer_cancel(&counters[4].timer);
    th_wait(expired_order->len == 3);
    th_run_for(60);
    g_assert_cmpstr(expired_order->str, ==, "dbc");
    g_string_free(expired_order, true);
    th_guest_free(guest);
}

/* ---- Quiesce ---- */

static void test_quiesced_engine_does_nothing(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct rnic_asqe nop = { .opcode = RNIC_CMD_NOP };
    struct counter counter = { 0 };
    struct rnic_acqe resp;
    unsigned name = 0, i;
    uint16_t cookie;
    uint64_t wakeups;

    expired_order = g_string_new(NULL);
    counter.ready = &name;
    rnic_timer_arm(guest->dev, &counter.timer, 1000, note_expired);
    rnic_device_quiesce(guest->dev);
    wakeups = th_stat(guest, RNIC_STAT_wakeups);
    cookie = th_admin_submit(guest, &nop);
    for (i = 0; i < 5; i++) {
        g_usleep(1000);
        g_assert_false(rnic_device_run(guest->dev));
    }
    g_assert_false(th_admin_done(guest, cookie, &resp));
    g_assert_cmpuint(expired_order->len, ==, 0);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_wakeups), ==, wakeups);
    rnic_device_resume(guest->dev);
    th_wait(th_admin_done(guest, cookie, &resp));
    th_wait(expired_order->len == 1);
    g_string_free(expired_order, true);
    th_guest_free(guest);
}

static void test_reset_while_quiesced_touches_no_guest_memory(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    size_t used = guest->mem_used;
    g_autofree uint8_t *before = NULL;

    th_qp_new(guest, NULL);
    used = guest->mem_used;
    before = g_memdup2(guest->mem, used);
    rnic_device_quiesce(guest->dev);
    rnic_device_reset(guest->dev);
    g_assert_cmpmem(guest->mem, used, before, used);
    rnic_device_resume(guest->dev);
    guest->next_qpn = guest->next_cqn = 0;
    th_start(guest);
    th_qp_new(guest, NULL);
    th_guest_free(guest);
}

static void test_idle_device_sleeps(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct pollfd fd = { rnic_device_fd(guest->dev), POLLIN, 0 };

    th_run_for(5);
    g_assert_cmpint(poll(&fd, 1, 50), ==, 0);
    th_guest_free(guest);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add_func("/device/" #name, test_##name)
    ADD(bad_properties_are_named);
    ADD(extreme_properties_are_accepted);
    ADD(removed_source_is_not_called);
    ADD(source_that_wants_nothing_does_not_spin);
    ADD(timers_expire_in_order_and_once);
    ADD(quiesced_engine_does_nothing);
    ADD(reset_while_quiesced_touches_no_guest_memory);
    ADD(idle_device_sleeps);
    return g_test_run();
}
