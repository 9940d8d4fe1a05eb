/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "policy.h"

struct map_rule {
    struct rnic_prefix guest;
    struct rnic_prefix host;
};

struct port_rule {
    struct rnic_prefix prefix;
    uint16_t first, last;
};

static unsigned family_bits(const struct rnic_sockaddr *sa)
{
    return rnic_family_size(rnic_sockaddr_family(sa)) * 8;
}

/* Copies bits [from, to) of @src into @dst; bit 0 is the first octet's top */
static void copy_bits(uint8_t *dst, unsigned dst_from, const uint8_t *src,
                      unsigned src_from, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        unsigned d = dst_from + i, s = src_from + i;
        uint8_t bit = 0x80 >> (d % 8);

        if (src[s / 8] & (0x80 >> (s % 8))) {
            dst[d / 8] |= bit;
        } else {
            dst[d / 8] &= ~bit;
        }
    }
}

bool rnic_prefix_contains(const struct rnic_prefix *prefix,
                          const struct rnic_sockaddr *sa)
{
    uint8_t masked[16] = { 0 };

    if (sa->family != prefix->base.family) {
        return false;
    }
    copy_bits(masked, 0, sa->addr, 0, prefix->len);
    return !memcmp(masked, prefix->base.addr, sizeof(masked));
}

/* ---- Parsing ---- */

static bool bad_entry(GError **error, const char *property, const char *entry,
                      const char *reason)
{
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                "property '%s': entry '%s': %s", property, entry, reason);
    return false;
}

/* A decimal number without sign or space; false if above @max */
static bool parse_number(const char *text, unsigned max, unsigned *value)
{
    guint64 v;

    if (!g_ascii_string_to_unsigned(text, 10, 0, max, &v, NULL)) {
        return false;
    }
    *value = v;
    return true;
}

/* Returns NULL, or what is wrong */
static const char *parse_prefix(const char *text, struct rnic_prefix *prefix)
{
    g_auto(GStrv) parts = g_strsplit(text, "/", 2);
    uint8_t rest[16];
    unsigned bits;

    if (!parts[0] || !rnic_sockaddr_parse(parts[0], &prefix->base)) {
        return "not an IPv4 or IPv6 address";
    }
    bits = family_bits(&prefix->base);
    prefix->len = bits;
    if (parts[1] && !parse_number(parts[1], bits, &prefix->len)) {
        return bits == 32 ? "the prefix length must be 0 to 32"
                          : "the prefix length must be 0 to 128";
    }
    memcpy(rest, prefix->base.addr, sizeof(rest));
    copy_bits(rest, 0, (const uint8_t[16]){ 0 }, 0, prefix->len);
    for (unsigned i = 0; i < sizeof(rest); i++) {
        if (rest[i]) {
            return "the address has bits set behind the prefix length";
        }
    }
    return NULL;
}

/* ":port", ":port-port" or nothing */
static const char *parse_ports(const char *text, struct port_rule *rule)
{
    g_auto(GStrv) parts = NULL;
    unsigned first, last;

    rule->first = 0;
    rule->last = UINT16_MAX;
    if (!*text) {
        return NULL;
    }
    if (*text != ':') {
        return "expected ':port' behind the prefix";
    }
    parts = g_strsplit(text + 1, "-", 2);
    if (!parts[0] || !parse_number(parts[0], UINT16_MAX, &first) || !first) {
        return "a port must be 1 to 65535";
    }
    last = first;
    if (parts[1] && (!parse_number(parts[1], UINT16_MAX, &last) || !last)) {
        return "a port must be 1 to 65535";
    }
    if (last < first) {
        return "the second port is below the first";
    }
    rule->first = first;
    rule->last = last;
    return NULL;
}

static const char *parse_port_rule(const char *text, struct port_rule *rule)
{
    g_autofree char *prefix = NULL;
    const char *slash = strchr(text, '/');
    const char *ports, *reason;

    if (*text == '[') {
        const char *end = strchr(text, ']');
        size_t digits;

        if (!end) {
            return "']' is missing";
        }
        digits = end[1] == '/' ? 1 + strspn(end + 2, "0123456789") : 0;
        ports = end + 1 + digits;
        prefix = g_strdup_printf("%.*s%.*s", (int)(end - text - 1), text + 1,
                                 (int)digits, end + 1);
    } else {
        const char *colon = strchr(slash ? slash : text, ':');

        /* Two colons and no length: an IPv6 address, all of it */
        if (!colon || (!slash && strchr(colon + 1, ':'))) {
            colon = text + strlen(text);
        }
        ports = colon;
        prefix = g_strndup(text, colon - text);
    }
    reason = parse_prefix(prefix, &rule->prefix);
    return reason ? reason : parse_ports(ports, rule);
}

static const char *parse_map_rule(const char *text, struct map_rule *rule)
{
    g_auto(GStrv) sides = g_strsplit(text, "=", 2);
    const char *reason;

    if (!sides[0] || !sides[1]) {
        return "expected guest-prefix=host-prefix";
    }
    reason = parse_prefix(sides[0], &rule->guest);
    if (!reason) {
        reason = parse_prefix(sides[1], &rule->host);
    }
    if (!reason && family_bits(&rule->guest.base) - rule->guest.len !=
                       family_bits(&rule->host.base) - rule->host.len) {
        reason = "both prefixes must leave the same number of bits";
    }
    return reason;
}

typedef const char *(*parse_fn)(const char *text, void *rule);

static const char *parse_port_entry(const char *text, void *rule)
{
    return parse_port_rule(text, rule);
}

static const char *parse_map_entry(const char *text, void *rule)
{
    return parse_map_rule(text, rule);
}

static bool parse_list(const char *property, const char *text, parse_fn parse,
                       GArray *rules, GError **error)
{
    g_auto(GStrv) entries = g_strsplit_set(text ? text : "", " ;", -1);
    union {
        struct map_rule map;
        struct port_rule port;
    } rule;

    for (char **entry = entries; *entry; entry++) {
        const char *reason;

        if (!**entry) {
            continue;
        }
        memset(&rule, 0, sizeof(rule));
        reason = parse(*entry, &rule);
        if (reason) {
            return bad_entry(error, property, *entry, reason);
        }
        g_array_append_vals(rules, &rule, 1);
    }
    return true;
}

bool rnic_policy_init(struct rnic_policy *policy,
                      const struct rnic_config *config, GError **error)
{
    policy->map = g_array_new(false, false, sizeof(struct map_rule));
    policy->allow = g_array_new(false, false, sizeof(struct port_rule));
    policy->deny = g_array_new(false, false, sizeof(struct port_rule));
    if (!parse_list("map", config->map, parse_map_entry, policy->map, error) ||
        !parse_list("allow", config->allow, parse_port_entry, policy->allow,
                    error) ||
        !parse_list("deny", config->deny, parse_port_entry, policy->deny,
                    error)) {
        rnic_policy_clear(policy);
        return false;
    }
    return true;
}

void rnic_policy_clear(struct rnic_policy *policy)
{
    g_clear_pointer(&policy->map, g_array_unref);
    g_clear_pointer(&policy->allow, g_array_unref);
    g_clear_pointer(&policy->deny, g_array_unref);
}

/* ---- Lookup ---- */

static bool translate(const struct rnic_prefix *from,
                      const struct rnic_prefix *to,
                      const struct rnic_sockaddr *sa,
                      struct rnic_sockaddr *result)
{
    struct rnic_sockaddr mapped = to->base;

    if (!rnic_prefix_contains(from, sa)) {
        return false;
    }
    copy_bits(mapped.addr, to->len, sa->addr, from->len,
              family_bits(sa) - from->len);
    mapped.port = sa->port;
    *result = mapped;
    return true;
}

bool rnic_policy_map(const struct rnic_policy *policy,
                     const struct rnic_sockaddr *guest,
                     struct rnic_sockaddr *host)
{
    for (unsigned i = 0; i < policy->map->len; i++) {
        const struct map_rule *rule =
            &g_array_index(policy->map, struct map_rule, i);

        if (translate(&rule->guest, &rule->host, guest, host)) {
            return true;
        }
    }
    return false;
}

bool rnic_policy_unmap(const struct rnic_policy *policy,
                       const struct rnic_sockaddr *host,
                       struct rnic_sockaddr *guest)
{
    for (unsigned i = 0; i < policy->map->len; i++) {
        const struct map_rule *rule =
            &g_array_index(policy->map, struct map_rule, i);

        if (translate(&rule->host, &rule->guest, host, guest)) {
            return true;
        }
    }
    return false;
}

/* A rule for every port has first 0, so port 0 fits only that; with @any_port
 * the ports are not looked at */
static bool rules_contain(const GArray *rules, const struct rnic_sockaddr *sa,
                          bool any_port)
{
    uint16_t port = rnic_sockaddr_port(sa);

    for (unsigned i = 0; i < rules->len; i++) {
        const struct port_rule *rule =
            &g_array_index(rules, struct port_rule, i);

        if (rnic_prefix_contains(&rule->prefix, sa) &&
            (any_port || (port >= rule->first && port <= rule->last))) {
            return true;
        }
    }
    return false;
}

enum rnic_verdict rnic_policy_verdict(const struct rnic_policy *policy,
                                      const struct rnic_sockaddr *host)
{
    if (rules_contain(policy->deny, host, false)) {
        return RNIC_POLICY_DENY;
    }
    if (rules_contain(policy->allow, host, !host->port)) {
        return RNIC_POLICY_ALLOW;
    }
    return RNIC_POLICY_SILENT;
}
