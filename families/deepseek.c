/* DeepSeek V2, V3 and V3.2, and Kimi K2: latent attention, experts in groups, indexers. */
#include "families/shared.h"

/* Whole heads are rotated: rope.dimension_count is that of latent attention, 0. */
static Status gguf_ocr_finish(const GgufModel *m, Config *c) {
    (void)m;
    c->rotary_dim = c->head_dim;
    return STATUS_OK;
}

static const char *const forgets_answer =
    "a token sees the whole answer before it, where transformers keeps the last sliding_window "
    "tokens of the answer: from there on the logits differ";

/* Unlimited-OCR's sliding window applies only to the answer, and such windows are not computed
 * here: clears them and notes the difference. */
static Status gguf_ocr_by_layer(const GgufModel *m, Config *c) {
    if (c->n_layers > 0 && c->window[0] > 0) source_add_note(m->source, forgets_answer);
    memset(c->window, 0, sizeof c->window);
    return STATUS_OK;
}

/* Says where layers that forget tokens of the answer differ from transformers. */
static Status unlimited_ocr_more(const RuleContext *context, const json_t *json, Error *error) {
    const json_t *types = json_value(json, "layer_types"), *type;
    bool forgets = !types;
    size_t i;
    (void)error;
    json_array_foreach((json_t *)types, i, type) {
        const char *name = json_string_value(type);
        forgets = forgets || !name || strcmp(name, "full_attention") != 0;
    }
    if (forgets) source_add_note(context->source, forgets_answer);
    return STATUS_OK;
}

static Status deepseek_v2_finish(const json_t *json, Config *config, Error *error) {
    const char *method = json_text(json, "topk_method");
    if (!method || strcmp(method, "greedy") == 0) {
        config->router.groups = config->router.groups_used = 0;
    } else if (strcmp(method, "group_limited_greedy") != 0) {
        return error_set(error, "config.json: topk_method '%.40s' is not known", method);
    }
    return STATUS_OK;
}

const FamilyHook families_deepseek[] = {
    {"deepseek_v2", .finish = deepseek_v2_finish},
    {"ocr", .gguf_finish = gguf_ocr_finish, .gguf_by_layer = gguf_ocr_by_layer},
    {"unlimited_ocr", .more = unlimited_ocr_more},
    {"deepseek2", .gguf_finish = gguf_deepseek2_finish},
    {0},
};
