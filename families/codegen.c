/* CodeGen: GPT-J with q, v and k fused in that order, in four groups of heads. */
#include "families/shared.h"

static FamilyFinish codegen_finish;

const Family families_codegen[] = {
    {
        .model_type = "codegen",
        .set = SET({"norm", NORM_LAYER}, {"parallel_block", 1}, {"rope_pairing", ROPE_INTERLEAVED},
                   {"gated", 0}),
        .keys = KEYS({"vocab_size", "vocab_size", 50400}, {"n_embd|hidden_size", "dim", 4096},
                     {"n_layer|num_hidden_layers", "n_layers", 28},
                     {"n_head|num_attention_heads", "n_heads", 16},
                     {"n_positions|max_position_embeddings", "context", 2048},
                     {"n_inner", "ffn_dim", 0}, {"layer_norm_epsilon", "norm_eps", 1e-5},
                     {"activation_function", "activation", ACTIVATION_GELU_TANH},
                     {"rotary_dim", "rotary_dim", 64}),
        .biases = BIASES({UP_DOWN " output ", NULL, true}),
        .layers = "model.h.%u.",
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.wte"),
                NORM("attention_norm", ".ln_1"),
                LINEAR("wq wv wk", ".attn.qkv_proj",
                       "n_heads * head_dim + n_heads * head_dim + n_heads * head_dim", "dim",
                       .by = "4"),
                LINEAR("wo", ".attn.out_proj", "dim", "n_heads * head_dim"),
                LINEAR("w_up", ".mlp.fc_in", "ffn_dim", "dim"),
                LINEAR("w_down", ".mlp.fc_out", "dim", "ffn_dim"),
                NORM("final_norm", "model.ln_f"),
                OUTPUT("lm_head"),
                {0},
            },
        .rope = {.none = true},
        .bos_id = 50256,
        .eos_id = 50256,
        .steps = STEPS(STEP("wide_ffn")),
        .finish = codegen_finish,
    },
    {0},
};

static Status codegen_finish(const json_t *json, Config *config, Error *error) {
    (void)json;
    if (config->n_heads % 4 == 0) return STATUS_OK;
    return error_set(error, "config.json: n_head is %u, but q, k and v lie in four groups of heads",
                     config->n_heads);
}
