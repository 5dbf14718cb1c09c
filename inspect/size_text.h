/* Bytes as people read them. */
#ifndef SIZE_TEXT_H
#define SIZE_TEXT_H

#include <stddef.h>

/* "1.5 GiB", written into text[size], which it returns. */
const char *size_text(double bytes, char *text, size_t size);

#endif
