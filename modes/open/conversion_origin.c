#include "modes/open/conversion_origin.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/xattr.h>

static const char attribute[] = "user.verbatim.source";

enum { PARTS = 6 };

/* Appends a text and its NUL; false: no room. */
static bool origin_put(char *bytes, size_t size, size_t *length, const char *text) {
    size_t n = text ? strlen(text) + 1 : 1;
    if (n > size - *length) return false;
    memcpy(bytes + *length, text ? text : "", n);
    *length += n;
    return true;
}

/* Keeps the origin in an extended attribute of the file, with absolute paths. Without such
 * attributes, or when the texts are too long for them, nothing is kept. */
void conversion_origin_write(int fd, const ConversionOrigin *origin) {
    char bytes[sizeof origin->bytes];
    size_t length = 0;
    char *path = realpath(origin->path, NULL);
    char *tokenizer = origin->tokenizer ? realpath(origin->tokenizer, NULL) : NULL;
    char *family = origin->family ? realpath(origin->family, NULL) : NULL;
    const char *const parts[PARTS] = {path ? path : origin->path,
                                      origin->type,
                                      tokenizer ? tokenizer : origin->tokenizer,
                                      origin->split_pattern,
                                      family ? family : origin->family,
                                      origin->changes};
    bool fits = true;
    for (int i = 0; i < PARTS; i++)
        fits = fits && origin_put(bytes, sizeof bytes, &length, parts[i]);
    if (fits && fsetxattr(fd, attribute, bytes, length, 0) != 0) length = 0; /* nothing is kept */
    free(path);
    free(tokenizer);
    free(family);
}

bool conversion_origin_read(int fd, ConversionOrigin *origin) {
    ssize_t length = fgetxattr(fd, attribute, origin->bytes, sizeof origin->bytes - 1);
    const char *parts[PARTS], *at = origin->bytes;
    if (length <= 0) return false;
    origin->bytes[length] = '\0';
    for (int i = 0; i < PARTS; i++) {
        if (at > origin->bytes + length) return false;
        parts[i] = *at ? at : NULL;
        at += strlen(at) + 1;
    }
    origin->path = parts[0];
    origin->type = parts[1];
    origin->tokenizer = parts[2];
    origin->split_pattern = parts[3];
    origin->family = parts[4];
    origin->changes = parts[5];
    return origin->path != NULL;
}
