/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * User contexts and their doorbells
 */
#include "device.h"
#include "netq.h"
#include "qp.h"

#define SUMMARY_WORDS G_N_ELEMENTS(((struct rnic_dbmap *)0)->summary)
#define WORDS         G_N_ELEMENTS(((struct rnic_dbmap *)0)->word)

struct rnic_uctx *rnic_uctx_find(struct rnic_device *dev, uint32_t id)
{
    return id < RNIC_DB_PAGES ? dev->uctx[id] : NULL;
}

enum rnic_admin_status rnic_uctx_create(struct rnic_device *dev,
                                        const struct rnic_cmd_uctx *cmd)
{
    uint32_t id = GUINT32_FROM_LE(cmd->uctx);
    uint64_t dbmap = GUINT64_FROM_LE(cmd->dbmap);
    struct rnic_uctx *uctx;

    if (id >= RNIC_DB_PAGES) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    if (dev->uctx[id]) {
        return RNIC_ADMIN_IN_USE;
    }
    if (cmd->rsvd) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    if (dbmap % RNIC_DBMAP_SIZE ||
        !rnic_dma_probe(dev, dbmap, sizeof(struct rnic_dbmap), RNIC_DMA_BOTH)) {
        return RNIC_ADMIN_BAD_ADDRESS;
    }
    uctx = g_new0(struct rnic_uctx, 1);
    uctx->id = id;
    uctx->dbmap = dbmap;
    dev->uctx[id] = uctx;
    return RNIC_ADMIN_OK;
}

enum rnic_admin_status rnic_uctx_destroy(struct rnic_device *dev, uint32_t id)
{
    struct rnic_uctx *uctx = rnic_uctx_find(dev, id);

    if (!uctx) {
        return RNIC_ADMIN_BAD_ID;
    }
    if (uctx->refs) {
        return RNIC_ADMIN_IN_USE;
    }
    dev->uctx[id] = NULL;
    g_free(uctx);
    return RNIC_ADMIN_OK;
}

void rnic_uctx_reset_all(struct rnic_device *dev)
{
    unsigned i;

    for (i = 0; i < RNIC_DB_PAGES; i++) {
        g_free(dev->uctx[i]);
        dev->uctx[i] = NULL;
    }
}

/* ---- Doorbells ---- */

void rnic_device_doorbell(rnic_device *dev, uint64_t offset, unsigned size)
{
    uint64_t page = offset / RNIC_DB_PAGE_SIZE;
    uint64_t bit;

    if (page >= RNIC_DB_PAGES || offset % RNIC_DB_PAGE_SIZE != RNIC_DB_KICK ||
        size != 4) {
        rnic_guest_error(dev,
                         "write of %u octets at 0x%" PRIx64 " of the "
                         "doorbell BAR, where nothing is",
                         size, offset);
        return;
    }
    rnic_stat_inc(dev, RNIC_STAT_kicks);
    bit = 1ull << (page % 64);
    /* A bit that is still set has not been taken: the engine will look */
    if (!(atomic_fetch_or(&dev->kicked[page / 64], bit) & bit)) {
        rnic_loop_wake(dev, RNIC_WORK_DOORBELL);
    }
}

/* A word of the bitmap: bit i stands for QP 64 * index + i */
struct taken {
    uint64_t bits;
    unsigned index;
};

/*
 * Exchanges the summary words, then the words they name, with zero. Returns
 * how many words it put into @taken, or -1 if the bitmap is not RAM.
 */
static int take_bitmap(struct rnic_device *dev, struct rnic_uctx *uctx,
                       struct taken taken[WORDS])
{
    uint64_t mapped = sizeof(struct rnic_dbmap);
    _Atomic uint64_t *dbmap;
    bool whole;
    int count = 0;
    size_t s;

    dbmap = dev->ops->dma_map(dev->opaque, uctx->dbmap, &mapped, RNIC_DMA_BOTH);
    if (!dbmap) {
        return -1;
    }
    whole = mapped == sizeof(struct rnic_dbmap);
    for (s = 0; whole && s < SUMMARY_WORDS; s++) {
        uint64_t summary = 0;

        if (atomic_load_explicit(&dbmap[s], memory_order_relaxed)) {
            summary = GUINT64_FROM_LE(atomic_exchange(&dbmap[s], 0));
        }
        for (; summary; summary &= summary - 1) {
            unsigned w = s * 64 + __builtin_ctzll(summary);

            taken[count].index = w;
            taken[count++].bits =
                GUINT64_FROM_LE(atomic_exchange(&dbmap[SUMMARY_WORDS + w], 0));
        }
    }
    dev->ops->dma_unmap(dev->opaque, (void *)dbmap, mapped, RNIC_DMA_BOTH,
                        whole ? mapped : 0);
    return whole ? count : -1;
}

static void run_context(struct rnic_device *dev, uint32_t id)
{
    struct rnic_uctx *uctx = dev->uctx[id];
    struct taken taken[WORDS];
    int count, i;

    if (!uctx) {
        rnic_guest_error(dev,
                         "doorbell page %u was written, but there is no "
                         "context %u",
                         id, id);
        return;
    }
    count = take_bitmap(dev, uctx, taken);
    if (count < 0) {
        rnic_guest_error(
            dev, "context %u: its doorbell bitmap at 0x%" PRIx64 " is not RAM",
            id, uctx->dbmap);
        return;
    }
    for (i = 0; i < count; i++) {
        uint64_t bits = taken[i].bits;

        for (; bits; bits &= bits - 1) {
            uint32_t qpn = taken[i].index * 64 + __builtin_ctzll(bits);
            struct rnic_qp *qp;

            rnic_stat_own(dev, RNIC_STAT_doorbells, 1);
            if (qpn == RNIC_NETQ_QPN && id == 0 && dev->netq) {
                rnic_netq_kick(dev);
                continue;
            }
            rnic_trace(dev, doorbell, "context %u rings for QP %u", id, qpn);
            qp = rnic_qp_find(dev, qpn);
            if (qp && qp->uctx == uctx) {
                qp->stats[RNIC_STAT_doorbells]++;
            }
            rnic_qp_kick(dev, qpn, uctx);
        }
    }
}

void rnic_uctx_run(struct rnic_device *dev)
{
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(dev->kicked); i++) {
        uint64_t pages = 0;

        if (atomic_load_explicit(&dev->kicked[i], memory_order_relaxed)) {
            pages = atomic_exchange(&dev->kicked[i], 0);
        }

        while (dev->ready && pages) {
            run_context(dev, i * 64 + __builtin_ctzll(pages));
            pages &= pages - 1;
        }
    }
}
