/* Unigram: the division of a word into pieces whose scores have the largest sum. */
#include "tokenizer/unigram.h"

#include <string.h>

#include "base/array.h"
#include "base/unicode.h"
#include "tokenizer/scratch.h"
#include "tokenizer/tokenizer_table.h"

/* One for each boundary between bytes of the word. `score`, `id` and `start` describe the best path
 * to this boundary: its score, its last piece, and where that piece begins. `next_id` and
 * `next_end` describe the piece that begins here, if the best path through the whole word passes
 * here. */
typedef struct Best {
    double score;
    uint32_t id, start; /* start TOKENIZER_NONE: no path ends here */
    uint32_t next_id, next_end;
} Best;

/* Extends the best path to `start` by the piece `id` and keeps it if it is the best one to `end`.
 */
static void consider(const Tokenizer *t, Best *best, size_t start, size_t end, uint32_t id,
                     double score) {
    bool in_float = t->header->flags & SECTION_SENTENCEPIECE;
    score += best[start].score;
    if (in_float && (int32_t)id == t->header->unk_id) score = (float)score;
    if (best[end].start != TOKENIZER_NONE && !(score > best[end].score)) return;
    best[end] = (Best){in_float ? (float)score : score, id, (uint32_t)start, 0, 0};
}

/* Finds the best path to every boundary (the Viterbi algorithm). A character that is not a piece
 * gets the unknown token's score. */
static void find_best_paths(const Tokenizer *t, const char *bytes, size_t length, Best *best) {
    for (size_t i = 0; i <= length; i++) best[i] = (Best){.start = TOKENIZER_NONE};
    for (size_t at = 0, character; at < length; at += character) {
        uint32_t code, node = 0;
        bool is_piece = false;
        size_t longest = length - at < t->header->max_key ? length - at : t->header->max_key;
        character = utf8_next(bytes + at, length - at, &code);
        for (size_t n = 1; n <= longest; n++) {
            const PairSlot *slot = table_find_pair(&t->pieces, node, (uint8_t)bytes[at + n - 1]);
            if (!slot) break;
            node = slot->x;
            if (slot->y >= t->header->n_tokens) continue;
            consider(t, best, at, at + n, slot->y, t->scores[slot->y]);
            is_piece = is_piece || n == character;
        }
        if (!is_piece)
            consider(t, best, at, at + character, (uint32_t)t->header->unk_id,
                     t->header->unk_score);
    }
}

/* Follows the best path back from the end of the word and notes its pieces. Neighbouring unknown
 * pieces become one. False where a damaged table gives no path. */
static bool trace_best_path(const Tokenizer *t, Best *best, size_t length) {
    uint32_t unk = (uint32_t)t->header->unk_id;
    for (size_t end = length, start; end > 0; end = start) {
        start = best[end].start;
        if (start >= end) return false;
        bool fuse = end < length && best[end].id == unk && best[end].next_id == unk;
        best[start].next_id = best[end].id;
        best[start].next_end = fuse ? best[end].next_end : (uint32_t)end;
    }
    return true;
}

static Status push_piece(Encoding *e, const char *bytes, size_t n, uint32_t id) {
    const Tokenizer *t = e->tokenizer;
    if (id != TOKENIZER_NONE && (int32_t)id != t->header->unk_id) return table_push_text_id(e, id);
    /* The tokenizers library looks joined unknown pieces up again: together they may be a piece. */
    bool joined = !(t->header->flags & SECTION_SENTENCEPIECE);
    uint32_t whole = joined ? table_find_vocab(t, bytes, n) : TOKENIZER_NONE;
    if (whole < t->header->n_tokens) return table_push_text_id(e, whole);
    if (t->unknown < 0 && !(t->header->flags & SECTION_BYTE_FALLBACK))
        return error_set(e->error,
                         "tokenizer: a character is not in the vocabulary and there is no "
                         "unknown token");
    return table_push_unknown(e, bytes, n, false);
}

Status unigram_encode(Encoding *e, const char *bytes, size_t length) {
    Scratch *s = e->scratch;
    if (length >= TOKENIZER_NONE ||
        !array_reserve(&s->best, &s->best_capacity, length + 1, sizeof *s->best))
        return error_set(e->error, "tokenizer: no memory for a word of %zu bytes", length);
    find_best_paths(e->tokenizer, bytes, length, s->best);
    if (!trace_best_path(e->tokenizer, s->best, length))
        return error_set(e->error, "tokenizer: damaged piece table");
    for (size_t at = 0, end; at < length; at = end) {
        end = s->best[at].next_end;
        if (push_piece(e, bytes + at, end - at, s->best[at].next_id) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}
