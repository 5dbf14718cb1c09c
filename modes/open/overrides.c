#include "modes/open/overrides.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config_fields.h"
#include "session/config_text.h"

static const char *const allowed[] = {"attention_scale", "attention_softcap",
                                      "position",        "rope_theta",
                                      "window",          "norm",
                                      "norm_place",      "norm_eps",
                                      "final_norm",      "qk_norm",
                                      "activation",      "n_experts_used",
                                      "logit_scale",     "embedding_scale",
                                      "residual_scale",  "logit_softcap",
                                      "parallel_block",  "chunk",
                                      "query_scaling",   "query_scaling_floor",
                                      "index_topk"};

/* Says why the value changes nothing: it is the model's own, or the model lacks what it is about.
 */
static Status changes_nothing(const char *item, const char *why, Error *error) {
    error_set(error, "--override %.60s: it changes nothing: %s", item, why);
    return STATUS_USAGE;
}

/* Whether a limit on positions (a window, a chunk) is none: a text never gets so long. */
static bool limits_nothing(const Config *config, const ConfigField *field, const void *value) {
    bool is_limit = strcmp(field->name, "window") == 0 || strcmp(field->name, "chunk") == 0 ||
                    strcmp(field->name, "index_topk") == 0;
    return is_limit && *(const uint32_t *)value >= config->context;
}

/* Why the field means nothing in this model; NULL: it means something. */
static const char *unused(const Config *config, const char *field) {
    if (strcmp(field, "index_topk") == 0 && config->indexer.topk == 0)
        return "the model has no indexer that chooses positions";
    if (strcmp(field, "query_scaling_floor") == 0 && config->query_scaling == 0.0f)
        return "the model does not scale its queries (query_scaling is 0)";
    return NULL;
}

static const ConfigField *find_field(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        if (strlen(allowed[i]) != length || strncmp(allowed[i], name, length) != 0) continue;
        for (size_t k = 0; config_field(k); k++)
            if (strcmp(config_field(k)->name, allowed[i]) == 0) return config_field(k);
    }
    return NULL;
}

static Status not_allowed(const char *item, Error *error) {
    char names[512] = "";
    for (size_t i = 0, at = 0; i < sizeof allowed / sizeof *allowed && at < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", allowed[i]);
    snprintf(names + strlen(names), sizeof names - strlen(names),
             ", mask, positions, global_tokens, attention, ffn");
    error_set(error, "--override %.60s: FIELD=VALUE, where FIELD is one of %s", item, names);
    return STATUS_USAGE;
}

static Status wrong_value(const char *item, const char *expected, Error *error) {
    error_set(error, "--override %.60s: the value is not %s", item, expected);
    return STATUS_USAGE;
}

static Status set_enum(const char *item, const ConfigField *field, const char *value, unsigned *out,
                       Error *error) {
    char names[256] = "";
    for (size_t i = 0, at = 0; field->names[i] && at < sizeof names; i++) {
        if (strcmp(field->names[i], value) == 0) {
            *out = (unsigned)i;
            return STATUS_OK;
        }
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "one of ",
                               field->names[i]);
    }
    return wrong_value(item, names, error);
}

/* Parses the value as the kind of the field wants it and stores it in the configuration; a field
 * with a value for each layer gets the same one in all layers. */
static Status set_value(const char *item, const ConfigField *field, const char *value,
                        Config *config, Error *error) {
    void *out = (char *)config + field->offset;
    char *end;
    double number = strtod(value, &end);
    bool is_number = end != value && *end == '\0' && isfinite(number);
    bool is_whole = is_number && number >= 0 && number <= 1 << 28 && number == floor(number);
    if (field->kind == FIELD_ENUM) {
        /* The other position codes need tables that the file does not have. */
        if (strcmp(field->name, "position") == 0 && strcmp(value, "none") != 0)
            return wrong_value(item, "'none'", error);
        return set_enum(item, field, value, out, error);
    }
    if (field->kind == FIELD_FLOAT) {
        if (!is_number) return wrong_value(item, "a number", error);
        *(float *)out = (float)number;
    } else if (field->kind == FIELD_BOOL) {
        if (!is_whole || number > 1) return wrong_value(item, "0 or 1", error);
        *(bool *)out = number != 0.0;
    } else {
        if (!is_whole) return wrong_value(item, "a whole number", error);
        uint32_t n = field->kind == FIELD_PER_LAYER ? config->n_layers : 1;
        for (uint32_t i = 0; i < n; i++) ((uint32_t *)out)[i] = (uint32_t)number;
    }
    return STATUS_OK;
}

/* Adds "field = after (the model's: before)" to o->text. */
static Status add_text(Overrides *o, const char *field, const char *after, const char *before,
                       Error *error) {
    size_t length = o->text ? strlen(o->text) : 0, more = strlen(field) + 600;
    char *text = realloc(o->text, length + more);
    if (!text) return error_set(error, "no memory");
    snprintf(text + length, more, "%s%s = %.200s (the model's: %.200s)", length ? ", " : "", field,
             after, before);
    o->text = text;
    return STATUS_OK;
}

/* ---- Masks that exist only as overrides (masks.h) ---- */

static Status apply_mask(Overrides *o, const char *item, const char *value, Error *error) {
    for (int i = 1; masks_names[i]; i++) {
        if (strcmp(masks_names[i], value) != 0) continue;
        o->masks.mask = (MaskKind)i;
        return add_text(o, "mask", value, masks_names[0], error);
    }
    if (strcmp(value, masks_names[0]) == 0)
        return changes_nothing(item, "the model has causal", error);
    return wrong_value(item, "one of none, zero, -1e9", error);
}

static Status apply_positions(Overrides *o, const char *item, const char *value, Error *error) {
    if (strcmp(value, "every-layer") != 0) return wrong_value(item, "'every-layer'", error);
    o->masks.every_layer = true;
    return add_text(o, "positions", "every layer", "the first alone", error);
}

static Status apply_global_tokens(Overrides *o, const char *item, const char *value, Error *error) {
    char *end;
    unsigned long n = strtoul(value, &end, 10);
    if (*value < '1' || *value > '9' || *end || n > MASKS_POSITIONS)
        return wrong_value(item, "a whole number from 1 to 2048", error);
    o->masks.global_tokens = (uint32_t)n;
    return add_text(o, "global_tokens", value, "0", error);
}

/* ---- Branches that are off (branches_off.h) ---- */

/* Reads the override attention=off... or ffn=off..., and notes which branches it switches off. */
static Status apply_off(Overrides *o, const char *item, const char *value, bool attention,
                        Error *error) {
    BranchOff off;
    char place[64] = "off";
    if (!branches_off_read(value, attention, &off))
        return wrong_value(
            item, attention ? "off, off:LAYER or off:LAYER.HEAD" : "off or off:LAYER", error);
    for (size_t i = 0; i < o->off.n; i++) {
        const BranchOff *b = &o->off.items[i];
        if (b->attention == attention && (b->layer == SIZE_MAX || b->layer == off.layer) &&
            (b->head == SIZE_MAX || b->head == off.head))
            return changes_nothing(item, "it is off already", error);
    }
    if (o->off.n == BRANCHES_OFF_MOST)
        return wrong_value(item, "one of the first 64 that are off", error);
    o->off.items[o->off.n++] = off;
    if (off.layer != SIZE_MAX) snprintf(place, sizeof place, "off in layer %zu", off.layer);
    if (off.head != SIZE_MAX)
        snprintf(place, sizeof place, "off in head %zu of layer %zu", off.head, off.layer);
    return add_text(o, attention ? "attention" : "ffn", place, "on", error);
}

static Status apply_attention(Overrides *o, const char *item, const char *value, Error *error) {
    return apply_off(o, item, value, true, error);
}

static Status apply_ffn(Overrides *o, const char *item, const char *value, Error *error) {
    return apply_off(o, item, value, false, error);
}

/* Applies one FIELD=VALUE of Config and adds it to o->text. */
static Status apply_field(Overrides *o, const char *item, Config *config, Error *error) {
    const char *equals = strchr(item, '=');
    const ConfigField *field = equals ? find_field(item, (size_t)(equals - item)) : NULL;
    if (!field) return not_allowed(item, error);
    if (strcmp(field->name, "n_experts_used") == 0 && config->experts.count == 0)
        return wrong_value(item, "used: the model has no experts", error);
    if (strcmp(field->name, "position") == 0 && config->position == POSITION_NONE)
        return wrong_value(item, "used: the model has no position code", error);
    char before[256], after[256], why[300];
    Config was;
    memcpy(&was, config, sizeof was);
    config_text(config, field, before, sizeof before);
    if (unused(config, field->name))
        return changes_nothing(item, unused(config, field->name), error);
    Status status = set_value(item, field, equals + 1, config, error);
    if (status != STATUS_OK) return status;
    config_text(config, field, after, sizeof after);
    if (memcmp(&was, config, sizeof was) == 0) {
        snprintf(why, sizeof why, "the model has %s", before);
        return changes_nothing(item, why, error);
    }
    if (limits_nothing(config, field, (const char *)config + field->offset)) {
        snprintf(why, sizeof why, "the model's context ends at %u positions", config->context);
        return changes_nothing(item, why, error);
    }
    if (strcmp(field->name, "rope_theta") == 0) {
        if (config->position != POSITION_ROPE)
            return wrong_value(item, "allowed: the model has no RoPE", error);
        if (!(config->rope_theta > 1.0f)) return wrong_value(item, "above 1", error);
        o->rope_theta = config->rope_theta;
    }
    return add_text(o, field->name, after, before, error);
}

static Status apply_override(Overrides *o, const char *item, Config *config, Error *error) {
    static const struct {
        const char *name;
        Status (*apply)(Overrides *o, const char *item, const char *value, Error *error);
    } others[] = {{"mask=", apply_mask},
                  {"positions=", apply_positions},
                  {"global_tokens=", apply_global_tokens},
                  {"attention=", apply_attention},
                  {"ffn=", apply_ffn}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        size_t n = strlen(others[i].name);
        if (strncmp(item, others[i].name, n) == 0) return others[i].apply(o, item, item + n, error);
    }
    return apply_field(o, item, config, error);
}

Status overrides_apply(Overrides *overrides, const OptionList *list, Config *config, Error *error) {
    *overrides = (Overrides){0};
    for (size_t i = 0; i < list->n; i++) {
        Status status = apply_override(overrides, list->items[i], config, error);
        if (status != STATUS_OK) return status;
    }
    if (list->n > 0 && config_validate(config, error) != STATUS_OK)
        return error_prefix(error, "--override");
    return STATUS_OK;
}

void overrides_free(Overrides *overrides) {
    free(overrides->text);
    overrides->text = NULL;
}
