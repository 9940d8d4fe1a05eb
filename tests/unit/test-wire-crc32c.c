/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vectors.h"
#include "wire/byteorder.h"
#include "wire/crc32c.h"

static uint32_t crc_of(const void *buf, size_t len)
{
    return rnic_crc32c_final(rnic_crc32c_update(rnic_crc32c_init(), buf, len));
}

static void test_digits_give_the_published_value(void)
{
    g_assert_cmphex(crc_of("123456789", 9), ==, 0xe3069283);
}

static void test_zeros_give_the_iscsi_value(void)
{
    uint8_t buf[32] = { 0 };

    g_assert_cmphex(crc_of(buf, sizeof(buf)), ==, 0x8a9136aa);
}

static void test_ones_give_the_iscsi_value(void)
{
    static const uint8_t wire[4] = { 0x43, 0xab, 0xa8, 0x62 };
    uint8_t buf[32];

    memset(buf, 0xff, sizeof(buf));
    g_assert_cmphex(crc_of(buf, sizeof(buf)), ==, rnic_get_le32(wire));
}

static void test_rising_octets_give_the_iscsi_value(void)
{
    static const uint8_t wire[4] = { 0x4e, 0x79, 0xdd, 0x46 };
    uint8_t buf[32];
    unsigned i;

    for (i = 0; i < sizeof(buf); i++) {
        buf[i] = (uint8_t)i;
    }
    g_assert_cmphex(crc_of(buf, sizeof(buf)), ==, rnic_get_le32(wire));
}

static void test_nothing_gives_zero(void)
{
    g_assert_cmphex(crc_of(NULL, 0), ==, 0);
}

static void test_wire_order_is_least_significant_first(void)
{
    static const uint8_t want[4] = { 0xaa, 0x36, 0x91, 0x8a };
    uint8_t buf[32] = { 0 };
    uint8_t wire[4];

    rnic_put_le32(wire, crc_of(buf, sizeof(buf)));
    g_assert_cmpmem(wire, 4, want, 4);
}

static void test_any_split_gives_the_same_value(void)
{
    uint8_t buf[257];
    uint32_t want;
    size_t cut;
    unsigned i;

    for (i = 0; i < sizeof(buf); i++) {
        buf[i] = (uint8_t)(i * 7 + 3);
    }
    want = crc_of(buf, sizeof(buf));
    for (cut = 0; cut <= sizeof(buf); cut++) {
        uint32_t crc = rnic_crc32c_update(rnic_crc32c_init(), buf, cut);

        crc = rnic_crc32c_update(crc, buf + cut, sizeof(buf) - cut);
        g_assert_cmphex(rnic_crc32c_final(crc), ==, want);
    }
}

static void test_copy_copies_and_checksums(void)
{
    static const size_t lens[] = { 0, 1, 4095, 4096, 4097, 8192, 70001 };
    size_t i, k;

    for (i = 0; i < G_N_ELEMENTS(lens); i++) {
        size_t len = lens[i];
        uint8_t *src = g_malloc(len);
        uint8_t *dst = g_malloc0(len);
        uint32_t crc;

        for (k = 0; k < len; k++) {
            src[k] = (uint8_t)(k * 13 + k / 251);
        }
        /* The running value is continued, not started anew. */
        crc = rnic_crc32c_update(rnic_crc32c_init(), "head", 4);
        crc = rnic_crc32c_copy(crc, dst, src, len);
        g_assert_cmpmem(dst, len, src, len);
        g_assert_cmphex(
            crc, ==,
            rnic_crc32c_update(
                rnic_crc32c_update(rnic_crc32c_init(), "head", 4), src, len));
        g_free(src);
        g_free(dst);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/wire/crc32c/digits_give_the_published_value",
                    test_digits_give_the_published_value);
    g_test_add_func("/wire/crc32c/zeros_give_the_iscsi_value",
                    test_zeros_give_the_iscsi_value);
    g_test_add_func("/wire/crc32c/ones_give_the_iscsi_value",
                    test_ones_give_the_iscsi_value);
    g_test_add_func("/wire/crc32c/rising_octets_give_the_iscsi_value",
                    test_rising_octets_give_the_iscsi_value);
    g_test_add_func("/wire/crc32c/nothing_gives_zero", test_nothing_gives_zero);
    g_test_add_func("/wire/crc32c/wire_order_is_least_significant_first",
                    test_wire_order_is_least_significant_first);
    g_test_add_func("/wire/crc32c/any_split_gives_the_same_value",
                    test_any_split_gives_the_same_value);
    g_test_add_func("/wire/crc32c/copy_copies_and_checksums",
                    test_copy_copies_and_checksums);
    return g_test_run();
}
