/* llama.cpp's llama-bench, run beside bench for a report (`--beside DIR`). */
#ifndef MEASURE_REPORT_BESIDE_H
#define MEASURE_REPORT_BESIDE_H

#include <signal.h>

#include "base/status.h"

/* What one run of llama-bench measured. */
typedef struct PeerSpeed {
    char build[64];         /* "llama.cpp 1a2b3c4 (5678)" */
    double decode, prefill; /* tokens a second */
} PeerSpeed;

/* Whether DIR/llama-bench is a program; the Error names it. */
Status report_beside_check(const char *directory, Error *error);

/* Runs DIR/llama-bench once, after a run to warm up, on the GGUF file that `gguf` is open on: a
 * prompt of n_prompt tokens and n_decode new ones. Its shared libraries may lie in DIR. Ends it and
 * returns STATUS_INTERRUPTED when *interrupted is set. */
Status report_beside_run(const char *directory, int gguf, int n_threads, size_t n_prompt,
                         size_t n_decode, const volatile sig_atomic_t *interrupted,
                         PeerSpeed *speed, Error *error);

#endif
