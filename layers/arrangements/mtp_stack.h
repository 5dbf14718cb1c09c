/* The stack of prediction layers (mtp.h): their weights, and the forward pass of one of them. */
#ifndef LAYERS_ARRANGEMENTS_MTP_STACK_H
#define LAYERS_ARRANGEMENTS_MTP_STACK_H

#include "layers/arrangements/arrangements.h"

/* What a prediction layer has beside its layer. */
typedef struct MtpLayer {
    Norm embedding_norm, hidden_norm, final_norm; /* [dim] */
    Matrix projection;                            /* dim x 2 dim */
    Matrix embedding;                             /* vocab_size x dim */
    Linear output;                                /* vocab_size x dim */
} MtpLayer;

/* Weights.stack of the model that computes prediction layers. */
typedef struct MtpStack {
    MtpLayer layers[CONFIG_MAX_MTP_LAYERS];
    float *both;       /* [n][2 dim], rows that live for a pass: the projection's input */
    uint32_t first, n; /* layers [first, first + n) of the model are the prediction layers */
} MtpStack;

#endif
