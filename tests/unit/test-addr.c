/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/addr.h"
#include "net/claim.h"
#include "net/diag.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/un.h>
#include <unistd.h>

/* Claims and sockets are the host's: FABRIC and the one below are this
 * program's, see own_fabric() */
#define FABRIC 93
#define V4_NET "127.250"
#define V6_NET "127.251"

static struct rnic_sockaddr addr(const char *text)
{
    struct rnic_sockaddr sa;

    g_assert_true(rnic_sockaddr_parse(text, &sa));
    return sa;
}

static struct rnic_sockaddr addr_port(const char *text, uint16_t port)
{
    struct rnic_sockaddr sa = addr(text);

    sa.port = GUINT16_TO_BE(port);
    return sa;
}

static struct rnic_addrs *addrs_new(struct rnic_config config)
{
    GError *error = NULL;
    struct rnic_addrs *addrs = rnic_addrs_new(&config, &error);

    g_assert_no_error(error);
    return addrs;
}

static struct rnic_addrs *loopback_new(unsigned id)
{
    return addrs_new((struct rnic_config){ .fabric = RNIC_FABRIC_LOOPBACK,
                                           .fabric_id = id });
}

static struct rnic_addrs *direct_new(const char *allow)
{
    return addrs_new(
        (struct rnic_config){ .fabric = RNIC_FABRIC_DIRECT, .allow = allow });
}

static enum rnic_admin_status add(struct rnic_addrs *addrs, const char *text,
                                  bool *conflict)
{
    struct rnic_sockaddr guest = addr(text);
    struct rnic_addr *added;
    const char *why = NULL;
    enum rnic_admin_status status;

    status = rnic_addr_add(
        addrs, &guest, rnic_sockaddr_family(&guest) == RNIC_AF_INET ? 24 : 64,
        &added, &why, conflict);
    g_assert_true(status == RNIC_ADMIN_OK || why);
    return status;
}

static void add_ok(struct rnic_addrs *addrs, const char *text)
{
    bool conflict;

    g_assert_cmpint(add(addrs, text, &conflict), ==, RNIC_ADMIN_OK);
}

/* ---- Mapping ---- */

static void test_fabric_keeps_the_low_16_bits(void)
{
    static const struct {
        unsigned id;
        const char *guest, *host;
    } cases[] = {
        { 0, "10.0.0.1", "127.64.0.1" },
        { 0, "192.168.255.254", "127.64.255.254" },
        { 0, "203.0.113.9", "127.64.113.9" },
        { 0, "fd00::1", "127.65.0.1" },
        { 0, "fd00:1:2:3:4:5:6:abcd", "127.65.171.205" },
        { 0, "fe80::5054:ff:fe12:3456", "127.65.52.86" },
        { 1, "10.0.0.1", "127.66.0.1" },
        { 1, "fd00::1", "127.67.0.1" },
        { 94, "10.0.0.1", "127.252.0.1" },
        { 94, "fd00::1", "127.253.0.1" },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct rnic_addrs *addrs = loopback_new(cases[i].id);
        struct rnic_sockaddr guest = addr_port(cases[i].guest, 99), host;
        char text[RNIC_SOCKADDR_STR];

        g_assert_true(rnic_addr_to_host(addrs, &guest, &host));
        g_assert_cmpuint(rnic_sockaddr_port(&host), ==, 99);
        g_assert_true(rnic_addr_in_fabric(addrs, &host));
        host.port = 0;
        g_assert_cmpstr(rnic_sockaddr_str(&host, text), ==, cases[i].host);
        rnic_addrs_free(addrs);
    }
}

static void test_fabrics_are_apart(void)
{
    struct rnic_addrs *addrs = loopback_new(1);
    static const char *const outside[] = {
        "127.64.0.1", "127.65.0.1", "127.68.0.1",
        "127.0.0.1",  "10.66.0.1",  "::1",
    };

    for (size_t i = 0; i < G_N_ELEMENTS(outside); i++) {
        struct rnic_sockaddr host = addr(outside[i]);

        g_assert_false(rnic_addr_in_fabric(addrs, &host));
    }
    rnic_addrs_free(addrs);
}

static void test_peer_gets_the_network_of_the_local_address(void)
{
    static const struct {
        const char *local, *host, *guest;
    } cases[] = {
        { "10.7.0.1", V4_NET ".3.4", "10.7.3.4" },
        { "fd00:9::1", V6_NET ".3.4", "fd00:9::304" },
        { "fe80::1", V6_NET ".0.2", "fe80::2" },
        { "10.7.0.1", V6_NET ".3.4", NULL },
        { "fd00:9::1", V4_NET ".3.4", NULL },
        /* One of the device's own addresses is known in full */
        { "10.7.0.1", V4_NET ".0.77", "172.16.0.77" },
    };
    struct rnic_addrs *addrs = loopback_new(FABRIC);

    add_ok(addrs, "172.16.0.77");
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct rnic_addr local = { .guest = addr(cases[i].local) };
        struct rnic_sockaddr host = addr(cases[i].host), guest;
        char text[RNIC_SOCKADDR_STR];
        bool known = rnic_addr_from_host(addrs, &local, &host, &guest);

        g_assert_cmpint(known, ==, cases[i].guest != NULL);
        if (known) {
            g_assert_cmpstr(rnic_sockaddr_str(&guest, text), ==,
                            cases[i].guest);
        }
    }
    rnic_addrs_free(addrs);
}

static void test_direct_is_the_same_address(void)
{
    struct rnic_addrs *addrs = direct_new(NULL);
    struct rnic_sockaddr guest = addr_port("192.0.2.7", 5), host;
    struct rnic_sockaddr link_local = addr("fe80::1");

    g_assert_true(rnic_addr_to_host(addrs, &guest, &host));
    g_assert_cmpmem(&host, sizeof(host), &guest, sizeof(guest));
    g_assert_false(rnic_addr_in_fabric(addrs, &host));
    g_assert_false(rnic_addr_to_host(addrs, &link_local, &host));
    rnic_addrs_free(addrs);
}

static void test_map_rule_comes_before_the_fabric(void)
{
    struct rnic_addrs *addrs =
        addrs_new((struct rnic_config){ .fabric = RNIC_FABRIC_LOOPBACK,
                                        .fabric_id = FABRIC,
                                        .map = "10.5.0.0/24=192.0.2.0/24",
                                        .allow = "192.0.2.9" });
    struct rnic_sockaddr guest = addr("10.5.0.9"), host;
    bool conflict;
    char text[RNIC_SOCKADDR_STR];

    g_assert_true(rnic_addr_to_host(addrs, &guest, &host));
    g_assert_cmpstr(rnic_sockaddr_str(&host, text), ==, "192.0.2.9");
    add_ok(addrs, "10.5.0.9");
    /* Outside the fabric, and no 'allow' entry holds it */
    g_assert_cmpint(add(addrs, "10.5.0.8", &conflict), ==, RNIC_ADMIN_REFUSED);
    rnic_addrs_free(addrs);
}

static void test_mapped_ipv4_is_ipv4(void)
{
    struct rnic_sockaddr mapped = addr_port("::ffff:10.0.0.1", 7), plain;
    char text[RNIC_SOCKADDR_STR];

    g_assert_true(rnic_sockaddr_normalise(&mapped, &plain));
    g_assert_cmpstr(rnic_sockaddr_str(&plain, text), ==, "10.0.0.1:7");
    mapped.family = GUINT16_TO_LE(5);
    g_assert_false(rnic_sockaddr_normalise(&mapped, &plain));
}

/* ---- The table ---- */

static void test_addresses_that_share_16_bits_collide(void)
{
    struct rnic_addrs *addrs = loopback_new(FABRIC);
    bool conflict;

    add_ok(addrs, "10.0.1.1");
    g_assert_cmpint(add(addrs, "192.168.1.1", &conflict), ==,
                    RNIC_ADMIN_IN_USE);
    g_assert_false(conflict);
    g_assert_cmpuint(addrs->list->len, ==, 1);
    /* IPv6 has a net of its own */
    add_ok(addrs, "fd00::101");
    g_assert_cmpint(add(addrs, "fe80::101", &conflict), ==, RNIC_ADMIN_IN_USE);
    g_assert_cmpint(add(addrs, "10.0.1.1", &conflict), ==, RNIC_ADMIN_IN_USE);
    rnic_addrs_free(addrs);
}

static void test_an_address_has_one_device(void)
{
    struct rnic_addrs *one = loopback_new(FABRIC), *two = loopback_new(FABRIC);
    struct rnic_addrs *elsewhere = loopback_new(FABRIC - 1);
    struct rnic_sockaddr guest = addr("10.0.2.1");
    bool conflict;

    add_ok(one, "10.0.2.1");
    g_assert_cmpint(add(two, "172.20.2.1", &conflict), ==,
                    RNIC_ADMIN_ADDR_IN_USE);
    g_assert_true(conflict);
    g_assert_cmpuint(two->list->len, ==, 0);
    add_ok(elsewhere, "10.0.2.1");
    rnic_addr_remove(one, rnic_addr_find(one, &guest));
    add_ok(two, "172.20.2.1");
    rnic_addrs_free(one);
    rnic_addrs_free(two);
    rnic_addrs_free(elsewhere);
}

static void test_claims_can_be_seen(void)
{
    struct rnic_addrs *addrs = loopback_new(FABRIC);
    struct rnic_sockaddr host = addr(V4_NET ".2.9");

    g_assert_false(rnic_claim_exists(FABRIC, geteuid(), &host));
    add_ok(addrs, "10.0.2.9");
    g_assert_true(rnic_claim_exists(FABRIC, geteuid(), &host));
    g_assert_false(rnic_claim_exists(FABRIC, geteuid() + 1, &host));
    g_assert_false(rnic_claim_exists(-1, geteuid(), &host));
    rnic_addrs_free(addrs);
    g_assert_false(rnic_claim_exists(FABRIC, geteuid(), &host));
}

static void test_impossible_addresses_are_refused(void)
{
    static const char *const bad[] = {
        "0.0.0.0",         "::",      "127.0.0.1", "::1", "224.0.0.1",
        "255.255.255.255", "ff02::1",
    };
    struct rnic_addrs *addrs = direct_new(NULL);
    struct rnic_sockaddr guest = addr("192.0.2.1");
    struct rnic_addr *added;
    const char *why;
    bool conflict;

    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_assert_cmpint(add(addrs, bad[i], &conflict), ==,
                        RNIC_ADMIN_BAD_PARAM);
    }
    g_assert_cmpint(rnic_addr_add(addrs, &guest, 33, &added, &why, &conflict),
                    ==, RNIC_ADMIN_BAD_PARAM);
    guest.port = GUINT16_TO_BE(1);
    g_assert_cmpint(rnic_addr_add(addrs, &guest, 24, &added, &why, &conflict),
                    ==, RNIC_ADMIN_BAD_PARAM);
    rnic_addrs_free(addrs);
}

static void test_number_of_addresses_is_bounded(void)
{
    struct rnic_addrs *addrs = loopback_new(FABRIC);
    g_autofree char *text = NULL;
    bool conflict;

    for (unsigned i = 0; i < 64; i++) {
        g_free(text);
        text = g_strdup_printf("10.0.3.%u", i + 1);
        add_ok(addrs, text);
    }
    g_assert_cmpint(add(addrs, "10.0.3.200", &conflict), ==,
                    RNIC_ADMIN_NO_RESOURCES);
    rnic_addrs_free(addrs);
}

static void test_link_local_has_no_host_address_when_direct(void)
{
    struct rnic_addrs *addrs = direct_new(NULL);
    struct rnic_sockaddr guest = addr("fe80::1");

    add_ok(addrs, "fe80::1");
    g_assert_false(rnic_addr_find(addrs, &guest)->usable);
    g_assert_null(rnic_addr_nearest(addrs, &guest));
    rnic_addrs_free(addrs);
}

static void test_nearest_has_the_longest_common_prefix(void)
{
    struct rnic_addrs *addrs = loopback_new(FABRIC);
    struct rnic_sockaddr remote = addr("10.2.0.9"), v6 = addr("fd00::9");
    char text[RNIC_SOCKADDR_STR];

    add_ok(addrs, "10.1.4.1");
    add_ok(addrs, "10.2.4.2");
    add_ok(addrs, "172.16.4.3");
    g_assert_cmpstr(
        rnic_sockaddr_str(&rnic_addr_nearest(addrs, &remote)->guest, text), ==,
        "10.2.4.2");
    g_assert_null(rnic_addr_nearest(addrs, &v6));
    rnic_addrs_free(addrs);
}

/* ---- What is allowed ---- */

static enum rnic_reach reach(struct rnic_addrs *addrs, const char *text,
                             uint16_t port)
{
    struct rnic_sockaddr host = addr_port(text, port);

    return rnic_addr_may_connect(addrs, &host);
}

static void test_loopback_reaches_only_the_fabric(void)
{
    struct rnic_addrs *addrs = addrs_new(
        (struct rnic_config){ .fabric = RNIC_FABRIC_LOOPBACK,
                              .fabric_id = FABRIC,
                              .allow = "192.0.2.0/24:4420 127.0.0.0/8:9",
                              .deny = V4_NET ".9.9" });
    struct rnic_sockaddr own = addr(V4_NET ".0.1"), out = addr("127.0.0.1");

    g_assert_cmpint(reach(addrs, V4_NET ".0.1", 80), ==, RNIC_REACH_LISTENER);
    g_assert_cmpint(reach(addrs, V6_NET ".0.1", 80), ==, RNIC_REACH_LISTENER);
    g_assert_cmpint(reach(addrs, V4_NET ".9.9", 80), ==, RNIC_REACH_DENIED);
    g_assert_cmpint(reach(addrs, "127.0.0.1", 80), ==, RNIC_REACH_DENIED);
    g_assert_cmpint(reach(addrs, "127.64.0.1", 80), ==, RNIC_REACH_DENIED);
    g_assert_cmpint(reach(addrs, "192.0.2.1", 80), ==, RNIC_REACH_DENIED);
    g_assert_cmpint(reach(addrs, "192.0.2.1", 4420), ==, RNIC_REACH_FREE);
    g_assert_cmpint(reach(addrs, "127.0.0.1", 9), ==, RNIC_REACH_FREE);
    /* 'allow' does not open the fabric for what listens at 0.0.0.0 */
    g_assert_cmpint(reach(addrs, V4_NET ".0.1", 9), ==, RNIC_REACH_LISTENER);
    g_assert_true(rnic_addr_may_bind(addrs, &own));
    g_assert_cmpint(rnic_addr_may_accept(addrs, &own), ==, RNIC_REACH_LISTENER);
    out.port = GUINT16_TO_BE(80);
    g_assert_false(rnic_addr_may_bind(addrs, &out));
    rnic_addrs_free(addrs);
}

static void test_direct_spares_the_host_itself(void)
{
    struct rnic_addrs *addrs = direct_new(NULL);

    g_assert_cmpint(reach(addrs, "192.0.2.77", 80), ==, RNIC_REACH_FREE);
    g_assert_cmpint(reach(addrs, "127.0.0.1", 80), ==, RNIC_REACH_DENIED);
    g_assert_cmpint(reach(addrs, "::1", 80), ==, RNIC_REACH_DENIED);
    g_assert_cmpint(reach(addrs, "0.0.0.0", 80), ==, RNIC_REACH_DENIED);
    g_assert_cmpint(reach(addrs, "239.1.1.1", 80), ==, RNIC_REACH_DENIED);
    add_ok(addrs, "192.0.2.1");
    g_assert_cmpint(reach(addrs, "192.0.2.1", 80), ==, RNIC_REACH_OWN);
    rnic_addrs_free(addrs);
    addrs = direct_new("127.0.0.1:80");
    g_assert_cmpint(reach(addrs, "127.0.0.1", 80), ==, RNIC_REACH_FREE);
    g_assert_cmpint(reach(addrs, "127.0.0.1", 81), ==, RNIC_REACH_DENIED);
    rnic_addrs_free(addrs);
}

/* ---- Socket lookup ---- */

static int tcp_socket(const char *text, struct rnic_sockaddr *bound)
{
    struct rnic_sockaddr sa = addr(text);
    struct sockaddr_storage os;
    socklen_t len = rnic_sockaddr_to_os(&sa, &os);
    int fd = socket(os.ss_family, SOCK_STREAM, 0);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(bind(fd, (struct sockaddr *)&os, len), ==, 0);
    g_assert_cmpint(getsockname(fd, (struct sockaddr *)&os, &len), ==, 0);
    g_assert_true(rnic_sockaddr_from_os(&os, bound));
    return fd;
}

static void test_lookup_tells_exact_listeners_from_wildcards(void)
{
    struct rnic_sockaddr exact, any, none;
    struct rnic_diag_socket found;
    int diag = rnic_diag_open(), one, two, unused;

    g_assert_cmpint(diag, >=, 0);
    one = tcp_socket(V4_NET ".5.1", &exact);
    listen(one, 1);
    two = tcp_socket("0.0.0.0", &any);
    listen(two, 1);
    unused = tcp_socket(V4_NET ".5.1", &none);

    g_assert_cmpint(rnic_diag_lookup(diag, &exact, NULL, &found), ==,
                    RNIC_DIAG_FOUND);
    g_assert_true(found.exact);
    g_assert_true(found.listening);
    g_assert_cmpuint(found.uid, ==, geteuid());

    memcpy(any.addr, exact.addr, 4);
    g_assert_cmpint(rnic_diag_lookup(diag, &any, NULL, &found), ==,
                    RNIC_DIAG_FOUND);
    g_assert_false(found.exact);
    /* Bound and not listening */
    g_assert_cmpint(rnic_diag_lookup(diag, &none, NULL, &found), ==,
                    RNIC_DIAG_NONE);
    g_assert_cmpint(rnic_diag_lookup(-1, &exact, NULL, &found), ==,
                    RNIC_DIAG_UNAVAILABLE);
    close(one);
    close(two);
    close(unused);
    close(diag);
}

static void test_lookup_finds_the_peer_of_a_connection(void)
{
    struct rnic_sockaddr server, client;
    struct rnic_diag_socket found;
    struct sockaddr_storage os;
    socklen_t len;
    int diag = rnic_diag_open(), listener, fd;

    listener = tcp_socket(V4_NET ".5.1", &server);
    listen(listener, 1);
    fd = tcp_socket(V4_NET ".5.2", &client);
    len = rnic_sockaddr_to_os(&server, &os);
    g_assert_cmpint(connect(fd, (struct sockaddr *)&os, len), ==, 0);
    g_assert_cmpint(rnic_diag_lookup(diag, &client, &server, &found), ==,
                    RNIC_DIAG_FOUND);
    g_assert_false(found.listening);
    g_assert_cmpuint(found.uid, ==, geteuid());
    close(listener);
    close(fd);
    close(diag);
}

/* Waits until no other test, for example another run of this one, has @id:
 * whoever binds the name has it, as in tests/core/harness.c */
static void own_fabric(unsigned id)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int len = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1,
                       "rnic-test-fabric-%u", id);

    g_assert_cmpint(fd, >=, 0);
    while (bind(fd, (struct sockaddr *)&name,
                offsetof(struct sockaddr_un, sun_path) + 1 + len) < 0) {
        g_assert_cmpint(errno, ==, EADDRINUSE);
        g_usleep(50000);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    own_fabric(FABRIC - 1);
    own_fabric(FABRIC);
    g_test_add_func("/addr/map/fabric", test_fabric_keeps_the_low_16_bits);
    g_test_add_func("/addr/map/fabrics", test_fabrics_are_apart);
    g_test_add_func("/addr/map/peer",
                    test_peer_gets_the_network_of_the_local_address);
    g_test_add_func("/addr/map/direct", test_direct_is_the_same_address);
    g_test_add_func("/addr/map/rule", test_map_rule_comes_before_the_fabric);
    g_test_add_func("/addr/map/v4-mapped", test_mapped_ipv4_is_ipv4);
    g_test_add_func("/addr/table/collision",
                    test_addresses_that_share_16_bits_collide);
    g_test_add_func("/addr/table/one-device", test_an_address_has_one_device);
    g_test_add_func("/addr/table/claims", test_claims_can_be_seen);
    g_test_add_func("/addr/table/impossible",
                    test_impossible_addresses_are_refused);
    g_test_add_func("/addr/table/bounded", test_number_of_addresses_is_bounded);
    g_test_add_func("/addr/table/link-local",
                    test_link_local_has_no_host_address_when_direct);
    g_test_add_func("/addr/table/nearest",
                    test_nearest_has_the_longest_common_prefix);
    g_test_add_func("/addr/allowed/loopback",
                    test_loopback_reaches_only_the_fabric);
    g_test_add_func("/addr/allowed/direct", test_direct_spares_the_host_itself);
    g_test_add_func("/addr/diag/listeners",
                    test_lookup_tells_exact_listeners_from_wildcards);
    g_test_add_func("/addr/diag/peer",
                    test_lookup_finds_the_peer_of_a_connection);
    return g_test_run();
}
