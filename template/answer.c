#include "template/answer.h"

#include <string.h>

/* ---- Formats ---- */

/* How models mark their reasoning. A template has the format when it holds `close`. */
typedef struct ThinkFormat {
    const char *open, *close;
    const char *tokens[6]; /* what of it may be control tokens; NULL-terminated */
} ThinkFormat;

static const ThinkFormat think_formats[] = {
    {"<|channel>thought\n", "<channel|>", {"<|channel>", "<channel|>"}}, /* Gemma 4 */
    {"<think>", "</think>", {"<think>", "</think>"}},
    {"[THINK]", "[/THINK]", {"[THINK]", "[/THINK]"}},
    {"<seed:think>", "</seed:think>", {"<seed:think>", "</seed:think>"}},
    {"<|START_THINKING|>", "<|END_THINKING|>", {"<|START_THINKING|>", "<|END_THINKING|>"}},
    {"<|inner_prefix|>", "<|inner_suffix|>", {"<|inner_prefix|>", "<|inner_suffix|>"}},
};

static const char *const channel_tokens[] = {"<|start|>", "<|channel|>",   "<|message|>",
                                             "<|end|>",   "<|constrain|>", NULL};

static bool holds(const char *text, size_t length, const char *mark) {
    return memmem(text, length, mark, strlen(mark)) != NULL;
}

/* Adds the `names` that are control tokens. */
static void add_marks(AnswerFormat *format, const Tokenizer *tokenizer, const char *const *names) {
    for (; tokenizer && *names && format->n_marks < ANSWER_MOST_MARKS; names++) {
        int32_t id = tokenizer_token_id(tokenizer, *names, strlen(*names));
        if (id >= 0 && tokenizer_is_special(tokenizer, id)) format->marks[format->n_marks++] = id;
    }
}

AnswerFormat answer_format(const char *text, size_t length, const Tokenizer *tokenizer) {
    AnswerFormat format = {.tools = tool_format_find(text, length)};
    format.has_channels = holds(text, length, "<|channel|>") && holds(text, length, "<|message|>");
    if (format.has_channels) add_marks(&format, tokenizer, channel_tokens);
    for (size_t i = 0; !format.has_channels && i < sizeof think_formats / sizeof *think_formats;
         i++) {
        const ThinkFormat *think = &think_formats[i];
        if (!holds(text, length, think->close)) continue;
        format.think_open = think->open;
        format.think_close = think->close;
        add_marks(&format, tokenizer, think->tokens);
        break;
    }
    format.n_reasoning_marks = format.n_marks;
    if (format.tools) add_marks(&format, tokenizer, format.tools->tokens);
    return format;
}

/* Whether text[length] ends with the mark; newlines after either do not count. */
static bool ends_with(const char *text, size_t length, const char *mark) {
    size_t n = strlen(mark);
    while (n > 0 && mark[n - 1] == '\n') n--;
    while (length > 0 && text[length - 1] == '\n') length--;
    return length >= n && memcmp(text + length - n, mark, n) == 0;
}

ReasoningStart answer_start(const AnswerFormat *format, const char *text, size_t length) {
    if (!format->think_open) return REASONING_OPEN;
    if (ends_with(text, length, format->think_open)) return REASONING_BEGUN;
    return ends_with(text, length, format->think_close) ? REASONING_DONE : REASONING_OPEN;
}

/* ---- Taking apart ---- */

typedef struct Piece {
    const char *at;
    size_t length;
} Piece;

static Piece trimmed(Piece p) {
    while (p.length > 0 && (*p.at == '\n' || *p.at == ' ')) p.at++, p.length--;
    while (p.length > 0 && (p.at[p.length - 1] == '\n' || p.at[p.length - 1] == ' ')) p.length--;
    return p;
}

static const char *find(Piece p, const char *mark) {
    return memmem(p.at, p.length, mark, strlen(mark));
}

/* The piece from `at` on. */
static Piece rest(Piece p, const char *at) {
    return (Piece){at, p.length - (size_t)(at - p.at)};
}

/* Cuts the reasoning off the beginning of the answer. */
static Piece cut_reasoning(const AnswerFormat *format, Piece text, bool opened, Answer *out) {
    Piece begin = text;
    while (begin.length > 0 && *begin.at == '\n') begin.at++, begin.length--;
    size_t n = strlen(format->think_open);
    bool opens = begin.length >= n && memcmp(begin.at, format->think_open, n) == 0;
    if (!opens && !opened) return text;
    if (opens) begin = rest(begin, begin.at + n);
    const char *close = find(begin, format->think_close);
    Piece thought = {begin.at, close ? (size_t)(close - begin.at) : begin.length};
    thought = trimmed(thought);
    out->has_reasoning = true;
    text_put(&out->reasoning, thought.at, thought.length, 0);
    if (!close) return (Piece){begin.at, 0};
    Piece after = rest(begin, close + strlen(format->think_close));
    while (after.length > 0 && *after.at == '\n') after.at++, after.length--;
    return after;
}

/* Cuts the calls off the end of the text; unchanged where there is no complete call. */
static Piece cut_calls(const AnswerFormat *format, Piece text, const json_t *tools, Answer *out) {
    const ToolFormat *calls = format->tools;
    const char *begin = calls->begin ? find(text, calls->begin) : trimmed(text).at;
    if (!begin) return text;
    Piece rest_of_it = rest(text, begin);
    out->calls = tool_calls_read(calls, rest_of_it.at, rest_of_it.length, tools);
    if (!out->calls) return text;
    return trimmed((Piece){text.at, (size_t)(begin - text.at)});
}

/* Appends a channel of an answer of gpt-oss to where it belongs. */
static void put_channel(Piece header, Piece body, Answer *out) {
    static const char mark[] = "<|channel|>";
    const char *name = find(header, mark);
    Piece after = name ? rest(header, name + strlen(mark)) : header;
    bool is_analysis = after.length >= 8 && memcmp(after.at, "analysis", 8) == 0;
    out->has_reasoning = out->has_reasoning || is_analysis;
    TextBuffer *to = is_analysis ? &out->reasoning : &out->content;
    if (to->length > 0) text_put(to, "\n", 1, 0);
    text_put(to, body.at, body.length, 0);
}

/* Takes the answer of a model with channels apart: <|channel|>NAME ...<|message|>TEXT<|end|>, again
 * and again with <|start|>assistant between. */
static void split_channels(const AnswerFormat *format, Piece text, const json_t *tools,
                           Answer *out) {
    while (text.length > 0) {
        const char *message = find(text, "<|message|>");
        if (!message) { /* no channel, or one that was cut off before its text */
            if (!find(text, "<|channel|>")) text_put(&out->content, text.at, text.length, 0);
            return;
        }
        Piece header = {text.at, (size_t)(message - text.at)};
        Piece body = rest(text, message + strlen("<|message|>"));
        const char *end = find(body, "<|end|>"), *next = find(body, "<|start|>");
        const char *stop = end && (!next || end < next) ? end : next;
        Piece whole = {text.at, stop ? (size_t)(stop - text.at) : text.length};
        json_t *call = tools && format->tools && find(header, "to=functions.")
                           ? tool_calls_read(format->tools, whole.at, whole.length, tools)
                           : NULL;
        if (stop) body.length = (size_t)(stop - body.at);
        if (call) {
            if (!out->calls) out->calls = json_array();
            json_array_extend(out->calls, call);
            json_decref(call);
        } else {
            put_channel(header, body, out);
        }
        if (!stop) return;
        text = rest(text, stop + (stop == end ? strlen("<|end|>") : 0));
    }
}

bool answer_split(const AnswerFormat *format, const char *text, size_t length, bool opened,
                  const json_t *tools, Answer *out) {
    Piece content = {text, length};
    *out = (Answer){0};
    text_put(&out->content, "", 0, 0);
    text_put(&out->reasoning, "", 0, 0);
    if (format->has_channels) {
        split_channels(format, content, tools, out);
    } else {
        if (format->think_open) content = cut_reasoning(format, content, opened, out);
        if (tools && format->tools) content = cut_calls(format, content, tools, out);
        text_put(&out->content, content.at, content.length, 0);
    }
    return !out->content.failed && !out->reasoning.failed;
}

/* ---- Answers that are not complete ---- */

/* How many bytes at the end of text[length] may be the beginning of the mark; NULL: no mark. */
static size_t begins_at_end(const char *text, size_t length, const char *mark) {
    size_t n = mark ? strlen(mark) : 0;
    for (size_t k = n; k-- > 1;)
        if (k <= length && memcmp(text + length - k, mark, k) == 0) return k;
    return 0;
}

/* Takes off the end what may be the beginning of a mark. */
static size_t without_begun_mark(const AnswerFormat *format, const char *text, size_t length,
                                 const json_t *tools) {
    const char *const marks[] = {
        format->think_close, tools && format->tools ? format->tools->begin : NULL,
        format->has_channels ? "<|end|>" : NULL, format->has_channels ? "<|start|>" : NULL};
    size_t most = 0;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t n = begins_at_end(text, length, marks[i]);
        if (n > most) most = n;
    }
    return length - most;
}

/* The length of text[length] without a channel that has ended and what follows it until the next
 * one's text begins. */
static size_t whole_channels(Piece text) {
    static const char mark[] = "<|message|>";
    const char *body = NULL, *end, *next;
    for (const char *at; (at = find(body ? rest(text, body) : text, mark));)
        body = at + strlen(mark);
    if (!body) return 0;
    end = find(rest(text, body), "<|end|>");
    next = find(rest(text, body), "<|start|>");
    const char *stop = end && (!next || end < next) ? end : next;
    return stop ? (size_t)(stop - text.at) : text.length;
}

/* Whether it is open if the answer begins with a reasoning. */
static bool may_open(const AnswerFormat *format, Piece text) {
    if (!format->think_open) return false;
    while (text.length > 0 && *text.at == '\n') text.at++, text.length--;
    return text.length < strlen(format->think_open) &&
           memcmp(text.at, format->think_open, text.length) == 0;
}

bool answer_split_so_far(const AnswerFormat *format, const char *text, size_t length, bool opened,
                         const json_t *tools, Answer *out) {
    Piece whole = {text, length};
    bool is_open = format->has_channels ? tools != NULL : !opened && may_open(format, whole);
    length = is_open ? 0 : without_begun_mark(format, text, length, tools);
    if (format->has_channels) length = whole_channels((Piece){text, length});
    if (!answer_split(format, text, length, opened && !is_open, NULL, out)) return false;
    if (!tools || !format->tools) return true;
    Piece content = {out->content.bytes, out->content.length};
    const char *call = format->tools->begin ? find(content, format->tools->begin) : content.at;
    if (call) content.length = (size_t)(call - content.at);
    while (content.length > 0 &&
           (content.at[content.length - 1] == '\n' || content.at[content.length - 1] == ' '))
        content.length--;
    out->content.length = content.length;
    return true;
}

void answer_free(Answer *answer) {
    text_free(&answer->content);
    text_free(&answer->reasoning);
    json_decref(answer->calls);
    *answer = (Answer){0};
}
