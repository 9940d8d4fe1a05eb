// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Event queues and their interrupts
 */
#include <linux/interrupt.h>
#include <linux/log2.h>

#include "rnic.h"

/* phase: that of the entry with index ci */
static bool eq_is_new(struct rnic_eq *eq, u32 ci, const u8 *phase)
{
	if ((READ_ONCE(*phase) & 1) == !!(ci & eq->depth))
		return false;
	dma_rmb();
	return true;
}

static struct rnic_ceqe *ceq_next(struct rnic_eq *eq)
{
	struct rnic_ceqe *ring = eq->mem.va;
	struct rnic_ceqe *ceqe = &ring[eq->ci & (eq->depth - 1)];

	return eq_is_new(eq, eq->ci, &ceqe->phase) ? ceqe : NULL;
}

/* The interrupt handler peeks while aeq_work moves ci */
static struct rnic_aeqe *aeq_next(struct rnic_eq *eq)
{
	u32 ci = READ_ONCE(eq->ci);
	struct rnic_aeqe *ring = eq->mem.va;
	struct rnic_aeqe *aeqe = &ring[ci & (eq->depth - 1)];

	return eq_is_new(eq, ci, &aeqe->phase) ? aeqe : NULL;
}

static void eq_consume(struct rnic_eq *eq)
{
	WRITE_ONCE(eq->ci, eq->ci + 1);
	/* The entry was read before the device may write it again */
	dma_mb();
	WRITE_ONCE(eq->dbrec->ci, cpu_to_le32(eq->ci));
}

static void eq_arm(struct rnic_eq *eq)
{
	WRITE_ONCE(eq->dbrec->arm, cpu_to_le32(eq->ci));
	/* The device sees the arming, or the caller, who looks once more, its
	 * entry
	 */
	mb();
}

static void ceq_poll(struct rnic_eq *eq)
{
	struct rnic_ceqe *ceqe;
	u32 cqn;

	/* Not created yet */
	if (!smp_load_acquire(&eq->depth))
		return;
	do {
		while ((ceqe = ceq_next(eq))) {
			cqn = le32_to_cpu(ceqe->cqn);
			/* Before the consumer can arm its CQ again: a CQ has
			 * one entry at a time
			 */
			eq_consume(eq);
			rnic_cq_event(eq->rdev, cqn);
		}
		eq_arm(eq);
	} while (ceq_next(eq));
}

static void qp_event(struct rnic_dev *rdev, u32 qpn, enum ib_event_type type,
		     const struct rnic_aeqe *aeqe)
{
	struct rnic_qp *qp = rnic_qp_get(rdev, qpn);
	struct ib_event event = { .device = &rdev->ibdev, .event = type };
	u32 term = le32_to_cpu(aeqe->term);

	if (!qp)
		return;
	if (term & RNIC_TERM_VALID)
		ibdev_dbg(&rdev->ibdev, "QP %u: Terminate %s: %u/%u/%02x\n",
			  qpn,
			  term & RNIC_TERM_REMOTE ? "from the peer" : "sent",
			  (term >> 16) & 0xff, (term >> 8) & 0xff, term & 0xff);
	/* For whoever left IDLE by going around the policy */
	if (type == IB_EVENT_QP_FATAL)
		rnic_sq_release(rdev, qp);
	event.element.qp = &qp->ibqp;
	if (qp->ibqp.event_handler)
		qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
	rnic_qp_put(qp);
}

/* CQs and SRQs need no reference: destroying one flushes the AEQ first */
static void cq_error(struct rnic_dev *rdev, u32 cqn)
{
	struct rnic_cq *cq = xa_load(&rdev->cqs, cqn);
	struct ib_event event = {
		.device = &rdev->ibdev,
		.event = IB_EVENT_CQ_ERR,
	};

	if (!cq)
		return;
	ibdev_err_ratelimited(&rdev->ibdev, "CQ %u overflowed\n", cqn);
	event.element.cq = &cq->ibcq;
	if (cq->ibcq.event_handler)
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
}

static void srq_event(struct rnic_dev *rdev, u32 srqn, enum ib_event_type type)
{
	struct rnic_srq *srq = xa_load(&rdev->srqs, srqn);
	struct ib_event event = { .device = &rdev->ibdev, .event = type };

	if (!srq)
		return;
	event.element.srq = &srq->ibsrq;
	if (srq->ibsrq.event_handler)
		srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
}

static void addr_conflict(struct rnic_dev *rdev, const struct rnic_aeqe *aeqe)
{
	char name[48];

	rnic_sockaddr_name(&aeqe->local, name, sizeof(name));
	/* The command that failed is what is reported, once */
	ibdev_dbg(&rdev->ibdev, "another device has claimed %s\n", name);
}

static void aeq_handle(struct rnic_dev *rdev, const struct rnic_aeqe *aeqe)
{
	u16 type = le16_to_cpu(aeqe->type);
	u32 id = le32_to_cpu(aeqe->id);

	switch (type) {
	case RNIC_EV_CONNECT_REQUEST:
	case RNIC_EV_CONNECT_REPLY:
	case RNIC_EV_ESTABLISHED:
	case RNIC_EV_DISCONNECT:
	case RNIC_EV_CLOSE:
	case RNIC_EV_LISTEN_ERROR:
		rnic_cm_event(rdev, aeqe);
		break;
	case RNIC_EV_QP_FATAL:
		qp_event(rdev, id, IB_EVENT_QP_FATAL, aeqe);
		break;
	case RNIC_EV_QP_REQ_ERR:
		qp_event(rdev, id, IB_EVENT_QP_REQ_ERR, aeqe);
		break;
	case RNIC_EV_QP_ACCESS_ERR:
		qp_event(rdev, id, IB_EVENT_QP_ACCESS_ERR, aeqe);
		break;
	case RNIC_EV_SQ_DRAINED:
		qp_event(rdev, id, IB_EVENT_SQ_DRAINED, aeqe);
		break;
	case RNIC_EV_QP_LAST_WQE:
		qp_event(rdev, id, IB_EVENT_QP_LAST_WQE_REACHED, aeqe);
		break;
	case RNIC_EV_CQ_ERR:
		cq_error(rdev, id);
		break;
	case RNIC_EV_SRQ_LIMIT:
		srq_event(rdev, id, IB_EVENT_SRQ_LIMIT_REACHED);
		break;
	case RNIC_EV_SRQ_ERR:
		srq_event(rdev, id, IB_EVENT_SRQ_ERR);
		break;
	case RNIC_EV_ADDR_CONFLICT:
		addr_conflict(rdev, aeqe);
		break;
	default:
		/* A newer minor version may have more */
		ibdev_dbg(&rdev->ibdev, "unknown event %u\n", type);
		break;
	}
}

void rnic_aeq_work(struct work_struct *work)
{
	struct rnic_dev *rdev = container_of(work, struct rnic_dev, aeq_work);
	struct rnic_eq *eq = &rdev->aeq;
	struct rnic_aeqe *aeqe;

	do {
		while ((aeqe = aeq_next(eq))) {
			aeq_handle(rdev, aeqe);
			eq_consume(eq);
		}
		eq_arm(eq);
	} while (aeq_next(eq));
}

void rnic_aeq_flush(struct rnic_dev *rdev)
{
	queue_work(rdev->event_wq, &rdev->aeq_work);
	flush_work(&rdev->aeq_work);
}

static irqreturn_t admin_irq(int irq, void *data)
{
	struct rnic_dev *rdev = data;

	rnic_adminq_poll(rdev);
	/* An answer to a command leaves the AEQ as it was; then the peek is
	 * all that it costs. aeq.depth: it is created by the first command.
	 */
	if (smp_load_acquire(&rdev->aeq.depth) && aeq_next(&rdev->aeq))
		queue_work(rdev->event_wq, &rdev->aeq_work);
	if (!rdev->net_vector)
		rnic_net_interrupt(rdev);
	return IRQ_HANDLED;
}

static irqreturn_t net_irq(int irq, void *data)
{
	rnic_net_interrupt(data);
	return IRQ_HANDLED;
}

static irqreturn_t ceq_irq(int irq, void *data)
{
	ceq_poll(data);
	return IRQ_HANDLED;
}

/* The only vector serves all */
static irqreturn_t shared_irq(int irq, void *data)
{
	struct rnic_dev *rdev = data;

	admin_irq(irq, data);
	ceq_poll(&rdev->ceqs[0]);
	return IRQ_HANDLED;
}

int rnic_irqs_request(struct rnic_dev *rdev)
{
	struct pci_dev *pdev = rdev->pdev;
	unsigned int want, i;
	int ret, cpu;

	want = min(num_online_cpus() + 1, rdev->limits.eq);
	if (rdev->caps & RNIC_CAP_NET)
		want++;
	want = min(want, rnic_read(rdev, RNIC_REG_VECTORS));
	ret = pci_alloc_irq_vectors(pdev, 1, max(want, 1u), PCI_IRQ_MSIX);
	if (ret < 0) {
		dev_err(&pdev->dev, "cannot get an MSI-X vector: %d\n", ret);
		return ret;
	}
	/* Only a vector that completions can do without */
	rdev->net_vector = 0;
	if (rdev->caps & RNIC_CAP_NET && ret > 2)
		rdev->net_vector = --ret;
	rdev->num_vectors = ret;
	rdev->num_ceqs = max(ret - 1, 1);
	rdev->ceqs = kcalloc(rdev->num_ceqs, sizeof(*rdev->ceqs), GFP_KERNEL);
	if (!rdev->ceqs) {
		ret = -ENOMEM;
		goto err_vectors;
	}

	rdev->aeq.irq = pci_irq_vector(pdev, 0);
	ret = request_irq(rdev->aeq.irq,
			  rdev->num_vectors == 1 ? shared_irq : admin_irq, 0,
			  "rnic-admin", rdev);
	if (ret)
		goto err_ceqs;
	rdev->ceqs[0].irq = rdev->aeq.irq;
	if (rdev->net_vector) {
		ret = request_irq(pci_irq_vector(pdev, rdev->net_vector),
				  net_irq, 0, "rnic-net", rdev);
		if (ret)
			goto err_aeq;
	}

	cpu = cpumask_first(cpu_online_mask);
	for (i = 1; i < rdev->num_vectors; i++) {
		struct rnic_eq *eq = &rdev->ceqs[i - 1];

		eq->irq = pci_irq_vector(pdev, i);
		ret = request_irq(eq->irq, ceq_irq, 0, "rnic-comp", eq);
		if (ret)
			goto err_irqs;
		irq_set_affinity_and_hint(eq->irq, cpumask_of(cpu));
		cpu = cpumask_next(cpu, cpu_online_mask);
		if (cpu >= nr_cpu_ids)
			cpu = cpumask_first(cpu_online_mask);
	}
	return 0;

err_irqs:
	while (--i > 0) {
		irq_set_affinity_and_hint(rdev->ceqs[i - 1].irq, NULL);
		free_irq(rdev->ceqs[i - 1].irq, &rdev->ceqs[i - 1]);
	}
	if (rdev->net_vector)
		free_irq(pci_irq_vector(pdev, rdev->net_vector), rdev);
err_aeq:
	free_irq(rdev->aeq.irq, rdev);
err_ceqs:
	kfree(rdev->ceqs);
err_vectors:
	pci_free_irq_vectors(pdev);
	return ret;
}

void rnic_irqs_free(struct rnic_dev *rdev)
{
	unsigned int i;

	for (i = 1; i < rdev->num_vectors; i++) {
		irq_set_affinity_and_hint(rdev->ceqs[i - 1].irq, NULL);
		free_irq(rdev->ceqs[i - 1].irq, &rdev->ceqs[i - 1]);
	}
	if (rdev->net_vector)
		free_irq(pci_irq_vector(rdev->pdev, rdev->net_vector), rdev);
	free_irq(rdev->aeq.irq, rdev);
	pci_free_irq_vectors(rdev->pdev);
}

static int eq_create(struct rnic_dev *rdev, struct rnic_eq *eq, u32 eqn,
		     u32 vector, u32 depth, size_t entry)
{
	struct rnic_asqe cmd = { .opcode = RNIC_CMD_CREATE_EQ };
	struct rnic_cmd_create_eq *create = &cmd.create_eq;
	u32 dbrec_offset = depth * entry;
	int ret;

	BUILD_BUG_ON(sizeof(struct rnic_eq_dbrec) != 64);
	ret = rnic_mem_alloc(rdev, &eq->mem,
			     dbrec_offset + sizeof(struct rnic_eq_dbrec));
	if (ret)
		return ret;
	eq->rdev = rdev;
	eq->eqn = eqn;
	/* ci = arm = 0: the first entry interrupts */
	eq->dbrec = eq->mem.va + dbrec_offset;
	/* The interrupt handler takes depth as the sign that all is set */
	smp_store_release(&eq->depth, depth);

	create->eqn = cpu_to_le32(eqn);
	create->vector = cpu_to_le32(vector);
	create->depth = cpu_to_le32(depth);
	create->dbrec_offset = cpu_to_le32(dbrec_offset);
	rnic_mem_desc(&eq->mem, &create->buf);
	/* On an error the caller stops the device, then frees all */
	return rnic_cmd(rdev, &cmd, NULL);
}

int rnic_eqs_create(struct rnic_dev *rdev)
{
	u32 depth, vector;
	unsigned int i;
	int ret;

	depth = min_t(u32, RNIC_AEQ_DEPTH, rdev->limits.eq_depth);
	ret = eq_create(rdev, &rdev->aeq, RNIC_AEQN, 0,
			rounddown_pow_of_two(depth), sizeof(struct rnic_aeqe));
	if (ret)
		return ret;

	/* As deep as there can be CQs: a consumer may give one vector to all */
	depth = roundup_pow_of_two(max(rdev->limits.cq, 2u));
	depth = min_t(u32, depth, rounddown_pow_of_two(rdev->limits.eq_depth));
	for (i = 0; i < rdev->num_ceqs; i++) {
		vector = rdev->num_vectors == 1 ? 0 : i + 1;
		ret = eq_create(rdev, &rdev->ceqs[i], i + 1, vector, depth,
				sizeof(struct rnic_ceqe));
		if (ret)
			return ret;
	}
	return 0;
}

void rnic_eqs_free(struct rnic_dev *rdev)
{
	unsigned int i;

	for (i = 0; i < rdev->num_ceqs; i++)
		rnic_mem_free(rdev, &rdev->ceqs[i].mem);
	rnic_mem_free(rdev, &rdev->aeq.mem);
	kfree(rdev->ceqs);
}
