// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The PCI function: probe, reset, failure, removal
 */
#include <linux/etherdevice.h>
#include <linux/iopoll.h>
#include <linux/module.h>
#include <net/addrconf.h>

#include "rnic.h"

MODULE_DESCRIPTION("rnic iWARP RDMA adapter");
MODULE_LICENSE("Dual BSD/GPL");

static const char *const sq_policy_names[] = {
	[RNIC_SQ_FENCE] = "fence",
	[RNIC_SQ_ERROR] = "error",
	[RNIC_SQ_HELD] = "held",
};

static unsigned int sq_policy = RNIC_SQ_FENCE;

static int sq_policy_set(const char *value, const struct kernel_param *param)
{
	int i = sysfs_match_string(sq_policy_names, value);

	if (i < 0)
		return i;
	sq_policy = i;
	return 0;
}

static int sq_policy_get(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%s\n", sq_policy_names[sq_policy]);
}

static const struct kernel_param_ops sq_policy_ops = {
	.set = sq_policy_set,
	.get = sq_policy_get,
};
module_param_cb(sq_policy, &sq_policy_ops, NULL, 0444);
MODULE_PARM_DESC(sq_policy,
		 "sends posted before the connection is established: fence (they wait in the device), error (they are refused) or held (they wait in the driver)");

#define RNIC_RESET_TIMEOUT_US	(10 * USEC_PER_SEC)
#define RNIC_READY_TIMEOUT_US	(10 * USEC_PER_SEC)
#define RNIC_HEALTH_PERIOD	(2 * HZ)

/* What reads return when the function is not there any more */
#define RNIC_GONE		0xffffffff

int rnic_mem_alloc(struct rnic_dev *rdev, struct rnic_mem *mem, size_t size)
{
	mem->va = dma_alloc_coherent(&rdev->pdev->dev, size, &mem->dma,
				     GFP_KERNEL);
	if (!mem->va)
		return -ENOMEM;
	mem->size = size;
	return 0;
}

void rnic_mem_free(struct rnic_dev *rdev, struct rnic_mem *mem)
{
	if (mem->va)
		dma_free_coherent(&rdev->pdev->dev, mem->size, mem->va,
				  mem->dma);
	mem->va = NULL;
}

/* Afterwards the device touches no memory; objects and connections are gone */
static int rnic_reset(struct rnic_dev *rdev)
{
	u32 status;
	int ret;

	rnic_write(rdev, RNIC_REG_CTRL, RNIC_CTRL_RESET);
	ret = read_poll_timeout(rnic_read, status,
				status == RNIC_GONE ||
				!(status & RNIC_STATUS_RESETTING),
				1000, RNIC_RESET_TIMEOUT_US, false, rdev,
				RNIC_REG_STATUS);
	if (ret)
		dev_err(&rdev->pdev->dev, "reset does not end\n");
	else if (status == RNIC_GONE)
		ret = -ENODEV;
	return ret;
}

static int rnic_enable(struct rnic_dev *rdev)
{
	u32 status;
	int ret;

	rnic_write(rdev, RNIC_REG_CTRL, RNIC_CTRL_ENABLE);
	ret = read_poll_timeout(rnic_read, status,
				status & (RNIC_STATUS_READY |
					  RNIC_STATUS_FATAL),
				1000, RNIC_READY_TIMEOUT_US, false, rdev,
				RNIC_REG_STATUS);
	if (!ret && status & RNIC_STATUS_FATAL)
		ret = -EIO;
	if (ret)
		dev_err(&rdev->pdev->dev,
			"the device does not start: status %#x, error %u\n",
			status, rnic_read(rdev, RNIC_REG_ERROR));
	return ret;
}

void rnic_kill(struct rnic_dev *rdev)
{
	if (!test_and_set_bit(RNIC_DEAD, &rdev->flags))
		queue_work(rdev->wq, &rdev->quiesce_work);
}

static void mark_quiesced(struct rnic_dev *rdev)
{
	set_bit(RNIC_QUIESCED, &rdev->flags);
	rnic_adminq_abort(rdev);
	complete_all(&rdev->quiesced);
}

/* A process flushes what it posted when it sees that */
static void tell_processes(struct rnic_dev *rdev)
{
	struct rnic_qp *entry, *qp;
	unsigned long qpn;

	/* rnic_create_qp() stores its QP, then looks at RNIC_QUIESCED */
	smp_mb();
	xa_for_each(&rdev->qps, qpn, entry) {
		qp = rnic_qp_get(rdev, qpn);
		if (!qp)
			continue;
		if (qp->umem)
			WRITE_ONCE(qp->status->state,
				   cpu_to_le32(RNIC_QPS_RESET));
		rnic_qp_put(qp);
	}
}

/* Stops the DMA of a device that failed, then lets everybody know */
static void quiesce_work(struct work_struct *work)
{
	struct rnic_dev *rdev =
		container_of(work, struct rnic_dev, quiesce_work);

	rnic_reset(rdev);
	/* If even that failed: without bus mastering it cannot write */
	pci_clear_master(rdev->pdev);
	mark_quiesced(rdev);
	tell_processes(rdev);
	rnic_cq_wake_processes(rdev);
	queue_work(rdev->event_wq, &rdev->fatal_work);
	queue_work(rdev->wq, &rdev->flush_work);
}

/* The events that the device does not raise any more; on event_wq */
static void fatal_work(struct work_struct *work)
{
	struct rnic_dev *rdev = container_of(work, struct rnic_dev, fatal_work);
	struct ib_event event = {
		.device = &rdev->ibdev,
		.event = IB_EVENT_DEVICE_FATAL,
		.element.port_num = 1,
	};
	struct rnic_qp *entry, *qp;
	unsigned long qpn;

	/* What it wrote before it died counts */
	rnic_aeq_work(&rdev->aeq_work);
	xa_for_each(&rdev->qps, qpn, entry) {
		qp = rnic_qp_get(rdev, qpn);
		if (!qp)
			continue;
		rnic_cm_abort(qp);
		rnic_qp_put(qp);
	}

	mutex_lock(&rdev->register_lock);
	if (rdev->registered) {
		netif_carrier_off(rdev->ndev);
		ib_dispatch_event(&event);
	}
	mutex_unlock(&rdev->register_lock);
}

/*
 * A device that stopped, was pulled out, or was reset by somebody else (as a
 * machine does that wakes up), says so in no other way
 */
static void health_work(struct work_struct *work)
{
	struct rnic_dev *rdev =
		container_of(work, struct rnic_dev, health_work.work);
	u32 status = rnic_read(rdev, RNIC_REG_STATUS);

	if (rnic_is_dead(rdev))
		return;
	if (status == RNIC_GONE) {
		dev_err(&rdev->pdev->dev, "the device is gone\n");
		rnic_kill(rdev);
		return;
	}
	if (status & RNIC_STATUS_FATAL) {
		dev_err(&rdev->pdev->dev, "the device stopped: error %u\n",
			rnic_read(rdev, RNIC_REG_ERROR));
		rnic_kill(rdev);
		return;
	}
	if (!(status & RNIC_STATUS_READY)) {
		dev_err(&rdev->pdev->dev, "the device was reset: status %#x\n",
			status);
		rnic_kill(rdev);
		return;
	}
	queue_delayed_work(rdev->wq, &rdev->health_work, RNIC_HEALTH_PERIOD);
}

/* Stops a device that works, quietly: for removal and shutdown */
static void rnic_stop(struct rnic_dev *rdev)
{
	if (test_and_set_bit(RNIC_DEAD, &rdev->flags)) {
		wait_for_completion(&rdev->quiesced);
		return;
	}
	rnic_reset(rdev);
	pci_clear_master(rdev->pdev);
	mark_quiesced(rdev);
}

static int check_version(struct rnic_dev *rdev)
{
	struct device *dev = &rdev->pdev->dev;
	u32 magic = rnic_read(rdev, RNIC_REG_MAGIC);
	u32 version;

	if (magic != RNIC_MAGIC) {
		dev_err(dev, "not an rnic: magic %#010x\n", magic);
		return -ENODEV;
	}
	version = rnic_read(rdev, RNIC_REG_VERSION);
	if (version >> 16 != RNIC_VERSION_MAJOR) {
		dev_err(dev, "the device has interface version %u.%u, this driver needs %u.x\n",
			version >> 16, version & 0xffff, RNIC_VERSION_MAJOR);
		return -ENODEV;
	}
	return 0;
}

static u64 read64(struct rnic_dev *rdev, u32 lo)
{
	return rnic_read(rdev, lo) | (u64)rnic_read(rdev, lo + 4) << 32;
}

static int read_limits(struct rnic_dev *rdev)
{
	struct rnic_limits *limits = &rdev->limits;

	rdev->caps = read64(rdev, RNIC_REG_CAPS_LO);
	rdev->sq_policy = sq_policy;
	if (sq_policy == RNIC_SQ_FENCE && !(rdev->caps & RNIC_CAP_FENCE_PRE_RTS))
		rdev->sq_policy = RNIC_SQ_ERROR;
	limits->qp = rnic_read(rdev, RNIC_REG_MAX_QP);
	limits->cq = rnic_read(rdev, RNIC_REG_MAX_CQ);
	limits->srq = rnic_read(rdev, RNIC_REG_MAX_SRQ);
	limits->eq = rnic_read(rdev, RNIC_REG_MAX_EQ);
	limits->mr = rnic_read(rdev, RNIC_REG_MAX_MR);
	limits->pd = rnic_read(rdev, RNIC_REG_MAX_PD);
	limits->uctx = rnic_read(rdev, RNIC_REG_MAX_UCTX);
	limits->listen = rnic_read(rdev, RNIC_REG_MAX_LISTEN);
	limits->qp_wr = rnic_read(rdev, RNIC_REG_MAX_QP_WR);
	limits->cqe = rnic_read(rdev, RNIC_REG_MAX_CQE);
	limits->sge = rnic_read(rdev, RNIC_REG_MAX_SGE);
	limits->inline_data = rnic_read(rdev, RNIC_REG_MAX_INLINE);
	limits->ird = rnic_read(rdev, RNIC_REG_MAX_IRD);
	limits->ord = rnic_read(rdev, RNIC_REG_MAX_ORD);
	limits->mr_size = read64(rdev, RNIC_REG_MAX_MR_SIZE_LO);
	limits->fr_pages = rnic_read(rdev, RNIC_REG_MAX_FR_PAGES);
	limits->msg_size = rnic_read(rdev, RNIC_REG_MAX_MSG_SIZE);
	limits->pdata = rnic_read(rdev, RNIC_REG_MAX_PDATA);
	limits->backlog = rnic_read(rdev, RNIC_REG_MAX_BACKLOG);
	limits->eq_depth = rnic_read(rdev, RNIC_REG_MAX_EQ_DEPTH);

	/* Numbers start at 1, and one EQ is the asynchronous one */
	if (limits->qp < 2 || limits->cq < 2 || limits->eq < 2 ||
	    limits->pd < 2 || limits->uctx < 2 || !limits->listen ||
	    limits->eq_depth < 2 || !limits->sge ||
	    (rdev->caps & RNIC_CAP_SRQ && limits->srq < 2)) {
		dev_err(&rdev->pdev->dev, "the device's limits make no sense\n");
		return -ENODEV;
	}
	return 0;
}

static int map_device(struct rnic_dev *rdev)
{
	struct pci_dev *pdev = rdev->pdev;
	int ret;

	ret = pci_enable_device_mem(pdev);
	if (ret)
		return ret;
	/* The kernel before this one may have left it at work: no access to
	 * memory until it was reset
	 */
	pci_clear_master(pdev);
	ret = pci_request_mem_regions(pdev, KBUILD_MODNAME);
	if (ret)
		goto err_disable;
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (ret)
		goto err_regions;
	/* Regions are described by pages, however long a segment is */
	dma_set_max_seg_size(&pdev->dev, UINT_MAX);

	ret = -ENODEV;
	if (pci_resource_len(pdev, RNIC_BAR_REGS) < RNIC_BAR_REGS_SIZE ||
	    pci_resource_len(pdev, RNIC_BAR_DB) < RNIC_BAR_DB_SIZE) {
		dev_err(&pdev->dev, "BAR 0 or 2 is too small, or the bridge above has no room for it\n");
		goto err_regions;
	}
	ret = -ENOMEM;
	rdev->regs = pci_iomap(pdev, RNIC_BAR_REGS, RNIC_BAR_REGS_SIZE);
	if (!rdev->regs)
		goto err_regions;
	/* The kernel rings for user QPs, too: rnic_sq_release() */
	rdev->db = pci_iomap(pdev, RNIC_BAR_DB, RNIC_BAR_DB_SIZE);
	if (!rdev->db)
		goto err_regs;
	return 0;

err_regs:
	pci_iounmap(pdev, rdev->regs);
err_regions:
	pci_release_mem_regions(pdev);
err_disable:
	pci_disable_device(pdev);
	return ret;
}

static void unmap_device(struct rnic_dev *rdev)
{
	pci_iounmap(rdev->pdev, rdev->db);
	pci_iounmap(rdev->pdev, rdev->regs);
	pci_release_mem_regions(rdev->pdev);
	pci_disable_device(rdev->pdev);
}

static int init_software(struct rnic_dev *rdev)
{
	init_completion(&rdev->quiesced);
	INIT_WORK(&rdev->aeq_work, rnic_aeq_work);
	INIT_WORK(&rdev->fatal_work, fatal_work);
	INIT_WORK(&rdev->quiesce_work, quiesce_work);
	INIT_WORK(&rdev->flush_work, rnic_cq_flush_work);
	INIT_DELAYED_WORK(&rdev->health_work, health_work);
	mutex_init(&rdev->register_lock);
	mutex_init(&rdev->stats_lock);
	xa_init_flags(&rdev->qps, XA_FLAGS_ALLOC);
	xa_init_flags(&rdev->cqs, XA_FLAGS_ALLOC);
	xa_init_flags(&rdev->srqs, XA_FLAGS_ALLOC);
	xa_init_flags(&rdev->listeners, XA_FLAGS_ALLOC);
	ida_init(&rdev->pdns);
	ida_init(&rdev->uctx_ids);

	/* Kernel consumers destroy QPs while memory is being reclaimed */
	rdev->event_wq = alloc_ordered_workqueue("rnic-event", WQ_MEM_RECLAIM);
	if (!rdev->event_wq)
		return -ENOMEM;
	rdev->wq = alloc_workqueue("rnic", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!rdev->wq) {
		destroy_workqueue(rdev->event_wq);
		return -ENOMEM;
	}
	return 0;
}

static void free_software(struct rnic_dev *rdev)
{
	destroy_workqueue(rdev->wq);
	destroy_workqueue(rdev->event_wq);
	ida_destroy(&rdev->uctx_ids);
	ida_destroy(&rdev->pdns);
	xa_destroy(&rdev->listeners);
	xa_destroy(&rdev->srqs);
	xa_destroy(&rdev->cqs);
	xa_destroy(&rdev->qps);
}

/* Everything that a device needs to answer commands and raise events */
static int start_device(struct rnic_dev *rdev)
{
	int ret;

	/* What the interrupt handlers look at comes first */
	ret = rnic_adminq_init(rdev);
	if (ret)
		return ret;
	ret = rnic_irqs_request(rdev);
	if (ret)
		goto err_adminq;
	ret = rnic_mem_alloc(rdev, &rdev->stats_mem,
			     RNIC_STAT_COUNT * sizeof(__le64));
	if (ret)
		goto err_irqs;
	ret = rnic_enable(rdev);
	if (ret)
		goto err_stop;
	ret = rnic_eqs_create(rdev);
	if (ret) {
		dev_err(&rdev->pdev->dev, "cannot create event queues: %d\n",
			ret);
		goto err_stop;
	}
	ret = rnic_kctx_create(rdev);
	if (ret) {
		dev_err(&rdev->pdev->dev, "cannot create a context: %d\n", ret);
		goto err_stop;
	}
	return 0;

err_stop:
	rnic_stop(rdev);
	rnic_irqs_free(rdev);
	flush_workqueue(rdev->wq);
	flush_workqueue(rdev->event_wq);
	rnic_eqs_free(rdev);
	rnic_mem_free(rdev, &rdev->stats_mem);
	rnic_adminq_free(rdev);
	return ret;
err_irqs:
	rnic_irqs_free(rdev);
	kfree(rdev->ceqs);
err_adminq:
	rnic_adminq_free(rdev);
	return ret;
}

static void stop_device(struct rnic_dev *rdev)
{
	cancel_delayed_work_sync(&rdev->health_work);
	rnic_stop(rdev);
	rnic_irqs_free(rdev);
	flush_workqueue(rdev->wq);
	flush_workqueue(rdev->event_wq);
	rnic_kctx_free(rdev);
	rnic_eqs_free(rdev);
	rnic_mem_free(rdev, &rdev->stats_mem);
	rnic_adminq_free(rdev);
}

static int register_ibdev(struct rnic_dev *rdev)
{
	struct ib_device *ibdev = &rdev->ibdev;
	int ret;

	ibdev->node_type = RDMA_NODE_RNIC;
	ibdev->phys_port_cnt = 1;
	ibdev->num_comp_vectors = rdev->num_ceqs;
	/* User space matches the provider by this PCI function */
	ibdev->dev.parent = &rdev->pdev->dev;
	ibdev->local_dma_lkey = RNIC_STAG_LOCAL_DMA;
	ibdev->iw_driver_flags = IW_F_NO_PORT_MAP;
	strscpy(ibdev->iw_ifname, rdev->ndev->name, sizeof(ibdev->iw_ifname));
	strscpy(ibdev->node_desc, "rnic", sizeof(ibdev->node_desc));
	addrconf_addr_eui48((u8 *)&ibdev->node_guid, rdev->ndev->dev_addr);
	ib_set_device_ops(ibdev, &rnic_dev_ops);
	/* Of a device that died: rnic_req_notify_cq() */
	ibdev->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);

	ret = ib_device_set_netdev(ibdev, rdev->ndev, 1);
	if (ret)
		return ret;
	ret = ib_register_device(ibdev, "rnic%d", &rdev->pdev->dev);
	if (ret)
		return ret;
	mutex_lock(&rdev->register_lock);
	rdev->registered = true;
	mutex_unlock(&rdev->register_lock);

	ret = rnic_port_watch(rdev);
	if (ret) {
		mutex_lock(&rdev->register_lock);
		rdev->registered = false;
		mutex_unlock(&rdev->register_lock);
		ib_unregister_device(ibdev);
	}
	return ret;
}

static void unregister_ibdev(struct rnic_dev *rdev)
{
	rnic_port_unwatch(rdev);
	/* No event may be under way to a device that is being freed */
	mutex_lock(&rdev->register_lock);
	rdev->registered = false;
	mutex_unlock(&rdev->register_lock);
	ib_unregister_device(&rdev->ibdev);
}

static int rnic_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct rnic_dev *rdev;
	int ret;

	rdev = ib_alloc_device(rnic_dev, ibdev);
	if (!rdev)
		return -ENOMEM;
	rdev->pdev = pdev;
	pci_set_drvdata(pdev, rdev);
	ret = init_software(rdev);
	if (ret)
		goto err_dealloc;
	ret = map_device(rdev);
	if (ret)
		goto err_software;
	ret = check_version(rdev);
	if (ret)
		goto err_unmap;
	ret = rnic_reset(rdev);
	if (ret)
		goto err_unmap;
	pci_set_master(pdev);
	ret = read_limits(rdev);
	if (ret)
		goto err_unmap;
	ret = start_device(rdev);
	if (ret)
		goto err_unmap;
	ret = rnic_netdev_register(rdev);
	if (ret)
		goto err_stop;
	ret = register_ibdev(rdev);
	if (ret) {
		dev_err(&pdev->dev, "cannot register RDMA device: %d\n", ret);
		goto err_netdev;
	}
	queue_delayed_work(rdev->wq, &rdev->health_work, RNIC_HEALTH_PERIOD);
	dev_info(&pdev->dev, "%s: iWARP adapter, MAC %pM, %u completion %s\n",
		 dev_name(&rdev->ibdev.dev), rdev->ndev->dev_addr,
		 rdev->num_ceqs, rdev->num_ceqs == 1 ? "vector" : "vectors");
	return 0;

err_netdev:
	rnic_netdev_unregister(rdev);
err_stop:
	stop_device(rdev);
err_unmap:
	unmap_device(rdev);
err_software:
	free_software(rdev);
err_dealloc:
	pci_set_drvdata(pdev, NULL);
	ib_dealloc_device(&rdev->ibdev);
	return ret;
}

static void rnic_remove(struct pci_dev *pdev)
{
	struct rnic_dev *rdev = pci_get_drvdata(pdev);

	/* It did not come back after a reset */
	if (!rdev)
		return;
	/* Pulled out: nobody need wait for an answer to find that out */
	if (rnic_read(rdev, RNIC_REG_STATUS) == RNIC_GONE)
		rnic_kill(rdev);
	unregister_ibdev(rdev);
	rnic_netdev_unregister(rdev);
	stop_device(rdev);
	unmap_device(rdev);
	free_software(rdev);
	pci_set_drvdata(pdev, NULL);
	ib_dealloc_device(&rdev->ibdev);
}

/* Before kexec or power off: the next kernel's memory is not the device's */
static void rnic_shutdown(struct pci_dev *pdev)
{
	struct rnic_dev *rdev = pci_get_drvdata(pdev);

	if (!rdev)
		return;
	cancel_delayed_work_sync(&rdev->health_work);
	rnic_stop(rdev);
}

/*
 * A reset of the function that somebody asked for (sysfs: reset). The device
 * forgets all objects and connections by it; so to everybody else it is taken
 * out and put in again. The PCI core holds the same lock as around probe and
 * remove.
 */
static void rnic_reset_prepare(struct pci_dev *pdev)
{
	rnic_remove(pdev);
}

static void rnic_reset_done(struct pci_dev *pdev)
{
	int ret = rnic_probe(pdev, NULL);

	if (ret)
		dev_err(&pdev->dev, "does not work after the reset: %d\n", ret);
}

static const struct pci_error_handlers rnic_err_handlers = {
	.reset_prepare = rnic_reset_prepare,
	.reset_done = rnic_reset_done,
};

static const struct pci_device_id rnic_pci_ids[] = {
	{ PCI_DEVICE(RNIC_PCI_VENDOR_ID, RNIC_PCI_DEVICE_ID) },
	{}
};
MODULE_DEVICE_TABLE(pci, rnic_pci_ids);

static struct pci_driver rnic_pci_driver = {
	.name = KBUILD_MODNAME,
	.id_table = rnic_pci_ids,
	.probe = rnic_probe,
	.remove = rnic_remove,
	.shutdown = rnic_shutdown,
	.err_handler = &rnic_err_handlers,
};
module_pci_driver(rnic_pci_driver);
