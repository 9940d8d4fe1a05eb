/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory regions: STags, checks, translation
 *
 * STag: bits 31..8 the index (random; low 17 bits of it the slot), 7..0 the
 * key.
 */
#ifndef RNIC_MR_H
#define RNIC_MR_H

#include "device.h"

enum rnic_mr_error {
    RNIC_MR_OK = 0,
    RNIC_MR_BAD_STAG, /* unknown, wrong key, or invalid now */
    RNIC_MR_BAD_PD,
    RNIC_MR_WRAP, /* TO + length wraps 2^64 */
    RNIC_MR_BOUNDS,
    RNIC_MR_ACCESS, /* right missing */
    RNIC_MR_DMA,    /* the page is not RAM (any more) */
};

/* The rights that this device knows */
uint32_t rnic_mr_rights(struct rnic_device *dev);

void rnic_mr_table_init(struct rnic_device *dev);
void rnic_mr_table_fini(struct rnic_device *dev);
/* Removes every region (reset) */
void rnic_mr_reset_all(struct rnic_device *dev);

enum rnic_admin_status rnic_mr_reg(struct rnic_device *dev,
                                   const struct rnic_cmd_reg_mr *cmd,
                                   uint32_t *stag);
enum rnic_admin_status rnic_mr_alloc(struct rnic_device *dev,
                                     const struct rnic_cmd_alloc_mr *cmd,
                                     uint32_t *stag);
enum rnic_admin_status rnic_mr_dereg(struct rnic_device *dev, uint32_t stag);

/* RNIC_WR_REG_MR of a QP with @pdn; page list read here, once */
enum rnic_mr_error rnic_mr_fast_reg(struct rnic_device *dev, uint32_t pdn,
                                    const struct rnic_reg_wqe *wqe);
/*
 * LOCAL_INV, READ_INV, and invalidation by a peer (@remote), which can
 * invalidate only regions with a remote right, and none of RNIC_MR_ALL_DMA.
 */
enum rnic_mr_error rnic_mr_invalidate(struct rnic_device *dev, uint32_t pdn,
                                      uint32_t stag, bool remote);

/*
 * Checks in this order: STag, PD, wrap, bounds, rights (@access: all of them
 * needed; 0: local read). Length 0 checks nothing and succeeds. @kernel:
 * RNIC_STAG_LOCAL_DMA is allowed (local access only).
 */
enum rnic_mr_error rnic_mr_check(struct rnic_device *dev, uint32_t pdn,
                                 uint32_t stag, uint64_t to, uint64_t len,
                                 uint32_t access, bool kernel);

/* Guest memory mapped for one operation; never kept across the event loop */
struct rnic_mapping {
    struct iovec iov[64];
    unsigned count;
    uint64_t length; /* sum of iov */
    enum rnic_dma_dir dir;
};

/*
 * Checks as rnic_mr_check(), then maps up to @len octets from @to, appending
 * to @map (initialised by rnic_mapping_init()), as many as iov has room for
 * and the host maps. *@done: octets appended; fewer than @len when @map is
 * full. On RNIC_MR_DMA, what was appended before stays.
 */
void rnic_mapping_init(struct rnic_mapping *map, enum rnic_dma_dir dir);
enum rnic_mr_error rnic_mr_map(struct rnic_device *dev, uint32_t pdn,
                               uint32_t stag, uint64_t to, uint64_t len,
                               uint32_t access, bool kernel,
                               struct rnic_mapping *map, uint64_t *done);
/* @used: octets really written, from the start; 0 for FROM_GUEST */
void rnic_mapping_release(struct rnic_device *dev, struct rnic_mapping *map,
                          uint64_t used);

#endif
