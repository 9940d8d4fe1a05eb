/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kinds of fault that other emulated and software RNICs were found to have:
 * those that a peer provokes. See test-faults.c.
 */
#include "cm-steps.h"
#include "iwarp-peer.h"
#include "raw-peer.h"
#include "rx.h"

#include <string.h>
#include <unistd.h>

static void still_works(struct th_guest *guest)
{
    struct rnic_asqe nop = { .opcode = RNIC_CMD_NOP };

    g_assert_cmphex(th_reg(guest, RNIC_REG_STATUS), ==, RNIC_STATUS_READY);
    g_assert_cmpuint(th_admin(guest, &nop, NULL), ==, RNIC_ADMIN_OK);
}

/* ---- 18: lengths that do not fit; see test-faults-traffic.c, too ---- */

/* The offset of a message would run over; the first 2 GiB are skipped here */
static void fault_18_message_past_the_largest(void)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_REG_MR };
    uint8_t ulpdu[64], payload[11] = { 0 };
    struct iw_options options;
    struct rnic_sge sge[2];
    struct rnic_acqe resp;
    struct rnic_qp *qp;
    struct iw_peer p;

    iw_options_init(&options, false);
    iw_start(&p, &options);
    /* That its end is not RAM does not matter before it is used */
    cmd.reg_mr.pdn = GUINT32_TO_LE(TH_PD);
    cmd.reg_mr.access = GUINT32_TO_LE(RNIC_ACCESS_ALL);
    cmd.reg_mr.buf.addr = GUINT64_TO_LE(TH_BASE);
    cmd.reg_mr.buf.length = GUINT64_TO_LE(1ull << 33);
    g_assert_cmpuint(th_admin(p.guest, &cmd, &resp), ==, RNIC_ADMIN_OK);
    sge[0] = sge[1] = th_sge(GUINT32_FROM_LE(resp.mr.stag), 0, 0xffffffff);
    th_post_recv(p.qp, 1, sge, 2);
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, IW_UNTAGGED & ~IW_NOT_LAST, IW_SEND, 0, 0, 1, 0,
                        payload, sizeof(payload)));
    th_wait(th_stat(p.guest, RNIC_STAT_rx_fpdus) == 1);
    th_run_for(5);
    qp = rnic_qp_find(p.guest->dev, p.qp->qpn);
    g_assert_cmpuint(qp->rx->recv_mo, ==, sizeof(payload));
    qp->rx->recv_mo = RNIC_MAX_MSG_SIZE - 10;
    iw_send(&p, ulpdu,
            iw_untagged(ulpdu, IW_UNTAGGED, IW_SEND, 0, 0, 1,
                        RNIC_MAX_MSG_SIZE - 10, payload, sizeof(payload)));
    iw_expect_term(&p, 1, 2, 0x05, NULL);
    iw_wait_recv(&p, 1, RNIC_WC_LOC_LEN_ERR, 0);
    iw_free(&p);
}

/* ---- 22: FPDUs shorter than their headers ---- */

static void fault_22_fpdu_shorter_than_its_header(void)
{
    static const struct {
        uint8_t ddp, rdmap;
        size_t header;
    } kinds[] = {
        { IW_TAGGED, IW_WRITE, 14 },      { IW_TAGGED, IW_READ_RSP, 14 },
        { IW_UNTAGGED, IW_SEND, 18 },     { IW_UNTAGGED, IW_SEND_INV, 18 },
        { IW_UNTAGGED, IW_READ_REQ, 46 }, { IW_UNTAGGED, IW_TERM, 22 },
    };
    unsigned crc, kind;
    size_t len, i;

    for (crc = 0; crc < 2; crc++) {
        for (kind = 0; kind < G_N_ELEMENTS(kinds); kind++) {
            for (len = 0; len < kinds[kind].header;
                 len += len < 4 || len + 3 > kinds[kind].header ? 1 : 3) {
                struct iw_options options;
                uint8_t ulpdu[64] = { kinds[kind].ddp, kinds[kind].rdmap };
                struct iw_peer p;

                iw_options_init(&options, crc);
                iw_start(&p, &options);
                memset(p.buf.ptr, 0xee, PEER_BUF);
                iw_post_recv(&p, 1, 0, 1000);
                /* QN, MSN as they should be */
                ulpdu[9] = kinds[kind].rdmap == IW_READ_REQ ? 1
                           : kinds[kind].rdmap == IW_TERM   ? 2
                                                            : 0;
                ulpdu[13] = 1;
                iw_send(&p, ulpdu, len);
                iw_expect_error(&p);
                for (i = 0; i < PEER_BUF; i++) {
                    g_assert_cmpuint(p.buf.ptr[i], ==, 0xee);
                }
                iw_wait_recv(&p, 1, RNIC_WC_WR_FLUSH_ERR, 0);
                still_works(p.guest);
                iw_free(&p);
            }
        }
    }
}

/* ---- 23: Read Responses that do not end where they should ---- */

static void fault_23_read_response_longer_than_asked(void)
{
    static const struct {
        uint32_t first, second; /* octets, with Last clear */
    } rows[] = { { 101, 0 }, { 5000, 0 }, { 100, 1 }, { 99, 2 }, { 100, 0 } };
    unsigned crc, i;
    size_t n;

    for (crc = 0; crc < 2; crc++) {
        for (i = 0; i < G_N_ELEMENTS(rows); i++) {
            uint8_t ulpdu[8192], payload[5000] = { 0 };
            struct iw_options options;
            struct iw_peer p;

            iw_options_init(&options, crc);
            iw_start(&p, &options);
            /* A responder waits for the first FPDU */
            iw_post_recv(&p, 1, 0, 0);
            iw_send_message(&p, 1, 0);
            iw_wait_recv(&p, 1, RNIC_WC_SUCCESS, 0);
            memset(p.buf.ptr, 0xee, PEER_BUF);
            iw_post_read(&p, 7, 1000, 100);
            g_assert_cmpuint(iw_recv(&p, ulpdu), ==, 46);
            iw_send(&p, ulpdu,
                    iw_tagged(ulpdu, IW_TAGGED & ~0x40, IW_READ_RSP, p.stag,
                              PEER_IOVA + 1000, payload, rows[i].first));
            if (rows[i].second) {
                iw_send(&p, ulpdu,
                        iw_tagged(ulpdu, IW_TAGGED & ~0x40, IW_READ_RSP, p.stag,
                                  PEER_IOVA + 1000 + rows[i].first, payload,
                                  rows[i].second));
            }
            iw_expect_term(&p, 1, 1, 0x01, NULL);
            iw_wait_send(&p, 7, RNIC_WC_WR_FLUSH_ERR);
            for (n = 0; n < PEER_BUF; n++) {
                if (n < 1000 || n >= 1100) {
                    g_assert_cmpuint(p.buf.ptr[n], ==, 0xee);
                }
            }
            iw_free(&p);
        }
    }
}

/* ---- 24: malformed MPA requests, and what is freed for them ---- */

static void fault_24_malformed_mpa_request(void)
{
    struct th_guest *guest = cm_guest_at("10.0.0.1", NULL);
    uint16_t port;
    uint32_t listener = th_listen(guest, "10.0.0.1", 0, 64, &port);
    GRand *random = g_rand_new_with_seed(24);
    struct rnic_aeqe event;
    unsigned i;
    int fd;

    for (i = 0; i < 400; i++) {
        uint8_t frame[64];
        size_t len = g_rand_int_range(random, 1, sizeof(frame));
        unsigned n;

        raw_frame(frame, false, g_rand_int(random), i % 4 ? 3 : 2, NULL, 0);
        for (n = 0; n < len; n++) {
            /* Wrong in the key, in the fields, or everywhere */
            if (n >= 20 || (n < 16 ? i % 3 == 0 : i % 3 == 1)) {
                frame[n] = g_rand_int(random);
            }
        }
        if (i % 3) {
            frame[i % 16] ^= 0x80;
        }
        fd = raw_connect(guest, "10.0.0.2", "10.0.0.1", port);
        raw_send(fd, frame, len);
        switch (i % 4) {
        case 0:
            raw_abort(fd);
            break;
        case 1:
            close(fd);
            break;
        case 2:
            th_run_for(1);
            raw_abort(fd);
            break;
        default:
            /* What is too short to be judged is not waited for */
            th_run_for(2);
            close(fd);
            break;
        }
    }
    g_rand_free(random);
    th_run_for(20);
    g_assert_cmpuint(th_events(guest), ==, 0);
    /* The listener took no harm */
    fd = raw_connect(guest, "10.0.0.2", "10.0.0.1", port);
    raw_send_frame(fd, false, 0, 1, NULL, 0);
    event = cm_arrives(guest, listener);
    g_assert_cmpuint(th_reject(guest, GUINT32_FROM_LE(event.conn_id), NULL), ==,
                     RNIC_ADMIN_OK);
    close(fd);
    th_guest_free(guest);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(fault) g_test_add_func("/faults-wire/" #fault, fault)
    ADD(fault_18_message_past_the_largest);
    ADD(fault_22_fpdu_shorter_than_its_header);
    ADD(fault_23_read_response_longer_than_asked);
    ADD(fault_24_malformed_mpa_request);
    return g_test_run();
}
