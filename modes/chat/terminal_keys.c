#include "modes/chat/terminal_keys.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/array.h"

enum {
    PASTE_MILLISECONDS = 20,  /* lines of one paste follow each other faster than anybody types */
    MARK_MILLISECONDS = 1000, /* the end mark of a paste comes, unless the connection is cut */
    WAIT_MILLISECONDS = 500,  /* of one wait for a key */
    REST_MILLISECONDS = 200   /* after "ESC [", which nobody types, the rest of a key follows */
};
enum { CTRL_C = 3, CTRL_D = 4, CTRL_V = 22 };
enum { MAX_WAITING = 1 << 25 };

static const char paste_begins[] = "\033[200~", paste_ends[] = "\033[201~";

void terminal_keys_free(TerminalKeys *keys) {
    free(keys->bytes);
    *keys = (TerminalKeys){0};
}

void terminal_keys_drop(TerminalKeys *keys) {
    keys->start = keys->end = keys->ahead = keys->named = 0;
    keys->pasting = keys->quoted = false;
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* Reads once, after the bytes that wait. */
static TerminalKeysResult read_some(TerminalKeys *keys, int fd) {
    enum { STEP = 4096 };
    if (keys->start == keys->end) keys->start = keys->end = keys->ahead = 0;
    if (keys->end > MAX_WAITING ||
        !array_reserve(&keys->bytes, &keys->capacity, keys->end + STEP, 1))
        return TERMINAL_KEYS_FAILED;
    ssize_t n = read(fd, keys->bytes + keys->end, STEP);
    if (n < 0) return errno == EINTR ? TERMINAL_KEYS_SIGNAL : TERMINAL_KEYS_FAILED;
    keys->end += (size_t)n;
    return n > 0 ? TERMINAL_KEYS_ONE : TERMINAL_KEYS_END;
}

static bool more_within(TerminalKeys *keys, int fd, int milliseconds) {
    struct pollfd wait = {fd, POLLIN, 0};
    return poll(&wait, 1, milliseconds) == 1 && read_some(keys, fd) == TERMINAL_KEYS_ONE;
}

/* Waits for input; when it holds a newline, also reads what arrives right after it, a paste. */
static TerminalKeysResult wait_for_bytes(TerminalKeys *keys, int fd) {
    /* A limited wait: a signal that comes just before poll() would not end it. */
    struct pollfd wait = {fd, POLLIN, 0};
    if (poll(&wait, 1, WAIT_MILLISECONDS) <= 0) return TERMINAL_KEYS_SIGNAL;
    TerminalKeysResult result = read_some(keys, fd);
    if (result != TERMINAL_KEYS_ONE) return result;
    while (memchr(keys->bytes + keys->start, '\n', keys->end - keys->start) &&
           more_within(keys, fd, PASTE_MILLISECONDS)) {
    }
    return TERMINAL_KEYS_ONE;
}

void terminal_keys_take_ahead(TerminalKeys *keys, int fd) {
    struct termios before, raw;
    if (tcgetattr(fd, &before) != 0 || !(before.c_lflag & ICANON)) return;
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = raw.c_cc[VTIME] = 0;
    size_t waited = keys->end - keys->start;
    bool all_ahead = keys->ahead >= keys->end;
    tcsetattr(fd, TCSANOW, &raw);
    while (read_some(keys, fd) == TERMINAL_KEYS_ONE) {
    }
    tcsetattr(fd, TCSANOW, &before);
    /* The terminal has kept each Ctrl-D as a zero byte. Inside a line it is dropped. */
    size_t kept = keys->start + waited;
    for (size_t i = kept; i < keys->end; i++) {
        char byte = keys->bytes[i];
        if (byte != '\0' && byte != CTRL_D) {
            keys->bytes[kept++] = byte;
        } else if (kept == keys->start || keys->bytes[kept - 1] == '\n') {
            keys->bytes[kept++] = CTRL_D;
        }
    }
    keys->end = kept;
    if (waited == 0 || all_ahead) keys->ahead = keys->end;
}

bool terminal_keys_take_interrupt(TerminalKeys *keys) {
    if (keys->start == keys->end ||
        !memchr(keys->bytes + keys->start, CTRL_C, keys->end - keys->start))
        return false;
    terminal_keys_drop(keys);
    return true;
}

/* ---- Keys ---------------------------------------------------------------------------------- */

/* Skips the mark if it is next, and says whether it was. Waits for the rest of what may become a
 * mark, but only briefly outside of a paste: the Escape key begins like one. */
static bool skip_mark(TerminalKeys *keys, int fd, const char *mark) {
    size_t n = strlen(mark), waiting;
    while (true) {
        waiting = keys->end - keys->start;
        if (waiting > n) waiting = n;
        if (memcmp(keys->bytes + keys->start, mark, waiting) != 0) return false;
        if (waiting == n) break;
        if (!more_within(keys, fd, keys->pasting ? MARK_MILLISECONDS : PASTE_MILLISECONDS))
            return false;
    }
    keys->start += n;
    return true;
}

/* A key's sequence: ESC [ PARAMETERS FINAL (ECMA-48's control sequences) or ESC O FINAL, both with
 * a second ESC before them where a terminal says Alt so. */
typedef struct Sequence {
    size_t bytes;
    char kind; /* '[' or 'O' */
    char final;
    unsigned first;     /* the first parameter; 0: not given */
    unsigned modifiers; /* the second, 1 + a bit mask; 0: not given */
    bool alt;           /* by a second ESC */
} Sequence;

enum { SHIFT = 1 }; /* in modifiers - 1; the other bits are Alt, Ctrl and Meta */

/* The byte at `at` after start, waited for; -1: it does not come. */
static int byte_at(TerminalKeys *keys, int fd, size_t at) {
    while (keys->end - keys->start <= at)
        if (!more_within(keys, fd, REST_MILLISECONDS)) return -1;
    return (unsigned char)keys->bytes[keys->start + at];
}

/* Reads the parameters of a control sequence from *at on, to before its final byte, and returns
 * that; -1: it is none. */
static int read_parameters(TerminalKeys *keys, int fd, size_t *at, Sequence *s) {
    enum { MOST_BYTES = 64 };
    unsigned parameters[2] = {0, 0}, n = 0;
    int c;
    while ((c = byte_at(keys, fd, *at)) >= 0x20 && c < 0x40 && *at < MOST_BYTES) {
        if (c == ';') n++;
        if (c >= '0' && c <= '9' && n < 2 && parameters[n] < 1000)
            parameters[n] = parameters[n] * 10 + (unsigned)(c - '0');
        ++*at;
    }
    s->first = parameters[0];
    s->modifiers = n == 0 && c >= 'A' && c <= 'D' ? parameters[0] : parameters[1];
    return c >= 0x40 && c < 0x7F ? c : c == '$' ? c : -1;
}

/* Whether the waiting bytes, which begin with ESC, are a key's escape sequence. If not, the user
 * pressed the Escape key, perhaps followed by another key. */
static bool read_sequence(TerminalKeys *keys, int fd, Sequence *s) {
    size_t at = 1, waiting = keys->end - keys->start;
    if (waiting == 1 && !more_within(keys, fd, PASTE_MILLISECONDS)) return false;
    int c = byte_at(keys, fd, at);
    *s = (Sequence){.alt = c == '\033'};
    if (s->alt) {
        waiting = keys->end - keys->start;
        if (waiting == 2 && !more_within(keys, fd, PASTE_MILLISECONDS)) return false;
        c = byte_at(keys, fd, ++at);
    }
    if (c != '[' && c != 'O') return false;
    s->kind = (char)c;
    at++;
    if (keys->end - keys->start == at && c == 'O' && !more_within(keys, fd, PASTE_MILLISECONDS))
        return false; /* Alt-O */
    bool console = c == '[' && byte_at(keys, fd, at) == '[';
    if (console) at++; /* a function key of Linux' console: ESC [ [ A */
    c = read_parameters(keys, fd, &at, s);
    if (c < 0) return false;
    s->final = console ? '\0' : (char)c;
    s->bytes = at + 1;
    return true;
}

/* The name of the key that sent a sequence. The only form in which this module returns the key
 * (terminal_keys.h), whatever the terminal; "": the key is not known. */
static const char *name_of(const Sequence *s) {
    char final = s->final;
    unsigned modifiers = s->modifiers ? s->modifiers - 1 : 0;
    bool strong = s->alt || (modifiers & ~(unsigned)SHIFT) || final == '^' || final == '@';
    if (s->kind == 'O' && final == 'M') return "\n";
    if (final >= 'a' && final <= 'd') { /* rxvt: Ctrl after ESC O, Shift after ESC [ */
        strong = strong || s->kind == 'O';
        final = (char)(final - 'a' + 'A');
    }
    if (final == '~' || final == '^' || final == '$' || final == '@') {
        static const char finals[] = {[1] = 'H', [4] = 'F', [7] = 'H', [8] = 'F'};
        if (s->first == 3) return strong ? "\033d" : "\033[3~";
        if (s->first == 5) return "\033[5~";
        if (s->first == 6) return "\033[6~";
        final = s->first < sizeof finals ? finals[s->first] : '\0';
    }
    switch (final) {
    case 'A':
        return "\033[A";
    case 'B':
        return "\033[B";
    case 'C':
        return strong ? "\033f" : "\033[C";
    case 'D':
        return strong ? "\033b" : "\033[D";
    case 'H':
        return "\033[H";
    case 'F':
        return "\033[F";
    default:
        return "";
    }
}

/* Replaces the escape sequence that the terminal sent by its key's only form here (name_of). False:
 * it is not a known key's. */
static bool name_key(TerminalKeys *keys, int fd) {
    Sequence sequence;
    if (!read_sequence(keys, fd, &sequence)) return false;
    const char *name = name_of(&sequence);
    keys->named = strlen(name); /* never longer than the sequence */
    keys->start += sequence.bytes - keys->named;
    memcpy(keys->bytes + keys->start, name, keys->named);
    return true;
}

/* Reads ahead to the end of a paste before any of it is decoded, while the terminal is still in the
 * mode that passes the text unchanged. */
static void read_ahead_to_paste_end(TerminalKeys *keys, int fd) {
    size_t seen = keys->start;
    while (!memmem(keys->bytes + seen, keys->end - seen, paste_ends, strlen(paste_ends))) {
        if (keys->end - keys->start > strlen(paste_ends))
            seen = keys->end - strlen(paste_ends); /* the mark may arrive in two pieces */
        if (!more_within(keys, fd, MARK_MILLISECONDS)) {
            keys->pasting = false; /* the end mark was lost: what follows was typed */
            return;
        }
    }
}

/* Decodes the next character, in the locale's encoding, into *key. *found is false after a byte
 * that is not part of a character, which is skipped. */
static TerminalKeysResult decode(TerminalKeys *keys, int fd, wchar_t *key, bool *found) {
    mbstate_t state = {0};
    size_t waiting = keys->end - keys->start;
    size_t n = mbrtowc(key, keys->bytes + keys->start, waiting, &state);
    *found = false;
    if (n == (size_t)-2 && waiting < 8) return read_some(keys, fd); /* the rest is on its way */
    *found = n != (size_t)-1 && n != (size_t)-2;
    keys->start += *found && n > 0 ? n : 1;
    return TERMINAL_KEYS_ONE;
}

/* Decodes a pasted control character: a tab becomes Ctrl-V and a tab, CR a line break. False: other
 * ones are dropped. */
static bool pasted_control(TerminalKeys *keys, wchar_t *key) {
    char byte = keys->bytes[keys->start];
    if (byte == '\t' && !keys->quoted) {
        keys->quoted = true;
        *key = CTRL_V;
        return true;
    }
    keys->start++;
    keys->quoted = false;
    *key = byte == '\t' ? L'\t' : L'\n';
    return byte == '\t' || byte == '\n' || byte == '\r';
}

TerminalKeysResult terminal_keys_next(TerminalKeys *keys, int fd, wchar_t *key) {
    while (true) {
        TerminalKeysResult result =
            keys->start == keys->end ? wait_for_bytes(keys, fd) : TERMINAL_KEYS_ONE;
        if (result != TERMINAL_KEYS_ONE) return result;
        unsigned char byte = (unsigned char)keys->bytes[keys->start];
        bool found = false;
        if (keys->named > 0) {
            keys->named--;
            keys->start++;
            *key = (wchar_t)byte;
            return TERMINAL_KEYS_ONE;
        }
        if (byte == '\033' && skip_mark(keys, fd, keys->pasting ? paste_ends : paste_begins)) {
            keys->pasting = !keys->pasting;
            if (keys->pasting) read_ahead_to_paste_end(keys, fd);
        } else if (keys->pasting && (byte < 0x20 || byte == 0x7F)) {
            if (pasted_control(keys, key)) return TERMINAL_KEYS_ONE;
        } else if (byte != '\033' || keys->pasting || !name_key(keys, fd)) {
            result = decode(keys, fd, key, &found);
            if (result != TERMINAL_KEYS_ONE || found) return result;
        }
    }
}

bool terminal_keys_paste_goes_on(const TerminalKeys *keys) {
    if (keys->pasting) return true;
    if (keys->start >= keys->end || keys->start < keys->ahead) return false;
    /* A single key (a Ctrl-D pressed early) is not a paste. */
    unsigned char byte = (unsigned char)keys->bytes[keys->start];
    return byte >= 0x20 || byte == '\t' || (byte == '\n' && keys->end - keys->start > 1);
}
