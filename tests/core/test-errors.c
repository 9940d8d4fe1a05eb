/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Errors: which end is told what, and that nothing else changes
 */
#include "pair.h"

#include <string.h>

#define TERM(layer, etype, code) ((layer) << 16 | (etype) << 8 | (code))

static uint32_t query_term(struct th_qp *qp)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_QUERY_QP };
    struct rnic_acqe resp;

    cmd.id.id = GUINT32_TO_LE(qp->qpn);
    g_assert_cmpuint(th_admin(qp->guest, &cmd, &resp), ==, RNIC_ADMIN_OK);
    return GUINT32_FROM_LE(resp.query_qp.term);
}

/* @side sent a Terminate with this code, the other got it and sent none */
static void check_terminate(struct pair *p, unsigned side, uint32_t term)
{
    g_assert_cmphex(query_term(p->qp[side]), ==, RNIC_TERM_VALID | term);
    g_assert_cmphex(query_term(p->qp[!side]), ==,
                    RNIC_TERM_VALID | RNIC_TERM_REMOTE | term);
    g_assert_cmpuint(th_stat(p->guest[side], RNIC_STAT_term_sent), ==, 1);
    g_assert_cmpuint(th_stat(p->guest[!side], RNIC_STAT_term_received), ==, 1);
    g_assert_cmpuint(th_stat(p->guest[side], RNIC_STAT_term_received), ==, 0);
    g_assert_cmpuint(th_stat(p->guest[!side], RNIC_STAT_term_sent), ==, 0);
}

static void check_event(struct pair *p, unsigned side,
                        enum rnic_event_type type, uint32_t term)
{
    struct rnic_aeqe event;

    th_event_wait(p->guest[side], type, p->qp[side]->qpn, &event);
    g_assert_cmphex(GUINT32_FROM_LE(event.term), ==, RNIC_TERM_VALID | term);
}

/* ---- What the target refuses ---- */

struct refusal {
    const char *name;
    enum rnic_wr_opcode opcode;
    enum { OK_STAG, BAD_STAG, BAD_KEY, OTHER_PD, NO_RIGHT } stag;
    uint64_t to;
    uint32_t len;
    uint32_t term;
    enum rnic_wc_status status; /* of a Read */
};

#define BUF_LEN 65536ull
#define END     (PAIR_IOVA + BUF_LEN)

static const struct refusal refusals[] = {
    { "write-to-unknown-stag", RNIC_WR_WRITE, BAD_STAG, PAIR_IOVA, 8,
      TERM(1, 1, 0x00), 0 },
    { "write-with-wrong-key", RNIC_WR_WRITE, BAD_KEY, PAIR_IOVA, 8,
      TERM(1, 1, 0x00), 0 },
    { "write-to-other-pd", RNIC_WR_WRITE, OTHER_PD, PAIR_IOVA, 8,
      TERM(1, 1, 0x02), 0 },
    { "write-without-right", RNIC_WR_WRITE, NO_RIGHT, PAIR_IOVA, 8,
      TERM(0, 1, 0x02), 0 },
    { "write-past-end", RNIC_WR_WRITE, OK_STAG, END - 7, 8, TERM(1, 1, 0x01),
      0 },
    { "write-at-end", RNIC_WR_WRITE, OK_STAG, END, 1, TERM(1, 1, 0x01), 0 },
    { "write-before-start", RNIC_WR_WRITE, OK_STAG, PAIR_IOVA - 1, 8,
      TERM(1, 1, 0x01), 0 },
    { "write-that-wraps", RNIC_WR_WRITE, OK_STAG, -4ull, 8, TERM(1, 1, 0x03),
      0 },
    { "read-of-unknown-stag", RNIC_WR_READ, BAD_STAG, PAIR_IOVA, 8,
      TERM(0, 1, 0x00), RNIC_WC_REM_ACCESS_ERR },
    { "read-of-other-pd", RNIC_WR_READ, OTHER_PD, PAIR_IOVA, 8,
      TERM(0, 1, 0x03), RNIC_WC_REM_ACCESS_ERR },
    { "read-without-right", RNIC_WR_READ, NO_RIGHT, PAIR_IOVA, 8,
      TERM(0, 1, 0x02), RNIC_WC_REM_ACCESS_ERR },
    { "read-past-end", RNIC_WR_READ, OK_STAG, END - 7, 8, TERM(0, 1, 0x01),
      RNIC_WC_REM_ACCESS_ERR },
    { "read-that-wraps", RNIC_WR_READ, OK_STAG, -4ull, 8, TERM(0, 1, 0x04),
      RNIC_WC_REM_ACCESS_ERR },
};

static uint32_t refusal_stag(struct pair *p, const struct refusal *r)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_REG_MR };
    struct rnic_acqe resp;

    switch (r->stag) {
    case OK_STAG:
        return p->stag[1];
    case BAD_STAG:
        return p->stag[1] ^ 0x55555500;
    case BAD_KEY:
        return p->stag[1] ^ 1;
    case NO_RIGHT:
        return th_reg_mr(p->guest[1], &p->buf[1], PAIR_IOVA,
                         RNIC_ACCESS_LOCAL_WRITE |
                             (r->opcode == RNIC_WR_WRITE
                                  ? RNIC_ACCESS_REMOTE_READ
                                  : RNIC_ACCESS_REMOTE_WRITE));
    case OTHER_PD:
        break;
    }
    cmd.reg_mr.pdn = GUINT32_TO_LE(TH_PD + 1);
    cmd.reg_mr.access = GUINT32_TO_LE(RNIC_ACCESS_ALL);
    cmd.reg_mr.iova = GUINT64_TO_LE(PAIR_IOVA);
    cmd.reg_mr.buf = p->buf[1].desc;
    g_assert_cmpuint(th_admin(p->guest[1], &cmd, &resp), ==, RNIC_ADMIN_OK);
    return GUINT32_FROM_LE(resp.mr.stag);
}

static void refuse(const struct refusal *r, enum rnic_crc_policy crc)
{
    struct th_wr wr = {
        .opcode = r->opcode,
        .wr_id = 2,
        .num_sge = 1,
        .remote_to = r->to,
    };
    struct pair_options options;
    struct rnic_cqe cqe;
    struct pair p;
    enum rnic_event_type type = RNIC_EV_QP_ACCESS_ERR;

    pair_options_init(&options, crc);
    options.buf_len = BUF_LEN;
    pair_new(&p, &options);
    pair_connect(&p, NULL);
    memset(p.buf[1].ptr, 0xaa, BUF_LEN);
    wr.sge[0] = pair_sge(&p, 0, 0, r->len);
    wr.remote_stag = refusal_stag(&p, r);

    pair_post_recv(&p, 0, 8, 0, 10);
    pair_post_recv(&p, 1, 9, 0, 10);
    /* What comes before is still done */
    if (r->opcode == RNIC_WR_READ) {
        pair_post(&p, 0, RNIC_WR_READ, 1, 100, 100, 0);
    } else {
        pair_post(&p, 0, RNIC_WR_WRITE, 1, 1000, 100, 0);
    }
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_error(&p);
    check_terminate(&p, 1, r->term);
    check_event(&p, 1, type, r->term);
    check_event(&p, 0, type, RNIC_TERM_REMOTE | r->term);

    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    if (r->opcode == RNIC_WR_READ) {
        /* Unsignalled, but an error completes always */
        pair_wait_send(&p, 0, 2, r->status, &cqe);
        g_assert_cmphex(GUINT32_FROM_LE(cqe.vendor_err), ==, r->term);
    } else {
        g_assert_cmpmem(p.buf[0].ptr + 1000, 100, p.buf[1].ptr + 1000, 100);
        memset(p.buf[1].ptr + 1000, 0xaa, 100);
    }
    pair_wait_recv(&p, 0, 8, RNIC_WC_WR_FLUSH_ERR, NULL);
    pair_wait_recv(&p, 1, 9, RNIC_WC_WR_FLUSH_ERR, NULL);
    pair_no_completions(&p, 0);
    pair_no_completions(&p, 1);
    if (r->opcode == RNIC_WR_WRITE) {
        unsigned i;

        for (i = 0; i < BUF_LEN; i++) {
            g_assert_cmpuint(p.buf[1].ptr[i], ==, 0xaa);
        }
    }
    pair_free(&p);
}

static void test_refusal_crc_off(gconstpointer data)
{
    refuse(data, RNIC_CRC_OFF);
}

static void test_refusal_crc_on(gconstpointer data)
{
    refuse(data, RNIC_CRC_ON);
}

static void test_write_exactly_to_the_end(gconstpointer data)
{
    struct pair p;

    pair_start(&p, pair_crc(data));
    th_fill(p.buf[0].ptr + p.buf[0].len - 100, 100, 1);
    pair_post(&p, 0, RNIC_WR_WRITE, 1, p.buf[0].len - 100, 100, 0);
    pair_post(&p, 0, RNIC_WR_READ, 2, p.buf[0].len - 100, 100, 0);
    /* No octets at the end: nothing to be checked */
    pair_post(&p, 0, RNIC_WR_WRITE, 3, p.buf[0].len, 0, 0);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    pair_wait_send(&p, 0, 2, RNIC_WC_SUCCESS, NULL);
    pair_wait_send(&p, 0, 3, RNIC_WC_SUCCESS, NULL);
    th_check_filled(p.buf[1].ptr + p.buf[1].len - 100, 100, 1);
    pair_free(&p);
}

/* ---- Sends ---- */

static void test_send_without_receive(gconstpointer data)
{
    struct pair p;

    pair_start(&p, pair_crc(data));
    pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 100, 0);
    pair_wait_error(&p);
    check_terminate(&p, 1, TERM(1, 2, 0x02));
    check_event(&p, 1, RNIC_EV_QP_REQ_ERR, TERM(1, 2, 0x02));
    g_assert_cmpuint(th_stat(p.guest[1], RNIC_STAT_rx_no_receive), ==, 1);
    g_assert_cmpuint(p.guest[1]->trace_count[RNIC_TRACE_no_receive], ==, 1);
    /* TCP had taken it */
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    pair_free(&p);
}

static void test_empty_send_without_receive(gconstpointer data)
{
    struct pair p;

    pair_start(&p, pair_crc(data));
    pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 0, 0);
    pair_wait_error(&p);
    check_terminate(&p, 1, TERM(1, 2, 0x02));
    pair_free(&p);
}

static void test_send_longer_than_receive(gconstpointer data)
{
    struct rnic_cqe cqe;
    struct pair p;

    pair_start(&p, pair_crc(data));
    memset(p.buf[1].ptr, 0xaa, 4096);
    pair_post_recv(&p, 1, 5, 1024, 1024);
    pair_post_recv(&p, 1, 6, 0, 10);
    pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 1025, 0);
    pair_wait_error(&p);
    check_terminate(&p, 1, TERM(1, 2, 0x05));
    pair_wait_recv(&p, 1, 5, RNIC_WC_LOC_LEN_ERR, &cqe);
    g_assert_cmphex(GUINT32_FROM_LE(cqe.vendor_err), ==, TERM(1, 2, 0x05));
    pair_wait_recv(&p, 1, 6, RNIC_WC_WR_FLUSH_ERR, NULL);
    g_assert_cmpuint(p.buf[1].ptr[1024], ==, 0xaa);
    g_assert_cmpuint(p.buf[1].ptr[2048], ==, 0xaa);
    pair_free(&p);
}

static void test_long_send_longer_than_receive(gconstpointer data)
{
    struct pair p;

    pair_start(&p, pair_crc(data));
    memset(p.buf[1].ptr, 0xaa, 400000);
    pair_post_recv(&p, 1, 5, 0, 300000);
    pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 300001, 0);
    pair_wait_error(&p);
    check_terminate(&p, 1, TERM(1, 2, 0x05));
    pair_wait_recv(&p, 1, 5, RNIC_WC_LOC_LEN_ERR, NULL);
    g_assert_cmpuint(p.buf[1].ptr[300000], ==, 0xaa);
    pair_free(&p);
}

static void test_receive_with_a_bad_sge(gconstpointer data)
{
    struct rnic_sge sge;
    struct rnic_cqe cqe;
    struct pair p;

    pair_start(&p, pair_crc(data));
    sge = th_sge(p.stag[1] ^ 1, PAIR_IOVA, 100);
    th_post_recv(p.qp[1], 5, &sge, 1);
    pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 10, 0);
    pair_wait_error(&p);
    check_terminate(&p, 1, TERM(1, 0, 0x00));
    pair_wait_recv(&p, 1, 5, RNIC_WC_LOC_PROT_ERR, &cqe);
    pair_free(&p);
}

static void test_receive_with_too_many_sges(gconstpointer data)
{
    struct rnic_sge sge[32] = { 0 };
    struct pair p;

    pair_start(&p, pair_crc(data));
    th_post_recv(p.qp[1], 5, sge, RNIC_MAX_SGE + 1);
    pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 0, 0);
    pair_wait_error(&p);
    check_terminate(&p, 1, TERM(1, 0, 0x00));
    pair_wait_recv(&p, 1, 5, RNIC_WC_LOC_QP_OP_ERR, NULL);
    pair_free(&p);
}

static void invalidate_fails(enum rnic_crc_policy crc, bool other_pd)
{
    struct refusal r = { .stag = other_pd ? OTHER_PD : BAD_STAG };
    struct th_wr wr = {
        .opcode = RNIC_WR_SEND_INV,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = 2,
    };
    uint32_t term = other_pd ? TERM(0, 1, 0x09) : TERM(0, 2, 0x09);
    struct pair p;

    pair_start(&p, crc);
    wr.inv_stag = refusal_stag(&p, &r);
    pair_post_recv(&p, 1, 5, 0, 100);
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_error(&p);
    check_terminate(&p, 1, term);
    pair_wait_recv(&p, 1, 5, RNIC_WC_REM_INV_REQ_ERR, NULL);
    pair_free(&p);
}

static void test_invalidate_unknown_stag(gconstpointer data)
{
    invalidate_fails(pair_crc(data), false);
}

static void test_invalidate_stag_of_other_pd(gconstpointer data)
{
    invalidate_fails(pair_crc(data), true);
}

/* ---- Work requests that cannot be executed ---- */

static const uint8_t inline_octets[RNIC_MAX_INLINE + 1];

static const struct {
    const char *name;
    struct th_wr wr;
    enum rnic_wc_status status;
} bad_wrs[] = {
    { "unknown-opcode", { .opcode = 99 }, RNIC_WC_LOC_QP_OP_ERR },
    { "recv-opcode", { .opcode = RNIC_WR_RECV }, RNIC_WC_LOC_QP_OP_ERR },
    { "unknown-flag",
      { .opcode = RNIC_WR_SEND, .flags = 0x80 },
      RNIC_WC_LOC_QP_OP_ERR },
    { "too-many-sges",
      { .opcode = RNIC_WR_SEND, .num_sge = 17 },
      RNIC_WC_LOC_QP_OP_ERR },
    { "all-sges",
      { .opcode = RNIC_WR_WRITE, .num_sge = 255 },
      RNIC_WC_LOC_QP_OP_ERR },
    { "inline-too-long",
      { .opcode = RNIC_WR_WRITE, .flags = RNIC_WQE_INLINE, .inline_len = 481 },
      RNIC_WC_LOC_QP_OP_ERR },
    { "inline-length-of-4-gib",
      { .opcode = RNIC_WR_SEND,
        .flags = RNIC_WQE_INLINE,
        .inline_len = UINT32_MAX },
      RNIC_WC_LOC_QP_OP_ERR },
    { "inline-and-sges",
      { .opcode = RNIC_WR_SEND,
        .num_sge = 1,
        .inline_data = inline_octets,
        .inline_len = 4 },
      RNIC_WC_LOC_QP_OP_ERR },
    { "inline-read",
      { .opcode = RNIC_WR_READ, .inline_data = inline_octets, .inline_len = 4 },
      RNIC_WC_LOC_QP_OP_ERR },
    { "message-too-long",
      { .opcode = RNIC_WR_WRITE,
        .num_sge = 2,
        .sge = { { .length = GUINT32_TO_LE(UINT32_MAX) },
                 { .length = GUINT32_TO_LE(UINT32_MAX) } } },
      RNIC_WC_LOC_QP_OP_ERR },
    { "unknown-local-stag",
      { .opcode = RNIC_WR_SEND,
        .num_sge = 1,
        .sge = { { .length = GUINT32_TO_LE(4),
                   .lkey = GUINT32_TO_LE(0x77777777) } } },
      RNIC_WC_LOC_PROT_ERR },
    { "local-bounds",
      { .opcode = RNIC_WR_WRITE, .num_sge = 1 },
      RNIC_WC_LOC_PROT_ERR },
    { "read-sink-bounds",
      { .opcode = RNIC_WR_READ, .num_sge = 1 },
      RNIC_WC_LOC_PROT_ERR },
    { "local-dma-not-ram",
      { .opcode = RNIC_WR_WRITE,
        .num_sge = 1,
        .sge = { { .addr = GUINT64_TO_LE(0x1000),
                   .length = GUINT32_TO_LE(4) } } },
      RNIC_WC_LOC_PROT_ERR },
    { "invalidate-unknown-stag",
      { .opcode = RNIC_WR_LOCAL_INV, .inv_stag = 0x77777777 },
      RNIC_WC_MW_BIND_ERR },
    { "register-unknown-stag",
      { .opcode = RNIC_WR_REG_MR,
        .reg = { .stag = GUINT32_TO_LE(0x77777777) } },
      RNIC_WC_MW_BIND_ERR },
};

static void bad_wr(unsigned index, enum rnic_crc_policy crc)
{
    struct th_wr wr = bad_wrs[index].wr;
    struct rnic_sq_wqe *wqe;
    unsigned num_sge;
    struct pair p;

    pair_start(&p, crc);
    if (strstr(bad_wrs[index].name, "-bounds")) {
        wr.sge[0] = pair_sge(&p, 0, p.buf[0].len - 3, 4);
        wr.remote_stag = p.stag[1];
        wr.remote_to = PAIR_IOVA;
    }
    wr.wr_id = 2;
    /* What is posted before is done, what comes after is flushed */
    pair_post(&p, 0, RNIC_WR_READ, 1, 0, 10000, 0);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    pair_post(&p, 0, RNIC_WR_WRITE, 1, 0, 100000, 0);
    num_sge = wr.num_sge;
    wr.num_sge = MIN(num_sge, RNIC_MAX_SGE);
    wqe = th_ptr(p.guest[0], p.qp[0]->sq + 512 * p.qp[0]->sq_pi);
    th_post_send_quiet(p.qp[0], &wr, 1);
    /* More than a th_wr can hold */
    if (num_sge != wr.num_sge) {
        wqe->num_sge = num_sge;
    }
    pair_post(&p, 0, RNIC_WR_WRITE, 3, 0, 4, 0);
    pair_wait_error(&p);
    check_terminate(&p, 0, TERM(0, 0, 0xff));
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    pair_wait_send(&p, 0, 2, bad_wrs[index].status, NULL);
    pair_wait_send(&p, 0, 3, RNIC_WC_WR_FLUSH_ERR, NULL);
    pair_no_completions(&p, 0);
    g_assert_cmpuint(th_stat(p.guest[0], RNIC_STAT_guest_errors), >=, 1);
    pair_free(&p);
}

static void test_bad_wr_crc_off(gconstpointer data)
{
    bad_wr(GPOINTER_TO_UINT(data), RNIC_CRC_OFF);
}

static void test_bad_wr_crc_on(gconstpointer data)
{
    bad_wr(GPOINTER_TO_UINT(data), RNIC_CRC_ON);
}

static void test_user_qp_has_no_privileges(gconstpointer data)
{
    struct th_wr wr = {
        .opcode = data ? RNIC_WR_REG_MR : RNIC_WR_SEND,
        .wr_id = 2,
        .num_sge = 1,
    };
    struct pair_options options;
    struct pair p;

    pair_options_init(&options, RNIC_CRC_OFF);
    options.attr[0].flags = 0;
    pair_new(&p, &options);
    pair_connect(&p, NULL);
    wr.sge[0] = th_sge(RNIC_STAG_LOCAL_DMA, th_alloc(p.guest[0], 100, 8), 100);
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_send(&p, 0, 2,
                   data ? RNIC_WC_LOC_QP_OP_ERR : RNIC_WC_LOC_PROT_ERR, NULL);
    pair_free(&p);
}

static void test_read_with_ord_0(void)
{
    struct th_connect params = { .ird = 0, .ord = 0 };
    struct pair_options options;
    struct pair p;

    pair_options_init(&options, RNIC_CRC_OFF);
    pair_new(&p, &options);
    pair_connect(&p, &params);
    pair_post(&p, 0, RNIC_WR_READ, 1, 0, 4, 0);
    pair_wait_send(&p, 0, 1, RNIC_WC_LOC_QP_OP_ERR, NULL);
    pair_free(&p);
}

static void test_region_gone_while_sending(gconstpointer data)
{
    struct pair p;
    unsigned i;

    pair_start(&p, pair_crc(data));
    pair_post_recv(&p, 1, 5, 0, 4 << 20);
    pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 4 << 20, 0);
    /* Let it begin, while the peer does not read */
    pair_run_only(&p, 0);
    for (i = 0; i < 2; i++) {
        pair_no_completions(&p, i);
    }
    th_dereg_mr(p.guest[0], p.stag[0]);
    pair_wait_error(&p);
    check_terminate(&p, 0, TERM(0, 0, 0xff));
    pair_wait_send(&p, 0, 1, RNIC_WC_LOC_PROT_ERR, NULL);
    pair_wait_recv(&p, 1, 5, RNIC_WC_WR_FLUSH_ERR, NULL);
    pair_free(&p);
}

static void test_region_gone_while_receiving(gconstpointer data)
{
    uint8_t *copy;
    struct pair p;

    pair_start(&p, pair_crc(data));
    th_fill(p.buf[0].ptr, p.buf[0].len, 1);
    pair_post(&p, 0, RNIC_WR_WRITE, 1, 0, 4 << 20, 0);
    pair_run_only(&p, 0);
    /* A part of it is placed before the region goes */
    rnic_device_run(p.guest[1]->dev);
    th_dereg_mr(p.guest[1], p.stag[1]);
    copy = g_memdup2(p.buf[1].ptr, p.buf[1].len);
    pair_wait_error(&p);
    check_terminate(&p, 1, TERM(1, 1, 0x00));
    /* Not an octet after the DEREG_MR */
    g_assert_cmpmem(copy, p.buf[1].len, p.buf[1].ptr, p.buf[1].len);
    g_free(copy);
    pair_free(&p);
}

static void test_region_gone_while_a_read_is_served(gconstpointer data)
{
    struct pair p;

    pair_start(&p, pair_crc(data));
    pair_post(&p, 0, RNIC_WR_READ, 1, 0, 4 << 20, 0);
    pair_run_only(&p, 0);
    pair_run_only(&p, 1);
    th_dereg_mr(p.guest[1], p.stag[1]);
    pair_wait_error(&p);
    check_terminate(&p, 1, TERM(0, 1, 0x00));
    pair_wait_send(&p, 0, 1, RNIC_WC_REM_ACCESS_ERR, NULL);
    pair_free(&p);
}

static void test_sink_gone_while_reading(gconstpointer data)
{
    struct pair p;

    pair_start(&p, pair_crc(data));
    pair_post(&p, 0, RNIC_WR_READ, 1, 0, 4 << 20, 0);
    pair_run_only(&p, 0);
    th_dereg_mr(p.guest[0], p.stag[0]);
    pair_wait_error(&p);
    check_terminate(&p, 0, TERM(1, 0, 0x00));
    pair_wait_send(&p, 0, 1, RNIC_WC_LOC_PROT_ERR, NULL);
    pair_free(&p);
}

/* ---- Guest memory that is no RAM any more ---- */

enum hole {
    HOLE_SQ,
    HOLE_RQ,
    HOLE_SQ_DBREC,
    HOLE_STATUS,
    HOLE_SEND_PAGE,
    HOLE_RECV_PAGE,
    HOLE_SEND_CQ,
};

static void test_hole(gconstpointer data)
{
    enum hole hole = GPOINTER_TO_INT(data);
    struct pair_options options;
    struct rnic_cqe cqe;
    struct pair p;

    pair_options_init(&options, RNIC_CRC_OFF);
    options.contiguous = true;
    pair_new(&p, &options);
    pair_connect(&p, NULL);
    pair_post_recv(&p, 1, 5, 0, 100000);
    switch (hole) {
    case HOLE_SQ:
        pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 100000, 0);
        th_make_hole(p.guest[0], p.qp[0]->sq, 64);
        break;
    case HOLE_RQ:
        th_make_hole(p.guest[1], p.qp[1]->rq, 64);
        pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 100000, 0);
        break;
    case HOLE_SQ_DBREC:
        pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 100000, 0);
        th_make_hole(p.guest[0], p.qp[0]->dbrec, 64);
        break;
    case HOLE_STATUS:
        pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 100000, 0);
        th_make_hole(p.guest[0], p.qp[0]->status, 16);
        break;
    case HOLE_SEND_PAGE:
        th_make_hole(p.guest[0], p.buf[0].dma + 70000, 4);
        pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 100000, 0);
        break;
    case HOLE_RECV_PAGE:
        th_make_hole(p.guest[1], p.buf[1].dma + 70000, 4);
        pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 100000, 0);
        break;
    case HOLE_SEND_CQ:
        th_make_hole(p.guest[0], p.qp[0]->attr.send_cq->addr, 4096);
        pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 100000, 0);
        break;
    }
    th_event_wait(p.guest[0], RNIC_EV_CLOSE, p.qp[0]->qpn, NULL);
    th_event_wait(p.guest[1], RNIC_EV_CLOSE, p.qp[1]->qpn, NULL);
    th_fill_holes(p.guest[0]);
    th_fill_holes(p.guest[1]);
    if (hole == HOLE_SEND_PAGE) {
        pair_wait_send(&p, 0, 1, RNIC_WC_LOC_PROT_ERR, NULL);
        pair_wait_recv(&p, 1, 5, RNIC_WC_WR_FLUSH_ERR, NULL);
    } else if (hole == HOLE_RECV_PAGE) {
        pair_wait_recv(&p, 1, 5, RNIC_WC_LOC_PROT_ERR, NULL);
    } else if (hole == HOLE_SQ || hole == HOLE_SQ_DBREC) {
        /* Nothing is known of what was posted: nothing completes */
        g_assert_false(th_cq_poll(p.qp[0]->attr.send_cq, &cqe));
    }
    g_assert_cmpuint(th_stat(p.guest[0], RNIC_STAT_guest_errors) +
                         th_stat(p.guest[1], RNIC_STAT_guest_errors),
                     >=, 1);
    pair_free(&p);
}

/* ---- Producer indices ---- */

static void test_sq_index_too_far_ahead(gconstpointer data)
{
    struct rnic_aeqe event;
    struct pair p;

    pair_start(&p, RNIC_CRC_OFF);
    pair_post(&p, 0, RNIC_WR_WRITE, 1, 0, 4, 0);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    ((struct rnic_qp_dbrec *)th_ptr(p.guest[0], p.qp[0]->dbrec))->sq_pi =
        GUINT32_TO_LE(GPOINTER_TO_UINT(data));
    th_ring(p.guest[0], 0, p.qp[0]->qpn);
    th_event_wait(p.guest[0], RNIC_EV_QP_FATAL, p.qp[0]->qpn, &event);
    pair_wait_error(&p);
    pair_no_completions(&p, 0);
    check_terminate(&p, 0, TERM(0, 0, 0xff));
    /* Again and again: it stays so */
    th_ring(p.guest[0], 0, p.qp[0]->qpn);
    th_run_for(20);
    pair_no_completions(&p, 0);
    pair_free(&p);
}

static void test_rq_index_too_far_ahead(void)
{
    struct rnic_qp_dbrec *dbrec;
    struct pair p;

    pair_start(&p, RNIC_CRC_OFF);
    dbrec = th_ptr(p.guest[1], p.qp[1]->dbrec);
    dbrec->rq_pi = GUINT32_TO_LE(65);
    pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 4, 0);
    th_event_wait(p.guest[1], RNIC_EV_QP_FATAL, p.qp[1]->qpn, NULL);
    pair_wait_error(&p);
    pair_no_completions(&p, 1);
    pair_free(&p);
}

static void test_doorbell_of_another_context(void)
{
    struct pair p;
    uint64_t errors;

    pair_start(&p, RNIC_CRC_OFF);
    th_uctx_new(p.guest[0], 3);
    errors = th_stat(p.guest[0], RNIC_STAT_guest_errors);
    th_ring(p.guest[0], 3, p.qp[0]->qpn);
    th_ring(p.guest[0], 0, 1234);
    th_wait(th_stat(p.guest[0], RNIC_STAT_guest_errors) == errors + 2);
    g_assert_cmpuint(th_qp_state(p.qp[0]), ==, RNIC_QPS_RTS);
    pair_free(&p);
}

static void test_cq_overflow_fails_the_qp(void)
{
    struct pair_options options;
    struct pair p;
    unsigned i;

    pair_options_init(&options, RNIC_CRC_OFF);
    pair_new(&p, &options);
    th_qp_free(p.qp[0]);
    options.attr[0].send_cq = th_cq_new(p.guest[0], 4);
    options.attr[0].recv_cq = options.attr[0].send_cq;
    p.qp[0] = th_qp_new(p.guest[0], &options.attr[0]);
    pair_connect(&p, NULL);
    for (i = 0; i < 10; i++) {
        pair_post(&p, 0, RNIC_WR_WRITE, i, 0, 4, 0);
    }
    th_event_wait(p.guest[0], RNIC_EV_CQ_ERR, options.attr[0].send_cq->cqn,
                  NULL);
    th_event_wait(p.guest[0], RNIC_EV_QP_FATAL, p.qp[0]->qpn, NULL);
    pair_wait_error(&p);
    pair_free(&p);
}

static void add_with(const char *name, gconstpointer data, GTestDataFunc test)
{
    g_autofree char *path = g_strdup_printf("/errors/%s", name);

    g_test_add_data_func(path, data, test);
}

static void add_row(const char *name, gconstpointer data, GTestDataFunc off,
                    GTestDataFunc on)
{
    g_autofree char *path_off = g_strdup_printf("crc-off/%s", name);
    g_autofree char *path_on = g_strdup_printf("crc-on/%s", name);

    add_with(path_off, data, off);
    add_with(path_on, data, on);
}

int main(int argc, char **argv)
{
    unsigned i;

    g_test_init(&argc, &argv, NULL);
    for (i = 0; i < G_N_ELEMENTS(refusals); i++) {
        add_row(refusals[i].name, &refusals[i], test_refusal_crc_off,
                test_refusal_crc_on);
    }
    pair_add("/errors", "write-exactly-to-the-end",
             test_write_exactly_to_the_end);
    pair_add("/errors", "send-without-receive", test_send_without_receive);
    pair_add("/errors", "empty-send-without-receive",
             test_empty_send_without_receive);
    pair_add("/errors", "send-longer-than-receive",
             test_send_longer_than_receive);
    pair_add("/errors", "long-send-longer-than-receive",
             test_long_send_longer_than_receive);
    pair_add("/errors", "receive-with-a-bad-sge", test_receive_with_a_bad_sge);
    pair_add("/errors", "receive-with-too-many-sges",
             test_receive_with_too_many_sges);
    pair_add("/errors", "invalidate-unknown-stag",
             test_invalidate_unknown_stag);
    pair_add("/errors", "invalidate-stag-of-other-pd",
             test_invalidate_stag_of_other_pd);
    for (i = 0; i < G_N_ELEMENTS(bad_wrs); i++) {
        g_autofree char *name = g_strdup_printf("wr/%s", bad_wrs[i].name);

        add_row(name, GUINT_TO_POINTER(i), test_bad_wr_crc_off,
                test_bad_wr_crc_on);
    }
    add_with("user-qp-local-dma", GINT_TO_POINTER(0),
             test_user_qp_has_no_privileges);
    add_with("user-qp-reg-mr", GINT_TO_POINTER(1),
             test_user_qp_has_no_privileges);
    g_test_add_func("/errors/read-with-ord-0", test_read_with_ord_0);
    pair_add("/errors", "region-gone-while-sending",
             test_region_gone_while_sending);
    pair_add("/errors", "region-gone-while-receiving",
             test_region_gone_while_receiving);
    pair_add("/errors", "region-gone-while-a-read-is-served",
             test_region_gone_while_a_read_is_served);
    pair_add("/errors", "sink-gone-while-reading",
             test_sink_gone_while_reading);
    add_with("hole/sq", GINT_TO_POINTER(HOLE_SQ), test_hole);
    add_with("hole/rq", GINT_TO_POINTER(HOLE_RQ), test_hole);
    add_with("hole/dbrec", GINT_TO_POINTER(HOLE_SQ_DBREC), test_hole);
    add_with("hole/status", GINT_TO_POINTER(HOLE_STATUS), test_hole);
    add_with("hole/send-page", GINT_TO_POINTER(HOLE_SEND_PAGE), test_hole);
    add_with("hole/recv-page", GINT_TO_POINTER(HOLE_RECV_PAGE), test_hole);
    add_with("hole/send-cq", GINT_TO_POINTER(HOLE_SEND_CQ), test_hole);
    add_with("sq-index/one-too-far", GUINT_TO_POINTER(66),
             test_sq_index_too_far_ahead);
    add_with("sq-index/far", GUINT_TO_POINTER(0x80000000u),
             test_sq_index_too_far_ahead);
    add_with("sq-index/back", GUINT_TO_POINTER(0), test_sq_index_too_far_ahead);
    g_test_add_func("/errors/rq-index", test_rq_index_too_far_ahead);
    g_test_add_func("/errors/doorbell-of-another-context",
                    test_doorbell_of_another_context);
    g_test_add_func("/errors/cq-overflow", test_cq_overflow_fails_the_qp);
    return g_test_run();
}
