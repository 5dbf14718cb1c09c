/* The file of a conversation (--session), and PATH.kv beside it. */
#ifndef SESSION_FILE_H
#define SESSION_FILE_H

#include <limits.h>

#include "base/status.h"

/* The files of --session: the conversation and its KV cache. Both are opened, and the first is
 * locked, before the program enters the sandbox. */
typedef struct SessionFile {
    const char *path;   /* borrowed; NULL: none */
    int fd;             /* -1: none */
    int kv_fd;          /* -1: not kept; the note of session_file_open says why */
    bool made, made_kv; /* session_file_open has created them */
} SessionFile;

#define SESSION_FILE_NONE ((SessionFile){.fd = -1, .kv_fd = -1})

/* Opens or creates both. Fails for a link, for a file of another user (who could then read it), and
 * when another process has it open. *note receives why there is no PATH.kv, or "". */
Status session_file_open(SessionFile *file, const char *path, Error *note, Error *error);
void session_file_close(SessionFile *file);

/* Removes those of the two files that session_file_open created and that are still empty: the disk
 * was full, the model did not run, or the file that was named is not a conversation. */
void session_file_remove_empty(const SessionFile *file);

/* Adds whole lines; after a failure the file is as before. */
Status session_file_append(const SessionFile *file, const char *text, size_t length, Error *error);

/* Replaces the file by a new one that holds `text` and is locked as the old one was; file->fd is
 * then the new file. */
Status session_file_replace(SessionFile *file, const char *text, size_t length, Error *error);

/* Renames the file to PATH.damaged (PATH.damaged.2 where that exists, and so on), its name in
 * aside. */
Status session_file_set_aside(const SessionFile *file, char aside[PATH_MAX], Error *error);

#endif
