/* One text being generated: what lies between a row of logits and the text that a reader sees.
 *
 * A Generation chooses tokens, turns them into text, and knows when the text ends: at a token
 * that ends it, at a stop string, or at its limit. Text that may still turn out to begin a
 * stop string, or that is not a whole character yet, is held back. Plain generation, chats and
 * batches all run on it:
 *
 *     generation_init(&g, &options, tokenizer, vocab_size, numeric, &error)
 *     generation_prompt(&g, ids, n)
 *     while (!g.finish) {
 *         ... logits of the last token by model_forward ...
 *         generation_next(&g, logits, position, &step, &error)
 *         write(step.text, step.length)
 *     }
 *     generation_free(&g)
 */
#ifndef GENERATION_H
#define GENERATION_H

#include "model.h"
#include "sampler.h"
#include "tokenizer.h"

typedef enum Finish {
    FINISH_NOT,   /* goes on */
    FINISH_EOS,   /* a token that ends the text, or nothing may follow by its rule */
    FINISH_STOP,  /* a stop string, which is not part of the text */
    FINISH_LENGTH /* max_tokens */
} Finish;

enum { GENERATION_MAX_EOS = 32, GENERATION_MAX_BIAS = 32 };

/* What a text must hold to (constraint/matcher.h): asked before each token, told of each. */
typedef struct TokenRule TokenRule;
struct TokenRule {
    /* Gives the bitset of the tokens that may come next (sampler_allow). Fails when none may. */
    Status (*allowed)(TokenRule *rule, const uint64_t **allowed, Error *error);
    /* Takes a token that does not end the text; *complete: nothing may follow it. */
    Status (*take)(TokenRule *rule, int32_t token, bool *complete, Error *error);
    /* Gives the bytes that end a text which has reached max_tokens; NULL: it is cut. */
    Status (*close)(TokenRule *rule, const char **bytes, size_t *length, Error *error);
    /* Proposes the tokens that very likely come next (draft/forced.h); returns how many. NULL:
     * nothing is known before allowed() is asked. */
    size_t (*forced)(TokenRule *rule, int32_t *ids, size_t most);
    /* How many of the drafts ids[n] may come next, one after the other; NULL with `forced`. */
    size_t (*allowed_drafts)(TokenRule *rule, const int32_t *ids, size_t n);
    void (*free)(TokenRule *rule);
};

static inline void token_rule_free(TokenRule *rule) {
    if (rule) rule->free(rule);
}

typedef struct GenerationOptions {
    SamplerOptions sampling;
    size_t max_tokens;     /* 0: no limit */
    unsigned decode_flags; /* TOKEN_DECODER_... */
    const int32_t *shown;  /* [n_shown] special tokens that give text all the same; borrowed */
    size_t n_shown;
    const char *const *stop;
    size_t n_stop;
    int32_t eos[GENERATION_MAX_EOS]; /* each ends the text */
    size_t n_eos;
    LogitBias bias[GENERATION_MAX_BIAS]; /* what sampling.bias points at */
    TokenRule *rule;                     /* NULL: any token; borrowed */
} GenerationOptions;

typedef struct Generation {
    GenerationOptions options;
    Sampler *sampler;
    TokenDecoder decoder;
    char *text; /* decoded; [0, given) is with the reader */
    size_t length, given, capacity;
    size_t n_tokens; /* generated, without the token that ended the text */
    Finish finish;
} Generation;

/* One token's outcome; the text is valid until the next call. */
typedef struct GenerationStep {
    int32_t token;
    const char *text; /* text that can be printed now, perhaps none */
    size_t length;
} GenerationStep;

/* Returns the options that the model's file recommends (its generation configuration), else the
 * defaults, and as end tokens all that the Config or the tokenizer (may be NULL) names. max_tokens
 * and the seed are 0. */
GenerationOptions generation_defaults(const ModelFile *file, const Tokenizer *tokenizer);

/* A random seed of 32 bits. Fails when the system gives none. */
Status generation_draw_seed(uint64_t *seed, Error *error);

/* Whether the token that begins a text is put before it; AUTO: as the model wants. */
typedef enum BosChoice { BOS_AUTO, BOS_NO, BOS_YES } BosChoice;

/* A prompt: a text that generation continues. */
typedef struct GenerationText {
    const char *text; /* [length], UTF-8 */
    size_t length;
    bool special; /* special tokens in it are recognized */
    BosChoice bos;
} GenerationText;

/* Appends the prompt's tokens to *ids; fails when there are none or more than the context has. An
 * empty text gives the token that begins one. */
Status generation_prompt_ids(const Model *model, const ModelFile *file, Tokenizer *tokenizer,
                             const GenerationText *prompt, TokenList *ids, Error *error);

Status generation_init(Generation *generation, const GenerationOptions *options,
                       const Tokenizer *tokenizer, size_t vocab_size, const Numeric *numeric,
                       Error *error);
void generation_free(Generation *generation);

/* Tells the sampler the prompt's tokens, which the repetition penalty counts. */
void generation_prompt(Generation *generation, const int32_t *ids, size_t n);

/* Chooses the token that stands at `position` from logits[vocab_size], which it overwrites,
 * and sets `finish` when the text ends. */
Status generation_next(Generation *generation, float *logits, size_t position, GenerationStep *step,
                       Error *error);

#endif
