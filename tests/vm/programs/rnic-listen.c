/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rnic-listen [-6] ADDR PORT: an rdma_cm listener that rejects what comes
 *
 * It prints a line when it listens, and one for each request, with the address
 * that the request came to and the one that it came from, as rdma_cm reports
 * them. -6: no IPv4 at an IPv6 wildcard.
 */
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void die(const char *what)
{
    printf("rnic-listen: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void print_addr(const char *word, const struct sockaddr *addr)
{
    char host[NI_MAXHOST];
    socklen_t len = addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                : sizeof(struct sockaddr_in);

    if (getnameinfo(addr, len, host, sizeof(host), NULL, 0, NI_NUMERICHOST)) {
        snprintf(host, sizeof(host), "family-%d", addr->sa_family);
    }
    printf(" %s %s", word, host);
}

int main(int argc, char **argv)
{
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_PASSIVE };
    struct rdma_event_channel *channel;
    struct rdma_cm_event *event;
    struct rdma_cm_id *listener;
    struct addrinfo *where;
    int v6only = argc > 1 && !strcmp(argv[1], "-6");

    if (argc != 3 + v6only) {
        fprintf(stderr, "usage: rnic-listen [-6] ADDR PORT\n");
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(argv[1 + v6only], argv[2 + v6only], &hints, &where)) {
        fprintf(stderr, "rnic-listen: no address: %s\n", argv[1 + v6only]);
        return 1;
    }
    channel = rdma_create_event_channel();
    if (!channel || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP)) {
        die("rdma_create_id");
    }
    if (v6only &&
        rdma_set_option(listener, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY,
                        &v6only, sizeof(v6only))) {
        die("rdma_set_option");
    }
    if (rdma_bind_addr(listener, where->ai_addr)) {
        die("rdma_bind_addr");
    }
    if (rdma_listen(listener, 8)) {
        die("rdma_listen");
    }
    printf("listening\n");
    while (!rdma_get_cm_event(channel, &event)) {
        struct rdma_cm_id *id = event->id;

        if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
            rdma_ack_cm_event(event);
            continue;
        }
        printf("request");
        print_addr("to", rdma_get_local_addr(id));
        print_addr("from", rdma_get_peer_addr(id));
        printf("\n");
        rdma_reject(id, NULL, 0);
        rdma_ack_cm_event(event);
        rdma_destroy_id(id);
    }
    die("rdma_get_cm_event");
}
