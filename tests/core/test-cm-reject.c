/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What becomes of a connection that was rejected: the peer gets the whole Reply
 * before it gets to know of the end, however late it reads; and peers that never
 * close hold nothing for long
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cm-private.h"
#include "cm-steps.h"
#include "raw-peer.h"
#include "usage.h"

#define A "10.0.0.1"
#define B "10.0.0.2"

/* As much as a Reply of revision 1 holds and the device takes */
#define PDATA RNIC_MAX_PDATA

struct rejecter {
    struct th_guest *guest;
    struct rnic_cm *cm;
    uint32_t listener;
    uint16_t port;
    uint8_t pdata[PDATA];
};

static void start(struct rejecter *r, unsigned backlog,
                  const struct th_options *options)
{
    r->guest = cm_guest_at(A, options);
    r->cm = r->guest->dev->cm;
    r->listener = th_listen(r->guest, A, 0, backlog, &r->port);
    th_fill(r->pdata, PDATA, 3);
}

static int asking_peer(struct rejecter *r)
{
    int peer = raw_connect(r->guest, B, A, r->port);

    raw_send_frame(peer, false, 0, 1, NULL, 0);
    return peer;
}

static void reject_next(struct rejecter *r)
{
    struct th_connect answer = { .pdata = r->pdata, .pdata_len = PDATA };
    struct rnic_aeqe event = cm_arrives(r->guest, r->listener);

    g_assert_cmpuint(
        th_reject(r->guest, GUINT32_FROM_LE(event.conn_id), &answer), ==,
        RNIC_ADMIN_OK);
}

/* A peer that asked and was rejected; *@when (may be NULL): not later than the
 * Reply, ms */
static int rejected_peer(struct rejecter *r, uint64_t *when)
{
    int peer = asking_peer(r);

    if (when) {
        *when = th_now_ms();
    }
    reject_next(r);
    return peer;
}

static bool has_fin(int peer)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);

    g_assert_cmpint(getsockopt(peer, IPPROTO_TCP, TCP_INFO, &info, &len), ==,
                    0);
    return info.tcpi_state != TCP_ESTABLISHED;
}

static void recv_reply(struct rejecter *r, int peer)
{
    struct raw_frame reply;

    raw_recv_frame(peer, true, &reply);
    g_assert_cmphex(reply.flags, ==, RAW_R);
    g_assert_cmpmem(reply.pd, reply.pd_len, r->pdata, PDATA);
}

/* The whole Reply, and FIN behind it */
static void recv_reply_and_end(struct rejecter *r, int peer)
{
    size_t rest;

    recv_reply(r, peer);
    g_assert_false(raw_closed(peer, &rest));
    g_assert_cmpuint(rest, ==, 0);
}

static void test_end_comes_behind_the_peers(void)
{
    struct rejecter r;
    uint64_t when;
    bool fin = false;
    int peer;

    start(&r, 4, NULL);
    peer = rejected_peer(&r, &when);
    g_assert_cmpuint(r.cm->rejected.length, ==, 1);
    /* Nothing tells a peer of the end that has not read yet. A test that is
     * itself too slow to see that proves nothing and says nothing. */
    for (unsigned i = 0; i < 20 && !fin; i++) {
        th_run_for(20);
        fin = has_fin(peer);
    }
    g_assert_true(!fin || (th_now_ms() - when) * 1000 >= RNIC_CONN_REJECTED_US);
    recv_reply(&r, peer);
    shutdown(peer, SHUT_WR);
    g_assert_false(raw_closed(peer, NULL));
    th_wait(!r.cm->conns.length && !r.guest->dev->draining.length);
    close(peer);
    g_assert_cmpuint(th_events(r.guest), ==, 0);
    th_guest_free(r.guest);
}

static void test_peer_that_never_closes_is_cut(void)
{
    struct rejecter r;
    uint64_t when;
    int peer;

    start(&r, 4, NULL);
    peer = rejected_peer(&r, &when);
    recv_reply_and_end(&r, peer);
    /* Both are rounded down */
    g_assert_cmpuint(th_now_ms() - when + 1, >=, RNIC_CONN_REJECTED_US / 1000);
    th_wait(!r.cm->conns.length && !r.guest->dev->draining.length);
    close(peer);
    th_guest_free(r.guest);
}

/* They are no one's: the guest may use the place and the listener at once */
static void test_place_is_free_at_once(void)
{
    struct rejecter r;
    int peer[3];

    start(&r, 1, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(peer); i++) {
        peer[i] = rejected_peer(&r, NULL);
    }
    g_assert_cmpuint(r.cm->listeners[r.listener]->pending, ==, 0);
    g_assert_cmpuint(g_hash_table_size(r.cm->requests), ==, 0);
    g_assert_cmpuint(th_stat(r.guest, RNIC_STAT_rejects), ==, 3);
    g_assert_cmpuint(th_events(r.guest), ==, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(peer); i++) {
        recv_reply(&r, peer[i]);
        close(peer[i]);
    }
    th_wait(!r.cm->conns.length);
    th_guest_free(r.guest);
}

static void test_flood_is_bounded(void)
{
    enum { COUNT = 700 };
    g_autofree int *peer = g_new(int, COUNT);
    struct rejecter r;

    start(&r, RNIC_MAX_BACKLOG, NULL);
    /* One after the other, and all at once */
    for (unsigned i = 0; i < COUNT / 2; i++) {
        peer[i] = rejected_peer(&r, NULL);
        g_assert_cmpuint(r.cm->conns.length, <=, RNIC_CONN_WAITING_MAX);
    }
    for (unsigned i = COUNT / 2; i < COUNT; i++) {
        peer[i] = asking_peer(&r);
    }
    for (unsigned i = COUNT / 2; i < COUNT; i++) {
        reject_next(&r);
        g_assert_cmpuint(r.cm->rejected.length, <=, RNIC_CONN_WAITING_MAX);
    }
    g_assert_cmpuint(r.cm->conns.length, <=, RNIC_CONN_WAITING_MAX);
    /* Those that had to make room have their Reply as well */
    for (unsigned i = 0; i < COUNT; i++) {
        recv_reply_and_end(&r, peer[i]);
        close(peer[i]);
    }
    th_wait(!r.cm->conns.length && !r.guest->dev->draining.length);
    th_guest_free(r.guest);
}

/* Neither does it keep others out, nor does it take the place of a set-up */
static void flood_among_others(unsigned silent, unsigned max_connections)
{
    g_autofree int *others = g_new(int, silent);
    struct th_options options;
    struct rnic_aeqe event;
    struct rejecter r;
    int peer[8], good;
    uint8_t octet;

    th_options_init(&options);
    options.config.max_connections = max_connections;
    /* None of the silent ones shall be overdue before the end */
    options.config.mpa_timeout_ms = 600000;
    start(&r, 4, &options);
    for (unsigned i = 0; i < silent; i++) {
        others[i] = raw_connect(r.guest, B, A, r.port);
        th_wait(r.cm->half_open.length == i + 1);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(peer); i++) {
        peer[i] = rejected_peer(&r, NULL);
        g_assert_cmpuint(r.cm->half_open.length, ==, silent);
    }
    good = raw_connect(r.guest, B, A, r.port);
    raw_send_frame(good, false, 0, 1, NULL, 0);
    event = cm_arrives(r.guest, r.listener);
    g_assert_cmpuint(event.conn_id, !=, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(peer); i++) {
        recv_reply_and_end(&r, peer[i]);
        close(peer[i]);
    }
    for (unsigned i = 0; i < silent; i++) {
        g_assert_cmpint(recvfrom(others[i], &octet, 1, 0, NULL, NULL), ==, -1);
        g_assert_cmpint(errno, ==, EAGAIN);
        close(others[i]);
    }
    close(good);
    th_guest_free(r.guest);
}

static void test_flood_among_silent_ones(void)
{
    flood_among_others(RNIC_CONN_WAITING_MAX - 1, 0);
}

static void test_flood_uses_up_no_connections(void)
{
    flood_among_others(0, 2);
}

static void test_what_the_peer_sends_is_dropped(void)
{
    g_autofree uint8_t *octets = g_malloc0(1 << 16);
    struct rejecter r;
    int peer;

    start(&r, 4, NULL);
    peer = rejected_peer(&r, NULL);
    raw_send_whole(peer, octets, 1 << 16);
    recv_reply_and_end(&r, peer);
    raw_send_whole(peer, octets, 1 << 16);
    close(peer);
    /* RST */
    peer = rejected_peer(&r, NULL);
    raw_abort(peer);
    th_wait(!r.cm->conns.length && !r.guest->dev->draining.length);
    g_assert_cmpuint(th_events(r.guest), ==, 0);
    close(rejected_peer(&r, NULL));
    th_guest_free(r.guest);
}

/* The device itself rejects what it has no form for; no guest hears of it */
static void test_peer_to_peer_without_a_form(void)
{
    struct th_options options;
    struct raw_frame reply;
    struct rejecter r;
    uint8_t block[4];
    int peer;

    th_options_init(&options);
    options.config.p2p = false;
    options.config.rtr = 0;
    start(&r, 1, &options);
    peer = raw_connect(r.guest, B, A, r.port);
    raw_block(block, RAW_A | 1, RAW_CW | 1);
    raw_send_frame(peer, false, RAW_S, 2, block, 4);
    raw_recv_frame(peer, true, &reply);
    g_assert_cmphex(reply.flags, ==, RAW_R | RAW_S);
    g_assert_cmpuint(r.cm->half_open.length, ==, 0);
    shutdown(peer, SHUT_WR);
    g_assert_false(raw_closed(peer, NULL));
    close(peer);
    th_wait(!r.cm->conns.length && !r.guest->dev->draining.length);
    g_assert_cmpuint(th_events(r.guest), ==, 0);
    close(rejected_peer(&r, NULL));
    th_guest_free(r.guest);
}

/* ---- What ends it early ---- */

static void test_server_that_leaves_takes_nothing_back(void)
{
    struct rejecter r;
    uint64_t when;
    bool fin;
    int peer;

    start(&r, 4, NULL);
    peer = rejected_peer(&r, &when);
    g_assert_cmpuint(cm_unlisten(r.guest, r.listener), ==, RNIC_ADMIN_OK);
    /* The next server is not hindered */
    g_assert_cmpuint(cm_listen_status(r.guest, r.listener, A, r.port, 0), ==,
                     RNIC_ADMIN_OK);
    th_run_for(50);
    fin = has_fin(peer);
    g_assert_true(!fin || (th_now_ms() - when) * 1000 >= RNIC_CONN_REJECTED_US);
    recv_reply(&r, peer);
    close(peer);
    th_wait(!r.cm->conns.length);
    close(rejected_peer(&r, NULL));
    th_guest_free(r.guest);
}

static void remove_address(struct rejecter *r)
{
    g_assert_cmpuint(th_addr_del(r->guest, A), ==, RNIC_ADMIN_OK);
}

static void link_down(struct rejecter *r)
{
    g_assert_cmpuint(cm_set_link(r->guest, false), ==, RNIC_ADMIN_OK);
}

static void quiesce(struct rejecter *r)
{
    rnic_device_quiesce(r->guest->dev);
}

static void test_end_of(gconstpointer end)
{
    void (*function)(struct rejecter *) = end;
    struct rejecter r;
    int peer[2];

    start(&r, 4, NULL);
    peer[0] = rejected_peer(&r, NULL);
    peer[1] = rejected_peer(&r, NULL);
    function(&r);
    g_assert_cmpuint(r.cm->rejected.length, ==, 0);
    g_assert_cmpuint(r.cm->conns.length, ==, 0);
    for (unsigned i = 0; i < 2; i++) {
        recv_reply_and_end(&r, peer[i]);
        close(peer[i]);
    }
    th_guest_free(r.guest);
}

/* At once, and nothing stays behind: 100 times, the last time with the device */
static void test_reset(void)
{
    struct usage before = { 0 };
    struct rejecter r;

    start(&r, 4, NULL);
    for (unsigned i = 0; i < 100; i++) {
        int peer[3];

        for (unsigned j = 0; j < G_N_ELEMENTS(peer); j++) {
            peer[j] = rejected_peer(&r, NULL);
        }
        rnic_device_reset(r.guest->dev);
        g_assert_cmpuint(r.cm->conns.length, ==, 0);
        for (unsigned j = 0; j < G_N_ELEMENTS(peer); j++) {
            g_assert_true(raw_closed(peer[j], NULL));
            close(peer[j]);
        }
        th_guest_free(r.guest);
        if (i == 1) {
            before = usage_now();
        } else if (i > 1) {
            usage_check(&before, 32 << 10, 16);
        }
        start(&r, 4, NULL);
    }
    close(rejected_peer(&r, NULL));
    th_guest_free(r.guest);
    usage_check(&before, 32 << 10, 16);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, test) g_test_add_func("/cm-reject/" name, test)
    ADD("late", test_end_comes_behind_the_peers);
    ADD("bound", test_peer_that_never_closes_is_cut);
    ADD("place", test_place_is_free_at_once);
    ADD("flood", test_flood_is_bounded);
    ADD("flood-silent", test_flood_among_silent_ones);
    ADD("flood-cap", test_flood_uses_up_no_connections);
    ADD("data", test_what_the_peer_sends_is_dropped);
    ADD("no-form", test_peer_to_peer_without_a_form);
    ADD("unlisten", test_server_that_leaves_takes_nothing_back);
    g_test_add_data_func("/cm-reject/address", remove_address, test_end_of);
    g_test_add_data_func("/cm-reject/link", link_down, test_end_of);
    g_test_add_data_func("/cm-reject/quiesce", quiesce, test_end_of);
    ADD("reset", test_reset);
    return g_test_run();
}
