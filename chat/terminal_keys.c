#include "chat/terminal_keys.h"

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
    WAIT_MILLISECONDS = 500   /* of one wait for a key */
};
enum { CTRL_C = 3, CTRL_D = 4, CTRL_V = 22 };
enum { MAX_WAITING = 1 << 25 };

static const char paste_begins[] = "\033[200~", paste_ends[] = "\033[201~";

void terminal_keys_free(TerminalKeys *keys) {
    free(keys->bytes);
    *keys = (TerminalKeys){0};
}

void terminal_keys_drop(TerminalKeys *keys) {
    keys->start = keys->end = keys->ahead = 0;
    keys->pasting = keys->quoted = false;
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* Reads once, behind the bytes that wait. */
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

/* Takes the mark if it is next. Waits for the rest of what may become a mark, but only briefly
 * outside of a paste: the Escape key begins like one. */
static bool takes_mark(TerminalKeys *keys, int fd, const char *mark) {
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

/* Reads ahead to the end of a paste before any of it is decoded, while the terminal is still in the
 * mode that passes the text unchanged. */
static void take_paste(TerminalKeys *keys, int fd) {
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

/* Takes the next character, in the locale's encoding, into *key. *found is false after a byte that
 * is not part of a character and is skipped. */
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

/* Takes a pasted control character. False: it is dropped. */
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
        if (byte == '\033' && takes_mark(keys, fd, keys->pasting ? paste_ends : paste_begins)) {
            keys->pasting = !keys->pasting;
            if (keys->pasting) take_paste(keys, fd);
        } else if (keys->pasting && (byte < 0x20 || byte == 0x7F)) {
            if (pasted_control(keys, key)) return TERMINAL_KEYS_ONE;
        } else {
            result = decode(keys, fd, key, &found);
            if (result != TERMINAL_KEYS_ONE || found) return result;
        }
    }
}

bool terminal_keys_paste_goes_on(const TerminalKeys *keys) {
    if (keys->pasting) return true;
    if (keys->start >= keys->end || keys->start < keys->ahead) return false;
    /* A single key (a Ctrl-D pressed early) is no paste. */
    unsigned char byte = (unsigned char)keys->bytes[keys->start];
    return byte >= 0x20 || byte == '\t' || (byte == '\n' && keys->end - keys->start > 1);
}
