/* Telling compressed files by their first bytes, so that a message can name what unpacks them. */
#ifndef SYSTEM_COMPRESSION_H
#define SYSTEM_COMPRESSION_H

#include <stddef.h>

typedef struct Compression {
    const char *name;    /* "gzip" */
    const char *command; /* writes the unpacked file to a pipe: "zcat" */
} Compression;

/* How a file that begins with these bytes is compressed; NULL: in no way that is known. */
const Compression *compression_of(const char *bytes, size_t length);

#endif
