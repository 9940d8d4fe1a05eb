/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The capture: a pcap file of the device's connections, as TCP packets between
 * the guest's addresses
 *
 * Packets are made up from the octets that the device sent and received, so
 * there are no retransmissions and no bare acknowledgements, and both ends'
 * sequence numbers start at 0. Link type RAW (IP without a link header), time
 * in nanoseconds. The file can be read while it grows. A full disk or the
 * size limit ends the capture, never a connection.
 */
#ifndef RNIC_NET_CAPTURE_H
#define RNIC_NET_CAPTURE_H

#include <sys/uio.h>
#include "../device.h"

/* Opens @dev's configured file (created, truncated); NULL and @error if that
 * fails. Call only if config.pcap is set. */
struct rnic_capture *rnic_capture_new(struct rnic_device *dev, GError **error);
/* After all its flows are freed */
void rnic_capture_free(struct rnic_capture *capture);

/* One connection. Nothing is written before its first data. */
struct rnic_capture_flow *
rnic_capture_flow_new(struct rnic_capture *capture,
                      const struct rnic_sockaddr *local,
                      const struct rnic_sockaddr *remote, bool initiator);
void rnic_capture_flow_free(struct rnic_capture_flow *flow);

/* The first @len octets of @iov were sent (@tx) or received */
void rnic_capture_data(struct rnic_capture_flow *flow, bool tx,
                       const struct iovec *iov, unsigned count, size_t len);
/* The local (@tx) or the remote end closed its direction, or with @reset the
 * connection; further calls for the same direction write nothing */
void rnic_capture_end(struct rnic_capture_flow *flow, bool tx, bool reset);

#endif
