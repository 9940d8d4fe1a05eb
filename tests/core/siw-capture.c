/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "siw-capture.h"

#include <netinet/in.h>
#include <string.h>

#define ETHERNET_LEN 14

#define FIN 0x01
#define SYN 0x02
#define ACK 0x10

static uint64_t from_be(const uint8_t *from, unsigned octets)
{
    uint64_t value = 0;

    while (octets--) {
        value = value << 8 | *from++;
    }
    return value;
}

/* ---- Memory ---- */

static void message_free(gpointer opaque)
{
    struct cap_message *m = opaque;

    g_byte_array_unref(m->payload);
    g_free(m);
}

static void connection_free(gpointer opaque)
{
    struct cap_connection *c = opaque;
    unsigned side;

    for (side = 0; side < 2; side++) {
        g_byte_array_unref(c->stream[side]);
        g_array_unref(c->fpdus[side]);
    }
    g_array_unref(c->segments);
    g_ptr_array_unref(c->messages);
    g_free(c);
}

static struct cap_connection *connection_new(void)
{
    struct cap_connection *c = g_new0(struct cap_connection, 1);
    unsigned side;

    for (side = 0; side < 2; side++) {
        c->stream[side] = g_byte_array_new();
        c->fpdus[side] = g_array_new(false, false, sizeof(struct cap_fpdu));
    }
    c->segments = g_array_new(false, false, sizeof(struct cap_segment));
    c->messages = g_ptr_array_new_with_free_func(message_free);
    return c;
}

/* ---- TCP ---- */

/* These captures have one network and so few packets that none was lost or
 * sent again: what follows is all there is */
static void segment_add(struct cap_connection *c, enum cap_side side,
                        uint32_t seq, uint8_t flags, const uint8_t *payload,
                        size_t len)
{
    struct cap_segment segment = { .side = side, .fin = flags & FIN };

    if (flags & SYN) {
        c->next[side] = seq + 1;
        return;
    }
    if (!len && !segment.fin) {
        return;
    }
    g_assert_cmpuint(seq, ==, c->next[side]);
    c->next[side] += len;
    segment.start = c->stream[side]->len;
    g_byte_array_append(c->stream[side], payload, len);
    segment.end = c->stream[side]->len;
    g_array_append_val(c->segments, segment);
}

static void packet_add(GPtrArray *connections, const uint8_t *ip, size_t len)
{
    size_t total = from_be(ip + 2, 2), ip_len = (ip[0] & 15) * 4;
    const uint8_t *tcp = ip + ip_len;
    size_t tcp_len = (tcp[12] >> 4) * 4;
    /* Addresses and ports of both ends */
    uint32_t from = from_be(ip + 12, 4), to = from_be(ip + 16, 4);
    uint32_t ports = from_be(tcp, 4), back = ports << 16 | ports >> 16;
    unsigned i;

    g_assert_cmpuint(total, <=, len);
    g_assert_cmpuint(ip_len + tcp_len, <=, total);
    if ((tcp[13] & (SYN | ACK)) == SYN) {
        struct cap_connection *c = connection_new();

        c->key[0] = from;
        c->key[1] = to;
        c->key[2] = ports;
        g_ptr_array_add(connections, c);
    }
    for (i = 0; i < connections->len; i++) {
        struct cap_connection *c = g_ptr_array_index(connections, i);
        bool client =
            c->key[0] == from && c->key[1] == to && c->key[2] == ports;

        if (client ||
            (c->key[0] == to && c->key[1] == from && c->key[2] == back)) {
            segment_add(c, client ? CAP_CLIENT : CAP_SERVER,
                        from_be(tcp + 4, 4), tcp[13], tcp + tcp_len,
                        total - ip_len - tcp_len);
            return;
        }
    }
    g_error("a packet without a connection");
}

/* ---- MPA ---- */

static void frame_read(struct cap_connection *c, enum cap_side side)
{
    const GByteArray *s = c->stream[side];
    struct cap_frame *f = &c->frame[side];

    if (!s->len) {
        return;
    }
    g_assert_cmpuint(s->len, >=, 20);
    g_assert_cmpmem(
        s->data, 16,
        side == CAP_CLIENT ? "MPA ID Req Frame" : "MPA ID Rep Frame", 16);
    f->flags = s->data[16];
    f->rev = s->data[17];
    f->pd_len = from_be(s->data + 18, 2);
    f->len = 20 + f->pd_len;
    f->pd = s->data + 20;
    g_assert_cmpuint(f->len, <=, s->len);
    if (f->rev >= 2 && (f->flags & 0x10)) {
        g_assert_cmpuint(f->pd_len, >=, 4);
        f->ird = from_be(f->pd, 2);
        f->ord = from_be(f->pd + 2, 2);
        f->pd += 4;
        f->pd_len -= 4;
    }
}

/* ---- RDMAP ---- */

/* What an FPDU adds to @open, the messages that have begun: tagged ones and
 * untagged ones each one at a time */
static void ulpdu_read(struct cap_connection *c, enum cap_side side,
                       size_t start, size_t end, const uint8_t *ulpdu,
                       size_t len, struct cap_message *open[2])
{
    bool tagged = ulpdu[0] & 0x80, last = ulpdu[0] & 0x40;
    size_t header = tagged ? 14 : 18;
    struct cap_message *m = open[tagged];
    struct cap_fpdu fpdu = { .start = start, .end = end };

    g_assert_cmpuint(len, >=, header);
    if (!m) {
        m = open[tagged] = g_new0(struct cap_message, 1);
        m->side = side;
        m->opcode = ulpdu[1] & 15;
        m->stag = from_be(ulpdu + 2, 4);
        m->to = tagged ? from_be(ulpdu + 6, 8) : 0;
        m->msn = tagged ? 0 : from_be(ulpdu + 10, 4);
        m->payload = g_byte_array_new();
        m->first_end = end;
    }
    g_assert_cmpuint(m->opcode, ==, ulpdu[1] & 15);
    fpdu.payload = m->payload->len;
    fpdu.message = m;
    g_array_append_val(c->fpdus[side], fpdu);
    g_byte_array_append(m->payload, ulpdu + header, len - header);
    if (!last) {
        return;
    }
    m->last_end = end;
    if (m->opcode == CAP_READ_REQ) {
        const uint8_t *p = m->payload->data;

        g_assert_cmpuint(m->payload->len, ==, 28);
        m->sink_stag = from_be(p, 4);
        m->sink_to = from_be(p + 4, 8);
        m->size = from_be(p + 12, 4);
        m->source_stag = from_be(p + 16, 4);
        m->source_to = from_be(p + 20, 8);
    }
    g_ptr_array_add(c->messages, m);
    open[tagged] = NULL;
}

/* The FPDUs of one side that are complete with the first @end octets */
static void fpdus_read(struct cap_connection *c, enum cap_side side, size_t end,
                       size_t *at, struct cap_message *open[2])
{
    const uint8_t *s = c->stream[side]->data;

    while (end - *at >= 2) {
        size_t len = from_be(s + *at, 2), size = (2 + len + 3) / 4 * 4 + 4;

        if (end - *at < size) {
            break;
        }
        ulpdu_read(c, side, *at, *at + size, s + *at + 2, len, open);
        *at += size;
    }
}

/* Which request of the other side a Read Response answers: in order */
static void partners_find(struct cap_connection *c)
{
    unsigned i, j;

    for (i = 0; i < c->messages->len; i++) {
        struct cap_message *response = g_ptr_array_index(c->messages, i);

        if (response->opcode != CAP_READ_RSP) {
            continue;
        }
        for (j = 0; j < c->messages->len; j++) {
            struct cap_message *request = g_ptr_array_index(c->messages, j);

            if (request->opcode == CAP_READ_REQ &&
                request->side != response->side && !request->partner) {
                request->partner = response;
                response->partner = request;
                g_assert_cmpuint(request->size, ==, response->payload->len);
                break;
            }
        }
        g_assert_nonnull(response->partner);
    }
}

static void connection_read(struct cap_connection *c)
{
    struct cap_message *open[2][2] = { 0 };
    size_t at[2];
    unsigned i, side;

    for (side = 0; side < 2; side++) {
        frame_read(c, side);
        at[side] = c->frame[side].len;
    }
    for (i = 0; i < c->segments->len; i++) {
        const struct cap_segment *s =
            &g_array_index(c->segments, struct cap_segment, i);

        if (s->end > at[s->side]) {
            fpdus_read(c, s->side, s->end, &at[s->side], open[s->side]);
        }
    }
    for (side = 0; side < 2; side++) {
        g_assert_null(open[side][0]);
        g_assert_null(open[side][1]);
        g_assert_cmpuint(at[side], ==, c->stream[side]->len);
    }
    partners_find(c);
}

/* Little-endian, microseconds, Ethernet: as QEMU writes them */
static const uint8_t pcap_magic[] = { 0xd4, 0xc3, 0xb2, 0xa1 };

GPtrArray *cap_read(const char *path)
{
    GPtrArray *connections = g_ptr_array_new_with_free_func(connection_free);
    g_autofree char *octets = NULL;
    const uint8_t *p;
    size_t len, at;
    unsigned i;

    g_assert_true(g_file_get_contents(path, &octets, &len, NULL));
    g_assert_cmpuint(len, >, 24);
    p = (const uint8_t *)octets;
    g_assert_cmpmem(p, 4, pcap_magic, 4);
    for (at = 24; at < len;) {
        uint32_t captured;

        memcpy(&captured, p + at + 8, 4);
        captured = GUINT32_FROM_LE(captured);
        at += 16;
        g_assert_cmpuint(captured, <=, len - at);
        /* There is some ARP and IPv6 between */
        if (captured >= ETHERNET_LEN + 40 &&
            from_be(p + at + 12, 2) == 0x0800 &&
            p[at + ETHERNET_LEN + 9] == IPPROTO_TCP) {
            packet_add(connections, p + at + ETHERNET_LEN,
                       captured - ETHERNET_LEN);
        }
        at += captured;
    }
    for (i = 0; i < connections->len; i++) {
        connection_read(g_ptr_array_index(connections, i));
    }
    return connections;
}
