#include "convert/mix.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 64 };

/* "layers.3.w_down" has the parts "w_down" and "layers.3". */
bool mix_is_named(const char *name, const char *part, size_t length) {
    for (const char *at = name; *at; at++) {
        bool begins = at == name || at[-1] == '.';
        if (begins && strncmp(at, part, length) == 0 && (at[length] == '.' || !at[length]))
            return true;
    }
    return false;
}

bool mix_type_by_name(const char *name, TensorType *type) {
    for (uint32_t t = 0; t < TENSOR_TYPES; t++) {
        if (strcmp(tensor_type_info(t)->name, name) != 0) continue;
        *type = (TensorType)t;
        return true;
    }
    return false;
}

/* Names that stand for a type with superblocks and, but for q5 and q6, for more bits in the
 * matrices whose errors cost most. */
typedef struct Mixture {
    const char *name;
    TensorType type, wv, wo, w_down;
    bool half_wv, half_w_down; /* in chosen layers alone: is_chosen_layer */
} Mixture;
static const Mixture mixtures[] = {
    {.name = "q6", TENSOR_Q6_K, TENSOR_Q6_K, TENSOR_Q6_K, TENSOR_Q6_K},
    {.name = "q5", TENSOR_Q5_K, TENSOR_Q5_K, TENSOR_Q5_K, TENSOR_Q5_K},
    {.name = "q4m", TENSOR_Q4_K, TENSOR_Q6_K, TENSOR_Q4_K, TENSOR_Q6_K, true, true},
    {.name = "q3", TENSOR_Q3_K, TENSOR_Q5_K, TENSOR_Q4_K, TENSOR_Q4_K, .half_w_down = true},
    {.name = "q2", TENSOR_Q2_K, TENSOR_Q4_K, TENSOR_Q3_K, TENSOR_Q3_K},
};

/* The mixture called name[length], or NULL. */
static const Mixture *mixture_of(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++)
        if (strlen(mixtures[i].name) == length && memcmp(mixtures[i].name, name, length) == 0)
            return &mixtures[i];
    return NULL;
}

/* The type of this name, which of a mixture is that of most matrices; false: unknown. */
static bool type_of(const char *text, size_t length, TensorType *type) {
    char name[NAME_BYTES];
    const Mixture *mixture = mixture_of(text, length);
    if (mixture) {
        *type = mixture->type;
        return true;
    }
    if (length >= sizeof name) return false;
    memcpy(name, text, length);
    name[length] = '\0';
    return mix_type_by_name(name, type) && *type != TENSOR_VECTOR;
}

/* What other programs call our types, in lower case. */
static const struct {
    const char *theirs, *ours;
} synonyms[] = {
    {"float32", "f32"}, {"fp32", "f32"},     {"float", "f32"},   {"float16", "f16"},
    {"fp16", "f16"},    {"half", "f16"},     {"q8_0", "q8"},     {"int8", "q8"},
    {"8bit", "q8"},     {"8", "q8"},         {"q6_k_m", "q6"},   {"q5_k_m", "q5"},
    {"q5_k_s", "q5"},   {"q4_k_m", "q4m"},   {"q4_k_s", "q4m"},  {"bfloat16", "bf16"},
    {"q4_0", "q4"},     {"q4_1", "q4"},      {"int4", "q4m"},    {"4bit", "q4m"},
    {"4", "q4m"},       {"q3_k_m", "q3"},    {"q3_k_s", "q3_k"}, {"q3_k_l", "q3"},
    {"int3", "q3"},     {"3bit", "q3"},      {"3", "q3"},        {"q2_k_s", "q2_k"},
    {"q2_k_m", "q2"},   {"int2", "q2"},      {"2bit", "q2"},     {"2", "q2"},
    {"iq2_m", "iq2_s"}, {"iq3_xs", "iq3_s"}, {"iq3_m", "iq3_s"}, {"iq4_nl", "q4_nl"},
};

/* Refuses a type that does not exist, with its name here if other programs have it, else with all
 * names. */
static Status unknown_type(const char *text, size_t length, Error *error) {
    char name[NAME_BYTES] = "", list[600] = "q2, q3, q4m, q5, q6";
    TensorType type;
    for (size_t i = 0; i < length && i < sizeof name - 1; i++)
        name[i] = (char)tolower((unsigned char)text[i]);
    const char *ours = type_of(name, strlen(name), &type) ? name : NULL;
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (strcmp(synonyms[i].theirs, name) == 0) ours = synonyms[i].ours;
    if (ours)
        return error_set(error, "no type is called '%.*s'; did you mean %s?", (int)length, text,
                         ours);
    for (uint32_t t = 0; t < TENSOR_TYPES; t++) {
        size_t n = strlen(list);
        if (t != TENSOR_VECTOR)
            snprintf(list + n, sizeof list - n, ", %s", tensor_type_info(t)->name);
    }
    return error_set(error, "no type is called '%.*s'; there are %s", (int)length, text, list);
}

Status mix_check(const char *mix, Error *error) {
    TensorType type;
    size_t length = strcspn(mix, ",");
    if (!type_of(mix, length, &type)) return unknown_type(mix, length, error);
    for (mix += length; *mix; mix += length) {
        mix++;
        length = strcspn(mix, ",");
        const char *equals = memchr(mix, '=', length);
        if (!equals || equals == mix)
            return error_set(error, "'%.*s' is not NAME=TYPE", (int)length, mix);
        size_t rest = length - (size_t)(equals + 1 - mix);
        if (!type_of(equals + 1, rest, &type)) return unknown_type(equals + 1, rest, error);
    }
    return STATUS_OK;
}

/* Whether a mixture gives this layer more bits: the first and the last eighth of the layers, and
 * every third between (llama.cpp's use_more_bits). */
static bool is_chosen_layer(const char *name, const Config *config) {
    unsigned layer = 0, n = config->n_layers;
    if (sscanf(name, "layers.%u.", &layer) != 1) return false;
    return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
}

/* The embedding and the output head: their errors reach every token directly, and they are a small
 * part of all but the smallest models. */
static bool affects_every_token(const char *name) {
    return strcmp(name, "token_embedding") == 0 || strcmp(name, "output") == 0;
}

static TensorType with_more_bits(TensorType type, const char *name) {
    if (!affects_every_token(name)) return type;
    const TensorTypeInfo *info = tensor_type_info(type);
    if (info->bits == 0 || info->bits > 5) return type;
    return info->family == FAMILY_SUPERBLOCKS ? TENSOR_Q6_K : TENSOR_Q8;
}

/* Goes from one ",NAME=TYPE" of the mix to the next. */
const char *mix_name(const char *mix, size_t number, size_t *length) {
    for (;; number--) {
        mix = strchr(mix, ',');
        if (!mix) return NULL;
        mix++;
        *length = strcspn(mix, "=");
        if (number == 0) return mix;
    }
}

/* The matrices that weigh residual streams: small, but every layer depends on them. */
bool mix_stays_float(const char *name) {
    return strstr(name, "hyper.") != NULL;
}

/* The type that a mixture gives this matrix, where it gives none of its own `type`. */
static TensorType type_in(const Mixture *mixture, const char *name, const Config *config,
                          TensorType type) {
    bool chosen = is_chosen_layer(name, config);
    if (mix_is_named(name, "wo", 2)) return mixture->wo;
    if (mix_is_named(name, "wv", 2) && (chosen || !mixture->half_wv)) return mixture->wv;
    if (mix_is_named(name, "w_down", 6) && (chosen || !mixture->half_w_down))
        return mixture->w_down;
    return type;
}

TensorType mix_choose(const char *mix, const char *name, const Config *config) {
    TensorType type = TENSOR_F32;
    size_t length = strcspn(mix, ",");
    type_of(mix, length, &type);
    type = with_more_bits(type, name);
    if (mix_stays_float(name)) type = TENSOR_F32;
    const Mixture *mixture = mixture_of(mix, length);
    if (mixture && !mix_stays_float(name)) type = type_in(mixture, name, config, type);
    for (mix += length; *mix; mix += length) {
        mix++;
        length = strcspn(mix, ",");
        const char *equals = memchr(mix, '=', length);
        if (equals && mix_is_named(name, mix, (size_t)(equals - mix)))
            type_of(equals + 1, length - (size_t)(equals + 1 - mix), &type);
    }
    return type;
}
