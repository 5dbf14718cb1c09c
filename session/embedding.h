/* Embeddings: one vector for a text, pooled from the final states of its tokens.
 *
 * The model's metadata says how (formats/family/embedding_pooling.h), and options may say
 * otherwise. The sums are made in the order of the tokens, in double, and each element is rounded
 * once: the same bits whatever runs beside the text (docs/numerics.md). */
#ifndef SESSION_EMBEDDING_H
#define SESSION_EMBEDDING_H

#include "session/session.h"

typedef enum Pooling {
    POOLING_NONE, /* the model does not say */
    POOLING_LAST,
    POOLING_MEAN,
    POOLING_CLS, /* the first token */
    POOLING_MAX, /* of each element */
    POOLING_MEAN_SQRT_LEN,
    POOLING_WEIGHTED_MEAN, /* the n-th token weighs n */
    POOLINGS
} Pooling;

/* How the texts of a session are embedded. */
typedef struct EmbeddingSetting {
    Pooling pooling;
    bool includes_prompt; /* false: its tokens are not pooled */
    bool normalizes;
    uint32_t dim;            /* of a state */
    uint32_t dimensions;     /* of the result; the first ones of the state */
    size_t max_tokens;       /* of a text, with those that the tokenizer puts around it */
    bool truncates;          /* longer texts lose their end; else they are refused */
    const char *prompt_name; /* [name_length]; NULL: none */
    size_t name_length;
} EmbeddingSetting;

/* Reads the metadata and the command line. STATUS_USAGE where the options do not suit the model;
 * that the model does not say how it pools is not an error here. */
Status embedding_setting(const Session *session, EmbeddingSetting *setting, Error *error);

/* Sets the prompt's name; "" is none. Fails, and lists the names, where the model has no such
 * prompt. */
Status embedding_set_prompt(const Session *session, EmbeddingSetting *setting, const char *name,
                            Error *error);

/* Sets the number of dimensions, at most as many as a state has. */
Status embedding_set_dimensions(EmbeddingSetting *setting, uint64_t dimensions, Error *error);

/* Whether an empty text can be embedded: the tokenizer puts a token before or after every text. */
bool embedding_accepts_empty(const Session *session, const EmbeddingSetting *setting);

/* Appends the text's ids to *ids: what the tokenizer puts around a text, around the prompt and the
 * text; `first` is the first one that is pooled. The prompt and the text are encoded as one. */
Status embedding_encode(const Session *session, const EmbeddingSetting *setting, const char *text,
                        size_t length, TokenList *ids, size_t *first, Error *error);

/* Fails where the model does not say how its states are pooled, and no option does. */
Status embedding_check(const Session *session, const EmbeddingSetting *setting, Error *error);

/* Fails for a model without an output head: it cannot generate. */
Status embedding_refuse_text(const ModelFile *file, Error *error);

/* The pool of one text. Zero-initialize; embedding_pool_free frees. */
typedef struct EmbeddingPool {
    double *sums; /* [dim] */
    double weight;
    size_t n_states;
} EmbeddingPool;

/* The index of the first state that is pooled, of a text of n tokens of which those from `first` on
 * are. */
size_t embedding_first_state(const EmbeddingSetting *setting, size_t first, size_t n);

/* Adds state[dim] of the token at `position`; states come in order. false: no memory. */
bool embedding_pool_add(EmbeddingPool *pool, const EmbeddingSetting *setting, size_t position,
                        const float *state);

/* out[dimensions] = the embedding. */
void embedding_pool_result(const EmbeddingPool *pool, const EmbeddingSetting *setting, float *out);

void embedding_pool_free(EmbeddingPool *pool);

#endif
