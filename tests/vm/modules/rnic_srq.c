// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A kernel consumer that destroys a QP whose completions it has not polled
 *
 * Loading it connects two QPs of this machine through the address `addr`, of
 * which the server takes its receives from an SRQ. Messages use all of them;
 * nobody polls for them, and the server's QP is destroyed. The SRQ must then
 * have room again. The parameter `result` says how much of it there is.
 */
#include <linux/inet.h>
#include <linux/module.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#define DEPTH	8
#define WAIT	(20 * HZ)

static char *addr = "10.0.0.1";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "address of this machine, both ends use it");
static int result = -1;
module_param(result, int, 0444);
MODULE_PARM_DESC(result, "receives that the SRQ took afterwards, or an error");

struct end {
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_srq *srq;		/* of the server */
	struct completion step;		/* of set-up */
	struct completion over;		/* disconnected, or failed */
	int status;			/* of set-up */
};

static struct end client, server;
static struct rdma_cm_id *listener;

/* How many receives, of no octets each, the SRQ takes */
static int fill_srq(struct ib_srq *srq)
{
	struct ib_recv_wr wr = {};
	int n = 0;

	while (n <= DEPTH && !ib_post_srq_recv(srq, &wr, NULL))
		n++;
	return n;
}

static int open_end(struct end *end, struct rdma_cm_id *id, bool srq)
{
	struct ib_qp_init_attr attr = {
		.cap.max_send_wr = DEPTH,
		.cap.max_recv_wr = 1,
		.cap.max_send_sge = 1,
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
	};
	struct ib_srq_init_attr srq_attr = {
		.srq_type = IB_SRQT_BASIC,
		.attr.max_wr = DEPTH,
		.attr.max_sge = 1,
	};

	end->id = id;
	end->pd = ib_alloc_pd(id->device, 0);
	if (IS_ERR(end->pd))
		return PTR_ERR(end->pd);
	end->cq = ib_alloc_cq_any(id->device, end, 4 * DEPTH, IB_POLL_DIRECT);
	if (IS_ERR(end->cq))
		return PTR_ERR(end->cq);
	if (srq) {
		end->srq = ib_create_srq(end->pd, &srq_attr);
		if (IS_ERR(end->srq))
			return PTR_ERR(end->srq);
		if (fill_srq(end->srq) != DEPTH)
			return -ENOSPC;
	}
	attr.send_cq = end->cq;
	attr.recv_cq = end->cq;
	attr.srq = end->srq;
	return rdma_create_qp(id, end->pd, &attr);
}

static void close_end(struct end *end)
{
	if (end->id && end->id->qp)
		rdma_destroy_qp(end->id);
	if (!IS_ERR_OR_NULL(end->srq))
		ib_destroy_srq(end->srq);
	if (!IS_ERR_OR_NULL(end->cq))
		ib_free_cq(end->cq);
	if (!IS_ERR_OR_NULL(end->pd))
		ib_dealloc_pd(end->pd);
	if (end->id)
		rdma_destroy_id(end->id);
}

static int on_request(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {};
	int ret;

	id->context = &server;
	ret = open_end(&server, id, true);
	if (!ret)
		ret = rdma_accept(id, &param);
	/* The identifier stays, for close_end() */
	server.status = ret;
	return 0;
}

static int on_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct end *end = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return on_request(id);
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_ESTABLISHED:
		complete(&end->step);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		complete(&end->over);
		break;
	default:
		end->status = event->status ?: -EPROTO;
		complete(&end->step);
		complete(&end->over);
		break;
	}
	return 0;
}

static int next_step(struct end *end)
{
	if (!wait_for_completion_timeout(&end->step, WAIT))
		return -ETIMEDOUT;
	reinit_completion(&end->step);
	return end->status;
}

static int connect_ends(struct sockaddr *to)
{
	struct rdma_conn_param param = {};
	struct rdma_cm_id *id;
	int ret;

	listener = rdma_create_id(&init_net, on_event, NULL, RDMA_PS_TCP,
				  IB_QPT_RC);
	if (IS_ERR(listener))
		return PTR_ERR(listener);
	ret = rdma_bind_addr(listener, to);
	if (!ret)
		ret = rdma_listen(listener, 1);
	if (ret)
		return ret;
	id = rdma_create_id(&init_net, on_event, &client, RDMA_PS_TCP,
			    IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	client.id = id;
	ret = rdma_resolve_addr(id, NULL, to, 5000) ?: next_step(&client);
	if (!ret)
		ret = rdma_resolve_route(id, 5000) ?: next_step(&client);
	if (!ret)
		ret = open_end(&client, id, false);
	if (!ret)
		ret = rdma_connect(id, &param) ?: next_step(&client);
	return ret ?: server.status;
}

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
	if (!ret && !wait_for_completion_timeout(&server.over, WAIT))
		ret = -ETIMEDOUT;
	return ret;
}

static int __init srq_init(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int ret;

	in4_pton(addr, -1, (u8 *)&to.sin_addr, -1, NULL);
	to.sin_port = htons(7476);
	init_completion(&client.step);
	init_completion(&client.over);
	init_completion(&server.step);
	init_completion(&server.over);

	ret = connect_ends((struct sockaddr *)&to);
	if (!ret)
		ret = use_receives();
	if (!ret) {
		rdma_destroy_qp(server.id);
		ret = fill_srq(server.srq);
	}
	result = ret;
	close_end(&client);
	close_end(&server);
	if (!IS_ERR_OR_NULL(listener))
		rdma_destroy_id(listener);
	return 0;
}

static void __exit srq_exit(void)
{
}

module_init(srq_init);
module_exit(srq_exit);
MODULE_DESCRIPTION("rnic test: an SRQ outlives a QP that was not polled");
MODULE_LICENSE("GPL");
