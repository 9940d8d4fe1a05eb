/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Captures are judged by reading the files back */
#include "net/capture.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "net/sockaddr.h"
#include "wire/byteorder.h"

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define PSH 0x08
#define ACK 0x10

static unsigned traces;

static bool trace_enabled(void *opaque, enum rnic_trace_event event)
{
    return true;
}

static void trace(void *opaque, enum rnic_trace_event event, const char *text)
{
    g_test_message("%s", text);
    traces++;
}

static const struct rnic_host_ops ops = {
    .trace_enabled = trace_enabled,
    .trace = trace,
};

struct fixture {
    struct rnic_device *dev;
    struct rnic_capture *capture;
    char *folder, *path;
};

struct packet {
    const uint8_t *ip;
    size_t len;
    const uint8_t *tcp;
    const uint8_t *data;
    size_t data_len;
    uint32_t seq, ack;
    uint8_t flags;
    uint16_t from_port, to_port;
};

static struct rnic_sockaddr addr(const char *text, uint16_t port)
{
    struct rnic_sockaddr sa;

    g_assert_true(rnic_sockaddr_parse(text, &sa));
    sa.port = GUINT16_TO_BE(port);
    return sa;
}

static void set_up(struct fixture *f, gconstpointer max)
{
    GError *error = NULL;

    traces = 0;
    f->folder = g_dir_make_tmp("rnic-capture-XXXXXX", &error);
    g_assert_no_error(error);
    f->path = g_build_filename(f->folder, "c.pcap", NULL);
    f->dev = g_new0(struct rnic_device, 1);
    f->dev->ops = &ops;
    f->dev->config.pcap = f->path;
    f->dev->config.pcap_max = GPOINTER_TO_UINT(max);
    f->capture = rnic_capture_new(f->dev, &error);
    g_assert_no_error(error);
}

static void tear_down(struct fixture *f, gconstpointer max)
{
    rnic_capture_free(f->capture);
    unlink(f->path);
    rmdir(f->folder);
    g_free(f->path);
    g_free(f->folder);
    g_free(f->dev);
}

static uint16_t checksum(uint32_t sum, const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        sum += i & 1 ? p[i] : p[i] << 8;
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}

/* Parses and checks one packet, all lengths and sums of it */
static void parse_packet(struct packet *p)
{
    unsigned ip_len, addr_len, addr_off;
    uint32_t pseudo;

    g_assert_cmpuint(p->len, >=, 40);
    if (p->ip[0] == 0x45) {
        ip_len = 20;
        addr_off = 12;
        addr_len = 8;
        g_assert_cmpuint(rnic_get_be16(p->ip + 2), ==, p->len);
        g_assert_cmpuint(p->ip[9], ==, 6);
        g_assert_cmphex(checksum(0, p->ip, ip_len), ==, 0xffff);
    } else {
        g_assert_cmphex(p->ip[0], ==, 0x60);
        ip_len = 40;
        addr_off = 8;
        addr_len = 32;
        g_assert_cmpuint(rnic_get_be16(p->ip + 4), ==, p->len - 40);
        g_assert_cmpuint(p->ip[6], ==, 6);
    }
    pseudo = 6 + (p->len - ip_len);
    pseudo = (pseudo & 0xffff) + (pseudo >> 16);
    pseudo = checksum(pseudo, p->ip + addr_off, addr_len);
    p->tcp = p->ip + ip_len;
    g_assert_cmphex(checksum(pseudo, p->tcp, p->len - ip_len), ==, 0xffff);
    p->from_port = rnic_get_be16(p->tcp);
    p->to_port = rnic_get_be16(p->tcp + 2);
    p->seq = rnic_get_be32(p->tcp + 4);
    p->ack = rnic_get_be32(p->tcp + 8);
    p->flags = p->tcp[13];
    p->data = p->tcp + (p->tcp[12] >> 4) * 4;
    p->data_len = p->ip + p->len - p->data;
}

/* The packets of the file; *@octets owns them */
static GArray *read_back(struct fixture *f, char **octets)
{
    GArray *packets = g_array_new(false, true, sizeof(struct packet));
    size_t len, off = 24;
    const uint8_t *file;
    uint32_t word[4];

    g_assert_true(g_file_get_contents(f->path, octets, &len, NULL));
    file = (const uint8_t *)*octets;
    g_assert_cmpuint(len, >=, 24);
    memcpy(word, file, 4);
    g_assert_cmphex(word[0], ==, 0xa1b23c4d);
    memcpy(word, file + 20, 4);
    g_assert_cmpuint(word[0], ==, 101);
    while (off < len) {
        struct packet p = { 0 };

        g_assert_cmpuint(len - off, >=, 16);
        memcpy(word, file + off, 16);
        g_assert_cmpuint(word[1], <, 1000000000);
        g_assert_cmpuint(word[2], ==, word[3]);
        g_assert_cmpuint(word[2], <=, len - off - 16);
        p.ip = file + off + 16;
        p.len = word[2];
        parse_packet(&p);
        g_array_append_val(packets, p);
        off += 16 + word[2];
    }
    return packets;
}

static void assert_packet(const GArray *packets, unsigned i, uint16_t from,
                          uint8_t flags, uint32_t seq, uint32_t ack,
                          size_t data_len)
{
    const struct packet *p = &g_array_index(packets, struct packet, i);

    g_assert_cmpuint(i, <, packets->len);
    g_assert_cmpuint(p->from_port, ==, from);
    g_assert_cmphex(p->flags, ==, flags);
    g_assert_cmpuint(p->seq, ==, seq);
    g_assert_cmpuint(p->ack, ==, ack);
    g_assert_cmpuint(p->data_len, ==, data_len);
}

static struct rnic_capture_flow *flow_new(struct fixture *f, bool initiator)
{
    struct rnic_sockaddr local = addr("10.0.0.1", 1000);
    struct rnic_sockaddr remote = addr("10.0.0.2", 2000);

    return rnic_capture_flow_new(f->capture, &local, &remote, initiator);
}

static void put(struct rnic_capture_flow *flow, bool tx, const void *data,
                size_t len)
{
    struct iovec iov = { .iov_base = (void *)data, .iov_len = len };

    rnic_capture_data(flow, tx, &iov, 1, len);
}

static void test_connection_is_a_tcp_connection(struct fixture *f,
                                                gconstpointer max)
{
    struct rnic_capture_flow *flow = flow_new(f, true);
    g_autofree char *octets = NULL;
    GArray *packets;

    put(flow, true, "hello", 5);
    put(flow, false, "ok!", 3);
    put(flow, true, "more", 4);
    rnic_capture_end(flow, false, false);
    rnic_capture_end(flow, true, false);
    rnic_capture_end(flow, true, false);
    rnic_capture_flow_free(flow);

    packets = read_back(f, &octets);
    g_assert_cmpuint(packets->len, ==, 8);
    assert_packet(packets, 0, 1000, SYN, 0, 0, 0);
    assert_packet(packets, 1, 2000, SYN | ACK, 0, 1, 0);
    assert_packet(packets, 2, 1000, ACK, 1, 1, 0);
    assert_packet(packets, 3, 1000, PSH | ACK, 1, 1, 5);
    assert_packet(packets, 4, 2000, PSH | ACK, 1, 6, 3);
    assert_packet(packets, 5, 1000, PSH | ACK, 6, 4, 4);
    assert_packet(packets, 6, 2000, FIN | ACK, 4, 10, 0);
    assert_packet(packets, 7, 1000, FIN | ACK, 10, 5, 0);
    g_assert_cmpmem(g_array_index(packets, struct packet, 3).data, 5, "hello",
                    5);
    g_assert_cmpmem(g_array_index(packets, struct packet, 4).data, 3, "ok!", 3);
    g_array_unref(packets);
}

static void test_responder_did_not_send_the_syn(struct fixture *f,
                                                gconstpointer max)
{
    struct rnic_capture_flow *flow = flow_new(f, false);
    g_autofree char *octets = NULL;
    GArray *packets;

    put(flow, false, "req", 3);
    rnic_capture_end(flow, true, true);
    rnic_capture_end(flow, false, false);
    rnic_capture_flow_free(flow);

    packets = read_back(f, &octets);
    g_assert_cmpuint(packets->len, ==, 5);
    assert_packet(packets, 0, 2000, SYN, 0, 0, 0);
    assert_packet(packets, 1, 1000, SYN | ACK, 0, 1, 0);
    assert_packet(packets, 3, 2000, PSH | ACK, 1, 1, 3);
    assert_packet(packets, 4, 1000, RST | ACK, 1, 4, 0);
    g_array_unref(packets);
}

static void test_long_sends_are_split(struct fixture *f, gconstpointer max)
{
    struct rnic_capture_flow *flow = flow_new(f, true);
    g_autofree char *octets = NULL;
    g_autofree uint8_t *data = g_malloc(200000);
    struct iovec iov[3] = {
        { data, 7 },
        { data + 7, 64993 + 100 },
        { data + 65100, 134900 },
    };
    uint32_t seq = 1;
    size_t total = 0;
    GArray *packets;

    for (size_t i = 0; i < 200000; i++) {
        data[i] = i * 7 ^ i >> 8;
    }
    /* 100 octets of the iovec were not sent */
    rnic_capture_data(flow, true, iov, 3, 199900);
    rnic_capture_flow_free(flow);

    packets = read_back(f, &octets);
    for (unsigned i = 3; i < packets->len; i++) {
        const struct packet *p = &g_array_index(packets, struct packet, i);

        g_assert_cmpuint(p->data_len, <=, 65000);
        g_assert_cmpuint(p->seq, ==, seq);
        g_assert_cmpmem(p->data, p->data_len, data + total, p->data_len);
        seq += p->data_len;
        total += p->data_len;
    }
    g_assert_cmpuint(total, ==, 199900);
    g_array_unref(packets);
}

static void test_ipv6(struct fixture *f, gconstpointer max)
{
    struct rnic_sockaddr local = addr("fd00::1", 1000);
    struct rnic_sockaddr remote = addr("fd00::2", 2000);
    struct rnic_capture_flow *flow =
        rnic_capture_flow_new(f->capture, &local, &remote, true);
    g_autofree char *octets = NULL;
    GArray *packets;

    put(flow, true, "hello", 5);
    rnic_capture_flow_free(flow);
    packets = read_back(f, &octets);
    g_assert_cmpuint(packets->len, ==, 4);
    assert_packet(packets, 3, 1000, PSH | ACK, 1, 1, 5);
    g_assert_cmpmem(g_array_index(packets, struct packet, 3).ip + 8, 16,
                    local.addr, 16);
    g_array_unref(packets);
}

static void test_silent_connection_is_not_written(struct fixture *f,
                                                  gconstpointer max)
{
    struct rnic_capture_flow *flow = flow_new(f, true);
    g_autofree char *octets = NULL;
    GArray *packets;

    rnic_capture_end(flow, true, false);
    rnic_capture_flow_free(flow);
    packets = read_back(f, &octets);
    g_assert_cmpuint(packets->len, ==, 0);
    g_array_unref(packets);
}

static void test_size_limit_ends_the_capture(struct fixture *f,
                                             gconstpointer max)
{
    struct rnic_capture_flow *flow = flow_new(f, true);
    g_autofree char *octets = NULL;
    struct stat st;
    GArray *packets;
    static const uint8_t data[500];

    for (unsigned i = 0; i < 10; i++) {
        put(flow, true, data, sizeof(data));
    }
    rnic_capture_end(flow, true, false);
    rnic_capture_flow_free(flow);
    g_assert_cmpuint(traces, ==, 1);
    packets = read_back(f, &octets);
    g_assert_cmpuint(packets->len, >, 3);
    g_assert_cmpuint(packets->len, <, 10);
    g_assert_cmpint(stat(f->path, &st), ==, 0);
    g_assert_cmpuint(st.st_size, <=, GPOINTER_TO_UINT(max));
    g_array_unref(packets);
}

/* RLIMIT_FSIZE stands in for a full disk: the write is cut, the next fails */
static void test_full_disk_ends_the_capture(struct fixture *f,
                                            gconstpointer max)
{
    struct rnic_capture_flow *flow = flow_new(f, true);
    struct rlimit limit, small = { 0 };
    g_autofree char *octets = NULL;
    GArray *packets;
    static const uint8_t data[500];

    getrlimit(RLIMIT_FSIZE, &limit);
    small = limit;
    small.rlim_cur = 1500;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    for (unsigned i = 0; i < 10; i++) {
        put(flow, true, data, sizeof(data));
    }
    rnic_capture_flow_free(flow);
    setrlimit(RLIMIT_FSIZE, &limit);
    g_assert_cmpuint(traces, ==, 1);
    packets = read_back(f, &octets);
    g_assert_cmpuint(packets->len, ==, 5);
    g_array_unref(packets);
}

static void test_bad_path_is_an_error(void)
{
    struct rnic_device *dev = g_new0(struct rnic_device, 1);
    GError *error = NULL;

    dev->ops = &ops;
    dev->config.pcap = "/nonexistent/c.pcap";
    g_assert_null(rnic_capture_new(dev, &error));
    g_assert_nonnull(strstr(error->message, "'/nonexistent/c.pcap'"));
    g_clear_error(&error);
    dev->config.pcap = "/dev/null";
    g_assert_null(rnic_capture_new(dev, &error));
    g_assert_nonnull(strstr(error->message, "not a regular file"));
    g_clear_error(&error);
    g_free(dev);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, max, test)                                                   \
    g_test_add("/capture/" name, struct fixture, GUINT_TO_POINTER(max),        \
               set_up, test, tear_down)
    ADD("connection", 0, test_connection_is_a_tcp_connection);
    ADD("responder", 0, test_responder_did_not_send_the_syn);
    ADD("split", 0, test_long_sends_are_split);
    ADD("ipv6", 0, test_ipv6);
    ADD("silent", 0, test_silent_connection_is_not_written);
    ADD("limit", 2000, test_size_limit_ends_the_capture);
    ADD("full-disk", 0, test_full_disk_ends_the_capture);
    g_test_add_func("/capture/bad-path", test_bad_path_is_an_error);
    return g_test_run();
}
