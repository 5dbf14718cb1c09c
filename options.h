/* The command line of `run`: one table in options.c ties an option's spelling, its value, its
 * limits, its field below and its line of --help together. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

#define VERBATIM_VERSION "0.1"

enum { OPTIONS_MAX_LIST = 32, OPTIONS_MAX_ROWS = 80 };

/* An option that may be repeated. */
typedef struct OptionList {
    const char *items[OPTIONS_MAX_LIST];
    size_t n;
} OptionList;

/* Texts are borrowed from argv; NULL: not given. Choices are the index in the order in which
 * --help names them. */
typedef struct Options {
    const char *model; /* NULL: the one that comes with the program */

    /* The text. */
    uint32_t mode;      /* 0: generate, 1: chat */
    const char *system; /* prompt of a chat */
    const char *prompt, *prompt_file, *output;
    uint64_t n_tokens; /* new ones; 0: to the end of the context */
    bool echo, special, ignore_eos;
    OptionList stop;
    uint32_t bos; /* 0: as the model wants, 1: no, 2: yes */
    const char *tokenizer;

    /* The choice of words. Those not given may come from the model: options_given. */
    double temperature, top_p, min_p;
    uint64_t top_k, seed;
    double repetition_penalty, presence_penalty, frequency_penalty;
    OptionList logit_bias;

    /* The machine. */
    uint64_t n_threads, context, chunk; /* 0: default */
    uint64_t lookup;                    /* unless given: lookup_default */
    const char *isa;
    uint32_t kv_type; /* 0: as the model's weights ask for, 1: f32, 2: f16, 3: q8 */
    const char *type; /* of the weights, where MODEL is converted first */
    const char *cache_dir;

    /* Many requests at once. */
    const char *batch, *kv_memory;
    bool batch_text, ordered, resume, retry_failed, strict;
    uint64_t max_concurrent; /* 0: as the memory allows */

    /* Instead of generating. */
    bool info, verify, tokenize, detokenize, cache_list, cache_clear, help, help_all, version;
    const char *eval, *against;

    /* Seeing inside. */
    const char *attention, *positions; /* where the picture goes; "-": the terminal */
    uint32_t score;                    /* 0: no, 1: a table, 2: JSON */
    bool no_cache;
    OptionList override; /* FIELD=VALUE of Config */

    /* The chat. */
    const char *session;       /* the conversation's file */
    const char *chat_template; /* instead of the model's */

    bool stats, no_sandbox;

    bool given[OPTIONS_MAX_ROWS]; /* rows of the table that the command line set */
} Options;

/* Reads argv. STATUS_USAGE and an Error that says what to write instead when it is wrong. */
Status options_parse(Options *options, int argc, char **argv, Error *error);

/* True when the command line set `field`, a pointer to a field of `options`. */
bool options_given(const Options *options, const void *field);

/* What --help prints: the options that people use most, or, with `all`, every one. `program` is
 * the name that it was called by. */
void options_print_help(FILE *out, const char *program, bool all);

/* Every option: its long name, its letter (0: none), and what stands for its value (NULL: none).
 * The tests hold the manual and the completions against it. */
void options_each(void (*visit)(const char *name, char letter, const char *value, void *context),
                  void *context);

#endif
