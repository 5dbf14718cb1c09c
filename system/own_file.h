/* Opening a file to write to, in directories that other users can write to as well. */
#ifndef OWN_FILE_H
#define OWN_FILE_H

#include "base/status.h"

/* Whether `path` is a link or a named pipe that a user other than this one or root made: in a
 * directory that all users can write to it may be a trap. OWN_FILE_PLANTED is the format of the
 * Error, given the path. */
bool own_file_is_planted(const char *path);
#define OWN_FILE_PLANTED "%s: a link or a pipe of another user, which is not written to"

/* Whether `path` is one of the kernel's names for an open file (/dev/stdout, /dev/fd/63), which no
 * other file can take the place of. */
bool own_file_is_descriptor(const char *path);

/* Opens `path` with `flags` of open(2); with O_CREAT a new file gets mode 0666 under the umask.
 * What was opened is what was checked, whatever others rename, link or remove meanwhile: a regular
 * file that existed must belong to the user, a pipe to the user or root, and symbolic links are
 * followed only when they belong to the user or root. Returns -1 with errno and an Error that names
 * `path`. */
int own_file_open(const char *path, int flags, Error *error);

#endif
