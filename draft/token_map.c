#include "draft/token_map.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct TokenMap {
    const Tokenizer *from;
    Tokenizer *other;
    size_t n, n_other, n_equal;
    int32_t *to;   /* [n]: the other's token; -1: none; NULL: the same number */
    int32_t *back; /* [n_other] */
};

static bool same_text(const TokenMap *map, int32_t token, int32_t other) {
    size_t a_length, b_length;
    const char *a = tokenizer_token_text(map->from, token, &a_length);
    const char *b = tokenizer_token_text(map->other, other, &b_length);
    return a_length == b_length && memcmp(a, b, a_length) == 0;
}

/* Whether all numbers that both vocabularies have mean the same text. A model may have more rows of
 * embeddings than its tokenizer has tokens (padding), or fewer: only numbers below all four counts
 * are compared. */
static bool same_numbers(const TokenMap *map) {
    size_t n = size_min(size_min(map->n, tokenizer_vocab_size(map->from)),
                        size_min(map->n_other, tokenizer_vocab_size(map->other)));
    for (size_t i = 0; i < n; i++)
        if (!same_text(map, (int32_t)i, (int32_t)i)) return false;
    return n > 0;
}

/* ---- By their text, then by their bytes ---- */

/* A hash table of the other vocabulary's tokens: their bytes, and the token. */
typedef struct Entry {
    uint64_t hash; /* of the bytes */
    int32_t token; /* -1: empty */
} Entry;

typedef struct Table {
    Entry *entries;
    size_t capacity; /* a power of 2 */
} Table;

/* A hash of what the token decodes to inside a text; false: nothing. */
static bool bytes_hash(const Tokenizer *tokenizer, int32_t token, uint64_t *hash) {
    char *text = NULL;
    size_t length = 0;
    Error ignored;
    if (tokenizer_decode(tokenizer, &token, 1, TOKEN_DECODER_CONTINUE, &text, &length, &ignored) !=
        STATUS_OK)
        return false;
    *hash = XXH3_64bits(text, length);
    free(text);
    return length > 0;
}

/* A hash table of the tokens of the other vocabulary by their bytes. */
static bool fill_table(Table *table, const TokenMap *map) {
    size_t n = size_min(map->n_other, tokenizer_vocab_size(map->other));
    for (table->capacity = 64; table->capacity < 2 * n; table->capacity *= 2) continue;
    table->entries = malloc(table->capacity * sizeof *table->entries);
    if (!table->entries) return false;
    for (size_t i = 0; i < table->capacity; i++) table->entries[i] = (Entry){0, -1};
    for (size_t i = 0; i < n; i++) {
        uint64_t hash;
        if (tokenizer_is_special(map->other, (int32_t)i) ||
            !bytes_hash(map->other, (int32_t)i, &hash))
            continue;
        size_t at = hash & (table->capacity - 1);
        while (table->entries[at].token >= 0 && table->entries[at].hash != hash)
            at = (at + 1) & (table->capacity - 1);
        if (table->entries[at].token < 0) table->entries[at] = (Entry){hash, (int32_t)i};
    }
    return true;
}

static int32_t find_bytes(const Table *table, const TokenMap *map, int32_t token) {
    uint64_t hash;
    if (tokenizer_is_special(map->from, token) || !bytes_hash(map->from, token, &hash)) return -1;
    for (size_t at = hash & (table->capacity - 1); table->entries[at].token >= 0;
         at = (at + 1) & (table->capacity - 1))
        if (table->entries[at].hash == hash) return table->entries[at].token;
    return -1;
}

static int32_t find_text(const TokenMap *map, int32_t token) {
    size_t length;
    const char *text = tokenizer_token_text(map->from, token, &length);
    int32_t other = length > 0 ? tokenizer_token_id(map->other, text, length) : -1;
    bool special = tokenizer_is_special(map->from, token);
    if (other < 0 || (size_t)other >= map->n_other) return -1;
    return tokenizer_is_special(map->other, other) == special ? other : -1;
}

/* Finds for each token the one of the other vocabulary that spells the same: by its name in the
 * vocabulary, else by its bytes. Fails when fewer than half have one. */
static Status match_vocabularies(TokenMap *map, Error *error) {
    size_t n = size_min(map->n, tokenizer_vocab_size(map->from)), n_used = 0;
    Table table = {0};
    map->to = malloc((map->n + 1) * sizeof *map->to);
    map->back = malloc((map->n_other + 1) * sizeof *map->back);
    bool fits = map->to && map->back && fill_table(&table, map);
    for (size_t i = 0; i < map->n && fits; i++) map->to[i] = -1;
    for (size_t i = 0; i < map->n_other && fits; i++) map->back[i] = -1;
    for (size_t i = 0; i < n && fits; i++) {
        size_t length;
        tokenizer_token_text(map->from, (int32_t)i, &length);
        n_used += length > 0;
        int32_t other = find_text(map, (int32_t)i);
        if (other < 0) other = find_bytes(&table, map, (int32_t)i);
        map->to[i] = other;
        map->n_equal += other >= 0;
        if (other >= 0 && map->back[other] < 0) map->back[other] = (int32_t)i;
    }
    free(table.entries);
    if (!fits) return error_set(error, "no memory for %zu tokens", map->n);
    if (map->n_equal >= n_used - n_used / 2 && n_used > 0) return STATUS_OK;
    return error_set(error, "another vocabulary: only %zu of %zu tokens are the same", map->n_equal,
                     n_used);
}

/* ---- The map ---- */

Status token_map_new(TokenMap **out, const Tokenizer *from, size_t n, Tokenizer *other,
                     size_t n_other, Error *error) {
    TokenMap *map = calloc(1, sizeof *map);
    if (!map) return error_set(error, "no memory for the tokens of two models");
    *map = (TokenMap){.from = from, .other = other, .n = n, .n_other = n_other};
    map->n_equal = size_min(n, n_other);
    Status status = STATUS_OK;
    if (!same_numbers(map)) {
        map->n_equal = 0;
        status = match_vocabularies(map, error);
    }
    if (status == STATUS_OK) {
        *out = map;
    } else {
        token_map_free(map);
    }
    return status;
}

void token_map_free(TokenMap *map) {
    if (!map) return;
    free(map->to);
    free(map->back);
    free(map);
}

Status token_map_spell(TokenMap *map, int32_t token, TokenList *out, Error *error) {
    int32_t other = -1;
    char *text = NULL;
    size_t length = 0;
    if (token < 0 || (size_t)token >= map->n) return error_set(error, "no such token: %d", token);
    if (map->to) {
        other = map->to[token];
    } else if ((size_t)token < map->n_other) {
        other = token;
    }
    if (other >= 0)
        return token_list_push(out, other) ? STATUS_OK : error_set(error, "no memory for a token");
    if (tokenizer_is_special(map->from, token)) return STATUS_OK;
    if (tokenizer_decode(map->from, &token, 1, TOKEN_DECODER_CONTINUE, &text, &length, error) !=
        STATUS_OK)
        return STATUS_FAILED;
    Status status = tokenizer_encode(map->other, text, length, NULL, 0, out, error);
    free(text);
    return status;
}

int32_t token_map_back(const TokenMap *map, int32_t token) {
    if (token < 0 || (size_t)token >= map->n_other) return -1;
    if (map->back) return map->back[token];
    return (size_t)token < map->n ? token : -1;
}

size_t token_map_n_equal(const TokenMap *map) {
    return map->n_equal;
}
