/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rnic-addr DEV ADDR TO TIMES: uses an address in the moment that it is there
 *
 * Gives the net device the address, and listens at it at once; takes it away,
 * gives it back, and connects from it at once, to a port of TO at which nobody
 * listens. Each as often as told; an IPv6 address is only listened at. It
 * prints `all N` if the address always was good for that.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NOBODY 9 /* the port */

struct request {
    struct nlmsghdr hdr;
    struct ifaddrmsg ifa;
    char attributes[64];
};

static union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} own, to;
static struct rdma_event_channel *channel;
static int netlink, dev_index;

static void die(const char *what)
{
    printf("rnic-addr: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void parse(const char *text, struct sockaddr *addr)
{
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)addr;
    struct sockaddr_in *v4 = (struct sockaddr_in *)addr;

    addr->sa_family = strchr(text, ':') ? AF_INET6 : AF_INET;
    if (inet_pton(addr->sa_family, text,
                  addr->sa_family == AF_INET6 ? (void *)&v6->sin6_addr
                                              : &v4->sin_addr) != 1) {
        errno = EINVAL;
        die(text);
    }
}

static void put(struct request *req, int type, const void *data, size_t length)
{
    struct rtattr *attr =
        (struct rtattr *)((char *)req + NLMSG_ALIGN(req->hdr.nlmsg_len));

    attr->rta_type = type;
    attr->rta_len = RTA_LENGTH(length);
    memcpy(RTA_DATA(attr), data, length);
    req->hdr.nlmsg_len =
        NLMSG_ALIGN(req->hdr.nlmsg_len) + RTA_ALIGN(attr->rta_len);
}

/* RTM_NEWADDR or RTM_DELADDR; returns when the kernel has done it */
static void address(int type)
{
    struct request req = {
        .hdr.nlmsg_len = NLMSG_LENGTH(sizeof(req.ifa)),
        .hdr.nlmsg_type = type,
        .hdr.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
        .ifa.ifa_family = own.any.sa_family,
        .ifa.ifa_flags = IFA_F_NODAD,
        .ifa.ifa_index = dev_index,
    };
    struct {
        struct nlmsghdr hdr;
        struct nlmsgerr error;
        char rest[512];
    } answer;

    if (type == RTM_NEWADDR) {
        req.hdr.nlmsg_flags |= NLM_F_CREATE | NLM_F_EXCL;
    }
    if (own.any.sa_family == AF_INET6) {
        req.ifa.ifa_prefixlen = 128;
        put(&req, IFA_LOCAL, &own.v6.sin6_addr, sizeof(own.v6.sin6_addr));
    } else {
        req.ifa.ifa_prefixlen = 32;
        put(&req, IFA_LOCAL, &own.v4.sin_addr, sizeof(own.v4.sin_addr));
    }
    if (send(netlink, &req, req.hdr.nlmsg_len, 0) < 0 ||
        recv(netlink, &answer, sizeof(answer), 0) < 0) {
        die("netlink");
    }
    if (answer.error.error) {
        errno = -answer.error.error;
        die(type == RTM_NEWADDR ? "RTM_NEWADDR" : "RTM_DELADDR");
    }
}

static struct rdma_cm_id *new_id(void)
{
    struct rdma_cm_id *id;

    if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)) {
        die("rdma_create_id");
    }
    return id;
}

static void listen_at_once(void)
{
    struct rdma_cm_id *id = new_id();

    address(RTM_NEWADDR);
    if (rdma_bind_addr(id, &own.any) || rdma_listen(id, 1)) {
        die("listen");
    }
    rdma_destroy_id(id);
    address(RTM_DELADDR);
}

/* Which event it must be, and its status */
static void expect(enum rdma_cm_event_type type, int status)
{
    struct rdma_cm_event *event;

    if (rdma_get_cm_event(channel, &event)) {
        die("rdma_get_cm_event");
    }
    if (event->event != type || event->status != status) {
        printf("rnic-addr: %s, status %d\n", rdma_event_str(event->event),
               event->status);
        exit(2);
    }
    rdma_ack_cm_event(event);
}

static void connect_at_once(void)
{
    struct ibv_qp_init_attr attr = {
        .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1 },
        .qp_type = IBV_QPT_RC,
    };
    struct rdma_conn_param param = {};
    struct rdma_cm_id *id = new_id();

    address(RTM_NEWADDR);
    to.v4.sin_port = htons(NOBODY);
    if (rdma_resolve_addr(id, &own.any, &to.any, 10000)) {
        die("rdma_resolve_addr");
    }
    expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    if (rdma_resolve_route(id, 10000)) {
        die("rdma_resolve_route");
    }
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    if (rdma_create_qp(id, NULL, &attr)) {
        die("rdma_create_qp");
    }
    address(RTM_DELADDR);
    address(RTM_NEWADDR);
    if (rdma_connect(id, &param)) {
        die("rdma_connect");
    }
    expect(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
    rdma_destroy_ep(id);
    address(RTM_DELADDR);
}

int main(int argc, char **argv)
{
    int i, times;

    if (argc != 5) {
        fprintf(stderr, "usage: rnic-addr DEV ADDR TO TIMES\n");
        return 1;
    }
    dev_index = if_nametoindex(argv[1]);
    parse(argv[2], &own.any);
    parse(argv[3], &to.any);
    times = atoi(argv[4]);
    channel = rdma_create_event_channel();
    netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    if (!dev_index || !channel || netlink < 0) {
        die("set-up");
    }
    for (i = 0; i < times; i++) {
        listen_at_once();
        if (own.any.sa_family == AF_INET) {
            connect_at_once();
        }
    }
    printf("all %d\n", times);
    return 0;
}
