/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * MPA markers (RFC 5044 sections 4.2 and 4.3), transmit side only: this end
 * never asks for markers, but must insert them when the peer does (M=1 in
 * the peer's startup frame).
 *
 * A stream position counts the octets sent in this direction since the
 * startup frame, markers included. A marker starts at every position that is
 * a multiple of 512, the first one at position 0.
 */
#ifndef RNIC_WIRE_MARKER_H
#define RNIC_WIRE_MARKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RNIC_MARKER_SIZE    4
#define RNIC_MARKER_SPACING 512

/*
 * Octets that the FPDU of a ULPDU of @ulpdu_len octets takes in a stream
 * with markers when it starts at position @pos, a multiple of 4: the FPDU
 * and all markers in it, a marker directly before it included.
 */
size_t rnic_marker_fpdu_len(uint64_t pos, uint16_t ulpdu_len);

/*
 * Copies an FPDU into a stream with markers. @fpdu holds ULPDU_Length, ULPDU
 * and pad, rnic_fpdu_len() - 4 octets, without CRC; @pos is the stream
 * position, a multiple of 4. Writes rnic_marker_fpdu_len() octets to @dst:
 * the FPDU with its markers and its CRC field (zero unless @use_crc), and
 * returns that number. The ULPDU may have at most RNIC_MULPDU_MAX octets, so
 * that every FPDUPTR fits its 16 bits.
 */
size_t rnic_marker_insert(uint64_t pos, const uint8_t *fpdu, uint16_t ulpdu_len,
                          bool use_crc, uint8_t *dst);

#endif
