/* A layer of a decoder as a list of branches.
 *
 * Whatever a layer does, it adds something to the residual stream x, again and again:
 *
 *     x = norm_after(after * (before * x + scale * sum_post(post(f(pre(x))))))
 *
 * Most models have only some of these terms. Where several outputs are summed (ADD_TO_NEXT), post
 * is the norm of one of them and sum_post that of the sum; a lone output's norm is sum_post. f
 * stands for f + its bias, to which Laurel adds pre(x) after post; pre may read x + an earlier
 * output (plus). A Branch is one such addition: f is attention, a feed-forward network, a mixture
 * of experts, a recurrent state and so on (BranchKind). branches.c makes the list of each layer
 * when the model is opened, from Config and the weights; model.c has the one loop over them. `run
 * MODEL --layers` prints them. For example
 *
 *     x += attention(norm(x));  x += feed-forward(norm(x))        a llama
 *     x = norm(x + attention(x));  x = norm(x + feed-forward(x))  the original transformer
 *     x += attention(norm(x)) and feed-forward(the same)          GPT-J: both read the same x
 *
 * Branches that read the same x are a group: they run one after the other, then one loop over rows
 * adds their outputs and reads what the next group needs, so that a group costs one wait of all
 * threads beside those of its products.
 *
 * Something new that a layer computes is a kind: a LayerKindNumber (config.h), a file in a
 * room of layers/ with a BranchKind, and a row in layers/layer_kinds.c. What it reads of Config,
 * with the checks and the multiply-adds, is in a file ..._fields.c beside it and two rows (kinds,
 * order) in layers/layer_config.c.
 * layer_kind.h has all that the core calls of them; its tensors' names are in docs/format.md and in
 * the families that have it. Layers that put known kinds together in a new way, or add weights and
 * streams of the whole model, are an arrangement: a StackNumber (config.h) with its name in
 * config_fields.c, a file of layers/ with an Arrangement that layers/arrangements/arrangements.h
 * declares, a row in layers/layer_kinds.c, and its checks in
 * layers/arrangements/arrangement_fields.c. A kind that such an arrangement alone appends has no
 * number and no row. Short examples: layers/attention/differential.c for attention,
 * layers/state/convolution.c for a state, layers/arrangements/gemma4.c for an arrangement. Places
 * that name the kinds they know: modes/inspect/attention_maps.c (attention_maps_attends),
 * ports/cluster/divide.c, formats/family/page_tables.c (page_kinds, the names that families' pages
 * use), tests/test_fields.c. Only other scores for plain attention are no kind, but a field of
 * AttentionParams (attention.h). */
#ifndef BRANCH_H
#define BRANCH_H

#include "core/arena.h"
#include "core/layer_kind.h"
#include "core/model_row.h"
#include "core/weights.h"

struct ForwardPass;

/* What f is. The kinds outside the core are files of layers/ (layer_kind.h). */
struct BranchKind {
    const char *name; /* for people */
    bool has_heads;   /* of config_heads: --layers prints them */
    /* Branch.out = f(Branch.in), without the bias of Branch.last_linear. All threads of the forward
     * pass call it, and it returns when all are done (forward_steps.h). NULL: `list` appends other
     * kinds. */
    void (*run)(struct ForwardPass *pass, const Branch *branch);
    /* Floats of each row that the kind keeps for a pass, the same for all its layers: Branch.kept.
     * NULL: none. */
    size_t (*kept_floats)(const Config *config);
    /* Takes the rows that `run` works in (arena.h). NULL: none. */
    void (*rows)(Rows *memory, const Model *model, const Branch *branch);
    /* ---- What follows is NULL except in kinds that Config.layer_kind names ---- */
    /* Finds the weights of a layer. Returns memory that weights_free gives to free(), or NULL after
     * a failure, which the finder then holds. */
    void *(*find)(struct Finder *finder, uint32_t layer);
    /* Floats of working memory for each thread. NULL: none. */
    size_t (*thread_floats)(const Config *config);
    /* What the layer stores in the cache. */
    KvLayer (*cached)(const Config *config, uint32_t layer);
    /* Appends the branches of a layer that has several (branches.h): the first one reads pre(x) in
     * `in`, the last one adds to x. NULL: there is one, which `run` computes. */
    void (*list)(Model *model, size_t layer, const Norm *pre, float *in);
};

/* When a branch's output is added, and to what. */
typedef enum Addition {
    ADD_TO_X,     /* when its group has run */
    ADD_TO_NEXT,  /* to the output of the next branch of its group, whose sum_post, scale and so on
                   * are those of the sum: x += f + g has other bits than x += f; x += g */
    ADD_TO_INPUT, /* to what a later branch reads (Branch.plus): Zamba 2 */
    ADD_LATER     /* after the output of the branch whose `also` this one is: LongCat */
} Addition;

/* How a branch uses several residual streams (Arrangement). A group is read by its first branch's
 * gather and read. */
typedef struct StreamUse {
    const char *reads; /* for people: what x is then; NULL: nothing is read */
    const char *adds;  /* for people: what stands before the output; NULL: "streams += " */
    /* All threads: products that reading the streams needs (forward_gather is something else). The
     * group is then read in a loop of its own. */
    void (*gather)(struct ForwardPass *pass, const Branch *branch);
    /* x's row `row`, before `pre`; NULL: it is there. */
    void (*read)(const struct ForwardPass *pass, const Branch *branch, size_t row);
    /* Adds y[dim] to the streams, without before, scale, after, norm_after and also of the branch;
     * NULL: it is added to x. */
    void (*add)(struct ForwardPass *pass, const Branch *branch, size_t row, float *y);
} StreamUse;

/* A gate of a norm's output: x * sigmoid(up silu(down x)). */
typedef struct NormGate {
    Matrix down;       /* rank x dim; without data: no gate */
    Matrix up;         /* dim x rank */
    float *low, *wide; /* [n][rank], [n][dim]: what it works in */
    /* Multiplies Branch.in by the gate of the branch. */
    void (*apply)(struct ForwardPass *pass, const Branch *branch);
} NormGate;

/* branches_append gives what the comments call the default, and 0 or NULL to the rest. */
struct Branch {
    const BranchKind *kind;
    size_t layer;
    void *kept;          /* rows that live for a pass: [n][BranchKind.kept_floats], or whatever the
                          * arrangement gives */
    const void *weights; /* of the kind's own type: what BranchKind.find returned, or what the
                          * arrangement gives; NULL: LayerWeights' */

    /* ---- Inputs of f ---- */
    float *in;                  /* [n][dim]; default: Model.x, the residual stream itself */
    const Branch *plus;         /* an earlier branch, whose output is added to what is read */
    const Norm *pre;            /* in = pre(x); NULL: `in` is x, or the input of another branch */
    bool pre_replaces_x;        /* x = in: BLOOM */
    const NormGate *gate;       /* multiplies `in`: A.X K2; NULL: none */
    const float *router_scale;  /* [dim], routed = norm(x) * this / sqrt(dim): Gemma 4 */
    float *routed;              /* [n][dim], what a router reads instead of `in`; NULL: `in` */
    const StreamUse *streams;   /* NULL: x is the only stream */
    const void *stream_weights; /* for `streams`, of its own type */

    /* ---- How its output is added ---- */
    float *out;                /* [n][dim]; default: Model.y, which the next group writes again */
    const Linear *last_linear; /* of f: its bias is added to `out`; NULL: no bias */
    const Norm *post;          /* of `out` */
    bool adds_input;           /* out += in, after `post`: Laurel */
    float part_scale;          /* of `out` in a sum of several outputs (ADD_TO_NEXT); default 1 */
    const Norm *sum_post;      /* norm of that sum, or of the one output: post_attention_norm,
                                * post_ffn_norm */
    float before;              /* factor of x, before the addition; default 1 */
    float scale;               /* factor of what is added; default 1 */
    float after;               /* factor of x, after the addition; default 1 */
    const Norm *norm_after;    /* of x, after the addition */
    Addition addition;
    bool same_x;        /* the next branch is of the same group */
    const Branch *also; /* an earlier branch, whose output is added after this one's */
};

enum { MOST_BRANCHES = 6 }; /* of one layer */

/* The branches of all layers, in order. */
typedef struct BranchList {
    Branch *all; /* owned */
    size_t n;
    size_t first[CONFIG_MAX_LAYERS + 1]; /* of each layer, and the end */
} BranchList;

/* How the layers of a model get their branches (Config.stack): most as branches.c has it, others
 * (layer_kind.h) with weights, streams and working memory of their own. */
struct Arrangement {
    /* Finds the weights that weights_find does not know: weights->stack and fields of layers. A
     * failure is the finder's. */
    void (*find)(struct Finder *finder, struct Weights *weights);
    /* Asks for rows that live for a pass (Model.arena), and keeps where they are in weights->stack.
     */
    void (*keep)(Model *model);
    /* Floats of working memory for each thread: Model.layer_threads. */
    size_t (*thread_floats)(const Config *config);
    /* Appends the branches of a layer (branches.h), at most MOST_BRANCHES. */
    void (*list)(Model *model, size_t layer);
    /* All threads: what comes before the first layer, when x holds the rows' embeddings, and after
     * the last one; NULL: nothing. `begin` may change x only where the first branches are read by
     * StreamUse.gather: others have read x by then. */
    void (*begin)(struct ForwardPass *pass);
    void (*end)(struct ForwardPass *pass);
};

#endif
