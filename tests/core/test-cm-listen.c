/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Listeners: addresses that come and go, ports, backlog
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cm-steps.h"
#include "net/sockaddr.h"
#include "raw-peer.h"

#define A "10.0.0.1"
#define B "10.0.0.2"

static void test_wildcard_listener_follows_the_addresses(void)
{
    struct th_guest *a = th_guest_started(NULL);
    uint16_t port;
    uint32_t listener = th_listen(a, "0.0.0.0", 0, 8, &port);
    struct rnic_aeqe event;
    struct rnic_sockaddr host;
    struct sockaddr_storage os;
    socklen_t len;
    int peer;

    /* With no address it waits; the port is known */
    g_assert_cmpuint(port, !=, 0);
    g_assert_cmpuint(th_addr_add(a, A), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(th_addr_add(a, "10.0.1.1"), ==, RNIC_ADMIN_OK);
    peer = raw_connect(a, B, "10.0.1.1", port);
    raw_send_frame(peer, false, 0, 1, NULL, 0);
    event = cm_arrives(a, listener);
    cm_assert_addr(&event.local, "10.0.1.1", port);
    close(peer);
    peer = raw_connect(a, B, A, port);
    raw_send_frame(peer, false, 0, 1, NULL, 0);
    event = cm_arrives(a, listener);
    cm_assert_addr(&event.local, A, port);
    close(peer);

    g_assert_cmpuint(th_addr_del(a, A), ==, RNIC_ADMIN_OK);
    peer = raw_socket(a, B, 0);
    host = raw_host(a, A, port);
    len = rnic_sockaddr_to_os(&host, &os);
    th_wait(connect(peer, (struct sockaddr *)&os, len) < 0 &&
            errno == ECONNREFUSED);
    close(peer);
    g_assert_cmpuint(th_addr_add(a, A), ==, RNIC_ADMIN_OK);
    peer = raw_connect(a, B, A, port);
    close(peer);
    th_guest_free(a);
}

static void test_ipv6_wildcard_takes_ipv4_too(void)
{
    struct th_guest *a = cm_guest_at(A, NULL);
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(a, "::", 0, 8, &port);
    int peer = raw_connect(a, B, A, port);

    g_assert_cmpuint(th_addr_add(a, "fd00::7"), ==, RNIC_ADMIN_OK);
    raw_send_frame(peer, false, 0, 1, NULL, 0);
    event = cm_arrives(a, listener);
    cm_assert_addr(&event.local, A, port);
    cm_assert_addr(&event.remote, B, 0);
    close(peer);
    peer = raw_connect(a, "fd00::9", "fd00::7", port);
    raw_send_frame(peer, false, 0, 1, NULL, 0);
    event = cm_arrives(a, listener);
    cm_assert_addr(&event.local, "fd00::7", port);
    cm_assert_addr(&event.remote, "fd00::9", 0);
    close(peer);
    th_guest_free(a);
}

static void test_v6only_wildcard_leaves_ipv4_alone(void)
{
    struct th_guest *a = cm_guest_at(A, NULL);

    g_assert_cmpuint(cm_listen_status(a, 1, "::", 7000, RNIC_LISTEN_V6ONLY), ==,
                     RNIC_ADMIN_OK);
    g_assert_cmpuint(cm_listen_status(a, 2, "0.0.0.0", 7000, 0), ==,
                     RNIC_ADMIN_OK);
    g_assert_cmpuint(cm_listen_status(a, 3, "::", 7000, 0), ==,
                     RNIC_ADMIN_ADDR_IN_USE);
    th_guest_free(a);
}

static void test_a_port_has_one_listener(void)
{
    struct th_guest *a = cm_guest_at(A, NULL), *b = cm_guest_at(B, NULL);

    g_assert_cmpuint(cm_listen_status(a, 1, A, 7001, 0), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(cm_listen_status(a, 2, A, 7001, 0), ==,
                     RNIC_ADMIN_ADDR_IN_USE);
    g_assert_cmpuint(cm_listen_status(a, 2, "0.0.0.0", 7001, 0), ==,
                     RNIC_ADMIN_ADDR_IN_USE);
    g_assert_cmpuint(cm_listen_status(a, 1, A, 7002, 0), ==, RNIC_ADMIN_IN_USE);
    g_assert_cmpuint(cm_listen_status(a, 2, A, 7002, 0), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(cm_listen_status(b, 1, B, 7001, 0), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(cm_unlisten(a, 1), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(cm_unlisten(a, 1), ==, RNIC_ADMIN_BAD_ID);
    g_assert_cmpuint(cm_listen_status(a, 1, "0.0.0.0", 7001, 0), ==,
                     RNIC_ADMIN_OK);
    th_guest_free(a);
    th_guest_free(b);
}

static void test_waiting_listeners_share_no_port_either(void)
{
    struct th_guest *a = th_guest_started(NULL);

    g_assert_cmpuint(cm_listen_status(a, 1, "0.0.0.0", 7003, 0), ==,
                     RNIC_ADMIN_OK);
    g_assert_cmpuint(cm_listen_status(a, 2, "0.0.0.0", 7003, 0), ==,
                     RNIC_ADMIN_ADDR_IN_USE);
    th_guest_free(a);
}

static void test_bad_listens_are_refused(void)
{
    struct th_guest *a = cm_guest_at(A, NULL);
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_LISTEN };

    g_assert_cmpuint(cm_listen_status(a, 1, B, 7004, 0), ==,
                     RNIC_ADMIN_ADDR_NOT_AVAIL);
    g_assert_cmpuint(cm_listen_status(a, 1, "127.0.0.1", 7004, 0), ==,
                     RNIC_ADMIN_ADDR_NOT_AVAIL);
    g_assert_cmpuint(cm_listen_status(a, RNIC_MAX_LISTEN, A, 7004, 0), ==,
                     RNIC_ADMIN_BAD_PARAM);
    g_assert_cmpuint(cm_listen_status(a, 1, A, 7004, 2), ==,
                     RNIC_ADMIN_BAD_PARAM);
    cmd.listen.local = th_sockaddr(A, 7004);
    cmd.listen.backlog = GUINT32_TO_LE(RNIC_MAX_BACKLOG + 1);
    g_assert_cmpuint(th_admin(a, &cmd, NULL), ==, RNIC_ADMIN_BAD_PARAM);
    cmd.listen.backlog = 0;
    cmd.listen.local.family = GUINT16_TO_LE(5);
    g_assert_cmpuint(th_admin(a, &cmd, NULL), ==, RNIC_ADMIN_BAD_PARAM);
    th_guest_free(a);
}

static void test_later_bind_failure_is_told(void)
{
    struct th_guest *a = cm_guest_at(A, NULL);
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(a, "0.0.0.0", 0, 8, &port);
    int taken = raw_listen(a, "10.0.1.1", &port), peer;

    g_assert_cmpuint(th_addr_add(a, "10.0.1.1"), ==, RNIC_ADMIN_OK);
    th_event_wait(a, RNIC_EV_LISTEN_ERROR, listener, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_ADDR_IN_USE);
    cm_assert_addr(&event.local, "10.0.1.1", port);
    /* The others still work */
    peer = raw_connect(a, B, A, port);
    close(peer);
    close(taken);
    th_guest_free(a);
}

static void test_chosen_port_is_free_at_every_address(void)
{
    struct th_guest *a = cm_guest_at(A, NULL);
    uint16_t port;
    uint32_t listener;
    int one, two;

    g_assert_cmpuint(th_addr_add(a, "10.0.1.1"), ==, RNIC_ADMIN_OK);
    listener = th_listen(a, "0.0.0.0", 0, 8, &port);
    one = raw_connect(a, B, A, port);
    two = raw_connect(a, B, "10.0.1.1", port);
    raw_send_frame(one, false, 0, 1, NULL, 0);
    raw_send_frame(two, false, 0, 1, NULL, 0);
    cm_arrives(a, listener);
    cm_arrives(a, listener);
    close(one);
    close(two);
    th_guest_free(a);
}

static void test_unanswered_requests_fill_the_backlog(void)
{
    struct th_guest *a = cm_guest_at(A, NULL);
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(a, A, 0, 2, &port);
    uint64_t wakeups;
    int peer[3];

    for (unsigned i = 0; i < 3; i++) {
        peer[i] = raw_connect(a, B, A, port);
        raw_send_frame(peer[i], false, 0, 1, NULL, 0);
    }
    event = cm_arrives(a, listener);
    cm_arrives(a, listener);
    wakeups = th_stat(a, RNIC_STAT_wakeups);
    th_run_for(50);
    g_assert_cmpuint(th_events(a), ==, 0);
    /* The third one waits in the kernel, and costs nothing */
    g_assert_cmpuint(th_stat(a, RNIC_STAT_wakeups) - wakeups, <, 5);
    /* Even when one of their peers leaves: the guest has it to answer */
    close(peer[1]);
    th_run_for(50);
    g_assert_cmpuint(th_events(a), ==, 0);
    g_assert_cmpuint(th_reject(a, GUINT32_FROM_LE(event.conn_id), NULL), ==,
                     RNIC_ADMIN_OK);
    cm_arrives(a, listener);
    close(peer[0]);
    close(peer[2]);
    th_guest_free(a);
}

/* A request behind a full backlog is neither lost nor overdue */
static void test_request_waits_for_the_guest(void)
{
    struct th_guest *a = cm_guest_with(A, 1500, RNIC_CRC_AUTO, true, 2);
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(a, A, 0, 1, &port);
    uint8_t frame[32];
    size_t len;
    int peer[3];

    /* Accepted while there is room, silent until there is none */
    for (unsigned i = 0; i < 3; i++) {
        peer[i] = raw_connect(a, B, A, port);
    }
    th_run_for(50);
    /* Two at the same time, and one place */
    len = raw_frame(frame, false, 0, 1, NULL, 0);
    raw_send_whole(peer[0], frame, len);
    raw_send_whole(peer[1], frame, len);
    event = cm_arrives(a, listener);
    th_run_for(3500);
    g_assert_cmpuint(th_events(a), ==, 0);
    g_assert_cmpuint(th_reject(a, GUINT32_FROM_LE(event.conn_id), NULL), ==,
                     RNIC_ADMIN_OK);
    cm_arrives(a, listener);
    for (unsigned i = 0; i < 3; i++) {
        close(peer[i]);
    }
    th_guest_free(a);
}

static void good_one_among_silent(unsigned silent, unsigned max_connections)
{
    struct th_options options;
    struct th_guest *a;
    uint16_t port;
    uint32_t listener;
    g_autofree int *peer = g_new(int, silent);
    unsigned left = 0;
    int good;

    th_options_init(&options);
    options.config.max_connections = max_connections;
    a = cm_guest_at(A, &options);
    listener = th_listen(a, A, 0, 4, &port);
    for (unsigned i = 0; i < silent; i++) {
        peer[i] = raw_connect(a, B, A, port);
        th_step(0);
    }
    good = raw_connect(a, B, A, port);
    raw_send_frame(good, false, 0, 1, NULL, 0);
    cm_arrives(a, listener);
    /* Those that came last are still given their time */
    for (unsigned i = 0; i < silent; i++) {
        char octet;

        left += recv(peer[i], &octet, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
        close(peer[i]);
    }
    g_assert_cmpuint(left, >, 0);
    g_assert_cmpuint(left, <=, max_connections ? max_connections : 256);
    close(good);
    th_guest_free(a);
}

static void test_silent_peers_keep_nobody_out(void)
{
    good_one_among_silent(1000, 0);
}

static void test_silent_peers_use_up_no_connections(void)
{
    good_one_among_silent(10, 3);
}

static void test_unlisten_closes_what_was_not_answered(void)
{
    struct th_guest *a = cm_guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(a, A, 0, 8, &port);
    int asked = raw_connect(a, B, A, port), silent;

    silent = raw_connect(a, B, A, port);
    raw_send_frame(asked, false, 0, 1, NULL, 0);
    event = cm_arrives(a, listener);
    g_assert_cmpuint(cm_unlisten(a, listener), ==, RNIC_ADMIN_OK);
    raw_closed(asked, NULL);
    raw_closed(silent, NULL);
    g_assert_cmpuint(th_accept(qp, GUINT32_FROM_LE(event.conn_id), NULL), ==,
                     RNIC_ADMIN_CONN_GONE);
    g_assert_cmpuint(th_accept(qp, 4711, NULL), ==, RNIC_ADMIN_BAD_ID);
    g_assert_cmpuint(th_events(a), ==, 0);
    close(asked);
    close(silent);
    th_guest_free(a);
}

/* More requests than EQ 0 has entries: the rest is kept, and forgotten */
static void test_unlisten_forgets_requests_that_were_not_written(void)
{
    struct th_guest *a = cm_guest_at(A, NULL);
    uint16_t port;
    uint32_t listener = th_listen(a, A, 0, 400, &port);
    struct rnic_aeqe event;
    unsigned events = 0;
    int peer[300];

    for (unsigned i = 0; i < G_N_ELEMENTS(peer); i++) {
        peer[i] = raw_connect(a, B, A, port);
        raw_send_frame(peer[i], false, 0, 1, NULL, 0);
    }
    th_run_for(50);
    g_assert_cmpuint(cm_unlisten(a, listener), ==, RNIC_ADMIN_OK);
    for (unsigned i = 0; i < 10; i++) {
        while (th_aeq_poll(a, &event)) {
            events++;
        }
        th_run_for(20);
    }
    g_assert_cmpuint(events, ==, a->aeq.depth);
    for (unsigned i = 0; i < G_N_ELEMENTS(peer); i++) {
        close(peer[i]);
    }
    th_guest_free(a);
}

static void test_peer_that_left_cannot_be_accepted(void)
{
    struct th_guest *a = cm_guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(a, A, 0, 8, &port);
    int peer = raw_connect(a, B, A, port);

    raw_send_frame(peer, false, 0, 1, NULL, 0);
    event = cm_arrives(a, listener);
    close(peer);
    th_run_for(30);
    g_assert_cmpuint(th_accept(qp, GUINT32_FROM_LE(event.conn_id), NULL), ==,
                     RNIC_ADMIN_CONN_GONE);
    g_assert_cmpuint(th_qp_state(qp), ==, RNIC_QPS_IDLE);
    g_assert_cmpuint(th_events(a), ==, 0);
    th_guest_free(a);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, test) g_test_add_func("/cm-listen/" name, test)
    ADD("follows", test_wildcard_listener_follows_the_addresses);
    ADD("both-families", test_ipv6_wildcard_takes_ipv4_too);
    ADD("v6only", test_v6only_wildcard_leaves_ipv4_alone);
    ADD("in-use", test_a_port_has_one_listener);
    ADD("in-use-waiting", test_waiting_listeners_share_no_port_either);
    ADD("bad", test_bad_listens_are_refused);
    ADD("error", test_later_bind_failure_is_told);
    ADD("port-0", test_chosen_port_is_free_at_every_address);
    ADD("backlog", test_unanswered_requests_fill_the_backlog);
    ADD("backlog-waits", test_request_waits_for_the_guest);
    ADD("silent", test_silent_peers_keep_nobody_out);
    ADD("silent-cap", test_silent_peers_use_up_no_connections);
    ADD("unlisten", test_unlisten_closes_what_was_not_answered);
    ADD("unlisten-kept", test_unlisten_forgets_requests_that_were_not_written);
    ADD("left", test_peer_that_left_cannot_be_accepted);
    return g_test_run();
}
