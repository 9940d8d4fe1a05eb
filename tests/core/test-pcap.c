/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The capture of real connections: both ends' files tell the same, and tshark,
 * where it is installed, understands them
 */
#include <string.h>
#include <unistd.h>
#include "harness.h"
#include "wire/byteorder.h"

#define A   "10.0.0.1"
#define B   "10.0.0.2"
#define LEN 200000

struct capture {
    char *path;
    char *octets;
    GArray *packets;
};

struct packet {
    bool from_client; /* whoever sent the SYN */
    uint8_t flags;
    const uint8_t *data;
    size_t len;
};

#define FIN 0x01
#define SYN 0x02
#define RST 0x04

/* IPv4 only; sums are checked by the unit test */
static void capture_read(struct capture *c)
{
    uint16_t client = 0;
    size_t len, off;

    g_assert_true(g_file_get_contents(c->path, &c->octets, &len, NULL));
    c->packets = g_array_new(false, true, sizeof(struct packet));
    for (off = 24; off < len;) {
        const uint8_t *p = (const uint8_t *)c->octets + off + 16;
        uint32_t captured;
        struct packet packet;

        memcpy(&captured, p - 8, 4);
        g_assert_cmpuint(captured, <=, len - off - 16);
        if (!client) {
            client = rnic_get_be16(p + 20);
        }
        packet.from_client = rnic_get_be16(p + 20) == client;
        packet.flags = p[33];
        packet.data = p + 20 + (p[32] >> 4) * 4;
        packet.len = p + captured - packet.data;
        g_array_append_val(c->packets, packet);
        off += 16 + captured;
    }
}

static void capture_clear(struct capture *c)
{
    unlink(c->path);
    g_free(c->path);
    g_free(c->octets);
    g_array_unref(c->packets);
}

static const struct packet *packet_at(const struct capture *c, unsigned i)
{
    g_assert_cmpuint(i, <, c->packets->len);
    return &g_array_index(c->packets, struct packet, i);
}

static struct th_guest *guest_new(const char *path, const char *address,
                                  enum rnic_crc_policy crc)
{
    struct th_options options;
    struct th_guest *guest;

    th_options_init(&options);
    options.config.pcap = path;
    options.config.crc = crc;
    guest = th_guest_started(&options);
    g_assert_cmpuint(th_addr_add(guest, address), ==, RNIC_ADMIN_OK);
    return guest;
}

static void wait_success(struct th_cq *cq)
{
    struct rnic_cqe cqe;

    th_cq_wait(cq, &cqe);
    g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
}

/* A Write of LEN octets and a Send behind it, then an orderly close */
static void talk(struct th_qp *from, struct th_qp *to)
{
    struct th_buf src = th_buf_new(from->guest, LEN, 1, 100);
    struct th_buf dst = th_buf_new(to->guest, LEN, 1, 0);
    uint32_t lkey = th_reg_mr(from->guest, &src, 0, RNIC_ACCESS_LOCAL_WRITE);
    uint32_t rkey = th_reg_mr(to->guest, &dst, 0, RNIC_ACCESS_ALL);
    struct rnic_sge recv = th_sge(rkey, 0, 64);
    struct th_wr wr[2] = {
        { .opcode = RNIC_WR_WRITE,
          .sge = { th_sge(lkey, 0, LEN) },
          .num_sge = 1,
          .remote_stag = rkey },
        { .opcode = RNIC_WR_SEND,
          .inline_data = "done",
          .inline_len = 4,
          .flags = RNIC_WQE_SIGNALED },
    };

    th_fill(src.ptr, LEN, 5);
    th_post_recv(to, 1, &recv, 1);
    th_post_send(from, wr, 2);
    wait_success(from->attr.send_cq);
    wait_success(to->attr.recv_cq);
    g_assert_cmpuint(th_qp_modify(from, RNIC_QPS_CLOSING), ==, RNIC_ADMIN_OK);
    th_event_wait(to->guest, RNIC_EV_CLOSE, to->qpn, NULL);
    th_event_wait(from->guest, RNIC_EV_CLOSE, from->qpn, NULL);
}

/* All octets of one direction */
static GByteArray *stream_of(const struct capture *c, bool from_client)
{
    GByteArray *stream = g_byte_array_new();

    for (unsigned i = 0; i < c->packets->len; i++) {
        const struct packet *p = packet_at(c, i);

        if (p->from_client == from_client) {
            g_byte_array_append(stream, p->data, p->len);
        }
    }
    return stream;
}

static char *tshark(const char *path, const char *const *args)
{
    GPtrArray *argv = g_ptr_array_new();
    GError *error = NULL;
    char *out = NULL;
    int status;

    g_ptr_array_add(argv, (char *)"tshark");
    g_ptr_array_add(argv, (char *)"-r");
    g_ptr_array_add(argv, (char *)path);
    /* These take every Send for their own protocol */
    g_ptr_array_add(argv, (char *)"--disable-protocol");
    g_ptr_array_add(argv, (char *)"rpcordma");
    g_ptr_array_add(argv, (char *)"--disable-protocol");
    g_ptr_array_add(argv, (char *)"smb_direct");
    while (*args) {
        g_ptr_array_add(argv, (char *)*args++);
    }
    g_ptr_array_add(argv, NULL);
    g_spawn_sync(NULL, (char **)argv->pdata, NULL,
                 G_SPAWN_SEARCH_PATH | G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL,
                 &out, NULL, &status, &error);
    g_assert_no_error(error);
    g_assert_true(g_spawn_check_wait_status(status, NULL));
    g_ptr_array_unref(argv);
    return out;
}

static unsigned occurrences(const char *text, const char *what)
{
    unsigned n = 0;

    while ((text = strstr(text, what))) {
        text += strlen(what);
        n++;
    }
    return n;
}

static void judge_by_tshark(const char *path, bool crc)
{
    const char *const whole[] = {
        "-V", "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
        NULL
    };
    const char *const malformed[] = { "-Y", "_ws.malformed", NULL };
    const char *const tcp[] = { "-Y", "tcp.analysis.flags", NULL };
    const char *const startup[] = { "-T", "fields",
                                    "-e", "frame.number",
                                    "-Y", "iwarp_mpa.req or iwarp_mpa.rep",
                                    NULL };
    const char *const ops[] = { "-T", "fields",    "-e", "iwarp_rdma.opcode",
                                "-Y", "iwarp_ddp", NULL };
    g_autofree char *text = tshark(path, whole);
    g_autofree char *bad = tshark(path, malformed);
    g_autofree char *flags = tshark(path, tcp);
    g_autofree char *frames = tshark(path, startup);
    g_autofree char *opcodes = tshark(path, ops);

    g_assert_cmpstr(bad, ==, "");
    g_assert_cmpstr(flags, ==, "");
    g_assert_cmpstr(frames, ==, "4\n5\n");
    g_assert_cmpuint(occurrences(text, "(Bad CRC32"), ==, 0);
    if (crc) {
        g_assert_cmpuint(occurrences(text, "(Good CRC32"), >=, 3);
    }
    /* Of IP and TCP */
    g_assert_cmpuint(occurrences(text, "hecksum Status: Good"), >=, 10);
    g_assert_cmpuint(occurrences(text, "hecksum Status: Bad"), ==, 0);
    g_assert_cmpuint(occurrences(text, "hecksum Status: Unverified"), ==, 0);
    /* Writes, and the Send */
    g_assert_nonnull(strstr(opcodes, "0x00"));
    g_assert_nonnull(strstr(opcodes, "0x03"));
}

static void check_connection(enum rnic_crc_policy crc)
{
    struct capture c[2] = { 0 };
    g_autofree char *program = g_find_program_in_path("tshark");
    struct th_guest *a, *b;
    struct th_qp *qa, *qb;
    GByteArray *sent, *received;
    unsigned rst = 0, fin = 0;

    for (unsigned i = 0; i < 2; i++) {
        c[i].path = g_strdup_printf("%s/rnic-pcap-%d-%u.pcap", g_get_tmp_dir(),
                                    getpid(), i);
    }
    a = guest_new(c[0].path, A, crc);
    b = guest_new(c[1].path, B, crc);
    qa = th_qp_new(a, NULL);
    qb = th_qp_new(b, NULL);
    th_connect_pair(qa, A, qb, B, NULL);
    talk(qa, qb);
    th_guest_free(a);
    th_guest_free(b);
    capture_read(&c[0]);
    capture_read(&c[1]);

    for (unsigned i = 0; i < 2; i++) {
        /* Request and Reply are packets of their own */
        g_assert_cmpuint(packet_at(&c[i], 0)->flags, ==, SYN);
        g_assert_cmpuint(packet_at(&c[i], 3)->len, ==, 24);
        g_assert_cmpmem(packet_at(&c[i], 3)->data, 16, "MPA ID Req Frame", 16);
        g_assert_true(packet_at(&c[i], 3)->from_client);
        g_assert_cmpuint(packet_at(&c[i], 4)->len, ==, 24);
        g_assert_cmpmem(packet_at(&c[i], 4)->data, 16, "MPA ID Rep Frame", 16);
        g_assert_false(packet_at(&c[i], 4)->from_client);
        for (unsigned j = 0; j < c[i].packets->len; j++) {
            rst += !!(packet_at(&c[i], j)->flags & RST);
            fin += !!(packet_at(&c[i], j)->flags & FIN);
        }
    }
    g_assert_cmpuint(rst, ==, 0);
    g_assert_cmpuint(fin, >=, 2);
    for (unsigned from_client = 0; from_client < 2; from_client++) {
        sent = stream_of(&c[0], from_client);
        received = stream_of(&c[1], from_client);
        g_assert_cmpmem(sent->data, sent->len, received->data, received->len);
        if (from_client) {
            g_assert_cmpuint(sent->len, >, LEN);
        }
        g_byte_array_unref(sent);
        g_byte_array_unref(received);
    }
    if (program) {
        judge_by_tshark(c[0].path, crc == RNIC_CRC_ON);
        judge_by_tshark(c[1].path, crc == RNIC_CRC_ON);
    } else {
        g_test_message("no tshark: not judged by it");
    }
    capture_clear(&c[0]);
    capture_clear(&c[1]);
}

static void test_both_ends_capture_the_same(void)
{
    check_connection(RNIC_CRC_OFF);
}

static void test_both_ends_capture_the_same_with_crc(void)
{
    check_connection(RNIC_CRC_ON);
}

static void test_connection_to_oneself_is_captured_once(void)
{
    struct capture c = { 0 };
    struct th_guest *a;
    struct th_qp *client, *server;
    unsigned syns = 0;

    c.path = g_strdup_printf("%s/rnic-pcap-%d.pcap", g_get_tmp_dir(), getpid());
    a = guest_new(c.path, A, RNIC_CRC_ON);
    client = th_qp_new(a, NULL);
    server = th_qp_new(a, NULL);
    th_connect_pair(client, A, server, A, NULL);
    talk(client, server);
    /* It can be read while the device runs */
    capture_read(&c);
    for (unsigned i = 0; i < c.packets->len; i++) {
        syns += packet_at(&c, i)->flags == SYN;
    }
    g_assert_cmpuint(syns, ==, 1);
    g_assert_cmpmem(packet_at(&c, 3)->data, 16, "MPA ID Req Frame", 16);
    g_assert_cmpmem(packet_at(&c, 4)->data, 16, "MPA ID Rep Frame", 16);
    th_guest_free(a);
    capture_clear(&c);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pcap/connection", test_both_ends_capture_the_same);
    g_test_add_func("/pcap/connection-crc",
                    test_both_ends_capture_the_same_with_crc);
    g_test_add_func("/pcap/self", test_connection_to_oneself_is_captured_once);
    return g_test_run();
}
