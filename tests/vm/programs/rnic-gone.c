/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rnic-gone: what a program had posted when its device went away
 *
 * The client posts receives and more Writes than TCP takes from it while the
 * server's machine stands still. After a line on its standard input it polls,
 * until each request has completed once.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>
#include <rdma/ib_user_verbs.h>

#define PROGRAM "rnic-gone"
#define PORT    "7473"
#include "memory-peer.h"

#define SIZE     (1 << 20)
#define RECEIVES 32
#define WRITES   48

static uint8_t memory[SIZE] __attribute__((aligned(4096)));

static void server(const char *address)
{
    wait_request(address);
    make_objects(memory, SIZE, WRITES, RECEIVES);
    accept_request();
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

/*
 * What the provider does when it finds after posting that the device died
 * meanwhile: whoever sleeps is woken once more. False: the device was taken
 * out, and its channel is at its end.
 */
static bool wakes_again(void)
{
    struct {
        struct ib_uverbs_cmd_hdr header;
        struct ib_uverbs_req_notify_cq notify;
    } wake = {
        .header = { .command = IB_USER_VERBS_CMD_REQ_NOTIFY_CQ,
                    .in_words = sizeof(wake) / 4 },
        .notify.cq_handle = recv_cq->handle,
    };
    struct pollfd waiting = { .fd = channel->fd, .events = POLLIN };
    struct ibv_cq *cq;
    void *context;

    CHECK(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
    while (ibv_get_cq_event(channel, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
    }
    if (errno != EAGAIN) {
        return false;
    }
    CHECK(poll(&waiting, 1, 0) == 0);
    CHECK(write(id->verbs->cmd_fd, &wake, sizeof(wake)) == sizeof(wake));
    CHECK(poll(&waiting, 1, WAIT_SECONDS * 1000) == 1);
    CHECK(ibv_get_cq_event(channel, &cq, &context) == 0 && cq == recv_cq);
    ibv_ack_cq_events(cq, 1);
    return true;
}

static void client(const char *address)
{
    struct pollfd waiting = { .events = POLLIN };
    unsigned i, writes, receives;
    char line[16];

    open_client(address);
    make_objects(memory, SIZE, WRITES, RECEIVES);
    for (i = 0; i < RECEIVES; i++) {
        CHECK(!post_receive(i));
    }
    connect_client();
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
    printf("once more: %s\n", wakes_again() ? "woken" : "gone");
}

int main(int argc, char **argv)
{
    return run_end(argc, argv, server, client);
}
