/* Three ranks, threads of this process, that run a script of passes while what they send is
 * changed: for tests/fuzz_wire.c and tests/test_cluster.c. */
#ifndef TESTS_WIRE_CASES_H
#define TESTS_WIRE_CASES_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { WIRE_RANKS = 3, WIRE_CHANGE_BYTES = 6 };

/* What each rank said of what it received; empty: nothing. */
typedef struct WireErrors {
    Error of[WIRE_RANKS];
} WireErrors;

/* Runs the script with the changes of the input, as long as the ranks agree. The first byte chooses
 * the model; then every WIRE_CHANGE_BYTES bytes change 4 bytes of what a rank sends in an exchange.
 */
WireErrors wire_case_run(const uint8_t *data, size_t size);

/* change[WIRE_CHANGE_BYTES] = the change that writes a value of -128 to 127 at the offset, which is
 * a multiple of 4 below 1024, of what rank 0 sends in the exchange. */
void wire_case_write(uint8_t *change, size_t exchange, size_t offset, int value);

#endif
