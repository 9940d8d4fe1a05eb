// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A kernel consumer that destroys a QP whose completions it has not polled
 *
 * Loading it connects two QPs of this machine through the address `addr`, of
 * which the server takes its receives from an SRQ. Messages use all of them;
 * nobody polls for them, and the server's QP is destroyed. The SRQ must then
 * have room again. The parameter `result` says how much of it there is.
 */
#include "link.h"

#define DEPTH	8

static char *addr = "10.0.0.1";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "address of this machine, both ends use it");
static int result = -1;
module_param(result, int, 0444);
MODULE_PARM_DESC(result, "receives that the SRQ took afterwards, or an error");

static struct link client, server;
static struct ib_srq *srq;	/* of the server */

/* How many receives, of no octets each, the SRQ takes */
static int fill_srq(void)
{
	struct ib_recv_wr wr = {};
	int n = 0;

	while (n <= DEPTH && !ib_post_srq_recv(srq, &wr, NULL))
		n++;
	return n;
}

static int open_end(struct link *link)
{
	struct ib_qp_init_attr attr = {
		.cap.max_send_wr = DEPTH,
		.cap.max_recv_wr = DEPTH,
		.cap.max_send_sge = 1,
	};
	struct ib_srq_init_attr srq_attr = {
		.srq_type = IB_SRQT_BASIC,
		.attr.max_wr = DEPTH,
		.attr.max_sge = 1,
	};
	int ret;

	ret = link_make_pd(link);
	if (ret)
		return ret;
	if (link == &server) {
		srq = ib_create_srq(link->pd, &srq_attr);
		if (IS_ERR(srq))
			return PTR_ERR(srq);
		if (fill_srq() != DEPTH)
			return -ENOSPC;
		attr.srq = srq;
	}
	return link_make_qp(link, &attr, IB_POLL_DIRECT);
}

static struct link *requested(void)
{
	return &server;
}

static const struct link_hooks hooks = {
	.server = requested,
	.open = open_end,
};

/* All receives are used; their completions are there before the end is */
static int use_receives(void)
{
	struct ib_send_wr wr = { .opcode = IB_WR_SEND };
	int i, ret;

	for (i = 0; i < DEPTH; i++) {
		ret = ib_post_send(client.id->qp, &wr, NULL);
		if (ret)
			return ret;
	}
	ret = rdma_disconnect(client.id);
	if (!ret && !wait_for_completion_timeout(&server.gone, WAIT))
		ret = -ETIMEDOUT;
	return ret;
}

static int __init srq_init(void)
{
	struct rdma_cm_id *listener;
	struct sockaddr_in to;
	int ret;

	link_init(&client);
	link_init(&server);
	listener = link_listen(addr, 7476, &to);
	if (IS_ERR(listener))
		return PTR_ERR(listener);
	ret = link_connect(&client, &to);
	if (!ret)
		ret = link_wait(&client, &server);
	if (!ret)
		ret = client.status ?: server.status ?: use_receives();
	if (!ret) {
		/* Its completions are not polled */
		link_end_qp(&server, false);
		ret = fill_srq();
	}
	result = ret;
	rdma_destroy_id(listener);
	link_end_qp(&client, false);
	link_end_qp(&server, false);
	if (!IS_ERR_OR_NULL(srq))
		ib_destroy_srq(srq);
	link_close(&client);
	link_close(&server);
	return 0;
}

static void __exit srq_exit(void)
{
}

module_init(srq_init);
module_exit(srq_exit);
MODULE_DESCRIPTION("rnic test: an SRQ outlives a QP that was not polled");
MODULE_LICENSE("GPL");
