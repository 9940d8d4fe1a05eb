/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The MPA startup of a responder against a peer that says exactly what it is
 * told to: RFC 5044 section 7.1, RFC 6581
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cm-steps.h"
#include "cm-private.h"
#include "raw-peer.h"
#include "wire/byteorder.h"

#define DEVICE "10.0.0.1"
#define PEER   "10.0.0.2"

static struct th_guest *guest_new(void)
{
    return cm_guest_with(DEVICE, 10000, RNIC_CRC_AUTO, true, 2);
}

struct responder {
    struct th_guest *guest;
    uint32_t listener;
    uint16_t port;
    struct th_qp *qp;
    int peer;
};

static void responder_start(struct responder *r, struct th_guest *guest)
{
    r->guest = guest;
    r->listener = th_listen(guest, DEVICE, 0, 8, &r->port);
    r->qp = th_qp_new(guest, NULL);
    r->peer = raw_connect(guest, PEER, DEVICE, r->port);
}

static void responder_end(struct responder *r)
{
    close(r->peer);
    th_guest_free(r->guest);
}

/* Sends a Request, gets the event */
static void request(struct responder *r, uint8_t flags, uint8_t rev,
                    const void *pd, uint16_t pd_len, struct rnic_aeqe *event)
{
    raw_send_frame(r->peer, false, flags, rev, pd, pd_len);
    th_event_wait(r->guest, RNIC_EV_CONNECT_REQUEST, r->listener, event);
    g_assert_cmpuint(GUINT16_FROM_LE(event->status), ==, RNIC_CM_OK);
}

static void accept_with(struct responder *r, const struct rnic_aeqe *event,
                        uint16_t ird, uint16_t ord, struct raw_frame *reply)
{
    struct th_connect params = { .ird = ird, .ord = ord };

    g_assert_cmpuint(th_accept(r->qp, GUINT32_FROM_LE(event->conn_id), &params),
                     ==, RNIC_ADMIN_OK);
    raw_recv_frame(r->peer, true, reply);
}

static void established(struct responder *r, struct rnic_aeqe *event)
{
    th_event_wait(r->guest, RNIC_EV_ESTABLISHED, r->qp->qpn, event);
    g_assert_cmpuint(GUINT16_FROM_LE(event->status), ==, RNIC_CM_OK);
}

static void test_plain_request_gets_a_plain_reply(void)
{
    static const struct {
        uint8_t flags, rev, reply_flags;
    } cases[] = {
        { 0, 1, 0 },         /* S01 */
        { RAW_C, 1, RAW_C }, /* S02 */
        { 0, 2, 0 },         /* S06 */
        { 0x0f, 1, 0 },      /* S20 */
        { RAW_R, 1, 0 },     /* S21 */
        { RAW_M, 1, 0 },     /* S22 */
        { RAW_S, 1, 0 },     /* S23 */
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct responder r;
        struct rnic_aeqe event;
        struct raw_frame reply;

        responder_start(&r, guest_new());
        request(&r, cases[i].flags, cases[i].rev, "hello", 5, &event);
        g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), "hello",
                        5);
        accept_with(&r, &event, 3, 4, &reply);
        g_assert_cmphex(reply.flags, ==, cases[i].reply_flags);
        g_assert_cmpuint(reply.rev, ==, cases[i].rev);
        g_assert_cmpuint(reply.pd_len, ==, 0);
        established(&r, &event);
        g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, 3);
        g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, 4);
        responder_end(&r);
    }
}

static void test_enhanced_request_gets_an_enhanced_reply(void)
{
    struct responder r;
    struct rnic_aeqe event;
    struct raw_frame reply;
    uint8_t block[4];

    responder_start(&r, guest_new());
    raw_block(block, 4, 5);
    request(&r, RAW_S, 2, block, 4, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, 4);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, 5);
    g_assert_cmpuint(GUINT16_FROM_LE(event.pdata_len), ==, 0);
    accept_with(&r, &event, 1, 9, &reply);
    g_assert_cmphex(reply.flags, ==, RAW_S);
    g_assert_cmpuint(reply.rev, ==, 2);
    /* IRD raised to the peer's ORD, ORD lowered to its IRD, A to D clear */
    g_assert_cmphex(reply.ird, ==, 5);
    g_assert_cmphex(reply.ord, ==, 4);
    established(&r, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, 5);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, 4);
    responder_end(&r);
}

static void test_block_fields_are_read_and_written(void)
{
    static const struct {
        uint16_t ird, ord; /* of the Request, as on the wire */
        uint16_t event_ird, event_ord;
        uint16_t reply_ird, reply_ord;
    } cases[] = {
        { 0x3fff, 0x3fff, 128, 128, 0x3fff, 0x3fff },   /* S18 */
        { 0, 0, 0, 0, 16, 0 },                          /* S19 */
        { 4 | RAW_B, 4 | RAW_CW | RAW_D, 4, 4, 16, 4 }, /* S40 */
        { 8, 200, 8, 200, 128, 8 },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct responder r;
        struct rnic_aeqe event;
        struct raw_frame reply;
        uint8_t block[4];

        responder_start(&r, guest_new());
        raw_block(block, cases[i].ird, cases[i].ord);
        request(&r, RAW_S, 2, block, 4, &event);
        g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, cases[i].event_ird);
        g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, cases[i].event_ord);
        accept_with(&r, &event, 16, 16, &reply);
        g_assert_cmphex(reply.ird, ==, cases[i].reply_ird);
        g_assert_cmphex(reply.ord, ==, cases[i].reply_ord);
        responder_end(&r);
    }
}

static void test_private_data_of_every_length_arrives(void)
{
    static const uint16_t lengths[] = { 0, 1, 3, 5, 255, 508 }; /* S07 */

    for (size_t i = 0; i < G_N_ELEMENTS(lengths); i++) {
        struct responder r;
        struct rnic_aeqe event;
        uint8_t pd[512];

        responder_start(&r, guest_new());
        raw_block(pd, 1, 1);
        th_fill(pd + 4, lengths[i], 7);
        request(&r, RAW_S, 2, pd, 4 + lengths[i], &event);
        g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), pd + 4,
                        lengths[i]);
        responder_end(&r);
    }
}

static void test_plain_private_data_may_have_512_octets(void)
{
    struct responder r;
    struct rnic_aeqe event;
    uint8_t pd[512];

    responder_start(&r, guest_new());
    th_fill(pd, sizeof(pd), 3);
    request(&r, 0, 1, pd, sizeof(pd), &event); /* S36 */
    g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), pd,
                    sizeof(pd));
    responder_end(&r);
}

static void test_reject_carries_block_and_private_data(void)
{
    static const struct {
        uint8_t flags, rev;
        uint16_t pd_len;
    } cases[] = { { RAW_S, 2, 4 }, { 0, 1, 0 } }; /* S08 */

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct responder r;
        struct rnic_aeqe event;
        struct raw_frame reply;
        uint8_t block[4];
        struct th_connect params = { .pdata = "go away", .pdata_len = 7 };
        size_t rest;

        responder_start(&r, guest_new());
        raw_block(block, 1, 1);
        request(&r, cases[i].flags, cases[i].rev, block, cases[i].pd_len,
                &event);
        g_assert_cmpuint(
            th_reject(r.guest, GUINT32_FROM_LE(event.conn_id), &params), ==,
            RNIC_ADMIN_OK);
        raw_recv_frame(r.peer, true, &reply);
        g_assert_cmphex(reply.flags, ==, RAW_R | cases[i].flags);
        g_assert_cmpuint(reply.rev, ==, cases[i].rev);
        g_assert_cmpmem(reply.pd + cases[i].pd_len,
                        reply.pd_len - cases[i].pd_len, "go away", 7);
        g_assert_false(raw_closed(r.peer, &rest));
        g_assert_cmpuint(rest, ==, 0);
        cm_no_events(r.guest);
        g_assert_cmpuint(th_stat(r.guest, RNIC_STAT_rejects), ==, 1);
        responder_end(&r);
    }
}

static void test_request_may_come_octet_by_octet(void)
{
    struct responder r;
    struct rnic_aeqe event;
    uint8_t frame[20 + 9];
    uint8_t pd[9] = { 0, 4, 0, 4, 'h', 'e', 'l', 'l', 'o' };
    size_t len = raw_frame(frame, false, RAW_S, 2, pd, sizeof(pd));

    responder_start(&r, guest_new());
    for (size_t i = 0; i < len; i++) { /* S09 */
        g_assert_cmpuint(th_events(r.guest), ==, 0);
        raw_send(r.peer, frame + i, 1);
        th_run_for(1);
    }
    th_event_wait(r.guest, RNIC_EV_CONNECT_REQUEST, r.listener, &event);
    g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), "hello", 5);
    responder_end(&r);
}

static void test_peer_to_peer_reply_names_a_form(void)
{
    static const struct {
        uint16_t b, c_d, reply_b, reply_c_d;
    } cases[] = {
        { 0, RAW_CW | RAW_D, 0, RAW_CW | RAW_D }, /* S11 */
        { 0, RAW_CW, 0, RAW_CW },
        { RAW_B, RAW_D, 0, RAW_D },
        { RAW_B, 0, 0, RAW_CW | RAW_D }, /* S14 */
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct responder r;
        struct rnic_aeqe event;
        struct raw_frame reply;
        uint8_t block[4];

        responder_start(&r, guest_new());
        raw_block(block, RAW_A | cases[i].b | 4, cases[i].c_d | 4);
        request(&r, RAW_S, 2, block, 4, &event);
        accept_with(&r, &event, 16, 16, &reply);
        g_assert_cmphex(reply.ird & 0xc000, ==, RAW_A | cases[i].reply_b);
        g_assert_cmphex(reply.ord & 0xc000, ==, cases[i].reply_c_d);
        /* It waits for the ready-to-receive message */
        cm_no_events(r.guest);
        responder_end(&r);
    }
}

static const uint8_t rtr_write[14] = { 0xc1, 0x40, 0, 0, 0, 1 };

static void responder_p2p(struct responder *r, unsigned timeout_ms)
{
    struct rnic_aeqe event;
    struct raw_frame reply;
    uint8_t block[4];

    responder_start(r,
                    cm_guest_with(DEVICE, timeout_ms, RNIC_CRC_AUTO, true, 2));
    raw_block(block, RAW_A | 4, RAW_CW | RAW_D | 4);
    request(r, RAW_S, 2, block, 4, &event);
    accept_with(r, &event, 16, 16, &reply);
}

static void test_rtr_write_establishes(void) /* S12 */
{
    struct responder r;
    struct rnic_aeqe event;
    uint8_t fpdu[64];

    responder_p2p(&r, 10000);
    cm_no_events(r.guest);
    raw_send(r.peer, fpdu, raw_fpdu(fpdu, rtr_write, sizeof(rtr_write)));
    established(&r, &event);
    cm_no_events(r.guest);
    g_assert_cmpuint(th_stat(r.guest, RNIC_STAT_accepts), ==, 1);
    responder_end(&r);
}

static void test_missing_rtr_fails_the_accept(void)
{
    struct responder r;
    struct rnic_aeqe event;

    responder_p2p(&r, 150);
    th_event_wait(r.guest, RNIC_EV_ESTABLISHED, r.qp->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_TIMEDOUT);
    th_event_wait(r.guest, RNIC_EV_CLOSE, r.qp->qpn, &event);
    g_assert_cmpuint(th_qp_state(r.qp), ==, RNIC_QPS_ERROR);
    raw_closed(r.peer, NULL);
    cm_no_events(r.guest);
    g_assert_cmpuint(th_stat(r.guest, RNIC_STAT_accepts), ==, 0);
    responder_end(&r);
}

static void test_peer_that_leaves_before_its_rtr(void) /* S49 */
{
    for (unsigned rst = 0; rst < 2; rst++) {
        struct responder r;
        struct rnic_aeqe event;

        responder_p2p(&r, 10000);
        if (rst) {
            raw_abort(r.peer);
        } else {
            close(r.peer);
        }
        r.peer = -1;
        /* In this order, each once */
        th_wait(th_aeq_poll(r.guest, &event));
        g_assert_cmpuint(GUINT16_FROM_LE(event.type), ==, RNIC_EV_ESTABLISHED);
        g_assert_cmpuint(GUINT16_FROM_LE(event.status), !=, RNIC_CM_OK);
        th_wait(th_aeq_poll(r.guest, &event));
        if (GUINT16_FROM_LE(event.type) == RNIC_EV_DISCONNECT) {
            th_wait(th_aeq_poll(r.guest, &event));
        }
        g_assert_cmpuint(GUINT16_FROM_LE(event.type), ==, RNIC_EV_CLOSE);
        th_run_for(30);
        g_assert_false(th_aeq_poll(r.guest, &event));
        responder_end(&r);
    }
}

static void test_bad_requests_are_closed_without_an_answer(void)
{
    static const struct {
        const char *key;
        uint8_t flags, rev;
        uint16_t pd_len;
        size_t send;
    } cases[] = {
        { "GET / HTTP/1.1\r\n", 0, 1, 0, 16 }, /* S30 */
        { "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 0, 1, 0, 16 },
        { "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 0,
          1, 0, 16 },
        { "MPA ID Rep Frame", 0, 1, 0, 20 }, /* S31 */
        { "MPA ID Req frame", 0, 1, 0, 20 }, /* S32 */
        { "MPA ID Req Frame", 0, 3, 0, 20 }, /* S33 */
        { "MPA ID Req Frame", 0, 255, 0, 20 },
        { "MPA ID Req Frame", 0, 0, 0, 20 },   /* S34 */
        { "MPA ID Req Frame", 0, 1, 513, 20 }, /* S35 */
        { "MPA ID Req Frame", 0, 1, 65535, 20 },
        { "MPA ID Req Frame", RAW_S, 2, 0, 20 }, /* S39 */
        { "MPA ID Req Frame", RAW_S, 2, 3, 23 },
        { "MPA ID Req Frame", 0, 1, 0, 24 }, /* S47 */
        { "MPA ID Req Frame", 0, 1, 0, 21 },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        uint8_t frame[32] = { 0 };
        struct responder r;
        size_t answer;

        responder_start(&r, guest_new());
        memcpy(frame, cases[i].key, 16);
        frame[16] = cases[i].flags;
        frame[17] = cases[i].rev;
        rnic_put_be16(frame + 18, cases[i].pd_len);
        /* In parts the Request would be complete before what is behind it */
        if (cases[i].send > 20u + cases[i].pd_len) {
            raw_send_whole(r.peer, frame, cases[i].send);
        } else {
            raw_send(r.peer, frame, cases[i].send);
        }
        raw_closed(r.peer, &answer);
        g_assert_cmpuint(answer, ==, 0);
        cm_no_events(r.guest);
        responder_end(&r);
    }
}

static void test_second_request_ends_the_connection(void) /* S50 */
{
    struct responder r;
    struct rnic_aeqe event;

    responder_start(&r, guest_new());
    request(&r, 0, 1, NULL, 0, &event);
    raw_send_frame(r.peer, false, 0, 1, NULL, 0);
    raw_closed(r.peer, NULL);
    g_assert_cmpuint(th_accept(r.qp, GUINT32_FROM_LE(event.conn_id), NULL), ==,
                     RNIC_ADMIN_CONN_GONE);
    g_assert_cmpuint(th_qp_state(r.qp), ==, RNIC_QPS_IDLE);
    cm_no_events(r.guest);
    responder_end(&r);
}

static void test_half_a_request_times_out(void) /* S37 */
{
    uint8_t frame[70] = { 0 };
    struct responder r;

    responder_start(&r, cm_guest_with(DEVICE, 150, RNIC_CRC_AUTO, true, 2));
    raw_frame(frame, false, 0, 1, NULL, 100);
    raw_send(r.peer, frame, 70);
    raw_silent(r.peer, 75);
    raw_closed(r.peer, NULL);
    cm_no_events(r.guest);
    responder_end(&r);
}

static void test_half_a_request_and_fin(void) /* S38 */
{
    uint8_t frame[70] = { 0 };
    struct responder r;

    responder_start(&r, guest_new());
    raw_frame(frame, false, 0, 1, NULL, 100);
    raw_send(r.peer, frame, 70);
    shutdown(r.peer, SHUT_WR);
    raw_closed(r.peer, NULL);
    cm_no_events(r.guest);
    responder_end(&r);
}

static void test_crc_of_the_reply(void)
{
    static const struct {
        enum rnic_crc_policy policy;
        uint8_t request, reply;
    } cases[] = {
        { RNIC_CRC_ON, 0, RAW_C },                               /* S03 */
        { RNIC_CRC_ON, RAW_C, RAW_C },   { RNIC_CRC_OFF, 0, 0 }, /* S04 */
        { RNIC_CRC_OFF, RAW_C, RAW_C },  { RNIC_CRC_AUTO, 0, 0 },
        { RNIC_CRC_AUTO, RAW_C, RAW_C },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct responder r;
        struct rnic_aeqe event;
        struct raw_frame reply;

        responder_start(&r,
                        cm_guest_with(DEVICE, 10000, cases[i].policy, true, 2));
        request(&r, cases[i].request, 1, NULL, 0, &event);
        accept_with(&r, &event, 1, 1, &reply);
        g_assert_cmphex(reply.flags, ==, cases[i].reply);
        responder_end(&r);
    }
}

/* More of them than the backlog, all silent; then one that speaks */
static void test_silent_clients_do_not_stay(void)
{
    struct th_guest *guest = cm_guest_with(DEVICE, 100, RNIC_CRC_AUTO, true, 2);
    uint16_t port;
    uint32_t listener = th_listen(guest, DEVICE, 0, 4, &port);
    int silent[8], peer;

    for (unsigned i = 0; i < G_N_ELEMENTS(silent); i++) {
        silent[i] = raw_connect(guest, PEER, DEVICE, port);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(silent); i++) {
        raw_closed(silent[i], NULL);
        close(silent[i]);
    }
    peer = raw_connect(guest, PEER, DEVICE, port);
    raw_send_frame(peer, false, 0, 1, NULL, 0);
    cm_arrives(guest, listener);
    close(peer);
    th_guest_free(guest);
}

static void test_a_thousand_silent_clients(void) /* S46 */
{
    struct th_guest *guest =
        cm_guest_with(DEVICE, 1000, RNIC_CRC_AUTO, true, 2);
    uint16_t port;
    uint32_t listener = th_listen(guest, DEVICE, 0, 1024, &port);
    g_autofree int *silent = g_new(int, 1000);
    int peer;

    for (unsigned i = 0; i < 1000; i++) {
        silent[i] = raw_connect(guest, PEER, DEVICE, port);
    }
    /* They do not keep another one from being served */
    peer = raw_connect(guest, PEER, DEVICE, port);
    raw_send_frame(peer, false, 0, 1, NULL, 0);
    cm_arrives(guest, listener);
    for (unsigned i = 0; i < 1000; i++) {
        raw_closed(silent[i], NULL);
        close(silent[i]);
    }
    g_assert_cmpuint(guest->dev->cm->conns.length, ==, 1);
    close(peer);
    th_guest_free(guest);
}

/* After a graceful close the device waits for the peer's FIN, but not for ever
 * and not for everything */
static void test_closed_connection_does_not_linger(void)
{
    g_autofree uint8_t *octets = g_malloc0(1 << 20);

    for (unsigned chatty = 0; chatty < 2; chatty++) {
        struct responder r;
        struct rnic_aeqe event;
        struct raw_frame reply;
        uint64_t start;

        responder_start(&r, guest_new());
        request(&r, 0, 1, NULL, 0, &event);
        g_assert_cmpuint(
            th_reject(r.guest, GUINT32_FROM_LE(event.conn_id), NULL), ==,
            RNIC_ADMIN_OK);
        raw_recv_frame(r.peer, true, &reply);
        g_assert_cmpuint(r.guest->dev->draining.length, ==, 1);
        start = th_now_ms();
        while (r.guest->dev->draining.length && chatty) {
            th_step(0);
            if (send(r.peer, octets, 1 << 20, MSG_NOSIGNAL) < 0 &&
                errno != EAGAIN) {
                break;
            }
        }
        th_wait(r.guest->dev->draining.length == 0);
        if (chatty) {
            g_assert_cmpuint(th_now_ms() - start, <, 2500);
        }
        responder_end(&r);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, test) g_test_add_func("/mpa-responder/" name, test)
    ADD("plain", test_plain_request_gets_a_plain_reply);
    ADD("enhanced", test_enhanced_request_gets_an_enhanced_reply);
    ADD("block", test_block_fields_are_read_and_written);
    ADD("private-data", test_private_data_of_every_length_arrives);
    ADD("private-data-512", test_plain_private_data_may_have_512_octets);
    ADD("reject", test_reject_carries_block_and_private_data);
    ADD("octets", test_request_may_come_octet_by_octet);
    ADD("p2p", test_peer_to_peer_reply_names_a_form);
    ADD("rtr", test_rtr_write_establishes);
    ADD("no-rtr", test_missing_rtr_fails_the_accept);
    ADD("gone-before-rtr", test_peer_that_leaves_before_its_rtr);
    ADD("bad", test_bad_requests_are_closed_without_an_answer);
    ADD("two-requests", test_second_request_ends_the_connection);
    ADD("half", test_half_a_request_times_out);
    ADD("half-fin", test_half_a_request_and_fin);
    ADD("crc", test_crc_of_the_reply);
    ADD("silent", test_silent_clients_do_not_stay);
    ADD("silent-1000", test_a_thousand_silent_clients);
    ADD("linger", test_closed_connection_does_not_linger);
    return g_test_run();
}
