/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this process holds of its host: to see that nothing is left behind
 */
#ifndef TESTS_CORE_USAGE_H
#define TESTS_CORE_USAGE_H

#include <stddef.h>

struct usage {
    unsigned files;
    unsigned mappings;
    unsigned threads;
    size_t heap; /* octets allocated */
};

struct usage usage_now(void);
/* Asserts that files and threads are as @before, that the heap is not more
 * than @heap octets larger, and that at most @mappings mappings came on top */
void usage_check(const struct usage *before, size_t heap, unsigned mappings);

#endif
