/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The MPA startup against a peer that says exactly what it is told to: RFC
 * 5044 section 7.1, RFC 6581. Both roles of the device.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "harness.h"
#include "raw-peer.h"
#include "wire/byteorder.h"
#include "wire/crc32c.h"

#define DEVICE  "10.0.0.1"
#define PEER    "10.0.0.2"

static struct th_guest *guest_with(unsigned timeout_ms,
                                   enum rnic_crc_policy crc, bool p2p,
                                   unsigned rev)
{
    struct th_options options;
    struct th_guest *guest;

    th_options_init(&options);
    options.config.mpa_timeout_ms = timeout_ms;
    options.config.crc = crc;
    options.config.p2p = p2p;
    options.config.mpa_rev = rev;
    guest = th_guest_started(&options);
    g_assert_cmpuint(th_addr_add(guest, DEVICE), ==, RNIC_ADMIN_OK);
    return guest;
}

static struct th_guest *guest_new(void)
{
    return guest_with(10000, RNIC_CRC_AUTO, true, 2);
}

static void assert_no_event(struct th_guest *guest)
{
    th_run_for(30);
    g_assert_cmpuint(th_events(guest), ==, 0);
}

/* ---- The device as responder ---- */

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

    g_assert_cmpuint(th_accept(r->qp, GUINT32_FROM_LE(event->conn_id),
                               &params), ==, RNIC_ADMIN_OK);
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
        { 0, 1, 0 },                    /* S01 */
        { RAW_C, 1, RAW_C },            /* S02 */
        { 0, 2, 0 },                    /* S06 */
        { 0x0f, 1, 0 },                 /* S20 */
        { RAW_R, 1, 0 },                /* S21 */
        { RAW_M, 1, 0 },                /* S22 */
        { RAW_S, 1, 0 },                /* S23 */
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct responder r;
        struct rnic_aeqe event;
        struct raw_frame reply;

        responder_start(&r, guest_new());
        request(&r, cases[i].flags, cases[i].rev, "hello", 5, &event);
        g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len),
                        "hello", 5);
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
        uint16_t ird, ord;              /* of the Request, as on the wire */
        uint16_t event_ird, event_ord;
        uint16_t reply_ird, reply_ord;
    } cases[] = {
        { 0x3fff, 0x3fff, 128, 128, 0x3fff, 0x3fff },       /* S18 */
        { 0, 0, 0, 0, 16, 0 },                              /* S19 */
        { 4 | RAW_B, 4 | RAW_CW | RAW_D, 4, 4, 16, 4 },     /* S40 */
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
    static const uint16_t lengths[] = { 0, 1, 3, 5, 255, 508 };     /* S07 */

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
    request(&r, 0, 1, pd, sizeof(pd), &event);                      /* S36 */
    g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), pd,
                    sizeof(pd));
    responder_end(&r);
}

static void test_reject_carries_block_and_private_data(void)
{
    static const struct {
        uint8_t flags, rev;
        uint16_t pd_len;
    } cases[] = { { RAW_S, 2, 4 }, { 0, 1, 0 } };                   /* S08 */

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
        g_assert_cmpuint(th_reject(r.guest, GUINT32_FROM_LE(event.conn_id),
                                   &params), ==, RNIC_ADMIN_OK);
        raw_recv_frame(r.peer, true, &reply);
        g_assert_cmphex(reply.flags, ==, RAW_R | cases[i].flags);
        g_assert_cmpuint(reply.rev, ==, cases[i].rev);
        g_assert_cmpmem(reply.pd + cases[i].pd_len,
                        reply.pd_len - cases[i].pd_len, "go away", 7);
        g_assert_false(raw_closed(r.peer, &rest));
        g_assert_cmpuint(rest, ==, 0);
        assert_no_event(r.guest);
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
    for (size_t i = 0; i < len; i++) {                              /* S09 */
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
        { 0, RAW_CW | RAW_D, 0, RAW_CW | RAW_D },                   /* S11 */
        { 0, RAW_CW, 0, RAW_CW },
        { RAW_B, RAW_D, 0, RAW_D },
        { RAW_B, 0, 0, RAW_CW | RAW_D },                            /* S14 */
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
        assert_no_event(r.guest);
        responder_end(&r);
    }
}

/* A zero-length RDMA Write, or the FPDU of a ULPDU, with a CRC of 0 */
static size_t put_fpdu(uint8_t *to, const void *ulpdu, uint16_t len)
{
    size_t octets = (2 + len + 3) & ~3;

    memset(to, 0, octets + 4);
    rnic_put_be16(to, len);
    memcpy(to + 2, ulpdu, len);
    return octets + 4;
}

static const uint8_t rtr_write[14] = { 0xc1, 0x40, 0, 0, 0, 1 };

static void responder_p2p(struct responder *r, unsigned timeout_ms)
{
    struct rnic_aeqe event;
    struct raw_frame reply;
    uint8_t block[4];

    responder_start(r, guest_with(timeout_ms, RNIC_CRC_AUTO, true, 2));
    raw_block(block, RAW_A | 4, RAW_CW | RAW_D | 4);
    request(r, RAW_S, 2, block, 4, &event);
    accept_with(r, &event, 16, 16, &reply);
}

static void test_rtr_write_establishes(void)                        /* S12 */
{
    struct responder r;
    struct rnic_aeqe event;
    uint8_t fpdu[64];

    responder_p2p(&r, 10000);
    assert_no_event(r.guest);
    raw_send(r.peer, fpdu, put_fpdu(fpdu, rtr_write, sizeof(rtr_write)));
    established(&r, &event);
    assert_no_event(r.guest);
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
    assert_no_event(r.guest);
    g_assert_cmpuint(th_stat(r.guest, RNIC_STAT_accepts), ==, 0);
    responder_end(&r);
}

static void test_peer_that_leaves_before_its_rtr(void)              /* S49 */
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
        { "GET / HTTP/1.1\r\n", 0, 1, 0, 16 },                      /* S30 */
        { "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 0, 1, 0, 16 },
        { "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
          0, 1, 0, 16 },
        { "MPA ID Rep Frame", 0, 1, 0, 20 },                        /* S31 */
        { "MPA ID Req frame", 0, 1, 0, 20 },                        /* S32 */
        { "MPA ID Req Frame", 0, 3, 0, 20 },                        /* S33 */
        { "MPA ID Req Frame", 0, 255, 0, 20 },
        { "MPA ID Req Frame", 0, 0, 0, 20 },                        /* S34 */
        { "MPA ID Req Frame", 0, 1, 513, 20 },                      /* S35 */
        { "MPA ID Req Frame", 0, 1, 65535, 20 },
        { "MPA ID Req Frame", RAW_S, 2, 0, 20 },                    /* S39 */
        { "MPA ID Req Frame", RAW_S, 2, 3, 23 },
        { "MPA ID Req Frame", 0, 1, 0, 24 },                        /* S47 */
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
        raw_send(r.peer, frame, cases[i].send);
        raw_closed(r.peer, &answer);
        g_assert_cmpuint(answer, ==, 0);
        assert_no_event(r.guest);
        responder_end(&r);
    }
}

static void test_second_request_ends_the_connection(void)           /* S50 */
{
    struct responder r;
    struct rnic_aeqe event;

    responder_start(&r, guest_new());
    request(&r, 0, 1, NULL, 0, &event);
    raw_send_frame(r.peer, false, 0, 1, NULL, 0);
    raw_closed(r.peer, NULL);
    g_assert_cmpuint(th_accept(r.qp, GUINT32_FROM_LE(event.conn_id), NULL),
                     ==, RNIC_ADMIN_CONN_GONE);
    g_assert_cmpuint(th_qp_state(r.qp), ==, RNIC_QPS_IDLE);
    assert_no_event(r.guest);
    responder_end(&r);
}

static void test_half_a_request_times_out(void)                     /* S37 */
{
    uint8_t frame[70] = { 0 };
    struct responder r;

    responder_start(&r, guest_with(150, RNIC_CRC_AUTO, true, 2));
    raw_frame(frame, false, 0, 1, NULL, 100);
    raw_send(r.peer, frame, 70);
    raw_silent(r.peer, 75);
    raw_closed(r.peer, NULL);
    assert_no_event(r.guest);
    responder_end(&r);
}

static void test_half_a_request_and_fin(void)                       /* S38 */
{
    uint8_t frame[70] = { 0 };
    struct responder r;

    responder_start(&r, guest_new());
    raw_frame(frame, false, 0, 1, NULL, 100);
    raw_send(r.peer, frame, 70);
    shutdown(r.peer, SHUT_WR);
    raw_closed(r.peer, NULL);
    assert_no_event(r.guest);
    responder_end(&r);
}

static void test_crc_of_the_reply(void)
{
    static const struct {
        enum rnic_crc_policy policy;
        uint8_t request, reply;
    } cases[] = {
        { RNIC_CRC_ON, 0, RAW_C },                                  /* S03 */
        { RNIC_CRC_ON, RAW_C, RAW_C },
        { RNIC_CRC_OFF, 0, 0 },                                     /* S04 */
        { RNIC_CRC_OFF, RAW_C, RAW_C },
        { RNIC_CRC_AUTO, 0, 0 },
        { RNIC_CRC_AUTO, RAW_C, RAW_C },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct responder r;
        struct rnic_aeqe event;
        struct raw_frame reply;

        responder_start(&r, guest_with(10000, cases[i].policy, true, 2));
        request(&r, cases[i].request, 1, NULL, 0, &event);
        accept_with(&r, &event, 1, 1, &reply);
        g_assert_cmphex(reply.flags, ==, cases[i].reply);
        responder_end(&r);
    }
}

/* S46: more of them than the backlog, all silent; then one that speaks */
static void test_silent_clients_do_not_stay(void)
{
    struct th_guest *guest = guest_with(100, RNIC_CRC_AUTO, true, 2);
    uint16_t port;
    uint32_t listener = th_listen(guest, DEVICE, 0, 4, &port);
    struct rnic_aeqe event;
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
    th_event_wait(guest, RNIC_EV_CONNECT_REQUEST, listener, &event);
    close(peer);
    th_guest_free(guest);
}

/* ---- The device as initiator ---- */

struct initiator {
    struct th_guest *guest;
    struct th_qp *qp;
    int listener, peer;
    struct raw_frame request;
};

static void initiator_start_with(struct initiator *n, struct th_guest *guest,
                                 const struct th_connect *params)
{
    struct rnic_sockaddr local = th_sockaddr(DEVICE, 0), remote;
    uint16_t port = 0;

    n->guest = guest;
    n->qp = th_qp_new(guest, NULL);
    n->listener = raw_listen(guest, PEER, &port);
    remote = th_sockaddr(PEER, port);
    g_assert_cmpuint(th_connect(n->qp, &local, &remote, params), ==,
                     RNIC_ADMIN_OK);
    n->peer = raw_accept(n->listener);
    raw_recv_frame(n->peer, false, &n->request);
}

static void initiator_start(struct initiator *n, struct th_guest *guest)
{
    initiator_start_with(n, guest, NULL);
}

static void initiator_end(struct initiator *n)
{
    close(n->peer);
    close(n->listener);
    th_guest_free(n->guest);
}

static void reply(struct initiator *n, uint8_t flags, uint8_t rev,
                  uint16_t ird, uint16_t ord)
{
    uint8_t block[4];

    raw_block(block, ird, ord);
    raw_send_frame(n->peer, true, flags, rev, block, flags & RAW_S ? 4 : 0);
}

static void assert_reply_event(struct initiator *n, enum rnic_cm_status status,
                               struct rnic_aeqe *event)
{
    th_event_wait(n->guest, RNIC_EV_CONNECT_REPLY, n->qp->qpn, event);
    g_assert_cmpuint(GUINT16_FROM_LE(event->status), ==, status);
    g_assert_cmpuint(th_qp_state(n->qp), ==,
                     status == RNIC_CM_OK ? RNIC_QPS_RTS : RNIC_QPS_ERROR);
}

static void test_requests_of_the_device(void)
{
    static const struct {
        enum rnic_crc_policy crc;
        bool p2p;
        unsigned rev;
        uint8_t flags;
        uint16_t ird, ord;
    } cases[] = {
        { RNIC_CRC_AUTO, true, 2, RAW_S, RAW_A | 3, RAW_CW | RAW_D | 4 },
        { RNIC_CRC_ON, false, 2, RAW_S | RAW_C, 3, 4 },
        { RNIC_CRC_OFF, true, 1, 0, 0, 0 },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct th_connect params = { .ird = 3, .ord = 4, .pdata = "hello",
                                     .pdata_len = 5 };
        size_t block = cases[i].rev == 2 ? 4 : 0;
        struct initiator n;

        initiator_start_with(&n, guest_with(10000, cases[i].crc, cases[i].p2p,
                                            cases[i].rev), &params);
        g_assert_cmphex(n.request.flags, ==, cases[i].flags);
        g_assert_cmpuint(n.request.rev, ==, cases[i].rev);
        g_assert_cmphex(n.request.ird, ==, cases[i].ird);
        g_assert_cmphex(n.request.ord, ==, cases[i].ord);
        g_assert_cmpmem(n.request.pd + block, n.request.pd_len - block,
                        "hello", 5);
        initiator_end(&n);
    }
}

/* S15: one RTR, of the form that the Reply names, as the first FPDU */
static void test_rtr_is_the_first_fpdu(void)
{
    static const struct {
        uint16_t forms;
        uint8_t control;        /* of the first FPDU */
        size_t ulpdu;
    } cases[] = {
        { RAW_CW | RAW_D, 0x40, 14 },
        { RAW_CW, 0x40, 14 },
        { RAW_D, 0x41, 46 },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct initiator n;
        struct rnic_aeqe event;
        uint8_t fpdu[64];

        initiator_start(&n, guest_new());
        reply(&n, RAW_S, 2, RAW_A | 16, cases[i].forms | 16);
        assert_reply_event(&n, RNIC_CM_OK, &event);
        raw_recv(n.peer, fpdu, (2 + cases[i].ulpdu + 3) / 4 * 4 + 4);
        g_assert_cmpuint(rnic_get_be16(fpdu), ==, cases[i].ulpdu);
        g_assert_cmphex(fpdu[3], ==, cases[i].control);
        raw_silent(n.peer, 30);
        assert_no_event(n.guest);
        initiator_end(&n);
    }
}

static void test_reply_may_come_octet_by_octet(void)                /* S10 */
{
    struct initiator n;
    struct rnic_aeqe event;
    uint8_t frame[32], pd[7] = { 0, 9, 0, 9, 'o', 'k', '!' };
    size_t len = raw_frame(frame, true, RAW_S, 2, pd, sizeof(pd));

    initiator_start(&n, guest_with(10000, RNIC_CRC_AUTO, false, 2));
    for (size_t i = 0; i < len; i++) {
        g_assert_cmpuint(th_events(n.guest), ==, 0);
        raw_send(n.peer, frame + i, 1);
        th_run_for(1);
    }
    assert_reply_event(&n, RNIC_CM_OK, &event);
    g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), "ok!", 3);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, 9);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, 16);
    initiator_end(&n);
}

static void test_reply_and_fpdu_in_one_segment(void)                /* S17 */
{
    struct initiator n;
    struct rnic_aeqe event;
    struct th_buf buf;
    struct rnic_cqe cqe;
    uint8_t octets[128];
    uint8_t send[18 + 5] = { 0x41, 0x43, [13] = 1 };
    uint8_t block[4] = { 0, 4, 0, 4 };
    struct rnic_sge sge;
    size_t len;

    initiator_start(&n, guest_with(10000, RNIC_CRC_OFF, false, 2));
    buf = th_buf_new(n.guest, 64, 0, 0);
    sge = th_sge(th_reg_mr(n.guest, &buf, 0, RNIC_ACCESS_LOCAL_WRITE), 0, 64);
    th_post_recv(n.qp, 77, &sge, 1);
    memcpy(send + 18, "hello", 5);
    len = raw_frame(octets, true, RAW_S, 2, block, 4);
    len += put_fpdu(octets + len, send, sizeof(send));
    raw_send(n.peer, octets, len);
    assert_reply_event(&n, RNIC_CM_OK, &event);
    th_cq_wait(n.qp->attr.recv_cq, &cqe);
    g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
    g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, 77);
    g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, 5);
    g_assert_cmpmem(buf.ptr, 5, "hello", 5);
    initiator_end(&n);
}

static void test_rejecting_reply(void)
{
    struct initiator n;
    struct rnic_aeqe event;
    uint8_t pd[6] = { 0, 2, 0, 3, 'n', 'o' };

    initiator_start(&n, guest_new());
    raw_send_frame(n.peer, true, RAW_S | RAW_R, 2, pd, sizeof(pd));
    assert_reply_event(&n, RNIC_CM_REJECTED, &event);
    g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), "no", 2);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, 2);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, 3);
    raw_closed(n.peer, NULL);
    assert_no_event(n.guest);
    initiator_end(&n);
}

/* S44: the Reply's IRD bounds ORD, and its ORD raises IRD */
static void test_reply_values_are_taken(void)
{
    struct th_connect params = { .ird = 2, .ord = 16 };
    struct initiator n;
    struct rnic_aeqe event;

    initiator_start_with(&n, guest_with(10000, RNIC_CRC_AUTO, false, 2),
                         &params);
    reply(&n, RAW_S, 2, 3, 100);
    assert_reply_event(&n, RNIC_CM_OK, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, 3);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, 100);
    initiator_end(&n);
}

static void test_unusable_replies_are_answered_by_terminate(void)
{
    static const struct {
        uint16_t ird, ord;
        uint8_t code;
    } cases[] = {
        { 16, RAW_CW | RAW_D | 16, 7 },                             /* S41 */
        { RAW_A | RAW_B | 16, 16, 7 },                              /* S42 */
        { RAW_A | 16, RAW_CW | 200, 6 },                            /* S43 */
    };

    for (unsigned crc = 0; crc < 2; crc++) {
        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
            struct initiator n;
            struct rnic_aeqe event;
            uint8_t fpdu[28];
            size_t rest;

            initiator_start(&n, guest_with(10000, crc ? RNIC_CRC_ON :
                                           RNIC_CRC_OFF, true, 2));
            reply(&n, RAW_S, 2, cases[i].ird, cases[i].ord);
            assert_reply_event(&n, RNIC_CM_PROTOCOL, &event);
            raw_recv(n.peer, fpdu, sizeof(fpdu));
            g_assert_cmpuint(rnic_get_be16(fpdu), ==, 22);
            g_assert_cmphex(fpdu[2], ==, 0x41);
            g_assert_cmphex(fpdu[3], ==, 0x47);
            g_assert_cmphex(fpdu[20], ==, 0x20);
            g_assert_cmphex(fpdu[21], ==, cases[i].code);
            g_assert_cmphex(rnic_get_le32(fpdu + 24), ==,
                            crc ? rnic_crc32c_final(rnic_crc32c_update(
                                rnic_crc32c_init(), fpdu, 24)) : 0);
            g_assert_false(raw_closed(n.peer, &rest));
            g_assert_cmpuint(rest, ==, 0);
            assert_no_event(n.guest);
            initiator_end(&n);
        }
    }
}

static void test_bad_replies_fail_the_connect(void)
{
    static const struct {
        const char *key;
        uint8_t flags, rev;
        uint16_t pd_len;
    } cases[] = {
        { "MPA ID Req Frame", RAW_S, 2, 4 },                        /* S31 */
        { "HTTP/1.1 400 Bad", 0, 2, 0 },
        { "MPA ID Rep Frame", 0, 1, 0 },                            /* S45 */
        { "MPA ID Rep Frame", 0, 2, 0 },
        { "MPA ID Rep Frame", RAW_S, 1, 4 },
        { "MPA ID Rep Frame", RAW_S, 3, 4 },
        { "MPA ID Rep Frame", RAW_S, 2, 3 },
        { "MPA ID Rep Frame", RAW_S, 2, 513 },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        uint8_t frame[24] = { 0 };
        struct initiator n;
        struct rnic_aeqe event;
        size_t answer;

        initiator_start(&n, guest_new());
        memcpy(frame, cases[i].key, 16);
        frame[16] = cases[i].flags;
        frame[17] = cases[i].rev;
        rnic_put_be16(frame + 18, cases[i].pd_len);
        raw_send(n.peer, frame, 20 + MIN(cases[i].pd_len, 4));
        assert_reply_event(&n, RNIC_CM_PROTOCOL, &event);
        raw_closed(n.peer, &answer);
        g_assert_cmpuint(answer, ==, 0);
        assert_no_event(n.guest);
        initiator_end(&n);
    }
}

static void test_no_reply_times_out_once(void)                      /* S48 */
{
    struct initiator n;
    struct rnic_aeqe event;

    initiator_start(&n, guest_with(150, RNIC_CRC_AUTO, true, 2));
    assert_reply_event(&n, RNIC_CM_TIMEDOUT, &event);
    raw_closed(n.peer, NULL);
    th_run_for(200);
    assert_no_event(n.guest);
    initiator_end(&n);
}

static void test_peer_that_closes_instead_of_a_reply(void)
{
    for (unsigned rst = 0; rst < 2; rst++) {
        struct initiator n;
        struct rnic_aeqe event;

        initiator_start(&n, guest_new());
        raw_send(n.peer, "MPA ID Rep", 10);
        if (rst) {
            raw_abort(n.peer);
        } else {
            close(n.peer);
        }
        n.peer = -1;
        assert_reply_event(&n, RNIC_CM_RESET, &event);
        assert_no_event(n.guest);
        g_assert_cmpuint(th_stat(n.guest, RNIC_STAT_connects_failed), ==, 1);
        initiator_end(&n);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, test) g_test_add_func("/mpa-setup/" name, test)
    ADD("responder/plain", test_plain_request_gets_a_plain_reply);
    ADD("responder/enhanced", test_enhanced_request_gets_an_enhanced_reply);
    ADD("responder/block", test_block_fields_are_read_and_written);
    ADD("responder/private-data", test_private_data_of_every_length_arrives);
    ADD("responder/private-data-512",
        test_plain_private_data_may_have_512_octets);
    ADD("responder/reject", test_reject_carries_block_and_private_data);
    ADD("responder/octets", test_request_may_come_octet_by_octet);
    ADD("responder/p2p", test_peer_to_peer_reply_names_a_form);
    ADD("responder/rtr", test_rtr_write_establishes);
    ADD("responder/no-rtr", test_missing_rtr_fails_the_accept);
    ADD("responder/gone-before-rtr", test_peer_that_leaves_before_its_rtr);
    ADD("responder/bad", test_bad_requests_are_closed_without_an_answer);
    ADD("responder/two-requests", test_second_request_ends_the_connection);
    ADD("responder/half", test_half_a_request_times_out);
    ADD("responder/half-fin", test_half_a_request_and_fin);
    ADD("responder/crc", test_crc_of_the_reply);
    ADD("responder/silent", test_silent_clients_do_not_stay);
    ADD("initiator/request", test_requests_of_the_device);
    ADD("initiator/rtr", test_rtr_is_the_first_fpdu);
    ADD("initiator/octets", test_reply_may_come_octet_by_octet);
    ADD("initiator/glued", test_reply_and_fpdu_in_one_segment);
    ADD("initiator/reject", test_rejecting_reply);
    ADD("initiator/values", test_reply_values_are_taken);
    ADD("initiator/terminate", test_unusable_replies_are_answered_by_terminate);
    ADD("initiator/bad", test_bad_replies_fail_the_connect);
    ADD("initiator/timeout", test_no_reply_times_out_once);
    ADD("initiator/closed", test_peer_that_closes_instead_of_a_reply);
    return g_test_run();
}
