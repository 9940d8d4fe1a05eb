/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DDP's untagged segments, valid and hostile, as a peer may send them: D01,
 * D02, D15 to D28 and D30, and those of R24 to R26 that are untagged
 */
#include "iwarp-peer.h"
#include "raw-peer.h"
#include "rx.h"
#include "tx.h"

#include <string.h>

#define NOT_LAST                 0x01
#define RECV_LEN                 1024
#define TERM(layer, etype, code) ((layer) << 16 | (etype) << 8 | (code))

/* ---- Valid ones ---- */

static void test_send_in_three_segments(gconstpointer crc)
{
    uint8_t ulpdu[1024], payload[900];
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_allow(&p, 7, 900);
    th_fill(payload, sizeof(payload), 3);
    iw_post_recv(&p, 1, 7, RECV_LEN);
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, NOT_LAST, IW_SEND, 0, 0, 1, 0, payload, 301));
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, NOT_LAST, IW_SEND, 0, 0, 1, 301, payload + 301,
                        299));
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, 1, 600,
                        payload + 600, 300));
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 900);
    th_check_filled(p.buf.ptr + 7, 900, 3);
    iw_expect_harmless(&p, 2);
    iw_free(&p);
}

/* The last segment may be without payload */
static void test_last_segment_is_empty(gconstpointer crc)
{
    uint8_t ulpdu[64];
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_allow(&p, 0, 5);
    iw_post_recv(&p, 1, 0, RECV_LEN);
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, NOT_LAST, IW_SEND, 0, 0, 1, 0, "hello", 5));
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, 1, 5, NULL, 0));
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 5);
    iw_expect_harmless(&p, 2);
    iw_free(&p);
}

static void test_empty_send_takes_a_receive(gconstpointer crc)
{
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_post_recv(&p, 1, 0, RECV_LEN);
    iw_post_recv(&p, 2, 0, RECV_LEN);
    iw_send_message(&p, 1, 0);
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 0);
    iw_send_message(&p, 2, 0);
    iw_wait_recv(&p, 2, RNIC_WC_SUCCESS, 0);
    iw_expect_harmless(&p, 3);
    iw_free(&p);
}

static void fills_the_receive(bool crc, uint32_t len)
{
    struct iw_peer p;

    iw_start_crc(&p, crc);
    iw_allow(&p, 3, len);
    iw_post_recv(&p, 1, 3, len);
    iw_send_message(&p, 1, len);
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, len);
    th_check_filled(p.buf.ptr + 3, len, 1);
    iw_expect_harmless(&p, 2);
    iw_free(&p);
}

static void test_send_fills_the_receive(gconstpointer crc)
{
    fills_the_receive(GPOINTER_TO_INT(crc), RECV_LEN);
}

static void test_large_send_fills_the_receive(gconstpointer crc)
{
    fills_the_receive(GPOINTER_TO_INT(crc), 65001);
}

static void test_reserved_bits(gconstpointer crc)
{
    uint8_t ulpdu[64];
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_allow(&p, 0, 5);
    iw_post_recv(&p, 1, 0, RECV_LEN);
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, IW_UNTAGGED | 0x3c, IW_SEND, 0, 0, 1, 0, "hello",
                        5));
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 5);
    iw_expect_harmless(&p, 2);
    iw_free(&p);
}

/* ---- MSNs ---- */

static struct rnic_qp *qp_of(struct iw_peer *p)
{
    return rnic_qp_find(p->guest->dev, p->qp->qpn);
}

/* Four thousand million messages before */
static void test_msn_wraps(gconstpointer crc)
{
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    qp_of(&p)->rx->send_msn = UINT32_MAX;
    iw_allow(&p, 0, 10);
    iw_post_recv(&p, 1, 0, 10);
    iw_post_recv(&p, 2, 0, 10);
    iw_send_message(&p, UINT32_MAX, 10);
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 10);
    iw_send_message(&p, 0, 10);
    iw_wait_recv(&p, 2, RNIC_WC_SUCCESS, 10);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

static void test_read_msn_wraps(gconstpointer crc)
{
    uint8_t ulpdu[128];
    struct iw_peer p;
    uint32_t i;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    qp_of(&p)->rx->read_msn = UINT32_MAX;
    for (i = UINT32_MAX; i != 2; i++) {
        iw_send(&p, ulpdu,
                iw_read_request(ulpdu, i, i, 0, 1, p.stag, PEER_IOVA));
        g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 15);
        g_assert_cmphex(iw_get(ulpdu + 2, 4), ==, i);
    }
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

static void test_own_msns_wrap(gconstpointer crc)
{
    static const uint32_t want[] = { UINT32_MAX, 0, 1 };
    struct th_wr wr = { .opcode = RNIC_WR_SEND };
    uint8_t ulpdu[128];
    struct iw_peer p;
    unsigned i;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_open_gate(&p);
    qp_of(&p)->tx->send_msn = UINT32_MAX;
    qp_of(&p)->tx->read_msn = UINT32_MAX;
    for (i = 0; i < G_N_ELEMENTS(want); i++) {
        th_post_send(p.qp, &wr, 1);
        g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 18);
        g_assert_cmphex(iw_get(ulpdu + 10, 4), ==, want[i]);
        iw_post_read(&p, i, 0, 0);
        g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 46);
        g_assert_cmphex(iw_get(ulpdu + 10, 4), ==, want[i]);
        iw_send(&p, ulpdu,
                iw_tagged(ulpdu, IW_TAGGED, IW_READ_RSP, 0, 0, NULL, 0));
        iw_wait_send(&p, i, RNIC_WC_SUCCESS);
    }
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

static void test_msn_repeated(gconstpointer crc)
{
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_allow(&p, 0, 10);
    iw_post_recv(&p, 1, 0, 10);
    iw_post_recv(&p, 2, 100, 10);
    iw_send_message(&p, 1, 10);
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 10);
    iw_send_message(&p, 1, 10);
    iw_expect_refused(&p, 1, 2, 0x03, NULL);
    iw_free(&p);
}

/* ---- One segment that is wrong ---- */

/*
 * Behind a Send segment of @first octets that is not the last, if not 0. Two
 * receives of RECV_LEN octets are posted, @none: none are.
 */
static const struct row {
    const char *name;
    uint8_t ddp, rdmap;
    uint32_t qn, msn, mo;
    uint32_t len;
    uint32_t term;
    uint16_t first;
    bool none;
} rows[] = {
    { "D15/send-on-qn-1", 0x41, IW_SEND, 1, 1, 0, 8, .term = TERM(1, 2, 0x01) },
    { "D15/send-on-qn-2", 0x41, IW_SEND, 2, 1, 0, 8, .term = TERM(1, 2, 0x01) },
    { "D15/send-on-qn-3", 0x41, IW_SEND, 3, 1, 0, 8, .term = TERM(1, 2, 0x01) },
    { "D15/send-on-qn-4", 0x41, IW_SEND, 4, 1, 0, 8, .term = TERM(1, 2, 0x01) },
    { "D15/send-on-qn-max", 0x41, IW_SEND, UINT32_MAX, 1, 0, 8,
      .term = TERM(1, 2, 0x01) },
    { "D15/empty-send-on-qn-1", 0x41, IW_SEND, 1, 1, 0, 0,
      .term = TERM(1, 2, 0x01) },
    { "D15/read-on-qn-0", 0x41, IW_READ_REQ, 0, 1, 0, 28,
      .term = TERM(1, 2, 0x01) },
    { "D15/read-on-qn-2", 0x41, IW_READ_REQ, 2, 1, 0, 28,
      .term = TERM(1, 2, 0x01) },
    { "D15/read-on-qn-max", 0x41, IW_READ_REQ, UINT32_MAX, 1, 0, 28,
      .term = TERM(1, 2, 0x01) },

    { "D16/msn-0", 0x41, IW_SEND, 0, 0, 0, 8, .term = TERM(1, 2, 0x03) },
    { "D16/msn-2", 0x41, IW_SEND, 0, 2, 0, 8, .term = TERM(1, 2, 0x03) },
    { "D16/msn-max", 0x41, IW_SEND, 0, UINT32_MAX, 0, 8,
      .term = TERM(1, 2, 0x03) },
    { "D16/large-with-msn-2", 0x41, IW_SEND, 0, 2, 0, 1024,
      .term = TERM(1, 2, 0x03) },

    { "D19/no-receive", 0x41, IW_SEND, 0, 1, 0, 8, .term = TERM(1, 2, 0x02),
      .none = true },
    { "D19/no-receive-and-not-last", 0x01, IW_SEND, 0, 1, 0, 8,
      .term = TERM(1, 2, 0x02), .none = true },
    { "D19/no-receive-for-a-large-one", 0x41, IW_SEND, 0, 1, 0, 60000,
      .term = TERM(1, 2, 0x02), .none = true },
    { "D20/empty-and-no-receive", 0x41, IW_SEND, 0, 1, 0, 0,
      .term = TERM(1, 2, 0x02), .none = true },

    { "D21/one-too-long", 0x41, IW_SEND, 0, 1, 0, 1025,
      .term = TERM(1, 2, 0x05) },
    { "D21/one-too-long-and-not-last", 0x01, IW_SEND, 0, 1, 0, 1025,
      .term = TERM(1, 2, 0x05) },
    { "D21/much-too-long", 0x41, IW_SEND, 0, 1, 0, 60000,
      .term = TERM(1, 2, 0x05) },
    { "D21/second-segment-too-long", 0x41, IW_SEND, 0, 1, 10, 1015,
      .term = TERM(1, 2, 0x05), .first = 10 },

    { "D22/mo-near-4-gib", 0x41, IW_SEND, 0, 1, 0xfffffff0, 32,
      .term = TERM(1, 2, 0x04) },
    { "D22/mo-near-4-gib-not-last", 0x01, IW_SEND, 0, 1, 0xfffffff0, 32,
      .term = TERM(1, 2, 0x04) },
    { "D22/mo-near-4-gib-second", 0x41, IW_SEND, 0, 1, 0xfffffff0, 32,
      .term = TERM(1, 2, 0x04), .first = 10 },
    { "D22/mo-near-4-gib-large", 0x41, IW_SEND, 0, 1, 0xffffff00, 60000,
      .term = TERM(1, 2, 0x04), .first = 10 },

    { "D23/gap", 0x41, IW_SEND, 0, 1, 11, 5, .term = TERM(1, 2, 0x04),
      .first = 10 },
    { "D23/overlap", 0x41, IW_SEND, 0, 1, 9, 5, .term = TERM(1, 2, 0x04),
      .first = 10 },
    { "D23/again", 0x01, IW_SEND, 0, 1, 0, 10, .term = TERM(1, 2, 0x04),
      .first = 10 },
    { "D24/mo-4-first", 0x41, IW_SEND, 0, 1, 4, 8, .term = TERM(1, 2, 0x04) },
    { "D25/empty-and-not-last", 0x01, IW_SEND, 0, 1, 0, 0,
      .term = TERM(1, 2, 0x04) },
    { "D25/empty-and-not-last-second", 0x01, IW_SEND, 0, 1, 10, 0,
      .term = TERM(1, 2, 0x04), .first = 10 },

    { "D26/dv-0", 0x40, IW_SEND, 0, 1, 0, 8, .term = TERM(1, 2, 0x06) },
    { "D26/dv-2", 0x42, IW_SEND, 0, 1, 0, 8, .term = TERM(1, 2, 0x06) },
    { "D26/dv-3", 0x43, IW_SEND, 0, 1, 0, 8, .term = TERM(1, 2, 0x06) },
    { "D26/read-with-dv-0", 0x40, IW_READ_REQ, 1, 1, 0, 28,
      .term = TERM(1, 2, 0x06) },

    { "D28/next-message-begins", 0x41, IW_SEND, 0, 2, 0, 5,
      .term = TERM(1, 2, 0x03), .first = 10 },
    { "D28/next-message-goes-on", 0x41, IW_SEND, 0, 2, 10, 5,
      .term = TERM(1, 2, 0x03), .first = 10 },

    { "R24/rv-0", 0x41, 0x03, 0, 1, 0, 8, .term = TERM(0, 2, 0x05) },
    { "R24/rv-2", 0x41, 0x83, 0, 1, 0, 8, .term = TERM(0, 2, 0x05) },
    { "R24/rv-3", 0x41, 0xc3, 0, 1, 0, 8, .term = TERM(0, 2, 0x05) },
    { "R24/read-with-rv-0", 0x41, 0x01, 1, 1, 0, 28, .term = TERM(0, 2, 0x05) },
    /* Those of RFC 7306 are off here */
    { "R25/opcode-8", 0x41, 0x48, 0, 1, 0, 8, .term = TERM(0, 2, 0x06) },
    { "R25/opcode-9", 0x41, 0x49, 0, 1, 0, 8, .term = TERM(0, 2, 0x06) },
    { "R25/opcode-10", 0x41, 0x4a, 1, 1, 0, 52, .term = TERM(0, 2, 0x06) },
    { "R25/opcode-11", 0x41, 0x4b, 3, 1, 0, 12, .term = TERM(0, 2, 0x06) },
    { "R25/opcode-12", 0x41, 0x4c, 0, 1, 0, 8, .term = TERM(0, 2, 0x06) },
    { "R25/opcode-13", 0x41, 0x4d, 0, 1, 0, 8, .term = TERM(0, 2, 0x06) },
    { "R25/opcode-14", 0x41, 0x4e, 0, 1, 0, 8, .term = TERM(0, 2, 0x06) },
    { "R25/opcode-15", 0x41, 0x4f, 0, 1, 0, 8, .term = TERM(0, 2, 0x06) },
    { "R26/untagged-write", 0x41, IW_WRITE, 0, 1, 0, 8,
      .term = TERM(0, 2, 0x06) },
    { "R26/untagged-read-response", 0x41, IW_READ_RSP, 1, 1, 0, 8,
      .term = TERM(0, 2, 0x06) },
};

static void refuse_row(gconstpointer opaque, bool crc)
{
    g_autofree uint8_t *ulpdu = g_malloc0(65536);
    g_autofree uint8_t *payload = g_malloc(65536);
    const struct row *row = opaque;
    uint8_t term[70];
    struct iw_peer p;
    size_t len;

    iw_start_crc(&p, crc);
    memset(payload, 0x77, 65536);
    if (!row->none) {
        iw_post_recv(&p, 1, 0, RECV_LEN);
        iw_post_recv(&p, 2, 2 * RECV_LEN, RECV_LEN);
    }
    if (row->first) {
        /* These are placed: they are all right */
        iw_allow(&p, 0, row->first);
        iw_send(&p, ulpdu,
                iw_untagged(ulpdu, NOT_LAST, IW_SEND, 0, 0, 1, 0, payload,
                            row->first));
    }
    len = iw_untagged(ulpdu, row->ddp, row->rdmap, 0, row->qn, row->msn,
                      row->mo, payload, row->len);
    iw_send(&p, ulpdu, len);
    /* D30: what comes behind it is dropped, good and bad ones */
    iw_send_message(&p, 1, 10);
    iw_send_message(&p, 7, 3000);
    if (row->term == TERM(1, 2, 0x05)) {
        p.oracle.recv_status = RNIC_WC_LOC_LEN_ERR;
    }
    iw_expect_refused(&p, row->term >> 16, row->term >> 8 & 15, row->term,
                      term);
    /* M and D; the segment's length, and its header */
    g_assert_cmphex(term[20], ==, 0xc0);
    g_assert_cmphex(term[21], ==, 0);
    g_assert_cmpuint(iw_get(term + 22, 2), ==, len);
    g_assert_cmpmem(term + 24, 18, ulpdu, 18);
    g_assert_cmpuint(th_stat(p.guest, RNIC_STAT_rx_no_receive), ==, row->none);
    iw_free(&p);
}

/* ---- A peer that goes on and on ---- */

/* Others are served while one peer sends empty Writes that never end */
static void test_endless_empty_writes(gconstpointer crc)
{
    g_autofree uint8_t *octets = g_malloc(1 << 20);
    uint8_t ulpdu[64];
    struct iw_peer p;
    size_t len, all = 0;
    unsigned i;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    len = iw_tagged(ulpdu, 0x81, IW_WRITE, 1, 2, NULL, 0);
    for (i = 0; i < 5000; i++) {
        all += iw_fpdu(&p, octets + all, ulpdu, len);
    }
    for (i = 0; i < 8; i++) {
        raw_send_whole(p.fd, octets, all);
        iw_connect_again(&p);
    }
    len = iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, 1, 2, NULL, 0);
    iw_send(&p, ulpdu, len);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

/* One octet a segment, for as long as the receive has room */
static void test_message_of_many_small_segments(gconstpointer crc)
{
    g_autofree uint8_t *octets = g_malloc(1 << 20);
    uint8_t ulpdu[64];
    struct iw_peer p;
    size_t all = 0;
    unsigned i;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_allow(&p, 0, RECV_LEN);
    iw_post_recv(&p, 1, 0, RECV_LEN);
    for (i = 0; i <= RECV_LEN; i++) {
        all +=
            iw_fpdu(&p, octets + all, ulpdu,
                    iw_untagged(ulpdu, NOT_LAST, IW_SEND, 0, 0, 1, i, "x", 1));
    }
    raw_send_whole(p.fd, octets, all);
    p.oracle.recv_status = RNIC_WC_LOC_LEN_ERR;
    iw_expect_refused(&p, 1, 2, 0x05, NULL);
    iw_free(&p);
}

int main(int argc, char **argv)
{
    unsigned i;

    g_test_init(&argc, &argv, NULL);
    iw_add("D01/three-segments", test_send_in_three_segments);
    iw_add("D01/last-segment-is-empty", test_last_segment_is_empty);
    iw_add("D02/empty-send", test_empty_send_takes_a_receive);
    iw_add("D17/msn-repeated", test_msn_repeated);
    iw_add("D18/msn-wraps", test_msn_wraps);
    iw_add("D18/read-msn-wraps", test_read_msn_wraps);
    iw_add("D18/own-msns-wrap", test_own_msns_wrap);
    iw_add("D21/just-fits", test_send_fills_the_receive);
    iw_add("D21/large-one-just-fits", test_large_send_fills_the_receive);
    iw_add("D25/endless-empty-writes", test_endless_empty_writes);
    iw_add("D25/many-small-segments", test_message_of_many_small_segments);
    iw_add("D27/reserved-bits", test_reserved_bits);
    for (i = 0; i < G_N_ELEMENTS(rows); i++) {
        iw_add_row(rows[i].name, &rows[i], refuse_row);
    }
    return g_test_run();
}
