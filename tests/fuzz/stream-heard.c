/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz-stream: what the device said and did
 */
#include <string.h>
#include <sys/socket.h>
#include "stream.h"
#include "wire/byteorder.h"
#include "wire/crc32c.h"
#include "wire/fpdu.h"
#include "wire/marker.h"
#include "wire/terminate.h"

static void ignore_event(void *opaque, const struct rnic_aeqe *event)
{
}

void stream_hear(struct peer *peer)
{
    uint8_t buf[65536];
    ssize_t n;

    while (peer->fd >= 0 && !peer->deaf &&
           (n = recv(peer->fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
        g_byte_array_append(peer->heard, buf, n);
    }
}

void stream_run(struct peer *peer)
{
    struct rnic_cqe cqe;
    size_t before;

    do {
        before = peer->heard->len;
        fuzz_run(peer->guest);
        stream_hear(peer);
    } while (peer->heard->len != before);
    while (th_cq_poll(peer->qp->attr.recv_cq, &cqe)) {
        stream_complete(peer, &cqe, true);
    }
    while (th_cq_poll(peer->qp->attr.send_cq, &cqe)) {
        stream_complete(peer, &cqe, false);
    }
    fuzz_events(peer->guest, ignore_event, NULL);
}

/*
 * Takes the FPDU at *@at of what was heard, markers taken out, into @fpdu;
 * false: it is not complete. Checks markers and CRC.
 */
static bool next_fpdu(struct peer *peer, size_t *at, GByteArray *fpdu)
{
    const uint8_t *octets = peer->heard->data;
    size_t len = peer->heard->len, pos = *at, need = 4, first = 0;
    uint16_t ulpdu_len;

    g_byte_array_set_size(fpdu, 0);
    /* Everything is a multiple of 4 octets long */
    for (; fpdu->len < need; pos += 4) {
        if (pos + 4 > len) {
            return false;
        }
        if (peer->params.tx_markers && pos % RNIC_MARKER_SPACING == 0) {
            fuzz_check(rnic_get_be16(octets + pos + 2) ==
                           (fpdu->len ? pos - first : 0),
                       "a marker points to somewhere else");
            continue;
        }
        if (!fpdu->len) {
            first = pos;
            fuzz_check(rnic_fpdu_length_decode(octets + pos, 4, &ulpdu_len) ==
                           RNIC_WIRE_OK,
                       "an invalid length was sent");
            need = rnic_fpdu_len(ulpdu_len);
        }
        g_byte_array_append(fpdu, octets + pos, 4);
    }
    if (peer->params.crc) {
        uint32_t crc =
            rnic_crc32c_update(rnic_crc32c_init(), octets + *at, pos - 4 - *at);

        fuzz_check(rnic_get_le32(octets + pos - 4) == rnic_crc32c_final(crc),
                   "a wrong CRC was sent");
    }
    *at = pos;
    return true;
}

/* All that the device said; what the connection's end cut is not looked at */
void stream_check_heard(struct peer *peer)
{
    g_autoptr(GByteArray) fpdu = g_byte_array_new();
    bool terminated = false;
    size_t at = 0;

    while (next_fpdu(peer, &at, fpdu)) {
        const uint8_t *ulpdu = fpdu->data + RNIC_FPDU_LENGTH_SIZE;
        struct rnic_rdmap_seg seg;
        struct rnic_term term;
        uint16_t len = rnic_get_be16(fpdu->data);

        fuzz_check(!terminated, "more was sent behind a Terminate");
        fuzz_check(rnic_rdmap_seg_decode(
                       ulpdu, len, len, peer->guest->th->options.config.rfc7306,
                       &seg) == RNIC_WIRE_OK,
                   "an invalid segment was sent");
        if (seg.ddp.opcode == RNIC_RDMAP_TERMINATE) {
            terminated = true;
            fuzz_check(rnic_term_decode(ulpdu, len, &term),
                       "a Terminate that cannot be read was sent");
        }
    }
    fuzz_check(!terminated || at == peer->heard->len,
               "more was sent behind a Terminate");
}

/* What nobody may write has the octets that it had */
void stream_check_untouched(struct peer *peer)
{
    static const enum region regions[] = { READ_ONLY, FOREIGN };
    struct th_guest *th = peer->guest->th;
    const uint8_t *unused = th->mem + th->mem_used;
    size_t len = th->options.mem_size - th->mem_used;
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(regions); i++) {
        th_check_filled(peer->buf[regions[i]].ptr, stream_plan[regions[i]].len,
                        regions[i]);
    }
    for (i = 0; i < SLOTS; i++) {
        fuzz_check(peer->buf[LOCAL].ptr[(i + 1) * SLOT - 1] == peer->edge[i],
                   "the octet behind a buffer was written");
    }
    fuzz_check(!unused[0] && !memcmp(unused, unused + 1, len - 1),
               "unused memory was written");
}
