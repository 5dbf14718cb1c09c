/* Writing the structures (constraint/structure.h) that hold answers. */
#ifndef TEMPLATE_ELEMENTS_H
#define TEMPLATE_ELEMENTS_H

#include <jansson.h>
#include <stdbool.h>

#include "tokenizer.h"

/* Zero-initialize but for the tokenizer (NULL: no token is special). `failed`: memory ran out;
 * later calls do nothing of use, so that a caller checks once, at its end. */
typedef struct ElementWriter {
    const Tokenizer *tokenizer;
    bool failed;
} ElementWriter;

/* An element of this kind without items. */
json_t *element_new(ElementWriter *writer, const char *kind);
/* Appends an item and takes over the reference to it; NULL counts as a lack of memory. */
void element_add(ElementWriter *writer, json_t *element, json_t *item);
/* An element with one text. */
json_t *element_of_text(ElementWriter *writer, const char *kind, const char *text);
/* Appends `text`, the program's own, to a sequence: names of special tokens in it are tokens. */
void element_add_marked(ElementWriter *writer, json_t *sequence, const char *text);
/* ["repeat", item, min, max]; takes over the reference to the item. */
json_t *element_repeat(ElementWriter *writer, json_t *item, int min, int max);

#endif
