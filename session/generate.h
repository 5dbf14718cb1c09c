/* Continuing one text, and what other modes take from it: the prompt's tokens and the
 * pass over them. */
#ifndef GENERATE_H
#define GENERATE_H

#include "base/text.h"
#include "draft/speculation.h"
#include "session/generation_options.h"

/* The session's prompt as ids, with what begins a text as --bos says; never empty. */
Status generate_prompt_ids(const Session *session, TokenList *ids, Error *error);

/* Runs n tokens of sequence 0 from kvcache_next on, in chunks; logits[vocab_size] are the
 * last one's. `drafter` (NULL: none) sees the rows. STATUS_INTERRUPTED between chunks when the user
 * asks to stop. */
Status generate_prefill(const Session *session, KvCache *cache, Drafter *drafter,
                        const int32_t *ids, size_t n, float *logits, Error *error);

/* What an answer was when it was recorded: it is drafted from that. */
typedef struct GenerateRecord {
    const char *text; /* [length] */
    size_t length;
} GenerateRecord;

/* A text that was continued, whole. Zero-initialize; generated_text_free frees. */
typedef struct GeneratedText {
    TokenList prompt;
    TextBuffer text;
    GenerationOptions options; /* without a rule; stop strings are the session's */
    size_t n_tokens;
    Finish finish;
} GeneratedText;

void generated_text_free(GeneratedText *text);

/* Continues the session's prompt into the session's output. `record` NULL: drafts come
 * from what the session drafts with. *out (NULL: nobody asks) gets the text where the result is
 * STATUS_OK, and is to be freed in any case. */
Status generate_run(Session *session, const GenerateRecord *record, GeneratedText *out,
                    Error *error);

#endif
