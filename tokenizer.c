/* The functions of tokenizer.h but the decoder's, which are in tokenizer/tokenizer_decode.c. */
#include "tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/unicode.h"
#include "tokenizer/scratch.h"
#include "tokenizer/tokenizer_pattern.h"
#include "tokenizer/tokenizer_table.h"
#include "tokenizer/tokenizer_text.h"

/* ---- Opening ---- */

static bool range_is_utf8(const Tokenizer *t, TextRange range) {
    size_t n;
    const char *text = table_section_text(t, range, &n);
    return utf8_valid_prefix(text, n) == n;
}

/* Checks the steps of one part and compiles the patterns of those with the operation `pattern_op`.
 * Operations run from 0 to n_ops - 1. */
static Status open_steps(Tokenizer *t, int part, StepList *list, uint32_t n_ops,
                         uint32_t pattern_op, Error *error) {
    const StepRecord *steps = list->steps = table_section_part(t, part);
    size_t n = list->n = table_section_count(t, part, sizeof *steps);
    bool fits = n <= SECTION_MAX_STEPS && t->header->parts[part].length % sizeof *steps == 0;
    for (size_t i = 0; i < n && fits; i++) {
        size_t length;
        const char *pattern = table_section_text(t, steps[i].a, &length);
        fits = steps[i].op < n_ops && range_is_utf8(t, steps[i].a) && range_is_utf8(t, steps[i].b);
        if (fits && steps[i].op == pattern_op &&
            pattern_compile(pattern, length, &list->patterns[i], error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return fits ? STATUS_OK
                : error_set(error, "tokenizer: damaged section (steps of part %d)", part);
}

/* Whether decoding waits for the end of a text: a single step that strips at the start only can be
 * done token by token. (A strip step's flags: how many at the start, and above 16 bits at the end.)
 */
static bool needs_whole_text(const StepList *decoders) {
    const StepRecord *step = decoders->steps;
    bool strips_start = decoders->n == 1 && step->op == DECODE_STRIP && step->flags >> 16 == 0;
    return decoders->n > 0 && !strips_start;
}

/* Compiles the patterns of normalizers, splits and decoders, and of added tokens that must be whole
 * words. */
static Status open_all_steps(Tokenizer *t, Error *error) {
    /* \w of Rust's regex crate, which ADDED_SINGLE_WORD asks about */
    static const char word[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]";
    bool asked = false;
    for (size_t i = 0; i < t->n_added; i++) asked |= (t->added[i].flags & ADDED_SINGLE_WORD) != 0;
    if (asked && pattern_compile(word, sizeof word - 1, &t->word_character, error) != STATUS_OK)
        return STATUS_FAILED;
    if (open_steps(t, PART_NORMALIZERS, &t->normalizers, NORMALIZE_COUNT, NORMALIZE_REPLACE_PATTERN,
                   error) != STATUS_OK ||
        open_steps(t, PART_SPLITS, &t->splits, SPLIT_COUNT, SPLIT_PATTERN, error) != STATUS_OK ||
        open_steps(t, PART_DECODERS, &t->decoders, DECODE_COUNT, DECODE_REPLACE_PATTERN, error) !=
            STATUS_OK)
        return STATUS_FAILED;
    t->holds_text = needs_whole_text(&t->decoders);
    return STATUS_OK;
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
    if (!t) return table_no_memory(error);
    t->base = section;
    t->header = header;
    t->n_usable = SIZE_MAX;
    pthread_mutex_init(&t->lock, NULL);
    const char *damaged = table_open(t);
    Status status = damaged ? error_set(error, "tokenizer: damaged section (%s)", damaged)
                            : open_all_steps(t, error);
    if (status == STATUS_OK)
        *out = t;
    else
        tokenizer_close(t);
    return status;
}

static void free_patterns(StepList *list) {
    for (int i = 0; i < SECTION_MAX_STEPS; i++) pcre2_code_free(list->patterns[i]);
}

Status tokenizer_open_for(Tokenizer **out, const char *path, const void *section, size_t size,
                          size_t vocab_size, Error *error) {
    if (tokenizer_open(out, section, size, error) != STATUS_OK)
        return error_prefix(error, "%s", path);
    tokenizer_limit(*out, vocab_size);
    if (tokenizer_fits(*out, vocab_size)) return STATUS_OK;
    return error_set(error, "%s: the tokenizer has %zu tokens, but the model only %zu", path,
                     tokenizer_vocab_size(*out), vocab_size);
}

void tokenizer_close(Tokenizer *t) {
    if (!t) return;
    for (Scratch *next; t->pool; t->pool = next) {
        next = t->pool->next;
        scratch_free(t->pool);
    }
    free_patterns(&t->normalizers);
    free_patterns(&t->splits);
    free_patterns(&t->decoders);
    pcre2_code_free(t->word_character);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* ---- Encoding ---- */

static Status push_part(Encoding *e, int part) {
    const int32_t *ids = table_section_part(e->tokenizer, part);
    size_t n = table_section_count(e->tokenizer, part, sizeof *ids);
    for (size_t i = 0; i < n; i++)
        if (table_push_id(e, (uint32_t)ids[i]) != STATUS_OK) return STATUS_FAILED;
    return STATUS_OK;
}

/* Fails where a new id, from index `from` on, is above the limit of tokenizer_limit. */
static Status check_limit(const Tokenizer *t, const TokenList *list, size_t from, Error *error) {
    for (size_t i = from; i < list->length; i++) {
        if ((uint32_t)list->ids[i] < t->n_usable) continue;
        size_t length;
        const char *text = tokenizer_token_text(t, list->ids[i], &length);
        return error_set(error,
                         "tokenizer: '%.*s' is token %d, but the model has embeddings for %zu only",
                         length < 100 ? (int)length : 100, text, list->ids[i], t->n_usable);
    }
    return STATUS_OK;
}

Status tokenizer_encode(Tokenizer *t, const char *text, size_t length, const uint8_t *from_template,
                        unsigned flags, TokenList *out, Error *error) {
    Scratch *scratch = scratch_borrow(t);
    if (!scratch) return table_no_memory(error);
    Encoding e = {t, scratch, out, error, flags & TOKENIZE_PARSE_SPECIAL, (size_t)1 << 20};
    if (length < SIZE_MAX / 64 - e.limit) e.limit += 64 * length;
    pattern_allow(scratch, pattern_steps(length));
    size_t before = out->length;
    Status status = flags & TOKENIZE_ADD_BOS ? push_part(&e, PART_PREFIX) : STATUS_OK;
    if (status == STATUS_OK) status = tokenizer_encode_text(&e, text, length, from_template);
    if (status == STATUS_OK && flags & TOKENIZE_ADD_EOS) status = push_part(&e, PART_SUFFIX);
    if (status == STATUS_OK) status = check_limit(t, out, before, error);
    scratch_return(t, scratch);
    return status;
}

/* ---- What a tokenizer says about itself ---- */

size_t tokenizer_vocab_size(const Tokenizer *t) {
    return t->header->n_tokens;
}

size_t tokenizer_n_ids(const Tokenizer *t) {
    bool has_more = t->n_usable != SIZE_MAX && t->n_usable > t->header->n_tokens;
    return has_more ? t->n_usable : t->header->n_tokens;
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
    *count = table_section_count(t, PART_EOS, sizeof(int32_t));
    return table_section_part(t, PART_EOS);
}

bool tokenizer_adds_bos(const Tokenizer *t) {
    return table_section_part(t, PART_PREFIX) != NULL;
}

int32_t tokenizer_token_id(const Tokenizer *t, const char *text, size_t length) {
    for (size_t i = 0; i < t->n_added; i++)
        if (table_section_text_is(t, t->added[i].text, text, length))
            return (int32_t)t->added[i].id;
    uint32_t id = table_find_vocab(t, text, length);
    return id < t->header->n_tokens ? (int32_t)id : -1;
}

const char *tokenizer_token_text(const Tokenizer *t, int32_t id, size_t *length) {
    *length = 0;
    if (id < 0 || (uint32_t)id >= t->header->n_tokens) return "";
    for (size_t i = 0; t->tokens[id].flags & TOKEN_ADDED && i < t->n_added; i++)
        if (t->added[i].id == (uint32_t)id) return table_section_text(t, t->added[i].text, length);
    return table_section_text(t, t->tokens[id].text, length);
}

bool tokenizer_is_special(const Tokenizer *t, int32_t id) {
    return id >= 0 && (uint32_t)id < t->header->n_tokens && t->tokens[id].flags & TOKEN_SPECIAL;
}
