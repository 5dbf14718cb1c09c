/* Inputs of each layer's own, "per-layer embeddings": Gemma 3n and 4.
 *
 * A second embedding has for each token a vector of p = per_layer_dim elements for every layer. It
 * is joined with a projection of the token's ordinary embedding before the first layer. At a
 * layer's end, what the layer makes of the residual stream gates its input, and a projection of
 * that is added to the residual stream. */
#ifndef LAYERS_ARRANGEMENTS_PER_LAYER_H
#define LAYERS_ARRANGEMENTS_PER_LAYER_H

#include "core/branches.h"
#include "core/weights.h"

typedef struct PerLayerTable {
    Matrix embedding;  /* per_layer_vocab x (n_layers * p) */
    Matrix projection; /* (n_layers * p) x dim */
    Norm norm;         /* [p] */
    float *inputs;     /* [n][n_layers * p], of the rows of a pass */
} PerLayerTable;

typedef struct PerLayerGate {
    Matrix gate;       /* p x dim */
    Matrix projection; /* dim x p */
    Norm norm;         /* [dim] */
} PerLayerGate;

void per_layer_find_table(Finder *finder, PerLayerTable *table);
void per_layer_find_gate(Finder *finder, PerLayerGate *gate);

/* Asks for the inputs' rows (Arrangement.keep). */
void per_layer_keep(Model *model, PerLayerTable *table);

/* Floats of working memory for each thread. */
size_t per_layer_thread_floats(const Config *config);

/* Makes the inputs of all layers, (norm(projection(x) / sqrt(dim)) + embedding[token] * sqrt(p)) /
 * sqrt(2), the norm over each layer's p elements. x is Model.x, the rows' embeddings. */
void per_layer_inputs(ForwardPass *pass, const PerLayerTable *table);

/* Appends the branch x += norm(projection(activation(gate(x)) * the layer's input)). */
Branch *per_layer_branch(Model *model, size_t layer, const PerLayerGate *gate);

#endif
