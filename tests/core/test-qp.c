/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The life of a QP: creation, what waits for RTS, the gate of a responder,
 * doorbells, and every way to end
 */
#include "pair.h"

#include <string.h>

/* ---- Creation ---- */

static void test_create_refuses_bad_fields(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_cq *cq = th_cq_new(guest, 16), *other;
    uint64_t memory = th_alloc(guest, 65536, 4096);
    struct rnic_asqe good = { .opcode = RNIC_CMD_CREATE_QP };
    struct rnic_cmd_create_qp *c = &good.create_qp;
    unsigned i;

    th_uctx_new(guest, 1);
    other = th_cq_new_on(guest, 16, 1, 1);
    c->qpn = GUINT32_TO_LE(5);
    c->pdn = GUINT32_TO_LE(TH_PD);
    c->send_cqn = c->recv_cqn = GUINT32_TO_LE(cq->cqn);
    c->sq_stride = c->rq_stride = GUINT16_TO_LE(64);
    c->sq_depth = c->rq_depth = GUINT32_TO_LE(16);
    c->rq_offset = GUINT32_TO_LE(1024);
    c->dbrec_offset = GUINT32_TO_LE(2048);
    c->buf.addr = GUINT64_TO_LE(memory);
    c->buf.length = GUINT64_TO_LE(4096);
    c->status_addr = GUINT64_TO_LE(memory + 8192);

    for (i = 0;; i++) {
        struct rnic_asqe cmd = good;
        unsigned want = RNIC_ADMIN_BAD_PARAM;

        c = &cmd.create_qp;
        switch (i) {
        case 0:
            c->qpn = 0;
            break;
        case 1:
            c->qpn = GUINT32_TO_LE(RNIC_MAX_QP);
            break;
        case 2:
            c->qpn = GUINT32_TO_LE(UINT32_MAX);
            break;
        case 3:
            c->pdn = 0;
            break;
        case 4:
            c->pdn = GUINT32_TO_LE(RNIC_MAX_PD);
            break;
        case 5:
            c->flags = GUINT32_TO_LE(1u << 31);
            break;
        case 6:
            c->sq_depth = GUINT32_TO_LE(3);
            break;
        case 7:
            c->sq_depth = GUINT32_TO_LE(65536);
            break;
        case 8:
            c->rq_depth = GUINT32_TO_LE(0x80000000);
            break;
        case 9:
            c->sq_stride = GUINT16_TO_LE(32);
            break;
        case 10:
            c->sq_stride = GUINT16_TO_LE(96);
            break;
        case 11:
            c->rq_stride = GUINT16_TO_LE(1024);
            break;
        case 12:
            c->sq_offset = GUINT32_TO_LE(32);
            break;
        case 13:
            c->sq_offset = GUINT32_TO_LE(4096 - 64);
            break;
        case 14:
            c->rq_offset = GUINT32_TO_LE(0xffffffc0);
            break;
        case 15:
            c->rq_offset = GUINT32_TO_LE(960);
            break;
        case 16:
            c->dbrec_offset = GUINT32_TO_LE(4096);
            break;
        case 17:
            c->dbrec_offset = GUINT32_TO_LE(0);
            break;
        case 18:
            c->status_addr = GUINT64_TO_LE(memory + 8200);
            break;
        case 19:
            c->status_addr = GUINT64_TO_LE(0x1000);
            want = RNIC_ADMIN_BAD_ADDRESS;
            break;
        case 20:
            c->send_cqn = GUINT32_TO_LE(77);
            want = RNIC_ADMIN_BAD_ID;
            break;
        case 21:
            c->recv_cqn = GUINT32_TO_LE(other->cqn);
            want = RNIC_ADMIN_BAD_ID;
            break;
        case 22:
            c->uctx = GUINT32_TO_LE(9);
            want = RNIC_ADMIN_BAD_ID;
            break;
        case 23:
            c->srqn = GUINT32_TO_LE(3);
            c->rq_depth = 0;
            want = RNIC_ADMIN_BAD_ID;
            break;
        case 24:
            c->uctx = GUINT32_TO_LE(1);
            c->send_cqn = c->recv_cqn = GUINT32_TO_LE(other->cqn);
            c->flags = GUINT32_TO_LE(RNIC_QP_KERNEL);
            break;
        default:
            want = RNIC_ADMIN_OK;
            break;
        }
        g_assert_cmpuint(th_admin(guest, &cmd, NULL), ==, want);
        if (want == RNIC_ADMIN_OK) {
            break;
        }
    }
    g_assert_cmpuint(th_admin(guest, &good, NULL), ==, RNIC_ADMIN_IN_USE);
    /* A CQ that is in use stays */
    g_assert_cmpuint(th_admin_id(guest, RNIC_CMD_DESTROY_CQ, cq->cqn), ==,
                     RNIC_ADMIN_IN_USE);
    g_assert_cmpuint(th_admin_id(guest, RNIC_CMD_DESTROY_QP, 5), ==,
                     RNIC_ADMIN_OK);
    g_assert_cmpuint(th_admin_id(guest, RNIC_CMD_DESTROY_QP, 5), ==,
                     RNIC_ADMIN_BAD_ID);
    th_cq_free(cq);
    th_guest_free(guest);
}

static void test_modify_of_states(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_qp *qp = th_qp_new(guest, NULL);

    g_assert_cmpuint(th_qp_state(qp), ==, RNIC_QPS_IDLE);
    g_assert_cmpuint(th_qp_modify(qp, RNIC_QPS_RTS), ==, RNIC_ADMIN_BAD_PARAM);
    g_assert_cmpuint(th_qp_modify(qp, 99), ==, RNIC_ADMIN_BAD_PARAM);
    g_assert_cmpuint(th_qp_modify(qp, RNIC_QPS_CLOSING), ==,
                     RNIC_ADMIN_BAD_STATE);
    g_assert_cmpuint(th_qp_modify(qp, RNIC_QPS_TERMINATE), ==,
                     RNIC_ADMIN_BAD_STATE);
    g_assert_cmpuint(th_qp_modify(qp, RNIC_QPS_ERROR), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(th_qp_state(qp), ==, RNIC_QPS_ERROR);
    g_assert_cmpuint(th_qp_modify(qp, RNIC_QPS_ERROR), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(th_qp_modify(qp, RNIC_QPS_CLOSING), ==,
                     RNIC_ADMIN_BAD_STATE);
    g_assert_cmpuint(th_events(guest), ==, 0);
    th_guest_free(guest);
}

/* ---- Before RTS ---- */

static void
test_posted_before_rts_goes_out_then_in_order_once(gconstpointer data)
{
    struct pair_options options;
    struct rnic_cqe cqe;
    struct pair p;
    unsigned i, side;

    pair_options_init(&options, pair_crc(data));
    pair_new(&p, &options);
    for (side = 0; side < 2; side++) {
        for (i = 0; i < 20; i++) {
            pair_post_recv(&p, side, 100 + i, i * 100, 100);
        }
        for (i = 0; i < 20; i++) {
            pair_post(&p, side, RNIC_WR_SEND, i, 50000, i, 0);
        }
    }
    th_run_for(30);
    for (side = 0; side < 2; side++) {
        pair_no_completions(&p, side);
        g_assert_cmpuint(p.guest[side]->trace_count[RNIC_TRACE_wqe], ==, 0);
    }
    pair_connect(&p, NULL);
    for (side = 0; side < 2; side++) {
        for (i = 0; i < 20; i++) {
            pair_wait_send(&p, side, i, RNIC_WC_SUCCESS, NULL);
            pair_wait_recv(&p, side, 100 + i, RNIC_WC_SUCCESS, &cqe);
            g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, i);
        }
        pair_no_completions(&p, side);
    }
    pair_free(&p);
}

static void test_posted_before_a_failed_setup_is_flushed(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_qp *qp = th_qp_new(guest, NULL);
    struct rnic_sockaddr local = th_sockaddr("10.0.0.1", 0);
    struct rnic_sockaddr remote = th_sockaddr("10.0.0.9", 4711);
    struct th_wr wr = { .opcode = RNIC_WR_SEND, .wr_id = 1 };
    struct rnic_sge none = { 0 };
    struct rnic_aeqe event;
    struct rnic_cqe cqe;

    th_addr_add(guest, "10.0.0.1");
    th_post_send(qp, &wr, 1);
    th_post_recv(qp, 2, &none, 1);
    g_assert_cmpuint(th_connect(qp, &local, &remote, NULL), ==, RNIC_ADMIN_OK);
    th_event_wait(guest, RNIC_EV_CONNECT_REPLY, qp->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), !=, RNIC_CM_OK);
    g_assert_cmpuint(th_qp_state(qp), ==, RNIC_QPS_ERROR);
    th_cq_wait(qp->attr.send_cq, &cqe);
    g_assert_cmpuint(cqe.status, ==, RNIC_WC_WR_FLUSH_ERR);
    th_cq_wait(qp->attr.recv_cq, &cqe);
    g_assert_cmpuint(cqe.status, ==, RNIC_WC_WR_FLUSH_ERR);
    th_guest_free(guest);
}

/* ---- The gate ---- */

static void test_responder_waits_for_the_first_fpdu(gconstpointer data)
{
    struct pair_options options;
    struct pair p;

    pair_options_init(&options, pair_crc(data));
    options.no_p2p = true;
    pair_new(&p, &options);
    pair_post_recv(&p, 0, 8, 0, 100);
    pair_post_recv(&p, 1, 9, 0, 100);
    pair_connect(&p, NULL);
    g_assert_true(th_qp_gated(p.qp[1]));
    g_assert_false(th_qp_gated(p.qp[0]));
    pair_post(&p, 1, RNIC_WR_SEND, 1, 0, 10, 0);
    th_run_for(50);
    pair_no_completions(&p, 1);
    g_assert_cmpuint(th_stat(p.guest[1], RNIC_STAT_tx_fpdus), ==, 0);
    g_assert_cmpuint(th_stat(p.guest[1], RNIC_STAT_gated), ==, 1);
    g_assert_cmpuint(p.guest[1]->trace_count[RNIC_TRACE_qp_gated], ==, 1);
    /* Any FPDU of the initiator opens it */
    pair_post(&p, 0, RNIC_WR_SEND, 2, 0, 10, 0);
    pair_wait_send(&p, 1, 1, RNIC_WC_SUCCESS, NULL);
    pair_wait_recv(&p, 1, 9, RNIC_WC_SUCCESS, NULL);
    pair_wait_recv(&p, 0, 8, RNIC_WC_SUCCESS, NULL);
    g_assert_false(th_qp_gated(p.qp[1]));
    pair_free(&p);
}

static void test_gate_off_lets_a_server_speak_first(void)
{
    struct pair_options options;
    struct pair p;

    pair_options_init(&options, RNIC_CRC_OFF);
    options.no_p2p = true;
    options.no_gate = true;
    pair_new(&p, &options);
    pair_post_recv(&p, 0, 8, 0, 100);
    pair_connect(&p, NULL);
    g_assert_false(th_qp_gated(p.qp[1]));
    pair_post(&p, 1, RNIC_WR_SEND, 1, 0, 10, 0);
    pair_wait_recv(&p, 0, 8, RNIC_WC_SUCCESS, NULL);
    g_assert_cmpuint(th_stat(p.guest[1], RNIC_STAT_gated), ==, 0);
    pair_free(&p);
}

static void test_peer_to_peer_opens_the_gate(void)
{
    struct pair p;

    pair_start(&p, RNIC_CRC_OFF);
    g_assert_false(th_qp_gated(p.qp[1]));
    pair_post_recv(&p, 0, 8, 0, 100);
    pair_post(&p, 1, RNIC_WR_SEND, 1, 0, 10, 0);
    pair_wait_recv(&p, 0, 8, RNIC_WC_SUCCESS, NULL);
    /* The ready-to-receive message completes nothing */
    pair_wait_send(&p, 1, 1, RNIC_WC_SUCCESS, NULL);
    pair_no_completions(&p, 0);
    pair_no_completions(&p, 1);
    pair_free(&p);
}

static void test_gated_responder_can_end(gconstpointer data)
{
    struct pair_options options;
    struct pair p;

    pair_options_init(&options, RNIC_CRC_OFF);
    options.no_p2p = true;
    pair_new(&p, &options);
    pair_connect(&p, NULL);
    g_assert_cmpuint(th_qp_modify(p.qp[1], GPOINTER_TO_INT(data)), ==,
                     RNIC_ADMIN_OK);
    pair_wait_error(&p);
    /* Not even a Terminate may be sent before the initiator's first FPDU */
    g_assert_cmpuint(th_stat(p.guest[1], RNIC_STAT_term_sent), ==, 0);
    pair_free(&p);
}

/* ---- Doorbells ---- */

static void test_no_doorbell_while_the_device_is_busy(void)
{
    struct pair p;
    unsigned i, rings;

    pair_start(&p, RNIC_CRC_OFF);
    rings = p.guest[0]->rings;
    /* The device does not look until it runs: one doorbell is enough */
    for (i = 0; i < 64; i++) {
        pair_post(&p, 0, RNIC_WR_WRITE, i, 0, 1000, 0);
    }
    g_assert_cmpuint(p.guest[0]->rings - rings, ==, 1);
    for (i = 0; i < 64; i++) {
        pair_wait_send(&p, 0, i, RNIC_WC_SUCCESS, NULL);
    }
    /* It is idle again: it wants one */
    th_run_for(5);
    pair_post(&p, 0, RNIC_WR_WRITE, 64, 0, 1000, 0);
    g_assert_cmpuint(p.guest[0]->rings - rings, ==, 2);
    pair_wait_send(&p, 0, 64, RNIC_WC_SUCCESS, NULL);
    pair_free(&p);
}

/* The engine on a thread of its own: no post may be overlooked */
static void test_posts_race_with_the_engine(gconstpointer data)
{
    struct pair p;
    unsigned i;

    pair_start(&p, pair_crc(data));
    th_engine_start(p.guest[0]);
    th_engine_start(p.guest[1]);
    for (i = 0; i < 20000; i++) {
        struct th_wr wr = {
            .opcode = RNIC_WR_WRITE,
            .flags = RNIC_WQE_SIGNALED,
            .wr_id = i,
            .sge = { pair_sge(&p, 0, 0, i % 100) },
            .num_sge = 1,
            .remote_stag = p.stag[1],
            .remote_to = PAIR_IOVA,
        };
        struct rnic_cqe cqe;
        uint64_t end = th_now_ms() + 10000;

        th_post_send(p.qp[0], &wr, 1);
        while (!th_cq_poll(p.qp[0]->attr.send_cq, &cqe)) {
            g_assert_cmpuint(th_now_ms(), <, end);
        }
        g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
        g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, i);
    }
    th_engine_stop(p.guest[0]);
    th_engine_stop(p.guest[1]);
    pair_free(&p);
}

/* ---- Flushing ---- */

static void post_many(struct pair *p, unsigned side, unsigned from,
                      unsigned count)
{
    struct rnic_sge none = { 0 };
    unsigned i;

    for (i = from; i < from + count; i++) {
        struct th_wr wr = {
            .opcode = i % 2 ? RNIC_WR_WRITE : RNIC_WR_SEND,
            .flags = i % 3 ? RNIC_WQE_SIGNALED : 0,
            .wr_id = 1000 + i,
        };

        th_post_send(p->qp[side], &wr, 1);
        th_post_recv(p->qp[side], 2000 + i, &none, 1);
    }
}

static void check_flushed(struct pair *p, unsigned side, unsigned from,
                          unsigned count)
{
    struct rnic_cqe cqe;
    unsigned i;

    for (i = from; i < from + count; i++) {
        pair_wait_send(p, side, 1000 + i, RNIC_WC_WR_FLUSH_ERR, &cqe);
        g_assert_cmpuint(cqe.opcode, ==, i % 2 ? RNIC_WR_WRITE : RNIC_WR_SEND);
        g_assert_cmpuint(GUINT16_FROM_LE(cqe.wqe_index), ==, i);
        pair_wait_recv(p, side, 2000 + i, RNIC_WC_WR_FLUSH_ERR, &cqe);
        g_assert_cmpuint(cqe.opcode, ==, RNIC_WR_RECV);
    }
    th_run_for(10);
    pair_no_completions(p, side);
}

static void test_flush_each_once_in_order(gconstpointer data)
{
    struct pair_options options;
    struct pair p;

    pair_options_init(&options, pair_crc(data));
    pair_new(&p, &options);
    /* Posted before RTS, and nothing of it can have begun */
    post_many(&p, 0, 0, 64);
    g_assert_cmpuint(th_qp_modify(p.qp[0], RNIC_QPS_ERROR), ==, RNIC_ADMIN_OK);
    check_flushed(&p, 0, 0, 64);
    /* What is posted later is flushed, too */
    post_many(&p, 0, 64, 10);
    check_flushed(&p, 0, 64, 10);
    g_assert_cmpuint(th_stat(p.guest[0], RNIC_STAT_flushed), ==, 148);
    pair_free(&p);
}

static void test_flush_of_a_connected_qp(gconstpointer data)
{
    struct pair p;
    struct rnic_cqe cqe;
    unsigned i, flushed = 0;

    pair_start(&p, pair_crc(data));
    pair_post_recv(&p, 1, 9, 0, 4 << 20);
    /* A long one that cannot be sent at once, as the peer does not read, then
     * many that wait; a Read among them */
    pair_post(&p, 0, RNIC_WR_SEND, 0, 0, 4 << 20, 0);
    pair_post(&p, 0, RNIC_WR_READ, 1, 0, 4096, 0);
    for (i = 2; i < 60; i++) {
        pair_post(&p, 0, RNIC_WR_WRITE, i, 0, 4096, 0);
    }
    pair_run_only(&p, 0);
    g_assert_cmpuint(th_qp_modify(p.qp[0], RNIC_QPS_ERROR), ==, RNIC_ADMIN_OK);
    for (i = 0; i < 60; i++) {
        th_cq_wait(p.qp[0]->attr.send_cq, &cqe);
        g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, i);
        flushed += cqe.status == RNIC_WC_WR_FLUSH_ERR;
    }
    g_assert_cmpuint(flushed, >=, 59);
    pair_wait_error(&p);
    pair_no_completions(&p, 0);
    pair_wait_recv(&p, 1, 9, RNIC_WC_WR_FLUSH_ERR, NULL);
    pair_free(&p);
}

/* ---- Ends ---- */

static void test_graceful_close(gconstpointer data)
{
    struct rnic_aeqe event;
    struct pair p;
    unsigned i;

    pair_start(&p, pair_crc(data));
    /* All that is posted before is still done */
    for (i = 0; i < 30; i++) {
        pair_post_recv(&p, 1, i, 0, 100000);
        pair_post(&p, 0, RNIC_WR_SEND, i, 0, 100000, 0);
    }
    pair_post(&p, 0, RNIC_WR_READ, 30, 0, 1 << 20, 0);
    pair_post_recv(&p, 0, 31, 0, 1);
    g_assert_cmpuint(th_qp_modify(p.qp[0], RNIC_QPS_CLOSING), ==,
                     RNIC_ADMIN_OK);
    for (i = 0; i < 30; i++) {
        pair_wait_send(&p, 0, i, RNIC_WC_SUCCESS, NULL);
        pair_wait_recv(&p, 1, i, RNIC_WC_SUCCESS, NULL);
    }
    pair_wait_send(&p, 0, 30, RNIC_WC_SUCCESS, NULL);
    pair_wait_recv(&p, 0, 31, RNIC_WC_WR_FLUSH_ERR, NULL);
    th_event_wait(p.guest[0], RNIC_EV_SQ_DRAINED, p.qp[0]->qpn, NULL);
    th_event_wait(p.guest[1], RNIC_EV_DISCONNECT, p.qp[1]->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
    pair_wait_error(&p);
    g_assert_cmpuint(th_events(p.guest[0]), ==, 0);
    g_assert_cmpuint(th_events(p.guest[1]), ==, 0);
    for (i = 0; i < 2; i++) {
        g_assert_cmpuint(th_stat(p.guest[i], RNIC_STAT_term_sent), ==, 0);
    }
    pair_free(&p);
}

static void test_both_close_at_once(gconstpointer data)
{
    struct pair p;
    unsigned i;

    pair_start(&p, pair_crc(data));
    for (i = 0; i < 2; i++) {
        struct rnic_asqe cmd = { .opcode = RNIC_CMD_MODIFY_QP };

        cmd.modify_qp.qpn = GUINT32_TO_LE(p.qp[i]->qpn);
        cmd.modify_qp.state = GUINT32_TO_LE(RNIC_QPS_CLOSING);
        th_admin_submit(p.guest[i], &cmd);
    }
    pair_run_only(&p, 0);
    pair_run_only(&p, 1);
    pair_wait_error(&p);
    th_run_for(10);
    /* DISCONNECT perhaps; not a second CLOSE */
    g_assert_false(th_event_take(p.guest[0], RNIC_EV_CLOSE, TH_ANY_ID, NULL));
    g_assert_false(th_event_take(p.guest[1], RNIC_EV_CLOSE, TH_ANY_ID, NULL));
    pair_free(&p);
}

static void test_closing_does_not_take_for_ever(void)
{
    struct pair p;

    pair_start(&p, RNIC_CRC_OFF);
    pair_post(&p, 0, RNIC_WR_WRITE, 1, 0, 4 << 20, 0);
    /* The peer's device stands still */
    rnic_device_quiesce(p.guest[1]->dev);
    g_assert_cmpuint(th_qp_modify(p.qp[0], RNIC_QPS_CLOSING), ==,
                     RNIC_ADMIN_OK);
    g_assert_cmpuint(th_qp_state(p.qp[0]), ==, RNIC_QPS_CLOSING);
    th_event_wait(p.guest[0], RNIC_EV_CLOSE, p.qp[0]->qpn, NULL);
    g_assert_cmpuint(th_qp_state(p.qp[0]), ==, RNIC_QPS_ERROR);
    pair_wait_send(&p, 0, 1, RNIC_WC_WR_FLUSH_ERR, NULL);
    rnic_device_resume(p.guest[1]->dev);
    th_event_wait(p.guest[1], RNIC_EV_CLOSE, p.qp[1]->qpn, NULL);
    pair_free(&p);
}

static void test_modify_to_terminate(gconstpointer data)
{
    struct rnic_aeqe event;
    struct pair p;

    pair_start(&p, pair_crc(data));
    pair_post_recv(&p, 0, 1, 0, 1);
    pair_post_recv(&p, 1, 2, 0, 1);
    g_assert_cmpuint(th_qp_modify(p.qp[0], RNIC_QPS_TERMINATE), ==,
                     RNIC_ADMIN_OK);
    th_event_wait(p.guest[1], RNIC_EV_QP_FATAL, p.qp[1]->qpn, &event);
    g_assert_cmphex(GUINT32_FROM_LE(event.term), ==,
                    RNIC_TERM_VALID | RNIC_TERM_REMOTE | 0xff);
    pair_wait_error(&p);
    pair_wait_recv(&p, 0, 1, RNIC_WC_WR_FLUSH_ERR, NULL);
    pair_wait_recv(&p, 1, 2, RNIC_WC_WR_FLUSH_ERR, NULL);
    g_assert_cmpuint(th_stat(p.guest[0], RNIC_STAT_term_sent), ==, 1);
    g_assert_cmpuint(th_stat(p.guest[1], RNIC_STAT_term_sent), ==, 0);
    pair_free(&p);
}

/* The peer does not read, so a Terminate cannot go out */
static void test_terminate_that_tcp_does_not_take(gconstpointer data)
{
    struct pair p;

    pair_start(&p, pair_crc(data));
    pair_post(&p, 0, RNIC_WR_WRITE, 1, 0, 4 << 20, 0);
    pair_post(&p, 0, RNIC_WR_WRITE, 2, 0, 4 << 20, 0);
    pair_run_only(&p, 0);
    rnic_device_quiesce(p.guest[1]->dev);
    g_assert_cmpuint(th_qp_modify(p.qp[0], RNIC_QPS_TERMINATE), ==,
                     RNIC_ADMIN_OK);
    th_event_wait(p.guest[0], RNIC_EV_CLOSE, p.qp[0]->qpn, NULL);
    g_assert_cmpuint(th_qp_state(p.qp[0]), ==, RNIC_QPS_ERROR);
    rnic_device_resume(p.guest[1]->dev);
    th_event_wait(p.guest[1], RNIC_EV_CLOSE, p.qp[1]->qpn, NULL);
    pair_free(&p);
}

static void test_abrupt_end_is_a_fin_between_messages(gconstpointer data)
{
    struct rnic_aeqe event;
    struct pair p;

    pair_start(&p, pair_crc(data));
    g_assert_cmpuint(th_qp_modify(p.qp[1], RNIC_QPS_ERROR), ==, RNIC_ADMIN_OK);
    th_event_wait(p.guest[0], RNIC_EV_DISCONNECT, p.qp[0]->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
    pair_wait_error(&p);
    g_assert_cmpuint(th_events(p.guest[1]), ==, 0);
    pair_free(&p);
}

static void test_destroy_is_silent(gconstpointer data)
{
    struct pair p;
    struct rnic_cqe cqe;

    pair_start(&p, pair_crc(data));
    pair_post_recv(&p, 0, 1, 0, 1);
    pair_post(&p, 0, RNIC_WR_WRITE, 2, 0, 4 << 20, 0);
    pair_run_only(&p, 0);
    g_assert_cmpuint(th_admin_id(p.guest[0], RNIC_CMD_DESTROY_QP, p.qp[0]->qpn),
                     ==, RNIC_ADMIN_OK);
    th_event_wait(p.guest[1], RNIC_EV_CLOSE, p.qp[1]->qpn, NULL);
    th_run_for(10);
    g_assert_cmpuint(th_events(p.guest[0]), ==, 0);
    g_assert_false(th_cq_poll(p.qp[0]->attr.recv_cq, &cqe));
    g_assert_false(th_cq_poll(p.qp[0]->attr.send_cq, &cqe));
    pair_free(&p);
}

static void test_reset_in_full_flight(gconstpointer data)
{
    struct pair p;
    unsigned i;

    pair_start(&p, pair_crc(data));
    for (i = 0; i < 20; i++) {
        pair_post(&p, 0, RNIC_WR_WRITE, i, 0, 1 << 20, 0);
        pair_post(&p, 1, RNIC_WR_READ, i, 0, 1 << 20, 0);
    }
    for (i = 0; i < 10; i++) {
        th_step(0);
    }
    th_reset(p.guest[0]);
    th_event_wait(p.guest[1], RNIC_EV_CLOSE, p.qp[1]->qpn, NULL);
    pair_free(&p);
}

static void test_quiesced_device_touches_nothing(gconstpointer data)
{
    struct pair p;
    unsigned i;

    pair_start(&p, pair_crc(data));
    memset(p.buf[1].ptr, 0, 1 << 20);
    th_fill(p.buf[0].ptr, 1 << 20, 5);
    rnic_device_quiesce(p.guest[1]->dev);
    pair_post(&p, 0, RNIC_WR_WRITE, 1, 0, 1 << 20, 0);
    th_run_for(50);
    for (i = 0; i < 1 << 20; i++) {
        g_assert_cmpuint(p.buf[1].ptr[i], ==, 0);
    }
    rnic_device_resume(p.guest[1]->dev);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    th_wait(memcmp(p.buf[0].ptr, p.buf[1].ptr, 1 << 20) == 0);
    pair_free(&p);
}

/* One that sends for ever does not starve another */
static void test_qps_share_the_engine(gconstpointer data)
{
    struct pair_options options;
    struct th_qp *other[2];
    struct rnic_cqe cqe;
    struct pair p;
    unsigned i;

    pair_options_init(&options, pair_crc(data));
    options.buf_len = 16 << 20;
    pair_new(&p, &options);
    pair_connect(&p, NULL);
    for (i = 0; i < 2; i++) {
        other[i] = th_qp_new(p.guest[i], &options.attr[i]);
    }
    th_connect_pair(other[0], "10.0.0.1", other[1], "10.0.0.2", NULL);
    for (i = 0; i < 40; i++) {
        pair_post(&p, 0, RNIC_WR_WRITE, i, 0, 16 << 20, 0);
    }
    for (i = 0; i < 100; i++) {
        struct th_wr wr = {
            .opcode = RNIC_WR_WRITE,
            .flags = RNIC_WQE_SIGNALED,
            .wr_id = i,
        };

        th_post_send(other[0], &wr, 1);
        th_cq_wait(other[0]->attr.send_cq, &cqe);
    }
    /* 100 of the small ones are done, and most of the large ones are not */
    pair_wait_send(&p, 0, 0, RNIC_WC_SUCCESS, NULL);
    i = 1;
    while (th_cq_poll(p.qp[0]->attr.send_cq, &cqe)) {
        i++;
    }
    g_assert_cmpuint(i, <, 40);
    pair_free(&p);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/qp/create-refuses-bad-fields",
                    test_create_refuses_bad_fields);
    g_test_add_func("/qp/modify-of-states", test_modify_of_states);
    pair_add("/qp", "posted-before-rts",
             test_posted_before_rts_goes_out_then_in_order_once);
    g_test_add_func("/qp/posted-before-a-failed-setup",
                    test_posted_before_a_failed_setup_is_flushed);
    pair_add("/qp", "responder-waits-for-the-first-fpdu",
             test_responder_waits_for_the_first_fpdu);
    g_test_add_func("/qp/gate-off", test_gate_off_lets_a_server_speak_first);
    g_test_add_func("/qp/peer-to-peer-opens-the-gate",
                    test_peer_to_peer_opens_the_gate);
    g_test_add_data_func("/qp/gated-closing", GINT_TO_POINTER(RNIC_QPS_CLOSING),
                         test_gated_responder_can_end);
    g_test_add_data_func("/qp/gated-terminate",
                         GINT_TO_POINTER(RNIC_QPS_TERMINATE),
                         test_gated_responder_can_end);
    g_test_add_data_func("/qp/gated-error", GINT_TO_POINTER(RNIC_QPS_ERROR),
                         test_gated_responder_can_end);
    g_test_add_func("/qp/no-doorbell-while-busy",
                    test_no_doorbell_while_the_device_is_busy);
    pair_add("/qp", "posts-race-with-the-engine",
             test_posts_race_with_the_engine);
    pair_add("/qp", "flush-each-once-in-order", test_flush_each_once_in_order);
    pair_add("/qp", "flush-of-a-connected-qp", test_flush_of_a_connected_qp);
    pair_add("/qp", "graceful-close", test_graceful_close);
    pair_add("/qp", "both-close-at-once", test_both_close_at_once);
    g_test_add_func("/qp/closing-does-not-take-for-ever",
                    test_closing_does_not_take_for_ever);
    pair_add("/qp", "modify-to-terminate", test_modify_to_terminate);
    pair_add("/qp", "terminate-that-tcp-does-not-take",
             test_terminate_that_tcp_does_not_take);
    pair_add("/qp", "abrupt-end", test_abrupt_end_is_a_fin_between_messages);
    pair_add("/qp", "destroy-is-silent", test_destroy_is_silent);
    pair_add("/qp", "reset-in-full-flight", test_reset_in_full_flight);
    pair_add("/qp", "quiesced-device-touches-nothing",
             test_quiesced_device_touches_nothing);
    pair_add("/qp", "qps-share-the-engine", test_qps_share_the_engine);
    return g_test_run();
}
