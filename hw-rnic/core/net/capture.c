/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "capture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "../wire/byteorder.h"
#include "sockaddr.h"

#define PCAP_MAGIC_NS 0xa1b23c4d
#define PCAP_SNAPLEN  262144
#define LINKTYPE_RAW  101

/* Octets of data in a packet: with the headers below IPv4's 65535, and not
 * less than the longest FPDU that this end sends */
#define SEGMENT_MAX 65000

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_PSH 0x08
#define TCP_ACK 0x10

#define IP4_SIZE        20
#define IP6_SIZE        40
#define TCP_SIZE        20
/* NOP and window scale 14, so that readers do not see full windows */
#define TCP_SYN_OPTIONS 4

struct pcap_file {
    uint32_t magic;
    uint16_t major, minor;
    uint32_t zone, accuracy, snaplen, linktype;
};
G_STATIC_ASSERT(sizeof(struct pcap_file) == 24);

struct pcap_packet {
    uint32_t sec, nsec, captured, length;
};
G_STATIC_ASSERT(sizeof(struct pcap_packet) == 16);

struct rnic_capture {
    struct rnic_device *dev;
    int fd;             /* -1: it ended */
    uint64_t size, max; /* octets */
    uint8_t
        packet[sizeof(struct pcap_packet) + IP6_SIZE + TCP_SIZE + SEGMENT_MAX];
};

struct rnic_capture_flow {
    struct rnic_capture *capture;
    struct rnic_sockaddr end[2]; /* 0: remote, 1: local: index by "tx" */
    uint32_t seq[2];             /* next octet to send of each end */
    bool initiator;
    bool started;
    bool ended[2];
};

struct rnic_capture *rnic_capture_new(struct rnic_device *dev, GError **error)
{
    const char *path = dev->config.pcap;
    const struct pcap_file header = {
        .magic = PCAP_MAGIC_NS,
        .major = 2,
        .minor = 4,
        .snaplen = PCAP_SNAPLEN,
        .linktype = LINKTYPE_RAW,
    };
    struct rnic_capture *capture;
    struct stat st;
    int fd, err;

    /* O_NONBLOCK: opening something else than a file must not wait either.
     * The file holds what guests exchange, so it is the user's only. */
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
              0600);
    err = errno;
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        fd = -1;
        err = EINVAL;
    } else if (fd >= 0 &&
               (ftruncate(fd, 0) < 0 ||
                write(fd, &header, sizeof(header)) != sizeof(header))) {
        err = errno;
        close(fd);
        fd = -1;
    }
    if (fd < 0) {
        g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(err),
                    "property 'pcap' is '%s': %s", path,
                    err == EINVAL ? "not a regular file" : g_strerror(err));
        return NULL;
    }
    capture = g_new0(struct rnic_capture, 1);
    capture->dev = dev;
    capture->fd = fd;
    capture->size = sizeof(header);
    capture->max = dev->config.pcap_max;
    return capture;
}

static void capture_stop(struct rnic_capture *capture)
{
    if (capture->fd >= 0) {
        close(capture->fd);
        capture->fd = -1;
    }
}

void rnic_capture_free(struct rnic_capture *capture)
{
    if (capture) {
        capture_stop(capture);
        g_free(capture);
    }
}

/* Appends the first @len octets of capture->packet */
static void capture_write(struct rnic_capture *capture, size_t len)
{
    ssize_t written;

    if (capture->max && capture->size + len > capture->max) {
        rnic_trace(capture->dev, device,
                   "capture ends: %s reached pcap-max (%" PRIu64 " octets)",
                   capture->dev->config.pcap, capture->max);
        capture_stop(capture);
        return;
    }
    written = write(capture->fd, capture->packet, len);
    if (written == (ssize_t)len) {
        capture->size += len;
        return;
    }
    rnic_trace(capture->dev, device, "capture ends: writing %s: %s",
               capture->dev->config.pcap,
               written < 0 ? g_strerror(errno) : "no space left");
    /* Half a packet would make the file unreadable from there on */
    if (written > 0 && ftruncate(capture->fd, capture->size) < 0) {
        rnic_trace(capture->dev, device,
                   "%s ends with an incomplete packet: %s",
                   capture->dev->config.pcap, g_strerror(errno));
    }
    capture_stop(capture);
}

/* ---- Packets ---- */

/* Sum of 16-bit words for the Internet checksum, not yet folded */
static uint64_t sum16(uint64_t sum, const uint8_t *p, size_t len)
{
    for (; len >= 2; p += 2, len -= 2) {
        sum += rnic_get_be16(p);
    }
    return len ? sum + (*p << 8) : sum;
}

static uint16_t fold16(uint64_t sum)
{
    while (sum >> 16) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return ~sum;
}

/* Writes the IP header; returns its length and the pseudo header's sum */
static size_t put_ip(uint8_t *p, const struct rnic_sockaddr *from,
                     const struct rnic_sockaddr *to, size_t payload,
                     uint64_t *pseudo)
{
    unsigned size = rnic_family_size(rnic_sockaddr_family(from));
    size_t len;

    if (size == 4) {
        len = IP4_SIZE;
        memset(p, 0, len);
        p[0] = 0x45;
        rnic_put_be16(p + 2, len + payload);
        rnic_put_be16(p + 6, 0x4000); /* do not fragment */
        p[8] = 64;
        p[9] = 6;
        memcpy(p + 12, from->addr, 4);
        memcpy(p + 16, to->addr, 4);
        rnic_put_be16(p + 10, fold16(sum16(0, p, len)));
    } else {
        len = IP6_SIZE;
        memset(p, 0, len);
        p[0] = 0x60;
        rnic_put_be16(p + 4, payload);
        p[6] = 6;
        p[7] = 64;
        memcpy(p + 8, from->addr, 16);
        memcpy(p + 24, to->addr, 16);
    }
    *pseudo = sum16(sum16(6 + payload, from->addr, size), to->addr, size);
    return len;
}

/*
 * Writes one packet from the local (@tx) or the remote end. Its @len octets of
 * data are gathered from @iov, from octet @skip on.
 */
static void flow_packet(struct rnic_capture_flow *flow, bool tx, uint8_t flags,
                        const struct iovec *iov, unsigned count, size_t skip,
                        size_t len)
{
    struct rnic_capture *capture = flow->capture;
    size_t options = flags & TCP_SYN ? TCP_SYN_OPTIONS : 0;
    size_t segment = TCP_SIZE + options + len, copied = 0;
    uint8_t *p = capture->packet + sizeof(struct pcap_packet), *tcp;
    struct pcap_packet header;
    struct timespec now;
    uint64_t pseudo;
    size_t ip;

    if (capture->fd < 0) {
        return;
    }
    ip = put_ip(p, &flow->end[tx], &flow->end[!tx], segment, &pseudo);
    tcp = p + ip;
    memset(tcp, 0, TCP_SIZE + options);
    memcpy(tcp, &flow->end[tx].port, 2);
    memcpy(tcp + 2, &flow->end[!tx].port, 2);
    rnic_put_be32(tcp + 4, flow->seq[tx]);
    rnic_put_be32(tcp + 8, flags & TCP_ACK ? flow->seq[!tx] : 0);
    tcp[12] = (TCP_SIZE + options) / 4 << 4;
    tcp[13] = flags;
    rnic_put_be16(tcp + 14, 0xffff);
    if (options) {
        memcpy(tcp + TCP_SIZE, (const uint8_t[]){ 1, 3, 3, 14 }, options);
    }
    for (unsigned i = 0; i < count && copied < len; i++) {
        size_t n = iov[i].iov_len;

        if (skip >= n) {
            skip -= n;
            continue;
        }
        n = MIN(n - skip, len - copied);
        memcpy(tcp + TCP_SIZE + options + copied,
               (const uint8_t *)iov[i].iov_base + skip, n);
        skip = 0;
        copied += n;
    }
    rnic_put_be16(tcp + 16, fold16(sum16(pseudo, tcp, segment)));

    clock_gettime(CLOCK_REALTIME, &now);
    header = (struct pcap_packet){
        .sec = now.tv_sec,
        .nsec = now.tv_nsec,
        .captured = ip + segment,
        .length = ip + segment,
    };
    memcpy(capture->packet, &header, sizeof(header));
    capture_write(capture, sizeof(header) + ip + segment);
    flow->seq[tx] += len + !!(flags & (TCP_SYN | TCP_FIN));
}

struct rnic_capture_flow *
rnic_capture_flow_new(struct rnic_capture *capture,
                      const struct rnic_sockaddr *local,
                      const struct rnic_sockaddr *remote, bool initiator)
{
    struct rnic_capture_flow *flow = g_new0(struct rnic_capture_flow, 1);

    flow->capture = capture;
    flow->end[0] = *remote;
    flow->end[1] = *local;
    flow->initiator = initiator;
    return flow;
}

void rnic_capture_flow_free(struct rnic_capture_flow *flow)
{
    g_free(flow);
}

static void flow_start(struct rnic_capture_flow *flow)
{
    bool tx = flow->initiator;

    if (!flow->started) {
        flow->started = true;
        flow_packet(flow, tx, TCP_SYN, NULL, 0, 0, 0);
        flow_packet(flow, !tx, TCP_SYN | TCP_ACK, NULL, 0, 0, 0);
        flow_packet(flow, tx, TCP_ACK, NULL, 0, 0, 0);
    }
}

void rnic_capture_data(struct rnic_capture_flow *flow, bool tx,
                       const struct iovec *iov, unsigned count, size_t len)
{
    flow_start(flow);
    for (size_t done = 0; done < len;) {
        size_t n = MIN(len - done, SEGMENT_MAX);

        flow_packet(flow, tx, TCP_PSH | TCP_ACK, iov, count, done, n);
        done += n;
    }
}

void rnic_capture_end(struct rnic_capture_flow *flow, bool tx, bool reset)
{
    if (!flow->started || flow->ended[tx]) {
        return;
    }
    flow_packet(flow, tx, reset ? TCP_RST | TCP_ACK : TCP_FIN | TCP_ACK, NULL,
                0, 0, 0);
    flow->ended[tx] = true;
    if (reset) {
        flow->ended[!tx] = true;
    }
}
