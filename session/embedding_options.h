/* What options say of embeddings (--embed, and requests of a batch). */
#ifndef EMBEDDING_OPTIONS_H
#define EMBEDDING_OPTIONS_H

#include "session/options.h"

typedef enum PoolingChoice {
    POOLING_CHOICE_AUTO,
    POOLING_CHOICE_LAST,
    POOLING_CHOICE_MEAN,
    POOLING_CHOICE_CLS
} PoolingChoice;
typedef enum NormalizeChoice { NORMALIZE_AUTO, NORMALIZE_YES, NORMALIZE_NO } NormalizeChoice;

typedef struct EmbeddingOptions {
    const char *embed; /* the texts, one a line */
    PoolingChoice pooling;
    NormalizeChoice embed_normalize;
    uint64_t dimensions;      /* 0: all */
    const char *embed_prompt; /* its name; "": none */
    bool embed_truncate;
} EmbeddingOptions;

extern const ModeOptions embedding_option_table;

/* The EmbeddingOptions among the command line's options. */
const EmbeddingOptions *embedding_options(const Options *options);
EmbeddingOptions *embedding_options_to_set(Options *options);

#endif
