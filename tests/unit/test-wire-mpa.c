/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vectors.h"
#include "wire/byteorder.h"
#include "wire/mpa.h"

static bool is_frame(const struct vector *v)
{
    return v->kind == VEC_REQUEST || v->kind == VEC_REPLY;
}

/* A Request with these octets 16 to 19 and @pd_len zero octets behind. */
static uint8_t *request_new(uint8_t flags, uint8_t rev, uint16_t pd_len,
                            size_t *len)
{
    uint8_t *buf;

    *len = RNIC_MPA_HDR_SIZE + (size_t)pd_len;
    buf = g_malloc0(*len);
    memcpy(buf, "MPA ID Req Frame", 16);
    buf[16] = flags;
    buf[17] = rev;
    rnic_put_be16(buf + 18, pd_len);
    return buf;
}

static enum rnic_mpa_status decode_request(uint8_t flags, uint8_t rev,
                                           uint16_t pd_len,
                                           struct rnic_mpa_frame *f)
{
    size_t len, octets;
    uint8_t *buf = request_new(flags, rev, pd_len, &len);
    enum rnic_mpa_status st =
        rnic_mpa_frame_decode(buf, len, false, f, &octets);

    /* Points into what is freed here. */
    f->ulp_data = NULL;
    g_free(buf);
    return st;
}

static void test_vectors_are_rebuilt_from_their_fields(void)
{
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(vectors); i++) {
        struct rnic_mpa_frame f;
        size_t len, octets;
        uint8_t out[RNIC_MPA_FRAME_MAX];
        uint8_t *buf;

        if (!is_frame(&vectors[i])) {
            continue;
        }
        buf = hex_octets(vectors[i].hex, &len);
        g_assert_cmpint(rnic_mpa_frame_decode(buf, len,
                                              vectors[i].kind == VEC_REPLY, &f,
                                              &octets),
                        ==, RNIC_MPA_OK);
        g_assert_cmpuint(octets, ==, len);
        g_assert_cmpuint(rnic_mpa_frame_encode(&f, out, sizeof(out)), ==, len);
        g_assert_cmpmem(out, len, buf, len);
        g_free(buf);
    }
}

static void test_enhanced_request_fields(void)
{
    struct rnic_mpa_frame f;
    size_t len, octets;
    uint8_t *buf = vector_octets("mpa_req_v2_crc", &len);

    g_assert_cmpint(rnic_mpa_frame_decode(buf, len, false, &f, &octets), ==,
                    RNIC_MPA_OK);
    g_assert_false(f.reply);
    g_assert_cmpuint(f.rev, ==, 2);
    g_assert_true(f.crc);
    g_assert_true(f.enhanced);
    g_assert_false(f.markers);
    g_assert_false(f.reject);
    g_assert_false(f.p2p);
    g_assert_cmpuint(f.rtr, ==, 0);
    g_assert_cmpuint(f.ird, ==, 4);
    g_assert_cmpuint(f.ord, ==, 4);
    g_assert_cmpmem(f.ulp_data, f.ulp_len, "hello", 5);
    g_free(buf);
}

static void test_p2p_request_fields(void)
{
    struct rnic_mpa_frame f;
    size_t len, octets;
    uint8_t *buf = vector_octets("mpa_req_p2p_all", &len);

    g_assert_cmpint(rnic_mpa_frame_decode(buf, len, false, &f, &octets), ==,
                    RNIC_MPA_OK);
    g_assert_true(f.p2p);
    g_assert_cmpuint(f.rtr, ==, RNIC_MPA_RTR_ALL);
    g_assert_cmpuint(f.ird, ==, 1);
    g_assert_cmpuint(f.ord, ==, 1);
    g_assert_null(f.ulp_data);
    g_free(buf);
}

static void test_rtr_flags_are_told_apart(void)
{
    static const struct {
        const char *name;
        uint8_t rtr;
    } cases[] = {
        { "mpa_rep_p2p_write", RNIC_MPA_RTR_WRITE },
        { "mpa_rep_p2p_read", RNIC_MPA_RTR_READ },
        { "mpa_rep_p2p_send", RNIC_MPA_RTR_SEND },
    };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct rnic_mpa_frame f;
        size_t len, octets;
        uint8_t *buf = vector_octets(cases[i].name, &len);

        g_assert_cmpint(rnic_mpa_frame_decode(buf, len, true, &f, &octets), ==,
                        RNIC_MPA_OK);
        g_assert_cmpuint(f.rtr, ==, cases[i].rtr);
        g_free(buf);
    }
}

static void test_every_cut_asks_for_more(void)
{
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(vectors); i++) {
        bool reply = vectors[i].kind == VEC_REPLY;
        size_t len, n;
        uint8_t *buf = hex_octets(vectors[i].hex, &len);

        for (n = 0; is_frame(&vectors[i]) && n < len; n++) {
            struct rnic_mpa_frame f;
            size_t octets;
            uint8_t *cut = exact_copy(buf, n);

            g_assert_cmpint(rnic_mpa_frame_decode(cut, n, reply, &f, &octets),
                            ==, RNIC_MPA_MORE);
            /* Never more than the frame has left. */
            g_assert_cmpuint(octets, >, 0);
            g_assert_cmpuint(octets, <=, len - n);
            g_free(cut);
        }
        g_free(buf);
    }
}

static void test_asking_reads_exactly_the_frame(void)
{
    struct rnic_mpa_frame f;
    size_t len, octets, n = 0;
    uint8_t *buf = vector_octets("mpa_rep_v2_crc", &len);
    unsigned reads = 0;

    while (rnic_mpa_frame_decode(buf, n, true, &f, &octets) == RNIC_MPA_MORE) {
        n += octets;
        reads++;
        g_assert_cmpuint(n, <=, len);
    }
    g_assert_cmpuint(n, ==, len);
    g_assert_cmpuint(reads, ==, 2);
    g_free(buf);
}

static void test_octets_behind_the_frame_are_left(void)
{
    struct rnic_mpa_frame f;
    size_t len, octets;
    uint8_t *buf = vector_octets("mpa_rep_v2_crc", &len);
    uint8_t *more = g_malloc0(len + 24);

    memcpy(more, buf, len);
    g_assert_cmpint(rnic_mpa_frame_decode(more, len + 24, true, &f, &octets),
                    ==, RNIC_MPA_OK);
    g_assert_cmpuint(octets, ==, len);
    g_assert_cmpuint(f.ulp_len, ==, 2);
    g_free(more);
    g_free(buf);
}

static void test_every_flipped_bit_is_a_frame_or_an_error(void)
{
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(vectors); i++) {
        bool reply = vectors[i].kind == VEC_REPLY;
        size_t len, bit;
        uint8_t *buf = hex_octets(vectors[i].hex, &len);

        for (bit = 0; is_frame(&vectors[i]) && bit < len * 8; bit++) {
            struct rnic_mpa_frame f;
            size_t octets;
            enum rnic_mpa_status st;

            buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
            st = rnic_mpa_frame_decode(buf, len, reply, &f, &octets);
            if (bit / 8 < 16) {
                g_assert_cmpint(st, ==, RNIC_MPA_BAD_KEY);
            } else if (st == RNIC_MPA_OK) {
                g_assert_cmpuint(octets, <=, len);
                g_assert_cmpuint(f.ulp_len, <=, octets - RNIC_MPA_HDR_SIZE);
            } else if (st == RNIC_MPA_MORE) {
                g_assert_cmpuint(len + octets, <=, RNIC_MPA_FRAME_MAX);
            } else {
                g_assert_true(st == RNIC_MPA_BAD_REV ||
                              st == RNIC_MPA_BAD_PD_LENGTH);
            }
            buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        g_free(buf);
    }
}

static void test_other_protocol_is_refused_at_once(void)
{
    static const char *const heads[] = {
        "G",
        "MPA ID X",
        "mpa id req",
        "\xff",
    };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(heads); i++) {
        struct rnic_mpa_frame f;
        size_t octets, len = strlen(heads[i]);
        uint8_t *buf = exact_copy((const uint8_t *)heads[i], len);

        g_assert_cmpint(rnic_mpa_frame_decode(buf, len, false, &f, &octets), ==,
                        RNIC_MPA_BAD_KEY);
        g_free(buf);
    }
}

static void test_key_of_the_other_role_is_refused(void)
{
    struct rnic_mpa_frame f;
    size_t len, octets;
    uint8_t *buf = vector_octets("mpa_req_v1", &len);

    g_assert_cmpint(rnic_mpa_frame_decode(buf, len, true, &f, &octets), ==,
                    RNIC_MPA_BAD_KEY);
    g_free(buf);
    buf = vector_octets("mpa_rep_v1", &len);
    g_assert_cmpint(rnic_mpa_frame_decode(buf, len, false, &f, &octets), ==,
                    RNIC_MPA_BAD_KEY);
    g_free(buf);
}

static void test_only_revisions_1_and_2_are_taken(void)
{
    struct rnic_mpa_frame f;
    unsigned rev;

    for (rev = 0; rev <= 255; rev++) {
        g_assert_cmpint(decode_request(0, (uint8_t)rev, 0, &f), ==,
                        rev == 1 || rev == 2 ? RNIC_MPA_OK : RNIC_MPA_BAD_REV);
    }
}

static void test_private_data_of_512_octets_is_accepted(void)
{
    struct rnic_mpa_frame f;

    g_assert_cmpint(decode_request(0, 1, 512, &f), ==, RNIC_MPA_OK);
    g_assert_cmpuint(f.ulp_len, ==, 512);
    g_assert_cmpint(decode_request(0x10, 2, 512, &f), ==, RNIC_MPA_OK);
    g_assert_cmpuint(f.ulp_len, ==, 508);
}

static void test_longer_private_data_is_refused_before_it_arrives(void)
{
    static const uint16_t lens[] = { 513, 1024, 65535 };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(lens); i++) {
        struct rnic_mpa_frame f;
        size_t len, octets;
        uint8_t *buf = request_new(0, 1, 0, &len);

        rnic_put_be16(buf + 18, lens[i]);
        g_assert_cmpint(rnic_mpa_frame_decode(buf, len, false, &f, &octets), ==,
                        RNIC_MPA_BAD_PD_LENGTH);
        g_free(buf);
    }
}

static void test_enhanced_frame_without_its_block_is_refused(void)
{
    struct rnic_mpa_frame f;
    uint16_t pd_len;

    for (pd_len = 0; pd_len < 4; pd_len++) {
        g_assert_cmpint(decode_request(0x10, 2, pd_len, &f), ==,
                        RNIC_MPA_BAD_PD_LENGTH);
    }
    g_assert_cmpint(decode_request(0x10, 2, 4, &f), ==, RNIC_MPA_OK);
}

static void test_s_is_reserved_in_revision_1(void)
{
    struct rnic_mpa_frame f;

    g_assert_cmpint(decode_request(0x10, 1, 2, &f), ==, RNIC_MPA_OK);
    g_assert_false(f.enhanced);
    g_assert_cmpuint(f.ulp_len, ==, 2);
}

static void test_revision_2_without_s_is_plain(void)
{
    struct rnic_mpa_frame f;

    g_assert_cmpint(decode_request(0, 2, 6, &f), ==, RNIC_MPA_OK);
    g_assert_false(f.enhanced);
    g_assert_cmpuint(f.ulp_len, ==, 6);
}

static void test_reserved_flags_are_ignored(void)
{
    struct rnic_mpa_frame f;

    g_assert_cmpint(decode_request(0x0f, 1, 0, &f), ==, RNIC_MPA_OK);
    g_assert_false(f.markers || f.crc || f.reject || f.enhanced);
}

static void test_rtr_flags_without_p2p_are_ignored(void)
{
    static const uint8_t block[4] = { 0x40, 0x02, 0xc0, 0x03 };
    struct rnic_mpa_frame f;
    size_t len, octets;
    uint8_t *buf = request_new(0x10, 2, 4, &len);

    memcpy(buf + 20, block, 4);
    g_assert_cmpint(rnic_mpa_frame_decode(buf, len, false, &f, &octets), ==,
                    RNIC_MPA_OK);
    g_assert_false(f.p2p);
    g_assert_cmpuint(f.rtr, ==, 0);
    g_assert_cmpuint(f.ird, ==, 2);
    g_assert_cmpuint(f.ord, ==, 3);
    g_free(buf);
}

static void test_encoding_what_does_not_fit_is_refused(void)
{
    static const uint8_t data[513];
    uint8_t buf[RNIC_MPA_FRAME_MAX + 1];
    struct rnic_mpa_frame f = {
        .rev = 1,
        .ulp_data = data,
        .ulp_len = 513,
    };

    g_assert_cmpuint(rnic_mpa_frame_encode(&f, buf, sizeof(buf)), ==, 0);
    f.ulp_len = 512;
    g_assert_cmpuint(rnic_mpa_frame_encode(&f, buf, 531), ==, 0);
    g_assert_cmpuint(rnic_mpa_frame_encode(&f, buf, 532), ==, 532);
    f.rev = 2;
    f.enhanced = true;
    f.ulp_len = 509;
    g_assert_cmpuint(rnic_mpa_frame_encode(&f, buf, sizeof(buf)), ==, 0);
    f.ulp_len = 508;
    g_assert_cmpuint(rnic_mpa_frame_encode(&f, buf, sizeof(buf)), ==, 532);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add_func("/wire/mpa/" #name, test_##name)
    ADD(vectors_are_rebuilt_from_their_fields);
    ADD(enhanced_request_fields);
    ADD(p2p_request_fields);
    ADD(rtr_flags_are_told_apart);
    ADD(every_cut_asks_for_more);
    ADD(asking_reads_exactly_the_frame);
    ADD(octets_behind_the_frame_are_left);
    ADD(every_flipped_bit_is_a_frame_or_an_error);
    ADD(other_protocol_is_refused_at_once);
    ADD(key_of_the_other_role_is_refused);
    ADD(only_revisions_1_and_2_are_taken);
    ADD(private_data_of_512_octets_is_accepted);
    ADD(longer_private_data_is_refused_before_it_arrives);
    ADD(enhanced_frame_without_its_block_is_refused);
    ADD(s_is_reserved_in_revision_1);
    ADD(revision_2_without_s_is_plain);
    ADD(reserved_flags_are_ignored);
    ADD(rtr_flags_without_p2p_are_ignored);
    ADD(encoding_what_does_not_fit_is_refused);
#undef ADD
    return g_test_run();
}
