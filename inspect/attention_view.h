/* What each token of a text attends to: the weights of every layer and head, as the one forward
 * pass computes them, as a picture, a page, numbers or a map in the terminal; and how spread out
 * they are, which --eval tells beside the perplexity of a model that was changed.
 *
 * The weights come through the AttentionObserver of attention.h; the bits of the logits stay as
 * they are. */
#ifndef ATTENTION_VIEW_H
#define ATTENTION_VIEW_H

#include "session.h"

/* --attention OUT: the session's prompt, into its output. By OUT's end an SVG (.svg), a page with a
 * choice of layer and head (.html), numbers (.json); "-" is a map in the terminal. */
Status attention_view_run(Session *session, Error *error);

/* The mean entropy of the weights, in nats, of everything that ran between begin and end. Sums are
 * exact, so threads change nothing. The model holds on to `*entropy` in between. */
typedef struct AttentionEntropy {
    AttentionObserver observer;
    int64_t sum, most; /* in 2^-32 nats: the entropies, and those of even weights */
    int64_t n;         /* queries times heads */
} AttentionEntropy;

void attention_entropy_begin(AttentionEntropy *entropy, Model *model);
void attention_entropy_end(AttentionEntropy *entropy, Model *model);
/* Means; 0 when nothing ran. */
double attention_entropy_mean(const AttentionEntropy *entropy);
double attention_entropy_most(const AttentionEntropy *entropy);

#endif
