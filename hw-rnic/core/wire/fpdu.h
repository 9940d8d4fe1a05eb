/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FPDU framing (RFC 5044 section 4): ULPDU_Length (2 octets), ULPDU, 0 to 3
 * octets of pad, CRC (4). An FPDU carries exactly one DDP segment and is a
 * multiple of 4 octets long. With CRC off the CRC field is present and not
 * checked. Nothing here knows of markers; see marker.h.
 */
#ifndef RNIC_WIRE_FPDU_H
#define RNIC_WIRE_FPDU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire-error.h"

#define RNIC_FPDU_LENGTH_SIZE 2
#define RNIC_FPDU_CRC_SIZE    4
#define RNIC_FPDU_TRAILER_MAX (3 + RNIC_FPDU_CRC_SIZE)

/* Shortest ULPDU that DDP can produce: a tagged header. */
#define RNIC_ULPDU_MIN  14
/* Longest ULPDU that a sender may emit (RFC 5044 section 3). */
#define RNIC_MULPDU_MAX 64768
/* MULPDU never falls below this, however small the EMSS. */
#define RNIC_MULPDU_MIN 128
/* Longest FPDU that the length field can announce; receivers take it. */
#define RNIC_FPDU_MAX   (RNIC_FPDU_LENGTH_SIZE + 65535 + 3 + RNIC_FPDU_CRC_SIZE)

/* Octets of pad, 0 to 3, behind a ULPDU of @ulpdu_len octets. */
static inline unsigned rnic_fpdu_pad(uint16_t ulpdu_len)
{
    return -(RNIC_FPDU_LENGTH_SIZE + (unsigned)ulpdu_len) & 3;
}

/* Octets of the FPDU that carries @ulpdu_len octets, without markers. */
static inline size_t rnic_fpdu_len(uint16_t ulpdu_len)
{
    return RNIC_FPDU_LENGTH_SIZE + (size_t)ulpdu_len +
           rnic_fpdu_pad(ulpdu_len) + RNIC_FPDU_CRC_SIZE;
}

/*
 * Largest ULPDU, in octets, whose FPDU fits one TCP segment of @emss octets
 * (RFC 5044 section 4.5); @markers: markers are inserted in this direction.
 * The result lies between RNIC_MULPDU_MIN and RNIC_MULPDU_MAX.
 */
unsigned rnic_mulpdu(size_t emss, bool markers);

/*
 * Reads the length of the FPDU that starts at @buf, of which @len octets are
 * there. RNIC_WIRE_OK: *@ulpdu_len is set, and the FPDU takes
 * rnic_fpdu_len() octets, which may be more than @len. RNIC_WIRE_MORE: fewer
 * than 2 octets. RNIC_WIRE_MPA_LENGTH: no DDP segment is that short; the
 * stream cannot be followed any further.
 */
enum rnic_wire_err rnic_fpdu_length_decode(const uint8_t *buf, size_t len,
                                           uint16_t *ulpdu_len);

/* Writes the 2 octets of ULPDU_Length. Returns 2. */
size_t rnic_fpdu_length_encode(uint16_t ulpdu_len, uint8_t *buf);

/*
 * Writes pad and CRC field of an FPDU into @buf (RNIC_FPDU_TRAILER_MAX
 * octets) and returns their length, 4 to 7. With @use_crc, @crc is the
 * running CRC32C over ULPDU_Length and ULPDU; the pad is added here.
 * Without, the field is zero and @crc unused.
 */
size_t rnic_fpdu_trailer_encode(uint16_t ulpdu_len, bool use_crc, uint32_t crc,
                                uint8_t *buf);

/*
 * Checks the CRC of one complete FPDU: @buf starts at ULPDU_Length, @len
 * octets are there. RNIC_WIRE_MORE: the FPDU is not complete.
 * RNIC_WIRE_MPA_CRC: nothing of the FPDU, its header included, may be used,
 * nor of anything after it.
 */
enum rnic_wire_err rnic_fpdu_check(const uint8_t *buf, size_t len);

#endif
