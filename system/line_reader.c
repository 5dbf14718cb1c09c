#include "system/line_reader.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/utf8.h"
#include "system/compression.h"
#include "system/text_file.h"

void line_reader_init(LineReader *r, int fd, const char *name, const char *option) {
    *r = (LineReader){.fd = fd, .name = name, .option = option, .limit = UINT64_MAX};
}

Status line_reader_range(LineReader *r, uint64_t begin, uint64_t end, Error *error) {
    r->offset = r->first = begin;
    r->limit = end;
    if (lseek(r->fd, (off_t)begin, SEEK_SET) == (off_t)begin) return STATUS_OK;
    return error_set(error, "%s: cannot be read: %s", r->name, strerror(errno));
}

void line_reader_free(LineReader *r) {
    free(r->bytes);
    r->bytes = NULL;
}

void line_reader_trim(const LineReader *r, bool text, const char **line, size_t *length) {
    bool begins_file = r->number == 1 && r->first == 0;
    size_t mark = begins_file ? utf8_mark_length(*line, *length) : 0;
    *line += mark;
    *length -= mark;
    if (text && *length > 0 && (*line)[*length - 1] == '\r') --*length;
}

/* Refuses a file that begins as compressed files, other forms of tables or UTF-16 do, which would
 * be long bad lines. */
static Status refuse_compressed(const LineReader *r, Error *error) {
    if (r->number > 0 || r->offset > 0) return STATUS_OK;
    static const struct {
        const char *mark, *says;
    } others[] = {
        {"PAR1", "a Parquet file; pandas.read_parquet(FILE).to_csv(NAME.csv) makes a table of it"},
        {"PK\x03\x04", "a ZIP archive or a spreadsheet; its program saves tables as CSV"},
        {"\xFF\xFE",
         "UTF-16 text; iconv -f UTF-16 -t UTF-8 FILE | ... with - for its name reads it"},
    };
    const Compression *how = compression_of(r->bytes, r->end);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        size_t n = strlen(others[i].mark);
        if (r->end >= n && memcmp(r->bytes, others[i].mark, n) == 0 &&
            memchr(r->bytes, 0, r->end)) /* no text has it */
            return error_set(error, "%s: %s", r->name, others[i].says);
    }
    bool table = strcasestr(r->name, ".csv.") || strcasestr(r->name, ".tsv.");
    if (how)
        return error_set(error,
                         "%s: compressed by %s; its lines are read from a pipe: %s %s | ... %s -%s",
                         r->name, how->name, how->command, text_file_command_name(r->name),
                         r->option, table ? " --csv" : "");
    return STATUS_OK;
}

/* Reads more bytes. *nothing: none can be read now, and `wait` is false. */
static Status fill(LineReader *r, bool wait, const volatile sig_atomic_t *interrupted,
                   bool *nothing, Error *error) {
    enum { AT_A_TIME = 65536 };
    *nothing = false;
    if (r->begin > 0) {
        memmove(r->bytes, r->bytes + r->begin, r->end - r->begin);
        r->end -= r->begin;
        r->scanned -= r->begin;
        r->begin = 0;
    }
    if (!array_reserve(&r->bytes, &r->capacity, r->end + AT_A_TIME, 1))
        return error_set(error, "%s: no memory for a line", r->name);
    uint64_t left = r->limit - (r->offset + (r->end - r->begin));
    size_t most = left < AT_A_TIME ? (size_t)left : AT_A_TIME;
    struct pollfd ready = {.fd = r->fd, .events = POLLIN};
    if (!wait && poll(&ready, 1, 0) == 0) {
        *nothing = true;
        return STATUS_OK;
    }
    for (;;) {
        ssize_t n = read(r->fd, r->bytes + r->end, most);
        if (n >= 0) {
            r->end += (size_t)n;
            r->at_end = n == 0;
            return refuse_compressed(r, error);
        }
        if (errno == EINTR && interrupted && *interrupted) return STATUS_INTERRUPTED;
        if (errno == EAGAIN) {
            poll(&ready, 1, -1);
        } else if (errno != EINTR) {
            return error_set(error, "%s: cannot be read: %s", r->name, strerror(errno));
        }
    }
}

/* Returns the bytes before the index `end` as the next line. */
static void give(LineReader *r, size_t end, const char **line, size_t *length) {
    *line = r->bytes + r->begin;
    *length = end - r->begin;
    r->terminated = end < r->end;
    r->offset += *length + r->terminated;
    r->begin = r->scanned = end + r->terminated;
    r->number++;
}

Status line_reader_next(LineReader *r, bool wait, const volatile sig_atomic_t *interrupted,
                        LineState *state, const char **line, size_t *length, Error *error) {
    for (;;) {
        char *newline =
            r->end > r->scanned ? memchr(r->bytes + r->scanned, '\n', r->end - r->scanned) : NULL;
        size_t end = newline ? (size_t)(newline - r->bytes) : r->end;
        r->scanned = end;
        if (newline || (r->at_end && r->end > r->begin)) {
            *state = r->skipping ? LINE_TOO_LONG : LINE_READ;
            r->skipping = false;
            give(r, end, line, length);
            return STATUS_OK;
        }
        if (r->at_end) {
            *state = LINE_NONE;
            return STATUS_OK;
        }
        if (r->end - r->begin > LINE_MOST_BYTES) {
            /* Keep the first bytes, for the line's hash. */
            r->offset += r->end - r->begin - LINE_MOST_BYTES;
            r->end = r->scanned = r->begin + LINE_MOST_BYTES;
            r->skipping = true;
        }
        /* A line that is too long may never end. */
        if (r->skipping && interrupted && *interrupted) return STATUS_INTERRUPTED;
        bool nothing;
        Status status = fill(r, wait, interrupted, &nothing, error);
        if (status != STATUS_OK) return status;
        if (nothing) {
            *state = LINE_NOT_YET;
            return STATUS_OK;
        }
    }
}

size_t line_reader_count(const LineReader *r) {
    struct stat info;
    if (fstat(r->fd, &info) != 0 || !S_ISREG(info.st_mode)) return 0;
    enum { AT_A_TIME = 65536 };
    char *bytes = malloc(AT_A_TIME);
    size_t lines = 0;
    bool blank = true;
    uint64_t at = (uint64_t)lseek(r->fd, 0, SEEK_CUR);
    for (ssize_t n; bytes && at < r->limit; at += (uint64_t)n) {
        size_t most = r->limit - at < AT_A_TIME ? (size_t)(r->limit - at) : AT_A_TIME;
        n = pread(r->fd, bytes, most, (off_t)at);
        if (n <= 0) break;
        for (ssize_t i = 0; i < n; i++) {
            if (bytes[i] == '\n') {
                lines += !blank;
                blank = true;
            } else if (bytes[i] != ' ' && bytes[i] != '\t' && bytes[i] != '\r') {
                blank = false;
            }
        }
    }
    free(bytes);
    return lines + !blank;
}
