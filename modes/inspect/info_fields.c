#include "modes/inspect/info_fields.h"

#include <string.h>

#include "session/config_text.h"

static bool is_among(const char *name, const char *const *names) {
    while (*names && strcmp(*names, name) != 0) names++;
    return *names != NULL;
}

/* Fields that belong to one kind of positions begin with one of these. */
static const struct {
    const char *begin;
    PositionKind position;
} kinds[] = {{"rope_", POSITION_ROPE},
             {"rotary_", POSITION_ROPE},
             {"sinusoid_", POSITION_SINUSOIDAL},
             {"alibi_", POSITION_ALIBI}};

static bool differs(const Config *config, const ConfigField *field) {
    char own[512], other[512];
    Config usual = config_default();
    usual.n_layers = config->n_layers; /* so that lists by layer are as long */
    config_text(config, field, own, sizeof own);
    config_text(&usual, field, other, sizeof other);
    return strcmp(own, other) != 0;
}

bool info_fields_is_set(const Config *config, const ConfigField *field) {
    static const char *const of_all[] = {
        "family",     "name",     "dim",      "n_layers",        "n_heads",    "n_kv_heads",
        "head_dim",   "ffn_dim",  "gated",    "vocab_size",      "context",    "norm",
        "norm_place", "norm_eps", "position", "attention_scale", "activation", "bos_id",
        "add_bos",    "eos_id",   NULL};
    static const char *const of_positions[] = {
        "rope_theta",      "rope_pairing",   "rotary_dim", "sinusoid_base",
        "sinusoid_layout", "alibi_max_bias", NULL};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strncmp(field->name, kinds[i].begin, strlen(kinds[i].begin)) != 0) continue;
        if (config->position != kinds[i].position) return false;
        if (is_among(field->name, of_positions)) return true;
    }
    return is_among(field->name, of_all) || differs(config, field);
}
