/* Conversations that tests drive, and their comparison with fresh ones. */
#ifndef DIALOGUE_CASES_H
#define DIALOGUE_CASES_H

#include "chat/dialogue.h"
#include "tests/tiny_model.h"

/* Model and session, as run.c opens them. */
typedef struct Opened {
    TinyModel tiny;
    Options options;
    Output output;
    Session session;
    volatile sig_atomic_t interrupted;
} Opened;

/* Opens a model.bin, or "random:SHAPE". `chat_template` NULL means the model's own template, if it
 * has one. An answer has at most n_tokens. */
void opened_open(Opened *o, const char *model, const char *chat_template, uint32_t context,
                 size_t n_tokens);
void opened_close(Opened *o);

/* Each fails the test (cmocka) when it cannot do its work. */
Dialogue dialogue_of(Opened *o, const char *path);
AnswerStats dialogue_answered(Dialogue *d);
void dialogue_said(Dialogue *d, const char *text);
const char *dialogue_last(const Dialogue *d);

/* Expects cache and next logits to be those of a fresh conversation with the same messages, bit for
 * bit. The last message must be an answer. */
void dialogue_assert_as_fresh(Opened *o, Dialogue *d);

/* Runs a random mix of turns, /undo, /retry, /system, /reset, /save and /load, interruptions,
 * resumptions from the file (with its pages whole, damaged or missing) and overflows of the
 * context, and compares everything with a fresh conversation after each answer. `path` names a
 * conversation's file that does not exist yet. */
void dialogue_mix(Opened *o, const char *path, uint32_t seed, int steps);

#endif
