/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "claim.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/un.h>
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
    len = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1,
                   "rnic/%lu/%s/%s", (unsigned long)uid, id,
                   rnic_sockaddr_str(&addr, text));
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
