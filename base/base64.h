/* Base64 (RFC 4648). */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* The value of a digit; -1: not one. */
int base64_value(char c);

/* Writes bytes[n] as base64 to text[(n + 2) / 3 * 4], without a NUL, and returns its length. */
size_t base64_encode(const void *bytes, size_t n, char *text);

/* Decodes text[n] to bytes[n / 4 * 3], of which *length are used. Returns false if the text is not
 * base64 with its padding. */
bool base64_decode(const char *text, size_t n, char *bytes, size_t *length);

#endif
