/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Between machines: TCP segments hold whole FPDUs, seen by a packet socket in
 * a network namespace of this program's own
 */
#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "pair.h"
#include "qp.h"

#define MTU 1500

/* A loopback device with the limits of an Ethernet, that does not put
 * segments together */
static bool enter_namespace(void)
{
    static const char *const set_up[] = {
        "ip link set lo mtu 1500 up",
        "ip addr add 10.0.0.1/32 dev lo",
        "ip addr add 10.0.0.2/32 dev lo",
    };
    static const uint32_t off[] = { ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO };
    g_autofree char *map = g_strdup_printf("0 %u 1", geteuid());
    bool root = geteuid() == 0;
    unsigned i;
    int fd;

    if (unshare(root ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) < 0 ||
        (!root &&
         !g_file_set_contents_full("/proc/self/uid_map", map, -1,
                                   G_FILE_SET_CONTENTS_NONE, 0600, NULL))) {
        return false;
    }
    for (i = 0; i < G_N_ELEMENTS(set_up); i++) {
        int status = 0;

        if (!g_spawn_command_line_sync(set_up[i], NULL, NULL, &status, NULL) ||
            status) {
            return false;
        }
    }
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    g_assert_cmpint(fd, >=, 0);
    for (i = 0; i < G_N_ELEMENTS(off); i++) {
        struct ethtool_value value = { .cmd = off[i] };
        struct ifreq ifr = { .ifr_name = "lo", .ifr_data = (char *)&value };

        if (ioctl(fd, SIOCETHTOOL, &ifr) < 0) {
            close(fd);
            return false;
        }
    }
    close(fd);
    return true;
}

/* The payload of the next TCP segment from @port in order of the stream; what
 * is sent again is passed over. 0: none is there. */
static size_t next_segment(int fd, uint16_t port, uint32_t *sequence,
                           bool *synced, uint8_t *to)
{
    uint8_t packet[MTU + 64];
    struct sockaddr_ll from;
    socklen_t from_len = sizeof(from);
    ssize_t n;

    while ((n = recvfrom(fd, packet, sizeof(packet), MSG_DONTWAIT,
                         (struct sockaddr *)&from, &from_len)) > 0) {
        size_t ip = (packet[0] & 15) * 4, tcp = (packet[ip + 12] >> 4) * 4;
        size_t total = packet[2] << 8 | packet[3], len = total - ip - tcp;
        uint32_t seq;

        /* Each is seen twice on a loopback device */
        if (from.sll_pkttype == PACKET_OUTGOING || packet[9] != IPPROTO_TCP ||
            (packet[ip] << 8 | packet[ip + 1]) != port) {
            continue;
        }
        memcpy(&seq, packet + ip + 4, 4);
        seq = ntohl(seq);
        if (packet[ip + 13] & 2) {
            *sequence = seq + 1;
            *synced = true;
        } else if (*synced && len && seq == *sequence) {
            *sequence += len;
            memcpy(to, packet + ip + tcp, len);
            return len;
        }
    }
    return 0;
}

/* Follows the FPDUs of the initiator; asserts that none is cut */
static unsigned check_segments(int fd, uint16_t port)
{
    uint8_t segment[MTU];
    uint32_t sequence = 0;
    bool synced = false, startup = true;
    unsigned fpdus = 0;
    size_t len, at;

    while ((len = next_segment(fd, port, &sequence, &synced, segment))) {
        for (at = 0; at < len;) {
            size_t ulpdu = segment[at] << 8 | segment[at + 1];
            size_t size = (2 + ulpdu + 3) / 4 * 4 + 4;

            if (startup) {
                size = 20 + (segment[18] << 8 | segment[19]);
                startup = false;
            } else {
                fpdus++;
            }
            g_assert_cmpuint(at + size, <=, len);
            at += size;
        }
    }
    return fpdus;
}

static void direct_pair(struct pair *p, enum rnic_crc_policy crc)
{
    unsigned i;

    memset(p, 0, sizeof(*p));
    for (i = 0; i < 2; i++) {
        struct th_options th;

        th_options_init(&th);
        th.config.crc = crc;
        th.config.fabric = RNIC_FABRIC_DIRECT;
        p->guest[i] = th_guest_started(&th);
        p->buf[i] = th_buf_new(p->guest[i], 1 << 20, 2, 512);
        p->stag[i] =
            th_reg_mr(p->guest[i], &p->buf[i], PAIR_IOVA, RNIC_ACCESS_ALL);
        p->qp[i] = th_qp_new(p->guest[i], NULL);
    }
}

static void test_segments_hold_whole_fpdus(gconstpointer crc)
{
    int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IP));
    int size = 64 << 20;
    struct pair p;
    uint16_t port;
    unsigned i, j;

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(
        setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)), ==, 0);
    direct_pair(&p, GPOINTER_TO_INT(crc));
    pair_connect(&p, NULL);
    port =
        ntohs(rnic_qp_find(p.guest[0]->dev, p.qp[0]->qpn)->stream->local.port);
    th_fill(p.buf[0].ptr, 1 << 20, 1);
    /* Short and long ones, one behind the other, as the device likes to put
     * them into one send; never more than the peer's window, whose end cuts
     * what it may */
    for (i = 0; i < 60; i++) {
        uint32_t len = i * 7919 % (i % 3 ? 300 : 17000);

        pair_post_recv(&p, 1, i, i * 17000, 17000);
        pair_post(&p, 0, RNIC_WR_SEND, i, i * 17000, len, 0);
        for (j = i - 5; i % 6 == 5 && j <= i; j++) {
            pair_wait_send(&p, 0, j, RNIC_WC_SUCCESS, NULL);
            pair_wait_recv(&p, 1, j, RNIC_WC_SUCCESS, NULL);
        }
    }
    i = check_segments(fd, port);
    g_assert_cmpuint(i, ==, th_stat(p.guest[0], RNIC_STAT_tx_fpdus));
    g_assert_cmpuint(i, >, 100);
    close(fd);
    pair_free(&p);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!enter_namespace()) {
        printf("1..0 # SKIP no network namespace can be made here\n");
        return 0;
    }
    g_test_add_data_func("/segments/crc-off", GINT_TO_POINTER(RNIC_CRC_OFF),
                         test_segments_hold_whole_fpdus);
    g_test_add_data_func("/segments/crc-on", GINT_TO_POINTER(RNIC_CRC_ON),
                         test_segments_hold_whole_fpdus);
    return g_test_run();
}
