/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * rdma-core provider of the rnic device: objects
 *
 * Posting and polling work on rings shared with the device and make no system
 * call; everything else goes through the kernel driver.
 *
 * Locks: the context's qp_mutex is taken before a CQ's, and of two CQs the one
 * at the lower address first. SQ, RQ and SRQ locks are taken with no other
 * held.
 */
#ifndef RNIC_PROVIDER_H
#define RNIC_PROVIDER_H

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <ccan/list.h>
#include <infiniband/driver.h>
#include <infiniband/kern-abi.h>

#include <rnic/cqe.h>
#include <rnic/regs.h>
#include <rnic/wqe.h>
#include <uapi/rnic-abi.h>

/* The macros of kern-abi.h put the driver's part of a command behind the
 * core's; it is reached as drv_payload, so they need no tagless copy. */
#define _STRUCT_rnic_alloc_ucontext_resp                                       \
    struct {                                                                   \
    }
#define _STRUCT_rnic_alloc_pd_resp                                             \
    struct {                                                                   \
    }
#define _STRUCT_rnic_create_cq_req                                             \
    struct {                                                                   \
    }
#define _STRUCT_rnic_create_cq_resp                                            \
    struct {                                                                   \
    }
#define _STRUCT_rnic_create_srq_req                                            \
    struct {                                                                   \
    }
#define _STRUCT_rnic_create_srq_resp                                           \
    struct {                                                                   \
    }
#define _STRUCT_rnic_create_qp_req                                             \
    struct {                                                                   \
    }
#define _STRUCT_rnic_create_qp_resp                                            \
    struct {                                                                   \
    }

struct rnic_qp;

struct rnic_context {
    struct verbs_context vctx;
    void *db; /* doorbell page */
    struct rnic_dbmap *dbmap;
    size_t page_size;
    uint64_t caps; /* RNIC_CAP_* */
    enum rnic_sq_policy sq_policy;
    uint32_t max_sge;
    uint32_t max_inline;
    uint32_t max_qp_wr;
    uint32_t max_srq_wr;
    uint32_t max_cqe;
    uint32_t max_qp;
    /* Held from before the kernel frees a QPN until no CQE of it is left in
     * any CQ, so that a QPN in a CQE always means one QP */
    pthread_mutex_t qp_mutex;
    _Atomic(struct rnic_qp *) *qp_table; /* by QPN, max_qp entries */
};

/* Memory shared with the device, whole pages, zeroed, not copied on fork */
struct rnic_buf {
    void *addr;
    size_t length;
};

/* A ring of WQEs. pi and ci are free-running. */
struct rnic_wq {
    pthread_mutex_t lock; /* of the producer */
    uint8_t *entries;
    uint32_t depth; /* 2^n, or 0 */
    uint32_t stride;
    uint32_t max_sge;
    uint32_t pi;
    _Atomic(uint32_t) ci; /* advanced by whoever polls the CQ */
};

struct rnic_srq {
    struct ibv_srq ibsrq;
    struct rnic_buf buf;
    struct rnic_wq wq;
    struct rnic_qp_dbrec *dbrec;
};

struct rnic_cq {
    struct verbs_cq vcq;
    pthread_mutex_t lock;
    struct rnic_buf buf;
    struct rnic_cqe *ring;
    struct rnic_cq_dbrec *dbrec;
    uint32_t depth; /* 2^n */
    uint32_t shift; /* n */
    uint32_t ci;
    uint32_t cqn;
    uint32_t arm_sequence;
    _Atomic(uint32_t) armed; /* RNIC_CQ_ARM_* not known to have fired */
    struct rnic_cqe current; /* between start_poll and end_poll */
    bool gone; /* the device is; what it still writes does not count */
    /* QPs that complete here, under the lock */
    struct list_head send_qps, recv_qps;
};

struct rnic_qp {
    struct verbs_qp vqp;
    struct rnic_buf buf;
    struct rnic_wq sq;
    struct rnic_wq rq;
    struct rnic_srq *srq; /* or NULL */
    struct rnic_qp_dbrec *dbrec;
    struct rnic_qp_status *status; /* written by the device */
    void *status_page;
    uint32_t qpn;
    uint32_t max_inline;
    uint32_t sq_published; /* last written to sq_pi */
    bool signal_all;
    bool reset;                            /* the verbs' RESET was asked for */
    struct list_node send_link, recv_link; /* in the CQs */
    /* Between wr_start and wr_complete; under the SQ's lock */
    uint32_t ex_first; /* index of the first entry */
    int ex_err;        /* 0 or an errno value */
};

static inline struct rnic_context *to_rctx(struct ibv_context *context)
{
    return container_of(context, struct rnic_context, vctx.context);
}

static inline struct rnic_cq *to_rcq(struct ibv_cq *cq)
{
    return container_of(cq, struct rnic_cq, vcq.cq);
}

static inline struct rnic_cq *to_rcq_ex(struct ibv_cq_ex *cq)
{
    return container_of(cq, struct rnic_cq, vcq.cq_ex);
}

static inline struct rnic_qp *to_rqp(struct ibv_qp *qp)
{
    return container_of(qp, struct rnic_qp, vqp.qp);
}

static inline struct rnic_srq *to_rsrq(struct ibv_srq *srq)
{
    return container_of(srq, struct rnic_srq, ibsrq);
}

/* Little-endian words shared with the device */
static inline uint32_t rnic_load(const __le32 *word)
{
    return le32toh(atomic_load_explicit((const _Atomic(__le32) *)word,
                                        memory_order_relaxed));
}

/* Orders earlier writes, of WQEs say, before this one */
static inline void rnic_store(__le32 *word, uint32_t value)
{
    atomic_store_explicit((_Atomic(__le32) *)word, htole32(value),
                          memory_order_release);
}

/* The smallest 2^n that is at least value; value is 1 .. 2^31 */
static inline uint32_t rnic_pow2(uint32_t value)
{
    return value <= 1 ? 1 : 1u << (32 - __builtin_clz(value - 1));
}

/* buf.c: 0 or an errno value */
int rnic_buf_alloc(struct rnic_context *ctx, struct rnic_buf *buf,
                   size_t length);
void rnic_buf_free(struct rnic_buf *buf);

/* db.c: the caller has published an index that the device must look at */
void rnic_db_ring(struct rnic_context *ctx, uint32_t qpn);

/* cq.c */
struct ibv_cq *rnic_create_cq(struct ibv_context *context, int cqe,
                              struct ibv_comp_channel *channel,
                              int comp_vector);
struct ibv_cq_ex *rnic_create_cq_ex(struct ibv_context *context,
                                    struct ibv_cq_init_attr_ex *attr);
int rnic_destroy_cq(struct ibv_cq *ibcq);
int rnic_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr);
int rnic_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc);
int rnic_req_notify_cq(struct ibv_cq *ibcq, int solicited_only);
void rnic_cq_event(struct ibv_cq *ibcq);
/* The device died while something was posted: whoever flushed its queues may
 * not have seen that, and sleeps now */
void rnic_cq_wake(struct rnic_cq *cq);
/* Removes the CQEs of a QP; the caller holds qp_mutex and the CQ's lock */
void rnic_cq_clean(struct rnic_cq *cq, uint32_t qpn);

/* cq-ex.c */
void rnic_cq_ex_init(struct ibv_cq_ex *cq);
/* The next CQE, copied and consumed; the caller holds the lock. False: none.
 * The consumer index is published by rnic_cq_publish(). */
bool rnic_cq_next(struct rnic_cq *cq, struct rnic_cqe *cqe);
void rnic_cq_publish(struct rnic_cq *cq);
enum ibv_wc_status rnic_cqe_status(const struct rnic_cqe *cqe);
enum ibv_wc_opcode rnic_cqe_opcode(const struct rnic_cqe *cqe);

/* wq.c */
void rnic_wq_init(struct rnic_wq *wq, uint8_t *entries, uint32_t depth,
                  uint32_t stride, uint32_t max_sge);
void rnic_wq_destroy(struct rnic_wq *wq);
static inline uint8_t *rnic_wq_entry(struct rnic_wq *wq, uint32_t index)
{
    return wq->entries + (size_t)(index & (wq->depth - 1)) * wq->stride;
}
/* The stride of entries with that many octets behind a header, 0: too many */
uint32_t rnic_wq_stride(uint32_t header, uint32_t octets);
/* A completion of the SQ's WQE with this index (modulo 65536) was polled; it
 * stands for all before it that were not signalled */
void rnic_sq_completed(struct rnic_wq *wq, uint16_t index);
/* A completion of a receive was polled. The device copies receives in the
 * order of the ring, so as many entries are free as completions were seen,
 * whichever receives they are of. */
void rnic_rq_completed(struct rnic_wq *wq);
/* Writes a list of receives; *posted: how many. 0 or an errno value. */
int rnic_wq_write_recv(struct rnic_wq *wq, struct ibv_recv_wr *wr,
                       struct ibv_recv_wr **bad_wr, uint32_t *posted);

/* qp.c */
struct ibv_qp *rnic_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *rnic_create_qp_ex(struct ibv_context *context,
                                 struct ibv_qp_init_attr_ex *attr);
int rnic_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr,
                   int attr_mask);
int rnic_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask,
                  struct ibv_qp_init_attr *init_attr);
int rnic_destroy_qp(struct ibv_qp *ibqp);

/* post.c; 0 or an errno value each */
/* Whether a QP in this state accepts work requests */
int rnic_qp_check_state(struct rnic_context *ctx, struct rnic_qp *qp,
                        bool send);
struct rnic_sq_wqe *rnic_sq_entry(struct rnic_qp *qp, uint32_t index);
/* Clears the head of an entry and writes what all operations have;
 * IBV_SEND_INLINE is not looked at */
int rnic_wqe_begin(struct rnic_qp *qp, struct rnic_sq_wqe *wqe,
                   enum ibv_wr_opcode opcode, uint64_t wr_id, unsigned flags);
void rnic_wqe_atomic(struct rnic_sq_wqe *wqe, uint64_t compare_add,
                     uint64_t swap);
int rnic_wqe_sges(struct rnic_qp *qp, struct rnic_sq_wqe *wqe,
                  const struct ibv_sge *sge, int num);
/* Adds to the inline data */
int rnic_wqe_inline(struct rnic_qp *qp, struct rnic_sq_wqe *wqe,
                    const void *from, size_t length);
/* Under the SQ's lock: gives what was written up to sq.pi to the device, or
 * holds it */
void rnic_sq_publish(struct rnic_context *ctx, struct rnic_qp *qp);
static inline bool rnic_wqe_is_atomic(const struct rnic_sq_wqe *wqe)
{
    return wqe->opcode == RNIC_WR_FETCH_ADD || wqe->opcode == RNIC_WR_CMP_SWAP;
}
int rnic_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
                   struct ibv_send_wr **bad_wr);
int rnic_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
                   struct ibv_recv_wr **bad_wr);

/* post-ex.c: false: an operation that the device has not */
bool rnic_qp_ex_init(struct rnic_context *ctx, struct rnic_qp *qp,
                     uint64_t send_ops);

/* srq.c */
struct ibv_srq *rnic_create_srq(struct ibv_pd *pd,
                                struct ibv_srq_init_attr *attr);
int rnic_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr,
                    int attr_mask);
int rnic_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr);
int rnic_destroy_srq(struct ibv_srq *ibsrq);
int rnic_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
                       struct ibv_recv_wr **bad_wr);

#endif
