#include "formats/family/recommended.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Adds a name to the source's note about what is not applied. A name for which there is no room
 * becomes "...". */
static void not_applied(Source *source, const char *name) {
    static const char begin[] = "recommended by the model, but not applied here: ";
    const size_t size = sizeof source->not_applied;
    char *note = source->not_applied;
    size_t used = strlen(note), n = strlen(name);
    if (used == 0) {
        used = (size_t)snprintf(note, size, "%s%s", begin, name);
        source_add_note(source, note);
    } else if (used + n + sizeof ", , ..." < size) {
        snprintf(note + used, size - used, ", %s", name);
    } else if (strcmp(note + used - 3, "...") != 0) {
        snprintf(note + used, size - used, ", ...");
    }
}

/* ---- generation_config.json ---- */

/* Keys of transformers' GenerationConfig that change the text and are not known here, with the
 * number that changes nothing; NAN: none does. null, false and an empty list never do. */
static const struct {
    const char *key;
    double neutral;
} unknown[] = {
    {"no_repeat_ngram_size", 0},
    {"num_beams", 1},
    {"num_beam_groups", 1},
    {"guidance_scale", 1},
    {"exponential_decay_length_penalty", NAN},
    {"penalty_alpha", 0},
    {"typical_p", 1},
    {"epsilon_cutoff", 0},
    {"eta_cutoff", 0},
    {"top_h", 1},
    {"min_length", 0},
    {"min_new_tokens", 0},
    {"bad_words_ids", NAN},
    {"force_words_ids", NAN},
    {"sequence_bias", NAN},
    {"suppress_tokens", NAN},
    {"begin_suppress_tokens", NAN},
    {"stop_strings", NAN},
    {"dola_layers", NAN},
    {"watermarking_config", NAN},
};

static bool changes_nothing(const json_t *value, double neutral) {
    if (!value || json_is_null(value) || json_is_false(value)) return true;
    if (json_is_number(value)) return json_number_value(value) == neutral;
    return (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

void recommended_json(Source *source, const json_t *generation) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)generation, key, value) {
        char name[128];
        if (snprintf(name, sizeof name, "generation.%s", key) >= (int)sizeof name) continue;
        Metadata *metadata = &source->metadata;
        if (json_is_boolean(value)) metadata_add_bool(metadata, name, json_is_true(value));
        if (json_is_integer(value)) metadata_add_int(metadata, name, json_integer_value(value));
        if (json_is_real(value)) metadata_add_float(metadata, name, json_real_value(value));
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        if (!changes_nothing(json_object_get(generation, unknown[i].key), unknown[i].neutral))
            not_applied(source, unknown[i].key);
}

/* ---- GGUF ---- */

/* The number of general.sampling.NAME; false: the file has none. A recommendation of another type
 * is no reason to refuse the model. */
static bool sampling_number(Source *source, const Gguf *gguf, const char *name, double *number) {
    char key[64];
    TokenizerString text;
    snprintf(key, sizeof key, "general.sampling.%s", name);
    const GgufValue *found = gguf_find(gguf, key);
    if (!found) return false;
    bool is_number = !found->is_array && !gguf_value_text(found, &text) &&
                     gguf_element(found, 0, number) && isfinite(*number);
    if (!is_number) not_applied(source, key);
    return is_number;
}

/* Copies the sampling settings general.sampling.* of a GGUF file into the metadata, as
 * "generation.KEY", and notes those that this program does not apply. */
void recommended_gguf(Source *source, const Gguf *gguf) {
    static const struct {
        const char *name, *as;
    } known[] = {{"temp", "generation.temperature"},
                 {"top_p", "generation.top_p"},
                 {"min_p", "generation.min_p"},
                 {"penalty_repeat", "generation.repetition_penalty"}};
    static const char *const others[] = {"xtc_probability", "mirostat"};
    double number, repeat = 1.0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!sampling_number(source, gguf, known[i].name, &number)) continue;
        /* As in llama.cpp, a temperature below 0 is greedy. */
        if (i == 0 && number < 0.0) number = 0.0;
        metadata_add_float(&source->metadata, known[i].as, number);
    }
    if (sampling_number(source, gguf, "top_k", &number))
        metadata_add_int(&source->metadata, "generation.top_k",
                         number >= 1.0 && number < 1e9 ? (int64_t)number : 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (sampling_number(source, gguf, others[i], &number) && number != 0.0) {
            char key[64];
            snprintf(key, sizeof key, "general.sampling.%s", others[i]);
            not_applied(source, key);
        }
    sampling_number(source, gguf, "penalty_repeat", &repeat);
    /* Here the penalty counts prompt and text; -1 means the same. */
    if (repeat != 1.0 && sampling_number(source, gguf, "penalty_last_n", &number) && number != -1.0)
        not_applied(source, "general.sampling.penalty_last_n");
    if (gguf_find(gguf, "general.sampling.sequence"))
        not_applied(source, "general.sampling.sequence");
}
