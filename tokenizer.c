/* The section: opened and checked, looked into, and what it says. The way of a text through it:
 * tokenizer_text.c, tokenizer_normalize.c, tokenizer_model.c; back: tokenizer_decode.c. */
#include "tokenizer_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* ---- Lists and look-ups ---- */

bool token_list_push(TokenList *list, int32_t id) {
    if (!array_reserve(&list->ids, &list->capacity, list->length + 1, sizeof *list->ids))
        return false;
    list->ids[list->length++] = id;
    return true;
}

void token_list_free(TokenList *list) {
    free(list->ids);
    *list = (TokenList){0};
}

Status run_push(Run *run, uint32_t id) {
    const Tokenizer *t = run->tokenizer;
    size_t length;
    if (id >= t->n_usable) {
        const char *text = tokenizer_token_text(t, (int32_t)id, &length);
        return error_set(run->error,
                         "tokenizer: '%.*s' is token %u, but the model has embeddings for %zu only",
                         length < 100 ? (int)length : 100, text, id, t->n_usable);
    }
    if (token_list_push(run->out, (int32_t)id)) return STATUS_OK;
    return error_set(run->error, "tokenizer: no memory for %zu ids", run->out->length + 1);
}

Status no_memory(Error *error) {
    return error_set(error, "tokenizer: out of memory");
}

const char *section_text(const Tokenizer *t, TextRange range, size_t *length) {
    const SectionPart *part = &t->header->parts[PART_TEXT];
    bool inside = range.offset <= part->length && range.length <= part->length - range.offset;
    *length = inside ? range.length : 0;
    return inside ? t->base + part->offset + range.offset : "";
}

const PairSlot *pair_find(const PairTable *table, uint32_t a, uint32_t b) {
    if (!table->slots) return NULL;
    uint32_t at = section_mix(a, b);
    for (int probe = 0; probe < PAIR_PROBES; probe++, at++) {
        const PairSlot *slot = &table->slots[at & table->mask];
        if (slot->x == TOKENIZER_NONE) return NULL;
        if (slot->a == a && slot->b == b) return slot;
    }
    return NULL;
}

uint32_t vocab_find(const Tokenizer *t, const char *key, size_t length) {
    uint32_t at = (uint32_t)section_hash(key, length);
    for (int probe = 0; probe < PAIR_PROBES; probe++, at++) {
        uint32_t id = t->vocab[at & t->vocab_mask];
        if (id >= t->header->n_symbols) return TOKENIZER_NONE;
        size_t n;
        const char *text = section_text(t, t->tokens[id].text, &n);
        if (n == length && memcmp(text, key, n) == 0) return id;
    }
    return TOKENIZER_NONE;
}

/* ---- Opening ---- */

const void *section_part(const Tokenizer *t, int which) {
    const SectionPart *p = &t->header->parts[which];
    return p->length ? t->base + p->offset : NULL;
}

size_t section_count(const Tokenizer *t, int which, size_t item) {
    return t->header->parts[which].length / item;
}

static bool part_is(const Tokenizer *t, int which, uint64_t count, uint64_t item) {
    return t->header->parts[which].length == count * item; /* counts are below 2^32 */
}

/* A hash table's length is a power of two of items, or zero. */
static bool open_table(const Tokenizer *t, int which, PairTable *table) {
    uint64_t n = section_count(t, which, sizeof(PairSlot));
    if (!part_is(t, which, n, sizeof(PairSlot)) || n > UINT32_MAX || (n & (n - 1)) != 0)
        return false;
    *table = (PairTable){section_part(t, which), (uint32_t)(n - 1)};
    return true;
}

static bool open_trie(const Tokenizer *t, int which, Trie *trie) {
    if (!open_table(t, which, &trie->table)) return false;
    for (uint32_t byte = 0; byte < 256; byte++)
        trie->starts[byte] = pair_find(&trie->table, 0, byte) != NULL;
    return true;
}

static bool ids_fit(const Tokenizer *t, int which) {
    const int32_t *ids = section_part(t, which);
    size_t n = section_count(t, which, sizeof *ids);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= t->header->n_tokens) return false;
    return part_is(t, which, n, sizeof *ids) && n <= 1024;
}

/* Everything whose size is fixed by another number; what the tables hold is checked when used. */
static const char *check_parts(Tokenizer *t) {
    const SectionHeader *h = t->header;
    uint64_t vocab = section_count(t, PART_VOCAB, 4), added = section_count(t, PART_ADDED, 16);
    if (h->n_tokens > h->n_symbols || h->n_symbols > INT32_MAX) return "token count";
    if (h->unk_id < -1 || h->unk_id >= (int64_t)h->n_tokens) return "unknown token";
    if (h->bos_id < -1 || h->bos_id >= (int64_t)h->n_tokens) return "first token";
    if (h->model >= MODEL_COUNT) return "model";
    if (h->max_key > SECTION_MAX_PIECE || h->max_added > SECTION_MAX_ADDED) return "lengths";
    if (h->subword_prefix.length > SECTION_MAX_AFFIX || h->word_suffix.length > SECTION_MAX_AFFIX)
        return "affixes";
    if (!part_is(t, PART_TOKENS, h->n_symbols, sizeof(TokenRecord))) return "tokens";
    if (h->decode_variants != 1 && h->decode_variants != 2 && h->decode_variants != 4)
        return "variants";
    if (!part_is(t, PART_DECODE, (uint64_t)h->n_tokens * h->decode_variants, sizeof(TextRange)))
        return "decoded texts";
    if (vocab == 0 || vocab > UINT32_MAX || (vocab & (vocab - 1)) ||
        !part_is(t, PART_VOCAB, vocab, 4))
        return "vocabulary";
    if (!part_is(t, PART_BYTES, section_part(t, PART_BYTES) ? 256 : 0, 4)) return "byte table";
    if (h->flags & (SECTION_BYTE_LEVEL | SECTION_BYTE_FALLBACK) && !section_part(t, PART_BYTES))
        return "byte table";
    if (h->flags & SECTION_UNMAP && !(h->flags & SECTION_BYTE_LEVEL)) return "flags";
    if (!part_is(t, PART_CUTS, section_part(t, PART_CUTS) ? 8192 : 0, 1)) return "cuts";
    if (!part_is(t, PART_ADDED, added, sizeof(AddedRecord)) || added > h->n_tokens)
        return "added tokens";
    if (!part_is(t, PART_SCORES, h->model == MODEL_UNIGRAM ? h->n_tokens : 0, 8)) return "scores";
    if (!ids_fit(t, PART_PREFIX) || !ids_fit(t, PART_SUFFIX) || !ids_fit(t, PART_EOS))
        return "special ids";
    t->tokens = section_part(t, PART_TOKENS);
    t->decode = section_part(t, PART_DECODE);
    t->vocab = section_part(t, PART_VOCAB);
    t->vocab_mask = (uint32_t)(vocab - 1);
    t->bytes = section_part(t, PART_BYTES);
    t->cuts = h->flags & SECTION_BYTE_LEVEL ? NULL : section_part(t, PART_CUTS);
    t->added = section_part(t, PART_ADDED);
    t->n_added = added;
    t->scores = section_part(t, PART_SCORES);
    for (size_t i = 0; i < added; i++)
        if (t->added[i].id >= h->n_tokens) return "added tokens";
    if (!open_table(t, PART_PAIRS, &t->pairs)) return "merges";
    if (!open_trie(t, PART_ADDED_RAW, &t->added_raw)) return "added tokens";
    if (!open_trie(t, PART_ADDED_NORM, &t->added_norm)) return "added tokens";
    if (!open_trie(t, PART_PIECES, &t->pieces)) return "pieces";
    if (section_part(t, PART_CHARSMAP) &&
        !charsmap_open(&t->charsmap, section_part(t, PART_CHARSMAP),
                       h->parts[PART_CHARSMAP].length))
        return "character map";
    return NULL;
}

/* Compiles a stranger's pattern: no callouts (none is ever set), no \C, no leading verbs. */
static Status compile(Tokenizer *t, TextRange range, pcre2_code **out, Error *error) {
    size_t length, offset;
    const char *pattern = section_text(t, range, &length);
    int code;
    if (length >= 2 && memcmp(pattern, "(*", 2) == 0)
        return error_set(error, "tokenizer: pattern '%.*s' begins with a verb",
                         (int)(length < 200 ? length : 200), pattern);
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) return no_memory(error);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context, 100);
    *out = pcre2_compile((PCRE2_SPTR)pattern, length,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &offset, context);
    pcre2_compile_context_free(context);
    if (!*out) {
        char why[128];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        return error_set(error, "tokenizer: pattern '%.*s': at %zu: %s",
                         (int)(length < 200 ? length : 200), pattern, offset, why);
    }
    pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* without JIT the interpreter does it */
    return STATUS_OK;
}

static bool range_is_utf8(const Tokenizer *t, TextRange range) {
    size_t n;
    const char *text = section_text(t, range, &n);
    return utf8_valid_prefix(text, n) == n;
}

static Status open_steps(Tokenizer *t, int which, int list, uint32_t limit, Error *error) {
    const StepRecord *steps = t->steps[list] = section_part(t, which);
    size_t n = t->n_steps[list] = section_count(t, which, sizeof *steps);
    if (n > SECTION_MAX_STEPS || !part_is(t, which, n, sizeof *steps))
        return error_set(error, "tokenizer: damaged step list %d", list);
    for (size_t i = 0; i < n; i++) {
        bool pattern = list == 0   ? steps[i].op == NORMALIZE_REPLACE_PATTERN
                       : list == 1 ? steps[i].op == SPLIT_PATTERN
                                   : steps[i].op == DECODE_REPLACE_PATTERN;
        if (steps[i].op >= limit || !range_is_utf8(t, steps[i].a) || !range_is_utf8(t, steps[i].b))
            return error_set(error, "tokenizer: damaged step list %d", list);
        if (pattern && compile(t, steps[i].a, &t->patterns[list][i], error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* \w of the regex crate, which single_word asks about; needed by few vocabularies. */
static Status open_word_character(Tokenizer *t, Error *error) {
    static const char word[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]";
    int code;
    size_t offset;
    bool needed = false;
    for (size_t i = 0; i < t->n_added; i++) needed |= (t->added[i].flags & ADDED_SINGLE_WORD) != 0;
    if (!needed) return STATUS_OK;
    t->word_character =
        pcre2_compile((PCRE2_SPTR)word, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &code, &offset, NULL);
    return t->word_character ? STATUS_OK : error_set(error, "tokenizer: PCRE2 is too old");
}

Status tokenizer_open(Tokenizer **out, const void *section, size_t size, Error *error) {
    const SectionHeader *header = section;
    *out = NULL;
    if (size < sizeof *header || memcmp(header->magic, TOKENIZER_MAGIC, 8) != 0 ||
        header->size > size || (uintptr_t)section % 8 != 0)
        return error_set(error, "tokenizer: no tokenizer section of this version");
    for (int i = 0; i < PART_COUNT; i++) {
        const SectionPart *p = &header->parts[i];
        if (p->offset % 8 != 0 || p->offset > header->size || p->length > header->size - p->offset)
            return error_set(error, "tokenizer: part %d lies outside the section", i);
    }
    Tokenizer *t = calloc(1, sizeof *t);
    if (!t) return no_memory(error);
    t->base = section;
    t->header = header;
    t->n_usable = SIZE_MAX;
    pthread_mutex_init(&t->lock, NULL);
    const char *damaged = check_parts(t);
    Status status =
        damaged ? error_set(error, "tokenizer: damaged section (%s)", damaged) : STATUS_OK;
    if (status == STATUS_OK) status = open_steps(t, PART_NORMALIZERS, 0, NORMALIZE_COUNT, error);
    if (status == STATUS_OK) status = open_steps(t, PART_SPLITS, 1, SPLIT_COUNT, error);
    if (status == STATUS_OK) status = open_steps(t, PART_DECODERS, 2, DECODE_COUNT, error);
    if (status == STATUS_OK) status = open_word_character(t, error);
    if (status != STATUS_OK) {
        tokenizer_close(t);
        return status;
    }
    for (int c = 0; c < 128; c++) t->ascii[c] = vocab_find(t, &(char){(char)c}, 1);
    /* One strip at the start alone can be done on the way; all else waits for the whole text. */
    const StepRecord *steps = t->steps[2];
    t->holds_text = t->n_steps[2] > 1 ||
                    (t->n_steps[2] == 1 && (steps->op != DECODE_STRIP || steps->flags >> 16));
    *out = t;
    return STATUS_OK;
}

void scratch_free(Scratch *s) {
    for (int i = 0; i < 2; i++) text_free(&s->normalized[i]);
    for (int i = 0; i < SECTION_MAX_STEPS; i++) text_free(&s->levels[i]);
    text_free(&s->word);
    free(s->symbols);
    free(s->best);
    free(s->cache);
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    free(s);
}

void tokenizer_close(Tokenizer *t) {
    if (!t) return;
    for (Scratch *next; t->pool; t->pool = next) {
        next = t->pool->next;
        scratch_free(t->pool);
    }
    for (int list = 0; list < 3; list++)
        for (int i = 0; i < SECTION_MAX_STEPS; i++) pcre2_code_free(t->patterns[list][i]);
    pcre2_code_free(t->word_character);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

Scratch *scratch_new(void) {
    Scratch *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->cache = calloc(CACHE_SLOTS, sizeof *s->cache);
    s->match = pcre2_match_data_create(1, NULL);
    s->context = pcre2_match_context_create(NULL);
    s->stack = pcre2_jit_stack_create(32 << 10, 128 << 20, NULL); /* taken as it is needed */
    if (!s->cache || !s->match || !s->context) {
        scratch_free(s);
        return NULL;
    }
    pcre2_set_match_limit(s->context, 20u << 20);
    pcre2_set_heap_limit(s->context, 1u << 20); /* KiB */
    if (s->stack) pcre2_jit_stack_assign(s->context, NULL, s->stack);
    return s;
}

Scratch *scratch_borrow(Tokenizer *t) {
    pthread_mutex_lock(&t->lock);
    Scratch *s = t->pool;
    if (s) t->pool = s->next;
    pthread_mutex_unlock(&t->lock);
    return s ? s : scratch_new();
}

void scratch_return(Tokenizer *t, Scratch *s) {
    pthread_mutex_lock(&t->lock);
    s->next = t->pool;
    t->pool = s;
    pthread_mutex_unlock(&t->lock);
}

/* ---- What a tokenizer says about itself ---- */

size_t tokenizer_vocab_size(const Tokenizer *t) {
    return t->header->n_tokens;
}

bool tokenizer_fits(const Tokenizer *t, size_t n) {
    for (size_t id = n; id < t->header->n_tokens; id++) {
        const TokenRecord *token = &t->tokens[id];
        if (token->text.length > 0 && !(token->flags & TOKEN_ADDED)) return false;
    }
    return true;
}

void tokenizer_limit(Tokenizer *t, size_t n) {
    t->n_usable = n;
}

int32_t tokenizer_bos(const Tokenizer *t) {
    return t->header->bos_id;
}

const int32_t *tokenizer_eos(const Tokenizer *t, size_t *count) {
    *count = section_count(t, PART_EOS, sizeof(int32_t));
    return section_part(t, PART_EOS);
}

bool tokenizer_adds_bos(const Tokenizer *t) {
    return section_part(t, PART_PREFIX) != NULL;
}
bool tokenizer_adds_eos(const Tokenizer *t) {
    return section_part(t, PART_SUFFIX) != NULL;
}

int32_t tokenizer_token_id(const Tokenizer *t, const char *text, size_t length) {
    for (size_t i = 0; i < t->n_added; i++) {
        size_t n;
        const char *added = section_text(t, t->added[i].text, &n);
        if (n == length && memcmp(added, text, n) == 0) return (int32_t)t->added[i].id;
    }
    uint32_t id = vocab_find(t, text, length);
    return id < t->header->n_tokens ? (int32_t)id : -1;
}

const char *tokenizer_token_text(const Tokenizer *t, int32_t id, size_t *length) {
    *length = 0;
    if (id < 0 || (uint32_t)id >= t->header->n_tokens) return "";
    for (size_t i = 0; t->tokens[id].flags & TOKEN_ADDED && i < t->n_added; i++)
        if (t->added[i].id == (uint32_t)id) return section_text(t, t->added[i].text, length);
    return section_text(t, t->tokens[id].text, length);
}

bool tokenizer_is_special(const Tokenizer *t, int32_t id) {
    return id >= 0 && (uint32_t)id < t->header->n_tokens && t->tokens[id].flags & TOKEN_SPECIAL;
}

void tokenizer_versions(char *text, size_t size) {
    char version[64] = "", data[64] = "";
    uint32_t jit = 0;
    pcre2_config(PCRE2_CONFIG_VERSION, version);
    pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, data);
    pcre2_config(PCRE2_CONFIG_JIT, &jit);
    version[strcspn(version, " ")] = 0;
    snprintf(text, size, "PCRE2 %s (Unicode %s%s), utf8proc %s (Unicode %s)", version, data,
             jit ? ", JIT" : "", unicode_library_version(), unicode_data_version());
}
