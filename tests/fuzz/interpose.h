/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Included before everything in each source of the core, so that its system
 * calls about time, random numbers and sockets reach world.c instead, and the
 * largest of its allocations
 */
#ifndef TESTS_FUZZ_INTERPOSE_H
#define TESTS_FUZZ_INTERPOSE_H

#include <arpa/inet.h>
#include <glib.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include "world.h"

/* With arguments: members and variables of these names stay what they are */
#define clock_gettime(id, now)    world_clock_gettime(id, now)
#define timerfd_create(id, flags) world_timerfd_create(id, flags)
#define timerfd_settime(fd, flags, value, old)                                 \
    world_timerfd_settime(fd, flags, value, old)
#define getrandom(buf, len, flags)     world_getrandom(buf, len, flags)
#define socket(domain, type, protocol) world_socket(domain, type, protocol)
#define bind(fd, name, len)            world_bind(fd, name, len)
#define listen(fd, backlog)            world_listen(fd, backlog)
#define connect(fd, name, len)         world_connect(fd, name, len)
#define accept4(fd, name, len, flags)  world_accept4(fd, name, len, flags)
#define getsockname(fd, name, len)     world_getsockname(fd, name, len)
#define getsockopt(fd, level, name, value, len)                                \
    world_getsockopt(fd, level, name, value, len)
#define recv(fd, buf, len, flags) world_recv(fd, buf, len, flags)
#define recvmsg(fd, msg, flags)   world_recvmsg(fd, msg, flags)
#define sendmsg(fd, msg, flags)   world_sendmsg(fd, msg, flags)
#define close(fd)                 world_close(fd)
#define g_malloc                  world_malloc
#define g_malloc0                 world_malloc0
#define g_free                    world_free

#endif
