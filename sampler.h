/* Logits in, token out.
 *
 * In this order: what is allowed at all, logit bias, penalties, temperature, top-k, top-p, min-p
 * (transformers' order); then one draw. The same options, logits and position give the same token
 * on every machine, compiler and instruction set: exp is the project's own, sums run in index
 * order, and the random number is a function of (seed, sample, position), never of what was drawn
 * before. Ties go to the lowest index, in the greedy choice and at the edge of top-k and top-p
 * alike.
 *
 * No step sorts the vocabulary: the edge of top-k and top-p is found by its bits, eleven at a
 * time, so that a draw among 128,000 tokens takes well below a millisecond. */
#ifndef SAMPLER_H
#define SAMPLER_H

#include "base/status.h"
#include "core/numeric.h"

typedef struct LogitBias {
    int32_t token;
    float bias; /* finite; added to the token's logit */
} LogitBias;

typedef struct SamplerOptions {
    float temperature;        /* logits are divided by it; 0: the largest logit wins */
    uint32_t top_k;           /* only the k largest; 0: all */
    float top_p;              /* nucleus: the smallest set of tokens that sum to p; 1: all */
    float min_p;              /* only tokens of at least this times the largest probability */
    float repetition_penalty; /* of tokens in prompt and text (CTRL, arXiv 1909.05858); 1: none */
    float presence_penalty;   /* subtracted once for a token in the text (OpenAI's API); 0: none */
    float frequency_penalty;  /* subtracted for each time that the text holds the token */
    const LogitBias *bias;    /* [n_bias], borrowed */
    size_t n_bias;
    uint64_t seed;
    uint64_t sample; /* index of the text among the n that one request asks for */
    bool restricted; /* sampler_allow will be called */
} SamplerOptions;

/* Draws from the whole distribution: temperature 1, nothing cut, no penalty. */
SamplerOptions sampler_options_default(void);

typedef struct Sampler Sampler;

/* Creates a sampler for logits[vocab_size]. Fails when there is no memory or a bias names a token
 * that does not exist. */
Status sampler_new(Sampler **out, const SamplerOptions *options, size_t vocab_size,
                   const Numeric *numeric, Error *error);
void sampler_free(Sampler *sampler);

/* Tells the sampler the prompt's tokens, which the repetition penalty counts. */
void sampler_see_prompt(Sampler *sampler, const int32_t *tokens, size_t n);

/* For a `restricted` sampler: the next token is one of the set bits of allowed[] (token t is bit
 * t % 64 of word t / 64), which is borrowed and not empty. The others take no part, as if the
 * vocabulary did not have them. */
void sampler_allow(Sampler *sampler, const uint64_t *allowed);

/* Chooses the token at `position` and counts it for the penalties. Overwrites the logits, which
 * must be finite. */
int32_t sampler_next(Sampler *sampler, float *logits, uint64_t position);

/* What took a token out of a choice. */
typedef enum SamplerCut {
    SAMPLER_LEFT,        /* nothing: it could be drawn */
    SAMPLER_NOT_ALLOWED, /* sampler_allow */
    SAMPLER_BY_TOP_K,
    SAMPLER_BY_TOP_P,
    SAMPLER_BY_MIN_P
} SamplerCut;

/* How the last token was chosen, in the sampler's own numbers. A token's probability after a step
 * is its weight over the sum of that step, or 0 once it is cut. At temperature 0 nothing is drawn:
 * the weights, the sums and `random` are 0, and cuts tell what sampler_allow did. */
typedef struct SamplerRecord {
    float *logits;    /* [vocab_size] as the model gave them */
    float *penalized; /* [vocab_size] after logit bias and penalties */
    float *weights;   /* [vocab_size] exp((penalized - largest) / temperature); 0: not allowed */
    uint8_t *cuts;    /* [vocab_size] SamplerCut */
    size_t n_allowed;
    double sum, sum_top_k, sum_top_p, sum_min_p; /* of the weights that each step left */
    double random; /* sampler_random; the draw is the first token whose weight, added to those of
                    * the lower ids that are left, exceeds random * sum_min_p */
    int32_t chosen;
} SamplerRecord;

/* Allocates the arrays; sampler_record_free frees them in any case. */
Status sampler_record_new(SamplerRecord *record, size_t vocab_size, Error *error);
void sampler_record_free(SamplerRecord *record);

/* Has every later sampler_next fill *record, which is borrowed; NULL: none. The choice is the same
 * with and without it. */
void sampler_keep_record(Sampler *sampler, SamplerRecord *record);

/* Uniform in [0, 1), a function of its arguments alone: Philox4x32-10 (Salmon and others,
 * "Parallel random numbers: as easy as 1, 2, 3", 2011). */
double sampler_random(uint64_t seed, uint64_t sample, uint64_t position);

#endif
