/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "net/addr.h"
#include "raw-peer.h"
#include "wire-io.h"

/* Of slicing=one: octets at the start and at the end of a write that go each
 * for itself. Between them, in long ones, pieces of this size do. */
#define SINGLE_HEAD  2048
#define SINGLE_TAIL  128
#define MIDDLE_PIECE 1021

static void put_be16(uint8_t *to, uint16_t value)
{
    to[0] = value >> 8;
    to[1] = value;
}

static uint16_t get_be16(const uint8_t *from)
{
    return (uint16_t)(from[0] << 8 | from[1]);
}

/* Sockets on which sending met RST; recv() then says end of stream */
static bool was_reset[4096];

static int fresh(int fd)
{
    g_assert_cmpint(fd, <, G_N_ELEMENTS(was_reset));
    if (fd >= 0) {
        was_reset[fd] = false;
    }
    return fd;
}

struct rnic_sockaddr raw_host(struct th_guest *guest, const char *address,
                              uint16_t port)
{
    struct rnic_sockaddr sa = th_sockaddr(address, port), host;

    g_assert_true(rnic_addr_to_host(guest->dev->addrs, &sa, &host));
    return host;
}

int raw_socket(struct th_guest *guest, const char *address, uint16_t port)
{
    struct rnic_sockaddr host = raw_host(guest, address, port);
    struct sockaddr_storage os;
    socklen_t len = rnic_sockaddr_to_os(&host, &os);
    int fd = fresh(
        socket(os.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    int one = 1;

    g_assert_cmpint(fd, >=, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    g_assert_cmpint(bind(fd, (struct sockaddr *)&os, len), ==, 0);
    return fd;
}

int raw_listen(struct th_guest *guest, const char *address, uint16_t *port)
{
    int fd = raw_socket(guest, address, *port);
    struct sockaddr_in in;
    socklen_t len = sizeof(in);

    g_assert_cmpint(listen(fd, 64), ==, 0);
    g_assert_cmpint(getsockname(fd, (struct sockaddr *)&in, &len), ==, 0);
    *port = ntohs(in.sin_port);
    return fd;
}

int raw_accept(int listener)
{
    int fd = -1, one = 1;

    th_wait((fd = accept4(listener, NULL, NULL,
                          SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fresh(fd);
}

static bool writable(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLOUT };

    return poll(&p, 1, 0) == 1;
}

void raw_connect_socket(struct th_guest *guest, int fd, const char *to,
                        uint16_t port)
{
    struct rnic_sockaddr host = raw_host(guest, to, port);
    struct sockaddr_storage os;
    socklen_t len = rnic_sockaddr_to_os(&host, &os);

    if (connect(fd, (struct sockaddr *)&os, len) < 0) {
        g_assert_cmpint(errno, ==, EINPROGRESS);
        th_wait(writable(fd));
    }
}

int raw_connect(struct th_guest *guest, const char *from, const char *to,
                uint16_t port)
{
    int fd = raw_socket(guest, from, 0);

    raw_connect_socket(guest, fd, to, port);
    return fd;
}

/* False: the connection is gone */
static bool send_all(int fd, const uint8_t *p, size_t len)
{
    while (len) {
        ssize_t n;

        th_wait((n = sendto(fd, p, len, MSG_NOSIGNAL, NULL, 0)) >= 0 ||
                errno != EAGAIN);
        if (n < 0 && (errno == ECONNRESET || errno == EPIPE)) {
            was_reset[fd] |= errno == ECONNRESET;
            return false;
        }
        g_assert_cmpint(n, >, 0);
        p += n;
        len -= n;
    }
    return true;
}

void raw_send_whole(int fd, const void *octets, size_t len)
{
    g_assert_true(send_all(fd, octets, len));
}

void raw_send_singly(int fd, const void *octets, size_t len)
{
    const uint8_t *p = octets;

    while (len--) {
        uint64_t before = wire_taken();

        g_assert_true(send_all(fd, p++, 1));
        th_wait(wire_taken() > before);
    }
}

/* Lets the device take what was sent; not for long, since it need not want
 * to read now */
static void let_take(uint64_t until)
{
    static bool in_vain;
    unsigned tries;

    for (tries = 0; wire_taken() < until; tries++) {
        if (tries == (in_vain ? 2 : 12)) {
            in_vain = true;
            return;
        }
        th_step(tries < 2 ? 0 : 1);
    }
    in_vain = false;
}

void raw_send(int fd, const void *octets, size_t len)
{
    const uint8_t *p = octets;
    size_t left = len, n;

    if (wire_slicing() == WIRE_WHOLE) {
        raw_send_whole(fd, octets, len);
        return;
    }
    while (left) {
        uint64_t before = wire_taken();

        n = wire_slice(left);
        if (wire_slicing() == WIRE_ONE && len - left >= SINGLE_HEAD &&
            left > SINGLE_TAIL) {
            n = MIN(MIDDLE_PIECE, left - SINGLE_TAIL);
        }
        /* Its first octets may have been reason enough to end it */
        if (!send_all(fd, p, n)) {
            g_assert_cmpuint(left, <, len);
            return;
        }
        let_take(before + n);
        p += n;
        left -= n;
    }
}

static int unacked(int fd)
{
    int octets;

    g_assert_cmpint(ioctl(fd, SIOCOUTQ, &octets), ==, 0);
    return octets;
}

void raw_wait_acked(int fd)
{
    th_wait(!unacked(fd));
}

void raw_recv(int fd, void *octets, size_t len)
{
    uint8_t *p = octets;

    while (len) {
        ssize_t n;

        th_wait((n = recvfrom(fd, p, len, 0, NULL, NULL)) >= 0 ||
                errno != EAGAIN);
        g_assert_cmpint(n, >, 0);
        p += n;
        len -= n;
    }
}

bool raw_closed(int fd, size_t *dropped)
{
    uint8_t octets[4096];
    size_t total = 0;
    ssize_t n;

    do {
        th_wait((n = recvfrom(fd, octets, sizeof(octets), 0, NULL, NULL)) >=
                    0 ||
                errno != EAGAIN);
        total += MAX(n, 0);
    } while (n > 0);
    if (n < 0) {
        g_assert_cmpint(errno, ==, ECONNRESET);
    }
    if (dropped) {
        *dropped = total;
    }
    return n < 0 || was_reset[fd];
}

void raw_silent(int fd, unsigned ms)
{
    uint8_t octet;

    th_run_for(ms);
    g_assert_cmpint(recvfrom(fd, &octet, 1, MSG_PEEK, NULL, NULL), ==, -1);
    g_assert_cmpint(errno, ==, EAGAIN);
}

void raw_abort(int fd)
{
    struct linger linger = { .l_onoff = 1 };

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(fd);
}

size_t raw_frame(uint8_t *to, bool reply, uint8_t flags, uint8_t rev,
                 const void *pd, uint16_t pd_len)
{
    memcpy(to, reply ? "MPA ID Rep Frame" : "MPA ID Req Frame", 16);
    to[16] = flags;
    to[17] = rev;
    put_be16(to + 18, pd_len);
    if (pd) {
        memcpy(to + 20, pd, pd_len);
    }
    return 20 + (pd ? pd_len : 0);
}

void raw_block(uint8_t block[4], uint16_t a_b_ird, uint16_t c_d_ord)
{
    put_be16(block, a_b_ird);
    put_be16(block + 2, c_d_ord);
}

void raw_send_frame(int fd, bool reply, uint8_t flags, uint8_t rev,
                    const void *pd, uint16_t pd_len)
{
    g_autofree uint8_t *octets = g_malloc(RAW_FRAME_MAX);

    raw_send(fd, octets, raw_frame(octets, reply, flags, rev, pd, pd_len));
}

void raw_recv_frame(int fd, bool reply, struct raw_frame *frame)
{
    uint8_t header[20];

    memset(frame, 0, sizeof(*frame));
    raw_recv(fd, header, sizeof(header));
    g_assert_cmpmem(header, 16, reply ? "MPA ID Rep Frame" : "MPA ID Req Frame",
                    16);
    frame->flags = header[16];
    frame->rev = header[17];
    frame->pd_len = get_be16(header + 18);
    g_assert_cmpuint(frame->pd_len, <=, 512);
    raw_recv(fd, frame->pd, frame->pd_len);
    if (frame->flags & RAW_S) {
        g_assert_cmpuint(frame->pd_len, >=, 4);
        frame->ird = get_be16(frame->pd);
        frame->ord = get_be16(frame->pd + 2);
    }
}

size_t raw_fpdu(uint8_t *to, const void *ulpdu, uint16_t len)
{
    size_t octets = (2 + len + 3) & ~3;

    memset(to, 0, octets + 4);
    put_be16(to, len);
    memcpy(to + 2, ulpdu, len);
    return octets + 4;
}
