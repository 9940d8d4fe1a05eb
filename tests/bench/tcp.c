/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host's own loopback TCP between the same two processes, to compare with
 */
#include "bench.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* One stream from the client to the server */
static int make_stream(struct bench_side *side)
{
    struct sockaddr_in addr = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0), listener, one = 1;

    g_assert_cmpint(fd, >=, 0);
    if (side->client) {
        bench_hear(side, &addr, sizeof(addr));
        g_assert_cmpint(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), ==,
                        0);
    } else {
        listener = fd;
        g_assert_cmpint(bind(listener, (struct sockaddr *)&addr, len), ==, 0);
        g_assert_cmpint(listen(listener, 1), ==, 0);
        getsockname(listener, (struct sockaddr *)&addr, &len);
        bench_tell(side, &addr, sizeof(addr));
        fd = accept(listener, NULL, NULL);
        g_assert_cmpint(fd, >=, 0);
        close(listener);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

static double thread_cpu(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void write_all(int fd, const uint8_t *buf, size_t len)
{
    while (len) {
        ssize_t n = send(fd, buf, len, MSG_NOSIGNAL);

        g_assert_cmpint(n, >, 0);
        buf += n;
        len -= n;
    }
}

static void stream(struct bench_side *side, const struct bench_job *job, int fd,
                   uint8_t *buf, struct bench_result *result)
{
    double start = bench_now(), cpu = thread_cpu();
    uint64_t count = 0;

    if (!side->client) {
        while (read(fd, buf, job->size) > 0) {
        }
        cpu = thread_cpu() - cpu;
        bench_tell(side, &cpu, sizeof(cpu));
        return;
    }
    do {
        write_all(fd, buf, job->size);
        count++;
    } while (bench_now() - start < job->seconds);
    shutdown(fd, SHUT_WR);
    /* Until the server has read everything */
    bench_hear(side, &result->server_cpu, sizeof(result->server_cpu));
    result->client_cpu = thread_cpu() - cpu;
    result->seconds = bench_now() - start;
    result->messages = count;
    result->octets = (double)count * job->size;
}

/* Waits as the engine does, or spins; false at the end of the stream */
static bool read_all(int fd, int epoll_fd, uint8_t *buf, size_t len)
{
    while (len) {
        struct epoll_event event;
        ssize_t n;

        if (epoll_fd >= 0) {
            epoll_wait(epoll_fd, &event, 1, -1);
        }
        n = recv(fd, buf, len, MSG_DONTWAIT);
        if (n < 0) {
            g_assert_cmpint(errno, ==, EAGAIN);
            continue;
        }
        if (n == 0) {
            return false;
        }
        buf += n;
        len -= n;
    }
    return true;
}

static void pingpong(struct bench_side *side, const struct bench_job *job,
                     int fd, uint8_t *buf, struct bench_result *result)
{
    g_autoptr(GArray) taken = g_array_new(false, false, sizeof(double));
    struct epoll_event event = { .events = EPOLLIN };
    double start, before, after;
    int epoll_fd = -1;

    if (job->wait != WAIT_ONE_SPIN) {
        epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        g_assert_cmpint(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event), ==, 0);
    }
    if (side->client) {
        start = before = bench_now();
        do {
            write_all(fd, buf, job->size);
            g_assert_true(read_all(fd, epoll_fd, buf, job->size));
            after = bench_now();
            before = after - before;
            g_array_append_val(taken, before);
            before = after;
        } while (after - start < job->seconds);
        shutdown(fd, SHUT_WR);
        result->seconds = after - start;
        result->messages = taken->len * 2;
        result->round_trip_us =
            bench_median((double *)(void *)taken->data, taken->len) * 1e6;
    } else {
        while (read_all(fd, epoll_fd, buf, job->size)) {
            write_all(fd, buf, job->size);
        }
    }
    if (epoll_fd >= 0) {
        close(epoll_fd);
    }
}

void bench_tcp(struct bench_side *side, const struct bench_job *job,
               struct bench_result *result)
{
    g_autofree uint8_t *buf = g_malloc(job->size);
    int fd = make_stream(side);

    memset(buf, 0x5a, job->size);
    if (job->kind == JOB_TCP_STREAM) {
        stream(side, job, fd, buf, result);
    } else {
        pingpong(side, job, fd, buf, result);
    }
    close(fd);
}
