/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counters and trace texts
 */
#include <stdarg.h>
#include <stdio.h>
#include "device.h"

uint64_t rnic_device_stat(rnic_device *dev, enum rnic_stat stat)
{
    return atomic_load_explicit(&dev->stats[stat], memory_order_relaxed);
}

const char *rnic_stat_name(enum rnic_stat stat)
{
    static const char *const names[RNIC_STAT_COUNT] = {
#define STAT_NAME(name, description) [RNIC_STAT_##name] = #name,
        RNIC_STATS(STAT_NAME)
#undef STAT_NAME
    };

    return names[stat];
}

const char *rnic_stat_description(enum rnic_stat stat)
{
    static const char *const descriptions[RNIC_STAT_COUNT] = {
#define STAT_DESCRIPTION(name, description) [RNIC_STAT_##name] = description,
        RNIC_STATS(STAT_DESCRIPTION)
#undef STAT_DESCRIPTION
    };

    return descriptions[stat];
}

void rnic_trace_text(struct rnic_device *dev, enum rnic_trace_event event,
                     const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    dev->ops->trace(dev->opaque, event, text);
}
