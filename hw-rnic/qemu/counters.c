/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The counters of the device, its QPs and its CQs as QOM properties
 *
 * QPs and CQs belong to the engine, which is asked for a copy.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "rnic-pci.h"

typedef struct QpCounters {
    uint32_t qpn;
    uint64_t values[RNIC_STAT_QP_LAST + 1];
} QpCounters;

typedef struct CqCounters {
    uint32_t cqn;
    struct rnic_cq_counters values;
} CqCounters;

typedef struct Copy {
    RnicState *s;
    GArray *objects; /* QpCounters or CqCounters */
} Copy;

/* BQL */
static void get_stats(Object *obj, Visitor *v, const char *name, void *opaque,
                      Error **errp)
{
    RnicState *s = RNIC(obj);

    if (!visit_start_struct(v, name, NULL, 0, errp)) {
        return;
    }
    for (unsigned i = 0; i < RNIC_STAT_COUNT; i++) {
        uint64_t value = rnic_device_stat(s->core, i);

        if (!visit_type_uint64(v, rnic_stat_name(i), &value, errp)) {
            break;
        }
    }
    visit_end_struct(v, NULL);
}

/* The next four: engine thread */

static void add_qp(void *opaque, uint32_t qpn, const uint64_t *counters)
{
    Copy *copy = opaque;
    QpCounters qp = { .qpn = qpn };

    memcpy(qp.values, counters, sizeof(qp.values));
    g_array_append_val(copy->objects, qp);
}

static void copy_qps(void *opaque)
{
    Copy *copy = opaque;

    rnic_device_qp_stats(copy->s->core, add_qp, copy);
}

static void add_cq(void *opaque, uint32_t cqn,
                   const struct rnic_cq_counters *counters)
{
    Copy *copy = opaque;
    CqCounters cq = { .cqn = cqn, .values = *counters };

    g_array_append_val(copy->objects, cq);
}

static void copy_cqs(void *opaque)
{
    Copy *copy = opaque;

    rnic_device_cq_stats(copy->s->core, add_cq, copy);
}

/* A structure named by the object's number; false: *errp is set */
static bool start_object(Visitor *v, uint32_t number, Error **errp)
{
    g_autofree char *name = g_strdup_printf("%u", number);

    return visit_start_struct(v, name, NULL, 0, errp);
}

/* BQL */
static void get_qp_stats(Object *obj, Visitor *v, const char *name,
                         void *opaque, Error **errp)
{
    g_autoptr(GArray) objects = g_array_new(false, false, sizeof(QpCounters));
    RnicState *s = RNIC(obj);
    Copy copy = { s, objects };
    bool ok = true;

    rnic_engine_call(s, copy_qps, &copy);
    if (!visit_start_struct(v, name, NULL, 0, errp)) {
        return;
    }
    for (unsigned i = 0; i < objects->len && ok; i++) {
        QpCounters *qp = &g_array_index(objects, QpCounters, i);

        if (!start_object(v, qp->qpn, errp)) {
            break;
        }
        for (unsigned k = 0; k <= RNIC_STAT_QP_LAST && ok; k++) {
            if (k != RNIC_STAT_kicks) {
                ok = visit_type_uint64(v, rnic_stat_name(k), &qp->values[k],
                                       errp);
            }
        }
        visit_end_struct(v, NULL);
    }
    visit_end_struct(v, NULL);
}

/* BQL */
static void get_cq_stats(Object *obj, Visitor *v, const char *name,
                         void *opaque, Error **errp)
{
    g_autoptr(GArray) objects = g_array_new(false, false, sizeof(CqCounters));
    RnicState *s = RNIC(obj);
    Copy copy = { s, objects };
    bool ok = true;

    rnic_engine_call(s, copy_cqs, &copy);
    if (!visit_start_struct(v, name, NULL, 0, errp)) {
        return;
    }
    for (unsigned i = 0; i < objects->len && ok; i++) {
        CqCounters *cq = &g_array_index(objects, CqCounters, i);

        if (!start_object(v, cq->cqn, errp)) {
            break;
        }
#define VISIT(counter)                                                         \
    ok = ok && visit_type_uint64(v, rnic_stat_name(RNIC_STAT_##counter),       \
                                 &cq->values.counter, errp);
        RNIC_CQ_STATS(VISIT)
#undef VISIT
        visit_end_struct(v, NULL);
    }
    visit_end_struct(v, NULL);
}

static void add(RnicState *s, const char *name, ObjectPropertyAccessor *get,
                const char *description)
{
    object_property_add(OBJECT(s), name, "struct", get, NULL, NULL, NULL);
    object_property_set_description(OBJECT(s), name, description);
}

void rnic_counters_init(RnicState *s)
{
    add(s, "stats", get_stats, "counters since the last reset");
    add(s, "qp-stats", get_qp_stats, "counters of each queue pair, by its QPN");
    add(s, "cq-stats", get_cq_stats,
        "counters of each completion queue, by its CQN");
}
