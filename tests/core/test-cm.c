/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connection management between guests: setup, the end of connections, limits
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "cm-steps.h"
#include "raw-peer.h"

#define A "10.0.0.1"
#define B "10.0.0.2"

/* Two guests and a connection between them */
struct pair {
    struct th_guest *a, *b;
    struct th_qp *qa, *qb;
};

static void pair_up(struct pair *p)
{
    p->a = cm_guest_at(A, NULL);
    p->b = cm_guest_at(B, NULL);
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
    struct th_guest *a = cm_guest_at(A, NULL), *b = cm_guest_at(B, NULL);
    struct th_qp *qa = th_qp_new(a, NULL), *qb = th_qp_new(b, NULL);
    struct rnic_sockaddr local = th_sockaddr(A, 0), remote;
    struct th_connect ask = { 5, 6, "question", 8 };
    struct th_connect answer = { 7, 8, "answer", 6 };
    struct rnic_aeqe event;
    uint16_t port, source;
    uint32_t listener = th_listen(b, B, 0, 1, &port);

    remote = th_sockaddr(B, port);
    g_assert_cmpuint(th_connect(qa, &local, &remote, &ask), ==, RNIC_ADMIN_OK);
    event = cm_arrives(b, listener);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, 5);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, 6);
    g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), "question",
                    8);
    cm_assert_addr(&event.local, B, port);
    cm_assert_addr(&event.remote, A, 0);
    source = ntohs(event.remote.port);
    g_assert_cmpuint(th_qp_state(qb), ==, RNIC_QPS_IDLE);
    g_assert_cmpuint(th_qp_state(qa), ==, RNIC_QPS_IDLE);

    g_assert_cmpuint(th_accept(qb, GUINT32_FROM_LE(event.conn_id), &answer), ==,
                     RNIC_ADMIN_OK);
    g_assert_cmpuint(th_qp_state(qb), ==, RNIC_QPS_RTS);
    th_event_wait(a, RNIC_EV_CONNECT_REPLY, qa->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
    g_assert_cmpuint(th_qp_state(qa), ==, RNIC_QPS_RTS);
    g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), "answer", 6);
    /* Each ORD is bounded by the other's IRD, each IRD raised to its ORD */
    g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, 5);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, 6);
    cm_assert_addr(&event.local, A, source);
    cm_assert_addr(&event.remote, B, port);

    th_event_wait(b, RNIC_EV_ESTABLISHED, qb->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, 7);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, 5);
    cm_assert_addr(&event.local, B, port);
    cm_assert_addr(&event.remote, A, source);
    g_assert_cmpuint(th_stat(a, RNIC_STAT_connects), ==, 1);
    g_assert_cmpuint(th_stat(b, RNIC_STAT_accepts), ==, 1);
    th_guest_free(a);
    th_guest_free(b);
}

static void test_reject_reaches_the_initiator_with_its_data(void)
{
    struct th_guest *a = cm_guest_at(A, NULL), *b = cm_guest_at(B, NULL);
    struct th_qp *qa = th_qp_new(a, NULL);
    struct th_connect answer = { .pdata = "no", .pdata_len = 2 };
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(b, B, 0, 1, &port);

    cm_connect_ok(qa, A, B, port);
    event = cm_arrives(b, listener);
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
    struct th_guest *a = cm_guest_at(A, NULL), *b = cm_guest_at(B, NULL);
    struct th_qp *qa = th_qp_new(a, NULL);

    cm_connect_ok(qa, A, B, 9);
    cm_assert_fails(qa, RNIC_CM_REFUSED);
    th_guest_free(a);
    th_guest_free(b);
}

static void test_guest_connects_to_itself(void)
{
    static const char *const remotes[] = { A, "127.0.0.1", "127.3.2.1" };

    for (size_t i = 0; i < G_N_ELEMENTS(remotes); i++) {
        struct th_guest *a = cm_guest_at(A, NULL);
        struct th_qp *client = th_qp_new(a, NULL), *server = th_qp_new(a, NULL);
        struct rnic_aeqe event;
        uint16_t port;
        uint32_t listener = th_listen(a, "0.0.0.0", 0, 1, &port);

        cm_connect_ok(client, A, remotes[i], port);
        event = cm_arrives(a, listener);
        cm_assert_addr(&event.local, A, port);
        cm_assert_addr(&event.remote, A, 0);
        g_assert_cmpuint(
            th_accept(server, GUINT32_FROM_LE(event.conn_id), NULL), ==,
            RNIC_ADMIN_OK);
        th_event_wait(a, RNIC_EV_CONNECT_REPLY, client->qpn, &event);
        g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
        th_event_wait(a, RNIC_EV_ESTABLISHED, server->qpn, &event);
        th_guest_free(a);
    }
}

static void test_ipv6_loopback_is_this_device(void)
{
    struct th_guest *a = cm_guest_at("fd00::1", NULL);
    struct th_qp *client = th_qp_new(a, NULL);
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(a, "::", 0, 1, &port);

    cm_connect_ok(client, "fd00::1", "::1", port);
    event = cm_arrives(a, listener);
    cm_assert_addr(&event.local, "fd00::1", port);
    cm_assert_addr(&event.remote, "fd00::1", 0);
    th_guest_free(a);
}

static void test_source_port_of_the_guest_is_used(void)
{
    struct th_guest *a = cm_guest_at(A, NULL), *b = cm_guest_at(B, NULL);
    struct th_qp *qa = th_qp_new(a, NULL), *again = th_qp_new(a, NULL);
    struct rnic_sockaddr local = th_sockaddr(A, 41234), remote;
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(b, B, 0, 4, &port);

    remote = th_sockaddr(B, port);
    g_assert_cmpuint(th_connect(qa, &local, &remote, NULL), ==, RNIC_ADMIN_OK);
    event = cm_arrives(b, listener);
    cm_assert_addr(&event.remote, A, 41234);
    /* The same pair of addresses and ports cannot be connected twice */
    g_assert_cmpuint(th_connect(again, &local, &remote, NULL), ==,
                     RNIC_ADMIN_OK);
    cm_assert_fails(again, RNIC_CM_ADDR_IN_USE);
    th_guest_free(a);
    th_guest_free(b);
}

static void test_bad_connects_are_refused(void)
{
    struct th_guest *a = cm_guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL), *up = th_qp_new(a, NULL);
    struct rnic_sockaddr local = th_sockaddr(A, 0);
    struct rnic_sockaddr remote = th_sockaddr(B, 9);
    struct th_connect params = { .ird = 129 };
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_CONNECT };
    int peer;
    uint16_t port = 0;

    g_assert_cmpuint(cm_connect(qp, A, B, 0), ==, RNIC_ADMIN_BAD_PARAM);
    g_assert_cmpuint(cm_connect(qp, A, "0.0.0.0", 9), ==, RNIC_ADMIN_BAD_PARAM);
    g_assert_cmpuint(cm_connect(qp, A, "224.0.0.1", 9), ==,
                     RNIC_ADMIN_BAD_PARAM);
    g_assert_cmpuint(cm_connect(qp, A, "fd00::2", 9), ==, RNIC_ADMIN_BAD_PARAM);
    g_assert_cmpuint(cm_connect(qp, B, B, 9), ==, RNIC_ADMIN_ADDR_NOT_AVAIL);
    g_assert_cmpuint(cm_connect(qp, "fd00::1", "fd00::2", 9), ==,
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
    cm_connect_ok(up, A, B, port);
    g_assert_cmpuint(cm_connect(up, A, B, port), ==, RNIC_ADMIN_BAD_STATE);
    /* None of this changed anything */
    g_assert_cmpuint(th_qp_state(qp), ==, RNIC_QPS_IDLE);
    g_assert_cmpuint(th_events(a), ==, 0);
    close(peer);
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
    g_assert_false(
        th_event_take(qp->guest, RNIC_EV_DISCONNECT, qp->qpn, &event));
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
    struct th_guest *a = cm_guest_at(A, NULL);
    struct th_qp *setup = th_qp_new(a, NULL), *down = th_qp_new(a, NULL);
    struct rnic_aeqe event;
    uint16_t port, own;
    uint32_t listener = th_listen(a, A, 0, 8, &own);
    int server, peer, asked;

    port = 0;
    server = raw_listen(a, B, &port);
    cm_connect_ok(setup, A, B, port);
    peer = raw_accept(server);
    asked = raw_connect(a, B, A, own);
    raw_send_frame(asked, false, 0, 1, NULL, 0);
    event = cm_arrives(a, listener);

    g_assert_cmpuint(cm_set_link(a, false), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(cm_set_link(a, false), ==, RNIC_ADMIN_OK);
    cm_assert_fails(setup, RNIC_CM_ADDR_GONE);
    raw_closed(asked, NULL);
    raw_closed(peer, NULL);
    g_assert_cmpuint(th_reject(a, GUINT32_FROM_LE(event.conn_id), NULL), ==,
                     RNIC_ADMIN_CONN_GONE);
    cm_connect_ok(down, A, B, port);
    cm_assert_fails(down, RNIC_CM_ADDR_GONE);
    /* A listener can be made, and its port is taken */
    g_assert_cmpuint(cm_listen_status(a, 50, A, own, 0), ==,
                     RNIC_ADMIN_ADDR_IN_USE);
    g_assert_cmpuint(cm_listen_status(a, 50, A, 7010, 0), ==, RNIC_ADMIN_OK);

    g_assert_cmpuint(cm_set_link(a, true), ==, RNIC_ADMIN_OK);
    close(asked);
    asked = raw_connect(a, B, A, own);
    raw_send_frame(asked, false, 0, 1, NULL, 0);
    cm_arrives(a, listener);
    close(asked);
    asked = raw_connect(a, B, A, 7010);
    close(asked);
    close(peer);
    close(server);
    th_guest_free(a);
}

static void test_destroyed_qp_makes_no_events(void)
{
    struct th_guest *a = cm_guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    struct raw_frame request;
    uint16_t port = 0;
    int server = raw_listen(a, B, &port), peer;

    cm_connect_ok(qp, A, B, port);
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
    struct th_guest *a = cm_guest_at(A, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    uint16_t port = 0;
    int server = raw_listen(a, B, &port), peer;

    cm_connect_ok(qp, A, B, port);
    peer = raw_accept(server);
    g_assert_cmpuint(th_qp_modify(qp, RNIC_QPS_ERROR), ==, RNIC_ADMIN_OK);
    cm_assert_fails(qp, RNIC_CM_LOCAL_ERROR);
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
    cm_connect_ok(qp, A, "10.0.0.3", server_port);
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
    a = cm_guest_at(A, &options);
    one = th_qp_new(a, NULL);
    two = th_qp_new(a, NULL);
    three = th_qp_new(a, NULL);
    th_listen(a, A, 0, 8, &port);
    server = raw_listen(a, B, &server_port);
    cm_connect_ok(one, A, B, server_port);
    cm_connect_ok(two, A, B, server_port);
    g_assert_cmpuint(cm_connect(three, A, B, server_port), ==,
                     RNIC_ADMIN_NO_RESOURCES);
    peer = raw_connect(a, B, A, port);
    g_assert_true(raw_closed(peer, NULL));
    th_qp_free(one);
    cm_connect_ok(three, A, B, server_port);
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
    struct th_guest *a = cm_guest_at(A, NULL);
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

    cm_connect_ok(qp, A, B, server_port);
    cm_assert_fails(qp, RNIC_CM_LOCAL_ERROR);
    raw_connect_socket(a, peer, A, port);
    raw_send_frame(peer, false, 0, 1, NULL, 0);
    wakeups = th_stat(a, RNIC_STAT_wakeups);
    th_run_for(500);
    /* It tries now and then, and does not spin */
    g_assert_cmpuint(th_stat(a, RNIC_STAT_wakeups) - wakeups, <, 30);
    g_assert_cmpuint(th_events(a), ==, 0);
    g_assert_nonnull(
        strstr(a->trace_text[RNIC_TRACE_cm], "limit on open files"));

    for (unsigned i = 0; i < files->len; i++) {
        close(g_array_index(files, int, i));
    }
    g_array_unref(files);
    setrlimit(RLIMIT_NOFILE, &limit);
    event = cm_arrives(a, listener);
    cm_assert_addr(&event.remote, B, 0);
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
