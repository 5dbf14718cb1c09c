/* SHA-256 (FIPS 180-4), by which files that are published with it are recognized. */
#ifndef FORMATS_SHA256_H
#define FORMATS_SHA256_H

#include <stddef.h>

/* Writes the hash of bytes[n] as 64 lower-case hexadecimal digits and a NUL. */
void sha256_of(const void *bytes, size_t n, char hex[65]);

#endif
