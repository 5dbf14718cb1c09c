#include "families/reading/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config_fields.h"
#include "formats/family/alibi.h"
#include "formats/family/prediction.h"
#include "families/reading/random_tokenizer.h"
#include "formats/family/rope.h"

/* ---- Shapes ---- */

typedef struct Shape {
    Config config;
    uint32_t tied, bias, window, window_pattern, dense, full_head_dim, shared_layers, attend;
    uint32_t chunk, full_n_heads,
        full_n_kv_heads;    /* of layers with, and without a chunk or window */
    uint32_t weight_groups; /* layers that follow each other share weights; 0: none do */
    bool says_gated;        /* the settings do */
} Shape;

/* What all sizes of GPT-2 share. */
#define GPT2                                                                                       \
    "norm=layer,position=learned,gated=0,activation=gelu_tanh,tied=1,bias=1,vocab_size=50257,"     \
    "context=1024"

static const struct {
    const char *name, *settings;
} named[] = {
    {"tinyllama-1.1b", "dim=2048,n_layers=22,n_heads=32,n_kv_heads=4,ffn_dim=5632,"
                       "vocab_size=32000,context=2048"},
    /* The decoders of papers, in the sizes that these give. */
    {"paper-base", "dim=512,n_layers=6,n_heads=8,ffn_dim=2048,vocab_size=37000,context=512,"
                   "norm=layer,norm_place=after,final_norm=0,position=sinusoidal,gated=0,"
                   "activation=relu,embedding_scale=22.627417,tied=1,bias=1"},
    {"gpt2", "dim=768,n_layers=12,n_heads=12," GPT2},
    {"gpt2-medium", "dim=1024,n_layers=24,n_heads=16," GPT2},
    {"gpt2-large", "dim=1280,n_layers=36,n_heads=20," GPT2},
    {"gpt2-xl", "dim=1600,n_layers=48,n_heads=25," GPT2},
    {"llama2-7b", "dim=4096,n_layers=32,n_heads=32,ffn_dim=11008,vocab_size=32000,context=4096"},
    {"llama2-13b", "dim=5120,n_layers=40,n_heads=40,ffn_dim=13824,vocab_size=32000,context=4096"},
    {"llama2-70b", "dim=8192,n_layers=80,n_heads=64,n_kv_heads=8,ffn_dim=28672,vocab_size=32000,"
                   "context=4096"},
    {"llama3-8b", "dim=4096,n_layers=32,n_heads=32,n_kv_heads=8,ffn_dim=14336,vocab_size=128256,"
                  "context=8192,rope_theta=500000"},
    {"mistral-7b", "dim=4096,n_layers=32,n_heads=32,n_kv_heads=8,ffn_dim=14336,vocab_size=32000,"
                   "context=32768,window=4096"},
    {"mixtral-8x7b", "dim=4096,n_layers=32,n_heads=32,n_kv_heads=8,ffn_dim=14336,n_experts=8,"
                     "n_experts_used=2,router=softmax_chosen,vocab_size=32000,context=32768,"
                     "rope_theta=1000000"},
    {"palm-540b", "dim=18432,n_layers=118,n_heads=48,n_kv_heads=1,head_dim=256,ffn_dim=73728,"
                  "vocab_size=256000,context=2048,tied=1,parallel_block=1"},
    {"stories15m", "dim=288,n_layers=6,n_heads=6,n_kv_heads=6,ffn_dim=768,vocab_size=32000,"
                   "context=256,tied=1"},
    {"moe-8x2", "dim=1024,n_layers=12,n_heads=16,n_kv_heads=4,n_experts=8,n_experts_used=2,"
                "expert_ffn_dim=3584,vocab_size=32000,context=2048,router=softmax_chosen"},
    /* The proportions of DeepSeek-V2-Lite and of GLM-4.7-Flash. */
    {"mla-16b", "dim=2048,n_layers=27,n_heads=16,head_dim=192,rotary_dim=64,value_dim=128,"
                "latent_dim=512,ffn_dim=10944,n_experts=64,n_experts_used=6,expert_ffn_dim=1408,"
                "shared_ffn_dim=2816,dense=1,vocab_size=102400,context=32768,"
                "rope_pairing=interleaved,router=softmax_scores"},
    {"mla-30b", "dim=2048,n_layers=47,n_heads=20,head_dim=256,rotary_dim=64,value_dim=256,"
                "latent_dim=512,latent_q_dim=768,ffn_dim=10240,n_experts=64,n_experts_used=4,"
                "expert_ffn_dim=1536,shared_ffn_dim=1536,dense=1,vocab_size=154880,context=32768,"
                "rope_pairing=interleaved,router=sigmoid_scores,router_normalize=1,"
                "router_scale=1.8"},
    /* The proportions of Gemma 4 E4B. */
    {"gemma4-e4b",
     "dim=2560,n_layers=42,n_heads=8,n_kv_heads=2,head_dim=256,full_head_dim=512,ffn_dim=10240,"
     "vocab_size=262144,context=131072,window=512,window_pattern=6,shared_layers=18,tied=1,"
     "stack=gemma4,norm_place=around,qk_norm=head,value_norm=1,attention_scale=0.0625,"
     "activation=gelu_tanh,logit_softcap=30,per_layer_dim=256,per_layer_vocab=262144"},
    /* The proportions of Qwen 3.5's 0.8B and 4B. */
    {"delta-0.8b", "dim=1024,n_layers=24,n_heads=8,n_kv_heads=2,head_dim=256,rotary_dim=64,"
                   "ffn_dim=3584,state_heads=16,state_key_heads=16,state_key_dim=128,"
                   "state_value_dim=128,state_kernel=4,qk_norm=head,tied=1,vocab_size=248320,"
                   "context=32768"},
    {"delta-4b", "dim=2560,n_layers=32,n_heads=16,n_kv_heads=4,head_dim=256,rotary_dim=64,"
                 "ffn_dim=9216,state_heads=32,state_key_heads=16,state_key_dim=128,"
                 "state_value_dim=128,state_kernel=4,qk_norm=head,tied=1,vocab_size=248320,"
                 "context=32768"},
    /* the shape of the 35B-A3B model */
    {"delta-35b", "dim=2048,n_layers=40,n_heads=16,n_kv_heads=2,head_dim=256,rotary_dim=64,"
                  "n_experts=256,n_experts_used=8,expert_ffn_dim=512,shared_ffn_dim=512,"
                  "router=softmax_chosen,state_heads=32,state_key_heads=16,state_key_dim=128,"
                  "state_value_dim=128,state_kernel=4,qk_norm=head,vocab_size=248320,"
                  "context=32768"},
    {"tiny", "dim=64,n_layers=2,n_heads=4,n_kv_heads=2,ffn_dim=96,vocab_size=300,context=128"},
};

static Status set_enum(const ConfigField *field, const char *value, unsigned *out, Error *error) {
    for (unsigned i = 0; field->names[i]; i++) {
        if (strcmp(field->names[i], value) != 0) continue;
        *out = i;
        return STATUS_OK;
    }
    return error_set(error, "random: %s has no value '%s'", field->name, value);
}

static Status set_field(Config *config, const ConfigField *field, const char *value, Error *error) {
    void *out = (char *)config + field->offset;
    if (field->kind == FIELD_ENUM) return set_enum(field, value, out, error);
    char *end;
    double number = strtod(value, &end);
    bool proper = end != value && *end == '\0' && isfinite(number);
    bool whole = proper && number == floor(number) && number >= -1 &&
                 number <= (field->kind == FIELD_INT ? INT32_MAX : UINT32_MAX);
    if (field->kind == FIELD_FLOAT ? !proper : !whole)
        return error_set(error, "random: %s cannot be '%s'", field->name, value);
    if (field->kind == FIELD_FLOAT) *(float *)out = (float)number;
    if (field->kind == FIELD_BOOL) *(bool *)out = number != 0.0;
    if (field->kind == FIELD_INT) *(int32_t *)out = (int32_t)number;
    if (field->kind == FIELD_UINT && number < 0)
        return error_set(error, "random: %s cannot be '%s'", field->name, value);
    if (field->kind == FIELD_UINT) *(uint32_t *)out = (uint32_t)number;
    return STATUS_OK;
}

/* Sets "key=value" of a random model: one of the extras here, or a field of Config by its name. */
static Status set_key(Shape *shape, const char *key, const char *value, Error *error) {
    const struct {
        const char *name;
        uint32_t *value;
    } extras[] = {{"tied", &shape->tied},
                  {"bias", &shape->bias},
                  {"window", &shape->window},
                  {"window_pattern", &shape->window_pattern},
                  {"dense", &shape->dense},
                  {"full_head_dim", &shape->full_head_dim},
                  {"shared_layers", &shape->shared_layers},
                  {"attend", &shape->attend},
                  {"chunk", &shape->chunk},
                  {"full_n_heads", &shape->full_n_heads},
                  {"full_n_kv_heads", &shape->full_n_kv_heads},
                  {"weight_groups", &shape->weight_groups}};
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++) {
        if (strcmp(extras[i].name, key) != 0) continue;
        *extras[i].value = (uint32_t)strtoul(value, NULL, 10);
        return STATUS_OK;
    }
    const ConfigField *field;
    shape->says_gated |= strcmp(key, "gated") == 0;
    for (size_t i = 0; (field = config_field(i)); i++)
        if (strcmp(field->name, key) == 0 && field->kind != FIELD_TEXT &&
            field->kind != FIELD_PER_LAYER && field->kind != FIELD_LIST)
            return set_field(&shape->config, field, value, error);
    return error_set(error, "random: no setting is called '%s'", key);
}

static Status no_shape(const char *name, Error *error) {
    char list[500] = "";
    for (size_t i = 0, at = 0; i < sizeof named / sizeof *named; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s, ", named[i].name);
    return error_set(error, "random: no shape is called '%s' (%sor key=value,...)", name, list);
}

static Status random_apply(Shape *shape, const char *settings, Error *error) {
    char *copy = strdup(settings), *rest = copy, *part;
    Status status = copy ? STATUS_OK : error_set(error, "random: no memory");
    while (status == STATUS_OK && (part = strsep(&rest, ","))) {
        char *equals = strchr(part, '=');
        if (equals) {
            *equals = '\0';
            status = set_key(shape, part, equals + 1, error);
            continue;
        }
        size_t i = 0, n = sizeof named / sizeof *named;
        while (i < n && strcmp(named[i].name, part) != 0) i++;
        status = i < n ? random_apply(shape, named[i].settings, error) : no_shape(part, error);
    }
    free(copy);
    return status;
}

/* Gives the layers without a window heads of full_head_dim elements and a RoPE table of their own,
 * and lets the last shared_layers layers read the keys of earlier ones of their kind. */
static void set_full_layers(Shape *shape) {
    Config *c = &shape->config;
    uint32_t shared = shape->shared_layers < c->n_layers ? shape->shared_layers : 0;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        c->rope_table[i] = c->window[i] > 0;
        if (c->window[i] == 0) c->layer_head_dim[i] = shape->full_head_dim;
    }
    c->rotary_dim = shape->full_head_dim;
    c->rope_local_rotary_dim = c->head_dim;
    for (uint32_t i = c->n_layers - shared; i < c->n_layers; i++) {
        uint32_t from = c->n_layers - shared;
        while (from > 0 && c->window[from - 1] != c->window[i]) from--;
        if (from > 0) c->kv_distance[i] = i - (from - 1);
    }
}

/* The number of heads of models of this width: heads of 128 from 4096 on, else of 64, or of the
 * next smaller power of two that divides the width. */
static uint32_t usual_heads(uint32_t dim, uint32_t head_dim) {
    if (head_dim > 0) return dim / head_dim > 0 ? dim / head_dim : 1;
    head_dim = dim >= 4096 ? 128 : 64;
    while (head_dim > 2 && dim % head_dim != 0) head_dim /= 2;
    return dim / head_dim;
}

/* Sets the fields that were not given to what follows from the others. */
static void random_complete(Shape *shape) {
    Config *c = &shape->config;
    if (c->n_heads == 0) c->n_heads = usual_heads(c->dim, c->head_dim);
    if (c->vocab_size == 0) c->vocab_size = 32000;
    if (c->n_kv_heads == 0) c->n_kv_heads = c->n_heads;
    if (c->head_dim == 0 && c->n_heads) c->head_dim = c->dim / c->n_heads;
    if (c->rotary_dim == 0) c->rotary_dim = c->head_dim;
    if (c->ffn_dim == 0) c->ffn_dim = 4 * c->dim;
    if (c->experts.count > 0 && c->experts.ffn_dim == 0) c->experts.ffn_dim = c->ffn_dim;
    if (c->experts.count > 0 && c->experts.per_token == 0) c->experts.per_token = 2;
    if (c->context == 0) c->context = 2048;
    if (c->attention_scale == 0.0f)
        c->attention_scale = 1.0f / sqrtf((float)(c->head_dim ? c->head_dim : 1));
    for (uint32_t i = 0; i < CONFIG_MAX_LAYERS; i++) {
        bool sees_all = shape->window_pattern > 0 && (i + 1) % shape->window_pattern == 0;
        c->window[i] = sees_all ? 0 : shape->window;
        c->chunk[i] = sees_all ? 0 : shape->chunk;
        if (sees_all && i < c->n_layers) {
            c->layer_n_heads[i] = shape->full_n_heads;
            c->layer_n_kv_heads[i] = shape->full_n_kv_heads;
        }
    }
    if (shape->full_head_dim > 0 && c->n_layers <= CONFIG_MAX_LAYERS) set_full_layers(shape);
    if (shape->attend == 0) shape->attend = 4;
    for (uint32_t i = 0; c->state.conv_kernel > 0 && i < CONFIG_MAX_LAYERS; i++)
        if ((i + 1) % shape->attend != 0)
            c->layer_kind[i] = c->state.n_heads > 0 ? LAYER_DELTA : LAYER_CONVOLUTION;
    if (c->latent.kv_lora_rank == 0) return;
    if (c->latent.norm_eps == 0.0f) c->latent.norm_eps = 1e-6f;
    for (uint32_t i = 0; i < CONFIG_MAX_LAYERS; i++) {
        c->layer_kind[i] = LAYER_LATENT;
        if (c->indexer.topk > 0) c->indexer.layer[i] = i % 3 == 2 ? INDEXER_SHARED : INDEXER_OWN;
    }
}

/* ---- Tensors ---- */

typedef struct Generator {
    Source *source;
    const Shape *shape;
    Error *error;
    int layer; /* -1: none */
    bool failed;
} Generator;

static SourceTensor *random_add(Generator *g, const char *name, const char *suffix, size_t rows,
                                size_t cols) {
    if (g->failed) return NULL;
    SourceTensor *t =
        g->layer < 0 ? source_add(g->source, g->error, "%s%s", name, suffix)
                     : source_add(g->source, g->error, "layers.%d.%s%s", g->layer, name, suffix);
    g->failed = !t;
    if (!t) return NULL;
    t->stored = STORED_RANDOM;
    t->is_vector = true;
    t->rows = rows;
    t->cols = cols;
    t->spread = 0.25f;
    return t;
}

/* Adds a matrix that multiplies the deviation of what goes through it by about `gain` (uniform
 * values between -s and s deviate by s / sqrt(3)). */
static void add_matrix(Generator *g, const char *name, size_t rows, size_t cols, float gain) {
    SourceTensor *t = random_add(g, name, "", rows, cols);
    if (!t) return;
    t->is_vector = false;
    t->spread = gain * sqrtf(3.0f / (float)cols);
    if (g->shape->bias) random_add(g, name, ".bias", 1, rows);
}

static void add_norm(Generator *g, const char *name, size_t n) {
    SourceTensor *t = random_add(g, name, "", 1, n);
    if (t) t->center = 1.0f, t->spread = 0.5f;
    if (g->shape->config.norm == NORM_LAYER) random_add(g, name, ".bias", 1, n);
}

/* Adds a feed-forward; `of` is "", "shared." or "experts.N.". */
static void add_feed_forward(Generator *g, const char *of, uint32_t width) {
    const Config *c = &g->shape->config;
    char name[MODELFILE_NAME_BYTES];
    snprintf(name, sizeof name, "%sw_gate", of);
    if (c->gated) add_matrix(g, name, width, c->dim, 1.2f);
    snprintf(name, sizeof name, "%sw_up", of);
    add_matrix(g, name, width, c->dim, 1.2f);
    snprintf(name, sizeof name, "%sw_down", of);
    add_matrix(g, name, c->dim, width, 1.2f);
}

static void add_experts(Generator *g) {
    const Config *c = &g->shape->config;
    add_matrix(g, "router", c->experts.count, c->dim, 2.0f);
    for (uint32_t i = 0; i < c->experts.count - c->experts.identity && !g->failed; i++) {
        char of[32];
        snprintf(of, sizeof of, "experts.%u.", i);
        add_feed_forward(g, of, c->experts.ffn_dim);
    }
    if (c->experts.shared_ffn_dim == 0) return;
    add_feed_forward(g, "shared.", c->experts.shared_ffn_dim);
    add_matrix(g, "shared.router", 1, c->dim, 1.2f);
}

/* The weights of latent attention (layers/attention/latent.h). */
static void add_latent(Generator *g, const Config *c) {
    const HeadShape h = config_heads(c, 0);
    size_t q_dim = (size_t)h.n_heads * h.head_dim;
    if (c->latent.q_lora_rank > 0) {
        add_matrix(g, "wq_a", c->latent.q_lora_rank, c->dim, 1.2f);
        add_norm(g, "q_norm", c->latent.q_lora_rank);
        add_matrix(g, "wq_b", q_dim, c->latent.q_lora_rank, 1.6f);
    } else {
        add_matrix(g, "wq", q_dim, c->dim, 1.6f);
    }
    if (c->indexer.layer[g->layer] == INDEXER_OWN) {
        add_matrix(g, "indexer.wq", c->indexer.n_heads * c->indexer.head_dim, c->latent.q_lora_rank,
                   1.6f);
        add_matrix(g, "indexer.wk", c->indexer.head_dim, c->dim, 1.6f);
        add_norm(g, "indexer.k_norm", c->indexer.head_dim);
        random_add(g, "indexer.k_norm.bias", "", 1, c->indexer.head_dim);
        add_matrix(g, "indexer.weights", c->indexer.n_heads, c->dim, 1.2f);
    }
    add_matrix(g, "wkv_a", c->latent.kv_lora_rank + h.rotary_dim, c->dim, 1.2f);
    add_norm(g, "kv_norm", c->latent.kv_lora_rank);
    for (uint32_t i = 0; i < h.n_heads && !g->failed; i++) {
        char name[32];
        snprintf(name, sizeof name, "k_b.%u", i);
        add_matrix(g, name, c->latent.kv_lora_rank, h.head_dim - h.rotary_dim, 1.0f);
        snprintf(name, sizeof name, "v_b.%u", i);
        add_matrix(g, name, h.value_dim, c->latent.kv_lora_rank, 1.2f);
    }
    add_matrix(g, "wo", c->dim, (size_t)h.n_heads * h.value_dim, 1.2f);
}

static void add_attention(Generator *g, const Config *c) {
    const HeadShape h = config_heads(c, (size_t)g->layer);
    size_t q_dim = (size_t)h.n_heads * h.head_dim, kv_dim = (size_t)h.n_kv_heads * h.head_dim;
    bool has_keys = c->kv_distance[g->layer] == 0, by_head = c->qk_norm == QK_NORM_HEAD;
    add_matrix(g, "wq", q_dim, c->dim, 1.6f);
    if (has_keys) add_matrix(g, "wk", kv_dim, c->dim, 1.6f);
    if (has_keys) add_matrix(g, "wv", kv_dim, c->dim, 1.2f);
    add_matrix(g, "wo", c->dim, q_dim, 1.2f);
    if (c->state.n_heads > 0) add_matrix(g, "attention_gate", q_dim, c->dim, 1.2f);
    if (c->qk_norm == QK_NORM_NONE) return;
    add_norm(g, "q_norm", by_head ? h.head_dim : q_dim);
    if (has_keys) add_norm(g, "k_norm", by_head ? h.head_dim : kv_dim);
}

/* What Gemma 4's stack has beside a plain one, of a layer or (g->layer -1) of the model. */
static void add_gemma4(Generator *g, const Config *c) {
    size_t p = c->per_layer.dim;
    if (g->layer < 0 && p > 0) {
        SourceTensor *table =
            random_add(g, "per_layer.embedding", "", c->per_layer.vocab, c->n_layers * p);
        if (table) table->is_vector = false, table->spread = 1.0f;
        add_matrix(g, "per_layer.projection", c->n_layers * p, c->dim, 1.2f);
        add_norm(g, "per_layer.norm", p);
    }
    if (g->layer < 0) return;
    if (p > 0) {
        add_matrix(g, "per_layer.gate", p, c->dim, 1.2f);
        add_matrix(g, "per_layer.projection", c->dim, p, 1.2f);
        add_norm(g, "per_layer.norm", c->dim);
    }
    if (c->experts.count == 0) return;
    add_norm(g, "router_scale", c->dim);
    add_norm(g, "router.correction", c->experts.count);
    add_norm(g, "expert_norm", c->dim);
    add_norm(g, "post_expert_norm", c->dim);
    add_norm(g, "post_dense_norm", c->dim);
}

/* A vector of rows x cols within center +- spread. */
static void add_vector(Generator *g, const char *name, size_t rows, size_t cols, float center,
                       float spread) {
    SourceTensor *t = random_add(g, name, "", rows, cols);
    if (t) t->center = center, t->spread = spread;
}

/* The weights of gated DeltaNet (layers/state/delta.h). */
static void add_delta(Generator *g, const Config *c) {
    size_t keys = (size_t)c->state.n_key_heads * c->state.key_dim;
    size_t values = (size_t)c->state.n_heads * c->state.value_dim;
    add_matrix(g, "delta.q", keys, c->dim, 1.2f);
    add_matrix(g, "delta.k", keys, c->dim, 1.2f);
    add_matrix(g, "delta.v", values, c->dim, 1.2f);
    add_matrix(g, "delta.z", values, c->dim, 1.2f);
    add_matrix(g, "delta.a", c->state.n_heads, c->dim, 1.2f);
    add_matrix(g, "delta.b", c->state.n_heads, c->dim, 1.2f);
    add_matrix(g, "delta.out", c->dim, values, 1.2f);
    add_vector(g, "delta.convolution", c->state.conv_kernel, 2 * keys + values, 0.0f, 0.75f);
    add_vector(g, "delta.decay", 1, c->state.n_heads, -0.25f, 0.25f);
    add_vector(g, "delta.step_bias", 1, c->state.n_heads, 0.0f, 1.0f);
    add_norm(g, "delta.norm", c->state.value_dim);
}

static void add_convolution(Generator *g, const Config *c) {
    add_matrix(g, "convolution.b", c->dim, c->dim, 1.2f);
    add_matrix(g, "convolution.c", c->dim, c->dim, 1.2f);
    add_matrix(g, "convolution.x", c->dim, c->dim, 1.2f);
    add_matrix(g, "convolution.out", c->dim, c->dim, 1.2f);
    add_vector(g, "convolution.taps", c->state.conv_kernel, c->dim, 0.0f, 0.75f);
}

/* Adds random tensors for all that layer g->layer has in a model of this shape. */
static void add_layer(Generator *g) {
    const Config *c = &g->shape->config;
    bool at_end = c->norm_place == NORM_OUTPUT || c->norm_place == NORM_AROUND;
    if (c->norm_place != NORM_OUTPUT) add_norm(g, "attention_norm", c->dim);
    if (c->layer_kind[g->layer] == LAYER_LATENT) {
        add_latent(g, c);
    } else if (c->layer_kind[g->layer] == LAYER_DELTA) {
        add_delta(g, c);
    } else if (c->layer_kind[g->layer] == LAYER_CONVOLUTION) {
        add_convolution(g, c);
    } else {
        add_attention(g, c);
    }
    if (at_end) add_norm(g, "post_attention_norm", c->dim);
    if (c->norm_place != NORM_OUTPUT && !c->parallel_block) add_norm(g, "ffn_norm", c->dim);
    bool mixes = c->experts.count > 0 && g->layer >= (int)g->shape->dense;
    if (c->stack == STACK_SHORTCUT) mixes = g->layer % 2 == 0;
    if (mixes) add_experts(g);
    if (!mixes || c->stack == STACK_GEMMA4 || c->stack == STACK_SHORTCUT)
        add_feed_forward(g, "", c->ffn_dim);
    if (c->stack == STACK_GEMMA4) add_gemma4(g, c);
    if (at_end) add_norm(g, "post_ffn_norm", c->dim);
}

/* What a prediction layer has beside its layer. */
static void add_prediction(Generator *g) {
    const Config *c = &g->shape->config;
    add_norm(g, "mtp.embedding_norm", c->dim);
    add_norm(g, "mtp.hidden_norm", c->dim);
    add_matrix(g, "mtp.projection", c->dim, 2 * (size_t)c->dim, 1.2f);
    add_norm(g, "mtp.final_norm", c->dim);
}

static Status add_tables(Source *source, const Config *c, Error *error) {
    Status status = STATUS_OK;
    if (c->position == POSITION_ROPE) {
        status = source_add_values(source, "rope.freqs", 1, c->rotary_dim / 2,
                                   rope_inverse_frequencies(c->rope_theta, c->rotary_dim), error);
        bool second = false;
        uint32_t local = c->rope_local_rotary_dim ? c->rope_local_rotary_dim : c->rotary_dim;
        for (uint32_t i = 0; i < c->n_layers; i++) second = second || c->rope_table[i] == 1;
        if (status == STATUS_OK && second)
            status = source_add_values(source, "rope.freqs.1", 1, local / 2,
                                       rope_inverse_frequencies(1e6, local), error);
    } else if (c->position == POSITION_SINUSOIDAL) {
        status = source_add_values(source, "sinusoid.freqs", 1, c->dim / 2,
                                   rope_inverse_frequencies(c->sinusoid_base, c->dim), error);
    } else if (c->position == POSITION_ALIBI) {
        status = source_add_values(source, "alibi.slopes", 1, c->n_heads, alibi_slopes(c), error);
    }
    return status;
}

/* Refuses groups of layers that do not have the same tensors. */
static Status check_groups(const Shape *shape, Error *error) {
    const Config *c = &shape->config;
    if (shape->weight_groups == 0) return STATUS_OK;
    if (shape->weight_groups > c->n_layers || c->n_layers % shape->weight_groups != 0)
        return error_set(error, "random: %u layers cannot share the weights of %u", c->n_layers,
                         shape->weight_groups);
    if (shape->dense || shape->full_head_dim || shape->full_n_heads || c->state.conv_kernel ||
        c->indexer.topk || c->mtp.n_layers || c->stack != STACK_PLAIN)
        return error_set(error, "random: layers of different kinds cannot share weights");
    return STATUS_OK;
}

/* The family whose adapters fit the shape; "random": a shape of no family that is known here. */
static const char *family_of(const Config *c) {
    bool has_rope = c->position == POSITION_ROPE && c->gated, is_rms = c->norm == NORM_RMS;
    if (c->stack == STACK_GEMMA4) return "gemma4_text";
    if (c->stack != STACK_PLAIN || c->norm_place != NORM_BEFORE || c->parallel_block ||
        c->state.conv_kernel > 0 || c->latent.kv_lora_rank > 0)
        return "random";
    if (is_rms && has_rope) return c->experts.count > 0 ? "mixtral" : "llama";
    return !is_rms && c->position == POSITION_LEARNED && !c->gated ? "gpt2" : "random";
}

Status random_parse(Source *source, const char *settings, Error *error) {
    Shape shape = {.config = config_default()};
    if (random_apply(&shape, settings, error) != STATUS_OK) return STATUS_FAILED;
    random_complete(&shape);
    Config *c = &shape.config;
    strcpy(c->family, family_of(c));
    snprintf(c->name, sizeof c->name, "random:%.100s", settings);
    if (config_validate(c, error) != STATUS_OK) return error_prefix(error, "random");
    if (c->gated && !shape.says_gated && c->norm == NORM_LAYER)
        source_add_note(source,
                        "random: the feed-forward is gated, of three matrices; gated=0 makes "
                        "it that of GPT-2 and of the paper, of two");
    if (c->stack == STACK_ALTUP)
        return error_set(error, "random: a stack of the kind 'altup' cannot be made");
    if (c->mtp.n_layers > 0 && (c->stack != STACK_PLAIN || c->n_layers > CONFIG_MAX_LAYERS / 2))
        return error_set(error,
                         "random: prediction layers with a stack of its own, or of %u layers",
                         c->n_layers);
    if (check_groups(&shape, error) != STATUS_OK) return STATUS_FAILED;
    uint32_t n_layers = c->n_layers;
    if (shape.weight_groups) c->n_layers = shape.weight_groups;
    prediction_fields(c);
    source->config = *c;

    Generator g = {.source = source, .shape = &shape, .error = error, .layer = -1};
    SourceTensor *embedding = random_add(&g, "token_embedding", "", c->vocab_size, c->dim);
    if (embedding) embedding->is_vector = false, embedding->spread = 1.0f;
    if (c->position == POSITION_LEARNED)
        random_add(&g, "position_embedding", "", (size_t)c->context + c->position_offset, c->dim);
    for (g.layer = 0; g.layer < (int)(c->n_layers + c->mtp.n_layers); g.layer++) {
        add_layer(&g);
        if (g.layer >= (int)c->n_layers) add_prediction(&g);
    }
    g.layer = -1;
    if (c->stack == STACK_GEMMA4) add_gemma4(&g, c);
    if (c->final_norm) add_norm(&g, "final_norm", c->dim);
    if (!shape.tied) add_matrix(&g, "output", c->vocab_size, c->dim, 2.0f);
    if (g.failed || (shape.tied && source_add_shared(source, "output", "token_embedding",
                                                     c->vocab_size, c->dim, error) != STATUS_OK))
        return STATUS_FAILED;
    if (add_tables(source, c, error) != STATUS_OK ||
        source_share_layers(source, n_layers, error) != STATUS_OK)
        return STATUS_FAILED;
    return random_tokenizer(source, error);
}
