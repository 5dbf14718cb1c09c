/* The keys that a person presses at a terminal, and which of them were pasted.
 *
 * A terminal with bracketed paste (TERMINAL_PASTES_MARKED) marks the beginning and
 * the end of what is pasted. For other terminals, input that arrives together with a newline,
 * faster than anybody types, counts as pasted, unless it was typed while nobody read. A paste is
 * read completely at once: between two lines the terminal leaves the mode that would preserve it.
 */
#ifndef TERMINAL_KEYS_H
#define TERMINAL_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>

/* Bytes that were read and not yet handed out as keys. Initialize it with zeros. */
typedef struct TerminalKeys {
    char *bytes; /* bytes[start ... end - 1] wait */
    size_t start, end, capacity;
    size_t ahead; /* bytes before this index were typed ahead, while nobody read */
    bool pasting; /* between the begin and end marks of a paste */
    bool quoted;  /* Ctrl-V was handed out; the pasted tab that it quotes is next */
    size_t named; /* bytes[start ... start + named - 1] are a key that was recognized */
} TerminalKeys;

typedef enum TerminalKeysResult {
    TERMINAL_KEYS_SIGNAL = -2, /* a signal came first, or half a second without a key */
    TERMINAL_KEYS_FAILED = -1,
    TERMINAL_KEYS_END = 0,
    TERMINAL_KEYS_ONE = 1
} TerminalKeysResult;

void terminal_keys_free(TerminalKeys *keys);

/* Drops the bytes that wait, as a terminal does at Ctrl-C. */
void terminal_keys_drop(TerminalKeys *keys);

/* Reads what was typed ahead into the terminal `fd`, also an unfinished line. A Ctrl-D counts only
 * at the start of a line, as usual. */
void terminal_keys_take_ahead(TerminalKeys *keys, int fd);

/* Whether a Ctrl-C waits that was pressed while the terminal made no signal of it; if so, drops
 * everything that waits. */
bool terminal_keys_take_interrupt(TerminalKeys *keys);

/* Waits for the next key. What the keys of the keyboard's blocks send, which differs from terminal
 * to terminal, is handed out in one form each, with or without Shift, Alt and Ctrl: the arrows,
 * Home and End as "\033[A" ... "\033[H"; left and right with Alt or Ctrl as "\033b" and "\033f";
 * Delete as
 * "\033[3~", with Alt or Ctrl as "\033d"; page up and down as "\033[5~" and "\033[6~"; the keypad's
 * Enter as a newline. Other keys that send a sequence (F1, Insert, ...) are dropped whole: their
 * rest would be inserted as text. Of the control characters in a paste only newlines and tabs are
 * handed out; a tab follows a Ctrl-V, so that an editor inserts it as text. */
TerminalKeysResult terminal_keys_next(TerminalKeys *keys, int fd, wchar_t *key);

/* After a newline: whether more of the same paste follows. */
bool terminal_keys_paste_goes_on(const TerminalKeys *keys);

#endif
