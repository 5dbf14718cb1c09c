#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static void format_text(Error *error, const char *format, va_list arguments) {
    char text[sizeof error->text];
    int length = vsnprintf(text, sizeof text, format, arguments);
    if (length < 0) {
        memcpy(error->text, "unknown error", sizeof "unknown error");
        return;
    }
    if ((size_t)length >= sizeof text)
        text[sizeof text - 1 - utf8_incomplete_tail(text, sizeof text - 1)] = '\0';
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
