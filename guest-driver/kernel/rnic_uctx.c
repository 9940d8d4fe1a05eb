// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Contexts: doorbell pages, doorbell bitmaps, QP status pages, and their
 * mappings into a process
 */
#include "rnic.h"

enum rnic_mmap_type {
	RNIC_MMAP_DOORBELL,
	RNIC_MMAP_DBMAP,
	RNIC_MMAP_STATUS,
};

/* Owns its page, so that the page lives as long as a process maps it */
struct rnic_mmap_entry {
	struct rdma_user_mmap_entry rdma_entry;
	struct rnic_dev *rdev;
	enum rnic_mmap_type type;
	unsigned long pfn;
	struct page *page;		/* NULL for a doorbell page */
	dma_addr_t dma;
};

/* A page of statuses that are all of one context */
struct rnic_status_page {
	struct list_head list;
	struct page *page;
	dma_addr_t dma;
	struct rdma_user_mmap_entry *entry;	/* NULL for the kernel */
	DECLARE_BITMAP(used, RNIC_STATUS_PER_PAGE);
};

static struct rnic_mmap_entry *to_mmap(struct rdma_user_mmap_entry *entry)
{
	return container_of(entry, struct rnic_mmap_entry, rdma_entry);
}

/* Pages and not coherent memory: a process maps them */
static struct page *page_alloc(struct rnic_dev *rdev, dma_addr_t *dma)
{
	struct page *page;

	page = dma_alloc_pages(&rdev->pdev->dev, PAGE_SIZE, dma,
			       DMA_BIDIRECTIONAL, GFP_KERNEL | __GFP_ZERO);
	if (page)
		clear_page(page_address(page));
	return page;
}

static void page_free(struct rnic_dev *rdev, struct page *page, dma_addr_t dma)
{
	dma_free_pages(&rdev->pdev->dev, PAGE_SIZE, page, dma,
		       DMA_BIDIRECTIONAL);
}

static struct rdma_user_mmap_entry *
mmap_insert(struct rnic_dev *rdev, struct ib_ucontext *ibuc,
	    enum rnic_mmap_type type, unsigned long pfn, struct page *page,
	    dma_addr_t dma)
{
	struct rnic_mmap_entry *entry = kzalloc(sizeof(*entry), GFP_KERNEL);
	int ret;

	if (!entry)
		return ERR_PTR(-ENOMEM);
	entry->rdev = rdev;
	entry->type = type;
	entry->pfn = pfn;
	entry->page = page;
	entry->dma = dma;
	ret = rdma_user_mmap_entry_insert(ibuc, &entry->rdma_entry, PAGE_SIZE);
	if (ret) {
		kfree(entry);
		return ERR_PTR(ret);
	}
	return &entry->rdma_entry;
}

void rnic_mmap_free(struct rdma_user_mmap_entry *rdma_entry)
{
	struct rnic_mmap_entry *entry = to_mmap(rdma_entry);

	if (entry->page)
		page_free(entry->rdev, entry->page, entry->dma);
	kfree(entry);
}

int rnic_mmap(struct ib_ucontext *ibuc, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *rdma_entry;
	struct rnic_mmap_entry *entry;
	pgprot_t prot;
	int ret;

	rdma_entry = rdma_user_mmap_entry_get(ibuc, vma);
	if (!rdma_entry)
		return -EINVAL;
	entry = to_mmap(rdma_entry);

	prot = vma->vm_page_prot;
	switch (entry->type) {
	case RNIC_MMAP_DOORBELL:
		prot = pgprot_noncached(prot);
		break;
	case RNIC_MMAP_STATUS:
		if (vma->vm_flags & VM_WRITE) {
			ret = -EPERM;
			goto out;
		}
		vm_flags_clear(vma, VM_MAYWRITE);
		break;
	case RNIC_MMAP_DBMAP:
		break;
	}
	/* For memory too: it is what unmaps them when the device goes away */
	ret = rdma_user_mmap_io(ibuc, vma, entry->pfn, PAGE_SIZE, prot,
				rdma_entry);
out:
	rdma_user_mmap_entry_put(rdma_entry);
	return ret;
}

void rnic_disassociate_ucontext(struct ib_ucontext *ibuc)
{
	/* ib_uverbs unmaps all that rdma_user_mmap_io() mapped */
}

static int uctx_create(struct rnic_dev *rdev, struct rnic_uctx *uctx, u32 id)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_CREATE_UCTX };
	int ret;

	uctx->id = id;
	uctx->sq_policy = rdev->sq_policy;
	mutex_init(&uctx->lock);
	INIT_LIST_HEAD(&uctx->status_pages);
	uctx->dbmap_page = page_alloc(rdev, &uctx->dbmap_dma);
	if (!uctx->dbmap_page)
		return -ENOMEM;
	uctx->dbmap = page_address(uctx->dbmap_page);

	cmd.uctx.uctx = cpu_to_le32(id);
	cmd.uctx.dbmap = cpu_to_le64(uctx->dbmap_dma);
	ret = rnic_cmd(rdev, &cmd, NULL);
	if (ret)
		page_free(rdev, uctx->dbmap_page, uctx->dbmap_dma);
	return ret;
}

static void uctx_free_status(struct rnic_dev *rdev, struct rnic_uctx *uctx)
{
	struct rnic_status_page *sp, *next;

	list_for_each_entry_safe(sp, next, &uctx->status_pages, list) {
		if (sp->entry)
			rdma_user_mmap_entry_remove(sp->entry);
		else
			page_free(rdev, sp->page, sp->dma);
		kfree(sp);
	}
}

int rnic_kctx_create(struct rnic_dev *rdev)
{
	return uctx_create(rdev, &rdev->kctx, RNIC_KERNEL_UCTX);
}

/* After the device was stopped */
void rnic_kctx_free(struct rnic_dev *rdev)
{
	uctx_free_status(rdev, &rdev->kctx);
	page_free(rdev, rdev->kctx.dbmap_page, rdev->kctx.dbmap_dma);
}

int rnic_alloc_ucontext(struct ib_ucontext *ibuc, struct ib_udata *udata)
{
	struct rnic_dev *rdev = to_rnic(ibuc->device);
	struct rnic_ucontext *uc = to_rnic_ucontext(ibuc);
	struct rnic_alloc_ucontext_resp resp = {};
	struct rdma_user_mmap_entry *entry;
	unsigned long pfn;
	int id, ret;

	id = ida_alloc_range(&rdev->uctx_ids, RNIC_KERNEL_UCTX + 1,
			     min_t(u32, rdev->limits.uctx, RNIC_DB_PAGES) - 1,
			     GFP_KERNEL);
	if (id < 0)
		return id == -ENOSPC ? -ENOMEM : id;
	ret = uctx_create(rdev, &uc->uctx, id);
	if (ret)
		goto err_id;

	pfn = (pci_resource_start(rdev->pdev, RNIC_BAR_DB) >> PAGE_SHIFT) + id;
	entry = mmap_insert(rdev, ibuc, RNIC_MMAP_DOORBELL, pfn, NULL, 0);
	if (IS_ERR(entry)) {
		ret = PTR_ERR(entry);
		goto err_uctx;
	}
	uc->db_entry = entry;
	entry = mmap_insert(rdev, ibuc, RNIC_MMAP_DBMAP,
			    page_to_pfn(uc->uctx.dbmap_page),
			    uc->uctx.dbmap_page, uc->uctx.dbmap_dma);
	if (IS_ERR(entry)) {
		ret = PTR_ERR(entry);
		goto err_db;
	}
	uc->dbmap_entry = entry;

	resp.db_offset = rdma_user_mmap_get_offset(uc->db_entry);
	resp.dbmap_offset = rdma_user_mmap_get_offset(uc->dbmap_entry);
	resp.caps = rdev->caps;
	resp.uctx = id;
	resp.max_qp = rdev->limits.qp;
	resp.max_inline = rdev->limits.inline_data;
	resp.max_sge = rdev->limits.sge;
	resp.sq_policy = uc->uctx.sq_policy;
	/* A provider that does not know of policies posts for the fence */
	if (udata->outlen < offsetofend(typeof(resp), sq_policy))
		uc->uctx.sq_policy = RNIC_SQ_FENCE;
	ret = ib_copy_to_udata(udata, &resp, min(sizeof(resp), udata->outlen));
	if (ret)
		goto err_dbmap;
	return 0;

err_dbmap:
	rnic_cmd_destroy(rdev, RNIC_CMD_DESTROY_UCTX, id);
	rdma_user_mmap_entry_remove(uc->dbmap_entry);
	rdma_user_mmap_entry_remove(uc->db_entry);
	goto err_id;
err_db:
	rdma_user_mmap_entry_remove(uc->db_entry);
err_uctx:
	rnic_cmd_destroy(rdev, RNIC_CMD_DESTROY_UCTX, id);
	page_free(rdev, uc->uctx.dbmap_page, uc->uctx.dbmap_dma);
err_id:
	ida_free(&rdev->uctx_ids, id);
	return ret;
}

void rnic_dealloc_ucontext(struct ib_ucontext *ibuc)
{
	struct rnic_dev *rdev = to_rnic(ibuc->device);
	struct rnic_ucontext *uc = to_rnic_ucontext(ibuc);

	rnic_cmd_destroy(rdev, RNIC_CMD_DESTROY_UCTX, uc->uctx.id);
	uctx_free_status(rdev, &uc->uctx);
	rdma_user_mmap_entry_remove(uc->dbmap_entry);
	rdma_user_mmap_entry_remove(uc->db_entry);
	ida_free(&rdev->uctx_ids, uc->uctx.id);
}

struct rnic_uctx *rnic_uctx_of(struct rnic_dev *rdev, struct ib_udata *udata)
{
	struct rnic_ucontext *uc;

	if (!udata)
		return &rdev->kctx;
	uc = rdma_udata_to_drv_context(udata, struct rnic_ucontext, ibuc);
	return &uc->uctx;
}

static struct rnic_status_page *status_page_create(struct rnic_dev *rdev,
						   struct rnic_uctx *uctx)
{
	struct rnic_status_page *sp = kzalloc(sizeof(*sp), GFP_KERNEL);
	struct rnic_ucontext *uc;

	if (!sp)
		return NULL;
	sp->page = page_alloc(rdev, &sp->dma);
	if (!sp->page)
		goto err_sp;
	if (uctx != &rdev->kctx) {
		uc = container_of(uctx, struct rnic_ucontext, uctx);
		sp->entry = mmap_insert(rdev, &uc->ibuc, RNIC_MMAP_STATUS,
					page_to_pfn(sp->page), sp->page,
					sp->dma);
		if (IS_ERR(sp->entry))
			goto err_page;
	}
	list_add(&sp->list, &uctx->status_pages);
	return sp;

err_page:
	page_free(rdev, sp->page, sp->dma);
err_sp:
	kfree(sp);
	return NULL;
}

int rnic_status_get(struct rnic_dev *rdev, struct rnic_qp *qp, dma_addr_t *dma)
{
	struct rnic_uctx *uctx = qp->uctx;
	struct rnic_status_page *sp;
	unsigned long i = 0;

	mutex_lock(&uctx->lock);
	list_for_each_entry(sp, &uctx->status_pages, list) {
		i = find_first_zero_bit(sp->used, RNIC_STATUS_PER_PAGE);
		if (i < RNIC_STATUS_PER_PAGE)
			goto found;
	}
	sp = status_page_create(rdev, uctx);
	if (!sp) {
		mutex_unlock(&uctx->lock);
		return -ENOMEM;
	}
	i = 0;
found:
	__set_bit(i, sp->used);
	mutex_unlock(&uctx->lock);

	qp->status_page = sp;
	qp->status = (struct rnic_qp_status *)page_address(sp->page) + i;
	memset(qp->status, 0, sizeof(*qp->status));
	*dma = sp->dma + i * sizeof(*qp->status);
	return 0;
}

static unsigned int status_index(struct rnic_qp *qp)
{
	struct rnic_qp_status *base = page_address(qp->status_page->page);

	return qp->status - base;
}

void rnic_status_put(struct rnic_qp *qp)
{
	mutex_lock(&qp->uctx->lock);
	__clear_bit(status_index(qp), qp->status_page->used);
	mutex_unlock(&qp->uctx->lock);
}

void rnic_status_user(struct rnic_qp *qp, struct rnic_create_qp_resp *resp)
{
	resp->status_offset = rdma_user_mmap_get_offset(qp->status_page->entry);
	resp->status_in_page = status_index(qp) * sizeof(*qp->status);
}
