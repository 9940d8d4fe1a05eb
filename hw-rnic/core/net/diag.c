/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "diag.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

int rnic_diag_open(void)
{
    struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC,
                    NETLINK_SOCK_DIAG);

    if (fd < 0) {
        return -errno;
    }
    /* Connected to the kernel: nobody else's messages are received */
    if (connect(fd, (struct sockaddr *)&kernel, sizeof(kernel)) < 0) {
        int err = errno;

        close(fd);
        return -err;
    }
    return fd;
}

enum rnic_diag_result rnic_diag_lookup(int fd,
                                       const struct rnic_sockaddr *local,
                                       const struct rnic_sockaddr *remote,
                                       struct rnic_diag_socket *found)
{
    bool v4 = rnic_sockaddr_family(local) == RNIC_AF_INET;
    struct {
        struct nlmsghdr nlh;
        struct inet_diag_req_v2 req;
    } request = {
        .nlh = {
            .nlmsg_len = sizeof(request),
            .nlmsg_type = SOCK_DIAG_BY_FAMILY,
            .nlmsg_flags = NLM_F_REQUEST,
        },
        .req = {
            .sdiag_family = v4 ? AF_INET : AF_INET6,
            .sdiag_protocol = IPPROTO_TCP,
            .idiag_states = UINT32_MAX,
            .id = {
                .idiag_sport = local->port,
                .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE },
            },
        },
    };
    union {
        struct nlmsghdr nlh;
        uint8_t octets[4096];
    } answer;
    const struct inet_diag_msg *msg = NLMSG_DATA(&answer.nlh);
    const struct nlmsgerr *error = NLMSG_DATA(&answer.nlh);
    ssize_t len;

    if (fd < 0) {
        return RNIC_DIAG_UNAVAILABLE;
    }
    memcpy(request.req.id.idiag_src, local->addr, v4 ? 4 : 16);
    if (remote) {
        request.req.id.idiag_dport = remote->port;
        memcpy(request.req.id.idiag_dst, remote->addr, v4 ? 4 : 16);
    }
    /* An answer that an earlier call did not fetch would be taken for ours */
    do {
        len = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);
    } while (len >= 0);
    if (send(fd, &request, sizeof(request), 0) != sizeof(request)) {
        return RNIC_DIAG_UNAVAILABLE;
    }
    len = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);
    if (len < (ssize_t)sizeof(answer.nlh) || answer.nlh.nlmsg_len > len) {
        return RNIC_DIAG_UNAVAILABLE;
    }
    if (answer.nlh.nlmsg_type == NLMSG_ERROR) {
        return len >= (ssize_t)NLMSG_LENGTH(sizeof(*error)) &&
                       error->error == -ENOENT
                   ? RNIC_DIAG_NONE
                   : RNIC_DIAG_UNAVAILABLE;
    }
    if (answer.nlh.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        len < (ssize_t)NLMSG_LENGTH(sizeof(*msg))) {
        return RNIC_DIAG_UNAVAILABLE;
    }
    found->uid = msg->idiag_uid;
    found->listening = msg->idiag_state == TCP_LISTEN;
    /* A dual-stack listener is found too, and shows its own family */
    found->exact = msg->idiag_family == request.req.sdiag_family &&
                   msg->id.idiag_sport == local->port &&
                   !memcmp(msg->id.idiag_src, local->addr, v4 ? 4 : 16);
    return RNIC_DIAG_FOUND;
}
