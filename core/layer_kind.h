/* What the forward pass, the weights and the cache call in layers/: kinds of branches, arrangements
 * of them and mixtures of experts. Each kind is a file of layers/ and a row in its tables. The core
 * build has none of them and refuses the models by name. */
#ifndef LAYER_KIND_H
#define LAYER_KIND_H

#include "core/config.h"
#include "kvcache.h"
#include "core/numeric.h"

typedef struct Arrangement Arrangement; /* branch.h */
typedef struct Branch Branch;
typedef struct BranchKind BranchKind;
struct FeedForward;
struct ForwardPass;
struct Finder;
struct LayerWeights;
struct Weights;

/* ---- Layers that do something else than attend over keys and values (Config.layer_kind) ---- */

/* The kind of a layer whose Config.layer_kind is not LAYER_ATTENTION. Its Config was validated, so
 * that it is never NULL. */
const BranchKind *layer_kind(uint32_t number);

/* The fields of Config that only these kinds read; NULL past the end. */
const ConfigField *layer_kind_field(size_t i);

/* Checks what the layer's kind reads of the configuration. */
Status layer_kind_validate(const Config *config, uint32_t layer, Error *error);

/* Multiply-adds of the layer's matrix products for one row. */
double layer_kind_work(const Config *config, uint32_t layer);

/* ---- Mixtures of experts: feed-forwards of which a router chooses some for each token ---- */

/* The kind of the mixture of a layer whose router has data (LayerWeights): the sum of the experts'
 * outputs for Branch.in, each times its routing weight, in the order of their numbers. The router
 * chooses them by Branch.routed where that is not NULL. */
const BranchKind *mixture_kind(void);

/* gate[width] = what down takes of it, in models of experts whose gates are limited. GPT-OSS:
 * activation(min(gate, limit)) * (up within +- limit, plus 1) with Config.experts.swiglu_limit.
 * Step 3.5: min(activation(gate), limit) * (up within +- limit) with FeedForward.limit. Gemma 3n:
 * activation(max(0, gate - edge)) * up with FeedForward.cutoff. Inkling 2: capped(gate) *
 * sigmoid(gate) * capped(up) with Config.experts.gate_softcap and up_softcap. Changes up[width]. */
void limits_activate(const Numeric *numeric, const Config *c, const struct FeedForward *f,
                     float *gate, float *up);

/* Checks what a mixture of experts, or a limit of its gates, reads of the configuration. */
Status mixture_validate(const Config *config, Error *error);

/* Multiply-adds of the matrix products of a mixture's experts for one row. */
double mixture_work(const Config *config);

/* ---- Arrangements of branches (Config.stack) that branches.c does not make ---- */

/* The arrangement of a Config.stack that is not STACK_PLAIN. The Config was validated, so that it
 * is never NULL. */
const Arrangement *arrangement_of(StackNumber number);

/* Multiplies Branch.in by the gate of its norm (Branch.gate). */
void norm_gate_apply(struct ForwardPass *pass, const Branch *branch);

/* Checks what the arrangement reads of the configuration. */
Status arrangement_validate(const Config *config, Error *error);

/* Multiply-adds of the arrangement's own matrix products for one row. */
double arrangement_work(const Config *config);

#endif
