// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * IP packets on the net device, through the device's net queue
 *
 * Packets are copied to and from buffers that stay mapped as long as the
 * interface is up, with the checksum in the same pass. So nothing waits for
 * the device but the ring, and a packet of any size needs no large piece of
 * memory when it comes.
 */
#include <linux/etherdevice.h>
#include <linux/interrupt.h>
#include <linux/sizes.h>
#include <linux/u64_stats_sync.h>
#include <net/checksum.h>

#include "rnic.h"

#define NET_MAX_DEPTH		256
#define NET_MIN_DEPTH		64
/* What a ring's buffers may take, if it has the least depth without that */
#define NET_RING_MEMORY		SZ_2M
/* Longer packets are received into pages */
#define NET_LINEAR		2048
#define NET_HEAD		256

/* A ring with a buffer of its own for each descriptor */
struct net_ring {
	struct rnic_net_desc *descs;
	u32 depth;
	u32 buf_size;
	u32 bufs_per_chunk;
	u32 num_chunks;
	struct rnic_mem *chunks;
};

struct rnic_net {
	struct rnic_dev *rdev;
	struct net_device *ndev;
	struct napi_struct napi;
	bool up;			/* the device has the queue */

	struct rnic_mem mem;		/* rings, record, status */
	struct rnic_netq_dbrec *dbrec;
	struct rnic_netq_status *status;
	struct rnic_net_cqe *cqes;
	struct net_ring tx, rx;
	u32 tx_pi;			/* the queue's transmit lock */
	u32 tx_published;
	u32 rx_ci;			/* NAPI */

	struct u64_stats_sync tx_sync, rx_sync;
	u64_stats_t tx_packets, tx_bytes, tx_dropped;
	u64_stats_t rx_packets, rx_bytes, rx_dropped, rx_errors;
};

/* Transmit */

static void *ring_buf(struct net_ring *ring, u32 index, dma_addr_t *dma)
{
	u32 slot = index & (ring->depth - 1);
	struct rnic_mem *chunk = &ring->chunks[slot / ring->bufs_per_chunk];
	u32 offset = slot % ring->bufs_per_chunk * ring->buf_size;

	if (dma)
		*dma = chunk->dma + offset;
	return chunk->va + offset;
}

static u32 tx_outstanding(struct rnic_net *net)
{
	return READ_ONCE(net->tx_pi) -
	       le32_to_cpu(READ_ONCE(net->status->tx_ci));
}

/* Stops the queue until half of the ring is free */
static void stop_queue(struct rnic_net *net)
{
	u32 arm = net->tx_pi - net->tx.depth / 2;

	netif_stop_queue(net->ndev);
	/* Whom the device interrupts finds the queue stopped */
	smp_mb__after_atomic();
	WRITE_ONCE(net->dbrec->tx_arm, cpu_to_le32(arm));
	/* The device sees the arming, or we that it was too late */
	mb();
	if (tx_outstanding(net) < net->tx.depth / 2)
		netif_start_queue(net->ndev);
}

static void wake_queue(struct rnic_net *net)
{
	if (netif_queue_stopped(net->ndev) && READ_ONCE(net->up) &&
	    tx_outstanding(net) < net->tx.depth / 2)
		netif_wake_queue(net->ndev);
}

static void tx_publish(struct rnic_net *net)
{
	u32 old = net->tx_published, new = net->tx_pi, event;

	if (old == new)
		return;
	net->tx_published = new;
	/* The descriptors before the index */
	dma_wmb();
	WRITE_ONCE(net->dbrec->tx_pi, cpu_to_le32(new));
	/* The device sees the index, or we see that it has gone to sleep */
	mb();
	event = le32_to_cpu(READ_ONCE(net->status->tx_event));
	if (new - event - 1 < new - old && !rnic_is_dead(net->rdev))
		rnic_ring_doorbell(net->rdev, &net->rdev->kctx,
				   RNIC_NETQ_QPN);
}

static void count_tx(struct rnic_net *net, u32 length)
{
	u64_stats_update_begin(&net->tx_sync);
	if (length) {
		u64_stats_inc(&net->tx_packets);
		u64_stats_add(&net->tx_bytes, length);
	} else {
		u64_stats_inc(&net->tx_dropped);
	}
	u64_stats_update_end(&net->tx_sync);
}

/* Without the Ethernet header; the device knows none */
static void tx_copy(struct sk_buff *skb, void *buf)
{
	__sum16 *sum;

	skb_copy_and_csum_dev(skb, buf);
	if (skb->ip_summed == CHECKSUM_PARTIAL) {
		/* 0 would mean that there is none */
		sum = buf + skb_checksum_start_offset(skb) + skb->csum_offset;
		if (!*sum)
			*sum = CSUM_MANGLED_0;
	}
}

static bool can_send(const struct rnic_net *net, const struct sk_buff *skb)
{
	/*
	 * What IPv6 sends to groups by itself is nothing to wake the device
	 * for, which has no multicast
	 */
	return skb_headlen(skb) >= ETH_HLEN && skb->len > ETH_HLEN &&
	       !is_multicast_ether_addr(skb->data) &&
	       skb->len - ETH_HLEN <= net->tx.buf_size;
}

netdev_tx_t rnic_net_xmit(struct rnic_net *net, struct sk_buff *skb)
{
	struct rnic_net_desc *desc;
	u32 length;

	/* Not up: the MTU is being changed */
	if (!READ_ONCE(net->up)) {
		count_tx(net, 0);
		dev_kfree_skb_any(skb);
		return NETDEV_TX_OK;
	}
	if (!can_send(net, skb)) {
		count_tx(net, 0);
		dev_kfree_skb_any(skb);
		goto out;
	}
	/* wake_queue() judged by an index that was old by then */
	if (tx_outstanding(net) >= net->tx.depth) {
		stop_queue(net);
		tx_publish(net);
		return NETDEV_TX_BUSY;
	}
	skb_pull(skb, ETH_HLEN);
	length = skb->len;
	tx_copy(skb, ring_buf(&net->tx, net->tx_pi, NULL));
	desc = &net->tx.descs[net->tx_pi & (net->tx.depth - 1)];
	desc->length = cpu_to_le32(length);
	WRITE_ONCE(net->tx_pi, net->tx_pi + 1);
	count_tx(net, length);
	dev_consume_skb_any(skb);

	if (tx_outstanding(net) >= net->tx.depth)
		stop_queue(net);
out:
	/* Also when the last packet of several is dropped */
	if (!netdev_xmit_more() || netif_queue_stopped(net->ndev))
		tx_publish(net);
	return NETDEV_TX_OK;
}

/* Receive */

static struct rnic_net_cqe *next_cqe(struct rnic_net *net)
{
	struct rnic_net_cqe *cqe =
		&net->cqes[net->rx_ci & (net->rx.depth - 1)];

	if ((READ_ONCE(cqe->phase) & 1) == !!(net->rx_ci & net->rx.depth))
		return NULL;
	dma_rmb();
	return cqe;
}

/* The octets behind the head, in pages */
static bool add_rx_pages(struct sk_buff *skb, const void *packet, u32 length,
			 u32 offset, __wsum *csum)
{
	struct page *page;
	__wsum part_csum;
	u32 part;
	int i;

	for (i = 0; offset < length; i++, offset += part) {
		page = dev_alloc_page();
		if (!page)
			return false;
		part = min_t(u32, length - offset, PAGE_SIZE);
		part_csum = csum_partial_copy_nocheck(packet + offset,
						      page_address(page), part);
		*csum = csum_block_add(*csum, part_csum, offset);
		skb_add_rx_frag(skb, i, page, 0, part, PAGE_SIZE);
	}
	return true;
}

static struct sk_buff *rx_copy(struct rnic_net *net, const void *packet,
			       u32 length)
{
	u32 head = length <= NET_LINEAR ? length : NET_HEAD;
	bool is_ipv6 = *(const u8 *)packet >> 4 == 6;
	struct net_device *ndev = net->ndev;
	struct sk_buff *skb;
	struct ethhdr *eth;
	__wsum csum;

	skb = napi_alloc_skb(&net->napi, ETH_HLEN + head);
	if (!skb)
		return NULL;
	/* As the stack itself addresses a neighbour on a device without ARP */
	eth = skb_put(skb, ETH_HLEN);
	ether_addr_copy(eth->h_dest, ndev->dev_addr);
	ether_addr_copy(eth->h_source, ndev->dev_addr);
	eth->h_proto = htons(is_ipv6 ? ETH_P_IPV6 : ETH_P_IP);
	csum = csum_partial_copy_nocheck(packet, skb_put(skb, head), head);
	if (!add_rx_pages(skb, packet, length, head, &csum)) {
		dev_kfree_skb_any(skb);
		return NULL;
	}
	if (ndev->features & NETIF_F_RXCSUM) {
		skb->csum = csum;
		skb->ip_summed = CHECKSUM_COMPLETE;
	}
	skb->protocol = eth_type_trans(skb, ndev);
	return skb;
}

static void receive(struct rnic_net *net, struct rnic_net_cqe *cqe)
{
	u32 length = le32_to_cpu(cqe->length);
	struct sk_buff *skb = NULL;
	bool bad;

	bad = cqe->flags & RNIC_NET_RX_ERROR || !length ||
	      length > net->rx.buf_size;
	if (!bad)
		skb = rx_copy(net, ring_buf(&net->rx, net->rx_ci, NULL),
			      length);

	u64_stats_update_begin(&net->rx_sync);
	if (skb) {
		u64_stats_inc(&net->rx_packets);
		u64_stats_add(&net->rx_bytes, length);
	} else if (bad) {
		u64_stats_inc(&net->rx_errors);
	} else {
		u64_stats_inc(&net->rx_dropped);
	}
	u64_stats_update_end(&net->rx_sync);
	if (skb)
		napi_gro_receive(&net->napi, skb);
}

/* Descriptors do not change: their buffers are the device's again */
static void post_receives(struct rnic_net *net)
{
	/* What was in the buffers was read */
	dma_mb();
	WRITE_ONCE(net->dbrec->rx_pi, cpu_to_le32(net->rx_ci + net->rx.depth));
}

static int receive_all(struct rnic_net *net, int budget)
{
	struct rnic_net_cqe *cqe;
	int done = 0;

	while (done < budget && (cqe = next_cqe(net))) {
		receive(net, cqe);
		net->rx_ci++;
		/* Often enough for the device not to run out of buffers */
		if (!(++done % 16))
			post_receives(net);
	}
	if (done % 16)
		post_receives(net);
	return done;
}

/*
 * All of it while NAPI is ours: after napi_complete_done() another processor
 * may be here, and the rings may be freed. An interrupt between the last look
 * and that makes NAPI poll once more.
 */
static int net_poll(struct napi_struct *napi, int budget)
{
	struct rnic_net *net = container_of(napi, struct rnic_net, napi);
	int done = 0;

	wake_queue(net);
	do {
		done += receive_all(net, budget - done);
		if (done == budget)
			return done;
		WRITE_ONCE(net->dbrec->rx_arm, cpu_to_le32(net->rx_ci));
		/* The device sees the arming, or we see its completion */
		mb();
	} while (next_cqe(net));
	napi_complete_done(napi, done);
	return done;
}

void rnic_net_interrupt(struct rnic_dev *rdev)
{
	struct rnic_net *net = READ_ONCE(rdev->net);

	if (net && READ_ONCE(net->up))
		napi_schedule_irqoff(&net->napi);
}

/* Memory */

static void ring_free(struct rnic_dev *rdev, struct net_ring *ring)
{
	u32 i;

	for (i = 0; i < ring->num_chunks; i++)
		rnic_mem_free(rdev, &ring->chunks[i]);
	kfree(ring->chunks);
	ring->chunks = NULL;
	ring->num_chunks = 0;
}

static int ring_alloc(struct rnic_dev *rdev, struct net_ring *ring, u32 mtu)
{
	u32 i, wanted;
	int ret;

	ring->buf_size = ALIGN(mtu, SMP_CACHE_BYTES);
	ring->depth = clamp_t(u32, NET_RING_MEMORY / ring->buf_size,
			      NET_MIN_DEPTH, NET_MAX_DEPTH);
	ring->depth = rounddown_pow_of_two(ring->depth);
	ring->bufs_per_chunk = max_t(u32, SZ_32K / ring->buf_size, 1);
	wanted = DIV_ROUND_UP(ring->depth, ring->bufs_per_chunk);
	ring->chunks = kcalloc(wanted, sizeof(*ring->chunks), GFP_KERNEL);
	if (!ring->chunks)
		return -ENOMEM;
	for (i = 0; i < wanted; i++) {
		ret = rnic_mem_alloc(rdev, &ring->chunks[i],
				     ring->bufs_per_chunk * ring->buf_size);
		if (ret)
			return ret;
		ring->num_chunks++;
	}
	return 0;
}

static void ring_fill(struct net_ring *ring)
{
	dma_addr_t dma;
	u32 i;

	for (i = 0; i < ring->depth; i++) {
		ring_buf(ring, i, &dma);
		ring->descs[i].addr = cpu_to_le64(dma);
		ring->descs[i].length = cpu_to_le32(ring->buf_size);
	}
}

static void net_free(struct rnic_net *net)
{
	rnic_mem_free(net->rdev, &net->mem);
	ring_free(net->rdev, &net->rx);
	ring_free(net->rdev, &net->tx);
}

/* Memory for packets of this size, and the command that hands it over */
static int net_alloc(struct rnic_net *net, u32 mtu, struct rnic_asqe *cmd)
{
	struct rnic_cmd_create_netq *create = &cmd->create_netq;
	u32 rx, cq, dbrec, status;
	int ret;

	ret = ring_alloc(net->rdev, &net->tx, mtu);
	if (!ret)
		ret = ring_alloc(net->rdev, &net->rx, mtu);
	if (ret)
		goto err_free;

	/* Depths of at least 64 keep all of it aligned to 64 */
	BUILD_BUG_ON(NET_MIN_DEPTH < 64);
	rx = net->tx.depth * sizeof(struct rnic_net_desc);
	cq = rx + net->rx.depth * sizeof(struct rnic_net_desc);
	dbrec = cq + net->rx.depth * sizeof(struct rnic_net_cqe);
	status = dbrec + sizeof(struct rnic_netq_dbrec);
	ret = rnic_mem_alloc(net->rdev, &net->mem,
			     status + sizeof(struct rnic_netq_status));
	if (ret)
		goto err_free;
	net->tx.descs = net->mem.va;
	net->rx.descs = net->mem.va + rx;
	net->cqes = net->mem.va + cq;
	net->dbrec = net->mem.va + dbrec;
	net->status = net->mem.va + status;
	net->tx_pi = 0;
	net->tx_published = 0;
	net->rx_ci = 0;
	ring_fill(&net->tx);
	ring_fill(&net->rx);
	/* rx_arm is 0: the first packet interrupts */
	net->dbrec->rx_pi = cpu_to_le32(net->rx.depth);
	net->dbrec->tx_arm = cpu_to_le32(U32_MAX);

	create->vector = cpu_to_le32(net->rdev->net_vector);
	create->tx_depth = cpu_to_le32(net->tx.depth);
	create->rx_depth = cpu_to_le32(net->rx.depth);
	create->rx_offset = cpu_to_le32(rx);
	create->cq_offset = cpu_to_le32(cq);
	create->dbrec_offset = cpu_to_le32(dbrec);
	create->status_addr = cpu_to_le64(net->mem.dma + status);
	rnic_mem_desc(&net->mem, &create->buf);
	return 0;

err_free:
	net_free(net);
	return ret;
}

/* Up and down; under RTNL */

static int net_start(struct rnic_net *net, u32 mtu)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_CREATE_NETQ };
	int ret;

	ret = net_alloc(net, mtu, &cmd);
	if (ret)
		return ret;
	ret = rnic_cmd(net->rdev, &cmd, NULL);
	if (ret) {
		net_free(net);
		return ret;
	}
	napi_enable(&net->napi);
	WRITE_ONCE(net->up, true);
	/* Packets may have been queued while the MTU was changed */
	netif_wake_queue(net->ndev);
	/* For an interrupt that came before the handler took note of them */
	local_bh_disable();
	napi_schedule(&net->napi);
	local_bh_enable();
	return 0;
}

static void net_stop(struct rnic_net *net)
{
	if (!net->up)
		return;
	WRITE_ONCE(net->up, false);
	/* Nobody transmits after this, and none begins who sees up */
	netif_tx_disable(net->ndev);
	napi_disable(&net->napi);
	rnic_cmd_destroy(net->rdev, RNIC_CMD_DESTROY_NETQ, 0);
	net_free(net);
}

int rnic_net_open(struct rnic_dev *rdev)
{
	return rdev->net ? net_start(rdev->net, rdev->ndev->mtu) : 0;
}

void rnic_net_stop(struct rnic_dev *rdev)
{
	if (rdev->net)
		net_stop(rdev->net);
}

int rnic_net_change_mtu(struct rnic_dev *rdev, int mtu)
{
	struct rnic_net *net = rdev->net;
	int ret = 0;

	if (net && netif_running(rdev->ndev)) {
		net_stop(net);
		ret = net_start(net, mtu);
		if (ret)
			net_start(net, rdev->ndev->mtu);
	}
	if (!ret)
		WRITE_ONCE(rdev->ndev->mtu, mtu);
	return ret;
}

void rnic_net_get_stats64(struct rnic_dev *rdev,
			  struct rtnl_link_stats64 *stats)
{
	struct rnic_net *net = rdev->net;
	unsigned int start;

	if (!net)
		return;
	do {
		start = u64_stats_fetch_begin(&net->tx_sync);
		stats->tx_packets = u64_stats_read(&net->tx_packets);
		stats->tx_bytes = u64_stats_read(&net->tx_bytes);
		stats->tx_dropped = u64_stats_read(&net->tx_dropped);
	} while (u64_stats_fetch_retry(&net->tx_sync, start));
	do {
		start = u64_stats_fetch_begin(&net->rx_sync);
		stats->rx_packets = u64_stats_read(&net->rx_packets);
		stats->rx_bytes = u64_stats_read(&net->rx_bytes);
		stats->rx_dropped = u64_stats_read(&net->rx_dropped);
		stats->rx_errors = u64_stats_read(&net->rx_errors);
	} while (u64_stats_fetch_retry(&net->rx_sync, start));
}

/* Before the net device is registered, and after it was unregistered */

int rnic_net_init(struct rnic_dev *rdev)
{
	struct net_device *ndev = rdev->ndev;
	struct rnic_net *net;

	if (!(rdev->caps & RNIC_CAP_NET))
		return 0;
	net = kzalloc(sizeof(*net), GFP_KERNEL);
	if (!net)
		return -ENOMEM;
	net->rdev = rdev;
	net->ndev = ndev;
	u64_stats_init(&net->tx_sync);
	u64_stats_init(&net->rx_sync);
	netif_napi_add(ndev, &net->napi, net_poll);
	/* rnic_net_xmit() takes the Ethernet header off */
	ndev->priv_flags &= ~IFF_TX_SKB_SHARING;
	/* The checksum is made while copying */
	ndev->hw_features = NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HW_CSUM |
			    NETIF_F_RXCSUM | NETIF_F_HIGHDMA;
	ndev->features |= ndev->hw_features;
	WRITE_ONCE(rdev->net, net);
	return 0;
}

void rnic_net_free(struct rnic_dev *rdev)
{
	struct rnic_net *net = rdev->net;

	if (!net)
		return;
	WRITE_ONCE(rdev->net, NULL);
	synchronize_irq(pci_irq_vector(rdev->pdev, rdev->net_vector));
	netif_napi_del(&net->napi);
	kfree(net);
}
