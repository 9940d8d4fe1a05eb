/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fences between the engine and the guest's processors
 *
 * TCG leaves barriers out that no other processor could notice: where it runs
 * one processor, or all of them on one thread, it translates a locked
 * instruction into plain ones, and QEMU 7.2 even a barrier into nothing. The
 * engine does notice, for it runs beside them: guest and device could each miss
 * what the other one has just stored, and a notification would be lost. So
 * there the engine has the processors' threads execute a barrier, wherever they
 * are, which membarrier() does: a store of the guest is visible after it, or
 * what follows the store in the guest's code has not been loaded yet.
 */
#include "qemu/osdep.h"
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include "qapi/error.h"
#include "qemu/accel.h"
#include "qemu/error-report.h"
#include "rnic-pci.h"
#include "hw/boards.h"
#include "trace.h"

static int membarrier(int command)
{
    return syscall(__NR_membarrier, command, 0, 0);
}

static bool processors_leave_barriers_out(void)
{
    g_autofree char *thread = NULL;

    if (!tcg_enabled()) {
        return false;
    }
    thread = object_property_get_str(OBJECT(current_accel()), "thread",
                                     &error_abort);
    return current_machine->smp.max_cpus == 1 || strcmp(thread, "multi");
}

void rnic_fence_init(RnicState *s)
{
    if (processors_leave_barriers_out()) {
        s->global_fence =
            membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
        if (!s->global_fence) {
            warn_report("rnic '%s': this host has no membarrier() (%s), and "
                        "TCG with one processor needs it: RDMA may hang. "
                        "Use -smp 2 and -accel tcg,thread=multi",
                        s->name, strerror(errno));
        }
    }
    trace_rnic_fence(s->name, s->global_fence);
}

void rnic_fence(void *opaque)
{
    RnicState *s = opaque;

    smp_mb();
    if (s->global_fence) {
        membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    }
}
