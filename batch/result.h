/* What a batch says about a request: one JSON object a line.
 *
 * Ours: {"id", "text", "finish_reason", "prompt_tokens", "completion_tokens", "logprobs",
 * "system_fingerprint"}, with "choices" where several texts were asked for, and "line" and
 * "line_hash" where the request has no id. OpenAI's: the batch API's result object. A failed
 * line is an object with "error". docs/batch.md shows each. */
#ifndef RESULT_H
#define RESULT_H

#include "base/unicode.h"
#include "batch/request.h"

/* A token that was generated, or could have been, and the logarithm of its probability in the
 * model's own distribution (before bias, penalties, temperature and cuts). */
typedef struct TokenLogprob {
    int32_t token;
    float logprob;
} TokenLogprob;

/* One generated text. */
typedef struct Choice {
    Text text; /* bytes; UTF-8 unless the model generated something else */
    Finish finish;
    size_t n_tokens;        /* generated, without the token that ended the text */
    TokenLogprob *logprobs; /* [n_chances][1 + top_logprobs]: the token, then the likeliest */
    size_t n_logprobs, logprobs_capacity;
    /* With echo: [prompt tokens][1 + top_logprobs], the first not known; NULL otherwise. */
    TokenLogprob *prompt_logprobs;
} Choice;

void choice_free(Choice *choice);

/* The chances of the `top` likeliest of logits[vocab_size], ties to the lower id, into
 * chances[top]; returns log(sum(exp(logits))), so that any token's logprob is its logit minus
 * that. scratch[vocab_size]. The same bits on every machine. */
double result_logprobs(const Numeric *numeric, const float *logits, size_t vocab_size, size_t top,
                       TokenLogprob *logprobs, float *scratch);

typedef struct ResultMaker {
    const Tokenizer *tokenizer;
    const char *model;       /* what the model is called where the request does not say */
    const char *fingerprint; /* "fp_" and 16 digits */
} ResultMaker;

/* The line (freed by the caller, without a newline) that answers a request with
 * choices[n_prompts * n], those of one prompt together; NULL: no memory. */
char *result_line(const ResultMaker *maker, const Request *request, const Choice *choices);

/* The line of a request that failed. */
char *result_error_line(const ResultMaker *maker, const Request *request, const char *message);

/* What a line of an earlier run says. */
typedef struct ResultLine {
    RequestKey key;
    bool failed;
    char fingerprint[32];
} ResultLine;

Status result_read(const char *line, size_t length, ResultLine *out, Error *error);

/* Whether the line is a whole JSON object, but no result. */
bool result_is_another(const char *line, size_t length);

#endif
