/* Growing arrays: the one place where a buffer that grows with its content is enlarged. */
#ifndef ARRAY_H
#define ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/* Makes the array that *array points to (malloc'ed or NULL) hold at least `needed` items of
 * `item_bytes` each; *capacity, in items, at least doubles when it grows. `array` is the address of
 * the pointer. Returns false, and changes nothing, when memory is short or the size does not fit:
 *
 *     if (!array_reserve(&list->ids, &list->capacity, list->length + 1, sizeof *list->ids)) ...
 */
bool array_reserve(void *array, size_t *capacity, size_t needed, size_t item_bytes);

#endif
