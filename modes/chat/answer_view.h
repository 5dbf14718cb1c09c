/* How an answer is shown on stdout while it comes: reasoning is dim or hidden, the headers of
 * channels (gpt-oss) are left out, and a terminal gets whole words in each line (word_wrap.h). The
 * text goes through terminal_write. After an error of stdout nothing more is written, and `closed`
 * and `lost` say so. */
#ifndef ANSWER_VIEW_H
#define ANSWER_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "system/word_wrap.h"
#include "template/answer.h"

/* Zero-initialize, then set the first three fields (hides_reasoning may change later);
 * answer_view_free frees. */
typedef struct AnswerView {
    const AnswerFormat *format; /* the marks of reasoning; borrowed */
    bool colours;               /* stdout shows them */
    bool hides_reasoning;
    bool closed; /* stdout is unusable */
    int lost;    /* its errno, 0 for EPIPE */

    /* Private. */
    bool thinking;      /* the answer is between <think> and </think> */
    TextBuffer waiting; /* the end of what has come, which may begin a mark */
    bool in_header;     /* of a channel (gpt-oss), whose text is not shown */
    char header[64];    /* [header_length] of it, as far as it fits */
    size_t header_length;
    bool at_line_start;
    WordWrap wrap;
    TextBuffer wrapped; /* scratch */
} AnswerView;

/* Calls for one answer: begin, maybe begin_reasoning, put for each piece, end. */
void answer_view_begin(AnswerView *view);
/* Says that the prompt ends within a reasoning, so that the answer begins there. */
void answer_view_begin_reasoning(AnswerView *view);
/* Writes text[length], a piece of the answer. What may begin a mark waits for the next piece. */
void answer_view_put(AnswerView *view, const char *text, size_t length);
/* Writes what waits, ends the reasoning of an answer that was cut there, and ends the line. */
void answer_view_end(AnswerView *view);

/* Writes a newline outside of an answer. */
void answer_view_newline(AnswerView *view);

void answer_view_free(AnswerView *view);

#endif
