#include "formats/stored/quantization.h"

#include <stdlib.h>
#include <string.h>

#include "formats/family/family.h"

/* ---- Keys ---- */

/* Whether the text is one of `texts` (separated by spaces). */
static bool is_one_of(const char *text, const char *texts) {
    for (size_t n; *texts; texts += n + (texts[n] == ' ')) {
        n = strcspn(texts, " ");
        if (strlen(text) == n && memcmp(texts, text, n) == 0) return true;
    }
    return false;
}

/* Refuses a key of the object that is not among `known` (separated by spaces). `where` is the
 * object's name in messages. */
static Status known_keys(const json_t *object, const char *where, const char *known, Error *error) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        if (is_one_of(key, known)) continue;
        return error_set(error, "%s: the key '%.60s' is not known to this program", where, key);
    }
    return STATUS_OK;
}

/* Refuses the key unless it is absent, null or one of `texts`. */
static Status known_text(const json_t *object, const char *key, const char *texts, Error *error) {
    const json_t *value = json_value(object, key);
    if (!value || (json_is_string(value) && is_one_of(json_string_value(value), texts)))
        return STATUS_OK;
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    error_set(error, "quantization_config: %s is %.60s, which this program does not know (only %s)",
              key, text ? text : "?", texts);
    free(text);
    return STATUS_FAILED;
}

/* Reads [rows, columns] of the weights that share a scale; absent or null: none are named. */
static Status read_block(const json_t *object, const char *key, Quantization *out, Error *error) {
    const json_t *value = json_value(object, key);
    if (!value) return STATUS_OK;
    json_int_t sizes[2] = {0, 0};
    for (size_t i = 0; i < 2; i++) sizes[i] = json_integer_value(json_array_get(value, i));
    if (json_array_size(value) != 2 || sizes[0] < 1 || sizes[1] < 1 || sizes[0] > 1 << 20 ||
        sizes[1] > 1 << 20)
        return error_set(error, "quantization_config: %s is not two sizes, [rows, columns]", key);
    uint32_t rows = (uint32_t)sizes[0], cols = (uint32_t)sizes[1];
    if (out->block_rows && (out->block_rows != rows || out->block_cols != cols))
        return error_set(error, "quantization_config: groups with different sizes of blocks");
    out->block_rows = rows;
    out->block_cols = cols;
    return STATUS_OK;
}

/* ---- Methods ---- */

/* transformers' FineGrainedFP8Config and FbgemmFp8Config. */
static Status read_fp8(const json_t *q, Quantization *out, Error *error) {
    if (known_keys(q, "quantization_config",
                   "quant_method activation_scheme weight_block_size dequantize scale_fmt fmt "
                   "expert_dtype modules_to_not_convert modules_to_convert ignored_layers "
                   "activation_scale_ub",
                   error) != STATUS_OK ||
        known_text(q, "activation_scheme", "dynamic static", error) != STATUS_OK ||
        known_text(q, "scale_fmt", "float ue8m0", error) != STATUS_OK ||
        known_text(q, "fmt", "e4m3 float8_e4m3fn", error) != STATUS_OK ||
        known_text(q, "expert_dtype", "fp8", error) != STATUS_OK)
        return STATUS_FAILED;
    out->kind = QUANTIZATION_SCALED;
    return read_block(q, "weight_block_size", out, error);
}

#define SCALED_FORMATS "float-quantized int-quantized naive-quantized"
#define PACKED_FORMATS "pack-quantized"

/* The scheme of one group of layers of compressed-tensors. That of activations is of no concern. */
static Status read_group(const json_t *group, Quantization *out, Error *error) {
    bool packed = out->kind == QUANTIZATION_PACKED;
    static const char weights_name[] = "quantization_config: config_groups: weights";
    const json_t *weights = json_value(group, "weights");
    if (known_keys(group, "quantization_config: config_groups",
                   "targets weights input_activations output_activations format",
                   error) != STATUS_OK)
        return STATUS_FAILED;
    if (!weights) return STATUS_OK;
    if (known_keys(weights, weights_name,
                   "num_bits type symmetric strategy group_size block_structure dynamic actorder "
                   "observer observer_kwargs scale_dtype zp_dtype",
                   error) != STATUS_OK ||
        family_refuse(weights, "num_bits", packed ? "4" : "8", error) != STATUS_OK ||
        family_refuse(weights, "symmetric", "true", error) != STATUS_OK ||
        family_refuse(weights, "dynamic", "false", error) != STATUS_OK ||
        family_refuse(weights, "actorder", "false", error) != STATUS_OK ||
        known_text(weights, "type", packed ? "int" : "float int", error) != STATUS_OK ||
        known_text(weights, "strategy", "tensor channel block group", error) != STATUS_OK ||
        known_text(group, "format", packed ? PACKED_FORMATS : SCALED_FORMATS, error) != STATUS_OK)
        return STATUS_FAILED;
    const json_t *given = json_value(weights, "group_size");
    json_int_t size = json_integer_value(given);
    if (given && !json_is_integer(given))
        return error_set(error, "%s: group_size is not a whole number", weights_name);
    if (size > 0) { /* a block of one row */
        json_t *row = json_pack("{s:[i, I]}", "group_size", 1, size);
        Status status = row ? read_block(row, "group_size", out, error)
                            : error_set(error, "quantization_config: no memory");
        json_decref(row);
        return status;
    }
    return read_block(weights, "block_structure", out, error);
}

/* The compressed-tensors package's config, as far as weights have 8 bits each, or 4 around zero. */
static Status read_compressed(const json_t *q, Quantization *out, Error *error) {
    const json_t *sparsity = json_value(q, "sparsity_config");
    if (known_keys(q, "quantization_config",
                   "quant_method config_groups format ignore kv_cache_scheme quantization_status "
                   "global_compression_ratio sparsity_config transform_config version",
                   error) != STATUS_OK ||
        known_text(q, "format", SCALED_FORMATS " " PACKED_FORMATS, error) != STATUS_OK ||
        known_text(q, "quantization_status", "compressed frozen", error) != STATUS_OK ||
        known_text(sparsity, "format", "dense", error) != STATUS_OK ||
        family_refuse(q, "transform_config", "{}", error) != STATUS_OK)
        return STATUS_FAILED;
    const char *name, *format = json_text(q, "format");
    bool packed = format && strcmp(format, PACKED_FORMATS) == 0;
    out->kind = packed ? QUANTIZATION_PACKED : QUANTIZATION_SCALED;
    json_t *group;
    json_object_foreach(json_object_get((json_t *)q, "config_groups"), name, group) {
        if (read_group(group, out, error) != STATUS_OK) return STATUS_FAILED;
    }
    return STATUS_OK;
}

Status quantization_read(const json_t *config, Quantization *out, Error *error) {
    const json_t *q = json_value(config, "quantization_config");
    const char *method = json_text(q, "quant_method"), *type = json_text(config, "model_type");
    *out = (Quantization){.kind = QUANTIZATION_NONE};
    /* The first files of Inkling 2 do not say that their experts are MXFP8. Of weights that are
     * not, nothing changes. */
    if (!q && type &&
        (strcmp(type, "inkling2_text") == 0 || strcmp(type, "inkling2_loop_text") == 0))
        *out = (Quantization){.kind = QUANTIZATION_SCALED, .block_rows = 1, .block_cols = 32};
    if (!q) return STATUS_OK;
    if (!method) method = "an unnamed method";
    if (strcmp(method, "fp8") == 0 || strcmp(method, "fbgemm_fp8") == 0)
        return read_fp8(q, out, error);
    if (strcmp(method, "compressed-tensors") == 0) return read_compressed(q, out, error);
    if (strcmp(method, "mxfp4") == 0) {
        out->kind = QUANTIZATION_MXFP4;
        return known_keys(q, "quantization_config",
                          "quant_method modules_to_not_convert dequantize", error);
    }
    if (strcmp(method, "bitnet") == 0 && type && strcmp(type, "bitnet") == 0) {
        const char *linear = json_text(q, "linear_class");
        out->kind = QUANTIZATION_TERNARY;
        out->divides = !linear || strcmp(linear, "autobitlinear") != 0;
        return known_keys(q, "quantization_config",
                          "quant_method modules_to_not_convert linear_class quantization_mode "
                          "use_rms_norm rms_norm_eps",
                          error);
    }
    return error_set(error,
                     "quantization_config: weights quantized by '%.40s' cannot be read; use the "
                     "model in full precision, in FP8 or as GGUF",
                     method);
}
