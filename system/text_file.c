#include "system/text_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "system/compression.h"
#include "system/descriptor.h"

const char *text_file_command_name(const char *name) {
    return strcmp(name, "stdin") == 0 ? "FILE" : name;
}

Status text_file_check(const char *name, const char *text, size_t length, Error *error) {
    size_t valid = utf8_valid_prefix(text, length);
    if (valid == length) return STATUS_OK;
    return error_set(error, "%s is not UTF-8 text: byte 0x%02x at offset %zu", name,
                     (unsigned char)text[valid], valid);
}

/* The same of what was read from a file, which a command may make a text. */
static Status check_file(const char *name, const char *text, size_t length, Error *error) {
    size_t valid = utf8_valid_prefix(text, length);
    const Compression *how = valid < length ? compression_of(text, length) : NULL;
    const char *file = text_file_command_name(name);
    if (how)
        return error_set(error,
                         "%s: compressed by %s; a pipe unpacks it: %s %s | ... with /dev/stdin for "
                         "its name",
                         name, how->name, how->command, file);
    if (valid < length && utf8_is_utf16(text, length))
        return error_set(error, "%s is not UTF-8 text but UTF-16: iconv -f UTF-16 -t UTF-8 %s",
                         name, file);
    return text_file_check(name, text, length, error);
}

/* Checks that the bytes read are text; otherwise frees them. */
static Status take(const char *name, char **text, size_t *length, Error *error) {
    if (check_file(name, *text, *length, error) != STATUS_OK) {
        free(*text);
        *text = NULL;
        return STATUS_FAILED;
    }
    size_t mark = utf8_mark_length(*text, *length);
    *length -= mark;
    if (mark) memmove(*text, *text + mark, *length + 1);
    return STATUS_OK;
}

Status text_file_read(int fd, const char *name, size_t most,
                      const volatile sig_atomic_t *interrupted, char **text, size_t *length,
                      Error *error) {
    Status status = descriptor_read(fd, name, most, interrupted, text, length, error);
    return status == STATUS_OK ? take(name, text, length, error) : status;
}

Status text_file_read_json(int fd, const char *name, size_t most,
                           const volatile sig_atomic_t *interrupted, char **text, size_t *length,
                           Error *error) {
    Status status = descriptor_read_json(fd, name, most, interrupted, text, length, error);
    return status == STATUS_OK ? take(name, text, length, error) : status;
}

size_t text_file_without_line_end(const char *text, size_t length) {
    if (length > 0 && text[length - 1] == '\n') {
        length--;
        if (length > 0 && text[length - 1] == '\r') length--;
    }
    return length;
}
