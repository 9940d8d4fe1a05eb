/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Driver of the rnic device: what its files share
 */
#ifndef RNIC_H
#define RNIC_H

#include <linux/bitmap.h>
#include <linux/completion.h>
#include <linux/dma-mapping.h>
#include <linux/idr.h>
#include <linux/io.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/refcount.h>
#include <linux/semaphore.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

#include <rnic/admin.h>
#include <rnic/cqe.h>
#include <rnic/event.h>
#include <rnic/net.h>
#include <rnic/regs.h>
#include <rnic/stats.h>
#include <rnic/wqe.h>
#include <uapi/rnic-abi.h>

#include "compat.h"

#define RNIC_ADMIN_DEPTH	64
#define RNIC_AEQ_DEPTH		256
#define RNIC_KERNEL_UCTX	0

/* wqe_index of a CQE has 16 bits, so a ring of the kernel must be shorter */
#define RNIC_KERNEL_MAX_WR	32768

#define RNIC_STATUS_PER_PAGE	(PAGE_SIZE / sizeof(struct rnic_qp_status))

/* Coherent memory that the device may use as long as the object lives */
struct rnic_mem {
	void *va;
	dma_addr_t dma;
	size_t size;
};

/* The limit registers */
struct rnic_limits {
	u32 qp, cq, srq, eq, mr, pd, uctx, listen;
	u32 qp_wr, cqe, sge, inline_data, ird, ord;
	u32 fr_pages, msg_size, pdata, backlog, addr, eq_depth;
	u64 mr_size;
};

struct rnic_cmd_slot {
	struct completion done;
	struct rnic_acqe result;
	bool answered;
};

struct rnic_adminq {
	struct rnic_mem sq_mem, cq_mem;
	u32 pi;				/* of the ASQ */
	u32 ci;				/* of the ACQ */
	spinlock_t lock;		/* all of this but credits */
	struct semaphore credits;	/* free slots */
	DECLARE_BITMAP(busy, RNIC_ADMIN_DEPTH);
	struct rnic_cmd_slot slots[RNIC_ADMIN_DEPTH];
};

struct rnic_eq {
	struct rnic_dev *rdev;
	u32 eqn;
	u32 depth;
	u32 ci;
	int irq;
	struct rnic_mem mem;
	struct rnic_eq_dbrec *dbrec;
};

/* A doorbell page with its bitmap: the kernel's or a process's */
struct rnic_uctx {
	u32 id;
	enum rnic_sq_policy sq_policy;
	struct rnic_dbmap *dbmap;
	struct page *dbmap_page;
	dma_addr_t dbmap_dma;
	struct mutex lock;		/* status_pages */
	struct list_head status_pages;
};

struct rnic_ucontext {
	struct ib_ucontext ibuc;
	struct rnic_uctx uctx;
	struct rdma_user_mmap_entry *db_entry;
	struct rdma_user_mmap_entry *dbmap_entry;
};

struct rnic_pd {
	struct ib_pd ibpd;
	u32 pdn;
};

struct rnic_mr {
	struct ib_mr ibmr;
	struct ib_umem *umem;
	struct rnic_mem pages;		/* ALLOC_MR: __le64 page addresses */
	u32 num_pages;
	u32 max_pages;
};

struct rnic_cq {
	struct ib_cq ibcq;
	u32 cqn;
	u32 depth;
	struct rnic_eq *eq;
	struct ib_umem *umem;		/* of a user CQ; the rest is for kernel CQs */
	struct rnic_mem mem;
	struct rnic_cq_dbrec *dbrec;
	spinlock_t lock;		/* all below, and consumer indices of QPs */
	u32 ci;
	u32 arm_seq;
	u32 armed;			/* RNIC_CQ_ARM_*, cleared by the event */
	struct list_head send_qps;
	struct list_head recv_qps;
};

/* A ring that the kernel posts to */
struct rnic_wq {
	void *ring;
	u32 depth;
	u32 stride;
	u32 max_sge;
	u32 pi;				/* lock */
	u32 ci;				/* lock of the CQ */
	spinlock_t lock;
};

struct rnic_srq {
	struct ib_srq ibsrq;
	u32 srqn;
	u32 depth;
	u32 max_sge;
	struct ib_umem *umem;
	struct rnic_mem mem;
	struct rnic_qp_dbrec *dbrec;
	struct rnic_wq rq;		/* ci under rq.lock, unlike a QP's */
};

struct rnic_status_page;

enum rnic_conn_state {
	RNIC_CONN_NONE,
	RNIC_CONN_CONNECTING,		/* CONNECT_REPLY is due */
	RNIC_CONN_ACCEPTING,		/* ESTABLISHED, then CLOSE are due */
	RNIC_CONN_OPEN,			/* CLOSE is due */
};

struct rnic_qp {
	struct ib_qp ibqp;
	u32 qpn;
	refcount_t refs;		/* those of iw_cm included */
	struct completion unreferenced;
	struct rnic_cq *send_cq, *recv_cq;
	struct rnic_srq *srq;
	struct list_head send_link, recv_link;	/* in the CQs, kernel only */
	struct rnic_uctx *uctx;
	struct rnic_status_page *status_page;
	struct rnic_qp_status *status;
	struct ib_umem *umem;
	struct rnic_mem mem;
	struct rnic_qp_dbrec *dbrec;
	struct page *dbrec_page;	/* of a user QP's dbrec, in umem */
	u32 dbrec_in_page;
	struct rnic_wq sq, rq;
	u32 sq_published;		/* sq.lock: last written to sq_pi */
	struct ib_qp_cap cap;
	bool sig_all;
	int access;
	enum ib_qp_state idle_state;	/* what the verbs call IDLE: INIT, RTR,
					 * and RESET if it was asked for
					 */

	spinlock_t conn_lock;		/* conn_state, cm_id, destroyed */
	enum rnic_conn_state conn_state;
	struct iw_cm_id *cm_id;
	bool destroyed;			/* no connection begins any more */
	wait_queue_head_t conn_wait;
	struct work_struct refused_work;
	int refused;			/* by the packet filter, an error */
};

/* rnic_dev.flags */
#define RNIC_DEAD		0	/* no command is sent any more */
#define RNIC_QUIESCED		1	/* and the device touches no memory */

struct rnic_dev {
	struct ib_device ibdev;
	struct pci_dev *pdev;
	struct net_device *ndev;
	void __iomem *regs;
	void __iomem *db;		/* the doorbell pages of all contexts */
	u64 caps;
	enum rnic_sq_policy sq_policy;
	struct rnic_limits limits;
	unsigned long flags;
	struct completion quiesced;

	struct rnic_adminq aq;
	unsigned int num_vectors;
	unsigned int num_ceqs;
	unsigned int net_vector;	/* 0: shared with the admin queue */
	struct rnic_eq aeq;
	struct rnic_eq *ceqs;
	struct rnic_uctx kctx;

	struct xarray qps, cqs, srqs, listeners;
	u32 next_qpn, next_cqn, next_srqn;
	struct ida pdns;
	struct ida uctx_ids;
	atomic_t next_key;

	/* Ordered: connection events must not overtake each other */
	struct workqueue_struct *event_wq;
	struct work_struct aeq_work;
	struct work_struct fatal_work;
	/* Unordered: nothing here waits for event_wq */
	struct workqueue_struct *wq;
	struct work_struct quiesce_work;
	struct work_struct flush_work;
	struct work_struct addr_work;
	struct delayed_work addr_retry;
	struct delayed_work health_work;

	struct mutex register_lock;	/* registered */
	bool registered;		/* events may be dispatched */

	spinlock_t addr_lock;		/* addrs */
	struct list_head addrs;
	struct notifier_block inet_nb, inet6_nb, netdev_nb;

	struct rnic_net *net;		/* NULL: the device carries no IP */

	/* Connections that the packet filter refused */
	atomic64_t refused_out, refused_in;

	struct mutex stats_lock;	/* stats_mem */
	struct rnic_mem stats_mem;
};

#define to_rnic(dev)		container_of(dev, struct rnic_dev, ibdev)
#define to_rnic_ucontext(uc)	container_of(uc, struct rnic_ucontext, ibuc)
#define to_rnic_pd(pd)		container_of(pd, struct rnic_pd, ibpd)
#define to_rnic_mr(mr)		container_of(mr, struct rnic_mr, ibmr)
#define to_rnic_cq(cq)		container_of(cq, struct rnic_cq, ibcq)
#define to_rnic_srq(srq)	container_of(srq, struct rnic_srq, ibsrq)
#define to_rnic_qp(qp)		container_of(qp, struct rnic_qp, ibqp)

static inline bool rnic_is_dead(struct rnic_dev *rdev)
{
	return test_bit(RNIC_DEAD, &rdev->flags);
}

static inline u32 rnic_read(struct rnic_dev *rdev, u32 reg)
{
	return readl(rdev->regs + reg);
}

static inline void rnic_write(struct rnic_dev *rdev, u32 reg, u32 value)
{
	writel(value, rdev->regs + reg);
}

/* rnic_main.c */
/*
 * The device failed or is gone: no more commands; its DMA is stopped by a work
 * item, which then ends every connection towards iw_cm. From any context.
 */
void rnic_kill(struct rnic_dev *rdev);
int rnic_mem_alloc(struct rnic_dev *rdev, struct rnic_mem *mem, size_t size);
void rnic_mem_free(struct rnic_dev *rdev, struct rnic_mem *mem);

/* rnic_cmd.c */
int rnic_adminq_init(struct rnic_dev *rdev);
void rnic_adminq_free(struct rnic_dev *rdev);
/* Takes completions from the ACQ; from any context */
void rnic_adminq_poll(struct rnic_dev *rdev);
/* Wakes everybody who waits for an answer; after the device was stopped */
void rnic_adminq_abort(struct rnic_dev *rdev);
/*
 * Runs a command and sleeps until it is answered. @result may be NULL. When it
 * returns -EIO the device is dead and touches no memory any more.
 */
int rnic_cmd(struct rnic_dev *rdev, struct rnic_asqe *cmd,
	     struct rnic_acqe *result);
/*
 * A destroy command: afterwards the device does not use the object, since a
 * device that refuses is stopped
 */
void rnic_cmd_destroy(struct rnic_dev *rdev, u8 opcode, u32 id);

/* rnic_eq.c */
int rnic_eqs_create(struct rnic_dev *rdev);
void rnic_eqs_free(struct rnic_dev *rdev);
int rnic_irqs_request(struct rnic_dev *rdev);
void rnic_irqs_free(struct rnic_dev *rdev);
/* Handles all asynchronous events that the device has written until now */
void rnic_aeq_flush(struct rnic_dev *rdev);
void rnic_aeq_work(struct work_struct *work);

/* rnic_uctx.c */
int rnic_kctx_create(struct rnic_dev *rdev);
void rnic_kctx_free(struct rnic_dev *rdev);
int rnic_alloc_ucontext(struct ib_ucontext *ibuc, struct ib_udata *udata);
void rnic_dealloc_ucontext(struct ib_ucontext *ibuc);
void rnic_disassociate_ucontext(struct ib_ucontext *ibuc);
int rnic_mmap(struct ib_ucontext *ibuc, struct vm_area_struct *vma);
void rnic_mmap_free(struct rdma_user_mmap_entry *entry);
/* The context of a verbs call, NULL udata: the kernel's */
struct rnic_uctx *rnic_uctx_of(struct rnic_dev *rdev, struct ib_udata *udata);
/* Gives @qp a status, zeroed; *dma: its address */
int rnic_status_get(struct rnic_dev *rdev, struct rnic_qp *qp,
		    dma_addr_t *dma);
void rnic_status_put(struct rnic_qp *qp);
/* Where a user process finds it */
void rnic_status_user(struct rnic_qp *qp, struct rnic_create_qp_resp *resp);

/* rnic_pbl.c: page tables, needed only while the command runs */
struct rnic_pbl;
int rnic_pbl_create(struct rnic_dev *rdev, struct ib_umem *umem, u64 virt,
		    struct rnic_buf_desc *desc, struct rnic_pbl **pbl);
void rnic_pbl_free(struct rnic_dev *rdev, struct rnic_pbl *pbl);
static inline void rnic_mem_desc(const struct rnic_mem *mem,
				 struct rnic_buf_desc *desc)
{
	*desc = (struct rnic_buf_desc) {
		.addr = cpu_to_le64(mem->dma),
		.length = cpu_to_le64(mem->size),
	};
}

/* rnic_verbs.c */
extern const struct ib_device_ops rnic_dev_ops;

/* rnic_mr.c */
u32 rnic_access(struct rnic_dev *rdev, int ib_access);
struct ib_mr *rnic_get_dma_mr(struct ib_pd *ibpd, int access);
struct ib_mr *rnic_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
			    u32 max_num_sg);
int rnic_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents,
		   unsigned int *offset);
int rnic_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);

/* rnic_cq.c */
int rnic_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		   struct rnic_cq_attrs *attrs);
int rnic_modify_cq(struct ib_cq *ibcq, u16 count, u16 period);
int rnic_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int rnic_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc);
int rnic_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);
/* A completion event; in hard interrupt context */
void rnic_cq_event(struct rnic_dev *rdev, u32 cqn);
void rnic_cq_add_qp(struct rnic_qp *qp);
/* Drops the CQEs of a destroyed QP */
void rnic_cq_remove_qp(struct rnic_qp *qp);
/* Of a dead device: tells the consumers of kernel CQs to poll, so that they find
 * everything flushed
 */
void rnic_cq_flush_work(struct work_struct *work);
/* Tells all processes once, when their QPs' status says that the device died */
void rnic_cq_wake_processes(struct rnic_dev *rdev);

/* rnic_srq.c */
int rnic_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr,
		    struct ib_udata *udata);
int rnic_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		    enum ib_srq_attr_mask mask, struct ib_udata *udata);
int rnic_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int rnic_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);

/* rnic_qp.c */
/* The smallest stride for @octets, 0: none is large enough */
u32 rnic_stride(size_t octets);
int rnic_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
		   struct ib_udata *udata);
int rnic_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata);
int rnic_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init_attr);
int rnic_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
/* With a reference, NULL: no such QP */
struct rnic_qp *rnic_qp_get(struct rnic_dev *rdev, u32 qpn);
void rnic_qp_put(struct rnic_qp *qp);
enum rnic_qp_state rnic_qp_hw_state(struct rnic_qp *qp);
int rnic_qp_set_state(struct rnic_dev *rdev, u32 qpn,
		      enum rnic_qp_state state);

/* rnic_post.c */
int rnic_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad_wr);
int rnic_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr);
/*
 * Policy held: gives the device what was posted before RTS, of a kernel or a
 * user QP. After the QP left RNIC_QPS_IDLE, before anybody is told. May sleep.
 */
void rnic_sq_release(struct rnic_dev *rdev, struct rnic_qp *qp);
int rnic_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr);
/* For a QP of that context; for the net queue in the kernel's */
void rnic_ring_doorbell(struct rnic_dev *rdev, struct rnic_uctx *uctx, u32 qpn);
static inline void *rnic_wqe(struct rnic_wq *wq, u32 index)
{
	return wq->ring + (index & (wq->depth - 1)) * wq->stride;
}

/* rnic_cm.c */
void rnic_iw_add_ref(struct ib_qp *ibqp);
void rnic_iw_rem_ref(struct ib_qp *ibqp);
struct ib_qp *rnic_iw_get_qp(struct ib_device *ibdev, int qpn);
int rnic_iw_connect(struct iw_cm_id *id, struct iw_cm_conn_param *param);
int rnic_iw_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param);
int rnic_iw_reject(struct iw_cm_id *id, const void *pdata, u8 len);
int rnic_iw_create_listen(struct iw_cm_id *id, int backlog);
int rnic_iw_destroy_listen(struct iw_cm_id *id);
/* The work of a QP whose connection the packet filter refused */
void rnic_cm_refused_work(struct work_struct *work);
/* One event of connection management, on event_wq */
void rnic_cm_event(struct rnic_dev *rdev, const struct rnic_aeqe *aeqe);
/* The events that the dead device still owes to iw_cm, on event_wq */
void rnic_cm_abort(struct rnic_qp *qp);
/* Ends the connection of a QP that is to be destroyed, waits for its events */
void rnic_cm_finish(struct rnic_dev *rdev, struct rnic_qp *qp);
void rnic_sockaddr_name(const struct rnic_sockaddr *addr, char *name,
			size_t size);

/* rnic_filter.c: may sleep */
#ifdef RNIC_FILTER
/*
 * What the packet filter of the name space that the net device is in says of a
 * connection to be made by the current process, and of one that a peer asks
 * for. 0, or an error; a refusal was counted and logged.
 */
int rnic_filter_connect(struct rnic_dev *rdev,
			const struct rnic_sockaddr *local,
			const struct rnic_sockaddr *remote);
int rnic_filter_request(struct rnic_dev *rdev,
			const struct rnic_sockaddr *local,
			const struct rnic_sockaddr *remote);
#else
static inline int rnic_filter_connect(struct rnic_dev *rdev,
				      const struct rnic_sockaddr *local,
				      const struct rnic_sockaddr *remote)
{
	return 0;
}

static inline int rnic_filter_request(struct rnic_dev *rdev,
				      const struct rnic_sockaddr *local,
				      const struct rnic_sockaddr *remote)
{
	return 0;
}
#endif

/* rnic_netdev.c */
/*
 * The device has been told of the addresses that the net device has now, and of
 * those that are gone. Sleeps while it is told; may be called under RTNL.
 */
void rnic_addrs_flush(struct rnic_dev *rdev);
int rnic_netdev_register(struct rnic_dev *rdev);
void rnic_netdev_unregister(struct rnic_dev *rdev);
/* Reports the net device's state as that of the port */
int rnic_port_watch(struct rnic_dev *rdev);
void rnic_port_unwatch(struct rnic_dev *rdev);

/* rnic_net.c */
struct rnic_net;
int rnic_net_init(struct rnic_dev *rdev);
void rnic_net_free(struct rnic_dev *rdev);
int rnic_net_open(struct rnic_dev *rdev);
void rnic_net_stop(struct rnic_dev *rdev);
int rnic_net_change_mtu(struct rnic_dev *rdev, int mtu);
void rnic_net_get_stats64(struct rnic_dev *rdev,
			  struct rtnl_link_stats64 *stats);
netdev_tx_t rnic_net_xmit(struct rnic_net *net, struct sk_buff *skb);
/* In hard interrupt context */
void rnic_net_interrupt(struct rnic_dev *rdev);

/* rnic_stats.c */
struct rdma_hw_stats *rnic_alloc_device_stats(struct ib_device *ibdev);
struct rdma_hw_stats *rnic_alloc_port_stats(struct ib_device *ibdev, u32 port);
int rnic_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		      u32 port, int index);
int rnic_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp);
int rnic_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq);

#endif
