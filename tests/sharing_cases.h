/* Random extensions, truncations, forks, drafts, saves and loads of sequences in a KV cache, each
 * compared bit by bit with a new run of the same text. Every function fails the test (cmocka). */
#ifndef SHARING_CASES_H
#define SHARING_CASES_H

#include <stddef.h>
#include <stdint.h>

/* The model of a source (tiny_model.h) or of a fixture whose name begins with "fixture:", and
 * n_steps random steps with it, twice: with much memory and with little. */
void sharing_mix(const char *model, uint32_t seed, size_t n_steps);

#endif
