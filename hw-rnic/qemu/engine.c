/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The engine: an IOThread that watches the core's one descriptor, and under
 * KVM the doorbell pages' ioeventfds
 *
 * Behind a virtual IOMMU it is the main loop instead. A translation that fails
 * makes QEMU's IOMMUs interrupt the guest or write to a virtqueue at once,
 * which needs the BQL, and an engine of its own must never take that. It also
 * makes the guest's invalidations exact: they are served under the BQL, too, so
 * when one is complete no access by an older translation is under way.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/thread.h"
#include "block/aio.h"
#include "rnic-pci.h"
#include "hw/pci/pci.h"
#include "trace.h"

/* Engine thread. The descriptor stays readable while work is left. */
static void core_ready(void *opaque)
{
    RnicState *s = opaque;

    rnic_device_run(s->core);
}

/* Engine thread */
static void page_kicked(void *opaque)
{
    RnicDoorbellPage *page = opaque;
    unsigned number = page - page->s->pages;

    if (event_notifier_test_and_clear(&page->notifier)) {
        trace_rnic_db_eventfd(page->s->name, number);
        rnic_device_kick(page->s->core,
                         number * RNIC_DB_PAGE_SIZE + RNIC_DB_KICK, 4);
    }
}

static void watch_core(RnicState *s, bool on)
{
    if (!s->ctx) {
        return;
    }
    rnic_aio_set_fd_handler(s->ctx, rnic_device_fd(s->core),
                            on ? core_ready : NULL, on ? s : NULL);
}

static void watch_pages(RnicState *s, bool on)
{
    for (unsigned i = 0; s->ctx && s->pages && i < RNIC_IOEVENTFDS; i++) {
        RnicDoorbellPage *page = &s->pages[i];

        rnic_aio_set_fd_handler(s->ctx, event_notifier_get_fd(&page->notifier),
                                on ? page_kicked : NULL, on ? page : NULL);
    }
}

/* The functions below run in the engine's thread, or in its stead */

static void engine_quiesce(void *opaque)
{
    RnicState *s = opaque;

    trace_rnic_engine(s->name, "quiesce");
    /* A quiesced core leaves its descriptor readable */
    watch_core(s, false);
    rnic_device_quiesce(s->core);
}

static void engine_resume(void *opaque)
{
    RnicState *s = opaque;

    trace_rnic_engine(s->name, "resume");
    rnic_device_resume(s->core);
    watch_core(s, true);
}

static void engine_reset(void *opaque)
{
    RnicState *s = opaque;

    trace_rnic_engine(s->name, "reset");
    rnic_device_reset(s->core);
}

static void engine_stop(void *opaque)
{
    RnicState *s = opaque;

    trace_rnic_engine(s->name, "stop");
    watch_core(s, false);
    watch_pages(s, false);
    /* Closes the sockets now; finalization may be some time off */
    rnic_device_reset(s->core);
}

struct call {
    QEMUBHFunc *fn;
    void *opaque;
    QemuEvent done;
};

static void run_call(void *opaque)
{
    struct call *call = opaque;

    call->fn(call->opaque);
    qemu_event_set(&call->done);
}

/*
 * aio_wait_bh_oneshot() would run the main loop's AioContext meanwhile. On a
 * vCPU thread, which resets a function, that can take a wake-up from the main
 * loop that was to tell it of an earlier timer: with the timers of the guest's
 * processors unserved the guest stands still until something else happens.
 */
void rnic_engine_call(RnicState *s, QEMUBHFunc *fn, void *opaque)
{
    struct call call = { .fn = fn, .opaque = opaque };

    if (s->in_main_loop || !s->ctx) {
        /* Who has the BQL may do what the main loop does; and before the
         * machine is complete there is no engine */
        fn(opaque);
        return;
    }
    qemu_event_init(&call.done, false);
    aio_bh_schedule_oneshot(s->ctx, run_call, &call);
    qemu_event_wait(&call.done);
    qemu_event_destroy(&call.done);
}

static void vm_state_changed(void *opaque, bool running, RunState state)
{
    RnicState *s = opaque;

    if (s->quiesced == !running) {
        return;
    }
    s->quiesced = !running;
    rnic_engine_call(s, running ? engine_resume : engine_quiesce, s);
}

static void release_engine(RnicState *s)
{
    if (s->own_engine) {
        iothread_destroy(s->engine);
    } else {
        object_unref(OBJECT(s->engine));
    }
    s->engine = NULL;
}

/*
 * The machine is complete, so it is known what translates the device's
 * addresses; for a device that is plugged in later it is so at once. Nothing
 * runs the engine before this.
 */
static void machine_done(Notifier *notifier, void *data)
{
    RnicState *s = container_of(notifier, RnicState, machine_done);

    s->in_main_loop =
        pci_device_iommu_address_space(PCI_DEVICE(s)) != &address_space_memory;
#ifdef CONFIG_FUZZ
    /* The generic fuzzer fills memory when it is read, and only the main
     * loop's thread may make it do that */
    s->in_main_loop = true;
#endif
    if (s->in_main_loop) {
        if (!s->own_engine) {
            warn_report("rnic '%s': behind a virtual IOMMU the device works "
                        "in the main loop, not in its iothread",
                        s->name);
        }
        trace_rnic_engine(s->name, "in the main loop");
        release_engine(s);
        s->ctx = qemu_get_aio_context();
    } else {
        s->ctx = iothread_get_aio_context(s->engine);
    }

    /* Nothing runs the engine yet, so this is the place of its thread */
    s->quiesced = !runstate_is_running();
    if (s->quiesced) {
        rnic_device_quiesce(s->core);
    } else {
        watch_core(s, true);
    }
    watch_pages(s, true);
    s->vm_state = qemu_add_vm_change_state_handler(vm_state_changed, s);
}

bool rnic_engine_start(RnicState *s, Error **errp)
{
    if (s->iothread) {
        s->engine = s->iothread;
        object_ref(OBJECT(s->engine));
    } else {
        g_autofree char *id = g_strdup_printf("rnic-%s", s->name);

        s->engine = iothread_create(id, errp);
        if (!s->engine) {
            return false;
        }
        s->own_engine = true;
    }
    s->machine_done.notify = machine_done;
    qemu_add_machine_init_done_notifier(&s->machine_done);
    return true;
}

void rnic_engine_stop(RnicState *s)
{
    qemu_remove_machine_init_done_notifier(&s->machine_done);
    if (s->vm_state) {
        qemu_del_vm_change_state_handler(s->vm_state);
    }
    rnic_engine_call(s, engine_stop, s);
    if (s->engine) {
        release_engine(s);
    }
    s->ctx = NULL;
}

void rnic_engine_reset(RnicState *s)
{
    rnic_engine_call(s, engine_reset, s);
}
