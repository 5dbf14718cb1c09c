/* The way of a text: added tokens are cut out, the rest is normalized, split into words, and each
 * word encoded. */
#include "tokenizer_internal.h"
#include <stdlib.h>
#include <string.h>

/* ---- Words ---- */

static Status split(Run *run, size_t level, Span span);

/* The last level: words for the model. */
static Status split_done(Run *run, Span span) {
    if (!(run->tokenizer->header->flags & SECTION_UNMAP))
        return encode_word(run, span.bytes, span.n);
    TextBuffer *word = &run->scratch->word;
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
    TextBuffer *out = &run->scratch->levels[level];
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

static Status encode_normalized(Run *run, Span span) {
    return split(run, 0, span);
}

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
    const int32_t *ids = section_part(run->tokenizer, which);
    size_t n = section_count(run->tokenizer, which, sizeof *ids);
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
