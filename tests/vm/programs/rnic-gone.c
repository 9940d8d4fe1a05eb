/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rnic-gone: what a program had posted when its device went away
 *
 * The client posts receives and more Writes than TCP takes from it while the
 * server's machine stands still. After a line on its standard input it polls,
 * until each request has completed once.
 */
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PORT         "7473"
#define SIZE         (1 << 20)
#define RECEIVES     32
#define WRITES       48
#define WAIT_SECONDS 60

struct place {
    uint64_t addr;
    uint32_t rkey;
};

static uint8_t memory[SIZE] __attribute__((aligned(4096)));
static struct rdma_cm_id *id;
static struct ibv_comp_channel *channel;
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_mr *mr;
static struct place peer;

static void die(const char *what)
{
    fprintf(stderr, "rnic-gone: %s: %s\n", what,
            errno ? strerror(errno) : "failed");
    exit(1);
}

#define CHECK(what) ((what) ? (void)0 : die(#what))

static void make_objects(void)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = WRITES,
                 .max_recv_wr = RECEIVES,
                 .max_send_sge = 1,
                 .max_recv_sge = 1 },
    };
    struct ibv_pd *pd;

    CHECK(pd = ibv_alloc_pd(id->verbs));
    CHECK(send_cq = ibv_create_cq(id->verbs, WRITES, NULL, NULL, 0));
    CHECK(channel = ibv_create_comp_channel(id->verbs));
    CHECK(recv_cq = ibv_create_cq(id->verbs, RECEIVES, NULL, channel, 0));
    CHECK(!ibv_req_notify_cq(recv_cq, 0));
    attr.send_cq = send_cq;
    attr.recv_cq = recv_cq;
    CHECK(!rdma_create_qp(id, pd, &attr));
    CHECK(mr = ibv_reg_mr(pd, memory, SIZE,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
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

static void server(const char *address)
{
    struct rdma_cm_id *listener;
    struct place mine;
    struct rdma_conn_param param = {
        .private_data = &mine,
        .private_data_len = sizeof(mine),
    };

    CHECK(
        !rdma_create_ep(&listener, resolve(address, RAI_PASSIVE), NULL, NULL));
    CHECK(!rdma_listen(listener, 1));
    puts("listening");
    CHECK(!rdma_get_request(listener, &id));
    make_objects();
    mine = (struct place){ (uintptr_t)memory, mr->rkey };
    CHECK(!rdma_accept(id, &param));
    puts("ready");
    pause();
}

static int post_receive(uint64_t wr_id)
{
    struct ibv_recv_wr wr = { .wr_id = wr_id }, *bad;

    return ibv_post_recv(id->qp, &wr, &bad);
}

static int post_write(uint64_t wr_id)
{
    struct ibv_sge sge = { (uintptr_t)memory, SIZE, mr->lkey };
    struct ibv_send_wr wr = {
        .wr_id = wr_id,
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
        .sg_list = &sge,
        .num_sge = 1,
        .wr.rdma = { .remote_addr = peer.addr, .rkey = peer.rkey },
    };
    struct ibv_send_wr *bad;

    return ibv_post_send(id->qp, &wr, &bad);
}

/* Until @count requests have completed, in order; how many were flushed */
static unsigned poll_all(struct ibv_cq *cq, unsigned count)
{
    time_t end = time(NULL) + WAIT_SECONDS;
    unsigned seen = 0, flushed = 0;
    struct ibv_wc wc;
    int n;

    while (seen < count) {
        CHECK((n = ibv_poll_cq(cq, 1, &wc)) >= 0);
        if (!n) {
            CHECK(time(NULL) < end);
            continue;
        }
        CHECK(wc.wr_id == seen);
        CHECK(wc.qp_num == id->qp->qp_num);
        CHECK(wc.status == IBV_WC_WR_FLUSH_ERR ||
              (wc.status == IBV_WC_SUCCESS && !flushed));
        flushed += wc.status != IBV_WC_SUCCESS;
        seen++;
    }
    CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
    return flushed;
}

static void client(const char *address)
{
    struct rdma_conn_param param = {};
    struct pollfd waiting = { .events = POLLIN };
    unsigned i, writes, receives;
    char line[16];

    CHECK(!rdma_create_ep(&id, resolve(address, 0), NULL, NULL));
    make_objects();
    for (i = 0; i < RECEIVES; i++) {
        CHECK(!post_receive(i));
    }
    CHECK(!rdma_connect(id, &param));
    CHECK(id->event->param.conn.private_data_len >= sizeof(peer));
    memcpy(&peer, id->event->param.conn.private_data, sizeof(peer));
    puts("connected");
    CHECK(fgets(line, sizeof(line), stdin));
    for (i = 0; i < WRITES; i++) {
        CHECK(!post_write(i));
    }
    puts("posted");
    CHECK(fgets(line, sizeof(line), stdin));
    /* Who sleeps is woken, by an event or by the end of the channel */
    waiting.fd = channel->fd;
    CHECK(poll(&waiting, 1, WAIT_SECONDS * 1000) == 1);
    receives = poll_all(recv_cq, RECEIVES);
    writes = poll_all(send_cq, WRITES);
    printf("flushed: %u of %u receives, %u of %u writes\n", receives, RECEIVES,
           writes, WRITES);
    printf("then: receive %s, write %s\n", strerror(post_receive(0)),
           strerror(post_write(0)));
}

int main(int argc, char **argv)
{
    if (argc != 3 || (strcmp(argv[1], "server") && strcmp(argv[1], "client"))) {
        fputs("usage: rnic-gone server|client ADDR\n", stderr);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    (strcmp(argv[1], "server") ? client : server)(argv[2]);
    return 0;
}
