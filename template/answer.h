/* Taking an answer apart: reasoning, text, calls of tools.
 *
 * Models write their reasoning and their calls of tools between marks that their chat template
 * names, because the template writes the same marks when it renders earlier turns. The formats are
 * tables here and in tool_calls.c; a template that has none of their marks has no known format, and
 * nothing is guessed. What looks like a call but does not parse stays text. */
#ifndef TEMPLATE_ANSWER_H
#define TEMPLATE_ANSWER_H

#include <jansson.h>

#include "base/text.h"
#include "template/tool_calls.h"
#include "tokenizer.h"

enum { ANSWER_MOST_MARKS = 16 };

typedef struct AnswerFormat {
    const char *think_open, *think_close; /* around reasoning; NULL: the template names none */
    bool has_channels;                    /* gpt-oss: the parts of an answer are named channels */
    const ToolFormat *tools;              /* NULL: the template names none that is known */
    /* The control tokens among the marks, which a decoder must show: first those of reasoning. */
    int32_t marks[ANSWER_MOST_MARKS];
    size_t n_reasoning_marks, n_marks;
} AnswerFormat;

/* The formats that the template's text[length] declares. Without a tokenizer (NULL) no mark is a
 * token. */
AnswerFormat answer_format(const char *text, size_t length, const Tokenizer *tokenizer);

/* What a prompt does with the reasoning of the answer. */
typedef enum ReasoningStart {
    REASONING_OPEN,  /* nothing: the answer may begin with it */
    REASONING_BEGUN, /* it ends with the opening mark */
    REASONING_DONE   /* it ends with the closing mark */
} ReasoningStart;

/* How a prompt that ends in text[length] leaves the reasoning. */
ReasoningStart answer_start(const AnswerFormat *format, const char *text, size_t length);

/* The parts of an answer, owned by it. */
typedef struct Answer {
    TextBuffer content, reasoning;
    bool has_reasoning;
    json_t *calls; /* a list of {"name": text, "arguments": text that is JSON}; NULL: none */
} Answer;

/* Takes text[length] apart. `opened`: the prompt left a reasoning open. `tools` is the request's
 * list of tools, or NULL: then calls are not looked for. False: no memory. */
bool answer_split(const AnswerFormat *format, const char *text, size_t length, bool opened,
                  const json_t *tools, Answer *out);
/* The same for an answer that is not complete: only what stays where it is, whatever follows. Calls
 * are left to the end, and so is a text that may turn out to be one. (Newlines before a text stay,
 * which answer_split removes where calls follow.) */
bool answer_split_so_far(const AnswerFormat *format, const char *text, size_t length, bool opened,
                         const json_t *tools, Answer *out);
void answer_free(Answer *answer);

#endif
