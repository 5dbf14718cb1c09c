#include "formats/family/gguf_match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/family/families.h"

/* How many of the keys that the architecture requires the file lacks. */
static size_t count_missing(const GgufModel *model, const GgufFamily *family) {
    const char *keys = family->required;
    char key[STEP_WORD];
    size_t n = 0;
    while (keys && step_word(&keys, key)) n += gguf_model_value(model, key) == NULL;
    return n;
}

/* Ranks architectures that match equally well; the highest value wins. One with fewer lines is
 * preferred, then the one whose name has the longest common prefix with the file's. Without such a
 * name it is a llama, from which most others differ. */
static double preference(const FamilyMatch *match, const GgufFamily *family) {
    const char *name = family->architecture;
    size_t lines = 0, same = 0;
    for (const TensorRule *rule = family->tensors; rule->to; rule++) lines++;
    for (const Preset *set = family->set; set && set->field; set++) lines++;
    for (const GgufKey *key = family->keys; key && key->key; key++) lines++;
    if (family->finish || family->more || family->by_layer) lines += 20;
    while (match->type[same] && match->type[same] == name[same]) same++;
    double usual = !match->has_kin && strcmp(name, "llama") == 0 ? 0.02 : 0.0;
    return usual + (same > 3 ? 0.01 * (double)(same < 8 ? same : 8) : 0.0) - 0.0002 * (double)lines;
}

/* Makes the architecture the family that the match is about. */
static void look_at(FamilyMatch *match, const GgufFamily *family) {
    match->view = (Family){.model_type = family->architecture,
                           .tensors = family->tensors,
                           .layers = GGUF_LAYERS,
                           .any_biases = true};
    match->family = &match->view;
}

/* How near the architecture is; below 0: it takes few of the tensors. */
static double rate(const GgufModel *model, FamilyMatch *match, const GgufFamily *family) {
    double lacking;
    look_at(match, family);
    size_t n_taken = family_match_take(match, &lacking);
    if (3 * n_taken < match->n_kinds || n_taken == 0) return -1.0;
    return family_match_overlap(n_taken, match->n_kinds - n_taken, lacking) +
           preference(match, family) - 0.05 * (double)count_missing(model, family);
}

Status gguf_match(const GgufModel *model, FamilyMatch **out, const GgufFamily **nearest,
                  Error *error) {
    FamilyMatch *match = calloc(1, sizeof *match);
    const Family *family;
    double most = 0.0;
    *nearest = NULL;
    if (match) match->type = strdup(model->architecture);
    if (match) match->config = json_object();
    if (!match || !match->type || !match->config) {
        family_match_free(match);
        return error_set(error, "no memory");
    }
    family_match_kinds(match, &model->table);
    for (size_t i = 0; (family = family_at(i)); i++)
        for (const GgufFamily *g = family->gguf; g && g->architecture; g++)
            match->has_kin = match->has_kin || strncmp(match->type, g->architecture, 4) == 0;
    for (size_t i = 0; (family = family_at(i)); i++) {
        for (const GgufFamily *g = family->gguf; g && g->architecture; g++) {
            double rating = g->tensors ? rate(model, match, g) : -1.0;
            if (rating <= most) continue;
            most = rating;
            *nearest = g;
        }
    }
    match->family = NULL;
    if (*nearest) rate(model, match, *nearest);
    *out = match;
    return STATUS_OK;
}

void gguf_match_unread(const GgufModel *model, FamilyMatch *match) {
    static const char *const parts[] = {"vision.", "audio.", "mm."};
    const size_t n = strlen(model->prefix);
    for (size_t i = 0; i < model->gguf.n_values; i++) {
        const GgufValue *value = &model->gguf.values[i];
        const char *name = value->key.bytes + n + 1;
        char key[MATCH_NAME];
        bool is_part = false;
        if (value->looked_up || value->key.length <= n + 1 || value->key.bytes[n] != '.' ||
            memcmp(value->key.bytes, model->prefix, n) != 0)
            continue;
        size_t length = value->key.length - n - 1;
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            is_part = is_part ||
                      (length > strlen(parts[k]) && memcmp(name, parts[k], strlen(parts[k])) == 0);
        if (is_part) continue;
        if (json_object_size(match->config) == MATCH_KEYS) {
            match->n_more_keys++;
            continue;
        }
        snprintf(key, sizeof key, "%.*s", length < 100 ? (int)length : 100, name);
        json_object_set_new(match->config, key, json_null());
    }
}
