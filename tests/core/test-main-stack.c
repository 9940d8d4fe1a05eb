/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host's own rules hold for the device's connections: packet filter,
 * traffic control, tables of sockets. In a network namespace of this program's
 * own, with fabric=direct.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cm-steps.h"
#include "pair.h"
#include "raw-peer.h"

#define A       "10.0.0.1"
#define B       "10.0.0.2"
#define OTHER   "10.0.0.3"
#define TIMEOUT 2000 /* ms, 'peer-timeout-ms' */

/* The command's output, or NULL: it failed */
static char *command(const char *line)
{
    char *out = NULL;
    int status = 0;

    if (!g_spawn_command_line_sync(line, &out, NULL, &status, NULL) || status) {
        g_clear_pointer(&out, g_free);
    }
    return out;
}

static bool works(const char *line)
{
    g_autofree char *out = command(line);

    return out != NULL;
}

static void must(const char *line)
{
    if (!works(line)) {
        g_error("failed: %s", line);
    }
}

static void drop_packets(void)
{
    must("nft add table inet t");
    must("nft add chain inet t c { type filter hook input priority 0; }");
    must("nft add rule inet t c meta l4proto tcp counter drop");
}

static void drop_no_more(void)
{
    must("nft delete table inet t");
}

static bool have_nft(void)
{
    if (works("nft add table inet probe") &&
        works("nft delete table inet probe")) {
        return true;
    }
    g_test_skip("no nftables here");
    return false;
}

static void start(struct pair *p, unsigned peer_timeout_ms)
{
    struct pair_options options;

    pair_options_init(&options, RNIC_CRC_OFF);
    options.direct = true;
    options.peer_timeout_ms = peer_timeout_ms;
    pair_new(p, &options);
    pair_connect(p, NULL);
}

/* CLOSE of that side says that the peer did not answer */
static void assert_timed_out(struct pair *p, unsigned side)
{
    struct rnic_aeqe event;

    th_event_wait(p->guest[side], RNIC_EV_CLOSE, p->qp[side]->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_TIMEDOUT);
    g_assert_cmpuint(th_qp_state(p->qp[side]), ==, RNIC_QPS_ERROR);
    g_assert_nonnull(
        strstr(p->guest[side]->trace_text[RNIC_TRACE_cm], "timed out"));
}

static void test_dropped_packets_stall_and_go_on(void)
{
    struct pair p;
    struct rnic_cqe cqe;

    if (!have_nft()) {
        return;
    }
    start(&p, 0);
    pair_post_recv(&p, 1, 7, 0, 4096);
    drop_packets();
    pair_post(&p, 0, RNIC_WR_SEND, 1, 0, 4096, 0);
    th_run_for(500);
    pair_no_completions(&p, 1);
    g_assert_cmpuint(th_qp_state(p.qp[0]), ==, RNIC_QPS_RTS);
    drop_no_more();
    pair_wait_recv(&p, 1, 7, RNIC_WC_SUCCESS, &cqe);
    pair_free(&p);
}

static void test_dropped_packets_end_who_sends(void)
{
    struct pair p;
    struct rnic_cqe cqe;

    if (!have_nft()) {
        return;
    }
    start(&p, TIMEOUT);
    drop_packets();
    /* Its response is what does not come */
    pair_post(&p, 0, RNIC_WR_READ, 1, 0, 4096, 0);
    assert_timed_out(&p, 0);
    pair_wait_send(&p, 0, 1, RNIC_WC_WR_FLUSH_ERR, &cqe);
    drop_no_more();
    pair_free(&p);
}

static void test_dropped_packets_end_who_is_idle(void)
{
    struct pair p;

    if (!have_nft()) {
        return;
    }
    start(&p, TIMEOUT);
    drop_packets();
    assert_timed_out(&p, 0);
    assert_timed_out(&p, 1);
    drop_no_more();
    pair_free(&p);
}

static void test_idle_connection_lives_if_the_peer_answers(void)
{
    struct pair p;

    start(&p, TIMEOUT);
    th_run_for(2 * TIMEOUT);
    g_assert_cmpuint(th_qp_state(p.qp[0]), ==, RNIC_QPS_RTS);
    g_assert_cmpuint(th_qp_state(p.qp[1]), ==, RNIC_QPS_RTS);
    pair_free(&p);
}

static void test_rejecting_rule_refuses(void)
{
    struct th_options options;
    struct th_guest *a;
    struct th_qp *qp;

    if (!have_nft()) {
        return;
    }
    th_options_init(&options);
    options.config.fabric = RNIC_FABRIC_DIRECT;
    options.config.allow = OTHER;
    a = cm_guest_at(A, &options);
    qp = th_qp_new(a, NULL);
    must("nft add table inet t");
    must("nft add chain inet t c { type filter hook output priority 0; }");
    must("nft add rule inet t c ip daddr " OTHER
         " tcp dport 4420 counter reject with tcp reset");
    cm_connect_ok(qp, A, OTHER, 4420);
    cm_assert_fails(qp, RNIC_CM_REFUSED);
    {
        g_autofree char *out = command("nft list table inet t");

        g_assert_nonnull(out);
        g_assert_nonnull(strstr(out, "packets 1 "));
    }
    drop_no_more();
    th_guest_free(a);
}

#define RATE  10000 /* octets a ms */
#define BURST 131072

static void test_traffic_control_bounds_writes(void)
{
    const uint64_t octets = 4 << 20;
    uint64_t began, before;
    struct pair p;
    struct rnic_cqe cqe;

    if (!works("tc qdisc add dev lo root tbf rate 80mbit burst 128k latency "
               "100ms")) {
        g_test_skip("no token bucket here");
        return;
    }
    start(&p, 0);
    before = th_stat(p.guest[1], RNIC_STAT_rx_octets);
    began = th_now_ms();
    pair_post(&p, 0, RNIC_WR_WRITE, 1, 0, octets, 0);
    th_wait(th_stat(p.guest[1], RNIC_STAT_rx_octets) - before >= octets);
    /* However slow this machine is: more does not pass */
    g_assert_cmpuint((th_now_ms() - began + 20) * RATE + 2 * BURST, >=, octets);
    pair_wait_send(&p, 0, 1, RNIC_WC_SUCCESS, &cqe);
    must("tc qdisc del dev lo root");
    pair_free(&p);
}

/* How many ends of the pair's connection ss lists as idle: between hosts an
 * idle connection is probed, by the host's setting */
static unsigned idle_ends_listed(void)
{
    g_autofree char *pid = g_strdup_printf("pid=%d,", getpid());
    g_autofree char *out = command("ss -Htnpo state established");
    g_auto(GStrv) lines = NULL;
    unsigned found = 0;

    g_assert_nonnull(out);
    lines = g_strsplit(out, "\n", 0);
    for (unsigned i = 0; lines[i]; i++) {
        found += strstr(lines[i], A ":") && strstr(lines[i], B ":") &&
                 strstr(lines[i], pid) && strstr(lines[i], "timer:(keepalive");
    }
    return found;
}

static void test_sockets_are_listed_with_their_process(void)
{
    struct pair p;

    start(&p, 0);
    /* An ACK may be outstanding yet */
    th_wait(idle_ends_listed() == 2);
    pair_free(&p);
}

static uint32_t sum(const void *octets, size_t len, uint32_t start)
{
    const uint8_t *octet = octets;

    for (size_t i = 0; i + 1 < len; i += 2) {
        start += octet[i] << 8 | octet[i + 1];
    }
    return start;
}

/* SYNs that nobody will follow up */
static void flood(uint16_t port, unsigned count)
{
    int fd = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
    struct sockaddr_in to = { .sin_family = AF_INET };
    struct {
        struct iphdr ip;
        struct tcphdr tcp;
    } packet = {
        .ip = { .version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_TCP },
        .tcp = { .doff = 5, .syn = 1, .window = 0xffff },
    };

    g_assert_cmpint(fd, >=, 0);
    inet_pton(AF_INET, B, &to.sin_addr);
    packet.ip.daddr = to.sin_addr.s_addr;
    packet.tcp.dest = htons(port);
    for (unsigned i = 0; i < count; i++) {
        uint32_t check;

        packet.ip.saddr = htonl(0xc6336400 + i % 250 + 1); /* 198.51.100.0/24 */
        packet.tcp.source = htons(1024 + i);
        packet.tcp.check = 0;
        check = sum(&packet.ip.saddr, 8, IPPROTO_TCP + sizeof(packet.tcp));
        check = sum(&packet.tcp, sizeof(packet.tcp), check);
        check = (check & 0xffff) + (check >> 16);
        packet.tcp.check = htons(~(check + (check >> 16)));
        g_assert_cmpint(sendto(fd, &packet, sizeof(packet), 0,
                               (struct sockaddr *)&to, sizeof(to)),
                        ==, sizeof(packet));
    }
    close(fd);
}

static void test_flood_and_scan_leave_connections_alone(void)
{
    struct rnic_cqe cqe;
    struct pair p;
    uint16_t port;
    uint32_t listener;
    int peer;

    start(&p, 0);
    listener = th_listen(p.guest[1], B, 0, 4, &port);
    for (unsigned i = 0; i < 20; i++) {
        g_autofree char *half = NULL;

        flood(port, 100);
        if (i == 10) {
            half = command("ss -Htn state syn-recv");
            g_assert_nonnull(half);
            g_assert_cmpstr(half, !=, "");
        }
        /* The scan: connected and gone, or closed at once */
        peer = raw_connect(p.guest[1], OTHER, B, port);
        raw_abort(peer);
        pair_post_recv(&p, 1, i, 0, 4096);
        pair_post(&p, 0, RNIC_WR_SEND, i, 0, 4096, 0);
        pair_wait_recv(&p, 1, i, RNIC_WC_SUCCESS, &cqe);
        pair_wait_send(&p, 0, i, RNIC_WC_SUCCESS, &cqe);
    }
    /* And the listener is there for who means it */
    peer = raw_connect(p.guest[1], OTHER, B, port);
    raw_send_frame(peer, false, 0, 1, NULL, 0);
    cm_arrives(p.guest[1], listener);
    close(peer);
    pair_free(&p);
}

/* Only root has all of nft, tc and raw sockets */
static bool enter_namespace(void)
{
    return geteuid() == 0 && unshare(CLONE_NEWNET) == 0 &&
           works("ip link set lo up") && works("ip addr add " A "/32 dev lo") &&
           works("ip addr add " B "/32 dev lo") &&
           works("ip addr add " OTHER "/32 dev lo") &&
           works("ip route add 198.51.100.0/24 dev lo");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!enter_namespace()) {
        printf("1..0 # SKIP no network namespace can be made here\n");
        return 0;
    }
#define ADD(name, test) g_test_add_func("/main-stack/" name, test)
    ADD("drop/stall", test_dropped_packets_stall_and_go_on);
    ADD("drop/sender", test_dropped_packets_end_who_sends);
    ADD("drop/idle", test_dropped_packets_end_who_is_idle);
    ADD("idle", test_idle_connection_lives_if_the_peer_answers);
    ADD("reject", test_rejecting_rule_refuses);
    ADD("rate", test_traffic_control_bounds_writes);
    ADD("listed", test_sockets_are_listed_with_their_process);
    ADD("flood", test_flood_and_scan_leave_connections_alone);
    return g_test_run();
}
