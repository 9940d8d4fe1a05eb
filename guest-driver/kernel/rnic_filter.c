// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The guest's packet filter is asked about each connection
 *
 * The host's TCP carries the connection, so no packet of it is seen here. What
 * a packet filter decides a connection by is its SYN; one is made here and
 * goes through the hooks of netfilter that the guest's own TCP would send it
 * through, and no further.
 */
#include <linux/etherdevice.h>
#include <linux/file.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/tcp.h>
#include <net/addrconf.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ip6_route.h>
#include <net/route.h>
#include <net/tcp.h>
#if IS_ENABLED(CONFIG_NF_CONNTRACK)
#include <net/netfilter/nf_conntrack.h>
#endif

#include "rnic.h"

static bool netfilter = true;
module_param(netfilter, bool, 0644);
MODULE_PARM_DESC(netfilter,
		 "ask the packet filter (netfilter) about each connection that is set up or accepted");

struct syn {
	struct net_device *ndev;
	struct net *net;
	struct sock *sk;	/* whose it is, if it goes out */
	struct sk_buff *skb;	/* NULL: somebody took it */
	struct nf_conn *ct;	/* conntrack's entry that it made */
	bool v6;
	union nf_inet_addr saddr, daddr;
	__be16 sport, dport;
	const char *refused;	/* why, if it is not for want of resources */
};

static int syn_init(struct syn *syn, struct rnic_dev *rdev,
		    const struct rnic_sockaddr *from,
		    const struct rnic_sockaddr *to)
{
	*syn = (struct syn) {
		.ndev = rdev->ndev,
		.v6 = le16_to_cpu(to->family) == RNIC_AF_INET6,
		.sport = from->port,
		.dport = to->port,
	};
	memcpy(&syn->saddr, from->addr, sizeof(syn->saddr));
	memcpy(&syn->daddr, to->addr, sizeof(syn->daddr));
	if (syn->v6 && ipv6_addr_v4mapped(&syn->daddr.in6)) {
		syn->v6 = false;
		syn->saddr.ip = syn->saddr.ip6[3];
		syn->daddr.ip = syn->daddr.ip6[3];
	}
	/* The net device may be moving to another name space */
	rcu_read_lock();
	syn->net = maybe_get_net(dev_net(syn->ndev));
	rcu_read_unlock();
	return syn->net ? 0 : -ENETDOWN;
}

static struct tcphdr *syn_tcp(const struct syn *syn)
{
	if (syn->v6)
		return (struct tcphdr *)(ipv6_hdr(syn->skb) + 1);
	return (void *)ip_hdr(syn->skb) + ip_hdrlen(syn->skb);
}

/* On error syn->skb is NULL */
static int syn_build(struct syn *syn, bool incoming)
{
	const unsigned int ip_len = syn->v6 ? sizeof(struct ipv6hdr) :
					      sizeof(struct iphdr);
	const unsigned int tcp_len = sizeof(struct tcphdr) + TCPOLEN_MSS;
	struct sk_buff *skb;
	struct tcphdr *th;
	struct ethhdr *eth;
	__wsum csum;

	skb = alloc_skb(LL_MAX_HEADER + ip_len + tcp_len, GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	syn->skb = skb;
	skb_reserve(skb, LL_MAX_HEADER);
	if (incoming) {
		/* As rnic_net.c makes it */
		skb_reset_mac_header(skb);
		eth = skb_put(skb, ETH_HLEN);
		ether_addr_copy(eth->h_dest, syn->ndev->dev_addr);
		ether_addr_copy(eth->h_source, syn->ndev->dev_addr);
		eth->h_proto = htons(syn->v6 ? ETH_P_IPV6 : ETH_P_IP);
		skb_pull(skb, ETH_HLEN);
		skb->ip_summed = CHECKSUM_UNNECESSARY;
	}
	skb->protocol = htons(syn->v6 ? ETH_P_IPV6 : ETH_P_IP);
	skb_reset_network_header(skb);
	skb_put_zero(skb, ip_len);
	skb_set_transport_header(skb, ip_len);
	th = skb_put_zero(skb, tcp_len);

	th->source = syn->sport;
	th->dest = syn->dport;
	th->seq = (__force __be32)get_random_u32();
	th->doff = tcp_len / 4;
	th->syn = 1;
	th->window = htons(U16_MAX);
	*(__be32 *)(th + 1) = htonl(TCPOPT_MSS << 24 | TCPOLEN_MSS << 16 |
				    (syn->ndev->mtu - ip_len - sizeof(*th)));
	csum = csum_partial(th, tcp_len, 0);
	if (syn->v6) {
		struct ipv6hdr *ip6h = ipv6_hdr(skb);

		ip6_flow_hdr(ip6h, 0, 0);
		ip6h->payload_len = htons(tcp_len);
		ip6h->nexthdr = IPPROTO_TCP;
		ip6h->hop_limit = IPDEFTTL;
		ip6h->saddr = syn->saddr.in6;
		ip6h->daddr = syn->daddr.in6;
		th->check = csum_ipv6_magic(&ip6h->saddr, &ip6h->daddr, tcp_len,
					    IPPROTO_TCP, csum);
		IP6CB(skb)->nhoff = offsetof(struct ipv6hdr, nexthdr);
	} else {
		struct iphdr *iph = ip_hdr(skb);

		iph->version = 4;
		iph->ihl = ip_len / 4;
		iph->tot_len = htons(skb->len);
		iph->frag_off = htons(IP_DF);
		iph->ttl = IPDEFTTL;
		iph->protocol = IPPROTO_TCP;
		iph->saddr = syn->saddr.ip;
		iph->daddr = syn->daddr.ip;
		ip_send_check(iph);
		th->check = csum_tcpudp_magic(iph->saddr, iph->daddr, tcp_len,
					      IPPROTO_TCP, csum);
	}
	return 0;
}

/* The addresses are still those of the connection */
static bool syn_unchanged(const struct syn *syn)
{
	const struct tcphdr *th = syn_tcp(syn);

	if (th->source != syn->sport || th->dest != syn->dport)
		return false;
	if (syn->v6)
		return ipv6_addr_equal(&ipv6_hdr(syn->skb)->saddr,
				       &syn->saddr.in6) &&
		       ipv6_addr_equal(&ipv6_hdr(syn->skb)->daddr,
				       &syn->daddr.in6);
	return ip_hdr(syn->skb)->saddr == syn->saddr.ip &&
	       ip_hdr(syn->skb)->daddr == syn->daddr.ip;
}

/*
 * What the rules at @hooknum say. Who queues or keeps the SYN does not let it
 * through. One that user space lets through later ends in dst_discard_out(),
 * which is not of this module: the module may be gone by then.
 */
static int syn_hook(struct syn *syn, unsigned int hooknum,
		    struct net_device *in, struct net_device *out)
{
	int ret;

	ret = nf_hook(syn->v6 ? NFPROTO_IPV6 : NFPROTO_IPV4, hooknum, syn->net,
		      syn->sk, syn->skb, in, out, dst_discard_out);
	if (ret != 1) {
		syn->skb = NULL;
		syn->refused = ret ? "refused by the packet filter" :
				     "the packet filter keeps its SYN";
		return ret ?: -EPERM;
	}
	/* The host's TCP knows nothing of a translation of addresses */
	if (syn_unchanged(syn))
		return 0;
	syn->refused = "the packet filter would translate its addresses";
	return -EOPNOTSUPP;
}

#if IS_ENABLED(CONFIG_NF_CONNTRACK)
/*
 * Connection tracking sees the SYN, so that rules on the state of a connection
 * find it new; but it will see no other packet of the connection. So the entry
 * that the SYN made ends when the rules were asked; one that was there before
 * is of somebody else. Before the last hook it is in no table yet.
 */
static void conntrack_made(struct syn *syn)
{
	enum ip_conntrack_info info;
	struct nf_conn *ct = nf_ct_get(syn->skb, &info);

	if (ct && !nf_ct_is_template(ct) && !nf_ct_is_confirmed(ct))
		syn->ct = ct;
}

static void conntrack_end(struct syn *syn)
{
	enum ip_conntrack_info info;
	struct nf_conn *ct = nf_ct_get(syn->skb, &info);

	/* Expired: whoever meets it next removes it, or the collector does */
	if (ct && ct == syn->ct && nf_ct_is_confirmed(ct))
		WRITE_ONCE(ct->timeout, nfct_time_stamp);
}
#else
static void conntrack_made(struct syn *syn) {}
static void conntrack_end(struct syn *syn) {}
#endif

static struct dst_entry *route_out4(struct syn *syn)
{
	struct flowi4 fl4;
	struct rtable *rt;
	int oif = 0;

	do {
		rt = ip_route_output_ports(syn->net, &fl4, syn->sk,
					   syn->daddr.ip, syn->saddr.ip,
					   syn->dport, syn->sport, IPPROTO_TCP,
					   0, oif);
		if (IS_ERR(rt))
			return ERR_CAST(rt);
		if (oif || rt->dst.dev == syn->ndev ||
		    rt->rt_flags & RTCF_LOCAL)
			break;
		/* It leaves by this device whatever the first route says */
		oif = syn->ndev->ifindex;
		ip_rt_put(rt);
	} while (1);
	syn->saddr.ip = fl4.saddr;
	return &rt->dst;
}

#if IS_ENABLED(CONFIG_IPV6)
static bool is_own6(const struct syn *syn, const struct in6_addr *addr)
{
	/* A link-local address is one of this link */
	bool link = ipv6_addr_type(addr) & IPV6_ADDR_LINKLOCAL;

	return ipv6_addr_loopback(addr) ||
	       ipv6_chk_addr(syn->net, addr, link ? syn->ndev : NULL, link);
}

static struct dst_entry *route_out6(struct syn *syn)
{
	bool own = is_own6(syn, &syn->daddr.in6);
	struct dst_entry *dst;
	struct flowi6 fl6;
	int ret, oif = 0;

	if (ipv6_addr_type(&syn->daddr.in6) & IPV6_ADDR_LINKLOCAL)
		oif = syn->ndev->ifindex;
	do {
		fl6 = (struct flowi6) {
			.flowi6_proto = IPPROTO_TCP,
			.flowi6_oif = oif,
			.flowi6_uid = current_fsuid(),
			.daddr = syn->daddr.in6,
			.saddr = syn->saddr.in6,
			.fl6_dport = syn->dport,
			.fl6_sport = syn->sport,
		};
		dst = ip6_route_output(syn->net, syn->sk, &fl6);
		ret = dst->error;
		if (ret) {
			dst_release(dst);
			return ERR_PTR(ret);
		}
		if (oif || own || dst->dev == syn->ndev)
			return dst;
		oif = syn->ndev->ifindex;
		dst_release(dst);
	} while (1);
}

/* A SYN from outside; the answer is in syn->skb */
static int route_in6(struct syn *syn)
{
	struct flowi6 fl6 = {
		.flowi6_proto = IPPROTO_TCP,
		.flowi6_iif = syn->ndev->ifindex,
		.flowi6_mark = syn->skb->mark,
		.daddr = syn->daddr.in6,
		.saddr = syn->saddr.in6,
		.fl6_dport = syn->dport,
		.fl6_sport = syn->sport,
	};
	struct dst_entry *dst;
	struct rt6_info *rt;

	dst = ip6_route_input_lookup(syn->net, syn->ndev, &fl6, syn->skb,
				     RT6_LOOKUP_F_HAS_SADDR);
	skb_dst_set(syn->skb, dst);
	if (dst->error)
		return dst->error;
	rt = container_of(dst, struct rt6_info, dst);
	return rt->rt6i_flags & RTF_LOCAL ? 0 : -EHOSTUNREACH;
}
#else
static bool is_own6(const struct syn *syn, const struct in6_addr *addr)
{
	return false;
}

static struct dst_entry *route_out6(struct syn *syn)
{
	return ERR_PTR(-EAFNOSUPPORT);
}

static int route_in6(struct syn *syn)
{
	return -EAFNOSUPPORT;
}
#endif

static int route_in4(struct syn *syn)
{
	if (ip_route_input_noref(syn->skb, syn->daddr.ip, syn->saddr.ip, 0,
				 syn->ndev))
		return -EHOSTUNREACH;
	return skb_rtable(syn->skb)->rt_type == RTN_LOCAL ? 0 : -EHOSTUNREACH;
}

static bool from_self(const struct syn *syn)
{
	if (syn->v6)
		return is_own6(syn, &syn->saddr.in6);
	return inet_addr_type(syn->net, syn->saddr.ip) == RTN_LOCAL;
}

static struct dst_entry *route_out(struct syn *syn)
{
	return syn->v6 ? route_out6(syn) : route_out4(syn);
}

static int route_in(struct syn *syn)
{
	int ret;

	/* One from this host brings its route along */
	if (skb_dst(syn->skb))
		return 0;
	ret = syn->v6 ? route_in6(syn) : route_in4(syn);
	if (ret)
		syn->refused = "the routing tables do not let it in";
	return ret;
}

/*
 * Packets that this processor has sent to its own host. With soft interrupts
 * off nobody else does so between two readings.
 */
static u64 answers(struct net *net)
{
	struct pcpu_lstats *stats = this_cpu_ptr(net->loopback_dev->lstats);

	return u64_stats_read(&stats->packets);
}

static int ask_out(struct syn *syn)
{
	struct dst_entry *dst;
	u64 before;
	int ret;

	dst = route_out(syn);
	if (IS_ERR(dst)) {
		syn->refused = "the routing tables do not let it out";
		return PTR_ERR(dst);
	}
	ret = syn_build(syn, false);
	if (ret) {
		dst_release(dst);
		return ret;
	}
	skb_dst_set(syn->skb, dst);
	skb_set_owner_w(syn->skb, syn->sk);

	local_bh_disable();
	before = answers(syn->net);
	ret = syn_hook(syn, NF_INET_LOCAL_OUT, NULL, dst->dev);
	if (!ret) {
		conntrack_made(syn);
		/* A rule may have changed the route */
		syn->skb->dev = skb_dst(syn->skb)->dev;
		ret = syn_hook(syn, NF_INET_POST_ROUTING, NULL, syn->skb->dev);
	}
	/* Also if its addresses would be translated */
	if (syn->skb)
		conntrack_end(syn);
	/* A rule that rejects answers the sender, which is this host */
	if (ret == -EPERM && answers(syn->net) != before)
		ret = -ECONNREFUSED;
	local_bh_enable();
	return ret;
}

static int ask_in(struct syn *syn)
{
	struct net_device *in = syn->ndev;
	struct dst_entry *dst = NULL;
	int ret;

	if (from_self(syn)) {
		dst = route_out(syn);
		if (IS_ERR(dst)) {
			syn->refused = "the routing tables do not let it in";
			return PTR_ERR(dst);
		}
		in = dst->dev;
	}
	ret = syn_build(syn, true);
	if (ret) {
		dst_release(dst);
		return ret;
	}
	skb_dst_set(syn->skb, dst);
	syn->skb->dev = in;
	syn->skb->skb_iif = in->ifindex;
	if (syn->v6)
		IP6CB(syn->skb)->iif = in->ifindex;
	else
		IPCB(syn->skb)->iif = in->ifindex;

	/* As in the soft interrupt that receives packets */
	local_bh_disable();
	rcu_read_lock();
	ret = syn_hook(syn, NF_INET_PRE_ROUTING, in, NULL);
	if (!ret)
		ret = route_in(syn);
	if (!ret) {
		conntrack_made(syn);
		ret = syn_hook(syn, NF_INET_LOCAL_IN, in, NULL);
	}
	/* Also if its addresses would be translated */
	if (syn->skb)
		conntrack_end(syn);
	rcu_read_unlock();
	local_bh_enable();
	return ret;
}

/*
 * A rule may ask who sends: the user, the group, the control group. That is
 * read from the file of a socket, so there is one.
 */
static struct file *owner_open(struct syn *syn)
{
	struct socket *sock;
	struct file *file;
	int ret;

	ret = __sock_create(syn->net, syn->v6 ? AF_INET6 : AF_INET,
			    SOCK_STREAM, IPPROTO_TCP, &sock, 0);
	if (ret)
		return ERR_PTR(ret);
	file = sock_alloc_file(sock, 0, NULL);
	if (!IS_ERR(file))
		syn->sk = sock->sk;
	return file;
}

static void tell_refused(struct rnic_dev *rdev, const char *which,
			 const struct rnic_sockaddr *from,
			 const struct rnic_sockaddr *to, const char *why)
{
	char from_name[48], to_name[48];

	rnic_sockaddr_name(from, from_name, sizeof(from_name));
	rnic_sockaddr_name(to, to_name, sizeof(to_name));
	dev_info_ratelimited(&rdev->pdev->dev,
			     "%s connection from %s port %u to %s port %u: %s\n",
			     which, from_name, be16_to_cpu(from->port), to_name,
			     be16_to_cpu(to->port), why);
}

static void syn_free(struct syn *syn)
{
	consume_skb(syn->skb);
	put_net(syn->net);
}

int rnic_filter_connect(struct rnic_dev *rdev,
			const struct rnic_sockaddr *local,
			const struct rnic_sockaddr *remote)
{
	struct file *file;
	struct syn syn;
	int ret;

	if (!READ_ONCE(netfilter))
		return 0;
	ret = syn_init(&syn, rdev, local, remote);
	if (ret)
		return ret;
	file = owner_open(&syn);
	if (IS_ERR(file)) {
		ret = PTR_ERR(file);
	} else {
		ret = ask_out(&syn);
		fput(file);
	}
	syn_free(&syn);
	if (syn.refused) {
		atomic64_inc(&rdev->refused_out);
		tell_refused(rdev, "outgoing", local, remote, syn.refused);
	}
	return ret;
}

int rnic_filter_request(struct rnic_dev *rdev,
			const struct rnic_sockaddr *local,
			const struct rnic_sockaddr *remote)
{
	struct syn syn;
	int ret;

	if (!READ_ONCE(netfilter))
		return 0;
	ret = syn_init(&syn, rdev, remote, local);
	if (ret)
		return ret;
	ret = ask_in(&syn);
	syn_free(&syn);
	if (syn.refused) {
		atomic64_inc(&rdev->refused_in);
		tell_refused(rdev, "incoming", remote, local, syn.refused);
	}
	return ret;
}
