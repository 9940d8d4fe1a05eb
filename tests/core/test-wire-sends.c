/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RDMAP's Sends as a peer may send them: R01, R02, R21 to R23, R27
 */
#include "iwarp-peer.h"
#include "raw-peer.h"

#include <string.h>

#define NOT_LAST    0x01
#define SEND_SE_INV 0x46

static void send_of(struct iw_peer *p, uint8_t rdmap, uint32_t inv,
                    uint32_t msn, size_t len)
{
    g_autofree uint8_t *ulpdu = g_malloc(18 + len);
    g_autofree uint8_t *payload = g_malloc(len + 1);

    th_fill(payload, len, msn);
    iw_send(
        p, ulpdu,
        iw_untagged(ulpdu, IW_UNTAGGED, rdmap, inv, 0, msn, 0, payload, len));
}

static void wait_recv(struct iw_peer *p, struct rnic_cqe *cqe)
{
    th_cq_wait(p->qp->attr.recv_cq, cqe);
    p->oracle.recvs++;
    g_assert_cmpuint(cqe->status, ==, RNIC_WC_SUCCESS);
}

/* ---- Solicited events ---- */

static void test_solicited_event(gconstpointer crc)
{
    struct rnic_cqe cqe;
    struct th_cq *cq;
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_allow(&p, 0, 100);
    cq = p.qp->attr.recv_cq;
    iw_post_recv(&p, 1, 0, 100);
    iw_post_recv(&p, 2, 0, 100);
    g_assert_false(th_cq_arm(cq, RNIC_CQ_ARM_SOLICITED));
    send_of(&p, IW_SEND, 0, 1, 10);
    wait_recv(&p, &cqe);
    g_assert_cmpuint(cqe.flags, ==, 0);
    g_assert_cmpuint(th_ceq_poll(&p.guest->ceq), ==, 0);
    g_assert_false(th_cq_arm(cq, RNIC_CQ_ARM_SOLICITED));
    send_of(&p, IW_SEND_SE, 0, 2, 10);
    wait_recv(&p, &cqe);
    g_assert_cmpuint(cqe.flags, ==, RNIC_CQE_SOLICITED);
    g_assert_cmpuint(th_ceq_poll(&p.guest->ceq), ==, cq->cqn);
    g_assert_cmpuint(th_ceq_poll(&p.guest->ceq), ==, 0);
    iw_expect_harmless(&p, 3);
    iw_free(&p);
}

/* ---- A Send behind a Write ---- */

static void test_send_shows_the_write_before_it(gconstpointer crc)
{
    static const uint32_t lens[] = { 1, 100, 3000, 60000 };
    g_autofree uint8_t *ulpdu = g_malloc(65536);
    g_autofree uint8_t *payload = g_malloc(65536);
    struct rnic_cqe cqe;
    struct iw_peer p;
    unsigned i;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_allow(&p, 0, 60000);
    for (i = 0; i < 24; i++) {
        uint32_t len = lens[i % G_N_ELEMENTS(lens)];

        th_fill(payload, len, i);
        iw_send(&p, ulpdu,
                iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag, PEER_IOVA,
                          payload, len));
        iw_post_recv(&p, i, 100000, 0);
        send_of(&p, IW_SEND, 0, i + 1, 0);
        /* Looked at without running the device in between */
        wait_recv(&p, &cqe);
        th_check_filled(p.buf.ptr, len, i);
    }
    iw_expect_harmless(&p, i + 1);
    iw_free(&p);
}

/* ---- Invalidation ---- */

struct fast_region {
    struct th_buf buf;
    uint32_t stag;
};

#define FAST_IOVA 0x7000

/* A region that was registered by a work request, of a kernel QP that then
 * goes again */
static struct fast_region fast_region(struct iw_peer *p, uint32_t pdn,
                                      uint32_t access)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_ALLOC_MR };
    struct th_wr wr = {
        .opcode = RNIC_WR_REG_MR,
        .flags = RNIC_WQE_SIGNALED,
        .reg = {
            .access = GUINT32_TO_LE(access),
            .num_pages = GUINT32_TO_LE(1),
            .iova = GUINT64_TO_LE(FAST_IOVA),
            .length = GUINT64_TO_LE(4096),
            .page_shift = GUINT32_TO_LE(12),
        },
    };
    struct fast_region region = { .buf = th_buf_new(p->guest, 4096, 1, 0) };
    uint64_t list = th_alloc(p->guest, 8, 8);
    struct th_qp_attr attr;
    struct rnic_acqe resp;
    struct rnic_cqe cqe;
    struct th_qp *qp[2];
    unsigned i;

    cmd.alloc_mr.pdn = GUINT32_TO_LE(pdn);
    cmd.alloc_mr.max_pages = GUINT32_TO_LE(1);
    g_assert_cmpuint(th_admin(p->guest, &cmd, &resp), ==, RNIC_ADMIN_OK);
    region.stag = GUINT32_FROM_LE(resp.mr.stag) + 1;
    *(uint64_t *)th_ptr(p->guest, list) = GUINT64_TO_LE(region.buf.pages[0]);
    wr.reg.stag = GUINT32_TO_LE(region.stag);
    wr.reg.pages = GUINT64_TO_LE(list);

    th_qp_attr_init(&attr);
    attr.flags = RNIC_QP_KERNEL;
    attr.pdn = pdn;
    qp[0] = th_qp_new(p->guest, &attr);
    qp[1] = th_qp_new(p->guest, &attr);
    th_connect_pair(qp[0], IW_DEVICE, qp[1], IW_DEVICE, NULL);
    th_post_send(qp[0], &wr, 1);
    th_cq_wait(qp[0]->attr.send_cq, &cqe);
    g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
    g_assert_cmpuint(th_qp_modify(qp[0], RNIC_QPS_CLOSING), ==, RNIC_ADMIN_OK);
    for (i = 0; i < 2; i++) {
        th_event_wait(p->guest, RNIC_EV_CLOSE, qp[i]->qpn, NULL);
        th_qp_free(qp[i]);
    }
    return region;
}

static void write_to(struct iw_peer *p, uint32_t stag, uint64_t to)
{
    uint8_t ulpdu[64];

    iw_send(p, ulpdu,
            iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, stag, to, "hello", 5));
}

static void invalidates(bool crc, uint8_t rdmap, size_t len)
{
    struct fast_region region;
    struct rnic_cqe cqe;
    struct iw_peer p;

    iw_start_crc(&p, crc);
    iw_allow(&p, 0, 100);
    region = fast_region(&p, TH_PD, RNIC_ACCESS_ALL);
    iw_post_recv(&p, 1, 0, 100);
    write_to(&p, region.stag, FAST_IOVA);
    send_of(&p, rdmap, region.stag, 1, len);
    wait_recv(&p, &cqe);
    g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, len);
    g_assert_cmpuint(cqe.flags, ==,
                     RNIC_CQE_WITH_INV |
                         (rdmap == SEND_SE_INV ? RNIC_CQE_SOLICITED : 0));
    g_assert_cmphex(GUINT32_FROM_LE(cqe.inv_stag), ==, region.stag);
    g_assert_cmpmem(region.buf.ptr, 5, "hello", 5);
    memset(region.buf.ptr, 0, 5);
    write_to(&p, region.stag, FAST_IOVA);
    iw_expect_refused(&p, 1, 1, 0x00, NULL);
    g_assert_cmpuint(region.buf.ptr[0], ==, 0);
    iw_free(&p);
}

static void test_invalidate(gconstpointer crc)
{
    invalidates(GPOINTER_TO_INT(crc), IW_SEND_INV, 10);
}

static void test_invalidate_with_an_event(gconstpointer crc)
{
    invalidates(GPOINTER_TO_INT(crc), SEND_SE_INV, 10);
}

static void test_invalidate_with_an_empty_send(gconstpointer crc)
{
    invalidates(GPOINTER_TO_INT(crc), IW_SEND_INV, 0);
}

/* What a user program registered, too */
static void test_invalidate_a_region_of_a_command(gconstpointer crc)
{
    struct rnic_cqe cqe;
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_post_recv(&p, 1, 0, 100);
    send_of(&p, IW_SEND_INV, p.stag, 1, 0);
    wait_recv(&p, &cqe);
    g_assert_cmphex(GUINT32_FROM_LE(cqe.inv_stag), ==, p.stag);
    write_to(&p, p.stag, PEER_IOVA);
    iw_expect_refused(&p, 1, 1, 0x00, NULL);
    iw_free(&p);
}

/* With the delivery of the message, and not with its first segment */
static void test_invalidate_at_the_end_of_the_message(gconstpointer crc)
{
    struct fast_region region;
    struct rnic_cqe cqe;
    uint8_t ulpdu[64];
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_allow(&p, 0, 10);
    region = fast_region(&p, TH_PD, RNIC_ACCESS_ALL);
    iw_post_recv(&p, 1, 0, 100);
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, NOT_LAST, IW_SEND_INV, region.stag, 0, 1, 0,
                        "hello", 5));
    write_to(&p, region.stag, FAST_IOVA);
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND_INV, region.stag, 0, 1, 5,
                        "hello", 5));
    wait_recv(&p, &cqe);
    g_assert_cmphex(GUINT32_FROM_LE(cqe.inv_stag), ==, region.stag);
    g_assert_cmpmem(region.buf.ptr, 5, "hello", 5);
    write_to(&p, region.stag, FAST_IOVA + 10);
    iw_expect_refused(&p, 1, 1, 0x00, NULL);
    iw_free(&p);
}

/* @stag cannot be invalidated */
static void not_invalidated(struct iw_peer *p, uint32_t stag, uint8_t etype)
{
    uint8_t ulpdu[64], term[70];
    size_t len;

    iw_allow(p, 0, 5);
    iw_post_recv(p, 1, 0, 100);
    iw_post_recv(p, 2, 1000, 100);
    len =
        iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND_INV, stag, 0, 1, 0, "hello", 5);
    iw_send(p, ulpdu, len);
    p->oracle.recv_status = RNIC_WC_REM_INV_REQ_ERR;
    iw_expect_refused(p, 0, etype, 0x09, term);
    g_assert_cmphex(term[20], ==, 0xc0);
    g_assert_cmpuint(iw_get(term + 22, 2), ==, len);
    g_assert_cmpmem(term + 24, 18, ulpdu, 18);
    iw_free(p);
}

static void test_invalidate_an_unknown_stag(gconstpointer crc)
{
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    not_invalidated(&p, p.stag ^ 0x55500, 2);
}

static void test_invalidate_with_a_wrong_key(gconstpointer crc)
{
    struct fast_region region;
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    region = fast_region(&p, TH_PD, RNIC_ACCESS_ALL);
    not_invalidated(&p, region.stag ^ 1, 2);
}

static void test_invalidate_twice(gconstpointer crc)
{
    struct fast_region region;
    struct rnic_cqe cqe;
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    region = fast_region(&p, TH_PD, RNIC_ACCESS_ALL);
    iw_post_recv(&p, 1, 0, 100);
    send_of(&p, IW_SEND_INV, region.stag, 1, 0);
    wait_recv(&p, &cqe);
    p.oracle.recv_status = RNIC_WC_REM_INV_REQ_ERR;
    iw_post_recv(&p, 2, 0, 100);
    send_of(&p, IW_SEND_INV, region.stag, 2, 0);
    iw_expect_refused(&p, 0, 2, 0x09, NULL);
    iw_free(&p);
}

static void test_invalidate_an_stag_of_another_pd(gconstpointer crc)
{
    struct fast_region region;
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    region = fast_region(&p, TH_PD + 1, RNIC_ACCESS_ALL);
    not_invalidated(&p, region.stag, 1);
}

/* A peer can only take away what it was given */
static void test_invalidate_a_region_for_local_use(gconstpointer crc)
{
    struct fast_region region;
    struct iw_peer p;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    region = fast_region(&p, TH_PD, RNIC_ACCESS_LOCAL_WRITE);
    not_invalidated(&p, region.stag, 1);
}

/* ---- Fields that a plain Send does not use ---- */

static void test_invalidate_stag_of_a_plain_send(gconstpointer crc)
{
    struct fast_region region;
    struct rnic_cqe cqe;
    struct iw_peer p;
    unsigned i;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_allow(&p, 0, 10);
    region = fast_region(&p, TH_PD, RNIC_ACCESS_ALL);
    for (i = 0; i < 2; i++) {
        iw_post_recv(&p, 1, 0, 100);
        send_of(&p, i ? IW_SEND_SE : IW_SEND, region.stag, i + 1, 10);
        wait_recv(&p, &cqe);
        g_assert_cmpuint(cqe.flags, ==, i ? RNIC_CQE_SOLICITED : 0);
        g_assert_cmphex(GUINT32_FROM_LE(cqe.inv_stag), ==, 0);
    }
    write_to(&p, region.stag, FAST_IOVA);
    iw_expect_harmless(&p, 3);
    g_assert_cmpmem(region.buf.ptr, 5, "hello", 5);
    iw_free(&p);
}

static void test_reserved_bits(gconstpointer crc)
{
    static const uint8_t reserved[] = { 0x10, 0x20, 0x30 };
    struct rnic_cqe cqe;
    struct iw_peer p;
    unsigned i;

    iw_start_crc(&p, GPOINTER_TO_INT(crc));
    iw_allow(&p, 0, 10);
    for (i = 0; i < G_N_ELEMENTS(reserved); i++) {
        iw_post_recv(&p, 1, 0, 100);
        send_of(&p, IW_SEND | reserved[i], 0, i + 1, 10);
        wait_recv(&p, &cqe);
        g_assert_cmpuint(cqe.flags, ==, 0);
        th_check_filled(p.buf.ptr, 10, i + 1);
    }
    iw_expect_harmless(&p, i + 1);
    iw_free(&p);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    iw_add("R01/solicited-event", test_solicited_event);
    iw_add("R02/send-behind-a-write", test_send_shows_the_write_before_it);
    iw_add("R21/invalidate", test_invalidate);
    iw_add("R21/and-an-event", test_invalidate_with_an_event);
    iw_add("R21/empty", test_invalidate_with_an_empty_send);
    iw_add("R21/region-of-a-command", test_invalidate_a_region_of_a_command);
    iw_add("R21/at-the-end", test_invalidate_at_the_end_of_the_message);
    iw_add("R22/unknown-stag", test_invalidate_an_unknown_stag);
    iw_add("R22/wrong-key", test_invalidate_with_a_wrong_key);
    iw_add("R22/twice", test_invalidate_twice);
    iw_add("R22/another-pd", test_invalidate_an_stag_of_another_pd);
    iw_add("R22/region-for-local-use", test_invalidate_a_region_for_local_use);
    iw_add("R23/invalidate-field", test_invalidate_stag_of_a_plain_send);
    iw_add("R27/reserved-bits", test_reserved_bits);
    return g_test_run();
}
