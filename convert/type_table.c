#include "convert/type_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "convert/mix.h"

/* Writes a head and a line for each matrix, all of fixed width. */
char *type_table_text(const TypeTableRow *rows, size_t n, double bits, double divergence) {
    char *text = NULL;
    size_t length = 0, longest = strlen("# tensor");
    for (size_t i = 0; i < n; i++)
        if (rows[i].type != TENSOR_VECTOR && strlen(rows[i].name) > longest)
            longest = strlen(rows[i].name);
    FILE *out = open_memstream(&text, &length);
    if (!out) return NULL;
    fprintf(out, "# %5.2f bits a weight, divergence %9.3e on the calibration text\n", bits,
            divergence);
    fprintf(out, "%-*s  %-7s %12s  %6s\n", (int)longest, "# tensor", "type", "bytes", "share");
    for (size_t i = 0; i < n; i++)
        if (rows[i].type != TENSOR_VECTOR)
            fprintf(out, "%-*s  %-7s %12llu %6.2f%%\n", (int)longest, rows[i].name,
                    tensor_type_info(rows[i].type)->name, (unsigned long long)rows[i].bytes,
                    100.0 * rows[i].share);
    bool failed = ferror(out);
    if (fclose(out) == 0 && !failed) return text;
    free(text);
    return NULL;
}

typedef struct Line {
    const char *name, *type;
    size_t name_length, type_length, number;
} Line;

static int by_length(const void *a, const void *b) {
    const Line *x = a, *y = b;
    if (x->name_length != y->name_length) return x->name_length < y->name_length ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* The next word in text[*at, end). */
static const char *next_word(const char *text, size_t end, size_t *at, size_t *length) {
    static const char spaces[] = " \t\r";
    while (*at < end && text[*at] && strchr(spaces, text[*at])) ++*at;
    const char *word = text + *at;
    while (*at < end && text[*at] && !strchr(spaces, text[*at])) ++*at;
    *length = (size_t)(text + *at - word);
    return word;
}

/* Reads NAME TYPE from text[begin, end), one line. name_length 0: it is blank or a comment. */
static Status read_line(const char *text, size_t begin, size_t end, Line *line, Error *error) {
    char name[64];
    Error why;
    line->name = next_word(text, end, &begin, &line->name_length);
    if (line->name_length == 0 || line->name[0] == '#') {
        line->name_length = 0;
        return begin < end && !text[begin] ? error_set(error, "line %zu: a zero byte", line->number)
                                           : STATUS_OK;
    }
    line->type = next_word(text, end, &begin, &line->type_length);
    bool fits = line->type_length > 0 && line->type_length < sizeof name &&
                !memchr(line->name, ',', line->name_length) &&
                !memchr(line->name, '=', line->name_length) &&
                !memchr(line->type, ',', line->type_length);
    if (!fits) return error_set(error, "line %zu: not NAME TYPE", line->number);
    snprintf(name, sizeof name, "%.*s", (int)line->type_length, line->type);
    return mix_check(name, &why) == STATUS_OK
               ? STATUS_OK
               : error_set(error, "line %zu: %s", line->number, why.text);
}

static Status join(const Line *lines, size_t n, char **mix, Error *error) {
    size_t length = 1;
    for (size_t i = 0; i < n; i++) length += lines[i].name_length + lines[i].type_length + 2;
    char *at = *mix = malloc(length);
    if (!*mix) return error_set(error, "no memory");
    *at = '\0';
    for (size_t i = 0; i < n; i++)
        at += sprintf(at, ",%.*s=%.*s", (int)lines[i].name_length, lines[i].name,
                      (int)lines[i].type_length, lines[i].type);
    return STATUS_OK;
}

/* Reads the lines, sorts them by the length of the name and joins them to a mix. */
Status type_table_mix(const char *text, size_t bytes, char **mix, Error *error) {
    Line *lines = NULL;
    size_t n = 0, capacity = 0, number = 0;
    Status status = STATUS_OK;
    *mix = NULL;
    for (size_t at = 0; status == STATUS_OK && at < bytes;) {
        const char *newline = memchr(text + at, '\n', bytes - at);
        size_t end = newline ? (size_t)(newline - text) : bytes;
        if (!array_reserve(&lines, &capacity, n + 1, sizeof *lines)) {
            status = error_set(error, "no memory");
            break;
        }
        number++;
        lines[n] = (Line){.number = number};
        status = read_line(text, at, end, &lines[n], error);
        n += status == STATUS_OK && lines[n].name_length > 0;
        at = end + 1;
    }
    if (status == STATUS_OK && n == 0) status = error_set(error, "names no tensor");
    if (status == STATUS_OK) {
        qsort(lines, n, sizeof *lines, by_length);
        status = join(lines, n, mix, error);
    }
    free(lines);
    return status;
}
