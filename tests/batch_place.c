#include "tests/batch_place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fixture.h"
#include "tests/small_model.h"

int batch_place_open(void **state) {
    BatchPlace *p = calloc(1, sizeof *p);
    p->directory = fixture_directory();
    p->model = small_model_stories(p->directory);
    if (!p->model) {
        print_message("stories260K is absent: generated weights stand in\n");
        p->model = small_model(p->directory, "tiny,context=512");
    }
    p->input = fixture_path(p->directory, "requests.jsonl");
    p->output = fixture_path(p->directory, "results.jsonl");
    p->other = fixture_path(p->directory, "other.jsonl");
    *state = p;
    return 0;
}

int batch_place_close(void **state) {
    BatchPlace *p = *state;
    free(p->model);
    free(p->input);
    free(p->output);
    free(p->other);
    fixture_remove_directory(p->directory);
    free(p);
    return 0;
}

int batch_place_clean(void **state) {
    BatchPlace *p = *state;
    unlink(p->output);
    unlink(p->other);
    return 0;
}

Process batch_place_run(const BatchPlace *p, const char *const *more) {
    return batch_run_program(p->model, p->input, p->output, more);
}

void batch_place_expect(const BatchPlace *p, int status, const char *const *more,
                        const char *message) {
    Process result = batch_place_run(p, more);
    if (result.status != status || (message && !strstr(result.err, message)))
        fail_msg("status %d, not %d: %s", result.status, status, result.err);
    process_free(&result);
}

void batch_place_input(const BatchPlace *p, const char *text) {
    file_write(p->input, text, strlen(text));
}

json_t *batch_place_result(const char *path, size_t index) {
    size_t length;
    char *bytes = file_read(path, &length), *line = NULL, *rest = bytes;
    for (size_t i = 0; i <= index; i++) line = strsep(&rest, "\n");
    assert_non_null(line);
    json_t *json = json_loads(line, JSON_ALLOW_NUL, NULL);
    if (!json) fail_msg("line %zu of %s: '%s'", index + 1, path, line);
    free(bytes);
    return json;
}

const char *batch_place_text(const json_t *json, const char *a, const char *b) {
    const json_t *value = json_object_get(json, a);
    if (b) value = json_object_get(value, b);
    return json_string_value(value) ? json_string_value(value) : "";
}

void batch_place_same_files(const char *a, const char *b) {
    size_t n, m;
    char *first = file_read(a, &n), *second = file_read(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(first, second, n);
    free(first);
    free(second);
}
