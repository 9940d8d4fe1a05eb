/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fuzz.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Turns after which an engine that was given nothing new must rest */
#define MAX_TURNS 20000

/* g_error() traps, which libFuzzer would not take for a finding */
static void on_trap(int signal)
{
    abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    signal(SIGTRAP, on_trap);
    return 0;
}

/* ---- Inputs ---- */

void fuzz_octets(struct fuzz_input *in, void *to, size_t len)
{
    size_t n = MIN(len, in->left);

    memcpy(to, in->data, n);
    memset((uint8_t *)to + n, 0, len - n);
    in->data += n;
    in->left -= n;
}

uint8_t fuzz_u8(struct fuzz_input *in)
{
    uint8_t v;

    fuzz_octets(in, &v, sizeof(v));
    return v;
}

uint16_t fuzz_u16(struct fuzz_input *in)
{
    uint16_t v;

    fuzz_octets(in, &v, sizeof(v));
    return GUINT16_FROM_LE(v);
}

uint32_t fuzz_u32(struct fuzz_input *in)
{
    uint32_t v;

    fuzz_octets(in, &v, sizeof(v));
    return GUINT32_FROM_LE(v);
}

uint64_t fuzz_u64(struct fuzz_input *in)
{
    uint64_t v;

    fuzz_octets(in, &v, sizeof(v));
    return GUINT64_FROM_LE(v);
}

void fuzz_mutate(struct fuzz_input *in, void *what, size_t len)
{
    unsigned count = fuzz_u8(in) % 4;

    while (count--) {
        size_t offset = fuzz_u8(in) % len;

        ((uint8_t *)what)[offset] = fuzz_u8(in);
    }
}

int fuzz_errno(struct fuzz_input *in)
{
    static const int errnos[] = {
        EAGAIN,       EINTR,        ECONNRESET,    EPIPE,
        EMFILE,       ENOBUFS,      ENOMEM,        ECONNREFUSED,
        ETIMEDOUT,    EADDRINUSE,   EADDRNOTAVAIL, EACCES,
        EHOSTUNREACH, ECONNABORTED, ENFILE,        EINVAL,
    };

    return errnos[fuzz_u8(in) % G_N_ELEMENTS(errnos)];
}

/* ---- The host's side of a guest ---- */

/* Devices call their host with the harness's guest */
static struct fuzz_guest *current;

static void run_flips(struct fuzz_guest *guest)
{
    unsigned i;

    for (i = 0; i < FUZZ_FLIPS; i++) {
        struct fuzz_flip *flip = &guest->flips[i];

        if (!flip->after || --flip->after) {
            continue;
        }
        if (flip->octets) {
            memcpy(th_ptr(guest->th, flip->addr), &flip->value, flip->octets);
        } else {
            th_make_hole(guest->th, flip->addr & ~(uint64_t)(TH_PAGE - 1),
                         TH_PAGE);
        }
    }
}

static void check_allowed(struct fuzz_guest *guest, uint64_t addr, uint64_t len)
{
    unsigned i;

    for (i = 0; i < guest->allowed->len; i++) {
        const struct fuzz_allowed *a =
            &g_array_index(guest->allowed, struct fuzz_allowed, i);

        if (addr >= a->addr && addr - a->addr < a->len &&
            len <= a->len - (addr - a->addr)) {
            return;
        }
    }
    g_error("the device wants to write [0x%" PRIx64 ", +%" PRIu64 "), which "
            "nobody gave it",
            addr, len);
}

static void *hooked_map(void *opaque, uint64_t addr, uint64_t *len,
                        enum rnic_dma_dir dir)
{
    struct fuzz_guest *guest = current;
    void *ptr;

    run_flips(guest);
    ptr = guest->ops->dma_map(opaque, addr, len, dir);
    if (ptr && dir != RNIC_DMA_FROM_GUEST && guest->allowed) {
        check_allowed(guest, addr, *len);
    }
    return ptr;
}

/* ---- Guests ---- */

void fuzz_options(struct th_options *options, size_t mem_size)
{
    static const uint8_t mac[6] = { 0x52, 0x54, 0x00, 0xf2, 0x22, 0x01 };

    th_options_init(options);
    memcpy(options->config.mac, mac, sizeof(mac));
    options->config.fabric = RNIC_FABRIC_DIRECT;
    options->config.fpdu_max = 64768;
    options->mem_size = mem_size;
}

struct fuzz_guest *fuzz_guest_new(const struct th_options *options)
{
    struct fuzz_guest *guest = g_new0(struct fuzz_guest, 1);

    guest->th = th_guest_new(options);
    guest->ops = guest->th->dev->ops;
    guest->hooked = *guest->ops;
    guest->hooked.dma_map = hooked_map;
    guest->th->dev->ops = &guest->hooked;
    current = guest;
    return guest;
}

void fuzz_guest_start(struct fuzz_guest *guest)
{
    th_enable(guest->th, 16);
    th_uctx_new(guest->th, 0);
    th_eq_new(guest->th, &guest->th->aeq, RNIC_AEQN, 0, 32);
    th_eq_new(guest->th, &guest->th->ceq, 1, 1, 16);
}

void fuzz_guest_free(struct fuzz_guest *guest)
{
    if (guest->allowed) {
        g_array_unref(guest->allowed);
        guest->allowed = NULL;
    }
    th_guest_free(guest->th);
    current = NULL;
    g_free(guest);
}

void fuzz_run(struct fuzz_guest *guest)
{
    rnic_device *dev = guest->th->dev;
    struct pollfd fd = { .fd = rnic_device_fd(dev), .events = POLLIN };
    unsigned turns = 0;

    if (dev->quiesced) {
        return;
    }
    do {
        rnic_device_run(dev);
        fuzz_check(guest->th->mapped->len == 0,
                   "a mapping is held across a return to the event loop");
        fuzz_check(++turns < MAX_TURNS, "the engine comes to no rest");
    } while (poll(&fd, 1, 0) > 0);
}

void fuzz_flip(struct fuzz_guest *guest, struct fuzz_input *in)
{
    uint8_t which = fuzz_u8(in);
    struct fuzz_flip *flip = &guest->flips[which % FUZZ_FLIPS];

    /* Naturally aligned, so that it stays within guest memory */
    flip->octets = which & 0x80 ? 0 : 1u << (which >> 5 & 3);
    flip->after = 1 + fuzz_u8(in);
    flip->addr = fuzz_u32(in) % guest->th->options.mem_size;
    if (flip->octets) {
        flip->addr -= flip->addr % flip->octets;
        flip->value = fuzz_u64(in);
    }
    flip->addr += TH_BASE;
}

void fuzz_allow(struct fuzz_guest *guest, uint32_t tag, uint64_t addr,
                uint64_t len)
{
    struct fuzz_allowed allowed = { addr, len, tag };

    if (!guest->allowed) {
        guest->allowed = g_array_new(false, false, sizeof(allowed));
    }
    g_array_append_val(guest->allowed, allowed);
}

void fuzz_disallow(struct fuzz_guest *guest, uint32_t tag)
{
    unsigned i = 0;

    while (i < guest->allowed->len) {
        if (g_array_index(guest->allowed, struct fuzz_allowed, i).tag == tag) {
            g_array_remove_index_fast(guest->allowed, i);
        } else {
            i++;
        }
    }
}

void fuzz_allow_buf(struct fuzz_guest *guest, uint32_t tag,
                    const struct th_buf *buf, uint32_t first_offset)
{
    size_t left = buf->len;
    unsigned i;

    if (buf->dma) {
        fuzz_allow(guest, tag, buf->dma, buf->len);
        return;
    }
    for (i = 0; left; i++) {
        size_t n = MIN(TH_PAGE - first_offset, left);

        fuzz_allow(guest, tag, buf->pages[i] + first_offset, n);
        first_offset = 0;
        left -= n;
    }
}

unsigned fuzz_reg_mr(struct fuzz_guest *guest, const struct th_buf *buf,
                     uint64_t iova, uint32_t access, uint32_t pdn, uint8_t key,
                     uint32_t *stag)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_REG_MR };
    struct rnic_acqe resp;
    unsigned status;

    cmd.reg_mr.pdn = GUINT32_TO_LE(pdn);
    cmd.reg_mr.access = GUINT32_TO_LE(access);
    cmd.reg_mr.key = key;
    cmd.reg_mr.iova = GUINT64_TO_LE(iova);
    cmd.reg_mr.buf = buf->desc;
    status = th_admin(guest->th, &cmd, &resp);
    *stag = GUINT32_FROM_LE(resp.mr.stag);
    return status;
}

void fuzz_events(struct fuzz_guest *guest,
                 void (*seen)(void *opaque, const struct rnic_aeqe *event),
                 void *opaque)
{
    struct rnic_aeqe event;

    while (th_aeq_poll(guest->th, &event)) {
        seen(opaque, &event);
    }
}
