/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RDMA Reads of the device, and what a peer may answer: R15 to R20
 */
#include "iwarp-peer.h"
#include "raw-peer.h"

#include <string.h>

#define NOT_LAST 0x81
/* Where the Reads put what they get */
#define AT       1000u
#define AT2      150000u

/* Takes the device's next Read Request; its sink */
static uint64_t take_request(struct iw_peer *p, uint32_t *sink)
{
    uint8_t ulpdu[65536];

    g_assert_cmpuint(iw_recv(p, ulpdu), ==, 46);
    g_assert_cmphex(ulpdu[1], ==, IW_READ_REQ);
    *sink = iw_get(ulpdu + 18, 4);
    return iw_get(ulpdu + 22, 8);
}

static void respond(struct iw_peer *p, uint8_t ddp, uint32_t stag, uint64_t to,
                    const uint8_t *payload, size_t len)
{
    g_autofree uint8_t *ulpdu = g_malloc(65536);

    iw_send(p, ulpdu,
            iw_tagged(ulpdu, ddp, IW_READ_RSP, stag, to, payload, len));
}

/* ---- The request, and an answer that fits ---- */

static void test_request_and_its_response(gconstpointer crc)
{
    uint8_t ulpdu[65536], payload[100];
    struct iw_peer p;
    uint32_t sink;
    uint64_t to;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_open_gate(&p);
    iw_allow(&p, AT, 100);
    iw_post_read(&p, 5, AT, 100);
    g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 46);
    g_assert_cmphex(ulpdu[0], ==, IW_UNTAGGED);
    g_assert_cmphex(ulpdu[1], ==, IW_READ_REQ);
    g_assert_cmphex(iw_get(ulpdu + 2, 4), ==, 0);
    g_assert_cmphex(iw_get(ulpdu + 6, 4), ==, 1);  /* QN */
    g_assert_cmphex(iw_get(ulpdu + 10, 4), ==, 1); /* MSN */
    g_assert_cmphex(iw_get(ulpdu + 14, 4), ==, 0); /* MO */
    sink = iw_get(ulpdu + 18, 4);
    to = iw_get(ulpdu + 22, 8);
    g_assert_cmpuint(iw_get(ulpdu + 30, 4), ==, 100);
    g_assert_cmphex(iw_get(ulpdu + 34, 4), ==, 0x11223344);
    g_assert_cmphex(iw_get(ulpdu + 38, 8), ==, 0x5566778899aabbcc);
    th_fill(payload, 100, 3);
    respond(&p, NOT_LAST, sink, to, payload, 60);
    respond(&p, IW_TAGGED, sink, to + 60, payload + 60, 40);
    iw_wait_send(&p, 5, RNIC_WC_SUCCESS);
    th_check_filled(p.buf.ptr + AT, 100, 3);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

/* ---- Nobody asked ---- */

static void unasked(bool crc, size_t len)
{
    g_autofree uint8_t *payload = g_malloc0(65536);
    struct iw_peer p;

    iw_start_crc(&p, crc);
    iw_post_recv(&p, 1, 0, 100);
    respond(&p, IW_TAGGED, p.stag, PEER_IOVA, payload, len);
    iw_expect_refused(&p, 0, 2, 0x06, NULL);
    iw_free(&p);
}

static void test_unasked(gconstpointer crc)
{
    unasked(GPOINTER_TO_INT(crc), 1);
}

static void test_unasked_and_empty(gconstpointer crc)
{
    unasked(GPOINTER_TO_INT(crc), 0);
}

static void test_unasked_and_large(gconstpointer crc)
{
    unasked(GPOINTER_TO_INT(crc), 60000);
}

static void test_answered_twice(gconstpointer crc)
{
    uint8_t payload[100];
    struct iw_peer p;
    uint32_t sink;
    uint64_t to;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_open_gate(&p);
    iw_allow(&p, AT, 100);
    iw_post_read(&p, 5, AT, 100);
    to = take_request(&p, &sink);
    th_fill(payload, 100, 3);
    respond(&p, IW_TAGGED, sink, to, payload, 100);
    iw_wait_send(&p, 5, RNIC_WC_SUCCESS);
    th_fill(payload, 100, 4);
    respond(&p, IW_TAGGED, sink, to, payload, 100);
    iw_expect_refused(&p, 0, 2, 0x06, NULL);
    th_check_filled(p.buf.ptr + AT, 100, 3);
    iw_free(&p);
}

/* ---- An answer that does not fit ---- */

/* To a Read of @asked octets: @first octets that fit, if not 0, then @len that
 * do not */
static const struct row {
    const char *name;
    uint32_t asked, first;
    uint32_t stag_xor;
    int64_t to;
    uint32_t len;
    uint8_t ddp, code;
} rows[] = {
    { "R16/wrong-key", 100, 0, 1, 0, 100, IW_TAGGED, 0x00 },
    { "R16/wrong-stag", 100, 0, 0x55500, 0, 100, IW_TAGGED, 0x00 },
    { "R16/shifted-up", 100, 0, 0, 1, 100, IW_TAGGED, 0x01 },
    { "R16/shifted-down", 100, 0, 0, -1, 100, IW_TAGGED, 0x01 },
    { "R16/to-0", 100, 0, 0, -(int64_t)(PEER_IOVA + AT), 100, IW_TAGGED, 0x01 },
    { "R16/4-gib-away", 100, 0, 0, 1ll << 32, 100, IW_TAGGED, 0x01 },
    { "R16/second-shifted", 100, 60, 0, 61, 40, IW_TAGGED, 0x01 },
    { "R16/second-repeated", 100, 60, 0, 0, 40, IW_TAGGED, 0x01 },
    { "R16/second-with-a-wrong-stag", 100, 60, 0x55500, 60, 40, IW_TAGGED,
      0x00 },
    { "R16/large-and-shifted", 60000, 0, 0, 1, 60000, IW_TAGGED, 0x01 },
    { "R16/large-with-a-wrong-stag", 60000, 0, 1, 0, 60000, IW_TAGGED, 0x00 },
    { "R17/too-short", 100, 0, 0, 0, 99, IW_TAGGED, 0x01 },
    { "R17/empty", 100, 0, 0, 0, 0, IW_TAGGED, 0x01 },
    { "R17/empty-and-not-last", 100, 0, 0, 0, 0, NOT_LAST, 0x01 },
    { "R17/second-too-short", 100, 60, 0, 60, 39, IW_TAGGED, 0x01 },
    { "R17/second-empty", 100, 60, 0, 60, 0, IW_TAGGED, 0x01 },
    { "R17/too-long", 100, 0, 0, 0, 101, IW_TAGGED, 0x01 },
    { "R17/too-long-and-not-last", 100, 0, 0, 0, 101, NOT_LAST, 0x01 },
    { "R17/all-and-not-last", 100, 0, 0, 0, 100, NOT_LAST, 0x01 },
    { "R17/second-too-long", 100, 60, 0, 60, 41, IW_TAGGED, 0x01 },
    { "R17/second-too-long-and-not-last", 100, 60, 0, 60, 41, NOT_LAST, 0x01 },
    { "R17/much-too-long", 100, 0, 0, 0, 60000, IW_TAGGED, 0x01 },
    { "R17/octets-for-an-empty-read", 0, 0, 0, 0, 1, IW_TAGGED, 0x01 },
    { "R17/more-for-an-empty-read", 0, 0, 0, 0, 0, NOT_LAST, 0x01 },
};

static void refuse_row(gconstpointer opaque, bool crc)
{
    g_autofree uint8_t *payload = g_malloc(65536);
    const struct row *row = opaque;
    struct iw_peer p;
    uint32_t sink;
    uint64_t to;

    iw_start_crc(&p, crc);
    iw_open_gate(&p);
    iw_post_recv(&p, 1, 0, 10);
    th_fill(payload, 65536, 3);
    iw_post_read(&p, 5, AT, row->asked);
    iw_post_read(&p, 6, AT2, 100);
    to = take_request(&p, &sink);
    if (row->first) {
        iw_allow(&p, AT, row->first);
        respond(&p, NOT_LAST, sink, to, payload, row->first);
    }
    respond(&p, row->ddp, sink ^ row->stag_xor, to + row->to, payload,
            row->len);
    /* What comes behind it is dropped, though it would fit */
    respond(&p, IW_TAGGED, sink, PEER_IOVA + AT2, payload, 100);
    iw_expect_refused(&p, 1, 1, row->code, NULL);
    iw_free(&p);
}

static void test_swapped(gconstpointer crc)
{
    uint8_t payload[100] = { 0 };
    struct iw_peer p;
    uint32_t sink;
    uint64_t to;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_open_gate(&p);
    iw_post_read(&p, 5, AT, 100);
    iw_post_read(&p, 6, AT2, 100);
    take_request(&p, &sink);
    to = take_request(&p, &sink);
    respond(&p, IW_TAGGED, sink, to, payload, 100);
    respond(&p, IW_TAGGED, sink, PEER_IOVA + AT, payload, 100);
    iw_expect_refused(&p, 1, 1, 0x01, NULL);
    iw_free(&p);
}

/* Two that differ in nothing but their length */
static void test_swapped_with_one_sink(gconstpointer crc)
{
    uint8_t payload[100] = { 0 };
    struct iw_peer p;
    uint32_t sink;
    uint64_t to;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_open_gate(&p);
    iw_post_read(&p, 5, AT, 100);
    iw_post_read(&p, 6, AT, 50);
    take_request(&p, &sink);
    to = take_request(&p, &sink);
    respond(&p, IW_TAGGED, sink, to, payload, 50);
    iw_expect_refused(&p, 1, 1, 0x01, NULL);
    iw_free(&p);
}

/* ---- How many, and what waits for them ---- */

static void test_never_more_than_ord(gconstpointer crc)
{
    uint8_t ulpdu[65536], payload[10] = { 0 };
    struct iw_peer p;
    unsigned i;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_open_gate(&p);
    iw_allow(&p, AT, 10);
    for (i = 0; i < 10; i++) {
        iw_post_read(&p, i, AT, 10);
    }
    for (i = 0; i < 4; i++) {
        iw_recv(&p, ulpdu);
        g_assert_cmpuint(iw_get(ulpdu + 10, 4), ==, i + 1);
    }
    raw_silent(p.fd, 20);
    for (i = 0; i < 10; i++) {
        respond(&p, IW_TAGGED, p.stag, PEER_IOVA + AT, payload, 10);
        iw_wait_send(&p, i, RNIC_WC_SUCCESS);
        if (i < 6) {
            iw_recv(&p, ulpdu);
            g_assert_cmpuint(iw_get(ulpdu + 10, 4), ==, i + 5);
        }
    }
    raw_silent(p.fd, 5);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

/* A fenced request waits for all Reads before it; what does not wait passes */
static void fenced(bool crc, enum rnic_wr_opcode opcode)
{
    uint8_t ulpdu[65536], payload[10] = { 0 };
    struct th_wr wr = {
        .opcode = opcode,
        .flags = RNIC_WQE_FENCE | RNIC_WQE_SIGNALED,
        .wr_id = 6,
        .remote_stag = 1,
    };
    struct iw_peer p;
    unsigned i;

    iw_start_crc(&p, crc);
    iw_open_gate(&p);
    iw_allow(&p, AT, 10);
    for (i = 0; i < 3; i++) {
        iw_post_read(&p, i, AT, 10);
    }
    th_post_send(p.qp, &wr, 1);
    for (i = 0; i < 3; i++) {
        iw_recv(&p, ulpdu);
        g_assert_cmphex(ulpdu[1], ==, IW_READ_REQ);
    }
    for (i = 0; i < 3; i++) {
        raw_silent(p.fd, 5);
        /* A response to the peer passes the waiting request */
        iw_send(&p, ulpdu,
                iw_read_request(ulpdu, i + 1, 1, 0, 5, p.stag, PEER_IOVA));
        g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 14 + 5);
        respond(&p, IW_TAGGED, p.stag, PEER_IOVA + AT, payload, 10);
        iw_wait_send(&p, i, RNIC_WC_SUCCESS);
    }
    iw_recv(&p, ulpdu);
    g_assert_cmphex(ulpdu[1], ==, opcode == RNIC_WR_WRITE ? IW_WRITE : IW_SEND);
    iw_wait_send(&p, 6, RNIC_WC_SUCCESS);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

static void test_fenced_send(gconstpointer crc)
{
    fenced(GPOINTER_TO_INT(crc), RNIC_WR_SEND);
}

static void test_fenced_write(gconstpointer crc)
{
    fenced(GPOINTER_TO_INT(crc), RNIC_WR_WRITE);
}

/* Without a fence nothing waits */
static void test_send_without_a_fence(gconstpointer crc)
{
    struct th_wr wr = { .opcode = RNIC_WR_SEND };
    uint8_t ulpdu[65536], payload[10] = { 0 };
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_open_gate(&p);
    iw_allow(&p, AT, 10);
    iw_post_read(&p, 5, AT, 10);
    th_post_send(p.qp, &wr, 1);
    iw_recv(&p, ulpdu);
    g_assert_cmphex(ulpdu[1], ==, IW_READ_REQ);
    iw_recv(&p, ulpdu);
    g_assert_cmphex(ulpdu[1], ==, IW_SEND);
    respond(&p, IW_TAGGED, p.stag, PEER_IOVA + AT, payload, 10);
    iw_wait_send(&p, 5, RNIC_WC_SUCCESS);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

/* Long messages of the SQ do not keep the peer's Reads waiting for ever */
static void test_responses_and_requests_take_turns(gconstpointer crc)
{
    g_autofree uint8_t *ulpdu = g_malloc(65536);
    unsigned writes = 0, answered_after = 0, i;
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_open_gate(&p);
    for (i = 0; i < 60; i++) {
        struct th_wr wr = {
            .opcode = RNIC_WR_WRITE,
            .sge = { th_sge(p.stag, PEER_IOVA, PEER_BUF) },
            .num_sge = 1,
        };

        th_post_send(p.qp, &wr, 1);
    }
    th_run_for(20);
    for (i = 0; i < 4; i++) {
        iw_send(&p, ulpdu,
                iw_read_request(ulpdu, i + 1, 1, 0, 1, p.stag, PEER_IOVA));
    }
    th_run_for(20);
    i = 0;
    while (writes < 60) {
        iw_recv(&p, ulpdu);
        if (ulpdu[1] == IW_READ_RSP) {
            answered_after = writes;
            i++;
        } else if (ulpdu[0] == IW_TAGGED) {
            writes++;
        }
    }
    /* Not behind all the Writes that were posted before */
    g_assert_cmpuint(i, ==, 4);
    g_assert_cmpuint(answered_after, <, 58);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

int main(int argc, char **argv)
{
    unsigned i;

    g_test_init(&argc, &argv, NULL);
    iw_add("R03/of-the-device", test_request_and_its_response);
    iw_add("R15/unasked", test_unasked);
    iw_add("R15/unasked-and-empty", test_unasked_and_empty);
    iw_add("R15/unasked-and-large", test_unasked_and_large);
    iw_add("R15/twice", test_answered_twice);
    for (i = 0; i < G_N_ELEMENTS(rows); i++) {
        iw_add_row(rows[i].name, &rows[i], refuse_row);
    }
    iw_add("R18/swapped", test_swapped);
    iw_add("R18/swapped-with-one-sink", test_swapped_with_one_sink);
    iw_add("R19/never-more-than-ord", test_never_more_than_ord);
    iw_add("R20/fenced-send", test_fenced_send);
    iw_add("R20/fenced-write", test_fenced_write);
    iw_add("R20/without-a-fence", test_send_without_a_fence);
    iw_add("R10/in-turn-with-requests", test_responses_and_requests_take_turns);
    return g_test_run();
}
