/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completion and work queues, used as a provider does
 */
#include <string.h>
#include "harness.h"

static void publish(uint32_t *index, uint32_t value)
{
    __atomic_store_n(index, GUINT32_TO_LE(value), __ATOMIC_RELEASE);
}

/* ---- Completion queues ---- */

struct th_cq *th_cq_new_on(struct th_guest *guest, uint32_t depth, uint32_t eqn,
                           uint32_t uctx)
{
    struct th_cq *cq = g_new0(struct th_cq, 1);
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_CREATE_CQ };
    size_t entries = MAX(64, depth * sizeof(struct rnic_cqe));

    g_ptr_array_add(guest->objects, cq);
    cq->guest = guest;
    cq->cqn = ++guest->next_cqn;
    cq->depth = depth;
    cq->addr = th_alloc(guest, entries + sizeof(struct rnic_cq_dbrec), 64);
    cq->dbrec = cq->addr + entries;
    cmd.create_cq.cqn = GUINT32_TO_LE(cq->cqn);
    cmd.create_cq.eqn = GUINT32_TO_LE(eqn);
    cmd.create_cq.uctx = GUINT32_TO_LE(uctx);
    cmd.create_cq.depth = GUINT32_TO_LE(depth);
    cmd.create_cq.dbrec_offset = GUINT32_TO_LE(entries);
    cmd.create_cq.buf.addr = GUINT64_TO_LE(cq->addr);
    cmd.create_cq.buf.length =
        GUINT64_TO_LE(entries + sizeof(struct rnic_cq_dbrec));
    g_assert_cmpuint(th_admin(guest, &cmd, NULL), ==, RNIC_ADMIN_OK);
    return cq;
}

struct th_cq *th_cq_new(struct th_guest *guest, uint32_t depth)
{
    return th_cq_new_on(guest, depth, guest->ceq.eqn, 0);
}

void th_cq_free(struct th_cq *cq)
{
    g_assert_cmpuint(th_admin_id(cq->guest, RNIC_CMD_DESTROY_CQ, cq->cqn), ==,
                     RNIC_ADMIN_OK);
}

/* The next entry if the consumer owns it */
static struct rnic_cqe *cq_peek(struct th_cq *cq)
{
    struct rnic_cqe *cqe =
        (struct rnic_cqe *)th_ptr(cq->guest, cq->addr) + cq->ci % cq->depth;
    uint32_t last =
        __atomic_load_n((uint32_t *)(cqe + 1) - 1, __ATOMIC_ACQUIRE);
    uint32_t phase = GUINT32_FROM_LE(last) >> 24 & 1;

    return phase != ((cq->ci / cq->depth) & 1) ? cqe : NULL;
}

bool th_cq_poll(struct th_cq *cq, struct rnic_cqe *cqe)
{
    struct rnic_cq_dbrec *dbrec = th_ptr(cq->guest, cq->dbrec);
    struct rnic_cqe *next = cq_peek(cq);

    if (!next) {
        return false;
    }
    *cqe = *next;
    publish(&dbrec->ci, ++cq->ci);
    return true;
}

void th_cq_wait(struct th_cq *cq, struct rnic_cqe *cqe)
{
    th_wait(th_cq_poll(cq, cqe));
}

bool th_cq_arm(struct th_cq *cq, uint32_t kind)
{
    struct rnic_cq_dbrec *dbrec = th_ptr(cq->guest, cq->dbrec);

    publish(&dbrec->ci, cq->ci);
    publish(&dbrec->arm, ++cq->arm_sequence << 2 | kind);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return cq_peek(cq) != NULL;
}

/* ---- Shared receive queues ---- */

static void write_recv(struct th_guest *guest, uint64_t at, uint32_t stride,
                       uint64_t wr_id, const struct rnic_sge *sge,
                       unsigned num_sge)
{
    struct rnic_rq_wqe *wqe = th_ptr(guest, at);

    memset(wqe, 0, sizeof(*wqe));
    wqe->num_sge = num_sge;
    wqe->wr_id = GUINT64_TO_LE(wr_id);
    memcpy(wqe->sge, sge,
           MIN(num_sge, RNIC_RQ_STRIDE_SGES(stride)) * sizeof(*sge));
}

struct th_srq *th_srq_new(struct th_guest *guest, uint32_t depth,
                          uint32_t limit)
{
    struct th_srq *srq = g_new0(struct th_srq, 1);
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_CREATE_SRQ };
    uint32_t entries;

    g_ptr_array_add(guest->objects, srq);
    srq->guest = guest;
    srq->srqn = ++guest->next_srqn;
    srq->depth = depth;
    srq->stride = 128;
    entries = depth * srq->stride;
    srq->addr = th_alloc(guest, entries + sizeof(struct rnic_qp_dbrec), 64);
    srq->dbrec = srq->addr + entries;
    cmd.create_srq.srqn = GUINT32_TO_LE(srq->srqn);
    cmd.create_srq.pdn = GUINT32_TO_LE(TH_PD);
    cmd.create_srq.depth = GUINT32_TO_LE(depth);
    cmd.create_srq.stride = GUINT32_TO_LE(srq->stride);
    cmd.create_srq.dbrec_offset = GUINT32_TO_LE(entries);
    cmd.create_srq.limit = GUINT32_TO_LE(limit);
    cmd.create_srq.buf.addr = GUINT64_TO_LE(srq->addr);
    cmd.create_srq.buf.length =
        GUINT64_TO_LE(entries + sizeof(struct rnic_qp_dbrec));
    g_assert_cmpuint(th_admin(guest, &cmd, NULL), ==, RNIC_ADMIN_OK);
    return srq;
}

void th_srq_free(struct th_srq *srq)
{
    g_assert_cmpuint(th_admin_id(srq->guest, RNIC_CMD_DESTROY_SRQ, srq->srqn),
                     ==, RNIC_ADMIN_OK);
}

void th_srq_post(struct th_srq *srq, uint64_t wr_id, const struct rnic_sge *sge,
                 unsigned num_sge)
{
    struct rnic_qp_dbrec *dbrec = th_ptr(srq->guest, srq->dbrec);

    write_recv(srq->guest, srq->addr + srq->pi % srq->depth * srq->stride,
               srq->stride, wr_id, sge, num_sge);
    publish(&dbrec->rq_pi, ++srq->pi);
}

/* ---- Queue pairs ---- */

void th_qp_attr_init(struct th_qp_attr *attr)
{
    *attr = (struct th_qp_attr){
        .pdn = TH_PD,
        .sq_depth = 64,
        .rq_depth = 64,
        .sq_stride = 256,
        .rq_stride = 128,
    };
}

struct th_qp *th_qp_new(struct th_guest *guest, const struct th_qp_attr *attr)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_CREATE_QP };
    struct rnic_cmd_create_qp *create = &cmd.create_qp;
    struct th_qp *qp = g_new0(struct th_qp, 1);
    uint32_t sq_size, rq_size, length;

    g_ptr_array_add(guest->objects, qp);
    qp->guest = guest;
    qp->qpn = ++guest->next_qpn;
    if (attr) {
        qp->attr = *attr;
    } else {
        th_qp_attr_init(&qp->attr);
    }
    if (!qp->attr.send_cq && !qp->attr.recv_cq) {
        qp->attr.send_cq =
            th_cq_new_on(guest, 256, guest->ceq.eqn, qp->attr.uctx);
        qp->attr.recv_cq =
            th_cq_new_on(guest, 256, guest->ceq.eqn, qp->attr.uctx);
        qp->own_cqs = true;
    }
    if (qp->attr.srq) {
        qp->attr.rq_depth = 0;
    }
    sq_size = qp->attr.sq_depth * qp->attr.sq_stride;
    rq_size = qp->attr.rq_depth * qp->attr.rq_stride;
    length = sq_size + rq_size + sizeof(struct rnic_qp_dbrec);
    qp->sq = th_alloc(guest, length, 64);
    qp->rq = qp->sq + sq_size;
    qp->dbrec = qp->rq + rq_size;
    qp->status = th_alloc(guest, sizeof(struct rnic_qp_status), 16);

    create->qpn = GUINT32_TO_LE(qp->qpn);
    create->pdn = GUINT32_TO_LE(qp->attr.pdn);
    create->uctx = GUINT32_TO_LE(qp->attr.uctx);
    create->send_cqn = GUINT32_TO_LE(qp->attr.send_cq->cqn);
    create->recv_cqn = GUINT32_TO_LE(qp->attr.recv_cq->cqn);
    create->srqn = GUINT32_TO_LE(qp->attr.srq ? qp->attr.srq->srqn : 0);
    create->flags = GUINT32_TO_LE(qp->attr.flags);
    create->sq_stride = GUINT16_TO_LE(qp->attr.sq_stride);
    create->rq_stride = GUINT16_TO_LE(qp->attr.rq_stride);
    create->sq_depth = GUINT32_TO_LE(qp->attr.sq_depth);
    create->rq_depth = GUINT32_TO_LE(qp->attr.rq_depth);
    create->sq_offset = 0;
    create->rq_offset = GUINT32_TO_LE(qp->attr.rq_depth ? sq_size : 0);
    create->dbrec_offset = GUINT32_TO_LE(sq_size + rq_size);
    create->buf.addr = GUINT64_TO_LE(qp->sq);
    create->buf.length = GUINT64_TO_LE(length);
    create->status_addr = GUINT64_TO_LE(qp->status);
    g_assert_cmpuint(th_admin(guest, &cmd, NULL), ==, RNIC_ADMIN_OK);
    return qp;
}

void th_qp_free(struct th_qp *qp)
{
    g_assert_cmpuint(th_admin_id(qp->guest, RNIC_CMD_DESTROY_QP, qp->qpn), ==,
                     RNIC_ADMIN_OK);
    if (qp->own_cqs) {
        th_cq_free(qp->attr.send_cq);
        th_cq_free(qp->attr.recv_cq);
    }
}

static uint32_t status_word(struct th_qp *qp, size_t offset)
{
    uint32_t *word = th_ptr(qp->guest, qp->status + offset);

    return GUINT32_FROM_LE(__atomic_load_n(word, __ATOMIC_ACQUIRE));
}

enum rnic_qp_state th_qp_state(struct th_qp *qp)
{
    return status_word(qp, offsetof(struct rnic_qp_status, state));
}

bool th_qp_gated(struct th_qp *qp)
{
    return status_word(qp, offsetof(struct rnic_qp_status, gated));
}

unsigned th_qp_modify(struct th_qp *qp, enum rnic_qp_state state)
{
    struct rnic_asqe cmd = {
        .opcode = RNIC_CMD_MODIFY_QP,
        .modify_qp = { GUINT32_TO_LE(qp->qpn), GUINT32_TO_LE(state) },
    };

    return th_admin(qp->guest, &cmd, NULL);
}

/* What an atomic has behind its sink */
static void write_atomic(struct th_qp *qp, const struct th_wr *wr,
                         struct rnic_atomic_wqe *wqe)
{
    switch (wr->opcode) {
    case RNIC_WR_FETCH_ADD:
        wqe->data = GUINT64_TO_LE(wr->data);
        wqe->add_mask = GUINT64_TO_LE(wr->mask);
        break;
    case RNIC_WR_CMP_SWAP_MASKED:
        if (qp->attr.sq_stride >= sizeof(*wqe)) {
            wqe->swap_mask = GUINT64_TO_LE(wr->mask);
            wqe->compare_mask = GUINT64_TO_LE(wr->compare_mask);
        }
        /* fall through */
    case RNIC_WR_CMP_SWAP:
        wqe->data = GUINT64_TO_LE(wr->data);
        wqe->compare = GUINT64_TO_LE(wr->compare);
        break;
    default:
        break;
    }
}

static void write_send(struct th_qp *qp, const struct th_wr *wr)
{
    uint64_t at = qp->sq + qp->sq_pi % qp->attr.sq_depth * qp->attr.sq_stride;
    struct rnic_sq_wqe *wqe = th_ptr(qp->guest, at);

    if (wr->opcode == RNIC_WR_REG_MR) {
        struct rnic_reg_wqe *reg = (struct rnic_reg_wqe *)wqe;

        *reg = wr->reg;
        reg->opcode = wr->opcode;
        reg->flags = wr->flags;
        reg->wr_id = GUINT64_TO_LE(wr->wr_id);
        return;
    }
    memset(wqe, 0, sizeof(*wqe));
    wqe->opcode = wr->opcode;
    wqe->flags = wr->flags | (wr->inline_data ? RNIC_WQE_INLINE : 0);
    wqe->num_sge = wr->num_sge;
    wqe->inv_stag = GUINT32_TO_LE(wr->inv_stag);
    if (wr->opcode == RNIC_WR_IMM || wr->opcode == RNIC_WR_WRITE_IMM) {
        memcpy(&wqe->imm_data, wr->imm, sizeof(wr->imm));
    }
    wqe->wr_id = GUINT64_TO_LE(wr->wr_id);
    wqe->inline_len = GUINT32_TO_LE(wr->inline_len);
    wqe->remote_stag = GUINT32_TO_LE(wr->remote_stag);
    wqe->remote_to = GUINT64_TO_LE(wr->remote_to);
    if (wr->inline_data) {
        memcpy(wqe->sge, wr->inline_data, wr->inline_len);
    } else {
        memcpy(wqe->sge, wr->sge,
               MIN(wr->num_sge, RNIC_SQ_STRIDE_SGES(qp->attr.sq_stride)) *
                   sizeof(wr->sge[0]));
    }
    write_atomic(qp, wr, (struct rnic_atomic_wqe *)wqe);
}

void th_write_send(struct th_qp *qp, const struct th_wr *wr, unsigned count)
{
    unsigned i;

    for (i = 0; i < count; i++) {
        write_send(qp, &wr[i]);
        qp->sq_pi++;
    }
}

void th_post_send_quiet(struct th_qp *qp, const struct th_wr *wr,
                        unsigned count)
{
    struct rnic_qp_dbrec *dbrec = th_ptr(qp->guest, qp->dbrec);

    th_write_send(qp, wr, count);
    publish(&dbrec->sq_pi, qp->sq_pi);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void th_post_send(struct th_qp *qp, const struct th_wr *wr, unsigned count)
{
    uint32_t old = qp->sq_pi;
    uint32_t event;

    th_post_send_quiet(qp, wr, count);
    event = status_word(qp, offsetof(struct rnic_qp_status, sq_event));
    if (qp->sq_pi - event - 1 < qp->sq_pi - old ||
        th_qp_state(qp) != RNIC_QPS_RTS) {
        th_ring(qp->guest, qp->attr.uctx, qp->qpn);
    }
}

void th_ring(struct th_guest *guest, uint32_t uctx, uint32_t qpn)
{
    uint64_t page = uctx * RNIC_DB_PAGE_SIZE;
    struct rnic_dbmap *dbmap = th_ptr(guest, guest->dbmap[uctx]);

    __atomic_fetch_or(&dbmap->word[qpn >> 6], GUINT64_TO_LE(1ull << (qpn & 63)),
                      __ATOMIC_SEQ_CST);
    __atomic_fetch_or(&dbmap->summary[qpn >> 12],
                      GUINT64_TO_LE(1ull << (qpn >> 6 & 63)), __ATOMIC_SEQ_CST);
    guest->rings++;
    if (guest->options.kicks) {
        rnic_device_kick(guest->dev, page + RNIC_DB_KICK, 4);
    } else {
        rnic_device_doorbell(guest->dev, page + RNIC_DB_KICK, 4);
    }
}

void th_post_recv(struct th_qp *qp, uint64_t wr_id, const struct rnic_sge *sge,
                  unsigned num_sge)
{
    struct rnic_qp_dbrec *dbrec = th_ptr(qp->guest, qp->dbrec);

    write_recv(qp->guest,
               qp->rq + qp->rq_pi % qp->attr.rq_depth * qp->attr.rq_stride,
               qp->attr.rq_stride, wr_id, sge, num_sge);
    publish(&dbrec->rq_pi, ++qp->rq_pi);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (th_qp_state(qp) == RNIC_QPS_ERROR) {
        th_ring(qp->guest, qp->attr.uctx, qp->qpn);
    }
}
