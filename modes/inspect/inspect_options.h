/* The options of the modes that look instead of generating. */
#ifndef INSPECT_OPTIONS_H
#define INSPECT_OPTIONS_H

#include "session/options.h"

typedef enum ScoreChoice { SCORE_NO, SCORE_TABLE, SCORE_JSON } ScoreChoice;

typedef enum InfoChoice { INFO_NO, INFO_USUAL, INFO_ALL } InfoChoice;

typedef struct InspectOptions {
    InfoChoice info;
    bool layers, verify, tokenize, detokenize, render, bug_report;
    const char *eval, *eval_tasks, *against;
    uint64_t limit;           /* tokens of --eval that are scored; 0: all */
    bool why;                 /* --against: which tensors win answers back */
    const char *attention;    /* where the picture of --attention goes; "-": the terminal */
    const char *positions;    /* where the picture or table of --positions goes; "-": terminal */
    uint64_t layer, position; /* --layer looks at this place; only where given */
    ScoreChoice score;
    uint64_t trace;  /* tokens of each choice that --trace lists; only where given */
    bool trace_json; /* --json beside --trace is the form of its output, no shape of the text */
    bool no_cache;
    const char *shape_test;
} InspectOptions;

extern const ModeOptions inspect_option_table, inspect_shape_test_option;

/* The InspectOptions among the command line's options. */
const InspectOptions *inspect_options(const Options *options);
InspectOptions *inspect_options_to_set(Options *options);

#endif
