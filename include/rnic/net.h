/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * rnic hardware interface: the net queue, which carries IP packets between the
 * devices of a loopback fabric (RNIC_CAP_NET; interface 1.1)
 *
 * A device has one, made by CREATE_NETQ. Its buffer holds a ring of transmit
 * descriptors, a ring of receive descriptors, a ring of receive completions
 * and the doorbell record. A packet is an IPv4 or IPv6 packet without a link
 * header, of at most RNIC_NET_MAX_PACKET octets, in one descriptor.
 */
#ifndef RNIC_NET_H
#define RNIC_NET_H

#include <linux/types.h>

#define RNIC_NET_MAX_PACKET 65535
#define RNIC_NETQ_MAX_DEPTH 4096
/* Rung for like a QP, in the bitmap of context 0; no QP has this number */
#define RNIC_NETQ_QPN 0

struct rnic_net_desc {
    __le64 addr;   /* DMA address of the packet or the buffer */
    __le32 length; /* octets */
    __le32 flags;  /* 0 */
};
_Static_assert(sizeof(struct rnic_net_desc) == 16, "rnic_net_desc");

/* rnic_net_cqe.flags */
#define RNIC_NET_RX_ERROR                                                      \
    (1u << 0) /* not RAM, or no octets: the
                                             * buffer was not used */

/*
 * Entry i belongs to receive descriptor i, since those are used in order; so
 * the ring has as many entries. Phase rule as a CQ.
 */
struct rnic_net_cqe {
    __le32 length; /* octets of the packet */
    __u8 flags;
    __u8 rsvd[2];
    __u8 phase; /* bit 0 */
};
_Static_assert(sizeof(struct rnic_net_cqe) == 8, "rnic_net_cqe");

/*
 * Doorbell record, 64-octet aligned in the buffer. Written by the driver, only
 * read by the device. The indices are free-running. The device interrupts
 * after it completed the transmit descriptor with index tx_arm, and after it
 * wrote the receive completion with index rx_arm; so after writing one of
 * these: full barrier, and look once more.
 */
struct rnic_netq_dbrec {
    __le32 tx_pi;
    __le32 rx_pi; /* read when a packet arrives: rings nothing */
    __le32 tx_arm;
    __le32 rx_arm;
    __u8 rsvd[48];
};
_Static_assert(sizeof(struct rnic_netq_dbrec) == 64, "rnic_netq_dbrec");

/*
 * What the device publishes: 16 octets, 16-aligned, anywhere in guest memory.
 * After publishing tx_pi = new (it was old), full barrier, the driver rings
 * only if (new - tx_event - 1) < (new - old) in 32-bit unsigned arithmetic.
 */
struct rnic_netq_status {
    __le32 tx_ci; /* transmit descriptors before it are done */
    __le32 tx_event;
    __le32 rsvd[2];
};
_Static_assert(sizeof(struct rnic_netq_status) == 16, "rnic_netq_status");

#endif
