#include "tokenizer/normal_forms.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/array.h"
#include "base/unicode.h"
#include "tokenizer/unicode_ages.h"

typedef struct Codes {
    utf8proc_int32_t *codes;
    size_t length, capacity;
} Codes;

static bool codes_reserve(Codes *codes, size_t more) {
    return array_reserve(&codes->codes, &codes->capacity, codes->length + more,
                         sizeof *codes->codes);
}

static uint8_t combining_class(utf8proc_int32_t code) {
    return (uint8_t)utf8proc_get_property(code)->combining_class;
}

/* Sorts codes[n] by combining class and keeps the order of equal ones. Needs room[n]. */
static void sort_by_class(utf8proc_int32_t *codes, utf8proc_int32_t *room, size_t n) {
    size_t ends[256] = {0};
    for (size_t i = 0; i < n; i++) ends[combining_class(codes[i])]++;
    for (size_t c = 1; c < 256; c++) ends[c] += ends[c - 1];
    memcpy(room, codes, n * sizeof *codes);
    for (size_t i = n; i-- > 0;) codes[--ends[combining_class(room[i])]] = room[i];
}

/* Canonical ordering: sorts every run of combining marks by class. (utf8proc's own function takes
 * time quadratic in the run.) False when memory is short. */
static bool order_marks(Codes *codes) {
    for (size_t from = 0, to; from < codes->length; from = to + 1) {
        bool sorted = true;
        uint8_t last = 0, class;
        for (to = from; to < codes->length && (class = combining_class(codes->codes[to])); to++) {
            sorted = sorted && class >= last;
            last = class;
        }
        if (sorted) continue;
        if (!codes_reserve(codes, to - from)) return false;
        sort_by_class(codes->codes + from, codes->codes + codes->length, to - from);
    }
    return true;
}

/* Appends the form of in[n]; false when memory is short. */
static bool normalize_block(TextBuffer *out, Codes *codes, const char *in, size_t n,
                            uint8_t from_template, UnicodeForm form) {
    enum { LONGEST = 32 }; /* more than any character decomposes into */
    bool compatible = form == UNICODE_NFKC || form == UNICODE_NFKD;
    bool compose = form == UNICODE_NFC || form == UNICODE_NFKC;
    int how = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0);
    codes->length = 0;
    for (size_t at = 0; at < n;) {
        uint32_t code;
        int boundary = 0;
        at += utf8_next(in + at, n - at, &code);
        if (!codes_reserve(codes, LONGEST)) return false;
        utf8proc_ssize_t made =
            utf8proc_decompose_char((utf8proc_int32_t)code, codes->codes + codes->length, LONGEST,
                                    (utf8proc_option_t)how, &boundary);
        if (made > 0 && made <= LONGEST) codes->length += (size_t)made;
    }
    if (!order_marks(codes)) return false;
    utf8proc_ssize_t n_codes = (utf8proc_ssize_t)codes->length;
    if (compose)
        n_codes =
            utf8proc_normalize_utf32(codes->codes, n_codes, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    for (utf8proc_ssize_t i = 0; i < n_codes; i++)
        utf8_put(out, (uint32_t)codes->codes[i], from_template);
    return true;
}

/* The end of the text from `at` on that no form changes: a run of ASCII (without its last character
 * if a mark may follow), or one character newer than Unicode 9.0. `at` itself where there is none.
 */
static size_t unchanged_end(const char *in, size_t n, size_t at) {
    size_t end = at;
    uint32_t code;
    while (end < n && (uint8_t)in[end] < 0x80) end++;
    if (end == n || end > at + 1) return end == n ? n : end - 1;
    size_t length = utf8_next(in + at, n - at, &code);
    return unicode_newer_than_9(code) ? at + length : at;
}

/* The end of the character at `at` and of all characters that normalization might join to it. */
static size_t block_end(const char *in, size_t n, size_t at) {
    uint32_t code;
    size_t end = at + utf8_next(in + at, n - at, &code);
    while (end < n) {
        size_t length = utf8_next(in + end, n - end, &code);
        bool joins_nothing = code < 0x300 || (code >= 0x3400 && code < 0xA000);
        if (joins_nothing || unicode_newer_than_9(code)) break;
        end += length;
    }
    return end;
}

void normal_forms_apply(TextBuffer *out, const char *in, size_t n, const uint8_t *from_template,
                        UnicodeForm form) {
    Codes codes = {0};
    for (size_t at = 0, end; at < n && !out->failed; at = end) {
        end = unchanged_end(in, n, at);
        text_copy(out, in, from_template, at, end);
        if (end > at) continue;
        end = block_end(in, n, at);
        uint8_t all = text_all_from_template(from_template, at, end);
        if (!normalize_block(out, &codes, in + at, end - at, all, form)) out->failed = true;
    }
    free(codes.codes);
}
