// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Completion queues
 */
#include <linux/log2.h>

#include "rnic.h"

/* QPN of a CQE whose QP was destroyed; no QP has it */
#define RNIC_CQE_DROPPED	cpu_to_le32(0)

static int cq_create_user(struct rnic_dev *rdev, struct rnic_cq *cq, int cqe,
			  struct ib_udata *udata,
			  struct rnic_cmd_create_cq *create,
			  struct rnic_pbl **pbl)
{
	struct rnic_create_cq_req req;
	int ret;

	if (udata->inlen < sizeof(req))
		return -EINVAL;
	ret = ib_copy_from_udata(&req, udata, sizeof(req));
	if (ret)
		return ret;
	if (req.depth < cqe || req.depth > rdev->limits.cqe ||
	    !is_power_of_2(req.depth))
		return -EINVAL;
	cq->umem = rnic_umem_get(&rdev->ibdev, req.buf, req.buf_len,
				 IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(cq->umem))
		return PTR_ERR(cq->umem);
	ret = rnic_pbl_create(rdev, cq->umem, req.buf, &create->buf, pbl);
	if (ret) {
		ib_umem_release(cq->umem);
		return ret;
	}
	cq->depth = req.depth;
	create->dbrec_offset = cpu_to_le32(req.dbrec_offset);
	return 0;
}

static int cq_create_kernel(struct rnic_dev *rdev, struct rnic_cq *cq, int cqe,
			    struct rnic_cmd_create_cq *create)
{
	u32 dbrec_offset;
	int ret;

	cq->depth = max_t(u32, roundup_pow_of_two(cqe), 2);
	dbrec_offset = cq->depth * sizeof(struct rnic_cqe);
	ret = rnic_mem_alloc(rdev, &cq->mem,
			     dbrec_offset + sizeof(struct rnic_cq_dbrec));
	if (ret)
		return ret;
	cq->dbrec = cq->mem.va + dbrec_offset;
	create->dbrec_offset = cpu_to_le32(dbrec_offset);
	rnic_mem_desc(&cq->mem, &create->buf);
	return 0;
}

int rnic_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		   struct rnic_cq_attrs *attrs)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_CREATE_CQ };
	struct ib_udata *udata = rnic_cq_udata(attrs);
	struct rnic_dev *rdev = to_rnic(ibcq->device);
	struct rnic_create_cq_resp resp = {};
	struct rnic_cq *cq = to_rnic_cq(ibcq);
	struct rnic_pbl *pbl = NULL;
	int ret;

	if (attr->flags)
		return -EOPNOTSUPP;
	if (attr->cqe < 1 || attr->cqe > rdev->limits.cqe)
		return -EINVAL;

	spin_lock_init(&cq->lock);
	INIT_LIST_HEAD(&cq->send_qps);
	INIT_LIST_HEAD(&cq->recv_qps);
	cq->eq = &rdev->ceqs[attr->comp_vector % rdev->num_ceqs];

	ret = xa_alloc_cyclic(&rdev->cqs, &cq->cqn, NULL,
			      XA_LIMIT(1, rdev->limits.cq - 1), &rdev->next_cqn,
			      GFP_KERNEL);
	if (ret < 0)
		return ret == -EBUSY ? -ENOMEM : ret;

	if (udata)
		ret = cq_create_user(rdev, cq, attr->cqe, udata,
				     &cmd.create_cq, &pbl);
	else
		ret = cq_create_kernel(rdev, cq, attr->cqe, &cmd.create_cq);
	if (ret)
		goto err_cqn;

	cmd.create_cq.cqn = cpu_to_le32(cq->cqn);
	cmd.create_cq.eqn = cpu_to_le32(cq->eq->eqn);
	cmd.create_cq.uctx = cpu_to_le32(rnic_uctx_of(rdev, udata)->id);
	cmd.create_cq.depth = cpu_to_le32(cq->depth);
	ret = rnic_cmd(rdev, &cmd, NULL);
	rnic_pbl_free(rdev, pbl);
	if (ret)
		goto err_mem;

	if (udata) {
		resp.cqn = cq->cqn;
		ret = ib_copy_to_udata(udata, &resp,
				       min(sizeof(resp), udata->outlen));
		if (ret)
			goto err_cq;
	}
	ibcq->cqe = cq->depth;
	/* Reserved above, so it needs no memory */
	xa_store(&rdev->cqs, cq->cqn, cq, GFP_KERNEL);
	return 0;

err_cq:
	rnic_cmd_destroy(rdev, RNIC_CMD_DESTROY_CQ, cq->cqn);
err_mem:
	rnic_mem_free(rdev, &cq->mem);
	ib_umem_release(cq->umem);
err_cqn:
	xa_erase(&rdev->cqs, cq->cqn);
	return ret;
}

int rnic_modify_cq(struct ib_cq *ibcq, u16 count, u16 period)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_MODIFY_CQ };

	cmd.modify_cq.cqn = cpu_to_le32(to_rnic_cq(ibcq)->cqn);
	cmd.modify_cq.count = cpu_to_le16(count);
	cmd.modify_cq.period_us = cpu_to_le16(period);
	return rnic_cmd(to_rnic(ibcq->device), &cmd, NULL);
}

int rnic_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct rnic_dev *rdev = to_rnic(ibcq->device);
	struct rnic_cq *cq = to_rnic_cq(ibcq);

	rnic_cmd_destroy(rdev, RNIC_CMD_DESTROY_CQ, cq->cqn);
	/* Its events are handled before the number can be used again; then
	 * nobody finds it, and whoever found it is done
	 */
	rnic_aeq_flush(rdev);
	xa_erase(&rdev->cqs, cq->cqn);
	synchronize_irq(cq->eq->irq);
	rnic_mem_free(rdev, &cq->mem);
	ib_umem_release(cq->umem);
	return 0;
}

static void raise_event(struct rnic_cq *cq)
{
	if (cq->ibcq.comp_handler)
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
}

void rnic_cq_event(struct rnic_dev *rdev, u32 cqn)
{
	struct rnic_cq *cq;

	/* A late event of a number that has a new owner makes it poll in vain */
	cq = xa_load(&rdev->cqs, cqn);
	if (!cq)
		return;
	WRITE_ONCE(cq->armed, RNIC_CQ_ARM_NONE);
	raise_event(cq);
}

static struct rnic_cqe *cqe_at(struct rnic_cq *cq, u32 index)
{
	struct rnic_cqe *ring = cq->mem.va;

	return &ring[index & (cq->depth - 1)];
}

static bool cqe_is_new(struct rnic_cq *cq, u32 index)
{
	u8 phase = READ_ONCE(cqe_at(cq, index)->phase);

	if ((phase & 1) == !!(index & cq->depth))
		return false;
	dma_rmb();
	return true;
}

static enum ib_wc_status wc_status(u8 status)
{
	switch (status) {
	case RNIC_WC_SUCCESS:
		return IB_WC_SUCCESS;
	case RNIC_WC_LOC_LEN_ERR:
		return IB_WC_LOC_LEN_ERR;
	case RNIC_WC_LOC_QP_OP_ERR:
		return IB_WC_LOC_QP_OP_ERR;
	case RNIC_WC_LOC_PROT_ERR:
		return IB_WC_LOC_PROT_ERR;
	case RNIC_WC_WR_FLUSH_ERR:
		return IB_WC_WR_FLUSH_ERR;
	case RNIC_WC_MW_BIND_ERR:
		return IB_WC_MW_BIND_ERR;
	case RNIC_WC_REM_INV_REQ_ERR:
		return IB_WC_REM_INV_REQ_ERR;
	case RNIC_WC_REM_ACCESS_ERR:
		return IB_WC_REM_ACCESS_ERR;
	case RNIC_WC_REM_OP_ERR:
		return IB_WC_REM_OP_ERR;
	case RNIC_WC_GENERAL_ERR:
	default:
		return IB_WC_GENERAL_ERR;
	}
}

static enum ib_wc_opcode wc_opcode(u8 opcode)
{
	switch (opcode) {
	case RNIC_WR_WRITE:
	case RNIC_WR_WRITE_IMM:
		return IB_WC_RDMA_WRITE;
	case RNIC_WR_READ:
	case RNIC_WR_READ_INV:
		return IB_WC_RDMA_READ;
	case RNIC_WR_LOCAL_INV:
		return IB_WC_LOCAL_INV;
	case RNIC_WR_REG_MR:
		return IB_WC_REG_MR;
	case RNIC_WR_FETCH_ADD:
		return IB_WC_FETCH_ADD;
	case RNIC_WR_CMP_SWAP:
		return IB_WC_COMP_SWAP;
	case RNIC_WR_CMP_SWAP_MASKED:
		return IB_WC_MASKED_COMP_SWAP;
	case RNIC_WR_RECV:
		return IB_WC_RECV;
	case RNIC_WR_SEND:
	case RNIC_WR_SEND_INV:
	case RNIC_WR_IMM:
	default:
		return IB_WC_SEND;
	}
}

static void recv_done(struct rnic_qp *qp)
{
	if (qp->srq) {
		spin_lock(&qp->srq->rq.lock);
		qp->srq->rq.ci++;
		spin_unlock(&qp->srq->rq.lock);
	} else {
		/* Read by posters, who hold another lock */
		smp_store_release(&qp->rq.ci, qp->rq.ci + 1);
	}
}

/* All WQEs up to the one with the index, of which 16 bits are known */
static void send_done(struct rnic_qp *qp, u16 index)
{
	u16 count = index + 1 - (u16)qp->sq.ci;

	smp_store_release(&qp->sq.ci, qp->sq.ci + count);
}

/* False: it is of a QP that was destroyed */
static bool cqe_take(struct rnic_dev *rdev, const struct rnic_cqe *cqe,
		     struct ib_wc *wc)
{
	struct rnic_qp *qp = xa_load(&rdev->qps, le32_to_cpu(cqe->qpn));

	if (!qp)
		return false;
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = le64_to_cpu(cqe->wr_id);
	wc->qp = &qp->ibqp;
	wc->status = wc_status(cqe->status);
	wc->opcode = wc_opcode(cqe->opcode);
	wc->byte_len = le32_to_cpu(cqe->byte_len);
	wc->vendor_err = le32_to_cpu(cqe->vendor_err);
	wc->port_num = 1;
	if (cqe->flags & RNIC_CQE_WITH_INV) {
		wc->wc_flags |= IB_WC_WITH_INVALIDATE;
		wc->ex.invalidate_rkey = le32_to_cpu(cqe->inv_stag);
	}
	if (cqe->flags & RNIC_CQE_WITH_IMM) {
		/* The wire does not tell whether it came with a Write; what
		 * expects this opcode is more than what expects the other
		 */
		wc->opcode = IB_WC_RECV_RDMA_WITH_IMM;
		wc->wc_flags |= IB_WC_WITH_IMM;
		wc->ex.imm_data = cqe->imm_data;
	}
	if (cqe->opcode == RNIC_WR_RECV)
		recv_done(qp);
	else
		send_done(qp, le16_to_cpu(cqe->wqe_index));
	return true;
}

static int flush_wq(struct rnic_qp *qp, struct rnic_wq *wq, bool send, int num,
		    struct ib_wc *wc)
{
	struct rnic_sq_wqe *sq_wqe;
	struct rnic_rq_wqe *rq_wqe;
	int n;

	/* pi: published by the poster after it wrote the WQE */
	for (n = 0; n < num && wq->ci != smp_load_acquire(&wq->pi); n++, wc++) {
		memset(wc, 0, sizeof(*wc));
		wc->qp = &qp->ibqp;
		wc->status = IB_WC_WR_FLUSH_ERR;
		wc->port_num = 1;
		if (send) {
			/* struct rnic_reg_wqe has both at the same place */
			sq_wqe = rnic_wqe(wq, wq->ci);
			wc->wr_id = le64_to_cpu(sq_wqe->wr_id);
			wc->opcode = wc_opcode(sq_wqe->opcode);
		} else {
			rq_wqe = rnic_wqe(wq, wq->ci);
			wc->wr_id = le64_to_cpu(rq_wqe->wr_id);
			wc->opcode = IB_WC_RECV;
		}
		/* The poster overwrites the WQE when it sees this */
		smp_store_release(&wq->ci, wq->ci + 1);
	}
	return n;
}

/*
 * What a dead device would have flushed. Without it a consumer that drains its
 * QP would wait for ever.
 */
static int cq_flush(struct rnic_cq *cq, int num, struct ib_wc *wc)
{
	struct rnic_qp *qp;
	int n = 0;

	list_for_each_entry(qp, &cq->send_qps, send_link)
		n += flush_wq(qp, &qp->sq, true, num - n, wc + n);
	list_for_each_entry(qp, &cq->recv_qps, recv_link)
		n += flush_wq(qp, &qp->rq, false, num - n, wc + n);
	return n;
}

static bool wq_holds_work(struct rnic_wq *wq)
{
	return wq->ci != smp_load_acquire(&wq->pi);
}

/* cq->lock is held. Whether cq_flush() would find something. */
static bool cq_holds_work(struct rnic_cq *cq)
{
	struct rnic_qp *qp;

	list_for_each_entry(qp, &cq->send_qps, send_link)
		if (wq_holds_work(&qp->sq))
			return true;
	list_for_each_entry(qp, &cq->recv_qps, recv_link)
		if (wq_holds_work(&qp->rq))
			return true;
	return false;
}

int rnic_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc)
{
	struct rnic_dev *rdev = to_rnic(ibcq->device);
	struct rnic_cq *cq = to_rnic_cq(ibcq);
	unsigned long flags;
	u32 start;
	int n = 0;

	if (cq->umem)
		return -EINVAL;
	spin_lock_irqsave(&cq->lock, flags);
	start = cq->ci;
	while (n < num && cqe_is_new(cq, cq->ci)) {
		if (cqe_take(rdev, cqe_at(cq, cq->ci), &wc[n]))
			n++;
		cq->ci++;
	}
	if (cq->ci != start) {
		/* The CQEs were read before the device may write them again */
		dma_mb();
		WRITE_ONCE(cq->dbrec->ci, cpu_to_le32(cq->ci));
	}
	if (n < num && unlikely(test_bit(RNIC_QUIESCED, &rdev->flags)))
		n += cq_flush(cq, num - n, wc + n);
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

int rnic_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct rnic_dev *rdev = to_rnic(ibcq->device);
	struct rnic_cq *cq = to_rnic_cq(ibcq);
	unsigned long irqflags;
	bool flush;
	int ret = 0;
	u32 kind;

	/*
	 * A process arms its CQs itself. It comes here when it finds after
	 * posting that the device died meanwhile: rnic_cq_wake_processes() may
	 * have told another thread of it too early.
	 */
	if (cq->umem) {
		if (!test_bit(RNIC_QUIESCED, &rdev->flags))
			return -EINVAL;
		raise_event(cq);
		return 0;
	}
	kind = (flags & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED ?
	       RNIC_CQ_ARM_SOLICITED : RNIC_CQ_ARM_ANY;

	spin_lock_irqsave(&cq->lock, irqflags);
	/* A weaker request does not cancel one that is outstanding */
	if (kind == RNIC_CQ_ARM_ANY ||
	    READ_ONCE(cq->armed) != RNIC_CQ_ARM_ANY) {
		WRITE_ONCE(cq->armed, kind);
		WRITE_ONCE(cq->dbrec->arm,
			   cpu_to_le32(++cq->arm_seq << 2 | kind));
	}
	/* The device sees the arming, or we see its CQE */
	mb();
	if (flags & IB_CQ_REPORT_MISSED_EVENTS)
		ret = cqe_is_new(cq, cq->ci);
	/* With nothing to flush an event would make its consumer arm again */
	flush = unlikely(rnic_is_dead(rdev)) && cq_holds_work(cq);
	spin_unlock_irqrestore(&cq->lock, irqflags);

	if (flush)
		queue_work(rdev->wq, &rdev->flush_work);
	return ret;
}

void rnic_cq_add_qp(struct rnic_qp *qp)
{
	spin_lock_irq(&qp->send_cq->lock);
	list_add_tail(&qp->send_link, &qp->send_cq->send_qps);
	spin_unlock_irq(&qp->send_cq->lock);
	spin_lock_irq(&qp->recv_cq->lock);
	list_add_tail(&qp->recv_link, &qp->recv_cq->recv_qps);
	spin_unlock_irq(&qp->recv_cq->lock);
}

static void cq_drop(struct rnic_cq *cq, struct rnic_qp *qp)
{
	struct rnic_cqe *cqe;
	u32 i;

	for (i = cq->ci; i - cq->ci < cq->depth && cqe_is_new(cq, i); i++) {
		cqe = cqe_at(cq, i);
		if (le32_to_cpu(cqe->qpn) != qp->qpn)
			continue;
		/* An SRQ outlives the QP, and so must the room in it */
		if (cqe->opcode == RNIC_WR_RECV)
			recv_done(qp);
		cqe->qpn = RNIC_CQE_DROPPED;
	}
}

void rnic_cq_remove_qp(struct rnic_qp *qp)
{
	spin_lock_irq(&qp->send_cq->lock);
	list_del(&qp->send_link);
	cq_drop(qp->send_cq, qp);
	spin_unlock_irq(&qp->send_cq->lock);
	spin_lock_irq(&qp->recv_cq->lock);
	list_del(&qp->recv_link);
	cq_drop(qp->recv_cq, qp);
	spin_unlock_irq(&qp->recv_cq->lock);
}

void rnic_cq_flush_work(struct work_struct *work)
{
	struct rnic_dev *rdev = container_of(work, struct rnic_dev, flush_work);
	struct rnic_cq *cq;
	unsigned long cqn;

	wait_for_completion(&rdev->quiesced);
	/* destroy_cq erases under this lock */
	xa_lock(&rdev->cqs);
	xa_for_each(&rdev->cqs, cqn, cq) {
		if (cq->umem || !cq->ibcq.comp_handler)
			continue;
		/* A CQ that is polled directly wants no event */
		if (READ_ONCE(cq->armed) == RNIC_CQ_ARM_NONE &&
		    cq->ibcq.poll_ctx == IB_POLL_DIRECT)
			continue;
		WRITE_ONCE(cq->armed, RNIC_CQ_ARM_NONE);
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
	}
	xa_unlock(&rdev->cqs);
}

void rnic_cq_wake_processes(struct rnic_dev *rdev)
{
	struct rnic_cq *cq;
	unsigned long cqn;

	xa_lock(&rdev->cqs);
	xa_for_each(&rdev->cqs, cqn, cq) {
		/* How it is armed is not known; one event too many is borne */
		if (cq->umem)
			raise_event(cq);
	}
	xa_unlock(&rdev->cqs);
}
