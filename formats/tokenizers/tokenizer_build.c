#include "formats/tokenizers/tokenizer_build.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/unicode.h"

void builder_init(Builder *b) {
    *b = (Builder){0};
    memcpy(b->header.magic, TOKENIZER_MAGIC, 8);
    b->header.unk_id = b->header.bos_id = -1;
    b->header.decode_variants = 1;
    memset(b->bytes, 0xFF, sizeof b->bytes); /* no byte has a token */
    builder_text(b, "", 0);                  /* offset 0 is the empty text */
}

void builder_free(Builder *b) {
    free(b->pool);
    free(b->tokens);
    free(b->merges);
    free(b->added);
    free(b->added_match);
    free(b->added_index);
    free(b->index);
    *b = (Builder){0};
}

/* Makes room for `count` items in an array and zeroes the new ones; false (and failed) when memory
 * is short. */
static bool builder_reserve(Builder *b, void *array, size_t *capacity, size_t count, size_t item) {
    size_t before = *capacity;
    char *items;
    if (b->failed) return false;
    if (!array_reserve(array, capacity, count, item)) {
        b->failed = true;
        return false;
    }
    memcpy(&items, array, sizeof items);
    if (*capacity > before) memset(items + before * item, 0, (*capacity - before) * item);
    return true;
}

TextRange builder_text(Builder *b, const char *bytes, size_t n) {
    if (n > UINT32_MAX - b->pool_length || n > UINT32_MAX / 4 ||
        !builder_reserve(b, &b->pool, &b->pool_capacity, b->pool_length + n + 1, 1)) {
        b->failed = true;
        return (TextRange){0};
    }
    TextRange range = {(uint32_t)b->pool_length, (uint32_t)n};
    if (n) memcpy(b->pool + b->pool_length, bytes, n);
    b->pool_length += n;
    return range;
}

const char *builder_bytes(const Builder *b, TextRange range) {
    return b->pool ? b->pool + range.offset : "";
}

Status builder_token(Builder *b, int64_t id, const char *text, size_t n, double score,
                     uint32_t flags, Error *error) {
    if (id < 0 || id >= 1 << 21) return error_set(error, "tokenizer: token id %lld", (long long)id);
    if (n > SECTION_MAX_PIECE)
        return error_set(error, "tokenizer: token %lld is %zu bytes long (%d at most)",
                         (long long)id, n, SECTION_MAX_PIECE);
    if (!builder_reserve(b, &b->tokens, &b->tokens_capacity, (size_t)id + 1, sizeof *b->tokens))
        return error_set(error, "tokenizer: out of memory");
    BuildToken *token = &b->tokens[id];
    if (token->flags & BUILD_PRESENT)
        return error_set(error, "tokenizer: token id %lld stands for '%.*s' and for '%.*s'",
                         (long long)id, (int)token->text.length, builder_bytes(b, token->text),
                         (int)(n < 100 ? n : 100), text);
    TextRange range = builder_text(b, text, n);
    b->tokens[id] = (BuildToken){range, range, score, flags | BUILD_PRESENT, 0};
    if ((uint32_t)id >= b->header.n_tokens) b->header.n_tokens = (uint32_t)id + 1;
    b->header.n_symbols = b->header.n_tokens;
    return STATUS_OK;
}

/* ---- Keys ---- */

/* Enters a token's key in the hash table, unless an equal key is there. */
static void index_put(Builder *b, uint32_t symbol) {
    TextRange key = b->tokens[symbol].key;
    const char *bytes = builder_bytes(b, key);
    size_t at = section_hash(bytes, key.length) & b->index_mask, probes = 0;
    for (; b->index[at] != TOKENIZER_NONE; at = (at + 1) & b->index_mask) {
        TextRange other = b->tokens[b->index[at]].key;
        if (other.length == key.length && memcmp(builder_bytes(b, other), bytes, key.length) == 0)
            return; /* of two equal keys the first one counts */
        /* At most a quarter of the table is taken: only keys chosen to collide fill 1000 slots in
         * a row. */
        if (++probes > 1000) b->hash_flood = true;
        if (b->hash_flood) return;
    }
    b->index[at] = symbol;
}

void builder_index(Builder *b) {
    size_t size = 64;
    while (size < (size_t)b->header.n_tokens * 4) size *= 2;
    free(b->index);
    b->index = malloc(size * sizeof *b->index);
    b->index_mask = size - 1;
    if (!b->index) {
        b->failed = true;
        return;
    }
    memset(b->index, 0xFF, size * sizeof *b->index);
    for (uint32_t i = 0; i < b->header.n_tokens; i++)
        if (b->tokens[i].flags & BUILD_IN_MODEL) index_put(b, i);
}

uint32_t builder_find(const Builder *b, const char *key, size_t n) {
    if (!b->index) return TOKENIZER_NONE;
    size_t at = section_hash(key, n) & b->index_mask;
    for (; b->index[at] != TOKENIZER_NONE; at = (at + 1) & b->index_mask) {
        TextRange other = b->tokens[b->index[at]].key;
        if (other.length == n && memcmp(builder_bytes(b, other), key, n) == 0) return b->index[at];
    }
    return TOKENIZER_NONE;
}

void builder_byte_tokens(Builder *b) {
    static const char hex[] = "0123456789ABCDEF";
    b->has_bytes = true;
    for (unsigned byte = 0; byte < 256; byte++) {
        const char name[6] = {'<', '0', 'x', hex[byte >> 4], hex[byte & 15], '>'};
        b->bytes[byte] = builder_find(b, name, sizeof name);
    }
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

int builder_byte_of(const char *token, size_t n) {
    if (n != 6 || memcmp(token, "<0x", 3) != 0 || token[5] != '>') return -1;
    int high = hex_digit(token[3]), low = hex_digit(token[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

size_t builder_byte_key(const char *text, size_t n, char *key) {
    size_t length = 0;
    for (size_t at = 0, step; at < n; at += step) {
        uint32_t code;
        step = utf8_decode(text + at, n - at, &code);
        int byte = step ? bytelevel_byte(code) : -1;
        if (byte < 0) return SIZE_MAX;
        key[length++] = (char)byte;
    }
    return length;
}

void builder_byte_keys(Builder *b) {
    char key[SECTION_MAX_PIECE];
    for (uint32_t i = 0; i < b->header.n_tokens && !b->failed; i++) {
        BuildToken *token = &b->tokens[i];
        if (!(token->flags & BUILD_IN_MODEL)) continue;
        size_t n = builder_byte_key(builder_bytes(b, token->text), token->text.length, key);
        if (n == SIZE_MAX) {
            token->flags &= ~(uint32_t)BUILD_IN_MODEL; /* no text leads to it */
        } else {
            token->key = builder_text(b, key, n);
        }
    }
    builder_index(b);
    builder_byte_symbols(b);
}

void builder_byte_symbols(Builder *b) {
    b->has_bytes = true;
    for (unsigned byte = 0; byte < 256; byte++)
        b->bytes[byte] = builder_find(b, &(char){(char)byte}, 1);
}

/* ---- Merges ---- */

void builder_merge(Builder *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t into) {
    if (!builder_reserve(b, &b->merges, &b->merges_capacity, b->n_merges + 1, sizeof *b->merges))
        return;
    b->merges[b->n_merges++] = (BuildMerge){left, right, rank, into};
}

static int by_score(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The symbol of a part of a token's key, or TOKENIZER_NONE. A part that is a single character gets
 * a new symbol where it has none, as long as the index has room. */
static uint32_t part_symbol(Builder *b, TextRange part, bool character) {
    uint32_t symbol = builder_find(b, builder_bytes(b, part), part.length);
    if (symbol != TOKENIZER_NONE || !character) return symbol;
    if ((size_t)b->header.n_symbols * 2 > b->index_mask ||
        !builder_reserve(b, &b->tokens, &b->tokens_capacity, (size_t)b->header.n_symbols + 1,
                         sizeof *b->tokens))
        return TOKENIZER_NONE;
    symbol = b->header.n_symbols++;
    b->tokens[symbol] = (BuildToken){.text = part, .key = part, .flags = BUILD_IN_MODEL};
    index_put(b, symbol);
    return symbol;
}

void builder_merges_by_score(Builder *b) {
    uint32_t n = b->header.n_tokens, n_scores = 0;
    bool byte_level = b->header.flags & SECTION_BYTE_LEVEL;
    double *scores = malloc((n + 1) * sizeof *scores);
    if (!scores) {
        b->failed = true;
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        if (b->tokens[i].flags & BUILD_IN_MODEL) scores[n_scores++] = b->tokens[i].score;
    qsort(scores, n_scores, sizeof *scores, by_score);
    for (uint32_t id = 0; id < n && !b->failed; id++) {
        TextRange key = b->tokens[id].key;
        const char *bytes = builder_bytes(b, key);
        if (!(b->tokens[id].flags & BUILD_IN_MODEL) || builder_find(b, bytes, key.length) != id)
            continue;
        const double *found =
            bsearch(&b->tokens[id].score, scores, n_scores, sizeof *scores, by_score);
        while (found && found > scores && found[-1] == found[0]) found--;
        uint32_t code, step = 1, rank = found ? (uint32_t)(found - scores) : n;
        for (uint32_t at = 0; at < key.length; at += step) {
            size_t length = utf8_decode(bytes + at, key.length - at, &code);
            step = byte_level || !length ? 1 : (uint32_t)length;
            uint32_t cut = at + step;
            if (cut >= key.length) break;
            size_t tail = utf8_decode(bytes + cut, key.length - cut, &code);
            TextRange left = {key.offset, cut}, right = {key.offset + cut, key.length - cut};
            uint32_t l = part_symbol(b, left, !byte_level && at == 0);
            if (l == TOKENIZER_NONE) continue;
            uint32_t r = part_symbol(b, right, !byte_level && tail == right.length);
            if (r != TOKENIZER_NONE) builder_merge(b, l, r, rank, id);
            bytes = builder_bytes(b, key);
        }
    }
    free(scores);
}

/* ---- Steps, added tokens, ids ---- */

bool builder_normalizer(Builder *b, uint32_t op, uint32_t flags, TextRange a, TextRange b_text) {
    if (b->n_normalizers == SECTION_MAX_STEPS) return false;
    b->normalizers[b->n_normalizers++] = (StepRecord){op, flags, a, b_text};
    return true;
}

bool builder_split(Builder *b, uint32_t op, uint32_t flags, TextRange a) {
    if (b->n_splits == SECTION_MAX_STEPS) return false;
    b->splits[b->n_splits++] = (StepRecord){op, flags, a, {0, 0}};
    return true;
}

bool builder_decoder(Builder *b, DecoderOp op, TextRange a, TextRange b_text, uint32_t n,
                     uint32_t m) {
    if (b->n_decoders == SECTION_MAX_STEPS) return false;
    b->decoders[b->n_decoders++] = (BuildDecoder){op, a, b_text, n, m};
    return true;
}

/* Where the added token with that text stands in added_index, or the empty slot for it. */
static size_t added_slot(const Builder *b, const char *text, size_t n) {
    size_t at = section_hash(text, n), probes = 0;
    for (;; at++) {
        at &= b->added_index_size - 1;
        if (b->added_index[at] == TOKENIZER_NONE || ++probes > 1000) return at;
        TextRange other = b->added[b->added_index[at]].text;
        if (other.length == n && memcmp(builder_bytes(b, other), text, n) == 0) return at;
    }
}

/* Makes room in added_index for one more. */
static void grow_added_index(Builder *b) {
    if (b->n_added * 4 < b->added_index_size || b->failed) return;
    free(b->added_index);
    b->added_index_size = b->added_index_size ? b->added_index_size * 2 : 64;
    b->added_index = malloc(b->added_index_size * sizeof *b->added_index);
    if (!b->added_index) {
        b->added_index_size = 0;
        b->failed = true;
        return;
    }
    memset(b->added_index, 0xFF, b->added_index_size * sizeof *b->added_index);
    for (size_t i = 0; i < b->n_added; i++) {
        TextRange text = b->added[i].text;
        size_t at = added_slot(b, builder_bytes(b, text), text.length);
        if (b->added_index[at] == TOKENIZER_NONE) b->added_index[at] = (uint32_t)i;
    }
}

int64_t builder_added_id(const Builder *b, const char *text, size_t n) {
    if (!b->added_index_size) return -1;
    uint32_t i = b->added_index[added_slot(b, text, n)];
    if (i == TOKENIZER_NONE) return -1;
    TextRange found = b->added[i].text;
    bool same = found.length == n && memcmp(builder_bytes(b, found), text, n) == 0;
    return same ? (int64_t)b->added[i].id : -1;
}

void builder_added(Builder *b, uint32_t id, uint32_t flags, const char *text, size_t n) {
    size_t at = b->tokens[id].added ? b->tokens[id].added - 1 : b->n_added;
    grow_added_index(b);
    if (at == b->n_added) {
        if (!builder_reserve(b, &b->added_match, &b->added_match_capacity, at + 1,
                             sizeof *b->added_match) ||
            !builder_reserve(b, &b->added, &b->added_capacity, at + 1, sizeof *b->added))
            return;
        b->n_added++;
    }
    b->added[at] = (AddedRecord){id, flags, builder_text(b, text, n)};
    b->added_match[at] = b->added[at].text;
    if (b->failed) return;
    b->tokens[id].added = (uint32_t)at + 1;
    size_t slot = added_slot(b, builder_bytes(b, b->added[at].text), n);
    if (b->added_index[slot] == TOKENIZER_NONE) b->added_index[slot] = (uint32_t)at;
    b->tokens[id].flags &= ~(uint32_t)BUILD_SPECIAL;
    if (flags & ADDED_SPECIAL) b->tokens[id].flags |= BUILD_SPECIAL;
}

void builder_eos(Builder *b, int64_t id) {
    if (id < 0 || id >= b->header.n_tokens || b->n_eos == 64) return;
    for (size_t i = 0; i < b->n_eos; i++)
        if (b->eos[i] == id) return;
    b->eos[b->n_eos++] = (int32_t)id;
}

static bool table_push_id(Builder *b, int32_t *ids, size_t *n, int64_t id) {
    if (id < 0 || id >= b->header.n_tokens || *n == 64) return false;
    ids[(*n)++] = (int32_t)id;
    return true;
}

bool builder_prefix(Builder *b, int64_t id) {
    return table_push_id(b, b->prefix, &b->n_prefix, id);
}
bool builder_suffix(Builder *b, int64_t id) {
    return table_push_id(b, b->suffix, &b->n_suffix, id);
}
