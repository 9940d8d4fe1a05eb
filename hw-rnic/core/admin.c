/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The admin queue
 */
#include <string.h>
#include "cm.h"
#include "device.h"
#include "mr.h"
#include "netq.h"
#include "qp.h"

/* Commands of one turn: others work between them */
#define MAX_COMMANDS 64

struct rnic_admin {
    uint64_t asq, acq; /* DMA addresses, taken over at enable */
    uint32_t depth;
    uint32_t ci; /* of the ASQ, free-running */
    uint32_t pi; /* of the ACQ, free-running */

    /* Fault injection */
    atomic_uint delay_ms;
    struct rnic_timer delay;
    uint32_t held_ms; /* the delay that is waited for */
    bool delayed;     /* what waits has waited long enough */
};

/* ---- Commands ---- */

static enum rnic_admin_status cmd_nop(struct rnic_device *dev,
                                      const struct rnic_asqe *cmd,
                                      struct rnic_acqe *resp)
{
    return RNIC_ADMIN_OK;
}

static enum rnic_admin_status cmd_create_uctx(struct rnic_device *dev,
                                              const struct rnic_asqe *cmd,
                                              struct rnic_acqe *resp)
{
    return rnic_uctx_create(dev, &cmd->uctx);
}

static enum rnic_admin_status cmd_destroy_uctx(struct rnic_device *dev,
                                               const struct rnic_asqe *cmd,
                                               struct rnic_acqe *resp)
{
    if (cmd->uctx.rsvd || cmd->uctx.dbmap) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    return rnic_uctx_destroy(dev, GUINT32_FROM_LE(cmd->uctx.uctx));
}

static enum rnic_admin_status cmd_create_eq(struct rnic_device *dev,
                                            const struct rnic_asqe *cmd,
                                            struct rnic_acqe *resp)
{
    return rnic_eq_create(dev, &cmd->create_eq);
}

static enum rnic_admin_status cmd_destroy_eq(struct rnic_device *dev,
                                             const struct rnic_asqe *cmd,
                                             struct rnic_acqe *resp)
{
    return rnic_eq_destroy(dev, GUINT32_FROM_LE(cmd->id.id));
}

static enum rnic_admin_status cmd_create_cq(struct rnic_device *dev,
                                            const struct rnic_asqe *cmd,
                                            struct rnic_acqe *resp)
{
    return rnic_cq_create(dev, &cmd->create_cq);
}

static enum rnic_admin_status cmd_modify_cq(struct rnic_device *dev,
                                            const struct rnic_asqe *cmd,
                                            struct rnic_acqe *resp)
{
    return rnic_cq_modify(dev, &cmd->modify_cq);
}

static enum rnic_admin_status cmd_destroy_cq(struct rnic_device *dev,
                                             const struct rnic_asqe *cmd,
                                             struct rnic_acqe *resp)
{
    return rnic_cq_destroy(dev, GUINT32_FROM_LE(cmd->id.id));
}

static enum rnic_admin_status cmd_create_srq(struct rnic_device *dev,
                                             const struct rnic_asqe *cmd,
                                             struct rnic_acqe *resp)
{
    return rnic_srq_create(dev, &cmd->create_srq);
}

static enum rnic_admin_status cmd_modify_srq(struct rnic_device *dev,
                                             const struct rnic_asqe *cmd,
                                             struct rnic_acqe *resp)
{
    return rnic_srq_modify(dev, &cmd->modify_srq);
}

static enum rnic_admin_status cmd_query_srq(struct rnic_device *dev,
                                            const struct rnic_asqe *cmd,
                                            struct rnic_acqe *resp)
{
    return rnic_srq_query(dev, GUINT32_FROM_LE(cmd->id.id), &resp->query_srq);
}

static enum rnic_admin_status cmd_destroy_srq(struct rnic_device *dev,
                                              const struct rnic_asqe *cmd,
                                              struct rnic_acqe *resp)
{
    return rnic_srq_destroy(dev, GUINT32_FROM_LE(cmd->id.id));
}

static enum rnic_admin_status cmd_create_qp(struct rnic_device *dev,
                                            const struct rnic_asqe *cmd,
                                            struct rnic_acqe *resp)
{
    if (cmd->create_qp.rsvd) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    return rnic_qp_create(dev, &cmd->create_qp);
}

static enum rnic_admin_status cmd_modify_qp(struct rnic_device *dev,
                                            const struct rnic_asqe *cmd,
                                            struct rnic_acqe *resp)
{
    return rnic_qp_modify(dev, &cmd->modify_qp);
}

static enum rnic_admin_status cmd_query_qp(struct rnic_device *dev,
                                           const struct rnic_asqe *cmd,
                                           struct rnic_acqe *resp)
{
    return rnic_qp_query(dev, GUINT32_FROM_LE(cmd->id.id), &resp->query_qp);
}

static enum rnic_admin_status cmd_destroy_qp(struct rnic_device *dev,
                                             const struct rnic_asqe *cmd,
                                             struct rnic_acqe *resp)
{
    return rnic_qp_destroy(dev, GUINT32_FROM_LE(cmd->id.id));
}

static enum rnic_admin_status give_stag(enum rnic_admin_status status,
                                        uint32_t stag, struct rnic_acqe *resp)
{
    if (status == RNIC_ADMIN_OK) {
        resp->mr.stag = GUINT32_TO_LE(stag);
    }
    return status;
}

static enum rnic_admin_status cmd_reg_mr(struct rnic_device *dev,
                                         const struct rnic_asqe *cmd,
                                         struct rnic_acqe *resp)
{
    uint32_t stag = 0;
    enum rnic_admin_status status = rnic_mr_reg(dev, &cmd->reg_mr, &stag);

    return give_stag(status, stag, resp);
}

static enum rnic_admin_status cmd_alloc_mr(struct rnic_device *dev,
                                           const struct rnic_asqe *cmd,
                                           struct rnic_acqe *resp)
{
    uint32_t stag = 0;
    enum rnic_admin_status status = rnic_mr_alloc(dev, &cmd->alloc_mr, &stag);

    return give_stag(status, stag, resp);
}

static enum rnic_admin_status cmd_dereg_mr(struct rnic_device *dev,
                                           const struct rnic_asqe *cmd,
                                           struct rnic_acqe *resp)
{
    return rnic_mr_dereg(dev, GUINT32_FROM_LE(cmd->dereg_mr.stag));
}

static bool is_zero(const void *octets, size_t len)
{
    const uint8_t *p = octets;

    while (len && !*p) {
        p++;
        len--;
    }
    return len == 0;
}

static enum rnic_admin_status cmd_addr_add(struct rnic_device *dev,
                                           const struct rnic_asqe *cmd,
                                           struct rnic_acqe *resp)
{
    if (!is_zero(cmd->addr.rsvd, sizeof(cmd->addr.rsvd))) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    return rnic_cm_addr_add(dev, &cmd->addr);
}

static enum rnic_admin_status cmd_addr_del(struct rnic_device *dev,
                                           const struct rnic_asqe *cmd,
                                           struct rnic_acqe *resp)
{
    if (!is_zero(cmd->addr.rsvd, sizeof(cmd->addr.rsvd))) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    return rnic_cm_addr_del(dev, &cmd->addr);
}

static enum rnic_admin_status cmd_set_link(struct rnic_device *dev,
                                           const struct rnic_asqe *cmd,
                                           struct rnic_acqe *resp)
{
    uint32_t up = GUINT32_FROM_LE(cmd->set_link.up);

    return up > 1 ? RNIC_ADMIN_BAD_PARAM : rnic_cm_set_link(dev, up);
}

static enum rnic_admin_status cmd_listen(struct rnic_device *dev,
                                         const struct rnic_asqe *cmd,
                                         struct rnic_acqe *resp)
{
    if (cmd->listen.rsvd) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    return rnic_cm_listen(dev, &cmd->listen, &resp->listen);
}

static enum rnic_admin_status cmd_unlisten(struct rnic_device *dev,
                                           const struct rnic_asqe *cmd,
                                           struct rnic_acqe *resp)
{
    return rnic_cm_unlisten(dev, GUINT32_FROM_LE(cmd->id.id));
}

static enum rnic_admin_status cmd_connect(struct rnic_device *dev,
                                          const struct rnic_asqe *cmd,
                                          struct rnic_acqe *resp)
{
    if (!is_zero(cmd->connect.rsvd, sizeof(cmd->connect.rsvd))) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    return rnic_cm_connect(dev, &cmd->connect);
}

static enum rnic_admin_status cmd_accept(struct rnic_device *dev,
                                         const struct rnic_asqe *cmd,
                                         struct rnic_acqe *resp)
{
    if (cmd->accept.rsvd) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    return rnic_cm_accept(dev, &cmd->accept);
}

static enum rnic_admin_status cmd_reject(struct rnic_device *dev,
                                         const struct rnic_asqe *cmd,
                                         struct rnic_acqe *resp)
{
    if (cmd->accept.rsvd || cmd->accept.qpn || cmd->accept.ird ||
        cmd->accept.ord) {
        return RNIC_ADMIN_BAD_PARAM;
    }
    return rnic_cm_reject(dev, &cmd->accept);
}

static enum rnic_admin_status cmd_query_stats(struct rnic_device *dev,
                                              const struct rnic_asqe *cmd,
                                              struct rnic_acqe *resp)
{
    uint64_t addr = GUINT64_FROM_LE(cmd->query_stats.addr);
    uint32_t count = GUINT32_FROM_LE(cmd->query_stats.count);
    uint32_t qpn = GUINT32_FROM_LE(cmd->query_stats.qpn);
    struct rnic_qp *qp = qpn ? rnic_qp_find(dev, qpn) : NULL;
    uint64_t values[RNIC_STAT_COUNT];
    uint32_t i;

    if (qpn && !qp) {
        return RNIC_ADMIN_BAD_ID;
    }
    count = MIN(count, qp ? RNIC_STAT_QP_LAST + 1 : RNIC_STAT_COUNT);
    for (i = 0; i < count; i++) {
        values[i] = GUINT64_TO_LE(qp ? qp->stats[i] : rnic_device_stat(dev, i));
    }
    if (addr % sizeof(values[0]) ||
        !rnic_dma_write(dev, addr, values, count * sizeof(values[0]))) {
        return RNIC_ADMIN_BAD_ADDRESS;
    }
    resp->query_stats.count = GUINT32_TO_LE(count);
    return RNIC_ADMIN_OK;
}

static enum rnic_admin_status cmd_query_cq(struct rnic_device *dev,
                                           const struct rnic_asqe *cmd,
                                           struct rnic_acqe *resp)
{
    return rnic_cq_query(dev, GUINT32_FROM_LE(cmd->id.id), &resp->query_cq);
}

static enum rnic_admin_status cmd_create_netq(struct rnic_device *dev,
                                              const struct rnic_asqe *cmd,
                                              struct rnic_acqe *resp)
{
    return rnic_netq_create(dev, &cmd->create_netq);
}

static enum rnic_admin_status cmd_destroy_netq(struct rnic_device *dev,
                                               const struct rnic_asqe *cmd,
                                               struct rnic_acqe *resp)
{
    return rnic_netq_destroy(dev);
}

/* What the trace shows of a command's arguments: the first 32-bit words, in
 * this order, with these names */
#define MAX_SHOWN 5

static const struct command {
    const char *name;
    enum rnic_admin_status (*run)(struct rnic_device *dev,
                                  const struct rnic_asqe *cmd,
                                  struct rnic_acqe *resp);
    const char *shown[MAX_SHOWN];
} commands[] = {
    [RNIC_CMD_NOP] = { "NOP", cmd_nop },
    [RNIC_CMD_CREATE_UCTX] = { "CREATE_UCTX", cmd_create_uctx, { "context" } },
    [RNIC_CMD_DESTROY_UCTX] = { "DESTROY_UCTX",
                                cmd_destroy_uctx,
                                { "context" } },
    [RNIC_CMD_CREATE_EQ] = { "CREATE_EQ",
                             cmd_create_eq,
                             { "EQ", "vector", "depth" } },
    [RNIC_CMD_DESTROY_EQ] = { "DESTROY_EQ", cmd_destroy_eq, { "EQ" } },
    [RNIC_CMD_CREATE_CQ] = { "CREATE_CQ",
                             cmd_create_cq,
                             { "CQ", "EQ", "context", "depth" } },
    [RNIC_CMD_MODIFY_CQ] = { "MODIFY_CQ", cmd_modify_cq, { "CQ" } },
    [RNIC_CMD_QUERY_CQ] = { "QUERY_CQ", cmd_query_cq, { "CQ" } },
    [RNIC_CMD_DESTROY_CQ] = { "DESTROY_CQ", cmd_destroy_cq, { "CQ" } },
    [RNIC_CMD_CREATE_SRQ] = { "CREATE_SRQ",
                              cmd_create_srq,
                              { "SRQ", "PD", "context", "depth", "stride" } },
    [RNIC_CMD_MODIFY_SRQ] = { "MODIFY_SRQ",
                              cmd_modify_srq,
                              { "SRQ", "limit" } },
    [RNIC_CMD_QUERY_SRQ] = { "QUERY_SRQ", cmd_query_srq, { "SRQ" } },
    [RNIC_CMD_DESTROY_SRQ] = { "DESTROY_SRQ", cmd_destroy_srq, { "SRQ" } },
    [RNIC_CMD_CREATE_QP] = { "CREATE_QP",
                             cmd_create_qp,
                             { "QP", "PD", "context", "send CQ",
                               "receive CQ" } },
    [RNIC_CMD_MODIFY_QP] = { "MODIFY_QP", cmd_modify_qp, { "QP", "state" } },
    [RNIC_CMD_QUERY_QP] = { "QUERY_QP", cmd_query_qp, { "QP" } },
    [RNIC_CMD_DESTROY_QP] = { "DESTROY_QP", cmd_destroy_qp, { "QP" } },
    [RNIC_CMD_REG_MR] = { "REG_MR", cmd_reg_mr, { "PD", "rights", "flags" } },
    [RNIC_CMD_ALLOC_MR] = { "ALLOC_MR", cmd_alloc_mr, { "PD", "pages" } },
    [RNIC_CMD_DEREG_MR] = { "DEREG_MR", cmd_dereg_mr, { "STag" } },
    [RNIC_CMD_ADDR_ADD] = { "ADDR_ADD", cmd_addr_add },
    [RNIC_CMD_ADDR_DEL] = { "ADDR_DEL", cmd_addr_del },
    [RNIC_CMD_SET_LINK] = { "SET_LINK", cmd_set_link, { "up" } },
    [RNIC_CMD_LISTEN] = { "LISTEN", cmd_listen, { "listener", "backlog" } },
    [RNIC_CMD_UNLISTEN] = { "UNLISTEN", cmd_unlisten, { "listener" } },
    [RNIC_CMD_CONNECT] = { "CONNECT", cmd_connect, { "QP" } },
    [RNIC_CMD_ACCEPT] = { "ACCEPT", cmd_accept, { "connection", "QP" } },
    [RNIC_CMD_REJECT] = { "REJECT", cmd_reject, { "connection" } },
    [RNIC_CMD_QUERY_STATS] = { "QUERY_STATS", cmd_query_stats },
    [RNIC_CMD_CREATE_NETQ] = { "CREATE_NETQ",
                               cmd_create_netq,
                               { "vector", "transmit depth",
                                 "receive depth" } },
    [RNIC_CMD_DESTROY_NETQ] = { "DESTROY_NETQ", cmd_destroy_netq },
};

const char *rnic_admin_status_name(enum rnic_admin_status status)
{
    static const char *const names[] = {
        [RNIC_ADMIN_OK] = "done",
        [RNIC_ADMIN_BAD_OPCODE] = "there is no such command",
        [RNIC_ADMIN_BAD_PARAM] = "a field is out of its range",
        [RNIC_ADMIN_BAD_ID] = "no such object, or not of this context",
        [RNIC_ADMIN_IN_USE] = "the id is taken, or others refer to it",
        [RNIC_ADMIN_NO_RESOURCES] = "no resources",
        [RNIC_ADMIN_BAD_ADDRESS] = "an address is not RAM, or not aligned",
        [RNIC_ADMIN_BAD_STATE] = "not in this state",
        [RNIC_ADMIN_ADDR_IN_USE] = "the address or port is in use",
        [RNIC_ADMIN_ADDR_NOT_AVAIL] = "not an address of this device",
        [RNIC_ADMIN_REFUSED] = "refused by the host's policy",
        [RNIC_ADMIN_CONN_GONE] = "the peer closed before",
    };

    return (unsigned)status < G_N_ELEMENTS(names) ? names[status] : "unknown";
}

static void trace_command(struct rnic_device *dev,
                          const struct command *command,
                          const struct rnic_asqe *cmd,
                          enum rnic_admin_status status)
{
    char args[160] = "";
    size_t len = 0;
    uint32_t word;
    unsigned i;

    for (i = 0; command && i < MAX_SHOWN && command->shown[i]; i++) {
        memcpy(&word, cmd->raw + i * sizeof(word), sizeof(word));
        len += g_snprintf(
            args + len, sizeof(args) - len,
            cmd->opcode == RNIC_CMD_DEREG_MR ? "%s%s 0x%08x" : "%s%s %u",
            i ? ", " : " ", command->shown[i], GUINT32_FROM_LE(word));
    }
    if (command) {
        rnic_trace_text(dev, RNIC_TRACE_admin, "%s%s: %s", command->name, args,
                        rnic_admin_status_name(status));
    } else {
        rnic_trace_text(dev, RNIC_TRACE_admin, "opcode %u: %s", cmd->opcode,
                        rnic_admin_status_name(status));
    }
}

static void run_command(struct rnic_device *dev, const struct rnic_asqe *cmd,
                        struct rnic_acqe *resp)
{
    const struct command *command =
        cmd->opcode < G_N_ELEMENTS(commands) ? &commands[cmd->opcode] : NULL;
    enum rnic_admin_status status;

    if (!command) {
        status = RNIC_ADMIN_BAD_OPCODE;
    } else if (cmd->rsvd || cmd->rsvd2) {
        status = RNIC_ADMIN_BAD_PARAM;
    } else {
        status = command->run(dev, cmd, resp);
    }
    resp->cookie = cmd->cookie;
    resp->status = GUINT16_TO_LE(status);
    rnic_stat_inc(dev, RNIC_STAT_admin_commands);
    if (status != RNIC_ADMIN_OK) {
        rnic_stat_inc(dev, RNIC_STAT_admin_errors);
    }
    if (dev->ops->trace_enabled(dev->opaque, RNIC_TRACE_admin)) {
        trace_command(dev, command, cmd, status);
    }
}

/* ---- The rings ---- */

static bool complete(struct rnic_device *dev, struct rnic_acqe *acqe)
{
    struct rnic_admin *admin = dev->admin;
    uint64_t at = admin->acq + (admin->pi & (admin->depth - 1)) * sizeof(*acqe);
    const size_t head = sizeof(*acqe) - sizeof(uint32_t);
    uint32_t last;

    acqe->phase = !((admin->pi / admin->depth) & 1);
    memcpy(&last, (uint8_t *)acqe + head, sizeof(last));
    if (!rnic_dma_write(dev, at, acqe, head) ||
        !rnic_dma_store32(dev, at + head, GUINT32_FROM_LE(last))) {
        rnic_device_fatal(dev, RNIC_DEV_ERR_ADMIN_DMA);
        return false;
    }
    admin->pi++;
    return true;
}

void rnic_device_fault_admin_delay(rnic_device *dev, uint32_t ms)
{
    atomic_store(&dev->admin->delay_ms, ms);
    /* What waited for a longer delay is looked at again */
    rnic_loop_wake(dev, RNIC_WORK_ADMIN);
}

static void delay_expired(struct rnic_timer *timer)
{
    timer->dev->admin->delayed = true;
    rnic_loop_wake(timer->dev, RNIC_WORK_ADMIN);
}

/* Whether a fault that was asked for keeps the device from its commands */
static bool is_held(struct rnic_device *dev)
{
    struct rnic_admin *admin = dev->admin;
    uint32_t ms = atomic_load(&admin->delay_ms);

    if (ms != admin->held_ms) {
        /* What waits does so for the new delay, from now on */
        admin->held_ms = ms;
        admin->delayed = false;
        rnic_timer_cancel(&admin->delay);
    }
    if (!ms || admin->delayed) {
        admin->delayed = false;
        return false;
    }
    if (ms != RNIC_FAULT_NEVER && !admin->delay.deadline_ns &&
        rnic_reg_get(dev, RNIC_REG_ASQ_DB) != admin->ci) {
        rnic_timer_arm(dev, &admin->delay, ms * 1000ull, delay_expired);
    }
    return true;
}

bool rnic_admin_run(struct rnic_device *dev)
{
    struct rnic_admin *admin = dev->admin;
    unsigned count = 0;
    bool more = false;

    if (dev->ready && is_held(dev)) {
        return false;
    }
    while (dev->ready) {
        uint32_t pi = rnic_reg_get(dev, RNIC_REG_ASQ_DB);
        struct rnic_acqe acqe = { 0 };
        struct rnic_asqe asqe;

        if (pi == admin->ci) {
            break;
        }
        if (count == MAX_COMMANDS) {
            more = true;
            break;
        }
        if (pi - admin->ci > admin->depth) {
            rnic_device_fatal(dev, RNIC_DEV_ERR_ADMIN_INDEX);
            break;
        }
        /* Copied once: what the driver changes from now on is not seen */
        if (!rnic_dma_read(dev,
                           admin->asq +
                               (admin->ci & (admin->depth - 1)) * sizeof(asqe),
                           &asqe, sizeof(asqe))) {
            rnic_device_fatal(dev, RNIC_DEV_ERR_ADMIN_DMA);
            break;
        }
        admin->ci++;
        count++;
        run_command(dev, &asqe, &acqe);
        if (!complete(dev, &acqe)) {
            break;
        }
    }
    if (count) {
        rnic_irq(dev, 0);
        rnic_aeq_retry(dev);
    }
    return more;
}

bool rnic_admin_enable(struct rnic_device *dev)
{
    struct rnic_admin *admin = dev->admin;
    uint32_t depth = rnic_reg_get(dev, RNIC_REG_ADMIN_DEPTH);
    uint64_t asq = rnic_reg_get(dev, RNIC_REG_ASQ_LO) |
                   (uint64_t)rnic_reg_get(dev, RNIC_REG_ASQ_HI) << 32;
    uint64_t acq = rnic_reg_get(dev, RNIC_REG_ACQ_LO) |
                   (uint64_t)rnic_reg_get(dev, RNIC_REG_ACQ_HI) << 32;

    if (depth < 2 || depth > 1024 || depth & (depth - 1) || asq % 4096 ||
        acq % 4096) {
        rnic_device_fatal(dev, RNIC_DEV_ERR_ADMIN_CONFIG);
        return false;
    }
    if (!rnic_dma_probe(dev, asq, depth * sizeof(struct rnic_asqe),
                        RNIC_DMA_FROM_GUEST) ||
        !rnic_dma_probe(dev, acq, depth * sizeof(struct rnic_acqe),
                        RNIC_DMA_TO_GUEST)) {
        rnic_device_fatal(dev, RNIC_DEV_ERR_ADMIN_DMA);
        return false;
    }
    admin->asq = asq;
    admin->acq = acq;
    admin->depth = depth;
    admin->ci = 0;
    admin->pi = 0;
    return true;
}

void rnic_admin_disable(struct rnic_device *dev)
{
    rnic_timer_cancel(&dev->admin->delay);
    dev->admin->delayed = false;
}

void rnic_admin_init(struct rnic_device *dev)
{
    dev->admin = g_new0(struct rnic_admin, 1);
}

void rnic_admin_fini(struct rnic_device *dev)
{
    g_free(dev->admin);
    dev->admin = NULL;
}
