/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The codecs of wire/: whatever the octets, what a decoder says must hold
 * together, and an encoder's output must be read back as it was meant
 */
#include <stdlib.h>
#include <string.h>
#include "fuzz.h"
#include "wire/byteorder.h"
#include "wire/crc32c.h"
#include "wire/fpdu.h"
#include "wire/marker.h"
#include "wire/mpa-negotiate.h"
#include "wire/terminate.h"

/* A copy that ends where the allocation ends */
static uint8_t *exactly(const uint8_t *octets, size_t len)
{
    uint8_t *copy = g_malloc(MAX(len, 1));

    memcpy(copy, octets, len);
    return copy;
}

/* ---- MPA startup frames ---- */

static void config_read(struct fuzz_input *in, struct rnic_mpa_config *config)
{
    uint8_t bits = fuzz_u8(in);

    *config = (struct rnic_mpa_config){
        .crc = bits & 1,
        .p2p = bits & 2,
        .rtr = bits >> 2 & RNIC_MPA_RTR_ALL,
        .rev = 1 + (bits >> 5 & 1),
        .ird = fuzz_u8(in),
        .ird_max = 128,
        .ord = fuzz_u8(in),
    };
}

/* What was encoded is decoded */
static void frame_check(const struct rnic_mpa_frame *frame)
{
    uint8_t buf[RNIC_MPA_FRAME_MAX];
    size_t len = rnic_mpa_frame_encode(frame, buf, sizeof(buf)), octets;
    struct rnic_mpa_frame again;

    fuzz_check(len, "a frame of ours cannot be encoded");
    fuzz_check(rnic_mpa_frame_decode(buf, len, frame->reply, &again, &octets) ==
                       RNIC_MPA_OK &&
                   octets == len,
               "a frame of ours cannot be decoded");
    fuzz_check(
        again.rev == frame->rev && again.crc == frame->crc &&
            again.reject == frame->reject && again.markers == frame->markers &&
            again.enhanced == frame->enhanced && again.p2p == frame->p2p &&
            again.rtr == frame->rtr && again.ird == frame->ird &&
            again.ord == frame->ord && again.ulp_len == frame->ulp_len,
        "a frame of ours is decoded to something else");
}

static void negotiate(struct fuzz_input *in, const struct rnic_mpa_frame *frame)
{
    struct rnic_mpa_frame own;
    struct rnic_mpa_params params;
    struct rnic_mpa_config config;

    config_read(in, &config);
    if (frame->reply) {
        if (rnic_mpa_request(&config, &own) != RNIC_MPA_OK) {
            return;
        }
        frame_check(&own);
        if (rnic_mpa_conclude(&own, frame, &config, &params) == RNIC_MPA_OK) {
            fuzz_check(params.ird <= config.ird_max && params.ord <= config.ord,
                       "IRD %u, ORD %u agreed on", params.ird, params.ord);
            fuzz_check(!(params.rtr & (params.rtr - 1)),
                       "more than one RTR form to send");
            fuzz_check(params.crc == (own.crc || frame->crc), "CRC");
        }
        return;
    }
    rnic_mpa_reject(frame, &config, &own);
    frame_check(&own);
    if (rnic_mpa_accept(frame, &config, &own, &params) == RNIC_MPA_OK) {
        frame_check(&own);
        fuzz_check(params.ird <= config.ird_max && params.ord <= config.ord,
                   "IRD %u, ORD %u agreed on", params.ird, params.ord);
        fuzz_check(params.crc == (own.crc || frame->crc), "CRC");
        /* Both ends come to the same: this end's own Reply, read by a peer
         * that had sent such a Request, is one that it can take */
        fuzz_check(own.rev == frame->rev && own.enhanced == frame->enhanced,
                   "the Reply is of another kind than the Request");
    }
}

static void fuzz_mpa(struct fuzz_input *in)
{
    bool reply = fuzz_u8(in) & 1;
    size_t len = MIN(in->left, RNIC_MPA_FRAME_MAX + 16), have, octets = 0;
    uint8_t *buf = exactly(in->data, len);
    struct rnic_mpa_frame frame;
    enum rnic_mpa_status status = RNIC_MPA_MORE;

    /* Read as the connection manager does: never more than is asked for */
    for (have = 0; status == RNIC_MPA_MORE;) {
        uint8_t *part = exactly(buf, have);

        status = rnic_mpa_frame_decode(part, have, reply, &frame, &octets);
        if (status == RNIC_MPA_MORE) {
            fuzz_check(octets > 0 && have + octets <= RNIC_MPA_FRAME_MAX,
                       "a frame of more than %zu octets is asked for", have);
            have += octets;
            if (have > len) {
                g_free(part);
                break;
            }
        } else if (status == RNIC_MPA_OK) {
            fuzz_check(octets == have, "the frame ends before what was read");
            fuzz_check(frame.ulp_len <= RNIC_MPA_PD_MAX &&
                           (!frame.ulp_len ||
                            (frame.ulp_data >= part &&
                             frame.ulp_data + frame.ulp_len <= part + have)),
                       "the private data is not in the frame");
            frame_check(&frame);
            in->data += have;
            in->left -= have;
            negotiate(in, &frame);
        }
        g_free(part);
    }
    rnic_mpa_status_str(status);
    rnic_mpa_status_err(status);
    g_free(buf);
}

/* ---- Segments ---- */

static void terminate_check(enum rnic_wire_err err, const uint8_t *offender,
                            size_t avail, uint16_t ulpdu_len)
{
    uint8_t buf[RNIC_TERM_SIZE_MAX];
    size_t len = rnic_term_encode(err, offender, avail, ulpdu_len, buf);
    const struct rnic_term_cause *cause = rnic_term_cause(err);
    struct rnic_rdmap_seg seg;
    struct rnic_term term;

    if (!len) {
        return;
    }
    fuzz_check(len >= RNIC_TERM_SIZE_MIN && len <= sizeof(buf),
               "a Terminate of %zu octets", len);
    fuzz_check(rnic_rdmap_seg_decode(buf, len, len, false, &seg) ==
                       RNIC_WIRE_OK &&
                   seg.ddp.opcode == RNIC_RDMAP_TERMINATE,
               "a Terminate of ours is no valid segment");
    fuzz_check(rnic_term_decode(buf, len, &term) && !term.swapped,
               "a Terminate of ours is not understood");
    fuzz_check(term.rfc.layer == cause->layer &&
                   term.rfc.etype == cause->etype &&
                   term.rfc.code == cause->code,
               "a Terminate of ours says something else");
}

static void fuzz_segment(struct fuzz_input *in)
{
    bool rfc7306 = fuzz_u8(in) & 1;
    uint16_t ulpdu_len = in->left > 2 ? fuzz_u16(in) : 0;
    size_t len = MIN(in->left, ulpdu_len), avail;
    struct rnic_rdmap_read_request rr, rr2;
    struct rnic_rdmap_seg seg = { 0 };
    enum rnic_wire_err err = RNIC_WIRE_MORE;
    uint8_t *ulpdu = NULL;

    for (avail = 0; avail <= len && err == RNIC_WIRE_MORE; avail++) {
        g_free(ulpdu);
        ulpdu = exactly(in->data, avail);
        err = rnic_rdmap_seg_decode(ulpdu, avail, ulpdu_len, rfc7306, &seg);
        fuzz_check(err != RNIC_WIRE_MORE ||
                       (avail < ulpdu_len && avail < RNIC_RDMAP_HDR_MAX),
                   "more than all is asked for");
    }
    if (err == RNIC_WIRE_MORE) {
        g_free(ulpdu);
        return;
    }
    avail--;
    if (err != RNIC_WIRE_OK) {
        terminate_check(err, ulpdu, avail, ulpdu_len);
        terminate_check(err, NULL, 0, 0);
        g_free(ulpdu);
        return;
    }
    fuzz_check(seg.hdr_len <= avail &&
                   seg.hdr_len + seg.payload_len == ulpdu_len,
               "header %u, payload %u, ULPDU %u", seg.hdr_len, seg.payload_len,
               ulpdu_len);
    rnic_rdmap_opcode_str(seg.ddp.opcode);
    switch (seg.ddp.opcode) {
    case RNIC_RDMAP_READ_REQUEST: {
        uint8_t again[RNIC_RDMAP_READ_REQUEST_SIZE];

        fuzz_check(rnic_rdmap_read_request_decode(ulpdu, avail, &rr),
                   "a valid Read Request is not decoded");
        rnic_rdmap_read_request_encode(&rr, seg.ddp.msn, again);
        fuzz_check(rnic_rdmap_read_request_decode(again, sizeof(again), &rr2) &&
                       rr.sink_to == rr2.sink_to && rr.size == rr2.size &&
                       rr.source_to == rr2.source_to &&
                       rr.sink_stag == rr2.sink_stag &&
                       rr.source_stag == rr2.source_stag,
                   "a Read Request changes");
        break;
    }
    case RNIC_RDMAP_TERMINATE: {
        struct rnic_term term;

        if (rnic_term_decode(ulpdu, avail, &term)) {
            const struct rnic_term_ctrl *ctrl = rnic_term_ctrl(&term);

            rnic_term_str(ctrl->layer, ctrl->etype, ctrl->code);
        }
        break;
    }
    default:
        break;
    }
    /* Whatever may be found wrong with it later */
    for (err = RNIC_WIRE_MORE + 1; err < RNIC_WIRE_ERR_COUNT; err++) {
        terminate_check(err, ulpdu, avail, ulpdu_len);
    }
    g_free(ulpdu);
}

static void fuzz_terminate(struct fuzz_input *in)
{
    size_t len = MIN(in->left, 200);
    uint8_t *ulpdu = exactly(in->data, len);
    struct rnic_term term;

    if (rnic_term_decode(ulpdu, len, &term)) {
        const struct rnic_term_ctrl *ctrl = rnic_term_ctrl(&term);

        fuzz_check(len >= RNIC_TERM_SIZE_MIN, "decoded from %zu octets", len);
        fuzz_check(rnic_term_str(ctrl->layer, ctrl->etype, ctrl->code),
                   "no name");
    }
    g_free(ulpdu);
}

/* ---- FPDUs and markers ---- */

static void fuzz_fpdu(struct fuzz_input *in)
{
    size_t len = MIN(in->left, 2000);
    uint8_t *buf = exactly(in->data, len);
    uint16_t ulpdu_len;

    if (rnic_fpdu_length_decode(buf, len, &ulpdu_len) == RNIC_WIRE_OK) {
        enum rnic_wire_err err = rnic_fpdu_check(buf, len);

        fuzz_check(rnic_fpdu_len(ulpdu_len) % 4 == 0, "not a multiple of 4");
        fuzz_check((err == RNIC_WIRE_MORE) == (len < rnic_fpdu_len(ulpdu_len)),
                   "completeness of an FPDU");
    }
    g_free(buf);
}

/* One FPDU into a stream with markers, and out again */
static void fuzz_marker(struct fuzz_input *in)
{
    uint64_t pos = fuzz_u64(in) & ~3ull;
    uint16_t ulpdu_len = MIN(fuzz_u16(in), RNIC_MULPDU_MAX);
    bool use_crc = fuzz_u8(in) & 1;
    size_t plain_len = rnic_fpdu_len(ulpdu_len), len, i, out = 0;
    uint8_t *plain, *marked, *stripped;

    if (ulpdu_len < RNIC_ULPDU_MIN || pos > UINT64_MAX - 0x20000) {
        return;
    }
    plain = g_malloc0(plain_len - RNIC_FPDU_CRC_SIZE);
    rnic_fpdu_length_encode(ulpdu_len, plain);
    fuzz_octets(in, plain + 2, MIN(ulpdu_len, in->left));
    len = rnic_marker_fpdu_len(pos, ulpdu_len);
    marked = g_malloc(len);
    fuzz_check(rnic_marker_insert(pos, plain, ulpdu_len, use_crc, marked) ==
                   len,
               "another length with markers than was announced");
    stripped = g_malloc(plain_len);
    for (i = 0; i < len;) {
        if ((pos + i) % RNIC_MARKER_SPACING == 0) {
            i += RNIC_MARKER_SIZE;
            continue;
        }
        fuzz_check(out < plain_len, "too few markers");
        stripped[out++] = marked[i++];
    }
    fuzz_check(out == plain_len, "too many markers");
    fuzz_check(!memcmp(stripped, plain, plain_len - RNIC_FPDU_CRC_SIZE),
               "markers changed the FPDU");
    g_free(plain);
    g_free(marked);
    g_free(stripped);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };

    switch (fuzz_u8(&in) % 5) {
    case 0:
        fuzz_mpa(&in);
        break;
    case 1:
        fuzz_segment(&in);
        break;
    case 2:
        fuzz_terminate(&in);
        break;
    case 3:
        fuzz_fpdu(&in);
        break;
    default:
        fuzz_marker(&in);
        break;
    }
    return 0;
}
