/* The token ids of a request's prompts, and cutting those that are too long
 * ("truncate_prompt_tokens", as vLLM has it). */
#ifndef REQUEST_PROMPT_H
#define REQUEST_PROMPT_H

#include <jansson.h>

#include "session/session.h"

typedef struct PromptCut {
    bool asked;
    json_int_t most; /* tokens to keep, the last ones; -1: as many as leave room for the answer */
    size_t beyond;   /* tokens by which a prompt may exceed the context; SIZE_MAX: any number */
    size_t dropped;  /* tokens, of all prompts so far */
} PromptCut;

/* Appends the ids of text[length] to *ids, which is empty, as `run` encodes it. What the tokenizer
 * puts before a text stays before a text that is cut. */
Status request_prompt_text(const Session *session, const char *text, size_t length, PromptCut *cut,
                           TokenList *ids, Error *error);

/* As request_prompt_text, for a request's "prompt": a text or a list of ids. */
Status request_prompt_json(const Session *session, const json_t *prompt, PromptCut *cut,
                           TokenList *ids, Error *error);

/* Keeps the first `prefix` ids and the last of the others, and fails for a prompt that does not fit
 * into the context (and cut->beyond) then; `what` is its subject: "the messages are". */
Status request_prompt_cut(const Session *session, PromptCut *cut, size_t prefix, const char *what,
                          TokenList *ids, Error *error);

/* How many ids the tokenizer puts before a text. */
Status request_prompt_prefix(const Session *session, BosChoice bos, size_t *n, Error *error);

#endif
