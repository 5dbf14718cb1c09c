/* What the core has of layers/: two tables, which layers/ fills in and core/core_absent.c in the
 * core build, which refuses models that need them by name. Each kind is a file of layers/ and a row
 * in the tables' lists. */
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

/* What runs. model_open alone asks the table; a pass reads Model.layers. */
typedef struct LayerKinds {
    /* [LAYER_KINDS], by Config.layer_kind: layers that do something else than attend over keys and
     * values. Those that LayerConfig.validate has let pass are not NULL. */
    const BranchKind *const *kinds;
    /* [STACKS], by Config.stack: arrangements of branches that branches.c does not make. Those that
     * LayerConfig.validate_arrangement has let pass are not NULL. */
    const Arrangement *const *arrangements;
    /* The mixture of experts of a layer whose router has data (LayerWeights): the sum of the
     * experts' outputs for Branch.in, each times its routing weight, in the order of their numbers.
     * The router chooses them by Branch.routed where that is not NULL. */
    const BranchKind *mixture;
    /* gate[width] = what down takes of it, in models of experts whose gates are limited
     * (layers/limits.h). Changes up[width]. */
    void (*activate_limited)(const Numeric *numeric, const Config *c, const struct FeedForward *f,
                             float *gate, float *up);
} LayerKinds;

extern const LayerKinds layer_kinds; /* layers/layer_kinds.c */

/* What is read of the configuration. It stands apart from LayerKinds because config.c needs it, and
 * the files of the kinds need config.c. */
typedef struct LayerConfig {
    /* The fields of Config that only layers/ reads; NULL past the end. */
    const ConfigField *(*field)(size_t i);
    /* Checks what the kind of a layer reads, where it is not LAYER_ATTENTION. */
    Status (*validate)(const Config *config, uint32_t layer, Error *error);
    /* Checks what a mixture of experts, or a limit of its gates, reads. */
    Status (*validate_mixture)(const Config *config, Error *error);
    /* Checks what the arrangement reads, where it is not STACK_PLAIN. */
    Status (*validate_arrangement)(const Config *config, Error *error);
    /* The multiply-adds for one row in a layer's matrix products, in a mixture's experts, and in
     * the arrangement's own products. The configuration has passed its checks. */
    double (*work)(const Config *config, uint32_t layer);
    double (*mixture_work)(const Config *config);
    double (*arrangement_work)(const Config *config);
} LayerConfig;

extern const LayerConfig layer_config; /* layers/layer_config.c */

#endif
