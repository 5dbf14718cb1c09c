#include "modes/batch/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "json/json_digits.h"
#include "modes/proof/difference.h"

/* ---- A record as a draft ------------------------------------------------------------------------
 */

static void put_json_text(const json_t *string, TextBuffer *text) {
    if (json_is_string(string))
        text_put(text, json_string_value(string), json_string_length(string), 0);
}

/* Takes the prompt off the record of a text with echo; false: it does not begin with it. */
static bool drop_prompt(const Request *r, size_t index, TextBuffer *text) {
    const json_t *prompt =
        json_is_string(r->prompt) ? r->prompt : json_array_get(r->prompt, index / r->n);
    size_t n = json_string_length(prompt);
    if (!json_is_string(prompt) || text->length < n ||
        memcmp(text->bytes ? text->bytes : "", json_string_value(prompt), n) != 0)
        return false;
    if (n > 0) memmove(text->bytes, text->bytes + n, text->length - n);
    text->length -= n;
    return true;
}

void check_text(const Records *records, const json_t *recorded, const ResultMaker *maker,
                const Request *r, size_t index, CheckText *text) {
    const RecordedText said = record_text(recorded, index);
    const AnswerFormat *answers = maker->answers;
    bool has_bytes = json_is_array(said.bytes);
    *text = (CheckText){.whole = !records_completes(records) && r->options.n_stop == 0 &&
                                 json_is_string(said.content)};
    if (json_is_string(said.reasoning) && answers && answers->think_close) {
        if (!r->opened && answers->think_open)
            text_put(&text->record, answers->think_open, strlen(answers->think_open), 0);
        put_json_text(said.reasoning, &text->record);
        text_put(&text->record, answers->think_close, strlen(answers->think_close), 0);
    }
    if (has_bytes) {
        record_put_bytes(said.bytes, &text->record);
    } else {
        put_json_text(said.content, &text->record);
    }
    /* An answer to messages may have been taken apart, and U+FFFD may stand for anything. */
    bool replaced = !has_bytes && text->record.length > 0 &&
                    memmem(text->record.bytes, text->record.length, UTF8_REPLACEMENT, 3);
    if (r->messages || replaced) text->whole = false;
    if (r->echo && !drop_prompt(r, index, &text->record)) text->whole = false;
    if (r->echo) text->whole = false;
}

/* ---- Comparing ----------------------------------------------------------------------------------
 */

/* {"id"} or {"line", "line_hash"}, as results have it. */
static json_t *report_head(const Request *r) {
    json_t *report = json_object();
    if (r->id) {
        json_object_set(report, r->is_native ? "id" : "custom_id", (json_t *)r->id);
    } else {
        result_put_line(report, r);
    }
    return report;
}

/* The line of a report, whose id has the digits that are noted. Takes over the report. */
static char *dump(json_t *report, const JsonDigits *digits) {
    char *line = report ? json_digits_dumps(report, digits, JSON_REAL_PRECISION(9)) : NULL;
    json_decref(report);
    return line;
}

/* The index of the text in whose object the difference lies that `report` names. */
static size_t differing_choice(const json_t *report) {
    const char *field = json_string_value(json_object_get(report, "field"));
    const char *list = field ? strstr(field, "choices[") : NULL;
    return list ? strtoul(list + strlen("choices["), NULL, 10) : 0;
}

/* Reports a text that was left unfinished because it already differs from its record. */
static void put_left(json_t *report, const ResultMaker *maker, const Divergence *divergences,
                     const CheckText *texts, size_t n) {
    size_t i = 0;
    while (i + 1 < n && !(divergences[i].found && texts[i].whole)) i++;
    if (n > 1) json_object_set_new(report, "choice", json_integer((json_int_t)i));
    json_object_set_new(report, "field", json_string("text"));
    difference_put_divergence(report, &divergences[i], maker->tokenizer, texts[i].record.bytes,
                              texts[i].record.length);
}

char *check_compare(Records *records, const ResultMaker *maker, const Request *r,
                    const json_t *recorded, const char *line, const Divergence *divergences,
                    const CheckText *texts, size_t n, bool *same) {
    json_t *report = report_head(r);
    Verdict verdict = records_compare(records, report, recorded, line, !r->is_native);
    if (recorded && !line) {
        put_left(report, maker, divergences, texts, n);
    } else if (recorded && verdict == VERDICT_DIFFERENT) {
        size_t i = differing_choice(report);
        if (i < n && divergences[i].found)
            difference_put_token(report, &divergences[i], maker->tokenizer);
    }
    *same = verdict == VERDICT_SAME;
    return dump(report, r->digits);
}

char *check_unasked(Records *records) {
    JsonDigits *digits = json_digits_new();
    char *line = dump(records_unasked(records, digits), digits);
    json_digits_free(digits);
    return line;
}
