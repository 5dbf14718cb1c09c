#include "modes/chat/command_paths.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *command_path(const char *typed) {
    char quote = *typed == '"' || *typed == '\'' ? *typed : '\0', *path;
    const char *home = getenv("HOME"), *text = typed + (quote != '\0');
    size_t length = strlen(text);
    if (quote && length > 0 && text[length - 1] == quote) length--;
    bool is_home = quote != '\'' && home && *text == '~' && (length == 1 || text[1] == '/');
    if (asprintf(&path, "%s%.*s", is_home ? home : "", (int)(length - is_home), text + is_home) < 0)
        return NULL;
    return path;
}
