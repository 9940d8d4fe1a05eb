/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The MPA startup of an initiator against a peer that says exactly what it is
 * told to: RFC 5044 section 7.1, RFC 6581
 */
#include <string.h>
#include <unistd.h>
#include "cm-steps.h"
#include "raw-peer.h"
#include "wire/byteorder.h"
#include "wire/crc32c.h"

#define DEVICE "10.0.0.1"
#define PEER   "10.0.0.2"

static struct th_guest *guest_new(void)
{
    return cm_guest_with(DEVICE, 10000, RNIC_CRC_AUTO, true, 2);
}

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

static void reply(struct initiator *n, uint8_t flags, uint8_t rev, uint16_t ird,
                  uint16_t ord)
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
        struct th_connect params = {
            .ird = 3, .ord = 4, .pdata = "hello", .pdata_len = 5
        };
        size_t block = cases[i].rev == 2 ? 4 : 0;
        struct initiator n;

        initiator_start_with(&n,
                             cm_guest_with(DEVICE, 10000, cases[i].crc,
                                           cases[i].p2p, cases[i].rev),
                             &params);
        g_assert_cmphex(n.request.flags, ==, cases[i].flags);
        g_assert_cmpuint(n.request.rev, ==, cases[i].rev);
        g_assert_cmphex(n.request.ird, ==, cases[i].ird);
        g_assert_cmphex(n.request.ord, ==, cases[i].ord);
        g_assert_cmpmem(n.request.pd + block, n.request.pd_len - block, "hello",
                        5);
        initiator_end(&n);
    }
}

/* S15: one RTR, of the form that the Reply names, as the first FPDU */
static void test_rtr_is_the_first_fpdu(void)
{
    static const struct {
        uint16_t forms;
        uint8_t control; /* of the first FPDU */
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
        cm_no_events(n.guest);
        initiator_end(&n);
    }
}

static void test_reply_may_come_octet_by_octet(void) /* S10 */
{
    struct initiator n;
    struct rnic_aeqe event;
    uint8_t frame[32], pd[7] = { 0, 9, 0, 9, 'o', 'k', '!' };
    size_t len = raw_frame(frame, true, RAW_S, 2, pd, sizeof(pd));

    initiator_start(&n, cm_guest_with(DEVICE, 10000, RNIC_CRC_AUTO, false, 2));
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

static void test_reply_and_fpdu_in_one_segment(void) /* S17 */
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

    initiator_start(&n, cm_guest_with(DEVICE, 10000, RNIC_CRC_OFF, false, 2));
    buf = th_buf_new(n.guest, 64, 0, 0);
    sge = th_sge(th_reg_mr(n.guest, &buf, 0, RNIC_ACCESS_LOCAL_WRITE), 0, 64);
    th_post_recv(n.qp, 77, &sge, 1);
    memcpy(send + 18, "hello", 5);
    len = raw_frame(octets, true, RAW_S, 2, block, 4);
    len += raw_fpdu(octets + len, send, sizeof(send));
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
    cm_no_events(n.guest);
    initiator_end(&n);
}

/* S44: the Reply's IRD bounds ORD, and its ORD raises IRD */
static void test_reply_values_are_taken(void)
{
    struct th_connect params = { .ird = 2, .ord = 16 };
    struct initiator n;
    struct rnic_aeqe event;

    initiator_start_with(
        &n, cm_guest_with(DEVICE, 10000, RNIC_CRC_AUTO, false, 2), &params);
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
        { 16, RAW_CW | RAW_D | 16, 7 },  /* S41 */
        { RAW_A | RAW_B | 16, 16, 7 },   /* S42 */
        { RAW_A | 16, RAW_CW | 200, 6 }, /* S43 */
    };

    for (unsigned crc = 0; crc < 2; crc++) {
        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
            struct initiator n;
            struct rnic_aeqe event;
            uint8_t fpdu[28];
            size_t rest;

            initiator_start(&n, cm_guest_with(DEVICE, 10000,
                                              crc ? RNIC_CRC_ON : RNIC_CRC_OFF,
                                              true, 2));
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
                                      rnic_crc32c_init(), fpdu, 24))
                                : 0);
            g_assert_false(raw_closed(n.peer, &rest));
            g_assert_cmpuint(rest, ==, 0);
            cm_no_events(n.guest);
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
        { "MPA ID Req Frame", RAW_S, 2, 4 }, /* S31 */
        { "HTTP/1.1 400 Bad", 0, 2, 0 },
        { "MPA ID Rep Frame", 0, 1, 0 }, /* S45 */
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
        cm_no_events(n.guest);
        initiator_end(&n);
    }
}

static void test_no_reply_times_out_once(void) /* S48 */
{
    struct initiator n;
    struct rnic_aeqe event;

    initiator_start(&n, cm_guest_with(DEVICE, 150, RNIC_CRC_AUTO, true, 2));
    assert_reply_event(&n, RNIC_CM_TIMEDOUT, &event);
    raw_closed(n.peer, NULL);
    th_run_for(200);
    cm_no_events(n.guest);
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
        cm_no_events(n.guest);
        g_assert_cmpuint(th_stat(n.guest, RNIC_STAT_connects_failed), ==, 1);
        initiator_end(&n);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, test) g_test_add_func("/mpa-initiator/" name, test)
    ADD("request", test_requests_of_the_device);
    ADD("rtr", test_rtr_is_the_first_fpdu);
    ADD("octets", test_reply_may_come_octet_by_octet);
    ADD("glued", test_reply_and_fpdu_in_one_segment);
    ADD("reject", test_rejecting_reply);
    ADD("values", test_reply_values_are_taken);
    ADD("terminate", test_unusable_replies_are_answered_by_terminate);
    ADD("bad", test_bad_replies_fail_the_connect);
    ADD("timeout", test_no_reply_times_out_once);
    ADD("closed", test_peer_that_closes_instead_of_a_reply);
    return g_test_run();
}
