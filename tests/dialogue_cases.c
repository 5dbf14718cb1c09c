#include "tests/dialogue_cases.h"

#include "kvcache/kvcache_fork.h"
#include "core/prefill.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

void opened_open(Opened *o, const char *model, const char *chat_template, uint32_t context,
                 size_t n_tokens) {
    Error error;
    ModelOptions options = {.n_threads = 1, .max_rows = 16, .context = context};
    char *arguments[] = {"run", "model.bin", "-s", "7", "-t", "1.3", NULL};
    memset(o, 0, sizeof *o);
    assert_int_equal(options_parse(&o->options, NULL, 6, arguments, &error), STATUS_OK);
    o->options.n_tokens = n_tokens;
    bool made = strncmp(model, "random:", 7) == 0;
    o->tiny = made ? tiny_model_open(model, NULL, &options, KV_F16)
                   : tiny_model_map(model, &options, KV_F16);
    o->session = (Session){.options = &o->options,
                           .file = o->tiny.file,
                           .model = o->tiny.model,
                           .kv_type = KV_F16,
                           .prompt = "",
                           .chat_template = (char *)chat_template,
                           .output = &o->output,
                           .interrupted = &o->interrupted};
    size_t bytes;
    const void *section = modelfile_section(o->tiny.file, SECTION_TOKENIZER, &bytes);
    assert_int_equal(tokenizer_open(&o->session.tokenizer, section, bytes, &error), STATUS_OK);
}

void opened_close(Opened *o) {
    tokenizer_close(o->session.tokenizer);
    tiny_model_close(&o->tiny);
}

Dialogue dialogue_of(Opened *o, const char *path) {
    Dialogue d;
    Error note, error = {""};
    if (dialogue_open(&d, &o->session, path, &note, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    if (d.prompt.answers.think_open) d.budget = 4;
    return d;
}

AnswerStats dialogue_answered(Dialogue *d) {
    static const AnswerWatcher nobody = {.context = NULL};
    AnswerStats stats;
    Error error = {""};
    if (dialogue_answer(d, &nobody, &stats, &error) != STATUS_OK) fail_msg("%s", error.text);
    return stats;
}

void dialogue_said(Dialogue *d, const char *text) {
    Error error;
    assert_int_equal(dialogue_say(d, text, strlen(text), &error), STATUS_OK);
}

const char *dialogue_last(const Dialogue *d) {
    return conversation_content(&d->conversation, conversation_length(&d->conversation) - 1);
}

/* Runs the cached tokens with another one in place of the last, gives its logits, and drops it. */
static void run_other_end(Opened *o, Dialogue *d, float *logits) {
    Error error;
    size_t n = d->cached.length;
    assert_int_equal(kvcache_next(d->cache, 0), (int)n);
    kvcache_truncate(d->cache, 0, (int32_t)n - 1);
    size_t next = (size_t)kvcache_next(d->cache, 0);
    d->cached.ids[n - 1] = 65;
    const Prefill p = {
        .ids = d->cached.ids + next, .n = n - next, .first_wanted = n - next - 1, .logits = logits};
    if (prefill(o->tiny.model, d->cache, &p, &error) != STATUS_OK) fail_msg("%s", error.text);
    kvcache_truncate(d->cache, 0, (int32_t)n - 1);
    d->cached.length = (size_t)kvcache_next(d->cache, 0);
}

void dialogue_assert_as_fresh(Opened *o, Dialogue *d) {
    Error error;
    char *text;
    size_t length;
    Dialogue fresh = dialogue_of(o, NULL);
    bool retracted;
    assert_int_equal(conversation_text(&d->conversation, &text, &length, &error), STATUS_OK);
    assert_int_equal(dialogue_adopt(&fresh, "memory", text, length, &error), STATUS_OK);
    free(text);
    assert_int_equal(dialogue_retract(&fresh, &retracted, &error), STATUS_OK);
    assert_true(retracted);
    fresh.attempt = d->attempt;
    dialogue_answered(&fresh);
    assert_string_equal(dialogue_last(&fresh), dialogue_last(d));
    assert_int_equal(fresh.cached.length, d->cached.length);
    assert_memory_equal(fresh.cached.ids, d->cached.ids, d->cached.length * sizeof(int32_t));
    /* Another last token on both caches must give the same bits. */
    size_t vocab = model_config(o->tiny.model)->vocab_size;
    float *a = malloc(vocab * sizeof *a), *b = malloc(vocab * sizeof *b);
    run_other_end(o, d, a);
    run_other_end(o, &fresh, b);
    assert_memory_equal(a, b, vocab * sizeof *a);
    free(a);
    free(b);
    dialogue_close(&fresh);
}

/* ---- Random conversations -------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Stops the answer after a few characters, as Ctrl-C does. */
static void interrupt(void *context, const char *text, size_t length) {
    Opened *o = context;
    (void)text, (void)length;
    o->interrupted = 1;
}

/* Deletes or damages the file of pages, or leaves it as it is. */
static void damage_pages(const char *path, uint32_t *seed) {
    char kv[4096];
    snprintf(kv, sizeof kv, "%s.kv", path);
    uint32_t how = next_random(seed) % 5;
    if (how == 0) unlink(kv);
    if (how == 1 && truncate(kv, next_random(seed) % 20000) != 0) return;
    FILE *f = how == 2 ? fopen(kv, "r+b") : NULL;
    if (f && fseek(f, 0, SEEK_END) == 0 && ftell(f) > 0) {
        fseek(f, (long)(next_random(seed) % (uint32_t)ftell(f)), SEEK_SET);
        fputc((int)next_random(seed) & 0xFF, f);
    }
    if (f) fclose(f);
}

static void change(Opened *o, Dialogue *d, const char *path, uint32_t what, uint32_t *seed) {
    Error error = {""};
    char *text;
    size_t length;
    Status status = STATUS_OK;
    if (what < 2) {
        status = dialogue_undo(d, 1, &text, &error);
        free(text);
    } else if (what == 2) {
        uint64_t attempt = d->attempt;
        dialogue_close(d);
        damage_pages(path, seed);
        *d = dialogue_of(o, path);
        d->attempt = attempt;
    } else if (what == 3) {
        const char *systems[] = {NULL, "be brief", "be kind, and tell of a cat"};
        status = dialogue_set_system(d, systems[next_random(seed) % 3], &error);
    } else if (what == 4 && next_random(seed) % 4 == 0) {
        status = dialogue_reset(d, &error);
    } else { /* load what was saved, perhaps some messages ago */
        status = conversation_text(&d->conversation, &text, &length, &error);
        if (status == STATUS_OK && next_random(seed) % 2) {
            dialogue_said(d, "and this is forgotten");
            dialogue_answered(d);
        }
        if (status == STATUS_OK) status = dialogue_adopt(d, "memory", text, length, &error);
        free(text);
    }
    if (status != STATUS_OK) fail_msg("%s", error.text);
}

static bool ends_with_answer(const Dialogue *d) {
    size_t n = conversation_length(&d->conversation);
    return n > 0 && strcmp(conversation_role(&d->conversation, n - 1), "assistant") == 0;
}

void dialogue_mix(Opened *o, const char *path, uint32_t seed, int steps) {
    static const char words[] = "the quick brown fox jumps over the lazy dog's back";
    Error error = {""};
    Dialogue d = dialogue_of(o, path);
    for (int i = 0; i < steps; i++) {
        char text[64];
        bool retracted = true;
        uint32_t what = next_random(&seed) % 14;
        if (what < 6) {
            snprintf(text, sizeof text, "%.*s", (int)(next_random(&seed) % 40 + 1), words);
            dialogue_said(&d, text);
        } else if (what < 8) {
            assert_int_equal(dialogue_retract(&d, &retracted, &error), STATUS_OK);
        } else {
            change(o, &d, path, what - 8, &seed);
            continue;
        }
        if (!retracted) continue;
        if (what == 0) { /* interrupt this answer: a fresh one would differ */
            const AnswerWatcher watcher = {.text = interrupt, .context = o};
            AnswerStats stats;
            if (dialogue_answer(&d, &watcher, &stats, &error) != STATUS_OK)
                fail_msg("%s", error.text);
            o->interrupted = 0;
            continue;
        }
        dialogue_answered(&d);
        if (ends_with_answer(&d)) dialogue_assert_as_fresh(o, &d);
    }
    dialogue_close(&d);
}
