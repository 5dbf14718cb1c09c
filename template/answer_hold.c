#include "template/answer_hold.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "json/json_digits.h"
#include "session/shape.h"
#include "template/tool_shapes.h"

/* ---- Parts of an answer ------------------------------------------------------------------------
 */

static json_t *blank_lines(ElementWriter *w) {
    return element_of_text(w, "regex", "\\n{0,2}");
}

/* The user's shape. */
static json_t *shape_element(ElementWriter *w, const ShapeSource *shape) {
    json_t *element = element_new(w, "shape");
    element_add(w, element, json_integer(shape->kind));
    element_add(w, element, json_stringn(shape->text ? shape->text : "", shape->length));
    return element;
}

static bool has_shape(const AnswerHoldInput *in) {
    return in->shape && in->shape->kind != SHAPE_NONE;
}

/* Whether calls must look as the format has them. Otherwise the model may write what it will. */
static bool holds_calls(const AnswerHoldInput *in) {
    return in->tools && (in->required || has_shape(in) || tool_shapes_strict(in->tools));
}

static Status make_calls(ElementWriter *w, const AnswerHoldInput *in, json_t **calls,
                         Error *error) {
    const ToolShapes shapes = {.format = in->prompt->answers.tools,
                               .text = in->prompt->text,
                               .length = in->prompt->text_length,
                               .tools = in->tools,
                               .function = in->function,
                               .required = in->required,
                               .one_call = in->one_call};
    return tool_shapes_calls(&shapes, w, calls, error);
}

/* The element "text up to the beginning of a call, then the calls or nothing"; where calls have no
 * beginning mark, "text that is not a call, or a call". */
static json_t *text_and_calls(ElementWriter *w, const AnswerHoldInput *in, json_t *calls) {
    const char *begin = in->prompt->answers.tools->begin;
    if (!begin) { /* the answer is a call as a whole, or none */
        json_t *choice = element_new(w, "choice");
        element_add(w, choice, element_of_text(w, "unless", "\\s*\\{\\s*\"name\""));
        element_add(w, choice, calls);
        return choice;
    }
    json_t *sequence = element_new(w, "sequence");
    element_add(w, sequence, element_of_text(w, "free", begin));
    element_add(w, sequence, element_repeat(w, calls, 0, 1));
    return sequence;
}

/* ---- Answers with marks around their reasoning -------------------------------------------------
 */

/* The element of the answer after the reasoning: calls, the shape, either, or text that calls may
 * follow. NULL, with STATUS_OK: any text. */
static Status make_content(ElementWriter *w, const AnswerHoldInput *in, json_t **out,
                           Error *error) {
    json_t *calls = NULL;
    *out = NULL;
    if (holds_calls(in) && make_calls(w, in, &calls, error) != STATUS_OK) return STATUS_FAILED;
    if (in->required) {
        *out = calls;
    } else if (has_shape(in) && calls) {
        *out = element_new(w, "choice");
        element_add(w, *out, shape_element(w, in->shape));
        element_add(w, *out, calls);
    } else if (has_shape(in)) {
        *out = shape_element(w, in->shape);
    } else if (calls) {
        *out = text_and_calls(w, in, calls);
    }
    return STATUS_OK;
}

/* The reasoning, from its beginning or from what the prompt has begun, and what divides it from the
 * answer. */
static json_t *marked_reasoning(ElementWriter *w, const AnswerHoldInput *in) {
    const AnswerFormat *format = &in->prompt->answers;
    json_t *sequence = element_new(w, "sequence");
    if (in->start != REASONING_BEGUN) {
        element_add(w, sequence, blank_lines(w));
        element_add_marked(w, sequence, format->think_open);
    }
    element_add(w, sequence, element_of_text(w, "free", format->think_close));
    element_add_marked(w, sequence, format->think_close);
    element_add(w, sequence, blank_lines(w));
    return in->start == REASONING_BEGUN ? sequence : element_repeat(w, sequence, 0, 1);
}

static bool may_reason(const AnswerHoldInput *in) {
    const AnswerFormat *format = &in->prompt->answers;
    if (!format->think_open) return false;
    return in->start == REASONING_BEGUN || (in->start == REASONING_OPEN && in->may_reason);
}

static Status make_marked(ElementWriter *w, const AnswerHoldInput *in, json_t **out, Error *error) {
    json_t *content;
    *out = NULL;
    if (make_content(w, in, &content, error) != STATUS_OK) return STATUS_FAILED;
    if (!content) return STATUS_OK;
    *out = element_new(w, "sequence");
    if (may_reason(in)) element_add(w, *out, marked_reasoning(w, in));
    if (in->required) element_add(w, *out, blank_lines(w));
    element_add(w, *out, content);
    return STATUS_OK;
}

/* ---- Answers of channels ---------------------------------------------------------------------*/

/* Any text of a channel. */
static json_t *channel_text(ElementWriter *w) {
    static const char *const marks[] = {"<|start|>", "<|channel|>", "<|message|>", "<|end|>"};
    json_t *element = element_new(w, "free");
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        element_add(w, element, json_string(marks[i]));
    return element;
}

/* A channel after which another one comes, any number of times. */
static json_t *channels(ElementWriter *w, const char *head) {
    json_t *sequence = element_new(w, "sequence");
    element_add_marked(w, sequence, head);
    element_add(w, sequence, channel_text(w));
    element_add_marked(w, sequence, "<|end|><|start|>assistant");
    return element_repeat(w, sequence, 0, -1);
}

/* The last channel, with the text `content`. */
static json_t *final_channel(ElementWriter *w, json_t *content) {
    json_t *sequence = element_new(w, "sequence");
    element_add_marked(w, sequence, "<|channel|>final<|message|>");
    element_add(w, sequence, content);
    return sequence;
}

/* Makes the element of an answer in channels (gpt-oss): analysis, commentary, then the final
 * channel or a call. *out stays NULL where neither calls nor a shape are enforced. */
static Status make_channels(ElementWriter *w, const AnswerHoldInput *in, json_t **out,
                            Error *error) {
    json_t *calls = NULL;
    *out = NULL;
    if (!holds_calls(in) && !has_shape(in)) return STATUS_OK;
    if (holds_calls(in) && make_calls(w, in, &calls, error) != STATUS_OK) return STATUS_FAILED;
    *out = element_new(w, "sequence");
    if (in->may_reason) element_add(w, *out, channels(w, "<|channel|>analysis<|message|>"));
    if (!has_shape(in) && !in->required)
        element_add(w, *out, channels(w, "<|channel|>commentary<|message|>"));
    if (in->required) {
        element_add(w, *out, calls);
        return STATUS_OK;
    }
    json_t *choice = element_new(w, "choice");
    element_add(w, choice,
                final_channel(w, has_shape(in) ? shape_element(w, in->shape) : channel_text(w)));
    if (calls) element_add(w, choice, calls);
    element_add(w, *out, choice);
    return STATUS_OK;
}

/* ---- All together ----------------------------------------------------------------------------*/

/* A structure repeats the definitions of a schema for each parameter that is written as a tag. */
enum { MOST_STRUCTURE = 64 << 20 };

/* A text that is as long as it may be. */
typedef struct Written {
    TextBuffer text;
    bool too_long;
} Written;

static int put_json(const char *bytes, size_t n, void *context) {
    Written *written = context;
    written->too_long = n >= MOST_STRUCTURE - written->text.length;
    if (!written->too_long) text_put(&written->text, bytes, n, 0);
    return written->too_long || written->text.failed ? -1 : 0;
}

/* Writes the structure that the answer must have as JSON into hold->text, for hold->source. Does
 * nothing where the answer is free. */
static Status write_structure(AnswerHold *hold, const AnswerHoldInput *in, Error *error) {
    ElementWriter w = {.tokenizer = in->prompt->session->tokenizer};
    json_t *element;
    Status status = in->prompt->answers.has_channels ? make_channels(&w, in, &element, error)
                                                     : make_marked(&w, in, &element, error);
    if (status != STATUS_OK || !element) {
        json_decref(element);
        return status;
    }
    Written out = {.too_long = false};
    size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(17);
    bool written =
        !w.failed && json_digits_dump_callback(element, in->digits, put_json, &out, flags) == 0;
    json_decref(element);
    hold->text = out.text.bytes;
    if (!written)
        return error_set(error, out.too_long ? "the schemas of 'tools' are too large to be enforced"
                                             : "no memory for the shape of an answer");
    hold->source = (ShapeSource){.kind = SHAPE_STRUCTURE,
                                 .text = out.text.bytes,
                                 .length = out.text.length,
                                 .form = in->json_form};
    return STATUS_OK;
}

/* Fills in hold->reasoning: the marks of reasoning in this format, the budget, and the text that
 * ends reasoning at its budget. Does nothing without a budget, or after the reasoning. */
static Status limit_reasoning(AnswerHold *hold, const AnswerHoldInput *in, Error *error) {
    const AnswerFormat *format = &in->prompt->answers;
    ReasoningLimit *limit = &hold->reasoning;
    if (in->budget < 0 || in->start == REASONING_DONE) return STATUS_OK;
    if (format->has_channels) {
        limit->open = "<|channel|>analysis<|message|>";
        limit->close = "<|end|>";
        limit->reopen = "<|start|>assistant<|channel|>analysis<|message|>";
        limit->closing = in->required
                             ? "<|end|><|start|>assistant<|channel|>commentary to=functions."
                             : "<|end|><|start|>assistant<|channel|>final<|message|>";
    } else if (format->think_open) {
        limit->open = format->think_open;
        limit->close = limit->closing = format->think_close;
    } else {
        return error_set(error, "a reasoning budget is given, but the chat template marks "
                                "reasoning in no way that this program knows");
    }
    limit->opened = in->start == REASONING_BEGUN;
    limit->most = (size_t)in->budget;
    return STATUS_OK;
}

Status answer_hold_init(AnswerHold *hold, const AnswerHoldInput *in, Error *error) {
    *hold = (AnswerHold){0};
    if (limit_reasoning(hold, in, error) != STATUS_OK) return STATUS_FAILED;
    if (!in->tools && !in->prompt->answers.has_channels && !may_reason(in)) {
        if (has_shape(in)) hold->source = *in->shape;
        hold->source.form = in->json_form;
        return STATUS_OK;
    }
    return write_structure(hold, in, error);
}

void answer_hold_free(AnswerHold *hold) {
    free(hold->text);
    *hold = (AnswerHold){0};
}

Status answer_hold_rule(const AnswerHold *hold, const Session *session,
                        const GenerationOptions *options, TokenRule **rule, Error *error) {
    const Model *model = session->model;
    TokenRule *inner;
    *rule = NULL;
    if (session_rule(session, &hold->source, options, &inner, error) != STATUS_OK)
        return STATUS_FAILED;
    if (!hold->reasoning.close) {
        *rule = inner;
        return STATUS_OK;
    }
    return reasoning_rule_new(rule, &hold->reasoning, session->tokenizer,
                              model_config(model)->vocab_size, inner, error);
}
