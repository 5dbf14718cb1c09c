#include "convert/conversion_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "convert/cache_directory.h"
#include "convert/convert_target.h"
#include "system/replace_file.h"
#include "system/terminal.h"

/* ---- Names ----------------------------------------------------------------------------------- */

/* Raised when the same source becomes other tensors, so that kept conversions are made anew. */
enum { WEIGHTS_REVISION = 1 /* prediction layers */ };

/* Adds what identifies a file and its version to the hash. */
static void hash_file(XXH3_state_t *state, const InputFile *file) {
    struct stat info;
    char *absolute = realpath(file->path, NULL);
    const char *path = absolute ? absolute : file->path;
    XXH3_128bits_update(state, path, strlen(path) + 1);
    free(absolute);
    if (fstat(file->fd, &info) != 0) return;
    const int64_t facts[] = {(int64_t)info.st_size, (int64_t)info.st_dev, (int64_t)info.st_ino,
                             (int64_t)info.st_mtim.tv_sec, (int64_t)info.st_mtim.tv_nsec};
    XXH3_128bits_update(state, facts, sizeof facts);
}

/* Writes the conversion's name, like "stories260K-0123456789abcdef0123456789abcdef": the source's
 * name, for people, and the hash. */
static bool conversion_name(const Source *source, const char *type, char *name, size_t size) {
    XXH3_state_t *state = XXH3_createState();
    if (!state) return false;
    const uint32_t version[] = {MODELFILE_VERSION, TOKENIZER_IMPORT_REVISION, WEIGHTS_REVISION};
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, version, sizeof version);
    XXH3_128bits_update(state, type ? type : "", type ? strlen(type) + 1 : 1);
    for (size_t i = 0; i < source->n_files; i++) hash_file(state, &source->files[i]);
    if (source->tokenizer_file.path) {
        XXH3_128bits_update(state, "tokenizer", sizeof "tokenizer");
        hash_file(state, &source->tokenizer_file);
        const char *pattern = source->split_pattern ? source->split_pattern : "";
        XXH3_128bits_update(state, pattern, strlen(pattern) + 1);
    }
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    char base[64] = "model";
    char *path = realpath(source->path, NULL);
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (slash && slash[1]) snprintf(base, sizeof base, "%s", slash + 1);
    free(path);
    char *dot = strrchr(base, '.');
    if (dot && (strcmp(dot, ".gguf") == 0 || strcmp(dot, ".bin") == 0)) *dot = '\0';
    for (char *c = base; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F) *c = '_';
    snprintf(name, size, "%s-%016llx%016llx", base, (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    return true;
}

/* Whether `name` is a conversion's name with this ending. */
static bool is_ours(const char *name, const char *ending) {
    size_t n = strlen(name), m = strlen(ending);
    if (n < m + 33 || strcmp(name + n - m, ending) != 0 || name[n - m - 33] != '-') return false;
    return strspn(name + n - m - 32, "0123456789abcdef") == 32;
}

/* ---- One conversion -------------------------------------------------------------------------- */

static Status temporary(ConversionSlot *slot, Error *error) {
    slot->fd = convert_unlinked_anywhere(NULL);
    if (slot->fd >= 0) return STATUS_OK;
    return error_set(
        error, "no directory for the converted model can be written: set TMPDIR or --cache-dir");
}

static Status cannot_keep(const ConversionSlot *slot, Error *error) {
    return error_set(error, "%s: no conversion can be kept there: %s", slot->directory,
                     strerror(errno));
}

/* Whether `name` still names the file that is open as fd. */
static bool is_named(int fd, int dir_fd, const char *name) {
    struct stat held, named;
    return fstat(fd, &held) == 0 && fstatat(dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

/* Whether the lock, open or not, belongs to another user, who could hold it for ever: the cache is
 * not used then, with a line on stderr that says whose it is. */
static bool is_anothers(const ConversionSlot *slot, const char *path) {
    struct stat info;
    int failed = slot->lock_fd >= 0 ? fstat(slot->lock_fd, &info) : lstat(path, &info);
    if (failed != 0 || info.st_uid == geteuid() || info.st_uid == 0) return false;
    terminal_say("%s: belongs to user %ld, who may be converting it: this conversion is not kept",
                 path, (long)info.st_uid);
    return true;
}

/* Locks the file at `path`; *anothers: it belongs to another user. Whoever held the lock before may
 * have removed the file, so after locking it is checked that the file still has that name. */
static Status lock(ConversionSlot *slot, const char *path, const volatile sig_atomic_t *cancel,
                   bool *anothers, Error *error) {
    for (bool told = false;;) {
        slot->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        int reason = errno;
        *anothers = is_anothers(slot, path);
        if (*anothers) return STATUS_OK;
        errno = reason;
        if (slot->lock_fd < 0) return cannot_keep(slot, error);
        if (flock(slot->lock_fd, LOCK_EX | LOCK_NB) != 0) {
            if (!told) terminal_say("waiting for another process that converts it");
            told = true;
            while (flock(slot->lock_fd, LOCK_EX) != 0) {
                if (errno == EINTR && !*cancel) continue;
                /* Without the lock conversion_cache_close must not delete the other's file. */
                Status status = errno == EINTR ? STATUS_INTERRUPTED : cannot_keep(slot, error);
                close(slot->lock_fd);
                slot->lock_fd = -1;
                return status;
            }
        }
        if (is_named(slot->lock_fd, AT_FDCWD, path)) return STATUS_OK;
        close(slot->lock_fd);
    }
}

/* Removes and releases the lock. While we hold it no other process holds a file of this name. */
static void unlock(ConversionSlot *slot, const char *path) {
    unlink(path);
    close(slot->lock_fd);
    slot->lock_fd = -1;
}

/* Calls each(directory, name, info, context) for the cache's files with this ending. False with
 * errno when the directory cannot be read; a directory that does not exist has no files. */
static bool each_file(const char *directory, const char *ending,
                      void (*each)(int dir_fd, const char *name, const struct stat *info,
                                   void *context),
                      void *context) {
    DIR *dir = opendir(directory);
    if (!dir) return errno == ENOENT;
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat info;
        if (is_ours(entry->d_name, ending) &&
            fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0)
            each(dirfd(dir), entry->d_name, &info, context);
    }
    closedir(dir);
    return true;
}

/* Deletes what a killed process left behind, NAME.tmp and NAME.lock. If the lock is free, no
 * process is converting it. Adds the bytes to *context, a double. */
static void delete_leftover(int dir_fd, const char *name, const struct stat *info, void *context) {
    char other[NAME_MAX + 1];
    snprintf(other, sizeof other, "%.*s.lock", (int)(strrchr(name, '.') - name), name);
    int fd = openat(dir_fd, other, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_named(fd, dir_fd, other)) {
        if (strcmp(name, other) != 0 && unlinkat(dir_fd, name, 0) == 0)
            *(double *)context += (double)info->st_size;
        unlinkat(dir_fd, other, 0);
    }
    close(fd);
}

static double delete_leftovers(const char *directory) {
    double bytes = 0.0;
    each_file(directory, ".tmp", delete_leftover, &bytes);
    each_file(directory, ".lock", delete_leftover, &bytes);
    return bytes;
}

/* Opens the conversion if it exists, and sets its time of last use to now. The file must belong to
 * the user or the system, because others may be able to write to the directory. */
static bool open_complete(ConversionSlot *slot) {
    struct stat info;
    slot->fd = open(slot->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    slot->found = slot->fd >= 0 && fstat(slot->fd, &info) == 0 && S_ISREG(info.st_mode) &&
                  (info.st_uid == geteuid() || info.st_uid == 0);
    if (slot->fd >= 0 && !slot->found) close(slot->fd);
    if (!slot->found) slot->fd = -1;
    if (slot->found) {
        const struct timespec times[] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
        futimens(slot->fd, times);
    }
    return slot->found;
}

/* What the errand of a conversion needs. */
typedef struct Names {
    ConversionSlot *slot;
    const char *lock_path;
} Names;

static Status name_conversion(void *context, Error *error) {
    Names *names = context;
    ConversionSlot *slot = names->slot;
    if (replace_file_rename(&slot->partial, slot->path, error) != STATUS_OK) return STATUS_FAILED;
    unlink(names->lock_path);
    return STATUS_OK;
}

/* While this process lives it holds the lock: no other uses the temporary name. */
static void drop_conversion(void *context) {
    Names *names = context;
    replace_file_discard(&names->slot->partial);
    unlink(names->lock_path);
}

static Status begin_conversion(ConversionSlot *slot, const char *base, const char *lock_path,
                               Error *error) {
    slot->fd = replace_file_begin(base, ".tmp", 0, &slot->partial, error);
    if (slot->fd < 0) return cannot_keep(slot, error);
    Names names = {slot, lock_path};
    const ErrandJob job = {name_conversion, drop_conversion, &names, {slot->lock_fd, -1}};
    return errand_start(&slot->errand, &job, error);
}

/* Converts into a temporary file instead. */
static Status leave_cache(ConversionSlot *slot, Error *error) {
    if (slot->lock_fd >= 0) close(slot->lock_fd);
    slot->lock_fd = -1;
    free(slot->path);
    free(slot->directory);
    slot->path = slot->directory = NULL;
    return temporary(slot, error);
}

static Status open_cached(ConversionSlot *slot, const char *name,
                          const volatile sig_atomic_t *cancel, Error *error) {
    char *base = NULL, *lock_path = NULL;
    if (asprintf(&base, "%s/%s", slot->directory, name) < 0 ||
        asprintf(&slot->path, "%s.bin", base) < 0 || asprintf(&lock_path, "%s.lock", base) < 0) {
        free(base);
        return error_set(error, "no memory");
    }
    Status status = STATUS_OK;
    bool anothers = false;
    if (!open_complete(slot)) {
        delete_leftovers(slot->directory);
        status = lock(slot, lock_path, cancel, &anothers, error);
        if (status == STATUS_OK && anothers)
            status = leave_cache(slot, error);
        else if (status == STATUS_OK && !open_complete(slot))
            status = begin_conversion(slot, base, lock_path, error);
    }
    /* Another process finished the conversion while this one waited. Remove the lock now: after
     * entering the sandbox it could not be removed. */
    if (slot->found && slot->lock_fd >= 0) unlock(slot, lock_path);
    free(base);
    free(lock_path);
    return status;
}

Status conversion_cache_open(ConversionSlot *slot, const Source *source, const char *type,
                             const char *cache_dir, const volatile sig_atomic_t *cancel,
                             Error *error) {
    char name[128];
    *slot = (ConversionSlot){.fd = -1, .lock_fd = -1};
    if (source->n_files == 0) return temporary(slot, error); /* generated weights */
    slot->directory = cache_directory(cache_dir);
    if (!slot->directory || !cache_directory_make(slot->directory)) {
        if (cache_dir) return cannot_keep(slot, error);
        terminal_say("no cache directory can be written: the conversion is not kept");
        free(slot->directory);
        slot->directory = NULL;
        return temporary(slot, error);
    }
    if (!conversion_name(source, type, name, sizeof name)) return error_set(error, "no memory");
    return open_cached(slot, name, cancel, error);
}

Status conversion_cache_find(ConversionSlot *slot, const Source *source, const char *type,
                             const char *cache_dir, Error *error) {
    char name[128];
    *slot = (ConversionSlot){.fd = -1, .lock_fd = -1};
    slot->directory = source->n_files > 0 ? cache_directory(cache_dir) : NULL;
    if (slot->directory) {
        if (!conversion_name(source, type, name, sizeof name) ||
            asprintf(&slot->path, "%s/%s.bin", slot->directory, name) < 0) {
            slot->path = NULL;
            return error_set(error, "no memory");
        }
        if (open_complete(slot)) return STATUS_OK;
        free(slot->path);
        slot->path = NULL;
    }
    slot->fd = memfd_create("verbatim", MFD_CLOEXEC);
    if (slot->fd >= 0) return STATUS_OK;
    return error_set(error, "%s: no file in memory: %s", source->path, strerror(errno));
}

Status conversion_cache_finish(ConversionSlot *slot, Error *error) {
    if (!slot->partial) return STATUS_OK;
    if (replace_file_sync(slot->fd, slot->path, error) != STATUS_OK) return STATUS_FAILED;
    if (errand_finish(&slot->errand, error) != STATUS_OK) return STATUS_FAILED;
    free(slot->partial);
    slot->partial = NULL;
    return STATUS_OK;
}

void conversion_cache_close(ConversionSlot *slot) {
    if (slot->fd >= 0) close(slot->fd);
    errand_drop(&slot->errand);
    replace_file_discard(&slot->partial);
    if (slot->lock_fd >= 0) {
        /* NAME.bin -> NAME.lock */
        size_t length = slot->path ? strlen(slot->path) : 0;
        char *lock_path = NULL;
        if (length > 4 && asprintf(&lock_path, "%.*s.lock", (int)length - 4, slot->path) > 0) {
            unlock(slot, lock_path);
        } else {
            close(slot->lock_fd);
        }
        free(lock_path);
    }
    free(slot->directory);
    free(slot->path);
    *slot = (ConversionSlot){.fd = -1, .lock_fd = -1};
}

/* ---- All of them ------------------------------------------------------------------------------
 */

typedef struct Sum {
    FILE *out;
    size_t n;
    double bytes;
    int failed; /* the errno of a file that could not be deleted; or 0 */
} Sum;

static void list_one(int dir_fd, const char *name, const struct stat *info, void *context) {
    Sum *sum = context;
    char when[32];
    struct tm local;
    (void)dir_fd;
    localtime_r(&info->st_mtime, &local);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M", &local);
    terminal_line(sum->out, "%10.1f MiB  %s  %s", (double)info->st_size / 1048576.0, when, name);
    sum->n++;
    sum->bytes += (double)info->st_size;
}

static void clear_one(int dir_fd, const char *name, const struct stat *info, void *context) {
    Sum *sum = context;
    if (unlinkat(dir_fd, name, 0) != 0) {
        sum->failed = errno;
        return;
    }
    sum->n++;
    sum->bytes += (double)info->st_size;
}

/* Prints the last line. A closed pipe is not an error. */
static Status say_sum(const Sum *sum, int width, const char *what, const char *directory,
                      Error *error) {
    if (terminal_line(sum->out, "%*.1f MiB in %zu conversion%s%s: %s", width,
                      sum->bytes / 1048576.0, sum->n, sum->n == 1 ? "" : "s", what, directory) ||
        errno == EPIPE)
        return STATUS_OK;
    return error_set(error, "stdout: cannot be written: %s", strerror(errno));
}

Status conversion_cache_list(FILE *out, const char *cache_dir, Error *error) {
    char *directory = cache_directory(cache_dir);
    Sum sum = {.out = out};
    if (!directory) return error_set(error, "no cache directory: set HOME or --cache-dir");
    Status status = STATUS_OK;
    if (each_file(directory, ".bin", list_one, &sum)) {
        status = say_sum(&sum, 10, "", directory, error);
    } else {
        status = error_set(error, "%s: %s", directory, strerror(errno));
    }
    free(directory);
    return status;
}

Status conversion_cache_clear(FILE *out, const char *cache_dir, Error *error) {
    char *directory = cache_directory(cache_dir);
    Sum sum = {.out = out};
    if (!directory) return error_set(error, "no cache directory: set HOME or --cache-dir");
    Status status = STATUS_OK;
    if (!each_file(directory, ".bin", clear_one, &sum)) {
        status = error_set(error, "%s: %s", directory, strerror(errno));
    } else if (sum.failed) {
        status = error_set(error, "%s: not every conversion can be deleted: %s", directory,
                           strerror(sum.failed));
    } else {
        sum.bytes += delete_leftovers(directory);
        status = say_sum(&sum, 0, " deleted", directory, error);
    }
    free(directory);
    return status;
}
