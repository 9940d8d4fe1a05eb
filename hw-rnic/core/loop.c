/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The engine's event loop: one epoll descriptor that holds every socket, an
 * eventfd that other threads write, and a timerfd for the nearest timer
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include "device.h"
#include "netq.h"
#include "qp.h"

/* Bounds of one rnic_device_run() */
#define MAX_EVENTS 64
#define MAX_TIMERS 256
#define MAX_PASSES 8

struct rnic_loop {
    struct rnic_source wake_source;
    struct rnic_source timer_source;
    GSequence *timers;     /* struct rnic_timer, nearest first */
    uint64_t timer_set_ns; /* what the timerfd is set to; 0: nothing */
    uint64_t stopped_ns;   /* rnic_timers_stop() */
    /* What epoll returned and has not been served: see rnic_source_remove() */
    struct epoll_event events[MAX_EVENTS];
    int num_events;
    int next_event;
    bool more; /* the last run left work: no wake-up between */
    /* [any] The engine will look at dev->work before it sleeps */
    _Atomic bool awake;
};

/* ---- Sources ---- */

/*
 * A source that wants nothing stays in the set, edge triggered: a hang-up is
 * then reported once instead of for ever, and wanting something again cannot
 * fail for lack of memory.
 */
static uint32_t epoll_events(uint32_t events)
{
    return events ? events : (uint32_t)EPOLLET;
}

bool rnic_source_add(struct rnic_device *dev, struct rnic_source *source,
                     int fd, uint32_t events,
                     void (*ready)(struct rnic_source *, uint32_t))
{
    struct epoll_event event = {
        .events = epoll_events(events),
        .data.ptr = source,
    };

    source->fd = fd;
    source->events = events;
    source->ready = ready;
    source->dev = dev;
    source->added = epoll_ctl(dev->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
    if (!source->added) {
        rnic_trace(dev, device, "cannot watch descriptor %d: %s", fd,
                   strerror(errno));
    }
    return source->added;
}

void rnic_source_set(struct rnic_source *source, uint32_t events)
{
    struct epoll_event event = {
        .events = epoll_events(events),
        .data.ptr = source,
    };

    if (!source->added || source->events == events) {
        return;
    }
    source->events = events;
    if (epoll_ctl(source->dev->epoll_fd, EPOLL_CTL_MOD, source->fd, &event)) {
        rnic_trace(source->dev, device, "cannot watch descriptor %d: %s",
                   source->fd, strerror(errno));
    }
}

void rnic_source_remove(struct rnic_source *source)
{
    struct rnic_loop *loop;
    int i;

    if (!source->added) {
        return;
    }
    source->added = false;
    epoll_ctl(source->dev->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
    loop = source->dev->loop;
    for (i = loop->next_event; i < loop->num_events; i++) {
        if (loop->events[i].data.ptr == source) {
            loop->events[i].data.ptr = NULL;
        }
    }
}

/* ---- Timers ---- */

uint64_t rnic_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int timer_compare(gconstpointer a, gconstpointer b, gpointer opaque)
{
    const struct rnic_timer *x = a, *y = b;

    return x->deadline_ns < y->deadline_ns ? -1
                                           : x->deadline_ns > y->deadline_ns;
}

static struct rnic_timer *first_timer(struct rnic_loop *loop)
{
    GSequenceIter *iter = g_sequence_get_begin_iter(loop->timers);

    return g_sequence_iter_is_end(iter) ? NULL : g_sequence_get(iter);
}

static void set_timerfd(struct rnic_device *dev, uint64_t deadline_ns)
{
    struct itimerspec spec = {
        .it_value.tv_sec = deadline_ns / 1000000000,
        .it_value.tv_nsec = deadline_ns % 1000000000,
    };

    dev->loop->timer_set_ns = deadline_ns;
    timerfd_settime(dev->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

void rnic_timer_arm(struct rnic_device *dev, struct rnic_timer *timer,
                    uint64_t after_us, void (*expired)(struct rnic_timer *))
{
    struct rnic_loop *loop = dev->loop;

    rnic_timer_cancel(timer);
    timer->dev = dev;
    timer->expired = expired;
    timer->deadline_ns = rnic_now_ns() + after_us * 1000;
    timer->iter =
        g_sequence_insert_sorted(loop->timers, timer, timer_compare, NULL);
    /* Never set later than the nearest timer; a cancelled timer leaves it too
     * early, which costs one wake-up and no system call here */
    if (!loop->timer_set_ns || timer->deadline_ns < loop->timer_set_ns) {
        set_timerfd(dev, timer->deadline_ns);
    }
}

void rnic_timer_cancel(struct rnic_timer *timer)
{
    if (timer->deadline_ns) {
        g_sequence_remove(timer->iter);
        timer->iter = NULL;
        timer->deadline_ns = 0;
    }
}

static void timer_shift(gpointer timer, gpointer ns)
{
    ((struct rnic_timer *)timer)->deadline_ns += *(uint64_t *)ns;
}

void rnic_timers_stop(struct rnic_device *dev)
{
    dev->loop->stopped_ns = rnic_now_ns();
}

void rnic_timers_go_on(struct rnic_device *dev)
{
    uint64_t ns = rnic_now_ns() - dev->loop->stopped_ns;

    /* All by the same: their order stays. The timerfd is too early then. */
    g_sequence_foreach(dev->loop->timers, timer_shift, &ns);
}

static bool run_timers(struct rnic_device *dev)
{
    struct rnic_loop *loop = dev->loop;
    struct rnic_timer *timer = first_timer(loop);
    uint64_t now;
    unsigned count = 0;
    bool more;

    if (!timer) {
        return false;
    }
    now = rnic_now_ns();
    while (timer && timer->deadline_ns <= now && count++ < MAX_TIMERS) {
        rnic_timer_cancel(timer);
        timer->expired(timer);
        timer = first_timer(loop);
    }
    more = timer && timer->deadline_ns <= now;
    if (timer &&
        (!loop->timer_set_ns || timer->deadline_ns < loop->timer_set_ns)) {
        set_timerfd(dev, timer->deadline_ns);
    }
    return more;
}

static void timer_ready(struct rnic_source *source, uint32_t events)
{
    uint64_t expirations;

    if (read(source->fd, &expirations, sizeof(expirations)) > 0) {
        source->dev->loop->timer_set_ns = 0;
    }
}

/* ---- Waking ---- */

void rnic_loop_poke(struct rnic_device *dev)
{
    uint64_t one = 1;
    ssize_t written;

    /* Fails only when the counter is about to overflow: readable then too */
    do {
        written = write(dev->event_fd, &one, sizeof(one));
    } while (written < 0 && errno == EINTR);
}

void rnic_loop_wake(struct rnic_device *dev, uint32_t work)
{
    /*
     * Whoever made it non-zero writes, unless the engine runs. The engine
     * clears awake and then reads work, this thread sets work and then reads
     * awake: one of them sees what the other did.
     */
    if (atomic_fetch_or(&dev->work, work) == 0 &&
        !atomic_load(&dev->loop->awake)) {
        rnic_loop_poke(dev);
    }
}

/* The descriptor is watched edge triggered: each write is reported once, and
 * nobody needs to read it */
static void wake_ready(struct rnic_source *source, uint32_t events)
{
}

/* ---- The loop ---- */

static bool run_work(struct rnic_device *dev)
{
    uint32_t work;
    bool more = false;

    /* The load is cheap; and leave() looks again */
    if (!atomic_load_explicit(&dev->work, memory_order_relaxed)) {
        return false;
    }
    work = atomic_exchange(&dev->work, 0);
    if (work & RNIC_WORK_CTRL) {
        rnic_device_ctrl(dev);
    }
    if (work & RNIC_WORK_ADMIN && rnic_admin_run(dev)) {
        atomic_fetch_or(&dev->work, RNIC_WORK_ADMIN);
        more = true;
    }
    if (work & RNIC_WORK_DOORBELL) {
        rnic_uctx_run(dev);
    }
    return more;
}

static void run_events(struct rnic_device *dev, int count)
{
    struct rnic_loop *loop = dev->loop;

    loop->num_events = count;
    loop->next_event = 0;
    while (loop->next_event < loop->num_events) {
        struct epoll_event *event = &loop->events[loop->next_event++];
        struct rnic_source *source = event->data.ptr;
        uint32_t wanted;

        if (!source || !source->events) {
            continue;
        }
        wanted = source->events | EPOLLERR | EPOLLHUP;
        if (event->events & wanted) {
            source->ready(source, event->events & wanted);
        }
    }
    loop->num_events = 0;
}

/* All that is due once, but descriptors. True: more is due */
static bool run_due(struct rnic_device *dev)
{
    bool more = run_work(dev);

    more |= run_timers(dev);
    more |= rnic_qp_run_ready(dev);
    more |= rnic_netq_run(dev);
    return more;
}

/* From here on nobody needs to wake the engine. Who does not see it yet wakes it
 * in vain, so no order is needed. */
static void enter(struct rnic_device *dev)
{
    atomic_store_explicit(&dev->loop->awake, true, memory_order_relaxed);
}

/*
 * The engine is about to leave. @more: work is left. False: it may sleep, and
 * whoever has new work wakes it.
 */
static bool leave(struct rnic_device *dev, bool more)
{
    struct rnic_loop *loop = dev->loop;

    atomic_store(&loop->awake, false);
    loop->more = more || atomic_load(&dev->work);
    return loop->more;
}

bool rnic_device_run(rnic_device *dev)
{
    struct rnic_loop *loop = dev->loop;
    unsigned passes = 0;
    bool more;
    int count;

    if (dev->quiesced) {
        return false;
    }
    do {
        enter(dev);
        do {
            count = epoll_wait(dev->epoll_fd, loop->events, MAX_EVENTS, 0);
        } while (count < 0 && errno == EINTR);
        if (count > 0 && !loop->more) {
            rnic_stat_inc(dev, RNIC_STAT_wakeups);
        }
        run_events(dev, MAX(count, 0));
        more = run_due(dev) || count == MAX_EVENTS;
        /* What others asked for meanwhile costs no wake-up */
    } while (leave(dev, more) && !more && ++passes < MAX_PASSES);
    if (loop->more) {
        rnic_loop_poke(dev);
    }
    return loop->more;
}

void rnic_device_kick(rnic_device *dev, uint64_t offset, unsigned size)
{
    struct rnic_loop *loop = dev->loop;

    if (dev->quiesced) {
        rnic_device_doorbell(dev, offset, size);
        return;
    }
    if (!loop->more) {
        rnic_stat_inc(dev, RNIC_STAT_wakeups);
    }
    enter(dev);
    rnic_device_doorbell(dev, offset, size);
    if (leave(dev, run_due(dev))) {
        rnic_loop_poke(dev);
    }
}

int rnic_device_fd(rnic_device *dev)
{
    return dev->epoll_fd;
}

bool rnic_loop_init(struct rnic_device *dev, GError **error)
{
    struct rnic_loop *loop = g_new0(struct rnic_loop, 1);

    dev->loop = loop;
    loop->timers = g_sequence_new(NULL);
    dev->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    dev->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    dev->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (dev->epoll_fd < 0 || dev->event_fd < 0 || dev->timer_fd < 0 ||
        !rnic_source_add(dev, &loop->wake_source, dev->event_fd,
                         EPOLLIN | EPOLLET, wake_ready) ||
        !rnic_source_add(dev, &loop->timer_source, dev->timer_fd, EPOLLIN,
                         timer_ready)) {
        g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno),
                    "cannot make the device's event loop: %s", strerror(errno));
        rnic_loop_fini(dev);
        return false;
    }
    return true;
}

void rnic_loop_fini(struct rnic_device *dev)
{
    int *const fds[] = { &dev->timer_fd, &dev->event_fd, &dev->epoll_fd };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(fds); i++) {
        if (*fds[i] >= 0) {
            close(*fds[i]);
            *fds[i] = -1;
        }
    }
    g_sequence_free(dev->loop->timers);
    g_free(dev->loop);
    dev->loop = NULL;
}
