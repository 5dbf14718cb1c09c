/* Small models for tests: converted from a source into a temporary file, opened, and run over
 * texts in whatever calls the test asks for. Everything fails on the spot (cmocka). */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include "model.h"

typedef struct TinyModel {
    ModelFile *file;
    Model *model;
    KvCache *cache; /* of 8 sequences */
    size_t vocab_size;
} TinyModel;

/* Converts `source` (a path, or "random:SHAPE") with matrices of `type` (NULL: lossless) and
 * opens it. options and kv_type as model.h has them. */
TinyModel tiny_model_open(const char *source, const char *type, const ModelOptions *options,
                          KvType kv_type);
void tiny_model_close(TinyModel *tiny);

/* Opens a model.bin that exists already. */
TinyModel tiny_model_map(const char *path, const ModelOptions *options, KvType kv_type);

/* Continues `sequence` with ids[n] in calls of `chunk` rows: logits[n][vocab_size] of all. */
void tiny_model_continue(TinyModel *tiny, int32_t sequence, const int32_t *ids, size_t n,
                         size_t chunk, float *logits);

/* The same from an emptied cache, the first id at position `start`; the logits to free. */
float *tiny_model_run(TinyModel *tiny, int32_t sequence, int32_t start, const int32_t *ids,
                      size_t n, size_t chunk);

/* The lowest index among the largest. */
int32_t tiny_model_argmax(const float *logits, size_t n);

#endif
