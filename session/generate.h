/* The mode that continues one text, and what other modes take from it: the prompt's tokens and the
 * pass over them. */
#ifndef GENERATE_H
#define GENERATE_H

#include "draft/speculation.h"
#include "session/generation_options.h"

/* The session's prompt as ids, with what begins a text as --bos says; never empty. */
Status generate_prompt_ids(const Session *session, TokenList *ids, Error *error);

/* Runs n tokens of sequence 0 from kvcache_next on, in chunks; logits[vocab_size] are the
 * last one's. `drafter` (NULL: none) sees the rows. STATUS_INTERRUPTED between chunks when the user
 * asks to stop. */
Status generate_prefill(const Session *session, KvCache *cache, Drafter *drafter,
                        const int32_t *ids, size_t n, float *logits, Error *error);

/* The mode: continues the session's prompt into the session's output. */
Status generate_run(Session *session, Error *error);

#endif
