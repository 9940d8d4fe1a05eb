/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Between the device and its sockets: the test programs are linked so that
 * the device's send(), sendmsg(), recv() and recvmsg() come here (--wrap), and
 * everybody's connect().
 * Tests' own sockets use sendto() and recvfrom(), which do not.
 *
 *   RNIC_TEST_SLICING=whole|one|random[:SEED]
 *       how the octets of a raw peer reach the device: as many at a time as
 *       the test says (the default), each for itself, or in random cuts
 *   RNIC_TEST_SHORT_WRITES=random|SEED
 *       TCP takes random parts of what the device writes
 */
#ifndef TESTS_CORE_WIRE_IO_H
#define TESTS_CORE_WIRE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wire_slicing { WIRE_WHOLE, WIRE_ONE, WIRE_RANDOM };

enum wire_slicing wire_slicing(void);
/* How many of the next @left octets are to be written at once */
size_t wire_slice(size_t left);

/* Octets that the device took from all its sockets so far */
uint64_t wire_taken(void);
/* The same of one of its sockets, and the calls that returned some */
struct wire_reads {
    uint64_t calls, octets;
};
struct wire_reads wire_reads(int fd);
/* From now on each TCP connect(), the device's and the raw peer's, starts with
 * this sequence number; 0: the host's choice. False: this process may not. */
bool wire_initial_sequence(uint32_t sequence);
/* How often a write of the device was cut short */
uint64_t wire_short_writes(void);

#endif
