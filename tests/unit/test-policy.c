/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/policy.h"

static struct rnic_sockaddr addr(const char *text, uint16_t port)
{
    struct rnic_sockaddr sa;

    g_assert_true(rnic_sockaddr_parse(text, &sa));
    sa.port = GUINT16_TO_BE(port);
    return sa;
}

static void parse(struct rnic_policy *policy, const char *map,
                  const char *allow, const char *deny)
{
    struct rnic_config config = { .map = map, .allow = allow, .deny = deny };
    GError *error = NULL;

    rnic_policy_init(policy, &config, &error);
    g_assert_no_error(error);
}

static void assert_verdict(const struct rnic_policy *policy, const char *text,
                           uint16_t port, enum rnic_verdict expected)
{
    struct rnic_sockaddr sa = addr(text, port);

    g_assert_cmpint(rnic_policy_verdict(policy, &sa), ==, expected);
}

static void test_no_rules_say_nothing(void)
{
    struct rnic_policy policy;

    parse(&policy, NULL, NULL, " ; ");
    assert_verdict(&policy, "10.0.0.1", 1, RNIC_POLICY_SILENT);
    assert_verdict(&policy, "fd00::1", 0, RNIC_POLICY_SILENT);
    rnic_policy_clear(&policy);
}

static void test_prefixes_end_at_their_length(void)
{
    struct rnic_policy policy;

    parse(&policy, NULL, "10.1.0.0/16;192.168.7.4/30 fd00:1::/33", NULL);
    assert_verdict(&policy, "10.1.0.0", 1, RNIC_POLICY_ALLOW);
    assert_verdict(&policy, "10.1.255.255", 65535, RNIC_POLICY_ALLOW);
    assert_verdict(&policy, "10.2.0.0", 1, RNIC_POLICY_SILENT);
    assert_verdict(&policy, "10.0.255.255", 1, RNIC_POLICY_SILENT);
    assert_verdict(&policy, "192.168.7.7", 1, RNIC_POLICY_ALLOW);
    assert_verdict(&policy, "192.168.7.8", 1, RNIC_POLICY_SILENT);
    assert_verdict(&policy, "192.168.7.3", 1, RNIC_POLICY_SILENT);
    assert_verdict(&policy, "fd00:1:7fff::1", 1, RNIC_POLICY_ALLOW);
    assert_verdict(&policy, "fd00:1:8000::1", 1, RNIC_POLICY_SILENT);
    rnic_policy_clear(&policy);
}

static void test_length_0_is_one_whole_family(void)
{
    struct rnic_policy policy;

    parse(&policy, NULL, "0.0.0.0/0", NULL);
    assert_verdict(&policy, "203.0.113.9", 1, RNIC_POLICY_ALLOW);
    assert_verdict(&policy, "fd00::1", 1, RNIC_POLICY_SILENT);
    rnic_policy_clear(&policy);
}

static void test_ports_bound_a_rule(void)
{
    struct rnic_policy policy;

    parse(&policy, NULL,
          "10.0.0.0/8:4420 10.0.0.1:5000-5009 "
          "[fd00::1]:7 [fd00::2]/127:8 fd00::8/126:9 fd01::1",
          NULL);
    assert_verdict(&policy, "10.9.9.9", 4420, RNIC_POLICY_ALLOW);
    assert_verdict(&policy, "10.9.9.9", 4421, RNIC_POLICY_SILENT);
    assert_verdict(&policy, "10.0.0.1", 5000, RNIC_POLICY_ALLOW);
    assert_verdict(&policy, "10.0.0.1", 5009, RNIC_POLICY_ALLOW);
    assert_verdict(&policy, "10.0.0.1", 5010, RNIC_POLICY_SILENT);
    assert_verdict(&policy, "10.0.0.1", 4999, RNIC_POLICY_SILENT);
    assert_verdict(&policy, "fd00::1", 7, RNIC_POLICY_ALLOW);
    assert_verdict(&policy, "fd00::1", 8, RNIC_POLICY_SILENT);
    assert_verdict(&policy, "fd00::3", 8, RNIC_POLICY_ALLOW);
    assert_verdict(&policy, "fd00::b", 9, RNIC_POLICY_ALLOW);
    assert_verdict(&policy, "fd00::b", 8, RNIC_POLICY_SILENT);
    assert_verdict(&policy, "fd01::1", 1, RNIC_POLICY_ALLOW);
    rnic_policy_clear(&policy);
}

static void test_deny_wins_over_allow(void)
{
    struct rnic_policy policy;

    parse(&policy, NULL, "10.0.0.0/8", "10.0.0.0/24:22 10.1.0.0/16");
    assert_verdict(&policy, "10.0.0.5", 22, RNIC_POLICY_DENY);
    assert_verdict(&policy, "10.0.0.5", 23, RNIC_POLICY_ALLOW);
    assert_verdict(&policy, "10.1.2.3", 9, RNIC_POLICY_DENY);
    rnic_policy_clear(&policy);
}

static void test_port_0_asks_for_the_address_as_a_whole(void)
{
    struct rnic_policy policy;

    parse(&policy, NULL, "10.0.0.0/8:4420 10.7.0.1:9",
          "10.0.0.9:4420 10.7.0.0/16");
    assert_verdict(&policy, "10.0.0.5", 0, RNIC_POLICY_ALLOW);
    assert_verdict(&policy, "10.0.0.9", 0, RNIC_POLICY_ALLOW);
    assert_verdict(&policy, "10.7.0.1", 0, RNIC_POLICY_DENY);
    rnic_policy_clear(&policy);
}

static void assert_maps(const struct rnic_policy *policy, const char *guest,
                        const char *host)
{
    struct rnic_sockaddr from = addr(guest, 4420), to, back;
    char text[RNIC_SOCKADDR_STR];

    g_assert_true(rnic_policy_map(policy, &from, &to));
    g_assert_cmpuint(rnic_sockaddr_port(&to), ==, 4420);
    to.port = 0;
    g_assert_cmpstr(rnic_sockaddr_str(&to, text), ==, host);
    g_assert_true(rnic_policy_unmap(policy, &to, &back));
    g_assert_cmpstr(rnic_sockaddr_str(&back, text), ==, guest);
}

static void test_map_keeps_the_low_bits(void)
{
    struct rnic_policy policy;
    struct rnic_sockaddr sa, to;

    parse(&policy,
          "10.0.0.0/16=192.168.0.0/16;10.9.8.7=203.0.113.9 "
          "10.1.0.0/20=10.2.240.0/20 fd00::/112=127.9.0.0/16",
          NULL, NULL);
    assert_maps(&policy, "10.0.3.4", "192.168.3.4");
    assert_maps(&policy, "10.9.8.7", "203.0.113.9");
    assert_maps(&policy, "10.1.15.255", "10.2.255.255");
    assert_maps(&policy, "fd00::102", "127.9.1.2");
    sa = addr("10.1.16.0", 0);
    g_assert_false(rnic_policy_map(&policy, &sa, &to));
    rnic_policy_clear(&policy);
}

static void test_first_map_rule_counts(void)
{
    struct rnic_policy policy;
    struct rnic_sockaddr sa = addr("10.0.0.1", 0), to;
    char text[RNIC_SOCKADDR_STR];

    parse(&policy, "10.0.0.1=192.168.9.9 10.0.0.0/24=192.168.1.0/24", NULL,
          NULL);
    g_assert_true(rnic_policy_map(&policy, &sa, &to));
    g_assert_cmpstr(rnic_sockaddr_str(&to, text), ==, "192.168.9.9");
    rnic_policy_clear(&policy);
}

static void test_bad_entries_are_named(void)
{
    static const struct {
        const char *map, *allow, *deny, *message;
    } cases[] = {
        { "10.0.0.0/8", NULL, NULL,
          "property 'map': entry '10.0.0.0/8': "
          "expected guest-prefix=host-prefix" },
        { "10.0.0.0/8=10.0.0.0/9", NULL, NULL,
          "*'10.0.0.0/8=10.0.0.0/9': both prefixes must leave the same*" },
        { "fd00::/64=10.0.0.0/8", NULL, NULL, "*same number of bits" },
        { "=10.0.0.0", NULL, NULL, "*not an IPv4 or IPv6 address" },
        { "10.0.0.1=", NULL, NULL, "*not an IPv4 or IPv6 address" },
        { NULL, "10.0.0.0/33", NULL,
          "property 'allow': entry "
          "'10.0.0.0/33': the prefix length must be 0 to 32" },
        { NULL, "fd00::/129", NULL, "*must be 0 to 128" },
        { NULL, "10.0.0.0/", NULL, "*must be 0 to 32" },
        { NULL, "10.0.0.0/-1", NULL, "*must be 0 to 32" },
        { NULL, "10.0.0.0/8x", NULL, "*must be 0 to 32" },
        { NULL, "10.0.0.1/8", NULL, "*bits set behind the prefix length" },
        { NULL, "10.0.0/8", NULL, "*not an IPv4 or IPv6 address" },
        { NULL, "example.org", NULL, "*not an IPv4 or IPv6 address" },
        { NULL, "10.0.0.1:0", NULL, "*a port must be 1 to 65535" },
        { NULL, "10.0.0.1:", NULL, "*a port must be 1 to 65535" },
        { NULL, "10.0.0.1:65536", NULL, "*a port must be 1 to 65535" },
        { NULL, "10.0.0.1:http", NULL, "*a port must be 1 to 65535" },
        { NULL, "10.0.0.1:9-8", NULL, "*second port is below the first" },
        { NULL, "10.0.0.1:9-", NULL, "*a port must be 1 to 65535" },
        { NULL, "[fd00::1:7", NULL, "*']' is missing" },
        { NULL, "[fd00::1]7", NULL, "*expected ':port' behind the prefix" },
        { NULL, "10.0.0.1 10.0.0.0/8 ;oops", NULL, "*entry 'oops'*" },
        { NULL, NULL, "1.2.3.4:x", "property 'deny': entry '1.2.3.4:x'*" },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct rnic_config config = {
            .map = cases[i].map,
            .allow = cases[i].allow,
            .deny = cases[i].deny,
        };
        struct rnic_policy policy;
        GError *error = NULL;

        g_assert_false(rnic_policy_init(&policy, &config, &error));
        g_assert_nonnull(error);
        if (!g_pattern_match_simple(cases[i].message, error->message)) {
            g_error("case %zu: '%s' is not '%s'", i, error->message,
                    cases[i].message);
        }
        g_error_free(error);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/policy/no-rules", test_no_rules_say_nothing);
    g_test_add_func("/policy/prefixes", test_prefixes_end_at_their_length);
    g_test_add_func("/policy/length-0", test_length_0_is_one_whole_family);
    g_test_add_func("/policy/ports", test_ports_bound_a_rule);
    g_test_add_func("/policy/deny-wins", test_deny_wins_over_allow);
    g_test_add_func("/policy/port-0",
                    test_port_0_asks_for_the_address_as_a_whole);
    g_test_add_func("/policy/map", test_map_keeps_the_low_bits);
    g_test_add_func("/policy/map-order", test_first_map_rule_counts);
    g_test_add_func("/policy/bad", test_bad_entries_are_named);
    return g_test_run();
}
