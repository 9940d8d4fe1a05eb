/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A buffer that the application rewrites while the device sends from it
 *
 * That is the application's error, and it gets what it deserves: some mixture
 * of old and new octets at the peer. But never a bad CRC, never a stream that
 * cannot be parsed any more, and never an octet from elsewhere. With CRC on
 * the device sends what it checksummed; with CRC off lengths and headers are its
 * own, and the part of an FPDU that TCP did not take is a copy.
 */
#include "iwarp-peer.h"
#include "qp.h"
#include "raw-peer.h"
#include "tx.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* All that the buffer ever holds */
#define OLD 0x11
#define NEW 0xee

#define SINK   0x4000u
#define TARGET 0x8000u

static const uint32_t lens[] = {
    1, 3, 100, 2047, 5000, 65000, 100000, PEER_BUF
};
#define CYCLES 4
#define COUNT  (CYCLES * G_N_ELEMENTS(lens))

struct rewrite {
    struct iw_peer peer;
    GThread *thread;
    _Atomic bool stop;
    bool slow;
    unsigned posted, asked;   /* work requests, Read Requests */
    unsigned sent, responded; /* messages of the SQ, responses seen */
    uint32_t progress;        /* octets of the message under way */
    unsigned cut;             /* FPDUs that TCP took in parts */
};

static gpointer rewriter(gpointer opaque)
{
    struct rewrite *w = opaque;
    uint8_t *buf = w->peer.buf.ptr;
    uint32_t seed = 1;

    while (!w->stop) {
        uint8_t octet = seed & 0x100 ? OLD : NEW;
        size_t at, len;

        seed = seed * 1664525 + 1013904223;
        at = seed >> 8 & (PEER_BUF - 1);
        len = seed & 7 ? 64 : PEER_BUF;
        memset(buf + at, octet, MIN(len, PEER_BUF - at));
    }
    return NULL;
}

static uint64_t get(const uint8_t *from, unsigned octets)
{
    uint64_t value = 0;

    while (octets--) {
        value = value << 8 | *from++;
    }
    return value;
}

/* Writes and Sends in turn, as many as the SQ holds */
static void post_some(struct rewrite *w)
{
    struct rnic_cqe cqe;

    while (th_cq_poll(w->peer.qp->attr.send_cq, &cqe)) {
        g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
    }
    for (; w->posted < 2 * COUNT && w->posted - w->sent < 48; w->posted++) {
        uint32_t len = lens[w->posted / 2 % G_N_ELEMENTS(lens)];
        struct th_wr wr = {
            .opcode = w->posted & 1 ? RNIC_WR_SEND : RNIC_WR_WRITE,
            .flags = RNIC_WQE_SIGNALED,
            .wr_id = w->posted,
            .sge = { th_sge(w->peer.stag, PEER_IOVA, len) },
            .num_sge = 1,
            .remote_stag = TARGET + w->posted,
            .remote_to = PEER_IOVA,
        };

        th_post_send(w->peer.qp, &wr, 1);
    }
}

/* The peer reads, too, as often as the device's IRD allows */
static void ask_some(struct rewrite *w)
{
    uint8_t ulpdu[64];

    for (; w->asked < COUNT && w->asked - w->responded < 4; w->asked++) {
        iw_send(&w->peer, ulpdu,
                iw_read_request(ulpdu, w->asked + 1, SINK + w->asked, 0,
                                lens[w->asked % G_N_ELEMENTS(lens)],
                                w->peer.stag, PEER_IOVA));
    }
}

/* One FPDU; iw_recv() checks length, pad and CRC */
static void take_fpdu(struct rewrite *w)
{
    g_autofree uint8_t *ulpdu = g_malloc(PEER_FPDU_MAX);
    size_t len = iw_recv(&w->peer, ulpdu), header = 14, i;
    bool last = ulpdu[0] & 0x40;
    uint32_t whole = lens[w->sent / 2 % G_N_ELEMENTS(lens)];

    g_assert_cmphex(ulpdu[0] & 0x3f, ==, 1);
    switch (ulpdu[1]) {
    case IW_READ_RSP:
        whole = lens[w->responded % G_N_ELEMENTS(lens)];
        g_assert_cmphex(ulpdu[0] & 0x80, ==, 0x80);
        g_assert_cmphex(get(ulpdu + 2, 4), ==, SINK + w->responded);
        g_assert_cmphex(get(ulpdu + 6, 8), ==, w->progress);
        w->responded += last;
        break;
    case IW_WRITE:
        g_assert_cmphex(ulpdu[0] & 0x80, ==, 0x80);
        g_assert_cmpuint(w->sent & 1, ==, 0);
        g_assert_cmphex(get(ulpdu + 2, 4), ==, TARGET + w->sent);
        g_assert_cmphex(get(ulpdu + 6, 8), ==, PEER_IOVA + w->progress);
        w->sent += last;
        break;
    default:
        g_assert_cmphex(ulpdu[1], ==, IW_SEND);
        g_assert_cmphex(ulpdu[0] & 0x80, ==, 0);
        header = 18;
        g_assert_cmpuint(w->sent & 1, ==, 1);
        g_assert_cmphex(get(ulpdu + 2, 4), ==, 0);
        g_assert_cmphex(get(ulpdu + 6, 4), ==, 0);
        g_assert_cmpuint(get(ulpdu + 10, 4), ==, w->sent / 2 + 1);
        g_assert_cmpuint(get(ulpdu + 14, 4), ==, w->progress);
        w->sent += last;
        break;
    }
    for (i = header; i < len; i++) {
        if (ulpdu[i] != OLD && ulpdu[i] != NEW) {
            g_error("0x%02x is not of the buffer", ulpdu[i]);
        }
    }
    w->progress += len - header;
    g_assert_cmpuint(w->progress, <=, whole);
    g_assert_cmpint(last, ==, w->progress == whole);
    if (last) {
        w->progress = 0;
    }
}

static void rewrite(bool crc, bool slow)
{
    struct rewrite w = { .slow = slow };
    struct iw_options options;
    struct rnic_qp *qp;
    int rcv = 65536, snd = 16384;

    iw_options_init(&options, crc);
    iw_start(&w.peer, &options);
    memset(w.peer.buf.ptr, OLD, PEER_BUF);
    qp = rnic_qp_find(w.peer.guest->dev, w.peer.qp->qpn);
    if (slow) {
        /* So that TCP takes a part of almost every FPDU */
        setsockopt(w.peer.fd, SOL_SOCKET, SO_RCVBUF, &rcv, sizeof(rcv));
        setsockopt(qp->stream->source.fd, SOL_SOCKET, SO_SNDBUF, &snd,
                   sizeof(snd));
    }
    w.thread = g_thread_new("rewriter", rewriter, &w);
    /* The peer's first Read Request opens the responder's gate */
    while (w.sent < 2 * COUNT || w.responded < COUNT) {
        post_some(&w);
        ask_some(&w);
        if (slow) {
            th_step(0);
            th_step(1);
            w.cut += rnic_tx_mid_fpdu(qp);
        }
        take_fpdu(&w);
    }
    w.stop = true;
    g_thread_join(w.thread);
    post_some(&w);
    g_assert_true(!slow || w.cut > 10);
    g_assert_cmpuint(th_stat(w.peer.guest, RNIC_STAT_term_sent), ==, 0);
    g_assert_cmpuint(th_qp_state(w.peer.qp), ==, RNIC_QPS_RTS);
    shutdown(w.peer.fd, SHUT_WR);
    iw_expect_close(&w.peer);
    iw_free(&w.peer);
}

static void test_crc_off(void)
{
    rewrite(false, false);
}

static void test_crc_off_slow_peer(void)
{
    rewrite(false, true);
}

static void test_crc_on(void)
{
    rewrite(true, false);
}

static void test_crc_on_slow_peer(void)
{
    rewrite(true, true);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/rewrite/crc-off", test_crc_off);
    g_test_add_func("/rewrite/crc-off-slow-peer", test_crc_off_slow_peer);
    g_test_add_func("/rewrite/crc-on", test_crc_on);
    g_test_add_func("/rewrite/crc-on-slow-peer", test_crc_on_slow_peer);
    return g_test_run();
}
