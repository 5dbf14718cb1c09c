/* The mode -m chat: a conversation in the terminal, or over pipes. */
#ifndef CHAT_H
#define CHAT_H

#include "base/sandbox.h"
#include "generation.h"

typedef struct Chat Chat;

/* Before rights are given up: the line editor, and a process for /save, /load and /edit. Adds the
 * directories that the conversation's file and the history need to `rules`. chat_free in any
 * case. */
Status chat_prepare(Chat **out, const Options *options, volatile sig_atomic_t *interrupted,
                    SandboxRules *rules, Error *error);
void chat_free(Chat *chat);

/* Talks until the user leaves. With -i TEXT it answers that and ends. */
Status chat_run(Chat *chat, Session *session, Error *error);

#endif
