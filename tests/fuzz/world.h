/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host as a fuzzer decides it to be: a clock that moves when it is told
 * to, random numbers that are the same every time, and a TCP that is a socket
 * pair of this process. So an input means the same whenever it is run.
 */
#ifndef TESTS_FUZZ_WORLD_H
#define TESTS_FUZZ_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>

/* Everything as at the first input; descriptors must be closed and large
 * blocks freed by now */
void world_reset(void);
void world_advance_us(uint64_t us);
/* The @after-th call from now that can fail (0: none) fails with @err */
void world_fail(unsigned after, int err);
/* What each of the next @calls sends takes at most; 0 octets: no limit */
void world_limit_send(size_t octets, unsigned calls);

/* A connected pair of streams: of the device, and of the peer (*@peer). The
 * device's is closed by the device. */
int world_pair(int *peer);
/* The peer's end of the oldest connection that the device began to somewhere
 * where nobody listens; -1: none. The caller closes it. */
int world_take_outgoing(void);
/* Connects to the listener that was made last but @index; the peer's end, or
 * -1: there is none. The caller closes it. */
int world_connect_in(unsigned index);

/* Instead of the system's */
int world_clock_gettime(clockid_t id, struct timespec *now);
int world_timerfd_create(int id, int flags);
int world_timerfd_settime(int fd, int flags, const struct itimerspec *value,
                          struct itimerspec *old);
ssize_t world_getrandom(void *buf, size_t len, unsigned flags);
int world_socket(int domain, int type, int protocol);
int world_bind(int fd, const struct sockaddr *name, socklen_t len);
int world_listen(int fd, int backlog);
int world_connect(int fd, const struct sockaddr *name, socklen_t len);
int world_accept4(int fd, struct sockaddr *name, socklen_t *len, int flags);
int world_getsockname(int fd, struct sockaddr *name, socklen_t *len);
int world_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
ssize_t world_recv(int fd, void *buf, size_t len, int flags);
ssize_t world_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t world_sendmsg(int fd, const struct msghdr *msg, int flags);
int world_close(int fd);

/*
 * As GLib's, but large blocks are kept for the next device: to get them from
 * the kernel and give them back took more time than the rest of an input
 */
void *world_malloc(size_t size);
void *world_malloc0(size_t size);
void world_free(void *ptr);

#endif
