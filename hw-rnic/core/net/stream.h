/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A connected TCP socket of the device
 *
 * The one place where octets enter and leave a connection, so that the capture
 * sees them. Owner: first the connection manager, from RTS on the QP.
 */
#ifndef RNIC_NET_STREAM_H
#define RNIC_NET_STREAM_H

#include "../device.h"

struct rnic_stream {
    struct rnic_source source;
    struct rnic_device *dev;
    struct rnic_sockaddr local; /* the guest's view */
    struct rnic_sockaddr remote;
    bool initiator;
    /* Called with EPOLLIN/EPOLLOUT/EPOLLERR/EPOLLHUP bits; may free itself
     * through rnic_stream_close() */
    void (*ready)(struct rnic_stream *stream, uint32_t events);
    void *owner;
    struct rnic_capture_flow *flow; /* NULL: no capture */
};

/*
 * Takes over @fd (non-blocking, TCP_NODELAY set here), connected or connecting.
 * NULL: it cannot be watched; @fd is closed then.
 */
struct rnic_stream *rnic_stream_new(struct rnic_device *dev, int fd,
                                    const struct rnic_sockaddr *local,
                                    const struct rnic_sockaddr *remote,
                                    bool initiator);
/* Octets received; 0: end of stream; -EAGAIN; another -errno: lost */
ssize_t rnic_stream_recv(struct rnic_stream *stream, const struct iovec *iov,
                         unsigned count);
/* Octets accepted by TCP (may be fewer); -EAGAIN; another -errno: lost.
 * @eor: what follows starts a TCP segment of its own */
ssize_t rnic_stream_send(struct rnic_stream *stream, const struct iovec *iov,
                         unsigned count, bool eor);
/* Whether TCP would take some octets now */
bool rnic_stream_writable(struct rnic_stream *stream);
/*
 * The MPA startup: as recv of up to @len octets, but not captured, so that
 * the frame, read in parts, can be captured in one packet when it is complete:
 * readers of captures recognise it only so.
 */
ssize_t rnic_stream_recv_startup(struct rnic_stream *stream, void *buf,
                                 size_t len);
void rnic_stream_capture_startup(struct rnic_stream *stream, const void *buf,
                                 size_t len);
/* 1: octets are there; 0: end of stream; -EAGAIN: neither; else lost */
int rnic_stream_peek(struct rnic_stream *stream);
/* What ready() is called for: EPOLLIN, EPOLLOUT */
void rnic_stream_want(struct rnic_stream *stream, uint32_t events);
/* Largest MSS of the path as of now, octets */
unsigned rnic_stream_mss(struct rnic_stream *stream);
/*
 * Ends the stream and frees it. @graceful: FIN after what was sent (the host's
 * TCP delivers it; received octets that are still unread are read and dropped
 * for a bounded time, so that no RST destroys a Terminate on its way); else
 * RST at once.
 */
void rnic_stream_close(struct rnic_stream *stream, bool graceful);
/* Ends at once what gracefully closed streams left behind */
void rnic_streams_reset(struct rnic_device *dev);

#endif
