/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "addr.h"

#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>
#include "../device.h"
#include "claim.h"

#define FABRIC_FIRST_OCTET 127
#define FABRIC_V4_NET      64 /* + 2 * fabric id */
#define FABRIC_V6_NET      65

struct rnic_addrs *rnic_addrs_new(const struct rnic_config *config,
                                  GError **error)
{
    struct rnic_addrs *addrs = g_new0(struct rnic_addrs, 1);

    addrs->fabric = config->fabric;
    addrs->fabric_id = config->fabric_id;
    addrs->peers_any = config->fabric_peers_any;
    if (!rnic_policy_init(&addrs->policy, config, error)) {
        g_free(addrs);
        return NULL;
    }
    addrs->list = g_ptr_array_new();
    return addrs;
}

void rnic_addrs_free(struct rnic_addrs *addrs)
{
    if (!addrs) {
        return;
    }
    rnic_addrs_reset(addrs);
    g_ptr_array_unref(addrs->list);
    rnic_policy_clear(&addrs->policy);
    g_free(addrs);
}

void rnic_addrs_reset(struct rnic_addrs *addrs)
{
    while (addrs->list->len) {
        rnic_addr_remove(addrs, g_ptr_array_index(addrs->list, 0));
    }
}

int rnic_addrs_claim_fabric(const struct rnic_addrs *addrs)
{
    return addrs->fabric == RNIC_FABRIC_LOOPBACK ? (int)addrs->fabric_id : -1;
}

bool rnic_addr_peer_uid(const struct rnic_addrs *addrs, uid_t uid)
{
    return addrs->peers_any || uid == geteuid();
}

/* ---- Mapping ---- */

bool rnic_addr_to_host(const struct rnic_addrs *addrs,
                       const struct rnic_sockaddr *guest,
                       struct rnic_sockaddr *host)
{
    unsigned size = rnic_family_size(rnic_sockaddr_family(guest));

    if (rnic_policy_map(&addrs->policy, guest, host)) {
        return true;
    }
    if (addrs->fabric == RNIC_FABRIC_DIRECT) {
        *host = *guest;
        host->scope_id = 0;
        return !rnic_sockaddr_is_link_local(guest);
    }
    *host = (struct rnic_sockaddr){
        .family = GUINT16_TO_LE(RNIC_AF_INET),
        .port = guest->port,
        .addr = {
            FABRIC_FIRST_OCTET,
            (size == 4 ? FABRIC_V4_NET : FABRIC_V6_NET) +
            2 * addrs->fabric_id,
            guest->addr[size - 2], guest->addr[size - 1],
        },
    };
    return true;
}

bool rnic_addr_in_fabric(const struct rnic_addrs *addrs,
                         const struct rnic_sockaddr *host)
{
    return addrs->fabric == RNIC_FABRIC_LOOPBACK &&
           rnic_sockaddr_family(host) == RNIC_AF_INET &&
           host->addr[0] == FABRIC_FIRST_OCTET &&
           (host->addr[1] & ~1u) == FABRIC_V4_NET + 2 * addrs->fabric_id;
}

bool rnic_addr_from_host(struct rnic_addrs *addrs,
                         const struct rnic_addr *local,
                         const struct rnic_sockaddr *host,
                         struct rnic_sockaddr *guest)
{
    const struct rnic_addr *own = rnic_addr_find_host(addrs, host);
    unsigned size = rnic_family_size(rnic_sockaddr_family(&local->guest));

    if (own) {
        *guest = own->guest;
        guest->port = host->port;
        return own->guest.family == local->guest.family;
    }
    if (rnic_policy_unmap(&addrs->policy, host, guest)) {
        return guest->family == local->guest.family;
    }
    if (!rnic_addr_in_fabric(addrs, host)) {
        *guest = *host;
        return guest->family == local->guest.family;
    }
    /* The second octet tells IPv4 and IPv6 networks of the fabric apart */
    if ((host->addr[1] & 1) !=
        (size == 4 ? FABRIC_V4_NET & 1 : FABRIC_V6_NET & 1)) {
        return false;
    }
    *guest = local->guest;
    guest->port = host->port;
    memcpy(guest->addr + size - 2, host->addr + 2, 2);
    return true;
}

/* ---- The table ---- */

struct rnic_addr *rnic_addr_find(struct rnic_addrs *addrs,
                                 const struct rnic_sockaddr *guest)
{
    for (unsigned i = 0; i < addrs->list->len; i++) {
        struct rnic_addr *addr = g_ptr_array_index(addrs->list, i);

        if (rnic_sockaddr_same(&addr->guest, guest)) {
            return addr;
        }
    }
    return NULL;
}

struct rnic_addr *rnic_addr_find_host(struct rnic_addrs *addrs,
                                      const struct rnic_sockaddr *host)
{
    for (unsigned i = 0; i < addrs->list->len; i++) {
        struct rnic_addr *addr = g_ptr_array_index(addrs->list, i);

        if (addr->usable && rnic_sockaddr_same(&addr->host, host)) {
            return addr;
        }
    }
    return NULL;
}

static unsigned common_bits(const struct rnic_sockaddr *a,
                            const struct rnic_sockaddr *b)
{
    unsigned size = rnic_family_size(rnic_sockaddr_family(a)), i = 0;

    while (i < size * 8 &&
           !((a->addr[i / 8] ^ b->addr[i / 8]) & (0x80 >> (i % 8)))) {
        i++;
    }
    return i;
}

struct rnic_addr *rnic_addr_nearest(struct rnic_addrs *addrs,
                                    const struct rnic_sockaddr *remote)
{
    struct rnic_addr *best = NULL;

    for (unsigned i = 0; i < addrs->list->len; i++) {
        struct rnic_addr *addr = g_ptr_array_index(addrs->list, i);

        if (addr->usable && addr->guest.family == remote->family &&
            (!best || common_bits(&addr->guest, remote) >
                          common_bits(&best->guest, remote))) {
            best = addr;
        }
    }
    return best;
}

static bool is_host_loopback(const struct rnic_sockaddr *host)
{
    return rnic_sockaddr_is_loopback(host) || rnic_sockaddr_is_any(host);
}

/* An address of the device must be one that a net device can have */
static bool may_be_local(const struct rnic_sockaddr *guest)
{
    return !rnic_sockaddr_is_any(guest) && !rnic_sockaddr_is_loopback(guest) &&
           !rnic_sockaddr_is_multicast(guest);
}

enum rnic_admin_status rnic_addr_add(struct rnic_addrs *addrs,
                                     const struct rnic_sockaddr *guest,
                                     unsigned prefix_len,
                                     struct rnic_addr **added, const char **why,
                                     bool *conflict)
{
    struct rnic_addr *addr, *other;
    struct rnic_sockaddr host;
    bool usable;
    int claim = -1;

    *conflict = false;
    if (guest->port || !may_be_local(guest) ||
        prefix_len > 8 * rnic_family_size(rnic_sockaddr_family(guest))) {
        *why = "not an address of a net device";
        return RNIC_ADMIN_BAD_PARAM;
    }
    if (rnic_addr_find(addrs, guest)) {
        *why = "the device has it already";
        return RNIC_ADMIN_IN_USE;
    }
    if (addrs->list->len >= RNIC_MAX_ADDR) {
        *why = "too many addresses";
        return RNIC_ADMIN_NO_RESOURCES;
    }
    usable = rnic_addr_to_host(addrs, guest, &host);
    if (usable) {
        host.port = 0;
        other = rnic_addr_find_host(addrs, &host);
        if (other) {
            *why = "another address of this device has the same host address "
                   "(a loopback fabric keeps the low 16 bits)";
            return RNIC_ADMIN_IN_USE;
        }
        if (!rnic_addr_may_bind(addrs, &host)) {
            *why = "refused by the host's policy";
            return RNIC_ADMIN_REFUSED;
        }
        claim = rnic_claim_take(rnic_addrs_claim_fabric(addrs), &host);
        if (claim == -EADDRINUSE) {
            *why = "another device has it";
            *conflict = true;
            return RNIC_ADMIN_ADDR_IN_USE;
        } else if (claim < 0) {
            *why = g_strerror(-claim);
            return RNIC_ADMIN_NO_RESOURCES;
        }
    }
    addr = g_new0(struct rnic_addr, 1);
    addr->guest = *guest;
    addr->prefix_len = prefix_len;
    addr->usable = usable;
    if (usable) {
        addr->host = host;
    }
    addr->claim = claim;
    g_ptr_array_add(addrs->list, addr);
    *added = addr;
    return RNIC_ADMIN_OK;
}

void rnic_addr_remove(struct rnic_addrs *addrs, struct rnic_addr *addr)
{
    g_ptr_array_remove(addrs->list, addr);
    if (addr->claim >= 0) {
        close(addr->claim);
    }
    g_free(addr);
}

/* ---- What is allowed ---- */

bool rnic_addr_may_bind(const struct rnic_addrs *addrs,
                        const struct rnic_sockaddr *host)
{
    switch (rnic_policy_verdict(&addrs->policy, host)) {
    case RNIC_POLICY_ALLOW:
        return true;
    case RNIC_POLICY_DENY:
        return false;
    case RNIC_POLICY_SILENT:
        break;
    }
    if (addrs->fabric == RNIC_FABRIC_LOOPBACK) {
        return rnic_addr_in_fabric(addrs, host);
    }
    return !is_host_loopback(host);
}

/*
 * Whether the host itself has this address: then it can be bound. (Where
 * ip_nonlocal_bind is on, every address counts as the host's: the safe side.)
 */
static bool is_address_of_host(const struct rnic_sockaddr *host)
{
    struct rnic_sockaddr addr = *host;
    struct sockaddr_storage os;
    socklen_t len;
    bool bound;
    int fd;

    addr.port = 0;
    len = rnic_sockaddr_to_os(&addr, &os);
    fd = socket(os.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return true;
    }
    bound = !bind(fd, (struct sockaddr *)&os, len);
    close(fd);
    return bound;
}

enum rnic_reach rnic_addr_may_connect(struct rnic_addrs *addrs,
                                      const struct rnic_sockaddr *host)
{
    bool in_fabric = rnic_addr_in_fabric(addrs, host);

    switch (rnic_policy_verdict(&addrs->policy, host)) {
    case RNIC_POLICY_ALLOW:
        /* An entry that happens to cover the fabric does not open what the
         * host serves at 0.0.0.0 to it */
        return in_fabric ? RNIC_REACH_LISTENER : RNIC_REACH_FREE;
    case RNIC_POLICY_DENY:
        return RNIC_REACH_DENIED;
    case RNIC_POLICY_SILENT:
        break;
    }
    if (addrs->fabric == RNIC_FABRIC_LOOPBACK) {
        return in_fabric ? RNIC_REACH_LISTENER : RNIC_REACH_DENIED;
    }
    if (is_host_loopback(host) || rnic_sockaddr_is_multicast(host)) {
        return RNIC_REACH_DENIED;
    }
    if (rnic_addr_find_host(addrs, host)) {
        return RNIC_REACH_OWN;
    }
    return is_address_of_host(host) ? RNIC_REACH_CLAIMED : RNIC_REACH_FREE;
}

enum rnic_reach rnic_addr_may_accept(struct rnic_addrs *addrs,
                                     const struct rnic_sockaddr *host)
{
    struct rnic_sockaddr addr = *host;

    /* The peer's port is ephemeral: rules about ports do not speak of it */
    addr.port = 0;
    switch (rnic_policy_verdict(&addrs->policy, &addr)) {
    case RNIC_POLICY_ALLOW:
        return rnic_addr_in_fabric(addrs, host) ? RNIC_REACH_LISTENER
                                                : RNIC_REACH_FREE;
    case RNIC_POLICY_DENY:
        return RNIC_REACH_DENIED;
    case RNIC_POLICY_SILENT:
        break;
    }
    if (addrs->fabric == RNIC_FABRIC_DIRECT) {
        return RNIC_REACH_FREE;
    }
    return rnic_addr_in_fabric(addrs, host) ? RNIC_REACH_LISTENER
                                            : RNIC_REACH_DENIED;
}
