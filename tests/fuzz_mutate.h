/* Structure-aware mutation for the fuzz targets. Random changes of bytes seldom survive a format's
 * counts or JSON's syntax; changing whole values reaches the code that uses them. */
#ifndef FUZZ_MUTATE_H
#define FUZZ_MUTATE_H

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2,
                                 size_t size2, uint8_t *out, size_t max_size, unsigned seed);

/* Returns a random number less than `below` (> 0), by SplitMix64. */
static inline size_t fuzz_random(uint64_t *state, size_t below) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return (size_t)((z ^ z >> 31) % below);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* The place of a value in its container: container[key] of an object, or container[index] of an
 * array. */
typedef struct FuzzSlot {
    json_t *container, *value;
    const char *key; /* NULL: the container is an array */
    size_t index;
} FuzzSlot;

typedef struct FuzzSlots {
    size_t n;
    FuzzSlot items[2048];
} FuzzSlots;

static inline void fuzz_collect(FuzzSlots *slots, json_t *container) {
    const size_t most = sizeof slots->items / sizeof *slots->items;
    const char *key;
    json_t *value;
    size_t index;
    if (json_is_object(container)) {
        json_object_foreach(container, key, value) {
            if (slots->n < most) slots->items[slots->n++] = (FuzzSlot){container, value, key, 0};
            fuzz_collect(slots, value);
        }
    } else if (json_is_array(container)) {
        json_array_foreach(container, index, value) {
            if (slots->n < most)
                slots->items[slots->n++] = (FuzzSlot){container, value, NULL, index};
            fuzz_collect(slots, value);
        }
    }
}

static inline json_t *fuzz_interesting_json(uint64_t *state) {
    static const char *const values[] = {
        "0",          "1",     "-1",    "2",  "3",    "0.5",  "1.5",   "1e30",   "1e-30", "65536",
        "2147483648", "-2.5",  "4",     "8",  "null", "true", "false", "\"\"",   "[]",    "{}",
        "[0]",        "\"x\"", "[[1]]", "16", "32",   "5",    "64",    "[1, 2]", "100",   "9e15"};
    return json_loads(values[fuzz_random(state, sizeof values / sizeof *values)], JSON_DECODE_ANY,
                      NULL);
}

/* Returns a slightly changed copy of a value; NULL: the caller should replace it by a different
 * value. */
static inline json_t *fuzz_tweak(const json_t *value, uint64_t *state) {
    uint8_t bytes[256];
    json_int_t number = json_integer_value(value);
    size_t n = json_string_length(value);
    switch (json_typeof(value)) {
    case JSON_INTEGER:
        if (number > INT32_MAX || number < INT32_MIN) return NULL;
        switch (fuzz_random(state, 4)) {
        case 0:
            return json_integer(number + 1);
        case 1:
            return json_integer(number - 1);
        case 2:
            return json_integer(number * 2);
        default:
            return json_integer(number / 2);
        }
    case JSON_REAL:
        return json_real(json_real_value(value) * (fuzz_random(state, 2) ? -1.0 : 1.5));
    case JSON_STRING:
        if (n > sizeof bytes / 2) return NULL;
        memcpy(bytes, json_string_value(value), n);
        return json_stringn((const char *)bytes, LLVMFuzzerMutate(bytes, n, sizeof bytes));
    case JSON_TRUE:
        return json_false();
    case JSON_FALSE:
        return json_true();
    default:
        return NULL;
    }
}

static inline void fuzz_put(const FuzzSlot *slot, json_t *value) {
    if (slot->key) {
        json_object_set_new(slot->container, slot->key, value);
    } else {
        json_array_set_new(slot->container, slot->index, value);
    }
}

static inline void fuzz_remove(const FuzzSlot *slot) {
    if (slot->key) {
        json_object_del(slot->container, slot->key);
    } else {
        json_array_remove(slot->container, slot->index);
    }
}

/* Makes one random change to a document that has at least one value. `donor` may be the document
 * itself. */
static inline void fuzz_change(const FuzzSlots *own, const FuzzSlots *donor, uint64_t *state) {
    const FuzzSlot *slot = &own->items[fuzz_random(state, own->n)];
    const FuzzSlot *other = &donor->items[fuzz_random(state, donor->n)];
    json_t *value = NULL;
    if (donor == own && slot->key && fuzz_random(state, 3) == 0) {
        fuzz_remove(slot);
        return;
    }
    switch (fuzz_random(state, donor == own ? 5 : 2)) {
    case 0: /* add a copy of the other value, under its own key, to this container */
        value = json_deep_copy(other->value);
        if (!json_is_object(slot->container)) {
            json_array_append_new(slot->container, value);
        } else {
            json_object_set_new(slot->container, other->key ? other->key : "x", value);
        }
        return;
    case 1:
        value = json_deep_copy(other->value);
        break;
    case 2:
        if (!slot->key) {
            fuzz_remove(slot);
            return;
        }
        break;
    case 3:
        value = fuzz_tweak(slot->value, state);
        break;
    default:
        break;
    }
    fuzz_put(slot, value ? value : fuzz_interesting_json(state));
}

/* Writes the JSON document `text` to `out` with a few values changed, removed, doubled or taken
 * from `donor` (any JSON; may be empty). Returns the size; 0: `text` is not JSON, or the result is
 * longer than max_size. */
static inline size_t fuzz_json(const void *text, size_t size, const void *donor, size_t donor_size,
                               uint8_t *out, size_t max_size, uint64_t *state) {
    json_t *document = json_loadb(text, size, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
    json_t *giver = donor_size ? json_loadb(donor, donor_size, JSON_ALLOW_NUL, NULL) : NULL;
    FuzzSlots *own = calloc(1, sizeof *own), *others = calloc(1, sizeof *others);
    size_t written = 0;
    if (own && others) {
        fuzz_collect(others, giver);
        for (size_t changes = 1 + fuzz_random(state, 3); changes > 0; changes--) {
            own->n = 0;
            fuzz_collect(own, document);
            if (own->n) fuzz_change(own, others->n ? others : own, state);
        }
        if (own->n) {
            written = json_dumpb(document, (char *)out, max_size, JSON_COMPACT);
            if (written > max_size) written = 0;
        }
    }
    free(own);
    free(others);
    json_decref(document);
    json_decref(giver);
    return written;
}

/* ---- Inputs of several parts ----------------------------------------------------------------- */

/* The input consists of parts that end with `separator`. Picks a random part that contains '{' and
 * returns where its JSON begins, with its length; NULL: none has any. */
static inline const uint8_t *fuzz_part(const uint8_t *data, size_t size, uint8_t separator,
                                       size_t *length, uint64_t *state) {
    const uint8_t *found = NULL, *end = data + size;
    size_t seen = 0;
    while (data < end) {
        const uint8_t *stop = memchr(data, separator, (size_t)(end - data));
        if (!stop) stop = end;
        const uint8_t *brace = memchr(data, '{', (size_t)(stop - data));
        if (brace && fuzz_random(state, ++seen) == 0) {
            found = brace;
            *length = (size_t)(stop - brace);
        }
        data = stop + (stop < end);
    }
    return found;
}

/* Changes the JSON of one part, using values of `donor` if there is one; one time in four, or when
 * there is no JSON, changes bytes instead. Returns the new size. */
static inline size_t fuzz_mutate_parts(uint8_t *data, size_t size, size_t max_size,
                                       const uint8_t *donor, size_t donor_size, uint8_t separator,
                                       unsigned seed) {
    uint64_t state = seed;
    size_t length, given_length = 0;
    const uint8_t *part = NULL, *given = NULL;
    if (fuzz_random(&state, 4) != 0) part = fuzz_part(data, size, separator, &length, &state);
    if (part && donor_size) given = fuzz_part(donor, donor_size, separator, &given_length, &state);
    uint8_t *out = part ? malloc(max_size) : NULL;
    if (!out) return LLVMFuzzerMutate(data, size, max_size);
    size_t before = (size_t)(part - data), after = size - before - length;
    size_t room = max_size - before - after;
    size_t n = fuzz_json(part, length, given, given_length, out, room, &state);
    if (n) {
        memmove(data + before + n, data + before + length, after);
        memcpy(data + before, out, n);
        size = before + n + after;
    } else {
        size = LLVMFuzzerMutate(data, size, max_size);
    }
    free(out);
    return size;
}

/* Defines libFuzzer's mutator and crossover for a target whose input consists of JSON parts. */
#define FUZZ_MUTATE_PARTS(separator)                                                               \
    size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {   \
        return fuzz_mutate_parts(data, size, max_size, NULL, 0, separator, seed);                  \
    }                                                                                              \
    size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2,     \
                                     size_t size2, uint8_t *out, size_t max_size, unsigned seed) { \
        if (size1 > max_size) return 0;                                                            \
        memcpy(out, data1, size1);                                                                 \
        return fuzz_mutate_parts(out, size1, max_size, data2, size2, separator, seed);             \
    }

#endif
