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
#include <pthread.h>
#include <stdatomic.h>
#include <sys/io.h>
#include <time.h>

#define PROGRAM "rnic-hold"
#define PORT    "7472"
#include "memory-peer.h"

/* Of a POST card: reading it does nothing */
#define IO_PORT   0x80
#define SIZE      4096
#define MAX_SENDS 4096

struct shared {
    uint8_t data[SIZE];
    _Atomic uint64_t accesses; /* to the port */
};

static struct shared memory __attribute__((aligned(4096)));

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
    struct ibv_cq *cq;
    pthread_t thread;
    void *context;
    int i;

    wait_request(address);
    make_objects(&memory, sizeof(memory), 16, MAX_SENDS);
    for (i = 0; i < MAX_SENDS; i++) {
        CHECK(!ibv_post_recv(id->qp, &wr, &bad));
    }
    CHECK(!pthread_create(&thread, NULL, access_port, NULL));
    accept_request();
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
    unsigned number = 0, rounds, i;
    char line[32];

    open_client(address);
    make_objects(&memory, sizeof(memory), 16, MAX_SENDS);
    connect_client();
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
    return run_end(argc, argv, server, client);
}
