/* The files of a source: opened once, then read by offset.
 *
 * Headers are parsed in a private read-only mapping. Weights are read with pread, so that the
 * memory in use stays bounded and a file that shrinks meanwhile is an error instead of a signal. */
#ifndef FORMATS_CONTAINERS_INPUT_H
#define FORMATS_CONTAINERS_INPUT_H

#include <stdint.h>
#include <string.h>

#include "base/status.h"

/* What the system notes of a file beside its size. Whoever writes can set `modified` back,
 * `changed` not: the system sets it to its own time with every write (and every rename, link and
 * chmod). */
typedef struct InputStamp {
    uint64_t device, inode;
    int64_t modified[2], changed[2]; /* seconds, nanoseconds */
} InputStamp;

/* What a new hard link, chmod and chown change of a file together with `changed`. A write changes
 * none of it: the permission bits alone count, as a write clears a set-user-ID bit. */
typedef struct InputAccess {
    uint64_t links, permissions, owner, group;
} InputAccess;

typedef struct InputFile {
    char *path; /* for messages; owned */
    int fd;
    uint64_t bytes;
    InputStamp stamp; /* when it was opened, as `bytes` and `access` */
    InputAccess access;
    const uint8_t *map; /* the whole file, NULL for an empty one */
} InputFile;

/* Opens a regular file that is not empty. The Error begins with the path. */
Status input_open(InputFile *file, const char *path, Error *error);
/* Like the function above, for a file that is already open; takes ownership of `fd`, even when it
 * fails. */
Status input_adopt(InputFile *file, const char *path, int fd, Error *error);
void input_close(InputFile *file);

/* Reads exactly `bytes` bytes from `offset` into `out`. */
Status input_read(const InputFile *file, uint64_t offset, void *out, size_t bytes, Error *error);

/* Fails when the file was changed since it was opened: what was read may mix two versions. If size
 * and time of modification are as before, `changed` alone says that it was written to (cp -p and
 * rsync set the other time back), and it counts unless InputAccess tells what changed it: a backup
 * that links files, or chmod, leaves the bytes alone. So a write is missed if somebody also set its
 * time back and linked, chmodded or chowned the file meanwhile. A write within the same tick of the
 * system's clock (some milliseconds) as the last one before the opening is not seen. */
Status input_check_unchanged(const InputFile *file, Error *error);

/* True when `text`, the name of a file or tensor, ends with `end`. */
static inline bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && memcmp(text + n - m, end, m) == 0;
}

#endif
