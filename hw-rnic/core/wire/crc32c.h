/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CRC32C as MPA uses it (RFC 5044 section 4.4): Castagnoli polynomial,
 * reflected, initial value all ones, final complement. The running value is
 * opaque: init, any number of updates, final. The final value goes to the
 * wire least significant octet first (rnic_put_le32()).
 */
#ifndef RNIC_WIRE_CRC32C_H
#define RNIC_WIRE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Returns the running value of an empty sequence. */
static inline uint32_t rnic_crc32c_init(void)
{
    return UINT32_MAX;
}

/* Returns running value @crc extended by @len octets at @buf. */
uint32_t rnic_crc32c_update(uint32_t crc, const void *buf, size_t len);

/*
 * Copies @len octets from @src to @dst, which must not overlap, and returns
 * running value @crc extended by the octets that @dst received. The source
 * is read once: what was checksummed is what was copied, even if somebody
 * writes to the source meanwhile.
 */
uint32_t rnic_crc32c_copy(uint32_t crc, void *dst, const void *src, size_t len);

/* Returns the CRC of the sequence with running value @crc. */
static inline uint32_t rnic_crc32c_final(uint32_t crc)
{
    return ~crc;
}

#endif
