/* Breaks the lines of a text that arrives in pieces at words, before a terminal breaks them at its
 * margin. Nothing is written twice: the last word waits until it is known to end. Code (between
 * fences, or indented by four columns or a tab and no item of a list) and tables stay as they are.
 */
#ifndef WORD_WRAP_H
#define WORD_WRAP_H

#include <stdbool.h>

#include "base/text.h"

/* Zero-initialize; word_wrap_free frees. */
typedef struct WordWrap {
    size_t column;              /* where the terminal's cursor stands */
    size_t word_columns;        /* of `word` */
    size_t blank_columns;       /* of `blanks` */
    TextBuffer blanks, word;    /* wait to be written */
    char beginning[4];          /* the first bytes of the line, without its indent */
    size_t n_beginning, indent; /* of the line, in columns */
    bool beyond_indent;
    char fence; /* of the code that goes on: between two lines of ``` or ~~~; 0: none */
} WordWrap;

/* Appends to `out` what can be written of text[length] (UTF-8; a character may come in pieces) on a
 * terminal of so many columns; 0: all of it, as it is. */
void word_wrap_put(WordWrap *wrap, const char *text, size_t length, size_t columns,
                   TextBuffer *out);
/* Appends what waits. */
void word_wrap_flush(WordWrap *wrap, size_t columns, TextBuffer *out);
void word_wrap_free(WordWrap *wrap);

#endif
