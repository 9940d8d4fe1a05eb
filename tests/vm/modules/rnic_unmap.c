// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A kernel consumer that takes the DMA mapping of a buffer away from the device
 *
 * Loading it connects two pairs of QPs of this machine through the address
 * `addr`. The buffers of the first pair stay as they are. Of the second pair
 * one buffer is used, and then unmapped, which is a driver's gravest mistake;
 * the parameter `what` says which buffer, and what is then done with it. The
 * parameter `result` tells the status of the requests that met it, and whether
 * the first pair still works.
 */
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#define BUF_ORDER	4
#define BUF_SIZE	(PAGE_SIZE << BUF_ORDER)
#define BUF_PAGES	(1 << BUF_ORDER)
#define PATTERN		0x5a
#define UNDER_WAY	8
#define WAIT		(30 * HZ)

static char *addr = "10.0.0.1";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "address of this machine, both ends use it");
static char *what = "write";
module_param(what, charp, 0444);
MODULE_PARM_DESC(what, "write, read: from, to the client at the server's unmapped region; never: write to a region of pages that were never mapped; busy: unmapped under writes; send, sink: the client's buffer is unmapped; recv: the server's; none: none");
static char result[256];
module_param_string(result, result, sizeof(result), 0444);
MODULE_PARM_DESC(result, "what happened");

/* Static everywhere: a late completion of a failed run must find it */
struct request {
	struct ib_cqe cqe;
	struct completion done;
	enum ib_wc_status status;
};

struct end {
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_mr *mr;
	struct page *pages;
	u8 *buf;
	struct scatterlist sg;
	bool mapped;
	struct completion step;		/* of set-up */
	struct completion over;		/* established, or failed */
	int status;			/* of set-up */
};

struct pair {
	struct end client, server;
};

static struct pair healthy, victim;
static struct pair *connecting;
static struct rdma_cm_id *listener;

static void request_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct request *request = container_of(wc->wr_cqe, struct request,
					       cqe);

	request->status = wc->status;
	complete(&request->done);
}

static void request_init(struct request *request)
{
	request->cqe.done = request_done;
	request->status = IB_WC_GENERAL_ERR;
	init_completion(&request->done);
}

static int request_wait(struct request *request)
{
	return wait_for_completion_timeout(&request->done, WAIT) ? 0 :
		-ETIMEDOUT;
}

static int post(struct end *end, struct request *request,
		enum ib_wr_opcode opcode, u32 length, struct end *peer)
{
	struct ib_sge sge = {
		.addr = sg_dma_address(&end->sg),
		.length = length,
		.lkey = end->pd->local_dma_lkey,
	};
	struct ib_rdma_wr wr = {
		.wr.wr_cqe = &request->cqe,
		.wr.sg_list = &sge,
		.wr.num_sge = 1,
		.wr.opcode = opcode,
		.wr.send_flags = IB_SEND_SIGNALED,
	};

	request_init(request);
	if (peer) {
		wr.remote_addr = peer->mr->iova;
		wr.rkey = peer->mr->rkey;
	}
	return ib_post_send(end->id->qp, &wr.wr, NULL);
}

static int post_recv(struct end *end, struct request *request, u32 length)
{
	struct ib_sge sge = {
		.addr = sg_dma_address(&end->sg),
		.length = length,
		.lkey = end->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = {
		.wr_cqe = &request->cqe,
		.sg_list = &sge,
		.num_sge = 1,
	};

	request_init(request);
	return ib_post_recv(end->id->qp, &wr, NULL);
}

/* Makes the end's buffer a region that the peer may use */
static int register_buf(struct end *end)
{
	static struct request request;
	struct ib_reg_wr wr = {
		.wr.wr_cqe = &request.cqe,
		.wr.opcode = IB_WR_REG_MR,
		.wr.send_flags = IB_SEND_SIGNALED,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ |
			  IB_ACCESS_REMOTE_WRITE,
	};
	int ret;

	ret = ib_map_mr_sg(end->mr, &end->sg, 1, NULL, PAGE_SIZE);
	if (ret != 1)
		return ret < 0 ? ret : -EINVAL;
	wr.mr = end->mr;
	wr.key = end->mr->rkey;
	request_init(&request);
	ret = ib_post_send(end->id->qp, &wr.wr, NULL);
	if (!ret)
		ret = request_wait(&request);
	if (!ret && request.status != IB_WC_SUCCESS)
		ret = -EIO;
	return ret;
}

static void unmap(struct end *end)
{
	if (end->mapped)
		ib_dma_unmap_sg(end->id->device, &end->sg, 1,
				DMA_BIDIRECTIONAL);
	end->mapped = false;
}

/* A message to the server; the client's pattern must arrive */
static int exchange(struct pair *pair)
{
	static struct request sent, received;
	int ret;

	memset(pair->client.buf, PATTERN, BUF_SIZE);
	memset(pair->server.buf, 0, BUF_SIZE);
	ret = post_recv(&pair->server, &received, BUF_SIZE);
	if (ret)
		return ret;
	ret = post(&pair->client, &sent, IB_WR_SEND, BUF_SIZE, NULL);
	if (ret)
		return ret;
	ret = request_wait(&sent);
	if (!ret)
		ret = request_wait(&received);
	if (ret)
		return ret;
	if (sent.status != IB_WC_SUCCESS || received.status != IB_WC_SUCCESS)
		return -EIO;
	return memchr_inv(pair->server.buf, PATTERN, BUF_SIZE) ? -EILSEQ : 0;
}

static int open_end(struct end *end, struct rdma_cm_id *id)
{
	struct ib_qp_init_attr attr = {
		.cap.max_send_wr = 2 * UNDER_WAY,
		.cap.max_recv_wr = 4,
		.cap.max_send_sge = 1,
		.cap.max_recv_sge = 1,
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
	};
	int ret;

	end->id = id;
	end->pages = alloc_pages(GFP_KERNEL | __GFP_ZERO, BUF_ORDER);
	if (!end->pages)
		return -ENOMEM;
	end->buf = page_address(end->pages);
	sg_init_table(&end->sg, 1);
	sg_set_page(&end->sg, end->pages, BUF_SIZE, 0);
	if (ib_dma_map_sg(id->device, &end->sg, 1, DMA_BIDIRECTIONAL) != 1)
		return -ENOMEM;
	end->mapped = true;
	end->pd = ib_alloc_pd(id->device, 0);
	if (IS_ERR(end->pd))
		return PTR_ERR(end->pd);
	end->cq = ib_alloc_cq_any(id->device, end, 8 * UNDER_WAY,
				  IB_POLL_WORKQUEUE);
	if (IS_ERR(end->cq))
		return PTR_ERR(end->cq);
	attr.send_cq = end->cq;
	attr.recv_cq = end->cq;
	ret = rdma_create_qp(id, end->pd, &attr);
	if (ret)
		return ret;
	end->mr = ib_alloc_mr(end->pd, IB_MR_TYPE_MEM_REG, BUF_PAGES);
	return PTR_ERR_OR_ZERO(end->mr);
}

static void close_end(struct end *end)
{
	if (end->id && end->id->qp) {
		ib_drain_qp(end->id->qp);
		rdma_destroy_qp(end->id);
	}
	if (!IS_ERR_OR_NULL(end->mr))
		ib_dereg_mr(end->mr);
	if (end->id)
		unmap(end);
	if (end->pages)
		__free_pages(end->pages, BUF_ORDER);
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
	complete(&end->over);
}

static int on_request(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {
		.responder_resources = 4,
		.initiator_depth = 4,
	};
	struct end *end = &connecting->server;
	int ret;

	id->context = end;
	ret = open_end(end, id);
	if (!ret)
		ret = rdma_accept(id, &param);
	/* The identifier stays, for close_end() */
	if (ret)
		end_over(end, ret);
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

static int connect_client(struct end *end, struct sockaddr *to)
{
	struct rdma_conn_param param = {
		.responder_resources = 4,
		.initiator_depth = 4,
	};
	struct rdma_cm_id *id;
	int ret;

	id = rdma_create_id(&init_net, on_event, end, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	end->id = id;
	ret = rdma_resolve_addr(id, NULL, to, 5000);
	if (ret)
		return ret;
	if (!wait_for_completion_timeout(&end->step, WAIT) || end->status)
		return -EHOSTUNREACH;
	reinit_completion(&end->step);
	ret = rdma_resolve_route(id, 5000);
	if (ret)
		return ret;
	if (!wait_for_completion_timeout(&end->step, WAIT) || end->status)
		return -EHOSTUNREACH;
	ret = open_end(end, id);
	if (ret)
		return ret;
	return rdma_connect(id, &param);
}

static int connect_pair(struct pair *pair, struct sockaddr *to)
{
	int ret;

	connecting = pair;
	ret = connect_client(&pair->client, to);
	if (ret)
		return ret;
	if (!wait_for_completion_timeout(&pair->client.over, WAIT) ||
	    !wait_for_completion_timeout(&pair->server.over, WAIT))
		return -ETIMEDOUT;
	return pair->client.status ?: pair->server.status;
}

/* Writes without pause; the region is unmapped while they are under way */
static int write_while_unmapping(struct request *last)
{
	struct request *ring;
	unsigned int i;
	int ret = 0;

	ring = kcalloc(UNDER_WAY, sizeof(*ring), GFP_KERNEL);
	if (!ring)
		return -ENOMEM;
	for (i = 0; i < UNDER_WAY && !ret; i++)
		ret = post(&victim.client, &ring[i], IB_WR_RDMA_WRITE,
			   BUF_SIZE, &victim.server);
	for (i = 0; !ret && i < 100000; i++) {
		struct request *request = &ring[i % UNDER_WAY];

		if (i == 4 * UNDER_WAY)
			unmap(&victim.server);
		ret = request_wait(request);
		last->status = request->status;
		if (ret || last->status != IB_WC_SUCCESS)
			break;
		ret = post(&victim.client, request, IB_WR_RDMA_WRITE,
			   BUF_SIZE, &victim.server);
	}
	/* None may complete into freed memory */
	ib_drain_qp(victim.client.id->qp);
	kfree(ring);
	return ret;
}

static int provoke(struct request *first, struct request *second)
{
	struct end *client = &victim.client, *server = &victim.server;
	dma_addr_t dma = sg_dma_address(&server->sg);
	int ret;

	request_init(first);
	request_init(second);
	if (!strcmp(what, "none"))
		return 0;
	if (!strcmp(what, "never"))
		/* No address that the guest's allocator comes to */
		sg_dma_address(&server->sg) = 0x1234500000ULL;
	ret = register_buf(server);
	sg_dma_address(&server->sg) = dma;
	if (ret)
		return ret;

	if (!strcmp(what, "busy"))
		return write_while_unmapping(first);
	if (strcmp(what, "never")) {
		/* It is mapped, and the device has used it */
		ret = post(client, first, IB_WR_RDMA_READ, BUF_SIZE, server);
		if (!ret)
			ret = request_wait(first);
		if (!ret && first->status != IB_WC_SUCCESS)
			ret = -EIO;
		if (ret)
			return ret;
	}
	if (!strcmp(what, "recv")) {
		ret = post_recv(server, second, BUF_SIZE);
		if (ret)
			return ret;
		unmap(server);
		ret = post(client, first, IB_WR_SEND, BUF_SIZE, NULL);
	} else if (!strcmp(what, "send")) {
		unmap(client);
		ret = post(client, first, IB_WR_SEND, BUF_SIZE, NULL);
		second = NULL;
	} else if (!strcmp(what, "sink")) {
		unmap(client);
		ret = post(client, first, IB_WR_RDMA_READ, BUF_SIZE, server);
		second = NULL;
	} else if (!strcmp(what, "read")) {
		unmap(server);
		ret = post(client, first, IB_WR_RDMA_READ, BUF_SIZE, server);
		second = NULL;
	} else {
		if (strcmp(what, "never"))
			unmap(server);
		ret = post(client, first, IB_WR_RDMA_WRITE, BUF_SIZE, server);
		/* A write may be complete before the peer refuses it */
		if (!ret)
			ret = post(client, second, IB_WR_RDMA_READ, 4, server);
	}
	if (!ret)
		ret = request_wait(first);
	if (!ret && second)
		ret = request_wait(second);
	return ret;
}

static void pair_init(struct pair *pair)
{
	init_completion(&pair->client.step);
	init_completion(&pair->client.over);
	init_completion(&pair->server.over);
}

static int run(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	static struct request first, second;
	int ret;

	if (!in4_pton(addr, -1, (u8 *)&to.sin_addr, -1, NULL))
		return -EINVAL;
	to.sin_port = htons(7472);
	pair_init(&healthy);
	pair_init(&victim);

	listener = rdma_create_id(&init_net, on_event, NULL, RDMA_PS_TCP,
				  IB_QPT_RC);
	if (IS_ERR(listener))
		return PTR_ERR(listener);
	ret = rdma_bind_addr(listener, (struct sockaddr *)&to);
	if (!ret)
		ret = rdma_listen(listener, 4);
	if (!ret)
		ret = connect_pair(&healthy, (struct sockaddr *)&to);
	if (!ret)
		ret = connect_pair(&victim, (struct sockaddr *)&to);
	if (!ret)
		ret = exchange(&healthy);
	if (!ret)
		ret = exchange(&victim);
	if (!ret)
		ret = provoke(&first, &second);
	if (!ret)
		snprintf(result, sizeof(result),
			 "first=%d second=%d healthy=%d\n", first.status,
			 second.status, exchange(&healthy));
	rdma_destroy_id(listener);
	close_end(&victim.client);
	close_end(&victim.server);
	close_end(&healthy.client);
	close_end(&healthy.server);
	return ret;
}

static int __init unmap_init(void)
{
	return run();
}

static void __exit unmap_exit(void)
{
}

module_init(unmap_init);
module_exit(unmap_exit);
MODULE_DESCRIPTION("rnic test: buffers that are unmapped under the device");
MODULE_LICENSE("GPL");
