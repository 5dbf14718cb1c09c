/* The command line of `run`. The options of one text stand in options.c, those of a mode in the
 * table that the mode's folder brings (mode.h); all set fields of one struct. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "generation.h"
#include "system/command_line.h"

#define VERBATIM_VERSION "0.1"

enum { OPTIONS_MOST_TABLES = 15 };

/* Choices, in the order in which --help names them. */
typedef enum TextMode { TEXT_GENERATE, TEXT_CHAT } TextMode;
typedef enum KvChoice { KV_CHOICE_AUTO, KV_CHOICE_F32, KV_CHOICE_F16, KV_CHOICE_Q8 } KvChoice;
typedef enum ScoreChoice { SCORE_NO, SCORE_TABLE, SCORE_JSON } ScoreChoice;
typedef enum LengthChoice { LENGTH_CUT, LENGTH_CLOSE } LengthChoice;
/* What JSON of a shape may look like (docs/shapes.md). */
typedef enum JsonOrder { JSON_ORDER_SCHEMA, JSON_ORDER_ANY } JsonOrder;
typedef enum JsonSpace { JSON_SPACE_LINE, JSON_SPACE_ANY } JsonSpace;
typedef enum ReasoningChoice { REASONING_AUTO, REASONING_ON, REASONING_OFF } ReasoningChoice;
typedef enum PoolingChoice {
    POOLING_CHOICE_AUTO,
    POOLING_CHOICE_LAST,
    POOLING_CHOICE_MEAN,
    POOLING_CHOICE_CLS
} PoolingChoice;
typedef enum NormalizeChoice { NORMALIZE_AUTO, NORMALIZE_YES, NORMALIZE_NO } NormalizeChoice;
typedef enum HelpChoice { HELP_NO, HELP_USUAL, HELP_ALL } HelpChoice;

/* What the command line says, for all modes. Texts are borrowed from argv; NULL: not given. */
typedef struct Options {
    const char *model; /* NULL: the one that comes with the program */

    /* The text. */
    TextMode mode;
    const char *system; /* prompt of a chat */
    const char *prompt, *prompt_file, *output;
    uint64_t n_tokens; /* new ones; 0: to the end of the context */
    bool echo, special, ignore_eos;
    OptionList stop;
    BosChoice bos;
    const char *tokenizer, *split_pattern;
    const char *family;   /* the page of a family that MODEL may be of */
    const char *families; /* NULL: not asked; "": all */

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
    const char *shape_test;

    /* The machine. */
    uint64_t n_threads, context, chunk; /* 0: default */
    uint64_t snapshots; /* percent of the memory (of a batch: --kv-memory) that they may hold */
    const char *draft;  /* who proposes tokens ahead: auto, none, or a list of names */
    const char *draft_model;
    uint64_t lookup; /* drafts at a time; unless given: lookup_default */
    const char *isa;
    KvChoice kv_type;      /* AUTO: as the model's weights ask for */
    OptionList lora;       /* adapters: NAME=PATH[:SCALE] */
    const char *type;      /* of the weights, where MODEL is converted first */
    const char *cache_dir; /* "none": conversions are made in memory */
    const char *cache_limit;

    /* Many requests at once. */
    const char *batch, *kv_memory;
    const char *check; /* recorded answers, which are compared with the model's */
    const char *receipt, *replay, *receipt_key;
    const char *check_session; /* --check of a conversation's file; proof_modes.c sets it */
    bool quiet;                /* --check and --replay print only what is not the same */
    bool batch_text, ordered, resume, retry_failed, strict;
    const char *csv_id; /* the column of a table that is the requests' id; NULL: none */
    bool csv;           /* the batch is a table: -i and -f are what its rows are filled into */
    bool csv_messages;  /* and -m chat was given */
    bool live;          /* a program waits for each result */
    const char *logits; /* the file that gets rows of logits */
    const char *shard;  /* the part of the requests to answer: I/N, slurm, mpi */
    bool merge;         /* the parts' results are to be joined */
    const char **parts; /* [n_parts] the words after --merge; the array is owned */
    size_t n_parts, parts_capacity;
    uint64_t max_concurrent; /* 0: as the memory allows */

    /* Embeddings. */
    const char *embed; /* the texts, one a line */
    PoolingChoice pooling;
    NormalizeChoice embed_normalize;
    uint64_t dimensions;      /* 0: all */
    const char *embed_prompt; /* its name; "": none */
    bool embed_truncate;

    /* Instead of generating. */
    bool info, layers, verify, tokenize, detokenize, render, list, cache_list, version, bug_report;
    const char *cache_clear; /* the conversion to delete; "": all */
    HelpChoice help;
    const char *eval, *eval_tasks, *against;
    uint64_t limit; /* tokens of --eval that are scored; 0: all */

    /* Seeing inside. */
    const char *attention; /* where the picture of --attention goes; "-": the terminal */
    const char *positions; /* where the picture or table of --positions goes; "-": the terminal */
    uint64_t layer, position; /* --layer looks at this place; only where given */
    ScoreChoice score;
    bool no_cache;
    bool why;            /* --against: which tensors win answers back */
    OptionList override; /* FIELD=VALUE of Config */

    /* The chat. */
    bool single_turn;          /* stdin, -i or -f is one message */
    const char *session;       /* the conversation's file */
    const char *chat_template; /* instead of the model's */
    ReasoningChoice reasoning;
    const char *reasoning_effort;
    uint64_t reasoning_budget; /* tokens; only where given */
    bool hide_reasoning;

    bool stats, no_sandbox;

    CommandLine line; /* as it was read, for options_given */
    const OptionRow *tables[OPTIONS_MOST_TABLES + 1];
} Options;

/* The options that only the full program has, not the core. */
typedef struct MoreOptions {
    const OptionRow *const
        *tables; /* NULL, or ends with NULL; between the core's and the one of --help */
    /* As CommandLine's. */
    void (*advise)(const CommandLine *line, const char *name, Error *error);
    Status (*look)(const CommandLine *line, const char *spelled, const char *value, Error *error);
} MoreOptions;

/* Reads argv; `more` may be NULL. STATUS_USAGE and an Error that says what to write instead when it
 * is wrong. */
Status options_parse(Options *options, const MoreOptions *more, int argc, char **argv,
                     Error *error);

/* Frees what options_parse has allocated, also after a failure. */
void options_free(Options *options);

/* True when the command line set `field`, a pointer to a field of `options`. */
bool options_given(const Options *options, const void *field);

/* Prints --help: the options that people use most or, with `all`, every one. `program` is the name
 * that it was called by; `docs`, which may be NULL, the directory of the documents. */
void options_print_help(FILE *out, const Options *options, const char *program, const char *docs,
                        bool all);

#endif
