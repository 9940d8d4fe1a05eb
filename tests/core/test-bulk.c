/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Long messages, many messages, both ways, with a TCP that is full
 */
#include "pair.h"

#include <string.h>

static void test_message_of_two_gibibytes(void)
{
    struct pair_options options;
    struct th_wr wr = {
        .opcode = RNIC_WR_WRITE,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = 1,
        .num_sge = 1,
    };
    uint64_t from, to;
    uint32_t stag;
    struct pair p;

    pair_options_init(&options, RNIC_CRC_OFF);
    pair_new(&p, &options);
    pair_connect(&p, NULL);
    stag = pair_huge_mr(&p, 0, &from);
    wr.sge[0] = th_sge(stag, 0, 1u << 31);
    wr.remote_stag = pair_huge_mr(&p, 1, &to);
    th_fill(th_ptr(p.guest[0], from), 2 << 20, 1);
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    th_wait(th_stat(p.guest[1], RNIC_STAT_rx_direct) +
                th_stat(p.guest[1], RNIC_STAT_rx_copied) ==
            1ull << 31);
    th_check_filled(th_ptr(p.guest[1], to), 2 << 20, 1);
    /* One octet more is not a message */
    wr.num_sge = 2;
    wr.sge[1] = th_sge(stag, 0, 1);
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_send(&p, 0, 1, RNIC_WC_LOC_QP_OP_ERR, NULL);
    pair_free(&p);
}

/* Any mix of operations, both ways. @stalls: now and then a device stands
 * still, so that the other one's TCP fills up. */
static void storm(struct pair *p, unsigned rounds, bool stalls)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed(42);
    int stalled = -1;
    unsigned turns = 0;
    uint64_t posted[2] = { 0 }, done[2] = { 0 };
    uint64_t sent[2] = { 0 }, received[2] = { 0 };
    struct rnic_cqe cqe;
    unsigned i;

    for (i = 0; i < 2; i++) {
        unsigned j;

        for (j = 0; j < 60; j++) {
            pair_post_recv(p, i, j, 3 << 20, 200000);
        }
    }
    while (done[0] < rounds || done[1] < rounds) {
        if (stalls && turns++ % 256 == 0) {
            if (stalled >= 0) {
                rnic_device_resume(p->guest[stalled]->dev);
            }
            stalled = g_rand_int_range(rand, -1, 2);
            if (stalled >= 0) {
                rnic_device_quiesce(p->guest[stalled]->dev);
            }
        }
        for (i = 0; i < 2; i++) {
            unsigned kind = g_rand_int_range(rand, 0, 3);
            uint32_t len = g_rand_boolean(rand)
                               ? g_rand_int_range(rand, 0, 300)
                               : g_rand_int_range(rand, 0, 200000);
            uint64_t at = g_rand_int_range(rand, 0, 700000);

            while (th_cq_poll(p->qp[i]->attr.send_cq, &cqe)) {
                g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
                g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, done[i]);
                done[i]++;
            }
            while (th_cq_poll(p->qp[i]->attr.recv_cq, &cqe)) {
                g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
                received[i]++;
                pair_post_recv(p, i, 0, 3 << 20, 200000);
            }
            if (posted[i] == rounds || posted[i] - done[i] == 60 ||
                (kind == 2 && sent[i] - received[!i] == 60)) {
                continue;
            }
            /* Each side writes and reads its own half of the buffers */
            at += i * 1000000;
            pair_post(p, i,
                      kind == 0   ? RNIC_WR_WRITE
                      : kind == 1 ? RNIC_WR_READ
                                  : RNIC_WR_SEND,
                      posted[i]++, at, len,
                      g_rand_int_range(rand, 0, 8) ? 0 : RNIC_WQE_FENCE);
            sent[i] += kind == 2;
        }
        th_step(0);
    }
    if (stalled >= 0) {
        rnic_device_resume(p->guest[stalled]->dev);
    }
    th_wait(th_stat(p->guest[0], RNIC_STAT_tx_octets) ==
                th_stat(p->guest[1], RNIC_STAT_rx_octets) ||
            p->options.self);
    g_assert_cmpuint(th_stat(p->guest[0], RNIC_STAT_term_sent), ==, 0);
}

/* A storm with the same octets at the same places: nothing may have changed */
static void storm_of_same(struct pair *p, const struct pair_options *options,
                          unsigned rounds, bool stalls)
{
    pair_new(p, options);
    pair_connect(p, NULL);
    th_fill(p->buf[0].ptr, p->buf[0].len, 1);
    memcpy(p->buf[1].ptr, p->buf[0].ptr, p->buf[0].len);
    storm(p, rounds, stalls);
    th_check_filled(p->buf[0].ptr, 3 << 20, 1);
    th_check_filled(p->buf[1].ptr, 3 << 20, 1);
}

static void test_both_ways_at_once(gconstpointer data)
{
    struct pair_options options;
    struct pair p;

    pair_options_init(&options, pair_crc(data));
    storm_of_same(&p, &options, 2000, false);
    pair_free(&p);
}

static void test_both_ways_with_stalls(gconstpointer data)
{
    struct pair_options options;
    struct pair p;

    pair_options_init(&options, pair_crc(data));
    storm_of_same(&p, &options, 1000, true);
    pair_free(&p);
}

/* TCP takes some of the messages of a batch, and a part of another: the rest
 * follows, nothing twice */
static void test_messages_behind_a_full_tcp(gconstpointer data)
{
    struct pair_options options;
    struct rnic_cqe cqe;
    struct pair p;
    unsigned i;

    pair_options_init(&options, pair_crc(data));
    options.buf_len = 16 << 20;
    options.attr[0].sq_depth = 256;
    options.attr[1].rq_depth = 256;
    pair_new(&p, &options);
    pair_connect(&p, NULL);
    th_fill(p.buf[0].ptr, 16 << 20, 8);
    for (i = 0; i < 250; i++) {
        pair_post_recv(&p, 1, i, i * 60000, 60000);
        pair_post(&p, 0, RNIC_WR_SEND, i, i * 60000, i % 5 ? 60000 - i : i, 0);
    }
    for (i = 0; i < 250; i++) {
        uint32_t len = i % 5 ? 60000 - i : i;

        /* The receiver is slow */
        pair_run_only(&p, 0);
        rnic_device_run(p.guest[1]->dev);
        pair_wait_recv(&p, 1, i, RNIC_WC_SUCCESS, &cqe);
        g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, len);
        g_assert_cmpmem(p.buf[0].ptr + i * 60000, len, p.buf[1].ptr + i * 60000,
                        len);
    }
    pair_free(&p);
}

static void test_small_fpdus(gconstpointer data)
{
    struct pair_options options;
    struct pair p;

    pair_options_init(&options, pair_crc(data));
    options.fpdu_max = 128;
    storm_of_same(&p, &options, 200, false);
    pair_free(&p);
}

static void test_device_connects_to_itself(gconstpointer data)
{
    struct pair_options options;
    struct pair p;

    pair_options_init(&options, pair_crc(data));
    options.self = true;
    storm_of_same(&p, &options, 500, false);
    g_assert_cmpuint(th_qp_modify(p.qp[0], RNIC_QPS_CLOSING), ==,
                     RNIC_ADMIN_OK);
    pair_wait_error(&p);
    pair_free(&p);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/bulk/message-of-two-gibibytes",
                    test_message_of_two_gibibytes);
    pair_add("/bulk", "both-ways-at-once", test_both_ways_at_once);
    pair_add("/bulk", "both-ways-with-stalls", test_both_ways_with_stalls);
    pair_add("/bulk", "messages-behind-a-full-tcp",
             test_messages_behind_a_full_tcp);
    pair_add("/bulk", "small-fpdus", test_small_fpdus);
    pair_add("/bulk", "device-connects-to-itself",
             test_device_connects_to_itself);
    return g_test_run();
}
