/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Driver registration, contexts, protection domains, memory regions
 */
#include "rnic.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

DECLARE_DRV_CMD(rnic_get_context_cmd, IB_USER_VERBS_CMD_GET_CONTEXT, empty,
                rnic_alloc_ucontext_resp);
DECLARE_DRV_CMD(rnic_alloc_pd_cmd, IB_USER_VERBS_CMD_ALLOC_PD, empty,
                rnic_alloc_pd_resp);

struct rnic_dev {
    struct verbs_device vdev;
};

static int rnic_query_device_ex(struct ibv_context *context,
                                const struct ibv_query_device_ex_input *input,
                                struct ibv_device_attr_ex *attr,
                                size_t attr_size)
{
    struct ib_uverbs_ex_query_device_resp resp;
    size_t resp_size = sizeof(resp);
    int err;

    err = ibv_cmd_query_device_any(context, input, attr, attr_size, &resp,
                                   &resp_size);
    if (err) {
        return err;
    }
    snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver), "%u.%u",
             (unsigned)(resp.base.fw_ver >> 32), (unsigned)resp.base.fw_ver);
    return 0;
}

static int rnic_query_port(struct ibv_context *context, uint8_t port,
                           struct ibv_port_attr *attr)
{
    struct ibv_query_port cmd = {};

    return ibv_cmd_query_port(context, port, attr, &cmd, sizeof(cmd));
}

static struct ibv_pd *rnic_alloc_pd(struct ibv_context *context)
{
    struct rnic_alloc_pd_cmd_resp resp = {};
    struct ibv_alloc_pd cmd = {};
    struct ibv_pd *pd;
    int err;

    pd = calloc(1, sizeof(*pd));
    if (!pd) {
        errno = ENOMEM;
        return NULL;
    }
    err = ibv_cmd_alloc_pd(context, pd, &cmd, sizeof(cmd), &resp.ibv_resp,
                           sizeof(resp));
    if (err) {
        free(pd);
        errno = err;
        return NULL;
    }
    return pd;
}

static int rnic_dealloc_pd(struct ibv_pd *pd)
{
    int err = ibv_cmd_dealloc_pd(pd);

    if (!err) {
        free(pd);
    }
    return err;
}

static struct ibv_mr *rnic_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
                                  uint64_t hca_va, int access)
{
    struct ib_uverbs_reg_mr_resp resp;
    struct ibv_reg_mr cmd;
    struct verbs_mr *vmr;
    int err;

    vmr = calloc(1, sizeof(*vmr));
    if (!vmr) {
        errno = ENOMEM;
        return NULL;
    }
    err = ibv_cmd_reg_mr(pd, addr, length, hca_va, access, vmr, &cmd,
                         sizeof(cmd), &resp, sizeof(resp));
    if (err) {
        free(vmr);
        errno = err;
        return NULL;
    }
    return &vmr->ibv_mr;
}

static int rnic_dereg_mr(struct verbs_mr *vmr)
{
    int err = ibv_cmd_dereg_mr(vmr);

    if (!err) {
        free(vmr);
    }
    return err;
}

static void unmap_doorbells(struct rnic_context *ctx)
{
    munmap(ctx->db, RNIC_DB_PAGE_SIZE);
    munmap(ctx->dbmap, RNIC_DBMAP_SIZE);
}

static int map_doorbells(struct rnic_context *ctx,
                         const struct rnic_alloc_ucontext_resp *resp)
{
    int err;

    ctx->db = mmap(NULL, RNIC_DB_PAGE_SIZE, PROT_WRITE, MAP_SHARED,
                   ctx->vctx.context.cmd_fd, resp->db_offset);
    if (ctx->db == MAP_FAILED) {
        return errno;
    }
    ctx->dbmap = mmap(NULL, RNIC_DBMAP_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
                      ctx->vctx.context.cmd_fd, resp->dbmap_offset);
    if (ctx->dbmap == MAP_FAILED) {
        err = errno;
        munmap(ctx->db, RNIC_DB_PAGE_SIZE);
        return err;
    }
    return 0;
}

static void rnic_free_context(struct ibv_context *context)
{
    struct rnic_context *ctx = to_rctx(context);

    unmap_doorbells(ctx);
    pthread_mutex_destroy(&ctx->qp_mutex);
    free(ctx->qp_table);
    verbs_uninit_context(&ctx->vctx);
    free(ctx);
}

static const struct verbs_context_ops rnic_context_ops = {
    .alloc_pd = rnic_alloc_pd,
    .cq_event = rnic_cq_event,
    .create_cq = rnic_create_cq,
    .create_cq_ex = rnic_create_cq_ex,
    .create_qp = rnic_create_qp,
    .create_qp_ex = rnic_create_qp_ex,
    .create_srq = rnic_create_srq,
    .dealloc_pd = rnic_dealloc_pd,
    .dereg_mr = rnic_dereg_mr,
    .destroy_cq = rnic_destroy_cq,
    .destroy_qp = rnic_destroy_qp,
    .destroy_srq = rnic_destroy_srq,
    .free_context = rnic_free_context,
    .modify_cq = rnic_modify_cq,
    .modify_qp = rnic_modify_qp,
    .modify_srq = rnic_modify_srq,
    .poll_cq = rnic_poll_cq,
    .post_recv = rnic_post_recv,
    .post_send = rnic_post_send,
    .post_srq_recv = rnic_post_srq_recv,
    .query_device_ex = rnic_query_device_ex,
    .query_port = rnic_query_port,
    .query_qp = rnic_query_qp,
    .query_srq = rnic_query_srq,
    .reg_mr = rnic_reg_mr,
    .req_notify_cq = rnic_req_notify_cq,
};

/* Limits by which requests are judged before memory is taken for them */
static int read_limits(struct rnic_context *ctx)
{
    struct ibv_device_attr_ex attr = {};
    int err;

    err = rnic_query_device_ex(&ctx->vctx.context, NULL, &attr, sizeof(attr));
    if (err) {
        return err;
    }
    ctx->max_qp_wr = attr.orig_attr.max_qp_wr;
    ctx->max_srq_wr = attr.orig_attr.max_srq_wr;
    ctx->max_cqe = attr.orig_attr.max_cqe;
    return 0;
}

static struct verbs_context *rnic_alloc_context(struct ibv_device *device,
                                                int cmd_fd, void *private_data)
{
    struct rnic_get_context_cmd_resp resp = {};
    struct ibv_get_context cmd = {};
    struct rnic_context *ctx;
    int err;

    (void)private_data;
    ctx = verbs_init_and_alloc_context(device, cmd_fd, ctx, vctx,
                                       RDMA_DRIVER_UNKNOWN);
    if (!ctx) {
        return NULL;
    }
    err = ibv_cmd_get_context(&ctx->vctx, &cmd, sizeof(cmd), &resp.ibv_resp,
                              sizeof(resp));
    if (err) {
        goto err_uninit;
    }
    ctx->page_size = sysconf(_SC_PAGESIZE);
    ctx->sq_policy = resp.drv_payload.sq_policy;
    if (ctx->sq_policy == RNIC_SQ_FENCE &&
        !(resp.drv_payload.caps & RNIC_CAP_FENCE_PRE_RTS)) {
        ctx->sq_policy = RNIC_SQ_ERROR;
    } else if (resp.drv_payload.sq_policy > RNIC_SQ_HELD) {
        err = EPROTO;
        goto err_uninit;
    }
    ctx->caps = resp.drv_payload.caps;
    ctx->max_sge = resp.drv_payload.max_sge;
    ctx->max_inline = resp.drv_payload.max_inline;
    ctx->max_qp = resp.drv_payload.max_qp;
    ctx->qp_table = calloc(ctx->max_qp, sizeof(*ctx->qp_table));
    if (!ctx->qp_table) {
        err = ENOMEM;
        goto err_uninit;
    }
    err = map_doorbells(ctx, &resp.drv_payload);
    if (err) {
        goto err_table;
    }
    err = read_limits(ctx);
    if (err) {
        goto err_unmap;
    }
    pthread_mutex_init(&ctx->qp_mutex, NULL);
    verbs_set_ops(&ctx->vctx, &rnic_context_ops);
    return &ctx->vctx;

err_unmap:
    unmap_doorbells(ctx);
err_table:
    free(ctx->qp_table);
err_uninit:
    verbs_uninit_context(&ctx->vctx);
    free(ctx);
    errno = err;
    return NULL;
}

static struct verbs_device *rnic_alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
    struct rnic_dev *dev = calloc(1, sizeof(*dev));

    (void)sysfs_dev;
    return dev ? &dev->vdev : NULL;
}

static void rnic_uninit_device(struct verbs_device *vdev)
{
    free(container_of(vdev, struct rnic_dev, vdev));
}

static const struct verbs_match_ent rnic_match_table[] = {
    VERBS_PCI_MATCH(RNIC_PCI_VENDOR_ID, RNIC_PCI_DEVICE_ID, NULL),
    {},
};

static const struct verbs_device_ops rnic_device_ops = {
    .name = "rnic",
    .match_min_abi_version = RNIC_ABI_VERSION,
    .match_max_abi_version = RNIC_ABI_VERSION,
    .match_table = rnic_match_table,
    .alloc_device = rnic_alloc_device,
    .uninit_device = rnic_uninit_device,
    .alloc_context = rnic_alloc_context,
};
PROVIDER_DRIVER(rnic, rnic_device_ops);
