/* Chat templates: messages to prompt text, with the same result as transformers'
 * apply_chat_template.
 *
 * A template is a stranger's program in Jinja, the language of jinja2. A small interpreter of our
 * own runs it (jinja_machine.h lists its parts). The program sees its input variables and nothing
 * else, and its steps, memory, output and recursion are bounded. docs/chat-templates.md lists what
 * is covered.
 *
 *     ChatTemplate *template = chat_template_compile(text, length, &error);
 *     ChatTemplateInput input = {.variables = variables, .trusted = {"bos_token", NULL}, ...};
 *     ChatTemplateOutput output;
 *     if (chat_template_render(template, &input, &output, &error) == STATUS_OK) ...
 *     chat_template_output_free(&output);
 *     chat_template_free(template);
 *
 * The output says of each byte whether the template wrote it (ChatTemplateOutput.from_template), so
 * that a message which spells out a control token stays ordinary text. */
#ifndef CHAT_TEMPLATE_H
#define CHAT_TEMPLATE_H

#include "base/status.h"
#include "json/json_digits.h"

#include <jansson.h>
#include <stdint.h>
#include <time.h>

typedef struct ChatTemplate ChatTemplate;

/* The input variables of a template. */
typedef struct ChatTemplateInput {
    /* An object: "messages", "add_generation_prompt", "tools", "documents", "bos_token",
     * "eos_token" and whatever else the template reads. As with transformers, the caller leaves
     * out what it does not have, except "tools" and "documents", which are then null. The object is
     * not changed, and not read after rendering. */
    const json_t *variables;
    /* Names of variables whose text counts as written by the template, because it comes from the
     * model's files ("bos_token", "eos_token" ...): NULL-terminated, or NULL for none. */
    const char *const *trusted;
    /* The time that strftime_now() tells, as localtime_r() gives it. */
    struct tm now;
    /* How numbers among the variables are printed (json/json_digits.h); NULL: all as Python
     * does. Templates compute with the 64 bits or the double that jansson has. */
    const JsonDigits *digits;
} ChatTemplateInput;

typedef struct ChatTemplateOutput {
    char *text; /* UTF-8, NUL-terminated; a message may put NULs into it, too */
    uint8_t
        *from_template; /* [length] 1: the template wrote this byte; 0: it comes from a message */
    size_t length;
} ChatTemplateOutput;

/* Parses a template (UTF-8, at most 256 KiB). On failure returns NULL and fills `error`, which
 * names the line. Rendering does not change the result, so several threads may use it at once. */
ChatTemplate *chat_template_compile(const char *text, size_t length, Error *error);
void chat_template_free(ChatTemplate *t); /* NULL is fine */

/* Fills `output`, which the caller frees with chat_template_output_free, or fails. What the
 * template passes to raise_exception() is the whole error text; other errors begin with
 * "chat template, line N". An endless template fails within a second. */
Status chat_template_render(const ChatTemplate *t, const ChatTemplateInput *input,
                            ChatTemplateOutput *output, Error *error);
void chat_template_output_free(ChatTemplateOutput *output);

#endif
