/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rnic-notify: COUNT messages from a client to a server, with completions taken
 * in one of several ways, for measuring what each costs
 *
 * Both ends say "ready" when all is set up, wait for a line on standard input,
 * exchange the messages, say "done", and wait for a line again: whoever reads
 * the device's counters at these moments sees the messages' costs only.
 */
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE          64
#define PORT          "7471"
/* solicited: each so manieth is; unsignalled, write: each so manieth is not */
#define SOLICIT_EVERY 10
#define SIGNAL_EVERY  100
/* moderated: an event after so many completions, or as many microseconds */
#define HOLD_COUNT    16
#define HOLD_PERIOD   60000

enum mode {
    POLLED,
    EVENT,
    SOLICITED,
    UNSIGNALLED,
    MODERATED,
    WRITE,
};

static const char *const modes[] = {
    [POLLED] = "polled",       [EVENT] = "event",
    [SOLICITED] = "solicited", [UNSIGNALLED] = "unsignalled",
    [MODERATED] = "moderated", [WRITE] = "write",
};

/* What each tells the other: where its flag is */
struct flag_place {
    uint64_t addr;
    uint32_t rkey;
};

struct end {
    enum mode mode;
    unsigned count;
    bool client;
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_mr *mr;
    struct flag_place peer;
    unsigned events;
    unsigned completions;
};

/* Registered: what is sent or received, and a word that the peer writes */
static struct {
    uint8_t data[SIZE];
    _Atomic uint64_t flag;
    uint64_t value; /* for the peer's flag */
} memory __attribute__((aligned(4096)));

static void die(const char *what)
{
    fprintf(stderr, "rnic-notify: %s: %s\n", what,
            errno ? strerror(errno) : "failed");
    exit(1);
}

#define CHECK(what) ((what) ? (void)0 : die(#what))

/* ---- Set-up ---- */

static void make_objects(struct end *e)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = e->count,
                 .max_recv_wr = e->count,
                 .max_send_sge = 1,
                 .max_recv_sge = 1 },
    };
    struct ibv_context *verbs = e->id->verbs;

    CHECK(e->pd = ibv_alloc_pd(verbs));
    CHECK(e->channel = ibv_create_comp_channel(verbs));
    CHECK(e->send_cq = ibv_create_cq(verbs, e->count, e, e->channel, 0));
    CHECK(e->recv_cq = ibv_create_cq(verbs, e->count, e, e->channel, 0));
    attr.send_cq = e->send_cq;
    attr.recv_cq = e->recv_cq;
    CHECK(!rdma_create_qp(e->id, e->pd, &attr));
    CHECK(e->mr = ibv_reg_mr(e->pd, &memory, sizeof(memory),
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
}

static void post_receives(struct end *e)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)memory.data,
        .length = SIZE,
        .lkey = e->mr->lkey,
    };
    struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
    unsigned i;

    for (i = 0; i < e->count; i++) {
        CHECK(!ibv_post_recv(e->id->qp, &wr, &bad));
    }
}

static struct rdma_addrinfo *resolve(const char *address, bool passive)
{
    struct rdma_addrinfo hints = {
        .ai_port_space = RDMA_PS_TCP,
        .ai_flags = passive ? RAI_PASSIVE : 0,
    };
    struct rdma_addrinfo *info;

    CHECK(!rdma_getaddrinfo(address, PORT, &hints, &info));
    return info;
}

/* The connection's parameters carry a struct flag_place */
static void connect_to(struct end *e, const char *address)
{
    struct rdma_addrinfo *info = resolve(address, false);
    struct flag_place mine;
    struct rdma_conn_param param = {
        .private_data = &mine,
        .private_data_len = sizeof(mine),
        .responder_resources = 1,
        .initiator_depth = 1,
    };

    CHECK(!rdma_create_ep(&e->id, info, NULL, NULL));
    make_objects(e);
    mine.addr = (uintptr_t)&memory.flag;
    mine.rkey = e->mr->rkey;
    CHECK(!rdma_connect(e->id, &param));
    CHECK(e->id->event->param.conn.private_data_len >= sizeof(e->peer));
    memcpy(&e->peer, e->id->event->param.conn.private_data, sizeof(e->peer));
}

static void accept_one(struct end *e, const char *address)
{
    struct rdma_addrinfo *info = resolve(address, true);
    struct rdma_cm_id *listener;
    struct flag_place mine;
    struct rdma_conn_param param = {
        .private_data = &mine,
        .private_data_len = sizeof(mine),
        .responder_resources = 1,
        .initiator_depth = 1,
    };

    CHECK(!rdma_create_ep(&listener, info, NULL, NULL));
    CHECK(!rdma_listen(listener, 1));
    puts("listening");
    CHECK(!rdma_get_request(listener, &e->id));
    CHECK(e->id->event->param.conn.private_data_len >= sizeof(e->peer));
    memcpy(&e->peer, e->id->event->param.conn.private_data, sizeof(e->peer));
    make_objects(e);
    post_receives(e);
    mine.addr = (uintptr_t)&memory.flag;
    mine.rkey = e->mr->rkey;
    CHECK(!rdma_accept(e->id, &param));
}

/* ---- Completions ---- */

/* What is there; how many they were */
static unsigned drain(struct end *e, struct ibv_cq *cq)
{
    unsigned taken = 0;
    struct ibv_wc wc;
    int n;

    while ((n = ibv_poll_cq(cq, 1, &wc)) > 0) {
        if (wc.status != IBV_WC_SUCCESS) {
            fprintf(stderr, "rnic-notify: %s\n", ibv_wc_status_str(wc.status));
            exit(1);
        }
        taken++;
    }
    CHECK(n == 0);
    e->completions += taken;
    return taken;
}

static void poll_for(struct end *e, struct ibv_cq *cq, unsigned count)
{
    while (count) {
        unsigned taken = drain(e, cq);

        CHECK(taken <= count);
        count -= taken;
    }
}

static void wait_event(struct end *e)
{
    struct ibv_cq *cq;
    void *context;

    CHECK(!ibv_get_cq_event(e->channel, &cq, &context));
    ibv_ack_cq_events(cq, 1);
    e->events++;
}

/* Takes @count completions, sleeping between them. The CQ is armed already. */
static void wait_for(struct end *e, struct ibv_cq *cq, unsigned count,
                     bool solicited, void (*each)(struct end *))
{
    while (count) {
        unsigned taken;

        wait_event(e);
        CHECK(!ibv_req_notify_cq(cq, solicited));
        taken = drain(e, cq);
        CHECK(taken <= count);
        count -= taken;
        if (each) {
            each(e);
        }
    }
}

/* ---- Messages ---- */

static void post(struct end *e, enum ibv_wr_opcode opcode, int flags,
                 void *addr, uint32_t length)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)addr,
        .length = length,
        .lkey = e->mr->lkey,
    };
    struct ibv_send_wr wr = {
        .opcode = opcode,
        .send_flags = flags,
        .sg_list = &sge,
        .num_sge = 1,
        .wr.rdma = { .remote_addr = e->peer.addr, .rkey = e->peer.rkey },
    };
    struct ibv_send_wr *bad;

    CHECK(!ibv_post_send(e->id->qp, &wr, &bad));
}

/* Tells the peer by a Write, which wakes nobody */
static void raise_flag(struct end *e)
{
    memory.value++;
    post(e, IBV_WR_RDMA_WRITE, 0, &memory.value, sizeof(memory.value));
}

static void client(struct end *e)
{
    unsigned i;

    if (e->mode == EVENT) {
        CHECK(!ibv_req_notify_cq(e->send_cq, 0));
    }
    for (i = 1; i <= e->count; i++) {
        bool signal = (e->mode != UNSIGNALLED && e->mode != WRITE) ||
                      i % SIGNAL_EVERY == 0;
        int flags = signal ? IBV_SEND_SIGNALED : 0;

        if (e->mode == WRITE) {
            memory.value = i;
            post(e, IBV_WR_RDMA_WRITE, flags, &memory.value,
                 sizeof(memory.value));
        } else {
            if (e->mode == SOLICITED && i % SOLICIT_EVERY == 0) {
                flags |= IBV_SEND_SOLICITED;
            }
            post(e, IBV_WR_SEND, flags, memory.data, SIZE);
        }
        if (e->mode == EVENT) {
            wait_for(e, e->send_cq, 1, false, NULL);
        } else if (signal) {
            poll_for(e, e->send_cq, 1);
        }
        if (flags & IBV_SEND_SOLICITED) {
            /* Until the server has seen it: so the next is an event too */
            while (memory.flag < i / SOLICIT_EVERY) {
            }
        }
    }
}

static void server_arm(struct end *e)
{
    struct ibv_modify_cq_attr moderation = {
        .attr_mask = IBV_CQ_ATTR_MODERATE,
        .moderate = { .cq_count = HOLD_COUNT, .cq_period = HOLD_PERIOD },
    };

    if (e->mode == MODERATED) {
        CHECK(!ibv_modify_cq(e->recv_cq, &moderation));
    }
    if (e->mode == EVENT || e->mode == SOLICITED || e->mode == MODERATED ||
        e->mode == WRITE) {
        CHECK(!ibv_req_notify_cq(e->recv_cq, e->mode == SOLICITED));
    }
}

static void server(struct end *e)
{
    switch (e->mode) {
    case EVENT:
    case MODERATED:
        wait_for(e, e->recv_cq, e->count, false, NULL);
        break;
    case SOLICITED:
        wait_for(e, e->recv_cq, e->count, true, raise_flag);
        break;
    case WRITE:
        while (memory.flag < e->count) {
        }
        CHECK(drain(e, e->recv_cq) == 0);
        break;
    default:
        poll_for(e, e->recv_cq, e->count);
        break;
    }
}

static void wait_line(void)
{
    char line[16];

    CHECK(fgets(line, sizeof(line), stdin));
}

int main(int argc, char **argv)
{
    struct end e = {};
    unsigned m;

    if (argc != 5 || (strcmp(argv[1], "server") && strcmp(argv[1], "client"))) {
        fputs("usage: rnic-notify server|client ADDR MODE COUNT\n", stderr);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    e.client = !strcmp(argv[1], "client");
    for (m = 0; strcmp(modes[m], argv[3]); m++) {
        CHECK(m + 1 < sizeof(modes) / sizeof(*modes));
    }
    e.mode = m;
    e.count = atoi(argv[4]);
    if (e.client) {
        connect_to(&e, argv[2]);
    } else {
        accept_one(&e, argv[2]);
        server_arm(&e);
    }
    printf("ready, qpn %u\n", e.id->qp->qp_num);
    wait_line();
    (e.client ? client : server)(&e);
    printf("done, %u events, %u completions\n", e.events, e.completions);
    wait_line();
    return 0;
}
