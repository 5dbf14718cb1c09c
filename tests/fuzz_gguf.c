/* Fuzz target: converts the input as a GGUF file; the result must be a model, a vocabulary or an
 * Error. Data for the tensors is appended to the input, except for one input size in eight. */
#include "fuzz_mutate.h"
#include "fuzz_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The target type of the matrices depends on the input's size, so one more byte selects another
 * type. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const types[8] = {NULL, NULL, NULL, NULL, "f16", "q8", "q4m", NULL};
    enum { DATA = 1 << 20 };
    if (size == 0 || size > 1 << 20) return 0;
    size_t behind = size % 8 != 7 ? DATA : 0;
    uint8_t *bytes = malloc(size + behind);
    if (!bytes) return 0;
    memcpy(bytes, data, size);
    fuzz_fill(bytes + size, behind);
    Source *source = fuzz_source(SOURCE_GGUF, "fuzz.gguf");
    if (fuzz_add_file(source, "fuzz.gguf", bytes, size + behind)) {
        fuzz_convert(source, types[size % 8]);
    } else {
        source_close(source);
    }
    free(bytes);
    return 0;
}

/* ---- Mutation -------------------------------------------------------------------------------- */

enum { MOST = 512, TYPE_STRING = 8, TYPE_ARRAY = 9, N_TYPES = 13 };

/* A key with its value, or an entry of the tensor list. */
typedef struct Item {
    const uint8_t *bytes;
    size_t n;
} Item;

typedef struct File {
    Item keys[MOST], tensors[MOST];
    size_t n_keys, n_tensors;
    const uint8_t *rest; /* tensor data */
    size_t n_rest;
} File;

static uint64_t u64_at(const uint8_t *p) {
    uint64_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

static uint32_t u32_at(const uint8_t *p) {
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

static size_t scalar_bytes(uint32_t type) {
    static const uint8_t bytes[N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < N_TYPES ? bytes[type] : 0;
}

/* Returns how many bytes the length-prefixed string at p takes; 0: it passes the end. */
static size_t text_bytes(const uint8_t *p, const uint8_t *end) {
    if (end - p < 8 || u64_at(p) > (uint64_t)(end - p - 8)) return 0;
    return 8 + (size_t)u64_at(p);
}

static size_t key_bytes(const uint8_t *p, const uint8_t *end) {
    const uint8_t *start = p;
    size_t n = text_bytes(p, end);
    if (n == 0 || end - (p += n) < 4) return 0;
    uint32_t type = u32_at(p);
    uint64_t count = 1;
    p += 4;
    if (type == TYPE_ARRAY) {
        if (end - p < 12) return 0;
        type = u32_at(p);
        count = u64_at(p + 4);
        p += 12;
    }
    if (type == TYPE_STRING) {
        for (; count > 0; count--, p += n)
            if ((n = text_bytes(p, end)) == 0) return 0;
    } else if (scalar_bytes(type) == 0 || count > (uint64_t)(end - p) / scalar_bytes(type)) {
        return 0;
    } else {
        p += count * scalar_bytes(type);
    }
    return (size_t)(p - start);
}

static size_t tensor_bytes(const uint8_t *p, const uint8_t *end) {
    size_t n = text_bytes(p, end);
    if (n == 0 || (size_t)(end - p) < n + 4) return 0;
    uint64_t n_dims = u32_at(p + n);
    n += 4 + 8 * n_dims + 12;
    return n_dims > 8 || n > (size_t)(end - p) ? 0 : n;
}

static bool file_split(File *f, const uint8_t *data, size_t size) {
    const uint8_t *p = data + 24, *end = data + size;
    f->n_keys = f->n_tensors = 0;
    if (size < 24 || u64_at(data + 8) > MOST || u64_at(data + 16) > MOST) return false;
    for (uint64_t i = 0; i < u64_at(data + 16); i++) {
        size_t n = key_bytes(p, end);
        if (n == 0) return false;
        f->keys[f->n_keys++] = (Item){p, n};
        p += n;
    }
    for (uint64_t i = 0; i < u64_at(data + 8); i++) {
        size_t n = tensor_bytes(p, end);
        if (n == 0) return false;
        f->tensors[f->n_tensors++] = (Item){p, n};
        p += n;
    }
    f->rest = p;
    f->n_rest = (size_t)(end - p);
    return true;
}

static uint64_t interesting(uint64_t *state) {
    static const uint64_t values[] = {
        0,          1,          2,          3,          4,          8,          9,
        16,         31,         32,         64,         100,        256,        1024,
        65535,      65536,      0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x3F800000, /* 1 */
        0x3F000000, 0x41000000, 0x461C4000, 0x7FC00000, 0x7F800000, 0xBF800000, UINT64_MAX,
        1ull << 62};
    return values[fuzz_random(state, sizeof values / sizeof *values)];
}

/* Changes the name, the type or a value of a metadata entry in place; its size stays the same. */
static void change_key(uint8_t *key, size_t n, uint64_t *state) {
    size_t at = 8 + (size_t)u64_at(key);
    uint32_t type = u32_at(key + at);
    size_t values = at + (type == TYPE_ARRAY ? 16 : 4), width;
    if (type == TYPE_ARRAY) type = u32_at(key + at + 4);
    width = scalar_bytes(type);
    if (fuzz_random(state, 8) == 0 && at > 8) { /* change the name */
        key[8 + fuzz_random(state, at - 8)] = (uint8_t)(32 + fuzz_random(state, 95));
    } else if (width == 4 && fuzz_random(state, 4) == 0) { /* another type of the same width */
        uint32_t other = (uint32_t)(4 + fuzz_random(state, 3));
        memcpy(key + values - (values == at + 16 ? 12 : 4), &other, 4);
    } else if (width && n > values) {
        uint64_t value = interesting(state);
        size_t index = fuzz_random(state, (n - values) / width);
        memcpy(key + values + index * width, &value, width);
    } else if (n > values + 8) { /* string: flip a bit of one byte */
        key[values + fuzz_random(state, n - values)] ^= (uint8_t)(1 << fuzz_random(state, 7));
    }
}

static void change_tensor(uint8_t *tensor, uint64_t *state) {
    size_t at = 8 + (size_t)u64_at(tensor);
    uint32_t n_dims = u32_at(tensor + at), type = (uint32_t)fuzz_random(state, 160);
    uint64_t value = interesting(state);
    switch (fuzz_random(state, 4)) {
    case 0:
        memcpy(tensor + at + 4 + 8 * n_dims, &type, 4);
        break;
    case 1:
        memcpy(tensor + at + 8 + 8 * n_dims, &value, 8);
        break;
    case 2:
        if (n_dims) memcpy(tensor + at + 4 + 8 * fuzz_random(state, n_dims), &value, 8);
        break;
    default:
        if (at > 8)
            tensor[8 + fuzz_random(state, at - 8)] = (uint8_t)('.' + fuzz_random(state, 77));
        break;
    }
}

/* Finds the value of general.architecture, which begins most key names. Returns its length, or 0
 * when it is missing. */
static size_t architecture(const File *f, const uint8_t **name) {
    static const char key[] = "general.architecture";
    for (size_t i = 0; i < f->n_keys; i++) {
        const uint8_t *p = f->keys[i].bytes;
        if (u64_at(p) != sizeof key - 1 || memcmp(p + 8, key, sizeof key - 1) != 0) continue;
        p += 8 + sizeof key - 1;
        if (u32_at(p) != TYPE_STRING) return 0;
        *name = p + 12;
        return (size_t)u64_at(p + 4);
    }
    return 0;
}

/* Copies a random key or tensor entry from `donor` into `f`, with the key's architecture prefix
 * replaced by this file's own. A rewritten key is stored in `room`, which must live as long as
 * `f`. */
static void take_over(File *f, const File *donor, uint8_t *room, size_t room_bytes,
                      uint64_t *state) {
    const uint8_t *own, *theirs;
    size_t n = architecture(f, &own), m = architecture(donor, &theirs);
    if (fuzz_random(state, 4) == 0 && donor->n_tensors && f->n_tensors < MOST) {
        f->tensors[f->n_tensors++] = donor->tensors[fuzz_random(state, donor->n_tensors)];
        return;
    }
    if (donor->n_keys == 0 || f->n_keys == MOST) return;
    Item item = donor->keys[fuzz_random(state, donor->n_keys)];
    size_t length = (size_t)u64_at(item.bytes);
    if (n && m && length > m && memcmp(item.bytes + 8, theirs, m) == 0 &&
        item.n + n - m <= room_bytes) {
        uint64_t now = length - m + n;
        memcpy(room, &now, 8);
        memcpy(room + 8, own, n);
        memcpy(room + 8 + n, item.bytes + 8 + m, item.n - 8 - m);
        item = (Item){room, item.n - m + n};
    }
    /* Readers use the first of two equal keys, so the copied key goes to the front. */
    memmove(f->keys + 1, f->keys, f->n_keys++ * sizeof *f->keys);
    f->keys[0] = item;
}

static size_t put(uint8_t *out, size_t at, size_t max_size, const void *bytes, size_t n) {
    if (at > max_size || n > max_size - at) return max_size + 1;
    if (n) memcpy(out + at, bytes, n);
    return at + n;
}

/* Writes the file with one entry dropped, doubled or changed. Returns its size; 0: it got too
 * long. */
static size_t write_changed(const File *f, const uint8_t *head, uint8_t *out, size_t max_size,
                            uint64_t *state) {
    size_t n = f->n_keys + f->n_tensors, chosen = n ? fuzz_random(state, n) : 0, at;
    size_t what = fuzz_random(state, 8); /* 0: drop, 1: double, else change */
    uint64_t n_keys = 0, n_tensors = 0;
    at = put(out, 0, max_size, head, 24);
    for (size_t i = 0; i < n; i++) {
        bool is_key = i < f->n_keys;
        const Item *item = is_key ? &f->keys[i] : &f->tensors[i - f->n_keys];
        size_t times = i == chosen && what < 2 ? 2 * what : 1;
        *(is_key ? &n_keys : &n_tensors) += times;
        for (; times > 0; times--) {
            size_t start = at;
            at = put(out, at, max_size, item->bytes, item->n);
            if (at > max_size) return 0;
            if (i != chosen || what < 2) continue;
            if (is_key) change_key(out + start, item->n, state);
            if (!is_key) change_tensor(out + start, state);
        }
    }
    at = put(out, at, max_size, f->rest, f->n_rest);
    if (at > max_size) return 0;
    memcpy(out + 8, &n_tensors, 8);
    memcpy(out + 16, &n_keys, 8);
    return at;
}

static size_t mutate(uint8_t *data, size_t size, size_t max_size, const uint8_t *donor,
                     size_t donor_size, unsigned seed) {
    uint64_t state = seed;
    File *f = malloc(sizeof *f), *other = malloc(sizeof *other);
    uint8_t *out = malloc(max_size), room[4096];
    size_t n = 0;
    if (f && other && out && fuzz_random(&state, 6) && file_split(f, data, size)) {
        if (donor && file_split(other, donor, donor_size))
            take_over(f, other, room, sizeof room, &state);
        n = write_changed(f, data, out, max_size, &state);
    }
    if (n) memcpy(data, out, n);
    free(f);
    free(other);
    free(out);
    return n ? n : LLVMFuzzerMutate(data, size, max_size);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    return mutate(data, size, max_size, NULL, 0, seed);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2,
                                 size_t size2, uint8_t *out, size_t max_size, unsigned seed) {
    if (size1 > max_size) return 0;
    memcpy(out, data1, size1);
    return mutate(out, size1, max_size, data2, size2, seed);
}
