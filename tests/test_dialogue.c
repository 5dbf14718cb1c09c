/* The promise of the chat: whatever was undone, retried, resumed or left out, an answer is bit for
 * bit the one that a fresh conversation with the same messages gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/dialogue_cases.h"
#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/tier.h"

static const char source[] = "random:tiny,context=160";
/* Models whose sequences lose what they have seen: windows, states. */
static const char *const forgetful[] = {
    "random:tiny,n_layers=3,window=30,window_pattern=3",
    "random:tiny,n_layers=3,attend=3,state_kernel=4",
};

static const char template_text[] =
    "{%- for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}"
    "{%- if add_generation_prompt %}[assistant]{% endif %}";

static void a_second_turn_computes_only_what_is_new(void **state) {
    (void)state;
    Opened o;
    opened_open(&o, source, template_text, 0, 8);
    Dialogue d = dialogue_of(&o, NULL);
    dialogue_said(&d, "hello");
    AnswerStats first = dialogue_answered(&d);
    assert_int_equal(first.n_cached, 0);
    dialogue_said(&d, "and?");
    AnswerStats second = dialogue_answered(&d);
    /* The cache holds the first turn, but not always the last token of its answer: an answer of
     * random bytes may be encoded differently when it is rendered. */
    assert_true(second.n_cached >= first.n_prompt);
    dialogue_assert_as_fresh(&o, &d);
    dialogue_close(&d);
    opened_close(&o);
}

static void an_answer_can_be_had_again_and_taken_back(void **state) {
    (void)state;
    Opened o;
    Error error;
    bool retracted;
    char *text;
    opened_open(&o, source, template_text, 0, 12);
    Dialogue d = dialogue_of(&o, NULL);
    dialogue_said(&d, "hello");
    dialogue_answered(&d);
    char *first = strdup(dialogue_last(&d));
    assert_int_equal(dialogue_retract(&d, &retracted, &error), STATUS_OK);
    assert_true(retracted);
    dialogue_answered(&d);
    assert_string_not_equal(first, dialogue_last(&d));
    dialogue_assert_as_fresh(&o, &d);
    assert_int_equal(dialogue_undo(&d, 1, &text, &error), STATUS_OK);
    assert_string_equal(text, "hello");
    free(text);
    assert_int_equal(conversation_length(&d.conversation), 0);
    dialogue_said(&d, "hello"); /* the same message as at first gets the same answer */
    dialogue_answered(&d);
    assert_string_equal(first, dialogue_last(&d));
    free(first);
    dialogue_close(&d);
    opened_close(&o);
}

static void a_full_context_leaves_out_whole_oldest_exchanges(void **state) {
    (void)state;
    Opened o;
    Error error;
    opened_open(&o, source, template_text, 0, 10);
    Dialogue d = dialogue_of(&o, NULL);
    assert_int_equal(dialogue_set_system(&d, "be brief", &error), STATUS_OK);
    size_t left_out = 0;
    for (int i = 0; i < 12; i++) {
        char text[32];
        snprintf(text, sizeof text, "message %d", i);
        dialogue_said(&d, text);
        AnswerStats stats = dialogue_answered(&d);
        assert_true(stats.n_prompt <= 160 - 160 / 4);
        assert_true(stats.left_out >= left_out && stats.left_out % 2 == 0);
        left_out = stats.left_out;
        dialogue_assert_as_fresh(&o, &d);
    }
    assert_true(left_out > 4);
    assert_string_equal(dialogue_system(&d), "be brief");
    assert_int_equal(conversation_length(&d.conversation), 25); /* the file keeps all messages */
    dialogue_close(&d);
    opened_close(&o);
}

/* What a long conversation leaves out is what it would have left out as it grew, and finding that
 * renders no more messages at once than about what the context holds: this template's memory does
 * not suffice for all of them. */
static const char greedy_template[] =
    "{%- set all = namespace(text='') %}{%- for m in messages %}"
    "{%- set all.text = all.text ~ '[' ~ m.role ~ ']' ~ m.content ~ '\\n' %}{% endfor %}"
    "{{ all.text }}{%- if add_generation_prompt %}[assistant]{% endif %}";

static void a_long_conversation_is_opened_soon(void **state) {
    (void)state;
    enum { SHOWN = 400 };
    const int n_messages = (int)tier_count(10000, 60000, 60000);
    Opened o;
    Error error = {""};
    TokenList ids = {0};
    opened_open(&o, "random:tiny,context=2048", greedy_template, 0, 4);
    Dialogue grown = dialogue_of(&o, NULL), d = dialogue_of(&o, NULL);
    for (int i = 0; i < n_messages; i++) {
        char text[32];
        snprintf(text, sizeof text, "%.*s", 1 + i * 7 % 13, "message of any length");
        const char *role = i % 2 ? "assistant" : "user";
        assert_int_equal(conversation_append(&d.conversation, role, text, strlen(text), &error),
                         STATUS_OK);
        if (i >= SHOWN) continue;
        assert_int_equal(conversation_append(&grown.conversation, role, text, strlen(text), &error),
                         STATUS_OK);
        assert_int_equal(dialogue_tokens(&grown, &ids, &error), STATUS_OK);
    }
    assert_int_equal(dialogue_tokens(&d, &ids, &error), STATUS_OK);
    for (size_t n = 0; n <= SHOWN; n++) assert_int_equal(d.firsts[n], grown.firsts[n]);
    assert_true(grown.firsts[SHOWN] > SHOWN / 2);
    token_list_free(&ids);
    dialogue_close(&grown);
    dialogue_close(&d);
    opened_close(&o);
}

static void a_message_that_cannot_fit_is_an_error_and_can_be_undone(void **state) {
    (void)state;
    Opened o;
    Error error = {""};
    AnswerStats stats;
    AnswerWatcher nobody = {.context = NULL};
    char text[400], *back;
    opened_open(&o, source, template_text, 0, 10);
    Dialogue d = dialogue_of(&o, NULL);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    dialogue_said(&d, text);
    assert_int_equal(dialogue_answer(&d, &nobody, &stats, &error), STATUS_FAILED);
    assert_non_null(strstr(error.text, "does not fit"));
    assert_int_equal(dialogue_undo(&d, 1, &back, &error), STATUS_OK);
    free(back);
    dialogue_said(&d, "shorter");
    dialogue_answered(&d);
    dialogue_assert_as_fresh(&o, &d);
    dialogue_close(&d);
    opened_close(&o);
}

static void mixes(const char *model, const char *chat_template, uint32_t context,
                  uint32_t n_seeds) {
    Opened o;
    char directory[] = "/tmp/verbatim-dialogue-XXXXXX", path[64], kv[70];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/session", directory);
    snprintf(kv, sizeof kv, "%s.kv", path);
    opened_open(&o, model, chat_template, context, 9);
    for (uint32_t seed = 1; seed <= n_seeds; seed++) {
        dialogue_mix(&o, path, seed, 15);
        unlink(path);
        unlink(kv);
    }
    opened_close(&o);
    rmdir(directory);
}

static void any_mix_of_turns_equals_a_fresh_conversation(void **state) {
    (void)state;
    mixes(source, template_text, 0, 20);
}

static void so_it_does_where_windows_and_states_are_lost(void **state) {
    (void)state;
    for (size_t i = 0; i < 2; i++) mixes(forgetful[i], template_text, 320, 8);
}

/* What a state has taken in of earlier thinking is gone when the template leaves it out of the next
 * prompt, as Qwen 3.5's does. */
static void thinking_that_the_template_drops_leaves_no_trace_in_a_state(void **state) {
    (void)state;
    size_t length;
    char *thinks = file_read("tests/fixtures/chat_templates/parameters.jinja", &length);
    assert_non_null(thinks);
    mixes("random:tiny,n_layers=4,attend=4,state_heads=4,state_key_heads=2,state_key_dim=16,"
          "state_value_dim=16,state_kernel=4",
          thinks, 640, 4);
    free(thinks);
}

/* Says a long message after `before` and answers it; returns what was found in the cache. */
static size_t again(Dialogue *d, bool undo) {
    Error error;
    char *text = NULL;
    bool retracted;
    if (undo) {
        assert_int_equal(dialogue_undo(d, 1, &text, &error), STATUS_OK);
        dialogue_said(d, "quite another one");
        free(text);
    } else {
        assert_int_equal(dialogue_retract(d, &retracted, &error), STATUS_OK);
    }
    return dialogue_answered(d).n_cached;
}

static void going_back_computes_only_the_message_again(void **state) {
    (void)state;
    static const char message[] =
        "a long message, so long that no window of this small model, nor what is kept behind it "
        "for "
        "drafts, holds what was said before it, in any of the turns of this conversation";
    char directory[] = "/tmp/verbatim-dialogue-XXXXXX", path[64], kv[70];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/session", directory);
    snprintf(kv, sizeof kv, "%s.kv", path);
    for (size_t i = 0; i < 2; i++) {
        Opened o;
        opened_open(&o, forgetful[i], template_text, 1200, 100);
        Dialogue d = dialogue_of(&o, path);
        dialogue_said(&d, message);
        size_t before = dialogue_answered(&d).n_prompt - 1;
        dialogue_said(&d, message);
        AnswerStats stats = dialogue_answered(&d);
        assert_true(stats.n_cached >= before); /* the answer may be encoded in another way */
        assert_int_equal(again(&d, false), stats.n_prompt - 1);
        dialogue_assert_as_fresh(&o, &d);
        assert_true(again(&d, true) >= before);
        dialogue_assert_as_fresh(&o, &d);
        dialogue_close(&d); /* and the same from the file */
        d = dialogue_of(&o, path);
        d.attempt = 7;
        assert_true(again(&d, true) >= before);
        dialogue_assert_as_fresh(&o, &d);
        dialogue_close(&d);
        opened_close(&o);
        unlink(path);
        unlink(kv);
    }
    rmdir(directory);
}

/* The story model that comes with the program, with its own template and end-of-turn token. */
static void a_models_own_template_makes_no_difference_to_that(void **state) {
    (void)state;
    mixes("models/stories.bin", NULL, 200, 6);
}

/* Says and answers one message in the dialogue of a file, which it closes; returns what is then in
 * the file of keys and values. */
static char *kv_after(Dialogue *d, const char *kv, size_t *length) {
    dialogue_said(d, "hello");
    dialogue_answered(d);
    dialogue_close(d);
    return file_read(kv, length);
}

static void nothing_of_erased_messages_stays_in_the_file_of_pages(void **state) {
    (void)state;
    Opened o;
    Error error;
    char directory[] = "/tmp/verbatim-dialogue-XXXXXX", path[64], kv[70];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/session", directory);
    snprintf(kv, sizeof kv, "%s.kv", path);
    opened_open(&o, source, template_text, 0, 8);
    Dialogue d = dialogue_of(&o, path);
    size_t fresh_length, length, empty;
    free(file_read(kv, &empty));
    char *fresh = kv_after(&d, kv, &fresh_length);
    assert_true(fresh_length > empty);
    for (int adopts = 0; adopts < 2; adopts++) {
        unlink(path);
        unlink(kv);
        d = dialogue_of(&o, path);
        dialogue_said(&d, "a secret of some length, so that there is something to forget");
        dialogue_answered(&d);
        assert_int_equal(adopts ? dialogue_adopt(&d, "other", "", 0, &error)
                                : dialogue_reset(&d, &error),
                         STATUS_OK);
        free(file_read(kv, &length));
        assert_int_equal(length, empty);
        char *now = kv_after(&d, kv, &length);
        assert_int_equal(length, fresh_length);
        assert_memory_equal(now, fresh, length);
        free(now);
    }
    free(fresh);
    unlink(path);
    unlink(kv);
    rmdir(directory);
    opened_close(&o);
}

static void resuming_takes_the_pages_from_the_file(void **state) {
    (void)state;
    Opened o;
    char directory[] = "/tmp/verbatim-dialogue-XXXXXX", path[64], kv[70];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/session", directory);
    snprintf(kv, sizeof kv, "%s.kv", path);
    opened_open(&o, source, template_text, 0, 8);
    Dialogue d = dialogue_of(&o, path);
    dialogue_said(&d, "a message of some length, so that there is something to keep");
    AnswerStats first = dialogue_answered(&d);
    dialogue_close(&d);
    d = dialogue_of(&o, path);
    assert_int_equal(conversation_length(&d.conversation), 2);
    dialogue_said(&d, "more");
    AnswerStats second = dialogue_answered(&d);
    assert_true(second.n_cached >= first.n_prompt);
    dialogue_assert_as_fresh(&o, &d);
    /* Without the pages it takes longer, but nothing else changes. */
    dialogue_close(&d);
    assert_int_equal(truncate(kv, 100), 0);
    d = dialogue_of(&o, path);
    Error error;
    bool retracted;
    assert_int_equal(dialogue_retract(&d, &retracted, &error), STATUS_OK);
    d.attempt = 0;
    assert_int_equal(dialogue_answered(&d).n_cached, 0);
    dialogue_assert_as_fresh(&o, &d);
    dialogue_close(&d);
    unlink(path);
    unlink(kv);
    rmdir(directory);
    opened_close(&o);
}

static void a_file_that_cannot_be_replaced_leaves_the_conversation_as_it_was(void **state) {
    (void)state;
    Opened o;
    Error error = {""};
    char *directory = fixture_directory(), *path = fixture_path(directory, "session"), name[64];
    char *back;
    snprintf(name, sizeof name, "session.%ld.tmp", (long)getpid());
    char *in_the_way = fixture_path(directory, name);
    opened_open(&o, source, template_text, 0, 8);
    Dialogue d = dialogue_of(&o, path);
    assert_int_equal(dialogue_set_system(&d, "be brief", &error), STATUS_OK);
    dialogue_said(&d, "hello");
    dialogue_answered(&d);
    assert_int_equal(dialogue_set_system(&d, "not UTF-8: \xFF", &error), STATUS_FAILED);
    assert_int_equal(mkdir(in_the_way, 0700), 0);
    assert_int_equal(dialogue_undo(&d, 1, &back, &error), STATUS_FAILED);
    free(back);
    assert_int_equal(dialogue_set_system(&d, "be long", &error), STATUS_FAILED);
    assert_string_equal(dialogue_system(&d), "be brief");
    assert_int_equal(conversation_length(&d.conversation), 3);
    assert_int_equal(rmdir(in_the_way), 0);
    dialogue_said(&d, "and?");
    dialogue_answered(&d);
    dialogue_assert_as_fresh(&o, &d);
    dialogue_close(&d);
    d = dialogue_of(&o, path);
    assert_int_equal(conversation_length(&d.conversation), 5);
    dialogue_close(&d);
    opened_close(&o);
    free(path);
    free(in_the_way);
    fixture_remove_directory(directory);
}

static void a_message_cannot_pose_as_structure(void **state) {
    (void)state;
    Opened o;
    Error error;
    TokenList ids = {0};
    opened_open(&o, source, template_text, 0, 4);
    Dialogue d = dialogue_of(&o, NULL);
    size_t length;
    const char *bos = tokenizer_token_text(o.session.tokenizer, 256, &length);
    char text[64];
    snprintf(text, sizeof text, "x%.*sy", (int)length, bos);
    dialogue_said(&d, text);
    assert_int_equal(dialogue_tokens(&d, &ids, &error), STATUS_OK);
    for (size_t i = 0; i < ids.length; i++) assert_int_not_equal(ids.ids[i], 256);
    token_list_free(&ids);
    dialogue_close(&d);
    opened_close(&o);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_turn_computes_only_what_is_new),
        cmocka_unit_test(an_answer_can_be_had_again_and_taken_back),
        cmocka_unit_test(a_full_context_leaves_out_whole_oldest_exchanges),
        cmocka_unit_test(a_long_conversation_is_opened_soon),
        cmocka_unit_test(a_message_that_cannot_fit_is_an_error_and_can_be_undone),
        cmocka_unit_test(any_mix_of_turns_equals_a_fresh_conversation),
        cmocka_unit_test(so_it_does_where_windows_and_states_are_lost),
        cmocka_unit_test(thinking_that_the_template_drops_leaves_no_trace_in_a_state),
        cmocka_unit_test(going_back_computes_only_the_message_again),
        cmocka_unit_test(a_models_own_template_makes_no_difference_to_that),
        cmocka_unit_test(nothing_of_erased_messages_stays_in_the_file_of_pages),
        cmocka_unit_test(resuming_takes_the_pages_from_the_file),
        cmocka_unit_test(a_file_that_cannot_be_replaced_leaves_the_conversation_as_it_was),
        cmocka_unit_test(a_message_cannot_pose_as_structure),
    };
    return cmocka_run_group_tests_name("dialogue", tests, NULL, NULL);
}
