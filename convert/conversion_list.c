#include "convert/conversion_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "convert/cache_directory.h"
#include "convert/conversion_files.h"
#include "convert/conversion_origin.h"
#include "formats/given_family.h"
#include "formats/source_open.h"
#include "system/terminal.h"

typedef struct Sum {
    FILE *out;
    const char *only; /* to be deleted; "": all */
    size_t n;
    double bytes;
    int failed; /* the errno of a file that could not be deleted; or 0 */
} Sum;

/* Believes only the user's own files. */
static bool read_origin(int dir_fd, const char *name, ConversionOrigin *origin) {
    struct stat info;
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool known = fd >= 0 && fstat(fd, &info) == 0 && info.st_uid == geteuid() &&
                 conversion_origin_read(fd, origin);
    if (fd >= 0) close(fd);
    return known;
}

/* Why the conversion called `name` is not used any more; "": it is. */
static const char *state_of(const ConversionOrigin *origin, const char *name) {
    Source *source;
    Error ignored;
    char now[128];
    if (access(origin->path, F_OK) != 0) return ", which is gone";
    if (source_open(&source, origin->path, origin->tokenizer, &ignored) != STATUS_OK)
        return ", which cannot be read any more";
    source->split_pattern = origin->split_pattern;
    bool same = given_family_open(source, origin->family, &ignored) == STATUS_OK &&
                conversion_name(source, origin->type, now, sizeof now) &&
                strncmp(now, name, strlen(now)) == 0;
    source_close(source);
    return same ? "" : ", which has changed since";
}

static void list_one(int dir_fd, const char *name, const struct stat *info, void *context) {
    Sum *sum = context;
    ConversionOrigin origin;
    char when[32];
    struct tm local;
    bool known = read_origin(dir_fd, name, &origin);
    localtime_r(&info->st_mtime, &local);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M", &local);
    terminal_line(sum->out, "%10.1f MiB  %s  %-4s  %s%s%s%s", (double)info->st_size / 1048576.0,
                  when, known && origin.type ? origin.type : "-", name, known ? "  of " : "",
                  known ? origin.path : "", known ? state_of(&origin, name) : "");
    sum->n++;
    sum->bytes += (double)info->st_size;
}

/* Whether the user means this conversion: by its name with or without the ending or the hash, or by
 * its source. */
static bool is_meant(const char *only, int dir_fd, const char *name) {
    ConversionOrigin origin;
    size_t n = strlen(only), length = strlen(name) - strlen(".bin");
    if (n == 0 || strcmp(only, name) == 0) return true;
    if (strncmp(only, name, n) == 0 && (n == length || n == length - 33)) return true;
    if (!read_origin(dir_fd, name, &origin)) return false;
    char *path = realpath(only, NULL);
    bool same = strcmp(path ? path : only, origin.path) == 0;
    free(path);
    return same;
}

static void clear_one(int dir_fd, const char *name, const struct stat *info, void *context) {
    Sum *sum = context;
    if (!is_meant(sum->only, dir_fd, name)) return;
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

Status conversion_list_print(FILE *out, const char *cache_dir, Error *error) {
    char *directory = cache_directory(cache_dir);
    Sum sum = {.out = out};
    if (!directory) return error_set(error, "no cache directory: set HOME or --cache-dir");
    Status status = STATUS_OK;
    if (conversion_files_each(directory, ".bin", list_one, &sum)) {
        status = say_sum(&sum, 10, "", directory, error);
    } else {
        status = error_set(error, "%s: %s", directory, strerror(errno));
    }
    free(directory);
    return status;
}

Status conversion_list_clear(FILE *out, const char *cache_dir, const char *only, Error *error) {
    char *directory = cache_directory(cache_dir);
    Sum sum = {.out = out, .only = only};
    if (!directory) return error_set(error, "no cache directory: set HOME or --cache-dir");
    Status status = STATUS_OK;
    if (!conversion_files_each(directory, ".bin", clear_one, &sum)) {
        status = error_set(error, "%s: %s", directory, strerror(errno));
    } else if (sum.failed) {
        status = error_set(error, "%s: not every conversion can be deleted: %s", directory,
                           strerror(sum.failed));
    } else if (only[0] && sum.n == 0) {
        status = error_set(error,
                           "%s: no conversion is called %s, or is one of it; --cache-list "
                           "names them",
                           directory, only);
    } else {
        if (!only[0]) sum.bytes += conversion_files_clean(directory);
        status = say_sum(&sum, 0, " deleted", directory, error);
    }
    free(directory);
    return status;
}
