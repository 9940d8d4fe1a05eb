/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The one place for differences between QEMU 7.2 and 10.2
 *
 * It is included after "qemu/osdep.h" and in place of the headers that moved.
 */
#ifndef HW_RNIC_QCOMPAT_H
#define HW_RNIC_QCOMPAT_H

#define RNIC_QEMU_AT_LEAST(major, minor)                                       \
    (QEMU_VERSION_MAJOR > (major) ||                                           \
     (QEMU_VERSION_MAJOR == (major) && QEMU_VERSION_MINOR >= (minor)))

/* 8.0 split PCIDevice out of pci.h */
#if RNIC_QEMU_AT_LEAST(8, 0)
#include "hw/pci/pci_device.h"
#else
#include "hw/pci/pci.h"
#endif

/* 10.0 renamed sysemu to system, 10.1 moved memory.h there as well */
#if RNIC_QEMU_AT_LEAST(10, 0)
#include "system/iothread.h"
#include "system/kvm.h"
#include "system/runstate.h"
#include "system/system.h"
#include "system/tcg.h"
#else
#include "sysemu/iothread.h"
#include "sysemu/kvm.h"
#include "sysemu/runstate.h"
#include "sysemu/sysemu.h"
#include "sysemu/tcg.h"
#endif
#if RNIC_QEMU_AT_LEAST(10, 1)
#include "system/memory.h"
#else
#include "exec/memory.h"
#endif

/* 10.2 can call MMIO handlers without the big lock */
#if RNIC_QEMU_AT_LEAST(10, 2)
#define rnic_memory_region_lockless(mr) memory_region_enable_lockless_io(mr)
#else
#define rnic_memory_region_lockless(mr)                                        \
    do {                                                                       \
    } while (0)
#endif

/* 10.0 lets a debugger write to more kinds of memory */
#if RNIC_QEMU_AT_LEAST(10, 0)
#define rnic_memory_access_is_direct(mr, is_write, attrs)                      \
    memory_access_is_direct(mr, is_write, attrs)
#else
#define rnic_memory_access_is_direct(mr, is_write, attrs)                      \
    memory_access_is_direct(mr, is_write)
#endif

/* 9.0 takes KVM's ioeventfds for granted */
#if RNIC_QEMU_AT_LEAST(9, 0)
#define rnic_ioeventfd_possible() kvm_enabled()
#else
#define rnic_ioeventfd_possible() kvm_eventfds_enabled()
#endif

/* 8.1 dropped the argument is_external */
#if RNIC_QEMU_AT_LEAST(8, 1)
#define rnic_aio_set_fd_handler(ctx, fd, read, opaque)                         \
    aio_set_fd_handler(ctx, fd, read, NULL, NULL, NULL, opaque)
#else
#define rnic_aio_set_fd_handler(ctx, fd, read, opaque)                         \
    aio_set_fd_handler(ctx, fd, true, read, NULL, NULL, NULL, opaque)
#endif

/* 9.2 has a setter for the plain reset hook */
#if !RNIC_QEMU_AT_LEAST(9, 2)
#define device_class_set_legacy_reset(dc, fn) ((dc)->reset = (fn))
#endif

/* 10.0 counts the properties and has no terminator any more */
#if RNIC_QEMU_AT_LEAST(10, 0)
#define RNIC_PROPERTY const Property
#define RNIC_PROPERTY_END
#else
#define RNIC_PROPERTY     Property
#define RNIC_PROPERTY_END DEFINE_PROP_END_OF_LIST(),
#endif

/* 10.1 made class data and interface lists const */
#if RNIC_QEMU_AT_LEAST(10, 1)
#define RNIC_CLASS_DATA const void
#define RNIC_INTERFACES const InterfaceInfo
#else
#define RNIC_CLASS_DATA void
#define RNIC_INTERFACES InterfaceInfo
#endif

#endif
