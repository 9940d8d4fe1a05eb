/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What programs share whose two ends show each other one piece of memory
 *
 * Before it is included: PROGRAM, the program's name, and PORT, a string. Both
 * ends are one program, `PROGRAM server|client ADDR`.
 */
#ifndef RNIC_TEST_MEMORY_PEER_H
#define RNIC_TEST_MEMORY_PEER_H

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For what takes milliseconds unless something is wrong */
#define WAIT_SECONDS 90

struct place {
    uint64_t addr;
    uint32_t rkey;
};

static struct rdma_cm_id *id;
static struct ibv_comp_channel *channel; /* of the receive CQ */
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_mr *mr;
static struct place peer;

static void die(const char *what)
{
    fprintf(stderr, PROGRAM ": %s: %s\n", what,
            errno ? strerror(errno) : "failed");
    exit(1);
}

#define CHECK(what) ((what) ? (void)0 : die(#what))

/* The QP of @id, and the memory that the peer may use */
static void make_objects(void *memory, size_t size, unsigned sends,
                         unsigned receives)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = sends,
                 .max_recv_wr = receives,
                 .max_send_sge = 1,
                 .max_recv_sge = 1 },
    };
    struct ibv_pd *pd;

    CHECK(pd = ibv_alloc_pd(id->verbs));
    CHECK(channel = ibv_create_comp_channel(id->verbs));
    CHECK(send_cq = ibv_create_cq(id->verbs, sends, NULL, NULL, 0));
    CHECK(recv_cq = ibv_create_cq(id->verbs, receives, NULL, channel, 0));
    CHECK(!ibv_req_notify_cq(recv_cq, 0));
    attr.send_cq = send_cq;
    attr.recv_cq = recv_cq;
    CHECK(!rdma_create_qp(id, pd, &attr));
    CHECK(mr = ibv_reg_mr(pd, memory, size,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_READ));
}

static struct rdma_addrinfo *resolve(const char *address, int flags)
{
    struct rdma_addrinfo hints = {
        .ai_port_space = RDMA_PS_TCP,
        .ai_flags = flags,
    };
    struct rdma_addrinfo *info;

    CHECK(!rdma_getaddrinfo(address, PORT, &hints, &info));
    return info;
}

/* Says `listening`, and leaves the request that came in @id */
static void wait_request(const char *address)
{
    struct rdma_cm_id *listener;

    CHECK(
        !rdma_create_ep(&listener, resolve(address, RAI_PASSIVE), NULL, NULL));
    CHECK(!rdma_listen(listener, 1));
    puts("listening");
    CHECK(!rdma_get_request(listener, &id));
}

static void open_client(const char *address)
{
    CHECK(!rdma_create_ep(&id, resolve(address, 0), NULL, NULL));
}

/* Each end tells where its memory is */
static void parameters(struct rdma_conn_param *param, struct place *mine)
{
    *mine = (struct place){ (uintptr_t)mr->addr, mr->rkey };
    *param = (struct rdma_conn_param){
        .private_data = mine,
        .private_data_len = sizeof(*mine),
        .responder_resources = 1,
        .initiator_depth = 1,
    };
}

/* Says `ready` */
static void accept_request(void)
{
    struct rdma_conn_param param;
    struct place mine;

    parameters(&param, &mine);
    CHECK(!rdma_accept(id, &param));
    puts("ready");
}

/* Says `ready`; the server's memory is in @peer */
static void connect_client(void)
{
    struct rdma_conn_param param;
    struct place mine;

    parameters(&param, &mine);
    CHECK(!rdma_connect(id, &param));
    CHECK(id->event->param.conn.private_data_len >= sizeof(peer));
    memcpy(&peer, id->event->param.conn.private_data, sizeof(peer));
    puts("ready");
}

/* main() of both */
static int run_end(int argc, char **argv, void (*server)(const char *address),
                   void (*client)(const char *address))
{
    if (argc != 3 || (strcmp(argv[1], "server") && strcmp(argv[1], "client"))) {
        fputs("usage: " PROGRAM " server|client ADDR\n", stderr);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    (strcmp(argv[1], "server") ? client : server)(argv[2]);
    return 0;
}

#endif
