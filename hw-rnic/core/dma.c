/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guest memory: copies, words, and buffers that page lists describe
 */
#include <string.h>
#include "device.h"

#define TABLE_SIZE    4096
#define TABLE_ENTRIES 512
#define CONTIGUOUS    63 /* page_shift of a buffer of one page */

static bool dma_copy(struct rnic_device *dev, uint64_t addr, uint8_t *buf,
                     size_t len, enum rnic_dma_dir dir)
{
    if (len > UINT64_MAX - addr) {
        return false;
    }
    while (len) {
        uint64_t mapped = len;
        void *ptr = dev->ops->dma_map(dev->opaque, addr, &mapped, dir);

        if (!ptr) {
            return false;
        }
        if (dir == RNIC_DMA_FROM_GUEST) {
            memcpy(buf, ptr, mapped);
        } else {
            memcpy(ptr, buf, mapped);
        }
        dev->ops->dma_unmap(dev->opaque, ptr, mapped, dir,
                            dir == RNIC_DMA_FROM_GUEST ? 0 : mapped);
        addr += mapped;
        buf += mapped;
        len -= mapped;
    }
    return true;
}

bool rnic_dma_read(struct rnic_device *dev, uint64_t addr, void *to, size_t len)
{
    return dma_copy(dev, addr, to, len, RNIC_DMA_FROM_GUEST);
}

bool rnic_dma_write(struct rnic_device *dev, uint64_t addr, const void *from,
                    size_t len)
{
    return dma_copy(dev, addr, (void *)from, len, RNIC_DMA_TO_GUEST);
}

void rnic_dma_fence(struct rnic_device *dev)
{
    if (dev->ops->fence) {
        dev->ops->fence(dev->opaque);
    } else {
        atomic_thread_fence(memory_order_seq_cst);
    }
}

bool rnic_dma_probe(struct rnic_device *dev, uint64_t addr, uint64_t len,
                    enum rnic_dma_dir dir)
{
    if (len > UINT64_MAX - addr) {
        return false;
    }
    while (len) {
        uint64_t mapped = len;
        void *ptr = dev->ops->dma_map(dev->opaque, addr, &mapped, dir);

        if (!ptr) {
            return false;
        }
        dev->ops->dma_unmap(dev->opaque, ptr, mapped, dir, 0);
        addr += mapped;
        len -= mapped;
    }
    return true;
}

bool rnic_dma_load32(struct rnic_device *dev, uint64_t addr, uint32_t *value)
{
    uint64_t mapped = sizeof(*value);
    _Atomic uint32_t *ptr;
    bool whole;

    if (addr % sizeof(*value)) {
        return false;
    }
    ptr = dev->ops->dma_map(dev->opaque, addr, &mapped, RNIC_DMA_FROM_GUEST);
    if (!ptr) {
        return false;
    }
    whole = mapped == sizeof(*value);
    if (whole) {
        *value =
            GUINT32_FROM_LE(atomic_load_explicit(ptr, memory_order_acquire));
    }
    dev->ops->dma_unmap(dev->opaque, (void *)ptr, mapped, RNIC_DMA_FROM_GUEST,
                        0);
    return whole;
}

bool rnic_dma_store32(struct rnic_device *dev, uint64_t addr, uint32_t value)
{
    uint64_t mapped = sizeof(value);
    _Atomic uint32_t *ptr;
    bool whole;

    if (addr % sizeof(value)) {
        return false;
    }
    ptr = dev->ops->dma_map(dev->opaque, addr, &mapped, RNIC_DMA_TO_GUEST);
    if (!ptr) {
        return false;
    }
    whole = mapped == sizeof(value);
    if (whole) {
        atomic_store_explicit(ptr, GUINT32_TO_LE(value), memory_order_release);
    }
    dev->ops->dma_unmap(dev->opaque, (void *)ptr, mapped, RNIC_DMA_TO_GUEST,
                        whole ? sizeof(value) : 0);
    return whole;
}

/* ---- Buffers ---- */

/*
 * Reads the table at @addr, whose entries each stand for TABLE_ENTRIES ^
 * (level - 1) pages, for @count pages into @pages.
 */
static enum rnic_admin_status read_table(struct rnic_device *dev, uint64_t addr,
                                         unsigned level, uint64_t page_size,
                                         uint64_t *pages, uint64_t count)
{
    uint64_t table[TABLE_ENTRIES];
    uint64_t per_entry = 1;
    uint64_t entries, i;
    unsigned l;

    for (l = 1; l < level; l++) {
        per_entry *= TABLE_ENTRIES;
    }
    entries = (count + per_entry - 1) / per_entry;
    if (addr % TABLE_SIZE ||
        !rnic_dma_read(dev, addr, table, entries * sizeof(table[0]))) {
        return RNIC_ADMIN_BAD_ADDRESS;
    }
    for (i = 0; i < entries; i++) {
        uint64_t entry = GUINT64_FROM_LE(table[i]);
        uint64_t below = MIN(count, per_entry);
        enum rnic_admin_status status;

        if (level == 1) {
            if (entry & (page_size - 1)) {
                return RNIC_ADMIN_BAD_ADDRESS;
            }
            pages[i] = entry;
            continue;
        }
        status = read_table(dev, entry, level - 1, page_size,
                            pages + i * per_entry, below);
        if (status != RNIC_ADMIN_OK) {
            return status;
        }
        count -= below;
    }
    return RNIC_ADMIN_OK;
}

static bool is_contiguous(const struct rnic_buf *buf)
{
    uint64_t page_size = 1ull << buf->page_shift;
    uint64_t i;

    for (i = 1; i < buf->num_pages; i++) {
        if (buf->pages[i] != buf->pages[i - 1] + page_size) {
            return false;
        }
    }
    return buf->length <= UINT64_MAX - buf->pages[0] - buf->first_offset;
}

/* A buffer that is one range: a page list of one entry does */
static void set_contiguous(struct rnic_buf *buf, uint64_t addr)
{
    buf->dev->buf_pages -= buf->num_pages;
    g_free(buf->pages);
    buf->pages = g_new(uint64_t, 1);
    buf->pages[0] = addr;
    buf->num_pages = 1;
    buf->dev->buf_pages += 1;
    buf->first_offset = 0;
    buf->page_shift = CONTIGUOUS;
}

enum rnic_admin_status rnic_buf_init(struct rnic_device *dev,
                                     struct rnic_buf *buf,
                                     const struct rnic_buf_desc *desc,
                                     uint64_t max_len)
{
    uint64_t addr = GUINT64_FROM_LE(desc->addr);
    uint64_t length = GUINT64_FROM_LE(desc->length);
    uint64_t first_offset = GUINT32_FROM_LE(desc->first_offset);
    enum rnic_admin_status status;
    uint64_t page_size, num_pages;

    memset(buf, 0, sizeof(*buf));
    buf->dev = dev;
    if (!length || length > max_len || max_len > RNIC_MAX_MR_SIZE ||
        desc->rsvd[0] || desc->rsvd[1] || desc->levels > 3) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    buf->length = length;

    if (desc->levels == 0) {
        if (desc->page_shift || first_offset) {
            return RNIC_ADMIN_BAD_PARAM;
        }
        if (length > UINT64_MAX - addr) {
            return RNIC_ADMIN_BAD_ADDRESS;
        }
        set_contiguous(buf, addr);
        return RNIC_ADMIN_OK;
    }

    if (desc->page_shift < 12 || desc->page_shift > 30 ||
        first_offset >> desc->page_shift) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    page_size = 1ull << desc->page_shift;
    num_pages = (first_offset + length + page_size - 1) >> desc->page_shift;
    if (num_pages > 1ull << (9 * desc->levels)) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    if (num_pages >
        RNIC_MAX_BUF_PAGES - MIN(dev->buf_pages, RNIC_MAX_BUF_PAGES)) {
        return RNIC_ADMIN_NO_RESOURCES;
    }
    buf->pages = g_try_new(uint64_t, num_pages);
    if (!buf->pages) {
        return RNIC_ADMIN_NO_RESOURCES;
    }
    buf->first_offset = first_offset;
    buf->page_shift = desc->page_shift;
    buf->num_pages = num_pages;
    dev->buf_pages += num_pages;
    status =
        read_table(dev, addr, desc->levels, page_size, buf->pages, num_pages);
    if (status != RNIC_ADMIN_OK) {
        rnic_buf_clear(buf);
    } else if (is_contiguous(buf)) {
        set_contiguous(buf, buf->pages[0] + first_offset);
    }
    return status;
}

enum rnic_admin_status rnic_buf_init_ring(struct rnic_device *dev,
                                          struct rnic_buf *buf,
                                          const struct rnic_buf_desc *desc,
                                          uint64_t entries,
                                          uint64_t dbrec_offset)
{
    uint64_t length = GUINT64_FROM_LE(desc->length);
    uint64_t start = desc->levels ? GUINT32_FROM_LE(desc->first_offset)
                                  : GUINT64_FROM_LE(desc->addr);

    /* The doorbell records of all queues have one size */
    _Static_assert(sizeof(struct rnic_eq_dbrec) == 64 &&
                       sizeof(struct rnic_cq_dbrec) == 64 &&
                       sizeof(struct rnic_qp_dbrec) == 64,
                   "doorbell records");
    if (dbrec_offset % 64 || dbrec_offset < entries || length < 64 ||
        dbrec_offset > length - 64) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    if (start % 64) {
        return RNIC_ADMIN_BAD_ADDRESS;
    }
    return rnic_buf_init(dev, buf, desc, RNIC_MAX_RING_SIZE);
}

void rnic_buf_clear(struct rnic_buf *buf)
{
    if (buf->pages) {
        buf->dev->buf_pages -= buf->num_pages;
        g_free(buf->pages);
        buf->pages = NULL;
        buf->num_pages = 0;
    }
    buf->length = 0;
}

uint64_t rnic_buf_addr(const struct rnic_buf *buf, uint64_t offset,
                       uint64_t *contig)
{
    uint64_t at = buf->first_offset + offset;
    uint64_t page_size = 1ull << buf->page_shift;
    uint64_t in_page = at & (page_size - 1);

    *contig = MIN(page_size - in_page, buf->length - offset);
    return buf->pages[at >> buf->page_shift] + in_page;
}

static bool buf_copy(struct rnic_device *dev, const struct rnic_buf *buf,
                     uint64_t offset, uint8_t *data, size_t len,
                     enum rnic_dma_dir dir)
{
    if (offset > buf->length || len > buf->length - offset) {
        return false;
    }
    while (len) {
        uint64_t contig;
        uint64_t addr = rnic_buf_addr(buf, offset, &contig);
        size_t n = MIN(contig, len);

        if (!dma_copy(dev, addr, data, n, dir)) {
            return false;
        }
        offset += n;
        data += n;
        len -= n;
    }
    return true;
}

bool rnic_buf_read(struct rnic_device *dev, const struct rnic_buf *buf,
                   uint64_t offset, void *to, size_t len)
{
    return buf_copy(dev, buf, offset, to, len, RNIC_DMA_FROM_GUEST);
}

bool rnic_buf_write(struct rnic_device *dev, const struct rnic_buf *buf,
                    uint64_t offset, const void *from, size_t len)
{
    return buf_copy(dev, buf, offset, (void *)from, len, RNIC_DMA_TO_GUEST);
}

static void store_entry(uint8_t *to, const uint8_t *from, size_t len)
{
    uint32_t last;

    memcpy(to, from, len - sizeof(last));
    memcpy(&last, from + len - sizeof(last), sizeof(last));
    atomic_store_explicit((_Atomic uint32_t *)(to + len - sizeof(last)), last,
                          memory_order_release);
}

bool rnic_buf_publish(struct rnic_device *dev, const struct rnic_buf *buf,
                      uint64_t offset, const void *entry, size_t len)
{
    const uint8_t *from = entry;
    uint64_t contig, addr, mapped;
    uint32_t last;
    void *ptr;

    if (offset > buf->length || len > buf->length - offset) {
        return false;
    }
    addr = rnic_buf_addr(buf, offset, &contig);
    if (contig >= len) {
        mapped = len;
        ptr = dev->ops->dma_map(dev->opaque, addr, &mapped, RNIC_DMA_TO_GUEST);
        if (!ptr) {
            return false;
        }
        if (mapped == len) {
            store_entry(ptr, from, len);
        }
        dev->ops->dma_unmap(dev->opaque, ptr, mapped, RNIC_DMA_TO_GUEST,
                            mapped == len ? len : 0);
        if (mapped == len) {
            return true;
        }
    }
    /* An entry in several pieces */
    memcpy(&last, from + len - sizeof(last), sizeof(last));
    if (!rnic_buf_write(dev, buf, offset, from, len - sizeof(last))) {
        return false;
    }
    addr = rnic_buf_addr(buf, offset + len - sizeof(last), &contig);
    return rnic_dma_store32(dev, addr, GUINT32_FROM_LE(last));
}

bool rnic_buf_load32(struct rnic_device *dev, const struct rnic_buf *buf,
                     uint64_t offset, uint32_t *value)
{
    uint64_t contig;

    if (buf->length < sizeof(*value) || offset > buf->length - sizeof(*value)) {
        return false;
    }
    return rnic_dma_load32(dev, rnic_buf_addr(buf, offset, &contig), value);
}
