/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "crc32c.h"

#include <isa-l/crc.h>
#include <string.h>

/* Small enough that the copy is still in the L1 cache when checksummed. */
#define COPY_CHUNK 4096

/* The library takes its length as an int. */
#define UPDATE_CHUNK ((size_t)1 << 30)

uint32_t rnic_crc32c_update(uint32_t crc, const void *buf, size_t len)
{
    const uint8_t *p = buf;

    while (len) {
        size_t n = len < UPDATE_CHUNK ? len : UPDATE_CHUNK;

        /* The library only reads; its prototype lacks the const. */
        crc = crc32_iscsi((unsigned char *)p, (int)n, crc);
        p += n;
        len -= n;
    }
    return crc;
}

uint32_t rnic_crc32c_copy(uint32_t crc, void *dst, const void *src, size_t len)
{
    uint8_t *d = dst;
    const uint8_t *s = src;

    while (len) {
        size_t n = len < COPY_CHUNK ? len : COPY_CHUNK;

        memcpy(d, s, n);
        crc = crc32_iscsi(d, (int)n, crc);
        d += n;
        s += n;
        len -= n;
    }
    return crc;
}
