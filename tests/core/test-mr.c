/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory regions: checks, translation, registration by work requests
 */
#include <string.h>
#include "harness.h"
#include "mr.h"

#define ALL RNIC_ACCESS_ALL

static enum rnic_mr_error check(struct th_guest *guest, uint32_t stag,
                                uint64_t to, uint64_t len, uint32_t access)
{
    return rnic_mr_check(guest->dev, TH_PD, stag, to, len, access, false);
}

/* Copies a range of a region through its mappings */
static enum rnic_mr_error copy_out(struct th_guest *guest, uint32_t stag,
                                   uint64_t to, uint64_t len, uint8_t *out,
                                   uint64_t *copied)
{
    *copied = 0;
    while (len) {
        struct rnic_mapping map;
        enum rnic_mr_error error;
        uint64_t done;
        unsigned i;

        rnic_mapping_init(&map, RNIC_DMA_FROM_GUEST);
        error = rnic_mr_map(guest->dev, TH_PD, stag, to, len, 0, false, &map,
                            &done);
        g_assert_cmpuint(map.length, ==, done);
        for (i = 0; i < map.count; i++) {
            memcpy(out, map.iov[i].iov_base, map.iov[i].iov_len);
            out += map.iov[i].iov_len;
        }
        rnic_mapping_release(guest->dev, &map, 0);
        *copied += done;
        if (error != RNIC_MR_OK) {
            return error;
        }
        g_assert_cmpuint(done, >, 0);
        to += done;
        len -= done;
    }
    return RNIC_MR_OK;
}

static void test_every_form_of_page_list_translates(void)
{
    static const struct {
        size_t len;
        unsigned levels;
        uint32_t first_offset;
    } forms[] = {
        { 100, 0, 0 },       { 1 << 20, 0, 0 },    { 1, 1, 4095 },
        { 2, 1, 4095 },      { 4096, 1, 0 },       { 4097, 1, 0 },
        { 300000, 1, 17 },   { 512 * 4096, 1, 0 }, { 512 * 4096 + 1, 2, 0 },
        { 5000000, 2, 123 }, { 4096, 3, 1 },       { 5000000, 3, 4000 },
    };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(forms); i++) {
        struct th_guest *guest = th_guest_started(NULL);
        struct th_buf buf = th_buf_new(guest, forms[i].len, forms[i].levels,
                                       forms[i].first_offset);
        uint64_t iova = 0x123456789a + i;
        uint32_t stag = th_reg_mr(guest, &buf, iova, 0);
        g_autofree uint8_t *out = g_malloc(forms[i].len);
        uint64_t copied;

        th_fill(buf.ptr, buf.len, i);
        g_assert_cmpint(copy_out(guest, stag, iova, buf.len, out, &copied), ==,
                        RNIC_MR_OK);
        g_assert_cmpuint(copied, ==, buf.len);
        th_check_filled(out, buf.len, i);
        /* From the middle to the end */
        g_assert_cmpint(copy_out(guest, stag, iova + buf.len / 2,
                                 buf.len - buf.len / 2, out, &copied),
                        ==, RNIC_MR_OK);
        g_assert_cmpmem(out, copied, buf.ptr + buf.len / 2,
                        buf.len - buf.len / 2);
        th_guest_free(guest);
    }
}

static void test_pages_that_follow_each_other_are_mapped_as_one(void)
{
    struct th_options options;
    struct th_guest *guest;
    struct rnic_mapping map;
    struct rnic_buf_desc desc = { 0 };
    struct th_buf buf;
    uint64_t table, data, done;
    uint64_t *entries;
    unsigned i;

    th_options_init(&options);
    options.whole_mappings = true;
    guest = th_guest_started(&options);
    table = th_alloc(guest, TH_PAGE, TH_PAGE);
    data = th_alloc(guest, 40 * TH_PAGE, TH_PAGE);
    entries = th_ptr(guest, table);
    /* Pages 0 to 19, then 25 to 39 */
    for (i = 0; i < 35; i++) {
        entries[i] = GUINT64_TO_LE(data + (i < 20 ? i : i + 5) * TH_PAGE);
    }
    desc.addr = GUINT64_TO_LE(table);
    desc.length = GUINT64_TO_LE(35 * TH_PAGE);
    desc.levels = 1;
    desc.page_shift = 12;
    buf = (struct th_buf){ .desc = desc };
    rnic_mapping_init(&map, RNIC_DMA_TO_GUEST);
    g_assert_cmpint(
        rnic_mr_map(guest->dev, TH_PD,
                    th_reg_mr(guest, &buf, 0, RNIC_ACCESS_LOCAL_WRITE), 100,
                    35 * TH_PAGE - 100, RNIC_ACCESS_LOCAL_WRITE, false, &map,
                    &done),
        ==, RNIC_MR_OK);
    g_assert_cmpuint(map.count, ==, 2);
    g_assert_true(map.iov[0].iov_base == (uint8_t *)th_ptr(guest, data) + 100);
    g_assert_cmpuint(map.iov[0].iov_len, ==, 20 * TH_PAGE - 100);
    g_assert_cmpuint(map.iov[1].iov_len, ==, 15 * TH_PAGE);
    rnic_mapping_release(guest->dev, &map, done);
    th_guest_free(guest);
}

static void test_full_mapping_says_how_far_it_came(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_buf buf = th_buf_new(guest, 100 * TH_PAGE, 1, 0);
    uint32_t stag = th_reg_mr(guest, &buf, 0, 0);
    struct rnic_mapping map;
    uint64_t done;

    rnic_mapping_init(&map, RNIC_DMA_FROM_GUEST);
    g_assert_cmpint(rnic_mr_map(guest->dev, TH_PD, stag, 96, buf.len - 96, 0,
                                false, &map, &done),
                    ==, RNIC_MR_OK);
    g_assert_cmpuint(map.count, ==, 64);
    g_assert_cmpuint(done, ==, 64 * TH_PAGE - 96);
    /* No room for anything */
    g_assert_cmpint(
        rnic_mr_map(guest->dev, TH_PD, stag, 0, 1, 0, false, &map, &done), ==,
        RNIC_MR_OK);
    g_assert_cmpuint(done, ==, 0);
    rnic_mapping_release(guest->dev, &map, 0);
    g_assert_cmpuint(map.count, ==, 0);
    th_guest_free(guest);
}

static void test_checks_come_in_their_order(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_buf buf = th_buf_new(guest, 10000, 1, 77);
    const uint64_t iova = 0xfffffffffffff000 - 10000;
    uint32_t stag = th_reg_mr(guest, &buf, iova, RNIC_ACCESS_REMOTE_READ);
    const struct {
        uint32_t pdn, stag;
        uint64_t to, len;
        uint32_t access;
        enum rnic_mr_error error;
    } cases[] = {
        { TH_PD, stag, iova, 10000, 0, RNIC_MR_OK },
        { TH_PD, stag, iova, 10000, RNIC_ACCESS_REMOTE_READ, RNIC_MR_OK },
        { TH_PD, stag, iova + 9999, 1, 0, RNIC_MR_OK },
        { TH_PD, stag, iova, 10001, 0, RNIC_MR_BOUNDS },
        { TH_PD, stag, iova - 1, 1, 0, RNIC_MR_BOUNDS },
        { TH_PD, stag, iova - 1, 2, 0, RNIC_MR_BOUNDS },
        { TH_PD, stag, iova + 10000, 1, 0, RNIC_MR_BOUNDS },
        { TH_PD, stag, 0, 1, 0, RNIC_MR_BOUNDS },
        { TH_PD, stag, iova, UINT64_MAX - iova, 0, RNIC_MR_BOUNDS },
        { TH_PD, stag, iova, 0xfffffffffffffff0, 0, RNIC_MR_WRAP },
        { TH_PD, stag, iova, 0 - iova, 0, RNIC_MR_WRAP },
        { TH_PD, stag, UINT64_MAX, 1, 0, RNIC_MR_WRAP },
        { TH_PD, stag, iova, 1, RNIC_ACCESS_REMOTE_WRITE, RNIC_MR_ACCESS },
        { TH_PD, stag, iova, 1, RNIC_ACCESS_LOCAL_WRITE, RNIC_MR_ACCESS },
        { TH_PD, stag, iova, 1, ALL, RNIC_MR_ACCESS },
        { TH_PD, stag ^ 1, iova, 1, 0, RNIC_MR_BAD_STAG },
        { TH_PD, stag ^ 0x100, iova, 1, 0, RNIC_MR_BAD_STAG },
        { TH_PD, stag ^ 0x80000000, iova, 1, 0, RNIC_MR_BAD_STAG },
        { TH_PD, 0, iova, 1, 0, RNIC_MR_BAD_STAG },
        { TH_PD, UINT32_MAX, iova, 1, 0, RNIC_MR_BAD_STAG },
        { TH_PD + 1, stag, iova, 1, 0, RNIC_MR_BAD_PD },
        /* The first that is wrong counts */
        { TH_PD + 1, stag ^ 1, iova, 1, 0, RNIC_MR_BAD_STAG },
        { TH_PD + 1, stag, UINT64_MAX, 1, ALL, RNIC_MR_BAD_PD },
        { TH_PD, stag, UINT64_MAX, 2, ALL, RNIC_MR_WRAP },
        { TH_PD, stag, 0, 1, ALL, RNIC_MR_BOUNDS },
        /* Nothing to check */
        { TH_PD + 1, stag ^ 1, UINT64_MAX, 0, ALL, RNIC_MR_OK },
    };
    struct rnic_mapping map;
    uint64_t done;
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_assert_cmpint(rnic_mr_check(guest->dev, cases[i].pdn, cases[i].stag,
                                      cases[i].to, cases[i].len,
                                      cases[i].access, false),
                        ==, cases[i].error);
        rnic_mapping_init(&map, RNIC_DMA_FROM_GUEST);
        g_assert_cmpint(rnic_mr_map(guest->dev, cases[i].pdn, cases[i].stag,
                                    cases[i].to, cases[i].len, cases[i].access,
                                    false, &map, &done),
                        ==, cases[i].error);
        g_assert_cmpuint(done, ==,
                         cases[i].error == RNIC_MR_OK ? cases[i].len : 0);
        rnic_mapping_release(guest->dev, &map, 0);
    }
    th_guest_free(guest);
}

static void test_page_that_is_not_ram_fails_at_use(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_buf buf = th_buf_new(guest, 4 * TH_PAGE, 1, 0);
    uint32_t stag = th_reg_mr(guest, &buf, 0, ALL);
    uint8_t out[4 * TH_PAGE];
    uint64_t copied;

    th_make_hole(guest, buf.pages[2] + 100, 8);
    g_assert_cmpint(check(guest, stag, 0, buf.len, ALL), ==, RNIC_MR_OK);
    g_assert_cmpint(copy_out(guest, stag, 0, buf.len, out, &copied), ==,
                    RNIC_MR_DMA);
    /* What came before it stays mapped, for the caller to use */
    g_assert_cmpuint(copied, ==, 2 * TH_PAGE + 100);
    th_fill_holes(guest);
    g_assert_cmpint(copy_out(guest, stag, 0, buf.len, out, &copied), ==,
                    RNIC_MR_OK);
    th_guest_free(guest);
}

static void test_tables_are_read_once(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_buf buf = th_buf_new(guest, 10 * TH_PAGE, 2, 0);
    uint32_t stag = th_reg_mr(guest, &buf, 0, ALL);
    uint64_t *root = th_ptr(guest, GUINT64_FROM_LE(buf.desc.addr));
    uint64_t *leaf = th_ptr(guest, GUINT64_FROM_LE(root[0]));
    uint8_t out[10 * TH_PAGE];
    uint64_t copied;

    th_fill(buf.ptr, buf.len, 5);
    memset(leaf, 0xff, TH_PAGE);
    memset(root, 0xff, TH_PAGE);
    g_assert_cmpint(copy_out(guest, stag, 0, buf.len, out, &copied), ==,
                    RNIC_MR_OK);
    th_check_filled(out, buf.len, 5);
    th_guest_free(guest);
}

static void test_removed_region_is_gone(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_buf buf = th_buf_new(guest, 100000, 1, 0);
    uint64_t pages = guest->dev->buf_pages;
    uint32_t stag = th_reg_mr(guest, &buf, 0, ALL);
    struct rnic_asqe cmd = {
        .opcode = RNIC_CMD_DEREG_MR,
        /* Its key octet is not compared */
        .dereg_mr.stag = GUINT32_TO_LE(stag ^ 0xff),
    };

    /* The same slot, another generation */
    cmd.dereg_mr.stag ^= GUINT32_TO_LE(0x80000000);
    g_assert_cmpuint(th_admin(guest, &cmd, NULL), ==, RNIC_ADMIN_BAD_ID);
    cmd.dereg_mr.stag ^= GUINT32_TO_LE(0x80000000);
    g_assert_cmpint(check(guest, stag, 0, 1, 0), ==, RNIC_MR_OK);
    g_assert_cmpuint(th_admin(guest, &cmd, NULL), ==, RNIC_ADMIN_OK);
    g_assert_cmpint(check(guest, stag, 0, 1, 0), ==, RNIC_MR_BAD_STAG);
    g_assert_cmpuint(th_admin(guest, &cmd, NULL), ==, RNIC_ADMIN_BAD_ID);
    g_assert_cmpuint(guest->dev->buf_pages, ==, pages);
    th_guest_free(guest);
}

static void test_stags_do_not_come_back_soon(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct rnic_cmd_alloc_mr cmd = {
        .pdn = GUINT32_TO_LE(TH_PD),
        .max_pages = GUINT32_TO_LE(1),
    };
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
    uint32_t *slots = g_new0(uint32_t, 1 << 17);
    unsigned i;

    for (i = 0; i < 20000; i++) {
        uint32_t stag, *slot;

        g_assert_cmpuint(rnic_mr_alloc(guest->dev, &cmd, &stag), ==,
                         RNIC_ADMIN_OK);
        g_assert_cmphex(stag & 0xff, ==, 0);
        g_assert_cmphex(stag, !=, RNIC_STAG_LOCAL_DMA);
        /* A slot that is used again has another STag than before */
        slot = &slots[stag >> 8 & 0x1ffff];
        g_assert_cmphex(*slot, !=, stag);
        *slot = stag;
        g_hash_table_add(seen, GUINT_TO_POINTER(stag));
        g_assert_cmpuint(rnic_mr_dereg(guest->dev, stag), ==, RNIC_ADMIN_OK);
    }
    /* 20000 of 2^24 at random: some 12 meet by chance */
    g_assert_cmpuint(g_hash_table_size(seen), >, 19900);
    g_free(slots);
    th_guest_free(guest);
}

static void test_every_slot_can_be_used(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct rnic_cmd_alloc_mr cmd = {
        .pdn = GUINT32_TO_LE(TH_PD),
        .max_pages = GUINT32_TO_LE(1),
    };
    uint32_t stag, last = 0, i;

    for (i = 0; i < RNIC_MAX_MR; i++) {
        g_assert_cmpuint(rnic_mr_alloc(guest->dev, &cmd, &last), ==,
                         RNIC_ADMIN_OK);
    }
    g_assert_cmpuint(rnic_mr_alloc(guest->dev, &cmd, &stag), ==,
                     RNIC_ADMIN_NO_RESOURCES);
    g_assert_cmpuint(rnic_mr_dereg(guest->dev, last), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(rnic_mr_alloc(guest->dev, &cmd, &stag), ==, RNIC_ADMIN_OK);
    g_assert_cmphex(stag, !=, last);
    th_guest_free(guest);
}

static void test_page_lists_are_bounded_together(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_buf buf = th_buf_new(guest, 11 * TH_PAGE, 1, 0);
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_REG_MR };
    uint64_t before = guest->dev->buf_pages;

    cmd.reg_mr.pdn = GUINT32_TO_LE(TH_PD);
    cmd.reg_mr.buf = buf.desc;
    guest->dev->buf_pages = RNIC_MAX_BUF_PAGES - 10;
    g_assert_cmpuint(th_admin(guest, &cmd, NULL), ==, RNIC_ADMIN_NO_RESOURCES);
    g_assert_cmpuint(guest->dev->buf_pages, ==, RNIC_MAX_BUF_PAGES - 10);
    guest->dev->buf_pages--;
    g_assert_cmpuint(th_admin(guest, &cmd, NULL), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(guest->dev->buf_pages, ==, RNIC_MAX_BUF_PAGES);
    guest->dev->buf_pages = before + 11;
    th_guest_free(guest);
}

/* 262144 pages that do not follow each other; they need not be RAM until
 * they are used */
static void test_a_gibibyte_is_registered_quickly(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    uint64_t root = th_alloc(guest, TH_PAGE, TH_PAGE);
    uint64_t leaves = th_alloc(guest, 512 * TH_PAGE, TH_PAGE);
    uint64_t *root_entries = th_ptr(guest, root);
    uint64_t *leaf_entries = th_ptr(guest, leaves);
    struct th_buf buf = { 0 };
    uint64_t start, took;
    uint32_t stag;
    unsigned i;

    for (i = 0; i < 512; i++) {
        root_entries[i] = GUINT64_TO_LE(leaves + i * TH_PAGE);
    }
    for (i = 0; i < 262144; i++) {
        leaf_entries[i] = GUINT64_TO_LE((uint64_t)(262144 - i) << 12);
    }
    buf.desc.addr = GUINT64_TO_LE(root);
    buf.desc.length = GUINT64_TO_LE(1ull << 30);
    buf.desc.levels = 2;
    buf.desc.page_shift = 12;
    start = rnic_now_ns();
    stag = th_reg_mr(guest, &buf, 0, ALL);
    took = rnic_now_ns() - start;
    g_test_message("registered in %" PRIu64 " us", took / 1000);
    /* With sanitizers and a busy machine; 1-2 ms without */
    g_assert_cmpuint(took, <, 500000000);
    g_assert_cmpint(check(guest, stag, (1 << 30) - 1, 1, ALL), ==, RNIC_MR_OK);
    g_assert_cmpint(check(guest, stag, 1 << 30, 1, ALL), ==, RNIC_MR_BOUNDS);
    th_guest_free(guest);
}

static void test_local_dma_is_for_local_kernel_access(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    uint64_t at = th_alloc(guest, 100, 64);
    struct rnic_mapping map;
    uint64_t done;

    g_assert_cmpint(rnic_mr_check(guest->dev, 1, RNIC_STAG_LOCAL_DMA, at, 100,
                                  RNIC_ACCESS_LOCAL_WRITE, true),
                    ==, RNIC_MR_OK);
    g_assert_cmpint(
        rnic_mr_check(guest->dev, 1, RNIC_STAG_LOCAL_DMA, at, 100, 0, false),
        ==, RNIC_MR_BAD_STAG);
    g_assert_cmpint(rnic_mr_check(guest->dev, 1, RNIC_STAG_LOCAL_DMA, at, 100,
                                  RNIC_ACCESS_REMOTE_READ, true),
                    ==, RNIC_MR_BAD_STAG);
    g_assert_cmpint(rnic_mr_check(guest->dev, 1, RNIC_STAG_LOCAL_DMA,
                                  UINT64_MAX - 5, 100, 0, true),
                    ==, RNIC_MR_WRAP);
    rnic_mapping_init(&map, RNIC_DMA_TO_GUEST);
    g_assert_cmpint(rnic_mr_map(guest->dev, 1, RNIC_STAG_LOCAL_DMA, at, 100,
                                RNIC_ACCESS_LOCAL_WRITE, true, &map, &done),
                    ==, RNIC_MR_OK);
    g_assert_true(map.iov[0].iov_base == th_ptr(guest, at));
    rnic_mapping_release(guest->dev, &map, 100);
    g_assert_cmpint(rnic_mr_map(guest->dev, 1, RNIC_STAG_LOCAL_DMA, 64, 100, 0,
                                true, &map, &done),
                    ==, RNIC_MR_DMA);
    th_guest_free(guest);
}

static void test_all_dma_region_takes_any_ram(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_REG_MR };
    struct rnic_acqe resp;
    struct th_buf buf = th_buf_new(guest, 10000, 0, 0);
    uint8_t out[10000];
    uint64_t copied;
    uint32_t stag;

    cmd.reg_mr.pdn = GUINT32_TO_LE(TH_PD);
    cmd.reg_mr.flags = GUINT32_TO_LE(RNIC_MR_ALL_DMA);
    cmd.reg_mr.access = GUINT32_TO_LE(RNIC_ACCESS_REMOTE_READ);
    g_assert_cmpuint(th_admin(guest, &cmd, &resp), ==, RNIC_ADMIN_OK);
    stag = GUINT32_FROM_LE(resp.mr.stag);
    th_fill(buf.ptr, buf.len, 9);
    g_assert_cmpint(copy_out(guest, stag, buf.dma, 10000, out, &copied), ==,
                    RNIC_MR_OK);
    th_check_filled(out, 10000, 9);
    g_assert_cmpint(copy_out(guest, stag, 0, 10000, out, &copied), ==,
                    RNIC_MR_DMA);
    g_assert_cmpint(copy_out(guest, stag, UINT64_MAX - 1, 2, out, &copied), ==,
                    RNIC_MR_WRAP);
    g_assert_cmpint(check(guest, stag, buf.dma, 1, RNIC_ACCESS_REMOTE_WRITE),
                    ==, RNIC_MR_ACCESS);
    /* A peer cannot take it away from everybody */
    g_assert_cmpint(rnic_mr_invalidate(guest->dev, TH_PD, stag, true), ==,
                    RNIC_MR_ACCESS);
    th_guest_free(guest);
}

/* ---- REG_MR and invalidation by work requests ---- */

static uint32_t alloc_mr(struct th_guest *guest, uint32_t max_pages)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_ALLOC_MR };
    struct rnic_acqe resp;

    cmd.alloc_mr.pdn = GUINT32_TO_LE(TH_PD);
    cmd.alloc_mr.max_pages = GUINT32_TO_LE(max_pages);
    cmd.alloc_mr.key = 0x11;
    g_assert_cmpuint(th_admin(guest, &cmd, &resp), ==, RNIC_ADMIN_OK);
    return GUINT32_FROM_LE(resp.mr.stag);
}

/* For a scattered buffer of at most 512 pages at a TO that fits its offset */
static struct rnic_reg_wqe reg_wqe(const struct th_buf *buf, uint32_t stag,
                                   uint64_t iova, uint32_t access)
{
    uint64_t first_offset = GUINT32_FROM_LE(buf->desc.first_offset);

    return (struct rnic_reg_wqe){
        .stag = GUINT32_TO_LE(stag),
        .access = GUINT32_TO_LE(access),
        .num_pages =
            GUINT32_TO_LE((first_offset + buf->len + TH_PAGE - 1) / TH_PAGE),
        .iova = GUINT64_TO_LE(iova),
        .length = GUINT64_TO_LE(buf->len),
        .pages = buf->desc.addr,
        .page_shift = GUINT32_TO_LE(12),
    };
}

static void test_fast_registration_gives_pages_key_and_rights(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_buf buf = th_buf_new(guest, 50000, 1, 0x123);
    uint64_t pages = guest->dev->buf_pages;
    uint32_t stag = alloc_mr(guest, 32);
    uint32_t now = (stag & ~0xffu) | 0x22;
    struct rnic_reg_wqe wqe =
        reg_wqe(&buf, now, 0x70123, RNIC_ACCESS_REMOTE_READ);
    uint8_t out[50000];
    uint64_t copied;

    /* Fresh: invalid */
    g_assert_cmpint(check(guest, stag, 0, 1, 0), ==, RNIC_MR_BAD_STAG);
    th_fill(buf.ptr, buf.len, 3);
    g_assert_cmpint(rnic_mr_fast_reg(guest->dev, TH_PD, &wqe), ==, RNIC_MR_OK);
    g_assert_cmpint(copy_out(guest, now, 0x70123, 50000, out, &copied), ==,
                    RNIC_MR_OK);
    th_check_filled(out, 50000, 3);
    g_assert_cmpint(check(guest, stag, 0x70123, 1, 0), ==, RNIC_MR_BAD_STAG);
    g_assert_cmpint(check(guest, now, 0x70123, 1, ALL), ==, RNIC_MR_ACCESS);
    g_assert_cmpint(check(guest, now, 0x70122, 1, 0), ==, RNIC_MR_BOUNDS);
    /* Valid: not again before it is invalidated */
    g_assert_cmpint(rnic_mr_fast_reg(guest->dev, TH_PD, &wqe), ==,
                    RNIC_MR_BAD_STAG);
    g_assert_cmpint(rnic_mr_invalidate(guest->dev, TH_PD, now, false), ==,
                    RNIC_MR_OK);
    g_assert_cmpint(check(guest, now, 0x70123, 1, 0), ==, RNIC_MR_BAD_STAG);
    g_assert_cmpint(rnic_mr_fast_reg(guest->dev, TH_PD, &wqe), ==, RNIC_MR_OK);
    th_dereg_mr(guest, stag);
    g_assert_cmpuint(guest->dev->buf_pages, ==, pages);
    th_guest_free(guest);
}

static void test_refused_fast_registration_changes_nothing(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_buf buf = th_buf_new(guest, 8 * TH_PAGE, 1, 0);
    struct th_buf odd = th_buf_new(guest, 8 * TH_PAGE, 1, 0);
    uint32_t stag = alloc_mr(guest, 8);
    uint32_t user = th_reg_mr(guest, &buf, 0, ALL);
    const struct rnic_reg_wqe good = reg_wqe(&buf, stag, 0, ALL);
    uint64_t *odd_pages = th_ptr(guest, GUINT64_FROM_LE(odd.desc.addr));
    struct rnic_reg_wqe wqe;

    odd_pages[7] |= GUINT64_TO_LE(0x800);
#define REFUSED(pd, error, ...)                                                \
    do {                                                                       \
        wqe = good;                                                            \
        __VA_ARGS__;                                                           \
        g_assert_cmpint(rnic_mr_fast_reg(guest->dev, pd, &wqe), ==, error);    \
        g_assert_cmpint(check(guest, stag, 0, 1, 0), ==, RNIC_MR_BAD_STAG);    \
    } while (0)
    REFUSED(TH_PD + 1, RNIC_MR_BAD_PD, (void)wqe);
    REFUSED(TH_PD, RNIC_MR_BAD_STAG, wqe.stag ^= GUINT32_TO_LE(0x100));
    REFUSED(TH_PD, RNIC_MR_BAD_STAG, wqe.stag = GUINT32_TO_LE(user));
    REFUSED(TH_PD, RNIC_MR_BAD_STAG, wqe.stag = 0);
    REFUSED(TH_PD, RNIC_MR_BOUNDS, wqe.num_pages = 0);
    REFUSED(TH_PD, RNIC_MR_BOUNDS, wqe.num_pages = GUINT32_TO_LE(9));
    REFUSED(TH_PD, RNIC_MR_BOUNDS, wqe.num_pages = GUINT32_TO_LE(7));
    REFUSED(TH_PD, RNIC_MR_BOUNDS, wqe.num_pages = UINT32_MAX);
    REFUSED(TH_PD, RNIC_MR_BOUNDS, wqe.page_shift = GUINT32_TO_LE(11));
    REFUSED(TH_PD, RNIC_MR_BOUNDS, wqe.page_shift = GUINT32_TO_LE(22));
    REFUSED(TH_PD, RNIC_MR_BOUNDS, wqe.page_shift = UINT32_MAX);
    REFUSED(TH_PD, RNIC_MR_BOUNDS, wqe.length = 0);
    REFUSED(TH_PD, RNIC_MR_BOUNDS, wqe.length = GUINT64_TO_LE(8 * TH_PAGE + 1));
    REFUSED(TH_PD, RNIC_MR_BOUNDS, wqe.iova = GUINT64_TO_LE(1));
    REFUSED(TH_PD, RNIC_MR_WRAP, wqe.iova = GUINT64_TO_LE(0xfffffffffffff000));
    REFUSED(TH_PD, RNIC_MR_ACCESS, wqe.access = GUINT32_TO_LE(8));
    REFUSED(TH_PD, RNIC_MR_DMA, wqe.pages |= GUINT64_TO_LE(4));
    REFUSED(TH_PD, RNIC_MR_DMA, wqe.pages = GUINT64_TO_LE(0x1000));
    REFUSED(TH_PD, RNIC_MR_DMA, wqe.pages = odd.desc.addr);
#undef REFUSED
    g_assert_cmpint(rnic_mr_fast_reg(guest->dev, TH_PD, &good), ==, RNIC_MR_OK);
    g_assert_cmpint(check(guest, stag, 0, 8 * TH_PAGE, ALL), ==, RNIC_MR_OK);
    th_guest_free(guest);
}

static void test_peer_invalidates_only_what_it_was_given(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    struct th_buf buf = th_buf_new(guest, 5000, 1, 0);
    uint32_t local = th_reg_mr(guest, &buf, 0, RNIC_ACCESS_LOCAL_WRITE);
    uint32_t remote = th_reg_mr(guest, &buf, 0, RNIC_ACCESS_REMOTE_WRITE);
    struct rnic_device *dev = guest->dev;

    g_assert_cmpint(rnic_mr_invalidate(dev, TH_PD, local, true), ==,
                    RNIC_MR_ACCESS);
    g_assert_cmpint(rnic_mr_invalidate(dev, TH_PD + 1, remote, true), ==,
                    RNIC_MR_BAD_PD);
    g_assert_cmpint(rnic_mr_invalidate(dev, TH_PD, remote ^ 1, true), ==,
                    RNIC_MR_BAD_STAG);
    g_assert_cmpint(check(guest, local, 0, 5000, 0), ==, RNIC_MR_OK);
    g_assert_cmpint(check(guest, remote, 0, 5000, 0), ==, RNIC_MR_OK);
    g_assert_cmpint(rnic_mr_invalidate(dev, TH_PD, remote, true), ==,
                    RNIC_MR_OK);
    g_assert_cmpint(check(guest, remote, 0, 5000, 0), ==, RNIC_MR_BAD_STAG);
    g_assert_cmpint(rnic_mr_invalidate(dev, TH_PD, remote, true), ==,
                    RNIC_MR_BAD_STAG);
    /* Still there for its owner to remove */
    th_dereg_mr(guest, remote);
    g_assert_cmpint(rnic_mr_invalidate(dev, TH_PD, local, false), ==,
                    RNIC_MR_OK);
    g_assert_cmpint(check(guest, local, 0, 1, 0), ==, RNIC_MR_BAD_STAG);
    th_guest_free(guest);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add_func("/mr/" #name, test_##name)
    ADD(every_form_of_page_list_translates);
    ADD(pages_that_follow_each_other_are_mapped_as_one);
    ADD(full_mapping_says_how_far_it_came);
    ADD(checks_come_in_their_order);
    ADD(page_that_is_not_ram_fails_at_use);
    ADD(tables_are_read_once);
    ADD(removed_region_is_gone);
    ADD(stags_do_not_come_back_soon);
    ADD(every_slot_can_be_used);
    ADD(page_lists_are_bounded_together);
    ADD(a_gibibyte_is_registered_quickly);
    ADD(local_dma_is_for_local_kernel_access);
    ADD(all_dma_region_takes_any_ram);
    ADD(fast_registration_gives_pages_key_and_rights);
    ADD(refused_fast_registration_changes_nothing);
    ADD(peer_invalidates_only_what_it_was_given);
    return g_test_run();
}
