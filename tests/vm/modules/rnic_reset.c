// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Resets the first rnic of the machine without asking its driver, as a machine
 * does that wakes up from sleep
 */
#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <rnic/regs.h>

static int __init reset_init(void)
{
	struct pci_dev *pdev;
	void __iomem *regs;

	pdev = pci_get_device(RNIC_PCI_VENDOR_ID, RNIC_PCI_DEVICE_ID, NULL);
	if (!pdev)
		return -ENODEV;
	regs = pci_iomap(pdev, RNIC_BAR_REGS, RNIC_BAR_REGS_SIZE);
	if (regs) {
		writel(RNIC_CTRL_RESET, regs + RNIC_REG_CTRL);
		pci_iounmap(pdev, regs);
	}
	pci_dev_put(pdev);
	return regs ? 0 : -ENOMEM;
}

static void __exit reset_exit(void)
{
}

module_init(reset_init);
module_exit(reset_exit);
MODULE_DESCRIPTION("rnic test: a reset that the driver did not ask for");
MODULE_LICENSE("GPL");
