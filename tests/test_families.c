/* Model families: what absent and ignored keys mean, and which tensors have a place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "convert/convert_target.h"
#include "families/reading/source_open.h"
#include "tests/refusal.h"
#include "tests/tier.h"

/* The whole of Nemotron 3 Omni ties nothing: its text model reads its own key alone. */
static void a_head_that_only_the_whole_ties_is_missing(void **state) {
    (void)state;
    Fixture f = fixture_load("nemotron_h_omni");
    Error error;
    json_object_set_new(json_object_get(f.json, "config"), "tie_word_embeddings", json_true());
    json_object_del(json_object_get(f.json, "tensors"), "language_model.lm_head.weight");
    fixture_refusal(&f, &error);
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

typedef struct KeyCase {
    const char *fixture, *key, *value;
} KeyCase;

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

/* Opens the fixture's directory without RoPE parameters, with the base beside them or without. */
static Source *source_with_base(const char *fixture, bool has_base) {
    Fixture f = fixture_load(fixture);
    json_t *config = json_object_get(f.json, "config"),
           *text = json_object_get(config, "text_config");
    Error error;
    Source *source;
    if (text) config = text;
    json_object_del(config, "rope_parameters");
    json_object_del(config, "rope_scaling");
    json_object_del(config, "rope_theta");
    if (has_base) json_object_set_new(config, "rope_theta", json_real(123456.0));
    char *path = fixture_source(&f);
    if (source_open(&source, path, NULL, &error) != STATUS_OK ||
        source_parse(source, &error) != STATUS_OK)
        fail_msg("%s: %s", fixture, error.text);
    memset(source->config.name, 0, sizeof source->config.name);
    fixture_remove_directory(path);
    fixture_free(&f);
    return source;
}

/* Where rope_parameters are absent, these configuration classes set all of them, and drop a
 * rope_theta (transformers 5.24: CLASS(rope_theta=123456.0).rope_parameters). */
static void a_base_without_parameters_is_ignored_where_the_class_has_its_own(void **state) {
    (void)state;
    static const char *const fixtures[] = {"apertus",
                                           "apertus1p5",
                                           "beam",
                                           "cosmos3_edge",
                                           "cwm",
                                           "dory",

                                           "laguna",
                                           "lfm3",
                                           "mellum",
                                           "mimo_v2_flash-groups",
                                           "ministral3-window",
                                           "mistral4-gguf",
                                           "mistral_large4",
                                           "muse_spark",
                                           "zaya",
                                           "cohere_compass"};
    for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
        Source *usual = source_with_base(fixtures[i], false),
               *other = source_with_base(fixtures[i], true);
        if (!same_source(usual, other)) fail_msg("%s reads rope_theta", fixtures[i]);
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
        {"inkling2_loop", "loop_num_passes", NULL, "3"},
        {"inkling2_loop", "loop_config", "{\"core_start\": 1, \"num_passes\": 2}",
         "{\"core_start\": 1, \"core_end\": 3, \"num_passes\": 2, \"gate_rank\": 7}"},
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

/* The values come from random_configs.py --nulls, which gives transformers' classes the null. A
 * switch typed `bool | None` is false, whatever its absence means. */
static void null_means_what_the_class_makes_of_it(void **state) {
    (void)state;
    static const struct {
        const char *fixture, *key, *value;
    } cases[] = {
        {"deepseek_v3", "rope_interleave", "false"},
        {"deepseek_v3", "norm_topk_prob", "false"},
        {"axk1", "rope_interleave", "false"},
        {"youtu", "rope_interleave", "false"},
        {"sarvam_mla", "rope_interleave", "false"},
        {"dots1", "norm_topk_prob", "false"},
        {"falcon-7b", "parallel_attn", "false"},
        {"falcon_h1", "mamba_norm_before_gate", "false"},
        {"glm", "partial_rotary_factor", "1.0"},
        {"deepseek_v4", "partial_rotary_factor", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Source *null = source_with(cases[i].fixture, cases[i].key, "null");
        Source *written = source_with(cases[i].fixture, cases[i].key, cases[i].value);
        if (!same_source(null, written))
            fail_msg("%s: %s null is not %s", cases[i].fixture, cases[i].key,
                     cases[i].value ? cases[i].value : "its absence");
        source_close(null);
        source_close(written);
    }
}

/* The attention of these classes reads the key although their configuration does not declare it. */
static void heads_are_as_wide_as_head_dim_says(void **state) {
    (void)state;
    static const char *const names[] = {"phi", "lfm2", "lfm2_moe", "cohere_compass-text"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_refused(names[i], "head_dim", "24", "q_proj.weight", "expected ");
    }
}

/* transformers leaves such a bias out of the computation. */
static void a_bias_that_config_json_does_not_have_is_refused(void **state) {
    (void)state;
    Fixture f = fixture_load("llama-mha");
    Error error;
    json_object_set_new(json_object_get(f.json, "tensors"), "model.layers.1.self_attn.q_proj.bias",
                        json_pack("[i, f, f, [i]]", 20, 1.0, 0.0, 60));
    fixture_refusal(&f, &error);
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
    fixture_refusal(&f, &error);
    assert_non_null(strstr(error.text, "model.layers.1.self_attn.magic.weight"));
    fixture_free(&f);
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

/* Opens the source, expects that it has as many notes, and writes the first of them. */
static void first_note(const char *path, size_t n_notes, char note[200]) {
    Source *source = NULL;
    Error error = {0};
    if (source_open(&source, path, NULL, &error) != STATUS_OK ||
        source_parse(source, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    assert_int_equal(source->n_notes, n_notes);
    snprintf(note, 200, "%s", n_notes ? source->notes[0] : "");
    source_close(source);
}

/* transformers warns of weights that the model does not use ("Some weights of the model checkpoint
 * ... were not used"); of prediction layers it says nothing (_keys_to_ignore_on_load_unexpected).
 */
static void layers_beyond_the_configuration_s_are_noted(void **state) {
    (void)state;
    Fixture f = fixture_load("llama-mha");
    json_t *config = json_object_get(f.json, "config");
    const json_int_t n = json_integer_value(json_object_get(config, "num_hidden_layers"));
    char note[200], expected[200], *path;
    for (json_int_t left = n; left > 0; left--) {
        json_object_set_new(config, "num_hidden_layers", json_integer(left));
        path = fixture_source(&f);
        first_note(path, left < n, note);
        snprintf(expected, sizeof expected,
                 "%d layer%s of the file %s left out: its configuration says that the model has %d",
                 (int)(n - left), n - left == 1 ? "" : "s", n - left == 1 ? "is" : "are",
                 (int)left);
        assert_string_equal(note, left < n ? expected : "");
        fixture_remove_directory(path);
    }
    /* A prediction layer, as GPTQ and compressed-tensors store it. */
    static const char *const projections[] = {"eh_proj.weight", "eh_proj.qweight",
                                              "eh_proj.weight_packed"};
    for (size_t i = 0; i < sizeof projections / sizeof *projections; i++) {
        char name[100];
        json_object_set_new(config, "num_hidden_layers", json_integer(n - 1));
        snprintf(name, sizeof name, "model.layers.%d.%s", (int)n - 1, projections[i]);
        json_object_set_new(json_object_get(f.json, "tensors"), name,
                            json_pack("[i, f, f, [i]]", 20, 1.0, 0.0, 4));
        path = fixture_source(&f);
        first_note(path, 0, note);
        json_object_del(json_object_get(f.json, "tensors"), name);
        fixture_remove_directory(path);
    }
    fixture_free(&f);
}

static void a_model_that_forgets_its_answer_is_noted(void **state) {
    (void)state;
    assert_true(notes_the_answer("unlimited_ocr"));
    assert_false(notes_the_answer("deepseek_ocr2"));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_class_of_transformers_ignores_changes_nothing),
        cmocka_unit_test(image_tokens_of_chameleon_cannot_be_drawn),
        cmocka_unit_test(a_base_without_parameters_is_ignored_where_the_class_has_its_own),
        cmocka_unit_test(absent_keys_have_the_defaults_of_transformers),
        cmocka_unit_test(null_means_what_the_class_makes_of_it),
        cmocka_unit_test(heads_are_as_wide_as_head_dim_says),
        cmocka_unit_test(a_bias_that_config_json_does_not_have_is_refused),
        cmocka_unit_test(a_head_that_only_the_whole_ties_is_missing),
        cmocka_unit_test(a_tied_model_uses_another_head_that_its_file_has),
        cmocka_unit_test(a_shape_that_does_not_fit_names_the_tensor),
        cmocka_unit_test(a_tensor_without_a_place_is_refused),
        cmocka_unit_test(a_whole_that_says_untied_does_not_untie_its_text_model),
        cmocka_unit_test(a_model_that_forgets_its_answer_is_noted),
        cmocka_unit_test(layers_beyond_the_configuration_s_are_noted),
        cmocka_unit_test(no_value_of_a_key_crashes),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
