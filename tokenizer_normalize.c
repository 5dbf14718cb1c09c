/* Patterns, replacement, and the normalizer steps of a section. Steps are named and behave as in
 * the tokenizers library (https://github.com/huggingface/tokenizers) unless their comment says
 * otherwise. */
#include "tokenizer_parts.h"

#include <string.h>

#include "base/unicode.h"

/* ---- Patterns ---- */

/* A pattern may not contain \C or begin with a verb such as (*LIMIT_MATCH=). No callout is set. */
Status pattern_compile(const char *pattern, size_t length, pcre2_code **out, Error *error) {
    size_t offset = 0;
    int code = 0, shown = length < 200 ? (int)length : 200;
    if (length >= 2 && memcmp(pattern, "(*", 2) == 0)
        return error_set(error, "tokenizer: pattern '%.*s' begins with a verb", shown, pattern);
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
        return error_set(error, "tokenizer: pattern '%.*s': at %zu: %s", shown, pattern, offset,
                         why);
    }
    pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* without JIT the interpreter does it */
    return STATUS_OK;
}

/* Finds the next match at or after m->at, which may be empty. Where the stack of PCRE2's JIT is too
 * small its interpreter tries again. */
static int pattern_next(const Matches *m, Scratch *s, size_t *from, size_t *to, Error *error) {
    PCRE2_SPTR text = (PCRE2_SPTR)m->span.bytes;
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int found = pcre2_match(m->code, text, m->span.length, m->at, options, s->match, s->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(m->code, text, m->span.length, m->at, options | PCRE2_NO_JIT, s->match,
                            s->context);
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

static int string_next(Matches *m, size_t *from, size_t *to) {
    const char *hit = m->string_length ? memmem(m->span.bytes + m->at, m->span.length - m->at,
                                                m->string, m->string_length)
                                       : NULL;
    if (!hit) return 0;
    *from = (size_t)(hit - m->span.bytes);
    m->at = *to = *from + m->string_length;
    return 1;
}

int matches_next(Matches *m, Scratch *scratch, size_t *from, size_t *to, Error *error) {
    if (!m->code) return string_next(m, from, to);
    while (m->at <= m->span.length) {
        int found = pattern_next(m, scratch, from, to, error);
        if (found <= 0) return found;
        bool empty = *from == *to, skip = empty && m->any && *to == m->last_end;
        uint32_t code;
        m->at = m->last_end = *to;
        if (empty)
            m->at += *to < m->span.length
                         ? utf8_next(m->span.bytes + *to, m->span.length - *to, &code)
                         : 1;
        m->any = true;
        if (!skip) return 1;
    }
    return 0;
}

Status replace_matches(Matches *m, Scratch *scratch, TextBuffer *out, const char *to,
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
 * behind the text. */
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
        size_t n = length = may_start ? added_find(e, &t->added_norm, in, at, true, &code) : 0;
        if (!length && flags & SPM_CHARSMAP)
            length = charsmap_replacement(t, to, in.length - at, &to, &n);
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

/* Appends what step i makes of *in; clears in->first where the first character goes. */
static Status normalize_step(Encoding *e, size_t i, TextBuffer *out, TextSpan *in) {
    const Tokenizer *t = e->tokenizer;
    const StepRecord *step = &t->normalizers.steps[i];
    size_t a_length, b_length;
    const char *a = section_text(t, step->a, &a_length), *b = section_text(t, step->b, &b_length);
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
        status = replace_matches(&matches, e->scratch, out, b, b_length, e->error);
        in->first = matches.span.first;
        return status;
    default:
        return normalize_characters(e, step, out, in);
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
        if (out->failed) return no_memory(e->error);
        span->bytes = out->bytes;
        span->from_template = out->tracked ? out->from_template : NULL;
        span->length = out->length;
    }
    return STATUS_OK;
}
