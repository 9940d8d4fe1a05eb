/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The device's addresses, and which address of the host stands for each of
 * the guest's
 *
 * A map rule comes first. Else, in a loopback fabric with id N, the low 16 bits
 * of an IPv4 address select one in 127.(64+2N).0.0/16 and those of an IPv6
 * address one in 127.(65+2N).0.0/16; with fabric=direct the host's address is
 * the guest's.
 *
 * What a guest may do with host addresses, after 'deny' and 'allow':
 * - loopback: bind its own addresses in the fabric, connect to addresses in the
 *   fabric at which a socket of the right user listens; nothing outside.
 * - direct: bind its own addresses; connect to every other machine. Of the
 *   addresses that the host itself has: its own, where it listens itself, and
 *   those that another rnic claimed and listens at. Not the host's loopback.
 */
#ifndef RNIC_NET_ADDR_H
#define RNIC_NET_ADDR_H

#include "../rnic.h"
#include "policy.h"
#include "rnic/admin.h"
#include "sockaddr.h"

struct rnic_addr {
    struct rnic_sockaddr guest; /* port 0 */
    unsigned prefix_len;
    /*
     * False: no host address stands for it, so nothing can be bound to it. An
     * IPv6 link-local address with fabric=direct, whose scope is the guest's.
     */
    bool usable;
    struct rnic_sockaddr host;
    int claim; /* the claim's socket, -1: none */
};

struct rnic_addrs {
    enum rnic_fabric fabric;
    unsigned fabric_id;
    bool peers_any;
    struct rnic_policy policy;
    GPtrArray *list; /* of struct rnic_addr, owned */
};

struct rnic_addrs *rnic_addrs_new(const struct rnic_config *config,
                                  GError **error);
void rnic_addrs_free(struct rnic_addrs *addrs);
/* Gives up all addresses */
void rnic_addrs_reset(struct rnic_addrs *addrs);

/*
 * Adds and claims a normalised address. Not RNIC_ADMIN_OK: *@why says it in
 * words; *@conflict: another device has it.
 */
enum rnic_admin_status rnic_addr_add(struct rnic_addrs *addrs,
                                     const struct rnic_sockaddr *guest,
                                     unsigned prefix_len,
                                     struct rnic_addr **added, const char **why,
                                     bool *conflict);
void rnic_addr_remove(struct rnic_addrs *addrs, struct rnic_addr *addr);

/* By the guest's address, by the host's; NULL: not one of this device */
struct rnic_addr *rnic_addr_find(struct rnic_addrs *addrs,
                                 const struct rnic_sockaddr *guest);
struct rnic_addr *rnic_addr_find_host(struct rnic_addrs *addrs,
                                      const struct rnic_sockaddr *host);
/* The usable address with the longest prefix in common with @remote; NULL: none
 * of its family */
struct rnic_addr *rnic_addr_nearest(struct rnic_addrs *addrs,
                                    const struct rnic_sockaddr *remote);

/* The host's address for any address of the guest's network; port copied */
bool rnic_addr_to_host(const struct rnic_addrs *addrs,
                       const struct rnic_sockaddr *guest,
                       struct rnic_sockaddr *host);
/*
 * The guest's view of a peer that reached @local; port copied. The bits that a
 * loopback fabric does not carry are taken from @local: right for every peer
 * of its network. False: @host is not in the network of @local.
 */
bool rnic_addr_from_host(struct rnic_addrs *addrs,
                         const struct rnic_addr *local,
                         const struct rnic_sockaddr *host,
                         struct rnic_sockaddr *guest);

/* Inside the loopback fabric; always false with fabric=direct */
bool rnic_addr_in_fabric(const struct rnic_addrs *addrs,
                         const struct rnic_sockaddr *host);

/* May the guest bind this host address and port, one of its own? */
bool rnic_addr_may_bind(const struct rnic_addrs *addrs,
                        const struct rnic_sockaddr *host);

enum rnic_reach {
    RNIC_REACH_DENIED, /* by policy */
    RNIC_REACH_FREE,
    RNIC_REACH_LISTENER, /* if its listener is bound to just it, and of
                                 * a user that rnic_addr_peer_uid() accepts */
    RNIC_REACH_CLAIMED,  /* as LISTENER, and claimed by that user */
    RNIC_REACH_OWN,      /* if this device listens there */
};
enum rnic_reach rnic_addr_may_connect(struct rnic_addrs *addrs,
                                      const struct rnic_sockaddr *host);
/* May a peer with this host address connect to the guest? LISTENER: if its
 * socket is of a user that rnic_addr_peer_uid() accepts */
enum rnic_reach rnic_addr_may_accept(struct rnic_addrs *addrs,
                                     const struct rnic_sockaddr *host);
bool rnic_addr_peer_uid(const struct rnic_addrs *addrs, uid_t uid);
/* For rnic_claim_*() */
int rnic_addrs_claim_fabric(const struct rnic_addrs *addrs);

#endif
