/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Steps that the tests of connection management share
 */
#ifndef TESTS_CORE_CM_STEPS_H
#define TESTS_CORE_CM_STEPS_H

#include "harness.h"

/* A started guest with an address; NULL: default options */
struct th_guest *cm_guest_at(const char *address,
                             const struct th_options *options);
/* The same, with these properties */
struct th_guest *cm_guest_with(const char *address, unsigned mpa_timeout_ms,
                               enum rnic_crc_policy crc, bool p2p,
                               unsigned mpa_rev);
/* No event waits, and none comes soon */
void cm_no_events(struct th_guest *guest);
/* CONNECT from @from, port 0, to @to; the command's status */
unsigned cm_connect(struct th_qp *qp, const char *from, const char *to,
                    uint16_t port);
void cm_connect_ok(struct th_qp *qp, const char *from, const char *to,
                   uint16_t port);
/* The failed CONNECT_REPLY is the only event, and the QP is in ERROR */
void cm_assert_fails(struct th_qp *qp, enum rnic_cm_status status);
/* LISTEN with this id; the command's status */
unsigned cm_listen_status(struct th_guest *guest, uint32_t id,
                          const char *address, uint16_t port, uint32_t flags);
unsigned cm_unlisten(struct th_guest *guest, uint32_t id);
unsigned cm_set_link(struct th_guest *guest, bool up);
/* @port 0: any but 0 */
void cm_assert_addr(const struct rnic_sockaddr *sa, const char *address,
                    uint16_t port);
/* Waits for a connection request at @listener of @server */
struct rnic_aeqe cm_arrives(struct th_guest *server, uint32_t listener);

#endif
