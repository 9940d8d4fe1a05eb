/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The net queue's transmit side
 */
#include <errno.h>
#include <string.h>
#include "net/claim.h"
#include "netq.h"

/* Packets of one turn */
#define TX_BUDGET 64

enum outcome {
    DONE, /* sent or dropped */
    WAIT, /* its receiver's queue is full */
};

static enum outcome drop(struct rnic_netq *netq, enum rnic_stat why)
{
    rnic_stat_inc(netq->dev, RNIC_STAT_net_tx_dropped);
    if (why != RNIC_STAT_net_tx_dropped) {
        rnic_stat_inc(netq->dev, why);
    }
    return DONE;
}

static enum outcome drop_bad(struct rnic_netq *netq, const char *what)
{
    rnic_guest_error(netq->dev, "net queue, transmit descriptor %u: %s",
                     netq->tx_ci, what);
    return drop(netq, RNIC_STAT_net_tx_dropped);
}

static uint64_t *slow_word(struct rnic_netq *netq,
                           const struct rnic_sockaddr *host, uint64_t *bit)
{
    const uint8_t *low =
        host->addr + rnic_family_size(rnic_sockaddr_family(host)) - 3;
    uint32_t index = (low[0] & 1) << 16 | low[1] << 8 | low[2];

    *bit = UINT64_C(1) << (index % 64);
    return &netq->slow[index / 64];
}

/* The receiver's queue is full, which a host may limit to ten entries: time for it, or the end of its time */
static enum outcome wait_or_drop(struct rnic_netq *netq,
                                 const struct rnic_sockaddr *host,
                                 const char *text)
{
    uint64_t now = rnic_now_ns(), bit;
    uint64_t *word = slow_word(netq, host, &bit);

    if (!(*word & bit)) {
        if (!netq->wait_since_ns) {
            netq->wait_since_ns = now;
        }
        if (now - netq->wait_since_ns < RNIC_NETQ_PATIENCE_NS) {
            return WAIT;
        }
        *word |= bit;
    }
    rnic_trace(netq->dev, net_tx, "%s: dropped, the receiver does not keep up",
               text);
    return drop(netq, RNIC_STAT_net_tx_full);
}

static enum outcome send_packet(struct rnic_netq *netq,
                                const struct rnic_packet *packet,
                                struct iovec *iov, unsigned count)
{
    struct rnic_device *dev = netq->dev;
    struct rnic_addr *source;
    struct rnic_sockaddr host;
    char text[RNIC_PACKET_STR] = "";
    uint64_t bit;
    int ret;

    if (dev->ops->trace_enabled(dev->opaque, RNIC_TRACE_net_tx) ||
        dev->ops->trace_enabled(dev->opaque, RNIC_TRACE_guest_error)) {
        rnic_packet_str(packet, text);
    }
    if (rnic_sockaddr_is_multicast(&packet->destination)) {
        rnic_trace(dev, net_tx, "%s: dropped, there is no multicast", text);
        return drop(netq, RNIC_STAT_net_tx_dropped);
    }
    source = rnic_addr_find(dev->addrs, &packet->source);
    if (!source || source->claim < 0) {
        rnic_guest_error(dev,
                         "IP packet %s: the source is not an address of "
                         "this device",
                         text);
        return drop(netq, RNIC_STAT_net_tx_spoofed);
    }
    if (rnic_sockaddr_is_any(&packet->destination) ||
        rnic_sockaddr_is_loopback(&packet->destination) ||
        !rnic_addr_to_host(dev->addrs, &packet->destination, &host) ||
        rnic_addr_may_connect(dev->addrs, &host) == RNIC_REACH_DENIED) {
        rnic_trace(dev, net_tx, "%s: dropped, not in the fabric or denied",
                   text);
        return drop(netq, RNIC_STAT_net_tx_unreachable);
    }
    ret = rnic_claim_send(source->claim, rnic_addrs_claim_fabric(dev->addrs),
                          &host, iov, count);
    switch (ret) {
    case 0:
        *slow_word(netq, &host, &bit) &= ~bit;
        rnic_stat_inc(dev, RNIC_STAT_net_tx_packets);
        rnic_stat_add(dev, RNIC_STAT_net_tx_octets, packet->length);
        rnic_trace(dev, net_tx, "%s", text);
        return DONE;
    case -EAGAIN:
        return wait_or_drop(netq, &host, text);
    case -ECONNREFUSED:
        rnic_trace(dev, net_tx, "%s: dropped, nobody has the destination",
                   text);
        return drop(netq, RNIC_STAT_net_tx_unreachable);
    default:
        rnic_trace(dev, net_tx, "%s: dropped: %s", text, g_strerror(-ret));
        return drop(netq, RNIC_STAT_net_tx_dropped);
    }
}

static enum outcome send_next(struct rnic_netq *netq)
{
    struct rnic_device *dev = netq->dev;
    uint8_t header[RNIC_PACKET_HEADER];
    struct iovec iov[RNIC_NETQ_MAX_PIECES + 1];
    struct rnic_net_desc desc;
    struct rnic_netq_map map;
    struct rnic_packet packet;
    enum outcome outcome;
    const char *wrong;
    uint32_t length;
    size_t copied = 0, header_len;
    unsigned count;

    if (!rnic_buf_read(dev, &netq->buf,
                       netq->tx_offset +
                           (netq->tx_ci & (netq->tx_depth - 1)) * sizeof(desc),
                       &desc, sizeof(desc))) {
        rnic_netq_fail(netq, "its transmit ring is not RAM any more");
        return DONE;
    }
    length = GUINT32_FROM_LE(desc.length);
    if (!length || length > RNIC_NET_MAX_PACKET || desc.flags) {
        return drop_bad(netq, "a bad length or flag");
    }
    if (!rnic_netq_map(netq, &map, GUINT64_FROM_LE(desc.addr), length,
                       RNIC_DMA_FROM_GUEST)) {
        return drop_bad(netq, "the packet is not in RAM");
    }
    /* The header that is checked is the one that is sent */
    header_len = MIN(length, sizeof(header));
    for (unsigned i = 0; i < map.count && copied < header_len; i++) {
        size_t here = MIN(header_len - copied, map.iov[i].iov_len);

        memcpy(header + copied, map.iov[i].iov_base, here);
        copied += here;
    }
    wrong = rnic_packet_parse(header, length, &packet);
    if (wrong) {
        outcome = drop_bad(netq, wrong);
    } else {
        count = rnic_netq_gather(&map, iov, header,
                                 MIN(header_len, packet.length), packet.length);
        outcome = send_packet(netq, &packet, iov, count);
    }
    rnic_netq_unmap(netq, &map, 0);
    return outcome;
}

/* ---- The ring ---- */

static bool store_status(struct rnic_netq *netq, size_t offset, uint32_t value)
{
    if (rnic_dma_store32(netq->dev, netq->status_addr + offset, value)) {
        return true;
    }
    rnic_netq_fail(netq, "its status is not RAM any more");
    return false;
}

static bool read_pi(struct rnic_netq *netq)
{
    uint32_t pi;

    if (!rnic_netq_dbrec(netq, offsetof(struct rnic_netq_dbrec, tx_pi), &pi)) {
        return false;
    }
    if (pi - netq->tx_ci > netq->tx_depth) {
        rnic_netq_fail(netq, "tx_pi is more than the depth ahead");
        return false;
    }
    netq->tx_pi = pi;
    return pi != netq->tx_ci;
}

/* Whether there is a descriptor; if not, the driver will ring for the next */
static bool has_next(struct rnic_netq *netq)
{
    if (netq->tx_pi != netq->tx_ci || read_pi(netq)) {
        return true;
    }
    if (netq->failed ||
        !store_status(netq, offsetof(struct rnic_netq_status, tx_event),
                      netq->tx_ci)) {
        return false;
    }
    /* Pairs with the driver's barrier between tx_pi and its look at tx_event */
    rnic_dma_fence(netq->dev);
    return read_pi(netq);
}

static void publish(struct rnic_netq *netq)
{
    uint32_t from = netq->tx_told, arm;

    if (netq->failed || netq->tx_ci == from ||
        !store_status(netq, offsetof(struct rnic_netq_status, tx_ci),
                      netq->tx_ci)) {
        return;
    }
    netq->tx_told = netq->tx_ci;
    rnic_dma_fence(netq->dev);
    if (rnic_netq_dbrec(netq, offsetof(struct rnic_netq_dbrec, tx_arm), &arm) &&
        rnic_netq_armed(arm, from, netq->tx_ci)) {
        rnic_irq(netq->dev, netq->vector);
    }
}

static void retry_expired(struct rnic_timer *timer)
{
    struct rnic_netq *netq = rnic_owner(timer, struct rnic_netq, retry);

    netq->tx_ready = true;
}

bool rnic_netq_run(struct rnic_device *dev)
{
    struct rnic_netq *netq = dev->netq;
    unsigned count = 0;
    bool more = false;

    if (!netq || !netq->tx_ready || !dev->ready) {
        return false;
    }
    netq->tx_ready = false;
    while (!netq->failed && has_next(netq)) {
        if (count++ == TX_BUDGET) {
            netq->tx_ready = more = true;
            break;
        }
        if (send_next(netq) == WAIT) {
            rnic_timer_arm(dev, &netq->retry, RNIC_NETQ_RETRY_US,
                           retry_expired);
            break;
        }
        netq->wait_since_ns = 0;
        netq->tx_ci++;
    }
    publish(netq);
    return more;
}

void rnic_netq_kick(struct rnic_device *dev)
{
    /* While a packet waits for its receiver the timer goes on */
    if (!dev->netq->retry.deadline_ns) {
        dev->netq->tx_ready = true;
    }
}
