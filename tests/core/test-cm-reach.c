/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who may reach whom: other users, the host's own services, other devices
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cm-steps.h"
#include "cm-private.h"
#include "raw-peer.h"

#define A "10.0.0.1"
#define B "10.0.0.2"

static void test_service_of_the_host_is_not_reached(void)
{
    struct th_guest *a = cm_guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    struct sockaddr_in in = { .sin_family = AF_INET };
    socklen_t len = sizeof(in);
    int service = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    g_assert_cmpint(bind(service, (struct sockaddr *)&in, len), ==, 0);
    g_assert_cmpint(listen(service, 4), ==, 0);
    getsockname(service, (struct sockaddr *)&in, &len);
    cm_connect_ok(qp, A, B, ntohs(in.sin_port));
    cm_assert_fails(qp, RNIC_CM_REFUSED);
    g_assert_cmpint(accept(service, NULL, NULL), ==, -1);
    g_assert_cmpint(errno, ==, EAGAIN);
    close(service);
    th_guest_free(a);
}

static void test_dual_stack_service_is_not_reached(void)
{
    struct th_guest *a = cm_guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
    socklen_t len = sizeof(in6);
    int service = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);

    if (service < 0 || bind(service, (struct sockaddr *)&in6, len) < 0) {
        g_test_skip("the host has no IPv6");
    } else {
        g_assert_cmpint(listen(service, 4), ==, 0);
        getsockname(service, (struct sockaddr *)&in6, &len);
        cm_connect_ok(qp, A, B, ntohs(in6.sin6_port));
        cm_assert_fails(qp, RNIC_CM_REFUSED);
        g_assert_cmpint(accept(service, NULL, NULL), ==, -1);
    }
    close(service);
    th_guest_free(a);
}

static void test_listener_of_the_same_user_at_the_address_is_reached(void)
{
    struct th_guest *a = cm_guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    struct raw_frame request;
    uint16_t port = 0;
    int listener = raw_listen(a, B, &port), peer;

    cm_connect_ok(qp, A, B, port);
    peer = raw_accept(listener);
    raw_recv_frame(peer, false, &request);
    close(peer);
    close(listener);
    th_guest_free(a);
}

/* A listener of another user: made while this process acts as that user */
static void test_listener_of_another_user_is_not_reached(void)
{
    struct th_guest *a, *any;
    struct th_qp *qp;
    struct th_options options;
    struct raw_frame request;
    uint16_t port = 0;
    int listener, peer;

    if (geteuid() != 0) {
        g_test_skip("needs root, to make a socket of another user");
        return;
    }
    a = cm_guest_at(A, NULL);
    qp = th_qp_new(a, NULL);
    g_assert_cmpint(seteuid(65534), ==, 0);
    listener = raw_listen(a, B, &port);
    g_assert_cmpint(seteuid(0), ==, 0);
    cm_connect_ok(qp, A, B, port);
    cm_assert_fails(qp, RNIC_CM_REFUSED);
    th_guest_free(a);

    th_options_init(&options);
    options.config.fabric_peers_any = true;
    any = cm_guest_at(A, &options);
    qp = th_qp_new(any, NULL);
    cm_connect_ok(qp, A, B, port);
    peer = raw_accept(listener);
    raw_recv_frame(peer, false, &request);
    close(peer);
    close(listener);
    th_guest_free(any);
}

static void test_client_of_another_user_is_dropped(void)
{
    struct th_guest *a;
    uint16_t port;
    int peer;

    if (geteuid() != 0) {
        g_test_skip("needs root, to make a socket of another user");
        return;
    }
    a = cm_guest_at(A, NULL);
    th_listen(a, A, 0, 4, &port);
    /* Only the socket is the other user's; the engine runs as root again */
    g_assert_cmpint(seteuid(65534), ==, 0);
    peer = raw_socket(a, B, 0);
    g_assert_cmpint(seteuid(0), ==, 0);
    raw_connect_socket(a, peer, A, port);
    g_assert_true(raw_closed(peer, NULL));
    g_assert_cmpuint(th_stat(a, RNIC_STAT_conn_refused_policy), ==, 1);
    close(peer);
    th_guest_free(a);
}

static void test_client_from_outside_the_fabric_is_dropped(void)
{
    struct th_guest *a = cm_guest_at(A, NULL);
    uint16_t port;
    int peer = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    th_listen(a, A, 0, 4, &port);
    /* Its source address is 127.0.0.1 */
    raw_connect_socket(a, peer, A, port);
    g_assert_true(raw_closed(peer, NULL));
    g_assert_cmpuint(th_stat(a, RNIC_STAT_conn_refused_policy), ==, 1);
    close(peer);
    th_guest_free(a);
}

static void test_without_lookups_everything_is_refused(void)
{
    struct th_guest *a = cm_guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    uint16_t own, port = 0;
    int listener = raw_listen(a, B, &port), peer;

    th_listen(a, A, 0, 4, &own);
    close(a->dev->cm->diag_fd);
    a->dev->cm->diag_fd = -1;
    cm_connect_ok(qp, A, B, port);
    cm_assert_fails(qp, RNIC_CM_REFUSED);
    g_assert_cmpint(accept(listener, NULL, NULL), ==, -1);
    peer = raw_connect(a, B, A, own);
    g_assert_true(raw_closed(peer, NULL));
    g_assert_nonnull(
        strstr(a->trace_text[RNIC_TRACE_cm], "socket lookup is not available"));
    close(peer);
    close(listener);
    th_guest_free(a);
}

static void test_denied_remote_is_unreachable(void)
{
    struct th_options options;
    struct th_guest *a;
    struct th_qp *qp, *other;
    g_autofree char *deny = NULL;
    uint16_t port = 0;
    int listener, peer;

    th_options_init(&options);
    deny = g_strdup_printf("127.%u.0.2", 64 + 2 * options.config.fabric_id);
    options.config.deny = deny;
    a = cm_guest_at(A, &options);
    qp = th_qp_new(a, NULL);
    other = th_qp_new(a, NULL);
    cm_connect_ok(qp, A, B, 9);
    cm_assert_fails(qp, RNIC_CM_UNREACHABLE);
    g_assert_cmpuint(th_stat(a, RNIC_STAT_conn_refused_policy), ==, 1);
    /* The device may not have it either; others are not touched */
    g_assert_cmpuint(th_addr_add(a, B), ==, RNIC_ADMIN_REFUSED);
    listener = raw_listen(a, "10.0.0.3", &port);
    cm_connect_ok(other, A, "10.0.0.3", port);
    peer = raw_accept(listener);
    close(peer);
    close(listener);
    th_guest_free(a);
}

static void test_address_of_another_device_is_a_conflict(void)
{
    struct th_guest *a = cm_guest_at(A, NULL), *b = th_guest_started(NULL);
    struct rnic_sockaddr expected;
    struct rnic_aeqe event;

    g_assert_cmpuint(th_addr_add(b, "192.168.0.1"), ==, RNIC_ADMIN_ADDR_IN_USE);
    th_event_wait(b, RNIC_EV_ADDR_CONFLICT, 0, &event);
    expected = th_sockaddr("192.168.0.1", 0);
    g_assert_cmpmem(&event.local, sizeof(expected), &expected,
                    sizeof(expected));
    g_assert_cmpuint(th_addr_del(a, A), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(th_addr_add(b, "192.168.0.1"), ==, RNIC_ADMIN_OK);
    th_guest_free(a);
    /* A reset gives addresses up */
    th_reset(b);
    a = cm_guest_at(A, NULL);
    th_guest_free(a);
    th_guest_free(b);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, test) g_test_add_func("/cm-reach/" name, test)
    ADD("service", test_service_of_the_host_is_not_reached);
    ADD("dual-stack", test_dual_stack_service_is_not_reached);
    ADD("exact", test_listener_of_the_same_user_at_the_address_is_reached);
    ADD("other-user", test_listener_of_another_user_is_not_reached);
    ADD("other-client", test_client_of_another_user_is_dropped);
    ADD("outside", test_client_from_outside_the_fabric_is_dropped);
    ADD("no-lookups", test_without_lookups_everything_is_refused);
    ADD("deny", test_denied_remote_is_unreachable);
    ADD("conflict", test_address_of_another_device_is_a_conflict);
    return g_test_run();
}
