/* The decoder stack: rows of tokens in, logits out.
 *
 * There is one forward pass. Prefill is many rows of one sequence, decode is one row of each
 * sequence, a batch mixes both; whatever the mix, a row's logits have the same bits. */
#ifndef MODEL_H
#define MODEL_H

#include "core/attention.h"
#include "core/isa.h"
#include "kvcache.h"
#include "core/model_row.h"
#include "core/modelfile.h"

typedef struct ModelOptions {
    const Isa *isa;   /* NULL: the best of this machine */
    int n_threads;    /* 0: machine_cores() */
    uint32_t context; /* positions; 0: the model's */
    float rope_theta; /* base of a plain RoPE that replaces the file's table; 0: the file's table */
    uint32_t max_rows;    /* the most rows of one model_forward; 0: 512 */
    const Config *config; /* NULL: the file's; else it must outlive the model, too */
    Exchange *exchange;   /* the processes that compute the model together; NULL: this one alone */
} ModelOptions;

/* Finds and checks every tensor that the configuration needs, and allocates the working memory:
 * model_forward allocates nothing but pages of the cache. `file` must outlive the model. */
Status model_open(Model **out, const ModelFile *file, const ModelOptions *options, Error *error);
void model_close(Model *model);

const Config *model_config(const Model *model);
uint32_t model_context(const Model *model); /* positions that the options chose */
uint32_t model_max_rows(const Model *model);
const Isa *model_isa(const Model *model);

/* The shape of a cache of this type for this model. */
KvShape model_kv_shape(const Model *model, KvType type);
/* The type unless the user chooses one: f32 for models that hold float32 matrices, else f16. */
KvType model_kv_type(const Model *model);
/* The type of the first layer's matrices, which is that of most weights. */
TensorType model_weight_type(const Model *model);

/* Runs n rows, 1 <= n <= max_rows. Rows of one sequence are neighbours in the order of their
 * positions, and the first one is at kvcache_next(). logits[k][vocab_size] receives the logits of
 * the k-th row that wants them. NULL: no logits are computed, and
 * model_final_states (layers/model_watch.h) then has the states of these rows.
 *
 * On STATUS_OK the cache holds the rows. Fails, and leaves the cache as it was, when there is no
 * memory or no page left, when a token is outside the vocabulary or a position outside the context,
 * and when a value is not finite (the Error names the layer; sequences with states, which are
 * updated in place, then go back as kvcache_truncate has it). */
Status model_forward(Model *model, KvCache *cache, const Row *rows, size_t n, float *logits,
                     Error *error);

/* model_forward along a path (core/forward_steps.h): one that begins or ends elsewhere. */
struct PassPath;
Status model_forward_along(Model *model, const struct PassPath *path, KvCache *cache,
                           const Row *rows, size_t n, float *logits, Error *error);

#endif
