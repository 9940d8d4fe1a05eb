/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * IP addresses with a port, as the hardware interface writes them
 *
 * struct rnic_sockaddr stands for the guest's addresses and, in this folder,
 * for the host's too.
 */
#ifndef RNIC_NET_SOCKADDR_H
#define RNIC_NET_SOCKADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <glib.h>
#include "rnic/event.h"

static inline uint16_t rnic_sockaddr_family(const struct rnic_sockaddr *sa)
{
    return GUINT16_FROM_LE(sa->family);
}

static inline uint16_t rnic_sockaddr_port(const struct rnic_sockaddr *sa)
{
    return GUINT16_FROM_BE(sa->port);
}

/* Octets of an address of @family; 0 if there is no such family */
static inline unsigned rnic_family_size(uint16_t family)
{
    return family == RNIC_AF_INET ? 4 : family == RNIC_AF_INET6 ? 16 : 0;
}

/* Same family and address; ports and scopes are not compared */
static inline bool rnic_sockaddr_same(const struct rnic_sockaddr *a,
                                      const struct rnic_sockaddr *b)
{
    return a->family == b->family &&
           !memcmp(a->addr, b->addr, rnic_family_size(rnic_sockaddr_family(a)));
}

bool rnic_sockaddr_is_any(const struct rnic_sockaddr *sa);
bool rnic_sockaddr_is_loopback(const struct rnic_sockaddr *sa);
bool rnic_sockaddr_is_link_local(const struct rnic_sockaddr *sa);
/* A multicast address or the IPv4 broadcast address */
bool rnic_sockaddr_is_multicast(const struct rnic_sockaddr *sa);

/*
 * Copies @from as a guest gave it: the octets behind an IPv4 address are 0, an
 * IPv4-mapped IPv6 address becomes the IPv4 address. False: no such family.
 */
bool rnic_sockaddr_normalise(const struct rnic_sockaddr *from,
                             struct rnic_sockaddr *to);

/* Between this form and the C library's. Return: its length; false: neither
 * IPv4 nor IPv6 */
socklen_t rnic_sockaddr_to_os(const struct rnic_sockaddr *sa,
                              struct sockaddr_storage *os);
bool rnic_sockaddr_from_os(const struct sockaddr_storage *os,
                           struct rnic_sockaddr *sa);

/* Numeric text of an address without a port; false: not an address */
bool rnic_sockaddr_parse(const char *text, struct rnic_sockaddr *sa);

/* "10.0.0.1:4420", "[fd00::1]:4420"; without the port if it is 0 */
#define RNIC_SOCKADDR_STR 64
const char *rnic_sockaddr_str(const struct rnic_sockaddr *sa,
                              char text[RNIC_SOCKADDR_STR]);

#endif
