/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Terminates of a peer and of the device, and ends without one: R28 to R35
 */
#include "iwarp-peer.h"
#include "raw-peer.h"

#include <string.h>
#include <sys/socket.h>

#define NOT_LAST 0x01

static void terminate(struct iw_peer *p, const void *control, size_t len)
{
    uint8_t ulpdu[256];

    iw_send(p, ulpdu,
            iw_untagged(ulpdu, IW_UNTAGGED, IW_TERM, 0, 2, 1, 0, control, len));
}

/* The peer's Terminate is told, and not answered */
static void expect_terminated(struct iw_peer *p, enum rnic_event_type type,
                              uint32_t term)
{
    struct rnic_aeqe event;

    th_event_wait(p->guest, type, p->qp->qpn, &event);
    g_assert_cmphex(GUINT32_FROM_LE(event.term), ==,
                    RNIC_TERM_VALID | RNIC_TERM_REMOTE | term);
    iw_expect_dropped(p);
    g_assert_cmpuint(th_stat(p->guest, RNIC_STAT_term_received), ==, 1);
    /* No other of its kind */
    for (type = RNIC_EV_QP_FATAL; type <= RNIC_EV_QP_ACCESS_ERR; type++) {
        g_assert_false(th_event_take(p->guest, type, p->qp->qpn, NULL));
    }
}

/* ---- Every code ---- */

#define TERM(layer, etype, code) ((layer) << 16 | (etype) << 8 | (code))

static const struct code {
    uint32_t term;
    enum rnic_event_type event;
} codes[] = {
    { TERM(0, 0, 0x00), RNIC_EV_QP_FATAL },
    { TERM(0, 0, 0xff), RNIC_EV_QP_FATAL },
    { TERM(0, 1, 0x00), RNIC_EV_QP_ACCESS_ERR },
    { TERM(0, 1, 0x01), RNIC_EV_QP_ACCESS_ERR },
    { TERM(0, 1, 0x02), RNIC_EV_QP_ACCESS_ERR },
    { TERM(0, 1, 0x03), RNIC_EV_QP_ACCESS_ERR },
    { TERM(0, 1, 0x04), RNIC_EV_QP_ACCESS_ERR },
    { TERM(0, 1, 0x09), RNIC_EV_QP_REQ_ERR },
    { TERM(0, 1, 0xff), RNIC_EV_QP_ACCESS_ERR },
    { TERM(0, 2, 0x05), RNIC_EV_QP_FATAL },
    { TERM(0, 2, 0x06), RNIC_EV_QP_REQ_ERR },
    { TERM(0, 2, 0x07), RNIC_EV_QP_REQ_ERR },
    { TERM(0, 2, 0x08), RNIC_EV_QP_REQ_ERR },
    { TERM(0, 2, 0x09), RNIC_EV_QP_REQ_ERR },
    { TERM(0, 2, 0xff), RNIC_EV_QP_REQ_ERR },
    { TERM(1, 0, 0x00), RNIC_EV_QP_FATAL },
    { TERM(1, 1, 0x00), RNIC_EV_QP_ACCESS_ERR },
    { TERM(1, 1, 0x01), RNIC_EV_QP_ACCESS_ERR },
    { TERM(1, 1, 0x02), RNIC_EV_QP_ACCESS_ERR },
    { TERM(1, 1, 0x03), RNIC_EV_QP_ACCESS_ERR },
    { TERM(1, 1, 0x04), RNIC_EV_QP_FATAL },
    { TERM(1, 2, 0x01), RNIC_EV_QP_FATAL },
    { TERM(1, 2, 0x02), RNIC_EV_QP_REQ_ERR },
    { TERM(1, 2, 0x03), RNIC_EV_QP_FATAL },
    { TERM(1, 2, 0x04), RNIC_EV_QP_FATAL },
    { TERM(1, 2, 0x05), RNIC_EV_QP_REQ_ERR },
    { TERM(1, 2, 0x06), RNIC_EV_QP_FATAL },
    { TERM(1, 3, 0x01), RNIC_EV_QP_FATAL }, /* reserved for the LLP */
    { TERM(2, 0, 0x01), RNIC_EV_QP_FATAL },
    { TERM(2, 0, 0x02), RNIC_EV_QP_FATAL },
    { TERM(2, 0, 0x03), RNIC_EV_QP_FATAL },
    { TERM(2, 0, 0x04), RNIC_EV_QP_FATAL },
    { TERM(2, 0, 0x05), RNIC_EV_QP_FATAL },
    { TERM(2, 0, 0x06), RNIC_EV_QP_FATAL },
    { TERM(2, 0, 0x07), RNIC_EV_QP_FATAL },
    { TERM(2, 3, 0x02), RNIC_EV_QP_FATAL }, /* of adapters: a bad CRC */
    { TERM(15, 7, 0x99), RNIC_EV_QP_FATAL },
    { TERM(15, 15, 0xff), RNIC_EV_QP_FATAL },
};

static void every_code(gconstpointer opaque, bool crc)
{
    const struct code *code = opaque;
    uint8_t control[4] = { code->term >> 12 | (code->term >> 8 & 15),
                           code->term };
    struct iw_peer p;

    iw_start_crc(&p, crc);
    iw_post_recv(&p, 1, 0, 10);
    iw_post_recv(&p, 2, 0, 10);
    terminate(&p, control, 4);
    expect_terminated(&p, code->event, code->term);
    iw_free(&p);
}

/* siw's order of nibbles and bits */
static void test_order_of_siw(gconstpointer crc)
{
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_post_recv(&p, 1, 0, 10);
    terminate(&p, "\x10\x01\x07\x00", 4);
    expect_terminated(&p, RNIC_EV_QP_ACCESS_ERR, TERM(0, 1, 0x01));
    iw_free(&p);
}

/* With all headers, about a Read of the device, which gets the blame */
static void about_a_read(bool crc, size_t headers)
{
    uint8_t request[65536], payload[128];
    struct iw_peer p;

    iw_start_crc(&p, crc);
    iw_open_gate(&p);
    iw_post_read(&p, 5, 1000, 100);
    iw_post_read(&p, 6, 2000, 100);
    g_assert_cmpuint(iw_recv(&p, request), ==, 46);
    g_assert_cmpuint(iw_recv(&p, payload), ==, 46);
    memcpy(payload, "\x01\x02\xe0\x00\x00\x2e", 6);
    memcpy(payload + 6, request, 46);
    terminate(&p, payload, headers);
    /* Without the DDP header it is not known whose it is */
    p.oracle.send_status = headers >= 6 + 18 ? RNIC_WC_REM_ACCESS_ERR : 0;
    expect_terminated(&p, RNIC_EV_QP_ACCESS_ERR, TERM(0, 1, 0x02));
    iw_free(&p);
}

static void test_about_a_read(gconstpointer crc)
{
    about_a_read(GPOINTER_TO_INT(crc), 6 + 46);
}

/* ---- Less than was announced: M, D and R, but the ULPDU ends before ---- */

static void cut_after(gconstpointer octets, bool crc)
{
    about_a_read(crc, GPOINTER_TO_UINT(octets) - 18);
}

/* ---- Terminates that are none ---- */

static const struct bogus {
    const char *name;
    uint8_t ddp;
    uint32_t qn, msn, mo;
    unsigned len;
} bogus[] = {
    { "msn-2", IW_UNTAGGED, 2, 2, 0, 4 },
    { "msn-0", IW_UNTAGGED, 2, 0, 0, 4 },
    { "qn-0", IW_UNTAGGED, 0, 1, 0, 4 },
    { "qn-max", IW_UNTAGGED, UINT32_MAX, 1, 0, 4 },
    { "mo-4", IW_UNTAGGED, 2, 1, 4, 4 },
    { "not-last", NOT_LAST, 2, 1, 0, 4 },
    { "3-octets", IW_UNTAGGED, 2, 1, 0, 3 },
    { "0-octets", IW_UNTAGGED, 2, 1, 0, 0 },
    { "dv-2", 0x42, 2, 1, 0, 4 },
};

static void not_answered(gconstpointer opaque, bool crc)
{
    const struct bogus *b = opaque;
    uint8_t ulpdu[64];
    struct iw_peer p;

    iw_start_crc(&p, crc);
    iw_post_recv(&p, 1, 0, 10);
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, b->ddp, IW_TERM, 0, b->qn, b->msn, b->mo,
                        "\x01\x01\x00\x00", b->len));
    iw_send_message(&p, 1, 10);
    iw_expect_dropped(&p);
    /* Nor taken for one */
    g_assert_cmpuint(th_stat(p.guest, RNIC_STAT_term_received), ==, 0);
    iw_free(&p);
}

/* ---- What comes behind a Terminate ---- */

static void test_more_behind_it(gconstpointer crc)
{
    g_autofree uint8_t *ulpdu = g_malloc(65536);
    g_autofree uint8_t *payload = g_malloc0(65536);
    struct iw_peer p;
    unsigned i;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_post_recv(&p, 1, 0, 10);
    terminate(&p, "\x11\x01\x00\x00", 4);
    terminate(&p, "\x01\x00\x00\x00", 4);
    iw_send_message(&p, 1, 10);
    for (i = 0; i < 3; i++) {
        iw_send(&p, ulpdu,
                iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag, PEER_IOVA,
                          payload, 60000));
        iw_send(
            &p, ulpdu,
            iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, 1, PEER_IOVA, payload, 100));
    }
    expect_terminated(&p, RNIC_EV_QP_ACCESS_ERR, TERM(1, 1, 0x01));
    iw_free(&p);
}

/* It may come too late, and be refused */
static void ask_for(struct iw_peer *p, enum rnic_qp_state state)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_MODIFY_QP };

    cmd.modify_qp.qpn = GUINT32_TO_LE(p->qp->qpn);
    cmd.modify_qp.state = GUINT32_TO_LE(state);
    th_admin_submit(p->guest, &cmd);
}

/* Whichever is first, the end comes once */
static void test_both_at_once(gconstpointer crc)
{
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_open_gate(&p);
    iw_post_recv(&p, 1, 0, 10);
    terminate(&p, "\x00\x00\x00\x00", 4);
    ask_for(&p, RNIC_QPS_TERMINATE);
    raw_closed(p.fd, NULL);
    iw_expect_error(&p);
    iw_check_after(&p);
    iw_free(&p);
}

/* The peer's comes when the device's is already out */
static void test_answered_by_a_terminate(gconstpointer crc)
{
    uint8_t ulpdu[65536];
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_open_gate(&p);
    iw_post_recv(&p, 1, 0, 10);
    ask_for(&p, RNIC_QPS_TERMINATE);
    iw_recv(&p, ulpdu);
    g_assert_cmphex(ulpdu[1], ==, IW_TERM);
    terminate(&p, "\x01\x01\x00\x00", 4);
    iw_send_message(&p, 1, 10);
    g_assert_false(raw_closed(p.fd, NULL));
    iw_expect_error(&p);
    iw_check_after(&p);
    g_assert_cmpuint(th_stat(p.guest, RNIC_STAT_term_sent), ==, 1);
    iw_free(&p);
}

/* The first error is told, whichever it is: the peer's, or the consumer's in what
 * it posted */
static void test_two_errors_at_once(gconstpointer crc)
{
    struct th_wr wr = {
        .opcode = RNIC_WR_SEND,
        .wr_id = 1,
        .num_sge = 1,
    };
    uint8_t ulpdu[65536];
    struct iw_peer p;
    bool own;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_open_gate(&p);
    iw_post_recv(&p, 1, 0, 10);
    wr.sge[0] = th_sge(p.stag ^ 1, PEER_IOVA, 10);
    rnic_device_quiesce(p.guest->dev);
    th_post_send(p.qp, &wr, 1);
    iw_send(
        &p, ulpdu,
        iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag ^ 1, PEER_IOVA, "x", 1));
    raw_wait_acked(p.fd);
    rnic_device_resume(p.guest->dev);
    iw_recv(&p, ulpdu);
    g_assert_cmphex(ulpdu[1], ==, IW_TERM);
    own = ulpdu[18] == 0x00;
    if (own) {
        g_assert_cmphex(ulpdu[19], ==, 0xff);
        p.oracle.send_status = RNIC_WC_LOC_PROT_ERR;
    } else {
        g_assert_cmphex(ulpdu[18], ==, 0x11);
        g_assert_cmphex(ulpdu[19], ==, 0x00);
    }
    g_assert_false(raw_closed(p.fd, NULL));
    iw_expect_error(&p);
    iw_check_after(&p);
    g_assert_cmpuint(th_stat(p.guest, RNIC_STAT_term_sent), ==, 1);
    iw_free(&p);
}

/* siw's after a failed setup: without the CRC that was agreed on */
static void test_without_the_crc(void)
{
    uint8_t ulpdu[64], fpdu[64];
    struct iw_peer p;
    size_t len;

    iw_start_crc(&p, true);
    iw_post_recv(&p, 1, 0, 10);
    len = iw_untagged(ulpdu, IW_UNTAGGED, IW_TERM, 0, 2, 1, 0,
                      "\x20\x05\x00\x00", 4);
    len = iw_fpdu(&p, fpdu, ulpdu, len);
    memset(fpdu + len - 4, 0, 4);
    raw_send(p.fd, fpdu, len);
    /* Told as what it is, a bad CRC, and once */
    iw_expect_refused(&p, 2, 0, 0x02, NULL);
    iw_free(&p);
}

/* ---- An error while the device sends ---- */

/* More than TCP holds, while the peer does not read: the device is within a
 * message. All FPDUs before the Terminate are whole, as iw_recv() checks. */
static void within_a_message(bool crc, enum rnic_wr_opcode opcode)
{
    uint8_t ulpdu[64], term[70];
    struct iw_peer p;
    unsigned i;

    iw_start_crc(&p, crc);
    iw_open_gate(&p);
    iw_post_recv(&p, 1, 0, 10);
    for (i = 0; i < 60; i++) {
        struct th_wr wr = {
            .opcode = opcode,
            .wr_id = i,
            .sge = { th_sge(p.stag, PEER_IOVA, PEER_BUF) },
            .num_sge = 1,
        };

        th_post_send(p.qp, &wr, 1);
    }
    th_run_for(50);
    iw_send(
        &p, ulpdu,
        iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag ^ 1, PEER_IOVA, "x", 1));
    iw_expect_refused(&p, 1, 1, 0x00, term);
    g_assert_cmpmem(term + 24, 14, ulpdu, 14);
    iw_free(&p);
}

static void test_within_a_write(gconstpointer crc)
{
    within_a_message(GPOINTER_TO_INT(crc), RNIC_WR_WRITE);
}

static void test_within_a_send(gconstpointer crc)
{
    within_a_message(GPOINTER_TO_INT(crc), RNIC_WR_SEND);
}

static void test_within_read_responses(gconstpointer crc)
{
    struct th_buf buf;
    struct iw_peer p;
    uint8_t ulpdu[64];
    uint32_t stag;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_post_recv(&p, 1, 0, 10);
    buf = th_buf_new(p.guest, 24 << 20, 0, 0);
    stag = th_reg_mr(p.guest, &buf, 0, RNIC_ACCESS_REMOTE_READ);
    iw_send(&p, ulpdu, iw_read_request(ulpdu, 1, 1, 2, 24 << 20, stag, 0));
    th_run_for(50);
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, 2, 0, "x", 1));
    iw_expect_refused(&p, 1, 2, 0x03, NULL);
    iw_free(&p);
}

/* ---- Ends in order ---- */

static void expect_disconnect(struct iw_peer *p, enum rnic_cm_status status)
{
    struct rnic_aeqe event;

    th_event_wait(p->guest, RNIC_EV_DISCONNECT, p->qp->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, status);
}

static void test_closed_by_the_peer(gconstpointer crc)
{
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_post_recv(&p, 1, 0, 10);
    shutdown(p.fd, SHUT_WR);
    expect_disconnect(&p, RNIC_CM_OK);
    iw_expect_dropped(&p);
    iw_free(&p);
}

/* What was posted before goes out first, and completes */
static void test_closed_by_the_device(gconstpointer crc)
{
    g_autofree uint8_t *ulpdu = g_malloc(65536);
    unsigned last = 0, i;
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_open_gate(&p);
    iw_post_recv(&p, 1, 0, 10);
    for (i = 0; i < 30; i++) {
        struct th_wr wr = {
            .opcode = RNIC_WR_SEND,
            .flags = RNIC_WQE_SIGNALED,
            .wr_id = i,
            .sge = { th_sge(p.stag, PEER_IOVA, 100000) },
            .num_sge = 1,
        };

        th_post_send(p.qp, &wr, 1);
    }
    g_assert_cmpuint(th_qp_modify(p.qp, RNIC_QPS_CLOSING), ==, RNIC_ADMIN_OK);
    while (last < 30) {
        iw_recv(&p, ulpdu);
        g_assert_cmpuint(iw_get(ulpdu + 10, 4), ==, last + 1);
        last += !!(ulpdu[0] & 0x40);
    }
    g_assert_false(raw_closed(p.fd, NULL));
    for (i = 0; i < 30; i++) {
        iw_wait_send(&p, i, RNIC_WC_SUCCESS);
    }
    shutdown(p.fd, SHUT_WR);
    iw_expect_dropped(&p);
    iw_free(&p);
}

static void test_closed_by_both(gconstpointer crc)
{
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_post_recv(&p, 1, 0, 10);
    shutdown(p.fd, SHUT_WR);
    ask_for(&p, RNIC_QPS_CLOSING);
    iw_expect_dropped(&p);
    iw_free(&p);
}

/* The peer closes while it owes an answer */
static void test_closed_with_a_read_under_way(gconstpointer crc)
{
    uint8_t ulpdu[65536];
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_open_gate(&p);
    iw_post_recv(&p, 1, 0, 10);
    iw_post_read(&p, 5, 1000, 10);
    iw_recv(&p, ulpdu);
    shutdown(p.fd, SHUT_WR);
    expect_disconnect(&p, RNIC_CM_RESET);
    iw_expect_dropped(&p);
    iw_free(&p);
}

int main(int argc, char **argv)
{
    static const unsigned cuts[] = { 22, 23, 24, 25, 41, 42, 43, 69 };
    unsigned i;

    g_test_init(&argc, &argv, NULL);
    for (i = 0; i < G_N_ELEMENTS(codes); i++) {
        g_autofree char *name =
            g_strdup_printf("R28/%x-%x-%02x", codes[i].term >> 16,
                            codes[i].term >> 8 & 15, codes[i].term & 255);

        iw_add_row(name, &codes[i], every_code);
    }
    iw_add("R28/order-of-siw", test_order_of_siw);
    iw_add("R28/about-a-read", test_about_a_read);
    for (i = 0; i < G_N_ELEMENTS(cuts); i++) {
        g_autofree char *name = g_strdup_printf("R29/ends-at-%u", cuts[i]);

        iw_add_row(name, GUINT_TO_POINTER(cuts[i]), cut_after);
    }
    for (i = 0; i < G_N_ELEMENTS(bogus); i++) {
        g_autofree char *name = g_strdup_printf("R30/%s", bogus[i].name);

        iw_add_row(name, &bogus[i], not_answered);
    }
    iw_add("R31/more-behind-it", test_more_behind_it);
    iw_add("R32/both-at-once", test_both_at_once);
    iw_add("R32/answered-by-a-terminate", test_answered_by_a_terminate);
    iw_add("R32/two-errors-at-once", test_two_errors_at_once);
    g_test_add_func("/wire/R33/without-the-crc/crc-on", test_without_the_crc);
    iw_add("R34/within-a-write", test_within_a_write);
    iw_add("R34/within-a-send", test_within_a_send);
    iw_add("R34/within-read-responses", test_within_read_responses);
    iw_add("R35/closed-by-the-peer", test_closed_by_the_peer);
    iw_add("R35/closed-by-the-device", test_closed_by_the_device);
    iw_add("R35/closed-by-both", test_closed_by_both);
    iw_add("R35/with-a-read-under-way", test_closed_with_a_read_under_way);
    return g_test_run();
}
