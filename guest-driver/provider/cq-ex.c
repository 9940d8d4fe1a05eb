/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Extended polling: a cursor over a CQ, with a reader for each field
 */
#include "rnic.h"

static int next_poll(struct ibv_cq_ex *ibcq)
{
    struct rnic_cq *cq = to_rcq_ex(ibcq);

    if (!rnic_cq_next(cq, &cq->current)) {
        return ENOENT;
    }
    ibcq->wr_id = le64toh(cq->current.wr_id);
    ibcq->status = rnic_cqe_status(&cq->current);
    return 0;
}

/* Keeps the CQ locked until end_poll, unless it fails */
static int start_poll(struct ibv_cq_ex *ibcq, struct ibv_poll_cq_attr *attr)
{
    struct rnic_cq *cq = to_rcq_ex(ibcq);
    int err;

    if (attr->comp_mask) {
        return EINVAL;
    }
    pthread_mutex_lock(&cq->lock);
    err = next_poll(ibcq);
    if (err) {
        pthread_mutex_unlock(&cq->lock);
    }
    return err;
}

static void end_poll(struct ibv_cq_ex *ibcq)
{
    struct rnic_cq *cq = to_rcq_ex(ibcq);

    rnic_cq_publish(cq);
    pthread_mutex_unlock(&cq->lock);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ibcq)
{
    return rnic_cqe_opcode(&to_rcq_ex(ibcq)->current);
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ibcq)
{
    return le32toh(to_rcq_ex(ibcq)->current.vendor_err);
}

static uint32_t read_byte_len(struct ibv_cq_ex *ibcq)
{
    return le32toh(to_rcq_ex(ibcq)->current.byte_len);
}

/* Immediate data as it came, or the invalidated STag in the host's order */
static __be32 read_imm_data(struct ibv_cq_ex *ibcq)
{
    const struct rnic_cqe *cqe = &to_rcq_ex(ibcq)->current;

    return cqe->flags & RNIC_CQE_WITH_IMM ? cqe->imm_data
                                          : le32toh(cqe->inv_stag);
}

static uint32_t read_qp_num(struct ibv_cq_ex *ibcq)
{
    return le32toh(to_rcq_ex(ibcq)->current.qpn);
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ibcq)
{
    const struct rnic_cqe *cqe = &to_rcq_ex(ibcq)->current;

    return (cqe->flags & RNIC_CQE_WITH_INV ? IBV_WC_WITH_INV : 0) |
           (cqe->flags & RNIC_CQE_WITH_IMM ? IBV_WC_WITH_IMM : 0);
}

/* Fields of InfiniBand's headers that iWARP's do not have */
static uint32_t read_zero32(struct ibv_cq_ex *ibcq)
{
    (void)ibcq;
    return 0;
}

static uint8_t read_zero8(struct ibv_cq_ex *ibcq)
{
    (void)ibcq;
    return 0;
}

void rnic_cq_ex_init(struct ibv_cq_ex *cq)
{
    cq->start_poll = start_poll;
    cq->next_poll = next_poll;
    cq->end_poll = end_poll;
    cq->read_opcode = read_opcode;
    cq->read_vendor_err = read_vendor_err;
    cq->read_byte_len = read_byte_len;
    cq->read_imm_data = read_imm_data;
    cq->read_qp_num = read_qp_num;
    cq->read_wc_flags = read_wc_flags;
    cq->read_src_qp = read_zero32;
    cq->read_slid = read_zero32;
    cq->read_sl = read_zero8;
    cq->read_dlid_path_bits = read_zero8;
}
