/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fabric=direct, in a network namespace of this program's own whose loopback
 * device has some addresses of the documentation ranges
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cm-steps.h"
#include "net/sockaddr.h"
#include "raw-peer.h"

#define A       "192.0.2.1"
#define B       "192.0.2.2"
#define HOST    "192.0.2.3" /* the host's, no guest has it */
#define NOWHERE "192.0.2.9" /* nobody's */
#define A6      "2001:db8::1"
#define B6      "2001:db8::2"

static struct th_guest *direct_at(const char *address, const char *map,
                                  const char *allow)
{
    struct th_options options;

    th_options_init(&options);
    options.config.fabric = RNIC_FABRIC_DIRECT;
    options.config.map = map;
    options.config.allow = allow;
    return cm_guest_at(address, &options);
}

static void connects(const char *from, const char *to)
{
    struct th_guest *a = direct_at(from, NULL, NULL);
    struct th_guest *b = direct_at(to, NULL, NULL);
    struct th_qp *qa = th_qp_new(a, NULL), *qb = th_qp_new(b, NULL);
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(b, to, 0, 4, &port);

    cm_connect_ok(qa, from, to, port);
    event = cm_arrives(b, listener);
    cm_assert_addr(&event.local, to, port);
    cm_assert_addr(&event.remote, from, 0);
    g_assert_cmpuint(th_accept(qb, GUINT32_FROM_LE(event.conn_id), NULL), ==,
                     RNIC_ADMIN_OK);
    th_event_wait(a, RNIC_EV_CONNECT_REPLY, qa->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
    th_guest_free(a);
    th_guest_free(b);
}

static void test_guests_connect(void)
{
    connects(A, B);
}

static void test_guests_connect_by_ipv6(void)
{
    connects(A6, B6);
}

static void test_guest_connects_to_itself(void)
{
    struct th_guest *a = direct_at(A, NULL, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    uint16_t port;
    uint32_t listener = th_listen(a, A, 0, 4, &port);

    cm_connect_ok(qp, A, A, port);
    cm_arrives(a, listener);
    th_guest_free(a);
}

/* Also where the service is bound to just the address, by the same user */
static void test_services_of_the_host_are_not_reached(void)
{
    static const char *const remotes[] = { HOST, A };

    for (size_t i = 0; i < G_N_ELEMENTS(remotes); i++) {
        struct th_guest *a = direct_at(A, NULL, NULL);
        struct th_qp *qp = th_qp_new(a, NULL);
        uint16_t port = 0;
        int service = raw_listen(a, remotes[i], &port);

        cm_connect_ok(qp, A, remotes[i], port);
        cm_assert_fails(qp, RNIC_CM_REFUSED);
        g_assert_cmpint(accept(service, NULL, NULL), ==, -1);
        g_assert_cmpint(errno, ==, EAGAIN);
        close(service);
        th_guest_free(a);
    }
}

static void test_allowed_service_is_reached(void)
{
    struct th_guest *a = direct_at(A, NULL, HOST);
    struct th_qp *qp = th_qp_new(a, NULL);
    struct raw_frame request;
    uint16_t port = 0;
    int service = raw_listen(a, HOST, &port), peer;

    cm_connect_ok(qp, A, HOST, port);
    peer = raw_accept(service);
    raw_recv_frame(peer, false, &request);
    /* Outside a loopback fabric CRC is asked for */
    g_assert_cmphex(request.flags & RAW_C, ==, RAW_C);
    close(peer);
    close(service);
    th_guest_free(a);
}

/* The connection of a guest to a raw responder that takes Writes as
 * ready-to-receive messages; its socket */
static int direct_responder(struct th_guest **guest, struct th_qp **qp,
                            bool p2p)
{
    struct th_options options;
    struct raw_frame request;
    uint16_t port = 0;
    uint8_t block[4];
    int service, peer;

    th_options_init(&options);
    options.config.fabric = RNIC_FABRIC_DIRECT;
    options.config.allow = HOST;
    options.config.crc = RNIC_CRC_OFF;
    options.config.p2p = p2p;
    *guest = cm_guest_at(A, &options);
    *qp = th_qp_new(*guest, NULL);
    service = raw_listen(*guest, HOST, &port);
    cm_connect_ok(*qp, A, HOST, port);
    peer = raw_accept(service);
    raw_recv_frame(peer, false, &request);
    raw_block(block, p2p ? RAW_A | 4 : 4, p2p ? RAW_CW | 4 : 4);
    raw_send_frame(peer, true, RAW_S, 2, block, sizeof(block));
    close(service);
    return peer;
}

/* RFC 6581 section 9.2, as ready-to-receive message */
static const uint8_t empty_write[20] = { 0, 14, 0xc1, 0x40, 0, 0, 0, 1 };

static void test_silent_peer_is_nudged(void)
{
    struct th_guest *a;
    struct th_qp *qp;
    int peer = direct_responder(&a, &qp, true);
    uint8_t fpdu[sizeof(empty_write)];
    unsigned i;

    for (i = 0; i < 5; i++) {
        raw_recv(peer, fpdu, sizeof(fpdu));
        g_assert_cmpmem(fpdu, sizeof(fpdu), empty_write, sizeof(empty_write));
    }
    /* Not for ever */
    raw_silent(peer, 300);
    close(peer);
    th_guest_free(a);
}

static void test_peer_that_answers_is_nudged_once_more(void)
{
    struct th_guest *a;
    struct th_qp *qp;
    int peer = direct_responder(&a, &qp, true);
    uint8_t fpdu[sizeof(empty_write)];
    uint64_t sent, end;

    raw_recv(peer, fpdu, sizeof(fpdu));
    raw_send_whole(peer, empty_write, sizeof(empty_write));
    th_wait(th_stat(a, RNIC_STAT_rx_fpdus) == 1);
    sent = th_stat(a, RNIC_STAT_tx_fpdus);
    th_wait(th_stat(a, RNIC_STAT_tx_fpdus) == sent + 1);
    /* A silent one would be, twice, in that time */
    for (end = th_now_ms() + 500; th_now_ms() < end;) {
        th_step(20);
    }
    g_assert_cmpuint(th_stat(a, RNIC_STAT_tx_fpdus), ==, sent + 1);
    close(peer);
    th_guest_free(a);
}

/* Without peer-to-peer mode its message may be what was overlooked */
static void test_silent_peer_is_nudged_once_it_was_sent_something(void)
{
    struct th_guest *a;
    struct th_qp *qp;
    int peer = direct_responder(&a, &qp, false);
    uint8_t send[24], fpdu[sizeof(empty_write)];

    raw_silent(peer, 150);
    th_post_send(qp, &(struct th_wr){ .opcode = RNIC_WR_SEND }, 1);
    raw_recv(peer, send, sizeof(send));
    g_assert_cmphex(send[3], ==, 0x43);
    raw_recv(peer, fpdu, sizeof(fpdu));
    g_assert_cmpmem(fpdu, sizeof(fpdu), empty_write, sizeof(empty_write));
    close(peer);
    th_guest_free(a);
}

/* mpa-gate=off: the initiator has time to read the Reply */
/* @leaves: the guest disconnects at once, before its Send has left */
static void first_fpdu_waits(bool leaves)
{
    struct th_options options;
    struct th_guest *a;
    struct th_qp *qp;
    struct raw_frame reply;
    struct rnic_aeqe event;
    uint32_t listener;
    uint16_t port;
    uint8_t fpdu[24];
    int64_t start;
    int peer;

    th_options_init(&options);
    options.config.fabric = RNIC_FABRIC_DIRECT;
    options.config.crc = RNIC_CRC_OFF;
    options.config.mpa_gate_strict = false;
    a = cm_guest_at(A, &options);
    qp = th_qp_new(a, NULL);
    th_post_send(qp, &(struct th_wr){ .opcode = RNIC_WR_SEND }, 1);
    listener = th_listen(a, A, 0, 4, &port);
    peer = raw_connect(a, HOST, A, port);
    raw_send_frame(peer, false, 0, 1, NULL, 0);
    event = cm_arrives(a, listener);
    start = g_get_monotonic_time();
    g_assert_cmpuint(th_accept(qp, GUINT32_FROM_LE(event.conn_id), NULL), ==,
                     RNIC_ADMIN_OK);
    if (leaves) {
        g_assert_cmpuint(th_qp_modify(qp, RNIC_QPS_CLOSING), ==, RNIC_ADMIN_OK);
    }
    raw_recv_frame(peer, true, &reply);
    raw_recv(peer, fpdu, sizeof(fpdu));
    g_assert_cmpint(g_get_monotonic_time() - start, >=, 100000);
    g_assert_cmphex(fpdu[3], ==, 0x43);
    g_assert_cmpuint(th_stat(a, RNIC_STAT_gated), ==, 0);
    close(peer);
    th_guest_free(a);
}

static void test_first_fpdu_does_not_follow_the_reply_at_once(void)
{
    first_fpdu_waits(false);
}

static void test_first_fpdu_of_a_qp_that_closes_leaves(void)
{
    first_fpdu_waits(true);
}

static void test_any_host_may_connect_to_the_guest(void)
{
    struct th_guest *a = direct_at(A, NULL, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    struct raw_frame reply;
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(a, A, 0, 4, &port);
    int peer = raw_connect(a, HOST, A, port);

    raw_send_frame(peer, false, 0, 1, NULL, 0);
    event = cm_arrives(a, listener);
    cm_assert_addr(&event.remote, HOST, 0);
    g_assert_cmpuint(th_accept(qp, GUINT32_FROM_LE(event.conn_id), NULL), ==,
                     RNIC_ADMIN_OK);
    raw_recv_frame(peer, true, &reply);
    g_assert_cmphex(reply.flags, ==, RAW_C);
    close(peer);
    th_guest_free(a);
}

static void test_address_that_the_host_lacks_is_told(void)
{
    struct th_guest *a = direct_at(A, NULL, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener;
    int peer;

    g_assert_cmpuint(th_addr_add(a, NOWHERE), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(cm_listen_status(a, 1, NOWHERE, 7000, 0), ==,
                     RNIC_ADMIN_ADDR_NOT_AVAIL);
    listener = th_listen(a, "0.0.0.0", 0, 4, &port);
    th_event_wait(a, RNIC_EV_LISTEN_ERROR, listener, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_UNREACHABLE);
    cm_assert_addr(&event.local, NOWHERE, port);
    peer = raw_connect(a, HOST, A, port);
    close(peer);
    cm_connect_ok(qp, NOWHERE, "198.51.100.1", 9);
    cm_assert_fails(qp, RNIC_CM_UNREACHABLE);
    th_guest_free(a);
}

static void test_no_route_is_unreachable(void)
{
    struct th_guest *a = direct_at(A, NULL, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);

    cm_connect_ok(qp, A, "198.51.100.1", 9);
    cm_assert_fails(qp, RNIC_CM_UNREACHABLE);
    th_guest_free(a);
}

static void test_link_local_address_is_only_kept(void)
{
    struct th_guest *a = direct_at(A6, NULL, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    uint16_t port;

    g_assert_cmpuint(th_addr_add(a, "fe80::1"), ==, RNIC_ADMIN_OK);
    th_listen(a, "::", 0, 4, &port);
    cm_no_events(a);
    g_assert_cmpuint(cm_connect(qp, "fe80::1", "fe80::2", 9), ==,
                     RNIC_ADMIN_ADDR_NOT_AVAIL);
    th_guest_free(a);
}

static void test_map_rules_change_the_network(void)
{
    const char *map = "10.9.0.0/24=192.0.2.0/24";
    struct th_guest *a = direct_at("10.9.0.1", map, NULL);
    struct th_guest *b = direct_at("10.9.0.2", map, NULL);
    struct th_qp *qp = th_qp_new(a, NULL);
    struct rnic_aeqe event;
    uint16_t port;
    uint32_t listener = th_listen(b, "10.9.0.2", 0, 4, &port);

    cm_connect_ok(qp, "10.9.0.1", "10.9.0.2", port);
    event = cm_arrives(b, listener);
    cm_assert_addr(&event.local, "10.9.0.2", port);
    cm_assert_addr(&event.remote, "10.9.0.1", 0);
    th_guest_free(a);
    th_guest_free(b);
}

/* A namespace with the addresses above; false: not possible here */
static bool enter_namespace(void)
{
    static const char *const set_up[] = {
        "ip link set lo up",
        "ip addr add " A "/32 dev lo",
        "ip addr add " B "/32 dev lo",
        "ip addr add " HOST "/32 dev lo",
        "ip addr add " A6 "/128 dev lo nodad",
        "ip addr add " B6 "/128 dev lo nodad",
    };
    g_autofree char *map = g_strdup_printf("0 %u 1", geteuid());
    bool root = geteuid() == 0;

    if (unshare(root ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) < 0) {
        return false;
    }
    if (!root) {
        int fd = open("/proc/self/uid_map", O_WRONLY);
        bool mapped = fd >= 0 && write(fd, map, strlen(map)) > 0;

        close(fd);
        if (!mapped) {
            return false;
        }
    }
    for (size_t i = 0; i < G_N_ELEMENTS(set_up); i++) {
        int status = 0;

        if (!g_spawn_command_line_sync(set_up[i], NULL, NULL, &status, NULL) ||
            status) {
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!enter_namespace()) {
        printf("1..0 # SKIP no network namespace can be made here\n");
        return 0;
    }
#define ADD(name, test) g_test_add_func("/cm-direct/" name, test)
    ADD("guests", test_guests_connect);
    ADD("guests-ipv6", test_guests_connect_by_ipv6);
    ADD("self", test_guest_connects_to_itself);
    ADD("services", test_services_of_the_host_are_not_reached);
    ADD("allow", test_allowed_service_is_reached);
    ADD("nudge/silent", test_silent_peer_is_nudged);
    ADD("nudge/answers", test_peer_that_answers_is_nudged_once_more);
    ADD("nudge/sent", test_silent_peer_is_nudged_once_it_was_sent_something);
    ADD("no-gate", test_first_fpdu_does_not_follow_the_reply_at_once);
    ADD("no-gate/closing", test_first_fpdu_of_a_qp_that_closes_leaves);
    ADD("accept", test_any_host_may_connect_to_the_guest);
    ADD("lacking", test_address_that_the_host_lacks_is_told);
    ADD("no-route", test_no_route_is_unreachable);
    ADD("link-local", test_link_local_address_is_only_kept);
    ADD("map", test_map_rules_change_the_network);
    return g_test_run();
}
