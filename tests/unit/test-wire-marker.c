/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vectors.h"
#include "wire/byteorder.h"
#include "wire/crc32c.h"
#include "wire/fpdu.h"
#include "wire/marker.h"

/* ULPDU_Length, a ULPDU of @len octets, and zero pad. */
static uint8_t *fpdu_new(uint16_t len)
{
    uint8_t *fpdu = g_malloc0(rnic_fpdu_len(len) - 4);
    unsigned i;

    rnic_put_be16(fpdu, len);
    for (i = 0; i < len; i++) {
        fpdu[2 + i] = (uint8_t)(i * 11 + 1);
    }
    return fpdu;
}

static void test_rfc5044_figure_5(void)
{
    size_t len, n;
    uint8_t *want = vector_octets("rfc5044_fig5", &len);
    uint8_t out[64];

    n = rnic_marker_insert(0, want + 4, 42, true, out);
    g_assert_cmpmem(out, n, want, len);
    g_assert_cmpuint(rnic_marker_fpdu_len(0, 42), ==, len);
    g_free(want);
}

static void test_rfc5044_figure_6(void)
{
    size_t len, n;
    uint8_t *want = vector_octets("rfc5044_fig6", &len);
    uint8_t fpdu[44];
    uint8_t out[64];

    /* The marker sits 20 octets into the FPDU. */
    memcpy(fpdu, want, 20);
    memcpy(fpdu + 20, want + 24, 24);
    n = rnic_marker_insert(512 - 20, fpdu, 42, true, out);
    g_assert_cmpmem(out, n, want, len);
    g_assert_cmpuint(rnic_marker_fpdu_len(512 - 20, 42), ==, len);
    g_free(want);
}

static void test_fpdu_between_markers_has_none(void)
{
    uint8_t *fpdu = fpdu_new(42);
    uint8_t out[64];

    g_assert_cmpuint(rnic_marker_insert(4, fpdu, 42, false, out), ==, 48);
    g_assert_cmpmem(out, 44, fpdu, 44);
    g_free(fpdu);
}

static void test_all_markers_of_an_fpdu_point_to_its_length(void)
{
    uint16_t len = 1200;
    uint64_t pos = 300;
    uint8_t *fpdu = fpdu_new(len);
    size_t size = rnic_marker_fpdu_len(pos, len);
    uint8_t *out = g_malloc(size);
    uint64_t p;
    unsigned markers = 0;

    g_assert_cmpuint(rnic_marker_insert(pos, fpdu, len, true, out), ==, size);
    for (p = 512; p < pos + size; p += 512) {
        g_assert_cmpuint(rnic_get_be16(out + p - pos), ==, 0);
        g_assert_cmpuint(rnic_get_be16(out + p - pos + 2), ==, p - pos);
        markers++;
    }
    g_assert_cmpuint(markers, ==, 2);
    g_assert_cmpuint(size, ==, rnic_fpdu_len(len) + 4 * markers);
    g_free(out);
    g_free(fpdu);
}

static void test_marker_between_pad_and_crc_is_covered(void)
{
    uint8_t *fpdu = fpdu_new(42);
    uint8_t out[64];
    size_t n;
    uint32_t crc;

    n = rnic_marker_insert(512 - 44, fpdu, 42, true, out);
    g_assert_cmpuint(n, ==, 52);
    g_assert_cmphex(rnic_get_be32(out + 44), ==, 44);
    crc = rnic_crc32c_update(rnic_crc32c_init(), out, 48);
    g_assert_cmphex(rnic_get_le32(out + 48), ==, rnic_crc32c_final(crc));
    g_free(fpdu);
}

static void test_crc_off_leaves_a_zero_field(void)
{
    uint8_t *fpdu = fpdu_new(42);
    uint8_t out[64];
    size_t n;

    memset(out, 0xff, sizeof(out));
    n = rnic_marker_insert(0, fpdu, 42, false, out);
    g_assert_cmphex(rnic_get_be32(out + n - 4), ==, 0);
    g_free(fpdu);
}

/* Inserts at every phase; a reader that strips by position gets it back. */
static void test_stripping_returns_the_fpdu(void)
{
    static const uint16_t lens[] = { 14, 42, 505, 506, 1442, 64768 };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(lens); i++) {
        uint8_t *fpdu = fpdu_new(lens[i]);
        size_t plain = rnic_fpdu_len(lens[i]);
        uint8_t *back = g_malloc(plain);
        uint64_t pos;

        for (pos = 0; pos<1024; pos += lens[i]> 2000 ? 100 : 4) {
            size_t size = rnic_marker_fpdu_len(pos, lens[i]);
            uint8_t *out = g_malloc(size);
            size_t k, n = 0;

            g_assert_cmpuint(rnic_marker_insert(pos, fpdu, lens[i], true, out),
                             ==, size);
            for (k = 0; k < size; k += 4) {
                if ((pos + k) % 512 == 0) {
                    continue;
                }
                memcpy(back + n, out + k, 4);
                n += 4;
            }
            g_assert_cmpuint(n, ==, plain);
            g_assert_cmpmem(back, n - 4, fpdu, plain - 4);
            g_free(out);
        }
        g_free(back);
        g_free(fpdu);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/wire/marker/rfc5044_figure_5", test_rfc5044_figure_5);
    g_test_add_func("/wire/marker/rfc5044_figure_6", test_rfc5044_figure_6);
    g_test_add_func("/wire/marker/fpdu_between_markers_has_none",
                    test_fpdu_between_markers_has_none);
    g_test_add_func("/wire/marker/all_markers_of_an_fpdu_point_to_its_length",
                    test_all_markers_of_an_fpdu_point_to_its_length);
    g_test_add_func("/wire/marker/marker_between_pad_and_crc_is_covered",
                    test_marker_between_pad_and_crc_is_covered);
    g_test_add_func("/wire/marker/crc_off_leaves_a_zero_field",
                    test_crc_off_leaves_a_zero_field);
    g_test_add_func("/wire/marker/stripping_returns_the_fpdu",
                    test_stripping_returns_the_fpdu);
    return g_test_run();
}
