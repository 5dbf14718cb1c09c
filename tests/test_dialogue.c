/* The chat's promise: whatever was undone, retried, resumed or left out, an answer is the one
 * that a fresh conversation with the same messages gives, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include "dialogue.h"
#include "tests/tiny_model.h"

static const char source[] = "random:tiny,context=160";

static const char template_text[] =
    "{%- for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}"
    "{%- if add_generation_prompt %}[assistant]{% endif %}";

/* What run.c would have opened. */
typedef struct Opened {
    TinyModel tiny;
    Options options;
    Output output;
    Session session;
    volatile sig_atomic_t interrupted;
} Opened;

static void open_all(Opened *o, size_t n_tokens) {
    Error error;
    ModelOptions options = {.n_threads = 1, .max_rows = 16};
    char *arguments[] = {"run", "model.bin", "-s", "7", "-t", "1.3", NULL};
    memset(o, 0, sizeof *o);
    assert_int_equal(options_parse(&o->options, 6, arguments, &error), STATUS_OK);
    o->options.n_tokens = n_tokens;
    o->tiny = tiny_model_open(source, NULL, &options, KV_F16);
    o->session = (Session){.options = &o->options,
                           .file = o->tiny.file,
                           .model = o->tiny.model,
                           .kv_type = KV_F16,
                           .prompt = "",
                           .chat_template = template_text,
                           .output = &o->output,
                           .interrupted = &o->interrupted};
    size_t bytes;
    const void *section = modelfile_section(o->tiny.file, SECTION_TOKENIZER, &bytes);
    assert_int_equal(tokenizer_open(&o->session.tokenizer, section, bytes, &error), STATUS_OK);
}

static void close_all(Opened *o) {
    tokenizer_close(o->session.tokenizer);
    tiny_model_close(&o->tiny);
}

static Dialogue open_dialogue(Opened *o, const char *path) {
    Dialogue d;
    Error note, error = {""};
    if (dialogue_open(&d, &o->session, path, &note, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return d;
}

static AnswerStats answer(Dialogue *d) {
    static const AnswerWatcher nobody = {NULL, NULL, NULL};
    AnswerStats stats;
    Error error = {""};
    if (dialogue_answer(d, &nobody, &stats, &error) != STATUS_OK) fail_msg("%s", error.text);
    return stats;
}

static void say(Dialogue *d, const char *text) {
    Error error;
    assert_int_equal(dialogue_say(d, text, strlen(text), &error), STATUS_OK);
}

static const char *last(const Dialogue *d) {
    return conversation_content(&d->conversation, conversation_length(&d->conversation) - 1);
}

/* The cache holds, and the logits are, what a fresh conversation's are before its answer. */
static void assert_as_fresh(Opened *o, Dialogue *d) {
    Error error;
    char *text;
    size_t length;
    Dialogue fresh = open_dialogue(o, NULL);
    bool retracted;
    assert_int_equal(conversation_text(&d->conversation, &text, &length, &error), STATUS_OK);
    assert_int_equal(dialogue_adopt(&fresh, "memory", text, length, &error), STATUS_OK);
    free(text);
    assert_int_equal(dialogue_retract(&fresh, &retracted, &error), STATUS_OK);
    assert_true(retracted);
    fresh.attempt = d->attempt;
    answer(&fresh);
    assert_string_equal(last(&fresh), last(d));
    assert_int_equal(fresh.cached.length, d->cached.length);
    assert_memory_equal(fresh.cached.ids, d->cached.ids, d->cached.length * sizeof(int32_t));
    /* One more token from both caches: the same bits. */
    size_t vocab = model_config(o->tiny.model)->vocab_size;
    float *a = malloc(vocab * sizeof *a), *b = malloc(vocab * sizeof *b);
    Row row = {.position = kvcache_next(d->cache, 0) - 1, .token = 65, .wants_logits = true};
    kvcache_truncate(d->cache, 0, row.position);
    kvcache_truncate(fresh.cache, 0, row.position);
    assert_int_equal(model_forward(o->tiny.model, d->cache, &row, 1, a, &error), STATUS_OK);
    assert_int_equal(model_forward(o->tiny.model, fresh.cache, &row, 1, b, &error), STATUS_OK);
    assert_memory_equal(a, b, vocab * sizeof *a);
    kvcache_truncate(d->cache, 0, row.position);
    d->cached.length = (size_t)row.position;
    free(a);
    free(b);
    dialogue_close(&fresh);
}

static void a_second_turn_computes_only_what_is_new(void **state) {
    (void)state;
    Opened o;
    open_all(&o, 8);
    Dialogue d = open_dialogue(&o, NULL);
    say(&d, "hello");
    AnswerStats first = answer(&d);
    assert_int_equal(first.n_cached, 0);
    say(&d, "and?");
    AnswerStats second = answer(&d);
    /* What the first turn rendered and answered is there, but for a token at the seam: random
     * bytes as answers need not be tokenized again as they came. */
    assert_true(second.n_cached >= first.n_prompt);
    assert_as_fresh(&o, &d);
    dialogue_close(&d);
    close_all(&o);
}

static void an_answer_can_be_had_again_and_taken_back(void **state) {
    (void)state;
    Opened o;
    Error error;
    bool retracted;
    char *text;
    open_all(&o, 12);
    Dialogue d = open_dialogue(&o, NULL);
    say(&d, "hello");
    answer(&d);
    char *first = strdup(last(&d));
    assert_int_equal(dialogue_retract(&d, &retracted, &error), STATUS_OK);
    assert_true(retracted);
    answer(&d);
    assert_string_not_equal(first, last(&d));
    assert_as_fresh(&o, &d);
    assert_int_equal(dialogue_undo(&d, &text, &error), STATUS_OK);
    assert_string_equal(text, "hello");
    free(text);
    assert_int_equal(conversation_length(&d.conversation), 0);
    say(&d, "hello"); /* the same words again: the same answer as at first */
    answer(&d);
    assert_string_equal(first, last(&d));
    free(first);
    dialogue_close(&d);
    close_all(&o);
}

static void a_full_context_leaves_out_whole_oldest_exchanges(void **state) {
    (void)state;
    Opened o;
    Error error;
    open_all(&o, 10);
    Dialogue d = open_dialogue(&o, NULL);
    assert_int_equal(dialogue_set_system(&d, "be brief", &error), STATUS_OK);
    size_t left_out = 0;
    for (int i = 0; i < 12; i++) {
        char text[32];
        snprintf(text, sizeof text, "message %d", i);
        say(&d, text);
        AnswerStats stats = answer(&d);
        assert_true(stats.n_prompt <= 160 - 160 / 4);
        assert_true(stats.left_out >= left_out && stats.left_out % 2 == 0);
        left_out = stats.left_out;
        assert_as_fresh(&o, &d);
    }
    assert_true(left_out > 4);
    assert_string_equal(dialogue_system(&d), "be brief");
    assert_int_equal(conversation_length(&d.conversation), 25); /* nothing is forgotten */
    dialogue_close(&d);
    close_all(&o);
}

static void a_message_that_cannot_fit_is_an_error_and_can_be_undone(void **state) {
    (void)state;
    Opened o;
    Error error = {""};
    AnswerStats stats;
    AnswerWatcher nobody = {NULL, NULL, NULL};
    char text[400], *back;
    open_all(&o, 10);
    Dialogue d = open_dialogue(&o, NULL);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    say(&d, text);
    assert_int_equal(dialogue_answer(&d, &nobody, &stats, &error), STATUS_FAILED);
    assert_non_null(strstr(error.text, "does not fit"));
    assert_int_equal(dialogue_undo(&d, &back, &error), STATUS_OK);
    free(back);
    say(&d, "shorter");
    answer(&d);
    assert_as_fresh(&o, &d);
    dialogue_close(&d);
    close_all(&o);
}

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Any mix of turns, undoings, retries, resumptions from the file and overflows. */
static void mix(Opened *o, const char *path, uint32_t seed, int steps) {
    Error error = {""};
    Dialogue d = open_dialogue(o, path);
    for (int i = 0; i < steps; i++) {
        char text[64], *back;
        bool retracted;
        uint32_t what = next_random(&seed) % 10;
        if (what < 5) {
            snprintf(text, sizeof text, "%.*s", (int)(next_random(&seed) % 40 + 1),
                     "the quick brown fox jumps over the lazy dog's back");
            say(&d, text);
            answer(&d);
        } else if (what < 7) {
            assert_int_equal(dialogue_undo(&d, &back, &error), STATUS_OK);
            free(back);
        } else if (what < 9) {
            assert_int_equal(dialogue_retract(&d, &retracted, &error), STATUS_OK);
            if (retracted) answer(&d);
        } else {
            uint64_t attempt = d.attempt;
            dialogue_close(&d);
            d = open_dialogue(o, path);
            d.attempt = attempt;
        }
        if (conversation_length(&d.conversation) > 0 && what < 9 && (what < 5 || what >= 7))
            assert_as_fresh(o, &d);
    }
    dialogue_close(&d);
}

static void any_mix_of_turns_equals_a_fresh_conversation(void **state) {
    (void)state;
    Opened o;
    char directory[] = "/tmp/verbatim-dialogue-XXXXXX", path[64], kv[70];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/session", directory);
    snprintf(kv, sizeof kv, "%s.kv", path);
    open_all(&o, 9);
    for (uint32_t seed = 1; seed <= 20; seed++) {
        mix(&o, path, seed, 15);
        unlink(path);
        unlink(kv);
    }
    close_all(&o);
    rmdir(directory);
}

static void resuming_takes_the_pages_from_the_file(void **state) {
    (void)state;
    Opened o;
    char directory[] = "/tmp/verbatim-dialogue-XXXXXX", path[64], kv[70];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/session", directory);
    snprintf(kv, sizeof kv, "%s.kv", path);
    open_all(&o, 8);
    Dialogue d = open_dialogue(&o, path);
    say(&d, "a message of some length, so that there is something to keep");
    AnswerStats first = answer(&d);
    dialogue_close(&d);
    d = open_dialogue(&o, path);
    assert_int_equal(conversation_length(&d.conversation), 2);
    say(&d, "more");
    AnswerStats second = answer(&d);
    assert_true(second.n_cached >= first.n_prompt);
    assert_as_fresh(&o, &d);
    /* Without the pages it takes longer, and nothing else changes. */
    dialogue_close(&d);
    assert_int_equal(truncate(kv, 100), 0);
    d = open_dialogue(&o, path);
    Error error;
    bool retracted;
    assert_int_equal(dialogue_retract(&d, &retracted, &error), STATUS_OK);
    d.attempt = 0;
    assert_int_equal(answer(&d).n_cached, 0);
    assert_as_fresh(&o, &d);
    dialogue_close(&d);
    unlink(path);
    unlink(kv);
    rmdir(directory);
    close_all(&o);
}

static void a_message_cannot_pose_as_structure(void **state) {
    (void)state;
    Opened o;
    Error error;
    TokenList ids = {0};
    open_all(&o, 4);
    Dialogue d = open_dialogue(&o, NULL);
    size_t length;
    const char *bos = tokenizer_token_text(o.session.tokenizer, 256, &length);
    char text[64];
    snprintf(text, sizeof text, "x%.*sy", (int)length, bos);
    say(&d, text);
    assert_int_equal(dialogue_tokens(&d, &ids, &error), STATUS_OK);
    for (size_t i = 0; i < ids.length; i++) assert_int_not_equal(ids.ids[i], 256);
    token_list_free(&ids);
    dialogue_close(&d);
    close_all(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_turn_computes_only_what_is_new),
        cmocka_unit_test(an_answer_can_be_had_again_and_taken_back),
        cmocka_unit_test(a_full_context_leaves_out_whole_oldest_exchanges),
        cmocka_unit_test(a_message_that_cannot_fit_is_an_error_and_can_be_undone),
        cmocka_unit_test(any_mix_of_turns_equals_a_fresh_conversation),
        cmocka_unit_test(resuming_takes_the_pages_from_the_file),
        cmocka_unit_test(a_message_cannot_pose_as_structure),
    };
    return cmocka_run_group_tests_name("dialogue", tests, NULL, NULL);
}
