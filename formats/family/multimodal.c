#include "formats/family/multimodal.h"

#include <stdio.h>
#include <string.h>

#include "json/json_object.h"

typedef struct Wrapper {
    const char *model_type, *text_type;
    bool text_varies;      /* text_config's own model_type decides; text_type is for its absence */
    bool may_be_flat;      /* older files have the text model's keys beside vision_config */
    bool tied;             /* tie_word_embeddings where the key is absent */
    bool text_tied;        /* the same in text_config; a flat file is then always tied */
    bool text_decides;     /* only text_config's key ties */
    const char *tied_key;  /* key that counts before tie_word_embeddings; NULL: none */
    bool plain_logits;     /* the text model's scale and cap of the logits do not count */
    bool image_sees_ahead; /* use_bidirectional_attention is about a prompt with an image alone */
    const char *within;    /* text_config is in this member of config.json; NULL: at the top */
    const char *older;     /* what the first files call text_config; NULL: text_config */
} Wrapper;

static const Wrapper wrappers[] = {
    {"mistral3", "mistral", .text_varies = true, .tied = true},
    {"mistral_large4", "mistral_large4_text", .tied = false},
    {"minimax_m3_vl", "minimax_m3_vl_text", .tied = false},
    {"gemma3", "gemma3_text", .plain_logits = true, .tied = true},
    {"gemma3n", "gemma3n_text", .tied = true},
    {"gemma4", "gemma4_text", .tied = true},
    {"gemma4_unified", "gemma4_unified_text", .tied = true},
    {"llama4", "llama4_text", .text_decides = true},
    {"qwen2_vl", "qwen2_vl_text", .may_be_flat = true},
    {"qwen2_5_vl", "qwen2_5_vl_text", .may_be_flat = true},
    {"qwen3_vl", "qwen3_vl_text", .tied = false},
    {"qwen3_vl_moe", "qwen3_vl_moe_text", .tied = false},
    {"qwen3_5", "qwen3_5_text", .tied = false},
    {"qwen3_5_moe", "qwen3_5_moe_text", .tied = false},
    {"qwen4_exp", "qwen4_exp_text", .tied = false},
    {"lfm2_vl", "lfm2", .tied = true, .tied_key = "tie_embedding"},
    {"lfm3_vl", "lfm3", .tied = true},
    {"glm4v", "glm4v_text", .tied = false},
    {"glm5_next", "glm5_next_text", .may_be_flat = true},
    {"exaone4_5", "exaone4", .text_varies = true},
    {"granite4_vision", "granite", .tied = false},
    {"nemotron_h_omni", "nemotron_h", .text_varies = true, .text_decides = true,
     .older = "llm_config"},
    {"hunyuan_vl", "hunyuan_vl_text", .may_be_flat = true, .tied = true, .text_tied = true},
    {"aria", "aria_text", .tied = false},
    {"ernie4_5_vl_moe", "ernie4_5_vl_moe_text", .tied = true},
    {"muse_glimmer", "muse_glimmer_text", .tied = false},
    {"muse_spark", "muse_spark_text", .tied = false},
    {"step3p7", "step3p5", .tied = false},
    {"dots3_note", "dots3_note_text", .may_be_flat = true, .tied = false},
    {"kimi_k25", "deepseek_v3", .text_varies = true, .tied = true},
    {"aya_vision", "cohere2", .text_varies = true, .plain_logits = true, .tied = true},
    {"cohere2_vision", "cohere2", .text_varies = true, .plain_logits = true, .tied = true},
    {"deepseek_vl", "llama", .text_varies = true, .plain_logits = true, .tied = true},
    {"deepseek_vl_hybrid", "llama", .text_varies = true, .plain_logits = true, .tied = true},
    {"fast_vlm", "qwen2", .text_varies = true, .plain_logits = true},
    {"glm46v", "glm4v_text", .text_varies = true, .plain_logits = true},
    {"got_ocr2", "qwen2", .text_varies = true, .plain_logits = true, .tied = true},
    {"hyperclovax_vision_v2", "hyperclovax", .text_varies = true, .tied = true},
    {"idefics2", "mistral", .text_varies = true, .plain_logits = true},
    {"idefics3", "llama", .text_varies = true, .plain_logits = true},
    {"internvl", "qwen2", .text_varies = true, .plain_logits = true, .tied = true},
    {"janus", "llama", .text_varies = true, .plain_logits = true, .tied = true},
    {"lighton_ocr", "qwen3", .text_varies = true, .plain_logits = true, .tied = true},
    {"llava", "llama", .text_varies = true, .plain_logits = true},
    {"llava_next", "llama", .text_varies = true, .plain_logits = true},
    {"llava_next_video", "llama", .text_varies = true, .plain_logits = true},
    {"llava_onevision", "qwen2", .text_varies = true, .plain_logits = true},
    {"minicpm_ocr", "qwen3_5_text", .text_varies = true, .plain_logits = true, .tied = true},
    {"minicpmv4_6", "qwen3_5_text", .text_varies = true, .plain_logits = true},
    {"minicpmv4_7", "qwen3_5_text", .text_varies = true, .plain_logits = true},
    {"ovis2", "qwen2", .text_varies = true, .plain_logits = true, .tied = true},
    {"perception_lm", "llama", .text_varies = true, .plain_logits = true},
    {"glm4v_moe", "glm4v_moe_text", .tied = false},
    {"qwen2_5_omni", "qwen2_5_omni_text", .within = "thinker_config"},
    {"qwen2_5_omni_thinker", "qwen2_5_omni_text", .tied = false},
    {"qwen3_omni_moe", "qwen3_omni_moe_text", .within = "thinker_config"},
    {"qwen3_omni_moe_thinker", "qwen3_omni_moe_text", .tied = false},
    {"paddleocr_vl", "paddleocr_vl_text", .may_be_flat = true, .tied = true, .text_tied = true},
    {"qianfan_ocr", "qwen3", .text_varies = true, .plain_logits = true},
    {"smolvlm", "llama", .text_varies = true, .plain_logits = true},
    {"video_llama_3", "qwen2", .text_varies = true, .plain_logits = true},
    {"video_llava", "llama", .text_varies = true, .plain_logits = true},
    {"vipllava", "llama", .text_varies = true, .plain_logits = true},
    {"glmga", "glm4v_text", .text_varies = true, .plain_logits = true},
    {"cosmos3_omni", "cosmos3_omni_text", .tied = false},
    {"emu3", "emu3_text_model", .tied = false},
    {"granite_docling", "granite_docling_text", .tied = true},
    {"glm_ocr", "glm_ocr_text", .tied = false},
    {"deepseek_ocr2", "deepseek_ocr2_text", .tied = false},
    {"unlimited_ocr", "unlimited_ocr_text", .older = "language_config"},
    {"cohere_compass", "cohere_compass_text", .tied = false},
    {"pp_chart2table", "qwen2", .text_varies = true, .plain_logits = true, .tied = true},
    {"shieldgemma2", "gemma3_text", .plain_logits = true, .text_tied = true},
    {"fuyu", "persimmon", .text_varies = true, .plain_logits = true},
    {"paligemma", "gemma", .text_varies = true, .tied = true, .image_sees_ahead = true},
    {"moss_transcribe_diarize", "qwen3", .text_varies = true, .plain_logits = true, .tied = true},
    {"cosmos3_edge", "cosmos3_edge_text", .tied = false},
    {"kosmos-2", "kosmos_2_text_model", .tied = true},
    {"kosmos-2.5", "kosmos_2_5_text_model", .tied = true},
    {"mllama", "mllama_text_model", .tied = false},
    {"blip-2", "opt", .text_varies = true, .plain_logits = true, .tied = true},
    {"instructblip", "opt", .text_varies = true, .plain_logits = true, .tied = true},
    {"instructblipvideo", "opt", .text_varies = true, .plain_logits = true, .tied = true},
    {"molmo2", "molmo2_text", .tied = false},
    {"inkling_mm_model", "inkling_text", .tied = false},
    {"inkling2", "inkling2_text", .tied = false},
    {"inkling2_loop", "inkling2_loop_text", .tied = false},
    {"apertus1p5", "apertus1p5_text", .tied = false},
    {"hy_v4_vl", "hy_v4_vl_text", .tied = false},
};
enum { WRAPPERS = sizeof wrappers / sizeof *wrappers };

const char *multimodal_type(size_t i) {
    return i < WRAPPERS ? wrappers[i].model_type : NULL;
}

/* What transformers 5.24 writes by the reverse of renamings that are meant for the half that sees.
 */
static const struct {
    const char *model_type, *saved, *released;
} saved_names[] = {
    {"kimi_k25", "language_model.model.blocks.", "language_model.model.layers."},
    {"kimi_k25", ".self_wqkv.", ".self_attn.q_proj."},
    {"qianfan_ocr", "language_model.model.encoder.layers.", "language_model.model.layers."},
};

const char *multimodal_released_name(const char *model_type, const char *name, char *out,
                                     size_t size) {
    const char *found = NULL;
    if (!strstr(name, "language_model.model.")) return NULL;
    for (size_t i = 0; i < sizeof saved_names / sizeof *saved_names; i++) {
        const char *from = found ? found : name, *at = strstr(from, saved_names[i].saved);
        char before[256];
        if (!at || strcmp(saved_names[i].model_type, model_type) != 0) continue;
        if (strlen(from) + 32 > sizeof before || size < sizeof before) return NULL;
        memcpy(before, from, strlen(from) + 1);
        snprintf(out, size, "%.*s%s%s", (int)(at - from), before, saved_names[i].released,
                 before + (at - from) + strlen(saved_names[i].saved));
        found = out;
    }
    return found;
}

/* transformers renames a text model whose first files had a name of their own. */
static const char *current_name(const char *type) {
    if (strcmp(type, "exaone4_5_text") == 0) return "exaone4";
    return strcmp(type, "kimi_k2") == 0 ? "deepseek_v3" : type;
}

/* Copies the member `key` of `from` where `to` lacks it. */
static void inherit(json_t *to, const json_t *from, const char *key) {
    json_t *value = json_object_get(from, key);
    if (value && !json_value(to, key)) json_object_set(to, key, value);
}

/* Whether the object's keys tie the output head to the embedding. */
static bool is_tied(const Wrapper *wrapper, const json_t *object, bool absent) {
    bool tied = json_switch(object, "tie_word_embeddings", absent);
    return wrapper->tied_key ? json_switch(object, wrapper->tied_key, tied) : tied;
}

Status multimodal_text_config(json_t **config, bool *is_part, Error *error) {
    const Wrapper *wrapper = NULL;
    const char *type = json_text(*config, "model_type");
    for (size_t i = 0; type && i < WRAPPERS; i++)
        if (strcmp(wrappers[i].model_type, type) == 0) wrapper = &wrappers[i];
    *is_part = wrapper != NULL;
    if (!wrapper) return STATUS_OK;
    const json_t *whole = wrapper->within ? json_value(*config, wrapper->within) : *config;
    const json_t *own = json_value(whole, "text_config");
    if (!own && wrapper->older) own = json_value(whole, wrapper->older);
    if (!own && wrapper->may_be_flat) own = *config;
    if (!json_is_object(own))
        return error_set(error,
                         "config.json: %s%stext_config%s%s is missing, which a model of type "
                         "'%s' must have",
                         wrapper->within ? wrapper->within : "", wrapper->within ? "." : "",
                         wrapper->older ? " or " : "", wrapper->older ? wrapper->older : "",
                         wrapper->model_type);
    json_t *text = json_copy((json_t *)own);
    if (!text) return error_set(error, "config.json: no memory");
    const char *text_type = own == *config ? NULL : json_text(own, "model_type");
    if (!text_type || !wrapper->text_varies) text_type = wrapper->text_type;
    json_object_set_new(text, "model_type", json_string(current_name(text_type)));
    bool ties = is_tied(wrapper, whole, wrapper->tied);
    if (wrapper->text_decides) ties = false;
    ties =
        ties || (wrapper->text_tied && own == *config) || is_tied(wrapper, own, wrapper->text_tied);
    if (ties || json_value(own, "tie_word_embeddings") || !wrapper->text_varies)
        json_object_set_new(text, "tie_word_embeddings", json_boolean(ties));
    if (wrapper->tied_key) json_object_del(text, wrapper->tied_key);
    if (wrapper->image_sees_ahead) json_object_del(text, "use_bidirectional_attention");
    /* transformers' classes for images multiply by the output head and do nothing else. */
    if (wrapper->plain_logits) {
        json_object_set_new(text, "final_logit_softcapping", json_null());
        json_object_set_new(text, "logit_scale", json_integer(1));
        json_object_set_new(text, "logits_scaling", json_integer(1));
    }
    inherit(text, *config, "quantization_config");
    inherit(text, *config, "bos_token_id");
    inherit(text, *config, "eos_token_id");
    json_decref(*config);
    *config = text;
    return STATUS_OK;
}

const json_t *multimodal_inner(const json_t *config, const char **key) {
    static const char *const keys[] = {"text_config", "llm_config", "language_config"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *inner = json_value(config, keys[i]);
        *key = keys[i];
        if (json_is_object(inner)) return inner;
    }
    return NULL;
}
