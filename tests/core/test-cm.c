/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connection management between guests, and between a guest and what else the
 * host runs: addresses, listeners, who may reach whom, events
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "harness.h"
#include "net/sockaddr.h"
#include "raw-peer.h"

#define A "10.0.0.1"
#define B "10.0.0.2"

/* ---- Shorthands ---- */

static struct th_guest *guest_at(const char *address,
                                 const struct th_options *options)
{
    struct th_guest *guest = th_guest_started(options);

    g_assert_cmpuint(th_addr_add(guest, address), ==, RNIC_ADMIN_OK);
    return guest;
}

/* CONNECT from @from, port 0, to @to */
static unsigned connect_from(struct th_qp *qp, const char *from,
                             const char *to, uint16_t port)
{
    struct rnic_sockaddr local = th_sockaddr(from, 0);
    struct rnic_sockaddr remote = th_sockaddr(to, port);

    return th_connect(qp, &local, &remote, NULL);
}

static void connect_ok(struct th_qp *qp, const char *from, const char *to,
                       uint16_t port)
{
    g_assert_cmpuint(connect_from(qp, from, to, port), ==, RNIC_ADMIN_OK);
}

/* The failed CONNECT_REPLY is the only event, and the QP is in ERROR */
static void assert_connect_fails(struct th_qp *qp, enum rnic_cm_status status)
{
    struct rnic_aeqe event;

    th_event_wait(qp->guest, RNIC_EV_CONNECT_REPLY, qp->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, status);
    g_assert_cmpuint(th_qp_state(qp), ==, RNIC_QPS_ERROR);
    th_run_for(20);
    g_assert_cmpuint(th_events(qp->guest), ==, 0);
}

static unsigned listen_status(struct th_guest *guest, uint32_t id,
                              const char *address, uint16_t port,
                              uint32_t flags)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_LISTEN };

    cmd.listen.id = GUINT32_TO_LE(id);
    cmd.listen.backlog = GUINT32_TO_LE(4);
    cmd.listen.flags = GUINT32_TO_LE(flags);
    cmd.listen.local = th_sockaddr(address, port);
    return th_admin(guest, &cmd, NULL);
}

static unsigned unlisten(struct th_guest *guest, uint32_t id)
{
    return th_admin_id(guest, RNIC_CMD_UNLISTEN, id);
}

static unsigned set_link(struct th_guest *guest, bool up)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_SET_LINK };

    cmd.set_link.up = GUINT32_TO_LE(up);
    return th_admin(guest, &cmd, NULL);
}

static void assert_addr(const struct rnic_sockaddr *sa, const char *address,
                        uint16_t port)
{
    struct rnic_sockaddr expected = th_sockaddr(address, port);

    g_assert_cmpuint(sa->family, ==, expected.family);
    g_assert_cmpmem(sa->addr, 16, expected.addr, 16);
    if (port) {
        g_assert_cmpuint(sa->port, ==, expected.port);
    } else {
        g_assert_cmpuint(sa->port, !=, 0);
    }
}

/* A connection attempt that arrives at @listener of @server; the request */
static struct rnic_aeqe arrives(struct th_guest *server, uint32_t listener)
{
    struct rnic_aeqe event;

    th_event_wait(server, RNIC_EV_CONNECT_REQUEST, listener, &event);
    return event;
}

/* Two guests and a connection between them */
struct pair {
    struct th_guest *a, *b;
    struct th_qp *qa, *qb;
};

static void pair_up(struct pair *p)
{
    p->a = guest_at(A, NULL);
    p->b = guest_at(B, NULL);
    p->qa = th_qp_new(p->a, NULL);
    p->qb = th_qp_new(p->b, NULL);
    th_connect_pair(p->qa, A, p->qb, B, NULL);
}

static void pair_free(struct pair *p)
{
    th_guest_free(p->a);
    th_guest_free(p->b);
}

/* ---- Setup between guests ---- */

static void test_accept_connects_both(void)
{
    struct th_guest *a = guest_at(A, NULL), *b = guest_at(B, NULL);
    struct th_qp *qa = th_qp_new(a, NULL), *qb = th_qp_new(b, NULL);
    struct rnic_sockaddr local = th_sockaddr(A, 0), remote;
    struct th_connect ask = { 5, 6, "question", 8 };
    struct th_connect answer = { 7, 8, "answer", 6 };
    struct rnic_aeqe event;
    uint16_t port, source;
    uint32_t listener = th_listen(b, B, 0, 1, &port);

    remote = th_sockaddr(B, port);
    g_assert_cmpuint(th_connect(qa, &local, &remote, &ask), ==, RNIC_ADMIN_OK);
    event = arrives(b, listener);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, 5);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, 6);
    g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), "question",
                    8);
    assert_addr(&event.local, B, port);
    assert_addr(&event.remote, A, 0);
    source = ntohs(event.remote.port);
    g_assert_cmpuint(th_qp_state(qb), ==, RNIC_QPS_IDLE);
    g_assert_cmpuint(th_qp_state(qa), ==, RNIC_QPS_IDLE);

    g_assert_cmpuint(th_accept(qb, GUINT32_FROM_LE(event.conn_id), &answer),
                     ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(th_qp_state(qb), ==, RNIC_QPS_RTS);
    th_event_wait(a, RNIC_EV_CONNECT_REPLY, qa->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
    g_assert_cmpuint(th_qp_state(qa), ==, RNIC_QPS_RTS);
    g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), "answer",
                    6);
    /* Each ORD is bounded by the other's IRD, each IRD raised to its ORD */
    g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, 5);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, 6);
    assert_addr(&event.local, A, source);
    assert_addr(&event.remote, B, port);

    th_event_wait(b, RNIC_EV_ESTABLISHED, qb->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, 7);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, 5);
    assert_addr(&event.local, B, port);
    assert_addr(&event.remote, A, source);
    g_assert_cmpuint(th_stat(a, RNIC_STAT_connects), ==, 1);
    g_assert_cmpuint(th_stat(b, RNIC_STAT_accepts), ==, 1);
    th_guest_free(a);
    th_guest_free(b);
}

static void test_reject_reaches_the_initiator_with_its_data(void)
{
    struct th_guest *a = guest_at(A, NULL), *b = guest_at(B, NULL);
    struct th_qp *qa = th_qp_new(a, NULL);
    struct th_connect answer = { .pdata = "no", .pdata_len = 2 };
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(b, B, 0, 1, &port);

    connect_ok(qa, A, B, port);
    event = arrives(b, listener);
    g_assert_cmpuint(th_reject(b, GUINT32_FROM_LE(event.conn_id), &answer), ==,
                     RNIC_ADMIN_OK);
    g_assert_cmpuint(th_reject(b, GUINT32_FROM_LE(event.conn_id), &answer), ==,
                     RNIC_ADMIN_CONN_GONE);
    th_event_wait(a, RNIC_EV_CONNECT_REPLY, qa->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_REJECTED);
    g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), "no", 2);
    th_run_for(30);
    g_assert_cmpuint(th_events(a), ==, 0);
    g_assert_cmpuint(th_events(b), ==, 0);
    th_guest_free(a);
    th_guest_free(b);
}

static void test_nobody_listens(void)
{
    struct th_guest *a = guest_at(A, NULL), *b = guest_at(B, NULL);
    struct th_qp *qa = th_qp_new(a, NULL);

    connect_ok(qa, A, B, 9);
    assert_connect_fails(qa, RNIC_CM_REFUSED);
    th_guest_free(a);
    th_guest_free(b);
}

static void test_guest_connects_to_itself(void)
{
    static const char *const remotes[] = { A, "127.0.0.1", "127.3.2.1" };

    for (size_t i = 0; i < G_N_ELEMENTS(remotes); i++) {
        struct th_guest *a = guest_at(A, NULL);
        struct th_qp *client = th_qp_new(a, NULL), *server = th_qp_new(a, NULL);
        struct rnic_aeqe event;
        uint16_t port;
        uint32_t listener = th_listen(a, "0.0.0.0", 0, 1, &port);

        connect_ok(client, A, remotes[i], port);
        event = arrives(a, listener);
        assert_addr(&event.local, A, port);
        assert_addr(&event.remote, A, 0);
        g_assert_cmpuint(th_accept(server, GUINT32_FROM_LE(event.conn_id),
                                   NULL), ==, RNIC_ADMIN_OK);
        th_event_wait(a, RNIC_EV_CONNECT_REPLY, client->qpn, &event);
        g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
        th_event_wait(a, RNIC_EV_ESTABLISHED, server->qpn, &event);
        th_guest_free(a);
    }
}

static void test_ipv6_loopback_is_this_device(void)
{
    struct th_guest *a = guest_at("fd00::1", NULL);
    struct th_qp *client = th_qp_new(a, NULL);
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(a, "::", 0, 1, &port);

    connect_ok(client, "fd00::1", "::1", port);
    event = arrives(a, listener);
    assert_addr(&event.local, "fd00::1", port);
    assert_addr(&event.remote, "fd00::1", 0);
    th_guest_free(a);
}

static void test_source_port_of_the_guest_is_used(void)
{
    struct th_guest *a = guest_at(A, NULL), *b = guest_at(B, NULL);
    struct th_qp *qa = th_qp_new(a, NULL), *again = th_qp_new(a, NULL);
    struct rnic_sockaddr local = th_sockaddr(A, 41234), remote;
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(b, B, 0, 4, &port);

    remote = th_sockaddr(B, port);
    g_assert_cmpuint(th_connect(qa, &local, &remote, NULL), ==, RNIC_ADMIN_OK);
    event = arrives(b, listener);
    assert_addr(&event.remote, A, 41234);
    /* The same pair of addresses and ports cannot be connected twice */
    g_assert_cmpuint(th_connect(again, &local, &remote, NULL), ==,
                     RNIC_ADMIN_OK);
    assert_connect_fails(again, RNIC_CM_ADDR_IN_USE);
    th_guest_free(a);
    th_guest_free(b);
}

static void test_bad_connects_are_refused(void)
{
    struct th_guest *a = guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL), *up = th_qp_new(a, NULL);
    struct rnic_sockaddr local = th_sockaddr(A, 0);
    struct rnic_sockaddr remote = th_sockaddr(B, 9);
    struct th_connect params = { .ird = 129 };
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_CONNECT };
    int peer;
    uint16_t port = 0;

    g_assert_cmpuint(connect_from(qp, A, B, 0), ==, RNIC_ADMIN_BAD_PARAM);
    g_assert_cmpuint(connect_from(qp, A, "0.0.0.0", 9), ==,
                     RNIC_ADMIN_BAD_PARAM);
    g_assert_cmpuint(connect_from(qp, A, "224.0.0.1", 9), ==,
                     RNIC_ADMIN_BAD_PARAM);
    g_assert_cmpuint(connect_from(qp, A, "fd00::2", 9), ==,
                     RNIC_ADMIN_BAD_PARAM);
    g_assert_cmpuint(connect_from(qp, B, B, 9), ==,
                     RNIC_ADMIN_ADDR_NOT_AVAIL);
    g_assert_cmpuint(connect_from(qp, "fd00::1", "fd00::2", 9), ==,
                     RNIC_ADMIN_ADDR_NOT_AVAIL);
    g_assert_cmpuint(th_connect(qp, &local, &remote, &params), ==,
                     RNIC_ADMIN_BAD_PARAM);
    params = (struct th_connect){ .ord = 129 };
    g_assert_cmpuint(th_connect(qp, &local, &remote, &params), ==,
                     RNIC_ADMIN_BAD_PARAM);
    cmd.connect.qpn = GUINT32_TO_LE(qp->qpn);
    cmd.connect.local = local;
    cmd.connect.remote = remote;
    cmd.connect.pdata_len = GUINT16_TO_LE(509);
    g_assert_cmpuint(th_admin(a, &cmd, NULL), ==, RNIC_ADMIN_BAD_PARAM);
    cmd.connect.pdata_len = GUINT16_TO_LE(8);
    cmd.connect.pdata = GUINT64_TO_LE(8);
    g_assert_cmpuint(th_admin(a, &cmd, NULL), ==, RNIC_ADMIN_BAD_ADDRESS);
    cmd.connect.pdata_len = 0;
    cmd.connect.qpn = GUINT32_TO_LE(4711);
    g_assert_cmpuint(th_admin(a, &cmd, NULL), ==, RNIC_ADMIN_BAD_ID);
    /* One that is being connected */
    peer = raw_listen(a, B, &port);
    connect_ok(up, A, B, port);
    g_assert_cmpuint(connect_from(up, A, B, port), ==, RNIC_ADMIN_BAD_STATE);
    /* None of this changed anything */
    g_assert_cmpuint(th_qp_state(qp), ==, RNIC_QPS_IDLE);
    g_assert_cmpuint(th_events(a), ==, 0);
    close(peer);
    th_guest_free(a);
}

/* ---- Who may reach whom ---- */

static void test_service_of_the_host_is_not_reached(void)
{
    struct th_guest *a = guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    struct sockaddr_in in = { .sin_family = AF_INET };
    socklen_t len = sizeof(in);
    int service = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    g_assert_cmpint(bind(service, (struct sockaddr *)&in, len), ==, 0);
    g_assert_cmpint(listen(service, 4), ==, 0);
    getsockname(service, (struct sockaddr *)&in, &len);
    connect_ok(qp, A, B, ntohs(in.sin_port));
    assert_connect_fails(qp, RNIC_CM_REFUSED);
    g_assert_cmpint(accept(service, NULL, NULL), ==, -1);
    g_assert_cmpint(errno, ==, EAGAIN);
    close(service);
    th_guest_free(a);
}

static void test_dual_stack_service_is_not_reached(void)
{
    struct th_guest *a = guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
    socklen_t len = sizeof(in6);
    int service = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);

    if (service < 0 || bind(service, (struct sockaddr *)&in6, len) < 0) {
        g_test_skip("the host has no IPv6");
    } else {
        g_assert_cmpint(listen(service, 4), ==, 0);
        getsockname(service, (struct sockaddr *)&in6, &len);
        connect_ok(qp, A, B, ntohs(in6.sin6_port));
        assert_connect_fails(qp, RNIC_CM_REFUSED);
        g_assert_cmpint(accept(service, NULL, NULL), ==, -1);
    }
    close(service);
    th_guest_free(a);
}

static void test_listener_of_the_same_user_at_the_address_is_reached(void)
{
    struct th_guest *a = guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    struct raw_frame request;
    uint16_t port = 0;
    int listener = raw_listen(a, B, &port), peer;

    connect_ok(qp, A, B, port);
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
    a = guest_at(A, NULL);
    qp = th_qp_new(a, NULL);
    g_assert_cmpint(seteuid(65534), ==, 0);
    listener = raw_listen(a, B, &port);
    g_assert_cmpint(seteuid(0), ==, 0);
    connect_ok(qp, A, B, port);
    assert_connect_fails(qp, RNIC_CM_REFUSED);
    th_guest_free(a);

    th_options_init(&options);
    options.config.fabric_peers_any = true;
    any = guest_at(A, &options);
    qp = th_qp_new(any, NULL);
    connect_ok(qp, A, B, port);
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
    a = guest_at(A, NULL);
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
    struct th_guest *a = guest_at(A, NULL);
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
    a = guest_at(A, &options);
    qp = th_qp_new(a, NULL);
    other = th_qp_new(a, NULL);
    connect_ok(qp, A, B, 9);
    assert_connect_fails(qp, RNIC_CM_UNREACHABLE);
    g_assert_cmpuint(th_stat(a, RNIC_STAT_conn_refused_policy), ==, 1);
    /* The device may not have it either; others are not touched */
    g_assert_cmpuint(th_addr_add(a, B), ==, RNIC_ADMIN_REFUSED);
    listener = raw_listen(a, "10.0.0.3", &port);
    connect_ok(other, A, "10.0.0.3", port);
    peer = raw_accept(listener);
    close(peer);
    close(listener);
    th_guest_free(a);
}

static void test_address_of_another_device_is_a_conflict(void)
{
    struct th_guest *a = guest_at(A, NULL), *b = th_guest_started(NULL);
    struct rnic_sockaddr expected;
    struct rnic_aeqe event;

    g_assert_cmpuint(th_addr_add(b, "192.168.0.1"), ==,
                     RNIC_ADMIN_ADDR_IN_USE);
    th_event_wait(b, RNIC_EV_ADDR_CONFLICT, 0, &event);
    expected = th_sockaddr("192.168.0.1", 0);
    g_assert_cmpmem(&event.local, sizeof(expected), &expected,
                    sizeof(expected));
    g_assert_cmpuint(th_addr_del(a, A), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(th_addr_add(b, "192.168.0.1"), ==, RNIC_ADMIN_OK);
    th_guest_free(a);
    /* A reset gives addresses up */
    th_reset(b);
    a = guest_at(A, NULL);
    th_guest_free(a);
    th_guest_free(b);
}

/* ---- Listeners ---- */

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
    event = arrives(a, listener);
    assert_addr(&event.local, "10.0.1.1", port);
    close(peer);
    peer = raw_connect(a, B, A, port);
    raw_send_frame(peer, false, 0, 1, NULL, 0);
    event = arrives(a, listener);
    assert_addr(&event.local, A, port);
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
    struct th_guest *a = guest_at(A, NULL);
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(a, "::", 0, 8, &port);
    int peer = raw_connect(a, B, A, port);

    g_assert_cmpuint(th_addr_add(a, "fd00::7"), ==, RNIC_ADMIN_OK);
    raw_send_frame(peer, false, 0, 1, NULL, 0);
    event = arrives(a, listener);
    assert_addr(&event.local, A, port);
    assert_addr(&event.remote, B, 0);
    close(peer);
    peer = raw_connect(a, "fd00::9", "fd00::7", port);
    raw_send_frame(peer, false, 0, 1, NULL, 0);
    event = arrives(a, listener);
    assert_addr(&event.local, "fd00::7", port);
    assert_addr(&event.remote, "fd00::9", 0);
    close(peer);
    th_guest_free(a);
}

static void test_v6only_wildcard_leaves_ipv4_alone(void)
{
    struct th_guest *a = guest_at(A, NULL);

    g_assert_cmpuint(listen_status(a, 1, "::", 7000, RNIC_LISTEN_V6ONLY), ==,
                     RNIC_ADMIN_OK);
    g_assert_cmpuint(listen_status(a, 2, "0.0.0.0", 7000, 0), ==,
                     RNIC_ADMIN_OK);
    g_assert_cmpuint(listen_status(a, 3, "::", 7000, 0), ==,
                     RNIC_ADMIN_ADDR_IN_USE);
    th_guest_free(a);
}

static void test_a_port_has_one_listener(void)
{
    struct th_guest *a = guest_at(A, NULL), *b = guest_at(B, NULL);

    g_assert_cmpuint(listen_status(a, 1, A, 7001, 0), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(listen_status(a, 2, A, 7001, 0), ==,
                     RNIC_ADMIN_ADDR_IN_USE);
    g_assert_cmpuint(listen_status(a, 2, "0.0.0.0", 7001, 0), ==,
                     RNIC_ADMIN_ADDR_IN_USE);
    g_assert_cmpuint(listen_status(a, 1, A, 7002, 0), ==, RNIC_ADMIN_IN_USE);
    g_assert_cmpuint(listen_status(a, 2, A, 7002, 0), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(listen_status(b, 1, B, 7001, 0), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(unlisten(a, 1), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(unlisten(a, 1), ==, RNIC_ADMIN_BAD_ID);
    g_assert_cmpuint(listen_status(a, 1, "0.0.0.0", 7001, 0), ==,
                     RNIC_ADMIN_OK);
    th_guest_free(a);
    th_guest_free(b);
}

static void test_waiting_listeners_share_no_port_either(void)
{
    struct th_guest *a = th_guest_started(NULL);

    g_assert_cmpuint(listen_status(a, 1, "0.0.0.0", 7003, 0), ==,
                     RNIC_ADMIN_OK);
    g_assert_cmpuint(listen_status(a, 2, "0.0.0.0", 7003, 0), ==,
                     RNIC_ADMIN_ADDR_IN_USE);
    th_guest_free(a);
}

static void test_bad_listens_are_refused(void)
{
    struct th_guest *a = guest_at(A, NULL);
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_LISTEN };

    g_assert_cmpuint(listen_status(a, 1, B, 7004, 0), ==,
                     RNIC_ADMIN_ADDR_NOT_AVAIL);
    g_assert_cmpuint(listen_status(a, 1, "127.0.0.1", 7004, 0), ==,
                     RNIC_ADMIN_ADDR_NOT_AVAIL);
    g_assert_cmpuint(listen_status(a, RNIC_MAX_LISTEN, A, 7004, 0), ==,
                     RNIC_ADMIN_BAD_PARAM);
    g_assert_cmpuint(listen_status(a, 1, A, 7004, 2), ==,
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
    struct th_guest *a = guest_at(A, NULL);
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(a, "0.0.0.0", 0, 8, &port);
    int taken = raw_listen(a, "10.0.1.1", &port), peer;

    g_assert_cmpuint(th_addr_add(a, "10.0.1.1"), ==, RNIC_ADMIN_OK);
    th_event_wait(a, RNIC_EV_LISTEN_ERROR, listener, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_ADDR_IN_USE);
    assert_addr(&event.local, "10.0.1.1", port);
    /* The others still work */
    peer = raw_connect(a, B, A, port);
    close(peer);
    close(taken);
    th_guest_free(a);
}

static void test_chosen_port_is_free_at_every_address(void)
{
    struct th_guest *a = guest_at(A, NULL);
    uint16_t port;
    uint32_t listener;
    int one, two;

    g_assert_cmpuint(th_addr_add(a, "10.0.1.1"), ==, RNIC_ADMIN_OK);
    listener = th_listen(a, "0.0.0.0", 0, 8, &port);
    one = raw_connect(a, B, A, port);
    two = raw_connect(a, B, "10.0.1.1", port);
    raw_send_frame(one, false, 0, 1, NULL, 0);
    raw_send_frame(two, false, 0, 1, NULL, 0);
    arrives(a, listener);
    arrives(a, listener);
    close(one);
    close(two);
    th_guest_free(a);
}

static void test_unanswered_requests_fill_the_backlog(void)
{
    struct th_guest *a = guest_at(A, NULL);
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(a, A, 0, 2, &port);
    int peer[3];

    for (unsigned i = 0; i < 3; i++) {
        peer[i] = raw_connect(a, B, A, port);
        raw_send_frame(peer[i], false, 0, 1, NULL, 0);
    }
    event = arrives(a, listener);
    arrives(a, listener);
    th_run_for(50);
    g_assert_cmpuint(th_events(a), ==, 0);
    /* Even when one of their peers leaves: the guest has it to answer */
    close(peer[1]);
    th_run_for(50);
    g_assert_cmpuint(th_events(a), ==, 0);
    g_assert_cmpuint(th_reject(a, GUINT32_FROM_LE(event.conn_id), NULL), ==,
                     RNIC_ADMIN_OK);
    arrives(a, listener);
    close(peer[0]);
    close(peer[2]);
    th_guest_free(a);
}

static void test_unlisten_closes_what_was_not_answered(void)
{
    struct th_guest *a = guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(a, A, 0, 8, &port);
    int asked = raw_connect(a, B, A, port), silent;

    silent = raw_connect(a, B, A, port);
    raw_send_frame(asked, false, 0, 1, NULL, 0);
    event = arrives(a, listener);
    g_assert_cmpuint(unlisten(a, listener), ==, RNIC_ADMIN_OK);
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

static void test_peer_that_left_cannot_be_accepted(void)
{
    struct th_guest *a = guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(a, A, 0, 8, &port);
    int peer = raw_connect(a, B, A, port);

    raw_send_frame(peer, false, 0, 1, NULL, 0);
    event = arrives(a, listener);
    close(peer);
    th_run_for(30);
    g_assert_cmpuint(th_accept(qp, GUINT32_FROM_LE(event.conn_id), NULL), ==,
                     RNIC_ADMIN_CONN_GONE);
    g_assert_cmpuint(th_qp_state(qp), ==, RNIC_QPS_IDLE);
    g_assert_cmpuint(th_events(a), ==, 0);
    th_guest_free(a);
}

/* ---- The end of connections ---- */

static void assert_closed(struct th_qp *qp, bool by_peer)
{
    struct rnic_aeqe event;

    if (by_peer) {
        th_event_wait(qp->guest, RNIC_EV_DISCONNECT, qp->qpn, &event);
    }
    th_event_wait(qp->guest, RNIC_EV_CLOSE, qp->qpn, &event);
    g_assert_cmpuint(th_qp_state(qp), ==, RNIC_QPS_ERROR);
    th_run_for(30);
    g_assert_false(th_event_take(qp->guest, RNIC_EV_CLOSE, qp->qpn, &event));
    g_assert_false(th_event_take(qp->guest, RNIC_EV_DISCONNECT, qp->qpn,
                                 &event));
}

static void test_close_is_told_once_to_each(void)
{
    struct pair p;

    pair_up(&p);
    g_assert_cmpuint(th_qp_modify(p.qa, RNIC_QPS_CLOSING), ==, RNIC_ADMIN_OK);
    assert_closed(p.qa, false);
    assert_closed(p.qb, true);
    pair_free(&p);
}

static void test_removed_address_ends_its_connections(void)
{
    struct pair p;
    struct rnic_aeqe event;

    pair_up(&p);
    g_assert_cmpuint(th_addr_add(p.a, "10.0.1.1"), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(th_addr_del(p.a, "10.0.1.1"), ==, RNIC_ADMIN_OK);
    th_run_for(30);
    g_assert_cmpuint(th_qp_state(p.qa), ==, RNIC_QPS_RTS);
    g_assert_cmpuint(th_addr_del(p.a, A), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(th_addr_del(p.a, A), ==, RNIC_ADMIN_ADDR_NOT_AVAIL);
    th_event_wait(p.a, RNIC_EV_CLOSE, p.qa->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_ADDR_GONE);
    g_assert_cmpuint(th_qp_state(p.qa), ==, RNIC_QPS_ERROR);
    assert_closed(p.qb, true);
    g_assert_cmpuint(th_events(p.a), ==, 0);
    pair_free(&p);
}

static void test_link_down_ends_everything_and_up_starts_again(void)
{
    struct th_guest *a = guest_at(A, NULL);
    struct th_qp *setup = th_qp_new(a, NULL), *down = th_qp_new(a, NULL);
    struct rnic_aeqe event;
    uint16_t port, own;
    uint32_t listener = th_listen(a, A, 0, 8, &own);
    int server, peer, asked;

    port = 0;
    server = raw_listen(a, B, &port);
    connect_ok(setup, A, B, port);
    peer = raw_accept(server);
    asked = raw_connect(a, B, A, own);
    raw_send_frame(asked, false, 0, 1, NULL, 0);
    event = arrives(a, listener);

    g_assert_cmpuint(set_link(a, false), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(set_link(a, false), ==, RNIC_ADMIN_OK);
    assert_connect_fails(setup, RNIC_CM_ADDR_GONE);
    raw_closed(asked, NULL);
    raw_closed(peer, NULL);
    g_assert_cmpuint(th_reject(a, GUINT32_FROM_LE(event.conn_id), NULL), ==,
                     RNIC_ADMIN_CONN_GONE);
    connect_ok(down, A, B, port);
    assert_connect_fails(down, RNIC_CM_ADDR_GONE);
    /* A listener can be made, and its port is taken */
    g_assert_cmpuint(listen_status(a, 50, A, own, 0), ==,
                     RNIC_ADMIN_ADDR_IN_USE);
    g_assert_cmpuint(listen_status(a, 50, A, 7010, 0), ==, RNIC_ADMIN_OK);

    g_assert_cmpuint(set_link(a, true), ==, RNIC_ADMIN_OK);
    close(asked);
    asked = raw_connect(a, B, A, own);
    raw_send_frame(asked, false, 0, 1, NULL, 0);
    arrives(a, listener);
    close(asked);
    asked = raw_connect(a, B, A, 7010);
    close(asked);
    close(peer);
    close(server);
    th_guest_free(a);
}

static void test_destroyed_qp_makes_no_events(void)
{
    struct th_guest *a = guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    struct raw_frame request;
    uint16_t port = 0;
    int server = raw_listen(a, B, &port), peer;

    connect_ok(qp, A, B, port);
    peer = raw_accept(server);
    raw_recv_frame(peer, false, &request);
    th_qp_free(qp);
    g_assert_true(raw_closed(peer, NULL));
    th_run_for(30);
    g_assert_cmpuint(th_events(a), ==, 0);
    close(peer);
    close(server);
    th_guest_free(a);
}

static void test_qp_that_leaves_idle_ends_its_setup(void)
{
    struct th_guest *a = guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    uint16_t port = 0;
    int server = raw_listen(a, B, &port), peer;

    connect_ok(qp, A, B, port);
    peer = raw_accept(server);
    g_assert_cmpuint(th_qp_modify(qp, RNIC_QPS_ERROR), ==, RNIC_ADMIN_OK);
    assert_connect_fails(qp, RNIC_CM_LOCAL_ERROR);
    raw_closed(peer, NULL);
    close(peer);
    close(server);
    th_guest_free(a);
}

static void test_reset_closes_everything_silently(void)
{
    struct pair p;
    struct th_qp *qp;
    uint16_t port, server_port = 0;
    int server, setup, asked;

    pair_up(&p);
    qp = th_qp_new(p.a, NULL);
    th_listen(p.a, A, 0, 8, &port);
    server = raw_listen(p.a, "10.0.0.3", &server_port);
    connect_ok(qp, A, "10.0.0.3", server_port);
    setup = raw_accept(server);
    asked = raw_connect(p.a, "10.0.0.3", A, port);
    raw_send_frame(asked, false, 0, 1, NULL, 0);
    th_run_for(30);

    th_reset(p.a);
    raw_closed(setup, NULL);
    raw_closed(asked, NULL);
    assert_closed(p.qb, true);
    close(setup);
    close(asked);
    close(server);
    pair_free(&p);
}

/* ---- Limits ---- */

static void test_connections_are_bounded(void)
{
    struct th_options options;
    struct th_guest *a;
    struct th_qp *one, *two, *three;
    uint16_t port, server_port = 0;
    int server, peer;

    th_options_init(&options);
    options.config.max_connections = 2;
    a = guest_at(A, &options);
    one = th_qp_new(a, NULL);
    two = th_qp_new(a, NULL);
    three = th_qp_new(a, NULL);
    th_listen(a, A, 0, 8, &port);
    server = raw_listen(a, B, &server_port);
    connect_ok(one, A, B, server_port);
    connect_ok(two, A, B, server_port);
    g_assert_cmpuint(connect_from(three, A, B, server_port), ==,
                     RNIC_ADMIN_NO_RESOURCES);
    peer = raw_connect(a, B, A, port);
    g_assert_true(raw_closed(peer, NULL));
    th_qp_free(one);
    connect_ok(three, A, B, server_port);
    close(peer);
    close(server);
    th_guest_free(a);
}

/* Opens files until there is no descriptor left */
static GArray *use_up_files(void)
{
    GArray *files = g_array_new(false, false, sizeof(int));
    int fd;

    while ((fd = open("/dev/null", O_RDONLY)) >= 0) {
        g_array_append_val(files, fd);
    }
    g_assert_cmpint(errno, ==, EMFILE);
    return files;
}

static void test_no_files_left_is_told_and_passes(void)
{
    struct th_guest *a = guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    struct rlimit limit, small;
    struct rnic_aeqe event;
    uint16_t port, server_port = 0;
    uint32_t listener = th_listen(a, A, 0, 8, &port);
    int server = raw_listen(a, B, &server_port), peer;
    GArray *files;
    uint64_t wakeups;

    peer = raw_socket(a, B, 0);
    getrlimit(RLIMIT_NOFILE, &limit);
    small = limit;
    small.rlim_cur = 256;
    setrlimit(RLIMIT_NOFILE, &small);
    files = use_up_files();

    connect_ok(qp, A, B, server_port);
    assert_connect_fails(qp, RNIC_CM_LOCAL_ERROR);
    raw_connect_socket(a, peer, A, port);
    raw_send_frame(peer, false, 0, 1, NULL, 0);
    wakeups = th_stat(a, RNIC_STAT_wakeups);
    th_run_for(500);
    /* It tries now and then, and does not spin */
    g_assert_cmpuint(th_stat(a, RNIC_STAT_wakeups) - wakeups, <, 30);
    g_assert_cmpuint(th_events(a), ==, 0);
    g_assert_nonnull(strstr(a->trace_text[RNIC_TRACE_cm],
                            "limit on open files"));

    for (unsigned i = 0; i < files->len; i++) {
        close(g_array_index(files, int, i));
    }
    g_array_unref(files);
    setrlimit(RLIMIT_NOFILE, &limit);
    event = arrives(a, listener);
    assert_addr(&event.remote, B, 0);
    close(peer);
    close(server);
    th_guest_free(a);
}

static void test_file_limit_is_raised(void)
{
    struct rlimit limit, small;
    struct th_guest *a;

    getrlimit(RLIMIT_NOFILE, &limit);
    small = limit;
    small.rlim_cur = MIN(512, limit.rlim_max);
    setrlimit(RLIMIT_NOFILE, &small);
    a = th_guest_new(NULL);
    getrlimit(RLIMIT_NOFILE, &small);
    g_assert_cmpuint(small.rlim_cur, ==, limit.rlim_max);
    th_guest_free(a);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, test) g_test_add_func("/cm/" name, test)
    ADD("setup/accept", test_accept_connects_both);
    ADD("setup/reject", test_reject_reaches_the_initiator_with_its_data);
    ADD("setup/nobody", test_nobody_listens);
    ADD("setup/self", test_guest_connects_to_itself);
    ADD("setup/self-ipv6", test_ipv6_loopback_is_this_device);
    ADD("setup/source-port", test_source_port_of_the_guest_is_used);
    ADD("setup/bad-connects", test_bad_connects_are_refused);
    ADD("reach/service", test_service_of_the_host_is_not_reached);
    ADD("reach/dual-stack", test_dual_stack_service_is_not_reached);
    ADD("reach/exact", test_listener_of_the_same_user_at_the_address_is_reached);
    ADD("reach/other-user", test_listener_of_another_user_is_not_reached);
    ADD("reach/other-client", test_client_of_another_user_is_dropped);
    ADD("reach/outside", test_client_from_outside_the_fabric_is_dropped);
    ADD("reach/deny", test_denied_remote_is_unreachable);
    ADD("reach/conflict", test_address_of_another_device_is_a_conflict);
    ADD("listen/follows", test_wildcard_listener_follows_the_addresses);
    ADD("listen/both-families", test_ipv6_wildcard_takes_ipv4_too);
    ADD("listen/v6only", test_v6only_wildcard_leaves_ipv4_alone);
    ADD("listen/in-use", test_a_port_has_one_listener);
    ADD("listen/in-use-waiting", test_waiting_listeners_share_no_port_either);
    ADD("listen/bad", test_bad_listens_are_refused);
    ADD("listen/error", test_later_bind_failure_is_told);
    ADD("listen/port-0", test_chosen_port_is_free_at_every_address);
    ADD("listen/backlog", test_unanswered_requests_fill_the_backlog);
    ADD("listen/unlisten", test_unlisten_closes_what_was_not_answered);
    ADD("listen/left", test_peer_that_left_cannot_be_accepted);
    ADD("end/close", test_close_is_told_once_to_each);
    ADD("end/address", test_removed_address_ends_its_connections);
    ADD("end/link", test_link_down_ends_everything_and_up_starts_again);
    ADD("end/destroy", test_destroyed_qp_makes_no_events);
    ADD("end/modify", test_qp_that_leaves_idle_ends_its_setup);
    ADD("end/reset", test_reset_closes_everything_silently);
    ADD("limits/connections", test_connections_are_bounded);
    ADD("limits/files", test_no_files_left_is_told_and_passes);
    ADD("limits/raised", test_file_limit_is_raised);
    return g_test_run();
}
