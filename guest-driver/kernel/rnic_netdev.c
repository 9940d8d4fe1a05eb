// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The net device: it gives the port its addresses, state and name space. Its
 * packets are in rnic_net.c.
 */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/inetdevice.h>
#include <net/addrconf.h>
#include <net/if_inet6.h>

#include "rnic.h"

/* Room for IPv6's largest header before the length of 65535 is reached */
#define RNIC_MAX_MTU	65520

struct rnic_netdev_priv {
	struct rnic_dev *rdev;
};

/*
 * An address as the notifiers see it. They may not sleep, so addr_work tells
 * the device. All under addr_lock.
 */
struct rnic_addr {
	struct list_head list;		/* in the order of the notifications */
	struct rnic_cmd_addr addr;
	bool present;			/* the net device has it */
	bool added;			/* ADDR_ADD succeeded */
	bool tried;			/* ADDR_ADD was sent */
	int told;			/* the failure that was reported */
};

/* How often to look whether an address that another device has became free */
#define ADDR_RETRY	(3 * HZ)

static int set_link(struct rnic_dev *rdev, bool up)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_SET_LINK };

	cmd.set_link.up = cpu_to_le32(up);
	return rnic_cmd(rdev, &cmd, NULL);
}

static struct rnic_dev *netdev_to_rnic(struct net_device *ndev)
{
	struct rnic_netdev_priv *priv = netdev_priv(ndev);

	return priv->rdev;
}

static int rnic_ndo_open(struct net_device *ndev)
{
	struct rnic_dev *rdev = netdev_to_rnic(ndev);
	int ret = set_link(rdev, true);

	if (ret)
		return ret;
	ret = rnic_net_open(rdev);
	if (ret) {
		set_link(rdev, false);
		return ret;
	}
	netif_carrier_on(ndev);
	return 0;
}

static int rnic_ndo_stop(struct net_device *ndev)
{
	struct rnic_dev *rdev = netdev_to_rnic(ndev);

	netif_carrier_off(ndev);
	rnic_net_stop(rdev);
	/* A dead device has no link either */
	set_link(rdev, false);
	return 0;
}

static netdev_tx_t rnic_ndo_start_xmit(struct sk_buff *skb,
				       struct net_device *ndev)
{
	struct rnic_net *net = netdev_to_rnic(ndev)->net;

	if (net)
		return rnic_net_xmit(net, skb);
	dev_core_stats_tx_dropped_inc(ndev);
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

static int rnic_ndo_change_mtu(struct net_device *ndev, int mtu)
{
	return rnic_net_change_mtu(netdev_to_rnic(ndev), mtu);
}

static void rnic_ndo_get_stats64(struct net_device *ndev,
				 struct rtnl_link_stats64 *stats)
{
	rnic_net_get_stats64(netdev_to_rnic(ndev), stats);
}

/* No ndo_set_mac_address: the GID is made of the address */
static const struct net_device_ops rnic_netdev_ops = {
	.ndo_open = rnic_ndo_open,
	.ndo_stop = rnic_ndo_stop,
	.ndo_start_xmit = rnic_ndo_start_xmit,
	.ndo_change_mtu = rnic_ndo_change_mtu,
	.ndo_get_stats64 = rnic_ndo_get_stats64,
	.ndo_validate_addr = eth_validate_addr,
};

static void rnic_get_drvinfo(struct net_device *ndev,
			     struct ethtool_drvinfo *info)
{
	struct rnic_dev *rdev = netdev_to_rnic(ndev);

	strscpy(info->driver, KBUILD_MODNAME, sizeof(info->driver));
	strscpy(info->bus_info, pci_name(rdev->pdev), sizeof(info->bus_info));
}

/* The link is as fast as the host; a number is asked for, so here is one */
static int rnic_get_link_ksettings(struct net_device *ndev,
				   struct ethtool_link_ksettings *settings)
{
	settings->base.speed = SPEED_10000;
	settings->base.duplex = DUPLEX_FULL;
	settings->base.port = PORT_OTHER;
	settings->base.autoneg = AUTONEG_DISABLE;
	return 0;
}

static const struct ethtool_ops rnic_ethtool_ops = {
	.get_drvinfo = rnic_get_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = rnic_get_link_ksettings,
};

static int addr_cmd(struct rnic_dev *rdev, u8 opcode,
		    const struct rnic_cmd_addr *addr)
{
	struct rnic_asqe cmd = { .opcode = opcode };

	cmd.addr = *addr;
	return rnic_cmd(rdev, &cmd, NULL);
}

static void addr_tell(struct rnic_dev *rdev, const struct rnic_cmd_addr *addr,
		      int error)
{
	char name[48];

	rnic_sockaddr_name(&addr->addr, name, sizeof(name));
	switch (error) {
	case 0:
		/* It had failed before */
		dev_info(&rdev->pdev->dev, "%s is free now: RDMA with it works\n",
			 name);
		break;
	case -EIO:
		/* The death of the device was reported */
		break;
	case -EBUSY:
		dev_err(&rdev->pdev->dev,
			"in this fabric %s is the same as another address of this device: no RDMA with it\n",
			name);
		break;
	case -EADDRINUSE:
		dev_err(&rdev->pdev->dev,
			"%s is already in use in this fabric: no RDMA with it\n",
			name);
		break;
	case -EACCES:
		dev_err(&rdev->pdev->dev,
			"the host does not allow %s: no RDMA with it\n", name);
		break;
	default:
		dev_err(&rdev->pdev->dev,
			"the device does not take %s: no RDMA with it: %d\n",
			name, error);
		break;
	}
}

static bool addr_may_become_free(int error)
{
	return error == -EADDRINUSE || error == -EBUSY;
}

/* Brings the device up to date, in the order in which things happened */
static void addr_work(struct work_struct *work)
{
	struct rnic_dev *rdev = container_of(work, struct rnic_dev, addr_work);
	struct rnic_addr *entry, *todo;
	struct rnic_cmd_addr addr;
	bool removed, was_added;
	int ret;

	for (;;) {
		todo = NULL;
		spin_lock_bh(&rdev->addr_lock);
		list_for_each_entry(entry, &rdev->addrs, list) {
			if (!entry->present || !entry->tried) {
				todo = entry;
				break;
			}
		}
		if (!todo) {
			spin_unlock_bh(&rdev->addr_lock);
			return;
		}
		addr = todo->addr;
		removed = !todo->present;
		was_added = todo->added;
		todo->tried = true;
		if (removed)
			list_del(&todo->list);
		spin_unlock_bh(&rdev->addr_lock);

		/* Only this work frees entries, so todo stays */
		if (removed) {
			if (was_added)
				addr_cmd(rdev, RNIC_CMD_ADDR_DEL, &addr);
			kfree(todo);
			continue;
		}
		ret = addr_cmd(rdev, RNIC_CMD_ADDR_ADD, &addr);
		if (ret != todo->told)
			addr_tell(rdev, &addr, ret);
		spin_lock_bh(&rdev->addr_lock);
		todo->told = ret;
		todo->added = !ret;
		spin_unlock_bh(&rdev->addr_lock);
		if (addr_may_become_free(ret))
			queue_delayed_work(rdev->wq, &rdev->addr_retry,
					   ADDR_RETRY);
	}
}

void rnic_addrs_flush(struct rnic_dev *rdev)
{
	flush_work(&rdev->addr_work);
}

/* The device cannot know when another one gives an address up */
static void addr_retry(struct work_struct *work)
{
	struct rnic_dev *rdev = container_of(to_delayed_work(work),
					     struct rnic_dev, addr_retry);
	struct rnic_addr *entry;

	spin_lock_bh(&rdev->addr_lock);
	list_for_each_entry(entry, &rdev->addrs, list)
		if (addr_may_become_free(entry->told))
			entry->tried = false;
	spin_unlock_bh(&rdev->addr_lock);
	queue_work(rdev->wq, &rdev->addr_work);
}

/* May not sleep. An address may come twice, but goes only once. */
static void addr_changed(struct rnic_dev *rdev, bool up, u16 family,
			 const void *octets, size_t len, u8 prefix_len,
			 u32 scope_id)
{
	struct rnic_addr *entry, *found = NULL;
	struct rnic_cmd_addr addr = {};

	addr.addr.family = cpu_to_le16(family);
	addr.addr.scope_id = cpu_to_le32(scope_id);
	memcpy(addr.addr.addr, octets, len);
	addr.prefix_len = prefix_len;

	spin_lock_bh(&rdev->addr_lock);
	/* One that was removed is on its way out: a new one follows it */
	list_for_each_entry(entry, &rdev->addrs, list) {
		if (entry->present && !memcmp(&entry->addr.addr, &addr.addr,
					      sizeof(addr.addr))) {
			found = entry;
			break;
		}
	}
	if (found) {
		found->present = up;
	} else if (up) {
		found = kzalloc(sizeof(*found), GFP_ATOMIC);
		if (found) {
			found->addr = addr;
			found->present = true;
			list_add_tail(&found->list, &rdev->addrs);
		} else {
			dev_err(&rdev->pdev->dev,
				"no memory to tell the device an address\n");
		}
	}
	spin_unlock_bh(&rdev->addr_lock);
	queue_work(rdev->wq, &rdev->addr_work);
}

/* The address is there with another prefix length, too */
static bool has_other(struct in_ifaddr *ifa)
{
	struct in_ifaddr *other;
	bool found = false;

	rcu_read_lock();
	in_dev_for_each_ifa_rcu(other, ifa->ifa_dev) {
		if (other != ifa && other->ifa_local == ifa->ifa_local) {
			found = true;
			break;
		}
	}
	rcu_read_unlock();
	return found;
}

/* Secondary addresses that become primary come once more */
static int inet_event(struct notifier_block *nb, unsigned long event,
		      void *data)
{
	struct rnic_dev *rdev = container_of(nb, struct rnic_dev, inet_nb);
	struct in_ifaddr *ifa = data;

	if (ifa->ifa_dev->dev == rdev->ndev &&
	    (event == NETDEV_UP || (event == NETDEV_DOWN && !has_other(ifa))))
		addr_changed(rdev, event == NETDEV_UP, RNIC_AF_INET,
			     &ifa->ifa_local, sizeof(ifa->ifa_local),
			     ifa->ifa_prefixlen, 0);
	return NOTIFY_DONE;
}

#if IS_ENABLED(CONFIG_IPV6)
static int inet6_event(struct notifier_block *nb, unsigned long event,
		       void *data)
{
	struct rnic_dev *rdev = container_of(nb, struct rnic_dev, inet6_nb);
	struct inet6_ifaddr *ifa = data;
	u32 scope_id = 0;

	if (ifa->idev->dev == rdev->ndev &&
	    (event == NETDEV_UP || event == NETDEV_DOWN)) {
		if (ipv6_addr_type(&ifa->addr) & IPV6_ADDR_LINKLOCAL)
			scope_id = rdev->ndev->ifindex;
		addr_changed(rdev, event == NETDEV_UP, RNIC_AF_INET6,
			     &ifa->addr, sizeof(ifa->addr), ifa->prefix_len,
			     scope_id);
	}
	return NOTIFY_DONE;
}
#endif

/*
 * The notifiers are registered before the net device, which has no address
 * until then; so they see all of them.
 */
static int notifiers_register(struct rnic_dev *rdev)
{
	int ret;

	rdev->inet_nb.notifier_call = inet_event;
	ret = register_inetaddr_notifier(&rdev->inet_nb);
	if (ret)
		return ret;
#if IS_ENABLED(CONFIG_IPV6)
	rdev->inet6_nb.notifier_call = inet6_event;
	ret = register_inet6addr_notifier(&rdev->inet6_nb);
	if (ret)
		unregister_inetaddr_notifier(&rdev->inet_nb);
#endif
	return ret;
}

static void notifiers_unregister(struct rnic_dev *rdev)
{
#if IS_ENABLED(CONFIG_IPV6)
	unregister_inet6addr_notifier(&rdev->inet6_nb);
#endif
	unregister_inetaddr_notifier(&rdev->inet_nb);
}

static void addrs_free(struct rnic_dev *rdev)
{
	struct rnic_addr *entry, *next;

	/* Each of the two may queue the other one */
	cancel_delayed_work_sync(&rdev->addr_retry);
	cancel_work_sync(&rdev->addr_work);
	cancel_delayed_work_sync(&rdev->addr_retry);
	list_for_each_entry_safe(entry, next, &rdev->addrs, list)
		kfree(entry);
}

static void read_mac(struct rnic_dev *rdev, u8 *mac)
{
	u32 lo = rnic_read(rdev, RNIC_REG_MAC_LO);
	u32 hi = rnic_read(rdev, RNIC_REG_MAC_HI);
	int i;

	for (i = 0; i < 4; i++)
		mac[i] = lo >> (8 * i);
	mac[4] = hi;
	mac[5] = hi >> 8;
}

int rnic_netdev_register(struct rnic_dev *rdev)
{
	struct rnic_netdev_priv *priv;
	struct net_device *ndev;
	u8 mac[ETH_ALEN];
	int ret;

	INIT_WORK(&rdev->addr_work, addr_work);
	INIT_DELAYED_WORK(&rdev->addr_retry, addr_retry);
	spin_lock_init(&rdev->addr_lock);
	INIT_LIST_HEAD(&rdev->addrs);

	read_mac(rdev, mac);
	if (!is_valid_ether_addr(mac)) {
		dev_err(&rdev->pdev->dev, "the device's MAC %pM is invalid\n",
			mac);
		return -EINVAL;
	}

	ndev = alloc_etherdev(sizeof(*priv));
	if (!ndev)
		return -ENOMEM;
	priv = netdev_priv(ndev);
	priv->rdev = rdev;
	rdev->ndev = ndev;
	SET_NETDEV_DEV(ndev, &rdev->pdev->dev);
	ndev->netdev_ops = &rnic_netdev_ops;
	ndev->ethtool_ops = &rnic_ethtool_ops;
	/* The device terminates TCP: there are no neighbours to resolve */
	ndev->flags |= IFF_NOARP;
	ndev->min_mtu = ETH_MIN_MTU;
	ndev->max_mtu = RNIC_MAX_MTU;
	eth_hw_addr_set(ndev, mac);
	ether_addr_copy(ndev->perm_addr, mac);
	netif_carrier_off(ndev);

	ret = rnic_net_init(rdev);
	if (ret)
		goto err_free;
	ret = notifiers_register(rdev);
	if (ret)
		goto err_net;
	ret = register_netdev(ndev);
	if (ret) {
		dev_err(&rdev->pdev->dev, "cannot register net device: %d\n",
			ret);
		goto err_notifiers;
	}
	return 0;

err_notifiers:
	notifiers_unregister(rdev);
	addrs_free(rdev);
err_net:
	rnic_net_free(rdev);
err_free:
	free_netdev(ndev);
	return ret;
}

void rnic_netdev_unregister(struct rnic_dev *rdev)
{
	/* Takes the link down and removes the addresses */
	unregister_netdev(rdev->ndev);
	notifiers_unregister(rdev);
	rnic_addrs_flush(rdev);
	addrs_free(rdev);
	rnic_net_free(rdev);
	free_netdev(rdev->ndev);
}

static void port_event(struct rnic_dev *rdev, enum ib_event_type type)
{
	struct ib_event event = {
		.device = &rdev->ibdev,
		.event = type,
		.element.port_num = 1,
	};

	rnic_dispatch_port_event(&event);
}

static int netdev_event(struct notifier_block *nb, unsigned long event,
			void *data)
{
	struct rnic_dev *rdev = container_of(nb, struct rnic_dev, netdev_nb);
	struct net_device *ndev = netdev_notifier_info_to_dev(data);

	if (ndev != rdev->ndev)
		return NOTIFY_DONE;
	switch (event) {
	case NETDEV_UP:
		port_event(rdev, IB_EVENT_PORT_ACTIVE);
		break;
	case NETDEV_DOWN:
		port_event(rdev, IB_EVENT_PORT_ERR);
		break;
	case NETDEV_CHANGENAME:
		strscpy(rdev->ibdev.iw_ifname, ndev->name,
			sizeof(rdev->ibdev.iw_ifname));
		break;
	}
	return NOTIFY_DONE;
}

int rnic_port_watch(struct rnic_dev *rdev)
{
	rdev->netdev_nb.notifier_call = netdev_event;
	return register_netdevice_notifier(&rdev->netdev_nb);
}

void rnic_port_unwatch(struct rnic_dev *rdev)
{
	unregister_netdevice_notifier(&rdev->netdev_nb);
}
