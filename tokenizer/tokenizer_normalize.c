/* Replacement, and the normalizer steps of a section. Steps are named and behave as in
 * the tokenizers library (https://github.com/huggingface/tokenizers) unless their comment says
 * otherwise. */
#include "tokenizer/tokenizer_normalize.h"

#include <string.h>

#include "base/unicode.h"
#include "tokenizer/characters.h"
#include "tokenizer/scratch.h"
#include "tokenizer/tokenizer_pattern.h"
#include "tokenizer/tokenizer_table.h"

/* ---- Replacement ---- */

Status tokenizer_replace_matches(Matches *m, Scratch *scratch, TextBuffer *out, const char *to,
                                 size_t to_length, Error *error) {
    const TextSpan in = m->span;
    size_t done = 0, start, end;
    uint32_t code;
    int found;
    while ((found = matches_next(m, scratch, &start, &end, error)) > 0) {
        text_copy(out, in.bytes, in.from_template, done, start);
        text_put(out, to, to_length, text_all_from_template(in.from_template, start, end));
        bool removes_first = start == 0 && end > 0 &&
                             (to_length == 0 || end > utf8_next(in.bytes, in.length, &code));
        m->span.first = m->span.first && !removes_first;
        done = end;
    }
    text_copy(out, in.bytes, in.from_template, done, in.length);
    return found < 0 ? STATUS_FAILED : STATUS_OK;
}

/* Normalizes as SentencePiece's normalizer.cc does: keeps added tokens, replaces the longest prefix
 * that the character map knows, drops extra spaces, escapes the others, and puts one before or
 * after the text. */
static void sentencepiece_normalize(const Encoding *e, TextBuffer *out, TextSpan in,
                                    uint32_t flags) {
    const Tokenizer *t = e->tokenizer;
    const char *space = flags & SPM_ESCAPE_SPACES ? "\xE2\x96\x81" : " ";
    size_t space_length = strlen(space);
    bool one_space = flags & SPM_REMOVE_EXTRA_SPACES, after_space = one_space, begun = false;
    bool prefix = flags & SPM_DUMMY_PREFIX && !(flags & SPM_SPACE_AS_SUFFIX) && !in.glued;
    for (size_t at = 0, length; at < in.length; at += length) {
        const char *to = in.bytes + at;
        uint32_t code;
        bool may_start = t->added_norm.starts[(uint8_t)*to];
        size_t n = length =
            may_start ? table_find_added(e, &t->added_norm, in, at, true, &code) : 0;
        if (!length && flags & SPM_CHARSMAP)
            length = characters.charsmap_replacement(t, to, in.length - at, &to, &n);
        if (!length) length = n = utf8_next(to, in.length - at, &code);
        uint8_t from_template = text_all_from_template(in.from_template, at, at + length);
        if (one_space && !begun && n == 1 && *to == ' ') continue;
        if (!begun && prefix) text_put(out, space, space_length, from_template);
        begun = true;
        for (; after_space && n > 0 && *to == ' '; n--) to++;
        for (size_t i = 0; i < n; i++)
            if (to[i] == ' ')
                text_put(out, space, space_length, from_template);
            else
                text_put(out, to + i, 1, from_template);
        if (n > 0) after_space = one_space && to[n - 1] == ' ';
    }
    while (one_space && out->length >= space_length &&
           memcmp(out->bytes + out->length - space_length, space, space_length) == 0)
        out->length -= space_length;
    if (begun && flags & SPM_DUMMY_PREFIX && flags & SPM_SPACE_AS_SUFFIX)
        text_put(out, space, space_length, 0);
}

/* ---- Steps ---- */

/* Normalizes the text *in by step i and appends the result to *out. Clears in->first if the step
 * removed the text's first character. */
static Status normalize_step(Encoding *e, size_t i, TextBuffer *out, TextSpan *in) {
    const Tokenizer *t = e->tokenizer;
    const StepRecord *step = &t->normalizers.steps[i];
    size_t a_length, b_length;
    const char *a = table_section_text(t, step->a, &a_length),
               *b = table_section_text(t, step->b, &b_length);
    Matches matches = {*in, t->normalizers.patterns[i], a, a_length, 0, 0, false};
    Status status;
    switch (step->op) {
    case NORMALIZE_SENTENCEPIECE:
        sentencepiece_normalize(e, out, *in, step->flags);
        return STATUS_OK;
    case NORMALIZE_MAP_BYTES:
        bytelevel_map(out, in->bytes, in->length, in->from_template);
        return STATUS_OK;
    case NORMALIZE_PREPEND:
        if (in->length > 0 && !in->glued)
            text_put(out, a, a_length, text_all_from_template(in->from_template, 0, 1));
        text_copy(out, in->bytes, in->from_template, 0, in->length);
        return STATUS_OK;
    case NORMALIZE_REPLACE:
    case NORMALIZE_REPLACE_PATTERN:
        status = tokenizer_replace_matches(&matches, e->scratch, out, b, b_length, e->error);
        in->first = matches.span.first;
        return status;
    default:
        return characters.normalize(e, step, out, in);
    }
}

Status normalize(Encoding *e, TextSpan *span) {
    for (size_t i = 0; i < e->tokenizer->normalizers.n; i++) {
        TextBuffer *out = &e->scratch->normalized[i & 1];
        out->length = 0;
        out->limit = e->limit;
        out->tracked = span->from_template != NULL;
        if (normalize_step(e, i, out, span) != STATUS_OK) return STATUS_FAILED;
        text_put(out, "", 0, 0); /* an empty text has bytes as well */
        if (out->failed) return table_no_memory(e->error);
        span->bytes = out->bytes;
        span->from_template = out->tracked ? out->from_template : NULL;
        span->length = out->length;
    }
    return STATUS_OK;
}
