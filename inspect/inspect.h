/* The modes that look at a model instead of running it. */
#ifndef INSPECT_H
#define INSPECT_H

#include "session.h"

/* --info: configuration, tensors, where the model came from, and what it needs to run. */
Status inspect_info(Session *session, Error *error);

/* --verify: checksums, and no weight that is not a number. */
Status inspect_verify(Session *session, Error *error);

/* --tokenize: the prompt's ids on one line. --detokenize: the text of the ids in the prompt. */
Status inspect_tokenize(Session *session, Error *error);
Status inspect_detokenize(Session *session, Error *error);

/* printf to the session's output, at most 2,047 bytes a call. For the modes of this folder. */
Status inspect_print(const Session *session, Error *error, const char *format, ...)
    PRINTF_LIKE(3, 4);

#endif
