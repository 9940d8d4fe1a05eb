/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Differences between kernel versions; Kbuild probes the headers for them
 */
#ifndef RNIC_COMPAT_H
#define RNIC_COMPAT_H

#include <linux/mm.h>
#include <linux/netdevice.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>
#ifdef RNIC_HAVE_ITER_H
#include <rdma/iter.h>
#endif

#ifdef RNIC_HAVE_UMEM_GET_VA
#define rnic_umem_get ib_umem_get_va
#else
#define rnic_umem_get ib_umem_get
#endif

#ifndef RNIC_HAVE_VM_FLAGS_CLEAR
static inline void vm_flags_clear(struct vm_area_struct *vma,
				  unsigned long flags)
{
	vma->vm_flags &= ~flags;
}
#endif

/* The last argument of create_cq */
#ifdef RNIC_HAVE_CREATE_CQ_ATTRS
#define rnic_cq_attrs uverbs_attr_bundle

static inline struct ib_udata *rnic_cq_udata(struct rnic_cq_attrs *attrs)
{
	return attrs ? &attrs->driver_udata : NULL;
}
#else
#define rnic_cq_attrs ib_udata

static inline struct ib_udata *rnic_cq_udata(struct rnic_cq_attrs *attrs)
{
	return attrs;
}
#endif

#ifdef RNIC_HAVE_CURR_PORT_STATE
#define rnic_netdev_port_state ib_get_curr_port_state
#else
static inline enum ib_port_state rnic_netdev_port_state(struct net_device *ndev)
{
	return netif_running(ndev) && netif_carrier_ok(ndev) ?
	       IB_PORT_ACTIVE : IB_PORT_DOWN;
}
#endif

/* Newer kernels raise these events for every device with a net device */
static inline void rnic_dispatch_port_event(struct ib_event *event)
{
#ifndef RNIC_HAVE_CORE_PORT_EVENTS
	ib_dispatch_event(event);
#endif
}

struct ib_mr *rnic_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
			       u64 virt_addr, int access,
			       struct ib_udata *udata);

#ifdef RNIC_HAVE_DMAH
static inline struct ib_mr *
rnic_reg_user_mr_op(struct ib_pd *ibpd, u64 start, u64 length, u64 virt_addr,
		    int access, struct ib_dmah *dmah, struct ib_udata *udata)
{
	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	return rnic_reg_user_mr(ibpd, start, length, virt_addr, access, udata);
}
#else
#define rnic_reg_user_mr_op rnic_reg_user_mr
#endif

#endif
