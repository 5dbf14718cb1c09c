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

/* The type of this name, where q5, q6 and q4m are short for types with records; false: unknown. */
static bool type_of(const char *text, size_t length, TensorType *type) {
    char name[NAME_BYTES];
    if (length >= sizeof name) return false;
    memcpy(name, text, length);
    name[length] = '\0';
    if (strcmp(name, "q5") == 0) {
        *type = TENSOR_Q5_K;
    } else if (strcmp(name, "q6") == 0) {
        *type = TENSOR_Q6_K;
    } else if (strcmp(name, "q4m") == 0) {
        *type = TENSOR_Q4_K;
    } else {
        return mix_type_by_name(name, type) && *type != TENSOR_VECTOR;
    }
    return true;
}

/* What other programs call our types, in lower case. */
static const struct {
    const char *theirs, *ours;
} synonyms[] = {
    {"float32", "f32"}, {"fp32", "f32"},      {"float", "f32"}, {"float16", "f16"},
    {"fp16", "f16"},    {"half", "f16"},      {"q8_0", "q8"},   {"int8", "q8"},
    {"8bit", "q8"},     {"8", "q8"},          {"q6_k_m", "q6"}, {"q5_0", "q5"},
    {"q5_1", "q5"},     {"q5_k_m", "q5"},     {"q5_k_s", "q5"}, {"q4_k_m", "q4m"},
    {"q4_k_s", "q4m"},  {"bfloat16", "bf16"}, {"q4_0", "q4"},   {"q4_1", "q4"},
    {"int4", "q4m"},    {"4bit", "q4m"},      {"4", "q4m"},
};

/* Refuses a type that does not exist, with its name here if other programs have it, else with all
 * names. */
static Status unknown_type(const char *text, size_t length, Error *error) {
    char name[NAME_BYTES] = "", list[400] = "q4m, q5, q6";
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

/* Whether q4m gives this layer more bits: the first and the last eighth of the layers, and every
 * third between (llama.cpp's use_more_bits). */
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
    return info->family == FAMILY_RECORDS ? TENSOR_Q6_K : TENSOR_Q8;
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

TensorType mix_choose(const char *mix, const char *name, const Config *config) {
    TensorType type = TENSOR_F32;
    size_t length = strcspn(mix, ",");
    type_of(mix, length, &type);
    type = with_more_bits(type, name);
    if (mix_stays_float(name)) type = TENSOR_F32;
    if (length == 3 && memcmp(mix, "q4m", 3) == 0 && is_chosen_layer(name, config) &&
        (mix_is_named(name, "wv", 2) || mix_is_named(name, "w_down", 6)))
        type = TENSOR_Q6_K;
    for (mix += length; *mix; mix += length) {
        mix++;
        length = strcspn(mix, ",");
        const char *equals = memchr(mix, '=', length);
        if (equals && mix_is_named(name, mix, (size_t)(equals - mix)))
            type_of(equals + 1, length - (size_t)(equals + 1 - mix), &type);
    }
    return type;
}
