/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rnic as the qgraph tests see it: registers, admin queue, counters, and
 * what QEMU's process holds
 */
#ifndef TESTS_QTEST_RNIC_STEPS_H
#define TESTS_QTEST_RNIC_STEPS_H

#include "qemu/osdep.h"
#include "qapi/qmp/qdict.h"
#include "qemu/bswap.h"
#include "hw/pci/pci_regs.h"
#include "libqtest.h"
#include "libqos/libqos-malloc.h"
#include "libqos/malloc-pc.h"
#include "libqos/pci.h"
#include "libqos/pci-pc.h"
#include "libqos/qgraph.h"
#include "rnic/admin.h"
#include "rnic/regs.h"

#define ASQ_DEPTH 16
#define VECTORS   5
/* Rounds in which the fewest descriptors and threads are looked for */
#define WARM_UP   3
#define TIMEOUT   (60 * G_TIME_SPAN_SECOND)

typedef struct QRnic {
    QOSGraphObject obj;
    QPCIDevice dev;
} QRnic;

/* The device as one test sees it */
typedef struct Rnic {
    QPCIDevice *dev;
    QTestState *qts;
    QPCIBar regs, doorbells;
    uint64_t asq, acq;
} Rnic;

static inline uint32_t get(Rnic *r, uint32_t offset)
{
    return qpci_io_readl(r->dev, r->regs, offset);
}

static inline void set(Rnic *r, uint32_t offset, uint32_t value)
{
    qpci_io_writel(r->dev, r->regs, offset, value);
}

static inline void rnic_open(Rnic *r, void *obj)
{
    r->dev = &((QRnic *)obj)->dev;
    r->qts = r->dev->bus->qts;
    qpci_device_enable(r->dev);
    r->regs = qpci_iomap(r->dev, RNIC_BAR_REGS, NULL);
    r->doorbells = qpci_iomap(r->dev, RNIC_BAR_DB, NULL);
}

static inline void rnic_close(Rnic *r)
{
    qpci_iounmap(r->dev, r->doorbells);
    qpci_iounmap(r->dev, r->regs);
}

/* Waits for STATUS to have one of the bits (or none of them) */
static inline uint32_t wait_status(Rnic *r, uint32_t bits, bool on)
{
    gint64 end = g_get_monotonic_time() + TIMEOUT;
    uint32_t status;

    do {
        status = get(r, RNIC_REG_STATUS);
        if (!!(status & bits) == on) {
            return status;
        }
        g_usleep(500);
    } while (g_get_monotonic_time() < end);
    g_error("STATUS stays at 0x%x", status);
}

static inline void reset_by_register(Rnic *r)
{
    set(r, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    wait_status(r, RNIC_STATUS_RESETTING, false);
}

static inline uint32_t try_enable(Rnic *r, uint64_t asq, uint64_t acq,
                                  uint32_t depth)
{
    set(r, RNIC_REG_ASQ_LO, asq);
    set(r, RNIC_REG_ASQ_HI, asq >> 32);
    set(r, RNIC_REG_ACQ_LO, acq);
    set(r, RNIC_REG_ACQ_HI, acq >> 32);
    set(r, RNIC_REG_ADMIN_DEPTH, depth);
    set(r, RNIC_REG_CTRL, RNIC_CTRL_ENABLE);
    return wait_status(r, RNIC_STATUS_READY | RNIC_STATUS_FATAL, true);
}

static inline void enable(Rnic *r, QGuestAllocator *alloc)
{
    r->asq = guest_alloc(alloc, 4096);
    r->acq = guest_alloc(alloc, 4096);
    qtest_memset(r->qts, r->asq, 0, 4096);
    qtest_memset(r->qts, r->acq, 0, 4096);
    g_assert_cmphex(try_enable(r, r->asq, r->acq, ASQ_DEPTH), ==,
                    RNIC_STATUS_READY);
    g_assert_cmphex(get(r, RNIC_REG_CTRL), ==, RNIC_CTRL_ENABLE);
}

static inline void disable(Rnic *r, QGuestAllocator *alloc)
{
    reset_by_register(r);
    guest_free(alloc, r->asq);
    guest_free(alloc, r->acq);
}

/* Writes command number @index (first lap) and rings for it */
static inline void post_nop(Rnic *r, uint32_t index, uint16_t cookie)
{
    struct rnic_asqe sqe = {
        .opcode = RNIC_CMD_NOP,
        .cookie = cpu_to_le16(cookie),
    };

    qtest_memwrite(r->qts, r->asq + index * sizeof(sqe), &sqe, sizeof(sqe));
    set(r, RNIC_REG_ASQ_DB, index + 1);
}

static inline bool completed(Rnic *r, uint32_t index, struct rnic_acqe *cqe)
{
    qtest_memread(r->qts, r->acq + index * sizeof(*cqe), cqe, sizeof(*cqe));
    return cqe->phase & 1;
}

static inline void wait_nop(Rnic *r, uint32_t index, uint16_t cookie)
{
    gint64 end = g_get_monotonic_time() + TIMEOUT;
    struct rnic_acqe cqe;

    while (!completed(r, index, &cqe)) {
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        g_usleep(500);
    }
    g_assert_cmpuint(le16_to_cpu(cqe.cookie), ==, cookie);
    g_assert_cmpuint(le16_to_cpu(cqe.status), ==, RNIC_ADMIN_OK);
}

static inline uint64_t counter(Rnic *r, const char *name)
{
    QDict *response =
        qtest_qmp(r->qts, "{ 'execute': 'qom-get', 'arguments': "
                          "{ 'path': '/machine/peripheral/rnic0', "
                          "'property': 'stats' } }");
    uint64_t value;

    g_assert_true(qdict_haskey(response, "return"));
    value = qdict_get_int(qdict_get_qdict(response, "return"), name);
    qobject_unref(response);
    return value;
}

static inline char *pid_file(void)
{
    return g_strdup_printf("%s/rnic-qtest-%d.pid", g_get_tmp_dir(), getpid());
}

static inline void *with_pid_file(GString *cmd_line, void *arg)
{
    g_autofree char *path = pid_file();

    g_string_append_printf(cmd_line, " -pidfile %s ", path);
    return arg;
}

static inline int qemu_pid(void)
{
    g_autofree char *path = pid_file();
    g_autofree char *text = NULL;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    return atoi(text);
}

/* QEMU's descriptors ("fd"), or its threads ("task") without those of its pool,
 * which come and go */
static inline unsigned entries(int pid, const char *what)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/%s", pid, what);
    GDir *dir = g_dir_open(path, 0, NULL);
    unsigned count = 0;
    const char *name;

    g_assert_nonnull(dir);
    while ((name = g_dir_read_name(dir))) {
        g_autofree char *file = g_strdup_printf("%s/%s/comm", path, name);
        g_autofree char *comm = NULL;

        if (strcmp(what, "task") ||
            (g_file_get_contents(file, &comm, NULL, NULL) &&
             strcmp(comm, "worker\n"))) {
            count++;
        }
    }
    g_dir_close(dir);
    return count;
}

/* A thread that was joined is seen for a moment more, and an object's end may
 * wait for a grace period */
static inline void wait_entries(int pid, const char *what, unsigned wanted)
{
    gint64 end = g_get_monotonic_time() + TIMEOUT;

    while (entries(pid, what) != wanted && g_get_monotonic_time() < end) {
        g_usleep(500);
    }
    g_assert_cmpuint(entries(pid, what), ==, wanted);
}

/* KiB of QEMU's heap that are in memory */
static inline unsigned heap(int pid)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/smaps", pid);
    g_autofree char *text = NULL;
    char *at;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    at = strstr(text, "[heap]\n");
    g_assert_nonnull(at);
    at = strstr(at, "\nRss:");
    g_assert_nonnull(at);
    return atoi(at + strlen("\nRss:"));
}

#endif
