/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that writes anything into its queues: two QPs of one device,
 * connected to each other, whose WQEs, indices, doorbells and records hold
 * nonsense, and change while the device looks at them
 *
 * Rules that are watched: the engine comes to rest; for a process the device
 * writes only what is registered; what it reports makes sense.
 */
#include <string.h>
#include <unistd.h>
#include "fuzz.h"
#include "qp.h"

#define SIDES     2
#define REGION    8192
#define REGIONS   4 /* the last one allocated for REG_MR */
#define IOVA      0x10000ull
#define MAX_STEPS 200

struct test {
    struct fuzz_guest *guest;
    bool kernel;
    struct th_qp *qp[SIDES];
    struct th_cq *cq[SIDES];
    struct th_srq *srq;
    struct th_buf buf[REGIONS];
    uint32_t stag[REGIONS];
    uint64_t pages; /* a page list for REG_MR */
    bool scribbled; /* the guest wrote into a CQ or EQ */
};

/* ---- The guest's objects ---- */

static void make_regions(struct test *t)
{
    static const uint32_t access[REGIONS] = {
        RNIC_ACCESS_ALL,
        RNIC_ACCESS_LOCAL_WRITE,
        RNIC_ACCESS_REMOTE_READ,
    };
    bool rfc7306 = t->guest->th->options.config.rfc7306;
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_ALLOC_MR };
    struct rnic_acqe resp;
    uint64_t *pages;
    unsigned i;

    for (i = 0; i < REGIONS; i++) {
        th_alloc(t->guest->th, 64, 64);
        t->buf[i] = th_buf_new(t->guest->th, REGION, i % 2, i % 2 ? 8 : 0);
        th_fill(t->buf[i].ptr, REGION, i);
        if (i < REGIONS - 1) {
            uint32_t rights =
                access[i] | (rfc7306 && !i ? RNIC_ACCESS_REMOTE_ATOMIC : 0);

            g_assert_cmpuint(fuzz_reg_mr(t->guest, &t->buf[i], IOVA, rights,
                                         TH_PD, i, &t->stag[i]),
                             ==, RNIC_ADMIN_OK);
        }
    }
    cmd.alloc_mr.pdn = GUINT32_TO_LE(TH_PD);
    cmd.alloc_mr.max_pages = GUINT32_TO_LE(4);
    g_assert_cmpuint(th_admin(t->guest->th, &cmd, &resp), ==, RNIC_ADMIN_OK);
    t->stag[REGIONS - 1] = GUINT32_FROM_LE(resp.mr.stag);
    t->pages = th_alloc(t->guest->th, 64, 64);
    pages = th_ptr(t->guest->th, t->pages);
    for (i = 0; i < 3; i++) {
        pages[i] = GUINT64_TO_LE(t->buf[REGIONS - 1].pages[i]);
    }
}

static void make_queues(struct test *t, struct fuzz_input *in)
{
    static const uint16_t strides[] = { 64, 128, 256, 512 };
    struct th_guest *th = t->guest->th;
    struct th_qp_attr attr;
    unsigned i;

    if (fuzz_u8(in) & 1) {
        t->srq = th_srq_new(th, 4, 2);
    }
    for (i = 0; i < SIDES; i++) {
        uint8_t bits = fuzz_u8(in);

        t->cq[i] = th_cq_new(th, 1u << (bits & 7));
        th_qp_attr_init(&attr);
        attr.send_cq = t->cq[i];
        attr.recv_cq = t->cq[bits >> 3 & i];
        attr.sq_depth = bits & 16 ? 2 : 8;
        attr.rq_depth = bits & 32 ? 1 : 8;
        attr.sq_stride = strides[bits >> 6];
        attr.rq_stride = strides[bits >> 5 & 3];
        attr.flags =
            (t->kernel ? RNIC_QP_KERNEL : 0) | (bits & 8 ? RNIC_QP_SIG_ALL : 0);
        attr.srq = i ? t->srq : NULL;
        t->qp[i] = th_qp_new(th, &attr);
    }
}

/* What a process has given to the device. A kernel may name all of memory. */
static void allow(struct test *t)
{
    struct fuzz_guest *guest = t->guest;
    struct th_guest *th = guest->th;
    unsigned i;

    fuzz_allow(guest, 0, th->acq, th->admin_depth * sizeof(struct rnic_acqe));
    fuzz_allow(guest, 0, th->dbmap[0], RNIC_DBMAP_SIZE);
    fuzz_allow(guest, 0, th->aeq.addr,
               th->aeq.depth * sizeof(struct rnic_aeqe));
    fuzz_allow(guest, 0, th->ceq.addr,
               th->ceq.depth * sizeof(struct rnic_ceqe));
    for (i = 0; i < SIDES; i++) {
        fuzz_allow(guest, 0, t->cq[i]->addr,
                   t->cq[i]->depth * sizeof(struct rnic_cqe));
        fuzz_allow(guest, 0, t->qp[i]->status, sizeof(struct rnic_qp_status));
        fuzz_allow_buf(guest, 0, &t->buf[i], i % 2 ? 8 : 0);
    }
}

static void connect_qps(struct test *t, struct fuzz_input *in)
{
    struct rnic_sockaddr address = th_sockaddr("10.0.0.1", 1);
    rnic_device *dev = t->guest->th->dev;
    uint8_t bits = fuzz_u8(in);
    int fd[SIDES];
    unsigned i;

    fd[0] = world_pair(&fd[1]);
    for (i = 0; i < SIDES; i++) {
        struct rnic_qp_params params = {
            .initiator = i == 0,
            .crc = bits & 1,
            /* Only towards a peer that asked for them, which no QP does */
            .send_rtr = i == 0 ? bits >> 1 & 3 : 0,
            .await_rtr = i == 1 && bits >> 1 & 3,
            .ird = bits >> 3 & 3,
            .ord = bits >> 3 & 3,
        };
        struct rnic_stream *stream =
            rnic_stream_new(dev, fd[i], &address, &address, i == 0);

        g_assert_nonnull(stream);
        rnic_qp_connected(rnic_qp_find(dev, t->qp[i]->qpn), stream, &params);
    }
    fuzz_run(t->guest);
}

/* ---- Steps ---- */

static void read_sge(struct test *t, struct fuzz_input *in,
                     struct rnic_sge *sge)
{
    uint8_t which = fuzz_u8(in);
    uint32_t len = which & 0x40 ? fuzz_u16(in) : fuzz_u8(in);

    *sge = th_sge(t->stag[which % REGIONS],
                  IOVA + (which & 0x20 ? fuzz_u16(in) : 0), len);
    if (t->kernel && which & 0x10) {
        sge->lkey = 0;
        sge->addr = GUINT64_TO_LE(t->buf[which % REGIONS].dma);
    }
    if (which & 0x80) {
        fuzz_mutate(in, sge, sizeof(*sge));
    }
}

/* A WQE of the SQ that makes sense, but for a few octets */
static void write_send(struct test *t, struct fuzz_input *in)
{
    union {
        uint8_t octets[RNIC_WQE_STRIDE_MAX];
        struct rnic_sq_wqe wqe;
        struct rnic_reg_wqe reg;
        struct rnic_atomic_wqe atomic;
    } raw = { .octets = { 0 } };
    uint8_t which = fuzz_u8(in), bits = fuzz_u8(in);
    bool rfc7306 = t->guest->th->options.config.rfc7306;
    struct th_qp *qp = t->qp[which & 1];
    unsigned room = RNIC_SQ_STRIDE_SGES(qp->attr.sq_stride), i;
    uint8_t *slot = (uint8_t *)th_ptr(t->guest->th, qp->sq) +
                    (which >> 1) % qp->attr.sq_depth * qp->attr.sq_stride;

    raw.wqe.opcode = bits % (rfc7306 ? RNIC_WR_CMP_SWAP_MASKED + 1 : 7);
    raw.wqe.flags = which >> 4;
    raw.wqe.wr_id = GUINT64_TO_LE(which);
    switch (raw.wqe.opcode) {
    case RNIC_WR_REG_MR:
        raw.reg.flags &= ~RNIC_WQE_INLINE;
        raw.reg.stag = GUINT32_TO_LE(t->stag[REGIONS - 1]);
        raw.reg.access = GUINT32_TO_LE(RNIC_ACCESS_ALL);
        raw.reg.num_pages = GUINT32_TO_LE(1 + bits % 3);
        raw.reg.iova = GUINT64_TO_LE(IOVA);
        raw.reg.length = GUINT64_TO_LE(bits & 8 ? fuzz_u16(in) : 4096);
        raw.reg.pages = GUINT64_TO_LE(t->pages);
        raw.reg.page_shift = GUINT32_TO_LE(12);
        break;
    case RNIC_WR_IMM:
        raw.wqe.flags &= ~RNIC_WQE_INLINE;
        raw.wqe.imm_data = fuzz_u8(in);
        break;
    case RNIC_WR_FETCH_ADD:
    case RNIC_WR_CMP_SWAP:
    case RNIC_WR_CMP_SWAP_MASKED:
        raw.wqe.flags &= ~RNIC_WQE_INLINE;
        raw.wqe.num_sge = 1;
        raw.wqe.remote_stag = GUINT32_TO_LE(t->stag[bits >> 5 & 3]);
        raw.wqe.remote_to = GUINT64_TO_LE(IOVA + 8 * fuzz_u8(in));
        read_sge(t, in, &raw.atomic.sink);
        raw.atomic.sink.length = GUINT32_TO_LE(8);
        raw.atomic.data = fuzz_u8(in);
        raw.atomic.compare = fuzz_u8(in);
        break;
    case RNIC_WR_LOCAL_INV:
        raw.wqe.flags &= ~RNIC_WQE_INLINE;
        raw.wqe.inv_stag = GUINT32_TO_LE(t->stag[bits % REGIONS]);
        break;
    default:
        raw.wqe.inv_stag = GUINT32_TO_LE(t->stag[bits >> 3 & 3]);
        raw.wqe.remote_stag = GUINT32_TO_LE(t->stag[bits >> 5 & 3]);
        raw.wqe.remote_to = GUINT64_TO_LE(IOVA + fuzz_u16(in));
        if (raw.wqe.flags & RNIC_WQE_INLINE) {
            raw.wqe.inline_len =
                GUINT32_TO_LE(bits & 8 ? fuzz_u16(in) % 1024 : bits >> 3);
            break;
        }
        raw.wqe.num_sge = fuzz_u8(in) % (room + 1);
        for (i = 0; i < raw.wqe.num_sge; i++) {
            read_sge(t, in, &raw.wqe.sge[i]);
        }
        break;
    }
    fuzz_mutate(in, &raw, 64);
    memcpy(slot, &raw, qp->attr.sq_stride);
}

static void write_recv(struct test *t, struct fuzz_input *in)
{
    union {
        uint8_t octets[RNIC_WQE_STRIDE_MAX];
        struct rnic_rq_wqe wqe;
    } raw = { .octets = { 0 } };
    uint8_t which = fuzz_u8(in);
    struct th_qp *qp = t->qp[which & 1];
    uint32_t stride = qp->attr.rq_stride, depth = qp->attr.rq_depth, i;
    uint64_t ring = qp->rq;

    if (qp->attr.srq) {
        ring = t->srq->addr;
        stride = t->srq->stride;
        depth = t->srq->depth;
    }
    raw.wqe.num_sge = fuzz_u8(in) % (RNIC_RQ_STRIDE_SGES(stride) + 1);
    for (i = 0; i < raw.wqe.num_sge; i++) {
        read_sge(t, in, &raw.wqe.sge[i]);
    }
    fuzz_mutate(in, &raw, 64);
    memcpy((uint8_t *)th_ptr(t->guest->th, ring) +
               (which >> 1) % depth * stride,
           &raw, stride);
}

/* Producer indices: a few more, or anything */
static void publish(struct test *t, struct fuzz_input *in)
{
    uint8_t bits = fuzz_u8(in);
    struct th_qp *qp = t->qp[bits & 1];
    bool srq = qp->attr.srq && bits & 2;
    struct rnic_qp_dbrec *dbrec =
        th_ptr(t->guest->th, srq ? t->srq->dbrec : qp->dbrec);
    __le32 *index = srq || bits & 2 ? &dbrec->rq_pi : &dbrec->sq_pi;

    *index = GUINT32_TO_LE(
        bits & 128 ? fuzz_u32(in) : GUINT32_FROM_LE(*index) + (bits >> 2 & 7));
    if (bits & 64) {
        th_ring(t->guest->th, 0, qp->qpn);
    }
}

static void doorbell(struct test *t, struct fuzz_input *in)
{
    struct rnic_dbmap *dbmap = th_ptr(t->guest->th, t->guest->th->dbmap[0]);
    uint8_t bits = fuzz_u8(in);

    dbmap->word[fuzz_u8(in)] = fuzz_u64(in);
    dbmap->summary[bits & 3] = bits & 4 ? UINT64_MAX : fuzz_u64(in);
    rnic_device_doorbell(t->guest->th->dev,
                         bits & 8 ? fuzz_u32(in) : RNIC_DB_KICK,
                         bits & 16 ? fuzz_u8(in) : 4);
}

/* Doorbell records of CQs and EQs, and what lies in their rings */
static void records(struct test *t, struct fuzz_input *in)
{
    uint8_t bits = fuzz_u8(in);
    struct th_guest *th = t->guest->th;
    struct th_eq *eq = bits & 1 ? &th->aeq : &th->ceq;
    struct th_cq *cq = t->cq[bits & 1];
    size_t entry =
        bits & 1 ? sizeof(struct rnic_aeqe) : sizeof(struct rnic_ceqe);
    uint32_t *words = bits & 2 ? th_ptr(th, cq->dbrec)
                               : th_ptr(th, eq->addr + eq->depth * entry);

    if (bits & 4) {
        t->scribbled = true;
        words = th_ptr(th, bits & 2 ? cq->addr : eq->addr);
        words += fuzz_u8(in) & 7;
    }
    words[0] = GUINT32_TO_LE(bits & 8 ? fuzz_u32(in) : fuzz_u8(in));
    words[1] = GUINT32_TO_LE(bits & 16 ? fuzz_u32(in) : fuzz_u8(in));
}

/* As a consumer does: entries must make sense then */
static void consume(struct test *t, unsigned side)
{
    struct th_cq *cq = t->cq[side];
    unsigned n = 0;
    struct rnic_cqe cqe;

    while (n++ < cq->depth && th_cq_poll(cq, &cqe)) {
        uint32_t qpn = GUINT32_FROM_LE(cqe.qpn);

        fuzz_check(t->scribbled ||
                       (cqe.status <= RNIC_WC_GENERAL_ERR &&
                        (qpn == t->qp[0]->qpn || qpn == t->qp[1]->qpn)),
                   "a CQE with status %u of QP %u", cqe.status, qpn);
    }
    th_cq_arm(cq, side ? RNIC_CQ_ARM_ANY : RNIC_CQ_ARM_SOLICITED);
}

static void event_seen(void *opaque, const struct rnic_aeqe *event)
{
    const struct test *t = opaque;
    unsigned type = GUINT16_FROM_LE(event->type);

    fuzz_check(t->scribbled || (type && type <= RNIC_EV_ADDR_CONFLICT),
               "event %u", type);
}

static void commands(struct test *t, struct fuzz_input *in)
{
    uint8_t bits = fuzz_u8(in);
    struct rnic_asqe cmd = { 0 };

    switch (bits % 5) {
    case 0:
        cmd.opcode = RNIC_CMD_MODIFY_QP;
        cmd.modify_qp.qpn = GUINT32_TO_LE(t->qp[bits >> 4 & 1]->qpn);
        cmd.modify_qp.state = GUINT32_TO_LE(RNIC_QPS_CLOSING + (bits >> 5) % 3);
        break;
    case 1:
        cmd.opcode = RNIC_CMD_DEREG_MR;
        cmd.dereg_mr.stag = GUINT32_TO_LE(t->stag[(bits >> 4) % REGIONS]);
        break;
    case 2:
        cmd.opcode = RNIC_CMD_MODIFY_CQ;
        cmd.modify_cq.cqn = GUINT32_TO_LE(t->cq[bits >> 4 & 1]->cqn);
        cmd.modify_cq.count = GUINT16_TO_LE(fuzz_u8(in));
        cmd.modify_cq.period_us = GUINT16_TO_LE(fuzz_u16(in));
        break;
    case 3:
        cmd.opcode = RNIC_CMD_QUERY_QP;
        cmd.id.id = GUINT32_TO_LE(t->qp[bits >> 4 & 1]->qpn);
        break;
    default:
        cmd.opcode = RNIC_CMD_DESTROY_QP;
        cmd.id.id = GUINT32_TO_LE(t->qp[bits >> 4 & 1]->qpn);
        break;
    }
    /* A device that has met a fatal error answers nothing */
    th_admin_submit(t->guest->th, &cmd);
    fuzz_run(t->guest);
}

static void step(struct test *t, struct fuzz_input *in)
{
    switch (fuzz_u8(in) % 16) {
    case 0:
    case 1:
    case 2:
        write_send(t, in);
        break;
    case 3:
    case 4:
        write_recv(t, in);
        break;
    case 5:
    case 6:
    case 7:
        publish(t, in);
        break;
    case 8:
        doorbell(t, in);
        break;
    case 9:
        records(t, in);
        break;
    case 10:
        consume(t, fuzz_u8(in) & 1);
        break;
    case 11:
        fuzz_flip(t->guest, in);
        break;
    case 12:
        commands(t, in);
        break;
    case 13:
        world_advance_us(1ull << (fuzz_u8(in) % 24));
        break;
    case 14:
        world_limit_send(fuzz_u16(in), 64);
        break;
    case 15:
        fuzz_run(t->guest);
        fuzz_events(t->guest, event_seen, t);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    struct test t = { .kernel = false };
    struct th_options options;
    uint8_t bits = fuzz_u8(&in);
    unsigned i;

    world_reset();
    fuzz_options(&options, 256 << 10);
    options.config.fpdu_max = bits & 1 ? 128 : 64768;
    options.config.mpa_gate_strict = bits & 2;
    options.whole_mappings = bits & 4;
    options.config.sq_scan_ms = bits & 16 ? 1 : 0;
    options.config.rfc7306 = bits & 32;
    t.kernel = bits & 8;
    t.guest = fuzz_guest_new(&options);
    fuzz_guest_start(t.guest);
    make_regions(&t);
    make_queues(&t, &in);
    if (!t.kernel) {
        allow(&t);
    }
    connect_qps(&t, &in);
    for (i = 0; in.left && i < MAX_STEPS; i++) {
        step(&t, &in);
    }
    fuzz_run(t.guest);
    world_advance_us(10 * 1000 * 1000);
    fuzz_run(t.guest);
    fuzz_guest_free(t.guest);
    return 0;
}
