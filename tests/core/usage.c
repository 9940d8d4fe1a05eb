/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "usage.h"

#include <glib.h>
#include <malloc.h>
#include <stdio.h>

/* GCC's word for it, and clang's */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifdef SANITIZED
/* GCC installs no header for it */
size_t __sanitizer_get_current_allocated_bytes(void);
#endif

static unsigned entries(const char *folder)
{
    GDir *dir = g_dir_open(folder, 0, NULL);
    unsigned count = 0;

    g_assert_nonnull(dir);
    while (g_dir_read_name(dir)) {
        count++;
    }
    g_dir_close(dir);
    return count;
}

static unsigned lines(const char *path)
{
    FILE *file = fopen(path, "re");
    unsigned count = 0;
    int c;

    g_assert_nonnull(file);
    while ((c = getc(file)) != EOF) {
        count += c == '\n';
    }
    fclose(file);
    return count;
}

struct usage usage_now(void)
{
    struct usage usage;

    usage.files = entries("/proc/self/fd");
    usage.threads = entries("/proc/self/task");
    usage.mappings = lines("/proc/self/maps");
#ifdef SANITIZED
    usage.heap = __sanitizer_get_current_allocated_bytes();
#else
    usage.heap = mallinfo2().uordblks + mallinfo2().hblkhd;
#endif
    return usage;
}

void usage_check(const struct usage *before, size_t heap, unsigned mappings)
{
    struct usage now = usage_now();

    g_assert_cmpuint(now.files, ==, before->files);
    g_assert_cmpuint(now.threads, ==, before->threads);
    g_assert_cmpuint(now.heap, <=, before->heap + heap);
    g_assert_cmpuint(now.mappings, <=, before->mappings + mappings);
}
