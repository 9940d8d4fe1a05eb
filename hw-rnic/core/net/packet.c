/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "packet.h"

#include <stdio.h>

#define IPV4_HEADER 20
#define IPV6_HEADER 40

static unsigned get16(const uint8_t *octets)
{
    return octets[0] << 8 | octets[1];
}

static struct rnic_sockaddr address(uint16_t family, const uint8_t *octets)
{
    struct rnic_sockaddr sa = { .family = GUINT16_TO_LE(family) };

    memcpy(sa.addr, octets, rnic_family_size(family));
    return sa;
}

/* RFC 791 section 3.1 */
static const char *parse_ipv4(const uint8_t *octets, size_t length,
                              struct rnic_packet *packet)
{
    size_t header;

    if (length < IPV4_HEADER) {
        return "shorter than an IPv4 header";
    }
    header = (octets[0] & 15) * 4;
    packet->length = get16(octets + 2);
    if (header < IPV4_HEADER) {
        return "an IPv4 header length under 20";
    }
    if (packet->length < header) {
        return "an IPv4 total length under the header length";
    }
    if (packet->length > length) {
        return "an IPv4 total length of more octets than there are";
    }
    packet->source = address(RNIC_AF_INET, octets + 12);
    packet->destination = address(RNIC_AF_INET, octets + 16);
    return NULL;
}

/* RFC 8200 section 3. There are no jumbograms here. */
static const char *parse_ipv6(const uint8_t *octets, size_t length,
                              struct rnic_packet *packet)
{
    if (length < IPV6_HEADER) {
        return "shorter than an IPv6 header";
    }
    packet->length = IPV6_HEADER + get16(octets + 4);
    if (packet->length > length) {
        return "an IPv6 payload length of more octets than there are";
    }
    packet->source = address(RNIC_AF_INET6, octets + 8);
    packet->destination = address(RNIC_AF_INET6, octets + 24);
    return NULL;
}

const char *rnic_packet_parse(const uint8_t *octets, size_t length,
                              struct rnic_packet *packet)
{
    memset(packet, 0, sizeof(*packet));
    if (!length) {
        return "an empty packet";
    }
    switch (octets[0] >> 4) {
    case 4:
        return parse_ipv4(octets, length, packet);
    case 6:
        return parse_ipv6(octets, length, packet);
    default:
        return "neither IPv4 nor IPv6";
    }
}

const char *rnic_packet_str(const struct rnic_packet *packet,
                            char text[RNIC_PACKET_STR])
{
    char from[RNIC_SOCKADDR_STR], to[RNIC_SOCKADDR_STR];

    snprintf(text, RNIC_PACKET_STR, "%s > %s, %zu octets",
             rnic_sockaddr_str(&packet->source, from),
             rnic_sockaddr_str(&packet->destination, to), packet->length);
    return text;
}
