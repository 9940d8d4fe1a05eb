/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "mpa.h"

#include <string.h>

#include "byteorder.h"

#define KEY_SIZE      16
#define OFF_FLAGS     16
#define OFF_REV       17
#define OFF_PD_LENGTH 18

#define FLAG_M 0x80
#define FLAG_C 0x40
#define FLAG_R 0x20
#define FLAG_S 0x10

/* The enhanced block as two words: A, B, IRD and C, D, ORD. */
#define BLOCK_A     0x8000
#define BLOCK_B     0x4000
#define BLOCK_C     0x8000
#define BLOCK_D     0x4000
#define BLOCK_VALUE 0x3fff

static const uint8_t request_key[KEY_SIZE + 1] = "MPA ID Req Frame";
static const uint8_t reply_key[KEY_SIZE + 1] = "MPA ID Rep Frame";

static void block_decode(const uint8_t *p, struct rnic_mpa_frame *f)
{
    uint16_t ird = rnic_get_be16(p);
    uint16_t ord = rnic_get_be16(p + 2);

    f->ird = ird & BLOCK_VALUE;
    f->ord = ord & BLOCK_VALUE;
    f->p2p = ird & BLOCK_A;
    if (f->p2p) {
        f->rtr = (ird & BLOCK_B ? RNIC_MPA_RTR_SEND : 0) |
                 (ord & BLOCK_C ? RNIC_MPA_RTR_WRITE : 0) |
                 (ord & BLOCK_D ? RNIC_MPA_RTR_READ : 0);
    }
}

static void block_encode(const struct rnic_mpa_frame *f, uint8_t *p)
{
    uint16_t ird = f->ird & BLOCK_VALUE;
    uint16_t ord = f->ord & BLOCK_VALUE;

    if (f->p2p) {
        ird |= BLOCK_A | (f->rtr & RNIC_MPA_RTR_SEND ? BLOCK_B : 0);
        ord |= (f->rtr & RNIC_MPA_RTR_WRITE ? BLOCK_C : 0) |
               (f->rtr & RNIC_MPA_RTR_READ ? BLOCK_D : 0);
    }
    rnic_put_be16(p, ird);
    rnic_put_be16(p + 2, ord);
}

enum rnic_mpa_status rnic_mpa_frame_decode(const uint8_t *buf, size_t len,
                                           bool reply, struct rnic_mpa_frame *f,
                                           size_t *octets)
{
    size_t key_len = len < KEY_SIZE ? len : KEY_SIZE;
    uint16_t pd_len;

    *f = (struct rnic_mpa_frame){ .reply = reply };
    *octets = 0;

    if (key_len && memcmp(buf, reply ? reply_key : request_key, key_len)) {
        return RNIC_MPA_BAD_KEY;
    }
    if (len > OFF_REV) {
        f->rev = buf[OFF_REV];
        if (f->rev != RNIC_MPA_REV_RFC5044 && f->rev != RNIC_MPA_REV_RFC6581) {
            return RNIC_MPA_BAD_REV;
        }
    }
    if (len < RNIC_MPA_HDR_SIZE) {
        *octets = RNIC_MPA_HDR_SIZE - len;
        return RNIC_MPA_MORE;
    }

    f->markers = buf[OFF_FLAGS] & FLAG_M;
    f->crc = buf[OFF_FLAGS] & FLAG_C;
    f->reject = buf[OFF_FLAGS] & FLAG_R;
    f->enhanced = f->rev >= RNIC_MPA_REV_RFC6581 && (buf[OFF_FLAGS] & FLAG_S);
    pd_len = rnic_get_be16(buf + OFF_PD_LENGTH);
    if (pd_len > RNIC_MPA_PD_MAX ||
        (f->enhanced && pd_len < RNIC_MPA_ENHANCED_SIZE)) {
        return RNIC_MPA_BAD_PD_LENGTH;
    }
    if (len < RNIC_MPA_HDR_SIZE + (size_t)pd_len) {
        *octets = RNIC_MPA_HDR_SIZE + (size_t)pd_len - len;
        return RNIC_MPA_MORE;
    }

    *octets = RNIC_MPA_HDR_SIZE + (size_t)pd_len;
    buf += RNIC_MPA_HDR_SIZE;
    if (f->enhanced) {
        block_decode(buf, f);
        buf += RNIC_MPA_ENHANCED_SIZE;
        pd_len -= RNIC_MPA_ENHANCED_SIZE;
    }
    f->ulp_len = pd_len;
    f->ulp_data = pd_len ? buf : NULL;
    return RNIC_MPA_OK;
}

size_t rnic_mpa_frame_encode(const struct rnic_mpa_frame *f, uint8_t *buf,
                             size_t size)
{
    size_t pd_len =
        (f->enhanced ? RNIC_MPA_ENHANCED_SIZE : 0) + (size_t)f->ulp_len;

    if (pd_len > RNIC_MPA_PD_MAX || size < RNIC_MPA_HDR_SIZE + pd_len) {
        return 0;
    }
    memcpy(buf, f->reply ? reply_key : request_key, KEY_SIZE);
    buf[OFF_FLAGS] = (f->markers ? FLAG_M : 0) | (f->crc ? FLAG_C : 0) |
                     (f->reject ? FLAG_R : 0) | (f->enhanced ? FLAG_S : 0);
    buf[OFF_REV] = f->rev;
    rnic_put_be16(buf + OFF_PD_LENGTH, (uint16_t)pd_len);
    buf += RNIC_MPA_HDR_SIZE;
    if (f->enhanced) {
        block_encode(f, buf);
        buf += RNIC_MPA_ENHANCED_SIZE;
    }
    if (f->ulp_len) {
        memcpy(buf, f->ulp_data, f->ulp_len);
    }
    return RNIC_MPA_HDR_SIZE + pd_len;
}

enum rnic_wire_err rnic_mpa_status_err(enum rnic_mpa_status status)
{
    switch (status) {
    case RNIC_MPA_OK:
    case RNIC_MPA_MORE:
    case RNIC_MPA_REJECTED:
        return RNIC_WIRE_OK;
    case RNIC_MPA_BAD_KEY:
    case RNIC_MPA_BAD_REV:
    case RNIC_MPA_BAD_PD_LENGTH:
    case RNIC_MPA_BAD_REPLY:
        return RNIC_WIRE_MPA_FRAME;
    case RNIC_MPA_NO_IRD:
        return RNIC_WIRE_MPA_IRD;
    case RNIC_MPA_NO_RTR:
        return RNIC_WIRE_MPA_RTR;
    case RNIC_MPA_NO_LOCAL:
        break;
    }
    return RNIC_WIRE_MPA_LOCAL;
}

const char *rnic_mpa_status_str(enum rnic_mpa_status status)
{
    switch (status) {
    case RNIC_MPA_OK:
        return "ok";
    case RNIC_MPA_MORE:
        return "incomplete frame";
    case RNIC_MPA_BAD_KEY:
        return "bad key";
    case RNIC_MPA_BAD_REV:
        return "unsupported revision";
    case RNIC_MPA_BAD_PD_LENGTH:
        return "bad private data length";
    case RNIC_MPA_BAD_REPLY:
        return "reply does not answer the request";
    case RNIC_MPA_REJECTED:
        return "rejected by the peer";
    case RNIC_MPA_NO_IRD:
        return "insufficient IRD resources";
    case RNIC_MPA_NO_RTR:
        return "no matching RTR option";
    case RNIC_MPA_NO_LOCAL:
        return "unusable local configuration";
    }
    return "unknown";
}
