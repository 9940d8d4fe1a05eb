// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Several packets for the net device at once, the last of which it drops
 *
 * Loading it hands two datagrams, and then a packet to a group, to the driver
 * of `dev`, each but the last with the word that more will come. Where the
 * device says that packets may be shared, as pktgen does it, both datagrams are
 * one packet.
 */
#include <linux/etherdevice.h>
#include <linux/inet.h>
#include <linux/ip.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/net_namespace.h>

#define PAYLOAD "one of two"
#define PAYLOAD_LEN (sizeof(PAYLOAD) - 1)

static char *dev = "rnic0";
module_param(dev, charp, 0444);
MODULE_PARM_DESC(dev, "name of the net device");
static char *from = "10.0.0.1";
module_param(from, charp, 0444);
MODULE_PARM_DESC(from, "its address");
static char *to = "10.0.0.2";
module_param(to, charp, 0444);
MODULE_PARM_DESC(to, "where the datagrams go");
static ushort port = 7999;
module_param(port, ushort, 0444);
MODULE_PARM_DESC(port, "and to which port");

static struct sk_buff *datagram(struct net_device *ndev)
{
	const unsigned int length = sizeof(struct iphdr) +
				    sizeof(struct udphdr) + PAYLOAD_LEN;
	struct sk_buff *skb;
	struct ethhdr *eth;
	struct udphdr *uh;
	struct iphdr *iph;

	skb = alloc_skb(ETH_HLEN + length, GFP_KERNEL);
	if (!skb)
		return NULL;
	skb->dev = ndev;
	skb->protocol = htons(ETH_P_IP);
	skb_reset_mac_header(skb);
	eth = skb_put(skb, ETH_HLEN);
	ether_addr_copy(eth->h_dest, ndev->dev_addr);
	ether_addr_copy(eth->h_source, ndev->dev_addr);
	eth->h_proto = skb->protocol;
	skb_set_network_header(skb, ETH_HLEN);
	iph = skb_put_zero(skb, sizeof(*iph));
	iph->version = 4;
	iph->ihl = sizeof(*iph) / 4;
	iph->tot_len = htons(length);
	iph->ttl = IPDEFTTL;
	iph->protocol = IPPROTO_UDP;
	in4_pton(from, -1, (u8 *)&iph->saddr, -1, NULL);
	in4_pton(to, -1, (u8 *)&iph->daddr, -1, NULL);
	ip_send_check(iph);
	uh = skb_put_zero(skb, sizeof(*uh));
	uh->source = htons(port);
	uh->dest = htons(port);
	uh->len = htons(sizeof(*uh) + PAYLOAD_LEN);
	skb_put_data(skb, PAYLOAD, PAYLOAD_LEN);
	return skb;
}

static void send(struct net_device *ndev, struct sk_buff *first,
		 struct sk_buff *second, struct sk_buff *last)
{
	struct netdev_queue *txq = netdev_get_tx_queue(ndev, 0);
	netdev_tx_t rc;

	local_bh_disable();
	HARD_TX_LOCK(ndev, txq, smp_processor_id());
	rc = netdev_start_xmit(first, ndev, txq, true);
	rc |= netdev_start_xmit(second, ndev, txq, true);
	rc |= netdev_start_xmit(last, ndev, txq, false);
	HARD_TX_UNLOCK(ndev, txq);
	local_bh_enable();
	WARN_ON(rc);
}

static int __init batch_init(void)
{
	struct sk_buff *first, *second, *last;
	struct net_device *ndev;
	int ret = -ENOMEM;

	ndev = dev_get_by_name(&init_net, dev);
	if (!ndev)
		return -ENODEV;
	first = datagram(ndev);
	last = datagram(ndev);
	if (!first || !last)
		goto err;
	eth_broadcast_addr(eth_hdr(last)->h_dest);
	if (ndev->priv_flags & IFF_TX_SKB_SHARING)
		second = skb_get(first);
	else
		second = skb_copy(first, GFP_KERNEL);
	if (!second)
		goto err;
	send(ndev, first, second, last);
	dev_put(ndev);
	return 0;

err:
	kfree_skb(first);
	kfree_skb(last);
	dev_put(ndev);
	return ret;
}

static void __exit batch_exit(void)
{
}

module_init(batch_init);
module_exit(batch_exit);
MODULE_DESCRIPTION("rnic test: packets of one batch");
MODULE_LICENSE("GPL");
