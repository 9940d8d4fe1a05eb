/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An iWARP peer that says exactly what a test wants said
 *
 * A plain socket connected to a QP of a device. FPDUs are built and taken
 * apart here, byte by byte from the RFCs, and not by the device's codecs.
 */
#ifndef TESTS_CORE_IWARP_PEER_H
#define TESTS_CORE_IWARP_PEER_H

#include "harness.h"
#include "usage.h"

#define IW_DEVICE "10.0.0.1"
#define IW_PEER   "10.0.0.2"

#define PEER_IOVA     0x100000ull
#define PEER_BUF      (256u << 10)
#define PEER_FPDU_MAX (2 + 65535 + 3 + 4)
#define PEER_GUARD    (64u << 10)

/* What iwarp-oracle.c knows of a peer */
struct iw_oracle {
    struct th_buf guard[2]; /* beside the buffer in DMA space, in no region */
    struct th_buf local;    /* behind it in TO space, without remote rights */
    struct th_buf scratch;  /* of connections that the oracle makes */
    uint32_t scratch_stag;
    uint8_t *shadow;              /* what the buffer must hold */
    GArray *allowed;              /* struct iw_range: where it need not */
    struct usage before;          /* when nothing was connected */
    size_t later;                 /* octets of heap that it does not know of */
    unsigned recvs, sends, reads; /* CQEs taken; Reads posted */
    /* Of the oldest request when the connection ends; others are flushed */
    enum rnic_wc_status recv_status, send_status;
};

struct iw_peer {
    struct th_guest *guest;
    struct th_qp *qp;  /* of a kernel consumer */
    struct th_buf buf; /* of the device's guest, registered */
    uint32_t stag;     /* all rights */
    uint32_t listener; /* of the device at IW_DEVICE */
    uint16_t port;
    int fd; /* -1: none */
    bool crc;
    struct iw_oracle oracle;
};

struct iw_options {
    bool crc;
    uint16_t ird, ord; /* of the device */
    bool markers;      /* the peer asks for them */
    bool rfc7306;      /* of the device; then stag has REMOTE_ATOMIC, too */
};

/* CRC as said, IRD and ORD of 4 */
void iw_options_init(struct iw_options *options, bool crc);
/* A guest with a listener, a buffer of 0xee and a QP, and nothing connected.
 * NULL: default options */
void iw_listen(struct iw_peer *peer, const struct th_options *th);
/* The device is the responder; no peer-to-peer mode */
void iw_start(struct iw_peer *peer, const struct iw_options *options);
void iw_free(struct iw_peer *peer);
/* The device's socket of this connection */
int iw_device_fd(struct iw_peer *peer);
/* Opens the gate of the responder, by an empty Write */
void iw_open_gate(struct iw_peer *peer);
/* Adds @test as /wire/NAME/crc-off and /wire/NAME/crc-on, with GINT_TO_POINTER()
 * of that. @name starts with the case's number: S01 to S50, F01 to ... */
void iw_add(const char *name, GTestDataFunc test);
/* The same with a row of a table */
typedef void (*iw_row_test)(gconstpointer row, bool crc);
void iw_add_row(const char *name, gconstpointer row, iw_row_test test);
/* iw_start() with CRC as said and else the defaults */
void iw_start_crc(struct iw_peer *peer, bool crc);
/* A big-endian number */
uint64_t iw_get(const uint8_t *from, unsigned octets);

/*
 * The oracle (iwarp-oracle.c): what must hold after anything that a peer did.
 * Each of iw_expect_refused(), _dropped(), _harmless() and iw_check_after()
 * ends the connection and leaves nothing but iw_free() to do. They assert that
 *
 * - no octet changed in the buffer, around it and in the regions beside it, but
 *   those that iw_allow() named;
 * - the end was told once, and everything posted completed exactly once, as
 *   flushed (the oldest: as oracle.recv_status and oracle.send_status say);
 * - the same listener serves another connection at once, with data both ways;
 * - after that the process has as many files and threads as before, and hardly
 *   more memory.
 */
/* One Terminate with this code, nothing behind it, FIN. @ulpdu as with
 * iw_expect_term() */
void iw_expect_refused(struct iw_peer *peer, uint8_t layer, uint8_t etype,
                       uint8_t code, uint8_t *ulpdu);
/* The connection ends without a Terminate */
void iw_expect_dropped(struct iw_peer *peer);
/* Nothing of the kind: a Send with MSN @msn still arrives, and FIN ends it */
void iw_expect_harmless(struct iw_peer *peer, uint32_t msn);
/* Another connection to the same listener carries data both ways, and ends */
void iw_connect_again(struct iw_peer *peer);
/* What they have in common; for a connection that ended, or was never made */
void iw_check_after(struct iw_peer *peer);
/* From now on the buffer holds what it must hold. Once the test has written it */
void iw_watch(struct iw_peer *peer);
/* The device may change these octets of the buffer */
void iw_allow(struct iw_peer *peer, size_t offset, size_t len);
void iw_check_memory(struct iw_peer *peer);
/* What this process holds now is what it must hold in the end */
void iw_baseline(struct iw_peer *peer);
/* Takes what completed, and asserts that it is all that was posted. Once the
 * QP is in ERROR */
void iw_check_flushed(struct iw_peer *peer);

/* DDP control octets and RDMAP opcodes, RFC 5041 section 4, RFC 5040 4.1 */
#define IW_TAGGED   0xc1 /* T, L, DV 1 */
#define IW_UNTAGGED 0x41 /* L, DV 1 */
#define IW_NOT_LAST 0x40
#define IW_WRITE    0x40 /* RV 1 */
#define IW_READ_REQ 0x41
#define IW_READ_RSP 0x42
#define IW_SEND     0x43
#define IW_SEND_INV 0x44
#define IW_SEND_SE  0x45
#define IW_TERM     0x47

/* ULPDUs: each returns its length */
size_t iw_tagged(uint8_t *to, uint8_t ddp, uint8_t rdmap, uint32_t stag,
                 uint64_t offset, const void *payload, size_t len);
size_t iw_untagged(uint8_t *to, uint8_t ddp, uint8_t rdmap, uint32_t inv,
                   uint32_t qn, uint32_t msn, uint32_t mo, const void *payload,
                   size_t len);
size_t iw_read_request(uint8_t *to, uint32_t msn, uint32_t sink,
                       uint64_t sink_to, uint32_t size, uint32_t source,
                       uint64_t source_to);

uint32_t iw_crc32c(const uint8_t *octets, size_t len);
/* The FPDU of a ULPDU; returns its length */
size_t iw_fpdu(const struct iw_peer *peer, uint8_t *to, const uint8_t *ulpdu,
               size_t len);
void iw_send(struct iw_peer *peer, const uint8_t *ulpdu, size_t len);
/* A Send of @len octets of th_fill(.., msn), and an empty one */
void iw_send_message(struct iw_peer *peer, uint32_t msn, size_t len);
/* Receives one FPDU, checks pad and CRC; returns the ULPDU's length */
size_t iw_recv(struct iw_peer *peer, uint8_t *ulpdu);

/* Waits for the Terminate with this code, and the end of the connection; what
 * came before it is dropped. @ulpdu: RNIC_TERM_SIZE_MAX octets or NULL */
void iw_expect_term(struct iw_peer *peer, uint8_t layer, uint8_t etype,
                    uint8_t code, uint8_t *ulpdu);
/* Waits for the end of the connection, without a Terminate */
void iw_expect_close(struct iw_peer *peer);
/* The QP is in ERROR, its end was reported once */
void iw_expect_error(struct iw_peer *peer);

/* What an STag may be wrong in */
enum iw_stag {
    IW_STAG_OWN, /* nothing */
    IW_STAG_NONE,
    IW_STAG_WRONG_INDEX,
    IW_STAG_WRONG_KEY,
    IW_STAG_DEREGISTERED,
    IW_STAG_NOT_VALID, /* allocated, never registered */
    IW_STAG_OTHER_PD,
    IW_STAG_READ_ONLY,
    IW_STAG_WRITE_ONLY,
    IW_STAG_LOCAL_ONLY,
    IW_STAG_INVALIDATED, /* by a work request of the device's consumer */
    IW_STAG_TAKEN_BACK,  /* by the peer: its Send with MSN 1 */
    /* Registered by a work request: the first IW_FAST_LEN octets */
    IW_STAG_FAST,
    IW_STAG_FAST_OLD_KEY,
    IW_STAG_FAST_READ_ONLY,
    IW_STAG_FAST_WRITE_ONLY,
};
#define IW_FAST_LEN 5000
/* An STag of that kind, of the buffer if of anything. Those that need work
 * requests or messages open the gate. */
uint32_t iw_stag_of(struct iw_peer *peer, enum iw_stag which);
/* Another region of the buffer */
uint32_t iw_region(struct iw_peer *peer, uint32_t pdn, uint32_t access);

/* Posts a receive of @len octets at @offset of the buffer */
void iw_post_recv(struct iw_peer *peer, uint64_t wr_id, uint64_t offset,
                  uint32_t len);
void iw_wait_recv(struct iw_peer *peer, uint64_t wr_id,
                  enum rnic_wc_status status, uint32_t byte_len);
void iw_wait_send(struct iw_peer *peer, uint64_t wr_id,
                  enum rnic_wc_status status);
/* A Read by the device of @len octets into @offset of its buffer */
void iw_post_read(struct iw_peer *peer, uint64_t wr_id, uint64_t offset,
                  uint32_t len);

#endif
