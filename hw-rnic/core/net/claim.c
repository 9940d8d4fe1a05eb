/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "claim.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

static socklen_t claim_name(int fabric, uid_t uid,
                            const struct rnic_sockaddr *host,
                            struct sockaddr_un *un)
{
    struct rnic_sockaddr addr = *host;
    char text[RNIC_SOCKADDR_STR], id[16] = "direct";
    int len;

    addr.port = 0;
    if (fabric >= 0) {
        snprintf(id, sizeof(id), "%d", fabric);
    }
    memset(un, 0, sizeof(*un));
    un->sun_family = AF_UNIX;
    /* sun_path[0] stays 0: the abstract namespace */
    len = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "rnic/%lu/%s/%s",
                   (unsigned long)uid, id, rnic_sockaddr_str(&addr, text));
    return offsetof(struct sockaddr_un, sun_path) + 1 + len;
}

static int unix_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    return fd < 0 ? -errno : fd;
}

int rnic_claim_take(int fabric, const struct rnic_sockaddr *host)
{
    struct sockaddr_un un;
    socklen_t len = claim_name(fabric, geteuid(), host, &un);
    int fd = unix_socket();

    if (fd >= 0 && bind(fd, (struct sockaddr *)&un, len) < 0) {
        int err = errno;

        close(fd);
        return -err;
    }
    return fd;
}

bool rnic_claim_exists(int fabric, uid_t uid, const struct rnic_sockaddr *host)
{
    struct sockaddr_un un;
    socklen_t len = claim_name(fabric, uid, host, &un);
    int fd = unix_socket();
    bool exists;

    if (fd < 0) {
        return false;
    }
    exists = !connect(fd, (struct sockaddr *)&un, len);
    close(fd);
    return exists;
}

/* ---- Packets ---- */

/* The kernel counts a datagram against its sender until it is read */
#define SEND_BUFFER (4 << 20)

void rnic_claim_carry(int claim)
{
    int on = 1, size = SEND_BUFFER;

    /* Without credentials nothing is accepted, and with a smaller buffer the
     * host's limit holds: no error to handle */
    setsockopt(claim, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
    setsockopt(claim, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

int rnic_claim_send(int claim, int fabric, const struct rnic_sockaddr *host,
                    struct iovec *iov, unsigned count)
{
    struct sockaddr_un un;
    struct msghdr msg = {
        .msg_name = &un,
        .msg_namelen = claim_name(fabric, geteuid(), host, &un),
        .msg_iov = iov,
        .msg_iovlen = count,
    };
    ssize_t sent;

    do {
        sent = sendmsg(claim, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0) {
        return 0;
    }
    return errno == ENOBUFS  ? -EAGAIN
           : errno == ENOENT ? -ECONNREFUSED
                             : -errno;
}

ssize_t rnic_claim_recv(int claim, struct iovec *iov, unsigned count,
                        struct rnic_claim_sender *sender)
{
    /* Room for credentials only: what else may come with it, descriptors for
     * example, the kernel drops */
    union {
        struct cmsghdr header;
        uint8_t octets[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct msghdr msg = {
        .msg_name = &sender->name,
        .msg_namelen = sizeof(sender->name),
        .msg_iov = iov,
        .msg_iovlen = count,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    struct cmsghdr *cmsg;
    struct ucred cred;
    ssize_t got;

    memset(sender, 0, sizeof(*sender));
    do {
        got = recvmsg(claim, &msg, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return -errno;
    }
    sender->name_len = msg.msg_namelen;
    cmsg = CMSG_FIRSTHDR(&msg);
    if (cmsg && cmsg->cmsg_level == SOL_SOCKET &&
        cmsg->cmsg_type == SCM_CREDENTIALS &&
        cmsg->cmsg_len >= CMSG_LEN(sizeof(cred))) {
        memcpy(&cred, CMSG_DATA(cmsg), sizeof(cred));
        sender->uid = cred.uid;
        sender->known = true;
    }
    return got;
}

bool rnic_claim_is_from(const struct rnic_claim_sender *sender, int fabric,
                        const struct rnic_sockaddr *host)
{
    struct sockaddr_un un;
    socklen_t len = claim_name(fabric, geteuid(), host, &un);

    return sender->known && sender->uid == geteuid() &&
           sender->name_len == len && !memcmp(&sender->name, &un, len);
}
