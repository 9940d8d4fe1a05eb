/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's driver: registers, admin queue, event queues, contexts, regions
 */
#include <string.h>
#include "harness.h"

/* ---- Registers ---- */

uint32_t th_reg(struct th_guest *guest, unsigned offset)
{
    return rnic_device_reg_read(guest->dev, offset, 4);
}

void th_reg_set(struct th_guest *guest, unsigned offset, uint32_t value)
{
    rnic_device_reg_write(guest->dev, offset, value, 4);
}

static void forget_driver(struct th_guest *guest)
{
    guest->asq_pi = 0;
    guest->acq_ci = 0;
    g_hash_table_remove_all(guest->completions);
    g_queue_clear_full(&guest->events, g_free);
    memset(guest->dbmap, 0, sizeof(guest->dbmap));
}

void th_reset(struct th_guest *guest)
{
    th_reg_set(guest, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    th_wait(!(th_reg(guest, RNIC_REG_STATUS) & RNIC_STATUS_RESETTING));
    forget_driver(guest);
}

void th_enable(struct th_guest *guest, uint32_t depth)
{
    forget_driver(guest);
    guest->admin_depth = depth;
    guest->asq = th_alloc(guest, depth * sizeof(struct rnic_asqe), TH_PAGE);
    guest->acq = th_alloc(guest, depth * sizeof(struct rnic_acqe), TH_PAGE);
    th_reg_set(guest, RNIC_REG_ASQ_LO, (uint32_t)guest->asq);
    th_reg_set(guest, RNIC_REG_ASQ_HI, guest->asq >> 32);
    th_reg_set(guest, RNIC_REG_ACQ_LO, (uint32_t)guest->acq);
    th_reg_set(guest, RNIC_REG_ACQ_HI, guest->acq >> 32);
    th_reg_set(guest, RNIC_REG_ADMIN_DEPTH, depth);
    th_reg_set(guest, RNIC_REG_CTRL, RNIC_CTRL_ENABLE);
    th_wait(th_reg(guest, RNIC_REG_STATUS) == RNIC_STATUS_READY);
}

void th_start(struct th_guest *guest)
{
    th_enable(guest, 32);
    th_uctx_new(guest, 0);
    th_eq_new(guest, &guest->aeq, RNIC_AEQN, 0, 256);
    th_eq_new(guest, &guest->ceq, 1, 1, 256);
}

uint64_t th_stat(struct th_guest *guest, enum rnic_stat stat)
{
    return rnic_device_stat(guest->dev, stat);
}

/* ---- Admin queue ---- */

/* The last word of an entry, which its phase is in */
static bool has_phase(const void *entry, size_t size, uint32_t index,
                      uint32_t depth)
{
    uint32_t last =
        __atomic_load_n((const uint32_t *)((const uint8_t *)entry + size - 4),
                        __ATOMIC_ACQUIRE);

    return (GUINT32_FROM_LE(last) >> 24 & 1) != ((index / depth) & 1);
}

uint16_t th_admin_submit(struct th_guest *guest, const struct rnic_asqe *cmd)
{
    struct rnic_asqe *slot = (struct rnic_asqe *)th_ptr(guest, guest->asq) +
                             guest->asq_pi % guest->admin_depth;
    uint16_t cookie = guest->next_cookie++;

    *slot = *cmd;
    slot->cookie = GUINT16_TO_LE(cookie);
    guest->asq_pi++;
    th_reg_set(guest, RNIC_REG_ASQ_DB, guest->asq_pi);
    return cookie;
}

static void read_completions(struct th_guest *guest)
{
    for (;;) {
        struct rnic_acqe *acqe = (struct rnic_acqe *)th_ptr(guest, guest->acq) +
                                 guest->acq_ci % guest->admin_depth;

        if (!has_phase(acqe, sizeof(*acqe), guest->acq_ci,
                       guest->admin_depth)) {
            return;
        }
        guest->acq_ci++;
        g_hash_table_insert(guest->completions,
                            GUINT_TO_POINTER(GUINT16_FROM_LE(acqe->cookie)),
                            g_memdup2(acqe, sizeof(*acqe)));
    }
}

bool th_admin_done(struct th_guest *guest, uint16_t cookie,
                   struct rnic_acqe *resp)
{
    struct rnic_acqe *acqe;

    read_completions(guest);
    acqe = g_hash_table_lookup(guest->completions, GUINT_TO_POINTER(cookie));
    if (!acqe) {
        return false;
    }
    *resp = *acqe;
    g_hash_table_remove(guest->completions, GUINT_TO_POINTER(cookie));
    return true;
}

unsigned th_admin(struct th_guest *guest, const struct rnic_asqe *cmd,
                  struct rnic_acqe *resp)
{
    uint16_t cookie = th_admin_submit(guest, cmd);
    struct rnic_acqe ours;

    resp = resp ? resp : &ours;
    th_wait(th_admin_done(guest, cookie, resp));
    return GUINT16_FROM_LE(resp->status);
}

unsigned th_admin_id(struct th_guest *guest, enum rnic_admin_opcode opcode,
                     uint32_t id)
{
    struct rnic_asqe cmd = { .opcode = opcode, .id.id = GUINT32_TO_LE(id) };

    return th_admin(guest, &cmd, NULL);
}

void th_uctx_new(struct th_guest *guest, uint32_t uctx)
{
    uint64_t dbmap = th_alloc(guest, RNIC_DBMAP_SIZE, RNIC_DBMAP_SIZE);
    struct rnic_asqe cmd = {
        .opcode = RNIC_CMD_CREATE_UCTX,
        .uctx = { .uctx = GUINT32_TO_LE(uctx), .dbmap = GUINT64_TO_LE(dbmap) },
    };

    g_assert_cmpuint(th_admin(guest, &cmd, NULL), ==, RNIC_ADMIN_OK);
    guest->dbmap[uctx] = dbmap;
}

/* ---- Event queues ---- */

static size_t eq_entry_size(const struct th_eq *eq)
{
    return eq->eqn == RNIC_AEQN ? sizeof(struct rnic_aeqe)
                                : sizeof(struct rnic_ceqe);
}

void th_eq_new(struct th_guest *guest, struct th_eq *eq, uint32_t eqn,
               uint32_t vector, uint32_t depth)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_CREATE_EQ };
    size_t entries;

    *eq = (struct th_eq){ guest, eqn, vector, depth, 0, 0 };
    entries = MAX(64, depth * eq_entry_size(eq));
    eq->addr = th_alloc(guest, entries + sizeof(struct rnic_eq_dbrec), 64);
    cmd.create_eq.eqn = GUINT32_TO_LE(eqn);
    cmd.create_eq.vector = GUINT32_TO_LE(vector);
    cmd.create_eq.depth = GUINT32_TO_LE(depth);
    cmd.create_eq.dbrec_offset = GUINT32_TO_LE(entries);
    cmd.create_eq.buf.addr = GUINT64_TO_LE(eq->addr);
    cmd.create_eq.buf.length =
        GUINT64_TO_LE(entries + sizeof(struct rnic_eq_dbrec));
    g_assert_cmpuint(th_admin(guest, &cmd, NULL), ==, RNIC_ADMIN_OK);
}

static struct rnic_eq_dbrec *eq_dbrec(struct th_eq *eq)
{
    size_t entries = MAX(64, eq->depth * eq_entry_size(eq));

    return th_ptr(eq->guest, eq->addr + entries);
}

/* Copies the next entry and publishes ci behind it */
static bool eq_poll(struct th_eq *eq, void *out)
{
    size_t size = eq_entry_size(eq);
    uint8_t *entry =
        (uint8_t *)th_ptr(eq->guest, eq->addr) + eq->ci % eq->depth * size;

    if (!has_phase(entry, size, eq->ci, eq->depth)) {
        return false;
    }
    memcpy(out, entry, size);
    eq->ci++;
    __atomic_store_n(&eq_dbrec(eq)->ci, GUINT32_TO_LE(eq->ci),
                     __ATOMIC_RELEASE);
    return true;
}

uint32_t th_ceq_poll(struct th_eq *eq)
{
    struct rnic_ceqe ceqe;

    return eq_poll(eq, &ceqe) ? GUINT32_FROM_LE(ceqe.cqn) : 0;
}

bool th_aeq_poll(struct th_guest *guest, struct rnic_aeqe *event)
{
    return eq_poll(&guest->aeq, event);
}

void th_eq_arm(struct th_eq *eq)
{
    __atomic_store_n(&eq_dbrec(eq)->arm, GUINT32_TO_LE(eq->ci),
                     __ATOMIC_SEQ_CST);
}

static void read_events(struct th_guest *guest)
{
    struct rnic_aeqe event;

    while (th_aeq_poll(guest, &event)) {
        g_queue_push_tail(&guest->events, g_memdup2(&event, sizeof(event)));
    }
    th_eq_arm(&guest->aeq);
}

bool th_event_take(struct th_guest *guest, enum rnic_event_type type,
                   uint32_t id, struct rnic_aeqe *event)
{
    GList *link;

    read_events(guest);
    for (link = guest->events.head; link; link = link->next) {
        struct rnic_aeqe *have = link->data;

        if (GUINT16_FROM_LE(have->type) == type &&
            (id == TH_ANY_ID || GUINT32_FROM_LE(have->id) == id)) {
            if (event) {
                *event = *have;
            }
            g_free(have);
            g_queue_delete_link(&guest->events, link);
            return true;
        }
    }
    return false;
}

void th_event_wait(struct th_guest *guest, enum rnic_event_type type,
                   uint32_t id, struct rnic_aeqe *event)
{
    th_wait(th_event_take(guest, type, id, event));
}

unsigned th_events(struct th_guest *guest)
{
    read_events(guest);
    return guest->events.length;
}

/* ---- Memory regions ---- */

struct rnic_sge th_sge(uint32_t stag, uint64_t to, uint32_t len)
{
    return (struct rnic_sge){
        .addr = GUINT64_TO_LE(to),
        .length = GUINT32_TO_LE(len),
        .lkey = GUINT32_TO_LE(stag),
    };
}

uint32_t th_reg_mr(struct th_guest *guest, const struct th_buf *buf,
                   uint64_t iova, uint32_t access)
{
    static uint8_t key;
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_REG_MR };
    struct rnic_acqe resp;

    cmd.reg_mr.pdn = GUINT32_TO_LE(TH_PD);
    cmd.reg_mr.access = GUINT32_TO_LE(access);
    cmd.reg_mr.key = ++key;
    cmd.reg_mr.iova = GUINT64_TO_LE(iova);
    cmd.reg_mr.buf = buf->desc;
    g_assert_cmpuint(th_admin(guest, &cmd, &resp), ==, RNIC_ADMIN_OK);
    g_assert_cmpuint(GUINT32_FROM_LE(resp.mr.stag) & 0xff, ==, key);
    return GUINT32_FROM_LE(resp.mr.stag);
}

void th_dereg_mr(struct th_guest *guest, uint32_t stag)
{
    struct rnic_asqe cmd = {
        .opcode = RNIC_CMD_DEREG_MR,
        .dereg_mr.stag = GUINT32_TO_LE(stag),
    };

    g_assert_cmpuint(th_admin(guest, &cmd, NULL), ==, RNIC_ADMIN_OK);
}
