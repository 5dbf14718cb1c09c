/* Lara Mini: gated DeltaNet beside windows, and a mixture in every layer. */
#include "families/shared.h"

static FamilyFinish lara_mini_finish;

const Family families_lara_mini[] = {
    /* The activation of the feed-forward is that of the convolution as well. */
    {
        .model_type = "lara_mini",
        .set = SET({"qk_norm", QK_NORM_HEAD}),
        .keys =
            KEYS(SIZES_WITHOUT_FFN(151936, 1024, 34, 16), {"moe_intermediate_size", "ffn_dim", 512},
                 KV_HEADS(4), HEAD_DIM(128), CONTEXT(131072), {"rms_norm_eps", "norm_eps", 1e-6},
                 {"linear_conv_kernel_dim", "state_kernel", 4},
                 {"linear_key_head_dim", "state_key_dim", 128},
                 {"linear_value_head_dim", "state_value_dim", 128},
                 {"linear_num_key_heads", "state_key_heads", 8},
                 {"linear_num_value_heads", "state_heads", 16}, {"num_experts", "n_experts", 128},
                 {"num_experts_per_tok", "n_experts_used", 4},
                 {"moe_intermediate_size", "expert_ffn_dim", 512},
                 {"shared_expert_intermediate_size", "shared_ffn_dim", 512}),
        .fixed = FIXED({"hidden_act", "\"silu\""}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                SOME_ATTENTION,
                VECTOR("q_norm", ".self_attn.q_norm.weight", "head_dim", .optional = true),
                VECTOR("k_norm", ".self_attn.k_norm.weight", "head_dim", .optional = true),
                MATRIX("delta.q delta.k delta.v delta.z delta.b delta.a",
                       ".linear_attn.in_proj.weight",
                       "state_key_heads * state_key_dim + state_key_heads * state_key_dim + "
                       "state_heads * state_value_dim + state_heads * state_value_dim + "
                       "state_heads + state_heads",
                       "dim", .optional = true),
                MATRIX("delta.out", ".linear_attn.out_proj.weight", "dim",
                       "state_heads * state_value_dim", .optional = true),
                TABLE("delta.convolution", ".linear_attn.conv1d.weight", "state_kernel",
                      "2 * state_key_heads * state_key_dim + state_heads * state_value_dim",
                      .turned = TURNED_ALWAYS, .optional = true),
                VECTOR("delta.decay", ".linear_attn.A_log", "state_heads",
                       .values = VALUES_MINUS_EXP, .optional = true),
                VECTOR("delta.step_bias", ".linear_attn.dt_bias", "state_heads", .optional = true),
                VECTOR("delta.norm", ".linear_attn.out_norm.weight", "state_value_dim",
                       .optional = true),
                DENSE_OR_EXPERTS,
                GATE_UP_EXPERTS(".mlp.experts."),
                SHARED_WEIGHTS(".mlp.shared_expert."),
                LLAMA_END,
                {0},
            },
        .tied = true,
        .bos_id = -1,
        .eos_id = 151643,
        .steps =
            STEPS(STEP("set", "router softmax_chosen", .when = "norm_topk_prob", .absent = true)),
        .finish = lara_mini_finish,
    },
    {0},
};

/* Layers with full attention have no RoPE. Without layer_types five kinds follow one another. */
static Status lara_mini_finish(const json_t *json, Config *config, Error *error) {
    static const KindName names[] = {{"linear_attention", LAYER_DELTA},
                                     {"full_attention", LAYER_ATTENTION},
                                     {"sliding_attention", LAYER_ATTENTION},
                                     {0}};
    const json_t *types = json_value(json, "layer_types");
    if (family_windows(json, NULL, config, 512, 0, 0, error) != STATUS_OK ||
        (types && family_state_read_kinds(types, names, config, error) != STATUS_OK))
        return STATUS_FAILED;
    for (uint32_t l = 0; l < config->n_layers; l++) {
        const char *name = json_string_value(json_array_get(types, l));
        bool slides =
            types ? name && strcmp(name, "sliding_attention") == 0 : l % 5 == 1 || l % 5 == 4;
        if (!types)
            config->layer_kind[l] = l % 5 == 0 || l % 5 == 2 ? LAYER_DELTA : LAYER_ATTENTION;
        if (!slides) config->window[l] = 0;
        config->rope_table[l] = slides ? 0 : 2; /* 2: not rotated */
    }
    return STATUS_OK;
}
