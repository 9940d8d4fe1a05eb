/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What must hold after anything that a peer did: see iwarp-peer.h
 */
#include "cm-private.h"
#include "iwarp-peer.h"
#include "raw-peer.h"
#include "tx.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Of guards and regions that nobody may write */
#define CANARY 0xc3

/* How much the heap may differ: texts and objects of the harness */
#define HEAP_SLACK    (32u << 10)
#define MAPPING_SLACK 1000

struct iw_range {
    size_t from, to;
};

/* ---- Memory ---- */

void iw_watch(struct iw_peer *peer)
{
    struct iw_oracle *oracle = &peer->oracle;

    if (!oracle->shadow) {
        oracle->shadow = g_malloc(PEER_BUF);
        oracle->allowed = g_array_new(false, false, sizeof(struct iw_range));
    }
    g_array_set_size(oracle->allowed, 0);
    memcpy(oracle->shadow, peer->buf.ptr, PEER_BUF);
    memset(oracle->guard[0].ptr, CANARY, PEER_GUARD);
    memset(oracle->guard[1].ptr, CANARY, PEER_GUARD);
    memset(oracle->local.ptr, CANARY, PEER_GUARD);
}

void iw_allow(struct iw_peer *peer, size_t offset, size_t len)
{
    struct iw_range range = { offset, offset + len };

    g_array_append_val(peer->oracle.allowed, range);
}

static bool allowed(const struct iw_oracle *oracle, size_t i)
{
    unsigned r;

    for (r = 0; r < oracle->allowed->len; r++) {
        const struct iw_range *range =
            &g_array_index(oracle->allowed, struct iw_range, r);

        if (i >= range->from && i < range->to) {
            return true;
        }
    }
    return false;
}

static void check_canary(const char *name, const struct th_buf *buf)
{
    size_t i;

    for (i = 0; i < buf->len; i++) {
        if (buf->ptr[i] != CANARY) {
            g_error("octet %zu of %s is 0x%02x", i, name, buf->ptr[i]);
        }
    }
}

void iw_check_memory(struct iw_peer *peer)
{
    const struct iw_oracle *oracle = &peer->oracle;
    size_t i;

    check_canary("the memory before the buffer", &oracle->guard[0]);
    check_canary("the memory behind the buffer", &oracle->guard[1]);
    check_canary("a region without remote rights", &oracle->local);
    for (i = 0; i < PEER_BUF; i++) {
        if (peer->buf.ptr[i] != oracle->shadow[i] && !allowed(oracle, i)) {
            g_error("octet %zu of the buffer is 0x%02x, was 0x%02x", i,
                    peer->buf.ptr[i], oracle->shadow[i]);
        }
    }
}

/* ---- Completions and events ---- */

/* Takes all of @cq; how many. The first has @oldest, others are flushed. */
static unsigned take_all(struct th_cq *cq, enum rnic_wc_status oldest)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_int64_hash, g_int64_equal);
    g_autoptr(GPtrArray) keys = g_ptr_array_new_with_free_func(g_free);
    struct rnic_cqe cqe;
    unsigned count = 0;

    while (th_cq_poll(cq, &cqe)) {
        uint64_t *wr_id = g_memdup2(&cqe.wr_id, sizeof(cqe.wr_id));

        g_ptr_array_add(keys, wr_id);
        g_assert_true(g_hash_table_add(seen, wr_id));
        g_assert_cmpuint(cqe.status, ==, count ? RNIC_WC_WR_FLUSH_ERR : oldest);
        count++;
    }
    return count;
}

void iw_check_flushed(struct iw_peer *peer)
{
    struct iw_oracle *oracle = &peer->oracle;
    struct th_qp *qp = peer->qp;
    unsigned recvs =
        take_all(qp->attr.recv_cq, oracle->recv_status ? oracle->recv_status
                                                       : RNIC_WC_WR_FLUSH_ERR);
    unsigned sends =
        take_all(qp->attr.send_cq, oracle->send_status ? oracle->send_status
                                                       : RNIC_WC_WR_FLUSH_ERR);

    oracle->recvs += recvs;
    oracle->sends += sends;
    if (th_qp_state(qp) != RNIC_QPS_ERROR) {
        g_assert_cmpuint(recvs + sends, ==, 0);
        return;
    }
    g_assert_cmpuint(oracle->recvs, ==, qp->rq_pi);
    g_assert_cmpuint(oracle->sends, <=, qp->sq_pi);
    if (oracle->reads == qp->sq_pi) {
        /* All of them signalled */
        g_assert_cmpuint(oracle->sends, ==, qp->sq_pi);
    }
}

/* No event of this QP came twice */
static void check_events(struct iw_peer *peer)
{
    unsigned type;

    for (type = 1; type < 64; type++) {
        if (th_event_take(peer->guest, type, peer->qp->qpn, NULL)) {
            g_assert_false(
                th_event_take(peer->guest, type, peer->qp->qpn, NULL));
        }
    }
}

/* ---- The endpoint ---- */

/* Nothing of a connection is left in the device */
static void wait_gone(struct th_guest *guest)
{
    th_wait(!guest->dev->cm->conns.length && !guest->dev->draining.length);
}

void iw_connect_again(struct iw_peer *peer)
{
    static const uint8_t hello[] = "hello again";
    struct th_guest *guest = peer->guest;
    const struct iw_oracle *oracle = &peer->oracle;
    struct iw_peer again = { .guest = guest };
    struct th_wr wr = {
        .opcode = RNIC_WR_SEND,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = 2,
        .sge = { th_sge(oracle->scratch_stag, 0, 64) },
        .num_sge = 1,
    };
    struct rnic_aeqe event;
    struct raw_frame reply;
    uint8_t ulpdu[18 + 64];
    size_t len;

    again.qp = th_qp_new(guest, NULL);
    again.fd = raw_connect(guest, IW_PEER, IW_DEVICE, peer->port);
    raw_send_frame(again.fd, false, 0, 1, NULL, 0);
    th_event_wait(guest, RNIC_EV_CONNECT_REQUEST, peer->listener, &event);
    g_assert_cmpuint(th_accept(again.qp, GUINT32_FROM_LE(event.conn_id), NULL),
                     ==, RNIC_ADMIN_OK);
    raw_recv_frame(again.fd, true, &reply);
    again.crc = reply.flags & RAW_C;
    th_event_wait(guest, RNIC_EV_ESTABLISHED, again.qp->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);

    th_post_recv(again.qp, 1, &wr.sge[0], 1);
    len = iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, 1, 0, hello,
                      sizeof(hello));
    iw_send(&again, ulpdu, len);
    iw_wait_recv(&again, 1, RNIC_WC_SUCCESS, sizeof(hello));
    g_assert_cmpmem(oracle->scratch.ptr, sizeof(hello), hello, sizeof(hello));
    th_fill(oracle->scratch.ptr, 64, 5);
    th_post_send(again.qp, &wr, 1);
    g_assert_cmpuint(iw_recv(&again, ulpdu), ==, 18 + 64);
    th_check_filled(ulpdu + 18, 64, 5);
    iw_wait_send(&again, 2, RNIC_WC_SUCCESS);

    close(again.fd);
    iw_expect_error(&again);
    th_qp_free(again.qp);
}

void iw_baseline(struct iw_peer *peer)
{
    peer->oracle.before = usage_now();
    /* With its first connection the device allocates what all share */
    peer->oracle.later =
        peer->guest->dev->qp_scratch ? 0 : sizeof(struct rnic_qp_scratch);
}

void iw_check_after(struct iw_peer *peer)
{
    iw_check_memory(peer);
    iw_check_flushed(peer);
    check_events(peer);
    if (peer->fd >= 0) {
        close(peer->fd);
        peer->fd = -1;
    }
    wait_gone(peer->guest);
    iw_connect_again(peer);
    th_qp_free(peer->qp);
    wait_gone(peer->guest);
    usage_check(&peer->oracle.before, HEAP_SLACK + peer->oracle.later,
                MAPPING_SLACK);
    /* Not by the second connection either */
    iw_check_memory(peer);
}

/* ---- Outcomes ---- */

void iw_expect_refused(struct iw_peer *peer, uint8_t layer, uint8_t etype,
                       uint8_t code, uint8_t *ulpdu)
{
    iw_expect_term(peer, layer, etype, code, ulpdu);
    iw_check_after(peer);
    g_assert_cmpuint(th_stat(peer->guest, RNIC_STAT_term_sent), ==, 1);
}

void iw_expect_dropped(struct iw_peer *peer)
{
    iw_expect_close(peer);
    iw_check_after(peer);
    g_assert_cmpuint(th_stat(peer->guest, RNIC_STAT_term_sent), ==, 0);
}

void iw_expect_harmless(struct iw_peer *peer, uint32_t msn)
{
    struct rnic_sge sge = th_sge(peer->oracle.scratch_stag, 0, 64);

    th_post_recv(peer->qp, UINT64_MAX, &sge, 1);
    iw_send_message(peer, msn, 64);
    iw_wait_recv(peer, UINT64_MAX, RNIC_WC_SUCCESS, 64);
    th_check_filled(peer->oracle.scratch.ptr, 64, msn);
    g_assert_cmpuint(th_qp_state(peer->qp), ==, RNIC_QPS_RTS);
    shutdown(peer->fd, SHUT_WR);
    iw_expect_dropped(peer);
}
