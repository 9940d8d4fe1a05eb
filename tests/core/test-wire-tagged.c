/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DDP's tagged segments, valid and hostile, as a peer may send them: D03 to
 * D14, D26, D27, D29, D30, R36, and those of R24 to R26 that are tagged
 */
#include "iwarp-peer.h"
#include "raw-peer.h"
#include "wire-io.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define END                      (PEER_IOVA + PEER_BUF)
#define NOT_LAST                 0x81
#define TERM(layer, etype, code) ((layer) << 16 | (etype) << 8 | (code))
#define ACCEPTED                 0

/* ---- One segment ---- */

/*
 * One Write segment, and the Terminate that it gets; or it is accepted, and its
 * payload is at @to
 */
static const struct row {
    const char *name;
    enum iw_stag stag;
    uint64_t to;
    uint32_t len;
    uint32_t term;
    uint8_t ddp, rdmap; /* 0: of a Write, the last segment */
} rows[] = {
    { "D03/empty-with-garbage", IW_STAG_WRONG_INDEX, UINT64_MAX, 0,
      .term = ACCEPTED },
    { "D03/empty-with-stag-0", IW_STAG_NONE, 0, 0, .term = ACCEPTED },
    { "D03/empty-to-another-pd", IW_STAG_OTHER_PD, PEER_IOVA, 0,
      .term = ACCEPTED },
    { "D03/empty-without-right", IW_STAG_READ_ONLY, PEER_IOVA, 0,
      .term = ACCEPTED },
    { "D03/empty-out-of-bounds", IW_STAG_OWN, END + 1, 0, .term = ACCEPTED },
    { "D03/empty-to-a-deregistered-one", IW_STAG_DEREGISTERED, PEER_IOVA, 0,
      .term = ACCEPTED },
    { "D03/empty-to-an-invalidated-one", IW_STAG_INVALIDATED, PEER_IOVA, 0,
      .term = ACCEPTED },

    { "D04/to-the-end", IW_STAG_OWN, END - 100, 100, .term = ACCEPTED },
    { "D04/last-octet", IW_STAG_OWN, END - 1, 1, .term = ACCEPTED },
    { "D04/large-to-the-end", IW_STAG_OWN, END - 60001, 60001,
      .term = ACCEPTED },
    { "D04/from-the-start", IW_STAG_OWN, PEER_IOVA, 100, .term = ACCEPTED },
    { "D04/to-the-end-of-a-fast-region", IW_STAG_FAST,
      PEER_IOVA + IW_FAST_LEN - 100, 100, .term = ACCEPTED },

    { "D05/one-past-the-end", IW_STAG_OWN, END - 99, 100,
      .term = TERM(1, 1, 0x01) },
    { "D05/large-one-past-the-end", IW_STAG_OWN, END - 60000, 60001,
      .term = TERM(1, 1, 0x01) },
    { "D05/one-past-the-end-of-a-fast-region", IW_STAG_FAST,
      PEER_IOVA + IW_FAST_LEN - 99, 100, .term = TERM(1, 1, 0x01) },
    { "D06/one-before-the-start", IW_STAG_OWN, PEER_IOVA - 1, 8,
      .term = TERM(1, 1, 0x01) },
    { "D06/large-one-before-the-start", IW_STAG_OWN, PEER_IOVA - 1, 60000,
      .term = TERM(1, 1, 0x01) },
    { "D06/to-0", IW_STAG_OWN, 0, 8, .term = TERM(1, 1, 0x01) },
    { "D07/at-the-end", IW_STAG_OWN, END, 1, .term = TERM(1, 1, 0x01) },
    { "D07/empty-at-the-end", IW_STAG_OWN, END, 0, .term = ACCEPTED },
    { "D08/wraps", IW_STAG_OWN, -4ull, 8, .term = TERM(1, 1, 0x03) },
    { "D08/ends-at-2-to-the-64", IW_STAG_OWN, -8ull, 8,
      .term = TERM(1, 1, 0x03) },
    { "D08/large-wraps", IW_STAG_OWN, -30000ull, 60000,
      .term = TERM(1, 1, 0x03) },
    /* To come back into the region behind the wrap */
    { "D08/far-away", IW_STAG_OWN, PEER_IOVA + (1ull << 63), 8,
      .term = TERM(1, 1, 0x01) },
    { "D08/4-gib-away", IW_STAG_OWN, PEER_IOVA + (1ull << 32), 8,
      .term = TERM(1, 1, 0x01) },

    { "D09/unknown-stag", IW_STAG_WRONG_INDEX, PEER_IOVA, 8,
      .term = TERM(1, 1, 0x00) },
    { "D09/wrong-key", IW_STAG_WRONG_KEY, PEER_IOVA, 8,
      .term = TERM(1, 1, 0x00) },
    { "D09/deregistered", IW_STAG_DEREGISTERED, PEER_IOVA, 8,
      .term = TERM(1, 1, 0x00) },
    { "D09/not-registered-yet", IW_STAG_NOT_VALID, PEER_IOVA, 8,
      .term = TERM(1, 1, 0x00) },
    { "D09/invalidated-by-its-owner", IW_STAG_INVALIDATED, PEER_IOVA, 8,
      .term = TERM(1, 1, 0x00) },
    { "D09/invalidated-by-the-peer", IW_STAG_TAKEN_BACK, PEER_IOVA, 8,
      .term = TERM(1, 1, 0x00) },
    { "D09/large-to-an-invalidated-one", IW_STAG_TAKEN_BACK, PEER_IOVA, 60000,
      .term = TERM(1, 1, 0x00) },
    { "D09/old-key-of-a-fast-region", IW_STAG_FAST_OLD_KEY, PEER_IOVA, 8,
      .term = TERM(1, 1, 0x00) },
    { "D09/stag-0", IW_STAG_NONE, PEER_IOVA, 8, .term = TERM(1, 1, 0x00) },
    /* STag 0 names all DMA addresses, for local use only */
    { "D09/stag-0-and-a-dma-address", IW_STAG_NONE, TH_BASE, 8,
      .term = TERM(1, 1, 0x00) },
    { "D09/large-to-a-wrong-key", IW_STAG_WRONG_KEY, PEER_IOVA, 60000,
      .term = TERM(1, 1, 0x00) },
    { "D10/another-pd", IW_STAG_OTHER_PD, PEER_IOVA, 8,
      .term = TERM(1, 1, 0x02) },
    { "D10/large-to-another-pd", IW_STAG_OTHER_PD, PEER_IOVA, 60000,
      .term = TERM(1, 1, 0x02) },
    { "D11/region-for-reading", IW_STAG_READ_ONLY, PEER_IOVA, 8,
      .term = TERM(0, 1, 0x02) },
    { "D11/region-for-local-use", IW_STAG_LOCAL_ONLY, PEER_IOVA, 8,
      .term = TERM(0, 1, 0x02) },
    { "D11/fast-region-for-reading", IW_STAG_FAST_READ_ONLY, PEER_IOVA, 8,
      .term = TERM(0, 1, 0x02) },
    { "D11/large-without-right", IW_STAG_READ_ONLY, PEER_IOVA, 60000,
      .term = TERM(0, 1, 0x02) },

    { "D26/dv-0", IW_STAG_OWN, PEER_IOVA, 8, .term = TERM(1, 1, 0x04),
      .ddp = 0xc0 },
    { "D26/dv-2", IW_STAG_OWN, PEER_IOVA, 8, .term = TERM(1, 1, 0x04),
      .ddp = 0xc2 },
    { "D26/dv-3", IW_STAG_OWN, PEER_IOVA, 8, .term = TERM(1, 1, 0x04),
      .ddp = 0xc3 },
    { "D27/reserved-bits", IW_STAG_OWN, PEER_IOVA, 8, .term = ACCEPTED,
      .ddp = 0xfd },
    { "R27/reserved-bits-of-a-write", IW_STAG_OWN, PEER_IOVA, 8,
      .term = ACCEPTED, .rdmap = 0x70 },

    { "R24/write-with-rv-0", IW_STAG_OWN, PEER_IOVA, 8,
      .term = TERM(0, 2, 0x05), .rdmap = 0x10 },
    { "R24/write-with-rv-2", IW_STAG_OWN, PEER_IOVA, 8,
      .term = TERM(0, 2, 0x05), .rdmap = 0x80 },
    { "R24/write-with-rv-3", IW_STAG_OWN, PEER_IOVA, 8,
      .term = TERM(0, 2, 0x05), .rdmap = 0xc0 },
    { "R25/tagged-opcode-8", IW_STAG_OWN, PEER_IOVA, 8,
      .term = TERM(0, 2, 0x06), .rdmap = 0x48 },
    { "R25/tagged-opcode-10", IW_STAG_OWN, PEER_IOVA, 56,
      .term = TERM(0, 2, 0x06), .rdmap = 0x4a },
    { "R25/tagged-opcode-12", IW_STAG_OWN, PEER_IOVA, 8,
      .term = TERM(0, 2, 0x06), .rdmap = 0x4c },
    { "R25/tagged-opcode-15", IW_STAG_OWN, PEER_IOVA, 8,
      .term = TERM(0, 2, 0x06), .rdmap = 0x4f },
    { "R26/tagged-send", IW_STAG_OWN, PEER_IOVA, 8, .term = TERM(0, 2, 0x06),
      .rdmap = IW_SEND },
    { "R26/tagged-send-with-invalidate", IW_STAG_OWN, PEER_IOVA, 8,
      .term = TERM(0, 2, 0x06), .rdmap = IW_SEND_INV },
    { "R26/tagged-read-request", IW_STAG_OWN, PEER_IOVA, 32,
      .term = TERM(0, 2, 0x06), .rdmap = IW_READ_REQ },
    { "R26/tagged-terminate", IW_STAG_OWN, PEER_IOVA, 8,
      .term = TERM(0, 2, 0x06), .rdmap = IW_TERM },
    { "R26/large-tagged-send", IW_STAG_OWN, PEER_IOVA, 60000,
      .term = TERM(0, 2, 0x06), .rdmap = IW_SEND },
};

static void row_test(gconstpointer opaque, bool crc)
{
    g_autofree uint8_t *ulpdu = g_malloc(65536);
    g_autofree uint8_t *payload = g_malloc(65536);
    const struct row *row = opaque;
    uint8_t term[70];
    struct iw_peer p;
    size_t len;

    iw_start_crc(&p, crc);
    th_fill(payload, row->len, 5);
    len = iw_tagged(ulpdu, row->ddp ? row->ddp : IW_TAGGED,
                    row->rdmap ? row->rdmap : IW_WRITE,
                    iw_stag_of(&p, row->stag), row->to, payload, row->len);
    if (row->term == ACCEPTED) {
        if (row->len) {
            iw_allow(&p, row->to - PEER_IOVA, row->len);
        }
        iw_send(&p, ulpdu, len);
        iw_expect_harmless(&p, 1);
        if (row->len) {
            th_check_filled(p.buf.ptr + (row->to - PEER_IOVA), row->len, 5);
        }
        iw_free(&p);
        return;
    }
    iw_post_recv(&p, 1, 0, 100);
    iw_send(&p, ulpdu, len);
    /* D30: what comes behind it is dropped, good and bad ones */
    iw_send(&p, payload,
            iw_tagged(payload, IW_TAGGED, IW_WRITE, p.stag, PEER_IOVA, "x", 1));
    iw_send(&p, payload,
            iw_tagged(payload, IW_TAGGED, IW_WRITE, 1, PEER_IOVA, "x", 1));
    iw_send_message(&p, 1, 10);
    iw_expect_refused(&p, row->term >> 16, row->term >> 8 & 15, row->term,
                      term);
    /* M and D; the segment's length, and its header */
    g_assert_cmphex(term[20], ==, 0xc0);
    g_assert_cmphex(term[21], ==, 0);
    g_assert_cmpuint(iw_get(term + 22, 2), ==, len);
    g_assert_cmpmem(term + 24, 14, ulpdu, 14);
    iw_free(&p);
}

/* ---- More than one segment ---- */

static void test_second_segment_out_of_bounds(gconstpointer crc)
{
    uint8_t ulpdu[256], payload[100];
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_allow(&p, PEER_BUF - 50, 50);
    th_fill(payload, 100, 1);
    iw_send(
        &p, ulpdu,
        iw_tagged(ulpdu, NOT_LAST, IW_WRITE, p.stag, END - 50, payload, 50));
    iw_send(
        &p, ulpdu,
        iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag, END, payload + 50, 50));
    iw_expect_refused(&p, 1, 1, 0x01, NULL);
    th_check_filled(p.buf.ptr + PEER_BUF - 50, 50, 1);
    iw_free(&p);
}

/* Each segment is looked at for itself: into another region, if it may */
static void test_second_segment_with_another_stag(gconstpointer crc)
{
    uint8_t ulpdu[256], payload[100];
    struct th_buf other;
    struct iw_peer p;
    uint32_t stag;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    other = th_buf_new(p.guest, 4096, 1, 0);
    stag = th_reg_mr(p.guest, &other, 0x5000, RNIC_ACCESS_ALL);
    iw_allow(&p, 0, 50);
    th_fill(payload, 100, 1);
    iw_send(
        &p, ulpdu,
        iw_tagged(ulpdu, NOT_LAST, IW_WRITE, p.stag, PEER_IOVA, payload, 50));
    iw_send(&p, ulpdu,
            iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, stag, 0x5000 + 100,
                      payload + 50, 50));
    iw_expect_harmless(&p, 1);
    th_check_filled(p.buf.ptr, 50, 1);
    g_assert_cmpmem(other.ptr + 100, 50, payload + 50, 50);
    g_assert_cmphex(other.ptr[99] | other.ptr[150], ==, 0);
    iw_free(&p);
}

static void second_segment_refused(bool crc, enum iw_stag which, uint64_t to,
                                   uint8_t code)
{
    uint8_t ulpdu[256], payload[100] = { 1 };
    struct iw_peer p;

    iw_start_crc(&p, crc);
    iw_allow(&p, 0, 50);
    iw_send(
        &p, ulpdu,
        iw_tagged(ulpdu, NOT_LAST, IW_WRITE, p.stag, PEER_IOVA, payload, 50));
    iw_send(&p, ulpdu,
            iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, iw_stag_of(&p, which), to,
                      payload + 50, 50));
    iw_expect_refused(&p, 1, 1, code, NULL);
    iw_free(&p);
}

static void test_second_segment_with_an_unknown_stag(gconstpointer crc)
{
    second_segment_refused(GPOINTER_TO_INT(crc), IW_STAG_WRONG_KEY,
                           PEER_IOVA + 50, 0x00);
}

static void test_second_segment_to_another_pd(gconstpointer crc)
{
    second_segment_refused(GPOINTER_TO_INT(crc), IW_STAG_OTHER_PD,
                           PEER_IOVA + 50, 0x02);
}

static void test_falling_order(gconstpointer crc)
{
    uint8_t ulpdu[256], payload[150];
    struct iw_peer p;
    unsigned i;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_allow(&p, 0, 150);
    th_fill(payload, 150, 1);
    for (i = 3; i-- > 0;) {
        iw_send(&p, ulpdu,
                iw_tagged(ulpdu, i ? NOT_LAST : IW_TAGGED, IW_WRITE, p.stag,
                          PEER_IOVA + 50 * i, payload + 50 * i, 50));
    }
    iw_expect_harmless(&p, 1);
    th_check_filled(p.buf.ptr, 150, 1);
    iw_free(&p);
}

/* Into one place, again and again: the last one stays */
static void test_segments_over_each_other(gconstpointer crc)
{
    g_autofree uint8_t *ulpdu = g_malloc(65536);
    g_autofree uint8_t *payload = g_malloc(60000);
    struct iw_peer p;
    unsigned i;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_allow(&p, 0, 60000);
    for (i = 0; i < 5; i++) {
        th_fill(payload, 60000, i);
        iw_send(&p, ulpdu,
                iw_tagged(ulpdu, i < 4 ? NOT_LAST : IW_TAGGED, IW_WRITE, p.stag,
                          PEER_IOVA, payload, 60000));
    }
    iw_expect_harmless(&p, 1);
    th_check_filled(p.buf.ptr, 60000, 4);
    iw_free(&p);
}

static void test_write_between_segments_of_a_send(gconstpointer crc)
{
    uint8_t ulpdu[512], payload[300];
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_allow(&p, 7, 300);
    iw_allow(&p, 1000, 100);
    th_fill(payload, sizeof(payload), 3);
    iw_post_recv(&p, 1, 7, 300);
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, 0x01, IW_SEND, 0, 0, 1, 0, payload, 101));
    iw_send(&p, ulpdu,
            iw_tagged(ulpdu, NOT_LAST, IW_WRITE, p.stag, PEER_IOVA + 1000,
                      payload, 50));
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, 0x01, IW_SEND, 0, 0, 1, 101, payload + 101, 99));
    iw_send(&p, ulpdu,
            iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag, PEER_IOVA + 1050,
                      payload + 50, 50));
    iw_send(
        &p, ulpdu,
        iw_untagged(ulpdu, 0x41, IW_SEND, 0, 0, 1, 200, payload + 200, 100));
    iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 300);
    th_check_filled(p.buf.ptr + 7, 300, 3);
    th_check_filled(p.buf.ptr + 1000, 100, 3);
    iw_expect_harmless(&p, 2);
    iw_free(&p);
}

/* ---- A peer that does not stop ---- */

static void test_peer_goes_on_after_an_error(gconstpointer crc)
{
    g_autofree uint8_t *ulpdu = g_malloc(65536);
    g_autofree uint8_t *payload = g_malloc0(60000);
    struct iw_peer p;
    unsigned i;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_send(&p, ulpdu,
            iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag ^ 1, PEER_IOVA,
                      payload, 60000));
    for (i = 0; i < 20; i++) {
        iw_send(&p, ulpdu,
                iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag, PEER_IOVA,
                          payload, 60000));
        iw_send(&p, ulpdu,
                iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag ^ i, PEER_IOVA,
                          payload, 10));
    }
    iw_expect_refused(&p, 1, 1, 0x00, NULL);
    iw_free(&p);
}

/* ---- A region that goes while the peer writes ---- */

/* @half: octets of an FPDU's payload that come before */
static void deregistered(bool crc, uint32_t len, uint32_t half)
{
    g_autofree uint8_t *ulpdu = g_malloc(65536);
    g_autofree uint8_t *fpdu = g_malloc(PEER_FPDU_MAX);
    g_autofree uint8_t *payload = g_malloc(65536);
    size_t all, part = 2 + 14 + half;
    struct iw_peer p;
    uint64_t taken;
    uint32_t stag;

    iw_start_crc(&p, crc);
    stag = iw_region(&p, TH_PD, RNIC_ACCESS_ALL);
    th_fill(payload, len, 1);
    all = iw_fpdu(
        &p, fpdu, ulpdu,
        iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, stag, PEER_IOVA, payload, len));
    taken = wire_taken();
    raw_send(p.fd, fpdu, part);
    th_wait(wire_taken() == taken + part);
    th_dereg_mr(p.guest, stag);
    /* From here on the memory is the application's */
    iw_watch(&p);
    raw_send(p.fd, fpdu + part, all - part);
    iw_expect_refused(&p, 1, 1, 0x00, NULL);
    iw_free(&p);
}

static void test_deregistered_within_a_large_write(gconstpointer crc)
{
    deregistered(GPOINTER_TO_INT(crc), 60000, 30000);
}

static void test_deregistered_within_a_small_write(gconstpointer crc)
{
    deregistered(GPOINTER_TO_INT(crc), 1000, 500);
}

static void test_deregistered_behind_the_header(gconstpointer crc)
{
    deregistered(GPOINTER_TO_INT(crc), 60000, 0);
}

/* Writes without a pause; some arrive before, one does not */
static void test_deregistered_between_writes(gconstpointer crc)
{
    g_autofree uint8_t *ulpdu = g_malloc(65536);
    g_autofree uint8_t *payload = g_malloc0(60000);
    struct iw_peer p;
    uint32_t stag;
    unsigned i;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    stag = iw_region(&p, TH_PD, RNIC_ACCESS_ALL);
    for (i = 0; i < 10; i++) {
        iw_send(&p, ulpdu,
                iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, stag, PEER_IOVA, payload,
                          i % 2 ? 60000 : 100));
        if (i == 5) {
            th_dereg_mr(p.guest, stag);
            iw_watch(&p);
        }
    }
    iw_expect_refused(&p, 1, 1, 0x00, NULL);
    iw_free(&p);
}

struct writer {
    int fd;
    uint8_t *octets;
    size_t len;
};

/* A peer of its own, that sends until it is done or the connection ends */
static gpointer writer(gpointer opaque)
{
    const struct writer *w = opaque;
    size_t sent = 0;

    while (sent < w->len) {
        struct pollfd p = { .fd = w->fd, .events = POLLOUT };
        ssize_t n = sendto(w->fd, w->octets + sent, w->len - sent, MSG_NOSIGNAL,
                           NULL, 0);

        if (n < 0 && errno != EAGAIN) {
            break;
        }
        sent += MAX(n, 0);
        if (n < 0) {
            poll(&p, 1, 1000);
        }
    }
    return NULL;
}

/* The engine, the peer and the driver each on a thread */
static void test_deregistered_at_any_time(gconstpointer crc)
{
    enum { COUNT = 60, LEN = 60000 };
    g_autofree uint8_t *ulpdu = g_malloc(65536);
    g_autofree uint8_t *payload = g_malloc(65536);
    struct writer w = { .octets = g_malloc(COUNT * PEER_FPDU_MAX) };
    unsigned round, i;

    for (round = 0; round < 8; round++) {
        struct iw_peer p;
        GThread *thread;
        uint32_t stag;

        iw_start_crc(&p, GPOINTER_TO_INT(crc));
        stag = iw_region(&p, TH_PD, RNIC_ACCESS_ALL);
        for (w.len = i = 0; i < COUNT; i++) {
            th_fill(payload, LEN, i);
            w.len += iw_fpdu(&p, w.octets + w.len, ulpdu,
                             iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, stag,
                                       PEER_IOVA + i, payload, LEN));
        }
        w.fd = p.fd;
        th_engine_start(p.guest);
        thread = g_thread_new("peer", writer, &w);
        th_run_for(round);
        th_dereg_mr(p.guest, stag);
        iw_watch(&p);
        g_thread_join(thread);
        th_engine_stop(p.guest);
        /* If all of them were in time, this one is not */
        if (th_qp_state(p.qp) == RNIC_QPS_RTS) {
            iw_send(
                &p, ulpdu,
                iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, stag, PEER_IOVA, "x", 1));
        }
        iw_expect_refused(&p, 1, 1, 0x00, NULL);
        iw_free(&p);
    }
    g_free(w.octets);
}

int main(int argc, char **argv)
{
    unsigned i;

    g_test_init(&argc, &argv, NULL);
    for (i = 0; i < G_N_ELEMENTS(rows); i++) {
        iw_add_row(rows[i].name, &rows[i], row_test);
    }
    iw_add("D12/second-segment-out-of-bounds",
           test_second_segment_out_of_bounds);
    iw_add("D13/another-region", test_second_segment_with_another_stag);
    iw_add("D13/unknown-stag", test_second_segment_with_an_unknown_stag);
    iw_add("D13/another-pd", test_second_segment_to_another_pd);
    iw_add("D14/falling-order", test_falling_order);
    iw_add("D14/over-each-other", test_segments_over_each_other);
    iw_add("D29/write-between-segments-of-a-send",
           test_write_between_segments_of_a_send);
    iw_add("D30/goes-on-after-an-error", test_peer_goes_on_after_an_error);
    iw_add("R36/within-a-large-write", test_deregistered_within_a_large_write);
    iw_add("R36/within-a-small-write", test_deregistered_within_a_small_write);
    iw_add("R36/behind-the-header", test_deregistered_behind_the_header);
    iw_add("R36/at-any-time", test_deregistered_at_any_time);
    iw_add("R36/between-writes", test_deregistered_between_writes);
    return g_test_run();
}
