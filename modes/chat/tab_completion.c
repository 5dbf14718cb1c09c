#include "modes/chat/tab_completion.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "modes/chat/command_paths.h"
#include "modes/chat/commands.h"
#include "modes/chat/chat_settings.h"

/* Adds a name to the words of a completion if it begins with typed[length]. The first of the words,
 * which end with \n but for the last, is what all others begin with. */
static void add_word(TextBuffer *words, const char *name, const char *typed, size_t length) {
    if (strncmp(name, typed, length) != 0) return;
    size_t n = strlen(name);
    if (!words->bytes) {
        text_put(words, name, n, 0);
    } else { /* the common beginning is the first word */
        size_t common = 0, first = 0;
        const char *end = memchr(words->bytes, '\n', words->length);
        first = end ? (size_t)(end - words->bytes) : words->length;
        while (common < first && common < n && words->bytes[common] == name[common]) common++;
        memmove(words->bytes + common, words->bytes + first, words->length - first);
        words->length -= first - common;
    }
    text_put(words, "\n", 1, 0);
    text_put(words, name, n, 0);
}

/* Where the argument of the command `name` begins in line[length]; 0: this is another command. */
static size_t argument_of(const char *name, const char *line, size_t length) {
    size_t n = strlen(name);
    if (length <= n || memcmp(line, name, n) != 0 || line[n] != ' ') return 0;
    while (n < length && line[n] == ' ') n++;
    return n;
}

/* The names of files that go on from typed[length]. */
static size_t complete_file(Courier *courier, const char *typed, size_t length, char **words) {
    Error error;
    size_t n_names;
    char *text = strndup(typed, length), *path = text ? command_path(text) : NULL;
    const char *slash = path ? strrchr(path, '/') : NULL;
    size_t n = path ? strlen(slash ? slash + 1 : path) : 0;
    if (!path || courier_complete(courier, path, words, &n_names, &error) != STATUS_OK)
        *words = NULL;
    free(path);
    free(text);
    return n;
}

size_t tab_completion(void *courier, const char *line, size_t length, char **result) {
    TextBuffer words = {0};
    const char *name;
    size_t at = argument_of("/save", line, length);
    if (at == 0) at = argument_of("/load", line, length);
    if (at > 0) return complete_file(courier, line + at, length - at, result);
    at = argument_of("/set", line, length);
    for (size_t i = 0; (name = at > 0 ? settings_name(i) : commands_name(i)); i++)
        add_word(&words, name, line + at, length - at);
    if (words.bytes) text_put(&words, "", 1, 0);
    if (words.failed) text_free(&words);
    *result = words.bytes;
    return length - at;
}
