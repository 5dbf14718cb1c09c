#include "formats/family/prediction.h"

#include <stdio.h>
#include <string.h>

#include "core/config_fields.h"

#define FURTHER "model.layers.%u."
#define BLOCK "blk.%u."

static const TensorRule mtp_rules[] = {
    VECTOR("mtp.embedding_norm", "mtp.pre_fc_norm_embedding.weight", "dim",
           .values = VALUES_PLUS_ONE),
    VECTOR("mtp.hidden_norm", "mtp.pre_fc_norm_hidden.weight", "dim", .values = VALUES_PLUS_ONE),
    MATRIX("mtp.projection", "mtp.fc.weight", "dim", "2 * dim"),
    VECTOR("mtp.final_norm", "mtp.norm.weight", "dim", .values = VALUES_PLUS_ONE),
    {0},
};
static const TensorRule nextn_rules[] = {
    VECTOR("mtp.embedding_norm", ".enorm.weight", "dim"),
    VECTOR("mtp.hidden_norm", ".hnorm.weight", "dim"),
    MATRIX("mtp.projection", ".eh_proj.weight", "dim", "2 * dim"),
    VECTOR("mtp.final_norm", ".shared_head.norm.weight", "dim", .optional = true),
    MATRIX("mtp.embedding", ".embed_tokens.weight", "vocab_size", "dim",
           .same_as = "token_embedding"),
    MATRIX("mtp.output", ".shared_head.head.weight", "vocab_size", "dim", .same_as = "output"),
    {0},
};
static const TensorRule gguf_rules[] = {
    VECTOR("mtp.embedding_norm", ".nextn.enorm.weight", "dim"),
    VECTOR("mtp.hidden_norm", ".nextn.hnorm.weight", "dim"),
    MATRIX("mtp.projection", ".nextn.eh_proj.weight", "dim", "2 * dim"),
    VECTOR("mtp.final_norm", ".nextn.shared_head_norm.weight", "dim", .optional = true),
    MATRIX("mtp.embedding", ".nextn.embed_tokens.weight", "vocab_size", "dim",
           .same_as = "token_embedding"),
    MATRIX("mtp.output", ".nextn.shared_head_head.weight", "vocab_size", "dim",
           .same_as = "output"),
    {0},
};

static const struct {
    const TensorRule *rules;
    const char *sign;       /* a tensor that the number-th prediction layer has */
    const char *mtp_prefix; /* RuleContext's; the number then counts from 0 */
} forms[] = {
    [PREDICTION_NONE] = {NULL, NULL, NULL},
    [PREDICTION_MTP] = {mtp_rules, "mtp.layers.%u.input_layernorm.weight", "mtp.layers.%u."},
    [PREDICTION_NEXTN] = {nextn_rules, FURTHER "eh_proj.weight", NULL},
    [PREDICTION_GGUF] = {gguf_rules, BLOCK "nextn.eh_proj.weight", NULL},
};

/* Whether the source has prediction layer number i. */
static bool has_layer(const RuleContext *c, PredictionForm form, uint32_t i) {
    const char *sign = forms[form].sign, *at = strstr(sign, "%u");
    uint32_t number = forms[form].mtp_prefix ? i : c->source->config.n_layers + i;
    char name[128];
    snprintf(name, sizeof name, "%.*s%u%s", (int)(at - sign), sign, number, at + 2);
    return rules_find(c, name) != NULL;
}

/* Gives a prediction layer the fields of the last layer that attends. It sees all positions: its
 * indexer, if it has one, would change guesses alone. */
static void copy_fields(Config *c, uint32_t layer) {
    uint32_t from = c->n_layers - 1;
    const ConfigField *field;
    while (from > 0 && c->layer_kind[from] != LAYER_ATTENTION &&
           c->layer_kind[from] != LAYER_LATENT)
        from--;
    for (size_t i = 0; (field = config_field(i)); i++) {
        uint32_t *values = (uint32_t *)((char *)c + field->offset);
        if (field->kind == FIELD_PER_LAYER) values[layer] = values[from];
    }
    c->kv_distance[layer] = c->without_ffn[layer] = 0;
    c->indexer.layer[layer] = INDEXER_NONE;
}

void prediction_fields(Config *c) {
    for (uint32_t i = 0; i < c->mtp.n_layers; i++) copy_fields(c, c->n_layers + i);
}

Status prediction_find(RuleContext *c, PredictionForm form, Error *error) {
    Config *config = &c->source->config;
    uint32_t n = 0;
    config->mtp.n_layers = 0;
    if (form == PREDICTION_NONE || c->source->no_mtp || config->n_layers == 0) return STATUS_OK;
    while (n <= CONFIG_MAX_MTP_LAYERS && has_layer(c, form, n)) n++;
    if (n > CONFIG_MAX_MTP_LAYERS || n > CONFIG_MAX_LAYERS - config->n_layers)
        return error_set(error, "%s: more than %d prediction layers, or %d layers in all",
                         c->source->path, CONFIG_MAX_MTP_LAYERS, CONFIG_MAX_LAYERS);
    config->mtp.n_layers = n;
    c->mtp_prefix = forms[form].mtp_prefix;
    prediction_fields(config);
    return STATUS_OK;
}

Status prediction_add(const RuleContext *c, PredictionForm form, Error *error) {
    static const char *const harmless[] = {NULL};
    const Config *config = &c->source->config;
    Status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < config->mtp.n_layers; i++)
        status = rules_apply_to_layer(c, forms[form].rules, config->n_layers + i, error);
    if (status != STATUS_OK || !c->mtp_prefix) return status;
    char layers[64];
    snprintf(layers, sizeof layers, "%.*s", (int)strcspn(c->mtp_prefix, "%"), c->mtp_prefix);
    return rules_check_leftovers(c, layers, harmless, config->family, error);
}
