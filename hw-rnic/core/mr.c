/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory regions
 *
 * A slot is found by the low 17 bits of an STag's index. Slots are given out
 * at random, with 7 random bits above that differ from those the slot had
 * last, so an STag that was removed does not soon name another region.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include "mr.h"

#define SLOT_BITS    17
#define SLOT_MASK    (RNIC_MAX_MR - 1)
#define GENERATIONS  (1u << (24 - SLOT_BITS))
#define RANDOM_BATCH 64
#define REMOTE_RIGHTS                                                          \
    (RNIC_ACCESS_REMOTE_READ | RNIC_ACCESS_REMOTE_WRITE |                      \
     RNIC_ACCESS_REMOTE_ATOMIC)

_Static_assert(RNIC_MAX_MR == 1u << SLOT_BITS, "slots");

struct mr {
    uint32_t stag; /* with the key of now */
    uint32_t pdn;
    uint32_t access;
    uint32_t max_pages; /* ALLOC_MR; 0: made by REG_MR */
    bool valid;
    bool all_dma;
    uint64_t iova;
    uint64_t length;
    /* For ALLOC_MR, pages has room for max_pages and num_pages is that room */
    struct rnic_buf buf;
};

struct rnic_mr_table {
    struct mr *slots[RNIC_MAX_MR];
    uint32_t free_slots[RNIC_MAX_MR];
    uint32_t num_free;
    uint8_t generation[RNIC_MAX_MR];
    uint32_t random[RANDOM_BATCH];
    unsigned num_random;
};

static uint32_t next_random(struct rnic_mr_table *table)
{
    if (!table->num_random) {
        ssize_t got = getrandom(table->random, sizeof(table->random), 0);

        if (got != sizeof(table->random)) {
            unsigned i;

            for (i = 0; i < RANDOM_BATCH; i++) {
                table->random[i] = g_random_int();
            }
        }
        table->num_random = RANDOM_BATCH;
    }
    return table->random[--table->num_random];
}

uint32_t rnic_mr_rights(struct rnic_device *dev)
{
    return RNIC_ACCESS_ALL |
           (dev->config.rfc7306 ? RNIC_ACCESS_REMOTE_ATOMIC : 0);
}

void rnic_mr_table_init(struct rnic_device *dev)
{
    struct rnic_mr_table *table = g_new0(struct rnic_mr_table, 1);
    uint32_t i;

    for (i = 0; i < RNIC_MAX_MR; i++) {
        table->free_slots[i] = i;
    }
    table->num_free = RNIC_MAX_MR;
    dev->mrs = table;
}

/* ---- STags ---- */

/* The region of an STag, whatever its key and state */
static struct mr *find_index(struct rnic_device *dev, uint32_t stag)
{
    struct mr *mr = dev->mrs->slots[(stag >> 8) & SLOT_MASK];

    return mr && mr->stag >> 8 == stag >> 8 ? mr : NULL;
}

static struct mr *find(struct rnic_device *dev, uint32_t stag)
{
    struct mr *mr = find_index(dev, stag);

    return mr && mr->stag == stag && mr->valid ? mr : NULL;
}

/* Gives @mr an STag; false: every slot is taken */
static bool give_stag(struct rnic_device *dev, struct mr *mr, uint8_t key)
{
    struct rnic_mr_table *table = dev->mrs;
    uint32_t at, slot, generation;

    if (!table->num_free) {
        return false;
    }
    at = next_random(table) % table->num_free;
    slot = table->free_slots[at];
    table->free_slots[at] = table->free_slots[--table->num_free];
    do {
        generation = next_random(table) % GENERATIONS;
        /* Index 0 is that of RNIC_STAG_LOCAL_DMA */
    } while (generation == table->generation[slot] ||
             (slot == 0 && generation == 0));
    table->generation[slot] = generation;
    mr->stag = (generation << SLOT_BITS | slot) << 8 | key;
    table->slots[slot] = mr;
    return true;
}

static void mr_free(struct rnic_device *dev, struct mr *mr)
{
    struct rnic_mr_table *table = dev->mrs;
    uint32_t slot = (mr->stag >> 8) & SLOT_MASK;

    table->slots[slot] = NULL;
    table->free_slots[table->num_free++] = slot;
    rnic_buf_clear(&mr->buf);
    g_free(mr);
}

void rnic_mr_reset_all(struct rnic_device *dev)
{
    uint32_t i;

    if (dev->mrs->num_free == RNIC_MAX_MR) {
        return;
    }
    for (i = 0; i < RNIC_MAX_MR; i++) {
        if (dev->mrs->slots[i]) {
            mr_free(dev, dev->mrs->slots[i]);
        }
    }
}

void rnic_mr_table_fini(struct rnic_device *dev)
{
    rnic_mr_reset_all(dev);
    g_free(dev->mrs);
    dev->mrs = NULL;
}

/* ---- Commands ---- */

static bool desc_is_zero(const struct rnic_buf_desc *desc)
{
    static const struct rnic_buf_desc zero;

    return memcmp(desc, &zero, sizeof(zero)) == 0;
}

enum rnic_admin_status rnic_mr_reg(struct rnic_device *dev,
                                   const struct rnic_cmd_reg_mr *cmd,
                                   uint32_t *stag)
{
    uint32_t pdn = GUINT32_FROM_LE(cmd->pdn);
    uint32_t access = GUINT32_FROM_LE(cmd->access);
    uint32_t flags = GUINT32_FROM_LE(cmd->flags);
    uint64_t iova = GUINT64_FROM_LE(cmd->iova);
    enum rnic_admin_status status;
    struct mr *mr;

    if (pdn == 0 || pdn >= RNIC_MAX_PD || access & ~rnic_mr_rights(dev) ||
        flags & ~RNIC_MR_ALL_DMA || cmd->rsvd[0] || cmd->rsvd[1] ||
        cmd->rsvd[2]) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    mr = g_new0(struct mr, 1);
    if (flags & RNIC_MR_ALL_DMA) {
        if (iova || !desc_is_zero(&cmd->buf)) {
            g_free(mr);
            return RNIC_ADMIN_BAD_PARAM;
        }
        mr->all_dma = true;
        mr->length = UINT64_MAX;
    } else {
        /* The length is checked before it is added to */
        status = rnic_buf_init(dev, &mr->buf, &cmd->buf, RNIC_MAX_MR_SIZE);
        if (status == RNIC_ADMIN_OK && mr->buf.length > UINT64_MAX - iova) {
            rnic_buf_clear(&mr->buf);
            status = RNIC_ADMIN_BAD_PARAM;
        }
        if (status != RNIC_ADMIN_OK) {
            g_free(mr);
            return status;
        }
        mr->length = mr->buf.length;
    }
    mr->pdn = pdn;
    mr->access = access;
    mr->iova = iova;
    mr->valid = true;
    if (!give_stag(dev, mr, cmd->key)) {
        rnic_buf_clear(&mr->buf);
        g_free(mr);
        return RNIC_ADMIN_NO_RESOURCES;
    }
    *stag = mr->stag;
    rnic_trace(dev, mr,
               "STag 0x%08x registered: PD %u, %" PRIu64 " octets at "
               "TO 0x%" PRIx64 ", rights 0x%x",
               mr->stag, pdn, mr->length, iova, access);
    return RNIC_ADMIN_OK;
}

enum rnic_admin_status rnic_mr_alloc(struct rnic_device *dev,
                                     const struct rnic_cmd_alloc_mr *cmd,
                                     uint32_t *stag)
{
    uint32_t pdn = GUINT32_FROM_LE(cmd->pdn);
    uint32_t max_pages = GUINT32_FROM_LE(cmd->max_pages);
    struct mr *mr;

    if (pdn == 0 || pdn >= RNIC_MAX_PD || max_pages == 0 ||
        max_pages > RNIC_MAX_FR_PAGES || cmd->rsvd[0] || cmd->rsvd[1] ||
        cmd->rsvd[2]) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    if (max_pages >
        RNIC_MAX_BUF_PAGES - MIN(dev->buf_pages, RNIC_MAX_BUF_PAGES)) {
        return RNIC_ADMIN_NO_RESOURCES;
    }
    mr = g_new0(struct mr, 1);
    mr->pdn = pdn;
    mr->max_pages = max_pages;
    if (!give_stag(dev, mr, cmd->key)) {
        g_free(mr);
        return RNIC_ADMIN_NO_RESOURCES;
    }
    mr->buf.dev = dev;
    mr->buf.pages = g_new0(uint64_t, max_pages);
    mr->buf.num_pages = max_pages;
    dev->buf_pages += max_pages;
    *stag = mr->stag;
    rnic_trace(dev, mr, "STag 0x%08x allocated: PD %u, up to %u pages",
               mr->stag, pdn, max_pages);
    return RNIC_ADMIN_OK;
}

enum rnic_admin_status rnic_mr_dereg(struct rnic_device *dev, uint32_t stag)
{
    struct mr *mr = find_index(dev, stag);

    if (!mr) {
        return RNIC_ADMIN_BAD_ID;
    }
    rnic_trace(dev, mr, "STag 0x%08x removed", mr->stag);
    mr_free(dev, mr);
    return RNIC_ADMIN_OK;
}

/* ---- Work requests ---- */

enum rnic_mr_error rnic_mr_fast_reg(struct rnic_device *dev, uint32_t pdn,
                                    const struct rnic_reg_wqe *wqe)
{
    uint32_t stag = GUINT32_FROM_LE(wqe->stag);
    uint32_t access = GUINT32_FROM_LE(wqe->access);
    uint32_t num_pages = GUINT32_FROM_LE(wqe->num_pages);
    uint32_t page_shift = GUINT32_FROM_LE(wqe->page_shift);
    uint64_t iova = GUINT64_FROM_LE(wqe->iova);
    uint64_t length = GUINT64_FROM_LE(wqe->length);
    uint64_t list = GUINT64_FROM_LE(wqe->pages);
    uint64_t pages[RNIC_MAX_FR_PAGES];
    uint64_t page_size, first_offset;
    struct mr *mr = find_index(dev, stag);
    uint32_t i;

    if (!mr || !mr->max_pages || mr->valid) {
        return RNIC_MR_BAD_STAG;
    }
    if (mr->pdn != pdn) {
        return RNIC_MR_BAD_PD;
    }
    if (length > UINT64_MAX - iova) {
        return RNIC_MR_WRAP;
    }
    if (!num_pages || num_pages > mr->max_pages || page_shift < 12 ||
        page_shift > 21) {
        return RNIC_MR_BOUNDS;
    }
    page_size = 1ull << page_shift;
    /* Where the region starts in its first page follows from its TO */
    first_offset = iova & (page_size - 1);
    if (!length || length > num_pages * page_size - first_offset) {
        return RNIC_MR_BOUNDS;
    }
    if (access & ~rnic_mr_rights(dev)) {
        return RNIC_MR_ACCESS;
    }
    if (list % sizeof(pages[0]) ||
        !rnic_dma_read(dev, list, pages, num_pages * sizeof(pages[0]))) {
        return RNIC_MR_DMA;
    }
    for (i = 0; i < num_pages; i++) {
        pages[i] = GUINT64_FROM_LE(pages[i]);
        if (pages[i] & (page_size - 1)) {
            return RNIC_MR_DMA;
        }
    }
    memcpy(mr->buf.pages, pages, num_pages * sizeof(pages[0]));
    mr->buf.first_offset = first_offset;
    mr->buf.page_shift = page_shift;
    mr->buf.length = length;
    mr->stag = stag;
    mr->access = access;
    mr->iova = iova;
    mr->length = length;
    mr->valid = true;
    rnic_trace(dev, mr,
               "STag 0x%08x registered by a work request: PD %u, "
               "%" PRIu64 " octets at TO 0x%" PRIx64 ", rights 0x%x",
               stag, pdn, length, iova, access);
    return RNIC_MR_OK;
}

enum rnic_mr_error rnic_mr_invalidate(struct rnic_device *dev, uint32_t pdn,
                                      uint32_t stag, bool remote)
{
    struct mr *mr = find(dev, stag);

    if (!mr) {
        return RNIC_MR_BAD_STAG;
    }
    if (mr->pdn != pdn) {
        return RNIC_MR_BAD_PD;
    }
    /* A peer can only take away what it was given */
    if (remote && (mr->all_dma || !(mr->access & REMOTE_RIGHTS))) {
        return RNIC_MR_ACCESS;
    }
    mr->valid = false;
    rnic_trace(dev, mr, "STag 0x%08x invalidated by %s", stag,
               remote ? "the peer" : "a work request");
    return RNIC_MR_OK;
}

/* ---- Use ---- */

static enum rnic_mr_error check(struct rnic_device *dev, uint32_t pdn,
                                uint32_t stag, uint64_t to, uint64_t len,
                                uint32_t access, bool kernel, struct mr **out)
{
    bool local_dma =
        kernel && stag == RNIC_STAG_LOCAL_DMA && !(access & REMOTE_RIGHTS);
    struct mr *mr = local_dma ? NULL : find(dev, stag);

    *out = mr;
    if (!mr && !local_dma) {
        return RNIC_MR_BAD_STAG;
    }
    if (mr && mr->pdn != pdn) {
        return RNIC_MR_BAD_PD;
    }
    if (len > UINT64_MAX - to) {
        return RNIC_MR_WRAP;
    }
    if (!mr) {
        return RNIC_MR_OK;
    }
    if (to < mr->iova || to - mr->iova > mr->length ||
        len > mr->length - (to - mr->iova)) {
        return RNIC_MR_BOUNDS;
    }
    if (access & ~mr->access) {
        return RNIC_MR_ACCESS;
    }
    return RNIC_MR_OK;
}

enum rnic_mr_error rnic_mr_check(struct rnic_device *dev, uint32_t pdn,
                                 uint32_t stag, uint64_t to, uint64_t len,
                                 uint32_t access, bool kernel)
{
    struct mr *mr;

    return len ? check(dev, pdn, stag, to, len, access, kernel, &mr)
               : RNIC_MR_OK;
}

void rnic_mapping_init(struct rnic_mapping *map, enum rnic_dma_dir dir)
{
    map->count = 0;
    map->length = 0;
    map->dir = dir;
}

/* DMA address of octet @offset, and how many of @len follow in DMA space;
 * pages that happen to follow each other count as one */
static uint64_t translate(const struct mr *mr, uint64_t offset, uint64_t len,
                          uint64_t *contig)
{
    uint64_t addr = rnic_buf_addr(&mr->buf, offset, contig);

    while (*contig < len) {
        uint64_t more;

        if (rnic_buf_addr(&mr->buf, offset + *contig, &more) !=
            addr + *contig) {
            break;
        }
        *contig += more;
    }
    *contig = MIN(*contig, len);
    return addr;
}

enum rnic_mr_error rnic_mr_map(struct rnic_device *dev, uint32_t pdn,
                               uint32_t stag, uint64_t to, uint64_t len,
                               uint32_t access, bool kernel,
                               struct rnic_mapping *map, uint64_t *done)
{
    enum rnic_mr_error error;
    struct mr *mr;

    *done = 0;
    if (!len) {
        return RNIC_MR_OK;
    }
    error = check(dev, pdn, stag, to, len, access, kernel, &mr);
    if (error != RNIC_MR_OK) {
        return error;
    }
    while (len && map->count < G_N_ELEMENTS(map->iov)) {
        uint64_t addr = to, contig = len;

        if (mr && !mr->all_dma) {
            addr = translate(mr, to - mr->iova, len, &contig);
        }
        while (contig && map->count < G_N_ELEMENTS(map->iov)) {
            uint64_t mapped = contig;
            void *ptr = dev->ops->dma_map(dev->opaque, addr, &mapped, map->dir);

            if (!ptr) {
                return RNIC_MR_DMA;
            }
            map->iov[map->count].iov_base = ptr;
            map->iov[map->count].iov_len = mapped;
            map->count++;
            map->length += mapped;
            *done += mapped;
            addr += mapped;
            contig -= mapped;
            to += mapped;
            len -= mapped;
        }
    }
    return RNIC_MR_OK;
}

void rnic_mapping_release(struct rnic_device *dev, struct rnic_mapping *map,
                          uint64_t used)
{
    unsigned i;

    for (i = 0; i < map->count; i++) {
        uint64_t len = map->iov[i].iov_len;
        uint64_t written = MIN(used, len);

        dev->ops->dma_unmap(dev->opaque, map->iov[i].iov_base, len, map->dir,
                            written);
        used -= written;
    }
    map->count = 0;
    map->length = 0;
}
