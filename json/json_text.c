#include "json/json_text.h"

#include <string.h>

#include "base/text.h"
#include "base/unicode.h"
#include "json/json_memory.h"

void json_text_lacks_memory(void) {
#ifndef VERBATIM_SHARED
    json_memory_refused();
#endif
}

json_t *json_lossy_text(const char *bytes, size_t n) {
    size_t valid = utf8_valid_prefix(bytes, n);
    if (valid == n) return json_stringn(bytes, n);
    TextBuffer text = {0};
    utf8_put_repaired(&text, bytes, n);
    if (text.failed) json_text_lacks_memory();
    json_t *json = text.failed ? NULL : json_stringn(text.bytes, text.length);
    text_free(&text);
    return json;
}

bool json_line_is_blank(const char *line, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!strchr(" \t\r", line[i]) || line[i] == '\0') return false;
    return true;
}
