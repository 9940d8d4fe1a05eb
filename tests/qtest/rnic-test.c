/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qgraph tests of the rnic as a PCI function: registers, admin queue, doorbell
 * pages, interrupts, reset, VM stop, hot-plug
 */
#include "qemu/osdep.h"
#include "qemu/module.h"
#include "hw/pci/pci_regs.h"
#include "libqos/malloc-pc.h"
#include "libqos/pci-pc.h"
#include "rnic-steps.h"

/* What may be written, with the bits that a write keeps */
static const struct {
    uint32_t offset;
    uint32_t kept;
} writable[] = {
    { RNIC_REG_ASQ_LO, 0xffffffff },      { RNIC_REG_ASQ_HI, 0xffffffff },
    { RNIC_REG_ACQ_LO, 0xffffffff },      { RNIC_REG_ACQ_HI, 0xffffffff },
    { RNIC_REG_ADMIN_DEPTH, 0xffffffff },
};

/* Read-only registers that are never 0 */
static const uint32_t constants[] = {
    RNIC_REG_MAGIC,        RNIC_REG_VERSION,        RNIC_REG_CAPS_LO,
    RNIC_REG_MAC_LO,       RNIC_REG_VECTORS,        RNIC_REG_MAX_QP,
    RNIC_REG_MAX_CQ,       RNIC_REG_MAX_SRQ,        RNIC_REG_MAX_EQ,
    RNIC_REG_MAX_MR,       RNIC_REG_MAX_PD,         RNIC_REG_MAX_UCTX,
    RNIC_REG_MAX_LISTEN,   RNIC_REG_MAX_QP_WR,      RNIC_REG_MAX_CQE,
    RNIC_REG_MAX_SGE,      RNIC_REG_MAX_INLINE,     RNIC_REG_MAX_IRD,
    RNIC_REG_MAX_ORD,      RNIC_REG_MAX_MR_SIZE_HI, RNIC_REG_MAX_FR_PAGES,
    RNIC_REG_MAX_MSG_SIZE, RNIC_REG_MAX_PDATA,      RNIC_REG_MAX_BACKLOG,
    RNIC_REG_MAX_ADDR,     RNIC_REG_MAX_EQ_DEPTH,
};

/* ---- Registers ---- */

static void test_identity(void *obj, void *data, QGuestAllocator *alloc)
{
    Rnic r;

    rnic_open(&r, obj);
    g_assert_cmphex(get(&r, RNIC_REG_MAGIC), ==, RNIC_MAGIC);
    g_assert_cmphex(get(&r, RNIC_REG_VERSION), ==,
                    RNIC_VERSION_MAJOR << 16 | RNIC_VERSION_MINOR);
    g_assert_cmphex(get(&r, RNIC_REG_MAC_LO), ==, 0x12005452);
    g_assert_cmphex(get(&r, RNIC_REG_MAC_HI), ==, 0x5634);
    g_assert_cmpuint(get(&r, RNIC_REG_VECTORS), ==, VECTORS);
    g_assert_cmphex(get(&r, RNIC_REG_STATUS), ==, 0);
    g_assert_cmphex(get(&r, RNIC_REG_ERROR), ==, RNIC_DEV_ERR_NONE);
    g_assert_cmphex(get(&r, RNIC_REG_CTRL), ==, 0);
    g_assert_cmphex(qpci_config_readw(r.dev, PCI_VENDOR_ID), ==,
                    RNIC_PCI_VENDOR_ID);
    g_assert_cmphex(qpci_config_readw(r.dev, PCI_DEVICE_ID), ==,
                    RNIC_PCI_DEVICE_ID);
    g_assert_cmphex(qpci_config_readb(r.dev, PCI_REVISION_ID), ==,
                    RNIC_PCI_REVISION);
    qpci_msix_enable(r.dev);
    g_assert_cmpuint(qpci_msix_table_size(r.dev), ==, VECTORS);
    qpci_msix_disable(r.dev);
    rnic_close(&r);
}

static void test_constants_ignore_writes(void *obj, void *data,
                                         QGuestAllocator *alloc)
{
    Rnic r;

    rnic_open(&r, obj);
    for (size_t i = 0; i < ARRAY_SIZE(constants); i++) {
        uint32_t before = get(&r, constants[i]);

        g_assert_cmphex(before, !=, 0);
        set(&r, constants[i], ~before);
        g_assert_cmphex(get(&r, constants[i]), ==, before);
    }
    rnic_close(&r);
}

static void test_admin_registers_keep_writes(void *obj, void *data,
                                             QGuestAllocator *alloc)
{
    Rnic r;

    rnic_open(&r, obj);
    for (size_t i = 0; i < ARRAY_SIZE(writable); i++) {
        uint32_t offset = writable[i].offset;

        set(&r, offset, 0xffffffff);
        g_assert_cmphex(get(&r, offset), ==, writable[i].kept);
        set(&r, offset, 0x1000);
        g_assert_cmphex(get(&r, offset), ==, 0x1000);
    }
    /* One write of 8 octets is two registers */
    qpci_io_writeq(r.dev, r.regs, RNIC_REG_ASQ_LO, 0x1122334455667000ull);
    g_assert_cmphex(get(&r, RNIC_REG_ASQ_LO), ==, 0x55667000);
    g_assert_cmphex(get(&r, RNIC_REG_ASQ_HI), ==, 0x11223344);
    g_assert_cmphex(qpci_io_readq(r.dev, r.regs, RNIC_REG_ASQ_LO), ==,
                    0x1122334455667000ull);
    reset_by_register(&r);
    g_assert_cmphex(get(&r, RNIC_REG_ASQ_LO), ==, 0);
    rnic_close(&r);
}

/* Reads of every width at every offset: registers, pairs of them, or 0 */
static void test_every_read_is_defined(void *obj, void *data,
                                       QGuestAllocator *alloc)
{
    Rnic r;

    rnic_open(&r, obj);
    for (uint32_t offset = 0; offset < 0x200; offset++) {
        uint32_t low = offset % 4 ? 0 : get(&r, offset);
        uint64_t pair =
            offset % 8 ? 0 : low | (uint64_t)get(&r, offset + 4) << 32;

        g_assert_cmphex(qpci_io_readb(r.dev, r.regs, offset), ==, 0);
        g_assert_cmphex(qpci_io_readw(r.dev, r.regs, offset), ==, 0);
        g_assert_cmphex(qpci_io_readl(r.dev, r.regs, offset), ==, low);
        g_assert_cmphex(qpci_io_readq(r.dev, r.regs, offset), ==, pair);
    }
    for (uint32_t offset = 0x200; offset < RNIC_BAR_REGS_SIZE; offset += 4) {
        g_assert_cmphex(get(&r, offset), ==, 0);
    }
    rnic_close(&r);
}

static void test_odd_writes_are_ignored(void *obj, void *data,
                                        QGuestAllocator *alloc)
{
    Rnic r;

    rnic_open(&r, obj);
    set(&r, RNIC_REG_ASQ_LO, 0x5000);
    set(&r, RNIC_REG_ASQ_HI, 0x60);
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t offset = RNIC_REG_ASQ_LO + i;

        qpci_io_writeb(r.dev, r.regs, offset, 0xff);
        qpci_io_writew(r.dev, r.regs, offset, 0xffff);
        if (offset % 4) {
            qpci_io_writel(r.dev, r.regs, offset, 0xffffffff);
        }
        if (offset % 8) {
            qpci_io_writeq(r.dev, r.regs, offset, ~0ull);
        }
        g_assert_cmphex(get(&r, RNIC_REG_ASQ_LO), ==, 0x5000);
        g_assert_cmphex(get(&r, RNIC_REG_ASQ_HI), ==, 0x60);
        g_assert_cmphex(get(&r, RNIC_REG_ACQ_LO), ==, 0);
    }
    /* Offsets without a register */
    for (uint32_t offset = 0x200; offset < RNIC_BAR_REGS_SIZE; offset += 4) {
        set(&r, offset, 0xffffffff);
    }
    g_assert_cmphex(get(&r, RNIC_REG_STATUS), ==, 0);
    reset_by_register(&r);
    rnic_close(&r);
}

/* ---- Admin queue ---- */

static void expect_fatal(Rnic *r, uint64_t asq, uint64_t acq, uint32_t depth,
                         uint32_t error)
{
    g_assert_cmphex(try_enable(r, asq, acq, depth), ==, RNIC_STATUS_FATAL);
    g_assert_cmphex(get(r, RNIC_REG_ERROR), ==, error);
    reset_by_register(r);
    g_assert_cmphex(get(r, RNIC_REG_STATUS), ==, 0);
    g_assert_cmphex(get(r, RNIC_REG_ERROR), ==, RNIC_DEV_ERR_NONE);
    g_assert_cmphex(get(r, RNIC_REG_CTRL), ==, 0);
}

static void test_bad_admin_queue_is_fatal(void *obj, void *data,
                                          QGuestAllocator *alloc)
{
    uint64_t ram = guest_alloc(alloc, 4096);
    Rnic r;

    rnic_open(&r, obj);
    expect_fatal(&r, ram + 8, ram, 16, RNIC_DEV_ERR_ADMIN_CONFIG);
    expect_fatal(&r, ram, ram + 64, 16, RNIC_DEV_ERR_ADMIN_CONFIG);
    expect_fatal(&r, ram, ram, 0, RNIC_DEV_ERR_ADMIN_CONFIG);
    expect_fatal(&r, ram, ram, 1, RNIC_DEV_ERR_ADMIN_CONFIG);
    expect_fatal(&r, ram, ram, 3, RNIC_DEV_ERR_ADMIN_CONFIG);
    expect_fatal(&r, ram, ram, 2048, RNIC_DEV_ERR_ADMIN_CONFIG);
    /* Nothing lies there, and the device's own BAR */
    expect_fatal(&r, 1ull << 40, ram, 16, RNIC_DEV_ERR_ADMIN_DMA);
    expect_fatal(&r, ram, ~0xfffull, 16, RNIC_DEV_ERR_ADMIN_DMA);
    expect_fatal(&r, r.regs.addr, ram, 16, RNIC_DEV_ERR_ADMIN_DMA);
    rnic_close(&r);
    guest_free(alloc, ram);
}

static void test_admin_queue_is_fixed_while_enabled(void *obj, void *data,
                                                    QGuestAllocator *alloc)
{
    Rnic r;

    rnic_open(&r, obj);
    enable(&r, alloc);
    set(&r, RNIC_REG_ASQ_LO, 0x7000);
    set(&r, RNIC_REG_ADMIN_DEPTH, 2);
    g_assert_cmphex(get(&r, RNIC_REG_ASQ_LO), ==, (uint32_t)r.asq);
    g_assert_cmpuint(get(&r, RNIC_REG_ADMIN_DEPTH), ==, ASQ_DEPTH);
    disable(&r, alloc);
    rnic_close(&r);
}

static void test_admin_completion_interrupts(void *obj, void *data,
                                             QGuestAllocator *alloc)
{
    gint64 end = g_get_monotonic_time() + TIMEOUT;
    Rnic r;

    rnic_open(&r, obj);
    qpci_msix_enable(r.dev);
    enable(&r, alloc);
    g_assert_false(qpci_msix_pending(r.dev, 0));
    for (uint32_t i = 0; i < ASQ_DEPTH; i++) {
        post_nop(&r, i, 0x1234 + i);
        wait_nop(&r, i, 0x1234 + i);
    }
    g_assert_cmpuint(counter(&r, "admin_commands"), ==, ASQ_DEPTH);
    /* libqos leaves the vectors masked, so the interrupt is pending */
    while (!qpci_msix_pending(r.dev, 0)) {
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        g_usleep(500);
    }
    for (unsigned i = 1; i < VECTORS; i++) {
        g_assert_false(qpci_msix_pending(r.dev, i));
    }
    disable(&r, alloc);
    qpci_msix_disable(r.dev);
    rnic_close(&r);
}

static void test_unknown_command_fails(void *obj, void *data,
                                       QGuestAllocator *alloc)
{
    struct rnic_asqe sqe = { .opcode = 0xff, .cookie = cpu_to_le16(7) };
    gint64 end = g_get_monotonic_time() + TIMEOUT;
    struct rnic_acqe cqe;
    Rnic r;

    rnic_open(&r, obj);
    enable(&r, alloc);
    qtest_memwrite(r.qts, r.asq, &sqe, sizeof(sqe));
    set(&r, RNIC_REG_ASQ_DB, 1);
    while (!completed(&r, 0, &cqe)) {
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        g_usleep(500);
    }
    g_assert_cmpuint(le16_to_cpu(cqe.cookie), ==, 7);
    g_assert_cmpuint(le16_to_cpu(cqe.status), ==, RNIC_ADMIN_BAD_OPCODE);
    post_nop(&r, 1, 8);
    wait_nop(&r, 1, 8);
    disable(&r, alloc);
    rnic_close(&r);
}

static void test_admin_index_too_far_is_fatal(void *obj, void *data,
                                              QGuestAllocator *alloc)
{
    Rnic r;

    rnic_open(&r, obj);
    enable(&r, alloc);
    set(&r, RNIC_REG_ASQ_DB, ASQ_DEPTH + 1);
    wait_status(&r, RNIC_STATUS_FATAL, true);
    g_assert_cmphex(get(&r, RNIC_REG_ERROR), ==, RNIC_DEV_ERR_ADMIN_INDEX);
    disable(&r, alloc);
    g_assert_cmphex(get(&r, RNIC_REG_STATUS), ==, 0);
    rnic_close(&r);
}

/* ---- Doorbell pages ---- */

static void test_doorbell_pages_read_zero(void *obj, void *data,
                                          QGuestAllocator *alloc)
{
    static const uint64_t pages[] = { 0, 1, 63, 64, RNIC_DB_PAGES - 1 };
    Rnic r;

    rnic_open(&r, obj);
    enable(&r, alloc);
    for (size_t i = 0; i < ARRAY_SIZE(pages); i++) {
        uint64_t page = pages[i] * RNIC_DB_PAGE_SIZE;

        /* None of these contexts exists, so nothing may happen */
        qpci_io_writel(r.dev, r.doorbells, page + RNIC_DB_KICK, 0xffffffff);
        qpci_io_writeb(r.dev, r.doorbells, page + RNIC_DB_KICK, 1);
        qpci_io_writeq(r.dev, r.doorbells, page + 8, 1);
        qpci_io_writew(r.dev, r.doorbells, page + 0xffd, 1);
        for (uint64_t offset = 0; offset < 16; offset++) {
            g_assert_cmphex(qpci_io_readb(r.dev, r.doorbells, page + offset),
                            ==, 0);
            g_assert_cmphex(qpci_io_readw(r.dev, r.doorbells, page + offset),
                            ==, 0);
            g_assert_cmphex(qpci_io_readl(r.dev, r.doorbells, page + offset),
                            ==, 0);
            g_assert_cmphex(qpci_io_readq(r.dev, r.doorbells, page + offset),
                            ==, 0);
        }
    }
    post_nop(&r, 0, 1);
    wait_nop(&r, 0, 1);
    g_assert_cmpuint(counter(&r, "kicks"), ==, ARRAY_SIZE(pages));
    disable(&r, alloc);
    rnic_close(&r);
}

/* ---- Reset and VM stop ---- */

static void test_reset_by_register_50_times(void *obj, void *data,
                                            QGuestAllocator *alloc)
{
    Rnic r;

    rnic_open(&r, obj);
    for (unsigned i = 0; i < 50; i++) {
        enable(&r, alloc);
        post_nop(&r, 0, i);
        if (i % 2) {
            wait_nop(&r, 0, i);
        }
        disable(&r, alloc);
        g_assert_cmphex(get(&r, RNIC_REG_ASQ_LO), ==, 0);
        g_assert_cmphex(get(&r, RNIC_REG_ASQ_DB), ==, 0);
    }
    rnic_close(&r);
}

static void test_system_reset_50_times(void *obj, void *data,
                                       QGuestAllocator *alloc)
{
    Rnic r;

    for (unsigned i = 0; i < 50; i++) {
        rnic_open(&r, obj);
        g_assert_cmphex(get(&r, RNIC_REG_STATUS), ==, 0);
        g_assert_cmphex(get(&r, RNIC_REG_ASQ_LO), ==, 0);
        enable(&r, alloc);
        post_nop(&r, 0, i);
        qobject_unref(qtest_qmp(r.qts, "{ 'execute': 'system_reset' }"));
        qtest_qmp_eventwait(r.qts, "RESET");
        guest_free(alloc, r.asq);
        guest_free(alloc, r.acq);
        rnic_close(&r);
    }
}

static void test_stopped_vm_touches_no_memory(void *obj, void *data,
                                              QGuestAllocator *alloc)
{
    struct rnic_acqe cqe;
    Rnic r;

    rnic_open(&r, obj);
    enable(&r, alloc);
    for (unsigned i = 0; i < 5; i++) {
        qobject_unref(qtest_qmp(r.qts, "{ 'execute': 'stop' }"));
        qtest_qmp_eventwait(r.qts, "STOP");
        post_nop(&r, i, i);
        g_usleep(20000);
        g_assert_false(completed(&r, i, &cqe));
        qobject_unref(qtest_qmp(r.qts, "{ 'execute': 'cont' }"));
        qtest_qmp_eventwait(r.qts, "RESUME");
        wait_nop(&r, i, i);
    }
    disable(&r, alloc);
    rnic_close(&r);
}

/* The engine answers for the queues, also while the VM is stopped */
static void test_counters_are_readable(void *obj, void *data,
                                       QGuestAllocator *alloc)
{
    static const char *const names[] = { "stats", "qp-stats", "cq-stats" };
    Rnic r;

    rnic_open(&r, obj);
    enable(&r, alloc);
    for (unsigned stopped = 0; stopped < 2; stopped++) {
        if (stopped) {
            qobject_unref(qtest_qmp(r.qts, "{ 'execute': 'stop' }"));
            qtest_qmp_eventwait(r.qts, "STOP");
        }
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
            QDict *response =
                qtest_qmp(r.qts,
                          "{ 'execute': 'qom-get', 'arguments': { 'path': "
                          "'/machine/peripheral/rnic0', 'property': %s } }",
                          names[i]);

            /* There are no queues */
            g_assert_true(qdict_haskey(response, "return"));
            g_assert_true((qdict_size(qdict_get_qdict(response, "return")) >
                           0) == (i == 0));
            qobject_unref(response);
        }
    }
    qobject_unref(qtest_qmp(r.qts, "{ 'execute': 'cont' }"));
    qtest_qmp_eventwait(r.qts, "RESUME");
    disable(&r, alloc);
    rnic_close(&r);
}

/* A reset of a stopped VM must not set the engine going */
static void test_reset_of_stopped_vm(void *obj, void *data,
                                     QGuestAllocator *alloc)
{
    Rnic r;

    rnic_open(&r, obj);
    enable(&r, alloc);
    qobject_unref(qtest_qmp(r.qts, "{ 'execute': 'stop' }"));
    qtest_qmp_eventwait(r.qts, "STOP");
    qobject_unref(qtest_qmp(r.qts, "{ 'execute': 'system_reset' }"));
    qtest_qmp_eventwait(r.qts, "RESET");
    qobject_unref(qtest_qmp(r.qts, "{ 'execute': 'cont' }"));
    qtest_qmp_eventwait(r.qts, "RESUME");
    rnic_close(&r);
    guest_free(alloc, r.asq);
    guest_free(alloc, r.acq);

    rnic_open(&r, obj);
    g_assert_cmphex(get(&r, RNIC_REG_STATUS), ==, 0);
    enable(&r, alloc);
    post_nop(&r, 0, 5);
    wait_nop(&r, 0, 5);
    disable(&r, alloc);
    rnic_close(&r);
}

/* ---- Hot-plug ---- */

static void test_hotplug_finishes(void *obj, void *data, QGuestAllocator *alloc)
{
    QPCIDevice *dev = &((QRnic *)obj)->dev;
    QTestState *qts = dev->bus->qts;

    for (unsigned i = 0; i < 5; i++) {
        qtest_qmp_device_add(qts, "rnic", "rnic1", "{'addr': '0x06'}");
        qpci_unplug_acpi_device_test(qts, "rnic1", 0x06);
    }
}

static void test_unplug_frees_all_50_times(void *obj, void *data,
                                           QGuestAllocator *alloc)
{
    QPCIDevice *dev = &((QRnic *)obj)->dev;
    QTestState *qts = dev->bus->qts;
    unsigned descriptors = UINT_MAX, threads = UINT_MAX, memory = 0;
    int pid = qemu_pid();

    for (unsigned i = 0; i < 60; i++) {
        qtest_qmp_device_add(qts, "rnic", "rnic1", "{'addr': '0x06'}");
        if (i >= WARM_UP) {
            g_assert_cmpuint(entries(pid, "fd"), >, descriptors);
            wait_entries(pid, "task", threads + 1);
        }
        qpci_unplug_acpi_device_test(qts, "rnic1", 0x06);
        /* What the first rounds leave is QEMU's own */
        if (i < WARM_UP) {
            descriptors = MIN(descriptors, entries(pid, "fd"));
            threads = MIN(threads, entries(pid, "task"));
        } else {
            wait_entries(pid, "fd", descriptors);
            wait_entries(pid, "task", threads);
        }
        /* And the heap has its shape after ten */
        if (i == 9) {
            memory = heap(pid);
        }
    }
    /* 40 KiB each, which is far less than a device */
    g_assert_cmpuint(heap(pid), <=, memory + 50 * 40);
}

static void test_unplug_while_enabled(void *obj, void *data,
                                      QGuestAllocator *alloc)
{
    QPCIDevice *dev = &((QRnic *)obj)->dev;
    QPCIAddress where = { .devfn = QPCI_DEVFN(6, 0) };
    QTestState *qts = dev->bus->qts;
    QRnic plugged = {};
    Rnic r;

    for (unsigned i = 0; i < 3; i++) {
        qtest_qmp_device_add(qts, "rnic", "rnic1", "{'addr': '0x06'}");
        qpci_device_init(&plugged.dev, dev->bus, &where);
        rnic_open(&r, &plugged);
        enable(&r, alloc);
        post_nop(&r, 0, i);
        qpci_unplug_acpi_device_test(qts, "rnic1", 0x06);
        g_assert_cmphex(get(&r, RNIC_REG_MAGIC), !=, RNIC_MAGIC);
        guest_free(alloc, r.asq);
        guest_free(alloc, r.acq);
    }
}

/* ---- PCI Express; on a machine of its own, as the graph's has none ---- */

static void test_function_level_reset(void *obj, void *data,
                                      QGuestAllocator *unused)
{
    QTestState *qts = qtest_init("-M q35 -nodefaults -device rnic,addr=05.0");
    QPCIBus *bus = qpci_new_pc(qts, NULL);
    QPCIAddress where = { .devfn = QPCI_DEVFN(5, 0) };
    QGuestAllocator alloc;
    QRnic function = {};
    uint8_t cap;
    Rnic r;

    pc_alloc_init(&alloc, qts, ALLOC_NO_FLAGS);
    qpci_device_init(&function.dev, bus, &where);
    rnic_open(&r, &function);
    cap = qpci_find_capability(r.dev, PCI_CAP_ID_EXP, 0);
    g_assert_cmpuint(cap, !=, 0);
    g_assert_cmphex(qpci_config_readl(r.dev, cap + PCI_EXP_DEVCAP) &
                        PCI_EXP_DEVCAP_FLR,
                    !=, 0);
    for (unsigned i = 0; i < 10; i++) {
        enable(&r, &alloc);
        post_nop(&r, 0, i);
        qpci_config_writew(r.dev, cap + PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_BCR_FLR);
        /* The reset has taken the BARs' addresses as well */
        g_assert_cmphex(
            qpci_config_readw(r.dev, PCI_COMMAND) & PCI_COMMAND_MEMORY, ==, 0);
        guest_free(&alloc, r.asq);
        guest_free(&alloc, r.acq);
        rnic_open(&r, &function);
        g_assert_cmphex(get(&r, RNIC_REG_STATUS), ==, 0);
        g_assert_cmphex(get(&r, RNIC_REG_ASQ_LO), ==, 0);
    }
    qpci_free_pc(bus);
    alloc_destroy(&alloc);
    qtest_quit(qts);
}

/* ---- The graph ---- */

static void *rnic_get_driver(void *obj, const char *interface)
{
    QRnic *r = obj;

    if (!g_strcmp0(interface, "pci-device")) {
        return &r->dev;
    }
    g_error("%s is not an interface of rnic", interface);
}

static void *rnic_create(void *pci_bus, QGuestAllocator *alloc, void *addr)
{
    QRnic *r = g_new0(QRnic, 1);

    qpci_device_init(&r->dev, pci_bus, addr);
    r->obj.get_driver = rnic_get_driver;
    return &r->obj;
}

static void *with_iothread(GString *cmd_line, void *arg)
{
    g_string_append(cmd_line, " -object iothread,id=io0 ");
    return arg;
}

static void rnic_register_nodes(void)
{
    QOSGraphEdgeOptions opts = {
        .extra_device_opts = "addr=04.0,id=rnic0,mac=52:54:00:12:34:56,"
                             "vectors=" G_STRINGIFY(VECTORS),
    };
    QOSGraphTestOptions iothread = {
        .before = with_iothread,
        .edge.extra_device_opts = "iothread=io0",
    };

    add_qpci_address(&opts, &(QPCIAddress){ .devfn = QPCI_DEVFN(4, 0) });
    qos_node_create_driver("rnic", rnic_create);
    qos_node_consumes("rnic", "pci-bus", &opts);
    qos_node_produces("rnic", "pci-device");

    qos_add_test("identity", "rnic", test_identity, NULL);
    qos_add_test("constants-ignore-writes", "rnic",
                 test_constants_ignore_writes, NULL);
    qos_add_test("admin-registers-keep-writes", "rnic",
                 test_admin_registers_keep_writes, NULL);
    qos_add_test("every-read-is-defined", "rnic", test_every_read_is_defined,
                 NULL);
    qos_add_test("odd-writes-are-ignored", "rnic", test_odd_writes_are_ignored,
                 NULL);
    qos_add_test("bad-admin-queue-is-fatal", "rnic",
                 test_bad_admin_queue_is_fatal, NULL);
    qos_add_test("admin-queue-is-fixed-while-enabled", "rnic",
                 test_admin_queue_is_fixed_while_enabled, NULL);
    qos_add_test("admin-completion-interrupts", "rnic",
                 test_admin_completion_interrupts, NULL);
    qos_add_test("admin-completion-interrupts-with-iothread", "rnic",
                 test_admin_completion_interrupts, &iothread);
    qos_add_test("unknown-command-fails", "rnic", test_unknown_command_fails,
                 NULL);
    qos_add_test("admin-index-too-far-is-fatal", "rnic",
                 test_admin_index_too_far_is_fatal, NULL);
    qos_add_test("doorbell-pages-read-zero", "rnic",
                 test_doorbell_pages_read_zero, NULL);
    qos_add_test("reset-by-register-50-times", "rnic",
                 test_reset_by_register_50_times, NULL);
    qos_add_test("system-reset-50-times", "rnic", test_system_reset_50_times,
                 NULL);
    qos_add_test("stopped-vm-touches-no-memory", "rnic",
                 test_stopped_vm_touches_no_memory, NULL);
    qos_add_test("reset-of-stopped-vm", "rnic", test_reset_of_stopped_vm, NULL);
    qos_add_test("counters-are-readable", "rnic", test_counters_are_readable,
                 NULL);
    qos_add_test("hotplug-finishes", "rnic", test_hotplug_finishes, NULL);
    qos_add_test("unplug-frees-all-50-times", "rnic",
                 test_unplug_frees_all_50_times,
                 &(QOSGraphTestOptions){ .before = with_pid_file });
    qos_add_test("unplug-while-enabled", "rnic", test_unplug_while_enabled,
                 NULL);
    qos_add_test("function-level-reset", "rnic", test_function_level_reset,
                 NULL);
}

libqos_init(rnic_register_nodes);
