/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RDMA Reads of a peer, valid and hostile: R03 to R14
 */
#include "iwarp-peer.h"
#include "raw-peer.h"

#include <string.h>

#define SINK      0xaabbcc01u
#define SINK_TO   0x0123456789abcdefull
#define END       (PEER_IOVA + PEER_BUF)
#define NOT_LAST  0x01
/* More than TCP holds while the peer does not read */
#define LONG_READ (24u << 20)

static void request(struct iw_peer *p, uint32_t msn, uint32_t size,
                    uint32_t stag, uint64_t to)
{
    uint8_t ulpdu[64];

    iw_send(p, ulpdu,
            iw_read_request(ulpdu, msn, SINK, SINK_TO, size, stag, to));
}

/* A whole response of @size octets, to @octets, in as many segments as it has;
 * returns the number */
static unsigned response(struct iw_peer *p, uint32_t sink, uint64_t sink_to,
                         uint8_t *octets, uint32_t size)
{
    g_autofree uint8_t *ulpdu = g_malloc(PEER_FPDU_MAX);
    unsigned segments = 0;
    uint32_t got = 0;

    do {
        size_t n = iw_recv(p, ulpdu) - 14;

        g_assert_cmphex(ulpdu[1], ==, IW_READ_RSP);
        g_assert_cmphex(iw_get(ulpdu + 2, 4), ==, sink);
        g_assert_cmphex(iw_get(ulpdu + 6, 8), ==, sink_to + got);
        g_assert_cmpuint(n, <=, size - got);
        if (n) {
            memcpy(octets + got, ulpdu + 14, n);
        }
        got += n;
        /* L with the last only */
        g_assert_cmphex(ulpdu[0], ==, got == size ? IW_TAGGED : 0x81);
        /* Without a pad, but for the last */
        g_assert_true(got == size || n % 4 == 0);
        segments++;
    } while (got < size);
    return segments;
}

/* A region of its own, of many octets */
static uint32_t long_region(struct iw_peer *p, uint32_t len, struct th_buf *buf)
{
    *buf = th_buf_new(p->guest, len, 0, 0);
    th_fill(buf->ptr, len, 9);
    return th_reg_mr(p->guest, buf, 0, RNIC_ACCESS_REMOTE_READ);
}

/* ---- Valid ones ---- */

static void test_response_carries_the_sink_verbatim(gconstpointer crc)
{
    uint8_t octets[16];
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    th_fill(p.buf.ptr + 100, 16, 7);
    iw_watch(&p);
    request(&p, 1, 16, p.stag, PEER_IOVA + 100);
    g_assert_cmpuint(response(&p, SINK, SINK_TO, octets, 16), ==, 1);
    th_check_filled(octets, 16, 7);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

static void test_long_read_is_segmented(gconstpointer crc)
{
    g_autofree uint8_t *octets = g_malloc(1 << 20);
    struct th_buf buf;
    struct iw_peer p;
    uint32_t stag;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    stag = long_region(&p, 1 << 20, &buf);
    request(&p, 1, 1 << 20, stag, 0);
    g_assert_cmpuint(response(&p, SINK, SINK_TO, octets, 1 << 20), >=, 17);
    th_check_filled(octets, 1 << 20, 9);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

static void test_empty_read_looks_at_nothing(gconstpointer crc)
{
    static const struct {
        enum iw_stag stag;
        uint64_t to;
    } sources[] = {
        { IW_STAG_WRONG_INDEX, UINT64_MAX },
        { IW_STAG_NONE, 0 },
        { IW_STAG_OWN, END + 1 },
        { IW_STAG_OTHER_PD, PEER_IOVA },
        { IW_STAG_WRITE_ONLY, PEER_IOVA },
        { IW_STAG_LOCAL_ONLY, PEER_IOVA },
        { IW_STAG_DEREGISTERED, PEER_IOVA },
        { IW_STAG_INVALIDATED, PEER_IOVA },
        { IW_STAG_FAST_WRITE_ONLY, PEER_IOVA + IW_FAST_LEN + 1 },
    };
    struct iw_peer p;
    unsigned i;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    for (i = 0; i < G_N_ELEMENTS(sources); i++) {
        request(&p, i + 1, 0, iw_stag_of(&p, sources[i].stag), sources[i].to);
        response(&p, SINK, SINK_TO, NULL, 0);
    }
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

static void test_read_of_the_last_octet_of_a_fast_region(gconstpointer crc)
{
    struct iw_peer p;
    uint8_t octet;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    p.buf.ptr[IW_FAST_LEN - 1] = 0x42;
    iw_watch(&p);
    request(&p, 1, 1, iw_stag_of(&p, IW_STAG_FAST),
            PEER_IOVA + IW_FAST_LEN - 1);
    response(&p, SINK, SINK_TO, &octet, 1);
    g_assert_cmphex(octet, ==, 0x42);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

static void test_read_of_the_last_octet(gconstpointer crc)
{
    struct iw_peer p;
    uint8_t octet;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    p.buf.ptr[PEER_BUF - 1] = 0x42;
    iw_watch(&p);
    request(&p, 1, 1, p.stag, END - 1);
    response(&p, SINK, SINK_TO, &octet, 1);
    g_assert_cmphex(octet, ==, 0x42);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

/* The sink is not of this device, whatever its name */
static void test_sinks_of_nothing(gconstpointer crc)
{
    uint8_t ulpdu[64], octet;
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    const struct {
        uint32_t stag;
        uint64_t to;
    } sinks[] = {
        { 0, 0 },
        { UINT32_MAX, UINT64_MAX },
        { p.stag, PEER_IOVA + 7 },
        { p.stag ^ 1, 5 },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(sinks); i++) {
        iw_send(&p, ulpdu,
                iw_read_request(ulpdu, i + 1, sinks[i].stag, sinks[i].to, 1,
                                p.stag, PEER_IOVA));
        response(&p, sinks[i].stag, sinks[i].to, &octet, 1);
        g_assert_cmphex(octet, ==, 0xee);
    }
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

/* ---- Sources that may not be read ---- */

static const struct row {
    const char *name;
    enum iw_stag stag;
    uint64_t to;
    uint32_t size;
    uint8_t code;
} rows[] = {
    { "R06/4-gib", IW_STAG_OWN, PEER_IOVA, UINT32_MAX, 0x01 },
    { "R07/one-past-the-end", IW_STAG_OWN, PEER_IOVA, PEER_BUF + 1, 0x01 },
    { "R07/at-the-end", IW_STAG_OWN, END, 1, 0x01 },
    { "R07/before-the-start", IW_STAG_OWN, PEER_IOVA - 1, 16, 0x01 },
    { "R07/4-gib-away", IW_STAG_OWN, PEER_IOVA + (1ull << 32), 16, 0x01 },
    { "R07/far-away", IW_STAG_OWN, PEER_IOVA + (1ull << 63), 16, 0x01 },
    { "R07/one-past-the-end-of-a-fast-region", IW_STAG_FAST, PEER_IOVA,
      IW_FAST_LEN + 1, 0x01 },
    { "R08/wraps", IW_STAG_OWN, -8ull, 16, 0x04 },
    { "R08/ends-at-2-to-the-64", IW_STAG_OWN, -16ull, 16, 0x04 },
    { "R08/4-gib-that-wrap", IW_STAG_OWN, -8ull, UINT32_MAX, 0x04 },
    { "R09/unknown-stag", IW_STAG_WRONG_INDEX, PEER_IOVA, 16, 0x00 },
    { "R09/wrong-key", IW_STAG_WRONG_KEY, PEER_IOVA, 16, 0x00 },
    { "R09/deregistered", IW_STAG_DEREGISTERED, PEER_IOVA, 16, 0x00 },
    { "R09/not-registered-yet", IW_STAG_NOT_VALID, PEER_IOVA, 16, 0x00 },
    { "R09/invalidated-by-its-owner", IW_STAG_INVALIDATED, PEER_IOVA, 16,
      0x00 },
    { "R09/invalidated-by-the-peer", IW_STAG_TAKEN_BACK, PEER_IOVA, 16, 0x00 },
    { "R09/old-key-of-a-fast-region", IW_STAG_FAST_OLD_KEY, PEER_IOVA, 16,
      0x00 },
    { "R09/stag-0", IW_STAG_NONE, PEER_IOVA, 16, 0x00 },
    { "R09/stag-0-and-a-dma-address", IW_STAG_NONE, TH_BASE, 16, 0x00 },
    { "R09/another-pd", IW_STAG_OTHER_PD, PEER_IOVA, 16, 0x03 },
    { "R09/region-for-writing", IW_STAG_WRITE_ONLY, PEER_IOVA, 16, 0x02 },
    { "R09/fast-region-for-writing", IW_STAG_FAST_WRITE_ONLY, PEER_IOVA, 16,
      0x02 },
    { "R09/region-for-local-use", IW_STAG_LOCAL_ONLY, PEER_IOVA, 16, 0x02 },
};

static void refuse_row(gconstpointer opaque, bool crc)
{
    const struct row *row = opaque;
    uint8_t ulpdu[64], octets[16], term[70];
    struct iw_peer p;
    uint32_t stag;
    size_t len;

    iw_start_crc(&p, crc);
    stag = iw_stag_of(&p, row->stag);
    iw_post_recv(&p, 1, 0, 100);
    /* The good one before it is answered, the one behind it is not */
    request(&p, 1, 16, p.stag, PEER_IOVA);
    len = iw_read_request(ulpdu, 2, SINK, SINK_TO, row->size, stag, row->to);
    iw_send(&p, ulpdu, len);
    request(&p, 3, 16, p.stag, PEER_IOVA);
    response(&p, SINK, SINK_TO, octets, 16);
    iw_expect_refused(&p, 0, 1, row->code, term);
    /* M, D and R; the segment's length, and both headers */
    g_assert_cmphex(term[20], ==, 0xe0);
    g_assert_cmphex(term[21], ==, 0);
    g_assert_cmpuint(iw_get(term + 22, 2), ==, 46);
    g_assert_cmpmem(term + 24, 46, ulpdu, 46);
    iw_free(&p);
}

/* RFC 5040 section 4.8: the Terminate tells what was not sent any more */
static void test_region_that_goes_while_it_is_read(gconstpointer crc)
{
    g_autofree uint8_t *ulpdu = g_malloc(PEER_FPDU_MAX);
    struct th_buf buf;
    struct iw_peer p;
    uint32_t stag;
    uint64_t got = 0;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    stag = long_region(&p, LONG_READ, &buf);
    request(&p, 1, LONG_READ, stag, 0);
    th_wait(th_stat(p.guest, RNIC_STAT_tx_fpdus) > 0);
    th_dereg_mr(p.guest, stag);
    for (;;) {
        size_t len = iw_recv(&p, ulpdu);

        if (ulpdu[1] == IW_TERM) {
            break;
        }
        g_assert_cmphex(ulpdu[1], ==, IW_READ_RSP);
        g_assert_cmphex(iw_get(ulpdu + 6, 8), ==, SINK_TO + got);
        got += len - 14;
    }
    g_assert_cmpuint(got, <, LONG_READ);
    g_assert_cmphex(ulpdu[18], ==, 0x01);
    g_assert_cmphex(ulpdu[19], ==, 0x00);
    g_assert_cmphex(ulpdu[20], ==, 0xe0);
    g_assert_cmphex(iw_get(ulpdu + 24 + 18, 4), ==, SINK);
    g_assert_cmphex(iw_get(ulpdu + 24 + 22, 8), ==, SINK_TO + got);
    g_assert_cmphex(iw_get(ulpdu + 24 + 30, 4), ==, LONG_READ - got);
    g_assert_cmphex(iw_get(ulpdu + 24 + 34, 4), ==, stag);
    g_assert_cmphex(iw_get(ulpdu + 24 + 38, 8), ==, got);
    g_assert_false(raw_closed(p.fd, NULL));
    iw_expect_error(&p);
    iw_check_after(&p);
    iw_free(&p);
}

/* ---- How many at a time ---- */

static void start_with_ird(struct iw_peer *p, bool crc, uint16_t ird)
{
    struct iw_options options;

    iw_options_init(&options, crc);
    options.ird = ird;
    iw_start(p, &options);
}

static void test_ird_reads_at_once_again_and_again(gconstpointer crc)
{
    uint8_t octets[4096], ulpdu[64], read[32];
    struct iw_peer p;
    uint32_t msn = 1;
    unsigned i, j;

    start_with_ird(&p, GPOINTER_TO_INT(crc), 4);
    for (j = 0; j < 20; j++) {
        size_t len = 0;

        for (i = 0; i < 4; i++) {
            iw_read_request(ulpdu, msn++, SINK + i, i, 16 + i, p.stag,
                            PEER_IOVA);
            len += iw_fpdu(&p, octets + len, ulpdu, 46);
        }
        raw_send(p.fd, octets, len);
        /* In order */
        for (i = 0; i < 4; i++) {
            response(&p, SINK + i, i, read, 16 + i);
        }
    }
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

/* The first one is not finished, since the peer does not read */
static void test_more_reads_than_ird(gconstpointer crc)
{
    uint8_t ulpdu[64], term[70];
    struct th_buf buf;
    struct iw_peer p;
    uint32_t stag;
    unsigned i;

    start_with_ird(&p, GPOINTER_TO_INT(crc), 4);
    stag = long_region(&p, LONG_READ, &buf);
    request(&p, 1, LONG_READ, stag, 0);
    for (i = 2; i <= 4; i++) {
        request(&p, i, 16, stag, 0);
    }
    th_run_for(20);
    g_assert_cmpuint(th_qp_state(p.qp), ==, RNIC_QPS_RTS);
    iw_read_request(ulpdu, 5, SINK, 0, 16, p.stag, PEER_IOVA);
    iw_send(&p, ulpdu, 46);
    iw_expect_refused(&p, 1, 2, 0x02, term);
    g_assert_cmphex(term[20], ==, 0xc0);
    g_assert_cmpuint(iw_get(term + 22, 2), ==, 46);
    g_assert_cmpmem(term + 24, 18, ulpdu, 18);
    iw_free(&p);
}

static void test_read_with_ird_0(gconstpointer crc)
{
    struct iw_peer p;

    start_with_ird(&p, GPOINTER_TO_INT(crc), 0);
    request(&p, 1, 16, p.stag, PEER_IOVA);
    iw_expect_refused(&p, 1, 2, 0x02, NULL);
    iw_free(&p);
}

static void test_empty_read_with_ird_0(gconstpointer crc)
{
    struct iw_peer p;

    start_with_ird(&p, GPOINTER_TO_INT(crc), 0);
    request(&p, 1, 0, 1, 0);
    iw_expect_refused(&p, 1, 2, 0x02, NULL);
    iw_free(&p);
}

/* ---- Headers of the request ---- */

/* Behind one good request */
static const struct header_row {
    const char *name;
    uint8_t ddp;
    uint32_t msn, mo;
    uint8_t code;
} header_rows[] = {
    { "R12/msn-0", IW_UNTAGGED, 0, 0, 0x03 },
    { "R12/msn-gap", IW_UNTAGGED, 3, 0, 0x03 },
    { "R12/msn-repeated", IW_UNTAGGED, 1, 0, 0x03 },
    { "R13/not-last", NOT_LAST, 2, 0, 0x04 },
    { "R13/mo", IW_UNTAGGED, 2, 4, 0x04 },
    { "R13/mo-near-4-gib", IW_UNTAGGED, 2, 0xfffffffc, 0x04 },
    { "R13/mo-and-not-last", NOT_LAST, 2, 4, 0x04 },
};

static void refuse_header(gconstpointer opaque, bool crc)
{
    const struct header_row *row = opaque;
    uint8_t ulpdu[64], octets[16], term[70];
    struct iw_peer p;

    iw_start_crc(&p, crc);
    request(&p, 1, 16, p.stag, PEER_IOVA);
    response(&p, SINK, SINK_TO, octets, 16);
    iw_read_request(ulpdu, row->msn, SINK, SINK_TO, 16, p.stag, PEER_IOVA);
    ulpdu[0] = row->ddp;
    ulpdu[14] = row->mo >> 24;
    ulpdu[15] = row->mo >> 16;
    ulpdu[16] = row->mo >> 8;
    ulpdu[17] = row->mo;
    iw_send(&p, ulpdu, 46);
    iw_expect_refused(&p, 1, 2, row->code, term);
    g_assert_cmphex(term[20], ==, 0xc0);
    g_assert_cmpuint(iw_get(term + 22, 2), ==, 46);
    g_assert_cmpmem(term + 24, 18, ulpdu, 18);
    /* It was not executed */
    g_assert_cmpuint(th_stat(p.guest, RNIC_STAT_tx_fpdus), ==, 2);
    iw_free(&p);
}

int main(int argc, char **argv)
{
    unsigned i;

    g_test_init(&argc, &argv, NULL);
    iw_add("R03-R14/sink-verbatim", test_response_carries_the_sink_verbatim);
    iw_add("R04/1-mib", test_long_read_is_segmented);
    iw_add("R05/empty", test_empty_read_looks_at_nothing);
    iw_add("R07/last-octet", test_read_of_the_last_octet);
    iw_add("R07/last-octet-of-a-fast-region",
           test_read_of_the_last_octet_of_a_fast_region);
    for (i = 0; i < G_N_ELEMENTS(rows); i++) {
        iw_add_row(rows[i].name, &rows[i], refuse_row);
    }
    iw_add("R09/region-goes-while-it-is-read",
           test_region_that_goes_while_it_is_read);
    iw_add("R10/ird-at-once", test_ird_reads_at_once_again_and_again);
    iw_add("R10/one-more-than-ird", test_more_reads_than_ird);
    iw_add("R11/ird-0", test_read_with_ird_0);
    iw_add("R11/ird-0-and-empty", test_empty_read_with_ird_0);
    for (i = 0; i < G_N_ELEMENTS(header_rows); i++) {
        iw_add_row(header_rows[i].name, &header_rows[i], refuse_header);
    }
    iw_add("R14/sinks-of-nothing", test_sinks_of_nothing);
    return g_test_run();
}
