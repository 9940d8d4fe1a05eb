// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A kernel consumer that posts sends before its connection is established
 *
 * Loading it connects two QPs of this machine through the address `addr`. Each
 * end posts `early` sends before rdma_connect() or rdma_accept(), and `late`
 * more after its established event; each message says which one it is. The
 * parameter `result` then tells, for both ends: what posting returned, how many
 * early sends were taken, how many sends completed and were flushed, how many
 * messages came in and whether in order, and the status of the set-up.
 */
#include <linux/delay.h>
#include "link.h"

#define MAX_MESSAGES	64
#define MESSAGE_SIZE	sizeof(u32)

static char *addr = "10.0.0.1";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "address of this machine, both ends use it");
static unsigned int early = 5;
module_param(early, uint, 0444);
MODULE_PARM_DESC(early, "sends to post before the connection");
static unsigned int late = 3;
module_param(late, uint, 0444);
MODULE_PARM_DESC(late, "sends to post when it is established");
static bool reject;
module_param(reject, bool, 0444);
MODULE_PARM_DESC(reject, "the server rejects, and posts nothing");
static unsigned int pause_ms = 100;
module_param(pause_ms, uint, 0444);
MODULE_PARM_DESC(pause_ms, "time between early posts and the next step");
static char result[512];
module_param_string(result, result, sizeof(result), 0444);
MODULE_PARM_DESC(result, "what happened");

struct end {
	struct link link;
	const char *name;
	struct ib_cqe send_cqe, recv_cqe;
	u32 *numbers;			/* sent, then received */
	dma_addr_t dma;
	int early_ret;
	unsigned int taken;		/* early sends */
	unsigned int posted;
	atomic_t sent, flushed, failed, received;
	unsigned int misordered;
};

static struct end client = { .name = "client" };
static struct end server = { .name = "server" };

static void send_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct end *end = container_of(wc->wr_cqe, struct end, send_cqe);

	if (wc->status == IB_WC_SUCCESS)
		atomic_inc(&end->sent);
	else if (wc->status == IB_WC_WR_FLUSH_ERR)
		atomic_inc(&end->flushed);
	else
		atomic_inc(&end->failed);
}

static void recv_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct end *end = container_of(wc->wr_cqe, struct end, recv_cqe);
	struct ib_device *dev = end->link.id->device;
	int index;

	if (wc->status != IB_WC_SUCCESS)
		return;
	/* Receives complete in the order in which they were posted */
	index = atomic_read(&end->received);
	ib_dma_sync_single_for_cpu(dev, end->dma,
				   2 * MAX_MESSAGES * MESSAGE_SIZE,
				   DMA_BIDIRECTIONAL);
	if (wc->byte_len != MESSAGE_SIZE ||
	    end->numbers[MAX_MESSAGES + index] != index)
		end->misordered++;
	atomic_inc(&end->received);
}

static int post_send(struct end *end)
{
	const struct ib_send_wr *bad = NULL;
	struct ib_sge sge = {
		.addr = end->dma + end->posted * MESSAGE_SIZE,
		.length = MESSAGE_SIZE,
		.lkey = end->link.pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.wr_cqe = &end->send_cqe,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	int ret = ib_post_send(end->link.id->qp, &wr, &bad);

	if (ret && bad != &wr)
		ret = -ENOMSG;
	if (!ret)
		end->posted++;
	return ret;
}

static int post_recv(struct end *end, unsigned int index)
{
	struct ib_sge sge = {
		.addr = end->dma + (MAX_MESSAGES + index) * MESSAGE_SIZE,
		.length = MESSAGE_SIZE,
		.lkey = end->link.pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = {
		.wr_cqe = &end->recv_cqe,
		.sg_list = &sge,
		.num_sge = 1,
	};

	return ib_post_recv(end->link.id->qp, &wr, NULL);
}

static void post_early(struct end *end)
{
	unsigned int i;

	for (i = 0; i < early; i++) {
		end->early_ret = post_send(end);
		if (end->early_ret)
			break;
	}
	end->taken = end->posted;
	/* Time for something to leave too early */
	msleep(pause_ms);
}

static int open_end(struct link *link)
{
	struct end *end = container_of(link, struct end, link);
	struct ib_qp_init_attr attr = {
		.cap.max_send_wr = MAX_MESSAGES,
		.cap.max_recv_wr = MAX_MESSAGES,
		.cap.max_send_sge = 1,
		.cap.max_recv_sge = 1,
	};
	struct ib_device *dev = link->id->device;
	unsigned int i;
	int ret;

	end->send_cqe.done = send_done;
	end->recv_cqe.done = recv_done;
	ret = link_make_qp(link, &attr, IB_POLL_WORKQUEUE);
	if (ret)
		return ret;

	end->numbers = kcalloc(2 * MAX_MESSAGES, MESSAGE_SIZE, GFP_KERNEL);
	if (!end->numbers)
		return -ENOMEM;
	for (i = 0; i < MAX_MESSAGES; i++) {
		end->numbers[i] = i;
		end->numbers[MAX_MESSAGES + i] = ~0;
	}
	end->dma = ib_dma_map_single(dev, end->numbers,
				     2 * MAX_MESSAGES * MESSAGE_SIZE,
				     DMA_BIDIRECTIONAL);
	if (ib_dma_mapping_error(dev, end->dma)) {
		kfree(end->numbers);
		end->numbers = NULL;
		return -ENOMEM;
	}
	for (i = 0; i < MAX_MESSAGES && !ret; i++)
		ret = post_recv(end, i);
	if (!ret)
		post_early(end);
	return ret;
}

static void post_late(struct link *link)
{
	struct end *end = container_of(link, struct end, link);
	unsigned int i;

	for (i = 0; i < late; i++)
		if (post_send(end))
			atomic_inc(&end->failed);
}

static void close_end(struct end *end)
{
	link_end_qp(&end->link, true);
	if (end->numbers)
		ib_dma_unmap_single(end->link.id->device, end->dma,
				    2 * MAX_MESSAGES * MESSAGE_SIZE,
				    DMA_BIDIRECTIONAL);
	kfree(end->numbers);
	link_close(&end->link);
}

static struct link *requested(void)
{
	if (!reject)
		return &server.link;
	link_over(&server.link, -ECONNREFUSED);
	return NULL;
}

static const struct link_hooks hooks = {
	.server = requested,
	.open = open_end,
	.established = post_late,
	.depth = 1,
};

static bool all_done(struct end *end)
{
	return atomic_read(&end->sent) + atomic_read(&end->flushed) +
	       atomic_read(&end->failed) >= end->posted;
}

/* Until nothing is to be expected any more, and a moment longer */
static void settle(void)
{
	unsigned long until = jiffies + WAIT;

	while (time_before(jiffies, until)) {
		if (all_done(&client) && all_done(&server) &&
		    (client.link.status || server.link.status ||
		     (atomic_read(&client.received) >= server.posted &&
		      atomic_read(&server.received) >= client.posted)))
			break;
		msleep(20);
	}
	msleep(200);
}

static int tell(char *to, size_t size, struct end *end)
{
	return scnprintf(to, size,
			 "%s ret=%d early=%u posted=%u sent=%d flushed=%d failed=%d received=%d misordered=%u status=%d\n",
			 end->name, end->early_ret, end->taken, end->posted,
			 atomic_read(&end->sent), atomic_read(&end->flushed),
			 atomic_read(&end->failed),
			 atomic_read(&end->received), end->misordered,
			 end->link.status);
}

static int run(void)
{
	struct rdma_cm_id *listener;
	struct sockaddr_in to;
	int ret, n;

	if (early + late > MAX_MESSAGES)
		return -EINVAL;
	link_init(&client.link);
	link_init(&server.link);
	listener = link_listen(addr, 7471, &to);
	if (IS_ERR(listener))
		return PTR_ERR(listener);
	ret = link_connect(&client.link, &to);
	if (!ret)
		ret = link_wait(&client.link, &server.link);
	if (!ret) {
		settle();
		n = tell(result, sizeof(result), &client);
		tell(result + n, sizeof(result) - n, &server);
	}
	rdma_destroy_id(listener);
	close_end(&client);
	close_end(&server);
	return ret;
}

static int __init early_init(void)
{
	return run();
}

static void __exit early_exit(void)
{
}

module_init(early_init);
module_exit(early_exit);
MODULE_DESCRIPTION("rnic test: sends before the connection is established");
MODULE_LICENSE("GPL");
