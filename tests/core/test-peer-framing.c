/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * MPA framing and DDP segments, valid and hostile, as a peer may send them
 */
#include "iwarp-peer.h"
#include "raw-peer.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void start(struct iw_peer *p, gconstpointer crc)
{
    struct iw_options options;

    iw_options_init(&options, GPOINTER_TO_INT(crc));
    iw_start(p, &options);
    memset(p->buf.ptr, 0xee, PEER_BUF);
}

static void check_untouched(struct iw_peer *p, size_t from, size_t to)
{
    for (; from < to; from++) {
        g_assert_cmpuint(p->buf.ptr[from], ==, 0xee);
    }
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

static void test_every_octet_in_a_segment_of_its_own(gconstpointer crc)
{
    uint8_t octets[2048];
    struct iw_peer p;
    size_t len, i;

    start(&p, crc);
    iw_post_recv(&p, 1, 1000, 35);
    len = some_fpdus(&p, octets, 1);
    for (i = 0; i < len; i++) {
        raw_send(p.fd, octets + i, 1);
        th_step(0);
        th_step(0);
    }
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 35);
    th_check_filled(p.buf.ptr, 300, 1);
    th_check_filled(p.buf.ptr + 1000, 35, 1);
    check_untouched(&p, 300, 1000);
    check_untouched(&p, 1035, 5000);
    iw_free(&p);
}

static void test_cut_at_every_place(gconstpointer crc)
{
    uint8_t octets[2048];
    struct iw_peer p;
    uint32_t msn = 1;
    size_t len, cut;

    start(&p, crc);
    len = some_fpdus(&p, octets, msn);
    for (cut = 1; cut < len; cut++, msn++) {
        some_fpdus(&p, octets, msn);
        iw_post_recv(&p, msn, 1000, 35);
        raw_send_whole(p.fd, octets, cut);
        th_run_for(1);
        raw_send_whole(p.fd, octets + cut, len - cut);
        iw_wait_recv(&p, msn, RNIC_WC_SUCCESS, 35);
        th_check_filled(p.buf.ptr, 300, msn);
        th_check_filled(p.buf.ptr + 1000, 35, msn);
    }
    check_untouched(&p, 300, 1000);
    check_untouched(&p, 1035, 5000);
    iw_free(&p);
}

static void test_many_fpdus_in_one_segment(gconstpointer crc)
{
    g_autofree uint8_t *octets = g_malloc(65536);
    uint8_t ulpdu[64];
    struct iw_peer p;
    size_t len = 0;
    unsigned i;

    start(&p, crc);
    for (i = 0; i < 50; i++) {
        iw_post_recv(&p, i, i * 10, 10);
        len += iw_fpdu(&p, octets + len, ulpdu,
                       iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, i + 1, 0,
                                   "0123456789", i % 11));
    }
    raw_send(p.fd, octets, len);
    for (i = 0; i < 50; i++) {
        iw_wait_recv(&p, i, RNIC_WC_SUCCESS, i % 11);
    }
    iw_free(&p);
}

static void test_pads_that_are_sent_are_zero(gconstpointer crc)
{
    uint8_t ulpdu[65536];
    struct iw_peer p;
    unsigned i;

    start(&p, crc);
    iw_post_recv(&p, 1, 0, 0);
    iw_send_message(&p, 1, 0);
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 0);
    memset(p.buf.ptr, 0xff, 64);
    for (i = 0; i < 9; i++) {
        struct th_wr wr = {
            .opcode = i % 2 ? RNIC_WR_SEND : RNIC_WR_WRITE,
            .sge = { th_sge(p.stag, PEER_IOVA, i) },
            .num_sge = 1,
        };

        th_post_send(p.qp, &wr, 1);
        g_assert_cmpuint(iw_recv(&p, ulpdu), ==, (i % 2 ? 18 : 14) + i);
    }
    iw_free(&p);
}

static void test_pad_is_not_looked_at(gconstpointer crc)
{
    uint8_t ulpdu[64], fpdu[64];
    struct iw_peer p;
    size_t len;
    uint32_t sum;

    start(&p, crc);
    iw_post_recv(&p, 1, 0, 100);
    /* ULPDU 23: pad of 3 */
    len = iw_fpdu(
        &p, fpdu, ulpdu,
        iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, 1, 0, "hello", 5));
    memset(fpdu + len - 7, 0x5a, 3);
    if (p.crc) {
        sum = GUINT32_TO_LE(iw_crc32c(fpdu, len - 4));
        memcpy(fpdu + len - 4, &sum, 4);
    }
    raw_send(p.fd, fpdu, len);
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 5);
    g_assert_cmpmem(p.buf.ptr, 5, "hello", 5);
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
        th_fill(payload, 65536, i);
        iw_send(&p, ulpdu,
                iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag, PEER_IOVA + 5,
                          payload, lens[i] - 14));
        iw_post_recv(&p, i, 0, 0);
        iw_send_message(&p, i + 1, 0);
        iw_wait_recv(&p, i, RNIC_WC_SUCCESS, 0);
        th_check_filled(p.buf.ptr + 5, lens[i] - 14, i);
    }
    check_untouched(&p, 0, 5);
    check_untouched(&p, 5 + 65535 - 14, PEER_BUF);
    iw_free(&p);
}

static void test_crc_field_is_ignored_with_crc_off(void)
{
    uint8_t ulpdu[64], fpdu[64];
    struct iw_peer p;
    size_t len;

    start(&p, GINT_TO_POINTER(false));
    iw_post_recv(&p, 1, 0, 100);
    len = iw_fpdu(&p, fpdu, ulpdu,
                  iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, 1, 0, "x", 1));
    memset(fpdu + len - 4, 0x77, 4);
    raw_send(p.fd, fpdu, len);
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 1);
    iw_free(&p);
}

/* ---- Bad CRCs ---- */

enum crc_damage { CRC_BIT, CRC_ORDER, CRC_PAYLOAD, CRC_PAD, CRC_STAG };

static void test_bad_crc(gconstpointer data)
{
    uint8_t ulpdu[64], fpdu[64], term[70];
    struct iw_peer p;
    size_t len;

    start(&p, GINT_TO_POINTER(true));
    iw_post_recv(&p, 1, 0, 100);
    iw_post_recv(&p, 2, 0, 100);
    len = iw_fpdu(
        &p, fpdu, ulpdu,
        iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, 1, 0, "hello", 5));
    switch ((enum crc_damage)GPOINTER_TO_INT(data)) {
    case CRC_BIT:
        fpdu[len - 4] ^= 1;
        break;
    case CRC_ORDER: {
        uint32_t sum;

        memcpy(&sum, fpdu + len - 4, 4);
        sum = GUINT32_SWAP_LE_BE(sum);
        memcpy(fpdu + len - 4, &sum, 4);
    } break;
    case CRC_PAYLOAD:
        fpdu[22] ^= 0x80;
        break;
    case CRC_PAD:
        fpdu[len - 5] = 1;
        break;
    case CRC_STAG:
        /* Also wrong otherwise: the CRC comes first */
        len = iw_fpdu(&p, fpdu, ulpdu,
                      iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, 1, 2, "x", 1));
        fpdu[len - 1] ^= 0x10;
        break;
    }
    raw_send(p.fd, fpdu, len);
    /* Good ones behind it are not looked at */
    iw_send_message(&p, 1, 5);
    iw_send_message(&p, 2, 5);
    iw_expect_refused(&p, 2, 0, 0x02, term);
    /* No header can be trusted */
    g_assert_cmpuint(term[20], ==, 0);
    g_assert_cmpuint(th_stat(p.guest, RNIC_STAT_rx_crc_errors), ==, 1);
    iw_free(&p);
}

/* ---- Lengths ---- */

static void test_ulpdu_without_room_for_a_header(gconstpointer crc)
{
    static const uint16_t lens[] = { 0, 1, 13 };
    uint8_t ulpdu[64] = { IW_TAGGED, IW_WRITE };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(lens); i++) {
        struct iw_peer p;

        start(&p, crc);
        iw_send(&p, ulpdu, lens[i]);
        iw_expect_term(&p, 2, 0, 0x03, NULL);
        iw_free(&p);
    }
}

static void test_ulpdu_shorter_than_its_headers(gconstpointer crc)
{
    uint8_t ulpdu[128];
    struct iw_peer p;
    size_t len;

    start(&p, crc);
    len = iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, 1, 0, NULL, 0);
    iw_send(&p, ulpdu, len - 1);
    iw_expect_term(&p, 2, 0, 0x03, NULL);
    iw_free(&p);

    start(&p, crc);
    len = iw_read_request(ulpdu, 1, 0, 0, 0, 1, 0);
    iw_send(&p, ulpdu, len - 1);
    iw_expect_term(&p, 2, 0, 0x03, NULL);
    iw_free(&p);
}

static void test_read_request_with_a_trailer(gconstpointer crc)
{
    uint8_t ulpdu[128] = { 0 };
    struct iw_peer p;
    size_t len;

    start(&p, crc);
    len = iw_read_request(ulpdu, 1, 0, 0, 4, p.stag, PEER_IOVA);
    iw_send(&p, ulpdu, len + 1);
    iw_expect_term(&p, 0, 2, 0xff, NULL);
    iw_free(&p);
}

static void test_a_length_and_then_nothing(gconstpointer crc)
{
    struct iw_peer p;

    start(&p, crc);
    raw_send(p.fd, "\xff\xff", 2);
    raw_silent(p.fd, 50);
    g_assert_cmpuint(th_qp_state(p.qp), ==, RNIC_QPS_RTS);
    shutdown(p.fd, SHUT_WR);
    iw_expect_close(&p);
    iw_free(&p);
}

static void test_fin_within_an_fpdu(gconstpointer crc)
{
    uint8_t octets[2048];
    struct iw_peer p;
    struct rnic_aeqe event;
    size_t len;

    start(&p, crc);
    iw_post_recv(&p, 1, 1000, 35);
    len = some_fpdus(&p, octets, 1);
    raw_send(p.fd, octets, len - 6);
    shutdown(p.fd, SHUT_WR);
    th_event_wait(p.guest, RNIC_EV_DISCONNECT, p.qp->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_RESET);
    iw_expect_close(&p);
    iw_wait_recv(&p, 1, RNIC_WC_WR_FLUSH_ERR, 0);
    iw_free(&p);
}

static void test_fin_within_a_message(gconstpointer crc)
{
    uint8_t ulpdu[64];
    struct iw_peer p;
    struct rnic_aeqe event;

    start(&p, crc);
    iw_post_recv(&p, 1, 0, 100);
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, IW_UNTAGGED & ~IW_NOT_LAST, IW_SEND, 0, 0, 1, 0,
                        "hello", 5));
    shutdown(p.fd, SHUT_WR);
    th_event_wait(p.guest, RNIC_EV_DISCONNECT, p.qp->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_RESET);
    iw_expect_close(&p);
    iw_wait_recv(&p, 1, RNIC_WC_WR_FLUSH_ERR, 0);
    iw_free(&p);
}

static void test_reset_behind_a_terminate(gconstpointer crc)
{
    uint8_t ulpdu[64];
    struct iw_peer p;
    struct rnic_aeqe event;

    start(&p, crc);
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
    iw_free(&p);
}

static void add(const char *name, GTestDataFunc test)
{
    g_autofree char *off = g_strdup_printf("/peer/crc-off/%s", name);
    g_autofree char *on = g_strdup_printf("/peer/crc-on/%s", name);

    g_test_add_data_func(off, GINT_TO_POINTER(false), test);
    g_test_add_data_func(on, GINT_TO_POINTER(true), test);
}

int main(int argc, char **argv)
{

    g_test_init(&argc, &argv, NULL);
    add("every-octet-in-a-segment", test_every_octet_in_a_segment_of_its_own);
    add("cut-at-every-place", test_cut_at_every_place);
    add("many-fpdus-in-one-segment", test_many_fpdus_in_one_segment);
    add("sent-pads-are-zero", test_pads_that_are_sent_are_zero);
    add("pad-is-not-looked-at", test_pad_is_not_looked_at);
    add("longest-ulpdus", test_longest_ulpdus);
    g_test_add_func("/peer/crc-off/crc-field-is-ignored",
                    test_crc_field_is_ignored_with_crc_off);
    g_test_add_data_func("/peer/bad-crc/bit", GINT_TO_POINTER(CRC_BIT),
                         test_bad_crc);
    g_test_add_data_func("/peer/bad-crc/order", GINT_TO_POINTER(CRC_ORDER),
                         test_bad_crc);
    g_test_add_data_func("/peer/bad-crc/payload", GINT_TO_POINTER(CRC_PAYLOAD),
                         test_bad_crc);
    g_test_add_data_func("/peer/bad-crc/pad", GINT_TO_POINTER(CRC_PAD),
                         test_bad_crc);
    g_test_add_data_func("/peer/bad-crc/and-bad-stag",
                         GINT_TO_POINTER(CRC_STAG), test_bad_crc);
    add("no-room-for-a-header", test_ulpdu_without_room_for_a_header);
    add("shorter-than-its-headers", test_ulpdu_shorter_than_its_headers);
    add("read-request-with-a-trailer", test_read_request_with_a_trailer);
    add("a-length-and-then-nothing", test_a_length_and_then_nothing);
    add("fin-within-an-fpdu", test_fin_within_an_fpdu);
    add("fin-within-a-message", test_fin_within_a_message);
    add("reset-behind-a-terminate", test_reset_behind_a_terminate);
    return g_test_run();
}
