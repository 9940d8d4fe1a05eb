/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connection management: listeners, TCP connect and accept, the MPA startup
 * (RFC 5044 section 7.1, RFC 6581), and the events of a connection
 *
 * A connection belongs to the connection manager until both startup frames are
 * exchanged; then rnic_qp_connected() hands its stream to the QP.
 */
#ifndef RNIC_CM_H
#define RNIC_CM_H

#include "device.h"
#include "net/stream.h"

void rnic_cm_init(struct rnic_device *dev);
void rnic_cm_fini(struct rnic_device *dev);
/* Every listener and every connection in setup goes, without events */
void rnic_cm_reset(struct rnic_device *dev);
/* The engine will not run for a while: what only waits for its peer ends */
void rnic_cm_quiesce(struct rnic_device *dev);

enum rnic_admin_status rnic_cm_listen(struct rnic_device *dev,
                                      const struct rnic_cmd_listen *cmd,
                                      struct rnic_resp_listen *resp);
/* After this no CONNECT_REQUEST of the listener is written; connections that
 * were requested and not yet answered are closed */
enum rnic_admin_status rnic_cm_unlisten(struct rnic_device *dev, uint32_t id);
enum rnic_admin_status rnic_cm_connect(struct rnic_device *dev,
                                       const struct rnic_cmd_connect *cmd);
enum rnic_admin_status rnic_cm_accept(struct rnic_device *dev,
                                      const struct rnic_cmd_accept *cmd);
enum rnic_admin_status rnic_cm_reject(struct rnic_device *dev,
                                      const struct rnic_cmd_accept *cmd);
enum rnic_admin_status rnic_cm_addr_add(struct rnic_device *dev,
                                        const struct rnic_cmd_addr *cmd);
enum rnic_admin_status rnic_cm_addr_del(struct rnic_device *dev,
                                        const struct rnic_cmd_addr *cmd);
enum rnic_admin_status rnic_cm_set_link(struct rnic_device *dev, bool up);

/* What a connection's end by an error of the host's TCP is told as */
enum rnic_cm_status rnic_cm_status_of_errno(int err);

/*
 * The QP calls these.
 * abort: the QP leaves IDLE (MODIFY_QP, DESTROY_QP) while its connection is in
 * setup: ends it; CONNECT_REPLY or ESTABLISHED (then CLOSE) with an error is
 * still written unless @silent.
 */
void rnic_cm_abort(struct rnic_device *dev, struct rnic_qp *qp, bool silent);
/* The first valid FPDU came in: ESTABLISHED if it still waits for the RTR */
void rnic_cm_first_fpdu(struct rnic_device *dev, struct rnic_qp *qp);
/*
 * The connection ended, and the QP knows: after RTS, or because of what was
 * posted before it. Writes what is due: CONNECT_REPLY or ESTABLISHED with an
 * error if it was not written yet, DISCONNECT if @by_peer, then CLOSE. Once a
 * connection.
 */
void rnic_cm_closed(struct rnic_device *dev, struct rnic_qp *qp, bool by_peer,
                    enum rnic_cm_status why);

#endif
