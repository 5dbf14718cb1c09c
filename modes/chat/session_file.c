#include "modes/chat/session_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "system/descriptor.h"
#include "system/replace_file.h"

/* Whether the file belongs to a user other than this one or root, who could then read it: it may
 * lie in a directory that all users can write to. */
static bool is_foreign(int fd) {
    struct stat info;
    return fstat(fd, &info) == 0 && info.st_uid != geteuid() && info.st_uid != 0;
}

/* Opens or creates a file; *made: it is new. Returns -1 with errno. */
static int open_or_make(const char *path, int flags, bool *made) {
    flags |= O_RDWR | O_CLOEXEC | O_NOFOLLOW;
    int fd = open(path, flags | O_CREAT | O_EXCL, 0600);
    *made = fd >= 0;
    return fd >= 0 || errno != EEXIST ? fd : open(path, flags | O_CREAT, 0600);
}

static bool kv_path(const char *session, char path[PATH_MAX]) {
    return snprintf(path, PATH_MAX, "%s.kv", session) < PATH_MAX;
}

/* A failure costs time only, and `note` says so. */
static int open_kv(const char *session, bool *made, Error *note) {
    char path[PATH_MAX];
    if (!kv_path(session, path)) return -1;
    int fd = open_or_make(path, 0, made);
    if (fd >= 0 && !is_foreign(fd)) return fd;
    error_set(note, "%s: %s", path, fd < 0 ? strerror(errno) : "belongs to another user");
    if (fd >= 0) close(fd);
    return -1;
}

/* True if the file could be locked. A chat's courier holds the lock as well (one description of the
 * file), and outlives a chat that was killed until it reads the end of its pipe: a lock that is let
 * go within this time was held by nobody else. */
static bool lock_soon(int fd) {
    enum { TRIES = 100, WAIT_NS = 20 * 1000 * 1000 };
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK && errno != EINTR) return false;
        if (i == TRIES) return false;
        nanosleep(&(struct timespec){0, WAIT_NS}, NULL);
    }
    return true;
}

Status session_file_open(SessionFile *file, const char *path, Error *note, Error *error) {
    *file = (SessionFile){.path = path, .fd = -1, .kv_fd = -1};
    note->text[0] = '\0';
    file->fd = open_or_make(path, O_APPEND, &file->made);
    Status status = STATUS_OK;
    if (file->fd < 0) {
        status = error_set(error, "%s: cannot open: %s", path,
                           errno == ELOOP ? "it is a symbolic link" : strerror(errno));
    } else if (is_foreign(file->fd)) {
        status = error_set(error, "%s: belongs to another user", path);
    } else if (!lock_soon(file->fd)) {
        status = error_set(error, "%s: another process has this conversation open", path);
    } else {
        file->kv_fd = open_kv(path, &file->made_kv, note);
    }
    if (status != STATUS_OK) session_file_close(file);
    return status;
}

void session_file_close(SessionFile *file) {
    if (file->fd >= 0) close(file->fd);
    if (file->kv_fd >= 0) close(file->kv_fd);
    *file = SESSION_FILE_NONE;
}

/* Removes `path` if it still names the file of this descriptor, which holds nothing. */
static void remove_empty(const char *path, int fd) {
    struct stat opened, named;
    if (fstat(fd, &opened) == 0 && opened.st_size == 0 && lstat(path, &named) == 0 &&
        named.st_dev == opened.st_dev && named.st_ino == opened.st_ino)
        unlink(path);
}

void session_file_remove_empty(const SessionFile *file) {
    char path[PATH_MAX];
    if (file->made) remove_empty(file->path, file->fd);
    if (file->made_kv && kv_path(file->path, path)) remove_empty(path, file->kv_fd);
}

static Status write_all(int fd, const char *path, const char *text, size_t length, Error *error) {
    if (descriptor_write(fd, text, length) == length) return STATUS_OK;
    return error_set(error, "%s: cannot be written: %s", path, strerror(errno));
}

Status session_file_append(const SessionFile *file, const char *text, size_t length, Error *error) {
    off_t end = lseek(file->fd, 0, SEEK_END);
    Status status = write_all(file->fd, file->path, text, length, error);
    if (status == STATUS_OK && fdatasync(file->fd) != 0 && errno != EINVAL)
        status = error_set(error, "%s: cannot sync: %s", file->path, strerror(errno));
    /* Removes what was written of the line; the next line must not follow half a line. */
    if (status != STATUS_OK && end >= 0 && ftruncate(file->fd, end) != 0) errno = 0;
    return status;
}

Status session_file_replace(SessionFile *file, const char *text, size_t length, Error *error) {
    char *temporary;
    int fd =
        replace_file_begin(file->path, NULL, O_APPEND, REPLACE_FILE_PRIVATE, &temporary, error);
    if (fd < 0) return STATUS_FAILED;
    Status status = write_all(fd, file->path, text, length, error);
    if (status == STATUS_OK) status = replace_file_sync(fd, file->path, error);
    if (status == STATUS_OK && flock(fd, LOCK_EX | LOCK_NB) != 0)
        status = error_set(error, "%s: cannot lock: %s", file->path, strerror(errno));
    if (status == STATUS_OK) status = replace_file_rename(&temporary, file->path, error);
    replace_file_discard(&temporary);
    close(status == STATUS_OK ? file->fd : fd);
    if (status == STATUS_OK) file->fd = fd;
    return status;
}

Status session_file_set_aside(const SessionFile *file, char aside[PATH_MAX], Error *error) {
    struct stat info;
    int n = snprintf(aside, PATH_MAX, "%s.damaged", file->path);
    for (int i = 2; n < PATH_MAX && i < 1000 && lstat(aside, &info) == 0; i++)
        n = snprintf(aside, PATH_MAX, "%s.damaged.%d", file->path, i);
    if (n >= PATH_MAX) return error_set(error, "%s: the path is too long", file->path);
    if (rename(file->path, aside) != 0)
        return error_set(error, "%s: cannot keep a copy: %s", aside, strerror(errno));
    return STATUS_OK;
}
