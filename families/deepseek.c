/* DeepSeek V2, V3 and V3.2, and Kimi K2: latent attention, experts in groups, indexers. */
#include "families/shared.h"

static FamilyFinish deepseek_v2_finish;
static FamilyMore unlimited_ocr_more;
static GgufFinish gguf_ocr_finish;
static GgufFinish gguf_ocr_by_layer;

static const TensorRule experts_tensors[] = {
    EMBEDDING("model.embed_tokens"),
    LLAMA_NORMS,
    LATENT_ATTENTION,
    DENSE_OR_EXPERTS,
    GATE_UP_EXPERTS(".mlp.experts."),
    DENSE_BIASES,
    CORRECTION(".mlp.gate.e_score_correction_bias"),
    SHARED_EXPERT(".mlp.shared_experts."),
    LLAMA_END,
    {0},
};

static const TensorRule ocr_tensors[] = {
    EMBEDDING("model.embed_tokens"),
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    DENSE_OR_EXPERTS,
    GATE_UP_EXPERTS(".mlp.experts."),
    DENSE_BIASES,
    SHARED_EXPERT(".mlp.shared_experts."),
    LLAMA_END,
    {0},
};

const Family families_deepseek[] = {
    /* The text half of DeepSeek-OCR 2: DeepSeek V2 without latent attention. */
    {
        .model_type = "deepseek_ocr2_text",
        .set = SET({"router", ROUTER_SOFTMAX_SCORES}),
        .keys = KEYS(
            SIZE_KEYS(102400, 4096, 11008, 32, 32), KV_HEADS(0), CONTEXT(2048),
            {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
            {"n_routed_experts|num_experts", "n_experts", 64},
            {"num_experts_per_tok", "n_experts_used", REQUIRED},
            {"moe_intermediate_size", "expert_ffn_dim", 1407}, {"n_group", "router_groups", 0},
            {"topk_group", "router_groups_used", 0}, {"routed_scaling_factor", "router_scale", 1}),
        .biases = BIASES({QKVO, "attention_bias", false}, {DENSE_AND_SHARED, "mlp_bias", false}),
        .tensors = ocr_tensors,
        .bos_id = 1,
        .eos_id = 2,
        .steps = STEPS(STEP("shared_width", "n_shared_experts 2")),
        .finish = deepseek_v2_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "deepseek2-ocr",
                    .set = SET({"router", ROUTER_SOFTMAX_SCORES}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_ROUTED,
                            GGUF_END,
                            {0},
                        },
                    .full_every = 1,
                    .finish = gguf_ocr_finish,
                    .by_layer = gguf_ocr_by_layer,
                },
                {0},
            },
    },
    /* The text half of Unlimited-OCR. Each token sees the whole prompt and the last sliding_window
     * tokens of the answer; here it sees the whole answer (docs/families.md). */
    {
        .model_type = "unlimited_ocr_text",
        .set = SET({"router", ROUTER_SOFTMAX_SCORES}),
        .keys = KEYS(
            SIZE_KEYS(129280, 1280, 6848, 12, 10), KV_HEADS(10), CONTEXT(32768),
            {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
            {"n_routed_experts|num_experts", "n_experts", 64},
            {"num_experts_per_tok", "n_experts_used", 6},
            {"moe_intermediate_size", "expert_ffn_dim", 896}, {"n_group", "router_groups", 1},
            {"topk_group", "router_groups_used", 1}, {"routed_scaling_factor", "router_scale", 1}),
        .biases = BIASES({QKVO, "attention_bias", false}, {DENSE_AND_SHARED, "mlp_bias", false}),
        .tensors = ocr_tensors,
        .bos_id = 0,
        .eos_id = 1,
        .steps = STEPS(STEP("shared_width", "n_shared_experts 2")),
        .finish = deepseek_v2_finish,
        .more = unlimited_ocr_more,
    },
    {
        .model_type = "deepseek_v2",
        .set = SET({"rope_pairing", ROPE_INTERLEAVED}, {"router", ROUTER_SOFTMAX_SCORES},
                   {"latent_norm_eps", 1e-6}),
        .keys = KEYS(
            SIZE_KEYS(102400, 4096, 11008, 32, 32), {"kv_lora_rank", "latent_dim", 512},
            {"q_lora_rank", "latent_q_dim", 1536}, {"qk_nope_head_dim", "head_dim", 128},
            {"qk_rope_head_dim", "rotary_dim", 64}, {"v_head_dim", "value_dim", 128}, CONTEXT(2048),
            {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
            {"n_routed_experts|num_experts", "n_experts", 64},
            {"num_experts_per_tok", "n_experts_used", REQUIRED},
            {"moe_intermediate_size", "expert_ffn_dim", 1407}, {"n_group", "router_groups", 0},
            {"topk_group", "router_groups_used", 0}, {"routed_scaling_factor", "router_scale", 1}),
        .biases = BIASES({" wq_a wkv_a wo ", "attention_bias", false},
                         {DENSE_AND_SHARED, "mlp_bias", false}),
        .tensors = experts_tensors,
        .bos_id = 1,
        .eos_id = 2,
        .steps = STEPS(STEP("shared_width", "n_shared_experts 2"), STEP("latent_heads")),
        .finish = deepseek_v2_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "deepseek2",
                    .required = "attention.kv_lora_rank",
                    .pairing = ROPE_INTERLEAVED,
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            NORM("attention_norm", ".attn_norm"),
                            GGUF_LATENT_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_ROUTED,
                            GGUF_END,
                            {0},
                        },
                    .mscales_are_equal = true,
                    .predicts = true,
                    .finish = gguf_deepseek2_finish,
                },
                {0},
            },
    },
    {0},
};

/* Whole heads are rotated: rope.dimension_count is that of latent attention, 0. */
static Status gguf_ocr_finish(const GgufModel *m, Config *c) {
    (void)m;
    c->rotary_dim = c->head_dim;
    return STATUS_OK;
}

static const char *const forgets_answer =
    "a token sees the whole answer before it, where transformers keeps the last sliding_window "
    "tokens of the answer: from there on the logits differ";

/* The window of Unlimited-OCR's files is one of the answer alone. */
static Status gguf_ocr_by_layer(const GgufModel *m, Config *c) {
    if (c->n_layers > 0 && c->window[0] > 0) source_add_note(m->source, forgets_answer);
    memset(c->window, 0, sizeof c->window);
    return STATUS_OK;
}

/* Says where layers that forget tokens of the answer differ from transformers. */
static Status unlimited_ocr_more(const RuleContext *context, const json_t *json, Error *error) {
    const json_t *types = json_value(json, "layer_types"), *type;
    bool forgets = !types;
    size_t i;
    (void)error;
    json_array_foreach((json_t *)types, i, type) {
        const char *name = json_string_value(type);
        forgets = forgets || !name || strcmp(name, "full_attention") != 0;
    }
    if (forgets) source_add_note(context->source, forgets_answer);
    return STATUS_OK;
}

static Status deepseek_v2_finish(const json_t *json, Config *config, Error *error) {
    const char *method = json_text(json, "topk_method");
    if (!method || strcmp(method, "greedy") == 0) {
        config->router.groups = config->router.groups_used = 0;
    } else if (strcmp(method, "group_limited_greedy") != 0) {
        return error_set(error, "config.json: topk_method '%.40s' is not known", method);
    }
    return STATUS_OK;
}
