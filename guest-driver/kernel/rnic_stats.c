// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Counters
 */
#include "rnic.h"

#define RNIC_STAT_DESC(stat, ...) \
	[RNIC_STAT_##stat] = { .name = #stat },

static const struct rdma_stat_desc rnic_stat_descs[RNIC_STAT_COUNT] = {
	RNIC_STATS(RNIC_STAT_DESC)
};

struct rdma_hw_stats *rnic_alloc_device_stats(struct ib_device *ibdev)
{
	return rdma_alloc_hw_stats_struct(rnic_stat_descs, RNIC_STAT_COUNT,
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

/* The device has one port, whose counters are its own */
struct rdma_hw_stats *rnic_alloc_port_stats(struct ib_device *ibdev, u32 port)
{
	return rnic_alloc_device_stats(ibdev);
}

int rnic_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		      u32 port, int index)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_QUERY_STATS };
	struct rnic_dev *rdev = to_rnic(ibdev);
	struct rnic_acqe result;
	__le64 *values;
	u32 i, count;
	int ret;

	mutex_lock(&rdev->stats_lock);
	cmd.query_stats.addr = cpu_to_le64(rdev->stats_mem.dma);
	cmd.query_stats.count = cpu_to_le32(RNIC_STAT_COUNT);
	ret = rnic_cmd(rdev, &cmd, &result);
	if (ret)
		goto out;
	/* An older device has fewer; the rest stays 0 */
	count = min_t(u32, le32_to_cpu(result.query_stats.count),
		      RNIC_STAT_COUNT);
	values = rdev->stats_mem.va;
	for (i = 0; i < count; i++)
		stats->value[i] = le64_to_cpu(values[i]);
	ret = RNIC_STAT_COUNT;
out:
	mutex_unlock(&rdev->stats_lock);
	return ret;
}
