/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A driver that does anything: registers, commands that almost make sense,
 * memory that changes under the device or stops to be RAM
 *
 * Rules that are watched: the engine comes to rest; what a register reads is
 * what is specified; and what the sanitizers see.
 */
#include <string.h>
#include <unistd.h>
#include "fuzz.h"

#define MEM_SIZE    (512u << 10)
#define ADMIN_DEPTH 16
/* Fixed places in guest memory, offsets */
#define ASQ         0x0000u
#define ACQ         0x1000u
#define DBMAPS      0x2000u /* 4 contexts */
#define TABLES      0x6000u /* 4 page tables */
#define STATUS      0xa000u
#define DATA        0xb000u /* rings and buffers, anywhere */
#define MAX_STEPS   200
/* Where furnish() puts the queues of its QPs, units of 16 KiB from DATA */
#define QP_PLACE    7
#define MAX_STAGS   16
/* Largest page list that is worth the time of an input */
#define MAX_PAGES   4096

struct test {
    struct fuzz_guest *guest;
    rnic_device *dev;
    uint32_t asq_pi;
    uint32_t acq_ci;
    uint32_t stags[MAX_STAGS];
    unsigned num_stags;
    uint32_t conn_id;
    int peer;
};

static uint64_t data_addr(struct fuzz_input *in)
{
    /* 64-octet aligned, within memory or a little behind its end */
    return TH_BASE + DATA + (uint64_t)(fuzz_u16(in) % 0x2000) * 64;
}

/* ---- Registers ---- */

static void enable(struct test *t)
{
    struct th_guest *th = t->guest->th;

    th_reg_set(th, RNIC_REG_ASQ_LO, (uint32_t)(TH_BASE + ASQ));
    th_reg_set(th, RNIC_REG_ASQ_HI, (TH_BASE + ASQ) >> 32);
    th_reg_set(th, RNIC_REG_ACQ_LO, (uint32_t)(TH_BASE + ACQ));
    th_reg_set(th, RNIC_REG_ACQ_HI, (TH_BASE + ACQ) >> 32);
    th_reg_set(th, RNIC_REG_ADMIN_DEPTH, ADMIN_DEPTH);
    th_reg_set(th, RNIC_REG_CTRL, RNIC_CTRL_ENABLE);
    t->asq_pi = t->acq_ci = 0;
    t->num_stags = 0;
    memset(th_ptr(th, TH_BASE + ACQ), 0, 0x1000);
}

static void registers(struct test *t, struct fuzz_input *in)
{
    uint8_t bits = fuzz_u8(in);
    uint64_t offset = bits & 1 ? fuzz_u64(in) : fuzz_u8(in) * 4;
    unsigned size = bits & 2 ? fuzz_u8(in) : 4;

    if (bits & 4) {
        rnic_device_reg_write(t->dev, offset,
                              bits & 8 ? fuzz_u64(in) : fuzz_u8(in), size);
    } else {
        uint64_t value = rnic_device_reg_read(t->dev, offset, size);

        fuzz_check(size == 8 || value <= UINT32_MAX,
                   "%u octets read as 0x%" PRIx64, size, value);
    }
    fuzz_check(rnic_device_reg_read(t->dev, RNIC_REG_MAGIC, 4) == RNIC_MAGIC,
               "MAGIC changed");
}

static void reset(struct test *t, struct fuzz_input *in)
{
    uint8_t bits = fuzz_u8(in);

    th_reg_set(t->guest->th, RNIC_REG_CTRL, bits & 1 ? RNIC_CTRL_RESET : 0);
    if (bits & 2) {
        fuzz_run(t->guest);
        fuzz_check(t->dev->quiesced || !(th_reg(t->guest->th, RNIC_REG_STATUS) &
                                         RNIC_STATUS_RESETTING),
                   "a reset does not end");
    }
    if (bits & 4) {
        th_fill_holes(t->guest->th);
    }
    enable(t);
}

/* ---- Commands ---- */

/* A power of two, or a little more or less */
static uint64_t about_power(struct fuzz_input *in)
{
    uint8_t shift = fuzz_u8(in);

    return (1ull << shift % 64) + (int8_t)fuzz_u8(in);
}

static void read_desc(struct fuzz_input *in, struct rnic_buf_desc *desc,
                      uint64_t length)
{
    uint8_t bits = fuzz_u8(in);

    memset(desc, 0, sizeof(*desc));
    desc->length = GUINT64_TO_LE(length);
    desc->levels = bits & 3;
    if (!desc->levels) {
        desc->addr = GUINT64_TO_LE(data_addr(in));
        return;
    }
    desc->addr = GUINT64_TO_LE(TH_BASE + TABLES + (bits >> 2 & 3) * TH_PAGE);
    desc->page_shift = bits & 16 ? 12 + fuzz_u8(in) % 20 : 12;
    desc->first_offset = GUINT32_TO_LE(bits & 32 ? fuzz_u16(in) % 64 * 64 : 0);
}

/* Page lists of a length that only costs time become shorter */
static void limit_desc(struct rnic_buf_desc *desc)
{
    uint64_t length = GUINT64_FROM_LE(desc->length);
    unsigned shift = desc->page_shift;

    if (desc->levels && shift >= 12 && shift <= 30 &&
        length <= RNIC_MAX_MR_SIZE && length >> shift > MAX_PAGES) {
        desc->length = GUINT64_TO_LE((uint64_t)MAX_PAGES << shift);
    }
}

static struct rnic_sockaddr read_address(struct test *t, struct fuzz_input *in,
                                         bool port)
{
    static const char *const addresses[] = {
        "10.0.0.1", "10.0.0.2",  "fd00::1",   "fe80::1",         "0.0.0.0",
        "::",       "127.0.0.1", "224.0.0.1", "::ffff:10.0.0.1", "10.1.0.1",
    };
    uint8_t bits = fuzz_u8(in);

    return th_sockaddr(addresses[bits % G_N_ELEMENTS(addresses)],
                       !port        ? 0
                       : bits & 128 ? fuzz_u16(in)
                                    : 4420);
}

/* The command of @opcode as a driver could give it */
static void read_command(struct test *t, struct fuzz_input *in,
                         struct rnic_asqe *cmd)
{
    uint8_t id = fuzz_u8(in), bits = fuzz_u8(in);
    uint32_t depth = 1u << (bits & 7), small = id & 3, size;

    switch (cmd->opcode) {
    case RNIC_CMD_CREATE_UCTX:
        cmd->uctx.dbmap = GUINT64_TO_LE(TH_BASE + DBMAPS + small * TH_PAGE);
        /* fall through */
    case RNIC_CMD_DESTROY_UCTX:
        cmd->uctx.uctx = GUINT32_TO_LE(small);
        break;
    case RNIC_CMD_CREATE_EQ:
        size = small ? sizeof(struct rnic_ceqe) : sizeof(struct rnic_aeqe);
        size = MAX(64, depth * size);
        cmd->create_eq.eqn = GUINT32_TO_LE(small);
        cmd->create_eq.vector = GUINT32_TO_LE(bits >> 3 & 3);
        cmd->create_eq.depth = GUINT32_TO_LE(depth);
        cmd->create_eq.dbrec_offset = GUINT32_TO_LE(size);
        read_desc(in, &cmd->create_eq.buf, size + 64);
        break;
    case RNIC_CMD_CREATE_CQ:
        size = MAX(64, depth * sizeof(struct rnic_cqe));
        cmd->create_cq.cqn = GUINT32_TO_LE(small + 1);
        cmd->create_cq.eqn = GUINT32_TO_LE(1 + (bits >> 3 & 1));
        cmd->create_cq.uctx = GUINT32_TO_LE(bits >> 4 & 1);
        cmd->create_cq.depth = GUINT32_TO_LE(depth);
        cmd->create_cq.dbrec_offset = GUINT32_TO_LE(size);
        read_desc(in, &cmd->create_cq.buf, size + 64);
        break;
    case RNIC_CMD_MODIFY_CQ:
        cmd->modify_cq.cqn = GUINT32_TO_LE(small + 1);
        cmd->modify_cq.count = GUINT16_TO_LE(bits);
        cmd->modify_cq.period_us = GUINT16_TO_LE(fuzz_u16(in));
        break;
    case RNIC_CMD_DESTROY_EQ:
    case RNIC_CMD_UNLISTEN:
        cmd->id.id = GUINT32_TO_LE(small);
        break;
    case RNIC_CMD_QUERY_CQ:
    case RNIC_CMD_DESTROY_CQ:
    case RNIC_CMD_DESTROY_SRQ:
    case RNIC_CMD_QUERY_SRQ:
    case RNIC_CMD_QUERY_QP:
    case RNIC_CMD_DESTROY_QP:
        cmd->id.id = GUINT32_TO_LE(small + 1);
        break;
    case RNIC_CMD_CREATE_SRQ:
        cmd->create_srq.srqn = GUINT32_TO_LE(small + 1);
        cmd->create_srq.pdn = GUINT32_TO_LE(1 + (bits >> 3 & 1));
        cmd->create_srq.uctx = GUINT32_TO_LE(bits >> 4 & 1);
        cmd->create_srq.depth = GUINT32_TO_LE(depth);
        cmd->create_srq.stride = GUINT32_TO_LE(64u << (bits >> 5 & 3));
        cmd->create_srq.limit = GUINT32_TO_LE(id >> 2 & 1);
        size = depth * (64u << (bits >> 5 & 3));
        cmd->create_srq.dbrec_offset = GUINT32_TO_LE(size);
        read_desc(in, &cmd->create_srq.buf, size + 64);
        break;
    case RNIC_CMD_MODIFY_SRQ:
        cmd->modify_srq.srqn = GUINT32_TO_LE(small + 1);
        cmd->modify_srq.limit = GUINT32_TO_LE(bits);
        break;
    case RNIC_CMD_CREATE_QP:
        cmd->create_qp.qpn = GUINT32_TO_LE(small + 1);
        cmd->create_qp.pdn = GUINT32_TO_LE(1);
        cmd->create_qp.uctx = GUINT32_TO_LE(bits >> 4 & 1);
        cmd->create_qp.send_cqn = GUINT32_TO_LE(1 + (bits >> 5 & 1));
        cmd->create_qp.recv_cqn = GUINT32_TO_LE(1 + (bits >> 6 & 1));
        cmd->create_qp.srqn = GUINT32_TO_LE(id >> 2 & 1);
        cmd->create_qp.flags = GUINT32_TO_LE(id >> 3 & 3);
        cmd->create_qp.sq_stride = GUINT16_TO_LE(64);
        cmd->create_qp.rq_stride = GUINT16_TO_LE(128);
        cmd->create_qp.sq_depth = GUINT32_TO_LE(depth);
        cmd->create_qp.rq_depth = GUINT32_TO_LE(id >> 2 & 1 ? 0 : depth);
        cmd->create_qp.rq_offset = GUINT32_TO_LE(depth * 64);
        cmd->create_qp.dbrec_offset = GUINT32_TO_LE(depth * 192);
        read_desc(in, &cmd->create_qp.buf, depth * 192 + 64);
        cmd->create_qp.status_addr =
            GUINT64_TO_LE(TH_BASE + STATUS + small * 16);
        break;
    case RNIC_CMD_MODIFY_QP:
        cmd->modify_qp.qpn = GUINT32_TO_LE(small + 1);
        cmd->modify_qp.state = GUINT32_TO_LE(RNIC_QPS_CLOSING + bits % 3);
        break;
    case RNIC_CMD_REG_MR:
        cmd->reg_mr.pdn = GUINT32_TO_LE(1);
        cmd->reg_mr.access = GUINT32_TO_LE(bits & RNIC_ACCESS_ALL);
        cmd->reg_mr.key = id;
        if (bits & 8) {
            cmd->reg_mr.flags = GUINT32_TO_LE(RNIC_MR_ALL_DMA);
            break;
        }
        cmd->reg_mr.iova = GUINT64_TO_LE(bits & 16 ? fuzz_u64(in) : 0x1000);
        read_desc(in, &cmd->reg_mr.buf,
                  bits & 32 ? about_power(in) : fuzz_u16(in));
        break;
    case RNIC_CMD_ALLOC_MR:
        cmd->alloc_mr.pdn = GUINT32_TO_LE(1);
        cmd->alloc_mr.max_pages = GUINT32_TO_LE(1 + bits * 4);
        cmd->alloc_mr.key = id;
        break;
    case RNIC_CMD_DEREG_MR:
        cmd->dereg_mr.stag = GUINT32_TO_LE(t->stags[id % MAX_STAGS]);
        break;
    case RNIC_CMD_ADDR_ADD:
    case RNIC_CMD_ADDR_DEL:
        cmd->addr.addr = read_address(t, in, false);
        cmd->addr.prefix_len = bits & 31;
        break;
    case RNIC_CMD_SET_LINK:
        cmd->set_link.up = GUINT32_TO_LE(bits & 1);
        break;
    case RNIC_CMD_LISTEN:
        cmd->listen.id = GUINT32_TO_LE(small);
        cmd->listen.backlog = GUINT32_TO_LE(bits & 3);
        cmd->listen.flags = GUINT32_TO_LE(bits >> 2 & 1);
        cmd->listen.local = read_address(t, in, true);
        break;
    case RNIC_CMD_CONNECT:
        cmd->connect.qpn = GUINT32_TO_LE(small + 1);
        cmd->connect.ird = GUINT16_TO_LE(bits & 3);
        cmd->connect.ord = GUINT16_TO_LE(bits & 3);
        cmd->connect.local = read_address(t, in, false);
        cmd->connect.remote = read_address(t, in, true);
        cmd->connect.pdata_len = GUINT16_TO_LE(bits >> 2);
        cmd->connect.pdata = GUINT64_TO_LE(data_addr(in));
        break;
    case RNIC_CMD_ACCEPT:
        cmd->accept.qpn = GUINT32_TO_LE(small + 1);
        cmd->accept.ird = GUINT16_TO_LE(bits & 3);
        cmd->accept.ord = GUINT16_TO_LE(bits & 3);
        /* fall through */
    case RNIC_CMD_REJECT:
        cmd->accept.conn_id =
            GUINT32_TO_LE(id & 4 ? t->conn_id : 1 + (id >> 3));
        cmd->accept.pdata_len = GUINT16_TO_LE(bits >> 2);
        cmd->accept.pdata = GUINT64_TO_LE(data_addr(in));
        break;
    case RNIC_CMD_QUERY_STATS:
        cmd->query_stats.addr = GUINT64_TO_LE(data_addr(in));
        cmd->query_stats.count = GUINT32_TO_LE(bits);
        cmd->query_stats.qpn = GUINT32_TO_LE(small);
        break;
    default:
        fuzz_octets(in, cmd->raw, sizeof(cmd->raw));
        break;
    }
}

static struct rnic_buf_desc *desc_of(struct rnic_asqe *cmd)
{
    switch (cmd->opcode) {
    case RNIC_CMD_CREATE_EQ:
        return &cmd->create_eq.buf;
    case RNIC_CMD_CREATE_CQ:
        return &cmd->create_cq.buf;
    case RNIC_CMD_CREATE_SRQ:
        return &cmd->create_srq.buf;
    case RNIC_CMD_CREATE_QP:
        return &cmd->create_qp.buf;
    case RNIC_CMD_REG_MR:
        return &cmd->reg_mr.buf;
    default:
        return NULL;
    }
}

static void submit(struct test *t, const struct rnic_asqe *cmd)
{
    memcpy((struct rnic_asqe *)th_ptr(t->guest->th, TH_BASE + ASQ) +
               t->asq_pi % ADMIN_DEPTH,
           cmd, sizeof(*cmd));
    th_reg_set(t->guest->th, RNIC_REG_ASQ_DB, ++t->asq_pi);
}

/* Takes completions; STags are kept for later commands */
static void completions(struct test *t)
{
    while (t->acq_ci != t->asq_pi) {
        struct rnic_acqe *acqe =
            (struct rnic_acqe *)th_ptr(t->guest->th, TH_BASE + ACQ) +
            t->acq_ci % ADMIN_DEPTH;

        if ((acqe->phase & 1) == (t->acq_ci / ADMIN_DEPTH & 1)) {
            break;
        }
        if (GUINT16_FROM_LE(acqe->status) == RNIC_ADMIN_OK && acqe->mr.stag) {
            t->stags[t->num_stags++ % MAX_STAGS] =
                GUINT32_FROM_LE(acqe->mr.stag);
        }
        t->acq_ci++;
    }
}

static void command(struct test *t, struct fuzz_input *in)
{
    struct rnic_asqe cmd = { .opcode = fuzz_u8(in) % 29 };
    struct rnic_buf_desc *desc;

    cmd.cookie = GUINT16_TO_LE(t->asq_pi);
    read_command(t, in, &cmd);
    if (fuzz_u8(in) & 1) {
        fuzz_mutate(in, &cmd, sizeof(cmd));
    }
    desc = desc_of(&cmd);
    if (desc) {
        limit_desc(desc);
    }
    submit(t, &cmd);
    if (fuzz_u8(in) % 4) {
        fuzz_run(t->guest);
        completions(t);
    }
}

/* One of everything, so that what refers to others can be made */
static void furnish(struct test *t)
{
    /* opcode, id, bits, then what read_desc() and read_address() take */
    static const uint8_t plan[][8] = {
        { RNIC_CMD_CREATE_UCTX },
        { RNIC_CMD_CREATE_EQ, 0, 1, 0, 0, 0 },
        { RNIC_CMD_CREATE_EQ, 1, 0x0c, 0, 0, 3 },
        { RNIC_CMD_CREATE_CQ, 0, 4, 0, 0, 4 },
        { RNIC_CMD_CREATE_CQ, 1, 4, 0, 0, 5 },
        { RNIC_CMD_CREATE_SRQ, 0, 2, 0, 0, 6 },
        { RNIC_CMD_CREATE_QP, 0, 0x43, 0, 0, QP_PLACE },
        { RNIC_CMD_CREATE_QP, 1, 0x43, 0, 0, QP_PLACE + 1 },
        { RNIC_CMD_CREATE_QP, 6, 0x43, 0, 0, QP_PLACE + 2 },
        { RNIC_CMD_REG_MR, 1, 7, 0, 16, 0, 0, 10 },
        { RNIC_CMD_ADDR_ADD, 0, 24, 0 },
        { RNIC_CMD_LISTEN, 0, 2, 0 },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(plan); i++) {
        struct fuzz_input in = { plan[i] + 1, sizeof(plan[i]) - 1 };
        struct rnic_asqe cmd = { .opcode = plan[i][0] };

        read_command(t, &in, &cmd);
        submit(t, &cmd);
        fuzz_run(t->guest);
        completions(t);
    }
}

/* WQEs for one of the QPs of furnish(), and a doorbell */
static void post(struct test *t, struct fuzz_input *in)
{
    struct th_guest *th = t->guest->th;
    uint8_t bits = fuzz_u8(in);
    unsigned which = bits % 3, depth = 8;
    uint64_t at = TH_BASE + DATA + (QP_PLACE + which) * 0x4000;
    struct rnic_dbmap *dbmap = th_ptr(th, TH_BASE + DBMAPS);
    struct rnic_qp_dbrec *dbrec = th_ptr(th, at + depth * 192);
    struct rnic_sq_wqe *wqe = th_ptr(th, at);
    uint32_t pi = GUINT32_FROM_LE(dbrec->sq_pi);

    wqe[pi % depth * 2].opcode = bits >> 2 & 7;
    wqe[pi % depth * 2].flags = RNIC_WQE_SIGNALED | bits >> 5;
    dbrec->sq_pi = GUINT32_TO_LE(pi + 1);
    dbrec->rq_pi = GUINT32_TO_LE(GUINT32_FROM_LE(dbrec->rq_pi) + (pi & 1));
    dbmap->word[0] |= GUINT64_TO_LE(1ull << (which + 1));
    dbmap->summary[0] |= GUINT64_TO_LE(1);
    rnic_device_doorbell(t->dev, RNIC_DB_KICK, 4);
}

/* ---- Memory ---- */

static void memory(struct test *t, struct fuzz_input *in)
{
    uint8_t bits = fuzz_u8(in);
    uint32_t offset =
        bits & 1 ? fuzz_u32(in) % (MEM_SIZE - 64) : DATA + fuzz_u8(in) * 64;

    fuzz_octets(in, th_ptr(t->guest->th, TH_BASE + offset), bits >> 2);
}

/* An entry of a page table: a page, a table, or anything */
static void table_entry(struct test *t, struct fuzz_input *in)
{
    uint8_t bits = fuzz_u8(in), index = fuzz_u8(in);
    uint64_t *table =
        th_ptr(t->guest->th, TH_BASE + TABLES + (bits & 3) * TH_PAGE);
    uint64_t value = bits & 4 ? fuzz_u64(in)
                     : bits & 8
                         ? TH_BASE + TABLES + (bits >> 4 & 3) * TH_PAGE
                         : TH_BASE + (uint64_t)(fuzz_u8(in) % 128) * TH_PAGE;

    table[index] = GUINT64_TO_LE(value);
}

static void holes(struct test *t, struct fuzz_input *in)
{
    uint8_t page = fuzz_u8(in);

    if (page & 128) {
        th_fill_holes(t->guest->th);
    } else if (t->guest->th->holes->len < 16) {
        th_make_hole(t->guest->th, TH_BASE + (uint64_t)page * TH_PAGE, TH_PAGE);
    }
}

static void ring_context(struct test *t, struct fuzz_input *in)
{
    uint8_t bits = fuzz_u8(in);
    struct rnic_dbmap *dbmap =
        th_ptr(t->guest->th, TH_BASE + DBMAPS + (bits & 3) * TH_PAGE);

    dbmap->word[bits & 4 ? fuzz_u8(in) : 0] |= GUINT64_TO_LE(fuzz_u8(in));
    dbmap->summary[bits & 8 ? fuzz_u8(in) & 3 : 0] = UINT64_MAX;
    rnic_device_doorbell(t->dev,
                         bits & 16 ? fuzz_u32(in)
                                   : (uint64_t)(bits & 3) * RNIC_DB_PAGE_SIZE,
                         bits & 32 ? fuzz_u8(in) : 4);
}

static void peer(struct test *t, struct fuzz_input *in)
{
    static const uint8_t request[] = {
        'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 'e', 'q',
        ' ', 'F', 'r', 'a', 'm', 'e', 0,   1,   0,   0,
    };
    uint8_t bits = fuzz_u8(in);

    if (t->peer >= 0) {
        close(t->peer);
    }
    t->peer = bits & 1 ? world_take_outgoing() : world_connect_in(bits >> 4);
    if (t->peer >= 0 && bits & 2) {
        g_assert_cmpint(send(t->peer, request, sizeof(request),
                             MSG_DONTWAIT | MSG_NOSIGNAL),
                        !=, 0);
    }
}

static void step(struct test *t, struct fuzz_input *in)
{
    switch (fuzz_u8(in) % 20) {
    case 0:
        registers(t, in);
        break;
    case 1:
        reset(t, in);
        break;
    case 2:
        memory(t, in);
        break;
    case 3:
        table_entry(t, in);
        break;
    case 4:
        holes(t, in);
        break;
    case 5:
        fuzz_flip(t->guest, in);
        break;
    case 6:
        ring_context(t, in);
        break;
    case 7:
        world_advance_us(1ull << (fuzz_u8(in) % 26));
        break;
    case 8:
        peer(t, in);
        break;
    case 9:
        if (fuzz_u8(in) & 1) {
            rnic_device_quiesce(t->dev);
        } else {
            rnic_device_resume(t->dev);
        }
        break;
    case 10:
        world_fail(1 + fuzz_u8(in) % 8, fuzz_errno(in));
        break;
    case 11:
        fuzz_run(t->guest);
        completions(t);
        break;
    case 12:
        if (fuzz_u8(in) & 1) {
            t->conn_id++;
        } else {
            post(t, in);
        }
        break;
    default:
        command(t, in);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    struct test t = { .conn_id = 1, .peer = -1 };
    struct th_options options;
    uint8_t bits = fuzz_u8(&in);
    unsigned i;

    world_reset();
    fuzz_options(&options, MEM_SIZE);
    options.config.fabric =
        bits & 1 ? RNIC_FABRIC_LOOPBACK : RNIC_FABRIC_DIRECT;
    options.config.max_connections = bits & 2 ? 2 : 0;
    options.whole_mappings = bits & 4;
    t.guest = fuzz_guest_new(&options);
    t.dev = t.guest->th->dev;
    if (!(bits & 8)) {
        enable(&t);
        fuzz_run(t.guest);
        if (!(bits & 16)) {
            furnish(&t);
        }
    }
    for (i = 0; in.left && i < MAX_STEPS; i++) {
        step(&t, &in);
    }
    world_fail(0, 0);
    if (t.dev->quiesced) {
        rnic_device_resume(t.dev);
    }
    fuzz_run(t.guest);
    world_advance_us(30 * 1000 * 1000);
    fuzz_run(t.guest);
    fuzz_guest_free(t.guest);
    if (t.peer >= 0) {
        close(t.peer);
    }
    return 0;
}
