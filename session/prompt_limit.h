/* Refuses texts that cannot fit into the context before they are encoded: encoding tens of
 * megabytes takes gigabytes and many seconds. */
#ifndef PROMPT_LIMIT_H
#define PROMPT_LIMIT_H

#include "session/session.h"

/* Fails for a text of more bytes than all positions of the context can stand for. */
Status prompt_limit_check(const Session *session, size_t length, Error *error);

#endif
