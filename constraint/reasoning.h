/* A limit to how long a model thinks: after so many tokens the end of its reasoning is forced.
 *
 * The rule reads the tokens of an answer. Reasoning begins with the prompt or with the first text
 * of the answer, and ends with its closing mark. When it has taken `most` tokens, the tokens of
 * `closing` come next, whatever the model would choose; a character that has begun is completed
 * first. Before and after, another rule may hold the answer; where that one forbids the end of a
 * reasoning, there is no limit. */
#ifndef CONSTRAINT_REASONING_H
#define CONSTRAINT_REASONING_H

#include "generation.h"

typedef struct ReasoningLimit {
    const char *open;    /* the mark before reasoning; borrowed until the rule is made */
    const char *close;   /* the mark after it; borrowed likewise */
    const char *reopen;  /* what begins more of it after its end; NULL: nothing does */
    const char *closing; /* what is forced; it holds `close` */
    bool opened;         /* the prompt has begun the reasoning */
    size_t most;         /* tokens; 0: it ends at once */
} ReasoningLimit;

/* Makes the rule of one text of a model of vocab_size tokens. It owns `inner` (NULL: none), also
 * when it fails. The tokenizer is borrowed. token_rule_free frees it. */
Status reasoning_rule_new(TokenRule **out, const ReasoningLimit *limit, Tokenizer *tokenizer,
                          size_t vocab_size, TokenRule *inner, Error *error);

#endif
