/* --why for texts: the likeliest next token is the answer (why.h). */
#ifndef WHY_TEXT_H
#define WHY_TEXT_H

#include "session/session.h"

/* For --eval: every position of the session's prompt is asked, in windows of 512 tokens that each
 * begin like a text (convert/text_windows.h). `other` is the file of --against. */
Status why_text_run(const Session *session, ModelFile *other, Error *error);

/* For one text that both models have continued: the position after ids[n], where they part. */
Status why_text_parting(const Session *session, ModelFile *other, const int32_t *ids, size_t n,
                        Error *error);

#endif
