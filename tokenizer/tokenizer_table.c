/* The tokenizer's section: look-ups, checks, and the pool of scratch areas. */
#include "tokenizer/tokenizer_table.h"

#include <string.h>
#include <strings.h>

#include "base/unicode.h"
#include "tokenizer/characters.h"

/* ---- Look-ups ---- */

const void *table_section_part(const Tokenizer *t, int part) {
    const SectionPart *p = &t->header->parts[part];
    return p->length ? t->base + p->offset : NULL;
}

size_t table_section_count(const Tokenizer *t, int part, size_t item) {
    return t->header->parts[part].length / item;
}

const char *table_section_text(const Tokenizer *t, TextRange range, size_t *length) {
    const SectionPart *part = &t->header->parts[PART_TEXT];
    bool inside = range.offset <= part->length && range.length <= part->length - range.offset;
    *length = inside ? range.length : 0;
    return inside ? t->base + part->offset + range.offset : "";
}

bool table_section_text_is(const Tokenizer *t, TextRange range, const char *text, size_t length) {
    size_t n;
    const char *bytes = table_section_text(t, range, &n);
    return n == length && memcmp(bytes, text, n) == 0;
}

const PairSlot *table_find_pair(const PairTable *table, uint32_t a, uint32_t b) {
    if (!table->slots) return NULL;
    uint32_t at = section_mix(a, b);
    for (int probe = 0; probe < PAIR_PROBES; probe++, at++) {
        const PairSlot *slot = &table->slots[at & table->mask];
        if (slot->x == TOKENIZER_NONE) return NULL;
        if (slot->a == a && slot->b == b) return slot;
    }
    return NULL;
}

uint32_t table_find_vocab(const Tokenizer *t, const char *key, size_t length) {
    uint32_t at = (uint32_t)section_hash(key, length);
    for (int probe = 0; probe < PAIR_PROBES; probe++, at++) {
        uint32_t id = t->vocab[at & t->vocab_mask];
        if (id >= t->header->n_symbols) return TOKENIZER_NONE;
        if (table_section_text_is(t, t->tokens[id].text, key, length)) return id;
    }
    return TOKENIZER_NONE;
}

/* ---- Checks ---- */

static const char *check_header(const SectionHeader *h) {
    uint32_t variants = h->decode_variants;
    if (h->n_tokens > h->n_symbols || h->n_symbols > INT32_MAX) return "token count";
    if (h->unk_id < -1 || h->unk_id >= (int64_t)h->n_tokens) return "unknown token";
    if (h->bos_id < -1 || h->bos_id >= (int64_t)h->n_tokens) return "first token";
    if (h->model >= MODEL_COUNT) return "model";
    if (h->max_key > SECTION_MAX_PIECE || h->max_added > SECTION_MAX_ADDED) return "lengths";
    if (h->subword_prefix.length > SECTION_MAX_AFFIX || h->word_suffix.length > SECTION_MAX_AFFIX)
        return "affixes";
    if (variants != 1 && variants != 2 && variants != 4) return "variants";
    if (h->flags & SECTION_UNMAP && !(h->flags & SECTION_BYTE_LEVEL)) return "flags";
    return NULL;
}

/* Checks the sizes of the parts whose size follows from the header. */
static const char *check_sizes(const SectionHeader *h) {
    bool needs_bytes = h->flags & (SECTION_BYTE_LEVEL | SECTION_BYTE_FALLBACK);
    const struct {
        int part;
        bool may_be_empty;
        uint64_t items, item;
        const char *name;
    } sizes[] = {
        {PART_TOKENS, false, h->n_symbols, sizeof(TokenRecord), "tokens"},
        {PART_DECODE, false, (uint64_t)h->n_tokens * h->decode_variants, sizeof(TextRange),
         "decoded texts"},
        {PART_BYTES, !needs_bytes, 256, sizeof(uint32_t), "byte table"},
        {PART_CUTS, true, 8192, 1, "cuts"},
        {PART_SCORES, false, h->model == MODEL_UNIGRAM ? h->n_tokens : 0, sizeof(double), "scores"},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t length = h->parts[sizes[i].part].length;
        bool empty = length == 0 && sizes[i].may_be_empty;
        if (!empty && length != sizes[i].items * sizes[i].item) return sizes[i].name;
    }
    return NULL;
}

/* Checks the length of a hash table, which must be a power of two of items or zero, and sets *mask
 * for look-ups. */
static bool open_table(const Tokenizer *t, int part, size_t item, uint32_t *mask) {
    uint64_t length = t->header->parts[part].length, n = length / item;
    *mask = (uint32_t)(n - 1);
    return length % item == 0 && n <= UINT32_MAX && (n & (n - 1)) == 0;
}

static bool open_pairs(const Tokenizer *t, int part, PairTable *table) {
    table->slots = table_section_part(t, part);
    return open_table(t, part, sizeof *table->slots, &table->mask);
}

static bool open_trie(const Tokenizer *t, int part, Trie *trie) {
    if (!open_pairs(t, part, &trie->table)) return false;
    for (uint32_t byte = 0; byte < 256; byte++)
        trie->starts[byte] = table_find_pair(&trie->table, 0, byte) != NULL;
    return true;
}

static bool open_added(Tokenizer *t) {
    t->added = table_section_part(t, PART_ADDED);
    t->n_added = table_section_count(t, PART_ADDED, sizeof *t->added);
    for (size_t i = 0; i < t->n_added; i++) {
        uint32_t id = t->added[i].id;
        if (id >= t->header->n_tokens) return false;
        if (t->tokens[id].flags & TOKEN_SPECIAL && !(t->added[i].flags & ADDED_SPECIAL))
            return false;
    }
    return t->header->parts[PART_ADDED].length % sizeof *t->added == 0 &&
           t->n_added <= t->header->n_tokens && open_trie(t, PART_ADDED_RAW, &t->added_raw) &&
           open_trie(t, PART_ADDED_NORM, &t->added_norm);
}

static bool ids_fit(const Tokenizer *t, int part) {
    const int32_t *ids = table_section_part(t, part);
    size_t n = table_section_count(t, part, sizeof *ids);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= t->header->n_tokens) return false;
    return t->header->parts[part].length % sizeof *ids == 0 && n <= 1024;
}

static bool ids_hold(const Tokenizer *t, int part, int32_t id) {
    const int32_t *ids = table_section_part(t, part);
    for (size_t i = 0; i < table_section_count(t, part, sizeof *ids); i++)
        if (ids[i] == id) return true;
    return false;
}

/* The token for unknown text: unk_id, unless that token is special and is not there for this. Some
 * vocabularies name the token that ends a text, which a user's text must not become. */
static int32_t find_unknown(const Tokenizer *t) {
    int32_t id = t->header->unk_id;
    if (id < 0 || !(t->tokens[id].flags & TOKEN_SPECIAL)) return id;
    size_t n;
    const char *name = table_section_text(t, t->tokens[id].text, &n);
    bool named = false;
    for (size_t i = 0; i + 3 <= n && !named; i++) named = strncasecmp(name + i, "unk", 3) == 0;
    bool other = id == t->header->bos_id || ids_hold(t, PART_EOS, id) ||
                 ids_hold(t, PART_PREFIX, id) || ids_hold(t, PART_SUFFIX, id);
    return named && !other ? id : -1;
}

const char *table_open(Tokenizer *t) {
    const char *damaged = check_header(t->header);
    if (!damaged) damaged = check_sizes(t->header);
    if (damaged) return damaged;
    t->tokens = table_section_part(t, PART_TOKENS);
    t->decode = table_section_part(t, PART_DECODE);
    t->bytes = table_section_part(t, PART_BYTES);
    t->cuts = t->header->flags & SECTION_BYTE_LEVEL ? NULL : table_section_part(t, PART_CUTS);
    t->scores = table_section_part(t, PART_SCORES);
    t->vocab = table_section_part(t, PART_VOCAB);
    if (!t->vocab || !open_table(t, PART_VOCAB, sizeof *t->vocab, &t->vocab_mask))
        return "vocabulary";
    if (!ids_fit(t, PART_PREFIX) || !ids_fit(t, PART_SUFFIX) || !ids_fit(t, PART_EOS))
        return "special ids";
    t->unknown = find_unknown(t);
    if (!open_added(t)) return "added tokens";
    if (!open_pairs(t, PART_PAIRS, &t->pairs)) return "merges";
    if (!open_pairs(t, PART_PIECES, &t->pieces)) return "pieces";
    const void *charsmap = table_section_part(t, PART_CHARSMAP);
    t->charsmap = charsmap;
    t->charsmap_bytes = t->header->parts[PART_CHARSMAP].length;
    if (charsmap && !characters.charsmap_is_sound(charsmap, t->charsmap_bytes))
        return "character map";
    for (int c = 0; c < 128; c++) t->ascii[c] = table_find_vocab(t, &(char){(char)c}, 1);
    return NULL;
}

/* ---- One encoding ---- */

Status table_no_memory(Error *error) {
    return error_set(error, "tokenizer: out of memory");
}

Status table_push_id(Encoding *e, uint32_t id) {
    if (token_list_push(e->out, (int32_t)id)) return STATUS_OK;
    return error_set(e->error, "tokenizer: no memory for %zu ids", e->out->length + 1);
}

Status table_push_text_id(Encoding *e, uint32_t id) {
    const Tokenizer *t = e->tokenizer;
    if (id >= t->header->n_tokens) return STATUS_OK;
    bool special = t->tokens[id].flags & TOKEN_SPECIAL && (int32_t)id != t->unknown;
    return special ? STATUS_OK : table_push_id(e, id);
}

bool table_knows_all_bytes(const Tokenizer *t, const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (t->bytes[(uint8_t)bytes[i]] >= t->header->n_symbols) return false;
    return true;
}

Status table_push_unknown(Encoding *e, const char *bytes, size_t n, bool fuse) {
    const Tokenizer *t = e->tokenizer;
    if (t->header->flags & SECTION_BYTE_FALLBACK && table_knows_all_bytes(t, bytes, n)) {
        for (size_t i = 0; i < n; i++)
            if (table_push_text_id(e, t->bytes[(uint8_t)bytes[i]]) != STATUS_OK)
                return STATUS_FAILED;
        return STATUS_OK;
    }
    if (t->unknown < 0 || (fuse && t->header->flags & SECTION_FUSE_UNK)) return STATUS_OK;
    return table_push_text_id(e, (uint32_t)t->unknown);
}

size_t table_find_added(const Encoding *e, const Trie *trie, TextSpan span, size_t at, bool any,
                        uint32_t *index) {
    const Tokenizer *t = e->tokenizer;
    size_t longest = 0, end = span.length;
    uint32_t node = 0;
    bool special_counts = true;
    if (utf8_continues(span.bytes[at])) return 0;
    if (end - at > t->header->max_added) end = at + t->header->max_added;
    for (size_t i = at; i < end; i++) {
        const PairSlot *slot = table_find_pair(&trie->table, node, (uint8_t)span.bytes[i]);
        if (!slot) break;
        node = slot->x;
        special_counts =
            special_counts && (e->parse_special || (span.from_template && span.from_template[i]));
        bool cuts_character = i + 1 < span.length && utf8_continues(span.bytes[i + 1]);
        if (cuts_character || slot->y >= t->n_added) continue;
        uint32_t flags = t->added[slot->y].flags;
        if (!any && (flags & ADDED_IN_MODEL || (flags & ADDED_SPECIAL && !special_counts)))
            continue;
        longest = i + 1 - at;
        *index = slot->y;
    }
    return longest;
}
