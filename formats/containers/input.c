#include "formats/containers/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mapped.h"

static InputStamp stamp_of(const struct stat *info) {
    return (InputStamp){.device = (uint64_t)info->st_dev,
                        .inode = (uint64_t)info->st_ino,
                        .modified = {(int64_t)info->st_mtim.tv_sec, (int64_t)info->st_mtim.tv_nsec},
                        .changed = {(int64_t)info->st_ctim.tv_sec, (int64_t)info->st_ctim.tv_nsec}};
}

static InputAccess access_of(const struct stat *info) {
    return (InputAccess){.links = (uint64_t)info->st_nlink,
                         .permissions = (uint64_t)info->st_mode & 0777,
                         .owner = (uint64_t)info->st_uid,
                         .group = (uint64_t)info->st_gid};
}

Status input_adopt(InputFile *file, const char *path, int fd, Error *error) {
    *file = (InputFile){.fd = fd, .path = strdup(path)};
    struct stat info;
    Status status = STATUS_OK;
    if (!file->path) {
        status = error_set(error, "%s: no memory", path);
    } else if (fstat(fd, &info) != 0) {
        status = error_set(error, "%s: %s", path, strerror(errno));
    } else if (S_ISDIR(info.st_mode)) {
        status = error_set(error, "%s: is a directory", path);
    } else if (!S_ISREG(info.st_mode)) {
        status = error_set(error, "%s: not a regular file", path);
    } else if (info.st_size == 0) {
        status = error_set(error, "%s: empty file", path);
    } else {
        file->bytes = (uint64_t)info.st_size;
        file->stamp = stamp_of(&info);
        file->access = access_of(&info);
        void *map = mmap(NULL, (size_t)file->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED) {
            status = error_set(error, "%s: cannot map: %s", path, strerror(errno));
        } else {
            file->map = map;
            mapped_remember(map, (size_t)file->bytes, file->path);
        }
    }
    if (status != STATUS_OK) input_close(file);
    return status;
}

Status input_open(InputFile *file, const char *path, Error *error) {
    *file = (InputFile){.fd = -1};
    /* O_NONBLOCK: a named pipe must be an error, not a wait for its writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return error_set(error, "%s: %s", path, strerror(errno));
    return input_adopt(file, path, fd, error);
}

void input_close(InputFile *file) {
    if (!file->path && !file->map) {
        *file = (InputFile){.fd = -1};
        return;
    }
    if (file->map) {
        mapped_forget(file->map);
        munmap((void *)file->map, (size_t)file->bytes);
    }
    if (file->fd >= 0) close(file->fd);
    free(file->path);
    *file = (InputFile){.fd = -1};
}

Status input_read(const InputFile *file, uint64_t offset, void *out, size_t bytes, Error *error) {
    uint64_t end;
    if (__builtin_add_overflow(offset, bytes, &end) || end > file->bytes)
        return error_set(error, "%s: needs %zu bytes at offset %llu, but the file ends at %llu",
                         file->path, bytes, (unsigned long long)offset,
                         (unsigned long long)file->bytes);
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(file->fd, (char *)out + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error_set(error, "%s: cannot read: %s", file->path, strerror(errno));
        if (n == 0) return error_set(error, "%s: became shorter while it was read", file->path);
        done += (size_t)n;
    }
    return STATUS_OK;
}

Status input_check_unchanged(const InputFile *file, Error *error) {
    struct stat info;
    if (fstat(file->fd, &info) != 0) return error_set(error, "%s: %s", file->path, strerror(errno));
    InputStamp now = stamp_of(&info);
    InputAccess access = access_of(&info);
    if (memcmp(&access, &file->access, sizeof access) != 0)
        memcpy(now.changed, file->stamp.changed, sizeof now.changed);
    if ((uint64_t)info.st_size == file->bytes && memcmp(&now, &file->stamp, sizeof now) == 0)
        return STATUS_OK;
    return error_set(error,
                     "%s: was changed while it was read, so what was read may be of two versions: "
                     "try again when it is complete",
                     file->path);
}
