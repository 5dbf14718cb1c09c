/* Leaves a model the rows and heads of one rank.
 *
 * Of attention, a rank has neighbouring key/value heads with their queries, and their part of the
 * cache; of other matrices, neighbouring rows. Every rank has all inputs of a product, so that each
 * output is summed up as one process would. What cannot be cut (panels hold 16 rows; some norms
 * take all heads together) is computed whole by every rank; so are layers of other kinds than
 * attention, with their caches and states. */
#ifndef CLUSTER_DIVIDE_H
#define CLUSTER_DIVIDE_H

#include "cluster/share.h"

/* How much of a model is divided, for people. */
typedef struct Divided {
    size_t n_layers;
    size_t attention; /* layers whose heads are divided */
    size_t ffn;       /* layers whose feed-forward or experts are divided in full */
} Divided;

/* Divides the model's weights and heads. *config receives the Config that the model then reads: the
 * caller frees it after the model is closed. */
Status divide_model(Model *model, Shares *shares, Config **config, Divided *divided, Error *error);

#endif
