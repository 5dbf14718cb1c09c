/* A growing list of token ids. */
#ifndef TOKEN_LIST_H
#define TOKEN_LIST_H

#include <stdint.h>
#include <stdlib.h>

#include "base/array.h"

/* Zero-initialize; whoever owns the variable frees it. */
typedef struct TokenList {
    int32_t *ids;
    size_t length, capacity;
} TokenList;

/* False when memory is short; the list is then as it was. */
static inline bool token_list_push(TokenList *list, int32_t id) {
    if (list->length == list->capacity &&
        !array_reserve(&list->ids, &list->capacity, list->length + 1, sizeof *list->ids))
        return false;
    list->ids[list->length++] = id;
    return true;
}

static inline void token_list_free(TokenList *list) {
    free(list->ids);
    *list = (TokenList){0};
}

#endif
