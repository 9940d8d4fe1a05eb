/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A peer without an RNIC: plain TCP sockets in the fabric of a guest, which say
 * exactly what a test wants said
 *
 * Descriptors are non-blocking; the functions run the engines while they wait.
 */
#ifndef TESTS_CORE_RAW_PEER_H
#define TESTS_CORE_RAW_PEER_H

#include "harness.h"

/* The host's address for @address in the fabric of @guest */
struct rnic_sockaddr raw_host(struct th_guest *guest, const char *address,
                              uint16_t port);
/* A socket bound to @address; port 0: any */
int raw_socket(struct th_guest *guest, const char *address, uint16_t port);
int raw_listen(struct th_guest *guest, const char *address, uint16_t *port);
int raw_accept(int listener);
/* Connects a socket to @to; waits for TCP only */
void raw_connect_socket(struct th_guest *guest, int fd, const char *to,
                        uint16_t port);
/* The same with a new socket at @from */
int raw_connect(struct th_guest *guest, const char *from, const char *to,
                uint16_t port);

/*
 * In as many parts as RNIC_TEST_SLICING says (wire-io.h), between which the
 * device runs; ends early if the device ended the connection meanwhile
 */
void raw_send(int fd, const void *octets, size_t len);
/* At once, for tests of just that */
void raw_send_whole(int fd, const void *octets, size_t len);
/* Each octet when the device has taken the one before */
void raw_send_singly(int fd, const void *octets, size_t len);
/* Waits until the device's host has all that was sent */
void raw_wait_acked(int fd);
/* Waits for exactly @len octets */
void raw_recv(int fd, void *octets, size_t len);
/* Waits until the other end closed; what it sent before is dropped. *@dropped
 * (may be NULL): how many octets. True: RST. */
bool raw_closed(int fd, size_t *dropped);
/* Nothing comes and nothing is closed for @ms */
void raw_silent(int fd, unsigned ms);
/* Closes with RST */
void raw_abort(int fd);

/*
 * MPA startup frames. @pd_len octets of @pd follow the 20 octets of header,
 * the enhanced block among them.
 */
#define RAW_M         0x80
#define RAW_C         0x40
#define RAW_R         0x20
#define RAW_S         0x10
#define RAW_FRAME_MAX (20 + 65535)
size_t raw_frame(uint8_t *to, bool reply, uint8_t flags, uint8_t rev,
                 const void *pd, uint16_t pd_len);
/* The enhanced block: A, B and IRD; C, D and ORD */
#define RAW_A  0x8000
#define RAW_B  0x4000
#define RAW_CW 0x8000
#define RAW_D  0x4000
void raw_block(uint8_t block[4], uint16_t a_b_ird, uint16_t c_d_ord);
void raw_send_frame(int fd, bool reply, uint8_t flags, uint8_t rev,
                    const void *pd, uint16_t pd_len);
struct raw_frame {
    uint8_t flags, rev;
    uint16_t pd_len;
    uint16_t ird, ord; /* the words of the block, as on the wire */
    uint8_t pd[512];
};
/* Waits for a frame and checks its key */
void raw_recv_frame(int fd, bool reply, struct raw_frame *frame);

/* The FPDU of a ULPDU, with a CRC field of 0; returns its length */
size_t raw_fpdu(uint8_t *to, const void *ulpdu, uint16_t len);

#endif
