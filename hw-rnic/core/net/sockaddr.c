/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "sockaddr.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static const uint8_t v4_mapped[12] = {
    [10] = 0xff,
    [11] = 0xff,
};

static bool is_v4(const struct rnic_sockaddr *sa)
{
    return rnic_sockaddr_family(sa) == RNIC_AF_INET;
}

bool rnic_sockaddr_is_any(const struct rnic_sockaddr *sa)
{
    static const uint8_t zero[16];

    return !memcmp(sa->addr, zero, rnic_family_size(rnic_sockaddr_family(sa)));
}

bool rnic_sockaddr_is_loopback(const struct rnic_sockaddr *sa)
{
    static const uint8_t one[16] = { [15] = 1 };

    return is_v4(sa) ? sa->addr[0] == 127 : !memcmp(sa->addr, one, 16);
}

bool rnic_sockaddr_is_link_local(const struct rnic_sockaddr *sa)
{
    return !is_v4(sa) && sa->addr[0] == 0xfe && (sa->addr[1] & 0xc0) == 0x80;
}

bool rnic_sockaddr_is_multicast(const struct rnic_sockaddr *sa)
{
    /* 224.0.0.0/4 and 240.0.0.0/4: the latter holds the broadcast address and
     * no usable one */
    return is_v4(sa) ? sa->addr[0] >= 224 : sa->addr[0] == 0xff;
}

bool rnic_sockaddr_normalise(const struct rnic_sockaddr *from,
                             struct rnic_sockaddr *to)
{
    struct rnic_sockaddr sa = { .family = from->family, .port = from->port };

    switch (rnic_sockaddr_family(from)) {
    case RNIC_AF_INET:
        memcpy(sa.addr, from->addr, 4);
        break;
    case RNIC_AF_INET6:
        if (!memcmp(from->addr, v4_mapped, sizeof(v4_mapped))) {
            sa.family = GUINT16_TO_LE(RNIC_AF_INET);
            memcpy(sa.addr, from->addr + sizeof(v4_mapped), 4);
        } else {
            memcpy(sa.addr, from->addr, 16);
            if (rnic_sockaddr_is_link_local(from)) {
                sa.scope_id = from->scope_id;
            }
        }
        break;
    default:
        return false;
    }
    *to = sa;
    return true;
}

socklen_t rnic_sockaddr_to_os(const struct rnic_sockaddr *sa,
                              struct sockaddr_storage *os)
{
    memset(os, 0, sizeof(*os));
    if (is_v4(sa)) {
        struct sockaddr_in *in = (struct sockaddr_in *)os;

        in->sin_family = AF_INET;
        in->sin_port = sa->port;
        memcpy(&in->sin_addr, sa->addr, 4);
        return sizeof(*in);
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)os;

        in6->sin6_family = AF_INET6;
        in6->sin6_port = sa->port;
        in6->sin6_scope_id = GUINT32_FROM_LE(sa->scope_id);
        memcpy(&in6->sin6_addr, sa->addr, 16);
        return sizeof(*in6);
    }
}

bool rnic_sockaddr_from_os(const struct sockaddr_storage *os,
                           struct rnic_sockaddr *sa)
{
    struct rnic_sockaddr from = { 0 };

    if (os->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)os;

        from.family = GUINT16_TO_LE(RNIC_AF_INET);
        from.port = in->sin_port;
        memcpy(from.addr, &in->sin_addr, 4);
    } else if (os->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)os;

        from.family = GUINT16_TO_LE(RNIC_AF_INET6);
        from.port = in6->sin6_port;
        from.scope_id = GUINT32_TO_LE(in6->sin6_scope_id);
        memcpy(from.addr, &in6->sin6_addr, 16);
    } else {
        return false;
    }
    return rnic_sockaddr_normalise(&from, sa);
}

bool rnic_sockaddr_parse(const char *text, struct rnic_sockaddr *sa)
{
    *sa = (struct rnic_sockaddr){ 0 };
    if (inet_pton(AF_INET, text, sa->addr) == 1) {
        sa->family = GUINT16_TO_LE(RNIC_AF_INET);
    } else if (inet_pton(AF_INET6, text, sa->addr) == 1) {
        sa->family = GUINT16_TO_LE(RNIC_AF_INET6);
    } else {
        return false;
    }
    return true;
}

const char *rnic_sockaddr_str(const struct rnic_sockaddr *sa,
                              char text[RNIC_SOCKADDR_STR])
{
    char addr[INET6_ADDRSTRLEN];
    uint16_t port = rnic_sockaddr_port(sa);
    bool v4 = is_v4(sa);

    inet_ntop(v4 ? AF_INET : AF_INET6, sa->addr, addr, sizeof(addr));
    if (!port) {
        g_strlcpy(text, addr, RNIC_SOCKADDR_STR);
    } else {
        g_snprintf(text, RNIC_SOCKADDR_STR, v4 ? "%s:%u" : "[%s]:%u", addr,
                   port);
    }
    return text;
}
