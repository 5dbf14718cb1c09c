/* Keys of config.json that cannot be computed are refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/refusal.h"

static void what_is_not_known_is_refused_by_its_name(void **state) {
    (void)state;
    assert_refused("llama-mha", "model_type", "\"rwkv7\"", "model_type", "rwkv7");
    assert_refused("llama-mha", "model_type", "\"bert\"", "bert", "this runs decoders only");
    assert_refused("llama-rope-linear", "rope_scaling",
                   "{\"rope_type\": \"linear\", \"factor\": []}", "factor", "is infinite");
    assert_refused("minicpm", "scale_depth", "\"x\"", "scale_depth", "is not a number");
    assert_refused("minicpm", "dim_model_base", "-1", "dim_model_base", "is -1");
    assert_refused("minicpm3", "scale_depth", "[1]", "scale_depth", "is not a number");
    assert_refused("llama-mha", "model_type", "\"deberta-v2\"", "is an encoder", "decoders only");
    assert_refused("llama-mha", "model_type", "\"t5\"", "has an encoder", "decoders only");
    assert_refused("llama-mha", "model_type", "\"qwen9\"", "qwen9", "nearest that runs is 'qwen");
    assert_refused("hy_v4", "model_type", "\"deepseek_v5\"", "deepseek_v5",
                   "several residual streams");
    assert_refused("qwen3_moe", "model_type", "\"zebra\"", "zebra", "has routed experts");
    assert_refused("llama-mha", "hidden_act", "\"sparkle\"", "activation", "sparkle");
    /* An error of a field names its key. */
    assert_refused("deepseek_v3", "topk_group", "9", "router_groups_used is 9",
                   "router_groups_used by topk_group");
    assert_refused("llama-mha", "num_attention_heads", "35", "head_dim", "heads do not divide");
    assert_refused("llama-mha", "rope_scaling", "{\"rope_type\": \"spiral\", \"factor\": 2.0}",
                   "RoPE", "spiral");
    /* Half of 14 elements: transformers' exponent is 7 / 5 (_compute_dynamic_ntk_parameters), and
     * this program's was 8 / 6, 2.1 standard deviations away beyond the first context. */
    assert_refused("nemotron", "rope_scaling", "{\"rope_type\": \"dynamic\", \"factor\": 2.0}",
                   "dynamic", "an odd part of a head (7 elements)");
    assert_refused("llama-mha", "quantization_config", "{\"quant_method\": \"gptq\"}",
                   "quantization_config", "gptq");
    assert_refused("gpt2", "add_cross_attention", "true", "add_cross_attention", "true");
    assert_refused("mpt", "attn_config", "{\"alibi\": false}", "alibi", "false");
    assert_refused("gpt_neo", "attention_types", "[[[\"global\", \"round\"], 2]]", "attention type",
                   "round");
    assert_refused("exaone4", "layer_types",
                   "[\"full_attention\", \"full_attention\", \"linear_attention\"]", "layer type",
                   "linear_attention");
    assert_refused("gemma3", "rope_scaling", "{\"type\": \"linear\", \"factor\": 2.0}",
                   "'linear' by the old key 'type'", "rope_type");
    assert_refused("phi3-longrope", "rope_scaling",
                   "{\"type\": \"longrope\", \"short_factor\": [1, 1], \"long_factor\": [1, 1]}",
                   "long_factor", "6 numbers");
}

typedef struct KeyCase {
    const char *fixture, *key, *value;
} KeyCase;

/* The value of a key of the text half, in text_config, and what the refusal says. */
typedef struct TextCase {
    const char *key, *value, *says;
} TextCase;

static void assert_texts_refused(const char *fixture, const TextCase *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        Fixture f = fixture_load(fixture);
        Error error;
        json_t *config = json_object_get(json_object_get(f.json, "config"), "text_config");
        json_object_set_new(config, cases[i].key,
                            json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        fixture_refusal(&f, &error);
        if (!strstr(error.text, cases[i].says))
            fail_msg("%s %s: the error does not say '%s': %s", cases[i].key, cases[i].value,
                     cases[i].says, error.text);
        fixture_free(&f);
    }
}

static void a_key_of_mistral_large_4_that_cannot_be_computed_is_refused(void **state) {
    (void)state;
    static const TextCase cases[] = {
        {"kv_source_layers", "[0, 1, 0]", "kv_source_layers is not a list of 4 layers"},
        {"kv_source_layers", "[0, 1, 3, 1]", "kv_source_layers has no earlier layer for 2"},
        {"kv_source_layers", "[0, -1, 0, 1]", "kv_source_layers has no earlier layer for 1"},
        {"kv_source_layers", "[0, \"a\", 0, 1]", "kv_source_layers has no earlier layer for 1"},
        {"kv_source_layers", "[0, 1, 1, 1]", "of which only one has RoPE"},
        {"no_rope_layers", "[1, 0]", "no_rope_layers is not a list of 4 layers"},
        {"indexer_types", "[\"shared\", \"full\", \"full\", \"full\"]", "no indexer to share"},
        {"final_logit_softcapping", "0", "final_logit_softcapping"},
        {"final_logit_softcapping", "null", "final_logit_softcapping is null"},
        {"rope_parameters", "{\"rope_type\": \"dynamic\", \"factor\": 2.0}", "learned"},
    };
    assert_texts_refused("mistral_large4", cases, sizeof cases / sizeof *cases);
}

static void a_key_of_deepseek_v4_that_cannot_be_computed_is_refused(void **state) {
    static const struct {
        const char *key, *value, *reason;
    } cases[] = {
        {"layer_types", "[\"sliding_attention\", \"full_attention\"]",
         "layer type 'full_attention'"},
        {"layer_types", "[\"sliding_attention\"]", "layer type '(no text)' of layer 1"},
        {"compress_rates", "{\"compressed_sparse_attention\": 4}",
         "heavily_compressed_attention is 0"},
        {"compress_rate_csa", "2.5", "compressed_sparse_attention is 2.5"},
        {"mlp_layer_types", "[\"dense\"]", "mlp_layer_types has 'dense' for layer 0"},
        {"mlp_layer_types", "[\"hash_moe\", \"hash_moe\", \"moe\"]", "tid2eid' is missing"},
        {"scoring_func", "\"softmax\"", "scoring_func 'softmax'"},
        {"sliding_window", "0", "sliding_window is 0"},
        {"hc_sinkhorn_iters", "0", "hc_sinkhorn_iters is 0"},
        {"swiglu_limit", "0", "swiglu_limit is 0"},
        {"o_groups", "5", "out_groups 5"},
        {"qk_rope_head_dim", "16", "index_dim 12"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused("deepseek_v4", cases[i].key, cases[i].value, cases[i].reason, "");
}

static void a_key_of_qwen4_exp_that_cannot_be_computed_is_refused(void **state) {
    static const struct {
        const char *key, *value, *reason;
    } cases[] = {
        {"layer_types", "[\"linear_attention\", \"sliding_attention\", \"linear_attention\"]",
         "sliding_attention"},
        {"output_gate_type", "\"gelu\"", "output_gate_type 'gelu'"},
        {"indexer_budget", "10", "divide index_topk (10)"},
        {"indexer_n_heads", "0", "index_heads 0"},
        {"indexer_kv_heads", "2", "indexer_kv_heads"},
        {"ple_layer_ids", "[2]", "ngram_layer is 1, with layer_kind 14"},
        {"ple_layer_ids", "[4]", "ple_layer_ids names layer 4"},
        {"eos_token_id", "null", "needs an eos_token_id"},
        {"heads_per_ngram", "200", "heads_per_ngram 200"},
        {"ngram_size", "9", "ngram_size 9"},
        {"ple_conv_kernel_size", "7", "ngram_kernel 7 with ngram_size 3"},
        {"ple_embed_dim", "26", "with ngram_dim 26"},
        {"split_ngram_parts", "2", "expected 120 x 6"},
        {"hc_lowrank", "0", "adapter_rank 0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused("qwen4_exp", cases[i].key, cases[i].value, cases[i].reason, "");
}

static void a_key_of_minimax_m3_that_cannot_be_computed_is_refused(void **state) {
    (void)state;
    static const TextCase cases[] = {
        {"layer_types", "[\"minimax_m3_sparse\", \"sliding_attention\"]",
         "layer type 'sliding_attention'"},
        {"layer_types", "[\"minimax_m3_sparse\"]", "layer type '(no text)' of layer 1"},
        {"index_head_dim", "15", "index_dim (15) is larger than head_dim ("},
        {"index_head_dim", "6", "is larger than index_dim (6)"},
        {"index_n_heads", "4", "index_heads (4) does not divide n_heads ("},
        {"index_block_size", "0", "index_block 0"},
        {"index_topk_blocks", "0", "index_topk 0"},
        {"index_local_blocks", "4", "index_local (4) is larger than index_topk ("},
        {"swiglu_alpha", "1.5", "swiglu_alpha"},
        {"swiglu_limit", "0", "swiglu_limit is 0"},
        {"sparse_attention_config", "{\"sparse_block_size\": 1.5}", "sparse_block_size is 1.5"},
    };
    assert_texts_refused("minimax_m3_vl", cases, sizeof cases / sizeof *cases);
}

static void a_key_of_ernie_4_5_vl_that_cannot_be_computed_is_refused(void **state) {
    (void)state;
    static const TextCase cases[] = {
        {"moe_intermediate_size", "27", "moe_intermediate_size is not a list"},
        {"moe_intermediate_size", "[]", "moe_intermediate_size is not a list"},
        {"moe_intermediate_size", "[27]", "moe_intermediate_size is not a list"},
        {"moe_intermediate_size", "[-1, 13]", "the first width"},
        {"moe_intermediate_size", "[1e18, 13]", "the first width"},
        {"moe_intermediate_size", "[13, 27]", "experts.0.gate_proj"},
        {"moe_num_experts", "[5, 5]", "moe_num_experts"},
        {"moe_num_experts", "4", "mlp.gate"},
        {"mlp_layer_types", "5", "mlp_layer_types is not a list of 2 layers"},
        {"mlp_layer_types", "[\"dense\"]", "mlp_layer_types is not a list of 2 layers"},
        {"mlp_layer_types", "[\"dense\", \"dense\"]", "layer 1 is dense"},
        {"mlp_layer_types", "[\"sparse\", \"sparse\"]", "layer 0 is sparse"},
        {"mlp_layer_types", "[\"dense\", \"moe\"]", "layer 1 is dense"},
        {"rope_scaling", "{\"type\": \"linear\", \"factor\": 2}", "'linear' is not known"},
        {"rope_parameters", "{\"rope_type\": \"mrope\"}", "'mrope' is not known"},
    };
    assert_texts_refused("ernie4_5_vl_moe", cases, sizeof cases / sizeof *cases);
}

static void an_alpha_of_hunyuan_that_cannot_be_computed_is_refused(void **state) {
    (void)state;
    static const char *const values[] = {"{\"type\": \"dynamic\", \"alpha\": -2.0}",
                                         "{\"type\": \"dynamic\", \"alpha\": \"1000\"}"};
    for (size_t i = 0; i < 2; i++)
        assert_refused("hunyuan_v1_dense", "rope_scaling", values[i], "alpha", "not a positive");
    assert_refused("hunyuan_v1_dense", "rope_scaling", "{\"type\": \"xdrope\", \"alpha\": 2.0}",
                   "xdrope", "");
}

static void a_key_of_glm_5_next_that_cannot_be_computed_is_refused(void **state) {
    (void)state;
    static const TextCase cases[] = {
        {"index_head_dim", "0", "index_dim 0"},
        {"index_topk", "7", "index_pool 3 must divide index_topk (7)"},
        {"index_kpool", "0", "index_kpool"},
        {"index_kpool", "1e9", "index_pool"},
        {"index_kpool_always_select_tail", "false", "index_kpool_always_select_tail"},
        {"q_lora_rank", "null", "q_lora_rank 0"},
        {"hc_mult", "0", "hc_mult"},
        {"hc_mult", "17", "altup_streams is 17"},
        {"hc_sinkhorn_iters", "0", "hc_sinkhorn_iters"},
        {"hc_sinkhorn_iters", "1025", "hyper_rounds is 1025"},
        {"hc_eps", "-1", "hyper_eps is negative"},
        {"linear_lower_bound", "1", "linear_lower_bound"},
        {"indexer_types", "[\"full\", \"shared\", \"full\", \"full\"]", "does not choose"},
    };
    assert_texts_refused("glm5_next", cases, sizeof cases / sizeof *cases);
}

static void a_key_of_muse_spark_that_cannot_be_computed_is_refused(void **state) {
    (void)state;
    static const TextCase cases[] = {
        {"residual_gate_temperature", "0", "residual_gate_temperature is 0"},
        {"output_multiplier", "0", "output_multiplier is 0"},
        {"final_logit_softcapping", "0", "final_logit_softcapping"},
        {"moe_hidden_size", "0", "expert_dim is 0"},
        {"moe_hidden_size", "61", "expert_dim is 61"},
        {"moe_hidden_size", "35", "pre_expert_proj.weight' is 36 x 60, expected 35 x 60"},
        {"num_experts_per_tok", "6", "n_experts_used is 6"},
        {"layer_types", "[\"full_attention\"]", "layer_types is not a list of 3 layers"},
    };
    assert_texts_refused("muse_spark", cases, sizeof cases / sizeof *cases);
}

static void a_key_of_dots3_note_that_cannot_be_computed_is_refused(void **state) {
    static const struct {
        const char *key, *value, *reason;
    } cases[] = {
        {"layer_types", "[\"sliding_attention\", \"linear_attention\"]",
         "layer type 'linear_attention'"},
        {"layer_types", "[\"sliding_attention\"]", "layer type '(no text)'"},
        {"q_lora_rank", "null", "q_lora_rank 0"},
        {"kv_lora_rank", "1e9", "latent_dim"},
        {"swa_head_dim", "21", "rotary_dim"},
        {"swa_qk_rope_head_dim", "6", "20 elements, 12 + 6"},
        {"swa_num_key_value_heads", "2", "4 and 2 heads"},
        {"swa_kv_lora_rank", "0", "kv_lora_rank of layers with a window is 0"},
        {"swa_v_head_dim", "5000", "v_head_dim of layers with a window is 5000"},
        {"sliding_window_size", "0", "sliding_window is 0"},
        {"n_shared_experts", "0", "shared experts of 0"},
        {"index_head_dim", "4", "index_dim 4"},
        {"per_layer_config", "{\"0\": {\"v_head_dim\": 9}}", "layer 0, which has no window"},
        {"per_layer_config", "{\"2\": {\"hidden_size\": 60}}", "'hidden_size'"},
        {"rope_parameters", "{\"indexed_attention\": 7}", "no object"},
        {"rope_parameters",
         "{\"indexed_attention\": {}, \"full_attention\": {\"rope_theta\": 5.0}}", "differ"},
        {"rope_parameters", "{\"rope_type\": \"dynamic\", \"factor\": 2.0}", "'dynamic'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused("dots3_note", cases[i].key, cases[i].value, cases[i].reason, "");
}

static void a_key_of_step_3_5_that_cannot_be_computed_is_refused(void **state) {
    (void)state;
    static const TextCase cases[] = {
        {"swiglu_limits", "[0, 0, -1, 0]", "swiglu_limits has no limit for layer 2"},
        {"swiglu_limits", "[0, 1e300, 0, 0]", "swiglu_limits has no limit for layer 1"},
        {"swiglu_limits", "[0, 7]", "swiglu_limits has no limit for layer 2"},
        {"swiglu_limits_shared", "{\"0\": 7}", "swiglu_limits_shared is not a list"},
        {"gating", "\"per-element\"", "gating"},
        {"query_pre_attn_scalar", "-1", "query_pre_attn_scalar is -1"},
        {"rope_theta", "[10000]", "rope_theta has no number for layer 1"},
        {"partial_rotary_factors", "[0.5, \"a\", 1, 0.5]", "partial_rotary_factors"},
        {"partial_rotary_factors", "[-1e300, 1, 1, 0.5]", "partial_rotary_factor is -1e+300"},
        {"per_layer_config", "{\"1\": {\"head_dim\": 8}}", "head_dim"},
        {"per_layer_config", "{\"9\": {\"num_attention_heads\": 8}}", "no layer '9'"},
        {"per_layer_config", "{\"1\": {\"num_attention_heads\": 1e300}}", "1e+300"},
        {"per_layer_config", "{\"1\": {\"num_attention_heads\": null}}", "is not a number"},
        {"per_layer_config", "{\"1\": 8}", "no layer '1'"},
        {"attention_other_setting", "{\"num_attention_heads\": -6}", "num_attention_heads is -6"},
        {"attention_other_setting", "{\"num_attention_heads\": \"6\"}", "is not a number"},
        {"attention_other_setting", "6", "attention_other_setting is not an object"},
        {"num_sliding_attention_heads", "\"6\"", "is not a number"},
        {"use_bidirectional_attention", "true", "use_bidirectional_attention"},
    };
    assert_texts_refused("step3p7", cases, sizeof cases / sizeof *cases);
}

/* Values that this program cannot compute, or that mean something else here than in transformers.
 */
static void a_value_that_cannot_be_computed_is_refused_by_its_key(void **state) {
    (void)state;
    static const KeyCase cases[] = {
        {"llama-mha", "per_layer_config", "{\"1\": {\"rms_norm_eps\": 0.1}}"},
        {"llama-mha", "hidden_act", "null"},
        {"llama-mha", "rope_theta", "[]"}, /* so is Infinity read, and NaN as {} */
        {"llama-mha", "rope_theta", "{}"},
        {"gemma3", "rope_local_base_freq", "[]"},
        {"llama-rope-linear", "partial_rotary_factor", "0.5"},
        {"glm", "partial_rotary_factor", "-1e300"}, /* checked before it becomes an integer */
        {"gpt_oss", "swiglu_alpha", "1.0"},
        {"granite", "attention_multiplier", "0.0"},
        {"aria_text", "hidden_act", "\"gelu\""},
        {"olmo", "clip_qkv", "0.0"},
        {"qwen3_next", "hidden_act", "\"gelu\""},
        {"qwen3_5-tied", "full_attention_interval", "0"},
        {"bamba", "time_step_limit", "[0.0, 1.0]"},
        {"jamba", "attn_layer_offset", "3"},
        {"jamba", "mamba_expand", "-1e300"},
        {"jamba", "mamba_dt_rank", "\"none\""},
        {"jamba", "hidden_act", "\"gelu\""},
        {"falcon_mamba", "mixer_rms_eps", "0"},
        {"mamba2", "expand", "3"},
        {"nemotron_h-latent", "moe_latent_size", "0"},
        {"zamba2", "attention_head_dim", "10"},
        {"zamba2", "layers_block_type", "null"},
        {"zamba2", "mamba_expand", "7e6"},
        {"zamba", "attention_hidden_size", "70"},
        {"zamba", "hidden_mamba_act", "\"gelu\""},
        {"zamba", "n_mamba_heads", "5"},
        {"zamba", "mamba_expand", "7e6"},
        {"zamba", "mamba_dt_rank", "\"none\""},
        {"zamba-bias", "attn_layer_period", "0"},
        {"zamba-bias", "attn_layer_offset", "-1"},
        {"jetmoe", "rms_norm_eps", "0"},
        {"jetmoe", "num_key_value_heads", "4000"},
        {"chameleon", "vocabulary_map", "{\"IMGIMGAZ\": 61}"},
        {"chameleon", "vocabulary_map", "{\"IMGIMGAZ\": \"4\"}"},
        {"falcon_h1", "mlp_multipliers", "[0.0, 1.0]"},
        {"falcon_h1", "mlp_multipliers", "[1.0]"},
        {"falcon_h1", "ssm_multipliers", "[1, 1, 1, 1, \"a\"]"},
        {"falcon_h1", "key_multiplier", "1e300"},
        {"falcon_h1", "mamba_d_head", "13"},
        {"falcon_h1", "mamba_expand", "1e9"},
        {"bamba", "partial_rotary_factor", "0.25"},
        {"olmoe", "clip_qkv", "0.0"},
        {"gemma2", "attn_logit_softcapping", "0.0"},
        {"gemma", "use_bidirectional_attention", "true"},
        {"mistral-window", "sliding_window", "0"},
        {"ctrl", "layer_norm_epsilon", "1e-5"},
        {"xglm", "pad_token_id", "5"},
        {"qwen2-tied", "layer_types",
         "[\"full_attention\", \"sliding_attention\", \"full_attention\"]"},
        {"iquestcoder", "clip_qkv", "2.0"},
        {"internlm3-bias", "bias", "false"},
        {"nanochat", "final_logit_softcapping", "0.0"},
        {"granite_swa", "layer_rope_theta", "[1e4, 2e4, 3e4, 0, 0]"},
        {"llama4", "floor_scale", "0.5"},
        {"llama4", "no_rope_layers", "[1, 0]"},
        {"hunyuan_v1_moe", "moe_topk", "[2, 3, 2]"},
        {"mistral3", "text_config", "null"},
        {"gemma4", "num_kv_shared_layers", "8"},
        {"gemma4", "num_kv_shared_layers", "-1e300"},
        {"gemma4", "num_kv_shared_layers", "1.5"},
        {"gemma4", "global_head_dim", "null"},
        {"gemma4", "sliding_window", "null"},
        {"gemma4", "use_bidirectional_attention", "\"all\""},
        {"gemma4", "per_layer_config", "{\"0\": {\"num_attention_heads\": 3}}"},
        {"gemma4", "per_layer_config", "{\"99\": {\"head_dim\": 14}}"},
        {"gemma4", "vocab_size_per_layer_input", "100"},
        {"gemma4", "rope_scaling", "{\"rope_type\": \"linear\", \"factor\": 2}"},
        {"gemma4-moe", "num_experts", "null"},
        {"gemma3n", "intermediate_size", "[92, 92]"},
        {"gemma3n", "activation_sparsity_pattern", "[0.5, 0.5, 0.5, 0.5, 0.5, 1.0]"},
        {"gemma3n", "final_logit_softcapping", "0.0"},
        {"hrm_text", "H_cycles", "0"},
        {"hrm_text", "H_cycles", "1e300"},
        {"hrm_text", "L_cycles", "0"},
        {"hrm_text", "L_cycles", "400"},
        {"hrm_text", "num_layers_per_stack", "500"},
        {"hrm_text", "initializer_range", "0"},
        {"hrm_text", "embedding_scale", "-1"},
        {"inkling2_loop", "loop_num_passes", "0"},
        {"inkling2_loop", "loop_num_passes", "\"x\""},
        {"inkling2_loop", "loop_layer_index_start", "0"},
        {"inkling2_loop", "loop_layer_index_end", "2.5"},
        {"inkling2_loop", "n_layers_per_attn_res_block", "0"},
        {"inkling2_loop", "n_layers_per_attn_res_block", "2"},
        {"inkling2_loop", "loop_config", "[1]"},
        {"idefics", "cross_layer_interval", "0"},
        {"idefics-every", "cross_layer_interval", "3"},
        {"idefics", "additional_vocab_size", "-1"},
        {"idefics", "num_hidden_layers", "400"},
        {"recurrent_gemma", "lru_width", "76"},
        {"recurrent_gemma", "logits_soft_cap", "0.0"},
        {"recurrent_gemma", "block_types", "[]"},
        {"recurrent_gemma", "rope_scaling", "{\"type\": \"linear\", \"factor\": 2}"},
        {"recurrent_gemma", "attention_window_size", "0"},
        {"rwkv", "attention_hidden_size", "-1e300"},
        {"rwkv", "rescale_every", "1.5"},
        {"xlstm", "qk_dim_factor", "0.52"},
        {"xlstm", "v_dim_factor", "1e300"},
        {"xlstm", "ffn_proj_factor", "-1e300"},
        {"xlstm", "ffn_round_up_to_multiple_of", "0"},
        {"xlstm", "embedding_dim", "61"},
        {"xlstm", "inference_state_dtype", "\"bfloat16\""},
        {"xlstm", "gate_soft_cap", "0.0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(cases[i].fixture, cases[i].key, cases[i].value, cases[i].key, "config.json");
    assert_refused("inkling2_loop", "loop_num_passes", "17", "cannot run 17 times", "16 runs");
    assert_refused("inkling2_loop", "loop_layer_index_end", "99", "layers 1 to 99 of 4", "16 runs");
    assert_refused("inkling2_loop", "loop_gate_rank", "4", "controllers.attn.down_weight",
                   "expected 4 x 52");
    assert_refused("inkling2_loop-block", "loop_config", "{\"core_start\": 2.5}", "core_start",
                   "2.5");
    assert_refused("zamba2", "num_mem_blocks", "0", "shared_blocks", "0");
    assert_refused("jetmoe", "num_experts_per_tok", "60", "n_experts_used", "60");
    assert_refused("doge-moe", "num_experts_per_tok", "26", "product_used is 26", "product_keys 5");
    assert_refused("zamba2", "adapter_rank", "8", "adapter_list.0.0.weight", "8 x 120");
    assert_refused("nemotron_h-latent", "moe_latent_size", "25", "up_proj.weight", "20 x 25");
    assert_refused("falcon_h1", "mamba_rms_norm", "false", "mamba_rms_norm", "mamba.norm.weight");
    assert_refused("gemma4", "attention_k_eq_v", "true", "v_proj", "attention_k_eq_v");
    assert_refused("gemma4", "global_head_dim", "1e9", "rotary_dim", "4096");
    assert_refused("gemma4-moe", "top_k_experts", "9", "n_experts_used", "9");
    assert_refused("gemma3n", "altup_active_idx", "4", "altup_active", "4");
    assert_refused("gemma3n", "hidden_size_per_layer_input", "0", "per_layer_dim", "0");
    assert_refused("bitnet", "quantization_config",
                   "{\"quant_method\": \"bitnet\", \"quantization_mode\": \"online\"}",
                   "quantization_mode", "online");
    assert_refused("llama-mha", "rope_parameters",
                   "{\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 2}}", "RoPE",
                   "full_attention");
    assert_refused("glm4_moe", "rope_parameters",
                   "{\"rope_type\": \"yarn\", \"factor\": 2, \"partial_rotary_factor\": 0.25}",
                   "yarn", "of 3 elements");
    assert_refused("lfm2-bias", "tie_embedding", "false", "lm_head.weight", "");
    assert_refused("gemma3", "rope_parameters", "{\"rope_type\": \"linear\", \"factor\": 2}",
                   "rope_parameters", "full_attention");
    assert_refused("gemma3", "rope_parameters",
                   "{\"sliding_attention\": {\"rope_type\": \"dynamic\", \"factor\": 2}}", "RoPE",
                   "dynamic");
}

/* The class of Beam makes the last layer a full one where no list of layers says so. */
static void a_beam_without_layers_is_refused(void **state) {
    (void)state;
    Fixture f = fixture_load("beam");
    json_t *config = json_object_get(f.json, "config");
    Error error;
    json_object_del(config, "layer_types");
    json_object_set_new(config, "num_hidden_layers", json_integer(0));
    fixture_refusal(&f, &error);
    if (!strstr(error.text, "no layers")) fail_msg("%s", error.text);
    fixture_free(&f);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_known_is_refused_by_its_name),
        cmocka_unit_test(a_key_of_mistral_large_4_that_cannot_be_computed_is_refused),
        cmocka_unit_test(a_key_of_ernie_4_5_vl_that_cannot_be_computed_is_refused),
        cmocka_unit_test(a_key_of_glm_5_next_that_cannot_be_computed_is_refused),
        cmocka_unit_test(a_key_of_minimax_m3_that_cannot_be_computed_is_refused),
        cmocka_unit_test(a_key_of_deepseek_v4_that_cannot_be_computed_is_refused),
        cmocka_unit_test(a_key_of_qwen4_exp_that_cannot_be_computed_is_refused),
        cmocka_unit_test(a_key_of_muse_spark_that_cannot_be_computed_is_refused),
        cmocka_unit_test(a_key_of_dots3_note_that_cannot_be_computed_is_refused),
        cmocka_unit_test(a_key_of_step_3_5_that_cannot_be_computed_is_refused),
        cmocka_unit_test(a_beam_without_layers_is_refused),
        cmocka_unit_test(a_value_that_cannot_be_computed_is_refused_by_its_key),
        cmocka_unit_test(an_alpha_of_hunyuan_that_cannot_be_computed_is_refused),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
