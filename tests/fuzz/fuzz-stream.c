/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A peer that says anything to a connected QP
 *
 * Rules that are watched: the device writes only where it was told to; a work
 * request completes once; what the device says is valid, and ends with at most
 * one Terminate; how TCP cuts what the peer says into pieces changes nothing.
 */
#include <string.h>
#include "stream.h"

static void step(struct peer *peer, struct fuzz_input *in)
{
    switch (fuzz_u8(in) % 24) {
    case 0:
        stream_say_raw(peer, in);
        break;
    case 1:
    case 2:
        stream_say_tagged(peer, in, RNIC_RDMAP_WRITE);
        break;
    case 3:
    case 4:
        stream_say_tagged(peer, in, RNIC_RDMAP_READ_RESPONSE);
        break;
    case 5:
    case 6:
    case 7:
        stream_say_send(peer, in);
        break;
    case 8:
        stream_say_read_request(peer, in);
        break;
    case 9:
        stream_say_terminate(peer, in);
        break;
    case 10:
    case 11:
        stream_run(peer);
        break;
    case 12:
    case 13:
        stream_post_recv(peer, fuzz_u16(in));
        break;
    case 14:
    case 15:
        stream_post_send(peer, in);
        break;
    case 16:
        peer->deaf = !peer->deaf;
        peer->was_deaf = true;
        stream_hear(peer);
        break;
    case 17:
        stream_dereg(peer, fuzz_u8(in) % REGIONS);
        break;
    case 18:
        stream_leave(peer, fuzz_u8(in) & 1);
        break;
    case 19: {
        static const enum rnic_qp_state states[] = {
            RNIC_QPS_CLOSING,
            RNIC_QPS_TERMINATE,
            RNIC_QPS_ERROR,
        };

        th_qp_modify(peer->qp, states[fuzz_u8(in) % G_N_ELEMENTS(states)]);
        break;
    }
    case 20:
        world_advance_us(1000ull << (fuzz_u8(in) % 14));
        break;
    case 21:
        peer->slice = fuzz_u8(in);
        world_limit_send(fuzz_u16(in), 64);
        break;
    case 22:
    case 23:
        stream_say_rfc7306(peer, in);
        break;
    }
}

/* ---- One input ---- */

static void connect_qp(struct peer *peer, struct fuzz_input *in)
{
    struct rnic_sockaddr local = th_sockaddr("10.0.0.1", 1);
    struct rnic_sockaddr remote = th_sockaddr("10.0.0.2", 2);
    rnic_device *dev = peer->guest->th->dev;
    struct rnic_stream *stream;
    uint8_t bits = fuzz_u8(in);

    peer->params = (struct rnic_qp_params){
        .initiator = bits & 1,
        .crc = bits & 2,
        .tx_markers = bits & 4,
        .ird = fuzz_u8(in) % 8,
        .ord = fuzz_u8(in) % 8,
    };
    if (peer->params.initiator) {
        peer->params.send_rtr = bits >> 5 & 3;
    } else {
        peer->params.await_rtr = bits >> 5 & 1;
    }
    stream = rnic_stream_new(dev, world_pair(&peer->fd), &local, &remote,
                             peer->params.initiator);
    g_assert_nonnull(stream);
    rnic_qp_connected(rnic_qp_find(dev, peer->qp->qpn), stream, &peer->params);
    if (!peer->params.initiator) {
        stream_run(peer);
        fuzz_check(!dev->config.mpa_gate_strict || !peer->heard->len,
                   "a responder spoke before the first FPDU");
    }
}

/* Adds what is left in memory; the outcome, or NULL: it depends on the time */
static GByteArray *take_outcome(struct peer *peer)
{
    struct rnic_resp_query_qp resp = { 0 };
    unsigned i;

    if (!peer->was_cut || peer->was_deaf) {
        g_byte_array_unref(peer->outcome);
        return NULL;
    }
    for (i = 0; i < REGIONS; i++) {
        g_byte_array_append(peer->outcome, peer->buf[i].ptr,
                            stream_plan[i].len);
    }
    rnic_qp_query(peer->guest->th->dev, peer->qp->qpn, &resp);
    g_byte_array_append(peer->outcome, (const uint8_t *)&resp.term,
                        sizeof(resp.term));
    return peer->outcome;
}

static GByteArray *run_input(struct fuzz_input in, bool uncut)
{
    struct peer peer = {
        .fd = -1,
        .send_msn = 1,
        .read_msn = 1,
        .atomic_msn = 1,
        .uncut = uncut,
        .outcome = g_byte_array_new(),
    };
    struct th_options options;
    struct th_qp_attr attr;
    uint8_t bits = fuzz_u8(&in);
    unsigned i;

    world_reset();
    fuzz_options(&options, 256 << 10);
    options.config.rfc7306 = fuzz_u8(&in) & 1;
    options.config.mpa_gate_strict = !(bits & 1);
    options.config.fpdu_max = bits & 2 ? 128 + fuzz_u8(&in) : 64768;
    options.whole_mappings = bits & 4;
    peer.guest = fuzz_guest_new(&options);
    fuzz_guest_start(peer.guest);
    peer.heard = g_byte_array_new();

    th_qp_attr_init(&attr);
    attr.sq_depth = attr.rq_depth = QUEUE_DEPTH;
    attr.send_cq = th_cq_new(peer.guest->th, 128);
    attr.recv_cq = th_cq_new(peer.guest->th, 128);
    if (bits & 8) {
        peer.srq = th_srq_new(peer.guest->th, QUEUE_DEPTH, 2);
        attr.srq = peer.srq;
    }
    attr.flags = bits & 16 ? RNIC_QP_KERNEL : 0;
    peer.qp = th_qp_new(peer.guest->th, &attr);
    stream_allow_rings(&peer);
    stream_make_regions(&peer);
    for (i = 0; i < bits >> 5; i++) {
        stream_post_recv(&peer, 100 + i);
    }
    connect_qp(&peer, &in);
    while (in.left) {
        step(&peer, &in);
    }

    /* The end: what is posted completes, or is flushed */
    peer.deaf = false;
    stream_run(&peer);
    th_qp_modify(peer.qp, RNIC_QPS_ERROR);
    stream_run(&peer);
    for (i = 0; i < peer.num_send; i++) {
        fuzz_check(peer.send[i].completed, "send %u never completes", i);
    }
    for (i = 0; !peer.srq && i < peer.num_recv; i++) {
        fuzz_check(peer.recv[i].completed, "receive %u never completes", i);
    }
    stream_check_heard(&peer);
    stream_check_untouched(&peer);
    peer.outcome = take_outcome(&peer);
    fuzz_guest_free(peer.guest);
    stream_leave(&peer, false);
    g_byte_array_unref(peer.heard);
    return peer.outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    GByteArray *cut = run_input(in, false), *whole;

    if (cut) {
        whole = run_input(in, true);
        fuzz_check(whole && whole->len == cut->len &&
                       !memcmp(whole->data, cut->data, cut->len),
                   "what came depends on where it was cut");
        g_byte_array_unref(whole);
        g_byte_array_unref(cut);
    }
    return 0;
}
