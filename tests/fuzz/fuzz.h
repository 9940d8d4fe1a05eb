/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the fuzz targets share: reading an input, and a guest whose device is
 * watched
 *
 * An input is a list of steps: an octet that says what to do, and the octets
 * that the step takes. Behind its end there are zeros.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include "../core/harness.h"
#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* ---- Inputs ---- */

struct fuzz_input {
    const uint8_t *data;
    size_t left;
};

uint8_t fuzz_u8(struct fuzz_input *in);
uint16_t fuzz_u16(struct fuzz_input *in);
uint32_t fuzz_u32(struct fuzz_input *in);
uint64_t fuzz_u64(struct fuzz_input *in);
/* Up to @len octets, the rest is 0 */
void fuzz_octets(struct fuzz_input *in, void *to, size_t len);
/* Replaces some octets of @what: a count of 0 to 3, then offset and value */
void fuzz_mutate(struct fuzz_input *in, void *what, size_t len);
/* An errno that the calls of world.h can have */
int fuzz_errno(struct fuzz_input *in);

/* What must hold; the message names the rule */
#define fuzz_check(condition, ...)                                             \
    do {                                                                       \
        if (!(condition)) {                                                    \
            g_error(__VA_ARGS__);                                              \
        }                                                                      \
    } while (0)

/* ---- Guests ---- */

#define FUZZ_FLIPS 8

/* At the @after-th mapping from now, memory changes under the device */
struct fuzz_flip {
    unsigned after; /* 0: not armed */
    uint64_t addr;
    uint64_t value;
    unsigned octets; /* of value; 0: the page stops to be RAM */
};

struct fuzz_allowed {
    uint64_t addr, len;
    uint32_t tag;
};

struct fuzz_guest {
    struct th_guest *th;
    const struct rnic_host_ops *ops; /* the harness's */
    struct rnic_host_ops hooked;
    struct fuzz_flip flips[FUZZ_FLIPS];
    GArray *allowed; /* struct fuzz_allowed; NULL: anything */
};

/* The defaults of the fuzzers: direct fabric, no limit of FPDUs by TCP */
void fuzz_options(struct th_options *options, size_t mem_size);
struct fuzz_guest *fuzz_guest_new(const struct th_options *options);
/* Admin queue, context 0, small event queues */
void fuzz_guest_start(struct fuzz_guest *guest);
/* Frees the device, with everything that it still has open */
void fuzz_guest_free(struct fuzz_guest *guest);

/* Runs the engine until it rests; one that never does fails */
void fuzz_run(struct fuzz_guest *guest);
/* A flip from the input, within guest memory */
void fuzz_flip(struct fuzz_guest *guest, struct fuzz_input *in);

/*
 * From the first call on the device may map only what is allowed for writing.
 * Tags group ranges: fuzz_disallow() takes back all of one.
 */
void fuzz_allow(struct fuzz_guest *guest, uint32_t tag, uint64_t addr,
                uint64_t len);
void fuzz_disallow(struct fuzz_guest *guest, uint32_t tag);
void fuzz_allow_buf(struct fuzz_guest *guest, uint32_t tag,
                    const struct th_buf *buf, uint32_t first_offset);

/* REG_MR; the status, the STag in *@stag */
unsigned fuzz_reg_mr(struct fuzz_guest *guest, const struct th_buf *buf,
                     uint64_t iova, uint32_t access, uint32_t pdn, uint8_t key,
                     uint32_t *stag);
/* Events since the last call are as they must be; takes them */
void fuzz_events(struct fuzz_guest *guest,
                 void (*seen)(void *opaque, const struct rnic_aeqe *event),
                 void *opaque);

#endif
