/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * MPA framing, valid and hostile, as a peer may send it: F01 to F20
 */
#include "iwarp-peer.h"
#include "raw-peer.h"
#include "wire-io.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void start(struct iw_peer *p, gconstpointer crc)
{
    struct iw_options options;

    iw_options_init(&options, GPOINTER_TO_INT(crc));
    iw_start(p, &options);
}

/* ---- Where FPDUs are cut ---- */

/* Two Writes and a Send with payload, one behind the other */
static size_t some_fpdus(struct iw_peer *p, uint8_t *to, uint32_t msn)
{
    uint8_t ulpdu[1024], payload[300];
    size_t len;

    th_fill(payload, sizeof(payload), msn);
    len = iw_fpdu(
        p, to, ulpdu,
        iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p->stag, PEER_IOVA, payload, 13));
    len += iw_fpdu(p, to + len, ulpdu,
                   iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p->stag,
                             PEER_IOVA + 13, payload + 13, 287));
    len += iw_fpdu(
        p, to + len, ulpdu,
        iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, msn, 0, payload, 35));
    return len;
}

/* Where they put their payload */
static void allow_some(struct iw_peer *p)
{
    iw_allow(p, 0, 300);
    iw_allow(p, 1000, 35);
}

static void check_some(struct iw_peer *p, uint32_t msn)
{
    th_check_filled(p->buf.ptr, 300, msn);
    th_check_filled(p->buf.ptr + 1000, 35, msn);
}

static void test_every_octet_in_a_segment_of_its_own(gconstpointer crc)
{
    struct wire_reads before, after;
    uint8_t octets[2048];
    struct iw_peer p;
    size_t len;
    int fd;

    start(&p, crc);
    allow_some(&p);
    iw_post_recv(&p, 1, 1000, 35);
    len = some_fpdus(&p, octets, 1);
    fd = iw_device_fd(&p);
    before = wire_reads(fd);
    raw_send_singly(p.fd, octets, len);
    after = wire_reads(fd);
    g_assert_cmpuint(after.octets - before.octets, ==, len);
    g_assert_cmpuint(after.calls - before.calls, ==, len);
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 35);
    check_some(&p, 1);
    iw_expect_harmless(&p, 2);
    iw_free(&p);
}

static void test_cut_at_every_place(gconstpointer crc)
{
    uint8_t octets[2048];
    struct iw_peer p;
    uint32_t msn = 1;
    size_t len, cut;

    start(&p, crc);
    allow_some(&p);
    len = some_fpdus(&p, octets, msn);
    for (cut = 1; cut < len; cut++, msn++) {
        uint64_t taken = wire_taken();

        some_fpdus(&p, octets, msn);
        iw_post_recv(&p, msn, 1000, 35);
        raw_send_whole(p.fd, octets, cut);
        th_wait(wire_taken() == taken + cut);
        raw_send_whole(p.fd, octets + cut, len - cut);
        iw_wait_recv(&p, msn, RNIC_WC_SUCCESS, 35);
        check_some(&p, msn);
    }
    iw_expect_harmless(&p, msn);
    iw_free(&p);
}

static void test_many_fpdus_in_one_segment(gconstpointer crc)
{
    g_autofree uint8_t *octets = g_malloc(65536);
    uint8_t ulpdu[64], payload[11];
    struct iw_peer p;
    size_t len = 0;
    unsigned i;

    start(&p, crc);
    iw_allow(&p, 0, 500);
    for (i = 0; i < 50; i++) {
        th_fill(payload, 10, i);
        iw_post_recv(&p, i, i * 10, 10);
        len += iw_fpdu(&p, octets + len, ulpdu,
                       iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, i + 1, 0,
                                   payload, i % 11));
    }
    raw_send_whole(p.fd, octets, len);
    for (i = 0; i < 50; i++) {
        iw_wait_recv(&p, i, RNIC_WC_SUCCESS, i % 11);
        th_check_filled(p.buf.ptr + i * 10, i % 11, i);
    }
    iw_expect_harmless(&p, 51);
    iw_free(&p);
}

/* ---- Pads and lengths ---- */

static void test_every_pad(gconstpointer crc)
{
    uint8_t ulpdu[65536];
    struct iw_peer p;
    unsigned i;

    start(&p, crc);
    iw_allow(&p, 0, 9);
    for (i = 0; i < 9; i++) {
        iw_post_recv(&p, i, 0, 9);
        iw_send_message(&p, i + 1, i);
        iw_wait_recv(&p, i, RNIC_WC_SUCCESS, i);
        th_check_filled(p.buf.ptr, i, i + 1);
    }
    /* And those of the device are zero, as iw_recv() checks */
    memset(p.buf.ptr, 0xff, 9);
    for (i = 0; i < 9; i++) {
        struct th_wr wr = {
            .opcode = i % 2 ? RNIC_WR_SEND : RNIC_WR_WRITE,
            .sge = { th_sge(p.stag, PEER_IOVA, i) },
            .num_sge = 1,
        };

        th_post_send(p.qp, &wr, 1);
        g_assert_cmpuint(iw_recv(&p, ulpdu), ==, (i % 2 ? 18 : 14) + i);
    }
    iw_expect_harmless(&p, 10);
    iw_free(&p);
}

static void test_pad_is_not_looked_at(gconstpointer crc)
{
    uint8_t ulpdu[64], fpdu[64];
    struct iw_peer p;
    unsigned pad;

    start(&p, crc);
    iw_allow(&p, 0, 8);
    for (pad = 1; pad <= 3; pad++) {
        size_t len = iw_fpdu(&p, fpdu, ulpdu,
                             iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, pad,
                                         0, "payload!", 8 - pad));

        iw_post_recv(&p, pad, 0, 8);
        memset(fpdu + len - 4 - pad, 0x5a, pad);
        if (p.crc) {
            uint32_t sum = GUINT32_TO_LE(iw_crc32c(fpdu, len - 4));

            memcpy(fpdu + len - 4, &sum, 4);
        }
        raw_send(p.fd, fpdu, len);
        iw_wait_recv(&p, pad, RNIC_WC_SUCCESS, 8 - pad);
        g_assert_cmpmem(p.buf.ptr, 8 - pad, "payload!", 8 - pad);
    }
    iw_expect_harmless(&p, 4);
    iw_free(&p);
}

static void test_longest_ulpdus(gconstpointer crc)
{
    static const unsigned lens[] = { 64768, 65474, 65534, 65535 };
    g_autofree uint8_t *ulpdu = g_malloc(65536);
    g_autofree uint8_t *payload = g_malloc(65536);
    struct iw_peer p;
    unsigned i;

    start(&p, crc);
    for (i = 0; i < G_N_ELEMENTS(lens); i++) {
        iw_allow(&p, 5, lens[i] - 14);
        th_fill(payload, 65536, i);
        iw_send(&p, ulpdu,
                iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag, PEER_IOVA + 5,
                          payload, lens[i] - 14));
        iw_post_recv(&p, i, 0, 0);
        iw_send_message(&p, i + 1, 0);
        iw_wait_recv(&p, i, RNIC_WC_SUCCESS, 0);
        th_check_filled(p.buf.ptr + 5, lens[i] - 14, i);
        iw_check_memory(&p);
    }
    iw_expect_harmless(&p, i + 1);
    iw_free(&p);
}

/* ---- Bad CRCs ---- */

/* How a good Send, whose CRC field starts at @crc, is spoilt */
static void spoil_first_bit(uint8_t *fpdu, size_t crc)
{
    fpdu[crc] ^= 0x01;
}

static void spoil_last_bit(uint8_t *fpdu, size_t crc)
{
    fpdu[crc + 3] ^= 0x80;
}

static void spoil_header(uint8_t *fpdu, size_t crc)
{
    fpdu[2 + 14] ^= 0x20;
}

static void spoil_payload(uint8_t *fpdu, size_t crc)
{
    fpdu[22] ^= 0x80;
}

static void spoil_order(uint8_t *fpdu, size_t crc)
{
    uint32_t sum;

    memcpy(&sum, fpdu + crc, 4);
    sum = GUINT32_SWAP_LE_BE(sum);
    memcpy(fpdu + crc, &sum, 4);
}

/* The sender summed zeros */
static void spoil_pad(uint8_t *fpdu, size_t crc)
{
    fpdu[crc - 1] = 1;
}

static const struct spoilt {
    const char *name;
    void (*spoil)(uint8_t *fpdu, size_t crc);
} spoilt[] = {
    { "F06/pad-summed-as-zero", spoil_pad },
    { "F07/first-bit", spoil_first_bit },
    { "F07/last-bit", spoil_last_bit },
    { "F07/bit-of-the-header", spoil_header },
    { "F07/bit-of-the-payload", spoil_payload },
    { "F08/opposite-order", spoil_order },
};

static void expect_bad_crc(struct iw_peer *p)
{
    uint8_t term[70];

    iw_expect_refused(p, 2, 0, 0x02, term);
    /* No header can be trusted */
    g_assert_cmphex(term[20], ==, 0);
    g_assert_cmpuint(th_stat(p->guest, RNIC_STAT_rx_crc_errors), ==, 1);
}

static void test_bad_crc(gconstpointer data)
{
    const struct spoilt *row = data;
    uint8_t ulpdu[64], fpdu[64];
    struct iw_peer p;
    size_t len;

    start(&p, GINT_TO_POINTER(true));
    iw_post_recv(&p, 1, 0, 100);
    iw_post_recv(&p, 2, 0, 100);
    /* ULPDU of 23 octets, pad of 3 */
    len = iw_fpdu(
        &p, fpdu, ulpdu,
        iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, 1, 0, "hello", 5));
    row->spoil(fpdu, len - 4);
    raw_send(p.fd, fpdu, len);
    expect_bad_crc(&p);
    iw_free(&p);
}

static void test_bad_crc_of_a_write_to_a_bad_stag(void)
{
    uint8_t ulpdu[64], fpdu[64];
    struct iw_peer p;
    size_t len;

    start(&p, GINT_TO_POINTER(true));
    len = iw_fpdu(&p, fpdu, ulpdu,
                  iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, 1, 2, "x", 1));
    fpdu[len - 1] ^= 0x10;
    raw_send(p.fd, fpdu, len);
    expect_bad_crc(&p);
    iw_free(&p);
}

static void test_good_fpdus_behind_a_bad_one(void)
{
    uint8_t octets[4096], ulpdu[64];
    struct iw_peer p;
    size_t len;

    start(&p, GINT_TO_POINTER(true));
    iw_post_recv(&p, 1, 1000, 35);
    iw_post_recv(&p, 2, 2000, 100);
    len = iw_fpdu(
        &p, octets, ulpdu,
        iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, 1, 0, "hello", 5));
    octets[len - 1] ^= 1;
    len += some_fpdus(&p, octets + len, 1);
    len += some_fpdus(&p, octets + len, 2);
    raw_send(p.fd, octets, len);
    expect_bad_crc(&p);
    iw_free(&p);
}

static void test_crc_field_is_ignored_with_crc_off(void)
{
    uint8_t ulpdu[64], fpdu[64];
    struct iw_peer p;
    size_t len;

    start(&p, GINT_TO_POINTER(false));
    iw_allow(&p, 0, 1);
    iw_post_recv(&p, 1, 0, 100);
    len = iw_fpdu(&p, fpdu, ulpdu,
                  iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, 1, 0, "x", 1));
    memset(fpdu + len - 4, 0x77, 4);
    raw_send(p.fd, fpdu, len);
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 1);
    iw_expect_harmless(&p, 2);
    iw_free(&p);
}

/* ---- Lengths that do not fit ---- */

static void short_ulpdu(gconstpointer crc, const uint8_t *ulpdu, size_t len)
{
    struct iw_peer p;

    start(&p, crc);
    iw_post_recv(&p, 1, 0, 1000);
    iw_send(&p, ulpdu, len);
    iw_expect_refused(&p, 2, 0, 0x03, NULL);
    iw_free(&p);
}

static void test_ulpdu_of_0(gconstpointer crc)
{
    short_ulpdu(crc, (const uint8_t *)"", 0);
}

static void test_ulpdu_of_1(gconstpointer crc)
{
    static const uint8_t tagged = IW_TAGGED, untagged = IW_UNTAGGED;

    short_ulpdu(crc, &tagged, 1);
    short_ulpdu(crc, &untagged, 1);
}

static void test_ulpdu_of_13(gconstpointer crc)
{
    static const uint8_t tagged[13] = { IW_TAGGED, IW_WRITE };
    static const uint8_t untagged[13] = { IW_UNTAGGED, IW_SEND };

    short_ulpdu(crc, tagged, 13);
    short_ulpdu(crc, untagged, 13);
}

static void test_send_of_17(gconstpointer crc)
{
    uint8_t ulpdu[64];

    iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, 1, 0, NULL, 0);
    short_ulpdu(crc, ulpdu, 17);
}

static void test_read_request_of_45(gconstpointer crc)
{
    uint8_t ulpdu[64];

    iw_read_request(ulpdu, 1, 0, 0, 0, 1, 0);
    short_ulpdu(crc, ulpdu, 45);
}

/* A Terminate, even such a one, is not answered */
static void test_terminate_of_21(gconstpointer crc)
{
    uint8_t ulpdu[64];
    struct iw_peer p;

    start(&p, crc);
    iw_post_recv(&p, 1, 0, 1000);
    iw_untagged(ulpdu, IW_UNTAGGED, IW_TERM, 0, 2, 1, 0, "\0\0\0\0", 4);
    iw_send(&p, ulpdu, 21);
    iw_expect_dropped(&p);
    iw_free(&p);
}

/* Nothing is read, as iw_expect_term() sees no response before it; and nothing
 * is placed */
static void read_request_of(gconstpointer crc, size_t len)
{
    uint8_t ulpdu[128] = { 0 };
    struct iw_peer p;

    start(&p, crc);
    iw_read_request(ulpdu, 1, p.stag, PEER_IOVA, 4, p.stag, PEER_IOVA + 100);
    iw_send(&p, ulpdu, len);
    g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 24 + 18);
    g_assert_cmphex(ulpdu[1], ==, IW_TERM);
    g_assert_cmphex(ulpdu[18], ==, 0x02);
    g_assert_cmphex(ulpdu[19], ==, 0xff);
    iw_expect_error(&p);
    iw_check_after(&p);
    iw_free(&p);
}

static void test_read_request_of_47(gconstpointer crc)
{
    read_request_of(crc, 47);
}

static void test_read_request_of_100(gconstpointer crc)
{
    read_request_of(crc, 100);
}

/* ---- Ends ---- */

static void fin_after(gconstpointer crc, size_t octets_of_write)
{
    uint8_t octets[512], ulpdu[256], payload[200];
    struct rnic_aeqe event;
    struct iw_peer p;
    size_t len;

    start(&p, crc);
    iw_post_recv(&p, 1, 1000, 35);
    if (!p.crc) {
        /* Part of a message may be in place when it ends */
        iw_allow(&p, 0, 200);
    }
    th_fill(payload, sizeof(payload), 1);
    len = iw_fpdu(&p, octets, ulpdu,
                  iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag, PEER_IOVA,
                            payload, sizeof(payload)));
    g_assert_cmpuint(octets_of_write, <, len);
    raw_send(p.fd, octets, octets_of_write);
    shutdown(p.fd, SHUT_WR);
    th_event_wait(p.guest, RNIC_EV_DISCONNECT, p.qp->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_RESET);
    iw_expect_dropped(&p);
    iw_free(&p);
}

static void test_fin_within_an_fpdu(gconstpointer crc)
{
    static const size_t places[] = { 1, 2, 9, 16, 17, 100, 216, 218, 219 };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(places); i++) {
        fin_after(crc, places[i]);
    }
}

static void test_fin_within_a_message(gconstpointer crc)
{
    uint8_t ulpdu[64];
    struct rnic_aeqe event;
    struct iw_peer p;

    start(&p, crc);
    iw_allow(&p, 0, 5);
    iw_post_recv(&p, 1, 0, 100);
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, IW_UNTAGGED & ~IW_NOT_LAST, IW_SEND, 0, 0, 1, 0,
                        "hello", 5));
    shutdown(p.fd, SHUT_WR);
    th_event_wait(p.guest, RNIC_EV_DISCONNECT, p.qp->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_RESET);
    iw_expect_dropped(&p);
    iw_free(&p);
}

static void test_reset_behind_a_terminate(gconstpointer crc)
{
    uint8_t ulpdu[64];
    struct rnic_aeqe event;
    struct iw_peer p;

    start(&p, crc);
    iw_post_recv(&p, 1, 0, 100);
    rnic_device_quiesce(p.guest->dev);
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, IW_UNTAGGED, IW_TERM, 0, 2, 1, 0,
                        "\x11\x01\x00\x00", 4));
    raw_send(p.fd, "\x00\x40", 2);
    /* RST would drop what waits for ACKs */
    raw_wait_acked(p.fd);
    raw_abort(p.fd);
    p.fd = -1;
    rnic_device_resume(p.guest->dev);
    /* What came before the RST is still told */
    th_event_wait(p.guest, RNIC_EV_QP_ACCESS_ERR, p.qp->qpn, &event);
    g_assert_cmphex(GUINT32_FROM_LE(event.term), ==,
                    RNIC_TERM_VALID | RNIC_TERM_REMOTE | 0x010101);
    iw_expect_error(&p);
    iw_check_after(&p);
    g_assert_cmpuint(th_stat(p.guest, RNIC_STAT_term_sent), ==, 0);
    iw_free(&p);
}

/* ---- Peers that stall ---- */

static void test_peer_that_stops_reading(gconstpointer crc)
{
    g_autofree uint8_t *ulpdu = g_malloc(65536);
    struct rnic_cqe cqe;
    struct iw_peer p;
    unsigned i;
    size_t got;

    start(&p, crc);
    iw_open_gate(&p);
    th_fill(p.buf.ptr, PEER_BUF, 3);
    iw_watch(&p);
    /* More than TCP holds */
    for (i = 0; i < 60; i++) {
        struct th_wr wr = {
            .opcode = RNIC_WR_WRITE,
            .flags = RNIC_WQE_SIGNALED,
            .wr_id = i,
            .sge = { th_sge(p.stag, PEER_IOVA, PEER_BUF) },
            .num_sge = 1,
        };

        th_post_send(p.qp, &wr, 1);
    }
    th_run_for(50);
    /* Others are served meanwhile, again and again */
    for (i = 0; i < 3; i++) {
        iw_connect_again(&p);
    }
    i = 0;
    while (th_cq_poll(p.qp->attr.send_cq, &cqe)) {
        i++;
        p.oracle.sends++;
    }
    g_assert_cmpuint(i, <, 60);
    /* And nothing was lost */
    for (got = 0; got < (size_t)60 * PEER_BUF; got += i) {
        i = iw_recv(&p, ulpdu) - 14;
        g_assert_cmpmem(ulpdu + 14, i, p.buf.ptr + got % PEER_BUF, i);
    }
    while (p.oracle.sends < 60) {
        iw_wait_send(&p, p.oracle.sends, RNIC_WC_SUCCESS);
    }
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

static void test_a_length_and_then_nothing(gconstpointer crc)
{
    struct usage before;
    struct iw_peer p;

    start(&p, crc);
    iw_post_recv(&p, 1, 0, 100);
    before = usage_now();
    raw_send(p.fd, "\xff\xff", 2);
    raw_silent(p.fd, 50);
    g_assert_cmpuint(th_qp_state(p.qp), ==, RNIC_QPS_RTS);
    usage_check(&before, 128 << 10, 1000);
    shutdown(p.fd, SHUT_WR);
    iw_expect_dropped(&p);
    iw_free(&p);
}

int main(int argc, char **argv)
{
    unsigned i;

    g_test_init(&argc, &argv, NULL);
    iw_add("F01/one-octet-a-segment", test_every_octet_in_a_segment_of_its_own);
    iw_add("F02/many-in-one-segment", test_many_fpdus_in_one_segment);
    iw_add("F03/cut-at-every-place", test_cut_at_every_place);
    iw_add("F04/every-pad", test_every_pad);
    iw_add("F05/pad-is-not-looked-at", test_pad_is_not_looked_at);
    for (i = 0; i < G_N_ELEMENTS(spoilt); i++) {
        g_autofree char *name =
            g_strdup_printf("/wire/%s/crc-on", spoilt[i].name);

        g_test_add_data_func(name, &spoilt[i], test_bad_crc);
    }
    g_test_add_func("/wire/F09/and-a-bad-stag/crc-on",
                    test_bad_crc_of_a_write_to_a_bad_stag);
    g_test_add_func("/wire/F10/good-ones-behind-it/crc-on",
                    test_good_fpdus_behind_a_bad_one);
    g_test_add_func("/wire/S04/crc-field-is-ignored/crc-off",
                    test_crc_field_is_ignored_with_crc_off);
    iw_add("F11/ulpdu-of-0", test_ulpdu_of_0);
    iw_add("F12/ulpdu-of-1", test_ulpdu_of_1);
    iw_add("F12/ulpdu-of-13", test_ulpdu_of_13);
    iw_add("F13/send-of-17", test_send_of_17);
    iw_add("F13/read-request-of-45", test_read_request_of_45);
    iw_add("F13/terminate-of-21", test_terminate_of_21);
    iw_add("F14/read-request-of-47", test_read_request_of_47);
    iw_add("F14/read-request-of-100", test_read_request_of_100);
    iw_add("F15/longest-ulpdus", test_longest_ulpdus);
    iw_add("F16/fin-within-an-fpdu", test_fin_within_an_fpdu);
    iw_add("F17/fin-within-a-message", test_fin_within_a_message);
    iw_add("F18/reset-behind-a-terminate", test_reset_behind_a_terminate);
    iw_add("F19/peer-stops-reading", test_peer_that_stops_reading);
    iw_add("F20/length-and-nothing", test_a_length_and_then_nothing);
    return g_test_run();
}
