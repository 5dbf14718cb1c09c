/* The section, the way of a text through it, and decoding. One word to ids: tokenizer_model.c. */
#include "tokenizer_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Lists and look-ups ---- */

bool token_list_push(TokenList *list, int32_t id) {
    if (list->length == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 64;
        int32_t *ids =
            capacity > SIZE_MAX / sizeof *ids ? NULL : realloc(list->ids, capacity * sizeof *ids);
        if (!ids) return false;
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->length++] = id;
    return true;
}

void token_list_free(TokenList *list) {
    free(list->ids);
    *list = (TokenList){0};
}

Status run_push(Run *run, uint32_t id) {
    if (token_list_push(run->out, (int32_t)id)) return STATUS_OK;
    return error_set(run->error, "tokenizer: no memory for %zu ids", run->out->length + 1);
}

static Status no_memory(Error *error) {
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

static const void *part(const Tokenizer *t, int which) {
    const SectionPart *p = &t->header->parts[which];
    return p->length ? t->base + p->offset : NULL;
}

static size_t part_count(const Tokenizer *t, int which, size_t item) {
    return t->header->parts[which].length / item;
}

static bool part_is(const Tokenizer *t, int which, uint64_t count, uint64_t item) {
    return t->header->parts[which].length == count * item; /* counts are below 2^32 */
}

/* A hash table's length is a power of two of items, or zero. */
static bool open_table(const Tokenizer *t, int which, PairTable *table) {
    uint64_t n = part_count(t, which, sizeof(PairSlot));
    if (!part_is(t, which, n, sizeof(PairSlot)) || n > UINT32_MAX || (n & (n - 1)) != 0)
        return false;
    *table = (PairTable){part(t, which), (uint32_t)(n - 1)};
    return true;
}

static bool open_trie(const Tokenizer *t, int which, Trie *trie) {
    if (!open_table(t, which, &trie->table)) return false;
    for (uint32_t byte = 0; byte < 256; byte++)
        trie->starts[byte] = pair_find(&trie->table, 0, byte) != NULL;
    return true;
}

static bool ids_fit(const Tokenizer *t, int which) {
    const int32_t *ids = part(t, which);
    size_t n = part_count(t, which, sizeof *ids);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= t->header->n_tokens) return false;
    return part_is(t, which, n, sizeof *ids) && n <= 1024;
}

/* Everything whose size is fixed by another number; what the tables hold is checked when used. */
static const char *check_parts(Tokenizer *t) {
    const SectionHeader *h = t->header;
    uint64_t vocab = part_count(t, PART_VOCAB, 4), added = part_count(t, PART_ADDED, 16);
    if (h->n_tokens > h->n_symbols || h->n_symbols > INT32_MAX) return "token count";
    if (h->unk_id < -1 || h->unk_id >= (int64_t)h->n_tokens) return "unknown token";
    if (h->bos_id < -1 || h->bos_id >= (int64_t)h->n_tokens) return "first token";
    if (h->model >= MODEL_COUNT) return "model";
    if (h->max_key > SECTION_MAX_PIECE || h->max_added > SECTION_MAX_ADDED) return "lengths";
    if (!part_is(t, PART_TOKENS, h->n_symbols, sizeof(TokenRecord))) return "tokens";
    if (h->decode_variants != 1 && h->decode_variants != 2 && h->decode_variants != 4)
        return "variants";
    if (!part_is(t, PART_DECODE, (uint64_t)h->n_tokens * h->decode_variants, sizeof(TextRange)))
        return "decoded texts";
    if (vocab == 0 || vocab > UINT32_MAX || (vocab & (vocab - 1)) ||
        !part_is(t, PART_VOCAB, vocab, 4))
        return "vocabulary";
    if (!part_is(t, PART_BYTES, part(t, PART_BYTES) ? 256 : 0, 4)) return "byte table";
    if (h->flags & (SECTION_BYTE_LEVEL | SECTION_BYTE_FALLBACK) && !part(t, PART_BYTES))
        return "byte table";
    if (h->flags & SECTION_UNMAP && !(h->flags & SECTION_BYTE_LEVEL)) return "flags";
    if (!part_is(t, PART_CUTS, part(t, PART_CUTS) ? 8192 : 0, 1)) return "cuts";
    if (!part_is(t, PART_ADDED, added, sizeof(AddedRecord)) || added > h->n_tokens)
        return "added tokens";
    if (!part_is(t, PART_SCORES, h->model == MODEL_UNIGRAM ? h->n_tokens : 0, 8)) return "scores";
    if (!ids_fit(t, PART_PREFIX) || !ids_fit(t, PART_SUFFIX) || !ids_fit(t, PART_EOS))
        return "special ids";
    t->tokens = part(t, PART_TOKENS);
    t->decode = part(t, PART_DECODE);
    t->vocab = part(t, PART_VOCAB);
    t->vocab_mask = (uint32_t)(vocab - 1);
    t->bytes = part(t, PART_BYTES);
    t->cuts = h->flags & SECTION_BYTE_LEVEL ? NULL : part(t, PART_CUTS);
    t->added = part(t, PART_ADDED);
    t->n_added = added;
    t->scores = part(t, PART_SCORES);
    for (size_t i = 0; i < added; i++)
        if (t->added[i].id >= h->n_tokens) return "added tokens";
    if (!open_table(t, PART_PAIRS, &t->pairs)) return "merges";
    if (!open_trie(t, PART_ADDED_RAW, &t->added_raw)) return "added tokens";
    if (!open_trie(t, PART_ADDED_NORM, &t->added_norm)) return "added tokens";
    if (!open_trie(t, PART_PIECES, &t->pieces)) return "pieces";
    if (part(t, PART_CHARSMAP) &&
        !charsmap_open(&t->charsmap, part(t, PART_CHARSMAP), h->parts[PART_CHARSMAP].length))
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
    const StepRecord *steps = t->steps[list] = part(t, which);
    size_t n = t->n_steps[list] = part_count(t, which, sizeof *steps);
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

static void scratch_free(Scratch *s) {
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

static Scratch *scratch_new(void) {
    Scratch *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->cache = calloc(CACHE_SLOTS, sizeof *s->cache);
    s->match = pcre2_match_data_create(1, NULL);
    s->context = pcre2_match_context_create(NULL);
    s->stack = pcre2_jit_stack_create(32 << 10, 1 << 20, NULL);
    if (!s->cache || !s->match || !s->context) {
        scratch_free(s);
        return NULL;
    }
    pcre2_set_match_limit(s->context, 20u << 20);
    pcre2_set_heap_limit(s->context, 256u << 10); /* KiB */
    if (s->stack) pcre2_jit_stack_assign(s->context, NULL, s->stack);
    return s;
}

static Scratch *scratch_borrow(Tokenizer *t) {
    pthread_mutex_lock(&t->lock);
    Scratch *s = t->pool;
    if (s) t->pool = s->next;
    pthread_mutex_unlock(&t->lock);
    return s ? s : scratch_new();
}

static void scratch_return(Tokenizer *t, Scratch *s) {
    pthread_mutex_lock(&t->lock);
    s->next = t->pool;
    t->pool = s;
    pthread_mutex_unlock(&t->lock);
}

/* ---- Patterns ---- */

/* The next match of a pattern at or after `at`: 1 with its bounds, 0 for none, -1 on error. When
 * the JIT stack runs out the interpreter goes on. */
static int pattern_next(Scratch *s, const pcre2_code *code, const char *text, size_t n, size_t at,
                        size_t *from, size_t *to, Error *error) {
    int found =
        pcre2_match(code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK, s->match, s->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                            s->match, s->context);
    if (found == PCRE2_ERROR_NOMATCH) return 0;
    if (found < 0) {
        char why[128];
        pcre2_get_error_message(found, (PCRE2_UCHAR *)why, sizeof why);
        error_set(error, "tokenizer: a pattern of the model failed on this text: %s", why);
        return -1;
    }
    const size_t *bounds = pcre2_get_ovector_pointer(s->match);
    *from = bounds[0];
    *to = bounds[1] < bounds[0] ? bounds[0] : bounds[1];
    return 1;
}

static size_t character_length(const char *text, size_t n) {
    uint32_t code;
    size_t length = utf8_decode(text, n, &code);
    return length ? length : n > 0;
}

/* The matches of a pattern in order, as Oniguruma's find_iter gives them: an empty match right
 * after a match does not count, and after an empty one the search goes on a character later. */
typedef struct Matches {
    const pcre2_code *code;
    const char *text;
    size_t n, at, last_end;
    bool any;
} Matches;

static int matches_next(Matches *m, Scratch *s, size_t *from, size_t *to, Error *error) {
    while (m->at <= m->n) {
        int found = pattern_next(s, m->code, m->text, m->n, m->at, from, to, error);
        if (found <= 0) return found;
        bool empty = *from == *to, skip = empty && m->any && *to == m->last_end;
        m->at = empty ? *to + character_length(m->text + *to, m->n - *to) + (*to == m->n) : *to;
        m->last_end = *to;
        m->any = true;
        if (!skip) return 1;
    }
    return 0;
}

/* Appends in[n] with every match replaced. */
static Status replace_pattern(Scratch *s, const pcre2_code *code, Text *out, const char *in,
                              size_t n, const uint8_t *marks, const char *by, size_t by_length,
                              Error *error) {
    Matches matches = {.code = code, .text = in, .n = n};
    size_t done = 0, from, to;
    int found;
    while ((found = matches_next(&matches, s, &from, &to, error)) > 0) {
        uint8_t mark = marks != NULL;
        for (size_t i = from; i < to; i++) mark &= marks && marks[i];
        for (size_t i = done; i < from && marks; i++) text_put(out, in + i, 1, marks[i]);
        if (!marks) text_put(out, in + done, from - done, 0);
        if (to > 0 && from == 0 && (by_length == 0 || to > character_length(in, n)))
            out->lost_start = true;
        text_put(out, by, by_length, mark);
        done = to;
    }
    for (size_t i = done; i < n && marks; i++) text_put(out, in + i, 1, marks[i]);
    if (!marks) text_put(out, in + done, n - done, 0);
    return found < 0 ? STATUS_FAILED : STATUS_OK;
}

/* ---- Normalization ---- */

/* A piece of the text on its way. */
typedef struct Span {
    const char *bytes;
    const uint8_t *marks; /* or NULL */
    size_t n;
    bool first; /* begins the whole text */
    bool glued; /* follows bytes that are not UTF-8: nothing is put between */
} Span;

static void replace_string(Text *out, Span in, const char *from, size_t n, const char *to,
                           size_t to_length) {
    size_t at = 0;
    while (at < in.n) {
        const char *hit = n > 0 ? memmem(in.bytes + at, in.n - at, from, n) : NULL;
        size_t end = hit ? (size_t)(hit - in.bytes) : in.n;
        if (!in.marks) text_put(out, in.bytes + at, end - at, 0);
        for (size_t i = at; i < end && in.marks; i++) text_put(out, in.bytes + i, 1, in.marks[i]);
        if (!hit) return;
        uint8_t mark = in.marks != NULL;
        for (size_t i = 0; i < n; i++) mark &= in.marks && in.marks[end + i];
        if (end == 0 && (to_length == 0 || n > character_length(in.bytes, in.n)))
            out->lost_start = true;
        text_put(out, to, to_length, mark);
        at = end + n;
    }
}

static size_t added_longest(const Trie *trie, size_t limit, const char *text, size_t n,
                            uint32_t *index);

/* SentencePiece's normalizer.cc: the map by longest prefix, spaces, the prefix. */
static void sentencepiece_normalize(const Tokenizer *t, Text *out, Span in, uint32_t flags) {
    const char *space = flags & SPM_ESCAPE_SPACES ? "\xE2\x96\x81" : " ";
    size_t space_length = strlen(space);
    bool skip_space = flags & SPM_REMOVE_EXTRA_SPACES, was_space = skip_space, begun = false;
    for (size_t at = 0, step; at < in.n; at += step) {
        const char *to = in.bytes + at;
        size_t n;
        uint32_t index;
        if ((step = added_longest(&t->added_norm, t->header->max_added, to, in.n - at, &index)))
            n = step;
        else if (!(flags & SPM_CHARSMAP) ||
                 !(step = charsmap_longest(&t->charsmap, in.bytes + at, in.n - at, false, &to, &n)))
            n = step = character_length(in.bytes + at, in.n - at);
        uint8_t mark = in.marks != NULL;
        for (size_t i = at; i < at + step; i++) mark &= in.marks && in.marks[i];
        if (skip_space && !begun && n == 1 && *to == ' ') continue;
        if (!begun && flags & SPM_DUMMY_PREFIX && !(flags & SPM_SPACE_AS_SUFFIX) && !in.glued)
            text_put(out, space, space_length, mark);
        begun = true;
        while (was_space && n > 0 && *to == ' ') to++, n--;
        for (size_t i = 0; i < n; i++)
            if (to[i] == ' ')
                text_put(out, space, space_length, mark);
            else
                text_put(out, to + i, 1, mark);
        if (n > 0) was_space = to[n - 1] == ' ';
        was_space = was_space && skip_space;
    }
    while (skip_space && out->length >= space_length &&
           memcmp(out->bytes + out->length - space_length, space, space_length) == 0)
        out->length -= space_length;
    if (begun && flags & SPM_DUMMY_PREFIX && flags & SPM_SPACE_AS_SUFFIX)
        text_put(out, space, space_length, 0);
}

static Status normalize_step(Run *run, size_t i, Text *out, Span in) {
    Tokenizer *t = run->tokenizer;
    const StepRecord *step = &t->steps[0][i];
    size_t a_length, b_length;
    const char *a = section_text(t, step->a, &a_length), *b = section_text(t, step->b, &b_length);
    switch (step->op) {
    case NORMALIZE_NFC:
    case NORMALIZE_NFD:
    case NORMALIZE_NFKC:
    case NORMALIZE_NFKD:
        unicode_normalize(out, in.bytes, in.n, in.marks, (UnicodeForm)(step->op - NORMALIZE_NFC));
        break;
    case NORMALIZE_LOWERCASE:
        unicode_lowercase(out, in.bytes, in.n, in.marks);
        break;
    case NORMALIZE_STRIP:
        unicode_strip(out, in.bytes, in.n, in.marks, step->flags & 1, step->flags & 2);
        break;
    case NORMALIZE_STRIP_ACCENTS:
        unicode_strip_accents(out, in.bytes, in.n, in.marks, step->flags & 1);
        break;
    case NORMALIZE_BERT_CLEAN:
        unicode_bert_clean(out, in.bytes, in.n, in.marks);
        break;
    case NORMALIZE_BERT_CHINESE:
        unicode_bert_chinese(out, in.bytes, in.n, in.marks);
        break;
    case NORMALIZE_NMT:
        unicode_nmt(out, in.bytes, in.n, in.marks);
        break;
    case NORMALIZE_CHARSMAP:
        unicode_charsmap(out, in.bytes, in.n, in.marks, &t->charsmap);
        break;
    case NORMALIZE_SENTENCEPIECE:
        sentencepiece_normalize(t, out, in, step->flags);
        break;
    case NORMALIZE_MAP_BYTES:
        bytelevel_map(out, in.bytes, in.n, in.marks);
        break;
    case NORMALIZE_PREPEND:
        if (in.n > 0 && !in.glued) text_put(out, a, a_length, in.marks ? in.marks[0] : 0);
        replace_string(out, in, NULL, 0, NULL, 0);
        break;
    case NORMALIZE_REPLACE:
        replace_string(out, in, a, a_length, b, b_length);
        break;
    case NORMALIZE_REPLACE_PATTERN:
        return replace_pattern(run->scratch, t->patterns[0][i], out, in.bytes, in.n, in.marks, b,
                               b_length, run->error);
    }
    return STATUS_OK;
}

static Status normalize(Run *run, Span *span) {
    for (size_t i = 0; i < run->tokenizer->n_steps[0]; i++) {
        Text *out = &run->scratch->normalized[i & 1];
        out->length = 0;
        out->limit = run->limit;
        out->marked = span->marks != NULL;
        out->lost_start = false;
        if (normalize_step(run, i, out, *span) != STATUS_OK) return STATUS_FAILED;
        if (out->failed) return no_memory(run->error);
        *span = (Span){out->bytes ? out->bytes : "", out->marked ? out->marks : NULL, out->length,
                       span->first && !out->lost_start, span->glued};
    }
    return STATUS_OK;
}

/* ---- Words ---- */

static Status split(Run *run, size_t level, Span span);

/* The last level: words for the model. */
static Status split_done(Run *run, Span span) {
    if (!(run->tokenizer->header->flags & SECTION_UNMAP))
        return encode_word(run, span.bytes, span.n);
    Text *word = &run->scratch->word;
    word->length = 0;
    for (size_t at = 0, length; at < span.n; at += length) {
        uint32_t code;
        if (!(length = utf8_decode(span.bytes + at, span.n - at, &code))) length = 1;
        int byte = bytelevel_byte(code);
        if (byte >= 0) text_put(word, &(char){(char)byte}, 1, 0);
    }
    if (word->failed) return no_memory(run->error);
    return word->length ? encode_word(run, word->bytes, word->length) : STATUS_OK;
}

/* Words that one step has found, the last one waiting for what may join it. */
typedef struct Splitter {
    Run *run;
    size_t level;
    Span whole;
    uint32_t behaviour;
    size_t from, to;
    bool waiting, last_match;
} Splitter;

static Status splitter_flush(Splitter *s) {
    Span word = s->whole;
    word.bytes += s->from;
    word.n = s->to - s->from;
    word.first = word.first && s->from == 0;
    s->waiting = false;
    return word.n ? split(s->run, s->level + 1, word) : STATUS_OK;
}

static Status splitter_add(Splitter *s, size_t from, size_t to, bool match) {
    bool joins = s->behaviour == SPLIT_CONTIGUOUS             ? match == s->last_match
                 : s->behaviour == SPLIT_MERGED_WITH_PREVIOUS ? match && !s->last_match
                 : s->behaviour == SPLIT_MERGED_WITH_NEXT     ? !match && s->last_match
                                                              : false;
    bool joined = joins && s->waiting;
    s->last_match = match;
    if (joined) {
        s->to = to;
        return STATUS_OK;
    }
    if (s->waiting && splitter_flush(s) != STATUS_OK) return STATUS_FAILED;
    if (match && s->behaviour == SPLIT_REMOVED) return STATUS_OK;
    s->from = from;
    s->to = to;
    s->waiting = true;
    return STATUS_OK;
}

static Status split_pattern(Run *run, size_t level, Span span) {
    const StepRecord *step = &run->tokenizer->steps[1][level];
    bool invert = step->flags & SPLIT_INVERT;
    Splitter s = {.run = run, .level = level, .whole = span, .behaviour = step->flags & 7};
    Matches matches = {.code = run->tokenizer->patterns[1][level], .text = span.bytes, .n = span.n};
    size_t done = 0, from, to;
    int found;
    while ((found = matches_next(&matches, run->scratch, &from, &to, run->error)) > 0) {
        if (from > done && splitter_add(&s, done, from, invert) != STATUS_OK) return STATUS_FAILED;
        if (splitter_add(&s, from, to, !invert) != STATUS_OK) return STATUS_FAILED;
        done = to;
    }
    if (found < 0) return STATUS_FAILED;
    if (done < span.n && splitter_add(&s, done, span.n, invert) != STATUS_OK) return STATUS_FAILED;
    return s.waiting ? splitter_flush(&s) : STATUS_OK;
}

/* Runs the steps from `level` on over one piece, down to the model. */
static Status split(Run *run, size_t level, Span span) {
    const Tokenizer *t = run->tokenizer;
    if (span.n == 0) return STATUS_OK;
    if (level == t->n_steps[1]) return split_done(run, span);
    const StepRecord *step = &t->steps[1][level];
    if (step->op == SPLIT_PATTERN) return split_pattern(run, level, span);
    size_t a_length;
    const char *a = section_text(t, step->a, &a_length);
    Text *out = &run->scratch->levels[level];
    out->length = 0;
    out->limit = run->limit;
    if (step->op == SPLIT_METASPACE) {
        bool starts =
            span.bytes[0] == ' ' || (span.n >= a_length && memcmp(span.bytes, a, a_length) == 0);
        bool before =
            step->flags == METASPACE_ALWAYS || (step->flags == METASPACE_FIRST && span.first);
        if (before && !starts && !span.glued) text_put(out, a, a_length, 0);
        span.marks = NULL;
        replace_string(out, span, " ", 1, a, a_length);
    } else if (step->op == SPLIT_PREFIX_SPACE) {
        if (span.bytes[0] != ' ' && !span.glued) text_put(out, " ", 1, 0);
        text_put(out, span.bytes, span.n, 0);
    } else {
        bytelevel_map(out, span.bytes, span.n, NULL);
    }
    if (out->failed) return no_memory(run->error);
    return split(run, level + 1, (Span){out->bytes, NULL, out->length, span.first, span.glued});
}

/* ---- Added tokens ---- */

static size_t added_longest(const Trie *trie, size_t limit, const char *text, size_t n,
                            uint32_t *index) {
    size_t longest = 0;
    uint32_t node = 0;
    if (n == 0 || !trie->starts[(uint8_t)text[0]]) return 0;
    for (size_t i = 0; i < n && i < limit; i++) {
        const PairSlot *slot = pair_find(&trie->table, node, (uint8_t)text[i]);
        if (!slot) break;
        node = slot->x;
        if (slot->y != TOKENIZER_NONE) longest = i + 1, *index = slot->y;
    }
    return longest;
}

/* The longest added token at `at` that this run may recognize there, or 0. */
static size_t added_at(const Run *run, const Trie *trie, Span span, size_t at, uint32_t *index) {
    const Tokenizer *t = run->tokenizer;
    size_t longest = 0, n = span.n - at;
    uint32_t node = 0;
    bool special = true;
    for (size_t i = 0; i < n && i < t->header->max_added; i++) {
        const PairSlot *slot = pair_find(&trie->table, node, (uint8_t)span.bytes[at + i]);
        if (!slot) break;
        node = slot->x;
        special = special && (run->parse_special || (span.marks && span.marks[at + i]));
        if (i + 1 < n && ((uint8_t)span.bytes[at + i + 1] & 0xC0) == 0x80) continue;
        if (slot->y < t->n_added && !(t->added[slot->y].flags & ADDED_IN_MODEL) &&
            (special || !(t->added[slot->y].flags & ADDED_SPECIAL)))
            longest = i + 1, *index = slot->y;
    }
    return longest;
}

static bool is_word_character(const Run *run, const char *text, size_t n) {
    size_t length = character_length(text, n);
    return length &&
           pcre2_match(run->tokenizer->word_character, (PCRE2_SPTR)text, length, 0,
                       PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, run->scratch->match, NULL) > 0;
}

static size_t character_before(const char *text, size_t at) {
    do at--;
    while (at > 0 && ((uint8_t)text[at] & 0xC0) == 0x80);
    return at;
}

static bool stands_alone(const Run *run, Span span, size_t from, size_t to) {
    size_t before = from > 0 ? character_before(span.bytes, from) : 0;
    return !(from > 0 && is_word_character(run, span.bytes + before, from - before)) &&
           !(to < span.n && is_word_character(run, span.bytes + to, span.n - to));
}

static Status encode_normalized(Run *run, Span span) { return split(run, 0, span); }

static Status encode_added(Run *run, const Trie *trie, Span span,
                           Status (*rest)(Run *run, Span span));

static Status encode_raw(Run *run, Span span) {
    if (normalize(run, &span) != STATUS_OK) return STATUS_FAILED;
    return encode_added(run, &run->tokenizer->added_norm, span, encode_normalized);
}

static Status encode_rest(Run *run, Span span, size_t from, size_t to, bool glued,
                          Status (*rest)(Run *run, Span span)) {
    if (from >= to) return STATUS_OK;
    return rest(run, (Span){span.bytes + from, span.marks ? span.marks + from : NULL, to - from,
                            span.first && from == 0, glued});
}

/* Cuts the added tokens out, leftmost and longest first, and gives what lies between to `rest`. */
static Status encode_added(Run *run, const Trie *trie, Span span,
                           Status (*rest)(Run *run, Span span)) {
    const Tokenizer *t = run->tokenizer;
    size_t done = 0, length;
    for (size_t at = 0; at < span.n; at += length) {
        uint32_t index = 0, code;
        length = 1;
        if (!trie->starts[(uint8_t)span.bytes[at]] || ((uint8_t)span.bytes[at] & 0xC0) == 0x80)
            continue;
        size_t token = added_at(run, trie, span, at, &index);
        if (!token) continue;
        length = token;
        const AddedRecord *added = &t->added[index];
        size_t from = at, to = at + length;
        if (added->flags & ADDED_SINGLE_WORD && !stands_alone(run, span, from, to)) continue;
        while (added->flags & ADDED_LSTRIP && from > done) {
            size_t before = character_before(span.bytes, from);
            utf8_decode(span.bytes + before, from - before, &code);
            if (before < done || !unicode_is_space(code)) break;
            from = before;
        }
        while (added->flags & ADDED_RSTRIP && to < span.n) {
            size_t n = utf8_decode(span.bytes + to, span.n - to, &code);
            if (n == 0 || !unicode_is_space(code)) break;
            to += n;
        }
        if (encode_rest(run, span, done, from, span.glued && done == 0, rest) != STATUS_OK ||
            run_push(run, added->id) != STATUS_OK)
            return STATUS_FAILED;
        done = to;
    }
    return encode_rest(run, span, done, span.n, span.glued && done == 0, rest);
}

/* ---- Encoding ---- */

/* A byte that is no part of a character: its byte token, or U+FFFD. */
static Status encode_bad_bytes(Run *run, const char *text, size_t n) {
    const Tokenizer *t = run->tokenizer;
    if (t->bytes && t->bytes[(uint8_t)text[0]] < t->header->n_tokens) {
        for (size_t i = 0; i < n; i++) {
            uint32_t id = t->bytes[(uint8_t)text[i]];
            if (id < t->header->n_tokens && run_push(run, id) != STATUS_OK) return STATUS_FAILED;
        }
        return STATUS_OK;
    }
    return encode_raw(run, (Span){"\xEF\xBF\xBD", NULL, 3, false, true});
}

static Status encode_text(Run *run, const char *text, size_t length, const uint8_t *marks) {
    bool glued = false;
    for (size_t at = 0; at < length;) {
        size_t n = utf8_valid_prefix(text + at, length - at);
        Span span = {text + at, marks ? marks + at : NULL, n, at == 0, glued};
        if (n > 0 && encode_added(run, &run->tokenizer->added_raw, span, encode_raw) != STATUS_OK)
            return STATUS_FAILED;
        if ((at += n) == length) break;
        size_t bad = utf8_bad_length(text + at, length - at);
        if (encode_bad_bytes(run, text + at, bad) != STATUS_OK) return STATUS_FAILED;
        at += bad;
        glued = true;
    }
    return STATUS_OK;
}

static Status push_part(Run *run, int which) {
    const int32_t *ids = part(run->tokenizer, which);
    size_t n = part_count(run->tokenizer, which, sizeof *ids);
    for (size_t i = 0; i < n; i++)
        if (run_push(run, (uint32_t)ids[i]) != STATUS_OK) return STATUS_FAILED;
    return STATUS_OK;
}

Status tokenizer_encode(Tokenizer *t, const char *text, size_t length, const uint8_t *from_template,
                        unsigned flags, TokenList *out, Error *error) {
    Scratch *scratch = scratch_borrow(t);
    if (!scratch) return no_memory(error);
    Run run = {t, scratch, out, error, flags & TOKENIZE_PARSE_SPECIAL, ((size_t)1 << 20)};
    if (length < SIZE_MAX / 64 - run.limit) run.limit += 64 * length;
    Status status = flags & TOKENIZE_ADD_BOS ? push_part(&run, PART_PREFIX) : STATUS_OK;
    if (status == STATUS_OK) status = encode_text(&run, text, length, from_template);
    if (status == STATUS_OK && flags & TOKENIZE_ADD_EOS) status = push_part(&run, PART_SUFFIX);
    scratch_return(t, scratch);
    return status;
}

Status tokenizer_normalize(Tokenizer *t, const char *text, size_t length, char **out,
                           size_t *out_length, Error *error) {
    Scratch *scratch = scratch_borrow(t);
    if (!scratch) return no_memory(error);
    Run run = {.tokenizer = t, .scratch = scratch, .error = error};
    Span span = {text, NULL, utf8_valid_prefix(text, length), true, false};
    Text copy = {0};
    Status status = normalize(&run, &span);
    if (status == STATUS_OK) text_put(&copy, span.bytes, span.n, 0);
    scratch_return(t, scratch);
    if (status == STATUS_OK && copy.failed) status = no_memory(error);
    *out = copy.bytes;
    *out_length = copy.length;
    return status;
}

/* ---- What a tokenizer says about itself ---- */

size_t tokenizer_vocab_size(const Tokenizer *t) {
    return t->header->n_tokens;
}

int32_t tokenizer_bos(const Tokenizer *t) {
    return t->header->bos_id;
}

const int32_t *tokenizer_eos(const Tokenizer *t, size_t *count) {
    *count = part_count(t, PART_EOS, sizeof(int32_t));
    return part(t, PART_EOS);
}

bool tokenizer_adds_bos(const Tokenizer *t) {
    return part(t, PART_PREFIX) != NULL;
}
bool tokenizer_adds_eos(const Tokenizer *t) {
    return part(t, PART_SUFFIX) != NULL;
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

/* ---- Decoding ---- */

static void decoder_restart(TokenDecoder *d) {
    const Tokenizer *t = d->tokenizer;
    bool strips = t->n_steps[2] > 0 && t->steps[2]->op == DECODE_STRIP;
    d->at_start = !(d->flags & TOKEN_DECODER_CONTINUE);
    d->strip_left = strips && d->at_start ? t->steps[2]->flags & 0xFFFF : 0;
    d->held_id = -1;
    d->length = d->given = 0;
}

void token_decoder_init(TokenDecoder *d, const Tokenizer *tokenizer, unsigned flags) {
    *d = (TokenDecoder){.tokenizer = tokenizer, .flags = flags};
    decoder_restart(d);
}

void token_decoder_free(TokenDecoder *d) {
    free(d->bytes);
    *d = (TokenDecoder){0};
}

static Status decoder_append(TokenDecoder *d, const char *bytes, size_t n, Error *error) {
    if (d->capacity - d->length < n + 1) {
        size_t capacity = (d->length + n + 64) * 2;
        char *grown = realloc(d->bytes, capacity);
        if (!grown) return no_memory(error);
        d->bytes = grown;
        d->capacity = capacity;
    }
    memcpy(d->bytes + d->length, bytes, n);
    d->length += n;
    return STATUS_OK;
}

/* Appends the text of one token; what is stripped at the start may span several. */
static Status decode_token(TokenDecoder *d, int32_t id, bool last, Error *error) {
    const Tokenizer *t = d->tokenizer;
    uint32_t variants = t->header->decode_variants;
    uint32_t variant = ((d->at_start ? 1 : 0) | (last ? 2 : 0)) & (variants - 1);
    size_t n, strip = 0;
    const char *text =
        section_text(t, t->decode[(size_t)variant * t->header->n_tokens + (uint32_t)id], &n);
    d->at_start = false;
    if (d->strip_left > 0 && n > 0 && !t->holds_text) {
        const char *character = section_text(t, t->steps[2]->a, &strip);
        while (d->strip_left > 0 && strip > 0 && n >= strip && memcmp(text, character, strip) == 0)
            text += strip, n -= strip, d->strip_left--;
        if (n > 0) d->strip_left = 0;
    }
    if (t->header->flags & SECTION_STRIP_AFTER_BOS && id == t->header->bos_id && t->n_steps[2])
        d->strip_left = t->steps[2]->flags & 0xFFFF;
    return decoder_append(d, text, n, error);
}

/* Replaces what is not UTF-8 in [given, *end) by U+FFFD. */
static Status decoder_sanitize(TokenDecoder *d, size_t *end, Error *error) {
    size_t at = d->given + utf8_valid_prefix(d->bytes + d->given, *end - d->given);
    while (at < *end) {
        size_t bad = utf8_bad_length(d->bytes + at, *end - at), tail = d->length - at - bad;
        if (decoder_append(d, "\0\0\0", 3, error) != STATUS_OK) return STATUS_FAILED;
        memmove(d->bytes + at + 3, d->bytes + at + bad, tail);
        memcpy(d->bytes + at, "\xEF\xBF\xBD", 3);
        d->length -= bad;
        *end = *end + 3 - bad;
        at += 3;
        at += utf8_valid_prefix(d->bytes + at, *end - at);
    }
    return STATUS_OK;
}

/* Gives [given, end) to the caller. */
static Status decoder_give(TokenDecoder *d, size_t end, const char **bytes, size_t *length,
                           Error *error) {
    if (d->flags & TOKEN_DECODER_LOSSY && end > d->given &&
        decoder_sanitize(d, &end, error) != STATUS_OK)
        return STATUS_FAILED;
    *bytes = d->bytes ? d->bytes + d->given : "";
    *length = end - d->given;
    d->given = end;
    return STATUS_OK;
}

Status token_decoder_push(TokenDecoder *d, int32_t id, const char **bytes, size_t *length,
                          Error *error) {
    const Tokenizer *t = d->tokenizer;
    *bytes = "";
    *length = 0;
    if (id < 0 || (uint32_t)id >= t->header->n_tokens)
        return error_set(error, "token %d is outside the vocabulary of %u", id,
                         t->header->n_tokens);
    if (d->given > 0) { /* what was given is gone */
        memmove(d->bytes, d->bytes + d->given, d->length - d->given);
        d->length -= d->given;
        d->given = 0;
    }
    if (d->flags & TOKEN_DECODER_SKIP_SPECIAL && tokenizer_is_special(t, id)) {
        if (t->header->flags & SECTION_STRIP_AFTER_BOS && id == t->header->bos_id && t->n_steps[2])
            d->strip_left = t->steps[2]->flags & 0xFFFF;
        return STATUS_OK;
    }
    if (t->header->decode_variants > 2) { /* the last token differs: one behind */
        int32_t held = d->held_id;
        d->held_id = id;
        id = held;
    }
    if (id >= 0 && decode_token(d, id, false, error) != STATUS_OK) return STATUS_FAILED;
    if (t->holds_text) return STATUS_OK;
    return decoder_give(d, d->length - utf8_incomplete_tail(d->bytes, d->length), bytes, length,
                        error);
}

/* The steps that look at the whole text. */
static Status decode_whole(TokenDecoder *d, Error *error) {
    const Tokenizer *t = d->tokenizer;
    for (size_t i = 0; i < t->n_steps[2]; i++) {
        const StepRecord *step = &t->steps[2][i];
        size_t n, by_length, from = 0, to = d->length;
        const char *a = section_text(t, step->a, &n), *by = section_text(t, step->b, &by_length);
        if (step->op == DECODE_STRIP) {
            uint32_t left = d->flags & TOKEN_DECODER_CONTINUE ? 0 : step->flags & 0xFFFF;
            for (; n > 0 && left > 0 && to - from >= n && !memcmp(d->bytes + from, a, n); left--)
                from += n;
            for (uint32_t right = step->flags >> 16;
                 n > 0 && right > 0 && to - from >= n && !memcmp(d->bytes + to - n, a, n); right--)
                to -= n;
            if (to > from) memmove(d->bytes, d->bytes + from, to - from);
            d->length = to - from;
            continue;
        }
        if (decoder_sanitize(d, &(size_t){d->length}, error) != STATUS_OK) return STATUS_FAILED;
        Text out = {0};
        Scratch *scratch = scratch_new();
        Status status = scratch ? replace_pattern(scratch, t->patterns[2][i], &out, d->bytes,
                                                  d->length, NULL, by, by_length, error)
                                : no_memory(error);
        if (scratch) scratch_free(scratch);
        d->length = 0;
        if (status == STATUS_OK)
            status = decoder_append(d, out.bytes ? out.bytes : "", out.length, error);
        text_free(&out);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

Status token_decoder_flush(TokenDecoder *d, const char **bytes, size_t *length, Error *error) {
    *bytes = "";
    *length = 0;
    if (d->held_id >= 0 && decode_token(d, d->held_id, true, error) != STATUS_OK)
        return STATUS_FAILED;
    if (d->tokenizer->holds_text && d->length && decode_whole(d, error) != STATUS_OK)
        return STATUS_FAILED;
    Status status = decoder_give(d, d->length, bytes, length, error);
    decoder_restart(d);
    return status;
}

Status tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, unsigned flags,
                        char **text, size_t *length, Error *error) {
    TokenDecoder decoder;
    Text out = {0};
    const char *bytes;
    size_t given;
    Status status = STATUS_OK;
    token_decoder_init(&decoder, t, flags);
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        status = token_decoder_push(&decoder, ids[i], &bytes, &given, error);
        if (status == STATUS_OK) text_put(&out, bytes, given, 0);
    }
    if (status == STATUS_OK) status = token_decoder_flush(&decoder, &bytes, &given, error);
    if (status == STATUS_OK) text_put(&out, bytes, given, 0);
    text_put(&out, "", 1, 0);
    token_decoder_free(&decoder);
    if (status == STATUS_OK && out.failed) status = no_memory(error);
    if (status != STATUS_OK) {
        text_free(&out);
        return status;
    }
    *text = out.bytes;
    *length = out.length - 1;
    return STATUS_OK;
}
