/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of the device's application in a replayed connection: with the STags
 * and TOs that siw's FPDUs name, and a shadow that says what must be in it
 *
 * A TO is the driver's choice. An STag is the device's, at random: so this
 * file hands it the random numbers with which it comes to the one that is
 * needed.
 */
#include "raw-peer.h"
#include "replay.h"

#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- The STags that the device gives ---- */

#define SLOTS (1u << 17)
#define DRAWS 64

static uint32_t draws[DRAWS];
static unsigned num_draws;

/* Instead of the C library's, for the core, which draws 64 words at a time and
 * uses the last first */
ssize_t getrandom(void *to, size_t len, unsigned flags)
{
    unsigned i;

    if (!num_draws) {
        return syscall(SYS_getrandom, to, len, flags);
    }
    g_assert_cmpuint(len, ==, sizeof(draws));
    for (i = 0; i < DRAWS; i++) {
        ((uint32_t *)to)[DRAWS - 1 - i] = draws[i];
    }
    num_draws = 0;
    return len;
}

/* The draws for these STags, the first ones that a device gives: where the
 * slot is in the list of free ones, then the bits above it */
static void draws_plan(const uint32_t *stags, unsigned count)
{
    g_autofree uint32_t *list = g_new(uint32_t, SLOTS);
    uint32_t left = SLOTS, at;
    unsigned i;

    g_assert_cmpuint(2 * count, <=, DRAWS);
    for (i = 0; i < SLOTS; i++) {
        list[i] = i;
    }
    memset(draws, 0, sizeof(draws));
    for (i = 0; i < count; i++) {
        uint32_t slot = stags[i] >> 8 & (SLOTS - 1);

        for (at = 0; list[at] != slot; at++) {
            g_assert_cmpuint(at, <, left);
        }
        list[at] = list[--left];
        draws[2 * i] = at;
        draws[2 * i + 1] = stags[i] >> 8 >> 17;
    }
    num_draws = 2 * count;
}

/* ---- Regions ---- */

static struct replay_region *region_find(struct replay *r, uint32_t stag)
{
    unsigned i;

    for (i = 0; i < r->regions->len; i++) {
        struct replay_region *region =
            &g_array_index(r->regions, struct replay_region, i);

        if (region->stag == stag) {
            return region;
        }
    }
    return NULL;
}

static struct replay_region *region_need(struct replay *r, uint32_t stag,
                                         uint64_t to, uint64_t len)
{
    struct replay_region *region = region_find(r, stag), one = { .stag = stag };

    if (!len || (stag == REPLAY_NO_STAG && r->row->fault == REPLAY_NO_REGION)) {
        return NULL;
    }
    if (!region) {
        one.start = to;
        one.end = to + len;
        g_array_append_val(r->regions, one);
        return region_find(r, stag);
    }
    region->start = MIN(region->start, to);
    region->end = MAX(region->end, to + len);
    return region;
}

/* Who does what in this connection */
void replay_plan(struct replay *r)
{
    bool p2p = r->c->frame[CAP_CLIENT].ird & RAW_A;
    const struct cap_message *last = NULL;
    unsigned i;

    for (i = 0; i < r->c->messages->len; i++) {
        struct cap_message *m = g_ptr_array_index(r->c->messages, i);
        struct replay_region *region;

        if (m->side == r->device) {
            if (m->opcode == CAP_TERM) {
                r->fault = last;
                continue;
            }
            if (p2p && r->device == CAP_CLIENT && !r->expect[0]->len) {
                r->rtr = m;
            }
            g_ptr_array_add(r->expect[m->opcode == CAP_READ_RSP], m);
            if (m->opcode == CAP_READ_REQ) {
                region_need(r, m->sink_stag, m->sink_to, m->size);
            }
            continue;
        }
        last = m;
        if (m->opcode == CAP_WRITE) {
            region = region_need(r, m->stag, m->to, m->payload->len);
            if (region) {
                region->writable = true;
            }
        } else if (m->opcode == CAP_READ_REQ) {
            region_need(r, m->source_stag, m->source_to, m->size);
        } else if (cap_is_send(m)) {
            g_ptr_array_add(r->receives, m);
            if (m->opcode == CAP_SEND_INV || m->opcode == CAP_SEND_SEI) {
                region = region_find(r, m->stag);
                if (region) {
                    region->fast = true;
                } else {
                    r->fault = m;
                }
            }
        }
    }
    if (r->fault && r->row->fault == REPLAY_NO_RIGHT) {
        region_find(r, r->fault->stag)->writable = false;
    } else if (r->fault && r->row->fault == REPLAY_BOUNDS) {
        region_find(r, r->fault->source_stag)->end -= 32;
    }
}

static void make_region(struct replay *r, struct replay_region *region,
                        bool alloc)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_ALLOC_MR };
    struct rnic_acqe resp;
    uint32_t offset = region->start % TH_PAGE;

    region->buf =
        th_buf_new(r->peer.guest, region->end - region->start, 1, offset);
    region->pages = region->buf.ptr - offset;
    region->len = (offset + region->buf.len + TH_PAGE - 1) / TH_PAGE * TH_PAGE;
    memset(region->pages, REPLAY_UNUSED, region->len);
    region->shadow = g_memdup2(region->pages, region->len);
    if (!alloc) {
        return;
    }
    if (region->fast) {
        cmd.alloc_mr.pdn = GUINT32_TO_LE(TH_PD);
        cmd.alloc_mr.max_pages = GUINT32_TO_LE(16);
        cmd.alloc_mr.key = region->stag;
    } else {
        cmd.opcode = RNIC_CMD_REG_MR;
        cmd.reg_mr.pdn = GUINT32_TO_LE(TH_PD);
        cmd.reg_mr.access =
            GUINT32_TO_LE(RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_READ |
                          (region->writable ? RNIC_ACCESS_REMOTE_WRITE : 0));
        cmd.reg_mr.key = region->stag;
        cmd.reg_mr.iova = GUINT64_TO_LE(region->start);
        cmd.reg_mr.buf = region->buf.desc;
        region->valid = true;
    }
    g_assert_cmpuint(th_admin(r->peer.guest, &cmd, &resp), ==, RNIC_ADMIN_OK);
    g_assert_cmphex(GUINT32_FROM_LE(resp.mr.stag), ==, region->stag);
}

/* Regions that differ in the key only are one, registered again and again */
static void make_regions(struct replay *r)
{
    uint32_t stags[DRAWS];
    unsigned count = 0, i, j;
    bool *first = g_new0(bool, r->regions->len + 1);

    for (i = 0; i < r->regions->len; i++) {
        uint32_t stag = g_array_index(r->regions, struct replay_region, i).stag;

        for (j = 0; j < count && stags[j] >> 8 != stag >> 8; j++) {
        }
        if (j == count) {
            g_assert_cmpuint(count, <, DRAWS);
            stags[count++] = stag;
            first[i] = true;
        }
    }
    draws_plan(stags, count);
    for (i = 0; i < r->regions->len; i++) {
        make_region(r, &g_array_index(r->regions, struct replay_region, i),
                    first[i]);
    }
    g_free(first);
}

void replay_make_memory(struct replay *r)
{
    struct th_guest *guest = r->peer.guest;
    uint32_t at = REPLAY_GAP, out = 1;
    unsigned i;

    for (i = 0; i < r->receives->len; i++) {
        const struct cap_message *m = g_ptr_array_index(r->receives, i);

        g_array_append_val(r->rx_at, at);
        at += m->payload->len + REPLAY_GAP;
    }
    for (i = 0; i < r->expect[0]->len; i++) {
        out += ((struct cap_message *)r->expect[0]->pdata[i])->payload->len;
    }
    r->rx = th_buf_new(guest, at + 1, 0, 0);
    r->tx = th_buf_new(guest, out, 0, 0);
    memset(r->rx.ptr, REPLAY_UNUSED, r->rx.len);
    make_regions(r);
}

/* Receives that just hold what siw sends, and one more */
void replay_post_receives(struct replay *r)
{
    struct rnic_sge none = { 0 };
    unsigned i;

    for (i = 0; i < r->receives->len; i++) {
        const struct cap_message *m = g_ptr_array_index(r->receives, i);
        uint32_t at = g_array_index(r->rx_at, uint32_t, i);
        struct rnic_sge sge =
            th_sge(RNIC_STAG_LOCAL_DMA, r->rx.dma + at, m->payload->len);

        if (m == r->fault && r->row->fault == REPLAY_NO_RECEIVE) {
            return;
        }
        th_post_recv(r->peer.qp, i, &sge, m->payload->len ? 1 : 0);
    }
    if (r->row->fault != REPLAY_NO_RECEIVE || r->device == CAP_CLIENT) {
        th_post_recv(r->peer.qp, i, &none, 0);
    }
}

/* ---- Work requests ---- */

void replay_reap(struct replay *r)
{
    struct rnic_cqe cqe;

    while (th_cq_poll(r->peer.qp->attr.send_cq, &cqe)) {
        g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, r->completed);
        g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
        r->completed++;
    }
}

void replay_post(struct replay *r, struct th_wr *wr)
{
    wr->flags |= RNIC_WQE_SIGNALED;
    wr->wr_id = r->posted++;
    th_post_send(r->peer.qp, wr, 1);
}

/* ---- What siw sends ---- */

static void shadow_put(struct replay *r, uint32_t stag, uint64_t to,
                       const uint8_t *octets, size_t len)
{
    struct replay_region *region = region_find(r, stag);

    if (len) {
        memcpy(region->shadow + region->start % TH_PAGE + (to - region->start),
               octets, len);
    }
}

static void fast_register(struct replay *r, struct replay_region *region)
{
    unsigned count = region->len / TH_PAGE, i;
    uint64_t list = th_alloc(r->peer.guest, count * 8, 8);
    uint64_t *pages = th_ptr(r->peer.guest, list);
    struct th_wr wr = {
        .opcode = RNIC_WR_REG_MR,
        .reg = {
            .stag = GUINT32_TO_LE(region->stag),
            .access = GUINT32_TO_LE(RNIC_ACCESS_ALL),
            .num_pages = GUINT32_TO_LE(count),
            .iova = GUINT64_TO_LE(region->start),
            .length = GUINT64_TO_LE(region->end - region->start),
            .pages = GUINT64_TO_LE(list),
            .page_shift = GUINT32_TO_LE(12),
        },
    };

    for (i = 0; i < count; i++) {
        pages[i] = GUINT64_TO_LE(region->buf.pages[i]);
    }
    replay_post(r, &wr);
    th_wait((replay_reap(r), r->completed == r->posted));
    region->valid = true;
}

/* Before the first octet of an FPDU: what the application did by then */
void replay_prepare_fpdu(struct replay *r, const struct cap_fpdu *fpdu)
{
    const struct cap_message *m = fpdu->message;
    bool reads = m->opcode == CAP_READ_REQ;
    uint32_t stag = reads ? m->source_stag : m->stag;
    struct replay_region *region = NULL;

    if (reads || m->opcode == CAP_WRITE) {
        region = region_find(r, stag);
    }
    if (region && region->fast && !region->valid) {
        fast_register(r, region);
    }
    if (reads && m->partner && m->size) {
        const GByteArray *octets = m->partner->payload;

        shadow_put(r, stag, m->source_to, octets->data, octets->len);
        memcpy(region->buf.ptr + (m->source_to - region->start), octets->data,
               octets->len);
    }
}

/* After its last octet: what the device will do */
void replay_account_fpdu(struct replay *r, const struct cap_fpdu *fpdu)
{
    const struct cap_message *m = fpdu->message;
    const struct cap_fpdu *next = fpdu + 1;
    GArray *all = r->c->fpdus[r->siw];
    size_t end = m->payload->len;
    struct replay_region *region;

    if (m == r->fault || r->dead) {
        return;
    }
    /* To where the next FPDU of this message begins */
    for (; next < &g_array_index(all, struct cap_fpdu, all->len); next++) {
        if (next->message == m) {
            end = next->payload;
            break;
        }
    }
    if (m->opcode == CAP_WRITE || m->opcode == CAP_READ_RSP) {
        shadow_put(r, m->stag, m->to + fpdu->payload,
                   m->payload->data + fpdu->payload, end - fpdu->payload);
    } else if (m->opcode == CAP_SEND_INV || m->opcode == CAP_SEND_SEI) {
        region = region_find(r, m->stag);
        region->valid = false;
    }
}

bool replay_memory_is_right(struct replay *r)
{
    unsigned i;

    for (i = 0; i < r->regions->len; i++) {
        struct replay_region *region =
            &g_array_index(r->regions, struct replay_region, i);

        if (memcmp(region->pages, region->shadow, region->len)) {
            return false;
        }
    }
    return true;
}

static void check_receive(struct replay *r, const struct rnic_cqe *cqe)
{
    const struct cap_message *m = r->receives->pdata[r->received];
    bool inv = m->opcode == CAP_SEND_INV || m->opcode == CAP_SEND_SEI;
    bool solicited = m->opcode == CAP_SEND_SE || m->opcode == CAP_SEND_SEI;
    uint32_t at = g_array_index(r->rx_at, uint32_t, r->received);

    g_assert_cmpuint(GUINT64_FROM_LE(cqe->wr_id), ==, r->received);
    g_assert_cmpuint(cqe->status, ==, RNIC_WC_SUCCESS);
    g_assert_cmpuint(GUINT32_FROM_LE(cqe->byte_len), ==, m->payload->len);
    g_assert_cmpuint(cqe->flags, ==,
                     (inv ? RNIC_CQE_WITH_INV : 0) |
                         (solicited ? RNIC_CQE_SOLICITED : 0));
    if (inv) {
        g_assert_cmphex(GUINT32_FROM_LE(cqe->inv_stag), ==, m->stag);
    }
    g_assert_cmpmem(r->rx.ptr + at, m->payload->len, m->payload->data,
                    m->payload->len);
}

/* The device has done all that it was told to so far */
void replay_settle(struct replay *r)
{
    struct rnic_cqe cqe;

    while (r->received < r->receives->len) {
        const struct cap_message *m = r->receives->pdata[r->received];

        if (m->last_end > r->sent || m == r->fault) {
            break;
        }
        th_cq_wait(r->peer.qp->attr.recv_cq, &cqe);
        check_receive(r, &cqe);
        r->received++;
    }
    th_wait(replay_memory_is_right(r));
}
