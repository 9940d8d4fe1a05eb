/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The net queue: its life, its memory, the claims that it reads
 */
#include <sys/epoll.h>
#include "net/claim.h"
#include "netq.h"

#define SLOW_WORDS ((1u << 17) / 64)

uint64_t rnic_netq_caps(struct rnic_device *dev)
{
    return dev->config.fabric == RNIC_FABRIC_LOOPBACK ? RNIC_CAP_NET : 0;
}

/* ---- Life ---- */

static bool is_depth(uint32_t depth)
{
    return depth && !(depth & (depth - 1)) && depth <= RNIC_NETQ_MAX_DEPTH;
}

static bool overlap(uint64_t a, uint64_t a_len, uint64_t b, uint64_t b_len)
{
    return a < b + b_len && b < a + a_len;
}

static enum rnic_admin_status
create_fields(struct rnic_netq *netq, const struct rnic_cmd_create_netq *cmd)
{
    uint64_t tx_len, rx_len, cq_len, end;

    netq->vector = GUINT32_FROM_LE(cmd->vector);
    netq->tx_depth = GUINT32_FROM_LE(cmd->tx_depth);
    netq->rx_depth = GUINT32_FROM_LE(cmd->rx_depth);
    netq->tx_offset = GUINT32_FROM_LE(cmd->tx_offset);
    netq->rx_offset = GUINT32_FROM_LE(cmd->rx_offset);
    netq->cq_offset = GUINT32_FROM_LE(cmd->cq_offset);
    netq->dbrec_offset = GUINT32_FROM_LE(cmd->dbrec_offset);
    netq->status_addr = GUINT64_FROM_LE(cmd->status_addr);
    if (netq->vector >= netq->dev->config.vectors ||
        !is_depth(netq->tx_depth) || !is_depth(netq->rx_depth) ||
        netq->tx_offset % 64 || netq->rx_offset % 64 || netq->cq_offset % 64 ||
        cmd->rsvd) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    tx_len = (uint64_t)netq->tx_depth * sizeof(struct rnic_net_desc);
    rx_len = (uint64_t)netq->rx_depth * sizeof(struct rnic_net_desc);
    cq_len = (uint64_t)netq->rx_depth * sizeof(struct rnic_net_cqe);
    if (overlap(netq->tx_offset, tx_len, netq->rx_offset, rx_len) ||
        overlap(netq->tx_offset, tx_len, netq->cq_offset, cq_len) ||
        overlap(netq->rx_offset, rx_len, netq->cq_offset, cq_len)) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    end = MAX(netq->tx_offset + tx_len, netq->rx_offset + rx_len);
    end = MAX(end, netq->cq_offset + cq_len);
    if (netq->status_addr % sizeof(struct rnic_netq_status) ||
        !rnic_dma_probe(netq->dev, netq->status_addr,
                        sizeof(struct rnic_netq_status), RNIC_DMA_TO_GUEST)) {
        return RNIC_ADMIN_BAD_ADDRESS;
    }
    return rnic_buf_init_ring(netq->dev, &netq->buf, &cmd->buf, end,
                              netq->dbrec_offset);
}

enum rnic_admin_status rnic_netq_create(struct rnic_device *dev,
                                        const struct rnic_cmd_create_netq *cmd)
{
    struct rnic_uctx *uctx = rnic_uctx_find(dev, 0);
    enum rnic_admin_status status;
    struct rnic_netq *netq;

    if (!rnic_netq_caps(dev)) {
        return RNIC_ADMIN_BAD_OPCODE;
    }
    if (dev->netq) {
        return RNIC_ADMIN_IN_USE;
    }
    if (!uctx) {
        return RNIC_ADMIN_BAD_ID;
    }
    netq = g_new0(struct rnic_netq, 1);
    netq->dev = dev;
    status = create_fields(netq, cmd);
    if (status != RNIC_ADMIN_OK) {
        g_free(netq);
        return status;
    }
    uctx->refs++;
    netq->slow = g_new0(uint64_t, SLOW_WORDS);
    netq->ports = g_ptr_array_new_with_free_func(g_free);
    dev->netq = netq;
    for (unsigned i = 0; i < dev->addrs->list->len; i++) {
        rnic_netq_addr_added(dev, g_ptr_array_index(dev->addrs->list, i));
    }
    return RNIC_ADMIN_OK;
}

void rnic_netq_reset(struct rnic_device *dev)
{
    struct rnic_netq *netq = dev->netq;

    if (!netq) {
        return;
    }
    dev->netq = NULL;
    rnic_uctx_find(dev, 0)->refs--;
    rnic_timer_cancel(&netq->retry);
    rnic_timer_cancel(&netq->rx_retry);
    for (unsigned i = 0; i < netq->ports->len; i++) {
        struct rnic_netq_port *port = g_ptr_array_index(netq->ports, i);

        rnic_source_remove(&port->source);
    }
    g_ptr_array_unref(netq->ports);
    rnic_buf_clear(&netq->buf);
    g_free(netq->slow);
    g_free(netq);
}

void rnic_netq_resumed(struct rnic_device *dev)
{
    if (dev->netq) {
        dev->netq->wait_since_ns = 0;
        dev->netq->starved_since_ns = 0;
    }
}

enum rnic_admin_status rnic_netq_destroy(struct rnic_device *dev)
{
    if (!dev->netq) {
        return RNIC_ADMIN_BAD_ID;
    }
    rnic_netq_reset(dev);
    return RNIC_ADMIN_OK;
}

void rnic_netq_fail(struct rnic_netq *netq, const char *why)
{
    if (netq->failed) {
        return;
    }
    netq->failed = true;
    rnic_guest_error(netq->dev, "the net queue stops: %s", why);
    rnic_timer_cancel(&netq->retry);
    rnic_timer_cancel(&netq->rx_retry);
    rnic_netq_read_ports(netq, false);
}

void rnic_netq_read_ports(struct rnic_netq *netq, bool read)
{
    for (unsigned i = 0; i < netq->ports->len; i++) {
        struct rnic_netq_port *port = g_ptr_array_index(netq->ports, i);

        rnic_source_set(&port->source, read ? EPOLLIN : 0);
    }
}

/* ---- Claims ---- */

/* What came while nobody read is too old to be delivered. Bounded, although
 * the host bounds a socket's queue too. */
static void drain(struct rnic_netq *netq, int claim)
{
    struct rnic_claim_sender sender;
    struct iovec none = { NULL, 0 };

    for (unsigned i = 0; i < 4096; i++) {
        if (rnic_claim_recv(claim, &none, 1, &sender) < 0) {
            return;
        }
        rnic_stat_inc(netq->dev, RNIC_STAT_net_rx_dropped);
    }
}

void rnic_netq_addr_added(struct rnic_device *dev, struct rnic_addr *addr)
{
    struct rnic_netq_port *port;

    if (!dev->netq || addr->claim < 0) {
        return;
    }
    rnic_claim_carry(addr->claim);
    drain(dev->netq, addr->claim);
    port = g_new0(struct rnic_netq_port, 1);
    port->netq = dev->netq;
    port->addr = addr;
    rnic_source_add(
        dev, &port->source, addr->claim,
        dev->netq->failed || dev->netq->rx_retry.deadline_ns ? 0 : EPOLLIN,
        rnic_netq_port_ready);
    g_ptr_array_add(dev->netq->ports, port);
}

void rnic_netq_addr_removed(struct rnic_device *dev, struct rnic_addr *addr)
{
    struct rnic_netq *netq = dev->netq;

    for (unsigned i = 0; netq && i < netq->ports->len; i++) {
        struct rnic_netq_port *port = g_ptr_array_index(netq->ports, i);

        if (port->addr == addr) {
            rnic_source_remove(&port->source);
            g_ptr_array_remove_index_fast(netq->ports, i);
            return;
        }
    }
}

/* ---- Memory ---- */

bool rnic_netq_dbrec(struct rnic_netq *netq, size_t offset, uint32_t *value)
{
    if (!rnic_buf_load32(netq->dev, &netq->buf, netq->dbrec_offset + offset,
                         value)) {
        rnic_netq_fail(netq, "its doorbell record is not RAM any more");
        return false;
    }
    return true;
}

bool rnic_netq_map(struct rnic_netq *netq, struct rnic_netq_map *map,
                   uint64_t addr, uint32_t len, enum rnic_dma_dir dir)
{
    struct rnic_device *dev = netq->dev;

    map->count = 0;
    map->dir = dir;
    if (len > UINT64_MAX - addr) {
        return false;
    }
    while (len) {
        uint64_t mapped = len;
        void *ptr = map->count == RNIC_NETQ_MAX_PIECES
                        ? NULL
                        : dev->ops->dma_map(dev->opaque, addr, &mapped, dir);

        if (!ptr) {
            rnic_netq_unmap(netq, map, 0);
            return false;
        }
        map->iov[map->count++] = (struct iovec){ ptr, mapped };
        addr += mapped;
        len -= mapped;
    }
    return true;
}

void rnic_netq_unmap(struct rnic_netq *netq, struct rnic_netq_map *map,
                     size_t used)
{
    struct rnic_device *dev = netq->dev;

    for (unsigned i = 0; i < map->count; i++) {
        size_t here = MIN(used, map->iov[i].iov_len);

        dev->ops->dma_unmap(dev->opaque, map->iov[i].iov_base,
                            map->iov[i].iov_len, map->dir, here);
        used -= here;
    }
    map->count = 0;
}

unsigned rnic_netq_gather(const struct rnic_netq_map *map, struct iovec *iov,
                          uint8_t *header, size_t header_len, size_t len)
{
    size_t skip = header_len;
    unsigned count = 0;

    iov[count++] = (struct iovec){ header, header_len };
    len -= header_len;
    for (unsigned i = 0; i < map->count && len; i++) {
        size_t from = MIN(skip, map->iov[i].iov_len);
        size_t here = MIN(len, map->iov[i].iov_len - from);

        skip -= from;
        if (here) {
            iov[count++] =
                (struct iovec){ (uint8_t *)map->iov[i].iov_base + from, here };
            len -= here;
        }
    }
    return count;
}
