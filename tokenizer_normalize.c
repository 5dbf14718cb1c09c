/* Patterns, replacement, and the normalizer steps of a section. Steps are named and behave as in
 * the tokenizers library (https://github.com/huggingface/tokenizers) unless their comment says
 * otherwise. */
#include "tokenizer_parts.h"

#include <string.h>
#include <utf8proc.h>

#include "base/unicode.h"
#include "base/unicode_ages.h"

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

/* ---- Added tokens ---- */

size_t added_find(const Encoding *e, const Trie *trie, TextSpan span, size_t at, bool any,
                  uint32_t *index) {
    const Tokenizer *t = e->tokenizer;
    size_t longest = 0, end = span.length;
    uint32_t node = 0;
    bool special_counts = true;
    if (utf8_continues(span.bytes[at])) return 0;
    if (end - at > t->header->max_added) end = at + t->header->max_added;
    for (size_t i = at; i < end; i++) {
        const PairSlot *slot = pair_find(&trie->table, node, (uint8_t)span.bytes[i]);
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

/* ---- Character by character ---- */

/* True for combining marks: general category M, or only Mn. The code points named here changed
 * their category after the Unicode versions of the library's tables. */
static bool is_accent(uint32_t c, bool nonspacing_only) {
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    bool nonspacing = category == UTF8PROC_CATEGORY_MN && c != 0x111C9;
    bool spacing = category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
    if (nonspacing_only)
        return c == 0x1734 || (nonspacing && !unicode_newer_than_8(c) && c != 0x1885 &&
                               c != 0x1886 && c != 0xA9BD);
    return c == 0x1CF2 || c == 0x1CF3 || ((nonspacing || spacing) && !unicode_newer_than_9(c));
}

/* True for the characters that BertNormalizer's clean_text drops. */
static bool is_control(uint32_t c) {
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    bool other = category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
                 category == UTF8PROC_CATEGORY_CO;
    if (c == '\t' || c == '\n' || c == '\r') return false;
    return c == 0 || c == 0xFFFD || (other && !unicode_newer_than_8(c));
}

static bool is_chinese(uint32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static bool nmt_drops(uint32_t c) {
    return (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
           c == 0x9F;
}

static bool nmt_is_space(uint32_t c) {
    return c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
           c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

/* Appends c as a step that works character by character changes it, or nothing. */
static void put_normalized(TextBuffer *out, const StepRecord *step, uint32_t c,
                           uint8_t from_template) {
    bool spaced = step->op == NORMALIZE_BERT_CHINESE && is_chinese(c), dropped = false;
    if (step->op == NORMALIZE_LOWERCASE) {
        if (c == 0x130) utf8_put(out, 'i', from_template); /* the one that becomes two */
        c = c == 0x130 ? 0x307 : (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    } else if (step->op == NORMALIZE_STRIP_ACCENTS) {
        dropped = is_accent(c, step->flags & 1);
    } else if (step->op == NORMALIZE_BERT_CLEAN) {
        dropped = is_control(c);
        if (unicode_is_space(c)) c = ' ';
    } else if (step->op == NORMALIZE_NMT) {
        dropped = nmt_drops(c);
        if (nmt_is_space(c)) c = ' ';
    }
    if (spaced) text_put(out, " ", 1, from_template);
    if (!dropped) utf8_put(out, c, from_template);
    if (spaced) text_put(out, " ", 1, from_template);
}

static void normalize_characters(TextBuffer *out, TextSpan *in, const StepRecord *step) {
    for (size_t at = 0, end; at < in->length && !out->failed; at = end) {
        uint32_t code;
        end = at + utf8_next(in->bytes + at, in->length - at, &code);
        put_normalized(out, step, code, text_all_from_template(in->from_template, at, end));
        if (at == 0 && out->length == 0) in->first = false;
    }
}

/* ---- Whole texts ---- */

static void strip(TextBuffer *out, TextSpan *in, bool left, bool right) {
    size_t from = 0, to = in->length;
    uint32_t code;
    while (left && from < to) {
        size_t length = utf8_next(in->bytes + from, to - from, &code);
        if (!unicode_is_space(code)) break;
        from += length;
        in->first = false;
    }
    while (right && to > from) {
        size_t last = utf8_previous(in->bytes, to);
        utf8_next(in->bytes + last, to - last, &code);
        if (last < from || !unicode_is_space(code)) break;
        to = last;
    }
    text_copy(out, in->bytes, in->from_template, from, to);
}

/* The end of the grapheme cluster that starts at `at`. */
static size_t cluster_end(TextSpan in, size_t at) {
    uint32_t code, next;
    utf8proc_int32_t state = 0;
    size_t end = at + utf8_next(in.bytes + at, in.length - at, &code);
    for (; end < in.length; code = next) {
        size_t length = utf8_next(in.bytes + end, in.length - end, &next);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)code, (utf8proc_int32_t)next,
                                             &state))
            break;
        end += length;
    }
    return end;
}

/* Applies a character map as the tokenizers library does: a grapheme cluster of less than 6 bytes
 * is replaced as a whole if any key is a prefix of it (the shortest one counts); otherwise each of
 * its characters is looked up. */
static void apply_charsmap(const Charsmap *map, TextBuffer *out, TextSpan in) {
    for (size_t at = 0; at < in.length && !out->failed;) {
        size_t cluster = cluster_end(in, at), n;
        const char *to = in.bytes + at;
        if (cluster - at < 6 && charsmap_find(map, to, cluster - at, true, &to, &n)) {
            text_put(out, to, n, text_all_from_template(in.from_template, at, cluster));
            at = cluster;
        }
        for (size_t end; at < cluster; at = end) {
            uint32_t code;
            to = in.bytes + at;
            n = utf8_next(to, cluster - at, &code);
            end = at + n;
            charsmap_find(map, to, n, true, &to, &n);
            text_put(out, to, n, text_all_from_template(in.from_template, at, end));
        }
    }
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
            length = charsmap_find(&t->charsmap, to, in.length - at, false, &to, &n);
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

/* Appends what step i makes of *in; clears in->first where the first character goes. */
static Status normalize_step(Encoding *e, size_t i, TextBuffer *out, TextSpan *in) {
    const Tokenizer *t = e->tokenizer;
    const StepRecord *step = &t->normalizers.steps[i];
    size_t a_length, b_length;
    const char *a = section_text(t, step->a, &a_length), *b = section_text(t, step->b, &b_length);
    Matches matches = {*in, t->normalizers.patterns[i], a, a_length, 0, 0, false};
    Status status;
    switch (step->op) {
    case NORMALIZE_NFC:
    case NORMALIZE_NFD:
    case NORMALIZE_NFKC:
    case NORMALIZE_NFKD:
        unicode_normalize(out, in->bytes, in->length, in->from_template,
                          (UnicodeForm)(step->op - NORMALIZE_NFC));
        return STATUS_OK;
    case NORMALIZE_STRIP:
        strip(out, in, step->flags & 1, step->flags & 2);
        return STATUS_OK;
    case NORMALIZE_CHARSMAP:
        apply_charsmap(&t->charsmap, out, *in);
        return STATUS_OK;
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
        normalize_characters(out, in, step);
        return STATUS_OK;
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
