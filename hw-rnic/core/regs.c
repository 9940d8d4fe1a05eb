/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registers. Reads and writes come on any thread; what a write causes is done
 * by the engine.
 */
#include "device.h"
#include "netq.h"

enum kind {
    REG_NONE, /* not a register */
    REG_RO,
    REG_RW, /* read-only while CTRL.ENABLE is 1 */
    REG_CTRL,
    REG_ASQ_DB,
};

/* clang-format off */
static const uint8_t kinds[RNIC_BAR_REGS_SIZE / 4] = {
#define REG(name, kind) [RNIC_REG_##name / 4] = REG_##kind
    REG(MAGIC, RO),
    REG(VERSION, RO),
    REG(CAPS_LO, RO),
    REG(CAPS_HI, RO),
    REG(CTRL, CTRL),
    REG(STATUS, RO),
    REG(ERROR, RO),
    REG(MAC_LO, RO),
    REG(MAC_HI, RO),
    REG(VECTORS, RO),
    REG(MAX_QP, RO),
    REG(MAX_CQ, RO),
    REG(MAX_SRQ, RO),
    REG(MAX_EQ, RO),
    REG(MAX_MR, RO),
    REG(MAX_PD, RO),
    REG(MAX_UCTX, RO),
    REG(MAX_LISTEN, RO),
    REG(MAX_QP_WR, RO),
    REG(MAX_CQE, RO),
    REG(MAX_SGE, RO),
    REG(MAX_INLINE, RO),
    REG(MAX_IRD, RO),
    REG(MAX_ORD, RO),
    REG(MAX_MR_SIZE_LO, RO),
    REG(MAX_MR_SIZE_HI, RO),
    REG(MAX_FR_PAGES, RO),
    REG(MAX_MSG_SIZE, RO),
    REG(MAX_PDATA, RO),
    REG(MAX_BACKLOG, RO),
    REG(MAX_ADDR, RO),
    REG(MAX_EQ_DEPTH, RO),
    REG(ASQ_LO, RW),
    REG(ASQ_HI, RW),
    REG(ACQ_LO, RW),
    REG(ACQ_HI, RW),
    REG(ADMIN_DEPTH, RW),
    REG(ASQ_DB, ASQ_DB),
#undef REG
};
/* clang-format on */

void rnic_regs_reset(struct rnic_device *dev)
{
    const uint8_t *mac = dev->config.mac;
    const uint64_t caps = RNIC_CAP_LOCAL_DMA_LKEY | RNIC_CAP_FAST_REG |
                          RNIC_CAP_SRQ | RNIC_CAP_FENCE_PRE_RTS | RNIC_CAP_P2P |
                          RNIC_CAP_ERROR_PRE_RTS | rnic_netq_caps(dev) |
                          (dev->config.rfc7306 ? RNIC_CAP_RFC7306 : 0);
    const struct {
        unsigned offset;
        uint32_t value;
    } values[] = {
        { RNIC_REG_MAGIC, RNIC_MAGIC },
        { RNIC_REG_VERSION, RNIC_VERSION_MAJOR << 16 | RNIC_VERSION_MINOR },
        { RNIC_REG_CAPS_LO, (uint32_t)caps },
        { RNIC_REG_CAPS_HI, caps >> 32 },
        { RNIC_REG_CTRL, 0 },
        { RNIC_REG_STATUS, 0 },
        { RNIC_REG_ERROR, RNIC_DEV_ERR_NONE },
        { RNIC_REG_MAC_LO,
          (uint32_t)mac[3] << 24 | mac[2] << 16 | mac[1] << 8 | mac[0] },
        { RNIC_REG_MAC_HI, mac[5] << 8 | mac[4] },
        { RNIC_REG_VECTORS, dev->config.vectors },
        { RNIC_REG_MAX_QP, RNIC_MAX_QP },
        { RNIC_REG_MAX_CQ, RNIC_MAX_CQ },
        { RNIC_REG_MAX_SRQ, RNIC_MAX_SRQ },
        { RNIC_REG_MAX_EQ, RNIC_MAX_EQ },
        { RNIC_REG_MAX_MR, RNIC_MAX_MR },
        { RNIC_REG_MAX_PD, RNIC_MAX_PD },
        { RNIC_REG_MAX_UCTX, RNIC_DB_PAGES },
        { RNIC_REG_MAX_LISTEN, RNIC_MAX_LISTEN },
        { RNIC_REG_MAX_QP_WR, RNIC_MAX_QP_WR },
        { RNIC_REG_MAX_CQE, RNIC_MAX_CQE },
        { RNIC_REG_MAX_SGE, RNIC_MAX_SGE },
        { RNIC_REG_MAX_INLINE, RNIC_MAX_INLINE },
        { RNIC_REG_MAX_IRD, RNIC_MAX_IRD },
        { RNIC_REG_MAX_ORD, RNIC_MAX_ORD },
        { RNIC_REG_MAX_MR_SIZE_LO, (uint32_t)RNIC_MAX_MR_SIZE },
        { RNIC_REG_MAX_MR_SIZE_HI, RNIC_MAX_MR_SIZE >> 32 },
        { RNIC_REG_MAX_FR_PAGES, RNIC_MAX_FR_PAGES },
        { RNIC_REG_MAX_MSG_SIZE, RNIC_MAX_MSG_SIZE },
        { RNIC_REG_MAX_PDATA, RNIC_MAX_PDATA },
        { RNIC_REG_MAX_BACKLOG, RNIC_MAX_BACKLOG },
        { RNIC_REG_MAX_ADDR, RNIC_MAX_ADDR },
        { RNIC_REG_MAX_EQ_DEPTH, RNIC_MAX_EQ_DEPTH },
        { RNIC_REG_ASQ_LO, 0 },
        { RNIC_REG_ASQ_HI, 0 },
        { RNIC_REG_ACQ_LO, 0 },
        { RNIC_REG_ACQ_HI, 0 },
        { RNIC_REG_ADMIN_DEPTH, 0 },
        { RNIC_REG_ASQ_DB, 0 },
    };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(values); i++) {
        rnic_reg_set(dev, values[i].offset, values[i].value);
    }
}

static bool is_resetting(struct rnic_device *dev)
{
    return atomic_load(&dev->resets_wanted) != atomic_load(&dev->resets_done);
}

static enum kind kind_at(uint64_t offset)
{
    return offset < RNIC_BAR_REGS_SIZE ? kinds[offset / 4] : REG_NONE;
}

/* Whether an access of this form is defined for registers at all */
static bool is_access(uint64_t offset, unsigned size)
{
    return (size == 4 || size == 8) && offset % size == 0;
}

static uint32_t read32(struct rnic_device *dev, uint64_t offset)
{
    uint32_t value;

    if (kind_at(offset) == REG_NONE) {
        return 0;
    }
    value = rnic_reg_get(dev, offset);
    if (offset == RNIC_REG_STATUS && is_resetting(dev)) {
        value |= RNIC_STATUS_RESETTING;
    }
    return value;
}

uint64_t rnic_device_reg_read(rnic_device *dev, uint64_t offset, unsigned size)
{
    uint64_t value = 0;

    if (!is_access(offset, size) || kind_at(offset) == REG_NONE ||
        (size == 8 && kind_at(offset + 4) == REG_NONE)) {
        rnic_guest_error(dev,
                         "read of %u octets at register offset 0x%" PRIx64
                         ", where no such register is",
                         size, offset);
    }
    if (is_access(offset, size)) {
        value = read32(dev, offset);
        if (size == 8) {
            value |= (uint64_t)read32(dev, offset + 4) << 32;
        }
    }
    return value;
}

static void want_reset(struct rnic_device *dev)
{
    /* RESETTING is visible before this returns */
    atomic_fetch_add(&dev->resets_wanted, 1);
    rnic_reg_set(dev, RNIC_REG_CTRL, 0);
    rnic_loop_wake(dev, RNIC_WORK_CTRL);
}

static void write_ctrl(struct rnic_device *dev, uint32_t value)
{
    uint32_t enable = value & RNIC_CTRL_ENABLE;
    uint32_t old;

    if (value & RNIC_CTRL_RESET) {
        want_reset(dev);
        return;
    }
    if (enable && (is_resetting(dev) ||
                   rnic_reg_get(dev, RNIC_REG_STATUS) & RNIC_STATUS_FATAL)) {
        rnic_guest_error(dev, "CTRL.ENABLE was set while STATUS is 0x%x",
                         read32(dev, RNIC_REG_STATUS));
        return;
    }
    old = atomic_exchange(&dev->regs[RNIC_REG_CTRL / 4], enable);
    if (old == enable) {
        return;
    }
    if (enable) {
        rnic_loop_wake(dev, RNIC_WORK_CTRL);
    } else {
        want_reset(dev);
    }
}

static void write32(struct rnic_device *dev, uint64_t offset, uint32_t value)
{
    bool enabled = rnic_reg_get(dev, RNIC_REG_CTRL) & RNIC_CTRL_ENABLE;

    switch (kind_at(offset)) {
    case REG_CTRL:
        write_ctrl(dev, value);
        return;
    case REG_RW:
        if (!enabled && !is_resetting(dev)) {
            rnic_reg_set(dev, offset, value);
            return;
        }
        break;
    case REG_ASQ_DB:
        if (enabled && !is_resetting(dev)) {
            rnic_reg_set(dev, offset, value);
            rnic_loop_wake(dev, RNIC_WORK_ADMIN);
            return;
        }
        break;
    case REG_RO:
    case REG_NONE:
        break;
    }
    rnic_guest_error(
        dev, "write of 0x%x to register offset 0x%" PRIx64 " has no effect now",
        value, offset);
}

void rnic_device_reg_write(rnic_device *dev, uint64_t offset, uint64_t value,
                           unsigned size)
{
    if (!is_access(offset, size)) {
        rnic_guest_error(dev,
                         "write of %u octets at register offset 0x%" PRIx64
                         ", where no such register is",
                         size, offset);
        return;
    }
    write32(dev, offset, value);
    if (size == 8) {
        write32(dev, offset + 4, value >> 32);
    }
}
