/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest's net queue, and packets for it
 */
#ifndef TESTS_CORE_HARNESS_NETQ_H
#define TESTS_CORE_HARNESS_NETQ_H

#include "harness.h"
#include "rnic/net.h"

struct th_netq {
    struct th_guest *guest;
    uint32_t tx_depth, rx_depth;
    uint32_t tx_pi, rx_pi, rx_ci;
    uint64_t buf; /* tx ring, rx ring, completions, record */
    uint32_t rx_offset, cq_offset, dbrec_offset;
    uint64_t status;
};

/* The command, with memory that exists; vector 2 */
struct rnic_asqe th_netq_command(struct th_guest *guest, uint32_t tx_depth,
                                 uint32_t rx_depth);
/* CREATE_NETQ; armed for nothing */
struct th_netq th_netq_new(struct th_guest *guest, uint32_t tx_depth,
                           uint32_t rx_depth);

struct rnic_netq_dbrec *th_netq_dbrec(struct th_netq *netq);
struct rnic_netq_status *th_netq_status(struct th_netq *netq);
struct rnic_net_desc *th_netq_tx(struct th_netq *netq, uint32_t index);
struct rnic_net_desc *th_netq_rx(struct th_netq *netq, uint32_t index);

/* Posts; rings if the rules say so. Does not look whether there is room. */
void th_netq_send(struct th_netq *netq, uint64_t addr, uint32_t length);
/* Writes and publishes without ringing */
void th_netq_send_quiet(struct th_netq *netq, uint64_t addr, uint32_t length);
/* All that was posted is done */
bool th_netq_sent(struct th_netq *netq);
void th_netq_post(struct th_netq *netq, uint64_t addr, uint32_t length);
/* As many buffers of @length octets as fit into the ring */
void th_netq_fill(struct th_netq *netq, uint32_t length);
/* Takes the next completion; *@addr: of its buffer, may be NULL */
bool th_netq_poll(struct th_netq *netq, struct rnic_net_cqe *cqe,
                  uint64_t *addr);

/* An IP packet of @length octets at @octets, its payload th_fill(@seed) */
void th_packet(uint8_t *octets, const char *from, const char *to,
               uint32_t length, uint32_t seed);
/* The same in the guest's memory; its DMA address */
uint64_t th_packet_new(struct th_guest *guest, const char *from, const char *to,
                       uint32_t length, uint32_t seed);
/* Sends such a packet */
void th_netq_send_packet(struct th_netq *netq, const char *from, const char *to,
                         uint32_t length, uint32_t seed);
/* Waits for the next completion, which must be of exactly this packet */
void th_netq_expect(struct th_netq *netq, const char *from, const char *to,
                    uint32_t length, uint32_t seed);

#endif
