/* One formatted field, as '%5.2f' and '{:>5}' describe it: what both languages share. */
#ifndef TEMPLATE_FORMAT_H
#define TEMPLATE_FORMAT_H

#include "template/value.h"

typedef struct Spec {
    Text fill;         /* one character */
    char align;        /* '<' '>' '^', '=' (padding after the sign), or 0: the type's default */
    char sign;         /* '+' ' ' or '-' */
    bool alternate;    /* # */
    char group;        /* ',' '_' or 0 */
    int64_t width;     /* 0: none */
    int64_t precision; /* -1: none */
    char type;         /* 0: none */
} Spec;

void jinja_format_text(Machine *m, Builder *out, Text t,
                       const Spec *spec); /* cut to the precision */
void jinja_format_char(Machine *m, Builder *out, Value code,
                       const Spec *spec); /* an int as a character */
void jinja_format_int(Machine *m, Builder *out, Value v, const Spec *spec);
void jinja_format_float(Machine *m, Builder *out, Value v, const Spec *spec);

/* Reads decimal digits from *at on, which moves past them; 0 where there are none. */
int64_t jinja_read_digits(Machine *m, Text t, size_t *at);
bool jinja_is_one_of(uint8_t c, const char *set); /* strchr, but a NUL byte is in no set */

#endif
