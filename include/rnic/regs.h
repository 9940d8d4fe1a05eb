/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * rnic hardware interface: PCI identity, BARs, registers
 *
 * Included unchanged by the device, the guest driver, the provider and the
 * tests. Everything in guest memory and in registers is little-endian, except
 * IP addresses and TCP ports, which are in network order.
 */
#ifndef RNIC_REGS_H
#define RNIC_REGS_H

#include <linux/types.h>

#define RNIC_PCI_VENDOR_ID      0x1234
#define RNIC_PCI_DEVICE_ID      0x11ea
#define RNIC_PCI_REVISION       1

/* BAR0: registers, below */
#define RNIC_BAR_REGS           0
#define RNIC_BAR_REGS_SIZE      0x1000
/* BAR2 (64-bit): doorbell pages, one of RNIC_DB_PAGE_SIZE a user context */
#define RNIC_BAR_DB             2
#define RNIC_DB_PAGE_SIZE       0x1000
#define RNIC_DB_PAGES           1024
#define RNIC_BAR_DB_SIZE        (RNIC_DB_PAGES * RNIC_DB_PAGE_SIZE)
/* BAR4: MSI-X table and pending bits */
#define RNIC_BAR_MSIX           4
#define RNIC_MAX_VECTORS        64

/*
 * Registers are 32 bits wide at 4-octet aligned offsets; an aligned 8-octet
 * access covers two of them. A read of any other width, alignment or offset
 * returns 0; such a write has no effect. Both are traced as guest errors.
 * RO: writes have no effect. 64-bit values are pairs LO, HI.
 */
#define RNIC_REG_MAGIC          0x000   /* RO "RNIC" */
#define RNIC_MAGIC              0x43494e52
#define RNIC_REG_VERSION        0x004   /* RO major << 16 | minor */
#define RNIC_VERSION_MAJOR      1
#define RNIC_VERSION_MINOR      3
#define RNIC_REG_CAPS_LO        0x008   /* RO RNIC_CAP_* */
#define RNIC_REG_CAPS_HI        0x00c
#define RNIC_REG_CTRL           0x010   /* RW RNIC_CTRL_* */
#define RNIC_REG_STATUS         0x014   /* RO RNIC_STATUS_* */
#define RNIC_REG_ERROR          0x018   /* RO enum rnic_dev_error */
#define RNIC_REG_MAC_LO         0x020   /* RO octets 0..3 of the MAC, first
                                         * octet in bits 7..0 */
#define RNIC_REG_MAC_HI         0x024   /* RO octets 4..5 */
#define RNIC_REG_VECTORS        0x028   /* RO MSI-X vectors */

/* Limits, RO: how many objects, or the largest valid value */
#define RNIC_REG_MAX_QP         0x040   /* QPNs are 1 .. MAX_QP - 1 */
#define RNIC_REG_MAX_CQ         0x044   /* CQNs are 1 .. MAX_CQ - 1 */
#define RNIC_REG_MAX_SRQ        0x048   /* SRQNs are 1 .. MAX_SRQ - 1 */
#define RNIC_REG_MAX_EQ         0x04c   /* EQNs are 0 .. MAX_EQ - 1 */
#define RNIC_REG_MAX_MR         0x050
#define RNIC_REG_MAX_PD         0x054   /* PDNs are 1 .. MAX_PD - 1 */
#define RNIC_REG_MAX_UCTX       0x058   /* contexts are 0 .. MAX_UCTX - 1 */
#define RNIC_REG_MAX_LISTEN     0x05c   /* listener ids 0 .. MAX_LISTEN - 1 */
#define RNIC_REG_MAX_QP_WR      0x060   /* depth of an SQ, RQ or SRQ */
#define RNIC_REG_MAX_CQE        0x064   /* depth of a CQ */
#define RNIC_REG_MAX_SGE        0x068   /* of any work request */
#define RNIC_REG_MAX_INLINE     0x06c   /* octets */
#define RNIC_REG_MAX_IRD        0x070   /* inbound Reads of a QP */
#define RNIC_REG_MAX_ORD        0x074   /* outbound Reads of a QP */
#define RNIC_REG_MAX_MR_SIZE_LO 0x078   /* octets */
#define RNIC_REG_MAX_MR_SIZE_HI 0x07c
#define RNIC_REG_MAX_FR_PAGES   0x080   /* pages of a fast-registered region */
#define RNIC_REG_MAX_MSG_SIZE   0x084   /* octets */
#define RNIC_REG_MAX_PDATA      0x088   /* octets of ULP private data */
#define RNIC_REG_MAX_BACKLOG    0x08c
#define RNIC_REG_MAX_ADDR       0x090   /* addresses of the net device */
#define RNIC_REG_MAX_EQ_DEPTH   0x094

/*
 * Admin queue. The base addresses and the depth are taken over when
 * RNIC_CTRL_ENABLE goes from 0 to 1, and are read-only while it is 1.
 */
#define RNIC_REG_ASQ_LO         0x100   /* RW DMA address, 4 KiB aligned */
#define RNIC_REG_ASQ_HI         0x104
#define RNIC_REG_ACQ_LO         0x108   /* RW DMA address, 4 KiB aligned */
#define RNIC_REG_ACQ_HI         0x10c
#define RNIC_REG_ADMIN_DEPTH    0x110   /* RW entries of each: 2^n, 2..1024 */
#define RNIC_REG_ASQ_DB         0x114   /* RW free-running producer index of
                                         * the ASQ, 0 at first; no effect
                                         * while ENABLE is 0 */

/*
 * Writing RESET, or 0 to ENABLE while it is 1, resets the device: RESETTING is
 * 1 before the write ends, CTRL reads 0, every object, connection and counter
 * goes, and then all registers are as after power on. Until RESETTING is 0
 * again, writes of other registers and of ENABLE have no effect. While FATAL
 * is 1 ENABLE cannot be set.
 */
#define RNIC_CTRL_ENABLE        (1u << 0)
#define RNIC_CTRL_RESET         (1u << 1)   /* reads as 0 */

#define RNIC_STATUS_READY       (1u << 0)   /* the admin queue works */
#define RNIC_STATUS_RESETTING   (1u << 1)   /* wait until it is 0 */
#define RNIC_STATUS_FATAL       (1u << 2)   /* see ERROR; only reset helps */

/* Why RNIC_STATUS_FATAL */
enum rnic_dev_error {
    RNIC_DEV_ERR_NONE = 0,
    RNIC_DEV_ERR_ADMIN_CONFIG = 1,  /* bad base address or depth */
    RNIC_DEV_ERR_ADMIN_DMA = 2,     /* a ring of the admin queue is not RAM */
    RNIC_DEV_ERR_ADMIN_INDEX = 3,   /* ASQ_DB more than depth ahead */
    RNIC_DEV_ERR_EQ_DMA = 4,        /* an event queue is not RAM any more */
    RNIC_DEV_ERR_AEQ_OVERFLOW = 5,  /* EQ 0 was not drained for far too long */
};

/* Capability bits */
#define RNIC_CAP_LOCAL_DMA_LKEY (1ull << 0) /* RNIC_STAG_LOCAL_DMA works */
#define RNIC_CAP_FAST_REG       (1ull << 1) /* RNIC_WR_REG_MR, LOCAL_INV */
#define RNIC_CAP_SRQ            (1ull << 2)
#define RNIC_CAP_FENCE_PRE_RTS  (1ull << 3) /* WQEs posted before RTS wait */
#define RNIC_CAP_P2P            (1ull << 4) /* MPA peer-to-peer mode */
#define RNIC_CAP_ERROR_PRE_RTS  (1ull << 5) /* RNIC_QP_ERROR_PRE_RTS */
#define RNIC_CAP_NET            (1ull << 6) /* IP packets: net.h */
#define RNIC_CAP_RFC7306        (1ull << 7) /* RNIC_WR_IMM, WRITE_IMM, FETCH_ADD,
                                             * CMP_SWAP, CMP_SWAP_MASKED;
                                             * RNIC_ACCESS_REMOTE_ATOMIC */

/*
 * Doorbell pages. A 32-bit write of any value at RNIC_DB_KICK makes the device
 * look at the doorbell bitmap of the context of this page (struct
 * rnic_dbmap). Everything else in the page reads as 0 and ignores writes.
 */
#define RNIC_DB_KICK            0x000

/*
 * The doorbell bitmap of a context: guest memory, one page, given by
 * CREATE_UCTX. To ring for a QP: publish its producer indices, full barrier,
 * set bit (QPN & 63) of word[QPN >> 6] atomically, set bit ((QPN >> 6) & 63) of
 * summary[QPN >> 12] atomically, then write RNIC_DB_KICK. The device exchanges
 * summary words, then the words they name, with zero.
 */
struct rnic_dbmap {
    __le64 summary[4];
    __le64 word[256];
};
#define RNIC_DBMAP_SIZE         4096
_Static_assert(sizeof(struct rnic_dbmap) == 2080, "rnic_dbmap");

#endif
