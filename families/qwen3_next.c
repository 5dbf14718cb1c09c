/* Qwen3-Next and Qwen 3.5: gated DeltaNet beside gated attention. */
#include "families/shared.h"

static GgufFinish gguf_qwen3next_finish;
static FamilyFinish read_qwen_kinds;
static GgufFinish gguf_qwen35_finish;

/* The activation of the feed-forward is that of the convolution as well. */
static const FixedKey qwen_fixed[] = {
    {"hidden_act", "\"silu\""},
    {0},
};

/* Half of q_proj's bias is that of the gates of heads. */
static const BiasRule qwen_biases[] = {
    {QKVO "attention_gate ", "attention_bias", false},
    {0},
};

static const TensorRule gguf_qwen35_tensors[] = {
    EMBEDDING("token_embd"),
    NORM("attention_norm", ".attn_norm"),
    NORM("ffn_norm", ".post_attention_norm"),
    GGUF_GATED_LAYER,
    GGUF_SOME_FFN_WEIGHTS,
    GGUF_SOME_EXPERTS,
    GGUF_END,
    {0},
};

const Family families_qwen3_next[] = {
    {
        .model_type = "qwen3_next",
        .set = SET({"qk_norm", QK_NORM_HEAD}),
        .keys =
            KEYS(SIZE_KEYS(151936, 2048, 5632, 48, 16), KV_HEADS(2), HEAD_DIM(256), CONTEXT(32768),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"linear_conv_kernel_dim", "state_kernel", 4},
                 {"linear_key_head_dim", "state_key_dim", 128},
                 {"linear_value_head_dim", "state_value_dim", 128},
                 {"linear_num_key_heads", "state_key_heads", 16},
                 {"linear_num_value_heads", "state_heads", 32}, {"num_experts", "n_experts", 512},
                 {"num_experts_per_tok", "n_experts_used", 10},
                 {"moe_intermediate_size", "expert_ffn_dim", 512},
                 {"shared_expert_intermediate_size", "shared_ffn_dim", 512}),
        .fixed = qwen_fixed,
        .biases = qwen_biases,
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                VECTOR("attention_norm", ".input_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                VECTOR("ffn_norm", ".post_attention_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                GATED_ATTENTION,
                MATRIX("delta.q delta.k delta.v delta.z", ".linear_attn.in_proj_qkvz.weight",
                       "state_key_heads * state_key_dim + state_key_heads * state_key_dim + "
                       "state_heads * state_value_dim + state_heads * state_value_dim",
                       "dim", .by = "state_key_heads", .optional = true),
                MATRIX("delta.b delta.a", ".linear_attn.in_proj_ba.weight",
                       "state_heads + state_heads", "dim", .by = "state_key_heads",
                       .optional = true),
                MATRIX("delta.out", ".linear_attn.out_proj.weight", "dim",
                       "state_heads * state_value_dim", .optional = true),
                TABLE("delta.convolution", ".linear_attn.conv1d.weight", "state_kernel",
                      "2 * state_key_heads * state_key_dim + state_heads * state_value_dim",
                      .turned = TURNED_ALWAYS, .optional = true),
                VECTOR("delta.decay", ".linear_attn.A_log", "state_heads",
                       .values = VALUES_MINUS_EXP, .optional = true),
                VECTOR("delta.step_bias", ".linear_attn.dt_bias", "state_heads", .optional = true),
                VECTOR("delta.norm", ".linear_attn.norm.weight", "state_value_dim",
                       .optional = true),
                DENSE_OR_EXPERTS,
                SHARED_WEIGHTS(".mlp.shared_expert."),
                MATRIX("shared.router", ".mlp.shared_expert_gate.weight", "1", "dim",
                       .optional = true),
                VECTOR("final_norm", "model.norm.weight", "dim", .values = VALUES_PLUS_ONE),
                OUTPUT("lm_head"),
                {0},
            },
        .rope = {.part = "partial_rotary_factor", .part_absent = 0.25},
        .prediction = PREDICTION_MTP,
        .bos_id = -1,
        .eos_id = -1,
        .steps =
            STEPS(STEP("set", "router softmax_chosen", .when = "norm_topk_prob", .absent = true)),
        .finish = read_qwen_kinds,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "qwen3next",
                    .required = "ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank "
                                "ssm.group_count",
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            NORM("attention_norm", ".attn_norm"),
                            NORM("ffn_norm", ".post_attention_norm"),
                            MATRIX("wq attention_gate", ".attn_q.weight",
                                   "n_heads * head_dim + n_heads * value_dim", "dim",
                                   .by = "n_heads", .optional = true),
                            MATRIX("wk", ".attn_k.weight", "n_kv_heads * head_dim", "dim",
                                   .optional = true),
                            MATRIX("wv", ".attn_v.weight", "n_kv_heads * value_dim", "dim",
                                   .optional = true),
                            MATRIX("wo", ".attn_output.weight", "dim", "n_heads * value_dim",
                                   .optional = true),
                            VECTOR("q_norm", ".attn_q_norm.weight", "head_dim", .optional = true),
                            VECTOR("k_norm", ".attn_k_norm.weight", "head_dim", .optional = true),
                            MATRIX("delta.q delta.k delta.v", ".attn_qkv.weight",
                                   "state_key_heads * state_key_dim + state_key_heads * "
                                   "state_key_dim + state_heads * state_value_dim",
                                   "dim", .optional = true),
                            MATRIX("delta.z", ".attn_gate.weight", "state_heads * state_value_dim",
                                   "dim", .optional = true),
                            MATRIX("delta.out", ".ssm_out.weight", "dim",
                                   "state_heads * state_value_dim", .optional = true),
                            TABLE("delta.convolution", ".ssm_conv1d.weight", "state_kernel",
                                  "2 * state_key_heads * state_key_dim + state_heads * "
                                  "state_value_dim",
                                  .turned = TURNED_ALWAYS, .optional = true),
                            VECTOR("delta.decay", ".ssm_a", "state_heads", .optional = true),
                            VECTOR("delta.step_bias", ".ssm_dt.bias", "state_heads",
                                   .optional = true),
                            VECTOR("delta.norm", ".ssm_norm.weight", "state_value_dim",
                                   .optional = true),
                            MATRIX(
                                "delta.q delta.k delta.v delta.z", ".ssm_in.weight",
                                "state_key_heads * state_key_dim + state_key_heads * state_key_dim "
                                "+ state_heads * state_value_dim + state_heads * state_value_dim",
                                "dim", .by = "state_key_heads", .optional = true),
                            MATRIX("delta.b delta.a", ".ssm_ba.weight", "state_heads + state_heads",
                                   "dim", .by = "state_key_heads", .optional = true),
                            GGUF_SOME_FFN_WEIGHTS,
                            GGUF_SOME_EXPERTS,
                            GGUF_END,
                            {0},
                        },
                    .predicts = true,
                    .finish = gguf_qwen3next_finish,
                },
                {0},
            },
    },
    {
        .model_type = "qwen3_5_text",
        .set = SET({"qk_norm", QK_NORM_HEAD}, {"state_tiled", 1}), /* ORDER_STATES */
        .keys =
            KEYS(SIZE_KEYS(248320, 4096, 12288, 32, 16), KV_HEADS(4), HEAD_DIM(256), CONTEXT(32768),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"linear_conv_kernel_dim", "state_kernel", 4},
                 {"linear_key_head_dim", "state_key_dim", 128},
                 {"linear_value_head_dim", "state_value_dim", 128},
                 {"linear_num_key_heads", "state_key_heads", 16},
                 {"linear_num_value_heads", "state_heads", 32}),
        .fixed = qwen_fixed,
        .biases = qwen_biases,
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                VECTOR("attention_norm", ".input_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                VECTOR("ffn_norm", ".post_attention_layernorm.weight",
                       "dim", .values = VALUES_PLUS_ONE),
                GATED_ATTENTION,
                GATED_DELTA,
                LLAMA_FFN,
                VECTOR("final_norm", "model.norm.weight", "dim", .values = VALUES_PLUS_ONE),
                OUTPUT("lm_head"),
                {0},
            },
        .rope = {.part = "partial_rotary_factor", .part_absent = 0.25},
        .prediction = PREDICTION_MTP,
        .bos_id = -1,
        .eos_id = -1,
        .finish = read_qwen_kinds,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "qwen35",
                    .required = "ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank "
                                "ssm.group_count",
                    .tensors = gguf_qwen35_tensors,
                    .predicts = true,
                    .finish = gguf_qwen35_finish,
                },
                {0},
            },
    },
    /* Every layer is a mixture; there is no intermediate_size. */
    {
        .model_type = "qwen3_5_moe_text",
        .set =
            SET({"qk_norm", QK_NORM_HEAD}, {"router", ROUTER_SOFTMAX_CHOSEN}, {"state_tiled", 1}),
        .keys =
            KEYS(SIZES_WITHOUT_FFN(248320, 2048, 40, 16), {"moe_intermediate_size", "ffn_dim", 512},
                 KV_HEADS(2), HEAD_DIM(256), CONTEXT(32768), {"rms_norm_eps", "norm_eps", 1e-6},
                 {"linear_conv_kernel_dim", "state_kernel", 4},
                 {"linear_key_head_dim", "state_key_dim", 128},
                 {"linear_value_head_dim", "state_value_dim", 128},
                 {"linear_num_key_heads", "state_key_heads", 16},
                 {"linear_num_value_heads", "state_heads", 32}, {"num_experts", "n_experts", 256},
                 {"num_experts_per_tok", "n_experts_used", 8},
                 {"moe_intermediate_size", "expert_ffn_dim", 512},
                 {"shared_expert_intermediate_size", "shared_ffn_dim", 512}),
        .fixed = qwen_fixed,
        .biases = qwen_biases,
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                VECTOR("attention_norm", ".input_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                VECTOR("ffn_norm", ".post_attention_layernorm.weight",
                       "dim", .values = VALUES_PLUS_ONE),
                GATED_ATTENTION,
                GATED_DELTA,
                DENSE_OR_EXPERTS,
                GATE_UP_EXPERTS(".mlp.experts."),
                SHARED_WEIGHTS(".mlp.shared_expert."),
                MATRIX("shared.router", ".mlp.shared_expert_gate.weight", "1",
                       "dim", .optional = true),
                VECTOR("final_norm", "model.norm.weight", "dim", .values = VALUES_PLUS_ONE),
                OUTPUT("lm_head"),
                {0},
            },
        .rope = {.part = "partial_rotary_factor", .part_absent = 0.25},
        .prediction = PREDICTION_MTP,
        .bos_id = -1,
        .eos_id = -1,
        .finish = read_qwen_kinds,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "qwen35moe",
                    .required = "ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank "
                                "ssm.group_count",
                    .tensors = gguf_qwen35_tensors,
                    .predicts = true,
                    .finish = gguf_qwen35_finish,
                },
                {0},
            },
    },
    {0},
};

/* Without layer_types every full_attention_interval-th layer attends. */
static Status read_qwen_kinds(const json_t *json, Config *config, Error *error) {
    static const KindName names[] = {
        {"linear_attention", LAYER_DELTA}, {"full_attention", LAYER_ATTENTION}, {0}};
    const json_t *types = json_value(json, "layer_types");
    if (types) return family_state_read_kinds(types, names, config, error);
    double interval = json_number(json, "full_attention_interval", 4);
    if (!(interval >= 1 && interval <= 1e6))
        return error_set(error, "config.json: full_attention_interval is %g", interval);
    for (uint32_t l = 0; l < config->n_layers; l++)
        config->layer_kind[l] = (l + 1) % (uint32_t)interval ? LAYER_DELTA : LAYER_ATTENTION;
    return STATUS_OK;
}

static Status gguf_qwen3next_finish(const GgufModel *m, Config *c) {
    if (gguf_delta_kinds(m, c, LAYER_ATTENTION) != STATUS_OK) return STATUS_FAILED;
    c->qk_norm = QK_NORM_HEAD;
    c->router.kind = ROUTER_SOFTMAX_CHOSEN;
    if (c->experts.count > 0 && c->ffn_dim == 0) c->ffn_dim = c->experts.ffn_dim;
    return gguf_read_state(m, c);
}

/* The converter reorders the heads of v, so that neighbours have different keys. */
static Status gguf_qwen35_finish(const GgufModel *m, Config *c) {
    c->state.tiled = true;
    return gguf_qwen3next_finish(m, c);
}
