/* The bytes that a terminal sends, and which of them were pasted.
 *
 * A terminal that knows bracketed paste (TERMINAL_KEYS_PASTE_ON) marks what is pasted. Of others,
 * what arrives together with a newline, faster than anybody types, counts as pasted; what was typed
 * while nobody read does not. A paste is taken whole at once: between two lines the terminal
 * is not in the mode that would keep it. */
#ifndef TERMINAL_KEYS_H
#define TERMINAL_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>

#define TERMINAL_KEYS_PASTE_ON "\033[?2004h"
#define TERMINAL_KEYS_PASTE_OFF "\033[?2004l"

/* Zeros to begin with. */
typedef struct TerminalKeys {
    char *bytes; /* those from `start` to `end` wait */
    size_t start, end, capacity;
    size_t ahead; /* those before it were typed before anybody asked */
    bool pasting; /* between the marks of a paste */
    bool quoted;  /* the next key is handed out after the one that quotes it */
} TerminalKeys;

typedef enum TerminalKeysResult {
    TERMINAL_KEYS_SIGNAL = -2, /* a signal, or a while without a key, came first */
    TERMINAL_KEYS_FAILED = -1,
    TERMINAL_KEYS_END = 0,
    TERMINAL_KEYS_ONE = 1
} TerminalKeysResult;

void terminal_keys_free(TerminalKeys *keys);

/* Forgets what waits, as a terminal does at Ctrl-C. */
void terminal_keys_drop(TerminalKeys *keys);

/* Takes what was typed into the terminal `fd` while it kept lines to itself. A Ctrl-D counts at
 * the start of a line, as ever. */
void terminal_keys_take_ahead(TerminalKeys *keys, int fd);

/* Whether a Ctrl-C waits, which came before the terminal made signals of them; then nothing
 * waits any more. */
bool terminal_keys_take_interrupt(TerminalKeys *keys);

/* The next key, waited for; in a paste, control characters are left out, but for newlines and
 * (behind a Ctrl-V, so that an editor takes them for text) tabs. */
TerminalKeysResult terminal_keys_next(TerminalKeys *keys, int fd, wchar_t *key);

/* Asked behind a newline: whether what follows it was pasted together with it. */
bool terminal_keys_paste_goes_on(const TerminalKeys *keys);

#endif
