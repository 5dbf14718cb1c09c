/* What the callers of the forward pass (model.h), the pass itself and the kinds of layers share. */
#ifndef MODEL_ROW_H
#define MODEL_ROW_H

#include "kernels/kernels.h"

typedef struct Model Model;

/* One token at one position of one sequence. */
typedef struct Row {
    int32_t sequence;
    int32_t position;
    int32_t token;
    bool wants_logits;
} Row;

/* Where the time of a forward pass goes. */
typedef enum ModelPart {
    PART_PROJECTIONS,  /* queries, keys, values, output */
    PART_ATTENTION,    /* with RoPE and the writing of the cache */
    PART_FEED_FORWARD, /* or the mixture of experts */
    PART_OUTPUT,       /* the final norm and the output head */
    PART_REST,         /* embeddings, norms, sums */
    MODEL_PARTS
} ModelPart;

/* Is asked before each part of a pass: some of its layers, or all where they take little time. */
typedef struct PassControl PassControl;
struct PassControl {
    double part_work; /* a pass of more multiply-adds is run in parts of about so many */
    /* Returns how many threads run the part, 1 to `most`: speed depends on it, no result does. 0
     * ends the pass, which the first part does not allow. The part is n_rows rows of `work`
     * multiply-adds in all; `done` is the share of the pass's layers that have run: 0 for the
     * first part. */
    int (*begin)(PassControl *control, int most, size_t n_rows, double work, double done);
    void (*end)(PassControl *control); /* the part has run */
};

/* Receives the inputs of each matrix product before it is computed: in[n][w->cols] is about to be
 * multiplied by w. All threads of the forward pass call it at once and must share its loops by
 * `#pragma omp for`. Which n rows come together depends on the calls of model_forward alone. */
typedef struct InputObserver {
    void (*inputs)(void *context, const Matrix *w, const float *in, size_t n);
    void *context;
} InputObserver;

#endif
