/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cm-private.h"
#include "netq.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

/* A connection is a descriptor, and so are listeners and claims: what the
 * administrator's hard limit grants is used */
static void raise_file_limit(struct rnic_device *dev)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0) {
            rnic_trace(dev, device, "cannot raise the limit on open files: %s",
                       g_strerror(errno));
        }
    }
}

void rnic_cm_init(struct rnic_device *dev)
{
    struct rnic_cm *cm = g_new0(struct rnic_cm, 1);

    dev->cm = cm;
    cm->dev = dev;
    cm->link_up = true;
    cm->next_conn_id = 1;
    cm->requests = g_hash_table_new(NULL, NULL);
    g_queue_init(&cm->conns);
    g_queue_init(&cm->half_open);
    g_queue_init(&cm->rejected);
    raise_file_limit(dev);
    cm->diag_fd = rnic_diag_open();
    if (cm->diag_fd < 0) {
        rnic_trace(dev, device,
                   "no socket lookups (%s): connections inside "
                   "the host will be refused",
                   g_strerror(-cm->diag_fd));
    }
}

void rnic_cm_reset(struct rnic_device *dev)
{
    struct rnic_cm *cm = dev->cm;

    while (cm->conns.head) {
        rnic_conn_free(cm->conns.head->data);
    }
    for (unsigned i = 0; i < RNIC_MAX_LISTEN; i++) {
        if (cm->listeners[i]) {
            rnic_listener_free(cm->listeners[i]);
        }
    }
    rnic_addrs_reset(dev->addrs);
    rnic_streams_reset(dev);
    cm->link_up = true;
}

void rnic_cm_quiesce(struct rnic_device *dev)
{
    while (dev->cm->rejected.head) {
        rnic_conn_end_rejected(dev->cm->rejected.head->data);
    }
}

void rnic_cm_fini(struct rnic_device *dev)
{
    if (!dev->cm) {
        return;
    }
    rnic_cm_reset(dev);
    if (dev->cm->diag_fd >= 0) {
        close(dev->cm->diag_fd);
    }
    g_hash_table_unref(dev->cm->requests);
    g_clear_pointer(&dev->cm, g_free);
}

/* ---- Connections ---- */

/* Who says nothing makes room, and before that who has been answered: peers
 * cannot use up what there is so */
static void make_room(struct rnic_cm *cm)
{
    if (cm->rejected.length) {
        rnic_conn_end_rejected(cm->rejected.head->data);
    } else if (cm->half_open.length) {
        rnic_conn_drop(cm->half_open.head->data,
                       "it sent no MPA Request yet, and newer ones need its "
                       "place");
    }
}

struct rnic_cm_conn *rnic_conn_new(struct rnic_device *dev,
                                   enum rnic_conn_state state, bool initiator)
{
    struct rnic_cm *cm = dev->cm;
    struct rnic_cm_conn *conn;
    unsigned max = dev->config.max_connections;

    if (cm->half_open.length + cm->rejected.length >= RNIC_CONN_WAITING_MAX ||
        cm->conns.length >= (max ? max : RNIC_MAX_QP)) {
        make_room(cm);
    }
    if (cm->conns.length >= (max ? max : RNIC_MAX_QP)) {
        rnic_trace(dev, cm, "too many connections: %u", cm->conns.length);
        return NULL;
    }
    conn = g_new0(struct rnic_cm_conn, 1);
    conn->dev = dev;
    conn->state = state;
    conn->initiator = initiator;
    conn->setup = g_new0(struct rnic_conn_setup, 1);
    conn->link.data = conn;
    conn->waiting_link.data = conn;
    g_queue_push_tail_link(&cm->conns, &conn->link);
    if (state == CONN_AWAIT_REQUEST) {
        g_queue_push_tail_link(&cm->half_open, &conn->waiting_link);
    }
    return conn;
}

/* The QP and this end know each other no more */
static struct rnic_qp *detach_qp(struct rnic_cm_conn *conn)
{
    struct rnic_qp *qp = conn->qp;

    if (qp) {
        qp->conn = NULL;
        conn->qp = NULL;
    }
    return qp;
}

static void close_stream(struct rnic_cm_conn *conn, bool graceful)
{
    if (conn->stream) {
        rnic_stream_close(conn->stream, graceful);
        conn->stream = NULL;
    }
}

void rnic_conn_free(struct rnic_cm_conn *conn)
{
    struct rnic_cm *cm = conn->dev->cm;

    rnic_timer_cancel(&conn->timer);
    close_stream(conn, false);
    detach_qp(conn);
    rnic_listener_release(conn);
    if (conn->conn_id) {
        g_hash_table_remove(cm->requests, GUINT_TO_POINTER(conn->conn_id));
    }
    if (conn->state == CONN_AWAIT_REQUEST) {
        g_queue_unlink(&cm->half_open, &conn->waiting_link);
    } else if (conn->state == CONN_REJECTED) {
        g_queue_unlink(&cm->rejected, &conn->waiting_link);
    }
    g_queue_unlink(&cm->conns, &conn->link);
    g_free(conn->setup);
    g_free(conn);
}

/* @qpn: after the QP was detached */
static void post_event(struct rnic_cm_conn *conn, enum rnic_event_type type,
                       uint32_t id, enum rnic_cm_status status,
                       const uint8_t *pdata, size_t pdata_len)
{
    struct rnic_aeqe event = {
        .type = GUINT16_TO_LE(type),
        .status = GUINT16_TO_LE(status),
        .id = GUINT32_TO_LE(id),
        .conn_id = GUINT32_TO_LE(conn->conn_id),
        .ird = GUINT16_TO_LE(conn->ird),
        .ord = GUINT16_TO_LE(conn->ord),
        .local = conn->local,
        .remote = conn->remote,
    };

    if (pdata_len) {
        memcpy(event.pdata, pdata, MIN(pdata_len, sizeof(event.pdata)));
        event.pdata_len = GUINT16_TO_LE(MIN(pdata_len, sizeof(event.pdata)));
    }
    rnic_aeq_post(conn->dev, &event);
}

void rnic_conn_event(struct rnic_cm_conn *conn, enum rnic_event_type type,
                     enum rnic_cm_status status, const uint8_t *pdata,
                     size_t pdata_len)
{
    post_event(conn, type, conn->qp ? conn->qp->qpn : conn->listener->id,
               status, pdata, pdata_len);
}

const char *rnic_cm_status_str(enum rnic_cm_status status)
{
    static const char *const text[] = {
        [RNIC_CM_OK] = "ok",
        [RNIC_CM_REJECTED] = "rejected by the peer",
        [RNIC_CM_REFUSED] = "refused: nobody listens",
        [RNIC_CM_TIMEDOUT] = "timed out",
        [RNIC_CM_RESET] = "closed by the peer",
        [RNIC_CM_PROTOCOL] = "protocol error or incompatible peer",
        [RNIC_CM_UNREACHABLE] = "unreachable",
        [RNIC_CM_ADDR_IN_USE] = "address in use",
        [RNIC_CM_LOCAL_ERROR] = "local failure, or out of resources",
        [RNIC_CM_ADDR_GONE] = "local address removed or link down",
        [RNIC_CM_EARLY_SEND] = "sends were posted before it was established",
    };

    return status < G_N_ELEMENTS(text) ? text[status] : "?";
}

const char *rnic_cm_errno_str(int err)
{
    switch (err) {
    case EMFILE:
        return "the limit on open files of this process is reached";
    case ENFILE:
        return "the limit on open files of the host is reached";
    }
    return g_strerror(err);
}

enum rnic_cm_status rnic_cm_status_of_errno(int err)
{
    switch (err) {
    case 0:
        return RNIC_CM_OK;
    case ECONNREFUSED:
        return RNIC_CM_REFUSED;
    case ETIMEDOUT:
        return RNIC_CM_TIMEDOUT;
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
        return RNIC_CM_RESET;
    case EADDRINUSE:
        return RNIC_CM_ADDR_IN_USE;
    case EADDRNOTAVAIL:
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case EACCES:
    case EPERM:
    case EINVAL:
        return RNIC_CM_UNREACHABLE;
    default:
        return RNIC_CM_LOCAL_ERROR;
    }
}

void rnic_conn_fail(struct rnic_cm_conn *conn, enum rnic_cm_status status,
                    bool graceful, const uint8_t *pdata, size_t pdata_len)
{
    struct rnic_qp *qp = detach_qp(conn);
    uint32_t qpn = qp->qpn;

    rnic_trace(conn->dev, cm, "QP %u: connect failed: %s", qpn,
               rnic_cm_status_str(status));
    rnic_stat_inc(conn->dev, RNIC_STAT_connects_failed);
    close_stream(conn, graceful);
    /* The state is published before the event that announces it */
    rnic_qp_fail(qp);
    post_event(conn, RNIC_EV_CONNECT_REPLY, qpn, status, pdata, pdata_len);
    rnic_conn_free(conn);
}

/* ---- Connections that are up ---- */

/* ESTABLISHED; its failure is not the end yet, CLOSE follows */
static void report_established(struct rnic_cm_conn *conn, uint32_t qpn,
                               enum rnic_cm_status status)
{
    conn->reported = true;
    conn->await_rtr = false;
    rnic_timer_cancel(&conn->timer);
    rnic_trace(conn->dev, cm, "QP %u: established as responder: %s", qpn,
               rnic_cm_status_str(status));
    if (status == RNIC_CM_OK) {
        rnic_stat_inc(conn->dev, RNIC_STAT_accepts);
    }
    post_event(conn, RNIC_EV_ESTABLISHED, qpn, status, NULL, 0);
}

/*
 * Writes the events that end a connection, and frees it. Events of iw_cm:
 * ESTABLISHED or CONNECT_REPLY comes first in any case, and CLOSE only after
 * ESTABLISHED or a CONNECT_REPLY without error.
 */
static void finish(struct rnic_cm_conn *conn, uint32_t qpn, bool by_peer,
                   enum rnic_cm_status why)
{
    enum rnic_cm_status failed = why == RNIC_CM_OK ? RNIC_CM_RESET : why;
    bool was_up = true;

    if (!conn->reported && conn->initiator) {
        rnic_stat_inc(conn->dev, RNIC_STAT_connects_failed);
        post_event(conn, RNIC_EV_CONNECT_REPLY, qpn, failed, NULL, 0);
        was_up = false;
    } else if (!conn->reported) {
        report_established(conn, qpn, failed);
    }
    if (was_up) {
        if (by_peer) {
            post_event(conn, RNIC_EV_DISCONNECT, qpn, why, NULL, 0);
        }
        post_event(conn, RNIC_EV_CLOSE, qpn, why, NULL, 0);
    }
    rnic_trace(conn->dev, cm, "QP %u: closed%s: %s", qpn,
               by_peer ? " by the peer" : "", rnic_cm_status_str(why));
    rnic_conn_free(conn);
}

/* The device itself ends a connection that is up */
static void kill_up(struct rnic_cm_conn *conn, enum rnic_cm_status why)
{
    struct rnic_qp *qp = detach_qp(conn);
    uint32_t qpn = qp->qpn;

    rnic_qp_fail(qp);
    finish(conn, qpn, false, why);
}

/*
 * Without a gate, octets that follow the Reply at once are in the way of an
 * initiator that is still reading it: siw fails such a connection. So the first
 * ones wait a moment, outside a loopback fabric.
 */
#define HOLD_FIRST_US 100000

static void hold_over(struct rnic_timer *timer)
{
    struct rnic_cm_conn *conn = rnic_owner(timer, struct rnic_cm_conn, timer);

    /* A program that has sent what it had may be leaving already */
    if (conn->qp->state == RNIC_QPS_RTS ||
        conn->qp->state == RNIC_QPS_CLOSING) {
        rnic_qp_open_gate(conn->qp);
    }
}

static void established_due(struct rnic_timer *timer)
{
    struct rnic_cm_conn *conn = rnic_owner(timer, struct rnic_cm_conn, timer);

    report_established(conn, conn->qp->qpn, RNIC_CM_OK);
    if (conn->qp->params.hold_first) {
        rnic_timer_arm(conn->dev, timer, HOLD_FIRST_US, hold_over);
    }
}

static void rtr_overdue(struct rnic_timer *timer)
{
    struct rnic_cm_conn *conn = rnic_owner(timer, struct rnic_cm_conn, timer);
    struct rnic_qp *qp = conn->qp;

    /* It may be the engine that was held up. This may free @conn. */
    qp->stream->ready(qp->stream, EPOLLIN);
    if (qp->conn != conn || !conn->await_rtr) {
        return;
    }
    rnic_trace(conn->dev, cm,
               "QP %u: no ready-to-receive message within "
               "%u ms",
               qp->qpn, conn->dev->config.mpa_timeout_ms);
    kill_up(conn, RNIC_CM_TIMEDOUT);
}

/*
 * Linux's siw as responder overlooks what reaches it before it has finished its
 * accept, until more arrives: so does a ready-to-receive message that follows
 * the Reply at once, or the first message of an early program. Then both ends
 * wait for ever. An empty RDMA Write is invisible to every ULP, so a peer
 * outside the fabric that stays silent gets some, and one when it speaks: then
 * its accept is over, and what came before may lie there unread yet.
 */
#define NUDGES      4
#define NUDGE_US(n) (UINT64_C(20000) << 2 * (n))

static void nudge(struct rnic_timer *timer)
{
    struct rnic_cm_conn *conn = rnic_owner(timer, struct rnic_cm_conn, timer);

    if (rnic_qp_nudge(conn->qp) && ++conn->nudges < NUDGES) {
        rnic_timer_arm(conn->dev, timer, NUDGE_US(conn->nudges), nudge);
    }
}

/* RNIC_MPA_RTR_* and RNIC_RTR_* number the forms differently */
static unsigned rtr_forms(uint8_t mpa)
{
    return (mpa & RNIC_MPA_RTR_WRITE ? RNIC_RTR_WRITE : 0) |
           (mpa & RNIC_MPA_RTR_READ ? RNIC_RTR_READ : 0);
}

void rnic_conn_up(struct rnic_cm_conn *conn,
                  const struct rnic_mpa_params *agreed)
{
    struct rnic_device *dev = conn->dev;
    struct rnic_qp *qp = conn->qp;
    struct rnic_stream *stream = conn->stream;
    struct rnic_conn_setup *setup = conn->setup;
    struct rnic_mpa_frame reply = { 0 };
    struct rnic_qp_params params = {
        .initiator = conn->initiator,
        .crc = agreed->crc,
        .tx_markers = agreed->tx_markers,
        .send_rtr = conn->initiator ? rtr_forms(agreed->rtr) : 0,
        .await_rtr = !conn->initiator && agreed->rtr,
        .hold_first = !conn->initiator && !agreed->rtr && !conn->in_fabric &&
                      !conn->dev->config.mpa_gate_strict,
        .ird = agreed->ird,
        .ord = agreed->ord,
    };
    size_t octets;

    rnic_timer_cancel(&conn->timer);
    rnic_stream_want(stream, 0);
    conn->stream = NULL;
    conn->setup = NULL;
    conn->state = CONN_UP;
    conn->ird = agreed->ird;
    conn->ord = agreed->ord;
    conn->await_rtr = params.await_rtr;
    rnic_trace(dev, cm, "QP %u: startup done: %s, CRC %s, IRD %u, ORD %u%s%s",
               qp->qpn, agreed->enhanced ? "enhanced" : "plain",
               agreed->crc ? "on" : "off", agreed->ird, agreed->ord,
               agreed->rtr ? ", peer-to-peer" : "",
               agreed->tx_markers ? ", markers to the peer" : "");

    conn->handing_over = true;
    rnic_qp_connected(qp, stream, &params);
    conn->handing_over = false;

    if (conn->ended) {
        detach_qp(conn);
        finish(conn, qp->qpn, conn->ended_by_peer, conn->ended_why);
    } else if (conn->initiator) {
        conn->reported = true;
        rnic_stat_inc(dev, RNIC_STAT_connects);
        rnic_mpa_frame_decode(setup->in, setup->in_len, true, &reply, &octets);
        rnic_conn_event(conn, RNIC_EV_CONNECT_REPLY, RNIC_CM_OK, reply.ulp_data,
                        reply.ulp_len);
        if (!conn->in_fabric) {
            rnic_timer_arm(dev, &conn->timer, NUDGE_US(0), nudge);
        }
    } else if (conn->await_rtr) {
        rnic_timer_arm(dev, &conn->timer,
                       dev->config.mpa_timeout_ms * UINT64_C(1000),
                       rtr_overdue);
    } else {
        /* Behind the completion of the ACCEPT that led here */
        rnic_timer_arm(dev, &conn->timer, 0, established_due);
    }
    g_free(setup);
}

void rnic_cm_first_fpdu(struct rnic_device *dev, struct rnic_qp *qp)
{
    struct rnic_cm_conn *conn = qp->conn;

    if (conn && conn->state == CONN_UP && !conn->initiator && !conn->reported) {
        if (conn->handing_over) {
            /* Written by rnic_conn_up(), once the QP is done */
            conn->await_rtr = false;
        } else {
            report_established(conn, qp->qpn, RNIC_CM_OK);
        }
    }
}

void rnic_cm_closed(struct rnic_device *dev, struct rnic_qp *qp, bool by_peer,
                    enum rnic_cm_status why)
{
    struct rnic_cm_conn *conn = qp->conn;

    if (!conn) {
        return;
    }
    if (conn->handing_over) {
        conn->ended = true;
        conn->ended_by_peer = by_peer;
        conn->ended_why = why;
        return;
    }
    detach_qp(conn);
    close_stream(conn, false);
    finish(conn, qp->qpn, by_peer, why);
}

void rnic_cm_abort(struct rnic_device *dev, struct rnic_qp *qp, bool silent)
{
    struct rnic_cm_conn *conn = qp->conn;

    if (!conn) {
        return;
    }
    detach_qp(conn);
    close_stream(conn, false);
    if (silent) {
        rnic_conn_free(conn);
    } else {
        finish(conn, qp->qpn, false, RNIC_CM_LOCAL_ERROR);
    }
}

void rnic_conn_read_local_port(struct rnic_cm_conn *conn, int fd)
{
    struct sockaddr_storage os = { 0 };
    struct rnic_sockaddr host;
    socklen_t len = sizeof(os);

    if (getsockname(fd, (struct sockaddr *)&os, &len) == 0 &&
        rnic_sockaddr_from_os(&os, &host)) {
        conn->local.port = host.port;
        if (conn->stream) {
            conn->stream->local.port = host.port;
        }
    }
}

/* ---- Addresses and link ---- */

/* Every connection of @local (NULL: every one) ends, in whatever state */
static void end_connections(struct rnic_cm *cm,
                            const struct rnic_sockaddr *local)
{
    GList *link, *next;

    for (link = cm->conns.head; link; link = next) {
        struct rnic_cm_conn *conn = link->data;

        next = link->next;
        if (local && !rnic_sockaddr_same(&conn->local, local)) {
            continue;
        }
        switch (conn->state) {
        case CONN_FAILING:
        case CONN_GONE:
            break;
        case CONN_CONNECTING:
        case CONN_AWAIT_REPLY:
            rnic_conn_fail(conn, RNIC_CM_ADDR_GONE, false, NULL, 0);
            break;
        case CONN_AWAIT_REQUEST:
        case CONN_REQUESTED:
            rnic_conn_drop(conn, "local address removed or link down");
            break;
        case CONN_REJECTED:
            rnic_conn_end_rejected(conn);
            break;
        case CONN_UP:
            kill_up(conn, RNIC_CM_ADDR_GONE);
            break;
        }
    }
}

enum rnic_admin_status rnic_cm_addr_add(struct rnic_device *dev,
                                        const struct rnic_cmd_addr *cmd)
{
    struct rnic_sockaddr guest;
    struct rnic_addr *addr;
    enum rnic_admin_status status;
    char text[RNIC_SOCKADDR_STR], host[RNIC_SOCKADDR_STR];
    const char *why = NULL;
    bool conflict;

    if (!rnic_sockaddr_normalise(&cmd->addr, &guest)) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    status = rnic_addr_add(dev->addrs, &guest, cmd->prefix_len, &addr, &why,
                           &conflict);
    if (status != RNIC_ADMIN_OK) {
        rnic_trace(dev, addr, "%s not added: %s",
                   rnic_sockaddr_str(&guest, text), why);
        if (conflict) {
            struct rnic_aeqe event = {
                .type = GUINT16_TO_LE(RNIC_EV_ADDR_CONFLICT),
                .status = GUINT16_TO_LE(RNIC_CM_ADDR_IN_USE),
                .local = guest,
            };

            rnic_aeq_post(dev, &event);
        }
        return status;
    }
    rnic_trace(dev, addr, "%s added; %s", rnic_sockaddr_str(&guest, text),
               addr->usable ? rnic_sockaddr_str(&addr->host, host)
                            : "no address of the host stands for it");
    rnic_netq_addr_added(dev, addr);
    if (dev->cm->link_up) {
        rnic_listeners_bind(dev, addr);
    }
    return RNIC_ADMIN_OK;
}

enum rnic_admin_status rnic_cm_addr_del(struct rnic_device *dev,
                                        const struct rnic_cmd_addr *cmd)
{
    struct rnic_sockaddr guest;
    struct rnic_addr *addr;
    char text[RNIC_SOCKADDR_STR];

    if (!rnic_sockaddr_normalise(&cmd->addr, &guest)) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    addr = rnic_addr_find(dev->addrs, &guest);
    if (!addr) {
        return RNIC_ADMIN_ADDR_NOT_AVAIL;
    }
    rnic_trace(dev, addr, "%s removed", rnic_sockaddr_str(&addr->guest, text));
    rnic_listeners_unbind(dev, addr);
    end_connections(dev->cm, &addr->guest);
    rnic_netq_addr_removed(dev, addr);
    rnic_addr_remove(dev->addrs, addr);
    return RNIC_ADMIN_OK;
}

enum rnic_admin_status rnic_cm_set_link(struct rnic_device *dev, bool up)
{
    struct rnic_cm *cm = dev->cm;

    if (cm->link_up == up) {
        return RNIC_ADMIN_OK;
    }
    rnic_trace(dev, addr, "link %s", up ? "up" : "down");
    cm->link_up = up;
    if (!up) {
        rnic_listeners_unbind(dev, NULL);
        end_connections(cm, NULL);
        return RNIC_ADMIN_OK;
    }
    for (unsigned i = 0; i < dev->addrs->list->len; i++) {
        rnic_listeners_bind(dev, g_ptr_array_index(dev->addrs->list, i));
    }
    return RNIC_ADMIN_OK;
}
