/* RWKV 4: time mixing and channel mixing, without attention. */
#include "families/shared.h"

static FamilyFinish rwkv_finish;

const Family families_rwkv[] = {
    {
        .model_type = "rwkv",
        /* transformers gives the last norm its own default epsilon. */
        .set = SET({"n_heads", 1}, {"n_kv_heads", 1}, {"head_dim", 1}, {"context", 1048576},
                   {"position", POSITION_NONE}, {"norm", NORM_LAYER}, {"final_norm_eps", 1e-5}),
        .keys = KEYS({"vocab_size", "vocab_size", 50277}, {"hidden_size", "dim", 4096},
                     {"intermediate_size", "ffn_dim", 0}, {"num_hidden_layers", "n_layers", 32},
                     {"layer_norm_epsilon", "norm_eps", 1e-5}),
        .biases = BIASES({" norms ", NULL, true}),
        .layers = "rwkv.blocks.%u.",
        .tensors =
            (const TensorRule[]){
                EMBEDDING("rwkv.embeddings"),
                NORM("embedding_norm", "rwkv.blocks.0.pre_ln"),
                NORM("attention_norm", ".ln1"),
                NORM("ffn_norm", ".ln2"),
                MATRIX("rwkv.k", ".attention.key.weight", "state_heads", "dim"),
                MATRIX("rwkv.v", ".attention.value.weight", "state_heads", "dim"),
                MATRIX("rwkv.r", ".attention.receptance.weight", "state_heads", "dim"),
                VECTOR("rwkv.mix_k", ".attention.time_mix_key", "dim"),
                VECTOR("rwkv.mix_v", ".attention.time_mix_value", "dim"),
                VECTOR("rwkv.mix_r", ".attention.time_mix_receptance", "dim"),
                VECTOR("rwkv.decay", ".attention.time_decay", "state_heads",
                       .values = VALUES_MINUS_EXP),
                VECTOR("rwkv.first", ".attention.time_first", "state_heads"),
                MATRIX("rwkv.out", ".attention.output.weight", "dim", "state_heads"),
                MATRIX("rwkv.ffn_k", ".feed_forward.key.weight", "ffn_dim", "dim"),
                MATRIX("rwkv.ffn_v", ".feed_forward.value.weight", "dim", "ffn_dim"),
                MATRIX("rwkv.ffn_r", ".feed_forward.receptance.weight", "dim", "dim"),
                VECTOR("rwkv.ffn_mix_k", ".feed_forward.time_mix_key", "dim"),
                VECTOR("rwkv.ffn_mix_r", ".feed_forward.time_mix_receptance", "dim"),
                NORM("final_norm", "rwkv.ln_out"),
                OUTPUT("head"),
                {0},
            },
        .rope = {.none = true},
        .bos_id = 0,
        .eos_id = 0,
        .steps = STEPS(STEP("wide_ffn")),
        .finish = rwkv_finish,
    },
    {0},
};

static Status rwkv_finish(const json_t *json, Config *config, Error *error) {
    double every = json_number(json, "rescale_every", 6);
    if (!(every == floor(every) && fabs(every) <= 1 << 24))
        return error_set(error, "config.json: rescale_every is %g", every);
    /* More layers than there are halve as seldom as never. */
    if (every >= 1 && every <= config->n_layers) config->rwkv.rescale_every = (uint32_t)every;
    if (family_state_read_whole(json, "attention_hidden_size", config->dim, &config->state.n_heads,
                                error) != STATUS_OK)
        return STATUS_FAILED;
    config->state.n_key_heads = config->state.key_dim = config->state.value_dim = 1;
    for (uint32_t l = 0; l < config->n_layers; l++) {
        config->layer_kind[l] = LAYER_RWKV;
        config->without_ffn[l] = 1;
    }
    return STATUS_OK;
}
