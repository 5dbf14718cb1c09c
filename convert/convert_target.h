/* Where conversions are written: into files without a name, or into a path that is replaced. */
#ifndef CONVERT_TARGET_H
#define CONVERT_TARGET_H

#include "convert/convert.h"

/* Creates a file without a name in `directory`, for reading and writing; -1 with errno when that
 * fails. */
int convert_unlinked(const char *directory);
/* Like the function above, in the first directory where it works: `first` (NULL: none), $TMPDIR,
 * /var/tmp, /tmp. */
int convert_unlinked_anywhere(const char *first);

/* Converts into an unlinked temporary file, which vanishes with its last descriptor *fd: for
 * `bench`. The file is in run's cache of conversions (cache_directory.h), because there is room for
 * large files, else where convert_unlinked_anywhere puts it. */
Status convert_temporary(const char *source, const ConvertOptions *options, int *fd, Error *error);

/* Converts into `path`, which is replaced atomically: until the new file is complete and synced to
 * the disk there is the old file or none. */
Status convert_to_path(const char *source, const ConvertOptions *options, const char *path,
                       Error *error);

#endif
