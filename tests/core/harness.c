/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guests: memory, the device's host, engines
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "harness.h"

#define MAX_GUESTS 16

struct th_range {
    uint64_t start, len;
};

struct th_mapped {
    void *ptr;
    uint64_t len;
    enum rnic_dma_dir dir;
};

struct view {
    void *ptr;
    size_t len;
    uint64_t *pages;
};

static struct th_guest *guests[MAX_GUESTS];

/* ---- The device's host ---- */

static void *host_dma_map(void *opaque, uint64_t addr, uint64_t *len,
                          enum rnic_dma_dir dir)
{
    struct th_guest *guest = opaque;
    struct th_mapped mapped;
    uint64_t offset = addr - TH_BASE;
    uint64_t octets = *len;
    unsigned i;

    g_assert_cmpuint(octets, >, 0);
    if (guest->options.watch) {
        guest->options.watch(guest, true, addr, octets, dir);
    }
    if (addr < TH_BASE || offset >= guest->options.mem_size) {
        return NULL;
    }
    octets = MIN(octets, guest->options.mem_size - offset);
    if (!guest->options.whole_mappings) {
        octets = MIN(octets, TH_PAGE - offset % TH_PAGE);
    }
    for (i = 0; i < guest->holes->len; i++) {
        struct th_range hole = g_array_index(guest->holes, struct th_range, i);

        if (addr >= hole.start && addr - hole.start < hole.len) {
            return NULL;
        }
        if (hole.start > addr) {
            octets = MIN(octets, hole.start - addr);
        }
    }
    mapped = (struct th_mapped){ guest->mem + offset, octets, dir };
    g_array_append_val(guest->mapped, mapped);
    *len = octets;
    return mapped.ptr;
}

static void host_dma_unmap(void *opaque, void *ptr, uint64_t len,
                           enum rnic_dma_dir dir, uint64_t used)
{
    struct th_guest *guest = opaque;
    unsigned i;

    g_assert_cmpuint(used, <=, len);
    g_assert_true(dir != RNIC_DMA_FROM_GUEST || used == 0);
    for (i = 0; i < guest->mapped->len; i++) {
        struct th_mapped *mapped =
            &g_array_index(guest->mapped, struct th_mapped, i);

        if (mapped->ptr == ptr && mapped->len == len && mapped->dir == dir) {
            g_array_remove_index_fast(guest->mapped, i);
            if (guest->options.watch) {
                guest->options.watch(guest, false,
                                     TH_BASE + ((uint8_t *)ptr - guest->mem),
                                     len, dir);
            }
            return;
        }
    }
    g_error("unmapped what was not mapped so");
}

static void host_fence(void *opaque)
{
    struct th_guest *guest = opaque;

    atomic_thread_fence(memory_order_seq_cst);
    if (guest->options.fence) {
        guest->options.fence(guest);
    }
}

static void host_raise_irq(void *opaque, unsigned vector)
{
    struct th_guest *guest = opaque;

    g_assert_cmpuint(vector, <, guest->options.config.vectors);
    atomic_fetch_add(&guest->irqs[vector], 1);
}

/* All texts are made, so that sanitizers see every format */
static bool host_trace_enabled(void *opaque, enum rnic_trace_event event)
{
    return true;
}

static void host_trace(void *opaque, enum rnic_trace_event event,
                       const char *text)
{
    static const char *const names[] = {
#define TRACE_NAME(name, description) #name,
        RNIC_TRACE_EVENTS(TRACE_NAME)
#undef TRACE_NAME
    };
    struct th_guest *guest = opaque;

    g_assert_cmpuint(event, <, RNIC_TRACE_COUNT);
    g_mutex_lock(&guest->trace_lock);
    guest->trace_count[event]++;
    g_strlcpy(guest->trace_text[event], text, sizeof(guest->trace_text[0]));
    if (event == RNIC_TRACE_guest_error && guest->errors->len < TH_ERRORS) {
        g_ptr_array_add(guest->errors, g_strdup(text));
    }
    if (guest->look_for && strstr(text, guest->look_for)) {
        guest->found++;
    }
    if (getenv("RNIC_TEST_TRACE")) {
        fprintf(stderr, "# %02x %s: %s\n", guest->options.config.mac[5],
                names[event], text);
    }
    g_mutex_unlock(&guest->trace_lock);
}

static const struct rnic_host_ops host_ops = {
    .dma_map = host_dma_map,
    .dma_unmap = host_dma_unmap,
    .fence = host_fence,
    .raise_irq = host_raise_irq,
    .trace_enabled = host_trace_enabled,
    .trace = host_trace,
};

/* ---- Guests ---- */

/* A fabric id for this process alone: whoever binds the name has it */
static unsigned own_fabric_id(void)
{
    static int id = -1;
    int fd, i;

    if (id >= 0) {
        return id;
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    g_assert_cmpint(fd, >=, 0);
    /* The tests with VMs take theirs from 1 upwards */
    for (i = 0; i < 55; i++) {
        struct sockaddr_un name = { .sun_family = AF_UNIX };
        int candidate = 40 + (getpid() + i) % 55;
        int len = g_snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1,
                             "rnic-test-fabric-%d", candidate);

        if (bind(fd, (struct sockaddr *)&name,
                 offsetof(struct sockaddr_un, sun_path) + 1 + len) == 0) {
            id = candidate;
            return id;
        }
    }
    g_error("all fabric ids are taken by other tests");
}

void th_options_init(struct th_options *options)
{
    static const uint8_t mac[5] = { 0x52, 0x54, 0x00, 0x11, 0xea };
    static uint8_t last;

    memset(options, 0, sizeof(*options));
    rnic_config_init(&options->config);
    memcpy(options->config.mac, mac, sizeof(mac));
    options->config.mac[5] = ++last;
    options->config.vectors = 4;
    options->config.fabric_id = own_fabric_id();
    options->mem_size = 64 << 20;
}

struct th_guest *th_guest_new(const struct th_options *options)
{
    struct th_guest *guest = g_new0(struct th_guest, 1);
    GError *error = NULL;
    unsigned i;

    if (options) {
        guest->options = *options;
    } else {
        th_options_init(&guest->options);
    }
    guest->mem_fd = memfd_create("guest", MFD_CLOEXEC);
    g_assert_cmpint(ftruncate(guest->mem_fd, guest->options.mem_size), ==, 0);
    guest->mem = mmap(NULL, guest->options.mem_size, PROT_READ | PROT_WRITE,
                      MAP_SHARED, guest->mem_fd, 0);
    g_assert_true(guest->mem != MAP_FAILED);
    guest->holes = g_array_new(false, false, sizeof(struct th_range));
    guest->mapped = g_array_new(false, false, sizeof(struct th_mapped));
    guest->views = g_ptr_array_new_with_free_func(g_free);
    guest->objects = g_ptr_array_new_with_free_func(g_free);
    guest->errors = g_ptr_array_new_with_free_func(g_free);
    guest->completions = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    g_queue_init(&guest->events);
    g_mutex_init(&guest->trace_lock);
    guest->stop_fd = -1;

    guest->dev = rnic_device_new(
        &guest->options.config,
        guest->options.ops ? guest->options.ops : &host_ops, guest, &error);
    g_assert_no_error(error);
    g_assert_nonnull(guest->dev);
    for (i = 0; i < MAX_GUESTS && guests[i]; i++) {
    }
    g_assert_cmpuint(i, <, MAX_GUESTS);
    guests[i] = guest;
    return guest;
}

struct th_guest *th_guest_started(const struct th_options *options)
{
    struct th_guest *guest = th_guest_new(options);

    th_start(guest);
    return guest;
}

void th_guest_free(struct th_guest *guest)
{
    unsigned i;

    if (guest->thread) {
        th_engine_stop(guest);
    }
    for (i = 0; i < MAX_GUESTS; i++) {
        if (guests[i] == guest) {
            guests[i] = NULL;
        }
    }
    rnic_device_free(guest->dev);
    g_assert_cmpuint(guest->mapped->len, ==, 0);
    for (i = 0; i < guest->views->len; i++) {
        struct view *view = g_ptr_array_index(guest->views, i);

        munmap(view->ptr, view->len);
        g_free(view->pages);
    }
    g_ptr_array_unref(guest->views);
    g_ptr_array_unref(guest->objects);
    g_ptr_array_unref(guest->errors);
    munmap(guest->mem, guest->options.mem_size);
    close(guest->mem_fd);
    g_array_unref(guest->holes);
    g_array_unref(guest->mapped);
    g_hash_table_unref(guest->completions);
    g_queue_clear_full(&guest->events, g_free);
    g_mutex_clear(&guest->trace_lock);
    g_free(guest);
}

/* ---- Guest memory ---- */

uint64_t th_alloc(struct th_guest *guest, size_t size, size_t align)
{
    size_t at = (guest->mem_used + align - 1) / align * align;

    g_assert_cmpuint(at + size, <=, guest->options.mem_size);
    guest->mem_used = at + size;
    return TH_BASE + at;
}

void *th_ptr(struct th_guest *guest, uint64_t addr)
{
    g_assert_cmpuint(addr, >=, TH_BASE);
    g_assert_cmpuint(addr - TH_BASE, <, guest->options.mem_size);
    return guest->mem + (addr - TH_BASE);
}

void th_make_hole(struct th_guest *guest, uint64_t addr, uint64_t len)
{
    struct th_range hole = { addr, len };

    g_array_append_val(guest->holes, hole);
}

void th_fill_holes(struct th_guest *guest)
{
    g_array_set_size(guest->holes, 0);
}

/* A table over @count entries of the level below, @addrs; its address */
static uint64_t make_table(struct th_guest *guest, const uint64_t *addrs,
                           size_t count)
{
    uint64_t table = th_alloc(guest, TH_PAGE, TH_PAGE);
    uint64_t *entries = th_ptr(guest, table);
    size_t i;

    for (i = 0; i < count; i++) {
        entries[i] = GUINT64_TO_LE(addrs[i]);
    }
    return table;
}

static uint64_t make_tables(struct th_guest *guest, const uint64_t *pages,
                            size_t count, unsigned levels)
{
    uint64_t *below = g_memdup2(pages, count * sizeof(*pages));
    uint64_t root;
    size_t i;

    while (levels--) {
        size_t tables = (count + 511) / 512;

        for (i = 0; i < tables; i++) {
            below[i] =
                make_table(guest, below + i * 512, MIN(512, count - i * 512));
        }
        count = tables;
    }
    g_assert_cmpuint(count, ==, 1);
    root = below[0];
    g_free(below);
    return root;
}

struct th_buf th_buf_new(struct th_guest *guest, size_t len, unsigned levels,
                         uint32_t first_offset)
{
    struct th_buf buf = { .len = len };
    size_t count = (first_offset + len + TH_PAGE - 1) / TH_PAGE;
    struct view *view;
    size_t i;

    buf.desc.length = GUINT64_TO_LE(len);
    buf.desc.levels = levels;
    if (!levels) {
        g_assert_cmpuint(first_offset, ==, 0);
        buf.dma = th_alloc(guest, len, TH_PAGE);
        buf.ptr = th_ptr(guest, buf.dma);
        buf.desc.addr = GUINT64_TO_LE(buf.dma);
        return buf;
    }

    /* From the last page to the first, so no two follow each other */
    view = g_new0(struct view, 1);
    view->len = count * TH_PAGE;
    view->ptr =
        mmap(NULL, view->len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    g_assert_true(view->ptr != MAP_FAILED);
    g_ptr_array_add(guest->views, view);
    buf.pages = view->pages = g_new(uint64_t, count);
    for (i = count; i-- > 0;) {
        void *ptr;

        buf.pages[i] = th_alloc(guest, TH_PAGE, TH_PAGE);
        ptr = mmap((uint8_t *)view->ptr + i * TH_PAGE, TH_PAGE,
                   PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                   guest->mem_fd, buf.pages[i] - TH_BASE);
        g_assert_true(ptr != MAP_FAILED);
    }
    buf.ptr = (uint8_t *)view->ptr + first_offset;
    buf.desc.page_shift = 12;
    buf.desc.first_offset = GUINT32_TO_LE(first_offset);
    buf.desc.addr = GUINT64_TO_LE(make_tables(guest, buf.pages, count, levels));
    return buf;
}

static uint8_t filled(uint32_t seed, size_t i)
{
    return (uint8_t)((seed + i) * 2654435761u >> 21);
}

void th_fill(uint8_t *ptr, size_t len, uint32_t seed)
{
    size_t i;

    for (i = 0; i < len; i++) {
        ptr[i] = filled(seed, i);
    }
}

void th_check_filled(const uint8_t *ptr, size_t len, uint32_t seed)
{
    size_t i;

    for (i = 0; i < len; i++) {
        if (ptr[i] != filled(seed, i)) {
            g_error("octet %zu of %zu is 0x%02x, not 0x%02x", i, len, ptr[i],
                    filled(seed, i));
        }
    }
}

/* ---- The engine ---- */

uint64_t th_now_ms(void)
{
    return rnic_now_ns() / 1000000;
}

static void run_engine(struct th_guest *guest)
{
    rnic_device_run(guest->dev);
    /* Mappings are never held across a return to the event loop */
    g_assert_cmpuint(guest->mapped->len, ==, 0);
}

/* Whether an engine had work */
static bool step(int timeout_ms)
{
    struct pollfd fds[MAX_GUESTS];
    struct th_guest *running[MAX_GUESTS];
    bool threads = false;
    unsigned count = 0, i;

    for (i = 0; i < MAX_GUESTS; i++) {
        struct th_guest *guest = guests[i];

        if (guest && guest->thread) {
            threads = true;
        } else if (guest && !guest->dev->quiesced) {
            running[count] = guest;
            fds[count++] =
                (struct pollfd){ rnic_device_fd(guest->dev), POLLIN, 0 };
        }
    }
    /* What a thread does shows only in memory */
    if (poll(fds, count, threads ? 1 : timeout_ms) <= 0) {
        return false;
    }
    for (i = 0; i < count; i++) {
        if (fds[i].revents) {
            run_engine(running[i]);
        }
    }
    return true;
}

void th_step(int timeout_ms)
{
    step(timeout_ms);
}

/* Turns behind the time of th_run_for(): engines that always have more to do are
 * tested, too */
#define TURNS 200

void th_run_for(unsigned ms)
{
    uint64_t end = th_now_ms() + ms;
    unsigned turn;
    uint64_t now;

    while ((now = th_now_ms()) < end) {
        step(end - now);
    }
    /* A machine that is busy may have let the time pass without a turn */
    for (turn = 0; turn < TURNS && step(0); turn++) {
    }
}

void th_settle(struct th_guest *guest)
{
    uint64_t wakeups = th_stat(guest, RNIC_STAT_wakeups);

    th_run_for(20);
    g_assert_cmpuint(th_stat(guest, RNIC_STAT_wakeups) - wakeups, <, 1000);
}

void th_still_works(struct th_guest *guest)
{
    struct rnic_asqe nop = { .opcode = RNIC_CMD_NOP };

    g_assert_cmphex(th_reg(guest, RNIC_REG_STATUS), ==, RNIC_STATUS_READY);
    g_assert_cmpuint(th_admin(guest, &nop, NULL), ==, RNIC_ADMIN_OK);
}

static gpointer engine_thread(gpointer opaque)
{
    struct th_guest *guest = opaque;
    struct pollfd fds[2] = {
        { rnic_device_fd(guest->dev), POLLIN, 0 },
        { guest->stop_fd, POLLIN, 0 },
    };

    while (!fds[1].revents) {
        if (poll(fds, 2, -1) > 0 && fds[0].revents) {
            run_engine(guest);
        }
    }
    return NULL;
}

void th_engine_start(struct th_guest *guest)
{
    guest->stop_fd = eventfd(0, EFD_CLOEXEC);
    guest->thread = g_thread_new("engine", engine_thread, guest);
}

void th_engine_stop(struct th_guest *guest)
{
    eventfd_write(guest->stop_fd, 1);
    g_thread_join(guest->thread);
    guest->thread = NULL;
    close(guest->stop_fd);
    guest->stop_fd = -1;
}
