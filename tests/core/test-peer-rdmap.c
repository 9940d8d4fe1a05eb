/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RDMAP messages, valid and hostile, as a peer may send them: Reads both
 * ways, Terminates, and what the device sends to a peer that asks for markers
 */
#include "iwarp-peer.h"
#include "raw-peer.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SINK    0xaabbcc01u
#define SINK_TO 0x0123456789abcdefull

static void start(struct iw_peer *p, gconstpointer crc)
{
    struct iw_options options;

    iw_options_init(&options, GPOINTER_TO_INT(crc));
    iw_start(p, &options);
    memset(p->buf.ptr, 0xee, PEER_BUF);
}

static void check_untouched(struct iw_peer *p)
{
    size_t i;

    for (i = 0; i < PEER_BUF; i++) {
        g_assert_cmpuint(p->buf.ptr[i], ==, 0xee);
    }
}

static uint64_t get(const uint8_t *from, unsigned octets)
{
    uint64_t value = 0;

    while (octets--) {
        value = value << 8 | *from++;
    }
    return value;
}

/* ---- Reads of the peer ---- */

static void test_read_response_carries_the_sink_verbatim(gconstpointer crc)
{
    uint8_t ulpdu[65536];
    struct iw_peer p;

    start(&p, crc);
    th_fill(p.buf.ptr + 100, 16, 7);
    iw_send(
        &p, ulpdu,
        iw_read_request(ulpdu, 1, SINK, SINK_TO, 16, p.stag, PEER_IOVA + 100));
    g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 14 + 16);
    g_assert_cmphex(ulpdu[0], ==, IW_TAGGED);
    g_assert_cmphex(ulpdu[1], ==, IW_READ_RSP);
    g_assert_cmphex(get(ulpdu + 2, 4), ==, SINK);
    g_assert_cmphex(get(ulpdu + 6, 8), ==, SINK_TO);
    th_check_filled(ulpdu + 14, 16, 7);
    iw_free(&p);
}

static void test_long_read_is_segmented(gconstpointer crc)
{
    uint8_t ulpdu[65536];
    uint8_t *octets;
    struct iw_peer p;
    size_t got = 0;

    start(&p, crc);
    octets = g_malloc(PEER_BUF);
    th_fill(p.buf.ptr, PEER_BUF, 7);
    iw_send(
        &p, ulpdu,
        iw_read_request(ulpdu, 1, SINK, SINK_TO, PEER_BUF, p.stag, PEER_IOVA));
    while (got < PEER_BUF) {
        size_t n = iw_recv(&p, ulpdu) - 14;

        g_assert_cmphex(ulpdu[1], ==, IW_READ_RSP);
        g_assert_cmphex(get(ulpdu + 2, 4), ==, SINK);
        g_assert_cmphex(get(ulpdu + 6, 8), ==, SINK_TO + got);
        memcpy(octets + got, ulpdu + 14, n);
        got += n;
        g_assert_cmphex(ulpdu[0], ==, got == PEER_BUF ? 0xc1 : 0x81);
        /* Without a pad, but for the last */
        g_assert_true(got == PEER_BUF || n % 4 == 0);
    }
    g_assert_cmpuint(got, ==, PEER_BUF);
    th_check_filled(octets, PEER_BUF, 7);
    g_free(octets);
    iw_free(&p);
}

static void test_empty_read_looks_at_nothing(gconstpointer crc)
{
    uint8_t ulpdu[65536];
    struct iw_peer p;

    start(&p, crc);
    iw_send(
        &p, ulpdu,
        iw_read_request(ulpdu, 1, SINK, SINK_TO, 0, 0xdeadbeef, UINT64_MAX));
    g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 14);
    g_assert_cmphex(ulpdu[0], ==, IW_TAGGED);
    g_assert_cmphex(ulpdu[1], ==, IW_READ_RSP);
    g_assert_cmphex(get(ulpdu + 2, 4), ==, SINK);
    g_assert_cmphex(get(ulpdu + 6, 8), ==, SINK_TO);
    iw_free(&p);
}

static const struct {
    uint32_t size;
    uint32_t stag_xor;
    uint64_t to;
    uint8_t code;
} bad_reads[] = {
    { UINT32_MAX, 0, PEER_IOVA, 0x01 },   { PEER_BUF + 1, 0, PEER_IOVA, 0x01 },
    { 1, 0, PEER_IOVA + PEER_BUF, 0x01 }, { 16, 0, -8ull, 0x04 },
    { 16, 1, PEER_IOVA, 0x00 },           { 16, 0x55500, PEER_IOVA, 0x00 },
};

static void test_bad_read_is_told_with_its_header(gconstpointer crc)
{
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(bad_reads); i++) {
        uint8_t ulpdu[128], first[65536], term[70];
        struct iw_peer p;

        start(&p, crc);
        /* A good one before it is answered */
        iw_send(
            &p, first,
            iw_read_request(first, 1, SINK, SINK_TO, 16, p.stag, PEER_IOVA));
        iw_send(&p, ulpdu,
                iw_read_request(ulpdu, 2, SINK, SINK_TO, bad_reads[i].size,
                                p.stag ^ bad_reads[i].stag_xor,
                                bad_reads[i].to));
        g_assert_cmpuint(iw_recv(&p, first), ==, 14 + 16);
        iw_expect_term(&p, 0, 1, bad_reads[i].code, term);
        /* M, D and R, the segment's length, and both headers */
        g_assert_cmphex(term[20], ==, 0xe0);
        g_assert_cmpuint(get(term + 22, 2), ==, 46);
        g_assert_cmpmem(term + 24, 46, ulpdu, 46);
        iw_free(&p);
    }
}

static void test_read_of_the_last_octet(gconstpointer crc)
{
    uint8_t ulpdu[65536];
    struct iw_peer p;

    start(&p, crc);
    iw_send(&p, ulpdu,
            iw_read_request(ulpdu, 1, SINK, 0, 1, p.stag,
                            PEER_IOVA + PEER_BUF - 1));
    g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 15);
    iw_free(&p);
}

static void reads_beyond_ird(bool crc, unsigned ird)
{
    uint8_t octets[4096], ulpdu[65536];
    struct iw_options options;
    struct iw_peer p;
    size_t len = 0;
    unsigned i;

    iw_options_init(&options, crc);
    options.ird = ird;
    iw_start(&p, &options);
    /* In one segment, so that none is answered before the last is seen */
    for (i = 0; i <= ird; i++) {
        iw_read_request(ulpdu, i + 1, SINK, 0, 16, p.stag, PEER_IOVA);
        len += iw_fpdu(&p, octets + len, ulpdu, 46);
    }
    raw_send_whole(p.fd, octets, len);
    iw_expect_term(&p, 1, 2, 0x02, NULL);
    iw_free(&p);
}

static void test_more_reads_than_ird(gconstpointer crc)
{
    reads_beyond_ird(GPOINTER_TO_INT(crc), 4);
}

static void test_read_with_ird_0(gconstpointer crc)
{
    reads_beyond_ird(GPOINTER_TO_INT(crc), 0);
}

static void test_ird_reads_at_once_again_and_again(gconstpointer crc)
{
    uint8_t octets[4096], ulpdu[65536];
    struct iw_peer p;
    uint32_t msn = 1;
    unsigned i, j;

    start(&p, crc);
    for (j = 0; j < 20; j++) {
        size_t len = 0;

        for (i = 0; i < 4; i++) {
            iw_read_request(ulpdu, msn++, SINK + i, i, 16 + i, p.stag,
                            PEER_IOVA);
            len += iw_fpdu(&p, octets + len, ulpdu, 46);
        }
        raw_send(p.fd, octets, len);
        for (i = 0; i < 4; i++) {
            /* In order */
            g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 14 + 16 + i);
            g_assert_cmphex(get(ulpdu + 2, 4), ==, SINK + i);
        }
    }
    iw_free(&p);
}

/* ---- Reads of the device ---- */

/* Opens the gate of the responder */
static void open_gate(struct iw_peer *p)
{
    uint8_t ulpdu[16];

    iw_send(p, ulpdu, iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, 1, 0, NULL, 0));
    th_wait(!th_qp_gated(p->qp));
}

static void test_read_request_and_its_response(gconstpointer crc)
{
    uint8_t ulpdu[65536], payload[100];
    struct iw_peer p;
    uint32_t sink;
    uint64_t to;

    start(&p, crc);
    open_gate(&p);
    iw_post_read(&p, 5, 1000, 100);
    g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 46);
    g_assert_cmphex(ulpdu[0], ==, IW_UNTAGGED);
    g_assert_cmphex(ulpdu[1], ==, IW_READ_REQ);
    g_assert_cmphex(get(ulpdu + 2, 4), ==, 0);
    g_assert_cmphex(get(ulpdu + 6, 4), ==, 1);  /* QN */
    g_assert_cmphex(get(ulpdu + 10, 4), ==, 1); /* MSN */
    g_assert_cmphex(get(ulpdu + 14, 4), ==, 0); /* MO */
    sink = get(ulpdu + 18, 4);
    to = get(ulpdu + 22, 8);
    g_assert_cmpuint(get(ulpdu + 30, 4), ==, 100);
    g_assert_cmphex(get(ulpdu + 34, 4), ==, 0x11223344);
    g_assert_cmphex(get(ulpdu + 38, 8), ==, 0x5566778899aabbcc);
    th_fill(payload, 100, 3);
    iw_send(&p, ulpdu,
            iw_tagged(ulpdu, 0x81, IW_READ_RSP, sink, to, payload, 60));
    iw_send(
        &p, ulpdu,
        iw_tagged(ulpdu, 0xc1, IW_READ_RSP, sink, to + 60, payload + 60, 40));
    iw_wait_send(&p, 5, RNIC_WC_SUCCESS);
    th_check_filled(p.buf.ptr + 1000, 100, 3);
    iw_free(&p);
}

static void test_response_that_nobody_asked_for(gconstpointer crc)
{
    uint8_t ulpdu[65536];
    struct iw_peer p;

    start(&p, crc);
    iw_send(
        &p, ulpdu,
        iw_tagged(ulpdu, IW_TAGGED, IW_READ_RSP, p.stag, PEER_IOVA, "x", 1));
    iw_expect_term(&p, 0, 2, 0x06, NULL);
    check_untouched(&p);
    iw_free(&p);
}

static void test_response_that_does_not_match(gconstpointer crc)
{
    static const struct {
        uint32_t stag_xor;
        int to, len;
        uint8_t ddp, code;
    } rows[] = {
        { 1, 0, 100, 0xc1, 0x00 },                            /* another STag */
        { 0, 1, 100, 0xc1, 0x01 },                            /* shifted */
        { 0, -1, 100, 0xc1, 0x01 }, { 0, 0, 99, 0xc1, 0x01 }, /* too short */
        { 0, 0, 101, 0xc1, 0x01 },                            /* too long */
        { 0, 0, 100, 0x81, 0x01 },                            /* and no end */
        { 0, 0, 101, 0x81, 0x01 },  { 0, 0, 0, 0xc1, 0x01 },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(rows); i++) {
        uint8_t ulpdu[65536], payload[128] = { 0 };
        struct iw_peer p;
        uint32_t sink;
        uint64_t to;

        start(&p, crc);
        open_gate(&p);
        iw_post_read(&p, 5, 1000, 100);
        iw_recv(&p, ulpdu);
        sink = get(ulpdu + 18, 4);
        to = get(ulpdu + 22, 8);
        iw_send(&p, ulpdu,
                iw_tagged(ulpdu, rows[i].ddp, IW_READ_RSP,
                          sink ^ rows[i].stag_xor, to + rows[i].to, payload,
                          rows[i].len));
        iw_expect_term(&p, 1, 1, rows[i].code, NULL);
        iw_wait_send(&p, 5, RNIC_WC_WR_FLUSH_ERR);
        check_untouched(&p);
        iw_free(&p);
    }
}

static void test_responses_in_swapped_order(gconstpointer crc)
{
    uint8_t ulpdu[65536], payload[100] = { 0 };
    struct iw_peer p;
    uint32_t sink;

    start(&p, crc);
    open_gate(&p);
    iw_post_read(&p, 5, 1000, 100);
    iw_post_read(&p, 6, 2000, 100);
    iw_recv(&p, ulpdu);
    iw_recv(&p, ulpdu);
    sink = get(ulpdu + 18, 4);
    iw_send(&p, ulpdu,
            iw_tagged(ulpdu, 0xc1, IW_READ_RSP, sink, PEER_IOVA + 2000, payload,
                      100));
    iw_expect_term(&p, 1, 1, 0x01, NULL);
    iw_wait_send(&p, 5, RNIC_WC_WR_FLUSH_ERR);
    iw_wait_send(&p, 6, RNIC_WC_WR_FLUSH_ERR);
    check_untouched(&p);
    iw_free(&p);
}

static void test_never_more_than_ord_on_the_wire(gconstpointer crc)
{
    uint8_t ulpdu[65536], payload[10] = { 0 };
    struct iw_peer p;
    unsigned i;

    start(&p, crc);
    open_gate(&p);
    for (i = 0; i < 10; i++) {
        iw_post_read(&p, i, 1000, 10);
    }
    for (i = 0; i < 4; i++) {
        iw_recv(&p, ulpdu);
        g_assert_cmpuint(get(ulpdu + 10, 4), ==, i + 1);
    }
    raw_silent(p.fd, 20);
    for (i = 0; i < 10; i++) {
        iw_send(&p, ulpdu,
                iw_tagged(ulpdu, 0xc1, IW_READ_RSP, p.stag, PEER_IOVA + 1000,
                          payload, 10));
        iw_wait_send(&p, i, RNIC_WC_SUCCESS);
        if (i < 6) {
            iw_recv(&p, ulpdu);
            g_assert_cmpuint(get(ulpdu + 10, 4), ==, i + 5);
        }
    }
    raw_silent(p.fd, 5);
    iw_free(&p);
}

static void test_fenced_send_leaves_after_the_response(gconstpointer crc)
{
    uint8_t ulpdu[65536], payload[10] = { 0 };
    struct th_wr wr = {
        .opcode = RNIC_WR_SEND,
        .flags = RNIC_WQE_FENCE | RNIC_WQE_SIGNALED,
        .wr_id = 6,
    };
    struct iw_peer p;

    start(&p, crc);
    open_gate(&p);
    iw_post_read(&p, 5, 1000, 10);
    th_post_send(p.qp, &wr, 1);
    iw_recv(&p, ulpdu);
    g_assert_cmphex(ulpdu[1], ==, IW_READ_REQ);
    raw_silent(p.fd, 20);
    /* A response to the peer passes the waiting Send */
    iw_send(&p, ulpdu,
            iw_read_request(ulpdu, 1, SINK, 0, 5, p.stag, PEER_IOVA));
    g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 14 + 5);
    iw_send(&p, ulpdu,
            iw_tagged(ulpdu, 0xc1, IW_READ_RSP, p.stag, PEER_IOVA + 1000,
                      payload, 10));
    g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 18);
    g_assert_cmphex(ulpdu[1], ==, IW_SEND);
    iw_wait_send(&p, 5, RNIC_WC_SUCCESS);
    iw_wait_send(&p, 6, RNIC_WC_SUCCESS);
    iw_free(&p);
}

/* ---- Terminates of the peer ---- */

struct term_row {
    const char *name;
    uint8_t control[4];
    enum rnic_event_type event;
    uint32_t term;
};

static const struct term_row term_rows[] = {
    { "local", { 0x00, 0x00, 0, 0 }, RNIC_EV_QP_FATAL, 0x000000 },
    { "protection", { 0x01, 0x01, 0, 0 }, RNIC_EV_QP_ACCESS_ERR, 0x000101 },
    { "operation", { 0x02, 0x06, 0, 0 }, RNIC_EV_QP_REQ_ERR, 0x000206 },
    { "tagged", { 0x11, 0x02, 0, 0 }, RNIC_EV_QP_ACCESS_ERR, 0x010102 },
    { "untagged", { 0x12, 0x02, 0, 0 }, RNIC_EV_QP_REQ_ERR, 0x010202 },
    { "mpa", { 0x20, 0x02, 0, 0 }, RNIC_EV_QP_FATAL, 0x020002 },
    { "mpa-type-3", { 0x23, 0x02, 0, 0 }, RNIC_EV_QP_FATAL, 0x020302 },
    { "unknown-layer", { 0xf7, 0x99, 0, 0 }, RNIC_EV_QP_FATAL, 0x0f0799 },
    /* Headers are announced and not there */
    { "truncated", { 0x01, 0x00, 0xe0, 0 }, RNIC_EV_QP_ACCESS_ERR, 0x000100 },
    /* siw's order of nibbles and bits */
    { "siw", { 0x10, 0x01, 0x07, 0 }, RNIC_EV_QP_ACCESS_ERR, 0x000101 },
};

static void term_row(const struct term_row *row, bool crc)
{
    uint8_t ulpdu[64];
    struct rnic_aeqe event;
    struct iw_peer p;

    start(&p, GINT_TO_POINTER(crc));
    iw_post_recv(&p, 1, 0, 10);
    iw_send(
        &p, ulpdu,
        iw_untagged(ulpdu, IW_UNTAGGED, IW_TERM, 0, 2, 1, 0, row->control, 4));
    /* What comes behind it, another Terminate too, is ignored */
    iw_send(
        &p, ulpdu,
        iw_untagged(ulpdu, IW_UNTAGGED, IW_TERM, 0, 2, 2, 0, row->control, 4));
    iw_send_message(&p, 1, 10);
    th_event_wait(p.guest, row->event, p.qp->qpn, &event);
    g_assert_cmphex(GUINT32_FROM_LE(event.term), ==,
                    RNIC_TERM_VALID | RNIC_TERM_REMOTE | row->term);
    iw_expect_close(&p);
    iw_wait_recv(&p, 1, RNIC_WC_WR_FLUSH_ERR, 0);
    check_untouched(&p);
    iw_free(&p);
}

static void test_term_crc_off(gconstpointer data)
{
    term_row(data, false);
}

static void test_term_crc_on(gconstpointer data)
{
    term_row(data, true);
}

static void test_terminate_of_our_read(gconstpointer crc)
{
    uint8_t request[65536], payload[52], ulpdu[128];
    struct iw_peer p;

    start(&p, crc);
    open_gate(&p);
    iw_post_read(&p, 5, 1000, 100);
    iw_post_read(&p, 6, 2000, 100);
    g_assert_cmpuint(iw_recv(&p, request), ==, 46);
    memcpy(payload, "\x01\x02\xe0\x00\x00\x2e", 6);
    memcpy(payload + 6, request, 46);
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, IW_UNTAGGED, IW_TERM, 0, 2, 1, 0, payload,
                        sizeof(payload)));
    th_event_wait(p.guest, RNIC_EV_QP_ACCESS_ERR, p.qp->qpn, NULL);
    iw_wait_send(&p, 5, RNIC_WC_REM_ACCESS_ERR);
    iw_wait_send(&p, 6, RNIC_WC_WR_FLUSH_ERR);
    iw_free(&p);
}

static void test_bogus_terminate_is_not_answered(gconstpointer crc)
{
    static const struct {
        uint8_t ddp;
        uint32_t qn, msn, mo;
        unsigned len;
    } rows[] = {
        { 0x41, 2, 2, 0, 4 }, { 0x41, 0, 1, 0, 4 }, { 0x41, 2, 1, 4, 4 },
        { 0x01, 2, 1, 0, 4 }, { 0x41, 2, 1, 0, 3 }, { 0x42, 2, 1, 0, 4 },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(rows); i++) {
        uint8_t ulpdu[64];
        struct iw_peer p;

        start(&p, crc);
        iw_send(&p, ulpdu,
                iw_untagged(ulpdu, rows[i].ddp, IW_TERM, 0, rows[i].qn,
                            rows[i].msn, rows[i].mo, "\x01\x01\x00\x00",
                            rows[i].len));
        iw_expect_close(&p);
        iw_free(&p);
    }
}

static void test_terminate_without_crc_on_a_connection_with_one(void)
{
    uint8_t ulpdu[64], fpdu[64];
    struct iw_peer p;
    size_t len;

    start(&p, GINT_TO_POINTER(true));
    len = iw_untagged(ulpdu, IW_UNTAGGED, IW_TERM, 0, 2, 1, 0,
                      "\x20\x05\x00\x00", 4);
    len = iw_fpdu(&p, fpdu, ulpdu, len);
    memset(fpdu + len - 4, 0, 4);
    raw_send(p.fd, fpdu, len);
    /* Told as what it is, a bad CRC, and once */
    iw_expect_term(&p, 2, 0, 0x02, NULL);
    iw_free(&p);
}

static void test_both_terminate_at_once(gconstpointer crc)
{
    uint8_t ulpdu[64];
    struct iw_peer p;
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_MODIFY_QP };

    start(&p, crc);
    open_gate(&p);
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, IW_UNTAGGED, IW_TERM, 0, 2, 1, 0,
                        "\x00\x00\x00\x00", 4));
    cmd.modify_qp.qpn = GUINT32_TO_LE(p.qp->qpn);
    cmd.modify_qp.state = GUINT32_TO_LE(RNIC_QPS_TERMINATE);
    th_admin_submit(p.guest, &cmd);
    /* Whichever was first, the end comes once */
    raw_closed(p.fd, NULL);
    iw_expect_error(&p);
    iw_free(&p);
}

/* The device is within a long message when the error comes */
static void test_terminate_within_a_message_keeps_the_framing(gconstpointer crc)
{
    g_autofree uint8_t *ulpdu = g_malloc(65536);
    struct iw_peer p;
    unsigned i;

    start(&p, crc);
    open_gate(&p);
    /* More than TCP holds, while this peer does not read */
    for (i = 0; i < 60; i++) {
        struct th_wr wr = {
            .opcode = RNIC_WR_WRITE,
            .sge = { th_sge(p.stag, PEER_IOVA, PEER_BUF) },
            .num_sge = 1,
        };

        th_post_send(p.qp, &wr, 1);
    }
    th_run_for(50);
    iw_send(
        &p, ulpdu,
        iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag ^ 1, PEER_IOVA, "x", 1));
    /* All FPDUs before it are whole */
    iw_expect_term(&p, 1, 1, 0x00, NULL);
    iw_free(&p);
}

static void test_responses_and_requests_take_turns(gconstpointer crc)
{
    g_autofree uint8_t *ulpdu = g_malloc(65536);
    unsigned writes = 0, answered_after = 0, i;
    struct iw_peer p;

    start(&p, crc);
    open_gate(&p);
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
                iw_read_request(ulpdu, i + 1, SINK, 0, 1, p.stag, PEER_IOVA));
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
    iw_free(&p);
}

/* ---- Markers ---- */

/* RFC 5044 section 4.3: 4 octets at every 512th of the stream */
static void test_markers_are_inserted(gconstpointer crc)
{
    g_autofree uint8_t *stream = g_malloc(1 << 20);
    g_autofree uint8_t *fpdus = g_malloc(1 << 20);
    static const uint32_t lens[] = { 0,   1,    3,    100,   460, 468,
                                     470, 1200, 9000, 70000, 5 };
    struct iw_options options;
    size_t want = 0, plain = 0, pos, start_of_fpdu = 0;
    struct iw_peer p;
    unsigned i;

    iw_options_init(&options, GPOINTER_TO_INT(crc));
    options.markers = true;
    iw_start(&p, &options);
    th_fill(p.buf.ptr, PEER_BUF, 2);
    open_gate(&p);
    for (i = 0; i < G_N_ELEMENTS(lens); i++) {
        struct th_wr wr = {
            .opcode = RNIC_WR_WRITE,
            .flags = RNIC_WQE_SIGNALED,
            .wr_id = i,
            .sge = { th_sge(p.stag, PEER_IOVA, lens[i]) },
            .num_sge = 1,
            .remote_stag = 1,
        };

        th_post_send(p.qp, &wr, 1);
    }
    for (i = 0; i < G_N_ELEMENTS(lens); i++) {
        iw_wait_send(&p, i, RNIC_WC_SUCCESS);
    }
    want = th_stat(p.guest, RNIC_STAT_tx_octets);
    raw_recv(p.fd, stream, want);
    raw_silent(p.fd, 10);

    /* Take the markers out */
    for (pos = 0; pos < want;) {
        if (pos % 512 == 0) {
            g_assert_cmphex(get(stream + pos, 2), ==, 0);
            pos += 4;
            continue;
        }
        memcpy(fpdus + plain, stream + pos, 4);
        plain += 4;
        pos += 4;
    }
    /* And follow the FPDUs in both */
    for (pos = 0, i = 0; start_of_fpdu < plain; i++) {
        size_t len = get(fpdus + start_of_fpdu, 2);
        size_t size = (2 + len + 3) / 4 * 4 + 4, left = size, first;

        if (pos % 512 == 0) {
            /* Between two FPDUs */
            g_assert_cmphex(get(stream + pos + 2, 2), ==, 0);
            pos += 4;
        }
        first = pos;
        g_assert_cmpmem(stream + pos, 4, fpdus + start_of_fpdu, 4);
        while (left) {
            if (pos % 512 == 0) {
                g_assert_cmphex(get(stream + pos + 2, 2), ==, pos - first);
                pos += 4;
            } else {
                pos += 4;
                left -= 4;
            }
        }
        if (p.crc) {
            /* Over the markers, too, that of before the FPDU included, and
             * not over one between them and the CRC's end */
            size_t from = first % 512 == 4 ? first - 4 : first;
            uint32_t sum = iw_crc32c(stream + from, pos - 4 - from);

            g_assert_cmphex(GUINT32_FROM_LE(*(uint32_t *)(stream + pos - 4)),
                            ==, sum);
        }
        start_of_fpdu += size;
    }
    g_assert_cmpuint(start_of_fpdu, ==, plain);
    g_assert_cmpuint(i, ==, th_stat(p.guest, RNIC_STAT_tx_fpdus));
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
    add("read-response", test_read_response_carries_the_sink_verbatim);
    add("long-read-is-segmented", test_long_read_is_segmented);
    add("empty-read", test_empty_read_looks_at_nothing);
    add("bad-read", test_bad_read_is_told_with_its_header);
    add("read-of-the-last-octet", test_read_of_the_last_octet);
    add("more-reads-than-ird", test_more_reads_than_ird);
    add("read-with-ird-0", test_read_with_ird_0);
    add("ird-reads-at-once", test_ird_reads_at_once_again_and_again);
    add("read-of-the-device", test_read_request_and_its_response);
    add("unasked-response", test_response_that_nobody_asked_for);
    add("response-does-not-match", test_response_that_does_not_match);
    add("responses-swapped", test_responses_in_swapped_order);
    add("never-more-than-ord", test_never_more_than_ord_on_the_wire);
    add("fenced-send", test_fenced_send_leaves_after_the_response);
    for (i = 0; i < G_N_ELEMENTS(term_rows); i++) {
        const struct term_row *row = &term_rows[i];
        g_autofree char *off =
            g_strdup_printf("/peer/crc-off/terminate/%s", row->name);
        g_autofree char *on =
            g_strdup_printf("/peer/crc-on/terminate/%s", row->name);

        g_test_add_data_func(off, row, test_term_crc_off);
        g_test_add_data_func(on, row, test_term_crc_on);
    }
    add("terminate-of-our-read", test_terminate_of_our_read);
    add("bogus-terminate", test_bogus_terminate_is_not_answered);
    g_test_add_func("/peer/crc-on/terminate-without-crc",
                    test_terminate_without_crc_on_a_connection_with_one);
    add("both-terminate", test_both_terminate_at_once);
    add("terminate-within-a-message",
        test_terminate_within_a_message_keeps_the_framing);
    add("responses-and-requests-take-turns",
        test_responses_and_requests_take_turns);
    add("markers", test_markers_are_inserted);
    return g_test_run();
}
