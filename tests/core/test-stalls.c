/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An engine that was held up, or stopped with its machine, for longer than its
 * timers run: what peers sent meanwhile is there, and is looked at before
 * anything is given up
 */
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cm-private.h"
#include "cm-steps.h"
#include "harness-netq.h"
#include "iwarp-peer.h"
#include "netq.h"
#include "raw-peer.h"
#include "tx.h"

#define A "10.0.0.1"
#define B "10.0.0.2"

/* More than one look at the sockets returns */
#define MANY 100

struct stall {
    struct th_guest *guest;
    struct rnic_device *dev;
    unsigned count;
    bool kick; /* a doorbell is what wakes the engine */
    uint16_t port;
    uint32_t listener;
    int fd[MANY];
    struct th_qp *qp[MANY];
};

/* One connection and a doorbell, or many */
static void start_for(struct stall *s, gconstpointer kick, unsigned timeout_ms)
{
    memset(s, 0, sizeof(*s));
    s->guest = cm_guest_with(A, timeout_ms, RNIC_CRC_OFF, true, 2);
    s->dev = s->guest->dev;
    s->kick = GPOINTER_TO_INT(kick);
    s->count = s->kick ? 1 : MANY;
    s->listener = th_listen(s->guest, A, 0, MANY, &s->port);
}

static void start(struct stall *s, gconstpointer kick)
{
    start_for(s, kick, 60000);
}

static void make_due(struct rnic_timer *timer)
{
    if (timer->deadline_ns) {
        rnic_timer_arm(timer->dev, timer, 0, timer->expired);
    }
}

/* As if the engine had not run until all timers are due */
static void stall(struct stall *s)
{
    for (GList *link = s->dev->cm->conns.head; link; link = link->next) {
        make_due(&((struct rnic_cm_conn *)link->data)->timer);
    }
    if (s->kick) {
        rnic_device_kick(s->dev, RNIC_DB_KICK, 4);
    }
}

static void end(struct stall *s)
{
    for (unsigned i = 0; i < s->count; i++) {
        close(s->fd[i]);
    }
    th_guest_free(s->guest);
}

static struct rnic_cm_conn *only_connection(struct stall *s)
{
    g_assert_cmpuint(s->dev->cm->conns.length, ==, 1);
    return s->dev->cm->conns.head->data;
}

static void connect_peers(struct stall *s)
{
    for (unsigned i = 0; i < s->count; i++) {
        s->fd[i] = raw_connect(s->guest, B, A, s->port);
    }
    th_wait(s->dev->cm->half_open.length == s->count);
}

static void send_requests(struct stall *s, uint8_t flags, uint8_t rev,
                          const void *pd, uint16_t pd_len)
{
    uint8_t frame[64];
    size_t len = raw_frame(frame, false, flags, rev, pd, pd_len);

    for (unsigned i = 0; i < s->count; i++) {
        raw_send_whole(s->fd[i], frame, len);
    }
}

static void test_request(gconstpointer kick)
{
    struct stall s;

    start(&s, kick);
    connect_peers(&s);
    send_requests(&s, 0, 1, NULL, 0);
    stall(&s);
    for (unsigned i = 0; i < s.count; i++) {
        cm_arrives(s.guest, s.listener);
    }
    end(&s);
}

/* The place that it waited for becomes free as its time is over */
static void test_request_behind_a_full_backlog(void)
{
    struct rnic_aeqe event;
    struct stall s;

    start(&s, GINT_TO_POINTER(false));
    s.count = 2;
    g_assert_cmpuint(cm_unlisten(s.guest, s.listener), ==, RNIC_ADMIN_OK);
    s.listener = th_listen(s.guest, A, 0, 1, &s.port);
    connect_peers(&s);
    send_requests(&s, 0, 1, NULL, 0);
    event = cm_arrives(s.guest, s.listener);
    th_run_for(50);
    g_assert_cmpuint(th_events(s.guest), ==, 0);
    stall(&s);
    g_assert_cmpuint(th_reject(s.guest, GUINT32_FROM_LE(event.conn_id), NULL),
                     ==, RNIC_ADMIN_OK);
    cm_arrives(s.guest, s.listener);
    end(&s);
}

/* Peer-to-peer mode: what the initiator has to send first */
static void test_ready_to_receive(gconstpointer kick)
{
    static const uint8_t rtr[20] = { 0, 14, 0xc1, 0x40, [7] = 1 };
    struct raw_frame reply;
    struct rnic_aeqe event;
    uint8_t block[4];
    struct stall s;

    start(&s, kick);
    connect_peers(&s);
    raw_block(block, RAW_A | 4, RAW_CW | 4);
    send_requests(&s, RAW_S, 2, block, 4);
    for (unsigned i = 0; i < s.count; i++) {
        s.qp[i] = th_qp_new(s.guest, NULL);
    }
    for (unsigned i = 0; i < s.count; i++) {
        event = cm_arrives(s.guest, s.listener);
        g_assert_cmpuint(
            th_accept(s.qp[i], GUINT32_FROM_LE(event.conn_id), NULL), ==,
            RNIC_ADMIN_OK);
    }
    for (unsigned i = 0; i < s.count; i++) {
        raw_recv_frame(s.fd[i], true, &reply);
        g_assert_cmphex(reply.flags & RAW_S, ==, RAW_S);
    }
    for (unsigned i = 0; i < s.count; i++) {
        raw_send_whole(s.fd[i], rtr, sizeof(rtr));
    }
    stall(&s);
    for (unsigned i = 0; i < s.count; i++) {
        th_event_wait(s.guest, RNIC_EV_ESTABLISHED, s.qp[i]->qpn, &event);
        g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
    }
    end(&s);
}

/* ---- The device connects ---- */

/* Their TCP connections are there, whether the device has seen it or not */
static void connect_out(struct stall *s)
{
    uint16_t port = 0;
    int listener = raw_listen(s->guest, B, &port);

    for (unsigned i = 0; i < s->count; i++) {
        s->qp[i] = th_qp_new(s->guest, NULL);
    }
    for (unsigned i = 0; i < s->count; i++) {
        cm_connect_ok(s->qp[i], A, B, port);
        do {
            s->fd[i] =
                accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        } while (s->fd[i] < 0);
    }
    close(listener);
}

static void replies_arrive(struct stall *s)
{
    struct rnic_aeqe event;

    for (unsigned i = 0; i < s->count; i++) {
        th_event_wait(s->guest, RNIC_EV_CONNECT_REPLY, s->qp[i]->qpn, &event);
        g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
    }
}

static void send_reply(int fd)
{
    uint8_t block[4];

    raw_block(block, RAW_A | 4, RAW_CW | 4);
    raw_send_frame(fd, true, RAW_S, 2, block, 4);
}

static void test_reply(gconstpointer kick)
{
    struct raw_frame request;
    struct stall s;

    start(&s, kick);
    connect_out(&s);
    for (unsigned i = 0; i < s.count; i++) {
        raw_recv_frame(s.fd[i], false, &request);
    }
    for (unsigned i = 0; i < s.count; i++) {
        send_reply(s.fd[i]);
    }
    stall(&s);
    replies_arrive(&s);
    end(&s);
}

/* TCP connected, and nobody looked */
static void test_tcp_connection(void)
{
    struct raw_frame request;
    struct stall s;

    start(&s, GINT_TO_POINTER(true));
    connect_out(&s);
    g_assert_cmpuint(only_connection(&s)->state, ==, CONN_CONNECTING);
    stall(&s);
    for (unsigned i = 0; i < s.count; i++) {
        raw_recv_frame(s.fd[i], false, &request);
        send_reply(s.fd[i]);
    }
    replies_arrive(&s);
    end(&s);
}

/* ---- The end of a connection ---- */

/* A Terminate that TCP did not take at once, and could take since */
static void test_terminate(void)
{
    struct th_wr wr = { .opcode = RNIC_WR_WRITE, .remote_stag = 1 };
    uint8_t ulpdu[64], octets[4096];
    struct rnic_qp *qp;
    struct iw_peer p;
    int unsent;

    iw_start_crc(&p, false);
    iw_open_gate(&p);
    wr.sge[0] = th_sge(p.stag, PEER_IOVA, PEER_BUF);
    wr.num_sge = 1;
    for (unsigned i = 0; i < p.qp->attr.sq_depth; i++) {
        th_post_send(p.qp, &wr, 1);
    }
    qp = rnic_qp_find(p.guest->dev, p.qp->qpn);
    th_wait(qp->tx->blocked);
    iw_send(&p, ulpdu, iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, 7, 0, "bad", 3));
    th_wait(th_qp_state(p.qp) == RNIC_QPS_TERMINATE);
    /* The peer reads now, and until the time is over no engine looks */
    do {
        recvfrom(p.fd, octets, sizeof(octets), 0, NULL, NULL);
        g_assert_cmpint(ioctl(iw_device_fd(&p), SIOCOUTQ, &unsent), ==, 0);
    } while (unsent);
    make_due(&qp->end_timer);
    rnic_device_kick(p.guest->dev, RNIC_DB_KICK, 4);
    /* FIN, behind the Terminate */
    g_assert_false(raw_closed(p.fd, NULL));
    g_assert_cmpuint(th_qp_state(p.qp), ==, RNIC_QPS_ERROR);
    iw_free(&p);
}

/* ---- The machine is stopped ---- */

static void test_time_stands_still(void)
{
    struct rnic_timer *timer;
    uint64_t deadline, before, after, stopped, shift;
    struct stall s;

    start_for(&s, GINT_TO_POINTER(false), 200);
    s.count = 1;
    connect_peers(&s);
    timer = &only_connection(&s)->timer;
    deadline = timer->deadline_ns;
    /* It was not stopped */
    rnic_device_resume(s.dev);
    g_assert_cmpuint(timer->deadline_ns, ==, deadline);
    before = rnic_now_ns();
    rnic_device_quiesce(s.dev);
    stopped = rnic_now_ns();
    g_usleep(400000);
    stopped = rnic_now_ns() - stopped;
    rnic_device_resume(s.dev);
    rnic_device_resume(s.dev);
    after = rnic_now_ns();
    shift = timer->deadline_ns - deadline;
    g_assert_cmpuint(shift, >=, stopped);
    g_assert_cmpuint(shift, <=, after - before);
    /* And it ends with that, no earlier */
    raw_closed(s.fd[0], NULL);
    g_assert_cmpuint(rnic_now_ns(), >=, deadline + shift);
    end(&s);
}

/* A packet that waits in the net queue of a machine that is stopped then, for
 * far longer than it would wait */

#define LONG_NS (10 * RNIC_NETQ_PATIENCE_NS)

static void stand_still(struct th_guest *guest)
{
    struct rnic_netq *netq = guest->dev->netq;

    rnic_device_quiesce(guest->dev);
    if (netq->starved_since_ns) {
        netq->starved_since_ns -= LONG_NS;
    }
    if (netq->wait_since_ns) {
        netq->wait_since_ns -= LONG_NS;
    }
    rnic_device_resume(guest->dev);
}

struct packets {
    struct th_guest *guest, *peer;
    struct th_netq from, to;
    unsigned sent;
};

static void packets_new(struct packets *p, unsigned tx_depth, unsigned rx_depth)
{
    p->guest = th_guest_started(NULL);
    p->peer = th_guest_started(NULL);
    p->from = th_netq_new(p->guest, tx_depth, 4);
    p->to = th_netq_new(p->peer, 4, rx_depth);
    p->sent = 0;
    th_addr_add(p->guest, A);
    th_addr_add(p->peer, B);
}

static void packets_arrive(struct packets *p)
{
    unsigned i;

    th_netq_fill(&p->to, 2048);
    for (i = 0; i < p->sent; i++) {
        th_netq_expect(&p->to, A, B, 100, i);
    }
    g_assert_cmpuint(th_stat(p->guest, RNIC_STAT_net_tx_full), ==, 0);
    th_guest_free(p->guest);
    th_guest_free(p->peer);
}

static void test_packet_without_a_buffer(void)
{
    struct rnic_netq *netq;
    struct packets p;
    uint64_t resumed;

    packets_new(&p, 4, 4);
    netq = p.peer->dev->netq;
    th_netq_send_packet(&p.from, A, B, 100, p.sent++);
    th_wait(netq->starved_since_ns);
    stand_still(p.peer);
    resumed = rnic_now_ns();
    /* It begins to wait once more */
    th_wait(netq->starved_since_ns >= resumed);
    packets_arrive(&p);
}

static void test_packet_without_room_at_its_receiver(void)
{
    struct rnic_netq *netq;
    struct packets p;

    packets_new(&p, 1024, 1024);
    netq = p.guest->dev->netq;
    /* Nobody reads: the host's queue gets full */
    rnic_device_quiesce(p.peer->dev);
    do {
        g_assert_cmpuint(p.sent, <, 1024);
        th_netq_send_packet(&p.from, A, B, 100, p.sent++);
        th_wait(th_netq_sent(&p.from) || netq->wait_since_ns);
    } while (!netq->wait_since_ns);
    stand_still(p.guest);
    rnic_device_resume(p.peer->dev);
    packets_arrive(&p);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        GTestDataFunc test;
    } tests[] = {
        { "request", test_request },
        { "ready-to-receive", test_ready_to_receive },
        { "reply", test_reply },
    };

    g_test_init(&argc, &argv, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(tests); i++) {
        for (unsigned kick = 0; kick < 2; kick++) {
            g_autofree char *path = g_strdup_printf(
                "/stalls/%s/%s", tests[i].name, kick ? "doorbell" : "many");

            g_test_add_data_func(path, GINT_TO_POINTER(kick), tests[i].test);
        }
    }
    g_test_add_func("/stalls/request/backlog",
                    test_request_behind_a_full_backlog);
    g_test_add_func("/stalls/tcp", test_tcp_connection);
    g_test_add_func("/stalls/terminate", test_terminate);
    g_test_add_func("/stalls/stopped/timers", test_time_stands_still);
    g_test_add_func("/stalls/stopped/no-buffer", test_packet_without_a_buffer);
    g_test_add_func("/stalls/stopped/no-room",
                    test_packet_without_room_at_its_receiver);
    return g_test_run();
}
