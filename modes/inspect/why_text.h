/* --why for texts: the likeliest next token is the answer (why.h). */
#ifndef WHY_TEXT_H
#define WHY_TEXT_H

#include "session/session.h"

/* For --eval: every position of the session's prompt is asked, in windows of 512 tokens that each
 * begin like a text (convert/text_windows.h). `other` is the file of --against, whose vocabulary
 * and context the caller has compared with those of the session's model (score_run); `kv_type` is
 * the type of its cache. */
Status why_text_run(const Session *session, ModelFile *other, KvType kv_type, Error *error);

/* For one text that both models have continued: the position after ids[n], n > 0, where they part.
 * The caller has compared the vocabularies. */
Status why_text_parting(const Session *session, ModelFile *other, KvType kv_type,
                        const int32_t *ids, size_t n, Error *error);

#endif
