/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guests in this process: plain memory, a device, and a small driver that does
 * what the kernel driver and the provider do, by the rules of include/rnic/
 *
 * A test makes guests (th_guest_new() and th_start(), or th_guest_started()),
 * objects on them, and waits with th_wait(), which runs the engines of all
 * guests. Helpers assert that their commands succeed; th_admin() does not.
 * Everything here runs on the test's thread, except an engine that
 * th_engine_start() gave a thread of its own.
 */
#ifndef TESTS_CORE_HARNESS_H
#define TESTS_CORE_HARNESS_H

#include "device.h"
#include "rnic.h"

#define TH_PAGE       4096u
/* Where guest memory starts in DMA space: not where it is in this process */
#define TH_BASE       0x7f4000000000ull
#define TH_TIMEOUT_MS 60000
#define TH_PD         7
#define TH_ERRORS     4096

struct th_guest;

struct th_options {
    struct rnic_config config;
    size_t mem_size;
    /* dma_map returns as much as it can, else never across a page */
    bool whole_mappings;
    /* The device's host, called with the guest; NULL: one that checks every
     * mapping and takes every trace text */
    const struct rnic_host_ops *ops;
    /* Doorbells are rung on the engine's thread and served there at once */
    bool kicks;
    /* Called at each fence of the device: what the guest's processors stored
     * becomes visible now at the latest */
    void (*fence)(struct th_guest *guest);
    /* Called before each mapping and after each unmapping that the device
     * asked for; may change guest memory, and what the guest does on any
     * thread */
    void (*watch)(struct th_guest *guest, bool mapping, uint64_t addr,
                  uint64_t len, enum rnic_dma_dir dir);
};

struct th_eq {
    struct th_guest *guest;
    uint32_t eqn, vector, depth, ci;
    uint64_t addr; /* entries, then the doorbell record */
};

struct th_guest {
    rnic_device *dev;
    struct th_options options;

    int mem_fd;
    uint8_t *mem;
    size_t mem_used;
    GArray *holes;      /* struct th_range */
    GArray *mapped;     /* struct th_mapped: what the device holds */
    GPtrArray *views;   /* struct th_buf views to unmap */
    GPtrArray *objects; /* th_cq, th_srq, th_qp: freed with the guest */

    _Atomic unsigned irqs[RNIC_MAX_VECTORS];
    GMutex trace_lock;
    unsigned trace_count[RNIC_TRACE_COUNT];
    char trace_text[RNIC_TRACE_COUNT][512]; /* the last of each */
    const char *look_for; /* a part of a trace text; NULL: none */
    unsigned found;       /* how many had it */
    GPtrArray *errors;    /* texts of guest_error, the first TH_ERRORS */

    /* The driver */
    uint64_t asq, acq;
    uint32_t admin_depth, asq_pi, acq_ci;
    uint16_t next_cookie;
    GHashTable *completions; /* cookie -> struct rnic_acqe, not taken yet */
    uint64_t dbmap[RNIC_DB_PAGES]; /* DMA addresses, 0: no context */
    struct th_eq aeq, ceq;         /* EQ 0 on vector 0, EQ 1 on vector 1 */
    GQueue events;                 /* struct rnic_aeqe read and not taken */
    unsigned rings;                /* doorbells that had to be rung */
    uint32_t next_qpn, next_cqn, next_srqn, next_listen;

    GThread *thread; /* th_engine_start() */
    int stop_fd;
};

/* ---- Guests ---- */

/* Defaults for tests: a MAC, a fabric id that no other test process has, page
 * sized mappings */
void th_options_init(struct th_options *options);
/* NULL: the defaults */
struct th_guest *th_guest_new(const struct th_options *options);
/* th_guest_new() and th_start() */
struct th_guest *th_guest_started(const struct th_options *options);
/* Also asserts that the device holds no mapping */
void th_guest_free(struct th_guest *guest);

/* ---- Guest memory ---- */

/* Zeroed memory that is contiguous in DMA space; the DMA address */
uint64_t th_alloc(struct th_guest *guest, size_t size, size_t align);
/* The same octet as this process sees it; asserts that it is guest memory */
void *th_ptr(struct th_guest *guest, uint64_t addr);
/* [addr, addr + len) stops, or starts again, to be RAM for the device */
void th_make_hole(struct th_guest *guest, uint64_t addr, uint64_t len);
void th_fill_holes(struct th_guest *guest);

/* A buffer, seen as one range by the test */
struct th_buf {
    struct rnic_buf_desc desc;
    uint64_t dma; /* levels 0: its DMA address; else 0 */
    uint8_t *ptr;
    size_t len;
    uint64_t *pages; /* DMA addresses, levels > 0; the guest's */
};
/* @levels 0: contiguous. Else of scattered 4 KiB pages, with tables of that
 * many levels; it starts @first_offset octets into its first page. */
struct th_buf th_buf_new(struct th_guest *guest, size_t len, unsigned levels,
                         uint32_t first_offset);
void th_fill(uint8_t *ptr, size_t len, uint32_t seed);
/* Asserts that the octets are those of th_fill() */
void th_check_filled(const uint8_t *ptr, size_t len, uint32_t seed);

/* ---- The engine ---- */

/* Runs engines with work once, waiting up to @timeout_ms for some */
void th_step(int timeout_ms);
/* Runs engines for this long, and on until they rest */
void th_run_for(unsigned ms);
/* Runs them until they rest; that of @guest must come to rest, and soon */
void th_settle(struct th_guest *guest);
/* The device is ready, and answers a command */
void th_still_works(struct th_guest *guest);
uint64_t th_now_ms(void);
/* Runs engines until @condition holds; if it never does, the test fails */
#define th_wait(condition)                                                     \
    do {                                                                       \
        uint64_t th_end = th_now_ms() + TH_TIMEOUT_MS;                         \
        while (!(condition)) {                                                 \
            if (th_now_ms() > th_end) {                                        \
                g_error("%s:%d: waited too long for %s", __FILE__, __LINE__,   \
                        #condition);                                           \
            }                                                                  \
            th_step(20);                                                       \
        }                                                                      \
    } while (0)
/* Gives the guest's engine a thread of its own, until th_engine_stop() */
void th_engine_start(struct th_guest *guest);
void th_engine_stop(struct th_guest *guest);

/* ---- Registers and admin queue ---- */

uint32_t th_reg(struct th_guest *guest, unsigned offset);
void th_reg_set(struct th_guest *guest, unsigned offset, uint32_t value);
/* CTRL.RESET, and waits; the driver's state starts again too */
void th_reset(struct th_guest *guest);
/* Sets up the admin queue with this depth and waits for STATUS.READY */
void th_enable(struct th_guest *guest, uint32_t depth);
/* th_enable(), context 0, the AEQ and EQ 1 */
void th_start(struct th_guest *guest);

/* Submits; returns the cookie. Rings ASQ_DB. */
uint16_t th_admin_submit(struct th_guest *guest, const struct rnic_asqe *cmd);
/* True if the completion came; takes it */
bool th_admin_done(struct th_guest *guest, uint16_t cookie,
                   struct rnic_acqe *resp);
/* Submits and waits; @resp may be NULL. Returns enum rnic_admin_status */
unsigned th_admin(struct th_guest *guest, const struct rnic_asqe *cmd,
                  struct rnic_acqe *resp);
unsigned th_admin_id(struct th_guest *guest, enum rnic_admin_opcode opcode,
                     uint32_t id);

void th_uctx_new(struct th_guest *guest, uint32_t uctx);
uint64_t th_stat(struct th_guest *guest, enum rnic_stat stat);

/* ---- Event queues ---- */

void th_eq_new(struct th_guest *guest, struct th_eq *eq, uint32_t eqn,
               uint32_t vector, uint32_t depth);
/* The next entry of a CEQ, if there is one: its CQN; 0: none. Publishes ci. */
uint32_t th_ceq_poll(struct th_eq *eq);
/* The next entry of the AEQ */
bool th_aeq_poll(struct th_guest *guest, struct rnic_aeqe *event);
/* Asks for an interrupt with the next entry */
void th_eq_arm(struct th_eq *eq);
#define TH_ANY_ID UINT32_MAX
/* Whether an event of this type and id came; it is taken out. Others stay. */
bool th_event_take(struct th_guest *guest, enum rnic_event_type type,
                   uint32_t id, struct rnic_aeqe *event);
/* Waits for it; @event may be NULL */
void th_event_wait(struct th_guest *guest, enum rnic_event_type type,
                   uint32_t id, struct rnic_aeqe *event);
/* How many events wait to be taken, of any kind */
unsigned th_events(struct th_guest *guest);

/*
 * Queues: th_*_free() destroys the device's object; the struct itself lives as
 * long as the guest.
 */

/* ---- Completion queues ---- */

struct th_cq {
    struct th_guest *guest;
    uint32_t cqn, depth, ci, arm_sequence;
    uint64_t addr, dbrec; /* DMA addresses */
};
struct th_cq *th_cq_new(struct th_guest *guest, uint32_t depth);
struct th_cq *th_cq_new_on(struct th_guest *guest, uint32_t depth, uint32_t eqn,
                           uint32_t uctx);
void th_cq_free(struct th_cq *cq);
/* Takes the next CQE, if there is one, and publishes ci */
bool th_cq_poll(struct th_cq *cq, struct rnic_cqe *cqe);
void th_cq_wait(struct th_cq *cq, struct rnic_cqe *cqe);
/* @kind: RNIC_CQ_ARM_*. Returns true if an entry is there already */
bool th_cq_arm(struct th_cq *cq, uint32_t kind);

/* ---- Shared receive queues ---- */

struct th_srq {
    struct th_guest *guest;
    uint32_t srqn, depth, stride, pi;
    uint64_t addr, dbrec;
};
struct th_srq *th_srq_new(struct th_guest *guest, uint32_t depth,
                          uint32_t limit);
void th_srq_free(struct th_srq *srq);
void th_srq_post(struct th_srq *srq, uint64_t wr_id, const struct rnic_sge *sge,
                 unsigned num_sge);

/* ---- Queue pairs ---- */

struct th_qp_attr {
    uint32_t pdn, uctx, flags; /* flags: RNIC_QP_* */
    uint32_t sq_depth, rq_depth;
    uint16_t sq_stride, rq_stride;
    struct th_cq *send_cq, *recv_cq;
    struct th_srq *srq; /* then rq_depth is ignored */
};

struct th_qp {
    struct th_guest *guest;
    uint32_t qpn;
    struct th_qp_attr attr;
    uint32_t sq_pi, rq_pi;
    uint64_t sq, rq, dbrec, status;
    bool own_cqs;
};
/* 64 entries each, TH_PD, context 0; CQs to be set */
void th_qp_attr_init(struct th_qp_attr *attr);
/* NULL: the defaults with CQs of its own. CQs that are NULL are made. */
struct th_qp *th_qp_new(struct th_guest *guest, const struct th_qp_attr *attr);
/* DESTROY_QP, and its own CQs */
void th_qp_free(struct th_qp *qp);
/* As the device published it */
enum rnic_qp_state th_qp_state(struct th_qp *qp);
bool th_qp_gated(struct th_qp *qp);
unsigned th_qp_modify(struct th_qp *qp, enum rnic_qp_state state);

/* A work request for the SQ */
struct th_wr {
    enum rnic_wr_opcode opcode;
    unsigned flags; /* RNIC_WQE_* but INLINE */
    uint64_t wr_id;
    struct rnic_sge sge[RNIC_MAX_SGE];
    unsigned num_sge;
    const void *inline_data;
    uint32_t inline_len;
    uint32_t remote_stag;
    uint64_t remote_to;
    uint32_t inv_stag;
    uint8_t imm[4]; /* IMM, WRITE_IMM */
    /* Atomics; mask: of what is added or swapped in */
    uint64_t data, mask, compare, compare_mask;
    struct rnic_reg_wqe reg; /* RNIC_WR_REG_MR: all but the common fields */
};
/* Writes WQEs and publishes nothing */
void th_write_send(struct th_qp *qp, const struct th_wr *wr, unsigned count);
/* Writes WQEs, publishes the index once, rings if the rules say so */
void th_post_send(struct th_qp *qp, const struct th_wr *wr, unsigned count);
/* Writes and publishes without ringing; th_ring() does that */
void th_post_send_quiet(struct th_qp *qp, const struct th_wr *wr,
                        unsigned count);
void th_ring(struct th_guest *guest, uint32_t uctx, uint32_t qpn);
void th_post_recv(struct th_qp *qp, uint64_t wr_id, const struct rnic_sge *sge,
                  unsigned num_sge);

/* ---- Memory regions ---- */

struct rnic_sge th_sge(uint32_t stag, uint64_t to, uint32_t len);
/* REG_MR with TO @iova; the STag */
uint32_t th_reg_mr(struct th_guest *guest, const struct th_buf *buf,
                   uint64_t iova, uint32_t access);
void th_dereg_mr(struct th_guest *guest, uint32_t stag);

/* ---- Connections ---- */

/* "10.0.0.1" or "fd00::1"; port in host order */
struct rnic_sockaddr th_sockaddr(const char *address, uint16_t port);
/* ADDR_ADD, ADDR_DEL with the prefix length that is usual */
unsigned th_addr_add(struct th_guest *guest, const char *address);
unsigned th_addr_del(struct th_guest *guest, const char *address);
/* LISTEN; the listener's id and port */
uint32_t th_listen(struct th_guest *guest, const char *address, uint16_t port,
                   unsigned backlog, uint16_t *bound);

struct th_connect {
    uint16_t ird, ord;
    const void *pdata;
    uint16_t pdata_len;
};
/* CONNECT, ACCEPT, REJECT; each returns the command's status. @params NULL: an
 * IRD and ORD of 16, no private data */
unsigned th_connect(struct th_qp *qp, const struct rnic_sockaddr *local,
                    const struct rnic_sockaddr *remote,
                    const struct th_connect *params);
unsigned th_accept(struct th_qp *qp, uint32_t conn_id,
                   const struct th_connect *params);
unsigned th_reject(struct th_guest *guest, uint32_t conn_id,
                   const struct th_connect *params);
/*
 * Connects @client to @server, whose guests have these addresses (added here if
 * they are not yet), and takes the events up to ESTABLISHED and CONNECT_REPLY.
 */
void th_connect_pair(struct th_qp *client, const char *client_address,
                     struct th_qp *server, const char *server_address,
                     const struct th_connect *params);

#endif
