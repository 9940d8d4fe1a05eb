/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Immediate Data (RFC 7306 section 6) on the wire, both ways. The numbers are
 * those of the list of wire cases, A09 to A12 and A14.
 */
#include "iwarp-peer.h"
#include "raw-peer.h"

#include <string.h>

#define IW_IMM    0x48
#define IW_IMM_SE 0x49

static const uint8_t eight[9] = { 0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, 5 };

static void start(struct iw_peer *p, gconstpointer crc)
{
    struct iw_options options;

    iw_options_init(&options, GPOINTER_TO_INT(crc));
    options.rfc7306 = true;
    iw_start(p, &options);
    memset(p->buf.ptr, 0xee, PEER_BUF);
}

static void send_imm_of(struct iw_peer *p, uint8_t rdmap, uint32_t msn,
                        size_t len)
{
    uint8_t ulpdu[64];

    iw_send(p, ulpdu,
            iw_untagged(ulpdu, IW_UNTAGGED, rdmap, 0, 0, msn, 0, eight, len));
}

static void send_imm(struct iw_peer *p, uint8_t rdmap, uint32_t msn)
{
    send_imm_of(p, rdmap, msn, 8);
}

static void send_write(struct iw_peer *p, uint8_t ddp, uint64_t offset,
                       uint32_t len, uint32_t seed)
{
    g_autofree uint8_t *ulpdu = g_malloc(14 + len);
    g_autofree uint8_t *payload = g_malloc(len + 1);

    th_fill(payload, len, seed);
    iw_send(p, ulpdu,
            iw_tagged(ulpdu, ddp, IW_WRITE, p->stag, PEER_IOVA + offset,
                      payload, len));
}

static void wait_imm(struct iw_peer *p, uint64_t wr_id, uint32_t byte_len,
                     bool solicited)
{
    struct rnic_cqe cqe;

    th_cq_wait(p->qp->attr.recv_cq, &cqe);
    g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, wr_id);
    g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
    g_assert_cmpuint(cqe.opcode, ==, RNIC_WR_RECV);
    g_assert_cmphex(cqe.flags, ==,
                    RNIC_CQE_WITH_IMM | (solicited ? RNIC_CQE_SOLICITED : 0));
    g_assert_cmpmem(&cqe.imm_data, 4, eight, 4);
    g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, byte_len);
}

/* The octets of a receive are not written */
static void check_receive_untouched(struct iw_peer *p, uint64_t offset,
                                    uint32_t len)
{
    uint32_t i;

    for (i = 0; i < len; i++) {
        g_assert_cmpuint(p->buf.ptr[offset + i], ==, 0xee);
    }
}

static void test_a09_behind_a_write(gconstpointer crc)
{
    struct iw_peer p;

    start(&p, crc);
    iw_post_recv(&p, 1, 0, 100);
    send_write(&p, 0x81, 4096, 3000, 1);
    send_write(&p, 0xc1, 7096, 1000, 2);
    send_imm(&p, IW_IMM, 1);
    wait_imm(&p, 1, 4000, false);
    th_check_filled(p.buf.ptr + 4096, 3000, 1);
    th_check_filled(p.buf.ptr + 7096, 1000, 2);
    check_receive_untouched(&p, 0, 100);
    iw_free(&p);
}

static void test_length_is_that_of_the_write_right_before(gconstpointer crc)
{
    struct iw_peer p;

    start(&p, crc);
    iw_post_recv(&p, 1, 0, 0);
    iw_post_recv(&p, 2, 0, 100);
    iw_post_recv(&p, 3, 0, 100);
    iw_post_recv(&p, 4, 0, 100);
    send_imm(&p, IW_IMM, 1); /* none */
    send_write(&p, IW_TAGGED, 4096, 1000, 1);
    send_write(&p, IW_TAGGED, 4096, 500, 1);
    send_imm(&p, IW_IMM, 2); /* only the last one */
    send_write(&p, IW_TAGGED, 4096, 700, 1);
    iw_send_message(&p, 3, 10); /* ends it */
    send_imm(&p, IW_IMM, 4);
    wait_imm(&p, 1, 0, false);
    wait_imm(&p, 2, 500, false);
    iw_wait_recv(&p, 3, RNIC_WC_SUCCESS, 10);
    wait_imm(&p, 4, 0, false);
    iw_free(&p);
}

static void test_a10_not_eight_octets(gconstpointer crc)
{
    static const size_t lengths[] = { 0, 7, 9 };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(lengths); i++) {
        struct iw_peer p;

        start(&p, crc);
        iw_post_recv(&p, 1, 0, 100);
        send_imm_of(&p, i % 2 ? IW_IMM_SE : IW_IMM, 1, lengths[i]);
        iw_expect_refused(&p, 0, 2, 0xff, NULL);
        iw_free(&p);
    }
}

static void test_a11_no_receive_posted(gconstpointer crc)
{
    struct iw_peer p;

    start(&p, crc);
    iw_post_recv(&p, 1, 0, 100);
    send_imm(&p, IW_IMM, 1);
    send_imm(&p, IW_IMM, 2);
    wait_imm(&p, 1, 0, false);
    iw_expect_term(&p, 1, 2, 0x02, NULL);
    g_assert_cmpuint(th_stat(p.guest, RNIC_STAT_rx_no_receive), ==, 1);
    iw_free(&p);
}

static void test_a12_solicited_event(gconstpointer crc)
{
    struct th_cq *cq;
    struct iw_peer p;

    start(&p, crc);
    cq = p.qp->attr.recv_cq;
    iw_post_recv(&p, 1, 0, 100);
    iw_post_recv(&p, 2, 0, 100);
    g_assert_false(th_cq_arm(cq, RNIC_CQ_ARM_SOLICITED));
    send_imm(&p, IW_IMM, 1);
    wait_imm(&p, 1, 0, false);
    th_run_for(5);
    g_assert_cmpuint(th_ceq_poll(&p.guest->ceq), ==, 0);
    send_imm(&p, IW_IMM_SE, 2);
    wait_imm(&p, 2, 0, true);
    g_assert_cmpuint(th_ceq_poll(&p.guest->ceq), ==, cq->cqn);
    iw_free(&p);
}

static void test_order_among_sends(gconstpointer crc)
{
    struct iw_peer p;
    unsigned i;

    start(&p, crc);
    for (i = 0; i < 6; i++) {
        iw_post_recv(&p, i, 1000 * i, 1000);
    }
    for (i = 0; i < 6; i += 2) {
        iw_send_message(&p, i + 1, 100);
        send_imm(&p, IW_IMM, i + 2);
    }
    for (i = 0; i < 6; i += 2) {
        iw_wait_recv(&p, i, RNIC_WC_SUCCESS, 100);
        wait_imm(&p, i + 1, 0, false);
    }
    iw_free(&p);
}

static void test_msn_of_another_message(gconstpointer crc)
{
    struct iw_peer p;

    start(&p, crc);
    iw_post_recv(&p, 1, 0, 100);
    send_imm(&p, IW_IMM, 2);
    iw_expect_refused(&p, 1, 2, 0x03, NULL);
    iw_free(&p);
}

static void test_within_a_send(gconstpointer crc)
{
    uint8_t ulpdu[64];
    struct iw_peer p;

    start(&p, crc);
    iw_post_recv(&p, 1, 0, 100);
    iw_post_recv(&p, 2, 0, 100);
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, IW_UNTAGGED & ~IW_NOT_LAST, IW_SEND, 0, 0, 1, 0,
                        "abcd", 4));
    send_imm(&p, IW_IMM, 1);
    iw_expect_term(&p, 1, 2, 0x04, NULL);
    iw_wait_recv(&p, 1, RNIC_WC_WR_FLUSH_ERR, 0);
    iw_wait_recv(&p, 2, RNIC_WC_WR_FLUSH_ERR, 0);
    iw_free(&p);
}

/* ---- Of the device ---- */

static uint64_t get(const uint8_t *from, unsigned octets)
{
    uint64_t value = 0;

    while (octets--) {
        value = value << 8 | *from++;
    }
    return value;
}

static void post(struct iw_peer *p, enum rnic_wr_opcode opcode, uint64_t wr_id,
                 uint32_t len, unsigned flags)
{
    struct th_wr wr = {
        .opcode = opcode,
        .flags = flags | RNIC_WQE_SIGNALED,
        .wr_id = wr_id,
        .sge = { th_sge(p->stag, PEER_IOVA, len) },
        .num_sge = opcode != RNIC_WR_IMM,
        .remote_stag = 0x11223344,
        .remote_to = 0x5566778899aabbcc,
        .imm = { 0xde, 0xad, 0xbe, 0xef },
    };

    th_post_send(p->qp, &wr, 1);
}

static void expect_imm(struct iw_peer *p, uint8_t rdmap, uint32_t msn)
{
    static const uint8_t data[8] = { 0xde, 0xad, 0xbe, 0xef };
    uint8_t ulpdu[65536];

    g_assert_cmpuint(iw_recv(p, ulpdu), ==, 26);
    g_assert_cmphex(ulpdu[0], ==, IW_UNTAGGED);
    g_assert_cmphex(ulpdu[1], ==, rdmap);
    g_assert_cmphex(get(ulpdu + 2, 4), ==, 0);
    g_assert_cmphex(get(ulpdu + 6, 4), ==, 0);
    g_assert_cmphex(get(ulpdu + 10, 4), ==, msn);
    g_assert_cmphex(get(ulpdu + 14, 4), ==, 0);
    g_assert_cmpmem(ulpdu + 18, 8, data, 8);
}

static void test_immediate_data_alone(gconstpointer crc)
{
    struct iw_peer p;

    start(&p, crc);
    iw_open_gate(&p);
    post(&p, RNIC_WR_IMM, 1, 0, 0);
    post(&p, RNIC_WR_IMM, 2, 0, RNIC_WQE_SOLICITED);
    expect_imm(&p, IW_IMM, 1);
    expect_imm(&p, IW_IMM_SE, 2);
    iw_wait_send(&p, 1, RNIC_WC_SUCCESS);
    iw_wait_send(&p, 2, RNIC_WC_SUCCESS);
    iw_free(&p);
}

static void test_write_with_immediate_is_two_messages(gconstpointer crc)
{
    static const uint32_t lengths[] = { 0, 1, 1000, 200000 };
    uint8_t ulpdu[65536];
    struct iw_peer p;
    unsigned i;

    start(&p, crc);
    iw_open_gate(&p);
    for (i = 0; i < G_N_ELEMENTS(lengths); i++) {
        uint32_t got = 0;

        post(&p, RNIC_WR_WRITE_IMM, i, lengths[i],
             i % 2 ? RNIC_WQE_SOLICITED : 0);
        do {
            size_t n = iw_recv(&p, ulpdu) - 14;

            g_assert_cmphex(ulpdu[1], ==, IW_WRITE);
            g_assert_cmphex(get(ulpdu + 2, 4), ==, 0x11223344);
            g_assert_cmphex(get(ulpdu + 6, 8), ==, 0x5566778899aabbcc + got);
            got += n;
        } while (!(ulpdu[0] & 0x40));
        g_assert_cmpuint(got, ==, lengths[i]);
        expect_imm(&p, i % 2 ? IW_IMM_SE : IW_IMM, i + 1);
        /* One completion */
        iw_wait_send(&p, i, RNIC_WC_SUCCESS);
    }
    post(&p, RNIC_WR_WRITE, 99, 0, 0);
    iw_wait_send(&p, 99, RNIC_WC_SUCCESS);
    iw_free(&p);
}

static void test_a14_peer_without_support(gconstpointer crc)
{
    uint8_t ulpdu[64], payload[24] = { 0x02, 0x06, 0xc0, 0, 0, 26 };
    struct rnic_aeqe event;
    struct iw_peer p;

    start(&p, crc);
    iw_open_gate(&p);
    p.guest->look_for = "does not support RFC 7306";
    post(&p, RNIC_WR_IMM, 1, 0, 0);
    /* The request was done when TCP had it: what is wrong is told by an event
     * and by the end of the QP */
    iw_wait_send(&p, 1, RNIC_WC_SUCCESS);
    iw_recv(&p, ulpdu);
    memcpy(payload + 6, ulpdu, 18);
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, IW_UNTAGGED, IW_TERM, 0, 2, 1, 0, payload, 24));
    th_event_wait(p.guest, RNIC_EV_QP_REQ_ERR, p.qp->qpn, &event);
    g_assert_cmphex(GUINT32_FROM_LE(event.term), ==,
                    RNIC_TERM_VALID | RNIC_TERM_REMOTE | 0x000206);
    iw_expect_error(&p);
    g_assert_cmpuint(p.guest->found, ==, 1);
    iw_free(&p);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    iw_add("A09/behind-a-write", test_a09_behind_a_write);
    iw_add("A09/length", test_length_is_that_of_the_write_right_before);
    iw_add("A10/not-eight-octets", test_a10_not_eight_octets);
    iw_add("A11/no-receive", test_a11_no_receive_posted);
    iw_add("A12/solicited", test_a12_solicited_event);
    iw_add("A09/order-among-sends", test_order_among_sends);
    iw_add("A10/msn", test_msn_of_another_message);
    iw_add("A10/within-a-send", test_within_a_send);
    iw_add("A09/of-the-device-alone", test_immediate_data_alone);
    iw_add("A09/of-the-device-with-a-write",
           test_write_with_immediate_is_two_messages);
    iw_add("A14/peer-without-support", test_a14_peer_without_support);
    return g_test_run();
}
