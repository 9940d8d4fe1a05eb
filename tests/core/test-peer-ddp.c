/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DDP segments, valid and hostile, as a peer may send them
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

/* ---- Untagged segments ---- */

static void test_send_in_three_segments(gconstpointer crc)
{
    uint8_t ulpdu[512], payload[300];
    struct iw_peer p;

    start(&p, crc);
    th_fill(payload, sizeof(payload), 3);
    iw_post_recv(&p, 1, 7, 300);
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, 0x01, IW_SEND, 0, 0, 1, 0, payload, 101));
    /* A Write between them does no harm */
    iw_send(&p, ulpdu,
            iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag, PEER_IOVA + 1000,
                      payload, 50));
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, 0x01, IW_SEND, 0, 0, 1, 101, payload + 101, 99));
    iw_send(
        &p, ulpdu,
        iw_untagged(ulpdu, 0x41, IW_SEND, 0, 0, 1, 200, payload + 200, 100));
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 300);
    th_check_filled(p.buf.ptr + 7, 300, 3);
    th_check_filled(p.buf.ptr + 1000, 50, 3);
    iw_free(&p);
}

/* One untagged segment, behind the valid ones that @setup sends */
static const struct untagged_row {
    const char *name;
    uint8_t ddp, rdmap;
    uint32_t qn, msn, mo;
    uint16_t len;
    uint8_t layer, etype, code;
} untagged_rows[] = {
    { "send-on-qn-1", 0x41, IW_SEND, 1, 1, 0, 8, 1, 2, 0x01 },
    { "send-on-qn-2", 0x41, IW_SEND, 2, 1, 0, 8, 1, 2, 0x01 },
    { "send-on-qn-3", 0x41, IW_SEND, 3, 1, 0, 8, 1, 2, 0x01 },
    { "send-on-qn-4", 0x41, IW_SEND, 4, 1, 0, 8, 1, 2, 0x01 },
    { "send-on-qn-max", 0x41, IW_SEND, UINT32_MAX, 1, 0, 8, 1, 2, 0x01 },
    { "read-on-qn-0", 0x41, IW_READ_REQ, 0, 1, 0, 28, 1, 2, 0x01 },
    { "msn-0", 0x41, IW_SEND, 0, 0, 0, 8, 1, 2, 0x03 },
    { "msn-2-first", 0x41, IW_SEND, 0, 2, 0, 8, 1, 2, 0x03 },
    { "read-msn-2-first", 0x41, IW_READ_REQ, 1, 2, 0, 28, 1, 2, 0x03 },
    { "mo-4-first", 0x41, IW_SEND, 0, 1, 4, 8, 1, 2, 0x04 },
    { "mo-near-4-gib", 0x41, IW_SEND, 0, 1, 0xfffffff0, 32, 1, 2, 0x04 },
    { "read-mo", 0x41, IW_READ_REQ, 1, 1, 4, 28, 1, 2, 0x04 },
    { "read-not-last", 0x01, IW_READ_REQ, 1, 1, 0, 28, 1, 2, 0x04 },
    { "empty-and-not-last", 0x01, IW_SEND, 0, 1, 0, 0, 1, 2, 0x04 },
    { "too-long", 0x41, IW_SEND, 0, 1, 0, 101, 1, 2, 0x05 },
    { "dv-0", 0x40, IW_SEND, 0, 1, 0, 8, 1, 2, 0x06 },
    { "dv-2", 0x42, IW_SEND, 0, 1, 0, 8, 1, 2, 0x06 },
    { "dv-3", 0x43, IW_SEND, 0, 1, 0, 8, 1, 2, 0x06 },
    { "rv-0", 0x41, 0x03, 0, 1, 0, 8, 0, 2, 0x05 },
    { "rv-2", 0x41, 0x83, 0, 1, 0, 8, 0, 2, 0x05 },
    { "opcode-8", 0x41, 0x48, 0, 1, 0, 8, 0, 2, 0x06 },
    { "opcode-10", 0x41, 0x4a, 1, 1, 0, 52, 0, 2, 0x06 },
    { "opcode-12", 0x41, 0x4c, 0, 1, 0, 8, 0, 2, 0x06 },
    { "opcode-15", 0x41, 0x4f, 0, 1, 0, 8, 0, 2, 0x06 },
    { "untagged-write", 0x41, IW_WRITE, 0, 1, 0, 8, 0, 2, 0x06 },
    { "tagged-send", 0xc1, IW_SEND, 0, 1, 0, 8, 0, 2, 0x06 },
};

static void untagged_row(const struct untagged_row *row, bool crc)
{
    uint8_t ulpdu[256], term[70];
    uint8_t payload[128] = { 0 };
    struct iw_peer p;
    size_t len;

    start(&p, GINT_TO_POINTER(crc));
    iw_post_recv(&p, 1, 0, 100);
    len = iw_untagged(ulpdu, row->ddp, row->rdmap, 0, row->qn, row->msn,
                      row->mo, payload, row->len);
    iw_send(&p, ulpdu, len);
    /* And it goes on */
    iw_send_message(&p, 1, 10);
    iw_expect_term(&p, row->layer, row->etype, row->code, term);
    iw_wait_recv(&p, 1,
                 row->code == 0x05 && row->layer == 1 ? RNIC_WC_LOC_LEN_ERR
                                                      : RNIC_WC_WR_FLUSH_ERR,
                 0);
    check_untouched(&p, 0, PEER_BUF);
    if (row->layer == 1 && row->ddp != 0xc1) {
        /* M, D: segment length and header of the offender */
        g_assert_cmphex(term[20], ==, 0xc0);
        g_assert_cmpuint(term[22] << 8 | term[23], ==, len);
        g_assert_cmpmem(term + 24, 18, ulpdu, 18);
    }
    iw_free(&p);
}

static void test_untagged_crc_off(gconstpointer data)
{
    untagged_row(data, false);
}

static void test_untagged_crc_on(gconstpointer data)
{
    untagged_row(data, true);
}

/* Segments of a message that do not follow each other */
static void test_second_segment_does_not_fit(gconstpointer crc)
{
    static const struct {
        uint32_t msn, mo;
        uint16_t len;
        uint8_t code;
    } rows[] = {
        { 1, 11, 5, 0x04 },  /* gap */
        { 1, 9, 5, 0x04 },   /* overlap */
        { 1, 0, 5, 0x04 },   /* again */
        { 2, 0, 5, 0x03 },   /* the next message begins */
        { 1, 10, 91, 0x05 }, /* beyond the receive */
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(rows); i++) {
        uint8_t ulpdu[256], payload[100] = { 0 };
        struct iw_peer p;

        start(&p, crc);
        iw_post_recv(&p, 1, 0, 100);
        iw_post_recv(&p, 2, 200, 100);
        iw_send(&p, ulpdu,
                iw_untagged(ulpdu, 0x01, IW_SEND, 0, 0, 1, 0, payload, 10));
        iw_send(&p, ulpdu,
                iw_untagged(ulpdu, 0x41, IW_SEND, 0, 0, rows[i].msn, rows[i].mo,
                            payload, rows[i].len));
        iw_expect_term(&p, 1, 2, rows[i].code, NULL);
        check_untouched(&p, 10, PEER_BUF);
        iw_wait_recv(
            &p, 1,
            rows[i].code == 5 ? RNIC_WC_LOC_LEN_ERR : RNIC_WC_WR_FLUSH_ERR, 0);
        iw_wait_recv(&p, 2, RNIC_WC_WR_FLUSH_ERR, 0);
        iw_free(&p);
    }
}

static void test_msn_repeated(gconstpointer crc)
{
    struct iw_peer p;

    start(&p, crc);
    iw_post_recv(&p, 1, 0, 100);
    iw_post_recv(&p, 2, 0, 100);
    iw_send_message(&p, 1, 10);
    iw_send_message(&p, 1, 10);
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 10);
    iw_expect_term(&p, 1, 2, 0x03, NULL);
    iw_wait_recv(&p, 2, RNIC_WC_WR_FLUSH_ERR, 0);
    iw_free(&p);
}

static void test_reserved_bits_are_ignored(gconstpointer crc)
{
    uint8_t ulpdu[64];
    struct iw_peer p;

    start(&p, crc);
    iw_post_recv(&p, 1, 0, 100);
    /* Reserved bits of both control octets, an Invalidate STag in a Send */
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, 0x7d, 0x73, 0x12345678, 0, 1, 0, "hello", 5));
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 5);
    iw_free(&p);
}

/* ---- Tagged segments ---- */

static void test_empty_write_looks_at_nothing(gconstpointer crc)
{
    uint8_t ulpdu[64];
    struct iw_peer p;

    start(&p, crc);
    iw_post_recv(&p, 1, 0, 0);
    iw_send(
        &p, ulpdu,
        iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, 0xdeadbeef, UINT64_MAX, NULL, 0));
    iw_send_message(&p, 1, 0);
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 0);
    iw_free(&p);
}

static void test_second_write_segment_out_of_bounds(gconstpointer crc)
{
    uint8_t ulpdu[256], payload[100];
    struct iw_peer p;

    start(&p, crc);
    th_fill(payload, 100, 1);
    iw_send(&p, ulpdu,
            iw_tagged(ulpdu, 0x81, IW_WRITE, p.stag, PEER_IOVA + PEER_BUF - 50,
                      payload, 50));
    iw_send(&p, ulpdu,
            iw_tagged(ulpdu, 0xc1, IW_WRITE, p.stag, PEER_IOVA + PEER_BUF,
                      payload + 50, 50));
    iw_expect_term(&p, 1, 1, 0x01, NULL);
    check_untouched(&p, 0, PEER_BUF - 50);
    th_check_filled(p.buf.ptr + PEER_BUF - 50, 50, 1);
    iw_free(&p);
}

static void test_tagged_versions(gconstpointer crc)
{
    static const uint8_t ddp[] = { 0xc0, 0xc2, 0xc3 };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(ddp); i++) {
        uint8_t ulpdu[64];
        struct iw_peer p;

        start(&p, crc);
        iw_send(&p, ulpdu,
                iw_tagged(ulpdu, ddp[i], IW_WRITE, p.stag, PEER_IOVA, "x", 1));
        iw_expect_term(&p, 1, 1, 0x04, NULL);
        check_untouched(&p, 0, PEER_BUF);
        iw_free(&p);
    }
}

static void test_peer_that_goes_on_after_an_error(gconstpointer crc)
{
    g_autofree uint8_t *ulpdu = g_malloc(65536);
    g_autofree uint8_t *payload = g_malloc0(60000);
    struct iw_peer p;
    unsigned i;

    start(&p, crc);
    iw_send(&p, ulpdu,
            iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag ^ 1, PEER_IOVA,
                      payload, 60000));
    for (i = 0; i < 20; i++) {
        iw_send(&p, ulpdu,
                iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag, PEER_IOVA,
                          payload, 60000));
    }
    iw_expect_term(&p, 1, 1, 0x00, NULL);
    check_untouched(&p, 0, PEER_BUF);
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
    unsigned i;

    g_test_init(&argc, &argv, NULL);
    add("send-in-three-segments", test_send_in_three_segments);
    for (i = 0; i < G_N_ELEMENTS(untagged_rows); i++) {
        const struct untagged_row *row = &untagged_rows[i];
        g_autofree char *off = g_strdup_printf("/peer/crc-off/%s", row->name);
        g_autofree char *on = g_strdup_printf("/peer/crc-on/%s", row->name);

        g_test_add_data_func(off, row, test_untagged_crc_off);
        g_test_add_data_func(on, row, test_untagged_crc_on);
    }
    add("second-segment-does-not-fit", test_second_segment_does_not_fit);
    add("msn-repeated", test_msn_repeated);
    add("reserved-bits-are-ignored", test_reserved_bits_are_ignored);
    add("empty-write", test_empty_write_looks_at_nothing);
    add("second-write-segment-out-of-bounds",
        test_second_write_segment_out_of_bounds);
    add("tagged-versions", test_tagged_versions);
    add("peer-goes-on-after-an-error", test_peer_that_goes_on_after_an_error);
    return g_test_run();
}
