/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "addr.h"
#include "capture.h"

/* How long, and for how many octets, a closed stream waits for the peer's FIN;
 * and how many of them may wait */
#define DRAIN_US     3000000
#define DRAIN_OCTETS (16u << 20)
#define DRAIN_MAX    1024

/*
 * Octets inside a loopback fabric that TCP takes ahead of what it may send. A
 * full send buffer is emptied by the receiver's ACKs, segment by segment (and
 * by a timer for each if congestion control paces), with pages that have left
 * the cache; this little is sent by the sender's own call. It halves what an
 * octet costs. Between machines the host's own setting counts.
 */
#define UNSENT_OCTETS (64 * 1024)

/* MSS assumed when TCP does not say: IPv6's smallest MTU less its headers */
#define MSS_FALLBACK 1220

/* A socket after its FIN, without an owner; in dev->draining */
struct drain {
    struct rnic_source source;
    struct rnic_timer timer;
    GList link;
    uint64_t octets; /* that it may still read */
};

static void drain_close(struct drain *drain)
{
    rnic_timer_cancel(&drain->timer);
    rnic_source_remove(&drain->source);
    close(drain->source.fd);
    g_queue_unlink(&drain->source.dev->draining, &drain->link);
    g_free(drain);
}

static void drain_ready(struct rnic_source *source, uint32_t events)
{
    struct drain *drain = rnic_owner(source, struct drain, source);
    ssize_t n;

    /* MSG_TRUNC: TCP drops the octets without copying them */
    n = recv(source->fd, NULL, MIN(drain->octets, 1u << 20),
             MSG_TRUNC | MSG_DONTWAIT);
    if (n > 0) {
        drain->octets -= n;
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) ||
        !drain->octets) {
        drain_close(drain);
    }
}

static void drain_expired(struct rnic_timer *timer)
{
    drain_close(rnic_owner(timer, struct drain, timer));
}

/*
 * A socket that is closed with unread octets, or gets some later, answers with
 * RST; and RST makes the peer's TCP drop what it did not read yet, for example
 * a Terminate. So: FIN, and read until the peer's FIN.
 */
static void drain_start(struct rnic_device *dev, int fd)
{
    struct drain *drain;

    if (shutdown(fd, SHUT_WR) < 0) {
        close(fd);
        return;
    }
    if (dev->draining.length >= DRAIN_MAX) {
        drain_close(dev->draining.head->data);
    }
    drain = g_new0(struct drain, 1);
    drain->octets = DRAIN_OCTETS;
    drain->link.data = drain;
    if (!rnic_source_add(dev, &drain->source, fd, EPOLLIN, drain_ready)) {
        close(fd);
        g_free(drain);
        return;
    }
    g_queue_push_tail_link(&dev->draining, &drain->link);
    rnic_timer_arm(dev, &drain->timer, DRAIN_US, drain_expired);
}

void rnic_streams_reset(struct rnic_device *dev)
{
    while (dev->draining.head) {
        drain_close(dev->draining.head->data);
    }
}

/*
 * How long the peer's TCP may leave octets, a closed window or a probe of an
 * idle connection without an answer. One that is gone without a word would
 * otherwise be noticed only by who sends, and then after a quarter of an hour.
 */
static void set_peer_timeout(struct rnic_device *dev, int fd)
{
    unsigned ms = dev->config.peer_timeout_ms;
    int one = 1;
    /* Linux takes no more than 32767 seconds */
    int idle = CLAMP(ms / 2000, 1, 32767);
    int interval = CLAMP(ms / 10000, 1, 32767);

    if (ms) {
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    }
    /* In the fabric the end of a peer's process is always told */
    if (ms || dev->config.fabric != RNIC_FABRIC_LOOPBACK) {
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    }
}

static void stream_ready(struct rnic_source *source, uint32_t events)
{
    struct rnic_stream *stream = rnic_owner(source, struct rnic_stream, source);

    stream->ready(stream, events);
}

struct rnic_stream *rnic_stream_new(struct rnic_device *dev, int fd,
                                    const struct rnic_sockaddr *local,
                                    const struct rnic_sockaddr *remote,
                                    bool initiator)
{
    struct rnic_stream *stream = g_new0(struct rnic_stream, 1);
    int one = 1, unsent = UNSENT_OCTETS;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (dev->config.fabric == RNIC_FABRIC_LOOPBACK) {
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
    }
    set_peer_timeout(dev, fd);
    stream->dev = dev;
    stream->local = *local;
    stream->remote = *remote;
    stream->initiator = initiator;
    if (!rnic_source_add(dev, &stream->source, fd, 0, stream_ready)) {
        close(fd);
        g_free(stream);
        return NULL;
    }
    return stream;
}

/* Made at the first data, when the local port is known */
static struct rnic_capture_flow *stream_flow(struct rnic_stream *stream)
{
    struct rnic_device *dev = stream->dev;

    if (!stream->flow && dev->capture) {
        /* Of a connection to oneself only the initiator's end is written */
        if (!stream->initiator && rnic_addr_find(dev->addrs, &stream->remote)) {
            return NULL;
        }
        stream->flow = rnic_capture_flow_new(
            dev->capture, &stream->local, &stream->remote, stream->initiator);
    }
    return stream->flow;
}

static void capture_data(struct rnic_stream *stream, bool tx,
                         const struct iovec *iov, unsigned count, size_t len)
{
    struct rnic_capture_flow *flow = stream_flow(stream);

    if (flow) {
        rnic_capture_data(flow, tx, iov, count, len);
    }
}

/* The result of a receive as this interface gives it; FIN and RST captured */
static ssize_t received(struct rnic_stream *stream, ssize_t n)
{
    int err = n < 0 ? errno : 0;

    if (err == EINTR || err == EWOULDBLOCK) {
        err = EAGAIN;
    }
    if (stream->flow && (n == 0 || err == ECONNRESET)) {
        rnic_capture_end(stream->flow, false, n < 0);
    }
    return n < 0 ? -err : n;
}

ssize_t rnic_stream_recv(struct rnic_stream *stream, const struct iovec *iov,
                         unsigned count)
{
    struct msghdr msg = {
        .msg_iov = (struct iovec *)iov,
        .msg_iovlen = count,
    };
    int fd = stream->source.fd;
    ssize_t n;

    /* What a small message takes; the host copies no list for it */
    if (count == 1) {
        n = recv(fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT);
    } else {
        n = recvmsg(fd, &msg, MSG_DONTWAIT);
    }
    n = received(stream, n);
    if (n > 0 && stream->dev->capture) {
        capture_data(stream, false, iov, count, n);
    }
    return n;
}

ssize_t rnic_stream_recv_startup(struct rnic_stream *stream, void *buf,
                                 size_t len)
{
    return received(stream, recv(stream->source.fd, buf, len, MSG_DONTWAIT));
}

void rnic_stream_capture_startup(struct rnic_stream *stream, const void *buf,
                                 size_t len)
{
    struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };

    if (len && stream->dev->capture) {
        capture_data(stream, false, &iov, 1, len);
    }
}

int rnic_stream_peek(struct rnic_stream *stream)
{
    uint8_t octet;

    return received(
        stream, recv(stream->source.fd, &octet, 1, MSG_PEEK | MSG_DONTWAIT));
}

ssize_t rnic_stream_send(struct rnic_stream *stream, const struct iovec *iov,
                         unsigned count, bool eor)
{
    struct msghdr msg = {
        .msg_iov = (struct iovec *)iov,
        .msg_iovlen = count,
    };
    int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (eor ? MSG_EOR : 0);
    int fd = stream->source.fd;
    ssize_t n;

    if (count == 1) {
        n = send(fd, iov->iov_base, iov->iov_len, flags);
    } else {
        n = sendmsg(fd, &msg, flags);
    }
    if (n < 0) {
        return errno == EINTR || errno == EWOULDBLOCK ? -EAGAIN : -errno;
    }
    if (n > 0 && stream->dev->capture) {
        capture_data(stream, true, iov, count, n);
    }
    return n;
}

bool rnic_stream_writable(struct rnic_stream *stream)
{
    struct pollfd fd = { .fd = stream->source.fd, .events = POLLOUT };

    return poll(&fd, 1, 0) > 0;
}

void rnic_stream_want(struct rnic_stream *stream, uint32_t events)
{
    rnic_source_set(&stream->source, events);
}

unsigned rnic_stream_mss(struct rnic_stream *stream)
{
    int mss = 0;
    socklen_t len = sizeof(mss);

    if (getsockopt(stream->source.fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &len) <
            0 ||
        mss <= 0) {
        return MSS_FALLBACK;
    }
    return mss;
}

void rnic_stream_close(struct rnic_stream *stream, bool graceful)
{
    int fd = stream->source.fd;

    rnic_source_remove(&stream->source);
    if (stream->flow) {
        rnic_capture_end(stream->flow, true, !graceful);
        rnic_capture_flow_free(stream->flow);
    }
    if (graceful) {
        drain_start(stream->dev, fd);
    } else {
        struct linger linger = { .l_onoff = 1, .l_linger = 0 };

        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        close(fd);
    }
    g_free(stream);
}
