/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "wire-io.h"

#include <errno.h>
#include <glib.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FILES    4096
#define IOV_COPY 1024

ssize_t __real_send(int fd, const void *buf, size_t len, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __real_recv(int fd, void *buf, size_t len, int flags);
ssize_t __real_recvmsg(int fd, struct msghdr *msg, int flags);
int __real_connect(int fd, const struct sockaddr *to, socklen_t len);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len);

static struct {
    enum wire_slicing slicing;
    bool short_writes;
    GRand *slices, *writes;
    GMutex lock; /* of the generators */
} io;

static _Atomic uint64_t taken, cut;
static struct {
    _Atomic uint64_t calls, octets;
} reads[FILES];

/* A generator that a failure can be repeated with */
static GRand *seeded(const char *name, const char *mode, const char *seed)
{
    uint32_t value =
        seed && *seed ? strtoul(seed, NULL, 0) : g_random_int_range(1, 1000000);

    fprintf(stderr, "# %s=%s%u\n", name, mode, value);
    return g_rand_new_with_seed(value);
}

static gpointer setup(gpointer unused)
{
    const char *slicing = getenv("RNIC_TEST_SLICING");
    const char *writes = getenv("RNIC_TEST_SHORT_WRITES");

    g_mutex_init(&io.lock);
    if (slicing && !strcmp(slicing, "one")) {
        io.slicing = WIRE_ONE;
    } else if (slicing && g_str_has_prefix(slicing, "random")) {
        io.slicing = WIRE_RANDOM;
        io.slices = seeded("RNIC_TEST_SLICING",
                           "random:", slicing[6] == ':' ? slicing + 7 : NULL);
    } else if (slicing && strcmp(slicing, "whole")) {
        g_error("RNIC_TEST_SLICING must be whole, one or random[:SEED]");
    }
    if (writes) {
        io.short_writes = true;
        io.writes = seeded("RNIC_TEST_SHORT_WRITES", "",
                           strcmp(writes, "random") ? writes : NULL);
    }
    return NULL;
}

static void setup_once(void)
{
    static GOnce once = G_ONCE_INIT;

    g_once(&once, setup, NULL);
}

/* Of [from, to] */
static uint32_t random_of(GRand *generator, uint32_t from, uint32_t to)
{
    uint32_t value;

    g_mutex_lock(&io.lock);
    value = from + g_rand_int(generator) % (to - from + 1);
    g_mutex_unlock(&io.lock);
    return value;
}

enum wire_slicing wire_slicing(void)
{
    setup_once();
    return io.slicing;
}

size_t wire_slice(size_t left)
{
    size_t n = left;

    setup_once();
    if (io.slicing == WIRE_ONE) {
        n = 1;
    } else if (io.slicing == WIRE_RANDOM) {
        /* Mostly little, so that headers are cut, too */
        n = random_of(io.slices, 1, random_of(io.slices, 0, 3) ? 24 : 8192);
    }
    return MIN(left, n);
}

uint64_t wire_taken(void)
{
    return atomic_load(&taken);
}

struct wire_reads wire_reads(int fd)
{
    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(fd, <, FILES);
    return (struct wire_reads){ atomic_load(&reads[fd].calls),
                                atomic_load(&reads[fd].octets) };
}

uint64_t wire_short_writes(void)
{
    return atomic_load(&cut);
}

/* ---- Sequence numbers ---- */

static uint32_t initial_sequence;

/* In repair mode a socket takes one; out of it, it connects as any other */
static bool set_sequence(int fd, uint32_t sequence)
{
    int on = 1, queue = TCP_SEND_QUEUE, off = TCP_REPAIR_OFF_NO_WP;

    return setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof(on)) == 0 &&
           setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, &queue,
                      sizeof(queue)) == 0 &&
           setsockopt(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, &sequence,
                      sizeof(sequence)) == 0 &&
           setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &off, sizeof(off)) == 0;
}

bool wire_initial_sequence(uint32_t sequence)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool may = fd >= 0 && set_sequence(fd, sequence);

    close(fd);
    initial_sequence = may ? sequence : 0;
    return may;
}

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len)
{
    if (initial_sequence && to->sa_family == AF_INET) {
        g_assert_true(set_sequence(fd, initial_sequence));
    }
    return __real_connect(fd, to, len);
}

/* ---- What the device calls ---- */

static ssize_t read_of(int fd, ssize_t n, int flags)
{
    if (n > 0 && !(flags & MSG_PEEK)) {
        atomic_fetch_add(&taken, n);
        if (fd < FILES) {
            atomic_fetch_add(&reads[fd].calls, 1);
            atomic_fetch_add(&reads[fd].octets, n);
        }
    }
    return n;
}

ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags)
{
    return read_of(fd, __real_recv(fd, buf, len, flags), flags);
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
    return read_of(fd, __real_recvmsg(fd, msg, flags), flags);
}

static bool cuts(int fd)
{
    int domain = 0, type = 0;
    socklen_t len = sizeof(int);

    setup_once();
    return io.short_writes &&
           getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
           (domain == AF_INET || domain == AF_INET6) && type == SOCK_STREAM;
}

/* How many of @len octets TCP is to take */
static size_t part(size_t len)
{
    bool few;

    if (len < 2 || !random_of(io.writes, 0, 1)) {
        return len;
    }
    atomic_fetch_add(&cut, 1);
    few = len > 64 && random_of(io.writes, 0, 1);
    return random_of(io.writes, 1, few ? 64 : len - 1);
}

ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags)
{
    return __real_send(fd, buf, cuts(fd) ? part(len) : len, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    struct iovec iov[IOV_COPY];
    struct msghdr less = *msg;
    size_t len = 0, some, i;

    if (!cuts(fd)) {
        return __real_sendmsg(fd, msg, flags);
    }
    /* As if its buffer were full */
    if (!random_of(io.writes, 0, 7)) {
        atomic_fetch_add(&cut, 1);
        errno = EAGAIN;
        return -1;
    }
    g_assert_cmpuint(msg->msg_iovlen, <=, IOV_COPY);
    for (i = 0; i < msg->msg_iovlen; i++) {
        len += msg->msg_iov[i].iov_len;
    }
    some = part(len);
    less.msg_iov = iov;
    for (i = 0; some; i++) {
        iov[i] = msg->msg_iov[i];
        iov[i].iov_len = MIN(iov[i].iov_len, some);
        some -= iov[i].iov_len;
    }
    less.msg_iovlen = i;
    return __real_sendmsg(fd, &less, flags);
}
