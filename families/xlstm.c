/* xLSTM: matrix LSTMs (mLSTM), without attention. */
#include "families/shared.h"

static FamilyFinish xlstm_finish;

#define KEYS_OF_HEADS "state_heads * state_key_dim"
#define VALUES_OF_HEADS "state_heads * state_value_dim"

const Family families_xlstm[] = {
    {
        .model_type = "xlstm",
        .set =
            SET({"n_heads", 1}, {"n_kv_heads", 1}, {"head_dim", 1}, {"ffn_dim", 1},
                {"context", 1048576}, {"position", POSITION_NONE}, {"activation", ACTIVATION_SILU}),
        .keys =
            KEYS({"vocab_size", "vocab_size", 50304}, {"hidden_size", "dim", 4096},
                 {"num_blocks|num_hidden_layers", "n_layers", 32}, {"num_heads", "state_heads", 8},
                 {"norm_eps", "norm_eps", 1e-6}, {"gate_soft_cap", "mlstm_gate_cap", 15},
                 {"eps", "mlstm_eps", 1e-6}, {"output_logit_soft_cap", "logit_softcap", 30}),
        .fixed = FIXED({"inference_state_dtype", "\"float32\""}),
        .biases = BIASES({" norms mlstm.q mlstm.k mlstm.v mlstm.gate mlstm.out mlstm.norm w_gate "
                          "w_up w_down ",
                          "use_bias", false},
                         {" mlstm.input_gate mlstm.forget_gate ", NULL, true}),
        .layers = "backbone.blocks.%u.",
        .tensors =
            (const TensorRule[]){
                EMBEDDING("backbone.embeddings"),
                NORM("attention_norm", ".norm_mlstm"),
                NORM("ffn_norm", ".norm_ffn"),
                LINEAR("mlstm.q", ".mlstm_layer.q", KEYS_OF_HEADS, "dim", .optional = true),
                LINEAR("mlstm.k", ".mlstm_layer.k", KEYS_OF_HEADS, "dim", .optional = true),
                LINEAR("mlstm.v", ".mlstm_layer.v", VALUES_OF_HEADS, "dim", .optional = true),
                LINEAR("mlstm.gate", ".mlstm_layer.ogate_preact", VALUES_OF_HEADS, "dim",
                       .optional = true),
                LINEAR("mlstm.input_gate", ".mlstm_layer.igate_preact", "state_heads", "dim",
                       .optional = true),
                LINEAR("mlstm.forget_gate", ".mlstm_layer.fgate_preact", "state_heads", "dim",
                       .optional = true),
                /* weight_mode "fused" */
                LINEAR("mlstm.q mlstm.k mlstm.v mlstm.gate", ".mlstm_layer.qkv_opreact",
                       KEYS_OF_HEADS " + " KEYS_OF_HEADS " + " VALUES_OF_HEADS
                                     " + " VALUES_OF_HEADS,
                       "dim", .optional = true),
                LINEAR("mlstm.input_gate mlstm.forget_gate", ".mlstm_layer.ifgate_preact",
                       "state_heads + state_heads", "dim", .optional = true),
                NORM("mlstm.norm", ".mlstm_layer.multihead_norm", VALUES_OF_HEADS),
                LINEAR("mlstm.out", ".mlstm_layer.out_proj", "dim", VALUES_OF_HEADS),
                LINEAR("w_gate", ".ffn.proj_up_gate", "ffn_dim", "dim", .optional = true),
                LINEAR("w_up", ".ffn.proj_up", "ffn_dim", "dim", .optional = true),
                LINEAR("w_gate w_up", ".ffn.proj_up_gate_z", "ffn_dim + ffn_dim", "dim",
                       .optional = true),
                LINEAR("w_down", ".ffn.proj_down", "dim", "ffn_dim"),
                NORM("final_norm", "backbone.out_norm"),
                /* never tied, whatever tie_word_embeddings says */
                MATRIX("output", "lm_head.weight", "vocab_size", "dim"),
                {0},
            },
        .rope = {.none = true},
        .bos_id = 0,
        .eos_id = 2,
        .finish = xlstm_finish,
    },
    {0},
};

/* Reads the width of all heads together, a factor of the model's, rounded down. */
static Status read_heads(const json_t *json, const char *key, double absent, const Config *config,
                         uint32_t *out, Error *error) {
    double width = floor((double)config->dim * json_number(json, key, absent));
    if (config->state.n_heads == 0 || !(width >= 1 && width <= 1 << 20) ||
        (uint32_t)width % config->state.n_heads != 0)
        return error_set(error, "config.json: %s gives %u heads %g elements", key,
                         config->state.n_heads, width);
    *out = (uint32_t)width / config->state.n_heads;
    return STATUS_OK;
}

/* Sets the sizes of the heads, makes all layers mLSTM layers, and sets the feed-forward's width:
 * with m = ffn_round_up_to_multiple_of, m * floor((ffn_proj_factor * dim + m - 1) / m). */
static Status xlstm_finish(const json_t *json, Config *config, Error *error) {
    uint32_t multiple = 1;
    double width = config->dim * json_number(json, "ffn_proj_factor", 2.667);
    if (family_refuse_zero(json, "gate_soft_cap", error) != STATUS_OK ||
        family_refuse_zero(json, "output_logit_soft_cap", error) != STATUS_OK)
        return STATUS_FAILED;
    if (json_number(json, "embedding_dim", config->dim) != (double)config->dim)
        return error_set(error, "config.json: embedding_dim is not hidden_size (%u)", config->dim);
    if (read_heads(json, "qk_dim_factor", 0.5, config, &config->state.key_dim, error) !=
            STATUS_OK ||
        read_heads(json, "v_dim_factor", 1.0, config, &config->state.value_dim, error) !=
            STATUS_OK ||
        family_state_read_whole(json, "ffn_round_up_to_multiple_of", 64, &multiple, error) !=
            STATUS_OK)
        return STATUS_FAILED;
    width = floor((width + multiple - 1) / multiple) * multiple;
    if (!(width >= 1 && width <= 1 << 20))
        return error_set(error, "config.json: ffn_proj_factor gives a width of %g", width);
    config->ffn_dim = (uint32_t)width;
    config->state.n_key_heads = config->state.n_heads;
    for (uint32_t l = 0; l < config->n_layers; l++) config->layer_kind[l] = LAYER_MLSTM;
    return STATUS_OK;
}
