/* What the callers of the forward pass (model.h), the pass itself and the kinds of layers share. */
#ifndef MODEL_ROW_H
#define MODEL_ROW_H

#include "kernels/matmul.h"
#include "kvcache.h"

typedef struct Model Model;
struct ForwardPass;
struct FeedForward;

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

/* Takes part in every forward pass: sees what is multiplied, and may change what comes out
 * (adapters/lora.h). A function is called with the table that holds it. */
typedef struct PassHook PassHook;
struct PassHook {
    /* A pass of n rows begins. NULL: not asked. */
    void (*begin)(const PassHook *hook, const Row *rows, size_t n);
    /* x[dim] is the embedding of the token of row `row`, which one thread calls. NULL: not asked.
     */
    void (*embedded)(const PassHook *hook, size_t row, float *x);
    /* The products of the sets are in their `out`, without biases. All threads of the forward pass
     * call it at once and must share its loops by `#pragma omp for`; it returns when all are done.
     * Which rows come together depends on the calls of model_forward alone. */
    void (*multiplied)(const PassHook *hook, const ProductSet *sets, size_t n_sets);
};

/* Is told which weights a pass uses, to advise the kernel about their pages
 * (session/kept_weights.h): no result depends on it. All threads of the pass call a function at
 * once, with the table that holds it. */
typedef struct WeightWatch WeightWatch;
struct WeightWatch {
    /* The products of the sets are complete. */
    void (*multiplied)(const WeightWatch *watch, const ProductSet *sets, size_t n_sets);
    /* The router of a mixture has chosen: expert e runs next for first[e + 1] - first[e] rows. */
    void (*chosen)(const WeightWatch *watch, const struct FeedForward *experts,
                   const uint32_t *first, size_t n_experts);
};

/* Lets passes begin behind layers whose result is known, for trials of other weights in later
 * layers (modes/inspect/residuals.h). A function is called with the table that holds it. */
typedef struct PassResume PassResume;
struct PassResume {
    /* The layer that a pass of n rows begins with. Where that is not 0, *x becomes the residual
     * stream [n][dim] before it, valid during the pass; the cache gets nothing of the layers
     * before.
     */
    size_t (*begin)(PassResume *resume, const Row *rows, size_t n, const float **x);
    /* x[dim] is row `row` of the residual stream before layer `layer`, which is not 0 and not the
     * layer that the pass began with. Threads call it at once, each with rows of its own. */
    void (*reached)(const PassResume *resume, size_t layer, size_t row, const float *x);
};

/* Several processes, called ranks, that compute one model together (ports/cluster/ has them; NULL:
 * one process computes it alone). Each rank multiplies with some rows of each matrix, over all
 * inputs and in the definition's order, and the ranks gather the results (weights.h: Share):
 * nothing is summed across ranks, and therefore the bits are those of one process. */
typedef struct Exchange Exchange;
struct Exchange {
    /* Called by model_open: leaves the model's weights and Config the rows and heads of this rank.
     */
    Status (*divide)(Exchange *exchange, Model *model, Error *error);
    /* Called by each model_forward before it computes: the other ranks run the same pass, or, where
     * the cache has no room for it (`fits`), fail as this one does. */
    void (*begin)(Exchange *exchange, const struct ForwardPass *pass, bool fits);
    struct KvMirror *mirror; /* of the model's caches (kvcache/kvcache_mirror.h) */
};

#endif
