/* What --version says. */
#ifndef SESSION_VERSIONS_H
#define SESSION_VERSIONS_H

#include <stddef.h>
#include <stdio.h>

/* Writes "PCRE2 10.42 (Unicode 14.0.0, JIT), utf8proc 2.6.0 (Unicode 14.0.0)" into text[size]. Only
 * for code points newer than these versions may ids differ from the reference tokenizers'. */
void versions_of_libraries(char *text, size_t size);

/* Prints "verbatim 0.1" and the libraries, a line each. */
void versions_print(FILE *out);

#endif
