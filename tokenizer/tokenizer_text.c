/* Text to ids. Each function hands the pieces that it finds to the next one:
 *
 *     tokenizer_encode_text    cuts raw text into stretches of UTF-8 and of other bytes
 *     encode_stretch           cuts added tokens out of the raw text
 *     normalize                normalizes the text between them (tokenizer/tokenizer_normalize.c)
 *     encode_stretch           cuts more added tokens out of the normalized text
 *     text_split               applies one split after the other to the text between them
 *     encode_split             turns a piece that all splits have seen into a word
 *     tokenizer_encode_word    turns a word into ids (tokenizer/tokenizer_model.c) */
#include "tokenizer/tokenizer_text.h"

#include <string.h>

#include "base/unicode.h"
#include "tokenizer/scratch.h"
#include "tokenizer/tokenizer_model.h"
#include "tokenizer/tokenizer_normalize.h"
#include "tokenizer/tokenizer_pattern.h"
#include "tokenizer/tokenizer_table.h"

/* ---- Words ---- */

/* Encodes a piece that went through all splits. SECTION_UNMAP: turns it from ByteLevel's alphabet
 * back into bytes first. */
static Status encode_split(Encoding *e, TextSpan span) {
    if (!(e->tokenizer->header->flags & SECTION_UNMAP))
        return tokenizer_encode_word(e, span.bytes, span.length);
    TextBuffer *word = &e->scratch->word;
    word->length = 0;
    for (size_t at = 0; at < span.length;) {
        uint32_t code;
        at += utf8_next(span.bytes + at, span.length - at, &code);
        int byte = bytelevel_byte(code);
        if (byte >= 0) text_put(word, &(char){(char)byte}, 1, 0);
    }
    if (word->failed) return table_no_memory(e->error);
    return word->length ? tokenizer_encode_word(e, word->bytes, word->length) : STATUS_OK;
}

static Status text_split(Encoding *e, size_t level, TextSpan span);

/* The part of a span from `from` to `to` - 1. */
static TextSpan span_part(TextSpan span, size_t from, size_t to) {
    return (TextSpan){span.bytes + from, span.from_template ? span.from_template + from : NULL,
                      to - from, span.first && from == 0, span.glued};
}

/* Takes the matches of a pattern in a span, and what lies between them, and hands them to the next
 * split as pieces. The newest piece waits, because the next one may join it. */
typedef struct Splitter {
    Encoding *e;
    size_t level;
    TextSpan span;
    uint32_t behaviour;
    size_t from, to; /* the waiting piece */
    bool waiting, last_matched;
} Splitter;

static Status splitter_flush(Splitter *s) {
    bool waiting = s->waiting;
    s->waiting = false;
    return waiting ? text_split(s->e, s->level + 1, span_part(s->span, s->from, s->to)) : STATUS_OK;
}

static Status splitter_add(Splitter *s, size_t from, size_t to, bool matched) {
    bool joins = s->behaviour == SPLIT_CONTIGUOUS             ? matched == s->last_matched
                 : s->behaviour == SPLIT_MERGED_WITH_PREVIOUS ? matched && !s->last_matched
                 : s->behaviour == SPLIT_MERGED_WITH_NEXT     ? !matched && s->last_matched
                                                              : false;
    s->last_matched = matched;
    if (joins && s->waiting) {
        s->to = to;
        return STATUS_OK;
    }
    if (splitter_flush(s) != STATUS_OK) return STATUS_FAILED;
    s->waiting = !(matched && s->behaviour == SPLIT_REMOVED);
    s->from = from;
    s->to = to;
    return STATUS_OK;
}

/* Splits a span at the matches of this level's pattern, and hands the pieces to the next level. */
static Status split_by_pattern(Encoding *e, size_t level, TextSpan span) {
    const StepList *splits = &e->tokenizer->splits;
    uint32_t flags = splits->steps[level].flags;
    bool invert = flags & SPLIT_INVERT;
    Splitter s = {.e = e, .level = level, .span = span, .behaviour = flags & 7};
    Matches matches = {.span = span, .code = splits->patterns[level]};
    matches.string =
        table_section_text(e->tokenizer, splits->steps[level].a, &matches.string_length);
    size_t done = 0, from, to;
    int found;
    while ((found = matches_next(&matches, e->scratch, &from, &to, e->error)) > 0) {
        if ((from > done && splitter_add(&s, done, from, invert) != STATUS_OK) ||
            splitter_add(&s, from, to, !invert) != STATUS_OK)
            return STATUS_FAILED;
        done = to;
    }
    if (found < 0 ||
        (done < span.length && splitter_add(&s, done, span.length, invert) != STATUS_OK))
        return STATUS_FAILED;
    return splitter_flush(&s);
}

/* SPLIT_METASPACE: replaces spaces by a[n], and puts a[n] before the span where `when` asks for it.
 */
static Status put_metaspaces(Encoding *e, TextBuffer *out, TextSpan span, uint32_t when,
                             const char *a, size_t n) {
    Matches spaces = {.span = span, .string = " ", .string_length = 1};
    bool starts = span.bytes[0] == ' ' || (span.length >= n && memcmp(span.bytes, a, n) == 0);
    bool wanted = when == METASPACE_ALWAYS || (when == METASPACE_FIRST && span.first);
    if (wanted && !starts && !span.glued) text_put(out, a, n, 0);
    return tokenizer_replace_matches(&spaces, e->scratch, out, a, n, e->error);
}

/* Applies the splits from `level` on to one piece and encodes the words. */
static Status text_split(Encoding *e, size_t level, TextSpan span) {
    const Tokenizer *t = e->tokenizer;
    if (span.length == 0) return STATUS_OK;
    if (level == t->splits.n) return encode_split(e, span);
    const StepRecord *step = &t->splits.steps[level];
    if (step->op == SPLIT_PATTERN) return split_by_pattern(e, level, span);
    size_t n;
    const char *a = table_section_text(t, step->a, &n);
    TextBuffer *out = &e->scratch->levels[level];
    out->length = 0;
    out->limit = e->limit;
    if (step->op == SPLIT_METASPACE) {
        if (put_metaspaces(e, out, span, step->flags, a, n) != STATUS_OK) return STATUS_FAILED;
    } else if (step->op == SPLIT_PREFIX_SPACE) {
        if (span.bytes[0] != ' ' && !span.glued) text_put(out, " ", 1, 0);
        text_put(out, span.bytes, span.length, 0);
    } else {
        bytelevel_map(out, span.bytes, span.length, NULL);
    }
    if (out->failed) return table_no_memory(e->error);
    return text_split(e, level + 1,
                      (TextSpan){out->bytes, NULL, out->length, span.first, span.glued});
}

/* ---- Added tokens ---- */

static bool is_word_character(const Encoding *e, const char *text, size_t n) {
    uint32_t code;
    return pcre2_match(e->tokenizer->word_character, (PCRE2_SPTR)text, utf8_next(text, n, &code), 0,
                       PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, e->scratch->match, NULL) > 0;
}

/* True when no word character stands right before `from` or right after `to`. */
static bool stands_alone(const Encoding *e, TextSpan span, size_t from, size_t to) {
    size_t before = from > 0 ? utf8_previous(span.bytes, from) : 0;
    return !(from > 0 && is_word_character(e, span.bytes + before, from - before)) &&
           !(to < span.length && is_word_character(e, span.bytes + to, span.length - to));
}

/* The start of the white space that ends at `at`, but not before `least`. */
static size_t space_start(TextSpan span, size_t least, size_t at) {
    uint32_t code;
    for (size_t before; at > least; at = before) {
        before = utf8_previous(span.bytes, at);
        utf8_decode(span.bytes + before, at - before, &code);
        if (before < least || !unicode_is_space(code)) break;
    }
    return at;
}

/* The end of the white space that starts at `at`. */
static size_t space_end(TextSpan span, size_t at) {
    uint32_t code;
    for (size_t n; at < span.length; at += n) {
        n = utf8_next(span.bytes + at, span.length - at, &code);
        if (!unicode_is_space(code)) break;
    }
    return at;
}

static Status encode_stretch(Encoding *e, TextSpan span, bool normalized);

/* Encodes text between added tokens. `normalized`: it is normalized already. */
static Status encode_between(Encoding *e, TextSpan span, bool normalized) {
    if (span.length == 0) return STATUS_OK;
    if (normalized) return text_split(e, 0, span);
    if (normalize(e, &span) != STATUS_OK) return STATUS_FAILED;
    return encode_stretch(e, span, true);
}

/* Encodes a stretch of raw or normalized text: finds its added tokens, the leftmost and longest
 * first, and hands the text between them on. */
static Status encode_stretch(Encoding *e, TextSpan span, bool normalized) {
    const Tokenizer *t = e->tokenizer;
    const Trie *trie = normalized ? &t->added_norm : &t->added_raw;
    size_t done = 0;
    for (size_t at = 0, length; at < span.length; at += length ? length : 1) {
        uint32_t index;
        bool may_start = trie->starts[(uint8_t)span.bytes[at]];
        length = may_start ? table_find_added(e, trie, span, at, false, &index) : 0;
        if (length == 0) continue;
        uint32_t flags = t->added[index].flags;
        size_t from = at, to = at + length;
        if (flags & ADDED_SINGLE_WORD && !stands_alone(e, span, from, to)) continue;
        if (flags & ADDED_LSTRIP) from = space_start(span, done, from);
        if (flags & ADDED_RSTRIP) to = space_end(span, to);
        if ((from > done &&
             encode_between(e, span_part(span, done, from), normalized) != STATUS_OK) ||
            table_push_id(e, t->added[index].id) != STATUS_OK)
            return STATUS_FAILED;
        done = to;
        span.glued = false;
    }
    return encode_between(e, span_part(span, done, span.length), normalized);
}

/* ---- Raw text ---- */

/* Encodes bytes that are not UTF-8: as byte tokens, or as U+FFFD where the vocabulary has none. */
static Status encode_bad_bytes(Encoding *e, const char *bytes, size_t n) {
    const Tokenizer *t = e->tokenizer;
    if (!t->bytes || t->bytes[(uint8_t)bytes[0]] >= t->header->n_tokens)
        return encode_between(e, (TextSpan){UTF8_REPLACEMENT, NULL, 3, false, true}, false);
    for (size_t i = 0; i < n; i++) {
        uint32_t id = t->bytes[(uint8_t)bytes[i]];
        if (id < t->header->n_tokens && table_push_text_id(e, id) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

Status tokenizer_encode_text(Encoding *e, const char *text, size_t length,
                             const uint8_t *from_template) {
    TextSpan whole = {text, from_template, length, true, false};
    for (size_t at = 0; at < length;) {
        size_t good = at + utf8_valid_prefix(text + at, length - at);
        if (encode_stretch(e, span_part(whole, at, good), false) != STATUS_OK) return STATUS_FAILED;
        if (good == length) break;
        at = good + utf8_bad_length(text + good, length - good);
        if (encode_bad_bytes(e, text + good, at - good) != STATUS_OK) return STATUS_FAILED;
        whole.glued = true;
    }
    return STATUS_OK;
}
