/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Admin commands: every one with every kind of bad argument
 */
#include <string.h>
#include "harness.h"

/*
 * What the commands of the tables refer to: context 0 and 1, EQs 0 and 1, CQ 1
 * (context 0), CQ 2 (context 1), SRQ 1 (context 0), QP 1 (IDLE, context 0),
 * address 10.0.0.1, listener 0.
 */
struct objects {
    struct th_guest *guest;
    uint64_t ring;      /* 16 KiB, 4 KiB aligned */
    uint64_t table;     /* of its pages, for levels 1 */
    uint64_t odd_table; /* with an entry that is not aligned */
};

static void make_objects(struct objects *o)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_qp_attr attr;
    uint64_t *entries;
    unsigned i;

    o->guest = guest;
    th_uctx_new(guest, 1);
    th_qp_attr_init(&attr);
    attr.send_cq = attr.recv_cq = th_cq_new(guest, 16);
    th_cq_new_on(guest, 16, 1, 1);
    attr.srq = th_srq_new(guest, 8, 0);
    th_qp_new(guest, &attr);
    g_assert_cmpuint(th_addr_add(guest, "10.0.0.1"), ==, RNIC_ADMIN_OK);
    th_listen(guest, "10.0.0.1", 0, 4, NULL);

    o->ring = th_alloc(guest, 4 * TH_PAGE, TH_PAGE);
    o->table = th_alloc(guest, TH_PAGE, TH_PAGE);
    o->odd_table = th_alloc(guest, TH_PAGE, TH_PAGE);
    for (i = 0; i < 4; i++) {
        entries = th_ptr(guest, o->table);
        /* From the last to the first */
        entries[i] = GUINT64_TO_LE(o->ring + (3 - i) * TH_PAGE);
        entries = th_ptr(guest, o->odd_table);
        entries[i] = GUINT64_TO_LE(o->ring + (3 - i) * TH_PAGE);
    }
    entries = th_ptr(guest, o->odd_table);
    entries[3] |= GUINT64_TO_LE(0x40);
}

/* One field of a command with a value that is refused */
struct bad {
    const char *what;
    size_t offset;
    size_t size;
    uint64_t value;
    enum rnic_admin_status status;
};
#define BAD(field, value, status)                                              \
    {                                                                          \
#field " = " #value, offsetof(struct rnic_asqe, field),                \
            sizeof(((struct rnic_asqe *)0)->field), value, RNIC_ADMIN_##status \
    }
#define BAD_HEADER BAD(rsvd, 1, BAD_PARAM), BAD(rsvd2, 1, BAD_PARAM)

static void set_field(struct rnic_asqe *cmd, const struct bad *bad)
{
    uint64_t value = GUINT64_TO_LE(bad->value);

    memcpy((uint8_t *)cmd + bad->offset, &value, MIN(bad->size, 8));
}

static void snapshot(struct th_guest *guest, GString *out)
{
    struct rnic_device *dev = guest->dev;
    unsigned i;

    g_string_append_printf(out, "pages %" PRIu64 "\n", dev->buf_pages);
    for (i = 0; i < RNIC_DB_PAGES; i++) {
        if (dev->uctx[i]) {
            g_string_append_printf(out, "context %u: refs %u\n", i,
                                   dev->uctx[i]->refs);
        }
    }
    for (i = 0; i < RNIC_MAX_EQ; i++) {
        if (dev->eqs[i]) {
            g_string_append_printf(out, "EQ %u: refs %u\n", i,
                                   dev->eqs[i]->refs);
        }
    }
    for (i = 0; i < RNIC_MAX_CQ; i++) {
        if (dev->cqs[i]) {
            g_string_append_printf(out, "CQ %u: refs %u, %u, %u\n", i,
                                   dev->cqs[i]->refs, dev->cqs[i]->mod_count,
                                   dev->cqs[i]->mod_period_us);
        }
    }
    for (i = 0; i < RNIC_MAX_SRQ; i++) {
        if (dev->srqs[i]) {
            g_string_append_printf(out, "SRQ %u: refs %u, limit %u\n", i,
                                   dev->srqs[i]->refs, dev->srqs[i]->limit);
        }
    }
    for (i = 0; i < RNIC_MAX_QP; i++) {
        if (dev->qps[i]) {
            g_string_append_printf(out, "QP %u\n", i);
        }
    }
}

/* Each variation is refused with its status and changes nothing */
static void refuse_all(struct objects *o, const struct rnic_asqe *good,
                       const struct bad *bad, size_t count)
{
    struct th_guest *guest = o->guest;
    size_t i;

    for (i = 0; i < count; i++) {
        g_autoptr(GString) before = g_string_new(NULL);
        g_autoptr(GString) after = g_string_new(NULL);
        uint64_t errors = th_stat(guest, RNIC_STAT_admin_errors);
        struct rnic_asqe cmd = *good;
        unsigned status;

        set_field(&cmd, &bad[i]);
        snapshot(guest, before);
        status = th_admin(guest, &cmd, NULL);
        snapshot(guest, after);
        if (status != bad[i].status) {
            g_error("opcode %u, %s: %s, not %s", good->opcode, bad[i].what,
                    rnic_admin_status_name(status),
                    rnic_admin_status_name(bad[i].status));
        }
        g_assert_cmpstr(after->str, ==, before->str);
        g_assert_cmpuint(th_stat(guest, RNIC_STAT_admin_errors), ==,
                         errors + 1);
    }
}

static void refuse_ids(struct objects *o, enum rnic_admin_opcode opcode,
                       const uint32_t *ids, size_t count)
{
    size_t i;

    for (i = 0; i < count; i++) {
        struct bad bad = { "id", offsetof(struct rnic_asqe, id.id), 4, ids[i],
                           RNIC_ADMIN_BAD_ID };
        struct rnic_asqe cmd = { .opcode = opcode };

        refuse_all(o, &cmd, &bad, 1);
    }
}

static void accept(struct objects *o, const struct rnic_asqe *good)
{
    g_assert_cmpuint(th_admin(o->guest, good, NULL), ==, RNIC_ADMIN_OK);
}

/* ---- Commands ---- */

static void test_unknown_opcodes_are_refused(void)
{
    struct objects o;
    unsigned opcode;

    make_objects(&o);
    for (opcode = RNIC_CMD_QUERY_CQ + 1; opcode < 256; opcode++) {
        struct rnic_asqe cmd = { .opcode = opcode };

        g_assert_cmpuint(th_admin(o.guest, &cmd, NULL), ==,
                         RNIC_ADMIN_BAD_OPCODE);
    }
    th_guest_free(o.guest);
}

static void test_nop(void)
{
    static const struct bad bad[] = { BAD_HEADER };
    struct rnic_asqe good = { .opcode = RNIC_CMD_NOP };
    struct objects o;

    make_objects(&o);
    refuse_all(&o, &good, bad, G_N_ELEMENTS(bad));
    accept(&o, &good);
    th_guest_free(o.guest);
}

static void test_contexts(void)
{
    static const struct bad bad[] = {
        BAD_HEADER,
        BAD(uctx.uctx, 1024, BAD_PARAM),
        BAD(uctx.uctx, 0xffffffff, BAD_PARAM),
        BAD(uctx.uctx, 0, IN_USE),
        BAD(uctx.rsvd, 1, BAD_PARAM),
        BAD(uctx.dbmap, TH_BASE + 64, BAD_ADDRESS),
        BAD(uctx.dbmap, 0, BAD_ADDRESS),
        BAD(uctx.dbmap, TH_BASE - TH_PAGE, BAD_ADDRESS),
        BAD(uctx.dbmap, 0xfffffffffffff000, BAD_ADDRESS),
    };
    static const struct bad bad_destroy[] = {
        BAD(uctx.uctx, 1024, BAD_ID),        BAD(uctx.uctx, 3, BAD_ID),
        BAD(uctx.uctx, 0, IN_USE),           BAD(uctx.rsvd, 1, BAD_PARAM),
        BAD(uctx.dbmap, TH_BASE, BAD_PARAM),
    };
    struct rnic_asqe good = { .opcode = RNIC_CMD_CREATE_UCTX };
    struct rnic_asqe destroy = { .opcode = RNIC_CMD_DESTROY_UCTX };
    struct objects o;

    make_objects(&o);
    good.uctx.uctx = destroy.uctx.uctx = GUINT32_TO_LE(1023);
    good.uctx.dbmap = GUINT64_TO_LE(o.ring);
    refuse_all(&o, &good, bad, G_N_ELEMENTS(bad));
    th_make_hole(o.guest, o.ring + 2072, 8);
    g_assert_cmpuint(th_admin(o.guest, &good, NULL), ==,
                     RNIC_ADMIN_BAD_ADDRESS);
    th_fill_holes(o.guest);
    accept(&o, &good);
    refuse_all(&o, &destroy, bad_destroy, G_N_ELEMENTS(bad_destroy));
    accept(&o, &destroy);
    th_guest_free(o.guest);
}

/* What every command with a ring refuses, of its buffer; the good one has
 * entries of 1024 octets, the doorbell record behind them and levels 0 */
#define BAD_RING(cmd)                                                          \
    BAD(cmd.dbrec_offset, 1000, BAD_PARAM),                                    \
        BAD(cmd.dbrec_offset, 960, BAD_PARAM),                                 \
        BAD(cmd.dbrec_offset, 0, BAD_PARAM),                                   \
        BAD(cmd.dbrec_offset, 1024 + 64, BAD_PARAM),                           \
        BAD(cmd.dbrec_offset, 0xffffffc0, BAD_PARAM),                          \
        BAD(cmd.buf.length, 0, BAD_PARAM), BAD(cmd.buf.length, 63, BAD_PARAM), \
        BAD(cmd.buf.length, 1024 + 63, BAD_PARAM),                             \
        BAD(cmd.buf.length, (1 << 28) + 1, BAD_PARAM),                         \
        BAD(cmd.buf.length, UINT64_MAX, BAD_PARAM),                            \
        BAD(cmd.buf.levels, 4, BAD_PARAM),                                     \
        BAD(cmd.buf.levels, 255, BAD_PARAM),                                   \
        BAD(cmd.buf.levels, 1, BAD_PARAM), /* page_shift 0 */                  \
        BAD(cmd.buf.page_shift, 12, BAD_PARAM),                                \
        BAD(cmd.buf.first_offset, 64, BAD_PARAM),                              \
        BAD(cmd.buf.rsvd, 1, BAD_PARAM), BAD(cmd.buf.rsvd[1], 1, BAD_PARAM),   \
        BAD(cmd.buf.addr, TH_BASE + 32, BAD_ADDRESS),                          \
        BAD(cmd.buf.addr, UINT64_MAX - 63, BAD_ADDRESS)

/* The same for a page list of one level */
#define BAD_LIST(cmd)                                                          \
    BAD(cmd.buf.page_shift, 11, BAD_PARAM),                                    \
        BAD(cmd.buf.page_shift, 31, BAD_PARAM),                                \
        BAD(cmd.buf.page_shift, 255, BAD_PARAM),                               \
        BAD(cmd.buf.page_shift, 30, BAD_ADDRESS), /* pages not aligned */      \
        BAD(cmd.buf.first_offset, 4096, BAD_PARAM),                            \
        BAD(cmd.buf.first_offset, 0xffffffc0, BAD_PARAM),                      \
        BAD(cmd.buf.length, 512 * 4096 + 1, BAD_PARAM),                        \
        BAD(cmd.buf.addr, TH_BASE + 64, BAD_ADDRESS),                          \
        BAD(cmd.buf.addr, TH_BASE - TH_PAGE, BAD_ADDRESS),                     \
        BAD(cmd.buf.addr, 0, BAD_ADDRESS),                                     \
        BAD(cmd.buf.addr, 0xfffffffffffff000, BAD_ADDRESS),                    \
        BAD(cmd.buf.levels, 2, BAD_ADDRESS) /* pages are no tables */

static void contiguous(struct objects *o, struct rnic_buf_desc *desc)
{
    *desc = (struct rnic_buf_desc){
        .addr = GUINT64_TO_LE(o->ring),
        .length = GUINT64_TO_LE(1024 + 64),
    };
}

static void page_list(struct objects *o, struct rnic_buf_desc *desc)
{
    struct rnic_asqe zero = { 0 };
    uint64_t *pages = th_ptr(o->guest, o->ring);

    /* As tables the pages would name what is not aligned */
    memset(pages, 0x11, 4 * TH_PAGE);
    *desc = zero.create_eq.buf;
    desc->addr = GUINT64_TO_LE(o->table);
    desc->length = GUINT64_TO_LE(4 * TH_PAGE);
    desc->levels = 1;
    desc->page_shift = 12;
}

/* An entry of the table that is not aligned, a table that is not RAM */
static void refuse_tables(struct objects *o, struct rnic_asqe *good,
                          struct rnic_buf_desc *desc)
{
    desc->addr = GUINT64_TO_LE(o->odd_table);
    g_assert_cmpuint(th_admin(o->guest, good, NULL), ==,
                     RNIC_ADMIN_BAD_ADDRESS);
    desc->addr = GUINT64_TO_LE(o->table);
    th_make_hole(o->guest, o->table + 24, 8);
    g_assert_cmpuint(th_admin(o->guest, good, NULL), ==,
                     RNIC_ADMIN_BAD_ADDRESS);
    th_fill_holes(o->guest);
}

static void test_event_queues(void)
{
    static const struct bad bad[] = {
        BAD_HEADER,
        BAD(create_eq.eqn, 65, BAD_PARAM),
        BAD(create_eq.eqn, 0xffffffff, BAD_PARAM),
        BAD(create_eq.eqn, 0, IN_USE),
        BAD(create_eq.eqn, 1, IN_USE),
        BAD(create_eq.vector, 4, BAD_PARAM),
        BAD(create_eq.vector, 0xffffffff, BAD_PARAM),
        BAD(create_eq.depth, 0, BAD_PARAM),
        BAD(create_eq.depth, 48, BAD_PARAM),
        BAD(create_eq.depth, 128, BAD_PARAM),
        BAD(create_eq.depth, 131072, BAD_PARAM),
        BAD(create_eq.depth, 0x80000000, BAD_PARAM),
        BAD_RING(create_eq),
    };
    static const struct bad bad_list[] = { BAD_LIST(create_eq) };
    static const uint32_t ids[] = { 64, 65, 0xffffffff };
    struct rnic_asqe good = { .opcode = RNIC_CMD_CREATE_EQ };
    struct objects o;

    make_objects(&o);
    good.create_eq.eqn = GUINT32_TO_LE(64);
    good.create_eq.vector = GUINT32_TO_LE(3);
    good.create_eq.depth = GUINT32_TO_LE(64);
    good.create_eq.dbrec_offset = GUINT32_TO_LE(1024);
    contiguous(&o, &good.create_eq.buf);
    refuse_all(&o, &good, bad, G_N_ELEMENTS(bad));
    refuse_ids(&o, RNIC_CMD_DESTROY_EQ, ids, G_N_ELEMENTS(ids));
    accept(&o, &good);
    g_assert_cmpuint(th_admin_id(o.guest, RNIC_CMD_DESTROY_EQ, 64), ==,
                     RNIC_ADMIN_OK);
    /* Its CQs use it */
    g_assert_cmpuint(th_admin_id(o.guest, RNIC_CMD_DESTROY_EQ, 1), ==,
                     RNIC_ADMIN_IN_USE);
    page_list(&o, &good.create_eq.buf);
    refuse_all(&o, &good, bad_list, G_N_ELEMENTS(bad_list));
    refuse_tables(&o, &good, &good.create_eq.buf);
    accept(&o, &good);
    th_guest_free(o.guest);
}

static void test_completion_queues(void)
{
    static const struct bad bad[] = {
        BAD_HEADER,
        BAD(create_cq.cqn, 0, BAD_PARAM),
        BAD(create_cq.cqn, 32768, BAD_PARAM),
        BAD(create_cq.cqn, 0xffffffff, BAD_PARAM),
        BAD(create_cq.cqn, 1, IN_USE),
        BAD(create_cq.eqn, 0, BAD_PARAM),
        BAD(create_cq.eqn, 2, BAD_ID),
        BAD(create_cq.eqn, 65, BAD_ID),
        BAD(create_cq.eqn, 0xffffffff, BAD_ID),
        BAD(create_cq.uctx, 2, BAD_ID),
        BAD(create_cq.uctx, 1024, BAD_ID),
        BAD(create_cq.uctx, 0xffffffff, BAD_ID),
        BAD(create_cq.depth, 0, BAD_PARAM),
        BAD(create_cq.depth, 33, BAD_PARAM),
        BAD(create_cq.depth, 64, BAD_PARAM),
        BAD(create_cq.depth, 8388608, BAD_PARAM),
        BAD(create_cq.rsvd, 1, BAD_PARAM),
        BAD_RING(create_cq),
    };
    static const struct bad bad_list[] = { BAD_LIST(create_cq) };
    static const struct bad bad_modify[] = {
        BAD_HEADER,
        BAD(modify_cq.cqn, 0, BAD_ID),
        BAD(modify_cq.cqn, 3, BAD_ID),
        BAD(modify_cq.cqn, 0xffffffff, BAD_ID),
    };
    static const uint32_t ids[] = { 0, 3, 32768, 0xffffffff };
    struct rnic_asqe good = { .opcode = RNIC_CMD_CREATE_CQ };
    struct rnic_asqe modify = { .opcode = RNIC_CMD_MODIFY_CQ };
    struct objects o;

    make_objects(&o);
    good.create_cq.cqn = GUINT32_TO_LE(32767);
    good.create_cq.eqn = GUINT32_TO_LE(1);
    good.create_cq.depth = GUINT32_TO_LE(32);
    good.create_cq.dbrec_offset = GUINT32_TO_LE(1024);
    contiguous(&o, &good.create_cq.buf);
    refuse_all(&o, &good, bad, G_N_ELEMENTS(bad));
    refuse_ids(&o, RNIC_CMD_DESTROY_CQ, ids, G_N_ELEMENTS(ids));
    refuse_ids(&o, RNIC_CMD_QUERY_CQ, ids, G_N_ELEMENTS(ids));
    modify.modify_cq.cqn = GUINT32_TO_LE(1);
    modify.modify_cq.count = GUINT16_TO_LE(5);
    refuse_all(&o, &modify, bad_modify, G_N_ELEMENTS(bad_modify));
    accept(&o, &modify);
    accept(&o, &good);
    g_assert_cmpuint(th_admin_id(o.guest, RNIC_CMD_DESTROY_CQ, 32767), ==,
                     RNIC_ADMIN_OK);
    g_assert_cmpuint(th_admin_id(o.guest, RNIC_CMD_DESTROY_CQ, 1), ==,
                     RNIC_ADMIN_IN_USE);
    page_list(&o, &good.create_cq.buf);
    refuse_all(&o, &good, bad_list, G_N_ELEMENTS(bad_list));
    refuse_tables(&o, &good, &good.create_cq.buf);
    accept(&o, &good);
    th_guest_free(o.guest);
}

static void test_shared_receive_queues(void)
{
    static const struct bad bad[] = {
        BAD_HEADER,
        BAD(create_srq.srqn, 0, BAD_PARAM),
        BAD(create_srq.srqn, 4096, BAD_PARAM),
        BAD(create_srq.srqn, 1, IN_USE),
        BAD(create_srq.pdn, 0, BAD_PARAM),
        BAD(create_srq.pdn, 16384, BAD_PARAM),
        BAD(create_srq.uctx, 2, BAD_ID),
        BAD(create_srq.uctx, 0xffffffff, BAD_ID),
        BAD(create_srq.depth, 0, BAD_PARAM),
        BAD(create_srq.depth, 3, BAD_PARAM),
        BAD(create_srq.depth, 16, BAD_PARAM),
        BAD(create_srq.depth, 65536, BAD_PARAM),
        BAD(create_srq.stride, 0, BAD_PARAM),
        BAD(create_srq.stride, 32, BAD_PARAM),
        BAD(create_srq.stride, 96, BAD_PARAM),
        BAD(create_srq.stride, 1024, BAD_PARAM),
        BAD(create_srq.stride, 0x80000000, BAD_PARAM),
        BAD(create_srq.limit, 9, BAD_PARAM),
        BAD(create_srq.rsvd, 1, BAD_PARAM),
        BAD_RING(create_srq),
    };
    static const struct bad bad_modify[] = {
        BAD_HEADER,
        BAD(modify_srq.srqn, 0, BAD_ID),
        BAD(modify_srq.srqn, 2, BAD_ID),
        BAD(modify_srq.limit, 9, BAD_PARAM),
        BAD(modify_srq.limit, 0xffffffff, BAD_PARAM),
    };
    static const uint32_t ids[] = { 0, 2, 4096, 0xffffffff };
    struct rnic_asqe good = { .opcode = RNIC_CMD_CREATE_SRQ };
    struct rnic_asqe modify = { .opcode = RNIC_CMD_MODIFY_SRQ };
    struct rnic_asqe query = { .opcode = RNIC_CMD_QUERY_SRQ };
    struct rnic_acqe resp;
    struct objects o;

    make_objects(&o);
    good.create_srq.srqn = GUINT32_TO_LE(4095);
    good.create_srq.pdn = GUINT32_TO_LE(16383);
    good.create_srq.depth = GUINT32_TO_LE(8);
    good.create_srq.stride = GUINT32_TO_LE(128);
    good.create_srq.limit = GUINT32_TO_LE(8);
    good.create_srq.dbrec_offset = GUINT32_TO_LE(1024);
    contiguous(&o, &good.create_srq.buf);
    refuse_all(&o, &good, bad, G_N_ELEMENTS(bad));
    refuse_ids(&o, RNIC_CMD_DESTROY_SRQ, ids, G_N_ELEMENTS(ids));
    refuse_ids(&o, RNIC_CMD_QUERY_SRQ, ids, G_N_ELEMENTS(ids));
    modify.modify_srq.srqn = GUINT32_TO_LE(1);
    modify.modify_srq.limit = GUINT32_TO_LE(8);
    refuse_all(&o, &modify, bad_modify, G_N_ELEMENTS(bad_modify));
    accept(&o, &modify);
    query.id.id = GUINT32_TO_LE(1);
    g_assert_cmpuint(th_admin(o.guest, &query, &resp), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(GUINT32_FROM_LE(resp.query_srq.limit), ==, 8);
    g_assert_cmpuint(GUINT32_FROM_LE(resp.query_srq.posted), ==, 0);
    accept(&o, &good);
    g_assert_cmpuint(th_admin_id(o.guest, RNIC_CMD_DESTROY_SRQ, 4095), ==,
                     RNIC_ADMIN_OK);
    /* QP 1 uses it */
    g_assert_cmpuint(th_admin_id(o.guest, RNIC_CMD_DESTROY_SRQ, 1), ==,
                     RNIC_ADMIN_IN_USE);
    th_guest_free(o.guest);
}

static void test_queue_pairs(void)
{
    static const struct bad bad[] = {
        BAD_HEADER,
        BAD(create_qp.qpn, 0, BAD_PARAM),
        BAD(create_qp.qpn, 16384, BAD_PARAM),
        BAD(create_qp.qpn, 0xffffffff, BAD_PARAM),
        BAD(create_qp.qpn, 1, IN_USE),
        BAD(create_qp.pdn, 0, BAD_PARAM),
        BAD(create_qp.pdn, 16384, BAD_PARAM),
        BAD(create_qp.uctx, 2, BAD_ID),
        BAD(create_qp.uctx, 0xffffffff, BAD_ID),
        BAD(create_qp.uctx, 1, BAD_ID), /* CQs are of context 0 */
        BAD(create_qp.send_cqn, 0, BAD_ID),
        BAD(create_qp.send_cqn, 9, BAD_ID),
        BAD(create_qp.send_cqn, 2, BAD_ID), /* of context 1 */
        BAD(create_qp.recv_cqn, 0xffffffff, BAD_ID),
        BAD(create_qp.recv_cqn, 2, BAD_ID),
        BAD(create_qp.srqn, 2, BAD_ID),
        BAD(create_qp.srqn, 0xffffffff, BAD_ID),
        BAD(create_qp.srqn, 1, BAD_PARAM), /* and an RQ */
        BAD(create_qp.flags, 8, BAD_PARAM),
        BAD(create_qp.flags, 0x80000000, BAD_PARAM),
        BAD(create_qp.sq_stride, 0, BAD_PARAM),
        BAD(create_qp.sq_stride, 32, BAD_PARAM),
        BAD(create_qp.sq_stride, 1024, BAD_PARAM),
        BAD(create_qp.rq_stride, 100, BAD_PARAM),
        BAD(create_qp.sq_depth, 3, BAD_PARAM),
        BAD(create_qp.sq_depth, 65536, BAD_PARAM),
        BAD(create_qp.rq_depth, 5, BAD_PARAM),
        BAD(create_qp.rq_depth, 0x80000000, BAD_PARAM),
        BAD(create_qp.sq_depth, 16, BAD_PARAM), /* into the RQ */
        BAD(create_qp.rq_depth, 16, BAD_PARAM), /* into the doorbell record */
        BAD(create_qp.sq_offset, 512, BAD_PARAM),
        BAD(create_qp.sq_offset, 0xffffffc0, BAD_PARAM),
        BAD(create_qp.rq_offset, 448, BAD_PARAM),
        BAD(create_qp.rq_offset, 0xffffffc0, BAD_PARAM),
        BAD(create_qp.dbrec_offset, 0, BAD_PARAM),
        BAD(create_qp.dbrec_offset, 960, BAD_PARAM),
        BAD(create_qp.dbrec_offset, 1088, BAD_PARAM),
        BAD(create_qp.dbrec_offset, 0xffffffc0, BAD_PARAM),
        BAD(create_qp.rsvd, 1, BAD_PARAM),
        BAD(create_qp.buf.length, 0, BAD_PARAM),
        BAD(create_qp.buf.length, 1024, BAD_PARAM),
        BAD(create_qp.buf.length, (1 << 28) + 1, BAD_PARAM),
        BAD(create_qp.buf.levels, 4, BAD_PARAM),
        BAD(create_qp.buf.addr, UINT64_MAX - 63, BAD_ADDRESS),
        BAD(create_qp.buf.addr, TH_BASE + 32, BAD_ADDRESS),
        BAD(create_qp.status_addr, 0, BAD_ADDRESS),
        BAD(create_qp.status_addr, TH_BASE - 16, BAD_ADDRESS),
    };
    static const struct bad bad_modify[] = {
        BAD_HEADER,
        BAD(modify_qp.qpn, 0, BAD_ID),
        BAD(modify_qp.qpn, 2, BAD_ID),
        BAD(modify_qp.qpn, 0xffffffff, BAD_ID),
        BAD(modify_qp.state, RNIC_QPS_RESET, BAD_PARAM),
        BAD(modify_qp.state, RNIC_QPS_IDLE, BAD_PARAM),
        BAD(modify_qp.state, RNIC_QPS_RTS, BAD_PARAM),
        BAD(modify_qp.state, 6, BAD_PARAM),
        BAD(modify_qp.state, RNIC_QPS_CLOSING, BAD_STATE),
        BAD(modify_qp.state, RNIC_QPS_TERMINATE, BAD_STATE),
    };
    static const uint32_t ids[] = { 0, 2, 16384, 0xffffffff };
    struct rnic_asqe good = { .opcode = RNIC_CMD_CREATE_QP };
    struct rnic_asqe modify = { .opcode = RNIC_CMD_MODIFY_QP };
    struct objects o;

    make_objects(&o);
    good.create_qp.qpn = GUINT32_TO_LE(16383);
    good.create_qp.pdn = GUINT32_TO_LE(TH_PD);
    good.create_qp.send_cqn = GUINT32_TO_LE(1);
    good.create_qp.recv_cqn = GUINT32_TO_LE(1);
    good.create_qp.sq_stride = GUINT16_TO_LE(64);
    good.create_qp.rq_stride = GUINT16_TO_LE(64);
    good.create_qp.sq_depth = GUINT32_TO_LE(8);
    good.create_qp.rq_depth = GUINT32_TO_LE(8);
    good.create_qp.rq_offset = GUINT32_TO_LE(512);
    good.create_qp.dbrec_offset = GUINT32_TO_LE(1024);
    contiguous(&o, &good.create_qp.buf);
    good.create_qp.status_addr = GUINT64_TO_LE(o.ring + 2 * TH_PAGE);
    refuse_all(&o, &good, bad, G_N_ELEMENTS(bad));
    refuse_ids(&o, RNIC_CMD_DESTROY_QP, ids, G_N_ELEMENTS(ids));
    refuse_ids(&o, RNIC_CMD_QUERY_QP, ids, G_N_ELEMENTS(ids));
    modify.modify_qp.qpn = GUINT32_TO_LE(1);
    modify.modify_qp.state = GUINT32_TO_LE(RNIC_QPS_ERROR);
    refuse_all(&o, &modify, bad_modify, G_N_ELEMENTS(bad_modify));
    accept(&o, &modify);
    accept(&o, &good);
    g_assert_cmpuint(th_admin_id(o.guest, RNIC_CMD_DESTROY_QP, 16383), ==,
                     RNIC_ADMIN_OK);
    /* Context 0 alone may have kernel QPs */
    good.create_qp.flags = GUINT32_TO_LE(RNIC_QP_KERNEL);
    accept(&o, &good);
    g_assert_cmpuint(th_admin_id(o.guest, RNIC_CMD_DESTROY_QP, 16383), ==,
                     RNIC_ADMIN_OK);
    good.create_qp.uctx = GUINT32_TO_LE(1);
    good.create_qp.send_cqn = good.create_qp.recv_cqn = GUINT32_TO_LE(2);
    g_assert_cmpuint(th_admin(o.guest, &good, NULL), ==, RNIC_ADMIN_BAD_PARAM);
    good.create_qp.flags = 0;
    accept(&o, &good);
    th_guest_free(o.guest);
}

static void test_memory_regions(void)
{
    static const struct bad bad[] = {
        BAD_HEADER,
        BAD(reg_mr.pdn, 0, BAD_PARAM),
        BAD(reg_mr.pdn, 16384, BAD_PARAM),
        BAD(reg_mr.access, 8, BAD_PARAM),
        BAD(reg_mr.access, 0x80000000, BAD_PARAM),
        BAD(reg_mr.flags, 2, BAD_PARAM),
        BAD(reg_mr.flags, 1, BAD_PARAM), /* ALL_DMA with a buffer */
        BAD(reg_mr.rsvd, 1, BAD_PARAM),
        BAD(reg_mr.rsvd[2], 1, BAD_PARAM),
        BAD(reg_mr.iova, UINT64_MAX - 4 * 4096 + 1, BAD_PARAM),
        BAD(reg_mr.iova, UINT64_MAX, BAD_PARAM),
        BAD(reg_mr.buf.length, 0, BAD_PARAM),
        BAD(reg_mr.buf.length, (1ull << 40) + 1, BAD_PARAM),
        BAD(reg_mr.buf.length, UINT64_MAX, BAD_PARAM),
        BAD(reg_mr.buf.rsvd[1], 1, BAD_PARAM),
        BAD_LIST(reg_mr),
    };
    static const struct bad bad_alloc[] = {
        BAD_HEADER,
        BAD(alloc_mr.pdn, 0, BAD_PARAM),
        BAD(alloc_mr.pdn, 16384, BAD_PARAM),
        BAD(alloc_mr.max_pages, 0, BAD_PARAM),
        BAD(alloc_mr.max_pages, 1025, BAD_PARAM),
        BAD(alloc_mr.rsvd, 1, BAD_PARAM),
    };
    static const struct bad bad_all[] = {
        BAD(reg_mr.iova, 1, BAD_PARAM),
        BAD(reg_mr.buf.addr, TH_BASE, BAD_PARAM),
        BAD(reg_mr.buf.length, 4096, BAD_PARAM),
    };
    static const uint32_t stags[] = { 0, 0x100, 0xffffffff };
    struct rnic_asqe good = { .opcode = RNIC_CMD_REG_MR };
    struct rnic_asqe alloc = { .opcode = RNIC_CMD_ALLOC_MR };
    struct objects o;

    make_objects(&o);
    good.reg_mr.pdn = alloc.alloc_mr.pdn = GUINT32_TO_LE(TH_PD);
    good.reg_mr.iova = GUINT64_TO_LE(UINT64_MAX - 4 * 4096);
    alloc.alloc_mr.max_pages = GUINT32_TO_LE(1024);
    page_list(&o, &good.reg_mr.buf);
    refuse_all(&o, &good, bad, G_N_ELEMENTS(bad));
    refuse_tables(&o, &good, &good.reg_mr.buf);
    refuse_all(&o, &alloc, bad_alloc, G_N_ELEMENTS(bad_alloc));
    refuse_ids(&o, RNIC_CMD_DEREG_MR, stags, G_N_ELEMENTS(stags));
    accept(&o, &good);
    accept(&o, &alloc);
    memset(&good.reg_mr, 0, sizeof(good.reg_mr));
    good.reg_mr.pdn = GUINT32_TO_LE(TH_PD);
    good.reg_mr.flags = GUINT32_TO_LE(RNIC_MR_ALL_DMA);
    refuse_all(&o, &good, bad_all, G_N_ELEMENTS(bad_all));
    accept(&o, &good);
    th_guest_free(o.guest);
}

static void test_addresses_and_link(void)
{
    static const struct bad bad[] = {
        BAD_HEADER,
        BAD(addr.addr.family, 0, BAD_PARAM),
        BAD(addr.addr.family, 10, BAD_PARAM),
        BAD(addr.addr.port, 1, BAD_PARAM),
        BAD(addr.prefix_len, 33, BAD_PARAM),
        BAD(addr.rsvd[0], 1, BAD_PARAM),
        BAD(addr.rsvd[6], 1, BAD_PARAM),
    };
    static const struct bad bad_del[] = {
        BAD(addr.addr.family, 0, BAD_PARAM),
        BAD(addr.rsvd[6], 1, BAD_PARAM),
    };
    static const struct bad bad_link[] = {
        BAD_HEADER,
        BAD(set_link.up, 2, BAD_PARAM),
        BAD(set_link.up, 0xffffffff, BAD_PARAM),
    };
    struct rnic_asqe good = { .opcode = RNIC_CMD_ADDR_ADD };
    struct rnic_asqe link = { .opcode = RNIC_CMD_SET_LINK };
    struct objects o;

    make_objects(&o);
    good.addr.addr = th_sockaddr("10.0.0.9", 0);
    good.addr.prefix_len = 24;
    refuse_all(&o, &good, bad, G_N_ELEMENTS(bad));
    accept(&o, &good);
    g_assert_cmpuint(th_addr_add(o.guest, "10.0.0.9"), ==, RNIC_ADMIN_IN_USE);
    g_assert_cmpuint(th_addr_add(o.guest, "10.1.0.9"), ==, RNIC_ADMIN_IN_USE);
    g_assert_cmpuint(th_addr_add(o.guest, "224.0.0.1"), ==,
                     RNIC_ADMIN_BAD_PARAM);
    g_assert_cmpuint(th_addr_del(o.guest, "10.0.0.8"), ==,
                     RNIC_ADMIN_ADDR_NOT_AVAIL);
    good.opcode = RNIC_CMD_ADDR_DEL;
    refuse_all(&o, &good, bad_del, G_N_ELEMENTS(bad_del));
    accept(&o, &good);
    refuse_all(&o, &link, bad_link, G_N_ELEMENTS(bad_link));
    accept(&o, &link);
    link.set_link.up = GUINT32_TO_LE(1);
    accept(&o, &link);
    th_guest_free(o.guest);
}

static void test_listeners(void)
{
    static const struct bad bad[] = {
        BAD_HEADER,
        BAD(listen.id, 1024, BAD_PARAM),
        BAD(listen.id, 0, IN_USE),
        BAD(listen.backlog, 1025, BAD_PARAM),
        BAD(listen.flags, 2, BAD_PARAM),
        BAD(listen.rsvd, 1, BAD_PARAM),
        BAD(listen.local.family, 5, BAD_PARAM),
        BAD(listen.local.addr[3], 77, ADDR_NOT_AVAIL),
    };
    static const uint32_t ids[] = { 1, 1024, 0xffffffff };
    struct rnic_asqe good = { .opcode = RNIC_CMD_LISTEN };
    struct objects o;

    make_objects(&o);
    good.listen.id = GUINT32_TO_LE(1023);
    good.listen.backlog = GUINT32_TO_LE(1024);
    good.listen.local = th_sockaddr("10.0.0.1", 0);
    refuse_all(&o, &good, bad, G_N_ELEMENTS(bad));
    refuse_ids(&o, RNIC_CMD_UNLISTEN, ids, G_N_ELEMENTS(ids));
    accept(&o, &good);
    g_assert_cmpuint(th_admin_id(o.guest, RNIC_CMD_UNLISTEN, 1023), ==,
                     RNIC_ADMIN_OK);
    th_guest_free(o.guest);
}

static void test_connecting_and_answering(void)
{
    static const struct bad bad[] = {
        BAD_HEADER,
        BAD(connect.qpn, 0, BAD_ID),
        BAD(connect.qpn, 2, BAD_ID),
        BAD(connect.ird, 129, BAD_PARAM),
        BAD(connect.ord, 129, BAD_PARAM),
        BAD(connect.local.family, 0, BAD_PARAM),
        BAD(connect.local.family, RNIC_AF_INET6, BAD_PARAM),
        BAD(connect.remote.family, 77, BAD_PARAM),
        BAD(connect.remote.port, 0, BAD_PARAM),
        BAD(connect.remote.addr[0], 224, BAD_PARAM),
        BAD(connect.local.addr[3], 99, ADDR_NOT_AVAIL),
        BAD(connect.pdata_len, 509, BAD_PARAM),
        BAD(connect.rsvd[0], 1, BAD_PARAM),
        BAD(connect.rsvd[2], 1, BAD_PARAM),
        BAD(connect.pdata, TH_BASE - 8, BAD_ADDRESS),
    };
    static const struct bad bad_accept[] = {
        BAD_HEADER,
        BAD(accept.conn_id, 0, BAD_ID),
        BAD(accept.conn_id, 1, BAD_ID),
        BAD(accept.conn_id, 0xffffffff, BAD_ID),
        BAD(accept.rsvd, 1, BAD_PARAM),
    };
    static const struct bad bad_reject[] = {
        BAD(accept.conn_id, 1, BAD_ID), BAD(accept.qpn, 1, BAD_PARAM),
        BAD(accept.ird, 1, BAD_PARAM),  BAD(accept.ord, 1, BAD_PARAM),
        BAD(accept.rsvd, 1, BAD_PARAM),
    };
    struct rnic_asqe good = { .opcode = RNIC_CMD_CONNECT };
    struct rnic_asqe answer = { .opcode = RNIC_CMD_ACCEPT };
    struct objects o;

    make_objects(&o);
    good.connect.qpn = GUINT32_TO_LE(1);
    good.connect.ird = good.connect.ord = GUINT16_TO_LE(128);
    good.connect.local = th_sockaddr("10.0.0.1", 0);
    good.connect.remote = th_sockaddr("10.0.0.2", 4420);
    good.connect.pdata = GUINT64_TO_LE(o.ring);
    good.connect.pdata_len = GUINT16_TO_LE(508);
    refuse_all(&o, &good, bad, G_N_ELEMENTS(bad));
    answer.accept.qpn = GUINT32_TO_LE(1);
    refuse_all(&o, &answer, bad_accept, G_N_ELEMENTS(bad_accept));
    answer.opcode = RNIC_CMD_REJECT;
    answer.accept.qpn = 0;
    refuse_all(&o, &answer, bad_reject, G_N_ELEMENTS(bad_reject));
    accept(&o, &good);
    /* Its QP is taken now */
    g_assert_cmpuint(th_admin(o.guest, &good, NULL), ==, RNIC_ADMIN_BAD_STATE);
    th_guest_free(o.guest);
}

static void test_statistics(void)
{
    static const struct bad bad[] = {
        BAD_HEADER,
        BAD(query_stats.qpn, 2, BAD_ID),
        BAD(query_stats.qpn, 0xffffffff, BAD_ID),
        BAD(query_stats.addr, TH_BASE + 4, BAD_ADDRESS),
        BAD(query_stats.addr, TH_BASE - 8, BAD_ADDRESS),
        BAD(query_stats.addr, UINT64_MAX - 7, BAD_ADDRESS),
    };
    struct rnic_asqe good = { .opcode = RNIC_CMD_QUERY_STATS };
    struct rnic_acqe resp;
    struct objects o;
    uint64_t *values;
    uint64_t commands;

    make_objects(&o);
    values = th_ptr(o.guest, o.ring);
    good.query_stats.addr = GUINT64_TO_LE(o.ring);
    good.query_stats.count = GUINT32_TO_LE(0xffffffff);
    refuse_all(&o, &good, bad, G_N_ELEMENTS(bad));
    memset(values, 0xee, TH_PAGE);
    commands = th_stat(o.guest, RNIC_STAT_admin_commands);
    g_assert_cmpuint(th_admin(o.guest, &good, &resp), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(GUINT32_FROM_LE(resp.query_stats.count), ==,
                     RNIC_STAT_COUNT);
    g_assert_cmpuint(GUINT64_FROM_LE(values[RNIC_STAT_admin_commands]), ==,
                     commands);
    g_assert_cmphex(values[RNIC_STAT_COUNT], ==, 0xeeeeeeeeeeeeeeee);
    /* Of a QP; as many as fit */
    memset(values, 0xee, TH_PAGE);
    good.query_stats.qpn = GUINT32_TO_LE(1);
    g_assert_cmpuint(th_admin(o.guest, &good, &resp), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(GUINT32_FROM_LE(resp.query_stats.count), ==,
                     RNIC_STAT_QP_LAST + 1);
    g_assert_cmpuint(values[RNIC_STAT_tx_fpdus], ==, 0);
    good.query_stats.count = GUINT32_TO_LE(3);
    memset(values, 0xee, TH_PAGE);
    g_assert_cmpuint(th_admin(o.guest, &good, &resp), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(GUINT32_FROM_LE(resp.query_stats.count), ==, 3);
    g_assert_cmphex(values[3], ==, 0xeeeeeeeeeeeeeeee);
    th_guest_free(o.guest);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add_func("/commands/" #name, test_##name)
    ADD(unknown_opcodes_are_refused);
    ADD(nop);
    ADD(contexts);
    ADD(event_queues);
    ADD(completion_queues);
    ADD(shared_receive_queues);
    ADD(queue_pairs);
    ADD(memory_regions);
    ADD(addresses_and_link);
    ADD(listeners);
    ADD(connecting_and_answering);
    ADD(statistics);
    return g_test_run();
}
