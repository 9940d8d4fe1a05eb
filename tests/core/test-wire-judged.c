/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connections that end in an error, judged by tshark: the device's own capture
 * of them, with each Terminate that it sends for what a peer does
 *
 * What the peer sends need not be well formed; what the device sends must be.
 */
#include "iwarp-peer.h"
#include "raw-peer.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define END         (PEER_IOVA + PEER_BUF)
/* Ports that tshark takes for no other protocol; addresses are this process's
 * own */
#define LISTEN_PORT 7174
#define FIRST_PORT  50001
#define RECV_LEN    100

#define TERM(layer, etype, code) ((layer) << 16 | (etype) << 8 | (code))

enum form { TAGGED, UNTAGGED, READ, ASKED, TERMINATED };

static const struct row {
    enum form form;
    uint32_t term;
    uint8_t ddp, rdmap;
    enum iw_stag stag;
    uint64_t to;
    uint32_t qn, msn, mo, len;
    bool no_receive, bad_crc;
    int more; /* octets of the ULPDU */
} rows[] = {
    { TAGGED, TERM(1, 1, 0x00), 0xc1, IW_WRITE, .stag = IW_STAG_WRONG_KEY,
      .to = PEER_IOVA, .len = 8 },
    { TAGGED, TERM(1, 1, 0x01), 0xc1, IW_WRITE, .to = END, .len = 8 },
    { TAGGED, TERM(1, 1, 0x02), 0xc1, IW_WRITE, .stag = IW_STAG_OTHER_PD,
      .to = PEER_IOVA, .len = 8 },
    { TAGGED, TERM(1, 1, 0x03), 0xc1, IW_WRITE, .to = -4ull, .len = 8 },
    { TAGGED, TERM(1, 1, 0x04), 0xc2, IW_WRITE, .to = PEER_IOVA, .len = 8 },
    { TAGGED, TERM(0, 1, 0x02), 0xc1, IW_WRITE, .stag = IW_STAG_READ_ONLY,
      .to = PEER_IOVA, .len = 8 },
    { TAGGED, TERM(0, 2, 0x06), 0xc1, IW_READ_RSP, .to = PEER_IOVA, .len = 8 },
    { UNTAGGED, TERM(1, 2, 0x01), 0x41, IW_SEND, .qn = 1, .msn = 1, .len = 8 },
    { UNTAGGED, TERM(1, 2, 0x02), 0x41, IW_SEND, .msn = 1, .len = 8,
      .no_receive = true },
    { UNTAGGED, TERM(1, 2, 0x03), 0x41, IW_SEND, .msn = 2, .len = 8 },
    { UNTAGGED, TERM(1, 2, 0x04), 0x41, IW_SEND, .msn = 1, .mo = 4, .len = 8 },
    { UNTAGGED, TERM(1, 2, 0x05), 0x41, IW_SEND, .msn = 1,
      .len = RECV_LEN + 1 },
    { UNTAGGED, TERM(1, 2, 0x06), 0x42, IW_SEND, .msn = 1, .len = 8 },
    { UNTAGGED, TERM(0, 2, 0x05), 0x41, 0x83, .msn = 1, .len = 8 },
    { UNTAGGED, TERM(0, 2, 0x06), 0x41, 0x4c, .msn = 1, .len = 8 },
    { UNTAGGED, TERM(0, 2, 0x09), 0x41, IW_SEND_INV, .stag = IW_STAG_WRONG_KEY,
      .msn = 1, .len = 8 },
    { UNTAGGED, TERM(0, 1, 0x09), 0x41, IW_SEND_INV, .stag = IW_STAG_LOCAL_ONLY,
      .msn = 1, .len = 8 },
    { UNTAGGED, TERM(2, 0, 0x03), 0x41, IW_SEND, .msn = 1, .more = -1 },
    { UNTAGGED, TERM(2, 0, 0x02), 0x41, IW_SEND, .msn = 1, .len = 8,
      .bad_crc = true },
    { READ, TERM(0, 1, 0x00), .stag = IW_STAG_WRONG_KEY, .to = PEER_IOVA,
      .len = 16 },
    { READ, TERM(0, 1, 0x01), .to = END - 8, .len = 16 },
    { READ, TERM(0, 1, 0x02), .stag = IW_STAG_WRITE_ONLY, .to = PEER_IOVA,
      .len = 16 },
    { READ, TERM(0, 1, 0x03), .stag = IW_STAG_OTHER_PD, .to = PEER_IOVA,
      .len = 16 },
    { READ, TERM(0, 1, 0x04), .to = -8ull, .len = 16 },
    { READ, TERM(0, 2, 0xff), .to = PEER_IOVA, .len = 16, .more = 1 },
    { ASKED, TERM(0, 0, 0xff), .len = 0 },
    { TERMINATED, TERM(0, 1, 0x01), .len = 0 },
};

/* ---- The connections ---- */

static void connect_row(struct iw_peer *p, unsigned i)
{
    struct th_connect params = { .ird = 4, .ord = 4 };
    struct rnic_aeqe event;
    struct raw_frame reply;
    uint8_t block[4];

    p->qp = th_qp_new(p->guest, NULL);
    p->fd = raw_socket(p->guest, IW_PEER, FIRST_PORT + i);
    raw_connect_socket(p->guest, p->fd, IW_DEVICE, LISTEN_PORT);
    raw_block(block, 4, 4);
    raw_send_frame(p->fd, false, RAW_S | (p->crc ? RAW_C : 0), 2, block, 4);
    th_event_wait(p->guest, RNIC_EV_CONNECT_REQUEST, p->listener, &event);
    g_assert_cmpuint(th_accept(p->qp, GUINT32_FROM_LE(event.conn_id), &params),
                     ==, RNIC_ADMIN_OK);
    raw_recv_frame(p->fd, true, &reply);
    th_event_wait(p->guest, RNIC_EV_ESTABLISHED, p->qp->qpn, &event);
}

static void provoke(struct iw_peer *p, const struct row *row)
{
    uint8_t ulpdu[256], fpdu[300], payload[128] = { 0 };
    uint32_t stag = iw_stag_of(p, row->stag);
    size_t len;

    switch (row->form) {
    case TAGGED:
        len = iw_tagged(ulpdu, row->ddp, row->rdmap, stag, row->to, payload,
                        row->len);
        break;
    case UNTAGGED:
        len = iw_untagged(ulpdu, row->ddp, row->rdmap,
                          row->rdmap == IW_SEND_INV ? stag : 0, row->qn,
                          row->msn, row->mo, payload, row->len);
        break;
    case READ:
        len = iw_read_request(ulpdu, 1, 1, 2, row->len, stag, row->to);
        ulpdu[len] = 0;
        break;
    case ASKED:
        iw_open_gate(p);
        g_assert_cmpuint(th_qp_modify(p->qp, RNIC_QPS_TERMINATE), ==,
                         RNIC_ADMIN_OK);
        return;
    default:
        len = iw_untagged(ulpdu, IW_UNTAGGED, IW_TERM, 0, 2, 1, 0,
                          "\x01\x01\x00\x00", 4);
        break;
    }
    len = iw_fpdu(p, fpdu, ulpdu, len + row->more);
    fpdu[len - 1] ^= row->bad_crc ? 0x40 : 0;
    raw_send(p->fd, fpdu, len);
}

/* Returns how many Terminates the device sent */
static unsigned run_rows(const char *path, bool crc)
{
    struct th_options th;
    struct iw_peer p;
    unsigned i, terminates = 0;

    th_options_init(&th);
    th.config.pcap = path;
    th.config.crc = crc ? RNIC_CRC_ON : RNIC_CRC_OFF;
    iw_listen(&p, &th);
    p.crc = crc;
    p.listener = th_listen(p.guest, IW_DEVICE, LISTEN_PORT, 8, NULL);
    for (i = 0; i < G_N_ELEMENTS(rows); i++) {
        const struct row *row = &rows[i];
        uint8_t ulpdu[256];

        if (row->bad_crc && !crc) {
            continue;
        }
        connect_row(&p, i);
        if (!row->no_receive) {
            iw_post_recv(&p, 1, 0, RECV_LEN);
        }
        provoke(&p, row);
        if (row->form != TERMINATED) {
            iw_recv(&p, ulpdu);
            g_assert_cmphex(ulpdu[18], ==,
                            row->term >> 12 | (row->term >> 8 & 15));
            g_assert_cmphex(ulpdu[19], ==, row->term & 255);
            terminates++;
        }
        g_assert_false(raw_closed(p.fd, NULL));
        iw_expect_error(&p);
        close(p.fd);
    }
    p.fd = -1;
    iw_free(&p);
    return terminates;
}

/* ---- The judge ---- */

static char *tshark(const char *path, const char *filter, const char *rest)
{
    g_autofree char *command = g_strdup_printf(
        "tshark -r %s --disable-protocol rpcordma --disable-protocol "
        "smb_direct -Y '%s' %s",
        path, filter, rest);
    g_autofree char *err = NULL;
    GError *error = NULL;
    char *out = NULL;
    int status;

    g_spawn_command_line_sync(command, &out, &err, &status, &error);
    g_assert_no_error(error);
    g_assert_true(g_spawn_check_wait_status(status, NULL));
    return out;
}

static unsigned occurrences(const char *text, const char *what)
{
    unsigned n = 0;

    while ((text = strstr(text, what))) {
        text += strlen(what);
        n++;
    }
    return n;
}

#define OF_DEVICE "ip.src == " IW_DEVICE

/* tshark takes the header of an operation error for an untagged one */
static bool misread(const struct row *row)
{
    return row->form == TAGGED && (row->term >> 8) == (TERM(0, 2, 0) >> 8);
}

/* The line that tshark must print for a row's Terminate */
static void expect_line(GString *lines, unsigned i)
{
    uint32_t term = rows[i].term;
    unsigned layer = term >> 16, etype = term >> 8 & 15, code = term & 255;
    bool local = layer == 0 && etype == 0;
    /* M and D; R */
    bool ddp = layer != 2 && !local;
    bool rdmap = rows[i].form == READ && etype == 1 && layer == 0;

    g_string_append_printf(lines, "%u 0x%02x", FIRST_PORT + i, layer);
    g_string_append_printf(lines, " 0x%02x", etype);
    if (!local) {
        g_string_append_printf(lines, " 0x%02x", code);
    }
    g_string_append_printf(lines, " %u %u %u\n", ddp, ddp, rdmap);
}

/* Type and code are in the fields of their layer: empty ones out */
static char *squeeze(const char *table)
{
    GRegex *tabs = g_regex_new("\t+", 0, 0, NULL);
    char *out = g_regex_replace_literal(tabs, table, -1, 0, " ", 0, NULL);

    g_regex_unref(tabs);
    return out;
}

static void judge(bool crc)
{
    g_autofree char *path = g_strdup_printf("%s/rnic-judged-%d-%d.pcap",
                                            g_get_tmp_dir(), getpid(), crc);
    unsigned terminates = run_rows(path, crc), i;
    g_autofree char *malformed =
        tshark(path, OF_DEVICE " && _ws.malformed", "-T fields -e tcp.dstport");
    g_autofree char *analysis = tshark(path, "tcp.analysis.flags", "");
    g_autofree char *text = tshark(path, "tcp", "-V");
    g_autofree char *table =
        tshark(path, OF_DEVICE " && iwarp_rdma.terminate",
               "-T fields -e tcp.dstport -e iwarp_rdma.term_layer "
               "-e iwarp_rdma.term_etype_rdma -e iwarp_rdma.term_etype_ddp "
               "-e iwarp_rdma.term_etype_llp -e iwarp_rdma.term_errcode_rdma "
               "-e iwarp_rdma.term_errcode_ddp_tagged "
               "-e iwarp_rdma.term_errcode_ddp_untagged "
               "-e iwarp_rdma.term_errcode_llp -e iwarp_rdma.term_hdrct_m "
               "-e iwarp_rdma.hdrct_d -e iwarp_rdma.hdrct_r");
    g_autofree char *terms = squeeze(table);
    GString *want = g_string_new(NULL), *excused = g_string_new(NULL);

    for (i = 0; i < G_N_ELEMENTS(rows); i++) {
        if (rows[i].form == TERMINATED || (rows[i].bad_crc && !crc)) {
            continue;
        }
        expect_line(want, i);
        if (misread(&rows[i])) {
            g_string_append_printf(excused, "%u\n", FIRST_PORT + i);
        }
    }
    g_assert_cmpstr(terms, ==, want->str);
    g_assert_cmpstr(malformed, ==, excused->str);
    g_assert_cmpstr(analysis, ==, "");
    /* The peer's, and no other */
    g_assert_cmpuint(occurrences(text, "(Bad CRC32"), ==, crc);
    g_assert_cmpuint(occurrences(text, "(Good CRC32"), >=,
                     crc ? 2 * terminates - 2 : 0);
    g_string_free(want, true);
    g_string_free(excused, true);
    unlink(path);
}

static void test_crc_off(void)
{
    judge(false);
}

static void test_crc_on(void)
{
    judge(true);
}

int main(int argc, char **argv)
{
    g_autofree char *program = g_find_program_in_path("tshark");

    g_test_init(&argc, &argv, NULL);
    if (!program) {
        printf("1..0 # SKIP there is no tshark\n");
        return 0;
    }
    g_test_add_func("/judged/crc-off", test_crc_off);
    g_test_add_func("/judged/crc-on", test_crc_on);
    return g_test_run();
}
