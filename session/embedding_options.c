#include "session/embedding_options.h"

#define FIELD(name) offsetof(EmbeddingOptions, name)

static const EmbeddingOptions unset;

static const OptionRow rows[] = {
    HEADING_ROW("Embeddings (docs/embeddings.md)"),
    TEXT_ROW(RARE, 0, "embed", "FILE", FIELD(embed),
             "embed each line; -: stdin; --embed-prompt NAME"),
    CHOICE_ROW(RARE, 0, "pooling", "auto|last|mean|cls", FIELD(pooling), NULL,
               "how hidden states are pooled [the model's]"),
    UINT_ROW(RARE, 0, "dimensions", FIELD(dimensions), 1, 1 << 20,
             "the first N; --embed-normalize, --embed-truncate"),
    CHOICE_ROW(RARE, 0, "embed-normalize", "auto|yes|no", FIELD(embed_normalize), NULL, NULL),
    TEXT_ROW(RARE, 0, "embed-prompt", "NAME", FIELD(embed_prompt), NULL),
    FLAG_ROW(RARE, 0, "embed-truncate", FIELD(embed_truncate), NULL),
    END_ROW,
};
const ModeOptions embedding_option_table = {rows, &unset, sizeof unset};

const EmbeddingOptions *embedding_options(const Options *options) {
    return options_of(options, &unset);
}

EmbeddingOptions *embedding_options_to_set(Options *options) {
    return options_to_set(options, &unset);
}
