/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every operation between two devices: what arrives, and how it completes
 */
#include "pair.h"

#include <string.h>

/* Octets around which segments, pages and words end */
static const uint32_t sizes[] = {
    0,     1,     2,     3,      4,       5,       7,      8,
    63,    64,    65,    255,    256,     257,     3584,   4095,
    4096,  4097,  64743, 64744,  64745,   64752,   64753,  64768,
    65535, 65536, 65537, 131072, 1048575, 1048576, 1048577
};

/* @len octets at @offset are those of @seed, those around are untouched */
static void check_placed(struct th_buf *buf, uint64_t offset, uint32_t len,
                         uint32_t seed)
{
    unsigned i;

    th_check_filled(buf->ptr + offset, len, seed);
    for (i = 1; i <= 64; i++) {
        g_assert_cmpuint(buf->ptr[offset - i], ==, 0xee);
        g_assert_cmpuint(buf->ptr[offset + len + i - 1], ==, 0xee);
    }
}

static void test_writes_of_all_sizes(gconstpointer data)
{
    struct pair p;
    unsigned i;

    pair_start(&p, pair_crc(data));
    for (i = 0; i < G_N_ELEMENTS(sizes); i++) {
        uint64_t offset = 1001 + i;

        memset(p.buf[1].ptr, 0xee, sizes[i] + 8192);
        th_fill(p.buf[0].ptr + offset, sizes[i], i);
        pair_post(&p, 0, RNIC_WR_WRITE, i, offset, sizes[i], 0);
        pair_wait_send(&p, 0, i, RNIC_WC_SUCCESS, NULL);
        /* A Send behind it says that it is placed */
        pair_post_recv(&p, 1, 1000 + i, 0, 0);
        pair_post(&p, 0, RNIC_WR_SEND, 500 + i, 0, 0, 0);
        pair_wait_send(&p, 0, 500 + i, RNIC_WC_SUCCESS, NULL);
        pair_wait_recv(&p, 1, 1000 + i, RNIC_WC_SUCCESS, NULL);
        check_placed(&p.buf[1], offset, sizes[i], i);
    }
    pair_no_completions(&p, 1);
    pair_free(&p);
}

static void test_sends_of_all_sizes(gconstpointer data)
{
    struct rnic_cqe cqe;
    struct pair p;
    unsigned i;

    pair_start(&p, pair_crc(data));
    for (i = 0; i < G_N_ELEMENTS(sizes); i++) {
        memset(p.buf[1].ptr, 0xee, sizes[i] + 8192);
        th_fill(p.buf[0].ptr + 77, sizes[i], i);
        pair_post_recv(&p, 1, i, 1003, sizes[i]);
        pair_post(&p, 0, RNIC_WR_SEND, i, 77, sizes[i], 0);
        pair_wait_recv(&p, 1, i, RNIC_WC_SUCCESS, &cqe);
        g_assert_cmpuint(cqe.opcode, ==, RNIC_WR_RECV);
        g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, sizes[i]);
        g_assert_cmpuint(GUINT32_FROM_LE(cqe.qpn), ==, p.qp[1]->qpn);
        g_assert_cmpuint(cqe.flags, ==, 0);
        pair_wait_send(&p, 0, i, RNIC_WC_SUCCESS, &cqe);
        g_assert_cmpuint(cqe.opcode, ==, RNIC_WR_SEND);
        check_placed(&p.buf[1], 1003, sizes[i], i);
    }
    pair_free(&p);
}

static void test_reads_of_all_sizes(gconstpointer data)
{
    struct rnic_cqe cqe;
    struct pair p;
    unsigned i;

    pair_start(&p, pair_crc(data));
    for (i = 0; i < G_N_ELEMENTS(sizes); i++) {
        memset(p.buf[0].ptr, 0xee, sizes[i] + 8192);
        th_fill(p.buf[1].ptr + 1003, sizes[i], i);
        pair_post(&p, 0, RNIC_WR_READ, i, 1003, sizes[i], 0);
        pair_wait_send(&p, 0, i, RNIC_WC_SUCCESS, &cqe);
        g_assert_cmpuint(cqe.opcode, ==, RNIC_WR_READ);
        g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, sizes[i]);
        check_placed(&p.buf[0], 1003, sizes[i], i);
    }
    pair_no_completions(&p, 1);
    pair_free(&p);
}

static void test_payload_is_not_copied_with_crc_off(void)
{
    struct pair_options options;
    struct pair p;
    uint64_t copied;

    pair_options_init(&options, RNIC_CRC_OFF);
    pair_new(&p, &options);
    pair_connect(&p, NULL);
    th_fill(p.buf[0].ptr, 4 << 20, 1);
    copied = th_stat(p.guest[1], RNIC_STAT_rx_copied);
    pair_post(&p, 0, RNIC_WR_WRITE, 1, 0, 4 << 20, 0);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    pair_post_recv(&p, 1, 2, 0, 0);
    pair_post(&p, 0, RNIC_WR_SEND, 2, 0, 0, 0);
    pair_wait_recv(&p, 1, 2, RNIC_WC_SUCCESS, NULL);
    th_check_filled(p.buf[1].ptr, 4 << 20, 1);
    g_assert_cmpuint(th_stat(p.guest[0], RNIC_STAT_tx_copied), ==, 0);
    copied = th_stat(p.guest[1], RNIC_STAT_rx_copied) - copied;
    /* What was read ahead: a first read, then headers */
    g_assert_cmpuint(copied, <, 256 << 10);
    g_assert_cmpuint(th_stat(p.guest[1], RNIC_STAT_rx_direct) + copied, ==,
                     4 << 20);
    pair_free(&p);
}

static void test_payload_is_copied_once_with_crc_on(void)
{
    struct pair p;

    pair_start(&p, RNIC_CRC_ON);
    pair_post(&p, 0, RNIC_WR_WRITE, 1, 0, 1 << 20, 0);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    th_wait(th_stat(p.guest[1], RNIC_STAT_rx_copied) == 1 << 20);
    g_assert_cmpuint(th_stat(p.guest[0], RNIC_STAT_tx_copied), ==, 1 << 20);
    g_assert_cmpuint(th_stat(p.guest[1], RNIC_STAT_rx_direct), ==, 0);
    pair_free(&p);
}

static void test_scatter_gather(gconstpointer data)
{
    static const uint32_t lens[16] = {
        1, 0, 5000, 3, 4096, 0, 17, 70000, 2, 2, 1, 999, 4, 0, 65536, 7,
    };
    struct th_wr wr = {
        .opcode = RNIC_WR_SEND,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = 1,
        .num_sge = 16,
    };
    struct rnic_sge recv[16];
    uint64_t from = 3, to = 10, total = 0;
    g_autofree uint8_t *message = NULL;
    struct rnic_cqe cqe;
    struct pair p;
    unsigned i;

    pair_start(&p, pair_crc(data));
    for (i = 0; i < 16; i++) {
        total += lens[i];
    }
    message = g_malloc(total);
    th_fill(message, total, 9);
    total = 0;
    for (i = 0; i < 16; i++) {
        wr.sge[i] = pair_sge(&p, 0, from, lens[i]);
        memcpy(p.buf[0].ptr + from, message + total, lens[i]);
        total += lens[i];
        from += lens[i] + 13;
        /* Another cut at the receiver */
        recv[i] = pair_sge(&p, 1, to, lens[15 - i] + 1);
        to += lens[15 - i] + 1 + 29;
    }

    /* Send: gathered and scattered */
    th_post_recv(p.qp[1], 2, recv, 16);
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    pair_wait_recv(&p, 1, 2, RNIC_WC_SUCCESS, &cqe);
    g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, total);
    total = 0;
    to = 10;
    for (i = 0; i < 16; i++) {
        uint32_t len =
            MIN(lens[15 - i] + 1, GUINT32_FROM_LE(cqe.byte_len) - total);

        g_assert_cmpmem(p.buf[1].ptr + to, len, message + total, len);
        total += len;
        to += lens[15 - i] + 1 + 29;
    }

    /* Write: gathered */
    wr.opcode = RNIC_WR_WRITE;
    wr.remote_stag = p.stag[1];
    wr.remote_to = PAIR_IOVA + 1000000;
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    th_wait(memcmp(p.buf[1].ptr + 1000000, message, total) == 0);

    /* Read: scattered; one completion */
    memset(p.buf[0].ptr, 0, 1000000);
    wr.opcode = RNIC_WR_READ;
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, &cqe);
    g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, total);
    total = 0;
    from = 3;
    for (i = 0; i < 16; i++) {
        g_assert_cmpmem(p.buf[0].ptr + from, lens[i], message + total, lens[i]);
        total += lens[i];
        from += lens[i] + 13;
    }
    pair_no_completions(&p, 0);
    pair_free(&p);
}

static void test_read_into_many_sinks_respects_ord(void)
{
    struct th_connect params = { .ird = 2, .ord = 2 };
    struct th_wr wr = {
        .opcode = RNIC_WR_READ,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = 5,
        .num_sge = 7,
    };
    struct pair_options options;
    struct rnic_cqe cqe;
    struct pair p;
    uint64_t fpdus;
    unsigned i;

    pair_options_init(&options, RNIC_CRC_OFF);
    pair_new(&p, &options);
    pair_connect(&p, &params);
    th_fill(p.buf[1].ptr, 70000, 3);
    for (i = 0; i < 7; i++) {
        wr.sge[i] = pair_sge(&p, 0, i * 10000, 10000);
    }
    wr.remote_stag = p.stag[1];
    wr.remote_to = PAIR_IOVA;
    fpdus = th_stat(p.guest[0], RNIC_STAT_tx_fpdus);
    th_post_send(p.qp[0], &wr, 1);
    pair_run_only(&p, 0);
    g_assert_cmpuint(th_stat(p.guest[0], RNIC_STAT_tx_fpdus) - fpdus, ==, 2);
    pair_wait_send(&p, 0, 5, RNIC_WC_SUCCESS, &cqe);
    g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, 70000);
    g_assert_cmpuint(th_stat(p.guest[0], RNIC_STAT_tx_fpdus) - fpdus, ==, 7);
    th_check_filled(p.buf[0].ptr, 70000, 3);
    pair_free(&p);
}

static void test_never_more_reads_than_ord(gconstpointer data)
{
    struct th_connect params = { .ird = 3, .ord = 3 };
    struct pair_options options;
    struct pair p;
    uint64_t fpdus;
    unsigned i;

    pair_options_init(&options, pair_crc(data));
    pair_new(&p, &options);
    pair_connect(&p, &params);
    fpdus = th_stat(p.guest[0], RNIC_STAT_tx_fpdus);
    for (i = 0; i < 20; i++) {
        pair_post(&p, 0, RNIC_WR_READ, i, i * 100, 100, 0);
    }
    pair_run_only(&p, 0);
    g_assert_cmpuint(th_stat(p.guest[0], RNIC_STAT_tx_fpdus) - fpdus, ==, 3);
    for (i = 0; i < 20; i++) {
        pair_wait_send(&p, 0, i, RNIC_WC_SUCCESS, NULL);
    }
    g_assert_cmpuint(th_stat(p.guest[0], RNIC_STAT_tx_fpdus) - fpdus, ==, 20);
    pair_free(&p);
}

static void test_inline(gconstpointer data)
{
    static const uint32_t lens[] = { 0, 1, 3, 4, 100, 479, 480 };
    uint8_t text[480];
    struct rnic_cqe cqe;
    struct pair p;
    unsigned i;

    pair_start(&p, pair_crc(data));
    for (i = 0; i < G_N_ELEMENTS(lens); i++) {
        struct th_wr wr = {
            .opcode = RNIC_WR_WRITE,
            .flags = RNIC_WQE_SIGNALED,
            .wr_id = i,
            .inline_data = text,
            .inline_len = lens[i],
            .remote_stag = p.stag[1],
            .remote_to = PAIR_IOVA + 100,
        };

        th_fill(text, sizeof(text), i);
        memset(p.buf[1].ptr, 0xee, 8192);
        th_post_send(p.qp[0], &wr, 1);
        pair_post_recv(&p, 1, i, 1100, 480);
        wr.opcode = RNIC_WR_SEND;
        th_post_send(p.qp[0], &wr, 1);
        pair_wait_recv(&p, 1, i, RNIC_WC_SUCCESS, &cqe);
        g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, lens[i]);
        check_placed(&p.buf[1], 100, lens[i], i);
        check_placed(&p.buf[1], 1100, lens[i], i);
        pair_wait_send(&p, 0, i, RNIC_WC_SUCCESS, NULL);
        pair_wait_send(&p, 0, i, RNIC_WC_SUCCESS, NULL);
    }
    pair_free(&p);
}

static void test_fence_waits_for_the_reads_before(gconstpointer data)
{
    struct pair p;
    uint64_t fpdus;

    pair_start(&p, pair_crc(data));
    pair_post_recv(&p, 1, 10, 0, 100);
    pair_post_recv(&p, 1, 11, 0, 100);
    fpdus = th_stat(p.guest[0], RNIC_STAT_tx_fpdus);
    pair_post(&p, 0, RNIC_WR_READ, 1, 0, 100, 0);
    pair_post(&p, 0, RNIC_WR_SEND, 2, 0, 50, 0);
    pair_post(&p, 0, RNIC_WR_SEND, 3, 0, 60, RNIC_WQE_FENCE);
    pair_run_only(&p, 0);
    /* The Read Request and the Send without a fence */
    g_assert_cmpuint(th_stat(p.guest[0], RNIC_STAT_tx_fpdus) - fpdus, ==, 2);
    pair_no_completions(&p, 0);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    pair_wait_send(&p, 0, 2, RNIC_WC_SUCCESS, NULL);
    pair_wait_send(&p, 0, 3, RNIC_WC_SUCCESS, NULL);
    pair_wait_recv(&p, 1, 10, RNIC_WC_SUCCESS, NULL);
    pair_wait_recv(&p, 1, 11, RNIC_WC_SUCCESS, NULL);
    pair_free(&p);
}

static void test_completions_are_in_submit_order(gconstpointer data)
{
    static const enum rnic_wr_opcode opcodes[] = {
        RNIC_WR_READ,  RNIC_WR_WRITE, RNIC_WR_SEND, RNIC_WR_READ,
        RNIC_WR_WRITE, RNIC_WR_READ,  RNIC_WR_SEND,
    };
    struct rnic_cqe cqe;
    struct pair p;
    unsigned i;

    pair_start(&p, pair_crc(data));
    for (i = 0; i < 42; i++) {
        enum rnic_wr_opcode opcode = opcodes[i % G_N_ELEMENTS(opcodes)];

        if (opcode == RNIC_WR_SEND) {
            pair_post_recv(&p, 1, i, 0, 5000);
        }
        pair_post(&p, 0, opcode, i, 8192, i * 100, 0);
    }
    for (i = 0; i < 42; i++) {
        pair_wait_send(&p, 0, i, RNIC_WC_SUCCESS, &cqe);
        g_assert_cmpuint(cqe.opcode, ==, opcodes[i % G_N_ELEMENTS(opcodes)]);
        g_assert_cmpuint(GUINT16_FROM_LE(cqe.wqe_index), ==, i);
    }
    pair_free(&p);
}

static void test_unsignalled_completes_silently(gconstpointer data)
{
    struct rnic_cqe cqe;
    struct pair p;
    unsigned i;

    pair_start(&p, pair_crc(data));
    /* Round the ring of 64 many times */
    for (i = 0; i < 1000; i++) {
        struct th_wr wr = {
            .opcode = RNIC_WR_WRITE,
            .flags = i % 32 == 31 ? RNIC_WQE_SIGNALED : 0,
            .wr_id = i,
            .sge = { pair_sge(&p, 0, i * 8, 8) },
            .num_sge = 1,
            .remote_stag = p.stag[1],
            .remote_to = PAIR_IOVA + i * 8,
        };

        th_fill(p.buf[0].ptr + i * 8, 8, i);
        th_post_send(p.qp[0], &wr, 1);
        if (wr.flags) {
            pair_wait_send(&p, 0, i, RNIC_WC_SUCCESS, &cqe);
            g_assert_cmpuint(GUINT16_FROM_LE(cqe.wqe_index), ==, i);
        }
    }
    pair_no_completions(&p, 0);
    th_wait(memcmp(p.buf[0].ptr, p.buf[1].ptr, 8000) == 0);
    g_assert_cmpuint(th_stat(p.guest[0], RNIC_STAT_tx_wqes), ==, 1000);
    pair_free(&p);
}

static void test_sig_all(void)
{
    struct pair_options options;
    struct pair p;
    struct th_wr wr = { .opcode = RNIC_WR_WRITE, .wr_id = 3 };

    pair_options_init(&options, RNIC_CRC_OFF);
    options.attr[0].flags |= RNIC_QP_SIG_ALL;
    pair_new(&p, &options);
    pair_connect(&p, NULL);
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_send(&p, 0, 3, RNIC_WC_SUCCESS, NULL);
    pair_free(&p);
}

static void test_solicited(gconstpointer data)
{
    struct rnic_cqe cqe;
    struct pair p;

    pair_start(&p, pair_crc(data));
    pair_post_recv(&p, 1, 1, 0, 100);
    pair_post_recv(&p, 1, 2, 0, 100);
    th_cq_arm(p.qp[1]->attr.recv_cq, RNIC_CQ_ARM_SOLICITED);
    pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 10, 0);
    pair_wait_recv(&p, 1, 1, RNIC_WC_SUCCESS, &cqe);
    g_assert_cmpuint(cqe.flags, ==, 0);
    th_run_for(20);
    g_assert_cmpuint(th_ceq_poll(&p.guest[1]->ceq), ==, 0);
    pair_post(&p, 0, RNIC_WR_SEND, 2, 0, 10, RNIC_WQE_SOLICITED);
    pair_wait_recv(&p, 1, 2, RNIC_WC_SUCCESS, &cqe);
    g_assert_cmpuint(cqe.flags, ==, RNIC_CQE_SOLICITED);
    th_run_for(20);
    g_assert_cmpuint(th_ceq_poll(&p.guest[1]->ceq), ==,
                     p.qp[1]->attr.recv_cq->cqn);
    pair_free(&p);
}

static void test_shared_receive_queue(gconstpointer data)
{
    struct pair_options options;
    struct rnic_sge sge;
    struct rnic_cqe cqe;
    struct pair p;
    unsigned i;

    pair_options_init(&options, pair_crc(data));
    pair_new(&p, &options);
    th_qp_free(p.qp[1]);
    options.attr[1].srq = th_srq_new(p.guest[1], 64, 0);
    p.qp[1] = th_qp_new(p.guest[1], &options.attr[1]);
    pair_connect(&p, NULL);
    for (i = 0; i < 40; i++) {
        sge = pair_sge(&p, 1, i * 1000, 1000);
        th_srq_post(options.attr[1].srq, 100 + i, &sge, 1);
    }
    for (i = 0; i < 30; i++) {
        pair_post(&p, 0, RNIC_WR_SEND, i, 0, i * 30, 0);
    }
    for (i = 0; i < 30; i++) {
        pair_wait_send(&p, 0, i, RNIC_WC_SUCCESS, NULL);
        pair_wait_recv(&p, 1, 100 + i, RNIC_WC_SUCCESS, &cqe);
        g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, i * 30);
    }
    /* The end of one QP does not flush the SRQ */
    g_assert_cmpuint(th_qp_modify(p.qp[1], RNIC_QPS_ERROR), ==, RNIC_ADMIN_OK);
    th_event_wait(p.guest[1], RNIC_EV_QP_LAST_WQE, p.qp[1]->qpn, NULL);
    pair_wait_error(&p);
    pair_no_completions(&p, 1);
    pair_free(&p);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    pair_add("/data", "writes-of-all-sizes", test_writes_of_all_sizes);
    pair_add("/data", "sends-of-all-sizes", test_sends_of_all_sizes);
    pair_add("/data", "reads-of-all-sizes", test_reads_of_all_sizes);
    g_test_add_func("/data/not-copied-with-crc-off",
                    test_payload_is_not_copied_with_crc_off);
    g_test_add_func("/data/copied-once-with-crc-on",
                    test_payload_is_copied_once_with_crc_on);
    pair_add("/data", "scatter-gather", test_scatter_gather);
    g_test_add_func("/data/read-into-many-sinks-respects-ord",
                    test_read_into_many_sinks_respects_ord);
    pair_add("/data", "never-more-reads-than-ord",
             test_never_more_reads_than_ord);
    pair_add("/data", "inline", test_inline);
    pair_add("/data", "fence-waits-for-the-reads-before",
             test_fence_waits_for_the_reads_before);
    pair_add("/data", "completions-are-in-submit-order",
             test_completions_are_in_submit_order);
    pair_add("/data", "unsignalled-completes-silently",
             test_unsignalled_completes_silently);
    g_test_add_func("/data/sig-all", test_sig_all);
    pair_add("/data", "solicited", test_solicited);
    pair_add("/data", "shared-receive-queue", test_shared_receive_queue);
    return g_test_run();
}
