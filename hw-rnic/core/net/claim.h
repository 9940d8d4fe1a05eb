/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Claims of host addresses
 *
 * A claim is a Unix datagram socket in the abstract namespace whose name holds
 * user, fabric and address. It has one binder in a network namespace and ends
 * with its process, so two devices cannot both have an address.
 */
#ifndef RNIC_NET_CLAIM_H
#define RNIC_NET_CLAIM_H

#include <sys/types.h>
#include "sockaddr.h"

/* @fabric: the fabric's id, or -1 for fabric=direct. Returns the socket, which
 * is the claim; -EADDRINUSE: another has it; else -errno */
int rnic_claim_take(int fabric, const struct rnic_sockaddr *host);
/* Whether a device of user @uid has it */
bool rnic_claim_exists(int fabric, uid_t uid,
                       const struct rnic_sockaddr *host);

#endif
