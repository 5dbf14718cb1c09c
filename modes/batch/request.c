#include "modes/batch/request.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "advice/foreign.h"
#include "advice/spelling.h"
#include "base/unicode.h"
#include "json/json_digits.h"
#include "json/json_reader.h"
#include "modes/batch/request_messages.h"
#include "session/sampling_numbers.h"
#include "session/generate.h"
#include "session/shape.h"

/* ---- Keys ---------------------------------------------------------------------------------- */

RecordKey request_key(const Request *r) {
    return r->id && !r->id_taken ? record_key_of_id(r->id, r->digits)
                                 : record_key_of_line(r->any_line ? 0 : r->line, r->line_hash);
}

/* ---- Values of fields ---------------------------------------------------------------------- */

typedef struct Field Field;

/* `budget` of a request that gives none: the command line's value is used. */
enum { NOT_GIVEN = -2 };

typedef Status (*Setter)(Request *r, const Field *field, const json_t *value, Error *error);

struct Field {
    const char *name;
    const char *formats; /* formats with this field; n: native, c: chat, t: completion */
    Setter set;
    double low, high; /* limits of a number */
    size_t offset;    /* of the field in SamplerOptions, for set_float */
};

static Status request_wrong(const Field *field, const char *wanted, Error *error) {
    return error_set(error, "'%s' must be %s", field->name, wanted);
}

static Status out_of_range(const Field *field, double value, Error *error) {
    return error_set(error, "'%s': %.17g is out of range, it must be from %.17g to %.17g",
                     field->name, value, field->low, field->high);
}

static Status set_float(Request *r, const Field *field, const json_t *value, Error *error) {
    if (!json_is_number(value)) return request_wrong(field, "a number", error);
    double number = json_number_value(value);
    if (!(number >= field->low && number <= field->high)) return out_of_range(field, number, error);
    *(float *)((char *)&r->options.sampling + field->offset) = (float)number;
    return STATUS_OK;
}

/* The digits of a whole number that 64 bits with a sign do not hold; NULL: the value is none. */
static const char *digits_beyond(const Request *r, const json_t *value) {
    const char *digits = json_is_real(value) ? json_digits_find(r->digits, value) : NULL;
    return digits && json_digits_are_whole(digits) ? digits : NULL;
}

static Status whole_number(const Request *r, const Field *field, const json_t *value,
                           json_int_t *number, Error *error) {
    if (digits_beyond(r, value)) return out_of_range(field, json_number_value(value), error);
    if (!json_is_integer(value)) return request_wrong(field, "a whole number", error);
    *number = json_integer_value(value);
    if ((double)*number < field->low || (double)*number > field->high)
        return out_of_range(field, (double)*number, error);
    return STATUS_OK;
}

static Status set_top_k(Request *r, const Field *field, const json_t *value, Error *error) {
    json_int_t number = 0;
    if (whole_number(r, field, value, &number, error) != STATUS_OK) return STATUS_FAILED;
    r->options.sampling.top_k = number < 0 ? 0 : (uint32_t)number;
    return STATUS_OK;
}

static Status set_seed(Request *r, const Field *field, const json_t *value, Error *error) {
    const char *digits = digits_beyond(r, value);
    json_int_t number = 0;
    if (digits) { /* up to 2^64 - 1, as on the command line */
        errno = 0;
        r->options.sampling.seed = strtoull(digits, NULL, 10);
        return errno == 0 && *digits != '-'
                   ? STATUS_OK
                   : error_set(error,
                               "'%s': %.40s is out of range, it must be from -9223372036854775808 "
                               "to 18446744073709551615",
                               field->name, digits);
    }
    if (whole_number(r, field, value, &number, error) != STATUS_OK) return STATUS_FAILED;
    r->options.sampling.seed = (uint64_t)number;
    return STATUS_OK;
}

static Status set_max_tokens(Request *r, const Field *field, const json_t *value, Error *error) {
    json_int_t number = 0;
    if (whole_number(r, field, value, &number, error) != STATUS_OK) return STATUS_FAILED;
    r->options.max_tokens = (size_t)number;
    r->only_prompt = false;
    return STATUS_OK;
}

/* With 0 nothing is generated: the prompt is only scored. */
static Status set_max_tokens_or_none(Request *r, const Field *field, const json_t *value,
                                     Error *error) {
    if (set_max_tokens(r, field, value, error) != STATUS_OK) return STATUS_FAILED;
    r->only_prompt = r->options.max_tokens == 0;
    return STATUS_OK;
}

static Status set_truncate(Request *r, const Field *field, const json_t *value, Error *error) {
    json_int_t number = 0;
    if (whole_number(r, field, value, &number, error) != STATUS_OK) return STATUS_FAILED;
    if (number == 0) return request_wrong(field, "-1 or at least 1", error);
    r->cut = (PromptCut){.asked = true, .most = number};
    return STATUS_OK;
}

static Status set_n(Request *r, const Field *field, const json_t *value, Error *error) {
    json_int_t number = 0;
    if (whole_number(r, field, value, &number, error) != STATUS_OK) return STATUS_FAILED;
    r->n = (size_t)number;
    return STATUS_OK;
}

static Status set_flag(const Field *field, const json_t *value, bool *flag, Error *error) {
    if (!json_is_boolean(value)) return request_wrong(field, "true or false", error);
    *flag = json_is_true(value);
    return STATUS_OK;
}

static Status set_echo(Request *r, const Field *field, const json_t *value, Error *error) {
    return set_flag(field, value, &r->echo, error);
}

static Status set_score_from(Request *r, const Field *field, const json_t *value, Error *error) {
    json_int_t number = 0;
    if (whole_number(r, field, value, &number, error) != STATUS_OK) return STATUS_FAILED;
    if (number > 0) r->score_from = (size_t)number;
    return STATUS_OK;
}

static Status set_returns_ids(Request *r, const Field *field, const json_t *value, Error *error) {
    return set_flag(field, value, &r->returns_ids, error);
}

static Status set_returns_prompt(Request *r, const Field *field, const json_t *value,
                                 Error *error) {
    return set_flag(field, value, &r->returns_prompt, error);
}

static Status set_returns_logits(Request *r, const Field *field, const json_t *value,
                                 Error *error) {
    return set_flag(field, value, &r->returns_logits, error);
}

static Status set_keep(Request *r, const Field *field, const json_t *value, Error *error) {
    return set_flag(field, value, &r->keeps, error);
}

static Status set_adds_special(Request *r, const Field *field, const json_t *value, Error *error) {
    bool ignored;
    r->adds_special = value;
    return set_flag(field, value, &ignored, error);
}

static Status set_parses_special(Request *r, const Field *field, const json_t *value,
                                 Error *error) {
    bool ignored;
    r->parses_special = value;
    return set_flag(field, value, &ignored, error);
}

static Status set_ignore_eos(Request *r, const Field *field, const json_t *value, Error *error) {
    bool ignores = false;
    Status status = set_flag(field, value, &ignores, error);
    if (ignores) r->options.n_eos = 0;
    return status;
}

static Status set_stop(Request *r, const Field *field, const json_t *value, Error *error) {
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    free(r->stop);
    r->stop = calloc(n ? n : 1, sizeof *r->stop);
    if (!r->stop) return error_set(error, "no memory for a request");
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_string(item)) return request_wrong(field, "a text or a list of texts", error);
        r->stop[i] = json_reader_word(item);
        if (!r->stop[i] || !r->stop[i][0])
            return request_wrong(field, "a text that is not empty and holds no zero byte", error);
    }
    r->options.stop = r->stop;
    r->options.n_stop = n;
    return STATUS_OK;
}

/* Reads the biases of logits by token: {"50256": -100}, as in OpenAI's API. */
static Status set_bias(Request *r, const Field *field, const json_t *value, Error *error) {
    if (!json_is_object(value))
        return request_wrong(field, "an object of token ids and numbers", error);
    size_t n = json_object_size(value), i = 0;
    if (n > REQUEST_MAX_BIAS)
        return error_set(error, "'%s': %zu tokens, but at most %d can be biased", field->name, n,
                         REQUEST_MAX_BIAS);
    free(r->bias);
    r->bias = calloc(n ? n : 1, sizeof *r->bias);
    if (!r->bias) return error_set(error, "no memory for a request");
    const char *key;
    json_t *bias;
    json_object_foreach((json_t *)value, key, bias) {
        char *end;
        long token = strtol(key, &end, 10);
        if (end == key || *end != '\0' || token < 0 || token > INT32_MAX)
            return error_set(error, "'%s': '%.40s' is not a token id", field->name, key);
        double number = json_number_value(bias);
        if (!json_is_number(bias) || !(number >= -1e6 && number <= 1e6))
            return error_set(error, "'%s': the bias of token %ld is not a number from -1e6 to 1e6",
                             field->name, token);
        r->bias[i++] = (LogitBias){(int32_t)token, (float)number};
    }
    r->options.sampling.bias = r->bias;
    r->options.sampling.n_bias = n;
    return STATUS_OK;
}

/* 'logprobs' is a boolean or the number of alternatives in the native form, a boolean in a chat
 * completion, and the number of alternatives in a completion. */
static Status set_logprobs(Request *r, const Field *field, const json_t *value, Error *error) {
    json_int_t number = 0;
    if (json_is_boolean(value) && r->format != REQUEST_COMPLETION) {
        r->wants_logprobs = json_is_true(value);
        return STATUS_OK;
    }
    if (r->format == REQUEST_CHAT) return request_wrong(field, "true or false", error);
    if (whole_number(r, field, value, &number, error) != STATUS_OK) return STATUS_FAILED;
    r->wants_logprobs = true;
    r->top_logprobs = (int)number;
    return STATUS_OK;
}

static Status set_top_logprobs(Request *r, const Field *field, const json_t *value, Error *error) {
    json_int_t number = 0;
    if (whole_number(r, field, value, &number, error) != STATUS_OK) return STATUS_FAILED;
    if (!r->wants_logprobs) return error_set(error, "'top_logprobs' needs 'logprobs': true");
    r->top_logprobs = (int)number;
    return STATUS_OK;
}

/* ---- Prompts and messages ------------------------------------------------------------------ */

static Status set_prompt(Request *r, const Field *field, const json_t *value, Error *error) {
    if (!json_is_string(value) && !(json_is_array(value) && json_array_size(value) > 0))
        return request_wrong(field, "a text, a list of token ids, or a list of these", error);
    r->prompt = value;
    return STATUS_OK;
}

static Status set_messages(Request *r, const Field *field, const json_t *value, Error *error) {
    (void)field;
    r->messages = value;
    return request_messages_are_list(value, error);
}

static Status set_tools(Request *r, const Field *field, const json_t *value, Error *error) {
    if (!json_is_array(value)) return request_wrong(field, "a list", error);
    r->tools = json_array_size(value) > 0 ? value : NULL;
    return STATUS_OK;
}

/* {"type": "function", "function": {"name": ...}} */
static Status name_function(Request *r, const Field *field, const json_t *value, Error *error) {
    const char *type = json_reader_word(json_object_get(value, "type"));
    const char *name =
        json_reader_word(json_object_get(json_object_get(value, "function"), "name"));
    if (!type || strcmp(type, "function") != 0 || !name)
        return request_wrong(field,
                             "\"auto\", \"none\", \"required\" or {\"type\": \"function\", "
                             "\"function\": {\"name\": ...}}",
                             error);
    if (!tool_is_known(r->tools, name))
        return error_set(error, "'%s': 'tools' has no function '%.80s'", field->name, name);
    r->function = name;
    r->needs_call = r->one_call = true;
    return STATUS_OK;
}

static Status set_tool_choice(Request *r, const Field *field, const json_t *value, Error *error) {
    const char *choice = json_reader_word(value);
    if (choice && strcmp(choice, "none") == 0) {
        r->tools = NULL; /* the model does not see them */
        return STATUS_OK;
    }
    if (choice && strcmp(choice, "auto") == 0) return STATUS_OK;
    if (!choice || strcmp(choice, "required") != 0) return name_function(r, field, value, error);
    if (!r->tools) return error_set(error, "'%s': there are no 'tools'", field->name);
    r->needs_call = true;
    return STATUS_OK;
}

static Status set_parallel(Request *r, const Field *field, const json_t *value, Error *error) {
    bool parallel = true;
    Status status = set_flag(field, value, &parallel, error);
    r->one_call = r->one_call || !parallel;
    return status;
}

static Status set_budget(Request *r, const Field *field, const json_t *value, Error *error) {
    json_int_t number = 0;
    if (whole_number(r, field, value, &number, error) != STATUS_OK) return STATUS_FAILED;
    r->budget = number; /* -1 is REASONING_UNLIMITED */
    return STATUS_OK;
}

static Status set_variables(Request *r, const Field *field, const json_t *value, Error *error) {
    if (!json_is_object(value)) return request_wrong(field, "an object", error);
    r->template_variables = value;
    return STATUS_OK;
}

static Status set_effort(Request *r, const Field *field, const json_t *value, Error *error) {
    r->reasoning_effort = json_reader_word(value);
    return r->reasoning_effort ? STATUS_OK
                               : request_wrong(field, "a text without zero bytes", error);
}

static Status set_format(Request *r, const Field *field, const json_t *value, Error *error) {
    (void)field;
    return request_shape_format(&r->shape, value, r->digits, error);
}

static Status set_structured(Request *r, const Field *field, const json_t *value, Error *error) {
    (void)field;
    return request_shape_structured(&r->shape, value, r->digits, error);
}

static Status set_shape(Request *r, const Field *field, const json_t *value, Error *error) {
    return request_shape_option(&r->shape, field->name, value, r->digits, error);
}

static Status set_json_form(Request *r, const Field *field, const json_t *value, Error *error) {
    return request_shape_set_form(&r->shape, field->name, value, error);
}

/* ---- Fields with one supported value, or without effect ------------------------------------- */

static Status set_model(Request *r, const Field *field, const json_t *value, Error *error) {
    r->model = json_reader_word(value);
    return r->model ? STATUS_OK : request_wrong(field, "a text without zero bytes", error);
}

static Status set_stream(Request *r, const Field *field, const json_t *value, Error *error) {
    return set_flag(field, value, &r->streams, error);
}

/* {"include_usage": true}; the other option of OpenAI's only pads the lines. */
static Status set_stream_options(Request *r, const Field *field, const json_t *value,
                                 Error *error) {
    const char *name;
    json_t *option;
    if (!json_is_object(value)) return request_wrong(field, "an object", error);
    json_object_foreach((json_t *)value, name, option) {
        bool is_usage = strcmp(name, "include_usage") == 0;
        if (!is_usage && strcmp(name, "include_obfuscation") != 0)
            return error_set(error, "'%s': '%.80s' is not supported", field->name, name);
        if (!json_is_boolean(option) && !json_is_null(option))
            return error_set(error, "'%s': '%.80s' must be true or false", field->name, name);
        if (is_usage) r->tells_usage = json_is_true(option);
    }
    return STATUS_OK;
}

static Status must_be_text_only(Request *r, const Field *field, const json_t *value, Error *error) {
    const char *kind = json_reader_word(json_array_get(value, 0));
    (void)r;
    if (json_array_size(value) == 1 && kind && strcmp(kind, "text") == 0) return STATUS_OK;
    return error_set(error, "'%s': only [\"text\"] is supported", field->name);
}

static Status must_be_empty(Request *r, const Field *field, const json_t *value, Error *error) {
    (void)r;
    if (json_is_string(value) && json_string_length(value) == 0) return STATUS_OK;
    if (json_is_array(value) && json_array_size(value) == 0) return STATUS_OK;
    return error_set(error, "'%s' is not supported, unless it is empty", field->name);
}

static Status must_be_n(Request *r, const Field *field, const json_t *value, Error *error) {
    if (json_is_integer(value) && (size_t)json_integer_value(value) == r->n) return STATUS_OK;
    return request_wrong(field, "the same as 'n'", error);
}

static Status ignore(Request *r, const Field *field, const json_t *value, Error *error) {
    (void)r, (void)field, (void)value, (void)error;
    return STATUS_OK;
}

/* The fields in the order in which they are read; later setters rely on earlier ones. A field that
 * is null counts as absent. */
#define REAL(often, letter, option, name, low, high, help)                                         \
    { #name, "nct", set_float, low, high, offsetof(SamplerOptions, name) }
/* -1 means all, as in other programs: the only whole number of the sampler is top_k. */
#define WHOLE_OR_LESS(often, letter, option, name, low, high, help)                                \
    { #name, "nct", set_##name, -1, high, 0 }
#define OTHER(name, formats, set)                                                                  \
    { #name, formats, set, 0, 0, 0 }
#define WHOLE(name, formats, set, low, high)                                                       \
    { #name, formats, set, low, high, 0 }

static const Field fields[] = {
    OTHER(model, "nct", set_model),
    OTHER(prompt, "nt", set_prompt),
    OTHER(messages, "nc", set_messages),
    OTHER(tools, "nc", set_tools),
    OTHER(tool_choice, "nc", set_tool_choice),
    OTHER(chat_template_kwargs, "nc", set_variables),
    OTHER(reasoning_effort, "nc", set_effort),
    WHOLE(reasoning_budget, "nc", set_budget, REASONING_UNLIMITED, 1e9),
    /* The same in llama.cpp's server and in vLLM. */
    WHOLE(reasoning_budget_tokens, "nc", set_budget, REASONING_UNLIMITED, 1e9),
    WHOLE(thinking_budget_tokens, "nc", set_budget, REASONING_UNLIMITED, 1e9),
    WHOLE(thinking_token_budget, "nc", set_budget, REASONING_UNLIMITED, 1e9),
    WHOLE(n, "nct", set_n, 1, REQUEST_MAX_SAMPLES),
    WHOLE(tokens, "n", set_max_tokens, 0, 1e9),
    WHOLE(max_tokens, "nt", set_max_tokens_or_none, 0, 1e9),
    WHOLE(max_tokens, "c", set_max_tokens, 1, 1e9),
    WHOLE(max_completion_tokens, "nc", set_max_tokens, 1, 1e9),
    SAMPLING_NUMBERS(REAL, WHOLE_OR_LESS),
    OTHER(logit_bias, "nct", set_bias),
    WHOLE(seed, "nct", set_seed, -0x1p63, 0x1p63),
    WHOLE(truncate_prompt_tokens, "nct", set_truncate, -1, 1e9),
    OTHER(stop, "nct", set_stop),
    OTHER(ignore_eos, "nct", set_ignore_eos),
    WHOLE(logprobs, "nct", set_logprobs, 0, REQUEST_MAX_TOP),
    WHOLE(top_logprobs, "nc", set_top_logprobs, 0, REQUEST_MAX_TOP),
    OTHER(echo, "nt", set_echo),
    /* From SGLang, vLLM (the next three) and llama.cpp. */
    WHOLE(logprob_start_len, "nt", set_score_from, -1, 1e9),
    OTHER(return_token_ids, "nct", set_returns_ids),
    OTHER(add_special_tokens, "nt", set_adds_special),
    OTHER(parse_special, "nt", set_parses_special),
    OTHER(return_prompt, "n", set_returns_prompt),
    OTHER(return_logits, "n", set_returns_logits),
    OTHER(keep, "n", set_keep),
    OTHER(stream, "nct", set_stream),
    OTHER(response_format, "nct", set_format),
    OTHER(structured_outputs, "nct", set_structured),
    OTHER(json_schema, "n", set_shape),
    OTHER(json, "n", set_shape),
    OTHER(regex, "n", set_shape),
    OTHER(grammar, "n", set_shape),
    OTHER(choice, "n", set_shape),
    OTHER(json_order, "nct", set_json_form),
    OTHER(json_space, "nct", set_json_form),
    OTHER(modalities, "nc", must_be_text_only),
    OTHER(best_of, "nt", must_be_n),
    OTHER(suffix, "nt", must_be_empty),
    OTHER(functions, "c", must_be_empty),
    /* Fields that cannot change the result. */
    OTHER(user, "nct", ignore),
    OTHER(metadata, "nct", ignore),
    OTHER(store, "nct", ignore),
    OTHER(service_tier, "nct", ignore),
    OTHER(safety_identifier, "nct", ignore),
    OTHER(prompt_cache_key, "nct", ignore),
    OTHER(prompt_cache_retention, "nct", ignore),
    OTHER(stream_options, "n", ignore),
    OTHER(stream_options, "ct", set_stream_options),
    OTHER(parallel_tool_calls, "nc", set_parallel),
    OTHER(prediction, "nct", ignore),
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

/* Whether requests of the format, one that generates a text, have the field. */
static bool has_field(RequestFormat format, const Field *field) {
    static const char letters[] = {
        [REQUEST_NATIVE] = 'n', [REQUEST_CHAT] = 'c', [REQUEST_COMPLETION] = 't'};
    return (size_t)format < sizeof letters && strchr(field->formats, letters[format]);
}

static const Field *find_field(const char *name, RequestFormat format) {
    for (size_t i = 0; i < N_FIELDS; i++)
        if (strcmp(fields[i].name, name) == 0 && has_field(format, &fields[i])) return &fields[i];
    return NULL;
}

/* ---- Lines --------------------------------------------------------------------------------- */

/* The field that another program calls `name`, as max_new_tokens or repeat_penalty; NULL: none. */
static const char *known_elsewhere(const char *name, RequestFormat format) {
    char option[64], field[64];
    snprintf(option, sizeof option, "%s", name);
    for (char *c = option; *c; c++)
        if (*c == '_') *c = '-';
    const char *ours = foreign_synonym(option);
    if (!ours) return NULL;
    snprintf(field, sizeof field, "%s", strcmp(ours, "tokens") == 0 ? "max_tokens" : ours);
    for (char *c = field; *c; c++)
        if (*c == '-') *c = '_';
    const Field *found = find_field(field, format);
    return found ? found->name : NULL;
}

/* What to write instead of fields that other programs have. */
static const struct {
    const char *name, *says;
} instead[] = {
    {"system", "the first of 'messages' may have the role system"},
    {"options", "its members stand in the request itself"},
    {"parameters", "its members stand in the request itself"},
    {"sampling_params", "its members stand in the request itself"},
    {"do_sample", "'temperature' 0 always takes the likeliest token"},
    {"use_beam_search", "there is no beam search"},
    {"num_beams", "there is no beam search"},
    {"min_tokens", "'ignore_eos' goes on after an end of the text"},
    {"n_probs", "'logprobs' is the number of alternatives"},
    {"prompt_logprobs", "'echo' with 'logprobs' scores the prompt's tokens"},
    {"chat_template", "--chat-template FILE is given once for all lines"},
    {"add_generation_prompt", "an answer always begins behind the messages"},
    {"continue_final_message", "--render prints a prompt, which 'prompt' may go on with"},
    {"instruction", "a question is one of 'messages'; a text to continue is 'prompt'"},
    {"conversations", "they are 'messages', a list of {\"role\": ..., \"content\": ...}"},
    {"params", "the request stands in 'body', beside 'method' and 'url'; or in the line itself"},
    {"format", "{\"type\": \"json_object\"} or a schema goes into 'response_format'"},
    {"images", "this program reads only text"},
    {"text", "a text to continue is 'prompt'"},
    {"query", "texts are ranked by 'query' and 'documents'; a text to continue is 'prompt', and a "
              "question is one of 'messages'"},
    {"docs", "the texts to rank are 'documents'"},
    {"passages", "the texts to rank are 'documents'"},
    {"question", "a question is one of 'messages'"},
    {"num_ctx", "the context is one for all lines: -c N"},
};

/* Refuses a field that the form of requests does not have, and names the nearest that it has. */
static Status unknown_field(const Request *r, const char *name, const char *const *own,
                            Error *error) {
    const char *names[N_FIELDS + 8];
    size_t n = 0;
    for (size_t i = 0; own[i]; i++) names[n++] = own[i];
    for (size_t i = 0; i < N_FIELDS; i++)
        if (has_field(r->format, &fields[i])) names[n++] = fields[i].name;
    for (size_t i = 0; i < sizeof instead / sizeof *instead; i++)
        if (strcmp(instead[i].name, name) == 0)
            return error_set(error, "the field '%s' is not supported: %s", name, instead[i].says);
    const char *near = known_elsewhere(name, r->format);
    if (!near) near = spelling_nearest(name, names, n);
    return error_set(error, "the field '%.80s' is not supported%s%s%s", name,
                     near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Sets every field of `body`, without those in `own` (NULL-terminated), which the caller reads. */
static Status read_fields(Request *r, const json_t *body, const char *const *own, Error *error) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)body, name, value) {
        size_t i = 0;
        while (own[i] && strcmp(own[i], name) != 0) i++;
        if (!own[i] && !json_is_null(value) && !find_field(name, r->format))
            return unknown_field(r, name, own, error);
    }
    for (size_t i = 0; i < N_FIELDS; i++) {
        value = json_object_get(body, fields[i].name);
        if (!value || json_is_null(value) || !has_field(r->format, &fields[i])) continue;
        if (fields[i].set(r, &fields[i], value, error) != STATUS_OK) return STATUS_FAILED;
    }
    if (r->prompt && r->messages) return error_set(error, "both 'prompt' and 'messages' are given");
    if (!r->prompt && !r->messages)
        return error_set(error, "there is no %s",
                         r->format == REQUEST_CHAT         ? "'messages'"
                         : r->format == REQUEST_COMPLETION ? "'prompt'"
                                                           : "'prompt' and no 'messages'");
    if (r->echo && r->messages) return error_set(error, "'echo' needs a 'prompt'");
    if (r->returns_prompt && !r->messages)
        return error_set(error, "'return_prompt' needs 'messages'");
    if ((r->adds_special || r->parses_special) && r->messages)
        return error_set(error, "'add_special_tokens' and 'parse_special' need a 'prompt'");
    if (r->tools && !r->messages) return error_set(error, "'tools' need 'messages'");
    if (r->budget != NOT_GIVEN && !r->messages)
        return error_set(error, "a reasoning budget needs 'messages'");
    return STATUS_OK;
}

static Status read_id(Request *r, const json_t *id, const char *name, Error *error) {
    if (!id || json_is_null(id)) return STATUS_OK;
    if (!json_is_string(id) && !json_is_integer(id) && !digits_beyond(r, id))
        return error_set(error, "'%s' must be a text or a whole number", name);
    r->id = id;
    return STATUS_OK;
}

static Status read_embedding(Request *r, const json_t *body, const char *const *own, Error *error) {
    r->embedding.ranks = r->format == REQUEST_RERANK;
    Status status = request_embedding_read(&r->embedding, body, own, error);
    r->model = r->embedding.model;
    return status;
}

/* What a request with this URL is; REQUEST_NATIVE: nothing that is known. */
static RequestFormat format_of(const char *url) {
    static const char *const urls[] = {[REQUEST_CHAT] = "/v1/chat/completions",
                                       [REQUEST_COMPLETION] = "/v1/completions",
                                       [REQUEST_EMBEDDING] = "/v1/embeddings",
                                       [REQUEST_RERANK] = "/v1/rerank"};
    for (int i = REQUEST_CHAT; url && i <= REQUEST_RERANK; i++)
        if (strcmp(url, urls[i]) == 0) return (RequestFormat)i;
    return REQUEST_NATIVE;
}

/* Reads a request of OpenAI's batch format: checks the fields around 'body', then reads the body as
 * one of the endpoint in 'url'. */
static Status read_openai(Request *r, Error *error) {
    static const char *const own[] = {"custom_id", "method", "url", "body", NULL};
    static const char *const none[] = {NULL};
    const json_t *body = json_object_get(r->json, "body");
    const char *method = json_reader_word(json_object_get(r->json, "method"));
    const char *url = json_reader_word(json_object_get(r->json, "url"));
    const char *name;
    json_t *value;
    json_object_foreach(r->json, name, value) {
        size_t i = 0;
        while (own[i] && strcmp(own[i], name) != 0) i++;
        if (own[i]) continue;
        const char *near = spelling_nearest(name, own, sizeof own / sizeof *own);
        if (!near && find_field(name, r->format))
            return error_set(error, "the field '%.80s' belongs into 'body'", name);
        return error_set(error, "the field '%.80s' is not supported%s%s%s", name,
                         near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    if (format_of(url) == REQUEST_NATIVE)
        return error_set(error, "'url' must be /v1/chat/completions, /v1/completions, "
                                "/v1/embeddings or /v1/rerank");
    if (!method || strcmp(method, "POST") != 0) return error_set(error, "'method' must be POST");
    if (!json_is_object(body)) return error_set(error, "'body' must be an object");
    if (request_embeds(r)) return read_embedding(r, body, none, error);
    return read_fields(r, body, none, error);
}

static bool has_value(const json_t *json, const char *key) {
    const json_t *value = json_object_get(json, key);
    return value && !json_is_null(value);
}

static Status read_native(Request *r, Error *error) {
    static const char *const own[] = {"id", NULL};
    ControlKind kind = control_kind(r->json);
    if (kind != CONTROL_NONE) return control_read(&r->control, kind, r->json, error);
    if (has_value(r->json, "input")) r->format = REQUEST_EMBEDDING;
    if (has_value(r->json, "documents")) r->format = REQUEST_RERANK;
    if (request_embeds(r)) return read_embedding(r, r->json, own, error);
    return read_fields(r, r->json, own, error);
}

void request_blank(Request *r, const char *line, size_t length, size_t number) {
    *r = (Request){.is_native = true,
                   .line = number,
                   .line_hash = XXH3_64bits(line, length),
                   .n = 1,
                   .score_from = 1,
                   .budget = NOT_GIVEN};
}

/* Explains a line that is not JSON. A list of requests and objects over several lines are common
 * enough to be recognized. */
static Status not_json(const char *line, size_t length, const json_error_t *where, Error *error) {
    size_t first = 0, last = length;
    while (first < length && strchr(" \t\r", line[first])) first++;
    while (last > first && strchr(" \t\r", line[last - 1])) last--;
    bool list = first < last && (line[first] == '[' || line[first] == ']' || line[last - 1] == ',');
    if (list || (last - first == 1 && strchr("{}", line[first])))
        return error_set(error,
                         "not JSON: %s. Each line is one whole object%s: jq -c '%s' FILE writes "
                         "them so",
                         where->text, list ? ", without a list around them" : "",
                         list ? ".[]" : ".");
    int byte = where->position > 0 ? where->position : 0;
    if (first < last && !strchr("{}[]\"", line[first]))
        return error_set(error,
                         "not JSON: %s (at byte %d). Each line is one object, {\"prompt\": ...}; "
                         "--batch-text takes each line as a prompt",
                         where->text, byte);
    bool single = last - first > 1 && line[first] == '{' && line[first + 1] == '\'';
    bool second = strstr(where->text, "end of file expected near '{'") != NULL;
    return error_set(error, "not JSON: %s (at byte %d)%s", where->text, byte,
                     single   ? ". JSON has double quotes around its texts"
                     : second ? ". Each object has a line of its own: jq -c '.' FILE writes them so"
                              : "");
}

Status request_identify(Request *r, const char *line, size_t length, size_t number, Error *error) {
    json_error_t where;
    request_blank(r, line, length, number);
    r->digits = json_digits_new();
    if (!r->digits) return error_set(error, "no memory for a request");
    r->json = json_reader_load_digits(line, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
                                      r->digits, &where);
    if (!r->json) return not_json(line, length, &where, error);
    if (json_is_array(r->json))
        return error_set(error,
                         "not a JSON object but a list: each line is one object; jq -c '.[]' "
                         "FILE writes them so");
    if (!json_is_object(r->json)) return error_set(error, "not a JSON object");
    bool openai = json_object_get(r->json, "custom_id") || json_object_get(r->json, "body") ||
                  json_object_get(r->json, "url");
    const char *url = json_reader_word(json_object_get(r->json, "url"));
    const char *name = openai ? "custom_id" : "id";
    r->is_native = !openai;
    if (openai) r->format = format_of(url) == REQUEST_NATIVE ? REQUEST_CHAT : format_of(url);
    return read_id(r, json_object_get(r->json, name), name, error);
}

Status request_parse(Request *r, const char *line, size_t length, size_t number,
                     const GenerationOptions *defaults, Error *error) {
    Status status = request_identify(r, line, length, number, error);
    r->options = *defaults;
    if (status != STATUS_OK) return status;
    const json_t *id = json_object_get(r->json, "custom_id");
    bool bare = json_object_get(r->json, "prompt") || json_object_get(r->json, "messages");
    if (!r->is_native && bare && !json_object_get(r->json, "body"))
        return error_set(error, "a request without 'body' has no '%s'%s", id ? "custom_id" : "url",
                         id ? ": its name is 'id'" : "");
    return r->is_native ? read_native(r, error) : read_openai(r, error);
}

Status request_plain(Request *r, const char *line, size_t length, size_t number,
                     const GenerationOptions *defaults, Error *error) {
    request_blank(r, line, length, number);
    r->options = *defaults;
    size_t valid = utf8_valid_prefix(line, length);
    if (valid < length)
        return error_set(error, "not UTF-8 text: byte 0x%02x at offset %zu",
                         (unsigned char)line[valid], valid);
    r->text = malloc(length + 1);
    if (!r->text) return error_set(error, "no memory for a request");
    memcpy(r->text, line, length);
    r->text[length] = '\0';
    r->text_length = length;
    return STATUS_OK;
}

void request_embed_plain(Request *r) {
    r->format = REQUEST_EMBEDDING;
    r->embedding.plain = r->text;
    r->embedding.plain_length = r->text_length;
}

void request_free(Request *r) {
    for (size_t i = 0; i < r->n_prompts; i++) token_list_free(&r->prompts[i]);
    free(r->prompts);
    free(r->stop);
    free(r->bias);
    free(r->text);
    chat_template_output_free(&r->rendered);
    request_shape_free(&r->shape);
    answer_hold_free(&r->hold);
    request_embedding_free(&r->embedding);
    json_decref(r->with_system);
    json_digits_free(r->digits);
    json_decref(r->json);
    *r = (Request){0};
}

/* ---- Encoding ------------------------------------------------------------------------------- */

/* Without a chat template nothing marks the end of an answer but the next speaker's name, a stop
 * string. */
static Status add_stops(Request *r, const ChatPrompt *chat, Error *error) {
    size_t n = r->options.n_stop, all = n + chat->n_stop;
    if (chat->n_stop == 0) return STATUS_OK;
    const char **stop = calloc(all, sizeof *stop);
    if (!stop) return error_set(error, "no memory for a request");
    for (size_t i = 0; i < all; i++) stop[i] = i < n ? r->options.stop[i] : chat->stop[i - n];
    free(r->stop);
    r->stop = stop;
    r->options.stop = stop;
    r->options.n_stop = all;
    return STATUS_OK;
}

/* Tools that the template never shows to the model, or whose calls could not be recognized in its
 * answer, are an error. */
static Status check_tools(const ChatPrompt *chat, Error *error) {
    if (!request_template_mentions(chat, "tools"))
        return error_set(error, "'tools': the chat template does not read them");
    if (!chat->answers.tools)
        return error_set(error, "'tools': the chat template writes calls of tools in no format "
                                "that this program knows");
    return STATUS_OK;
}

/* Makes the decoder show the control tokens by which the answer is taken apart. */
static void show_marks(Request *r, const ChatPrompt *chat) {
    const AnswerFormat *format = &chat->answers;
    r->options.shown = format->marks;
    r->options.n_shown = r->tools ? format->n_marks : format->n_reasoning_marks;
}

/* Puts the command line's system prompt before messages that begin with none. */
static Status add_system(Request *r, const char *system, Error *error) {
    const char *role = json_reader_word(json_object_get(json_array_get(r->messages, 0), "role"));
    if (!system || (role && (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0)))
        return STATUS_OK;
    r->with_system = json_pack("[{s:s, s:s}]", "role", "system", "content", system);
    if (!r->with_system || json_array_extend(r->with_system, (json_t *)r->messages) != 0)
        return error_set(error, "no memory for a request");
    r->messages = r->with_system;
    return STATUS_OK;
}

/* The shape that the request asks for, else the command line's. */
static const ShapeSource *asked_shape(const Request *r, const Session *session) {
    return r->shape.given ? &r->shape.source : session->shape;
}

/* The form of the JSON that the request asks for, else the command line's. */
static unsigned asked_form(const Request *r, const Session *session) {
    return request_shape_form(&r->shape, session_json_form(session->options));
}

static Status hold_answer(Request *r, const ChatPrompt *chat, const ChatPromptInput *input,
                          ReasoningStart start, Error *error) {
    const Options *o = chat->session->options;
    int64_t budget =
        options_given(o, &o->reasoning_budget) ? (int64_t)o->reasoning_budget : REASONING_UNLIMITED;
    const AnswerHoldInput answer = {.prompt = chat,
                                    .start = start,
                                    .may_reason = chat_prompt_may_reason(chat, input),
                                    .shape = asked_shape(r, chat->session),
                                    .json_form = asked_form(r, chat->session),
                                    .tools = r->tools,
                                    .digits = r->digits,
                                    .function = r->function,
                                    .required = r->needs_call,
                                    .one_call = r->one_call,
                                    .budget = r->budget == NOT_GIVEN ? budget : r->budget};
    r->opened = start == REASONING_BEGUN;
    return answer_hold_init(&r->hold, &answer, error);
}

/* Renders a request's messages with the chat template and encodes them. */
static Status encode_messages(Request *r, const ChatPrompt *chat, Error *error) {
    if (add_system(r, chat->session->options->system, error) != STATUS_OK) return STATUS_FAILED;
    const ChatPromptInput input = {.messages = r->messages,
                                   .tools = r->tools,
                                   .variables = r->template_variables,
                                   .reasoning_effort = r->reasoning_effort,
                                   .digits = r->digits,
                                   .is_cut = r->cut.asked};
    if (request_messages_are_read(r->messages, chat, error) != STATUS_OK ||
        add_stops(r, chat, error) != STATUS_OK)
        return STATUS_FAILED;
    if (r->tools && check_tools(chat, error) != STATUS_OK) return STATUS_FAILED;
    ReasoningStart start;
    if (chat_prompt_encode(chat, &input, &r->prompts[0], &start, error) != STATUS_OK ||
        hold_answer(r, chat, &input, start, error) != STATUS_OK)
        return STATUS_FAILED;
    if (r->returns_prompt && chat_prompt_render(chat, &input, &r->rendered, error) != STATUS_OK)
        return STATUS_FAILED;
    show_marks(r, chat);
    size_t prefix = 0;
    if (chat->plain && r->cut.asked &&
        request_prompt_prefix(chat->session, BOS_AUTO, &prefix, error) != STATUS_OK)
        return STATUS_FAILED;
    return request_prompt_cut(chat->session, &r->cut, prefix, "the messages are", &r->prompts[0],
                              error);
}

bool request_only_encodes(const Request *r) {
    return r->only_prompt && !request_sees_prompt(r);
}

/* The session as the request's prompts are encoded. `options` is what it points at. */
static Session encoding_session(const Request *r, const Session *session, Options *options) {
    Session own = *session;
    options_copy(options, session->options);
    if (r->adds_special) options->bos = json_is_true(r->adds_special) ? BOS_AUTO : BOS_NO;
    if (r->parses_special) options->special = json_is_true(r->parses_special);
    own.options = options;
    return own;
}

/* With "truncate_prompt_tokens": -1 a prompt is cut so that the answer's tokens fit as well. */
static void leave_room(Request *r, const Session *session) {
    size_t context = model_context(session->model), answer = r->options.max_tokens;
    if (r->cut.asked && r->cut.most < 0)
        r->cut.most = (json_int_t)(answer < context ? context - answer : 1);
}

Status request_encode(Request *r, const Session *asked, const ChatPrompt *chat, Error *error) {
    Options options;
    const Session own = encoding_session(r, asked, &options), *session = &own;
    bool several = json_is_array(r->prompt) && !json_is_integer(json_array_get(r->prompt, 0));
    size_t n = several ? json_array_size(r->prompt) : 1;
    if (n * r->n > REQUEST_MAX_SAMPLES)
        return error_set(error, "%zu texts are asked for, but a line gives at most %d", n * r->n,
                         REQUEST_MAX_SAMPLES);
    r->prompts = calloc(n, sizeof *r->prompts);
    if (!r->prompts) return error_set(error, "no memory for a request");
    r->n_prompts = n;
    leave_room(r, session);
    /* The last token of a prompt that is only scored is not run through the model. */
    r->cut.beyond = request_only_encodes(r) ? SIZE_MAX : r->only_prompt ? 1 : 0;
    if (r->messages) return encode_messages(r, chat, error);
    const ShapeSource *shape = asked_shape(r, session);
    if (shape) r->hold.source = *shape;
    r->hold.source.form = asked_form(r, session);
    r->options.decode_flags |= TOKEN_DECODER_CONTINUE;
    if (r->text) {
        if (r->text_length == 0) r->options.decode_flags &= ~(unsigned)TOKEN_DECODER_CONTINUE;
        return request_prompt_text(session, r->text, r->text_length, &r->cut, &r->prompts[0],
                                   error);
    }
    if (!several) {
        if (json_is_string(r->prompt) && json_string_length(r->prompt) == 0)
            r->options.decode_flags &= ~(unsigned)TOKEN_DECODER_CONTINUE;
        return request_prompt_json(session, r->prompt, &r->cut, &r->prompts[0], error);
    }
    for (size_t i = 0; i < n; i++)
        if (request_prompt_json(session, json_array_get(r->prompt, i), &r->cut, &r->prompts[i],
                                error) != STATUS_OK)
            return STATUS_FAILED;
    return STATUS_OK;
}
