/* One word to ids: BPE and WordLevel, as the tokenizers library and SentencePiece define them
 * (Unigram: tokenizer/unigram.c). BPE takes time proportional to n log n in a word's length. */
#include "tokenizer/tokenizer_model.h"

#include <string.h>

#include "base/unicode.h"
#include "tokenizer/scratch.h"
#include "tokenizer/tokenizer_table.h"
#include "tokenizer/unigram.h"

/* ---- BPE: the first symbols ---- */

/* A part of the word: a byte or a character at first, later what merges have made. */
typedef struct Symbol {
    uint32_t id;         /* TOKENIZER_NONE once merged into its left neighbour */
    uint32_t prev, next; /* indices of the neighbours; TOKENIZER_NONE at the ends */
    uint32_t rank;       /* of the merge with the next symbol; TOKENIZER_NONE: there is none */
    uint32_t into;       /* the token that this merge gives */
    uint32_t start, end; /* bytes of the word */
} Symbol;

typedef struct Word {
    const char *bytes;
    size_t length;
    Symbol *symbols;
    uint32_t n;
    bool holds_unknown; /* an unknown token for the bytes from unknown_start on is due */
    size_t unknown_start;
} Word;

static void add_symbol(Word *word, uint32_t id, size_t start, size_t end) {
    word->symbols[word->n++] = (Symbol){.id = id, .start = (uint32_t)start, .end = (uint32_t)end};
}

/* Adds the unknown token that hold_unknown keeps back. The tokenizers library adds it only before
 * the next known character, so that byte tokens in between come first. */
static void release_unknown(const Tokenizer *t, Word *word, size_t end) {
    if (word->holds_unknown) add_symbol(word, (uint32_t)t->unknown, word->unknown_start, end);
    word->holds_unknown = false;
}

static void hold_unknown(const Tokenizer *t, Word *word, size_t start) {
    if (!(t->header->flags & SECTION_FUSE_UNK)) release_unknown(t, word, start);
    if (!word->holds_unknown) word->unknown_start = start;
    word->holds_unknown = true;
}

/* The vocabulary key of a character. Some vocabularies put a prefix before all characters of a word
 * but the first, and a suffix after the last. Empty when memory is short. */
static TextSpan character_key(Encoding *e, const Word *word, size_t at, size_t length) {
    const Tokenizer *t = e->tokenizer;
    TextRange prefix = t->header->subword_prefix, suffix = t->header->word_suffix;
    TextBuffer *text = &e->scratch->word;
    TextSpan key = {.bytes = word->bytes + at, .length = length};
    size_t n;
    if (at == 0) prefix.length = 0;
    if (at + length < word->length) suffix.length = 0;
    if (prefix.length == 0 && suffix.length == 0) return key;
    text->length = 0;
    const char *bytes = table_section_text(t, prefix, &n);
    text_put(text, bytes, n, 0);
    text_put(text, key.bytes, length, 0);
    bytes = table_section_text(t, suffix, &n);
    text_put(text, bytes, n, 0);
    if (text->failed) return (TextSpan){.bytes = ""};
    return (TextSpan){.bytes = text->bytes, .length = text->length};
}

static uint32_t key_symbol(const Tokenizer *t, TextSpan key) {
    bool ascii = key.length == 1 && (uint8_t)key.bytes[0] < 0x80;
    return ascii ? t->ascii[(uint8_t)key.bytes[0]] : table_find_vocab(t, key.bytes, key.length);
}

/* Fills word->symbols with what merging starts from: the symbol of each byte or character. An
 * unknown character gives byte tokens, or the unknown token, or nothing. */
static void first_symbols(Encoding *e, Word *word) {
    const Tokenizer *t = e->tokenizer;
    bool byte_level = t->header->flags & SECTION_BYTE_LEVEL;
    bool byte_fallback = !byte_level && t->header->flags & SECTION_BYTE_FALLBACK;
    for (size_t at = 0, length; at < word->length; at += length) {
        const char *bytes = word->bytes + at;
        uint32_t code;
        length = byte_level ? 1 : utf8_next(bytes, word->length - at, &code);
        TextSpan key = byte_level ? (TextSpan){.bytes = bytes, .length = 1}
                                  : character_key(e, word, at, length);
        uint32_t id = byte_level ? t->bytes[(uint8_t)*bytes] : key_symbol(t, key);
        if (id < t->header->n_symbols) {
            release_unknown(t, word, at);
            add_symbol(word, id, at, at + length);
        } else if (byte_fallback && table_knows_all_bytes(t, key.bytes, key.length)) {
            for (size_t i = 0; i < key.length; i++)
                add_symbol(word, t->bytes[(uint8_t)key.bytes[i]], at, at + length);
        } else if (t->unknown >= 0) {
            hold_unknown(t, word, at);
        }
    }
    release_unknown(t, word, word->length);
}

/* ---- BPE: merging ---- */

static void find_merge(const Tokenizer *t, Word *word, uint32_t i) {
    Symbol *symbol = &word->symbols[i];
    const PairSlot *slot =
        symbol->next == TOKENIZER_NONE
            ? NULL
            : table_find_pair(&t->pairs, symbol->id, word->symbols[symbol->next].id);
    symbol->rank = slot && slot->y < t->header->n_symbols ? slot->x : TOKENIZER_NONE;
    symbol->into = slot ? slot->y : 0;
}

/* Merges symbol i with its right neighbour. */
static void merge(const Tokenizer *t, Word *word, uint32_t i) {
    Symbol *left = &word->symbols[i], *right = &word->symbols[left->next];
    left->id = left->into;
    left->end = right->end;
    left->next = right->next;
    right->id = TOKENIZER_NONE;
    right->rank = TOKENIZER_NONE;
    if (left->next != TOKENIZER_NONE) word->symbols[left->next].prev = i;
    find_merge(t, word, i);
    if (left->prev != TOKENIZER_NONE) find_merge(t, word, left->prev);
}

/* Merges the pair with the lowest rank again and again, the leftmost first. Quick for short words.
 */
static void merge_short(const Tokenizer *t, Word *word) {
    for (;;) {
        uint32_t best = TOKENIZER_NONE, at = 0;
        for (uint32_t i = 0; i != TOKENIZER_NONE; i = word->symbols[i].next)
            if (word->symbols[i].rank < best) best = word->symbols[i].rank, at = i;
        if (best == TOKENIZER_NONE) return;
        merge(t, word, at);
    }
}

/* A binary heap of merges. */
typedef struct Heap {
    uint64_t *keys; /* rank << 32 | index of the symbol; the least first */
    size_t n;
} Heap;

static void heap_push(Heap *heap, const Word *word, uint32_t i) {
    if (i == TOKENIZER_NONE || word->symbols[i].rank == TOKENIZER_NONE) return;
    uint64_t key = (uint64_t)word->symbols[i].rank << 32 | i;
    size_t at = heap->n++;
    for (; at > 0 && heap->keys[(at - 1) / 2] > key; at = (at - 1) / 2)
        heap->keys[at] = heap->keys[(at - 1) / 2];
    heap->keys[at] = key;
}

static uint64_t heap_pop(Heap *heap) {
    uint64_t top = heap->keys[0], key = heap->keys[--heap->n];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < heap->n; at = child) {
        if (child + 1 < heap->n && heap->keys[child + 1] < heap->keys[child]) child++;
        if (heap->keys[child] >= key) break;
        heap->keys[at] = heap->keys[child];
    }
    heap->keys[at] = key;
    return top;
}

/* Does the same for a long word in n log n steps, with a heap of possible merges. An entry is stale
 * when its symbol is gone or has another merge by now. Each merge pushes two entries, so room[3n]
 * holds all that are ever pushed. */
static void merge_long(const Tokenizer *t, Word *word, uint64_t *room) {
    Heap heap = {room, 0};
    for (uint32_t i = 0; i < word->n; i++) heap_push(&heap, word, i);
    while (heap.n > 0) {
        uint64_t top = heap_pop(&heap);
        uint32_t i = (uint32_t)top;
        if (word->symbols[i].rank != top >> 32) continue;
        merge(t, word, i);
        heap_push(&heap, word, i);
        heap_push(&heap, word, word->symbols[i].prev);
    }
}

/* ---- BPE: a word ---- */

/* Encodes a word by byte-pair encoding: splits it into first symbols, then merges the pair of
 * lowest rank, the leftmost first, until no pair merges. Short words scan all pairs for it, long
 * ones keep a heap. */
static Status encode_bpe(Encoding *e, const char *bytes, size_t length) {
    const Tokenizer *t = e->tokenizer;
    Scratch *s = e->scratch;
    if (t->header->flags & SECTION_IGNORE_MERGES) {
        uint32_t id = table_find_vocab(t, bytes, length);
        if (id < t->header->n_tokens) return table_push_text_id(e, id);
    }
    /* At most one symbol a byte, and byte tokens of the affixes on top. */
    size_t most = length + 1;
    if (t->header->flags & SECTION_BYTE_FALLBACK)
        most += t->header->subword_prefix.length * length + t->header->word_suffix.length;
    if (most >= TOKENIZER_NONE / 4 ||
        !array_reserve(&s->symbols, &s->symbols_capacity, most, sizeof *s->symbols) ||
        !array_reserve(&s->heap, &s->heap_capacity, 3 * most, sizeof *s->heap))
        return error_set(e->error, "tokenizer: no memory for a word of %zu bytes", length);
    Word word = {.bytes = bytes, .length = length, .symbols = s->symbols};
    first_symbols(e, &word);
    if (s->word.failed) return table_no_memory(e->error);
    if (word.n == 0) return STATUS_OK;
    for (uint32_t i = 0; i < word.n; i++) {
        word.symbols[i].prev = i > 0 ? i - 1 : TOKENIZER_NONE;
        word.symbols[i].next = i + 1 < word.n ? i + 1 : TOKENIZER_NONE;
        find_merge(t, &word, i);
    }
    if (word.n > 40)
        merge_long(t, &word, s->heap);
    else
        merge_short(t, &word);
    bool after_unknown = false;
    for (uint32_t i = 0; i != TOKENIZER_NONE; i = word.symbols[i].next) {
        const Symbol *symbol = &word.symbols[i];
        bool token = symbol->id < t->header->n_tokens; /* or a character that only merges know */
        Status status = token ? table_push_text_id(e, symbol->id)
                              : table_push_unknown(e, bytes + symbol->start,
                                                   symbol->end - symbol->start, after_unknown);
        if (status != STATUS_OK) return status;
        after_unknown = !token || (int32_t)symbol->id == t->unknown;
    }
    return STATUS_OK;
}

/* Does the same as encode_bpe, with a cache: each slot keeps the ids of the last short word that
 * hashed to it. */
static Status encode_bpe_cached(Encoding *e, const char *bytes, size_t length) {
    if (length > sizeof((CachedWord *)0)->bytes) return encode_bpe(e, bytes, length);
    uint64_t hash = section_hash(bytes, length);
    CachedWord *slot = &e->scratch->cache[hash & (CACHE_SLOTS - 1)];
    if (slot->hash == hash && slot->length == length && memcmp(slot->bytes, bytes, length) == 0) {
        for (size_t i = 0; i < slot->n_ids; i++)
            if (table_push_id(e, (uint32_t)slot->ids[i]) != STATUS_OK) return STATUS_FAILED;
        return STATUS_OK;
    }
    size_t before = e->out->length;
    Status status = encode_bpe(e, bytes, length);
    size_t n = e->out->length - before;
    if (status == STATUS_OK && n <= sizeof slot->ids / sizeof *slot->ids) {
        *slot = (CachedWord){.hash = hash, .length = (uint8_t)length, .n_ids = (uint8_t)n};
        memcpy(slot->bytes, bytes, length);
        if (n) memcpy(slot->ids, e->out->ids + before, n * sizeof *slot->ids);
    }
    return status;
}

/* Cuts the word wherever PART_CUTS says that no merge joins the characters left and right, and
 * encodes the parts. No id changes, but a whole text, which is one word to SentencePiece, becomes
 * short words that the cache knows. The table is indexed by the left character's last byte and the
 * right one's first byte, with 0xFF for U+2581. */
static Status encode_bpe_cut(Encoding *e, const char *bytes, size_t length) {
    const uint8_t *cuts = e->tokenizer->cuts;
    size_t start = 0;
    uint8_t last = 0;
    for (size_t at = 0, n; at < length; at += n) {
        uint8_t byte = (uint8_t)bytes[at];
        n = utf8_length(bytes[at]);
        if (n > length - at) n = length - at;
        bool space = n == 3 && memcmp(bytes + at, "\xE2\x96\x81", 3) == 0;
        uint8_t first = space ? 0xFF : byte;
        if (at > start && !(cuts[last * 32u + first / 8u] >> (first & 7) & 1)) {
            if (encode_bpe_cached(e, bytes + start, at - start) != STATUS_OK) return STATUS_FAILED;
            start = at;
        }
        last = space ? 0xFF : (uint8_t)bytes[at + n - 1];
    }
    return encode_bpe_cached(e, bytes + start, length - start);
}

/* ---- Any model ---- */

Status tokenizer_encode_word(Encoding *e, const char *word, size_t length) {
    const Tokenizer *t = e->tokenizer;
    if (t->header->model == MODEL_UNIGRAM) return unigram_encode(e, word, length);
    if (t->header->model == MODEL_BPE)
        return t->cuts ? encode_bpe_cut(e, word, length) : encode_bpe_cached(e, word, length);
    uint32_t id = table_find_vocab(t, word, length);
    if (id >= t->header->n_tokens) id = (uint32_t)t->unknown;
    if (id < t->header->n_tokens) return table_push_text_id(e, id);
    const size_t named = utf8_boundary(word, length, length < 40 ? length : 40);
    return error_set(
        e->error,
        "tokenizer: the word '%.*s%s' is not in the vocabulary and there is no unknown token",
        (int)named, word, named < length ? "..." : "");
}
