#include "modes/batch/batch_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "modes/batch/kept_results.h"
#include "modes/batch/shard.h"
#include "system/descriptor.h"
#include "system/line_reader.h"
#include "system/own_file.h"
#include "system/replace_file.h"
#include "system/terminal.h"

/* ---- Sets of keys ------------------------------------------------------------------------------
 */

static struct KeyEntry *find_entry(const KeySet *set, RecordKey key) {
    size_t i = key.low & (set->capacity - 1);
    while (set->entries[i].flags &&
           (set->entries[i].key.low != key.low || set->entries[i].key.high != key.high))
        i = (i + 1) & (set->capacity - 1);
    return &set->entries[i];
}

uint64_t keyset_flags(const KeySet *set, RecordKey key) {
    return set->capacity ? find_entry(set, key)->flags : 0;
}

bool keyset_add(KeySet *set, RecordKey key, uint64_t flags) {
    if (set->n * 2 >= set->capacity) {
        KeySet larger = {.capacity = set->capacity ? set->capacity * 2 : 1024};
        larger.entries = calloc(larger.capacity, sizeof *larger.entries);
        if (!larger.entries) return false;
        for (size_t i = 0; i < set->capacity; i++)
            if (set->entries[i].flags) *find_entry(&larger, set->entries[i].key) = set->entries[i];
        larger.n = set->n;
        free(set->entries);
        *set = larger;
    }
    struct KeyEntry *entry = find_entry(set, key);
    if (!entry->flags) {
        entry->key = key;
        set->n++;
    }
    entry->flags |= flags;
    return true;
}

void keyset_free(KeySet *set) {
    free(set->entries);
    *set = (KeySet){0};
}

/* ---- Results -----------------------------------------------------------------------------------
 */

static const char *name_of(const ResultFile *file) {
    return file->path ? file->path : "stdout";
}

static Status file_failed(const ResultFile *file, const char *what, Error *error) {
    return error_set(error, "%s: cannot be %s: %s", name_of(file), what, strerror(errno));
}

/* Some file systems of clusters have no locks, such as Lustre mounted without them. */
static Status lock(const ResultFile *file, int fd, Error *error) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return STATUS_OK;
    if (errno == EWOULDBLOCK)
        return error_set(error, "%s: another process is writing to it", file->path);
    if (errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK) {
        terminal_say("%s: there are no locks here, so nothing stops another run from writing to it",
                     file->path);
        return STATUS_OK;
    }
    return file_failed(file, "locked", error);
}

/* Creates FILE.retry while the program may still create files. */
static Status begin_retry(ResultFile *file, Error *error) {
    struct stat info;
    file->retry_fd = replace_file_begin(file->path, ".retry", O_APPEND, REPLACE_FILE_PRIVATE,
                                        &file->retry_path, error);
    if (file->retry_fd < 0) return STATUS_FAILED;
    if (fstat(file->fd, &info) == 0) fchmod(file->retry_fd, info.st_mode & 0777);
    return errand_start_rename(&file->errand, file->retry_path, file->path, error);
}

Status result_file_open(ResultFile *file, const char *path, bool resume, bool retry, Error *error) {
    struct stat info;
    *file = (ResultFile){.fd = STDOUT_FILENO, .path = path, .retries = retry, .retry_fd = -1};
    if (!path) return STATUS_OK;
    if (own_file_is_planted(path)) {
        file->fd = -1;
        return error_set(error, OWN_FILE_PLANTED, path);
    }
    file->fd = own_file_open(path, O_RDWR | O_CREAT | O_APPEND, error);
    if (file->fd < 0 && !resume && errno != EPERM) { /* perhaps a pipe or a device */
        Error other;
        file->fd = own_file_open(path, O_WRONLY, &other);
        if (file->fd < 0 && errno != ENOENT) *error = other;
    }
    if (file->fd < 0) return STATUS_FAILED;
    if (fstat(file->fd, &info) != 0) return file_failed(file, "written", error);
    file->regular = S_ISREG(info.st_mode);
    if (!file->regular)
        return resume ? error_set(error, "%s: only a file can be resumed", path) : STATUS_OK;
    if (lock(file, file->fd, error) != STATUS_OK) return STATUS_FAILED;
    if (fstat(file->fd, &info) != 0) return file_failed(file, "read", error);
    file->whole = info.st_size;
    if (info.st_size > 0 && !resume)
        return error_set(
            error, "%s: exists already; --resume goes on with it, or name another file", path);
    replace_file_sync_directory(path); /* the name of a file that was just created */
    return retry ? begin_retry(file, error) : STATUS_OK;
}

/* Removes FILE.retry if it was not used. */
static void end_retry(ResultFile *file) {
    errand_drop(&file->errand);
    replace_file_discard(&file->retry_path); /* when there is no errand */
    if (file->retry_fd >= 0) close(file->retry_fd);
    file->retry_fd = -1;
}

void result_file_close(ResultFile *file) {
    end_retry(file);
    if (file->path && file->fd >= 0) close(file->fd);
    file->fd = -1;
    text_free(&file->buffer);
    keyset_free(&file->keys);
    free(file->order);
    file->order = NULL;
}

/* Remembers a result of the earlier run; false: no memory. */
static bool files_keep(ResultFile *file, const ResultLine *line) {
    if (!array_reserve(&file->order, &file->order_capacity, file->n_kept + 1, sizeof *file->order))
        return false;
    file->order[file->n_kept++] = line->key;
    file->n_failed += line->failed;
    return keyset_add(&file->keys, line->key, KEY_DONE | (line->failed ? KEY_FAILED : 0));
}

/* Writes a line to keep to `kept`, unless that is NULL. */
static Status copy_line(ResultFile *kept, const char *line, size_t length, Error *error) {
    if (!kept) return STATUS_OK;
    text_put(&kept->buffer, line, length, 0);
    text_put(&kept->buffer, "\n", 1, 0);
    if (kept->buffer.failed) return error_set(error, "%s: no memory for a line", kept->path);
    return result_file_flush(kept, false, error);
}

static Status other_fingerprint(const ResultFile *file, size_t number, const ResultLine *result,
                                const char *fingerprint, Error *error) {
    const char *failed =
        result->failed ? "; the line failed, and --retry-failed answers it anew" : "";
    return error_set(error,
                     "%s: line %zu was made by another model, with other options or by a "
                     "program of another numeric revision (%s, but now it is %s): give what it "
                     "was made with, or another -o%s",
                     file->path, number, result->fingerprint, fingerprint, failed);
}

/* The user may have meant the line for something else than a result. */
static void say_dropped(const ResultFile *file, size_t number, size_t length) {
    terminal_say(
        "%s: line %zu is not whole (%zu bytes without a line's end, as a kill or a full disk "
        "leaves them): dropped, and computed again",
        file->path, number, length);
}

/* Reads results up to the end or an incomplete line. *cut is the offset of where the lines to keep
 * end; with `ordered` that is before the first line that must be answered again. *drops: a failed
 * line is to be removed, whatever model and options it failed with: nothing of it is kept. Writes
 * the lines to keep to `kept`, unless that is NULL. */
static Status read_results(ResultFile *file, LineReader *reader, const char *fingerprint,
                           bool ordered, ResultFile *kept, off_t *cut, bool *drops, Error *error) {
    bool behind = false; /* the cut: what follows is answered again as well */
    *drops = false;
    for (;;) {
        LineState state;
        const char *line;
        size_t length;
        ResultLine result;
        uint64_t offset = reader->offset;
        if (line_reader_next(reader, true, NULL, &state, &line, &length, error) != STATUS_OK)
            return STATUS_FAILED;
        if (!behind) *cut = (off_t)offset;
        if (state == LINE_NONE) return STATUS_OK;
        if (state == LINE_READ && !reader->terminated && kept_results_torn(line, length)) {
            if (!kept) say_dropped(file, reader->number, length);
            return STATUS_OK;
        }
        bool header = file->header && reader->number == 1 && state == LINE_READ, stale = false;
        if (reader->number == 1 && state == LINE_READ &&
            shard_match(line, length, file->header, file->retries ? &stale : NULL, error) !=
                STATUS_OK)
            return error_prefix(error, "%s", file->path);
        if (header) { /* a stale one is replaced: no line after it may be kept, or that one says so
                       */
            *drops |= stale;
            behind |= stale && ordered;
            if (copy_line(kept, file->header, strlen(file->header), error) != STATUS_OK)
                return STATUS_FAILED;
            continue;
        }
        if (state == LINE_TOO_LONG ||
            kept_results_read(line, length, reader->terminated, &result, error) != STATUS_OK)
            return error_prefix(error, "%s: line %zu", file->path, reader->number);
        bool retried = result.failed && file->retries;
        if (!retried && strcmp(result.fingerprint, fingerprint) != 0)
            return other_fingerprint(file, reader->number, &result, fingerprint, error);
        *drops |= retried;
        behind |= retried && ordered;
        if (retried || behind) continue;
        if (!files_keep(file, &result)) return error_set(error, "%s: no memory for it", file->path);
        if (copy_line(kept, line, length, error) != STATUS_OK) return STATUS_FAILED;
    }
}

static void forget(ResultFile *file) {
    keyset_free(&file->keys);
    file->n_kept = file->n_failed = 0;
}

static Status read_from_start(ResultFile *file, const char *fingerprint, bool ordered,
                              ResultFile *kept, off_t *cut, bool *drops, Error *error) {
    LineReader reader;
    if (lseek(file->fd, 0, SEEK_SET) != 0) return file_failed(file, "read", error);
    line_reader_init(&reader, file->fd, file->path, "-o");
    Status status = read_results(file, &reader, fingerprint, ordered, kept, cut, drops, error);
    line_reader_free(&reader);
    return status;
}

/* Replaces the file with one that holds only the lines to keep. */
static Status rewrite(ResultFile *file, const char *fingerprint, Error *error) {
    off_t cut;
    bool drops;
    ResultFile kept = {.path = file->path, .regular = true, .fd = file->retry_fd};
    Status status = lock(&kept, kept.fd, error);
    forget(file);
    if (status == STATUS_OK)
        status = read_from_start(file, fingerprint, false, &kept, &cut, &drops, error);
    if (status == STATUS_OK) status = result_file_flush(&kept, true, error);
    if (status == STATUS_OK) status = errand_finish(&file->errand, error);
    text_free(&kept.buffer);
    if (status != STATUS_OK) return status;
    close(file->fd);
    file->fd = file->retry_fd;
    file->retry_fd = -1;
    free(file->retry_path);
    file->retry_path = NULL;
    file->whole = kept.whole;
    return STATUS_OK;
}

Status result_file_resume(ResultFile *file, const char *fingerprint, bool ordered, Error *error) {
    off_t cut = 0;
    bool drops = false;
    if (read_from_start(file, fingerprint, ordered, NULL, &cut, &drops, error) != STATUS_OK)
        return STATUS_FAILED;
    Status status = drops && !ordered ? rewrite(file, fingerprint, error) : STATUS_OK;
    end_retry(file);
    if (status != STATUS_OK || (drops && !ordered)) return status;
    if (cut < file->whole && ftruncate(file->fd, cut) != 0) return file_failed(file, "cut", error);
    file->whole = cut;
    return STATUS_OK;
}

Status result_file_begin(ResultFile *file, Error *error) {
    bool lacks = file->header && file->whole == 0;
    return lacks ? result_file_add(file, file->header, error) : STATUS_OK;
}

Status result_file_add(ResultFile *file, const char *line, Error *error) {
    text_put(&file->buffer, line, strlen(line), 0);
    text_put(&file->buffer, "\n", 1, 0);
    return file->buffer.failed ? error_set(error, "%s: no memory for the results", name_of(file))
                               : STATUS_OK;
}

/* After a failed write: keeps the whole lines among the `written` bytes, and cuts off the
 * incomplete one, as --resume would. */
static Status cut_torn_line(ResultFile *file, size_t written, Error *error) {
    const char *newline = memrchr(file->buffer.bytes, '\n', written);
    if (newline) file->whole += newline + 1 - file->buffer.bytes;
    if (file->regular && ftruncate(file->fd, file->whole) != 0)
        error_prefix(error, "its last line is torn");
    return STATUS_FAILED;
}

static Status write_buffer(ResultFile *file, Error *error) {
    size_t length = file->buffer.length;
    size_t n = length;
    if (!file->closed && isatty(file->fd))
        n = terminal_write(file->fd, file->buffer.bytes, length) ? length : 0;
    else if (!file->closed)
        n = descriptor_write(file->fd, file->buffer.bytes, length);
    if (n < length && errno == EPIPE) {
        file->closed = true;
    } else if (n < length) {
        file_failed(file, "written", error);
        return cut_torn_line(file, n, error);
    }
    file->dirty = file->dirty || length > 0;
    file->buffer.length = 0;
    file->whole += (off_t)length;
    return STATUS_OK;
}

Status result_file_flush(ResultFile *file, bool sync, Error *error) {
    if (file->buffer.length > 0 && write_buffer(file, error) != STATUS_OK) return STATUS_FAILED;
    double now = clock_seconds();
    if (!file->regular || !file->dirty || (!sync && now - file->synced < 1.0)) return STATUS_OK;
    if (fdatasync(file->fd) != 0 && errno != EINVAL && errno != EROFS)
        return file_failed(file, "synced to the disk", error);
    file->dirty = false;
    file->synced = now;
    return STATUS_OK;
}
