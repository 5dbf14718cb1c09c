/* Words and lines of a page (family_page.h), and errors that name their line and column. A page may
 * be a stranger's: nothing here reads past its end, and every text that is kept is copied. */
#ifndef FORMATS_FAMILY_PAGE_TEXT_H
#define FORMATS_FAMILY_PAGE_TEXT_H

#include <stdint.h>

#include "base/status.h"

enum { PAGE_BYTES = 1 << 16, PAGE_LINE = 512, PAGE_WORD = 96, PAGE_POOL = 1 << 16 };

/* Texts that outlive the page's own. */
typedef struct PagePool {
    char bytes[PAGE_POOL];
    size_t used;
} PagePool;

/* A copy of the text with a NUL; NULL: the pool is full. */
const char *page_keep(PagePool *pool, const char *text, size_t bytes);

typedef struct PageText {
    const char *name; /* for errors */
    const char *text;
    bool is_program;       /* the page is the program's, not a stranger's */
    size_t bytes, at;      /* `at`: where the next line begins */
    unsigned line;         /* number of the present one, from 1 */
    char words[PAGE_LINE]; /* the present line without its comment */
    size_t word;           /* where in it the next word is looked for */
    size_t last;           /* where the last word began: errors name this column */
    size_t cut;            /* 1 + where a word of the line began that was too long; 0: none was */
    Error *error;
} PageText;

/* Goes to the next line that has a word; *found = false at the end. Fails where a line is too long
 * or holds a character that no line has, and where page_word has cut a word of the line before. */
Status page_line(PageText *t, bool *found);

/* Takes the next word; false, and an empty word, where there is none. A word that is too long is
 * cut short, and the next page_line fails. */
bool page_word(PageText *t, char word[PAGE_WORD]);

/* Whether a word is left; looks without taking it. */
bool page_more(PageText *t);

/* Takes what is left of the line, without spaces at its ends. */
const char *page_rest(PageText *t);

/* Sets the error: name, line and column of the last word, and the message. Returns STATUS_FAILED.
 */
Status page_fail(PageText *t, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
