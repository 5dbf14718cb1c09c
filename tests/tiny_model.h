/* Small models for tests: converts a source into a temporary file, opens it and runs texts through
 * it in calls of any size. Every function fails the test (cmocka) on an error. */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include "model.h"

typedef struct TinyModel {
    ModelFile *file;
    Model *model;
    KvCache *cache; /* for 8 sequences */
    size_t vocab_size;
} TinyModel;

/* Converts `source` (a path, or "random:SHAPE") with its matrices in `type` (NULL: lossless) and
 * opens it. model.h describes the options and kv_type. Of a random model the last conversion is
 * kept for the next call. */
TinyModel tiny_model_open(const char *source, const char *type, const ModelOptions *options,
                          KvType kv_type);
void tiny_model_close(TinyModel *tiny);

/* The same in two steps, to open one conversion with several options. Returns the descriptor of a
 * temporary file, which the caller closes. */
int tiny_model_convert(const char *source, const char *type);
TinyModel tiny_model_open_converted(int converted, const ModelOptions *options, KvType kv_type);

/* Opens a model.bin that exists already. */
TinyModel tiny_model_map(const char *path, const ModelOptions *options, KvType kv_type);

/* Appends ids[n] to `sequence` in calls of `chunk` rows and writes the logits of every row:
 * logits[n][vocab_size]. */
void tiny_model_continue(TinyModel *tiny, int32_t sequence, const int32_t *ids, size_t n,
                         size_t chunk, float *logits);

/* Empties the KV cache of `sequence` and runs ids[n] as tiny_model_continue does, the first at
 * position `start`. Returns the logits, which the caller frees. */
float *tiny_model_run(TinyModel *tiny, int32_t sequence, int32_t start, const int32_t *ids,
                      size_t n, size_t chunk);

/* Returns the index of the largest logit, the lowest index in a tie. */
int32_t tiny_model_argmax(const float *logits, size_t n);

#endif
