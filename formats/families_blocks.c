/* Families whose layers attend to chosen blocks of keys (layers/blocks.h): MiniMax M3. */
#include <string.h>

#include "formats/expert_rules.h"
#include "formats/json.h"

static const ConfigRule minimax_m3_config[] = {
    ROUTED_SIZES(200064, 6144, 60, 64),
    KV_HEADS(4),
    HEAD_DIM(128),
    CONTEXT(524288),
    {"rms_norm_eps", "norm_eps", 1e-6},
    {"dense_intermediate_size", "ffn_dim", 12288},
    {"shared_intermediate_size", "shared_ffn_dim", 3072},
    EXPERT_KEYS(BOTH_NAMES, 128, 4, "intermediate_size", 3072),
    {"routed_scaling_factor", "router_scale", 2},
    {"swiglu_limit", "swiglu_limit", 7},
    {"index_n_heads", "index_heads", 4},
    {"index_head_dim", "index_dim", 128},
    {"index_block_size", "index_block", 128},
    {"index_topk_blocks", "index_topk", 16},
    {"index_local_blocks", "index_local", 1},
    {0},
};
/* The gate is QuickGELU, which has this alpha. */
static const FixedKey minimax_m3_fixed[] = {{"swiglu_alpha", "1.702"}, {0}};

/* The norms' weights lack 1, those of heads and of the index as well. */
#define NORM_PLUS_ONE(to, from, n)                                                                 \
    {                                                                                              \
        to, from ".weight", N_ONE, n, RULE_ADD_ONE, {0}, {                                         \
            0                                                                                      \
        }                                                                                          \
    }
#define INDEX_NORM(to, from)                                                                       \
    {                                                                                              \
        to, FROM_LAYER "self_attn." from ".weight", N_ONE, N_INDEX, RULE_ADD_ONE | RULE_OPTIONAL,  \
            {0}, {                                                                                 \
            0                                                                                      \
        }                                                                                          \
    }
/* Gate and up in one tensor, of all experts (`to` names the expert) or of one feed-forward. */
#define GATE_UP(to, from, width)                                                                   \
    {to "w_gate", FROM_LAYER from, width, N_DIM, RULE_OPTIONAL, {N_NONE}, {width, width}}, {       \
        to "w_up", FROM_LAYER from, width, N_DIM, RULE_OPTIONAL, {width}, {                        \
            width, width                                                                           \
        }                                                                                          \
    }
/* MiniMax's own files, and models of images, have other names than transformers gives the text
 * model alone. */
static const TensorRule minimax_m3_tensors[] = {
    LLAMA_EMBEDDING,
    NORM_PLUS_ONE("attention_norm", FROM_LAYER "input_layernorm", N_DIM),
    NORM_PLUS_ONE("ffn_norm", FROM_LAYER "post_attention_layernorm", N_DIM),
    LLAMA_ATTENTION,
    NORM_PLUS_ONE("q_norm", FROM_LAYER "self_attn.q_norm", N_HEAD),
    NORM_PLUS_ONE("k_norm", FROM_LAYER "self_attn.k_norm", N_HEAD),
    MAYBE("indexer.wq", "self_attn.index_q_proj", N_INDEX_Q, N_DIM),
    MAYBE("indexer.wk", "self_attn.index_k_proj", N_INDEX, N_DIM),
    INDEX_NORM("indexer.q_norm", "index_q_norm"),
    INDEX_NORM("indexer.k_norm", "index_k_norm"),
    MAYBE("indexer.wq", "self_attn.indexer.q_proj", N_INDEX_Q, N_DIM),
    MAYBE("indexer.wk", "self_attn.indexer.k_proj", N_INDEX, N_DIM),
    INDEX_NORM("indexer.q_norm", "indexer.q_norm"),
    INDEX_NORM("indexer.k_norm", "indexer.k_norm"),
    DENSE_OR_EXPERTS,
    GATE_UP("", "mlp.gate_up_proj.weight", N_FFN),
    GATE_UP("experts.%u.", "mlp.experts.gate_up_proj", N_EXPERT_FFN),
    OPTIONAL("experts.%u.w_down", FROM_LAYER "mlp.experts.down_proj", N_DIM, N_EXPERT_FFN),
    CORRECTION("mlp.gate.e_score_correction_bias"),
    SHARED("mlp.shared_experts."),
    GATE_UP("shared.", "mlp.shared_experts.gate_up_proj.weight", N_SHARED_FFN),
    MAYBE("router", "block_sparse_moe.gate", N_EXPERTS, N_DIM),
    MAYBE("experts.%u.w_gate", "block_sparse_moe.experts.%u.w1", N_EXPERT_FFN, N_DIM),
    MAYBE("experts.%u.w_up", "block_sparse_moe.experts.%u.w3", N_EXPERT_FFN, N_DIM),
    MAYBE("experts.%u.w_down", "block_sparse_moe.experts.%u.w2", N_DIM, N_EXPERT_FFN),
    CORRECTION("block_sparse_moe.e_score_correction_bias"),
    SHARED("block_sparse_moe.shared_experts."),
    NORM_PLUS_ONE("final_norm", "model.norm", N_DIM),
    OUTPUT("lm_head"),
    {0},
};

static void minimax_m3_preset(Config *config) {
    config->router = ROUTER_SIGMOID_SCORES;
    config->router_normalize = true;
    config->qk_norm = QK_NORM_HEAD;
    config->rope_theta = 5e6f;
}

/* The index's sizes as the first files have them, in an object of their own. */
static Status read_sparse(const json_t *sparse, Config *config, Error *error) {
    const struct {
        const char *key;
        uint32_t *out;
    } sizes[] = {
        {"sparse_num_index_heads", &config->index_heads},
        {"sparse_index_dim", &config->index_dim},
        {"sparse_block_size", &config->index_block},
        {"sparse_topk_blocks", &config->index_topk},
        {"sparse_local_block", &config->index_local},
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

const Family families_blocks[] = {
    {"minimax_m3_vl_text", minimax_m3_config, minimax_m3_tensors, minimax_m3_preset,
     minimax_m3_finish, .fixed = minimax_m3_fixed,
     .rope = {.part = "partial_rotary_factor", .part_absent = 1}, .bos_id = 200034,
     .eos_id = 200020},
    {0},
};
