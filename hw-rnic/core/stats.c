/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counters and trace texts
 */
#include <stdarg.h>
#include <stdio.h>
#include "device.h"
#include "qp.h"

uint64_t rnic_device_stat(rnic_device *dev, enum rnic_stat stat)
{
    return atomic_load_explicit(&dev->stats[stat], memory_order_relaxed);
}

void rnic_device_qp_stats(rnic_device *dev,
                          void (*each)(void *opaque, uint32_t qpn,
                                       const uint64_t *counters),
                          void *opaque)
{
    uint32_t qpn;

    for (qpn = 0; qpn < RNIC_MAX_QP; qpn++) {
        if (dev->qps[qpn]) {
            each(opaque, qpn, dev->qps[qpn]->stats);
        }
    }
}

void rnic_device_cq_stats(rnic_device *dev,
                          void (*each)(void *opaque, uint32_t cqn,
                                       const struct rnic_cq_counters *counters),
                          void *opaque)
{
    uint32_t cqn;

    for (cqn = 0; cqn < RNIC_MAX_CQ; cqn++) {
        if (dev->cqs[cqn]) {
            each(opaque, cqn, &dev->cqs[cqn]->counters);
        }
    }
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
