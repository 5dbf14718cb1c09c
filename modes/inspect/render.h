/* The prompt that a conversation becomes, as text and as token ids: --render, and --tokenize beside
 * -m chat.
 *
 * The conversation is the session's prompt: a list of messages or a request of a batch, both JSON,
 * or else what the user says. -y puts a system message before it. */
#ifndef RENDER_H
#define RENDER_H

#include "session/session.h"

/* Prints the prompt's text. */
Status render_run(Session *session, Error *error);

/* Appends the prompt's token ids to *ids. */
Status render_ids(const Session *session, TokenList *ids, Error *error);

#endif
