/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ddp.h"

#include "byteorder.h"

#define DDP_T          0x80
#define DDP_L          0x40
#define DDP_DV         0x03
#define RDMAP_RV_SHIFT 6
#define RDMAP_OPCODE   0x0f

size_t rnic_ddp_hdr_decode(const uint8_t *buf, size_t len,
                           struct rnic_ddp_hdr *hdr)
{
    bool tagged;
    size_t size;

    if (!len) {
        return 0;
    }
    tagged = buf[0] & DDP_T;
    size = rnic_ddp_hdr_size(tagged);
    if (len < size) {
        return 0;
    }
    *hdr = (struct rnic_ddp_hdr){
        .tagged = tagged,
        .last = buf[0] & DDP_L,
        .dv = buf[0] & DDP_DV,
        .rv = buf[1] >> RDMAP_RV_SHIFT,
        .opcode = buf[1] & RDMAP_OPCODE,
        .stag = rnic_get_be32(buf + 2),
    };
    if (tagged) {
        hdr->to = rnic_get_be64(buf + 6);
    } else {
        hdr->qn = rnic_get_be32(buf + 6);
        hdr->msn = rnic_get_be32(buf + 10);
        hdr->mo = rnic_get_be32(buf + 14);
    }
    return size;
}

size_t rnic_ddp_hdr_encode(const struct rnic_ddp_hdr *hdr, uint8_t *buf)
{
    buf[0] = (hdr->tagged ? DDP_T : 0) | (hdr->last ? DDP_L : 0) |
             (hdr->dv & DDP_DV);
    buf[1] =
        (uint8_t)(hdr->rv << RDMAP_RV_SHIFT) | (hdr->opcode & RDMAP_OPCODE);
    rnic_put_be32(buf + 2, hdr->stag);
    if (hdr->tagged) {
        rnic_put_be64(buf + 6, hdr->to);
    } else {
        rnic_put_be32(buf + 6, hdr->qn);
        rnic_put_be32(buf + 10, hdr->msn);
        rnic_put_be32(buf + 14, hdr->mo);
    }
    return rnic_ddp_hdr_size(hdr->tagged);
}
