/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz-stream: what the peer says
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "stream.h"
#include "wire/byteorder.h"
#include "wire/crc32c.h"
#include "wire/fpdu.h"
#include "wire/marker.h"
#include "wire/terminate.h"

static void say(struct peer *peer, const uint8_t *octets, size_t len)
{
    unsigned tries = 0, parts = 0;

    if (peer->slice) {
        /* What the device has to say it says before and behind it */
        peer->was_cut = true;
        stream_run(peer);
    }
    while (len && peer->fd >= 0) {
        bool sliced = peer->slice && !peer->uncut && ++parts < MAX_PARTS;
        size_t part = sliced ? MIN(len, peer->slice) : len;
        ssize_t n = send(peer->fd, octets, part, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && ++tries > 2) {
            /* The device is gone, or does not read */
            return;
        }
        if (n > 0) {
            octets += n;
            len -= n;
        }
        if (n < 0 || sliced) {
            stream_run(peer);
        }
    }
    if (peer->slice) {
        stream_run(peer);
    }
}

static void say_ulpdu(struct peer *peer, struct fuzz_input *in,
                      const uint8_t *ulpdu, uint16_t len, uint8_t how)
{
    uint8_t fpdu[RNIC_FPDU_MAX];
    size_t at = rnic_fpdu_length_encode(len, fpdu);
    uint32_t crc;

    memcpy(fpdu + at, ulpdu, len);
    at += len;
    crc = rnic_crc32c_update(rnic_crc32c_init(), fpdu, at);
    at += rnic_fpdu_trailer_encode(len, peer->params.crc, crc, fpdu + at);
    if (how & 0x40) {
        fuzz_mutate(in, fpdu, at);
    }
    if (how & 0x80) {
        at = MIN(at, fuzz_u16(in));
    }
    say(peer, fpdu, at);
}

void stream_say_tagged(struct peer *peer, struct fuzz_input *in,
                       enum rnic_rdmap_opcode opcode)
{
    uint8_t how = fuzz_u8(in), region = fuzz_u8(in) % REGIONS;
    uint64_t offset = how & 1 ? fuzz_u64(in) : fuzz_u16(in);
    uint32_t len = how & 2 ? fuzz_u16(in) : fuzz_u8(in), stag;
    uint64_t to = stream_plan[region].iova + offset,
             end = stream_plan[region].len;
    uint8_t ulpdu[65535];
    size_t header;

    stag = peer->stag[region];
    if (how & 4) {
        stag ^= fuzz_u32(in);
    }
    if (opcode == RNIC_RDMAP_READ_RESPONSE && !(how & 8)) {
        /* As the oldest Read of the device wants it */
        unsigned i;

        for (i = 0; i < peer->num_send; i++) {
            if (!peer->send[i].completed && peer->send[i].slot >= 0) {
                break;
            }
        }
        if (i < peer->num_send) {
            stag = peer->stag[LOCAL];
            end = peer->send[i].len;
            to = stream_plan[LOCAL].iova + peer->send[i].slot * SLOT + offset;
        }
    }
    if (how & 32) {
        /* About up to the end */
        len = MAX((int64_t)(end - offset) + (int8_t)len, 0);
    }
    header = rnic_rdmap_tagged_encode(opcode, !(how & 16), stag, to, ulpdu);
    len = MIN(len, sizeof(ulpdu) - header);
    memset(ulpdu + header, 0xa5, len);
    say_ulpdu(peer, in, ulpdu, header + len, how);
}

void stream_say_send(struct peer *peer, struct fuzz_input *in)
{
    uint8_t how = fuzz_u8(in);
    enum rnic_rdmap_opcode opcode = RNIC_RDMAP_SEND + fuzz_u8(in) % 4;
    uint32_t len = how & 2 ? fuzz_u16(in) : fuzz_u8(in);
    uint32_t mo = how & 4 ? fuzz_u32(in) : fuzz_u8(in);
    uint32_t msn = how & 8 ? fuzz_u32(in) : peer->send_msn;
    uint32_t inv =
        rnic_rdmap_invalidates(opcode) ? stream_any_stag(peer, in) : 0;
    uint8_t ulpdu[65535];
    size_t header;

    header =
        rnic_rdmap_untagged_encode(opcode, !(how & 16), inv, msn, mo, ulpdu);
    len = MIN(len, sizeof(ulpdu) - header);
    memset(ulpdu + header, 0x5a, len);
    if (!(how & 16)) {
        peer->send_msn++;
    }
    say_ulpdu(peer, in, ulpdu, header + len, how);
}

void stream_say_read_request(struct peer *peer, struct fuzz_input *in)
{
    uint8_t how = fuzz_u8(in), region = fuzz_u8(in) % REGIONS;
    struct rnic_rdmap_read_request rr = {
        .sink_stag = 0x400,
        .sink_to = how & 1 ? fuzz_u64(in) : 0,
        .size = how & 2 ? fuzz_u32(in) : fuzz_u16(in),
        .source_stag = peer->stag[region],
        .source_to =
            stream_plan[region].iova + (how & 4 ? fuzz_u64(in) : fuzz_u8(in)),
    };
    uint8_t ulpdu[RNIC_RDMAP_READ_REQUEST_SIZE];

    if (how & 32) {
        rr.size = stream_plan[region].len -
                  (rr.source_to - stream_plan[region].iova) + (int8_t)rr.size;
    }
    rnic_rdmap_read_request_encode(&rr, how & 8 ? fuzz_u32(in) : peer->read_msn,
                                   ulpdu);
    if (!(how & 8)) {
        peer->read_msn++;
    }
    say_ulpdu(peer, in, ulpdu, sizeof(ulpdu), how);
}

static void say_imm(struct peer *peer, struct fuzz_input *in)
{
    uint8_t how = fuzz_u8(in), data[RNIC_RDMAP_IMM_DATA_SIZE];
    uint8_t ulpdu[RNIC_RDMAP_IMM_SIZE];

    fuzz_octets(in, data, sizeof(data));
    rnic_rdmap_imm_encode(data, how & 1,
                          how & 8 ? fuzz_u32(in) : peer->send_msn, ulpdu);
    peer->send_msn += !(how & 8);
    say_ulpdu(peer, in, ulpdu, sizeof(ulpdu), how);
}

static void say_atomic_request(struct peer *peer, struct fuzz_input *in)
{
    uint8_t how = fuzz_u8(in), region = how & 2 ? fuzz_u8(in) % REGIONS : 0;
    struct rnic_rdmap_atomic_request ar = {
        .op = how & 16 ? RNIC_RDMAP_FETCH_ADD : fuzz_u8(in),
        .id = fuzz_u8(in),
        .stag = peer->stag[region],
        .to = stream_plan[region].iova +
              (how & 4 ? fuzz_u64(in) : 8 * fuzz_u8(in)),
        .data = fuzz_u64(in),
        .mask = how & 1 ? fuzz_u64(in) : UINT64_MAX,
        .compare_mask = how & 32 ? fuzz_u64(in) : 0,
    };
    uint8_t ulpdu[RNIC_RDMAP_ATOMIC_REQUEST_SIZE];

    rnic_rdmap_atomic_request_encode(
        &ar, how & 8 ? fuzz_u32(in) : peer->read_msn, ulpdu);
    peer->read_msn += !(how & 8);
    say_ulpdu(peer, in, ulpdu, sizeof(ulpdu), how);
}

static void say_atomic_response(struct peer *peer, struct fuzz_input *in)
{
    uint8_t how = fuzz_u8(in);
    struct rnic_rdmap_atomic_response ar = {
        /* As the device counts them */
        .id = how & 1 ? fuzz_u32(in) : peer->atomic_msn,
        .value = fuzz_u64(in),
    };
    uint8_t ulpdu[RNIC_RDMAP_ATOMIC_RESPONSE_SIZE];

    rnic_rdmap_atomic_response_encode(
        &ar, how & 8 ? fuzz_u32(in) : peer->atomic_msn, ulpdu);
    peer->atomic_msn += !(how & 8);
    say_ulpdu(peer, in, ulpdu, sizeof(ulpdu), how);
}

void stream_say_rfc7306(struct peer *peer, struct fuzz_input *in)
{
    switch (fuzz_u8(in) % 4) {
    case 0:
        say_atomic_response(peer, in);
        break;
    case 1:
        say_imm(peer, in);
        break;
    default:
        say_atomic_request(peer, in);
        break;
    }
}

void stream_say_terminate(struct peer *peer, struct fuzz_input *in)
{
    uint8_t how = fuzz_u8(in), buf[RNIC_TERM_SIZE_MAX], offender[46];
    enum rnic_wire_err err =
        RNIC_WIRE_MORE + 1 +
        fuzz_u8(in) % (RNIC_WIRE_ERR_COUNT - RNIC_WIRE_MORE - 1);
    size_t len;

    fuzz_octets(in, offender, sizeof(offender));
    len = rnic_term_encode(err, how & 1 ? offender : NULL,
                           how & 1 ? sizeof(offender) : 0,
                           how & 1 ? sizeof(offender) : 0, buf);
    if (len) {
        say_ulpdu(peer, in, buf, len, how);
    }
}

void stream_say_raw(struct peer *peer, struct fuzz_input *in)
{
    uint8_t octets[255];
    size_t len = fuzz_u8(in);

    len = MIN(len, in->left);
    fuzz_octets(in, octets, len);
    say(peer, octets, len);
}

void stream_leave(struct peer *peer, bool write_side_only)
{
    if (peer->fd < 0) {
        return;
    }
    if (write_side_only) {
        shutdown(peer->fd, SHUT_WR);
    } else {
        close(peer->fd);
        peer->fd = -1;
    }
}
