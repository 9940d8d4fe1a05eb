/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Rings of work queue entries
 */
#include "rnic.h"

uint32_t rnic_wq_stride(uint32_t header, uint32_t octets)
{
    uint32_t stride;

    if (octets > RNIC_WQE_STRIDE_MAX - header) {
        return 0;
    }
    stride = rnic_pow2(header + octets);
    return stride < RNIC_WQE_STRIDE_MIN ? RNIC_WQE_STRIDE_MIN : stride;
}

void rnic_wq_init(struct rnic_wq *wq, uint8_t *entries, uint32_t depth,
                  uint32_t stride, uint32_t max_sge)
{
    pthread_mutex_init(&wq->lock, NULL);
    wq->entries = entries;
    wq->depth = depth;
    wq->stride = stride;
    wq->max_sge = max_sge;
    wq->pi = 0;
    atomic_init(&wq->ci, 0);
}

void rnic_wq_destroy(struct rnic_wq *wq)
{
    pthread_mutex_destroy(&wq->lock);
}

void rnic_sq_completed(struct rnic_wq *wq, uint16_t index)
{
    uint32_t ci = atomic_load_explicit(&wq->ci, memory_order_relaxed);

    /* At most 32768 entries are outstanding */
    ci += (uint16_t)(index - ci) + 1;
    /* The producer overwrites entries only after it has seen this */
    atomic_store_explicit(&wq->ci, ci, memory_order_release);
}

void rnic_rq_completed(struct rnic_wq *wq)
{
    /* Completions of an SRQ arrive in several CQs */
    atomic_fetch_add_explicit(&wq->ci, 1, memory_order_release);
}

int rnic_wq_write_recv(struct rnic_wq *wq, struct ibv_recv_wr *wr,
                       struct ibv_recv_wr **bad_wr, uint32_t *posted)
{
    struct rnic_rq_wqe *wqe;
    uint32_t n = 0, ci;
    int err = 0, i;

    ci = atomic_load_explicit(&wq->ci, memory_order_acquire);
    for (; wr; wr = wr->next, n++) {
        if (wq->pi + n - ci >= wq->depth) {
            err = ENOMEM;
            break;
        }
        if (wr->num_sge < 0 || (uint32_t)wr->num_sge > wq->max_sge) {
            err = EINVAL;
            break;
        }
        wqe = (struct rnic_rq_wqe *)rnic_wq_entry(wq, wq->pi + n);
        memset(wqe, 0, sizeof(*wqe));
        wqe->num_sge = wr->num_sge;
        wqe->wr_id = htole64(wr->wr_id);
        for (i = 0; i < wr->num_sge; i++) {
            wqe->sge[i].addr = htole64(wr->sg_list[i].addr);
            wqe->sge[i].length = htole32(wr->sg_list[i].length);
            wqe->sge[i].lkey = htole32(wr->sg_list[i].lkey);
        }
    }
    if (err) {
        *bad_wr = wr;
    }
    wq->pi += n;
    *posted = n;
    return err;
}
