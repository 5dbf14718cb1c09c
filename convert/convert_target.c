#include "convert/convert_target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert/adapter_merge.h"
#include "convert/kv_heads.h"
#include "convert/cache_directory.h"
#include "convert/calibrate.h"
#include "convert/gguf_write.h"
#include "convert/target_size.h"
#include "convert/type_choice.h"
#include "formats/family/embedding_pooling.h"
#include "families/reading/source_open.h"
#include "system/errand.h"
#include "system/own_file.h"
#include "system/replace_file.h"

enum { PATH_BYTES = 4096 };

/* ---- A temporary file ---- */

static bool target_join(char *path, const char *directory, const char *rest) {
    int length = snprintf(path, PATH_BYTES, "%s%s", directory, rest);
    return length > 0 && length < PATH_BYTES;
}

int convert_unlinked(const char *directory) {
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
    char path[PATH_BYTES];
    if (!target_join(path, directory, "/verbatim.XXXXXX")) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    return fd;
}

int convert_unlinked_anywhere(const char *first) {
    const char *directories[] = {first, getenv("TMPDIR"), "/var/tmp", "/tmp"};
    int fd = -1;
    for (size_t i = 0; fd < 0 && i < sizeof directories / sizeof *directories; i++)
        if (directories[i]) fd = convert_unlinked(directories[i]);
    return fd;
}

Status convert_temporary(const char *source, const ConvertOptions *options, int *fd, Error *error) {
    char *cache = cache_directory(NULL);
    *fd = convert_unlinked_anywhere(cache && cache_directory_make(cache) ? cache : NULL);
    free(cache);
    if (*fd < 0)
        return error_set(error,
                         "no directory for the converted model can be written: %s (set TMPDIR)",
                         strerror(errno));
    Status status = convert_source(source, options, *fd, error);
    if (status == STATUS_OK) return status;
    close(*fd);
    *fd = -1;
    return status;
}

/* ---- A named file ---- */

/* The number-th temporary name in the directory of `path`, malloc'ed; NULL with errno. It is not
 * made of the target's name, which may be as long as the file system allows. */
static char *temporary_name(const char *path, unsigned number) {
    char directory[PATH_BYTES], *name;
    if (!replace_file_directory(path, directory, sizeof directory)) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    int length = asprintf(&name, "%s/verbatim.%ld-%u.tmp", directory, (long)getpid(), number);
    return length < 0 ? NULL : name;
}

enum { TEMPORARY_NAMES = 100 };

/* Gives the nameless file `fd` (or, with fd -1, a new file) the first free temporary name in the
 * directory of `path`. Returns -1 with errno, or the descriptor of the new file. */
static int link_temporary_name(int fd, const char *path, char **temporary) {
    char nameless[64];
    snprintf(nameless, sizeof nameless, "/proc/self/fd/%d", fd);
    for (unsigned i = 0; i < TEMPORARY_NAMES && (*temporary = temporary_name(path, i)); i++) {
        int result = fd < 0 ? open(*temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)
                            : linkat(AT_FDCWD, nameless, AT_FDCWD, *temporary, AT_SYMLINK_FOLLOW);
        int reason = errno;
        if (result >= 0) return result;
        free(*temporary); /* the name of another process's file */
        *temporary = NULL;
        errno = reason;
        if (reason != EEXIST) break;
    }
    return -1;
}

/* Opens a new file in the directory of `path`: without a name where the file system can (*temporary
 * is NULL), so that even a kill leaves nothing behind, else under the name *temporary, malloc'ed.
 */
static int open_beside(const char *path, char **temporary) {
    char directory[PATH_BYTES];
    *temporary = NULL;
    if (!replace_file_directory(path, directory, sizeof directory)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
    return link_temporary_name(-1, path, temporary);
}

/* Whether `info` is that of a file of the source. */
static bool is_read_from(const Source *source, const struct stat *info) {
    struct stat file;
    for (size_t i = 0; i < source->n_files + 2; i++) {
        const InputFile *input = i < source->n_files    ? &source->files[i]
                                 : i == source->n_files ? &source->tokenizer_file
                                                        : &source->family_file;
        if (input->path && fstat(input->fd, &file) == 0 && file.st_ino == info->st_ino &&
            file.st_dev == info->st_dev)
            return true;
    }
    return false;
}

/* What calibration reads, and the file that it converts into. */
typedef struct CalibrationFiles {
    InputFile text;
    int fd;
    bool has_types;
    TargetSizeFiles types; /* instead of `fd`, with ExportOptions.target_size */
} CalibrationFiles;

static Status open_types(TargetSizeFiles *files, const char *directory, Error *error) {
    size_t n = sizeof files->fds / sizeof *files->fds;
    for (size_t k = 0; k < n; k++) files->fds[k] = -1;
    for (size_t k = 0; k < n; k++) {
        files->fds[k] = convert_unlinked(directory);
        if (files->fds[k] < 0) return error_set(error, "%s: %s", directory, strerror(errno));
    }
    return STATUS_OK;
}

static Status open_calibration(CalibrationFiles *files, const ExportOptions *options,
                               const char *target, Error *error) {
    char directory[PATH_BYTES];
    if (input_open(&files->text, options->calibrate, error) != STATUS_OK) return STATUS_FAILED;
    if (!replace_file_directory(target, directory, sizeof directory))
        return error_set(error, "%s: name too long", target);
    if (options->target_size) {
        files->has_types = true;
        return open_types(&files->types, directory, error);
    }
    files->fd = convert_unlinked(directory);
    if (files->fd < 0) return error_set(error, "%s: %s", directory, strerror(errno));
    return STATUS_OK;
}

static void close_calibration(CalibrationFiles *files) {
    input_close(&files->text);
    if (files->fd >= 0) close(files->fd);
    if (files->has_types) target_size_close(&files->types);
}

/* The files that are written. */
typedef struct Outputs {
    int target;     /* the file that gets the name */
    int model;      /* the model.bin: `target`, or for a GGUF target a file without a name */
    uint64_t bytes; /* of a GGUF target when it is written; else 0 */
} Outputs;

static Status open_outputs(Outputs *out, bool gguf, const char *path, Error *error) {
    char directory[PATH_BYTES];
    out->model = out->target;
    if (!gguf) return STATUS_OK;
    out->model = replace_file_directory(path, directory, sizeof directory)
                     ? convert_unlinked(directory)
                     : -1;
    return out->model < 0 ? error_set(error, "%s: %s", path, strerror(errno)) : STATUS_OK;
}

static void close_outputs(Outputs *out) {
    if (out->model >= 0 && out->model != out->target) close(out->model);
    close(out->target);
}

/* Writes the GGUF target from the model.bin. */
static Status write_gguf(const Source *source, const ConvertOptions *options, Outputs *out,
                         Error *error) {
    ModelFile *model;
    int own = fcntl(out->model, F_DUPFD_CLOEXEC, 0); /* which modelfile_open takes over */
    if (own < 0) return error_set(error, "%s: %s", source->path, strerror(errno));
    if (modelfile_open(&model, source->path, own, error) != STATUS_OK) return STATUS_FAILED;
    Status status = gguf_write(source, model, options, out->target, &out->bytes, error);
    modelfile_close(model);
    return status;
}

/* What parse_and_convert decides on the way, and frees. */
typedef struct Decisions {
    TypeChoice choice;
    char *mix;
    Calibration *calibration;
} Decisions;

/* Parses the source and applies what changes it: pooling, adapters, fewer key/value heads. --type
 * auto chooses before that. */
static Status parse_and_change(Source *source, const ExportOptions *wishes, ConvertOptions *options,
                               TypeChoice *choice, Error *error) {
    Status status = source_parse(source, error);
    if (status == STATUS_OK && wishes->fits) {
        status = type_choose(source, wishes->fits, choice, error);
        if (status == STATUS_OK) type_choice_say(source->path, wishes->fits, choice);
        if (status == STATUS_OK) options->type = choice->type[0] ? choice->type : NULL;
    }
    if (status == STATUS_OK && wishes->pooling)
        status = pooling_set(source, wishes->pooling, error);
    if (status == STATUS_OK && wishes->adapters)
        status = adapter_merge(wishes->adapters, source, error);
    if (status == STATUS_OK && wishes->kv_heads)
        status = kv_heads_merge(source, wishes->kv_heads, error);
    return status;
}

/* Runs the model over the calibration text, where there is one: what its inputs matter, and with a
 * target size the types. Refuses types that a GGUF target cannot hold. */
static Status calibrate_and_choose(Source *source, const ExportOptions *wishes,
                                   ConvertOptions *options, CalibrationFiles *files, Decisions *d,
                                   Error *error) {
    Status status = STATUS_OK;
    if (wishes->target_size) {
        status = target_size_choose(source, wishes->target_size, wishes->gguf, &files->text,
                                    &files->types, options, &d->mix, &d->calibration, error);
        options->type = d->mix;
    }
    if (status == STATUS_OK && wishes->gguf)
        status = gguf_write_check(source, options->type, error);
    if (status == STATUS_OK && wishes->calibrate && !wishes->target_size)
        status =
            calibrate_source(&d->calibration, source, &files->text, &files->fd, options, error);
    if (d->calibration) {
        options->importance = calibration_importance_of;
        options->importance_context = d->calibration;
    }
    return status;
}

/* Makes the files of the source, all of which are open. */
static Status parse_and_convert(Source *source, const ConvertOptions *given,
                                const ExportOptions *wishes, CalibrationFiles *files, Outputs *out,
                                Error *error) {
    ConvertOptions options = *given;
    Decisions d = {.mix = NULL};
    options.synced = !wishes->gguf;
    Status status = parse_and_change(source, wishes, &options, &d.choice, error);
    if (status == STATUS_OK)
        status = calibrate_and_choose(source, wishes, &options, files, &d, error);
    if (status == STATUS_OK) status = convert_parsed(source, &options, out->model, error);
    if (status == STATUS_OK && wishes->calibrate)
        status = input_check_unchanged(&files->text, error);
    if (status == STATUS_OK && wishes->gguf) status = write_gguf(source, &options, out, error);
    if (status == STATUS_OK && wishes->gguf) status = source_check_unchanged(source, error);
    calibration_free(d.calibration);
    free(d.mix);
    return status;
}

/* Arguments of the function that writes a target. */
typedef struct Target {
    const char *path;
    char *temporary; /* NULL: the file has no name yet */
    int fd;
    bool keeps; /* a file that has appeared at `path` meanwhile is not replaced */
} Target;

/* linkat cannot replace a file, as rename does: a nameless file gets a temporary name first. */
static Status name_target(void *context, Error *error) {
    Target *target = context;
    if (!target->temporary && link_temporary_name(target->fd, target->path, &target->temporary) < 0)
        return error_set(error, "%s: %s", target->path, strerror(errno));
    return target->keeps ? replace_file_rename_new(&target->temporary, target->path, error)
                         : replace_file_rename(&target->temporary, target->path, error);
}

static void drop_target(void *context) {
    replace_file_discard(&((Target *)context)->temporary);
}

/* Fails when `path` is not a place for the target. */
static Status check_target(const Source *source, const ExportOptions *wishes, const char *path,
                           Error *error) {
    struct stat info;
    bool exists = stat(path, &info) == 0;
    if (!exists && errno != ENOENT) return error_set(error, "%s: %s", path, strerror(errno));
    if (exists && (!S_ISREG(info.st_mode) || own_file_is_descriptor(path)))
        return error_set(error, "%s: exists and is not a regular file", path);
    if (exists && is_read_from(source, &info))
        return error_set(error, "%s: belongs to the source; name another target", path);
    if (exists && wishes->keeps)
        return error_set(error, "%s: exists already; --force replaces it", path);
    if (wishes->gguf && source->kind != SOURCE_GGUF)
        return error_set(error,
                         "%s: is not a GGUF file, and a .gguf is made of one alone, whose keys and "
                         "tokenizer it takes over: let TARGET be a model.bin",
                         source->path);
    return STATUS_OK;
}

/* Converts into a temporary file beside `path`, which it replaces at the end. The errand is a
 * process that keeps the right to rename and remove files, which this one gives up before it
 * parses. */
static Status convert_opened(Source *source, const ConvertOptions *options,
                             const ExportOptions *wishes, const char *path, Error *error) {
    ConvertOptions named = *options;
    named.target = path;
    Errand errand = {0};
    Target target = {.path = path, .keeps = wishes->keeps};
    if (check_target(source, wishes, path, error) != STATUS_OK) return STATUS_FAILED;
    target.fd = open_beside(path, &target.temporary);
    if (target.fd < 0) return error_set(error, "%s: %s", path, strerror(errno));
    const ErrandJob job = {name_target, drop_target, &target, {target.fd, -1}};
    Outputs out = {.target = target.fd};
    CalibrationFiles files = {.fd = -1, .text = {.fd = -1}};
    Status status = errand_start(&errand, &job, error);
    if (status == STATUS_OK) status = open_outputs(&out, wishes->gguf, path, error);
    if (status == STATUS_OK && wishes->calibrate)
        status = open_calibration(&files, wishes, path, error);
    if (status == STATUS_OK && wishes->ready) status = wishes->ready(wishes->context, error);
    if (status == STATUS_OK)
        status = parse_and_convert(source, &named, wishes, &files, &out, error);
    close_calibration(&files);
    if (status == STATUS_OK) status = replace_file_sync(target.fd, path, error);
    if (status == STATUS_OK) status = errand_finish(&errand, error);
    if (status == STATUS_OK && wishes->written)
        status = wishes->written(wishes->context, out.model, out.bytes, error);
    errand_drop(&errand);
    drop_target(&target); /* where no errand could be started */
    close_outputs(&out);
    return status;
}

Status convert_to_path(const char *path_of_source, const ConvertOptions *options,
                       const ExportOptions *wishes, const char *path, Error *error) {
    static const ExportOptions none;
    Source *source;
    if (convert_open(&source, path_of_source, &options->source, error) != STATUS_OK)
        return STATUS_FAILED;
    Status status = convert_opened(source, options, wishes ? wishes : &none, path, error);
    source_close(source);
    return status;
}
