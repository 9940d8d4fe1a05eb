/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * IP packets: as much of their headers as a device must understand to carry
 * them
 */
#ifndef RNIC_NET_PACKET_H
#define RNIC_NET_PACKET_H

#include <stddef.h>
#include "sockaddr.h"

/* The longest header that is looked at: IPv6's; IPv4's without options */
#define RNIC_PACKET_HEADER 40

struct rnic_packet {
    struct rnic_sockaddr source; /* port 0 */
    struct rnic_sockaddr destination;
    size_t length; /* as the header says it; octets behind
                                     * it are no part of the packet */
};

/*
 * Parses the header of a packet of @length octets, the first
 * min(@length, RNIC_PACKET_HEADER) of which are at @octets. NULL, or what is
 * wrong with it in words.
 */
const char *rnic_packet_parse(const uint8_t *octets, size_t length,
                              struct rnic_packet *packet);

/* "10.0.0.1 > 10.0.0.2, 84 octets" */
#define RNIC_PACKET_STR (2 * RNIC_SOCKADDR_STR + 32)
const char *rnic_packet_str(const struct rnic_packet *packet,
                            char text[RNIC_PACKET_STR]);

#endif
