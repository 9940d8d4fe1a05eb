// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A kernel consumer of atomics and immediate data
 *
 * Loading it connects two QPs of this machine through the address `addr`. The
 * server registers a number by a work request; the client works on it by all
 * atomics of the kernel's verbs, and sends immediate data with a Write and
 * alone. The parameter `result` then says what went wrong, or `ok`.
 */
#include <linux/delay.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#define QUEUE	16
#define WAIT	(20 * HZ)

static char *addr = "10.0.0.1";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "address of this machine, both ends use it");
static char result[256];
module_param_string(result, result, sizeof(result), 0444);
MODULE_PARM_DESC(result, "what went wrong, or ok");

struct end {
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *cq;
	u64 *page;
	dma_addr_t dma;
	struct completion step;		/* of set-up */
	struct completion over;		/* established, or failed */
	int status;			/* of set-up */
};

static struct end client, server;
static struct rdma_cm_id *listener;
static struct ib_mr *mr;

static void say(const char *fmt, ...)
{
	va_list args;

	/* Of several failures the first one is told */
	if (result[0])
		return;
	va_start(args, fmt);
	vscnprintf(result, sizeof(result), fmt, args);
	va_end(args);
}

static int open_end(struct end *end, struct rdma_cm_id *id)
{
	struct ib_qp_init_attr attr = {
		.cap.max_send_wr = QUEUE,
		.cap.max_recv_wr = QUEUE,
		.cap.max_send_sge = 1,
		.cap.max_recv_sge = 1,
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
	};

	end->id = id;
	end->pd = ib_alloc_pd(id->device, 0);
	if (IS_ERR(end->pd))
		return PTR_ERR(end->pd);
	end->cq = ib_alloc_cq_any(id->device, end, 2 * QUEUE, IB_POLL_DIRECT);
	if (IS_ERR(end->cq))
		return PTR_ERR(end->cq);
	attr.send_cq = end->cq;
	attr.recv_cq = end->cq;
	end->page = (u64 *)get_zeroed_page(GFP_KERNEL);
	if (!end->page)
		return -ENOMEM;
	end->dma = ib_dma_map_single(id->device, end->page, PAGE_SIZE,
				     DMA_BIDIRECTIONAL);
	if (ib_dma_mapping_error(id->device, end->dma)) {
		free_page((unsigned long)end->page);
		end->page = NULL;
		return -ENOMEM;
	}
	return rdma_create_qp(id, end->pd, &attr);
}

static void close_end(struct end *end)
{
	if (end->id && end->id->qp) {
		ib_drain_qp(end->id->qp);
		if (end == &server && !IS_ERR_OR_NULL(mr))
			ib_dereg_mr(mr);
		rdma_destroy_qp(end->id);
	}
	if (end->page) {
		ib_dma_unmap_single(end->id->device, end->dma, PAGE_SIZE,
				    DMA_BIDIRECTIONAL);
		free_page((unsigned long)end->page);
	}
	if (!IS_ERR_OR_NULL(end->cq))
		ib_free_cq(end->cq);
	if (!IS_ERR_OR_NULL(end->pd))
		ib_dealloc_pd(end->pd);
	if (end->id)
		rdma_destroy_id(end->id);
}

/* ---- Set-up ---- */

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
	int ret;

	id->context = &server;
	ret = open_end(&server, id);
	if (!ret)
		ret = rdma_accept(id, &param);
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

static int connect_ends(struct sockaddr *to)
{
	struct rdma_conn_param param = {
		.responder_resources = 4,
		.initiator_depth = 4,
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
	if (!ret)
		ret = rdma_connect(id, &param);
	if (ret)
		return ret;
	if (!wait_for_completion_timeout(&client.over, WAIT) ||
	    !wait_for_completion_timeout(&server.over, WAIT))
		return -ETIMEDOUT;
	return client.status ?: server.status;
}

/* ---- Traffic ---- */

static bool next_wc(struct end *end, enum ib_wc_opcode opcode,
		    struct ib_wc *wc, const char *what)
{
	unsigned long until = jiffies + WAIT;

	while (ib_poll_cq(end->cq, 1, wc) != 1) {
		if (time_after(jiffies, until)) {
			say("%s: no completion\n", what);
			return false;
		}
		msleep(1);
	}
	if (wc->status != IB_WC_SUCCESS || wc->opcode != opcode)
		say("%s: status %d, opcode %d\n", what, wc->status, wc->opcode);
	return wc->status == IB_WC_SUCCESS && wc->opcode == opcode;
}

/* The server's page, with the right to atomics and Writes */
static bool register_page(void)
{
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.wr.send_flags = IB_SEND_SIGNALED,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |
			  IB_ACCESS_REMOTE_ATOMIC,
	};
	struct scatterlist sg;
	struct ib_wc wc;

	mr = ib_alloc_mr(server.pd, IB_MR_TYPE_MEM_REG, 1);
	if (IS_ERR(mr)) {
		say("ib_alloc_mr: %ld\n", PTR_ERR(mr));
		return false;
	}
	sg_init_one(&sg, server.page, PAGE_SIZE);
	sg_dma_address(&sg) = server.dma;
	sg_dma_len(&sg) = PAGE_SIZE;
	if (ib_map_mr_sg(mr, &sg, 1, NULL, PAGE_SIZE) != 1) {
		say("ib_map_mr_sg\n");
		return false;
	}
	wr.mr = mr;
	wr.key = mr->rkey;
	if (ib_post_send(server.id->qp, &wr.wr, NULL)) {
		say("REG_MR was not taken\n");
		return false;
	}
	return next_wc(&server, IB_WC_REG_MR, &wc, "REG_MR");
}

struct row {
	const char *name;
	enum ib_wr_opcode opcode;
	u64 old, compare_add, swap, compare_add_mask, swap_mask, now;
	enum ib_wc_opcode wc;
};

static const struct row rows[] = {
	{ "FetchAdd", IB_WR_ATOMIC_FETCH_AND_ADD,
	  40, 2, 0, 0, 0, 42, IB_WC_FETCH_ADD },
	{ "CmpSwap", IB_WR_ATOMIC_CMP_AND_SWP,
	  42, 42, 0x123456789abcdef0, 0, 0, 0x123456789abcdef0,
	  IB_WC_COMP_SWAP },
	{ "masked FetchAdd", IB_WR_MASKED_ATOMIC_FETCH_AND_ADD,
	  0xffffffff00000001, 0x0000000200000003, 0, 0x8000000080000000, 0,
	  0x0000000100000004, IB_WC_FETCH_ADD },
	{ "masked CmpSwap", IB_WR_MASKED_ATOMIC_CMP_AND_SWP,
	  0xabcd000000001234, 0xffffffff00001234, 0x2222222222222222,
	  0x00000000ffffffff, 0x00ff000000000000, 0xab22000000001234,
	  IB_WC_MASKED_COMP_SWAP },
	{ "masked CmpSwap that differs", IB_WR_MASKED_ATOMIC_CMP_AND_SWP,
	  0xabcd000000001234, 0xffffffff00001235, 0x2222222222222222,
	  0x00000000ffffffff, 0x00ff000000000000, 0xabcd000000001234,
	  IB_WC_MASKED_COMP_SWAP },
};

static bool atomic_op(const struct row *row)
{
	struct ib_sge sge = {
		.addr = client.dma,
		.length = sizeof(u64),
		.lkey = client.pd->local_dma_lkey,
	};
	struct ib_atomic_wr wr = {
		.wr.opcode = row->opcode,
		.wr.send_flags = IB_SEND_SIGNALED,
		.wr.sg_list = &sge,
		.wr.num_sge = 1,
		.remote_addr = mr->iova + 64,
		.rkey = mr->rkey,
		.compare_add = row->compare_add,
		.swap = row->swap,
		.compare_add_mask = row->compare_add_mask,
		.swap_mask = row->swap_mask,
	};
	struct ib_wc wc;
	int ret;

	WRITE_ONCE(server.page[8], row->old);
	ret = ib_post_send(client.id->qp, &wr.wr, NULL);
	if (ret) {
		say("%s was not taken: %d\n", row->name, ret);
		return false;
	}
	if (!next_wc(&client, row->wc, &wc, row->name))
		return false;
	if (READ_ONCE(client.page[0]) != row->old ||
	    READ_ONCE(server.page[8]) != row->now)
		say("%s: returned 0x%llx, the number is 0x%llx\n", row->name,
		    client.page[0], server.page[8]);
	return true;
}

static bool immediate(enum ib_wr_opcode opcode, u32 length, u32 imm)
{
	struct ib_sge sge = {
		.addr = client.dma,
		.length = length,
		.lkey = client.pd->local_dma_lkey,
	};
	struct ib_rdma_wr wr = {
		.wr.opcode = opcode,
		.wr.send_flags = IB_SEND_SIGNALED,
		.wr.sg_list = &sge,
		.wr.num_sge = 1,
		.wr.ex.imm_data = cpu_to_be32(imm),
		.remote_addr = mr->iova + 1024,
		.rkey = mr->rkey,
	};
	struct ib_recv_wr recv = {};
	struct ib_wc wc;

	memset(client.page, imm, length);
	if (ib_post_recv(server.id->qp, &recv, NULL) ||
	    ib_post_send(client.id->qp, &wr.wr, NULL)) {
		say("immediate data 0x%x was not taken\n", imm);
		return false;
	}
	if (!next_wc(&client, opcode == IB_WR_SEND_WITH_IMM ? IB_WC_SEND :
		     IB_WC_RDMA_WRITE, &wc, "immediate data") ||
	    !next_wc(&server, IB_WC_RECV_RDMA_WITH_IMM, &wc,
		     "receive of immediate data"))
		return false;
	if (wc.wc_flags != IB_WC_WITH_IMM ||
	    wc.ex.imm_data != cpu_to_be32(imm) || wc.byte_len != length ||
	    memcmp(server.page + 128, client.page, length))
		say("immediate data 0x%x: flags 0x%x, 0x%x, %u octets\n", imm,
		    wc.wc_flags, be32_to_cpu(wc.ex.imm_data), wc.byte_len);
	return true;
}

/* iWARP has no Send with data and immediate data */
static void send_with_both(void)
{
	struct ib_sge sge = {
		.addr = client.dma,
		.length = 8,
		.lkey = client.pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND_WITH_IMM,
		.sg_list = &sge,
		.num_sge = 1,
	};
	int ret = ib_post_send(client.id->qp, &wr, NULL);

	if (ret != -EOPNOTSUPP)
		say("a Send with data and immediate data: %d\n", ret);
}

static void traffic(void)
{
	unsigned int i;

	if (!register_page())
		return;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (!atomic_op(&rows[i]))
			return;
	}
	if (!immediate(IB_WR_RDMA_WRITE_WITH_IMM, 100, 0xdeadbeef) ||
	    !immediate(IB_WR_SEND_WITH_IMM, 0, 7))
		return;
	send_with_both();
	say("ok\n");
}

static int run(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int ret;

	if (!in4_pton(addr, -1, (u8 *)&to.sin_addr, -1, NULL))
		return -EINVAL;
	to.sin_port = htons(7472);
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
		ret = connect_ends((struct sockaddr *)&to);
	if (!ret) {
		if (client.id->device->attrs.atomic_cap != IB_ATOMIC_HCA)
			say("atomic_cap %d\n",
			    client.id->device->attrs.atomic_cap);
		traffic();
	}
	rdma_destroy_id(listener);
	close_end(&client);
	close_end(&server);
	return ret;
}

static int __init atomic_init(void)
{
	return run();
}

static void __exit atomic_exit(void)
{
}

module_init(atomic_init);
module_exit(atomic_exit);
MODULE_DESCRIPTION("rnic test: atomics and immediate data in the kernel");
MODULE_LICENSE("GPL");
