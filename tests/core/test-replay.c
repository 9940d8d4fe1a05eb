/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What siw said on the wire, said again to this device
 *
 * Each connection of the captures in tests/data/siw is replayed twice: what
 * siw's initiator sent goes to a device that answers, what siw's responder sent
 * to a device that calls. The device's application does what the other end in
 * the capture did: the work requests are read from its FPDUs. What is compared:
 * each message that the device sends, each octet of its memory, each
 * completion, and how the connection ends.
 *
 * siw's octets are sent as they are, CRCs and pads included, in the segments
 * of the capture. They name STags of the device in the capture, which
 * replay-memory.c makes this one give, too. To put other STags into siw's FPDUs
 * would have needed new CRCs, and the octets would not be siw's any more.
 */
#include "raw-peer.h"
#include "replay.h"
#include "wire-io.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEVICE "10.0.0.1"
#define PEER   "10.0.0.2"

#define TERM(layer, etype, code) ((layer) << 16 | (etype) << 8 | (code))

static const struct replay_case rows[] = {
    { .name = "rping_v1_nocrc", .connections = 1 },
    { .name = "rping_v1_crc", .connections = 1 },
    { .name = "rping_v2_nocrc", .connections = 1 },
    { .name = "rping_v2_crc", .connections = 1 },
    { .name = "rping_crc_client_only", .connections = 1 },
    { .name = "rping_p2p_nocrc", .connections = 1 },
    { .name = "rping_p2p_crc", .connections = 1 },
    { .name = "rping_64k", .connections = 1 },
    { .name = "golden_send_nocrc", .connections = 1 },
    { .name = "golden_send_crc", .connections = 1 },
    { .name = "golden_send_v1_nocrc", .connections = 1 },
    { .name = "golden_send_v1_crc", .connections = 1 },
    { .name = "golden_write_nocrc", .connections = 1 },
    { .name = "golden_write_crc", .connections = 1 },
    { .name = "golden_write_v1_crc", .connections = 1 },
    { .name = "golden_write_gso_crc", .connections = 1 },
    { .name = "golden_read_nocrc", .connections = 1 },
    { .name = "golden_zero_crc", .connections = 1 },
    { .name = "ib_send_lat_64", .connections = 2 },
    { .name = "ib_write_lat_8", .connections = 2 },
    { .name = "ib_write_bw_16k", .connections = 2 },
    { .name = "ib_read_bw_16k", .connections = 2 },
    { .name = "nvme_rdma", .connections = 2 },
    { .name = "rej_ucmatose", .connections = 2 },
    { .name = "rej_crc_strict", .connections = 1 },
    { "golden_err_wr_stag_nocrc", 1, REPLAY_NO_REGION, TERM(1, 1, 0x00),
      TERM(1, 1, 0x00) },
    { "golden_err_wr_stag_crc", 1, REPLAY_NO_REGION, TERM(1, 1, 0x00),
      TERM(1, 1, 0x00) },
    /* RFC 5041 has no code for a missing right; siw says 'invalid STag', the
     * device RDMAP's code for it */
    { "golden_err_wr_access_crc", 1, REPLAY_NO_RIGHT, TERM(1, 1, 0x00),
      TERM(0, 1, 0x02) },
    { "golden_err_rd_stag_nocrc", 1, REPLAY_NO_REGION, TERM(0, 1, 0x00),
      TERM(0, 1, 0x00) },
    { "golden_err_rd_stag_crc", 1, REPLAY_NO_REGION, TERM(0, 1, 0x00),
      TERM(0, 1, 0x00) },
    { "golden_err_rd_bound_crc", 1, REPLAY_BOUNDS, TERM(0, 1, 0x01),
      TERM(0, 1, 0x01) },
    { "golden_err_snd_norq_crc", 1, REPLAY_NO_RECEIVE, TERM(1, 2, 0x02),
      TERM(1, 2, 0x02) },
    /* This libsiw leaves the STag out and sends 0. siw completes the receive
     * in error and goes on; RFC 5040 section 7.1 has the stream ended. */
    { "golden_sendinv_crc", 1, REPLAY_INVALIDATE, 0, TERM(0, 2, 0x09) },
};

/* ---- Startup ---- */

static bool server_talks_first(const struct cap_connection *c)
{
    return c->messages->len &&
           ((struct cap_message *)c->messages->pdata[0])->side == CAP_SERVER;
}

static void make_guest(struct replay *r)
{
    const struct cap_frame *request = &r->c->frame[CAP_CLIENT];
    struct th_qp_attr attr;
    struct th_options th;

    th_options_init(&th);
    r->peer.crc = request->flags & RAW_C;
    th.config.crc = r->peer.crc ? RNIC_CRC_ON : RNIC_CRC_OFF;
    th.config.mpa_rev = request->rev;
    th.config.p2p = request->ird & RAW_A;
    /* siw's responder does not wait for the initiator's first FPDU, and some
     * programs rely on that */
    th.config.mpa_gate_strict = !server_talks_first(r->c);
    r->peer.guest = th_guest_started(&th);
    g_assert_cmpuint(th_addr_add(r->peer.guest, DEVICE), ==, RNIC_ADMIN_OK);
    th_qp_attr_init(&attr);
    attr.flags = RNIC_QP_KERNEL;
    attr.rq_depth = 128;
    r->peer.qp = th_qp_new(r->peer.guest, &attr);
}

static void params_of(const struct cap_frame *f, struct th_connect *params)
{
    *params = (struct th_connect){ .ird = 16, .ord = 16 };
    if (f->flags & RAW_S) {
        params->ird = f->ird & 0x3fff;
        params->ord = f->ord & 0x3fff;
    }
    params->pdata = f->pd;
    params->pdata_len = f->pd_len;
}

static void check_pdata(const struct rnic_aeqe *event,
                        const struct cap_frame *f)
{
    g_assert_cmpmem(event->pdata, GUINT16_FROM_LE(event->pdata_len), f->pd,
                    f->pd_len);
}

/* The device's frame is that of the capture; bit 0x08 is siw's own */
static void check_frame(const struct raw_frame *got, const struct cap_frame *f)
{
    size_t block = got->flags & RAW_S ? 4 : 0;

    g_assert_cmpuint(got->rev, ==, f->rev);
    g_assert_cmphex(got->flags, ==, f->flags & 0xf0);
    g_assert_cmpmem(got->pd + block, got->pd_len - block, f->pd, f->pd_len);
    g_assert_cmphex(got->ird, ==, f->ird);
    /* siw names one form of ready-to-receive message, the device all that the
     * initiator offered */
    g_assert_cmphex(got->ord | (got->ird & RAW_A ? RAW_D : 0), ==,
                    f->ord | (f->ird & RAW_A ? RAW_D : 0));
}

static void wait_established(struct replay *r)
{
    struct rnic_aeqe event;

    th_event_wait(r->peer.guest, RNIC_EV_ESTABLISHED, r->peer.qp->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
}

/* False: rejected */
static bool start_responder(struct replay *r)
{
    const struct cap_frame *request = &r->c->frame[CAP_CLIENT];
    const struct cap_frame *reply = &r->c->frame[CAP_SERVER];
    struct th_guest *guest = r->peer.guest;
    struct th_connect params;
    struct rnic_aeqe event;
    struct raw_frame got;
    uint32_t listener, conn_id;
    uint16_t port;

    listener = th_listen(guest, DEVICE, 0, 8, &port);
    r->peer.fd = raw_connect(guest, PEER, DEVICE, port);
    raw_send(r->peer.fd, r->c->stream[CAP_CLIENT]->data, request->len);
    th_event_wait(guest, RNIC_EV_CONNECT_REQUEST, listener, &event);
    check_pdata(&event, request);
    if (request->flags & RAW_S) {
        g_assert_cmpuint(GUINT16_FROM_LE(event.ird), ==, request->ird & 0x3fff);
        g_assert_cmpuint(GUINT16_FROM_LE(event.ord), ==, request->ord & 0x3fff);
    }
    conn_id = GUINT32_FROM_LE(event.conn_id);
    params_of(reply, &params);
    if (reply->flags & RAW_R) {
        g_assert_cmpuint(th_reject(guest, conn_id, &params), ==, RNIC_ADMIN_OK);
        raw_recv_frame(r->peer.fd, true, &got);
        g_assert_cmphex(got.flags & (RAW_R | RAW_S), ==, RAW_R | RAW_S);
        g_assert_cmpmem(got.pd + 4, got.pd_len - 4, reply->pd, reply->pd_len);
        shutdown(r->peer.fd, SHUT_WR);
        g_assert_false(raw_closed(r->peer.fd, NULL));
        return false;
    }
    g_assert_cmpuint(th_accept(r->peer.qp, conn_id, &params), ==,
                     RNIC_ADMIN_OK);
    raw_recv_frame(r->peer.fd, true, &got);
    check_frame(&got, reply);
    /* In peer-to-peer mode that comes with the first FPDU */
    if (!(request->ird & RAW_A)) {
        wait_established(r);
    }
    return true;
}

static bool start_initiator(struct replay *r)
{
    const struct cap_frame *request = &r->c->frame[CAP_CLIENT];
    const struct cap_frame *reply = &r->c->frame[CAP_SERVER];
    struct rnic_sockaddr local = th_sockaddr(DEVICE, 0), remote;
    bool reject = reply->flags & RAW_R;
    struct th_connect params;
    struct rnic_aeqe event;
    struct raw_frame got;
    uint16_t port = 0;
    int listener;

    listener = raw_listen(r->peer.guest, PEER, &port);
    remote = th_sockaddr(PEER, port);
    params_of(request, &params);
    g_assert_cmpuint(th_connect(r->peer.qp, &local, &remote, &params), ==,
                     RNIC_ADMIN_OK);
    r->peer.fd = raw_accept(listener);
    close(listener);
    raw_recv_frame(r->peer.fd, false, &got);
    check_frame(&got, request);
    raw_send(r->peer.fd, r->c->stream[CAP_SERVER]->data, reply->len);
    th_event_wait(r->peer.guest, RNIC_EV_CONNECT_REPLY, r->peer.qp->qpn,
                  &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==,
                     reject ? RNIC_CM_REJECTED : RNIC_CM_OK);
    check_pdata(&event, reply);
    return !reject;
}

/* ---- What the device sends ---- */

static uint64_t get(const uint8_t *from, unsigned octets)
{
    uint64_t value = 0;

    while (octets--) {
        value = value << 8 | *from++;
    }
    return value;
}

/* The next FPDU of the device, which belongs to the next message of its kind */
static void take_fpdu(struct replay *r)
{
    g_autofree uint8_t *ulpdu = g_malloc(PEER_FPDU_MAX);
    size_t len = iw_recv(&r->peer, ulpdu), header;
    bool tagged = ulpdu[0] & 0x80, last = ulpdu[0] & 0x40;
    unsigned kind = (ulpdu[1] & 15) == CAP_READ_RSP;
    const struct cap_message *m;
    uint32_t at = r->progress[kind];

    g_assert_cmpuint(r->seen[kind], <, r->expect[kind]->len);
    m = r->expect[kind]->pdata[r->seen[kind]];
    g_assert_cmphex(ulpdu[0] & 0x3f, ==, 0x01);
    g_assert_cmphex(ulpdu[1], ==, 0x40 | m->opcode);
    g_assert_cmphex(get(ulpdu + 2, 4), ==, m->stag);
    g_assert_cmpint(tagged, ==,
                    m->opcode == CAP_WRITE || m->opcode == CAP_READ_RSP);
    if (tagged) {
        header = 14;
        g_assert_cmphex(get(ulpdu + 6, 8), ==, m->to + at);
    } else {
        header = 18;
        g_assert_cmphex(get(ulpdu + 6, 4), ==, m->opcode == CAP_READ_REQ);
        g_assert_cmpuint(get(ulpdu + 10, 4), ==, m->msn);
        g_assert_cmpuint(get(ulpdu + 14, 4), ==, at);
    }
    g_assert_cmpuint(len - header, <=, m->payload->len - at);
    g_assert_cmpmem(ulpdu + header, len - header, m->payload->data + at,
                    len - header);
    r->progress[kind] = at += len - header;
    g_assert_cmpint(last, ==, at == m->payload->len);
    if (last) {
        r->seen[kind]++;
        r->progress[kind] = 0;
    }
}

/* The work request behind a message */
static void post_message(struct replay *r, const struct cap_message *m)
{
    struct th_wr wr = { .remote_stag = m->stag, .remote_to = m->to };
    uint32_t len = m->payload->len;

    switch (m->opcode) {
    case CAP_WRITE:
        wr.opcode = RNIC_WR_WRITE;
        break;
    case CAP_READ_REQ:
        wr.opcode = RNIC_WR_READ;
        wr.remote_stag = m->source_stag;
        wr.remote_to = m->source_to;
        wr.sge[0] = th_sge(m->sink_stag, m->sink_to, m->size);
        wr.num_sge = m->size ? 1 : 0;
        replay_post(r, &wr);
        return;
    default:
        wr.opcode = m->opcode == CAP_SEND_INV || m->opcode == CAP_SEND_SEI
                        ? RNIC_WR_SEND_INV
                        : RNIC_WR_SEND;
        wr.inv_stag = m->stag;
        wr.flags = m->opcode == CAP_SEND_SE || m->opcode == CAP_SEND_SEI
                       ? RNIC_WQE_SOLICITED
                       : 0;
        break;
    }
    if (len) {
        memcpy(r->tx.ptr + r->tx_at, m->payload->data, len);
        wr.sge[0] = th_sge(RNIC_STAG_LOCAL_DMA, r->tx.dma + r->tx_at, len);
        wr.num_sge = 1;
        r->tx_at += len;
    }
    replay_post(r, &wr);
}

/* ---- The timeline ---- */

/* The device's turn: up to @end of its stream in the capture */
static void device_turn(struct replay *r, size_t end)
{
    GArray *fpdus = r->c->fpdus[r->device];
    unsigned due = 0, i;

    replay_settle(r);
    for (; r->posted_fpdus < fpdus->len; r->posted_fpdus++) {
        const struct cap_fpdu *fpdu =
            &g_array_index(fpdus, struct cap_fpdu, r->posted_fpdus);
        const struct cap_message *m = fpdu->message;

        if (fpdu->end > end) {
            break;
        }
        if (fpdu->end == m->first_end && m->opcode != CAP_READ_RSP &&
            m->opcode != CAP_TERM && m != r->rtr) {
            post_message(r, m);
        }
    }
    for (i = 0; i < r->c->messages->len; i++) {
        const struct cap_message *m = r->c->messages->pdata[i];

        due +=
            m->side == r->device && m->opcode != CAP_TERM && m->last_end <= end;
    }
    while (r->seen[0] + r->seen[1] < due) {
        take_fpdu(r);
        replay_reap(r);
    }
}

static void siw_turn(struct replay *r, size_t start, size_t end)
{
    GArray *fpdus = r->c->fpdus[r->siw];
    const struct cap_fpdu *fpdu = (struct cap_fpdu *)fpdus->data;

    for (; r->prepared < fpdus->len && fpdu[r->prepared].start < end;
         r->prepared++) {
        replay_prepare_fpdu(r, &fpdu[r->prepared]);
    }
    raw_send(r->peer.fd, r->c->stream[r->siw]->data + start, end - start);
    r->sent = end;
    for (; r->done < fpdus->len && fpdu[r->done].end <= end; r->done++) {
        replay_account_fpdu(r, &fpdu[r->done]);
        r->dead |= fpdu[r->done].message == r->fault;
        r->dead |= fpdu[r->done].message->opcode == CAP_TERM;
    }
}

/* The device refused one of siw's messages */
static void expect_refusal(struct replay *r)
{
    uint32_t term = r->row->device;
    struct rnic_cqe cqe;

    iw_expect_term(&r->peer, term >> 16, term >> 8, term, NULL);
    replay_reap(r);
    g_assert_cmpuint(r->completed, ==, r->posted);
    if (r->row->fault == REPLAY_INVALIDATE) {
        th_cq_wait(r->peer.qp->attr.recv_cq, &cqe);
        g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, r->received++);
        g_assert_cmpuint(cqe.status, ==, RNIC_WC_REM_INV_REQ_ERR);
        for (; r->received < r->receives->len; r->received++) {
            th_cq_wait(r->peer.qp->attr.recv_cq, &cqe);
            g_assert_cmpuint(cqe.status, ==, RNIC_WC_WR_FLUSH_ERR);
        }
    }
}

/* siw sent a Terminate about one of the device's messages */
static void expect_terminated(struct replay *r)
{
    uint32_t term = r->row->siw;
    const struct cap_message *last = r->expect[0]->pdata[r->expect[0]->len - 1];
    struct rnic_aeqe event;
    struct rnic_cqe cqe;

    th_event_wait(r->peer.guest,
                  (term >> 8 & 15) == 1 ? RNIC_EV_QP_ACCESS_ERR
                                        : RNIC_EV_QP_REQ_ERR,
                  r->peer.qp->qpn, &event);
    g_assert_cmphex(GUINT32_FROM_LE(event.term), ==,
                    RNIC_TERM_VALID | RNIC_TERM_REMOTE | term);
    iw_expect_close(&r->peer);
    if (last->opcode == CAP_READ_REQ) {
        g_assert_true(th_cq_poll(r->peer.qp->attr.send_cq, &cqe));
        g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, r->completed++);
        g_assert_cmpuint(cqe.status, ==, RNIC_WC_REM_ACCESS_ERR);
    }
}

/* Whoever was first to close is, here, too. A capture may stop before. */
static void close_both(struct replay *r, bool device_first)
{
    size_t rest;

    if (device_first) {
        g_assert_cmpuint(th_qp_modify(r->peer.qp, RNIC_QPS_CLOSING), ==,
                         RNIC_ADMIN_OK);
        g_assert_false(raw_closed(r->peer.fd, &rest));
        g_assert_cmpuint(rest, ==, 0);
        shutdown(r->peer.fd, SHUT_WR);
    } else {
        shutdown(r->peer.fd, SHUT_WR);
        g_assert_false(raw_closed(r->peer.fd, &rest));
        g_assert_cmpuint(rest, ==, 0);
    }
    iw_expect_error(&r->peer);
    g_assert_cmpuint(th_stat(r->peer.guest, RNIC_STAT_term_sent), ==, 0);
    g_assert_cmpuint(th_stat(r->peer.guest, RNIC_STAT_term_received), ==, 0);
}

static void timeline(struct replay *r)
{
    bool device_first = false;
    unsigned i;

    for (i = 0; i < r->c->segments->len && !r->dead; i++) {
        const struct cap_segment *s =
            &g_array_index(r->c->segments, struct cap_segment, i);
        size_t start = MAX(s->start, r->c->frame[s->side].len), end;

        if (s->fin) {
            device_first = s->side == r->device;
            break;
        }
        if (s->end <= start) {
            continue;
        }
        if (s->side == r->device) {
            device_turn(r, s->end);
            continue;
        }
        end = s->end;
        /* Where octets are cut anyway, not each segment for itself */
        while (wire_slicing() != WIRE_WHOLE && i + 1 < r->c->segments->len &&
               s[1].side == r->siw && !s[1].fin) {
            end = (++s)->end;
            i++;
        }
        siw_turn(r, start, end);
        if (start == r->c->frame[CAP_CLIENT].len && s->side == CAP_CLIENT &&
            r->c->frame[CAP_CLIENT].ird & RAW_A) {
            wait_established(r);
        }
    }
    replay_settle(r);
    if (!r->dead) {
        close_both(r, device_first);
    } else if (r->fault) {
        expect_refusal(r);
    } else {
        expect_terminated(r);
    }
}

/* Every octet and every work request is accounted for */
static void check_end(struct replay *r)
{
    struct rnic_cqe cqe;
    size_t from = 0, i;
    unsigned k;

    replay_reap(r);
    g_assert_cmpuint(r->completed, ==, r->posted);
    if (r->row->fault != REPLAY_NO_RECEIVE || r->device == CAP_CLIENT) {
        th_cq_wait(r->peer.qp->attr.recv_cq, &cqe);
        g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, r->receives->len);
        g_assert_cmpuint(cqe.status, ==, RNIC_WC_WR_FLUSH_ERR);
    }
    g_assert_false(th_cq_poll(r->peer.qp->attr.send_cq, &cqe));
    g_assert_false(th_cq_poll(r->peer.qp->attr.recv_cq, &cqe));
    g_assert_true(replay_memory_is_right(r));
    g_assert_cmpuint(th_events(r->peer.guest), <=, 2);
    for (k = 0; k <= r->receives->len; k++) {
        bool end = k == r->receives->len;
        size_t at = end ? r->rx.len : g_array_index(r->rx_at, uint32_t, k);

        for (i = from; i < at; i++) {
            g_assert_cmphex(r->rx.ptr[i], ==, REPLAY_UNUSED);
        }
        from = end ? at
                   : at + ((struct cap_message *)r->receives->pdata[k])
                              ->payload->len;
    }
}

static void replay(const struct replay_case *row,
                   const struct cap_connection *c, enum cap_side device)
{
    struct replay r = {
        .row = row,
        .c = c,
        .device = device,
        .siw = !device,
        .regions = g_array_new(false, false, sizeof(struct replay_region)),
        .receives = g_ptr_array_new(),
        .rx_at = g_array_new(false, false, sizeof(uint32_t)),
        .expect = { g_ptr_array_new(), g_ptr_array_new() },
    };
    unsigned i;

    replay_plan(&r);
    make_guest(&r);
    replay_make_memory(&r);
    replay_post_receives(&r);
    if (device == CAP_SERVER ? start_responder(&r) : start_initiator(&r)) {
        timeline(&r);
        check_end(&r);
    }
    close(r.peer.fd);
    th_guest_free(r.peer.guest);
    for (i = 0; i < r.regions->len; i++) {
        g_free(g_array_index(r.regions, struct replay_region, i).shadow);
    }
    g_array_unref(r.regions);
    g_ptr_array_unref(r.receives);
    g_array_unref(r.rx_at);
    g_ptr_array_unref(r.expect[0]);
    g_ptr_array_unref(r.expect[1]);
}

static void replay_all(const struct replay_case *row, enum cap_side device)
{
    g_autofree char *path =
        g_strdup_printf("%s/siw/%s.pcap", RNIC_TEST_DATA, row->name);
    GPtrArray *connections = cap_read(path);
    unsigned i;

    g_assert_cmpuint(connections->len, ==, row->connections);
    for (i = 0; i < connections->len; i++) {
        replay(row, connections->pdata[i], device);
    }
    g_ptr_array_unref(connections);
}

static void test_initiator_of_siw(gconstpointer row)
{
    replay_all(row, CAP_SERVER);
}

static void test_responder_of_siw(gconstpointer row)
{
    replay_all(row, CAP_CLIENT);
}

int main(int argc, char **argv)
{
    unsigned i;

    g_test_init(&argc, &argv, NULL);
    for (i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *initiator =
            g_strdup_printf("/replay/siw-initiator/%s", rows[i].name);
        g_autofree char *responder =
            g_strdup_printf("/replay/siw-responder/%s", rows[i].name);

        g_test_add_data_func(initiator, &rows[i], test_initiator_of_siw);
        g_test_add_data_func(responder, &rows[i], test_responder_of_siw);
    }
    return g_test_run();
}
