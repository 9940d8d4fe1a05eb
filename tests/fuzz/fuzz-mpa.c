/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connection setup: peers that connect and are connected to, and say anything
 * in it, while the guest answers, gives up, or takes things away
 *
 * Rules that are watched: the events of iw_cm, each once and in order, and
 * none of a QP that is gone.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "fuzz.h"
#include "wire/fpdu.h"
#include "wire/mpa.h"

#define QPS      6
#define PEERS    6
#define REQUESTS 16
#define ADDRESS  "10.1.2.3"
#define PORT     4420

struct connection {
    struct th_qp *qp; /* NULL: destroyed */
    uint32_t qpn;
    bool connecting; /* CONNECT succeeded; a CONNECT_REPLY is due */
    bool accepting;  /* ACCEPT succeeded; ESTABLISHED is due */
    bool up;         /* CLOSE is due */
    bool disconnected;
};

struct test {
    struct fuzz_guest *guest;
    uint32_t qp_flags;
    struct th_cq *cq;
    struct connection conns[QPS];
    int peers[PEERS];            /* -1: none */
    uint32_t requests[REQUESTS]; /* conn_id; 0: none */
    uint64_t pdata;
    bool listening;
    uint32_t listener;
};

/* ---- Events ---- */

static void event_seen(void *opaque, const struct rnic_aeqe *event)
{
    struct test *t = opaque;
    unsigned type = GUINT16_FROM_LE(event->type);
    unsigned status = GUINT16_FROM_LE(event->status);
    uint32_t id = GUINT32_FROM_LE(event->id);
    struct connection *conn = NULL;
    unsigned i;

    fuzz_check(GUINT16_FROM_LE(event->pdata_len) <= RNIC_PDATA_MAX,
               "private data of %u octets", GUINT16_FROM_LE(event->pdata_len));
    fuzz_check(status <= RNIC_CM_EARLY_SEND, "status %u", status);
    if (type == RNIC_EV_CONNECT_REQUEST) {
        fuzz_check(t->listening && id == t->listener,
                   "CONNECT_REQUEST of a listener that is gone");
        fuzz_check(event->conn_id, "a CONNECT_REQUEST without an id");
        for (i = 0; i < REQUESTS; i++) {
            fuzz_check(t->requests[i] != GUINT32_FROM_LE(event->conn_id),
                       "CONNECT_REQUEST twice");
        }
        for (i = 0; i < REQUESTS && t->requests[i]; i++) {
        }
        if (i < REQUESTS) {
            t->requests[i] = GUINT32_FROM_LE(event->conn_id);
        }
        return;
    }
    for (i = 0; i < QPS; i++) {
        if (t->conns[i].qp && t->conns[i].qpn == id) {
            conn = &t->conns[i];
        }
    }
    switch (type) {
    case RNIC_EV_CONNECT_REPLY:
        fuzz_check(conn && conn->connecting,
                   "CONNECT_REPLY of QP %u without a CONNECT", id);
        conn->connecting = false;
        conn->up = status == RNIC_CM_OK;
        break;
    case RNIC_EV_ESTABLISHED:
        fuzz_check(conn && conn->accepting,
                   "ESTABLISHED of QP %u without an ACCEPT", id);
        conn->accepting = false;
        conn->up = true;
        break;
    case RNIC_EV_DISCONNECT:
        fuzz_check(conn && conn->up && !conn->disconnected,
                   "DISCONNECT of QP %u, which is not up", id);
        conn->disconnected = true;
        break;
    case RNIC_EV_CLOSE:
        fuzz_check(conn && conn->up, "CLOSE of QP %u, which is not up", id);
        conn->up = false;
        fuzz_check(th_qp_state(conn->qp) == RNIC_QPS_ERROR,
                   "QP %u is closed and in state %u", id,
                   th_qp_state(conn->qp));
        break;
    case RNIC_EV_QP_FATAL:
    case RNIC_EV_QP_REQ_ERR:
    case RNIC_EV_QP_ACCESS_ERR:
    case RNIC_EV_SQ_DRAINED:
    case RNIC_EV_QP_LAST_WQE:
        fuzz_check(conn, "an event of QP %u, which is gone", id);
        break;
    case RNIC_EV_LISTEN_ERROR:
    case RNIC_EV_ADDR_CONFLICT:
    case RNIC_EV_CQ_ERR:
        break;
    default:
        g_error("event %u", type);
    }
}

static void run(struct test *t)
{
    struct rnic_cqe cqe;

    fuzz_run(t->guest);
    while (th_cq_poll(t->cq, &cqe)) {
    }
    fuzz_events(t->guest, event_seen, t);
}

static unsigned command(struct test *t, const struct rnic_asqe *cmd,
                        struct rnic_acqe *resp)
{
    unsigned status = th_admin(t->guest->th, cmd, resp);

    fuzz_events(t->guest, event_seen, t);
    return status;
}

/* ---- The guest ---- */

static void qp_new(struct test *t, struct connection *conn)
{
    struct th_qp_attr attr;

    if (conn->qp) {
        return;
    }
    th_qp_attr_init(&attr);
    attr.sq_depth = attr.rq_depth = 4;
    attr.sq_stride = attr.rq_stride = 64;
    attr.send_cq = attr.recv_cq = t->cq;
    attr.flags = t->qp_flags;
    conn->qp = th_qp_new(t->guest->th, &attr);
    conn->qpn = conn->qp->qpn;
}

static void qp_destroy(struct test *t, struct connection *conn)
{
    struct rnic_asqe cmd = {
        .opcode = RNIC_CMD_DESTROY_QP,
        .id.id = GUINT32_TO_LE(conn->qpn),
    };

    if (!conn->qp) {
        return;
    }
    /* Its events up to here are in the queue; none comes after this */
    g_assert_cmpuint(th_admin(t->guest->th, &cmd, NULL), ==, RNIC_ADMIN_OK);
    fuzz_events(t->guest, event_seen, t);
    memset(conn, 0, sizeof(*conn));
}

static void do_listen(struct test *t, struct fuzz_input *in)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_LISTEN };
    uint8_t bits = fuzz_u8(in);

    if (t->listening) {
        cmd.opcode = RNIC_CMD_UNLISTEN;
        cmd.id.id = GUINT32_TO_LE(t->listener);
        g_assert_cmpuint(command(t, &cmd, NULL), ==, RNIC_ADMIN_OK);
        t->listening = false;
        return;
    }
    cmd.listen.id = GUINT32_TO_LE(++t->listener);
    cmd.listen.backlog = GUINT32_TO_LE(bits & 7);
    cmd.listen.local =
        th_sockaddr(bits & 8 ? "0.0.0.0" : ADDRESS, bits & 16 ? PORT : 0);
    t->listening = command(t, &cmd, NULL) == RNIC_ADMIN_OK;
}

static void do_connect(struct test *t, struct connection *conn,
                       struct fuzz_input *in)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_CONNECT };
    uint8_t bits = fuzz_u8(in);

    qp_new(t, conn);
    cmd.connect.qpn = GUINT32_TO_LE(conn->qpn);
    cmd.connect.ird = GUINT16_TO_LE(bits & 3);
    cmd.connect.ord = GUINT16_TO_LE(bits >> 2 & 3);
    cmd.connect.local = th_sockaddr(ADDRESS, 0);
    /* Somewhere else, or to itself */
    cmd.connect.remote = th_sockaddr(bits & 16 ? ADDRESS : "10.1.2.4", PORT);
    cmd.connect.pdata = GUINT64_TO_LE(t->pdata);
    cmd.connect.pdata_len = GUINT16_TO_LE(bits & 32 ? fuzz_u16(in) % 600 : 0);
    if (th_admin(t->guest->th, &cmd, NULL) == RNIC_ADMIN_OK) {
        fuzz_check(!conn->connecting && !conn->accepting && !conn->up,
                   "CONNECT of a QP with a connection");
        conn->connecting = true;
    }
    fuzz_events(t->guest, event_seen, t);
}

static void do_answer(struct test *t, struct connection *conn,
                      struct fuzz_input *in)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_ACCEPT };
    uint8_t bits = fuzz_u8(in);
    uint32_t *request = &t->requests[fuzz_u8(in) % REQUESTS];
    unsigned i;

    for (i = 0; i < REQUESTS && !*request; i++) {
        request = &t->requests[i];
    }
    cmd.accept.conn_id = GUINT32_TO_LE(*request);
    cmd.accept.pdata = GUINT64_TO_LE(t->pdata);
    cmd.accept.pdata_len = GUINT16_TO_LE(bits & 32 ? fuzz_u16(in) % 600 : 0);
    if (bits & 64) {
        cmd.opcode = RNIC_CMD_REJECT;
    } else {
        qp_new(t, conn);
        cmd.accept.qpn = GUINT32_TO_LE(conn->qpn);
        cmd.accept.ird = GUINT16_TO_LE(bits & 3);
        cmd.accept.ord = GUINT16_TO_LE(bits >> 2 & 3);
    }
    switch (th_admin(t->guest->th, &cmd, NULL)) {
    case RNIC_ADMIN_OK:
        if (!(bits & 64)) {
            fuzz_check(!conn->connecting && !conn->accepting && !conn->up,
                       "ACCEPT for a QP with a connection");
            conn->accepting = true;
        }
        *request = 0;
        break;
    case RNIC_ADMIN_CONN_GONE:
    case RNIC_ADMIN_BAD_ID:
        *request = 0;
        break;
    default:
        break;
    }
    fuzz_events(t->guest, event_seen, t);
}

static void do_address(struct test *t, bool add)
{
    struct rnic_asqe cmd = {
        .opcode = add ? RNIC_CMD_ADDR_ADD : RNIC_CMD_ADDR_DEL,
    };

    cmd.addr.addr = th_sockaddr(ADDRESS, 0);
    cmd.addr.prefix_len = 24;
    command(t, &cmd, NULL);
}

static void do_link(struct test *t, bool up)
{
    struct rnic_asqe cmd = {
        .opcode = RNIC_CMD_SET_LINK,
        .set_link.up = GUINT32_TO_LE(up),
    };

    command(t, &cmd, NULL);
}

static void do_modify(struct test *t, struct connection *conn, unsigned state)
{
    struct rnic_asqe cmd = {
        .opcode = RNIC_CMD_MODIFY_QP,
        .modify_qp = { GUINT32_TO_LE(conn->qpn),
                       GUINT32_TO_LE(RNIC_QPS_CLOSING + state % 3) },
    };

    if (conn->qp) {
        command(t, &cmd, NULL);
    }
}

/* Before it is connected, too */
static void do_post(struct connection *conn, uint8_t bits)
{
    struct th_wr wr = {
        .opcode = bits & 1 ? RNIC_WR_WRITE : RNIC_WR_SEND,
        .flags = RNIC_WQE_SIGNALED,
        .inline_data = "",
    };

    if (!conn->qp) {
        return;
    }
    if (bits & 2) {
        th_post_send_quiet(conn->qp, &wr, 1);
    } else {
        th_post_send(conn->qp, &wr, 1);
    }
}

/* ---- The peers ---- */

static void peer_say(int fd, const uint8_t *octets, size_t len)
{
    if (fd >= 0 && len) {
        ssize_t n = send(fd, octets, len, MSG_DONTWAIT | MSG_NOSIGNAL);

        fuzz_check(n == (ssize_t)len || (n < 0 && errno != EINVAL),
                   "the peer's socket: %s", g_strerror(errno));
    }
}

/* A frame that is right but for a few octets */
static void peer_frame(struct test *t, int fd, struct fuzz_input *in)
{
    static const uint8_t data[RNIC_MPA_PD_MAX];
    uint8_t bits = fuzz_u8(in), more = fuzz_u8(in);
    struct rnic_mpa_frame frame = {
        .reply = bits & 1,
        .rev = 1 + (bits >> 1 & 1),
        .markers = bits & 4,
        .crc = bits & 8,
        .reject = bits & 16,
        .enhanced = (bits & 2) && !(bits & 32),
        .ulp_data = data,
        .ulp_len = bits & 64 ? fuzz_u16(in) % sizeof(data) : 0,
    };
    uint8_t buf[RNIC_MPA_FRAME_MAX + 64];
    size_t len;

    if (frame.enhanced) {
        frame.p2p = more & 1;
        frame.rtr = more >> 1 & 7;
        frame.ird = more & 16 ? fuzz_u16(in) & 0x3fff : 1;
        frame.ord = more & 32 ? fuzz_u16(in) & 0x3fff : 1;
    }
    len = rnic_mpa_frame_encode(&frame, buf, RNIC_MPA_FRAME_MAX);
    if (!len) {
        return;
    }
    if (bits & 128) {
        fuzz_mutate(in, buf, len);
    }
    if (more & 64) {
        /* In two parts */
        size_t first = fuzz_u16(in) % len;

        peer_say(fd, buf, first);
        run(t);
        peer_say(fd, buf + first, len - first);
        return;
    }
    if (more & 128) {
        size_t behind = fuzz_u8(in) % 64;

        fuzz_octets(in, buf + len, behind);
        len += behind;
    }
    peer_say(fd, buf, len);
}

static void peer_raw(int fd, struct fuzz_input *in)
{
    uint8_t octets[64];
    size_t len = fuzz_u8(in) % sizeof(octets);

    len = MIN(len, in->left);
    fuzz_octets(in, octets, len);
    peer_say(fd, octets, len);
}

/* The ready-to-receive message of a peer: an empty RDMA Write */
static void peer_write(int fd)
{
    static const uint8_t fpdu[20] = { 0, 14, 0xc1, 0x40, 0, 0, 0, 1 };

    peer_say(fd, fpdu, sizeof(fpdu));
}

static void peer_leave(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

/* What came is looked at by nobody but must not fill the socket */
static void peer_drain(int fd)
{
    uint8_t buf[4096];

    while (fd >= 0 && recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0) {
    }
}

static void step(struct test *t, struct fuzz_input *in)
{
    uint8_t what = fuzz_u8(in), which = fuzz_u8(in);
    struct connection *conn = &t->conns[which % QPS];
    int *peer = &t->peers[which % PEERS];

    switch (what % 21) {
    case 0:
    case 1:
        run(t);
        break;
    case 2:
        do_listen(t, in);
        break;
    case 3:
        peer_leave(peer);
        *peer = world_connect_in(which / PEERS % 2);
        break;
    case 4:
        do_connect(t, conn, in);
        break;
    case 5:
        peer_leave(peer);
        *peer = world_take_outgoing();
        break;
    case 6:
    case 7:
    case 8:
        peer_frame(t, *peer, in);
        break;
    case 9:
        peer_raw(*peer, in);
        break;
    case 10:
        peer_write(*peer);
        break;
    case 11:
        peer_leave(peer);
        break;
    case 12:
    case 13:
        do_answer(t, conn, in);
        break;
    case 14:
        do_modify(t, conn, fuzz_u8(in));
        break;
    case 15:
        qp_destroy(t, conn);
        break;
    case 16:
        do_address(t, which & 1);
        break;
    case 17:
        do_link(t, which & 1);
        break;
    case 18:
        world_advance_us(1ull << (which % 25));
        break;
    case 19:
        if (which & 1) {
            world_fail(1 + (which >> 1) % 16, fuzz_errno(in));
        } else if (*peer >= 0) {
            shutdown(*peer, SHUT_WR);
            peer_drain(*peer);
        }
        break;
    case 20:
        do_post(conn, fuzz_u8(in));
        break;
    }
}

/* A file that nobody else sees; each device begins it anew */
static const char *capture_path(void)
{
    static char path[32];

    if (!path[0]) {
        int fd = memfd_create("capture", MFD_CLOEXEC);

        g_assert_cmpint(fd, >=, 0);
        g_snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    struct th_options options;
    struct test t = { .listening = false };
    uint8_t bits = fuzz_u8(&in), more = fuzz_u8(&in);
    unsigned i;

    world_reset();
    for (i = 0; i < PEERS; i++) {
        t.peers[i] = -1;
    }
    /* Room for the queues of a QP a step */
    fuzz_options(&options, 1 << 20);
    options.config.crc = bits % 3;
    options.config.p2p = bits & 8;
    options.config.rtr =
        options.config.p2p && !(bits >> 4 & 3) ? RNIC_RTR_WRITE : bits >> 4 & 3;
    options.config.mpa_rev = bits & 64 ? 1 : 2;
    options.config.mpa_gate_strict = bits & 128;
    options.config.sq_scan_ms = more & 1;
    t.qp_flags = more & 2 ? RNIC_QP_ERROR_PRE_RTS : 0;
    options.config.max_connections = bits & 4 ? 3 : 0;
    options.config.pcap = bits & 4 ? capture_path() : NULL;
    t.guest = fuzz_guest_new(&options);
    fuzz_guest_start(t.guest);
    t.cq = th_cq_new(t.guest->th, 256);
    t.pdata = th_alloc(t.guest->th, 1024, 8);
    do_address(&t, true);
    for (i = 0; in.left && i < 256; i++) {
        step(&t, &in);
    }

    /* Everything ends, and every event that is due comes */
    world_fail(0, 0);
    do_link(&t, false);
    run(&t);
    /* More events than the queue holds at once come in turns */
    for (i = 0; i < 8; i++) {
        world_advance_us(60 * 1000 * 1000);
        run(&t);
    }
    for (i = 0; i < QPS; i++) {
        fuzz_check(!t.conns[i].connecting, "QP %u: no CONNECT_REPLY came",
                   t.conns[i].qpn);
        fuzz_check(!t.conns[i].accepting, "QP %u: no ESTABLISHED came",
                   t.conns[i].qpn);
        fuzz_check(!t.conns[i].up, "QP %u: no CLOSE came", t.conns[i].qpn);
    }
    fuzz_guest_free(t.guest);
    for (i = 0; i < PEERS; i++) {
        peer_leave(&t.peers[i]);
    }
    return 0;
}
