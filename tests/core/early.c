/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "early.h"
#include "raw-peer.h"

#include <string.h>
#include <unistd.h>

#define DEVICE "10.0.0.1"
#define PEER   "10.0.0.2"

/* Several periods of the scan */
#define LOOK_MS 40
#define SCAN_MS 5

const struct early_case early_cases[8] = {
    { "initiator/rung/no-scan", false, true, false },
    { "initiator/rung/scan", false, true, true },
    { "initiator/not-rung/no-scan", false, false, false },
    { "initiator/not-rung/scan", false, false, true },
    { "responder/rung/no-scan", true, true, false },
    { "responder/rung/scan", true, true, true },
    { "responder/not-rung/no-scan", true, false, false },
    { "responder/not-rung/scan", true, false, true },
};

void early_add(const char *prefix, void (*test)(gconstpointer))
{
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(early_cases); i++) {
        char *path = g_strdup_printf("%s/%s", prefix, early_cases[i].name);

        g_test_add_data_func(path, &early_cases[i], test);
        g_free(path);
    }
}

static void begin_initiator(struct early *e)
{
    struct rnic_sockaddr local = th_sockaddr(DEVICE, 0), remote;
    struct raw_frame request;
    uint16_t port = 0;

    e->listener = raw_listen(e->guest, PEER, &port);
    remote = th_sockaddr(PEER, port);
    g_assert_cmpuint(th_connect(e->qp, &local, &remote, NULL), ==,
                     RNIC_ADMIN_OK);
    e->peer.fd = raw_accept(e->listener);
    raw_recv_frame(e->peer.fd, false, &request);
    g_assert_cmpuint(request.rev, ==, 1);
}

static void begin_responder(struct early *e)
{
    struct rnic_aeqe event;
    uint32_t listener;
    uint16_t port;

    listener = th_listen(e->guest, DEVICE, 0, 8, &port);
    e->peer.fd = raw_connect(e->guest, PEER, DEVICE, port);
    raw_send_frame(e->peer.fd, false, 0, 1, NULL, 0);
    th_event_wait(e->guest, RNIC_EV_CONNECT_REQUEST, listener, &event);
    e->conn_id = GUINT32_FROM_LE(event.conn_id);
}

void early_begin(struct early *e, const struct early_case *c, uint32_t flags)
{
    struct th_options options;
    struct th_qp_attr attr;

    memset(e, 0, sizeof(*e));
    th_options_init(&options);
    options.config.crc = RNIC_CRC_OFF;
    options.config.mpa_rev = 1;
    options.config.p2p = false;
    options.config.sq_scan_ms = c->scan ? SCAN_MS : 0;
    th_qp_attr_init(&attr);
    attr.flags = flags;
    e->c = c;
    e->listener = -1;
    e->guest = th_guest_started(&options);
    e->qp = th_qp_new(e->guest, &attr);
    e->peer.guest = e->guest;
    e->peer.qp = e->qp;
    g_assert_cmpuint(th_addr_add(e->guest, DEVICE), ==, RNIC_ADMIN_OK);
    if (c->responder) {
        begin_responder(e);
    } else {
        begin_initiator(e);
    }
}

void early_establish(struct early *e)
{
    struct raw_frame reply;

    if (e->c->responder) {
        g_assert_cmpuint(th_accept(e->qp, e->conn_id, NULL), ==, RNIC_ADMIN_OK);
        raw_recv_frame(e->peer.fd, true, &reply);
    } else {
        raw_send_frame(e->peer.fd, true, 0, 1, NULL, 0);
    }
}

void early_expect_event(struct early *e, enum rnic_cm_status status)
{
    struct rnic_aeqe event;

    th_event_wait(e->guest,
                  e->c->responder ? RNIC_EV_ESTABLISHED : RNIC_EV_CONNECT_REPLY,
                  e->qp->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, status);
    g_assert_cmpuint(th_qp_state(e->qp), ==,
                     status == RNIC_CM_OK ? RNIC_QPS_RTS : RNIC_QPS_ERROR);
}

void early_end(struct early *e)
{
    if (e->listener >= 0) {
        close(e->listener);
    }
    close(e->peer.fd);
    th_guest_free(e->guest);
}

void early_wr(struct th_wr *wr, uint32_t first, unsigned count)
{
    static uint32_t numbers[4096];
    unsigned i;

    for (i = 0; i < count; i++) {
        g_assert_cmpuint(first + i, <, G_N_ELEMENTS(numbers));
        numbers[first + i] = GUINT32_TO_LE(first + i);
        wr[i] = (struct th_wr){
            .opcode = RNIC_WR_SEND,
            .flags = RNIC_WQE_SIGNALED,
            .wr_id = first + i,
            .inline_data = &numbers[first + i],
            .inline_len = sizeof(numbers[0]),
        };
    }
}

void early_post(struct early *e, uint32_t first, unsigned count)
{
    g_autofree struct th_wr *wr = g_new(struct th_wr, count);

    early_wr(wr, first, count);
    th_post_send_quiet(e->qp, wr, count);
    if (e->c->ring) {
        th_ring(e->guest, 0, e->qp->qpn);
    }
}

void early_expect_silence(struct early *e)
{
    raw_silent(e->peer.fd, LOOK_MS);
    g_assert_cmpuint(e->guest->trace_count[RNIC_TRACE_wqe], ==, e->receives);
    g_assert_cmpuint(th_stat(e->guest, RNIC_STAT_tx_fpdus), ==, 0);
}

void early_open_gate(struct early *e)
{
    struct rnic_sge none = { 0 };
    struct rnic_cqe cqe;

    g_assert_true(th_qp_gated(e->qp));
    th_post_recv(e->qp, 1000, &none, 0);
    iw_send_message(&e->peer, 1, 0);
    th_cq_wait(e->qp->attr.recv_cq, &cqe);
    g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
    e->receives++;
    g_assert_false(th_qp_gated(e->qp));
}

static void expect_completion(struct early *e, uint32_t wr_id,
                              enum rnic_wc_status status)
{
    struct rnic_cqe cqe;

    th_cq_wait(e->qp->attr.send_cq, &cqe);
    g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, wr_id);
    g_assert_cmpuint(cqe.status, ==, status);
    g_assert_cmpuint(cqe.opcode, ==, RNIC_WR_SEND);
}

void early_expect_sends(struct early *e, uint32_t first, unsigned count)
{
    uint8_t ulpdu[PEER_FPDU_MAX];
    unsigned i;

    for (i = 0; i < count; i++) {
        size_t len = iw_recv(&e->peer, ulpdu);
        uint32_t number = first + i;

        g_assert_cmpuint(len, ==, 18 + sizeof(number));
        g_assert_cmphex(ulpdu[1], ==, IW_SEND);
        /* Low octet of the MSN, which starts at 1 */
        g_assert_cmpuint(ulpdu[13], ==, (number + 1) & 0xff);
        number = GUINT32_TO_LE(number);
        g_assert_cmpmem(ulpdu + 18, sizeof(number), &number, sizeof(number));
    }
    for (i = 0; i < count; i++) {
        expect_completion(e, first + i, RNIC_WC_SUCCESS);
    }
}

void early_expect_flushed(struct early *e, uint32_t first, unsigned count)
{
    unsigned i;

    for (i = 0; i < count; i++) {
        expect_completion(e, first + i, RNIC_WC_WR_FLUSH_ERR);
    }
}

void early_expect_no_more(struct early *e)
{
    uint64_t fpdus = th_stat(e->guest, RNIC_STAT_tx_fpdus);
    struct rnic_cqe cqe;

    th_run_for(LOOK_MS);
    g_assert_false(th_cq_poll(e->qp->attr.send_cq, &cqe));
    g_assert_cmpuint(th_stat(e->guest, RNIC_STAT_tx_fpdus), ==, fpdus);
}
