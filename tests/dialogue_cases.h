/* Conversations that tests drive, and their comparison with fresh ones. */
#ifndef DIALOGUE_CASES_H
#define DIALOGUE_CASES_H

#include "chat/dialogue.h"
#include "tests/tiny_model.h"

/* What run.c would have opened. */
typedef struct Opened {
    TinyModel tiny;
    Options options;
    Output output;
    Session session;
    volatile sig_atomic_t interrupted;
} Opened;

/* Opens a model.bin, or "random:SHAPE"; `chat_template` NULL: the model's own, or none. An answer
 * has at most n_tokens. */
void opened_open(Opened *o, const char *model, const char *chat_template, uint32_t context,
                 size_t n_tokens);
void opened_close(Opened *o);

/* Each fails on the spot (cmocka) where it cannot. */
Dialogue dialogue_of(Opened *o, const char *path);
AnswerStats dialogue_answered(Dialogue *d);
void dialogue_said(Dialogue *d, const char *text);
const char *dialogue_last(const Dialogue *d);

/* The cache holds, and the next logits are, what a fresh conversation with the same messages has,
 * bit for bit; its last message must be an answer. */
void dialogue_assert_as_fresh(Opened *o, Dialogue *d);

/* Any mix of turns, undoings, retries, system prompts, new beginnings, savings and loadings,
 * interruptions, resumptions from the file (with its pages whole, damaged or gone) and overflows;
 * after each answer everything is compared with a fresh conversation. `path` names a session's
 * file that is not there yet. */
void dialogue_mix(Opened *o, const char *path, uint32_t seed, int steps);

#endif
