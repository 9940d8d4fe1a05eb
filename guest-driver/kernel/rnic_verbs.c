// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Device, port and protection domain verbs; the table of operations
 */
#include <linux/etherdevice.h>
#include <net/addrconf.h>

#include "rnic.h"

static int rnic_query_device(struct ib_device *ibdev,
			     struct ib_device_attr *attr,
			     struct ib_udata *udata)
{
	struct rnic_dev *rdev = to_rnic(ibdev);
	struct rnic_limits *limits = &rdev->limits;

	if (udata->inlen || udata->outlen)
		return -EINVAL;

	memset(attr, 0, sizeof(*attr));
	attr->fw_ver = (u64)RNIC_VERSION_MAJOR << 32 | RNIC_VERSION_MINOR;
	addrconf_addr_eui48((u8 *)&attr->sys_image_guid, rdev->ndev->dev_addr);
	attr->max_mr_size = limits->mr_size;
	attr->page_size_cap = GENMASK(30, 12);
	attr->vendor_id = rdev->pdev->vendor;
	attr->vendor_part_id = rdev->pdev->device;
	attr->hw_ver = rdev->pdev->revision;
	attr->max_qp = limits->qp - 1;
	attr->max_qp_wr = limits->qp_wr;
	if (rdev->caps & RNIC_CAP_FAST_REG) {
		attr->device_cap_flags |= IB_DEVICE_MEM_MGT_EXTENSIONS;
		attr->max_fast_reg_page_list_len = limits->fr_pages;
	}
	if (rdev->caps & RNIC_CAP_LOCAL_DMA_LKEY)
		attr->kernel_cap_flags |= IBK_LOCAL_DMA_LKEY;
	attr->max_send_sge = limits->sge;
	attr->max_recv_sge = limits->sge;
	/* The sink of a Read is one range of one region (RFC 5040 5.3) */
	attr->max_sge_rd = 1;
	attr->max_cq = limits->cq - 1;
	attr->max_cqe = limits->cqe;
	attr->max_mr = limits->mr;
	attr->max_pd = limits->pd - 1;
	attr->max_qp_rd_atom = limits->ird;
	attr->max_qp_init_rd_atom = limits->ord;
	attr->max_res_rd_atom = limits->ird * attr->max_qp;
	attr->atomic_cap = rdev->caps & RNIC_CAP_RFC7306 ?
			   IB_ATOMIC_HCA : IB_ATOMIC_NONE;
	attr->masked_atomic_cap = attr->atomic_cap;
	if (rdev->caps & RNIC_CAP_SRQ) {
		attr->max_srq = limits->srq - 1;
		attr->max_srq_wr = limits->qp_wr;
		attr->max_srq_sge = limits->sge;
	}
	return 0;
}

static int rnic_query_port(struct ib_device *ibdev, u32 port,
			   struct ib_port_attr *attr)
{
	struct rnic_dev *rdev = to_rnic(ibdev);

	/* ib_core filled in the MTUs */
	attr->gid_tbl_len = 1;
	attr->max_msg_sz = rdev->limits.msg_size;
	attr->port_cap_flags = IB_PORT_CM_SUP | IB_PORT_DEVICE_MGMT_SUP;
	attr->state = rnic_is_dead(rdev) ? IB_PORT_DOWN :
		      rnic_netdev_port_state(rdev->ndev);
	attr->phys_state = attr->state == IB_PORT_ACTIVE ?
			   IB_PORT_PHYS_STATE_LINK_UP :
			   IB_PORT_PHYS_STATE_DISABLED;
	return ib_get_eth_speed(ibdev, port, &attr->active_speed,
				&attr->active_width);
}

static int rnic_get_port_immutable(struct ib_device *ibdev, u32 port,
				   struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = 1;
	immutable->core_cap_flags = RDMA_CORE_PORT_IWARP;
	return 0;
}

static enum rdma_link_layer rnic_get_link_layer(struct ib_device *ibdev,
						u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

/* The GID of an iWARP port is its MAC address */
static int rnic_query_gid(struct ib_device *ibdev, u32 port, int index,
			  union ib_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	ether_addr_copy(gid->raw, to_rnic(ibdev)->ndev->dev_addr);
	return 0;
}

static void rnic_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	u32 version = RNIC_VERSION_MAJOR << 16 | RNIC_VERSION_MINOR;
	struct rnic_dev *rdev = to_rnic(ibdev);

	if (!rnic_is_dead(rdev))
		version = rnic_read(rdev, RNIC_REG_VERSION);
	snprintf(str, IB_FW_VERSION_NAME_MAX, "%u.%u", version >> 16,
		 version & 0xffff);
}

static int rnic_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct rnic_dev *rdev = to_rnic(ibpd->device);
	struct rnic_alloc_pd_resp resp = {};
	struct rnic_pd *pd = to_rnic_pd(ibpd);
	int id, ret;

	/* The device knows protection domains by their numbers only */
	id = ida_alloc_range(&rdev->pdns, 1, rdev->limits.pd - 1, GFP_KERNEL);
	if (id < 0)
		return id == -ENOSPC ? -ENOMEM : id;
	pd->pdn = id;
	if (udata) {
		resp.pdn = id;
		ret = ib_copy_to_udata(udata, &resp,
				       min(sizeof(resp), udata->outlen));
		if (ret) {
			ida_free(&rdev->pdns, id);
			return ret;
		}
	}
	return 0;
}

static int rnic_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	ida_free(&to_rnic(ibpd->device)->pdns, to_rnic_pd(ibpd)->pdn);
	return 0;
}

const struct ib_device_ops rnic_dev_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = RNIC_ABI_VERSION,

	.alloc_hw_device_stats = rnic_alloc_device_stats,
	.alloc_hw_port_stats = rnic_alloc_port_stats,
	.alloc_mr = rnic_alloc_mr,
	.alloc_pd = rnic_alloc_pd,
	.alloc_ucontext = rnic_alloc_ucontext,
	.create_cq = rnic_create_cq,
	.create_qp = rnic_create_qp,
	.create_srq = rnic_create_srq,
	.dealloc_pd = rnic_dealloc_pd,
	.dealloc_ucontext = rnic_dealloc_ucontext,
	.dereg_mr = rnic_dereg_mr,
	.destroy_cq = rnic_destroy_cq,
	.destroy_qp = rnic_destroy_qp,
	.destroy_srq = rnic_destroy_srq,
	.disassociate_ucontext = rnic_disassociate_ucontext,
	.fill_res_cq_entry = rnic_fill_res_cq_entry,
	.fill_res_qp_entry = rnic_fill_res_qp_entry,
	.get_dev_fw_str = rnic_get_dev_fw_str,
	.get_dma_mr = rnic_get_dma_mr,
	.get_hw_stats = rnic_get_hw_stats,
	.get_link_layer = rnic_get_link_layer,
	.get_port_immutable = rnic_get_port_immutable,
	.iw_accept = rnic_iw_accept,
	.iw_add_ref = rnic_iw_add_ref,
	.iw_connect = rnic_iw_connect,
	.iw_create_listen = rnic_iw_create_listen,
	.iw_destroy_listen = rnic_iw_destroy_listen,
	.iw_get_qp = rnic_iw_get_qp,
	.iw_reject = rnic_iw_reject,
	.iw_rem_ref = rnic_iw_rem_ref,
	.map_mr_sg = rnic_map_mr_sg,
	.mmap = rnic_mmap,
	.mmap_free = rnic_mmap_free,
	.modify_cq = rnic_modify_cq,
	.modify_qp = rnic_modify_qp,
	.modify_srq = rnic_modify_srq,
	.poll_cq = rnic_poll_cq,
	.post_recv = rnic_post_recv,
	.post_send = rnic_post_send,
	.post_srq_recv = rnic_post_srq_recv,
	.query_device = rnic_query_device,
	.query_gid = rnic_query_gid,
	.query_port = rnic_query_port,
	.query_qp = rnic_query_qp,
	.query_srq = rnic_query_srq,
	.reg_user_mr = rnic_reg_user_mr_op,
	.req_notify_cq = rnic_req_notify_cq,

	INIT_RDMA_OBJ_SIZE(ib_cq, rnic_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_pd, rnic_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, rnic_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_srq, rnic_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, rnic_ucontext, ibuc),
};
