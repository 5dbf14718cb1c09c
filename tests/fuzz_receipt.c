/* Takes any bytes for the settings of a receipt, for a record that is compared, and for the items
 * of
 * --eval-tasks. */
#include <stdlib.h>

#include "modes/inspect/task_items.h"
#include "modes/modes.h"
#include "modes/proof/compare.h"
#include "modes/proof/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void apply(const char *text, size_t size) {
    char *argv[] = {(char[]){"run"}, (char[]){"m"}, NULL};
    json_t *json = json_loadb(text, size, JSON_ALLOW_NUL, NULL);
    GenerationOptions generation = {0};
    ShapeSource shape;
    struct tm clock = {0};
    Options *options = calloc(1, sizeof *options);
    Error error;
    if (!options || options_parse(options, &modes_options, 2, argv, &error) != STATUS_OK) abort();
    if (settings_apply(json, options, &error) == STATUS_OK)
        for (size_t i = 0; i < options->stop.n; i++)
            if (options->stop.items[i][0] == '\0') abort(); /* an empty text is everywhere */
    if (settings_read_sampling(json, &generation, &error) == STATUS_OK &&
        !(generation.sampling.temperature >= 0))
        abort();
    settings_shape(json, &shape, &error);
    settings_clock(json, &clock);
    free(options);
    json_decref(json);
}

/* A record is the same as itself, and not when it has one field more, or less. */
static void compare(const char *text, size_t size) {
    static const char *const run_fields[] = {"id", "a.b", NULL};
    json_t *record = json_loadb(text, size, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
    json_t *other = json_copy(record);
    bool changed = json_is_object(record) && !json_object_get(record, "added") &&
                   json_object_set_new(other, "added", json_true()) == 0;
    Comparison same = comparison_of("", record, record, run_fields),
               more = comparison_of("", other, record, run_fields),
               less = comparison_of("", record, other, run_fields);
    if (record && comparison_verdict(&same) != VERDICT_SAME) abort();
    if (changed && comparison_verdict(&more) != VERDICT_DIFFERENT) abort();
    if (changed && comparison_verdict(&less) != VERDICT_NOT_CHECKED) abort();
    comparison_free(&same);
    comparison_free(&more);
    comparison_free(&less);
    json_decref(record);
    json_decref(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    TaskItems items = {0};
    Error error;
    apply(text, size);
    compare(text, size);
    task_items_parse(&items, "items", text, size, &error);
    for (size_t i = 0; i < items.n; i++)
        if (items.items[i].choices && items.items[i].n_choices > ENDINGS_MOST) abort();
    task_items_free(&items);
    return 0;
}
