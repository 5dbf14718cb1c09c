#include "modes/open/conversion_list.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "convert/cache_directory.h"
#include "modes/open/conversion_files.h"
#include "modes/open/conversion_origin.h"
#include "modes/open/model_names.h"
#include "formats/family/given_family.h"
#include "families/reading/source_open.h"
#include "system/terminal.h"

typedef struct Sum {
    FILE *out;
    const char *asked; /* which conversion to delete, as the user says it; "": all */
    const char *path;  /* of the model that the user calls so; NULL: none */
    bool by_prefix;    /* whether `asked` may be a prefix of the conversion's name */
    char base[64];     /* the first name with that prefix, without its hash */
    bool several;      /* other names have that prefix as well */
    size_t n;
    double bytes;
    int failed; /* the errno of a file that could not be deleted; or 0 */
} Sum;

/* Reads which model a conversion was made from; false: unknown, or not the user's own file. */
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
    if (sum->n == 0)
        terminal_line(sum->out, "%14s  %-16s  %-4s  %s", "SIZE", "LAST USED", "TYPE", "CONVERSION");
    localtime_r(&info->st_mtime, &local);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M", &local);
    terminal_line(sum->out, "%10.1f MiB  %s  %-4s  %s%s%s%s", (double)info->st_size / 1048576.0,
                  when, known && origin.type ? origin.type : "-", name, known ? "  of " : "",
                  known ? origin.path : "", known ? state_of(&origin, name) : "");
    sum->n++;
    sum->bytes += (double)info->st_size;
}

/* The length of a conversion's name without "-HASH.bin". */
static size_t base_length(const char *name) {
    return strlen(name) - strlen("-0123456789abcdef0123456789abcdef.bin");
}

/* Whether the user asked for the conversion called `name`: by that name, with or without its ending
 * or its hash; by its source's path or file name; or by the name that --list has for the source.
 * With by_prefix: by the beginning of its name, up to the end of a word. */
static bool is_asked_for(const Sum *sum, int dir_fd, const char *name) {
    ConversionOrigin origin;
    const char *asked = sum->asked, *dot = strrchr(asked, '.');
    size_t n = strlen(asked), base = base_length(name), length = strlen(name) - strlen(".bin");
    if (sum->by_prefix)
        return n < base && strncasecmp(asked, name, n) == 0 && !isalnum((unsigned char)name[n]);
    if (n == 0 || strcmp(asked, name) == 0) return true;
    if (dot && (strcmp(dot, ".gguf") == 0 || strcmp(dot, ".bin") == 0)) n = (size_t)(dot - asked);
    if (strncmp(asked, name, n) == 0 && (n == length || n == base)) return true;
    return sum->path && read_origin(dir_fd, name, &origin) && strcmp(sum->path, origin.path) == 0;
}

/* Notes whether the conversions with the prefix that the user gave differ in more than their hash.
 */
static void compare_one(int dir_fd, const char *name, const struct stat *info, void *context) {
    Sum *sum = context;
    (void)info;
    if (!is_asked_for(sum, dir_fd, name)) return;
    int n = (int)base_length(name) < (int)sizeof sum->base ? (int)base_length(name) : 0;
    if (!sum->base[0]) snprintf(sum->base, sizeof sum->base, "%.*s", n, name);
    sum->several |= strncmp(sum->base, name, (size_t)n) != 0 || sum->base[n] != '\0';
}

static void clear_one(int dir_fd, const char *name, const struct stat *info, void *context) {
    Sum *sum = context;
    if (!is_asked_for(sum, dir_fd, name)) return;
    if (unlinkat(dir_fd, name, 0) != 0) {
        sum->failed = errno;
        return;
    }
    sum->n++;
    sum->bytes += (double)info->st_size;
}

/* Prints the last line: the size and the number of conversions. A closed pipe is not an error. */
static Status print_total(const Sum *sum, int width, const char *what, const char *directory,
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
        status = print_total(&sum, 10, "", directory, error);
    } else {
        status = error_set(error, "%s: %s", directory, strerror(errno));
    }
    free(directory);
    return status;
}

/* The absolute path of a model that the user gives by path or by name; NULL: no memory. The caller
 * frees it. */
static char *path_of(const char *only) {
    Error ignored;
    char *found = NULL, *path = realpath(only, NULL);
    if (path) return path;
    if (model_names_resolve(only, &found, &ignored) == STATUS_OK && found)
        path = realpath(found, NULL);
    free(found);
    return path ? path : strdup(only); /* a source that is gone */
}

/* Deletes the conversions whose names begin with `asked`, if none was called so exactly and all
 * have one name. False with errno: the directory cannot be read. */
static bool clear_by_prefix(Sum *sum, const char *directory) {
    if (sum->n > 0 || sum->failed || !sum->asked[0]) return true;
    sum->by_prefix = true;
    if (!conversion_files_each(directory, ".bin", compare_one, sum)) return false;
    return sum->several || conversion_files_each(directory, ".bin", clear_one, sum);
}

Status conversion_list_clear(FILE *out, const char *cache_dir, const char *only, Error *error) {
    char *directory = cache_directory(cache_dir);
    Sum sum = {.out = out, .asked = only};
    if (!directory) return error_set(error, "no cache directory: set HOME or --cache-dir");
    char *path = only[0] ? path_of(only) : NULL;
    sum.path = path;
    Status status = STATUS_OK;
    if (!conversion_files_each(directory, ".bin", clear_one, &sum) ||
        !clear_by_prefix(&sum, directory)) {
        status = error_set(error, "%s: %s", directory, strerror(errno));
    } else if (sum.several) {
        status = error_set(
            error, "%s: conversions of several names begin with %s; --cache-list names them",
            directory, only);
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
        status = print_total(&sum, 0, " deleted", directory, error);
    }
    free(path);
    free(directory);
    return status;
}
