#include "modes/chat/dialogue.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/machine.h"
#include "base/utf8.h"
#include "kvcache/kvcache_fork.h"
#include "kvcache/kvcache_sizes.h"
#include "kvcache/kvcache_snapshots.h"
#include "modes/chat/made_with.h"
#include "session/drafting.h"
#include "session/shape.h"

/* ---- Opening ----------------------------------------------------------------------------- */

/* Opens the chat prompt and sets `note` when the model has no template. Without a template the next
 * speaker's name ends an answer, as a stop string. */
static Status open_prompt(Dialogue *d, Error *note, Error *error) {
    if (chat_prompt_open(&d->prompt, d->session, error) != STATUS_OK) return STATUS_FAILED;
    localtime_r(&d->conversation.started, &d->prompt.now);
    chat_prompt_end(&d->prompt, &d->options);
    d->options.shown = d->prompt.answers.marks;
    d->options.n_shown = d->prompt.answers.n_reasoning_marks;
    if (d->prompt.plain) {
        d->options.stop = d->prompt.stop;
        d->options.n_stop = d->prompt.n_stop;
    }
    if (note->text[0]) return STATUS_OK;
    if (d->prompt.plain)
        error_set(note, "this model has no chat template: it continues a plain dialogue");
    else if (d->prompt.family)
        error_set(
            note,
            "this model has no chat template: by its tokens it gets that of %s; if it was not "
            "tuned to chat, it answers nonsense, and -i TEXT without -m chat is its use",
            d->prompt.family);
    else if (d->options.n_eos == 0 && !d->session->options->ignore_eos)
        error_set(note, "no token of this model ends an answer: -n or Ctrl-C does");
    return STATUS_OK;
}

/* What is needed before the conversation is opened. */
static Status begin_opening(Dialogue *d, const Session *session, Error *error) {
    const Options *o = session->options;
    *d = (Dialogue){.session = session, .conversation.file = SESSION_FILE_NONE};
    d->budget =
        options_given(o, &o->reasoning_budget) ? (int64_t)o->reasoning_budget : REASONING_UNLIMITED;
    return session_generation_options(session, &d->options, error);
}

/* The share of the machine's memory that snapshots of the conversation may hold. */
static size_t snapshot_bytes(const Options *options) {
    return (size_t)(machine_memory() / 100.0) * options->snapshots;
}

/* What follows the conversation's opening, which both ways to open share: prompt, options, cache,
 * logits. Does nothing more where `status` is a failure, but closes the dialogue. */
static Status finish_opening(Dialogue *d, Status status, Error *note, Error *error) {
    const Session *session = d->session;
    KvShape shape = model_kv_shape(session->model, session->kv_type);
    size_t vocab_size = model_config(session->model)->vocab_size;
    if (status == STATUS_OK) status = open_prompt(d, note, error);
    if (status == STATUS_OK)
        status = settings_common(session, &d->options, d->settings_digest, error);
    if (status == STATUS_OK) status = kvcache_new(&d->cache, &shape, 1, 0, error);
    if (status == STATUS_OK) kvcache_limit_snapshots(d->cache, snapshot_bytes(session->options));
    if (status == STATUS_OK && !(d->logits = malloc(vocab_size * sizeof *d->logits)))
        status = error_set(error, "no memory for the logits");
    if (status != STATUS_OK) dialogue_close(d);
    return status;
}

Status dialogue_open_file(Dialogue *d, const Session *session, SessionFile *file, Courier *courier,
                          Error *note, Error *error) {
    KvShape shape = model_kv_shape(session->model, session->kv_type);
    Status status = begin_opening(d, session, error);
    if (status == STATUS_OK)
        status = conversation_open_file(
            &d->conversation, file, courier, model_config(session->model)->name,
            adapters_mix(session->adapters, modelfile_checksum(session->file)), &shape, note,
            error);
    return finish_opening(d, status, note, error);
}

Status dialogue_open(Dialogue *d, const Session *session, const char *path, Error *note,
                     Error *error) {
    SessionFile file;
    note->text[0] = '\0';
    if (path && session_file_open(&file, path, note, error) == STATUS_OK)
        return dialogue_open_file(d, session, &file, NULL, note, error);
    Status status = path ? STATUS_FAILED : begin_opening(d, session, error);
    if (path) *d = (Dialogue){.session = session, .conversation.file = SESSION_FILE_NONE};
    if (status == STATUS_OK)
        status = conversation_new(
            &d->conversation, model_config(session->model)->name,
            adapters_mix(session->adapters, modelfile_checksum(session->file)), error);
    return finish_opening(d, status, note, error);
}

void dialogue_close(Dialogue *d) {
    conversation_close(&d->conversation);
    chat_prompt_close(&d->prompt);
    kvcache_free(d->cache);
    token_list_free(&d->cached);
    free(d->logits);
    free(d->firsts);
    free(d->effort);
    *d = (Dialogue){.conversation.file = SESSION_FILE_NONE};
}

/* ---- Messages to tokens ------------------------------------------------------------------ */

static bool has_system(const Dialogue *d) {
    return conversation_length(&d->conversation) > 0 &&
           strcmp(conversation_role(&d->conversation, 0), "system") == 0;
}

const char *dialogue_system(const Dialogue *d) {
    return has_system(d) ? conversation_content(&d->conversation, 0) : NULL;
}

/* Appends a message as the chat template sees it. */
static void append_without_made_with(json_t *messages, json_t *message) {
    bool has = json_object_get(message, "made_with") != NULL;
    json_t *shown = has ? json_copy(message) : json_incref(message);
    if (has) json_object_del(shown, "made_with");
    json_array_append_new(messages, shown);
}

/* The tokens of the first n messages without those before `first`, ready for an answer. */
static Status render(Dialogue *d, size_t first, size_t n, TokenList *ids, Error *error) {
    json_t *messages = json_array(), *all = d->conversation.messages;
    if (first > 0 && n > 0 && has_system(d)) json_array_append(messages, json_array_get(all, 0));
    for (size_t i = first; i < n; i++) append_without_made_with(messages, json_array_get(all, i));
    const ChatPromptInput input = {.messages = messages};
    ids->length = 0;
    Status status = chat_prompt_encode(&d->prompt, &input, ids, &d->start, error);
    d->may_reason = chat_prompt_may_reason(&d->prompt, &input);
    json_decref(messages);
    return status;
}

/* Looks for the first index from `begin` on where something holds that holds at all later ones,
 * too: `end` holds, what is before `begin` does not. Begins at a guess and doubles its steps until
 * the index lies between two that were tried, then halves the distance. */
typedef struct Search {
    size_t begin, end, guess, step;
    bool low;  /* an index was tried where it does not hold */
    bool high; /* an index was tried where it holds */
} Search;

/* The index to try next; not once begin == end. */
static size_t search_next(const Search *s) {
    size_t at = s->low && s->high ? s->begin + (s->end - s->begin) / 2 : s->guess;
    return at < s->begin ? s->begin : at >= s->end ? s->end - 1 : at;
}

static void search_tried(Search *s, size_t at, bool holds) {
    if (holds) {
        s->end = at;
        s->high = true;
        s->guess = at > s->step ? at - s->step : 0;
    } else {
        s->begin = at + 1;
        s->low = true;
        s->guess = at + s->step;
    }
    s->step *= 2;
}

/* The numbers of messages, above `first` and up to n, after which the user waits for an answer; the
 * caller frees *questions. */
static Status find_questions(const Dialogue *d, size_t first, size_t n, size_t **questions,
                             size_t *n_questions, Error *error) {
    size_t capacity = 0;
    *questions = NULL;
    *n_questions = 0;
    for (size_t i = first + 1; i <= n; i++) {
        if (strcmp(conversation_role(&d->conversation, i - 1), "user") != 0) continue;
        if (!array_reserve(questions, &capacity, *n_questions + 1, sizeof **questions))
            return error_set(error, "no memory for %zu messages", n);
        (*questions)[(*n_questions)++] = i;
    }
    return STATUS_OK;
}

/* Finds the first question for which the messages from `first` on take more than three quarters of
 * the context. */
static Status find_full(Dialogue *d, size_t first, const size_t *questions, Search *s,
                        TokenList *ids, Error *error) {
    size_t context = model_context(d->session->model);
    while (s->begin < s->end) {
        size_t at = search_next(s);
        if (render(d, first, questions[at], ids, error) != STATUS_OK) return STATUS_FAILED;
        search_tried(s, at, ids->length > context - context / 4);
    }
    return STATUS_OK;
}

/* Finds the first question from which on the messages before n take at most half of the context. */
static Status find_half(Dialogue *d, size_t n, const size_t *questions, Search *s, TokenList *ids,
                        Error *error) {
    size_t context = model_context(d->session->model);
    while (s->begin < s->end) {
        size_t at = search_next(s);
        if (render(d, questions[at] - 1, n, ids, error) != STATUS_OK) return STATUS_FAILED;
        search_tried(s, at, ids->length <= context / 2);
    }
    return STATUS_OK;
}

/* True when the messages are so short that they may all fit into the context. */
static bool may_all_fit(const Dialogue *d, size_t n) {
    size_t bytes = 0, most = 65536 + 16 * (size_t)model_context(d->session->model);
    for (size_t i = 0; i < n && bytes <= most; i++)
        bytes += 8 + strlen(conversation_content(&d->conversation, i));
    return bytes <= most;
}

/* Fills d->firsts up to n; questions[n_questions] are the questions after the first message that
 * was rendered last. When the messages before a question's answer take more than three quarters of
 * the context, whole exchanges (a question and what follows it) are left out, the oldest first,
 * until they take half; the last question alone stays. Searches for these questions, because a
 * conversation may have 100,000 of them. In most conversations everything fits, which one rendering
 * tells. */
static Status fill_firsts(Dialogue *d, size_t n, const size_t *questions, size_t n_questions,
                          TokenList *ids, Error *error) {
    size_t first = d->firsts[d->n_firsts - 1], begin = 0, oldest = 0;
    size_t fitted = may_all_fit(d, n) ? n_questions : 1, left_out = 1;
    while (begin < n_questions && questions[begin] < d->n_firsts) begin++;
    while (d->n_firsts <= n) {
        Search full = {.begin = begin, .end = n_questions, .guess = begin + fitted - 1, .step = 1};
        if (find_full(d, first, questions, &full, ids, error) != STATUS_OK) return STATUS_FAILED;
        size_t stop = full.end < n_questions ? questions[full.end] : n + 1;
        while (d->n_firsts < stop) d->firsts[d->n_firsts++] = first;
        if (full.end == n_questions) break;
        while (oldest < full.end && questions[oldest] - 1 <= first) oldest++;
        Search half = {.begin = oldest, .end = full.end, .guess = oldest + left_out - 1, .step = 1};
        if (find_half(d, stop, questions, &half, ids, error) != STATUS_OK) return STATUS_FAILED;
        fitted = full.end - begin + 1;
        left_out = half.end - oldest + 1;
        oldest = half.end;
        d->firsts[d->n_firsts++] = first = questions[half.end] - 1;
        begin = full.end + 1;
    }
    return STATUS_OK;
}

/* Computes d->firsts[0] to [n]: firsts[k] is the first message in the prompt of k messages. It
 * moves past the oldest exchanges once all no longer fit the context, and only at a user's message,
 * because only these are answered. */
static Status firsts_up_to(Dialogue *d, size_t n, TokenList *ids, Error *error) {
    size_t *questions, n_questions;
    if (d->n_firsts > n) { /* the conversation became shorter */
        d->n_firsts = n + 1;
        return STATUS_OK;
    }
    if (!array_reserve(&d->firsts, &d->firsts_capacity, n + 1, sizeof *d->firsts))
        return error_set(error, "no memory for %zu messages", n);
    if (d->n_firsts == 0) d->firsts[d->n_firsts++] = has_system(d) ? 1 : 0;
    Status status =
        find_questions(d, d->firsts[d->n_firsts - 1], n, &questions, &n_questions, error);
    if (status == STATUS_OK) status = fill_firsts(d, n, questions, n_questions, ids, error);
    free(questions);
    return status;
}

static Status prompt_tokens(Dialogue *d, TokenList *ids, size_t *left_out, Error *error) {
    size_t n = conversation_length(&d->conversation), start = has_system(d) ? 1 : 0;
    if (firsts_up_to(d, n, ids, error) != STATUS_OK) return STATUS_FAILED;
    if (render(d, d->firsts[n], n, ids, error) != STATUS_OK) return STATUS_FAILED;
    *left_out = d->firsts[n] - start;
    return STATUS_OK;
}

Status dialogue_tokens(Dialogue *d, TokenList *ids, Error *error) {
    size_t left_out;
    return prompt_tokens(d, ids, &left_out, error);
}

/* ---- Answering --------------------------------------------------------------------------- */

/* Makes d->cached the tokens ids[0] ... of those that the cache holds. */
static Status note_cached(Dialogue *d, const TokenList *ids, size_t from, Error *error) {
    d->cached.length = from;
    for (size_t i = from; i < (size_t)kvcache_next(d->cache, 0); i++)
        if (!token_list_push(&d->cached, ids->ids[i])) return error_set(error, "no memory");
    return STATUS_OK;
}

/* Keeps the prefix of ids[most] that the cache (or the session's file, where that has more of it)
 * holds. */
static Status keep_prefix(Dialogue *d, const TokenList *ids, size_t most, Error *error) {
    size_t common = 0;
    while (common < most && common < d->cached.length && d->cached.ids[common] == ids->ids[common])
        common++;
    kvcache_truncate(d->cache, 0, (int32_t)common);
    size_t kept = (size_t)kvcache_next(d->cache, 0);
    bool had_all = d->cached.length > 0 && kept == common;
    if (!had_all && d->conversation.kv &&
        kvfile_load(d->conversation.kv, d->cache, 0, ids->ids, most, &kept, error) != STATUS_OK)
        return STATUS_FAILED;
    kept = (size_t)kvcache_next(d->cache, 0);
    return note_cached(d, ids, kept < common ? kept : common, error);
}

/* Makes the KV cache hold all of `ids` and sets d->logits to the last token's. Keeps what it can of
 * the prefix, *n_cached tokens and never the last, and computes the rest. A mark before the last
 * token lets the next attempt begin there. */
static Status catch_up(Dialogue *d, const TokenList *ids, Drafter *drafter, size_t *n_cached,
                       Error *error) {
    size_t most = ids->length - 1;
    if (keep_prefix(d, ids, most, error) != STATUS_OK) {
        d->cached.length = 0;
        kvcache_reset(d->cache, 0, 0);
        return STATUS_FAILED;
    }
    size_t kept = *n_cached = d->cached.length;
    Status status = STATUS_OK;
    if (kept < most && kvcache_has_states(kvcache_shape(d->cache)))
        status = generate_prefill(d->session, d->cache, drafter, ids->ids + kept, most - kept,
                                  d->logits, error);
    kvcache_mark(d->cache, 0, (int32_t)most);
    size_t next = (size_t)kvcache_next(d->cache, 0);
    if (status == STATUS_OK)
        status = generate_prefill(d->session, d->cache, drafter, ids->ids + next,
                                  ids->length - next, d->logits, error);
    kvcache_mark(d->cache, 0, (int32_t)most);
    /* Also after an interruption: what was computed stays. */
    Status noted = note_cached(d, ids, kept, error);
    return noted == STATUS_OK ? status : noted;
}

/* Generates an answer until it ends or the user interrupts it, and hands its text to the watcher.
 */
static Status generate_answer(Dialogue *d, Generation *g, Decoding *decoding,
                              const AnswerWatcher *watcher, char **answer, size_t *length,
                              Error *error) {
    size_t context = model_context(d->session->model), capacity = 0;
    float *logits = d->logits;
    GenerationStep step;
    while (true) {
        size_t position = d->cached.length;
        /* No place is left in the cache: this token is the last one. */
        if (position == context) g->options.max_tokens = g->n_tokens + 1;
        if (generation_next(g, logits, position, &step, error) != STATUS_OK) return STATUS_FAILED;
        if (!array_reserve(answer, &capacity, *length + step.length + 1, 1))
            return error_set(error, "no memory for the answer");
        memcpy(*answer + *length, step.text, step.length);
        *length += step.length;
        if (watcher->text && step.length > 0)
            watcher->text(watcher->context, step.text, step.length);
        if (g->finish != FINISH_NOT) return STATUS_OK;
        if (*d->session->interrupted) return STATUS_OK; /* what was said so far is kept */
        Status status = decoding_next(decoding, step.token, &logits, error);
        if (status == STATUS_INTERRUPTED) return STATUS_OK;
        if (status != STATUS_OK) return status;
        if (!token_list_push(&d->cached, step.token)) return error_set(error, "no memory");
    }
}

/* The cache may have lost tokens after the last one that it can go back to. */
static void forget_lost(Dialogue *d) {
    size_t next = (size_t)kvcache_next(d->cache, 0);
    if (next < d->cached.length) d->cached.length = next;
    kvcache_mark(d->cache, 0, (int32_t)next);
}

/* Keeps the whole characters of the text other than NUL, which an interruption or odd tokens may
 * have torn: JSON wants no others. Done in place. */
static size_t keep_valid(char *text, size_t length) {
    size_t kept = 0;
    for (size_t i = 0; i < length;) {
        uint32_t code;
        size_t n = text[i] ? utf8_decode(text + i, length - i, &code) : 0;
        memmove(text + kept, text + i, n);
        kept += n;
        i += n ? n : 1;
    }
    return kept;
}

static size_t trimmed(char **text, size_t length) {
    while (length > 0 && strchr(" \n", (*text)[length - 1])) length--;
    while (length > 0 && strchr(" \n", **text)) (*text)++, length--;
    return length;
}

/* Adds the answer to the conversation, what the model thought apart from what it said. */
static Status keep_answer(Dialogue *d, const Generation *g, char *text, size_t length,
                          Error *error) {
    Answer parts;
    length = keep_valid(text, length);
    if (d->prompt.plain) length = trimmed(&text, length);
    if (!answer_split(&d->prompt.answers, text, length, d->start == REASONING_BEGUN, NULL,
                      &parts)) {
        answer_free(&parts);
        return error_set(error, "no memory for the answer");
    }
    const char *reasoning = parts.has_reasoning ? parts.reasoning.bytes : NULL;
    const MadeWith how = {.options = &d->options,
                          .prompt = &d->prompt,
                          .budget = d->budget,
                          .common = d->settings_digest,
                          .n_generated = g->n_tokens,
                          .finish = g->finish};
    Status status =
        conversation_append_answer(&d->conversation, parts.content.bytes, parts.content.length,
                                   reasoning, parts.reasoning.length, made_with(&how), error);
    answer_free(&parts);
    return status;
}

/* Fails for a prompt that leaves no room for an answer. Older messages are left out already. */
static Status check_fits(const Dialogue *d, size_t n_prompt, AnswerStats *stats, Error *error) {
    uint32_t context = model_context(d->session->model);
    stats->n_prompt = n_prompt;
    stats->too_long = n_prompt >= context;
    if (!stats->too_long) return STATUS_OK;
    return error_set(error, "the message does not fit: %zu tokens%s, but the context has %u",
                     n_prompt, has_system(d) ? " with the system prompt" : "", context);
}

/* Makes the rule that constrains the next answer (reasoning, tool calls, shape); NULL: it is free.
 */
static Status make_rule(Dialogue *d, TokenRule **rule, Error *error) {
    const AnswerHoldInput input = {.prompt = &d->prompt,
                                   .start = d->start,
                                   .may_reason = d->may_reason,
                                   .shape = d->session->shape,
                                   .json_form = session_json_form(d->session->options),
                                   .budget = d->budget};
    AnswerHold hold;
    Status status = answer_hold_init(&hold, &input, error);
    *rule = NULL;
    if (status == STATUS_OK) status = answer_hold_rule(&hold, d->session, &d->options, rule, error);
    answer_hold_free(&hold);
    return status;
}

/* Whether the answer was cut where its shape does not let it end. */
static bool is_unshaped(const Dialogue *d, Finish finish) {
    const ShapeSource *shape = d->session->shape;
    TokenRule *rule = d->options.rule;
    const uint64_t *allowed;
    Error ignored;
    if (!rule || !shape || shape->kind == SHAPE_NONE || finish != FINISH_LENGTH) return false;
    if (rule->close || rule->allowed(rule, &allowed, &ignored) != STATUS_OK) return false;
    for (size_t i = 0; i < d->options.n_eos; i++)
        if (allowed[d->options.eos[i] / 64] >> (d->options.eos[i] % 64) & 1) return false;
    return d->options.n_eos > 0;
}

/* Keeps the keys and values for the next time. That they cannot be kept costs time only, and is
 * told once; the file stays open, because /reset has to empty it. */
static void save_cache(Dialogue *d, const AnswerWatcher *watcher) {
    Error why;
    if (kvfile_save(d->conversation.kv, d->cache, 0, d->cached.ids, &why) == STATUS_OK) return;
    if (!d->told_unkept && watcher->unkept) watcher->unkept(watcher->context, why.text);
    d->told_unkept = true;
}

Status dialogue_answer(Dialogue *d, const AnswerWatcher *watcher, AnswerStats *stats,
                       Error *error) {
    const Model *model = d->session->model;
    TokenList ids = {0};
    Generation g = {0};
    Drafter *drafter = NULL;
    Decoding decoding = {0};
    char *answer = NULL;
    size_t length = 0;
    *stats = (AnswerStats){0};
    d->options.sampling.sample = d->attempt;
    if (d->prompt.plain) d->options.decode_flags &= ~(unsigned)TOKEN_DECODER_CONTINUE;
    double start = clock_seconds(), prefilled = start;
    Status status = prompt_tokens(d, &ids, &stats->left_out, error);
    if (status == STATUS_OK) status = check_fits(d, ids.length, stats, error);
    if (status == STATUS_OK && stats->left_out > d->shown_left_out && watcher->left_out)
        watcher->left_out(watcher->context, stats->left_out);
    d->shown_left_out = stats->left_out;
    if (status == STATUS_OK) status = make_rule(d, &d->options.rule, error);
    if (status == STATUS_OK && watcher->starts)
        watcher->starts(watcher->context, d->start == REASONING_BEGUN);
    if (status == STATUS_OK)
        status = generation_init(&g, &d->options, d->session->tokenizer,
                                 model_config(model)->vocab_size, model_isa(model)->numeric, error);
    if (status == STATUS_OK) {
        generation_prompt(&g, ids.ids, ids.length);
        status = drafting_new(d->session, &d->options, &drafter, error);
    }
    if (status == STATUS_OK) {
        status = catch_up(d, &ids, drafter, &stats->n_cached, error);
        prefilled = clock_seconds();
    }
    if (status == STATUS_OK)
        status = decoding_init(&decoding, d->session->model, d->cache, drafter, ids.ids, ids.length,
                               error);
    if (status == STATUS_OK)
        status = generate_answer(d, &g, &decoding, watcher, &answer, &length, error);
    decoding_end(&decoding);
    if (decoding.cache) forget_lost(d);
    if (status == STATUS_OK || status == STATUS_INTERRUPTED) {
        status = keep_answer(d, &g, answer ? answer : "", length, error);
    }
    if (status == STATUS_OK && d->conversation.kv) save_cache(d, watcher);
    stats->n_prompt = ids.length;
    stats->n_generated = g.n_tokens;
    stats->finish = g.finish;
    stats->unshaped = status == STATUS_OK && is_unshaped(d, g.finish);
    stats->prefill_seconds = prefilled - start;
    stats->decode_seconds = clock_seconds() - prefilled;
    free(answer);
    decoding_free(&decoding);
    drafter_free(drafter);
    generation_free(&g);
    token_rule_free(d->options.rule);
    d->options.rule = NULL;
    token_list_free(&ids);
    return status;
}

/* ---- Changes ----------------------------------------------------------------------------- */

Status dialogue_say(Dialogue *d, const char *text, size_t length, Error *error) {
    d->attempt = 0;
    return conversation_append(&d->conversation, "user", text, length, error);
}

static bool is_of_user(const Dialogue *d, size_t i) {
    return strcmp(conversation_role(&d->conversation, i), "user") == 0;
}

/* The index of the user's last message; the length when there is none. */
static size_t last_of_user(const Dialogue *d) {
    for (size_t i = conversation_length(&d->conversation); i-- > 0;)
        if (is_of_user(d, i)) return i;
    return conversation_length(&d->conversation);
}

size_t dialogue_exchanges(const Dialogue *d) {
    size_t n = 0;
    for (size_t i = 0; i < conversation_length(&d->conversation); i++) n += is_of_user(d, i);
    return n;
}

/* Keeps the first n messages, and of what was known about them no more. */
static Status truncate_to(Dialogue *d, size_t n, Error *error) {
    if (d->n_firsts > n + 1) d->n_firsts = n + 1;
    return conversation_truncate(&d->conversation, n, error);
}

Status dialogue_undo(Dialogue *d, size_t n, char **text, Error *error) {
    size_t length = conversation_length(&d->conversation), first = length;
    *text = NULL;
    d->attempt = 0;
    for (size_t i = length; i-- > 0 && n > 0;)
        if (is_of_user(d, i)) first = i, n--;
    if (first == length) return STATUS_OK;
    *text = strdup(conversation_content(&d->conversation, first));
    return truncate_to(d, first, error);
}

const char *dialogue_last_said(const Dialogue *d, bool answer) {
    size_t n = conversation_length(&d->conversation), at = last_of_user(d);
    if (answer) at = at < n && n - at > 1 ? n - 1 : n;
    return at < n ? conversation_content(&d->conversation, at) : NULL;
}

Status dialogue_replace_answer(Dialogue *d, const char *text, size_t length, Error *error) {
    size_t n = conversation_length(&d->conversation);
    if (truncate_to(d, n - 1, error) != STATUS_OK) return STATUS_FAILED;
    return conversation_append(&d->conversation, "assistant", text, length, error);
}

Status dialogue_retract(Dialogue *d, bool *retracted, Error *error) {
    size_t n = conversation_length(&d->conversation), last = last_of_user(d);
    *retracted = last < n;
    if (!*retracted) return STATUS_OK;
    d->attempt++;
    return truncate_to(d, last + 1, error);
}

Status dialogue_set_system(Dialogue *d, const char *text, Error *error) {
    d->n_firsts = 0;
    return conversation_set_system(&d->conversation, text, error);
}

void dialogue_set_reasoning(Dialogue *d, ReasoningChoice reasoning) {
    d->prompt.reasoning = reasoning;
    d->n_firsts = 0; /* the same messages may take more tokens now */
}

Status dialogue_set_effort(Dialogue *d, const char *effort, Error *error) {
    char *own = effort ? strdup(effort) : NULL;
    if (effort && !own) return error_set(error, "no memory for a word");
    free(d->effort);
    d->prompt.effort = d->effort = own;
    d->n_firsts = 0;
    return STATUS_OK;
}

/* Empties the session's file of keys and values, after the messages were erased. The cache forgets
 * them as well: the unfilled end of its last page, which the next save writes, holds theirs. */
static Status erase_cached(Dialogue *d, Error *error) {
    if (!d->conversation.kv) return STATUS_OK;
    d->cached.length = 0;
    kvcache_reset(d->cache, 0, 0);
    return kvfile_clear(d->conversation.kv, error);
}

Status dialogue_reset(Dialogue *d, Error *error) {
    d->n_firsts = 0;
    d->attempt = 0;
    Status status = conversation_truncate(&d->conversation, has_system(d) ? 1 : 0, error);
    return status == STATUS_OK ? erase_cached(d, error) : status;
}

Status dialogue_adopt(Dialogue *d, const char *path, const char *text, size_t length,
                      Error *error) {
    d->n_firsts = 0;
    d->attempt = 0;
    Status status = conversation_adopt(&d->conversation, path, text, length, error);
    return status == STATUS_OK ? erase_cached(d, error) : status;
}
