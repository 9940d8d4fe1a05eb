/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The device's properties
 *
 * Defaults are those of rnic_config_init(). Numbers and rules are checked by
 * the core; words and the MAC are translated here.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "qemu/guest-random.h"
#include "qemu/uuid.h"
#include "rnic-pci.h"
#include "hw/qdev-properties-system.h"

/* The words of a property, by value */
typedef const char *const Words[4];

static Words fabric_words = {
    [RNIC_FABRIC_LOOPBACK] = "loopback",
    [RNIC_FABRIC_DIRECT] = "direct",
};
static Words peers_words = { "user", "any" };
static Words crc_words = {
    [RNIC_CRC_AUTO] = "auto",
    [RNIC_CRC_ON] = "on",
    [RNIC_CRC_OFF] = "off",
};
static Words gate_words = { "off", "strict" };
static Words rtr_words = {
    [RNIC_RTR_WRITE] = "write",
    [RNIC_RTR_READ] = "read",
    [RNIC_RTR_WRITE | RNIC_RTR_READ] = "both",
};

static bool parse_word(const char *property, const char *word,
                       const char *const words[4], unsigned *value,
                       Error **errp)
{
    g_autoptr(GString) allowed = g_string_new(NULL);

    for (unsigned i = 0; i < 4; i++) {
        if (!words[i]) {
            continue;
        }
        if (!g_strcmp0(word, words[i])) {
            *value = i;
            return true;
        }
        g_string_append_printf(allowed, "%s'%s'", allowed->len ? ", " : "",
                               words[i]);
    }
    error_setg(errp, "property '%s': '%s' is not one of %s", property, word,
               allowed->str);
    return false;
}

/*
 * Two VMs must not get the same address, and one VM should keep its own. A
 * machine's UUID is unique, and within the machine the device's place is.
 */
static bool choose_mac(RnicState *s, Error **errp)
{
    g_autofree char *path = qdev_get_dev_path(DEVICE(s));
    uint8_t digest[32];
    gsize len = sizeof(digest);
    GChecksum *sum;

    if (!qemu_uuid_set || !path) {
        if (qemu_guest_getrandom(digest, len, errp) < 0) {
            return false;
        }
    } else {
        sum = g_checksum_new(G_CHECKSUM_SHA256);
        g_checksum_update(sum, qemu_uuid.data, sizeof(qemu_uuid.data));
        g_checksum_update(sum, (const guchar *)path, strlen(path));
        g_checksum_get_digest(sum, digest, &len);
        g_checksum_free(sum);
    }
    memcpy(s->mac.a, digest, sizeof(s->mac.a));
    s->mac.a[0] = (s->mac.a[0] & ~1) | 2; /* unicast, locally administered */
    return true;
}

static const char *nonempty(const char *text)
{
    return text && *text ? text : NULL;
}

bool rnic_properties_apply(RnicState *s, Error **errp)
{
    static const MACAddr none;
    unsigned fabric, peers, crc, gate;

    if (!parse_word("fabric", s->fabric, fabric_words, &fabric, errp) ||
        !parse_word("fabric-peers", s->fabric_peers, peers_words, &peers,
                    errp) ||
        !parse_word("crc", s->crc, crc_words, &crc, errp) ||
        !parse_word("mpa-gate", s->mpa_gate, gate_words, &gate, errp) ||
        !parse_word("rtr", s->rtr, rtr_words, &s->config.rtr, errp)) {
        return false;
    }
    s->config.fabric = fabric;
    s->config.fabric_peers_any = peers;
    s->config.crc = crc;
    s->config.mpa_gate_strict = gate;

    s->config.map = nonempty(s->map);
    s->config.allow = nonempty(s->allow);
    s->config.deny = nonempty(s->deny);
    s->config.pcap = nonempty(s->pcap);

    if (!memcmp(&s->mac, &none, sizeof(none)) && !choose_mac(s, errp)) {
        return false;
    }
    if (s->mac.a[0] & 1) {
        error_setg(errp,
                   "property 'mac': '%02x:%02x:%02x:%02x:%02x:%02x' is "
                   "a multicast address; the first octet must be even",
                   s->mac.a[0], s->mac.a[1], s->mac.a[2], s->mac.a[3],
                   s->mac.a[4], s->mac.a[5]);
        return false;
    }
    memcpy(s->config.mac, s->mac.a, sizeof(s->config.mac));
    return true;
}

/* DEFINE_PROP() gives no default: set_defaults() takes the core's */
static RNIC_PROPERTY rnic_properties[] = {
    DEFINE_PROP_STRING("fabric", RnicState, fabric),
    DEFINE_PROP("fabric-id", RnicState, config.fabric_id, qdev_prop_uint32,
                uint32_t),
    DEFINE_PROP_STRING("fabric-peers", RnicState, fabric_peers),
    DEFINE_PROP_STRING("map", RnicState, map),
    DEFINE_PROP_STRING("allow", RnicState, allow),
    DEFINE_PROP_STRING("deny", RnicState, deny),
    DEFINE_PROP_STRING("crc", RnicState, crc),
    DEFINE_PROP("mpa-rev", RnicState, config.mpa_rev, qdev_prop_uint32,
                uint32_t),
    DEFINE_PROP("p2p", RnicState, config.p2p, qdev_prop_bool, bool),
    DEFINE_PROP_STRING("rtr", RnicState, rtr),
    DEFINE_PROP_STRING("mpa-gate", RnicState, mpa_gate),
    DEFINE_PROP("mpa-timeout-ms", RnicState, config.mpa_timeout_ms,
                qdev_prop_uint32, uint32_t),
    DEFINE_PROP("peer-timeout-ms", RnicState, config.peer_timeout_ms,
                qdev_prop_uint32, uint32_t),
    DEFINE_PROP("fpdu-max", RnicState, config.fpdu_max, qdev_prop_uint32,
                uint32_t),
    DEFINE_PROP("max-connections", RnicState, config.max_connections,
                qdev_prop_uint32, uint32_t),
    DEFINE_PROP("rfc7306", RnicState, config.rfc7306, qdev_prop_bool, bool),
    DEFINE_PROP("sq-scan-ms", RnicState, config.sq_scan_ms, qdev_prop_uint32,
                uint32_t),
    DEFINE_PROP_STRING("pcap", RnicState, pcap),
    DEFINE_PROP("pcap-max", RnicState, config.pcap_max, qdev_prop_size,
                uint64_t),
    DEFINE_PROP("vectors", RnicState, config.vectors, qdev_prop_uint32,
                uint32_t),
    DEFINE_PROP_MACADDR("mac", RnicState, mac),
    DEFINE_PROP_LINK("iothread", RnicState, iothread, TYPE_IOTHREAD,
                     IOThread *),
    DEFINE_PROP("ioeventfd", RnicState, ioeventfd, qdev_prop_bool, bool),
    RNIC_PROPERTY_END
};

static const struct {
    const char *name;
    const char *description;
} descriptions[] = {
    { "fabric",
      "where guest addresses lie on the host: 'loopback' (127.64.0.0/"
      "16 and so on, no set-up needed) or 'direct' (the same addresses)" },
    { "fabric-id", "which loopback fabric, 0..94; VMs meet in the same one" },
    { "fabric-peers", "whose sockets the loopback fabric admits: 'user' (of "
                      "the same user) or 'any'" },
    { "map", "rules 'guest-prefix=host-prefix' separated by spaces, before the "
             "fabric's own" },
    { "allow", "'prefix[:port[-port]]' separated by spaces: host addresses "
               "that the guest may use beyond the fabric" },
    { "deny", "as 'allow', and stronger: host addresses that it may not use" },
    { "crc", "MPA CRC: 'auto' (off as initiator in a loopback fabric, else "
             "on), 'on', or 'off' unless the peer wants it" },
    { "mpa-rev", "MPA revision as initiator: 1 (RFC 5044) or 2 (RFC 6581)" },
    { "p2p", "ask for peer-to-peer mode as initiator (RFC 6581)" },
    { "rtr", "ready-to-receive messages of peer-to-peer mode: 'write', 'read' "
             "or 'both'" },
    { "mpa-gate", "'strict': a responder sends nothing before the initiator's "
                  "first FPDU (RFC 5044); 'off': for server-first programs" },
    { "mpa-timeout-ms", "how long to wait for the peer's MPA startup frame" },
    { "peer-timeout-ms", "how long the peer's TCP may leave octets or a probe "
                         "unanswered; 0: as the host's TCP is set up" },
    { "fpdu-max", "largest ULPDU in octets, 128..64768; 0: 64768 in a loopback "
                  "fabric, else what the path's MSS gives" },
    { "max-connections", "most connections at a time; 0: no limit" },
    { "rfc7306", "atomics and immediate data (RFC 7306); peers must have them, "
                 "too, and do not say so before they are used" },
    { "sq-scan-ms", "look for posted sends without a doorbell every so many "
                    "milliseconds; 0: never" },
    { "pcap", "file for a capture of all connections, with guest addresses" },
    { "pcap-max", "largest size of that file" },
    { "vectors", "MSI-X vectors, 2..64: one for events, the others for "
                 "completions" },
    { "mac", "MAC address; by default from the machine's UUID and the PCI "
             "address, or random without a UUID" },
    { "iothread", "IOThread for the device's engine; by default its own" },
    { "fault-admin-delay",
      "fault injection for tests of a driver: execute and answer admin "
      "commands so many ms late, 4294967295: never; also at run time" },
    { "ioeventfd", "under KVM take doorbells by eventfd" },
};

static void default_number(ObjectClass *oc, const char *name, uint64_t value)
{
    object_property_set_default_uint(object_class_property_find(oc, name),
                                     value);
}

static void default_bool(ObjectClass *oc, const char *name, bool value)
{
    object_property_set_default_bool(object_class_property_find(oc, name),
                                     value);
}

static void default_word(ObjectClass *oc, const char *name, const char *word)
{
    object_property_set_default_str(object_class_property_find(oc, name), word);
}

/* So that help shows them, and new objects have them */
static void set_defaults(ObjectClass *oc)
{
    struct rnic_config c;

    rnic_config_init(&c);
    default_word(oc, "fabric", fabric_words[c.fabric]);
    default_number(oc, "fabric-id", c.fabric_id);
    default_word(oc, "fabric-peers", peers_words[c.fabric_peers_any]);
    default_word(oc, "crc", crc_words[c.crc]);
    default_number(oc, "mpa-rev", c.mpa_rev);
    default_bool(oc, "p2p", c.p2p);
    default_word(oc, "rtr", rtr_words[c.rtr]);
    default_word(oc, "mpa-gate", gate_words[c.mpa_gate_strict]);
    default_number(oc, "mpa-timeout-ms", c.mpa_timeout_ms);
    default_number(oc, "peer-timeout-ms", c.peer_timeout_ms);
    default_number(oc, "fpdu-max", c.fpdu_max);
    default_number(oc, "max-connections", c.max_connections);
    default_bool(oc, "rfc7306", c.rfc7306);
    default_number(oc, "sq-scan-ms", c.sq_scan_ms);
    default_number(oc, "pcap-max", c.pcap_max);
    default_number(oc, "vectors", c.vectors);
    default_bool(oc, "ioeventfd", true);
}

/* Fault injection: may be set while the device works; BQL */

static void get_fault_admin_delay(Object *obj, Visitor *v, const char *name,
                                  void *opaque, Error **errp)
{
    visit_type_uint32(v, name, &RNIC(obj)->fault_admin_delay, errp);
}

static void set_fault_admin_delay(Object *obj, Visitor *v, const char *name,
                                  void *opaque, Error **errp)
{
    RnicState *s = RNIC(obj);

    if (visit_type_uint32(v, name, &s->fault_admin_delay, errp) && s->core) {
        rnic_device_fault_admin_delay(s->core, s->fault_admin_delay);
    }
}

void rnic_properties_class_init(DeviceClass *dc)
{
    ObjectClass *oc = OBJECT_CLASS(dc);

    device_class_set_props(dc, rnic_properties);
    object_class_property_add(oc, "fault-admin-delay", "uint32",
                              get_fault_admin_delay, set_fault_admin_delay,
                              NULL, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(descriptions); i++) {
        object_class_property_set_description(oc, descriptions[i].name,
                                              descriptions[i].description);
    }
    set_defaults(oc);
}
