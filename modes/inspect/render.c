#include "modes/inspect/render.h"

#include <string.h>
#include <time.h>

#include "json/json_reader.h"
#include "template/chat_prompt.h"

/* Whether the value is a list of messages. */
static bool are_messages(const json_t *json) {
    size_t i;
    json_t *message;
    if (!json_is_array(json) || json_array_size(json) == 0) return false;
    json_array_foreach((json_t *)json, i, message) {
        if (!json_reader_word(json_object_get(message, "role"))) return false;
    }
    return true;
}

/* A conversation and the JSON that holds it. */
typedef struct Conversed {
    json_t *json;       /* owned */
    JsonDigits *digits; /* owned: of its numbers */
    ChatPromptInput input;
    bool is_request; /* it is a line of a batch, whose clock it has; otherwise a chat's */
} Conversed;

static Status add_system(Conversed *c, const char *system, Error *error) {
    const char *role =
        json_string_value(json_object_get(json_array_get(c->input.messages, 0), "role"));
    if (!system || (role && (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0)))
        return STATUS_OK;
    json_t *message = json_pack("{s:s, s:s}", "role", "system", "content", system);
    if (message && json_array_insert_new((json_t *)c->input.messages, 0, message) == 0)
        return STATUS_OK;
    return error_set(error, "no memory for the conversation");
}

/* Reads the prompt as a conversation: a JSON list of messages, a request with 'messages' (possibly
 * in its 'body'), or else a text, which becomes the user's message. */
static Status read_conversation(Conversed *c, const Session *session, Error *error) {
    if (session->prompt_length == 0)
        return error_set(error,
                         "what does the user say? -i TEXT, or -f FILE with messages as JSON");
    c->digits = json_digits_new();
    if (!c->digits) return error_set(error, "no memory for the conversation");
    c->json = json_reader_load_digits(session->prompt, session->prompt_length, JSON_ALLOW_NUL,
                                      c->digits, NULL);
    const json_t *body = json_object_get(c->json, "body");
    const json_t *request = json_is_object(body) ? body : c->json;
    if (are_messages(c->json)) {
        c->input.messages = c->json;
    } else if (are_messages(json_object_get(request, "messages"))) {
        c->input = chat_prompt_request(request);
        c->is_request = true;
    } else {
        json_decref(c->json);
        c->json = json_pack("[{s:s, s:s%}]", "role", "user", "content", session->prompt,
                            session->prompt_length);
        if (!c->json) return error_set(error, "no memory for the conversation");
        c->input.messages = c->json;
    }
    c->input.digits = c->digits;
    return add_system(c, session->options->system, error);
}

typedef Status (*Use)(const ChatPrompt *prompt, const ChatPromptInput *input, void *result,
                      Error *error);

/* Opens the template and the conversation for `use`. */
static Status with_prompt(const Session *session, Use use, void *result, Error *error) {
    Conversed c = {0};
    ChatPrompt prompt = {0};
    time_t now = time(NULL);
    Status status = read_conversation(&c, session, error);
    if (status == STATUS_OK) status = chat_prompt_open(&prompt, session, error);
    localtime_r(&now, &prompt.now);
    if (c.is_request) prompt.now = chat_prompt_request_time();
    if (status == STATUS_OK) status = use(&prompt, &c.input, result, error);
    chat_prompt_close(&prompt);
    json_digits_free(c.digits);
    json_decref(c.json);
    return status;
}

static Status print(const ChatPrompt *prompt, const ChatPromptInput *input, void *output,
                    Error *error) {
    ChatTemplateOutput out;
    if (chat_prompt_render(prompt, input, &out, error) != STATUS_OK) return STATUS_FAILED;
    Status status = output_write(output, out.text, out.length, error);
    chat_template_output_free(&out);
    return status;
}

Status render_run(Session *session, Error *error) {
    return with_prompt(session, print, session->output, error);
}

static Status render_encode(const ChatPrompt *prompt, const ChatPromptInput *input, void *ids,
                            Error *error) {
    return chat_prompt_encode(prompt, input, ids, NULL, error);
}

Status render_ids(const Session *session, TokenList *ids, Error *error) {
    return with_prompt(session, render_encode, ids, error);
}
