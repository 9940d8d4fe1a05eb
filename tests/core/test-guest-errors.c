/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the guest does wrong is told once, in words that name the object and the
 * cause: each row provokes one error and expects one text, and no other
 */
#include "mr.h"
#include "pair.h"

#include <string.h>

#define BUF 131072u

/* What the rows work on; not all use all */
struct scene {
    struct pair pair;
    struct th_guest *guest; /* whose error it is */
    struct th_qp *qp;       /* of it */
    struct th_cq *cq;
    struct th_srq *srq;
};

struct row {
    const char *name;
    void (*provoke)(struct scene *s);
    unsigned side;
    enum { CONNECTED, IDLE, SHARED, SMALL_CQ, NO_EARLY } start;
    /* Parts of the text, in order */
    const char *words[4];
};

/* ---- Registers and doorbells ---- */

static void reg_read(struct scene *s)
{
    rnic_device_reg_read(s->guest->dev, 0x101, 2);
}

static void reg_read_hole(struct scene *s)
{
    rnic_device_reg_read(s->guest->dev, 0xffc, 4);
}

static void reg_write_odd(struct scene *s)
{
    rnic_device_reg_write(s->guest->dev, 0x102, 1, 1);
}

static void reg_write_ro(struct scene *s)
{
    rnic_device_reg_write(s->guest->dev, RNIC_REG_MAX_QP, 7, 4);
}

static void reg_write_enabled(struct scene *s)
{
    rnic_device_reg_write(s->guest->dev, RNIC_REG_ADMIN_DEPTH, 7, 4);
}

static void kick_odd(struct scene *s)
{
    rnic_device_doorbell(s->guest->dev, 0x1004, 8);
}

static void kick_missing(struct scene *s)
{
    rnic_device_doorbell(s->guest->dev, 5 * RNIC_DB_PAGE_SIZE, 4);
}

static void kick_no_bitmap(struct scene *s)
{
    th_make_hole(s->guest, s->guest->dbmap[0], TH_PAGE);
    rnic_device_doorbell(s->guest->dev, 0, 4);
}

static void ring_missing(struct scene *s)
{
    th_ring(s->guest, 0, 4321);
}

static void ring_foreign(struct scene *s)
{
    th_uctx_new(s->guest, 3);
    th_ring(s->guest, 3, s->qp->qpn);
}

/* ---- Fatal ones ---- */

static void admin_index(struct scene *s)
{
    th_reg_set(s->guest, RNIC_REG_ASQ_DB, 0x1000);
}

static void admin_ring_gone(struct scene *s)
{
    th_make_hole(s->guest, s->guest->asq, 32 * sizeof(struct rnic_asqe));
    th_reg_set(s->guest, RNIC_REG_ASQ_DB, s->guest->asq_pi + 1);
}

static void admin_bad_depth(struct scene *s)
{
    th_reset(s->guest);
    th_reg_set(s->guest, RNIC_REG_ADMIN_DEPTH, 3);
    th_reg_set(s->guest, RNIC_REG_CTRL, RNIC_CTRL_ENABLE);
}

static void fire(struct scene *s)
{
    th_cq_arm(s->cq, RNIC_CQ_ARM_ANY);
    pair_post(&s->pair, 0, RNIC_WR_WRITE, 1, 0, 8, 0);
}

static void eq_gone(struct scene *s)
{
    th_make_hole(s->guest, s->guest->ceq.addr, 64);
    fire(s);
}

static void enable_while_fatal(struct scene *s)
{
    admin_index(s);
    th_wait(th_reg(s->guest, RNIC_REG_STATUS) == RNIC_STATUS_FATAL);
    g_ptr_array_set_size(s->guest->errors, 0);
    th_reg_set(s->guest, RNIC_REG_CTRL, 0);
    th_wait(th_reg(s->guest, RNIC_REG_STATUS) == 0);
    admin_bad_depth(s);
    th_wait(th_reg(s->guest, RNIC_REG_STATUS) == RNIC_STATUS_FATAL);
    th_reg_set(s->guest, RNIC_REG_CTRL, 0);
    th_wait(!(th_reg(s->guest, RNIC_REG_STATUS)));
}

/* ---- Event and completion queues ---- */

static void eq_index(struct scene *s)
{
    uint32_t *ci = th_ptr(s->guest, s->guest->ceq.addr + 256 * 16);

    *ci = GUINT32_TO_LE(1000);
    fire(s);
    pair_wait_send(&s->pair, 0, 1, RNIC_WC_SUCCESS, NULL);
    fire(s);
}

static void cq_full(struct scene *s)
{
    for (unsigned i = 0; i < 10; i++) {
        pair_post(&s->pair, 0, RNIC_WR_WRITE, i, 0, 8, 0);
    }
}

static void cq_index(struct scene *s)
{
    for (unsigned i = 0; i < 4; i++) {
        pair_post(&s->pair, 0, RNIC_WR_WRITE, i, 0, 8, 0);
    }
    th_run_for(5);
    *(uint32_t *)th_ptr(s->guest, s->cq->dbrec) = GUINT32_TO_LE(77);
    pair_post(&s->pair, 0, RNIC_WR_WRITE, 9, 0, 8, 0);
}

static void cq_gone(struct scene *s)
{
    th_make_hole(s->guest, s->cq->addr, 64);
    pair_post(&s->pair, 0, RNIC_WR_WRITE, 9, 0, 8, 0);
}

static void cq_record_gone(struct scene *s)
{
    th_make_hole(s->guest, s->cq->dbrec, 64);
    pair_post(&s->pair, 0, RNIC_WR_WRITE, 9, 0, 8, 0);
}

/* What moderation holds back goes with the CQ */
static void cq_record_gone_moderated(struct scene *s)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_MODIFY_CQ };

    cmd.modify_cq.cqn = GUINT32_TO_LE(s->cq->cqn);
    cmd.modify_cq.count = GUINT16_TO_LE(100);
    cmd.modify_cq.period_us = GUINT16_TO_LE(20000);
    g_assert_cmpuint(th_admin(s->guest, &cmd, NULL), ==, RNIC_ADMIN_OK);
    fire(s);
    pair_wait_send(&s->pair, 0, 1, RNIC_WC_SUCCESS, NULL);
    th_make_hole(s->guest, s->cq->dbrec, 64);
    th_event_wait(s->guest, RNIC_EV_CQ_ERR, s->cq->cqn, NULL);
    cmd.modify_cq.count = 0;
    g_assert_cmpuint(th_admin(s->guest, &cmd, NULL), ==, RNIC_ADMIN_OK);
    g_assert_false(th_event_take(s->guest, RNIC_EV_CQ_ERR, TH_ANY_ID, NULL));
}

/* ---- Shared receive queues ---- */

static void srq_index(struct scene *s)
{
    ((struct rnic_qp_dbrec *)th_ptr(s->guest, s->srq->dbrec))->rq_pi = ~0u;
    pair_post(&s->pair, 0, RNIC_WR_SEND, 1, 0, 8, 0);
}

static void srq_record_gone(struct scene *s)
{
    th_make_hole(s->guest, s->srq->dbrec, 64);
    pair_post(&s->pair, 0, RNIC_WR_SEND, 1, 0, 8, 0);
}

static void srq_gone(struct scene *s)
{
    struct rnic_sge sge = pair_sge(&s->pair, 1, 0, 8);

    th_srq_post(s->srq, 1, &sge, 1);
    th_make_hole(s->guest, s->srq->addr, 64);
    pair_post(&s->pair, 0, RNIC_WR_SEND, 1, 0, 8, 0);
}

/* ---- Indices and memory of a QP ---- */

static struct rnic_qp_dbrec *record(struct scene *s)
{
    return th_ptr(s->guest, s->qp->dbrec);
}

static void sq_index(struct scene *s)
{
    record(s)->sq_pi = GUINT32_TO_LE(70);
    th_ring(s->guest, 0, s->qp->qpn);
}

static void sq_index_back(struct scene *s)
{
    pair_post(&s->pair, 0, RNIC_WR_WRITE, 1, 0, 8, 0);
    pair_wait_send(&s->pair, 0, 1, RNIC_WC_SUCCESS, NULL);
    record(s)->sq_pi = 0;
    th_ring(s->guest, 0, s->qp->qpn);
}

static void rq_index(struct scene *s)
{
    record(s)->rq_pi = GUINT32_TO_LE(65);
    pair_post(&s->pair, 0, RNIC_WR_SEND, 1, 0, 8, 0);
}

static void record_gone(struct scene *s)
{
    th_make_hole(s->guest, s->qp->dbrec, 4);
    th_ring(s->guest, 0, s->qp->qpn);
}

static void rq_record_gone(struct scene *s)
{
    th_make_hole(s->guest, s->qp->dbrec + 4, 4);
    pair_post(&s->pair, 0, RNIC_WR_SEND, 1, 0, 8, 0);
}

static void status_gone(struct scene *s)
{
    th_make_hole(s->guest, s->qp->status, 16);
    th_qp_modify(s->qp, RNIC_QPS_ERROR);
}

static void status_gone_sending(struct scene *s)
{
    th_make_hole(s->guest, s->qp->status, 16);
    pair_post(&s->pair, 0, RNIC_WR_WRITE, 1, 0, 8, 0);
}

static void status_gone_before_rts(struct scene *s)
{
    struct rnic_sockaddr to = th_sockaddr("10.0.0.2", 0);
    struct rnic_sockaddr from = th_sockaddr("10.0.0.1", 0);
    struct th_guest *server = s->pair.guest[1];
    struct rnic_aeqe event;
    uint32_t listener;

    th_make_hole(s->guest, s->qp->status, 16);
    th_addr_add(s->guest, "10.0.0.1");
    th_addr_add(server, "10.0.0.2");
    listener = th_listen(server, "10.0.0.2", 7777, 1, NULL);
    to.port = GUINT16_TO_BE(7777);
    g_assert_cmpuint(th_connect(s->qp, &from, &to, NULL), ==, RNIC_ADMIN_OK);
    th_event_wait(server, RNIC_EV_CONNECT_REQUEST, listener, &event);
    th_accept(s->pair.qp[1], GUINT32_FROM_LE(event.conn_id), NULL);
}

static void early_send(struct scene *s)
{
    pair_post(&s->pair, 0, RNIC_WR_WRITE, 1, 0, 8, 0);
}

static void sq_gone(struct scene *s)
{
    th_make_hole(s->guest, s->qp->sq, 64);
    pair_post(&s->pair, 0, RNIC_WR_WRITE, 1, 0, 8, 0);
}

static void rq_gone(struct scene *s)
{
    pair_post_recv(&s->pair, 1, 1, 0, 8);
    th_make_hole(s->guest, s->qp->rq, 64);
    pair_post(&s->pair, 0, RNIC_WR_SEND, 1, 0, 8, 0);
}

static void sq_gone_flushing(struct scene *s)
{
    th_make_hole(s->guest, s->qp->sq, 64);
    pair_post(&s->pair, 0, RNIC_WR_WRITE, 1, 0, 8, 0);
    th_qp_modify(s->qp, RNIC_QPS_ERROR);
}

static void rq_gone_flushing(struct scene *s)
{
    pair_post_recv(&s->pair, 0, 1, 0, 8);
    th_make_hole(s->guest, s->qp->rq, 64);
    th_qp_modify(s->qp, RNIC_QPS_ERROR);
}

/* ---- Malformed work requests ---- */

/* A good Write, to be spoiled before the engine sees it */
static struct rnic_sq_wqe *posted(struct scene *s, enum rnic_wr_opcode opcode)
{
    pair_post(&s->pair, 0, opcode, 1, 0, 8, 0);
    return th_ptr(s->guest, s->qp->sq);
}

static void wqe_flag(struct scene *s)
{
    posted(s, RNIC_WR_WRITE)->flags = 0x10;
}

static void wqe_opcode(struct scene *s)
{
    posted(s, RNIC_WR_WRITE)->opcode = 99;
}

static void wqe_inline_sges(struct scene *s)
{
    posted(s, RNIC_WR_WRITE)->flags = RNIC_WQE_INLINE;
}

static void wqe_inline_long(struct scene *s)
{
    struct rnic_sq_wqe *wqe = posted(s, RNIC_WR_SEND);

    wqe->flags = RNIC_WQE_INLINE;
    wqe->num_sge = 0;
    wqe->inline_len = GUINT32_TO_LE(481);
}

static void wqe_inline_read(struct scene *s)
{
    posted(s, RNIC_WR_READ)->flags = RNIC_WQE_INLINE;
}

static void wqe_inline_inv(struct scene *s)
{
    posted(s, RNIC_WR_LOCAL_INV)->flags = RNIC_WQE_INLINE;
}

static void wqe_inline_reg(struct scene *s)
{
    posted(s, RNIC_WR_WRITE)->opcode = RNIC_WR_REG_MR;
    ((struct rnic_sq_wqe *)th_ptr(s->guest, s->qp->sq))->flags =
        RNIC_WQE_INLINE;
}

static void wqe_sges(struct scene *s)
{
    posted(s, RNIC_WR_WRITE)->num_sge = 17;
}

static void wqe_long(struct scene *s)
{
    posted(s, RNIC_WR_WRITE)->sge[0].length = GUINT32_TO_LE(0x80000001);
}

static void wqe_read_ord(struct scene *s)
{
    struct th_connect params = { 0 };

    pair_connect(&s->pair, &params);
    posted(s, RNIC_WR_READ);
}

static void wqe_reg_user(struct scene *s)
{
    struct pair_options options;

    /* A QP of its own, that is no kernel's */
    pair_options_init(&options, RNIC_CRC_OFF);
    options.attr[0].flags = 0;
    s->pair.qp[0] = s->qp = th_qp_new(s->guest, &options.attr[0]);
    pair_connect(&s->pair, NULL);
    posted(s, RNIC_WR_WRITE)->opcode = RNIC_WR_REG_MR;
}

static void recv_sges(struct scene *s)
{
    struct rnic_rq_wqe *wqe;

    pair_post_recv(&s->pair, 1, 0x77, 0, 8);
    wqe = th_ptr(s->guest, s->qp->rq);
    wqe->num_sge = 200;
    pair_post(&s->pair, 0, RNIC_WR_SEND, 1, 0, 8, 0);
}

/* ---- SGEs ---- */

static void sge_stag(struct scene *s)
{
    posted(s, RNIC_WR_WRITE)->sge[0].lkey ^= GUINT32_TO_LE(0x55500);
}

static void sge_bounds(struct scene *s)
{
    posted(s, RNIC_WR_WRITE)->sge[0].length = GUINT32_TO_LE(BUF + 1);
}

static void sge_wrap(struct scene *s)
{
    posted(s, RNIC_WR_WRITE)->sge[0].addr = GUINT64_TO_LE(~0ull - 3);
}

static void sge_right(struct scene *s)
{
    uint32_t stag = th_reg_mr(s->guest, &s->pair.buf[0], PAIR_IOVA, 0);

    posted(s, RNIC_WR_READ)->sge[0].lkey = GUINT32_TO_LE(stag);
}

static void sge_pd(struct scene *s)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_REG_MR };
    struct rnic_acqe resp;

    cmd.reg_mr.pdn = GUINT32_TO_LE(TH_PD + 1);
    cmd.reg_mr.iova = GUINT64_TO_LE(PAIR_IOVA);
    cmd.reg_mr.buf = s->pair.buf[0].desc;
    g_assert_cmpuint(th_admin(s->guest, &cmd, &resp), ==, RNIC_ADMIN_OK);
    posted(s, RNIC_WR_WRITE)->sge[0].lkey = resp.mr.stag;
}

static void sge_not_ram(struct scene *s)
{
    th_make_hole(s->guest, s->pair.buf[0].pages[0], TH_PAGE);
    posted(s, RNIC_WR_WRITE);
}

static void recv_sge(struct scene *s)
{
    struct rnic_sge sge = pair_sge(&s->pair, 1, 0, BUF + 1);

    th_post_recv(s->qp, 0x99, &sge, 1);
    pair_post(&s->pair, 0, RNIC_WR_SEND, 1, 0, 8, 0);
}

static void recv_not_ram(struct scene *s)
{
    pair_post_recv(&s->pair, 1, 0x99, 0, 8);
    th_make_hole(s->guest, s->pair.buf[1].pages[0], TH_PAGE);
    pair_post(&s->pair, 0, RNIC_WR_SEND, 1, 0, 8, 0);
}

static void read_sink_not_ram(struct scene *s)
{
    posted(s, RNIC_WR_READ);
    th_make_hole(s->guest, s->pair.buf[0].pages[0], TH_PAGE);
}

static void region_not_ram(struct scene *s)
{
    th_make_hole(s->guest, s->pair.buf[1].pages[0], TH_PAGE);
    pair_post(&s->pair, 0, RNIC_WR_WRITE, 1, 0, 8, 0);
}

static void read_source_not_ram(struct scene *s)
{
    th_make_hole(s->guest, s->pair.buf[1].pages[0], TH_PAGE);
    pair_post(&s->pair, 0, RNIC_WR_READ, 1, 0, 8, 0);
}

/* ---- Invalidating and fast registration ---- */

static void inv_stag(struct scene *s)
{
    posted(s, RNIC_WR_LOCAL_INV)->inv_stag = GUINT32_TO_LE(0x12345600);
}

static void read_inv_stag(struct scene *s)
{
    posted(s, RNIC_WR_READ_INV)->inv_stag = GUINT32_TO_LE(0x12345600);
}

static void reg_stag(struct scene *s)
{
    struct th_wr wr = { .opcode = RNIC_WR_REG_MR, .wr_id = 0x42 };

    th_post_send(s->qp, &wr, 1);
}

/* ---- The rows ---- */

#define QPN "qpn 1"
static const struct row rows[] = {
    { "reg/read", reg_read, 0, CONNECTED, { "read of 2 octets", "0x101" } },
    { "reg/read-hole",
      reg_read_hole,
      0,
      CONNECTED,
      { "read of 4 octets", "0xffc" } },
    { "reg/write-odd",
      reg_write_odd,
      0,
      CONNECTED,
      { "write of 1 octets", "0x102" } },
    { "reg/write-ro",
      reg_write_ro,
      0,
      CONNECTED,
      { "write of 0x7", "0x40", "no effect" } },
    { "reg/write-enabled",
      reg_write_enabled,
      0,
      CONNECTED,
      { "write of 0x7", "0x110", "no effect" } },
    { "kick/odd",
      kick_odd,
      0,
      CONNECTED,
      { "write of 8 octets", "0x1004", "doorbell" } },
    { "kick/missing",
      kick_missing,
      0,
      CONNECTED,
      { "doorbell page 5", "there is no context 5" } },
    { "kick/no-bitmap",
      kick_no_bitmap,
      0,
      CONNECTED,
      { "context 0", "bitmap", "not RAM" } },
    { "ring/missing",
      ring_missing,
      0,
      CONNECTED,
      { "context 0 rang for QP 4321", "does not exist" } },
    { "ring/foreign",
      ring_foreign,
      0,
      CONNECTED,
      { "context 3 rang for QP 1", "is not its own" } },
    { "fatal/index",
      admin_index,
      0,
      CONNECTED,
      { "fatal", "ASQ_DB", "ahead" } },
    { "fatal/ring",
      admin_ring_gone,
      0,
      CONNECTED,
      { "fatal", "admin queue", "not RAM" } },
    { "fatal/depth",
      admin_bad_depth,
      0,
      CONNECTED,
      { "fatal", "depth", "admin queue" } },
    { "fatal/eq",
      eq_gone,
      0,
      CONNECTED,
      { "fatal", "event queue", "not RAM" } },
    { "fatal/again",
      enable_while_fatal,
      0,
      CONNECTED,
      { "fatal", "depth", "admin queue" } },
    { "eq/index",
      eq_index,
      0,
      CONNECTED,
      { "EQ 1", "consumer index 1000", "entries 0 to" } },
    { "cq/full", cq_full, 0, SMALL_CQ, { "CQ 3 failed", "full", "depth 4" } },
    { "cq/index",
      cq_index,
      0,
      SMALL_CQ,
      { "CQ 3 failed", "consumer index is out of range" } },
    { "cq/gone",
      cq_gone,
      0,
      CONNECTED,
      { "CQ 1 failed", "buffer is not RAM" } },
    { "cq/record",
      cq_record_gone,
      0,
      CONNECTED,
      { "CQ 1 failed", "doorbell record is not RAM" } },
    { "cq/record-moderated",
      cq_record_gone_moderated,
      0,
      CONNECTED,
      { "CQ 1 failed", "doorbell record is not RAM" } },
    { "srq/index",
      srq_index,
      1,
      SHARED,
      { "SRQ 1 failed", "producer index", "ahead" } },
    { "srq/record",
      srq_record_gone,
      1,
      SHARED,
      { "SRQ 1 failed", "doorbell record is not RAM" } },
    { "srq/gone",
      srq_gone,
      1,
      SHARED,
      { "SRQ 1 failed", "buffer is not RAM" } },
    { "qp/sq-index",
      sq_index,
      0,
      CONNECTED,
      { QPN, "SQ producer index 70", "out of range", "depth 64" } },
    { "qp/sq-index-back",
      sq_index_back,
      0,
      CONNECTED,
      { QPN, "SQ producer index 0", "out of range", "1 completed" } },
    { "qp/rq-index",
      rq_index,
      1,
      CONNECTED,
      { QPN, "RQ producer index 65", "out of range" } },
    { "qp/record",
      record_gone,
      0,
      CONNECTED,
      { QPN, "doorbell record", "not RAM" } },
    { "qp/rq-record",
      rq_record_gone,
      1,
      CONNECTED,
      { QPN, "doorbell record", "not RAM" } },
    { "qp/status", status_gone, 0, CONNECTED, { QPN, "status at", "not RAM" } },
    { "qp/status-sending",
      status_gone_sending,
      0,
      CONNECTED,
      { QPN, "status at", "not RAM" } },
    { "qp/early",
      early_send,
      0,
      NO_EARLY,
      { QPN, "SQ producer index moved to 1", "before", "forbids" } },
    { "qp/sq-gone", sq_gone, 0, CONNECTED, { QPN, "SQ entry 0", "not RAM" } },
    { "qp/rq-gone", rq_gone, 1, CONNECTED, { QPN, "RQ entry 0", "not RAM" } },
    { "qp/sq-gone-flushing",
      sq_gone_flushing,
      0,
      CONNECTED,
      { QPN, "SQ entry 0", "not RAM", "not flushed" } },
    { "qp/rq-gone-flushing",
      rq_gone_flushing,
      0,
      CONNECTED,
      { QPN, "RQ entry 0", "not RAM", "not flushed" } },
    { "wqe/flag",
      wqe_flag,
      0,
      CONNECTED,
      { QPN, "SQ entry 0", "WRITE", "unknown flag" } },
    { "wqe/opcode",
      wqe_opcode,
      0,
      CONNECTED,
      { QPN, "SQ entry 0", "unknown opcode" } },
    { "wqe/inline-sges",
      wqe_inline_sges,
      0,
      CONNECTED,
      { QPN, "SQ entry 0", "SGEs beside inline" } },
    { "wqe/inline-long",
      wqe_inline_long,
      0,
      CONNECTED,
      { QPN, "SQ entry 0", "SEND", "inline data than the stride" } },
    { "wqe/inline-read",
      wqe_inline_read,
      0,
      CONNECTED,
      { QPN, "SQ entry 0", "READ", "inline data in a Read" } },
    { "wqe/inline-inv",
      wqe_inline_inv,
      0,
      CONNECTED,
      { QPN, "LOCAL_INV", "inline data" } },
    { "wqe/inline-reg",
      wqe_inline_reg,
      0,
      CONNECTED,
      { QPN, "REG_MR", "inline data" } },
    { "wqe/sges", wqe_sges, 0, CONNECTED, { QPN, "SQ entry 0", "more SGEs" } },
    { "wqe/long",
      wqe_long,
      0,
      CONNECTED,
      { QPN, "SQ entry 0", "MAX_MSG_SIZE" } },
    { "wqe/read-ord", wqe_read_ord, 0, IDLE, { QPN, "READ", "ORD is 0" } },
    { "wqe/reg-user",
      wqe_reg_user,
      0,
      IDLE,
      { "qpn 2", "REG_MR", "RNIC_QP_KERNEL" } },
    { "wqe/recv-sges",
      recv_sges,
      1,
      CONNECTED,
      { QPN, "RQ entry 0", "0x77", "more SGEs" } },
    { "sge/stag",
      sge_stag,
      0,
      CONNECTED,
      { QPN, "SQ entry 0", "SGE 0", "STag is unknown" } },
    { "sge/bounds",
      sge_bounds,
      0,
      CONNECTED,
      { QPN, "SGE 0", "outside", "131073" } },
    { "sge/wrap", sge_wrap, 0, CONNECTED, { QPN, "SGE 0", "wrap" } },
    { "sge/right",
      sge_right,
      0,
      CONNECTED,
      { QPN, "SGE 0", "does not grant" } },
    { "sge/pd", sge_pd, 0, CONNECTED, { QPN, "SGE 0", "protection domain" } },
    { "sge/not-ram",
      sge_not_ram,
      0,
      CONNECTED,
      { QPN, "SQ entry 0", "not RAM", "sent" } },
    { "sge/recv",
      recv_sge,
      1,
      CONNECTED,
      { QPN, "receive 0", "0x99", "outside" } },
    { "sge/recv-not-ram",
      recv_not_ram,
      1,
      CONNECTED,
      { QPN, "not RAM", "placed" } },
    { "sge/sink-not-ram",
      read_sink_not_ram,
      0,
      CONNECTED,
      { QPN, "not RAM", "placed" } },
    { "region/not-ram",
      region_not_ram,
      1,
      CONNECTED,
      { QPN, "not RAM", "placed", "TO 0x100000" } },
    { "region/source-not-ram",
      read_source_not_ram,
      1,
      CONNECTED,
      { QPN, "not RAM", "Read", "TO 0x100000" } },
    { "inv/stag",
      inv_stag,
      0,
      CONNECTED,
      { QPN, "SQ entry 0", "LOCAL_INV refused", "STag is unknown" } },
    { "inv/read-stag",
      read_inv_stag,
      0,
      CONNECTED,
      { QPN, "READ_INV", "cannot invalidate", "0x12345600" } },
    { "reg-mr/stag",
      reg_stag,
      0,
      CONNECTED,
      { QPN, "0x42", "REG_MR refused", "STag is unknown" } },
    { "qp/status-before-rts",
      status_gone_before_rts,
      0,
      IDLE,
      { QPN, "status at", "not RAM" } },
};

static void scene_init(struct scene *s, const struct row *row)
{
    struct pair_options options;

    memset(s, 0, sizeof(*s));
    pair_options_init(&options, RNIC_CRC_OFF);
    options.buf_len = BUF;
    if (row->start == NO_EARLY) {
        options.attr[0].flags |= RNIC_QP_ERROR_PRE_RTS;
    }
    pair_new(&s->pair, &options);
    if (row->start == SMALL_CQ) {
        th_qp_free(s->pair.qp[0]);
        s->pair.guest[0]->next_qpn = 0;
        options.attr[0].send_cq = th_cq_new(s->pair.guest[0], 4);
        options.attr[0].recv_cq = options.attr[0].send_cq;
        s->pair.qp[0] = th_qp_new(s->pair.guest[0], &options.attr[0]);
    } else if (row->start == SHARED) {
        th_qp_free(s->pair.qp[1]);
        s->srq = th_srq_new(s->pair.guest[1], 16, 0);
        options.attr[1].srq = s->srq;
        s->pair.qp[1] = th_qp_new(s->pair.guest[1], &options.attr[1]);
    }
    if (row->start != IDLE && row->start != NO_EARLY) {
        pair_connect(&s->pair, NULL);
    }
    s->guest = s->pair.guest[row->side];
    s->qp = s->pair.qp[row->side];
    s->cq = s->pair.qp[0]->attr.send_cq;
}

static void test_row(gconstpointer data)
{
    const struct row *row = data;
    struct scene s;
    uint64_t before;
    const char *text;
    unsigned i;

    scene_init(&s, row);
    before = th_stat(s.guest, RNIC_STAT_guest_errors);
    g_assert_cmpuint(s.guest->errors->len, ==, 0);
    row->provoke(&s);
    th_wait(s.guest->errors->len > 0);
    /* And again and again, if it were so */
    th_run_for(30);
    for (i = 0; i < s.guest->errors->len; i++) {
        g_test_message("%s", (char *)g_ptr_array_index(s.guest->errors, i));
    }
    g_assert_cmpuint(s.guest->errors->len, ==, 1);
    if (strncmp(row->name, "fatal", 5)) {
        /* A reset zeroes it */
        g_assert_cmpuint(th_stat(s.guest, RNIC_STAT_guest_errors), ==,
                         before + 1);
    }
    g_assert_cmpuint(s.pair.guest[!row->side]->errors->len, ==, 0);
    text = g_ptr_array_index(s.guest->errors, 0);
    for (i = 0; i < G_N_ELEMENTS(row->words) && row->words[i]; i++) {
        text = strstr(text, row->words[i]);
        g_assert_nonnull(text);
        text += strlen(row->words[i]);
    }
    pair_free(&s.pair);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *path =
            g_strdup_printf("/guest-errors/%s", rows[i].name);

        g_test_add_data_func(path, &rows[i], test_row);
    }
    return g_test_run();
}
