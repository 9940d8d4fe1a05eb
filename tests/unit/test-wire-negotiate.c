/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <glib.h>

#include "wire/mpa-negotiate.h"

#define W    RNIC_MPA_RTR_WRITE
#define R    RNIC_MPA_RTR_READ
#define S    RNIC_MPA_RTR_SEND
#define NONE RNIC_MPA_IRD_ORD_NONE

static const struct rnic_mpa_config config = {
    .rtr = W | R,
    .ird = 8,
    .ird_max = 32,
    .ord = 8,
    .rev = 2,
};

static struct rnic_mpa_frame plain_request(uint8_t rev)
{
    return (struct rnic_mpa_frame){ .rev = rev };
}

static struct rnic_mpa_frame enhanced_request(uint16_t ird, uint16_t ord)
{
    return (struct rnic_mpa_frame){
        .rev = 2,
        .enhanced = true,
        .ird = ird,
        .ord = ord,
    };
}

static struct rnic_mpa_frame p2p_request(uint8_t rtr)
{
    struct rnic_mpa_frame f = enhanced_request(4, 4);

    f.p2p = true;
    f.rtr = rtr;
    return f;
}

static struct rnic_mpa_frame reply_to(struct rnic_mpa_frame f)
{
    f.reply = true;
    return f;
}

static void test_responder_crc(void)
{
    static const struct {
        bool request, own, reply;
    } cases[] = {
        { false, false, false },
        { false, true, true },
        { true, false, true },
        { true, true, true },
    };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct rnic_mpa_frame request = plain_request(1);
        struct rnic_mpa_config cfg = config;
        struct rnic_mpa_frame reply;
        struct rnic_mpa_params p;

        request.crc = cases[i].request;
        cfg.crc = cases[i].own;
        g_assert_cmpint(rnic_mpa_accept(&request, &cfg, &reply, &p), ==,
                        RNIC_MPA_OK);
        g_assert_cmpint(reply.crc, ==, cases[i].reply);
        g_assert_cmpint(p.crc, ==, cases[i].reply);
    }
}

static void test_initiator_crc(void)
{
    unsigned i;

    for (i = 0; i < 4; i++) {
        struct rnic_mpa_frame request = plain_request(1);
        struct rnic_mpa_frame reply = reply_to(request);
        struct rnic_mpa_params p;

        request.crc = i & 1;
        reply.crc = i & 2;
        g_assert_cmpint(rnic_mpa_conclude(&request, &reply, &config, &p), ==,
                        RNIC_MPA_OK);
        g_assert_cmpint(p.crc, ==, i != 0);
    }
}

static void test_plain_request_has_a_plain_reply_of_its_revision(void)
{
    uint8_t rev;

    for (rev = 1; rev <= 2; rev++) {
        struct rnic_mpa_frame request = plain_request(rev);
        struct rnic_mpa_frame reply;
        struct rnic_mpa_params p;

        g_assert_cmpint(rnic_mpa_accept(&request, &config, &reply, &p), ==,
                        RNIC_MPA_OK);
        g_assert_true(reply.reply);
        g_assert_cmpuint(reply.rev, ==, rev);
        g_assert_false(reply.enhanced);
        g_assert_false(p.enhanced);
        g_assert_cmpuint(p.ird, ==, 8);
        g_assert_cmpuint(p.ord, ==, 8);
        g_assert_cmpuint(p.rtr, ==, 0);
    }
}

static void test_enhanced_request_has_an_enhanced_reply(void)
{
    struct rnic_mpa_frame request = enhanced_request(4, 4);
    struct rnic_mpa_frame reply;
    struct rnic_mpa_params p;

    g_assert_cmpint(rnic_mpa_accept(&request, &config, &reply, &p), ==,
                    RNIC_MPA_OK);
    g_assert_cmpuint(reply.rev, ==, 2);
    g_assert_true(reply.enhanced);
    g_assert_false(reply.p2p);
    g_assert_cmpuint(reply.rtr, ==, 0);
    g_assert_cmpuint(reply.ird, >=, 4);
    g_assert_cmpuint(reply.ord, <=, 4);
}

static void test_responder_ird_and_ord(void)
{
    static const struct {
        uint16_t req_ird, req_ord;  /* the Request */
        uint16_t ird, ird_max, ord; /* the configuration */
        uint16_t rep_ird, rep_ord;  /* the Reply */
        uint16_t use_ird, use_ord;  /* in effect */
    } cases[] = {
        /* ORD falls to the initiator's IRD. */
        { 4, 4, 8, 32, 8, 8, 4, 8, 4 },
        /* IRD rises to the initiator's ORD, up to the limit. */
        { 4, 16, 8, 32, 2, 16, 2, 16, 2 },
        { 4, 64, 8, 32, 2, 32, 2, 32, 2 },
        /* No reads at all. */
        { 0, 0, 0, 32, 8, 0, 0, 0, 0 },
        /* Not negotiated: mirrored, local values unchanged. */
        { 4, NONE, 8, 32, 8, NONE, 4, 8, 4 },
        { NONE, 4, 8, 32, 8, 8, NONE, 8, 8 },
        { NONE, NONE, 3, 32, 5, NONE, NONE, 3, 5 },
        /* No local value is taken for "not negotiated". */
        { 0x3ffe, 1, 0xffff, 0xffff, 0xffff, 0x3ffe, 0x3ffe, 0x3ffe, 0x3ffe },
    };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct rnic_mpa_frame request =
            enhanced_request(cases[i].req_ird, cases[i].req_ord);
        struct rnic_mpa_config cfg = {
            .ird = cases[i].ird,
            .ird_max = cases[i].ird_max,
            .ord = cases[i].ord,
            .rtr = W,
        };
        struct rnic_mpa_frame reply;
        struct rnic_mpa_params p;

        g_assert_cmpint(rnic_mpa_accept(&request, &cfg, &reply, &p), ==,
                        RNIC_MPA_OK);
        g_assert_cmpuint(reply.ird, ==, cases[i].rep_ird);
        g_assert_cmpuint(reply.ord, ==, cases[i].rep_ord);
        g_assert_cmpuint(p.ird, ==, cases[i].use_ird);
        g_assert_cmpuint(p.ord, ==, cases[i].use_ord);
        g_assert_cmpuint(p.peer_ird, ==, cases[i].req_ird);
        g_assert_cmpuint(p.peer_ord, ==, cases[i].req_ord);
    }
}

static void test_initiator_ird_and_ord(void)
{
    static const struct {
        uint16_t rep_ird, rep_ord; /* the Reply */
        uint16_t use_ird, use_ord; /* in effect; 8, 32, 8 configured */
    } cases[] = {
        { 8, 8, 8, 8 },
        /* The responder serves fewer than asked for. */
        { 2, 8, 8, 2 },
        { 0, 0, 8, 0 },
        /* More than asked for is no licence. */
        { 100, 8, 8, 8 },
        /* The responder wants more, and it can be served. */
        { 8, 32, 32, 8 },
        /* Not negotiated. */
        { NONE, 8, 8, 8 },
        { 4, NONE, 8, 4 },
    };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct rnic_mpa_frame request, reply;
        struct rnic_mpa_params p;

        g_assert_cmpint(rnic_mpa_request(&config, &request), ==, RNIC_MPA_OK);
        reply = reply_to(enhanced_request(cases[i].rep_ird, cases[i].rep_ord));
        g_assert_cmpint(rnic_mpa_conclude(&request, &reply, &config, &p), ==,
                        RNIC_MPA_OK);
        g_assert_cmpuint(p.ird, ==, cases[i].use_ird);
        g_assert_cmpuint(p.ord, ==, cases[i].use_ord);
    }
}

static void test_reply_ord_beyond_the_limit_is_insufficient_ird(void)
{
    struct rnic_mpa_frame request = enhanced_request(8, 8);
    struct rnic_mpa_frame reply = reply_to(enhanced_request(8, 33));
    struct rnic_mpa_params p;
    enum rnic_mpa_status st = rnic_mpa_conclude(&request, &reply, &config, &p);

    g_assert_cmpint(st, ==, RNIC_MPA_NO_IRD);
    g_assert_cmpint(rnic_mpa_status_err(st), ==, RNIC_WIRE_MPA_IRD);
}

static void test_responder_rtr(void)
{
    static const struct {
        uint8_t offered, own, reply;
    } cases[] = {
        { W | R, W | R, W | R },
        { W | R | S, W | R, W | R },
        { R, W | R, R },
        { W, W | R, W },
        /* None in common: what this end could take. */
        { S, W | R, W | R },
        { 0, W, W },
    };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct rnic_mpa_frame request = p2p_request(cases[i].offered);
        struct rnic_mpa_config cfg = config;
        struct rnic_mpa_frame reply;
        struct rnic_mpa_params p;

        cfg.rtr = cases[i].own;
        g_assert_cmpint(rnic_mpa_accept(&request, &cfg, &reply, &p), ==,
                        RNIC_MPA_OK);
        g_assert_true(reply.p2p);
        g_assert_cmpuint(reply.rtr, ==, cases[i].reply);
        g_assert_cmpuint(p.rtr, ==, cases[i].reply);
    }
}

static void test_read_rtr_needs_an_ird_of_one(void)
{
    struct rnic_mpa_frame request = p2p_request(R);
    struct rnic_mpa_config cfg = config;
    struct rnic_mpa_frame reply;
    struct rnic_mpa_params p;

    request.ord = 0;
    cfg.ird = 0;
    g_assert_cmpint(rnic_mpa_accept(&request, &cfg, &reply, &p), ==,
                    RNIC_MPA_OK);
    g_assert_cmpuint(reply.ird, ==, 1);
    g_assert_cmpuint(p.ird, ==, 1);
}

static void test_initiator_rtr(void)
{
    static const struct {
        uint8_t offered, reply, chosen;
    } cases[] = {
        { W | R, W | R, W },
        { W | R, W, W },
        { W | R, R, R },
        /* The Reply may name more than was offered. */
        { R, W | R | S, R },
        { W | R | S, S, S },
        { W | R | S, R | S, R },
    };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct rnic_mpa_frame request = p2p_request(cases[i].offered);
        struct rnic_mpa_frame reply = reply_to(p2p_request(cases[i].reply));
        struct rnic_mpa_params p;

        g_assert_cmpint(rnic_mpa_conclude(&request, &reply, &config, &p), ==,
                        RNIC_MPA_OK);
        g_assert_cmpuint(p.rtr, ==, cases[i].chosen);
    }
}

static void test_reply_without_a_common_rtr_fails(void)
{
    struct rnic_mpa_frame request = p2p_request(W | R);
    struct rnic_mpa_frame reply = reply_to(p2p_request(S));
    struct rnic_mpa_params p;
    enum rnic_mpa_status st = rnic_mpa_conclude(&request, &reply, &config, &p);

    g_assert_cmpint(st, ==, RNIC_MPA_NO_RTR);
    g_assert_cmpint(rnic_mpa_status_err(st), ==, RNIC_WIRE_MPA_RTR);
}

static void test_reply_that_drops_p2p_fails(void)
{
    struct rnic_mpa_frame request = p2p_request(W | R);
    struct rnic_mpa_frame reply = reply_to(enhanced_request(4, 4));
    struct rnic_mpa_params p;

    g_assert_cmpint(rnic_mpa_conclude(&request, &reply, &config, &p), ==,
                    RNIC_MPA_NO_RTR);
}

static void test_no_rtr_is_due_without_p2p(void)
{
    struct rnic_mpa_frame request = enhanced_request(4, 4);
    struct rnic_mpa_frame reply = reply_to(request);
    struct rnic_mpa_params p;

    g_assert_cmpint(rnic_mpa_conclude(&request, &reply, &config, &p), ==,
                    RNIC_MPA_OK);
    g_assert_cmpuint(p.rtr, ==, 0);
}

static void test_plain_reply_to_an_enhanced_request_fails(void)
{
    uint8_t rev;

    for (rev = 1; rev <= 2; rev++) {
        struct rnic_mpa_frame request = enhanced_request(4, 4);
        struct rnic_mpa_frame reply = reply_to(plain_request(rev));
        struct rnic_mpa_params p;

        g_assert_cmpint(rnic_mpa_conclude(&request, &reply, &config, &p), ==,
                        RNIC_MPA_BAD_REPLY);
    }
}

static void test_enhanced_reply_to_a_plain_request_fails(void)
{
    struct rnic_mpa_frame request = plain_request(1);
    struct rnic_mpa_frame reply = reply_to(enhanced_request(4, 4));
    struct rnic_mpa_params p;

    g_assert_cmpint(rnic_mpa_conclude(&request, &reply, &config, &p), ==,
                    RNIC_MPA_BAD_REPLY);
}

static void test_reply_of_a_newer_revision_fails(void)
{
    struct rnic_mpa_frame request = plain_request(1);
    struct rnic_mpa_frame reply = reply_to(plain_request(2));
    struct rnic_mpa_params p;

    g_assert_cmpint(rnic_mpa_conclude(&request, &reply, &config, &p), ==,
                    RNIC_MPA_BAD_REPLY);
}

static void test_reject_is_reported_with_the_peers_values(void)
{
    struct rnic_mpa_frame request = p2p_request(W);
    struct rnic_mpa_frame reply = reply_to(enhanced_request(3, 77));
    struct rnic_mpa_params p;

    reply.reject = true;
    g_assert_cmpint(rnic_mpa_conclude(&request, &reply, &config, &p), ==,
                    RNIC_MPA_REJECTED);
    g_assert_cmpuint(p.peer_ird, ==, 3);
    g_assert_cmpuint(p.peer_ord, ==, 77);
}

static void test_plain_reject_of_an_enhanced_request_is_a_reject(void)
{
    struct rnic_mpa_frame request = enhanced_request(4, 4);
    struct rnic_mpa_frame reply = reply_to(plain_request(1));
    struct rnic_mpa_params p;

    reply.reject = true;
    g_assert_cmpint(rnic_mpa_conclude(&request, &reply, &config, &p), ==,
                    RNIC_MPA_REJECTED);
}

static void test_rejecting_an_enhanced_request_keeps_the_block(void)
{
    struct rnic_mpa_frame request = enhanced_request(4, 4);
    struct rnic_mpa_frame reply;
    uint8_t buf[RNIC_MPA_FRAME_MAX];

    rnic_mpa_reject(&request, &config, &reply);
    g_assert_true(reply.reject);
    g_assert_true(reply.enhanced);
    g_assert_cmpuint(rnic_mpa_frame_encode(&reply, buf, sizeof(buf)), ==, 24);
    request = plain_request(1);
    rnic_mpa_reject(&request, &config, &reply);
    g_assert_true(reply.reject);
    g_assert_cmpuint(rnic_mpa_frame_encode(&reply, buf, sizeof(buf)), ==, 20);
}

static void test_r_in_a_request_is_ignored(void)
{
    struct rnic_mpa_frame request = plain_request(1);
    struct rnic_mpa_frame reply;
    struct rnic_mpa_params p;

    request.reject = true;
    g_assert_cmpint(rnic_mpa_accept(&request, &config, &reply, &p), ==,
                    RNIC_MPA_OK);
    g_assert_false(reply.reject);
}

static void test_markers_are_one_way(void)
{
    struct rnic_mpa_frame request = plain_request(1);
    struct rnic_mpa_frame reply;
    struct rnic_mpa_params p;

    request.markers = true;
    g_assert_cmpint(rnic_mpa_accept(&request, &config, &reply, &p), ==,
                    RNIC_MPA_OK);
    g_assert_true(p.tx_markers);
    g_assert_false(reply.markers);

    /* The initiator side: only the Reply's M counts. */
    reply.markers = true;
    request.markers = false;
    g_assert_cmpint(rnic_mpa_conclude(&request, &reply, &config, &p), ==,
                    RNIC_MPA_OK);
    g_assert_true(p.tx_markers);
    reply.markers = false;
    g_assert_cmpint(rnic_mpa_conclude(&request, &reply, &config, &p), ==,
                    RNIC_MPA_OK);
    g_assert_false(p.tx_markers);
}

static void test_request_follows_the_configuration(void)
{
    struct rnic_mpa_config cfg = config;
    struct rnic_mpa_frame f;

    cfg.p2p = true;
    cfg.crc = true;
    g_assert_cmpint(rnic_mpa_request(&cfg, &f), ==, RNIC_MPA_OK);
    g_assert_false(f.reply || f.markers || f.reject);
    g_assert_true(f.crc && f.enhanced && f.p2p);
    g_assert_cmpuint(f.rtr, ==, W | R);
    g_assert_cmpuint(f.ird, ==, 8);
    g_assert_cmpuint(f.ord, ==, 8);

    cfg.rev = 1;
    cfg.p2p = false;
    g_assert_cmpint(rnic_mpa_request(&cfg, &f), ==, RNIC_MPA_OK);
    g_assert_cmpuint(f.rev, ==, 1);
    g_assert_false(f.enhanced);
}

static void test_impossible_configurations_are_errors(void)
{
    struct rnic_mpa_config cfg = config;
    struct rnic_mpa_frame request = p2p_request(W);
    struct rnic_mpa_frame f;
    struct rnic_mpa_params p;

    cfg.p2p = true;
    cfg.rev = 1;
    g_assert_cmpint(rnic_mpa_request(&cfg, &f), ==, RNIC_MPA_NO_LOCAL);
    cfg.rev = 2;
    cfg.rtr = 0;
    g_assert_cmpint(rnic_mpa_request(&cfg, &f), ==, RNIC_MPA_NO_LOCAL);
    g_assert_cmpint(rnic_mpa_accept(&request, &cfg, &f, &p), ==,
                    RNIC_MPA_NO_LOCAL);
    cfg.p2p = false;
    cfg.rev = 3;
    g_assert_cmpint(rnic_mpa_request(&cfg, &f), ==, RNIC_MPA_NO_LOCAL);
}

static void test_both_ends_agree(void)
{
    static const uint16_t values[] = { 0, 1, 5, 32, 40, NONE };
    size_t a, b, c, d;

    for (a = 0; a < G_N_ELEMENTS(values); a++) {
        for (b = 0; b < G_N_ELEMENTS(values); b++) {
            for (c = 0; c < G_N_ELEMENTS(values); c++) {
                for (d = 0; d < G_N_ELEMENTS(values); d++) {
                    struct rnic_mpa_config ic = config, rc = config;
                    struct rnic_mpa_frame request, reply;
                    struct rnic_mpa_params ip, rp;

                    ic.p2p = true;
                    ic.ird = values[a];
                    ic.ord = values[b];
                    rc.ird = values[c];
                    rc.ord = values[d];
                    g_assert_cmpint(rnic_mpa_request(&ic, &request), ==,
                                    RNIC_MPA_OK);
                    g_assert_cmpint(rnic_mpa_accept(&request, &rc, &reply, &rp),
                                    ==, RNIC_MPA_OK);
                    g_assert_cmpint(
                        rnic_mpa_conclude(&request, &reply, &ic, &ip), ==,
                        RNIC_MPA_OK);
                    /* RFC 6581 section 9.1: what must hold afterwards. */
                    g_assert_cmpuint(ip.ord, <=, rp.ird);
                    g_assert_cmpuint(rp.ord, <=, ip.ird);
                    g_assert_cmpint(ip.crc, ==, rp.crc);
                    g_assert_cmpuint(ip.rtr & rp.rtr, !=, 0);
                }
            }
        }
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add_func("/wire/negotiate/" #name, test_##name)
    ADD(responder_crc);
    ADD(initiator_crc);
    ADD(plain_request_has_a_plain_reply_of_its_revision);
    ADD(enhanced_request_has_an_enhanced_reply);
    ADD(responder_ird_and_ord);
    ADD(initiator_ird_and_ord);
    ADD(reply_ord_beyond_the_limit_is_insufficient_ird);
    ADD(responder_rtr);
    ADD(read_rtr_needs_an_ird_of_one);
    ADD(initiator_rtr);
    ADD(reply_without_a_common_rtr_fails);
    ADD(reply_that_drops_p2p_fails);
    ADD(no_rtr_is_due_without_p2p);
    ADD(plain_reply_to_an_enhanced_request_fails);
    ADD(enhanced_reply_to_a_plain_request_fails);
    ADD(reply_of_a_newer_revision_fails);
    ADD(reject_is_reported_with_the_peers_values);
    ADD(plain_reject_of_an_enhanced_request_is_a_reject);
    ADD(rejecting_an_enhanced_request_keeps_the_block);
    ADD(r_in_a_request_is_ignored);
    ADD(markers_are_one_way);
    ADD(request_follows_the_configuration);
    ADD(impossible_configurations_are_errors);
    ADD(both_ends_agree);
#undef ADD
    return g_test_run();
}
