/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The core's interface to its host
 *
 * Threads: a device belongs to one engine, the thread that calls
 * rnic_device_run(). Functions marked [engine] are called there, or while no
 * thread runs the engine (before the first run, or after the host stopped
 * watching). Functions marked [any] may be called on every thread at any time
 * between new and free.
 */
#ifndef RNIC_CORE_H
#define RNIC_CORE_H

#include <stdbool.h>
#include <stdint.h>
#include <glib.h>
#include "host.h"
#include "rnic/stats.h"

enum rnic_fabric {
    RNIC_FABRIC_LOOPBACK,
    RNIC_FABRIC_DIRECT,
};

enum rnic_crc_policy {
    RNIC_CRC_AUTO, /* loopback initiator asks for none, else on */
    RNIC_CRC_ON,
    RNIC_CRC_OFF, /* a peer that asks is still honoured */
};

/* Kinds of ready-to-receive message, RFC 6581 section 9.2 */
#define RNIC_RTR_WRITE 1u
#define RNIC_RTR_READ  2u

struct rnic_config {
    uint8_t mac[6];
    unsigned vectors; /* MSI-X vectors, 2 .. RNIC_MAX_VECTORS */

    enum rnic_fabric fabric;
    unsigned fabric_id;    /* 0 .. 94 */
    bool fabric_peers_any; /* loopback: peers of other users too */
    const char *map;       /* NULL, or 'guest-prefix=host-prefix' rules
                                 * separated by spaces or ';' */
    const char *allow;     /* NULL, or 'prefix[:port[-port]]' entries that
                                 * the guest may bind and connect to (host
                                 * addresses), on top of the fabric */
    const char *deny;      /* same form; wins over allow */

    enum rnic_crc_policy crc;
    unsigned mpa_rev; /* as initiator: 1 or 2 */
    bool p2p;         /* as initiator: ask for peer-to-peer mode */
    unsigned rtr;     /* RNIC_RTR_*, what is offered and accepted */
    bool mpa_gate_strict;
    unsigned mpa_timeout_ms;  /* for the peer's startup frame */
    unsigned peer_timeout_ms; /* for the peer's TCP to answer; 0: as the
                                 * host is set up */
    unsigned fpdu_max;        /* largest ULPDU, 128 .. 64768; 0: 64768 in a
                                 * loopback fabric, else by the path's MSS */
    unsigned max_connections; /* of this device; 0: no cap but MAX_QP */
    bool rfc7306;             /* atomics and immediate data */
    unsigned sq_scan_ms;      /* look at producer indices without doorbells
                                 * every so often; 0: never */

    const char *pcap;  /* NULL, or the capture file's path */
    uint64_t pcap_max; /* octets of that file */
};

/* Fills in the defaults (MAC 0, to be set by the host) */
void rnic_config_init(struct rnic_config *config);

typedef struct rnic_device rnic_device;

/*
 * Makes a device. Copies @config and its strings. @ops must outlive it.
 * On a bad value returns NULL and an error that names the property (its name
 * is the member's name with '-' for '_'), the value and what is allowed.
 */
rnic_device *rnic_device_new(const struct rnic_config *config,
                             const struct rnic_host_ops *ops, void *opaque,
                             GError **error);

/* [engine] Closes every socket at once and frees all. No thread may be in any
 * function of the device. */
void rnic_device_free(rnic_device *dev);

/* [any] The descriptor that becomes readable when the engine has work */
int rnic_device_fd(rnic_device *dev);

/*
 * [engine] Does the work that is due, without blocking and in bounded time;
 * returns true if more is due at once (the descriptor stays readable then).
 */
bool rnic_device_run(rnic_device *dev);

/* [any] Register access. See include/rnic/regs.h for what is defined; all is. */
uint64_t rnic_device_reg_read(rnic_device *dev, uint64_t offset, unsigned size);
void rnic_device_reg_write(rnic_device *dev, uint64_t offset, uint64_t value,
                           unsigned size);

/* [any] A write to the doorbell BAR (or the ioeventfd of a page, with offset
 * page * RNIC_DB_PAGE_SIZE + RNIC_DB_KICK and size 4) */
void rnic_device_doorbell(rnic_device *dev, uint64_t offset, unsigned size);

/* [engine] rnic_device_doorbell() for a host whose engine itself gets to know of
 * the write: serves it at once, in bounded time, instead of waking the engine */
void rnic_device_kick(rnic_device *dev, uint64_t offset, unsigned size);

/* [engine] Everything back to the state after rnic_device_new(); sockets are
 * closed at once (RST) */
void rnic_device_reset(rnic_device *dev);

/* [engine] While quiesced the engine touches no guest memory; connections stay
 * open and fill, but for those that were rejected, and the device's timers stand
 * still. Doorbells are kept.
 * Nests not: a second one of either changes nothing. */
void rnic_device_quiesce(rnic_device *dev);
void rnic_device_resume(rnic_device *dev);

/*
 * [any] Fault injection, for tests of a driver: from now on admin commands are
 * executed and answered only @ms after they were seen; 0: at once,
 * RNIC_FAULT_NEVER: never. Outlives a reset.
 */
#define RNIC_FAULT_NEVER UINT32_MAX
void rnic_device_fault_admin_delay(rnic_device *dev, uint32_t ms);

/* [any] */
uint64_t rnic_device_stat(rnic_device *dev, enum rnic_stat stat);
/*
 * [engine] Calls @each for every QP, with its counters up to RNIC_STAT_QP_LAST
 * by enum rnic_stat. @each must not call the device.
 */
void rnic_device_qp_stats(rnic_device *dev,
                          void (*each)(void *opaque, uint32_t qpn,
                                       const uint64_t *counters),
                          void *opaque);
/* [engine] The same for every CQ */
struct rnic_cq_counters {
#define RNIC_CQ_COUNTER(name) uint64_t name;
    RNIC_CQ_STATS(RNIC_CQ_COUNTER)
#undef RNIC_CQ_COUNTER
};
void rnic_device_cq_stats(rnic_device *dev,
                          void (*each)(void *opaque, uint32_t cqn,
                                       const struct rnic_cq_counters *counters),
                          void *opaque);
const char *rnic_stat_name(enum rnic_stat stat);
const char *rnic_stat_description(enum rnic_stat stat);

#endif
