/* What `bench --report` is asked for. */
#ifndef MEASURE_REPORT_OPTIONS_H
#define MEASURE_REPORT_OPTIONS_H

#include <signal.h>

#include "base/status.h"
#include "system/command_line.h"

typedef struct ReportOptions {
    /* Where the JSON goes: a file that is not there yet; "-", the standard output, which then has
     * nothing else; NULL, the standard output, as one line after the text. */
    const char *path;
    uint64_t n_threads;       /* 0: the physical cores */
    const OptionList *beside; /* folders with llama.cpp's llama-bench */
    bool quick;               /* a small model and fewer sums: the speeds mean nothing */
    const volatile sig_atomic_t *interrupted;
} ReportOptions;

#endif
