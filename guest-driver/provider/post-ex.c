/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Extended posting, ibv_wr_*(): an entry is begun by its operation and finished
 * by a setter, and all of them are published together
 *
 * The SQ is locked from wr_start to wr_complete or wr_abort. The first error is
 * kept in qp->ex_err; after it nothing more is written.
 */
#include "rnic.h"

static struct rnic_qp *qp_of(struct ibv_qp_ex *ibqp)
{
    return container_of(ibqp, struct rnic_qp, vqp.qp_ex);
}

static void wr_start(struct ibv_qp_ex *ibqp)
{
    struct rnic_qp *qp = qp_of(ibqp);

    pthread_mutex_lock(&qp->sq.lock);
    qp->ex_first = qp->sq.pi;
    qp->ex_err = rnic_qp_check_state(to_rctx(ibqp->qp_base.context), qp, true);
}

static void wr_abort(struct ibv_qp_ex *ibqp)
{
    struct rnic_qp *qp = qp_of(ibqp);

    qp->sq.pi = qp->ex_first;
    pthread_mutex_unlock(&qp->sq.lock);
}

static int wr_complete(struct ibv_qp_ex *ibqp)
{
    struct rnic_qp *qp = qp_of(ibqp);
    int err = qp->ex_err;

    if (err) {
        wr_abort(ibqp);
        return err;
    }
    if (qp->sq.pi != qp->ex_first) {
        rnic_sq_publish(to_rctx(ibqp->qp_base.context), qp);
    }
    pthread_mutex_unlock(&qp->sq.lock);
    return 0;
}

/* The entry that was begun; NULL: there was an error */
static struct rnic_sq_wqe *current(struct rnic_qp *qp)
{
    if (!qp->ex_err && qp->sq.pi == qp->ex_first) {
        qp->ex_err = EINVAL;
    }
    return qp->ex_err ? NULL : rnic_sq_entry(qp, qp->sq.pi - 1);
}

static struct rnic_sq_wqe *begin(struct ibv_qp_ex *ibqp,
                                 enum ibv_wr_opcode opcode)
{
    struct rnic_qp *qp = qp_of(ibqp);
    uint32_t ci = atomic_load_explicit(&qp->sq.ci, memory_order_acquire);
    struct rnic_sq_wqe *wqe;

    if (!qp->ex_err && qp->sq.pi - ci >= qp->sq.depth) {
        qp->ex_err = ENOMEM;
    }
    if (qp->ex_err) {
        return NULL;
    }
    wqe = rnic_sq_entry(qp, qp->sq.pi);
    /* Whether it is inline is said by the setter */
    qp->ex_err = rnic_wqe_begin(qp, wqe, opcode, ibqp->wr_id,
                                ibqp->wr_flags & ~(unsigned)IBV_SEND_INLINE);
    if (qp->ex_err) {
        return NULL;
    }
    qp->sq.pi++;
    return wqe;
}

static struct rnic_sq_wqe *begin_remote(struct ibv_qp_ex *ibqp,
                                        enum ibv_wr_opcode opcode,
                                        uint32_t rkey, uint64_t remote_addr)
{
    struct rnic_sq_wqe *wqe = begin(ibqp, opcode);

    if (wqe) {
        wqe->remote_stag = htole32(rkey);
        wqe->remote_to = htole64(remote_addr);
    }
    return wqe;
}

/* ---- Operations ---- */

static void wr_send(struct ibv_qp_ex *ibqp)
{
    begin(ibqp, IBV_WR_SEND);
}

static void wr_send_inv(struct ibv_qp_ex *ibqp, uint32_t invalidate_rkey)
{
    struct rnic_sq_wqe *wqe = begin(ibqp, IBV_WR_SEND_WITH_INV);

    if (wqe) {
        wqe->inv_stag = htole32(invalidate_rkey);
    }
}

static void wr_send_imm(struct ibv_qp_ex *ibqp, __be32 imm_data)
{
    struct rnic_sq_wqe *wqe = begin(ibqp, IBV_WR_SEND_WITH_IMM);

    if (wqe) {
        wqe->imm_data = imm_data;
    }
}

static void wr_rdma_write(struct ibv_qp_ex *ibqp, uint32_t rkey,
                          uint64_t remote_addr)
{
    begin_remote(ibqp, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ibqp, uint32_t rkey,
                              uint64_t remote_addr, __be32 imm_data)
{
    struct rnic_sq_wqe *wqe =
        begin_remote(ibqp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr);

    if (wqe) {
        wqe->imm_data = imm_data;
    }
}

static void wr_rdma_read(struct ibv_qp_ex *ibqp, uint32_t rkey,
                         uint64_t remote_addr)
{
    begin_remote(ibqp, IBV_WR_RDMA_READ, rkey, remote_addr);
}

static void wr_local_inv(struct ibv_qp_ex *ibqp, uint32_t invalidate_rkey)
{
    struct rnic_sq_wqe *wqe = begin(ibqp, IBV_WR_LOCAL_INV);

    if (wqe) {
        wqe->inv_stag = htole32(invalidate_rkey);
    }
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ibqp, uint32_t rkey,
                              uint64_t remote_addr, uint64_t compare,
                              uint64_t swap)
{
    struct rnic_sq_wqe *wqe =
        begin_remote(ibqp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr);

    if (wqe) {
        rnic_wqe_atomic(wqe, compare, swap);
    }
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ibqp, uint32_t rkey,
                                uint64_t remote_addr, uint64_t add)
{
    struct rnic_sq_wqe *wqe =
        begin_remote(ibqp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr);

    if (wqe) {
        rnic_wqe_atomic(wqe, add, 0);
    }
}

/* ---- Data ---- */

static void wr_set_sge_list(struct ibv_qp_ex *ibqp, size_t num_sge,
                            const struct ibv_sge *sg_list)
{
    struct rnic_qp *qp = qp_of(ibqp);
    struct rnic_sq_wqe *wqe = current(qp);

    if (wqe) {
        qp->ex_err = num_sge > RNIC_WQE_STRIDE_MAX
                         ? EINVAL
                         : rnic_wqe_sges(qp, wqe, sg_list, num_sge);
    }
}

static void wr_set_sge(struct ibv_qp_ex *ibqp, uint32_t lkey, uint64_t addr,
                       uint32_t length)
{
    struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

    wr_set_sge_list(ibqp, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ibqp, size_t num_buf,
                                    const struct ibv_data_buf *buf_list)
{
    struct rnic_qp *qp = qp_of(ibqp);
    struct rnic_sq_wqe *wqe = current(qp);
    size_t i;

    if (!wqe) {
        return;
    }
    qp->ex_err = rnic_wqe_inline(qp, wqe, NULL, 0);
    for (i = 0; i < num_buf && !qp->ex_err; i++) {
        qp->ex_err =
            rnic_wqe_inline(qp, wqe, buf_list[i].addr, buf_list[i].length);
    }
}

static void wr_set_inline_data(struct ibv_qp_ex *ibqp, void *addr,
                               size_t length)
{
    struct ibv_data_buf buf = { .addr = addr, .length = length };

    wr_set_inline_data_list(ibqp, 1, &buf);
}

bool rnic_qp_ex_init(struct rnic_context *ctx, struct rnic_qp *qp,
                     uint64_t send_ops)
{
    struct ibv_qp_ex *ibqp = &qp->vqp.qp_ex;
    uint64_t known = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV |
                     IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
                     IBV_QP_EX_WITH_LOCAL_INV;

    if (ctx->caps & RNIC_CAP_RFC7306) {
        known |= IBV_QP_EX_WITH_SEND_WITH_IMM |
                 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    }
    if (send_ops & ~known) {
        return false;
    }
    ibqp->wr_start = wr_start;
    ibqp->wr_complete = wr_complete;
    ibqp->wr_abort = wr_abort;
    ibqp->wr_send = wr_send;
    ibqp->wr_send_inv = wr_send_inv;
    ibqp->wr_send_imm = wr_send_imm;
    ibqp->wr_rdma_write = wr_rdma_write;
    ibqp->wr_rdma_write_imm = wr_rdma_write_imm;
    ibqp->wr_rdma_read = wr_rdma_read;
    ibqp->wr_local_inv = wr_local_inv;
    ibqp->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    ibqp->wr_atomic_fetch_add = wr_atomic_fetch_add;
    ibqp->wr_set_sge = wr_set_sge;
    ibqp->wr_set_sge_list = wr_set_sge_list;
    ibqp->wr_set_inline_data = wr_set_inline_data;
    ibqp->wr_set_inline_data_list = wr_set_inline_data_list;
    return true;
}
