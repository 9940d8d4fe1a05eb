/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The MPA startup of a responder with hostile peers: S30 to S39, S46, S47,
 * S49, S50. See test-mpa-initiator.c for an initiator with such ones.
 */
#include "cm-private.h"
#include "mpa-steps.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A responder with a receive posted, and a TCP connection to it */
static void start(struct iw_peer *p, unsigned timeout_ms)
{
    struct mpa_setup setup = { .crc = RNIC_CRC_AUTO, .timeout_ms = timeout_ms };

    mpa_listen(p, &setup);
    iw_post_recv(p, 1, 0, 100);
    mpa_connect(p);
}

/* Closed without an answer, and nobody was told of it */
static void expect_closed(struct iw_peer *p)
{
    size_t answer;

    raw_closed(p->fd, &answer);
    g_assert_cmpuint(answer, ==, 0);
    th_run_for(5);
    g_assert_cmpuint(th_events(p->guest), ==, 0);
    g_assert_cmpuint(th_qp_state(p->qp), ==, RNIC_QPS_IDLE);
    iw_check_after(p);
    iw_free(p);
}

#define REQ "MPA ID Req Frame"

static const struct bad {
    const char *name;
    const char *key;
    uint8_t flags, rev;
    uint16_t pd_len;
    size_t send;
} bad[] = {
    { "S30/http", "GET / HTTP/1.1\r\n", 0, 1, 0, 16 },
    { "S30/few-octets-of-http", "GET / HTTP/1.1\r\n", 0, 1, 0, 3 },
    { "S30/zeros", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 0, 1, 0, 20 },
    { "S30/ones",
      "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 0, 1,
      0, 20 },
    { "S31/reply-key", "MPA ID Rep Frame", 0, 1, 0, 20 },
    { "S32/one-letter", "MPA ID Req FramE", 0, 1, 0, 20 },
    { "S32/lower-case", "mpa id req frame", 0, 1, 0, 20 },
    { "S33/rev-3", REQ, 0, 3, 0, 20 },
    { "S33/rev-255", REQ, RAW_S, 255, 4, 24 },
    { "S34/rev-0", REQ, 0, 0, 0, 20 },
    { "S35/pd-length-513", REQ, 0, 1, 513, 20 },
    { "S35/pd-length-65535", REQ, 0, 1, 65535, 20 },
    { "S35/pd-length-65535-enhanced", REQ, RAW_S, 2, 65535, 32 },
    { "S39/block-of-0", REQ, RAW_S, 2, 0, 20 },
    { "S39/block-of-3", REQ, RAW_S, 2, 3, 23 },
};

static void test_bad_request_is_closed_without_an_answer(gconstpointer data)
{
    const struct bad *row = data;
    uint8_t frame[32] = { 0 };
    struct iw_peer p;

    start(&p, 0);
    raw_frame(frame, false, row->flags, row->rev, NULL, row->pd_len);
    memcpy(frame, row->key, 16);
    raw_send(p.fd, frame, row->send);
    expect_closed(&p);
}

static void half_a_request(struct iw_peer *p, unsigned timeout_ms)
{
    uint8_t frame[70] = { 0 };

    start(p, timeout_ms);
    raw_frame(frame, false, 0, 1, NULL, 100);
    raw_send(p->fd, frame, sizeof(frame));
}

static void test_half_a_request_times_out(void)
{
    struct iw_peer p;

    half_a_request(&p, 300);
    raw_silent(p.fd, 30);
    expect_closed(&p);
}

static void test_half_a_request_and_fin(void)
{
    struct iw_peer p;

    half_a_request(&p, 0);
    shutdown(p.fd, SHUT_WR);
    expect_closed(&p);
}

static void test_half_a_request_and_rst(void)
{
    struct iw_peer p;

    half_a_request(&p, 0);
    raw_abort(p.fd);
    p.fd = -1;
    th_wait(!p.guest->dev->cm->conns.length);
    g_assert_cmpuint(th_events(p.guest), ==, 0);
    iw_check_after(&p);
    iw_free(&p);
}

/* ---- More than a Request ---- */

static void glued(const uint8_t *octets, size_t len)
{
    uint8_t frame[128];
    struct iw_peer p;
    size_t n = raw_frame(frame, false, 0, 1, NULL, 0);

    memcpy(frame + n, octets, len);
    start(&p, 0);
    /* In parts the Request would be complete before what is behind it */
    raw_send_whole(p.fd, frame, n + len);
    expect_closed(&p);
}

static void test_octets_behind_the_request(void)
{
    glued((const uint8_t *)"\0\0\0\0", 4);
    glued((const uint8_t *)"\0", 1);
}

static void test_fpdu_behind_the_request(void)
{
    uint8_t fpdu[64], write[14] = { IW_TAGGED, IW_WRITE, [5] = 1 };

    glued(fpdu, raw_fpdu(fpdu, write, sizeof(write)));
}

static void test_two_requests_at_once(void)
{
    uint8_t again[20];

    glued(again, raw_frame(again, false, 0, 1, NULL, 0));
}

/* The guest was told of the first; its answer comes too late */
static void gone_meanwhile(struct iw_peer *p, const struct rnic_aeqe *event)
{
    th_wait(
        !p->guest->dev->cm->conns.length ||
        ((struct rnic_cm_conn *)p->guest->dev->cm->conns.head->data)->state ==
            CONN_GONE);
    g_assert_cmpuint(th_accept(p->qp, GUINT32_FROM_LE(event->conn_id), NULL),
                     ==, RNIC_ADMIN_CONN_GONE);
    g_assert_cmpuint(th_qp_state(p->qp), ==, RNIC_QPS_IDLE);
    g_assert_cmpuint(th_events(p->guest), ==, 0);
    iw_check_after(p);
    iw_free(p);
}

static void test_second_request_before_the_reply(void)
{
    struct rnic_aeqe event;
    struct iw_peer p;

    start(&p, 0);
    mpa_request(&p, 0, 1, NULL, 0, &event);
    raw_send_frame(p.fd, false, 0, 1, NULL, 0);
    raw_closed(p.fd, NULL);
    gone_meanwhile(&p, &event);
}

/* Behind the Reply it is taken for an FPDU, of a length of 'MP' */
static void test_second_request_behind_the_reply(gconstpointer crc)
{
    struct mpa_setup setup = { .crc = GPOINTER_TO_INT(crc) ? RNIC_CRC_ON
                                                           : RNIC_CRC_OFF };
    g_autofree uint8_t *frame = g_malloc0(0x4d50 + 16);
    struct rnic_aeqe event;
    struct raw_frame reply;
    struct iw_peer p;

    mpa_listen(&p, &setup);
    iw_post_recv(&p, 1, 0, 100);
    mpa_connect(&p);
    mpa_request(&p, 0, 1, NULL, 0, &event);
    mpa_accept(&p, &event, NULL, &reply);
    mpa_established(&p, &event);
    raw_frame(frame, false, 0, 1, NULL, 0);
    raw_send(p.fd, frame, 0x4d50 + 16);
    if (p.crc) {
        iw_expect_refused(&p, 2, 0, 0x02, NULL);
    } else {
        /* 'A' is an untagged header of DDP version 1, ' ' RDMAP version 0 */
        iw_expect_refused(&p, 0, 2, 0x05, NULL);
    }
    iw_free(&p);
}

/* ---- Peers that leave ---- */

static void test_gone_before_the_reply(void)
{
    unsigned rst;

    for (rst = 0; rst < 2; rst++) {
        struct rnic_aeqe event;
        struct iw_peer p;

        start(&p, 0);
        mpa_request(&p, 0, 1, NULL, 0, &event);
        if (rst) {
            raw_abort(p.fd);
        } else {
            close(p.fd);
        }
        p.fd = -1;
        gone_meanwhile(&p, &event);
    }
}

static void accept_p2p(struct iw_peer *p, unsigned timeout_ms)
{
    struct rnic_aeqe event;
    struct raw_frame reply;
    uint8_t block[4];

    start(p, timeout_ms);
    raw_block(block, RAW_A | 4, RAW_CW | RAW_D | 4);
    mpa_request(p, RAW_S, 2, block, 4, &event);
    mpa_accept(p, &event, NULL, &reply);
    g_assert_cmpuint(th_events(p->guest), ==, 0);
}

/* ESTABLISHED with an error, and CLOSE: in this order, each once */
static void established_and_closed(struct iw_peer *p)
{
    struct rnic_aeqe event;

    th_wait(th_aeq_poll(p->guest, &event));
    g_assert_cmpuint(GUINT16_FROM_LE(event.type), ==, RNIC_EV_ESTABLISHED);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), !=, RNIC_CM_OK);
    th_wait(th_aeq_poll(p->guest, &event));
    if (GUINT16_FROM_LE(event.type) == RNIC_EV_DISCONNECT) {
        th_wait(th_aeq_poll(p->guest, &event));
    }
    g_assert_cmpuint(GUINT16_FROM_LE(event.type), ==, RNIC_EV_CLOSE);
    th_run_for(30);
    g_assert_false(th_aeq_poll(p->guest, &event));
    g_assert_cmpuint(th_qp_state(p->qp), ==, RNIC_QPS_ERROR);
    g_assert_cmpuint(th_stat(p->guest, RNIC_STAT_accepts), ==, 0);
    iw_check_after(p);
    iw_free(p);
}

static void test_fin_before_the_rtr(void)
{
    struct iw_peer p;

    accept_p2p(&p, 0);
    close(p.fd);
    p.fd = -1;
    established_and_closed(&p);
}

static void test_rst_before_the_rtr(void)
{
    struct iw_peer p;

    accept_p2p(&p, 0);
    raw_abort(p.fd);
    p.fd = -1;
    established_and_closed(&p);
}

static void test_missing_rtr(void)
{
    struct rnic_aeqe event;
    struct iw_peer p;

    accept_p2p(&p, 300);
    th_event_wait(p.guest, RNIC_EV_ESTABLISHED, p.qp->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_TIMEDOUT);
    iw_expect_error(&p);
    raw_closed(p.fd, NULL);
    g_assert_cmpuint(th_stat(p.guest, RNIC_STAT_accepts), ==, 0);
    iw_check_after(&p);
    iw_free(&p);
}

/* ---- Peers that say nothing ---- */

/* More of them than the backlog; then one that speaks */
static void test_silent_ones_do_not_stay(void)
{
    struct iw_peer p;
    int silent[12];
    unsigned i;

    start(&p, 300);
    for (i = 0; i < G_N_ELEMENTS(silent); i++) {
        silent[i] = raw_connect(p.guest, IW_PEER, IW_DEVICE, p.port);
    }
    for (i = 0; i < G_N_ELEMENTS(silent); i++) {
        raw_closed(silent[i], NULL);
        close(silent[i]);
    }
    expect_closed(&p);
}

/* And one that they do not keep from being served */
static void thousand_silent_ones(struct iw_peer *p, int *silent)
{
    struct rnic_aeqe event;
    unsigned i;

    for (i = 0; i < 1000; i++) {
        silent[i] = raw_connect(p->guest, IW_PEER, IW_DEVICE, p->port);
    }
    mpa_connect(p);
    mpa_request(p, 0, 1, NULL, 0, &event);
    for (i = 0; i < 1000; i++) {
        raw_closed(silent[i], NULL);
        close(silent[i]);
    }
    g_assert_cmpuint(p->guest->dev->cm->conns.length, ==, 1);
    g_assert_cmpuint(th_reject(p->guest, GUINT32_FROM_LE(event.conn_id), NULL),
                     ==, RNIC_ADMIN_OK);
    close(p->fd);
    p->fd = -1;
    th_wait(!p->guest->dev->cm->conns.length &&
            !p->guest->dev->draining.length);
}

static void test_a_thousand_silent_ones(void)
{
    struct mpa_setup setup = { .crc = RNIC_CRC_AUTO, .timeout_ms = 1000 };
    g_autofree int *silent = g_new(int, 1000);
    struct iw_peer p;
    uint32_t first;

    mpa_listen(&p, &setup);
    /* Room for all of them at once */
    first = p.listener;
    p.listener = th_listen(p.guest, IW_DEVICE, 0, 1024, &p.port);
    g_assert_cmpuint(th_admin_id(p.guest, RNIC_CMD_UNLISTEN, first), ==,
                     RNIC_ADMIN_OK);
    thousand_silent_ones(&p, silent);
    /* What they made grow does not grow again */
    iw_baseline(&p);
    thousand_silent_ones(&p, silent);
    iw_check_after(&p);
    iw_free(&p);
}

/* After a rejection the device waits for the peer's FIN, but not for ever and
 * not for everything */
static void test_closed_connection_does_not_linger(void)
{
    g_autofree uint8_t *octets = g_malloc0(1 << 20);
    unsigned chatty;

    for (chatty = 0; chatty < 2; chatty++) {
        struct rnic_aeqe event;
        struct raw_frame reply;
        struct rnic_device *dev;
        struct iw_peer p;
        uint64_t sent;

        start(&p, 0);
        dev = p.guest->dev;
        mpa_request(&p, 0, 1, NULL, 0, &event);
        g_assert_cmpuint(
            th_reject(p.guest, GUINT32_FROM_LE(event.conn_id), NULL), ==,
            RNIC_ADMIN_OK);
        raw_recv_frame(p.fd, true, &reply);
        g_assert_cmpuint(dev->cm->conns.length + dev->draining.length, ==, 1);
        for (sent = 0;
             chatty && dev->cm->conns.length + dev->draining.length;) {
            ssize_t n;

            th_step(0);
            n = send(p.fd, octets, 1 << 20, MSG_NOSIGNAL);
            if (n < 0 && errno != EAGAIN) {
                break;
            }
            sent += MAX(n, 0);
            /* It and both socket buffers */
            g_assert_cmpuint(sent, <, 64 << 20);
        }
        th_wait(!dev->cm->conns.length && !dev->draining.length);
        iw_check_after(&p);
        iw_free(&p);
    }
}

int main(int argc, char **argv)
{
    unsigned i;

    g_test_init(&argc, &argv, NULL);
    for (i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autofree char *name = g_strdup_printf("/wire/%s", bad[i].name);

        g_test_add_data_func(name, &bad[i],
                             test_bad_request_is_closed_without_an_answer);
    }
#define ADD(name, test) g_test_add_func("/wire/" name, test)
    ADD("S37/half-and-silence", test_half_a_request_times_out);
    ADD("S38/half-and-fin", test_half_a_request_and_fin);
    ADD("S38/half-and-rst", test_half_a_request_and_rst);
    ADD("S46/silent", test_silent_ones_do_not_stay);
    ADD("S46/thousand-silent", test_a_thousand_silent_ones);
    ADD("S47/octets-behind-the-request", test_octets_behind_the_request);
    ADD("S47/fpdu-behind-the-request", test_fpdu_behind_the_request);
    ADD("S49/gone-before-the-reply", test_gone_before_the_reply);
    ADD("S49/fin-before-the-rtr", test_fin_before_the_rtr);
    ADD("S49/rst-before-the-rtr", test_rst_before_the_rtr);
    ADD("S49/no-rtr", test_missing_rtr);
    ADD("S50/at-once", test_two_requests_at_once);
    ADD("S50/before-the-reply", test_second_request_before_the_reply);
    iw_add("S50/behind-the-reply", test_second_request_behind_the_reply);
    g_test_add_func("/mpa-responder/linger",
                    test_closed_connection_does_not_linger);
    return g_test_run();
}
