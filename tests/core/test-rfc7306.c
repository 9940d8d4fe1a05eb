/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Atomics and immediate data between two devices, what the property makes of
 * them, and work requests that make no sense
 */
#include "pair.h"
#include "qp-private.h"

#include <string.h>

#define TARGET 4096 /* of side 1 */
#define SINK   64   /* of side 0 */

static void options_init(struct pair_options *options, gconstpointer crc)
{
    pair_options_init(options, pair_crc(crc));
    options->rfc7306 = true;
}

static void start(struct pair *p, gconstpointer crc)
{
    struct pair_options options;

    options_init(&options, crc);
    pair_new(p, &options);
    pair_connect(p, NULL);
}

static uint64_t number(struct pair *p, unsigned side, size_t offset)
{
    uint64_t value;

    memcpy(&value, p->buf[side].ptr + offset, 8);
    return GUINT64_FROM_LE(value);
}

static void set_number(struct pair *p, unsigned side, size_t offset,
                       uint64_t value)
{
    value = GUINT64_TO_LE(value);
    memcpy(p->buf[side].ptr + offset, &value, 8);
}

/* Of side 0, on the target of side 1 */
static struct th_wr atomic_wr(struct pair *p, enum rnic_wr_opcode opcode,
                              uint64_t wr_id)
{
    return (struct th_wr){
        .opcode = opcode,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = wr_id,
        .sge = { pair_sge(p, 0, SINK, 8) },
        .num_sge = 1,
        .remote_stag = p->stag[1],
        .remote_to = PAIR_IOVA + TARGET,
    };
}

/* ---- The arithmetic, against a bit at a time ---- */

static uint64_t add_bit_by_bit(uint64_t a, uint64_t b, uint64_t tops)
{
    uint64_t sum = 0;
    unsigned carry = 0, i;

    for (i = 0; i < 64; i++) {
        unsigned bit = (a >> i & 1) + (b >> i & 1) + carry;

        sum |= (uint64_t)(bit & 1) << i;
        carry = tops >> i & 1 ? 0 : bit >> 1;
    }
    return sum;
}

static void test_arithmetic(void)
{
    unsigned i, j;

    for (i = 0; i < 20000; i++) {
        uint64_t v[4], swapped = 0, old = 0;
        struct rnic_rdmap_atomic_request ar;
        bool equal = true;

        for (j = 0; j < 4; j++) {
            v[j] =
                (uint64_t)g_test_rand_int() << 32 | (guint32)g_test_rand_int();
        }
        old = v[3] ^ (i % 3 ? 0 : 1ull << i % 64);
        ar = (struct rnic_rdmap_atomic_request){
            .op = RNIC_RDMAP_FETCH_ADD,
            .data = v[0],
            .mask = i % 5 ? v[1] & v[2] : 0,
        };
        g_assert_cmphex(rnic_atomic_apply(&ar, old), ==,
                        add_bit_by_bit(old, ar.data, ar.mask));

        ar.op = RNIC_RDMAP_CMP_SWAP;
        ar.compare = v[3];
        ar.compare_mask = i % 2 ? v[2] : UINT64_MAX;
        for (j = 0; j < 64; j++) {
            uint64_t bit = 1ull << j;

            equal &=
                !(ar.compare_mask & bit) || (old & bit) == (ar.compare & bit);
            swapped |= (ar.mask & bit ? ar.data : old) & bit;
        }
        g_assert_cmphex(rnic_atomic_apply(&ar, old), ==, equal ? swapped : old);
    }
}

/* ---- Operations ---- */

static void test_fetch_add(gconstpointer crc)
{
    struct rnic_cqe cqe;
    struct th_wr wr;
    struct pair p;

    start(&p, crc);
    set_number(&p, 1, TARGET, 40);
    wr = atomic_wr(&p, RNIC_WR_FETCH_ADD, 1);
    wr.data = 2;
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, &cqe);
    g_assert_cmpuint(cqe.opcode, ==, RNIC_WR_FETCH_ADD);
    g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, 8);
    g_assert_cmpuint(number(&p, 0, SINK), ==, 40);
    g_assert_cmpuint(number(&p, 1, TARGET), ==, 42);
    pair_no_completions(&p, 1);
    pair_free(&p);
}

static void test_cmp_swap(gconstpointer crc)
{
    struct th_wr wr[3];
    struct pair p;

    start(&p, crc);
    set_number(&p, 1, TARGET, 40);
    wr[0] = atomic_wr(&p, RNIC_WR_CMP_SWAP, 1);
    wr[0].compare = 40;
    wr[0].data = 0xfedcba9876543210;
    wr[1] = wr[0];
    wr[1].wr_id = 2;
    wr[1].sge[0] = pair_sge(&p, 0, SINK + 8, 8);
    wr[2] = atomic_wr(&p, RNIC_WR_CMP_SWAP_MASKED, 3);
    wr[2].sge[0] = pair_sge(&p, 0, SINK + 16, 8);
    wr[2].compare = 0x10;
    wr[2].compare_mask = 0xff;
    wr[2].data = 0;
    wr[2].mask = 0xf0f0;
    th_post_send(p.qp[0], wr, 3);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    pair_wait_send(&p, 0, 2, RNIC_WC_SUCCESS, NULL);
    pair_wait_send(&p, 0, 3, RNIC_WC_SUCCESS, NULL);
    g_assert_cmphex(number(&p, 0, SINK), ==, 40);
    g_assert_cmphex(number(&p, 0, SINK + 8), ==, 0xfedcba9876543210);
    g_assert_cmphex(number(&p, 0, SINK + 16), ==, 0xfedcba9876543210);
    g_assert_cmphex(number(&p, 1, TARGET), ==, 0xfedcba9876540200);
    pair_free(&p);
}

/* A sink may lie anywhere, also in two pages */
static void test_sink_across_a_page(gconstpointer crc)
{
    struct th_wr wr;
    struct pair p;
    /* The buffers start 512 octets into a page */
    size_t sink = TH_PAGE - 512 - 3;

    start(&p, crc);
    set_number(&p, 1, TARGET, 0x0102030405060708);
    wr = atomic_wr(&p, RNIC_WR_FETCH_ADD, 1);
    wr.sge[0] = pair_sge(&p, 0, sink, 8);
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, NULL);
    g_assert_cmphex(number(&p, 0, sink), ==, 0x0102030405060708);
    pair_free(&p);
}

static void test_write_with_immediate(gconstpointer crc)
{
    static const uint32_t lengths[] = { 0, 1, 5000, 300000 };
    struct rnic_cqe cqe;
    struct pair p;
    unsigned i;

    start(&p, crc);
    for (i = 0; i < G_N_ELEMENTS(lengths); i++) {
        struct th_wr wr = {
            .opcode = RNIC_WR_WRITE_IMM,
            .flags = RNIC_WQE_SIGNALED,
            .wr_id = i,
            .sge = { pair_sge(&p, 0, 0, lengths[i]) },
            .num_sge = 1,
            .remote_stag = p.stag[1],
            .remote_to = PAIR_IOVA + TARGET,
            .imm = { 1, 2, 3, i },
        };

        th_fill(p.buf[0].ptr, lengths[i], i);
        pair_post_recv(&p, 1, 100 + i, 0, 10);
        th_post_send(p.qp[0], &wr, 1);
        pair_wait_send(&p, 0, i, RNIC_WC_SUCCESS, &cqe);
        g_assert_cmpuint(cqe.opcode, ==, RNIC_WR_WRITE_IMM);
        pair_wait_recv(&p, 1, 100 + i, RNIC_WC_SUCCESS, &cqe);
        g_assert_cmpuint(cqe.flags, ==, RNIC_CQE_WITH_IMM);
        g_assert_cmpmem(&cqe.imm_data, 4, wr.imm, 4);
        g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, lengths[i]);
        th_check_filled(p.buf[1].ptr + TARGET, lengths[i], i);
    }
    g_assert_cmpuint(th_stat(p.guest[0], RNIC_STAT_tx_wqes), ==,
                     G_N_ELEMENTS(lengths));
    pair_no_completions(&p, 0);
    pair_free(&p);
}

static void test_inline_write_with_immediate(gconstpointer crc)
{
    struct rnic_cqe cqe;
    struct pair p;
    struct th_wr wr = {
        .opcode = RNIC_WR_WRITE_IMM,
        .flags = RNIC_WQE_SIGNALED | RNIC_WQE_SOLICITED,
        .wr_id = 7,
        .inline_data = "octets",
        .inline_len = 6,
        .imm = { 9, 8, 7, 6 },
    };

    start(&p, crc);
    wr.remote_stag = p.stag[1];
    wr.remote_to = PAIR_IOVA + TARGET;
    pair_post_recv(&p, 1, 1, 0, 10);
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_send(&p, 0, 7, RNIC_WC_SUCCESS, NULL);
    pair_wait_recv(&p, 1, 1, RNIC_WC_SUCCESS, &cqe);
    g_assert_cmpuint(cqe.flags, ==, RNIC_CQE_WITH_IMM | RNIC_CQE_SOLICITED);
    g_assert_cmpmem(p.buf[1].ptr + TARGET, 6, "octets", 6);
    pair_free(&p);
}

static void test_immediate_alone_takes_a_receive_of_an_srq(gconstpointer crc)
{
    struct pair_options options;
    struct rnic_cqe cqe;
    struct pair p;
    struct th_wr wr = {
        .opcode = RNIC_WR_IMM,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = 7,
        .imm = { 9, 8, 7, 6 },
    };

    options_init(&options, crc);
    pair_new(&p, &options);
    th_qp_free(p.qp[1]);
    options.attr[1].srq = th_srq_new(p.guest[1], 16, 0);
    p.qp[1] = th_qp_new(p.guest[1], &options.attr[1]);
    pair_connect(&p, NULL);
    th_srq_post(options.attr[1].srq, 1, wr.sge, 0);
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_send(&p, 0, 7, RNIC_WC_SUCCESS, &cqe);
    g_assert_cmpuint(cqe.opcode, ==, RNIC_WR_IMM);
    pair_wait_recv(&p, 1, 1, RNIC_WC_SUCCESS, &cqe);
    g_assert_cmpuint(cqe.flags, ==, RNIC_CQE_WITH_IMM);
    g_assert_cmpmem(&cqe.imm_data, 4, wr.imm, 4);
    pair_free(&p);
}

/* ---- A13: several QPs, and a processor, on one number ---- */

#define QPS     3
#define ROUNDS  400
#define OWN_ADD 0x100000000ull

struct processor {
    _Atomic uint64_t *word;
    _Atomic bool stop;
    uint64_t added;
};

static gpointer processor_run(gpointer data)
{
    struct processor *cpu = data;

    while (!atomic_load(&cpu->stop)) {
        atomic_fetch_add(cpu->word, OWN_ADD);
        cpu->added++;
    }
    return NULL;
}

static void test_a13_sum_is_exact(gconstpointer crc)
{
    struct processor cpu = { 0 };
    struct th_qp *qp[2][QPS];
    unsigned i, j, posted[QPS] = { 0 }, done = 0;
    struct rnic_cqe cqe;
    uint64_t seen[QPS] = { 0 };
    GThread *thread;
    struct pair p;

    start(&p, crc);
    qp[0][0] = p.qp[0];
    qp[1][0] = p.qp[1];
    for (i = 1; i < QPS; i++) {
        for (j = 0; j < 2; j++) {
            qp[j][i] = th_qp_new(p.guest[j], &p.options.attr[j]);
        }
        th_connect_pair(qp[0][i], "10.0.0.1", qp[1][i], "10.0.0.2", NULL);
    }
    set_number(&p, 1, TARGET, 0);
    cpu.word = (void *)(p.buf[1].ptr + TARGET);
    thread = g_thread_new("processor", processor_run, &cpu);
    while (done < QPS * ROUNDS) {
        for (i = 0; i < QPS; i++) {
            struct th_wr wr = atomic_wr(&p, RNIC_WR_FETCH_ADD, posted[i]);

            if (posted[i] < ROUNDS && posted[i] - seen[i] < 32) {
                wr.sge[0] = pair_sge(&p, 0, 8192 + i * 8, 8);
                wr.data = 1;
                th_post_send(qp[0][i], &wr, 1);
                posted[i]++;
            }
            while (th_cq_poll(qp[0][i]->attr.send_cq, &cqe)) {
                g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
                seen[i]++;
                done++;
            }
        }
        th_step(0);
    }
    atomic_store(&cpu.stop, true);
    g_thread_join(thread);
    g_assert_cmpuint(cpu.added, >, 0);
    g_assert_cmphex(number(&p, 1, TARGET), ==,
                    QPS * ROUNDS + cpu.added * OWN_ADD);
    pair_free(&p);
}

/* Many more, without a connection between */
static void test_a13_atomic_beside_a_processor(void)
{
    enum { MANY = 300000 };
    struct processor cpu = { 0 };
    struct rnic_rdmap_atomic_request ar = {
        .op = RNIC_RDMAP_FETCH_ADD,
        .to = PAIR_IOVA + TARGET,
        .data = 1,
    };
    struct rnic_qp *qp;
    GThread *thread;
    struct pair p;
    uint64_t old;
    unsigned i;

    start(&p, GINT_TO_POINTER(RNIC_CRC_OFF));
    set_number(&p, 1, TARGET, 0);
    ar.stag = p.stag[1];
    qp = rnic_qp_find(p.guest[1]->dev, p.qp[1]->qpn);
    cpu.word = (void *)(p.buf[1].ptr + TARGET);
    thread = g_thread_new("processor", processor_run, &cpu);
    for (i = 0; i < MANY; i++) {
        g_assert_cmpuint(rnic_atomic_execute(qp, &ar, &old), ==, RNIC_WIRE_OK);
        g_assert_cmpuint((uint32_t)old, ==, i);
    }
    atomic_store(&cpu.stop, true);
    g_thread_join(thread);
    g_assert_cmphex(number(&p, 1, TARGET), ==, MANY + cpu.added * OWN_ADD);
    pair_free(&p);
}

/* ---- The property ---- */

static void test_capability_and_right(void)
{
    unsigned on;

    for (on = 0; on < 2; on++) {
        struct rnic_asqe cmd = { .opcode = RNIC_CMD_REG_MR };
        struct th_options options;
        struct th_guest *guest;
        struct th_buf buf;

        th_options_init(&options);
        options.config.rfc7306 = on;
        guest = th_guest_started(&options);
        g_assert_cmpuint(!!(th_reg(guest, RNIC_REG_CAPS_LO) & RNIC_CAP_RFC7306),
                         ==, on);
        buf = th_buf_new(guest, 4096, 0, 0);
        cmd.reg_mr.pdn = GUINT32_TO_LE(TH_PD);
        cmd.reg_mr.access = GUINT32_TO_LE(RNIC_ACCESS_REMOTE_ATOMIC);
        cmd.reg_mr.buf = buf.desc;
        g_assert_cmpuint(th_admin(guest, &cmd, NULL), ==,
                         on ? RNIC_ADMIN_OK : RNIC_ADMIN_BAD_PARAM);
        th_guest_free(guest);
    }
}

/* ---- Work requests that make no sense ---- */

struct bad_row {
    const char *name;
    bool off; /* the property, of the poster */
    enum rnic_wr_opcode opcode;
    unsigned num_sge;
    uint32_t len; /* of each */
    unsigned flags;
    uint16_t stride;
    uint16_t ord;
    enum rnic_wc_status status;
    const char *words;
};

/* clang-format off */
static const struct bad_row bad_rows[] = {
    { "off/imm", true, RNIC_WR_IMM, 0, 0, 0, 512, 16,
      RNIC_WC_LOC_QP_OP_ERR, "rfc7306=off" },
    { "off/write-imm", true, RNIC_WR_WRITE_IMM, 1, 8, 0, 512, 16,
      RNIC_WC_LOC_QP_OP_ERR, "rfc7306=off" },
    { "off/fetch-add", true, RNIC_WR_FETCH_ADD, 1, 8, 0, 512, 16,
      RNIC_WC_LOC_QP_OP_ERR, "rfc7306=off" },
    { "off/cmp-swap", true, RNIC_WR_CMP_SWAP, 1, 8, 0, 512, 16,
      RNIC_WC_LOC_QP_OP_ERR, "rfc7306=off" },
    { "off/cmp-swap-masked", true, RNIC_WR_CMP_SWAP_MASKED, 1, 8, 0, 512, 16,
      RNIC_WC_LOC_QP_OP_ERR, "rfc7306=off" },
    { "imm/data", false, RNIC_WR_IMM, 1, 8, 0, 512, 16,
      RNIC_WC_LOC_QP_OP_ERR, "data beside its immediate data" },
    { "imm/inline", false, RNIC_WR_IMM, 0, 0, RNIC_WQE_INLINE, 512, 16,
      RNIC_WC_LOC_QP_OP_ERR, "data beside its immediate data" },
    { "write-imm/sges", false, RNIC_WR_WRITE_IMM, 16, 8, 0, 64, 16,
      RNIC_WC_LOC_QP_OP_ERR, "more SGEs than the stride holds" },
    { "fetch-add/no-sink", false, RNIC_WR_FETCH_ADD, 0, 8, 0, 512, 16,
      RNIC_WC_LOC_QP_OP_ERR, "not one sink" },
    { "fetch-add/two-sinks", false, RNIC_WR_FETCH_ADD, 2, 8, 0, 512, 16,
      RNIC_WC_LOC_QP_OP_ERR, "not one sink" },
    { "fetch-add/short", false, RNIC_WR_FETCH_ADD, 1, 7, 0, 512, 16,
      RNIC_WC_LOC_QP_OP_ERR, "8 octets long" },
    { "cmp-swap/long", false, RNIC_WR_CMP_SWAP, 1, 9, 0, 512, 16,
      RNIC_WC_LOC_QP_OP_ERR, "8 octets long" },
    { "cmp-swap/empty", false, RNIC_WR_CMP_SWAP, 1, 0, 0, 512, 16,
      RNIC_WC_LOC_QP_OP_ERR, "8 octets long" },
    { "fetch-add/inline", false, RNIC_WR_FETCH_ADD, 1, 8, RNIC_WQE_INLINE, 512,
      16, RNIC_WC_LOC_QP_OP_ERR, "inline data in an atomic" },
    { "cmp-swap-masked/stride", false, RNIC_WR_CMP_SWAP_MASKED, 1, 8, 0, 64, 16,
      RNIC_WC_LOC_QP_OP_ERR, "stride has no room" },
    { "fetch-add/ord-0", false, RNIC_WR_FETCH_ADD, 1, 8, 0, 512, 0,
      RNIC_WC_LOC_QP_OP_ERR, "ORD is 0" },
    { "unknown", false, RNIC_WR_CMP_SWAP_MASKED + 1, 1, 8, 0, 512, 16,
      RNIC_WC_LOC_QP_OP_ERR, "unknown opcode" },
};
/* clang-format on */

static void test_bad_work_request(gconstpointer data)
{
    const struct bad_row *row = data;
    struct pair_options options;
    struct th_connect connect = { .ird = 16, .ord = row->ord };
    struct rnic_cqe cqe;
    struct th_wr wr;
    struct pair p;
    unsigned i;

    options_init(&options, GINT_TO_POINTER(RNIC_CRC_OFF));
    options.rfc7306 = !row->off;
    options.attr[0].sq_stride = row->stride;
    pair_new(&p, &options);
    pair_connect(&p, &connect);
    memset(p.buf[1].ptr, 0xee, 8192);
    wr = atomic_wr(&p, row->opcode, 9);
    for (i = 0; i < row->num_sge; i++) {
        wr.sge[i] = pair_sge(&p, 0, SINK, row->len);
    }
    wr.num_sge = row->num_sge;
    wr.flags |= row->flags;
    wr.data = 1;
    th_post_send(p.qp[0], &wr, 1);
    pair_wait_send(&p, 0, 9, row->status, &cqe);
    g_assert_cmpuint(p.guest[0]->errors->len, ==, 1);
    g_assert_nonnull(
        strstr(g_ptr_array_index(p.guest[0]->errors, 0), row->words));
    pair_wait_error(&p);
    g_assert_cmphex(number(&p, 1, TARGET), ==, 0xeeeeeeeeeeeeeeee);
    pair_free(&p);
}

/* The sink needs LOCAL_WRITE, and to be a region of the QP's */
static void test_bad_sink(gconstpointer crc)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        struct th_wr wr;
        struct pair p;
        uint32_t stag;

        start(&p, crc);
        set_number(&p, 1, TARGET, 5);
        stag = th_reg_mr(p.guest[0], &p.buf[0], PAIR_IOVA,
                         RNIC_ACCESS_REMOTE_ATOMIC);
        wr = atomic_wr(&p, RNIC_WR_FETCH_ADD, 9);
        wr.sge[0].lkey = GUINT32_TO_LE(i ? stag : stag ^ 0x100);
        wr.data = 1;
        th_post_send(p.qp[0], &wr, 1);
        pair_wait_send(&p, 0, 9, RNIC_WC_LOC_PROT_ERR, NULL);
        pair_wait_error(&p);
        g_assert_cmpuint(number(&p, 1, TARGET), ==, 5);
        pair_free(&p);
    }
}

/* ---- The other device does not have it ---- */

static void test_peer_without_the_property(gconstpointer crc)
{
    static const enum rnic_wr_opcode opcodes[] = {
        RNIC_WR_FETCH_ADD,
        RNIC_WR_CMP_SWAP,
        RNIC_WR_IMM,
        RNIC_WR_WRITE_IMM,
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(opcodes); i++) {
        bool atomic = rnic_wr_is_atomic(opcodes[i]);
        struct pair_options options;
        struct rnic_cqe cqe;
        struct th_wr wr;
        struct pair p;

        options_init(&options, crc);
        pair_new(&p, &options);
        /* What the guest of side 1 was told before does not matter here */
        p.guest[1]->dev->config.rfc7306 = false;
        pair_connect(&p, NULL);
        p.guest[0]->look_for = "does not support RFC 7306";
        memset(p.buf[1].ptr, 0xee, 8192);
        pair_post_recv(&p, 1, 1, 0, 100);
        wr = atomic_wr(&p, opcodes[i], 9);
        wr.num_sge = opcodes[i] != RNIC_WR_IMM;
        wr.data = 1;
        th_post_send(p.qp[0], &wr, 1);
        pair_wait_send(
            &p, 0, 9, atomic ? RNIC_WC_REM_INV_REQ_ERR : RNIC_WC_SUCCESS, &cqe);
        g_assert_cmphex(GUINT32_FROM_LE(cqe.vendor_err), ==,
                        atomic ? 0x000206 : 0);
        pair_wait_recv(&p, 1, 1, RNIC_WC_WR_FLUSH_ERR, NULL);
        th_event_wait(p.guest[0], RNIC_EV_QP_REQ_ERR, p.qp[0]->qpn, NULL);
        pair_wait_error(&p);
        g_assert_cmpuint(p.guest[0]->found, ==, 1);
        if (atomic) {
            g_assert_cmphex(number(&p, 1, TARGET), ==, 0xeeeeeeeeeeeeeeee);
        }
        pair_free(&p);
    }
}

int main(int argc, char **argv)
{
    unsigned i;

    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/rfc7306/arithmetic", test_arithmetic);
    pair_add("/rfc7306", "fetch-add", test_fetch_add);
    pair_add("/rfc7306", "cmp-swap", test_cmp_swap);
    pair_add("/rfc7306", "sink-across-a-page", test_sink_across_a_page);
    pair_add("/rfc7306", "write-with-immediate", test_write_with_immediate);
    pair_add("/rfc7306", "inline-write-with-immediate",
             test_inline_write_with_immediate);
    pair_add("/rfc7306", "immediate-alone",
             test_immediate_alone_takes_a_receive_of_an_srq);
    pair_add("/rfc7306", "A13/sum-is-exact", test_a13_sum_is_exact);
    g_test_add_func("/rfc7306/A13/atomic-beside-a-processor",
                    test_a13_atomic_beside_a_processor);
    g_test_add_func("/rfc7306/capability-and-right", test_capability_and_right);
    for (i = 0; i < G_N_ELEMENTS(bad_rows); i++) {
        g_autofree char *name =
            g_strdup_printf("/rfc7306/bad/%s", bad_rows[i].name);

        g_test_add_data_func(name, &bad_rows[i], test_bad_work_request);
    }
    pair_add("/rfc7306", "bad-sink", test_bad_sink);
    pair_add("/rfc7306", "A14/peer-without-the-property",
             test_peer_without_the_property);
    return g_test_run();
}
