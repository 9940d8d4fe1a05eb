/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the connection manager's files share: cm.c (connections, events,
 * addresses), cm-listen.c (listeners), cm-connect.c (the initiator),
 * cm-accept.c (the responder), cm-startup.c (the MPA startup frames)
 */
#ifndef RNIC_CM_PRIVATE_H
#define RNIC_CM_PRIVATE_H

#include "cm.h"
#include "net/addr.h"
#include "net/diag.h"
#include "qp.h"
#include "wire/mpa-negotiate.h"

/* Most connections of peers that have not sent a whole MPA Request, or whose
 * Request was rejected and that have not closed yet */
#define RNIC_CONN_WAITING_MAX 256
/*
 * A FIN that is there when the peer looks at the Reply can cost it the private
 * data: Linux's siw reports the end of the connection, which its socket tells
 * it first. A peer that is rejected closes, so the device's FIN waits for the
 * peer's, and for no longer than this.
 */
#define RNIC_CONN_REJECTED_US 2000000

struct rnic_cm {
    struct rnic_device *dev;
    bool link_up;
    int diag_fd; /* net/diag.h; < 0: not available */
    struct rnic_listener *listeners[RNIC_MAX_LISTEN];
    GQueue conns;         /* struct rnic_cm_conn, in every state */
    GQueue half_open;     /* those in AWAIT_REQUEST, the oldest first */
    GQueue rejected;      /* those in REJECTED, the oldest first */
    GHashTable *requests; /* conn_id -> responder not yet answered */
    uint32_t next_conn_id;
};

enum rnic_conn_state {
    /* Initiator */
    CONN_FAILING,    /* the timer reports status */
    CONN_CONNECTING, /* TCP */
    CONN_AWAIT_REPLY,
    /* Responder */
    CONN_AWAIT_REQUEST,
    CONN_REQUESTED, /* the guest has to ACCEPT or REJECT */
    CONN_GONE,      /* as REQUESTED, but the peer left */
    CONN_REJECTED,  /* the peer has the Reply, and closes first */
    /* Both */
    CONN_UP, /* the stream is the QP's */
};

/* What a connection needs until it is up: bounded, two frames */
struct rnic_conn_setup {
    uint8_t in[RNIC_MPA_FRAME_MAX];
    size_t in_len;
    uint8_t pdata[RNIC_MPA_PD_MAX]; /* initiator: the guest's */
    uint16_t pdata_len;
    struct rnic_mpa_config mpa;
    struct rnic_mpa_frame request; /* its ulp_data points into in or pdata */
};

struct rnic_cm_conn {
    struct rnic_device *dev;
    GList link; /* in cm->conns */
    /* AWAIT_REQUEST: in cm->half_open; REJECTED: in cm->rejected */
    GList waiting_link;
    enum rnic_conn_state state;
    bool initiator;
    bool in_fabric;  /* inside a loopback fabric */
    bool reported;   /* CONNECT_REPLY or ESTABLISHED is written */
    uint16_t status; /* FAILING: enum rnic_cm_status */
    /* rnic_qp_connected() is running; what rnic_cm_closed() said meanwhile */
    bool handing_over, ended, ended_by_peer;
    enum rnic_cm_status ended_why;

    struct rnic_qp *qp;             /* NULL: responder before ACCEPT */
    struct rnic_listener *listener; /* responder before its answer */
    uint32_t conn_id;
    struct rnic_sockaddr local, remote; /* the guest's view */
    struct rnic_stream *stream;         /* NULL: none, or the QP's */
    struct rnic_timer timer;
    struct rnic_conn_setup *setup; /* NULL from UP on */
    uint16_t ird, ord;             /* UP: agreed */
    bool await_rtr;                /* UP, responder: ESTABLISHED waits for it */
    unsigned nudges;               /* UP, initiator */
};

struct rnic_listener {
    struct rnic_device *dev;
    uint32_t id;
    unsigned backlog;
    bool v6only;
    bool any;                   /* every address of the device */
    struct rnic_sockaddr local; /* as asked for, with the port in use */
    unsigned pending;           /* requests that count for the backlog */
    GPtrArray *sockets;         /* of struct listen_socket */
    struct rnic_timer retry;    /* accepting pauses: no resources */
    bool starved;
};

/* ---- cm.c ---- */

/* A connection in @state with its setup; NULL: too many connections */
struct rnic_cm_conn *rnic_conn_new(struct rnic_device *dev,
                                   enum rnic_conn_state state, bool initiator);
/* Frees it; closes the stream at once if it still has one; makes no events */
void rnic_conn_free(struct rnic_cm_conn *conn);
/* Fills in type, id, addresses, ird and ord from @conn */
void rnic_conn_event(struct rnic_cm_conn *conn, enum rnic_event_type type,
                     enum rnic_cm_status status, const uint8_t *pdata,
                     size_t pdata_len);
/*
 * An attempt of an initiator ends: closes the stream (@graceful or not), moves
 * the QP to ERROR, writes CONNECT_REPLY with @status and private data, frees.
 */
void rnic_conn_fail(struct rnic_cm_conn *conn, enum rnic_cm_status status,
                    bool graceful, const uint8_t *pdata, size_t pdata_len);
/* Gives the stream to the QP and writes what is due */
void rnic_conn_up(struct rnic_cm_conn *conn,
                  const struct rnic_mpa_params *agreed);
/* In words; for errors of the host */
const char *rnic_cm_errno_str(int err);
const char *rnic_cm_status_str(enum rnic_cm_status status);
/* The socket's own port, as the local one of @conn and its stream */
void rnic_conn_read_local_port(struct rnic_cm_conn *conn, int fd);

/* ---- cm-startup.c ---- */

/* This end's part of the negotiation; @ird, @ord: what the ULP asked for */
void rnic_conn_mpa_config(struct rnic_cm_conn *conn, uint16_t ird,
                          uint16_t ord);
enum rnic_frame_result {
    RNIC_FRAME_DONE,   /* *@frame is valid while setup is */
    RNIC_FRAME_MORE,   /* wait for octets */
    RNIC_FRAME_CLOSED, /* the peer closed or TCP failed */
    RNIC_FRAME_BAD,    /* not a frame that this end can take */
};
/* Reads what is there of the peer's frame, and nothing behind it */
enum rnic_frame_result rnic_conn_read_frame(struct rnic_cm_conn *conn,
                                            struct rnic_mpa_frame *frame,
                                            int *err);
/* Sends @frame in one write. 0, or -errno; a socket that does not take it whole
 * is -ENOBUFS: it is the first thing that is sent. */
int rnic_conn_send_frame(struct rnic_cm_conn *conn,
                         const struct rnic_mpa_frame *frame);
/* Sends the Terminate of a failed setup as the first FPDU */
void rnic_conn_send_terminate(struct rnic_cm_conn *conn,
                              enum rnic_mpa_status status, bool crc);

/* ---- cm-listen.c ---- */
void rnic_listener_free(struct rnic_listener *listener);
/* @addr came, or the link: binds it for every listener that wants it */
void rnic_listeners_bind(struct rnic_device *dev, struct rnic_addr *addr);
/* @addr goes; NULL: all sockets end */
void rnic_listeners_unbind(struct rnic_device *dev,
                           const struct rnic_addr *addr);
/* Whether a socket of this device listens at @host, port included */
bool rnic_listeners_have(struct rnic_device *dev,
                         const struct rnic_sockaddr *host);
/* The guest is told of the request of @conn, which counts for the backlog */
void rnic_listener_request(struct rnic_cm_conn *conn);
/* A connection does not count any more: accepting may go on */
void rnic_listener_release(struct rnic_cm_conn *conn);
/* As many requests as the backlog wait for the guest's answer */
bool rnic_listener_full(const struct rnic_listener *listener);

/* ---- cm-accept.c ---- */
/* Takes over an accepted socket */
void rnic_conn_accepted(struct rnic_listener *listener, int fd,
                        const struct rnic_addr *local,
                        const struct rnic_sockaddr *peer_host);
/* The peer of a responder that the guest was not told of, or did not answer
 * yet, is gone, or must go */
void rnic_conn_drop(struct rnic_cm_conn *conn, const char *why);
/* FIN, without waiting any longer for the peer's */
void rnic_conn_end_rejected(struct rnic_cm_conn *conn);

#endif
