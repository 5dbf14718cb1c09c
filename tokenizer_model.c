/* One word to ids: BPE, Unigram, WordLevel, as the tokenizers library and SentencePiece define
 * them. Merging takes time linear in a word's length but for the heap's logarithm. */
#include "tokenizer_internal.h"
#include <stdlib.h>
#include <string.h>

/* Makes *buffer hold `count` items of `size` bytes. */
static bool grow(void **buffer, size_t *held, size_t count, size_t size) {
    size_t need;
    if (!size_mul(count, size, &need)) return false;
    if (need <= *held) return true;
    void *grown = realloc(*buffer, need + need / 4);
    if (!grown) return false;
    *buffer = grown;
    *held = need + need / 4;
    return true;
}

/* ---- BPE ---- */

/* A symbol of the word: a piece of it that merges have made so far. */
typedef struct Symbol {
    uint32_t id, prev, next; /* neighbours' indices; TOKENIZER_NONE at the ends, `id` when gone */
    uint32_t rank, into;     /* of the merge with the next symbol; rank TOKENIZER_NONE: none */
    uint32_t start, end;     /* bytes of the word */
    uint32_t padding;        /* to a multiple of 8 bytes */
} Symbol;

typedef struct Word {
    const char *bytes;
    size_t length;
    Symbol *symbols;
    uint32_t n;
} Word;

static void push_symbol(Word *word, uint32_t id, size_t start, size_t end) {
    word->symbols[word->n++] = (Symbol){.id = id, .start = (uint32_t)start, .end = (uint32_t)end};
}

/* The symbol of one character, with the prefix and suffix that some vocabularies write. */
static uint32_t character_symbol(Run *run, const Word *word, size_t at, size_t length,
                                 const char **key, size_t *key_length) {
    const Tokenizer *t = run->tokenizer;
    bool prefix = at > 0 && t->header->subword_prefix.length > 0;
    bool suffix = at + length == word->length && t->header->word_suffix.length > 0;
    *key = word->bytes + at;
    *key_length = length;
    if (prefix || suffix) {
        TextBuffer *text = &run->scratch->word;
        size_t n;
        const char *bytes = section_text(t, t->header->subword_prefix, &n);
        text->length = 0;
        if (prefix) text_put(text, bytes, n, 0);
        text_put(text, *key, length, 0);
        bytes = section_text(t, t->header->word_suffix, &n);
        if (suffix) text_put(text, bytes, n, 0);
        if (text->failed) return TOKENIZER_NONE;
        *key = text->bytes;
        *key_length = text->length;
    } else if (length == 1 && (uint8_t) * *key < 0x80) {
        return t->ascii[(uint8_t) * *key];
    }
    return vocab_find(t, *key, *key_length);
}

static bool all_bytes_known(const Tokenizer *t, const char *key, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (t->bytes[(uint8_t)key[i]] >= t->header->n_symbols) return false;
    return true;
}

/* The symbols that merging starts from. Unknown characters are held back as in the library: the
 * unknown token comes before the next known character, but after byte tokens. */
static void first_symbols(Run *run, Word *word) {
    const Tokenizer *t = run->tokenizer;
    uint32_t flags = t->header->flags, unk = (uint32_t)t->header->unk_id;
    bool byte_level = flags & SECTION_BYTE_LEVEL, waiting = false;
    for (size_t at = 0, length, start = 0; at < word->length; at += length) {
        uint32_t code, id;
        const char *key = word->bytes + at;
        size_t key_length = length = 1;
        if (byte_level) {
            id = t->bytes[(uint8_t)*key];
        } else {
            if (!(length = utf8_decode(key, word->length - at, &code))) length = 1;
            id = character_symbol(run, word, at, length, &key, &key_length);
        }
        if (id < t->header->n_symbols) {
            if (waiting) push_symbol(word, unk, start, at);
            waiting = false;
            push_symbol(word, id, at, at + length);
        } else if (!byte_level && flags & SECTION_BYTE_FALLBACK &&
                   all_bytes_known(t, key, key_length)) {
            for (size_t i = 0; i < key_length; i++)
                push_symbol(word, t->bytes[(uint8_t)key[i]], at, at + length);
        } else if (t->header->unk_id >= 0) {
            if (waiting && !(flags & SECTION_FUSE_UNK)) push_symbol(word, unk, start, at);
            if (!waiting || !(flags & SECTION_FUSE_UNK)) start = at;
            waiting = true;
        }
    }
    if (waiting) push_symbol(word, unk, 0, word->length);
}

static void find_merge(const Tokenizer *t, Word *word, uint32_t i) {
    Symbol *symbol = &word->symbols[i];
    const PairSlot *slot = symbol->next == TOKENIZER_NONE
                               ? NULL
                               : pair_find(&t->pairs, symbol->id, word->symbols[symbol->next].id);
    symbol->rank = slot && slot->y < t->header->n_symbols ? slot->x : TOKENIZER_NONE;
    symbol->into = slot ? slot->y : 0;
}

/* Symbol i takes its right neighbour. */
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

/* For a short word: the lowest rank again and again, leftmost first. */
static void merge_short(const Tokenizer *t, Word *word) {
    for (;;) {
        uint32_t best = TOKENIZER_NONE, at = 0;
        for (uint32_t i = 0; i != TOKENIZER_NONE; i = word->symbols[i].next)
            if (word->symbols[i].rank < best) best = word->symbols[i].rank, at = i;
        if (best == TOKENIZER_NONE) return;
        merge(t, word, at);
    }
}

typedef struct Heap {
    uint64_t *keys; /* rank << 32 | index, the least first; four children a node */
    size_t n;
} Heap;

static void heap_down(Heap *heap, size_t i) {
    uint64_t key = heap->keys[i];
    for (;;) {
        size_t child = 4 * i + 1, least = child;
        if (child >= heap->n) break;
        for (size_t c = child + 1; c < child + 4 && c < heap->n; c++)
            if (heap->keys[c] < heap->keys[least]) least = c;
        if (heap->keys[least] >= key) break;
        heap->keys[i] = heap->keys[least];
        i = least;
    }
    heap->keys[i] = key;
}

static void heap_push(Heap *heap, const Word *word, uint32_t i) {
    if (word->symbols[i].rank == TOKENIZER_NONE) return;
    uint64_t key = (uint64_t)word->symbols[i].rank << 32 | i;
    size_t at = heap->n++;
    for (; at > 0 && heap->keys[(at - 1) / 4] > key; at = (at - 1) / 4)
        heap->keys[at] = heap->keys[(at - 1) / 4];
    heap->keys[at] = key;
}

/* For a long word: the same order from a heap. An entry is stale when its symbol is gone or has
 * another merge by now. Each merge pushes two entries, so 3n hold all that are ever pushed. */
static void merge_long(const Tokenizer *t, Word *word, uint64_t *room) {
    Heap heap = {room, 0};
    for (uint32_t i = 0; i < word->n; i++)
        if (word->symbols[i].rank != TOKENIZER_NONE)
            heap.keys[heap.n++] = (uint64_t)word->symbols[i].rank << 32 | i;
    for (size_t i = heap.n / 4 + 1; i-- > 0;)
        if (i < heap.n) heap_down(&heap, i);
    while (heap.n > 0) {
        uint64_t top = heap.keys[0];
        heap.keys[0] = heap.keys[--heap.n];
        if (heap.n > 0) heap_down(&heap, 0);
        uint32_t i = (uint32_t)top;
        if (word->symbols[i].id == TOKENIZER_NONE || word->symbols[i].rank != top >> 32 ||
            word->symbols[i].rank == TOKENIZER_NONE)
            continue;
        merge(t, word, i);
        heap_push(&heap, word, i);
        if (word->symbols[i].prev != TOKENIZER_NONE) heap_push(&heap, word, word->symbols[i].prev);
    }
}

/* A symbol that is no token (a character that only merges know) becomes bytes or unknown. */
static Status push_unknown(Run *run, const char *bytes, size_t n, bool fuse) {
    const Tokenizer *t = run->tokenizer;
    if (t->header->flags & SECTION_BYTE_FALLBACK && all_bytes_known(t, bytes, n)) {
        for (size_t i = 0; i < n; i++)
            if (run_push(run, t->bytes[(uint8_t)bytes[i]]) != STATUS_OK) return STATUS_FAILED;
        return STATUS_OK;
    }
    if (t->header->unk_id < 0 || (fuse && t->header->flags & SECTION_FUSE_UNK)) return STATUS_OK;
    return run_push(run, (uint32_t)t->header->unk_id);
}

static Status encode_bpe(Run *run, const char *bytes, size_t length) {
    const Tokenizer *t = run->tokenizer;
    Scratch *scratch = run->scratch;
    if (t->header->flags & SECTION_IGNORE_MERGES) {
        uint32_t id = vocab_find(t, bytes, length);
        if (id < t->header->n_tokens) return run_push(run, id);
    }
    /* One symbol a byte at most, but byte tokens of an affix may come on top. */
    size_t most = length + 1;
    if (t->header->flags & SECTION_BYTE_FALLBACK)
        most += t->header->subword_prefix.length * length + t->header->word_suffix.length;
    if (most >= TOKENIZER_NONE / 4 ||
        !grow(&scratch->symbols, &scratch->symbols_size, most, sizeof(Symbol) + 24))
        return error_set(run->error, "tokenizer: no memory for a word of %zu bytes", length);
    Word word = {bytes, length, scratch->symbols, 0};
    first_symbols(run, &word);
    if (scratch->word.failed) return error_set(run->error, "tokenizer: out of memory");
    for (uint32_t i = 0; i < word.n; i++) {
        word.symbols[i].prev = i > 0 ? i - 1 : TOKENIZER_NONE;
        word.symbols[i].next = i + 1 < word.n ? i + 1 : TOKENIZER_NONE;
    }
    for (uint32_t i = 0; i < word.n; i++) find_merge(t, &word, i);
    if (word.n > 40)
        merge_long(t, &word, (uint64_t *)(word.symbols + most));
    else if (word.n > 0)
        merge_short(t, &word);
    bool last_unknown = false;
    for (uint32_t i = word.n ? 0 : TOKENIZER_NONE; i != TOKENIZER_NONE; i = word.symbols[i].next) {
        const Symbol *symbol = &word.symbols[i];
        Status status = symbol->id < t->header->n_tokens
                            ? run_push(run, symbol->id)
                            : push_unknown(run, bytes + symbol->start, symbol->end - symbol->start,
                                           last_unknown);
        if (status != STATUS_OK) return status;
        last_unknown =
            symbol->id >= t->header->n_tokens || (int32_t)symbol->id == t->header->unk_id;
    }
    return STATUS_OK;
}

/* Many words come again and again: the last ids of each slot's word are kept. */
static Status encode_bpe_cached(Run *run, const char *bytes, size_t length) {
    CachedWord *slot = NULL;
    uint64_t hash = 0;
    if (length <= sizeof slot->bytes) {
        hash = section_hash(bytes, length);
        slot = &run->scratch->cache[hash & (CACHE_SLOTS - 1)];
        if (slot->hash == hash && slot->length == length &&
            memcmp(slot->bytes, bytes, length) == 0) {
            for (size_t i = 0; i < slot->n_ids; i++)
                if (run_push(run, (uint32_t)slot->ids[i]) != STATUS_OK) return STATUS_FAILED;
            return STATUS_OK;
        }
    }
    size_t before = run->out->length;
    Status status = encode_bpe(run, bytes, length);
    size_t n = run->out->length - before;
    if (status == STATUS_OK && slot && n <= sizeof slot->ids / sizeof *slot->ids) {
        slot->hash = hash;
        slot->length = (uint8_t)length;
        slot->n_ids = (uint8_t)n;
        memcpy(slot->bytes, bytes, length);
        if (n) memcpy(slot->ids, run->out->ids + before, n * sizeof *slot->ids);
    }
    return status;
}

/* Where no merge can join the characters left and right of a place, the word may be cut there
 * without changing a merge: so a text that SentencePiece would merge as one word goes in words.
 * A character's class is its byte at that side, or 0xFF for U+2581. */
static Status encode_bpe_cut(Run *run, const char *bytes, size_t length) {
    const uint8_t *cuts = run->tokenizer->cuts;
    size_t start = 0;
    uint8_t last = 0;
    for (size_t at = 0; at < length;) {
        uint8_t byte = (uint8_t)bytes[at];
        size_t n = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
        if (n > length - at) n = length - at;
        bool space = n == 3 && memcmp(bytes + at, "\xE2\x96\x81", 3) == 0;
        uint8_t first = space ? 0xFF : byte;
        if (at > start && !(cuts[last * 32u + first / 8u] >> (first & 7) & 1)) {
            if (encode_bpe_cached(run, bytes + start, at - start) != STATUS_OK)
                return STATUS_FAILED;
            start = at;
        }
        last = space ? 0xFF : (uint8_t)bytes[at + n - 1];
        at += n;
    }
    return encode_bpe_cached(run, bytes + start, length - start);
}

/* ---- Unigram ---- */

/* The best path that ends at a byte: its last piece and score; and once the best of all is known,
 * the piece of it that starts there. */
typedef struct Best {
    double score;
    uint32_t id, start; /* start TOKENIZER_NONE: no path ends here */
    uint32_t next_id, next_end;
} Best;

static void consider(const Tokenizer *t, Best *best, const Best *from, uint32_t start, uint32_t id,
                     double score) {
    bool in_float = t->header->flags & SECTION_SENTENCEPIECE;
    score += from->score;
    if (in_float && (int32_t)id == t->header->unk_id) score = (float)score;
    if (best->start != TOKENIZER_NONE && !(score > best->score)) return;
    *best = (Best){.score = in_float ? (float)score : score, .id = id, .start = start};
}

static Status unigram_piece(Run *run, const char *bytes, size_t n, uint32_t id) {
    const Tokenizer *t = run->tokenizer;
    if (id == TOKENIZER_NONE || (int32_t)id == t->header->unk_id) {
        /* The library looks up what it has fused: it may be a piece after all. */
        uint32_t whole =
            t->header->flags & SECTION_SENTENCEPIECE ? TOKENIZER_NONE : vocab_find(t, bytes, n);
        if (whole >= t->header->n_tokens) {
            if (t->header->unk_id < 0 && !(t->header->flags & SECTION_BYTE_FALLBACK))
                return error_set(run->error, "tokenizer: a character is not in the vocabulary "
                                             "and there is no unknown token");
            return push_unknown(run, bytes, n, false);
        }
        id = whole;
    }
    return run_push(run, id);
}

static Status encode_unigram(Run *run, const char *bytes, size_t length) {
    const Tokenizer *t = run->tokenizer;
    Scratch *scratch = run->scratch;
    if (length >= TOKENIZER_NONE ||
        !grow(&scratch->best, &scratch->best_size, length + 1, sizeof(Best)))
        return error_set(run->error, "tokenizer: no memory for a word of %zu bytes", length);
    Best *best = scratch->best;
    for (size_t i = 0; i <= length; i++) best[i] = (Best){.start = TOKENIZER_NONE};
    for (size_t at = 0, step; at < length; at += step) {
        uint32_t code, node = 0;
        bool single = false;
        if (!(step = utf8_decode(bytes + at, length - at, &code))) step = 1;
        for (size_t i = at; i < length && i - at < t->header->max_key; i++) {
            const PairSlot *slot = pair_find(&t->pieces.table, node, (uint8_t)bytes[i]);
            if (!slot) break;
            node = slot->x;
            if (slot->y >= t->header->n_tokens) continue;
            consider(t, &best[i + 1], &best[at], (uint32_t)at, slot->y, t->scores[slot->y]);
            single = single || i + 1 - at == step;
        }
        if (!single)
            consider(t, &best[at + step], &best[at], (uint32_t)at, (uint32_t)t->header->unk_id,
                     t->header->unk_score);
    }
    uint32_t unk = (uint32_t)t->header->unk_id;
    for (size_t end = length; end > 0;) { /* backwards; neighbouring unknowns become one piece */
        Best *last = &best[end], *first = &best[last->start < end ? last->start : 0];
        if (last->start >= end) return error_set(run->error, "tokenizer: damaged piece table");
        bool fuse = last->id == unk && end < length && last->next_id == unk;
        first->next_id = last->id;
        first->next_end = fuse ? last->next_end : (uint32_t)end;
        end = last->start;
    }
    for (size_t at = 0; at < length; at = best[at].next_end)
        if (unigram_piece(run, bytes + at, best[at].next_end - at, best[at].next_id) != STATUS_OK)
            return STATUS_FAILED;
    return STATUS_OK;
}

/* ---- Any model ---- */

Status encode_word(Run *run, const char *word, size_t length) {
    const Tokenizer *t = run->tokenizer;
    if (t->header->model == MODEL_UNIGRAM) return encode_unigram(run, word, length);
    if (t->header->model == MODEL_BPE)
        return t->cuts ? encode_bpe_cut(run, word, length) : encode_bpe_cached(run, word, length);
    uint32_t id = vocab_find(t, word, length);
    if (id >= t->header->n_tokens) id = (uint32_t)t->header->unk_id;
    if (id >= t->header->n_tokens)
        return error_set(
            run->error, "tokenizer: a word is not in the vocabulary and there is no unknown token");
    return run_push(run, id);
}
