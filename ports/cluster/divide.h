/* Leaves a model the rows and heads of one rank.
 *
 * A rank has some neighbouring key/value heads of attention with their queries and their part of
 * the cache, and neighbouring rows of the other matrices. Every rank has all inputs of a product,
 * so that each output is summed up as one process would. What cannot be cut (panels hold 16 rows;
 * some norms take all heads together) is computed whole by every rank; so are layers with states,
 * and all other kinds but latent attention and mixtures after a narrower vector. */
#ifndef CLUSTER_DIVIDE_H
#define CLUSTER_DIVIDE_H

#include "ports/cluster/cut.h"

/* Divides the model's weights and heads. floats: nothing travels as codes (codes.h). *config
 * receives the Config that the model then reads: the caller frees it after the model is closed. */
Status divide_model(Model *model, Shares *shares, bool floats, Config **config, Divided *divided,
                    Error *error);

#endif
