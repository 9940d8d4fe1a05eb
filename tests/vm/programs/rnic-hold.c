/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rnic-hold: a client works on the memory of a server that does nothing for it
 *
 * The server shows in that memory how often one of its threads has read an I/O
 * port, for which QEMU takes its big lock. So the client sees, by RDMA Reads
 * alone, whether anybody holds that lock, and shows that it gets on meanwhile.
 * A line `N` on its standard input asks for N rounds of Write, Read back, and
 * Send.
 */
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <time.h>

#define PORT         "7472"
/* Of a POST card: reading it does nothing */
#define IO_PORT      0x80
#define SIZE         4096
#define MAX_SENDS    4096
#define WAIT_SECONDS 60

struct shared {
    uint8_t data[SIZE];
    _Atomic uint64_t accesses; /* to the port */
};

struct place {
    uint64_t addr;
    uint32_t rkey;
};

static struct shared memory __attribute__((aligned(4096)));
static struct rdma_cm_id *id;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_mr *mr;
static struct place peer;

static void die(const char *what)
{
    fprintf(stderr, "rnic-hold: %s: %s\n", what,
            errno ? strerror(errno) : "failed");
    exit(1);
}

#define CHECK(what) ((what) ? (void)0 : die(#what))

static void make_objects(void)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 16,
                 .max_recv_wr = MAX_SENDS,
                 .max_send_sge = 1,
                 .max_recv_sge = 1 },
    };

    CHECK(pd = ibv_alloc_pd(id->verbs));
    CHECK(channel = ibv_create_comp_channel(id->verbs));
    CHECK(send_cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0));
    CHECK(recv_cq = ibv_create_cq(id->verbs, MAX_SENDS, NULL, channel, 0));
    attr.send_cq = send_cq;
    attr.recv_cq = recv_cq;
    CHECK(!rdma_create_qp(id, pd, &attr));
    CHECK(mr = ibv_reg_mr(pd, &memory, sizeof(memory),
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_READ));
}

static void connection_parameters(struct rdma_conn_param *param,
                                  struct place *mine)
{
    *mine = (struct place){ (uintptr_t)&memory, mr->rkey };
    *param = (struct rdma_conn_param){
        .private_data = mine,
        .private_data_len = sizeof(*mine),
        .responder_resources = 1,
        .initiator_depth = 1,
    };
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

/* ---- The server ---- */

static void *access_port(void *opaque)
{
    (void)opaque;
    CHECK(!ioperm(IO_PORT, 1, 1));
    for (;;) {
        inb(IO_PORT);
        atomic_fetch_add(&memory.accesses, 1);
    }
    return NULL;
}

static void server(const char *address)
{
    struct ibv_recv_wr wr = {}, *bad;
    struct rdma_conn_param param;
    struct rdma_cm_id *listener;
    struct ibv_cq *cq;
    struct place mine;
    pthread_t thread;
    void *context;
    int i;

    CHECK(
        !rdma_create_ep(&listener, resolve(address, RAI_PASSIVE), NULL, NULL));
    CHECK(!rdma_listen(listener, 1));
    puts("listening");
    CHECK(!rdma_get_request(listener, &id));
    make_objects();
    for (i = 0; i < MAX_SENDS; i++) {
        CHECK(!ibv_post_recv(id->qp, &wr, &bad));
    }
    CHECK(!ibv_req_notify_cq(recv_cq, 0));
    CHECK(!pthread_create(&thread, NULL, access_port, NULL));
    connection_parameters(&param, &mine);
    CHECK(!rdma_accept(id, &param));
    puts("ready");
    /* For each Send that comes while it is armed */
    while (!ibv_get_cq_event(channel, &cq, &context)) {
        ibv_ack_cq_events(cq, 1);
        puts("event");
        CHECK(!ibv_req_notify_cq(recv_cq, 0));
    }
}

/* ---- The client ---- */

static void wait_completion(void)
{
    time_t end = time(NULL) + WAIT_SECONDS;
    struct ibv_wc wc;
    int n;

    while ((n = ibv_poll_cq(send_cq, 1, &wc)) == 0) {
        if (time(NULL) > end) {
            fprintf(stderr, "rnic-hold: no completion in %d s\n", WAIT_SECONDS);
            exit(1);
        }
    }
    if (n < 0 || wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "rnic-hold: %s\n", ibv_wc_status_str(wc.status));
        exit(1);
    }
}

static void run(enum ibv_wr_opcode opcode, void *addr, uint32_t length,
                uint64_t remote)
{
    struct ibv_sge sge = { (uintptr_t)addr, length, mr->lkey };
    struct ibv_send_wr wr = {
        .opcode = opcode,
        .send_flags = IBV_SEND_SIGNALED,
        .sg_list = &sge,
        .num_sge = length ? 1 : 0,
        .wr.rdma = { .remote_addr = peer.addr + remote, .rkey = peer.rkey },
    };
    struct ibv_send_wr *bad;

    CHECK(!ibv_post_send(id->qp, &wr, &bad));
    wait_completion();
}

static void one_round(unsigned number)
{
    uint8_t expected[SIZE];

    memset(expected, number, SIZE);
    memcpy(expected, &number, sizeof(number));
    memcpy(memory.data, expected, SIZE);
    run(IBV_WR_RDMA_WRITE, memory.data, SIZE, 0);
    memset(memory.data, ~number, SIZE);
    run(IBV_WR_RDMA_READ, memory.data, SIZE, 0);
    CHECK(!memcmp(memory.data, expected, SIZE));
    run(IBV_WR_SEND, NULL, 0, 0);
    run(IBV_WR_RDMA_READ, &memory.accesses, sizeof(memory.accesses),
        offsetof(struct shared, accesses));
}

static void client(const char *address)
{
    struct rdma_conn_param param;
    unsigned number = 0, rounds, i;
    struct place mine;
    char line[32];

    CHECK(!rdma_create_ep(&id, resolve(address, 0), NULL, NULL));
    make_objects();
    connection_parameters(&param, &mine);
    CHECK(!rdma_connect(id, &param));
    CHECK(id->event->param.conn.private_data_len >= sizeof(peer));
    memcpy(&peer, id->event->param.conn.private_data, sizeof(peer));
    puts("ready");
    while (fgets(line, sizeof(line), stdin)) {
        rounds = atoi(line);
        for (i = 0; i < rounds; i++) {
            one_round(number++);
        }
        printf("%u rounds, %llu accesses\n", number,
               (unsigned long long)memory.accesses);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3 || (strcmp(argv[1], "server") && strcmp(argv[1], "client"))) {
        fputs("usage: rnic-hold server|client ADDR\n", stderr);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    (strcmp(argv[1], "server") ? client : server)(argv[2]);
    return 0;
}
