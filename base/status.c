#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Drops an incomplete UTF-8 character at the end of a text that was cut. */
static void drop_torn_character(char *text, size_t length) {
    size_t start = length;
    while (start > 0 && ((unsigned char)text[start - 1] & 0xC0) == 0x80) start--;
    if (start == 0) return;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t need = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (length - (start - 1) < need) text[start - 1] = '\0';
}

static void format_text(Error *error, const char *format, va_list arguments) {
    char text[sizeof error->text];
    int length = vsnprintf(text, sizeof text, format, arguments);
    if (length < 0) {
        memcpy(error->text, "unknown error", sizeof "unknown error");
        return;
    }
    if ((size_t)length >= sizeof text) drop_torn_character(text, sizeof text - 1);
    memcpy(error->text, text, strlen(text) + 1);
}

Status error_set(Error *error, const char *format, ...) {
    if (!error) return STATUS_FAILED;
    va_list arguments;
    va_start(arguments, format);
    format_text(error, format, arguments);
    va_end(arguments);
    return STATUS_FAILED;
}

Status error_prefix(Error *error, const char *format, ...) {
    if (!error) return STATUS_FAILED;
    Error context;
    va_list arguments;
    va_start(arguments, format);
    format_text(&context, format, arguments);
    va_end(arguments);
    return error_set(error, "%s: %s", context.text, error->text);
}
