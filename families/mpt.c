/* MPT: ALiBi, no biases. */
#include "families/shared.h"

static Status mpt_finish(const json_t *json, Config *config, Error *error) {
    const json_t *attention = json_value(json, "attn_config");
    /* transformers ignores these switches, but not so the models that have them. */
    if (family_refuse(attention, "alibi", "true", error) != STATUS_OK ||
        family_refuse(attention, "qk_ln", "false", error) != STATUS_OK ||
        family_refuse(attention, "prefix_lm", "false", error) != STATUS_OK)
        return STATUS_FAILED;
    config->qkv_clip = (float)json_number(attention, "clip_qkv", 0);
    config->attention_scale =
        (float)json_number(attention, "softmax_scale", (double)config->attention_scale);
    return STATUS_OK;
}

static Status gguf_mpt_finish(const GgufModel *m, Config *c) {
    double bias = 0.0;
    gguf_model_float(m, "attention.max_alibi_bias", &bias);
    if (!(bias > 0.0))
        return error_set(m->error, "%s: an MPT without ALiBi is not known to this program",
                         m->source->path);
    c->position = POSITION_ALIBI;
    c->alibi_max_bias = (float)bias;
    return STATUS_OK;
}

const FamilyHook families_mpt[] = {
    {"mpt", .finish = mpt_finish, .gguf_finish = gguf_mpt_finish},
    {0},
};
