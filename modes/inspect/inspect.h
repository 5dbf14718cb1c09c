/* The modes that describe a model or convert text to ids and back, and compute nothing. */
#ifndef INSPECT_H
#define INSPECT_H

#include "session/session.h"

/* --info: prints, beside --json as JSON, the configuration, the metadata, the tensors by type, the
 * bytes of the KV cache, whether both fit into the free memory, and the instruction set and
 * threads that would run the model. */
Status inspect_info(Session *session, Error *error);

/* --verify: checks every checksum of the model file, and that no weight is NaN or infinite. */
Status inspect_verify(Session *session, Error *error);

/* --tokenize: prints the token ids of the prompt, beside -m chat of the conversation, on one line.
 * --detokenize: prints the text of the ids that the prompt lists. */
Status inspect_tokenize(Session *session, Error *error);
Status inspect_detokenize(Session *session, Error *error);

/* Prints how many parameters the tensors hold, in all and by type. Tensors that share their bytes,
 * as tied embeddings do, count once. */
Status inspect_tensors(const Session *session, Error *error);

/* printf to the session's output, at most 2,047 bytes a call. For the modes of this folder. */
Status inspect_print(const Session *session, Error *error, const char *format, ...)
    PRINTF_LIKE(3, 4);

#endif
