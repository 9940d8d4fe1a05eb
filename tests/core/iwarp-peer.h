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

#define PEER_IOVA     0x100000ull
#define PEER_BUF      (256u << 10)
#define PEER_FPDU_MAX (2 + 65535 + 3 + 4)

struct iw_peer {
    struct th_guest *guest;
    struct th_qp *qp;
    struct th_buf buf; /* of the device's guest, registered */
    uint32_t stag;     /* all rights */
    int fd;
    bool crc;
};

struct iw_options {
    bool crc;
    uint16_t ird, ord; /* of the device */
    bool markers;      /* the peer asks for them */
};

/* CRC as said, IRD and ORD of 4 */
void iw_options_init(struct iw_options *options, bool crc);
/* The device is the responder; no peer-to-peer mode */
void iw_start(struct iw_peer *peer, const struct iw_options *options);
void iw_free(struct iw_peer *peer);

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
