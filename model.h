/* The decoder stack: rows of tokens in, logits out.
 *
 * There is one forward pass. Prefill is many rows of one sequence, decode is one row of each
 * sequence, a batch mixes both; whatever the mix, a row's logits have the same bits. */
#ifndef MODEL_H
#define MODEL_H

#include "attention.h"
#include "base/threads.h"
#include "isa.h"
#include "kvcache.h"
#include "modelfile.h"

/* One token at one place of one sequence. */
typedef struct Row {
    int32_t sequence;
    int32_t position;
    int32_t token;
    bool wants_logits;
} Row;

typedef struct ModelOptions {
    const Isa *isa;    /* NULL: the best of this machine */
    int n_threads;     /* 0: threads_default() */
    uint32_t context;  /* 0: the model's */
    float rope_theta;  /* plain RoPE with this base instead of the file's table; 0: the file's */
    uint32_t max_rows; /* rows that one call of model_forward takes at most; 0: 512 */
} ModelOptions;

typedef struct Model Model;

/* Finds and checks every tensor that the configuration needs, and allocates the working
 * memory: model_forward allocates nothing but pages of the cache (and, for an attention observer,
 * room for what it sees). `file` must outlive the model. */
Status model_open(Model **out, const ModelFile *file, const ModelOptions *options, Error *error);
void model_close(Model *model);

const Config *model_config(const Model *model);
uint32_t model_context(const Model *model); /* positions, as the options chose */
uint32_t model_max_rows(const Model *model);
const Isa *model_isa(const Model *model);
int model_threads(const Model *model);

/* The shape of a cache for this model; `type` as the user chose. */
KvShape model_kv_shape(const Model *model, KvType type);
/* f32 for models that hold float32 matrices, else f16. */
KvType model_kv_type(const Model *model);

/* Runs n rows (1 <= n <= max_rows). Rows of one sequence stand together in the order of their
 * positions, the first at kvcache_next(). logits[k][vocab_size] receives the k-th row that
 * wants them, in the order of the rows. On STATUS_OK the rows are in the cache; on failure
 * the cache is as it was: no memory or page to be had, a token outside the vocabulary, a position
 * outside the context, non-finite values (the Error names the layer). */
Status model_forward(Model *model, KvCache *cache, const Row *rows, size_t n, float *logits,
                     Error *error);

/* Where the time of a forward pass goes. */
typedef enum ModelPart {
    PART_PROJECTIONS,  /* queries, keys, values, output */
    PART_ATTENTION,    /* RoPE and the cache's writing with it */
    PART_FEED_FORWARD, /* or the mixture of experts */
    PART_OUTPUT,       /* the last norm and the output head */
    PART_REST,         /* embeddings, norms, sums */
    MODEL_PARTS
} ModelPart;

/* From the next call on adds the seconds of each part to seconds[MODEL_PARTS], which outlives
 * the model or is taken back with NULL. */
void model_set_clock(Model *model, double *seconds);

/* Shows every softmax weight of the following calls to `observer`; NULL: no longer. The bits of
 * the logits do not change. */
void model_set_attention_observer(Model *model, const AttentionObserver *observer);

/* Sees what the matrix products read: in[n][w->cols] is about to be multiplied by w. Called by all
 * threads of the forward pass at once, who share the work as they share its loops (#pragma omp
 * for). Which n rows come together depends on the calls of model_forward alone. */
typedef struct InputObserver {
    void (*inputs)(void *context, const Matrix *w, const float *in, size_t n);
    void *context;
} InputObserver;

/* Shows the inputs of every product of the following calls to `observer`; NULL: no longer. */
void model_set_input_observer(Model *model, const InputObserver *observer);

#endif
