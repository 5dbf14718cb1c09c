/* Strings of the interpreter: UTF-8 with one flag for each byte, which says whether the template
 * wrote the byte or a message did. A Text is never changed once it is made, so cutting one shares
 * its bytes; everything that makes new bytes goes through a Builder. A Text is well-formed
 * UTF-8, apart from parts of a character on their way into a Builder. A Builder's memory is the
 * machine's, which frees it all at once, and a lack of it ends the rendering; base/text.h has the
 * TextBuffer for what outlives one. */
#ifndef TEMPLATE_JINJA_TEXT_H
#define TEMPLATE_JINJA_TEXT_H

#include "template/jinja_machine.h"

/* The two values of every `from_template` flag. A value made of several parts comes from the
 * template only if all its parts do, so flags are combined with `&`. */
enum { FROM_MESSAGE = 0, FROM_TEMPLATE = 1 };

typedef struct Text {
    const uint8_t *bytes;
    const uint8_t *from_template; /* [length] FROM_MESSAGE or FROM_TEMPLATE */
    size_t length;
} Text;

/* Text that is being written. */
typedef struct Builder {
    uint8_t *bytes;
    uint8_t *from_template;
    size_t length;
    size_t capacity;
} Builder;

Text jinja_text_c(Machine *m,
                  const char *s); /* a C string of the interpreter's own: from the template */
Text jinja_text_fill(Machine *m, const char *bytes, size_t length,
                     uint8_t from_template);         /* a copy */
Text jinja_text_cut(Text t, size_t from, size_t to); /* byte offsets */
bool jinja_text_is(Text t, const char *s);
bool jinja_text_equal(Text a, Text b);
int jinja_text_compare(Text a, Text b);   /* -1, 0 or 1, by code points */
uint8_t jinja_text_from_template(Text t); /* FROM_TEMPLATE if all of it is */
int jinja_text_shown(Text t);             /* its length for "%.*s" in an error, at most 80 */

uint32_t jinja_text_char(Text t, size_t at,
                         size_t *size); /* the code point at a byte offset; *size: its bytes */
size_t jinja_text_before(Text t, size_t end); /* start of the character that ends at `end` */
size_t jinja_text_count(Machine *m, Text t);  /* code points */
size_t jinja_text_offset(Machine *m, Text t,
                         size_t index); /* byte offset of the index-th code point */

/* The end of the line that begins at `at`; *next: the start of the next line, equal to the end
 * where no line end follows. \r\n is one line end. */
size_t jinja_text_line(Text t, size_t at, size_t *next);

/* Byte offset of the first (last) `needle` in [from, t.length], or SIZE_MAX. */
size_t jinja_text_find(Machine *m, Text t, Text needle, size_t from);
size_t jinja_text_find_last(Machine *m, Text t, Text needle);
bool jinja_text_starts(Text t, Text prefix);
bool jinja_text_ends(Text t, Text suffix);

/* Stores the part of *rest before the first separator in *part, and cuts part and separator off
 * *rest. Returns false where no separator is left: *part is then all of *rest. */
bool jinja_text_next_part(Machine *m, Text *rest, const char *separator, Text *part);

enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };
Text jinja_text_strip(Machine *m, Text t, int sides);                           /* white space */
Text jinja_text_strip_chars(Machine *m, Text t, Text chars, int sides);         /* any of `chars` */
Text jinja_text_replace(Machine *m, Text t, Text old, Text new, int64_t count); /* -1: all */
Text jinja_text_escape(Machine *m, Text t);                                     /* HTML */
Text jinja_text_pad(Machine *m, Text t, Text fill, int64_t left,
                    int64_t right); /* counts of `fill` */
Text jinja_text_center(Machine *m, Text t, Text fill, int64_t width);

/* Append to a builder. */
void jinja_build(Machine *m, Builder *b, Text t);
void jinja_build_bytes(Machine *m, Builder *b, const void *bytes, size_t length,
                       uint8_t from_template);
void jinja_build_c(Machine *m, Builder *b, const char *s, uint8_t from_template);
void jinja_build_char(Machine *m, Builder *b, uint32_t c, uint8_t from_template);
void jinja_build_repeat(Machine *m, Builder *b, Text t, int64_t times); /* nothing if times < 1 */
Text jinja_built(const Builder *b);

#endif
