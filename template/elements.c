#include "template/elements.h"

#include <string.h>

json_t *element_new(ElementWriter *w, const char *kind) {
    json_t *element = json_array();
    element_add(w, element, json_string(kind));
    return element;
}

void element_add(ElementWriter *w, json_t *element, json_t *item) {
    if (!item || json_array_append_new(element, item) != 0) w->failed = true;
}

json_t *element_of_text(ElementWriter *w, const char *kind, const char *text) {
    json_t *element = element_new(w, kind);
    element_add(w, element, json_string(text));
    return element;
}

/* The length of the special token's name that the text begins with; 0: none. */
static size_t name_length(const Tokenizer *tokenizer, const char *text) {
    const char *last = *text == '<' ? ">" : *text == '[' ? "]" : NULL;
    const char *end = last ? strpbrk(text + 1, last) : NULL;
    if (!tokenizer || !end) return 0;
    size_t n = (size_t)(end - text) + 1;
    int32_t id = tokenizer_token_id(tokenizer, text, n);
    return id >= 0 && tokenizer_is_special(tokenizer, id) ? n : 0;
}

void element_add_marked(ElementWriter *w, json_t *sequence, const char *text) {
    const char *plain = text;
    for (bool ends = false; !ends; text++) {
        size_t n = name_length(w->tokenizer, text);
        ends = *text == '\0';
        if (n == 0 && !ends) continue;
        if (text > plain) {
            json_t *element = element_new(w, "text");
            element_add(w, element, json_stringn(plain, (size_t)(text - plain)));
            element_add(w, sequence, element);
        }
        if (n == 0) continue;
        json_t *element = element_new(w, "token");
        element_add(w, element, json_stringn(text, n));
        element_add(w, sequence, element);
        text += n - 1;
        plain = text + 1;
    }
}

json_t *element_repeat(ElementWriter *w, json_t *item, int min, int max) {
    json_t *element = element_new(w, "repeat");
    element_add(w, element, item);
    element_add(w, element, json_integer(min));
    element_add(w, element, json_integer(max));
    return element;
}
