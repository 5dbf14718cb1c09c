#include "modes/batch/csv.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "advice/spelling.h"
#include "base/array.h"
#include "base/text.h"
#include "base/unicode.h"

enum { MOST_ROW_BYTES = 64 << 20, MOST_PROMPT_BYTES = 64 << 20, MOST_COLUMNS = 65536 };

/* A piece of the template: text, or the column that stands there. */
typedef struct Piece {
    char *text; /* owned; of a column its name */
    size_t length;
    bool is_column;
    size_t column; /* once the header is read */
} Piece;

/* A field of a row: bytes of Csv.fields. */
typedef struct Field {
    size_t begin, length;
} Field;

struct Csv {
    const char *name;
    bool messages, has_header, in_quotes;
    char separator;
    Piece id; /* the column of the requests' ids; text NULL: none */
    Piece *pieces;
    size_t n_pieces, pieces_capacity;
    char *record; /* [length] lines of the row that is being read */
    size_t length, capacity;
    char *unquoted; /* the fields of a row, one after the other */
    size_t unquoted_capacity;
    Field *fields;
    size_t n_fields, fields_capacity, n_columns;
    char *request; /* owned */
    CsvRow row;
};

/* ---- The template ---- */

static Status add_piece(Csv *csv, const char *text, size_t length, bool is_column, Error *error) {
    if (length == 0 && !is_column) return STATUS_OK;
    char *copy = strndup(text, length);
    if (!copy || !array_reserve(&csv->pieces, &csv->pieces_capacity, csv->n_pieces + 1,
                                sizeof *csv->pieces)) {
        free(copy);
        return error_set(error, "no memory for a prompt");
    }
    csv->pieces[csv->n_pieces++] = (Piece){copy, length, is_column, 0};
    return STATUS_OK;
}

/* Cuts the prompt into texts and {column} names; {{ and }} are the braces themselves. */
static Status read_template(Csv *csv, const char *text, size_t length, Error *error) {
    size_t begin = 0, columns = 0;
    Status status = STATUS_OK;
    for (size_t i = 0; i < length && status == STATUS_OK; i++) {
        if (text[i] != '{' && text[i] != '}') continue;
        if (i + 1 < length && text[i + 1] == text[i]) { /* one of the two stays */
            status = add_piece(csv, text + begin, i + 1 - begin, false, error);
            begin = ++i + 1;
            continue;
        }
        const char *end = text[i] == '{' ? memchr(text + i, '}', length - i) : NULL;
        if (!end)
            return error_set(error,
                             "the prompt: '%c' at byte %zu belongs to no {column}; '%c%c' "
                             "is the letter itself",
                             text[i], i + 1, text[i], text[i]);
        status = add_piece(csv, text + begin, i - begin, false, error);
        size_t stop = (size_t)(end - text);
        if (status == STATUS_OK) status = add_piece(csv, text + i + 1, stop - i - 1, true, error);
        columns++;
        i = stop;
        begin = stop + 1;
    }
    if (status == STATUS_OK) status = add_piece(csv, text + begin, length - begin, false, error);
    if (status == STATUS_OK && columns == 0)
        return error_set(error, "the prompt names no {column} of %s: all rows would be alike",
                         csv->name);
    return status;
}

Status csv_open(Csv **out, const CsvPrompt *prompt, const char *name, Error *error) {
    Csv *csv = calloc(1, sizeof *csv);
    if (!csv) return error_set(error, "no memory for a table");
    *out = csv;
    csv->name = name;
    csv->messages = prompt->messages;
    csv->separator = ',';
    if (prompt->id) {
        csv->id = (Piece){strdup(prompt->id), strlen(prompt->id), true, 0};
        if (!csv->id.text) return error_set(error, "no memory for a table");
    }
    return read_template(csv, prompt->template, prompt->length, error);
}

void csv_close(Csv *csv) {
    if (!csv) return;
    for (size_t i = 0; i < csv->n_pieces; i++) free(csv->pieces[i].text);
    free(csv->pieces);
    free(csv->id.text);
    free(csv->record);
    free(csv->unquoted);
    free(csv->fields);
    free(csv->request);
    free(csv);
}

/* ---- A row ---- */

/* Splits the record into fields. A quote inside a field without quotes stands for itself. */
static Status split(Csv *csv, Error *error) {
    const char *in = csv->record;
    size_t n = csv->length, out = 0;
    if (n > 0 && in[n - 1] == '\r') n--;
    if (!array_reserve(&csv->unquoted, &csv->unquoted_capacity, n + 1, 1))
        return error_set(error, "no memory for a row");
    csv->n_fields = 0;
    for (size_t i = 0;; i++) { /* i: where a field begins, then the separator after it */
        size_t begin = out;
        bool quoted = i < n && in[i] == '"';
        for (i += quoted; quoted && i < n && (in[i] != '"' || (i + 1 < n && in[i + 1] == '"'));
             i++) {
            if (in[i] == '"') i++;
            csv->unquoted[out++] = in[i];
        }
        if (quoted && i >= n) return error_set(error, "a quote is not closed");
        i += quoted;
        if (quoted && i < n && in[i] != csv->separator)
            return error_set(error,
                             "field %zu: '%c' stands after its closing quote (a quote "
                             "inside quotes is doubled)",
                             csv->n_fields + 1, in[i]);
        for (; i < n && in[i] != csv->separator; i++) csv->unquoted[out++] = in[i];
        if (csv->n_fields == MOST_COLUMNS)
            return error_set(error, "more than %d fields", MOST_COLUMNS);
        if (!array_reserve(&csv->fields, &csv->fields_capacity, csv->n_fields + 1,
                           sizeof *csv->fields))
            return error_set(error, "no memory for a row");
        csv->fields[csv->n_fields++] = (Field){begin, out - begin};
        if (i >= n) return STATUS_OK;
    }
}

static bool is_called(const Csv *csv, size_t column, const Piece *piece) {
    const Field *f = &csv->fields[column];
    return f->length == piece->length &&
           memcmp(csv->unquoted + f->begin, piece->text, f->length) == 0;
}

/* Says which columns there are, and the nearest. */
static Status unknown_column(const Csv *csv, const Piece *piece, Error *error) {
    char **names = calloc(csv->n_columns, sizeof *names);
    TextBuffer all = {0};
    for (size_t i = 0; names && i < csv->n_columns; i++) {
        names[i] = strndup(csv->unquoted + csv->fields[i].begin, csv->fields[i].length);
        if (i > 0) text_put(&all, ", ", 2, 0);
        if (names[i] && all.length < 300) text_put(&all, names[i], strlen(names[i]), 0);
    }
    const char *near =
        names ? spelling_nearest(piece->text, (const char *const *)names, csv->n_columns) : NULL;
    bool id = piece == &csv->id;
    error_set(error, "%s: has no column '%s'%s%s%s%s; its columns: %.*s", csv->name, piece->text,
              near ? "; did you mean " : "", near && !id ? "{" : "", near ? near : "",
              near && !id ? "}" : "", (int)all.length, all.bytes ? all.bytes : "");
    for (size_t i = 0; names && i < csv->n_columns; i++) free(names[i]);
    free(names);
    text_free(&all);
    return STATUS_FAILED;
}

/* Finds the only column of this name. */
static Status find_column(const Csv *csv, Piece *piece, Error *error) {
    while (piece->column < csv->n_columns && !is_called(csv, piece->column, piece)) piece->column++;
    if (piece->column == csv->n_columns) return unknown_column(csv, piece, error);
    for (size_t k = piece->column + 1; k < csv->n_columns; k++)
        if (is_called(csv, k, piece))
            return error_set(error, "%s: columns %zu and %zu are both called '%s': rename one",
                             csv->name, piece->column + 1, k + 1, piece->text);
    return STATUS_OK;
}

/* Reads the header: finds the separator, and the columns of the prompt and of the ids. */
static Status read_header(Csv *csv, Error *error) {
    static const char others[] = {';', '\t'};
    for (size_t i = 0; i < 2 && !memchr(csv->record, ',', csv->length); i++)
        if (memchr(csv->record, others[i], csv->length)) {
            csv->separator = others[i];
            break;
        }
    if (utf8_valid_prefix(csv->record, csv->length) < csv->length)
        return error_set(error, "%s: is not UTF-8 text: iconv -f latin1 -t utf-8 makes it so",
                         csv->name);
    if (split(csv, error) != STATUS_OK) return error_prefix(error, "%s: the header", csv->name);
    csv->n_columns = csv->n_fields;
    csv->has_header = true;
    Status status = csv->id.text ? find_column(csv, &csv->id, error) : STATUS_OK;
    for (size_t i = 0; i < csv->n_pieces && status == STATUS_OK; i++)
        if (csv->pieces[i].is_column) status = find_column(csv, &csv->pieces[i], error);
    return status;
}

/* Puts the field of the row's id into its request. */
static Status set_id(const Csv *csv, json_t *request, Error *error) {
    const Field *f = &csv->fields[csv->id.column];
    if (!csv->id.text) return STATUS_OK;
    if (f->length == 0) return error_set(error, "its id, in column '%s', is empty", csv->id.text);
    json_t *id = json_stringn(csv->unquoted + f->begin, f->length);
    if (!id) return error_set(error, "its id, in column '%s', is not UTF-8 text", csv->id.text);
    return json_object_set_new(request, "id", id) == 0 ? STATUS_OK
                                                       : error_set(error, "no memory for an id");
}

/* Fills the row's fields into the template. */
static Status fill(Csv *csv, Error *error) {
    TextBuffer text = {0};
    for (size_t i = 0; i < csv->n_pieces; i++) {
        const Piece *p = &csv->pieces[i];
        const Field *f = &csv->fields[p->column];
        if (text.length + (p->is_column ? f->length : p->length) > MOST_PROMPT_BYTES) {
            text_free(&text);
            return error_set(error, "its prompt is longer than %d MiB", MOST_PROMPT_BYTES >> 20);
        }
        if (p->is_column)
            text_put(&text, csv->unquoted + f->begin, f->length, 0);
        else
            text_put(&text, p->text, p->length, 0);
    }
    size_t valid = text.failed ? 0 : utf8_valid_prefix(text.bytes ? text.bytes : "", text.length);
    Status status = STATUS_OK;
    json_t *json = NULL;
    if (!text.failed && valid < text.length) {
        status = error_set(error, "not UTF-8 text: byte 0x%02x", (unsigned char)text.bytes[valid]);
    } else if (!text.failed) {
        json_t *prompt = json_stringn(text.bytes ? text.bytes : "", text.length);
        json = csv->messages
                   ? json_pack("{s:[{s:s, s:o}]}", "messages", "role", "user", "content", prompt)
                   : json_pack("{s:o}", "prompt", prompt);
    }
    if (json) status = set_id(csv, json, error);
    csv->request = json && status == STATUS_OK ? json_dumps(json, 0) : NULL;
    if (status == STATUS_OK && !csv->request) status = error_set(error, "no memory for a request");
    json_decref(json);
    text_free(&text);
    return status;
}

/* The record is complete: the header, or a row, which is then *row. */
static Status finish(Csv *csv, const CsvRow **row, Error *error) {
    if (!csv->has_header) return read_header(csv, error);
    CsvRow *r = &csv->row;
    r->number++;
    Status status = split(csv, &r->problem);
    if (status == STATUS_OK && csv->n_fields != csv->n_columns)
        status = error_set(&r->problem, "the row has %zu field%s, but the header has %zu",
                           csv->n_fields, csv->n_fields == 1 ? "" : "s", csv->n_columns);
    if (status == STATUS_OK) status = fill(csv, &r->problem);
    r->wrong = status != STATUS_OK;
    r->request = r->wrong ? csv->record : csv->request;
    r->length = r->wrong ? csv->length : strlen(csv->request);
    *row = r;
    return STATUS_OK;
}

/* Whether the line leaves a field open, by the same rule as `split`: a quote opens a field where
 * the field begins. The header's separator is any, because it is not yet known. */
static bool ends_in_quotes(const Csv *csv, const char *line, size_t length) {
    enum { BEGINS, PLAIN, QUOTED, CLOSED } state = csv->in_quotes ? QUOTED : BEGINS;
    for (size_t i = 0; i < length; i++) {
        bool quote = line[i] == '"';
        bool separates = csv->has_header ? line[i] == csv->separator
                                         : line[i] == ',' || line[i] == ';' || line[i] == '\t';
        if (state == QUOTED)
            state = quote ? CLOSED : QUOTED;
        else if (quote && state != PLAIN)
            state = QUOTED;
        else
            state = separates ? BEGINS : PLAIN;
    }
    return state == QUOTED;
}

/* Whether the line has nothing but spaces and tabs, which then separate nothing: pandas passes such
 * lines over as well, so that its rows have our numbers. */
static bool line_is_blank(const Csv *csv, const char *line, size_t length) {
    if (length > 0 && line[length - 1] == '\r') length--;
    for (size_t i = 0; i < length; i++)
        if ((line[i] != ' ' && line[i] != '\t') || (csv->has_header && line[i] == csv->separator))
            return false;
    return true;
}

Status csv_line(Csv *csv, const char *line, size_t length, const CsvRow **row, Error *error) {
    *row = NULL;
    free(csv->request);
    csv->request = NULL;
    if (!csv->in_quotes) csv->length = 0;
    if (!csv->in_quotes && line_is_blank(csv, line, length)) return STATUS_OK;
    if (csv->length + length + 1 > MOST_ROW_BYTES)
        return error_set(error, "%s: row %zu is longer than 64 MiB: is a quote not closed?",
                         csv->name, csv->row.number + 1);
    if (!array_reserve(&csv->record, &csv->capacity, csv->length + length + 1, 1))
        return error_set(error, "no memory for a row");
    bool goes_on = ends_in_quotes(csv, line, length);
    memcpy(csv->record + csv->length, line, length);
    csv->length += length;
    csv->in_quotes = goes_on;
    if (!goes_on) return finish(csv, row, error);
    csv->record[csv->length++] = '\n';
    return STATUS_OK;
}

Status csv_pass(Csv *csv, const char *line, size_t length, Error *error) {
    const CsvRow *none;
    if (!csv->has_header) return csv_line(csv, line, length, &none, error);
    csv->in_quotes = ends_in_quotes(csv, line, length);
    return STATUS_OK;
}

void csv_rewind(Csv *csv) {
    if (!csv->has_header) return;
    csv->in_quotes = false;
    csv->length = 0;
}

bool csv_row_begins(const Csv *csv) {
    return csv->has_header && !csv->in_quotes;
}

Status csv_end(Csv *csv, const CsvRow **row, Error *error) {
    *row = NULL;
    if (csv->in_quotes) {
        csv->in_quotes = false;
        return finish(csv, row, error); /* `split` refuses the open quote */
    }
    return csv->has_header ? STATUS_OK : error_set(error, "%s: has no header", csv->name);
}
