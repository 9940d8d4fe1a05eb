/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kinds of fault that emulated RDMA devices and software RNICs were found to
 * have, each with a test that keeps this device free of it: commands, rings,
 * page lists and regions. The numbers are those of docs/limits.md; those of
 * traffic are in test-faults-traffic.c, of what a peer sends in
 * test-faults-wire.c, of memory that changes while the device reads it in
 * test-faults-racing.c, and of QEMU's side in tests/qtest.
 */
#include "harness.h"
#include "mr.h"
#include "usage.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- Steps ---- */

enum object { EQ, CQ, SRQ, QP, MR, OBJECTS };

/* The command that makes object 20 */
struct creation {
    struct th_guest *guest;
    enum object object;
    struct rnic_asqe cmd;
    struct th_buf memory;
    struct rnic_buf_desc *buf; /* in cmd, as is depth, NULL: it has none */
    __le32 *depth;
    struct rnic_acqe resp;
};

/* With a buffer of @pages scattered pages; 0: two contiguous ones */
static void creation_init(struct creation *c, struct th_guest *guest,
                          enum object object, unsigned pages)
{
    const uint32_t dbrec = GUINT32_TO_LE((pages ? pages : 2) * TH_PAGE - 64);
    struct rnic_asqe *cmd = &c->cmd;

    memset(c, 0, sizeof(*c));
    c->guest = guest;
    c->object = object;
    c->memory = th_buf_new(guest, (pages ? pages : 2) * TH_PAGE, !!pages, 0);
    switch (object) {
    case EQ:
        cmd->opcode = RNIC_CMD_CREATE_EQ;
        cmd->create_eq.eqn = GUINT32_TO_LE(20);
        cmd->create_eq.depth = GUINT32_TO_LE(16);
        cmd->create_eq.dbrec_offset = dbrec;
        c->buf = &cmd->create_eq.buf;
        c->depth = &cmd->create_eq.depth;
        break;
    case CQ:
        cmd->opcode = RNIC_CMD_CREATE_CQ;
        cmd->create_cq.cqn = GUINT32_TO_LE(20);
        cmd->create_cq.eqn = GUINT32_TO_LE(1);
        cmd->create_cq.depth = GUINT32_TO_LE(16);
        cmd->create_cq.dbrec_offset = dbrec;
        c->buf = &cmd->create_cq.buf;
        c->depth = &cmd->create_cq.depth;
        break;
    case SRQ:
        cmd->opcode = RNIC_CMD_CREATE_SRQ;
        cmd->create_srq.srqn = GUINT32_TO_LE(20);
        cmd->create_srq.pdn = GUINT32_TO_LE(TH_PD);
        cmd->create_srq.depth = GUINT32_TO_LE(16);
        cmd->create_srq.stride = GUINT32_TO_LE(64);
        cmd->create_srq.dbrec_offset = dbrec;
        c->buf = &cmd->create_srq.buf;
        c->depth = &cmd->create_srq.depth;
        break;
    case QP:
        cmd->opcode = RNIC_CMD_CREATE_QP;
        cmd->create_qp.qpn = GUINT32_TO_LE(20);
        cmd->create_qp.pdn = GUINT32_TO_LE(TH_PD);
        cmd->create_qp.send_cqn = GUINT32_TO_LE(guest->next_cqn);
        cmd->create_qp.recv_cqn = GUINT32_TO_LE(guest->next_cqn);
        cmd->create_qp.sq_stride = GUINT16_TO_LE(64);
        cmd->create_qp.sq_depth = GUINT32_TO_LE(16);
        cmd->create_qp.rq_stride = GUINT16_TO_LE(64);
        cmd->create_qp.rq_depth = GUINT32_TO_LE(16);
        cmd->create_qp.rq_offset = GUINT32_TO_LE(1024);
        cmd->create_qp.dbrec_offset = dbrec;
        cmd->create_qp.status_addr = GUINT64_TO_LE(th_alloc(guest, 16, 16));
        c->buf = &cmd->create_qp.buf;
        c->depth = &cmd->create_qp.sq_depth;
        break;
    default:
        cmd->opcode = RNIC_CMD_REG_MR;
        cmd->reg_mr.pdn = GUINT32_TO_LE(TH_PD);
        cmd->reg_mr.access = GUINT32_TO_LE(RNIC_ACCESS_ALL);
        c->buf = &cmd->reg_mr.buf;
        break;
    }
    *c->buf = c->memory.desc;
}

static unsigned creation_run(struct creation *c)
{
    return th_admin(c->guest, &c->cmd, &c->resp);
}

/* What was made goes */
static void creation_undo(struct creation *c)
{
    static const enum rnic_admin_opcode opcodes[] = {
        [EQ] = RNIC_CMD_DESTROY_EQ,
        [CQ] = RNIC_CMD_DESTROY_CQ,
        [SRQ] = RNIC_CMD_DESTROY_SRQ,
        [QP] = RNIC_CMD_DESTROY_QP,
    };

    if (c->object == MR) {
        th_dereg_mr(c->guest, GUINT32_FROM_LE(c->resp.mr.stag));
    } else {
        g_assert_cmpuint(th_admin_id(c->guest, opcodes[c->object], 20), ==,
                         RNIC_ADMIN_OK);
    }
}

/* The right command works: what failed before left the number free */
static void creation_works(struct th_guest *guest, enum object object)
{
    struct creation c;

    creation_init(&c, guest, object, 0);
    g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_OK);
    creation_undo(&c);
}

/* A guest with a CQ for QPs to use */
static struct th_guest *guest_new(void)
{
    struct th_guest *guest = th_guest_started(NULL);

    th_cq_new(guest, 64);
    return guest;
}

/* ---- 1: what a device that cannot be made leaves behind ---- */

static bool trace_nothing(void *opaque, enum rnic_trace_event event)
{
    return false;
}

static const struct rnic_host_ops no_host = { .trace_enabled = trace_nothing };

static void make_no_device(const struct rnic_config *config)
{
    GError *error = NULL;

    g_assert_null(rnic_device_new(config, &no_host, NULL, &error));
    g_assert_nonnull(error);
    g_error_free(error);
}

static void fault_01_failed_realize_leaves_nothing(void)
{
    struct th_options good;
    struct usage before;
    unsigned i;

    th_options_init(&good);
    for (i = 0; i < 110; i++) {
        struct rnic_config configs[7];
        unsigned n;

        for (n = 0; n < G_N_ELEMENTS(configs); n++) {
            configs[n] = good.config;
        }
        memset(configs[0].mac, 0, 6);
        configs[1].vectors = 1;
        configs[2].map = "10.0.0.0/8";
        configs[3].allow = "1.2.3.4/99";
        configs[4].deny = "nonsense";
        configs[5].pcap = "/nonexistent/capture";
        configs[6].fpdu_max = 70000;
        for (n = 0; n < G_N_ELEMENTS(configs); n++) {
            make_no_device(&configs[n]);
        }
        /* The first rounds fill what GLib keeps for itself */
        if (i == 9) {
            before = usage_now();
        }
    }
    usage_check(&before, 0, 16);
}

/* The same when the host has no files left, at each file that it needs */
static void fault_01_realize_without_files(void)
{
    struct rlimit limit = { 64, 64 };
    struct th_options options;
    unsigned left, failed = 0;
    struct usage before;

    if (!g_test_subprocess()) {
        /* The device raises the soft limit, and the hard one cannot be raised
         * again */
        g_test_trap_subprocess(NULL, 0, 0);
        g_test_trap_assert_passed();
        return;
    }
    th_options_init(&options);
    before = usage_now();
    g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    for (left = 0; left < 8; left++) {
        GError *error = NULL;
        int files[64], count = 0, fd;
        rnic_device *dev;

        while ((fd = dup(STDERR_FILENO)) >= 0) {
            files[count++] = fd;
        }
        for (unsigned i = 0; i < left; i++) {
            close(files[--count]);
        }
        dev = rnic_device_new(&options.config, &no_host, NULL, &error);
        while (count) {
            close(files[--count]);
        }
        if (dev) {
            rnic_device_free(dev);
        } else {
            g_assert_nonnull(error);
            g_error_free(error);
            failed++;
        }
        if (left == 0) {
            before = usage_now();
        }
    }
    g_assert_cmpuint(failed, >=, 3);
    g_assert_cmpuint(failed, <, 8);
    usage_check(&before, 0, 16);
}

/* ---- 3: page and entry counts of 0, and huge ones ---- */

static void fault_03_ring_sizes_of_nothing_and_far_too_much(void)
{
    static const struct {
        uint64_t length;
        uint8_t levels, page_shift;
        uint32_t first_offset;
    } bufs[] = {
        { 0, 0, 0, 0 },
        { 1, 0, 0, 0 },
        { 63, 0, 0, 0 },
        { (1ull << 40) + 1, 0, 0, 0 },
        { 1ull << 63, 0, 0, 0 },
        { ~0ull, 0, 0, 0 },
        { 0, 1, 12, 0 },
        { ~0ull, 1, 12, 0 },
        { ~0ull, 3, 30, (1u << 30) - 64 },
        { 8192, 4, 12, 0 },
        { 8192, 255, 12, 0 },
        { 8192, 1, 0, 0 },
        { 8192, 1, 11, 0 },
        { 8192, 1, 31, 0 },
        { 8192, 1, 63, 0 },
        { 8192, 1, 64, 0 },
        { 8192, 1, 255, 0 },
        { 8192, 1, 12, 4096 },
        { 8192, 1, 12, ~0u },
        { 8192, 0, 12, 0 },
        { 8192, 0, 0, 64 },
    };
    static const uint32_t depths[] = {
        0, 3, 15, 17, 1u << 23, 1u << 30, 1u << 31, 0x7fffffff, ~0u,
    };
    struct th_guest *guest = guest_new();
    uint64_t pages = guest->dev->buf_pages;
    struct creation c;
    unsigned object, i, status;

    for (object = EQ; object < OBJECTS; object++) {
        for (i = 0; i < G_N_ELEMENTS(bufs); i++) {
            /* A region may be that small */
            if (object == MR && bufs[i].length && bufs[i].length < 64) {
                continue;
            }
            creation_init(&c, guest, object, 0);
            c.buf->length = GUINT64_TO_LE(bufs[i].length);
            c.buf->levels = bufs[i].levels;
            c.buf->page_shift = bufs[i].page_shift;
            c.buf->first_offset = GUINT32_TO_LE(bufs[i].first_offset);
            status = creation_run(&c);
            g_assert_true(status == RNIC_ADMIN_BAD_PARAM ||
                          status == RNIC_ADMIN_BAD_ADDRESS);
        }
        creation_init(&c, guest, object, 0);
        for (i = 0; c.depth && i < G_N_ELEMENTS(depths); i++) {
            /* A QP may have no SQ */
            if (object == QP && depths[i] == 0) {
                continue;
            }
            *c.depth = GUINT32_TO_LE(depths[i]);
            g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_BAD_PARAM);
        }
        creation_works(guest, object);
    }
    g_assert_cmpuint(guest->dev->buf_pages, ==, pages);
    th_guest_free(guest);
}

/* ---- 4: what failed commands keep ---- */

static void fault_04_failed_commands_keep_nothing(void)
{
    struct th_guest *guest = guest_new();
    struct creation late[OBJECTS], early[OBJECTS];
    uint64_t hole = th_alloc(guest, TH_PAGE, TH_PAGE);
    uint64_t pages = guest->dev->buf_pages;
    struct usage before;
    unsigned i, object;

    th_make_hole(guest, hole, TH_PAGE);
    for (object = EQ; object < OBJECTS; object++) {
        /* Fails at the table that the list ends with, or at the last field */
        creation_init(&late[object], guest, object, 0);
        late[object].buf->levels = 1;
        late[object].buf->page_shift = 12;
        late[object].buf->addr = GUINT64_TO_LE(hole);
        creation_init(&early[object], guest, object, 4);
        if (object == QP) {
            early[QP].cmd.create_qp.status_addr = GUINT64_TO_LE(hole);
        } else if (object == MR) {
            early[MR].cmd.reg_mr.iova = GUINT64_TO_LE(~0ull);
        } else {
            *early[object].depth = GUINT32_TO_LE(1u << 31);
        }
    }
    for (i = 0; i < 1000; i++) {
        for (object = EQ; object < OBJECTS; object++) {
            g_assert_cmpuint(creation_run(&late[object]), ==,
                             RNIC_ADMIN_BAD_ADDRESS);
            g_assert_cmpuint(creation_run(&early[object]), !=, RNIC_ADMIN_OK);
        }
        if (i == 10) {
            before = usage_now();
        }
    }
    usage_check(&before, 0, 16);
    g_assert_cmpuint(guest->dev->buf_pages, ==, pages);
    for (object = EQ; object < OBJECTS; object++) {
        creation_works(guest, object);
    }
    /* Nothing refers to what they named */
    g_assert_cmpuint(th_admin_id(guest, RNIC_CMD_DESTROY_CQ, guest->next_cqn),
                     ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(th_admin_id(guest, RNIC_CMD_DESTROY_EQ, 1), ==,
                     RNIC_ADMIN_OK);
    g_assert_cmpuint(guest->dev->uctx[0]->refs, ==, 0);
    th_guest_free(guest);
}

/* ---- 5: every access to the doorbell pages is defined ---- */

static void fault_05_doorbell_pages_define_every_write(void)
{
    static const unsigned sizes[] = { 0, 1, 2, 3, 4, 5, 8, 16, ~0u };
    static const uint64_t offsets[] = {
        0,
        1,
        2,
        4,
        7,
        RNIC_DB_PAGE_SIZE - 1,
        RNIC_DB_PAGE_SIZE,
        RNIC_DB_PAGE_SIZE + 1,
        RNIC_BAR_DB_SIZE - RNIC_DB_PAGE_SIZE,
        RNIC_BAR_DB_SIZE - 1,
        RNIC_BAR_DB_SIZE,
        1ull << 32,
        ~0ull,
    };
    struct th_guest *guest = guest_new();
    unsigned i, n;

    for (i = 0; i < G_N_ELEMENTS(offsets); i++) {
        for (n = 0; n < G_N_ELEMENTS(sizes); n++) {
            bool kick = sizes[n] == 4 && offsets[i] < RNIC_BAR_DB_SIZE &&
                        offsets[i] % RNIC_DB_PAGE_SIZE == RNIC_DB_KICK;
            uint64_t kicks = th_stat(guest, RNIC_STAT_kicks);

            g_ptr_array_set_size(guest->errors, 0);
            rnic_device_doorbell(guest->dev, offsets[i], sizes[n]);
            th_settle(guest);
            g_assert_cmpuint(th_stat(guest, RNIC_STAT_kicks) - kicks, ==, kick);
            /* Context 0 exists */
            g_assert_cmpuint(guest->errors->len, ==, !kick || offsets[i]);
        }
    }
    th_still_works(guest);
    th_guest_free(guest);
}

/* ---- 7: regions longer than the pages they name ---- */

static void fault_07_region_longer_than_its_pages(void)
{
    struct th_guest *guest = guest_new();
    uint64_t pages = guest->dev->buf_pages;
    struct creation c;

    creation_init(&c, guest, MR, 512);
    c.buf->length = GUINT64_TO_LE(512 * TH_PAGE + 1);
    g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_BAD_PARAM);
    c.buf->length = GUINT64_TO_LE(512 * TH_PAGE);
    c.buf->first_offset = GUINT32_TO_LE(1);
    g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_BAD_PARAM);
    c.buf->length = GUINT64_TO_LE(1ull << 40);
    c.buf->first_offset = 0;
    g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_BAD_PARAM);
    /* More page list entries than a device may hold */
    c.buf->levels = 3;
    c.buf->length = GUINT64_TO_LE(1ull << 39);
    g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_NO_RESOURCES);
    g_assert_cmpuint(guest->dev->buf_pages, ==, pages);

    c.buf->levels = 1;
    c.buf->length = GUINT64_TO_LE(512 * TH_PAGE - 1);
    c.buf->first_offset = GUINT32_TO_LE(1);
    g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_OK);
    for (unsigned i = 0; i < 2; i++) {
        struct rnic_mapping map;
        uint64_t done, last = 512 * TH_PAGE - 2 + i;
        enum rnic_mr_error error;

        rnic_mapping_init(&map, RNIC_DMA_FROM_GUEST);
        error = rnic_mr_map(guest->dev, TH_PD, GUINT32_FROM_LE(c.resp.mr.stag),
                            last, 1, 0, false, &map, &done);
        g_assert_cmpuint(error, ==, i ? RNIC_MR_BOUNDS : RNIC_MR_OK);
        g_assert_cmpuint(done, ==, !i);
        rnic_mapping_release(guest->dev, &map, 0);
    }
    creation_undo(&c);
    th_guest_free(guest);
}

/* ---- 8: sizes of the rings that are given by registers ---- */

static void enable_fails(struct th_guest *guest, uint64_t asq, uint64_t acq,
                         uint32_t depth, enum rnic_dev_error error)
{
    th_reg_set(guest, RNIC_REG_ASQ_LO, (uint32_t)asq);
    th_reg_set(guest, RNIC_REG_ASQ_HI, asq >> 32);
    th_reg_set(guest, RNIC_REG_ACQ_LO, (uint32_t)acq);
    th_reg_set(guest, RNIC_REG_ACQ_HI, acq >> 32);
    th_reg_set(guest, RNIC_REG_ADMIN_DEPTH, depth);
    th_reg_set(guest, RNIC_REG_CTRL, RNIC_CTRL_ENABLE);
    th_wait(th_reg(guest, RNIC_REG_STATUS) == RNIC_STATUS_FATAL);
    g_assert_cmpuint(th_reg(guest, RNIC_REG_ERROR), ==, error);
    th_reset(guest);
}

static void fault_08_device_rings_of_any_size(void)
{
    static const uint32_t depths[] = {
        0, 1, 3, 7, 1023, 1025, 2048, 1u << 16, 1u << 31, 0x7fffffff, ~0u,
    };
    struct th_guest *guest = th_guest_new(NULL);
    uint64_t ring = th_alloc(guest, 32 * TH_PAGE, TH_PAGE);
    struct usage before;
    unsigned i, n;

    for (n = 0; n < 20; n++) {
        for (i = 0; i < G_N_ELEMENTS(depths); i++) {
            enable_fails(guest, ring, ring, depths[i],
                         RNIC_DEV_ERR_ADMIN_CONFIG);
        }
        /* Its end is not RAM, or past the end of DMA space */
        enable_fails(guest, TH_BASE + guest->options.mem_size - TH_PAGE, ring,
                     1024, RNIC_DEV_ERR_ADMIN_DMA);
        enable_fails(guest, ring, ~0xfffull, 1024, RNIC_DEV_ERR_ADMIN_DMA);
        g_ptr_array_set_size(guest->errors, 0);
        if (n == 1) {
            before = usage_now();
        }
    }
    usage_check(&before, 0, 16);
    th_start(guest);
    th_still_works(guest);
    th_guest_free(guest);
}

/* ---- 9: a page in the middle of a list that is not usable ---- */

static void fault_09_bad_page_within_a_list(void)
{
    struct th_guest *guest = guest_new();
    uint64_t pages = guest->dev->buf_pages;
    unsigned object, i;

    for (object = EQ; object < OBJECTS; object++) {
        struct creation c;
        uint64_t *table;

        creation_init(&c, guest, object, 8);
        table = th_ptr(guest, GUINT64_FROM_LE(c.buf->addr));
        for (i = 0; i < 8; i++) {
            uint64_t good = table[i];

            table[i] = GUINT64_TO_LE(GUINT64_FROM_LE(good) + 8);
            g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_BAD_ADDRESS);
            g_assert_cmpuint(guest->dev->buf_pages, ==, pages);
            table[i] = good;
        }
        g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_OK);
        creation_undo(&c);
        g_assert_cmpuint(guest->dev->buf_pages, ==, pages);
    }
    th_still_works(guest);
    th_guest_free(guest);
}

/* A table in the middle that is not RAM */
static void fault_09_bad_table_within_a_list(void)
{
    struct th_guest *guest = guest_new();
    struct th_buf buf = th_buf_new(guest, 4 * 512 * TH_PAGE, 2, 0);
    uint64_t *root = th_ptr(guest, GUINT64_FROM_LE(buf.desc.addr));
    uint64_t pages = guest->dev->buf_pages;
    struct creation c;
    unsigned i;

    creation_init(&c, guest, MR, 0);
    *c.buf = buf.desc;
    for (i = 0; i < 4; i++) {
        th_make_hole(guest, GUINT64_FROM_LE(root[i]), TH_PAGE);
        g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_BAD_ADDRESS);
        g_assert_cmpuint(guest->dev->buf_pages, ==, pages);
        th_fill_holes(guest);
    }
    g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_OK);
    creation_undo(&c);
    th_guest_free(guest);
}

/* ---- 10: commands before what they build on ---- */

static void too_early(struct th_guest *guest)
{
    uint8_t opcode;

    for (opcode = 0; opcode < 32; opcode++) {
        struct rnic_asqe cmd = { .opcode = opcode };
        unsigned status;

        /* Number 1 of anything does not exist */
        cmd.raw[0] = 1;
        status = th_admin(guest, &cmd, NULL);
        g_assert_true(opcode == RNIC_CMD_NOP ? status == RNIC_ADMIN_OK
                                             : status != RNIC_ADMIN_OK ||
                                                   opcode == RNIC_CMD_SET_LINK);
    }
    for (unsigned object = CQ; object <= QP; object++) {
        struct creation c;

        creation_init(&c, guest, object, 0);
        g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_BAD_ID);
    }
    rnic_device_doorbell(guest->dev, 0, 4);
    rnic_device_doorbell(guest->dev, RNIC_DB_PAGE_SIZE, 4);
    th_settle(guest);
    th_still_works(guest);
}

static void fault_10_commands_before_what_they_need(void)
{
    struct th_guest *guest = th_guest_new(NULL);
    struct th_qp *qp;

    /* Nothing is set up at all */
    rnic_device_doorbell(guest->dev, 0, 4);
    th_reg_set(guest, RNIC_REG_ASQ_DB, 1);
    th_settle(guest);
    g_assert_cmphex(th_reg(guest, RNIC_REG_STATUS), ==, 0);

    th_enable(guest, 16);
    too_early(guest);
    /* Nor is what was there before a reset */
    th_reset(guest);
    th_start(guest);
    qp = th_qp_new(guest, NULL);
    th_ring(guest, 0, qp->qpn);
    th_reset(guest);
    rnic_device_doorbell(guest->dev, 0, 4);
    th_settle(guest);
    th_enable(guest, 16);
    too_early(guest);
    th_guest_free(guest);
}

/* ---- 11: page lists that end, or go on, at the end of a page ---- */

static uint64_t table_start, table_read;

static void watch_table(struct th_guest *guest, bool mapping, uint64_t addr,
                        uint64_t len, enum rnic_dma_dir dir)
{
    if (!mapping && addr >= table_start && addr < table_start + 2 * TH_PAGE) {
        table_read = MAX(table_read, addr + len - table_start);
    }
}

static void fault_11_page_list_longer_than_a_page(void)
{
    struct th_guest *guest = guest_new();
    struct creation c;
    uint64_t *table;
    unsigned i;

    creation_init(&c, guest, MR, 0);
    table_start = th_alloc(guest, 2 * TH_PAGE, TH_PAGE);
    table = th_ptr(guest, table_start);
    for (i = 0; i < 1024; i++) {
        table[i] = GUINT64_TO_LE(TH_BASE);
    }
    c.buf->addr = GUINT64_TO_LE(table_start);
    c.buf->levels = 1;
    c.buf->page_shift = 12;
    guest->options.watch = watch_table;
    guest->options.whole_mappings = true;

    c.buf->length = GUINT64_TO_LE(513 * TH_PAGE);
    g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_BAD_PARAM);
    g_assert_cmpuint(table_read, ==, 0);
    c.buf->length = GUINT64_TO_LE(512 * TH_PAGE);
    g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(table_read, ==, TH_PAGE);
    creation_undo(&c);
    /* And no more of the last table than it has to hold */
    table_read = 0;
    c.buf->length = GUINT64_TO_LE(7 * TH_PAGE);
    th_make_hole(guest, table_start + 7 * 8, TH_PAGE);
    g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(table_read, ==, 7 * 8);
    creation_undo(&c);
    th_guest_free(guest);
}

/* ---- 16: the second of two things fails ---- */

static void fault_16_second_ring_that_fails(void)
{
    struct th_guest *guest = th_guest_new(NULL);
    uint64_t good = th_alloc(guest, TH_PAGE, TH_PAGE);
    uint64_t bad = th_alloc(guest, TH_PAGE, TH_PAGE);
    struct creation c;

    th_make_hole(guest, bad, TH_PAGE);
    enable_fails(guest, good, bad, 16, RNIC_DEV_ERR_ADMIN_DMA);
    enable_fails(guest, bad, good, 16, RNIC_DEV_ERR_ADMIN_DMA);
    th_start(guest);
    th_cq_new(guest, 64);
    creation_init(&c, guest, QP, 8);
    c.cmd.create_qp.status_addr = GUINT64_TO_LE(bad);
    g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_BAD_ADDRESS);
    /* The first one is not referred to any more */
    g_assert_cmpuint(th_admin_id(guest, RNIC_CMD_QUERY_QP, 20), ==,
                     RNIC_ADMIN_BAD_ID);
    g_assert_cmpuint(th_admin_id(guest, RNIC_CMD_DESTROY_CQ, guest->next_cqn),
                     ==, RNIC_ADMIN_OK);
    th_still_works(guest);
    th_guest_free(guest);
}

/* ---- 17: address and length that wrap ---- */

static void fault_17_addresses_do_not_wrap(void)
{
    static const struct {
        uint64_t to;
        uint64_t len;
        enum rnic_mr_error error;
    } uses[] = {
        { 0, 1, RNIC_MR_BOUNDS },
        { ~0ull - 4096, 1, RNIC_MR_BOUNDS },
        { ~0ull - 4095, 4095, RNIC_MR_OK },
        { ~0ull - 4095, 4096, RNIC_MR_WRAP },
        { ~0ull - 1, 1, RNIC_MR_OK },
        { ~0ull, 1, RNIC_MR_WRAP },
        { ~0ull, ~0ull, RNIC_MR_WRAP },
        { 1, ~0ull, RNIC_MR_WRAP },
        { 2, ~0ull - 2, RNIC_MR_BOUNDS },
    };
    struct th_guest *guest = guest_new();
    struct creation c;
    unsigned i;

    /* In DMA space */
    creation_init(&c, guest, MR, 0);
    c.buf->addr = GUINT64_TO_LE(~0ull - 4095);
    c.buf->length = GUINT64_TO_LE(4097);
    g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_BAD_ADDRESS);
    /* As the peer addresses it */
    creation_init(&c, guest, MR, 0);
    c.buf->length = GUINT64_TO_LE(4095);
    c.cmd.reg_mr.iova = GUINT64_TO_LE(~0ull - 4094);
    g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_BAD_PARAM);
    c.buf->length = GUINT64_TO_LE(4096);
    g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_BAD_PARAM);
    /* At use */
    c.buf->length = GUINT64_TO_LE(4095);
    c.cmd.reg_mr.iova = GUINT64_TO_LE(~0ull - 4095);
    g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_OK);
    for (i = 0; i < G_N_ELEMENTS(uses); i++) {
        g_assert_cmpuint(rnic_mr_check(guest->dev, TH_PD,
                                       GUINT32_FROM_LE(c.resp.mr.stag),
                                       uses[i].to, uses[i].len, 0, false),
                         ==, uses[i].error);
    }
    th_guest_free(guest);
}

/* ---- 19: a registration that failed half way ---- */

static void fault_19_failed_registration_is_no_region(void)
{
    struct th_guest *guest = guest_new();
    uint64_t hole = th_alloc(guest, 2 * TH_PAGE, TH_PAGE);
    struct rnic_asqe alloc = { .opcode = RNIC_CMD_ALLOC_MR };
    struct rnic_reg_wqe reg = { 0 };
    struct rnic_acqe resp;
    struct creation c;
    uint32_t stag;
    uint64_t to;

    th_make_hole(guest, hole + TH_PAGE, TH_PAGE);
    creation_init(&c, guest, MR, 8);
    c.buf->addr = GUINT64_TO_LE(hole + TH_PAGE);
    g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_BAD_ADDRESS);
    g_assert_cmphex(c.resp.mr.stag, ==, 0);

    /* The same by a work request: the list's second half is missing */
    alloc.alloc_mr.pdn = GUINT32_TO_LE(TH_PD);
    alloc.alloc_mr.max_pages = GUINT32_TO_LE(16);
    g_assert_cmpuint(th_admin(guest, &alloc, &resp), ==, RNIC_ADMIN_OK);
    stag = GUINT32_FROM_LE(resp.mr.stag);
    reg.stag = GUINT32_TO_LE(stag);
    reg.access = GUINT32_TO_LE(RNIC_ACCESS_ALL);
    reg.num_pages = GUINT32_TO_LE(16);
    reg.length = GUINT64_TO_LE(16 * TH_PAGE);
    reg.pages = GUINT64_TO_LE(hole + TH_PAGE - 64);
    reg.page_shift = GUINT32_TO_LE(12);
    memset(th_ptr(guest, hole), 0, TH_PAGE);
    g_assert_cmpuint(rnic_mr_fast_reg(guest->dev, TH_PD, &reg), ==,
                     RNIC_MR_DMA);
    for (to = 0; to < 16 * TH_PAGE; to += TH_PAGE) {
        g_assert_cmpuint(rnic_mr_check(guest->dev, TH_PD, stag, to, 1,
                                       RNIC_ACCESS_REMOTE_WRITE, false),
                         ==, RNIC_MR_BAD_STAG);
    }
    g_assert_cmpuint(rnic_mr_invalidate(guest->dev, TH_PD, stag, false), ==,
                     RNIC_MR_BAD_STAG);

    /* A region whose page is not RAM is one, and still no way out of RAM */
    creation_init(&c, guest, MR, 0);
    c.buf->addr = GUINT64_TO_LE(hole + TH_PAGE);
    c.buf->length = GUINT64_TO_LE(TH_PAGE);
    g_assert_cmpuint(creation_run(&c), ==, RNIC_ADMIN_OK);
    {
        struct rnic_mapping map;
        uint64_t done;

        rnic_mapping_init(&map, RNIC_DMA_TO_GUEST);
        g_assert_cmpuint(
            rnic_mr_map(guest->dev, TH_PD, GUINT32_FROM_LE(c.resp.mr.stag), 0,
                        8, RNIC_ACCESS_REMOTE_WRITE, false, &map, &done),
            ==, RNIC_MR_DMA);
        g_assert_cmpuint(map.count, ==, 0);
    }
    th_guest_free(guest);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(fault) g_test_add_func("/faults/" #fault, fault)
    ADD(fault_01_failed_realize_leaves_nothing);
    ADD(fault_01_realize_without_files);
    ADD(fault_03_ring_sizes_of_nothing_and_far_too_much);
    ADD(fault_04_failed_commands_keep_nothing);
    ADD(fault_05_doorbell_pages_define_every_write);
    ADD(fault_07_region_longer_than_its_pages);
    ADD(fault_08_device_rings_of_any_size);
    ADD(fault_09_bad_page_within_a_list);
    ADD(fault_09_bad_table_within_a_list);
    ADD(fault_10_commands_before_what_they_need);
    ADD(fault_11_page_list_longer_than_a_page);
    ADD(fault_16_second_ring_that_fails);
    ADD(fault_17_addresses_do_not_wrap);
    ADD(fault_19_failed_registration_is_no_region);
    return g_test_run();
}
