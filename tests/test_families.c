/* Model families: unknown settings and tensors are refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "convert/convert_target.h"
#include "formats/source_open.h"
#include "tests/fixture.h"
#include "tests/tier.h"

/* ---- Refusals ---- */

/* Converts the fixture's directory, which must fail, and returns its Error. */
static void refusal(const Fixture *f, Error *error) {
    char *source = fixture_source(f);
    ConvertOptions options = {.n_threads = 1};
    int fd = -1;
    Status status = convert_temporary(source, &options, &fd, error);
    fixture_remove_directory(source);
    if (status == STATUS_OK) fail_msg("%s is not refused", f->name);
}

/* Sets config.json's `key` to the JSON `value` and expects a refusal whose Error contains each of
 * the texts. */
static void assert_refused(const char *fixture, const char *key, const char *value,
                           const char *first, const char *second) {
    Fixture f = fixture_load(fixture);
    Error error;
    json_t *json = json_loads(value, JSON_DECODE_ANY, NULL);
    assert_non_null(json);
    json_object_set_new(json_object_get(f.json, "config"), key, json);
    refusal(&f, &error);
    if (!strstr(error.text, first) || !strstr(error.text, second))
        fail_msg("the error says neither '%s' nor '%s': %s", first, second, error.text);
    fixture_free(&f);
}

static void what_is_not_known_is_refused_by_its_name(void **state) {
    (void)state;
    assert_refused("llama-mha", "model_type", "\"rwkv7\"", "model_type", "rwkv7");
    assert_refused("llama-mha", "model_type", "\"bert\"", "bert", "this runs decoders only");
    assert_refused("llama-mha", "model_type", "\"deberta-v2\"", "is an encoder", "decoders only");
    assert_refused("llama-mha", "model_type", "\"t5\"", "has an encoder", "decoders only");
    assert_refused("llama-mha", "model_type", "\"qwen9\"", "qwen9", "nearest that runs is 'qwen");
    assert_refused("hy_v4", "model_type", "\"deepseek_v5\"", "deepseek_v5",
                   "several residual streams");
    assert_refused("qwen3_moe", "model_type", "\"zebra\"", "zebra", "has routed experts");
    assert_refused("llama-mha", "hidden_act", "\"sparkle\"", "activation", "sparkle");
    assert_refused("llama-mha", "rope_scaling", "{\"rope_type\": \"spiral\", \"factor\": 2.0}",
                   "RoPE", "spiral");
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
        refusal(&f, &error);
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

/* The whole of Nemotron 3 Omni ties nothing: its text model reads its own key alone. */
static void a_head_that_only_the_whole_ties_is_missing(void **state) {
    (void)state;
    Fixture f = fixture_load("nemotron_h_omni");
    Error error;
    json_object_set_new(json_object_get(f.json, "config"), "tie_word_embeddings", json_true());
    json_object_del(json_object_get(f.json, "tensors"), "language_model.lm_head.weight");
    refusal(&f, &error);
    assert_non_null(strstr(error.text, "lm_head"));
    fixture_free(&f);
}

/* The text model of PaddleOCR-VL is tied where its own keys do not say otherwise, and keys that
 * stand beside the images' are the whole's. */
static void a_whole_that_says_untied_does_not_untie_its_text_model(void **state) {
    (void)state;
    Fixture f = fixture_load("paddleocr_vl");
    json_t *config = json_object_get(f.json, "config");
    ConvertOptions options = {.n_threads = 1};
    Error error;
    int fd = -1;
    assert_null(json_object_get(config, "text_config"));
    json_object_set_new(config, "tie_word_embeddings", json_false());
    char *source = fixture_source(&f);
    if (convert_temporary(source, &options, &fd, &error) != STATUS_OK) fail_msg("%s", error.text);
    close(fd);
    fixture_remove_directory(source);
    fixture_free(&f);
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
        {"llama4", "attention_chunk_size", "null"},
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
    refusal(&f, &error);
    if (!strstr(error.text, "no layers")) fail_msg("%s", error.text);
    fixture_free(&f);
}

/* Opens the fixture's directory with `key` set to `value` (NULL: taken away). */
static Source *source_with(const char *fixture, const char *key, const char *value) {
    Fixture f = fixture_load(fixture);
    json_t *config = json_object_get(f.json, "config");
    Error error;
    Source *source;
    if (key && !value) json_object_del(config, key);
    if (value) json_object_set_new(config, key, json_loads(value, JSON_DECODE_ANY, NULL));
    char *path = fixture_source(&f);
    if (source_open(&source, path, NULL, &error) != STATUS_OK ||
        source_parse(source, &error) != STATUS_OK)
        fail_msg("%s with %s: %s", fixture, key, error.text);
    memset(source->config.name, 0, sizeof source->config.name);
    fixture_remove_directory(path);
    fixture_free(&f);
    return source;
}

/* transformers sets the logits of Chameleon's image tokens to the least float32. */
static void image_tokens_of_chameleon_cannot_be_drawn(void **state) {
    (void)state;
    Source *source = source_with("chameleon", "vocabulary_map",
                                 "{\"<image>\": 60, \"IMGIMGAZ\": 4, \"IMGIMGBZ\": 7}");
    const float *bias = NULL;
    for (size_t i = 0; i < source->n_tensors; i++)
        if (strcmp(source->tensors[i].name, "output.bias") == 0) bias = source->tensors[i].values;
    assert_non_null(bias);
    for (size_t i = 0; i < 61; i++)
        if (i == 4 || i == 7)
            assert_true(bias[i] < -1e29f);
        else
            assert_true(bias[i] == 0.0f);
    source_close(source);
}

/* Whether both make the same Config and the same tensors, as far as they are computed. */
static bool same_source(const Source *a, const Source *b) {
    if (memcmp(&a->config, &b->config, sizeof a->config) != 0) return false;
    if (a->n_tensors != b->n_tensors) return false;
    for (size_t i = 0; i < a->n_tensors; i++) {
        const SourceTensor *x = &a->tensors[i], *y = &b->tensors[i];
        if (strcmp(x->name, y->name) != 0 || !x->values != !y->values) return false;
        if (x->values && memcmp(x->values, y->values, x->rows * x->cols * sizeof *x->values) != 0)
            return false;
    }
    return true;
}

/* A key of another family is not read. */
static void what_the_class_of_transformers_ignores_changes_nothing(void **state) {
    (void)state;
    static const KeyCase cases[] = {
        {"llama-mha", "partial_rotary_factor", "0.5"},
        {"llama-mha", "layer_norm_eps", "0.1"},
        {"llama-mha", "sliding_window", "3"},
        {"llama-mha", "rotary_emb_base", "500.0"},
        {"gptj", "rope_theta", "500.0"},
        {"gptj", "rope_scaling", "{\"rope_type\": \"linear\", \"factor\": 2.0}"},
        {"gpt_neox", "rope_theta", "500.0"},
        {"olmo", "rms_norm_eps", "0.1"},
        {"olmo2", "clip_qkv", "0.5"},
        {"starcoder2", "layer_types", "[\"full_attention\", \"full_attention\"]"},
        {"phimoe", "num_experts_per_tok", "1"},
        {"mpt", "alibi_bias_max", "4"},
        {"gemma-gelu", "hidden_activation", "\"relu\""},
        {"gpt2", "rope_theta", "500.0"},
        {"cohere2", "use_qk_norm", "true"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Source *usual = source_with(cases[i].fixture, NULL, NULL);
        Source *other = source_with(cases[i].fixture, cases[i].key, cases[i].value);
        if (!same_source(usual, other)) fail_msg("%s reads %s", cases[i].fixture, cases[i].key);
        source_close(usual);
        source_close(other);
    }
}

/* Each pair of values means the same. */
static void absent_keys_have_the_defaults_of_transformers(void **state) {
    (void)state;
    static const struct {
        const char *fixture, *key, *a, *b;
    } cases[] = {
        {"helium", "rope_theta", NULL, "100000.0"},
        {"ernie4_5", "rope_theta", NULL, "500000.0"},
        {"glm", "partial_rotary_factor", NULL, "0.5"},
        {"gpt_neox", "rotary_pct", NULL, "0.25"},
        {"mixtral", "max_position_embeddings", NULL, "131072"},
        {"qwen3_moe", "max_position_embeddings", NULL, "32768"},
        {"mixtral", "num_experts_per_tok", NULL, "2"},
        {"llama-mha", "num_key_value_heads", NULL, "null"},
        {"gpt2", "n_inner", NULL, "null"},
        {"gpt_oss", "rope_scaling", NULL,
         "{\"rope_type\": \"yarn\", \"factor\": 32.0, \"beta_fast\": 32.0, \"beta_slow\": 1.0, "
         "\"truncate\": false, \"original_max_position_embeddings\": 4096}"},
        {"llama-rope-yarn", "rope_parameters", NULL, "{\"rope_type\": \"default\"}"},
        {"bloom", "hidden_act", NULL, "\"relu\""},
        {"glm4_moe", "partial_rotary_factor", NULL, "0.5"},
        {"glm4_moe", "norm_topk_prob", NULL, "true"},
        {"dots1-groups", "norm_topk_prob", NULL, "false"},
        {"dots1", "max_window_layers", NULL, "62"},
        {"minimax_m2", "rotary_dim", NULL, "14"},
        {"minimax_m2", "partial_rotary_factor", NULL, "0.43"},
        {"exaone_moe", "routed_scaling_factor", NULL, "2.5"},
        {"hy_v3", "rope_theta", NULL, "11158840.0"},
        {"ernie4_5_moe", "moe_norm_min", NULL, "1e-12"},
        {"afmoe", "global_attn_every_n_layers", NULL, "4"},
        {"cohere2_moe", "expert_selection_fn", NULL, "\"softmax\""},
        {"cohere2_moe", "shared_expert_combination_strategy", NULL, "\"average\""},
        {"cohere2_moe", "prefix_dense_sliding_window_pattern", NULL, "1"},
        {"mimo_v2_flash", "attention_value_scale", NULL, "0.707"},
        {"mimo_v2_flash", "sliding_window", NULL, "129"},
        {"qwen3_next", "linear_conv_kernel_dim", NULL, "4"},
        {"qwen3_next", "norm_topk_prob", NULL, "true"},
        {"qwen3_next-dense", "partial_rotary_factor", NULL, "0.25"},
        {"lfm2", "conv_L_cache", NULL, "3"},
        {"granitemoehybrid", "mamba_expand", NULL, "2"},
        {"granitemoehybrid", "time_step_limit", NULL, "[0.0, {\"__float__\": \"Infinity\"}]"},
        {"bamba", "mamba_conv_bias", NULL, "true"},
        {"jamba-bias", "mamba_dt_rank", NULL, "3"},
        {"mamba-bias", "time_step_rank", NULL, "3"},
        {"mamba", "intermediate_size", NULL, "88"},
        {"falcon_h1", "mamba_expand", NULL, "2"},
        {"falcon_h1-bias", "mamba_norm_before_gate", NULL, "true"},
        {"hrm_text", "H_cycles", NULL, "2"},
        {"hrm_text", "L_cycles", NULL, "3"},
        {"hrm_text", "initializer_range", NULL, "0.02"},
        {"idefics", "cross_layer_interval", NULL, "1"},
        {"recurrent_gemma", "block_types", NULL, "[\"recurrent\", \"recurrent\", \"attention\"]"},
        {"recurrent_gemma", "partial_rotary_factor", NULL, "0.5"},
        {"recurrent_gemma", "attention_window_size", NULL, "2048"},
        {"rwkv", "rescale_every", NULL, "6"},
        {"rwkv", "rescale_every", "-1", "0"},
        {"xlstm", "qk_dim_factor", NULL, "0.5"},
        {"lfm3", "rope_parameters", NULL,
         "{\"full_attention\": {\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.5, "
         "\"rope_theta\": 1000000.0}, \"sliding_attention\": {\"rope_theta\": 10000.0}}"},
        {"lfm3", "rope_parameters", "{\"full_attention\": {}, \"sliding_attention\": {}}",
         "{\"full_attention\": {\"rope_theta\": 1000000.0}, \"sliding_attention\": "
         "{\"rope_theta\": 1000000.0}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Source *absent = source_with(cases[i].fixture, cases[i].key, cases[i].a);
        Source *written = source_with(cases[i].fixture, cases[i].key, cases[i].b);
        if (!same_source(absent, written))
            fail_msg("%s: %s is not %s where it is absent", cases[i].fixture, cases[i].key,
                     cases[i].b);
        source_close(absent);
        source_close(written);
    }
}

/* transformers leaves such a bias out of the computation. */
static void a_bias_that_config_json_does_not_have_is_refused(void **state) {
    (void)state;
    Fixture f = fixture_load("llama-mha");
    Error error;
    json_object_set_new(json_object_get(f.json, "tensors"), "model.layers.1.self_attn.q_proj.bias",
                        json_pack("[i, f, f, [i]]", 20, 1.0, 0.0, 60));
    refusal(&f, &error);
    if (!strstr(error.text, "model.layers.1.self_attn.q_proj.bias") || !strstr(error.text, "bias"))
        fail_msg("%s", error.text);
    fixture_free(&f);
    assert_refused("llama-bias", "mlp_bias", "false", "mlp.", "no such bias");
    assert_refused("qwen2_moe", "qkv_bias", "false", "self_attn.q_proj.bias", "no such bias");
}

/* An output head of its own is used in a tied model too, unless it is the embedding again. */
static void a_tied_model_uses_another_head_that_its_file_has(void **state) {
    (void)state;
    for (int is_copy = 0; is_copy < 2; is_copy++) {
        Fixture f = fixture_load("llama-tied");
        Error error;
        Source *source;
        json_t *tensors = json_object_get(f.json, "tensors");
        json_t *recipe = json_deep_copy(json_object_get(tensors, "model.embed_tokens.weight"));
        if (is_copy) json_array_append_new(recipe, json_string("model.embed_tokens.weight"));
        json_object_set_new(tensors, "lm_head.weight", recipe);
        char *path = fixture_source(&f);
        if (source_open(&source, path, NULL, &error) != STATUS_OK ||
            source_parse(source, &error) != STATUS_OK)
            fail_msg("%s", error.text);
        const SourceTensor *output = NULL;
        for (size_t i = 0; i < source->n_tensors; i++)
            if (strcmp(source->tensors[i].name, "output") == 0) output = &source->tensors[i];
        assert_non_null(output);
        assert_int_equal(output->shares != NULL, is_copy);
        source_close(source);
        fixture_remove_directory(path);
        fixture_free(&f);
    }
}

static void a_shape_that_does_not_fit_names_the_tensor(void **state) {
    (void)state;
    assert_refused("llama-mha", "intermediate_size", "96", "mlp.gate_proj.weight", "96 x 60");
    assert_refused("llama-mha", "num_hidden_layers", "4", "model.layers.3.", "missing");
    assert_refused("gpt_oss", "num_local_experts", "6", "mlp.router.weight", "6 x 60");
    assert_refused("qwen3_5", "linear_num_value_heads", "4", "linear_attn.in_proj", "128 x 60");
    assert_refused("lfm2", "conv_L_cache", "4", "conv.conv.weight", "60 x 4");
}

/* A tensor that the rules for llama's layers do not know would be ignored in the computation, so it
 * is refused. */
static void a_tensor_without_a_place_is_refused(void **state) {
    (void)state;
    Fixture f = fixture_load("llama-mha");
    Error error;
    json_t *tensors = json_object_get(f.json, "tensors");
    json_object_set_new(tensors, "model.layers.1.self_attn.magic.weight",
                        json_pack("[i, f, f, [i]]", 20, 1.0, 0.0, 4));
    refusal(&f, &error);
    assert_non_null(strstr(error.text, "model.layers.1.self_attn.magic.weight"));
    fixture_free(&f);
}

/* MXFP4 codes are refused when their scales (exponents) are missing or have the wrong shape. */
static void codes_without_their_scales_are_refused(void **state) {
    (void)state;
    static const char *const scales[] = {"[i, f, f, [i, i]]", "[i, f, f, [i, i, i]]", NULL};
    for (int i = 0; i < 3; i++) {
        Fixture f = fixture_load("gpt_oss-mxfp4");
        Error error;
        json_t *tensors = json_object_get(f.json, "tensors");
        const char *name = "model.layers.1.mlp.experts.down_proj_scales";
        if (scales[i]) {
            json_object_set_new(tensors, name,
                                json_pack(scales[i], 2, 2.0, 121.5, 3, i ? 64 : 192, 2));
        } else {
            json_object_del(tensors, name);
        }
        refusal(&f, &error);
        if (!strstr(error.text, "model.layers.1.mlp.experts.down_proj_blocks"))
            fail_msg("%s", error.text);
        fixture_free(&f);
    }
}

/* A packed matrix of BitNet needs its scale, which must be a positive number. */
static void packed_weights_without_their_scale_are_refused(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        Fixture f = fixture_load("bitnet");
        Error error;
        json_t *tensors = json_object_get(f.json, "tensors");
        const char *name = "model.layers.0.mlp.up_proj.weight_scale";
        if (i == 0) json_object_del(tensors, name);
        if (i == 1)
            json_object_set_new(tensors, name, json_pack("[i, f, f, [i]]", 20, 0.25, -1.0, 1));
        refusal(&f, &error);
        if (!strstr(error.text, "mlp.up_proj.weight' is packed")) fail_msg("%s", error.text);
        fixture_free(&f);
    }
}

/* Removes or replaces (with NULL or a recipe) one tensor of a fixture, and expects an error that
 * says `why`. */
static void assert_scales_refused(const char *fixture, const char *name, json_t *recipe,
                                  const char *why) {
    Fixture f = fixture_load(fixture);
    Error error;
    json_t *tensors = json_object_get(f.json, "tensors");
    assert_non_null(json_object_get(tensors, name));
    if (recipe) json_object_set_new(tensors, name, recipe);
    if (!recipe) json_object_del(tensors, name);
    refusal(&f, &error);
    if (!strstr(error.text, why)) fail_msg("no '%s' in: %s", why, error.text);
    fixture_free(&f);
}

/* Weights of 8 bits are refused without their scales, or with scales that fit neither the matrix
 * nor its blocks. */
static void weights_without_their_scales_are_refused(void **state) {
    (void)state;
    const char *name = "model.layers.0.mlp.up_proj.weight_scale_inv";
    assert_scales_refused("qwen3-fp8", name, NULL, "mlp.up_proj.weight' is F8_E4M3, but has no sc");
    assert_scales_refused("qwen3-fp8", name, json_pack("[i, f, f, [i, i]]", 20, 0.1, 0.2, 7, 2),
                          "up_proj.weight_scale_inv': its shape fits");
    assert_scales_refused("qwen3-fp8", name, json_pack("[i, f, f, [i, i]]", 20, 0.1, 0.2, 6, 0),
                          "up_proj.weight_scale_inv': its shape fits");
    assert_scales_refused("qwen3-fp8", name,
                          json_pack("[i, f, f, [i, i, i]]", 20, 0.1, 0.2, 1, 6, 2),
                          "up_proj.weight_scale_inv': its shape fits");
    assert_scales_refused("qwen3-fp8", name,
                          json_pack("[i, f, f, [i, i], n, s]", 7, 1.0, 0.0, 6, 2, "I8"),
                          "scales of type I8");
    assert_scales_refused("mistral4-fp8",
                          "language_model.model.layers.0.mlp.experts.down_proj_scale_inv",
                          json_pack("[i, f, f, [i, i, i]]", 20, 0.1, 0.2, 2, 2, 1), "fits neither");
    assert_scales_refused("mistral4-fp8", "language_model.model.layers.0.mlp.experts.down_proj",
                          json_pack("[i, f, f, [i, i, i], n, s]", 4, 8.0, 0.0, 0, 8, 8, "F8_E4M3"),
                          "fits neither");
}

/* Packed codes of 4 bits are refused without scales, with scales of other rows, groups or numbers,
 * and with zero points. */
static void packed_codes_without_their_scales_are_refused(void **state) {
    (void)state;
    const char *name = "model.layers.0.mlp.up_proj.weight_scale";
    const char *fixture = "llama-compressed-int4";
    assert_scales_refused(fixture, name, NULL, "up_proj.weight_packed' has no scales");
    assert_scales_refused(fixture, name, json_pack("[i, f, f, [i, i]]", 20, 0.1, 0.2, 128, 1),
                          "up_proj.weight_packed' has no scales of 16 bits");
    assert_scales_refused(fixture, name,
                          json_pack("[i, f, f, [i, i], n, s]", 5, 0.25, 0.5, 64, 1, "BF16"),
                          "up_proj.weight_packed' has no scales");
    assert_scales_refused(fixture, name,
                          json_pack("[i, f, f, [i, i], n, s]", 5, 0.25, 0.5, 128, 3, "BF16"),
                          "3 groups of 64 codes");
    assert_scales_refused(fixture, name,
                          json_pack("[i, f, f, [i, i], n, s]", 5, 0.25, 0.5, 128, 4, "BF16"),
                          "4 groups of 64 codes");
    Fixture f = fixture_load(fixture);
    Error error;
    json_object_set_new(json_object_get(f.json, "tensors"),
                        "model.layers.1.mlp.up_proj.weight_zero_point",
                        json_pack("[i, f, f, [i, i]]", 20, 0.1, 0.2, 16, 1));
    refusal(&f, &error);
    if (!strstr(error.text, "zero points")) fail_msg("%s", error.text);
    fixture_free(&f);
}

/* A vector as a column of FP8 rows, each with a scale, is no vector of FP8 that has one row. */
static void scales_of_another_shape_are_not_read(void **state) {
    (void)state;
    Fixture f = fixture_load("diffllama");
    Error error;
    const char *name = "model.layers.0.self_attn.lambda_q1";
    char scales[64];
    json_t *tensors = json_object_get(f.json, "tensors");
    snprintf(scales, sizeof scales, "%s_scale", name);
    json_object_set_new(tensors, name,
                        json_pack("[i, f, f, [i, i], n, s]", 4, 8.0, 0.0, 14, 1, "F8_E4M3"));
    json_object_set_new(tensors, scales, json_pack("[i, f, f, [i, i]]", 20, 0.1, 0.2, 14, 1));
    json_object_set_new(json_object_get(f.json, "config"), "quantization_config",
                        json_pack("{s:s}", "quant_method", "fp8"));
    refusal(&f, &error);
    if (!strstr(error.text, "its scales have another shape")) fail_msg("%s", error.text);
    fixture_free(&f);
}

/* What quantization_config says and this program does not know is refused by its name. */
static void unknown_quantizations_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *value, *first, *second;
    } cases[] = {
        {"{\"quant_method\":\"awq\",\"bits\":4}", "awq", "GGUF"},
        {"{\"quant_method\":\"bitnet\"}", "quantization_config", "bitnet"},
        {"{\"bits\":4}", "quantization_config", "unnamed"},
        {"{\"quant_method\":\"fp8\",\"sparkle\":1}", "quantization_config", "sparkle"},
        {"{\"quant_method\":\"fp8\",\"fmt\":\"e5m2\"}", "fmt", "e5m2"},
        {"{\"quant_method\":\"fp8\",\"fmt\":8}", "fmt", "8"},
        {"{\"quant_method\":\"fp8\",\"scale_fmt\":\"int\"}", "scale_fmt", "int"},
        {"{\"quant_method\":\"fp8\",\"expert_dtype\":\"fp4\"}", "expert_dtype", "fp4"},
        {"{\"quant_method\":\"fp8\",\"weight_block_size\":[16]}", "weight_block_size", "sizes"},
        {"{\"quant_method\":\"fp8\",\"weight_block_size\":[0,4]}", "weight_block_size", "sizes"},
        {"{\"quant_method\":\"fp8\",\"weight_block_size\":8}", "weight_block_size", "sizes"},
        {"{\"quant_method\":\"mxfp4\",\"sparkle\":1}", "quantization_config", "sparkle"},
        {"{\"quant_method\":\"compressed-tensors\",\"format\":\"nvfp4-pack-quantized\"}", "format",
         "nvfp4-pack-quantized"},
        {"{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\",\"config_groups\":"
         "{"
         "\"a\":{\"weights\":{\"num_bits\":8}}}}",
         "num_bits", "8"},
        {"{\"quant_method\":\"compressed-tensors\",\"transform_config\":{\"a\":1}}",
         "transform_config", "a"},
        {"{\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"a\":{\"weights\":{"
         "\"num_bits\":4}}}}",
         "num_bits", "4"},
        {"{\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"a\":{\"weights\":{"
         "\"group_size\":\"x\"}}}}",
         "quantization_config", "group_size"},
        {"{\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"a\":{\"weights\":{"
         "\"group_size\":8}},\"b\":{\"weights\":{\"block_structure\":[4,8]}}}}",
         "quantization_config", "different sizes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused("llama-mha", "quantization_config", cases[i].value, cases[i].first,
                       cases[i].second);
}

/* No value of any configuration key may crash the converter: it must succeed or give an Error. */
static void no_value_of_a_key_crashes(void **state) {
    (void)state;
    static const char *const values[] = {"null", "-1", "0", "4294967297", "\"x\"", "[null]"};
    char **names = fixture_names();
    for (size_t i = 0; names[i]; i++) {
        /* One fixture of each family. */
        Fixture f = fixture_load(names[i]);
        json_t *config = json_object_get(f.json, "config"), *original = json_copy(config), *value;
        bool seen = i > 0 && strncmp(names[i], names[i - 1], strcspn(names[i], "-")) == 0;
        char *source = seen ? NULL : fixture_source(&f);
        char *path = seen ? NULL : fixture_path(source, "config.json");
        const char *key;
        size_t n_keys = 0;
        if (!seen) json_object_foreach(original, key, value) {
                if (!tier_takes(i + n_keys++, 96, 2)) continue;
                for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
                    Error error = {""};
                    Source *parsed;
                    json_object_set_new(config, key, json_loads(values[k], JSON_DECODE_ANY, NULL));
                    unlink(path); /* a new file: ext4 writes one that is cut to nothing at once */
                    assert_int_equal(json_dump_file(config, path, 0), 0);
                    Status status = source_open(&parsed, source, NULL, &error);
                    if (status == STATUS_OK) {
                        status = source_parse(parsed, &error);
                        source_close(parsed);
                    }
                    if (status != STATUS_OK) assert_true(error.text[0] != '\0');
                }
                json_object_set(config, key, value);
            }
        json_decref(original);
        if (source) fixture_remove_directory(source);
        free(path);
        fixture_free(&f);
    }
    for (size_t i = 0; names[i]; i++) free(names[i]);
    free(names);
}

/* Whether opening the fixture notes that answers see more than in transformers. */
static bool notes_the_answer(const char *name) {
    Fixture f = fixture_load(name);
    char *path = fixture_source(&f);
    Source *source = NULL;
    Error error = {0};
    bool found = false;
    assert_int_equal(source_open(&source, path, NULL, &error), STATUS_OK);
    assert_int_equal(source_parse(source, &error), STATUS_OK);
    for (size_t i = 0; i < source->n_notes; i++)
        found = found || strstr(source->notes[i], "sliding_window tokens of the answer");
    source_close(source);
    fixture_remove_directory(path);
    fixture_free(&f);
    return found;
}

static void a_model_that_forgets_its_answer_is_noted(void **state) {
    (void)state;
    assert_true(notes_the_answer("unlimited_ocr"));
    assert_false(notes_the_answer("deepseek_ocr2"));
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
        cmocka_unit_test(what_the_class_of_transformers_ignores_changes_nothing),
        cmocka_unit_test(image_tokens_of_chameleon_cannot_be_drawn),
        cmocka_unit_test(absent_keys_have_the_defaults_of_transformers),
        cmocka_unit_test(a_bias_that_config_json_does_not_have_is_refused),
        cmocka_unit_test(an_alpha_of_hunyuan_that_cannot_be_computed_is_refused),
        cmocka_unit_test(a_head_that_only_the_whole_ties_is_missing),
        cmocka_unit_test(a_tied_model_uses_another_head_that_its_file_has),
        cmocka_unit_test(a_shape_that_does_not_fit_names_the_tensor),
        cmocka_unit_test(a_tensor_without_a_place_is_refused),
        cmocka_unit_test(codes_without_their_scales_are_refused),
        cmocka_unit_test(packed_weights_without_their_scale_are_refused),
        cmocka_unit_test(a_whole_that_says_untied_does_not_untie_its_text_model),
        cmocka_unit_test(weights_without_their_scales_are_refused),
        cmocka_unit_test(unknown_quantizations_are_refused_by_name),
        cmocka_unit_test(scales_of_another_shape_are_not_read),
        cmocka_unit_test(packed_codes_without_their_scales_are_refused),
        cmocka_unit_test(a_model_that_forgets_its_answer_is_noted),
        cmocka_unit_test(no_value_of_a_key_crashes),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
