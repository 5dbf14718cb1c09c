#include "modes/chat/answer_view.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "system/terminal.h"

static void close_screen(AnswerView *view) {
    view->closed = true;
    if (errno != EPIPE) view->lost = errno;
}

static void put_wrapped(AnswerView *view) {
    size_t n = view->wrapped.length;
    view->wrapped.length = 0;
    if (n == 0 || view->closed) return;
    if (!terminal_write(STDOUT_FILENO, view->wrapped.bytes, n)) close_screen(view);
}

static void view_put(AnswerView *view, const char *text, size_t length) {
    if (length == 0 || view->closed) return;
    word_wrap_put(&view->wrap, text, length, terminal_columns(STDOUT_FILENO), &view->wrapped);
    put_wrapped(view);
    view->at_line_start = text[length - 1] == '\n';
}

/* Writes the word that waits for its end. */
static void put_rest(AnswerView *view) {
    word_wrap_flush(&view->wrap, terminal_columns(STDOUT_FILENO), &view->wrapped);
    put_wrapped(view);
}

static void set_thinking(AnswerView *view, bool thinking) {
    put_rest(view);
    view->thinking = thinking;
    if (!view->colours || view->closed) return;
    if (!terminal_code(stdout, thinking ? TERMINAL_DIM : TERMINAL_PLAIN)) close_screen(view);
}

/* Writes a piece of reasoning, unless it is hidden. */
static void put_thought(AnswerView *view, const char *text, size_t length) {
    if (!view->hides_reasoning) view_put(view, text, length);
}

static void put_part(AnswerView *view, const char *text, size_t length) {
    (view->thinking ? put_thought : view_put)(view, text, length);
}

/* The first mark of channels in text[length]; *n is its length. NULL: there is none. */
static const char *channel_mark(const char *text, size_t length, size_t *n) {
    static const char *const marks[] = {"<|start|>", "<|channel|>", "<|end|>"};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *at = memmem(text, length, marks[i], strlen(marks[i]));
        if (!at || (first && at > first)) continue;
        first = at;
        *n = strlen(marks[i]);
    }
    return first;
}

/* Buffers a channel's header, up to <|message|>, which tells whether the channel is reasoning.
 * Returns how many bytes it consumed. */
static size_t buffer_header(AnswerView *view, const char *text, size_t length) {
    static const char mark[] = "<|message|>";
    const char *end = memmem(text, length, mark, strlen(mark));
    size_t n = end ? (size_t)(end - text) : length, room = sizeof view->header - 1;
    if (n < room - view->header_length) room = view->header_length + n;
    memcpy(view->header + view->header_length, text, room - view->header_length);
    view->header_length = room;
    view->header[room] = '\0';
    if (!end) return length;
    view->in_header = false;
    set_thinking(view, strstr(view->header, "analysis") != NULL);
    return n + strlen(mark);
}

/* Writes a piece of an answer in channels; the channel "analysis" is reasoning. A mark is one
 * token, so it never arrives in two pieces. */
static void show_channels(AnswerView *view, const char *text, size_t length) {
    while (length > 0) {
        size_t n = 0, used;
        const char *mark = view->in_header ? NULL : channel_mark(text, length, &n);
        if (view->in_header) {
            used = buffer_header(view, text, length);
        } else {
            size_t before = mark ? (size_t)(mark - text) : length;
            put_part(view, text, before);
            used = before + n;
        }
        if (mark) {
            if (view->thinking && !view->at_line_start) put_thought(view, "\n", 1);
            set_thinking(view, false);
            view->in_header = true;
            view->header_length = 0;
        }
        text += used;
        length -= used;
    }
}

/* A mark around reasoning, without what follows the token; no length: the format has none. */
typedef struct Mark {
    const char *text;
    size_t length;
} Mark;

static Mark opening(const AnswerFormat *format) {
    const char *text = format->think_open;
    if (!text) return (Mark){0};
    return (Mark){text, strstr(text, ">thought") ? strcspn(text, "t") : strcspn(text, "\n")};
}

static Mark closing(const AnswerFormat *format) {
    const char *text = format->think_close;
    return text ? (Mark){text, strcspn(text, "\n")} : (Mark){0};
}

/* Finds a mark in text[length]; NULL: it is not there. */
static const char *find_mark(Mark mark, const char *text, size_t length) {
    return mark.length ? memmem(text, length, mark.text, mark.length) : NULL;
}

/* How many of the last bytes of text[length] may begin the mark. */
static size_t begun(Mark mark, const char *text, size_t length) {
    size_t n = mark.length == 0 || length < mark.length ? length : mark.length - 1;
    if (mark.length == 0) return 0;
    while (n > 0 && memcmp(text + length - n, mark.text, n) != 0) n--;
    return n;
}

void answer_view_put(AnswerView *view, const char *text, size_t length) {
    if (view->format->has_channels) {
        show_channels(view, text, length);
        return;
    }
    text_put(&view->waiting, text, length, 0);
    if (view->waiting.failed) return;
    const Mark open = opening(view->format), close = closing(view->format);
    const char *at = view->waiting.bytes;
    size_t left = view->waiting.length;
    for (;;) {
        const char *opens = view->thinking ? NULL : find_mark(open, at, left);
        const char *closes = find_mark(close, at, left);
        bool is_open = opens && (!closes || opens < closes);
        const char *mark = is_open ? opens : closes;
        if (!mark) break;
        size_t before = (size_t)(mark - at), n = is_open ? open.length : close.length;
        put_part(view, at, before);
        if (is_open) set_thinking(view, true);
        if (view->thinking) put_thought(view, mark, n); /* what closes nothing is not shown */
        if (!is_open && view->thinking) set_thinking(view, false);
        at = mark + n;
        left -= before + n;
    }
    size_t held = begun(close, at, left), other = view->thinking ? 0 : begun(open, at, left);
    if (other > held) held = other;
    put_part(view, at, left - held);
    memmove(view->waiting.bytes, at + left - held, held);
    view->waiting.length = held;
}

void answer_view_begin(AnswerView *view) {
    view->at_line_start = true;
    word_wrap_free(&view->wrap);
    view->wrap = (WordWrap){0};
    view->in_header = false;
}

void answer_view_begin_reasoning(AnswerView *view) {
    const Mark open = opening(view->format);
    set_thinking(view, true);
    if (view->format->has_channels) return;
    put_thought(view, open.text, open.length); /* the prompt has it, but nobody has seen that */
    put_thought(view, "\n", 1);
}

void answer_view_end(AnswerView *view) {
    put_part(view, view->waiting.bytes, view->waiting.length);
    view->waiting.length = 0;
    if (view->thinking) set_thinking(view, false);
    put_rest(view);
    if (!view->at_line_start) view_put(view, "\n", 1);
}

void answer_view_newline(AnswerView *view) {
    view_put(view, "\n", 1);
}

void answer_view_free(AnswerView *view) {
    text_free(&view->waiting);
    text_free(&view->wrapped);
    word_wrap_free(&view->wrap);
}
