/* A recorded answer as a Drafter: proposes what the record says, so that a text which the model
 * gives once more is verified many tokens a pass; and says where the model's choice leaves it.
 *
 * The record is bytes. They are tokenized again, and where the model spells them by other tokens
 * its own choice goes on: the record is tokenized anew from there. Where its bytes differ, the
 * Drafter is silent until the text comes back to something that the record says. */
#ifndef RECORDED_H
#define RECORDED_H

#include <stdbool.h>

#include "draft/drafter.h"
#include "tokenizer.h"

/* How a generation turns tokens into text (Generation.decoder). */
typedef struct RecordedDecoding {
    Tokenizer *tokenizer;
    unsigned flags;       /* TOKEN_DECODER_... */
    const int32_t *shown; /* [n_shown] special tokens that give text; borrowed */
    size_t n_shown;
    bool stops; /* stop strings may end the text: more than the record has may follow it */
} RecordedDecoding;

/* The first token that the model would not have chosen. */
typedef struct Divergence {
    bool found;
    size_t byte;      /* of the record: the first that differs */
    size_t shared;    /* bytes of the model's choice before it, which the record has as well */
    size_t token;     /* index in the generated text */
    int32_t expected; /* what the record has there, by its own tokenization; -1: its end */
    int32_t got;      /* the model's choice */
    float gap;        /* logit of the choice less that of the token expected; 0 if there is none */
} Divergence;

/* A Drafter for the text after a prompt of n_prompt tokens. Copies the record; drafter_free frees
 * both. NULL: no memory. */
Drafter *recorded_new(const RecordedDecoding *decoding, const char *record, size_t length,
                      size_t n_prompt);

/* Before a token is chosen after text[n] from these logits: remembers them while text and record
 * agree. False: no memory. */
bool recorded_look(Drafter *drafter, const int32_t *text, size_t n, const float *logits,
                   size_t vocab_size);

/* Afterwards: compares the choice with the record. `ends`: the token ended the text (and gave no
 * bytes of its own); ends_of[n_ends] are the tokens that do. */
void recorded_judge(Drafter *drafter, int32_t token, bool ends, const int32_t *ends_of,
                    size_t n_ends);

const Divergence *recorded_divergence(const Drafter *drafter);

#endif
