/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connections of this machine with itself, for the tests' kernel consumers
 *
 * A consumer has its two ends each with a struct link as first member, and says
 * by `struct link_hooks hooks`, which it defines, what is its own in setting
 * them up.
 */
#ifndef RNIC_TEST_LINK_H
#define RNIC_TEST_LINK_H

#include <linux/inet.h>
#include <linux/module.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

/* For what happens in milliseconds unless something is wrong */
#define WAIT		(60 * HZ)
#define RESOLVE_MS	20000

struct link {
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct completion step;		/* of set-up */
	struct completion over;		/* established, or failed */
	struct completion gone;		/* disconnected */
	int status;			/* of set-up */
};

struct link_hooks {
	/* Who takes a request that came; NULL: it is rejected */
	struct link *(*server)(void);
	/* Makes the QP of link->id, and what else it takes to connect */
	int (*open)(struct link *link);
	/* Optional */
	void (*established)(struct link *link);
	u8 depth;			/* of RDMA Reads */
};

static const struct link_hooks hooks;

static void link_init(struct link *link)
{
	init_completion(&link->step);
	init_completion(&link->over);
	init_completion(&link->gone);
}

static int link_make_pd(struct link *link)
{
	link->pd = ib_alloc_pd(link->id->device, 0);
	return PTR_ERR_OR_ZERO(link->pd);
}

/* CQ and QP, and a PD if there is none; all sizes are those of @attr. link_close() frees what there is
 * after a failure, too.
 */
static int link_make_qp(struct link *link, struct ib_qp_init_attr *attr,
			enum ib_poll_context poll)
{
	int ret = link->pd ? 0 : link_make_pd(link);

	if (ret)
		return ret;
	link->cq = ib_alloc_cq_any(link->id->device, link,
				   2 * (attr->cap.max_send_wr +
					attr->cap.max_recv_wr), poll);
	if (IS_ERR(link->cq))
		return PTR_ERR(link->cq);
	attr->send_cq = link->cq;
	attr->recv_cq = link->cq;
	attr->qp_type = IB_QPT_RC;
	attr->sq_sig_type = IB_SIGNAL_REQ_WR;
	return rdma_create_qp(link->id, link->pd, attr);
}

/* Before what its requests use is freed; link_close() is for the rest. @drain:
 * until all of them have completed.
 */
static void link_end_qp(struct link *link, bool drain)
{
	if (link->id && link->id->qp) {
		if (drain)
			ib_drain_qp(link->id->qp);
		rdma_destroy_qp(link->id);
	}
}

static void link_close(struct link *link)
{
	if (!IS_ERR_OR_NULL(link->cq))
		ib_free_cq(link->cq);
	if (!IS_ERR_OR_NULL(link->pd))
		ib_dealloc_pd(link->pd);
	if (link->id)
		rdma_destroy_id(link->id);
}

static void link_over(struct link *link, int status)
{
	link->status = status;
	if (!status && hooks.established)
		hooks.established(link);
	complete(&link->over);
}

static void link_param(struct rdma_conn_param *param)
{
	*param = (struct rdma_conn_param){
		.responder_resources = hooks.depth,
		.initiator_depth = hooks.depth,
	};
}

static int link_requested(struct rdma_cm_id *id)
{
	struct link *link = hooks.server();
	struct rdma_conn_param param;
	int ret;

	if (!link) {
		rdma_reject(id, NULL, 0, IB_CM_REJ_CONSUMER_DEFINED);
		/* iw_cm destroys it */
		return -ECONNREFUSED;
	}
	link->id = id;
	id->context = link;
	link_param(&param);
	ret = hooks.open(link);
	if (!ret)
		ret = rdma_accept(id, &param);
	/* The identifier stays, for link_close() */
	if (ret)
		link_over(link, ret);
	return 0;
}

static int link_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct link *link = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		complete(&link->step);
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return link_requested(id);
	case RDMA_CM_EVENT_ESTABLISHED:
		link_over(link, 0);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		complete(&link->gone);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		link_over(link, event->status ?: -EPROTO);
		complete(&link->step);
		break;
	default:
		break;
	}
	return 0;
}

/* A listener at the address, for rdma_destroy_id(), or an error */
static struct rdma_cm_id *link_listen(const char *addr, u16 port,
				      struct sockaddr_in *to)
{
	struct rdma_cm_id *listener;
	int ret;

	*to = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
	};
	if (!in4_pton(addr, -1, (u8 *)&to->sin_addr, -1, NULL))
		return ERR_PTR(-EINVAL);
	listener = rdma_create_id(&init_net, link_event, NULL, RDMA_PS_TCP,
				  IB_QPT_RC);
	if (IS_ERR(listener))
		return listener;
	ret = rdma_bind_addr(listener, (struct sockaddr *)to);
	if (!ret)
		ret = rdma_listen(listener, 4);
	if (!ret)
		return listener;
	rdma_destroy_id(listener);
	return ERR_PTR(ret);
}

static int link_step(struct link *link, int ret)
{
	if (ret)
		return ret;
	if (!wait_for_completion_timeout(&link->step, WAIT) || link->status)
		return -EHOSTUNREACH;
	reinit_completion(&link->step);
	return 0;
}

static int link_connect(struct link *link, struct sockaddr_in *to)
{
	struct rdma_conn_param param;
	struct rdma_cm_id *id;
	int ret;

	id = rdma_create_id(&init_net, link_event, link, RDMA_PS_TCP,
			    IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	link->id = id;
	link_param(&param);
	ret = link_step(link, rdma_resolve_addr(id, NULL,
						(struct sockaddr *)to,
						RESOLVE_MS));
	if (!ret)
		ret = link_step(link, rdma_resolve_route(id, RESOLVE_MS));
	if (!ret)
		ret = hooks.open(link);
	return ret ?: rdma_connect(id, &param);
}

/* Until both ends are established, or have failed, which is in their status */
static int link_wait(struct link *client, struct link *server)
{
	if (!wait_for_completion_timeout(&client->over, WAIT) ||
	    !wait_for_completion_timeout(&server->over, WAIT))
		return -ETIMEDOUT;
	return 0;
}

#endif
