/* Replacing a file as a whole, so that a full disk or a kill leaves the old file or the new one:
 *
 *     int fd = replace_file_begin(path, NULL, 0, REPLACE_FILE_USUAL, &temporary, error);
 *     ... write to fd ...
 *     if (status == STATUS_OK) status = replace_file_sync(fd, path, error);
 *     if (status == STATUS_OK) status = replace_file_rename(&temporary, path, error);
 *     replace_file_discard(&temporary);
 *
 * Every Error names `path`. */
#ifndef REPLACE_FILE_H
#define REPLACE_FILE_H

#include <sys/types.h>

#include "base/status.h"

enum {
    REPLACE_FILE_PRIVATE = 0600, /* what the program keeps: conversations, conversions */
    REPLACE_FILE_USUAL = 0666    /* what the user named: under the umask, as other programs write */
};

/* Creates a temporary file in the directory of `path`, open for reading and writing (and as `flags`
 * of open(2) say), with this mode under the umask. *temporary is its name, malloc'ed: `path`
 * followed by `ending`, or by ".PID.tmp" when that is NULL. A file of this name that a killed
 * process left is removed; a link is not followed. Returns the descriptor, or -1 with errno, an
 * Error and *temporary NULL. */
int replace_file_begin(const char *path, const char *ending, int flags, mode_t mode,
                       char **temporary, Error *error);

/* Syncs the temporary file to the disk. A file system that cannot sync is not an error. */
Status replace_file_sync(int fd, const char *path, Error *error);

/* Renames the temporary file to `path`, syncs the directory, and frees *temporary. */
Status replace_file_rename(char **temporary, const char *path, Error *error);

/* Like replace_file_rename, but fails when `path` exists already. */
Status replace_file_rename_new(char **temporary, const char *path, Error *error);

/* Removes the temporary file and frees its name, unless *temporary is NULL. */
void replace_file_discard(char **temporary);

/* The directory of `path`, with its final slash, or "." for a name alone; false: it does not fit
 * into directory[size]. */
bool replace_file_directory(const char *path, char *directory, size_t size);

/* Syncs the directory of `path`, so that a new name in it survives a power cut. */
void replace_file_sync_directory(const char *path);

#endif
