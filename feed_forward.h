/* The feed-forward network of a block: down(activation(gate(x)) * up(x)), or without a gate. */
#ifndef FEED_FORWARD_H
#define FEED_FORWARD_H

#include "forward_pass.h"

/* Some rows of a call to feed_forwards, and the network that they go through. */
typedef struct FeedForwardRows {
    const FeedForward *network;
    size_t first, n;
} FeedForwardRows;

enum { FEED_FORWARD_PARTS = 64 }; /* the most of one call */

/* y[rows][dim] = feed-forwards of in[rows][dim], without the bias of their last projections. All
 * are equally wide; their rows follow each other. One list of work for gate and up, and one for
 * down. */
void feed_forwards(ForwardPass *pass, const FeedForwardRows *parts, size_t n_parts, const float *in,
                   float *y);

/* y[n][dim] = feed-forward of in[n][dim], without the bias of its last projection. */
void feed_forward(ForwardPass *pass, const FeedForward *network, size_t n, const float *in,
                  float *y);

#endif
