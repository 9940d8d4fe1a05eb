/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Included in front of the device's sources in the loadable form: makes
 * type_init() work both before QEMU has set up its types (preloaded) and
 * after (as a plugin).
 */
#ifndef RNIC_LOADABLE_MODULE_H
#define RNIC_LOADABLE_MODULE_H

#include "qemu/osdep.h"
#include "qemu/module.h"
#include "qom/object.h"

#undef module_init
#define module_init(function, type)                                            \
    static void __attribute__((constructor)) do_qemu_init_##function(void)     \
    {                                                                          \
        if (object_class_by_name(TYPE_OBJECT)) {                               \
            function();                                                        \
        } else {                                                               \
            register_module_init(function, type);                              \
        }                                                                      \
    }

#endif
