#include "modes/inspect/task_items.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "json/json_reader.h"
#include "json/json_text.h"

static bool parse_text(const json_t *json, EndingText *text) {
    *text = (EndingText){json_string_value(json), json_string_length(json)};
    return text->text != NULL;
}

/* Parses 'answer': the index of a choice, from 0, or its text. */
static Status parse_answer(TaskItem *item, const json_t *answer, Error *error) {
    EndingText text;
    json_int_t index = json_integer_value(answer);
    if (json_is_integer(answer)) {
        if (index < 0 || (size_t)index >= item->n_choices)
            return error_set(error, "'answer': %lld is not the index of one of %zu choices",
                             (long long)index, item->n_choices);
        item->answer = (size_t)index;
        return STATUS_OK;
    }
    if (!parse_text(answer, &text))
        return error_set(error, "'answer' must be the index of a choice, from 0, or its text");
    for (size_t i = 0; i < item->n_choices; i++) {
        const EndingText *choice = &item->choices[i];
        if (choice->length != text.length || memcmp(choice->text, text.text, text.length) != 0)
            continue;
        item->answer = i;
        return STATUS_OK;
    }
    return error_set(error, "'answer': none of the choices is '%.80s'", text.text);
}

static Status parse_choices(TaskItem *item, const json_t *choices, Error *error) {
    item->n_choices = json_array_size(choices);
    if (!json_is_array(choices) || item->n_choices < 2 || item->n_choices > ENDINGS_MOST)
        return error_set(error, "'choices' must be a list of 2 to %d texts", ENDINGS_MOST);
    item->choices = calloc(item->n_choices, sizeof *item->choices);
    if (!item->choices) return error_set(error, "no memory for an item");
    for (size_t i = 0; i < item->n_choices; i++)
        if (!parse_text(json_array_get(choices, i), &item->choices[i]) ||
            item->choices[i].length == 0)
            return error_set(error, "'choices': element %zu is not a text, or empty", i + 1);
    return STATUS_OK;
}

/* Refuses a misspelt key. */
static Status items_check_keys(const json_t *json, bool document, Error *error) {
    static const char *const both[] = {"id", "task", NULL};
    static const char *const own[][4] = {{"context", "choices", "answer", NULL},
                                         {"text", "stride", NULL, NULL}};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)json, key, value) {
        bool known = false;
        for (size_t i = 0; both[i]; i++) known = known || strcmp(key, both[i]) == 0;
        for (size_t i = 0; own[document][i]; i++)
            known = known || strcmp(key, own[document][i]) == 0;
        if (!known) return error_set(error, "the key '%.80s' is not one of this item's", key);
    }
    return STATUS_OK;
}

static Status parse_item(TaskItem *item, Error *error) {
    const json_t *text = json_object_get(item->json, "text");
    const json_t *stride = json_object_get(item->json, "stride");
    if (!json_is_object(item->json)) return error_set(error, "not a JSON object");
    if (items_check_keys(item->json, text != NULL, error) != STATUS_OK) return STATUS_FAILED;
    if (text) {
        if (!parse_text(text, &item->context) || item->context.length == 0)
            return error_set(error, "'text' must be a text that is not empty");
        if (stride && (!json_is_integer(stride) || json_integer_value(stride) < 1))
            return error_set(error, "'stride' must be a number of tokens, at least 1");
        item->stride = (size_t)json_integer_value(stride);
        return STATUS_OK;
    }
    if (!parse_text(json_object_get(item->json, "context"), &item->context))
        return error_set(error, "there is no 'context', a text, and no 'text'");
    if (parse_choices(item, json_object_get(item->json, "choices"), error) != STATUS_OK)
        return STATUS_FAILED;
    return parse_answer(item, json_object_get(item->json, "answer"), error);
}

Status task_items_parse(TaskItems *all, const char *name, const char *text, size_t length,
                        Error *error) {
    size_t number = 0;
    for (size_t begin = 0; begin < length;) {
        const char *line = text + begin, *newline = memchr(line, '\n', length - begin);
        size_t n = newline ? (size_t)(newline - line) : length - begin;
        json_error_t where;
        number++;
        begin += n + 1;
        if (json_line_is_blank(line, n)) continue;
        if (!array_reserve(&all->items, &all->capacity, all->n + 1, sizeof *all->items))
            return error_set(error, "no memory for %s", name);
        TaskItem *item = &all->items[all->n++];
        *item = (TaskItem){.line = number};
        item->json = json_reader_load(line, n, JSON_REJECT_DUPLICATES, &where);
        if (!item->json)
            return error_set(error, "%s: line %zu: not JSON: %s", name, number, where.text);
        if (parse_item(item, error) != STATUS_OK)
            return error_prefix(error, "%s: line %zu", name, number);
    }
    return all->n > 0 ? STATUS_OK : error_set(error, "%s: no items", name);
}

void task_items_free(TaskItems *all) {
    for (size_t i = 0; i < all->n; i++) {
        json_decref(all->items[i].json);
        free(all->items[i].choices);
    }
    free(all->items);
    *all = (TaskItems){0};
}
