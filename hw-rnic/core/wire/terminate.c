/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "terminate.h"

#include <string.h>

#include "byteorder.h"

#define OFF_LAYER_ETYPE 18
#define OFF_CODE        19
#define OFF_FLAGS       20
#define OFF_SEG_LEN     22
#define OFF_DDP         24

#define FLAG_M 0x80
#define FLAG_D 0x40
#define FLAG_R 0x20

#define FLAG_SIW_M 0x01
#define FLAG_SIW_D 0x02
#define FLAG_SIW_R 0x04

#define READ_REQUEST_HDR_SIZE                                                  \
    (RNIC_RDMAP_READ_REQUEST_SIZE - RNIC_DDP_UNTAGGED_SIZE)

/* Layer 0, type 0 leaves the code free; this is what others send. */
#define CODE_RDMAP_LOCAL 0xff

/*
 * Which headers are returned: RFC 5040 section 4.8, figure 10. An MPA error
 * returns none, a DDP error the DDP header, and a remote protection error
 * the Read Request as well.
 */
/* clang-format off */
static const struct rnic_term_cause causes[RNIC_WIRE_ERR_COUNT] = {
    [RNIC_WIRE_MPA_CRC] = {
        2, 0, 0x02, false, false, "MPA: CRC mismatch" },
    [RNIC_WIRE_MPA_LENGTH] = {
        2, 0, 0x03, false, false, "MPA: marker and ULPDU length disagree" },
    [RNIC_WIRE_MPA_FRAME] = {
        2, 0, 0x04, false, false, "MPA: invalid Request or Reply frame" },
    [RNIC_WIRE_MPA_LOCAL] = {
        2, 0, 0x05, false, false, "MPA: local catastrophic error" },
    [RNIC_WIRE_MPA_IRD] = {
        2, 0, 0x06, false, false, "MPA: insufficient IRD resources" },
    [RNIC_WIRE_MPA_RTR] = {
        2, 0, 0x07, false, false, "MPA: no matching RTR option" },

    [RNIC_WIRE_DDP_LOCAL] = {
        1, 0, 0x00, true, false, "DDP: local catastrophic error" },
    [RNIC_WIRE_TAGGED_STAG] = {
        1, 1, 0x00, true, false, "DDP tagged buffer: invalid STag" },
    [RNIC_WIRE_TAGGED_BOUNDS] = {
        1, 1, 0x01, true, false,
        "DDP tagged buffer: base or bounds violation" },
    [RNIC_WIRE_TAGGED_STREAM] = {
        1, 1, 0x02, true, false,
        "DDP tagged buffer: STag not associated with the stream" },
    [RNIC_WIRE_TAGGED_WRAP] = {
        1, 1, 0x03, true, false, "DDP tagged buffer: TO wrap" },
    [RNIC_WIRE_TAGGED_VERSION] = {
        1, 1, 0x04, true, false, "DDP tagged buffer: invalid DDP version" },

    [RNIC_WIRE_UNTAGGED_QN] = {
        1, 2, 0x01, true, false, "DDP untagged buffer: invalid QN" },
    [RNIC_WIRE_UNTAGGED_BUFFER] = {
        1, 2, 0x02, true, false, "DDP untagged buffer: no buffer available" },
    [RNIC_WIRE_UNTAGGED_MSN] = {
        1, 2, 0x03, true, false, "DDP untagged buffer: MSN out of range" },
    [RNIC_WIRE_UNTAGGED_MO] = {
        1, 2, 0x04, true, false, "DDP untagged buffer: invalid MO" },
    [RNIC_WIRE_UNTAGGED_LENGTH] = {
        1, 2, 0x05, true, false,
        "DDP untagged buffer: message too long for the buffer" },
    [RNIC_WIRE_UNTAGGED_VERSION] = {
        1, 2, 0x06, true, false, "DDP untagged buffer: invalid DDP version" },

    [RNIC_WIRE_RDMAP_LOCAL] = {
        0, 0, CODE_RDMAP_LOCAL, false, false,
        "RDMAP: local catastrophic error" },
    [RNIC_WIRE_PROT_STAG] = {
        0, 1, 0x00, true, true, "RDMAP remote protection: invalid STag" },
    [RNIC_WIRE_PROT_BOUNDS] = {
        0, 1, 0x01, true, true,
        "RDMAP remote protection: base or bounds violation" },
    [RNIC_WIRE_PROT_ACCESS] = {
        0, 1, 0x02, true, true,
        "RDMAP remote protection: access rights violation" },
    [RNIC_WIRE_PROT_STREAM] = {
        0, 1, 0x03, true, true,
        "RDMAP remote protection: STag not associated with the stream" },
    [RNIC_WIRE_PROT_WRAP] = {
        0, 1, 0x04, true, true, "RDMAP remote protection: TO wrap" },
    [RNIC_WIRE_PROT_INVALIDATE] = {
        0, 1, 0x09, true, true,
        "RDMAP remote protection: STag cannot be invalidated" },
    [RNIC_WIRE_PROT_OTHER] = {
        0, 1, 0xff, true, true, "RDMAP remote protection: unspecified" },

    [RNIC_WIRE_OP_VERSION] = {
        0, 2, 0x05, true, false,
        "RDMAP remote operation: invalid RDMAP version" },
    [RNIC_WIRE_OP_OPCODE] = {
        0, 2, 0x06, true, false, "RDMAP remote operation: unexpected opcode" },
    [RNIC_WIRE_OP_STREAM] = {
        0, 2, 0x07, true, false,
        "RDMAP remote operation: catastrophic, localized to the stream" },
    [RNIC_WIRE_OP_GLOBAL] = {
        0, 2, 0x08, true, false,
        "RDMAP remote operation: catastrophic, global" },
    [RNIC_WIRE_OP_INVALIDATE] = {
        0, 2, 0x09, true, false,
        "RDMAP remote operation: STag cannot be invalidated" },
    [RNIC_WIRE_OP_OTHER] = {
        0, 2, 0xff, true, false, "RDMAP remote operation: unspecified" },
};
/* clang-format on */

const struct rnic_term_cause *rnic_term_cause(enum rnic_wire_err err)
{
    return &causes[err];
}

/* By its first two octets, so that one cut short is recognized as well. */
static bool is_terminate(const uint8_t *ulpdu, size_t avail)
{
    return avail >= 2 && !(ulpdu[0] & 0x80) &&
           (ulpdu[1] & 0x0f) == RNIC_RDMAP_TERMINATE;
}

size_t rnic_term_encode(enum rnic_wire_err err, const uint8_t *offender,
                        size_t avail, uint16_t ulpdu_len,
                        uint8_t buf[RNIC_TERM_SIZE_MAX])
{
    const struct rnic_term_cause *cause = rnic_term_cause(err);
    struct rnic_ddp_hdr hdr = { 0 };
    size_t ddp_size;
    size_t len = RNIC_TERM_SIZE_MIN;

    if (avail > ulpdu_len) {
        avail = ulpdu_len;
    }
    if (is_terminate(offender, avail)) {
        return 0;
    }
    ddp_size = rnic_ddp_hdr_decode(offender, avail, &hdr);

    rnic_rdmap_untagged_encode(RNIC_RDMAP_TERMINATE, true, 0, 1, 0, buf);
    buf[OFF_LAYER_ETYPE] = (uint8_t)(cause->layer << 4) | cause->etype;
    buf[OFF_CODE] = cause->code;
    rnic_put_be16(buf + OFF_FLAGS, 0);
    if (!cause->ddp_hdr || !ddp_size) {
        return len;
    }

    buf[OFF_FLAGS] |= FLAG_M | FLAG_D;
    rnic_put_be16(buf + OFF_SEG_LEN, ulpdu_len);
    memcpy(buf + OFF_DDP, offender, ddp_size);
    len = OFF_DDP + ddp_size;
    /* RFC 7306 messages never have theirs returned (section 8). */
    if (cause->rdmap_hdr && !hdr.tagged &&
        hdr.opcode == RNIC_RDMAP_READ_REQUEST &&
        avail >= RNIC_RDMAP_READ_REQUEST_SIZE) {
        buf[OFF_FLAGS] |= FLAG_R;
        memcpy(buf + len, offender + ddp_size, READ_REQUEST_HDR_SIZE);
        len += READ_REQUEST_HDR_SIZE;
    }
    return len;
}

/* The defined code, or NULL. */
static const struct rnic_term_cause *cause_find(uint8_t layer, uint8_t etype,
                                                uint8_t code)
{
    int i;

    for (i = RNIC_WIRE_MORE + 1; i < RNIC_WIRE_ERR_COUNT; i++) {
        const struct rnic_term_cause *c = &causes[i];

        if (c->layer != layer) {
            continue;
        }
        if (layer != RNIC_TERM_LAYER_LLP && c->etype != etype) {
            continue;
        }
        if (c->code == code || i == RNIC_WIRE_RDMAP_LOCAL) {
            return c;
        }
    }
    return NULL;
}

static bool ctrl_known(const struct rnic_term_ctrl *ctrl)
{
    return cause_find(ctrl->layer, ctrl->etype, ctrl->code) != NULL;
}

static bool ctrl_flags(const struct rnic_term_ctrl *ctrl)
{
    return ctrl->seg_len_valid || ctrl->ddp_hdr || ctrl->rdmap_hdr;
}

bool rnic_term_decode(const uint8_t *ulpdu, size_t len, struct rnic_term *term)
{
    const struct rnic_term_ctrl *ctrl;
    uint8_t flags;
    size_t ddp_size;
    size_t pos = OFF_SEG_LEN;

    if (len < RNIC_TERM_SIZE_MIN) {
        return false;
    }
    flags = ulpdu[OFF_FLAGS];
    *term = (struct rnic_term){
        .rfc = {
            .layer = ulpdu[OFF_LAYER_ETYPE] >> 4,
            .etype = ulpdu[OFF_LAYER_ETYPE] & 0x0f,
            .code = ulpdu[OFF_CODE],
            .seg_len_valid = flags & FLAG_M,
            .ddp_hdr = flags & FLAG_D,
            .rdmap_hdr = flags & FLAG_R,
        },
        .siw = {
            .layer = ulpdu[OFF_LAYER_ETYPE] & 0x0f,
            .etype = ulpdu[OFF_LAYER_ETYPE] >> 4,
            .code = ulpdu[OFF_CODE],
            .seg_len_valid = flags & FLAG_SIW_M,
            .ddp_hdr = flags & FLAG_SIW_D,
            .rdmap_hdr = flags & FLAG_SIW_R,
        },
    };
    /* Those three bits are reserved, thus zero, in the other order. */
    if (!ctrl_flags(&term->rfc)) {
        term->swapped = ctrl_flags(&term->siw) ||
                        (!ctrl_known(&term->rfc) && ctrl_known(&term->siw));
    }
    ctrl = rnic_term_ctrl(term);

    /* The length field is there with M or D; D's header behind it. */
    if (!ctrl->seg_len_valid && !ctrl->ddp_hdr) {
        return true;
    }
    if (len < OFF_DDP) {
        return true;
    }
    term->has_seg_len = ctrl->seg_len_valid;
    term->seg_len = rnic_get_be16(ulpdu + pos);
    pos = OFF_DDP;

    if (!ctrl->ddp_hdr) {
        return true;
    }
    ddp_size = rnic_ddp_hdr_decode(ulpdu + pos, len - pos, &term->ddp);
    if (!ddp_size) {
        return true;
    }
    term->has_ddp = true;

    /* Only a Read Request's header is ever returned (section 4.8). */
    if (ctrl->rdmap_hdr && !term->ddp.tagged &&
        term->ddp.opcode == RNIC_RDMAP_READ_REQUEST) {
        term->has_read_request = rnic_rdmap_read_request_decode(
            ulpdu + pos, len - pos, &term->read_request);
    }
    return true;
}

const char *rnic_term_str(uint8_t layer, uint8_t etype, uint8_t code)
{
    const struct rnic_term_cause *cause = cause_find(layer, etype, code);

    if (cause) {
        return cause->name;
    }
    /* Reported locally only, thus without a condition of its own. */
    if (layer == RNIC_TERM_LAYER_LLP && code == 0x01) {
        return "MPA: TCP connection closed, terminated or lost";
    }
    if (layer == RNIC_TERM_LAYER_DDP && etype == 3) {
        return "DDP: reserved for the LLP";
    }
    return "unknown Terminate code";
}
