/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The device: its tables, event loop, timers, trace and statistics
 *
 * Everything here belongs to the engine's thread, except what is marked
 * [any]. There is no global state.
 */
#ifndef RNIC_DEVICE_H
#define RNIC_DEVICE_H

#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/uio.h>
#include "rnic.h"
#include "rnic/admin.h"
#include "rnic/cqe.h"
#include "rnic/event.h"
#include "rnic/regs.h"
#include "rnic/wqe.h"

struct rnic_cm;
struct rnic_addrs;
struct rnic_capture;
struct rnic_mr_table;
struct rnic_qp;
struct rnic_netq;

/* The object of @type whose @member @ptr points to */
#define rnic_owner(ptr, type, member)                                          \
    ((type *)((char *)(ptr)-offsetof(type, member)))

/* ---- Event loop ---- */

/* A watched file descriptor, embedded in its owner */
struct rnic_source {
    int fd;
    uint32_t events; /* EPOLLIN | EPOLLOUT wanted; 0: none */
    bool added;
    void (*ready)(struct rnic_source *source, uint32_t events);
    struct rnic_device *dev;
};

/* Starts watching. @source stays valid until rnic_source_remove(). */
bool rnic_source_add(struct rnic_device *dev, struct rnic_source *source,
                     int fd, uint32_t events,
                     void (*ready)(struct rnic_source *, uint32_t));
void rnic_source_set(struct rnic_source *source, uint32_t events);
/*
 * Stops watching; does not close the descriptor. The loop makes no call for
 * @source after this, not even for events that epoll already returned, so the
 * owner may be freed at once.
 */
void rnic_source_remove(struct rnic_source *source);

struct rnic_timer {
    uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: not armed */
    void (*expired)(struct rnic_timer *timer);
    GSequenceIter *iter;
    struct rnic_device *dev;
};

/* (Re)arms; one shot */
void rnic_timer_arm(struct rnic_device *dev, struct rnic_timer *timer,
                    uint64_t after_us, void (*expired)(struct rnic_timer *));
void rnic_timer_cancel(struct rnic_timer *timer);
/* The time until rnic_timers_go_on() does not count for timers */
void rnic_timers_stop(struct rnic_device *dev);
void rnic_timers_go_on(struct rnic_device *dev);
uint64_t rnic_now_ns(void);

/* ---- Guest memory ---- */

/* Copies; false if any octet is not RAM (then nothing or a part was copied) */
bool rnic_dma_read(struct rnic_device *dev, uint64_t addr, void *to,
                   size_t len);
bool rnic_dma_write(struct rnic_device *dev, uint64_t addr, const void *from,
                    size_t len);
/* One aligned 32-bit word, loaded with acquire or stored with release order */
bool rnic_dma_load32(struct rnic_device *dev, uint64_t addr, uint32_t *value);
bool rnic_dma_store32(struct rnic_device *dev, uint64_t addr, uint32_t value);
/*
 * Between a store that the guest looks for and a load of what it stores before
 * it looks: one of the two sides sees what the other one did
 */
void rnic_dma_fence(struct rnic_device *dev);
/* Whether [addr, addr + len) is RAM for this direction; touches nothing */
bool rnic_dma_probe(struct rnic_device *dev, uint64_t addr, uint64_t len,
                    enum rnic_dma_dir dir);

/*
 * A guest buffer that a rnic_buf_desc named: its page list, read once. Private
 * copy; addresses are DMA addresses, checked again by the host at each use.
 */
struct rnic_buf {
    uint64_t length;
    uint64_t first_offset;
    unsigned page_shift; /* 63 for a contiguous buffer */
    uint64_t num_pages;
    uint64_t *pages; /* owned */
    struct rnic_device *dev;
};

/* A ring and its doorbell record are never larger than this */
#define RNIC_MAX_RING_SIZE (1ull << 28)
/* Page list entries that all buffers and regions of a device hold together:
 * bounds the host memory that a guest can ask for */
#define RNIC_MAX_BUF_PAGES (1ull << 25)

/* Reads the page list; RNIC_ADMIN_OK, or why not. @max_len bounds it. */
enum rnic_admin_status rnic_buf_init(struct rnic_device *dev,
                                     struct rnic_buf *buf,
                                     const struct rnic_buf_desc *desc,
                                     uint64_t max_len);
void rnic_buf_clear(struct rnic_buf *buf);
/*
 * rnic_buf_init() for a ring with @entries octets of entries at 0: also checks
 * that the buffer and @dbrec_offset are 64-octet aligned, and that the entries
 * and the doorbell record lie within it and apart.
 */
enum rnic_admin_status rnic_buf_init_ring(struct rnic_device *dev,
                                          struct rnic_buf *buf,
                                          const struct rnic_buf_desc *desc,
                                          uint64_t entries,
                                          uint64_t dbrec_offset);
/* DMA address of octet @offset (< length); *@contig: octets from there on that
 * are contiguous in DMA space */
uint64_t rnic_buf_addr(const struct rnic_buf *buf, uint64_t offset,
                       uint64_t *contig);
bool rnic_buf_read(struct rnic_device *dev, const struct rnic_buf *buf,
                   uint64_t offset, void *to, size_t len);
bool rnic_buf_write(struct rnic_device *dev, const struct rnic_buf *buf,
                    uint64_t offset, const void *from, size_t len);
/* Writes an entry that ends in its phase: its last 32-bit word is stored last,
 * with release order. @offset and @len are multiples of 4. */
bool rnic_buf_publish(struct rnic_device *dev, const struct rnic_buf *buf,
                      uint64_t offset, const void *entry, size_t len);
/* One aligned 32-bit word, loaded with acquire order */
bool rnic_buf_load32(struct rnic_device *dev, const struct rnic_buf *buf,
                     uint64_t offset, uint32_t *value);

/* ---- The device ---- */

#define RNIC_MAX_QP       16384
#define RNIC_MAX_CQ       32768
#define RNIC_MAX_SRQ      4096
#define RNIC_MAX_EQ       65
#define RNIC_MAX_MR       131072
#define RNIC_MAX_PD       16384
#define RNIC_MAX_LISTEN   1024
#define RNIC_MAX_QP_WR    32768
#define RNIC_MAX_CQE      4194304
#define RNIC_MAX_SGE      16
#define RNIC_MAX_INLINE   480
#define RNIC_MAX_IRD      128
#define RNIC_MAX_ORD      128
#define RNIC_MAX_MR_SIZE  (1ull << 40)
#define RNIC_MAX_FR_PAGES 1024
#define RNIC_MAX_MSG_SIZE (1u << 31)
#define RNIC_MAX_PDATA    508
#define RNIC_MAX_BACKLOG  1024
#define RNIC_MAX_ADDR     64
#define RNIC_MAX_EQ_DEPTH 65536

struct rnic_uctx {
    uint32_t id;
    uint64_t dbmap; /* DMA address */
    unsigned refs;  /* QPs, CQs, SRQs of this context */
};

struct rnic_eq {
    uint32_t eqn;
    uint32_t vector;
    uint32_t depth;
    uint32_t dbrec_offset;
    uint32_t pi; /* free-running */
    uint32_t ci; /* as last read; only trusted for fullness */
    bool ci_bad; /* told_ci was out of range, and was told */
    uint32_t told_ci;
    unsigned refs; /* CQs */
    struct rnic_buf buf;
};

struct rnic_cq {
    uint32_t cqn;
    uint32_t depth;
    uint32_t dbrec_offset;
    uint32_t pi;
    uint32_t ci;        /* as last read */
    uint32_t fired;     /* arm word of the last event */
    uint32_t ceq_index; /* EQ index of the last event's entry */
    bool ceqe_written;  /* ceq_index is valid */
    bool overflowed;
    unsigned refs; /* QPs, once for send and once for receive */
    uint16_t mod_count, mod_period_us;
    uint32_t mod_pending; /* CQEs held back by moderation */
    uint32_t mod_arm;     /* arm word that they matched */
    struct rnic_timer mod_timer;
    struct rnic_timer hold_timer; /* an event waits for room in the EQ */
    uint32_t event_qpn; /* whose completion brings the next event about */
    struct rnic_cq_counters counters;
    struct rnic_eq *eq;
    struct rnic_uctx *uctx;
    struct rnic_buf buf;
    struct rnic_device *dev;
};

struct rnic_srq {
    uint32_t srqn;
    uint32_t pdn;
    uint32_t depth;
    uint32_t stride;
    uint32_t dbrec_offset;
    uint32_t pi; /* as last read and checked */
    uint32_t ci;
    uint32_t limit; /* 0: off */
    bool failed;
    unsigned refs;
    struct rnic_uctx *uctx;
    struct rnic_buf buf;
};

struct rnic_device {
    struct rnic_config config; /* strings owned */
    const struct rnic_host_ops *ops;
    void *opaque;

    _Atomic uint32_t regs[RNIC_BAR_REGS_SIZE / 4]; /* [any] */
    _Atomic uint64_t stats[RNIC_STAT_COUNT];       /* [any] */
    /* Doorbell pages that were written, a bit each; taken by the engine */
    _Atomic uint64_t kicked[RNIC_DB_PAGES / 64]; /* [any] */
    /* Why the engine was woken: RNIC_WORK_* */
    _Atomic uint32_t work; /* [any] */
    /* Resets that the guest asked for, and that were done: STATUS.RESETTING
     * while they differ */
    _Atomic uint32_t resets_wanted, resets_done; /* [any] */

    int epoll_fd;
    int event_fd; /* kick from other threads */
    int timer_fd;
    bool quiesced;
    bool ready; /* STATUS.READY, the engine's own copy */

    struct rnic_uctx *uctx[RNIC_DB_PAGES];
    struct rnic_eq *eqs[RNIC_MAX_EQ];
    struct rnic_cq *cqs[RNIC_MAX_CQ];
    struct rnic_srq *srqs[RNIC_MAX_SRQ];
    struct rnic_qp *qps[RNIC_MAX_QP];
    struct rnic_mr_table *mrs;
    uint64_t buf_pages;           /* see RNIC_MAX_BUF_PAGES */
    struct rnic_addrs *addrs;     /* net/addr.h */
    struct rnic_cm *cm;           /* cm.h */
    struct rnic_capture *capture; /* net/capture.h; NULL: none */
    struct rnic_netq *netq;       /* netq.h; NULL: none */

    GQueue tx_ready; /* struct rnic_qp with work to send */
    struct rnic_timer
        scan_timer;     /* private to sq-scan.c, as are the next two */
    uint32_t scan_next; /* QPN to go on with */
    bool scan_found;    /* the pass has met a QP */
    GQueue draining;    /* private to net/stream.c */
    struct rnic_qp_scratch *qp_scratch; /* private to the QP's files */

    struct rnic_loop *loop;   /* private to loop.c */
    struct rnic_admin *admin; /* private to admin.c */
    struct rnic_aeq *aeq;     /* private to eq.c: events that wait for room */
};

/* rnic_device.work */
#define RNIC_WORK_CTRL     (1u << 0) /* CTRL.ENABLE or RESET was written */
#define RNIC_WORK_ADMIN    (1u << 1) /* ASQ_DB was written */
#define RNIC_WORK_DOORBELL (1u << 2) /* see kicked */

/* [any] */
static inline void rnic_stat_add(struct rnic_device *dev, enum rnic_stat stat,
                                 uint64_t n)
{
    atomic_fetch_add_explicit(&dev->stats[stat], n, memory_order_relaxed);
}

static inline void rnic_stat_inc(struct rnic_device *dev, enum rnic_stat stat)
{
    rnic_stat_add(dev, stat, 1);
}

/* For a counter that only the engine changes: no locked instruction */
static inline void rnic_stat_own(struct rnic_device *dev, enum rnic_stat stat,
                                 uint64_t n)
{
    n += atomic_load_explicit(&dev->stats[stat], memory_order_relaxed);
    atomic_store_explicit(&dev->stats[stat], n, memory_order_relaxed);
}

/* [any] Makes the text only if someone listens */
#define rnic_trace(dev, event, ...)                                            \
    do {                                                                       \
        if ((dev)->ops->trace_enabled((dev)->opaque, RNIC_TRACE_##event)) {    \
            rnic_trace_text(dev, RNIC_TRACE_##event, __VA_ARGS__);             \
        }                                                                      \
    } while (0)
void rnic_trace_text(struct rnic_device *dev, enum rnic_trace_event event,
                     const char *format, ...) G_GNUC_PRINTF(3, 4);

/* [any] Counts and traces an error of the guest */
#define rnic_guest_error(dev, ...)                                             \
    do {                                                                       \
        rnic_stat_inc(dev, RNIC_STAT_guest_errors);                            \
        rnic_trace(dev, guest_error, __VA_ARGS__);                             \
    } while (0)

/* ---- loop.c ---- */
bool rnic_loop_init(struct rnic_device *dev, GError **error);
void rnic_loop_fini(struct rnic_device *dev);
/* [any] Sets bits of dev->work and wakes the engine once */
void rnic_loop_wake(struct rnic_device *dev, uint32_t work);
/* [any] Makes the descriptor readable */
void rnic_loop_poke(struct rnic_device *dev);

/* ---- regs.c ---- */
/* The registers as after power on */
void rnic_regs_reset(struct rnic_device *dev);
static inline uint32_t rnic_reg_get(struct rnic_device *dev, unsigned offset)
{
    return atomic_load_explicit(&dev->regs[offset / 4], memory_order_acquire);
}
static inline void rnic_reg_set(struct rnic_device *dev, unsigned offset,
                                uint32_t value)
{
    atomic_store_explicit(&dev->regs[offset / 4], value, memory_order_release);
}

/* ---- admin.c ---- */
void rnic_admin_init(struct rnic_device *dev);
void rnic_admin_fini(struct rnic_device *dev);
/* Takes over ring addresses and depth; false: fatal, see RNIC_REG_ERROR */
bool rnic_admin_enable(struct rnic_device *dev);
void rnic_admin_disable(struct rnic_device *dev);
/* Runs commands up to ASQ_DB; true if it stopped early to let others work */
bool rnic_admin_run(struct rnic_device *dev);
/* In words; also used in traces of others */
const char *rnic_admin_status_name(enum rnic_admin_status status);

/* ---- device.c ---- */
/* STATUS.FATAL; may be called deep in the data path, so nothing is freed */
void rnic_device_fatal(struct rnic_device *dev, enum rnic_dev_error error);
/* CTRL was written: enables, or resets */
void rnic_device_ctrl(struct rnic_device *dev);

/* ---- uctx.c: contexts and doorbells ---- */
enum rnic_admin_status rnic_uctx_create(struct rnic_device *dev,
                                        const struct rnic_cmd_uctx *cmd);
enum rnic_admin_status rnic_uctx_destroy(struct rnic_device *dev, uint32_t id);
struct rnic_uctx *rnic_uctx_find(struct rnic_device *dev, uint32_t id);
void rnic_uctx_reset_all(struct rnic_device *dev);
/* Looks at the bitmaps of the kicked pages; calls rnic_qp_kick() */
void rnic_uctx_run(struct rnic_device *dev);

/* ---- sq-scan.c ---- */
/* A QP was made: scans from now on, while there are any, if so configured */
void rnic_scan_start(struct rnic_device *dev);
void rnic_scan_stop(struct rnic_device *dev);

/* ---- eq.c ---- */
enum rnic_admin_status rnic_eq_create(struct rnic_device *dev,
                                      const struct rnic_cmd_create_eq *cmd);
enum rnic_admin_status rnic_eq_destroy(struct rnic_device *dev, uint32_t eqn);
void rnic_eq_init(struct rnic_device *dev);
void rnic_eq_fini(struct rnic_device *dev);
/* Frees all EQs and the events that wait for room */
void rnic_eq_reset_all(struct rnic_device *dev);
/*
 * Writes an asynchronous event; the phase is set here. If the AEQ is full or
 * missing, keeps a copy of it and tries again later (a timer, and each admin
 * command); order is kept. Bounded: callers make a bounded number of events an
 * object, and rnic_aeq_forget() drops those of an object that goes away.
 */
void rnic_aeq_post(struct rnic_device *dev, const struct rnic_aeqe *event);
/* Drops kept events: those of a QP if @is_qp, else those of a listener */
void rnic_aeq_forget(struct rnic_device *dev, bool is_qp, uint32_t id);
/* Drops kept events of one type */
void rnic_aeq_forget_type(struct rnic_device *dev, enum rnic_event_type type,
                          uint32_t id);
void rnic_aeq_forget_all(struct rnic_device *dev);
/* Writes kept events while there is room */
void rnic_aeq_retry(struct rnic_device *dev);
/*
 * Writes a CEQE for @cq and interrupts. While an earlier one of it is not yet
 * consumed, or the EQ is full, the event is held and tried again by a timer.
 */
void rnic_ceq_post(struct rnic_device *dev, struct rnic_cq *cq);
void rnic_irq(struct rnic_device *dev, unsigned vector);

/* ---- cq.c ---- */
enum rnic_admin_status rnic_cq_create(struct rnic_device *dev,
                                      const struct rnic_cmd_create_cq *cmd);
enum rnic_admin_status rnic_cq_modify(struct rnic_device *dev,
                                      const struct rnic_cmd_modify_cq *cmd);
enum rnic_admin_status rnic_cq_query(struct rnic_device *dev, uint32_t cqn,
                                     struct rnic_resp_query_cq *resp);
enum rnic_admin_status rnic_cq_destroy(struct rnic_device *dev, uint32_t cqn);
/* NULL: no such CQ */
struct rnic_cq *rnic_cq_find(struct rnic_device *dev, uint32_t cqn);
void rnic_cq_reset_all(struct rnic_device *dev);
/*
 * Writes a CQE (phase set here), counts, then serves arming and moderation.
 * On overflow raises CQ_ERR once and returns false; the caller then fails the
 * QP (and must bear that its flush completions do not arrive either).
 */
bool rnic_cq_post(struct rnic_device *dev, struct rnic_cq *cq,
                  const struct rnic_cqe *cqe);

/* ---- srq.c ---- */
enum rnic_admin_status rnic_srq_create(struct rnic_device *dev,
                                       const struct rnic_cmd_create_srq *cmd);
enum rnic_admin_status rnic_srq_modify(struct rnic_device *dev,
                                       const struct rnic_cmd_modify_srq *cmd);
enum rnic_admin_status rnic_srq_query(struct rnic_device *dev, uint32_t srqn,
                                      struct rnic_resp_query_srq *resp);
enum rnic_admin_status rnic_srq_destroy(struct rnic_device *dev, uint32_t srqn);
/* NULL: no such SRQ */
struct rnic_srq *rnic_srq_find(struct rnic_device *dev, uint32_t srqn);
void rnic_srq_reset_all(struct rnic_device *dev);
/*
 * Takes the next receive WQE into @wqe (RNIC_WQE_STRIDE_MAX octets, copied
 * once); its index into *@index. False if none is posted or the SRQ failed (a
 * producer index more than depth ahead, not RAM: SRQ_ERR once). Raises
 * SRQ_LIMIT once when fewer than limit are left.
 */
bool rnic_srq_take(struct rnic_device *dev, struct rnic_srq *srq, void *wqe,
                   uint32_t *index);

#endif
