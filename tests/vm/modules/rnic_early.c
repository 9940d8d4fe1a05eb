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
#include <linux/inet.h>
#include <linux/module.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#define MAX_MESSAGES	64
#define MESSAGE_SIZE	sizeof(u32)
#define WAIT		(20 * HZ)

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
	const char *name;
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_cqe send_cqe, recv_cqe;
	u32 *numbers;			/* sent, then received */
	dma_addr_t dma;
	struct completion step;		/* of set-up */
	struct completion over;		/* established, or failed */
	int status;			/* of set-up */
	int early_ret;
	unsigned int taken;		/* early sends */
	unsigned int posted;
	atomic_t sent, flushed, failed, received;
	unsigned int misordered;
};

static struct end client = { .name = "client" };
static struct end server = { .name = "server" };
static struct rdma_cm_id *listener;

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
	struct ib_device *dev = end->id->device;
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
		.lkey = end->pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.wr_cqe = &end->send_cqe,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	int ret = ib_post_send(end->id->qp, &wr, &bad);

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
		.lkey = end->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = {
		.wr_cqe = &end->recv_cqe,
		.sg_list = &sge,
		.num_sge = 1,
	};

	return ib_post_recv(end->id->qp, &wr, NULL);
}

static int open_end(struct end *end, struct rdma_cm_id *id)
{
	struct ib_qp_init_attr attr = {
		.cap.max_send_wr = MAX_MESSAGES,
		.cap.max_recv_wr = MAX_MESSAGES,
		.cap.max_send_sge = 1,
		.cap.max_recv_sge = 1,
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
	};
	unsigned int i;
	int ret;

	end->id = id;
	end->send_cqe.done = send_done;
	end->recv_cqe.done = recv_done;
	end->pd = ib_alloc_pd(id->device, 0);
	if (IS_ERR(end->pd))
		return PTR_ERR(end->pd);
	end->cq = ib_alloc_cq_any(id->device, end, 4 * MAX_MESSAGES,
				  IB_POLL_WORKQUEUE);
	if (IS_ERR(end->cq))
		return PTR_ERR(end->cq);
	attr.send_cq = end->cq;
	attr.recv_cq = end->cq;
	ret = rdma_create_qp(id, end->pd, &attr);
	if (ret)
		return ret;

	end->numbers = kcalloc(2 * MAX_MESSAGES, MESSAGE_SIZE, GFP_KERNEL);
	if (!end->numbers)
		return -ENOMEM;
	for (i = 0; i < MAX_MESSAGES; i++) {
		end->numbers[i] = i;
		end->numbers[MAX_MESSAGES + i] = ~0;
	}
	end->dma = ib_dma_map_single(id->device, end->numbers,
				     2 * MAX_MESSAGES * MESSAGE_SIZE,
				     DMA_BIDIRECTIONAL);
	if (ib_dma_mapping_error(id->device, end->dma)) {
		kfree(end->numbers);
		end->numbers = NULL;
		return -ENOMEM;
	}
	for (i = 0; i < MAX_MESSAGES && !ret; i++)
		ret = post_recv(end, i);
	return ret;
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

static void post_late(struct end *end)
{
	unsigned int i;

	for (i = 0; i < late; i++)
		if (post_send(end))
			atomic_inc(&end->failed);
}

static void close_end(struct end *end)
{
	if (end->id && end->id->qp) {
		ib_drain_qp(end->id->qp);
		rdma_destroy_qp(end->id);
	}
	if (end->numbers)
		ib_dma_unmap_single(end->id->device, end->dma,
				    2 * MAX_MESSAGES * MESSAGE_SIZE,
				    DMA_BIDIRECTIONAL);
	kfree(end->numbers);
	if (!IS_ERR_OR_NULL(end->cq))
		ib_free_cq(end->cq);
	if (!IS_ERR_OR_NULL(end->pd))
		ib_dealloc_pd(end->pd);
	if (end->id)
		rdma_destroy_id(end->id);
}

static void end_over(struct end *end, int status)
{
	end->status = status;
	if (!status)
		post_late(end);
	complete(&end->over);
}

static int on_request(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {
		.responder_resources = 1,
		.initiator_depth = 1,
	};
	int ret;

	if (reject) {
		rdma_reject(id, NULL, 0, IB_CM_REJ_CONSUMER_DEFINED);
		end_over(&server, -ECONNREFUSED);
		/* iw_cm destroys it */
		return -ECONNREFUSED;
	}
	id->context = &server;
	ret = open_end(&server, id);
	if (!ret) {
		post_early(&server);
		ret = rdma_accept(id, &param);
	}
	/* The identifier stays, for close_end() */
	if (ret)
		end_over(&server, ret);
	return 0;
}

static int on_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct end *end = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		complete(&end->step);
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return on_request(id);
	case RDMA_CM_EVENT_ESTABLISHED:
		end_over(end, 0);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		end_over(end, event->status ?: -EPROTO);
		complete(&end->step);
		break;
	default:
		break;
	}
	return 0;
}

static int connect_client(struct sockaddr *to)
{
	struct rdma_conn_param param = {
		.responder_resources = 1,
		.initiator_depth = 1,
	};
	struct rdma_cm_id *id;
	int ret;

	id = rdma_create_id(&init_net, on_event, &client, RDMA_PS_TCP,
			    IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	client.id = id;
	ret = rdma_resolve_addr(id, NULL, to, 5000);
	if (ret)
		return ret;
	if (!wait_for_completion_timeout(&client.step, WAIT) || client.status)
		return -EHOSTUNREACH;
	reinit_completion(&client.step);
	ret = rdma_resolve_route(id, 5000);
	if (ret)
		return ret;
	if (!wait_for_completion_timeout(&client.step, WAIT) || client.status)
		return -EHOSTUNREACH;
	ret = open_end(&client, id);
	if (ret)
		return ret;
	post_early(&client);
	return rdma_connect(id, &param);
}

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
		    (client.status || server.status ||
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
			 end->status);
}

static int run(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int ret, n;

	if (early + late > MAX_MESSAGES ||
	    !in4_pton(addr, -1, (u8 *)&to.sin_addr, -1, NULL))
		return -EINVAL;
	to.sin_port = htons(7471);
	init_completion(&client.step);
	init_completion(&client.over);
	init_completion(&server.over);

	listener = rdma_create_id(&init_net, on_event, NULL, RDMA_PS_TCP,
				  IB_QPT_RC);
	if (IS_ERR(listener))
		return PTR_ERR(listener);
	ret = rdma_bind_addr(listener, (struct sockaddr *)&to);
	if (!ret)
		ret = rdma_listen(listener, 4);
	if (!ret)
		ret = connect_client((struct sockaddr *)&to);
	if (!ret && (!wait_for_completion_timeout(&client.over, WAIT) ||
		     !wait_for_completion_timeout(&server.over, WAIT)))
		ret = -ETIMEDOUT;
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
