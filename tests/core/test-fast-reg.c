/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What only kernel consumers use: registration and invalidation by work
 * requests, and the local DMA STag
 */
#include "pair.h"

#include <string.h>

struct fast_mr {
    struct th_buf buf;
    uint32_t stag;
};

static struct fast_mr fast_mr_new(struct pair *p, unsigned side)
{
    struct fast_mr mr;
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_ALLOC_MR };
    struct rnic_acqe resp;

    mr.buf = th_buf_new(p->guest[side], 64 << 10, 1, 0);
    cmd.alloc_mr.pdn = GUINT32_TO_LE(TH_PD);
    cmd.alloc_mr.max_pages = GUINT32_TO_LE(16);
    g_assert_cmpuint(th_admin(p->guest[side], &cmd, &resp), ==, RNIC_ADMIN_OK);
    mr.stag = GUINT32_FROM_LE(resp.mr.stag);
    return mr;
}

static void fast_mr_reg(struct pair *p, unsigned side, struct fast_mr *mr,
                        uint32_t access, uint64_t wr_id)
{
    struct th_wr wr = {
        .opcode = RNIC_WR_REG_MR,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = wr_id,
        .reg = {
            .access = GUINT32_TO_LE(access),
            .num_pages = GUINT32_TO_LE(16),
            .iova = GUINT64_TO_LE(0x5000),
            .length = GUINT64_TO_LE(64 << 10),
            .page_shift = GUINT32_TO_LE(12),
        },
    };
    uint64_t pages = th_alloc(p->guest[side], 16 * 8, 8);
    uint64_t *list = th_ptr(p->guest[side], pages);
    unsigned i;

    for (i = 0; i < 16; i++) {
        list[i] = GUINT64_TO_LE(mr->buf.pages[i]);
    }
    mr->stag = (mr->stag & ~0xffu) | ((mr->stag + 1) & 0xff);
    wr.reg.stag = GUINT32_TO_LE(mr->stag);
    wr.reg.pages = GUINT64_TO_LE(pages);
    th_post_send(p->qp[side], &wr, 1);
}

static void test_register_use_invalidate(gconstpointer data)
{
    struct th_wr inv = {
        .opcode = RNIC_WR_LOCAL_INV,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = 3,
    };
    struct th_wr send = {
        .opcode = RNIC_WR_SEND,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = 2,
        .num_sge = 1,
    };
    struct fast_mr mr;
    struct rnic_cqe cqe;
    struct pair p;
    unsigned i;

    pair_start(&p, pair_crc(data));
    mr = fast_mr_new(&p, 0);
    th_fill(mr.buf.ptr, mr.buf.len, 4);
    /* All three at once, again and again: registered before the Send is read
     * from it, invalidated after */
    for (i = 0; i < 10; i++) {
        pair_post_recv(&p, 1, 7, 0, 60000);
        fast_mr_reg(&p, 0, &mr, RNIC_ACCESS_LOCAL_WRITE, 1);
        send.sge[0] = th_sge(mr.stag, 0x5000 + 100, 60000);
        th_post_send(p.qp[0], &send, 1);
        inv.inv_stag = mr.stag;
        th_post_send(p.qp[0], &inv, 1);
        pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, &cqe);
        g_assert_cmpuint(cqe.opcode, ==, RNIC_WR_REG_MR);
        pair_wait_send(&p, 0, 2, RNIC_WC_SUCCESS, NULL);
        pair_wait_send(&p, 0, 3, RNIC_WC_SUCCESS, &cqe);
        g_assert_cmpuint(cqe.opcode, ==, RNIC_WR_LOCAL_INV);
        pair_wait_recv(&p, 1, 7, RNIC_WC_SUCCESS, NULL);
        g_assert_cmpmem(p.buf[1].ptr, 60000, mr.buf.ptr + 100, 60000);
    }
    /* Now it is invalid */
    th_post_send(p.qp[0], &send, 1);
    pair_wait_send(&p, 0, 2, RNIC_WC_LOC_PROT_ERR, NULL);
    pair_free(&p);
}

static void test_send_with_invalidate(gconstpointer data)
{
    struct th_wr wr = {
        .opcode = RNIC_WR_SEND_INV,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = 2,
        .num_sge = 1,
    };
    struct fast_mr mr;
    struct rnic_cqe cqe;
    struct pair p;

    pair_start(&p, pair_crc(data));
    mr = fast_mr_new(&p, 1);
    fast_mr_reg(&p, 1, &mr, RNIC_ACCESS_ALL, 1);
    pair_wait_send(&p, 1, 1, RNIC_WC_SUCCESS, NULL);

    pair_post_recv(&p, 1, 7, 0, 100);
    wr.sge[0] = pair_sge(&p, 0, 0, 100);
    wr.inv_stag = mr.stag;
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_send(&p, 0, 2, RNIC_WC_SUCCESS, NULL);
    pair_wait_recv(&p, 1, 7, RNIC_WC_SUCCESS, &cqe);
    g_assert_cmpuint(cqe.flags, ==, RNIC_CQE_WITH_INV);
    g_assert_cmpuint(GUINT32_FROM_LE(cqe.inv_stag), ==, mr.stag);

    /* It is invalid now: a Write to it ends the connection */
    wr.opcode = RNIC_WR_WRITE;
    wr.remote_stag = mr.stag;
    wr.remote_to = 0x5000;
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_error(&p);
    g_assert_cmpuint(th_stat(p.guest[1], RNIC_STAT_term_sent), ==, 1);
    pair_free(&p);
}

static void test_read_with_local_invalidate(gconstpointer data)
{
    struct th_wr wr = {
        .opcode = RNIC_WR_READ_INV,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = 2,
        .num_sge = 1,
    };
    struct fast_mr mr;
    struct pair p;

    pair_start(&p, pair_crc(data));
    mr = fast_mr_new(&p, 0);
    fast_mr_reg(&p, 0, &mr, RNIC_ACCESS_ALL, 1);
    th_fill(p.buf[1].ptr, 30000, 6);
    wr.sge[0] = th_sge(mr.stag, 0x5000, 30000);
    wr.inv_stag = mr.stag;
    wr.remote_stag = p.stag[1];
    wr.remote_to = PAIR_IOVA;
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    pair_wait_send(&p, 0, 2, RNIC_WC_SUCCESS, NULL);
    th_check_filled(mr.buf.ptr, 30000, 6);
    /* The sink is invalid now, so it can be registered again */
    fast_mr_reg(&p, 0, &mr, RNIC_ACCESS_ALL, 3);
    pair_wait_send(&p, 0, 3, RNIC_WC_SUCCESS, NULL);
    pair_free(&p);
}

static void test_local_dma_stag(gconstpointer data)
{
    struct th_wr wr = {
        .opcode = RNIC_WR_SEND,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = 1,
        .num_sge = 1,
    };
    uint64_t from, to;
    struct rnic_sge sge;
    struct pair p;

    pair_start(&p, pair_crc(data));
    from = th_alloc(p.guest[0], 20000, 8);
    to = th_alloc(p.guest[1], 20000, 8);
    th_fill(th_ptr(p.guest[0], from), 20000, 8);
    sge = th_sge(RNIC_STAG_LOCAL_DMA, to, 20000);
    th_post_recv(p.qp[1], 2, &sge, 1);
    wr.sge[0] = th_sge(RNIC_STAG_LOCAL_DMA, from, 20000);
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    pair_wait_recv(&p, 1, 2, RNIC_WC_SUCCESS, NULL);
    th_check_filled(th_ptr(p.guest[1], to), 20000, 8);
    pair_free(&p);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    pair_add("/fast-reg", "register-use-invalidate",
             test_register_use_invalidate);
    pair_add("/fast-reg", "send-with-invalidate", test_send_with_invalidate);
    pair_add("/fast-reg", "read-with-local-invalidate",
             test_read_with_local_invalidate);
    pair_add("/fast-reg", "local-dma-stag", test_local_dma_stag);
    return g_test_run();
}
