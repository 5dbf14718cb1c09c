#include "system/word_wrap.h"

#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

static bool is_fence(const WordWrap *w) {
    return w->n_beginning >= 3 &&
           (memcmp(w->beginning, "```", 3) == 0 || memcmp(w->beginning, "~~~", 3) == 0);
}

/* Whether the line is code or a row of a table, as far as its beginning tells. */
static bool is_kept(const WordWrap *w) {
    char first = w->n_beginning > 0 ? w->beginning[0] : '\0';
    bool item = first != '\0' && strchr("-*+0123456789", first);
    return w->fence || is_fence(w) || first == '|' || (w->indent >= 4 && !item);
}

/* The columns of the last character of bytes[length], which is complete; 0 for one that is not. */
static size_t last_columns(const char *bytes, size_t length) {
    uint32_t code;
    size_t start = utf8_previous(bytes, length);
    if (utf8_decode(bytes + start, length - start, &code) != length - start) return 0;
    return code < 0x20 ? 2 : (size_t)utf8proc_charwidth((utf8proc_int32_t)code); /* "^[" */
}

/* Writes the word that waits, on a line of its own if it does not fit after the blanks. A word
 * that fills a line by itself is left to the terminal. */
static void put_word(WordWrap *w, size_t columns, TextBuffer *out) {
    if (w->word.length == 0) return;
    bool breaks = columns > 0 && !is_kept(w) && w->column > 0 && w->word_columns <= columns &&
                  w->column + w->blank_columns + w->word_columns > columns;
    if (breaks) {
        text_put(out, "\n", 1, 0);
        w->column = 0;
    } else {
        text_put(out, w->blanks.bytes, w->blanks.length, 0);
        w->column += w->blank_columns;
    }
    text_put(out, w->word.bytes, w->word.length, 0);
    w->column += w->word_columns;
    if (columns > 0 && w->column > columns) w->column %= columns;
    w->blanks.length = w->blank_columns = w->word.length = w->word_columns = 0;
}

static void end_line(WordWrap *w, size_t columns, TextBuffer *out) {
    put_word(w, columns, out);
    text_put(out, w->blanks.bytes, w->blanks.length, 0);
    text_put(out, "\n", 1, 0);
    if (is_fence(w) && (!w->fence || w->fence == w->beginning[0]))
        w->fence = w->fence ? '\0' : w->beginning[0];
    w->blanks.length = w->blank_columns = w->column = w->n_beginning = w->indent = 0;
    w->beyond_indent = false;
}

/* Learns what kind of line this is. */
static void note_beginning(WordWrap *w, char c) {
    bool blank = c == ' ' || c == '\t';
    if (blank && !w->beyond_indent) w->indent += c == '\t' ? 8 : 1;
    if (!blank) w->beyond_indent = true;
    if (w->beyond_indent && w->n_beginning < sizeof w->beginning)
        w->beginning[w->n_beginning++] = c;
}

void word_wrap_put(WordWrap *w, const char *text, size_t length, size_t columns, TextBuffer *out) {
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '\n') {
            end_line(w, columns, out);
            continue;
        }
        note_beginning(w, c);
        if (c == ' ' || c == '\t') {
            put_word(w, columns, out);
            size_t at = w->column + w->blank_columns;
            text_put(&w->blanks, &c, 1, 0);
            w->blank_columns += c == '\t' ? 8 - at % 8 : 1;
            continue;
        }
        text_put(&w->word, &c, 1, 0);
        if (w->word.failed) return;
        size_t n = last_columns(w->word.bytes, w->word.length);
        w->word_columns += n;
        /* A line may end after any character of a script without blanks. */
        if (n == 2 && (unsigned char)c >= 0x80) put_word(w, columns, out);
    }
    if (columns == 0 || is_kept(w)) word_wrap_flush(w, columns, out);
}

void word_wrap_flush(WordWrap *w, size_t columns, TextBuffer *out) {
    put_word(w, columns, out);
    text_put(out, w->blanks.bytes, w->blanks.length, 0);
    w->column += w->blank_columns;
    w->blanks.length = w->blank_columns = 0;
}

void word_wrap_free(WordWrap *w) {
    text_free(&w->blanks);
    text_free(&w->word);
}
