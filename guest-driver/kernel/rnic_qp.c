// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Queue pairs
 */
#include <linux/log2.h>

#include "rnic.h"

u32 rnic_stride(size_t octets)
{
	u32 stride = RNIC_WQE_STRIDE_MIN;

	while (stride < octets)
		stride *= 2;
	return stride <= RNIC_WQE_STRIDE_MAX ? stride : 0;
}

struct rnic_qp *rnic_qp_get(struct rnic_dev *rdev, u32 qpn)
{
	struct rnic_qp *qp;

	xa_lock(&rdev->qps);
	qp = xa_load(&rdev->qps, qpn);
	if (qp && !refcount_inc_not_zero(&qp->refs))
		qp = NULL;
	xa_unlock(&rdev->qps);
	return qp;
}

void rnic_qp_put(struct rnic_qp *qp)
{
	if (refcount_dec_and_test(&qp->refs))
		complete(&qp->unreferenced);
}

enum rnic_qp_state rnic_qp_hw_state(struct rnic_qp *qp)
{
	return le32_to_cpu(READ_ONCE(qp->status->state));
}

static int check_cap(struct rnic_dev *rdev, struct ib_qp_init_attr *attr)
{
	struct rnic_limits *limits = &rdev->limits;
	struct ib_qp_cap *cap = &attr->cap;

	if (attr->qp_type != IB_QPT_RC || attr->create_flags)
		return -EOPNOTSUPP;
	if (cap->max_send_wr > limits->qp_wr ||
	    cap->max_recv_wr > limits->qp_wr ||
	    cap->max_send_sge > limits->sge ||
	    cap->max_recv_sge > limits->sge ||
	    cap->max_inline_data > limits->inline_data)
		return -EINVAL;
	return 0;
}

/* The page of a user's buffer that octet @offset is in */
static struct page *umem_page(struct ib_umem *umem, u32 offset)
{
	unsigned long skip = (ib_umem_offset(umem) + offset) >> PAGE_SHIFT;
	struct sg_page_iter iter;

	for_each_sgtable_page(&umem->sgt_append.sgt, &iter, skip)
		return sg_page_iter_page(&iter);
	return NULL;
}

static int qp_create_user(struct rnic_dev *rdev, struct rnic_qp *qp,
			  struct ib_udata *udata, struct rnic_cmd_create_qp *create,
			  struct rnic_pbl **pbl)
{
	struct rnic_create_qp_req req;
	struct ib_qp_cap *cap = &qp->cap;
	int ret;

	if (udata->inlen < sizeof(req))
		return -EINVAL;
	ret = ib_copy_from_udata(&req, udata, sizeof(req));
	if (ret)
		return ret;
	/* The device checks the rest: powers of two, offsets, overlaps */
	if (req.sq_depth < cap->max_send_wr ||
	    req.sq_depth > rdev->limits.qp_wr ||
	    req.sq_stride > RNIC_WQE_STRIDE_MAX ||
	    req.rq_stride > RNIC_WQE_STRIDE_MAX)
		return -EINVAL;
	if (qp->srq ? req.rq_depth != 0 :
	    (req.rq_depth < cap->max_recv_wr ||
	     req.rq_depth > rdev->limits.qp_wr))
		return -EINVAL;
	/* rnic_sq_release() writes there: within the buffer, and in one page */
	if (req.buf_len < sizeof(struct rnic_qp_dbrec) ||
	    req.dbrec_offset > req.buf_len - sizeof(struct rnic_qp_dbrec) ||
	    !IS_ALIGNED(req.buf + req.dbrec_offset,
			sizeof(struct rnic_qp_dbrec)))
		return -EINVAL;

	qp->umem = rnic_umem_get(&rdev->ibdev, req.buf, req.buf_len,
				 IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(qp->umem))
		return PTR_ERR(qp->umem);
	qp->dbrec_page = umem_page(qp->umem, req.dbrec_offset);
	qp->dbrec_in_page = offset_in_page(req.buf + req.dbrec_offset);
	ret = qp->dbrec_page ? 0 : -EINVAL;
	if (!ret)
		ret = rnic_pbl_create(rdev, qp->umem, req.buf, &create->buf,
				      pbl);
	if (ret) {
		ib_umem_release(qp->umem);
		return ret;
	}
	create->sq_stride = cpu_to_le16(req.sq_stride);
	create->rq_stride = cpu_to_le16(req.rq_stride);
	create->sq_depth = cpu_to_le32(req.sq_depth);
	create->rq_depth = cpu_to_le32(req.rq_depth);
	create->sq_offset = cpu_to_le32(req.sq_offset);
	create->rq_offset = cpu_to_le32(req.rq_offset);
	create->dbrec_offset = cpu_to_le32(req.dbrec_offset);

	cap->max_send_wr = req.sq_depth;
	cap->max_recv_wr = req.rq_depth;
	return 0;
}

static void wq_init(struct rnic_wq *wq, u32 wrs, u32 sges, size_t octets)
{
	spin_lock_init(&wq->lock);
	wq->depth = wrs ? max_t(u32, roundup_pow_of_two(wrs), 2) : 0;
	wq->max_sge = sges;
	wq->stride = rnic_stride(octets);
}

static int qp_create_kernel(struct rnic_dev *rdev, struct rnic_qp *qp,
			    struct rnic_cmd_create_qp *create)
{
	struct ib_qp_cap *cap = &qp->cap;
	u32 sges, rq_offset, dbrec_offset;
	size_t octets;
	int ret;

	if (cap->max_send_wr > RNIC_KERNEL_MAX_WR ||
	    cap->max_recv_wr > RNIC_KERNEL_MAX_WR)
		return -EINVAL;

	/* Never 0: a WQE without data still has its first SGE's room */
	sges = max(cap->max_send_sge, 1u);
	octets = sizeof(struct rnic_sq_wqe) +
		 max_t(size_t, sges * sizeof(struct rnic_sge),
		       cap->max_inline_data);
	/* So that a masked atomic fits */
	if (rdev->caps & RNIC_CAP_RFC7306)
		octets = max(octets, sizeof(struct rnic_atomic_wqe));
	wq_init(&qp->sq, cap->max_send_wr, sges, octets);
	sges = max(cap->max_recv_sge, 1u);
	wq_init(&qp->rq, qp->srq ? 0 : cap->max_recv_wr, sges,
		sizeof(struct rnic_rq_wqe) + sges * sizeof(struct rnic_sge));
	if (!qp->sq.stride || !qp->rq.stride)
		return -EINVAL;

	rq_offset = qp->sq.depth * qp->sq.stride;
	dbrec_offset = rq_offset + qp->rq.depth * qp->rq.stride;
	ret = rnic_mem_alloc(rdev, &qp->mem,
			     dbrec_offset + sizeof(struct rnic_qp_dbrec));
	if (ret)
		return ret;
	qp->sq.ring = qp->mem.va;
	qp->rq.ring = qp->mem.va + rq_offset;
	qp->dbrec = qp->mem.va + dbrec_offset;

	create->flags |= cpu_to_le32(RNIC_QP_KERNEL);
	create->sq_stride = cpu_to_le16(qp->sq.stride);
	create->rq_stride = cpu_to_le16(qp->rq.stride);
	create->sq_depth = cpu_to_le32(qp->sq.depth);
	create->rq_depth = cpu_to_le32(qp->rq.depth);
	create->rq_offset = cpu_to_le32(rq_offset);
	create->dbrec_offset = cpu_to_le32(dbrec_offset);
	rnic_mem_desc(&qp->mem, &create->buf);

	cap->max_send_wr = qp->sq.depth;
	cap->max_recv_wr = qp->rq.depth;
	return 0;
}

int rnic_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
		   struct ib_udata *udata)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_CREATE_QP };
	struct rnic_cmd_create_qp *create = &cmd.create_qp;
	struct rnic_dev *rdev = to_rnic(ibqp->device);
	struct rnic_create_qp_resp resp = {};
	struct rnic_qp *qp = to_rnic_qp(ibqp);
	struct rnic_pbl *pbl = NULL;
	dma_addr_t status_dma;
	int ret;

	ret = check_cap(rdev, attr);
	if (ret)
		return ret;

	refcount_set(&qp->refs, 1);
	init_completion(&qp->unreferenced);
	spin_lock_init(&qp->conn_lock);
	init_waitqueue_head(&qp->conn_wait);
	INIT_WORK(&qp->refused_work, rnic_cm_refused_work);
	qp->idle_state = IB_QPS_INIT;
	qp->send_cq = to_rnic_cq(attr->send_cq);
	qp->recv_cq = to_rnic_cq(attr->recv_cq);
	qp->srq = attr->srq ? to_rnic_srq(attr->srq) : NULL;
	qp->sig_all = attr->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->uctx = rnic_uctx_of(rdev, udata);
	qp->cap = attr->cap;

	ret = xa_alloc_cyclic(&rdev->qps, &qp->qpn, NULL,
			      XA_LIMIT(1, rdev->limits.qp - 1), &rdev->next_qpn,
			      GFP_KERNEL);
	if (ret < 0)
		return ret == -EBUSY ? -ENOMEM : ret;

	ret = rnic_status_get(rdev, qp, &status_dma);
	if (ret)
		goto err_qpn;
	if (udata)
		ret = qp_create_user(rdev, qp, udata, create, &pbl);
	else
		ret = qp_create_kernel(rdev, qp, create);
	if (ret)
		goto err_status;

	create->qpn = cpu_to_le32(qp->qpn);
	create->pdn = cpu_to_le32(to_rnic_pd(ibqp->pd)->pdn);
	create->uctx = cpu_to_le32(qp->uctx->id);
	create->send_cqn = cpu_to_le32(qp->send_cq->cqn);
	create->recv_cqn = cpu_to_le32(qp->recv_cq->cqn);
	create->srqn = cpu_to_le32(qp->srq ? qp->srq->srqn : 0);
	if (qp->sig_all)
		create->flags |= cpu_to_le32(RNIC_QP_SIG_ALL);
	/* For consumers that go around this driver and the provider */
	if (qp->uctx->sq_policy != RNIC_SQ_FENCE &&
	    rdev->caps & RNIC_CAP_ERROR_PRE_RTS)
		create->flags |= cpu_to_le32(RNIC_QP_ERROR_PRE_RTS);
	create->status_addr = cpu_to_le64(status_dma);
	ret = rnic_cmd(rdev, &cmd, NULL);
	rnic_pbl_free(rdev, pbl);
	if (ret)
		goto err_mem;

	if (udata) {
		resp.qpn = qp->qpn;
		rnic_status_user(qp, &resp);
		ret = ib_copy_to_udata(udata, &resp,
				       min(sizeof(resp), udata->outlen));
		if (ret)
			goto err_qp;
	} else {
		rnic_cq_add_qp(qp);
	}
	ibqp->qp_num = qp->qpn;
	attr->cap = qp->cap;
	/* Reserved above, so it needs no memory */
	xa_store(&rdev->qps, qp->qpn, qp, GFP_KERNEL);
	/* If the device died meanwhile, nobody may have told the process */
	smp_mb();
	if (qp->umem && test_bit(RNIC_QUIESCED, &rdev->flags))
		WRITE_ONCE(qp->status->state, cpu_to_le32(RNIC_QPS_RESET));
	return 0;

err_qp:
	rnic_cmd_destroy(rdev, RNIC_CMD_DESTROY_QP, qp->qpn);
err_mem:
	rnic_mem_free(rdev, &qp->mem);
	ib_umem_release(qp->umem);
err_status:
	rnic_status_put(qp);
err_qpn:
	xa_erase(&rdev->qps, qp->qpn);
	return ret;
}

int rnic_qp_set_state(struct rnic_dev *rdev, u32 qpn, enum rnic_qp_state state)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_MODIFY_QP };

	cmd.modify_qp.qpn = cpu_to_le32(qpn);
	cmd.modify_qp.state = cpu_to_le32(state);
	return rnic_cmd(rdev, &cmd, NULL);
}

static enum ib_qp_state qp_state(struct rnic_dev *rdev, struct rnic_qp *qp)
{
	if (rnic_is_dead(rdev))
		return IB_QPS_ERR;
	switch (rnic_qp_hw_state(qp)) {
	case RNIC_QPS_RESET:
	case RNIC_QPS_IDLE:
		return qp->idle_state;
	case RNIC_QPS_RTS:
		return IB_QPS_RTS;
	case RNIC_QPS_CLOSING:
		return IB_QPS_SQD;
	case RNIC_QPS_TERMINATE:
		return IB_QPS_SQE;
	case RNIC_QPS_ERROR:
	default:
		return IB_QPS_ERR;
	}
}

int rnic_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata)
{
	struct rnic_dev *rdev = to_rnic(ibqp->device);
	struct rnic_qp *qp = to_rnic_qp(ibqp);
	enum ib_qp_state now;
	int ret = 0;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;

	/* An empty mask is how librdmacm moves to RTS what the connection
	 * manager has moved already
	 */
	if (mask & IB_QP_STATE) {
		now = qp_state(rdev, qp);
		switch (attr->qp_state) {
		case IB_QPS_RESET:
		case IB_QPS_INIT:
		case IB_QPS_RTR:
			if (now != IB_QPS_RESET && now != IB_QPS_INIT &&
			    now != IB_QPS_RTR)
				return -EINVAL;
			qp->idle_state = attr->qp_state;
			break;
		case IB_QPS_RTS:
			if (now == IB_QPS_RTS)
				break;
			ibdev_dbg(&rdev->ibdev,
				  "QP %u: only a connection leads to RTS\n",
				  qp->qpn);
			return -EINVAL;
		case IB_QPS_SQD:
			if (now == IB_QPS_SQD || now == IB_QPS_ERR)
				break;
			ret = rnic_qp_set_state(rdev, qp->qpn,
						RNIC_QPS_CLOSING);
			/* When both ends disconnect, the later one finds the
			 * connection closed
			 */
			if (ret && qp_state(rdev, qp) == IB_QPS_ERR)
				ret = 0;
			break;
		case IB_QPS_SQE:
			if (now != IB_QPS_SQE)
				ret = rnic_qp_set_state(rdev, qp->qpn,
							RNIC_QPS_TERMINATE);
			break;
		case IB_QPS_ERR:
			if (now == IB_QPS_ERR)
				break;
			ret = rnic_qp_set_state(rdev, qp->qpn, RNIC_QPS_ERROR);
			if (!ret)
				rnic_sq_release(rdev, qp);
			/* All is flushed on a dead device, so drains work */
			if (ret == -EIO)
				ret = 0;
			break;
		default:
			return -EINVAL;
		}
	}
	if (!ret && (mask & IB_QP_ACCESS_FLAGS))
		qp->access = attr->qp_access_flags;
	return ret;
}

int rnic_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init_attr)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_QUERY_QP };
	struct rnic_dev *rdev = to_rnic(ibqp->device);
	struct rnic_qp *qp = to_rnic_qp(ibqp);
	struct rnic_acqe result = {};
	int ret;

	cmd.id.id = cpu_to_le32(qp->qpn);
	ret = rnic_cmd(rdev, &cmd, &result);
	/* A dead device has all its QPs in ERROR */
	if (ret && ret != -EIO)
		return ret;

	attr->qp_state = qp_state(rdev, qp);
	attr->cur_qp_state = attr->qp_state;
	attr->path_mtu = ib_mtu_int_to_enum(rdev->ndev->mtu);
	attr->qp_access_flags = qp->access;
	attr->max_rd_atomic = min_t(u16, le16_to_cpu(result.query_qp.ord),
				    U8_MAX);
	attr->max_dest_rd_atomic = min_t(u16, le16_to_cpu(result.query_qp.ird),
					 U8_MAX);
	attr->port_num = 1;
	attr->cap = qp->cap;

	init_attr->event_handler = ibqp->event_handler;
	init_attr->qp_context = ibqp->qp_context;
	init_attr->send_cq = ibqp->send_cq;
	init_attr->recv_cq = ibqp->recv_cq;
	init_attr->srq = ibqp->srq;
	init_attr->cap = qp->cap;
	init_attr->sq_sig_type = qp->sig_all ? IB_SIGNAL_ALL_WR :
					       IB_SIGNAL_REQ_WR;
	init_attr->qp_type = ibqp->qp_type;
	return 0;
}

int rnic_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct rnic_dev *rdev = to_rnic(ibqp->device);
	struct rnic_qp *qp = to_rnic_qp(ibqp);

	rnic_cm_finish(rdev, qp);
	rnic_cmd_destroy(rdev, RNIC_CMD_DESTROY_QP, qp->qpn);
	/* Its events are handled before the number can be used again */
	rnic_aeq_flush(rdev);
	if (!udata && !qp->umem)
		rnic_cq_remove_qp(qp);
	xa_erase(&rdev->qps, qp->qpn);
	/* iw_cm lets go when it has handled the last event */
	rnic_qp_put(qp);
	wait_for_completion(&qp->unreferenced);

	rnic_status_put(qp);
	rnic_mem_free(rdev, &qp->mem);
	ib_umem_release(qp->umem);
	return 0;
}
