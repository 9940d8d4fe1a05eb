/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory shared with the device
 */
#include "rnic.h"

#include <sys/mman.h>

int rnic_buf_alloc(struct rnic_context *ctx, struct rnic_buf *buf,
                   size_t length)
{
    int err;

    length = (length + ctx->page_size - 1) & ~(ctx->page_size - 1);
    buf->addr = mmap(NULL, length, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buf->addr == MAP_FAILED) {
        return ENOMEM;
    }
    buf->length = length;
    /* A copy-on-write after fork would part us from the pages that the device
     * has */
    err = ibv_dontfork_range(buf->addr, length);
    if (err) {
        munmap(buf->addr, length);
        return err < 0 ? ENOMEM : err;
    }
    return 0;
}

void rnic_buf_free(struct rnic_buf *buf)
{
    ibv_dofork_range(buf->addr, buf->length);
    munmap(buf->addr, buf->length);
}
