/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Atomics (RFC 7306 section 5) on the wire: what a peer may ask for, what it
 * may answer, and what it gets when it breaks a rule. The numbers are those of
 * the list of wire cases, A01 to A08 and A14.
 */
#include "iwarp-peer.h"
#include "raw-peer.h"

#include <string.h>

#define FETCH_ADD 0
#define CMP_SWAP  2

#define IW_IMM         0x48
#define IW_ATOMIC_REQ  0x4a
#define IW_ATOMIC_RESP 0x4b

#define TARGET 256 /* offset in the buffer */
#define SINK   1024

static uint8_t *be(uint8_t *to, uint64_t value, unsigned octets)
{
    while (octets--) {
        *to++ = value >> octets * 8;
    }
    return to;
}

static uint64_t get(const uint8_t *from, unsigned octets)
{
    uint64_t value = 0;

    while (octets--) {
        value = value << 8 | *from++;
    }
    return value;
}

struct atomic {
    uint8_t op;
    uint32_t id, stag;
    uint64_t to, data, mask, compare, compare_mask;
};

static size_t atomic_request(uint8_t *to, uint32_t msn, const struct atomic *a)
{
    uint8_t header[52], *p = header;

    p = be(p, a->op, 4);
    p = be(p, a->id, 4);
    p = be(p, a->stag, 4);
    p = be(p, a->to, 8);
    p = be(p, a->data, 8);
    p = be(p, a->mask, 8);
    p = be(p, a->compare, 8);
    be(p, a->compare_mask, 8);
    return iw_untagged(to, IW_UNTAGGED, IW_ATOMIC_REQ, 0, 1, msn, 0, header,
                       sizeof(header));
}

static size_t atomic_response(uint8_t *to, uint32_t qn, uint32_t msn,
                              uint32_t id, uint64_t value, size_t len)
{
    uint8_t header[16] = { 0 };

    be(be(header, id, 4), value, 8);
    return iw_untagged(to, IW_UNTAGGED, IW_ATOMIC_RESP, 0, qn, msn, 0, header,
                       len);
}

static void start_with(struct iw_peer *p, gconstpointer crc, bool rfc7306,
                       uint16_t ird, uint16_t ord)
{
    struct iw_options options;

    iw_options_init(&options, GPOINTER_TO_INT(crc));
    options.rfc7306 = rfc7306;
    options.ird = ird;
    options.ord = ord;
    iw_start(p, &options);
    memset(p->buf.ptr, 0xee, PEER_BUF);
}

static void start(struct iw_peer *p, gconstpointer crc)
{
    start_with(p, crc, true, 4, 4);
}

static void check_untouched(struct iw_peer *p)
{
    size_t i;

    for (i = 0; i < PEER_BUF; i++) {
        g_assert_cmpuint(p->buf.ptr[i], ==, 0xee);
    }
}

static uint64_t number(struct iw_peer *p, size_t offset)
{
    uint64_t value;

    memcpy(&value, p->buf.ptr + offset, 8);
    return GUINT64_FROM_LE(value);
}

static void set_number(struct iw_peer *p, size_t offset, uint64_t value)
{
    value = GUINT64_TO_LE(value);
    memcpy(p->buf.ptr + offset, &value, 8);
}

/* The next thing on the wire is this response */
static void expect_response(struct iw_peer *p, uint32_t msn, uint32_t id,
                            uint64_t value)
{
    uint8_t ulpdu[65536];

    g_assert_cmpuint(iw_recv(p, ulpdu), ==, 30);
    g_assert_cmphex(ulpdu[0], ==, IW_UNTAGGED);
    g_assert_cmphex(ulpdu[1], ==, IW_ATOMIC_RESP);
    g_assert_cmphex(get(ulpdu + 2, 4), ==, 0);
    g_assert_cmphex(get(ulpdu + 6, 4), ==, 3); /* QN */
    g_assert_cmphex(get(ulpdu + 10, 4), ==, msn);
    g_assert_cmphex(get(ulpdu + 14, 4), ==, 0); /* MO */
    g_assert_cmphex(get(ulpdu + 18, 4), ==, id);
    g_assert_cmphex(get(ulpdu + 22, 8), ==, value);
}

static void request(struct iw_peer *p, uint32_t msn, struct atomic a)
{
    uint8_t ulpdu[128];

    a.stag = p->stag;
    a.to = PEER_IOVA + TARGET;
    iw_send(p, ulpdu, atomic_request(ulpdu, msn, &a));
}

static void test_a01_fetch_add(gconstpointer crc)
{
    struct iw_peer p;

    start(&p, crc);
    set_number(&p, TARGET, 0x0102030405060708);
    request(&p, 1, (struct atomic){ .id = 0x1001, .data = 5 });
    expect_response(&p, 1, 0x1001, 0x0102030405060708);
    g_assert_cmphex(number(&p, TARGET), ==, 0x010203040506070d);
    /* The octets around it are not its own */
    g_assert_cmphex(number(&p, TARGET - 8), ==, 0xeeeeeeeeeeeeeeee);
    g_assert_cmphex(number(&p, TARGET + 8), ==, 0xeeeeeeeeeeeeeeee);
    /* Across all 64 bits, and QN 3 counts on */
    request(&p, 2, (struct atomic){ .id = 7, .data = UINT64_MAX });
    expect_response(&p, 2, 7, 0x010203040506070d);
    g_assert_cmphex(number(&p, TARGET), ==, 0x010203040506070c);
    /* A peer's probe */
    request(&p, 3, (struct atomic){ .id = 8 });
    expect_response(&p, 3, 8, 0x010203040506070c);
    g_assert_cmphex(number(&p, TARGET), ==, 0x010203040506070c);
    iw_free(&p);
}

static void test_a02_fetch_add_of_fields(gconstpointer crc)
{
    static const struct {
        uint64_t old, add, mask, sum;
    } rows[] = {
        { 0xffffffff00000001, 0x0000000200000003, 0x8000000080000000,
          0x0000000100000004 },
        { 0x00000001ffffffff, 0x0000000000000001, 0x8000000080000000,
          0x0000000100000000 },
        { 0x00000001ffffffff, 0x0000000000000001, 0x8000000000000000,
          0x0000000200000000 },
        /* Each bit a field of its own: exclusive or */
        { 0xf0f0f0f0f0f0f0f0, 0xff00ff00ff00ff00, UINT64_MAX,
          0x0ff00ff00ff00ff0 },
        /* Octets */
        { 0x01ff80ff7f00ffff, 0x01018001010001ff, 0x8080808080808080,
          0x02000000800000fe },
    };
    struct iw_peer p;
    unsigned i;

    start(&p, crc);
    for (i = 0; i < G_N_ELEMENTS(rows); i++) {
        set_number(&p, TARGET, rows[i].old);
        request(&p, i + 1,
                (struct atomic){
                    .id = i, .data = rows[i].add, .mask = rows[i].mask });
        expect_response(&p, i + 1, i, rows[i].old);
        g_assert_cmphex(number(&p, TARGET), ==, rows[i].sum);
    }
    iw_free(&p);
}

static void test_a03_cmp_swap(gconstpointer crc)
{
    static const struct {
        uint64_t old, swap, mask, compare, compare_mask, now;
    } rows[] = {
        { 10, 20, UINT64_MAX, 10, UINT64_MAX, 20 }, /* match */
        { 10, 20, UINT64_MAX, 11, UINT64_MAX, 10 }, /* mismatch */
        /* Only these bits are compared */
        { 0xabcd1234, 7, UINT64_MAX, 0xffff1234, 0xffff, 7 },
        { 0xabcd1234, 7, UINT64_MAX, 0xffff1235, 0xffff, 0xabcd1234 },
        /* Only these bits are replaced */
        { 0x1111111111111111, 0x2222222222222222, 0x00ff00ff00ff00ff,
          0x1111111111111111, UINT64_MAX, 0x1122112211221122 },
        /* Nothing is compared: a swap */
        { 1, 2, UINT64_MAX, 3, 0, 2 },
        /* Nothing is replaced */
        { 1, 2, 0, 1, UINT64_MAX, 1 },
    };
    struct iw_peer p;
    unsigned i;

    start(&p, crc);
    for (i = 0; i < G_N_ELEMENTS(rows); i++) {
        set_number(&p, TARGET, rows[i].old);
        request(&p, i + 1,
                (struct atomic){
                    .op = CMP_SWAP,
                    .id = i,
                    .data = rows[i].swap,
                    .mask = rows[i].mask,
                    .compare = rows[i].compare,
                    .compare_mask = rows[i].compare_mask,
                });
        expect_response(&p, i + 1, i, rows[i].old);
        g_assert_cmphex(number(&p, TARGET), ==, rows[i].now);
    }
    iw_free(&p);
}

/* Sends it behind a good Read, expects the Read's response and this Terminate */
static void refused(struct iw_peer *p, const struct atomic *a, uint8_t etype,
                    uint8_t code)
{
    uint8_t ulpdu[128], read[65536], term[70];

    iw_send(p, read,
            iw_read_request(read, 1, 0xaabbcc01, 0, 16, p->stag, PEER_IOVA));
    iw_send(p, ulpdu, atomic_request(ulpdu, 2, a));
    g_assert_cmpuint(iw_recv(p, read), ==, 14 + 16);
    iw_expect_refused(p, 0, etype, code, term);
    /* M and D, never R (RFC 7306 section 8.2) */
    g_assert_cmphex(term[20], ==, 0xc0);
    g_assert_cmpuint(get(term + 22, 2), ==, 70);
    g_assert_cmpmem(term + 24, 18, ulpdu, 18);
}

static void test_a04_unaligned(gconstpointer crc)
{
    unsigned offset;

    for (offset = 1; offset < 8; offset++) {
        struct iw_peer p;

        start(&p, crc);
        refused(&p,
                &(struct atomic){
                    .stag = p.stag, .to = PEER_IOVA + offset, .data = 1 },
                2, 0x07);
        check_untouched(&p);
        iw_free(&p);
    }
}

static void test_a04_unaligned_memory_behind_an_aligned_to(gconstpointer crc)
{
    unsigned offset;

    /* And the other way round */
    for (offset = 8; offset <= 12; offset += 4) {
        struct iw_peer p;
        struct th_buf buf;
        uint32_t stag, i;

        start(&p, crc);
        buf = th_buf_new(p.guest, 4096, 1, 4);
        memset(buf.ptr, 0xee, buf.len);
        stag = th_reg_mr(p.guest, &buf, 0x10000, RNIC_ACCESS_REMOTE_ATOMIC);
        refused(
            &p,
            &(struct atomic){ .stag = stag, .to = 0x10000 + offset, .data = 1 },
            2, 0x07);
        for (i = 0; i < buf.len; i++) {
            g_assert_cmphex(buf.ptr[i], ==, 0xee);
        }
        iw_free(&p);
    }
}

static void test_a05_protection(gconstpointer crc)
{
    static const struct {
        uint32_t stag_xor;
        uint64_t to;
        uint8_t code;
    } rows[] = {
        { 1, PEER_IOVA, 0x00 },
        { 0x55500, PEER_IOVA, 0x00 },
        { 0, PEER_IOVA - 8, 0x01 },
        { 0, PEER_IOVA + PEER_BUF, 0x01 },
        { 0, PEER_IOVA + PEER_BUF - 4, 0x01 },
        { 0, UINT64_MAX - 3, 0x04 },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(rows); i++) {
        struct iw_peer p;

        start(&p, crc);
        refused(&p,
                &(struct atomic){ .stag = p.stag ^ rows[i].stag_xor,
                                  .to = rows[i].to,
                                  .data = 1 },
                1, rows[i].code);
        check_untouched(&p);
        iw_free(&p);
    }
}

/* A region of @pdn with @access cannot be the target */
static void refused_region(gconstpointer crc, uint32_t pdn, uint32_t access,
                           uint8_t code)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_REG_MR };
    struct rnic_acqe resp;
    struct iw_peer p;

    start(&p, crc);
    cmd.reg_mr.pdn = GUINT32_TO_LE(pdn);
    cmd.reg_mr.access = GUINT32_TO_LE(access);
    cmd.reg_mr.iova = GUINT64_TO_LE(PEER_IOVA);
    cmd.reg_mr.buf = p.buf.desc;
    g_assert_cmpuint(th_admin(p.guest, &cmd, &resp), ==, RNIC_ADMIN_OK);
    refused(&p,
            &(struct atomic){ .stag = GUINT32_FROM_LE(resp.mr.stag),
                              .to = PEER_IOVA,
                              .data = 1 },
            1, code);
    check_untouched(&p);
    iw_free(&p);
}

static void test_a05_other_protection_domain(gconstpointer crc)
{
    refused_region(crc, TH_PD + 1, RNIC_ACCESS_REMOTE_ATOMIC, 0x03);
}

static void test_a05_right_missing(gconstpointer crc)
{
    refused_region(crc, TH_PD, RNIC_ACCESS_ALL, 0x02);
}

static void test_a05_memory_that_is_gone(gconstpointer crc)
{
    uint8_t ulpdu[128];
    struct iw_peer p;
    struct atomic a = { .to = PEER_IOVA, .data = 1 };

    start(&p, crc);
    a.stag = p.stag;
    th_make_hole(p.guest, p.buf.pages[0], TH_PAGE);
    iw_send(&p, ulpdu, atomic_request(ulpdu, 1, &a));
    iw_expect_term(&p, 0, 0, 0xff, NULL);
    th_fill_holes(p.guest);
    iw_check_after(&p);
    iw_free(&p);
}

static void test_a06_unknown_atomic_opcode(gconstpointer crc)
{
    static const uint8_t ops[] = { 1, 3, 15 };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(ops); i++) {
        uint8_t ulpdu[128];
        struct atomic a = { .op = ops[i], .to = PEER_IOVA, .data = 1 };
        struct iw_peer p;

        start(&p, crc);
        a.stag = p.stag;
        iw_send(&p, ulpdu, atomic_request(ulpdu, 1, &a));
        iw_expect_refused(&p, 0, 2, 0x06, NULL);
        iw_free(&p);
    }
}

#define LONG_READ (24u << 20)

/* Reads and atomics in turn, one more than the IRD. The first is a Read that is
 * not finished, since the peer does not read. */
static void beyond_ird(gconstpointer crc, unsigned ird, bool atomic_last)
{
    uint8_t ulpdu[128];
    struct th_buf buf;
    struct iw_peer p;
    uint32_t stag;
    unsigned i;

    start_with(&p, crc, true, ird, 4);
    buf = th_buf_new(p.guest, LONG_READ, 0, 0);
    stag = th_reg_mr(p.guest, &buf, 0, RNIC_ACCESS_REMOTE_READ);
    for (i = 0; i <= ird; i++) {
        struct atomic a = { .stag = p.stag, .to = PEER_IOVA, .data = 0 };
        size_t len;

        if ((ird - i) % 2 != atomic_last && (i || !ird)) {
            len = atomic_request(ulpdu, i + 1, &a);
        } else {
            len = iw_read_request(ulpdu, i + 1, 1, 0, i ? 16 : LONG_READ, stag,
                                  0);
        }
        if (i == ird) {
            th_run_for(20);
            g_assert_cmpuint(th_qp_state(p.qp), ==, RNIC_QPS_RTS);
        }
        iw_send(&p, ulpdu, len);
    }
    iw_expect_refused(&p, 1, 2, 0x02, NULL);
    iw_free(&p);
}

static void test_a07_reads_and_atomics_share_the_ird(gconstpointer crc)
{
    beyond_ird(crc, 4, true);
    beyond_ird(crc, 4, false);
    beyond_ird(crc, 0, false);
}

static void test_a07_answered_in_the_order_asked(gconstpointer crc)
{
    uint8_t octets[4096], ulpdu[65536];
    uint32_t msn = 1;
    struct iw_peer p;
    unsigned i, j;

    start(&p, crc);
    set_number(&p, TARGET, 0);
    for (j = 0; j < 20; j++) {
        size_t len = 0;

        /* Read, add, Read, add: each Read shows what was before it */
        for (i = 0; i < 4; i++) {
            struct atomic a = {
                .id = msn,
                .stag = p.stag,
                .to = PEER_IOVA + TARGET,
                .data = 1,
            };

            len += iw_fpdu(&p, octets + len, ulpdu,
                           i % 2 ? atomic_request(ulpdu, msn, &a)
                                 : iw_read_request(ulpdu, msn, 1, 0, 8, p.stag,
                                                   PEER_IOVA + TARGET));
            msn++;
        }
        raw_send(p.fd, octets, len);
        for (i = 0; i < 2; i++) {
            uint64_t before = 2 * j + i, little;

            g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 14 + 8);
            memcpy(&little, ulpdu + 14, 8);
            g_assert_cmpuint(GUINT64_FROM_LE(little), ==, before);
            expect_response(&p, before + 1, 4 * j + 2 * i + 2, before);
        }
    }
    iw_free(&p);
}

static void test_request_msn(gconstpointer crc)
{
    uint8_t ulpdu[128];
    struct atomic a = { .to = PEER_IOVA, .data = 1 };
    struct iw_peer p;

    start(&p, crc);
    a.stag = p.stag;
    iw_send(&p, ulpdu, atomic_request(ulpdu, 2, &a));
    iw_expect_refused(&p, 1, 2, 0x03, NULL);
    iw_free(&p);
}

/* ---- Atomics of the device ---- */

static void post_atomic(struct iw_peer *p, uint64_t wr_id,
                        enum rnic_wr_opcode opcode)
{
    struct th_wr wr = {
        .opcode = opcode,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = wr_id,
        .sge = { th_sge(p->stag, PEER_IOVA + SINK, 8) },
        .num_sge = 1,
        .remote_stag = 0x11223344,
        .remote_to = 0x5566778899aabbc8,
        .data = 0x0102030405060708,
        .compare = 0x1112131415161718,
        .mask = 0x8000000000000001,
        .compare_mask = 0x3132333435363738,
    };

    th_post_send(p->qp, &wr, 1);
}

/* The device's request; its identifier */
static uint32_t expect_request(struct iw_peer *p, uint32_t msn, uint8_t op,
                               uint64_t data, uint64_t mask, uint64_t compare,
                               uint64_t compare_mask)
{
    uint8_t ulpdu[65536];

    g_assert_cmpuint(iw_recv(p, ulpdu), ==, 70);
    g_assert_cmphex(ulpdu[0], ==, IW_UNTAGGED);
    g_assert_cmphex(ulpdu[1], ==, IW_ATOMIC_REQ);
    g_assert_cmphex(get(ulpdu + 2, 4), ==, 0);
    g_assert_cmphex(get(ulpdu + 6, 4), ==, 1);
    g_assert_cmphex(get(ulpdu + 10, 4), ==, msn);
    g_assert_cmphex(get(ulpdu + 14, 4), ==, 0);
    g_assert_cmphex(get(ulpdu + 18, 4), ==, op);
    g_assert_cmphex(get(ulpdu + 26, 4), ==, 0x11223344);
    g_assert_cmphex(get(ulpdu + 30, 8), ==, 0x5566778899aabbc8);
    g_assert_cmphex(get(ulpdu + 38, 8), ==, data);
    g_assert_cmphex(get(ulpdu + 46, 8), ==, mask);
    g_assert_cmphex(get(ulpdu + 54, 8), ==, compare);
    g_assert_cmphex(get(ulpdu + 62, 8), ==, compare_mask);
    return get(ulpdu + 22, 4);
}

static void wait_atomic(struct iw_peer *p, uint64_t wr_id, uint64_t value)
{
    struct rnic_cqe cqe;

    th_cq_wait(p->qp->attr.send_cq, &cqe);
    g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, wr_id);
    g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
    g_assert_cmpuint(GUINT32_FROM_LE(cqe.byte_len), ==, 8);
    g_assert_cmphex(number(p, SINK), ==, value);
}

static void test_requests_and_their_responses(gconstpointer crc)
{
    uint8_t ulpdu[128];
    struct iw_peer p;
    uint32_t id;

    start(&p, crc);
    iw_open_gate(&p);
    post_atomic(&p, 1, RNIC_WR_FETCH_ADD);
    id = expect_request(&p, 1, FETCH_ADD, 0x0102030405060708,
                        0x8000000000000001, 0, UINT64_MAX);
    iw_send(&p, ulpdu,
            atomic_response(ulpdu, 3, 1, id, 0xa1a2a3a4a5a6a7a8, 12));
    wait_atomic(&p, 1, 0xa1a2a3a4a5a6a7a8);
    post_atomic(&p, 2, RNIC_WR_CMP_SWAP);
    id = expect_request(&p, 2, CMP_SWAP, 0x0102030405060708, UINT64_MAX,
                        0x1112131415161718, UINT64_MAX);
    iw_send(&p, ulpdu, atomic_response(ulpdu, 3, 2, id, 5, 12));
    wait_atomic(&p, 2, 5);
    iw_free(&p);
}

static void test_atomics_and_reads_share_the_ord(gconstpointer crc)
{
    uint8_t ulpdu[65536], payload[10] = { 0 };
    uint32_t id;
    struct iw_peer p;

    start_with(&p, crc, true, 4, 2);
    iw_open_gate(&p);
    iw_post_read(&p, 1, 0, 10);
    post_atomic(&p, 2, RNIC_WR_CMP_SWAP);
    post_atomic(&p, 3, RNIC_WR_CMP_SWAP);
    iw_recv(&p, ulpdu);
    g_assert_cmphex(ulpdu[1], ==, IW_READ_REQ);
    id = expect_request(&p, 2, CMP_SWAP, 0x0102030405060708, UINT64_MAX,
                        0x1112131415161718, UINT64_MAX);
    raw_silent(p.fd, 20);
    iw_send(
        &p, ulpdu,
        iw_tagged(ulpdu, 0xc1, IW_READ_RSP, p.stag, PEER_IOVA, payload, 10));
    iw_wait_send(&p, 1, RNIC_WC_SUCCESS);
    g_assert_cmphex(expect_request(&p, 3, CMP_SWAP, 0x0102030405060708,
                                   UINT64_MAX, 0x1112131415161718, UINT64_MAX),
                    !=, id);
    raw_silent(p.fd, 5);
    iw_send(&p, ulpdu, atomic_response(ulpdu, 3, 1, id, 6, 12));
    wait_atomic(&p, 2, 6);
    iw_free(&p);
}

static void test_fenced_send_waits_for_the_atomic(gconstpointer crc)
{
    uint8_t ulpdu[65536];
    struct th_wr wr = {
        .opcode = RNIC_WR_SEND,
        .flags = RNIC_WQE_FENCE | RNIC_WQE_SIGNALED,
        .wr_id = 2,
    };
    struct iw_peer p;
    uint32_t id;

    start(&p, crc);
    iw_open_gate(&p);
    post_atomic(&p, 1, RNIC_WR_CMP_SWAP);
    th_post_send(p.qp, &wr, 1);
    iw_recv(&p, ulpdu);
    id = get(ulpdu + 22, 4);
    raw_silent(p.fd, 20);
    iw_send(&p, ulpdu, atomic_response(ulpdu, 3, 1, id, 6, 12));
    wait_atomic(&p, 1, 6);
    g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 18);
    iw_wait_send(&p, 2, RNIC_WC_SUCCESS);
    iw_free(&p);
}

static void test_a08_response_that_nobody_asked_for(gconstpointer crc)
{
    uint8_t ulpdu[128];
    struct iw_peer p;

    start(&p, crc);
    iw_send(&p, ulpdu, atomic_response(ulpdu, 3, 1, 1, 6, 12));
    iw_expect_refused(&p, 0, 2, 0x06, NULL);
    iw_free(&p);
}

static void test_a08_response_that_does_not_match(gconstpointer crc)
{
    static const struct {
        uint32_t qn, msn, id_xor;
        size_t len;
        uint8_t layer, etype, code;
    } rows[] = {
        { 3, 1, 1, 12, 0, 2, 0xff }, /* identifier */
        { 3, 2, 0, 12, 1, 2, 0x03 }, /* MSN */
        { 0, 1, 0, 12, 1, 2, 0x01 }, /* QN */
        { 1, 1, 0, 12, 1, 2, 0x01 }, { 3, 1, 0, 11, 2, 0, 0x03 }, /* short */
        { 3, 1, 0, 13, 0, 2, 0xff },                              /* long */
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(rows); i++) {
        uint8_t ulpdu[65536];
        struct iw_peer p;
        uint32_t id;

        start(&p, crc);
        iw_open_gate(&p);
        post_atomic(&p, 5, RNIC_WR_CMP_SWAP);
        iw_recv(&p, ulpdu);
        id = get(ulpdu + 22, 4);
        iw_send(&p, ulpdu,
                atomic_response(ulpdu, rows[i].qn, rows[i].msn,
                                id ^ rows[i].id_xor, 6, rows[i].len));
        iw_expect_refused(&p, rows[i].layer, rows[i].etype, rows[i].code, NULL);
        iw_free(&p);
    }
}

/* Responses come in the order of the requests, whatever kind they are of */
static void test_a08_response_to_a_later_request(gconstpointer crc)
{
    uint8_t ulpdu[65536], payload[10] = { 0 };
    struct iw_peer p;
    uint32_t id;

    start(&p, crc);
    iw_open_gate(&p);
    iw_post_read(&p, 5, 0, 10);
    post_atomic(&p, 6, RNIC_WR_CMP_SWAP);
    iw_recv(&p, ulpdu);
    iw_recv(&p, ulpdu);
    id = get(ulpdu + 22, 4);
    iw_send(&p, ulpdu, atomic_response(ulpdu, 3, 1, id, 6, 12));
    iw_expect_term(&p, 0, 2, 0x06, NULL);
    iw_wait_send(&p, 5, RNIC_WC_WR_FLUSH_ERR);
    iw_wait_send(&p, 6, RNIC_WC_WR_FLUSH_ERR);
    check_untouched(&p);
    iw_free(&p);

    start(&p, crc);
    iw_open_gate(&p);
    post_atomic(&p, 5, RNIC_WR_CMP_SWAP);
    iw_post_read(&p, 6, 0, 10);
    iw_recv(&p, ulpdu);
    iw_recv(&p, ulpdu);
    iw_send(
        &p, ulpdu,
        iw_tagged(ulpdu, 0xc1, IW_READ_RSP, p.stag, PEER_IOVA, payload, 10));
    iw_expect_term(&p, 0, 2, 0x06, NULL);
    check_untouched(&p);
    iw_free(&p);
}

static void test_sink_that_is_gone_when_the_response_comes(gconstpointer crc)
{
    uint8_t ulpdu[65536];
    struct iw_peer p;
    uint32_t id;

    start(&p, crc);
    iw_open_gate(&p);
    post_atomic(&p, 5, RNIC_WR_CMP_SWAP);
    iw_recv(&p, ulpdu);
    id = get(ulpdu + 22, 4);
    th_dereg_mr(p.guest, p.stag);
    iw_send(&p, ulpdu, atomic_response(ulpdu, 3, 1, id, 6, 12));
    iw_expect_term(&p, 1, 0, 0x00, NULL);
    iw_wait_send(&p, 5, RNIC_WC_LOC_PROT_ERR);
    check_untouched(&p);
    iw_free(&p);
}

/* ---- One of the two does not have it ---- */

static void
test_without_the_property_it_is_an_unexpected_opcode(gconstpointer crc)
{
    uint8_t opcode;

    for (opcode = IW_IMM; opcode <= IW_ATOMIC_RESP; opcode++) {
        static const uint8_t qn[] = { 0, 0, 1, 3 };
        static const size_t len[] = { 8, 8, 52, 12 };
        uint8_t ulpdu[128], payload[52] = { 0 }, term[70];
        unsigned i = opcode - IW_IMM;
        struct iw_peer p;

        start_with(&p, crc, false, 4, 4);
        iw_post_recv(&p, 1, 0, 100);
        iw_send(&p, ulpdu,
                iw_untagged(ulpdu, IW_UNTAGGED, opcode, 0, qn[i], 1, 0, payload,
                            len[i]));
        iw_expect_refused(&p, 0, 2, 0x06, term);
        g_assert_cmpmem(term + 24, 18, ulpdu, 18);
        iw_free(&p);
    }
}

/* The peer's Terminate about the request whose DDP header is at @ddp; NULL:
 * without a header, as siw does it */
static size_t unsupported(uint8_t *to, const uint8_t *ddp)
{
    uint8_t payload[24] = { 0x02, 0x06 };

    if (!ddp) {
        return iw_untagged(to, IW_UNTAGGED, IW_TERM, 0, 2, 1, 0, payload, 4);
    }
    payload[2] = 0xc0;
    payload[5] = 70;
    memcpy(payload + 6, ddp, 18);
    return iw_untagged(to, IW_UNTAGGED, IW_TERM, 0, 2, 1, 0, payload, 24);
}

static void peer_without_support(gconstpointer crc, bool header)
{
    uint8_t ulpdu[65536], request[65536];
    struct rnic_aeqe event;
    struct rnic_cqe cqe;
    struct iw_peer p;

    start(&p, crc);
    iw_open_gate(&p);
    p.guest->look_for = "does not support RFC 7306";
    /* A Read before it that the peer has not served yet is not the culprit */
    iw_post_read(&p, 4, 0, 10);
    post_atomic(&p, 5, RNIC_WR_FETCH_ADD);
    iw_recv(&p, ulpdu);
    iw_recv(&p, request);
    g_assert_cmphex(request[1], ==, IW_ATOMIC_REQ);
    iw_send(&p, ulpdu, unsupported(ulpdu, header ? request : NULL));
    iw_wait_send(&p, 4, RNIC_WC_WR_FLUSH_ERR);
    th_cq_wait(p.qp->attr.send_cq, &cqe);
    g_assert_cmpuint(GUINT64_FROM_LE(cqe.wr_id), ==, 5);
    g_assert_cmpuint(cqe.status, ==, RNIC_WC_REM_INV_REQ_ERR);
    g_assert_cmphex(GUINT32_FROM_LE(cqe.vendor_err), ==, 0x000206);
    th_event_wait(p.guest, RNIC_EV_QP_REQ_ERR, p.qp->qpn, &event);
    g_assert_cmphex(GUINT32_FROM_LE(event.term), ==,
                    RNIC_TERM_VALID | RNIC_TERM_REMOTE | 0x000206);
    g_assert_cmpuint(p.guest->found, ==, 1);
    iw_expect_error(&p);
    check_untouched(&p);
    iw_free(&p);
}

static void test_a14_peer_without_support(gconstpointer crc)
{
    peer_without_support(crc, true);
}

static void test_a14_peer_without_support_and_without_header(gconstpointer crc)
{
    peer_without_support(crc, false);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    iw_add("A01/fetch-add", test_a01_fetch_add);
    iw_add("A02/fetch-add-of-fields", test_a02_fetch_add_of_fields);
    iw_add("A03/cmp-swap", test_a03_cmp_swap);
    iw_add("A04/unaligned", test_a04_unaligned);
    iw_add("A04/unaligned-memory",
           test_a04_unaligned_memory_behind_an_aligned_to);
    iw_add("A05/protection", test_a05_protection);
    iw_add("A05/other-protection-domain", test_a05_other_protection_domain);
    iw_add("A05/right-missing", test_a05_right_missing);
    iw_add("A05/memory-gone", test_a05_memory_that_is_gone);
    iw_add("A06/unknown-atomic-opcode", test_a06_unknown_atomic_opcode);
    iw_add("A07/share-the-ird", test_a07_reads_and_atomics_share_the_ird);
    iw_add("A07/in-order", test_a07_answered_in_the_order_asked);
    iw_add("A07/request-msn", test_request_msn);
    iw_add("A01/of-the-device", test_requests_and_their_responses);
    iw_add("A07/share-the-ord", test_atomics_and_reads_share_the_ord);
    iw_add("A07/fenced-send", test_fenced_send_waits_for_the_atomic);
    iw_add("A08/unasked-response", test_a08_response_that_nobody_asked_for);
    iw_add("A08/response-does-not-match",
           test_a08_response_that_does_not_match);
    iw_add("A08/response-to-a-later-request",
           test_a08_response_to_a_later_request);
    iw_add("A08/sink-gone", test_sink_that_is_gone_when_the_response_comes);
    iw_add("A14/without-the-property",
           test_without_the_property_it_is_an_unexpected_opcode);
    iw_add("A14/peer-without-support", test_a14_peer_without_support);
    iw_add("A14/peer-without-support-or-header",
           test_a14_peer_without_support_and_without_header);
    return g_test_run();
}
