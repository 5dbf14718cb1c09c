/* The items of --eval-tasks, one JSON object a line:
 *
 *     {"context": TEXT, "choices": [TEXT, ...], "answer": INDEX or TEXT}
 *     {"text": TEXT, "stride": TOKENS}
 *
 * Both may have an "id" and a "task". */
#ifndef TASK_ITEMS_H
#define TASK_ITEMS_H

#include <jansson.h>

#include "modes/inspect/endings.h"

typedef struct TaskItem {
    json_t *json; /* owned; the texts point into it */
    size_t line;
    EndingText context;  /* or the document */
    EndingText *choices; /* [n_choices], owned; NULL: a document */
    size_t n_choices, answer;
    size_t stride; /* of a document; 0: the default */
} TaskItem;

typedef struct TaskItems {
    TaskItem *items; /* [n] */
    size_t n, capacity;
} TaskItems;

/* Parses text[length]. The Error names the line. The caller frees the items in any case. */
Status task_items_parse(TaskItems *items, const char *name, const char *text, size_t length,
                        Error *error);
void task_items_free(TaskItems *items);

#endif
