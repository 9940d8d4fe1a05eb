/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vectors.h"
#include "wire/byteorder.h"
#include "wire/fpdu.h"
#include "wire/terminate.h"

#define ULPDU(fpdu) ((fpdu) + RNIC_FPDU_LENGTH_SIZE)

static void assert_encodes(const char *name, enum rnic_wire_err err,
                           const uint8_t *offender, size_t avail,
                           uint16_t ulpdu_len)
{
    size_t len, n;
    uint8_t *want = vector_octets(name, &len);
    uint8_t out[RNIC_TERM_SIZE_MAX];

    n = rnic_term_encode(err, offender, avail, ulpdu_len, out);
    g_assert_cmpmem(out, n, ULPDU(want), rnic_get_be16(want));
    g_free(want);
}

static void decode_vector(const char *name, struct rnic_term *term)
{
    size_t len;
    uint8_t *buf = vector_octets(name, &len);
    uint16_t ulpdu_len = rnic_get_be16(buf);
    uint8_t *ulpdu = exact_copy(ULPDU(buf), ulpdu_len);

    g_assert_true(rnic_term_decode(ulpdu, ulpdu_len, term));
    g_free(ulpdu);
    g_free(buf);
}

static void test_ddp_error_returns_the_untagged_header(void)
{
    uint8_t offender[RNIC_DDP_HDR_MAX];

    rnic_rdmap_untagged_encode(RNIC_RDMAP_SEND, true, 0, 10, 0, offender);
    assert_encodes("term_ddp_nobuf", RNIC_WIRE_UNTAGGED_BUFFER, offender,
                   sizeof(offender), 22);
}

static void test_ddp_error_returns_the_tagged_header(void)
{
    uint8_t offender[RNIC_DDP_HDR_MAX];

    rnic_rdmap_tagged_encode(RNIC_RDMAP_WRITE, true, 0x12345678, 0xffff,
                             offender);
    assert_encodes("term_ddp_bounds", RNIC_WIRE_TAGGED_BOUNDS, offender,
                   RNIC_DDP_TAGGED_SIZE, 22);
}

static void test_protection_error_returns_the_read_request(void)
{
    static const struct rnic_rdmap_read_request rr = {
        .sink_stag = 0xaabbcc01,
        .sink_to = 0x1000,
        .size = 0x40,
        .source_stag = 0xdead0000,
        .source_to = 0x2000,
    };
    uint8_t offender[RNIC_RDMAP_READ_REQUEST_SIZE];

    rnic_rdmap_read_request_encode(&rr, 1, offender);
    assert_encodes("term_rdmap_prot", RNIC_WIRE_PROT_STAG, offender,
                   sizeof(offender), 46);
}

static void test_error_without_offender_has_no_headers(void)
{
    assert_encodes("term_opcode", RNIC_WIRE_OP_OPCODE, NULL, 0, 0);
}

static void test_mpa_errors_have_no_headers(void)
{
    uint8_t offender[RNIC_DDP_HDR_MAX];

    rnic_rdmap_untagged_encode(RNIC_RDMAP_SEND, true, 0, 1, 0, offender);
    assert_encodes("term_mpa_crc", RNIC_WIRE_MPA_CRC, offender,
                   sizeof(offender), 18);
    assert_encodes("term_mpa_ird", RNIC_WIRE_MPA_IRD, NULL, 0, 0);
}

static void test_terminate_is_never_answered(void)
{
    uint8_t offender[RNIC_DDP_HDR_MAX];
    uint8_t out[RNIC_TERM_SIZE_MAX];
    size_t avail;

    rnic_rdmap_untagged_encode(RNIC_RDMAP_TERMINATE, true, 0, 2, 4, offender);
    /* Not even one that is cut short. */
    for (avail = 2; avail <= sizeof(offender); avail++) {
        g_assert_cmpuint(rnic_term_encode(RNIC_WIRE_UNTAGGED_MSN, offender,
                                          avail, (uint16_t)avail, out),
                         ==, 0);
    }
}

static void test_protection_error_of_a_send_returns_no_read_request(void)
{
    uint8_t offender[RNIC_RDMAP_READ_REQUEST_SIZE] = { 0 };
    uint8_t out[RNIC_TERM_SIZE_MAX];

    rnic_rdmap_untagged_encode(RNIC_RDMAP_SEND_INV, true, 7, 1, 0, offender);
    g_assert_cmpuint(rnic_term_encode(RNIC_WIRE_PROT_INVALIDATE, offender,
                                      sizeof(offender), 100, out),
                     ==, 42);
    g_assert_cmphex(out[18], ==, 0x01);
    g_assert_cmphex(out[19], ==, 0x09);
    g_assert_cmphex(out[20], ==, 0xc0);
    g_assert_cmpuint(rnic_get_be16(out + 22), ==, 100);
}

static void test_atomic_request_is_never_returned(void)
{
    static const struct rnic_rdmap_atomic_request ar = { .id = 1 };
    uint8_t offender[RNIC_RDMAP_ATOMIC_REQUEST_SIZE];
    uint8_t out[RNIC_TERM_SIZE_MAX];

    rnic_rdmap_atomic_request_encode(&ar, 1, offender);
    g_assert_cmpuint(rnic_term_encode(RNIC_WIRE_PROT_STAG, offender,
                                      sizeof(offender), sizeof(offender), out),
                     ==, 42);
    g_assert_cmphex(out[20], ==, 0xc0);
}

static void test_every_cut_of_the_offender_is_encodable(void)
{
    static const struct rnic_rdmap_read_request rr = { .size = 1 };
    uint8_t offender[RNIC_RDMAP_READ_REQUEST_SIZE];
    size_t n;

    rnic_rdmap_read_request_encode(&rr, 1, offender);
    for (n = 0; n <= sizeof(offender); n++) {
        uint8_t *cut = exact_copy(offender, n);
        uint8_t out[RNIC_TERM_SIZE_MAX];

        g_assert_cmpuint(rnic_term_encode(RNIC_WIRE_PROT_STAG, cut, n, 46, out),
                         ==,
                         n < 18   ? 22
                         : n < 46 ? 42
                                  : 70);
        g_free(cut);
    }
}

/* What is encoded is decoded to the same, for each condition. */
static void test_every_condition_round_trips(void)
{
    static const struct rnic_rdmap_read_request rr = {
        .sink_stag = 1,
        .sink_to = 2,
        .size = 3,
        .source_stag = 4,
        .source_to = 5,
    };
    uint8_t offender[RNIC_RDMAP_READ_REQUEST_SIZE];
    int err;

    rnic_rdmap_read_request_encode(&rr, 9, offender);
    for (err = RNIC_WIRE_MORE + 1; err < RNIC_WIRE_ERR_COUNT; err++) {
        const struct rnic_term_cause *cause = rnic_term_cause(err);
        struct rnic_rdmap_seg seg;
        struct rnic_term term;
        uint8_t out[RNIC_TERM_SIZE_MAX];
        size_t n = rnic_term_encode(err, offender, sizeof(offender),
                                    sizeof(offender), out);

        g_assert_nonnull(cause->name);
        g_assert_cmpint(rnic_rdmap_seg_decode(out, n, (uint16_t)n, false, &seg),
                        ==, RNIC_WIRE_OK);
        g_assert_true(rnic_term_decode(out, n, &term));
        g_assert_false(term.swapped);
        g_assert_cmpuint(term.rfc.layer, ==, cause->layer);
        g_assert_cmpuint(term.rfc.etype, ==, cause->etype);
        g_assert_cmpuint(term.rfc.code, ==, cause->code);
        g_assert_cmpint(term.has_seg_len, ==, cause->ddp_hdr);
        g_assert_cmpint(term.has_ddp, ==, cause->ddp_hdr);
        g_assert_cmpint(term.has_read_request, ==, cause->rdmap_hdr);
        if (term.has_ddp) {
            g_assert_cmpuint(term.seg_len, ==, sizeof(offender));
            g_assert_cmpuint(term.ddp.msn, ==, 9);
        }
        if (term.has_read_request) {
            g_assert_cmpuint(term.read_request.source_to, ==, 5);
        }
        g_assert_cmpstr(rnic_term_str(cause->layer, cause->etype, cause->code),
                        ==, cause->name);
    }
}

/* RFC 5040 section 4.8, RFC 5041 section 7, RFC 5044 section 8. */
static void test_codes_are_the_registered_ones(void)
{
    static const struct {
        enum rnic_wire_err err;
        uint8_t layer_etype, code;
    } cases[] = {
        { RNIC_WIRE_MPA_CRC, 0x20, 0x02 },
        { RNIC_WIRE_MPA_LENGTH, 0x20, 0x03 },
        { RNIC_WIRE_MPA_FRAME, 0x20, 0x04 },
        { RNIC_WIRE_MPA_LOCAL, 0x20, 0x05 },
        { RNIC_WIRE_MPA_IRD, 0x20, 0x06 },
        { RNIC_WIRE_MPA_RTR, 0x20, 0x07 },
        { RNIC_WIRE_DDP_LOCAL, 0x10, 0x00 },
        { RNIC_WIRE_TAGGED_STAG, 0x11, 0x00 },
        { RNIC_WIRE_TAGGED_BOUNDS, 0x11, 0x01 },
        { RNIC_WIRE_TAGGED_STREAM, 0x11, 0x02 },
        { RNIC_WIRE_TAGGED_WRAP, 0x11, 0x03 },
        { RNIC_WIRE_TAGGED_VERSION, 0x11, 0x04 },
        { RNIC_WIRE_UNTAGGED_QN, 0x12, 0x01 },
        { RNIC_WIRE_UNTAGGED_BUFFER, 0x12, 0x02 },
        { RNIC_WIRE_UNTAGGED_MSN, 0x12, 0x03 },
        { RNIC_WIRE_UNTAGGED_MO, 0x12, 0x04 },
        { RNIC_WIRE_UNTAGGED_LENGTH, 0x12, 0x05 },
        { RNIC_WIRE_UNTAGGED_VERSION, 0x12, 0x06 },
        { RNIC_WIRE_PROT_STAG, 0x01, 0x00 },
        { RNIC_WIRE_PROT_BOUNDS, 0x01, 0x01 },
        { RNIC_WIRE_PROT_ACCESS, 0x01, 0x02 },
        { RNIC_WIRE_PROT_STREAM, 0x01, 0x03 },
        { RNIC_WIRE_PROT_WRAP, 0x01, 0x04 },
        { RNIC_WIRE_PROT_INVALIDATE, 0x01, 0x09 },
        { RNIC_WIRE_PROT_OTHER, 0x01, 0xff },
        { RNIC_WIRE_OP_VERSION, 0x02, 0x05 },
        { RNIC_WIRE_OP_OPCODE, 0x02, 0x06 },
        { RNIC_WIRE_OP_STREAM, 0x02, 0x07 },
        { RNIC_WIRE_OP_GLOBAL, 0x02, 0x08 },
        { RNIC_WIRE_OP_INVALIDATE, 0x02, 0x09 },
        { RNIC_WIRE_OP_OTHER, 0x02, 0xff },
    };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        uint8_t out[RNIC_TERM_SIZE_MAX];

        g_assert_cmpuint(rnic_term_encode(cases[i].err, NULL, 0, 0, out), ==,
                         22);
        g_assert_cmphex(out[18], ==, cases[i].layer_etype);
        g_assert_cmphex(out[19], ==, cases[i].code);
    }
}

static void test_siw_bit_order_of_a_write_error(void)
{
    struct rnic_term term;

    decode_vector("siw_term_write_stag", &term);
    g_assert_true(term.swapped);
    g_assert_cmpuint(term.siw.layer, ==, 1);
    g_assert_cmpuint(term.siw.etype, ==, 1);
    g_assert_cmpuint(term.siw.code, ==, 0);
    g_assert_true(term.has_ddp);
    g_assert_true(term.ddp.tagged);
    g_assert_cmphex(term.ddp.stag, ==, 0xdead0100);
    g_assert_false(term.has_read_request);
}

static void test_siw_bit_order_of_a_read_error(void)
{
    struct rnic_term term;

    decode_vector("siw_term_read_stag", &term);
    g_assert_true(term.swapped);
    g_assert_cmpuint(rnic_term_ctrl(&term)->layer, ==, 0);
    g_assert_cmpuint(rnic_term_ctrl(&term)->etype, ==, 1);
    g_assert_cmpuint(rnic_term_ctrl(&term)->code, ==, 0);
    /* The other reading is reported as well. */
    g_assert_cmpuint(term.rfc.layer, ==, 1);
    g_assert_cmpuint(term.rfc.etype, ==, 0);
    g_assert_true(term.has_read_request);
    g_assert_cmpuint(term.read_request.size, ==, 64);
    g_assert_cmphex(term.read_request.source_stag, ==, 0xdead0100);
}

static void test_siw_bit_order_of_a_missing_receive(void)
{
    struct rnic_term term;

    /* The RFC's order would be an MPA error; the flags decide. */
    decode_vector("siw_term_no_buffer", &term);
    g_assert_true(term.swapped);
    g_assert_cmpuint(term.siw.layer, ==, 1);
    g_assert_cmpuint(term.siw.etype, ==, 2);
    g_assert_cmpuint(term.siw.code, ==, 2);
}

static void test_undefined_code_without_flags_is_tried_swapped(void)
{
    uint8_t buf[RNIC_TERM_SIZE_MIN] = { 0 };
    struct rnic_term term;

    /* siw's CRC error: layer 2 in the low nibble. */
    buf[18] = 0x02;
    buf[19] = 0x02;
    g_assert_true(rnic_term_decode(buf, sizeof(buf), &term));
    g_assert_true(term.swapped);
    g_assert_cmpuint(rnic_term_ctrl(&term)->layer, ==, 2);
    /* Defined in the RFC's order: that one counts. */
    buf[18] = 0x20;
    g_assert_true(rnic_term_decode(buf, sizeof(buf), &term));
    g_assert_false(term.swapped);
}

static void test_every_control_word_is_taken(void)
{
    unsigned layer_etype, code, flags;

    for (layer_etype = 0; layer_etype < 256; layer_etype++) {
        for (code = 0; code < 256; code += 5) {
            for (flags = 0; flags < 256; flags++) {
                uint8_t buf[RNIC_TERM_SIZE_MIN] = { 0 };
                struct rnic_term term;

                buf[18] = (uint8_t)layer_etype;
                buf[19] = (uint8_t)code;
                buf[20] = (uint8_t)flags;
                g_assert_true(rnic_term_decode(buf, sizeof(buf), &term));
                g_assert_cmpuint(term.rfc.layer, ==, layer_etype >> 4);
                g_assert_false(term.has_seg_len || term.has_ddp ||
                               term.has_read_request);
            }
        }
    }
}

static void test_every_cut_is_taken_from_the_control_word_on(void)
{
    static const char *const names[] = {
        "term_rdmap_prot", "term_ddp_nobuf",     "term_ddp_bounds",
        "term_opcode",     "siw_term_read_stag", "siw_term_write_stag",
    };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(names); i++) {
        size_t len, n;
        uint8_t *buf = vector_octets(names[i], &len);
        uint16_t ulpdu_len = rnic_get_be16(buf);

        for (n = 0; n <= ulpdu_len; n++) {
            uint8_t *cut = exact_copy(ULPDU(buf), n);
            struct rnic_term term;

            g_assert_cmpint(rnic_term_decode(cut, n, &term), ==, n >= 22);
            if (n >= 22) {
                g_assert_true(!term.has_seg_len || n >= 24);
                g_assert_true(!term.has_ddp ||
                              n >= 24 + rnic_ddp_hdr_size(term.ddp.tagged));
                g_assert_true(!term.has_read_request || n == 70);
            }
            g_free(cut);
        }
        g_free(buf);
    }
}

static void test_announced_but_missing_read_request_is_tolerated(void)
{
    struct rnic_term term;
    size_t len;
    uint8_t *buf = vector_octets("term_ddp_nobuf", &len);
    uint8_t *ulpdu = exact_copy(ULPDU(buf), 42);

    /* siw sets R for a Send with Invalidate too; nothing follows then. */
    ulpdu[20] |= 0x20;
    g_assert_true(rnic_term_decode(ulpdu, 42, &term));
    g_assert_true(term.rfc.rdmap_hdr);
    g_assert_true(term.has_ddp);
    g_assert_false(term.has_read_request);
    g_free(ulpdu);
    g_free(buf);
}

static void test_every_flipped_bit_is_taken(void)
{
    size_t len, bit;
    uint8_t *buf = vector_octets("term_rdmap_prot", &len);
    uint8_t *ulpdu = exact_copy(ULPDU(buf), 70);

    for (bit = 0; bit < 70 * 8; bit++) {
        struct rnic_term term;

        ulpdu[bit / 8] ^= (uint8_t)(1 << bit % 8);
        g_assert_true(rnic_term_decode(ulpdu, 70, &term));
        ulpdu[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    g_free(ulpdu);
    g_free(buf);
}

static void test_names(void)
{
    g_assert_cmpstr(rnic_term_str(1, 2, 2), ==,
                    "DDP untagged buffer: no buffer available");
    /* Adapters send CRC errors with type 3. */
    g_assert_cmpstr(rnic_term_str(2, 3, 2), ==, rnic_term_str(2, 0, 2));
    /* The code of a local catastrophic error is free. */
    g_assert_cmpstr(rnic_term_str(0, 0, 0), ==, rnic_term_str(0, 0, 0xff));
    g_assert_cmpstr(rnic_term_str(1, 2, 0), ==, "unknown Terminate code");
    g_assert_cmpstr(rnic_term_str(15, 15, 255), ==, "unknown Terminate code");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add_func("/wire/terminate/" #name, test_##name)
    ADD(ddp_error_returns_the_untagged_header);
    ADD(ddp_error_returns_the_tagged_header);
    ADD(protection_error_returns_the_read_request);
    ADD(error_without_offender_has_no_headers);
    ADD(mpa_errors_have_no_headers);
    ADD(terminate_is_never_answered);
    ADD(protection_error_of_a_send_returns_no_read_request);
    ADD(atomic_request_is_never_returned);
    ADD(every_cut_of_the_offender_is_encodable);
    ADD(every_condition_round_trips);
    ADD(codes_are_the_registered_ones);
    ADD(siw_bit_order_of_a_write_error);
    ADD(siw_bit_order_of_a_read_error);
    ADD(siw_bit_order_of_a_missing_receive);
    ADD(undefined_code_without_flags_is_tried_swapped);
    ADD(every_control_word_is_taken);
    ADD(every_cut_is_taken_from_the_control_word_on);
    ADD(announced_but_missing_read_request_is_tolerated);
    ADD(every_flipped_bit_is_taken);
    ADD(names);
#undef ADD
    return g_test_run();
}
