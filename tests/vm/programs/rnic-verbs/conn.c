/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connections: set-up through rdma_cm, tear-down
 */
#include "verbs-test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

/* Starts the private data of each request: which test it belongs to */
struct conn_tag {
    char magic[4];
    uint32_t tag;
};
static const char magic[4] = "rnvt";

/* NULL: none in time. The caller acknowledges it. */
static struct rdma_cm_event *next_event(struct rdma_event_channel *channel,
                                        int ms)
{
    struct pollfd pfd = { .fd = channel->fd, .events = POLLIN };
    struct rdma_cm_event *event;

    if (poll(&pfd, 1, ms) != 1 || rdma_get_cm_event(channel, &event)) {
        return NULL;
    }
    return event;
}

static void keep_pdata(struct conn *c, const struct rdma_cm_event *event)
{
    const struct rdma_conn_param *param = &event->param.conn;

    c->pdata_len = 0;
    if (param->private_data && param->private_data_len) {
        memcpy(c->pdata, param->private_data, param->private_data_len);
        c->pdata_len = param->private_data_len;
    }
}

void conn_expect_event(struct test *t, struct conn *c,
                       enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event = next_event(c->events, timeout_ms);
    enum rdma_cm_event_type got;
    int status;

    CHECK(t, event, "no event %s", rdma_event_str(type));
    got = event->event;
    status = event->status;
    keep_pdata(c, event);
    rdma_ack_cm_event(event);
    CHECK(t, got == type, "event %s (status %d) instead of %s",
          rdma_event_str(got), status, rdma_event_str(type));
}

void test_listen(struct test *t, uint16_t port)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct sockaddr *addr = (struct sockaddr *)&t->server_addr;

    CHECK(t, channel, "rdma_create_event_channel: %s", strerror(errno));
    if (addr->sa_family == AF_INET) {
        ((struct sockaddr_in *)addr)->sin_port = htons(port);
    } else {
        ((struct sockaddr_in6 *)addr)->sin6_port = htons(port);
    }
    CHECK(t, !rdma_create_id(channel, &t->listener, NULL, RDMA_PS_TCP),
          "rdma_create_id: %s", strerror(errno));
    CHECK(t, !rdma_bind_addr(t->listener, addr), "rdma_bind_addr: %s",
          strerror(errno));
    CHECK(t, !rdma_listen(t->listener, 64), "rdma_listen: %s", strerror(errno));
}

struct rdma_cm_id *next_request(struct test *t, struct conn *c)
{
    int64_t end = now_ms() + timeout_ms;

    while (now_ms() < end) {
        struct rdma_cm_event *event =
            next_event(t->listener->channel, end - now_ms());
        struct conn_tag tag = {};
        struct rdma_cm_id *id;
        bool ours;

        if (!event) {
            break;
        }
        if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
            rdma_ack_cm_event(event);
            continue;
        }
        id = event->id;
        keep_pdata(c, event);
        rdma_ack_cm_event(event);
        if (c->pdata_len >= sizeof(tag)) {
            memcpy(&tag, c->pdata, sizeof(tag));
            c->pdata_len -= sizeof(tag);
            memmove(c->pdata, c->pdata + sizeof(tag), c->pdata_len);
        }
        ours = !memcmp(tag.magic, magic, sizeof(magic)) && tag.tag == t->tag;
        if (ours) {
            return id;
        }
        /* Left over from a test whose other half failed */
        rdma_reject(id, NULL, 0);
        rdma_destroy_id(id);
    }
    fail(t, "no connection request");
}

static void create_qp(struct test *t, struct conn *c,
                      const struct conn_opt *opt)
{
    struct ibv_qp_init_attr attr = {
        .cap = {
            .max_send_wr = opt->zero_send_wr ? 0 :
                           opt->send_wr ? opt->send_wr : 64,
            .max_recv_wr = opt->zero_recv_wr || opt->srq ? 0 :
                           opt->recv_wr ? opt->recv_wr : 64,
            .max_send_sge = opt->send_sge ? opt->send_sge : 1,
            .max_recv_sge = opt->recv_sge ? opt->recv_sge : 1,
            .max_inline_data = opt->inline_data,
        },
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = opt->sig_all,
        .srq = opt->srq,
    };
    struct ibv_qp_init_attr_ex ex = {};
    struct ibv_qp_cap asked = attr.cap;

    if (!t->pd) {
        t->verbs = c->id->verbs;
        t->pd = ibv_alloc_pd(t->verbs);
        CHECK(t, t->pd, "ibv_alloc_pd: %s", strerror(errno));
    }
    c->send_cq = opt->send_cq ? opt->send_cq
                              : cq_new(t, t->verbs, asked.max_send_wr + 1);
    c->recv_cq = opt->recv_cq ? opt->recv_cq
                 : opt->recv_cq_ex
                     ? cq_new_ex(t, t->verbs, asked.max_recv_wr + 1)
                     : cq_new(t, t->verbs, asked.max_recv_wr + 1);
    attr.send_cq = c->send_cq->cq;
    attr.recv_cq = c->recv_cq->cq;
    memcpy(&ex, &attr, sizeof(attr));
    ex.comp_mask = IBV_QP_INIT_ATTR_PD |
                   (opt->send_ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0);
    ex.pd = t->pd;
    ex.send_ops_flags = opt->send_ops;
    CHECK(t, !rdma_create_qp_ex(c->id, &ex), "rdma_create_qp_ex: %s",
          strerror(errno));
    c->qp = c->id->qp;
    c->cap = ex.cap;
    CHECK(t,
          c->cap.max_send_wr >= asked.max_send_wr &&
              c->cap.max_recv_wr >= asked.max_recv_wr &&
              c->cap.max_send_sge >= asked.max_send_sge &&
              c->cap.max_recv_sge >= asked.max_recv_sge &&
              c->cap.max_inline_data >= asked.max_inline_data,
          "the QP holds less than was asked for");
}

struct conn *conn_prepare(struct test *t, const struct conn_opt *opt)
{
    static const struct conn_opt defaults;
    struct sockaddr *addr = (struct sockaddr *)&t->server_addr;
    struct conn *c = calloc(1, sizeof(*c));

    CHECK(t, c && t->conn_count < MAX_OBJECTS, "too many connections");
    t->conns[t->conn_count++] = c;
    c->events = rdma_create_event_channel();
    CHECK(t, c->events, "rdma_create_event_channel: %s", strerror(errno));
    if (t->client) {
        CHECK(t, !rdma_create_id(c->events, &c->id, NULL, RDMA_PS_TCP),
              "rdma_create_id: %s", strerror(errno));
        CHECK(t, !rdma_resolve_addr(c->id, NULL, addr, timeout_ms),
              "rdma_resolve_addr: %s", strerror(errno));
        conn_expect_event(t, c, RDMA_CM_EVENT_ADDR_RESOLVED);
        CHECK(t, !rdma_resolve_route(c->id, timeout_ms),
              "rdma_resolve_route: %s", strerror(errno));
        conn_expect_event(t, c, RDMA_CM_EVENT_ROUTE_RESOLVED);
    } else {
        c->id = next_request(t, c);
        CHECK(t, !rdma_migrate_id(c->id, c->events), "rdma_migrate_id: %s",
              strerror(errno));
    }
    create_qp(t, c, opt ? opt : &defaults);
    return c;
}

static void set_param(struct rdma_conn_param *param, const void *data,
                      size_t len)
{
    memset(param, 0, sizeof(*param));
    param->private_data = data;
    param->private_data_len = len;
    param->responder_resources = 16;
    param->initiator_depth = 16;
}

void conn_request(struct test *t, struct conn *c, const void *data, size_t len)
{
    struct conn_tag tag = { .tag = t->tag };
    struct rdma_conn_param param;
    uint8_t pdata[256];

    memcpy(tag.magic, magic, sizeof(magic));
    memcpy(pdata, &tag, sizeof(tag));
    memcpy(pdata + sizeof(tag), data, len);
    set_param(&param, pdata, sizeof(tag) + len);
    CHECK(t, !rdma_connect(c->id, &param), "rdma_connect: %s", strerror(errno));
}

void conn_complete_pdata(struct test *t, struct conn *c, const void *data,
                         size_t len)
{
    struct rdma_conn_param param;

    if (t->client) {
        conn_request(t, c, data, len);
    } else {
        set_param(&param, data, len);
        CHECK(t, !rdma_accept(c->id, &param), "rdma_accept: %s",
              strerror(errno));
    }
    conn_expect_event(t, c, RDMA_CM_EVENT_ESTABLISHED);
}

void conn_complete(struct test *t, struct conn *c)
{
    conn_complete_pdata(t, c, "", 0);
}

struct conn *conn_open(struct test *t, const struct conn_opt *opt)
{
    struct conn *c = conn_prepare(t, opt);

    conn_complete(t, c);
    return c;
}

void conn_disconnect(struct test *t, struct conn *c)
{
    CHECK(t, !rdma_disconnect(c->id), "rdma_disconnect: %s", strerror(errno));
    conn_expect_event(t, c, RDMA_CM_EVENT_DISCONNECTED);
}

void conn_destroy_qp(struct conn *c)
{
    if (c->qp) {
        rdma_destroy_qp(c->id);
        c->qp = NULL;
    }
}

static void conn_free(struct conn *c)
{
    conn_destroy_qp(c);
    if (c->id) {
        rdma_destroy_id(c->id);
    }
    if (c->events) {
        rdma_destroy_event_channel(c->events);
    }
    free(c);
}

/* Of several failures the first one is told */
static void note(struct test *t, int err, const char *what)
{
    if (err && !t->why[0]) {
        snprintf(t->why, sizeof(t->why), "%s: %s", what, strerror(err));
    }
}

void test_cleanup(struct test *t)
{
    while (t->conn_count) {
        conn_free(t->conns[--t->conn_count]);
    }
    while (t->srq_count) {
        note(t, ibv_destroy_srq(t->srqs[--t->srq_count]), "ibv_destroy_srq");
    }
    while (t->buf_count) {
        struct buf *b = t->bufs[--t->buf_count];

        if (b->mr) {
            note(t, ibv_dereg_mr(b->mr), "ibv_dereg_mr");
        }
        free(b->addr);
        free(b);
    }
    while (t->cq_count) {
        struct cq *cq = t->cqs[--t->cq_count];

        if (cq->cq) {
            note(t, ibv_destroy_cq(cq->cq), "ibv_destroy_cq");
        }
        if (cq->channel) {
            note(t, ibv_destroy_comp_channel(cq->channel),
                 "ibv_destroy_comp_channel");
        }
        free(cq);
    }
    if (t->pd) {
        note(t, ibv_dealloc_pd(t->pd), "ibv_dealloc_pd");
        t->pd = NULL;
    }
}
