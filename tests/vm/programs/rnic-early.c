/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rnic-early: a user program that posts sends before its connection is
 * established
 *
 * Connects two QPs of this machine through the address that is given. Each end
 * posts sends before rdma_connect() or rdma_accept(), and more after its
 * established event; each message says which one it is. Prints for both ends
 * what posting returned, how many early sends were taken, how many sends
 * completed and were flushed, how many messages came in and whether in order,
 * and the status of the set-up.
 */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_MESSAGES 256
#define PORT         "7472"
#define WAIT_MS      60000
#define RACE_AFTER   20

struct end {
    const char *name;
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_mr *mr;
    uint32_t numbers[2 * MAX_MESSAGES]; /* sent, then received */
    bool over;                          /* established, or failed */
    int status;                         /* of set-up */
    int early_ret;
    unsigned taken; /* early sends */
    unsigned posted, sent, flushed, failed, received, misordered;
};

static struct end client = { .name = "client" };
static struct end server = { .name = "server" };
static struct rdma_event_channel *channel;
static unsigned early = 5, late = 3, pause_ms = 100, race;
static bool reject_it, reset_it;
static atomic_bool established;
static atomic_bool begun; /* the race: one post was tried */

static void die(const char *what)
{
    fprintf(stderr, "rnic-early: %s: %s\n", what, strerror(errno));
    exit(2);
}

static uint64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* 0 or an errno value */
static int post_send(struct end *end)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)&end->numbers[end->posted],
        .length = sizeof(uint32_t),
        .lkey = end->mr->lkey,
    };
    struct ibv_send_wr *bad = NULL, wr = {
        .wr_id = end->posted,
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
    };
    int ret = ibv_post_send(end->id->qp, &wr, &bad);

    if (ret && bad != &wr) {
        ret = ENOMSG;
    }
    if (!ret) {
        end->posted++;
    }
    return ret;
}

static int post_recv(struct end *end, unsigned index)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)&end->numbers[MAX_MESSAGES + index],
        .length = sizeof(uint32_t),
        .lkey = end->mr->lkey,
    };
    struct ibv_recv_wr *bad, wr = {
        .wr_id = index,
        .sg_list = &sge,
        .num_sge = 1,
    };

    return ibv_post_recv(end->id->qp, &wr, &bad);
}

/* Posting is an error in the verbs' RESET, of sends and of receives */
static void check_reset(struct end *end)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
    int send, recv;

    if (ibv_modify_qp(end->id->qp, &attr, IBV_QP_STATE)) {
        die("modify to RESET");
    }
    send = post_send(end);
    recv = post_recv(end, 0);
    attr.qp_state = IBV_QPS_INIT;
    if (ibv_modify_qp(end->id->qp, &attr, IBV_QP_STATE)) {
        die("modify to INIT");
    }
    printf("reset send=%d recv=%d\n", send, recv);
}

static void open_end(struct end *end, struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {
        .cap = {
            .max_send_wr = MAX_MESSAGES,
            .max_recv_wr = MAX_MESSAGES,
            .max_send_sge = 1,
            .max_recv_sge = 1,
        },
        .qp_type = IBV_QPT_RC,
    };
    unsigned i;

    end->id = id;
    end->pd = ibv_alloc_pd(id->verbs);
    end->send_cq = ibv_create_cq(id->verbs, 2 * MAX_MESSAGES, NULL, NULL, 0);
    end->recv_cq = ibv_create_cq(id->verbs, 2 * MAX_MESSAGES, NULL, NULL, 0);
    if (!end->pd || !end->send_cq || !end->recv_cq) {
        die("PD or CQ");
    }
    end->mr = ibv_reg_mr(end->pd, end->numbers, sizeof(end->numbers),
                         IBV_ACCESS_LOCAL_WRITE);
    attr.send_cq = end->send_cq;
    attr.recv_cq = end->recv_cq;
    if (!end->mr || rdma_create_qp(id, end->pd, &attr)) {
        die("MR or QP");
    }
    if (reset_it && end == &client) {
        check_reset(end);
    }
    for (i = 0; i < MAX_MESSAGES; i++) {
        end->numbers[i] = i;
        end->numbers[MAX_MESSAGES + i] = UINT32_MAX;
        if (post_recv(end, i)) {
            die("posting a receive");
        }
    }
}

static void post_early(struct end *end)
{
    unsigned i;

    for (i = 0; i < early; i++) {
        end->early_ret = post_send(end);
        if (end->early_ret) {
            break;
        }
    }
    end->taken = end->posted;
    /* Time for something to leave too early */
    usleep(pause_ms * 1000);
}

/*
 * Posts while the connection is being made, and a little longer. However long
 * that takes, some are left for the time after it.
 */
static void *race_run(void *opaque)
{
    struct end *end = opaque;
    unsigned after = 0;

    while (after < RACE_AFTER) {
        bool over = atomic_load(&established);
        int ret;

        if (over || end->posted < race - RACE_AFTER) {
            ret = post_send(end);
            if (ret && ret != ENOTCONN) {
                end->failed++;
            }
        }
        if (over) {
            after++;
        } else {
            end->taken = end->posted;
        }
        atomic_store(&begun, true);
        usleep(200);
    }
    return NULL;
}

static void end_over(struct end *end, int status)
{
    unsigned i;

    end->over = true;
    end->status = status;
    for (i = 0; !status && !race && i < late; i++) {
        if (post_send(end)) {
            end->failed++;
        }
    }
}

static void on_request(struct rdma_cm_id *id)
{
    struct rdma_conn_param param = {
        .responder_resources = 1,
        .initiator_depth = 1,
    };

    if (reject_it) {
        if (rdma_reject(id, NULL, 0) || rdma_destroy_id(id)) {
            die("reject");
        }
        end_over(&server, ECONNREFUSED);
        return;
    }
    id->context = &server;
    open_end(&server, id);
    post_early(&server);
    if (rdma_accept(id, &param)) {
        end_over(&server, errno);
    }
}

static enum rdma_cm_event_type next_event(void)
{
    struct rdma_cm_event *event;
    enum rdma_cm_event_type type;
    struct rdma_cm_id *id;
    int status;

    if (rdma_get_cm_event(channel, &event)) {
        die("waiting for an event");
    }
    type = event->event;
    id = event->id;
    status = event->status;
    rdma_ack_cm_event(event);
    switch (type) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        on_request(id);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        atomic_store(&established, true);
        end_over(id->context, 0);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
        end_over(id->context, status ? status : EPROTO);
        break;
    default:
        break;
    }
    return type;
}

static void poll_end(struct end *end)
{
    struct ibv_wc wc;

    while (end->send_cq && ibv_poll_cq(end->send_cq, 1, &wc) > 0) {
        unsigned done = end->sent + end->flushed;

        end->misordered += wc.wr_id != done;
        if (wc.status == IBV_WC_SUCCESS) {
            end->sent++;
        } else if (wc.status == IBV_WC_WR_FLUSH_ERR) {
            end->flushed++;
        } else {
            end->failed++;
        }
    }
    while (end->recv_cq && ibv_poll_cq(end->recv_cq, 1, &wc) > 0) {
        if (wc.status != IBV_WC_SUCCESS) {
            continue;
        }
        end->misordered +=
            wc.byte_len != sizeof(uint32_t) ||
            end->numbers[MAX_MESSAGES + end->received] != end->received;
        end->received++;
    }
}

static bool all_done(struct end *end)
{
    return end->sent + end->flushed + end->failed >= end->posted;
}

/* Until nothing is to be expected any more, and a moment longer */
static void settle(void)
{
    uint64_t until = now_ms() + WAIT_MS;
    bool done = false;

    while (now_ms() < until) {
        poll_end(&client);
        poll_end(&server);
        if (!done && all_done(&client) && all_done(&server) &&
            (client.status || server.status ||
             (client.received >= server.posted &&
              server.received >= client.posted))) {
            done = true;
            until = now_ms() + 200;
        }
        usleep(1000);
    }
}

static void tell(const struct end *end)
{
    printf("%s ret=%d early=%u posted=%u sent=%u flushed=%u failed=%u "
           "received=%u misordered=%u status=%d\n",
           end->name, end->early_ret, end->taken, end->posted, end->sent,
           end->flushed, end->failed, end->received, end->misordered,
           end->status);
}

static void close_end(struct end *end)
{
    if (!end->pd) {
        return;
    }
    rdma_destroy_qp(end->id);
    ibv_dereg_mr(end->mr);
    ibv_destroy_cq(end->send_cq);
    ibv_destroy_cq(end->recv_cq);
    ibv_dealloc_pd(end->pd);
    rdma_destroy_id(end->id);
}

static void await(enum rdma_cm_event_type wanted)
{
    while (next_event() != wanted) {
        if (client.over) {
            errno = client.status < 0 ? -client.status : client.status;
            die("resolving");
        }
    }
}

int main(int argc, char **argv)
{
    struct rdma_conn_param param = {
        .responder_resources = 1,
        .initiator_depth = 1,
    };
    struct rdma_cm_id *listener, *id;
    struct addrinfo *to;
    pthread_t thread;
    int option;

    while ((option = getopt(argc, argv, "e:l:p:r:jz")) != -1) {
        switch (option) {
        case 'e':
            early = strtoul(optarg, NULL, 0);
            break;
        case 'l':
            late = strtoul(optarg, NULL, 0);
            break;
        case 'p':
            pause_ms = strtoul(optarg, NULL, 0);
            break;
        case 'r':
            race = strtoul(optarg, NULL, 0);
            break;
        case 'j':
            reject_it = true;
            break;
        case 'z':
            reset_it = true;
            break;
        default:
            optind = argc;
        }
    }
    if (optind != argc - 1 || early + late > MAX_MESSAGES ||
        race > MAX_MESSAGES || (race && race <= RACE_AFTER)) {
        fprintf(stderr, "usage: rnic-early [-e EARLY] [-l LATE] [-p MS] "
                        "[-r RACE] [-j] [-z] ADDRESS\n"
                        "  -r  a thread posts up to RACE sends, more than "
                        "20, from before the\n"
                        "      connection until after it\n"
                        "  -j  the server rejects\n"
                        "  -z  first post in the verbs' RESET\n");
        return 2;
    }
    if (getaddrinfo(argv[optind], PORT, NULL, &to)) {
        fprintf(stderr, "rnic-early: %s: no such address\n", argv[optind]);
        return 2;
    }

    channel = rdma_create_event_channel();
    if (!channel || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
        rdma_bind_addr(listener, to->ai_addr) || rdma_listen(listener, 4)) {
        die("listening");
    }
    if (rdma_create_id(channel, &id, &client, RDMA_PS_TCP) ||
        rdma_resolve_addr(id, NULL, to->ai_addr, 5000)) {
        die("resolving the address");
    }
    await(RDMA_CM_EVENT_ADDR_RESOLVED);
    if (rdma_resolve_route(id, 5000)) {
        die("resolving the route");
    }
    await(RDMA_CM_EVENT_ROUTE_RESOLVED);
    open_end(&client, id);
    post_early(&client);
    if (race && pthread_create(&thread, NULL, race_run, &client)) {
        die("starting a thread");
    }
    while (race && !atomic_load(&begun)) {
        usleep(100);
    }
    if (rdma_connect(id, &param)) {
        die("connecting");
    }
    while (!client.over || !server.over) {
        next_event();
    }
    if (race) {
        pthread_join(thread, NULL);
    }
    settle();
    tell(&client);
    tell(&server);
    close_end(&client);
    close_end(&server);
    rdma_destroy_id(listener);
    rdma_destroy_event_channel(channel);
    freeaddrinfo(to);
    return 0;
}
