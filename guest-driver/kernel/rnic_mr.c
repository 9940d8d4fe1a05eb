// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Memory regions
 */
#include "rnic.h"

/* Rights to operations that the device has not (windows, and atomics without
 * RNIC_CAP_RFC7306) mean nothing
 */
#define RNIC_MR_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |  \
			 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC | \
			 IB_ACCESS_MW_BIND | IB_ACCESS_HUGETLB |	   \
			 IB_ACCESS_OPTIONAL)

u32 rnic_access(struct rnic_dev *rdev, int ib_access)
{
	u32 access = 0;

	if (ib_access & IB_ACCESS_LOCAL_WRITE)
		access |= RNIC_ACCESS_LOCAL_WRITE;
	if (ib_access & IB_ACCESS_REMOTE_READ)
		access |= RNIC_ACCESS_REMOTE_READ;
	if (ib_access & IB_ACCESS_REMOTE_WRITE)
		access |= RNIC_ACCESS_REMOTE_WRITE;
	if (ib_access & IB_ACCESS_REMOTE_ATOMIC &&
	    rdev->caps & RNIC_CAP_RFC7306)
		access |= RNIC_ACCESS_REMOTE_ATOMIC;
	return access;
}

/* A key that the region of this index did not have lately */
static u8 next_key(struct rnic_dev *rdev)
{
	return atomic_inc_return(&rdev->next_key);
}

static void set_stag(struct rnic_mr *mr, const struct rnic_acqe *result)
{
	mr->ibmr.lkey = le32_to_cpu(result->mr.stag);
	mr->ibmr.rkey = mr->ibmr.lkey;
}

static int reg_mr(struct rnic_dev *rdev, struct rnic_pd *pd,
		  struct rnic_mr *mr, struct rnic_asqe *cmd, int access)
{
	struct rnic_acqe result;
	int ret;

	cmd->opcode = RNIC_CMD_REG_MR;
	cmd->reg_mr.pdn = cpu_to_le32(pd->pdn);
	cmd->reg_mr.access = cpu_to_le32(rnic_access(rdev, access));
	cmd->reg_mr.key = next_key(rdev);
	ret = rnic_cmd(rdev, cmd, &result);
	if (!ret)
		set_stag(mr, &result);
	return ret;
}

struct ib_mr *rnic_get_dma_mr(struct ib_pd *ibpd, int access)
{
	struct rnic_dev *rdev = to_rnic(ibpd->device);
	struct rnic_asqe cmd = {};
	struct rnic_mr *mr;
	int ret;

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	cmd.reg_mr.flags = cpu_to_le32(RNIC_MR_ALL_DMA);
	ret = reg_mr(rdev, to_rnic_pd(ibpd), mr, &cmd, access);
	if (ret) {
		kfree(mr);
		return ERR_PTR(ret);
	}
	return &mr->ibmr;
}

struct ib_mr *rnic_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
			       u64 virt_addr, int access,
			       struct ib_udata *udata)
{
	struct rnic_dev *rdev = to_rnic(ibpd->device);
	struct rnic_asqe cmd = {};
	struct rnic_pbl *pbl;
	struct rnic_mr *mr;
	int ret;

	if (access & ~RNIC_MR_ACCESS)
		return ERR_PTR(-EOPNOTSUPP);
	if (!length || length > rdev->limits.mr_size)
		return ERR_PTR(-EINVAL);

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->umem = rnic_umem_get(ibpd->device, start, length, access);
	if (IS_ERR(mr->umem)) {
		ret = PTR_ERR(mr->umem);
		goto err_mr;
	}
	ret = rnic_pbl_create(rdev, mr->umem, virt_addr, &cmd.reg_mr.buf,
			      &pbl);
	if (ret)
		goto err_umem;
	cmd.reg_mr.iova = cpu_to_le64(virt_addr);
	ret = reg_mr(rdev, to_rnic_pd(ibpd), mr, &cmd, access);
	rnic_pbl_free(rdev, pbl);
	if (ret)
		goto err_umem;
	return &mr->ibmr;

err_umem:
	ib_umem_release(mr->umem);
err_mr:
	kfree(mr);
	return ERR_PTR(ret);
}

struct ib_mr *rnic_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
			    u32 max_num_sg)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_ALLOC_MR };
	struct rnic_dev *rdev = to_rnic(ibpd->device);
	struct rnic_acqe result;
	struct rnic_mr *mr;
	int ret;

	if (type != IB_MR_TYPE_MEM_REG || !(rdev->caps & RNIC_CAP_FAST_REG))
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg || max_num_sg > rdev->limits.fr_pages)
		return ERR_PTR(-EINVAL);

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->max_pages = max_num_sg;
	ret = rnic_mem_alloc(rdev, &mr->pages, max_num_sg * sizeof(__le64));
	if (ret)
		goto err_mr;

	cmd.alloc_mr.pdn = cpu_to_le32(to_rnic_pd(ibpd)->pdn);
	cmd.alloc_mr.max_pages = cpu_to_le32(max_num_sg);
	cmd.alloc_mr.key = next_key(rdev);
	ret = rnic_cmd(rdev, &cmd, &result);
	if (ret)
		goto err_pages;
	set_stag(mr, &result);
	return &mr->ibmr;

err_pages:
	rnic_mem_free(rdev, &mr->pages);
err_mr:
	kfree(mr);
	return ERR_PTR(ret);
}

static int set_page(struct ib_mr *ibmr, u64 addr)
{
	struct rnic_mr *mr = to_rnic_mr(ibmr);
	__le64 *pages = mr->pages.va;

	if (mr->num_pages == mr->max_pages)
		return -ENOMEM;
	pages[mr->num_pages++] = cpu_to_le64(addr);
	return 0;
}

int rnic_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents,
		   unsigned int *offset)
{
	to_rnic_mr(ibmr)->num_pages = 0;
	return ib_sg_to_pages(ibmr, sg, nents, offset, set_page);
}

int rnic_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct rnic_dev *rdev = to_rnic(ibmr->device);
	struct rnic_mr *mr = to_rnic_mr(ibmr);

	rnic_cmd_destroy(rdev, RNIC_CMD_DEREG_MR, ibmr->lkey);
	rnic_mem_free(rdev, &mr->pages);
	ib_umem_release(mr->umem);
	kfree(mr);
	return 0;
}
