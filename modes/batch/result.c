#include "modes/batch/result.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/utf8.h"
#include "json/json_digits.h"
#include "json/json_reader.h"
#include "json/json_text.h"
#include "modes/batch/result_embedding.h"
#include "modes/batch/result_id.h"
#include "session/logprobs.h"

void choice_free(Choice *choice) {
    text_free(&choice->text);
    free(choice->ids);
    free(choice->logprobs);
    free(choice->prompt_logprobs);
    free(choice->logits_rows);
    *choice = (Choice){0};
}

/* ---- Probabilities -------------------------------------------------------------------------- */

double result_logprobs(const Numeric *numeric, const float *logits, size_t vocab_size, size_t top,
                       TokenLogprob *logprobs, float *scratch) {
    double total = logprobs_log_sum(numeric, logits, vocab_size, scratch, NULL);
    size_t n = 0;
    /* Insertion sort by logit, earlier ids first; until the end .logprob holds the logit. */
    for (size_t i = 0; i < vocab_size && top > 0; i++) {
        if (n == top && logits[i] <= logprobs[n - 1].logprob) continue;
        size_t at = n < top ? n++ : top - 1;
        while (at > 0 && logprobs[at - 1].logprob < logits[i]) {
            logprobs[at] = logprobs[at - 1];
            at--;
        }
        logprobs[at] = (TokenLogprob){(int32_t)i, logits[i]};
    }
    for (size_t i = 0; i < n; i++)
        logprobs[i].logprob = (float)((double)logprobs[i].logprob - total);
    return total;
}

/* ---- Texts as JSON ----------------------------------------------------------------------------
 */

static json_t *bytes_json(const char *bytes, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer((unsigned char)bytes[i]));
    return list;
}

/* The bytes of a token at the beginning of a text (flags 0) or inside one (TOKEN_DECODER_CONTINUE);
 * freed by the caller. NULL: it has no text. */
static char *token_bytes(const ResultMaker *maker, int32_t token, unsigned flags, size_t *length) {
    char *text = NULL;
    Error ignored;
    *length = 0;
    errno = 0;
    if (tokenizer_decode(maker->tokenizer, &token, 1, flags, &text, length, &ignored) !=
        STATUS_OK) {
        if (errno == ENOMEM) json_text_lacks_memory();
        return NULL;
    }
    return text;
}

static const char *finish_name(Finish finish) {
    return finish == FINISH_LENGTH ? "length" : "stop";
}

/* A generated text; with echo the prompt before it. */
static json_t *text_of(const Request *r, const ResultMaker *maker, const TextBuffer *generated,
                       size_t index) {
    if (!r->echo) return json_lossy_text(generated->bytes, generated->length);
    TextBuffer whole = {0};
    if (json_is_string(r->prompt) && r->cut.dropped == 0) {
        text_put(&whole, json_string_value(r->prompt), json_string_length(r->prompt), 0);
    } else {
        const json_t *prompt = json_array_get(r->prompt, index / r->n);
        const TokenList *ids = &r->prompts[index / r->n];
        char *text = NULL;
        size_t length = 0;
        Error ignored;
        errno = 0;
        if (json_is_string(prompt) && r->cut.dropped == 0) {
            text_put(&whole, json_string_value(prompt), json_string_length(prompt), 0);
        } else if (tokenizer_decode(maker->tokenizer, ids->ids, ids->length,
                                    TOKEN_DECODER_SKIP_SPECIAL, &text, &length,
                                    &ignored) == STATUS_OK) {
            text_put(&whole, text, length, 0);
            free(text);
        } else if (errno == ENOMEM) {
            json_text_lacks_memory();
        }
    }
    text_put(&whole, generated->bytes, generated->length, 0);
    if (whole.failed) json_text_lacks_memory();
    json_t *json = whole.failed ? NULL : json_lossy_text(whole.bytes, whole.length);
    text_free(&whole);
    return json;
}

/* ---- Logprobs ---------------------------------------------------------------------------------
 */

/* {"token", "logprob", "bytes"}, as in OpenAI's chat completions; the native form adds "id". */
static json_t *logprob_json(const ResultMaker *maker, const TokenLogprob *logprob, bool native) {
    size_t length;
    char *bytes = token_bytes(maker, logprob->token, TOKEN_DECODER_CONTINUE, &length);
    json_t *json = json_object();
    if (native) json_object_set_new(json, "id", json_integer(logprob->token));
    json_object_set_new(json, "token", json_lossy_text(bytes ? bytes : "", length));
    json_object_set_new(json, "logprob", json_real((double)logprob->logprob));
    json_object_set_new(json, "bytes", bytes_json(bytes ? bytes : "", length));
    free(bytes);
    return json;
}

/* The list of OpenAI's chat completions for logprobs[n][1 + top_logprobs]. */
static json_t *logprobs_json(const ResultMaker *maker, const Request *r,
                             const TokenLogprob *logprobs, size_t n) {
    size_t width = 1 + (size_t)r->top_logprobs;
    bool native = r->format == REQUEST_NATIVE;
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++, logprobs += width) {
        json_t *token = logprob_json(maker, &logprobs[0], native), *top = json_array();
        for (size_t k = 1; k < width; k++)
            json_array_append_new(top, logprob_json(maker, &logprobs[k], native));
        json_object_set_new(token, "top_logprobs", top);
        json_array_append_new(list, token);
    }
    return list;
}

/* The text of a token as a key of an object. Bytes that are not UTF-8 are written as OpenAI does,
 * "bytes:\xe2\x82". *characters receives the length of the text in characters. */
static json_t *token_name(const ResultMaker *maker, int32_t token, unsigned flags,
                          size_t *characters) {
    size_t length;
    char *bytes = token_bytes(maker, token, flags, &length), escaped[5];
    json_t *json;
    *characters = utf8_count(bytes, length);
    if (!bytes || utf8_valid_prefix(bytes, length) == length) {
        /* jansson ends a key at a zero byte. */
        json = json_string(bytes ? bytes : "");
    } else {
        TextBuffer name = {0};
        text_put(&name, "bytes:", 6, 0);
        for (size_t i = 0; i < length; i++) {
            snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned char)bytes[i]);
            text_put(&name, escaped, 4, 0);
        }
        if (name.failed) json_text_lacks_memory();
        json = name.failed ? NULL : json_stringn(name.bytes, name.length);
        text_free(&name);
    }
    free(bytes);
    return json;
}

/* The lists in the logprobs of an OpenAI completion. */
typedef struct Lists {
    json_t *tokens, *logprobs, *tops, *offsets;
    size_t offset; /* of the next token in the text, in characters */
} Lists;

/* Appends one token and logprobs[1 + top_logprobs], or null when `logprobs` is NULL. */
static void put_logprobs(Lists *lists, const ResultMaker *maker, const Request *r, int32_t token,
                         const TokenLogprob *logprobs) {
    size_t characters, ignored;
    unsigned flags = r->echo && lists->offset == 0 ? 0 : TOKEN_DECODER_CONTINUE;
    json_array_append_new(lists->tokens, token_name(maker, token, flags, &characters));
    json_array_append_new(lists->offsets, json_integer((json_int_t)lists->offset));
    lists->offset += characters;
    if (!logprobs) {
        json_array_append_new(lists->logprobs, json_null());
        json_array_append_new(lists->tops, json_null());
        return;
    }
    json_array_append_new(lists->logprobs, json_real((double)logprobs[0].logprob));
    json_t *top = json_object();
    for (int k = 1; k <= r->top_logprobs; k++) {
        json_t *name = token_name(maker, logprobs[k].token, flags, &ignored);
        const char *key = json_string_value(name);
        if (key && !json_object_get(top, key))
            json_object_set_new(top, key, json_real((double)logprobs[k].logprob));
        json_decref(name);
    }
    json_array_append_new(lists->tops, top);
}

/* The logprobs of an OpenAI completion: {"tokens", "token_logprobs", "top_logprobs",
 * "text_offset"}. With echo the prompt's tokens come first, without the bos token. Of a stream only
 * what was not told. */
static json_t *completion_logprobs(const ResultMaker *maker, const Request *r, const Choice *choice,
                                   size_t index, Streamed *streamed) {
    size_t width = 1 + (size_t)r->top_logprobs;
    const TokenList *prompt = &r->prompts[index / r->n];
    Lists lists = {json_array(), json_array(), json_array(), json_array(), streamed->offset};
    const TokenLogprob *known = choice->prompt_logprobs;
    for (size_t i = 0; r->echo && !streamed->begun && i < prompt->length; i++)
        if (i > 0 || prompt->ids[i] != tokenizer_bos(maker->tokenizer))
            put_logprobs(&lists, maker, r, prompt->ids[i],
                         i >= r->score_from && known ? known + i * width : NULL);
    for (size_t i = streamed->n_logprobs; i < choice->n_logprobs; i++)
        put_logprobs(&lists, maker, r, choice->logprobs[i * width].token,
                     choice->logprobs + i * width);
    streamed->offset = lists.offset;
    json_t *json = json_object();
    json_object_set_new(json, "tokens", lists.tokens);
    json_object_set_new(json, "token_logprobs", lists.logprobs);
    json_object_set_new(json, "top_logprobs", lists.tops);
    json_object_set_new(json, "text_offset", lists.offsets);
    return json;
}

/* ---- Answers with parts ------------------------------------------------------------------------
 */

/* The number of tool calls that earlier messages hold. */
static size_t calls_before(const Request *r) {
    size_t i, n = 0;
    json_t *message;
    json_array_foreach((json_t *)r->messages, i, message) {
        n += json_array_size(json_object_get(message, "tool_calls"));
    }
    return n;
}

static json_t *calls_json(const ResultMaker *maker, const Request *r, const Answer *answer,
                          size_t index) {
    json_t *list = json_array();
    size_t n = json_array_size(answer->calls), before = calls_before(r);
    for (size_t i = 0; i < n && (i == 0 || !r->one_call); i++) {
        char own[RESULT_ID_CALL_BYTES];
        json_t *call = json_array_get(answer->calls, i), *id;
        const char *name = json_string_value(json_object_get(call, "name"));
        result_id_call(own, request_key(r), index, i);
        id = maker->answers->tools->writes_ids ? json_sprintf("functions.%s:%zu", name, before + i)
                                               : json_string(own);
        json_array_append_new(
            list, json_pack("{s:o, s:s, s:O}", "id", id, "type", "function", "function", call));
    }
    return list;
}

/* Sets what is not the answer's text: "reasoning_content", "tool_calls". */
static void put_parts(json_t *json, const ResultMaker *maker, const Request *r,
                      const Answer *answer, size_t index) {
    if (answer->has_reasoning && !maker->hides_reasoning)
        json_object_set_new(json, "reasoning_content",
                            json_lossy_text(answer->reasoning.bytes, answer->reasoning.length));
    if (answer->calls) json_object_set_new(json, "tool_calls", calls_json(maker, r, answer, index));
}

/* Takes the answer to messages apart; the text of other requests is its content as a whole. */
static Answer result_split(const ResultMaker *maker, const Request *r, const Choice *choice) {
    Answer answer = {0};
    if (!r->messages || !maker->answers) {
        text_put(&answer.content, choice->text.bytes, choice->text.length, 0);
        if (answer.content.failed) json_text_lacks_memory();
    } else if (!answer_split(maker->answers, choice->text.bytes, choice->text.length, r->opened,
                             r->tools, &answer)) {
        json_text_lacks_memory();
        answer_free(&answer);
    }
    return answer;
}

static const char *finish_of(const Choice *choice, const Answer *answer) {
    return answer->calls && choice->finish != FINISH_LENGTH ? "tool_calls"
                                                            : finish_name(choice->finish);
}

/* ---- Result lines -----------------------------------------------------------------------------
 */

/* Nine digits tell a float32 from any other: embeddings are not longer than they need be. An id
 * and documents, which come from the request, have their digits. */
static char *dump(json_t *json, const Request *r) {
    bool repeats = r->format == REQUEST_RERANK || json_digits_find(r->digits, r->id);
    const json_t *body = json_object_get(json_object_get(json, "response"), "body");
    bool embeds = json_object_get(json, "embedding") || json_object_get(json, "embeddings") ||
                  json_object_get(body, "data");
    char *line = json ? json_digits_dumps(json, repeats ? r->digits : NULL,
                                          JSON_REAL_PRECISION(embeds ? 9 : 17))
                      : NULL;
    json_decref(json);
    return line;
}

void result_put_line(json_t *json, const Request *r) {
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)r->line_hash);
    json_object_set_new(json, "line", json_integer((json_int_t)r->line));
    json_object_set_new(json, "line_hash", json_string(hash));
}

static size_t n_choices(const Request *r) {
    return r->n_prompts * r->n;
}

static size_t prompt_tokens(const Request *r) {
    size_t n = 0;
    for (size_t i = 0; i < r->n_prompts; i++) n += r->prompts[i].length;
    return n;
}

static json_t *ids_json(const int32_t *ids, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

/* With return_token_ids: "prompt_token_ids" and "token_ids", as vLLM has them. */
static void put_ids(json_t *json, const Request *r, const Choice *choice, size_t index) {
    const TokenList *prompt = &r->prompts[index / r->n];
    if (!r->returns_ids) return;
    json_object_set_new(json, "prompt_token_ids", ids_json(prompt->ids, prompt->length));
    json_object_set_new(json, "token_ids", ids_json(choice->ids, choice->n_tokens));
}

/* With return_logits: the rows of --logits. */
static void put_logits_rows(json_t *json, const Request *r, const Choice *choice) {
    if (!r->returns_logits) return;
    json_t *rows = json_array();
    for (size_t i = 0; i < choice->n_logits_rows; i++)
        json_array_append_new(rows, json_integer((json_int_t)choice->logits_rows[i]));
    json_object_set_new(json, "logits_rows", rows);
}

/* Sets the fields of one choice in the native form: "text", "finish_reason", ... When the text is
 * not UTF-8, "bytes" holds it. */
static void put_native(json_t *json, const ResultMaker *maker, const Request *r,
                       const Choice *choice, size_t index) {
    Answer answer = result_split(maker, r, choice);
    json_object_set_new(json, "text", text_of(r, maker, &answer.content, index));
    put_parts(json, maker, r, &answer, index);
    const TextBuffer *text = &answer.content;
    if (utf8_valid_prefix(text->bytes, text->length) < text->length)
        json_object_set_new(json, "bytes", bytes_json(text->bytes, text->length));
    json_object_set_new(json, "finish_reason", json_string(finish_of(choice, &answer)));
    answer_free(&answer);
    json_object_set_new(json, "prompt_tokens",
                        json_integer((json_int_t)r->prompts[index / r->n].length));
    json_object_set_new(json, "completion_tokens", json_integer((json_int_t)choice->n_tokens));
    if (r->wants_logprobs)
        json_object_set_new(json, "logprobs",
                            logprobs_json(maker, r, choice->logprobs, choice->n_logprobs));
    size_t n = r->prompts[index / r->n].length, from = r->score_from;
    if (r->echo && r->wants_logprobs && (choice->prompt_logprobs || from >= n)) {
        const TokenLogprob *scored = choice->prompt_logprobs; /* NULL: no token is */
        if (scored) scored += from * (1 + (size_t)r->top_logprobs);
        json_object_set_new(json, "prompt_logprobs",
                            logprobs_json(maker, r, scored, scored ? n - from : 0));
    }
    put_ids(json, r, choice, index);
    put_logits_rows(json, r, choice);
    if (r->returns_prompt)
        json_object_set_new(json, "prompt", json_lossy_text(r->rendered.text, r->rendered.length));
}

/* How a native result names its request. */
static json_t *native_head(const ResultMaker *maker, const Request *r) {
    json_t *json = json_object();
    if (r->id) json_object_set(json, "id", (json_t *)r->id);
    if (!r->id) result_put_line(json, r);
    if (r->id && maker->tells_line)
        json_object_set_new(json, "line", json_integer((json_int_t)r->line));
    return json;
}

/* Makes the result line in the program's own format: an embedding, the answer, or, where a request
 * asks for several, a list of choices. */
static char *native_line(const ResultMaker *maker, const Request *r, const Choice *choices) {
    json_t *json = native_head(maker, r);
    if (request_embeds(r)) {
        result_put_embedding(json, &r->embedding, prompt_tokens(r));
    } else if (n_choices(r) == 1) {
        put_native(json, maker, r, &choices[0], 0);
    } else {
        json_t *list = json_array();
        for (size_t i = 0; i < n_choices(r); i++) {
            json_t *choice = json_pack("{s:I}", "index", (json_int_t)i);
            put_native(choice, maker, r, &choices[i], i);
            json_array_append_new(list, choice);
        }
        json_object_set_new(json, "choices", list);
    }
    if (r->cut.dropped > 0)
        json_object_set_new(json, "truncated_prompt_tokens",
                            json_integer((json_int_t)r->cut.dropped));
    json_object_set_new(json, "system_fingerprint", json_string(maker->fingerprint));
    return dump(json, r);
}

/* The id of a request's result with this prefix. */
static void make_id(char *id, const char *prefix, const ResultMaker *maker, const Request *r) {
    result_id(id, prefix, maker->fingerprint, request_key(r));
}

/* An element of "choices" of a whole result: OpenAI's chat completion or completion. */
static json_t *openai_choice(const ResultMaker *maker, const Request *r, const Choice *choice,
                             size_t index) {
    json_t *json = json_pack("{s:I}", "index", (json_int_t)index), *logprobs = json_null();
    Answer answer = result_split(maker, r, choice);
    if (r->format == REQUEST_CHAT) {
        json_t *message = json_pack("{s:s}", "role", "assistant");
        bool is_null = answer.calls && answer.content.length == 0;
        json_object_set_new(message, "content",
                            is_null ? json_null() : text_of(r, maker, &answer.content, index));
        json_object_set_new(message, "refusal", json_null());
        put_parts(message, maker, r, &answer, index);
        json_object_set_new(json, "message", message);
        if (r->wants_logprobs) {
            logprobs = json_object();
            json_object_set_new(logprobs, "content",
                                logprobs_json(maker, r, choice->logprobs, choice->n_logprobs));
            json_object_set_new(logprobs, "refusal", json_null());
        }
    } else {
        json_object_set_new(json, "text", text_of(r, maker, &choice->text, index));
        Streamed all = {0};
        if (r->wants_logprobs) {
            json_decref(logprobs);
            logprobs = completion_logprobs(maker, r, choice, index, &all);
        }
    }
    json_object_set_new(json, "logprobs", logprobs);
    put_ids(json, r, choice, index);
    json_object_set_new(json, "finish_reason", json_string(finish_of(choice, &answer)));
    answer_free(&answer);
    return json;
}

static json_t *usage_json(const Request *r, const Choice *choices) {
    size_t n_prompt = prompt_tokens(r), n_generated = 0;
    for (size_t i = 0; i < n_choices(r); i++) n_generated += choices[i].n_tokens;
    json_t *usage =
        json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)n_prompt, "completion_tokens",
                  (json_int_t)n_generated, "total_tokens", (json_int_t)(n_prompt + n_generated));
    if (r->cut.dropped > 0)
        json_object_set_new(usage, "truncated_prompt_tokens",
                            json_integer((json_int_t)r->cut.dropped));
    return usage;
}

/* The body of a result, or of a chunk of one: `list` are its choices, `usage` may be NULL. Takes
 * over both. */
static json_t *openai_body(const ResultMaker *maker, const Request *r, const char *chat_object,
                           json_t *list, json_t *usage) {
    bool chat = r->format == REQUEST_CHAT;
    char id[RESULT_ID_BYTES];
    json_t *body = json_object();
    make_id(id, chat ? "chatcmpl-" : "cmpl-", maker, r);
    json_object_set_new(body, "id", json_string(id));
    json_object_set_new(body, "object", json_string(chat ? chat_object : "text_completion"));
    json_object_set_new(body, "created",
                        json_integer(0)); /* not the time: results are the same in every run */
    json_object_set_new(body, "model", json_string(r->model ? r->model : maker->model));
    json_object_set_new(body, "choices", list);
    if (usage) json_object_set_new(body, "usage", usage);
    json_object_set_new(body, "system_fingerprint", json_string(maker->fingerprint));
    return body;
}

static json_t *whole_body(const ResultMaker *maker, const Request *r, const Choice *choices) {
    json_t *list = json_array();
    for (size_t i = 0; i < n_choices(r); i++)
        json_array_append_new(list, openai_choice(maker, r, &choices[i], i));
    return openai_body(maker, r, "chat.completion", list, usage_json(r, choices));
}

static json_t *embedding_body(const ResultMaker *maker, const Request *r) {
    json_t *body = result_embedding_body(&r->embedding, prompt_tokens(r));
    json_object_set_new(body, "model", json_string(r->model ? r->model : maker->model));
    json_object_set_new(body, "system_fingerprint", json_string(maker->fingerprint));
    return body;
}

/* {"id", "custom_id"}; of a request without an id custom_id is null, and the line is named. */
static json_t *openai_head(const ResultMaker *maker, const Request *r) {
    char id[RESULT_ID_BYTES];
    json_t *json = json_object();
    make_id(id, "batch_req_", maker, r);
    json_object_set_new(json, "id", json_string(id));
    json_object_set(json, "custom_id", r->id ? (json_t *)r->id : json_null());
    if (!r->id) result_put_line(json, r);
    if (r->id && maker->tells_line)
        json_object_set_new(json, "line", json_integer((json_int_t)r->line));
    return json;
}

/* The line around a body. Of a stream, `is_last` says whether it is complete; else NULL. */
/* A result line as the Batch API writes it. is_last: "done" of a stream's line; NULL: no stream. */
static char *openai_line(const ResultMaker *maker, const Request *r, json_t *body,
                         const bool *is_last) {
    char id[RESULT_ID_BYTES];
    json_t *json = openai_head(maker, r), *response = json_object();
    make_id(id, "req_", maker, r);
    json_object_set_new(response, "status_code", json_integer(200));
    json_object_set_new(response, "request_id", json_string(id));
    json_object_set_new(response, "body", body);
    if (is_last) json_object_set_new(response, "done", json_boolean(*is_last));
    json_object_set_new(json, "response", response);
    json_object_set_new(json, "error", json_null());
    return dump(json, r);
}

char *result_line(const ResultMaker *maker, const Request *r, const Choice *choices) {
    if (r->is_native) return native_line(maker, r, choices);
    return openai_line(maker, r,
                       request_embeds(r) ? embedding_body(maker, r) : whole_body(maker, r, choices),
                       NULL);
}

/* ---- Streams ----------------------------------------------------------------------------------
 */

/* Splits a choice's text, which may not be complete, as far as further text cannot change it. */
static Answer split_so_far(const ResultMaker *maker, const Request *r, const Choice *choice) {
    Answer answer = {0};
    if (choice->finish != FINISH_NOT || !r->messages || !maker->answers)
        return result_split(maker, r, choice);
    if (!answer_split_so_far(maker->answers, choice->text.bytes, choice->text.length, r->opened,
                             r->tools, &answer)) {
        json_text_lacks_memory();
        answer_free(&answer);
    }
    return answer;
}

/* Returns what `text` has beyond the first *told bytes, and counts it as told. */
static TextBuffer untold_text(const TextBuffer *text, size_t *told) {
    size_t from = *told < text->length ? *told : text->length;
    *told = text->length > from ? text->length : from;
    return (TextBuffer){.bytes = text->bytes ? text->bytes + from : NULL,
                        .length = text->length - from};
}

/* Sets the key of a delta to what `text` has beyond the first *told bytes, if anything. */
static void put_untold_text(json_t *delta, const char *key, const TextBuffer *text, size_t *told) {
    const TextBuffer fresh = untold_text(text, told);
    if (fresh.length > 0)
        json_object_set_new(delta, key, json_lossy_text(fresh.bytes, fresh.length));
}

/* "delta" of a chat completion's chunk. */
static json_t *delta_json(const ResultMaker *maker, const Request *r, const Answer *answer,
                          size_t index, bool ends, Streamed *s) {
    json_t *delta = s->begun ? json_object() : json_pack("{s:s}", "role", "assistant");
    if (!s->begun) json_object_set_new(delta, "content", json_string(""));
    put_untold_text(delta, "content", &answer->content, &s->content);
    if (!maker->hides_reasoning)
        put_untold_text(delta, "reasoning_content", &answer->reasoning, &s->reasoning);
    if (ends && answer->calls) {
        json_t *calls = calls_json(maker, r, answer, index), *call;
        size_t i;
        json_array_foreach(calls, i, call) {
            json_object_set_new(call, "index", json_integer((json_int_t)i));
        }
        json_object_set_new(delta, "tool_calls", calls);
    }
    return delta;
}

/* An element of a chunk's "choices": what is new since the last chunk, which *s then counts as
 * told. */
static json_t *chunk_choice(const ResultMaker *maker, const Request *r, const Choice *choice,
                            size_t index, Streamed *s) {
    bool chat = r->format == REQUEST_CHAT, ends = choice->finish != FINISH_NOT;
    size_t width = 1 + (size_t)r->top_logprobs;
    json_t *json = json_pack("{s:I}", "index", (json_int_t)index), *logprobs = json_null();
    Answer answer = split_so_far(maker, r, choice);
    if (chat) {
        json_object_set_new(json, "delta", delta_json(maker, r, &answer, index, ends, s));
        if (r->wants_logprobs)
            logprobs = json_pack("{s:o, s:n}", "content",
                                 logprobs_json(maker, r, choice->logprobs + s->n_logprobs * width,
                                               choice->n_logprobs - s->n_logprobs),
                                 "refusal");
    } else {
        const TextBuffer fresh = untold_text(&answer.content, &s->content);
        json_object_set_new(json, "text",
                            s->begun ? json_lossy_text(fresh.bytes ? fresh.bytes : "", fresh.length)
                                     : text_of(r, maker, &fresh, index));
        if (r->wants_logprobs) logprobs = completion_logprobs(maker, r, choice, index, s);
    }
    json_object_set_new(json, "logprobs", logprobs);
    json_object_set_new(json, "finish_reason",
                        ends ? json_string(finish_of(choice, &answer)) : json_null());
    answer_free(&answer);
    s->n_logprobs = choice->n_logprobs;
    s->begun = true;
    s->ended = ends;
    return json;
}

/* Whether a chunk would tell anything: more of the answer, its role, or its end. */
static bool has_untold(const ResultMaker *maker, const Request *r, const Choice *choice,
                       const Streamed *s) {
    if (choice->finish != FINISH_NOT) return !s->ended;
    if (!s->begun && r->format == REQUEST_CHAT) return true; /* the role */
    Answer answer = split_so_far(maker, r, choice);
    bool has = answer.content.length > s->content ||
               (answer.reasoning.length > s->reasoning && !maker->hides_reasoning);
    answer_free(&answer);
    return has;
}

/* {"index", "delta": {"text", "reasoning_content"}}; NULL and not *failed: nothing is new. */
static char *native_chunk(const ResultMaker *maker, const Request *r, const Choice *choice,
                          size_t index, Streamed *s, bool *failed) {
    json_t *json, *delta = json_object();
    Answer answer = split_so_far(maker, r, choice);
    put_untold_text(delta, "text", &answer.content, &s->content);
    if (!maker->hides_reasoning)
        put_untold_text(delta, "reasoning_content", &answer.reasoning, &s->reasoning);
    answer_free(&answer);
    s->begun = true;
    s->ended = choice->finish != FINISH_NOT;
    if (json_object_size(delta) == 0) {
        json_decref(delta);
        return NULL;
    }
    json = native_head(maker, r);
    json_object_set_new(json, "index", json_integer((json_int_t)index));
    json_object_set_new(json, "delta", delta);
    char *line = dump(json, r);
    *failed = !line;
    return line;
}

char *result_chunk_line(const ResultMaker *maker, const Request *r, const Choice *choices,
                        size_t index, Streamed *s, bool is_last, bool *failed) {
    const Choice *choice = &choices[index];
    *failed = false;
    if (r->is_native) return native_chunk(maker, r, choice, index, s, failed);
    if (!has_untold(maker, r, choice, s)) return NULL;
    json_t *list = json_array();
    json_array_append_new(list, chunk_choice(maker, r, choice, index, s));
    json_t *usage = r->tells_usage ? json_null() : NULL;
    char *line = openai_line(maker, r, openai_body(maker, r, "chat.completion.chunk", list, usage),
                             &is_last);
    *failed = !line;
    return line;
}

char *result_usage_line(const ResultMaker *maker, const Request *r, const Choice *choices) {
    bool is_last = true;
    return openai_line(
        maker, r,
        openai_body(maker, r, "chat.completion.chunk", json_array(), usage_json(r, choices)),
        &is_last);
}

char *result_control_line(const ResultMaker *maker, const Request *r, json_t *fields) {
    json_t *json = native_head(maker, r);
    json_object_update(json, fields);
    json_decref(fields);
    json_object_set_new(json, "system_fingerprint", json_string(maker->fingerprint));
    return dump(json, r);
}

char *result_error_line(const ResultMaker *maker, const Request *r, const char *message) {
    json_t *json, *error = json_object();
    if (r->is_native) {
        json = json_object();
        if (r->id) json_object_set(json, "id", (json_t *)r->id);
        result_put_line(json, r);
    } else {
        json = openai_head(maker, r);
        result_put_line(json, r);
        json_object_set_new(json, "response", json_null());
    }
    json_object_set_new(error, "code",
                        json_string(r->cancelled  ? "cancelled"
                                    : r->id_taken ? DUPLICATE_ID
                                                  : "invalid_request"));
    json_object_set_new(error, "message", json_lossy_text(message, strlen(message)));
    json_object_set_new(json, "error", error);
    json_object_set_new(json, "system_fingerprint", json_string(maker->fingerprint));
    return dump(json, r);
}

/* ---- Reading result lines ----------------------------------------------------------------------
 */

/* Reads from a result line what --resume and --merge need: the key of its request, whether the
 * request failed, and the fingerprint of the settings. Fails where the line is not a result. */
Status result_read(const char *line, size_t length, ResultLine *out, Error *error) {
    JsonDigits *digits = json_digits_new();
    if (!digits) return error_set(error, "no memory for a result");
    json_t *json = record_parse(line, length, digits, error);
    if (!json) {
        json_digits_free(digits);
        return STATUS_FAILED;
    }
    const json_t *failure = json_object_get(json, "error");
    const json_t *body = json_object_get(json_object_get(json, "response"), "body");
    const char *fingerprint = json_string_value(
        json_object_get(json_is_object(body) ? body : json, "system_fingerprint"));
    Status status = STATUS_OK;
    if (fingerprint && record_key(json, digits, &out->key)) {
        out->failed = failure && !json_is_null(failure);
        out->numbered = json_object_get(json, "line") != NULL;
        snprintf(out->fingerprint, sizeof out->fingerprint, "%s", fingerprint);
    } else {
        status = error_set(error, "not a result of a batch");
    }
    json_digits_free(digits);
    json_decref(json);
    return status;
}
