/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Doorbells
 */
#include "rnic.h"

#include <util/udma_barrier.h>
#include <util/mmio.h>

static void set_bit_le64(__le64 *word, unsigned bit)
{
    atomic_fetch_or((_Atomic(__le64) *)word, htole64(1ull << bit));
}

void rnic_db_ring(struct rnic_context *ctx, uint32_t qpn)
{
    /* The word before its summary: whoever takes the summary bit then finds
     * the word's bit. Both operations are full barriers. */
    set_bit_le64(&ctx->dbmap->word[qpn >> 6], qpn & 63);
    set_bit_le64(&ctx->dbmap->summary[qpn >> 12], (qpn >> 6) & 63);
    udma_to_device_barrier();
    mmio_write32((uint8_t *)ctx->db + RNIC_DB_KICK, 1);
}
