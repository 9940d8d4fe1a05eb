/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cm-steps.h"

struct th_guest *cm_guest_at(const char *address,
                             const struct th_options *options)
{
    struct th_guest *guest = th_guest_started(options);

    g_assert_cmpuint(th_addr_add(guest, address), ==, RNIC_ADMIN_OK);
    return guest;
}

struct th_guest *cm_guest_with(const char *address, unsigned mpa_timeout_ms,
                               enum rnic_crc_policy crc, bool p2p,
                               unsigned mpa_rev)
{
    struct th_options options;

    th_options_init(&options);
    options.config.mpa_timeout_ms = mpa_timeout_ms;
    options.config.crc = crc;
    options.config.p2p = p2p;
    options.config.mpa_rev = mpa_rev;
    return cm_guest_at(address, &options);
}

void cm_no_events(struct th_guest *guest)
{
    th_run_for(30);
    g_assert_cmpuint(th_events(guest), ==, 0);
}

unsigned cm_connect(struct th_qp *qp, const char *from, const char *to,
                    uint16_t port)
{
    struct rnic_sockaddr local = th_sockaddr(from, 0);
    struct rnic_sockaddr remote = th_sockaddr(to, port);

    return th_connect(qp, &local, &remote, NULL);
}

void cm_connect_ok(struct th_qp *qp, const char *from, const char *to,
                   uint16_t port)
{
    g_assert_cmpuint(cm_connect(qp, from, to, port), ==, RNIC_ADMIN_OK);
}

void cm_assert_fails(struct th_qp *qp, enum rnic_cm_status status)
{
    struct rnic_aeqe event;

    th_event_wait(qp->guest, RNIC_EV_CONNECT_REPLY, qp->qpn, &event);
    g_assert_cmpuint(GUINT16_FROM_LE(event.status), ==, status);
    g_assert_cmpuint(th_qp_state(qp), ==, RNIC_QPS_ERROR);
    th_run_for(20);
    g_assert_cmpuint(th_events(qp->guest), ==, 0);
}

unsigned cm_listen_status(struct th_guest *guest, uint32_t id,
                          const char *address, uint16_t port, uint32_t flags)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_LISTEN };

    cmd.listen.id = GUINT32_TO_LE(id);
    cmd.listen.backlog = GUINT32_TO_LE(4);
    cmd.listen.flags = GUINT32_TO_LE(flags);
    cmd.listen.local = th_sockaddr(address, port);
    return th_admin(guest, &cmd, NULL);
}

unsigned cm_unlisten(struct th_guest *guest, uint32_t id)
{
    return th_admin_id(guest, RNIC_CMD_UNLISTEN, id);
}

unsigned cm_set_link(struct th_guest *guest, bool up)
{
    struct rnic_asqe cmd = { .opcode = RNIC_CMD_SET_LINK };

    cmd.set_link.up = GUINT32_TO_LE(up);
    return th_admin(guest, &cmd, NULL);
}

void cm_assert_addr(const struct rnic_sockaddr *sa, const char *address,
                    uint16_t port)
{
    struct rnic_sockaddr expected = th_sockaddr(address, port);

    g_assert_cmpuint(sa->family, ==, expected.family);
    g_assert_cmpmem(sa->addr, 16, expected.addr, 16);
    if (port) {
        g_assert_cmpuint(sa->port, ==, expected.port);
    } else {
        g_assert_cmpuint(sa->port, !=, 0);
    }
}

struct rnic_aeqe cm_arrives(struct th_guest *server, uint32_t listener)
{
    struct rnic_aeqe event;

    th_event_wait(server, RNIC_EV_CONNECT_REQUEST, listener, &event);
    return event;
}
