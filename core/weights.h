/* The weights of a model as model.c reads them, found in the model's file.
 *
 * Pointers and matrices are borrowed from the mapping. Where a vector is NULL, or a matrix's data,
 * the model does not have it, and model.c leaves out the step that would use it. */
#ifndef WEIGHTS_H
#define WEIGHTS_H

#include "core/modelfile.h"

typedef struct BranchKind BranchKind; /* branch.h */
struct ForwardPass;

typedef struct Norm {
    const float *weight, *bias; /* [dim] (q and k: [head_dim] or [heads * head_dim]) */
    float eps;                  /* 0: Config's norm_eps */
    bool rounds;                /* then the row is rounded to 8 bits: the input of a product */
    bool is_layer_norm;         /* although Config.norm is not */
    bool present;               /* the norm is applied, if need be without weights (OLMo) */
} Norm;

/* How the ranks of an Exchange (model_row.h) divide the elements of a vector. */
typedef struct Share Share;
struct Share {
    /* x[n][this rank's elements] becomes x[n][width] on all ranks. All threads call it. */
    void (*gather)(const Share *share, struct ForwardPass *pass, float *x, size_t n);
    size_t width; /* of all ranks together */
};

typedef struct Linear {
    Matrix w;             /* outputs x inputs; of a rank: its rows alone */
    const float *bias;    /* [outputs]; of a rank: all where `outputs` is given */
    const Share *inputs;  /* gathered before the product; NULL: undivided */
    const Share *outputs; /* gathered after the product; NULL: undivided */
} Linear;

/* down(activation(gate(x)) * up(x)), or down(activation(up(x))). */
typedef struct FeedForward {
    size_t width;       /* ffn_dim, expert_ffn_dim or shared_ffn_dim */
    Linear gate, up;    /* width x dim */
    Linear down;        /* dim x width */
    Norm inner_norm;    /* before down: BitNet */
    const float *xielu; /* [4], Numeric.xielu's parameters: Apertus */
    const float *limit; /* of gate and up (limits_activate): Step 3.5; NULL = none */
    const float
        *cutoff; /* gates below so many standard deviations above the mean are 0: Gemma 3n */
} FeedForward;

typedef struct LayerWeights {
    Norm attention_norm; /* before attention; after it for NORM_AFTER */
    Linear wq;           /* n_heads * head_dim outputs */
    Linear wk, wv;       /* n_kv_heads * head_dim outputs */
    Linear wo;           /* dim outputs */
    Norm q_norm, k_norm;
    Linear attention_gate; /* n_heads * value_dim or n_heads x dim: sigmoid of it times the heads */
    Norm inner_norm;       /* before wo: BitNet */
    Norm post_attention_norm; /* NORM_OUTPUT, NORM_AROUND */
    Norm ffn_norm;            /* absent in a parallel block that shares attention_norm */
    FeedForward ffn;
    Norm post_ffn_norm;
    const float *sinks; /* [n_heads], attention scores that take weight but have no value */
    /* A layer whose router has data is a mixture of experts; only STACK_GEMMA4 and
     * STACK_SHORTCUT have an ffn beside it. */
    Linear router;                  /* n_experts x dim, or Config.router.dim */
    const float *router_correction; /* [n_experts], added to scores where experts are ranked;
                                     * ROUTER_SCALED: factors of the routing weights */
    const float *router_table;      /* [vocab_size][n_experts_used], each token's experts; NULL: the
                                     * router chooses them */
    FeedForward *experts;           /* [n_experts] */
    const float *experts_bias;      /* [dim], of the sum of their outputs: JetMoE; NULL = none */
    const float *expert_scale;      /* [expert_dim], multiplies each expert's output, which is then
                                     * normalized (Config.post_norm_eps): Muse Spark; NULL: neither */
    FeedForward shared;             /* the expert that every token uses */
    Matrix shared_gate;     /* 1 x dim, gives the shared expert's share before the sigmoid */
    const BranchKind *kind; /* of Config.layer_kind; NULL: LAYER_ATTENTION */
    void *own;              /* what kind->find returned; owned */
} LayerWeights;

typedef struct Weights {
    Matrix token_embedding;          /* vocab_size x dim */
    const float *position_embedding; /* [positions][dim]; POSITION_LEARNED */
    size_t n_positions;
    const float *sinusoid_freqs;   /* [dim / 2] */
    const float *alibi_slopes;     /* [n_heads] */
    const float *rope_freqs[2];    /* [rotary_dim / 2] */
    const float *rope_freqs_short; /* replaces rope_freqs[0] in LongRoPE's original context */
    Norm embedding_norm, final_norm;
    Linear output;        /* vocab_size x dim */
    LayerWeights *layers; /* [n_layers], owned */
    uint32_t n_layers;
    FeedForward *experts; /* [n_layers][n_experts], owned; NULL when there are none */
    void *stack;          /* weights of Config.stack (Arrangement.find), owned */
} Weights;

/* Finds every tensor that the Config asks for and checks its shape; the Error names the
 * tensor that is missing or wrong. LayerWeights.own and Weights.stack stay NULL: the
 * caller fills them in. The caller
 * must call weights_free even after a failure. */
Status weights_find(Weights *weights, const ModelFile *file, const Config *config, Error *error);
void weights_free(Weights *weights);

/* ---- Looking up tensors by name: for weights.c and for layers/ ---- */

/* A run of look-ups. After the first failure the rest do nothing. */
typedef struct Finder {
    const ModelFile *file;
    const Config *config;
    Error *error;
    Status status;
    char prefix[48]; /* of the tensors' names: "", "layers.3.", "layers.3.experts.5." */
} Finder;

/* Each finds the tensor PREFIX + name and checks its shape and whether it is a vector or a matrix.
 * A missing tensor is a failure if it is required; otherwise the result is NULL, or has no data. */
const float *weights_vector(Finder *f, const char *name, size_t rows, size_t cols, bool required);
Matrix weights_matrix(Finder *f, const char *name, size_t rows, size_t cols, bool required);
/* A matrix with its optional bias, the vector "NAME.bias". */
Linear weights_linear(Finder *f, const char *name, size_t rows, size_t cols, bool required);
/* The vectors NAME and "NAME.bias", both optional. `applied`: the norm is applied even when the
 * file holds no weights for it. */
Norm weights_norm(Finder *f, const char *name, size_t n, bool applied);

#endif
