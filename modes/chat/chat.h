/* The mode -m chat: a conversation in a terminal or over pipes. */
#ifndef CHAT_H
#define CHAT_H

#include "session/generation_options.h"
#include "system/sandbox.h"

typedef struct Chat Chat;

/* Called before the program gives up its rights: opens the conversation's file and the line editor,
 * and starts the process that writes to the file and does /save, /load and /edit (courier.h). Adds
 * to `rules` the directory of the history. The caller calls chat_free also after a failure. */
Status chat_prepare(Chat **out, const Options *options, volatile sig_atomic_t *interrupted,
                    SandboxRules *rules, Error *error);
void chat_free(Chat *chat);

/* Talks until the user leaves. With -i TEXT it answers that message only. */
Status chat_run(Chat *chat, Session *session, Error *error);

#endif
