#include "modes/batch/merge.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/text.h"
#include "json/json_digits.h"
#include "json/json_text.h"
#include "modes/batch/batch_files.h"
#include "modes/batch/csv_shard.h"
#include "modes/batch/merge_part.h"
#include "modes/batch/renumber.h"
#include "system/line_reader.h"
#include "system/terminal.h"

enum {
    WRITE_AT = 1 << 18, /* bytes of results that are written at a time */
    MOST_NAMED = 20     /* ranges of missing lines that are named */
};

typedef struct Merge {
    const Session *session;
    const char *name; /* of the requests */
    int fd;
    uint64_t size;
    Part *parts; /* [n_parts] in the order of their bytes */
    size_t n_parts;
    Output output;
    bool writes; /* the output is open */

    Csv *csv;        /* reads the rows of a table; NULL: lines */
    KeySet ids;      /* each id of a request, and the line in which it first stands */
    size_t n_before; /* lines of the requests before the range that is being joined */
    TextBuffer buffer;
    char *line; /* a result as its part has it */
    size_t line_capacity;
    size_t n_rows; /* of a table, so far */
    size_t n_requests, n_failed, n_missing;

    /* The missing lines that were met last: they are named as a range. */
    size_t missing_first, missing_last;
    const Part *missing_in; /* NULL: no part has their range */
    size_t n_named;
} Merge;

/* ---- Opening -----------------------------------------------------------------------------------
 */

/* Allows as many open files as there are parts. */
static void raise_open_files(size_t n) {
    struct rlimit limit;
    rlim_t wanted = (rlim_t)n + 64;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Opens FILE, all parts and the output. FILE must be a regular file, because the parts name ranges
 * of its bytes. */
static Status merge_open(Merge *m, Error *error) {
    const Options *o = m->session->options;
    struct stat info;
    raise_open_files(o->n_parts);
    m->name = o->batch;
    m->fd = open(o->batch, O_RDONLY | O_CLOEXEC);
    if (m->fd < 0 || fstat(m->fd, &info) != 0)
        return error_set(error, "%s: %s", m->name, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return error_set(error, "%s: not a file, in which the parts' bytes could be found",
                         m->name);
    m->size = (uint64_t)info.st_size;
    m->parts = calloc(o->n_parts, sizeof *m->parts);
    if (!m->parts) return error_set(error, "no memory for %zu parts", o->n_parts);
    while (m->n_parts < o->n_parts) {
        size_t i = m->n_parts++;
        if (merge_part_open(&m->parts[i], o->parts[i], error) != STATUS_OK) return STATUS_FAILED;
    }
    m->writes = true;
    return output_open(&m->output, o->output, error);
}

static void merge_close(Merge *m) {
    for (size_t i = 0; i < m->n_parts; i++) merge_part_close(&m->parts[i]);
    free(m->parts);
    if (m->fd >= 0) close(m->fd);
    if (m->writes) output_close(&m->output);
    csv_close(m->csv);
    keyset_free(&m->ids);
    text_free(&m->buffer);
    free(m->line);
}

/* ---- The parts as a whole ----------------------------------------------------------------------
 */

static int by_range(const void *a, const void *b) {
    const Shard *x = &((const Part *)a)->shard, *y = &((const Part *)b)->shard;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return (x->part > y->part) - (x->part < y->part);
}

/* A part must have been made of the bytes that FILE has at its place now. */
static Status check_range(const Merge *m, const Part *p, Error *error) {
    const Shard *s = &p->shard;
    uint64_t hash = 0;
    if (s->end > m->size)
        return error_set(error,
                         "%s: made for other requests: it answers bytes %" PRIu64 " to %" PRIu64
                         ", but %s has %" PRIu64,
                         p->name, s->begin, s->end, m->name, m->size);
    Status status =
        shard_hash(m->fd, m->name, s->begin, s->end, m->session->interrupted, &hash, error);
    if (status != STATUS_OK || hash == s->hash) return status;
    return error_set(error,
                     "%s: made for other requests: bytes %" PRIu64 " to %" PRIu64
                     " of %s had the XXH3 %016" PRIx64 ", but now it is %016" PRIx64,
                     p->name, s->begin, s->end, m->name, s->hash, hash);
}

static Status check_pair(const Part *first, const Part *p, const Part *before, Error *error) {
    if (strcmp(p->shard.fingerprint, first->shard.fingerprint) != 0)
        return error_set(error,
                         "%s and %s were made by different models or with other options "
                         "(%s, %s)",
                         first->name, p->name, first->shard.fingerprint, p->shard.fingerprint);
    const char *table = first->shard.table, *own = p->shard.table;
    if (table && own ? strcmp(table, own) != 0 : table != own)
        return error_set(error, "%s and %s were made with different prompts for a row", first->name,
                         p->name);
    if (p->shard.begin < before->shard.end)
        return error_set(error,
                         "%s and %s overlap: parts %" PRIu64 "/%" PRIu64 " and %" PRIu64 "/%" PRIu64
                         " both answer byte %" PRIu64 " of the requests",
                         before->name, p->name, before->shard.part, before->shard.of, p->shard.part,
                         p->shard.of, p->shard.begin);
    return STATUS_OK;
}

static Status check_parts(Merge *m, Error *error) {
    Status status = STATUS_OK;
    for (size_t i = 0; i < m->n_parts && status == STATUS_OK; i++)
        status = merge_part_header(&m->parts[i], error);
    if (status != STATUS_OK) return status;
    qsort(m->parts, m->n_parts, sizeof *m->parts, by_range);
    for (size_t i = 0; i < m->n_parts && status == STATUS_OK; i++) {
        if (i > 0) status = check_pair(&m->parts[0], &m->parts[i], &m->parts[i - 1], error);
        if (status == STATUS_OK) status = check_range(m, &m->parts[i], error);
    }
    if (status == STATUS_OK && m->parts[0].shard.table)
        status = csv_shard_open(&m->parts[0].shard, m->name, &m->csv, error);
    return status;
}

/* ---- Missing lines -----------------------------------------------------------------------------
 */

/* Names the lines that were met last. */
static void name_missing(Merge *m) {
    char range[64];
    if (m->missing_first == 0) return;
    if (m->missing_first == m->missing_last)
        snprintf(range, sizeof range, "line %zu", m->missing_first);
    else
        snprintf(range, sizeof range, "lines %zu to %zu", m->missing_first, m->missing_last);
    if (m->n_named++ < MOST_NAMED) {
        if (m->missing_in)
            terminal_say("%s of %s: no result in %s, part %" PRIu64 "/%" PRIu64, range, m->name,
                         m->missing_in->name, m->missing_in->shard.part, m->missing_in->shard.of);
        else
            terminal_say("%s of %s: in none of the parts", range, m->name);
    }
    m->missing_first = 0;
}

static void add_missing(Merge *m, const Part *part, size_t number) {
    bool follows = m->missing_first > 0 && m->missing_in == part;
    if (!follows) {
        name_missing(m);
        m->missing_first = number;
    }
    m->missing_in = part;
    m->missing_last = number;
    m->n_missing++;
}

/* ---- Joining -----------------------------------------------------------------------------------
 */

static Status write_results(Merge *m, Error *error) {
    if (m->buffer.failed) return error_set(error, "no memory for the results");
    Status status = output_write(&m->output, m->buffer.bytes, m->buffer.length, error);
    m->buffer.length = 0;
    return status;
}

/* Adds a result to the output, under the number that its request has in FILE. */
static Status put_result(Merge *m, const Part *part, const PartLine *line, size_t number,
                         Error *error) {
    if (!array_reserve(&m->line, &m->line_capacity, line->length, 1))
        return error_set(error, "no memory for a result");
    if (merge_part_read(part, line, m->line, error) != STATUS_OK) return STATUS_FAILED;
    if (line->numbered && part->n_before > 0) {
        char *text = renumber_result(m->line, line->length, number);
        if (!text)
            return error_set(
                error, "%s: line %zu is not as it was written, and cannot get its number in %s",
                part->name, line->number, m->name);
        text_put(&m->buffer, text, strlen(text), 0);
        free(text);
    } else {
        text_put(&m->buffer, m->line, line->length, 0);
    }
    text_put(&m->buffer, "\n", 1, 0);
    return m->buffer.length < WRITE_AT && !m->buffer.failed ? STATUS_OK : write_results(m, error);
}

/* The part, among those that are joined, that has the line; NULL: none. */
static const Part *part_of_line(const Merge *m, uint64_t line) {
    for (size_t i = 0; i < m->n_parts; i++)
        if (m->parts[i].n_before < line && line <= m->parts[i].n_after) return &m->parts[i];
    return NULL;
}

/* Refuses an id that a line of another part has: one run would have answered only the first. When
 * both lines are in the same part, its run has refused the second. */
static Status claim_id(Merge *m, const Part *part, Request *r, size_t number, Error *error) {
    if (!r->id) return STATUS_OK;
    RecordKey key = record_key_of_id(r->id, r->digits);
    uint64_t first = keyset_flags(&m->ids, key);
    if (first == 0 && !keyset_add(&m->ids, key, number))
        return error_set(error, "no memory for an id");
    if (first == 0 || !part) return STATUS_OK;
    r->id_taken = first > part->n_before;
    const Part *other = r->id_taken ? NULL : part_of_line(m, first);
    if (!other) return STATUS_OK;
    char *id = json_digits_dumps(r->id, r->digits, 0);
    error_set(error,
              "%s: lines %" PRIu64 " and %zu have the same id, %.200s, but are in different parts, "
              "%s and %s",
              m->name, first, number, id ? id : "", other->name, part->name);
    free(id);
    return STATUS_FAILED;
}

/* Joins the result of a request, which it takes over: number `number` of FILE. `optional`: it may
 * have none. */
static Status join_request(Merge *m, Part *part, Request *request, size_t number, bool optional,
                           Error *error) {
    Status status = claim_id(m, part, request, number, error);
    PartLine *found =
        part && status == STATUS_OK ? merge_part_find(part, request_key(request)) : NULL;
    request_free(request);
    if (status != STATUS_OK || (optional && !found)) return status;
    m->n_requests++;
    if (!found) {
        add_missing(m, part, number);
        return STATUS_OK;
    }
    m->n_failed += found->failed;
    /* Once a line is missing there is nothing to write, but others to name. */
    return m->n_missing == 0 ? put_result(m, part, found, number, error) : STATUS_OK;
}

/* Finds the result of one line of FILE, which is the reader's current line. `part` is NULL where no
 * part has the line. */
static Status join_line(Merge *m, Part *part, const LineReader *reader, LineState state,
                        const char *line, size_t length, Error *error) {
    Request request;
    Error ignored; /* its result says so */
    bool text = m->parts[0].shard.text;
    line_reader_trim(reader, text, &line, &length);
    bool blank = json_line_is_blank(line, length); /* a request of --embed alone */
    if (blank && !text) return STATUS_OK;
    if (text || state == LINE_TOO_LONG)
        request_blank(&request, line, length, reader->number);
    else
        request_identify(&request, line, length, reader->number, &ignored);
    return join_request(m, part, &request, m->n_before + reader->number, blank, error);
}

/* The same of a line of a table, or with `line` NULL of its end: of the row that is complete. */
static Status join_row(Merge *m, Part *part, const LineReader *reader, LineState state,
                       const char *line, size_t length, Error *error) {
    Request request;
    Error ignored;
    const CsvRow *row = NULL;
    if (state == LINE_TOO_LONG)
        return error_set(error, "%s: a line is longer than %d bytes", m->name, LINE_MOST_BYTES);
    if (line) line_reader_trim(reader, false, &line, &length);
    Status status =
        line ? csv_line(m->csv, line, length, &row, error) : csv_end(m->csv, &row, error);
    if (status != STATUS_OK || !row) return status;
    size_t number = row->number - m->n_before;
    if (row->wrong)
        request_blank(&request, row->request, row->length, number);
    else
        request_identify(&request, row->request, row->length, number, &ignored);
    m->n_rows = row->number;
    return join_request(m, part, &request, row->number, false, error);
}

/* Joins the lines of FILE between the bytes `begin` and `end`. They all belong to `part`; NULL: no
 * part covers them. */
static Status join_range(Merge *m, Part *part, uint64_t begin, uint64_t end, Error *error) {
    LineReader reader;
    const volatile sig_atomic_t *interrupted = m->session->interrupted;
    line_reader_init(&reader, m->fd, m->name, "--batch");
    Status status = line_reader_range(&reader, begin, end, error);
    while (status == STATUS_OK) {
        LineState state;
        const char *line;
        size_t length;
        status = line_reader_next(&reader, true, interrupted, &state, &line, &length, error);
        if (status == STATUS_OK && *interrupted) status = STATUS_INTERRUPTED;
        if (status == STATUS_OK && state == LINE_NONE && m->csv && end == m->size)
            status = join_row(m, part, &reader, LINE_READ, NULL, 0, error);
        if (status != STATUS_OK || state == LINE_NONE) break;
        status = m->csv ? join_row(m, part, &reader, state, line, length, error)
                        : join_line(m, part, &reader, state, line, length, error);
        if (reader.number % 1024 == 0)
            session_progress(m->session, "joining", reader.offset, m->size);
    }
    m->n_before = m->csv ? m->n_rows : m->n_before + reader.number;
    line_reader_free(&reader);
    return status;
}

static Status join_part(Merge *m, Part *p, Error *error) {
    p->n_before = m->n_before;
    Status status = merge_part_index(p, m->session->interrupted, error);
    if (status == STATUS_OK) status = join_range(m, p, p->shard.begin, p->shard.end, error);
    const PartLine *unused = merge_part_unused(p);
    p->n_after = m->n_before;
    if (status == STATUS_OK && unused)
        status = error_set(error, "%s: line %zu is the result of no request of its part", p->name,
                           unused->number);
    merge_part_forget(p);
    return status;
}

/* Writes the results of all parts in the order of FILE's requests. A range of FILE that no part
 * covers counts as missing; with any line missing it names the ranges and fails. */
static Status join_all(Merge *m, Error *error) {
    uint64_t at = 0;
    Status status = STATUS_OK;
    for (size_t i = 0; i <= m->n_parts && status == STATUS_OK; i++) {
        Part *part = i < m->n_parts ? &m->parts[i] : NULL;
        uint64_t next = part ? part->shard.begin : m->size;
        if (at < next) status = join_range(m, NULL, at, next, error);
        if (status == STATUS_OK && part) status = join_part(m, part, error);
        if (part) at = part->shard.end;
    }
    session_progress(m->session, NULL, 0, 0);
    name_missing(m);
    if (status != STATUS_OK || m->n_missing == 0) return status;
    if (m->n_named > MOST_NAMED)
        terminal_say("and %zu more ranges of lines", m->n_named - MOST_NAMED);
    return error_set(error,
                     "%zu of %zu lines have no result, so nothing is written: finish their parts "
                     "with --resume, then merge again",
                     m->n_missing, m->n_requests);
}

/* ---- The mode -----------------------------------------------------------------------------------
 */

static Status merge_join(Merge *m, Error *error) {
    const Options *o = m->session->options;
    SandboxRules rules = {0};
    SandboxReport report = {0};
    Status status = merge_open(m, error);
    if (status == STATUS_OK && !o->no_sandbox) status = sandbox_enter(&rules, &report, error);
    if (status == STATUS_OK) status = check_parts(m, error);
    if (status == STATUS_OK) status = join_all(m, error);
    if (status == STATUS_OK) status = write_results(m, error);
    if (status == STATUS_OK) status = output_finish(&m->output, error);
    if (o->stats && status == STATUS_OK)
        terminal_print(stderr, "lines:   %zu of %zu parts, %zu failed\nsandbox: %s\nmodel:   %s\n",
                       m->n_requests, m->n_parts, m->n_failed, sandbox_text(&report),
                       m->parts[0].shard.fingerprint);
    if (status != STATUS_OK || m->n_failed == 0) return status;
    error_set(error, "%zu of %zu lines failed: their results say why", m->n_failed, m->n_requests);
    return STATUS_LINES_FAILED;
}

Status merge_run(Session *session, Error *error) {
    Merge merge = {.session = session, .fd = -1, .output.fd = -1};
    Status status = merge_join(&merge, error);
    merge_close(&merge);
    return status;
}
