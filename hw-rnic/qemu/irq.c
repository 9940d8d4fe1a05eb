/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts: from the engine to the guest without the BQL
 *
 * msix_notify() needs the BQL, so the engine only sets the vector's event
 * notifier. Where KVM has an irqchip, an unmasked vector's notifier is an
 * irqfd; else, and while the vector is masked, a main loop handler reads it.
 * The same notifier serves both, so a change between them loses nothing.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/main-loop.h"
#include "rnic-pci.h"
#include "hw/pci/msi.h"
#include "hw/pci/msix.h"
#include "trace.h"

void rnic_irq_raise(RnicState *s, unsigned vector)
{
    event_notifier_set(&s->vectors[vector].notifier);
}

/* Main loop */
static void notify(EventNotifier *e)
{
    RnicVector *v = container_of(e, RnicVector, notifier);
    PCIDevice *pdev = PCI_DEVICE(v->s);
    unsigned vector = v - v->s->vectors;

    if (event_notifier_test_and_clear(e)) {
        trace_rnic_irq_notify(v->s->name, vector, msix_enabled(pdev));
        if (msix_enabled(pdev)) {
            msix_notify(pdev, vector);
        }
    }
}

static void irqfd_remove(RnicVector *v)
{
    if (v->virq < 0) {
        return;
    }
    kvm_irqchip_remove_irqfd_notifier_gsi(kvm_state, &v->notifier, v->virq);
    kvm_irqchip_release_virq(kvm_state, v->virq);
    v->virq = -1;
    trace_rnic_irqfd(v->s->name, v - v->s->vectors, v->virq);
    event_notifier_set_handler(&v->notifier, notify);
}

/* The guest unmasked the vector. MSI-X cannot cope with a failure here. */
static int vector_use(PCIDevice *pdev, unsigned vector, MSIMessage msg)
{
    RnicVector *v = &RNIC(pdev)->vectors[vector];
    KVMRouteChange change = kvm_irqchip_begin_route_changes(kvm_state);

    irqfd_remove(v);
    v->virq = kvm_irqchip_add_msi_route(&change, vector, pdev);
    if (v->virq < 0) {
        return 0; /* no route is left: the main loop goes on serving */
    }
    kvm_irqchip_commit_route_changes(&change);
    event_notifier_set_handler(&v->notifier, NULL);
    if (kvm_irqchip_add_irqfd_notifier_gsi(kvm_state, &v->notifier, NULL,
                                           v->virq) < 0) {
        kvm_irqchip_release_virq(kvm_state, v->virq);
        v->virq = -1;
        event_notifier_set_handler(&v->notifier, notify);
    }
    trace_rnic_irqfd(v->s->name, vector, v->virq);
    return 0;
}

static void vector_release(PCIDevice *pdev, unsigned vector)
{
    irqfd_remove(&RNIC(pdev)->vectors[vector]);
}

bool rnic_irq_init(RnicState *s, Error **errp)
{
    PCIDevice *pdev = PCI_DEVICE(s);
    unsigned count = s->config.vectors;
    unsigned i;
    int ret;

    if (msix_init_exclusive_bar(pdev, count, RNIC_BAR_MSIX, errp) < 0) {
        return false;
    }
    s->vectors = g_new0(RnicVector, count);
    for (i = 0; i < count; i++) {
        RnicVector *v = &s->vectors[i];

        ret = event_notifier_init(&v->notifier, 0);
        if (ret < 0) {
            error_setg_errno(errp, -ret, "no eventfd for vector %u", i);
            goto undo;
        }
        v->s = s;
        v->virq = -1;
        event_notifier_set_handler(&v->notifier, notify);
        msix_vector_use(pdev, i);
    }
    if (kvm_msi_via_irqfd_enabled()) {
        ret = msix_set_vector_notifiers(pdev, vector_use, vector_release, NULL);
        if (ret < 0) {
            error_setg_errno(errp, -ret, "no MSI-X notifiers");
            goto undo;
        }
    }
    return true;

undo:
    while (i-- > 0) {
        event_notifier_set_handler(&s->vectors[i].notifier, NULL);
        event_notifier_cleanup(&s->vectors[i].notifier);
    }
    g_clear_pointer(&s->vectors, g_free);
    msix_uninit_exclusive_bar(pdev);
    return false;
}

void rnic_irq_reset(RnicState *s)
{
    for (unsigned i = 0; i < s->config.vectors; i++) {
        irqfd_remove(&s->vectors[i]);
        event_notifier_test_and_clear(&s->vectors[i].notifier);
    }
}

/* The engine has stopped */
void rnic_irq_fini(RnicState *s)
{
    PCIDevice *pdev = PCI_DEVICE(s);

    rnic_irq_reset(s);
    if (kvm_msi_via_irqfd_enabled()) {
        msix_unset_vector_notifiers(pdev);
    }
    for (unsigned i = 0; i < s->config.vectors; i++) {
        event_notifier_set_handler(&s->vectors[i].notifier, NULL);
        event_notifier_cleanup(&s->vectors[i].notifier);
    }
    g_clear_pointer(&s->vectors, g_free);
    msix_uninit_exclusive_bar(pdev);
}
