/* The user's cache of conversions: what `run` makes of a model in another format is kept and
 * used again.
 *
 * A conversion's name holds a hash of all that it depends on: path, size, modification time and
 * inode of every file of the source (and of a tokenizer given beside it), the type, and the
 * version of the model file. Nothing of a source is read to find it. A conversion appears whole
 * or not at all; of several processes that want the same one, one converts and the others wait.
 *
 * The cache lies in --cache-dir, else where cache_directory.h says. Where that cannot be written,
 * the conversion goes to an unlinked temporary file and is gone afterwards. */
#ifndef CONVERSIONS_H
#define CONVERSIONS_H

#include <signal.h>
#include <stdio.h>

#include "formats/source.h"

typedef struct ConversionSlot {
    int fd;          /* of the model.bin; -1 once the caller has taken it */
    bool found;      /* it is whole; otherwise it is empty and waits to be filled */
    char *directory; /* NULL: a temporary file */
    char *path;      /* of the conversion, and until conversions_finish ... */
    char *partial;   /* ... of what is being written */
    int lock_fd;
} ConversionSlot;

/* Finds or begins the conversion of an open source. May wait for another process: it says so on
 * stderr, and gives STATUS_INTERRUPTED when *cancel becomes nonzero meanwhile. */
Status conversions_open(ConversionSlot *slot, const Source *source, const char *type,
                        const char *cache_dir, const volatile sig_atomic_t *cancel, Error *error);

/* For a look at a model whose weights nobody will read: the conversion if it is there, else a
 * nameless file in memory, to be filled by convert_description. Nothing is written to a disk. */
Status conversions_find(ConversionSlot *slot, const Source *source, const char *type,
                        const char *cache_dir, Error *error);

/* The file has been filled: syncs it and gives it its name. */
Status conversions_finish(ConversionSlot *slot, Error *error);

/* Frees; what was not finished vanishes. */
void conversions_close(ConversionSlot *slot);

/* Name, size and time of every conversion, and their sum. */
Status conversions_list(FILE *out, const char *cache_dir, Error *error);
/* Deletes them all, and says how much room that made. */
Status conversions_clear(FILE *out, const char *cache_dir, Error *error);

#endif
