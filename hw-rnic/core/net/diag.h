/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whose socket is that? Exact lookups of TCP sockets of this network
 * namespace, by NETLINK_SOCK_DIAG
 */
#ifndef RNIC_NET_DIAG_H
#define RNIC_NET_DIAG_H

#include <sys/types.h>
#include "sockaddr.h"

enum rnic_diag_result {
    RNIC_DIAG_FOUND,
    RNIC_DIAG_NONE,        /* there is no such socket */
    RNIC_DIAG_UNAVAILABLE, /* the kernel does not say */
};

struct rnic_diag_socket {
    uid_t uid; /* owner */
    bool listening;
    bool exact; /* bound to just the address asked for */
};

/* A descriptor for lookups, or -errno */
int rnic_diag_open(void);

/*
 * Looks up the socket that gets what is sent to @local: a connected one if
 * @remote is given (and a listener if there is none), else a listener. Does
 * not block: the kernel answers within the request.
 */
enum rnic_diag_result rnic_diag_lookup(int fd,
                                       const struct rnic_sockaddr *local,
                                       const struct rnic_sockaddr *remote,
                                       struct rnic_diag_socket *found);

#endif
