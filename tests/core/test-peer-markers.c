/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Markers (RFC 5044 sections 4.2 and 4.3): M01 to M10
 *
 * The device inserts them for a peer that asks and never asks for them, so
 * the cases about received markers are cases of a device that did not agree.
 */
#include "cm-steps.h"
#include "iwarp-peer.h"
#include "raw-peer.h"
#include "wire-io.h"

#include <string.h>
#include <unistd.h>

/* The largest stream that a test looks at */
#define STREAM (1u << 20)

static uint32_t get(const uint8_t *from, unsigned octets)
{
    uint32_t value = 0;

    while (octets--) {
        value = value << 8 | *from++;
    }
    return value;
}

static void start(struct iw_peer *p, bool crc)
{
    struct iw_options options;

    iw_options_init(&options, crc);
    options.markers = true;
    iw_start(p, &options);
    th_fill(p->buf.ptr, PEER_BUF, 2);
    iw_watch(p);
    iw_open_gate(p);
}

static void post(struct iw_peer *p, enum rnic_wr_opcode opcode, uint32_t len)
{
    struct th_wr wr = {
        .opcode = opcode,
        .flags = RNIC_WQE_SIGNALED,
        .sge = { th_sge(p->stag, PEER_IOVA, len) },
        .num_sge = 1,
        .remote_stag = 1,
    };

    th_post_send(p->qp, &wr, 1);
    iw_wait_send(p, 0, RNIC_WC_SUCCESS);
}

/* What the device has sent on this connection */
static size_t receive_all(struct iw_peer *p, uint8_t *stream)
{
    size_t len = th_stat(p->guest, RNIC_STAT_tx_octets);

    g_assert_cmpuint(len, <=, STREAM);
    raw_recv(p->fd, stream, len);
    raw_silent(p->fd, 10);
    return len;
}

/*
 * Follows the FPDUs of a stream with markers, from its start; returns how many.
 * Asserts that a marker is at every multiple of 512 and nowhere else, that it
 * points to the ULPDU_Length of its FPDU, or is 0 between two; and CRCs.
 */
static unsigned check_stream(const uint8_t *stream, size_t len, bool crc,
                             unsigned *markers_in_one)
{
    unsigned count = 0, markers;
    size_t pos = 0;

    *markers_in_one = 0;
    while (pos < len) {
        size_t from = pos, first, left;
        uint32_t sum;

        if (pos % 512 == 0) {
            /* Between two FPDUs: it belongs to the one that follows */
            g_assert_cmphex(get(stream + pos, 4), ==, 0);
            pos += 4;
        }
        first = pos;
        left = (2 + get(stream + pos, 2) + 3) / 4 * 4 + 4;
        for (markers = 0; left;) {
            if (pos % 512 == 0) {
                g_assert_cmphex(get(stream + pos, 4), ==, pos - first);
                markers++;
            } else {
                left -= 4;
            }
            pos += 4;
            g_assert_cmpuint(pos, <=, len);
        }
        /* Over the markers as well, that of before the FPDU included */
        sum = crc ? iw_crc32c(stream + from, pos - 4 - from) : 0;
        g_assert_cmphex(get(stream + pos - 4, 4), ==, GUINT32_SWAP_LE_BE(sum));
        *markers_in_one = MAX(*markers_in_one, markers);
        count++;
    }
    return count;
}

static void test_first_octets_are_a_marker(gconstpointer crc)
{
    struct iw_peer p;
    uint8_t octets[4 + 124];

    start(&p, GPOINTER_TO_INT(crc));
    post(&p, RNIC_WR_SEND, 100);
    raw_recv(p.fd, octets, sizeof(octets));
    g_assert_cmphex(get(octets, 4), ==, 0);
    g_assert_cmpuint(get(octets + 4, 2), ==, 18 + 100);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

static void test_many_small_fpdus(gconstpointer crc)
{
    g_autofree uint8_t *stream = g_malloc(STREAM);
    struct iw_peer p;
    unsigned i, in_one;
    size_t len;

    start(&p, GPOINTER_TO_INT(crc));
    for (i = 0; i < 300; i++) {
        post(&p, i % 3 ? RNIC_WR_WRITE : RNIC_WR_SEND, i % 67);
    }
    len = receive_all(&p, stream);
    g_assert_cmpuint(len, >, 20 * 512);
    g_assert_cmpuint(check_stream(stream, len, p.crc, &in_one), ==, 300);
    g_assert_cmpuint(in_one, ==, 1);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

static void test_large_fpdus(gconstpointer crc)
{
    static const uint32_t lens[] = { 1200, 9000, 460, 468, 470, 64000, 5 };
    g_autofree uint8_t *stream = g_malloc(STREAM);
    struct iw_peer p;
    unsigned i, in_one;
    size_t len;

    start(&p, GPOINTER_TO_INT(crc));
    for (i = 0; i < G_N_ELEMENTS(lens); i++) {
        post(&p, RNIC_WR_WRITE, lens[i]);
    }
    len = receive_all(&p, stream);
    g_assert_cmpuint(check_stream(stream, len, p.crc, &in_one), ==,
                     G_N_ELEMENTS(lens));
    /* FPDUPTR is 16 bits wide */
    g_assert_cmpuint(in_one, >=, 64000 / 512);
    /* That of 1200 octets: at 512, 1024 and not before its end again */
    g_assert_cmpuint(get(stream + 4, 2), ==, 1214);
    g_assert_cmphex(get(stream + 512, 4), ==, 508);
    g_assert_cmphex(get(stream + 1024, 4), ==, 1020);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

static void test_marker_between_pad_and_crc(gconstpointer crc)
{
    uint8_t stream[520];
    struct iw_peer p;
    uint32_t sum;

    start(&p, GPOINTER_TO_INT(crc));
    /* ULPDU 504, pad 2: the CRC would be at 512 */
    post(&p, RNIC_WR_WRITE, 504 - 14);
    g_assert_cmpuint(receive_all(&p, stream), ==, sizeof(stream));
    g_assert_cmpuint(get(stream + 4, 2), ==, 504);
    g_assert_cmphex(get(stream + 510, 2), ==, 0);
    g_assert_cmphex(get(stream + 512, 4), ==, 508);
    sum = p.crc ? iw_crc32c(stream, 516) : 0;
    g_assert_cmphex(get(stream + 516, 4), ==, GUINT32_SWAP_LE_BE(sum));
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

/* RFC 5044 section 4.4, figures 5 and 6, as the device sends them: Sends of 24
 * zero octets, the second across a marker */
static void test_figures_of_the_rfc(void)
{
    static const uint8_t figure_5[52] = {
        [5] = 0x2a, 0x41, 0x43, [19] = 1, [48] = 0x52, 0x23, 0x99, 0x83,
    };
    static const uint8_t figure_6[52] = {
        [1] = 0x2a,  0x41, 0x43, [15] = 2, [23] = 20,
        [48] = 0x84, 0x92, 0x58, 0x98,
    };
    uint8_t stream[1024];
    struct iw_peer p;

    start(&p, true);
    memset(p.buf.ptr, 0, PEER_BUF);
    iw_watch(&p);
    post(&p, RNIC_WR_SEND, 24);
    g_assert_cmpuint(receive_all(&p, stream), ==, 52);
    g_assert_cmpmem(stream, 52, figure_5, 52);
    /* The next FPDU starts 20 octets before a marker */
    post(&p, RNIC_WR_WRITE, 492 - 52 - 2 - 14 - 4);
    post(&p, RNIC_WR_SEND, 24);
    raw_recv(p.fd, stream + 52, 492 - 52 + 52);
    raw_silent(p.fd, 5);
    g_assert_cmpmem(stream + 492, 52, figure_6, 52);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

/* ---- The other direction ---- */

static void test_never_asked_for(gconstpointer crc)
{
    struct rnic_sockaddr local = th_sockaddr(IW_DEVICE, 0), remote;
    struct th_options th;
    struct rnic_aeqe event;
    struct raw_frame frame;
    struct iw_peer p;
    uint8_t ulpdu[64];
    uint16_t port = 0;
    int listener;

    th_options_init(&th);
    th.config.crc = GPOINTER_TO_INT(crc) ? RNIC_CRC_ON : RNIC_CRC_OFF;
    iw_listen(&p, &th);
    /* Not in a Reply to a peer that does */
    p.fd = raw_connect(p.guest, IW_PEER, IW_DEVICE, p.port);
    raw_send_frame(p.fd, false, RAW_M, 1, NULL, 0);
    th_event_wait(p.guest, RNIC_EV_CONNECT_REQUEST, p.listener, &event);
    g_assert_cmpuint(th_reject(p.guest, GUINT32_FROM_LE(event.conn_id), NULL),
                     ==, RNIC_ADMIN_OK);
    raw_recv_frame(p.fd, true, &frame);
    g_assert_cmphex(frame.flags & RAW_M, ==, 0);
    close(p.fd);
    /* Not in a Request */
    listener = raw_listen(p.guest, IW_PEER, &port);
    remote = th_sockaddr(IW_PEER, port);
    g_assert_cmpuint(th_connect(p.qp, &local, &remote, NULL), ==,
                     RNIC_ADMIN_OK);
    p.fd = raw_accept(listener);
    raw_recv_frame(p.fd, false, &frame);
    g_assert_cmphex(frame.flags & RAW_M, ==, 0);
    /* And what the peer asks for says nothing about the other direction */
    raw_block(ulpdu, RAW_A | 4, RAW_CW | 4);
    raw_send_frame(p.fd, true, RAW_S | RAW_M | (frame.flags & RAW_C), 2, ulpdu,
                   4);
    p.crc = frame.flags & RAW_C;
    th_event_wait(p.guest, RNIC_EV_CONNECT_REPLY, p.qp->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
    /* Its RTR comes with the first marker */
    raw_recv(p.fd, ulpdu, 4 + 20);
    g_assert_cmphex(get(ulpdu, 4), ==, 0);
    g_assert_cmphex(get(ulpdu + 4, 4), ==, 0x000ec140);
    close(listener);
    iw_expect_harmless(&p, 1);
    iw_free(&p);
}

static void start_plain(struct iw_peer *p, gconstpointer crc)
{
    struct iw_options options;

    iw_options_init(&options, GPOINTER_TO_INT(crc));
    iw_start(p, &options);
    iw_post_recv(p, 1, 1000, 100);
}

static void test_marker_that_was_not_agreed_on(gconstpointer crc)
{
    uint8_t octets[64] = { 0 }, ulpdu[64];
    struct iw_peer p;
    size_t len;

    start_plain(&p, crc);
    len = iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, 1, 0, "hello", 5);
    len = 4 + iw_fpdu(&p, octets + 4, ulpdu, len);
    raw_send(p.fd, octets, len);
    /* A length of 0 */
    iw_expect_refused(&p, 2, 0, 0x03, NULL);
    iw_free(&p);
}

static void test_marker_within_an_fpdu(gconstpointer crc)
{
    uint8_t octets[1024], ulpdu[1024], payload[600];
    struct iw_peer p;
    size_t len;

    start_plain(&p, crc);
    th_fill(payload, sizeof(payload), 7);
    len = iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag, PEER_IOVA, payload,
                    sizeof(payload));
    len = iw_fpdu(&p, octets, ulpdu, len);
    memmove(octets + 512 + 4, octets + 512, len - 512);
    memcpy(octets + 512, "\0\0\x02\0", 4);
    raw_send(p.fd, octets, len + 4);
    if (p.crc) {
        iw_expect_refused(&p, 2, 0, 0x02, NULL);
    } else {
        /* Taken for payload; then the CRC field for a length */
        iw_allow(&p, 0, sizeof(payload));
        iw_expect_refused(&p, 2, 0, 0x03, NULL);
    }
    iw_free(&p);
}

/* A peer that asks for markers and sends none: nothing is taken out of its
 * stream, not even what looks like markers where they would be */
static void test_what_looks_like_markers_is_payload(gconstpointer crc)
{
    g_autofree uint8_t *ulpdu = g_malloc(65536);
    g_autofree uint8_t *payload = g_malloc0(20000);
    /* The empty Write that opened the gate, this one's length and header */
    const size_t at = 20 + 2 + 14;
    struct iw_peer p;
    size_t i;

    start(&p, GPOINTER_TO_INT(crc));
    /* A marker where one would be: the distance to the length of the FPDU */
    for (i = 512 - at; i + 4 <= 20000; i += 512) {
        payload[i + 2] = (i + at - 20) >> 8;
        payload[i + 3] = i + at - 20;
    }
    iw_allow(&p, 0, 20000);
    iw_send(&p, ulpdu,
            iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag, PEER_IOVA, payload,
                      20000));
    iw_expect_harmless(&p, 1);
    g_assert_cmpmem(p.buf.ptr, 20000, payload, 20000);
    iw_free(&p);
}

/*
 * A peer that sends markers all the same, its CRC over them as if they had been
 * agreed upon: whatever FPDUPTR they have, they are no markers here. With CRC
 * nothing of the FPDU is taken; without, what follows is no FPDU.
 */
static void sends_markers(bool crc, uint16_t pointer)
{
    uint8_t octets[1024], ulpdu[1024], payload[600];
    struct iw_peer p;
    uint32_t sum;
    size_t len;

    start_plain(&p, GINT_TO_POINTER(crc));
    th_fill(payload, sizeof(payload), 7);
    len = iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, p.stag, PEER_IOVA, payload,
                    sizeof(payload));
    len = iw_fpdu(&p, octets, ulpdu, len);
    memmove(octets + 512 + 4, octets + 512, len - 512);
    memset(octets + 512, 0, 2);
    octets[514] = pointer >> 8;
    octets[515] = pointer;
    len += 4;
    if (crc) {
        sum = GUINT32_SWAP_LE_BE(iw_crc32c(octets, len - 4));
        memcpy(octets + len - 4, &sum, 4);
    }
    raw_send(p.fd, octets, len);
    if (crc) {
        iw_expect_refused(&p, 2, 0, 0x02, NULL);
    } else {
        iw_allow(&p, 0, sizeof(payload));
        iw_expect_refused(&p, 2, 0, 0x03, NULL);
    }
    iw_free(&p);
}

static void test_marker_with_a_wrong_pointer(gconstpointer crc)
{
    sends_markers(GPOINTER_TO_INT(crc), 0x1f8);
}

static void test_marker_with_low_bits_set(gconstpointer crc)
{
    /* 512 octets into the FPDU, and two bits that are no part of that */
    sends_markers(GPOINTER_TO_INT(crc), 512 | 3);
}

/* ---- Sequence numbers that wrap ---- */

static void test_sequence_numbers_wrap(gconstpointer crc)
{
    g_autofree uint8_t *stream = g_malloc(STREAM);
    uint8_t payload[3000], ulpdu[3100];
    struct iw_peer p;
    unsigned i, in_one;

    /* Within the first FPDUs. The peer's numbers; the device's follow below */
    if (!wire_initial_sequence(-700)) {
        g_test_skip("needs CAP_NET_ADMIN");
        return;
    }
    start(&p, GPOINTER_TO_INT(crc));
    for (i = 0; i < 3; i++) {
        th_fill(payload, sizeof(payload), i);
        iw_allow(&p, 0, sizeof(payload));
        iw_post_recv(&p, i, 0, sizeof(payload));
        iw_send(&p, ulpdu,
                iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, i + 1, 0,
                            payload, sizeof(payload)));
        iw_wait_recv(&p, i, RNIC_WC_SUCCESS, sizeof(payload));
        th_check_filled(p.buf.ptr, sizeof(payload), i);
    }
    post(&p, RNIC_WR_WRITE, 3000);
    g_assert_cmpuint(
        check_stream(stream, receive_all(&p, stream), p.crc, &in_one), ==, 1);
    iw_expect_harmless(&p, 4);
    wire_initial_sequence(0);
    iw_free(&p);
}

static void test_own_sequence_numbers_wrap(gconstpointer crc)
{
    g_autofree uint8_t *stream = g_malloc(STREAM);
    struct rnic_sockaddr local = th_sockaddr(IW_DEVICE, 0), remote;
    struct th_options th;
    struct rnic_aeqe event;
    struct raw_frame request;
    struct iw_peer p;
    uint16_t port = 0;
    unsigned i, in_one;
    int listener;

    if (!wire_initial_sequence(-700)) {
        g_test_skip("needs CAP_NET_ADMIN");
        return;
    }
    th_options_init(&th);
    th.config.crc = GPOINTER_TO_INT(crc) ? RNIC_CRC_ON : RNIC_CRC_OFF;
    th.config.mpa_rev = 1;
    iw_listen(&p, &th);
    listener = raw_listen(p.guest, IW_PEER, &port);
    remote = th_sockaddr(IW_PEER, port);
    g_assert_cmpuint(th_connect(p.qp, &local, &remote, NULL), ==,
                     RNIC_ADMIN_OK);
    p.fd = raw_accept(listener);
    close(listener);
    raw_recv_frame(p.fd, false, &request);
    p.crc = request.flags & RAW_C;
    raw_send_frame(p.fd, true, RAW_M | (request.flags & RAW_C), 1, NULL, 0);
    th_event_wait(p.guest, RNIC_EV_CONNECT_REPLY, p.qp->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
    for (i = 0; i < 3; i++) {
        post(&p, RNIC_WR_WRITE, 3000);
    }
    g_assert_cmpuint(
        check_stream(stream, receive_all(&p, stream), p.crc, &in_one), ==, 3);
    iw_expect_harmless(&p, 1);
    wire_initial_sequence(0);
    iw_free(&p);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    iw_add("M01/first-octets", test_first_octets_are_a_marker);
    iw_add("M02/many-small-fpdus", test_many_small_fpdus);
    iw_add("M03/large-fpdus", test_large_fpdus);
    iw_add("M04/between-pad-and-crc", test_marker_between_pad_and_crc);
    g_test_add_func("/wire/M05/figures-of-the-rfc/crc-on",
                    test_figures_of_the_rfc);
    iw_add("M06-M08-M09/never-asked-for", test_never_asked_for);
    iw_add("M06/what-looks-like-markers",
           test_what_looks_like_markers_is_payload);
    iw_add("M08/wrong-pointer", test_marker_with_a_wrong_pointer);
    iw_add("M09/low-bits", test_marker_with_low_bits_set);
    iw_add("M07/marker-first", test_marker_that_was_not_agreed_on);
    iw_add("M07/marker-within", test_marker_within_an_fpdu);
    iw_add("M10/sequence-of-the-peer", test_sequence_numbers_wrap);
    iw_add("M10/sequence-of-the-device", test_own_sequence_numbers_wrap);
    return g_test_run();
}
