#include "template/chat_template.h"

#include "base/unicode.h"
#include "json/json_digits.h"
#include "template/builtins.h"
#include "template/methods.h"
#include "template/equality.h"
#include "template/eval.h"
#include "template/parse.h"
#include "template/print.h"
#include "template/scope.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TEMPLATE = 256 << 10, MAX_INPUT_DEPTH = 500 };

static const Builtins builtins = {jinja_filters, jinja_tests, jinja_globals, jinja_find_method};

struct ChatTemplate {
    Machine machine; /* owns the tree */
    Node *statements;
    Frame *frame;
};

/* fail() comes back to setjmp. The two functions that call it have no locals that the jump could
 * make indeterminate. */
static bool compile_guarded(ChatTemplate *t, const char *text, size_t length) {
    if (setjmp(t->machine.failed)) return false;
    t->statements =
        jinja_parse(&t->machine, jinja_text_fill(&t->machine, text, length, FROM_TEMPLATE));
    t->frame = jinja_bind_names(&t->machine, t->statements);
    return true;
}

ChatTemplate *chat_template_compile(const char *text, size_t length, Error *error) {
    Error ignored;
    if (length > MAX_TEMPLATE || utf8_valid_prefix(text, length) < length) {
        error_set(error, "chat template: %s",
                  length > MAX_TEMPLATE ? "longer than 256 KiB" : "not UTF-8");
        return NULL;
    }
    ChatTemplate *t = calloc(1, sizeof *t);
    if (!t) {
        error_set(error, "chat template: out of memory");
        return NULL;
    }
    jinja_machine_init(&t->machine, &builtins, error ? error : &ignored);
    bool ok = compile_guarded(t, text, length);
    t->machine.error = NULL;
    if (ok) return t;
    chat_template_free(t);
    return NULL;
}

void chat_template_free(ChatTemplate *t) {
    if (!t) return;
    jinja_machine_free(&t->machine);
    free(t);
}

/* ---- JSON to values; the text stays in jansson's memory ---- */

static Value convert(Machine *m, const json_t *json, uint8_t from_template, int depth);

static Value convert_text(Machine *m, const char *bytes, size_t length, uint8_t from_template) {
    uint8_t *flags = NEW_ARRAY(m, length, uint8_t);
    if (length) memset(flags, from_template, length);
    return jinja_value_text(m, (Text){(const uint8_t *)bytes, flags, length});
}

static Value convert_array(Machine *m, const json_t *json, uint8_t from_template, int depth) {
    size_t count = json_array_size(json);
    Value *items = NEW_ARRAY(m, count, Value);
    for (size_t i = 0; i < count; i++) {
        items[i] = convert(m, json_array_get(json, i), from_template, depth + 1);
    }
    return jinja_value_list(m, V_LIST, items, count);
}

static Value convert_object(Machine *m, const json_t *json, uint8_t from_template, int depth) {
    Value v = jinja_value_dict(m);
    for (void *it = json_object_iter((json_t *)json); it;
         it = json_object_iter_next((json_t *)json, it)) {
        const char *name = json_object_iter_key(it); /* jansson has no NUL in a key */
        Value key = convert_text(m, name, strlen(name), from_template);
        Value value = convert(m, json_object_iter_value(it), from_template, depth + 1);
        jinja_dict_append(m, v.as.dict, key, value);
    }
    return v;
}

static Value convert_number(Machine *m, const json_t *json) {
    Value v = json_is_integer(json) ? jinja_value_int(json_integer_value(json))
                                    : jinja_value_float(json_real_value(json));
    const char *digits = json_digits_find(m->digits, json);
    if (digits) v.written = jinja_note_digits(m, digits);
    return v;
}

static Value convert_scalar(Machine *m, const json_t *json, uint8_t from_template) {
    switch (json_typeof(json)) {
    case JSON_STRING:
        return convert_text(m, json_string_value(json), json_string_length(json), from_template);
    case JSON_INTEGER:
    case JSON_REAL:
        return convert_number(m, json);
    case JSON_NULL:
        return none;
    default:
        return jinja_value_bool(json_is_true(json));
    }
}

static Value convert(Machine *m, const json_t *json, uint8_t from_template, int depth) {
    if (depth > MAX_INPUT_DEPTH) jinja_fail(m, "the input is nested too deeply");
    Value v = json_is_array(json)    ? convert_array(m, json, from_template, depth)
              : json_is_object(json) ? convert_object(m, json, from_template, depth)
                                     : convert_scalar(m, json, from_template);
    v.from_template = from_template;
    return v;
}

static const Dict *convert_inputs(Machine *m, const ChatTemplateInput *input) {
    Dict *inputs = NEW(m, Dict);
    for (void *it = json_object_iter((json_t *)input->variables); it;
         it = json_object_iter_next((json_t *)input->variables, it)) {
        const char *name = json_object_iter_key(it);
        uint8_t from_template = FROM_MESSAGE;
        for (const char *const *t = input->trusted; t && *t; t++) {
            if (strcmp(*t, name) == 0) from_template = FROM_TEMPLATE;
        }
        Value value = convert(m, json_object_iter_value(it), from_template, 0);
        jinja_dict_append(m, inputs, jinja_value_text(m, jinja_text_c(m, name)), value);
    }
    return inputs;
}

/* ---- rendering ---- */

/* Renders; false where the interpreter failed (its longjmp comes back here). */
static bool render_guarded(Machine *m, const ChatTemplate *t, const ChatTemplateInput *input,
                           Builder *out) {
    if (setjmp(m->failed)) return false;
    m->steps_left = SIZE_MAX; /* reading a long conversation does not count */
    const Dict *inputs = convert_inputs(m, input);
    m->steps_left = MAX_STEPS;
    jinja_run(m, t->statements, t->frame, inputs, out);
    return true;
}

static Status copy_output(Text text, ChatTemplateOutput *output, Error *error) {
    output->text = malloc(text.length + 1);
    output->from_template = malloc(text.length + 1);
    if (!output->text || !output->from_template) {
        chat_template_output_free(output);
        return error_set(error, "chat template: out of memory");
    }
    if (text.length) {
        memcpy(output->text, text.bytes, text.length);
        memcpy(output->from_template, text.from_template, text.length);
    }
    output->text[text.length] = 0;
    output->length = text.length;
    return STATUS_OK;
}

Status chat_template_render(const ChatTemplate *t, const ChatTemplateInput *input,
                            ChatTemplateOutput *output, Error *error) {
    Error ignored;
    Machine m;
    Builder out = {0};
    *output = (ChatTemplateOutput){0};
    if (!json_is_object(input->variables)) return error_set(error, "chat template: no variables");
    jinja_machine_init(&m, &builtins, error ? error : &ignored);
    m.now = input->now;
    m.digits = input->digits;
    Status status = STATUS_FAILED;
    if (render_guarded(&m, t, input, &out)) status = copy_output(jinja_built(&out), output, error);
    jinja_machine_free(&m);
    return status;
}

void chat_template_output_free(ChatTemplateOutput *output) {
    free(output->text);
    free(output->from_template);
    *output = (ChatTemplateOutput){0};
}
