/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Listeners: one object of the guest, a socket of the host for each address
 */
#include "cm-private.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connections taken from one socket before others get their turn */
#define ACCEPT_BATCH 16
/* How long accepting pauses when the host has no resources */
#define STARVED_US   200000
/* Ports tried for a listener on every address that left the choice to the
 * host; and where they come from while there is no address to bind */
#define PORT_TRIES   32
#define PORT_FIRST   32768
#define PORT_LAST    60999

struct listen_socket {
    struct rnic_source source;
    struct rnic_listener *listener;
    struct rnic_addr *addr;
};

/* Whether @listener takes connections to the device's address @guest */
static bool covers(const struct rnic_listener *listener,
                   const struct rnic_sockaddr *guest)
{
    if (!listener->any) {
        return rnic_sockaddr_same(&listener->local, guest);
    }
    return guest->family == listener->local.family ||
           (rnic_sockaddr_family(&listener->local) == RNIC_AF_INET6 &&
            !listener->v6only);
}

static bool overlap(const struct rnic_listener *a,
                    const struct rnic_listener *b)
{
    if (a->any && b->any) {
        return covers(a, &b->local) || covers(b, &a->local);
    }
    return a->any ? covers(a, &b->local) : covers(b, &a->local);
}

/* Another listener of the device has this port on an address of @listener */
static bool port_taken(const struct rnic_listener *listener)
{
    struct rnic_cm *cm = listener->dev->cm;

    for (unsigned i = 0; i < RNIC_MAX_LISTEN; i++) {
        const struct rnic_listener *other = cm->listeners[i];

        if (other && other->local.port == listener->local.port &&
            overlap(listener, other)) {
            return true;
        }
    }
    return false;
}

/* ---- Accepting ---- */

bool rnic_listener_full(const struct rnic_listener *listener)
{
    return listener->pending >= listener->backlog;
}

static void update_events(struct rnic_listener *listener)
{
    bool open = !rnic_listener_full(listener) && !listener->starved;

    for (unsigned i = 0; i < listener->sockets->len; i++) {
        struct listen_socket *sock = g_ptr_array_index(listener->sockets, i);

        rnic_source_set(&sock->source, open ? EPOLLIN : 0);
    }
}

static void post_error(struct rnic_listener *listener,
                       const struct rnic_sockaddr *local,
                       enum rnic_cm_status status)
{
    struct rnic_aeqe event = {
        .type = GUINT16_TO_LE(RNIC_EV_LISTEN_ERROR),
        .status = GUINT16_TO_LE(status),
        .id = GUINT32_TO_LE(listener->id),
        .local = *local,
    };

    event.local.port = listener->local.port;
    rnic_aeq_post(listener->dev, &event);
}

static void starved_over(struct rnic_timer *timer)
{
    struct rnic_listener *listener =
        rnic_owner(timer, struct rnic_listener, retry);

    listener->starved = false;
    update_events(listener);
}

/* The socket stays readable: without a pause the loop would spin */
static void starve(struct rnic_listener *listener, int err)
{
    rnic_trace(listener->dev, cm,
               "listener %u cannot accept: %s; it tries "
               "again",
               listener->id, rnic_cm_errno_str(err));
    listener->starved = true;
    update_events(listener);
    rnic_timer_arm(listener->dev, &listener->retry, STARVED_US, starved_over);
}

static void listen_ready(struct rnic_source *source, uint32_t events)
{
    struct listen_socket *sock =
        rnic_owner(source, struct listen_socket, source);
    struct rnic_listener *listener = sock->listener;

    for (unsigned i = 0; i < ACCEPT_BATCH; i++) {
        struct sockaddr_storage os = { 0 };
        struct rnic_sockaddr peer;
        socklen_t len = sizeof(os);
        int fd;

        fd = accept4(source->fd, (struct sockaddr *)&os, &len,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            /* Anything else is an error of that one connection */
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                errno == ENOMEM) {
                starve(listener, errno);
                return;
            } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
                return;
            }
        } else if (rnic_sockaddr_from_os(&os, &peer)) {
            rnic_conn_accepted(listener, fd, sock->addr, &peer);
        } else {
            close(fd);
        }
    }
}

/* Requests wait in their sockets while the listener is full */
static void read_requests(struct rnic_listener *listener, bool read)
{
    GList *link;

    for (link = listener->dev->cm->half_open.head; link; link = link->next) {
        struct rnic_cm_conn *conn = link->data;

        if (conn->listener == listener && conn->stream) {
            rnic_stream_want(conn->stream, read ? EPOLLIN : 0);
        }
    }
}

void rnic_listener_request(struct rnic_cm_conn *conn)
{
    struct rnic_listener *listener = conn->listener;

    listener->pending++;
    if (rnic_listener_full(listener)) {
        read_requests(listener, false);
        update_events(listener);
    }
}

void rnic_listener_release(struct rnic_cm_conn *conn)
{
    struct rnic_listener *listener = conn->listener;

    conn->listener = NULL;
    if (listener && conn->state != CONN_AWAIT_REQUEST) {
        if (rnic_listener_full(listener)) {
            read_requests(listener, true);
        }
        listener->pending--;
        update_events(listener);
    }
}

/* ---- Sockets ---- */

/* A listening socket at @host, or -errno */
static int open_socket(const struct rnic_sockaddr *host, unsigned backlog)
{
    struct sockaddr_storage os;
    socklen_t len = rnic_sockaddr_to_os(host, &os);
    int fd = socket(os.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                    IPPROTO_TCP);
    int one = 1, err;

    if (fd < 0) {
        return -errno;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (os.ss_family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    }
    if (bind(fd, (struct sockaddr *)&os, len) < 0 || listen(fd, backlog) < 0) {
        err = errno;
        close(fd);
        return -err;
    }
    return fd;
}

/* Binds @listener at @addr; 0 or an errno. Takes the port over if it is 0. */
static int bind_addr(struct rnic_listener *listener, struct rnic_addr *addr)
{
    struct rnic_device *dev = listener->dev;
    struct rnic_sockaddr host = addr->host;
    char guest_text[RNIC_SOCKADDR_STR], host_text[RNIC_SOCKADDR_STR];
    struct listen_socket *sock;
    int fd;

    host.port = listener->local.port;
    if (!rnic_addr_may_bind(dev->addrs, &host)) {
        rnic_trace(dev, cm, "listener %u: the host's policy refuses %s",
                   listener->id, rnic_sockaddr_str(&host, host_text));
        return EPERM;
    }
    fd = open_socket(&host, listener->backlog);
    if (fd < 0) {
        rnic_trace(dev, cm, "listener %u: the host's %s: %s", listener->id,
                   rnic_sockaddr_str(&host, host_text), g_strerror(-fd));
        return -fd;
    }
    sock = g_new0(struct listen_socket, 1);
    sock->listener = listener;
    sock->addr = addr;
    if (!rnic_source_add(dev, &sock->source, fd, 0, listen_ready)) {
        close(fd);
        g_free(sock);
        return ENOMEM;
    }
    if (!host.port) {
        struct sockaddr_storage os = { 0 };
        socklen_t len = sizeof(os);

        if (getsockname(fd, (struct sockaddr *)&os, &len) == 0) {
            rnic_sockaddr_from_os(&os, &host);
        }
        listener->local.port = host.port;
    }
    g_ptr_array_add(listener->sockets, sock);
    rnic_trace(dev, cm, "listener %u at %s, the host's %s", listener->id,
               rnic_sockaddr_str(&addr->guest, guest_text),
               rnic_sockaddr_str(&host, host_text));
    return 0;
}

static void close_socket(struct listen_socket *sock)
{
    rnic_source_remove(&sock->source);
    close(sock->source.fd);
    g_free(sock);
}

/* Those at @addr; NULL: all */
static void unbind(struct rnic_listener *listener, const struct rnic_addr *addr)
{
    for (unsigned i = 0; i < listener->sockets->len;) {
        struct listen_socket *sock = g_ptr_array_index(listener->sockets, i);

        if (addr && sock->addr != addr) {
            i++;
        } else {
            g_ptr_array_remove_index_fast(listener->sockets, i);
            close_socket(sock);
        }
    }
}

/*
 * Binds at every address there is; 0 or an errno. A listener on every address
 * fails only if the port is taken somewhere or the host is out of resources;
 * report_unbound() tells of addresses that the host does not have.
 */
static int bind_all(struct rnic_listener *listener)
{
    GPtrArray *list = listener->dev->addrs->list;

    for (unsigned i = 0; i < list->len; i++) {
        struct rnic_addr *addr = g_ptr_array_index(list, i);
        int err;

        if (!addr->usable || !covers(listener, &addr->guest)) {
            continue;
        }
        err = bind_addr(listener, addr);
        if (err && (!listener->any || err == EADDRINUSE || err == EMFILE ||
                    err == ENFILE || err == ENOMEM || err == ENOBUFS)) {
            return err;
        }
    }
    return 0;
}

static bool bound_at(struct rnic_listener *listener,
                     const struct rnic_addr *addr)
{
    for (unsigned i = 0; i < listener->sockets->len; i++) {
        struct listen_socket *sock = g_ptr_array_index(listener->sockets, i);

        if (sock->addr == addr) {
            return true;
        }
    }
    return false;
}

static void report_unbound(struct rnic_listener *listener)
{
    GPtrArray *list = listener->dev->addrs->list;

    for (unsigned i = 0; i < list->len; i++) {
        struct rnic_addr *addr = g_ptr_array_index(list, i);

        if (addr->usable && covers(listener, &addr->guest) &&
            !bound_at(listener, addr)) {
            post_error(listener, &addr->guest, RNIC_CM_UNREACHABLE);
        }
    }
}

/* No address to bind: any port that no listener of the device has */
static bool choose_port(struct rnic_listener *listener)
{
    for (unsigned i = 0; i < PORT_TRIES; i++) {
        listener->local.port =
            GUINT16_TO_BE(g_random_int_range(PORT_FIRST, PORT_LAST + 1));
        if (!port_taken(listener)) {
            return true;
        }
    }
    return false;
}

/* As bind_all(); a port that the host chose must be free on every address */
static int bind_any_port(struct rnic_listener *listener)
{
    int err = EADDRINUSE;

    for (unsigned i = 0; i < PORT_TRIES && err == EADDRINUSE; i++) {
        unbind(listener, NULL);
        listener->local.port = 0;
        err = bind_all(listener);
        if (!err && !listener->local.port && !choose_port(listener)) {
            err = EADDRINUSE;
        }
        if (!err && port_taken(listener)) {
            err = EADDRINUSE;
        }
    }
    return err;
}

void rnic_listeners_bind(struct rnic_device *dev, struct rnic_addr *addr)
{
    for (unsigned i = 0; i < RNIC_MAX_LISTEN && addr->usable; i++) {
        struct rnic_listener *listener = dev->cm->listeners[i];
        int err;

        if (!listener || !covers(listener, &addr->guest)) {
            continue;
        }
        err = bind_addr(listener, addr);
        if (err) {
            post_error(listener, &addr->guest, rnic_cm_status_of_errno(err));
        }
        update_events(listener);
    }
}

void rnic_listeners_unbind(struct rnic_device *dev,
                           const struct rnic_addr *addr)
{
    for (unsigned i = 0; i < RNIC_MAX_LISTEN; i++) {
        if (dev->cm->listeners[i]) {
            unbind(dev->cm->listeners[i], addr);
        }
    }
}

bool rnic_listeners_have(struct rnic_device *dev,
                         const struct rnic_sockaddr *host)
{
    for (unsigned i = 0; i < RNIC_MAX_LISTEN; i++) {
        struct rnic_listener *listener = dev->cm->listeners[i];

        for (unsigned j = 0; listener && j < listener->sockets->len; j++) {
            struct listen_socket *sock =
                g_ptr_array_index(listener->sockets, j);

            if (listener->local.port == host->port &&
                rnic_sockaddr_same(&sock->addr->host, host)) {
                return true;
            }
        }
    }
    return false;
}

/* ---- Commands ---- */

void rnic_listener_free(struct rnic_listener *listener)
{
    struct rnic_cm *cm = listener->dev->cm;
    GList *link, *next;

    for (link = cm->conns.head; link; link = next) {
        struct rnic_cm_conn *conn = link->data;

        next = link->next;
        if (conn->listener == listener) {
            rnic_conn_free(conn);
        }
    }
    unbind(listener, NULL);
    rnic_timer_cancel(&listener->retry);
    if (cm->listeners[listener->id] == listener) {
        cm->listeners[listener->id] = NULL;
    }
    g_ptr_array_unref(listener->sockets);
    g_free(listener);
}

static enum rnic_admin_status admin_status(int err)
{
    switch (err) {
    case 0:
        return RNIC_ADMIN_OK;
    case EADDRINUSE:
        return RNIC_ADMIN_ADDR_IN_USE;
    case EADDRNOTAVAIL:
        return RNIC_ADMIN_ADDR_NOT_AVAIL;
    case EPERM:
    case EACCES:
        return RNIC_ADMIN_REFUSED;
    default:
        return RNIC_ADMIN_NO_RESOURCES;
    }
}

enum rnic_admin_status rnic_cm_listen(struct rnic_device *dev,
                                      const struct rnic_cmd_listen *cmd,
                                      struct rnic_resp_listen *resp)
{
    uint32_t id = GUINT32_FROM_LE(cmd->id);
    uint32_t backlog = GUINT32_FROM_LE(cmd->backlog);
    uint32_t flags = GUINT32_FROM_LE(cmd->flags);
    struct rnic_listener *listener;
    struct rnic_sockaddr local;
    struct rnic_addr *addr = NULL;
    bool any;
    int err = 0;

    if (id >= RNIC_MAX_LISTEN || backlog > RNIC_MAX_BACKLOG ||
        flags & ~RNIC_LISTEN_V6ONLY ||
        !rnic_sockaddr_normalise(&cmd->local, &local)) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    if (dev->cm->listeners[id]) {
        return RNIC_ADMIN_IN_USE;
    }
    any = rnic_sockaddr_is_any(&local);
    if (!any) {
        addr = rnic_addr_find(dev->addrs, &local);
        if (!addr || !addr->usable) {
            return RNIC_ADMIN_ADDR_NOT_AVAIL;
        }
    }
    listener = g_new0(struct rnic_listener, 1);
    listener->dev = dev;
    listener->id = id;
    /* RDMA consumers ask for 0 when they do not care */
    listener->backlog = MAX(backlog, 1);
    listener->v6only = flags & RNIC_LISTEN_V6ONLY;
    listener->any = any;
    listener->local = local;
    listener->sockets = g_ptr_array_new();
    if (local.port && port_taken(listener)) {
        err = EADDRINUSE;
    } else if (!dev->cm->link_up) {
        err = local.port || choose_port(listener) ? 0 : EADDRINUSE;
    } else if (!local.port) {
        err = bind_any_port(listener);
    } else {
        err = bind_all(listener);
    }
    if (err) {
        rnic_listener_free(listener);
        return admin_status(err);
    }
    dev->cm->listeners[id] = listener;
    update_events(listener);
    if (dev->cm->link_up) {
        report_unbound(listener);
    }
    resp->port = listener->local.port;
    return RNIC_ADMIN_OK;
}

enum rnic_admin_status rnic_cm_unlisten(struct rnic_device *dev, uint32_t id)
{
    if (id >= RNIC_MAX_LISTEN || !dev->cm->listeners[id]) {
        return RNIC_ADMIN_BAD_ID;
    }
    rnic_trace(dev, cm, "listener %u ends", id);
    rnic_listener_free(dev->cm->listeners[id]);
    rnic_aeq_forget(dev, false, id);
    return RNIC_ADMIN_OK;
}
