/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the host's administrator says about addresses: the properties 'map',
 * 'allow' and 'deny'
 *
 * Entries are separated by spaces or ';'.
 *   map:         guest-prefix=host-prefix, both with the same number of low
 *                bits behind the prefix, which are carried over; the first
 *                rule that fits counts
 *   allow, deny: prefix[:port[-port]] of host addresses; no port: every port
 * A prefix is address[/length]; an IPv6 one with a port and without a length
 * stands in brackets: [fd00::1]:4420. No bits may be set behind the length.
 */
#ifndef RNIC_NET_POLICY_H
#define RNIC_NET_POLICY_H

#include "../rnic.h"
#include "sockaddr.h"

struct rnic_prefix {
    struct rnic_sockaddr base; /* port 0 */
    unsigned len;              /* bits */
};

struct rnic_policy {
    GArray *map; /* private */
    GArray *allow;
    GArray *deny;
};

/* False: @error names property, entry and what is wrong with it */
bool rnic_policy_init(struct rnic_policy *policy,
                      const struct rnic_config *config, GError **error);
void rnic_policy_clear(struct rnic_policy *policy);

bool rnic_prefix_contains(const struct rnic_prefix *prefix,
                          const struct rnic_sockaddr *sa);

/* By the map rules: the host's address of a guest's and back; false if no
 * rule fits. Ports are copied. */
bool rnic_policy_map(const struct rnic_policy *policy,
                     const struct rnic_sockaddr *guest,
                     struct rnic_sockaddr *host);
bool rnic_policy_unmap(const struct rnic_policy *policy,
                       const struct rnic_sockaddr *host,
                       struct rnic_sockaddr *guest);

enum rnic_verdict {
    RNIC_POLICY_SILENT, /* no entry fits */
    RNIC_POLICY_ALLOW,
    RNIC_POLICY_DENY,
};

/* Whether an entry holds this host address and port. Port 0 stands for the
 * address as a whole: entries for some ports allow it but do not deny it. */
enum rnic_verdict rnic_policy_verdict(const struct rnic_policy *policy,
                                      const struct rnic_sockaddr *host);

#endif
