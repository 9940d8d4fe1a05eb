/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "rdmap.h"

#include <string.h>

#include "byteorder.h"
#include "fpdu.h"

/* A Terminate without any header of the terminated message. */
#define TERMINATE_MIN (RNIC_DDP_UNTAGGED_SIZE + 4)

enum rdmap_form {
    FORM_STREAM,    /* header, then any amount of payload */
    FORM_FIXED,     /* exactly the header, one segment */
    FORM_TERMINATE, /* at least the header, one segment */
};

struct rdmap_rule {
    const char *name;
    bool tagged;
    uint8_t qn;
    uint8_t hdr_len;
    enum rdmap_form form;
};

static const struct rdmap_rule rules[RNIC_RDMAP_OPCODE_COUNT] = {
    [RNIC_RDMAP_WRITE] = { "RDMA Write", true, 0, RNIC_DDP_TAGGED_SIZE,
                           FORM_STREAM },
    [RNIC_RDMAP_READ_REQUEST] = { "RDMA Read Request", false,
                                  RNIC_DDP_QN_READ_REQUEST,
                                  RNIC_RDMAP_READ_REQUEST_SIZE, FORM_FIXED },
    [RNIC_RDMAP_READ_RESPONSE] = { "RDMA Read Response", true, 0,
                                   RNIC_DDP_TAGGED_SIZE, FORM_STREAM },
    [RNIC_RDMAP_SEND] = { "Send", false, RNIC_DDP_QN_SEND,
                          RNIC_DDP_UNTAGGED_SIZE, FORM_STREAM },
    [RNIC_RDMAP_SEND_INV] = { "Send with Invalidate", false, RNIC_DDP_QN_SEND,
                              RNIC_DDP_UNTAGGED_SIZE, FORM_STREAM },
    [RNIC_RDMAP_SEND_SE] = { "Send with SE", false, RNIC_DDP_QN_SEND,
                             RNIC_DDP_UNTAGGED_SIZE, FORM_STREAM },
    [RNIC_RDMAP_SEND_SE_INV] = { "Send with SE and Invalidate", false,
                                 RNIC_DDP_QN_SEND, RNIC_DDP_UNTAGGED_SIZE,
                                 FORM_STREAM },
    [RNIC_RDMAP_TERMINATE] = { "Terminate", false, RNIC_DDP_QN_TERMINATE,
                               TERMINATE_MIN, FORM_TERMINATE },
    [RNIC_RDMAP_IMM] = { "Immediate Data", false, RNIC_DDP_QN_SEND,
                         RNIC_RDMAP_IMM_SIZE, FORM_FIXED },
    [RNIC_RDMAP_IMM_SE] = { "Immediate Data with SE", false, RNIC_DDP_QN_SEND,
                            RNIC_RDMAP_IMM_SIZE, FORM_FIXED },
    [RNIC_RDMAP_ATOMIC_REQUEST] = { "Atomic Request", false,
                                    RNIC_DDP_QN_READ_REQUEST,
                                    RNIC_RDMAP_ATOMIC_REQUEST_SIZE,
                                    FORM_FIXED },
    [RNIC_RDMAP_ATOMIC_RESPONSE] = { "Atomic Response", false,
                                     RNIC_DDP_QN_ATOMIC_RESPONSE,
                                     RNIC_RDMAP_ATOMIC_RESPONSE_SIZE,
                                     FORM_FIXED },
};

static bool is_imm(uint8_t opcode)
{
    return opcode == RNIC_RDMAP_IMM || opcode == RNIC_RDMAP_IMM_SE;
}

static enum rnic_wire_err length_check(uint8_t opcode, uint16_t ulpdu_len)
{
    const struct rdmap_rule *rule = &rules[opcode];

    /* RFC 7306 section 6.3: the receiver checks for exactly 8 octets. */
    if (is_imm(opcode) && ulpdu_len != rule->hdr_len) {
        return RNIC_WIRE_OP_OTHER;
    }
    /* The RFCs name no code for a ULPDU without room for its headers. */
    if (ulpdu_len < rule->hdr_len) {
        return RNIC_WIRE_MPA_LENGTH;
    }
    /* RFC 5040 section 4.2: nothing follows these headers. */
    if (rule->form == FORM_FIXED && ulpdu_len > rule->hdr_len) {
        return RNIC_WIRE_OP_OTHER;
    }
    return RNIC_WIRE_OK;
}

static enum rnic_wire_err queue_check(const struct rnic_ddp_hdr *hdr)
{
    const struct rdmap_rule *rule = &rules[hdr->opcode];

    if (hdr->qn != rule->qn) {
        return RNIC_WIRE_UNTAGGED_QN;
    }
    if (rule->form == FORM_STREAM) {
        return RNIC_WIRE_OK;
    }
    /* RFC 5040 section 5.4: at most one Terminate a direction. */
    if (rule->form == FORM_TERMINATE && hdr->msn != 1) {
        return RNIC_WIRE_UNTAGGED_MSN;
    }
    /* RFC 5041 section 4.3: one segment is the first and the last. */
    if (hdr->mo != 0 || !hdr->last) {
        return RNIC_WIRE_UNTAGGED_MO;
    }
    return RNIC_WIRE_OK;
}

enum rnic_wire_err rnic_rdmap_seg_decode(const uint8_t *ulpdu, size_t avail,
                                         uint16_t ulpdu_len, bool rfc7306,
                                         struct rnic_rdmap_seg *seg)
{
    struct rnic_ddp_hdr *hdr = &seg->ddp;
    const struct rdmap_rule *rule;
    enum rnic_wire_err err;

    *seg = (struct rnic_rdmap_seg){ 0 };
    if (ulpdu_len < RNIC_ULPDU_MIN) {
        return RNIC_WIRE_MPA_LENGTH;
    }
    if (avail > ulpdu_len) {
        avail = ulpdu_len;
    }
    if (!rnic_ddp_hdr_decode(ulpdu, avail, hdr)) {
        /* Untagged, complete, and still no room for the header. */
        if (avail == ulpdu_len) {
            return RNIC_WIRE_MPA_LENGTH;
        }
        return RNIC_WIRE_MORE;
    }

    if (hdr->dv != RNIC_DDP_VERSION) {
        return hdr->tagged ? RNIC_WIRE_TAGGED_VERSION
                           : RNIC_WIRE_UNTAGGED_VERSION;
    }
    if (hdr->rv != RNIC_RDMAP_VERSION) {
        return RNIC_WIRE_OP_VERSION;
    }
    if (hdr->opcode >= RNIC_RDMAP_OPCODE_COUNT ||
        (hdr->opcode > RNIC_RDMAP_TERMINATE && !rfc7306)) {
        return RNIC_WIRE_OP_OPCODE;
    }
    rule = &rules[hdr->opcode];
    if (hdr->tagged != rule->tagged) {
        return RNIC_WIRE_OP_OPCODE;
    }
    err = length_check(hdr->opcode, ulpdu_len);
    if (err != RNIC_WIRE_OK) {
        return err;
    }
    if (!hdr->tagged) {
        err = queue_check(hdr);
        if (err != RNIC_WIRE_OK) {
            return err;
        }
    }

    seg->hdr_len = rule->hdr_len;
    if (rule->form == FORM_TERMINATE) {
        /* How much of it is header is the Terminate decoder's business. */
        seg->hdr_len =
            ulpdu_len < RNIC_RDMAP_HDR_MAX ? ulpdu_len : RNIC_RDMAP_HDR_MAX;
    }
    if (avail < seg->hdr_len) {
        return RNIC_WIRE_MORE;
    }
    seg->payload_len = ulpdu_len - seg->hdr_len;
    return RNIC_WIRE_OK;
}

size_t rnic_rdmap_tagged_encode(enum rnic_rdmap_opcode opcode, bool last,
                                uint32_t stag, uint64_t to, uint8_t *buf)
{
    struct rnic_ddp_hdr hdr = {
        .tagged = true,
        .last = last,
        .dv = RNIC_DDP_VERSION,
        .rv = RNIC_RDMAP_VERSION,
        .opcode = opcode,
        .stag = stag,
        .to = to,
    };

    return rnic_ddp_hdr_encode(&hdr, buf);
}

size_t rnic_rdmap_untagged_encode(enum rnic_rdmap_opcode opcode, bool last,
                                  uint32_t inval_stag, uint32_t msn,
                                  uint32_t mo, uint8_t *buf)
{
    struct rnic_ddp_hdr hdr = {
        .last = last,
        .dv = RNIC_DDP_VERSION,
        .rv = RNIC_RDMAP_VERSION,
        .opcode = opcode,
        .stag = inval_stag,
        .qn = rules[opcode].qn,
        .msn = msn,
        .mo = mo,
    };

    return rnic_ddp_hdr_encode(&hdr, buf);
}

bool rnic_rdmap_read_request_decode(const uint8_t *ulpdu, size_t len,
                                    struct rnic_rdmap_read_request *rr)
{
    if (len < RNIC_RDMAP_READ_REQUEST_SIZE) {
        return false;
    }
    *rr = (struct rnic_rdmap_read_request){
        .sink_stag = rnic_get_be32(ulpdu + 18),
        .sink_to = rnic_get_be64(ulpdu + 22),
        .size = rnic_get_be32(ulpdu + 30),
        .source_stag = rnic_get_be32(ulpdu + 34),
        .source_to = rnic_get_be64(ulpdu + 38),
    };
    return true;
}

size_t rnic_rdmap_read_request_encode(const struct rnic_rdmap_read_request *rr,
                                      uint32_t msn,
                                      uint8_t buf[RNIC_RDMAP_READ_REQUEST_SIZE])
{
    rnic_rdmap_untagged_encode(RNIC_RDMAP_READ_REQUEST, true, 0, msn, 0, buf);
    rnic_put_be32(buf + 18, rr->sink_stag);
    rnic_put_be64(buf + 22, rr->sink_to);
    rnic_put_be32(buf + 30, rr->size);
    rnic_put_be32(buf + 34, rr->source_stag);
    rnic_put_be64(buf + 38, rr->source_to);
    return RNIC_RDMAP_READ_REQUEST_SIZE;
}

bool rnic_rdmap_atomic_request_decode(const uint8_t *ulpdu, size_t len,
                                      struct rnic_rdmap_atomic_request *ar)
{
    if (len < RNIC_RDMAP_ATOMIC_REQUEST_SIZE) {
        return false;
    }
    *ar = (struct rnic_rdmap_atomic_request){
        .op = ulpdu[21] & 0x0f, /* the other 28 bits are reserved */
        .id = rnic_get_be32(ulpdu + 22),
        .stag = rnic_get_be32(ulpdu + 26),
        .to = rnic_get_be64(ulpdu + 30),
        .data = rnic_get_be64(ulpdu + 38),
        .mask = rnic_get_be64(ulpdu + 46),
        .compare = rnic_get_be64(ulpdu + 54),
        .compare_mask = rnic_get_be64(ulpdu + 62),
    };
    return true;
}

size_t
rnic_rdmap_atomic_request_encode(const struct rnic_rdmap_atomic_request *ar,
                                 uint32_t msn,
                                 uint8_t buf[RNIC_RDMAP_ATOMIC_REQUEST_SIZE])
{
    rnic_rdmap_untagged_encode(RNIC_RDMAP_ATOMIC_REQUEST, true, 0, msn, 0, buf);
    rnic_put_be32(buf + 18, ar->op & 0x0f);
    rnic_put_be32(buf + 22, ar->id);
    rnic_put_be32(buf + 26, ar->stag);
    rnic_put_be64(buf + 30, ar->to);
    rnic_put_be64(buf + 38, ar->data);
    rnic_put_be64(buf + 46, ar->mask);
    rnic_put_be64(buf + 54, ar->compare);
    rnic_put_be64(buf + 62, ar->compare_mask);
    return RNIC_RDMAP_ATOMIC_REQUEST_SIZE;
}

bool rnic_rdmap_atomic_response_decode(const uint8_t *ulpdu, size_t len,
                                       struct rnic_rdmap_atomic_response *ar)
{
    if (len < RNIC_RDMAP_ATOMIC_RESPONSE_SIZE) {
        return false;
    }
    *ar = (struct rnic_rdmap_atomic_response){
        .id = rnic_get_be32(ulpdu + 18),
        .value = rnic_get_be64(ulpdu + 22),
    };
    return true;
}

size_t
rnic_rdmap_atomic_response_encode(const struct rnic_rdmap_atomic_response *ar,
                                  uint32_t msn,
                                  uint8_t buf[RNIC_RDMAP_ATOMIC_RESPONSE_SIZE])
{
    rnic_rdmap_untagged_encode(RNIC_RDMAP_ATOMIC_RESPONSE, true, 0, msn, 0,
                               buf);
    rnic_put_be32(buf + 18, ar->id);
    rnic_put_be64(buf + 22, ar->value);
    return RNIC_RDMAP_ATOMIC_RESPONSE_SIZE;
}

bool rnic_rdmap_imm_decode(const uint8_t *ulpdu, size_t len,
                           uint8_t data[RNIC_RDMAP_IMM_DATA_SIZE])
{
    if (len < RNIC_RDMAP_IMM_SIZE) {
        return false;
    }
    memcpy(data, ulpdu + RNIC_DDP_UNTAGGED_SIZE, RNIC_RDMAP_IMM_DATA_SIZE);
    return true;
}

size_t rnic_rdmap_imm_encode(const uint8_t data[RNIC_RDMAP_IMM_DATA_SIZE],
                             bool solicited, uint32_t msn,
                             uint8_t buf[RNIC_RDMAP_IMM_SIZE])
{
    rnic_rdmap_untagged_encode(solicited ? RNIC_RDMAP_IMM_SE : RNIC_RDMAP_IMM,
                               true, 0, msn, 0, buf);
    memcpy(buf + RNIC_DDP_UNTAGGED_SIZE, data, RNIC_RDMAP_IMM_DATA_SIZE);
    return RNIC_RDMAP_IMM_SIZE;
}

const char *rnic_rdmap_opcode_str(uint8_t opcode)
{
    return opcode < RNIC_RDMAP_OPCODE_COUNT ? rules[opcode].name
                                            : "unknown opcode";
}
