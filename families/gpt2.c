/* GPT-1, GPT-2 and StarCoder (GPT BigCode): learned positions, layer norms, no gate. */
#include "families/shared.h"

static FamilyFinish openai_gpt_finish;

static const BiasRule all_biases[] = {
    {QKVO UP_DOWN, NULL, true},
    {0},
};

const Family families_gpt2[] = {
    {
        .model_type = "openai-gpt",
        .set = SET({"norm", NORM_LAYER}, {"norm_place", NORM_AFTER}, {"final_norm", 0},
                   {"position", POSITION_LEARNED}, {"gated", 0}),
        .keys = KEYS({"vocab_size", "vocab_size", 40478}, {"n_embd|hidden_size", "dim", 768},
                     {"n_layer|num_hidden_layers", "n_layers", 12},
                     {"n_head|num_attention_heads", "n_heads", 12},
                     {"n_positions|max_position_embeddings", "context", 512},
                     {"layer_norm_epsilon", "norm_eps", 1e-5},
                     {"afn", "activation", ACTIVATION_GELU_TANH}),
        .biases = all_biases,
        .layers = "model.h.%u.",
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.tokens_embed"),
                TABLE("position_embedding", "model.positions_embed.weight",
                      "context + position_offset", "dim"),
                NORM("attention_norm", ".ln_1"),
                NORM("ffn_norm", ".ln_2"),
                LINEAR("wq wk wv", ".attn.c_attn",
                       "n_heads * head_dim + n_kv_heads * head_dim + n_kv_heads * head_dim", "dim",
                       .turned = TURNED_ALWAYS),
                LINEAR("wo", ".attn.c_proj", "dim", "n_heads * head_dim", .turned = TURNED_ALWAYS),
                LINEAR("w_up", ".mlp.c_fc", "ffn_dim", "dim", .turned = TURNED_ALWAYS),
                LINEAR("w_down", ".mlp.c_proj", "dim", "ffn_dim", .turned = TURNED_ALWAYS),
                OUTPUT("lm_head"),
                {0},
            },
        .tied = true,
        .bos_id = -1,
        .eos_id = -1,
        .steps = STEPS(STEP("wide_ffn")),
        .finish = openai_gpt_finish,
    },
    {0},
};

static Status openai_gpt_finish(const json_t *json, Config *config, Error *error) {
    /* GPT-1's "gelu" means the tanh approximation. */
    if (config->activation == ACTIVATION_GELU) config->activation = ACTIVATION_GELU_TANH;
    (void)json, (void)error;
    return STATUS_OK;
}
