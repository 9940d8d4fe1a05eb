// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Descriptors of pinned user memory: page tables of one to three levels, which
 * the device reads within the command
 */
#include "rnic.h"

#define PBL_ENTRIES	(RNIC_PBL_TABLE / sizeof(__le64))
#define RNIC_PBL_TABLE	4096
#define PBL_LEVELS	3
/* Page sizes that a descriptor can name */
#define PBL_PAGE_SIZES	GENMASK(30, 12)

struct rnic_pbl_table {
	__le64 *entries;
	dma_addr_t dma;
};

struct rnic_pbl {
	size_t num_tables;
	struct rnic_pbl_table tables[];
};

static void tables_free(struct rnic_dev *rdev, struct rnic_pbl *pbl)
{
	struct rnic_pbl_table *table;
	size_t i;

	for (i = 0; i < pbl->num_tables; i++) {
		table = &pbl->tables[i];
		dma_unmap_single(&rdev->pdev->dev, table->dma, RNIC_PBL_TABLE,
				 DMA_TO_DEVICE);
		kfree(table->entries);
	}
	kvfree(pbl);
}

/* Next table, to be filled and then given to the device */
static __le64 *table_new(struct rnic_pbl *pbl)
{
	__le64 *entries;

	/* kmalloc() of a power of two is aligned to it */
	entries = kzalloc(RNIC_PBL_TABLE, GFP_KERNEL_ACCOUNT);
	if (entries)
		pbl->tables[pbl->num_tables].entries = entries;
	return entries;
}

/* Only a table that this succeeded for counts in num_tables */
static int table_map(struct rnic_dev *rdev, struct rnic_pbl *pbl)
{
	struct rnic_pbl_table *table = &pbl->tables[pbl->num_tables];

	table->dma = dma_map_single(&rdev->pdev->dev, table->entries,
				    RNIC_PBL_TABLE, DMA_TO_DEVICE);
	if (dma_mapping_error(&rdev->pdev->dev, table->dma)) {
		kfree(table->entries);
		return -ENOMEM;
	}
	pbl->num_tables++;
	return 0;
}

static int fill_leaves(struct rnic_dev *rdev, struct rnic_pbl *pbl,
		       struct ib_umem *umem, unsigned long page_size)
{
	struct ib_block_iter iter;
	__le64 *entries = NULL;
	size_t n = 0;
	int ret;

	rdma_umem_for_each_dma_block(umem, &iter, page_size) {
		if (n == PBL_ENTRIES) {
			ret = table_map(rdev, pbl);
			if (ret)
				return ret;
			entries = NULL;
			n = 0;
		}
		if (!entries) {
			entries = table_new(pbl);
			if (!entries)
				return -ENOMEM;
		}
		entries[n++] =
			cpu_to_le64(rdma_block_iter_dma_address(&iter));
	}
	return entries ? table_map(rdev, pbl) : -EINVAL;
}

/* A level above the @count tables from @first on */
static int fill_level(struct rnic_dev *rdev, struct rnic_pbl *pbl,
		      size_t first, size_t count)
{
	__le64 *entries = NULL;
	size_t i;
	int ret;

	for (i = 0; i < count; i++) {
		if (i % PBL_ENTRIES == 0) {
			if (entries) {
				ret = table_map(rdev, pbl);
				if (ret)
					return ret;
			}
			entries = table_new(pbl);
			if (!entries)
				return -ENOMEM;
		}
		entries[i % PBL_ENTRIES] =
			cpu_to_le64(pbl->tables[first + i].dma);
	}
	return table_map(rdev, pbl);
}

/*
 * Describes all of @umem to the device. *pbl is NULL if it needs no table,
 * else to be freed after the command.
 */
int rnic_pbl_create(struct rnic_dev *rdev, struct ib_umem *umem, u64 virt,
		    struct rnic_buf_desc *desc, struct rnic_pbl **pbl_out)
{
	size_t blocks, count, first, total, n;
	struct ib_block_iter iter;
	unsigned long page_size;
	struct rnic_pbl *pbl;
	unsigned int levels;
	dma_addr_t addr;
	int ret;

	*pbl_out = NULL;
	memset(desc, 0, sizeof(*desc));
	page_size = ib_umem_find_best_pgsz(umem, PBL_PAGE_SIZES, virt);
	if (!page_size)
		return -EINVAL;
	blocks = ib_umem_num_dma_blocks(umem, page_size);
	desc->length = cpu_to_le64(umem->length);

	if (blocks == 1) {
		rdma_umem_for_each_dma_block(umem, &iter, page_size) {
			addr = rdma_block_iter_dma_address(&iter);
			addr += ib_umem_dma_offset(umem, page_size);
			desc->addr = cpu_to_le64(addr);
		}
		return 0;
	}

	levels = 0;
	total = 0;
	n = blocks;
	do {
		n = DIV_ROUND_UP(n, PBL_ENTRIES);
		total += n;
		levels++;
	} while (n > 1);
	if (levels > PBL_LEVELS)
		return -EINVAL;

	pbl = kvzalloc(struct_size(pbl, tables, total), GFP_KERNEL_ACCOUNT);
	if (!pbl)
		return -ENOMEM;
	ret = fill_leaves(rdev, pbl, umem, page_size);
	first = 0;
	while (!ret && pbl->num_tables - first > 1) {
		count = pbl->num_tables - first;
		ret = fill_level(rdev, pbl, first, count);
		first += count;
	}
	if (ret) {
		tables_free(rdev, pbl);
		return ret;
	}

	desc->addr = cpu_to_le64(pbl->tables[pbl->num_tables - 1].dma);
	desc->levels = levels;
	desc->page_shift = ilog2(page_size);
	desc->first_offset = cpu_to_le32(ib_umem_dma_offset(umem, page_size));
	*pbl_out = pbl;
	return 0;
}

void rnic_pbl_free(struct rnic_dev *rdev, struct rnic_pbl *pbl)
{
	if (pbl)
		tables_free(rdev, pbl);
}
