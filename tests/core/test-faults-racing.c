/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fault kind 14: guest memory that changes while the device reads it
 *
 * What the device reads it must copy once, check the copy, and use the copy.
 * So each structure is rewritten here behind the device's first read of it (as
 * another processor would, at the worst moment): the outcome must be that of
 * what was read, and a second read that is checked less must not happen.
 */
#include "pair.h"

#include <string.h>

/* What is rewritten when the device has read the last of its octets */
static struct {
    struct th_guest *guest;
    uint64_t addr, len;
    uint8_t octet;  /* it is filled with */
    unsigned reads; /* how often the device read the last octet */
} prey;

static void watch(struct th_guest *guest, bool mapping, uint64_t addr,
                  uint64_t len, enum rnic_dma_dir dir)
{
    uint64_t last = prey.addr + prey.len - 1;

    if (guest != prey.guest || mapping || last < addr || last >= addr + len) {
        return;
    }
    prey.reads++;
    memset(th_ptr(guest, prey.addr), prey.octet, prey.len);
}

static void hunt(struct th_guest *guest, uint64_t addr, uint64_t len,
                 uint8_t octet)
{
    memset(&prey, 0, sizeof(prey));
    prey.guest = guest;
    prey.addr = addr;
    prey.len = len;
    prey.octet = octet;
    guest->options.watch = watch;
}

static const uint8_t fills[] = { 0x00, 0xff, 0x7f, 0x10 };

static void start(struct pair *p, enum rnic_crc_policy crc)
{
    struct pair_options options;

    pair_options_init(&options, crc);
    options.buf_len = 65536;
    pair_new(p, &options);
    pair_connect(p, NULL);
}

static void fault_14_wqe_changes_after_its_read(gconstpointer data)
{
    static const enum rnic_wr_opcode opcodes[] = { RNIC_WR_SEND, RNIC_WR_WRITE,
                                                   RNIC_WR_READ };
    unsigned i, n;

    for (n = 0; n < G_N_ELEMENTS(opcodes); n++) {
        for (i = 0; i < G_N_ELEMENTS(fills); i++) {
            unsigned from = opcodes[n] == RNIC_WR_READ;
            struct pair p;

            start(&p, GPOINTER_TO_INT(data));
            th_fill(p.buf[from].ptr + 1000, 20000, i);
            pair_post_recv(&p, 1, 5, 1000, 20000);
            hunt(p.guest[0], p.qp[0]->sq, p.qp[0]->attr.sq_stride, fills[i]);
            pair_post(&p, 0, opcodes[n], 0x1234567890, 1000, 20000, 0);
            pair_wait_send(&p, 0, 0x1234567890, RNIC_WC_SUCCESS, NULL);
            th_wait(memcmp(p.buf[0].ptr + 1000, p.buf[1].ptr + 1000, 20000) ==
                    0);
            th_check_filled(p.buf[!from].ptr + 1000, 20000, i);
            if (opcodes[n] == RNIC_WR_SEND) {
                pair_wait_recv(&p, 1, 5, RNIC_WC_SUCCESS, NULL);
            }
            g_assert_cmpuint(prey.reads, ==, 1);
            g_assert_cmpuint(p.guest[0]->errors->len, ==, 0);
            pair_free(&p);
        }
    }
}

static void fault_14_inline_data_changes_after_its_read(void)
{
    struct pair p;
    uint8_t inline_data[200];
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(fills); i++) {
        struct th_wr wr = {
            .opcode = RNIC_WR_WRITE,
            .flags = RNIC_WQE_SIGNALED,
            .inline_data = inline_data,
            .inline_len = sizeof(inline_data),
            .remote_to = PAIR_IOVA,
        };

        start(&p, RNIC_CRC_OFF);
        th_fill(inline_data, sizeof(inline_data), i);
        wr.remote_stag = p.stag[1];
        hunt(p.guest[0], p.qp[0]->sq, p.qp[0]->attr.sq_stride, fills[i]);
        th_post_send(p.qp[0], &wr, 1);
        pair_wait_send(&p, 0, 0, RNIC_WC_SUCCESS, NULL);
        th_wait(memcmp(p.buf[1].ptr, inline_data, sizeof(inline_data)) == 0);
        g_assert_cmpuint(prey.reads, ==, 1);
        pair_free(&p);
    }
}

static void fault_14_receive_changes_after_its_read(gconstpointer data)
{
    bool shared = GPOINTER_TO_INT(data);
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(fills); i++) {
        struct pair_options options;
        struct rnic_sge sge[2];
        struct pair p;

        pair_options_init(&options, RNIC_CRC_OFF);
        options.buf_len = 65536;
        pair_new(&p, &options);
        if (shared) {
            th_qp_free(p.qp[1]);
            options.attr[1].srq = th_srq_new(p.guest[1], 16, 0);
            p.qp[1] = th_qp_new(p.guest[1], &options.attr[1]);
        }
        pair_connect(&p, NULL);
        memset(p.buf[1].ptr, 0xee, 65536);
        sge[0] = pair_sge(&p, 1, 1000, 3000);
        sge[1] = pair_sge(&p, 1, 30000, 17000);
        if (shared) {
            th_srq_post(options.attr[1].srq, 5, sge, 2);
            hunt(p.guest[1], options.attr[1].srq->addr, 128, fills[i]);
        } else {
            th_post_recv(p.qp[1], 5, sge, 2);
            hunt(p.guest[1], p.qp[1]->rq, p.qp[1]->attr.rq_stride, fills[i]);
        }
        th_fill(p.buf[0].ptr, 20000, i);
        pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 20000, 0);
        pair_wait_recv(&p, 1, 5, RNIC_WC_SUCCESS, NULL);
        g_assert_cmpmem(p.buf[1].ptr + 1000, 3000, p.buf[0].ptr, 3000);
        g_assert_cmpmem(p.buf[1].ptr + 30000, 17000, p.buf[0].ptr + 3000,
                        17000);
        g_assert_cmpuint(p.buf[1].ptr[999], ==, 0xee);
        g_assert_cmpuint(p.buf[1].ptr[4000], ==, 0xee);
        g_assert_cmpuint(p.buf[1].ptr[47000], ==, 0xee);
        g_assert_cmpuint(prey.reads, ==, 1);
        pair_free(&p);
    }
}

static void fault_14_command_changes_after_its_read(void)
{
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(fills); i++) {
        struct th_guest *guest = th_guest_started(NULL);
        struct th_buf buf = th_buf_new(guest, 65536, 1, 0);
        struct rnic_asqe cmd = { .opcode = RNIC_CMD_REG_MR };
        struct rnic_acqe resp;

        cmd.reg_mr.pdn = GUINT32_TO_LE(TH_PD);
        cmd.reg_mr.access = GUINT32_TO_LE(RNIC_ACCESS_ALL);
        cmd.reg_mr.buf = buf.desc;
        hunt(guest,
             guest->asq + guest->asq_pi % guest->admin_depth * sizeof(cmd),
             sizeof(cmd), fills[i]);
        g_assert_cmpuint(th_admin(guest, &cmd, &resp), ==, RNIC_ADMIN_OK);
        g_assert_cmpuint(prey.reads, ==, 1);
        guest->options.watch = NULL;
        th_dereg_mr(guest, GUINT32_FROM_LE(resp.mr.stag));
        th_guest_free(guest);
    }
}

static void fault_14_page_list_changes_after_its_read(gconstpointer data)
{
    unsigned levels = GPOINTER_TO_UINT(data);
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(fills); i++) {
        struct pair_options options;
        struct th_buf buf;
        uint32_t stag;
        struct pair p;
        struct th_wr wr = {
            .opcode = RNIC_WR_WRITE,
            .flags = RNIC_WQE_SIGNALED,
            .num_sge = 1,
        };

        pair_options_init(&options, RNIC_CRC_OFF);
        options.buf_len = 65536;
        pair_new(&p, &options);
        pair_connect(&p, NULL);
        buf = th_buf_new(p.guest[1], 65536, levels, 100);
        /* The uppermost table: 17 entries, or 1 */
        hunt(p.guest[1], GUINT64_FROM_LE(buf.desc.addr),
             levels == 1 ? 17 * 8 : 8, fills[i]);
        stag = th_reg_mr(p.guest[1], &buf, 0, RNIC_ACCESS_ALL);
        g_assert_cmpuint(prey.reads, ==, 1);
        th_fill(p.buf[0].ptr, 65536, i);
        wr.sge[0] = pair_sge(&p, 0, 0, 65536);
        wr.remote_stag = stag;
        th_post_send(p.qp[0], &wr, 1);
        pair_wait_send(&p, 0, 0, RNIC_WC_SUCCESS, NULL);
        th_wait(memcmp(buf.ptr, p.buf[0].ptr, 65536) == 0);
        g_assert_cmpuint(prey.reads, ==, 1);
        pair_free(&p);
    }
}

static void fault_14_fast_registration_list_changes_after_its_read(void)
{
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(fills); i++) {
        struct rnic_asqe alloc = { .opcode = RNIC_CMD_ALLOC_MR };
        struct th_wr wr[2] = {
            { .opcode = RNIC_WR_REG_MR, .flags = RNIC_WQE_SIGNALED },
            { .opcode = RNIC_WR_READ,
              .flags = RNIC_WQE_SIGNALED,
              .num_sge = 1,
              .remote_to = PAIR_IOVA },
        };
        struct rnic_acqe resp;
        struct rnic_cqe cqe;
        struct pair p;
        uint64_t list;
        uint32_t stag;
        unsigned n;

        start(&p, RNIC_CRC_OFF);
        alloc.alloc_mr.pdn = GUINT32_TO_LE(TH_PD);
        alloc.alloc_mr.max_pages = GUINT32_TO_LE(8);
        g_assert_cmpuint(th_admin(p.guest[0], &alloc, &resp), ==,
                         RNIC_ADMIN_OK);
        stag = GUINT32_FROM_LE(resp.mr.stag);
        list = th_alloc(p.guest[0], 64, 64);
        for (n = 0; n < 8; n++) {
            ((uint64_t *)th_ptr(p.guest[0], list))[n] =
                GUINT64_TO_LE(p.buf[0].pages[n]);
        }
        wr[0].reg.stag = GUINT32_TO_LE(stag);
        wr[0].reg.access = GUINT32_TO_LE(RNIC_ACCESS_LOCAL_WRITE);
        wr[0].reg.num_pages = GUINT32_TO_LE(8);
        wr[0].reg.length = GUINT64_TO_LE(32768);
        wr[0].reg.pages = GUINT64_TO_LE(list);
        wr[0].reg.page_shift = GUINT32_TO_LE(12);
        wr[1].sge[0] = th_sge(stag, 512, 32768 - 512);
        wr[1].remote_stag = p.stag[1];
        th_fill(p.buf[1].ptr, 65536, i);
        hunt(p.guest[0], list, 64, fills[i]);
        th_post_send(p.qp[0], wr, 2);
        for (n = 0; n < 2; n++) {
            th_cq_wait(p.qp[0]->attr.send_cq, &cqe);
            g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
        }
        g_assert_cmpuint(prey.reads, ==, 1);
        /* The pair's buffer starts 512 octets into its first page */
        th_check_filled(p.buf[0].ptr, 32768 - 512, i);
        pair_free(&p);
    }
}

/* The doorbell bitmap is exchanged, so nothing of it is looked at twice: bits
 * that come and go at any moment are bits of other QPs */
static unsigned scribbles;

static void scribble_bitmap(struct th_guest *guest, bool mapping, uint64_t addr,
                            uint64_t len, enum rnic_dma_dir dir)
{
    uint64_t *words = th_ptr(guest, guest->dbmap[0]);

    if (addr <= guest->dbmap[0] && guest->dbmap[0] < addr + len) {
        for (unsigned i = 0; i < 260; i++) {
            words[i] |= scribbles % 2 ? ~0ull : 0x5555555555555555ull;
        }
        scribbles++;
    }
}

static void fault_14_doorbell_bitmap_changes(void)
{
    struct pair p;
    unsigned n;

    start(&p, RNIC_CRC_OFF);
    p.guest[0]->options.watch = scribble_bitmap;
    for (n = 0; n < 10; n++) {
        th_fill(p.buf[0].ptr, 1000, n);
        pair_post(&p, 0, RNIC_WR_WRITE, n, 0, 1000, 0);
        th_ring(p.guest[0], 0, p.qp[0]->qpn);
        pair_wait_send(&p, 0, n, RNIC_WC_SUCCESS, NULL);
    }
    g_assert_cmpuint(scribbles, >, 0);
    g_assert_cmpuint(th_qp_state(p.qp[0]), ==, RNIC_QPS_RTS);
    pair_free(&p);
}

/* The index goes on, or back, or wild with each look at it: a QP ends or sends
 * what was valid, and nothing hangs */
static uint32_t wild_step;

static void wild_index(struct th_guest *guest, bool mapping, uint64_t addr,
                       uint64_t len, enum rnic_dma_dir dir)
{
    uint32_t *word = th_ptr(guest, prey.addr);

    if (!mapping && addr <= prey.addr && prey.addr < addr + len) {
        *word = GUINT32_TO_LE(GUINT32_FROM_LE(*word) + wild_step);
    }
}

static void fault_14_producer_index_changes_after_its_read(void)
{
    static const uint32_t steps[] = { 1, 63, 64, 0x80000000, 0xffffffff };
    unsigned i, n;

    for (i = 0; i < G_N_ELEMENTS(steps); i++) {
        struct rnic_asqe nop = { .opcode = RNIC_CMD_NOP };
        uint64_t wakeups;
        struct pair p;

        start(&p, RNIC_CRC_OFF);
        /* All entries are good Writes, whatever is looked at */
        for (n = 0; n < 64; n++) {
            struct th_wr wr = {
                .opcode = RNIC_WR_WRITE,
                .num_sge = 1,
                .sge = { pair_sge(&p, 0, 0, 64) },
                .remote_stag = p.stag[1],
                .remote_to = PAIR_IOVA,
            };

            th_write_send(p.qp[0], &wr, 1);
        }
        wild_step = steps[i];
        prey.addr = p.qp[0]->dbrec;
        p.guest[0]->options.watch = wild_index;
        *(uint32_t *)th_ptr(p.guest[0], p.qp[0]->dbrec) = GUINT32_TO_LE(1);
        th_ring(p.guest[0], 0, p.qp[0]->qpn);
        /* With step 1 it always has more to do: commands still come through */
        th_run_for(50);
        g_assert_cmpuint(th_admin(p.guest[0], &nop, NULL), ==, RNIC_ADMIN_OK);
        p.guest[0]->options.watch = NULL;
        th_run_for(20);
        if (th_qp_state(p.qp[0]) == RNIC_QPS_ERROR) {
            g_assert_cmpuint(p.guest[0]->errors->len, ==, 1);
        }
        wakeups = th_stat(p.guest[0], RNIC_STAT_wakeups);
        th_run_for(20);
        g_assert_cmpuint(th_stat(p.guest[0], RNIC_STAT_wakeups) - wakeups, <,
                         100);
        pair_free(&p);
    }
}

/* The payload changes while it is sent: with CRC on what was checksummed is
 * what leaves, so the peer never sees a bad CRC */
static void change_payload(struct th_guest *guest, bool mapping, uint64_t addr,
                           uint64_t len, enum rnic_dma_dir dir)
{
    if (addr >= prey.addr && addr < prey.addr + prey.len) {
        memset(th_ptr(guest, addr), ++scribbles, MIN(len, TH_PAGE));
    }
}

static void fault_14_payload_changes_while_it_is_sent(void)
{
    struct pair_options options;
    struct pair p;
    unsigned n;

    pair_options_init(&options, RNIC_CRC_ON);
    options.buf_len = 65536;
    options.contiguous = true;
    pair_new(&p, &options);
    pair_connect(&p, NULL);
    prey.addr = p.buf[0].dma;
    prey.len = 65536;
    p.guest[0]->options.watch = change_payload;
    for (n = 0; n < 50; n++) {
        pair_post(&p, 0, RNIC_WR_WRITE, n, 0, 65536, 0);
        pair_wait_send(&p, 0, n, RNIC_WC_SUCCESS, NULL);
    }
    pair_post(&p, 0, RNIC_WR_READ, n, 0, 16, 0);
    pair_wait_send(&p, 0, n, RNIC_WC_SUCCESS, NULL);
    g_assert_cmpuint(th_stat(p.guest[1], RNIC_STAT_rx_crc_errors), ==, 0);
    pair_free(&p);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define PATH(fault) "/faults-racing/" #fault
#define ADD(fault)  g_test_add_func(PATH(fault), fault)
#define ADD_WITH(fault, name, data)                                            \
    g_test_add_data_func(PATH(fault) "/" name, GINT_TO_POINTER(data), fault)
    ADD_WITH(fault_14_wqe_changes_after_its_read, "crc-off", RNIC_CRC_OFF);
    ADD_WITH(fault_14_wqe_changes_after_its_read, "crc-on", RNIC_CRC_ON);
    ADD(fault_14_inline_data_changes_after_its_read);
    ADD_WITH(fault_14_receive_changes_after_its_read, "rq", false);
    ADD_WITH(fault_14_receive_changes_after_its_read, "srq", true);
    ADD(fault_14_command_changes_after_its_read);
    ADD_WITH(fault_14_page_list_changes_after_its_read, "1-level", 1);
    ADD_WITH(fault_14_page_list_changes_after_its_read, "2-levels", 2);
    ADD(fault_14_fast_registration_list_changes_after_its_read);
    ADD(fault_14_doorbell_bitmap_changes);
    ADD(fault_14_producer_index_changes_after_its_read);
    ADD(fault_14_payload_changes_while_it_is_sent);
    return g_test_run();
}
