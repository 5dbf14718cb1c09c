/* How a rank's model is cut: the steps of divide.c. */
#ifndef CLUSTER_CUT_H
#define CLUSTER_CUT_H

#include "ports/cluster/share.h"

/* How much of a model is divided, for people. */
typedef struct Divided {
    size_t n_layers;
    size_t attention; /* layers whose heads are divided */
    size_t latents;   /* ... every rank has the cache of all of them */
    size_t ffn;       /* layers whose feed-forward or experts are divided in full */
} Divided;

/* A model that is being divided. */
typedef struct Division {
    Model *model;
    Shares *shares;
    Config *config;       /* becomes the model's */
    const Config *whole;  /* the file's */
    const RankShare *dim; /* of the residual stream */
    Divided *divided;
    bool floats; /* nothing travels as codes */
    bool failed; /* no memory for a share */
} Division;

/* shares_find. NULL: no memory, which the division remembers. */
const RankShare *cut_find(Division *d, size_t width, size_t unit, size_t group);

/* The same for the outputs of n heads of value_dim elements each, `unit` of them together. */
const RankShare *cut_find_heads(Division *d, size_t n, size_t value_dim, size_t unit, size_t group);

/* Leaves the matrix the rows from `first` on, which begin a panel. */
void cut_rows(Matrix *w, size_t first, size_t n);

/* Leaves a projection its rows of the share, with their biases. Nothing without data. */
void cut_projection(Linear *linear, const RankShare *s);

/* Leaves the last projection of a block its rows; its bias is added when all are gathered. */
void cut_last(Linear *linear, const RankShare *s);

/* The group that the projection quantizes its inputs by, in which they can travel as codes; 0:
 * floats. */
size_t cut_codes(const Division *d, const Linear *linear);

/* Divides a feed-forward whose output is divided as `out`, and whose hidden vectors travel as the
 * codes of `group` (0: as floats). True when they are divided: a norm of them needs them whole. */
bool cut_ffn(Division *d, FeedForward *f, const RankShare *out, size_t group);

/* Divides n experts whose sum is divided as `out`: each rank adds up its own columns of them, with
 * their biases (layers/experts/mixture.c). True as for cut_ffn. */
bool cut_experts(Division *d, FeedForward *experts, size_t n, const RankShare *out);

#endif
