/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host's own loopback TCP, as the limit to compare with
 *
 *   tcp-loopback bw SIZE SECONDS      one stream, writes of SIZE octets
 *   tcp-loopback lat SIZE SECONDS     ping-pong of SIZE octets, blocking reads
 *
 * Prints octets a second, or the median half round trip in microseconds.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what)
{
    fprintf(stderr, "tcp-loopback: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec + ts.tv_nsec / 1e9;
}

static void write_all(int fd, const char *buf, size_t len)
{
    while (len) {
        ssize_t n = write(fd, buf, len);

        if (n <= 0) {
            fail("write");
        }
        buf += n;
        len -= n;
    }
}

/* False at the end of the stream */
static int read_all(int fd, char *buf, size_t len)
{
    while (len) {
        ssize_t n = read(fd, buf, len);

        if (n < 0) {
            fail("read");
        }
        if (n == 0) {
            return 0;
        }
        buf += n;
        len -= n;
    }
    return 1;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void serve(int fd, int latency, char *buf, size_t size)
{
    if (latency) {
        while (read_all(fd, buf, size)) {
            write_all(fd, buf, size);
        }
        return;
    }
    while (read(fd, buf, size) > 0) {
        ;
    }
}

static void measure_bandwidth(int fd, char *buf, size_t size, double seconds)
{
    double start = now(), end;
    unsigned long long octets = 0;

    do {
        write_all(fd, buf, size);
        octets += size;
        end = now();
    } while (end - start < seconds);
    shutdown(fd, SHUT_WR);
    /* The peer closes when it has read everything */
    while (read(fd, buf, size) > 0) {
        ;
    }
    printf("%.0f\n", octets / (now() - start));
}

static void measure_latency(int fd, char *buf, size_t size, double seconds)
{
    enum { MOST = 1000000 };
    double *taken = malloc(MOST * sizeof(*taken)), start = now();
    size_t n = 0;

    if (!taken) {
        fail("malloc");
    }
    while (n < MOST && now() - start < seconds) {
        double before = now();

        write_all(fd, buf, size);
        if (!read_all(fd, buf, size)) {
            fail("the peer ended");
        }
        taken[n++] = now() - before;
    }
    qsort(taken, n, sizeof(*taken), compare);
    printf("%.2f\n", taken[n / 2] / 2 * 1e6);
    free(taken);
}

int main(int argc, char **argv)
{
    struct sockaddr_in addr = { .sin_family = AF_INET };
    socklen_t len = sizeof(addr);
    int listener, fd, one = 1, latency;
    size_t size;
    double seconds;
    char *buf;
    pid_t pid;

    if (argc != 4 || (strcmp(argv[1], "bw") && strcmp(argv[1], "lat")) ||
        (size = strtoul(argv[2], NULL, 0)) == 0 ||
        (seconds = atof(argv[3])) <= 0) {
        fprintf(stderr, "usage: tcp-loopback bw|lat SIZE SECONDS\n");
        return 2;
    }
    latency = !strcmp(argv[1], "lat");
    buf = calloc(1, size);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!buf || listener < 0 ||
        bind(listener, (struct sockaddr *)&addr, sizeof(addr)) ||
        listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&addr, &len)) {
        fail("listen");
    }
    pid = fork();
    if (pid < 0) {
        fail("fork");
    }
    if (pid == 0) {
        fd = accept(listener, NULL, NULL);
        if (fd < 0) {
            fail("accept");
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        serve(fd, latency, buf, size);
        _exit(0);
    }
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr))) {
        fail("connect");
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (latency) {
        measure_latency(fd, buf, size, seconds);
    } else {
        measure_bandwidth(fd, buf, size, seconds);
    }
    close(fd);
    waitpid(pid, NULL, 0);
    free(buf);
    return 0;
}
