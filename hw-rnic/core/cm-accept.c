/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The responder: TCP accept, Request, ACCEPT or REJECT, Reply
 */
#include "cm-private.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

void rnic_conn_drop(struct rnic_cm_conn *conn, const char *why)
{
    char remote[RNIC_SOCKADDR_STR];

    rnic_trace(conn->dev, cm, "connection of %s dropped: %s",
               rnic_sockaddr_str(&conn->remote, remote), why);
    if (conn->state != CONN_REQUESTED) {
        rnic_conn_free(conn);
        return;
    }
    /*
     * The guest was told of it and will answer. Until then it counts for the
     * backlog, so that peers that come and go cannot make events without end.
     */
    conn->state = CONN_GONE;
    rnic_stream_close(conn->stream, false);
    conn->stream = NULL;
}

/* Between Request and Reply: the peer may only leave */
static void answer_pending_ready(struct rnic_stream *stream, uint32_t events)
{
    struct rnic_cm_conn *conn = stream->owner;
    int n = rnic_stream_peek(stream);

    if (n == 1) {
        /* RFC 5044 section 7.1.2: nothing before the Reply */
        rnic_conn_drop(conn, "octets behind the MPA Request");
    } else if (n != -EAGAIN) {
        rnic_conn_drop(conn, n ? g_strerror(-n) : "closed by the peer");
    }
}

static uint16_t known_or(bool known, uint16_t value, uint16_t otherwise)
{
    return known && value != RNIC_MPA_IRD_ORD_NONE ? value : otherwise;
}

void rnic_conn_end_rejected(struct rnic_cm_conn *conn)
{
    rnic_stream_close(conn->stream, true);
    conn->stream = NULL;
    rnic_conn_free(conn);
}

static void rejected_over(struct rnic_timer *timer)
{
    rnic_conn_end_rejected(rnic_owner(timer, struct rnic_cm_conn, timer));
}

/* The peer closed, or sent what nobody reads: it had all the time it wanted */
static void rejected_ready(struct rnic_stream *stream, uint32_t events)
{
    if (rnic_stream_peek(stream) != -EAGAIN) {
        rnic_conn_end_rejected(stream->owner);
    }
}

/* The Reply was sent: the connection is no one's any more, but the peer's */
static void await_peer_close(struct rnic_cm_conn *conn)
{
    struct rnic_cm *cm = conn->dev->cm;

    if (conn->conn_id) {
        g_hash_table_remove(cm->requests, GUINT_TO_POINTER(conn->conn_id));
        conn->conn_id = 0;
    }
    rnic_listener_release(conn);
    if (conn->state == CONN_AWAIT_REQUEST) {
        g_queue_unlink(&cm->half_open, &conn->waiting_link);
    }
    conn->state = CONN_REJECTED;
    g_clear_pointer(&conn->setup, g_free);
    g_queue_push_tail_link(&cm->rejected, &conn->waiting_link);
    conn->stream->ready = rejected_ready;
    rnic_stream_want(conn->stream, EPOLLIN);
    rnic_timer_arm(conn->dev, &conn->timer, RNIC_CONN_REJECTED_US,
                   rejected_over);
    /* Who waits longest makes room, which may be this one; never a set-up */
    if (cm->half_open.length + cm->rejected.length > RNIC_CONN_WAITING_MAX) {
        rnic_conn_end_rejected(cm->rejected.head->data);
    }
}

/* Sends a rejecting Reply; 0, or -errno: the peer is gone. Either way @conn is
 * not the caller's any more. */
static int reject(struct rnic_cm_conn *conn, const uint8_t *pdata,
                  uint16_t pdata_len)
{
    struct rnic_mpa_frame reply;
    int err;

    rnic_conn_mpa_config(conn, RNIC_MAX_IRD, RNIC_MAX_ORD);
    rnic_mpa_reject(&conn->setup->request, &conn->setup->mpa, &reply);
    reply.ulp_data = pdata;
    reply.ulp_len = pdata_len;
    err = rnic_conn_send_frame(conn, &reply);
    if (err) {
        rnic_conn_free(conn);
    } else {
        await_peer_close(conn);
    }
    return err;
}

/* False: it is not complete yet; else @conn is in another state, or gone */
static bool take_request(struct rnic_cm_conn *conn)
{
    struct rnic_stream *stream = conn->stream;
    struct rnic_conn_setup *setup = conn->setup;
    struct rnic_device *dev = conn->dev;
    struct rnic_mpa_frame *request = &setup->request;
    bool known;
    int err, n;

    switch (rnic_conn_read_frame(conn, request, &err)) {
    case RNIC_FRAME_MORE:
        return false;
    case RNIC_FRAME_CLOSED:
        rnic_conn_drop(conn, g_strerror(err));
        return true;
    case RNIC_FRAME_BAD:
        rnic_conn_drop(conn, "bad MPA Request");
        return true;
    case RNIC_FRAME_DONE:
        break;
    }
    n = rnic_stream_peek(stream);
    if (n != -EAGAIN) {
        rnic_conn_drop(conn, n == 1 ? "octets behind the MPA Request"
                                    : "closed by the peer");
        return true;
    }
    rnic_timer_cancel(&conn->timer);
    if (request->p2p && !dev->config.rtr) {
        /* RFC 6581 section 9.2 has no way to say 'no form at all' */
        rnic_trace(dev, cm,
                   "rejected: peer-to-peer mode asked for, and no "
                   "ready-to-receive form is configured");
        reject(conn, NULL, 0);
        return true;
    }
    g_queue_unlink(&dev->cm->half_open, &conn->waiting_link);
    conn->state = CONN_REQUESTED;
    rnic_listener_request(conn);
    conn->conn_id = dev->cm->next_conn_id++;
    g_hash_table_insert(dev->cm->requests, GUINT_TO_POINTER(conn->conn_id),
                        conn);
    stream->ready = answer_pending_ready;
    /*
     * Where the peer told no number (a plain Request, or 0x3FFF) the ULP sees
     * the device's limits: many accept with what they see, and 0 would forbid
     * every Read.
     */
    known = request->enhanced;
    conn->ird = known_or(known, request->ird, RNIC_MAX_IRD);
    conn->ord = known_or(known, request->ord, RNIC_MAX_ORD);
    rnic_conn_event(conn, RNIC_EV_CONNECT_REQUEST, RNIC_CM_OK,
                    request->ulp_data, request->ulp_len);
    return true;
}

static void request_ready(struct rnic_stream *stream, uint32_t events)
{
    take_request(stream->owner);
}

static void arm_request_timeout(struct rnic_cm_conn *conn);

static void request_overdue(struct rnic_timer *timer)
{
    struct rnic_cm_conn *conn = rnic_owner(timer, struct rnic_cm_conn, timer);

    if (rnic_listener_full(conn->listener)) {
        /* It is the guest that is slow: its Request may be there, unread */
        arm_request_timeout(conn);
    } else if (!take_request(conn)) {
        /* Nor is it there because the engine, or the guest, was slow */
        rnic_conn_drop(conn, "no complete MPA Request in time");
    }
}

static void arm_request_timeout(struct rnic_cm_conn *conn)
{
    rnic_timer_arm(conn->dev, &conn->timer,
                   conn->dev->config.mpa_timeout_ms * UINT64_C(1000),
                   request_overdue);
}

/* May the owner of the socket at @peer_host connect to the guest? */
static const char *refuse_peer(struct rnic_device *dev,
                               const struct rnic_addr *local, uint16_t port,
                               const struct rnic_sockaddr *peer_host)
{
    struct rnic_diag_socket found;
    struct rnic_sockaddr host = local->host;

    switch (rnic_addr_may_accept(dev->addrs, peer_host)) {
    case RNIC_REACH_FREE:
        return NULL;
    case RNIC_REACH_DENIED:
        return "refused by the host's policy";
    default:
        break;
    }
    host.port = port;
    switch (rnic_diag_lookup(dev->cm->diag_fd, peer_host, &host, &found)) {
    case RNIC_DIAG_FOUND:
        if (found.listening) {
            return "its socket is gone";
        }
        return rnic_addr_peer_uid(dev->addrs, found.uid)
                   ? NULL
                   : "its socket belongs to another user";
    case RNIC_DIAG_NONE:
        return "its socket is gone";
    case RNIC_DIAG_UNAVAILABLE:
        break;
    }
    return "the kernel's socket lookup is not available";
}

void rnic_conn_accepted(struct rnic_listener *listener, int fd,
                        const struct rnic_addr *local,
                        const struct rnic_sockaddr *peer_host)
{
    struct rnic_device *dev = listener->dev;
    struct rnic_sockaddr own = local->guest, remote = *peer_host;
    struct linger linger = { .l_onoff = 1, .l_linger = 0 };
    struct rnic_cm_conn *conn = NULL;
    char text[RNIC_SOCKADDR_STR];
    const char *why;

    own.port = listener->local.port;
    why = refuse_peer(dev, local, own.port, peer_host);
    if (why) {
        rnic_stat_inc(dev, RNIC_STAT_conn_refused_policy);
    } else if (!rnic_addr_from_host(dev->addrs, local, peer_host, &remote)) {
        why = "not an address of this network";
    } else {
        conn = rnic_conn_new(dev, CONN_AWAIT_REQUEST, false);
        why = conn ? NULL : "too many connections";
    }
    if (why) {
        rnic_trace(dev, cm,
                   "listener %u: connection from the host's %s "
                   "refused: %s",
                   listener->id, rnic_sockaddr_str(peer_host, text), why);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        close(fd);
        return;
    }
    conn->local = own;
    conn->remote = remote;
    conn->in_fabric = rnic_addr_in_fabric(dev->addrs, peer_host);
    conn->listener = listener;
    conn->stream = rnic_stream_new(dev, fd, &own, &remote, false);
    if (!conn->stream) {
        rnic_conn_free(conn);
        return;
    }
    conn->stream->owner = conn;
    conn->stream->ready = request_ready;
    rnic_stream_want(conn->stream, EPOLLIN);
    arm_request_timeout(conn);
}

/* ---- Commands ---- */

/*
 * The request that ACCEPT or REJECT names. Ids are not used twice, so one that
 * was given out and is unknown now was of a listener that ended.
 */
static enum rnic_admin_status find_request(struct rnic_device *dev,
                                           uint32_t conn_id,
                                           struct rnic_cm_conn **conn)
{
    *conn = g_hash_table_lookup(dev->cm->requests, GUINT_TO_POINTER(conn_id));
    if (*conn) {
        return RNIC_ADMIN_OK;
    }
    return conn_id && conn_id < dev->cm->next_conn_id ? RNIC_ADMIN_CONN_GONE
                                                      : RNIC_ADMIN_BAD_ID;
}

/* Reads the private data of the answer, as much as its frame has room for */
static enum rnic_admin_status read_pdata(struct rnic_cm_conn *conn,
                                         const struct rnic_cmd_accept *cmd,
                                         uint8_t *pdata, uint16_t *len)
{
    *len = GUINT16_FROM_LE(cmd->pdata_len);
    if (*len > RNIC_MAX_PDATA) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    return rnic_dma_read(conn->dev, GUINT64_FROM_LE(cmd->pdata), pdata, *len)
               ? RNIC_ADMIN_OK
               : RNIC_ADMIN_BAD_ADDRESS;
}

enum rnic_admin_status rnic_cm_accept(struct rnic_device *dev,
                                      const struct rnic_cmd_accept *cmd)
{
    uint16_t ird = GUINT16_FROM_LE(cmd->ird), ord = GUINT16_FROM_LE(cmd->ord);
    struct rnic_qp *qp = rnic_qp_find(dev, GUINT32_FROM_LE(cmd->qpn));
    uint8_t pdata[RNIC_MAX_PDATA];
    uint16_t pdata_len;
    struct rnic_mpa_frame reply;
    struct rnic_mpa_params agreed;
    struct rnic_cm_conn *conn;
    enum rnic_admin_status status;

    status = find_request(dev, GUINT32_FROM_LE(cmd->conn_id), &conn);
    if (status != RNIC_ADMIN_OK) {
        return status;
    }
    if (!qp) {
        return RNIC_ADMIN_BAD_ID;
    }
    if (ird > RNIC_MAX_IRD || ord > RNIC_MAX_ORD) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    if (qp->state != RNIC_QPS_IDLE || qp->conn) {
        return RNIC_ADMIN_BAD_STATE;
    }
    status = read_pdata(conn, cmd, pdata, &pdata_len);
    if (status != RNIC_ADMIN_OK) {
        return status;
    }
    rnic_conn_mpa_config(conn, ird, ord);
    if (conn->state == CONN_GONE ||
        rnic_mpa_accept(&conn->setup->request, &conn->setup->mpa, &reply,
                        &agreed) != RNIC_MPA_OK) {
        rnic_conn_free(conn);
        return RNIC_ADMIN_CONN_GONE;
    }
    reply.ulp_data = pdata;
    reply.ulp_len = pdata_len;
    if (rnic_conn_send_frame(conn, &reply)) {
        rnic_conn_free(conn);
        return RNIC_ADMIN_CONN_GONE;
    }
    /* From here on it is the QP's connection, and ESTABLISHED is due */
    g_hash_table_remove(dev->cm->requests, GUINT_TO_POINTER(conn->conn_id));
    conn->conn_id = 0;
    rnic_listener_release(conn);
    conn->qp = qp;
    qp->conn = conn;
    rnic_conn_up(conn, &agreed);
    return RNIC_ADMIN_OK;
}

enum rnic_admin_status rnic_cm_reject(struct rnic_device *dev,
                                      const struct rnic_cmd_accept *cmd)
{
    uint8_t pdata[RNIC_MAX_PDATA];
    uint16_t pdata_len;
    struct rnic_cm_conn *conn;
    enum rnic_admin_status status;

    status = find_request(dev, GUINT32_FROM_LE(cmd->conn_id), &conn);
    if (status != RNIC_ADMIN_OK) {
        return status;
    }
    status = read_pdata(conn, cmd, pdata, &pdata_len);
    if (status != RNIC_ADMIN_OK) {
        return status;
    }
    if (conn->state == CONN_GONE) {
        rnic_conn_free(conn);
        return RNIC_ADMIN_CONN_GONE;
    }
    if (reject(conn, pdata, pdata_len)) {
        return RNIC_ADMIN_CONN_GONE;
    }
    rnic_stat_inc(dev, RNIC_STAT_rejects);
    return RNIC_ADMIN_OK;
}
