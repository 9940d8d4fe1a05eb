/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Claims of host addresses
 *
 * A claim is a Unix datagram socket in the abstract namespace whose name holds
 * user, fabric and address. It has one binder in a network namespace and ends
 * with its process, so two devices cannot both have an address.
 *
 * In a loopback fabric claims also carry IP packets, a datagram each: the
 * kernel says which user sent it, and from which claim.
 */
#ifndef RNIC_NET_CLAIM_H
#define RNIC_NET_CLAIM_H

#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include "sockaddr.h"

/* @fabric: the fabric's id, or -1 for fabric=direct. Returns the socket, which
 * is the claim; -EADDRINUSE: another has it; else -errno */
int rnic_claim_take(int fabric, const struct rnic_sockaddr *host);
/* Whether a device of user @uid has it */
bool rnic_claim_exists(int fabric, uid_t uid, const struct rnic_sockaddr *host);

/* Makes a claim's socket fit to carry packets */
void rnic_claim_carry(int claim);
/*
 * Sends the octets of @iov from @claim to the claim of @host, without
 * blocking. 0; -EAGAIN: its queue is full; -ECONNREFUSED: nobody of this user
 * has it; else -errno.
 */
int rnic_claim_send(int claim, int fabric, const struct rnic_sockaddr *host,
                    struct iovec *iov, unsigned count);

struct rnic_claim_sender {
    bool known; /* the kernel named user and claim */
    uid_t uid;
    struct sockaddr_un name;
    socklen_t name_len;
};
/*
 * Receives a datagram into @iov, without blocking. Its octets, which may be
 * more than fit (those are lost then); -EAGAIN: there is none.
 */
ssize_t rnic_claim_recv(int claim, struct iovec *iov, unsigned count,
                        struct rnic_claim_sender *sender);
/* Whether it came from the claim of @host by a process of this user */
bool rnic_claim_is_from(const struct rnic_claim_sender *sender, int fabric,
                        const struct rnic_sockaddr *host);

#endif
