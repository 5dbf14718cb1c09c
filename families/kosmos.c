/* The text halves of Kosmos 2 and 2.5: sinusoids, and in Kosmos 2 norms before the last products.
 */
#include <math.h>

#include "families/shared.h"

static FamilyFinish kosmos_finish;
static FamilyMore kosmos_2_5_more;

#define KOSMOS_KEYS(vocab, dim, ffn, heads, context)                                               \
    {"vocab_size", "vocab_size", vocab}, {"embed_dim|hidden_size", "dim", dim},                    \
        {"ffn_dim", "ffn_dim", ffn}, {"layers|num_hidden_layers", "n_layers", 24},                 \
        {"attention_heads|num_attention_heads", "n_heads", heads}, CONTEXT(context),               \
        {"layer_norm_eps", "norm_eps", 1e-5}, {                                                    \
        "activation_function", "activation", ACTIVATION_GELU                                       \
    }

#define KOSMOS_TENSORS                                                                             \
    EMBEDDING("model.embed_tokens"), NORM("attention_norm", ".self_attn_layer_norm"),              \
        NORM("ffn_norm", ".final_layer_norm"), SEPARATE_QKV(".self_attn."),                        \
        LINEAR("wo", ".self_attn.out_proj", "dim", "n_heads * head_dim"),                          \
        LINEAR("w_up", ".ffn.fc1", "ffn_dim", "dim"),                                              \
        LINEAR("w_down", ".ffn.fc2", "dim", "ffn_dim"),                                            \
        NORM("ffn_inner_norm", ".ffn.ffn_layernorm", "ffn_dim"),                                   \
        NORM("final_norm", "model.layer_norm"), OUTPUT("lm_head")

const Family families_kosmos[] = {
    {
        .model_type = "kosmos_2_text_model",
        .set = SET({"norm", NORM_LAYER}, {"position", POSITION_SINUSOIDAL},
                   {"sinusoid_layout", SINUSOID_HALVES}, {"position_offset", 2}, {"gated", 0}),
        .keys = KEYS(KOSMOS_KEYS(65037, 2048, 8192, 32, 2048)),
        .fixed = FIXED({"add_cross_attention", "false"}),
        .biases = BIASES({QKVO UP_DOWN, NULL, true}),
        .tensors =
            (const TensorRule[]){
                KOSMOS_TENSORS,
                NORM("attention_inner_norm", ".self_attn.inner_attn_ln", "n_heads * head_dim"),
                {0},
            },
        .tied = true,
        .sinusoid_ends_at_base = true,
        .bos_id = 0,
        .eos_id = 2,
        .steps = STEPS(STEP("scale", "embeddings", .when = "scale_embedding", .absent = true)),
        .finish = kosmos_finish,
    },
    {
        .model_type = "kosmos_2_5_text_model",
        .set = SET({"norm", NORM_LAYER}, {"position", POSITION_LEARNED}, {"position_offset", 2},
                   {"gated", 0}),
        .keys = KEYS(KOSMOS_KEYS(108481, 1536, 6144, 16, 4096)),
        .biases = BIASES({QKVO UP_DOWN, NULL, true}),
        .tensors =
            (const TensorRule[]){
                KOSMOS_TENSORS,
                {0},
            },
        .tied = true,
        .bos_id = 0,
        .eos_id = 2,
        .steps = STEPS(STEP("scale", "embeddings", .when = "scale_embedding", .absent = true)),
        .finish = kosmos_finish,
        .more = kosmos_2_5_more,
    },
    {0},
};

/* The first token has the position after that of padding. */
static Status kosmos_finish(const json_t *json, Config *config, Error *error) {
    (void)config;
    if (config->dim < 4) return error_set(error, "config.json: embed_dim is %u", config->dim);
    return family_refuse(json, "pad_token_id", "1", error);
}

/* Adds the table of positions: sinusoids, and the vector that marks text. */
static Status kosmos_2_5_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    size_t rows = (size_t)c->context + c->position_offset, half = c->dim / 2;
    float *segments = NULL;
    (void)json;
    if (rules_read(context, "model.segment_emb.weight", 2, c->dim, &segments, error) != STATUS_OK)
        return STATUS_FAILED;
    float *table = malloc(rows * c->dim * sizeof *table);
    float step = (float)(-log(10000.0) / ((double)half - 1.0));
    for (size_t i = 0; table && i < rows; i++) {
        float *row = table + i * c->dim;
        for (size_t j = 0; j < half; j++) {
            float angle = (float)i * (float)exp((double)((float)j * step));
            row[j] = (float)sin((double)angle) + segments[j];
            row[half + j] = (float)cos((double)angle) + segments[half + j];
        }
        if (c->dim % 2) row[c->dim - 1] = segments[c->dim - 1];
    }
    free(segments);
    return source_add_values(context->source, "position_embedding", rows, c->dim, table, error);
}
