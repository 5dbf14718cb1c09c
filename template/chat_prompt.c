#include "template/chat_prompt.h"

#include "json/json_digits.h"
#include "json/json_reader.h"
#include "session/prompt_limit.h"
#include "template/chat_family.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const plain_stops[] = {"\nUser:", "\nSystem:", "\nAssistant:"};

/* ---- Variables ---------------------------------------------------------------------------- */

static json_t *token_text(const Tokenizer *tokenizer, int32_t id) {
    size_t length = 0;
    const char *text = id >= 0 ? tokenizer_token_text(tokenizer, id, &length) : "";
    json_t *json = json_stringn(text ? text : "", length);
    return json ? json : json_string("");
}

/* Sets the variables by which templates switch reasoning. Names differ, and a template ignores
 * those that it does not read. */
static void put_reasoning(json_t *all, const ChatPrompt *p, const ChatPromptInput *input) {
    const char *effort = input->reasoning_effort ? input->reasoning_effort : p->effort;
    if (effort) json_object_set_new(all, "reasoning_effort", json_string(effort));
    if (p->reasoning == REASONING_AUTO) return;
    json_t *on = json_boolean(p->reasoning == REASONING_ON);
    json_object_set(all, "enable_thinking", on);
    json_object_set(all, "thinking", on);
}

static bool names(const ChatPrompt *p, const char *word) {
    return p->text && memmem(p->text, p->text_length, word, strlen(word));
}

bool chat_prompt_reasons(const ChatPrompt *p) {
    return p->answers.think_open || p->answers.has_channels || names(p, "thinking") ||
           chat_prompt_has_effort(p);
}

bool chat_prompt_has_effort(const ChatPrompt *p) {
    return names(p, "reasoning_effort");
}

bool chat_prompt_may_reason(const ChatPrompt *p, const ChatPromptInput *input) {
    const json_t *own = json_object_get(input->variables, "enable_thinking");
    if (!own) own = json_object_get(input->variables, "thinking");
    return own ? !json_is_false(own) : p->reasoning != REASONING_OFF;
}

/* The variables of the template; `printed` gets the digits of numbers that were in texts. */
static json_t *make_variables(const ChatPrompt *p, const ChatPromptInput *input,
                              JsonDigits *printed) {
    const Tokenizer *tokenizer = p->session->tokenizer;
    const Config *config = modelfile_config(p->session->file);
    size_t n_eos = 0;
    const int32_t *eos = tokenizer_eos(tokenizer, &n_eos);
    int32_t bos = config->bos_id >= 0 ? config->bos_id : tokenizer_bos(tokenizer);
    int32_t end = n_eos > 0 ? eos[0] : config->n_eos > 0 ? (int32_t)config->eos_id[0] : -1;
    json_t *all = json_object();
    json_object_set_new(all, "add_generation_prompt", json_true());
    json_object_set_new(all, "documents", json_null());
    put_reasoning(all, p, input);
    if (input->variables) json_object_update(all, (json_t *)input->variables);
    json_object_set_new(all, "messages",
                        messages_prepare(input->messages, p->calls, input->digits, printed));
    json_object_set(all, "tools", input->tools ? (json_t *)input->tools : json_null());
    json_object_set_new(all, "bos_token", token_text(tokenizer, bos));
    json_object_set_new(all, "eos_token", token_text(tokenizer, end));
    return all;
}

static void find_call_style(ChatPrompt *p) {
    json_t *none = json_array();
    const ChatPromptInput input = {.messages = none};
    json_t *variables = none ? make_variables(p, &input, NULL) : NULL;
    if (variables) p->calls = messages_call_style(p->template, variables, p->now);
    json_decref(variables);
    json_decref(none);
}

/* ---- Requests ------------------------------------------------------------------------------- */

struct tm chat_prompt_request_time(void) {
    const char *text = getenv("SOURCE_DATE_EPOCH");
    time_t seconds = text ? (time_t)strtoll(text, NULL, 10) : 1735689600; /* 1 January 2025 */
    struct tm now = {0};
    gmtime_r(&seconds, &now);
    return now;
}

ChatPromptInput chat_prompt_request(const json_t *request) {
    const json_t *tools = json_object_get(request, "tools");
    const json_t *variables = json_object_get(request, "chat_template_kwargs");
    const char *choice = json_reader_word(json_object_get(request, "tool_choice"));
    bool shows_tools = json_array_size(tools) > 0 && (!choice || strcmp(choice, "none") != 0);
    return (ChatPromptInput){.messages = json_object_get(request, "messages"),
                             .tools = shows_tools ? tools : NULL,
                             .variables = json_is_object(variables) ? variables : NULL,
                             .reasoning_effort =
                                 json_reader_word(json_object_get(request, "reasoning_effort"))};
}

/* ---- Prompts -------------------------------------------------------------------------------- */

void chat_prompt_end(const ChatPrompt *p, GenerationOptions *options) {
    if (p->end < 0 || p->session->options->ignore_eos) return;
    for (size_t i = 0; i < options->n_eos; i++)
        if (options->eos[i] == p->end) return;
    if (options->n_eos < GENERATION_MAX_EOS) options->eos[options->n_eos++] = p->end;
}

void chat_prompt_close(ChatPrompt *p) {
    chat_template_free(p->template);
    p->template = NULL;
}

/* The digits of the numbers that are more than a value of jansson, a new table: Python has whole
 * numbers of any length, but prints 1.50 as 1.5. */
static JsonDigits *digits_beyond_values(const JsonDigits *digits) {
    JsonDigits *beyond = json_digits_new();
    for (size_t i = 0; beyond && i < json_digits_count(digits); i++) {
        const char *text;
        json_t *number = json_digits_at(digits, i, &text);
        bool is_beyond = json_is_real(number) &&
                         (json_digits_are_whole(text) || fabs(json_real_value(number)) == DBL_MAX);
        if (!is_beyond || json_digits_note(beyond, number, text, strlen(text))) continue;
        json_digits_free(beyond);
        return NULL;
    }
    return beyond;
}

Status chat_prompt_render(const ChatPrompt *p, const ChatPromptInput *given,
                          ChatTemplateOutput *out, Error *error) {
    static const char *const trusted[] = {"bos_token", "eos_token", NULL};
    ChatPromptInput shaped = *given;
    json_t *messages = contents_in_form(given->messages, p->forms);
    shaped.messages = messages;
    JsonDigits *printed = digits_beyond_values(given->digits);
    json_t *variables = messages && printed ? make_variables(p, &shaped, printed) : NULL;
    const ChatTemplateInput input = {
        .variables = variables, .digits = printed, .trusted = trusted, .now = p->now};
    Status status = variables ? chat_template_render(p->template, &input, out, error)
                              : error_set(error, "out of memory");
    json_decref(variables);
    json_digits_free(printed);
    json_decref(messages);
    /* The newline at the end of a plain dialogue would become a token of its own. */
    if (status == STATUS_OK && p->plain && out->length > 0 && out->text[out->length - 1] == '\n')
        out->length--;
    return status;
}

static char *render_probe(void *context, const json_t *messages) {
    const ChatPrompt *p = context;
    const ChatPromptInput input = {.messages = messages};
    ChatTemplateOutput out;
    Error ignored;
    if (chat_prompt_render(p, &input, &out, &ignored) != STATUS_OK) return NULL;
    char *text = strndup(out.text, out.length);
    chat_template_output_free(&out);
    return text;
}

Status chat_prompt_open(ChatPrompt *p, const Session *session, Error *error) {
    size_t bytes;
    const char *text = modelfile_section(session->file, SECTION_TEMPLATE, &bytes);
    *p = (ChatPrompt){.session = session,
                      .end = -1,
                      .reasoning = session->options->reasoning,
                      .effort = session->options->reasoning_effort};
    if (session->chat_template) {
        text = session->chat_template;
        bytes = strlen(text);
    }
    if (!text || bytes == 0) {
        const ChatFamily *family = chat_family_find(session->tokenizer);
        if (family) {
            p->family = family->name;
            p->end = tokenizer_token_id(session->tokenizer, family->end, strlen(family->end));
            text = family->text;
        } else {
            p->plain = true;
            p->stop = plain_stops;
            p->n_stop = sizeof plain_stops / sizeof *plain_stops;
            text = chat_family_plain();
        }
        bytes = strlen(text);
    }
    p->text = text;
    p->text_length = bytes;
    p->answers = answer_format(text, bytes, session->tokenizer);
    p->template = chat_template_compile(text, bytes, error);
    if (!p->template) return STATUS_FAILED;
    p->forms = (ContentForms){.text = true, .parts = true}; /* the probe goes in as it is */
    p->forms = contents_probe(render_probe, p);
    if (memmem(text, bytes, "tool_calls", strlen("tool_calls"))) find_call_style(p);
    return STATUS_OK;
}

Status chat_prompt_encode(const ChatPrompt *p, const ChatPromptInput *given, TokenList *ids,
                          ReasoningStart *start, Error *error) {
    ChatTemplateOutput out;
    Status status = chat_prompt_render(p, given, &out, error);
    if (status != STATUS_OK) return status;
    if (start) *start = answer_start(&p->answers, out.text, out.length);
    unsigned flags = p->plain ? TOKENIZE_ADD_BOS : 0;
    if (p->session->options->special) flags |= TOKENIZE_PARSE_SPECIAL;
    if (!given->is_cut) status = prompt_limit_check(p->session, out.length, error);
    if (status == STATUS_OK)
        status = tokenizer_encode(p->session->tokenizer, out.text, out.length, out.from_template,
                                  flags, ids, error);
    chat_template_output_free(&out);
    if (status != STATUS_OK) return status;
    if (ids->length == 0) return error_set(error, "the chat template gives an empty prompt");
    return STATUS_OK;
}
