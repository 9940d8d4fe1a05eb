/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "mpa-negotiate.h"

/* The largest IRD or ORD that is a number. */
#define IRD_ORD_MAX (RNIC_MPA_IRD_ORD_NONE - 1)

static uint16_t min16(uint16_t a, uint16_t b)
{
    return a < b ? a : b;
}

static uint16_t max16(uint16_t a, uint16_t b)
{
    return a > b ? a : b;
}

enum rnic_mpa_status rnic_mpa_request(const struct rnic_mpa_config *cfg,
                                      struct rnic_mpa_frame *request)
{
    *request = (struct rnic_mpa_frame){
        .rev = cfg->rev,
        .crc = cfg->crc,
    };
    if (cfg->rev == RNIC_MPA_REV_RFC5044) {
        return cfg->p2p ? RNIC_MPA_NO_LOCAL : RNIC_MPA_OK;
    }
    if (cfg->rev != RNIC_MPA_REV_RFC6581 ||
        (cfg->p2p && !(cfg->rtr & RNIC_MPA_RTR_ALL))) {
        return RNIC_MPA_NO_LOCAL;
    }
    request->enhanced = true;
    request->ird = min16(min16(cfg->ird, cfg->ird_max), IRD_ORD_MAX);
    request->ord = min16(cfg->ord, IRD_ORD_MAX);
    request->p2p = cfg->p2p;
    request->rtr = cfg->p2p ? cfg->rtr & RNIC_MPA_RTR_ALL : 0;
    return RNIC_MPA_OK;
}

/* RFC 6581 sections 9.1 and 9.2: the responder's part of the block. */
static enum rnic_mpa_status
accept_enhanced(const struct rnic_mpa_frame *request,
                const struct rnic_mpa_config *cfg, struct rnic_mpa_frame *reply,
                struct rnic_mpa_params *params)
{
    uint8_t own_rtr = cfg->rtr & RNIC_MPA_RTR_ALL;
    uint16_t ird_max = min16(cfg->ird_max, IRD_ORD_MAX);

    reply->enhanced = true;
    if (request->ord != RNIC_MPA_IRD_ORD_NONE) {
        params->ird = min16(max16(params->ird, request->ord), ird_max);
    }
    if (request->ird != RNIC_MPA_IRD_ORD_NONE) {
        params->ord = min16(params->ord, request->ird);
    }

    if (request->p2p) {
        if (!own_rtr) {
            return RNIC_MPA_NO_LOCAL;
        }
        /* With none in common, still name what this end can take. */
        reply->p2p = true;
        reply->rtr = own_rtr & request->rtr ? own_rtr & request->rtr : own_rtr;
        params->rtr = reply->rtr;
        /* A Read RTR is an inbound read, whatever the ULPs asked for. */
        if (reply->rtr & RNIC_MPA_RTR_READ) {
            params->ird = max16(params->ird, min16(1, ird_max));
        }
    }

    reply->ird = request->ord == RNIC_MPA_IRD_ORD_NONE ? RNIC_MPA_IRD_ORD_NONE
                                                       : params->ird;
    reply->ord = request->ird == RNIC_MPA_IRD_ORD_NONE ? RNIC_MPA_IRD_ORD_NONE
                                                       : params->ord;
    return RNIC_MPA_OK;
}

enum rnic_mpa_status rnic_mpa_accept(const struct rnic_mpa_frame *request,
                                     const struct rnic_mpa_config *cfg,
                                     struct rnic_mpa_frame *reply,
                                     struct rnic_mpa_params *params)
{
    *reply = (struct rnic_mpa_frame){
        .reply = true,
        /* The Reply repeats the revision and the form (RFC 6581 s. 10). */
        .rev = request->rev,
        /* One C is enough, but some peers look only at the Reply's. */
        .crc = request->crc || cfg->crc,
    };
    *params = (struct rnic_mpa_params){
        .rev = request->rev,
        .enhanced = request->enhanced,
        .crc = reply->crc,
        .tx_markers = request->markers,
        .ird = min16(min16(cfg->ird, cfg->ird_max), IRD_ORD_MAX),
        .ord = min16(cfg->ord, IRD_ORD_MAX),
        .peer_ird = request->ird,
        .peer_ord = request->ord,
    };
    if (request->enhanced) {
        return accept_enhanced(request, cfg, reply, params);
    }
    return RNIC_MPA_OK;
}

void rnic_mpa_reject(const struct rnic_mpa_frame *request,
                     const struct rnic_mpa_config *cfg,
                     struct rnic_mpa_frame *reply)
{
    struct rnic_mpa_params params;

    /* Even an unusable configuration leaves a complete block behind. */
    rnic_mpa_accept(request, cfg, reply, &params);
    reply->reject = true;
}

/* RFC 6581 sections 9.1 and 9.2: the initiator's part. */
static enum rnic_mpa_status conclude_enhanced(
    const struct rnic_mpa_frame *request, const struct rnic_mpa_frame *reply,
    const struct rnic_mpa_config *cfg, struct rnic_mpa_params *params)
{
    uint8_t common = request->rtr & reply->rtr;

    if (reply->ird != RNIC_MPA_IRD_ORD_NONE) {
        params->ord = min16(params->ord, reply->ird);
    }
    if (reply->ord != RNIC_MPA_IRD_ORD_NONE && reply->ord > params->ird) {
        if (reply->ord > cfg->ird_max) {
            return RNIC_MPA_NO_IRD;
        }
        params->ird = reply->ord;
    }

    if (!request->p2p) {
        return RNIC_MPA_OK;
    }
    /* A=0 in answer to A=1 leaves reply->rtr empty: nothing in common. */
    if (common & RNIC_MPA_RTR_WRITE) {
        params->rtr = RNIC_MPA_RTR_WRITE;
    } else if (common & RNIC_MPA_RTR_READ) {
        params->rtr = RNIC_MPA_RTR_READ;
    } else if (common & RNIC_MPA_RTR_SEND) {
        /* Last choice: it consumes one of the peer's receive buffers. */
        params->rtr = RNIC_MPA_RTR_SEND;
    } else {
        return RNIC_MPA_NO_RTR;
    }
    return RNIC_MPA_OK;
}

enum rnic_mpa_status rnic_mpa_conclude(const struct rnic_mpa_frame *request,
                                       const struct rnic_mpa_frame *reply,
                                       const struct rnic_mpa_config *cfg,
                                       struct rnic_mpa_params *params)
{
    *params = (struct rnic_mpa_params){
        .rev = reply->rev,
        .enhanced = reply->enhanced,
        .crc = request->crc || reply->crc,
        .tx_markers = reply->markers,
        .ird = min16(min16(cfg->ird, cfg->ird_max), IRD_ORD_MAX),
        .ord = min16(cfg->ord, IRD_ORD_MAX),
        .peer_ird = reply->ird,
        .peer_ord = reply->ord,
    };
    if (reply->reject) {
        return RNIC_MPA_REJECTED;
    }
    /* An enhanced Request has an enhanced Reply, a plain one a plain one. */
    if (reply->enhanced != request->enhanced || reply->rev > request->rev) {
        return RNIC_MPA_BAD_REPLY;
    }
    if (reply->enhanced) {
        return conclude_enhanced(request, reply, cfg, params);
    }
    return RNIC_MPA_OK;
}
