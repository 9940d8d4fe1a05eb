/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Addresses and connections, used as the driver's connection manager does
 */
#include <arpa/inet.h>
#include <string.h>
#include "harness.h"

struct rnic_sockaddr th_sockaddr(const char *address, uint16_t port)
{
    struct rnic_sockaddr sa = { .port = htons(port) };

    if (inet_pton(AF_INET, address, sa.addr) == 1) {
        sa.family = GUINT16_TO_LE(RNIC_AF_INET);
    } else {
        g_assert_cmpint(inet_pton(AF_INET6, address, sa.addr), ==, 1);
        sa.family = GUINT16_TO_LE(RNIC_AF_INET6);
    }
    return sa;
}

static unsigned address_command(struct th_guest *guest,
                                enum rnic_admin_opcode opcode,
                                const char *address)
{
    struct rnic_asqe cmd = { .opcode = opcode };

    cmd.addr.addr = th_sockaddr(address, 0);
    cmd.addr.prefix_len =
        GUINT16_FROM_LE(cmd.addr.addr.family) == RNIC_AF_INET ? 24 : 64;
    return th_admin(guest, &cmd, NULL);
}

unsigned th_addr_add(struct th_guest *guest, const char *address)
{
    return address_command(guest, RNIC_CMD_ADDR_ADD, address);
}

unsigned th_addr_del(struct th_guest *guest, const char *address)
{
    return address_command(guest, RNIC_CMD_ADDR_DEL, address);
}

uint32_t th_listen(struct th_guest *guest, const char *address, uint16_t port,
                   unsigned backlog, uint16_t *bound)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_LISTEN };
    struct rnic_acqe resp;
    uint32_t id = guest->next_listen++;

    cmd.listen.id = GUINT32_TO_LE(id);
    cmd.listen.backlog = GUINT32_TO_LE(backlog);
    cmd.listen.local = th_sockaddr(address, port);
    g_assert_cmpuint(th_admin(guest, &cmd, &resp), ==, RNIC_ADMIN_OK);
    if (bound) {
        *bound = ntohs(resp.listen.port);
    }
    return id;
}

static uint64_t put_pdata(struct th_guest *guest,
                          const struct th_connect *params)
{
    uint64_t at;

    if (!params->pdata_len) {
        return 0;
    }
    at = th_alloc(guest, params->pdata_len, 8);
    memcpy(th_ptr(guest, at), params->pdata, params->pdata_len);
    return at;
}

static const struct th_connect usual = { .ird = 16, .ord = 16 };

unsigned th_connect(struct th_qp *qp, const struct rnic_sockaddr *local,
                    const struct rnic_sockaddr *remote,
                    const struct th_connect *params)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_CONNECT };

    params = params ? params : &usual;
    cmd.connect.qpn = GUINT32_TO_LE(qp->qpn);
    cmd.connect.ird = GUINT16_TO_LE(params->ird);
    cmd.connect.ord = GUINT16_TO_LE(params->ord);
    cmd.connect.local = *local;
    cmd.connect.remote = *remote;
    cmd.connect.pdata_len = GUINT16_TO_LE(params->pdata_len);
    cmd.connect.pdata = GUINT64_TO_LE(put_pdata(qp->guest, params));
    return th_admin(qp->guest, &cmd, NULL);
}

unsigned th_accept(struct th_qp *qp, uint32_t conn_id,
                   const struct th_connect *params)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_ACCEPT };

    params = params ? params : &usual;
    cmd.accept.conn_id = GUINT32_TO_LE(conn_id);
    cmd.accept.qpn = GUINT32_TO_LE(qp->qpn);
    cmd.accept.ird = GUINT16_TO_LE(params->ird);
    cmd.accept.ord = GUINT16_TO_LE(params->ord);
    cmd.accept.pdata_len = GUINT16_TO_LE(params->pdata_len);
    cmd.accept.pdata = GUINT64_TO_LE(put_pdata(qp->guest, params));
    return th_admin(qp->guest, &cmd, NULL);
}

unsigned th_reject(struct th_guest *guest, uint32_t conn_id,
                   const struct th_connect *params)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_REJECT };

    params = params ? params : &usual;
    cmd.accept.conn_id = GUINT32_TO_LE(conn_id);
    cmd.accept.pdata_len = GUINT16_TO_LE(params->pdata_len);
    cmd.accept.pdata = GUINT64_TO_LE(put_pdata(guest, params));
    return th_admin(guest, &cmd, NULL);
}

static void want_address(struct th_guest *guest, const char *address)
{
    unsigned status = th_addr_add(guest, address);

    g_assert_true(status == RNIC_ADMIN_OK || status == RNIC_ADMIN_IN_USE);
}

void th_connect_pair(struct th_qp *client, const char *client_address,
                     struct th_qp *server, const char *server_address,
                     const struct th_connect *params)
{
    struct rnic_sockaddr local = th_sockaddr(client_address, 0);
    struct rnic_sockaddr remote;
    struct rnic_aeqe event;
    uint32_t listener;
    uint16_t port;

    want_address(client->guest, client_address);
    want_address(server->guest, server_address);
    listener = th_listen(server->guest, server_address, 0, 16, &port);
    remote = th_sockaddr(server_address, port);
    g_assert_cmpuint(th_connect(client, &local, &remote, params), ==,
                     RNIC_ADMIN_OK);
    th_event_wait(server->guest, RNIC_EV_CONNECT_REQUEST, listener, &event);
    g_assert_cmpuint(th_accept(server, GUINT32_FROM_LE(event.conn_id), params),
                     ==, RNIC_ADMIN_OK);
    th_event_wait(client->guest, RNIC_EV_CONNECT_REPLY, client->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
    th_event_wait(server->guest, RNIC_EV_ESTABLISHED, server->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, RNIC_CM_OK);
    g_assert_cmpuint(th_admin_id(server->guest, RNIC_CMD_UNLISTEN, listener),
                     ==, RNIC_ADMIN_OK);
}
