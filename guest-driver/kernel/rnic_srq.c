// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Shared receive queues
 */
#include <linux/log2.h>

#include "rnic.h"

static int srq_create_user(struct rnic_dev *rdev, struct rnic_srq *srq,
			   struct ib_srq_attr *attr, struct ib_udata *udata,
			   struct rnic_cmd_create_srq *create,
			   struct rnic_pbl **pbl)
{
	struct rnic_create_srq_req req;
	int ret;

	if (udata->inlen < sizeof(req))
		return -EINVAL;
	ret = ib_copy_from_udata(&req, udata, sizeof(req));
	if (ret)
		return ret;
	if (req.depth < attr->max_wr || req.depth > rdev->limits.qp_wr ||
	    req.stride < RNIC_WQE_STRIDE_MIN ||
	    req.stride > RNIC_WQE_STRIDE_MAX ||
	    RNIC_RQ_STRIDE_SGES(req.stride) < attr->max_sge)
		return -EINVAL;
	srq->umem = rnic_umem_get(&rdev->ibdev, req.buf, req.buf_len,
				  IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(srq->umem))
		return PTR_ERR(srq->umem);
	ret = rnic_pbl_create(rdev, srq->umem, req.buf, &create->buf, pbl);
	if (ret) {
		ib_umem_release(srq->umem);
		return ret;
	}
	srq->depth = req.depth;
	create->stride = cpu_to_le32(req.stride);
	create->dbrec_offset = cpu_to_le32(req.dbrec_offset);
	return 0;
}

static int srq_create_kernel(struct rnic_dev *rdev, struct rnic_srq *srq,
			     struct ib_srq_attr *attr,
			     struct rnic_cmd_create_srq *create)
{
	struct rnic_wq *rq = &srq->rq;
	u32 dbrec_offset;
	int ret;

	spin_lock_init(&rq->lock);
	rq->depth = max_t(u32, roundup_pow_of_two(attr->max_wr), 2);
	if (rq->depth > rdev->limits.qp_wr)
		return -EINVAL;
	rq->max_sge = max(attr->max_sge, 1u);
	rq->stride = rnic_stride(sizeof(struct rnic_rq_wqe) +
				 rq->max_sge * sizeof(struct rnic_sge));
	dbrec_offset = rq->depth * rq->stride;
	ret = rnic_mem_alloc(rdev, &srq->mem,
			     dbrec_offset + sizeof(struct rnic_qp_dbrec));
	if (ret)
		return ret;
	rq->ring = srq->mem.va;
	srq->dbrec = srq->mem.va + dbrec_offset;
	srq->depth = rq->depth;
	create->stride = cpu_to_le32(rq->stride);
	create->dbrec_offset = cpu_to_le32(dbrec_offset);
	rnic_mem_desc(&srq->mem, &create->buf);
	return 0;
}

int rnic_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		    struct ib_udata *udata)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_CREATE_SRQ };
	struct rnic_dev *rdev = to_rnic(ibsrq->device);
	struct rnic_create_srq_resp resp = {};
	struct rnic_srq *srq = to_rnic_srq(ibsrq);
	struct ib_srq_attr *attr = &init->attr;
	struct rnic_pbl *pbl = NULL;
	int ret;

	if (init->srq_type != IB_SRQT_BASIC || !(rdev->caps & RNIC_CAP_SRQ))
		return -EOPNOTSUPP;
	if (!attr->max_wr || attr->max_wr > rdev->limits.qp_wr ||
	    attr->max_sge > rdev->limits.sge || attr->srq_limit > attr->max_wr)
		return -EINVAL;

	ret = xa_alloc_cyclic(&rdev->srqs, &srq->srqn, NULL,
			      XA_LIMIT(1, rdev->limits.srq - 1),
			      &rdev->next_srqn, GFP_KERNEL);
	if (ret < 0)
		return ret == -EBUSY ? -ENOMEM : ret;

	if (udata)
		ret = srq_create_user(rdev, srq, attr, udata, &cmd.create_srq,
				      &pbl);
	else
		ret = srq_create_kernel(rdev, srq, attr, &cmd.create_srq);
	if (ret)
		goto err_srqn;
	srq->max_sge = attr->max_sge;

	cmd.create_srq.srqn = cpu_to_le32(srq->srqn);
	cmd.create_srq.pdn = cpu_to_le32(to_rnic_pd(ibsrq->pd)->pdn);
	cmd.create_srq.uctx = cpu_to_le32(rnic_uctx_of(rdev, udata)->id);
	cmd.create_srq.depth = cpu_to_le32(srq->depth);
	cmd.create_srq.limit = cpu_to_le32(attr->srq_limit);
	ret = rnic_cmd(rdev, &cmd, NULL);
	rnic_pbl_free(rdev, pbl);
	if (ret)
		goto err_mem;

	if (udata) {
		resp.srqn = srq->srqn;
		ret = ib_copy_to_udata(udata, &resp,
				       min(sizeof(resp), udata->outlen));
		if (ret)
			goto err_srq;
	}
	attr->max_wr = srq->depth;
	/* Reserved above, so it needs no memory */
	xa_store(&rdev->srqs, srq->srqn, srq, GFP_KERNEL);
	return 0;

err_srq:
	rnic_cmd_destroy(rdev, RNIC_CMD_DESTROY_SRQ, srq->srqn);
err_mem:
	rnic_mem_free(rdev, &srq->mem);
	ib_umem_release(srq->umem);
err_srqn:
	xa_erase(&rdev->srqs, srq->srqn);
	return ret;
}

int rnic_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		    enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_MODIFY_SRQ };
	struct rnic_srq *srq = to_rnic_srq(ibsrq);

	if (mask & IB_SRQ_MAX_WR)
		return -EOPNOTSUPP;
	if (!(mask & IB_SRQ_LIMIT))
		return 0;
	if (attr->srq_limit > srq->depth)
		return -EINVAL;
	cmd.modify_srq.srqn = cpu_to_le32(srq->srqn);
	cmd.modify_srq.limit = cpu_to_le32(attr->srq_limit);
	return rnic_cmd(to_rnic(ibsrq->device), &cmd, NULL);
}

int rnic_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_QUERY_SRQ };
	struct rnic_srq *srq = to_rnic_srq(ibsrq);
	struct rnic_acqe result;
	int ret;

	cmd.id.id = cpu_to_le32(srq->srqn);
	ret = rnic_cmd(to_rnic(ibsrq->device), &cmd, &result);
	if (ret)
		return ret;
	attr->max_wr = srq->depth;
	attr->max_sge = srq->max_sge;
	attr->srq_limit = le32_to_cpu(result.query_srq.limit);
	return 0;
}

int rnic_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct rnic_dev *rdev = to_rnic(ibsrq->device);
	struct rnic_srq *srq = to_rnic_srq(ibsrq);

	rnic_cmd_destroy(rdev, RNIC_CMD_DESTROY_SRQ, srq->srqn);
	/* Its events are handled before the number can be used again */
	rnic_aeq_flush(rdev);
	xa_erase(&rdev->srqs, srq->srqn);
	rnic_mem_free(rdev, &srq->mem);
	ib_umem_release(srq->umem);
	return 0;
}
