#include "tests/refusal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "convert/convert_target.h"

void fixture_refusal(const Fixture *f, Error *error) {
    char *source = fixture_source(f);
    ConvertOptions options = {.n_threads = 1};
    int fd = -1;
    Status status = convert_temporary(source, &options, &fd, error);
    fixture_remove_directory(source);
    if (status == STATUS_OK) fail_msg("%s is not refused", f->name);
}

void assert_refused(const char *fixture, const char *key, const char *value, const char *first,
                    const char *second) {
    Fixture f = fixture_load(fixture);
    Error error;
    json_t *json = json_loads(value, JSON_DECODE_ANY, NULL);
    assert_non_null(json);
    json_object_set_new(json_object_get(f.json, "config"), key, json);
    fixture_refusal(&f, &error);
    if (!strstr(error.text, first) || !strstr(error.text, second))
        fail_msg("the error says neither '%s' nor '%s': %s", first, second, error.text);
    fixture_free(&f);
}
