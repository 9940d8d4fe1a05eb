/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz-stream: the guest of the device that the peer speaks to
 */
#include <string.h>
#include "mr.h"
#include "stream.h"

const struct region_plan stream_plan[REGIONS] = {
    /* With RFC 7306 atomics, too */
    [READ_WRITE] = { 40000, 0, 0, 0x10000, RNIC_ACCESS_ALL, TH_PD },
    [SCATTERED] = { 9000, 1, 100, UINT64_MAX - 9000, RNIC_ACCESS_REMOTE_WRITE,
                    TH_PD },
    [READ_ONLY] = { 5000, 2, 4095, 0, RNIC_ACCESS_REMOTE_READ, TH_PD },
    [LOCAL] = { SLOT * SLOTS, 0, 0, 0x7000000000000000, RNIC_ACCESS_LOCAL_WRITE,
                TH_PD },
    [FOREIGN] = { 4096, 0, 0, 0x10000, RNIC_ACCESS_ALL, OTHER_PD },
    [SMALL] = { 1, 0, 0, 0x1234567, RNIC_ACCESS_REMOTE_WRITE, TH_PD },
};

void stream_make_regions(struct peer *peer)
{
    struct fuzz_guest *guest = peer->guest;
    unsigned i;

    for (i = 0; i < REGIONS; i++) {
        uint32_t rights = stream_plan[i].access;

        if (i == READ_WRITE && guest->th->options.config.rfc7306) {
            rights |= RNIC_ACCESS_REMOTE_ATOMIC;
        }
        /* What nobody may touch lies between the regions */
        th_alloc(guest->th, 64, 64);
        peer->buf[i] =
            th_buf_new(guest->th, stream_plan[i].len, stream_plan[i].levels,
                       stream_plan[i].first_offset);
        th_fill(peer->buf[i].ptr, stream_plan[i].len, i);
        g_assert_cmpuint(fuzz_reg_mr(guest, &peer->buf[i], stream_plan[i].iova,
                                     rights, stream_plan[i].pdn, i,
                                     &peer->stag[i]),
                         ==, RNIC_ADMIN_OK);
        peer->valid[i] = true;
    }
    for (i = 0; i < SLOTS; i++) {
        peer->edge[i] = peer->buf[LOCAL].ptr[(i + 1) * SLOT - 1];
    }
    for (i = 0; i < REGIONS; i++) {
        if (stream_plan[i].pdn == TH_PD &&
            stream_plan[i].access & RNIC_ACCESS_REMOTE_WRITE) {
            fuzz_allow_buf(guest, TAG_REGION + i, &peer->buf[i],
                           stream_plan[i].first_offset);
        }
    }
}

void stream_allow_rings(struct peer *peer)
{
    struct th_guest *th = peer->guest->th;
    struct th_cq *cqs[2] = { peer->qp->attr.send_cq, peer->qp->attr.recv_cq };
    unsigned i;

    fuzz_allow(peer->guest, TAG_ALWAYS, th->acq,
               th->admin_depth * sizeof(struct rnic_acqe));
    fuzz_allow(peer->guest, TAG_ALWAYS, th->dbmap[0], RNIC_DBMAP_SIZE);
    fuzz_allow(peer->guest, TAG_ALWAYS, th->aeq.addr,
               th->aeq.depth * sizeof(struct rnic_aeqe));
    fuzz_allow(peer->guest, TAG_ALWAYS, th->ceq.addr,
               th->ceq.depth * sizeof(struct rnic_ceqe));
    fuzz_allow(peer->guest, TAG_ALWAYS, peer->qp->status,
               sizeof(struct rnic_qp_status));
    for (i = 0; i < 2; i++) {
        fuzz_allow(peer->guest, TAG_ALWAYS, cqs[i]->addr,
                   cqs[i]->depth * sizeof(struct rnic_cqe));
    }
}

static int slot_take(struct peer *peer, uint32_t len)
{
    unsigned i;

    for (i = 0; i < SLOTS; i++) {
        if (!peer->slot_used[i]) {
            peer->slot_used[i] = true;
            if (len && peer->valid[LOCAL]) {
                fuzz_allow(peer->guest, TAG_SLOT + i,
                           peer->buf[LOCAL].dma + i * SLOT, len);
            }
            return i;
        }
    }
    return -1;
}

static void slot_give(struct peer *peer, int slot)
{
    if (slot >= 0) {
        peer->slot_used[slot] = false;
        fuzz_disallow(peer->guest, TAG_SLOT + slot);
    }
}

static struct rnic_sge slot_sge(struct peer *peer, int slot, uint32_t offset,
                                uint32_t len)
{
    return th_sge(peer->stag[LOCAL],
                  stream_plan[LOCAL].iova + slot * SLOT + offset, len);
}

void stream_post_recv(struct peer *peer, uint32_t len)
{
    struct wr *wr = &peer->recv[peer->num_recv];
    struct rnic_sge sges[2];

    len %= SLOT;
    if (peer->num_recv == MAX_WRS || peer->open_recv == QUEUE_DEPTH) {
        return;
    }
    wr->len = len;
    wr->slot = slot_take(peer, len);
    if (wr->slot < 0) {
        return;
    }
    sges[0] = slot_sge(peer, wr->slot, 0, len / 3);
    sges[1] = slot_sge(peer, wr->slot, len / 3, len - len / 3);
    if (peer->srq) {
        th_srq_post(peer->srq, peer->num_recv, sges, 2);
    } else {
        th_post_recv(peer->qp, peer->num_recv, sges, 2);
    }
    wr->posted = true;
    peer->num_recv++;
    peer->open_recv++;
}

uint32_t stream_any_stag(struct peer *peer, struct fuzz_input *in)
{
    uint8_t which = fuzz_u8(in);

    return which < 0xf0 ? peer->stag[which % REGIONS] : fuzz_u32(in);
}

void stream_post_send(struct peer *peer, struct fuzz_input *in)
{
    static const enum rnic_wr_opcode opcodes[] = {
        RNIC_WR_SEND, RNIC_WR_SEND_INV, RNIC_WR_WRITE,
        RNIC_WR_READ, RNIC_WR_READ,     RNIC_WR_LOCAL_INV,
    };
    static const enum rnic_wr_opcode rfc7306[] = {
        RNIC_WR_IMM,
        RNIC_WR_WRITE_IMM,
        RNIC_WR_FETCH_ADD,
        RNIC_WR_CMP_SWAP,
    };
    uint8_t bits = fuzz_u8(in);
    uint32_t len = fuzz_u16(in);
    struct wr *own = &peer->send[peer->num_send];
    struct th_wr wr = {
        .opcode = opcodes[bits % G_N_ELEMENTS(opcodes)],
        .flags = RNIC_WQE_SIGNALED | (bits & 0x40 ? RNIC_WQE_FENCE : 0) |
                 (bits & 0x80 ? RNIC_WQE_SOLICITED : 0),
        .wr_id = peer->num_send,
        .num_sge = 1,
    };

    if (peer->num_send == MAX_WRS || peer->open_send == QUEUE_DEPTH) {
        return;
    }
    if (bits & 0x20 && peer->guest->th->options.config.rfc7306) {
        wr.opcode = rfc7306[bits % G_N_ELEMENTS(rfc7306)];
    }
    own->slot = -1;
    switch (wr.opcode) {
    case RNIC_WR_IMM:
        wr.num_sge = 0;
        break;
    case RNIC_WR_FETCH_ADD:
    case RNIC_WR_CMP_SWAP:
        own->len = 8;
        own->slot = slot_take(peer, 8);
        if (own->slot < 0) {
            return;
        }
        wr.sge[0] = slot_sge(peer, own->slot, 0, 8);
        wr.remote_stag = 0x500;
        break;
    case RNIC_WR_READ:
        len %= SLOT;
        own->len = len;
        own->slot = slot_take(peer, len);
        if (own->slot < 0) {
            return;
        }
        wr.sge[0] = slot_sge(peer, own->slot, 0, len);
        wr.remote_stag = 0x100;
        break;
    case RNIC_WR_LOCAL_INV:
        wr.num_sge = 0;
        wr.inv_stag = stream_any_stag(peer, in);
        break;
    default:
        wr.inv_stag = 0x200;
        wr.remote_stag = 0x300;
        /* Long ones have several FPDUs */
        wr.sge[0] = th_sge(peer->stag[READ_WRITE], stream_plan[READ_WRITE].iova,
                           len % stream_plan[READ_WRITE].len);
        break;
    }
    th_post_send(peer->qp, &wr, 1);
    own->posted = true;
    peer->num_send++;
    peer->open_send++;
}

void stream_dereg(struct peer *peer, unsigned region)
{
    struct rnic_asqe cmd = {
        .opcode = RNIC_CMD_DEREG_MR,
        .dereg_mr.stag = GUINT32_TO_LE(peer->stag[region]),
    };
    unsigned i;

    if (!peer->valid[region]) {
        return;
    }
    peer->valid[region] = false;
    g_assert_cmpuint(th_admin(peer->guest->th, &cmd, NULL), ==, RNIC_ADMIN_OK);
    /* From now on nothing of it is written */
    fuzz_disallow(peer->guest, TAG_REGION + region);
    for (i = 0; region == LOCAL && i < SLOTS; i++) {
        fuzz_disallow(peer->guest, TAG_SLOT + i);
    }
}

void stream_complete(struct peer *peer, const struct rnic_cqe *cqe, bool recv)
{
    uint64_t wr_id = GUINT64_FROM_LE(cqe->wr_id);
    struct wr *wr = recv ? &peer->recv[wr_id] : &peer->send[wr_id];
    unsigned i;

    fuzz_check(wr_id < (recv ? peer->num_recv : peer->num_send),
               "a completion of wr_id %" PRIu64 ", which was not posted",
               wr_id);
    fuzz_check(!wr->completed, "%s %" PRIu64 " completes twice",
               recv ? "receive" : "send", wr_id);
    fuzz_check(GUINT32_FROM_LE(cqe->qpn) == peer->qp->qpn, "QPN of a CQE");
    fuzz_check(cqe->status <= RNIC_WC_GENERAL_ERR, "status %u", cqe->status);
    fuzz_check((cqe->opcode == RNIC_WR_RECV) == recv, "opcode of a CQE");
    wr->completed = true;
    slot_give(peer, wr->slot);
    if (recv) {
        g_byte_array_append(peer->outcome, (const uint8_t *)cqe, sizeof(*cqe));
    }
    if (recv) {
        peer->open_recv--;
    } else {
        peer->open_send--;
    }
    for (i = 0; i < REGIONS; i++) {
        if (cqe->flags & RNIC_CQE_WITH_INV &&
            GUINT32_FROM_LE(cqe->inv_stag) == peer->stag[i]) {
            fuzz_check(stream_plan[i].pdn == TH_PD &&
                           stream_plan[i].access & (RNIC_ACCESS_REMOTE_READ |
                                                    RNIC_ACCESS_REMOTE_WRITE),
                       "the peer invalidated what it was not given");
            fuzz_disallow(peer->guest, TAG_REGION + i);
        }
    }
}
