/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rnic-pdata: private data of chosen lengths, and how a connection came about
 *
 *   rnic-pdata server ADDR accept|reject LENGTH    one request
 *   rnic-pdata client ADDR LENGTH
 *
 * The end that is called with `leave` behind that disconnects, as soon as it
 * knows that the connection is established; the other one waits for that.
 *
 * Octet i of the client's private data is i + 1, of the server's 255 - i. Both
 * print the events of rdma_cm, their status, and the length of the private data
 * that came with them, followed by "wrong" if it is not the peer's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT    7473
#define LONGEST 255

static struct rdma_event_channel *channel;
static bool is_client, leaves;

static void die(const char *what)
{
    fprintf(stderr, "rnic-pdata: %s: %s\n", what, strerror(errno));
    exit(2);
}

static uint8_t octet(bool of_client, unsigned i)
{
    return of_client ? i + 1 : 255 - i;
}

static struct rdma_conn_param param_of(const char *length)
{
    static uint8_t data[LONGEST];
    unsigned i, len = strtoul(length, NULL, 0);

    if (len > LONGEST) {
        errno = EINVAL;
        die(length);
    }
    for (i = 0; i < len; i++) {
        data[i] = octet(is_client, i);
    }
    return (struct rdma_conn_param){
        .private_data = len ? data : NULL,
        .private_data_len = len,
        .responder_resources = 1,
        .initiator_depth = 1,
    };
}

/* Takes the next event, tells it, and returns its kind; the new ID of a
 * request goes to *id */
static enum rdma_cm_event_type take_event(struct rdma_cm_id **id)
{
    struct rdma_cm_event *event;
    const struct rdma_conn_param *param;
    enum rdma_cm_event_type type;
    const uint8_t *data;
    bool wrong = false;
    unsigned i;

    if (rdma_get_cm_event(channel, &event)) {
        die("rdma_get_cm_event");
    }
    type = event->event;
    param = &event->param.conn;
    data = param->private_data;
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        *id = event->id;
    }
    if (type > RDMA_CM_EVENT_ROUTE_ERROR) {
        for (i = 0; i < param->private_data_len; i++) {
            wrong |= data[i] != octet(!is_client, i);
        }
        printf("%s status %d length %u%s\n", rdma_event_str(type),
               event->status, param->private_data_len, wrong ? " wrong" : "");
        fflush(stdout);
    }
    rdma_ack_cm_event(event);
    return type;
}

static void expect(enum rdma_cm_event_type type)
{
    enum rdma_cm_event_type got = take_event(NULL);

    if (got != type) {
        fprintf(stderr, "rnic-pdata: %s instead of %s\n", rdma_event_str(got),
                rdma_event_str(type));
        exit(1);
    }
}

static void part(struct rdma_cm_id *id)
{
    if (!leaves) {
        expect(RDMA_CM_EVENT_DISCONNECTED);
    }
    rdma_disconnect(id);
    if (leaves) {
        expect(RDMA_CM_EVENT_DISCONNECTED);
    }
}

static void create_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {
        .cap = {
            .max_send_wr = 4,
            .max_recv_wr = 4,
            .max_send_sge = 1,
            .max_recv_sge = 1,
        },
        .qp_type = IBV_QPT_RC,
    };

    /* With a PD and CQs of librdmacm's own */
    if (rdma_create_qp(id, NULL, &attr)) {
        die("rdma_create_qp");
    }
}

static void client(struct rdma_cm_id *id, struct sockaddr *addr,
                   const char *length)
{
    struct rdma_conn_param param = param_of(length);

    if (rdma_resolve_addr(id, NULL, addr, 10000)) {
        die("rdma_resolve_addr");
    }
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    if (rdma_resolve_route(id, 10000)) {
        die("rdma_resolve_route");
    }
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    create_qp(id);
    if (rdma_connect(id, &param)) {
        printf("rdma_connect: %s\n", strerror(errno));
    } else if (take_event(NULL) == RDMA_CM_EVENT_ESTABLISHED) {
        part(id);
    }
    rdma_destroy_qp(id);
}

static void server(struct rdma_cm_id *listener, struct sockaddr *addr,
                   bool accept, const char *length)
{
    struct rdma_conn_param param = param_of(length);
    struct rdma_cm_id *id = NULL;

    if (rdma_bind_addr(listener, addr) || rdma_listen(listener, 4)) {
        die("listening");
    }
    if (take_event(&id) != RDMA_CM_EVENT_CONNECT_REQUEST) {
        exit(1);
    }
    if (!accept) {
        if (rdma_reject(id, param.private_data, param.private_data_len)) {
            die("rdma_reject");
        }
    } else {
        create_qp(id);
        if (rdma_accept(id, &param)) {
            printf("rdma_accept: %s\n", strerror(errno));
        } else if (take_event(NULL) == RDMA_CM_EVENT_ESTABLISHED) {
            part(id);
        }
        rdma_destroy_qp(id);
    }
    rdma_destroy_id(id);
}

int main(int argc, char **argv)
{
    struct sockaddr_in addr = {
        .sin_family = AF_INET,
        .sin_port = htons(PORT),
    };
    struct rdma_cm_id *id;

    leaves = argc > 1 && !strcmp(argv[argc - 1], "leave");
    argc -= leaves;
    is_client = argc == 4 && !strcmp(argv[1], "client");
    if ((!is_client && (argc != 5 || strcmp(argv[1], "server"))) ||
        inet_pton(AF_INET, argv[2], &addr.sin_addr) != 1) {
        fputs("usage: rnic-pdata server ADDR accept|reject LENGTH [leave]\n"
              "       rnic-pdata client ADDR LENGTH [leave]\n",
              stderr);
        return 2;
    }
    channel = rdma_create_event_channel();
    if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)) {
        die("rdma_create_id");
    }
    if (is_client) {
        client(id, (struct sockaddr *)&addr, argv[3]);
    } else {
        server(id, (struct sockaddr *)&addr, !strcmp(argv[3], "accept"),
               argv[4]);
    }
    rdma_destroy_id(id);
    rdma_destroy_event_channel(channel);
    return 0;
}
