// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Counters: of the device, and in the resource tracking those of each QP and CQ
 * (rdma -dd resource show qp)
 */
#include <rdma/restrack.h>
#include <uapi/rdma/rdma_netlink.h>

#include "rnic.h"

#define RNIC_STAT_DESC(stat, ...) \
	[RNIC_STAT_##stat] = { .name = #stat },

/* The driver's own, behind those of the device */
enum {
	STAT_REFUSED_OUT = RNIC_STAT_COUNT,
	STAT_REFUSED_IN,
	STAT_COUNT
};

static const struct rdma_stat_desc rnic_stat_descs[STAT_COUNT] = {
	RNIC_STATS(RNIC_STAT_DESC)
	[STAT_REFUSED_OUT] = { .name = "filter_refused_out" },
	[STAT_REFUSED_IN] = { .name = "filter_refused_in" },
};

struct rdma_hw_stats *rnic_alloc_device_stats(struct ib_device *ibdev)
{
	return rdma_alloc_hw_stats_struct(rnic_stat_descs, STAT_COUNT,
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

/* The device has one port, whose counters are its own */
struct rdma_hw_stats *rnic_alloc_port_stats(struct ib_device *ibdev, u32 port)
{
	return rnic_alloc_device_stats(ibdev);
}

/*
 * Counters of a QP, or of the device if @qpn is 0. An older device has fewer
 * than RNIC_STAT_COUNT, and a QP too: the rest of @values is left alone. Returns
 * how many there are.
 */
static int query_stats(struct rnic_dev *rdev, u32 qpn, u64 *values)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_QUERY_STATS };
	struct rnic_acqe result;
	__le64 *from;
	u32 i, count;
	int ret;

	mutex_lock(&rdev->stats_lock);
	cmd.query_stats.addr = cpu_to_le64(rdev->stats_mem.dma);
	cmd.query_stats.count = cpu_to_le32(RNIC_STAT_COUNT);
	cmd.query_stats.qpn = cpu_to_le32(qpn);
	ret = rnic_cmd(rdev, &cmd, &result);
	if (ret)
		goto out;
	count = min_t(u32, le32_to_cpu(result.query_stats.count),
		      RNIC_STAT_COUNT);
	from = rdev->stats_mem.va;
	for (i = 0; i < count; i++)
		values[i] = le64_to_cpu(from[i]);
	ret = count;
out:
	mutex_unlock(&rdev->stats_lock);
	return ret;
}

int rnic_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		      u32 port, int index)
{
	struct rnic_dev *rdev = to_rnic(ibdev);
	int ret = query_stats(rdev, 0, stats->value);

	if (ret < 0)
		return ret;
	stats->value[STAT_REFUSED_OUT] = atomic64_read(&rdev->refused_out);
	stats->value[STAT_REFUSED_IN] = atomic64_read(&rdev->refused_in);
	return STAT_COUNT;
}

/* ---- Resource tracking ---- */

static int put_counters(struct sk_buff *msg, const u8 *stats,
			const u64 *values, unsigned int count)
{
	struct nlattr *table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	unsigned int i;

	if (!table)
		return -EMSGSIZE;
	for (i = 0; i < count; i++) {
		if (rdma_nl_put_driver_u64(msg, rnic_stat_descs[stats[i]].name,
					   values[i])) {
			nla_nest_cancel(msg, table);
			return -EMSGSIZE;
		}
	}
	nla_nest_end(msg, table);
	return 0;
}

int rnic_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp)
{
	static const u8 shown[] = {
		RNIC_STAT_tx_wqes, RNIC_STAT_rx_messages, RNIC_STAT_doorbells,
		RNIC_STAT_cqes, RNIC_STAT_cq_events, RNIC_STAT_interrupts,
		RNIC_STAT_wakeups,
	};
	u64 all[RNIC_STAT_COUNT] = {}, values[ARRAY_SIZE(shown)];
	int i, ret;

	ret = query_stats(to_rnic(ibqp->device), to_rnic_qp(ibqp)->qpn, all);
	/* The QP is shown without them; a device that is dead has none */
	if (ret <= RNIC_STAT_wakeups)
		return 0;
	for (i = 0; i < ARRAY_SIZE(shown); i++)
		values[i] = all[shown[i]];
	return put_counters(msg, shown, values, ARRAY_SIZE(shown));
}

int rnic_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq)
{
#define RNIC_CQ_STAT(stat) RNIC_STAT_##stat,
	static const u8 shown[] = { RNIC_CQ_STATS(RNIC_CQ_STAT) };
#undef RNIC_CQ_STAT
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_QUERY_CQ };
	struct rnic_acqe result;

	cmd.id.id = cpu_to_le32(to_rnic_cq(ibcq)->cqn);
	/* An older device has no such command */
	if (rnic_cmd(to_rnic(ibcq->device), &cmd, &result))
		return 0;
#define RNIC_CQ_STAT(stat) le64_to_cpu(result.query_cq.stat),
	return put_counters(msg, shown,
			    (u64[]){ RNIC_CQ_STATS(RNIC_CQ_STAT) },
			    ARRAY_SIZE(shown));
#undef RNIC_CQ_STAT
}
