/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * rnic hardware interface: counters
 *
 * X(name, description); the order is the order of QUERY_STATS. New counters
 * are added at the end. All are kept for the device; those up to
 * RNIC_STAT_QP_LAST also for each QP, where
 *   doorbells   counts the times that the QP was found rung for,
 *   cq_events, interrupts
 *               those that a completion of the QP brought about; if several
 *               were held back, the last of them,
 *   wakeups     the times that the engine woke up and had something to do for
 *               the QP,
 *   kicks       is 0: a doorbell page is that of a context.
 */
#ifndef RNIC_STATS_H
#define RNIC_STATS_H

#define RNIC_STATS(X)                                                       \
    X(tx_fpdus, "FPDUs sent")                                               \
    X(tx_octets, "octets of FPDUs sent")                                    \
    X(tx_wqes, "SQ work requests executed")                                 \
    X(tx_copied, "payload octets copied by the sender")                     \
    X(rx_fpdus, "FPDUs received")                                           \
    X(rx_octets, "octets of FPDUs received")                                \
    X(rx_messages, "messages delivered")                                    \
    X(rx_copied, "payload octets copied by the receiver")                   \
    X(rx_direct, "payload octets read by the host straight into place")     \
    X(doorbells, "doorbells found set")                                     \
    X(cqes, "completions written")                                          \
    X(cq_events, "completion events")                                       \
    X(flushed, "work requests flushed")                                     \
    X(gated, "times transmission waited for the peer's first FPDU")         \
    X(rx_crc_errors, "FPDUs with a bad CRC")                                \
    X(rx_no_receive, "Sends that found no posted receive")                  \
    X(term_sent, "Terminates sent")                                         \
    X(term_received, "Terminates received")                                 \
    X(interrupts, "interrupts raised")                                      \
    X(kicks, "writes to doorbell pages")                                    \
    X(wakeups, "times the engine woke up")                                  \
    X(async_events, "asynchronous and connection events")                   \
    X(admin_commands, "admin commands")                                     \
    X(admin_errors, "admin commands that failed")                           \
    X(guest_errors, "errors of the guest driver or a consumer")             \
    X(connects, "connections established as initiator")                     \
    X(accepts, "connections established as responder")                      \
    X(connects_failed, "connection attempts that failed")                   \
    X(rejects, "connection requests rejected")                              \
    X(conn_refused_policy, "connections refused by the host's policy")      \
    X(scan_finds, "producer indices that the background scan found moved")  \
    X(early_sends, "QPs that failed for sends posted before RTS")           \
    X(net_tx_packets, "IP packets sent")                                    \
    X(net_tx_octets, "octets of IP packets sent")                           \
    X(net_rx_packets, "IP packets received")                                \
    X(net_rx_octets, "octets of IP packets received")                       \
    X(net_tx_dropped, "IP packets not sent, for any reason")                \
    X(net_tx_spoofed, "IP packets not sent: source not of this device")     \
    X(net_tx_unreachable, "IP packets not sent: nobody has the address")    \
    X(net_tx_full, "IP packets not sent: the receiver did not keep up")     \
    X(net_rx_dropped, "IP packets not received, for any reason")            \
    X(net_rx_no_buffer, "IP packets not received: no buffer posted")        \
    X(net_rx_refused, "IP packets not received: not from whom they say")

enum rnic_stat {
#define RNIC_STAT_ENUM(name, description) RNIC_STAT_##name,
    RNIC_STATS(RNIC_STAT_ENUM)
#undef RNIC_STAT_ENUM
    RNIC_STAT_COUNT
};
#define RNIC_STAT_QP_LAST RNIC_STAT_wakeups

/* Those that are kept for each CQ: of its completions, and of what they brought
 * about. X(name); the names are those above. */
#define RNIC_CQ_STATS(X) \
    X(cqes)              \
    X(cq_events)         \
    X(interrupts)

#endif
