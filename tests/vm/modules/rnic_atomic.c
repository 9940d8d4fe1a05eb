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
#include <linux/scatterlist.h>
#include "link.h"

#define QUEUE	16

static char *addr = "10.0.0.1";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "address of this machine, both ends use it");
static char result[256];
module_param_string(result, result, sizeof(result), 0444);
MODULE_PARM_DESC(result, "what went wrong, or ok");

struct end {
	struct link link;
	u64 *page;
	dma_addr_t dma;
};

static struct end client, server;
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

/* ---- Set-up ---- */

static int open_end(struct link *link)
{
	struct end *end = container_of(link, struct end, link);
	struct ib_qp_init_attr attr = {
		.cap.max_send_wr = QUEUE,
		.cap.max_recv_wr = QUEUE,
		.cap.max_send_sge = 1,
		.cap.max_recv_sge = 1,
	};
	struct ib_device *dev = link->id->device;

	end->page = (u64 *)get_zeroed_page(GFP_KERNEL);
	if (!end->page)
		return -ENOMEM;
	end->dma = ib_dma_map_single(dev, end->page, PAGE_SIZE,
				     DMA_BIDIRECTIONAL);
	if (ib_dma_mapping_error(dev, end->dma)) {
		free_page((unsigned long)end->page);
		end->page = NULL;
		return -ENOMEM;
	}
	return link_make_qp(link, &attr, IB_POLL_DIRECT);
}

static void close_end(struct end *end)
{
	link_end_qp(&end->link, true);
	if (end == &server && !IS_ERR_OR_NULL(mr))
		ib_dereg_mr(mr);
	if (end->page) {
		ib_dma_unmap_single(end->link.id->device, end->dma, PAGE_SIZE,
				    DMA_BIDIRECTIONAL);
		free_page((unsigned long)end->page);
	}
	link_close(&end->link);
}

static struct link *requested(void)
{
	return &server.link;
}

static const struct link_hooks hooks = {
	.server = requested,
	.open = open_end,
	.depth = 4,
};

/* ---- Traffic ---- */

static bool next_wc(struct end *end, enum ib_wc_opcode opcode,
		    struct ib_wc *wc, const char *what)
{
	unsigned long until = jiffies + WAIT;

	while (ib_poll_cq(end->link.cq, 1, wc) != 1) {
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

	mr = ib_alloc_mr(server.link.pd, IB_MR_TYPE_MEM_REG, 1);
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
	if (ib_post_send(server.link.id->qp, &wr.wr, NULL)) {
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
		.lkey = client.link.pd->local_dma_lkey,
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
	ret = ib_post_send(client.link.id->qp, &wr.wr, NULL);
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
		.lkey = client.link.pd->local_dma_lkey,
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
	if (ib_post_recv(server.link.id->qp, &recv, NULL) ||
	    ib_post_send(client.link.id->qp, &wr.wr, NULL)) {
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
		.lkey = client.link.pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND_WITH_IMM,
		.sg_list = &sge,
		.num_sge = 1,
	};
	int ret = ib_post_send(client.link.id->qp, &wr, NULL);

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
	struct rdma_cm_id *listener;
	struct sockaddr_in to;
	int ret;

	link_init(&client.link);
	link_init(&server.link);
	listener = link_listen(addr, 7472, &to);
	if (IS_ERR(listener))
		return PTR_ERR(listener);
	ret = link_connect(&client.link, &to);
	if (!ret)
		ret = link_wait(&client.link, &server.link);
	if (!ret)
		ret = client.link.status ?: server.link.status;
	if (!ret) {
		if (client.link.id->device->attrs.atomic_cap != IB_ATOMIC_HCA)
			say("atomic_cap %d\n",
			    client.link.id->device->attrs.atomic_cap);
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
