/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "harness-netq.h"

#include <string.h>

#define VECTOR 2

struct rnic_asqe th_netq_command(struct th_guest *guest, uint32_t tx_depth,
                                 uint32_t rx_depth)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_CREATE_NETQ };
    uint32_t rx = MAX(64, tx_depth * 16), cq = rx + MAX(64, rx_depth * 16);
    uint32_t dbrec = cq + MAX(64, rx_depth * 8);

    cmd.create_netq = (struct rnic_cmd_create_netq){
        .vector = GUINT32_TO_LE(VECTOR),
        .tx_depth = GUINT32_TO_LE(tx_depth),
        .rx_depth = GUINT32_TO_LE(rx_depth),
        .rx_offset = GUINT32_TO_LE(rx),
        .cq_offset = GUINT32_TO_LE(cq),
        .dbrec_offset = GUINT32_TO_LE(dbrec),
        .buf.addr = GUINT64_TO_LE(th_alloc(guest, dbrec + 64, 64)),
        .buf.length = GUINT64_TO_LE(dbrec + 64),
        .status_addr = GUINT64_TO_LE(th_alloc(guest, 16, 16)),
    };
    return cmd;
}

struct th_netq th_netq_new(struct th_guest *guest, uint32_t tx_depth,
                           uint32_t rx_depth)
{
    struct rnic_asqe cmd = th_netq_command(guest, tx_depth, rx_depth);
    struct rnic_cmd_create_netq *create = &cmd.create_netq;
    struct th_netq netq = {
        .guest = guest,
        .tx_depth = tx_depth,
        .rx_depth = rx_depth,
        .buf = GUINT64_FROM_LE(create->buf.addr),
        .rx_offset = GUINT32_FROM_LE(create->rx_offset),
        .cq_offset = GUINT32_FROM_LE(create->cq_offset),
        .dbrec_offset = GUINT32_FROM_LE(create->dbrec_offset),
        .status = GUINT64_FROM_LE(create->status_addr),
    };

    th_netq_dbrec(&netq)->tx_arm = UINT32_MAX;
    th_netq_dbrec(&netq)->rx_arm = UINT32_MAX;
    g_assert_cmpuint(th_admin(guest, &cmd, NULL), ==, RNIC_ADMIN_OK);
    return netq;
}

struct rnic_netq_dbrec *th_netq_dbrec(struct th_netq *netq)
{
    return th_ptr(netq->guest, netq->buf + netq->dbrec_offset);
}

struct rnic_netq_status *th_netq_status(struct th_netq *netq)
{
    return th_ptr(netq->guest, netq->status);
}

struct rnic_net_desc *th_netq_tx(struct th_netq *netq, uint32_t index)
{
    return th_ptr(netq->guest, netq->buf + index % netq->tx_depth *
                                               sizeof(struct rnic_net_desc));
}

struct rnic_net_desc *th_netq_rx(struct th_netq *netq, uint32_t index)
{
    return th_ptr(netq->guest,
                  netq->buf + netq->rx_offset +
                      index % netq->rx_depth * sizeof(struct rnic_net_desc));
}

void th_netq_send_quiet(struct th_netq *netq, uint64_t addr, uint32_t length)
{
    *th_netq_tx(netq, netq->tx_pi++) = (struct rnic_net_desc){
        .addr = GUINT64_TO_LE(addr),
        .length = GUINT32_TO_LE(length),
    };
    __atomic_store_n(&th_netq_dbrec(netq)->tx_pi, GUINT32_TO_LE(netq->tx_pi),
                     __ATOMIC_SEQ_CST);
}

void th_netq_send(struct th_netq *netq, uint64_t addr, uint32_t length)
{
    uint32_t event;

    th_netq_send_quiet(netq, addr, length);
    event = GUINT32_FROM_LE(
        __atomic_load_n(&th_netq_status(netq)->tx_event, __ATOMIC_SEQ_CST));
    if (netq->tx_pi - event - 1 < 1) {
        th_ring(netq->guest, 0, RNIC_NETQ_QPN);
    }
}

bool th_netq_sent(struct th_netq *netq)
{
    return GUINT32_FROM_LE(th_netq_status(netq)->tx_ci) == netq->tx_pi;
}

void th_netq_post(struct th_netq *netq, uint64_t addr, uint32_t length)
{
    *th_netq_rx(netq, netq->rx_pi++) = (struct rnic_net_desc){
        .addr = GUINT64_TO_LE(addr),
        .length = GUINT32_TO_LE(length),
    };
    __atomic_store_n(&th_netq_dbrec(netq)->rx_pi, GUINT32_TO_LE(netq->rx_pi),
                     __ATOMIC_SEQ_CST);
}

void th_netq_fill(struct th_netq *netq, uint32_t length)
{
    while (netq->rx_pi - netq->rx_ci < netq->rx_depth) {
        th_netq_post(netq, th_alloc(netq->guest, length, 1), length);
    }
}

bool th_netq_poll(struct th_netq *netq, struct rnic_net_cqe *cqe,
                  uint64_t *addr)
{
    struct rnic_net_cqe *entry = (struct rnic_net_cqe *)th_ptr(
                                     netq->guest, netq->buf + netq->cq_offset) +
                                 netq->rx_ci % netq->rx_depth;

    if ((__atomic_load_n(&entry->phase, __ATOMIC_ACQUIRE) & 1) ==
        (netq->rx_ci / netq->rx_depth & 1)) {
        return false;
    }
    *cqe = *entry;
    if (addr) {
        *addr = GUINT64_FROM_LE(th_netq_rx(netq, netq->rx_ci)->addr);
    }
    netq->rx_ci++;
    return true;
}

void th_packet(uint8_t *octets, const char *from, const char *to,
               uint32_t length, uint32_t seed)
{
    struct rnic_sockaddr source = th_sockaddr(from, 0);
    struct rnic_sockaddr destination = th_sockaddr(to, 0);
    bool v6 = GUINT16_FROM_LE(source.family) == RNIC_AF_INET6;
    unsigned header = v6 ? 40 : 20, size = v6 ? 16 : 4;
    unsigned stated = v6 ? length - 40 : length;

    g_assert_cmpuint(length, >=, header);
    g_assert_cmpuint(length, <=, RNIC_NET_MAX_PACKET);
    memset(octets, 0, header);
    octets[0] = v6 ? 0x60 : 0x45;
    octets[v6 ? 4 : 2] = stated >> 8;
    octets[v6 ? 5 : 3] = stated & 0xff;
    memcpy(octets + (v6 ? 8 : 12), source.addr, size);
    memcpy(octets + (v6 ? 24 : 16), destination.addr, size);
    th_fill(octets + header, length - header, seed);
}

uint64_t th_packet_new(struct th_guest *guest, const char *from, const char *to,
                       uint32_t length, uint32_t seed)
{
    uint64_t addr = th_alloc(guest, length, 1);
    uint8_t *octets = g_malloc(length);

    th_packet(octets, from, to, length, seed);
    memcpy(th_ptr(guest, addr), octets, length);
    g_free(octets);
    return addr;
}

void th_netq_send_packet(struct th_netq *netq, const char *from, const char *to,
                         uint32_t length, uint32_t seed)
{
    th_netq_send(netq, th_packet_new(netq->guest, from, to, length, seed),
                 length);
}

void th_netq_expect(struct th_netq *netq, const char *from, const char *to,
                    uint32_t length, uint32_t seed)
{
    uint8_t *octets = g_malloc(length);
    struct rnic_net_cqe cqe;
    uint64_t addr;

    th_wait(th_netq_poll(netq, &cqe, &addr));
    g_assert_cmpuint(cqe.flags, ==, 0);
    g_assert_cmpuint(GUINT32_FROM_LE(cqe.length), ==, length);
    th_packet(octets, from, to, length, seed);
    g_assert_cmpmem(octets, length, th_ptr(netq->guest, addr), length);
    g_free(octets);
}
