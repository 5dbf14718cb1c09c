/* Requests from a table: each row of a CSV file (RFC 4180) fills the columns into a prompt.
 *
 * The first row names the columns. A template has them in braces, "Summarize: {text}"; "{{" and
 * "}}" are braces. Fields in quotes hold separators, line ends and doubled quotes; rows end with LF
 * or CRLF; lines of nothing, or of blanks alone, are no rows. The separator is a comma, or, where
 * the header has none, a semicolon or a tab.
 *
 *     csv_open(&csv, &prompt, "data.csv", &error)
 *     csv_line(csv, line, n, &ready, &error)   for each line without its LF; a row may take several
 *     csv_end(csv, &ready, &error)             at the end of the file
 *
 * Memory holds one row, which the caller's reader of lines bounds, and the header. */
#ifndef CSV_H
#define CSV_H

#include <stdint.h>

#include "base/status.h"

typedef struct Csv Csv;

/* A row that is complete. */
typedef struct CsvRow {
    size_t number;       /* from 1; the header is not counted */
    const char *request; /* [length] a request in native form, of modes/batch/request.h */
    size_t length;
    bool wrong; /* it has none: `problem` says why */
    Error problem;
} CsvRow;

/* How a row becomes a request. */
typedef struct CsvPrompt {
    const char *template; /* [length] */
    size_t length;
    bool messages;  /* each prompt is one message of a user, for the chat template */
    const char *id; /* the column that is the requests' id; NULL: none */
} CsvPrompt;

/* The prompt is copied, `name` is borrowed. Fails for a template that is not a template. */
Status csv_open(Csv **out, const CsvPrompt *prompt, const char *name, Error *error);
void csv_close(Csv *csv);

/* Takes the next line; *row is NULL while no row is complete, else valid until the next call. Fails
 * for a header that lacks a column of the template, and for a row that grows past 64 MiB. */
Status csv_line(Csv *csv, const char *line, size_t length, const CsvRow **row, Error *error);
/* Skips a line of a row that is neither returned nor counted. The header's lines are still read. */
Status csv_pass(Csv *csv, const char *line, size_t length, Error *error);
/* Forgets a row that csv_pass has left open: the next line begins a row. An open header stays, for
 * csv_end to refuse. */
void csv_rewind(Csv *csv);
/* Whether the next line begins a row. */
bool csv_row_begins(const Csv *csv);
/* Ends the file. *row is NULL, or a last row whose quote is not closed, which is wrong. Fails where
 * the header is missing or has such a quote. */
Status csv_end(Csv *csv, const CsvRow **row, Error *error);

#endif
