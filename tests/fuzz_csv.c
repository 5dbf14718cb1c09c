/* Reads any bytes as a table, a line at a time, whose first two lines are a template and what the
 * header may hold. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "modes/batch/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every row has a request that is JSON, or a reason. */
static void check(const CsvRow *row, size_t *rows) {
    if (!row) return;
    if (row->number != ++*rows) abort();
    json_t *json = row->wrong ? NULL : json_loadb(row->request, row->length, JSON_ALLOW_NUL, NULL);
    if (row->wrong ? !row->problem.text[0] : !json) abort();
    json_decref(json);
}

static void read_table(const char *template, const char *text, size_t size) {
    Csv *csv = NULL;
    Error error;
    const CsvRow *row;
    size_t rows = 0;
    const CsvPrompt prompt = {.template = template,
                              .length = strlen(template),
                              .messages = size % 2,
                              .id = size % 4 < 2 ? "a" : NULL};
    Status status = csv_open(&csv, &prompt, "table.csv", &error);
    for (size_t at = 0; status == STATUS_OK && at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        char *line = malloc(length + 1); /* of its own size, for ASan */
        if (!line) abort();
        memcpy(line, text + at, length);
        status = csv_line(csv, line, length, &row, &error);
        if (status == STATUS_OK) check(row, &rows);
        free(line);
        at += length + 1;
    }
    if (status == STATUS_OK && csv_end(csv, &row, &error) == STATUS_OK) check(row, &rows);
    csv_close(csv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    char template[64] = {0};
    read_table("{text}", text, size);
    read_table("{{{a}}} {b}", text, size);
    memcpy(template, text, size < sizeof template ? size : sizeof template - 1);
    read_table(template, text, size);
    return 0;
}
