/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Captures of two siw hosts that talk to each other (tests/data/siw): pcap to
 * TCP segments, to octets of each direction, to FPDUs, to messages
 *
 * Everything here is read as the RFCs and siw have it, without the device's
 * codecs. A capture is project data, so what does not fit is a failed test.
 */
#ifndef TESTS_CORE_SIW_CAPTURE_H
#define TESTS_CORE_SIW_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <glib.h>

enum cap_side { CAP_CLIENT, CAP_SERVER };

/* A TCP segment that carries something, in the order of the capture */
struct cap_segment {
    enum cap_side side;
    size_t start, end; /* of the octets that this side sends */
    bool fin;
};

/* An RDMAP message, put together from its FPDUs */
struct cap_message {
    enum cap_side side;
    uint8_t opcode;      /* without the version bits */
    uint32_t stag;       /* tagged: target; Send: Invalidate STag */
    uint64_t to;         /* tagged: of the first octet */
    uint32_t msn;        /* untagged */
    GByteArray *payload; /* Terminate, Read Request: what follows the DDP
                          * header */
    /* Read Request */
    uint32_t sink_stag, size, source_stag;
    uint64_t sink_to, source_to;
    /* Read Request, Read Response: the other one, or NULL */
    struct cap_message *partner;
    size_t first_end, last_end; /* where its first and last FPDU end */
};

struct cap_fpdu {
    size_t start, end, payload; /* of the stream; offset in the message */
    struct cap_message *message;
};

struct cap_frame { /* an MPA Request or Reply */
    uint8_t flags, rev;
    uint16_t ird, ord; /* words of the block, else 0 */
    const uint8_t *pd; /* behind the block */
    uint16_t pd_len;
    size_t len; /* of the whole frame */
};

struct cap_connection {
    GByteArray *stream[2]; /* by side */
    struct cap_frame frame[2];
    GArray *segments;    /* struct cap_segment */
    GArray *fpdus[2];    /* struct cap_fpdu */
    GPtrArray *messages; /* struct cap_message, in the order in which they
                           * end */
    /* Internal to the reader */
    uint32_t key[3], next[2];
};

/* All connections of a file; struct cap_connection */
GPtrArray *cap_read(const char *path);

/* RDMAP opcodes */
#define CAP_WRITE    0
#define CAP_READ_REQ 1
#define CAP_READ_RSP 2
#define CAP_SEND     3
#define CAP_SEND_INV 4
#define CAP_SEND_SE  5
#define CAP_SEND_SEI 6
#define CAP_TERM     7

static inline bool cap_is_send(const struct cap_message *m)
{
    return m->opcode >= CAP_SEND && m->opcode <= CAP_SEND_SEI;
}

#endif
