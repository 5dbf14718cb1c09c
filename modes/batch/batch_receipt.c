#include "modes/batch/batch_receipt.h"

#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "json/json_reader.h"
#include "json/json_text.h"

json_t *batch_receipt_shard(const Shard *shard) {
    return json_pack("{s:I, s:I, s:I, s:I}", "part", (json_int_t)shard->part, "of",
                     (json_int_t)shard->of, "begin", (json_int_t)shard->begin, "end",
                     (json_int_t)shard->end);
}

json_t *batch_receipt_begin(const Receipt *receipt, const char *line, size_t length) {
    return json_pack("{s:o}", "prompt", receipt_text(receipt, line, length));
}

/* The digest of logprobs[n]: for each the token, int32, and its log-probability, float32. */
static json_t *digest(const TokenLogprob *logprobs, size_t n) {
    char text[SHA256_HEX];
    _Static_assert(sizeof *logprobs == 8, "a digest covers no padding");
    sha256_text(logprobs, n * sizeof *logprobs, text);
    return json_string(text);
}

static json_t *answer_of(const Request *r, const Choice *choice, size_t index) {
    SamplerOptions sampling = r->options.sampling;
    size_t width = 1 + (size_t)r->top_logprobs, n_prompt = r->prompts[index / r->n].length;
    sampling.sample = index % r->n;
    json_t *answer = receipt_answer(&sampling, choice->text.bytes, choice->text.length,
                                    choice->n_tokens, choice->finish);
    if (answer && choice->n_logprobs > 0)
        json_object_set_new(answer, "logprobs",
                            digest(choice->logprobs, choice->n_logprobs * width));
    if (answer && choice->prompt_logprobs)
        json_object_set_new(answer, "prompt_logprobs",
                            digest(choice->prompt_logprobs + width, (n_prompt - 1) * width));
    return answer;
}

bool batch_receipt_answers(const Receipt *receipt, json_t *item, const Request *r,
                           const Choice *choices) {
    json_t *prompts = json_array(), *answers = json_array();
    bool fits = prompts && answers;
    for (size_t i = 0; fits && i < r->n_prompts; i++)
        fits = json_array_append_new(prompts, receipt_tokens(receipt, &r->prompts[i])) == 0;
    for (size_t i = 0; fits && i < r->n_prompts * r->n; i++)
        fits = json_array_append_new(answers, answer_of(r, &choices[i], i)) == 0;
    fits = fits && json_object_set(item, "prompt_tokens", prompts) == 0 &&
           json_object_set(item, "answers", answers) == 0;
    json_decref(prompts);
    json_decref(answers);
    return fits;
}

/* Removes ids, times and names, which differ when the same model answers from another file. */
static void drop_names(json_t *json) {
    static const char *const keys[] = {"id",         "custom_id", "line",  "line_hash",
                                       "request_id", "created",   "model", "system_fingerprint"};
    const char *key;
    json_t *value;
    size_t i;
    for (i = 0; i < sizeof keys / sizeof *keys; i++) json_object_del(json, keys[i]);
    json_object_foreach(json, key, value) {
        drop_names(value);
    }
    json_array_foreach(json, i, value) {
        drop_names(value);
    }
}

bool batch_receipt_result(json_t *item, const char *line) {
    char digest[SHA256_HEX];
    json_t *json =
        line ? json_reader_load_digits(line, strlen(line), JSON_ALLOW_NUL, NULL, NULL) : NULL;
    if (json) drop_names(json);
    char *text =
        json ? json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(json);
    if (!text) return false;
    sha256_text(text, strlen(text), digest);
    free(text);
    return json_object_set_new(item, "result_sha256", json_string(digest)) == 0;
}

bool batch_receipt_failure(const Receipt *receipt, json_t *item, const char *message) {
    json_t *text = json_lossy_text(message, strlen(message)); /* it may quote the request */
    json_t *error =
        text ? receipt_text(receipt, json_string_value(text), json_string_length(text)) : NULL;
    json_decref(text);
    return json_object_set_new(item, "error", error) == 0;
}

Status batch_receipt_lines(const Receipt *receipt, char **text, size_t *length, Error *error) {
    static const json_int_t most = 1 << 30;
    TextBuffer lines = {0};
    json_int_t at = 1;
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)receipt_items(receipt), i, item) {
        const json_t *prompt = json_object_get(item, "prompt");
        json_int_t number = json_integer_value(json_object_get(item, "number"));
        bool given = json_object_get(prompt, "text") || json_object_get(prompt, "hex");
        size_t n;
        char *line = receipt_bytes(prompt, &n);
        if (!line || number < at || number > most) {
            free(line);
            text_free(&lines);
            return given ? error_set(error, "item %zu of the receipt is damaged", i + 1)
                         : error_set(error,
                                     "item %zu of the receipt has no request: give them "
                                     "with --batch FILE",
                                     i + 1);
        }
        for (; at < number; at++) text_put(&lines, "\n", 1, 0);
        text_put(&lines, line, n, 0);
        free(line);
    }
    text_put(&lines, "\n", 2, 0); /* with the NUL */
    if (lines.failed) {
        text_free(&lines);
        return error_set(error, "no memory for the receipt's requests");
    }
    *text = lines.bytes;
    *length = lines.length - 1;
    return STATUS_OK;
}
