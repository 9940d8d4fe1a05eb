/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The MPA startup of an initiator, with valid and with hostile responders:
 * RFC 5044 section 7.1, RFC 6581
 */
#include "mpa-steps.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int start_with(struct iw_peer *p, const struct mpa_setup *setup,
                      const struct th_connect *params)
{
    struct raw_frame request;

    mpa_listen(p, setup);
    iw_post_recv(p, 1, 100, 50);
    iw_allow(p, 100, 50);
    return mpa_initiate(p, params, &request);
}

/* Peer-to-peer mode or not, CRC auto */
static void start(struct iw_peer *p, bool p2p)
{
    struct mpa_setup setup = { .crc = RNIC_CRC_AUTO, .no_p2p = !p2p };

    close(start_with(p, &setup, NULL));
}

/* The connection carries data both ways, and ends */
static void works(struct iw_peer *p)
{
    iw_send_message(p, 1, 50);
    iw_wait_recv(p, 1, RNIC_WC_SUCCESS, 50);
    th_check_filled(p->buf.ptr + 100, 50, 1);
    mpa_post_send(p);
    mpa_recv_send(p, 1);
    iw_expect_harmless(p, 2);
    iw_free(p);
}

/* CONNECT_REPLY said that it failed; the peer sees the end, and @octets before
 * it; nothing else is told */
static void expect_failed(struct iw_peer *p, size_t octets)
{
    size_t rest = 0;

    if (p->fd >= 0) {
        raw_closed(p->fd, &rest);
    }
    g_assert_cmpuint(rest, ==, octets);
    th_run_for(5);
    g_assert_cmpuint(th_events(p->guest), ==, 0);
    g_assert_cmpuint(th_stat(p->guest, RNIC_STAT_connects_failed), ==, 1);
    iw_check_after(p);
    iw_free(p);
}

/* ---- Requests ---- */

static const struct request {
    const char *name;
    struct mpa_setup setup;
    uint8_t flags;
    uint16_t ird, ord;
} requests[] = {
    { "/mpa-initiator/request/p2p",
      { .crc = RNIC_CRC_AUTO },
      RAW_S,
      RAW_A | 3,
      RAW_CW | RAW_D | 4 },
    { "/mpa-initiator/request/crc",
      { .crc = RNIC_CRC_ON, .no_p2p = true },
      RAW_S | RAW_C,
      3,
      4 },
    { "/mpa-initiator/request/rev-1",
      { .crc = RNIC_CRC_OFF, .rev = 1 },
      0,
      0,
      0 },
};

static void test_request_of_the_device(gconstpointer data)
{
    const struct request *row = data;
    struct th_connect params = {
        .ird = 3, .ord = 4, .pdata = "hello", .pdata_len = 5
    };
    size_t block = row->flags & RAW_S ? 4 : 0;
    struct rnic_aeqe event;
    struct raw_frame request;
    struct iw_peer p;

    mpa_listen(&p, &row->setup);
    close(mpa_initiate(&p, &params, &request));
    g_assert_cmphex(request.flags, ==, row->flags);
    g_assert_cmpuint(request.rev, ==, block ? 2 : 1);
    g_assert_cmphex(request.ird, ==, row->ird);
    g_assert_cmphex(request.ord, ==, row->ord);
    g_assert_cmpmem(request.pd + block, request.pd_len - block, "hello", 5);
    close(p.fd);
    p.fd = -1;
    mpa_reply_event(&p, RNIC_CM_RESET, &event);
    expect_failed(&p, 0);
}

/* ---- Replies that are taken ---- */

static void test_reply_in_single_octets(void)
{
    static const uint8_t pd[7] = { 0, 9, 0, 9, 'o', 'k', '!' };
    struct rnic_aeqe event;
    struct iw_peer p;
    uint8_t frame[32];
    size_t len = raw_frame(frame, true, RAW_S, 2, pd, sizeof(pd));

    start(&p, false);
    raw_send_singly(p.fd, frame, len - 1);
    mpa_silence(&p);
    raw_send_singly(p.fd, frame + len - 1, 1);
    mpa_reply_event(&p, RNIC_CM_OK, &event);
    g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), "ok!", 3);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, 9);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, 16);
    works(&p);
}

static void test_private_data_of_every_length(void)
{
    static const uint16_t lens[] = { 0, 1, 3, 5, 255, 508 };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(lens); i++) {
        struct rnic_aeqe event;
        struct iw_peer p;
        uint8_t pd[512];

        start(&p, false);
        raw_block(pd, 4, 4);
        th_fill(pd + 4, lens[i], 9);
        raw_send_frame(p.fd, true, RAW_S, 2, pd, 4 + lens[i]);
        mpa_reply_event(&p, RNIC_CM_OK, &event);
        g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), pd + 4,
                        lens[i]);
        works(&p);
    }
}

static void test_plain_private_data_may_have_512_octets(void)
{
    struct mpa_setup setup = { .crc = RNIC_CRC_AUTO, .rev = 1 };
    struct rnic_aeqe event;
    struct iw_peer p;
    uint8_t pd[512];

    close(start_with(&p, &setup, NULL));
    th_fill(pd, sizeof(pd), 9);
    raw_send_frame(p.fd, true, 0, 1, pd, sizeof(pd));
    mpa_reply_event(&p, RNIC_CM_OK, &event);
    g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), pd,
                    sizeof(pd));
    works(&p);
}

/* CRC is used if either frame asks for it */
static const struct crcs {
    const char *name;
    enum rnic_crc_policy policy;
    bool reply, used;
} crcs[] = {
    { "S02/initiator-and-reply", RNIC_CRC_ON, true, true },
    { "S02/initiator-alone", RNIC_CRC_ON, false, true },
    { "S03/reply-alone", RNIC_CRC_OFF, true, true },
    { "S04/neither", RNIC_CRC_OFF, false, false },
};

static void test_crc_of_either_frame(gconstpointer data)
{
    const struct crcs *row = data;
    struct mpa_setup setup = { .crc = row->policy, .no_p2p = true };
    struct rnic_aeqe event;
    struct iw_peer p;

    close(start_with(&p, &setup, NULL));
    mpa_reply(&p, RAW_S | (row->reply ? RAW_C : 0), 2, 4, 4);
    mpa_reply_event(&p, RNIC_CM_OK, &event);
    g_assert_cmpuint(p.crc, ==, row->used);
    works(&p);
}

/* Of one frame alone */
static void test_crc_is_checked(void)
{
    unsigned own;

    for (own = 0; own < 2; own++) {
        struct mpa_setup setup = { .crc = own ? RNIC_CRC_ON : RNIC_CRC_OFF,
                                   .no_p2p = true };
        struct rnic_aeqe event;
        struct iw_peer p;

        close(start_with(&p, &setup, NULL));
        mpa_reply(&p, RAW_S | (own ? 0 : RAW_C), 2, 4, 4);
        mpa_reply_event(&p, RNIC_CM_OK, &event);
        mpa_crc_is_checked(&p);
        iw_free(&p);
    }
}

/* One RTR, of the form that the Reply names, as the first FPDU; the Send that
 * was posted before it comes behind it */
static const struct rtr {
    const char *name;
    uint16_t forms;
    uint8_t ddp, rdmap;
    size_t ulpdu;
} rtrs[] = {
    { "S15/write-and-read", RAW_CW | RAW_D, IW_TAGGED, IW_WRITE, 14 },
    { "S15/write", RAW_CW, IW_TAGGED, IW_WRITE, 14 },
    { "S15/read", RAW_D, IW_UNTAGGED, IW_READ_REQ, 46 },
};

static void test_rtr_is_the_first_fpdu(gconstpointer data)
{
    const struct rtr *row = data;
    struct rnic_aeqe event;
    struct iw_peer p;
    uint8_t ulpdu[64];

    start(&p, true);
    mpa_post_send(&p);
    mpa_silence(&p);
    mpa_reply(&p, RAW_S, 2, RAW_A | 16, row->forms | 16);
    mpa_reply_event(&p, RNIC_CM_OK, &event);
    g_assert_cmpuint(iw_recv(&p, ulpdu), ==, row->ulpdu);
    g_assert_cmphex(ulpdu[0], ==, row->ddp);
    g_assert_cmphex(ulpdu[1], ==, row->rdmap);
    if (row->rdmap == IW_WRITE) {
        /* Some hardware takes no STag of 0 */
        g_assert_cmpmem(ulpdu + 2, 4, "\0\0\0\1", 4);
    } else {
        uint8_t response[14];

        g_assert_cmpmem(ulpdu + 6, 12, "\0\0\0\1\0\0\0\1\0\0\0\0", 12);
        g_assert_cmpmem(ulpdu + 30, 4, "\0\0\0\0", 4); /* of size 0 */
        iw_tagged(response, IW_TAGGED, IW_READ_RSP, 0, 0, NULL, 0);
        memcpy(response + 2, ulpdu + 18, 12);
        iw_send(&p, response, sizeof(response));
    }
    mpa_recv_send(&p, 1);
    mpa_silence(&p);
    iw_send_message(&p, 1, 50);
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 50);
    iw_expect_harmless(&p, 2);
    iw_free(&p);
}

static void test_reply_and_fpdu_in_one_segment(gconstpointer crc)
{
    struct mpa_setup setup = { .crc = GPOINTER_TO_INT(crc) ? RNIC_CRC_ON
                                                           : RNIC_CRC_OFF,
                               .no_p2p = true };
    uint8_t octets[256], ulpdu[64], block[4] = { 0, 4, 0, 4 };
    struct rnic_aeqe event;
    struct iw_peer p;
    size_t len;

    close(start_with(&p, &setup, NULL));
    len = raw_frame(octets, true, RAW_S | (p.crc ? RAW_C : 0), 2, block, 4);
    len += iw_fpdu(
        &p, octets + len, ulpdu,
        iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, 1, 0, "hello", 5));
    /* And a part of another one */
    memcpy(octets + len, "\0", 1);
    raw_send_whole(p.fd, octets, len + 1);
    mpa_reply_event(&p, RNIC_CM_OK, &event);
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 5);
    g_assert_cmpmem(p.buf.ptr + 100, 5, "hello", 5);
    len = iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, 2, 0, "again", 5);
    iw_post_recv(&p, 2, 100, 50);
    len = iw_fpdu(&p, octets, ulpdu, len);
    raw_send(p.fd, octets + 1, len - 1);
    iw_wait_recv(&p, 2, RNIC_WC_SUCCESS, 5);
    g_assert_cmpmem(p.buf.ptr + 100, 5, "again", 5);
    iw_expect_harmless(&p, 3);
    iw_free(&p);
}

/* The Reply's IRD bounds ORD, and its ORD raises IRD */
static void test_reply_values_are_taken_and_obeyed(void)
{
    struct mpa_setup setup = { .crc = RNIC_CRC_AUTO, .no_p2p = true };
    struct th_connect params = { .ird = 2, .ord = 16 };
    uint8_t ulpdu[64], response[14 + 10] = { 0 };
    struct rnic_aeqe event;
    struct iw_peer p;
    unsigned i;

    close(start_with(&p, &setup, &params));
    iw_allow(&p, 0, 10);
    mpa_reply(&p, RAW_S, 2, 3, 100);
    mpa_reply_event(&p, RNIC_CM_OK, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, 3);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, 100);
    for (i = 0; i < 5; i++) {
        iw_post_read(&p, i, 0, 10);
    }
    for (i = 0; i < 3; i++) {
        g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 46);
        g_assert_cmphex(ulpdu[1], ==, IW_READ_REQ);
    }
    raw_silent(p.fd, 30);
    for (i = 0; i < 5; i++) {
        iw_tagged(response, IW_TAGGED, IW_READ_RSP, p.stag, PEER_IOVA,
                  response + 14, 10);
        iw_send(&p, response, sizeof(response));
        iw_wait_send(&p, i, RNIC_WC_SUCCESS);
        if (i < 2) {
            g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 46);
        }
    }
    works(&p);
}

/* ---- Replies that end it ---- */

static void test_rejecting_reply(void)
{
    uint8_t pd[6] = { 0, 2, 0, 3, 'n', 'o' };
    struct rnic_aeqe event;
    struct iw_peer p;

    start(&p, true);
    raw_send_frame(p.fd, true, RAW_S | RAW_R, 2, pd, sizeof(pd));
    mpa_reply_event(&p, RNIC_CM_REJECTED, &event);
    g_assert_cmpmem(event.pdata, GUINT16_FROM_LE(event.pdata_len), "no", 2);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, 2);
    g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, 3);
    expect_failed(&p, 0);
}

static const struct unusable {
    const char *name;
    uint16_t ird, ord;
    uint8_t code;
} unusable[] = {
    { "S41/not-peer-to-peer", 16, 16, 7 },
    { "S41/not-peer-to-peer-with-forms", 16, RAW_CW | RAW_D | 16, 7 },
    { "S42/form-that-the-device-lacks", RAW_A | RAW_B | 16, 16, 7 },
    { "S42/no-form", RAW_A | 16, 16, 7 },
    { "S43/ord-of-200", RAW_A | 16, RAW_CW | 200, 6 },
    { "S43/ord-of-129", RAW_A | 16, RAW_CW | 129, 6 },
};

/* With and without CRC; the Terminate is the first FPDU */
static void test_unusable_reply_is_answered_by_a_terminate(gconstpointer data)
{
    const struct unusable *row = data;
    unsigned crc;

    for (crc = 0; crc < 2; crc++) {
        struct mpa_setup setup = { .crc = crc ? RNIC_CRC_ON : RNIC_CRC_OFF };
        uint8_t ulpdu[64], expected[22];
        struct rnic_aeqe event;
        struct iw_peer p;

        close(start_with(&p, &setup, NULL));
        mpa_reply(&p, RAW_S, 2, row->ird, row->ord);
        mpa_reply_event(&p, RNIC_CM_PROTOCOL, &event);
        g_assert_cmpuint(iw_recv(&p, ulpdu), ==, sizeof(expected));
        iw_untagged(expected, IW_UNTAGGED, IW_TERM, 0, 2, 1, 0, "\x20\0\0\0",
                    4);
        expected[19] = row->code;
        g_assert_cmpmem(ulpdu, sizeof(expected), expected, sizeof(expected));
        g_assert_cmpuint(th_stat(p.guest, RNIC_STAT_term_sent), ==, 1);
        expect_failed(&p, 0);
    }
}

#define REP "MPA ID Rep Frame"

static const struct bad {
    const char *name;
    const char *key;
    uint8_t flags, rev;
    uint16_t pd_len;
    size_t send;
} bad[] = {
    { "S30/http-to-an-initiator", "HTTP/1.1 400 Bad", 0, 2, 0, 20 },
    { "S31/request-key-to-an-initiator", "MPA ID Req Frame", RAW_S, 2, 4, 24 },
    { "S32/one-letter-to-an-initiator", "MPA ID Rep FramE", RAW_S, 2, 4, 24 },
    { "S33/rev-3-to-an-initiator", REP, RAW_S, 3, 4, 24 },
    { "S33/rev-255-to-an-initiator", REP, RAW_S, 255, 4, 24 },
    { "S34/rev-0-to-an-initiator", REP, 0, 0, 0, 20 },
    { "S35/pd-length-513-to-an-initiator", REP, RAW_S, 2, 513, 24 },
    { "S35/pd-length-65535-to-an-initiator", REP, RAW_S, 2, 65535, 24 },
    { "S39/block-of-0-to-an-initiator", REP, RAW_S, 2, 0, 20 },
    { "S39/block-of-3-to-an-initiator", REP, RAW_S, 2, 3, 23 },
    { "S45/plain-rev-1", REP, 0, 1, 0, 20 },
    { "S45/plain-rev-2", REP, 0, 2, 0, 20 },
    { "S45/s-with-rev-1", REP, RAW_S, 1, 4, 24 },
};

static void test_bad_reply_fails_the_connect(gconstpointer data)
{
    const struct bad *row = data;
    struct mpa_setup setup = { .crc = RNIC_CRC_AUTO };
    uint8_t frame[32] = { 0 };
    struct rnic_aeqe event;
    struct iw_peer p;
    int listener;

    listener = start_with(&p, &setup, NULL);
    mpa_post_send(&p);
    raw_frame(frame, true, row->flags, row->rev, NULL, row->pd_len);
    memcpy(frame, row->key, 16);
    raw_send(p.fd, frame, row->send);
    mpa_reply_event(&p, RNIC_CM_PROTOCOL, &event);
    /* And no other attempt */
    th_run_for(20);
    g_assert_cmpint(accept(listener, NULL, NULL), ==, -1);
    g_assert_cmpint(errno, ==, EAGAIN);
    close(listener);
    expect_failed(&p, 0);
}

/* ---- No Reply ---- */

static void times_out(const void *octets, size_t len)
{
    struct mpa_setup setup = { .crc = RNIC_CRC_AUTO, .timeout_ms = 200 };
    struct rnic_aeqe event;
    struct iw_peer p;

    close(start_with(&p, &setup, NULL));
    raw_send(p.fd, octets, len);
    mpa_reply_event(&p, RNIC_CM_TIMEDOUT, &event);
    /* Once */
    th_run_for(250);
    expect_failed(&p, 0);
}

static void test_no_reply_times_out_once(void)
{
    times_out("", 0);
}

static void test_half_a_reply_times_out_once(void)
{
    uint8_t frame[70] = { 0 };

    raw_frame(frame, true, RAW_S, 2, NULL, 100);
    times_out(frame, sizeof(frame));
}

static void test_half_a_reply_and_the_end(void)
{
    unsigned rst;

    for (rst = 0; rst < 2; rst++) {
        struct rnic_aeqe event;
        struct iw_peer p;

        start(&p, true);
        raw_send(p.fd, "MPA ID Rep", 10);
        if (rst) {
            raw_abort(p.fd);
        } else {
            close(p.fd);
        }
        p.fd = -1;
        mpa_reply_event(&p, RNIC_CM_RESET, &event);
        expect_failed(&p, 0);
    }
}

int main(int argc, char **argv)
{
    unsigned i;

    g_test_init(&argc, &argv, NULL);
    for (i = 0; i < G_N_ELEMENTS(requests); i++) {
        g_test_add_data_func(requests[i].name, &requests[i],
                             test_request_of_the_device);
    }
#define ROWS(rows, test)                                                       \
    for (i = 0; i < G_N_ELEMENTS(rows); i++) {                                 \
        g_autofree char *name = g_strdup_printf("/wire/%s", rows[i].name);     \
        g_test_add_data_func(name, &rows[i], test);                            \
    }
    ROWS(crcs, test_crc_of_either_frame)
    ROWS(rtrs, test_rtr_is_the_first_fpdu)
    ROWS(unusable, test_unusable_reply_is_answered_by_a_terminate)
    ROWS(bad, test_bad_reply_fails_the_connect)
#undef ROWS
#define ADD(name, test) g_test_add_func("/wire/" name, test)
    ADD("S02-S03/initiator-and-checked", test_crc_is_checked);
    ADD("S07/private-data-of-a-reply", test_private_data_of_every_length);
    ADD("S08/rejecting-reply", test_rejecting_reply);
    ADD("S10/single-octets", test_reply_in_single_octets);
    iw_add("S17/reply-and-fpdu", test_reply_and_fpdu_in_one_segment);
    ADD("S36/private-data-512-of-a-reply",
        test_plain_private_data_may_have_512_octets);
    ADD("S37/half-a-reply", test_half_a_reply_times_out_once);
    ADD("S38/half-a-reply-and-the-end", test_half_a_reply_and_the_end);
    ADD("S44/values-of-the-reply", test_reply_values_are_taken_and_obeyed);
    ADD("S48/no-reply", test_no_reply_times_out_once);
#undef ADD
    return g_test_run();
}
