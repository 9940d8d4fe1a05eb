/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "pair.h"

#include <poll.h>
#include <string.h>

static const char *const addresses[2] = { "10.0.0.1", "10.0.0.2" };

void pair_add(const char *suite, const char *name, GTestDataFunc test)
{
    g_autofree char *off = g_strdup_printf("%s/crc-off/%s", suite, name);
    g_autofree char *on = g_strdup_printf("%s/crc-on/%s", suite, name);

    g_test_add_data_func(off, GINT_TO_POINTER(RNIC_CRC_OFF), test);
    g_test_add_data_func(on, GINT_TO_POINTER(RNIC_CRC_ON), test);
}

enum rnic_crc_policy pair_crc(gconstpointer data)
{
    return GPOINTER_TO_INT(data);
}

void pair_options_init(struct pair_options *options, enum rnic_crc_policy crc)
{
    unsigned i;

    *options = (struct pair_options){
        .crc = crc,
        .buf_len = (4 << 20) + (64 << 10),
    };
    for (i = 0; i < 2; i++) {
        th_qp_attr_init(&options->attr[i]);
        options->attr[i].flags = RNIC_QP_KERNEL;
        options->attr[i].sq_stride = 512;
        options->attr[i].rq_stride = 512;
    }
}

void pair_new(struct pair *pair, const struct pair_options *options)
{
    unsigned i;

    memset(pair, 0, sizeof(*pair));
    pair->options = *options;
    for (i = 0; i < 2; i++) {
        struct th_options th;

        if (i == 1 && options->self) {
            pair->guest[1] = pair->guest[0];
        } else {
            th_options_init(&th);
            th.config.crc = options->crc;
            th.config.fpdu_max = options->fpdu_max;
            th.config.peer_timeout_ms = options->peer_timeout_ms;
            if (options->direct) {
                th.config.fabric = RNIC_FABRIC_DIRECT;
            }
            th.config.p2p = !options->no_p2p;
            th.config.mpa_gate_strict = !options->no_gate;
            th.config.rfc7306 = options->rfc7306;
            pair->guest[i] = th_guest_started(&th);
        }
        pair->buf[i] = th_buf_new(pair->guest[i], options->buf_len,
                                  options->contiguous ? 0 : 2,
                                  options->contiguous ? 0 : 512);
        pair->stag[i] =
            th_reg_mr(pair->guest[i], &pair->buf[i], PAIR_IOVA,
                      RNIC_ACCESS_ALL |
                          (options->rfc7306 ? RNIC_ACCESS_REMOTE_ATOMIC : 0));
        pair->qp[i] = th_qp_new(pair->guest[i], &options->attr[i]);
    }
}

void pair_connect(struct pair *pair, const struct th_connect *params)
{
    th_connect_pair(pair->qp[0], addresses[0], pair->qp[1],
                    pair->options.self ? addresses[0] : addresses[1], params);
}

void pair_start(struct pair *pair, enum rnic_crc_policy crc)
{
    struct pair_options options;

    pair_options_init(&options, crc);
    pair_new(pair, &options);
    pair_connect(pair, NULL);
}

void pair_free(struct pair *pair)
{
    th_guest_free(pair->guest[0]);
    if (!pair->options.self) {
        th_guest_free(pair->guest[1]);
    }
}

uint32_t pair_huge_mr(struct pair *pair, unsigned side, uint64_t *memory)
{
    struct th_guest *guest = pair->guest[side];
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_REG_MR };
    struct rnic_acqe resp;
    uint64_t root = th_alloc(guest, TH_PAGE, TH_PAGE);
    uint64_t *top = th_ptr(guest, root);
    unsigned i, j;

    *memory = th_alloc(guest, 2 << 20, 2 << 20);
    for (i = 0; i < 2; i++) {
        uint64_t table = th_alloc(guest, TH_PAGE, TH_PAGE);
        uint64_t *entries = th_ptr(guest, table);

        top[i] = GUINT64_TO_LE(table);
        for (j = 0; j < 512; j++) {
            entries[j] = GUINT64_TO_LE(*memory);
        }
    }
    cmd.reg_mr.pdn = GUINT32_TO_LE(TH_PD);
    cmd.reg_mr.access = GUINT32_TO_LE(RNIC_ACCESS_ALL);
    cmd.reg_mr.buf.addr = GUINT64_TO_LE(root);
    cmd.reg_mr.buf.length = GUINT64_TO_LE(1ull << 31);
    cmd.reg_mr.buf.levels = 2;
    cmd.reg_mr.buf.page_shift = 21;
    g_assert_cmpuint(th_admin(guest, &cmd, &resp), ==, RNIC_ADMIN_OK);
    return GUINT32_FROM_LE(resp.mr.stag);
}

struct rnic_sge pair_sge(struct pair *pair, unsigned side, uint64_t offset,
                         uint32_t len)
{
    return th_sge(pair->stag[side], PAIR_IOVA + offset, len);
}

void pair_post(struct pair *pair, unsigned side, enum rnic_wr_opcode opcode,
               uint64_t wr_id, uint64_t offset, uint32_t len, unsigned flags)
{
    struct th_wr wr = {
        .opcode = opcode,
        .flags = flags | RNIC_WQE_SIGNALED,
        .wr_id = wr_id,
        .sge = { pair_sge(pair, side, offset, len) },
        .num_sge = 1,
        .remote_stag = pair->stag[!side],
        .remote_to = PAIR_IOVA + offset,
    };

    th_post_send(pair->qp[side], &wr, 1);
}

void pair_post_recv(struct pair *pair, unsigned side, uint64_t wr_id,
                    uint64_t offset, uint32_t len)
{
    struct rnic_sge sge = pair_sge(pair, side, offset, len);

    th_post_recv(pair->qp[side], wr_id, &sge, 1);
}

static void wait_cqe(struct th_cq *cq, uint64_t wr_id,
                     enum rnic_wc_status status, struct rnic_cqe *cqe)
{
    struct rnic_cqe own;

    cqe = cqe ? cqe : &own;
    th_cq_wait(cq, cqe);
    g_assert_cmpuint(GUINT64_FROM_LE(cqe->wr_id), ==, wr_id);
    g_assert_cmpuint(cqe->status, ==, status);
}

void pair_wait_send(struct pair *pair, unsigned side, uint64_t wr_id,
                    enum rnic_wc_status status, struct rnic_cqe *cqe)
{
    wait_cqe(pair->qp[side]->attr.send_cq, wr_id, status, cqe);
}

void pair_wait_recv(struct pair *pair, unsigned side, uint64_t wr_id,
                    enum rnic_wc_status status, struct rnic_cqe *cqe)
{
    wait_cqe(pair->qp[side]->attr.recv_cq, wr_id, status, cqe);
}

void pair_no_completions(struct pair *pair, unsigned side)
{
    struct rnic_cqe cqe;

    g_assert_false(th_cq_poll(pair->qp[side]->attr.send_cq, &cqe));
    g_assert_false(th_cq_poll(pair->qp[side]->attr.recv_cq, &cqe));
}

void pair_run_only(struct pair *pair, unsigned side)
{
    rnic_device *dev = pair->guest[side]->dev;
    struct pollfd poll_fd = { .fd = rnic_device_fd(dev), .events = POLLIN };

    while (poll(&poll_fd, 1, 20) > 0) {
        rnic_device_run(dev);
    }
}

void pair_wait_error(struct pair *pair)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        th_wait(th_qp_state(pair->qp[i]) == RNIC_QPS_ERROR);
        th_event_wait(pair->guest[i], RNIC_EV_CLOSE, pair->qp[i]->qpn, NULL);
    }
}
