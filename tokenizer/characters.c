/* Normalizer steps that change characters by their Unicode properties or by a model's own table of
 * characters. Steps are named and behave as in the tokenizers library. */
#include "tokenizer/characters.h"

#include <string.h>
#include <utf8proc.h>

#include "base/unicode.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/normal_forms.h"
#include "tokenizer/unicode_ages.h"

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

static void each_character(TextBuffer *out, TextSpan *in, const StepRecord *step) {
    for (size_t at = 0, end; at < in->length && !out->failed; at = end) {
        uint32_t code;
        end = at + utf8_next(in->bytes + at, in->length - at, &code);
        put_normalized(out, step, code, text_all_from_template(in->from_template, at, end));
        if (at == 0 && out->length == 0) in->first = false;
    }
}

/* ---- Whole texts ---- */

static void characters_strip(TextBuffer *out, TextSpan *in, bool left, bool right) {
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

static Charsmap charsmap_of(const Tokenizer *t) {
    Charsmap map = {0};
    if (t->charsmap) charsmap_open(&map, t->charsmap, t->charsmap_bytes);
    return map;
}

static bool charsmap_is_sound(const void *bytes, size_t n) {
    Charsmap map;
    return charsmap_open(&map, bytes, n);
}

static size_t charsmap_replacement(const Tokenizer *t, const char *text, size_t n, const char **to,
                                   size_t *to_length) {
    const Charsmap map = charsmap_of(t);
    return charsmap_find(&map, text, n, false, to, to_length);
}

/* Takes a normalizer step that knows properties of characters: appends to *out what it makes of
 * *in. */
static Status characters_normalize(Encoding *e, const StepRecord *step, TextBuffer *out,
                                   TextSpan *in) {
    const Charsmap map = charsmap_of(e->tokenizer);
    switch (step->op) {
    case NORMALIZE_NFC:
    case NORMALIZE_NFD:
    case NORMALIZE_NFKC:
    case NORMALIZE_NFKD:
        normal_forms_apply(out, in->bytes, in->length, in->from_template,
                           (UnicodeForm)(step->op - NORMALIZE_NFC));
        break;
    case NORMALIZE_STRIP:
        characters_strip(out, in, step->flags & 1, step->flags & 2);
        break;
    case NORMALIZE_CHARSMAP:
        apply_charsmap(&map, out, *in);
        break;
    default:
        each_character(out, in, step);
    }
    return STATUS_OK;
}

const Characters characters = {
    .normalize = characters_normalize,
    .charsmap_replacement = charsmap_replacement,
    .charsmap_is_sound = charsmap_is_sound,
};
