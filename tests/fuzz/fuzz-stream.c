/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A peer that says anything to a connected QP
 *
 * Rules that are watched: the device writes only where it was told to; a work
 * request completes once; what the device says is valid, and ends with at most
 * one Terminate; how TCP cuts what the peer says into pieces changes nothing.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "fuzz.h"
#include "mr.h"
#include "qp.h"
#include "wire/byteorder.h"
#include "wire/crc32c.h"
#include "wire/fpdu.h"
#include "wire/marker.h"
#include "wire/terminate.h"

#define QUEUE_DEPTH 16
#define MAX_WRS     100 /* of each kind: fits the CQs */
#define SLOT        512 /* octets of a local buffer, the last unused */
#define SLOTS       (2 * QUEUE_DEPTH)
#define OTHER_PD    9
#define MAX_PARTS   64 /* of what is sent in slices */

/* Tags of what may be written */
enum {
    TAG_ALWAYS,
    TAG_REGION,    /* + region */
    TAG_SLOT = 16, /* + slot */
};

enum region {
    READ_WRITE, /* all rights, contiguous */
    SCATTERED,  /* remote write; ends where TOs end */
    READ_ONLY,
    LOCAL,   /* the slots */
    FOREIGN, /* all rights in another PD */
    SMALL,   /* remote write */
    REGIONS
};

static const struct {
    size_t len;
    unsigned levels;
    uint32_t first_offset;
    uint64_t iova;
    uint32_t access, pdn;
} plan[REGIONS] = {
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

struct wr {
    bool posted, completed;
    int slot; /* -1: none */
    uint32_t len;
};

struct peer {
    struct fuzz_guest *guest;
    struct th_qp *qp;
    struct th_srq *srq;
    struct th_buf buf[REGIONS];
    uint32_t stag[REGIONS];
    bool valid[REGIONS];
    bool slot_used[SLOTS];
    uint8_t edge[SLOTS]; /* the last octet of each */
    struct wr recv[MAX_WRS], send[MAX_WRS];
    unsigned num_recv, num_send, open_recv, open_send;

    int fd; /* -1: closed */
    struct rnic_qp_params params;
    bool deaf;    /* does not read */
    bool uncut;   /* slices are not looked at */
    bool was_cut; /* they were, and nothing that depends on the time */
    bool was_deaf;
    GByteArray *outcome; /* receives, then regions, then the Terminate */
    unsigned slice;      /* octets of one write */
    uint32_t send_msn, read_msn, atomic_msn;
    GByteArray *heard;
};

/* ---- The device's guest ---- */

static void make_regions(struct peer *peer)
{
    struct fuzz_guest *guest = peer->guest;
    unsigned i;

    for (i = 0; i < REGIONS; i++) {
        uint32_t rights = plan[i].access;

        if (i == READ_WRITE && guest->th->options.config.rfc7306) {
            rights |= RNIC_ACCESS_REMOTE_ATOMIC;
        }
        /* What nobody may touch lies between the regions */
        th_alloc(guest->th, 64, 64);
        peer->buf[i] = th_buf_new(guest->th, plan[i].len, plan[i].levels,
                                  plan[i].first_offset);
        th_fill(peer->buf[i].ptr, plan[i].len, i);
        g_assert_cmpuint(fuzz_reg_mr(guest, &peer->buf[i], plan[i].iova, rights,
                                     plan[i].pdn, i, &peer->stag[i]),
                         ==, RNIC_ADMIN_OK);
        peer->valid[i] = true;
    }
    for (i = 0; i < SLOTS; i++) {
        peer->edge[i] = peer->buf[LOCAL].ptr[(i + 1) * SLOT - 1];
    }
    for (i = 0; i < REGIONS; i++) {
        if (plan[i].pdn == TH_PD && plan[i].access & RNIC_ACCESS_REMOTE_WRITE) {
            fuzz_allow_buf(guest, TAG_REGION + i, &peer->buf[i],
                           plan[i].first_offset);
        }
    }
}

static void allow_rings(struct peer *peer)
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
    return th_sge(peer->stag[LOCAL], plan[LOCAL].iova + slot * SLOT + offset,
                  len);
}

static void post_recv(struct peer *peer, uint32_t len)
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

static uint32_t any_stag(struct peer *peer, struct fuzz_input *in)
{
    uint8_t which = fuzz_u8(in);

    return which < 0xf0 ? peer->stag[which % REGIONS] : fuzz_u32(in);
}

static void post_send(struct peer *peer, struct fuzz_input *in)
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
        wr.inv_stag = any_stag(peer, in);
        break;
    default:
        wr.inv_stag = 0x200;
        wr.remote_stag = 0x300;
        /* Long ones have several FPDUs */
        wr.sge[0] = th_sge(peer->stag[READ_WRITE], plan[READ_WRITE].iova,
                           len % plan[READ_WRITE].len);
        break;
    }
    th_post_send(peer->qp, &wr, 1);
    own->posted = true;
    peer->num_send++;
    peer->open_send++;
}

/* ---- What came of it ---- */

static void complete(struct peer *peer, const struct rnic_cqe *cqe, bool recv)
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
            fuzz_check(plan[i].pdn == TH_PD &&
                           plan[i].access & (RNIC_ACCESS_REMOTE_READ |
                                             RNIC_ACCESS_REMOTE_WRITE),
                       "the peer invalidated what it was not given");
            fuzz_disallow(peer->guest, TAG_REGION + i);
        }
    }
}

static void ignore_event(void *opaque, const struct rnic_aeqe *event)
{
}

static void hear(struct peer *peer)
{
    uint8_t buf[65536];
    ssize_t n;

    while (peer->fd >= 0 && !peer->deaf &&
           (n = recv(peer->fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
        g_byte_array_append(peer->heard, buf, n);
    }
}

static void run(struct peer *peer)
{
    struct rnic_cqe cqe;
    size_t before;

    do {
        before = peer->heard->len;
        fuzz_run(peer->guest);
        hear(peer);
    } while (peer->heard->len != before);
    while (th_cq_poll(peer->qp->attr.recv_cq, &cqe)) {
        complete(peer, &cqe, true);
    }
    while (th_cq_poll(peer->qp->attr.send_cq, &cqe)) {
        complete(peer, &cqe, false);
    }
    fuzz_events(peer->guest, ignore_event, NULL);
}

/*
 * Takes the FPDU at *@at of what was heard, markers taken out, into @fpdu;
 * false: it is not complete. Checks markers and CRC.
 */
static bool next_fpdu(struct peer *peer, size_t *at, GByteArray *fpdu)
{
    const uint8_t *octets = peer->heard->data;
    size_t len = peer->heard->len, pos = *at, need = 4, first = 0;
    uint16_t ulpdu_len;

    g_byte_array_set_size(fpdu, 0);
    /* Everything is a multiple of 4 octets long */
    for (; fpdu->len < need; pos += 4) {
        if (pos + 4 > len) {
            return false;
        }
        if (peer->params.tx_markers && pos % RNIC_MARKER_SPACING == 0) {
            fuzz_check(rnic_get_be16(octets + pos + 2) ==
                           (fpdu->len ? pos - first : 0),
                       "a marker points to somewhere else");
            continue;
        }
        if (!fpdu->len) {
            first = pos;
            fuzz_check(rnic_fpdu_length_decode(octets + pos, 4, &ulpdu_len) ==
                           RNIC_WIRE_OK,
                       "an invalid length was sent");
            need = rnic_fpdu_len(ulpdu_len);
        }
        g_byte_array_append(fpdu, octets + pos, 4);
    }
    if (peer->params.crc) {
        uint32_t crc =
            rnic_crc32c_update(rnic_crc32c_init(), octets + *at, pos - 4 - *at);

        fuzz_check(rnic_get_le32(octets + pos - 4) == rnic_crc32c_final(crc),
                   "a wrong CRC was sent");
    }
    *at = pos;
    return true;
}

/* All that the device said; what the connection's end cut is not looked at */
static void check_heard(struct peer *peer)
{
    g_autoptr(GByteArray) fpdu = g_byte_array_new();
    bool terminated = false;
    size_t at = 0;

    while (next_fpdu(peer, &at, fpdu)) {
        const uint8_t *ulpdu = fpdu->data + RNIC_FPDU_LENGTH_SIZE;
        struct rnic_rdmap_seg seg;
        struct rnic_term term;
        uint16_t len = rnic_get_be16(fpdu->data);

        fuzz_check(!terminated, "more was sent behind a Terminate");
        fuzz_check(rnic_rdmap_seg_decode(
                       ulpdu, len, len, peer->guest->th->options.config.rfc7306,
                       &seg) == RNIC_WIRE_OK,
                   "an invalid segment was sent");
        if (seg.ddp.opcode == RNIC_RDMAP_TERMINATE) {
            terminated = true;
            fuzz_check(rnic_term_decode(ulpdu, len, &term),
                       "a Terminate that cannot be read was sent");
        }
    }
    fuzz_check(!terminated || at == peer->heard->len,
               "more was sent behind a Terminate");
}

/* What nobody may write has the octets that it had */
static void check_untouched(struct peer *peer)
{
    static const enum region regions[] = { READ_ONLY, FOREIGN };
    struct th_guest *th = peer->guest->th;
    const uint8_t *unused = th->mem + th->mem_used;
    size_t len = th->options.mem_size - th->mem_used;
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(regions); i++) {
        th_check_filled(peer->buf[regions[i]].ptr, plan[regions[i]].len,
                        regions[i]);
    }
    for (i = 0; i < SLOTS; i++) {
        fuzz_check(peer->buf[LOCAL].ptr[(i + 1) * SLOT - 1] == peer->edge[i],
                   "the octet behind a buffer was written");
    }
    fuzz_check(!unused[0] && !memcmp(unused, unused + 1, len - 1),
               "unused memory was written");
}

/* ---- The peer ---- */

static void say(struct peer *peer, const uint8_t *octets, size_t len)
{
    unsigned tries = 0, parts = 0;

    if (peer->slice) {
        /* What the device has to say it says before and behind it */
        peer->was_cut = true;
        run(peer);
    }
    while (len && peer->fd >= 0) {
        bool sliced = peer->slice && !peer->uncut && ++parts < MAX_PARTS;
        size_t part = sliced ? MIN(len, peer->slice) : len;
        ssize_t n = send(peer->fd, octets, part, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && ++tries > 2) {
            /* The device is gone, or does not read */
            return;
        }
        if (n > 0) {
            octets += n;
            len -= n;
        }
        if (n < 0 || sliced) {
            run(peer);
        }
    }
    if (peer->slice) {
        run(peer);
    }
}

static void say_ulpdu(struct peer *peer, struct fuzz_input *in,
                      const uint8_t *ulpdu, uint16_t len, uint8_t how)
{
    uint8_t fpdu[RNIC_FPDU_MAX];
    size_t at = rnic_fpdu_length_encode(len, fpdu);
    uint32_t crc;

    memcpy(fpdu + at, ulpdu, len);
    at += len;
    crc = rnic_crc32c_update(rnic_crc32c_init(), fpdu, at);
    at += rnic_fpdu_trailer_encode(len, peer->params.crc, crc, fpdu + at);
    if (how & 0x40) {
        fuzz_mutate(in, fpdu, at);
    }
    if (how & 0x80) {
        at = MIN(at, fuzz_u16(in));
    }
    say(peer, fpdu, at);
}

static void say_tagged(struct peer *peer, struct fuzz_input *in,
                       enum rnic_rdmap_opcode opcode)
{
    uint8_t how = fuzz_u8(in), region = fuzz_u8(in) % REGIONS;
    uint64_t offset = how & 1 ? fuzz_u64(in) : fuzz_u16(in);
    uint32_t len = how & 2 ? fuzz_u16(in) : fuzz_u8(in), stag;
    uint64_t to = plan[region].iova + offset, end = plan[region].len;
    uint8_t ulpdu[65535];
    size_t header;

    stag = peer->stag[region];
    if (how & 4) {
        stag ^= fuzz_u32(in);
    }
    if (opcode == RNIC_RDMAP_READ_RESPONSE && !(how & 8)) {
        /* As the oldest Read of the device wants it */
        unsigned i;

        for (i = 0; i < peer->num_send; i++) {
            if (!peer->send[i].completed && peer->send[i].slot >= 0) {
                break;
            }
        }
        if (i < peer->num_send) {
            stag = peer->stag[LOCAL];
            end = peer->send[i].len;
            to = plan[LOCAL].iova + peer->send[i].slot * SLOT + offset;
        }
    }
    if (how & 32) {
        /* About up to the end */
        len = MAX((int64_t)(end - offset) + (int8_t)len, 0);
    }
    header = rnic_rdmap_tagged_encode(opcode, !(how & 16), stag, to, ulpdu);
    len = MIN(len, sizeof(ulpdu) - header);
    memset(ulpdu + header, 0xa5, len);
    say_ulpdu(peer, in, ulpdu, header + len, how);
}

static void say_send(struct peer *peer, struct fuzz_input *in)
{
    uint8_t how = fuzz_u8(in);
    enum rnic_rdmap_opcode opcode = RNIC_RDMAP_SEND + fuzz_u8(in) % 4;
    uint32_t len = how & 2 ? fuzz_u16(in) : fuzz_u8(in);
    uint32_t mo = how & 4 ? fuzz_u32(in) : fuzz_u8(in);
    uint32_t msn = how & 8 ? fuzz_u32(in) : peer->send_msn;
    uint32_t inv = rnic_rdmap_invalidates(opcode) ? any_stag(peer, in) : 0;
    uint8_t ulpdu[65535];
    size_t header;

    header =
        rnic_rdmap_untagged_encode(opcode, !(how & 16), inv, msn, mo, ulpdu);
    len = MIN(len, sizeof(ulpdu) - header);
    memset(ulpdu + header, 0x5a, len);
    if (!(how & 16)) {
        peer->send_msn++;
    }
    say_ulpdu(peer, in, ulpdu, header + len, how);
}

static void say_read_request(struct peer *peer, struct fuzz_input *in)
{
    uint8_t how = fuzz_u8(in), region = fuzz_u8(in) % REGIONS;
    struct rnic_rdmap_read_request rr = {
        .sink_stag = 0x400,
        .sink_to = how & 1 ? fuzz_u64(in) : 0,
        .size = how & 2 ? fuzz_u32(in) : fuzz_u16(in),
        .source_stag = peer->stag[region],
        .source_to = plan[region].iova + (how & 4 ? fuzz_u64(in) : fuzz_u8(in)),
    };
    uint8_t ulpdu[RNIC_RDMAP_READ_REQUEST_SIZE];

    if (how & 32) {
        rr.size = plan[region].len - (rr.source_to - plan[region].iova) +
                  (int8_t)rr.size;
    }
    rnic_rdmap_read_request_encode(&rr, how & 8 ? fuzz_u32(in) : peer->read_msn,
                                   ulpdu);
    if (!(how & 8)) {
        peer->read_msn++;
    }
    say_ulpdu(peer, in, ulpdu, sizeof(ulpdu), how);
}

static void say_imm(struct peer *peer, struct fuzz_input *in)
{
    uint8_t how = fuzz_u8(in), data[RNIC_RDMAP_IMM_DATA_SIZE];
    uint8_t ulpdu[RNIC_RDMAP_IMM_SIZE];

    fuzz_octets(in, data, sizeof(data));
    rnic_rdmap_imm_encode(data, how & 1,
                          how & 8 ? fuzz_u32(in) : peer->send_msn, ulpdu);
    peer->send_msn += !(how & 8);
    say_ulpdu(peer, in, ulpdu, sizeof(ulpdu), how);
}

static void say_atomic_request(struct peer *peer, struct fuzz_input *in)
{
    uint8_t how = fuzz_u8(in), region = how & 2 ? fuzz_u8(in) % REGIONS : 0;
    struct rnic_rdmap_atomic_request ar = {
        .op = how & 16 ? RNIC_RDMAP_FETCH_ADD : fuzz_u8(in),
        .id = fuzz_u8(in),
        .stag = peer->stag[region],
        .to = plan[region].iova + (how & 4 ? fuzz_u64(in) : 8 * fuzz_u8(in)),
        .data = fuzz_u64(in),
        .mask = how & 1 ? fuzz_u64(in) : UINT64_MAX,
        .compare_mask = how & 32 ? fuzz_u64(in) : 0,
    };
    uint8_t ulpdu[RNIC_RDMAP_ATOMIC_REQUEST_SIZE];

    rnic_rdmap_atomic_request_encode(
        &ar, how & 8 ? fuzz_u32(in) : peer->read_msn, ulpdu);
    peer->read_msn += !(how & 8);
    say_ulpdu(peer, in, ulpdu, sizeof(ulpdu), how);
}

static void say_atomic_response(struct peer *peer, struct fuzz_input *in)
{
    uint8_t how = fuzz_u8(in);
    struct rnic_rdmap_atomic_response ar = {
        /* As the device counts them */
        .id = how & 1 ? fuzz_u32(in) : peer->atomic_msn,
        .value = fuzz_u64(in),
    };
    uint8_t ulpdu[RNIC_RDMAP_ATOMIC_RESPONSE_SIZE];

    rnic_rdmap_atomic_response_encode(
        &ar, how & 8 ? fuzz_u32(in) : peer->atomic_msn, ulpdu);
    peer->atomic_msn += !(how & 8);
    say_ulpdu(peer, in, ulpdu, sizeof(ulpdu), how);
}

static void say_rfc7306(struct peer *peer, struct fuzz_input *in)
{
    switch (fuzz_u8(in) % 4) {
    case 0:
        say_atomic_response(peer, in);
        break;
    case 1:
        say_imm(peer, in);
        break;
    default:
        say_atomic_request(peer, in);
        break;
    }
}

static void say_terminate(struct peer *peer, struct fuzz_input *in)
{
    uint8_t how = fuzz_u8(in), buf[RNIC_TERM_SIZE_MAX], offender[46];
    enum rnic_wire_err err =
        RNIC_WIRE_MORE + 1 +
        fuzz_u8(in) % (RNIC_WIRE_ERR_COUNT - RNIC_WIRE_MORE - 1);
    size_t len;

    fuzz_octets(in, offender, sizeof(offender));
    len = rnic_term_encode(err, how & 1 ? offender : NULL,
                           how & 1 ? sizeof(offender) : 0,
                           how & 1 ? sizeof(offender) : 0, buf);
    if (len) {
        say_ulpdu(peer, in, buf, len, how);
    }
}

static void say_raw(struct peer *peer, struct fuzz_input *in)
{
    uint8_t octets[255];
    size_t len = fuzz_u8(in);

    len = MIN(len, in->left);
    fuzz_octets(in, octets, len);
    say(peer, octets, len);
}

static void dereg(struct peer *peer, unsigned region)
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

static void leave(struct peer *peer, bool write_side_only)
{
    if (peer->fd < 0) {
        return;
    }
    if (write_side_only) {
        shutdown(peer->fd, SHUT_WR);
    } else {
        close(peer->fd);
        peer->fd = -1;
    }
}

static void step(struct peer *peer, struct fuzz_input *in)
{
    switch (fuzz_u8(in) % 24) {
    case 0:
        say_raw(peer, in);
        break;
    case 1:
    case 2:
        say_tagged(peer, in, RNIC_RDMAP_WRITE);
        break;
    case 3:
    case 4:
        say_tagged(peer, in, RNIC_RDMAP_READ_RESPONSE);
        break;
    case 5:
    case 6:
    case 7:
        say_send(peer, in);
        break;
    case 8:
        say_read_request(peer, in);
        break;
    case 9:
        say_terminate(peer, in);
        break;
    case 10:
    case 11:
        run(peer);
        break;
    case 12:
    case 13:
        post_recv(peer, fuzz_u16(in));
        break;
    case 14:
    case 15:
        post_send(peer, in);
        break;
    case 16:
        peer->deaf = !peer->deaf;
        peer->was_deaf = true;
        hear(peer);
        break;
    case 17:
        dereg(peer, fuzz_u8(in) % REGIONS);
        break;
    case 18:
        leave(peer, fuzz_u8(in) & 1);
        break;
    case 19: {
        static const enum rnic_qp_state states[] = {
            RNIC_QPS_CLOSING,
            RNIC_QPS_TERMINATE,
            RNIC_QPS_ERROR,
        };

        th_qp_modify(peer->qp, states[fuzz_u8(in) % G_N_ELEMENTS(states)]);
        break;
    }
    case 20:
        world_advance_us(1000ull << (fuzz_u8(in) % 14));
        break;
    case 21:
        peer->slice = fuzz_u8(in);
        world_limit_send(fuzz_u16(in), 64);
        break;
    case 22:
    case 23:
        say_rfc7306(peer, in);
        break;
    }
}

/* ---- One input ---- */

static void connect_qp(struct peer *peer, struct fuzz_input *in)
{
    struct rnic_sockaddr local = th_sockaddr("10.0.0.1", 1);
    struct rnic_sockaddr remote = th_sockaddr("10.0.0.2", 2);
    rnic_device *dev = peer->guest->th->dev;
    struct rnic_stream *stream;
    uint8_t bits = fuzz_u8(in);

    peer->params = (struct rnic_qp_params){
        .initiator = bits & 1,
        .crc = bits & 2,
        .tx_markers = bits & 4,
        .ird = fuzz_u8(in) % 8,
        .ord = fuzz_u8(in) % 8,
    };
    if (peer->params.initiator) {
        peer->params.send_rtr = bits >> 5 & 3;
    } else {
        peer->params.await_rtr = bits >> 5 & 1;
    }
    stream = rnic_stream_new(dev, world_pair(&peer->fd), &local, &remote,
                             peer->params.initiator);
    g_assert_nonnull(stream);
    rnic_qp_connected(rnic_qp_find(dev, peer->qp->qpn), stream, &peer->params);
    if (!peer->params.initiator) {
        run(peer);
        fuzz_check(!dev->config.mpa_gate_strict || !peer->heard->len,
                   "a responder spoke before the first FPDU");
    }
}

/* Adds what is left in memory; the outcome, or NULL: it depends on the time */
static GByteArray *take_outcome(struct peer *peer)
{
    struct rnic_resp_query_qp resp = { 0 };
    unsigned i;

    if (!peer->was_cut || peer->was_deaf) {
        g_byte_array_unref(peer->outcome);
        return NULL;
    }
    for (i = 0; i < REGIONS; i++) {
        g_byte_array_append(peer->outcome, peer->buf[i].ptr, plan[i].len);
    }
    rnic_qp_query(peer->guest->th->dev, peer->qp->qpn, &resp);
    g_byte_array_append(peer->outcome, (const uint8_t *)&resp.term,
                        sizeof(resp.term));
    return peer->outcome;
}

static GByteArray *run_input(struct fuzz_input in, bool uncut)
{
    struct peer peer = {
        .fd = -1,
        .send_msn = 1,
        .read_msn = 1,
        .atomic_msn = 1,
        .uncut = uncut,
        .outcome = g_byte_array_new(),
    };
    struct th_options options;
    struct th_qp_attr attr;
    uint8_t bits = fuzz_u8(&in);
    unsigned i;

    world_reset();
    fuzz_options(&options, 256 << 10);
    options.config.rfc7306 = fuzz_u8(&in) & 1;
    options.config.mpa_gate_strict = !(bits & 1);
    options.config.fpdu_max = bits & 2 ? 128 + fuzz_u8(&in) : 64768;
    options.whole_mappings = bits & 4;
    peer.guest = fuzz_guest_new(&options);
    fuzz_guest_start(peer.guest);
    peer.heard = g_byte_array_new();

    th_qp_attr_init(&attr);
    attr.sq_depth = attr.rq_depth = QUEUE_DEPTH;
    attr.send_cq = th_cq_new(peer.guest->th, 128);
    attr.recv_cq = th_cq_new(peer.guest->th, 128);
    if (bits & 8) {
        peer.srq = th_srq_new(peer.guest->th, QUEUE_DEPTH, 2);
        attr.srq = peer.srq;
    }
    attr.flags = bits & 16 ? RNIC_QP_KERNEL : 0;
    peer.qp = th_qp_new(peer.guest->th, &attr);
    allow_rings(&peer);
    make_regions(&peer);
    for (i = 0; i < bits >> 5; i++) {
        post_recv(&peer, 100 + i);
    }
    connect_qp(&peer, &in);
    while (in.left) {
        step(&peer, &in);
    }

    /* The end: what is posted completes, or is flushed */
    peer.deaf = false;
    run(&peer);
    th_qp_modify(peer.qp, RNIC_QPS_ERROR);
    run(&peer);
    for (i = 0; i < peer.num_send; i++) {
        fuzz_check(peer.send[i].completed, "send %u never completes", i);
    }
    for (i = 0; !peer.srq && i < peer.num_recv; i++) {
        fuzz_check(peer.recv[i].completed, "receive %u never completes", i);
    }
    check_heard(&peer);
    check_untouched(&peer);
    peer.outcome = take_outcome(&peer);
    fuzz_guest_free(peer.guest);
    leave(&peer, false);
    g_byte_array_unref(peer.heard);
    return peer.outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    GByteArray *cut = run_input(in, false), *whole;

    if (cut) {
        whole = run_input(in, true);
        fuzz_check(whole && whole->len == cut->len &&
                       !memcmp(whole->data, cut->data, cut->len),
                   "what came depends on where it was cut");
        g_byte_array_unref(whole);
        g_byte_array_unref(cut);
    }
    return 0;
}
