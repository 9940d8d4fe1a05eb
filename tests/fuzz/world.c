/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "world.h"

#include <errno.h>
#include <glib.h>
#include <netinet/in.h>
#include <sanitizer/asan_interface.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>

/* Far ahead of the real clock, so that nothing is mixed up unseen */
#define EPOCH_NS    (1ull << 61)
#define MAX_FD      1024
#define MAX_WAITING 64
#define FIRST_PORT  20000
#define LARGE       (64u << 10)
#define MAX_BLOCKS  16

enum kind {
    NONE,
    TIMER,
    CLAIM, /* AF_UNIX: only its name matters */
    DATAGRAM,
    STREAM,
};

struct entry {
    enum kind kind;
    struct sockaddr_storage name, remote;
    socklen_t name_len;
    int other; /* STREAM: the other end while nobody has it */
    bool listening;
    unsigned order;           /* of listen() */
    int waiting[MAX_WAITING]; /* not accepted yet */
    unsigned num_waiting;
    uint64_t deadline_ns; /* TIMER */
};

static struct entry entries[MAX_FD];
static int outgoing[MAX_WAITING];
static unsigned num_outgoing, listens;
static uint64_t now_ns = EPOCH_NS, random_state;
static uint16_t next_port;
static unsigned fail_after;
static int fail_errno;
static size_t send_limit;
static unsigned send_limited;

struct block {
    void *ptr; /* NULL: none */
    size_t size;
    bool used;
};

static struct block blocks[MAX_BLOCKS];

static struct entry *entry_of(int fd)
{
    return fd >= 0 && fd < MAX_FD ? &entries[fd] : NULL;
}

/* A new descriptor; -1 if it is none or too many */
static int entry_new(int fd, enum kind kind)
{
    if (fd >= MAX_FD) {
        close(fd);
        errno = EMFILE;
        return -1;
    }
    if (fd >= 0) {
        memset(&entries[fd], 0, sizeof(entries[fd]));
        entries[fd].kind = kind;
        entries[fd].other = -1;
    }
    return fd;
}

void world_reset(void)
{
    unsigned i;

    for (i = 0; i < MAX_BLOCKS; i++) {
        g_assert_false(blocks[i].used);
    }
    while (num_outgoing) {
        close(outgoing[--num_outgoing]);
    }
    now_ns = EPOCH_NS;
    random_state = 0x9e3779b97f4a7c15ull;
    next_port = FIRST_PORT;
    fail_after = 0;
    send_limited = 0;
    listens = 0;
}

void world_fail(unsigned after, int err)
{
    fail_after = after;
    fail_errno = err;
}

void world_limit_send(size_t octets, unsigned calls)
{
    send_limit = octets;
    send_limited = octets ? calls : 0;
}

static bool fails(void)
{
    if (fail_after && --fail_after == 0) {
        errno = fail_errno;
        return true;
    }
    return false;
}

/* ---- Time ---- */

int world_clock_gettime(clockid_t id, struct timespec *now)
{
    now->tv_sec = now_ns / 1000000000;
    now->tv_nsec = now_ns % 1000000000;
    return 0;
}

static void timer_look(int fd)
{
    struct entry *entry = entry_of(fd);

    if (entry->kind == TIMER && entry->deadline_ns &&
        entry->deadline_ns <= now_ns) {
        entry->deadline_ns = 0;
        eventfd_write(fd, 1);
    }
}

void world_advance_us(uint64_t us)
{
    int fd;

    now_ns += us * 1000;
    for (fd = 0; fd < MAX_FD; fd++) {
        timer_look(fd);
    }
}

int world_timerfd_create(int id, int flags)
{
    return entry_new(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), TIMER);
}

int world_timerfd_settime(int fd, int flags, const struct itimerspec *value,
                          struct itimerspec *old)
{
    entry_of(fd)->deadline_ns =
        (uint64_t)value->it_value.tv_sec * 1000000000 + value->it_value.tv_nsec;
    timer_look(fd);
    return 0;
}

/* ---- Random numbers ---- */

ssize_t world_getrandom(void *buf, size_t len, unsigned flags)
{
    uint8_t *octets = buf;
    size_t i;

    for (i = 0; i < len; i++) {
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        octets[i] = random_state >> 32;
    }
    return len;
}

/* ---- Sockets ---- */

static int stream_pair(int *other, int flags)
{
    int sv[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) <
        0) {
        return -1;
    }
    *other = sv[1];
    if (entry_new(sv[0], STREAM) < 0) {
        close(sv[1]);
        return -1;
    }
    return sv[0];
}

int world_pair(int *peer)
{
    int fd = stream_pair(peer, 0);

    g_assert_cmpint(fd, >=, 0);
    return fd;
}

int world_socket(int domain, int type, int protocol)
{
    int fd, other;

    if (domain == AF_NETLINK) {
        errno = EACCES;
        return -1;
    }
    if (fails()) {
        return -1;
    }
    if ((type & 0xf) == SOCK_DGRAM) {
        return entry_new(eventfd(0, EFD_CLOEXEC),
                         domain == AF_UNIX ? CLAIM : DATAGRAM);
    }
    fd = stream_pair(&other, type);
    if (fd >= 0) {
        entries[fd].other = other;
        entries[fd].name.ss_family = domain;
    }
    return fd;
}

static in_port_t *port_of(struct sockaddr_storage *name)
{
    return name->ss_family == AF_INET6
               ? &((struct sockaddr_in6 *)name)->sin6_port
               : &((struct sockaddr_in *)name)->sin_port;
}

/* Who has this name: a claim, or a listener */
static struct entry *find(enum kind kind, const void *name, socklen_t len)
{
    int fd;

    for (fd = 0; fd < MAX_FD; fd++) {
        if (entries[fd].kind == kind && entries[fd].name_len == len &&
            (kind == CLAIM || entries[fd].listening) &&
            !memcmp(&entries[fd].name, name, len)) {
            return &entries[fd];
        }
    }
    return NULL;
}

int world_bind(int fd, const struct sockaddr *name, socklen_t len)
{
    struct entry *entry = entry_of(fd);

    if (fails()) {
        return -1;
    }
    if (entry->kind == DATAGRAM) {
        /* No address is the host's own */
        errno = EADDRNOTAVAIL;
        return -1;
    }
    if (find(entry->kind, name, len)) {
        errno = EADDRINUSE;
        return -1;
    }
    memcpy(&entry->name, name, len);
    entry->name_len = len;
    if (entry->kind == STREAM && !*port_of(&entry->name)) {
        *port_of(&entry->name) = htons(next_port++);
    }
    return 0;
}

int world_listen(int fd, int backlog)
{
    if (fails()) {
        return -1;
    }
    entry_of(fd)->listening = true;
    entry_of(fd)->order = ++listens;
    return 0;
}

/* @fd waits to be accepted; the listener becomes readable */
static bool enqueue(struct entry *listener, int fd)
{
    if (listener->num_waiting == MAX_WAITING) {
        return false;
    }
    listener->waiting[listener->num_waiting++] = fd;
    return write(listener->other, "", 1) == 1;
}

int world_connect(int fd, const struct sockaddr *name, socklen_t len)
{
    struct entry *entry = entry_of(fd), *listener;

    if (fails()) {
        return -1;
    }
    listener = find(entry->kind, name, len);
    if (entry->kind == CLAIM) {
        errno = ECONNREFUSED;
        return listener ? 0 : -1;
    }
    if (listener) {
        int other = entry_new(entry->other, STREAM);

        if (other >= 0) {
            entries[other].remote = entry->name;
        }
        if (other < 0 || !enqueue(listener, other)) {
            errno = ECONNREFUSED;
            return -1;
        }
    } else {
        if (num_outgoing == MAX_WAITING) {
            errno = ECONNREFUSED;
            return -1;
        }
        outgoing[num_outgoing++] = entry->other;
    }
    entry->other = -1;
    errno = EINPROGRESS;
    return -1;
}

int world_take_outgoing(void)
{
    int fd = -1;

    if (num_outgoing) {
        fd = outgoing[0];
        memmove(outgoing, outgoing + 1, --num_outgoing * sizeof(outgoing[0]));
    }
    return fd;
}

int world_connect_in(unsigned index)
{
    struct entry *listener = NULL;
    int fd, peer;

    for (fd = 0; fd < MAX_FD; fd++) {
        if (entries[fd].kind == STREAM && entries[fd].listening &&
            entries[fd].order == listens - index) {
            listener = &entries[fd];
        }
    }
    if (!listener) {
        return -1;
    }
    fd = stream_pair(&peer, 0);
    if (fd < 0) {
        return -1;
    }
    /* Someone next to the listener */
    entries[fd].remote = listener->name;
    if (listener->name.ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)&entries[fd].remote)->sin6_addr.s6_addr[15] ^=
            0x40;
    } else {
        ((struct sockaddr_in *)&entries[fd].remote)->sin_addr.s_addr ^=
            htonl(0x40);
    }
    *port_of(&entries[fd].remote) = htons(next_port++);
    if (!enqueue(listener, fd)) {
        world_close(fd);
        close(peer);
        return -1;
    }
    return peer;
}

int world_accept4(int fd, struct sockaddr *name, socklen_t *len, int flags)
{
    struct entry *listener = entry_of(fd);
    uint8_t octet;
    int accepted;

    if (fails()) {
        return -1;
    }
    if (!listener->num_waiting) {
        errno = EAGAIN;
        return -1;
    }
    accepted = listener->waiting[0];
    memmove(listener->waiting, listener->waiting + 1,
            --listener->num_waiting * sizeof(listener->waiting[0]));
    g_assert_cmpint(read(fd, &octet, 1), ==, 1);
    memcpy(name, &entry_of(accepted)->remote,
           MIN(*len, sizeof(entry_of(accepted)->remote)));
    *len = sizeof(entry_of(accepted)->remote);
    return accepted;
}

int world_getsockname(int fd, struct sockaddr *name, socklen_t *len)
{
    if (fails()) {
        return -1;
    }
    memcpy(name, &entry_of(fd)->name, MIN(*len, sizeof(entry_of(fd)->name)));
    *len = entry_of(fd)->name_len;
    return 0;
}

int world_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    if (fails()) {
        if (level == SOL_SOCKET && name == SO_ERROR) {
            memcpy(value, &fail_errno, sizeof(fail_errno));
            return 0;
        }
        return -1;
    }
    return getsockopt(fd, level, name, value, len);
}

ssize_t world_recv(int fd, void *buf, size_t len, int flags)
{
    uint8_t *dropped = NULL;
    ssize_t n;

    if (fails()) {
        return -1;
    }
    /* What TCP drops itself */
    if (flags & MSG_TRUNC) {
        buf = dropped = malloc(len);
    }
    n = recv(fd, buf, len, flags & ~MSG_TRUNC);
    free(dropped);
    return n;
}

ssize_t world_recvmsg(int fd, struct msghdr *msg, int flags)
{
    return fails() ? -1 : recvmsg(fd, msg, flags);
}

ssize_t world_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    struct iovec iov[1024];
    struct msghdr part = { .msg_iov = iov };
    size_t left = send_limit;

    if (fails()) {
        return -1;
    }
    if (!send_limited) {
        return sendmsg(fd, msg, flags);
    }
    send_limited--;
    g_assert_cmpuint(msg->msg_iovlen, <=, G_N_ELEMENTS(iov));
    while (left && part.msg_iovlen < msg->msg_iovlen) {
        struct iovec *to = &iov[part.msg_iovlen];

        *to = msg->msg_iov[part.msg_iovlen++];
        to->iov_len = MIN(to->iov_len, left);
        left -= to->iov_len;
    }
    return sendmsg(fd, &part, flags);
}

int world_close(int fd)
{
    struct entry *entry = entry_of(fd);

    if (entry && entry->kind != NONE) {
        if (entry->other >= 0) {
            close(entry->other);
        }
        while (entry->num_waiting) {
            world_close(entry->waiting[--entry->num_waiting]);
        }
        entry->kind = NONE;
        entry->listening = false;
    }
    return close(fd);
}

/* ---- Memory ---- */

void *world_malloc(size_t size)
{
    unsigned i;

    if (size < LARGE) {
        return g_malloc(size);
    }
    for (i = 0; i < MAX_BLOCKS; i++) {
        struct block *block = &blocks[i];

        if (!block->ptr) {
            block->ptr = g_malloc(size);
            block->size = size;
        }
        if (!block->used && block->size == size) {
            block->used = true;
            ASAN_UNPOISON_MEMORY_REGION(block->ptr, size);
            return block->ptr;
        }
    }
    return g_malloc(size);
}

void *world_malloc0(size_t size)
{
    void *ptr = world_malloc(size);

    if (ptr) {
        memset(ptr, 0, size);
    }
    return ptr;
}

void world_free(void *ptr)
{
    unsigned i;

    for (i = 0; ptr && i < MAX_BLOCKS; i++) {
        if (blocks[i].ptr == ptr) {
            /* Who still uses it is caught */
            ASAN_POISON_MEMORY_REGION(ptr, blocks[i].size);
            blocks[i].used = false;
            return;
        }
    }
    g_free(ptr);
}
