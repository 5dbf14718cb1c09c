#include "modes/open/conversion_cache.h"

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

#include "base/size.h"
#include "convert/cache_directory.h"
#include "modes/open/conversion_files.h"
#include "modes/open/conversion_origin.h"
#include "convert/convert_target.h"
#include "base/machine.h"
#include "system/replace_file.h"
#include "system/terminal.h"

/* ---- One conversion -------------------------------------------------------------------------- */

static const ConversionSlot empty_slot = {
    .fd = -1, .lock_fd = -1, .memory_fd = -1, .limit = SIZE_MAX};

/* Refuses a conversion in memory for which too little is free: the kernel would kill a process for
 * it. */
static Status check_memory(const ConversionSlot *slot, uint64_t bytes, const char *why,
                           Error *error) {
    const double MIB = 1048576.0;
    if (bytes <= slot->memory) return STATUS_OK;
    return error_set(error,
                     "no room for the conversion's %.1f MiB: %s, and memory has %.1f MiB free; "
                     "--cache-dir names another place, --type a smaller size",
                     (double)bytes / MIB, why, (double)slot->memory / MIB);
}

static Status in_memory(int *fd, Error *error) {
    *fd = memfd_create("verbatim", MFD_CLOEXEC);
    if (*fd >= 0) return STATUS_OK;
    return error_set(error, "no file in memory: %s", strerror(errno));
}

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
        if (conversion_is_named(slot->lock_fd, AT_FDCWD, path)) return STATUS_OK;
        close(slot->lock_fd);
    }
}

/* Removes and releases the lock. While we hold it no other process holds a file of this name. */
static void unlock(ConversionSlot *slot, const char *path) {
    unlink(path);
    close(slot->lock_fd);
    slot->lock_fd = -1;
}

/* Whether no file of the source was written to since the conversion `fd` was made of it. */
static bool is_made_of(int fd, const char *changes) {
    ConversionOrigin origin;
    return conversion_origin_read(fd, &origin) && origin.changes &&
           strcmp(origin.changes, changes) == 0;
}

/* Opens the conversion if it exists, and sets its time of last use to now. The file must belong to
 * the user or the system, because others may be able to write to the directory; for a receipt it
 * must be of the source's present bytes. */
static bool open_complete(ConversionSlot *slot) {
    struct stat info;
    slot->fd = open(slot->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    slot->found = slot->fd >= 0 && fstat(slot->fd, &info) == 0 && S_ISREG(info.st_mode) &&
                  (info.st_uid == geteuid() || info.st_uid == 0) &&
                  (!slot->must_match || is_made_of(slot->fd, slot->changes));
    if (slot->fd >= 0 && !slot->found) close(slot->fd);
    if (!slot->found) slot->fd = -1;
    if (slot->found) {
        flock(slot->fd, LOCK_SH | LOCK_NB); /* so that no limit drops it while it is in use */
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
    if (slot->limit < SIZE_MAX) conversion_files_shrink(slot->directory, slot->limit);
    return STATUS_OK;
}

/* While this process lives it holds the lock: no other uses the temporary name. */
static void drop_conversion(void *context) {
    Names *names = context;
    replace_file_discard(&names->slot->partial);
    unlink(names->lock_path);
}

static Status begin_conversion(ConversionSlot *slot, const ConversionOrigin *origin,
                               const char *base, const char *lock_path, Error *error) {
    if (slot->must_match && access(slot->path, F_OK) == 0)
        terminal_say("%s: its source may have been written to since: made anew for the receipt",
                     slot->path);
    slot->fd = replace_file_begin(base, ".tmp", 0, REPLACE_FILE_PRIVATE, &slot->partial, error);
    if (slot->fd < 0) return cannot_keep(slot, error);
    if (in_memory(&slot->memory_fd, error) != STATUS_OK) return STATUS_FAILED;
    slot->memory = (size_t)machine_free_memory();
    conversion_origin_write(slot->fd, origin);
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

/* Opens the conversion `name` of the cache. One that is not complete is begun under its lock, after
 * waiting for a process that may be making it. Where the lock belongs to another user, the
 * conversion goes to a temporary file. */
static Status open_cached(ConversionSlot *slot, const char *name, const ConversionOrigin *origin,
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
        conversion_files_clean(slot->directory);
        status = lock(slot, lock_path, cancel, &anothers, error);
        if (status == STATUS_OK && anothers)
            status = leave_cache(slot, error);
        else if (status == STATUS_OK && !open_complete(slot))
            status = begin_conversion(slot, origin, base, lock_path, error);
    }
    /* Another process finished the conversion while this one waited. Remove the lock now: after
     * entering the sandbox it could not be removed. */
    if (slot->found && slot->lock_fd >= 0) unlock(slot, lock_path);
    free(base);
    free(lock_path);
    return status;
}

static bool is_memory(const char *cache_dir) {
    return cache_dir && strcmp(cache_dir, "none") == 0;
}

/* Reads the option, checked already, or else the variable. */
static Status read_limit(ConversionSlot *slot, const char *option, Error *error) {
    const char *variable = getenv("VERBATIM_CACHE_LIMIT");
    if (option) return size_parse(option, "--cache-limit", &slot->limit, error);
    if (!variable || !variable[0]) return STATUS_OK;
    return size_parse(variable, "VERBATIM_CACHE_LIMIT", &slot->limit, error);
}

Status conversion_cache_open(ConversionSlot *slot, const Source *source, const char *type,
                             const ConversionPlace *place, const volatile sig_atomic_t *cancel,
                             Error *error) {
    char name[128];
    const char *cache_dir = place->directory;
    *slot = empty_slot;
    if (is_memory(cache_dir)) {
        slot->only_memory = true;
        slot->memory = (size_t)machine_free_memory();
        return in_memory(&slot->fd, error);
    }
    if (source->n_files == 0) return temporary(slot, error); /* generated weights */
    Status status = read_limit(slot, place->limit, error);
    if (status != STATUS_OK) return status;
    slot->directory = cache_directory(cache_dir);
    if (!slot->directory || !cache_directory_make(slot->directory)) {
        if (cache_dir) return cannot_keep(slot, error);
        terminal_say("no cache directory can be written: the conversion is not kept");
        free(slot->directory);
        slot->directory = NULL;
        return temporary(slot, error);
    }
    if (!conversion_name(source, type, name, sizeof name)) return error_set(error, "no memory");
    const ConversionOrigin origin = {.path = source->path,
                                     .type = type,
                                     .tokenizer = source->tokenizer_file.path,
                                     .split_pattern = source->split_pattern,
                                     .family = source->family_file.path,
                                     .changes = slot->changes};
    conversion_changes(source, slot->changes);
    slot->must_match = place->for_receipt;
    return open_cached(slot, name, &origin, cancel, error);
}

Status conversion_cache_find(ConversionSlot *slot, const Source *source, const char *type,
                             const char *cache_dir, Error *error) {
    char name[128];
    *slot = empty_slot;
    if (source->n_files > 0 && !is_memory(cache_dir)) slot->directory = cache_directory(cache_dir);
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
    return in_memory(&slot->fd, error);
}

Status conversion_cache_reserve(ConversionSlot *slot, uint64_t bytes, Error *error) {
    const char *why = "its disk is too full";
    if (slot->only_memory) return check_memory(slot, bytes, "--cache-dir is none", error);
    if (slot->memory_fd < 0) return STATUS_OK; /* not kept */
    if (bytes > slot->limit)
        why = "the limit is below that";
    else if (fallocate(slot->fd, 0, 0, (off_t)bytes) == 0 || (errno != ENOSPC && errno != EDQUOT))
        return STATUS_OK;
    if (check_memory(slot, bytes, why, error) != STATUS_OK)
        return error_prefix(error, "%s", slot->directory);
    terminal_say("%s: %s: the conversion is made in memory, and not kept", slot->directory, why);
    close(slot->fd);
    slot->fd = slot->memory_fd;
    slot->memory_fd = -1;
    errand_drop(&slot->errand);
    free(slot->partial);
    free(slot->path);
    slot->partial = slot->path = NULL;
    return STATUS_OK;
}

Status conversion_cache_finish(ConversionSlot *slot, Error *error) {
    if (!slot->partial) return STATUS_OK;
    if (replace_file_sync(slot->fd, slot->path, error) != STATUS_OK) return STATUS_FAILED;
    flock(slot->fd, LOCK_SH | LOCK_NB); /* so that no limit drops it while it is in use */
    if (errand_finish(&slot->errand, error) != STATUS_OK) return STATUS_FAILED;
    free(slot->partial);
    slot->partial = NULL;
    return STATUS_OK;
}

void conversion_cache_close(ConversionSlot *slot) {
    if (slot->fd >= 0) close(slot->fd);
    if (slot->memory_fd >= 0) close(slot->memory_fd);
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
    *slot = empty_slot;
}
