/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "marker.h"

#include <string.h>

#include "byteorder.h"
#include "crc32c.h"
#include "fpdu.h"

static bool marker_due(uint64_t pos)
{
    return pos % RNIC_MARKER_SPACING == 0;
}

size_t rnic_marker_fpdu_len(uint64_t pos, uint16_t ulpdu_len)
{
    size_t left = rnic_fpdu_len(ulpdu_len);
    uint64_t p = pos;

    while (left) {
        size_t run;

        if (marker_due(p)) {
            p += RNIC_MARKER_SIZE;
        }
        run = RNIC_MARKER_SPACING - p % RNIC_MARKER_SPACING;
        if (run > left) {
            run = left;
        }
        p += run;
        left -= run;
    }
    return (size_t)(p - pos);
}

size_t rnic_marker_insert(uint64_t pos, const uint8_t *fpdu, uint16_t ulpdu_len,
                          bool use_crc, uint8_t *dst)
{
    size_t left = rnic_fpdu_len(ulpdu_len) - RNIC_FPDU_CRC_SIZE;
    uint64_t p = pos;
    uint64_t start = marker_due(pos) ? pos + RNIC_MARKER_SIZE : pos;
    uint8_t *out = dst;
    uint32_t crc;

    for (;;) {
        size_t run;

        if (marker_due(p)) {
            /* Between FPDUs FPDUPTR is 0; the FPDU that follows owns it. */
            rnic_put_be16(out, 0);
            rnic_put_be16(out + 2, p < start ? 0 : (uint16_t)(p - start));
            out += RNIC_MARKER_SIZE;
            p += RNIC_MARKER_SIZE;
        }
        /* Tested here: a marker may fall between the pad and the CRC. */
        if (!left) {
            break;
        }
        run = RNIC_MARKER_SPACING - p % RNIC_MARKER_SPACING;
        if (run > left) {
            run = left;
        }
        memcpy(out, fpdu, run);
        out += run;
        fpdu += run;
        p += run;
        left -= run;
    }
    memset(out, 0, RNIC_FPDU_CRC_SIZE);
    if (use_crc) {
        /* Markers in and directly before the FPDU are covered (4.4). */
        crc = rnic_crc32c_update(rnic_crc32c_init(), dst, (size_t)(out - dst));
        rnic_put_le32(out, rnic_crc32c_final(crc));
    }
    return (size_t)(out + RNIC_FPDU_CRC_SIZE - dst);
}
