/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vectors.h"
#include "wire/byteorder.h"
#include "wire/crc32c.h"
#include "wire/fpdu.h"
#include "wire/marker.h"

static bool is_fpdu(const struct vector *v)
{
    return v->kind == VEC_FPDU || v->kind == VEC_FPDU_SIW;
}

static void test_pad_completes_to_four(void)
{
    unsigned len;

    g_assert_cmpuint(rnic_fpdu_pad(14), ==, 0);
    g_assert_cmpuint(rnic_fpdu_pad(15), ==, 3);
    g_assert_cmpuint(rnic_fpdu_pad(16), ==, 2);
    g_assert_cmpuint(rnic_fpdu_pad(17), ==, 1);
    for (len = 0; len <= UINT16_MAX; len++) {
        g_assert_cmpuint(rnic_fpdu_pad((uint16_t)len), <, 4);
        g_assert_cmpuint(rnic_fpdu_len((uint16_t)len) % 4, ==, 0);
    }
}

static void test_fpdu_length_of_known_messages(void)
{
    g_assert_cmpuint(rnic_fpdu_len(14), ==, 20);
    g_assert_cmpuint(rnic_fpdu_len(18), ==, 24);
    g_assert_cmpuint(rnic_fpdu_len(23), ==, 32);
    g_assert_cmpuint(rnic_fpdu_len(46), ==, 52);
    g_assert_cmpuint(rnic_fpdu_len(65474), ==, 65480);
    g_assert_cmpuint(rnic_fpdu_len(65535), ==, 65544);
    g_assert_cmpuint(rnic_fpdu_len(65535), <=, RNIC_FPDU_MAX);
}

static void test_mulpdu_follows_emss(void)
{
    g_assert_cmpuint(rnic_mulpdu(1448, false), ==, 1442);
    g_assert_cmpuint(rnic_mulpdu(1448, true), ==, 1430);
    g_assert_cmpuint(rnic_mulpdu(1460, false), ==, 1454);
    g_assert_cmpuint(rnic_mulpdu(1460, true), ==, 1442);
    g_assert_cmpuint(rnic_mulpdu(1447, false), ==, 1438);
}

static void test_mulpdu_stays_within_limits(void)
{
    size_t emss;

    for (emss = 0; emss < 200; emss++) {
        g_assert_cmpuint(rnic_mulpdu(emss, false), >=, 128);
        g_assert_cmpuint(rnic_mulpdu(emss, true), >=, 128);
    }
    g_assert_cmpuint(rnic_mulpdu(0, false), ==, 128);
    g_assert_cmpuint(rnic_mulpdu(65483, false), ==, 64768);
    g_assert_cmpuint(rnic_mulpdu(SIZE_MAX, false), ==, 64768);
}

static void test_fpdu_of_mulpdu_fits_the_segment(void)
{
    size_t emss;

    for (emss = 148; emss < 9000; emss++) {
        uint16_t len = (uint16_t)rnic_mulpdu(emss, false);

        g_assert_cmpuint(rnic_fpdu_len(len), <=, emss);
        g_assert_cmpuint(rnic_fpdu_len(len) + 4, >, emss);
        len = (uint16_t)rnic_mulpdu(emss, true);
        /* Position 0 has most markers. */
        g_assert_cmpuint(rnic_marker_fpdu_len(0, len), <=, emss);
    }
}

static void test_length_too_short_for_ddp_is_an_error(void)
{
    uint8_t buf[2];
    uint16_t len;
    unsigned i;

    for (i = 0; i < 20; i++) {
        rnic_put_be16(buf, (uint16_t)i);
        g_assert_cmpint(rnic_fpdu_length_decode(buf, 2, &len), ==,
                        i < 14 ? RNIC_WIRE_MPA_LENGTH : RNIC_WIRE_OK);
    }
}

static void test_longest_length_is_accepted(void)
{
    static const uint8_t buf[2] = { 0xff, 0xff };
    uint16_t len;

    g_assert_cmpint(rnic_fpdu_length_decode(buf, 2, &len), ==, RNIC_WIRE_OK);
    g_assert_cmpuint(len, ==, 65535);
}

static void test_vectors_pass_the_check(void)
{
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(vectors); i++) {
        size_t len;
        uint8_t *buf = hex_octets(vectors[i].hex, &len);

        if (is_fpdu(&vectors[i])) {
            g_assert_cmpint(rnic_fpdu_check(buf, len), ==, RNIC_WIRE_OK);
        }
        g_free(buf);
    }
}

static void test_wrong_crc_fails_the_check(void)
{
    size_t len;
    uint8_t *buf = vector_octets("send_badcrc", &len);

    g_assert_cmpint(rnic_fpdu_check(buf, len), ==, RNIC_WIRE_MPA_CRC);
    g_free(buf);
}

static void test_crc_in_opposite_order_fails_the_check(void)
{
    size_t len;
    uint8_t *buf = vector_octets("send16", &len);

    rnic_put_be32(buf + len - 4, rnic_get_le32(buf + len - 4));
    g_assert_cmpint(rnic_fpdu_check(buf, len), ==, RNIC_WIRE_MPA_CRC);
    g_free(buf);
}

static void test_every_cut_needs_more(void)
{
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(vectors); i++) {
        size_t len, n;
        uint8_t *buf = hex_octets(vectors[i].hex, &len);

        for (n = 0; is_fpdu(&vectors[i]) && n < len; n++) {
            uint8_t *cut = exact_copy(buf, n);

            g_assert_cmpint(rnic_fpdu_check(cut, n), ==, RNIC_WIRE_MORE);
            g_free(cut);
        }
        g_free(buf);
    }
}

static void test_every_flipped_bit_is_caught(void)
{
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(vectors); i++) {
        size_t len, bit;
        uint8_t *buf = hex_octets(vectors[i].hex, &len);

        for (bit = 0; is_fpdu(&vectors[i]) && bit < len * 8; bit++) {
            enum rnic_wire_err err;

            buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
            err = rnic_fpdu_check(buf, len);
            if (bit >= 16) {
                g_assert_cmpint(err, ==, RNIC_WIRE_MPA_CRC);
            } else {
                g_assert_cmpint(err, !=, RNIC_WIRE_OK);
            }
            buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        g_free(buf);
    }
}

static void test_non_zero_pad_is_accepted_if_covered(void)
{
    size_t len;
    uint8_t *buf = vector_octets("sendse5", &len);
    uint32_t crc;

    memset(buf + len - 7, 0xa5, 3);
    g_assert_cmpint(rnic_fpdu_check(buf, len), ==, RNIC_WIRE_MPA_CRC);
    crc = rnic_crc32c_update(rnic_crc32c_init(), buf, len - 4);
    rnic_put_le32(buf + len - 4, rnic_crc32c_final(crc));
    g_assert_cmpint(rnic_fpdu_check(buf, len), ==, RNIC_WIRE_OK);
    g_free(buf);
}

static void test_vectors_are_rebuilt_from_their_ulpdu(void)
{
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(vectors); i++) {
        bool crc = vectors[i].kind == VEC_FPDU;
        size_t len, n;
        uint16_t ulpdu_len;
        uint8_t *buf, *out;
        uint32_t run;

        if (!crc && vectors[i].kind != VEC_FPDU_NO_CRC) {
            continue;
        }
        buf = hex_octets(vectors[i].hex, &len);
        g_assert_cmpint(rnic_fpdu_length_decode(buf, len, &ulpdu_len), ==,
                        RNIC_WIRE_OK);
        g_assert_cmpuint(rnic_fpdu_len(ulpdu_len), ==, len);
        out = g_malloc(len);
        n = rnic_fpdu_length_encode(ulpdu_len, out);
        run = rnic_crc32c_update(rnic_crc32c_init(), out, n);
        run = rnic_crc32c_copy(run, out + n, buf + n, ulpdu_len);
        n += ulpdu_len;
        n += rnic_fpdu_trailer_encode(ulpdu_len, crc, run, out + n);
        g_assert_cmpmem(out, n, buf, len);
        g_free(out);
        g_free(buf);
    }
}

static void test_octets_behind_the_fpdu_are_not_covered(void)
{
    size_t len;
    uint8_t *buf = vector_octets("send16", &len);
    uint8_t *two = g_malloc(2 * len);

    memcpy(two, buf, len);
    memset(two + len, 0xff, len);
    g_assert_cmpint(rnic_fpdu_check(two, 2 * len), ==, RNIC_WIRE_OK);
    g_free(two);
    g_free(buf);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/wire/fpdu/pad_completes_to_four",
                    test_pad_completes_to_four);
    g_test_add_func("/wire/fpdu/length_of_known_messages",
                    test_fpdu_length_of_known_messages);
    g_test_add_func("/wire/fpdu/mulpdu_follows_emss", test_mulpdu_follows_emss);
    g_test_add_func("/wire/fpdu/mulpdu_stays_within_limits",
                    test_mulpdu_stays_within_limits);
    g_test_add_func("/wire/fpdu/fpdu_of_mulpdu_fits_the_segment",
                    test_fpdu_of_mulpdu_fits_the_segment);
    g_test_add_func("/wire/fpdu/length_too_short_for_ddp_is_an_error",
                    test_length_too_short_for_ddp_is_an_error);
    g_test_add_func("/wire/fpdu/longest_length_is_accepted",
                    test_longest_length_is_accepted);
    g_test_add_func("/wire/fpdu/vectors_pass_the_check",
                    test_vectors_pass_the_check);
    g_test_add_func("/wire/fpdu/wrong_crc_fails_the_check",
                    test_wrong_crc_fails_the_check);
    g_test_add_func("/wire/fpdu/crc_in_opposite_order_fails_the_check",
                    test_crc_in_opposite_order_fails_the_check);
    g_test_add_func("/wire/fpdu/every_cut_needs_more",
                    test_every_cut_needs_more);
    g_test_add_func("/wire/fpdu/every_flipped_bit_is_caught",
                    test_every_flipped_bit_is_caught);
    g_test_add_func("/wire/fpdu/non_zero_pad_is_accepted_if_covered",
                    test_non_zero_pad_is_accepted_if_covered);
    g_test_add_func("/wire/fpdu/vectors_are_rebuilt_from_their_ulpdu",
                    test_vectors_are_rebuilt_from_their_ulpdu);
    g_test_add_func("/wire/fpdu/octets_behind_the_fpdu_are_not_covered",
                    test_octets_behind_the_fpdu_are_not_covered);
    return g_test_run();
}
