/* The names of the other programs, as they are called where this one is: in a checkout ./export and
 * ./get, installed beside `verbatim` verbatim-export and verbatim-get. */
#ifndef PROGRAM_NAME_H
#define PROGRAM_NAME_H

#include <stddef.h>

/* Writes a message that names ./export or ./get with the names that they have here; cut to `size`
 * bytes. */
void program_names_put(const char *message, char *out, size_t size);

#endif
