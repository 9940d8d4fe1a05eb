// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Connection management: carries iw_cm's requests to the device, which
 * terminates TCP, and its events back
 *
 * iw_cm insists on the events that each state is due and on no others (it has
 * BUG_ON() for them). conn_state says what a QP's connection is still due; who
 * moves it under conn_lock raises the event. All events are raised on event_wq,
 * which is ordered.
 */
#include <net/ipv6.h>

#include "rnic.h"

struct rnic_listener {
	u32 id;
	struct iw_cm_id *cm_id;
};

/* Private data of a command, which the device reads within it */
struct rnic_pdata {
	void *buf;
	dma_addr_t dma;
	u16 len;
};

static int pdata_map(struct rnic_dev *rdev, struct rnic_pdata *pdata,
		     const void *data, size_t len)
{
	struct device *dev = &rdev->pdev->dev;

	*pdata = (struct rnic_pdata) {};
	if (!len)
		return 0;
	if (len > rdev->limits.pdata)
		return -EINVAL;
	pdata->buf = kmemdup(data, len, GFP_KERNEL);
	if (!pdata->buf)
		return -ENOMEM;
	pdata->dma = dma_map_single(dev, pdata->buf, len, DMA_TO_DEVICE);
	if (dma_mapping_error(dev, pdata->dma)) {
		kfree(pdata->buf);
		return -ENOMEM;
	}
	pdata->len = len;
	return 0;
}

static void pdata_unmap(struct rnic_dev *rdev, struct rnic_pdata *pdata)
{
	if (!pdata->len)
		return;
	dma_unmap_single(&rdev->pdev->dev, pdata->dma, pdata->len,
			 DMA_TO_DEVICE);
	kfree(pdata->buf);
}

static int addr_to_dev(const struct sockaddr_storage *from,
		       struct rnic_sockaddr *to)
{
	const struct sockaddr_in *sin = (const struct sockaddr_in *)from;
	const struct sockaddr_in6 *sin6 = (const struct sockaddr_in6 *)from;

	memset(to, 0, sizeof(*to));
	switch (from->ss_family) {
	case AF_INET:
		to->family = cpu_to_le16(RNIC_AF_INET);
		to->port = sin->sin_port;
		memcpy(to->addr, &sin->sin_addr, sizeof(sin->sin_addr));
		return 0;
	case AF_INET6:
		to->family = cpu_to_le16(RNIC_AF_INET6);
		to->port = sin6->sin6_port;
		if (ipv6_addr_type(&sin6->sin6_addr) & IPV6_ADDR_LINKLOCAL)
			to->scope_id = cpu_to_le32(sin6->sin6_scope_id);
		memcpy(to->addr, &sin6->sin6_addr, sizeof(sin6->sin6_addr));
		return 0;
	default:
		return -EAFNOSUPPORT;
	}
}

static void addr_from_dev(struct rnic_dev *rdev,
			  const struct rnic_sockaddr *from,
			  struct sockaddr_storage *to)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)to;
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)to;

	memset(to, 0, sizeof(*to));
	switch (le16_to_cpu(from->family)) {
	case RNIC_AF_INET:
		sin->sin_family = AF_INET;
		sin->sin_port = from->port;
		memcpy(&sin->sin_addr, from->addr, sizeof(sin->sin_addr));
		break;
	case RNIC_AF_INET6:
		sin6->sin6_family = AF_INET6;
		sin6->sin6_port = from->port;
		memcpy(&sin6->sin6_addr, from->addr, sizeof(sin6->sin6_addr));
		if (ipv6_addr_type(&sin6->sin6_addr) & IPV6_ADDR_LINKLOCAL)
			sin6->sin6_scope_id = rdev->ndev->ifindex;
		break;
	}
}

void rnic_sockaddr_name(const struct rnic_sockaddr *addr, char *name,
			size_t size)
{
	if (le16_to_cpu(addr->family) == RNIC_AF_INET)
		snprintf(name, size, "%pI4", addr->addr);
	else
		snprintf(name, size, "%pI6c", addr->addr);
}

static int cm_errno(u16 status)
{
	switch (status) {
	case RNIC_CM_OK:
		return 0;
	case RNIC_CM_REJECTED:
	case RNIC_CM_REFUSED:
		return -ECONNREFUSED;
	case RNIC_CM_TIMEDOUT:
		return -ETIMEDOUT;
	case RNIC_CM_RESET:
		return -ECONNRESET;
	case RNIC_CM_UNREACHABLE:
		return -EHOSTUNREACH;
	case RNIC_CM_ADDR_IN_USE:
		return -EADDRINUSE;
	case RNIC_CM_LOCAL_ERROR:
		return -ENOMEM;
	case RNIC_CM_ADDR_GONE:
		return -EADDRNOTAVAIL;
	case RNIC_CM_EARLY_SEND:
		return -ENOTCONN;
	case RNIC_CM_PROTOCOL:
	default:
		return -EPROTO;
	}
}

static int raise_event(struct rnic_dev *rdev, struct iw_cm_id *id,
		       struct iw_cm_event *event)
{
	int ret = id->event_handler(id, event);

	if (ret && event->private_data_len) {
		/* iw_cm has work items for every event that is due; what it
		 * lacked is memory for the copy of the private data
		 */
		event->private_data_len = 0;
		event->private_data = NULL;
		ret = id->event_handler(id, event);
	}
	if (ret)
		dev_err_ratelimited(&rdev->pdev->dev,
				    "connection event %d was lost: %d\n",
				    event->event, ret);
	return ret;
}

/* To be called on event_wq, like all that follow with "raise" in the name */
static void raise_simple(struct rnic_dev *rdev, struct iw_cm_id *id,
			 enum iw_cm_event_type type, int status)
{
	struct iw_cm_event event = { .event = type, .status = status };

	raise_event(rdev, id, &event);
}

/* The state was @from and is now @to; NULL: it was not */
static struct iw_cm_id *conn_move(struct rnic_qp *qp, enum rnic_conn_state from,
				  enum rnic_conn_state to)
{
	struct iw_cm_id *id = NULL;

	spin_lock(&qp->conn_lock);
	if (qp->conn_state == from) {
		id = qp->cm_id;
		qp->conn_state = to;
		if (to == RNIC_CONN_NONE)
			qp->cm_id = NULL;
	}
	spin_unlock(&qp->conn_lock);
	return id;
}

/* Nothing is due any more */
static void conn_ended(struct rnic_qp *qp, struct iw_cm_id *id)
{
	id->rem_ref(id);
	wake_up_all(&qp->conn_wait);
}

static int conn_begin(struct rnic_qp *qp, struct iw_cm_id *id,
		      enum rnic_conn_state state)
{
	int ret = 0;

	spin_lock(&qp->conn_lock);
	if (qp->destroyed) {
		ret = -EINVAL;
	} else if (qp->conn_state != RNIC_CONN_NONE) {
		ret = -EISCONN;
	} else {
		id->add_ref(id);
		qp->cm_id = id;
		qp->conn_state = state;
	}
	spin_unlock(&qp->conn_lock);
	return ret;
}

/*
 * The command failed. That is the answer, unless the device died and its events
 * were made up already.
 */
static int conn_failed(struct rnic_qp *qp, struct iw_cm_id *id,
		       enum rnic_conn_state state, int error)
{
	bool ours = false;

	spin_lock(&qp->conn_lock);
	if (qp->conn_state == state && qp->cm_id == id) {
		qp->conn_state = RNIC_CONN_NONE;
		qp->cm_id = NULL;
		ours = true;
	}
	spin_unlock(&qp->conn_lock);
	if (!ours)
		return 0;
	conn_ended(qp, id);
	return error;
}

/* If it is still due; on event_wq */
static bool raise_connect_failed(struct rnic_dev *rdev, struct rnic_qp *qp,
				 int error)
{
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_CONNECT_REPLY,
		.status = error,
	};
	struct iw_cm_id *id;

	id = conn_move(qp, RNIC_CONN_CONNECTING, RNIC_CONN_NONE);
	if (!id)
		return false;
	event.local_addr = id->local_addr;
	event.remote_addr = id->remote_addr;
	raise_event(rdev, id, &event);
	conn_ended(qp, id);
	return true;
}

/* See rnic_iw_get_qp() */
void rnic_iw_add_ref(struct ib_qp *ibqp)
{
}

void rnic_iw_rem_ref(struct ib_qp *ibqp)
{
	rnic_qp_put(to_rnic_qp(ibqp));
}

/*
 * Under a spinlock. iw_cm calls iw_add_ref() next and for nothing else; but a
 * process may connect by a number whose QP it is just destroying, and the QP
 * would be gone by then. So this takes the reference.
 */
struct ib_qp *rnic_iw_get_qp(struct ib_device *ibdev, int qpn)
{
	struct rnic_qp *qp = rnic_qp_get(to_rnic(ibdev), qpn);

	return qp ? &qp->ibqp : NULL;
}

void rnic_cm_refused_work(struct work_struct *work)
{
	struct rnic_qp *qp = container_of(work, struct rnic_qp, refused_work);
	struct rnic_dev *rdev = to_rnic(qp->ibqp.device);

	/* As when the device fails to connect: what was posted is flushed */
	rnic_qp_set_state(rdev, qp->qpn, RNIC_QPS_ERROR);
	raise_connect_failed(rdev, qp, qp->refused);
	rnic_qp_put(qp);
}

/*
 * What the packet filter refuses ends as what the peer refuses, by an event:
 * programs wait for that, and many never end if connecting fails at once.
 */
static int connect_refused(struct rnic_qp *qp, struct iw_cm_id *id, int error)
{
	struct rnic_dev *rdev = to_rnic(qp->ibqp.device);
	int ret;

	ret = conn_begin(qp, id, RNIC_CONN_CONNECTING);
	if (ret)
		return ret;
	qp->refused = error;
	refcount_inc(&qp->refs);
	if (!queue_work(rdev->event_wq, &qp->refused_work))
		rnic_qp_put(qp);
	return 0;
}

int rnic_iw_connect(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_CONNECT };
	struct rnic_dev *rdev = to_rnic(id->device);
	struct rnic_cmd_connect *connect = &cmd.connect;
	struct rnic_pdata pdata;
	struct rnic_qp *qp;
	int ret, refused;

	if (param->ord > rdev->limits.ord || param->ird > rdev->limits.ird)
		return -EINVAL;
	ret = addr_to_dev(&id->local_addr, &connect->local);
	if (!ret)
		ret = addr_to_dev(&id->m_remote_addr, &connect->remote);
	if (ret)
		return ret;

	qp = rnic_qp_get(rdev, param->qpn);
	if (!qp)
		return -EINVAL;
	/* Whoever added an address may use it from then on */
	rnic_addrs_flush(rdev);
	refused = rnic_filter_connect(rdev, &connect->local, &connect->remote);
	if (refused) {
		ret = connect_refused(qp, id, refused);
		goto out_qp;
	}
	ret = pdata_map(rdev, &pdata, param->private_data,
			param->private_data_len);
	if (ret)
		goto out_qp;
	/* Before the command: its event may come before its answer */
	ret = conn_begin(qp, id, RNIC_CONN_CONNECTING);
	if (ret)
		goto out_pdata;

	connect->qpn = cpu_to_le32(qp->qpn);
	connect->ird = cpu_to_le16(param->ird);
	connect->ord = cpu_to_le16(param->ord);
	connect->pdata_len = cpu_to_le16(pdata.len);
	connect->pdata = cpu_to_le64(pdata.dma);
	ret = rnic_cmd(rdev, &cmd, NULL);
	if (ret)
		ret = conn_failed(qp, id, RNIC_CONN_CONNECTING, ret);
out_pdata:
	pdata_unmap(rdev, &pdata);
out_qp:
	rnic_qp_put(qp);
	return ret;
}

static int cmd_reject(struct rnic_dev *rdev, u32 conn_id, const void *data,
		      size_t len)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_REJECT };
	struct rnic_pdata pdata;
	int ret;

	ret = pdata_map(rdev, &pdata, data, len);
	if (ret)
		return ret;
	cmd.accept.conn_id = cpu_to_le32(conn_id);
	cmd.accept.pdata_len = cpu_to_le16(pdata.len);
	cmd.accept.pdata = cpu_to_le64(pdata.dma);
	ret = rnic_cmd(rdev, &cmd, NULL);
	pdata_unmap(rdev, &pdata);
	return ret;
}

/* provider_data of a child is the device's name of the request */
static u32 conn_id_of(struct iw_cm_id *id)
{
	return (uintptr_t)id->provider_data;
}

int rnic_iw_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_ACCEPT };
	struct rnic_dev *rdev = to_rnic(id->device);
	struct rnic_cmd_accept *accept = &cmd.accept;
	struct rnic_pdata pdata = {};
	struct rnic_qp *qp = NULL;
	int ret = -EINVAL;

	if (param->ord > rdev->limits.ord || param->ird > rdev->limits.ird)
		goto out;
	qp = rnic_qp_get(rdev, param->qpn);
	if (!qp)
		goto out;
	ret = pdata_map(rdev, &pdata, param->private_data,
			param->private_data_len);
	if (ret)
		goto out;
	ret = conn_begin(qp, id, RNIC_CONN_ACCEPTING);
	if (ret)
		goto out;

	accept->conn_id = cpu_to_le32(conn_id_of(id));
	accept->qpn = cpu_to_le32(qp->qpn);
	accept->ird = cpu_to_le16(param->ird);
	accept->ord = cpu_to_le16(param->ord);
	accept->pdata_len = cpu_to_le16(pdata.len);
	accept->pdata = cpu_to_le64(pdata.dma);
	ret = rnic_cmd(rdev, &cmd, NULL);
	if (ret)
		ret = conn_failed(qp, id, RNIC_CONN_ACCEPTING, ret);
out:
	pdata_unmap(rdev, &pdata);
	if (qp)
		rnic_qp_put(qp);
	/* iw_cm does not reject a request whose accept failed */
	if (ret)
		cmd_reject(rdev, conn_id_of(id), NULL, 0);
	return ret;
}

int rnic_iw_reject(struct iw_cm_id *id, const void *pdata, u8 len)
{
	int ret = cmd_reject(to_rnic(id->device), conn_id_of(id), pdata, len);

	/* The peer, or the listener, was faster */
	return ret == -ECONNRESET ? 0 : ret;
}

int rnic_iw_create_listen(struct iw_cm_id *id, int backlog)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_LISTEN };
	struct rnic_dev *rdev = to_rnic(id->device);
	struct rnic_listener *listener;
	struct rnic_acqe result;
	int ret;

	ret = addr_to_dev(&id->local_addr, &cmd.listen.local);
	if (ret)
		return ret;
	listener = kzalloc(sizeof(*listener), GFP_KERNEL);
	if (!listener)
		return -ENOMEM;
	listener->cm_id = id;
	/* Findable at once: requests may come before the answer */
	ret = xa_alloc(&rdev->listeners, &listener->id, listener,
		       XA_LIMIT(0, rdev->limits.listen - 1), GFP_KERNEL);
	if (ret) {
		kfree(listener);
		return ret == -EBUSY ? -ENOMEM : ret;
	}
	id->add_ref(id);
	id->provider_data = listener;

	cmd.listen.id = cpu_to_le32(listener->id);
	cmd.listen.backlog = cpu_to_le32(clamp_t(u32, backlog, 1,
						 rdev->limits.backlog));
	if (id->afonly)
		cmd.listen.flags = cpu_to_le32(RNIC_LISTEN_V6ONLY);
	/* Whoever added an address may use it from then on */
	rnic_addrs_flush(rdev);
	ret = rnic_cmd(rdev, &cmd, &result);
	if (ret) {
		rnic_aeq_flush(rdev);
		xa_erase(&rdev->listeners, listener->id);
		id->provider_data = NULL;
		id->rem_ref(id);
		kfree(listener);
		return ret;
	}
	if (!cmd.listen.local.port) {
		/* The host chose; the port is at one place in both families */
		((struct sockaddr_in *)&id->local_addr)->sin_port =
			result.listen.port;
		((struct sockaddr_in *)&id->m_local_addr)->sin_port =
			result.listen.port;
	}
	return 0;
}

int rnic_iw_destroy_listen(struct iw_cm_id *id)
{
	struct rnic_dev *rdev = to_rnic(id->device);
	struct rnic_listener *listener = id->provider_data;

	rnic_cmd_destroy(rdev, RNIC_CMD_UNLISTEN, listener->id);
	/* After this there is no request of it, and none is being handled */
	rnic_aeq_flush(rdev);
	xa_erase(&rdev->listeners, listener->id);
	id->provider_data = NULL;
	id->rem_ref(id);
	kfree(listener);
	return 0;
}

static void event_addrs(struct rnic_dev *rdev, const struct rnic_aeqe *aeqe,
			struct iw_cm_event *event)
{
	addr_from_dev(rdev, &aeqe->local, &event->local_addr);
	addr_from_dev(rdev, &aeqe->remote, &event->remote_addr);
}

/*
 * iw_cm copies it, and counts it in 8 bits: a peer's MPA frame may hold more
 * than can be handed on. Cut, it would be taken for what the peer sent.
 */
static int event_pdata(const struct rnic_aeqe *aeqe,
		       struct iw_cm_event *event)
{
	u16 len = le16_to_cpu(aeqe->pdata_len);

	if (len > U8_MAX)
		return -EMSGSIZE;
	event->private_data_len = len;
	if (len)
		event->private_data = (void *)aeqe->pdata;
	return 0;
}

/*
 * rdma_cm shows event.ird as initiator_depth, the Reads that we may start, and
 * event.ord as responder_resources
 */
static void event_depths(u16 may_start, u16 may_serve,
			 struct iw_cm_event *event)
{
	event->ird = min_t(u16, may_start, U8_MAX);
	event->ord = min_t(u16, may_serve, U8_MAX);
}

static void raise_request(struct rnic_dev *rdev, const struct rnic_aeqe *aeqe)
{
	struct iw_cm_event event = { .event = IW_CM_EVENT_CONNECT_REQUEST };
	u32 conn_id = le32_to_cpu(aeqe->conn_id);
	struct rnic_listener *listener;
	int ret = -ENOENT;

	/* Not freed under us: that flushes the AEQ first */
	listener = xa_load(&rdev->listeners, le32_to_cpu(aeqe->id));
	if (listener &&
	    !rnic_filter_request(rdev, &aeqe->local, &aeqe->remote) &&
	    !event_pdata(aeqe, &event)) {
		event.provider_data = (void *)(uintptr_t)conn_id;
		event_addrs(rdev, aeqe, &event);
		/* The peer's IRD bounds what we start */
		event_depths(le16_to_cpu(aeqe->ird), le16_to_cpu(aeqe->ord),
			     &event);
		/* It fails when more requests wait than the backlog */
		ret = listener->cm_id->event_handler(listener->cm_id, &event);
	}
	if (ret)
		cmd_reject(rdev, conn_id, NULL, 0);
}

static void raise_reply(struct rnic_dev *rdev, struct rnic_qp *qp,
			const struct rnic_aeqe *aeqe)
{
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_CONNECT_REPLY,
		.status = cm_errno(le16_to_cpu(aeqe->status)),
	};
	bool accepted = !event.status;
	struct iw_cm_id *id;

	if (event_pdata(aeqe, &event) && accepted)
		event.status = -EMSGSIZE;
	id = conn_move(qp, RNIC_CONN_CONNECTING,
		       event.status ? RNIC_CONN_NONE : RNIC_CONN_OPEN);
	if (!id)
		return;
	if (accepted && event.status)
		rnic_qp_set_state(rdev, le32_to_cpu(aeqe->id), RNIC_QPS_ERROR);
	if (event.status) {
		event.local_addr = id->local_addr;
		event.remote_addr = id->remote_addr;
	} else {
		event_addrs(rdev, aeqe, &event);
		event_depths(le16_to_cpu(aeqe->ord), le16_to_cpu(aeqe->ird),
			     &event);
	}
	raise_event(rdev, id, &event);
	if (event.status)
		conn_ended(qp, id);
}

static void raise_established(struct rnic_dev *rdev, struct rnic_qp *qp,
			      const struct rnic_aeqe *aeqe)
{
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_ESTABLISHED,
		.status = cm_errno(le16_to_cpu(aeqe->status)),
	};
	struct iw_cm_id *id;

	id = conn_move(qp, RNIC_CONN_ACCEPTING, RNIC_CONN_OPEN);
	if (!id)
		return;
	event_addrs(rdev, aeqe, &event);
	event_depths(le16_to_cpu(aeqe->ord), le16_to_cpu(aeqe->ird), &event);
	raise_event(rdev, id, &event);
}

static void raise_disconnect(struct rnic_dev *rdev, struct rnic_qp *qp)
{
	struct iw_cm_id *id;

	id = conn_move(qp, RNIC_CONN_OPEN, RNIC_CONN_OPEN);
	if (id)
		raise_simple(rdev, id, IW_CM_EVENT_DISCONNECT, 0);
}

static void raise_close(struct rnic_dev *rdev, struct rnic_qp *qp)
{
	struct iw_cm_id *id;

	id = conn_move(qp, RNIC_CONN_OPEN, RNIC_CONN_NONE);
	if (!id)
		return;
	raise_simple(rdev, id, IW_CM_EVENT_CLOSE, 0);
	conn_ended(qp, id);
}

static void listen_error(struct rnic_dev *rdev, const struct rnic_aeqe *aeqe)
{
	char name[48];

	rnic_sockaddr_name(&aeqe->local, name, sizeof(name));
	dev_err_ratelimited(&rdev->pdev->dev,
			    "cannot listen on %s port %u: %d\n", name,
			    be16_to_cpu(aeqe->local.port),
			    cm_errno(le16_to_cpu(aeqe->status)));
}

void rnic_cm_event(struct rnic_dev *rdev, const struct rnic_aeqe *aeqe)
{
	u16 type = le16_to_cpu(aeqe->type);
	struct rnic_qp *qp;

	if (type == RNIC_EV_CONNECT_REQUEST) {
		raise_request(rdev, aeqe);
		return;
	}
	if (type == RNIC_EV_LISTEN_ERROR) {
		listen_error(rdev, aeqe);
		return;
	}

	qp = rnic_qp_get(rdev, le32_to_cpu(aeqe->id));
	if (!qp)
		return;
	switch (type) {
	case RNIC_EV_CONNECT_REPLY:
		rnic_sq_release(rdev, qp);
		raise_reply(rdev, qp, aeqe);
		break;
	case RNIC_EV_ESTABLISHED:
		rnic_sq_release(rdev, qp);
		raise_established(rdev, qp, aeqe);
		break;
	case RNIC_EV_DISCONNECT:
		raise_disconnect(rdev, qp);
		break;
	case RNIC_EV_CLOSE:
		raise_close(rdev, qp);
		break;
	}
	rnic_qp_put(qp);
}

void rnic_cm_abort(struct rnic_qp *qp)
{
	struct rnic_dev *rdev = to_rnic(qp->ibqp.device);
	struct iw_cm_id *id;

	if (raise_connect_failed(rdev, qp, -ECONNABORTED))
		return;
	id = conn_move(qp, RNIC_CONN_ACCEPTING, RNIC_CONN_OPEN);
	if (id)
		raise_simple(rdev, id, IW_CM_EVENT_ESTABLISHED, -ECONNABORTED);
	raise_close(rdev, qp);
}

void rnic_cm_finish(struct rnic_dev *rdev, struct rnic_qp *qp)
{
	bool ended;

	spin_lock(&qp->conn_lock);
	qp->destroyed = true;
	ended = qp->conn_state == RNIC_CONN_NONE;
	spin_unlock(&qp->conn_lock);
	if (ended)
		return;
	/* An error means that it is there already */
	rnic_qp_set_state(rdev, qp->qpn, RNIC_QPS_ERROR);
	/* If the device dies instead, its death raises them */
	if (!wait_event_timeout(qp->conn_wait,
				READ_ONCE(qp->conn_state) == RNIC_CONN_NONE,
				30 * HZ)) {
		if (!rnic_is_dead(rdev)) {
			dev_err(&rdev->pdev->dev,
				"QP %u: its connection does not end\n",
				qp->qpn);
			rnic_kill(rdev);
		}
		wait_event(qp->conn_wait,
			   READ_ONCE(qp->conn_state) == RNIC_CONN_NONE);
	}
}
