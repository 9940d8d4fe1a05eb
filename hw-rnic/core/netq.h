/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The net queue: IP packets between the devices of a loopback fabric
 *
 * A packet is a datagram from the claim (net/claim.h) of its source address to
 * that of its destination. Nothing queues here: what the driver posted waits in
 * its ring, what arrived waits in the host's socket, and both are bounded. A
 * receiver that is short of buffers, or of time, so holds its senders back for a
 * while, before packets are dropped.
 */
#ifndef RNIC_NETQ_H
#define RNIC_NETQ_H

#include "device.h"
#include "net/addr.h"
#include "net/packet.h"
#include "rnic/net.h"

struct rnic_netq {
    struct rnic_device *dev;
    uint32_t vector;
    uint32_t tx_depth, rx_depth;
    uint32_t tx_offset, rx_offset, cq_offset, dbrec_offset;
    uint64_t status_addr;
    struct rnic_buf buf;
    /* A ring or the status is not RAM, or an index made no sense: nothing
     * happens until DESTROY_NETQ */
    bool failed;
    GPtrArray *ports; /* struct rnic_netq_port: claims to read */

    uint32_t tx_pi, tx_ci;  /* free-running; tx_pi as last read */
    uint32_t tx_told;       /* tx_ci as last published */
    bool tx_ready;          /* in rnic_netq_run()'s hands */
    uint64_t wait_since_ns; /* the packet at tx_ci waits for its receiver
                                 * since then; 0: it does not */
    struct rnic_timer retry;
    /* A bit for each destination that last did not take a packet within the
     * time it is given: gets no time until it takes one. By the low 17 bits of
     * the host's address, which tell all of a fabric apart. */
    uint64_t *slow;

    uint32_t rx_pi, rx_ci;
    uint32_t rx_told; /* rx_ci when the arm index was last read */
    /* No buffer is posted, since then; 0: there is one, as far as is known */
    uint64_t starved_since_ns;
    bool starved;               /* for too long: packets are dropped */
    struct rnic_timer rx_retry; /* while armed the claims are not read */
};

/* For how long a receiver holds back its senders before packets are lost, and
 * how often it is looked at meanwhile */
#define RNIC_NETQ_PATIENCE_NS UINT64_C(200000000)
#define RNIC_NETQ_RETRY_US    50

/* RNIC_CAP_NET, or 0 */
uint64_t rnic_netq_caps(struct rnic_device *dev);
enum rnic_admin_status rnic_netq_create(struct rnic_device *dev,
                                        const struct rnic_cmd_create_netq *cmd);
enum rnic_admin_status rnic_netq_destroy(struct rnic_device *dev);
/* Without a trace in guest memory */
void rnic_netq_reset(struct rnic_device *dev);
/* The machine stood still: nobody was waited for meanwhile */
void rnic_netq_resumed(struct rnic_device *dev);
/* An address was added, or is about to be removed */
void rnic_netq_addr_added(struct rnic_device *dev, struct rnic_addr *addr);
void rnic_netq_addr_removed(struct rnic_device *dev, struct rnic_addr *addr);
/* The driver rang; there is a net queue */
void rnic_netq_kick(struct rnic_device *dev);
/* Transmits; true if it stopped early to let others work */
bool rnic_netq_run(struct rnic_device *dev);

/* ---- For the net queue's own files ---- */

/* A claim that is read */
struct rnic_netq_port {
    struct rnic_source source;
    struct rnic_netq *netq;
    struct rnic_addr *addr;
};

/* Fails the net queue; @why for the trace */
void rnic_netq_fail(struct rnic_netq *netq, const char *why);
/* Whether to read the claims */
void rnic_netq_read_ports(struct rnic_netq *netq, bool read);
/* A word of the doorbell record; false: failed */
bool rnic_netq_dbrec(struct rnic_netq *netq, size_t offset, uint32_t *value);
/* Whether index @arm is one of [from, to) */
static inline bool rnic_netq_armed(uint32_t arm, uint32_t from, uint32_t to)
{
    return arm - from < to - from;
}

/* Guest memory of a packet or buffer, mapped within one call */
#define RNIC_NETQ_MAX_PIECES 32
struct rnic_netq_map {
    struct iovec iov[RNIC_NETQ_MAX_PIECES];
    unsigned count;
    enum rnic_dma_dir dir;
};
/* @len <= RNIC_NET_MAX_PACKET; false: not RAM, nothing is mapped */
bool rnic_netq_map(struct rnic_netq *netq, struct rnic_netq_map *map,
                   uint64_t addr, uint32_t len, enum rnic_dma_dir dir);
/* @used: octets from the start that were written */
void rnic_netq_unmap(struct rnic_netq *netq, struct rnic_netq_map *map,
                     size_t used);
/*
 * @iov: the @header_len octets at @header, then what is mapped behind as many
 * octets, up to @len octets in all. Returns its count, at most
 * RNIC_NETQ_MAX_PIECES + 1.
 */
unsigned rnic_netq_gather(const struct rnic_netq_map *map, struct iovec *iov,
                          uint8_t *header, size_t header_len, size_t len);

void rnic_netq_port_ready(struct rnic_source *source, uint32_t events);

#endif
