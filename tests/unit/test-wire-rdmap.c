/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vectors.h"
#include "wire/byteorder.h"
#include "wire/fpdu.h"
#include "wire/rdmap.h"

#define ULPDU(fpdu) ((fpdu) + RNIC_FPDU_LENGTH_SIZE)

static bool is_fpdu(const struct vector *v)
{
    return v->kind == VEC_FPDU || v->kind == VEC_FPDU_NO_CRC ||
           v->kind == VEC_FPDU_BAD_CRC || v->kind == VEC_FPDU_SIW;
}

/* Decodes a whole ULPDU from an exactly sized copy. */
static enum rnic_wire_err decode(const uint8_t *ulpdu, uint16_t len,
                                 bool rfc7306, struct rnic_rdmap_seg *seg)
{
    uint8_t *copy = exact_copy(ulpdu, len);
    enum rnic_wire_err err =
        rnic_rdmap_seg_decode(copy, len, len, rfc7306, seg);

    g_free(copy);
    return err;
}

/* A ULPDU of @len octets with these control octets and QN, MSN 1, MO 0. */
static uint8_t *ulpdu_new(uint8_t ddp, uint8_t rdmap, uint32_t qn, size_t len)
{
    uint8_t *buf = g_malloc0(len < 18 ? 18 : len);

    buf[0] = ddp;
    buf[1] = rdmap;
    rnic_put_be32(buf + 6, qn);
    rnic_put_be32(buf + 10, 1);
    return buf;
}

static enum rnic_wire_err decode_new(uint8_t ddp, uint8_t rdmap, uint32_t qn,
                                     uint16_t len)
{
    struct rnic_rdmap_seg seg;
    uint8_t *buf = ulpdu_new(ddp, rdmap, qn, len);
    enum rnic_wire_err err = decode(buf, len, true, &seg);

    g_free(buf);
    return err;
}

static void test_vectors_are_rebuilt_from_their_fields(void)
{
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(vectors); i++) {
        struct rnic_rdmap_seg seg;
        size_t len, n;
        uint16_t ulpdu_len;
        uint8_t *buf, out[RNIC_RDMAP_HDR_MAX];

        if (!is_fpdu(&vectors[i])) {
            continue;
        }
        buf = hex_octets(vectors[i].hex, &len);
        ulpdu_len = rnic_get_be16(buf);
        g_assert_cmpint(decode(ULPDU(buf), ulpdu_len, true, &seg), ==,
                        RNIC_WIRE_OK);
        g_assert_cmpuint(seg.hdr_len + seg.payload_len, ==, ulpdu_len);

        n = rnic_ddp_hdr_encode(&seg.ddp, out);
        switch (seg.ddp.opcode) {
        case RNIC_RDMAP_READ_REQUEST: {
            struct rnic_rdmap_read_request rr;

            g_assert_true(
                rnic_rdmap_read_request_decode(ULPDU(buf), ulpdu_len, &rr));
            n = rnic_rdmap_read_request_encode(&rr, seg.ddp.msn, out);
            break;
        }
        case RNIC_RDMAP_ATOMIC_REQUEST: {
            struct rnic_rdmap_atomic_request ar;

            g_assert_true(
                rnic_rdmap_atomic_request_decode(ULPDU(buf), ulpdu_len, &ar));
            n = rnic_rdmap_atomic_request_encode(&ar, seg.ddp.msn, out);
            break;
        }
        case RNIC_RDMAP_ATOMIC_RESPONSE: {
            struct rnic_rdmap_atomic_response ar;

            g_assert_true(
                rnic_rdmap_atomic_response_decode(ULPDU(buf), ulpdu_len, &ar));
            n = rnic_rdmap_atomic_response_encode(&ar, seg.ddp.msn, out);
            break;
        }
        case RNIC_RDMAP_IMM:
        case RNIC_RDMAP_IMM_SE: {
            uint8_t data[RNIC_RDMAP_IMM_DATA_SIZE];

            g_assert_true(rnic_rdmap_imm_decode(ULPDU(buf), ulpdu_len, data));
            n = rnic_rdmap_imm_encode(data, rnic_rdmap_solicits(seg.ddp.opcode),
                                      seg.ddp.msn, out);
            break;
        }
        case RNIC_RDMAP_TERMINATE:
            /* Its control word has tests of its own. */
            g_assert_cmpuint(n, ==, RNIC_DDP_UNTAGGED_SIZE);
            break;
        default:
            g_assert_cmpuint(n, ==, seg.hdr_len);
        }
        g_assert_cmpmem(out, n, ULPDU(buf), n);
        g_free(buf);
    }
}

static void test_segment_headers_are_built_as_in_rfc5041(void)
{
    size_t len;
    uint8_t *want = vector_octets("write_seg_hdrs", &len);
    uint8_t out[40];

    /* 2048 octets at MULPDU 1500: 1486 and 562 octets tagged. */
    rnic_fpdu_length_encode(1500, out);
    rnic_rdmap_tagged_encode(RNIC_RDMAP_WRITE, false, 0x12345678, 16384,
                             out + 2);
    rnic_fpdu_length_encode(562 + 14, out + 16);
    rnic_rdmap_tagged_encode(RNIC_RDMAP_WRITE, true, 0x12345678, 17870,
                             out + 18);
    g_assert_cmpmem(out, 32, want, len);
    g_free(want);

    /* 1482 and 566 octets untagged. */
    want = vector_octets("send_seg_hdrs", &len);
    rnic_fpdu_length_encode(1500, out);
    rnic_rdmap_untagged_encode(RNIC_RDMAP_SEND, false, 0, 5, 0, out + 2);
    rnic_fpdu_length_encode(566 + 18, out + 20);
    rnic_rdmap_untagged_encode(RNIC_RDMAP_SEND, true, 0, 5, 1482, out + 22);
    g_assert_cmpmem(out, 40, want, len);
    g_free(want);
}

static void test_write_fields(void)
{
    struct rnic_rdmap_seg seg;
    size_t len;
    uint8_t *buf = vector_octets("write8", &len);

    g_assert_cmpint(decode(ULPDU(buf), 22, false, &seg), ==, RNIC_WIRE_OK);
    g_assert_true(seg.ddp.tagged && seg.ddp.last);
    g_assert_cmpuint(seg.ddp.opcode, ==, RNIC_RDMAP_WRITE);
    g_assert_cmphex(seg.ddp.stag, ==, 0x12345678);
    g_assert_cmphex(seg.ddp.to, ==, 0x100000002000);
    g_assert_cmpuint(seg.hdr_len, ==, 14);
    g_assert_cmpuint(seg.payload_len, ==, 8);
    g_free(buf);
}

static void test_send_with_invalidate_fields(void)
{
    struct rnic_rdmap_seg seg;
    size_t len;
    uint8_t *buf = vector_octets("sendinv3", &len);

    g_assert_cmpint(decode(ULPDU(buf), 21, false, &seg), ==, RNIC_WIRE_OK);
    g_assert_false(seg.ddp.tagged);
    g_assert_true(rnic_rdmap_invalidates(seg.ddp.opcode));
    g_assert_cmphex(seg.ddp.stag, ==, 0x00010203);
    g_assert_cmpuint(seg.ddp.qn, ==, 0);
    g_assert_cmpuint(seg.ddp.msn, ==, 2);
    g_assert_cmpuint(seg.ddp.mo, ==, 0);
    g_assert_cmpuint(seg.payload_len, ==, 3);
    g_free(buf);
}

static void test_read_request_fields(void)
{
    struct rnic_rdmap_read_request rr;
    size_t len;
    uint8_t *buf = vector_octets("rreq16", &len);

    g_assert_true(rnic_rdmap_read_request_decode(ULPDU(buf), 46, &rr));
    g_assert_cmphex(rr.sink_stag, ==, 0xaabbcc01);
    g_assert_cmphex(rr.sink_to, ==, 0x1000);
    g_assert_cmpuint(rr.size, ==, 16);
    g_assert_cmphex(rr.source_stag, ==, 0xddeeff02);
    g_assert_cmphex(rr.source_to, ==, 0x2000);
    g_free(buf);
}

static void test_atomic_request_fields(void)
{
    struct rnic_rdmap_atomic_request ar;
    size_t len;
    uint8_t *buf = vector_octets("areq_cas", &len);

    g_assert_true(rnic_rdmap_atomic_request_decode(ULPDU(buf), 70, &ar));
    g_assert_cmpuint(ar.op, ==, RNIC_RDMAP_CMP_SWAP);
    g_assert_cmphex(ar.id, ==, 0x1002);
    g_assert_cmphex(ar.stag, ==, 0xddeeff02);
    g_assert_cmphex(ar.to, ==, 0x2008);
    g_assert_cmphex(ar.data, ==, 0x1111222233334444);
    g_assert_cmphex(ar.mask, ==, UINT64_MAX);
    g_assert_cmphex(ar.compare, ==, 0xaaaa);
    g_assert_cmphex(ar.compare_mask, ==, UINT64_MAX);
    g_free(buf);
}

/* Headers arrive in pieces; no octet beyond the available is touched. */
static void test_every_cut_of_the_header_needs_more(void)
{
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(vectors); i++) {
        struct rnic_rdmap_seg whole, seg;
        size_t len, n;
        uint16_t ulpdu_len;
        uint8_t *buf;

        if (!is_fpdu(&vectors[i])) {
            continue;
        }
        buf = hex_octets(vectors[i].hex, &len);
        ulpdu_len = rnic_get_be16(buf);
        g_assert_cmpint(decode(ULPDU(buf), ulpdu_len, true, &whole), ==,
                        RNIC_WIRE_OK);
        for (n = 0; n <= ulpdu_len; n++) {
            uint8_t *cut = exact_copy(ULPDU(buf), n);

            g_assert_cmpint(
                rnic_rdmap_seg_decode(cut, n, ulpdu_len, true, &seg), ==,
                n < whole.hdr_len ? RNIC_WIRE_MORE : RNIC_WIRE_OK);
            g_free(cut);
        }
        g_free(buf);
    }
}

/* A ULPDU that ends early never asks for octets that will not come. */
static void test_every_shortened_ulpdu_is_decided(void)
{
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(vectors); i++) {
        struct rnic_rdmap_seg seg;
        size_t len;
        uint16_t n, ulpdu_len;
        uint8_t *buf;

        if (!is_fpdu(&vectors[i])) {
            continue;
        }
        buf = hex_octets(vectors[i].hex, &len);
        ulpdu_len = rnic_get_be16(buf);
        for (n = 0; n < ulpdu_len; n++) {
            enum rnic_wire_err err = decode(ULPDU(buf), n, true, &seg);

            if (n < RNIC_DDP_TAGGED_SIZE) {
                g_assert_cmpint(err, ==, RNIC_WIRE_MPA_LENGTH);
            } else if (err == RNIC_WIRE_OK) {
                g_assert_cmpuint(seg.hdr_len + seg.payload_len, ==, n);
            } else {
                g_assert_true(err == RNIC_WIRE_MPA_LENGTH ||
                              err == RNIC_WIRE_OP_OTHER);
            }
        }
        g_free(buf);
    }
}

static void test_every_flipped_bit_is_a_segment_or_an_error(void)
{
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(vectors); i++) {
        size_t len, bit;
        uint16_t ulpdu_len;
        uint8_t *buf;

        if (!is_fpdu(&vectors[i])) {
            continue;
        }
        buf = hex_octets(vectors[i].hex, &len);
        ulpdu_len = rnic_get_be16(buf);
        for (bit = 0; bit < ulpdu_len * 8u; bit++) {
            struct rnic_rdmap_seg seg;
            enum rnic_wire_err err;

            ULPDU(buf)[bit / 8] ^= (uint8_t)(1 << bit % 8);
            err = decode(ULPDU(buf), ulpdu_len, true, &seg);
            g_assert_cmpint(err, !=, RNIC_WIRE_MORE);
            if (err == RNIC_WIRE_OK) {
                g_assert_cmpuint(seg.ddp.dv, ==, 1);
                g_assert_cmpuint(seg.ddp.rv, ==, 1);
                g_assert_cmpuint(seg.ddp.opcode, <, RNIC_RDMAP_OPCODE_COUNT);
                g_assert_cmpuint(seg.hdr_len + seg.payload_len, ==, ulpdu_len);
            }
            ULPDU(buf)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        g_free(buf);
    }
}

static void test_ulpdu_shorter_than_any_header(void)
{
    uint16_t len;

    for (len = 0; len < 14; len++) {
        g_assert_cmpint(decode_new(0xc1, 0x40, 0, len), ==,
                        RNIC_WIRE_MPA_LENGTH);
    }
    g_assert_cmpint(decode_new(0xc1, 0x40, 0, 14), ==, RNIC_WIRE_OK);
}

static void test_ulpdu_shorter_than_its_header(void)
{
    g_assert_cmpint(decode_new(0x41, 0x43, 0, 17), ==, RNIC_WIRE_MPA_LENGTH);
    g_assert_cmpint(decode_new(0x41, 0x43, 0, 18), ==, RNIC_WIRE_OK);
    g_assert_cmpint(decode_new(0x41, 0x41, 1, 45), ==, RNIC_WIRE_MPA_LENGTH);
    g_assert_cmpint(decode_new(0x41, 0x41, 1, 46), ==, RNIC_WIRE_OK);
    g_assert_cmpint(decode_new(0x41, 0x47, 2, 21), ==, RNIC_WIRE_MPA_LENGTH);
    g_assert_cmpint(decode_new(0x41, 0x47, 2, 22), ==, RNIC_WIRE_OK);
    g_assert_cmpint(decode_new(0x41, 0x4a, 1, 69), ==, RNIC_WIRE_MPA_LENGTH);
    g_assert_cmpint(decode_new(0x41, 0x4a, 1, 70), ==, RNIC_WIRE_OK);
    g_assert_cmpint(decode_new(0x41, 0x4b, 3, 29), ==, RNIC_WIRE_MPA_LENGTH);
    g_assert_cmpint(decode_new(0x41, 0x4b, 3, 30), ==, RNIC_WIRE_OK);
}

static void test_data_behind_a_fixed_header(void)
{
    g_assert_cmpint(decode_new(0x41, 0x41, 1, 47), ==, RNIC_WIRE_OP_OTHER);
    g_assert_cmpint(decode_new(0x41, 0x41, 1, 100), ==, RNIC_WIRE_OP_OTHER);
    g_assert_cmpint(decode_new(0x41, 0x4a, 1, 71), ==, RNIC_WIRE_OP_OTHER);
    g_assert_cmpint(decode_new(0x41, 0x4b, 3, 31), ==, RNIC_WIRE_OP_OTHER);
}

static void test_immediate_data_is_eight_octets(void)
{
    uint16_t n;

    for (n = 0; n < 20; n++) {
        enum rnic_wire_err want = n == 8 ? RNIC_WIRE_OK : RNIC_WIRE_OP_OTHER;

        g_assert_cmpint(decode_new(0x41, 0x48, 0, 18 + n), ==, want);
        g_assert_cmpint(decode_new(0x41, 0x49, 0, 18 + n), ==, want);
    }
}

static void test_terminate_may_be_longer_than_its_headers(void)
{
    struct rnic_rdmap_seg seg;
    uint8_t *buf = ulpdu_new(0x41, 0x47, 2, 200);

    g_assert_cmpint(decode(buf, 200, false, &seg), ==, RNIC_WIRE_OK);
    g_assert_cmpuint(seg.hdr_len, ==, RNIC_RDMAP_HDR_MAX);
    g_assert_cmpuint(seg.payload_len, ==, 130);
    g_free(buf);
}

static void test_ddp_version(void)
{
    uint8_t dv;

    for (dv = 0; dv < 4; dv++) {
        g_assert_cmpint(decode_new(0xc0 | dv, 0x40, 0, 20), ==,
                        dv == 1 ? RNIC_WIRE_OK : RNIC_WIRE_TAGGED_VERSION);
        g_assert_cmpint(decode_new(0x40 | dv, 0x43, 0, 20), ==,
                        dv == 1 ? RNIC_WIRE_OK : RNIC_WIRE_UNTAGGED_VERSION);
    }
}

static void test_rdmap_version(void)
{
    uint8_t rv;

    for (rv = 0; rv < 4; rv++) {
        g_assert_cmpint(decode_new(0x41, (uint8_t)(rv << 6) | 3, 0, 20), ==,
                        rv == 1 ? RNIC_WIRE_OK : RNIC_WIRE_OP_VERSION);
    }
}

static void test_unassigned_opcodes(void)
{
    uint8_t opcode;

    for (opcode = 12; opcode < 16; opcode++) {
        g_assert_cmpint(decode_new(0x41, 0x40 | opcode, 0, 80), ==,
                        RNIC_WIRE_OP_OPCODE);
        g_assert_cmpint(decode_new(0xc1, 0x40 | opcode, 0, 80), ==,
                        RNIC_WIRE_OP_OPCODE);
    }
}

static void test_rfc7306_opcodes_unless_supported(void)
{
    uint8_t opcode;

    for (opcode = 0; opcode < 12; opcode++) {
        struct rnic_rdmap_seg seg;
        uint8_t ddp = opcode == 0 || opcode == 2 ? 0xc1 : 0x41;
        uint8_t *buf = ulpdu_new(ddp, 0x40 | opcode, 0, 80);
        enum rnic_wire_err err = decode(buf, 80, false, &seg);

        g_assert_cmpint(err == RNIC_WIRE_OP_OPCODE, ==, opcode >= 8);
        g_free(buf);
    }
}

static void test_t_bit_must_fit_the_opcode(void)
{
    uint8_t opcode;

    for (opcode = 0; opcode < 12; opcode++) {
        uint8_t wrong = opcode == 0 || opcode == 2 ? 0x41 : 0xc1;

        g_assert_cmpint(decode_new(wrong, 0x40 | opcode, 0, 80), ==,
                        RNIC_WIRE_OP_OPCODE);
    }
}

static void test_qn_must_fit_the_opcode(void)
{
    static const struct {
        uint8_t opcode;
        uint16_t len;
        uint32_t qn;
    } cases[] = {
        { 1, 46, 1 }, { 3, 20, 0 }, { 4, 20, 0 }, { 5, 20, 0 },  { 6, 18, 0 },
        { 7, 22, 2 }, { 8, 26, 0 }, { 9, 26, 0 }, { 10, 70, 1 }, { 11, 30, 3 },
    };
    static const uint32_t qns[] = { 0, 1, 2, 3, 4, UINT32_MAX };
    size_t i, k;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        for (k = 0; k < G_N_ELEMENTS(qns); k++) {
            g_assert_cmpint(
                decode_new(0x41, 0x40 | cases[i].opcode, qns[k], cases[i].len),
                ==,
                qns[k] == cases[i].qn ? RNIC_WIRE_OK : RNIC_WIRE_UNTAGGED_QN);
        }
    }
}

static void test_single_segment_messages_start_at_zero_and_end(void)
{
    static const struct {
        uint8_t opcode;
        uint16_t len;
        uint32_t qn;
    } cases[] = {
        { 1, 46, 1 }, { 7, 22, 2 },  { 8, 26, 0 },
        { 9, 26, 0 }, { 10, 70, 1 }, { 11, 30, 3 },
    };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct rnic_rdmap_seg seg;
        uint8_t *buf;

        g_assert_cmpint(
            decode_new(0x01, 0x40 | cases[i].opcode, cases[i].qn, cases[i].len),
            ==, RNIC_WIRE_UNTAGGED_MO);
        buf =
            ulpdu_new(0x41, 0x40 | cases[i].opcode, cases[i].qn, cases[i].len);
        rnic_put_be32(buf + 14, 4);
        g_assert_cmpint(decode(buf, cases[i].len, true, &seg), ==,
                        RNIC_WIRE_UNTAGGED_MO);
        g_free(buf);
    }
}

static void test_terminate_has_msn_one(void)
{
    struct rnic_rdmap_seg seg;
    uint8_t *buf = ulpdu_new(0x41, 0x47, 2, 22);

    rnic_put_be32(buf + 10, 2);
    g_assert_cmpint(decode(buf, 22, true, &seg), ==, RNIC_WIRE_UNTAGGED_MSN);
    g_free(buf);
}

static void test_reserved_bits_are_ignored(void)
{
    g_assert_cmpint(decode_new(0x7d, 0x73, 0, 20), ==, RNIC_WIRE_OK);
    g_assert_cmpint(decode_new(0xfd, 0x70, 0, 20), ==, RNIC_WIRE_OK);
}

static void test_first_violation_in_order_is_reported(void)
{
    /* DV, RV, opcode, T, length, QN: each before all that follow. */
    g_assert_cmpint(decode_new(0x42, 0x8f, 9, 20), ==,
                    RNIC_WIRE_UNTAGGED_VERSION);
    g_assert_cmpint(decode_new(0x41, 0x8f, 9, 20), ==, RNIC_WIRE_OP_VERSION);
    g_assert_cmpint(decode_new(0xc1, 0x4f, 9, 20), ==, RNIC_WIRE_OP_OPCODE);
    g_assert_cmpint(decode_new(0xc1, 0x41, 9, 20), ==, RNIC_WIRE_OP_OPCODE);
    g_assert_cmpint(decode_new(0x41, 0x41, 9, 20), ==, RNIC_WIRE_MPA_LENGTH);
    g_assert_cmpint(decode_new(0x01, 0x41, 9, 46), ==, RNIC_WIRE_UNTAGGED_QN);
}

static void test_longest_write_is_a_segment(void)
{
    struct rnic_rdmap_seg seg;
    uint8_t *buf = ulpdu_new(0xc1, 0x40, 0, 18);
    uint8_t *cut = exact_copy(buf, 14);

    g_assert_cmpint(rnic_rdmap_seg_decode(cut, 14, 65535, false, &seg), ==,
                    RNIC_WIRE_OK);
    g_assert_cmpuint(seg.payload_len, ==, 65521);
    g_free(cut);
    g_free(buf);
}

static void test_octets_behind_the_ulpdu_are_not_its_own(void)
{
    struct rnic_rdmap_seg seg;
    uint8_t *buf = ulpdu_new(0x42, 0x43, 0, 40);

    /*
     * 17 octets are no untagged header, whatever follows them: the verdict
     * is the same as when nothing does, although DV is wrong as well.
     */
    g_assert_cmpint(decode(buf, 17, false, &seg), ==, RNIC_WIRE_MPA_LENGTH);
    g_assert_cmpint(rnic_rdmap_seg_decode(buf, 40, 17, false, &seg), ==,
                    RNIC_WIRE_MPA_LENGTH);
    g_free(buf);
}

static void test_typed_decoders_refuse_every_cut(void)
{
    size_t n;

    for (n = 0; n < RNIC_RDMAP_HDR_MAX; n++) {
        struct rnic_rdmap_read_request rr;
        struct rnic_rdmap_atomic_request ar;
        struct rnic_rdmap_atomic_response as;
        uint8_t data[RNIC_RDMAP_IMM_DATA_SIZE];
        uint8_t *cut = g_malloc0(n);

        g_assert_cmpint(rnic_rdmap_read_request_decode(cut, n, &rr), ==,
                        n >= 46);
        g_assert_cmpint(rnic_rdmap_atomic_request_decode(cut, n, &ar), ==,
                        n >= 70);
        g_assert_cmpint(rnic_rdmap_atomic_response_decode(cut, n, &as), ==,
                        n >= 30);
        g_assert_cmpint(rnic_rdmap_imm_decode(cut, n, data), ==, n >= 26);
        g_free(cut);
    }
}

static void test_opcode_classes(void)
{
    uint8_t opcode;

    for (opcode = 0; opcode < 16; opcode++) {
        g_assert_cmpint(rnic_rdmap_is_send(opcode), ==,
                        opcode >= 3 && opcode <= 6);
        g_assert_cmpint(rnic_rdmap_solicits(opcode), ==,
                        opcode == 5 || opcode == 6 || opcode == 9);
        g_assert_cmpint(rnic_rdmap_invalidates(opcode), ==,
                        opcode == 4 || opcode == 6);
        g_assert_nonnull(rnic_rdmap_opcode_str(opcode));
    }
    g_assert_cmpstr(rnic_rdmap_opcode_str(0), ==, "RDMA Write");
    g_assert_cmpstr(rnic_rdmap_opcode_str(15), ==, "unknown opcode");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add_func("/wire/rdmap/" #name, test_##name)
    ADD(vectors_are_rebuilt_from_their_fields);
    ADD(segment_headers_are_built_as_in_rfc5041);
    ADD(write_fields);
    ADD(send_with_invalidate_fields);
    ADD(read_request_fields);
    ADD(atomic_request_fields);
    ADD(every_cut_of_the_header_needs_more);
    ADD(every_shortened_ulpdu_is_decided);
    ADD(every_flipped_bit_is_a_segment_or_an_error);
    ADD(ulpdu_shorter_than_any_header);
    ADD(ulpdu_shorter_than_its_header);
    ADD(data_behind_a_fixed_header);
    ADD(immediate_data_is_eight_octets);
    ADD(terminate_may_be_longer_than_its_headers);
    ADD(ddp_version);
    ADD(rdmap_version);
    ADD(unassigned_opcodes);
    ADD(rfc7306_opcodes_unless_supported);
    ADD(t_bit_must_fit_the_opcode);
    ADD(qn_must_fit_the_opcode);
    ADD(single_segment_messages_start_at_zero_and_end);
    ADD(terminate_has_msn_one);
    ADD(reserved_bits_are_ignored);
    ADD(first_violation_in_order_is_reported);
    ADD(longest_write_is_a_segment);
    ADD(octets_behind_the_ulpdu_are_not_its_own);
    ADD(typed_decoders_refuse_every_cut);
    ADD(opcode_classes);
#undef ADD
    return g_test_run();
}
