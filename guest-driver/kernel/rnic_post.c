// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Posting work requests of kernel consumers
 */
#include <linux/highmem.h>
#include <linux/log2.h>

#include "rnic.h"

void rnic_ring_doorbell(struct rnic_dev *rdev, struct rnic_uctx *uctx, u32 qpn)
{
	struct rnic_dbmap *dbmap = uctx->dbmap;

	set_bit_le(qpn, dbmap->word);
	/* The device takes the summary first, then the word */
	smp_mb__after_atomic();
	set_bit_le(qpn >> 6, dbmap->summary);
	/* It looks when it is kicked */
	smp_mb__after_atomic();
	writel(0, rdev->db + uctx->id * RNIC_DB_PAGE_SIZE + RNIC_DB_KICK);
}

/* After a producer index was published */
static void tell_device(struct rnic_dev *rdev, struct rnic_qp *qp, bool ring)
{
	if (unlikely(rnic_is_dead(rdev)))
		queue_work(rdev->wq, &rdev->flush_work);
	else if (ring)
		rnic_ring_doorbell(rdev, qp->uctx, qp->qpn);
}

static void put_sges(struct rnic_sge *dst, const struct ib_sge *src, int num)
{
	int i;

	for (i = 0; i < num; i++) {
		dst[i].addr = cpu_to_le64(src[i].addr);
		dst[i].length = cpu_to_le32(src[i].length);
		dst[i].lkey = cpu_to_le32(src[i].lkey);
	}
}

/* The addresses of inline SGEs are those of the kernel */
static int put_inline(struct rnic_wq *sq, struct rnic_sq_wqe *wqe,
		      const struct ib_send_wr *wr)
{
	u8 *dst = (u8 *)wqe + sizeof(*wqe);
	size_t room = RNIC_SQ_STRIDE_INLINE(sq->stride);
	u32 total = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		const struct ib_sge *sge = &wr->sg_list[i];

		if (sge->length > room - total)
			return -EINVAL;
		memcpy(dst + total, (void *)(uintptr_t)sge->addr, sge->length);
		total += sge->length;
	}
	wqe->inline_len = cpu_to_le32(total);
	wqe->flags |= RNIC_WQE_INLINE;
	return 0;
}

static int put_data(struct rnic_wq *sq, struct rnic_sq_wqe *wqe,
		    const struct ib_send_wr *wr)
{
	if (wr->send_flags & IB_SEND_INLINE)
		return put_inline(sq, wqe, wr);
	if (wr->num_sge > sq->max_sge)
		return -EINVAL;
	wqe->num_sge = wr->num_sge;
	put_sges(wqe->sge, wr->sg_list, wr->num_sge);
	return 0;
}

static int put_reg_mr(struct rnic_reg_wqe *wqe, const struct ib_send_wr *wr)
{
	const struct ib_reg_wr *reg = reg_wr(wr);
	struct rnic_dev *rdev = to_rnic(reg->mr->device);
	struct rnic_mr *mr = to_rnic_mr(reg->mr);

	wqe->opcode = RNIC_WR_REG_MR;
	wqe->stag = cpu_to_le32(reg->key);
	wqe->access = cpu_to_le32(rnic_access(rdev, reg->access));
	wqe->num_pages = cpu_to_le32(mr->num_pages);
	wqe->iova = cpu_to_le64(mr->ibmr.iova);
	wqe->length = cpu_to_le64(mr->ibmr.length);
	wqe->pages = cpu_to_le64(mr->pages.dma);
	wqe->page_shift = cpu_to_le32(ilog2(mr->ibmr.page_size));
	return 0;
}

static void put_remote(struct rnic_sq_wqe *wqe, const struct ib_send_wr *wr)
{
	wqe->remote_stag = cpu_to_le32(rdma_wr(wr)->rkey);
	wqe->remote_to = cpu_to_le64(rdma_wr(wr)->remote_addr);
}

/* Immediate Data alone (RFC 7306 section 6): iWARP has no Send with both */
static int put_imm(struct rnic_sq_wqe *wqe, const struct ib_send_wr *wr)
{
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length)
			return -EOPNOTSUPP;
	}
	wqe->opcode = RNIC_WR_IMM;
	wqe->imm_data = wr->ex.imm_data;
	return 0;
}

static int put_atomic(struct rnic_wq *sq, struct rnic_atomic_wqe *wqe,
		      const struct ib_send_wr *wr)
{
	const struct ib_atomic_wr *atomic = atomic_wr(wr);

	if (wr->num_sge != 1 || wr->sg_list[0].length != sizeof(u64) ||
	    wr->send_flags & IB_SEND_INLINE)
		return -EINVAL;
	wqe->num_sge = 1;
	put_sges(&wqe->sink, wr->sg_list, 1);
	wqe->remote_stag = cpu_to_le32(atomic->rkey);
	wqe->remote_to = cpu_to_le64(atomic->remote_addr);

	switch (wr->opcode) {
	case IB_WR_ATOMIC_FETCH_AND_ADD:
	case IB_WR_MASKED_ATOMIC_FETCH_AND_ADD:
		wqe->opcode = RNIC_WR_FETCH_ADD;
		wqe->data = cpu_to_le64(atomic->compare_add);
		if (wr->opcode == IB_WR_MASKED_ATOMIC_FETCH_AND_ADD)
			wqe->add_mask = cpu_to_le64(atomic->compare_add_mask);
		break;
	case IB_WR_MASKED_ATOMIC_CMP_AND_SWP:
		/* rnic_create_qp() made room for it */
		if (sq->stride < sizeof(*wqe))
			return -EOPNOTSUPP;
		wqe->opcode = RNIC_WR_CMP_SWAP_MASKED;
		wqe->data = cpu_to_le64(atomic->swap);
		wqe->compare = cpu_to_le64(atomic->compare_add);
		wqe->swap_mask = cpu_to_le64(atomic->swap_mask);
		wqe->compare_mask = cpu_to_le64(atomic->compare_add_mask);
		break;
	default:
		wqe->opcode = RNIC_WR_CMP_SWAP;
		wqe->data = cpu_to_le64(atomic->swap);
		wqe->compare = cpu_to_le64(atomic->compare_add);
		break;
	}
	return 0;
}

/* Work requests of RFC 7306, which the device may not have */
static int put_rfc7306(struct rnic_qp *qp, struct rnic_sq_wqe *wqe,
		       const struct ib_send_wr *wr)
{
	if (!(to_rnic(qp->ibqp.device)->caps & RNIC_CAP_RFC7306))
		return -EOPNOTSUPP;
	switch (wr->opcode) {
	case IB_WR_SEND_WITH_IMM:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		if (wr->send_flags & IB_SEND_SOLICITED)
			wqe->flags |= RNIC_WQE_SOLICITED;
		if (wr->opcode == IB_WR_SEND_WITH_IMM)
			return put_imm(wqe, wr);
		wqe->opcode = RNIC_WR_WRITE_IMM;
		wqe->imm_data = wr->ex.imm_data;
		put_remote(wqe, wr);
		return put_data(&qp->sq, wqe, wr);
	default:
		return put_atomic(&qp->sq, (struct rnic_atomic_wqe *)wqe, wr);
	}
}

static int put_send_wqe(struct rnic_qp *qp, struct rnic_sq_wqe *wqe,
			const struct ib_send_wr *wr)
{
	/* All forms of a WQE have opcode, flags and wr_id in common */
	memset(wqe, 0, RNIC_WQE_STRIDE_MIN);
	wqe->wr_id = cpu_to_le64(wr->wr_id);
	if (wr->send_flags & IB_SEND_SIGNALED)
		wqe->flags |= RNIC_WQE_SIGNALED;
	if (wr->send_flags & IB_SEND_FENCE)
		wqe->flags |= RNIC_WQE_FENCE;

	switch (wr->opcode) {
	case IB_WR_SEND_WITH_INV:
		wqe->inv_stag = cpu_to_le32(wr->ex.invalidate_rkey);
		fallthrough;
	case IB_WR_SEND:
		wqe->opcode = wr->opcode == IB_WR_SEND ? RNIC_WR_SEND :
							 RNIC_WR_SEND_INV;
		if (wr->send_flags & IB_SEND_SOLICITED)
			wqe->flags |= RNIC_WQE_SOLICITED;
		return put_data(&qp->sq, wqe, wr);
	case IB_WR_RDMA_WRITE:
		wqe->opcode = RNIC_WR_WRITE;
		put_remote(wqe, wr);
		return put_data(&qp->sq, wqe, wr);
	case IB_WR_RDMA_READ_WITH_INV:
	case IB_WR_RDMA_READ:
		wqe->opcode = wr->opcode == IB_WR_RDMA_READ ?
			      RNIC_WR_READ : RNIC_WR_READ_INV;
		if (wr->num_sge > 1 || wr->send_flags & IB_SEND_INLINE)
			return -EINVAL;
		/* Not ex.invalidate_rkey: rdma_rw leaves an old key there */
		if (wr->opcode == IB_WR_RDMA_READ_WITH_INV) {
			if (!wr->num_sge)
				return -EINVAL;
			wqe->inv_stag = cpu_to_le32(wr->sg_list[0].lkey);
		}
		put_remote(wqe, wr);
		return put_data(&qp->sq, wqe, wr);
	case IB_WR_SEND_WITH_IMM:
	case IB_WR_RDMA_WRITE_WITH_IMM:
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
	case IB_WR_MASKED_ATOMIC_CMP_AND_SWP:
	case IB_WR_MASKED_ATOMIC_FETCH_AND_ADD:
		return put_rfc7306(qp, wqe, wr);
	case IB_WR_LOCAL_INV:
		wqe->opcode = RNIC_WR_LOCAL_INV;
		wqe->inv_stag = cpu_to_le32(wr->ex.invalidate_rkey);
		return 0;
	case IB_WR_REG_MR:
		return put_reg_mr((struct rnic_reg_wqe *)wqe, wr);
	default:
		return -EOPNOTSUPP;
	}
}

/* Whether the QP takes work requests. A dead device's status is stale; what is
 * posted to it is flushed.
 */
static int check_state(struct rnic_dev *rdev, struct rnic_qp *qp, bool send)
{
	if (unlikely(rnic_is_dead(rdev)))
		return 0;
	switch (rnic_qp_hw_state(qp)) {
	case RNIC_QPS_RESET:
		return -EINVAL;
	case RNIC_QPS_IDLE:
		if (qp->idle_state == IB_QPS_RESET)
			return -EINVAL;
		return send && qp->uctx->sq_policy == RNIC_SQ_ERROR ?
		       -ENOTCONN : 0;
	default:
		return 0;
	}
}

/* The consumer's half of the protocol at struct rnic_qp_dbrec. False: the QP
 * is connected, or was, and the index goes to the device.
 */
static bool hold(struct rnic_qp *qp, u32 pi)
{
	if (qp->uctx->sq_policy != RNIC_SQ_HELD ||
	    rnic_qp_hw_state(qp) != RNIC_QPS_IDLE)
		return false;
	/* The WQEs before the index, as with sq_pi */
	smp_store_release(&qp->dbrec->sq_held, cpu_to_le32(pi));
	/* rnic_sq_release() sees the index, or we see the new state */
	mb();
	return rnic_qp_hw_state(qp) == RNIC_QPS_IDLE;
}

/* The driver's half. The record of a user QP is what its process wrote. */
void rnic_sq_release(struct rnic_dev *rdev, struct rnic_qp *qp)
{
	struct rnic_qp_dbrec *dbrec = qp->dbrec;
	__le32 held, pi, old;

	if (qp->uctx->sq_policy != RNIC_SQ_HELD || rnic_is_dead(rdev))
		return;
	if (qp->dbrec_page)
		dbrec = kmap_local_page(qp->dbrec_page) + qp->dbrec_in_page;
	/* Pairs with hold(), and with that of the provider */
	mb();
	held = READ_ONCE(dbrec->sq_held);
	pi = READ_ONCE(dbrec->sq_pi);
	/* Not if a poster was faster, and not further than the queue is long */
	while (le32_to_cpu(held) - le32_to_cpu(pi) - 1 < qp->cap.max_send_wr) {
		old = cmpxchg(&dbrec->sq_pi, pi, held);
		if (old == pi)
			break;
		pi = old;
	}
	if (qp->dbrec_page)
		kunmap_local(dbrec);
	/* The index before the doorbell */
	mb();
	if (held)
		rnic_ring_doorbell(rdev, qp->uctx, qp->qpn);
}

int rnic_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad_wr)
{
	struct rnic_dev *rdev = to_rnic(ibqp->device);
	struct rnic_qp *qp = to_rnic_qp(ibqp);
	struct rnic_wq *sq = &qp->sq;
	unsigned long flags;
	u32 old, new, event;
	bool ring;
	int ret;

	spin_lock_irqsave(&sq->lock, flags);
	old = sq->pi;
	ret = check_state(rdev, qp, true);
	for (new = old; wr && !ret; wr = wr->next, new++) {
		if (new - smp_load_acquire(&sq->ci) >= sq->depth) {
			ret = -ENOMEM;
			break;
		}
		ret = put_send_wqe(qp, rnic_wqe(sq, new), wr);
		if (ret)
			break;
	}
	if (ret)
		*bad_wr = wr;
	if (new == old)
		goto out;

	/* Pairs with flush_wq() */
	smp_store_release(&sq->pi, new);
	if (hold(qp, new)) {
		tell_device(rdev, qp, false);
		goto out;
	}
	/* The WQEs before the index */
	dma_wmb();
	WRITE_ONCE(qp->dbrec->sq_pi, cpu_to_le32(new));
	/* The device sees the index, or we see that it has gone to sleep */
	mb();
	event = le32_to_cpu(READ_ONCE(qp->status->sq_event));
	ring = new - event - 1 < new - qp->sq_published ||
	       rnic_qp_hw_state(qp) != RNIC_QPS_RTS;
	qp->sq_published = new;
	tell_device(rdev, qp, ring);
out:
	spin_unlock_irqrestore(&sq->lock, flags);
	return ret;
}

static int put_recv_wqe(struct rnic_wq *rq, const struct ib_recv_wr *wr)
{
	struct rnic_rq_wqe *wqe = rnic_wqe(rq, rq->pi);

	if (wr->num_sge > rq->max_sge)
		return -EINVAL;
	memset(wqe, 0, sizeof(*wqe));
	wqe->num_sge = wr->num_sge;
	wqe->wr_id = cpu_to_le64(wr->wr_id);
	put_sges(wqe->sge, wr->sg_list, wr->num_sge);
	return 0;
}

/* Under rq->lock */
static int post_recvs(struct rnic_wq *rq, struct rnic_qp_dbrec *dbrec,
		      const struct ib_recv_wr *wr,
		      const struct ib_recv_wr **bad_wr)
{
	int ret = 0;

	for (; wr; wr = wr->next) {
		if (rq->pi - smp_load_acquire(&rq->ci) >= rq->depth)
			ret = -ENOMEM;
		else
			ret = put_recv_wqe(rq, wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
		/* Pairs with flush_wq() */
		smp_store_release(&rq->pi, rq->pi + 1);
	}
	/* The WQEs before the index */
	dma_wmb();
	WRITE_ONCE(dbrec->rq_pi, cpu_to_le32(rq->pi));
	return ret;
}

int rnic_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr)
{
	struct rnic_dev *rdev = to_rnic(ibqp->device);
	struct rnic_qp *qp = to_rnic_qp(ibqp);
	unsigned long flags;
	int ret;

	if (qp->srq) {
		*bad_wr = wr;
		return -EINVAL;
	}
	ret = check_state(rdev, qp, false);
	if (ret) {
		*bad_wr = wr;
		return ret;
	}
	spin_lock_irqsave(&qp->rq.lock, flags);
	ret = post_recvs(&qp->rq, qp->dbrec, wr, bad_wr);
	/* The device sees the index, or we see that the QP is in ERROR; only
	 * then it has to be told, so that it flushes them
	 */
	mb();
	tell_device(rdev, qp, rnic_qp_hw_state(qp) == RNIC_QPS_ERROR);
	spin_unlock_irqrestore(&qp->rq.lock, flags);
	return ret;
}

int rnic_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr)
{
	struct rnic_srq *srq = to_rnic_srq(ibsrq);
	unsigned long flags;
	int ret;

	spin_lock_irqsave(&srq->rq.lock, flags);
	ret = post_recvs(&srq->rq, srq->dbrec, wr, bad_wr);
	spin_unlock_irqrestore(&srq->rq.lock, flags);
	return ret;
}
