/* What a conversion in the cache was made of, so that --list can tell people, and that a receipt
 * names the bytes that the weights were made of. It is kept in an extended attribute of the
 * conversion, which is named and deleted with it; where a file system has none, nothing is kept. */
#ifndef CONVERSION_ORIGIN_H
#define CONVERSION_ORIGIN_H

#include <stdbool.h>

typedef struct ConversionOrigin {
    const char *path; /* of the source; read back: absolute */
    const char *type, *tokenizer, *split_pattern,
        *family;         /* as on the command line; NULL: not given */
    const char *changes; /* conversion_changes of the source that was read; NULL: not noted */
    char bytes[8192];    /* holds the texts after conversion_origin_read */
} ConversionOrigin;

void conversion_origin_write(int fd, const ConversionOrigin *origin);

/* False when the file says nothing. */
bool conversion_origin_read(int fd, ConversionOrigin *origin);

#endif
