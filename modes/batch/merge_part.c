#include "modes/batch/merge_part.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "modes/batch/batch_files.h"
#include "system/line_reader.h"

Status merge_part_open(Part *p, const char *path, Error *error) {
    struct stat info;
    *p = (Part){.name = path, .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (p->fd < 0 || fstat(p->fd, &info) != 0)
        return error_set(error, "%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return error_set(error, "%s: not a file", path);
    if (flock(p->fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return error_set(error, "%s: another process is writing to it", path);
    return STATUS_OK;
}

void merge_part_close(Part *p) {
    if (p->fd >= 0) close(p->fd);
    p->fd = -1;
    shard_free(&p->shard);
    merge_part_forget(p);
}

Status merge_part_header(Part *p, Error *error) {
    LineReader reader;
    LineState state;
    const char *line;
    size_t length;
    line_reader_init(&reader, p->fd, p->name, "--merge");
    Status status = line_reader_range(&reader, 0, UINT64_MAX, error);
    if (status == STATUS_OK)
        status = line_reader_next(&reader, true, NULL, &state, &line, &length, error);
    if (status == STATUS_OK && (state != LINE_READ || !shard_read(line, length, &p->shard)))
        status = error_set(error,
                           "%s: not a part: its first line does not say of which requests it has "
                           "the results, as --shard writes it",
                           p->name);
    line_reader_free(&reader);
    return status;
}

static int by_key(const void *a, const void *b) {
    const RecordKey *x = &((const PartLine *)a)->key;
    const RecordKey *y = &((const PartLine *)b)->key;
    if (x->high != y->high) return x->high < y->high ? -1 : 1;
    return (x->low > y->low) - (x->low < y->low);
}

static Status merge_part_add_line(Part *p, const PartLine *line, const ResultLine *result,
                                  Error *error) {
    if (strcmp(result->fingerprint, p->shard.fingerprint) != 0)
        return error_set(error,
                         "%s: line %zu was made by another model or with other options than its "
                         "first line says (%s, not %s)",
                         p->name, line->number, result->fingerprint, p->shard.fingerprint);
    if (!array_reserve(&p->lines, &p->capacity, p->n_lines + 1, sizeof *p->lines))
        return error_set(error, "%s: no memory for its lines", p->name);
    PartLine *added = &p->lines[p->n_lines++];
    *added = *line;
    added->key = result->key;
    added->failed = result->failed;
    added->numbered = result->numbered;
    return STATUS_OK;
}

/* Notes the place and the request of each result line. An unfinished last line that cannot be
 * read, as a crash leaves it, is passed over. */
static Status read_lines(Part *p, LineReader *reader, const volatile sig_atomic_t *interrupted,
                         Error *error) {
    for (;;) {
        LineState state;
        const char *text;
        ResultLine result;
        PartLine line = {.begin = reader->offset};
        Status status =
            line_reader_next(reader, true, interrupted, &state, &text, &line.length, error);
        if (status != STATUS_OK || state == LINE_NONE) return status;
        if (interrupted && *interrupted) return STATUS_INTERRUPTED;
        line.number = reader->number;
        if (line.number == 1) continue; /* the header */
        if (state == LINE_TOO_LONG)
            return error_set(error, "%s: line %zu is longer than %d bytes", p->name, line.number,
                             LINE_MOST_BYTES);
        if (result_read(text, line.length, &result, error) != STATUS_OK)
            return reader->terminated ? error_prefix(error, "%s: line %zu", p->name, line.number)
                                      : STATUS_OK;
        status = merge_part_add_line(p, &line, &result, error);
        if (status != STATUS_OK) return status;
    }
}

Status merge_part_index(Part *p, const volatile sig_atomic_t *interrupted, Error *error) {
    LineReader reader;
    line_reader_init(&reader, p->fd, p->name, "--merge");
    Status status = line_reader_range(&reader, 0, UINT64_MAX, error);
    if (status == STATUS_OK) status = read_lines(p, &reader, interrupted, error);
    line_reader_free(&reader);
    if (status != STATUS_OK) return status;
    if (p->n_lines > 0) qsort(p->lines, p->n_lines, sizeof *p->lines, by_key);
    for (size_t i = 1; i < p->n_lines; i++)
        if (by_key(&p->lines[i - 1], &p->lines[i]) == 0)
            return error_set(error, "%s: lines %zu and %zu are results of the same request",
                             p->name, p->lines[i - 1].number, p->lines[i].number);
    return STATUS_OK;
}

void merge_part_forget(Part *p) {
    free(p->lines);
    p->lines = NULL;
    p->n_lines = p->capacity = 0;
}

PartLine *merge_part_find(Part *p, RecordKey key) {
    const PartLine wanted = {.key = key};
    PartLine *line =
        p->n_lines > 0 ? bsearch(&wanted, p->lines, p->n_lines, sizeof wanted, by_key) : NULL;
    if (line) line->used = true;
    return line;
}

const PartLine *merge_part_unused(const Part *p) {
    const PartLine *first = NULL;
    for (size_t i = 0; i < p->n_lines; i++)
        if (!p->lines[i].used && (!first || p->lines[i].number < first->number))
            first = &p->lines[i];
    return first;
}

Status merge_part_read(const Part *p, const PartLine *line, char *text, Error *error) {
    for (size_t at = 0; at < line->length;) {
        ssize_t n = pread(p->fd, text + at, line->length - at, (off_t)(line->begin + at));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return error_set(error, "%s: line %zu cannot be read: %s", p->name, line->number,
                             n < 0 ? strerror(errno) : "the file became shorter");
        at += (size_t)n;
    }
    return STATUS_OK;
}
