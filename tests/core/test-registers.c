/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registers, enable and reset
 */
#include <string.h>
#include "harness.h"

static void test_identity_and_limits_are_those_of_the_headers(void)
{
    static const struct {
        unsigned offset;
        uint32_t value;
    } fixed[] = {
        { RNIC_REG_MAGIC, 0x43494e52 },
        { RNIC_REG_VERSION, 0x00010003 },
        { RNIC_REG_CAPS_LO, 0x7f },
        { RNIC_REG_CAPS_HI, 0 },
        { RNIC_REG_CTRL, 0 },
        { RNIC_REG_STATUS, 0 },
        { RNIC_REG_ERROR, 0 },
        { RNIC_REG_VECTORS, 4 },
        { RNIC_REG_MAX_QP, 16384 },
        { RNIC_REG_MAX_CQ, 32768 },
        { RNIC_REG_MAX_SRQ, 4096 },
        { RNIC_REG_MAX_EQ, 65 },
        { RNIC_REG_MAX_MR, 131072 },
        { RNIC_REG_MAX_PD, 16384 },
        { RNIC_REG_MAX_UCTX, 1024 },
        { RNIC_REG_MAX_LISTEN, 1024 },
        { RNIC_REG_MAX_QP_WR, 32768 },
        { RNIC_REG_MAX_CQE, 4194304 },
        { RNIC_REG_MAX_SGE, 16 },
        { RNIC_REG_MAX_INLINE, 480 },
        { RNIC_REG_MAX_IRD, 128 },
        { RNIC_REG_MAX_ORD, 128 },
        { RNIC_REG_MAX_MR_SIZE_LO, 0 },
        { RNIC_REG_MAX_MR_SIZE_HI, 256 },
        { RNIC_REG_MAX_FR_PAGES, 1024 },
        { RNIC_REG_MAX_MSG_SIZE, 0x80000000 },
        { RNIC_REG_MAX_PDATA, 508 },
        { RNIC_REG_MAX_BACKLOG, 1024 },
        { RNIC_REG_MAX_ADDR, 64 },
        { RNIC_REG_MAX_EQ_DEPTH, 65536 },
    };
    struct th_guest *guest = th_guest_new(NULL);
    const uint8_t *mac = guest->options.config.mac;
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(fixed); i++) {
        g_assert_cmphex(th_reg(guest, fixed[i].offset), ==, fixed[i].value);
    }
    g_assert_cmphex(th_reg(guest, RNIC_REG_MAC_LO), ==, 0x11005452);
    g_assert_cmphex(th_reg(guest, RNIC_REG_MAC_HI), ==, mac[4] | mac[5] << 8);
    th_guest_free(guest);
}

static bool is_register(uint64_t offset)
{
    return offset <= RNIC_REG_ERROR ||
           (offset >= RNIC_REG_MAC_LO && offset <= RNIC_REG_VECTORS) ||
           (offset >= RNIC_REG_MAX_QP && offset <= RNIC_REG_MAX_EQ_DEPTH) ||
           (offset >= RNIC_REG_ASQ_LO && offset <= RNIC_REG_ASQ_DB);
}

static void test_undefined_reads_are_zero_and_guest_errors(void)
{
    struct th_guest *guest = th_guest_new(NULL);
    uint64_t errors = 0;
    uint64_t offset;
    unsigned size;

    for (offset = 0; offset < RNIC_BAR_REGS_SIZE + 32; offset++) {
        for (size = 1; size <= 8; size++) {
            uint64_t value = rnic_device_reg_read(guest->dev, offset, size);
            bool defined = size == 4 && offset % 4 == 0 && is_register(offset);

            if (size == 8 && offset % 8 == 0) {
                uint64_t low = 0, high = 0;

                defined = is_register(offset) && is_register(offset + 4);
                if (is_register(offset)) {
                    low = th_reg(guest, offset);
                }
                if (is_register(offset + 4)) {
                    high = th_reg(guest, offset + 4);
                }
                g_assert_cmphex(value, ==, low | high << 32);
            } else if (!defined) {
                g_assert_cmphex(value, ==, 0);
            }
            errors += !defined;
        }
    }
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_guest_errors), ==, errors);
    th_guest_free(guest);
}

static void test_writes_without_meaning_change_nothing(void)
{
    struct th_guest *guest = th_guest_new(NULL);
    uint32_t before[RNIC_BAR_REGS_SIZE / 4];
    uint64_t offset;
    unsigned size;

    for (offset = 0; offset < RNIC_BAR_REGS_SIZE; offset += 4) {
        before[offset / 4] = th_reg(guest, offset);
    }
    for (offset = 0; offset < RNIC_BAR_REGS_SIZE + 32; offset++) {
        bool writable =
            offset == RNIC_REG_CTRL ||
            (offset >= RNIC_REG_ASQ_LO && offset <= RNIC_REG_ADMIN_DEPTH);

        for (size = 0; size <= 9; size++) {
            if (size != 4 && size != 8) {
                rnic_device_reg_write(guest->dev, offset, UINT64_MAX, size);
            } else if (offset % size) {
                rnic_device_reg_write(guest->dev, offset, UINT64_MAX, size);
            } else if (size == 4 && !writable) {
                rnic_device_reg_write(guest->dev, offset, UINT64_MAX, size);
            }
        }
    }
    th_run_for(5);
    for (offset = 0; offset < RNIC_BAR_REGS_SIZE; offset += 4) {
        g_assert_cmphex(th_reg(guest, offset), ==, before[offset / 4]);
    }
    th_guest_free(guest);
}

static void test_eight_octets_cover_two_registers(void)
{
    struct th_guest *guest = th_guest_new(NULL);

    rnic_device_reg_write(guest->dev, RNIC_REG_ASQ_LO, 0x123456789abcd000, 8);
    g_assert_cmphex(th_reg(guest, RNIC_REG_ASQ_LO), ==, 0x9abcd000);
    g_assert_cmphex(th_reg(guest, RNIC_REG_ASQ_HI), ==, 0x12345678);
    g_assert_cmphex(rnic_device_reg_read(guest->dev, RNIC_REG_ASQ_LO, 8), ==,
                    0x123456789abcd000);
    th_guest_free(guest);
}

static void test_queue_registers_are_fixed_while_enabled(void)
{
    struct th_guest *guest = th_guest_new(NULL);
    uint32_t low;

    th_enable(guest, 8);
    low = th_reg(guest, RNIC_REG_ASQ_LO);
    th_reg_set(guest, RNIC_REG_ASQ_LO, 0x1000);
    th_reg_set(guest, RNIC_REG_ADMIN_DEPTH, 16);
    g_assert_cmphex(th_reg(guest, RNIC_REG_ASQ_LO), ==, low);
    g_assert_cmphex(th_reg(guest, RNIC_REG_ADMIN_DEPTH), ==, 8);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_guest_errors), ==, 2);
    th_guest_free(guest);
}

static void test_doorbell_before_enable_has_no_effect(void)
{
    struct th_guest *guest = th_guest_new(NULL);

    th_reg_set(guest, RNIC_REG_ASQ_DB, 5);
    g_assert_cmphex(th_reg(guest, RNIC_REG_ASQ_DB), ==, 0);
    th_enable(guest, 8);
    th_run_for(5);
    g_assert_cmphex(th_reg(guest, RNIC_REG_STATUS), ==, RNIC_STATUS_READY);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_admin_commands), ==, 0);
    th_guest_free(guest);
}

static void try_enable(struct th_guest *guest, uint64_t asq, uint64_t acq,
                       uint32_t depth)
{
    rnic_device_reg_write(guest->dev, RNIC_REG_ASQ_LO, asq, 8);
    rnic_device_reg_write(guest->dev, RNIC_REG_ACQ_LO, acq, 8);
    th_reg_set(guest, RNIC_REG_ADMIN_DEPTH, depth);
    th_reg_set(guest, RNIC_REG_CTRL, RNIC_CTRL_ENABLE);
    th_wait(th_reg(guest, RNIC_REG_STATUS));
}

static void test_bad_admin_queue_is_fatal_until_reset(void)
{
    struct th_guest *guest = th_guest_new(NULL);
    uint64_t ring = th_alloc(guest, 1024 * sizeof(struct rnic_asqe), TH_PAGE);
    uint64_t end = TH_BASE + guest->options.mem_size;
    const struct {
        uint64_t asq, acq;
        uint32_t depth;
        enum rnic_dev_error error;
    } bad[] = {
        { ring, ring, 0, RNIC_DEV_ERR_ADMIN_CONFIG },
        { ring, ring, 1, RNIC_DEV_ERR_ADMIN_CONFIG },
        { ring, ring, 3, RNIC_DEV_ERR_ADMIN_CONFIG },
        { ring, ring, 2048, RNIC_DEV_ERR_ADMIN_CONFIG },
        { ring, ring, 0x80000000, RNIC_DEV_ERR_ADMIN_CONFIG },
        { ring + 128, ring, 8, RNIC_DEV_ERR_ADMIN_CONFIG },
        { ring, ring + 2048, 8, RNIC_DEV_ERR_ADMIN_CONFIG },
        { TH_BASE - TH_PAGE, ring, 8, RNIC_DEV_ERR_ADMIN_DMA },
        { ring, end, 8, RNIC_DEV_ERR_ADMIN_DMA },
        /* Its first page is RAM, not its last */
        { end - TH_PAGE, ring, 64, RNIC_DEV_ERR_ADMIN_DMA },
        { ring, -(uint64_t)TH_PAGE, 1024, RNIC_DEV_ERR_ADMIN_DMA },
    };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(bad); i++) {
        try_enable(guest, bad[i].asq, bad[i].acq, bad[i].depth);
        g_assert_cmphex(th_reg(guest, RNIC_REG_STATUS), ==, RNIC_STATUS_FATAL);
        g_assert_cmpuint(th_reg(guest, RNIC_REG_ERROR), ==, bad[i].error);
        /* ENABLE does not help */
        th_reg_set(guest, RNIC_REG_CTRL, RNIC_CTRL_ENABLE);
        th_run_for(2);
        g_assert_cmphex(th_reg(guest, RNIC_REG_STATUS), ==, RNIC_STATUS_FATAL);
        th_reset(guest);
        g_assert_cmphex(th_reg(guest, RNIC_REG_STATUS), ==, 0);
        g_assert_cmpuint(th_reg(guest, RNIC_REG_ERROR), ==, 0);
    }
    th_start(guest);
    th_guest_free(guest);
}

static void test_index_too_far_ahead_is_fatal(void)
{
    struct th_guest *guest = th_guest_new(NULL);

    th_enable(guest, 8);
    th_reg_set(guest, RNIC_REG_ASQ_DB, 9);
    th_wait(th_reg(guest, RNIC_REG_STATUS) & RNIC_STATUS_FATAL);
    g_assert_cmpuint(th_reg(guest, RNIC_REG_ERROR), ==,
                     RNIC_DEV_ERR_ADMIN_INDEX);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_admin_commands), ==, 0);
    /* So that the driver looks */
    g_assert_cmpuint(guest->irqs[0], ==, 1);
    th_guest_free(guest);
}

static void test_admin_ring_that_vanishes_is_fatal(void)
{
    unsigned which;

    for (which = 0; which < 2; which++) {
        struct th_guest *guest = th_guest_started(NULL);
        struct rnic_asqe nop = { .opcode = RNIC_CMD_NOP };

        th_make_hole(guest, which ? guest->acq : guest->asq, TH_PAGE);
        th_admin_submit(guest, &nop);
        th_wait(th_reg(guest, RNIC_REG_STATUS) & RNIC_STATUS_FATAL);
        g_assert_cmpuint(th_reg(guest, RNIC_REG_ERROR), ==,
                         RNIC_DEV_ERR_ADMIN_DMA);
        th_fill_holes(guest);
        th_reset(guest);
        th_start(guest);
        th_guest_free(guest);
    }
}

static void test_resetting_is_visible_before_the_write_returns(void)
{
    struct th_guest *guest = th_guest_started(NULL);

    th_reg_set(guest, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    g_assert_true(th_reg(guest, RNIC_REG_STATUS) & RNIC_STATUS_RESETTING);
    g_assert_cmphex(th_reg(guest, RNIC_REG_CTRL), ==, 0);
    /* Until it is done, nothing can be set up */
    th_reg_set(guest, RNIC_REG_ADMIN_DEPTH, 4);
    th_reg_set(guest, RNIC_REG_CTRL, RNIC_CTRL_ENABLE);
    g_assert_cmphex(th_reg(guest, RNIC_REG_CTRL), ==, 0);
    th_wait(!(th_reg(guest, RNIC_REG_STATUS) & RNIC_STATUS_RESETTING));
    g_assert_cmphex(th_reg(guest, RNIC_REG_STATUS), ==, 0);
    g_assert_cmphex(th_reg(guest, RNIC_REG_ADMIN_DEPTH), ==, 0);
    th_guest_free(guest);
}

static void assert_like_new(struct th_guest *guest)
{
    unsigned i;

    g_assert_cmphex(th_reg(guest, RNIC_REG_CTRL), ==, 0);
    g_assert_cmphex(th_reg(guest, RNIC_REG_STATUS), ==, 0);
    g_assert_cmphex(th_reg(guest, RNIC_REG_ASQ_LO), ==, 0);
    g_assert_cmphex(th_reg(guest, RNIC_REG_ASQ_DB), ==, 0);
    g_assert_cmpuint(guest->dev->buf_pages, ==, 0);
    for (i = 0; i < RNIC_STAT_COUNT; i++) {
        if (i != RNIC_STAT_wakeups) {
            g_assert_cmpuint(th_stat(guest, i), ==, 0);
        }
    }
    /* Every id is free again */
    guest->next_cqn = guest->next_qpn = guest->next_srqn = 0;
    guest->next_listen = 0;
    th_start(guest);
    th_qp_new(guest, NULL);
    th_srq_new(guest, 8, 0);
    g_assert_cmpuint(th_addr_add(guest, "10.0.0.1"), ==, RNIC_ADMIN_OK);
    th_listen(guest, "10.0.0.1", 0, 1, NULL);
}

static void make_objects(struct th_guest *guest)
{
    struct th_buf buf = th_buf_new(guest, 100000, 2, 0);

    th_qp_new(guest, NULL);
    th_srq_new(guest, 8, 0);
    th_reg_mr(guest, &buf, 0, RNIC_ACCESS_ALL);
    g_assert_cmpuint(th_addr_add(guest, "10.0.0.1"), ==, RNIC_ADMIN_OK);
    th_listen(guest, "10.0.0.1", 0, 1, NULL);
}

static void test_reset_makes_the_device_like_new(void)
{
    struct th_guest *guest = th_guest_started(NULL);

    make_objects(guest);
    th_reset(guest);
    assert_like_new(guest);
    th_guest_free(guest);
}

static void test_clearing_enable_resets(void)
{
    struct th_guest *guest = th_guest_started(NULL);

    make_objects(guest);
    th_reg_set(guest, RNIC_REG_CTRL, 0);
    g_assert_true(th_reg(guest, RNIC_REG_STATUS) & RNIC_STATUS_RESETTING);
    th_wait(!(th_reg(guest, RNIC_REG_STATUS) & RNIC_STATUS_RESETTING));
    assert_like_new(guest);
    th_guest_free(guest);
}

static void test_host_reset_makes_the_device_like_new(void)
{
    struct th_guest *guest = th_guest_started(NULL);

    make_objects(guest);
    rnic_device_reset(guest->dev);
    assert_like_new(guest);
    th_guest_free(guest);
}

static _Atomic bool storm_over;

static gpointer storm(gpointer opaque)
{
    struct th_guest *guest = opaque;
    uint32_t x = GPOINTER_TO_UINT(g_thread_self()) | 1;

    while (!storm_over) {
        x = x * 1664525 + 1013904223;
        switch (x >> 28) {
        case 0:
            th_reg_set(guest, RNIC_REG_CTRL, RNIC_CTRL_RESET);
            break;
        case 1:
            th_reg_set(guest, RNIC_REG_CTRL, 0);
            break;
        case 2:
        case 3:
        case 4:
            th_reg_set(guest, RNIC_REG_CTRL, RNIC_CTRL_ENABLE);
            break;
        case 5:
            th_reg_set(guest, RNIC_REG_ASQ_DB, x >> 20 & 15);
            break;
        case 6:
            rnic_device_reg_write(guest->dev, RNIC_REG_ASQ_LO, guest->asq, 8);
            break;
        case 7:
            rnic_device_reg_write(guest->dev, RNIC_REG_ACQ_LO, guest->acq, 8);
            break;
        case 8:
            th_reg_set(guest, RNIC_REG_ADMIN_DEPTH, 8);
            break;
        case 9:
            rnic_device_reg_read(guest->dev, x >> 16 & 0xffc, 4);
            break;
        default:
            rnic_device_doorbell(guest->dev,
                                 (x >> 8 & 1023) * RNIC_DB_PAGE_SIZE, 4);
        }
    }
    return NULL;
}

static void test_racing_writers_leave_a_device_that_works(void)
{
    struct th_guest *guest = th_guest_started(NULL);
    GThread *threads[3];
    size_t i;

    th_engine_start(guest);
    storm_over = false;
    for (i = 0; i < G_N_ELEMENTS(threads); i++) {
        threads[i] = g_thread_new("storm", storm, guest);
    }
    g_usleep(500000);
    storm_over = true;
    for (i = 0; i < G_N_ELEMENTS(threads); i++) {
        g_thread_join(threads[i]);
    }
    th_reset(guest);
    th_start(guest);
    make_objects(guest);
    th_engine_stop(guest);
    th_guest_free(guest);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add_func("/registers/" #name, test_##name)
    ADD(identity_and_limits_are_those_of_the_headers);
    ADD(undefined_reads_are_zero_and_guest_errors);
    ADD(writes_without_meaning_change_nothing);
    ADD(eight_octets_cover_two_registers);
    ADD(queue_registers_are_fixed_while_enabled);
    ADD(doorbell_before_enable_has_no_effect);
    ADD(bad_admin_queue_is_fatal_until_reset);
    ADD(index_too_far_ahead_is_fatal);
    ADD(admin_ring_that_vanishes_is_fatal);
    ADD(resetting_is_visible_before_the_write_returns);
    ADD(reset_makes_the_device_like_new);
    ADD(clearing_enable_resets);
    ADD(host_reset_makes_the_device_like_new);
    ADD(racing_writers_leave_a_device_that_works);
    return g_test_run();
}
