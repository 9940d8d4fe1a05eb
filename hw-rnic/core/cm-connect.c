/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The initiator: CONNECT, TCP connect, Request, Reply
 *
 * What the command itself can tell is its completion status, and then there
 * is no connection; everything else is told by CONNECT_REPLY, which is written
 * after the command completed.
 */
#include "cm-private.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "net/claim.h"

static void connect_fail(struct rnic_cm_conn *conn, enum rnic_cm_status status)
{
    rnic_conn_fail(conn, status, false, NULL, 0);
}

static void failing_due(struct rnic_timer *timer)
{
    struct rnic_cm_conn *conn = rnic_owner(timer, struct rnic_cm_conn, timer);

    connect_fail(conn, conn->status);
}

static void connect_timed_out(struct rnic_timer *timer);

static void arm_timeout(struct rnic_cm_conn *conn)
{
    rnic_timer_arm(conn->dev, &conn->timer,
                   conn->dev->config.mpa_timeout_ms * UINT64_C(1000),
                   connect_timed_out);
}

/* ---- MPA ---- */

/* False: it is not complete yet; else @conn is up, or gone */
static bool take_reply(struct rnic_cm_conn *conn)
{
    struct rnic_mpa_frame reply;
    struct rnic_mpa_params agreed;
    enum rnic_mpa_status status;
    int err;

    switch (rnic_conn_read_frame(conn, &reply, &err)) {
    case RNIC_FRAME_MORE:
        return false;
    case RNIC_FRAME_CLOSED:
        connect_fail(conn, rnic_cm_status_of_errno(err));
        return true;
    case RNIC_FRAME_BAD:
        connect_fail(conn, RNIC_CM_PROTOCOL);
        return true;
    case RNIC_FRAME_DONE:
        break;
    }
    status = rnic_mpa_conclude(&conn->setup->request, &reply, &conn->setup->mpa,
                               &agreed);
    switch (status) {
    case RNIC_MPA_OK:
        rnic_conn_up(conn, &agreed);
        return true;
    case RNIC_MPA_REJECTED: {
        uint8_t pdata[RNIC_MPA_PD_MAX];

        /* RFC 6581 section 9.1: the peer's values go to the ULP */
        conn->ird = agreed.peer_ird;
        conn->ord = agreed.peer_ord;
        if (reply.ulp_len) {
            memcpy(pdata, reply.ulp_data, reply.ulp_len);
        }
        rnic_conn_fail(conn, RNIC_CM_REJECTED, true, pdata, reply.ulp_len);
        return true;
    }
    case RNIC_MPA_NO_IRD:
    case RNIC_MPA_NO_RTR:
        rnic_conn_send_terminate(conn, status, agreed.crc);
        rnic_conn_fail(conn, RNIC_CM_PROTOCOL, true, NULL, 0);
        return true;
    default:
        rnic_trace(conn->dev, mpa, "QP %u: %s", conn->qp->qpn,
                   rnic_mpa_status_str(status));
        connect_fail(conn, RNIC_CM_PROTOCOL);
        return true;
    }
}

static void reply_ready(struct rnic_stream *stream, uint32_t events)
{
    take_reply(stream->owner);
}

static void send_request(struct rnic_cm_conn *conn)
{
    struct rnic_conn_setup *setup = conn->setup;
    int err;

    setup->request.ulp_data = setup->pdata;
    setup->request.ulp_len = setup->pdata_len;
    err = rnic_conn_send_frame(conn, &setup->request);
    if (err) {
        connect_fail(conn, rnic_cm_status_of_errno(-err));
        return;
    }
    conn->state = CONN_AWAIT_REPLY;
    conn->stream->ready = reply_ready;
    rnic_stream_want(conn->stream, EPOLLIN);
    arm_timeout(conn);
}

/* ---- TCP ---- */

static void connect_ready(struct rnic_stream *stream, uint32_t events)
{
    struct rnic_cm_conn *conn = stream->owner;
    int err = 0;
    socklen_t len = sizeof(err);

    getsockopt(stream->source.fd, SOL_SOCKET, SO_ERROR, &err, &len);
    if (err) {
        connect_fail(conn, rnic_cm_status_of_errno(err));
        return;
    }
    send_request(conn);
}

static void connect_timed_out(struct rnic_timer *timer)
{
    struct rnic_cm_conn *conn = rnic_owner(timer, struct rnic_cm_conn, timer);
    char remote[RNIC_SOCKADDR_STR];

    /* It may be the engine that was held up: what it waits for is there */
    if (conn->state == CONN_CONNECTING && rnic_stream_writable(conn->stream)) {
        connect_ready(conn->stream, EPOLLOUT);
        return;
    }
    if (conn->state == CONN_AWAIT_REPLY && take_reply(conn)) {
        return;
    }
    rnic_trace(conn->dev, cm, "%s: %s within %u ms",
               rnic_sockaddr_str(&conn->remote, remote),
               conn->state == CONN_CONNECTING ? "TCP did not connect"
                                              : "no MPA Reply",
               conn->dev->config.mpa_timeout_ms);
    connect_fail(conn, RNIC_CM_TIMEDOUT);
}

/* Whether a listener that the guest may talk to is at @host */
static bool listener_accepted(struct rnic_cm_conn *conn,
                              const struct rnic_sockaddr *host,
                              enum rnic_reach reach)
{
    struct rnic_device *dev = conn->dev;
    struct rnic_diag_socket found;
    char text[RNIC_SOCKADDR_STR];
    const char *why = NULL;

    switch (rnic_diag_lookup(dev->cm->diag_fd, host, NULL, &found)) {
    case RNIC_DIAG_UNAVAILABLE:
        why = "the kernel's socket lookup is not available";
        break;
    case RNIC_DIAG_NONE:
        why = "nobody listens";
        break;
    case RNIC_DIAG_FOUND:
        if (!found.exact || !found.listening) {
            why = "the host serves every address there, not just this one";
        } else if (!rnic_addr_peer_uid(dev->addrs, found.uid)) {
            why = "the listener belongs to another user";
        } else if (reach == RNIC_REACH_CLAIMED &&
                   !rnic_claim_exists(rnic_addrs_claim_fabric(dev->addrs),
                                      found.uid, host)) {
            why = "the host's own address, which no rnic has claimed";
        }
        break;
    }
    if (why) {
        rnic_trace(dev, cm, "QP %u: no connection to the host's %s: %s",
                   conn->qp->qpn, rnic_sockaddr_str(host, text), why);
    }
    return !why;
}

/* May this connection be made? RNIC_CM_OK, or why not */
static enum rnic_cm_status check_reach(struct rnic_cm_conn *conn,
                                       const struct rnic_sockaddr *host)
{
    struct rnic_device *dev = conn->dev;
    enum rnic_reach reach = rnic_addr_may_connect(dev->addrs, host);
    char text[RNIC_SOCKADDR_STR];

    switch (reach) {
    case RNIC_REACH_FREE:
        return RNIC_CM_OK;
    case RNIC_REACH_OWN:
        return rnic_listeners_have(dev, host) ? RNIC_CM_OK : RNIC_CM_REFUSED;
    case RNIC_REACH_LISTENER:
    case RNIC_REACH_CLAIMED:
        return listener_accepted(conn, host, reach) ? RNIC_CM_OK
                                                    : RNIC_CM_REFUSED;
    case RNIC_REACH_DENIED:
        break;
    }
    rnic_trace(dev, cm, "QP %u: the host's policy refuses %s", conn->qp->qpn,
               rnic_sockaddr_str(host, text));
    rnic_stat_inc(dev, RNIC_STAT_conn_refused_policy);
    return RNIC_CM_UNREACHABLE;
}

/* A bound socket for @conn, or -errno */
static int open_socket(const struct rnic_sockaddr *source)
{
    struct sockaddr_storage os;
    socklen_t len = rnic_sockaddr_to_os(source, &os);
    int fd = socket(os.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                    IPPROTO_TCP);
    int one = 1, err;

    if (fd < 0) {
        return -errno;
    }
    if (source->port) {
        /* The guest chose the port; one in TIME_WAIT is no obstacle */
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    } else {
        /* The port is chosen in connect(), for the pair of addresses */
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
    }
    if (bind(fd, (struct sockaddr *)&os, len) < 0) {
        err = errno;
        close(fd);
        return -err;
    }
    return fd;
}

/*
 * Starts to connect. RNIC_CM_OK: under way. @host_local, @host_remote: what
 * stands for the connection's addresses.
 */
static enum rnic_cm_status start_connect(struct rnic_cm_conn *conn,
                                         const struct rnic_sockaddr *local,
                                         const struct rnic_sockaddr *remote)
{
    struct rnic_device *dev = conn->dev;
    struct sockaddr_storage os;
    socklen_t len;
    char text[RNIC_SOCKADDR_STR];
    enum rnic_cm_status status;
    int fd, err;

    if (!dev->cm->link_up) {
        return RNIC_CM_ADDR_GONE;
    }
    status = check_reach(conn, remote);
    if (status != RNIC_CM_OK) {
        return status;
    }
    fd = open_socket(local);
    if (fd < 0) {
        rnic_trace(dev, cm, "QP %u: no socket at the host's %s: %s",
                   conn->qp->qpn, rnic_sockaddr_str(local, text),
                   rnic_cm_errno_str(-fd));
        return rnic_cm_status_of_errno(-fd);
    }
    len = rnic_sockaddr_to_os(remote, &os);
    err = connect(fd, (struct sockaddr *)&os, len) < 0 ? errno : 0;
    if (err && err != EINPROGRESS) {
        rnic_trace(dev, cm, "QP %u: connecting to the host's %s: %s",
                   conn->qp->qpn, rnic_sockaddr_str(remote, text),
                   g_strerror(err));
        close(fd);
        /* Here it says that the pair of addresses is in use */
        return rnic_cm_status_of_errno(err == EADDRNOTAVAIL ? EADDRINUSE : err);
    }
    conn->stream = rnic_stream_new(dev, fd, &conn->local, &conn->remote, true);
    if (!conn->stream) {
        return RNIC_CM_LOCAL_ERROR;
    }
    rnic_conn_read_local_port(conn, fd);
    conn->stream->owner = conn;
    conn->stream->ready = connect_ready;
    conn->state = CONN_CONNECTING;
    rnic_stream_want(conn->stream, EPOLLOUT);
    arm_timeout(conn);
    return RNIC_CM_OK;
}

/* ---- The command ---- */

/*
 * The device's address that a connection starts from, or NULL. @local may be
 * unspecified; a loopback @remote (127/8, ::1) means this device.
 */
static struct rnic_addr *source_addr(struct rnic_device *dev,
                                     const struct rnic_sockaddr *local,
                                     const struct rnic_sockaddr *remote)
{
    if (rnic_sockaddr_is_any(local) || (rnic_sockaddr_is_loopback(local) &&
                                        rnic_sockaddr_is_loopback(remote))) {
        return rnic_addr_nearest(dev->addrs, remote);
    }
    return rnic_addr_find(dev->addrs, local);
}

enum rnic_admin_status rnic_cm_connect(struct rnic_device *dev,
                                       const struct rnic_cmd_connect *cmd)
{
    uint16_t ird = GUINT16_FROM_LE(cmd->ird), ord = GUINT16_FROM_LE(cmd->ord);
    uint16_t pdata_len = GUINT16_FROM_LE(cmd->pdata_len);
    struct rnic_qp *qp = rnic_qp_find(dev, GUINT32_FROM_LE(cmd->qpn));
    struct rnic_sockaddr local, remote, host_local, host_remote;
    struct rnic_cm_conn *conn;
    struct rnic_addr *source;
    enum rnic_mpa_status mpa_status;
    char from[RNIC_SOCKADDR_STR], to[RNIC_SOCKADDR_STR];

    if (!qp) {
        return RNIC_ADMIN_BAD_ID;
    }
    if (ird > RNIC_MAX_IRD || ord > RNIC_MAX_ORD ||
        pdata_len > RNIC_MAX_PDATA ||
        !rnic_sockaddr_normalise(&cmd->local, &local) ||
        !rnic_sockaddr_normalise(&cmd->remote, &remote) ||
        local.family != remote.family || !remote.port ||
        rnic_sockaddr_is_any(&remote) || rnic_sockaddr_is_multicast(&remote)) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    if (qp->state != RNIC_QPS_IDLE || qp->conn) {
        return RNIC_ADMIN_BAD_STATE;
    }
    source = source_addr(dev, &local, &remote);
    if (!source || !source->usable) {
        return RNIC_ADMIN_ADDR_NOT_AVAIL;
    }
    conn = rnic_conn_new(dev, CONN_FAILING, true);
    if (!conn) {
        return RNIC_ADMIN_NO_RESOURCES;
    }
    if (!rnic_dma_read(dev, GUINT64_FROM_LE(cmd->pdata), conn->setup->pdata,
                       pdata_len)) {
        rnic_conn_free(conn);
        return RNIC_ADMIN_BAD_ADDRESS;
    }
    conn->setup->pdata_len = pdata_len;
    conn->qp = qp;
    qp->conn = conn;
    conn->local = source->guest;
    conn->local.port = local.port;
    conn->remote = remote;
    conn->ird = ird;
    conn->ord = ord;
    rnic_trace(dev, cm, "QP %u: connects from %s to %s", qp->qpn,
               rnic_sockaddr_str(&conn->local, from),
               rnic_sockaddr_str(&conn->remote, to));

    host_local = source->host;
    host_local.port = local.port;
    if (rnic_sockaddr_is_loopback(&remote)) {
        host_remote = source->host;
        host_remote.port = remote.port;
    } else if (!rnic_addr_to_host(dev->addrs, &remote, &host_remote)) {
        conn->status = RNIC_CM_UNREACHABLE;
    }
    if (conn->status == RNIC_CM_OK) {
        conn->in_fabric = rnic_addr_in_fabric(dev->addrs, &host_remote);
        rnic_conn_mpa_config(conn, ird, ord);
        mpa_status = rnic_mpa_request(&conn->setup->mpa, &conn->setup->request);
        conn->status = mpa_status == RNIC_MPA_OK
                           ? start_connect(conn, &host_local, &host_remote)
                           : RNIC_CM_LOCAL_ERROR;
    }
    if (conn->status != RNIC_CM_OK) {
        conn->state = CONN_FAILING;
        rnic_timer_arm(dev, &conn->timer, 0, failing_due);
    }
    return RNIC_ADMIN_OK;
}
