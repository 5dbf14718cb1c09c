/* Fuzz target: calls of tools in every format. The input is a byte that chooses the format and what
 * the request says, the request's tools as JSON, and after a NUL byte an answer.
 *
 * The answer is taken apart. Where the calls can be held to the tools' schemas, the answer is held
 * to them as far as it goes and closed by a short way: that text must be taken apart into calls. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "constraint/acceptor_shortest.h"
#include "constraint/structure.h"
#include "template/answer.h"
#include "template/tool_shapes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a template holds. */
static const char *const templates[] = {
    "<|channel|> <|message|> functions. <think></think>",
    "<|tool_call>call:",
    "<|tool_calls_section_begin|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁begin｜> ```json",
    "<|tool_call_start|>",
    "[TOOL_CALLS]",
    "[TOOL_CALLS] [ARGS] [/THINK]",
    "<tool_call> <arg_key>",
    "<tool_call> <arg_key></arg_key><arg_value>",
    "<tool_call> <function=",
    "<tool_calls>[ \"arguments\"",
    "<tool_calls> \"arguments\"",
    "<tool_call> \"arguments\" </think>",
    "<|start_header_id|> \"parameters\"",
};
enum { N_TEMPLATES = sizeof templates / sizeof *templates, MOST_TEXT = 8192 };

static void split(const AnswerFormat *format, const char *text, size_t n, bool opened,
                  const json_t *tools) {
    Answer answer;
    if (!answer_split(format, text, n, opened, tools, &answer)) abort();
    answer_free(&answer);
}

/* Goes through bytes[n] as far as the shape allows, then by a short way to its end. False where
 * that passes a limit. */
static bool complete(Acceptor *acceptor, const char *bytes, size_t n, TextBuffer *out) {
    size_t taken = 0;
    AcceptorState state = acceptor_start(acceptor);
    acceptor_begin_work(acceptor);
    for (; taken < n && taken < 1024; taken++) {
        AcceptorState next = acceptor_step(acceptor, state, (unsigned char)bytes[taken]);
        if (next == ACCEPTOR_DEAD) break;
        state = next;
    }
    text_put(out, bytes, taken, 0);
    return !acceptor_failed(acceptor) && acceptor_shortest(acceptor, state, out);
}

static void hold(const ToolShapes *shapes, const AnswerFormat *format, const char *bytes,
                 size_t n) {
    const AcceptorLimits limits = {.nodes = 20000,
                                   .regex_nodes = 50000,
                                   .build_work = 300000,
                                   .step_work = 300000,
                                   .bytes = (size_t)8 << 20};
    ElementWriter writer = {0};
    TextBuffer text = {.limit = MOST_TEXT};
    char *structure;
    json_t *element;
    Acceptor *acceptor;
    Answer answer;
    Error error;
    if (tool_shapes_calls(shapes, &writer, &element, &error) != STATUS_OK) return;
    structure = json_dumps(element, JSON_COMPACT);
    json_decref(element);
    if (!structure) return;
    const ShapeSource source = {
        .kind = SHAPE_STRUCTURE, .text = structure, .length = strlen(structure)};
    Status status = structure_compile(&source, &limits, &acceptor, &error);
    free(structure);
    if (status != STATUS_OK) return;
    if (complete(acceptor, bytes, n, &text)) {
        if (!answer_split(format, text.bytes, text.length, false, shapes->tools, &answer)) abort();
        if (!answer.calls || answer.content.length > 0) abort();
        answer_free(&answer);
    }
    acceptor_free(acceptor);
    text_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *nul = size ? memchr(data + 1, 0, size - 1) : NULL;
    if (!nul) return 0;
    const char *text = templates[data[0] % N_TEMPLATES], *bytes = (const char *)nul + 1;
    size_t n = size - (size_t)(nul - data) - 1, flags = data[0] / N_TEMPLATES;
    json_t *tools = json_loadb((const char *)data + 1, (size_t)(nul - data) - 1, 0, NULL);
    if (json_is_array(tools)) {
        const AnswerFormat format = answer_format(text, strlen(text), NULL);
        const ToolShapes shapes = {.format = format.tools,
                                   .text = text,
                                   .length = strlen(text),
                                   .tools = tools,
                                   .required = flags & 1,
                                   .one_call = flags & 2};
        split(&format, bytes, n, flags & 4, tools);
        if (format.tools) hold(&shapes, &format, bytes, n);
    } else {
        AcceptorLimits limits = {20000, 50000, 300000, 300000, (size_t)8 << 20};
        Acceptor *acceptor;
        Error error;
        /* Structures come from the program alone, but what stands in them does not. */
        const ShapeSource source = {.kind = SHAPE_STRUCTURE,
                                    .text = (const char *)data + 1,
                                    .length = (size_t)(nul - data) - 1};
        if (structure_compile(&source, &limits, &acceptor, &error) == STATUS_OK)
            acceptor_free(acceptor);
    }
    json_decref(tools);
    return 0;
}
