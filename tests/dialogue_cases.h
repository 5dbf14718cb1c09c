/* Drives conversations for the tests and compares them with fresh conversations. */
#ifndef DIALOGUE_CASES_H
#define DIALOGUE_CASES_H

#include "modes/chat/dialogue.h"
#include "tests/tiny_model.h"

/* A model and its session, opened the way run.c opens them. */
typedef struct Opened {
    TinyModel tiny;
    Options options;
    Output output;
    Session session;
    volatile sig_atomic_t interrupted;
} Opened;

/* Opens a model.bin, or generates the model of "random:SHAPE". `chat_template` NULL means the
 * model's own template, if it has one. Answers are limited to n_tokens. */
void opened_open(Opened *o, const char *model, const char *chat_template, uint32_t context,
                 size_t n_tokens);
void opened_close(Opened *o);

/* Opens the conversation in the file `path`; an answer's reasoning has at most 4 tokens. This and
 * the functions below fail the test (cmocka) when they cannot do their work. */
Dialogue dialogue_of(Opened *o, const char *path);
AnswerStats dialogue_answered(Dialogue *d);
void dialogue_said(Dialogue *d, const char *text);
const char *dialogue_last(const Dialogue *d);

/* Fails the test unless the KV cache and the next logits are, bit for bit, those of a fresh
 * conversation with the same messages. The last message must be an answer. */
void dialogue_assert_as_fresh(Opened *o, Dialogue *d);

/* Runs a random mix of turns, /undo, /retry, /system, /reset, /save and /load, interrupted answers,
 * reopening from the file (with its KV cache pages whole, damaged or missing) and context
 * overflows; after each answer, compares everything with a fresh conversation. `path` names a
 * conversation file that does not exist yet. */
void dialogue_mix(Opened *o, const char *path, uint32_t seed, int steps);

#endif
