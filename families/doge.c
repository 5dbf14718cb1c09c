/* Doge: attention with a dynamic mask, a weighted residual stream, and experts found by product
 * keys. */
#include "families/shared.h"

static FamilyFinish doge_finish;

const Family families_doge[] = {
    {
        .model_type = "doge",
        .set = SET({"stack", STACK_RESIDUAL_GATES}, {"qk_norm", QK_NORM_HEAD}),
        .keys =
            KEYS(SIZE_KEYS(32768, 1024, 2048, 32, 8), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"keep_window_size", "mask_keep", 2048}),
        .biases = BIASES({QKVO "mask.step ", "attention_bias", false}, {GATED, "mlp_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                NORM("q_norm", ".self_attn.q_norm", "head_dim"),
                NORM("k_norm", ".self_attn.k_norm", "head_dim"),
                LINEAR("mask.step", ".self_attn.dt_proj", "n_kv_heads", "n_kv_heads * head_dim"),
                VECTOR("mask.factors", ".self_attn.A", "n_kv_heads"),
                VECTOR("attention_keep", ".input_residual", "dim"),
                LLAMA_FFN,
                VECTOR("ffn_keep", ".post_attention_residual", "dim"),
                MATRIX("product.router", ".mlp.router_gate.weight", "product_keys + product_keys",
                       "dim", .optional = true),
                MATRIX("product.down", ".mlp.down_embed.weight", "product_experts", "dim",
                       .optional = true),
                MATRIX("product.up", ".mlp.up_embed.weight", "product_experts", "dim",
                       .optional = true),
                LLAMA_END,
                {0},
            },
        .bos_id = -1,
        .eos_id = -1,
        .finish = doge_finish,
    },
    {0},
};

/* A mixture has as many keys as the root of its experts, rounded down. */
static Status doge_finish(const json_t *json, Config *c, Error *error) {
    uint32_t window, keys = 0;
    const json_t *size = json_value(json, "sliding_window");
    if (size && family_state_read_whole(json, "sliding_window", 0, &window, error) != STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        c->layer_kind[l] = LAYER_DYNAMIC_MASK;
        c->window[l] = size ? window : 0;
    }
    if (!json_is_true(json_value(json, "is_moe"))) return STATUS_OK;
    if (family_state_read_whole(json, "num_experts", 16384, &c->product.count, error) !=
            STATUS_OK ||
        family_state_read_whole(json, "num_experts_per_tok", 64, &c->product.per_token, error) !=
            STATUS_OK)
        return STATUS_FAILED;
    while ((uint64_t)(keys + 1) * (keys + 1) <= c->product.count && keys < 1 << 10) keys++;
    c->product.keys = keys;
    return STATUS_OK;
}
