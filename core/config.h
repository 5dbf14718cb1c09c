/* The configuration of a model: every variant of the decoder stack is a field of Config.
 *
 * What only some families have (experts, latents, states ...) is a struct of its own inside Config.
 * A model.bin's metadata holds each field under a key (an enum as the name of its value, a
 * per-layer field as an array). Tables tie key, field, kind and limits together: config_fields.c
 * has that of the plain decoder, layers/..._fields.c have those of the mechanisms with their checks
 * and work. The exporter writes through them, `run` reads through them, --info prints through them.
 * The fields alone decide how the blocks are computed. Which optional weights exist (biases, norms
 * of queries and keys, ...) follows from the tensors of the file. */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdint.h>

#include "base/ngram_hash.h"
#include "base/status.h"
#include "core/numeric.h"

enum { CONFIG_MAX_LAYERS = 512, CONFIG_MAX_EXPERTS = 1024, CONFIG_MAX_MTP_LAYERS = 16 };

typedef enum NormKind { NORM_RMS, NORM_LAYER, NORM_KINDS } NormKind;

/* Where a block normalizes; f is attention or feed-forward. */
typedef enum NormPlace {
    NORM_BEFORE, /* x + f(norm(x))             most models */
    NORM_AFTER,  /* norm(x + f(x))             the original transformer, GPT-1 */
    NORM_OUTPUT, /* x + norm(f(x))             OLMo 2, EXAONE 4 */
    NORM_AROUND, /* x + norm2(f(norm(x)))      Gemma 2 and 3, GLM-4 */
    NORM_STREAM, /* norm(x) + f(norm(x))       BLOOM with its switch for it */
    NORM_PLACES
} NormPlace;

typedef enum PositionKind {
    POSITION_NONE,
    POSITION_ROPE,
    POSITION_SINUSOIDAL, /* from tensor sinusoid.freqs [dim / 2], added to the embeddings */
    POSITION_LEARNED,    /* tensor position_embedding, added to the embeddings */
    POSITION_ALIBI,      /* tensor alibi.slopes [n_heads] times the distance, on the scores */
    POSITION_KINDS
} PositionKind;

typedef enum RopePairing {
    ROPE_HALVES,      /* element i with i + rotary_dim / 2: Hugging Face's llama, NeoX */
    ROPE_INTERLEAVED, /* 2i with 2i + 1: Meta's llama, GPT-J */
    ROPE_PAIRINGS
} RopePairing;

typedef enum SinusoidLayout {
    SINUSOID_INTERLEAVED, /* sin and cos of one frequency side by side: the original paper */
    SINUSOID_HALVES,      /* all sines, then all cosines: XGLM, CTRL */
    SINUSOID_LAYOUTS
} SinusoidLayout;

/* Norms of queries and keys, before the rotation. */
typedef enum QkNorm {
    QK_NORM_NONE,
    QK_NORM_HEAD, /* over each head: Qwen 3, Gemma 3 */
    QK_NORM_ALL,  /* over the whole projection: OLMo 2 */
    QK_NORM_EACH, /* over each head, with weights of its own: StableLM 2, Cohere */
    QK_NORMS
} QkNorm;

/* How the routing weights of a token's experts are made from the router's logits (experts.h). */
typedef enum RouterKind {
    ROUTER_SOFTMAX,        /* softmax over all experts: Qwen 2 MoE, OLMoE */
    ROUTER_SOFTMAX_CHOSEN, /* softmax over the chosen experts: Mixtral, GPT-OSS, Granite */
    ROUTER_SPARSE_MIXER,   /* chosen one by one, softmax over those near each: Phi 3.5 MoE */
    /* Every expert has a score. The best by score plus correction are chosen, from the best groups
     * where there are groups. A routing weight is the score times router_scale. */
    ROUTER_SIGMOID_SCORES, /* score = sigmoid(logit), a group's rank is the sum of its best two:
                            * DeepSeek V3, GLM-4.5, MiniMax M2 */
    ROUTER_SOFTMAX_SCORES, /* score = softmax(logits), a group's rank is that of its best: DeepSeek
                            * V2, ERNIE 4.5 */
    ROUTER_SCALED,         /* as softmax_chosen, times a scale of each expert: Gemma 4 */
    ROUTER_ROOT_SCORES, /* score = sqrt(softplus(logit)); groups as sigmoid_scores: DeepSeek V4 */
    ROUTER_KINDS
} RouterKind;

/* What a layer does where others attend over keys and values. Kinds other than attention live in
 * layers/ (layer_kind.h); the core build refuses them. */
typedef enum LayerKindNumber {
    LAYER_ATTENTION,
    LAYER_LATENT,         /* latent attention (MLA): DeepSeek V2 and V3 */
    LAYER_DELTA,          /* gated DeltaNet: Qwen 3.5, Qwen3-Next */
    LAYER_CONVOLUTION,    /* short convolution: LFM2 */
    LAYER_MAMBA2,         /* Granite 4, Nemotron-H */
    LAYER_MAMBA,          /* Jamba, Falcon Mamba */
    LAYER_NONE,           /* a feed-forward alone: Nemotron-H */
    LAYER_DIFFERENCE,     /* differential attention: DiffLlama */
    LAYER_LIGHTNING,      /* lightning attention: MiniMax-01 */
    LAYER_PARALLEL_MAMBA, /* attention and Mamba 2 side by side: Falcon-H1 */
    LAYER_SHARED,         /* a block that layers share, and Mamba 2: Zamba 2 */
    LAYER_LATENT_MOE,   /* mixture of experts on a narrower latent vector (LatentMoE): Nemotron 3 */
    LAYER_BLOCKS,       /* attention to chosen blocks of keys: MiniMax M3 */
    LAYER_COMPRESSED,   /* attention to a window and to pools of positions: DeepSeek V4 */
    LAYER_CHOSEN,       /* attention to chosen pools of positions: Qwen4-Exp */
    LAYER_CCA,          /* compressed convolutional attention: ZAYA */
    LAYER_RELATIVE,     /* attention with a learned bias of distances: Inkling */
    LAYER_HEAD_MIXTURE, /* a mixture of attention heads: JetMoE */
    LAYER_SHARED_MAMBA, /* a block that layers share, and Mamba: Zamba */
    LAYER_RG_LRU,       /* real-gated linear recurrent unit: RecurrentGemma */
    LAYER_RWKV,         /* time mixing and channel mixing: RWKV 4 */
    LAYER_MLSTM,        /* matrix LSTM: xLSTM */
    LAYER_DYNAMIC_MASK, /* attention to the positions with the largest weights: Doge */
    LAYER_KINDS
} LayerKindNumber;

/* What the layers are part of, where that is more than a residual stream. Kinds other than plain
 * live in layers/ (layer_kind.h); the core build refuses them. Each names an Arrangement
 * (branch.h). */
typedef enum StackNumber {
    STACK_PLAIN,
    STACK_GEMMA4,      /* inputs of each layer's own, a dense FFN beside experts, scaled outputs */
    STACK_ALTUP,       /* several residual streams, one of which a layer computes: Gemma 3n */
    STACK_MIXED_NORMS, /* x + norm2(f(norm(x))), each norm only in layers that have it: OLMo Hybrid;
                        * norms may have gates: A.X K2 */
    STACK_SHORTCUT, /* a mixture in every second layer, added after the next one: LongCat-Flash */
    STACK_HYPER,    /* several residual streams, mixed for each block: Hy 4 */
    STACK_GATED_STREAMS,  /* several residual streams, read by low-rank gates: Qwen4-Exp */
    STACK_SCALED_SUMS,    /* both parts of each sum have weights and biases by element: ZAYA */
    STACK_CONVOLVED,      /* x + convolution(f(norm(x))): Inkling */
    STACK_BLOCK_SUMS,     /* blocks read sums of some layers each by attention over them: Inkling 2;
                           * middle layers may run several times */
    STACK_RESIDUAL_GATES, /* each element of the stream and of what is added has a weight: Muse
                           * Spark, Doge */
    STACK_CYCLES,         /* two stacks of layers run in turn, each on a state of its own: HRM */
    STACK_LOOPED,         /* middle layers run again and again, on a stream of length 1: Dory */
    STACK_MTP,            /* one prediction layer (layers/arrangements/mtp.h); no file has this */
    STACKS
} StackNumber;

/* Which positions a layer with latent attention sees: all; the ones that its own indexer chooses;
 * the same as the layer before it. */
typedef enum IndexerNumber { INDEXER_NONE, INDEXER_OWN, INDEXER_SHARED, INDEXERS } IndexerNumber;

/* ---- One struct for each mechanism that only some families have; 0 where a model has none ---- */

/* Latent attention (MLA; layers/attention/latent.h). A query and a key are head_dim wide; the last
 * rotary_dim elements are rotated, and all heads share the rotated part of a key. */
typedef struct LatentConfig {
    uint32_t kv_lora_rank; /* width of the latent that a position stores for keys and values */
    uint32_t q_lora_rank;  /* width of the latent that queries are made from; 0: from the input */
    float norm_eps;        /* of the norms of both latents */
    float scale;           /* of the normalized latent of keys and values: LongCat; 0 = 1 */
    /* The same for layers with rope_table 1, where their heads differ: dots3 note. 0 = the model's
     * field. */
    uint32_t local_kv_lora_rank;
    uint32_t local_q_lora_rank;
    uint32_t local_value_dim; /* of Config.value_dim */
    float local_scale;
    float local_attention_scale; /* of Config.attention_scale */
    bool q_twice; /* queries and gates read their latent with and without its norm: A.X K2 */
    bool nope_without_shared_key; /* layers without RoPE have no part of keys that all heads share:
                                   * Mistral Large 4 */
} LatentConfig;

/* Sparse attention: an indexer ranks the positions before a query, which attends to the best of
 * them (layers/attention/indexer.h), or to the best blocks of them in LAYER_BLOCKS
 * (layers/attention/blocks.h). */
typedef struct IndexerConfig {
    uint32_t n_heads;  /* the indexer's queries; all heads read one key */
    uint32_t head_dim; /* width of these queries and of the key */
    uint32_t topk;     /* positions that a query attends to; LAYER_BLOCKS: blocks;
                        * LAYER_COMPRESSED: pools */
    uint32_t pool;     /* positions are chosen in pools of so many: GLM-5 Next; 0 = one by one */
    uint32_t block;    /* LAYER_BLOCKS: positions of a block */
    uint32_t local_blocks; /* LAYER_BLOCKS: the last blocks, which are always chosen */
    bool interleaved;      /* RoPE pairs 2i with 2i + 1, else halves: DeepSeek V3.2 */
    bool rotates_end;      /* the last elements of a head are rotated, else the first: Hy 4 */
    float norm_eps;        /* of the norm of its keys; 0 = 1e-6 */
    uint32_t layer[CONFIG_MAX_LAYERS]; /* IndexerNumber */
} IndexerConfig;

/* Attention to a window and to pools of positions (layers/attention/compressed.h). It also reads
 * LatentConfig.q_lora_rank and, in layers with an indexer, IndexerConfig. */
typedef struct CompressedConfig {
    uint32_t out_groups; /* parts of the heads' outputs that are projected by themselves */
    uint32_t out_rank;   /* to so many outputs each */
    uint32_t pool_rate[CONFIG_MAX_LAYERS]; /* positions of a pool; 0: the window alone */
} CompressedConfig;

/* Attention with a learned bias of distances (layers/attention/relative.h). */
typedef struct RelativeConfig {
    uint32_t dim;    /* numbers of a query's head that weigh the profiles of the bias */
    uint32_t extent; /* positions back that have a bias in layers without a window; a window's own
                      * length in the others */
    float head_clip; /* most that the norm of a query's or key's head may be: Inkling 2; 0 = heads
                      * are normalized instead */
    float clip;      /* the same of the numbers that weigh the profiles; 0 = no limit */
} RelativeConfig;

/* Experts of one neuron each, which a router finds by two keys (layers/experts/product_keys.h),
 * beside the feed-forward of every layer. */
typedef struct ProductConfig {
    uint32_t keys;      /* of each of both parts of a number: keys * keys experts */
    uint32_t count;     /* rows of the tables of experts, at least as many; 0: no such experts */
    uint32_t per_token; /* experts that a token uses */
} ProductConfig;

/* Mixtures of experts (layers/experts/mixture.h). A layer is one when it has a router; the
 * feed-forwards of other layers are ffn_dim wide. */
typedef struct ExpertsConfig {
    uint32_t count;      /* 0: no layer has experts */
    uint32_t per_token;  /* experts that the router chooses for each token (top-k) */
    uint32_t identity;   /* the last so many are identity experts: output = input; LongCat-Flash */
    bool identity_skips; /* the output of identity experts is 0: ZAYA */
    uint32_t always;     /* the last so many are chosen for every token, and counted in per_token:
                          * Inkling's shared experts */
    uint32_t ffn_dim;    /* width inside an expert */
    uint32_t dim;        /* width of what experts read and write in LAYER_LATENT_MOE and
                          * STACK_RESIDUAL_GATES; else 0 */
    uint32_t shared_ffn_dim; /* of an expert that every token uses: Qwen 2 MoE; 0 = none */
    float shared_scale;      /* of its output: Cohere's average of both; 1 = none */
    bool weight_on_input;    /* routing weights multiply inputs, not outputs: Llama 4 */
    float swiglu_limit; /* gate at most this, up within +- this and 1 added: GPT-OSS; 0 = none */
    /* gate * sigmoid(gate) * up with cap * tanh(x / cap) of the factors gate and up: Inkling 2; 0 =
     * none */
    float gate_softcap, up_softcap;
} ExpertsConfig;

/* How a router chooses a token's experts and weights them (layers/experts/routing.h). Groups,
 * rankings and normalize are read by routers with scores. */
typedef struct RouterConfig {
    RouterKind kind;
    float jitter;         /* of the sparse mixer */
    uint32_t groups;      /* experts lie in this many groups of equal size; 0 or 1: none */
    uint32_t groups_used; /* by each token */
    bool group_pairs;     /* softmax groups are ranked by their best two: Mistral 4 */
    bool groups_zero;     /* experts of unused groups rank 0 and may be chosen: A.X K2 */
    bool ranks_logits;    /* ranks are logits plus corrections, not scores: Kolibri */
    bool normalize;       /* routing weights are divided by the sum of the chosen scores */
    float sum_min;        /* least value of that sum */
    float scale;          /* of the routing weights */
    float softcap;        /* cap * tanh(logit / cap) before the score: Laguna; 0 = none */
    uint32_t dim;         /* width of the last of several layers that make the logits: ZAYA; 0 = the
                           * logits are a product of the row itself */
    float logit_scale;    /* of logits, before the score: Muse Spark; 0 = 1 */
} RouterConfig;

/* Layers that keep a state (layers/state/state_fields.h): gated DeltaNet, Mamba, lightning
 * attention, short convolutions, RG-LRU, RWKV, matrix LSTM. */
typedef struct StateConfig {
    uint32_t n_heads;     /* each with a state [key_dim][value_dim]; Mamba, RWKV: channels;
                           * RG-LRU: blocks of its gates, value_dim channels each */
    uint32_t n_key_heads; /* heads of q and k (Mamba 2: groups of C and B); divides n_heads */
    uint32_t key_dim;     /* of a head's q and k */
    uint32_t value_dim;   /* of a head's v */
    uint32_t conv_kernel; /* taps of the causal convolution */
    uint32_t mix_kernel;  /* taps of the second convolution, among the elements of a head:
                           * LAYER_CCA */
    uint32_t dt_rank;     /* Mamba: numbers that the step sizes of a row are made from */
    bool tiled;           /* head h reads q and k of head h % n_key_heads, not of its group */
    bool norm_first;      /* Mamba 2's output is normalized before its gate: Falcon-H1 */
    bool decay_by_key;    /* each element of a key has its own decay in DeltaNet: Kimi Linear */
    float norm_eps;       /* of the norms in these layers; 0 = Config.norm_eps */
    bool sigmoid_gate;    /* DeltaNet's output is gated by a sigmoid, not by SiLU: Qwen4-Exp */
    float beta;           /* of gated DeltaNet's learning rate: OLMo Hybrid; 0 = 1 */
    float decay_most; /* a state decays by at most exp(-decay_most) a token: Ling 3; 0 = no bound */
} StateConfig;

/* RWKV 4 (layers/state/rwkv.h). A layer also reads StateConfig.n_heads: the channels of time
 * mixing. */
typedef struct RwkvConfig {
    uint32_t
        rescale_every; /* the residual stream is halved after every so many layers; 0 = never */
} RwkvConfig;

/* Matrix LSTM (layers/state/mlstm.h). It also reads StateConfig's heads and their widths. */
typedef struct MlstmConfig {
    float gate_cap; /* cap * tanh(x / cap) of the input and forget gates */
    float eps;      /* added to the normalizer of a head's output */
} MlstmConfig;

/* AltUp (layers/arrangements/altup.c): several residual streams, one of which the layers compute.
 */
typedef struct AltupConfig {
    uint32_t active;      /* the stream that layers compute */
    bool scales;          /* scales the active stream before it gates a layer's input */
    uint32_t laurel_rank; /* of the low-rank map beside attention */
} AltupConfig;

/* Hyper-connections (layers/arrangements/hyper.c): several residual streams, mixed for each block.
 */
typedef struct HyperConfig {
    /* Rounds that normalize the rows and columns of the matrix that mixes the streams (Sinkhorn);
     * 0 = they do not mix. */
    uint32_t mix_rounds;
    float mix_scale; /* of the weights with which streams take a block's output */
    float mix_eps;   /* added to all of these weights */
} HyperConfig;

/* An input of each layer's own, from an embedding (layers/arrangements/per_layer.h): Gemma 3n
 * and 4. */
typedef struct PerLayerConfig {
    uint32_t dim;   /* width of a layer's input; 0 = none */
    uint32_t vocab; /* rows of the embedding; other tokens have row 0 */
} PerLayerConfig;

/* Embeddings of n-grams, which some layers with DeltaNet add (layers/arrangements/ngram.h):
 * Qwen4-Exp.
 */
typedef struct NgramConfig {
    NgramHashing hash;
    uint32_t dim;                      /* of all embeddings of a position together */
    uint32_t conv_kernel;              /* taps of the convolution, hash.size positions apart */
    uint32_t end_token;                /* stands for tokens before the start */
    uint32_t layer[CONFIG_MAX_LAYERS]; /* its number among the layers with n-grams; 0: none */
} NgramConfig;

/* Layers after the n_layers that predict further tokens (layers/arrangements/mtp.h). Arrays by
 * layer go on for them. */
typedef struct PredictionConfig {
    uint32_t n_layers;
} PredictionConfig;

typedef struct Config {
    char family[32]; /* transformers' model_type, for people */
    char name[128];  /* what the source calls itself, may be empty */

    uint32_t dim;        /* width of the residual stream */
    uint32_t n_layers;   /* blocks */
    uint32_t n_heads;    /* query heads */
    uint32_t n_kv_heads; /* key/value heads; divides n_heads */
    uint32_t head_dim;   /* width of one head; may differ from dim / n_heads */
    uint32_t value_dim;  /* width of one head's value; 0 = head_dim */
    uint32_t ffn_dim;    /* width inside the feed-forward block */
    uint32_t vocab_size; /* rows of the embedding */
    uint32_t context;    /* positions that the model was made for */

    NormKind norm;
    NormPlace norm_place;
    float norm_eps;
    float post_norm_eps;  /* of the norms after attention and feed-forward; 0 = norm_eps */
    float final_norm_eps; /* of the norm before the output head; 0 = norm_eps: JetMoE, RWKV */
    bool final_norm;
    bool parallel_block; /* x + attention(norm(x)) + ffn(norm(x)): GPT-J, Falcon, PaLM */

    PositionKind position;
    RopePairing rope_pairing;
    uint32_t rotary_dim;               /* rotated elements of a head, even; the rest pass */
    uint32_t rope_local_rotary_dim;    /* the same for layers with rope_table 1; 0 = rotary_dim */
    float rope_attention_factor;       /* multiplies sine and cosine: YaRN, LongRoPE; else 1 */
    float rope_local_attention_factor; /* the same for layers with rope_table 1 */
    float rope_theta;                  /* the base; for people, the table is a tensor */
    /* LongRoPE: contexts up to this use the table rope.freqs.short. Dynamic scaling: longer
     * ones stretch the base by this factor. 0 = none. */
    uint32_t rope_original_context;
    float rope_dynamic_factor;
    SinusoidLayout sinusoid_layout;
    float sinusoid_base;      /* 10000; for people, the frequencies are a tensor */
    uint32_t position_offset; /* added to positions before look-up: OPT 2 */

    float attention_scale;      /* 1 / sqrt(head_dim) in most models */
    bool attention_scale_falls; /* layer i divides scores by i + 1 as well: GPT-2 of Mistral */
    float attention_softcap;    /* cap * tanh(score / cap): Gemma 2; 0 = none */
    Activation gate_activation; /* of gates of the attention's output: sigmoid, Laguna's softplus */
    float value_scale;          /* of values: MiMo V2 Flash; 1 = none */
    float qkv_clip;             /* q, k, v clamped to +- this: MPT, OLMo; 0 = none */
    QkNorm qk_norm;
    /* The heads' norms are layer norms with this epsilon, whatever `norm` is: Chameleon; 0 = as
     * other norms. */
    float qk_layer_norm_eps;
    /* The heads' norms come after the rotation, and layers without one have no norms: HunYuan,
     * Llama 4. */
    bool qk_norm_after_rope;
    /* Queries are multiplied by 1 + query_scaling * log(1 + floor(position / query_scaling_floor)):
     * Ministral 3; 0 = none. */
    float query_scaling;
    uint32_t query_scaling_floor;
    bool query_scaling_unrotated; /* in layers without RoPE, positions counted from 1: Llama 4 */
    bool query_power;      /* by (1 + position / query_scaling_floor) ^ query_scaling: Beam */
    bool value_norm;       /* each head's value is normalized, without weights: Gemma 3n and 4 */
    bool head_output_norm; /* so is each head's output, before its gate: Muse Spark */
    float alibi_max_bias;  /* 8; for people, the slopes are a tensor */

    Activation activation;
    bool gated;        /* activation(gate(x)) * up(x), else activation(up(x)) */
    bool limit_first;  /* limits of gates hold before their activation: Hy 4 */
    bool round_inputs; /* what a norm gives is rounded to 8 bits by row: BitNet */

    float embedding_scale; /* sqrt(dim) in Gemma; 1 = none */
    float residual_scale;  /* each f(x) before it is added: Granite; 1 = none */
    float logit_scale;     /* logits times this: Cohere, Granite; 1 = none */
    float logit_softcap;   /* Gemma 2; 0 = none */

    /* Per layer, by value: config.c says why. */
    uint32_t window[CONFIG_MAX_LAYERS];     /* sees this many positions, itself included; 0 = all */
    uint32_t rope_table[CONFIG_MAX_LAYERS]; /* 0: rope.freqs, 1: rope.freqs.1; 2: not rotated */
    uint32_t chunk[CONFIG_MAX_LAYERS];      /* sees its chunk of this many positions: Llama 4 */
    uint32_t layer_kind[CONFIG_MAX_LAYERS]; /* LayerKindNumber */
    /* Where layers differ: 0 = the model's field of the same name. config_heads answers for both.
     */
    uint32_t layer_n_heads[CONFIG_MAX_LAYERS];
    uint32_t layer_n_kv_heads[CONFIG_MAX_LAYERS];
    uint32_t layer_head_dim[CONFIG_MAX_LAYERS];
    uint32_t layer_ffn_dim[CONFIG_MAX_LAYERS];
    uint32_t without_ffn[CONFIG_MAX_LAYERS]; /* 1: the layer has no feed-forward: Nemotron-H */
    /* Reads the keys and values of the layer so many layers before it, and has none of its own:
     * Gemma 3n and 4. 0 = its own. */
    uint32_t kv_distance[CONFIG_MAX_LAYERS];

    int32_t bos_id; /* -1: none. Put before the text when add_bos */
    bool add_bos;
    uint32_t n_eos;
    uint32_t eos_id[16]; /* every one of them ends the text */

    /* Mechanisms that only some families have. */
    ExpertsConfig experts;
    RouterConfig router;
    LatentConfig latent;
    IndexerConfig indexer;
    CompressedConfig compressed;
    RelativeConfig relative;
    uint32_t mask_keep; /* LAYER_DYNAMIC_MASK: positions that each key/value head attends to */
    ProductConfig product;
    StateConfig state;
    RwkvConfig rwkv;
    MlstmConfig mlstm;
    uint32_t shared_blocks; /* blocks that layers share in turn: Zamba 2 */
    StackNumber stack;
    AltupConfig altup;
    HyperConfig hyper;
    /* Mechanisms that no model combines have one key in model.bin, and each its own name here:
     * model.bin's key is the first name. */
    union {
        uint32_t altup_streams; /* STACK_ALTUP: residual streams */
        uint32_t hyper_streams; /* STACK_HYPER: residual streams */
        uint32_t gated_streams; /* STACK_GATED_STREAMS: residual streams */
        uint32_t loops;      /* STACK_LOOPED, STACK_BLOCK_SUMS with loop_layers: runs of the middle
                              * layers */
        uint32_t low_cycles; /* STACK_CYCLES: runs of the low stack before each of the high one */
    };
    union {
        uint32_t adapter_rank;     /* LAYER_SHARED: rank of the adapters of a shared block */
        uint32_t norm_gate_rank;   /* STACK_MIXED_NORMS: rank of the gates of norms; 0 = no gates */
        uint32_t stream_gate_rank; /* STACK_GATED_STREAMS: rank of the gates that read them */
        uint32_t message_rank;     /* STACK_BLOCK_SUMS with loop_layers: rank of messages' gates */
    };
    uint32_t block_layers; /* STACK_BLOCK_SUMS: layers of a block; STACK_CYCLES: of each stack;
                            * STACK_LOOPED: of each run */
    uint32_t loop_from;    /* STACK_LOOPED, STACK_BLOCK_SUMS: layers before the first run */
    uint32_t loop_layers; /* STACK_BLOCK_SUMS: middle layers, which run `loops` times; 0: none do */
    PerLayerConfig per_layer;
    NgramConfig ngram;
    bool residual_by_depth; /* divides each sum so that all its parts weigh the same: Beam */
    PredictionConfig mtp;
} Config;

/* The heads of one layer: queries [n_heads][head_dim], keys [n_kv_heads][head_dim], values
 * [n_kv_heads][value_dim]. rotary_dim elements of a head are rotated. */
typedef struct HeadShape {
    uint32_t n_heads, n_kv_heads, head_dim, value_dim, rotary_dim;
} HeadShape;
HeadShape config_heads(const Config *config, size_t layer);
/* Refuses a rotary_dim that the rotation of a layer's heads cannot use; any will do where they are
 * not rotated. */
Status config_check_rotary(const Config *config, uint32_t layer, Error *error);
/* Latent attention of one layer: LatentConfig's fields, and Config's attention_scale. */
typedef struct LatentShape {
    uint32_t kv_lora_rank, q_lora_rank;
    float scale, attention_scale;
} LatentShape;
LatentShape config_latent(const Config *config, size_t layer);
/* Width inside the feed-forward block of the layer. */
uint32_t config_ffn_dim(const Config *config, size_t layer);

/* The defaults of a llama: the exporter starts from these. */
Config config_default(void);

/* One row of the table of fields (config_fields.h). */
typedef enum FieldKind {
    FIELD_UINT,
    FIELD_INT,
    FIELD_FLOAT,
    FIELD_BOOL,
    FIELD_ENUM,
    FIELD_TEXT,
    FIELD_PER_LAYER, /* uint32_t[CONFIG_MAX_LAYERS]; not written when all are 0 */
    FIELD_LIST       /* uint32_t[capacity] and a count */
} FieldKind;

typedef struct ConfigField {
    const char *name;
    FieldKind kind;
    size_t offset;            /* in Config */
    bool not_negative;        /* FIELD_FLOAT */
    uint32_t least, most;     /* FIELD_UINT: the limits; FIELD_PER_LAYER: `most` alone */
    const char *const *names; /* FIELD_ENUM: NULL-terminated, in the enum's order */
    size_t capacity;          /* FIELD_TEXT: bytes; FIELD_LIST: most elements */
    size_t count_offset;      /* FIELD_LIST: of the uint32_t count in Config */
} ConfigField;

#endif
