/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The MPA startup of a responder with valid peers: RFC 5044 section 7.1, RFC
 * 6581. See test-mpa-refused.c for the others.
 */
#include "mpa-steps.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The connection carries data both ways, the peer's first; and ends */
static void works(struct iw_peer *p)
{
    iw_post_recv(p, 1, 100, 50);
    iw_allow(p, 100, 50);
    iw_send_message(p, 1, 50);
    iw_wait_recv(p, 1, RNIC_WC_SUCCESS, 50);
    th_check_filled(p->buf.ptr + 100, 50, 1);
    mpa_post_send(p);
    mpa_recv_send(p, 1);
    iw_expect_harmless(p, 2);
    iw_free(p);
}

/* ---- Plain Requests ---- */

static const struct plain {
    const char *name;
    uint8_t flags, rev;
    enum rnic_crc_policy crc;
    uint8_t reply_flags;
} plain[] = {
    { "S01/rev-1", 0, 1, RNIC_CRC_AUTO, 0 },
    { "S01/rev-1-crc-on", 0, 1, RNIC_CRC_ON, RAW_C },
    { "S02/crc", RAW_C, 1, RNIC_CRC_AUTO, RAW_C },
    { "S02/crc-on", RAW_C, 1, RNIC_CRC_ON, RAW_C },
    { "S02/crc-off", RAW_C, 1, RNIC_CRC_OFF, RAW_C },
    { "S03/crc-of-the-reply", 0, 2, RNIC_CRC_ON, RAW_C },
    { "S04/no-crc", 0, 1, RNIC_CRC_OFF, 0 },
    { "S06/rev-2", 0, 2, RNIC_CRC_AUTO, 0 },
    { "S20/reserved-flags", 0x0f, 1, RNIC_CRC_AUTO, 0 },
    { "S20/reserved-flags-rev-2", 0x0f, 2, RNIC_CRC_AUTO, 0 },
    { "S21/reject-flag", RAW_R, 1, RNIC_CRC_AUTO, 0 },
    { "S23/rev-1-with-s", RAW_S, 1, RNIC_CRC_AUTO, 0 },
};

static void test_plain_request_gets_a_plain_reply(gconstpointer data)
{
    const struct plain *row = data;
    struct mpa_setup setup = { .crc = row->crc };
    struct th_connect params = { .ird = 3, .ord = 4 };
    struct rnic_aeqe event;
    struct raw_frame reply;
    struct iw_peer p;

    mpa_listen(&p, &setup);
    mpa_connect(&p);
    mpa_request(&p, row->flags, row->rev, "hello", 5, &event);
    g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), "hello", 5);
    mpa_accept(&p, &event, &params, &reply);
    g_assert_cmphex(reply.flags, ==, row->reply_flags);
    g_assert_cmpuint(reply.rev, ==, row->rev);
    g_assert_cmpuint(reply.pd_len, ==, 0);
    mpa_established(&p, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, 3);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, 4);
    works(&p);
}

/* Also of a peer that did not ask for it */
static void test_crc_of_the_reply_is_checked(void)
{
    struct mpa_setup setup = { .crc = RNIC_CRC_ON };
    struct rnic_aeqe event;
    struct raw_frame reply;
    struct iw_peer p;

    mpa_listen(&p, &setup);
    iw_post_recv(&p, 1, 100, 50);
    mpa_connect(&p);
    mpa_request(&p, 0, 1, NULL, 0, &event);
    mpa_accept(&p, &event, NULL, &reply);
    mpa_established(&p, &event);
    mpa_crc_is_checked(&p);
    iw_free(&p);
}

/* The peer asks for markers, for what the device sends and for nothing else */
static void test_markers_in_one_direction(gconstpointer crc)
{
    struct mpa_setup setup = { .crc = GPOINTER_TO_INT(crc) ? RNIC_CRC_ON
                                                           : RNIC_CRC_OFF };
    uint8_t octets[4 + 32];
    struct rnic_aeqe event;
    struct raw_frame reply;
    struct iw_peer p;

    mpa_listen(&p, &setup);
    mpa_connect(&p);
    mpa_request(&p, RAW_M, 1, NULL, 0, &event);
    mpa_accept(&p, &event, NULL, &reply);
    g_assert_cmphex(reply.flags & RAW_M, ==, 0);
    mpa_established(&p, &event);
    iw_open_gate(&p);
    mpa_post_send(&p);
    raw_recv(p.fd, octets, sizeof(octets));
    g_assert_cmpmem(octets, 6, "\0\0\0\0\0\x1a", 6);
    iw_wait_send(&p, 0x5e4d, RNIC_WC_SUCCESS);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

static void test_plain_private_data_may_have_512_octets(void)
{
    struct rnic_aeqe event;
    struct raw_frame reply;
    struct iw_peer p;
    uint8_t pd[512];

    mpa_listen(&p, NULL);
    mpa_connect(&p);
    th_fill(pd, sizeof(pd), 3);
    mpa_request(&p, 0, 1, pd, sizeof(pd), &event);
    g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), pd,
                    sizeof(pd));
    mpa_accept(&p, &event, NULL, &reply);
    mpa_established(&p, &event);
    works(&p);
}

/* ---- Enhanced ones ---- */

static const struct block {
    const char *name;
    uint16_t ird, ord; /* of the Request, as on the wire */
    uint16_t event_ird, event_ord;
    uint16_t own_ird, own_ord; /* of ACCEPT */
    uint16_t reply_ird, reply_ord;
    uint16_t up_ird, up_ord; /* of ESTABLISHED */
} blocks[] = {
    { "S05/4-and-4", 4, 4, 4, 4, 16, 16, 16, 4, 16, 4 },
    /* IRD raised to the peer's ORD, ORD lowered to its IRD */
    { "S05/raised-and-lowered", 4, 5, 4, 5, 1, 9, 5, 4, 5, 4 },
    { "S05/more-than-the-device-has", 8, 200, 8, 200, 16, 16, 128, 8, 128, 8 },
    { "S18/not-negotiated", 0x3fff, 0x3fff, 128, 128, 16, 16, 0x3fff, 0x3fff,
      16, 16 },
    { "S18/ird-not-negotiated", 0x3fff, 4, 128, 4, 2, 16, 4, 0x3fff, 4, 16 },
    { "S18/ord-not-negotiated", 4, 0x3fff, 4, 128, 2, 16, 0x3fff, 4, 2, 4 },
    { "S19/none", 0, 0, 0, 0, 16, 16, 16, 0, 16, 0 },
    { "S40/forms-without-peer-to-peer", 4 | RAW_B, 4 | RAW_CW | RAW_D, 4, 4, 16,
      16, 16, 4, 16, 4 },
};

static void test_block_is_read_and_answered(gconstpointer data)
{
    const struct block *row = data;
    struct th_connect params = { .ird = row->own_ird, .ord = row->own_ord };
    struct rnic_aeqe event;
    struct raw_frame reply;
    struct iw_peer p;
    uint8_t block[4];

    mpa_listen(&p, NULL);
    mpa_connect(&p);
    raw_block(block, row->ird, row->ord);
    mpa_request(&p, RAW_S, 2, block, 4, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, row->event_ird);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, row->event_ord);
    g_assert_cmpuint(GUINT16_FROM_LE(event.pdata_len), ==, 0);
    mpa_accept(&p, &event, &params, &reply);
    g_assert_cmphex(reply.flags, ==, RAW_S);
    g_assert_cmpuint(reply.rev, ==, 2);
    g_assert_cmpuint(reply.pd_len, ==, 4);
    /* With A to D clear */
    g_assert_cmphex(reply.ird, ==, row->reply_ird);
    g_assert_cmphex(reply.ord, ==, row->reply_ord);
    mpa_established(&p, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, row->up_ird);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, row->up_ord);
    works(&p);
}

static void test_never_a_read_with_ord_0(void)
{
    uint8_t block[4] = { 0 }, ulpdu[64];
    struct rnic_aeqe event;
    struct raw_frame reply;
    struct iw_peer p;

    mpa_listen(&p, NULL);
    mpa_connect(&p);
    mpa_request(&p, RAW_S, 2, block, 4, &event);
    mpa_accept(&p, &event, NULL, &reply);
    mpa_established(&p, &event);
    iw_open_gate(&p);
    iw_post_read(&p, 1, 0, 100);
    /* An error of the consumer's, and nothing but that is told */
    g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 22);
    g_assert_cmphex(ulpdu[1], ==, IW_TERM);
    p.oracle.send_status = RNIC_WC_LOC_QP_OP_ERR;
    iw_expect_error(&p);
    iw_check_after(&p);
    iw_free(&p);
}

static void private_data_of(uint16_t len)
{
    struct th_connect params = { .ird = 1, .ord = 1, .pdata_len = len };
    uint8_t pd[512], answer[512];
    struct rnic_aeqe event;
    struct raw_frame reply;
    struct iw_peer p;

    mpa_listen(&p, NULL);
    mpa_connect(&p);
    raw_block(pd, 1, 1);
    th_fill(pd + 4, len, 7);
    mpa_request(&p, RAW_S, 2, pd, 4 + len, &event);
    g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), pd + 4, len);
    th_fill(answer, len, 8);
    params.pdata = answer;
    mpa_accept(&p, &event, &params, &reply);
    g_assert_cmpmem(reply.pd + 4, reply.pd_len - 4, answer, len);
    mpa_established(&p, &event);
    works(&p);
}

static void test_private_data_of_every_length(void)
{
    static const uint16_t lens[] = { 0, 1, 3, 5, 255, 508 };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(lens); i++) {
        private_data_of(lens[i]);
    }
}

static void test_request_in_single_octets(void)
{
    static const uint8_t pd[9] = { 0, 4, 0, 4, 'h', 'e', 'l', 'l', 'o' };
    struct rnic_aeqe event;
    struct raw_frame reply;
    struct iw_peer p;
    uint8_t frame[20 + 9];
    size_t len = raw_frame(frame, false, RAW_S, 2, pd, sizeof(pd));

    mpa_listen(&p, NULL);
    mpa_connect(&p);
    raw_send_singly(p.fd, frame, len - 1);
    mpa_silence(&p);
    raw_send_singly(p.fd, frame + len - 1, 1);
    th_event_wait(p.guest, RNIC_EV_CONNECT_REQUEST, p.listener, &event);
    g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), "hello", 5);
    mpa_accept(&p, &event, NULL, &reply);
    mpa_established(&p, &event);
    works(&p);
}

static void rejected(uint8_t flags, uint8_t rev, uint16_t block_len)
{
    struct th_connect params = { .pdata = "go away", .pdata_len = 7 };
    struct rnic_aeqe event;
    struct raw_frame reply;
    struct iw_peer p;
    uint8_t block[4];
    size_t rest;

    mpa_listen(&p, NULL);
    mpa_connect(&p);
    raw_block(block, 1, 1);
    mpa_request(&p, flags, rev, block, block_len, &event);
    g_assert_cmpuint(
        th_reject(p.guest, GUINT32_FROM_LE(event.conn_id), &params), ==,
        RNIC_ADMIN_OK);
    raw_recv_frame(p.fd, true, &reply);
    g_assert_cmphex(reply.flags, ==, RAW_R | flags);
    g_assert_cmpuint(reply.rev, ==, rev);
    g_assert_cmpmem(reply.pd + block_len, reply.pd_len - block_len, "go away",
                    7);
    /* FIN, so that it arrives; and behind the peer's: test-cm-reject */
    shutdown(p.fd, SHUT_WR);
    g_assert_false(raw_closed(p.fd, &rest));
    g_assert_cmpuint(rest, ==, 0);
    g_assert_cmpuint(th_events(p.guest), ==, 0);
    g_assert_cmpuint(th_stat(p.guest, RNIC_STAT_rejects), ==, 1);
    iw_check_after(&p);
    iw_free(&p);
}

static void test_reject_of_an_enhanced_request(void)
{
    rejected(RAW_S, 2, 4);
}

static void test_reject_of_a_plain_request(void)
{
    rejected(0, 1, 0);
}

/* ---- Ready-to-receive ---- */

static const struct forms {
    const char *name;
    uint16_t b, c_d, reply_b, reply_c_d;
} forms[] = {
    { "S11/write-and-read", 0, RAW_CW | RAW_D, 0, RAW_CW | RAW_D },
    { "S11/write", 0, RAW_CW, 0, RAW_CW },
    { "S11/read", 0, RAW_D, 0, RAW_D },
    { "S11/send-and-read", RAW_B, RAW_D, 0, RAW_D },
    { "S14/send", RAW_B, 0, 0, RAW_CW | RAW_D },
};

static void start_p2p(struct iw_peer *p, uint16_t b, uint16_t c_d,
                      struct raw_frame *reply)
{
    struct rnic_aeqe event;
    uint8_t block[4];

    mpa_listen(p, NULL);
    mpa_connect(p);
    raw_block(block, RAW_A | b | 4, c_d | 4);
    mpa_request(p, RAW_S, 2, block, 4, &event);
    mpa_accept(p, &event, NULL, reply);
}

static void test_peer_to_peer_reply_names_a_form(gconstpointer data)
{
    const struct forms *row = data;
    struct rnic_aeqe event;
    struct raw_frame reply;
    struct iw_peer p;

    start_p2p(&p, row->b, row->c_d, &reply);
    g_assert_cmphex(reply.ird & 0xc000, ==, RAW_A | row->reply_b);
    g_assert_cmphex(reply.ord & 0xc000, ==, row->reply_c_d);
    /* It waits for the ready-to-receive message */
    mpa_silence(&p);
    iw_open_gate(&p);
    mpa_established(&p, &event);
    works(&p);
}

/* What opens the way is no message of the consumer's */
static void rtr_opens(struct iw_peer *p, const uint8_t *rtr, size_t len)
{
    bool sent = false;
    uint8_t answer[64];
    struct rnic_aeqe event;
    struct rnic_cqe cqe;

    mpa_post_send(p);
    mpa_silence(p);
    iw_send(p, rtr, len);
    mpa_established(p, &event);
    if (rtr[1] == IW_READ_REQ) {
        /* Nothing orders the Send behind the response */
        if (mpa_next_is(p, IW_SEND)) {
            mpa_recv_send(p, 1);
            sent = true;
        }
        g_assert_cmpuint(iw_recv(p, answer), ==, 14);
        g_assert_cmphex(answer[0], ==, IW_TAGGED);
        g_assert_cmphex(answer[1], ==, IW_READ_RSP);
        /* STag and TO of the sink, as they were */
        g_assert_cmpmem(answer + 2, 12, rtr + 18, 12);
    }
    if (!sent) {
        mpa_recv_send(p, 1);
    }
    g_assert_false(th_cq_poll(p->qp->attr.recv_cq, &cqe));
    g_assert_cmpuint(th_events(p->guest), ==, 0);
    g_assert_cmpuint(th_stat(p->guest, RNIC_STAT_accepts), ==, 1);
    iw_expect_harmless(p, 1);
    iw_free(p);
}

static void test_rtr_by_write(void)
{
    uint8_t ulpdu[64];
    struct raw_frame reply;
    struct iw_peer p;

    start_p2p(&p, 0, RAW_CW | RAW_D, &reply);
    rtr_opens(
        &p, ulpdu,
        iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, 0xdeadbeef, UINT64_MAX, NULL, 0));
}

static void test_rtr_by_read(void)
{
    uint8_t ulpdu[64];
    struct raw_frame reply;
    struct iw_peer p;

    start_p2p(&p, 0, RAW_D, &reply);
    rtr_opens(&p, ulpdu,
              iw_read_request(ulpdu, 1, 0x11223344, 0x5566778899aabbcc, 0,
                              0xdeadbeef, UINT64_MAX));
}

/* RFC 5044 section 7.1.2, without peer-to-peer mode */
static void test_nothing_before_the_first_fpdu(gconstpointer crc)
{
    struct mpa_setup setup = { .crc = GPOINTER_TO_INT(crc) ? RNIC_CRC_ON
                                                           : RNIC_CRC_OFF };
    struct rnic_aeqe event;
    struct raw_frame reply;
    struct iw_peer p;

    mpa_listen(&p, &setup);
    mpa_connect(&p);
    mpa_request(&p, 0, 1, NULL, 0, &event);
    mpa_accept(&p, &event, NULL, &reply);
    mpa_post_send(&p);
    mpa_established(&p, &event);
    raw_silent(p.fd, 100);
    g_assert_true(th_qp_gated(p.qp));
    iw_open_gate(&p);
    mpa_recv_send(&p, 1);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

static void add_rows(void)
{
    unsigned i;

#define ADD(row, test)                                                         \
    do {                                                                       \
        g_autofree char *name = g_strdup_printf("/wire/%s", (row)->name);      \
        g_test_add_data_func(name, row, test);                                 \
    } while (0)
    for (i = 0; i < G_N_ELEMENTS(plain); i++) {
        ADD(&plain[i], test_plain_request_gets_a_plain_reply);
    }
    for (i = 0; i < G_N_ELEMENTS(blocks); i++) {
        ADD(&blocks[i], test_block_is_read_and_answered);
    }
    for (i = 0; i < G_N_ELEMENTS(forms); i++) {
        ADD(&forms[i], test_peer_to_peer_reply_names_a_form);
    }
#undef ADD
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_rows();
#define ADD(name, test) g_test_add_func("/wire/" name, test)
    ADD("S03/and-checked", test_crc_of_the_reply_is_checked);
    ADD("S07/private-data", test_private_data_of_every_length);
    ADD("S08/reject-enhanced", test_reject_of_an_enhanced_request);
    ADD("S08/reject-plain", test_reject_of_a_plain_request);
    ADD("S09/single-octets", test_request_in_single_octets);
    ADD("S12/rtr-by-write", test_rtr_by_write);
    ADD("S13/rtr-by-read", test_rtr_by_read);
    iw_add("S16/nothing-before-the-first-fpdu",
           test_nothing_before_the_first_fpdu);
    ADD("S19/never-a-read", test_never_a_read_with_ord_0);
    iw_add("S22/markers-in-one-direction", test_markers_in_one_direction);
    ADD("S36/private-data-512", test_plain_private_data_may_have_512_octets);
#undef ADD
    return g_test_run();
}
