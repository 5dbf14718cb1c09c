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

/* What takes part in every pass of a model: it looks, advises the kernel, steers, or changes what
 * comes out (adapters/lora.h). Its user embeds the struct as the first member of what the functions
 * need, sets those that it is interested in (the others are NULL), and hands it over by
 * model_add_observer (layers/model_watch.h). Observers are called in the order in which they were
 * added; where nobody has a function, an event costs the test of a bit.
 *
 * The functions stand in the order of a pass. All threads of the pass call them at once, but for
 * `begin`, `part_begins` and `part_ends`, which are called outside of its parallel region. */
typedef struct PassObserver PassObserver;
struct PassObserver {
    /* A pass of n rows begins. x is NULL, or the observer may know the residual stream [n][dim]
     * before a later layer: then it points *x to it, valid during the pass, and returns the layer,
     * with which the pass begins; the cache gets nothing of the layers before. Else it returns 0.
     * Only for models with model_can_resume. */
    size_t (*begin)(PassObserver *observer, const Row *rows, size_t n, const float **x);
    /* Returns how many threads run the next part of the pass, 1 to `most`: speed depends on it, no
     * result does. 0 ends the pass with STATUS_INTERRUPTED, which the first part does not allow;
     * no part_ends follows. The part is n_rows rows of `work` multiply-adds in all; `done` is the
     * share of the pass's layers that have run: 0 for the first part. */
    int (*part_begins)(PassObserver *observer, int most, size_t n_rows, double work, double done);
    double part_work; /* with part_begins: a longer pass runs in parts of about so many
                         multiply-adds, which are whole layers */
    /* x[dim] is the embedding of the token of row `row`, which one thread calls. */
    void (*embedded)(PassObserver *observer, size_t row, float *x);
    /* The products of the sets are in their `out`, without biases. The threads share its loops by
     * `#pragma omp for`; it returns when all are done. Which rows come together depends on the
     * calls of model_forward alone. */
    void (*multiplied)(PassObserver *observer, const ProductSet *sets, size_t n_sets);
    bool reads_inputs; /* `multiplied` reads ProductSet.x: its rows then lie together */
    /* The router of a mixture has chosen: expert e runs next for first[e + 1] - first[e] rows. */
    void (*chosen)(PassObserver *observer, const struct FeedForward *experts, const uint32_t *first,
                   size_t n_experts);
    /* A query's scores that the softmax takes, and then its softmax weights: of the cached
     * positions first ... first + n - 1. They lie in memory for n_positions of
     * attention_memory_new, which the function may overwrite if the n numbers are there again when
     * it returns. */
    void (*scored)(PassObserver *observer, size_t layer, size_t row, size_t head, int32_t first,
                   float *scores, size_t n);
    void (*attended)(PassObserver *observer, size_t layer, size_t row, size_t head, int32_t first,
                     float *weights, size_t n);
    /* x[dim] is row `row` of the residual stream before layer `layer`, which is not the one that
     * the pass began with. Each thread has rows of its own. */
    void (*reached)(PassObserver *observer, size_t layer, size_t row, const float *x);
    /* The first thread spent so many seconds with `part`. */
    void (*timed)(PassObserver *observer, ModelPart part, double seconds);
    /* The part of the pass has run. */
    void (*part_ends)(PassObserver *observer);
    PassObserver *next; /* set by model_add_observer */
};

/* The functions that some observer of a model has (Model.watched). */
enum {
    PASS_BEGIN = 1,
    PASS_PARTS = 2,
    PASS_EMBEDDED = 4,
    PASS_MULTIPLIED = 8,
    PASS_INPUTS = 16, /* reads_inputs */
    PASS_CHOSEN = 32,
    PASS_SCORED = 64,
    PASS_ATTENDED = 128,
    PASS_ATTENTION = PASS_SCORED | PASS_ATTENDED,
    PASS_REACHED = 256,
    PASS_TIMED = 512
};

/* Calls a function of all observers from `first` on that have it. */
#define OBSERVERS_CALL(first, function, ...)                                                       \
    for (PassObserver *o_ = (first); o_; o_ = o_->next)                                            \
        if (o_->function) o_->function(o_, __VA_ARGS__)

/* Several processes, called ranks, that compute one model together (ports/cluster/ has them; NULL:
 * one process computes it alone). Each rank multiplies with some rows of each matrix, over all
 * inputs and in the definition's order, and the ranks gather the results (weights.h: Share):
 * nothing is summed across ranks, and therefore the bits are the same as in one process. */
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
