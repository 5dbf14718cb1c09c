#include "formats/tokenizers/tokenizer_gguf.h"
#include "formats/tokenizers/tokenizer_json.h"
#include "formats/tokenizers/tokenizer_plain.h"
#include "formats/tokenizers/tokenizer_spm.h"
#include "formats/tokenizers/tokenizer_tekken.h"
#include "tokenizer_sources.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *source_read(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    long end = ftell(file);
    rewind(file);
    char *bytes = end < 0 ? NULL : malloc((size_t)end + 1);
    if (bytes && fread(bytes, 1, (size_t)end, file) != (size_t)end) {
        free(bytes);
        bytes = NULL;
    }
    fclose(file);
    if (!bytes) return NULL;
    bytes[end] = 0;
    *size = (size_t)end;
    return bytes;
}

const char *shared_path(const char *name) {
    static char path[512];
    static const char *const places[] = {"../shared/data/", "../../shared/data/"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s%s", places[i], name);
        if (access(path, R_OK) == 0) return path;
    }
    return NULL;
}

/* ---- A minimal GGUF reader ---- */

typedef struct Cursor {
    const char *p, *end;
    bool bad;
} Cursor;

static uint64_t take(Cursor *c, size_t n) {
    uint64_t value = 0;
    if ((size_t)(c->end - c->p) < n) {
        c->bad = true;
        return 0;
    }
    memcpy(&value, c->p, n);
    c->p += n;
    return value;
}

static TokenizerString take_string(Cursor *c) {
    uint64_t n = take(c, 8);
    if (c->bad || n > (size_t)(c->end - c->p)) {
        c->bad = true;
        return (TokenizerString){"", 0};
    }
    TokenizerString s = {c->p, n};
    c->p += n;
    return s;
}

static const uint8_t scalar_size[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static bool named(TokenizerString key, const char *name) {
    return key.length == strlen(name) && memcmp(key.bytes, name, key.length) == 0;
}

static void take_array(Cursor *c, TokenizerString key, TokenizerGguf *g) {
    uint32_t type = (uint32_t)take(c, 4);
    uint64_t n = take(c, 8);
    if (c->bad || type > 12 || type == 9 || n > (size_t)(c->end - c->p)) {
        c->bad = true;
        return;
    }
    if (type == 8) {
        TokenizerString *list = calloc(n + 1, sizeof *list);
        for (uint64_t i = 0; i < n && !c->bad && list; i++) list[i] = take_string(c);
        if (named(key, "tokenizer.ggml.tokens") && !g->tokens) {
            g->tokens = list;
            g->n_tokens = n;
        } else if (named(key, "tokenizer.ggml.merges") && !g->merges) {
            g->merges = list;
            g->n_merges = n;
        } else {
            free(list);
        }
        return;
    }
    size_t bytes = n * scalar_size[type];
    if (bytes > (size_t)(c->end - c->p)) {
        c->bad = true;
        return;
    }
    void *copy = malloc(bytes + 1);
    if (copy) memcpy(copy, c->p, bytes);
    c->p += bytes;
    if (named(key, "tokenizer.ggml.scores") && !g->scores)
        g->scores = copy;
    else if (named(key, "tokenizer.ggml.token_type") && !g->token_types)
        g->token_types = copy;
    else
        free(copy);
}

bool source_gguf(const char *bytes, size_t size, TokenizerGguf *g) {
    Cursor c = {bytes, bytes + size, false};
    *g = TOKENIZER_GGUF_NONE;
    if (take(&c, 4) != 0x46554747) return false;
    take(&c, 4 + 0);
    take(&c, 8);
    uint64_t n = take(&c, 8);
    for (uint64_t i = 0; i < n && !c.bad; i++) {
        TokenizerString key = take_string(&c);
        uint32_t type = (uint32_t)take(&c, 4);
        if (type == 8) {
            TokenizerString value = take_string(&c);
            if (named(key, "tokenizer.ggml.model")) g->model = value;
            if (named(key, "tokenizer.ggml.pre")) g->pre = value;
        } else if (type == 9) {
            take_array(&c, key, g);
        } else if (type <= 12) {
            int64_t value = (int64_t)take(&c, scalar_size[type]);
            if (named(key, "tokenizer.ggml.bos_token_id")) g->bos_id = (int32_t)value;
            if (named(key, "tokenizer.ggml.eos_token_id")) g->eos_id = (int32_t)value;
            if (named(key, "tokenizer.ggml.unknown_token_id")) g->unk_id = (int32_t)value;
            if (named(key, "tokenizer.ggml.add_bos_token")) g->add_bos = (int)value;
            if (named(key, "tokenizer.ggml.add_eos_token")) g->add_eos = (int)value;
            if (named(key, "tokenizer.ggml.add_space_prefix")) g->add_space_prefix = (int)value;
        } else {
            c.bad = true;
        }
    }
    return !c.bad;
}

void source_gguf_free(TokenizerGguf *g) {
    free((void *)g->tokens);
    free((void *)g->merges);
    free((void *)g->scores);
    free((void *)g->token_types);
    *g = TOKENIZER_GGUF_NONE;
}

static Status import_gguf(const char *bytes, size_t size, TokenizerBlob *blob, Error *error) {
    TokenizerGguf gguf;
    Status status = source_gguf(bytes, size, &gguf) ? tokenizer_import_gguf(&gguf, blob, error)
                                                    : error_set(error, "not a GGUF file");
    source_gguf_free(&gguf);
    return status;
}

/* Counts the tokens in llama2.c's tokenizer file, which does not store their number. */
static size_t llama2c_count(const char *bytes, size_t size) {
    size_t n = 0;
    for (size_t at = 4; at + 8 <= size; n++) {
        uint32_t length;
        memcpy(&length, bytes + at + 4, 4);
        at += 8 + (size_t)length;
    }
    return n;
}

static Status import_slow(const char *path, TokenizerBlob *blob, Error *error) {
    static const char *const names[] = {"vocab.json", "merges.txt", "added_tokens.json",
                                        "tokenizer_config.json"};
    char *files[4], name[512];
    size_t sizes[4] = {0};
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s/%s", path, names[i]);
        files[i] = source_read(name, &sizes[i]);
    }
    Status status = files[0] && files[1]
                        ? tokenizer_import_slow(files[0], sizes[0], files[1], sizes[1], files[2],
                                                sizes[2], files[3], sizes[3], blob, error)
                        : error_set(error, "%s: no vocab.json and merges.txt", path);
    for (int i = 0; i < 4; i++) free(files[i]);
    return status;
}

Status source_import(const char *kind, const char *path, TokenizerBlob *blob, Error *error) {
    size_t size;
    Status status;
    if (!strcmp(kind, "slow")) return import_slow(path, blob, error);
    char *bytes = source_read(path, &size);
    if (!bytes) return error_set(error, "%s: cannot be read", path);
    if (!strcmp(kind, "json"))
        status = tokenizer_import_json(bytes, size, NULL, 0, blob, error);
    else if (!strcmp(kind, "gguf"))
        status = import_gguf(bytes, size, blob, error);
    else if (!strcmp(kind, "spm"))
        status = tokenizer_import_sentencepiece(bytes, size, blob, error);
    else if (!strcmp(kind, "tekken"))
        status = tokenizer_import_tekken(bytes, size, blob, error);
    else if (!strcmp(kind, "tiktoken")) {
        const char *pattern = size > 1 << 18 ? NULL : "llama3"; /* a seed of the fuzzer is short */
        if (getenv("SPLIT_PATTERN")) pattern = getenv("SPLIT_PATTERN");
        status = tokenizer_import_tiktoken(bytes, size, pattern, NULL, 0, -1, -1, blob, error);
    } else if (!strcmp(kind, "llama2c"))
        status = tokenizer_import_llama2c(bytes, size, llama2c_count(bytes, size), blob, error);
    else
        status = error_set(error, "%s: unknown kind", kind);
    free(bytes);
    return status;
}

Tokenizer *source_tokenizer(const TokenizerBlob *blob) {
    Error error = {""};
    Tokenizer *tokenizer;
    if (tokenizer_open(&tokenizer, blob->bytes, blob->size, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return tokenizer;
}

void source_assert_ids(Tokenizer *t, const char *text, size_t n, const uint8_t *from_template,
                       unsigned flags, const int32_t *ids, size_t count) {
    Error error = {""};
    TokenList list = {0};
    assert_int_equal(tokenizer_encode(t, text, n, from_template, flags, &list, &error), STATUS_OK);
    assert_int_equal(list.length, count);
    if (count) assert_memory_equal(list.ids, ids, count * sizeof *ids);
    token_list_free(&list);
}
