/* The command line of `run`. Options has what all modes share; the options of a mode stand in a
 * struct and a table of its folder (ModeOptions), as modes/batch/batch_options.h does. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stddef.h>

#include "generation.h"
#include "system/command_line.h"

#define VERBATIM_VERSION "0.1"

enum { OPTIONS_MOST_TABLES = 20, OPTIONS_MODES_BYTES = 1024 };

/* Choices, in the order in which --help names them. */
typedef enum TextMode { TEXT_GENERATE, TEXT_CHAT } TextMode;
typedef enum KvChoice {
    KV_CHOICE_AUTO,
    KV_CHOICE_F32,
    KV_CHOICE_F16,
    KV_CHOICE_BF16,
    KV_CHOICE_Q8
} KvChoice;
typedef enum LengthChoice { LENGTH_CUT, LENGTH_CLOSE } LengthChoice;
/* What JSON of a shape may look like (docs/shapes.md). */
typedef enum JsonOrder { JSON_ORDER_SCHEMA, JSON_ORDER_ANY } JsonOrder;
typedef enum JsonSpace { JSON_SPACE_LINE, JSON_SPACE_ANY } JsonSpace;
typedef enum ReasoningChoice { REASONING_AUTO, REASONING_ON, REASONING_OFF } ReasoningChoice;
typedef enum HelpChoice { HELP_NO, HELP_USUAL, HELP_ALL } HelpChoice;

/* A table of options that set fields of a mode's struct. Tables of one struct share `defaults`. */
typedef struct ModeOptions {
    const OptionRow *rows;
    const void *defaults; /* the struct as it is unless options are given; NULL: Options */
    size_t size;          /* of the struct */
} ModeOptions;

/* What the command line says, for all modes. Texts are borrowed from argv; NULL: not given. */
typedef struct Options {
    const char *model; /* NULL: the one that comes with the program */

    /* The text. */
    TextMode mode;
    const char *system; /* prompt of a chat */
    const char *prompt, *prompt_file, *output;
    const char *batch; /* the file of requests */
    uint64_t n_tokens; /* new ones; 0: to the end of the context */
    bool echo, special, ignore_eos;
    OptionList stop;
    BosChoice bos;

    /* Sampling. Options that are not given may come from the model: options_given. */
    double temperature, top_p, min_p;
    uint64_t top_k, seed;
    double repetition_penalty, presence_penalty, frequency_penalty;
    OptionList logit_bias;

    /* The shape of the answer: a text, or @FILE. */
    const char *json_schema, *regex, *grammar;
    bool json_object;
    OptionList choice;
    JsonOrder json_order;
    JsonSpace json_space;
    LengthChoice on_length;

    /* Messages, of a chat or of requests. */
    const char *chat_template; /* instead of the model's */
    ReasoningChoice reasoning;
    const char *reasoning_effort;
    uint64_t reasoning_budget; /* tokens; only where given */
    bool hide_reasoning;

    /* The machine. */
    uint64_t n_threads, context, chunk; /* 0: default */
    uint64_t snapshots; /* percent of the memory (of a batch: --kv-memory) that they may hold */
    const char *draft;  /* who proposes tokens ahead: auto, none, or a list of names */
    const char *draft_model;
    uint64_t lookup; /* drafts at a time; unless given: lookup_default */
    const char *isa;
    KvChoice kv_type;    /* AUTO: as the model's weights ask for */
    OptionList lora;     /* adapters: NAME=PATH[:SCALE] */
    OptionList override; /* FIELD=VALUE of Config */
    bool stats, no_sandbox;

    bool version;
    HelpChoice help;

    /* Whether a mode takes the words that belong to no option, in place of a model: parts. NULL:
     * none does. */
    bool (*takes_words)(const struct Options *options);
    const char **parts; /* [n_parts] the words of --merge; the array is owned */
    size_t n_parts, parts_capacity;

    CommandLine line; /* as it was read, for options_given */
    OptionTable tables[OPTIONS_MOST_TABLES + 1];
    const void *modes[OPTIONS_MOST_TABLES]; /* the `defaults` of each table */
    size_t n_mode_bytes;                    /* of mode_values, which holds the structs of modes */
    _Alignas(max_align_t) char mode_values[OPTIONS_MODES_BYTES];
} Options;

/* The tables that modes bring. */
typedef struct MoreOptions {
    const ModeOptions *const
        *tables; /* NULL, or ends with NULL; between those of options.c and --help */
    /* As CommandLine's. */
    void (*advise)(const CommandLine *line, const char *name, Error *error);
    Status (*look)(const CommandLine *line, const char *spelled, const char *value, Error *error);
    bool (*takes_words)(const Options *options); /* as Options' */
} MoreOptions;

/* Tables of Options that --help shows among the modes' tables: --batch, --override, and
 * messages. */
extern const ModeOptions options_batch, options_override, options_chat, options_messages;

/* Reads argv; `more` may be NULL. STATUS_USAGE and an Error that says what to write instead when it
 * is wrong. */
Status options_parse(Options *options, const MoreOptions *more, int argc, char **argv,
                     Error *error);

/* Makes *copy what *options is: a struct that can be changed by itself, and be asked like the one
 * that was parsed. Texts and lists of words are shared with *options; only that is freed. */
void options_copy(Options *copy, const Options *options);

/* Frees what options_parse has allocated, also after a failure. */
void options_free(Options *options);

/* True when the command line set `field`, a pointer to a field of `options` or of a mode's struct.
 */
bool options_given(const Options *options, const void *field);

/* The struct of a mode whose unset values are *defaults: *defaults itself where options_parse read
 * no table of it. A mode wraps these in functions of its own (batch_options). */
const void *options_of(const Options *options, const void *defaults);
void *options_to_set(Options *options, const void *defaults);

/* Whether an option says something (command_line_asks), and its text (command_line_text): for the
 * options of a mode that may not be included, by their name. */
bool options_ask(const Options *options, const char *name);
bool options_ask_any(const Options *options, const char *const *names); /* ends with NULL */
const char *options_text(const Options *options, const char *name);

/* Prints --help: the options that people use most or, with `all`, every one. `program` is the name
 * that it was called by; `docs`, which may be NULL, the directory of the documents. */
void options_print_help(FILE *out, const Options *options, const char *program, const char *docs,
                        bool all);

#endif
