/* Quantized weights of Hugging Face directories are refused where their scales do not fit. */
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
        fixture_refusal(&f, &error);
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
        fixture_refusal(&f, &error);
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
    fixture_refusal(&f, &error);
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
    fixture_refusal(&f, &error);
    if (!strstr(error.text, "zero points")) fail_msg("%s", error.text);
    fixture_free(&f);
}

/* A vector as a column of FP8 rows, each with a scale, is not a vector of FP8 that has one row. */
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
    fixture_refusal(&f, &error);
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

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_without_their_scales_are_refused),
        cmocka_unit_test(packed_weights_without_their_scale_are_refused),
        cmocka_unit_test(weights_without_their_scales_are_refused),
        cmocka_unit_test(unknown_quantizations_are_refused_by_name),
        cmocka_unit_test(scales_of_another_shape_are_not_read),
        cmocka_unit_test(packed_codes_without_their_scales_are_refused),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
