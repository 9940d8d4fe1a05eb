/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The net queue's receive side
 */
#include <string.h>
#include "net/claim.h"
#include "netq.h"

/* Packets of one turn from one claim */
#define RX_BUDGET 32

static void drop(struct rnic_netq *netq, enum rnic_stat why)
{
    rnic_stat_inc(netq->dev, RNIC_STAT_net_rx_dropped);
    if (why != RNIC_STAT_net_rx_dropped) {
        rnic_stat_inc(netq->dev, why);
    }
}

/* ---- Buffers ---- */

/* Whether a buffer is posted; false also if the queue failed */
static bool has_buffer(struct rnic_netq *netq)
{
    uint32_t pi;

    if (netq->rx_pi == netq->rx_ci) {
        if (!rnic_netq_dbrec(netq, offsetof(struct rnic_netq_dbrec, rx_pi),
                             &pi)) {
            return false;
        }
        if (pi - netq->rx_ci > netq->rx_depth) {
            rnic_netq_fail(netq, "rx_pi is more than the depth ahead");
            return false;
        }
        netq->rx_pi = pi;
    }
    return netq->rx_pi != netq->rx_ci;
}

static void retry_expired(struct rnic_timer *timer);

/* Without a buffer: whether the claims are left unread for now */
static bool is_waiting(struct rnic_netq *netq)
{
    uint64_t now = rnic_now_ns();

    if (has_buffer(netq)) {
        netq->starved = false;
        netq->starved_since_ns = 0;
        return false;
    }
    if (!netq->starved_since_ns) {
        netq->starved_since_ns = now;
    }
    if (netq->failed || netq->starved ||
        now - netq->starved_since_ns > RNIC_NETQ_PATIENCE_NS) {
        netq->starved = true;
        return false;
    }
    rnic_timer_arm(netq->dev, &netq->rx_retry, RNIC_NETQ_RETRY_US,
                   retry_expired);
    return true;
}

static void retry_expired(struct rnic_timer *timer)
{
    struct rnic_netq *netq = rnic_owner(timer, struct rnic_netq, rx_retry);

    if (!is_waiting(netq) && !netq->failed) {
        rnic_netq_read_ports(netq, true);
    }
}

/* The next receive descriptor; false: none is posted, or failed */
static bool next_buffer(struct rnic_netq *netq, struct rnic_net_desc *desc)
{
    if (!has_buffer(netq)) {
        return false;
    }
    if (!rnic_buf_read(netq->dev, &netq->buf,
                       netq->rx_offset +
                           (netq->rx_ci & (netq->rx_depth - 1)) * sizeof(*desc),
                       desc, sizeof(*desc))) {
        rnic_netq_fail(netq, "its receive ring is not RAM any more");
        return false;
    }
    return true;
}

static void complete(struct rnic_netq *netq, uint32_t length, uint8_t flags)
{
    uint32_t index = netq->rx_ci;
    struct rnic_net_cqe cqe = {
        .length = GUINT32_TO_LE(length),
        .flags = flags,
        .phase = !((index / netq->rx_depth) & 1),
    };

    if (!rnic_buf_publish(netq->dev, &netq->buf,
                          netq->cq_offset +
                              (index & (netq->rx_depth - 1)) * sizeof(cqe),
                          &cqe, sizeof(cqe))) {
        rnic_netq_fail(netq, "its receive completions are not RAM any more");
        return;
    }
    netq->rx_ci++;
}

/* Interrupts if the driver asked for it with one of the new completions */
static void announce(struct rnic_netq *netq)
{
    uint32_t from = netq->rx_told, arm;

    if (netq->failed || netq->rx_ci == from) {
        return;
    }
    netq->rx_told = netq->rx_ci;
    /* Pairs with the driver's barrier between rx_arm and its last look */
    rnic_dma_fence(netq->dev);
    if (rnic_netq_dbrec(netq, offsetof(struct rnic_netq_dbrec, rx_arm), &arm) &&
        rnic_netq_armed(arm, from, netq->rx_ci)) {
        rnic_irq(netq->dev, netq->vector);
    }
}

/* ---- Packets ---- */

/* Whether to deliver it; if not it is counted and traced */
static bool is_acceptable(struct rnic_netq *netq,
                          const struct rnic_claim_sender *sender,
                          const uint8_t *header, size_t length,
                          struct rnic_packet *packet)
{
    struct rnic_addrs *addrs = netq->dev->addrs;
    const char *wrong = rnic_packet_parse(header, length, packet);
    enum rnic_stat why = RNIC_STAT_net_rx_refused;
    char text[RNIC_PACKET_STR];
    struct rnic_sockaddr host;

    if (!wrong && packet->length != length) {
        wrong = "octets behind the packet";
    }
    if (wrong) {
        rnic_trace(netq->dev, net_rx, "dropped a datagram of %zu octets: %s",
                   length, wrong);
        drop(netq, why);
        return false;
    }
    if (!rnic_addr_to_host(addrs, &packet->source, &host) ||
        !rnic_claim_is_from(sender, rnic_addrs_claim_fabric(addrs), &host)) {
        wrong = "not sent by whoever has the source address";
    } else if (rnic_addr_may_accept(addrs, &host) == RNIC_REACH_DENIED) {
        wrong = "denied";
    } else if (!rnic_addr_find(addrs, &packet->destination)) {
        wrong = "the destination is not an address of this device";
        why = RNIC_STAT_net_rx_dropped;
    }
    if (wrong) {
        rnic_trace(netq->dev, net_rx, "%s: dropped, %s",
                   rnic_packet_str(packet, text), wrong);
        drop(netq, why);
        return false;
    }
    return true;
}

static void put_header(struct rnic_netq_map *map, const uint8_t *header,
                       size_t len)
{
    for (unsigned i = 0; i < map->count && len; i++) {
        size_t here = MIN(len, map->iov[i].iov_len);

        memcpy(map->iov[i].iov_base, header, here);
        header += here;
        len -= here;
    }
}

/*
 * Takes one datagram off a claim, its payload straight into the guest's
 * buffer. The header goes to a copy, which is checked, and to the guest only
 * if the packet is delivered; of one that is not the guest sees no completion.
 * False: there is none.
 */
static bool receive(struct rnic_netq *netq, int claim)
{
    struct rnic_device *dev = netq->dev;
    uint8_t header[RNIC_PACKET_HEADER];
    struct iovec iov[RNIC_NETQ_MAX_PIECES + 1];
    struct rnic_netq_map map = { .count = 0 };
    struct rnic_claim_sender sender;
    struct rnic_packet packet;
    struct rnic_net_desc desc;
    char text[RNIC_PACKET_STR];
    size_t room = 0, header_len = sizeof(header);
    bool usable, bad = false;
    ssize_t got;

    usable = next_buffer(netq, &desc);
    if (netq->failed) {
        return false;
    }
    if (usable) {
        room = MIN(GUINT32_FROM_LE(desc.length), RNIC_NET_MAX_PACKET);
        bad = !room || desc.flags ||
              !rnic_netq_map(netq, &map, GUINT64_FROM_LE(desc.addr), room,
                             RNIC_DMA_TO_GUEST);
    }
    got = rnic_claim_recv(
        claim, iov,
        rnic_netq_gather(&map, iov, header, header_len, MAX(room, header_len)),
        &sender);
    if (got < 0) {
        rnic_netq_unmap(netq, &map, 0);
        return false;
    }
    header_len = MIN(header_len, got);
    if (!is_acceptable(netq, &sender, header, got, &packet)) {
        rnic_netq_unmap(netq, &map, MIN(room, got));
        return true;
    }
    if (!usable || bad) {
        rnic_trace(dev, net_rx, "%s: dropped, %s",
                   rnic_packet_str(&packet, text),
                   bad ? "the buffer is not RAM" : "no buffer is posted");
        drop(netq, RNIC_STAT_net_rx_no_buffer);
        if (bad) {
            rnic_guest_error(dev,
                             "net queue, receive descriptor %u: not RAM, "
                             "or a bad length or flag",
                             netq->rx_ci);
            complete(netq, 0, RNIC_NET_RX_ERROR);
        }
        return true;
    }
    if (got > room) {
        rnic_trace(dev, net_rx, "%s: dropped, the buffer has %zu octets",
                   rnic_packet_str(&packet, text), room);
        drop(netq, RNIC_STAT_net_rx_dropped);
        rnic_netq_unmap(netq, &map, room);
        return true;
    }
    put_header(&map, header, header_len);
    rnic_netq_unmap(netq, &map, got);
    complete(netq, got, 0);
    rnic_stat_inc(dev, RNIC_STAT_net_rx_packets);
    rnic_stat_add(dev, RNIC_STAT_net_rx_octets, got);
    rnic_trace(dev, net_rx, "%s", rnic_packet_str(&packet, text));
    return true;
}

void rnic_netq_port_ready(struct rnic_source *source, uint32_t events)
{
    struct rnic_netq_port *port =
        rnic_owner(source, struct rnic_netq_port, source);
    struct rnic_netq *netq = port->netq;

    if (!netq->dev->ready) {
        /* Until the reset, which ends the net queue */
        rnic_source_set(source, 0);
        return;
    }
    /* Level triggered: what is left over comes with the next turn */
    for (unsigned i = 0; i < RX_BUDGET; i++) {
        if (netq->rx_pi == netq->rx_ci && is_waiting(netq)) {
            rnic_netq_read_ports(netq, false);
            break;
        }
        if (netq->failed || !receive(netq, port->addr->claim)) {
            break;
        }
    }
    announce(netq);
}
