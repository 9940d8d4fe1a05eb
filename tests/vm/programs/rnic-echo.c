/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rnic-echo: a user program for a peer that misbehaves
 *
 *   rnic-echo listen ADDRESS PORT
 *   rnic-echo connect ADDRESS PORT COUNT
 *
 * Sends back each message that it gets, on any number of connections, until
 * its peer closes; as initiator it makes COUNT connections, one after the
 * other, and says something first. The private data of its accept or connect
 * tells the peer a region: its STag (4 octets) and address (8), big-endian.
 *
 * Prints a line for each event of a connection, numbered from 1 (0: the
 * listener), and one when it is over: what was posted, what became of it, and
 * whether an octet around the region or of the receives has changed.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RECEIVES 8
#define RECV_LEN 256
#define REGION   16384
#define GUARD    4096
#define CANARY   0xc3
#define FLUSH_MS 60000

static const char hello[] = "hello from the guest";

/* One connection. Its memory: guard, region, guard, receives, guard */
struct conn {
    struct conn *next;
    unsigned number;
    struct rdma_cm_id *id;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_pd *pd;
    uint8_t *memory;
    struct ibv_mr *region, *receives;
    bool initiator, over;
    unsigned recvs_posted, recvs, recvs_flushed;
    unsigned sends_posted, sends, sends_flushed, failed;
};

static struct conn *conns;
static unsigned connections;
static struct rdma_event_channel *events;

static void die(const char *what)
{
    fprintf(stderr, "rnic-echo: %s: %s\n", what, strerror(errno));
    exit(2);
}

static uint64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static uint8_t *recv_at(struct conn *c, unsigned i)
{
    return c->memory + GUARD + REGION + GUARD + i * RECV_LEN;
}

static void post_recv(struct conn *c, unsigned i)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)recv_at(c, i),
        .length = RECV_LEN,
        .lkey = c->receives->lkey,
    };
    struct ibv_recv_wr *bad, wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

    /* Once the connection has ended it fails, or completes as flushed */
    c->recvs_posted += !ibv_post_recv(c->id->qp, &wr, &bad);
}

/* From the buffer of receive @i, which is posted again when it has gone */
static void post_send(struct conn *c, unsigned i, uint32_t len)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)recv_at(c, i),
        .length = len,
        .lkey = c->receives->lkey,
    };
    struct ibv_send_wr *bad, wr = {
        .wr_id = RECEIVES + i,
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
    };

    c->sends_posted += !ibv_post_send(c->id->qp, &wr, &bad);
}

static void reap(struct conn *c)
{
    struct ibv_wc wc;

    while (ibv_poll_cq(c->cq, 1, &wc) > 0) {
        bool send = wc.wr_id >= RECEIVES;

        if (wc.status == IBV_WC_WR_FLUSH_ERR) {
            *(send ? &c->sends_flushed : &c->recvs_flushed) += 1;
        } else if (wc.status != IBV_WC_SUCCESS) {
            printf("conn %u: %s completed with: %s\n", c->number,
                   send ? "send" : "receive", ibv_wc_status_str(wc.status));
            c->failed++;
        } else if (send) {
            c->sends++;
            post_recv(c, wc.wr_id - RECEIVES);
        } else {
            c->recvs++;
            if (c->initiator) {
                /* Its own word came back */
                rdma_disconnect(c->id);
            } else {
                post_send(c, wc.wr_id, wc.byte_len);
            }
        }
    }
}

static struct conn *conn_new(struct rdma_cm_id *id, bool initiator)
{
    struct ibv_qp_init_attr attr = {
        .cap = { .max_send_wr = RECEIVES,
                 .max_recv_wr = 2 * RECEIVES,
                 .max_send_sge = 1,
                 .max_recv_sge = 1 },
        .qp_type = IBV_QPT_RC,
    };
    struct conn *c = calloc(1, sizeof(*c));
    size_t size = 3 * GUARD + REGION + RECEIVES * RECV_LEN;
    unsigned i;

    c->number = ++connections;
    c->id = id;
    c->initiator = initiator;
    id->context = c;
    c->memory = aligned_alloc(GUARD, size);
    memset(c->memory, CANARY, size);
    c->pd = ibv_alloc_pd(id->verbs);
    c->channel = ibv_create_comp_channel(id->verbs);
    c->cq = ibv_create_cq(id->verbs, 4 * RECEIVES, NULL, c->channel, 0);
    if (!c->pd || !c->channel || !c->cq) {
        die("objects");
    }
    fcntl(c->channel->fd, F_SETFL, O_NONBLOCK);
    c->region = ibv_reg_mr(c->pd, c->memory + GUARD, REGION,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                               IBV_ACCESS_REMOTE_READ);
    c->receives = ibv_reg_mr(c->pd, recv_at(c, 0), RECEIVES * RECV_LEN,
                             IBV_ACCESS_LOCAL_WRITE);
    attr.send_cq = attr.recv_cq = c->cq;
    if (!c->region || !c->receives || rdma_create_qp(id, c->pd, &attr) ||
        ibv_req_notify_cq(c->cq, 0)) {
        die("region or QP");
    }
    for (i = 0; i < RECEIVES; i++) {
        post_recv(c, i);
    }
    c->next = conns;
    conns = c;
    return c;
}

static bool canaries(const uint8_t *p, size_t len)
{
    while (len--) {
        if (*p++ != CANARY) {
            return false;
        }
    }
    return true;
}

/* Takes what is flushed, tells what became of everything, and frees it */
static void conn_over(struct conn *c)
{
    uint64_t end = now_ms() + FLUSH_MS;
    struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
    struct conn **link = &conns;
    bool clean = true, begun = false;
    void *unused;
    unsigned acks = 0, i;

    /* One that never was connected is flushed, too */
    rdma_disconnect(c->id);
    ibv_modify_qp(c->id->qp, &error, IBV_QP_STATE);
    while (c->recvs + c->recvs_flushed + c->sends + c->sends_flushed +
                   c->failed <
               c->recvs_posted + c->sends_posted &&
           now_ms() < end) {
        reap(c);
    }
    /* And not more than that */
    usleep(20000);
    reap(c);
    for (i = 0; i < 3; i++) {
        static const size_t at[3] = {
            0, GUARD + REGION, 2 * GUARD + REGION + RECEIVES * RECV_LEN
        };

        clean &= canaries(c->memory + at[i], GUARD);
    }
    for (i = 0; i < RECEIVES && !c->recvs && !c->sends_posted; i++) {
        bool same = canaries(recv_at(c, i), RECV_LEN);

        /* A message that does not end may be placed in the first */
        clean &= same || i == 0;
        begun |= !same;
    }
    printf("conn %u: over receives %u = %u + %u sends %u = %u + %u failed %u "
           "memory %s\n",
           c->number, c->recvs_posted, c->recvs, c->recvs_flushed,
           c->sends_posted, c->sends, c->sends_flushed, c->failed,
           !clean  ? "CHANGED"
           : begun ? "begun"
                   : "clean");
    while (*link != c) {
        link = &(*link)->next;
    }
    *link = c->next;
    while (ibv_get_cq_event(c->channel, &(struct ibv_cq *){ NULL }, &unused) ==
           0) {
        acks++;
    }
    ibv_ack_cq_events(c->cq, acks);
    rdma_destroy_qp(c->id);
    ibv_destroy_cq(c->cq);
    ibv_destroy_comp_channel(c->channel);
    ibv_dereg_mr(c->region);
    ibv_dereg_mr(c->receives);
    ibv_dealloc_pd(c->pd);
    rdma_destroy_id(c->id);
    free(c->memory);
    free(c);
}

static struct rdma_conn_param conn_param(struct conn *c, uint8_t told[12])
{
    struct rdma_conn_param param = {
        .private_data = told,
        .private_data_len = 12,
        .responder_resources = 4,
        .initiator_depth = 4,
    };
    uint32_t stag = htobe32(c->region->rkey);
    uint64_t addr = htobe64((uintptr_t)c->region->addr);

    memcpy(told, &stag, 4);
    memcpy(told + 4, &addr, 8);
    return param;
}

static void on_event(struct rdma_cm_event *event)
{
    enum rdma_cm_event_type type = event->event;
    struct rdma_cm_id *id = event->id;
    struct rdma_conn_param param;
    int status = event->status;
    struct conn *c;
    uint8_t told[12];

    if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        c = conn_new(id, false);
    } else {
        c = id->context;
    }
    printf("conn %u: %s status %d private data %u\n", c ? c->number : 0,
           rdma_event_str(type), status, event->param.conn.private_data_len);
    rdma_ack_cm_event(event);
    switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (rdma_resolve_route(id, 10000)) {
            die("rdma_resolve_route");
        }
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        c = conn_new(id, true);
        param = conn_param(c, told);
        if (rdma_connect(id, &param)) {
            die("rdma_connect");
        }
        break;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        param = conn_param(c, told);
        if (rdma_accept(id, &param)) {
            /* The peer has gone meanwhile */
            printf("conn %u: not accepted: %s\n", c->number, strerror(errno));
            c->over = true;
        }
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        if (c->initiator) {
            memcpy(recv_at(c, RECEIVES - 1), hello, sizeof(hello));
            post_send(c, RECEIVES - 1, sizeof(hello));
        }
        break;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        break;
    default:
        if (!c) {
            fprintf(stderr, "rnic-echo: no way to the peer\n");
            exit(2);
        }
        c->over = true;
        break;
    }
}

/* Until all connections are over; a listener's never are */
static void serve(bool for_ever)
{
    do {
        struct pollfd fds[64] = { { .fd = events->fd, .events = POLLIN } };
        struct rdma_cm_event *event;
        struct conn *c, *next;
        unsigned count = 1;

        fflush(stdout);
        for (c = conns; c && count < 64; c = c->next) {
            fds[count++] =
                (struct pollfd){ .fd = c->channel->fd, .events = POLLIN };
        }
        if (poll(fds, count, -1) < 0) {
            die("poll");
        }
        if (fds[0].revents) {
            if (rdma_get_cm_event(events, &event)) {
                die("rdma_get_cm_event");
            }
            on_event(event);
        }
        for (c = conns; c; c = next) {
            struct ibv_cq *cq;
            void *unused;

            next = c->next;
            if (ibv_get_cq_event(c->channel, &cq, &unused) == 0) {
                ibv_ack_cq_events(cq, 1);
                ibv_req_notify_cq(cq, 0);
                reap(c);
            }
            if (c->over) {
                conn_over(c);
                if (!for_ever) {
                    fflush(stdout);
                    return;
                }
            }
        }
    } while (true);
}

static int usage(void)
{
    fprintf(stderr, "usage: rnic-echo listen ADDRESS PORT\n"
                    "       rnic-echo connect ADDRESS PORT COUNT\n");
    return 2;
}

int main(int argc, char **argv)
{
    struct addrinfo *addr = NULL;
    struct rdma_cm_id *id;
    int count;

    if (argc < 4 || getaddrinfo(argv[2], argv[3], NULL, &addr)) {
        return usage();
    }
    events = rdma_create_event_channel();
    if (!events) {
        die("rdma_create_event_channel");
    }
    if (!strcmp(argv[1], "listen")) {
        if (rdma_create_id(events, &id, NULL, RDMA_PS_TCP) ||
            rdma_bind_addr(id, addr->ai_addr) || rdma_listen(id, 64)) {
            die("listen");
        }
        printf("listening\n");
        serve(true);
    }
    if (strcmp(argv[1], "connect") || argc != 5) {
        return usage();
    }
    for (count = atoi(argv[4]); count > 0; count--) {
        if (rdma_create_id(events, &id, NULL, RDMA_PS_TCP) ||
            rdma_resolve_addr(id, NULL, addr->ai_addr, 10000)) {
            die("rdma_resolve_addr");
        }
        serve(false);
    }
    return 0;
}
