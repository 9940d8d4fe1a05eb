// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The admin queue
 */
#include <linux/moduleparam.h>

#include "rnic.h"

static unsigned int cmd_timeout_ms = 30000;
module_param(cmd_timeout_ms, uint, 0644);
MODULE_PARM_DESC(cmd_timeout_ms,
		 "how long the device may take to answer a command (ms)");

static int cmd_errno(u16 status)
{
	switch (status) {
	case RNIC_ADMIN_OK:
		return 0;
	case RNIC_ADMIN_BAD_OPCODE:
		return -EOPNOTSUPP;
	case RNIC_ADMIN_IN_USE:
		return -EBUSY;
	case RNIC_ADMIN_NO_RESOURCES:
		return -ENOMEM;
	case RNIC_ADMIN_BAD_ADDRESS:
		return -EFAULT;
	case RNIC_ADMIN_ADDR_IN_USE:
		return -EADDRINUSE;
	case RNIC_ADMIN_ADDR_NOT_AVAIL:
		return -EADDRNOTAVAIL;
	case RNIC_ADMIN_REFUSED:
		return -EACCES;
	case RNIC_ADMIN_CONN_GONE:
		return -ECONNRESET;
	case RNIC_ADMIN_BAD_PARAM:
	case RNIC_ADMIN_BAD_ID:
	case RNIC_ADMIN_BAD_STATE:
	default:
		return -EINVAL;
	}
}

int rnic_adminq_init(struct rnic_dev *rdev)
{
	struct rnic_adminq *aq = &rdev->aq;
	int i, ret;

	spin_lock_init(&aq->lock);
	sema_init(&aq->credits, RNIC_ADMIN_DEPTH);
	for (i = 0; i < RNIC_ADMIN_DEPTH; i++)
		init_completion(&aq->slots[i].done);

	/* Coherent memory is page aligned, as both rings must be */
	ret = rnic_mem_alloc(rdev, &aq->sq_mem,
			     RNIC_ADMIN_DEPTH * sizeof(struct rnic_asqe));
	if (ret)
		return ret;
	ret = rnic_mem_alloc(rdev, &aq->cq_mem,
			     RNIC_ADMIN_DEPTH * sizeof(struct rnic_acqe));
	if (ret) {
		rnic_mem_free(rdev, &aq->sq_mem);
		return ret;
	}

	rnic_write(rdev, RNIC_REG_ASQ_LO, lower_32_bits(aq->sq_mem.dma));
	rnic_write(rdev, RNIC_REG_ASQ_HI, upper_32_bits(aq->sq_mem.dma));
	rnic_write(rdev, RNIC_REG_ACQ_LO, lower_32_bits(aq->cq_mem.dma));
	rnic_write(rdev, RNIC_REG_ACQ_HI, upper_32_bits(aq->cq_mem.dma));
	rnic_write(rdev, RNIC_REG_ADMIN_DEPTH, RNIC_ADMIN_DEPTH);
	return 0;
}

void rnic_adminq_free(struct rnic_dev *rdev)
{
	rnic_mem_free(rdev, &rdev->aq.cq_mem);
	rnic_mem_free(rdev, &rdev->aq.sq_mem);
}

void rnic_adminq_poll(struct rnic_dev *rdev)
{
	struct rnic_adminq *aq = &rdev->aq;
	struct rnic_acqe *ring = aq->cq_mem.va;
	struct rnic_cmd_slot *slot;
	struct rnic_acqe *acqe;
	unsigned long flags;
	u16 cookie;

	spin_lock_irqsave(&aq->lock, flags);
	for (;;) {
		acqe = &ring[aq->ci % RNIC_ADMIN_DEPTH];
		if ((READ_ONCE(acqe->phase) & 1) ==
		    ((aq->ci / RNIC_ADMIN_DEPTH) & 1))
			break;
		dma_rmb();
		aq->ci++;
		cookie = le16_to_cpu(acqe->cookie);
		if (cookie >= RNIC_ADMIN_DEPTH || !test_bit(cookie, aq->busy)) {
			dev_err_ratelimited(&rdev->pdev->dev,
					    "answer to no command (%u)\n",
					    cookie);
			continue;
		}
		slot = &aq->slots[cookie];
		if (slot->answered)
			continue;
		slot->result = *acqe;
		slot->answered = true;
		complete(&slot->done);
	}
	spin_unlock_irqrestore(&aq->lock, flags);
}

void rnic_adminq_abort(struct rnic_dev *rdev)
{
	struct rnic_adminq *aq = &rdev->aq;
	unsigned long flags;
	unsigned int i;

	spin_lock_irqsave(&aq->lock, flags);
	for_each_set_bit(i, aq->busy, RNIC_ADMIN_DEPTH)
		complete(&aq->slots[i].done);
	spin_unlock_irqrestore(&aq->lock, flags);
}

/* NULL: the device is dead */
static struct rnic_cmd_slot *cmd_submit(struct rnic_dev *rdev,
					struct rnic_asqe *cmd)
{
	struct rnic_adminq *aq = &rdev->aq;
	struct rnic_asqe *ring = aq->sq_mem.va;
	struct rnic_cmd_slot *slot = NULL;
	unsigned long flags;
	unsigned int i;

	down(&aq->credits);
	spin_lock_irqsave(&aq->lock, flags);
	/* Checked under the lock: rnic_adminq_abort() sees every slot whose
	 * command was sent before the device died
	 */
	if (rnic_is_dead(rdev)) {
		up(&aq->credits);
		goto out;
	}
	i = find_first_zero_bit(aq->busy, RNIC_ADMIN_DEPTH);
	__set_bit(i, aq->busy);
	slot = &aq->slots[i];
	slot->answered = false;
	reinit_completion(&slot->done);
	cmd->cookie = cpu_to_le16(i);
	ring[aq->pi % RNIC_ADMIN_DEPTH] = *cmd;
	/* rnic_write() orders it before the doorbell */
	rnic_write(rdev, RNIC_REG_ASQ_DB, ++aq->pi);
out:
	spin_unlock_irqrestore(&aq->lock, flags);
	return slot;
}

static void cmd_release(struct rnic_dev *rdev, struct rnic_cmd_slot *slot)
{
	struct rnic_adminq *aq = &rdev->aq;
	unsigned long flags;

	spin_lock_irqsave(&aq->lock, flags);
	__clear_bit(slot - aq->slots, aq->busy);
	spin_unlock_irqrestore(&aq->lock, flags);
	up(&aq->credits);
}

int rnic_cmd(struct rnic_dev *rdev, struct rnic_asqe *cmd,
	     struct rnic_acqe *result)
{
	unsigned long timeout = msecs_to_jiffies(READ_ONCE(cmd_timeout_ms));
	struct rnic_cmd_slot *slot;
	int ret = -EIO;
	u16 status;

	slot = cmd_submit(rdev, cmd);
	if (!slot)
		goto dead;

	if (!wait_for_completion_timeout(&slot->done, timeout)) {
		/* The answer may be there and only its interrupt be lost */
		rnic_adminq_poll(rdev);
		if (!READ_ONCE(slot->answered) && !rnic_is_dead(rdev)) {
			dev_err(&rdev->pdev->dev,
				"command %u got no answer in %u ms\n",
				cmd->opcode, cmd_timeout_ms);
			rnic_kill(rdev);
		}
		wait_for_completion(&slot->done);
	}

	/* Not answered: the device died, after which nobody answers */
	if (slot->answered) {
		status = le16_to_cpu(slot->result.status);
		ret = cmd_errno(status);
		if (result)
			*result = slot->result;
		if (ret)
			ibdev_dbg(&rdev->ibdev, "command %u: status %u\n",
				  cmd->opcode, status);
	}
	cmd_release(rdev, slot);
	if (ret != -EIO)
		return ret;
dead:
	/* The caller may free what the device could have used until now */
	wait_for_completion(&rdev->quiesced);
	return -EIO;
}

void rnic_cmd_destroy(struct rnic_dev *rdev, u8 opcode, u32 id)
{
	struct rnic_asqe cmd = { .opcode = opcode };
	int ret;

	cmd.id.id = cpu_to_le32(id);
	ret = rnic_cmd(rdev, &cmd, NULL);
	if (!ret || ret == -EIO)
		return;
	dev_err(&rdev->pdev->dev, "cannot destroy object %u (command %u): %d\n",
		id, opcode, ret);
	rnic_kill(rdev);
	wait_for_completion(&rdev->quiesced);
}
