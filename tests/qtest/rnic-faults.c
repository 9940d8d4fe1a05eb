/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kinds of fault that emulated RDMA devices were found to have, as far as they
 * are about QEMU: see docs/limits.md. The others are in tests/core.
 */
#include "qemu/osdep.h"
#include "qemu/module.h"
#include "hw/pci/pci_regs.h"
#include "rnic-steps.h"

/* ---- 1: what a device leaves behind that cannot be realized ---- */

static void fault_01_failed_realize(void *obj, void *data,
                                    QGuestAllocator *alloc)
{
#define ADD_BAD(property, value)                                               \
    "{ 'execute': 'device_add', 'arguments': { 'driver': 'rnic', "             \
    "'id': 'rnic1', 'addr': '0x06', '" property "': " value " } }"
    static const char *const bad[] = {
        ADD_BAD("map", "'10.0.0.0'"),
        ADD_BAD("allow", "'1.2.3.4/99'"),
        ADD_BAD("pcap", "'/nonexistent/x.pcap'"),
        ADD_BAD("vectors", "1"),
        ADD_BAD("fpdu-max", "70000"),
        ADD_BAD("fabric", "'ethernet'"),
        ADD_BAD("iothread", "'none'"),
    };
    QTestState *qts = ((QRnic *)obj)->dev.bus->qts;
    unsigned descriptors = UINT_MAX, threads = UINT_MAX;
    int pid = qemu_pid();

    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
            QDict *response = qtest_qmp(qts, bad[i]);

            g_assert_true(qdict_haskey(response, "error"));
            qobject_unref(response);
        }
        if (round < WARM_UP) {
            descriptors = MIN(descriptors, entries(pid, "fd"));
            threads = MIN(threads, entries(pid, "task"));
        }
    }
    wait_entries(pid, "fd", descriptors);
    wait_entries(pid, "task", threads);
    /* Its place on the bus and its name are free */
    qtest_qmp_device_add(qts, "rnic", "rnic1", "{'addr': '0x06'}");
    qpci_unplug_acpi_device_test(qts, "rnic1", 0x06);
}

/* ---- 5: reads of the doorbell BAR ---- */

static void fault_05_doorbell_bar_read(void *obj, void *data,
                                       QGuestAllocator *alloc)
{
    Rnic r;

    rnic_open(&r, obj);
    for (unsigned enabled = 0; enabled < 2; enabled++) {
        if (enabled) {
            enable(&r, alloc);
        }
        for (uint64_t page = 0; page < RNIC_DB_PAGES; page += 31) {
            uint64_t at = page * RNIC_DB_PAGE_SIZE;

            g_assert_cmphex(qpci_io_readb(r.dev, r.doorbells, at + 3), ==, 0);
            g_assert_cmphex(qpci_io_readw(r.dev, r.doorbells, at + 1), ==, 0);
            g_assert_cmphex(qpci_io_readl(r.dev, r.doorbells, at), ==, 0);
            g_assert_cmphex(qpci_io_readq(r.dev, r.doorbells, at + 4088), ==,
                            0);
        }
    }
    post_nop(&r, 0, 1);
    wait_nop(&r, 0, 1);
    disable(&r, alloc);
    rnic_close(&r);
}

/* ---- 20: an interrupt that comes while its vector is masked ---- */

static void vector_set(Rnic *r, uint32_t offset, uint32_t value)
{
    qpci_io_writel(r->dev, r->dev->msix_table_bar,
                   r->dev->msix_table_off + offset, value);
}

static void fault_20_interrupt_while_masked(void *obj, void *data,
                                            QGuestAllocator *alloc)
{
    gint64 end = g_get_monotonic_time() + TIMEOUT;
    Rnic r;
    uint64_t message;

    rnic_open(&r, obj);
    qpci_msix_enable(r.dev);
    enable(&r, alloc);
    /* The message is a write, and here to RAM, where it can be seen */
    message = guest_alloc(alloc, 4096);
    qtest_writel(r.qts, message, 0);
    vector_set(&r, PCI_MSIX_ENTRY_VECTOR_CTRL, PCI_MSIX_ENTRY_CTRL_MASKBIT);
    vector_set(&r, PCI_MSIX_ENTRY_LOWER_ADDR, message);
    vector_set(&r, PCI_MSIX_ENTRY_UPPER_ADDR, message >> 32);
    vector_set(&r, PCI_MSIX_ENTRY_DATA, 0x1234);
    post_nop(&r, 0, 1);
    wait_nop(&r, 0, 1);
    while (!qpci_msix_pending(r.dev, 0)) {
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        g_usleep(500);
    }
    g_assert_cmphex(qtest_readl(r.qts, message), ==, 0);
    vector_set(&r, PCI_MSIX_ENTRY_VECTOR_CTRL, 0);
    g_assert_cmphex(qtest_readl(r.qts, message), ==, 0x1234);
    g_assert_false(qpci_msix_pending(r.dev, 0));
    /* And the next one comes at once */
    qtest_writel(r.qts, message, 0);
    post_nop(&r, 1, 2);
    wait_nop(&r, 1, 2);
    while (qtest_readl(r.qts, message) != 0x1234) {
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        g_usleep(500);
    }
    disable(&r, alloc);
    guest_free(alloc, message);
    qpci_msix_disable(r.dev);
    rnic_close(&r);
}

/* ---- 25: DMA to the device's own BARs ---- */

static unsigned run(Rnic *r, uint32_t index, struct rnic_asqe *sqe)
{
    gint64 end = g_get_monotonic_time() + TIMEOUT;
    struct rnic_acqe cqe;

    qtest_memwrite(r->qts, r->asq + index * sizeof(*sqe), sqe, sizeof(*sqe));
    set(r, RNIC_REG_ASQ_DB, index + 1);
    while (!completed(r, index, &cqe)) {
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        g_usleep(500);
    }
    return le16_to_cpu(cqe.status);
}

static void fault_25_dma_to_own_bars(void *obj, void *data,
                                     QGuestAllocator *alloc)
{
    uint32_t index = 0;
    Rnic r;

    rnic_open(&r, obj);
    enable(&r, alloc);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t bar = i ? r.doorbells.addr : r.regs.addr;
        struct rnic_asqe stats = {
            .opcode = RNIC_CMD_QUERY_STATS,
            .query_stats = { .addr = cpu_to_le64(bar),
                             .count = cpu_to_le32(32) },
        };
        struct rnic_asqe bitmap = {
            .opcode = RNIC_CMD_CREATE_UCTX,
            .uctx.dbmap = cpu_to_le64(bar),
        };
        struct rnic_asqe region = {
            .opcode = RNIC_CMD_REG_MR,
            .reg_mr = { .pdn = cpu_to_le32(1),
                        .buf = { .addr = cpu_to_le64(bar),
                                 .length = cpu_to_le64(8192),
                                 .levels = 1,
                                 .page_shift = 12 } },
        };

        g_assert_cmpuint(run(&r, index++, &stats), ==, RNIC_ADMIN_BAD_ADDRESS);
        g_assert_cmpuint(run(&r, index++, &bitmap), ==, RNIC_ADMIN_BAD_ADDRESS);
        g_assert_cmpuint(run(&r, index++, &region), ==, RNIC_ADMIN_BAD_ADDRESS);
    }
    /* Nothing arrived there */
    g_assert_cmpuint(counter(&r, "kicks"), ==, 0);
    g_assert_cmpuint(counter(&r, "guest_errors"), ==, 0);
    post_nop(&r, index, 9);
    wait_nop(&r, index, 9);
    disable(&r, alloc);
    rnic_close(&r);
}

static void rnic_register_faults(void)
{
    qos_add_test("fault-01-failed-realize", "rnic", fault_01_failed_realize,
                 &(QOSGraphTestOptions){ .before = with_pid_file });
    qos_add_test("fault-05-doorbell-bar-read", "rnic",
                 fault_05_doorbell_bar_read, NULL);
    qos_add_test("fault-20-interrupt-while-masked", "rnic",
                 fault_20_interrupt_while_masked, NULL);
    qos_add_test("fault-25-dma-to-own-bars", "rnic", fault_25_dma_to_own_bars,
                 NULL);
}

libqos_init(rnic_register_faults);
