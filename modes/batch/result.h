/* The results of a batch: one JSON object a line.
 *
 * Results in the native form are {"id", "text", "finish_reason", "prompt_tokens",
 * "completion_tokens", "logprobs", "system_fingerprint"}, with "choices" when a request asks for
 * several texts, and with "line" and "line_hash" in place of the id when it has none. Requests in
 * OpenAI's batch form get that API's result object. The result of a failed request has "error".
 * docs/batch.md shows each. */
#ifndef RESULT_H
#define RESULT_H

#include "base/unicode.h"
#include "modes/batch/request.h"

/* A token, and its log-probability in the model's own distribution (before bias, penalties,
 * temperature, top-k, top-p and min-p). */
typedef struct TokenLogprob {
    int32_t token;
    float logprob;
} TokenLogprob;

/* One generated text. */
typedef struct Choice {
    TextBuffer text; /* not always UTF-8 */
    Finish finish;
    size_t n_tokens; /* generated, without the token that ended the text */
    int32_t *ids;    /* [n_tokens] */
    size_t ids_capacity;
    /* [n_logprobs][1 + top_logprobs]: for each generated token the token itself, then the likeliest
     * in its place. */
    TokenLogprob *logprobs;
    size_t n_logprobs, logprobs_capacity;
    /* With echo: the same for the prompt's tokens, [prompt length][1 + top_logprobs]; the first
     * rows before request->score_from are not used: nothing predicts the first token. NULL
     * otherwise. */
    TokenLogprob *prompt_logprobs;
    /* With return_logits: rows of --logits, of the prompt's tokens that are seen, then of the
     * generated ones. [n_logits_rows] */
    size_t *logits_rows, n_logits_rows, logits_capacity;
} Choice;

void choice_free(Choice *choice);

/* Fills logprobs[top] with the `top` likeliest tokens of logits[vocab_size], the likeliest first,
 * ties to the lower id. Returns log(sum(exp(logits))): the log-probability of any token is its
 * logit minus this. Overwrites scratch[vocab_size]. The same bits on every machine. */
double result_logprobs(const Numeric *numeric, const float *logits, size_t vocab_size, size_t top,
                       TokenLogprob *logprobs, float *scratch);

typedef struct ResultMaker {
    const Tokenizer *tokenizer;
    const char *model;           /* the model's name in results of requests that do not name one */
    const char *fingerprint;     /* "fp_" and 16 digits */
    const AnswerFormat *answers; /* of requests with messages; borrowed */
    bool hides_reasoning;
    bool tells_line; /* --live: every result has its request's "line" */
} ResultMaker;

/* Returns the result line of a request, without a newline, freed by the caller; NULL: no memory.
 * choices[n_prompts * n] holds the n texts of the first prompt, then those of the second, ... */
char *result_line(const ResultMaker *maker, const Request *request, const Choice *choices);

/* How much of a choice's text earlier chunks of its stream have told. */
typedef struct Streamed {
    size_t content, reasoning; /* bytes of the answer's parts */
    size_t n_logprobs;         /* tokens */
    size_t offset;             /* characters of a completion's text */
    bool begun, ended;
} Streamed;

/* Returns the next line of a request with "stream": what choices[index] has beyond its earlier
 * chunks. The caller frees it. NULL: nothing more is certain yet or, with *failed, no memory.
 * is_last: the line completes the stream. */
char *result_chunk_line(const ResultMaker *maker, const Request *request, const Choice *choices,
                        size_t index, Streamed *streamed, bool is_last, bool *failed);

/* Returns the line that ends a stream with its count of tokens (Request.tells_usage). */
char *result_usage_line(const ResultMaker *maker, const Request *request, const Choice *choices);

/* Returns the result line of a request with `control`: `json` has its fields, and is taken over. */
char *result_control_line(const ResultMaker *maker, const Request *request, json_t *json);

/* Returns the result line of a request that failed, likewise. */
char *result_error_line(const ResultMaker *maker, const Request *request, const char *message);

/* Sets "line" and "line_hash" of a request without an id. */
void result_put_line(json_t *json, const Request *request);

/* What --resume and --merge need to know of a result line. */
typedef struct ResultLine {
    RecordKey key;
    bool failed;
    bool numbered; /* it has a "line" */
    char fingerprint[32];
} ResultLine;

Status result_read(const char *line, size_t length, ResultLine *out, Error *error);

#endif
