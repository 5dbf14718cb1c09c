#include "system/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "system/replace_file.h"

enum { PATH_BYTES = 4096, MOST_LINKS = 40 };

static bool is_trusted(const struct stat *info) {
    return info->st_uid == geteuid() || info->st_uid == 0;
}

/* Opens the directory of `path`, relative to `at`, and finds the name in it. Returns -1 with errno.
 */
static int open_directory(int at, const char *path, const char **name) {
    char directory[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    if (!replace_file_directory(path, directory, sizeof directory)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return openat(at, directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Opens a name that is not a link. An existing file must pass `check` later: *made tells whether it
 * is new. */
static int open_here(int directory, const char *name, int flags, bool *made) {
    *made = false;
    if (flags & O_CREAT) {
        int fd = openat(directory, name, flags | O_EXCL, 0666);
        *made = fd >= 0;
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return openat(directory, name, (flags & ~O_CREAT) | O_NOFOLLOW);
}

/* Reads where a link leads. Returns -1 with errno: EPERM for a link of another user. */
static int read_link(int directory, const char *name, char target[PATH_BYTES]) {
    struct stat info;
    int link = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (link < 0) return -1;
    ssize_t n = -1;
    if (fstat(link, &info) == 0) {
        errno = EPERM;
        if (S_ISLNK(info.st_mode) && is_trusted(&info))
            n = readlinkat(link, "", target, PATH_BYTES - 1);
    }
    int reason = errno;
    close(link);
    errno = reason;
    if (n < 0) return -1;
    target[n] = '\0';
    return 0;
}

/* Whether the directory is of /proc, whose links to open files have no path to follow. */
static bool is_proc(int directory) {
    struct statfs system;
    return fstatfs(directory, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

/* Like open(2), but follows the final symbolic links of `path` one by one, and never a link of
 * another user. */
static int open_following(const char *path, int flags, bool *made) {
    char target[PATH_BYTES];
    int at = AT_FDCWD, fd = -1;
    for (int i = 0; i < MOST_LINKS; i++) {
        const char *name;
        int directory = open_directory(at, path, &name);
        if (at >= 0) close(at);
        at = directory;
        if (at < 0) return -1;
        bool magic = is_proc(at);
        fd = magic ? openat(at, name, flags & ~O_CREAT) : open_here(at, name, flags, made);
        if (magic || fd >= 0 || errno != ELOOP || read_link(at, name, target) != 0) break;
        path = target;
        errno = ELOOP;
    }
    int reason = errno;
    close(at);
    errno = reason;
    return fd;
}

bool own_file_is_planted(const char *path) {
    struct stat info;
    if (lstat(path, &info) != 0 || !(S_ISLNK(info.st_mode) || S_ISFIFO(info.st_mode))) return false;
    return !is_trusted(&info);
}

bool own_file_is_descriptor(const char *path) {
    char target[PATH_BYTES];
    int at = AT_FDCWD;
    bool found = false;
    for (int i = 0; i < MOST_LINKS && !found; i++) {
        const char *name;
        int directory = open_directory(at, path, &name);
        if (at >= 0) close(at);
        at = directory;
        if (at < 0) return false;
        found = is_proc(at);
        if (found || read_link(at, name, target) != 0) break;
        path = target;
    }
    if (at >= 0) close(at);
    return found;
}

int own_file_open(const char *path, int flags, Error *error) {
    struct stat info;
    bool made = false;
    int fd = open_following(path, flags | O_CLOEXEC, &made), reason = errno;
    if (fd < 0 && reason == EPERM)
        error_set(error, OWN_FILE_PLANTED, path);
    else if (fd < 0 || fstat(fd, &info) != 0)
        error_set(error, "%s: cannot be written: %s", path, strerror(errno));
    else if (S_ISFIFO(info.st_mode) && !is_trusted(&info))
        error_set(error, OWN_FILE_PLANTED, path);
    else if (S_ISREG(info.st_mode) && !made && info.st_uid != geteuid())
        error_set(error, "%s: belongs to another user", path);
    else
        return fd;
    if (fd >= 0) {
        close(fd);
        reason = EPERM;
    }
    errno = reason;
    return -1;
}
