#include "system/replace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Status not_written(const char *path, Error *error) {
    return error_set(error, "%s: cannot be written: %s", path, strerror(errno));
}

int replace_file_begin(const char *path, const char *ending, int flags, mode_t mode,
                       char **temporary, Error *error) {
    char own[32];
    snprintf(own, sizeof own, ".%ld.tmp", (long)getpid());
    int fd = -1, reason;
    if (asprintf(temporary, "%s%s", path, ending ? ending : own) < 0) {
        *temporary = NULL;
    } else {
        unlink(*temporary);
        fd = open(*temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | flags, mode);
    }
    if (fd >= 0) return fd;
    reason = errno;
    not_written(path, error);
    free(*temporary);
    *temporary = NULL;
    errno = reason;
    return -1;
}

Status replace_file_sync(int fd, const char *path, Error *error) {
    return fsync(fd) == 0 || errno == EINVAL ? STATUS_OK : not_written(path, error);
}

Status replace_file_rename(char **temporary, const char *path, Error *error) {
    if (rename(*temporary, path) != 0) return not_written(path, error);
    free(*temporary);
    *temporary = NULL;
    replace_file_sync_directory(path);
    return STATUS_OK;
}

Status replace_file_rename_new(char **temporary, const char *path, Error *error) {
    int result = renameat2(AT_FDCWD, *temporary, AT_FDCWD, path, RENAME_NOREPLACE);
    /* File systems without this flag have links, which do not replace a file either. */
    if (result != 0 && (errno == EINVAL || errno == ENOSYS)) {
        result = link(*temporary, path);
        if (result == 0) unlink(*temporary);
    }
    if (result != 0)
        return errno == EEXIST ? error_set(error, "%s: exists already; name another file", path)
                               : not_written(path, error);
    free(*temporary);
    *temporary = NULL;
    replace_file_sync_directory(path);
    return STATUS_OK;
}

void replace_file_discard(char **temporary) {
    if (*temporary) unlink(*temporary);
    free(*temporary);
    *temporary = NULL;
}

bool replace_file_directory(const char *path, char *directory, size_t size) {
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash - path) + 1 : 1;
    return snprintf(directory, size, "%.*s", length, slash ? path : ".") < (int)size;
}

void replace_file_sync_directory(const char *path) {
    char directory[PATH_MAX];
    if (!replace_file_directory(path, directory, sizeof directory)) return;
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}
