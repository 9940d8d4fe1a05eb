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
#include <linux/scatterlist.h>
#include "link.h"

#define BUF_ORDER	4
#define BUF_SIZE	(PAGE_SIZE << BUF_ORDER)
#define BUF_PAGES	(1 << BUF_ORDER)
#define PATTERN		0x5a
#define UNDER_WAY	8

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
	struct link link;
	struct ib_mr *mr;
	struct page *pages;
	u8 *buf;
	struct scatterlist sg;
	bool mapped;
};

struct pair {
	struct end client, server;
};

static struct pair healthy, victim;
static struct pair *connecting;

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
		.lkey = end->link.pd->local_dma_lkey,
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
	return ib_post_send(end->link.id->qp, &wr.wr, NULL);
}

static int post_recv(struct end *end, struct request *request, u32 length)
{
	struct ib_sge sge = {
		.addr = sg_dma_address(&end->sg),
		.length = length,
		.lkey = end->link.pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = {
		.wr_cqe = &request->cqe,
		.sg_list = &sge,
		.num_sge = 1,
	};

	request_init(request);
	return ib_post_recv(end->link.id->qp, &wr, NULL);
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
	ret = ib_post_send(end->link.id->qp, &wr.wr, NULL);
	if (!ret)
		ret = request_wait(&request);
	if (!ret && request.status != IB_WC_SUCCESS)
		ret = -EIO;
	return ret;
}

static void unmap(struct end *end)
{
	if (end->mapped)
		ib_dma_unmap_sg(end->link.id->device, &end->sg, 1,
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

static int open_end(struct link *link)
{
	struct end *end = container_of(link, struct end, link);
	struct ib_qp_init_attr attr = {
		.cap.max_send_wr = 2 * UNDER_WAY,
		.cap.max_recv_wr = 4,
		.cap.max_send_sge = 1,
		.cap.max_recv_sge = 1,
	};
	int ret;

	end->pages = alloc_pages(GFP_KERNEL | __GFP_ZERO, BUF_ORDER);
	if (!end->pages)
		return -ENOMEM;
	end->buf = page_address(end->pages);
	sg_init_table(&end->sg, 1);
	sg_set_page(&end->sg, end->pages, BUF_SIZE, 0);
	if (ib_dma_map_sg(link->id->device, &end->sg, 1, DMA_BIDIRECTIONAL) != 1)
		return -ENOMEM;
	end->mapped = true;
	ret = link_make_qp(link, &attr, IB_POLL_WORKQUEUE);
	if (ret)
		return ret;
	end->mr = ib_alloc_mr(link->pd, IB_MR_TYPE_MEM_REG, BUF_PAGES);
	return PTR_ERR_OR_ZERO(end->mr);
}

static void close_end(struct end *end)
{
	link_end_qp(&end->link, true);
	if (!IS_ERR_OR_NULL(end->mr))
		ib_dereg_mr(end->mr);
	if (end->link.id)
		unmap(end);
	if (end->pages)
		__free_pages(end->pages, BUF_ORDER);
	link_close(&end->link);
}

static struct link *requested(void)
{
	return &connecting->server.link;
}

static const struct link_hooks hooks = {
	.server = requested,
	.open = open_end,
	.depth = 4,
};

static int connect_pair(struct pair *pair, struct sockaddr_in *to)
{
	struct link *client = &pair->client.link, *server = &pair->server.link;
	int ret;

	connecting = pair;
	ret = link_connect(client, to);
	if (!ret)
		ret = link_wait(client, server);
	return ret ?: client->status ?: server->status;
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
	ib_drain_qp(victim.client.link.id->qp);
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
	link_init(&pair->client.link);
	link_init(&pair->server.link);
}

static int run(void)
{
	static struct request first, second;
	struct rdma_cm_id *listener;
	struct sockaddr_in to;
	int ret;

	pair_init(&healthy);
	pair_init(&victim);
	listener = link_listen(addr, 7472, &to);
	if (IS_ERR(listener))
		return PTR_ERR(listener);
	ret = connect_pair(&healthy, &to);
	if (!ret)
		ret = connect_pair(&victim, &to);
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
