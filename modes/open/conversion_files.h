/* The names of conversions in the cache (conversion_cache.h), and the files that are there:
 *
 *     stories260K-0123456789abcdef0123456789abcdef.bin     a conversion: the source's name, a hash
 *     ... .tmp, ... .lock                                  while it is made */
#ifndef CONVERSION_FILES_H
#define CONVERSION_FILES_H

#include <sys/stat.h>

#include "formats/containers/source.h"

/* Writes the name of the conversion of an open source, without its ending, into name[size]. */
bool conversion_name(const Source *source, const char *type, char *name, size_t size);

/* A text that is another after any write to a file of the open source, even one that set the file's
 * times back; also after a rename, a new link or a chmod. It is not part of the conversion's name,
 * so that those make no new conversion. */
enum { CONVERSION_CHANGES = 17 };
void conversion_changes(const Source *source, char text[CONVERSION_CHANGES]);

/* Whether `name` still names the file that is open as fd. */
bool conversion_is_named(int fd, int dir_fd, const char *name);

/* Calls each(dir_fd, name, info, context) for the cache's files with this ending. False with errno
 * when the directory cannot be read; a directory that does not exist has no files. */
bool conversion_files_each(const char *directory, const char *ending,
                           void (*each)(int dir_fd, const char *name, const struct stat *info,
                                        void *context),
                           void *context);

/* Deletes the conversions that were longest unused until all together are within `limit` bytes,
 * with a line on stderr for each. A file that somebody reads stays: it is locked. */
void conversion_files_shrink(const char *directory, size_t limit);

/* Deletes what killed processes left behind; returns its bytes. */
double conversion_files_clean(const char *directory);

#endif
