/* What options say of a file of requests (--batch, --merge). A new one takes a field here and a row
 * in batch_options.c. The file itself, options->batch, is known to all modes. */
#ifndef BATCH_OPTIONS_H
#define BATCH_OPTIONS_H

#include "session/options.h"

typedef struct BatchOptions {
    bool batch_text, ordered, resume, retry_failed, strict;
    const char *csv_id; /* the column of a table that is the requests' id; NULL: none */
    bool csv;           /* the batch is a table: -i and -f are what its rows are filled into */
    bool csv_messages;  /* and -m chat was given */
    bool live;          /* a program waits for each result */
    const char *logits; /* the file that gets rows of logits */
    const char *shard;  /* the part of the requests to answer: I/N, slurm, mpi */
    bool merge;         /* the parts' results are to be joined: options->parts */
    const char *kv_memory;
    uint64_t max_concurrent; /* 0: as the memory allows */
} BatchOptions;

extern const ModeOptions batch_option_table;

/* MoreOptions.takes_words: with --merge the words that belong to no option are parts. */
bool batch_takes_words(const Options *options);

/* The BatchOptions among the command line's options. */
const BatchOptions *batch_options(const Options *options);
BatchOptions *batch_options_to_set(Options *options);

#endif
