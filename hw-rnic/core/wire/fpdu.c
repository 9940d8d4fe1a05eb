/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fpdu.h"

#include <string.h>

#include "byteorder.h"
#include "crc32c.h"
#include "marker.h"

unsigned rnic_mulpdu(size_t emss, bool markers)
{
    size_t overhead = RNIC_FPDU_LENGTH_SIZE + RNIC_FPDU_CRC_SIZE + emss % 4;

    if (markers) {
        overhead += RNIC_MARKER_SIZE * (emss / RNIC_MARKER_SPACING +
                                        (emss % RNIC_MARKER_SPACING != 0));
    }
    if (emss < overhead + RNIC_MULPDU_MIN) {
        return RNIC_MULPDU_MIN;
    }
    if (emss - overhead > RNIC_MULPDU_MAX) {
        return RNIC_MULPDU_MAX;
    }
    return (unsigned)(emss - overhead);
}

enum rnic_wire_err rnic_fpdu_length_decode(const uint8_t *buf, size_t len,
                                           uint16_t *ulpdu_len)
{
    if (len < RNIC_FPDU_LENGTH_SIZE) {
        return RNIC_WIRE_MORE;
    }
    *ulpdu_len = rnic_get_be16(buf);
    return *ulpdu_len < RNIC_ULPDU_MIN ? RNIC_WIRE_MPA_LENGTH : RNIC_WIRE_OK;
}

size_t rnic_fpdu_length_encode(uint16_t ulpdu_len, uint8_t *buf)
{
    rnic_put_be16(buf, ulpdu_len);
    return RNIC_FPDU_LENGTH_SIZE;
}

size_t rnic_fpdu_trailer_encode(uint16_t ulpdu_len, bool use_crc, uint32_t crc,
                                uint8_t *buf)
{
    unsigned pad = rnic_fpdu_pad(ulpdu_len);

    memset(buf, 0, pad + RNIC_FPDU_CRC_SIZE);
    if (use_crc) {
        crc = rnic_crc32c_update(crc, buf, pad);
        rnic_put_le32(buf + pad, rnic_crc32c_final(crc));
    }
    return pad + RNIC_FPDU_CRC_SIZE;
}

enum rnic_wire_err rnic_fpdu_check(const uint8_t *buf, size_t len)
{
    uint16_t ulpdu_len;
    size_t covered;
    uint32_t crc;
    enum rnic_wire_err err;

    err = rnic_fpdu_length_decode(buf, len, &ulpdu_len);
    if (err != RNIC_WIRE_OK) {
        return err;
    }
    if (len < rnic_fpdu_len(ulpdu_len)) {
        return RNIC_WIRE_MORE;
    }
    /* Received pad is covered whatever its value (RFC 5044 section 4.4). */
    covered = rnic_fpdu_len(ulpdu_len) - RNIC_FPDU_CRC_SIZE;
    crc = rnic_crc32c_update(rnic_crc32c_init(), buf, covered);
    if (rnic_crc32c_final(crc) != rnic_get_le32(buf + covered)) {
        return RNIC_WIRE_MPA_CRC;
    }
    return RNIC_WIRE_OK;
}
