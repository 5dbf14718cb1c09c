/* The user's cache of conversions: `run` keeps the model.bin that it makes of a model in another
 * format and uses it again.
 *
 * The name of a conversion holds a hash of everything that it depends on: path, size, modification
 * time and inode of every file of the source (and of a tokenizer given beside it), the type, and
 * the version of the model file. No file of the source is read to find it. A conversion appears
 * complete or not at all, and not when a file of its source was changed while it was read; of
 * several processes that want the same one, one converts and the others wait.
 *
 * A file may be overwritten in place and its times set back. Then the conversion of its former
 * bytes is found under the same name. A receipt, which names the source's bytes, asks for more: for
 * it a conversion is taken only if no file was written to since (conversion_changes), and else made
 * anew.
 *
 * The cache lies in --cache-dir, else where cache_directory.h says. Where that cannot be written,
 * or the conversion's lock belongs to another user, the conversion goes to an unlinked temporary
 * file and is gone afterwards. Where the disk has no room for it, or with --cache-dir none, it is
 * made in memory.
 *
 * With a limit a new conversion drops those that were longest unused, until all together are within
 * it. Whoever reads a conversion holds a shared lock on it, and such a file is not dropped. */
#ifndef CONVERSION_CACHE_H
#define CONVERSION_CACHE_H

#include <signal.h>
#include <stdio.h>

#include "modes/open/conversion_files.h"
#include "formats/containers/source.h"
#include "system/errand.h"

typedef struct ConversionSlot {
    int fd;           /* of the model.bin; -1 once the caller has taken it */
    bool found;       /* the conversion is complete; false: `fd` is empty and must be filled */
    char *directory;  /* of the cache; NULL: a temporary file */
    char *path;       /* of the conversion */
    char *partial;    /* of the file that is being written; NULL after conversion_cache_finish */
    Errand errand;    /* names or removes the new file, and removes the lock */
    int lock_fd;      /* held while this process converts; -1: not held */
    int memory_fd;    /* an empty file in memory, for a disk that is too full; -1: none */
    bool only_memory; /* --cache-dir none */
    char changes[CONVERSION_CHANGES]; /* of the source, noted of a new conversion */
    bool must_match; /* a conversion that notes other changes, or none, is made anew */
    size_t limit;    /* bytes of all conversions together; SIZE_MAX: no limit */
    size_t memory;   /* the bytes of memory that were free when the slot was opened */
} ConversionSlot;

/* Where conversions are kept. */
typedef struct ConversionPlace {
    const char *directory; /* --cache-dir; NULL: cache_directory.h's; "none": memory */
    const char *limit;     /* --cache-limit; NULL: $VERBATIM_CACHE_LIMIT, else none */
    bool for_receipt;      /* take only what was made of the source's present bytes */
} ConversionPlace;

/* Finds or begins the conversion of an open source. May wait for another process, with a line on
 * stderr; returns STATUS_INTERRUPTED when *cancel becomes nonzero meanwhile. */
Status conversion_cache_open(ConversionSlot *slot, const Source *source, const char *type,
                             const ConversionPlace *place, const volatile sig_atomic_t *cancel,
                             Error *error);

/* Reserves the bytes that the conversion will take, before it is filled. Where the disk or the
 * limit has no room for them it takes a file in memory instead, with a line on stderr that says
 * why; fails where memory has no room either. */
Status conversion_cache_reserve(ConversionSlot *slot, uint64_t bytes, Error *error);

/* For modes that do not read the weights: finds the conversion or else creates a file in memory, to
 * be filled by convert_description. Writes nothing to a disk. */
Status conversion_cache_find(ConversionSlot *slot, const Source *source, const char *type,
                             const char *cache_dir, Error *error);

/* Syncs the file, which the caller has filled, and gives it its name. Does nothing where there is
 * no file to be filled (slot->partial). */
Status conversion_cache_finish(ConversionSlot *slot, Error *error);

/* Closes and frees; deletes a conversion that was not finished. */
void conversion_cache_close(ConversionSlot *slot);

#endif
