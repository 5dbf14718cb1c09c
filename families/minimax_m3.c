/* The text half of MiniMax M3: attention to blocks of positions. */
#include "families/shared.h"

static FamilyFinish minimax_m3_finish;
static GgufFinish gguf_minimax_m3_finish;

const Family families_minimax_m3[] = {
    /* MiniMax's own files, and models of images, have other names than transformers gives the text
       model alone. The gate is QuickGELU, which has this alpha. */
    {
        .model_type = "minimax_m3_vl_text",
        .set = SET({"rope_theta", 5e6}, {"qk_norm", QK_NORM_HEAD},
                   {"router", ROUTER_SIGMOID_SCORES}, {"router_normalize", 1}),
        .keys = KEYS(
            SIZES_WITHOUT_FFN(200064, 6144, 60, 64), KV_HEADS(4), HEAD_DIM(128), CONTEXT(524288),
            {"rms_norm_eps", "norm_eps", 1e-6}, {"dense_intermediate_size", "ffn_dim", 12288},
            {"shared_intermediate_size", "shared_ffn_dim", 3072},
            {"num_local_experts|num_experts", "n_experts", 128},
            {"num_experts_per_tok", "n_experts_used", 4},
            {"intermediate_size", "expert_ffn_dim", 3072},
            {"routed_scaling_factor", "router_scale", 2}, {"swiglu_limit", "swiglu_limit", 7},
            {"index_n_heads", "index_heads", 4}, {"index_head_dim", "index_dim", 128},
            {"index_block_size", "index_block", 128}, {"index_topk_blocks", "index_topk", 16},
            {"index_local_blocks", "index_local", 1}),
        .fixed = FIXED({"swiglu_alpha", "1.702"}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                VECTOR("attention_norm", ".input_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                VECTOR("ffn_norm", ".post_attention_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                LLAMA_ATTENTION,
                VECTOR("q_norm", ".self_attn.q_norm.weight", "head_dim", .values = VALUES_PLUS_ONE),
                VECTOR("k_norm", ".self_attn.k_norm.weight", "head_dim", .values = VALUES_PLUS_ONE),
                MATRIX("indexer.wq", ".self_attn.index_q_proj.weight", "index_heads * index_dim",
                       "dim", .optional = true),
                MATRIX("indexer.wk", ".self_attn.index_k_proj.weight", "index_dim", "dim",
                       .optional = true),
                VECTOR("indexer.q_norm", ".self_attn.index_q_norm.weight", "index_dim",
                       .values = VALUES_PLUS_ONE, .optional = true),
                VECTOR("indexer.k_norm", ".self_attn.index_k_norm.weight", "index_dim",
                       .values = VALUES_PLUS_ONE, .optional = true),
                MATRIX("indexer.wq", ".self_attn.indexer.q_proj.weight", "index_heads * index_dim",
                       "dim", .optional = true),
                MATRIX("indexer.wk", ".self_attn.indexer.k_proj.weight", "index_dim", "dim",
                       .optional = true),
                VECTOR("indexer.q_norm", ".self_attn.indexer.q_norm.weight", "index_dim",
                       .values = VALUES_PLUS_ONE, .optional = true),
                VECTOR("indexer.k_norm", ".self_attn.indexer.k_norm.weight", "index_dim",
                       .values = VALUES_PLUS_ONE, .optional = true),
                DENSE_OR_EXPERTS,
                MATRIX("w_gate w_up", ".mlp.gate_up_proj.weight", "ffn_dim + ffn_dim", "dim",
                       .optional = true),
                GATE_UP_EXPERTS(".mlp.experts."),
                CORRECTION(".mlp.gate.e_score_correction_bias"),
                SHARED_EXPERT(".mlp.shared_experts."),
                MATRIX("shared.w_gate shared.w_up", ".mlp.shared_experts.gate_up_proj.weight",
                       "shared_ffn_dim + shared_ffn_dim", "dim", .optional = true),
                MATRIX("router", ".block_sparse_moe.gate.weight", "n_experts", "dim",
                       .optional = true),
                SOME_W123_EXPERTS(".block_sparse_moe.experts."),
                CORRECTION(".block_sparse_moe.e_score_correction_bias"),
                SHARED_EXPERT(".block_sparse_moe.shared_experts."),
                VECTOR("final_norm", "model.norm.weight", "dim", .values = VALUES_PLUS_ONE),
                OUTPUT("lm_head"),
                {0},
            },
        .rope = {.part = "partial_rotary_factor", .part_absent = 1},
        .bos_id = 200034,
        .eos_id = 200020,
        .finish = minimax_m3_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "minimax-m3",
                    .required = "attention.indexer.head_count attention.indexer.key_length "
                                "attention.indexer.top_k attention.indexer.block_size "
                                "attention.indexer.local_blocks",
                    .set = SET({"qk_norm", QK_NORM_HEAD}, {"router", ROUTER_SIGMOID_SCORES},
                               {"router_normalize", 1}, {"swiglu_limit", 7}),
                    .keys = GGUF_KEYS({"attention.indexer.head_count", "index_heads"},
                                      {"attention.indexer.key_length", "index_dim"},
                                      {"attention.indexer.top_k", "index_topk"},
                                      {"attention.indexer.block_size", "index_block"},
                                      {"attention.indexer.local_blocks", "index_local"}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            GGUF_QK_HEAD_NORMS,
                            NORM("ffn_norm", ".ffn_norm"),
                            MATRIX("indexer.wq", ".indexer.q_proj.weight",
                                   "index_heads * index_dim", "dim", .optional = true),
                            MATRIX("indexer.wk", ".indexer.k_proj.weight", "index_dim", "dim",
                                   .optional = true),
                            VECTOR("indexer.q_norm", ".indexer.q_norm.weight", "index_dim",
                                   .optional = true),
                            VECTOR("indexer.k_norm", ".indexer.k_norm.weight", "index_dim",
                                   .optional = true),
                            GGUF_ROUTED,
                            GGUF_END,
                            {0},
                        },
                    .finish = gguf_minimax_m3_finish,
                },
                {0},
            },
    },
    {0},
};

/* The index's sizes as the first files have them, in an object of their own. */
static Status read_sparse(const json_t *sparse, Config *config, Error *error) {
    const struct {
        const char *key;
        uint32_t *out;
    } sizes[] = {
        {"sparse_num_index_heads", &config->indexer.n_heads},
        {"sparse_index_dim", &config->indexer.head_dim},
        {"sparse_block_size", &config->indexer.block},
        {"sparse_topk_blocks", &config->indexer.topk},
        {"sparse_local_block", &config->indexer.local_blocks},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double number = json_number(sparse, sizes[i].key, *sizes[i].out);
        if (!(number >= 0 && number <= 1 << 16 && number == floor(number)))
            return error_set(error, "config.json: sparse_attention_config.%s is %g", sizes[i].key,
                             number);
        *sizes[i].out = (uint32_t)number;
    }
    return STATUS_OK;
}

/* Whether layer i attends to chosen blocks: by layer_types, else by a list of the first files. */
static Status attends_to_blocks(const json_t *types, const json_t *freq, uint32_t i, bool *blocks,
                                Error *error) {
    const json_t *number = json_array_get(freq, i);
    const char *type = json_string_value(json_array_get(types, i));
    *blocks = types ? type && strcmp(type, "minimax_m3_sparse") == 0
                    : json_is_true(number) || json_number_value(number) != 0.0;
    if (types && !*blocks && (!type || strcmp(type, "full_attention") != 0))
        return error_set(error, "config.json: layer type '%.40s' of layer %u is not known",
                         type ? type : "(no text)", i);
    if (!types && freq && !number)
        return error_set(error, "config.json: sparse_attention_freq is not a list of %u or more",
                         i);
    return STATUS_OK;
}

static Status minimax_m3_finish(const json_t *json, Config *config, Error *error) {
    const json_t *sparse = json_value(json, "sparse_attention_config");
    const json_t *types = json_value(json, "layer_types");
    const json_t *freq = json_value(sparse, "sparse_attention_freq");
    config->activation = ACTIVATION_GELU_QUICK; /* the class ignores hidden_act */
    if (read_sparse(sparse, config, error) != STATUS_OK ||
        family_refuse_zero(json, "swiglu_limit", error) != STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool blocks;
        if (attends_to_blocks(types, freq, i, &blocks, error) != STATUS_OK) return STATUS_FAILED;
        config->layer_kind[i] = blocks ? LAYER_BLOCKS : LAYER_ATTENTION;
    }
    return STATUS_OK;
}

/* Layers that choose blocks are those with an index. */
static Status gguf_minimax_m3_finish(const GgufModel *m, Config *c) {
    c->activation = ACTIVATION_GELU_QUICK;
    for (uint32_t l = 0; l < c->n_layers && l < CONFIG_MAX_LAYERS; l++)
        c->layer_kind[l] =
            gguf_model_layer_has(m, l, "indexer.k_proj.weight") ? LAYER_BLOCKS : LAYER_ATTENTION;
    return STATUS_OK;
}
