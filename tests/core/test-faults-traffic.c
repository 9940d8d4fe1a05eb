/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kinds of fault that other emulated and software RNICs were found to have:
 * those of work queues, indices and traffic. See test-faults.c.
 */
#include "pair.h"

#include <string.h>

#define BUF 65536u

static void start(struct pair *p, bool self)
{
    struct pair_options options;

    pair_options_init(&options, RNIC_CRC_OFF);
    options.buf_len = BUF;
    options.self = self;
    pair_new(p, &options);
    pair_connect(p, NULL);
}

static struct rnic_sq_wqe *sq_wqe(struct pair *p, unsigned side, uint32_t index)
{
    struct th_qp *qp = p->qp[side];

    return th_ptr(p->guest[side],
                  qp->sq + index % qp->attr.sq_depth * qp->attr.sq_stride);
}

static struct rnic_qp_dbrec *qp_dbrec(struct th_qp *qp)
{
    return th_ptr(qp->guest, qp->dbrec);
}

/* ---- 2: a number of SGEs that the WQE has no room for ---- */

static void fault_02_more_sges_than_the_wqe_holds(void)
{
    static const struct {
        uint16_t stride;
        uint8_t num_sge;
    } rows[] = {
        { 64, 3 },   { 64, 16 },  { 64, 255 }, { 128, 7 },   { 256, 15 },
        { 256, 17 }, { 512, 17 }, { 512, 31 }, { 512, 128 }, { 512, 255 },
    };
    unsigned i, side;

    for (i = 0; i < G_N_ELEMENTS(rows); i++) {
        for (side = 0; side < 2; side++) {
            struct pair_options options;
            struct rnic_rq_wqe *recv;
            struct pair p;

            pair_options_init(&options, RNIC_CRC_OFF);
            options.buf_len = BUF;
            options.attr[0].sq_stride = options.attr[1].rq_stride =
                rows[i].stride;
            pair_new(&p, &options);
            pair_connect(&p, NULL);
            pair_post_recv(&p, 1, 5, 0, 100);
            pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 100, 0);
            /* The engine has not run */
            if (side == 0) {
                sq_wqe(&p, 0, 0)->num_sge = rows[i].num_sge;
            } else {
                /* One SGE less of header in front of them */
                if (rows[i].num_sge <=
                    MIN(RNIC_RQ_STRIDE_SGES(rows[i].stride), RNIC_MAX_SGE)) {
                    pair_free(&p);
                    continue;
                }
                recv = th_ptr(p.guest[1], p.qp[1]->rq);
                recv->num_sge = rows[i].num_sge;
            }
            pair_wait_error(&p);
            if (side == 0) {
                pair_wait_send(&p, 0, 1, RNIC_WC_LOC_QP_OP_ERR, NULL);
                pair_wait_recv(&p, 1, 5, RNIC_WC_WR_FLUSH_ERR, NULL);
            } else {
                pair_wait_recv(&p, 1, 5, RNIC_WC_LOC_QP_OP_ERR, NULL);
            }
            th_still_works(p.guest[0]);
            th_still_works(p.guest[1]);
            pair_free(&p);
        }
    }
}

/* ---- 6: indices that make a loop too long, or endless ---- */

static const uint32_t bogus[] = {
    65, 66, 1000, 0x7fffffff, 0x80000000, 0x80000040, 0xffffff00, 0xffffffff,
};

static void fault_06_bogus_work_queue_indices_end(void)
{
    unsigned i, which;

    for (i = 0; i < G_N_ELEMENTS(bogus); i++) {
        for (which = 0; which < 3; which++) {
            struct rnic_cqe cqe;
            struct pair p;

            start(&p, false);
            if (which == 0) {
                qp_dbrec(p.qp[0])->sq_pi = GUINT32_TO_LE(bogus[i]);
                th_ring(p.guest[0], 0, p.qp[0]->qpn);
            } else {
                qp_dbrec(p.qp[1])->rq_pi = GUINT32_TO_LE(bogus[i]);
                /* Looked at for a Send, and for flushing */
                if (which == 1) {
                    pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 10, 0);
                } else {
                    th_qp_modify(p.qp[1], RNIC_QPS_ERROR);
                    th_ring(p.guest[1], 0, p.qp[1]->qpn);
                }
            }
            pair_wait_error(&p);
            th_settle(p.guest[0]);
            th_settle(p.guest[1]);
            g_assert_false(th_cq_poll(p.qp[1]->attr.recv_cq, &cqe));
            g_assert_cmpuint(p.guest[!!which]->errors->len, ==, 1);
            th_still_works(p.guest[0]);
            th_still_works(p.guest[1]);
            pair_free(&p);
        }
    }
}

static void fault_06_bogus_consumer_indices_end(void)
{
    static const uint32_t bad[] = {
        257, 1000, 0x7fffffff, 0x80000000, 0xfffffeff, 0xffffffff,
    };
    unsigned i, which;

    for (i = 0; i < G_N_ELEMENTS(bad); i++) {
        for (which = 0; which < 3; which++) {
            struct th_eq *eq;
            struct pair p;
            uint32_t *ci;

            start(&p, false);
            eq = which == 1 ? &p.guest[0]->ceq : &p.guest[0]->aeq;
            if (which == 0) {
                /* The consumer of a CQ that is full */
                ci = th_ptr(p.guest[0], p.qp[0]->attr.send_cq->dbrec);
                for (unsigned n = 0; n < 256; n++) {
                    pair_post(&p, 0, RNIC_WR_WRITE, n, 0, 8, 0);
                    if (n % 32 == 31) {
                        th_run_for(2);
                    }
                }
                *ci = GUINT32_TO_LE(bad[i]);
                pair_post(&p, 0, RNIC_WR_WRITE, 1, 0, 8, 0);
                th_event_wait(p.guest[0], RNIC_EV_CQ_ERR,
                              p.qp[0]->attr.send_cq->cqn, NULL);
            } else {
                ci = th_ptr(p.guest[0],
                            eq->addr + eq->depth * (which == 1 ? 16 : 1024));
                *ci = GUINT32_TO_LE(bad[i]);
                th_cq_arm(p.qp[0]->attr.send_cq, RNIC_CQ_ARM_ANY);
                pair_post(&p, 0, RNIC_WR_WRITE, 1, 0, 8, 0);
                pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
            }
            th_settle(p.guest[0]);
            th_still_works(p.guest[0]);
            pair_free(&p);
        }
    }
}

static void fault_06_bogus_srq_and_admin_indices_end(void)
{
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(bogus); i++) {
        struct pair_options options;
        struct th_guest *guest;
        struct th_srq *srq;
        struct pair p;

        pair_options_init(&options, RNIC_CRC_OFF);
        options.buf_len = BUF;
        pair_new(&p, &options);
        th_qp_free(p.qp[1]);
        srq = th_srq_new(p.guest[1], 64, 0);
        options.attr[1].srq = srq;
        p.qp[1] = th_qp_new(p.guest[1], &options.attr[1]);
        pair_connect(&p, NULL);
        ((struct rnic_qp_dbrec *)th_ptr(p.guest[1], srq->dbrec))->rq_pi =
            GUINT32_TO_LE(bogus[i]);
        pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 10, 0);
        th_event_wait(p.guest[1], RNIC_EV_SRQ_ERR, srq->srqn, NULL);
        pair_wait_error(&p);
        th_settle(p.guest[1]);
        th_still_works(p.guest[1]);
        pair_free(&p);

        guest = th_guest_started(NULL);
        th_reg_set(guest, RNIC_REG_ASQ_DB, guest->asq_pi + bogus[i]);
        th_wait(th_reg(guest, RNIC_REG_STATUS) == RNIC_STATUS_FATAL);
        th_settle(guest);
        th_reset(guest);
        th_start(guest);
        th_still_works(guest);
        th_guest_free(guest);
    }
}

/* ---- 12: a bad WQE, and what stands behind it and beside it ---- */

static void bad_count(struct rnic_sq_wqe *wqe)
{
    wqe->num_sge = 255;
}

static void bad_opcode(struct rnic_sq_wqe *wqe)
{
    wqe->opcode = 200;
}

static void bad_flags(struct rnic_sq_wqe *wqe)
{
    wqe->flags = 0xff;
}

static void bad_stag(struct rnic_sq_wqe *wqe)
{
    wqe->sge[0].lkey ^= GUINT32_TO_LE(0x55500);
}

static void bad_bounds(struct rnic_sq_wqe *wqe)
{
    wqe->sge[0].addr = GUINT64_TO_LE(~0ull);
}

static void all_ones(struct rnic_sq_wqe *wqe)
{
    memset(wqe, 0xff, 512);
}

static void fault_12_bad_wqe_does_not_stall_the_queue(void)
{
    static void (*const spoil[])(struct rnic_sq_wqe *) = {
        bad_count, bad_opcode, bad_flags, bad_stag, bad_bounds, all_ones,
    };
    unsigned i, n;

    for (i = 0; i < G_N_ELEMENTS(spoil); i++) {
        struct th_qp *beside[2];
        struct rnic_cqe cqe;
        struct pair p;

        start(&p, false);
        beside[0] = th_qp_new(p.guest[0], NULL);
        beside[1] = th_qp_new(p.guest[1], NULL);
        th_connect_pair(beside[0], "10.0.0.1", beside[1], "10.0.0.2", NULL);
        for (n = 0; n < 10; n++) {
            pair_post(&p, 0, RNIC_WR_WRITE, n, 64 * n, 64, 0);
        }
        spoil[i](sq_wqe(&p, 0, 3));
        for (n = 0; n < 3; n++) {
            pair_wait_send(&p, 0, n, RNIC_WC_SUCCESS, NULL);
        }
        th_cq_wait(p.qp[0]->attr.send_cq, &cqe);
        g_assert_cmpuint(cqe.status, !=, RNIC_WC_SUCCESS);
        g_assert_cmpuint(cqe.status, !=, RNIC_WC_WR_FLUSH_ERR);
        for (n = 4; n < 10; n++) {
            pair_wait_send(&p, 0, n, RNIC_WC_WR_FLUSH_ERR, NULL);
        }
        pair_wait_error(&p);
        pair_no_completions(&p, 0);

        /* Nobody else notices */
        {
            struct th_wr wr = {
                .opcode = RNIC_WR_WRITE,
                .flags = RNIC_WQE_SIGNALED,
                .sge = { pair_sge(&p, 0, 0, 4096) },
                .num_sge = 1,
                .remote_stag = p.stag[1],
                .remote_to = PAIR_IOVA,
            };

            th_fill(p.buf[0].ptr, 4096, 9);
            th_post_send(beside[0], &wr, 1);
            th_cq_wait(beside[0]->attr.send_cq, &cqe);
            g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
            th_wait(memcmp(p.buf[0].ptr, p.buf[1].ptr, 4096) == 0);
        }
        th_settle(p.guest[0]);
        th_still_works(p.guest[0]);
        pair_free(&p);
    }
}

/* ---- 13: nothing is written into what the guest posted ---- */

static struct {
    struct th_guest *guest;
    uint64_t start, end;
} posted[2];

static void watch_posted(struct th_guest *guest, bool mapping, uint64_t addr,
                         uint64_t len, enum rnic_dma_dir dir)
{
    for (unsigned i = 0; i < 2; i++) {
        if (guest == posted[i].guest && dir != RNIC_DMA_FROM_GUEST) {
            g_assert_true(addr >= posted[i].end ||
                          addr + len <= posted[i].start);
        }
    }
}

static void fault_13_work_queues_are_only_read(void)
{
    g_autofree uint8_t *before[2] = { NULL, NULL };
    struct pair p;
    unsigned i, n;

    start(&p, false);
    for (i = 0; i < 2; i++) {
        posted[i].guest = p.guest[i];
        posted[i].start = p.qp[i]->sq;
        posted[i].end = p.qp[i]->dbrec + sizeof(struct rnic_qp_dbrec);
        p.guest[i]->options.watch = watch_posted;
    }
    for (n = 0; n < 20; n++) {
        pair_post_recv(&p, 1, n, n * 1000, 1000);
        pair_post(&p, 0, RNIC_WR_SEND, n, n * 1000, 1000, 0);
        pair_post(&p, 0, RNIC_WR_WRITE, n, n * 1000, 1000, 0);
        pair_post(&p, 0, RNIC_WR_READ, n, n * 1000, 1000, 0);
    }
    for (i = 0; i < 2; i++) {
        size_t len = posted[i].end - posted[i].start;

        before[i] = g_memdup2(th_ptr(p.guest[i], posted[i].start), len);
    }
    for (n = 0; n < 20; n++) {
        pair_wait_recv(&p, 1, n, RNIC_WC_SUCCESS, NULL);
        pair_wait_send(&p, 0, n, RNIC_WC_SUCCESS, NULL);
        pair_wait_send(&p, 0, n, RNIC_WC_SUCCESS, NULL);
        pair_wait_send(&p, 0, n, RNIC_WC_SUCCESS, NULL);
    }
    th_qp_modify(p.qp[0], RNIC_QPS_ERROR);
    pair_wait_error(&p);
    for (i = 0; i < 2; i++) {
        size_t len = posted[i].end - posted[i].start;

        g_assert_cmpmem(before[i], len, th_ptr(p.guest[i], posted[i].start),
                        len);
        g_free(g_steal_pointer(&before[i]));
        posted[i].guest = NULL;
    }
    pair_free(&p);
}

/* ---- 15: what the guest writes over the device's own words ---- */

static void fault_15_device_keeps_its_own_indices(void)
{
    struct rnic_asqe query = { .opcode = RNIC_CMD_QUERY_QP };
    struct rnic_acqe resp;
    struct pair p;
    unsigned n;

    start(&p, false);
    for (n = 0; n < 200; n++) {
        uint32_t junk = n % 3 ? GUINT32_TO_LE(n * 2654435761u) : ~0u;
        uint32_t *status = th_ptr(p.guest[0], p.qp[0]->status);
        struct rnic_cqe *cqes = th_ptr(p.guest[0], p.qp[0]->attr.send_cq->addr);
        unsigned i;

        th_fill(p.buf[0].ptr, 512, n);
        pair_post(&p, 0, RNIC_WR_WRITE, n, 0, 512, 0);
        /* State, event index and gate of both, and the CQE written last */
        for (i = 0; i < 4; i++) {
            status[i] = junk;
        }
        memset(th_ptr(p.guest[1], p.qp[1]->status), 0xff, 16);
        th_ring(p.guest[0], 0, p.qp[0]->qpn);
        pair_wait_send(&p, 0, n, RNIC_WC_SUCCESS, NULL);
        memset(&cqes[n % 256], n % 2 ? 0xff : 0, sizeof(cqes[0]) - 4);
        th_wait(memcmp(p.buf[0].ptr, p.buf[1].ptr, 512) == 0);
    }
    query.id.id = GUINT32_TO_LE(p.qp[0]->qpn);
    g_assert_cmpuint(th_admin(p.guest[0], &query, &resp), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(GUINT32_FROM_LE(resp.query_qp.state), ==, RNIC_QPS_RTS);
    g_assert_cmpuint(GUINT32_FROM_LE(resp.query_qp.sq_ci), ==, n);
    g_assert_cmpuint(p.guest[0]->errors->len, ==, 0);
    pair_free(&p);
}

/* ---- 18: lengths whose sum does not fit ---- */

static void fault_18_sge_lengths_past_32_bits(void)
{
    static const struct {
        unsigned num_sge;
        uint32_t length;
        enum rnic_wr_opcode opcode;
    } rows[] = {
        { 16, 0xffffffff, RNIC_WR_SEND },  { 2, 0x80000000, RNIC_WR_SEND },
        { 16, 0x10000000, RNIC_WR_WRITE }, { 3, 0x55555556, RNIC_WR_WRITE },
        { 16, 0x10000001, RNIC_WR_READ },  { 2, 0x40000001, RNIC_WR_SEND },
        { 1, 0x80000001, RNIC_WR_WRITE },
    };
    unsigned i, n;

    for (i = 0; i < G_N_ELEMENTS(rows); i++) {
        struct th_wr wr = {
            .opcode = rows[i].opcode,
            .wr_id = 1,
            .num_sge = rows[i].num_sge,
            .remote_to = PAIR_IOVA,
        };
        struct pair p;

        start(&p, false);
        memset(p.buf[1].ptr, 0xee, BUF);
        wr.remote_stag = p.stag[1];
        for (n = 0; n < rows[i].num_sge; n++) {
            /* Nothing bounds this STag */
            wr.sge[n] = th_sge(RNIC_STAG_LOCAL_DMA, TH_BASE, rows[i].length);
        }
        th_post_send(p.qp[0], &wr, 1);
        pair_wait_send(&p, 0, 1, RNIC_WC_LOC_QP_OP_ERR, NULL);
        pair_wait_error(&p);
        for (n = 0; n < BUF; n++) {
            g_assert_cmpuint(p.buf[1].ptr[n], ==, 0xee);
        }
        pair_free(&p);
    }
}

/* A receive may be larger than any message; no message is */
static void fault_18_receive_past_32_bits(void)
{
    struct rnic_sge sge[RNIC_MAX_SGE];
    struct rnic_cqe cqe;
    struct pair p;
    unsigned n;

    start(&p, false);
    for (n = 0; n < RNIC_MAX_SGE; n++) {
        sge[n] = th_sge(RNIC_STAG_LOCAL_DMA, TH_BASE + (1 << 20) * (n + 1),
                        0xffffffff);
    }
    th_post_recv(p.qp[1], 5, sge, RNIC_MAX_SGE);
    th_fill(p.buf[0].ptr, BUF, 1);
    pair_post(&p, 0, RNIC_WR_SEND, 1, 0, BUF, 0);
    pair_wait_recv(&p, 1, 5, RNIC_WC_SUCCESS, &cqe);
    g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, BUF);
    th_check_filled(th_ptr(p.guest[1], TH_BASE + (1 << 20)), BUF, 1);
    pair_free(&p);
}

/* ---- 20: events while nobody takes interrupts ---- */

static void fault_20_event_before_arming_is_not_lost(void)
{
    struct rnic_cqe cqe;
    struct th_eq *ceq;
    struct pair p;
    unsigned irqs;

    start(&p, false);
    ceq = &p.guest[0]->ceq;
    /* A zeroed record asks for an interrupt with entry 0 */
    th_cq_arm(p.qp[0]->attr.send_cq, RNIC_CQ_ARM_ANY);
    pair_post(&p, 0, RNIC_WR_WRITE, 0, 0, 8, 0);
    pair_wait_send(&p, 0, 0, RNIC_WC_SUCCESS, &cqe);
    g_assert_cmpuint(th_ceq_poll(ceq), ==, p.qp[0]->attr.send_cq->cqn);
    irqs = p.guest[0]->irqs[1];
    /* The CQ is armed, its EQ is not: an entry, and no interrupt */
    th_cq_arm(p.qp[0]->attr.send_cq, RNIC_CQ_ARM_ANY);
    pair_post(&p, 0, RNIC_WR_WRITE, 1, 0, 8, 0);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, &cqe);
    th_settle(p.guest[0]);
    g_assert_cmpuint(p.guest[0]->irqs[1], ==, irqs);
    /* The rule of event.h finds it when the driver arms */
    th_eq_arm(ceq);
    g_assert_cmpuint(th_ceq_poll(ceq), ==, p.qp[0]->attr.send_cq->cqn);
    /* And the next one interrupts */
    th_eq_arm(ceq);
    g_assert_false(th_cq_arm(p.qp[0]->attr.send_cq, RNIC_CQ_ARM_ANY));
    pair_post(&p, 0, RNIC_WR_WRITE, 2, 0, 8, 0);
    th_wait(p.guest[0]->irqs[1] == irqs + 1);
    pair_free(&p);
}

/* ---- 21: a check that fails within one device ---- */

static void fault_21_failed_check_in_loopback_is_no_success(void)
{
    static const struct {
        enum rnic_wr_opcode opcode;
        uint64_t to;
        uint32_t stag;
        uint32_t len;
    } rows[] = {
        { RNIC_WR_WRITE, PAIR_IOVA + BUF - 100, 0, 101 },
        { RNIC_WR_WRITE, PAIR_IOVA - 1, 0, 10 },
        { RNIC_WR_WRITE, PAIR_IOVA, 0x55500, 10 },
        { RNIC_WR_READ, PAIR_IOVA + BUF - 100, 0, 101 },
        { RNIC_WR_READ, ~0ull - 5, 0, 10 },
        { RNIC_WR_SEND, 0, 0, 101 },
    };
    unsigned i, n;

    for (i = 0; i < G_N_ELEMENTS(rows); i++) {
        bool read = rows[i].opcode == RNIC_WR_READ;
        struct th_wr wr = {
            .opcode = rows[i].opcode,
            .flags = RNIC_WQE_SIGNALED,
            .num_sge = 1,
            .remote_to = rows[i].to,
        };
        struct rnic_cqe cqe;
        struct pair p;

        start(&p, true);
        g_assert_true(p.guest[0] == p.guest[1]);
        memset(p.buf[read ? 0 : 1].ptr, 0xee, BUF);
        memset(p.buf[read ? 1 : 0].ptr, 0x11, BUF);
        wr.sge[0] = pair_sge(&p, 0, 0, rows[i].len);
        wr.remote_stag = p.stag[1] ^ rows[i].stag;
        pair_post_recv(&p, 1, 5, 1000, 100);
        th_post_send(p.qp[0], &wr, 1);
        for (n = 0; n < 2; n++) {
            th_wait(th_qp_state(p.qp[n]) == RNIC_QPS_ERROR);
        }
        if (read) {
            pair_wait_send(&p, 0, 0, RNIC_WC_REM_ACCESS_ERR, NULL);
        } else {
            /* TCP took a Write or a Send; its target tells */
            th_cq_wait(p.qp[1]->attr.recv_cq, &cqe);
            g_assert_cmpuint(cqe.status, !=, RNIC_WC_SUCCESS);
            g_assert_cmpuint(th_stat(p.guest[0], RNIC_STAT_term_sent), ==, 1);
        }
        for (n = 0; n < BUF; n++) {
            g_assert_cmpuint(p.buf[read ? 0 : 1].ptr[n], ==, 0xee);
        }
        pair_free(&p);
    }
}

/* ---- 25: the device is reached from within its own DMA ---- */

static unsigned reentries;

static void reenter(struct th_guest *guest, bool mapping, uint64_t addr,
                    uint64_t len, enum rnic_dma_dir dir)
{
    unsigned i;

    if (++reentries % 3) {
        return;
    }
    for (i = 0; i < 8; i++) {
        rnic_device_doorbell(guest->dev, i * RNIC_DB_PAGE_SIZE / 2, 4);
        rnic_device_reg_write(guest->dev, RNIC_REG_ASQ_LO + 4 * i, ~0u, 4);
        rnic_device_reg_read(guest->dev, 8 * i, 8);
    }
}

static void fault_25_doorbells_from_within_dma(void)
{
    struct pair p;
    unsigned n;

    start(&p, false);
    p.guest[0]->options.watch = reenter;
    /* ASQ_DB among them: the device stops, in order */
    reentries = 0;
    for (n = 0; n < 20; n++) {
        pair_post(&p, 0, RNIC_WR_WRITE, n, 0, 1000, 0);
        th_step(1);
    }
    th_wait(th_reg(p.guest[0], RNIC_REG_STATUS) == RNIC_STATUS_FATAL);
    p.guest[0]->options.watch = NULL;
    th_reset(p.guest[0]);
    th_start(p.guest[0]);
    th_still_works(p.guest[0]);
    pair_free(&p);
}

static void reset_within(struct th_guest *guest, bool mapping, uint64_t addr,
                         uint64_t len, enum rnic_dma_dir dir)
{
    if (--reentries == 0) {
        th_reg_set(guest, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    }
}

static void fault_25_reset_from_within_dma(void)
{
    unsigned at;

    /* At each mapping of the way of a message */
    for (at = 1; at < 40; at++) {
        struct pair p;

        start(&p, true);
        pair_post_recv(&p, 1, 5, 0, 1000);
        reentries = at;
        p.guest[0]->options.watch = reset_within;
        pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 1000, 0);
        pair_post(&p, 0, RNIC_WR_READ, 2, 0, 1000, 0);
        th_run_for(5);
        p.guest[0]->options.watch = NULL;
        th_reset(p.guest[0]);
        th_start(p.guest[0]);
        th_still_works(p.guest[0]);
        pair_free(&p);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(fault) g_test_add_func("/faults-traffic/" #fault, fault)
    ADD(fault_02_more_sges_than_the_wqe_holds);
    ADD(fault_06_bogus_work_queue_indices_end);
    ADD(fault_06_bogus_consumer_indices_end);
    ADD(fault_06_bogus_srq_and_admin_indices_end);
    ADD(fault_12_bad_wqe_does_not_stall_the_queue);
    ADD(fault_13_work_queues_are_only_read);
    ADD(fault_15_device_keeps_its_own_indices);
    ADD(fault_18_sge_lengths_past_32_bits);
    ADD(fault_18_receive_past_32_bits);
    ADD(fault_20_event_before_arming_is_not_lost);
    ADD(fault_21_failed_check_in_loopback_is_no_success);
    ADD(fault_25_doorbells_from_within_dma);
    ADD(fault_25_reset_from_within_dma);
    return g_test_run();
}
