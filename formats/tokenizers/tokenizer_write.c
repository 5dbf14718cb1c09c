#include "formats/tokenizers/tokenizer_write.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/unicode.h"
#include "formats/tokenizers/tokenizer_regex.h"
#include "tokenizer.h"
#include "tokenizer/scratch.h"
#include "tokenizer/tokenizer_normalize.h"
#include "tokenizer/tokenizer_pattern.h"
#include "tokenizer/tokenizer_table.h"

/* ---- Hash tables ---- */

typedef struct PairMap {
    PairSlot *slots;
    size_t size; /* a power of two */
    size_t n;
    bool failed;
    bool hash_flood; /* more than PAIR_PROBES pairs share their hash */
} PairMap;

static bool map_alloc(PairMap *map, size_t size) {
    map->slots = malloc(size * sizeof *map->slots);
    map->size = size;
    map->n = 0;
    if (!map->slots) return false;
    memset(map->slots, 0xFF, size * sizeof *map->slots);
    return true;
}

/* The slot of (a, b), which may be empty; NULL when all PAIR_PROBES slots where it may be are
 * taken. */
static PairSlot *map_slot(PairMap *map, uint32_t a, uint32_t b) {
    uint32_t at = section_mix(a, b);
    for (int probe = 0; probe < PAIR_PROBES; probe++, at++) {
        PairSlot *slot = &map->slots[at & (map->size - 1)];
        if (slot->x == TOKENIZER_NONE || (slot->a == a && slot->b == b)) return slot;
    }
    return NULL;
}

/* The most slots of a hash table of n keys. Keys need 4 slots each at most, unless a file's keys
 * were chosen to have equal hashes: without a limit their table would fill the memory. */
static size_t most_slots(size_t n) {
    return n < 64 ? 1024 : 16 * n;
}

/* Doubles the hash table until each pair has a free slot within PAIR_PROBES of its hash. Fails
 * where memory is short, or where most_slots are too few. */
static bool map_grow(PairMap *map) {
    for (size_t size = map->size ? map->size * 2 : 64; size <= most_slots(map->n); size *= 2) {
        PairMap grown = {0};
        bool fits = map_alloc(&grown, size);
        for (size_t i = 0; fits && i < map->size; i++) {
            PairSlot *old = &map->slots[i];
            if (old->x == TOKENIZER_NONE) continue;
            PairSlot *slot = map_slot(&grown, old->a, old->b);
            if ((fits = slot != NULL)) *slot = *old, grown.n++;
        }
        if (fits) {
            free(map->slots);
            *map = grown;
            return true;
        }
        map->failed = !grown.slots;
        free(grown.slots);
        if (map->failed) return false;
    }
    map->failed = map->hash_flood = true;
    return false;
}

/* The slot of (a, b), to be filled; a new one has x == TOKENIZER_NONE. NULL when memory is short.
 */
static PairSlot *map_put(PairMap *map, uint32_t a, uint32_t b) {
    if (map->failed) return NULL;
    PairSlot *slot = NULL;
    while (map->n * 3 >= map->size * 2 || !(slot = map_slot(map, a, b)))
        if (!map_grow(map)) return NULL;
    if (slot->x == TOKENIZER_NONE) map->n++;
    slot->a = a;
    slot->b = b;
    return slot;
}

/* Adds a string to a trie, with `what` as its value; of two equal strings the first one's stays. */
static void trie_put(PairMap *map, uint32_t *n_nodes, const char *text, size_t n, uint32_t what) {
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        PairSlot *slot = map_put(map, node, (uint8_t)text[i]);
        if (!slot) return;
        if (slot->x == TOKENIZER_NONE) {
            slot->x = ++*n_nodes;
            slot->y = TOKENIZER_NONE;
        }
        if (i + 1 == n && slot->y == TOKENIZER_NONE) slot->y = what;
        node = slot->x;
    }
}

/* ---- Decoded texts ---- */

/* Appends in[n] with every `from` replaced by `to`. */
static void replace_all(TextBuffer *out, const char *in, size_t n, const char *from,
                        size_t from_length, const char *to, size_t to_length) {
    for (size_t at = 0; at < n;) {
        const char *hit = from_length ? memmem(in + at, n - at, from, from_length) : NULL;
        size_t end = hit ? (size_t)(hit - in) : n;
        text_put(out, in + at, end - at, 0);
        if (!hit) return;
        text_put(out, to, to_length, 0);
        at = end + from_length;
    }
}

static void tokenizer_strip(TextBuffer *out, const char *in, size_t n, const char *character,
                            size_t length, uint32_t left, uint32_t right) {
    size_t from = 0, to = n;
    for (; left > 0 && to - from >= length && !memcmp(in + from, character, length); left--)
        from += length;
    for (; right > 0 && to - from >= length && !memcmp(in + to - length, character, length);
         right--)
        to -= length;
    text_put(out, in + from, to - from, 0);
}

/* Appends in[n] translated from ByteLevel's alphabet to bytes; unchanged if it holds a character
 * outside the alphabet. */
static void unmap(TextBuffer *out, const char *in, size_t n) {
    size_t before = out->length;
    for (size_t at = 0, length; at < n; at += length) {
        uint32_t code = 0;
        length = utf8_decode(in + at, n - at, &code);
        int byte = length ? bytelevel_byte(code) : -1;
        if (byte < 0) {
            out->length = before;
            text_put(out, in, n, 0);
            return;
        }
        text_put(out, &(char){(char)byte}, 1, 0);
    }
}

/* Runs the decoders over single tokens. */
typedef struct Evaluator {
    const Builder *b;
    pcre2_code *codes[SECTION_MAX_STEPS];
    Scratch *scratch; /* for the patterns; all tokens share its steps */
    TextBuffer texts[2];
    size_t fuse; /* decoders before this one see single tokens, the others the joined text */
    size_t room; /* how many bytes all steps together may still add to tokens */
} Evaluator;

static const char *const decoder_names[] = {[DECODER_BYTE_LEVEL] = "ByteLevel",
                                            [DECODER_BPE] = "BPEDecoder",
                                            [DECODER_METASPACE] = "Metaspace",
                                            [DECODER_BYTE_FALLBACK] = "ByteFallback",
                                            [DECODER_FUSE] = "Fuse",
                                            [DECODER_STRIP] = "Strip",
                                            [DECODER_REPLACE] = "Replace",
                                            [DECODER_REPLACE_STRING] = "Replace",
                                            [DECODER_JOIN] = "(none)"};

/* Appends in[n] with the matches of decoder i's pattern replaced. Patterns match UTF-8 only. */
static Status replace_pattern(Evaluator *e, size_t i, TextBuffer *out, const char *in, size_t n,
                              Error *error) {
    const BuildDecoder *d = &e->b->decoders[i];
    Matches matches = {{.bytes = in, .length = n},
                       e->codes[i],
                       builder_bytes(e->b, d->a),
                       d->a.length,
                       0,
                       0,
                       false};
    if (utf8_valid_prefix(in, n) == n)
        return tokenizer_replace_matches(&matches, e->scratch, out, builder_bytes(e->b, d->b),
                                         d->b.length, error);
    text_put(out, in, n, 0);
    return STATUS_OK;
}

/* Appends in[n], the text of one token, as decoder i leaves it; not for DECODER_REPLACE. `first`
 * and `last`: the token begins or ends the text. */
static void decode_step(Evaluator *e, size_t i, TextBuffer *out, const char *in, size_t n,
                        bool first, bool last) {
    const BuildDecoder *d = &e->b->decoders[i];
    const char *a = builder_bytes(e->b, d->a), *to = builder_bytes(e->b, d->b);
    switch (d->op) {
    case DECODER_BYTE_LEVEL:
        unmap(out, in, n);
        return;
    case DECODER_BPE:
        replace_all(out, in, n, a, d->a.length, " ", last ? 0 : 1);
        return;
    case DECODER_METASPACE:
        replace_all(out, in, n, a, d->a.length, " ", first && d->n ? 0 : 1);
        return;
    case DECODER_BYTE_FALLBACK:
        if (builder_byte_of(in, n) < 0) break;
        text_put(out, &(char){(char)builder_byte_of(in, n)}, 1, 0);
        return;
    case DECODER_STRIP:
        tokenizer_strip(out, in, n, a, d->a.length, d->n, d->m);
        return;
    case DECODER_REPLACE_STRING:
        replace_all(out, in, n, a, d->a.length, to, d->b.length);
        return;
    case DECODER_JOIN:
        text_put(out, " ", first ? 0 : 1, 0);
        break;
    case DECODER_REPLACE:
    case DECODER_FUSE:
        break;
    }
    text_put(out, in, n, 0);
}

/* The bytes that token `id`, whose text is `text`, adds to a text; valid until the next call. NULL
 * where steps add more than e->room: a few that each turn a letter into many would take all memory.
 */
static const TextBuffer *decode_text(Evaluator *e, uint32_t id, TextRange text, bool first,
                                     bool last, Error *error) {
    TextBuffer *in = &e->texts[0], *out = &e->texts[1];
    in->length = 0;
    in->limit = 0;
    text_put(in, builder_bytes(e->b, text), text.length, 0);
    for (size_t i = 0; i < e->fuse; i++) {
        size_t most = in->length + e->room;
        out->length = 0;
        out->limit = most + 1;
        if (e->b->decoders[i].op != DECODER_REPLACE)
            decode_step(e, i, out, in->bytes, in->length, first, last);
        else if (replace_pattern(e, i, out, in->bytes, in->length, error) != STATUS_OK)
            return NULL;
        if (out->failed || out->length > most) {
            int shown = text.length < 100 ? (int)text.length : 100;
            error_set(
                error,
                "tokenizer: token %u '%.*s': decoder %zu (%s) makes too long a text of it (or "
                "memory is short)",
                id, shown, builder_bytes(e->b, text), i + 1, decoder_names[e->b->decoders[i].op]);
            return NULL;
        }
        if (out->length > in->length) e->room -= out->length - in->length;
        TextBuffer *swap = in;
        in = out;
        out = swap;
    }
    return in;
}

/* Compiles the decoders' patterns and finds where the tokens are joined. */
static Status evaluator_open(Evaluator *e, const Builder *b, Error *error) {
    *e = (Evaluator){.b = b, .scratch = scratch_new()};
    if (!e->scratch) return error_set(error, "tokenizer: out of memory");
    pattern_allow(e->scratch, pattern_steps(b->pool_length));
    e->room = ((size_t)1 << 20) + 16 * b->pool_length;
    bool fused = false;
    for (size_t i = 0; i < b->n_decoders; i++) {
        const BuildDecoder *d = &b->decoders[i];
        if (fused && (d->op == DECODER_BYTE_LEVEL || d->op == DECODER_BYTE_FALLBACK))
            return error_set(error, "tokenizer: decoder %s after the tokens are joined",
                             d->op == DECODER_BYTE_LEVEL ? "ByteLevel" : "ByteFallback");
        if (d->op == DECODER_REPLACE &&
            pattern_compile(builder_bytes(b, d->a), d->a.length, &e->codes[i], error) != STATUS_OK)
            return STATUS_FAILED;
        if (!fused) e->fuse = i + 1;
        fused = fused || d->op == DECODER_FUSE || d->op == DECODER_BYTE_LEVEL;
    }
    return STATUS_OK;
}

static void evaluator_close(Evaluator *e) {
    for (size_t i = 0; i < SECTION_MAX_STEPS; i++) pcre2_code_free(e->codes[i]);
    if (e->scratch) scratch_free(e->scratch);
    text_free(&e->texts[0]);
    text_free(&e->texts[1]);
}

/* ---- The section ---- */

typedef struct Writer {
    Builder *b;
    TextBuffer section, pool;
    bool failed;
    bool hash_flood; /* keys were chosen so that their hashes are equal */
} Writer;

static void write_part(Writer *w, int which, const void *bytes, size_t n) {
    static const char zeros[8];
    text_put(&w->section, zeros, (8 - w->section.length % 8) % 8, 0);
    w->b->header.parts[which] = (SectionPart){w->section.length, n};
    text_put(&w->section, bytes, n, 0);
}

static TextRange tokenizer_put(Writer *w, const char *bytes, size_t n) {
    TextRange range = {(uint32_t)w->pool.length, (uint32_t)n};
    text_put(&w->pool, bytes, n, 0);
    if (w->pool.length > UINT32_MAX / 2) w->failed = true;
    return n ? range : (TextRange){0, 0};
}

static TextRange put_range(Writer *w, TextRange range) {
    return tokenizer_put(w, builder_bytes(w->b, range), range.length);
}

/* Adds what a token decodes to; reuses the end of the token's own text where it is the same. */
static TextRange put_near(Writer *w, TextRange near, const TextBuffer *text) {
    if (text->length <= near.length && text->length > 0) {
        TextRange tail = {near.offset + near.length - (uint32_t)text->length,
                          (uint32_t)text->length};
        if (memcmp(w->pool.bytes + tail.offset, text->bytes, text->length) == 0) return tail;
    }
    return tokenizer_put(w, text->bytes, text->length);
}

/* How many texts a token can have: it depends on whether the token is the first of the text (2),
 * and on whether it is the last as well (4). */
static uint32_t count_variants(const Evaluator *e) {
    uint32_t variants = 1;
    for (size_t i = 0; i < e->fuse; i++) {
        const BuildDecoder *d = &e->b->decoders[i];
        if (d->op == DECODER_BPE) return 4;
        if (d->op == DECODER_JOIN || (d->op == DECODER_METASPACE && d->n)) variants = 2;
    }
    return variants;
}

/* Fills tokens[n_symbols] with keys and flags, and match[n_tokens] with the text that each token is
 * decoded from: for an added token that is the text it is found by. */
static void fill_tokens(Writer *w, TokenRecord *tokens, TextRange *match) {
    Builder *b = w->b;
    for (uint32_t i = 0; i < b->header.n_symbols; i++) {
        const BuildToken *token = &b->tokens[i];
        tokens[i].text = put_range(w, token->key);
        tokens[i].flags = token->flags & BUILD_SPECIAL ? TOKEN_SPECIAL : 0;
        if (token->flags & BUILD_IN_MODEL && token->key.length > b->header.max_key)
            b->header.max_key = token->key.length;
        if (i < b->header.n_tokens && !(token->flags & BUILD_SILENT)) match[i] = token->text;
    }
    for (size_t i = 0; i < b->n_added; i++) {
        tokens[b->added[i].id].flags |= TOKEN_ADDED;
        match[b->added[i].id] = b->added_match[i];
    }
}

/* Writes the tokens, and what each decodes to in every variant. */
static Status write_token_tables(Writer *w, Evaluator *e, Error *error) {
    Status status = STATUS_OK;
    Builder *b = w->b;
    uint32_t n = b->header.n_tokens, variants = b->header.decode_variants;
    TokenRecord *tokens = calloc((size_t)b->header.n_symbols + 1, sizeof *tokens);
    TextRange *decode = calloc((size_t)n * variants + 1, sizeof *decode);
    TextRange *match = calloc((size_t)n + 1, sizeof *match);
    if (!tokens || !decode || !match) w->failed = true;
    if (!w->failed) fill_tokens(w, tokens, match);
    for (size_t k = 0; k < (size_t)n * variants && !w->failed && status == STATUS_OK; k++) {
        uint32_t i = (uint32_t)(k % n), v = (uint32_t)(k / n);
        if (!(b->tokens[i].flags & BUILD_PRESENT)) continue;
        const TextBuffer *text = decode_text(e, i, match[i], v & 1, v & 2, error);
        if (text)
            decode[k] = put_near(w, tokens[i].text, text);
        else
            status = STATUS_FAILED;
    }
    if (e->texts[0].failed || e->texts[1].failed) w->failed = true;
    if (!w->failed) {
        write_part(w, PART_TOKENS, tokens, b->header.n_symbols * sizeof *tokens);
        write_part(w, PART_DECODE, decode, (size_t)n * variants * sizeof *decode);
    }
    free(tokens);
    free(decode);
    free(match);
    return status;
}

/* A decoder that sees the joined text, as a step of the section. (Metaspace and BPEDecoder then see
 * one token, which is the first and the last.) */
static StepRecord decode_record(Writer *w, const BuildDecoder *d) {
    const TextRange none = {0, 0};
    Builder *b = w->b;
    if (d->op == DECODER_STRIP)
        return (StepRecord){DECODE_STRIP, d->n | d->m << 16, put_range(w, d->a), none};
    StepRecord step = {DECODE_REPLACE_PATTERN, 0, none, none};
    if (d->op == DECODER_REPLACE) {
        step.a = put_range(w, d->a);
        step.b = put_range(w, d->b);
        return step;
    }
    step.a = put_range(w, regex_literal(b, builder_bytes(b, d->a), d->a.length));
    if (d->op == DECODER_REPLACE_STRING) step.b = put_range(w, d->b);
    if (d->op == DECODER_METASPACE && d->n == 0) step.b = tokenizer_put(w, " ", 1);
    return step;
}

static Status write_tokens(Writer *w, Error *error) {
    Builder *b = w->b;
    Evaluator e;
    Status status = evaluator_open(&e, b, error);
    b->header.decode_variants = count_variants(&e);
    if (status == STATUS_OK) status = write_token_tables(w, &e, error);
    StepRecord steps[SECTION_MAX_STEPS];
    size_t n_steps = 0;
    for (size_t i = e.fuse; i < b->n_decoders; i++)
        if (b->decoders[i].op != DECODER_FUSE) steps[n_steps++] = decode_record(w, &b->decoders[i]);
    write_part(w, PART_DECODERS, steps, n_steps * sizeof *steps);
    evaluator_close(&e);
    return status;
}

/* Writes the hash table of the model's tokens, doubled like a PairMap until all keys fit. */
static void write_vocab(Writer *w) {
    Builder *b = w->b;
    size_t most = most_slots(b->header.n_symbols);
    size_t size = 64;
    while (size < (size_t)b->header.n_symbols * 2) size *= 2;
retry:;
    uint32_t *slots = malloc(size * sizeof *slots);
    if (!slots) {
        w->failed = true;
        return;
    }
    memset(slots, 0xFF, size * sizeof *slots);
    for (uint32_t i = 0; i < b->header.n_symbols; i++) {
        TextRange key = b->tokens[i].key;
        if (!(b->tokens[i].flags & BUILD_IN_MODEL) ||
            builder_find(b, builder_bytes(b, key), key.length) != i)
            continue;
        uint32_t at = (uint32_t)section_hash(builder_bytes(b, key), key.length);
        int probe = 0;
        while (probe < PAIR_PROBES && slots[at & (size - 1)] != TOKENIZER_NONE) at++, probe++;
        if (probe == PAIR_PROBES) {
            free(slots);
            size *= 2;
            if (size <= most) goto retry;
            w->hash_flood = true;
            return;
        }
        slots[at & (size - 1)] = i;
    }
    write_part(w, PART_VOCAB, slots, size * sizeof *slots);
    free(slots);
}

static void write_map(Writer *w, int which, PairMap *map) {
    if (map->hash_flood) w->hash_flood = true;
    if (map->failed) w->failed = true;
    write_part(w, which, map->n ? map->slots : NULL, map->n ? map->size * sizeof *map->slots : 0);
    free(map->slots);
}

static uint8_t class_of(const char *character, size_t n, bool last) {
    if (n == 3 && memcmp(character, "\xE2\x96\x81", 3) == 0) return 0xFF;
    return (uint8_t)character[last ? n - 1 : 0];
}

/* Writes which pairs of characters (last byte of the left one, first of the right one) some merge
 * joins: between all others a word may be cut. Writes nothing, so that no word is cut, when a merge
 * starts from a byte token (the text does not hold its name) or the end of a word matters. */
static void write_cuts(Writer *w) {
    Builder *b = w->b;
    uint8_t cuts[8192] = {0};
    bool whole_words = b->header.flags & SECTION_IGNORE_MERGES || b->header.subword_prefix.length ||
                       b->header.word_suffix.length;
    /* Unknown characters that fuse or vanish join their neighbours. */
    bool unknowns = b->header.unk_id < 0 || b->header.flags & SECTION_FUSE_UNK, all_bytes = true;
    for (unsigned i = 0; i < 256; i++) all_bytes = all_bytes && b->bytes[i] != TOKENIZER_NONE;
    if (b->header.flags & SECTION_BYTE_FALLBACK && all_bytes) unknowns = false;
    if (b->header.model != MODEL_BPE || b->header.flags & SECTION_BYTE_LEVEL || whole_words ||
        unknowns)
        return;
    for (size_t i = 0; i < b->n_merges; i++) {
        const BuildMerge *m = &b->merges[i];
        TextRange left = b->tokens[m->left].key, right = b->tokens[m->right].key;
        if (left.length == 0 || right.length == 0) return;
        if ((int64_t)m->left == b->header.unk_id || (int64_t)m->right == b->header.unk_id) return;
        for (unsigned byte = 0; byte < 256 && b->has_bytes; byte++)
            if (m->left == b->bytes[byte] || m->right == b->bytes[byte]) return;
        const char *l = builder_bytes(b, left), *r = builder_bytes(b, right);
        size_t last = utf8_previous(l, left.length);
        uint8_t x = class_of(l + last, left.length - last, true);
        uint8_t y = class_of(r, right.length >= 3 ? 3 : right.length, false);
        cuts[x * 32u + y / 8u] |= (uint8_t)(1 << (y & 7));
    }
    write_part(w, PART_CUTS, cuts, sizeof cuts);
}

/* Writes the model's parts: merges, byte tokens and, of Unigram, scores and the trie of pieces. */
static void write_model(Writer *w) {
    Builder *b = w->b;
    PairMap pairs = {0}, pieces = {0};
    uint32_t n_nodes = 0;
    for (size_t i = 0; i < b->n_merges; i++) {
        PairSlot *slot = map_put(&pairs, b->merges[i].left, b->merges[i].right);
        if (!slot) break;
        slot->x = b->merges[i].rank;
        slot->y = b->merges[i].into;
    }
    write_map(w, PART_PAIRS, &pairs);
    if (b->has_bytes) write_part(w, PART_BYTES, b->bytes, sizeof b->bytes);
    write_cuts(w);
    if (b->header.model != MODEL_UNIGRAM) return;
    double *scores = calloc((size_t)b->header.n_tokens + 1, sizeof *scores);
    if (!scores) {
        w->failed = true;
        return;
    }
    for (uint32_t i = 0; i < b->header.n_tokens; i++) {
        TextRange key = b->tokens[i].key;
        scores[i] = b->tokens[i].score;
        if (b->tokens[i].flags & BUILD_PIECE)
            trie_put(&pieces, &n_nodes, builder_bytes(b, key), key.length, i);
    }
    write_part(w, PART_SCORES, scores, b->header.n_tokens * sizeof *scores);
    write_map(w, PART_PIECES, &pieces);
    free(scores);
}

/* Writes the added tokens and two tries of their texts: those looked for in the raw text, and
 * those looked for after normalization. */
static void write_added(Writer *w) {
    Builder *b = w->b;
    PairMap raw = {0}, norm = {0};
    uint32_t n_raw = 0, n_norm = 0;
    AddedRecord *added = calloc(b->n_added + 1, sizeof *added);
    if (!added) {
        w->failed = true;
        return;
    }
    for (size_t i = 0; i < b->n_added; i++) {
        TextRange match = b->added_match[i];
        bool normalized = b->added[i].flags & ADDED_NORMALIZED;
        added[i] = b->added[i];
        added[i].text = put_range(w, b->added[i].text);
        if (match.length > b->header.max_added) b->header.max_added = match.length;
        trie_put(normalized ? &norm : &raw, normalized ? &n_norm : &n_raw, builder_bytes(b, match),
                 match.length, (uint32_t)i);
    }
    write_part(w, PART_ADDED, added, b->n_added * sizeof *added);
    free(added);
    write_map(w, PART_ADDED_RAW, &raw);
    write_map(w, PART_ADDED_NORM, &norm);
}

static void write_steps(Writer *w, int which, const StepRecord *steps, size_t n) {
    StepRecord out[SECTION_MAX_STEPS];
    for (size_t i = 0; i < n; i++)
        out[i] = (StepRecord){steps[i].op, steps[i].flags, put_range(w, steps[i].a),
                              put_range(w, steps[i].b)};
    write_part(w, which, out, n * sizeof *out);
}

/* Writes all of a built tokenizer as the tokenizer section of a model.bin, into malloc'ed memory.
 */
static Status write_section(Builder *b, TokenizerBlob *out, Error *error) {
    Writer w = {.b = b};
    SectionHeader header = {0};
    memset(b->header.parts, 0, sizeof b->header.parts);
    b->header.max_added = b->header.max_key = 0;
    text_put(&w.section, (const char *)&header, sizeof header, 0);
    Status status = write_tokens(&w, error);
    if (status == STATUS_OK) {
        write_vocab(&w);
        write_model(&w);
        write_added(&w);
        write_steps(&w, PART_NORMALIZERS, b->normalizers, b->n_normalizers);
        write_steps(&w, PART_SPLITS, b->splits, b->n_splits);
        write_part(&w, PART_PREFIX, b->prefix, b->n_prefix * sizeof *b->prefix);
        write_part(&w, PART_SUFFIX, b->suffix, b->n_suffix * sizeof *b->suffix);
        write_part(&w, PART_EOS, b->eos, b->n_eos * sizeof *b->eos);
        if (b->charsmap) write_part(&w, PART_CHARSMAP, b->charsmap, b->charsmap_size);
        header = b->header;
        header.subword_prefix = put_range(&w, b->header.subword_prefix);
        header.word_suffix = put_range(&w, b->header.word_suffix);
        write_part(&w, PART_TEXT, w.pool.bytes, w.pool.length);
        memcpy(header.parts, b->header.parts, sizeof header.parts);
        text_put(&w.section, "\0\0\0\0\0\0\0", (8 - w.section.length % 8) % 8, 0);
        header.size = w.section.length;
        if (w.hash_flood)
            status = error_set(error, "tokenizer: too many keys or merges share one hash");
        else if (w.pool.failed || w.section.failed || b->failed || w.failed)
            status = error_set(error, "tokenizer: out of memory");
        else
            memcpy(w.section.bytes, &header, sizeof header);
    }
    text_free(&w.pool);
    if (status != STATUS_OK) {
        text_free(&w.section);
        return status;
    }
    *out = (TokenizerBlob){w.section.bytes, w.section.length};
    return STATUS_OK;
}

/* Gives what the normalizers make of the UTF-8 prefix of text[length]: the runner only encodes
 * whole texts. The caller frees *out. Takes what their patterns need from `steps` (pattern_allow in
 * tokenizer/tokenizer_pattern.h), which texts share. */
static Status normalize_alone(Tokenizer *t, const char *text, size_t length, size_t *steps,
                              char **out, size_t *out_length, Error *error) {
    Scratch *scratch = scratch_borrow(t);
    *out = NULL;
    *out_length = 0;
    if (!scratch) return table_no_memory(error);
    Encoding e = {.tokenizer = t,
                  .scratch = scratch,
                  .error = error,
                  .limit = ((size_t)1 << 16) + 16 * length};
    TextSpan span = {text, NULL, utf8_valid_prefix(text, length), true, false};
    TextBuffer copy = {0};
    pattern_allow(scratch, *steps);
    Status status = normalize(&e, &span);
    if (status == STATUS_OK) text_put(&copy, span.bytes, span.length, 0);
    *steps = scratch->steps_left;
    scratch_return(t, scratch);
    if (status == STATUS_OK && copy.failed) status = table_no_memory(error);
    *out = copy.bytes;
    *out_length = copy.length;
    return status;
}

/* Computes the normalized forms by which added tokens are found, with the tokenizer of a first
 * section that has only the normalizers. */
static Status normalize_added(Builder *b, Error *error) {
    bool needed = false;
    for (size_t i = 0; i < b->n_added; i++) needed |= (b->added[i].flags & ADDED_NORMALIZED) != 0;
    if (!needed || b->n_normalizers == 0 || b->header.flags & SECTION_ADDED_IN_CHARSMAP)
        return STATUS_OK;
    Builder bare;
    TokenizerBlob blob;
    Tokenizer *tokenizer = NULL;
    builder_init(&bare);
    memcpy(bare.normalizers, b->normalizers, sizeof bare.normalizers);
    bare.n_normalizers = b->n_normalizers;
    for (size_t i = 0; i < b->n_normalizers; i++) {
        StepRecord *step = &bare.normalizers[i];
        step->a = builder_text(&bare, builder_bytes(b, step->a), step->a.length);
        step->b = builder_text(&bare, builder_bytes(b, step->b), step->b.length);
    }
    bare.charsmap = b->charsmap;
    bare.charsmap_size = b->charsmap_size;
    builder_index(&bare);
    Status status = write_section(&bare, &blob, error);
    builder_free(&bare);
    if (status != STATUS_OK) return status;
    status = tokenizer_open(&tokenizer, blob.bytes, blob.size, error);
    size_t steps = pattern_steps(b->pool_length);
    for (size_t i = 0; i < b->n_added && status == STATUS_OK; i++) {
        char *text;
        size_t n;
        if (!(b->added[i].flags & ADDED_NORMALIZED)) continue;
        status = normalize_alone(tokenizer, builder_bytes(b, b->added[i].text),
                                 b->added[i].text.length, &steps, &text, &n, error);
        if (status != STATUS_OK) break;
        b->added_match[i] = builder_text(b, text, n < SECTION_MAX_ADDED ? n : SECTION_MAX_ADDED);
        free(text);
        if (n > SECTION_MAX_ADDED)
            status = error_set(error,
                               "tokenizer: added token %u is %zu bytes long after the normalizers "
                               "(%d at most)",
                               b->added[i].id, n, SECTION_MAX_ADDED);
    }
    tokenizer_close(tokenizer);
    tokenizer_blob_free(&blob);
    return status;
}

Status tokenizer_write(Builder *b, TokenizerBlob *out, Error *error) {
    Tokenizer *tokenizer;
    *out = (TokenizerBlob){0};
    if (b->failed) return error_set(error, "tokenizer: out of memory");
    if (b->header.n_tokens == 0) return error_set(error, "tokenizer: no tokens");
    size_t present = 0;
    for (uint32_t i = 0; i < b->header.n_tokens; i++) present += b->tokens[i].flags & BUILD_PRESENT;
    if (b->header.n_tokens > 65536 + 64 * present)
        return error_set(error, "tokenizer: ids run to %u, but there are only %zu tokens",
                         b->header.n_tokens - 1, present);
    /* The model must not produce special tokens: only recognizing their text may. */
    for (uint32_t i = 0; i < b->header.n_tokens; i++)
        if (b->tokens[i].flags & BUILD_SPECIAL)
            b->tokens[i].flags &= ~(uint32_t)(BUILD_IN_MODEL | BUILD_PIECE);
    size_t kept = 0;
    for (size_t i = 0; i < b->n_merges; i++)
        if (!(b->tokens[b->merges[i].into].flags & BUILD_SPECIAL)) b->merges[kept++] = b->merges[i];
    b->n_merges = kept;
    if (!b->index) builder_index(b);
    if (b->hash_flood) return error_set(error, "tokenizer: too many tokens share one hash");
    if (normalize_added(b, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t i = 0; i < b->n_added; i++)
        if (b->added_match[i].length > SECTION_MAX_ADDED)
            return error_set(error, "tokenizer: added token %u is longer than %d bytes",
                             b->added[i].id, SECTION_MAX_ADDED);
    if (write_section(b, out, error) != STATUS_OK) return STATUS_FAILED;
    Status status = tokenizer_open(&tokenizer, out->bytes, out->size, error);
    tokenizer_close(tokenizer);
    if (status != STATUS_OK) tokenizer_blob_free(out);
    return status;
}
