/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control connection: small messages between the halves of a test
 */
#include "verbs-test.h"

#define CTL_SLOTS 64
#define CTL_DATA  480

enum kind { CTL_START, CTL_PAYLOAD, CTL_VERDICT, CTL_END };

struct message {
    uint32_t kind;
    uint32_t tag;
    uint32_t len;
    uint32_t rsvd;
    uint8_t data[CTL_DATA];
};

static struct conn *ctl_conn(struct test *ctl)
{
    return ctl->conns[0];
}

/* The slots for receiving, and one for sending */
static struct buf *ctl_buf(struct test *ctl)
{
    return ctl->bufs[0];
}

static void post_slot(struct test *ctl, uint64_t slot)
{
    post_recv_buf(ctl, ctl_conn(ctl), slot, ctl_buf(ctl),
                  slot * sizeof(struct message), sizeof(struct message));
}

void ctl_open(struct test *ctl)
{
    struct conn_opt opt = { .recv_wr = CTL_SLOTS };
    struct conn *c = conn_prepare(ctl, &opt);
    unsigned slot;

    buf_new(ctl, (CTL_SLOTS + 1) * sizeof(struct message),
            IBV_ACCESS_LOCAL_WRITE);
    for (slot = 0; slot < CTL_SLOTS; slot++) {
        post_slot(ctl, slot);
    }
    conn_complete(ctl, c);
}

static void send_message(struct test *ctl, enum kind kind, uint32_t tag,
                         const void *data, size_t len)
{
    struct buf *b = ctl_buf(ctl);
    size_t offset = CTL_SLOTS * sizeof(struct message);
    struct message *m = (struct message *)(b->addr + offset);

    CHECK(ctl, len <= CTL_DATA, "control message too long");
    memset(m, 0, sizeof(*m));
    m->kind = kind;
    m->tag = tag;
    m->len = len;
    memcpy(m->data, data, len);
    post_send_buf(ctl, ctl_conn(ctl), 0, IBV_SEND_SIGNALED, b, offset,
                  sizeof(*m));
    /* siw may fail a Send whose receiver leaves as soon as it has it */
    if (kind != CTL_END || !beside_siw) {
        wait_ok(ctl, ctl_conn(ctl)->send_cq, 0, IBV_WC_SEND);
    }
}

void ctl_close(struct test *ctl)
{
    if (ctl->client) {
        send_message(ctl, CTL_END, 0, "", 0);
        conn_expect_event(ctl, ctl_conn(ctl), RDMA_CM_EVENT_DISCONNECTED);
    } else {
        rdma_disconnect(ctl_conn(ctl)->id);
    }
    test_cleanup(ctl);
}

static void take_message(struct test *ctl, const struct ibv_wc *wc,
                         struct message *m)
{
    CHECK(ctl, wc->status == IBV_WC_SUCCESS, "control connection: %s",
          ibv_wc_status_str(wc->status));
    memcpy(m, ctl_buf(ctl)->addr + wc->wr_id * sizeof(*m), sizeof(*m));
    post_slot(ctl, wc->wr_id);
}

static void recv_message(struct test *ctl, struct message *m)
{
    /* Longer than the other half waits for anything, so that it can tell */
    struct ibv_wc wc = wait_wc_ms(ctl, ctl_conn(ctl)->recv_cq, 3 * timeout_ms);

    take_message(ctl, &wc, m);
}

void ctl_put(struct test *t, const void *data, size_t len)
{
    send_message(t->ctl, CTL_PAYLOAD, t->tag, data, len);
}

static void take_verdict(struct test *t, const struct message *m)
{
    snprintf(t->peer_why, sizeof(t->peer_why), "%.*s",
             (int)sizeof(t->peer_why) - 1, (const char *)m->data);
    t->peer_done = true;
}

void ctl_get(struct test *t, void *data, size_t len)
{
    struct message m;

    recv_message(t->ctl, &m);
    if (m.kind == CTL_VERDICT) {
        take_verdict(t, &m);
        fail(t, "the other half ended");
    }
    CHECK(t, m.kind == CTL_PAYLOAD && m.tag == t->tag && m.len == len,
          "control message of another kind");
    memcpy(data, m.data, len);
}

void ctl_sync(struct test *t)
{
    uint8_t octet = 0;

    ctl_put(t, &octet, sizeof(octet));
    ctl_get(t, &octet, sizeof(octet));
}

void ctl_put_buf(struct test *t, const struct buf *b)
{
    struct remote remote = {
        .addr = (uintptr_t)b->addr,
        .len = b->len,
        .rkey = b->mr->rkey,
    };

    ctl_put(t, &remote, sizeof(remote));
}

struct remote ctl_get_buf(struct test *t)
{
    struct remote remote;

    ctl_get(t, &remote, sizeof(remote));
    return remote;
}

void ctl_start(struct test *ctl, const char *name, uint32_t tag)
{
    send_message(ctl, CTL_START, tag, name, strlen(name) + 1);
}

bool ctl_next(struct test *ctl, char *name, size_t size, uint32_t *tag)
{
    struct cq *cq = ctl_conn(ctl)->recv_cq;
    struct ibv_wc wc;
    struct message m;

    /* The client takes as long as it likes between two tests */
    do {
        CHECK(ctl, !ibv_req_notify_cq(cq->cq, 0), "ibv_req_notify_cq");
        if (ibv_poll_cq(cq->cq, 1, &wc) == 1) {
            take_message(ctl, &wc, &m);
            if (m.kind == CTL_END) {
                return false;
            }
            CHECK(ctl, m.kind == CTL_START, "control message out of turn");
            snprintf(name, size, "%s", (char *)m.data);
            *tag = m.tag;
            return true;
        }
        got_cq_event(ctl, cq, -1);
    } while (true);
}

void ctl_verdict(struct test *t)
{
    struct message m;

    send_message(t->ctl, CTL_VERDICT, t->tag, t->why, strlen(t->why) + 1);
    while (!t->peer_done) {
        recv_message(t->ctl, &m);
        if (m.kind == CTL_VERDICT) {
            take_verdict(t, &m);
        }
    }
    t->peer_done = false;
}
