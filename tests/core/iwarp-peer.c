/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "iwarp-peer.h"
#include "qp-private.h"
#include "raw-peer.h"

#include <string.h>
#include <unistd.h>

static uint8_t *be(uint8_t *to, uint64_t value, unsigned octets)
{
    while (octets--) {
        *to++ = value >> octets * 8;
    }
    return to;
}

static uint64_t from_be(const uint8_t *from, unsigned octets)
{
    uint64_t value = 0;

    while (octets--) {
        value = value << 8 | *from++;
    }
    return value;
}

void iw_options_init(struct iw_options *options, bool crc)
{
    *options = (struct iw_options){ .crc = crc, .ird = 4, .ord = 4 };
}

void iw_listen(struct iw_peer *peer, const struct th_options *th)
{
    struct th_options defaults;
    struct th_qp_attr attr;
    struct iw_oracle *oracle = &peer->oracle;

    memset(peer, 0, sizeof(*peer));
    peer->fd = -1;
    if (!th) {
        th_options_init(&defaults);
        th = &defaults;
    }
    peer->guest = th_guest_started(th);
    oracle->guard[0] = th_buf_new(peer->guest, PEER_GUARD, 0, 0);
    peer->buf = th_buf_new(peer->guest, PEER_BUF, 1, 0);
    oracle->guard[1] = th_buf_new(peer->guest, PEER_GUARD, 0, 0);
    peer->stag = th_reg_mr(
        peer->guest, &peer->buf, PEER_IOVA,
        RNIC_ACCESS_ALL | (th->config.rfc7306 ? RNIC_ACCESS_REMOTE_ATOMIC : 0));
    oracle->local = th_buf_new(peer->guest, PEER_GUARD, 1, 0);
    th_reg_mr(peer->guest, &oracle->local, PEER_IOVA + PEER_BUF,
              RNIC_ACCESS_LOCAL_WRITE);
    oracle->scratch = th_buf_new(peer->guest, 64, 0, 0);
    oracle->scratch_stag =
        th_reg_mr(peer->guest, &oracle->scratch, 0, RNIC_ACCESS_LOCAL_WRITE);
    g_assert_cmpuint(th_addr_add(peer->guest, IW_DEVICE), ==, RNIC_ADMIN_OK);
    peer->listener = th_listen(peer->guest, IW_DEVICE, 0, 8, &peer->port);
    memset(peer->buf.ptr, 0xee, PEER_BUF);
    iw_watch(peer);
    iw_baseline(peer);
    /* It may use more than others: what a peer may not is refused with it */
    th_qp_attr_init(&attr);
    attr.flags = RNIC_QP_KERNEL;
    peer->qp = th_qp_new(peer->guest, &attr);
}

void iw_start(struct iw_peer *peer, const struct iw_options *options)
{
    struct th_connect params = { .ird = options->ird, .ord = options->ord };
    struct th_options th;
    struct rnic_aeqe event;
    struct raw_frame reply;
    uint8_t block[4];

    th_options_init(&th);
    th.config.crc = options->crc ? RNIC_CRC_ON : RNIC_CRC_OFF;
    th.config.rfc7306 = options->rfc7306;
    iw_listen(peer, &th);
    peer->crc = options->crc;
    peer->fd = raw_connect(peer->guest, IW_PEER, IW_DEVICE, peer->port);
    raw_block(block, options->ord, options->ird);
    raw_send_frame(peer->fd, false,
                   RAW_S | (options->crc ? RAW_C : 0) |
                       (options->markers ? RAW_M : 0),
                   2, block, 4);
    th_event_wait(peer->guest, RNIC_EV_CONNECT_REQUEST, peer->listener, &event);
    g_assert_cmpuint(
        th_accept(peer->qp, GUINT32_FROM_LE(event.conn_id), &params), ==,
        RNIC_ADMIN_OK);
    raw_recv_frame(peer->fd, true, &reply);
    g_assert_cmpuint(!!(reply.flags & RAW_C), ==, options->crc);
    th_event_wait(peer->guest, RNIC_EV_ESTABLISHED, peer->qp->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
}

void iw_free(struct iw_peer *peer)
{
    if (peer->fd >= 0) {
        close(peer->fd);
    }
    th_guest_free(peer->guest);
    g_free(peer->oracle.shadow);
    g_array_unref(peer->oracle.allowed);
}

int iw_device_fd(struct iw_peer *peer)
{
    return rnic_qp_find(peer->guest->dev, peer->qp->qpn)->stream->source.fd;
}

void iw_open_gate(struct iw_peer *peer)
{
    uint8_t ulpdu[16];

    iw_send(peer, ulpdu, iw_tagged(ulpdu, IW_TAGGED, IW_WRITE, 1, 0, NULL, 0));
    th_wait(!th_qp_gated(peer->qp));
}

void iw_add(const char *name, GTestDataFunc test)
{
    g_autofree char *off = g_strdup_printf("/wire/%s/crc-off", name);
    g_autofree char *on = g_strdup_printf("/wire/%s/crc-on", name);

    g_test_add_data_func(off, GINT_TO_POINTER(false), test);
    g_test_add_data_func(on, GINT_TO_POINTER(true), test);
}

struct row_test {
    iw_row_test test;
    gconstpointer row;
    bool crc;
};

static void run_row(gconstpointer opaque)
{
    const struct row_test *t = opaque;

    t->test(t->row, t->crc);
}

void iw_add_row(const char *name, gconstpointer row, iw_row_test test)
{
    unsigned crc;

    for (crc = 0; crc < 2; crc++) {
        struct row_test one = { test, row, crc };
        g_autofree char *path =
            g_strdup_printf("/wire/%s/crc-%s", name, crc ? "on" : "off");

        g_test_add_data_func_full(path, g_memdup2(&one, sizeof(one)), run_row,
                                  g_free);
    }
}

void iw_start_crc(struct iw_peer *peer, bool crc)
{
    struct iw_options options;

    iw_options_init(&options, crc);
    iw_start(peer, &options);
}

uint64_t iw_get(const uint8_t *from, unsigned octets)
{
    return from_be(from, octets);
}

/* ---- Building ---- */

size_t iw_tagged(uint8_t *to, uint8_t ddp, uint8_t rdmap, uint32_t stag,
                 uint64_t offset, const void *payload, size_t len)
{
    to[0] = ddp;
    to[1] = rdmap;
    be(to + 2, stag, 4);
    be(to + 6, offset, 8);
    if (len) {
        memcpy(to + 14, payload, len);
    }
    return 14 + len;
}

size_t iw_untagged(uint8_t *to, uint8_t ddp, uint8_t rdmap, uint32_t inv,
                   uint32_t qn, uint32_t msn, uint32_t mo, const void *payload,
                   size_t len)
{
    to[0] = ddp;
    to[1] = rdmap;
    be(to + 2, inv, 4);
    be(to + 6, qn, 4);
    be(to + 10, msn, 4);
    be(to + 14, mo, 4);
    if (len) {
        memcpy(to + 18, payload, len);
    }
    return 18 + len;
}

size_t iw_read_request(uint8_t *to, uint32_t msn, uint32_t sink,
                       uint64_t sink_to, uint32_t size, uint32_t source,
                       uint64_t source_to)
{
    uint8_t header[28], *p = header;

    p = be(p, sink, 4);
    p = be(p, sink_to, 8);
    p = be(p, size, 4);
    p = be(p, source, 4);
    be(p, source_to, 8);
    return iw_untagged(to, IW_UNTAGGED, IW_READ_REQ, 0, 1, msn, 0, header,
                       sizeof(header));
}

uint32_t iw_crc32c(const uint8_t *octets, size_t len)
{
    uint32_t crc = UINT32_MAX;
    unsigned bit;

    while (len--) {
        crc ^= *octets++;
        for (bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
        }
    }
    return ~crc;
}

static unsigned pad_of(size_t len)
{
    return (4 - (2 + len) % 4) % 4;
}

size_t iw_fpdu(const struct iw_peer *peer, uint8_t *to, const uint8_t *ulpdu,
               size_t len)
{
    size_t covered = 2 + len + pad_of(len);
    uint32_t crc;

    memset(to, 0, covered + 4);
    be(to, len, 2);
    memcpy(to + 2, ulpdu, len);
    if (peer->crc) {
        crc = iw_crc32c(to, covered);
        /* Least significant octet first */
        to[covered] = crc;
        to[covered + 1] = crc >> 8;
        to[covered + 2] = crc >> 16;
        to[covered + 3] = crc >> 24;
    }
    return covered + 4;
}

void iw_send(struct iw_peer *peer, const uint8_t *ulpdu, size_t len)
{
    g_autofree uint8_t *fpdu = g_malloc(PEER_FPDU_MAX);

    raw_send(peer->fd, fpdu, iw_fpdu(peer, fpdu, ulpdu, len));
}

void iw_send_message(struct iw_peer *peer, uint32_t msn, size_t len)
{
    g_autofree uint8_t *ulpdu = g_malloc(18 + len);
    g_autofree uint8_t *payload = g_malloc(len + 1);

    th_fill(payload, len, msn);
    iw_send(
        peer, ulpdu,
        iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, msn, 0, payload, len));
}

/* ---- Taking apart ---- */

size_t iw_recv(struct iw_peer *peer, uint8_t *ulpdu)
{
    g_autofree uint8_t *fpdu = g_malloc(PEER_FPDU_MAX);
    size_t len, covered, i;
    uint32_t crc = 0;

    raw_recv(peer->fd, fpdu, 2);
    len = from_be(fpdu, 2);
    g_assert_cmpuint(len, >=, 14);
    g_assert_cmpuint(len, <=, 64768);
    covered = 2 + len + pad_of(len);
    raw_recv(peer->fd, fpdu + 2, covered + 4 - 2);
    for (i = 2 + len; i < covered; i++) {
        g_assert_cmpuint(fpdu[i], ==, 0);
    }
    if (peer->crc) {
        crc = iw_crc32c(fpdu, covered);
    }
    for (i = 0; i < 4; i++) {
        g_assert_cmpuint(fpdu[covered + i], ==, crc >> i * 8 & 0xff);
    }
    memcpy(ulpdu, fpdu + 2, len);
    return len;
}

void iw_expect_term(struct iw_peer *peer, uint8_t layer, uint8_t etype,
                    uint8_t code, uint8_t *copy)
{
    g_autofree uint8_t *ulpdu = g_malloc(PEER_FPDU_MAX);
    size_t len, rest;

    do {
        len = iw_recv(peer, ulpdu);
    } while (ulpdu[1] != IW_TERM);
    g_assert_cmpuint(len, >=, 22);
    g_assert_cmpuint(len, <=, 70);
    g_assert_cmphex(ulpdu[0], ==, IW_UNTAGGED);
    g_assert_cmphex(from_be(ulpdu + 2, 4), ==, 0);
    g_assert_cmphex(from_be(ulpdu + 6, 4), ==, 2);  /* QN */
    g_assert_cmphex(from_be(ulpdu + 10, 4), ==, 1); /* MSN */
    g_assert_cmphex(from_be(ulpdu + 14, 4), ==, 0); /* MO */
    g_assert_cmphex(ulpdu[18], ==, layer << 4 | etype);
    g_assert_cmphex(ulpdu[19], ==, code);
    if (copy) {
        memcpy(copy, ulpdu, len);
    }
    /* Nothing behind it, and a FIN, so that it cannot be lost */
    g_assert_false(raw_closed(peer->fd, &rest));
    g_assert_cmpuint(rest, ==, 0);
    iw_expect_error(peer);
    g_assert_cmpuint(th_stat(peer->guest, RNIC_STAT_term_sent), ==, 1);
}

void iw_expect_close(struct iw_peer *peer)
{
    size_t rest;

    raw_closed(peer->fd, &rest);
    g_assert_cmpuint(rest, ==, 0);
    iw_expect_error(peer);
    g_assert_cmpuint(th_stat(peer->guest, RNIC_STAT_term_sent), ==, 0);
}

void iw_expect_error(struct iw_peer *peer)
{
    th_event_wait(peer->guest, RNIC_EV_CLOSE, peer->qp->qpn, NULL);
    g_assert_cmpuint(th_qp_state(peer->qp), ==, RNIC_QPS_ERROR);
    th_run_for(5);
    g_assert_false(th_event_take(peer->guest, RNIC_EV_CLOSE, TH_ANY_ID, NULL));
}

/* ---- The device's side ---- */

uint32_t iw_region(struct iw_peer *peer, uint32_t pdn, uint32_t access)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_REG_MR };
    struct rnic_acqe resp;

    cmd.reg_mr.pdn = GUINT32_TO_LE(pdn);
    cmd.reg_mr.access = GUINT32_TO_LE(access);
    cmd.reg_mr.iova = GUINT64_TO_LE(PEER_IOVA);
    cmd.reg_mr.buf = peer->buf.desc;
    g_assert_cmpuint(th_admin(peer->guest, &cmd, &resp), ==, RNIC_ADMIN_OK);
    return GUINT32_FROM_LE(resp.mr.stag);
}

/* ALLOC_MR for the whole buffer */
static uint32_t region_alloc(struct iw_peer *peer)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_ALLOC_MR };
    struct rnic_acqe resp;

    cmd.alloc_mr.pdn = GUINT32_TO_LE(TH_PD);
    cmd.alloc_mr.max_pages = GUINT32_TO_LE(4);
    g_assert_cmpuint(th_admin(peer->guest, &cmd, &resp), ==, RNIC_ADMIN_OK);
    return GUINT32_FROM_LE(resp.mr.stag);
}

static void post_and_wait(struct iw_peer *peer, const struct th_wr *wr)
{
    iw_open_gate(peer);
    th_post_send(peer->qp, wr, 1);
    iw_wait_send(peer, wr->wr_id, RNIC_WC_SUCCESS);
}

/* @stag: of ALLOC_MR; returns the one that is valid now */
static uint32_t region_fast_reg(struct iw_peer *peer, uint32_t stag,
                                uint32_t access)
{
    enum { PAGES = (IW_FAST_LEN + TH_PAGE - 1) / TH_PAGE };
    uint64_t pages = th_alloc(peer->guest, PAGES * 8, 8);
    uint64_t *list = th_ptr(peer->guest, pages);
    struct th_wr wr = {
        .opcode = RNIC_WR_REG_MR,
        .flags = RNIC_WQE_SIGNALED,
        .reg = {
            .access = GUINT32_TO_LE(access),
            .num_pages = GUINT32_TO_LE(PAGES),
            .iova = GUINT64_TO_LE(PEER_IOVA),
            .length = GUINT64_TO_LE(IW_FAST_LEN),
            .page_shift = GUINT32_TO_LE(12),
            .pages = GUINT64_TO_LE(pages),
            .stag = GUINT32_TO_LE(stag ^ 0x77),
        },
    };
    unsigned i;

    for (i = 0; i < PAGES; i++) {
        list[i] = GUINT64_TO_LE(peer->buf.pages[i]);
    }
    post_and_wait(peer, &wr);
    return stag ^ 0x77;
}

/* A Send with Invalidate, with MSN 1 */
static void take_back(struct iw_peer *peer, uint32_t stag)
{
    uint8_t ulpdu[18];

    iw_post_recv(peer, 77, 0, 0);
    iw_send(
        peer, ulpdu,
        iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND_INV, stag, 0, 1, 0, NULL, 0));
    iw_wait_recv(peer, 77, RNIC_WC_SUCCESS, 0);
}

uint32_t iw_stag_of(struct iw_peer *peer, enum iw_stag which)
{
    struct th_wr inv = {
        .opcode = RNIC_WR_LOCAL_INV,
        .flags = RNIC_WQE_SIGNALED,
    };
    uint32_t stag;

    switch (which) {
    case IW_STAG_OWN:
        break;
    case IW_STAG_NONE:
        return 0;
    case IW_STAG_WRONG_INDEX:
        return peer->stag ^ 0x55500;
    case IW_STAG_WRONG_KEY:
        return peer->stag ^ 1;
    case IW_STAG_DEREGISTERED:
        stag = iw_region(peer, TH_PD, RNIC_ACCESS_ALL);
        th_dereg_mr(peer->guest, stag);
        return stag;
    case IW_STAG_NOT_VALID:
        return region_alloc(peer);
    case IW_STAG_OTHER_PD:
        return iw_region(peer, TH_PD + 1, RNIC_ACCESS_ALL);
    case IW_STAG_READ_ONLY:
        return iw_region(peer, TH_PD,
                         RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_READ);
    case IW_STAG_WRITE_ONLY:
        return iw_region(peer, TH_PD,
                         RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE);
    case IW_STAG_LOCAL_ONLY:
        return iw_region(peer, TH_PD, RNIC_ACCESS_LOCAL_WRITE);
    case IW_STAG_INVALIDATED:
        inv.inv_stag =
            region_fast_reg(peer, region_alloc(peer), RNIC_ACCESS_ALL);
        post_and_wait(peer, &inv);
        return inv.inv_stag;
    case IW_STAG_TAKEN_BACK:
        stag = iw_region(peer, TH_PD, RNIC_ACCESS_ALL);
        take_back(peer, stag);
        return stag;
    case IW_STAG_FAST:
        return region_fast_reg(peer, region_alloc(peer), RNIC_ACCESS_ALL);
    case IW_STAG_FAST_OLD_KEY:
        stag = region_alloc(peer);
        region_fast_reg(peer, stag, RNIC_ACCESS_ALL);
        return stag;
    case IW_STAG_FAST_READ_ONLY:
        return region_fast_reg(peer, region_alloc(peer),
                               RNIC_ACCESS_LOCAL_WRITE |
                                   RNIC_ACCESS_REMOTE_READ);
    case IW_STAG_FAST_WRITE_ONLY:
        return region_fast_reg(peer, region_alloc(peer),
                               RNIC_ACCESS_LOCAL_WRITE |
                                   RNIC_ACCESS_REMOTE_WRITE);
    }
    return peer->stag;
}

void iw_post_recv(struct iw_peer *peer, uint64_t wr_id, uint64_t offset,
                  uint32_t len)
{
    struct rnic_sge sge = th_sge(peer->stag, PEER_IOVA + offset, len);

    th_post_recv(peer->qp, wr_id, &sge, 1);
}

void iw_wait_recv(struct iw_peer *peer, uint64_t wr_id,
                  enum rnic_wc_status status, uint32_t byte_len)
{
    struct rnic_cqe cqe;

    th_cq_wait(peer->qp->attr.recv_cq, &cqe);
    peer->oracle.recvs++;
    g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, wr_id);
    g_assert_cmpuint(cqe.status, ==, status);
    g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, byte_len);
}

void iw_wait_send(struct iw_peer *peer, uint64_t wr_id,
                  enum rnic_wc_status status)
{
    struct rnic_cqe cqe;

    th_cq_wait(peer->qp->attr.send_cq, &cqe);
    peer->oracle.sends++;
    g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, wr_id);
    g_assert_cmpuint(cqe.status, ==, status);
}

void iw_post_read(struct iw_peer *peer, uint64_t wr_id, uint64_t offset,
                  uint32_t len)
{
    struct th_wr wr = {
        .opcode = RNIC_WR_READ,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = wr_id,
        .sge = { th_sge(peer->stag, PEER_IOVA + offset, len) },
        .num_sge = 1,
        .remote_stag = 0x11223344,
        .remote_to = 0x5566778899aabbcc,
    };

    th_post_send(peer->qp, &wr, 1);
    peer->oracle.reads++;
}
