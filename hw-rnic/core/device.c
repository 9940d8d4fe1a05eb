/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The device: configuration, life, reset
 */
#include <string.h>
#include "cm.h"
#include "device.h"
#include "mr.h"
#include "net/addr.h"
#include "net/capture.h"
#include "netq.h"
#include "qp.h"

/* ---- Configuration ---- */

void rnic_config_init(struct rnic_config *config)
{
    *config = (struct rnic_config){
        .vectors = 9,
        .fabric = RNIC_FABRIC_LOOPBACK,
        .crc = RNIC_CRC_AUTO,
        .mpa_rev = 2,
        .p2p = true,
        .rtr = RNIC_RTR_WRITE | RNIC_RTR_READ,
        .mpa_gate_strict = true,
        .mpa_timeout_ms = 10000,
        .pcap_max = 64 * 1024 * 1024,
    };
}

static GQuark config_error(void)
{
    return g_quark_from_static_string("rnic-config");
}

static bool check_range(const char *property, uint64_t value, uint64_t min,
                        uint64_t max, GError **error)
{
    if (value >= min && value <= max) {
        return true;
    }
    g_set_error(error, config_error(), 0,
                "property '%s' is %" PRIu64 "; it must be %" PRIu64
                " to %" PRIu64,
                property, value, min, max);
    return false;
}

static bool check_mac(const uint8_t *mac, GError **error)
{
    static const uint8_t zero[6];

    if (memcmp(mac, zero, sizeof(zero)) && !(mac[0] & 1)) {
        return true;
    }
    g_set_error(error, config_error(), 0,
                "property 'mac' is %02x:%02x:%02x:"
                "%02x:%02x:%02x; it must be a unicast address and not 0",
                mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
    return false;
}

static bool check_config(const struct rnic_config *config, GError **error)
{
    if (!check_mac(config->mac, error) ||
        !check_range("vectors", config->vectors, 2, RNIC_MAX_VECTORS, error) ||
        !check_range("fabric", config->fabric, RNIC_FABRIC_LOOPBACK,
                     RNIC_FABRIC_DIRECT, error) ||
        !check_range("fabric-id", config->fabric_id, 0, 94, error) ||
        !check_range("crc", config->crc, RNIC_CRC_AUTO, RNIC_CRC_OFF, error) ||
        !check_range("mpa-rev", config->mpa_rev, 1, 2, error) ||
        !check_range("rtr", config->rtr, 0, RNIC_RTR_WRITE | RNIC_RTR_READ,
                     error) ||
        !check_range("mpa-timeout-ms", config->mpa_timeout_ms, 1, 3600000,
                     error) ||
        !check_range("peer-timeout-ms", config->peer_timeout_ms, 0, 86400000,
                     error) ||
        !check_range("max-connections", config->max_connections, 0,
                     RNIC_MAX_QP - 1, error) ||
        !check_range("sq-scan-ms", config->sq_scan_ms, 0, 60000, error)) {
        return false;
    }
    if (config->fpdu_max &&
        (config->fpdu_max < 128 || config->fpdu_max > 64768)) {
        g_set_error(error, config_error(), 0,
                    "property 'fpdu-max' is %u; it "
                    "must be 128 to 64768, or 0 for the default",
                    config->fpdu_max);
        return false;
    }
    if (config->p2p && !config->rtr) {
        g_set_error(error, config_error(), 0,
                    "property 'rtr' is 0; it must "
                    "name at least one kind of message while 'p2p' is on");
        return false;
    }
    /* A file header and one packet fit into the least */
    return !config->pcap || check_range("pcap-max", config->pcap_max, 1 << 17,
                                        1ull << 50, error);
}

/* ---- Life ---- */

rnic_device *rnic_device_new(const struct rnic_config *config,
                             const struct rnic_host_ops *ops, void *opaque,
                             GError **error)
{
    struct rnic_device *dev;

    if (!check_config(config, error)) {
        return NULL;
    }
    dev = g_new0(struct rnic_device, 1);
    dev->config = *config;
    dev->config.map = g_strdup(config->map);
    dev->config.allow = g_strdup(config->allow);
    dev->config.deny = g_strdup(config->deny);
    dev->config.pcap = g_strdup(config->pcap);
    dev->ops = ops;
    dev->opaque = opaque;
    g_queue_init(&dev->tx_ready);
    rnic_regs_reset(dev);

    if (!rnic_loop_init(dev, error)) {
        goto fail_loop;
    }
    dev->addrs = rnic_addrs_new(&dev->config, error);
    if (!dev->addrs) {
        goto fail_addrs;
    }
    if (dev->config.pcap) {
        dev->capture = rnic_capture_new(dev, error);
        if (!dev->capture) {
            goto fail_capture;
        }
    }
    rnic_mr_table_init(dev);
    rnic_eq_init(dev);
    rnic_admin_init(dev);
    rnic_cm_init(dev);
    return dev;

fail_capture:
    rnic_addrs_free(dev->addrs);
fail_addrs:
    rnic_loop_fini(dev);
fail_loop:
    g_free((char *)dev->config.map);
    g_free((char *)dev->config.allow);
    g_free((char *)dev->config.deny);
    g_free((char *)dev->config.pcap);
    g_free(dev);
    return NULL;
}

/* Every object goes, without a trace in guest memory */
static void drop_objects(struct rnic_device *dev)
{
    dev->ready = false;
    rnic_admin_disable(dev);
    /* First: then nobody searches it for the events of what goes */
    rnic_aeq_forget_all(dev);
    rnic_netq_reset(dev);
    rnic_cm_reset(dev);
    rnic_scan_stop(dev);
    rnic_qp_reset_all(dev);
    rnic_srq_reset_all(dev);
    rnic_cq_reset_all(dev);
    rnic_eq_reset_all(dev);
    rnic_mr_reset_all(dev);
    rnic_uctx_reset_all(dev);
}

void rnic_device_free(rnic_device *dev)
{
    drop_objects(dev);
    rnic_cm_fini(dev);
    rnic_admin_fini(dev);
    rnic_eq_fini(dev);
    rnic_mr_table_fini(dev);
    if (dev->capture) {
        rnic_capture_free(dev->capture);
    }
    rnic_addrs_free(dev->addrs);
    rnic_loop_fini(dev);
    g_free((char *)dev->config.map);
    g_free((char *)dev->config.allow);
    g_free((char *)dev->config.deny);
    g_free((char *)dev->config.pcap);
    g_free(dev);
}

void rnic_device_reset(rnic_device *dev)
{
    uint32_t wanted = atomic_load(&dev->resets_wanted);
    size_t i;

    drop_objects(dev);
    for (i = 0; i < G_N_ELEMENTS(dev->kicked); i++) {
        atomic_store(&dev->kicked[i], 0);
    }
    for (i = 0; i < RNIC_STAT_COUNT; i++) {
        atomic_store_explicit(&dev->stats[i], 0, memory_order_relaxed);
    }
    rnic_regs_reset(dev);
    rnic_trace(dev, device, "reset");
    /* Last: from here on the driver may use the device again. A reset that
     * was asked for meanwhile is still to be done. */
    atomic_store(&dev->resets_done, wanted);
}

void rnic_device_ctrl(struct rnic_device *dev)
{
    if (atomic_load(&dev->resets_wanted) != atomic_load(&dev->resets_done)) {
        rnic_device_reset(dev);
    }
    if (!dev->ready && rnic_reg_get(dev, RNIC_REG_CTRL) & RNIC_CTRL_ENABLE &&
        !(rnic_reg_get(dev, RNIC_REG_STATUS) & RNIC_STATUS_FATAL) &&
        rnic_admin_enable(dev)) {
        dev->ready = true;
        rnic_reg_set(dev, RNIC_REG_STATUS, RNIC_STATUS_READY);
        rnic_trace(dev, device, "enabled, admin queue of %u entries",
                   rnic_reg_get(dev, RNIC_REG_ADMIN_DEPTH));
    }
}

void rnic_device_fatal(struct rnic_device *dev, enum rnic_dev_error error)
{
    static const char *const texts[] = {
        [RNIC_DEV_ERR_ADMIN_CONFIG] = "bad address or depth of the admin queue",
        [RNIC_DEV_ERR_ADMIN_DMA] = "a ring of the admin queue is not RAM",
        [RNIC_DEV_ERR_ADMIN_INDEX] = "ASQ_DB is more than the depth ahead",
        [RNIC_DEV_ERR_EQ_DMA] = "an event queue is not RAM any more",
        [RNIC_DEV_ERR_AEQ_OVERFLOW] = "EQ 0 was not drained for far too long",
    };

    if (rnic_reg_get(dev, RNIC_REG_STATUS) & RNIC_STATUS_FATAL) {
        return;
    }
    dev->ready = false;
    rnic_reg_set(dev, RNIC_REG_ERROR, error);
    rnic_reg_set(dev, RNIC_REG_STATUS, RNIC_STATUS_FATAL);
    rnic_guest_error(dev, "fatal: %s", texts[error]);
    rnic_trace(dev, device, "fatal: %s; only a reset helps", texts[error]);
    /* So that the driver looks at STATUS */
    rnic_irq(dev, 0);
}

void rnic_device_quiesce(rnic_device *dev)
{
    if (dev->quiesced) {
        return;
    }
    rnic_cm_quiesce(dev);
    rnic_timers_stop(dev);
    dev->quiesced = true;
    rnic_trace(dev, device, "quiesced");
}

void rnic_device_resume(rnic_device *dev)
{
    if (!dev->quiesced) {
        return;
    }
    dev->quiesced = false;
    rnic_timers_go_on(dev);
    rnic_netq_resumed(dev);
    rnic_trace(dev, device, "resumed");
    rnic_loop_poke(dev);
}
